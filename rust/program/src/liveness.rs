//! When tensors are in use, counted in instructions.

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

/// Lifetimes of all tensors; `None` for those that no instruction touches.
pub(crate) fn lifetimes(tensors: usize, instructions: &[Instruction]) -> Vec<Option<Lifetime>> {
    let mut lives: Vec<Option<Lifetime>> = vec![None; tensors];
    for (at, instruction) in instructions.iter().enumerate() {
        let at = at as u32;
        for operand in instruction.operands.iter().filter(|operand| operand.is_some()) {
            let TensorId(id) = operand.tensor;
            match &mut lives[id as usize] {
                Some(life) => life.last = at,
                life => *life = Some(Lifetime { first: at, last: at }),
            }
        }
    }
    lives
}
