//! Blocking: which panels the microkernel multiplies, and what PSUM takes from its tiles.
//!
//! The whole contraction of a tile runs in one go, because its order is the model. Moving columns are packed a chunk at
//! a time, so that a chunk and the stationary panels stay in the caches.

use super::Psum;
use super::layout::{Free, Staging};
use super::pack::{Source, Value};
use std::ops::Range;
use trn3_num::Dtype;

/// Stationary columns (rows of the output) of a tile.
pub(super) const TILE_M: usize = 8;
/// Moving columns (columns of the output) of a tile.
pub(super) const TILE_N: usize = 32;

/// The sums of one tile, row by row.
pub(super) type Tile = [[f32; TILE_N]; TILE_M];

/// Values of moving panels packed at a time: 128 KiB of FP32.
const CHUNK_VALUES: usize = 32 * 1024;
/// Values between panels, so that they do not all fall on the same cache sets; also the alignment of panels.
const PANEL_GAP: usize = 16;
/// Bytes in a cache line.
const LINE_BYTES: usize = 64;
/// The quiet NaN that the array writes.
const NAN_BITS: u32 = 0x7FC0_0000;

/// Buffers for packed operands.
#[derive(Debug, Default)]
pub(super) struct Panels<T> {
    stationary: Vec<T>,
    moving: Vec<T>,
}

/// One matrix multiplication.
pub(super) struct Job<'a, 'p, T> {
    pub(super) stationary: Source<'a>,
    pub(super) moving: Source<'a>,
    pub(super) panels: &'a mut Panels<T>,
    pub(super) staging: &'a mut Staging,
    /// Buffer for the places of PSUM columns.
    pub(super) columns: &'a mut Vec<isize>,
    pub(super) psum: &'a mut Psum<'p>,
}

/// Runs `job` with a microkernel `multiply(stationary panel, moving panel, tile, columns)`, of which only that many
/// columns of the tile are wanted.
///
/// Always inlined, so that packing and storing are compiled for the microkernel's instruction set.
#[inline(always)]
pub(super) fn run<T: Value>(job: Job<'_, '_, T>, multiply: impl Fn(&[T], &[T], &mut Tile, usize)) {
    let Job { stationary, moving, panels, staging, columns, psum } = job;
    let contraction = stationary.contraction();
    let (m_count, n_count) = (stationary.columns(), moving.columns());

    let stationary_stride = contraction * TILE_M + PANEL_GAP;
    let stationary_values = aligned(&mut panels.stationary, m_count.div_ceil(TILE_M) * stationary_stride);
    stationary.pack::<T, TILE_M>(0..m_count, staging, stationary_stride, stationary_values);

    let moving_stride = contraction * TILE_N + PANEL_GAP;
    let chunk_columns = (CHUNK_VALUES / contraction).next_multiple_of(TILE_N);
    let chunk_panels = chunk_columns.min(n_count.next_multiple_of(TILE_N)) / TILE_N;
    let moving_values = aligned(&mut panels.moving, chunk_panels * moving_stride);

    let store = Store::of(psum, columns);
    let mut tile = [[0.0; TILE_N]; TILE_M];
    for chunk in (0..n_count).step_by(chunk_columns) {
        let chunk_end = (chunk + chunk_columns).min(n_count);
        moving.pack::<T, TILE_N>(chunk..chunk_end, staging, moving_stride, moving_values);
        for (moving_panel, n) in moving_values.chunks(moving_stride).zip((chunk..chunk_end).step_by(TILE_N)) {
            for (stationary_panel, m) in stationary_values.chunks(stationary_stride).zip((0..m_count).step_by(TILE_M)) {
                let stationary_panel = &stationary_panel[..contraction * TILE_M];
                let moving_panel = &moving_panel[..contraction * TILE_N];
                let m_end = (m + TILE_M).min(m_count);
                let n_end = (n + TILE_N).min(chunk_end);
                multiply(stationary_panel, moving_panel, &mut tile, n_end - n);
                store.tile(psum, &tile, m..m_end, n..n_end);
            }
        }
    }
}

/// Runs `job` with exact products that FP32 cannot hold.
pub(super) fn run_exact(job: Job<'_, '_, f64>) {
    run(job, |stationary, moving, tile, _| {
        *tile = [[0.0; TILE_N]; TILE_M];
        for (s, t) in stationary.as_chunks::<TILE_M>().0.iter().zip(moving.as_chunks::<TILE_N>().0) {
            for (sums, &s) in tile.iter_mut().zip(s) {
                for (sum, &t) in sums.iter_mut().zip(t) {
                    *sum = add_exact(*sum, s * t);
                }
            }
        }
    });
}

/// `fl32(sum + product)`, rounded once, for a product of at most 22 significant bits, as two 11-bit significands give.
///
/// Rounding to FP64 first does no harm. Where the FP64 sum is inexact, its terms span more than 53 bits, so the smaller
/// one, of at most 24 bits, is below 2^-28 of the larger. The larger one is an FP32 number (a product off FP32's
/// subnormal grid is never that far from a sum on it), the nearest tie is 2^-25 of it away or more, and both roundings
/// end at that number.
#[inline(always)]
pub(super) fn add_exact(sum: f32, product: f64) -> f32 {
    (f64::from(sum) + product) as f32
}

/// `len` values of `buffer`, from the start of a cache line on.
fn aligned<T: Value>(buffer: &mut Vec<T>, len: usize) -> &mut [T] {
    let padded = len + LINE_BYTES / size_of::<T>();
    if buffer.len() < padded {
        buffer.resize(padded, T::default());
    }
    let start = buffer.as_ptr().align_offset(LINE_BYTES).min(padded - len);
    &mut buffer[start..start + len]
}

/// How sums go to PSUM.
struct Store<'c> {
    /// Where each column lies, in elements; not used when they are neighbours.
    columns: &'c [isize],
    dense: bool,
}

impl<'c> Store<'c> {
    fn of(psum: &Psum, columns: &'c mut Vec<isize>) -> Store<'c> {
        let free = Free::of(psum.free);
        let dense = free.is_dense();
        if !dense {
            free.offsets(columns);
        }
        Store { columns, dense }
    }

    /// Adds or writes the sums of rows `m` and columns `n`.
    #[inline(always)]
    fn tile(&self, psum: &mut Psum, tile: &Tile, m: Range<usize>, n: Range<usize>) {
        match (psum.dtype, psum.accumulate) {
            (Dtype::Float32, false) => self.rows::<4>(psum, tile, m, n, |_, sum| canonical(sum).to_le_bytes()),
            (Dtype::Float32, true) => {
                self.rows::<4>(psum, tile, m, n, |old, sum| canonical(f32::from_le_bytes(old) + sum).to_le_bytes());
            }
            (_, false) => self.rows::<2>(psum, tile, m, n, |_, sum| bfloat16(sum).to_le_bytes()),
            (_, true) => self.rows::<2>(psum, tile, m, n, |old, sum| {
                let old = f32::from_bits(u32::from(u16::from_le_bytes(old)) << 16);
                bfloat16(old + sum).to_le_bytes()
            }),
        }
    }

    /// Replaces each element by `merge(element, sum)`.
    #[inline(always)]
    fn rows<const SIZE: usize>(
        &self,
        psum: &mut Psum,
        tile: &Tile,
        m: Range<usize>,
        n: Range<usize>,
        merge: impl Fn([u8; SIZE], f32) -> [u8; SIZE],
    ) {
        for (m, sums) in m.zip(tile) {
            let base = psum.offset_bytes + m * psum.row_stride_bytes;
            if self.dense {
                let row = &mut psum.bytes[base + n.start * SIZE..base + n.end * SIZE];
                for (element, &sum) in row.as_chunks_mut::<SIZE>().0.iter_mut().zip(sums) {
                    *element = merge(*element, sum);
                }
                continue;
            }
            for (&column, &sum) in self.columns[n.clone()].iter().zip(sums) {
                let at = base.checked_add_signed(column * SIZE.cast_signed()).expect("PSUM tile lies in its memory");
                let element = psum.bytes[at..].first_chunk_mut::<SIZE>().expect("PSUM tile lies in its memory");
                *element = merge(*element, sum);
            }
        }
    }
}

/// `value`, every NaN the same.
#[inline(always)]
fn canonical(value: f32) -> f32 {
    f32::from_bits(if value.is_nan() { NAN_BITS } else { value.to_bits() })
}

/// The BF16 code nearest to `value`, ties to even, every NaN the same.
#[inline(always)]
fn bfloat16(value: f32) -> u16 {
    let bits = value.to_bits();
    let rounded = bits.wrapping_add(0x7FFF + (bits >> 16 & 1));
    (if value.is_nan() { NAN_BITS } else { rounded } >> 16) as u16
}
