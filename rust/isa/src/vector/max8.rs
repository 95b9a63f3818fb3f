//! `max8`: the eight largest values of each partition.

use super::search::{self, EIGHT, ELEMENTS};
use crate::arguments::{Arguments, Parameter, Use};
use crate::context::Context;
use crate::cost::Cost;
use crate::instruction::{Engine, Instruction};
use crate::machine::{Machine, Tables};
use crate::operator::canonical;
use crate::table::{Definition, Exactness, Kind, Opcode, every_row, keeps_nan, no_work};
use trn3_mem::Violation;
use trn3_spec::Target;

/// The table's entry.
pub const DEFINITION: Definition = Definition {
    name: "max8",
    doc: "The eight largest values of each partition, with multiplicity, in descending order.\n\n\
        Compared as FP32. A NaN counts as larger than every number (not published); among equal values the earlier one \
        comes first.",
    source: "nki/api/nki/isa/__init__.py, max8",
    kind: Kind::Compute,
    engines: &[Engine::Vector],
    parameters: &[
        Parameter { name: "dst", default: None, usage: Use::Write, doc: "SBUF or PSUM, (P, 8), any type." },
        Parameter { name: "src", default: None, usage: Use::Read, doc: "SBUF or PSUM, (P, F), F from 8 to 16384." },
    ],
    rules: &[ELEMENTS],
    exactness: Exactness::Modelled,
    build,
    execute,
    hides_nan: keeps_nan,
    rows: every_row,
    cost,
    work: no_work,
};

fn build(arguments: &Arguments<'_>, context: &mut Context<'_>) -> Result<Instruction, Violation> {
    let (dst, src) = (arguments.view("dst")?, arguments.view("src")?);
    search::check_searched(context, src, "src")?;
    search::check_eight(context, dst, "dst", src.partitions())?;
    let mut instruction = Instruction::new(Opcode::Max8, Engine::Vector);
    context.writes(&mut instruction, 0, dst);
    context.reads(&mut instruction, 1, src);
    Ok(instruction)
}

/// Whether `a` comes before `b`.
fn is_larger(a: f32, b: f32) -> bool {
    a > b || (a.is_nan() && !b.is_nan())
}

fn largest(values: &[f32]) -> [f32; EIGHT] {
    let mut kept = [f32::NEG_INFINITY; EIGHT];
    kept.copy_from_slice(&values[..EIGHT]);
    // Stable: among equal values the earlier one stays first.
    kept.sort_by(|a, b| is_larger(*b, *a).cmp(&is_larger(*a, *b)));
    for &value in &values[EIGHT..] {
        if !is_larger(value, kept[EIGHT - 1]) {
            continue;
        }
        let mut at = EIGHT - 1;
        while at > 0 && is_larger(value, kept[at - 1]) {
            kept[at] = kept[at - 1];
            at -= 1;
        }
        kept[at] = value;
    }
    kept.map(canonical)
}

fn execute(instruction: &Instruction, machine: &mut Machine<'_>) -> Result<(), Violation> {
    let [dst, src, ..] = instruction.operands;
    let mut values = std::mem::take(&mut machine.scratch.tile);
    machine.read_all(&src, &mut values);
    let row = machine.tables.geometry(&src).row_elements();
    let out: Vec<f32> = values.chunks_exact(row).flat_map(largest).collect();
    let cast = machine.options.cast;
    machine.with_written(&dst, |_, tile| tile.write_f32(0, &out, cast));
    machine.scratch.tile = values;
    Ok(())
}

fn cost(instruction: &Instruction, tables: &Tables<'_>, target: &Target) -> Cost {
    search::cost_of(instruction, 1, tables, target)
}
