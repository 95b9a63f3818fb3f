//! When tensors are in use, counted in instructions.

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

/// Lifetimes of all tensors; `None` for those that no instruction touches. A tensor that a dynamic loop touches lives as
/// long as the outermost loop runs.
pub(crate) fn lifetimes(tensors: usize, instructions: &[Instruction], loops: &[Loop]) -> Vec<Option<Lifetime>> {
    let mut outermost = loops.iter().filter(|each| each.outer.is_none()).peekable();
    let mut lives: Vec<Option<Lifetime>> = vec![None; tensors];
    for (at, instruction) in instructions.iter().enumerate() {
        let at = at as u32;
        while outermost.peek().is_some_and(|each| each.end < at) {
            outermost.next();
        }
        let around = outermost.peek().filter(|each| each.begin <= at);
        let (first, last) = around.map_or((at, at), |each| (each.begin, each.end));
        for operand in instruction.operands.iter().filter(|operand| operand.is_some()) {
            let TensorId(id) = operand.tensor;
            match &mut lives[id as usize] {
                Some(life) => life.last = last,
                life => *life = Some(Lifetime { first, last }),
            }
        }
    }
    lives
}
