//! What `max8`, `nc_find_index8` and `nc_match_replace8` share: eight values a partition.

use crate::context::{Context, ON_CHIP, broken};
use crate::cost::Cost;
use crate::instruction::Instruction;
use crate::machine::Tables;
use crate::rules::Rule;
use crate::vector::stream_cost;
use trn3_mem::{View, Violation};
use trn3_num::Dtype;
use trn3_spec::Target;

/// Values that are searched for or found.
pub(super) const EIGHT: usize = 8;

pub(super) const ELEMENTS: Rule = Rule {
    id: "search8.elements",
    text: "the searched tile has 8 to 16384 elements a partition and at most 2 free dimensions, the tiles of values 8",
    source: "nki/api/nki/isa/__init__.py, max8, nc_find_index8, nc_match_replace8",
    fix: "search pieces of the tile, and then their results",
};
pub(super) const INDEX: Rule = Rule {
    id: "search8.index",
    text: "indices are uint32 or uint16",
    source: "nki/api/nki/isa/__init__.py, nc_find_index8",
    fix: "declare the tile of indices as nl.uint32",
};

/// Checks the tile that is searched.
pub(super) fn check_searched(context: &mut Context<'_>, view: &View, name: &'static str) -> Result<(), Violation> {
    context.check_tile(view, name, ON_CHIP)?;
    context.check_unpacked(view, name)?;
    let vector = &context.target.core.vector;
    let (low, high) = (u64::from(vector.search_free_min), u64::from(vector.search_free_max));
    if !(low..=high).contains(&view.free_size()) {
        let value = format!("has {} elements a partition", view.free_size());
        return Err(broken(&ELEMENTS, name, value, format!("{low} to {high}")));
    }
    Ok(())
}

/// Checks a tile of eight values or indices a partition.
pub(super) fn check_eight(
    context: &mut Context<'_>,
    view: &View,
    name: &'static str,
    partitions: u32,
) -> Result<(), Violation> {
    context.check_tile(view, name, ON_CHIP)?;
    context.check_unpacked(view, name)?;
    if view.partitions() == partitions && view.free_size() == EIGHT as u64 {
        return Ok(());
    }
    let value = format!("has shape {:?}", view.shape().as_slice());
    Err(broken(&ELEMENTS, name, value, format!("must be ({partitions}, {EIGHT})")))
}

/// Checks the data type of indices.
pub(super) fn check_index(view: &View, name: &'static str) -> Result<(), Violation> {
    if matches!(view.dtype, Dtype::Uint32 | Dtype::Uint16) {
        return Ok(());
    }
    Err(broken(&INDEX, name, format!("is {}", view.dtype.name()), INDEX.text))
}

/// Cycles of a search through the operand of `slot`.
pub(super) fn cost_of(instruction: &Instruction, slot: usize, tables: &Tables<'_>, target: &Target) -> Cost {
    let vector = &target.core.vector;
    let searched = &instruction.operands[slot];
    stream_cost::vector(&[searched], vector.stream.search_cycles_per_element, &vector.other, tables, target)
}
