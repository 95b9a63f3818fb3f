//! Operands that a register moves: their place when an instruction runs.

use crate::instruction::Instruction;
use crate::machine::{Registers, Tables};
use trn3_mem::Violation;

/// The instruction with every operand at the place that its register says.
///
/// # Errors
/// An operand leaves its tensor, or on chip its partition: the violation, and nothing is done.
pub fn resolve(
    instruction: &Instruction,
    tables: &Tables<'_>,
    registers: &Registers,
) -> Result<Instruction, Violation> {
    let mut resolved = *instruction;
    for (slot, operand) in resolved.operands.iter_mut().enumerate() {
        if !instruction.is_dynamic(slot) {
            continue;
        }
        let pattern = tables.pattern(operand);
        let Some(scalar) = pattern.scalar else { continue };
        let info = tables.tensor(operand);
        let size = pattern.dtype.size_bytes() as u64;
        let value = registers.scalar_value(scalar.register) as i32;
        let start = i128::from(operand.offset) + i128::from(scalar.stride) * i128::from(value);
        // On chip the partitions stay: what moves is the place within each.
        let (row, free) = if info.space.is_on_chip() {
            ((info.partition_bytes() / size) as i64, &pattern.dims[1..])
        } else {
            ((info.bytes() / size) as i64, &pattern.dims[..])
        };
        let base = operand.offset / row * row;
        let ends = free.iter().map(|dim| i128::from(dim.stride) * (i128::from(dim.count) - 1));
        let (low, high) = ends.fold((start, start), |(low, high), end| (low + end.min(0), high + end.max(0)));
        if low < i128::from(base) || high >= i128::from(base + row) {
            return Err(Violation::new(
                "tensor.scalar_offset_bounds",
                info.name.clone(),
                format!("the register is {value}: elements {} to {}", low - i128::from(base), high - i128::from(base)),
                format!("there are {row}{}", if info.space.is_on_chip() { " in a partition" } else { "" }),
                "keep the register inside the tensor, or use oob_mode.skip for transfers",
            ));
        }
        operand.offset = start as i64;
    }
    Ok(resolved)
}
