//! Carries out a plan of what waits in HBM: new tensors for the later stays, and the transfers between them.

use super::Builder;
use crate::liveness::Lifetime;
use crate::loops::Loop;
use crate::placement::{Fit, Region};
use crate::spill::{self, Source, Spill, Stay};
use std::collections::BTreeMap;
use trn3_isa::{Argument, Arguments, Context, Instruction, Opcode};
use trn3_mem::{Role, Space, TensorId, TensorInfo};

/// A transfer of the plan.
struct Move {
    instruction: Instruction,
    /// The tensor as it was declared.
    tensor: usize,
    is_store: bool,
}

impl Builder {
    /// Lets tensors wait in HBM so that the others fit into SBUF: the addresses in SBUF, by tensor. Nothing has changed if
    /// even that is not enough.
    pub(super) fn spill(
        &mut self,
        loops: &mut [Loop],
        lives: &[Option<Lifetime>],
        spills: &mut Vec<Spill>,
    ) -> Option<Vec<Option<u64>>> {
        let region = Region::of(&self.target, Space::Sbuf, Fit::Best, &self.tensors, lives);
        let stays = spill::plan(&self.tables(), &self.instructions, loops, lives, region).ok()?;
        let mut planned = vec![None; self.tensors.len()];
        let mut slots: BTreeMap<usize, TensorId> = BTreeMap::new();
        // For each tensor, its stays: the first instruction, and the tensor that it is then.
        let mut versions: Vec<Vec<(u32, TensorId)>> = vec![Vec::new(); self.tensors.len()];
        let (mut before, mut after): (BTreeMap<u32, Vec<Move>>, BTreeMap<u32, Vec<Move>>) = Default::default();
        for stay in &stays {
            let held = self.version(stay, &mut planned, &mut versions);
            if let Some(source) = stay.reload {
                let instruction = match source {
                    Source::Slot => {
                        let slot = self.slot(stay, &mut slots);
                        self.transfer(held, slot, "reload")
                    }
                    Source::Load(at) => self.load_again(held, at),
                };
                let each = Move { instruction, tensor: stay.tensor, is_store: false };
                before.entry(stay.from).or_default().push(each);
            }
            if let Some(last_use) = stay.stored_after {
                let slot = self.slot(stay, &mut slots);
                let instruction = self.transfer(slot, held, "spill");
                after.entry(last_use).or_default().push(Move { instruction, tensor: stay.tensor, is_store: true });
            }
        }
        let needed_by = |tensor: usize| {
            let left = stays.iter().find(|stay| stay.tensor == tensor && stay.needed_by.is_some());
            left.and_then(|stay| stay.needed_by).map_or(0, |at| self.instructions[at as usize].line)
        };
        let moved = before.values().chain(after.values()).flatten().map(|each| each.tensor);
        let mut found: BTreeMap<usize, Spill> = moved.map(|tensor| (tensor, Spill::default())).collect();
        for (&tensor, spill) in &mut found {
            let slot = slots.get(&tensor).copied();
            *spill = Spill { tensor: TensorId(tensor as u32), slot, needed_by: needed_by(tensor), ..Spill::default() };
        }
        self.weave(loops, before, after, &versions, &mut found);
        planned.resize(self.tensors.len(), None);
        spills.extend(found.into_values());
        Some(planned)
    }

    /// The tensor of a stay: the declared one for the first, a new one for each later.
    fn version(
        &mut self,
        stay: &Stay,
        planned: &mut Vec<Option<u64>>,
        versions: &mut [Vec<(u32, TensorId)>],
    ) -> TensorId {
        let known = versions[stay.tensor].len();
        let id = if known == 0 {
            TensorId(stay.tensor as u32)
        } else {
            let info = &self.tensors[stay.tensor];
            let name = format!("{} (stay {})", info.name, known + 1);
            self.add(TensorInfo { name, ..info.clone() })
        };
        planned.resize(planned.len().max(id.index() + 1), None);
        planned[id.index()] = Some(stay.address);
        versions[stay.tensor].push((stay.from, id));
        id
    }

    /// The tensor's place in HBM.
    fn slot(&mut self, stay: &Stay, slots: &mut BTreeMap<usize, TensorId>) -> TensorId {
        if let Some(&slot) = slots.get(&stay.tensor) {
            return slot;
        }
        let info = &self.tensors[stay.tensor];
        let name = format!("{} (spilled)", info.name);
        let slot = TensorInfo { name, space: Space::PrivateHbm, role: Role::Internal, ..info.clone() };
        self.hbm_bytes += slot.bytes();
        let slot = self.add(slot);
        slots.insert(stay.tensor, slot);
        slot
    }

    fn add(&mut self, info: TensorInfo) -> TensorId {
        self.tensors.push(info);
        TensorId((self.tensors.len() - 1) as u32)
    }

    /// A transfer of a whole tensor.
    fn transfer(&mut self, dst: TensorId, src: TensorId, label: &str) -> Instruction {
        let definition = Opcode::DmaCopy.definition();
        let views = [dst, src].map(|id| Argument::View(Box::new(self.tensors[id.index()].view(id))));
        let arguments = Arguments::new(definition.parameters, &views);
        let line = self.tensors[dst.index()].line;
        let (mut before, mut findings) = (Vec::new(), Vec::new());
        let mut context = Context {
            target: &self.target,
            options: self.options,
            patterns: &mut self.patterns,
            findings: &mut findings,
            before: &mut before,
            line,
        };
        let mut instruction =
            (definition.build)(&arguments, &mut context).expect("tensors of one shape and type can be copied");
        (instruction.line, instruction.name) = (line, self.label(label));
        instruction
    }

    /// The transfer that loaded a tensor at first, for a later stay.
    fn load_again(&mut self, held: TensorId, at: u32) -> Instruction {
        let mut instruction = self.instructions[at as usize];
        instruction.operands[0].tensor = held;
        (instruction.line, instruction.name) = (self.tensors[held.index()].line, self.label("reload"));
        instruction
    }

    /// Puts the transfers between the instructions, and what the stays are between their operands.
    fn weave(
        &mut self,
        loops: &mut [Loop],
        mut before: BTreeMap<u32, Vec<Move>>,
        mut after: BTreeMap<u32, Vec<Move>>,
        versions: &[Vec<(u32, TensorId)>],
        spills: &mut BTreeMap<usize, Spill>,
    ) {
        let old = std::mem::take(&mut self.instructions);
        let mut numbers = Vec::with_capacity(old.len() + 1);
        let mut woven: Vec<Instruction> = Vec::with_capacity(old.len());
        let mut insert = |moves: Option<Vec<Move>>, woven: &mut Vec<Instruction>| {
            for each in moves.into_iter().flatten() {
                let spill = spills.get_mut(&each.tensor).expect("what moves has a slot");
                let list = if each.is_store { &mut spill.stores } else { &mut spill.reloads };
                list.push(woven.len() as u32);
                woven.push(each.instruction);
            }
        };
        for (at, mut instruction) in (0u32..).zip(old) {
            insert(before.remove(&at), &mut woven);
            numbers.push(woven.len() as u32);
            for operand in instruction.operands.iter_mut().filter(|operand| operand.is_some()) {
                if let Some(stays) = versions.get(operand.tensor.index()).filter(|stays| stays.len() > 1) {
                    let current = stays.partition_point(|&(from, _)| from <= at);
                    operand.tensor = stays[current - 1].1;
                }
            }
            woven.push(instruction);
            insert(after.remove(&at), &mut woven);
        }
        numbers.push(woven.len() as u32);
        self.instructions = woven;
        for each in loops {
            (each.begin, each.end) = (numbers[each.begin as usize], numbers[each.end as usize]);
        }
        for fill in &mut self.fills {
            fill.before = numbers[fill.before as usize];
        }
    }
}
