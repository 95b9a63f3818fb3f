//! Which earlier instructions an instruction waits for, from the addresses they touch.
//!
//! Read after write, write after read and write after write through a tensor give an edge, and so does an address that
//! a new tensor takes over from older ones. Accesses are kept as boxes (rows by bytes): two boxes that meet count as a
//! conflict even where strides would keep their bytes apart, so an edge may be more than the hardware needs, never less.
//! Of several producers on one compute engine only the last is kept, since an engine completes in order; transfers are
//! all kept.

use crate::loops::{self, Loop};
use crate::program::Place;
use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;
use trn3_isa::{Engine, Instruction, Kind, Operand, Tables};
use trn3_mem::{Space, TensorInfo};

/// Producers of each instruction, in one arena.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize)]
pub struct Edges {
    ends: Vec<u32>,
    producers: Vec<u32>,
}

impl Edges {
    /// Instructions that `instruction` waits for, ascending.
    pub fn producers(&self, instruction: usize) -> &[u32] {
        let start = if instruction == 0 { 0 } else { self.ends[instruction - 1] as usize };
        &self.producers[start..self.ends[instruction] as usize]
    }

    /// Edges in all.
    pub fn count(&self) -> usize {
        self.producers.len()
    }

    /// Bytes that the arena takes.
    pub(crate) fn bytes(&self) -> usize {
        4 * (self.ends.len() + self.producers.len())
    }
}

/// Rows (partitions, or rows of an HBM tensor) by bytes within a row.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
struct Area {
    rows: (u64, u64),
    bytes: (u64, u64),
}

impl Area {
    fn meets(&self, other: &Area) -> bool {
        self.rows.0 < other.rows.1
            && other.rows.0 < self.rows.1
            && self.bytes.0 < other.bytes.1
            && other.bytes.0 < self.bytes.1
    }

    fn contains(&self, other: &Area) -> bool {
        self.rows.0 <= other.rows.0
            && other.rows.1 <= self.rows.1
            && self.bytes.0 <= other.bytes.0
            && other.bytes.1 <= self.bytes.1
    }

    /// Every byte of a tensor: what an operand may touch whose place is not known while recording.
    fn all(info: &TensorInfo) -> Area {
        let row = row_bytes(info);
        Area { rows: (0, info.bytes().div_ceil(row)), bytes: (0, row) }
    }

    /// The area that an operand touches, and whether it touches all of it. Everything is counted in bytes, so that
    /// views of different data types can be held against each other.
    fn of(operand: &Operand, tables: &Tables<'_>) -> (Area, bool) {
        let row = row_bytes(tables.tensor(operand));
        let pattern = tables.pattern(operand);
        let size = pattern.dtype.size_bytes() as u64;
        let (mut rows, mut reach, mut bytes) = (0u64, 0u64, size);
        let mut exact = true;
        let mut offset = operand.offset as u64 * size;
        for dim in pattern.dims.iter().filter(|dim| dim.count > 1) {
            let stride = dim.stride.unsigned_abs() * size;
            let distance = stride * (u64::from(dim.count) - 1);
            bytes = bytes.saturating_mul(u64::from(dim.count));
            if dim.stride < 0 {
                // The area is counted from the lowest element, which a negative stride reaches last.
                offset -= distance;
            }
            if stride.is_multiple_of(row) {
                rows += distance / row;
            } else {
                reach += distance;
            }
            exact &= dim.stride > 0;
        }
        let (first_row, first) = (offset / row, offset % row);
        let end = first + reach + size;
        if end > row {
            let last_row = (offset + rows * row + reach + size - 1) / row;
            return (Area { rows: (first_row, last_row + 1), bytes: (0, row) }, false);
        }
        let area = Area { rows: (first_row, first_row + rows + 1), bytes: (first, end) };
        (area, exact && bytes == (rows + 1) * (reach + size))
    }
}

/// Bytes of a partition, or of the last dimension of an HBM tensor.
fn row_bytes(info: &TensorInfo) -> u64 {
    if info.space.is_on_chip() {
        return info.partition_bytes().max(1);
    }
    u64::from(*info.shape.last().expect("tensors have a dimension")) * info.dtype.size_bytes() as u64
}

#[derive(Debug, Clone, Copy)]
struct Access {
    /// The visit of the instruction, in the order of the walk.
    visit: u32,
    /// The compute engine, or none for a transfer.
    engine: Option<Engine>,
    area: Area,
    writes: bool,
}

/// Accesses to one tensor that later ones may have to wait for.
///
/// They are kept by block, a strip of rows or (in tensors of few rows) of columns, so that a tensor which is read or
/// written in many small pieces does not hold each piece against all others. An access that touches many blocks is in
/// none of them.
#[derive(Debug, Clone, Default)]
struct History {
    wide: Vec<Access>,
    blocks: BTreeMap<u64, Vec<Access>>,
}

/// Rows of a block.
const BLOCK_ROWS: u64 = 64;
/// Blocks that a tensor of few rows is cut into.
const COLUMN_BLOCKS: u64 = 256;
/// Blocks that an access may touch and still be kept in them.
const BLOCKS_MAX: u64 = 4;

/// The blocks of an HBM tensor that an area touches, first and last.
fn blocks_of(area: &Area, info: &TensorInfo) -> (u64, u64) {
    if info.space.is_on_chip() {
        // Tiles are many and their pieces few: blocks would cost more than they save.
        return (0, u64::MAX);
    }
    let row = row_bytes(info);
    if info.bytes() / row > BLOCK_ROWS {
        return (area.rows.0 / BLOCK_ROWS, (area.rows.1 - 1) / BLOCK_ROWS);
    }
    let unit = (row / COLUMN_BLOCKS).max(1);
    (area.bytes.0 / unit, (area.bytes.1 - 1) / unit)
}

impl History {
    fn record(&mut self, access: Access, whole: bool, info: &TensorInfo, producers: &mut Vec<(Option<Engine>, u32)>) {
        let (first, last) = blocks_of(&access.area, info);
        meet(&mut self.wide, &access, whole, producers);
        if last - first >= BLOCKS_MAX {
            for accesses in self.blocks.range_mut(first..=last).map(|(_, accesses)| accesses) {
                meet(accesses, &access, whole, producers);
            }
            self.blocks.retain(|_, accesses| !accesses.is_empty());
            self.wide.push(access);
            return;
        }
        for block in first..=last {
            let accesses = self.blocks.entry(block).or_default();
            meet(accesses, &access, whole, producers);
            accesses.push(access);
        }
    }

    fn all(&self) -> impl Iterator<Item = &Access> {
        self.wide.iter().chain(self.blocks.values().flatten())
    }
}

/// Holds an access against earlier ones: notes those it must wait for, and drops those that nobody else need know.
fn meet(earlier: &mut Vec<Access>, access: &Access, whole: bool, producers: &mut Vec<(Option<Engine>, u32)>) {
    earlier.retain(|earlier| {
        if earlier.visit == access.visit {
            return true;
        }
        let conflict = (access.writes || earlier.writes) && earlier.area.meets(&access.area);
        // A compute engine takes its own reads and writes in order; only reading what it has just written waits,
        // and not even that on TensorE, whose results meet in PSUM in order.
        let same = access.engine.is_some() && access.engine == earlier.engine;
        let in_order = same && (access.writes || access.engine == Some(Engine::Tensor));
        if conflict && !in_order {
            producers.push((earlier.engine, earlier.visit));
        }
        let replaced = access.writes && whole && access.area.contains(&earlier.area);
        let repeated = earlier.writes == access.writes
            && earlier.engine == access.engine
            && access.engine.is_some()
            && earlier.area == access.area;
        !replaced && !repeated
    });
}

/// Who held which bytes of a memory last.
#[derive(Debug, Default)]
struct Owners {
    /// Start to (end, tensor).
    pieces: BTreeMap<u64, (u64, usize)>,
}

impl Owners {
    /// Gives `start..end` to `tensor` and says who had it.
    fn take(&mut self, start: u64, end: u64, tensor: usize) -> Vec<usize> {
        let mut before = Vec::new();
        let first = self.pieces.range(..start).next_back().filter(|(_, piece)| piece.0 > start).map(|(&at, _)| at);
        let touched: Vec<u64> = first.into_iter().chain(self.pieces.range(start..end).map(|(&at, _)| at)).collect();
        for at in touched {
            let (piece_end, owner) = self.pieces.remove(&at).expect("the piece was just found");
            before.push(owner);
            if at < start {
                self.pieces.insert(at, (start, owner));
            }
            if piece_end > end {
                self.pieces.insert(end, (piece_end, owner));
            }
        }
        self.pieces.insert(start, (end, tensor));
        before
    }
}

/// Derives the edges of a placed program.
///
/// Every loop is walked twice, so that what a turn leaves to the next one is met. An edge then means: wait for the last
/// time that the producer ran before.
pub(crate) fn derive(instructions: &[Instruction], loops: &[Loop], tables: &Tables<'_>, places: &[Place]) -> Edges {
    let mut walker = Walker::new(tables, places);
    let mut edges = Edges::default();
    if loops.is_empty() {
        for (at, instruction) in instructions.iter().enumerate() {
            let producers = walker.visit(at as u32, instruction);
            edges.producers.extend(producers.iter().map(|&(_, producer)| producer));
            edges.ends.push(edges.producers.len() as u32);
        }
        return edges;
    }
    let visits = loops::walk(instructions, loops);
    let mut pairs: Vec<(u32, u32)> = Vec::new();
    for (visit, &at) in visits.iter().enumerate() {
        let producers = walker.visit(visit as u32, &instructions[at as usize]);
        pairs.extend(producers.iter().map(|&(_, producer)| (at, visits[producer as usize])));
    }
    pairs.sort_unstable();
    pairs.dedup();
    let mut pairs = pairs.into_iter().peekable();
    for at in 0..instructions.len() as u32 {
        while let Some((_, producer)) = pairs.next_if(|&(consumer, _)| consumer == at) {
            edges.producers.push(producer);
        }
        edges.ends.push(edges.producers.len() as u32);
    }
    edges
}

/// Goes through instructions in the order in which they run and knows who touched which bytes.
struct Walker<'a> {
    tables: &'a Tables<'a>,
    places: &'a [Place],
    histories: Vec<History>,
    owners: [Owners; 2],
    touched: Vec<bool>,
    producers: Vec<(Option<Engine>, u32)>,
}

impl<'a> Walker<'a> {
    fn new(tables: &'a Tables<'a>, places: &'a [Place]) -> Walker<'a> {
        let tensors = tables.tensors.len();
        Walker {
            tables,
            places,
            histories: vec![History::default(); tensors],
            owners: [Owners::default(), Owners::default()],
            touched: vec![false; tensors],
            producers: Vec::new(),
        }
    }

    /// The earlier visits that this one waits for, with their compute engines.
    fn visit(&mut self, visit: u32, instruction: &Instruction) -> &[(Option<Engine>, u32)] {
        self.producers.clear();
        let definition = instruction.opcode.definition();
        let engine = (definition.kind == Kind::Compute).then_some(instruction.engine);
        // Reads first: a tile that is read and written still waits for the one who wrote it before.
        for (writes, mask) in [(false, instruction.reads), (true, instruction.writes)] {
            let slots = instruction.operands.iter().enumerate();
            for (slot, operand) in slots.filter(|(slot, operand)| mask >> slot & 1 == 1 && operand.is_some()) {
                let id = operand.tensor.index();
                let info = &self.tables.tensors[id];
                if !std::mem::replace(&mut self.touched[id], true) && info.space.is_on_chip() {
                    inherit(id, info, self.places, &mut self.owners, &mut self.histories);
                }
                let dynamic = instruction.is_dynamic(slot);
                let (area, whole) = if dynamic { (Area::all(info), false) } else { Area::of(operand, self.tables) };
                let access = Access { visit, engine, area, writes };
                self.histories[id].record(access, whole, info, &mut self.producers);
            }
        }
        keep_last(&mut self.producers);
        &self.producers
    }
}

/// A tensor that takes over addresses waits for whoever used them.
fn inherit(id: usize, info: &TensorInfo, places: &[Place], owners: &mut [Owners; 2], histories: &mut [History]) {
    let start = places[id].address;
    let end = start + info.partition_bytes().max(1);
    let memory = &mut owners[usize::from(info.space == Space::Psum)];
    let area = Area { rows: (0, u64::from(info.partitions())), bytes: (0, info.partition_bytes()) };
    let mut inherited = Vec::new();
    for before in memory.take(start, end, id) {
        if before != id {
            inherited.extend(histories[before].all().map(|access| Access { area, ..*access }));
        }
    }
    inherited.sort_by_key(|access| access.visit);
    inherited.dedup_by_key(|access| access.visit);
    // A read of bytes that were taken over finds nothing of its own tensor there: the write comes first.
    for access in &mut inherited {
        access.writes = true;
    }
    histories[id] = History { wide: inherited, blocks: BTreeMap::new() };
}

/// Ascending, each once, and of each compute engine only the last.
fn keep_last(producers: &mut Vec<(Option<Engine>, u32)>) {
    producers.sort_unstable_by_key(|&(_, producer)| producer);
    producers.dedup();
    let mut seen = [false; Engine::ALL.len()];
    for at in (0..producers.len()).rev() {
        if let Some(engine) = producers[at].0 {
            let seen = &mut seen[engine as usize];
            if *seen {
                producers.remove(at);
            }
            *seen = true;
        }
    }
}
