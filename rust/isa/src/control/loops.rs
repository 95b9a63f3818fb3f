//! The marks of a dynamic loop: where its body begins and ends. The recorder makes them; what a loop counts or tests
//! is in the Program's table of loops, under the number in `constants[0]`.

use crate::arguments::Arguments;
use crate::context::Context;
use crate::cost::{Control, Cost};
use crate::instruction::{Engine, Instruction};
use crate::machine::{Machine, Tables};
use crate::table::{Definition, Exactness, Kind, Opcode, every_row, keeps_nan, no_work};
use trn3_mem::Violation;
use trn3_spec::Target;

const fn mark(name: &'static str, cost: fn(&Instruction, &Tables<'_>, &Target) -> Cost) -> Definition {
    Definition {
        name,
        doc: "A mark of a dynamic loop. Every sequencer that has work in the loop takes a branch.",
        source: "nki/deep-dives/nki-dynamic-loops.rst",
        kind: Kind::Loop,
        engines: &Engine::ALL,
        parameters: &[],
        rules: &[],
        exactness: Exactness::BitExact,
        build,
        execute,
        hides_nan: keeps_nan,
        rows: every_row,
        cost,
        work: no_work,
    }
}

/// The beginning of a loop: the test before the first turn.
pub mod begin {
    /// The table's entry.
    pub const DEFINITION: crate::table::Definition =
        super::mark("loop_begin", |_, _, _| super::Cost::Control(super::Control::Branch));
}

/// The end of a loop's body: the branch back, or on.
pub mod end {
    /// The table's entry.
    pub const DEFINITION: crate::table::Definition =
        super::mark("loop_end", |_, _, _| super::Cost::Control(super::Control::LoopBack));
}

/// The mark of loop `number`.
pub fn loop_mark(opcode: Opcode, number: u32) -> Instruction {
    let mut instruction = Instruction::new(opcode, Engine::Sync);
    instruction.constants[0] = number;
    instruction
}

/// Loops are opened and closed by the recorder, not called.
fn build(_: &Arguments<'_>, _: &mut Context<'_>) -> Result<Instruction, Violation> {
    unreachable!("the marks of a loop are made by the recorder")
}

/// Where to go on is the interpreter's business.
fn execute(_: &Instruction, _: &mut Machine<'_>) -> Result<(), Violation> {
    Ok(())
}
