//! What the recorder knows of bytes that nothing has written: who reads them, and what they may reach.
//!
//! Everything is decided while recording and costs a run nothing. A *taint* says that unwritten bytes may have come into
//! a tensor, and from which line; it is kept for the tensor as a whole, until known values have overwritten all of it.

use super::{Builder, Fill, FillValue};
use crate::program::Taint;
use trn3_isa::{Instruction, Opcode, Operand, Rows, Strictness};
use trn3_mem::{Coverage, Fault, Space, TensorId, View, Violation};
use trn3_num::Dtype;

/// What is known of a tensor's bytes while recording.
#[derive(Debug, Clone)]
pub(super) struct Bytes {
    pub(super) written: Coverage,
    /// Written by a matrix product (PSUM only).
    pub(super) product: Coverage,
    pub(super) taint: Option<Taint>,
    /// What has been overwritten with known values since the taint came.
    pub(super) cleaned: Coverage,
    pub(super) poisoned: bool,
}

impl Bytes {
    /// Notes that unwritten bytes may have come in.
    pub(super) fn soil(&mut self, taint: Option<Taint>) {
        if taint.is_some() {
            self.taint = Taint::joined(self.taint, taint);
            self.cleaned = Coverage::Empty;
        }
    }
}

/// Whether a data type has a NaN, which unwritten memory then reads as.
fn holds_nan(dtype: Dtype) -> bool {
    (dtype.is_float() || dtype.is_packed())
        && !matches!(dtype, Dtype::Float4E2m1fn | Dtype::Float4E2m1fnX4 | Dtype::Float6E2m3fn | Dtype::Float6E3m2fn)
}

/// The rows of a view that an instruction touches; the whole view, if it touches all.
pub(super) fn touched(view: View, rows: Rows) -> Vec<View> {
    if rows == Rows::All {
        return vec![view];
    }
    let used = (0..view.partitions()).filter(|&row| rows.contains(row));
    used.map(|row| {
        let mut one = view.clone();
        one.dims[0].count = 1;
        one.offset += i64::from(row) * view.dims[0].stride;
        one
    })
    .collect()
}

impl Builder {
    /// Refuses an instruction that reads bytes which nothing has written.
    pub(super) fn check_initialized(&self, instruction: &Instruction) -> Result<(), Violation> {
        for (slot, operand) in instruction.operands.iter().enumerate() {
            let reads = instruction.reads >> slot & 1 == 1;
            if !reads || self.scatters(instruction, slot) {
                continue;
            }
            if !self.is_written(instruction, slot) {
                return Err(Violation::new(
                    "uninitialized.read",
                    self.tensors[operand.tensor.index()].name.clone(),
                    "is read where nothing has written it",
                    "uninitialized=\"stop\" was asked for",
                    "write the tile before it is read (memset, dma_copy)",
                )
                .of(Fault::Uninitialized)
                .in_instruction(instruction.opcode.definition().name));
            }
        }
        Ok(())
    }

    /// Follows what is written, and what bytes that nothing wrote may reach; `before` are instructions whose results go
    /// into this one.
    ///
    /// # Errors
    /// Unwritten bytes are sent to the other core or loaded into a register, and the checks are strict.
    pub(super) fn note_accesses(&mut self, before: &[Instruction], instruction: &Instruction) -> Result<(), Violation> {
        let mut taint: Option<Taint> = None;
        for each in before.iter().chain([instruction]) {
            taint = Taint::joined(taint, self.note_reads(each));
        }
        if instruction.opcode == Opcode::Sendrecv {
            // What the other core does with it is no longer followed.
            self.note_sent(instruction, taint.take())?;
        }
        if let Some(taint) = &mut taint {
            self.check_loaded(instruction)?;
            taint.shows_as_nan &= !self.hides_nan(instruction);
        }
        self.note_writes(instruction, taint);
        Ok(())
    }

    /// Reports a register that is loaded from what nothing has written: it may decide places and turns of loops, where
    /// nobody follows it.
    ///
    /// # Errors
    /// The element itself is unwritten, and the checks are strict.
    fn check_loaded(&mut self, instruction: &Instruction) -> Result<(), Violation> {
        if instruction.opcode != Opcode::RegisterLoad {
            return Ok(());
        }
        let certain = !instruction.is_dynamic(0) && !self.is_written(instruction, 0);
        let source = self.tensors[instruction.operands[0].tensor.index()].name.clone();
        let (value, level) = if certain {
            ("is loaded into a register where nothing has written it", Strictness::Documented)
        } else {
            ("is loaded into a register and may hold what came from unwritten memory", Strictness::Hardware)
        };
        let limit = "registers decide places and loops";
        let fix = "write the element before it is loaded (memset, dma_copy)";
        let violation = Violation::new("uninitialized.register", source, value, limit, fix)
            .of(Fault::Uninitialized)
            .in_instruction(instruction.opcode.definition().name);
        self.report(level, violation, instruction.line)
    }

    /// Bytes that nothing wrote may go to the other core.
    fn note_sent(&mut self, instruction: &Instruction, taint: Option<Taint>) -> Result<(), Violation> {
        let Some(taint) = taint else { return Ok(()) };
        let violation = Violation::new(
            "uninitialized.sent",
            self.tensors[taint.tensor.index()].name.clone(),
            "was read where nothing had written it, and what that read gave may be sent",
            "the other core gets what has been written",
            "write the tile before it is sent (memset, dma_copy)",
        )
        .of(Fault::Uninitialized)
        .in_instruction(instruction.opcode.definition().name);
        self.report(Strictness::Documented, violation, instruction.line)
    }

    /// What bytes that nothing wrote an instruction may read.
    fn note_reads(&mut self, instruction: &Instruction) -> Option<Taint> {
        let mut taint: Option<Taint> = None;
        for (slot, operand) in instruction.operands.iter().enumerate() {
            if instruction.reads >> slot & 1 == 0 {
                continue;
            }
            let id = operand.tensor.index();
            let reinterprets = self.reinterprets(operand);
            let kept =
                self.bytes[id].taint.map(|kept| Taint { shows_as_nan: kept.shows_as_nan && !reinterprets, ..kept });
            taint = Taint::joined(taint, kept);
            if self.bytes[id].written == Coverage::Full || self.scatters(instruction, slot) {
                continue;
            }
            // Rows named by an index are not known while recording.
            if instruction.is_dynamic(slot) {
                self.poison(operand.tensor);
                taint = Taint::joined(taint, self.taint_by_index(instruction, operand));
            } else if !self.is_written(instruction, slot) {
                let dtype = self.patterns.table[operand.pattern.0 as usize].dtype;
                let shows_as_nan = holds_nan(dtype) && !reinterprets;
                let read = Taint { tensor: operand.tensor, line: instruction.line, shows_as_nan };
                taint = Taint::joined(taint, Some(read));
                self.poison(operand.tensor);
            }
        }
        taint
    }

    fn note_writes(&mut self, instruction: &Instruction, taint: Option<Taint>) {
        for (slot, operand) in instruction.operands.iter().enumerate() {
            if !instruction.is_written(slot) {
                continue;
            }
            let id = operand.tensor.index();
            let clean_before = self.bytes[id].written == Coverage::Full && self.bytes[id].taint.is_none();
            let bytes = self.tensors[id].bytes();
            if clean_before && taint.is_none() {
                continue;
            }
            if self.scatters(instruction, slot) || self.loops.may_skip(operand.tensor) {
                // What is written is not known while recording: the rest is told apart by its poison.
                if self.bytes[id].written != Coverage::Full {
                    self.poison(operand.tensor);
                    let here = self.taint_by_index(instruction, operand);
                    self.bytes[id].soil(here);
                    self.bytes[id].written = Coverage::Full;
                }
                self.bytes[id].soil(taint);
                continue;
            }
            let view = self.view_of(operand);
            let rows = (instruction.opcode.definition().rows)(instruction, &self.tables(), slot);
            let mut here = Coverage::Empty;
            here.mark(bytes, view.byte_runs().take(1));
            if here == Coverage::Full && rows == Rows::All {
                self.bytes[id].taint = None;
                self.bytes[id].soil(taint);
                self.bytes[id].written = Coverage::Full;
                continue;
            }
            let views = touched(view, rows);
            let state = &mut self.bytes[id];
            state.soil(taint);
            for view in views {
                state.written.mark(bytes, view.byte_runs());
                if taint.is_none() && state.taint.is_some() {
                    state.cleaned.mark(bytes, view.byte_runs());
                    if state.cleaned == Coverage::Full {
                        state.taint = None;
                    }
                }
            }
        }
    }

    /// Whether everything has been written that an instruction reads in a slot.
    fn is_written(&self, instruction: &Instruction, slot: usize) -> bool {
        let operand = &instruction.operands[slot];
        if self.met && self.tensors[operand.tensor.index()].space == Space::SharedHbm {
            return true;
        }
        let written = &self.bytes[operand.tensor.index()].written;
        let view = self.view_of(operand);
        let rows = (instruction.opcode.definition().rows)(instruction, &self.tables(), slot);
        if rows != Rows::All {
            return touched(view, rows).iter().all(|view| written.covers(view.byte_runs()));
        }
        written.covers(view.byte_runs())
    }

    /// Whether an instruction makes something else of NaN.
    fn hides_nan(&self, instruction: &Instruction) -> bool {
        let mut targets = instruction.written_operands();
        (instruction.opcode.definition().hides_nan)(instruction)
            || targets.any(|target| {
                !holds_nan(self.patterns.table[target.pattern.0 as usize].dtype) || self.reinterprets(target)
            })
    }

    /// Whether an operand takes a tensor's bytes for another data type, in which its NaN may be numbers.
    fn reinterprets(&self, operand: &Operand) -> bool {
        self.patterns.table[operand.pattern.0 as usize].dtype != self.tensors[operand.tensor.index()].dtype
    }

    /// Whether an operand is written at a place that is known only when the instruction runs.
    fn scatters(&self, instruction: &Instruction, slot: usize) -> bool {
        instruction.is_written(slot) && instruction.is_dynamic(slot)
    }

    /// What an access by index to a tensor that is not written in full may bring. Only floats can tell afterwards.
    fn taint_by_index(&self, instruction: &Instruction, operand: &Operand) -> Option<Taint> {
        let is_float = self.tensors[operand.tensor.index()].dtype.is_float();
        let shows_as_nan = !self.reinterprets(operand);
        is_float.then_some(Taint { tensor: operand.tensor, line: instruction.line, shows_as_nan })
    }

    /// Makes a tensor start as what unwritten memory reads as.
    pub(super) fn poison(&mut self, tensor: TensorId) {
        let state = &mut self.bytes[tensor.index()];
        if !state.poisoned {
            state.poisoned = true;
            let uses = |instruction: &Instruction| instruction.operands.iter().any(|operand| operand.tensor == tensor);
            let first = self.instructions.iter().position(uses).unwrap_or(self.instructions.len());
            let dtype = self.tensors[tensor.index()].dtype;
            let before = first as u32;
            self.fills.push(Fill { before, tensor, value: FillValue::Poison, dtype, runs: Vec::new() });
        }
    }
}
