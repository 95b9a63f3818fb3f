//! `bn_stats`: count, mean and squared distance of the even and of the odd elements.

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
    name: "bn_stats",
    doc: "For the even and for the odd elements of each partition: count, mean, and the sum of squared distances from it.\n\n\
        FP32, elements in ascending order: the sum first, divided once, then the squared distances. The order inside the \
        hardware is not published. A group without elements has mean and distance 0.",
    source: "nki/api/nki/isa/__init__.py, bn_stats",
    kind: Kind::Compute,
    engines: &[Engine::Vector],
    parameters: &[
        Parameter {
            name: "dst",
            default: None,
            usage: Use::Write,
            doc: "SBUF or PSUM, (P, 6): count, mean, variance times count of the even elements, then of the odd ones.",
        },
        Parameter { name: "data", default: None, usage: Use::Read, doc: "SBUF or PSUM, (P, F), F at most 512." },
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
    id: "bn_stats.size",
    text: "data has at most nl.tile_size.bn_stats_fmax elements a partition, and dst six",
    source: "nki/api/nki/isa/__init__.py, bn_stats",
    fix: "take statistics of pieces, and bring them together with bn_aggr",
};

fn build(arguments: &Arguments<'_>, context: &mut Context<'_>) -> Result<Instruction, Violation> {
    let (dst, data) = (arguments.view("dst")?, arguments.view("data")?);
    for (view, name) in [(dst, "dst"), (data, "data")] {
        context.check_tile(view, name, ON_CHIP)?;
        context.check_unpacked(view, name)?;
    }
    let limit = u64::from(context.target.core.matmul.bn_stats_free_max);
    if data.free_size() > limit {
        let value = format!("has {} elements a partition", data.free_size());
        return Err(broken(&SIZE, "data", value, format!("limit {limit}")));
    }
    if dst.partitions() != data.partitions() || dst.free_size() != 6 {
        let value = format!("has shape {:?}", dst.shape().as_slice());
        return Err(broken(&SIZE, "dst", value, format!("must be ({}, 6)", data.partitions())));
    }
    let mut instruction = Instruction::new(Opcode::BnStats, Engine::Vector);
    context.writes(&mut instruction, 0, dst);
    context.reads(&mut instruction, 1, data);
    Ok(instruction)
}

/// Count, mean and squared distance of every other element.
fn statistics(values: &[f32], first: usize) -> [f32; 3] {
    let group = || values.iter().skip(first).step_by(2);
    let count = group().count() as f32;
    if count == 0.0 {
        return [0.0; 3];
    }
    let mean = canonical(group().fold(0.0, |sum, &x| sum + x) / count);
    let distance = group().fold(0.0, |sum, &x| sum + (x - mean) * (x - mean));
    [count, mean, canonical(distance)]
}

fn execute(instruction: &Instruction, machine: &mut Machine<'_>) -> Result<(), Violation> {
    let [dst, data, ..] = instruction.operands;
    let mut values = std::mem::take(&mut machine.scratch.tile);
    machine.read_all(&data, &mut values);
    let row = machine.tables.geometry(&data).row_elements();
    let out: Vec<f32> =
        values.chunks_exact(row).flat_map(|row| [0, 1].map(|first| statistics(row, first))).flatten().collect();
    let cast = machine.options.cast;
    machine.with_written(&dst, |_, tile| tile.write_f32(0, &out, cast));
    machine.scratch.tile = values;
    Ok(())
}

fn cost(instruction: &Instruction, tables: &Tables<'_>, target: &Target) -> Cost {
    let vector = &target.core.vector;
    let data = &instruction.operands[1];
    stream_cost::vector(&[data], vector.stream.bn_stats_cycles_per_element, &vector.other, tables, target)
}
