//! `tensor_scalar_reduce`: an operator with a constant, and a reduction of its results.

use crate::accumulator::{ReduceCommand, accumulate};
use crate::arguments::{Argument, Arguments, Parameter, Use};
use crate::context::{Context, ON_CHIP, broken};
use crate::cost::{Cost, Stream};
use crate::instruction::{Engine, Instruction};
use crate::machine::{Machine, Tables};
use crate::operator::Operator;
use crate::rules::Rule;
use crate::simd;
use crate::table::{Definition, Exactness, Kind, Opcode, every_row, no_work};
use crate::vector::stream_cost;
use trn3_mem::Violation;
use trn3_spec::Target;

/// The table's entry.
pub const DEFINITION: Definition = Definition {
    name: "tensor_scalar_reduce",
    doc: "``t = op0(data, operand0)``; ``dst = t``; the accumulators take ``reduce_op`` over all elements of t.\n\n\
        One FP32 accumulator a partition, VectorE's, persists across instructions: reset_reduce starts from the \
        operator's identity, reduce goes on, load_reduce starts from reduce_init, reset only resets. ``reduce_res`` gets \
        the accumulators, times -1 with reduce_res_negate. Elements are taken in ascending order, before they are \
        converted to dst's data type.",
    source: "nki/api/nki/isa/__init__.py, tensor_scalar_reduce",
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
        Parameter {
            name: "reduce_op",
            default: None,
            usage: Use::Constant,
            doc: "nl.add, nl.multiply, nl.maximum or nl.minimum.",
        },
        Parameter { name: "reduce_res", default: Some("None"), usage: Use::Write, doc: "(P, 1) tile for the result." },
        Parameter {
            name: "reverse0",
            default: Some("False"),
            usage: Use::Constant,
            doc: "operand0 is op0's left; documented as not supported yet.",
        },
        Parameter {
            name: "reduce_cmd",
            default: Some("reduce_cmd.reset_reduce"),
            usage: Use::Constant,
            doc: "What happens to the accumulators.",
        },
        Parameter {
            name: "reduce_init",
            default: Some("None"),
            usage: Use::VectorOperand,
            doc: "float32 (P, 1) tile or constant, with load_reduce only.",
        },
        Parameter {
            name: "reduce_res_negate",
            default: Some("False"),
            usage: Use::Constant,
            doc: "reduce_res gets the accumulators times -1.",
        },
    ],
    rules: &[OPERATORS, INIT, REVERSE],
    exactness: Exactness::BitExact,
    build,
    execute,
    hides_nan,
    rows: every_row,
    cost,
    work: no_work,
};

const OPERATORS: Rule = Rule {
    id: "tensor_scalar_reduce.operators",
    text: "op0 is an arithmetic operator, reduce_op add, multiply, maximum or minimum",
    source: "nki/api/nki/isa/__init__.py, tensor_scalar_reduce",
    fix: "use another operator, or tensor_scalar and tensor_reduce",
};
const INIT: Rule = Rule {
    id: "tensor_scalar_reduce.reduce_init",
    text: "reduce_init is given with reduce_cmd.load_reduce, and only then",
    source: "nki/api/nki/isa/__init__.py, tensor_scalar_reduce",
    fix: "use reduce_cmd.load_reduce, or leave reduce_init out",
};
const REVERSE: Rule = Rule {
    id: "tensor_scalar_reduce.reverse0",
    text: "reverse0 is documented as not supported yet",
    source: "nki/api/nki/isa/__init__.py, tensor_scalar_reduce",
    fix: "use tensor_scalar and tensor_reduce",
};

const COMMANDS: &[ReduceCommand] = &[
    ReduceCommand::Idle,
    ReduceCommand::Reset,
    ReduceCommand::Reduce,
    ReduceCommand::ResetReduce,
    ReduceCommand::LoadReduce,
];
/// Flags above those of the reduce command.
const NEGATE: u16 = 1 << 3;

fn build(arguments: &Arguments<'_>, context: &mut Context<'_>) -> Result<Instruction, Violation> {
    let (dst, data) = (arguments.view("dst")?, arguments.view("data")?);
    for (view, name) in [(dst, "dst"), (data, "data")] {
        context.check_tile(view, name, ON_CHIP)?;
        context.check_unpacked(view, name)?;
    }
    context.check_same_shape(data, "data", dst, "dst")?;
    let op0 = context.arithmetic(arguments, "op0", &OPERATORS)?;
    let reduce_op = context.arithmetic(arguments, "reduce_op", &OPERATORS)?;
    if !matches!(reduce_op, Operator::Add | Operator::Multiply | Operator::Maximum | Operator::Minimum) {
        return Err(broken(&OPERATORS, "reduce_op", format!("is {}", reduce_op.name()), OPERATORS.text));
    }
    if arguments.flag("reverse0")? {
        return Err(broken(&REVERSE, "reverse0", "is True", REVERSE.text));
    }
    let command = ReduceCommand::of(arguments, ReduceCommand::ResetReduce, COMMANDS, &OPERATORS)?;
    let given = *arguments.get("reduce_init") != Argument::None;
    if given != (command == ReduceCommand::LoadReduce) {
        let value = if given { "is given" } else { "is None" };
        return Err(broken(&INIT, "reduce_init", value, format!("reduce_cmd is {}", command.name())));
    }
    let mut instruction = Instruction::new(Opcode::TensorScalarReduce, Engine::Vector);
    let partitions = data.partitions();
    context.writes(&mut instruction, 0, dst);
    context.reads(&mut instruction, 1, data);
    context.scalar_operand(&mut instruction, arguments, op0, ("operand0", 2, 1), partitions)?;
    if given {
        context.vector_operand(&mut instruction, arguments, "reduce_init", 3, 2, partitions)?;
    }
    if let Some(result) = arguments.view_or_none("reduce_res")? {
        context.check_vector(result, "reduce_res", partitions)?;
        context.writes(&mut instruction, 4, result);
    }
    instruction.constants[0] = op0 as u32 | (reduce_op as u32) << 16;
    command.store(&mut instruction);
    if arguments.flag("reduce_res_negate")? {
        instruction.flags |= NEGATE;
    }
    Ok(instruction)
}

fn operators(instruction: &Instruction) -> [Operator; 2] {
    let codes = instruction.constants[0];
    [Operator::from_code(codes as u8), Operator::from_code((codes >> 16) as u8)]
}

fn hides_nan(instruction: &Instruction) -> bool {
    operators(instruction)[0].hides_nan()
}

fn execute(instruction: &Instruction, machine: &mut Machine<'_>) -> Result<(), Violation> {
    let [dst, data, _, _, result] = instruction.operands;
    let [op0, reduce_op] = operators(instruction);
    let command = ReduceCommand::stored(instruction);
    let operand0 = machine.vector_operand(instruction, 2, 1);
    let geometry = machine.tables.geometry(&data);
    let (row, rows, partition) = (geometry.row_elements(), geometry.rows(), machine.tables.partition_start(&data));
    let mut sums = machine.registers.vector.begin(partition, rows, command, reduce_op.identity());
    if command == ReduceCommand::LoadReduce {
        machine.vector_operand(instruction, 3, 2).fill(&mut sums);
    }
    machine.stream(&dst, &[&data], |first, [x, _], out| {
        out.copy_from_slice(x);
        operand0.for_each(first, row, out, |piece, value| simd::constant(op0, piece, value, false));
        if command.accumulates() {
            accumulate(reduce_op, first, row, out, &mut sums);
        }
        Ok(())
    })?;
    machine.registers.vector.of(partition, rows).copy_from_slice(&sums);
    if result.is_some() {
        if instruction.flags & NEGATE != 0 {
            simd::scale(&mut sums, -1.0);
        }
        let cast = machine.options.cast;
        machine.with_written(&result, |_, tile| tile.write_f32(0, &sums, cast));
    }
    Ok(())
}

fn cost(instruction: &Instruction, tables: &Tables<'_>, target: &Target) -> Cost {
    let vector = &target.core.vector;
    let [dst, data, operand0, _, result] = &instruction.operands;
    let rate = vector.stream.tensor_scalar_reduce_cycles_per_element;
    let timing = if operand0.is_some() { &vector.tensor_scalar_vector_operand } else { &vector.other };
    let Cost::Stream(cost) = stream_cost::vector(&[dst, data], rate, timing, tables, target) else {
        unreachable!("VectorE streams");
    };
    let readout = if result.is_some() { u64::from(vector.reduce_readout_cycles) } else { 0 };
    Cost::Stream(Stream { stream: cost.stream + readout, ..cost })
}
