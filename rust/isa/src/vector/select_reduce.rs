//! `select_reduce`: one of two values by a predicate, and the maximum of what was selected.

use crate::accumulator::{ReduceCommand, accumulate};
use crate::arguments::{Arguments, Parameter, Use};
use crate::context::{Context, ON_CHIP, broken};
use crate::cost::Cost;
use crate::instruction::{Engine, Instruction};
use crate::machine::{Machine, Tables};
use crate::operator::Operator;
use crate::rules::{self, Rule};
use crate::simd;
use crate::table::{Definition, Exactness, Kind, Opcode, every_row, no_work};
use crate::vector::stream_cost;
use trn3_mem::{Space, Violation};
use trn3_num::Dtype;
use trn3_spec::Target;

/// The table's entry.
pub const DEFINITION: Definition = Definition {
    name: "select_reduce",
    doc: "``dst = on_true`` where ``predicate`` is not 0 (with reverse_pred: where it is 0), else ``on_false``; the \
        accumulators take the maximum.\n\n\
        Values pass through FP32. One FP32 accumulator a partition, VectorE's, persists across instructions: \
        reset_reduce starts from minus infinity, reduce goes on. ``reduce_res`` gets the accumulators, which take values \
        before they are converted to dst's data type.",
    source: "nki/api/nki/isa/__init__.py, select_reduce",
    kind: Kind::Compute,
    engines: &[Engine::Vector],
    parameters: &[
        Parameter { name: "dst", default: None, usage: Use::Write, doc: "SBUF or PSUM, (P, F), any type." },
        Parameter {
            name: "predicate",
            default: None,
            usage: Use::Read,
            doc: "int8, uint8, int16, uint16 or bool, (P, F) in SBUF or PSUM; not in PSUM together with on_true.",
        },
        Parameter {
            name: "on_true",
            default: None,
            usage: Use::Read,
            doc: "SBUF or PSUM, (P, F), any type but tfloat32, int32 and uint32.",
        },
        Parameter { name: "on_false", default: None, usage: Use::VectorOperand, doc: "(P, 1) tile or constant." },
        Parameter {
            name: "reduce_res",
            default: Some("None"),
            usage: Use::Write,
            doc: "(P, 1) tile of a float type for the accumulators.",
        },
        Parameter {
            name: "reduce_cmd",
            default: Some("reduce_cmd.idle"),
            usage: Use::Constant,
            doc: "idle, reset_reduce or reduce.",
        },
        Parameter { name: "reduce_op", default: Some("_maximum"), usage: Use::Constant, doc: "nl.maximum." },
        Parameter {
            name: "reverse_pred",
            default: Some("False"),
            usage: Use::Constant,
            doc: "on_true is selected where the predicate is 0.",
        },
    ],
    rules: &[GENERATION, PREDICATE, ON_TRUE, REDUCE],
    exactness: Exactness::BitExact,
    build,
    execute,
    hides_nan,
    rows: every_row,
    cost,
    work: no_work,
};

const GENERATION: Rule = Rule {
    id: "select_reduce.generation",
    text: "VectorE selects and reduces from NeuronCore-v3 (trn2) on (assumed: no generation is named)",
    source: "nki/api/nki/isa/__init__.py, select_reduce",
    fix: "use tensor_copy_predicated and tensor_reduce, or target trn2 or trn3",
};
const PREDICATE: Rule = Rule {
    id: "select_reduce.predicate",
    text: "predicate is int8, uint8, int16, uint16 or bool",
    source: "nki/api/nki/isa/__init__.py, select_reduce",
    fix: "compare into a uint8 tile first",
};
const ON_TRUE: Rule = Rule {
    id: "select_reduce.on_true",
    text: "on_true is of any type but tfloat32, int32 and uint32",
    source: "nki/api/nki/isa/__init__.py, select_reduce",
    fix: "cast on_true first, or use tensor_copy_predicated",
};
const REDUCE: Rule = Rule {
    id: "select_reduce.reduce",
    text: "reduce_op is nl.maximum, reduce_cmd idle, reset_reduce or reduce, and reduce_res has a float type",
    source: "nki/api/nki/isa/__init__.py, select_reduce",
    fix: "use nl.maximum, or tensor_reduce",
};

const COMMANDS: &[ReduceCommand] = &[ReduceCommand::Idle, ReduceCommand::ResetReduce, ReduceCommand::Reduce];
/// Flags above those of the reduce command.
const REVERSE: u16 = 1 << 3;

fn build(arguments: &Arguments<'_>, context: &mut Context<'_>) -> Result<Instruction, Violation> {
    let dst = arguments.view("dst")?;
    let (predicate, on_true) = (arguments.view("predicate")?, arguments.view("on_true")?);
    if !context.target.core.capability.select_reduce {
        return Err(context.lacking(&GENERATION, "", None));
    }
    for (view, name) in [(dst, "dst"), (predicate, "predicate"), (on_true, "on_true")] {
        context.check_tile(view, name, ON_CHIP)?;
        context.check_unpacked(view, name)?;
    }
    context.check_same_shape(predicate, "predicate", dst, "dst")?;
    context.check_same_shape(on_true, "on_true", dst, "dst")?;
    if !predicate.dtype.is_integer() || predicate.dtype.size_bytes() > 2 {
        let value = format!("is {}", predicate.dtype.name());
        return Err(broken(&PREDICATE, "predicate", value, PREDICATE.text));
    }
    if matches!(on_true.dtype, Dtype::Tfloat32 | Dtype::Int32 | Dtype::Uint32) {
        return Err(broken(&ON_TRUE, "on_true", format!("is {}", on_true.dtype.name()), ON_TRUE.text));
    }
    if on_true.space == Space::Psum && predicate.space == Space::Psum {
        return Err(broken(&rules::PSUM_PAIR, "on_true", "is in psum, as predicate is", rules::PSUM_PAIR.text));
    }
    if context.arithmetic(arguments, "reduce_op", &REDUCE)? != Operator::Maximum {
        let value = format!("is {}", arguments.get("reduce_op").describe());
        return Err(broken(&REDUCE, "reduce_op", value, REDUCE.text));
    }
    let command = ReduceCommand::of(arguments, ReduceCommand::Idle, COMMANDS, &REDUCE)?;
    context.check_idle_result(command, arguments)?;
    let mut instruction = Instruction::new(Opcode::SelectReduce, Engine::Vector);
    let partitions = on_true.partitions();
    context.writes(&mut instruction, 0, dst);
    context.reads(&mut instruction, 1, predicate);
    context.reads(&mut instruction, 2, on_true);
    context.vector_operand(&mut instruction, arguments, "on_false", 3, 0, partitions)?;
    if let Some(result) = arguments.view_or_none("reduce_res")? {
        context.check_vector(result, "reduce_res", partitions)?;
        if !result.dtype.is_float() {
            return Err(broken(&REDUCE, "reduce_res", format!("is {}", result.dtype.name()), REDUCE.text));
        }
        context.writes(&mut instruction, 4, result);
    }
    command.store(&mut instruction);
    if arguments.flag("reverse_pred")? {
        instruction.flags |= REVERSE;
    }
    Ok(instruction)
}

/// A NaN that is not selected is gone.
fn hides_nan(_: &Instruction) -> bool {
    true
}

fn execute(instruction: &Instruction, machine: &mut Machine<'_>) -> Result<(), Violation> {
    let [dst, predicate, on_true, _, result] = instruction.operands;
    let command = ReduceCommand::stored(instruction);
    let reverse = instruction.flags & REVERSE != 0;
    let on_false = machine.vector_operand(instruction, 3, 0);
    let geometry = machine.tables.geometry(&on_true);
    let (row, rows, partition) = (geometry.row_elements(), geometry.rows(), machine.tables.partition_start(&on_true));
    let mut maxima = machine.registers.vector.begin(partition, rows, command, Operator::Maximum.identity());
    machine.stream(&dst, &[&predicate, &on_true], |first, [predicate, x], out| {
        let mut done = 0;
        on_false.for_each(first, row, out, |piece, value| {
            let here = done..done + piece.len();
            done = here.end;
            simd::select(&predicate[here.clone()], &x[here], value, reverse, piece);
        });
        if command.accumulates() {
            accumulate(Operator::Maximum, first, row, out, &mut maxima);
        }
        Ok(())
    })?;
    machine.registers.vector.of(partition, rows).copy_from_slice(&maxima);
    if result.is_some() {
        let cast = machine.options.cast;
        machine.with_written(&result, |_, tile| tile.write_f32(0, &maxima, cast));
    }
    Ok(())
}

fn cost(instruction: &Instruction, tables: &Tables<'_>, target: &Target) -> Cost {
    let vector = &target.core.vector;
    let [dst, predicate, on_true, ..] = &instruction.operands;
    let split = tables.tensor(predicate).space != tables.tensor(on_true).space;
    let rates = &vector.stream;
    let rate = if split { rates.select_split_cycles_per_element } else { rates.select_cycles_per_element };
    stream_cost::vector(&[dst, predicate, on_true], rate, &vector.tensor_tensor, tables, target)
}
