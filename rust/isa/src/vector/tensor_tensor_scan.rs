//! `tensor_tensor_scan`: a recurrence along the free dimension.

use crate::arguments::{Arguments, Parameter, Use};
use crate::context::{Context, ON_CHIP, broken};
use crate::cost::Cost;
use crate::instruction::{Engine, Instruction};
use crate::machine::{Machine, Tables, VectorOperand};
use crate::operator::Operator;
use crate::recurrence;
use crate::rules::{self, Rule};
use crate::table::{Definition, Exactness, Kind, Opcode, every_row, no_work};
use crate::vector::stream_cost;
use trn3_mem::{Space, Violation};
use trn3_spec::Target;

/// The table's entry.
pub const DEFINITION: Definition = Definition {
    name: "tensor_tensor_scan",
    doc: "``r[i] = op1(op0(data0[i], r[i - 1]), data1[i])`` with ``r[-1] = initial``; ``dst = r``.\n\n\
        Along the flattened free dimensions, one element after the other, FP32 rounded after each operator; reverse0 and \
        reverse1 swap an operator's operands. What goes on is r before it is converted to dst's data type.",
    source: "nki/api/nki/isa/__init__.py, tensor_tensor_scan",
    kind: Kind::Compute,
    engines: &[Engine::Vector],
    parameters: &[
        Parameter { name: "dst", default: None, usage: Use::Write, doc: "SBUF or PSUM, (P, F), any type." },
        Parameter { name: "data0", default: None, usage: Use::Read, doc: "SBUF or PSUM, (P, F), any type." },
        Parameter {
            name: "data1",
            default: None,
            usage: Use::Read,
            doc: "SBUF or PSUM, (P, F); not in PSUM together with data0.",
        },
        Parameter { name: "initial", default: None, usage: Use::VectorOperand, doc: "(P, 1) tile or constant." },
        Parameter { name: "op0", default: None, usage: Use::Constant, doc: "An arithmetic operator of two operands." },
        Parameter { name: "op1", default: None, usage: Use::Constant, doc: "An arithmetic operator of two operands." },
        Parameter { name: "reverse0", default: Some("False"), usage: Use::Constant, doc: "data0 is op0's right." },
        Parameter { name: "reverse1", default: Some("False"), usage: Use::Constant, doc: "data1 is op1's left." },
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
    id: "tensor_tensor_scan.operators",
    text: "op0 and op1 are arithmetic operators of two operands",
    source: "nki/api/nki/isa/__init__.py, tensor_tensor_scan",
    fix: "use an operator such as nl.multiply and nl.add",
};

const REVERSE0: u16 = 1;
const REVERSE1: u16 = 2;

fn build(arguments: &Arguments<'_>, context: &mut Context<'_>) -> Result<Instruction, Violation> {
    let (dst, data0, data1) = (arguments.view("dst")?, arguments.view("data0")?, arguments.view("data1")?);
    for (view, name) in [(dst, "dst"), (data0, "data0"), (data1, "data1")] {
        context.check_tile(view, name, ON_CHIP)?;
        context.check_unpacked(view, name)?;
    }
    context.check_same_shape(data0, "data0", dst, "dst")?;
    context.check_same_shape(data1, "data1", data0, "data0")?;
    if data0.space == Space::Psum && data1.space == Space::Psum {
        return Err(broken(&rules::PSUM_PAIR, "data1", "is in psum, as data0 is", rules::PSUM_PAIR.text));
    }
    let mut instruction = Instruction::new(Opcode::TensorTensorScan, Engine::Vector);
    for (at, name) in ["op0", "op1"].into_iter().enumerate() {
        let operator = context.arithmetic(arguments, name, &OPERATORS)?;
        if operator.is_unary() {
            return Err(broken(&OPERATORS, name, format!("is {}", operator.name()), OPERATORS.text));
        }
        instruction.constants[0] |= (operator as u32) << (16 * at);
    }
    context.writes(&mut instruction, 0, dst);
    context.reads(&mut instruction, 1, data0);
    context.reads(&mut instruction, 2, data1);
    context.vector_operand(&mut instruction, arguments, "initial", 3, 1, data0.partitions())?;
    instruction.flags =
        if arguments.flag("reverse0")? { REVERSE0 } else { 0 } | if arguments.flag("reverse1")? { REVERSE1 } else { 0 };
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
    let [dst, data0, data1, ..] = instruction.operands;
    let [op0, op1] = operators(instruction);
    let geometry = machine.tables.geometry(&data0);
    let (rows, row) = (geometry.rows(), geometry.row_elements());
    let mut state = match machine.vector_operand(instruction, 3, 1) {
        VectorOperand::Constant(value) => vec![value; rows],
        VectorOperand::Partitions(values) => values,
    };
    let mut x = std::mem::take(&mut machine.scratch.tile);
    machine.read_all(&data0, &mut x);
    let mut y = Vec::new();
    machine.read_all(&data1, &mut y);
    let (reverse0, reverse1) = (instruction.flags & REVERSE0 != 0, instruction.flags & REVERSE1 != 0);
    match (op0, op1, reverse0 || reverse1) {
        (Operator::Multiply, Operator::Add, false) => {
            let step = |a, b, r| Operator::Add.evaluate(Operator::Multiply.evaluate(a, r), b);
            recurrence::run(step, row, &mut x, Some(&y), &mut state);
        }
        _ => {
            let pair = |op: Operator, a, b, swap: bool| if swap { op.evaluate(b, a) } else { op.evaluate(a, b) };
            let step = |a, b, r| pair(op1, pair(op0, a, r, reverse0), b, reverse1);
            recurrence::run(step, row, &mut x, Some(&y), &mut state);
        }
    }
    let cast = machine.options.cast;
    machine.with_written(&dst, |_, tile| tile.write_f32(0, &x, cast));
    machine.scratch.tile = x;
    Ok(())
}

fn cost(instruction: &Instruction, tables: &Tables<'_>, target: &Target) -> Cost {
    let vector = &target.core.vector;
    let [dst, data0, data1, ..] = &instruction.operands;
    let rate = vector.stream.tensor_tensor_scan_cycles_per_element;
    stream_cost::vector(&[dst, data0, data1], rate, &vector.other, tables, target)
}
