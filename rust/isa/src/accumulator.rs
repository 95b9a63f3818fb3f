//! The accumulators of VectorE and ScalarE: one FP32 value a partition that outlives an instruction, and the commands
//! that say what an instruction does with it.
//!
//! VectorE has one set for `exponential`, `range_select`, `select_reduce`, `tensor_scalar_reduce` and
//! `tensor_scalar_cumulative`; ScalarE has one for `activation`, `activation_reduce` and `activate2`.

use crate::arguments::Arguments;
use crate::context::broken;
use crate::instruction::Instruction;
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
    /// Those of `count` partitions from `first` on.
    pub(crate) fn of(&mut self, first: usize, count: usize) -> &mut [f32] {
        if self.0.len() < first + count {
            // A table of the user's may have more partitions.
            self.0.resize(first + count, 0.0);
        }
        &mut self.0[first..first + count]
    }
}
