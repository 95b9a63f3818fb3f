//! What the two cores of a logical core do to one shared tensor where nothing orders them.
//!
//! Between two meetings the cores run freely: bytes that one of them writes there must not be touched by the other.
//! Every loop is walked twice, as for waits. Places that are known only at run time are left out.

use super::Builder;
use super::unwritten::touched;
use crate::loops;
use std::collections::HashSet;
use trn3_isa::{Finding, Instruction};
use trn3_mem::{Coverage, Fault, TensorId, View, Violation};

/// A shared tensor as an operand, between two meetings.
#[derive(Debug, Clone, Copy)]
struct Touch {
    /// Which of the shared tensors.
    shared: usize,
    instruction: u32,
    slot: usize,
    writes: bool,
}

/// The races of core 1 with core 0: one finding for each line of core 1 and tensor, the line being one of core 1.
pub(super) fn races(first: &Builder, second: &Builder, shared: &[(TensorId, TensorId)]) -> Vec<Finding> {
    let ours: Vec<TensorId> = shared.iter().map(|&(ours, _)| ours).collect();
    let theirs: Vec<TensorId> = shared.iter().map(|&(_, theirs)| theirs).collect();
    let (ours, theirs) = (first.between_meetings(&ours), second.between_meetings(&theirs));
    if ours.len() != theirs.len() {
        // They will wait for each other for ever, which the run says.
        return Vec::new();
    }
    let mut known = HashSet::new();
    let mut findings = Vec::new();
    for (ours, theirs) in ours.iter().zip(&theirs) {
        let mut states = vec![Accesses::default(); shared.len()];
        for touch in ours {
            states[touch.shared].note(first, touch);
        }
        for touch in theirs {
            let state = &states[touch.shared];
            let runs = || second.touched_views(touch).into_iter().flat_map(|view| view.byte_runs().collect::<Vec<_>>());
            let race = state.written.touches(runs()) || touch.writes && state.read.touches(runs());
            let line = second.instructions[touch.instruction as usize].line;
            if race && known.insert((touch.shared, line)) {
                findings.push(Finding { violation: violation(first, second, ours, touch), line });
            }
        }
    }
    findings
}

/// What core 0 does to a tensor between two meetings.
#[derive(Debug, Clone)]
struct Accesses {
    written: Coverage,
    read: Coverage,
}

impl Default for Accesses {
    fn default() -> Self {
        Accesses { written: Coverage::Empty, read: Coverage::Empty }
    }
}

impl Accesses {
    fn note(&mut self, builder: &Builder, touch: &Touch) {
        let covered = if touch.writes { &mut self.written } else { &mut self.read };
        builder.cover(covered, touch);
    }
}

impl Builder {
    /// What touches the shared tensors, cut at the meetings of the cores.
    fn between_meetings(&self, shared: &[TensorId]) -> Vec<Vec<Touch>> {
        let mut numbers = vec![None; self.tensors.len()];
        shared.iter().enumerate().for_each(|(number, id)| numbers[id.index()] = Some(number));
        let mut segments = vec![Vec::new()];
        for at in loops::walk(&self.instructions, &self.loops.all) {
            let instruction = &self.instructions[at as usize];
            if instruction.opcode.is_meeting() {
                segments.push(Vec::new());
                continue;
            }
            let segment = segments.last_mut().expect("there is one from the start");
            for (slot, operand) in instruction.operands.iter().enumerate().filter(|(_, operand)| operand.is_some()) {
                let Some(shared) = numbers[operand.tensor.index()].filter(|_| !instruction.is_dynamic(slot)) else {
                    continue;
                };
                for (writes, mask) in [(false, instruction.reads), (true, instruction.writes)] {
                    if mask >> slot & 1 == 1 {
                        segment.push(Touch { shared, instruction: at, slot, writes });
                    }
                }
            }
        }
        segments
    }

    fn touched_views(&self, touch: &Touch) -> Vec<View> {
        let instruction: &Instruction = &self.instructions[touch.instruction as usize];
        let rows = (instruction.opcode.definition().rows)(instruction, &self.tables(), touch.slot);
        touched(self.view_of(&instruction.operands[touch.slot]), rows)
    }

    fn cover(&self, covered: &mut Coverage, touch: &Touch) {
        let tensor = self.instructions[touch.instruction as usize].operands[touch.slot].tensor;
        for view in self.touched_views(touch) {
            covered.mark(self.tensors[tensor.index()].bytes(), view.byte_runs());
        }
    }
}

fn violation(first: &Builder, second: &Builder, ours: &[Touch], touch: &Touch) -> Violation {
    let mut covered = Coverage::Empty;
    second.cover(&mut covered, touch);
    let meets = |other: &&Touch| {
        other.shared == touch.shared
            && (other.writes || touch.writes)
            && first.touched_views(other).iter().any(|view| covered.touches(view.byte_runs()))
    };
    let other = ours.iter().find(meets).expect("what was covered was touched");
    let instruction = &second.instructions[touch.instruction as usize];
    let line = first.lines[first.instructions[other.instruction as usize].line as usize].line;
    let verb = |writes: bool| if writes { "writes" } else { "reads" };
    Violation::new(
        "cores.race",
        second.tensors[instruction.operands[touch.slot].tensor.index()].name.clone(),
        format!("core 1 {} bytes that core 0 {} in line {line}", verb(touch.writes), verb(other.writes)),
        "nothing orders the cores but what both come to, so the values may be others on hardware",
        "write disjoint parts, and nisa.core_barrier before one core reads what the other wrote",
    )
    .of(Fault::Race)
    .in_instruction(instruction.opcode.definition().name)
}
