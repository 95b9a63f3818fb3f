//! RowsByIndex named by an index: the leading coordinate of an HBM view comes from a tile of row numbers (`vector_offset`).

use crate::context::broken;
use crate::dma::issue::{self, SCATTER};
use crate::instruction::{Instruction, Operand};
use crate::machine::Machine;
use crate::rules::Rule;
use trn3_mem::{Dim, Geometry, Space, View, Violation};
use trn3_num::Dtype;

pub(super) const INDEX: Rule = Rule {
    id: "dma.index",
    text: "vector_offset is a (P, 1) tile of int32 or uint32 in SBUF, one index a row, and the other side is in SBUF or HBM",
    source: "nki/deep-dives/nki-aps.rst",
    fix: "give one index for each row of the pattern",
};
pub(super) const INDEX_BOUNDS: Rule = Rule {
    id: "dma.index_bounds",
    text: "a row index lies inside the tensor, unless oob_mode.skip",
    source: "nki/api/nki/isa/__init__.py, dma_copy",
    fix: "check the indices, or use oob_mode.skip",
};

/// Checks that a view by index has one row number for each of its rows.
pub(super) fn check_index(view: &View, name: &'static str) -> Result<(), Violation> {
    let Some(index) = &view.index else { return Ok(()) };
    let rows = view.dims[0].count;
    let words = matches!(index.dtype, Dtype::Int32 | Dtype::Uint32);
    if words && index.space == Space::Sbuf && index.elements() == u64::from(rows) {
        return Ok(());
    }
    let value = format!("has indices {} {:?} in {}", index.dtype.name(), index.shape().as_slice(), index.space.name());
    Err(broken(&INDEX, name, value, format!("must be int32 or uint32 ({rows}, 1) in sbuf")))
}

/// The rows of an operand by index, when the instruction runs.
pub(super) struct RowsByIndex {
    /// Row numbers, in the order of the pattern's rows.
    pub numbers: Vec<u32>,
    /// The operand's own geometry, of which the leading stride means nothing.
    geometry: Geometry,
    /// Elements between two rows of the tensor.
    stride: i64,
    /// RowsByIndex and elements of the tensor.
    limit: u32,
    elements: i64,
    /// Lowest and highest element of a row of the pattern, from its start.
    reach: (i64, i64),
    name: &'static str,
    skips: bool,
}

impl RowsByIndex {
    /// Those of `operand`, with the numbers in the tile `index` in its order.
    pub(super) fn new(
        instruction: &Instruction,
        machine: &Machine<'_>,
        operand: &Operand,
        index: &Operand,
    ) -> RowsByIndex {
        let tile = machine.tile(index);
        let mut numbers = vec![0; tile.geometry.elements()];
        tile.read_words(0, &mut numbers);
        let tensor = machine.tables.tensor(operand);
        let geometry = machine.tables.geometry(operand);
        let size = geometry.dtype.size_bytes();
        let limit = tensor.shape[0];
        let ends = geometry.dims[1..].iter().map(|dim| dim.stride * (i64::from(dim.count) - 1));
        RowsByIndex {
            numbers,
            stride: (tensor.bytes() / u64::from(limit)) as i64 / size as i64,
            limit,
            elements: (tensor.bytes() / size as u64) as i64,
            reach: ends.fold((0, 0), |(low, high), end| (low + end.min(0), high + end.max(0))),
            name: if instruction.flags & SCATTER != 0 { "dst" } else { "src" },
            skips: issue::skips(instruction),
            geometry,
        }
    }

    /// The same with the numbers read column by column from an index tile of so many rows.
    pub(super) fn by_columns(mut self, index_rows: usize) -> RowsByIndex {
        let columns = self.numbers.len() / index_rows;
        let places = (0..columns).flat_map(|column| (0..index_rows).map(move |row| row * columns + column));
        self.numbers = places.map(|place| self.numbers[place]).collect();
        self
    }

    /// Where row `position` of the pattern is: dimensions as the pattern's, with one row. None if it is skipped.
    ///
    /// # Errors
    /// `dma.index_bounds`.
    pub(super) fn row(&self, position: usize) -> Result<Option<Geometry>, Violation> {
        let number = self.numbers[position];
        let start = self.geometry.offset + self.stride * i64::from(number);
        if number < self.limit && start + self.reach.0 >= 0 && start + self.reach.1 < self.elements {
            let mut row = Geometry { offset: start, ..self.geometry.clone() };
            row.dims[0] = Dim { stride: self.stride, count: 1 };
            return Ok(Some(row));
        }
        if self.skips {
            return Ok(None);
        }
        let value = format!("index {position} is {}", number as i32);
        let (limit, elements) = (self.limit, self.elements);
        let reach = format!("the tensor has {limit} rows, {elements} elements; the row starts at element {start}");
        Err(broken(&INDEX_BOUNDS, self.name, value, reach))
    }

    /// Elements of a row.
    pub(super) fn row_elements(&self) -> usize {
        self.geometry.row_elements()
    }
}
