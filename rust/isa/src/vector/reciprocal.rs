//! `reciprocal`: 1 / x.

use crate::arguments::{Arguments, Parameter, Use};
use crate::context::{Context, ON_CHIP};
use crate::cost::Cost;
use crate::instruction::{Engine, Instruction};
use crate::machine::{Machine, Tables};
use crate::operator::Operator;
use crate::simd;
use crate::table::{Definition, Exactness, Kind, Opcode, every_row, keeps_nan, no_work};
use crate::vector::stream_cost;
use trn3_mem::Violation;
use trn3_spec::Target;

/// The table's entry.
pub const DEFINITION: Definition = Definition {
    name: "reciprocal",
    doc: "``dst = 1 / data``, rounded once in FP32: more precise than ScalarE's function of that name.",
    source: "nki/api/nki/isa/__init__.py, reciprocal; nki/api/nki.api.shared.rst",
    kind: Kind::Compute,
    engines: &[Engine::Vector],
    parameters: &[
        Parameter { name: "dst", default: None, usage: Use::Write, doc: "SBUF or PSUM, (P, F), any type." },
        Parameter { name: "data", default: None, usage: Use::Read, doc: "SBUF or PSUM, (P, F), any type." },
    ],
    rules: &[],
    exactness: Exactness::Modelled,
    build,
    execute,
    hides_nan: keeps_nan,
    rows: every_row,
    cost,
    work: no_work,
};

fn build(arguments: &Arguments<'_>, context: &mut Context<'_>) -> Result<Instruction, Violation> {
    let (dst, data) = (arguments.view("dst")?, arguments.view("data")?);
    for (view, name) in [(dst, "dst"), (data, "data")] {
        context.check_tile(view, name, ON_CHIP)?;
        context.check_unpacked(view, name)?;
    }
    context.check_same_shape(data, "data", dst, "dst")?;
    let mut instruction = Instruction::new(Opcode::Reciprocal, Engine::Vector);
    context.writes(&mut instruction, 0, dst);
    context.reads(&mut instruction, 1, data);
    Ok(instruction)
}

fn execute(instruction: &Instruction, machine: &mut Machine<'_>) -> Result<(), Violation> {
    let [dst, data, ..] = instruction.operands;
    machine.stream(&dst, &[&data], |_, [x, _], out| {
        out.copy_from_slice(x);
        simd::constant(Operator::Reciprocal, out, 0.0, false);
        Ok(())
    })
}

fn cost(instruction: &Instruction, tables: &Tables<'_>, target: &Target) -> Cost {
    let vector = &target.core.vector;
    let [dst, data, ..] = &instruction.operands;
    let rate = vector.stream.reciprocal_cycles_per_element;
    stream_cost::vector(&[dst, data], rate, &vector.reciprocal, tables, target)
}
