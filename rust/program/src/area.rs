//! Boxes of bytes: what an access touches, for dependencies and for tensors that overlap.

use trn3_isa::{Operand, Tables};
use trn3_mem::TensorInfo;

/// Rows (partitions, or rows of an HBM tensor) by bytes within a row.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Area {
    pub(crate) rows: (u64, u64),
    pub(crate) bytes: (u64, u64),
}

impl Area {
    pub(crate) fn meets(&self, other: &Area) -> bool {
        self.rows.0 < other.rows.1
            && other.rows.0 < self.rows.1
            && self.bytes.0 < other.bytes.1
            && other.bytes.0 < self.bytes.1
    }

    pub(crate) fn contains(&self, other: &Area) -> bool {
        self.rows.0 <= other.rows.0
            && other.rows.1 <= self.rows.1
            && self.bytes.0 <= other.bytes.0
            && other.bytes.1 <= self.bytes.1
    }

    /// The same in a tensor's memory, where the tensor starts at a partition and a byte.
    pub(crate) fn at(&self, (partition, byte): (u32, u32)) -> Area {
        let (partition, byte) = (u64::from(partition), u64::from(byte));
        Area {
            rows: (self.rows.0 + partition, self.rows.1 + partition),
            bytes: (self.bytes.0 + byte, self.bytes.1 + byte),
        }
    }

    /// What two areas that meet have in common.
    pub(crate) fn common(&self, other: &Area) -> Area {
        let common = |a: (u64, u64), b: (u64, u64)| (a.0.max(b.0), a.1.min(b.1));
        Area { rows: common(self.rows, other.rows), bytes: common(self.bytes, other.bytes) }
    }

    /// The smallest area that holds both.
    pub(crate) fn hull(&self, other: &Area) -> Area {
        let hull = |a: (u64, u64), b: (u64, u64)| (a.0.min(b.0), a.1.max(b.1));
        Area { rows: hull(self.rows, other.rows), bytes: hull(self.bytes, other.bytes) }
    }

    /// Both areas as one, if they lie side by side.
    pub(crate) fn joined(&self, other: &Area) -> Option<Area> {
        let touch = |a: (u64, u64), b: (u64, u64)| a.1 == b.0 || b.1 == a.0;
        let joins = self.rows == other.rows && touch(self.bytes, other.bytes)
            || self.bytes == other.bytes && touch(self.rows, other.rows);
        joins.then(|| self.hull(other))
    }

    /// What is left of it without another that it meets: above, below, left and right of that.
    pub(crate) fn without(&self, hole: &Area) -> impl Iterator<Item = Area> + use<> {
        let inner = self.common(hole);
        let pieces = [
            Area { rows: (self.rows.0, inner.rows.0), bytes: self.bytes },
            Area { rows: (inner.rows.1, self.rows.1), bytes: self.bytes },
            Area { rows: inner.rows, bytes: (self.bytes.0, inner.bytes.0) },
            Area { rows: inner.rows, bytes: (inner.bytes.1, self.bytes.1) },
        ];
        pieces.into_iter().filter(|area| area.rows.0 < area.rows.1 && area.bytes.0 < area.bytes.1)
    }

    /// Every byte of a tensor: what an operand may touch whose place is not known while recording.
    pub(crate) fn all(info: &TensorInfo) -> Area {
        let row = row_bytes(info);
        Area { rows: (0, info.bytes().div_ceil(row)), bytes: (0, row) }
    }

    /// The area that an operand touches, and whether it touches all of it. Everything is counted in bytes, so that
    /// views of different data types can be held against each other.
    pub(crate) fn of(operand: &Operand, tables: &Tables<'_>) -> (Area, bool) {
        let row = row_bytes(tables.tensor(operand));
        let pattern = tables.pattern(operand);
        let size = pattern.dtype.size_bytes() as u64;
        let (mut rows, mut reach, mut bytes) = (0u64, 0u64, size);
        let mut exact = true;
        let mut offset = operand.offset as u64 * size;
        for dim in pattern.dims.iter().filter(|dim| dim.count > 1) {
            let stride = dim.stride.unsigned_abs() * size;
            let distance = stride * (u64::from(dim.count) - 1);
            bytes = bytes.saturating_mul(u64::from(dim.count));
            if dim.stride < 0 {
                // The area is counted from the lowest element, which a negative stride reaches last.
                offset -= distance;
            }
            if stride.is_multiple_of(row) {
                rows += distance / row;
            } else {
                reach += distance;
            }
            exact &= dim.stride > 0;
        }
        let (first_row, first) = (offset / row, offset % row);
        let end = first + reach + size;
        if end > row {
            let last_row = (offset + rows * row + reach + size - 1) / row;
            return (Area { rows: (first_row, last_row + 1), bytes: (0, row) }, false);
        }
        let area = Area { rows: (first_row, first_row + rows + 1), bytes: (first, end) };
        (area, exact && bytes == (rows + 1) * (reach + size))
    }
}

/// Bytes of a partition, or of the last dimension of an HBM tensor.
pub(crate) fn row_bytes(info: &TensorInfo) -> u64 {
    if info.space.is_on_chip() {
        return info.partition_bytes().max(1);
    }
    u64::from(*info.shape.last().expect("tensors have a dimension")) * info.dtype.size_bytes() as u64
}
