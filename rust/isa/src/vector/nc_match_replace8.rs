//! `nc_match_replace8`: eight values of each partition replaced where they first stand.

use super::nc_find_index8::positions;
use super::search::{self, EIGHT, ELEMENTS, INDEX};
use crate::arguments::{Arguments, Parameter, Use};
use crate::context::{Context, ON_CHIP};
use crate::cost::Cost;
use crate::instruction::{Engine, Instruction};
use crate::machine::{Machine, Tables};
use crate::table::{Definition, Exactness, Kind, Opcode, every_row, no_work};
use trn3_mem::Violation;
use trn3_spec::Target;

/// The table's entry.
pub const DEFINITION: Definition = Definition {
    name: "nc_match_replace8",
    doc: "A copy of ``data`` in which the first occurrence of each of eight values is ``imm``; ``dst_idx`` gets where.\n\n\
        The values are taken from the last to the first: among equal ones the first occurrence goes to the last slot. A \
        value that is not there replaces nothing and gives all ones (not published).",
    source: "nki/api/nki/isa/__init__.py, nc_match_replace8; release-notes/components/nki.rst (0.6.0)",
    kind: Kind::Compute,
    engines: &[Engine::Vector],
    parameters: &[
        Parameter { name: "dst", default: None, usage: Use::Write, doc: "SBUF or PSUM, (P, F), any type." },
        Parameter { name: "data", default: None, usage: Use::Read, doc: "SBUF or PSUM, (P, F), F from 8 to 16384." },
        Parameter { name: "vals", default: None, usage: Use::Read, doc: "SBUF or PSUM, (P, 8)." },
        Parameter { name: "imm", default: None, usage: Use::Constant, doc: "What comes in their place." },
        Parameter { name: "dst_idx", default: Some("None"), usage: Use::Write, doc: "(P, 8), uint32 or uint16." },
    ],
    rules: &[ELEMENTS, INDEX],
    exactness: Exactness::Modelled,
    build,
    execute,
    hides_nan,
    rows: every_row,
    cost,
    work: no_work,
};

fn build(arguments: &Arguments<'_>, context: &mut Context<'_>) -> Result<Instruction, Violation> {
    let (dst, data, vals) = (arguments.view("dst")?, arguments.view("data")?, arguments.view("vals")?);
    search::check_searched(context, data, "data")?;
    search::check_eight(context, vals, "vals", data.partitions())?;
    context.check_tile(dst, "dst", ON_CHIP)?;
    context.check_unpacked(dst, "dst")?;
    context.check_same_shape(dst, "dst", data, "data")?;
    let mut instruction = Instruction::new(Opcode::NcMatchReplace8, Engine::Vector);
    context.writes(&mut instruction, 0, dst);
    context.reads(&mut instruction, 1, data);
    context.reads(&mut instruction, 2, vals);
    if let Some(index) = arguments.view_or_none("dst_idx")? {
        search::check_eight(context, index, "dst_idx", data.partitions())?;
        search::check_index(index, "dst_idx")?;
        context.writes(&mut instruction, 3, index);
    }
    instruction.constants[0] = (arguments.number("imm")? as f32).to_bits();
    Ok(instruction)
}

fn hides_nan(_: &Instruction) -> bool {
    true
}

fn execute(instruction: &Instruction, machine: &mut Machine<'_>) -> Result<(), Violation> {
    let [dst, data, vals, index, _] = instruction.operands;
    let (mut searched, mut values) = (Vec::new(), Vec::new());
    machine.read_all(&data, &mut searched);
    machine.read_all(&vals, &mut values);
    let row = machine.tables.geometry(&data).row_elements();
    let replacement = f32::from_bits(instruction.constants[0]);
    let mut found = Vec::with_capacity(values.len());
    for (row, vals) in searched.chunks_exact_mut(row).zip(values.chunks_exact(EIGHT)) {
        let places = positions(row, vals, (0..EIGHT).rev());
        for &place in places.iter().filter(|&&place| place != u32::MAX) {
            row[place as usize] = replacement;
        }
        found.extend(places);
    }
    let cast = machine.options.cast;
    machine.with_written(&dst, |_, tile| tile.write_f32(0, &searched, cast));
    if index.is_some() {
        machine.with_written(&index, |_, tile| tile.write_words(0, &found));
    }
    Ok(())
}

fn cost(instruction: &Instruction, tables: &Tables<'_>, target: &Target) -> Cost {
    search::cost_of(instruction, 1, tables, target)
}
