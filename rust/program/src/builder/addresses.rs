//! Tensors at addresses that the user chose: which of those that overlap holds the newest bytes.
//!
//! Every tensor has host memory of its own, so that its rows follow each other whatever lies beside them. Where tensors
//! overlap, the recorder knows who wrote each byte last, and has it copied into a tensor before that is read: a fill,
//! [`FillValue::Held`], which takes no emulated time.

use super::{Builder, Fill, FillValue};
use crate::area::Area;
use std::collections::{HashMap, HashSet};
use trn3_isa::{Finding, Instruction, Rows, Strictness};
use trn3_mem::{Coverage, Fault, Space, TensorId, TensorInfo, Violation};

/// Bytes of SBUF or PSUM, and the tensors whose own copy of them is the newest.
#[derive(Debug, Clone)]
struct Piece {
    area: Area,
    /// Who wrote it last, then who has read it since.
    holders: Vec<TensorId>,
    /// The line that wrote it.
    line: u32,
}

/// Who holds the newest bytes of SBUF and of PSUM.
#[derive(Debug, Default)]
pub(super) struct Holdings {
    memories: [Vec<Piece>; 2],
    /// What held when the loops that are open began.
    begun: Vec<[Vec<Piece>; 2]>,
    /// Hull of what each tensor has written.
    written: HashMap<TensorId, Area>,
    /// Pairs of a tensor that overwrote and one that was overwritten, each reported once.
    reported: HashSet<(TensorId, TensorId)>,
}

impl Holdings {
    /// A loop begins.
    pub(super) fn enter(&mut self) {
        self.begun.push(self.memories.clone());
    }
}

fn memory_of(info: &TensorInfo) -> usize {
    usize::from(info.space == Space::Psum)
}

/// Cuts `hole` out of the pieces.
fn cut(pieces: &mut Vec<Piece>, hole: &Area) {
    let mut rest = Vec::new();
    pieces.retain(|piece| {
        let meets = piece.area.meets(hole);
        if meets {
            rest.extend(piece.area.without(hole).map(|area| Piece { area, ..piece.clone() }));
        }
        !meets
    });
    pieces.append(&mut rest);
}

/// Adds a piece, joined with its neighbours of the same kind.
fn add(pieces: &mut Vec<Piece>, mut piece: Piece) {
    while let Some(at) =
        pieces.iter().position(|other| other.holders == piece.holders && other.area.joined(&piece.area).is_some())
    {
        let other = pieces.swap_remove(at);
        piece.area = other.area.joined(&piece.area).expect("the areas were just found to join");
    }
    pieces.push(piece);
}

impl Builder {
    /// Checks an address that the user chose.
    ///
    /// # Errors
    /// `tensor.address`, `tensor.address_range`, `tensor.address_bank`.
    pub(super) fn check_address(
        &mut self,
        info: &TensorInfo,
        (partition, byte): (i64, i64),
    ) -> Result<(u32, u32), Violation> {
        let value = format!("is ({partition}, {byte})");
        let broken =
            |rule, limit: String, fix: &'static str| Violation::new(rule, "address", value.clone(), limit, fix);
        if !info.space.is_on_chip() {
            let limit = format!("{} has no addresses for kernels to choose", info.space.name());
            return Err(broken("tensor.address", limit, "leave it out"));
        }
        let core = &self.target.core;
        let (bytes, bank) = match info.space {
            Space::Psum => (core.psum.partition_bytes(), core.psum.bank_bytes),
            _ => (core.sbuf.usable_bytes(), 1),
        };
        let (rows, row) = (i64::from(info.partitions()), info.partition_bytes() as i64);
        let last = |start: i64, count: i64| start.checked_add(count).unwrap_or(i64::MAX);
        let fits = partition >= 0
            && byte >= 0
            && last(partition, rows) <= i64::from(core.sbuf.partitions)
            && last(byte, row) <= bytes as i64;
        if !fits {
            let limit = format!(
                "{rows} partitions of {row} bytes must lie within the {} partitions of {bytes} bytes of {}",
                core.sbuf.partitions,
                info.space.name()
            );
            return Err(
                broken("tensor.address_range", limit, "choose a lower address, or a smaller tile").of(Fault::Capacity)
            );
        }
        if !(byte as u64).is_multiple_of(bank) {
            let limit = format!("PSUM tensors start at a bank, every {bank} bytes");
            let violation = broken("tensor.address_bank", limit, "choose a multiple of it").in_instruction("ndarray");
            self.report(Strictness::Documented, violation, info.line)?;
        }
        Ok((partition as u32, byte as u32))
    }

    /// Brings what an instruction reads up to date, and notes what it writes.
    pub(super) fn settle(&mut self, instruction: &Instruction) {
        let operands = instruction.operands;
        if !operands.iter().any(|operand| operand.is_some() && self.tensors[operand.tensor.index()].address.is_some()) {
            return;
        }
        for (writes, mask) in [(false, instruction.reads), (true, instruction.writes)] {
            for (slot, operand) in operands.iter().enumerate().filter(|&(slot, _)| mask >> slot & 1 == 1) {
                let info = &self.tensors[operand.tensor.index()];
                if info.address.is_none() {
                    continue;
                }
                let rows = (instruction.opcode.definition().rows)(instruction, &self.tables(), slot);
                let (area, whole) = if instruction.is_dynamic(slot) {
                    (Area::all(info), false)
                } else {
                    let (area, whole) = Area::of(operand, &self.tables());
                    (area, whole && rows == Rows::All)
                };
                let area = area.at(info.origin());
                if !writes || !whole {
                    self.take_over(operand.tensor, &area, Some(instruction.line));
                }
                if writes {
                    let pieces = &mut self.holdings.memories[memory_of(&self.tensors[operand.tensor.index()])];
                    cut(pieces, &area);
                    add(pieces, Piece { area, holders: vec![operand.tensor], line: instruction.line });
                    let written = self.holdings.written.entry(operand.tensor).or_insert(area);
                    *written = written.hull(&area);
                }
            }
        }
    }

    /// Has the newest bytes of an area copied into a tensor, where others hold them. `line` is the line that reads them.
    fn take_over(&mut self, tensor: TensorId, area: &Area, line: Option<u32>) {
        let memory = memory_of(&self.tensors[tensor.index()]);
        let missing = |piece: &Piece| piece.area.meets(area) && !piece.holders.contains(&tensor);
        if !self.holdings.memories[memory].iter().any(missing) {
            return;
        }
        let mut pieces = std::mem::take(&mut self.holdings.memories[memory]);
        let (found, mut rest): (Vec<Piece>, Vec<Piece>) = pieces.drain(..).partition(missing);
        for piece in found {
            let shared = piece.area.common(area);
            rest.extend(piece.area.without(&shared).map(|area| Piece { area, ..piece.clone() }));
            self.copy_held(tensor, piece.holders[0], &shared);
            if let Some(line) = line {
                self.report_overwritten(tensor, &piece, &shared, line);
            }
            let mut holders = piece.holders;
            holders.push(tensor);
            add(&mut rest, Piece { area: shared, holders, line: piece.line });
        }
        self.holdings.memories[memory] = rest;
    }

    /// Records the copy of an area from one tensor to another, with what is known of its bytes.
    fn copy_held(&mut self, to: TensorId, from: TensorId, area: &Area) {
        let info = &self.tensors[to.index()];
        let (target, size) = (Held::new(info), info.bytes());
        let source = Held::new(&self.tensors[from.index()]);
        let length = area.bytes.1 - area.bytes.0;
        let runs: Vec<(u64, u64)> =
            (area.rows.0..area.rows.1).map(|row| (target.byte(row, area.bytes.0), length)).collect();
        let origin = self.bytes[from.index()].written.clone();
        let mut all = true;
        if origin != Coverage::Full || self.bytes[to.index()].written != Coverage::Full {
            let written = &mut self.bytes[to.index()].written;
            for row in area.rows.0..area.rows.1 {
                let (start, at) = (source.byte(row, area.bytes.0), target.byte(row, area.bytes.0));
                if origin.covers(std::iter::once((start, length))) {
                    written.mark(size, std::iter::once((at, length)));
                    continue;
                }
                all = false;
                let bytes = (0..length).filter(|byte| origin.contains(start + byte));
                written.mark(size, bytes.map(|byte| (at + byte, 1)));
            }
        }
        if !all {
            // What comes over reads as unwritten memory does.
            self.poison(from);
        }
        let taint = self.bytes[from.index()].taint;
        self.bytes[to.index()].soil(taint);
        let before = self.instructions.len() as u32;
        let dtype = self.tensors[to.index()].dtype;
        self.fills.push(Fill { before, tensor: to, value: FillValue::Held(from), dtype, runs });
    }

    fn report_overwritten(&mut self, reader: TensorId, piece: &Piece, shared: &Area, line: u32) {
        let writer = piece.holders[0];
        let lost = self.holdings.written.get(&reader).is_some_and(|written| written.meets(shared));
        if !lost || !self.holdings.reported.insert((writer, reader)) {
            return;
        }
        let (file, number) = self.location(line);
        let (reader, writer) = (&self.tensors[reader.index()].name, &self.tensors[writer.index()].name);
        let violation = Violation::new(
            "tensor.address_overwrites",
            writer.clone(),
            format!("is written over '{reader}', which {file}:{number} reads afterwards"),
            "tensors whose addresses overlap share their bytes",
            "give one of them another address, or read the first before the second is written",
        )
        .in_instruction("ndarray");
        self.findings.push(Finding { violation, line: piece.line });
    }

    /// A loop ends: its next turn finds everything where its first turn found it. That is also how it is if it never ran.
    pub(super) fn hand_back(&mut self) {
        let begun = self.holdings.begun.pop().expect("a loop is closed once");
        for (memory, pieces) in begun.into_iter().enumerate() {
            for piece in &pieces {
                for &holder in &piece.holders {
                    self.take_over(holder, &piece.area, None);
                }
            }
            let now = &mut self.holdings.memories[memory];
            for piece in &pieces {
                cut(now, &piece.area);
            }
            now.extend(pieces);
        }
    }
}

/// Where the bytes of a tensor at an address lie in its host memory.
struct Held {
    origin: (u64, u64),
    row_bytes: u64,
}

impl Held {
    fn new(info: &TensorInfo) -> Held {
        let (partition, byte) = info.origin();
        Held { origin: (u64::from(partition), u64::from(byte)), row_bytes: info.partition_bytes() }
    }

    fn byte(&self, row: u64, byte: u64) -> u64 {
        (row - self.origin.0) * self.row_bytes + byte - self.origin.1
    }
}

impl Fill {
    /// First byte, in the tensor that holds them, of a run of this tensor.
    pub fn held_start(&self, to: &TensorInfo, from: &TensorInfo, start: u64) -> u64 {
        let (to, from) = (Held::new(to), Held::new(from));
        from.byte(to.origin.0 + start / to.row_bytes, to.origin.1 + start % to.row_bytes)
    }
}
