//! `tensor_scalar_cumulative`: an operator with a constant, and the running reduction of its results.

use crate::accumulator::ReduceCommand;
use crate::arguments::{Argument, Arguments, Parameter, Use};
use crate::context::{Context, ON_CHIP, broken};
use crate::cost::Cost;
use crate::instruction::{Engine, Instruction};
use crate::machine::{Machine, Tables};
use crate::operator::Operator;
use crate::recurrence;
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
    doc: "``r = op1(op0(src, imm0), r)``, ``dst = r``, from the first element to the last.\n\n\
        r is one FP32 accumulator a partition, VectorE's, which persists across instructions: reset_reduce starts from \
        op1's identity, reduce goes on, load_reduce starts from imm1. subtract takes r from the new value. r is not \
        rounded to dst's data type. The public text mentions a flag reverse0 that the signature lacks.",
    source: "nki/api/nki/isa/__init__.py, tensor_scalar_cumulative",
    kind: Kind::Compute,
    engines: &[Engine::Vector],
    parameters: &[
        Parameter {
            name: "dst",
            default: None,
            usage: Use::Write,
            doc: "SBUF or PSUM, (P, F); float32, bfloat16, float16, float8, or an 8- or 16-bit integer.",
        },
        Parameter { name: "src", default: None, usage: Use::Read, doc: "SBUF or PSUM, (P, F); the types of dst." },
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
            doc: "float32 (P, 1) tile or constant, for load_reduce.",
        },
        Parameter {
            name: "reduce_cmd",
            default: Some("reduce_cmd.reset_reduce"),
            usage: Use::Constant,
            doc: "reset_reduce, reduce or load_reduce.",
        },
    ],
    rules: &[OPERATORS, COMMAND],
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
    text: "op0 is an arithmetic operator, op1 add, subtract, multiply, maximum or minimum",
    source: "nki/api/nki/isa/__init__.py, tensor_scalar_cumulative",
    fix: "use another operator, or tensor_scalar and tensor_tensor_scan",
};
const COMMAND: Rule = Rule {
    id: "tensor_scalar_cumulative.reduce_cmd",
    text: "reduce_cmd is reset_reduce, reduce or load_reduce",
    source: "nki/api/nki/isa/__init__.py, tensor_scalar_cumulative",
    fix: "use reset_reduce",
};

const COMMANDS: &[ReduceCommand] = &[ReduceCommand::ResetReduce, ReduceCommand::Reduce, ReduceCommand::LoadReduce];

const ACCUMULATING: &[Operator] =
    &[Operator::Add, Operator::Subtract, Operator::Multiply, Operator::Maximum, Operator::Minimum];

const DTYPES: &[Dtype] = &[
    Dtype::Float32,
    Dtype::Bfloat16,
    Dtype::Float16,
    Dtype::Float8E5m2,
    Dtype::Float8E4m3,
    Dtype::Float8E4m3fn,
    Dtype::Int8,
    Dtype::Int16,
    Dtype::Uint8,
    Dtype::Uint16,
];

fn build(arguments: &Arguments<'_>, context: &mut Context<'_>) -> Result<Instruction, Violation> {
    let (dst, src) = (arguments.view("dst")?, arguments.view("src")?);
    for (view, name) in [(dst, "dst"), (src, "src")] {
        context.check_tile(view, name, ON_CHIP)?;
        context.check_dtype(view, name, DTYPES)?;
    }
    context.check_same_shape(src, "src", dst, "dst")?;
    let op0 = context.arithmetic(arguments, "op0", &OPERATORS)?;
    let op1 = context.arithmetic(arguments, "op1", &OPERATORS)?;
    if !ACCUMULATING.contains(&op1) {
        return Err(broken(&OPERATORS, "op1", format!("is {}", op1.name()), OPERATORS.text));
    }
    let command = ReduceCommand::of(arguments, ReduceCommand::ResetReduce, COMMANDS, &COMMAND)?;
    let mut instruction = Instruction::new(Opcode::TensorScalarCumulative, Engine::Vector);
    let partitions = src.partitions();
    context.writes(&mut instruction, 0, dst);
    context.reads(&mut instruction, 1, src);
    if let Argument::View(view) = arguments.get("imm0") {
        context.check_dtype(view, "imm0", &[Dtype::Float32])?;
    }
    context.scalar_operand(&mut instruction, arguments, op0, ("imm0", 2, 1), partitions)?;
    if command == ReduceCommand::LoadReduce {
        context.fp32_operand(&mut instruction, arguments, ("imm1", 3, 2), partitions)?;
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
    operators(instruction)[0].hides_nan()
}

/// Replaces each element by the running value of its row; `state` has the rows' values before and after.
fn cumulate(operator: Operator, row: usize, values: &mut [f32], state: &mut [f32]) {
    macro_rules! run {
        ($op:expr) => {
            recurrence::run(|value, _, running| $op.evaluate(value, running), row, values, None, state)
        };
    }
    match operator {
        Operator::Add => run!(Operator::Add),
        Operator::Subtract => run!(Operator::Subtract),
        Operator::Multiply => run!(Operator::Multiply),
        Operator::Maximum => run!(Operator::Maximum),
        Operator::Minimum => run!(Operator::Minimum),
        other => unreachable!("{} does not accumulate", other.name()),
    }
}

fn execute(instruction: &Instruction, machine: &mut Machine<'_>) -> Result<(), Violation> {
    let [dst, src, ..] = instruction.operands;
    let [op0, op1] = operators(instruction);
    let command = ReduceCommand::stored(instruction);
    let imm0 = machine.vector_operand(instruction, 2, 1);
    let geometry = machine.tables.geometry(&src);
    let (row, rows, partition) = (geometry.row_elements(), geometry.rows(), machine.tables.partition_start(&src));
    let mut state = machine.registers.vector.begin(partition, rows, command, op1.identity());
    if command == ReduceCommand::LoadReduce {
        machine.vector_operand(instruction, 3, 2).fill(&mut state);
    }
    let mut values = std::mem::take(&mut machine.scratch.tile);
    machine.read_all(&src, &mut values);
    imm0.for_each(0, row, &mut values, |piece, value| simd::constant(op0, piece, value, false));
    cumulate(op1, row, &mut values, &mut state);
    machine.registers.vector.of(partition, rows).copy_from_slice(&state);
    let cast = machine.options.cast;
    machine.with_written(&dst, |_, tile| tile.write_f32(0, &values, cast));
    machine.scratch.tile = values;
    Ok(())
}

fn cost(instruction: &Instruction, tables: &Tables<'_>, target: &Target) -> Cost {
    let vector = &target.core.vector;
    let [dst, src, imm0, ..] = &instruction.operands;
    let rate = vector.stream.tensor_scalar_cumulative_cycles_per_element;
    let timing = if imm0.is_some() { &vector.tensor_scalar_vector_operand } else { &vector.other };
    stream_cost::vector(&[dst, src], rate, timing, tables, target)
}
