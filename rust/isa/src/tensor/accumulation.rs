//! What a matrix product does with the PSUM bytes it writes.
//!
//! `accumulate=None` means: overwrite what no matrix product has written yet, add to the rest. Which bytes those are
//! is known while recording, so the recorder replaces `Auto` before the instruction is kept.

use crate::instruction::Instruction;

/// How a product meets its PSUM tile.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Accumulate {
    /// To be decided by the recorder.
    Auto,
    /// Replace.
    Overwrite,
    /// Add.
    Add,
}

const MASK: u16 = 0b11;

/// How the instruction meets its PSUM tile.
pub fn accumulate_of(instruction: &Instruction) -> Accumulate {
    match instruction.flags & MASK {
        0 => Accumulate::Auto,
        1 => Accumulate::Overwrite,
        _ => Accumulate::Add,
    }
}

/// Sets it, and with it whether the tile (slot 0) is also read.
pub fn set_accumulate(instruction: &mut Instruction, accumulate: Accumulate) {
    instruction.flags &= !MASK;
    instruction.flags |= match accumulate {
        Accumulate::Auto => 0,
        Accumulate::Overwrite => 1,
        Accumulate::Add => 2,
    };
    instruction.reads &= !1;
    if accumulate == Accumulate::Add {
        instruction.reads |= 1;
    }
}
