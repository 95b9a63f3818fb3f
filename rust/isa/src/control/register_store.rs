//! `register_store`: a register into one element of memory.

use super::{ELEMENT, check_element};
use crate::arguments::{Arguments, Parameter, Use};
use crate::context::Context;
use crate::cost::{Control, Cost};
use crate::instruction::{Engine, Instruction};
use crate::machine::{Machine, Tables};
use crate::table::{Definition, Exactness, Kind, Opcode, every_row, keeps_nan, no_work};
use trn3_mem::{Space, Violation};
use trn3_spec::Target;

/// The table's entry.
pub const DEFINITION: Definition = Definition {
    name: "register_store",
    doc: "Stores the low bits of a register into one element.\n\n\
        One sequencer does it, in the time of a load: no figure for a store is published.",
    source: "nki/api/nki/isa/__init__.py, register_store",
    kind: Kind::Register,
    engines: &Engine::ALL,
    parameters: &[
        Parameter {
            name: "dst",
            default: None,
            usage: Use::Write,
            doc: "SBUF or HBM, one element of an integer type or float32.",
        },
        Parameter { name: "src", default: None, usage: Use::Constant, doc: "The register." },
    ],
    rules: &[ELEMENT],
    exactness: Exactness::BitExact,
    build,
    execute,
    hides_nan: keeps_nan,
    rows: every_row,
    cost,
    work: no_work,
};

fn build(arguments: &Arguments<'_>, context: &mut Context<'_>) -> Result<Instruction, Violation> {
    let dst = arguments.view("dst")?;
    check_element(context, dst, "dst")?;
    let mut instruction = Instruction::new(Opcode::RegisterStore, Engine::Sync);
    instruction.constants[0] = arguments.register("src")?.number;
    context.writes(&mut instruction, 0, dst);
    Ok(instruction)
}

fn execute(instruction: &Instruction, machine: &mut Machine<'_>) -> Result<(), Violation> {
    let value = machine.registers.scalar_value(instruction.constants[0]).to_le_bytes();
    machine.with_written(&instruction.operands[0], |_, tile| {
        let size = tile.geometry.dtype.size_bytes();
        tile.write_bytes(0, &value[..size]);
    });
    Ok(())
}

fn cost(instruction: &Instruction, tables: &Tables<'_>, _: &Target) -> Cost {
    let on_chip = tables.tensor(&instruction.operands[0]).space == Space::Sbuf;
    Cost::Control(if on_chip { Control::AccessSbuf } else { Control::AccessHbm })
}
