//! Strided tiles as rows of bytes: what the packer reads.
//!
//! A free axis of up to four strided dimensions is reduced to as few as describe it, so that a dense tile is one run of
//! neighbouring elements however its dimensions were written.

use super::Operand;
use std::ops::Range;

/// Dimensions that a free axis may have.
const DIMS_MAX: usize = 4;

/// A flattened free axis, in the fewest dimensions that describe it.
#[derive(Debug, Clone, Copy)]
pub(super) struct Free {
    dims: [(isize, usize); DIMS_MAX],
    len: usize,
}

impl Free {
    /// The axis of those (stride in elements, count), outermost first.
    pub(super) fn of(free: &[(isize, usize)]) -> Free {
        assert!((1..=DIMS_MAX).contains(&free.len()), "a free axis has 1 to {DIMS_MAX} dimensions, not {}", free.len());
        let mut dims = [(1, 1); DIMS_MAX];
        let mut len = 0;
        for &(stride, count) in free.iter().filter(|dim| dim.1 != 1) {
            match dims[..len].last_mut() {
                Some(outer) if outer.0 == stride * count.cast_signed() => *outer = (stride, outer.1 * count),
                _ => {
                    dims[len] = (stride, count);
                    len += 1;
                }
            }
        }
        Free { dims, len: len.max(1) }
    }

    /// Elements in all.
    pub(super) fn count(&self) -> usize {
        self.dims[..self.len].iter().map(|dim| dim.1).product()
    }

    /// Whether the elements are neighbours in memory.
    pub(super) fn is_dense(&self) -> bool {
        self.len == 1 && self.dims[0].0 == 1
    }

    /// The (stride in elements, count) of the innermost dimension.
    fn inner(&self) -> (isize, usize) {
        self.dims[self.len - 1]
    }

    /// Calls `visit(start, count)`, both in elements, for each piece of the innermost dimension that makes up `columns`.
    fn for_each_run(&self, columns: Range<usize>, mut visit: impl FnMut(isize, usize)) {
        let (inner_stride, inner_count) = self.inner();
        let mut column = columns.start;
        while column < columns.end {
            let within = column % inner_count;
            let mut outer = column / inner_count;
            let mut start = within.cast_signed() * inner_stride;
            for &(stride, count) in self.dims[..self.len - 1].iter().rev() {
                start += (outer % count).cast_signed() * stride;
                outer /= count;
            }
            let count = (inner_count - within).min(columns.end - column);
            visit(start, count);
            column += count;
        }
    }

    /// Where each column lies, in elements from the first.
    pub(super) fn offsets(&self, offsets: &mut Vec<isize>) {
        let (stride, _) = self.inner();
        offsets.clear();
        self.for_each_run(0..self.count(), |start, count| {
            offsets.extend((0..count.cast_signed()).map(|index| start + index * stride));
        });
    }
}

/// One piece of a row: so many elements from there.
#[derive(Debug, Clone, Copy)]
struct Run {
    start: isize,
    count: usize,
}

/// The rows of an operand: partition by part by free axis.
#[derive(Debug, Clone, Copy)]
pub(super) struct Rows<'a> {
    bytes: &'a [u8],
    offset_bytes: usize,
    row_stride_bytes: usize,
    part_stride_bytes: isize,
    element_bytes: usize,
    /// Partitions.
    pub(super) rows: usize,
    /// Rows of the contraction that one partition holds: 1, or 2 in double row mode.
    pub(super) parts: usize,
    /// The columns.
    pub(super) free: Free,
}

impl<'a> Rows<'a> {
    /// The rows of `operand`; with more than one part, the outermost free dimension tells them apart.
    pub(super) fn of(operand: &Operand<'a>, parts: usize) -> Rows<'a> {
        let element_bytes = operand.dtype.size_bytes();
        let (part_stride, free) = match (parts, operand.free) {
            (1, free) => (0, free),
            (_, [pair, free @ ..]) if pair.1 == parts => (pair.0, free),
            _ => panic!("double row operands have an outermost free dimension of {parts}"),
        };
        // A double row operand without a further dimension has one column.
        let free = if free.is_empty() { &[(1, 1)][..] } else { free };
        Rows {
            bytes: operand.bytes,
            offset_bytes: operand.offset_bytes,
            row_stride_bytes: operand.row_stride_bytes,
            part_stride_bytes: part_stride * element_bytes.cast_signed(),
            element_bytes,
            rows: operand.rows,
            parts,
            free: Free::of(free),
        }
    }

    /// Rows of single bytes, `rows` of them.
    pub(super) fn of_bytes(
        bytes: &'a [u8],
        offset_bytes: usize,
        row_stride_bytes: usize,
        rows: usize,
        free: Free,
    ) -> Self {
        Rows { bytes, offset_bytes, row_stride_bytes, part_stride_bytes: 0, element_bytes: 1, rows, parts: 1, free }
    }

    /// A reader of `columns`, which gathers into `staging` what is not dense.
    #[inline(always)]
    pub(super) fn reader<'s>(&self, columns: Range<usize>, staging: &'s mut Staging) -> Reader<'a, 's> {
        staging.runs.clear();
        staging.bytes.resize(columns.len() * self.element_bytes, 0);
        if !self.free.is_dense() {
            let runs = &mut staging.runs;
            self.free.for_each_run(columns.clone(), |start, count| runs.push(Run { start, count }));
        }
        Reader { rows: *self, columns, staging }
    }
}

/// Buffers for rows that are not dense in memory.
#[derive(Debug, Default)]
pub(super) struct Staging {
    bytes: Vec<u8>,
    runs: Vec<Run>,
}

/// Reads rows as dense bytes.
#[derive(Debug)]
pub(super) struct Reader<'a, 's> {
    rows: Rows<'a>,
    columns: Range<usize>,
    staging: &'s mut Staging,
}

impl Reader<'_, '_> {
    /// Partitions to read.
    pub(super) fn rows(&self) -> usize {
        self.rows.rows
    }

    /// Rows of the contraction that one partition holds.
    pub(super) fn parts(&self) -> usize {
        self.rows.parts
    }

    /// The elements of that row and part, neighbours.
    #[inline(always)]
    pub(super) fn row(&mut self, row: usize, part: usize) -> &[u8] {
        let rows = &self.rows;
        let base = (rows.offset_bytes + row * rows.row_stride_bytes)
            .checked_add_signed(part.cast_signed() * rows.part_stride_bytes)
            .expect("the operand lies in its memory");
        if rows.free.is_dense() {
            let start = base + self.columns.start * rows.element_bytes;
            return &rows.bytes[start..start + self.columns.len() * rows.element_bytes];
        }
        let stride = rows.free.inner().0;
        let Staging { bytes, runs } = &mut *self.staging;
        match rows.element_bytes {
            1 => gather::<1>(rows.bytes, base, stride, runs, bytes),
            2 => gather::<2>(rows.bytes, base, stride, runs, bytes),
            4 => gather::<4>(rows.bytes, base, stride, runs, bytes),
            size => unreachable!("no operand has elements of {size} bytes"),
        }
        bytes
    }
}

/// Copies the runs, `SIZE` bytes an element, from `base` on.
#[inline(always)]
fn gather<const SIZE: usize>(bytes: &[u8], base: usize, stride: isize, runs: &[Run], out: &mut [u8]) {
    let mut rest = out;
    for run in runs {
        let (piece, after) = rest.split_at_mut(run.count * SIZE);
        rest = after;
        let start = base.checked_add_signed(run.start * SIZE.cast_signed()).expect("the operand lies in its memory");
        if stride == 1 {
            piece.copy_from_slice(&bytes[start..start + piece.len()]);
            continue;
        }
        let mut at = start;
        for element in piece.as_chunks_mut::<SIZE>().0 {
            element.copy_from_slice(&bytes[at..at + SIZE]);
            // Past the last element the address may leave the memory; it is then not used.
            at = at.wrapping_add_signed(stride * SIZE.cast_signed());
        }
    }
}
