//! `nonzero_with_count`: where a partition is not zero, and how often.

use crate::arguments::{Arguments, Parameter, Use};
use crate::context::{Context, SBUF, broken};
use crate::cost::Cost;
use crate::instruction::{Engine, Instruction};
use crate::machine::{Machine, Tables};
use crate::rules::Rule;
use crate::table::{Definition, Exactness, Kind, Opcode, Rows, no_work};
use crate::vector::stream_cost;
use trn3_mem::{Dim, Violation};
use trn3_num::Dtype;
use trn3_spec::Target;

/// The table's entry.
pub const DEFINITION: Definition = Definition {
    name: "nonzero_with_count",
    doc: "In partitions 0, 16, 32 and so on: the positions of the elements that are not 0, ascending, then ``padding_val``, \
        and in the last place their number.\n\n``index_offset`` is added to the positions. Other partitions are neither \
        read nor written. Zeros of both signs are zero; a NaN is not.",
    source: "nki/api/nki/isa/__init__.py, nonzero_with_count",
    kind: Kind::Compute,
    engines: &[Engine::Gpsimd],
    parameters: &[
        Parameter { name: "dst", default: None, usage: Use::Write, doc: "SBUF, (P, T + 1), int32." },
        Parameter { name: "src", default: None, usage: Use::Read, doc: "SBUF, (P, T), float32 or int32." },
        Parameter { name: "index_offset", default: Some("0"), usage: Use::Constant, doc: "Added to the positions." },
        Parameter {
            name: "padding_val",
            default: Some("-1"),
            usage: Use::Constant,
            doc: "Fills the places that are left.",
        },
    ],
    rules: &[GENERATION, TILES, NUMBERS],
    exactness: Exactness::BitExact,
    build,
    execute,
    hides_nan,
    rows,
    cost,
    work: no_work,
};

const GENERATION: Rule = Rule {
    id: "nonzero_with_count.generation",
    text: "GpSimdE has it from NeuronCore-v3 (trn2) on",
    source: "nki/api/nki/isa/__init__.py, nonzero_with_count",
    fix: "target trn2 or trn3",
};
const TILES: Rule = Rule {
    id: "nonzero_with_count.tiles",
    text: "src is float32 or int32, dst int32 with as many partitions and one element more in each",
    source: "nki/api/nki/isa/__init__.py, nonzero_with_count",
    fix: "declare dst as (P, T + 1) of nl.int32",
};
const NUMBERS: Rule = Rule {
    id: "nonzero_with_count.numbers",
    text: "index_offset and padding_val are int32",
    source: "nki/api/nki/isa/__init__.py, nonzero_with_count",
    fix: "give integers of 32 bits with sign",
};

fn build(arguments: &Arguments<'_>, context: &mut Context<'_>) -> Result<Instruction, Violation> {
    let (dst, src) = (arguments.view("dst")?, arguments.view("src")?);
    if !context.target.core.capability.nonzero_with_count {
        return Err(context.lacking(&GENERATION, "", None));
    }
    for (view, name) in [(dst, "dst"), (src, "src")] {
        context.check_tile(view, name, SBUF)?;
    }
    if !matches!(src.dtype, Dtype::Float32 | Dtype::Int32) {
        return Err(broken(&TILES, "src", format!("is {}", src.dtype.name()), TILES.text));
    }
    let fits = dst.partitions() == src.partitions() && dst.free_size() == src.free_size() + 1;
    if dst.dtype != Dtype::Int32 || !fits {
        let value = format!("is {} {:?}", dst.dtype.name(), dst.shape().as_slice());
        let limit = format!("must be int32 ({}, {})", src.partitions(), src.free_size() + 1);
        return Err(broken(&TILES, "dst", value, limit));
    }
    let mut instruction = Instruction::new(Opcode::NonzeroWithCount, Engine::Gpsimd);
    context.writes(&mut instruction, 0, dst);
    context.reads(&mut instruction, 1, src);
    for (at, name) in ["index_offset", "padding_val"].into_iter().enumerate() {
        let value = arguments.int(name)?;
        let word = i32::try_from(value).map_err(|_| broken(&NUMBERS, name, format!("is {value}"), NUMBERS.text))?;
        instruction.constants[at] = word as u32;
    }
    instruction.constants[2] = context.target.core.gpsimd.processor_partitions;
    Ok(instruction)
}

fn hides_nan(_: &Instruction) -> bool {
    true
}

/// Each processor reads and writes the first of its partitions.
fn rows(instruction: &Instruction, _: &Tables<'_>, _: usize) -> Rows {
    Rows::First { count: 1, of: instruction.constants[2] }
}

fn execute(instruction: &Instruction, machine: &mut Machine<'_>) -> Result<(), Violation> {
    let [dst, src, ..] = instruction.operands;
    let [offset, padding, group, _] = instruction.constants;
    let mut geometry = machine.tables.geometry(&src);
    let (rows, row) = (geometry.rows(), geometry.row_elements());
    let stride = geometry.dims[0].stride;
    let base = geometry.offset;
    let is_float = geometry.dtype == Dtype::Float32;
    let mut words = vec![0u32; row];
    // All rows are read before one is written: they may lie in each other's place.
    let mut outs = Vec::with_capacity(rows.div_ceil(group as usize));
    for partition in (0..rows).step_by(group as usize) {
        geometry.dims[0] = Dim { stride, count: 1 };
        geometry.offset = base + stride * partition as i64;
        machine.memory.tile_of(geometry.clone(), src.tensor).read_words(0, &mut words);
        let is_set = |word: u32| if is_float { word << 1 != 0 } else { word != 0 };
        let places = (0u32..).zip(&words).filter(|&(_, &word)| is_set(word)).map(|(at, _)| at);
        let mut out: Vec<u32> = places.map(|at| at.wrapping_add(offset)).collect();
        let count = out.len() as u32;
        out.resize(row, padding);
        out.push(count);
        outs.push(out);
    }
    machine.with_written(&dst, |_, tile| {
        for (at, out) in outs.iter().enumerate() {
            tile.write_words(at * group as usize * (row + 1), out);
        }
    });
    Ok(())
}

fn cost(instruction: &Instruction, tables: &Tables<'_>, target: &Target) -> Cost {
    let n = tables.geometry(&instruction.operands[1]).row_elements() as u64;
    let rate = target.core.gpsimd.stream.nonzero_cycles_per_element;
    stream_cost::on_gpsimd(rate.map_or(n, |rate| rate.times_ceil(n)), target)
}
