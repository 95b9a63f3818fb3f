//! `activation`: a function of a scaled and shifted tile, with an optional running sum.

use crate::accumulator::{ReduceCommand, accumulate};
use crate::arguments::{Argument, Arguments, Parameter, Use};
use crate::context::{Context, ON_CHIP, broken};
use crate::cost::{Cost, Stream};
use crate::instruction::{Engine, Instruction};
use crate::machine::{Machine, Tables};
use crate::operator::Operator;
use crate::rules::{self, Rule};
use crate::scalar::applied::Applied;
use crate::simd;
use crate::table::{Definition, Exactness, Kind, Opcode, every_row, keeps_nan, no_work};
use crate::vector::stream_cost;
use trn3_mem::{Space, Violation};
use trn3_num::functions::Function;
use trn3_spec::Target;

/// The table's entry.
pub const DEFINITION: Definition = Definition {
    name: "activation",
    doc: "``y = op(data * scale + bias)``; ``dst = y``; optionally the sum of y along the free dimensions.\n\n\
        FP32 inside; the product and the sum round once each (whether the hardware fuses them is not published). The \
        function is exact to its stated bound, where the hardware's tables are approximate and unpublished. One FP32 \
        accumulator a partition persists across instructions: reduce_cmd reset sets it to 0, reduce adds the row's \
        sum, reset_reduce does both, idle leaves it; reduce_res copies it out.",
    source: "nki/api/nki/isa/__init__.py, activation; nki/api/nki.api.shared.rst",
    kind: Kind::Compute,
    engines: &[Engine::Scalar],
    parameters: &[
        Parameter { name: "dst", default: None, usage: Use::Write, doc: "SBUF or PSUM, (P, F), any type." },
        Parameter { name: "op", default: None, usage: Use::Constant, doc: "An activation function of nki.language." },
        Parameter { name: "data", default: None, usage: Use::Read, doc: "SBUF or PSUM, (P, F)." },
        Parameter {
            name: "bias",
            default: Some("None"),
            usage: Use::VectorOperand,
            doc: "(P, 1) tile or (from v3) constant.",
        },
        Parameter {
            name: "scale",
            default: Some("1.0"),
            usage: Use::VectorOperand,
            doc: "float32 (P, 1) tile or constant.",
        },
        Parameter { name: "reduce_op", default: Some("None"), usage: Use::Constant, doc: "nl.add." },
        Parameter {
            name: "reduce_res",
            default: Some("None"),
            usage: Use::Write,
            doc: "(P, 1) tile for the accumulator.",
        },
        Parameter {
            name: "reduce_cmd",
            default: Some("reduce_cmd.idle"),
            usage: Use::Constant,
            doc: "What happens to the accumulator.",
        },
    ],
    rules: &[FUNCTION, REDUCE, BIAS],
    exactness: Exactness::Modelled,
    build,
    execute,
    hides_nan: keeps_nan,
    rows: every_row,
    cost,
    work: no_work,
};

pub(super) const FUNCTION: Rule = Rule {
    id: "activation.op",
    text: "op is an activation function",
    source: "nki/api/nki.api.shared.rst",
    fix: "choose a function from the list of activation functions",
};
pub(super) const REDUCE: Rule = Rule {
    id: "activation.reduce",
    text: "reduce_op is nl.add, and reduce_cmd is idle, reset, reduce or reset_reduce",
    source: "nki/api/nki/isa/__init__.py, activation",
    fix: "use nl.add, or tensor_reduce",
};

pub(super) const BIAS: Rule = Rule {
    id: "activation.bias",
    text: "on NeuronCore-v2 (trn1, inf2) bias is a (P, 1) tile, and reciprocal takes none",
    source: "nki/api/nki/isa/__init__.py, activation; nki/api/nki.api.shared.rst",
    fix: "fill a (P, 1) tile with the constant (memset)",
};

const COMMANDS: &[ReduceCommand] =
    &[ReduceCommand::Idle, ReduceCommand::Reset, ReduceCommand::Reduce, ReduceCommand::ResetReduce];

fn build(arguments: &Arguments<'_>, context: &mut Context<'_>) -> Result<Instruction, Violation> {
    let command = ReduceCommand::of(arguments, ReduceCommand::Idle, COMMANDS, &REDUCE)?;
    build_as(Opcode::Activation, command, arguments, context)
}

/// Builds an activation, or one that always reduces.
pub(super) fn build_as(
    opcode: Opcode,
    command: ReduceCommand,
    arguments: &Arguments<'_>,
    context: &mut Context<'_>,
) -> Result<Instruction, Violation> {
    let (dst, data) = (arguments.view("dst")?, arguments.view("data")?);
    for (view, name) in [(dst, "dst"), (data, "data")] {
        context.check_tile(view, name, ON_CHIP)?;
        context.check_unpacked(view, name)?;
    }
    context.check_same_shape(data, "data", dst, "dst")?;
    let name = arguments.operator_or_none("op")?.unwrap_or("None");
    let Some(function) = Applied::from_name(name) else {
        let known = Function::ALL.iter().map(|function| function.name()).collect::<Vec<_>>().join(", ");
        return Err(broken(&FUNCTION, "op", format!("is {name}"), format!("must be one of {known}")));
    };
    let reduce_op = arguments.operator_or_none("reduce_op")?;
    if reduce_op.is_some_and(|op| op != "add") {
        return Err(broken(&REDUCE, "reduce_op", format!("is {}", reduce_op.unwrap_or("")), REDUCE.text));
    }
    if command.accumulates() && reduce_op.is_none() {
        return Err(broken(&REDUCE, "reduce_op", "is None", "a reduction needs nl.add"));
    }
    let mut instruction = Instruction::new(opcode, Engine::Scalar);
    context.writes(&mut instruction, 0, dst);
    context.reads(&mut instruction, 1, data);
    let partitions = data.partitions();
    if *arguments.get("bias") != Argument::None {
        check_bias(arguments, context, function)?;
        context.vector_operand(&mut instruction, arguments, "bias", 2, 1, partitions)?;
    } else {
        // -0 is the number that changes nothing when added.
        instruction.constants[1] = (-0.0f32).to_bits();
    }
    context.vector_operand(&mut instruction, arguments, "scale", 3, 2, partitions)?;
    if let Some(result) = arguments.view_or_none("reduce_res")? {
        context.check_tile(result, "reduce_res", ON_CHIP)?;
        if result.partitions() != partitions || result.free_size() != 1 {
            let value = format!("has shape {:?}", result.shape().as_slice());
            return Err(broken(&rules::VECTOR_OPERAND, "reduce_res", value, format!("must be ({partitions}, 1)")));
        }
        context.writes(&mut instruction, 4, result);
    }
    command.store(&mut instruction);
    instruction.constants[0] = function.code();
    Ok(instruction)
}

/// Refuses the biases that the core does not take.
fn check_bias(arguments: &Arguments<'_>, context: &Context<'_>, function: Applied) -> Result<(), Violation> {
    let can = &context.target.core.capability;
    let given = arguments.get("bias");
    let constant = !matches!(given, Argument::View(_));
    let limit = match function {
        Applied::Engine(Function::Reciprocal) if !can.activation_bias_reciprocal => "takes no bias with reciprocal",
        _ if constant && !can.activation_bias_constant => "takes a (P, 1) tile",
        _ => return Ok(()),
    };
    Err(broken(&BIAS, "bias", format!("is {}", given.describe()), format!("{} {limit}", context.target.name)))
}

pub(super) fn execute(instruction: &Instruction, machine: &mut Machine<'_>) -> Result<(), Violation> {
    let [dst, data, _, _, result] = instruction.operands;
    let function = Applied::from_code(instruction.constants[0]);
    let (bias, scale) = (machine.vector_operand(instruction, 2, 1), machine.vector_operand(instruction, 3, 2));
    let data_geometry = machine.tables.geometry(&data);
    let row = data_geometry.row_elements();
    let (partition, rows) = (machine.tables.partition_start(&data), data_geometry.rows());
    let command = ReduceCommand::stored(instruction);
    let mut sums = machine.registers.scalar.begin(partition, rows, command, 0.0);
    let reduces = command.accumulates();
    machine.stream(&dst, &[&data], |first, [x, _], out| {
        out.copy_from_slice(x);
        scale.for_each(first, row, out, |piece, value| {
            if value != 1.0 {
                simd::scale(piece, value);
            }
        });
        bias.for_each(first, row, out, |piece, value| {
            if value.to_bits() != (-0.0f32).to_bits() {
                simd::add(piece, value);
            }
        });
        function.apply(out);
        if reduces {
            accumulate(Operator::Add, first, row, out, &mut sums);
        }
        Ok(())
    })?;
    machine.registers.scalar.of(partition, rows).copy_from_slice(&sums);
    if result.is_some() {
        let cast = machine.options.cast;
        machine.with_written(&result, |_, tile| tile.write_f32(0, &sums, cast));
    }
    Ok(())
}

pub(super) fn cost(instruction: &Instruction, tables: &Tables<'_>, target: &Target) -> Cost {
    let [dst, data, _, _, result] = instruction.operands;
    let scalar = &target.core.scalar;
    let applied = Applied::from_code(instruction.constants[0]);
    let timing = match (applied, tables.tensor(&data).space) {
        (Applied::Engine(Function::Copy), _) => stream_cost::scalar_copy_timing(&dst, &data, tables, target),
        (_, Space::Psum) => &scalar.activation_psum,
        _ => &scalar.activation_sbuf,
    };
    // The accumulators are read out behind the last element.
    let (readout, settling) = match result.is_some() {
        true => (scalar.accumulator_read.latency_cycles, scalar.accumulator_read.overhead_cycles),
        false => (0, 0),
    };
    let stream = Stream {
        stream: scalar.stream.activation_cycles_per_element.times_ceil(tables.geometry(&data).row_elements() as u64)
            + u64::from(readout),
        latency: u64::from(timing.latency_cycles),
        overhead: u64::from(timing.overhead_cycles + settling),
    };
    match applied.table_of() {
        Some(function) => Cost::Activation(stream, function),
        None => Cost::Stream(stream),
    }
}
