//! `exponential`: the exponential on VectorE, with a running sum.

use crate::accumulator::{ReduceCommand, accumulate};
use crate::arguments::{Argument, Arguments, Parameter, Use};
use crate::context::{Context, ON_CHIP, broken};
use crate::cost::Cost;
use crate::instruction::{Engine, Instruction};
use crate::machine::{Machine, Tables, VectorOperand};
use crate::operator::Operator;
use crate::rules::Rule;
use crate::simd;
use crate::table::{Definition, Exactness, Kind, Opcode, every_row, keeps_nan, no_work};
use crate::vector::stream_cost;
use trn3_mem::Violation;
use trn3_num::Dtype;
use trn3_num::functions::{Function, evaluate_slice};
use trn3_spec::Target;

/// The table's entry.
pub const DEFINITION: Definition = Definition {
    name: "exponential",
    doc: "``y = exp(src - max_value)``; ``dst = y``; optionally the sum of y along the free dimensions.\n\n\
        FP32 inside; the difference rounds once and the function is exact to its stated bound, where the hardware's is \
        unpublished. VectorE's accumulators add up y before it is converted to dst's data type: reset_reduce starts \
        from 0, reduce goes on, load_reduce starts from reduce_init, idle leaves them (the hardware may change them \
        then); reduce_res gets them.",
    source: "nki/api/nki/isa/__init__.py, exponential",
    kind: Kind::Compute,
    engines: &[Engine::Vector],
    parameters: &[
        Parameter {
            name: "dst",
            default: None,
            usage: Use::Write,
            doc: "SBUF or PSUM, (P, F), any type but float8_e4m3fn and uint32.",
        },
        Parameter {
            name: "src",
            default: None,
            usage: Use::Read,
            doc: "SBUF or PSUM, (P, F), any type but float8_e4m3fn and tfloat32.",
        },
        Parameter {
            name: "max_value",
            default: Some("0.0"),
            usage: Use::VectorOperand,
            doc: "float32 (P, 1) tile or constant.",
        },
        Parameter { name: "reduce_res", default: Some("None"), usage: Use::Write, doc: "(P, 1) tile for the sum." },
        Parameter {
            name: "reduce_cmd",
            default: Some("reduce_cmd.idle"),
            usage: Use::Constant,
            doc: "What happens to the accumulators.",
        },
        Parameter {
            name: "reduce_init",
            default: Some("0.0"),
            usage: Use::VectorOperand,
            doc: "float32 (P, 1) tile or constant, with load_reduce only.",
        },
    ],
    rules: &[GENERATION, TYPES, INIT, REDUCE],
    exactness: Exactness::Modelled,
    build,
    execute,
    hides_nan: keeps_nan,
    rows: every_row,
    cost,
    work: no_work,
};

const GENERATION: Rule = Rule {
    id: "exponential.generation",
    text: "VectorE has it from NeuronCore-v4 (trn3) on",
    source: "nki/api/nki/isa/__init__.py, exponential",
    fix: "target trn3, or use activation with nl.exp",
};
const TYPES: Rule = Rule {
    id: "exponential.dtype",
    text: "src is no float8_e4m3fn or tfloat32, dst no float8_e4m3fn or uint32; max_value and reduce_init are float32 and \
        reduce_res is a floating-point tile",
    source: "nki/api/nki/isa/__init__.py, exponential",
    fix: "use another type, or activation with nl.exp",
};
const INIT: Rule = Rule {
    id: "exponential.reduce_init",
    text: "reduce_init is 0.0 unless reduce_cmd is load_reduce",
    source: "nki/api/nki/isa/__init__.py, exponential",
    fix: "use reduce_cmd.load_reduce, or leave reduce_init out",
};
const REDUCE: Rule = Rule {
    id: "exponential.reduce_cmd",
    text: "reduce_cmd is idle, reduce, reset_reduce or load_reduce",
    source: "nki/api/nki/isa/__init__.py, exponential",
    fix: "use reset_reduce on the first tile",
};

const COMMANDS: &[ReduceCommand] =
    &[ReduceCommand::Idle, ReduceCommand::Reduce, ReduceCommand::ResetReduce, ReduceCommand::LoadReduce];

fn build(arguments: &Arguments<'_>, context: &mut Context<'_>) -> Result<Instruction, Violation> {
    let (dst, src) = (arguments.view("dst")?, arguments.view("src")?);
    if !context.target.core.capability.fast_exponential {
        return Err(context.lacking(&GENERATION, "", None));
    }
    let refused = [
        (dst, "dst", [Dtype::Float8E4m3fn, Dtype::Uint32]),
        (src, "src", [Dtype::Float8E4m3fn, Dtype::Tfloat32]),
    ];
    for (view, name, types) in refused {
        context.check_tile(view, name, ON_CHIP)?;
        context.check_unpacked(view, name)?;
        if types.contains(&view.dtype) {
            return Err(broken(&TYPES, name, format!("is {}", view.dtype.name()), TYPES.text));
        }
    }
    context.check_same_shape(src, "src", dst, "dst")?;
    for name in ["max_value", "reduce_init"] {
        if let Argument::View(view) = arguments.get(name)
            && view.dtype != Dtype::Float32
        {
            return Err(broken(&TYPES, name, format!("is {}", view.dtype.name()), TYPES.text));
        }
    }
    let command = ReduceCommand::of(arguments, ReduceCommand::Idle, COMMANDS, &REDUCE)?;
    let given = arguments.get("reduce_init");
    let is_zero = *given == Argument::Int(0) || *given == Argument::Float(0.0);
    if command != ReduceCommand::LoadReduce && !is_zero {
        let limit = format!("reduce_cmd is {}", command.name());
        return Err(broken(&INIT, "reduce_init", format!("is {}", given.describe()), limit));
    }
    let mut instruction = Instruction::new(Opcode::Exponential, Engine::Vector);
    let partitions = src.partitions();
    context.writes(&mut instruction, 0, dst);
    context.reads(&mut instruction, 1, src);
    context.vector_operand(&mut instruction, arguments, "max_value", 2, 0, partitions)?;
    context.vector_operand(&mut instruction, arguments, "reduce_init", 3, 1, partitions)?;
    if let Some(result) = arguments.view_or_none("reduce_res")? {
        context.check_vector(result, "reduce_res", partitions)?;
        if !result.dtype.is_float() {
            return Err(broken(&TYPES, "reduce_res", format!("is {}", result.dtype.name()), TYPES.text));
        }
        context.writes(&mut instruction, 4, result);
    }
    command.store(&mut instruction);
    Ok(instruction)
}

fn execute(instruction: &Instruction, machine: &mut Machine<'_>) -> Result<(), Violation> {
    let [dst, src, _, _, result] = instruction.operands;
    let command = ReduceCommand::stored(instruction);
    let max_value = machine.vector_operand(instruction, 2, 0);
    let geometry = machine.tables.geometry(&src);
    let (row, rows, partition) = (geometry.row_elements(), geometry.rows(), machine.tables.partition_start(&src));
    let mut sums = machine.registers.vector.begin(partition, rows, command, 0.0);
    if command == ReduceCommand::LoadReduce {
        match machine.vector_operand(instruction, 3, 1) {
            VectorOperand::Constant(value) => sums.fill(value),
            VectorOperand::Partitions(values) => sums.copy_from_slice(&values),
        }
    }
    machine.stream(&dst, &[&src], |first, [x, _], out| {
        out.copy_from_slice(x);
        max_value.for_each(first, row, out, |piece, value| simd::constant(Operator::Subtract, piece, value, false));
        evaluate_slice(Function::Exp, out);
        if command.accumulates() {
            accumulate(Operator::Add, first, row, out, &mut sums);
        }
        Ok(())
    })?;
    machine.registers.vector.of(partition, rows).copy_from_slice(&sums);
    if result.is_some() {
        let cast = machine.options.cast;
        machine.with_written(&result, |_, tile| tile.write_f32(0, &sums, cast));
    }
    Ok(())
}

fn cost(instruction: &Instruction, tables: &Tables<'_>, target: &Target) -> Cost {
    let vector = &target.core.vector;
    let [dst, src, ..] = &instruction.operands;
    let is_wide = [dst, src].into_iter().any(|operand| tables.pattern(operand).dtype.size_bytes() == 4);
    let rates = &vector.stream;
    let rate =
        if is_wide { rates.exponential_bits32_cycles_per_element } else { rates.exponential_cycles_per_element };
    stream_cost::vector(&[dst, src], rate.expect("checked when it was recorded"), &vector.other, tables, target)
}
