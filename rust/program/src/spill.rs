//! SBUF over capacity: which tensors wait in HBM, and when.
//!
//! The plan walks through the program with SBUF as it fills. A tensor that finds no gap takes the place of those that are
//! used again last (Belady's choice); these are stored after their last use, unless HBM has their values already (they were
//! loaded from a tensor that nothing writes, or stored before), and loaded
//! again, at an address of their own, some instructions before their next, so that the way from HBM is hidden. A tensor that is overwritten before it is read again is neither
//! stored nor loaded. What a dynamic loop touches stays for as long as the outermost loop runs.

use crate::area::Area;
use crate::liveness::Lifetime;
use crate::loops::Loop;
use crate::placement::Region;
use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;
use trn3_isa::{Instruction, Opcode, Rows, Tables};
use trn3_mem::{Space, TensorId};

/// A tensor that had no room in SBUF all the time.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Spill {
    /// The tensor as it was declared.
    pub tensor: TensorId,
    /// Where it waits in HBM; none if all that it holds came from there.
    pub slot: Option<TensorId>,
    /// Transfers to HBM, by instruction.
    pub stores: Vec<u32>,
    /// Transfers from HBM, by instruction.
    pub reloads: Vec<u32>,
    /// The line whose instruction needed the room first.
    pub needed_by: u32,
}

impl Default for Spill {
    fn default() -> Self {
        Spill { tensor: TensorId::NONE, slot: None, stores: Vec::new(), reloads: Vec::new(), needed_by: 0 }
    }
}

/// Where HBM has the values of a tensor.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Source {
    /// In the tensor's slot.
    Slot,
    /// Where that instruction loaded them from.
    Load(u32),
}

/// A tensor's stay in SBUF.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Stay {
    /// The tensor, as declared.
    pub(crate) tensor: usize,
    /// Byte within each partition.
    pub(crate) address: u64,
    /// The first instruction that it is for.
    pub(crate) from: u32,
    /// What is loaded before that, if it is.
    pub(crate) reload: Option<Source>,
    /// The instruction after which it is stored, if it is.
    pub(crate) stored_after: Option<u32>,
    /// The instruction that needed the room, if it had to leave.
    pub(crate) needed_by: Option<u32>,
}

/// No tensor had to leave that would have made room.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct TooMuch {
    /// The tensor that found no room.
    pub(crate) tensor: usize,
}

/// Points by which a tensor is loaded before it is used, if there is room: about the latency of a transfer in instructions
/// of a fraction of a microsecond (the recorder's own choice).
const AHEAD: usize = 24;

/// Instructions between which nothing can be stored or loaded: one, or a whole dynamic loop.
#[derive(Clone, Copy)]
struct Point {
    first: u32,
    last: u32,
}

/// What is known of a tensor at the point that the walk has come to.
#[derive(Default)]
struct State {
    /// Points that use it.
    uses: Vec<u32>,
    /// Uses that are past.
    past: usize,
    /// Its stay, while it is in SBUF.
    stay: Option<usize>,
    /// Whether it has been in SBUF.
    began: bool,
    /// Where HBM holds what it holds.
    source: Option<Source>,
    /// Whether its next use overwrites it.
    dead: bool,
    /// The last instruction that used it.
    last_use: u32,
}

impl State {
    fn next_use(&self) -> u32 {
        self.uses.get(self.past).copied().unwrap_or(u32::MAX)
    }
}

struct Planner<'a> {
    tables: &'a Tables<'a>,
    instructions: &'a [Instruction],
    points: Vec<Point>,
    states: Vec<State>,
    lives: &'a [Option<Lifetime>],
    region: Region,
    /// For each tensor, whether some instruction writes it.
    written: Vec<bool>,
    /// Tensors that are in SBUF, by address.
    residents: BTreeMap<u64, usize>,
    stays: Vec<Stay>,
}

/// Plans the stays of all tensors that the recorder places in SBUF, in the order in which they begin.
///
/// # Errors
/// What one instruction, or one dynamic loop, uses does not fit together.
pub(crate) fn plan(
    tables: &Tables<'_>,
    instructions: &[Instruction],
    loops: &[Loop],
    lives: &[Option<Lifetime>],
    region: Region,
) -> Result<Vec<Stay>, TooMuch> {
    let mut points = Vec::new();
    let mut at = 0;
    let mut outermost = loops.iter().filter(|each| each.outer.is_none()).peekable();
    while at < instructions.len() as u32 {
        let last = outermost.next_if(|each| each.begin == at).map_or(at, |each| each.end);
        points.push(Point { first: at, last });
        at = last + 1;
    }
    let mut states: Vec<State> = Vec::new();
    states.resize_with(tables.tensors.len(), State::default);
    for (number, point) in points.iter().enumerate() {
        for instruction in &instructions[point.first as usize..=point.last as usize] {
            for tensor in placed(instruction, tables) {
                let uses = &mut states[tensor].uses;
                if uses.last() != Some(&(number as u32)) {
                    uses.push(number as u32);
                }
            }
        }
    }
    let mut written = vec![false; tables.tensors.len()];
    for operand in instructions.iter().flat_map(|each| each.written_operands()).filter(|operand| operand.is_some()) {
        written[operand.tensor.index()] = true;
    }
    let (residents, stays) = (BTreeMap::new(), Vec::new());
    let mut planner = Planner { tables, instructions, points, states, lives, region, written, residents, stays };
    for number in 0..planner.points.len() {
        planner.visit(number)?;
    }
    Ok(planner.stays)
}

/// The tensors of an instruction that the recorder places in SBUF.
fn placed(instruction: &Instruction, tables: &Tables<'_>) -> impl Iterator<Item = usize> {
    let operands = instruction.operands.iter().filter(|operand| operand.is_some());
    operands.map(|operand| operand.tensor.index()).filter(|&tensor| {
        let info = &tables.tensors[tensor];
        info.space == Space::Sbuf && info.address.is_none()
    })
}

impl Planner<'_> {
    fn visit(&mut self, number: usize) -> Result<(), TooMuch> {
        let Point { first, last } = self.points[number];
        let range = first as usize..=last as usize;
        let mut used: Vec<usize> =
            self.instructions[range.clone()].iter().flat_map(|each| placed(each, self.tables)).collect();
        used.sort_unstable();
        used.dedup();
        self.fetch_ahead(number);
        if self.enter_all(number, &used).is_err() {
            // What is used here stands in its own way: everything moves.
            for &tensor in &used {
                if self.states[tensor].stay.is_some() {
                    self.evict(tensor, first);
                }
            }
            self.enter_all(number, &used)?;
        }
        for instruction in &self.instructions[range] {
            for operand in instruction.written_operands().filter(|operand| operand.is_some()) {
                self.states[operand.tensor.index()].source = None;
            }
        }
        if first == last && self.is_load(first) {
            let tensor = self.instructions[first as usize].operands[0].tensor.index();
            self.states[tensor].source = Some(Source::Load(first));
        }
        for &tensor in &used {
            let state = &mut self.states[tensor];
            state.past += 1;
            state.last_use = last;
            if state.next_use() == u32::MAX {
                let stay = state.stay.take().expect("a tensor in use has a stay");
                self.leave(stay);
            }
        }
        Ok(())
    }

    /// Loads what a later point uses, where it takes the place of what is used later still.
    fn fetch_ahead(&mut self, number: usize) {
        let Some(&Point { first, last }) = self.points.get(number + AHEAD) else { return };
        let instructions = &self.instructions[first as usize..=last as usize];
        let mut wanted: Vec<usize> = instructions.iter().flat_map(|each| placed(each, self.tables)).collect();
        wanted.sort_unstable();
        wanted.dedup();
        for tensor in wanted {
            let state = &self.states[tensor];
            if state.stay.is_none() && state.began && !state.dead && state.next_use() as usize >= number {
                // Where there is no room yet, it is loaded when it is used.
                let _ = self.enter(tensor, number, number + AHEAD);
            }
        }
    }

    /// Brings what a point uses into SBUF, all or none of it: the largest first, so that the others fit into what it
    /// leaves.
    fn enter_all(&mut self, number: usize, used: &[usize]) -> Result<(), TooMuch> {
        let missing = used.iter().copied().filter(|&tensor| self.states[tensor].stay.is_none());
        let mut missing: Vec<usize> = missing.collect();
        missing.sort_by_key(|&tensor| (std::cmp::Reverse(self.tables.tensors[tensor].partition_bytes()), tensor));
        let mut entered = Vec::new();
        for tensor in missing {
            let before = (self.states[tensor].began, self.states[tensor].dead);
            if let Err(too_much) = self.enter(tensor, number, number) {
                for (tensor, (began, dead)) in entered.into_iter().rev() {
                    let state: &mut State = &mut self.states[tensor];
                    (state.began, state.dead, state.stay) = (began, dead, None);
                    self.leave(self.stays.len() - 1);
                    self.stays.pop();
                }
                return Err(too_much);
            }
            entered.push((tensor, before));
        }
        Ok(())
    }

    /// Brings a tensor into SBUF at a point, in place of tensors that are used after `horizon` only.
    fn enter(&mut self, tensor: usize, number: usize, horizon: usize) -> Result<(), TooMuch> {
        let first = self.points[number].first;
        let last = self.lives[tensor].map_or(first, |life| life.last);
        let life = Lifetime { first, last };
        let bytes = self.tables.tensors[tensor].partition_bytes();
        let address = match self.region.find(bytes, life) {
            Some(address) => address,
            None => {
                let address = self.best_place(bytes, life, horizon).ok_or(TooMuch { tensor })?;
                let end = address + self.region.rounded(bytes);
                let in_the_way: Vec<usize> =
                    self.region.within(address, end).map(|start| self.residents[&start]).collect();
                for victim in in_the_way {
                    self.evict(victim, first);
                }
                address
            }
        };
        self.region.occupy(address, bytes, life, tensor);
        self.residents.insert(address, tensor);
        let state = &mut self.states[tensor];
        let reload = state.source.filter(|_| state.began && !state.dead);
        (state.began, state.dead, state.stay) = (true, false, Some(self.stays.len()));
        self.stays.push(Stay { tensor, address, from: first, reload, stored_after: None, needed_by: None });
        Ok(())
    }

    /// Where the tensors that are in the way are used again last, and of equal places where least must be stored.
    fn best_place(&self, bytes: u64, life: Lifetime, horizon: usize) -> Option<u64> {
        let size = self.region.rounded(bytes);
        let mut best: Option<(u32, std::cmp::Reverse<u64>, std::cmp::Reverse<u64>)> = None;
        for start in self.region.starts(size, life) {
            let (mut soonest, mut stored) = (u32::MAX, 0);
            for address in self.region.within(start, start + size) {
                let tensor = self.residents[&address];
                let state = &self.states[tensor];
                soonest = if state.next_use() as usize <= horizon { 0 } else { soonest.min(state.next_use()) };
                if state.source.is_none() && !self.is_dead(tensor) {
                    stored += self.tables.tensors[tensor].bytes();
                }
                if soonest == 0 {
                    break;
                }
            }
            if soonest > 0 {
                best = best.max(Some((soonest, std::cmp::Reverse(stored), std::cmp::Reverse(start))));
            }
        }
        best.map(|(_, _, start)| start.0)
    }

    fn evict(&mut self, tensor: usize, needed_by: u32) {
        let dead = self.is_dead(tensor);
        let state = &mut self.states[tensor];
        let stay = state.stay.take().expect("only what is in SBUF is in the way");
        self.stays[stay].needed_by = Some(needed_by);
        if !dead && state.source.is_none() {
            self.stays[stay].stored_after = Some(state.last_use);
            state.source = Some(Source::Slot);
        }
        state.dead = dead;
        self.leave(stay);
    }

    fn leave(&mut self, stay: usize) {
        let address = self.stays[stay].address;
        self.region.free(address);
        self.residents.remove(&address);
    }

    /// Whether an instruction loads the whole of a tensor from one in HBM that nothing writes, as it is there.
    fn is_load(&self, at: u32) -> bool {
        let instruction = &self.instructions[at as usize];
        let [dst, src, ..] = &instruction.operands;
        if instruction.opcode != Opcode::DmaCopy || instruction.dynamic != 0 || instruction.reads >> 1 & 1 == 0 {
            return false;
        }
        let others = instruction.operands[2..].iter().any(|operand| operand.is_some());
        let (to, from) = (self.tables.tensor(dst), self.tables.tensor(src));
        let whole = Area::of(dst, self.tables) == (Area::all(to), true);
        !others
            && instruction.reads & 1 == 0
            && whole
            && to.space == Space::Sbuf
            && to.address.is_none()
            && !from.space.is_on_chip()
            && !self.written[src.tensor.index()]
            && self.tables.pattern(dst).dtype == self.tables.pattern(src).dtype
    }

    /// Whether the next use of a tensor overwrites all of it without reading it.
    fn is_dead(&self, tensor: usize) -> bool {
        let Some(point) = self.points.get(self.states[tensor].next_use() as usize) else { return true };
        if point.first != point.last {
            return false;
        }
        let instruction = &self.instructions[point.first as usize];
        let info = &self.tables.tensors[tensor];
        let mut overwritten = false;
        for (slot, operand) in instruction.operands.iter().enumerate() {
            if !operand.is_some() || operand.tensor.index() != tensor {
                continue;
            }
            if instruction.reads >> slot & 1 == 1 || instruction.is_dynamic(slot) {
                return false;
            }
            let (area, whole) = Area::of(operand, self.tables);
            let rows = (instruction.opcode.definition().rows)(instruction, self.tables, slot);
            overwritten |= whole && rows == Rows::All && area == Area::all(info);
        }
        overwritten
    }
}
