//! `scalar_tensor_tensor`: an operator with a constant, then one with a tile.

use crate::arguments::{Arguments, Parameter, Use};
use crate::context::{Context, ON_CHIP, broken};
use crate::cost::Cost;
use crate::instruction::{Engine, Instruction, Operand};
use crate::machine::{Machine, Tables};
use crate::operator::Operator;
use crate::rules::{self, Rule};
use crate::simd;
use crate::table::{Definition, Exactness, Kind, Opcode, every_row, no_work};
use crate::vector::stream_cost;
use trn3_mem::{Space, Violation};
use trn3_spec::Target;

/// The table's entry.
pub const DEFINITION: Definition = Definition {
    name: "scalar_tensor_tensor",
    doc: "``dst = op1(op0(data, operand0), operand1)``; reverse0 and reverse1 swap an operator's operands.\n\n\
        FP32 inside, rounded after each operator.",
    source: "nki/api/nki/isa/__init__.py, scalar_tensor_tensor",
    kind: Kind::Compute,
    engines: &[Engine::Vector],
    parameters: &[
        Parameter { name: "dst", default: None, usage: Use::Write, doc: "SBUF or PSUM, (P, F), any type." },
        Parameter { name: "data", default: None, usage: Use::Read, doc: "SBUF or PSUM, (P, F), any type." },
        Parameter { name: "op0", default: None, usage: Use::Constant, doc: "An arithmetic operator." },
        Parameter {
            name: "operand0",
            default: None,
            usage: Use::VectorOperand,
            doc: "(P, 1) tile or constant; None or 0 for a unary op0.",
        },
        Parameter { name: "op1", default: None, usage: Use::Constant, doc: "An arithmetic operator of two operands." },
        Parameter {
            name: "operand1",
            default: None,
            usage: Use::Read,
            doc: "SBUF or PSUM, (P, F); not in PSUM together with data.",
        },
        Parameter { name: "reverse0", default: Some("False"), usage: Use::Constant, doc: "operand0 is op0's left." },
        Parameter { name: "reverse1", default: Some("False"), usage: Use::Constant, doc: "operand1 is op1's left." },
    ],
    rules: &[OPERATORS],
    exactness: Exactness::BitExact,
    build,
    execute,
    hides_nan,
    rows: every_row,
    cost,
    work: no_work,
};

const OPERATORS: Rule = Rule {
    id: "scalar_tensor_tensor.operators",
    text: "op0 and op1 are arithmetic operators, and op1 takes two operands",
    source: "nki/api/nki/isa/__init__.py, scalar_tensor_tensor",
    fix: "use tensor_tensor and tensor_scalar for bit operators",
};

const REVERSE0: u16 = 1;
const REVERSE1: u16 = 2;

fn build(arguments: &Arguments<'_>, context: &mut Context<'_>) -> Result<Instruction, Violation> {
    let (dst, data, operand1) = (arguments.view("dst")?, arguments.view("data")?, arguments.view("operand1")?);
    for (view, name) in [(dst, "dst"), (data, "data"), (operand1, "operand1")] {
        context.check_tile(view, name, ON_CHIP)?;
        context.check_unpacked(view, name)?;
    }
    context.check_same_shape(data, "data", dst, "dst")?;
    context.check_same_shape(operand1, "operand1", data, "data")?;
    if data.space == Space::Psum && operand1.space == Space::Psum {
        return Err(broken(&rules::PSUM_PAIR, "operand1", "is in psum, as data is", rules::PSUM_PAIR.text));
    }
    let op0 = context.arithmetic(arguments, "op0", &OPERATORS)?;
    let op1 = context.arithmetic(arguments, "op1", &OPERATORS)?;
    if op1.is_unary() {
        return Err(broken(&OPERATORS, "op1", format!("is {}", op1.name()), OPERATORS.text));
    }
    let mut instruction = Instruction::new(Opcode::ScalarTensorTensor, Engine::Vector);
    context.writes(&mut instruction, 0, dst);
    context.reads(&mut instruction, 1, data);
    context.reads(&mut instruction, 2, operand1);
    context.scalar_operand(&mut instruction, arguments, op0, ("operand0", 3, 1), data.partitions())?;
    instruction.constants[0] = op0 as u32 | (op1 as u32) << 16;
    let reverse0 = arguments.flag("reverse0")? && !op0.is_unary();
    instruction.flags = if reverse0 { REVERSE0 } else { 0 } | if arguments.flag("reverse1")? { REVERSE1 } else { 0 };
    Ok(instruction)
}

fn operators(instruction: &Instruction) -> [Operator; 2] {
    let codes = instruction.constants[0];
    [Operator::from_code(codes as u8), Operator::from_code((codes >> 16) as u8)]
}

fn hides_nan(instruction: &Instruction) -> bool {
    operators(instruction).into_iter().any(Operator::hides_nan)
}

fn execute(instruction: &Instruction, machine: &mut Machine<'_>) -> Result<(), Violation> {
    let [dst, data, operand1, ..] = instruction.operands;
    let [op0, op1] = operators(instruction);
    let operand0 = machine.vector_operand(instruction, 3, 1);
    let row = machine.tables.geometry(&data).row_elements();
    let (reverse0, reverse1) = (instruction.flags & REVERSE0 != 0, instruction.flags & REVERSE1 != 0);
    let mut first_result = vec![0.0; crate::machine::CHUNK.max(row)];
    machine.stream(&dst, &[&data, &operand1], |first, [x, y], out| {
        let t = &mut first_result[..x.len()];
        t.copy_from_slice(x);
        operand0.for_each(first, row, t, |piece, value| simd::constant(op0, piece, value, reverse0));
        let (a, b): (&[f32], &[f32]) = if reverse1 { (y, t) } else { (t, y) };
        simd::binary(op1, a, b, out);
        Ok(())
    })
}

fn cost(instruction: &Instruction, tables: &Tables<'_>, target: &Target) -> Cost {
    let vector = &target.core.vector;
    let [dst, data, operand1, ..] = &instruction.operands;
    let streamed: [&Operand; 3] = [dst, data, operand1];
    let even = tables.geometry(dst).row_elements().is_multiple_of(2);
    let is_fast = even && operators(instruction) == [Operator::Subtract, Operator::Multiply];
    let rate = stream_cost::pair_rate(&vector.stream.scalar_tensor_tensor, &streamed, is_fast, tables);
    stream_cost::vector(&streamed, rate, &vector.tensor_tensor, tables, target)
}
