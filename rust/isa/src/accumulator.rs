//! The accumulators of VectorE and ScalarE: one FP32 value a partition that outlives an instruction, and the commands
//! that say what an instruction does with it.
//!
//! VectorE has one set for `exponential`, `range_select`, `select_reduce`, `tensor_scalar_reduce` and
//! `tensor_scalar_cumulative`; ScalarE has one for `activation`, `activation_reduce` and `activate2`.

use crate::arguments::Arguments;
use crate::context::broken;
use crate::instruction::Instruction;
use crate::operator::Operator;
use crate::rules::Rule;
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

/// Rows accumulated side by side: their chains of operations do not wait for each other.
const LANES: usize = 16;

/// Accumulates elements `first..` of a tile with rows of `row` elements, in their order, into one value a row.
pub(crate) fn accumulate(operator: Operator, first: usize, row: usize, values: &[f32], sums: &mut [f32]) {
    macro_rules! run {
        ($op:expr) => {{
            if first.is_multiple_of(row) && values.len().is_multiple_of(row) {
                let sums = &mut sums[first / row..][..values.len() / row];
                let (mut groups, mut lanes) = (values.chunks_exact(row * LANES), sums.chunks_exact_mut(LANES));
                for (rows, sums) in (&mut groups).zip(&mut lanes) {
                    for at in 0..row {
                        for (lane, sum) in sums.iter_mut().enumerate() {
                            *sum = $op.evaluate(*sum, rows[lane * row + at]);
                        }
                    }
                }
                for (row, sum) in groups.remainder().chunks_exact(row).zip(lanes.into_remainder()) {
                    *sum = row.iter().fold(*sum, |sum, &value| $op.evaluate(sum, value));
                }
                return;
            }
            let mut done = 0;
            while done < values.len() {
                let at = first + done;
                let count = (row - at % row).min(values.len() - done);
                let sum = &mut sums[at / row];
                *sum = values[done..done + count].iter().fold(*sum, |sum, &value| $op.evaluate(sum, value));
                done += count;
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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn side_by_side_is_one_after_the_other() {
        let values: Vec<f32> = (0..40 * 7).map(|at| ((at * 37 % 101) as f32 - 50.0) * 1.1).collect();
        for operator in [Operator::Add, Operator::Multiply, Operator::Maximum, Operator::Minimum] {
            let mut expected = vec![operator.identity(); 40];
            for (at, &value) in values.iter().enumerate() {
                expected[at / 7] = operator.evaluate(expected[at / 7], value);
            }
            for step in [7, 21, 40 * 7, 5, 100] {
                let mut sums = vec![operator.identity(); 40];
                for first in (0..values.len()).step_by(step) {
                    let end = (first + step).min(values.len());
                    accumulate(operator, first, 7, &values[first..end], &mut sums);
                }
                assert_eq!(sums, expected, "{operator:?} in steps of {step}");
            }
        }
    }
}
