//! Affine values of an element's place, as `iota` and `affine_select` compute them.

use crate::arguments::Arguments;
use crate::context::{Context, broken};
use crate::instruction::{Instruction, Operand};
use crate::machine::Tables;
use crate::rules::Rule;
use trn3_mem::{Dim, Dims, TensorId, View, Violation};

/// Takes `pattern`, `offset` and `channel_multiplier`: the steps go into `slot`, the numbers into `constants[0..2]`.
///
/// # Errors
/// `rule`, if the counts do not multiply to the free size of `dst` or a number is not an int32.
pub(super) fn record(
    instruction: &mut Instruction,
    slot: usize,
    arguments: &Arguments<'_>,
    context: &mut Context<'_>,
    dst: &View,
    rule: &Rule,
) -> Result<(), Violation> {
    let pairs = arguments.pairs("pattern")?;
    let product = pairs.iter().try_fold(1i64, |product, &(_, count)| product.checked_mul(count.max(0)));
    if pairs.is_empty() || pairs.len() > 4 || product != Some(dst.free_size() as i64) {
        let limit = format!("counts must multiply to {}", dst.free_size());
        return Err(broken(rule, "pattern", format!("is {:?}", pairs.as_slice()), limit));
    }
    let word = i64::from(i32::MIN)..=i64::from(i32::MAX);
    let (offset, multiplier) = (arguments.int("offset")?, arguments.int("channel_multiplier")?);
    let steps = pairs.iter().map(|&(step, _)| ("pattern", step));
    for (name, value) in steps.chain([("offset", offset), ("channel_multiplier", multiplier)]) {
        if !word.contains(&value) {
            return Err(broken(rule, name, format!("is {value}"), "steps and offsets are int32"));
        }
    }
    let dims: Dims = pairs.iter().map(|&(stride, count)| Dim { stride, count: count as u32 }).collect();
    let steps = View { dims, index: None, scalar: None, ..dst.clone() };
    instruction.operands[slot] =
        Operand { tensor: TensorId::NONE, pattern: context.patterns.intern(&steps), offset: 0 };
    instruction.constants[0] = offset as u32;
    instruction.constants[1] = multiplier as u32;
    Ok(())
}

/// The values of one partition; others differ by a constant.
pub(super) struct Affine {
    first: Vec<i32>,
    multiplier: i32,
}

impl Affine {
    /// Those that an instruction says, for `row` elements a partition.
    pub(super) fn of(instruction: &Instruction, slot: usize, tables: &Tables<'_>, row: usize) -> Affine {
        let dims = &tables.pattern(&instruction.operands[slot]).dims;
        let value = |at: usize| {
            let mut rest = at;
            dims.iter().rev().fold(instruction.constants[0] as i32, |value, dim| {
                let index = rest % dim.count as usize;
                rest /= dim.count as usize;
                value.wrapping_add((dim.stride as i32).wrapping_mul(index as i32))
            })
        };
        Affine { first: (0..row).map(value).collect(), multiplier: instruction.constants[1] as i32 }
    }

    /// The values of a partition.
    pub(super) fn row(&self, partition: usize) -> impl Iterator<Item = i32> + '_ {
        let base = self.multiplier.wrapping_mul(partition as i32);
        self.first.iter().map(move |value| value.wrapping_add(base))
    }
}
