//! `local_gather`: runs of elements by indices that sixteen partitions share.

use crate::arguments::{Argument, Arguments, Parameter, Use};
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
    name: "local_gather",
    doc: "In each group of 16 partitions: ``dst[p, k * e + j] = src_buffer[p, idx[k] + j]`` with e elements an index.\n\n\
        The group's indices are taken down its partitions first: ``idx[k] = index[k mod 16, k div 16]``, in elements. Bits \
        are moved.",
    source: "nki/api/nki/isa/__init__.py, local_gather; nki/test/test_nki_isa_local_gather.py",
    kind: Kind::Compute,
    engines: &[Engine::Gpsimd],
    parameters: &[
        Parameter {
            name: "dst",
            default: None,
            usage: Use::Write,
            doc: "SBUF, (P, indices * elements) of src_buffer's type.",
        },
        Parameter { name: "src_buffer", default: None, usage: Use::Read, doc: "SBUF, (P, F), P a multiple of 16." },
        Parameter { name: "index", default: None, usage: Use::Read, doc: "SBUF, (P, K), uint16." },
        Parameter {
            name: "num_elem_per_idx",
            default: Some("1"),
            usage: Use::Constant,
            doc: "Elements at each index: 1, 2, 4, 8, 16 or 32.",
        },
        Parameter {
            name: "num_valid_indices",
            default: Some("None"),
            usage: Use::Constant,
            doc: "Indices of a group that count; by default all, 16 * K.",
        },
    ],
    rules: &[TILES, COUNTS, BOUNDS],
    exactness: Exactness::BitExact,
    build,
    execute,
    hides_nan,
    rows: every_row,
    cost,
    work: no_work,
};

const TILES: Rule = Rule {
    id: "local_gather.tiles",
    text: "index is uint16, dst has src_buffer's type, and all have the same partitions, a multiple of 16",
    source: "nki/api/nki/isa/__init__.py, local_gather",
    fix: "declare index as nl.uint16 and dst like src_buffer",
};
const COUNTS: Rule = Rule {
    id: "local_gather.counts",
    text: "num_elem_per_idx is 1, 2, 4, 8, 16 or 32, at most 4096 indices a group count, and dst has room for what they name",
    source: "nki/api/nki/isa/__init__.py, local_gather; release-notes/components/nki.rst (known issue of 0.6.0)",
    fix: "give dst num_valid_indices * num_elem_per_idx elements a partition",
};
const BOUNDS: Rule = Rule {
    id: "local_gather.bounds",
    text: "the elements that an index names lie inside src_buffer; what happens beyond is undefined",
    source: "nki/api/nki/isa/__init__.py, local_gather",
    fix: "check the indices",
};

/// Indices of a group that may count.
const INDICES_MAX: u64 = 4096;

fn build(arguments: &Arguments<'_>, context: &mut Context<'_>) -> Result<Instruction, Violation> {
    let (dst, source, index) = (arguments.view("dst")?, arguments.view("src_buffer")?, arguments.view("index")?);
    for (view, name) in [(dst, "dst"), (source, "src_buffer"), (index, "index")] {
        context.check_tile(view, name, SBUF)?;
    }
    let group = context.target.core.gpsimd.processor_partitions;
    if index.dtype != Dtype::Uint16 || index.partitions() != source.partitions() {
        let value = format!("is {} with {} partitions", index.dtype.name(), index.partitions());
        return Err(broken(&TILES, "index", value, format!("must be uint16 with {}", source.partitions())));
    }
    if !source.partitions().is_multiple_of(group) {
        let value = format!("has {} partitions", source.partitions());
        return Err(broken(&TILES, "src_buffer", value, format!("must have a multiple of {group}")));
    }
    if dst.dtype != source.dtype || dst.partitions() != source.partitions() {
        let value = format!("is {} with {} partitions", dst.dtype.name(), dst.partitions());
        let limit = format!("src_buffer is {} with {}", source.dtype.name(), source.partitions());
        return Err(broken(&TILES, "dst", value, limit));
    }
    let elements = arguments.int("num_elem_per_idx")?;
    if ![1, 2, 4, 8, 16, 32].contains(&elements) {
        return Err(broken(&COUNTS, "num_elem_per_idx", format!("is {elements}"), COUNTS.text));
    }
    let all = u64::from(group) * index.free_size();
    let valid = match arguments.get("num_valid_indices") {
        Argument::None => all as i64,
        _ => arguments.int("num_valid_indices")?,
    };
    if valid < 1 || valid as u64 > all.min(INDICES_MAX) {
        let limit = format!("1 to {}", all.min(INDICES_MAX));
        return Err(broken(&COUNTS, "num_valid_indices", format!("is {valid}"), limit));
    }
    if dst.free_size() != (valid * elements) as u64 {
        let value = format!("has {} elements a partition", dst.free_size());
        return Err(broken(&COUNTS, "dst", value, format!("must have {}", valid * elements)));
    }
    let mut instruction = Instruction::new(Opcode::LocalGather, Engine::Gpsimd);
    context.writes(&mut instruction, 0, dst);
    context.reads(&mut instruction, 1, source);
    context.reads(&mut instruction, 2, index);
    instruction.constants = [elements as u32, valid as u32, group, 0];
    Ok(instruction)
}

fn hides_nan(_: &Instruction) -> bool {
    true
}

fn execute(instruction: &Instruction, machine: &mut Machine<'_>) -> Result<(), Violation> {
    let [dst, source, index, ..] = instruction.operands;
    let [elements, valid, group, _] = instruction.constants.map(|constant| constant as usize);
    let tile = machine.tile(&source);
    let (rows, row, size) = (tile.geometry.rows(), tile.geometry.row_elements(), tile.geometry.dtype.size_bytes());
    let mut bytes = vec![0u8; rows * row * size];
    tile.read_bytes(0, &mut bytes);
    let tile = machine.tile(&index);
    let columns = tile.geometry.row_elements();
    let mut places = vec![0u32; tile.geometry.elements()];
    tile.read_words(0, &mut places);
    let run = elements * size;
    let mut out = vec![0u8; rows * valid * run];
    for partition in 0..rows {
        let first = partition / group * group;
        for k in 0..valid {
            let place = places[(first + k % group) * columns + k / group] as usize;
            if place + elements > row {
                let value = format!("partition {}, element {} is {place}", first + k % group, k / group);
                return Err(broken(&BOUNDS, "index", value, format!("src_buffer has {row} elements a partition")));
            }
            let (to, from) = ((partition * valid + k) * run, (partition * row + place) * size);
            out[to..to + run].copy_from_slice(&bytes[from..from + run]);
        }
    }
    machine.with_written(&dst, |_, tile| tile.write_bytes(0, &out));
    Ok(())
}

/// The formula of an earlier public revision of the reference, with its names: 28 cycles to start a round, 4 an element.
fn cost(instruction: &Instruction, tables: &Tables<'_>, target: &Target) -> Cost {
    let rates = &target.core.gpsimd.stream;
    let [elements, valid, ..] = instruction.constants.map(u64::from);
    let size = tables.pattern(&instruction.operands[0]).dtype.size_bytes() as u64;
    let (base, each) = (u64::from(rates.local_gather_base_cycles), u64::from(rates.local_gather_element_cycles));
    let at_once = (u64::from(rates.local_gather_bytes) / size).min(elements).max(1);
    // num_valid * e / C with C = ((base + each * e) / (each * e)) / at_once.
    let stream = (valid * elements * each * elements * at_once).div_ceil(base + each * elements);
    stream_cost::on_gpsimd(stream, target)
}
