//! `register_load`: one element of memory into a register.

use super::{ELEMENT, FROZEN, check_element, written_register};
use crate::arguments::{Arguments, Parameter, Use};
use crate::context::Context;
use crate::cost::{Control, Cost};
use crate::instruction::{Engine, Instruction};
use crate::machine::{Machine, Tables};
use crate::table::{Definition, Exactness, Kind, Opcode, every_row, keeps_nan, no_work};
use trn3_mem::{Space, Violation};
use trn3_num::Dtype;
use trn3_spec::Target;

/// The table's entry.
pub const DEFINITION: Definition = Definition {
    name: "register_load",
    doc: "Loads one element into a register, integers extended to 32 bits, float32 as its bits.\n\n\
        The sequencers that need the register stall for the load.",
    source: "nki/api/nki/isa/__init__.py, register_load",
    kind: Kind::Register,
    engines: &Engine::ALL,
    parameters: &[
        Parameter { name: "dst", default: None, usage: Use::Constant, doc: "The register." },
        Parameter {
            name: "src",
            default: None,
            usage: Use::Read,
            doc: "SBUF or HBM, one element of an integer type or float32.",
        },
    ],
    rules: &[ELEMENT, FROZEN],
    exactness: Exactness::BitExact,
    build,
    execute,
    hides_nan: keeps_nan,
    rows: every_row,
    cost,
    work: no_work,
};

fn build(arguments: &Arguments<'_>, context: &mut Context<'_>) -> Result<Instruction, Violation> {
    let src = arguments.view("src")?;
    check_element(context, src, "src")?;
    let mut instruction = Instruction::new(Opcode::RegisterLoad, Engine::Sync);
    instruction.constants[0] = written_register(arguments, "dst")?;
    context.reads(&mut instruction, 0, src);
    Ok(instruction)
}

fn execute(instruction: &Instruction, machine: &mut Machine<'_>) -> Result<(), Violation> {
    let tile = machine.tile(&instruction.operands[0]);
    let mut word = [0u32];
    tile.read_words(0, &mut word);
    let value = match tile.geometry.dtype {
        Dtype::Int8 => i32::from(word[0] as u8 as i8) as u32,
        Dtype::Int16 => i32::from(word[0] as u16 as i16) as u32,
        _ => word[0],
    };
    machine.registers.set_scalar_value(instruction.constants[0], value);
    Ok(())
}

fn cost(instruction: &Instruction, tables: &Tables<'_>, _: &Target) -> Cost {
    let on_chip = tables.tensor(&instruction.operands[0]).space == Space::Sbuf;
    Cost::Control(if on_chip { Control::AccessSbuf } else { Control::AccessHbm })
}
