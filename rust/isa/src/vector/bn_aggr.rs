//! `bn_aggr`: mean and variance from the statistics of pieces.

use crate::arguments::{Arguments, Parameter, Use};
use crate::context::{Context, ON_CHIP, broken};
use crate::cost::Cost;
use crate::instruction::{Engine, Instruction};
use crate::machine::{Machine, Tables};
use crate::operator::canonical;
use crate::rules::Rule;
use crate::table::{Definition, Exactness, Kind, Opcode, every_row, keeps_nan, no_work};
use crate::vector::stream_cost;
use trn3_mem::Violation;
use trn3_spec::Target;

/// The table's entry.
pub const DEFINITION: Definition = Definition {
    name: "bn_aggr",
    doc: "Mean and variance of all elements from (count, mean, variance times count) of pieces, as bn_stats gives them.\n\n\
        With C the sum of the counts: mean = sum of count * mean / C, variance = sum of (M2 + count * (mean - all's)^2) \
        / C; FP32, pieces in ascending order. The order inside the hardware is not published.",
    source: "nki/api/nki/isa/__init__.py, bn_aggr",
    kind: Kind::Compute,
    engines: &[Engine::Vector],
    parameters: &[
        Parameter { name: "dst", default: None, usage: Use::Write, doc: "SBUF or PSUM, (P, 2): mean, variance." },
        Parameter {
            name: "data",
            default: None,
            usage: Use::Read,
            doc: "SBUF or PSUM, (P, F) with three elements for each piece.",
        },
    ],
    rules: &[SIZE],
    exactness: Exactness::Modelled,
    build,
    execute,
    hides_nan: keeps_nan,
    rows: every_row,
    cost,
    work: no_work,
};

const SIZE: Rule = Rule {
    id: "bn_aggr.size",
    text: "data has three elements a piece in each partition, and dst two",
    source: "nki/api/nki/isa/__init__.py, bn_aggr",
    fix: "pass what bn_stats wrote",
};

fn build(arguments: &Arguments<'_>, context: &mut Context<'_>) -> Result<Instruction, Violation> {
    let (dst, data) = (arguments.view("dst")?, arguments.view("data")?);
    for (view, name) in [(dst, "dst"), (data, "data")] {
        context.check_tile(view, name, ON_CHIP)?;
        context.check_unpacked(view, name)?;
    }
    if !data.free_size().is_multiple_of(3) {
        let value = format!("has {} elements a partition", data.free_size());
        return Err(broken(&SIZE, "data", value, "must have a multiple of 3"));
    }
    if dst.partitions() != data.partitions() || dst.free_size() != 2 {
        let value = format!("has shape {:?}", dst.shape().as_slice());
        return Err(broken(&SIZE, "dst", value, format!("must be ({}, 2)", data.partitions())));
    }
    let mut instruction = Instruction::new(Opcode::BnAggr, Engine::Vector);
    context.writes(&mut instruction, 0, dst);
    context.reads(&mut instruction, 1, data);
    Ok(instruction)
}

fn aggregate(pieces: &[f32]) -> [f32; 2] {
    let pieces = || pieces.chunks_exact(3);
    let count = pieces().fold(0.0, |sum, piece| sum + piece[0]);
    let mean = canonical(pieces().fold(0.0, |sum, piece| sum + piece[0] * piece[1]) / count);
    let of_piece = |piece: &[f32]| piece[2] + piece[0] * ((piece[1] - mean) * (piece[1] - mean));
    let distance = pieces().fold(0.0, |sum, piece| sum + of_piece(piece));
    [mean, canonical(distance / count)]
}

fn execute(instruction: &Instruction, machine: &mut Machine<'_>) -> Result<(), Violation> {
    let [dst, data, ..] = instruction.operands;
    let mut values = std::mem::take(&mut machine.scratch.tile);
    machine.read_all(&data, &mut values);
    let row = machine.tables.geometry(&data).row_elements();
    let out: Vec<f32> = values.chunks_exact(row).flat_map(aggregate).collect();
    let cast = machine.options.cast;
    machine.with_written(&dst, |_, tile| tile.write_f32(0, &out, cast));
    machine.scratch.tile = values;
    Ok(())
}

fn cost(instruction: &Instruction, tables: &Tables<'_>, target: &Target) -> Cost {
    let vector = &target.core.vector;
    let data = &instruction.operands[1];
    stream_cost::vector(&[data], vector.stream.bn_aggr_cycles_per_element, &vector.other, tables, target)
}
