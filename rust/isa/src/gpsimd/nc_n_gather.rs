//! `nc_n_gather`: elements of each partition by their indices.

use crate::arguments::{Arguments, Parameter, Use};
use crate::context::{Context, SBUF, broken};
use crate::cost::Cost;
use crate::instruction::{Engine, Instruction};
use crate::machine::{Machine, Tables};
use crate::rules::Rule;
use crate::table::{Definition, Exactness, Kind, Opcode, every_row, no_work};
use crate::vector::stream_cost;
use trn3_mem::Violation;
use trn3_num::Dtype;
use trn3_spec::Target;

/// The table's entry.
pub const DEFINITION: Definition = Definition {
    name: "nc_n_gather",
    doc: "``dst[p, i] = data[p, indices[p, i]]`` on the flattened free dimensions; bits are moved.",
    source: "nki/api/nki/isa/__init__.py, nc_n_gather",
    kind: Kind::Compute,
    engines: &[Engine::Gpsimd],
    parameters: &[
        Parameter { name: "dst", default: None, usage: Use::Write, doc: "SBUF, (P, N) of data's type." },
        Parameter { name: "data", default: None, usage: Use::Read, doc: "SBUF, (P, F), any type." },
        Parameter { name: "indices", default: None, usage: Use::Read, doc: "SBUF, (P, N), uint32, below F." },
    ],
    rules: &[TILES, BOUNDS],
    exactness: Exactness::BitExact,
    build,
    execute,
    hides_nan,
    rows: every_row,
    cost,
    work: no_work,
};

const TILES: Rule = Rule {
    id: "nc_n_gather.tiles",
    text: "indices are uint32, dst has data's type and as many partitions as data and indices",
    source: "nki/api/nki/isa/__init__.py, nc_n_gather",
    fix: "declare indices as nl.uint32 and dst like data",
};
const BOUNDS: Rule = Rule {
    id: "nc_n_gather.bounds",
    text: "an index is below the number of elements a partition of data",
    source: "nki/api/nki/isa/__init__.py, nc_n_gather",
    fix: "check the indices",
};

fn build(arguments: &Arguments<'_>, context: &mut Context<'_>) -> Result<Instruction, Violation> {
    let (dst, data, indices) = (arguments.view("dst")?, arguments.view("data")?, arguments.view("indices")?);
    for (view, name) in [(dst, "dst"), (data, "data"), (indices, "indices")] {
        context.check_tile(view, name, SBUF)?;
    }
    if indices.dtype != Dtype::Uint32 {
        return Err(broken(&TILES, "indices", format!("is {}", indices.dtype.name()), TILES.text));
    }
    context.check_same_shape(indices, "indices", dst, "dst")?;
    if dst.dtype != data.dtype || dst.partitions() != data.partitions() {
        let value = format!("is {} with {} partitions", data.dtype.name(), data.partitions());
        let limit = format!("dst is {} with {}", dst.dtype.name(), dst.partitions());
        return Err(broken(&TILES, "data", value, limit));
    }
    let mut instruction = Instruction::new(Opcode::NcNGather, Engine::Gpsimd);
    context.writes(&mut instruction, 0, dst);
    context.reads(&mut instruction, 1, data);
    context.reads(&mut instruction, 2, indices);
    Ok(instruction)
}

fn hides_nan(_: &Instruction) -> bool {
    true
}

fn execute(instruction: &Instruction, machine: &mut Machine<'_>) -> Result<(), Violation> {
    let [dst, data, indices, ..] = instruction.operands;
    let tile = machine.tile(&data);
    let (row, size) = (tile.geometry.row_elements(), tile.geometry.dtype.size_bytes());
    let mut bytes = vec![0u8; tile.geometry.elements() * size];
    tile.read_bytes(0, &mut bytes);
    let tile = machine.tile(&indices);
    let wanted = tile.geometry.row_elements();
    let mut places = vec![0u32; tile.geometry.elements()];
    tile.read_words(0, &mut places);
    let mut out = vec![0u8; places.len() * size];
    for (at, (&place, element)) in places.iter().zip(out.chunks_exact_mut(size)).enumerate() {
        let partition = at / wanted;
        if place as usize >= row {
            let value = format!("partition {partition}, element {} is {place}", at % wanted);
            return Err(broken(&BOUNDS, "indices", value, format!("data has {row} elements a partition")));
        }
        let from = (partition * row + place as usize) * size;
        element.copy_from_slice(&bytes[from..from + size]);
    }
    machine.with_written(&dst, |_, tile| tile.write_bytes(0, &out));
    Ok(())
}

/// The instruction is carried out in groups of indices, each of which starts anew.
fn cost(instruction: &Instruction, tables: &Tables<'_>, target: &Target) -> Cost {
    let gpsimd = &target.core.gpsimd;
    let n = tables.geometry(&instruction.operands[0]).row_elements() as u64;
    let groups = n.div_ceil(u64::from(gpsimd.gather_group)).max(1);
    let restarts = (groups - 1) * u64::from(gpsimd.start_cycles);
    stream_cost::on_gpsimd(restarts + gpsimd.stream.gather_cycles_per_element.times_ceil(n), target)
}
