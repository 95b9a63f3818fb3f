//! `register_move`: a constant or another register into a register.

use super::{FROZEN, written_register};
use crate::arguments::{Argument, Arguments, Parameter, Use};
use crate::context::{Context, broken};
use crate::cost::{Control, Cost};
use crate::instruction::{Engine, Instruction};
use crate::machine::{Machine, Tables};
use crate::rules::Rule;
use crate::table::{Definition, Exactness, Kind, Opcode, every_row, keeps_nan, no_work};
use trn3_mem::Violation;
use trn3_spec::Target;

/// The table's entry.
pub const DEFINITION: Definition = Definition {
    name: "register_move",
    doc: "Moves a constant or the value of another register into a register.\n\n\
        Registers are held by the sequencers of the engines that need them; each of those takes the time of its \
        shortest control instruction, since no figure for a move is published.",
    source: "nki/api/nki/isa/__init__.py, register_move",
    kind: Kind::Register,
    engines: &Engine::ALL,
    parameters: &[
        Parameter { name: "dst", default: None, usage: Use::Constant, doc: "The register." },
        Parameter { name: "src", default: None, usage: Use::Constant, doc: "A 32-bit integer, or a register." },
    ],
    rules: &[VALUE, FROZEN],
    exactness: Exactness::BitExact,
    build,
    execute,
    hides_nan: keeps_nan,
    rows: every_row,
    cost,
    work: no_work,
};

const VALUE: Rule = Rule {
    id: "register.value",
    text: "a register holds 32 bits",
    source: "nki/api/nki/isa/__init__.py, register_alloc",
    fix: "give an integer from -2**31 to 2**32 - 1",
};

/// Flag: the source is a register, not a constant.
pub(super) const FROM_REGISTER: u16 = 1;

fn build(arguments: &Arguments<'_>, _: &mut Context<'_>) -> Result<Instruction, Violation> {
    let mut instruction = Instruction::new(Opcode::RegisterMove, Engine::Sync);
    instruction.constants[0] = written_register(arguments, "dst")?;
    if let Argument::Register(register) = arguments.get("src") {
        instruction.flags |= FROM_REGISTER;
        instruction.constants[1] = register.number;
    } else {
        let value = arguments.int("src")?;
        if !(i64::from(i32::MIN)..=i64::from(u32::MAX)).contains(&value) {
            return Err(broken(&VALUE, "src", format!("is {value}"), "must fit into 32 bits"));
        }
        instruction.constants[1] = value as u32;
    }
    Ok(instruction)
}

fn execute(instruction: &Instruction, machine: &mut Machine<'_>) -> Result<(), Violation> {
    let [dst, src, ..] = instruction.constants;
    let from_register = instruction.flags & FROM_REGISTER != 0;
    let value = if from_register { machine.registers.scalar_value(src) } else { src };
    machine.registers.set_scalar_value(dst, value);
    Ok(())
}

fn cost(_: &Instruction, _: &Tables<'_>, _: &Target) -> Cost {
    Cost::Control(Control::Move)
}
