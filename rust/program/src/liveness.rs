//! When tensors are in use, counted in instructions.

use crate::builder::{Fill, FillValue};
use crate::loops::Loop;
use trn3_isa::Instruction;
use trn3_mem::TensorId;

/// First and last instruction that touches a tensor.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Lifetime {
    /// The first.
    pub first: u32,
    /// The last.
    pub last: u32,
}

impl Lifetime {
    /// Whether both are in use at some instruction.
    pub fn meets(&self, other: Lifetime) -> bool {
        self.first <= other.last && other.first <= self.last
    }
}

/// Lifetimes of all tensors; `None` for those that no instruction touches. A tensor that a dynamic loop touches lives as
/// long as the outermost loop runs, and one whose bytes another takes over lives until then.
pub(crate) fn lifetimes(
    tensors: usize,
    instructions: &[Instruction],
    loops: &[Loop],
    fills: &[Fill],
) -> Vec<Option<Lifetime>> {
    let mut outermost = loops.iter().filter(|each| each.outer.is_none()).peekable();
    let mut lives: Vec<Option<Lifetime>> = vec![None; tensors];
    let mut touch = |TensorId(id): TensorId, (first, last): (u32, u32)| match &mut lives[id as usize] {
        Some(life) => life.last = last,
        life => *life = Some(Lifetime { first, last }),
    };
    let mut fills = fills.iter().filter(|fill| matches!(fill.value, FillValue::Held(_))).peekable();
    for (at, instruction) in instructions.iter().enumerate() {
        let at = at as u32;
        while outermost.peek().is_some_and(|each| each.end < at) {
            outermost.next();
        }
        let around = outermost.peek().filter(|each| each.begin <= at);
        let span = around.map_or((at, at), |each| (each.begin, each.end));
        for operand in instruction.operands.iter().filter(|operand| operand.is_some()) {
            touch(operand.tensor, span);
        }
        while let Some(fill) = fills.next_if(|fill| fill.before <= at) {
            if let FillValue::Held(from) = fill.value {
                touch(from, span);
                touch(fill.tensor, span);
            }
        }
    }
    lives
}
