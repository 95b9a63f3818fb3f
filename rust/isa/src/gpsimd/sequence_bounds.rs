//! `sequence_bounds`: where the run of equal segment ids around each element begins and ends.

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
    name: "sequence_bounds",
    doc: "For each element the first index of the run of equal ids around it, and the index after its last.\n\n\
        An id of 0 is padding: its bounds are n and -1.",
    source: "nki/api/nki/isa/__init__.py, sequence_bounds; nki/test/test_nki_isa_sequence_bounds.py",
    kind: Kind::Compute,
    engines: &[Engine::Gpsimd],
    parameters: &[
        Parameter {
            name: "dst",
            default: None,
            usage: Use::Write,
            doc: "SBUF, (1, 2, n) of segment_ids' type: starts, then ends.",
        },
        Parameter { name: "segment_ids", default: None, usage: Use::Read, doc: "SBUF, (1, n), float32 or int32." },
    ],
    rules: &[TILES],
    exactness: Exactness::BitExact,
    build,
    execute,
    hides_nan,
    rows: every_row,
    cost,
    work: no_work,
};

const TILES: Rule = Rule {
    id: "sequence_bounds.tiles",
    text: "segment_ids is float32 or int32 in one partition, dst of the same type with twice as many elements",
    source: "nki/api/nki/isa/__init__.py, sequence_bounds",
    fix: "declare dst as (1, 2, n)",
};

fn build(arguments: &Arguments<'_>, context: &mut Context<'_>) -> Result<Instruction, Violation> {
    let (dst, ids) = (arguments.view("dst")?, arguments.view("segment_ids")?);
    for (view, name) in [(dst, "dst"), (ids, "segment_ids")] {
        context.check_tile(view, name, SBUF)?;
    }
    if !matches!(ids.dtype, Dtype::Float32 | Dtype::Int32) || ids.partitions() != 1 {
        let value = format!("is {} {:?}", ids.dtype.name(), ids.shape().as_slice());
        return Err(broken(&TILES, "segment_ids", value, "must be float32 or int32 (1, n)"));
    }
    if dst.dtype != ids.dtype || dst.partitions() != 1 || dst.free_size() != 2 * ids.free_size() {
        let value = format!("is {} {:?}", dst.dtype.name(), dst.shape().as_slice());
        let limit = format!("must be {} (1, 2, {})", ids.dtype.name(), ids.free_size());
        return Err(broken(&TILES, "dst", value, limit));
    }
    let mut instruction = Instruction::new(Opcode::SequenceBounds, Engine::Gpsimd);
    context.writes(&mut instruction, 0, dst);
    context.reads(&mut instruction, 1, ids);
    Ok(instruction)
}

fn hides_nan(_: &Instruction) -> bool {
    true
}

fn execute(instruction: &Instruction, machine: &mut Machine<'_>) -> Result<(), Violation> {
    let [dst, ids, ..] = instruction.operands;
    let tile = machine.tile(&ids);
    let is_float = tile.geometry.dtype == Dtype::Float32;
    let n = tile.geometry.elements();
    let mut words = vec![0u32; n];
    tile.read_words(0, &mut words);
    let (mut starts, mut ends) = (vec![n as i32; n], vec![-1i32; n]);
    let mut first = 0;
    while first < n {
        let after = words[first..].iter().position(|&word| word != words[first]).map_or(n, |at| first + at);
        let is_padding = if is_float { words[first] << 1 == 0 } else { words[first] == 0 };
        if !is_padding {
            starts[first..after].fill(first as i32);
            ends[first..after].fill(after as i32);
        }
        first = after;
    }
    let word = |&value: &i32| if is_float { (value as f32).to_bits() } else { value as u32 };
    let out: Vec<u32> = starts.iter().chain(&ends).map(word).collect();
    machine.with_written(&dst, |_, tile| tile.write_words(0, &out));
    Ok(())
}

fn cost(instruction: &Instruction, tables: &Tables<'_>, target: &Target) -> Cost {
    let n = tables.geometry(&instruction.operands[1]).row_elements() as u64;
    stream_cost::on_gpsimd(target.core.gpsimd.stream.sequence_bounds_cycles_per_element.times_ceil(n), target)
}
