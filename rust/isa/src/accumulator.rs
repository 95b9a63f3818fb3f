//! The accumulators of VectorE and ScalarE: one FP32 value a partition that outlives an instruction, and the commands
//! that say what an instruction does with it.
//!
//! VectorE has one set for `exponential`, `range_select`, `select_reduce`, `tensor_scalar_reduce` and
//! `tensor_scalar_cumulative`; ScalarE has one for `activation`, `activation_reduce` and `activate2`.

use crate::arguments::Arguments;
use crate::context::broken;
use crate::instruction::Instruction;
use crate::operator::Operator;
use crate::recurrence;
use crate::rules::Rule;
use crate::simd;
use trn3_mem::Violation;

/// What an instruction does with the accumulators of its engine (`nki.isa.reduce_cmd`).
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum ReduceCommand {
    /// Leaves them.
    Idle,
    /// Sets them to the operator's identity.
    Reset,
    /// Adds to them.
    Reduce,
    /// Sets them to the identity, then adds.
    ResetReduce,
    /// Sets them to a value that is given, then adds.
    LoadReduce,
}

/// The commands, in the order of their codes.
const COMMANDS: [(ReduceCommand, &str); 5] = [
    (ReduceCommand::Idle, "idle"),
    (ReduceCommand::Reset, "reset"),
    (ReduceCommand::Reduce, "reduce"),
    (ReduceCommand::ResetReduce, "reset_reduce"),
    (ReduceCommand::LoadReduce, "load_reduce"),
];

/// Where the command lies in an instruction's flags; the bits above are the instruction's own.
const BITS: u16 = 0b111;

impl ReduceCommand {
    /// Whether elements are accumulated.
    pub(crate) fn accumulates(self) -> bool {
        matches!(self, ReduceCommand::Reduce | ReduceCommand::ResetReduce | ReduceCommand::LoadReduce)
    }

    /// Whether the accumulators start from the operator's identity.
    pub(crate) fn resets(self) -> bool {
        matches!(self, ReduceCommand::Reset | ReduceCommand::ResetReduce)
    }

    /// Its name in the public reference.
    pub(crate) fn name(self) -> &'static str {
        COMMANDS[self as usize].1
    }

    /// The command that `reduce_cmd` names, among those that the instruction offers.
    ///
    /// # Errors
    /// `rule`, if the command is none of `allowed`.
    pub(crate) fn of(
        arguments: &Arguments<'_>,
        default: ReduceCommand,
        allowed: &[ReduceCommand],
        rule: &Rule,
    ) -> Result<ReduceCommand, Violation> {
        let Some(name) = arguments.member("reduce_cmd", "reduce_cmd")? else { return Ok(default) };
        let command = COMMANDS.iter().find(|(_, known)| *known == name).map(|(command, _)| *command);
        command.filter(|command| allowed.contains(command)).ok_or_else(|| {
            let allowed = allowed.iter().map(|command| command.name()).collect::<Vec<_>>().join(", ");
            broken(rule, "reduce_cmd", format!("is {name}"), format!("must be one of {allowed}"))
        })
    }

    /// Puts the command into an instruction's flags.
    pub(crate) fn store(self, instruction: &mut Instruction) {
        instruction.flags = instruction.flags & !BITS | self as u16;
    }

    /// The command of a recorded instruction.
    pub(crate) fn stored(instruction: &Instruction) -> ReduceCommand {
        COMMANDS[usize::from(instruction.flags & BITS)].0
    }
}

/// Accumulators of one engine, one a partition.
#[derive(Debug, Clone, PartialEq)]
pub struct Accumulators(Vec<f32>);

impl Default for Accumulators {
    fn default() -> Self {
        Accumulators(vec![0.0; 128])
    }
}

impl Accumulators {
    /// Makes those of a tile's partitions ready for a command: the start value, if it sets one.
    pub(crate) fn begin(&mut self, first: usize, count: usize, command: ReduceCommand, start: f32) -> Vec<f32> {
        let accumulators = self.of(first, count);
        if command.resets() {
            accumulators.fill(start);
        }
        accumulators.to_vec()
    }

    /// Those of `count` partitions from `first` on.
    pub(crate) fn of(&mut self, first: usize, count: usize) -> &mut [f32] {
        if self.0.len() < first + count {
            // A table of the user's may have more partitions.
            self.0.resize(first + count, 0.0);
        }
        &mut self.0[first..first + count]
    }
}

/// Elements of a row that pay for starting the search of an extreme value.
const EXTREME_MIN: usize = 64;

/// Accumulates elements `first..` of a tile with rows of `row` elements, in their order, into one value a row.
pub(crate) fn accumulate(operator: Operator, first: usize, row: usize, values: &[f32], sums: &mut [f32]) {
    if row >= EXTREME_MIN && matches!(operator, Operator::Maximum | Operator::Minimum) {
        let maximum = operator == Operator::Maximum;
        return each_piece(first, row, values, sums, |piece, sum| simd::extreme(maximum, piece, sum));
    }
    macro_rules! run {
        ($op:expr) => {{
            let step = |sum, value| $op.evaluate(sum, value);
            if first.is_multiple_of(row) && values.len().is_multiple_of(row) {
                let sums = &mut sums[first / row..][..values.len() / row];
                let blocks = sums.len() / recurrence::LANES * recurrence::LANES;
                let ((values, few), (sums, few_sums)) = (values.split_at(blocks * row), sums.split_at_mut(blocks));
                recurrence::fold(step, row, 0, values, sums);
                let (few, few_sums) = interleaved::<4>(step, row, few, few_sums);
                let (few, few_sums) = interleaved::<2>(step, row, few, few_sums);
                interleaved::<1>(step, row, few, few_sums);
            } else {
                each_piece(first, row, values, sums, |piece, sum| {
                    *sum = piece.iter().fold(*sum, |sum, &value| step(sum, value));
                });
            }
        }};
    }
    match operator {
        Operator::Add => run!(Operator::Add),
        Operator::Maximum => run!(Operator::Maximum),
        Operator::Minimum => run!(Operator::Minimum),
        other => run!(other),
    }
}

/// Accumulates whole rows, so many at a time, whose chains of operations do not wait for each other; gives back those
/// that are left over.
fn interleaved<'a, const ROWS: usize>(
    step: impl Fn(f32, f32) -> f32,
    row: usize,
    values: &'a [f32],
    sums: &'a mut [f32],
) -> (&'a [f32], &'a mut [f32]) {
    let (mut groups, mut lanes) = (values.chunks_exact(row * ROWS), sums.chunks_exact_mut(ROWS));
    for (group, sums) in (&mut groups).zip(&mut lanes) {
        let mut running = [0.0; ROWS];
        running.copy_from_slice(sums);
        for at in 0..row {
            for (lane, sum) in running.iter_mut().enumerate() {
                *sum = step(*sum, group[lane * row + at]);
            }
        }
        sums.copy_from_slice(&running);
    }
    (groups.remainder(), lanes.into_remainder())
}

/// Calls `run` for each stretch of `values` that lies in one row, with the row's value.
fn each_piece(first: usize, row: usize, values: &[f32], sums: &mut [f32], mut run: impl FnMut(&[f32], &mut f32)) {
    let mut done = 0;
    while done < values.len() {
        let at = first + done;
        let count = (row - at % row).min(values.len() - done);
        run(&values[done..done + count], &mut sums[at / row]);
        done += count;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn side_by_side_is_one_after_the_other() {
        for row in [7, 70] {
            let mut values: Vec<f32> = (0..40 * row).map(|at| ((at * 37 % 101) as f32 - 50.0) * 1.1).collect();
            (values[row], values[3 * row + 5]) = (f32::NAN, f32::NAN);
            for operator in [Operator::Add, Operator::Multiply, Operator::Maximum, Operator::Minimum] {
                let mut expected = vec![operator.identity(); 40];
                for (at, &value) in values.iter().enumerate() {
                    expected[at / row] = operator.evaluate(expected[at / row], value);
                }
                for step in [row, 3 * row, 6 * row, 40 * row, 5, 100] {
                    let mut sums = vec![operator.identity(); 40];
                    for first in (0..values.len()).step_by(step) {
                        let end = (first + step).min(values.len());
                        accumulate(operator, first, row, &values[first..end], &mut sums);
                    }
                    let bits = |values: &[f32]| values.iter().map(|value| value.to_bits()).collect::<Vec<_>>();
                    assert_eq!(bits(&sums), bits(&expected), "{operator:?} in steps of {step}");
                }
            }
        }
    }
}
