//! Which earlier instructions an instruction waits for, from the addresses they touch.
//!
//! Read after write, write after read and write after write through a tensor give an edge, and so does an address that
//! a new tensor takes over from older ones. Accesses are kept as boxes (rows by bytes): two boxes that meet count as a
//! conflict even where strides would keep their bytes apart, so an edge may be more than the hardware needs, never less.
//! Tensors at addresses of the user's own may overlap: they are held against each other byte by byte of the memory.
//! Of several producers on one compute engine only the last is kept, since an engine completes in order; transfers are
//! all kept.

use crate::area::{Area, row_bytes};
use crate::loops::{self, Loop};
use crate::program::Place;
use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;
use trn3_isa::{Engine, Instruction, Kind, Tables};
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

/// Bytes of a block of SBUF or PSUM, where tensors are held against each other by their addresses.
const ADDRESS_BLOCK_BYTES: u64 = 1024;

/// The blocks of a memory that an area of it touches, first and last.
fn address_blocks(area: &Area) -> (u64, u64) {
    (area.bytes.0 / ADDRESS_BLOCK_BYTES, (area.bytes.1 - 1) / ADDRESS_BLOCK_BYTES)
}

impl History {
    fn record(
        &mut self,
        access: Access,
        whole: bool,
        (first, last): (u64, u64),
        producers: &mut Vec<(Option<Engine>, u32)>,
    ) {
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
    /// Accesses to SBUF and PSUM through tensors at addresses of the user's own.
    addressed: [History; 2],
    owners: [Owners; 2],
    touched: Vec<bool>,
    producers: Vec<(Option<Engine>, u32)>,
}

/// Owns the bytes of all tensors at addresses of the user's own.
const ADDRESSED: usize = usize::MAX;

impl<'a> Walker<'a> {
    fn new(tables: &'a Tables<'a>, places: &'a [Place]) -> Walker<'a> {
        let tensors = tables.tensors.len();
        Walker {
            tables,
            places,
            histories: vec![History::default(); tensors],
            addressed: Default::default(),
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
                    self.inherit(id);
                }
                let dynamic = instruction.is_dynamic(slot);
                let (area, whole) = if dynamic { (Area::all(info), false) } else { Area::of(operand, self.tables) };
                if info.address.is_some() {
                    let access = Access { visit, engine, area: area.at(info.origin()), writes };
                    let blocks = address_blocks(&access.area);
                    self.addressed[memory_of(info)].record(access, whole, blocks, &mut self.producers);
                } else {
                    let access = Access { visit, engine, area, writes };
                    self.histories[id].record(access, whole, blocks_of(&area, info), &mut self.producers);
                }
            }
        }
        keep_last(&mut self.producers);
        &self.producers
    }

    /// A tensor that takes over addresses waits for whoever used them.
    fn inherit(&mut self, id: usize) {
        let info = &self.tables.tensors[id];
        let place = self.places[id].address;
        let bytes = (place, place + info.partition_bytes().max(1));
        let area = Area { rows: (0, u64::from(info.partitions())), bytes: (0, info.partition_bytes()) };
        let area = if info.address.is_some() { area.at(info.origin()) } else { area };
        let owner = if info.address.is_some() { ADDRESSED } else { id };
        let mut inherited = Vec::new();
        for before in self.owners[memory_of(info)].take(bytes.0, bytes.1, owner) {
            if before == ADDRESSED && owner != ADDRESSED {
                let accesses = self.addressed[memory_of(info)].all();
                let met = accesses.filter(|access| access.area.bytes.0 < bytes.1 && bytes.0 < access.area.bytes.1);
                inherited.extend(met.map(|access| Access { area, ..*access }));
            } else if before != owner {
                inherited.extend(self.histories[before].all().map(|access| Access { area, ..*access }));
            }
        }
        inherited.sort_by_key(|access| access.visit);
        inherited.dedup_by_key(|access| access.visit);
        // A read of bytes that were taken over finds nothing of its own tensor there: the write comes first.
        for access in &mut inherited {
            access.writes = true;
        }
        if owner == ADDRESSED {
            self.addressed[memory_of(info)].wide.append(&mut inherited);
        } else {
            self.histories[id] = History { wide: inherited, blocks: BTreeMap::new() };
        }
    }
}

fn memory_of(info: &TensorInfo) -> usize {
    usize::from(info.space == Space::Psum)
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
