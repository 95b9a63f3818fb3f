//! `tensor_scalar_cumulative`: an operator with a constant, and the running reduction of its results.

use crate::accumulator::ReduceCommand;
use crate::arguments::{Argument, Arguments, Parameter, Use};
use crate::context::{Context, ON_CHIP, broken};
use crate::cost::Cost;
use crate::instruction::{Engine, Instruction};
use crate::machine::{Machine, Tables, VectorOperand};
use crate::operator::Operator;
use crate::rules::Rule;
use crate::simd;
use crate::table::{Definition, Exactness, Kind, Opcode, every_row, no_work};
use crate::vector::stream_cost;
use trn3_mem::Violation;
use trn3_num::Dtype;
use trn3_spec::Target;

/// The table's entry.
pub const DEFINITION: Definition = Definition {
    name: "tensor_scalar_cumulative",
    doc: "``reg = op1(op0(src, imm0), reg)``, ``dst = reg``, along the flattened free dimensions, one element after the \
        other.\n\n\
        reg is VectorE's accumulator, FP32: reset_reduce starts from op1's identity (0 for subtract), reduce goes on, \
        load_reduce starts from imm1. What goes on is reg before it is converted to dst's data type.",
    source: "nki/api/nki/isa/__init__.py, tensor_scalar_cumulative",
    kind: Kind::Compute,
    engines: &[Engine::Vector],
    parameters: &[
        Parameter { name: "dst", default: None, usage: Use::Write, doc: "SBUF or PSUM, (P, F); no 32-bit integers." },
        Parameter { name: "src", default: None, usage: Use::Read, doc: "SBUF or PSUM, (P, F); no 32-bit integers." },
        Parameter { name: "op0", default: None, usage: Use::Constant, doc: "An arithmetic operator." },
        Parameter {
            name: "op1",
            default: None,
            usage: Use::Constant,
            doc: "nl.add, nl.subtract, nl.multiply, nl.maximum or nl.minimum.",
        },
        Parameter {
            name: "imm0",
            default: None,
            usage: Use::VectorOperand,
            doc: "float32 (P, 1) tile or constant; None or 0 for a unary op0.",
        },
        Parameter {
            name: "imm1",
            default: Some("None"),
            usage: Use::VectorOperand,
            doc: "float32 (P, 1) tile or constant, with load_reduce only.",
        },
        Parameter {
            name: "reduce_cmd",
            default: Some("reduce_cmd.reset_reduce"),
            usage: Use::Constant,
            doc: "Where the accumulator starts.",
        },
    ],
    rules: &[OPERATORS, TYPES, INIT],
    exactness: Exactness::BitExact,
    build,
    execute,
    hides_nan,
    rows: every_row,
    cost,
    work: no_work,
};

const OPERATORS: Rule = Rule {
    id: "tensor_scalar_cumulative.operators",
    text: "op0 is an arithmetic operator, op1 add, subtract, multiply, maximum or minimum, and reduce_cmd reduce, \
        reset_reduce or load_reduce",
    source: "nki/api/nki/isa/__init__.py, tensor_scalar_cumulative",
    fix: "use another operator, or tensor_tensor_scan",
};
const TYPES: Rule = Rule {
    id: "tensor_scalar_cumulative.dtype",
    text: "dst and src are no 32-bit integers; imm0 and imm1 are float32",
    source: "nki/api/nki/isa/__init__.py, tensor_scalar_cumulative",
    fix: "cast first (tensor_copy)",
};
const INIT: Rule = Rule {
    id: "tensor_scalar_cumulative.imm1",
    text: "imm1 is given with reduce_cmd.load_reduce, and only then",
    source: "nki/api/nki/isa/__init__.py, tensor_scalar_cumulative",
    fix: "use reduce_cmd.load_reduce, or leave imm1 out",
};

const COMMANDS: &[ReduceCommand] = &[ReduceCommand::Reduce, ReduceCommand::ResetReduce, ReduceCommand::LoadReduce];

fn build(arguments: &Arguments<'_>, context: &mut Context<'_>) -> Result<Instruction, Violation> {
    let (dst, src) = (arguments.view("dst")?, arguments.view("src")?);
    for (view, name) in [(dst, "dst"), (src, "src")] {
        context.check_tile(view, name, ON_CHIP)?;
        context.check_unpacked(view, name)?;
        if matches!(view.dtype, Dtype::Int32 | Dtype::Uint32) {
            return Err(broken(&TYPES, name, format!("is {}", view.dtype.name()), TYPES.text));
        }
    }
    context.check_same_shape(src, "src", dst, "dst")?;
    for name in ["imm0", "imm1"] {
        if let Argument::View(view) = arguments.get(name)
            && view.dtype != Dtype::Float32
        {
            return Err(broken(&TYPES, name, format!("is {}", view.dtype.name()), TYPES.text));
        }
    }
    let op0 = context.arithmetic(arguments, "op0", &OPERATORS)?;
    let op1 = context.arithmetic(arguments, "op1", &OPERATORS)?;
    use Operator::{Add, Maximum, Minimum, Multiply, Subtract};
    if !matches!(op1, Add | Subtract | Multiply | Maximum | Minimum) {
        return Err(broken(&OPERATORS, "op1", format!("is {}", op1.name()), OPERATORS.text));
    }
    let command = ReduceCommand::of(arguments, ReduceCommand::ResetReduce, COMMANDS, &OPERATORS)?;
    let given = *arguments.get("imm1") != Argument::None;
    if given != (command == ReduceCommand::LoadReduce) {
        let value = if given { "is given" } else { "is None" };
        return Err(broken(&INIT, "imm1", value, format!("reduce_cmd is {}", command.name())));
    }
    let mut instruction = Instruction::new(Opcode::TensorScalarCumulative, Engine::Vector);
    let partitions = src.partitions();
    context.writes(&mut instruction, 0, dst);
    context.reads(&mut instruction, 1, src);
    context.scalar_operand(&mut instruction, arguments, op0, ("imm0", 2, 1), partitions)?;
    if given {
        context.vector_operand(&mut instruction, arguments, "imm1", 3, 2, partitions)?;
    }
    instruction.constants[0] = op0 as u32 | (op1 as u32) << 16;
    command.store(&mut instruction);
    Ok(instruction)
}

fn operators(instruction: &Instruction) -> [Operator; 2] {
    let codes = instruction.constants[0];
    [Operator::from_code(codes as u8), Operator::from_code((codes >> 16) as u8)]
}

fn hides_nan(instruction: &Instruction) -> bool {
    operators(instruction)[0].gives_truth()
}

fn execute(instruction: &Instruction, machine: &mut Machine<'_>) -> Result<(), Violation> {
    let [dst, src, ..] = instruction.operands;
    let [op0, op1] = operators(instruction);
    let command = ReduceCommand::stored(instruction);
    let imm0 = machine.vector_operand(instruction, 2, 1);
    let geometry = machine.tables.geometry(&src);
    let (row, rows, partition) = (geometry.row_elements(), geometry.rows(), machine.tables.partition_start(&src));
    let start = if op1 == Operator::Subtract { 0.0 } else { op1.identity() };
    let mut state = machine.registers.vector.begin(partition, rows, command, start);
    if command == ReduceCommand::LoadReduce {
        match machine.vector_operand(instruction, 3, 2) {
            VectorOperand::Constant(value) => state.fill(value),
            VectorOperand::Partitions(values) => state.copy_from_slice(&values),
        }
    }
    machine.stream(&dst, &[&src], |first, [x, _], out| {
        out.copy_from_slice(x);
        imm0.for_each(first, row, out, |piece, value| simd::constant(op0, piece, value, false));
        for (at, value) in out.iter_mut().enumerate() {
            let state = &mut state[(first + at) / row];
            *state = op1.evaluate(*value, *state);
            *value = *state;
        }
        Ok(())
    })?;
    machine.registers.vector.of(partition, rows).copy_from_slice(&state);
    Ok(())
}

fn cost(instruction: &Instruction, tables: &Tables<'_>, target: &Target) -> Cost {
    let vector = &target.core.vector;
    let [dst, src, ..] = &instruction.operands;
    let rate = vector.stream.tensor_scalar_cumulative_cycles_per_element;
    stream_cost::vector(&[dst, src], rate, &vector.other, tables, target)
}
