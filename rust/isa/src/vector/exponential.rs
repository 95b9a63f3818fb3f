//! `exponential`: e^(x - max), and the sum of the results.

use crate::accumulator::{ReduceCommand, accumulate};
use crate::arguments::{Argument, Arguments, Parameter, Use};
use crate::context::{Context, ON_CHIP, Strictness, broken};
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
use trn3_num::functions::{self, Function};
use trn3_spec::Target;

/// The table's entry.
pub const DEFINITION: Definition = Definition {
    name: "exponential",
    doc: "``dst = exp(src - max_value)``; the accumulators add up the results.\n\n\
        The difference is rounded to FP32, its exponential is the exact one to half a unit in the last place; the \
        hardware's is not published. One FP32 accumulator a partition, VectorE's, persists across instructions: \
        reset_reduce starts from 0, reduce goes on, load_reduce starts from reduce_init. Elements are added in ascending \
        order, before they are converted to dst's data type. ``reduce_res`` gets the accumulators.",
    source: "nki/api/nki/isa/__init__.py, exponential; nki/guides/architecture/trainium3_arch.rst",
    kind: Kind::Compute,
    engines: &[Engine::Vector],
    parameters: &[
        Parameter {
            name: "dst",
            default: None,
            usage: Use::Write,
            doc: "SBUF or PSUM, (P, F), up to four dimensions; the types of src and tfloat32, without uint32.",
        },
        Parameter {
            name: "src",
            default: None,
            usage: Use::Read,
            doc: "SBUF or PSUM, (P, F), up to four dimensions; float32, bfloat16, float16, float8_e4m3, float8_e5m2, \
                or an integer.",
        },
        Parameter {
            name: "max_value",
            default: Some("0.0"),
            usage: Use::VectorOperand,
            doc: "float32 (P, 1) tile or constant.",
        },
        Parameter {
            name: "reduce_res",
            default: Some("None"),
            usage: Use::Write,
            doc: "(P, 1) tile for the accumulators; the float types of dst.",
        },
        Parameter {
            name: "reduce_cmd",
            default: Some("reduce_cmd.idle"),
            usage: Use::Constant,
            doc: "idle, reset_reduce, reduce or load_reduce.",
        },
        Parameter {
            name: "reduce_init",
            default: Some("0.0"),
            usage: Use::VectorOperand,
            doc: "float32 (P, 1) tile or constant, with load_reduce only.",
        },
    ],
    rules: &[GENERATION, RANK, COMMAND, INIT],
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
    text: "VectorE has the exponential from NeuronCore-v4 (trn3) on",
    source: "nki/guides/architecture/trainium3_arch.rst",
    fix: "target trn3, or use activation with nl.exp",
};
const RANK: Rule = Rule {
    id: "exponential.rank_max",
    text: "dst and src have at most four dimensions, the partitions being one",
    source: "nki/api/nki/isa/__init__.py, exponential",
    fix: "merge dimensions or split the instruction",
};
const COMMAND: Rule = Rule {
    id: "exponential.reduce_cmd",
    text: "reduce_cmd is idle, reset_reduce, reduce or load_reduce",
    source: "nki/api/nki/isa/__init__.py, exponential",
    fix: "use reset_reduce",
};
const INIT: Rule = Rule {
    id: "exponential.reduce_init",
    text: "reduce_init is 0 unless reduce_cmd is load_reduce; here it has no effect otherwise",
    source: "nki/api/nki/isa/__init__.py, exponential",
    fix: "use reduce_cmd.load_reduce, or leave reduce_init out",
};

const COMMANDS: &[ReduceCommand] =
    &[ReduceCommand::Idle, ReduceCommand::ResetReduce, ReduceCommand::Reduce, ReduceCommand::LoadReduce];

const RESULTS: &[Dtype] =
    &[Dtype::Float32, Dtype::Tfloat32, Dtype::Bfloat16, Dtype::Float16, Dtype::Float8E5m2, Dtype::Float8E4m3];
const DESTINATIONS: &[Dtype] = &[
    Dtype::Float32,
    Dtype::Tfloat32,
    Dtype::Bfloat16,
    Dtype::Float16,
    Dtype::Float8E5m2,
    Dtype::Float8E4m3,
    Dtype::Int8,
    Dtype::Int16,
    Dtype::Int32,
    Dtype::Uint8,
    Dtype::Uint16,
];
const SOURCES: &[Dtype] = &[
    Dtype::Float32,
    Dtype::Bfloat16,
    Dtype::Float16,
    Dtype::Float8E5m2,
    Dtype::Float8E4m3,
    Dtype::Int8,
    Dtype::Int16,
    Dtype::Int32,
    Dtype::Uint8,
    Dtype::Uint16,
    Dtype::Uint32,
];

/// Dimensions of a tile.
const RANK_MAX: usize = 4;

fn build(arguments: &Arguments<'_>, context: &mut Context<'_>) -> Result<Instruction, Violation> {
    let (dst, src) = (arguments.view("dst")?, arguments.view("src")?);
    if !context.target.core.capability.fast_exponential {
        return Err(context.lacking(&GENERATION, "", None));
    }
    for (view, name, allowed) in [(dst, "dst", DESTINATIONS), (src, "src", SOURCES)] {
        context.check_tile(view, name, ON_CHIP)?;
        context.check_dtype(view, name, allowed)?;
        if view.dims.len() > RANK_MAX {
            let value = format!("has {} dimensions", view.dims.len());
            return Err(broken(&RANK, name, value, format!("limit {RANK_MAX}")));
        }
    }
    context.check_same_shape(src, "src", dst, "dst")?;
    let command = ReduceCommand::of(arguments, ReduceCommand::Idle, COMMANDS, &COMMAND)?;
    context.check_idle_result(command, arguments)?;
    let mut instruction = Instruction::new(Opcode::Exponential, Engine::Vector);
    let partitions = src.partitions();
    context.writes(&mut instruction, 0, dst);
    context.reads(&mut instruction, 1, src);
    context.fp32_operand(&mut instruction, arguments, ("max_value", 2, 0), partitions)?;
    if command == ReduceCommand::LoadReduce {
        context.fp32_operand(&mut instruction, arguments, ("reduce_init", 3, 1), partitions)?;
    } else if !matches!(arguments.get("reduce_init"), Argument::None | Argument::Int(0))
        && *arguments.get("reduce_init") != Argument::Float(0.0)
    {
        let value = format!("is {}", arguments.get("reduce_init").describe());
        let limit = format!("reduce_cmd is {}", command.name());
        context.deviation(Strictness::Documented, broken(&INIT, "reduce_init", value, limit))?;
    }
    if let Some(result) = arguments.view_or_none("reduce_res")? {
        context.check_vector(result, "reduce_res", partitions)?;
        context.check_dtype(result, "reduce_res", RESULTS)?;
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
    let mut sums = machine.registers.vector.begin(partition, rows, command, Operator::Add.identity());
    if command == ReduceCommand::LoadReduce {
        machine.vector_operand(instruction, 3, 1).fill(&mut sums);
    }
    let subtracts = max_value != VectorOperand::Constant(0.0);
    machine.stream(&dst, &[&src], |first, [x, _], out| {
        out.copy_from_slice(x);
        if subtracts {
            max_value.for_each(first, row, out, |piece, value| simd::constant(Operator::Subtract, piece, value, false));
        }
        functions::evaluate_slice(Function::Exp, out);
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
    let wide = [dst, src].into_iter().any(|operand| tables.pattern(operand).dtype.size_bytes() == 4);
    let stream = &vector.stream;
    let rate = if wide { stream.exponential_bits32_cycles_per_element } else { stream.exponential_cycles_per_element };
    let rate = rate.expect("recorded for a core that has it, and the table of such a core gives the rates");
    stream_cost::vector(&[dst, src], rate, &vector.other, tables, target)
}
