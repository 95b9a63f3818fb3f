//! What each source line asked for, and what it got: instructions, engine time, waiting, bytes, and its share of the
//! critical path.

use crate::critical::CriticalPath;
use crate::timeline::Timeline;
use std::collections::BTreeMap;
use trn3_isa::{Cost, Engine, Instruction};
use trn3_program::Program;
use trn3_sim::{Clock, Picos};
use trn3_spec::Target;

/// What one source line took.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct LineUse {
    /// Instructions that ran, every turn of a loop counted.
    pub instructions: u64,
    /// Time from issue to result, summed over them.
    pub in_flight: Picos,
    /// Time in which they streamed through the data path of each engine, in the order of [`Engine::ALL`].
    pub engines: [Picos; 5],
    /// Time of the DMA engines, as if all of them worked at once.
    pub dma: Picos,
    /// Bytes that its transfers wrote.
    pub dma_bytes: u64,
    /// Transfers.
    pub transfers: u64,
    /// Time in which the data paths of engines stood still for its instructions, by what these waited for, largest first.
    pub stalls: Vec<(&'static str, Picos)>,
    /// Time that it has on the critical path.
    pub critical: Picos,
}

/// Clocks of the engines, in the order of [`Engine::ALL`].
fn clocks(target: &Target) -> [Clock; 5] {
    let core = &target.core;
    [core.tensor.clock_hz, core.vector.clock_hz, core.scalar.clock_hz, core.gpsimd.clock_hz, core.sync.clock_hz]
        .map(Clock::new)
}

/// How long an instruction streams through its engine's data path, if nothing disturbs it.
fn stream(instruction: &Instruction, program: &Program, target: &Target, clock: &Clock) -> Picos {
    match (instruction.opcode.definition().cost)(instruction, &program.tables(), target) {
        Cost::Stream(cost) | Cost::Activation(cost, _) => clock.span(cost.stream),
        Cost::Multiply(cost) => clock.span(cost.stream) * u64::from(cost.halves),
        Cost::Transfer(_) | Cost::Control(_) | Cost::Meeting(_) => Picos::ZERO,
    }
}

fn add(stalls: &mut Vec<(&'static str, Picos)>, cause: &'static str, time: Picos) {
    match stalls.iter_mut().find(|(known, _)| *known == cause) {
        Some((_, sum)) => *sum += time,
        None => stalls.push((cause, time)),
    }
}

impl Timeline {
    /// What each source line took, by its number in the Program. Sequencers' own work counts on their engines.
    pub fn lines(&self, program: &Program, target: &Target, path: &CriticalPath) -> BTreeMap<u32, LineUse> {
        let mut lines: BTreeMap<u32, LineUse> = BTreeMap::new();
        let clocks = clocks(target);
        let instruction = |at: u32| &program.instructions[self.schedule.instances.instruction(at as usize)];
        for (at, time) in self.schedule.times.iter().enumerate() {
            let instruction = instruction(at as u32);
            let line = lines.entry(instruction.line).or_default();
            line.instructions += 1;
            line.in_flight += time.end.saturating_sub(time.issue);
            let engine = instruction.engine as usize;
            line.engines[engine] += stream(instruction, program, target, &clocks[engine]);
        }
        for wait in self.schedule.engines.iter().flat_map(|engine| &engine.waits) {
            let line = lines.entry(instruction(wait.instance).line).or_default();
            add(&mut line.stalls, wait.cause.name(), wait.span);
        }
        for control in &self.schedule.control {
            let line = lines.entry(instruction(control.instance).line).or_default();
            line.engines[control.engine as usize] += control.time.end.saturating_sub(control.time.issue);
        }
        for (at, completion) in &self.completions {
            let line = lines.entry(instruction(*at).line).or_default();
            line.transfers += 1;
            line.dma_bytes += completion.transfer.shape.written_bytes();
            let busy: Picos = completion.engines.iter().map(|work| work.busy).sum();
            line.dma += Picos(busy.0 / (completion.engines.len() as u64).max(1));
        }
        for segment in &path.segments {
            if let Some(at) = segment.instance {
                lines.entry(instruction(at).line).or_default().critical += segment.span();
            }
        }
        for line in lines.values_mut() {
            line.stalls.sort_by(|a, b| b.1.cmp(&a.1).then(a.0.cmp(b.0)));
        }
        lines
    }
}

/// The name of an engine by its place in [`LineUse::engines`].
pub fn engine_names() -> [&'static str; 5] {
    Engine::ALL.map(Engine::name)
}
