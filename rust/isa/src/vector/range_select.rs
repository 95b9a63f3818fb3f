//! `range_select`: a tile where the index along the free dimension lies between bounds, and the maximum of the result.

use crate::accumulator::{ReduceCommand, accumulate};
use crate::arguments::{Arguments, Parameter, Use};
use crate::context::{Context, ON_CHIP, Strictness, broken};
use crate::cost::Cost;
use crate::instruction::{Engine, Instruction};
use crate::machine::{Machine, Tables};
use crate::operator::Operator;
use crate::rules::Rule;
use crate::table::{Definition, Exactness, Kind, Opcode, every_row, no_work};
use crate::vector::stream_cost;
use std::ops::Range;
use trn3_mem::Violation;
use trn3_num::Dtype;
use trn3_spec::Target;

/// The table's entry.
pub const DEFINITION: Definition = Definition {
    name: "range_select",
    doc: "``dst = on_true_tile`` where ``comp_op0(i, bound0)`` and ``comp_op1(i, bound1)``, else ``on_false_value``; i is \
        ``range_start`` plus the index along the free dimensions; the accumulators take the maximum.\n\n\
        i is rounded to FP32 and compared as such. Values pass through FP32. One FP32 accumulator a partition, VectorE's, \
        persists across instructions: reset_reduce starts from minus infinity, reduce goes on, reset only resets, idle \
        leaves it. ``reduce_res`` gets the accumulators, which take values before they are converted to dst's data type: \
        a row without a selected element has -3.4028235e38 there, while a narrower dst has minus infinity.",
    source: "nki/api/nki/isa/__init__.py, range_select",
    kind: Kind::Compute,
    engines: &[Engine::Vector],
    parameters: &[
        Parameter { name: "dst", default: None, usage: Use::Write, doc: "SBUF or PSUM, (P, F), any type." },
        Parameter {
            name: "on_true_tile",
            default: None,
            usage: Use::Read,
            doc: "SBUF or PSUM, (P, F), of a float type.",
        },
        Parameter {
            name: "comp_op0",
            default: None,
            usage: Use::Constant,
            doc: "nl.equal, nl.less, nl.less_equal, nl.greater or nl.greater_equal.",
        },
        Parameter { name: "comp_op1", default: None, usage: Use::Constant, doc: "As comp_op0." },
        Parameter { name: "bound0", default: None, usage: Use::Read, doc: "float32 (P, 1) tile." },
        Parameter { name: "bound1", default: None, usage: Use::Read, doc: "float32 (P, 1) tile." },
        Parameter {
            name: "reduce_cmd",
            default: Some("reduce_cmd.reset_reduce"),
            usage: Use::Constant,
            doc: "What happens to the accumulators: any command but load_reduce.",
        },
        Parameter { name: "reduce_res", default: Some("None"), usage: Use::Write, doc: "(P, 1) tile for the result." },
        Parameter { name: "reduce_op", default: Some("_maximum"), usage: Use::Constant, doc: "nl.maximum." },
        Parameter {
            name: "range_start",
            default: Some("0"),
            usage: Use::Constant,
            doc: "i at the first element, an integer.",
        },
        Parameter {
            name: "on_false_value",
            default: Some("-3.4028235e38"),
            usage: Use::Constant,
            doc: "The lowest finite FP32 number; the hardware has no other.",
        },
    ],
    rules: &[GENERATION, COMPARISON, ON_TRUE, REDUCE, RANGE, ON_FALSE],
    exactness: Exactness::BitExact,
    build,
    execute,
    hides_nan,
    rows: every_row,
    cost,
    work: no_work,
};

const GENERATION: Rule = Rule {
    id: "range_select.generation",
    text: "VectorE selects ranges from NeuronCore-v3 (trn2) on",
    source: "nki/api/nki/isa/__init__.py, range_select",
    fix: "use affine_select, or target trn2 or trn3",
};
const COMPARISON: Rule = Rule {
    id: "range_select.comparison",
    text: "comp_op0 and comp_op1 are equal, less, less_equal, greater or greater_equal",
    source: "nki/api/nki/isa/__init__.py, range_select",
    fix: "use one of these comparisons",
};
const ON_TRUE: Rule = Rule {
    id: "range_select.on_true_tile",
    text: "on_true_tile has a float type",
    source: "nki/api/nki/isa/__init__.py, range_select",
    fix: "cast the tile first (tensor_copy)",
};
const REDUCE: Rule = Rule {
    id: "range_select.reduce",
    text: "reduce_op is nl.maximum, and reduce_cmd idle, reset, reduce or reset_reduce: there is nothing to load",
    source: "nki/api/nki/isa/__init__.py, range_select",
    fix: "use nl.maximum, or tensor_reduce",
};
const RANGE: Rule = Rule {
    id: "range_select.range_start",
    text: "every index is below 2**24 in magnitude, so that FP32 tells it from its neighbours",
    source: "nki/api/nki/isa/__init__.py, range_select",
    fix: "subtract a common offset from range_start and from the bounds",
};
const ON_FALSE: Rule = Rule {
    id: "range_select.on_false_value",
    text: "on_false_value is the lowest finite FP32 number, -3.4028235e38",
    source: "nki/api/nki/isa/__init__.py, range_select",
    fix: "leave on_false_value out",
};

const COMMANDS: &[ReduceCommand] =
    &[ReduceCommand::Idle, ReduceCommand::Reset, ReduceCommand::Reduce, ReduceCommand::ResetReduce];
/// The first index that FP32 may give to two neighbours.
const INDEX_END: i64 = 1 << f32::MANTISSA_DIGITS;

fn build(arguments: &Arguments<'_>, context: &mut Context<'_>) -> Result<Instruction, Violation> {
    let (dst, on_true) = (arguments.view("dst")?, arguments.view("on_true_tile")?);
    if !context.target.core.capability.range_select {
        return Err(context.lacking(&GENERATION, "", None));
    }
    for (view, name) in [(dst, "dst"), (on_true, "on_true_tile")] {
        context.check_tile(view, name, ON_CHIP)?;
        context.check_unpacked(view, name)?;
    }
    context.check_same_shape(on_true, "on_true_tile", dst, "dst")?;
    if !on_true.dtype.is_float() {
        return Err(broken(&ON_TRUE, "on_true_tile", format!("is {}", on_true.dtype.name()), ON_TRUE.text));
    }
    if context.arithmetic(arguments, "reduce_op", &REDUCE)? != Operator::Maximum {
        let value = format!("is {}", arguments.get("reduce_op").describe());
        return Err(broken(&REDUCE, "reduce_op", value, REDUCE.text));
    }
    let command = ReduceCommand::of(arguments, ReduceCommand::ResetReduce, COMMANDS, &REDUCE)?;
    let mut instruction = Instruction::new(Opcode::RangeSelect, Engine::Vector);
    let partitions = on_true.partitions();
    context.writes(&mut instruction, 0, dst);
    context.reads(&mut instruction, 1, on_true);
    for (at, (operator, bound)) in [("comp_op0", "bound0"), ("comp_op1", "bound1")].into_iter().enumerate() {
        instruction.constants[0] |= (comparison(arguments, context, operator)? as u32) << (16 * at);
        let view = arguments.view(bound)?;
        context.check_vector(view, bound, partitions)?;
        context.check_dtype(view, bound, &[Dtype::Float32])?;
        context.reads(&mut instruction, 2 + at, view);
    }
    if let Some(result) = arguments.view_or_none("reduce_res")? {
        context.check_vector(result, "reduce_res", partitions)?;
        context.writes(&mut instruction, 4, result);
    }
    let start = range_start(arguments, context, on_true.free_size())?;
    instruction.constants[2..].copy_from_slice(&[start as u32, (start >> 32) as u32]);
    instruction.constants[1] = on_false(arguments, context)?.to_bits();
    command.store(&mut instruction);
    Ok(instruction)
}

fn comparison(arguments: &Arguments<'_>, context: &mut Context<'_>, name: &'static str) -> Result<Operator, Violation> {
    let operator = context.arithmetic(arguments, name, &COMPARISON)?;
    match operator {
        Operator::Equal | Operator::Less | Operator::LessEqual | Operator::Greater | Operator::GreaterEqual => {
            Ok(operator)
        }
        other => Err(broken(&COMPARISON, name, format!("is {}", other.name()), COMPARISON.text)),
    }
}

fn range_start(arguments: &Arguments<'_>, context: &mut Context<'_>, elements: u64) -> Result<i64, Violation> {
    let start = arguments.int("range_start")?;
    let last = start.saturating_add(elements as i64 - 1);
    if start <= -INDEX_END || last >= INDEX_END {
        let value = format!("is {start}: indices up to {last}");
        let limit = format!("above -{INDEX_END} and below {INDEX_END}");
        context.deviation(Strictness::Documented, broken(&RANGE, "range_start", value, limit))?;
    }
    Ok(start)
}

fn on_false(arguments: &Arguments<'_>, context: &mut Context<'_>) -> Result<f32, Violation> {
    let value = arguments.number("on_false_value")? as f32;
    if value != f32::MIN {
        let limit = format!("must be {:e}", f32::MIN);
        let violation = broken(&ON_FALSE, "on_false_value", format!("is {value:e}"), limit);
        context.deviation(Strictness::Documented, violation)?;
    }
    Ok(value)
}

/// A NaN that is not selected is gone; a bound that is NaN selects nothing.
fn hides_nan(_: &Instruction) -> bool {
    true
}

/// The places whose index passes a comparison with a bound. Indices ascend, so they follow each other.
fn passing(operator: Operator, indices: &[f32], bound: f32) -> Range<usize> {
    if bound.is_nan() {
        return 0..0;
    }
    let below = indices.partition_point(|&index| index < bound);
    let up_to = indices.partition_point(|&index| index <= bound);
    match operator {
        Operator::Equal => below..up_to,
        Operator::Less => 0..below,
        Operator::LessEqual => 0..up_to,
        Operator::Greater => up_to..indices.len(),
        Operator::GreaterEqual => below..indices.len(),
        other => unreachable!("{} is no comparison of this instruction", other.name()),
    }
}

fn execute(instruction: &Instruction, machine: &mut Machine<'_>) -> Result<(), Violation> {
    let [dst, on_true, bound0, bound1, result] = instruction.operands;
    let [operators, fill, low, high] = instruction.constants;
    let [op0, op1] = [operators as u8, (operators >> 16) as u8].map(Operator::from_code);
    let (fill, start) = (f32::from_bits(fill), i64::from(low) | i64::from(high) << 32);
    let command = ReduceCommand::stored(instruction);
    let geometry = machine.tables.geometry(&on_true);
    let (row, rows, partition) = (geometry.row_elements(), geometry.rows(), machine.tables.partition_start(&on_true));
    let indices: Vec<f32> = (0..row as i64).map(|at| start.wrapping_add(at) as f32).collect();
    let mut bounds = [Vec::new(), Vec::new()];
    machine.read_all(&bound0, &mut bounds[0]);
    machine.read_all(&bound1, &mut bounds[1]);
    let selected: Vec<Range<usize>> = std::iter::zip(&bounds[0], &bounds[1])
        .map(|(&bound0, &bound1)| {
            let (a, b) = (passing(op0, &indices, bound0), passing(op1, &indices, bound1));
            a.start.max(b.start)..a.end.min(b.end)
        })
        .collect();
    let mut maxima = machine.registers.vector.begin(partition, rows, command, Operator::Maximum.identity());
    machine.stream(&dst, &[&on_true], |first, [x, _], out| {
        out.fill(fill);
        let mut done = 0;
        while done < out.len() {
            let (at, within) = ((first + done) / row, (first + done) % row);
            let count = (row - within).min(out.len() - done);
            // The part of the row's selection that lies in this piece.
            let from = selected[at].start.clamp(within, within + count) - within;
            let end = selected[at].end.clamp(within, within + count) - within;
            if from < end {
                out[done + from..done + end].copy_from_slice(&x[done + from..done + end]);
            }
            done += count;
        }
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
    let [dst, on_true, ..] = &instruction.operands;
    let rate = vector.stream.range_select_cycles_per_element;
    let rate = rate.expect("recorded for a core that has it, and the table of such a core gives the rate");
    stream_cost::vector(&[dst, on_true], rate, &vector.tensor_tensor, tables, target)
}

#[cfg(test)]
mod tests {
    use super::{Operator, passing};

    #[test]
    fn ranges_are_what_the_comparisons_select() {
        let steps = [-3.0f32, -2.0, -1.0, 0.0, 1.0, 16777216.0, 16777216.0, 16777218.0];
        let bounds = [f32::NAN, f32::NEG_INFINITY, -4.0, -2.5, -2.0, -0.0, 0.5, 1.0, 16777216.0, 2e7, f32::INFINITY];
        let comparisons =
            [Operator::Equal, Operator::Less, Operator::LessEqual, Operator::Greater, Operator::GreaterEqual];
        for operator in comparisons {
            for bound in bounds {
                let range = passing(operator, &steps, bound);
                for (at, &step) in steps.iter().enumerate() {
                    let passes = operator.evaluate(step, bound) == 1.0;
                    assert_eq!(range.contains(&at), passes, "{operator:?}({step}, {bound})");
                }
            }
        }
    }
}
