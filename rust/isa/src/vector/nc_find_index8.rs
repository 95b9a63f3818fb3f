//! `nc_find_index8`: where eight values of each partition stand.

use super::search::{self, EIGHT, ELEMENTS, INDEX};
use crate::arguments::{Arguments, Parameter, Use};
use crate::context::Context;
use crate::cost::Cost;
use crate::instruction::{Engine, Instruction};
use crate::machine::{Machine, Tables};
use crate::table::{Definition, Exactness, Kind, Opcode, every_row, no_work};
use trn3_mem::Violation;
use trn3_spec::Target;

/// The table's entry.
pub const DEFINITION: Definition = Definition {
    name: "nc_find_index8",
    doc: "The index of the first occurrence of each of eight values in its partition.\n\n\
        Equal values take successive occurrences, the first of them the first one; a value that is not there gives all \
        ones. Compared as FP32: NaN is nowhere, and zeros of both signs are equal.",
    source: "nki/api/nki/isa/__init__.py, nc_find_index8; release-notes/components/nki.rst (0.6.0)",
    kind: Kind::Compute,
    engines: &[Engine::Vector],
    parameters: &[
        Parameter { name: "dst", default: None, usage: Use::Write, doc: "(P, 8), uint32 or uint16." },
        Parameter { name: "data", default: None, usage: Use::Read, doc: "SBUF or PSUM, (P, F), F from 8 to 16384." },
        Parameter { name: "vals", default: None, usage: Use::Read, doc: "SBUF or PSUM, (P, 8)." },
    ],
    rules: &[ELEMENTS, INDEX],
    exactness: Exactness::BitExact,
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
    search::check_eight(context, dst, "dst", data.partitions())?;
    search::check_index(dst, "dst")?;
    let mut instruction = Instruction::new(Opcode::NcFindIndex8, Engine::Vector);
    context.writes(&mut instruction, 0, dst);
    context.reads(&mut instruction, 1, data);
    context.reads(&mut instruction, 2, vals);
    Ok(instruction)
}

fn hides_nan(_: &Instruction) -> bool {
    true
}

/// Positions of `vals` in `data`, taken in the order of `slots`; all ones for a value that is not there.
pub(super) fn positions(data: &[f32], vals: &[f32], slots: impl Iterator<Item = usize> + Clone) -> [u32; EIGHT] {
    let mut found = [u32::MAX; EIGHT];
    let mut left = EIGHT;
    for (at, value) in data.iter().enumerate() {
        if left == 0 {
            break;
        }
        if !vals.contains(value) {
            continue;
        }
        if let Some(slot) = slots.clone().find(|&slot| found[slot] == u32::MAX && vals[slot] == *value) {
            found[slot] = at as u32;
            left -= 1;
        }
    }
    found
}

fn execute(instruction: &Instruction, machine: &mut Machine<'_>) -> Result<(), Violation> {
    let [dst, data, vals, ..] = instruction.operands;
    let (mut searched, mut values) = (Vec::new(), Vec::new());
    machine.read_all(&data, &mut searched);
    machine.read_all(&vals, &mut values);
    let row = machine.tables.geometry(&data).row_elements();
    let rows = searched.chunks_exact(row).zip(values.chunks_exact(EIGHT));
    let out: Vec<u32> = rows.flat_map(|(row, vals)| positions(row, vals, 0..EIGHT)).collect();
    machine.with_written(&dst, |_, tile| tile.write_words(0, &out));
    Ok(())
}

fn cost(instruction: &Instruction, tables: &Tables<'_>, target: &Target) -> Cost {
    search::cost_of(instruction, 1, tables, target)
}
