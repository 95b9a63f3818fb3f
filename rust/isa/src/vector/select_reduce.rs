//! `select_reduce`: one of two values where a predicate holds, and the largest of them.

use crate::accumulator::{ReduceCommand, accumulate};
use crate::arguments::{Arguments, Parameter, Use};
use crate::context::{Context, ON_CHIP, broken};
use crate::cost::Cost;
use crate::instruction::{Engine, Instruction};
use crate::machine::{Machine, Tables};
use crate::operator::Operator;
use crate::rules::{self, Rule};
use crate::table::{Definition, Exactness, Kind, Opcode, every_row, no_work};
use crate::vector::stream_cost;
use trn3_mem::{Space, Violation};
use trn3_num::Dtype;
use trn3_spec::Target;

/// The table's entry.
pub const DEFINITION: Definition = Definition {
    name: "select_reduce",
    doc: "``dst = on_true`` where ``predicate`` is not 0 (with reverse_pred: where it is 0), elsewhere ``on_false``.\n\n\
        VectorE's accumulators take the maximum of what is selected, before it is converted to dst's data type: \
        reset_reduce starts from -inf, reduce goes on, idle leaves them (the hardware may change them then); reduce_res \
        gets them.",
    source: "nki/api/nki/isa/__init__.py, select_reduce",
    kind: Kind::Compute,
    engines: &[Engine::Vector],
    parameters: &[
        Parameter { name: "dst", default: None, usage: Use::Write, doc: "SBUF or PSUM, (P, F), any type." },
        Parameter {
            name: "predicate",
            default: None,
            usage: Use::Read,
            doc: "int8, uint8, int16 or uint16, (P, F); not in PSUM together with on_true.",
        },
        Parameter {
            name: "on_true",
            default: None,
            usage: Use::Read,
            doc: "SBUF or PSUM, (P, F), any type but int32, uint32 and tfloat32.",
        },
        Parameter { name: "on_false", default: None, usage: Use::VectorOperand, doc: "(P, 1) tile or constant." },
        Parameter { name: "reduce_res", default: Some("None"), usage: Use::Write, doc: "(P, 1) tile for the maximum." },
        Parameter {
            name: "reduce_cmd",
            default: Some("reduce_cmd.idle"),
            usage: Use::Constant,
            doc: "What happens to the accumulators.",
        },
        Parameter { name: "reduce_op", default: Some("_maximum"), usage: Use::Constant, doc: "nl.maximum." },
        Parameter { name: "reverse_pred", default: Some("False"), usage: Use::Constant, doc: "Selects where it is 0." },
    ],
    rules: &[GENERATION, TILES, REDUCE],
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
    text: "VectorE has it from NeuronCore-v3 (trn2) on",
    source: "nki/api/nki/isa/__init__.py, select_reduce",
    fix: "target trn2 or trn3, or use tensor_copy_predicated and tensor_reduce",
};
const TILES: Rule = Rule {
    id: "select_reduce.tiles",
    text: "predicate is int8, uint8, int16 or uint16; on_true is not int32, uint32 or tfloat32; reduce_res is a \
        floating-point tile",
    source: "nki/api/nki/isa/__init__.py, select_reduce",
    fix: "cast first (tensor_copy)",
};
const REDUCE: Rule = Rule {
    id: "select_reduce.reduce",
    text: "reduce_op is maximum, and reduce_cmd idle, reduce or reset_reduce",
    source: "nki/api/nki/isa/__init__.py, select_reduce",
    fix: "use nl.maximum, or tensor_reduce",
};

const COMMANDS: &[ReduceCommand] = &[ReduceCommand::Idle, ReduceCommand::Reduce, ReduceCommand::ResetReduce];
/// Flags above those of the reduce command.
const REVERSE: u16 = 1 << 3;

fn build(arguments: &Arguments<'_>, context: &mut Context<'_>) -> Result<Instruction, Violation> {
    let (dst, predicate, data) = (arguments.view("dst")?, arguments.view("predicate")?, arguments.view("on_true")?);
    if !context.target.core.capability.select_reduce {
        return Err(context.lacking(&GENERATION, "", None));
    }
    for (view, name) in [(dst, "dst"), (predicate, "predicate"), (data, "on_true")] {
        context.check_tile(view, name, ON_CHIP)?;
        context.check_unpacked(view, name)?;
        context.check_same_shape(view, name, dst, "dst")?;
    }
    if !matches!(predicate.dtype, Dtype::Int8 | Dtype::Uint8 | Dtype::Int16 | Dtype::Uint16) {
        return Err(broken(&TILES, "predicate", format!("is {}", predicate.dtype.name()), TILES.text));
    }
    if matches!(data.dtype, Dtype::Int32 | Dtype::Uint32 | Dtype::Tfloat32) {
        return Err(broken(&TILES, "on_true", format!("is {}", data.dtype.name()), TILES.text));
    }
    if data.space == Space::Psum && predicate.space == Space::Psum {
        return Err(broken(&rules::PSUM_PAIR, "predicate", "is in psum, as on_true is", rules::PSUM_PAIR.text));
    }
    let reduce_op = context.arithmetic(arguments, "reduce_op", &REDUCE)?;
    if reduce_op != Operator::Maximum {
        return Err(broken(&REDUCE, "reduce_op", format!("is {}", reduce_op.name()), REDUCE.text));
    }
    let mut instruction = Instruction::new(Opcode::SelectReduce, Engine::Vector);
    context.writes(&mut instruction, 0, dst);
    context.reads(&mut instruction, 1, predicate);
    context.reads(&mut instruction, 2, data);
    context.vector_operand(&mut instruction, arguments, "on_false", 3, 0, data.partitions())?;
    if let Some(result) = arguments.view_or_none("reduce_res")? {
        context.check_vector(result, "reduce_res", data.partitions())?;
        if !result.dtype.is_float() {
            return Err(broken(&TILES, "reduce_res", format!("is {}", result.dtype.name()), TILES.text));
        }
        context.writes(&mut instruction, 4, result);
    }
    ReduceCommand::of(arguments, ReduceCommand::Idle, COMMANDS, &REDUCE)?.store(&mut instruction);
    if arguments.flag("reverse_pred")? {
        instruction.flags |= REVERSE;
    }
    Ok(instruction)
}

/// What is not selected is gone.
fn hides_nan(_: &Instruction) -> bool {
    true
}

fn execute(instruction: &Instruction, machine: &mut Machine<'_>) -> Result<(), Violation> {
    let [dst, predicate, data, _, result] = instruction.operands;
    let selects_zero = instruction.flags & REVERSE != 0;
    let on_false = machine.vector_operand(instruction, 3, 0);
    let geometry = machine.tables.geometry(&data);
    let (row, rows, partition) = (geometry.row_elements(), geometry.rows(), machine.tables.partition_start(&data));
    let command = ReduceCommand::stored(instruction);
    let mut largest = machine.registers.vector.begin(partition, rows, command, f32::NEG_INFINITY);
    machine.stream(&dst, &[&predicate, &data], |first, [predicate, x], out| {
        on_false.for_each(first, row, out, |piece, value| piece.fill(value));
        for ((out, &predicate), &x) in out.iter_mut().zip(predicate).zip(x) {
            if (predicate != 0.0) != selects_zero {
                *out = x;
            }
        }
        if command.accumulates() {
            accumulate(Operator::Maximum, first, row, out, &mut largest);
        }
        Ok(())
    })?;
    machine.registers.vector.of(partition, rows).copy_from_slice(&largest);
    if result.is_some() {
        let cast = machine.options.cast;
        machine.with_written(&result, |_, tile| tile.write_f32(0, &largest, cast));
    }
    Ok(())
}

fn cost(instruction: &Instruction, tables: &Tables<'_>, target: &Target) -> Cost {
    let vector = &target.core.vector;
    let [dst, predicate, data, ..] = &instruction.operands;
    let split = tables.tensor(data).space != tables.tensor(predicate).space;
    let rates = &vector.stream;
    let rate = if split { rates.select_split_cycles_per_element } else { rates.select_cycles_per_element };
    stream_cost::vector(&[dst, predicate, data], rate, &vector.tensor_tensor, tables, target)
}
