//! The arithmetic of the 128 x 128 TensorE array: `nc_matmul` and `nc_matmul_mx` as bytes in, bytes out.
//!
//! Models: `out[m, n] (+)= sum over k of stationary[k, m] * moving[k, n]` in the order of the systolic flow (isa.md 4.3,
//! decisions.md D23). The partial sum of one (m, n) starts at +0 and takes its products with PE row 0 first:
//!
//! - operands whose significand has at most 11 bits (all but FP32): `acc = fl32(acc + s * t)`, the product exact;
//! - FP32 (either operand): `acc = fl32(acc + fl32(s * t))`;
//! - double row: rows count twice, (k, j) with j = 0, 1 innermost;
//! - MX: rows count four times, (p, q) with q = 0..3 innermost, each product times 2^(ss + ms - 254), exact.
//!
//! Then PSUM takes the sum: overwritten, or `fl32(psum + acc)`; a BF16 PSUM rounds the result once more (nearest even).
//!
//! Leaves out: which operands an instruction may pair, tiling, cost, transposition (no arithmetic), stochastic rounding,
//! and the other values of `mm_accum`.
//!
//! Invariants:
//! - an output depends on its own row of `stationary`, its own column of `moving` and the PSUM element only, never on
//!   the blocking: a split over M or N gives the same bits;
//! - a NaN result is 0x7FC00000 (0x7FC0 in BF16), whatever the payloads; subnormals are kept;
//! - AVX-512, AVX2 and portable code, and the array stepped cycle by cycle ([`reference`]), give the same bits.

mod block;
mod fast;
mod layout;
mod pack;
pub mod reference;
#[cfg(test)]
mod tests;

use crate::array::block::Job;
use crate::array::fast::Variant;
use crate::array::layout::{Free, Rows};
use crate::array::pack::{Scales, Source};
use trn3_num::Dtype;

/// PE rows of the array, the longest contraction over partitions.
pub const ROWS_MAX: usize = 128;
/// PE columns of the array, the largest M.
pub const COLUMNS_MAX: usize = 128;
/// The largest N of one instruction (BF16 PSUM).
pub const MOVING_FREE_MAX: usize = 8192;

/// Partitions that share one MX scale.
const GROUP_ROWS: usize = 8;
/// Codes in a packed MX word.
const WORD_CODES: usize = 4;

/// A stationary or moving tile: PE rows by a flattened free axis.
#[derive(Debug, Clone, Copy)]
pub struct Operand<'a> {
    /// The memory that holds the tile.
    pub bytes: &'a [u8],
    /// Type of one element; for `multiply_mx` a packed one.
    pub dtype: Dtype,
    /// Where in `bytes` row 0, free index 0 lies.
    pub offset_bytes: usize,
    /// From one row (partition) to the next.
    pub row_stride_bytes: usize,
    /// Rows (partitions).
    pub rows: usize,
    /// (stride in elements, count), outermost first, one to four dimensions.
    pub free: &'a [(isize, usize)],
}

/// The E8M0 scales of an MX operand (isa.md 5.3).
#[derive(Debug, Clone, Copy)]
pub struct ScaleOperand<'a> {
    /// The memory that holds the scale tile, one byte a scale.
    pub bytes: &'a [u8],
    /// Where in `bytes` the tile's row 0, free index 0 lies.
    pub offset_bytes: usize,
    /// From one row (partition) to the next.
    pub row_stride_bytes: usize,
    /// The row of each quadrant of 32 partitions that holds its first group: 0, 4, 8 or 12.
    pub first_row: usize,
    /// (stride in bytes, count), outermost first, one to four dimensions; as many in all as the data has columns.
    pub free: &'a [(isize, usize)],
}

/// The PSUM tile that an instruction writes: M rows by the flattened N.
#[derive(Debug)]
pub struct Psum<'a> {
    /// The memory that holds the tile.
    pub bytes: &'a mut [u8],
    /// Where in `bytes` row 0, free index 0 lies.
    pub offset_bytes: usize,
    /// From one row (partition) to the next.
    pub row_stride_bytes: usize,
    /// (stride in elements, count), outermost first, one to four dimensions.
    pub free: &'a [(isize, usize)],
    /// FP32 or BF16.
    pub dtype: Dtype,
    /// Whether the sum is added to what PSUM holds, or replaces it.
    pub accumulate: bool,
}

/// How a PE forms and adds its product.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Product {
    /// The product is exact: one rounding a row.
    Fused,
    /// The product is rounded to FP32, then added: two roundings a row.
    Rounded,
}

impl Product {
    /// The product of that pair: rounded as soon as one of them is FP32.
    pub fn of(stationary: Dtype, moving: Dtype) -> Product {
        if stationary == Dtype::Float32 || moving == Dtype::Float32 { Product::Rounded } else { Product::Fused }
    }
}

/// Buffers for packed operands. They grow to what an instruction needs and are used again by the next one; results do
/// not depend on what an earlier one left.
#[derive(Debug, Default)]
pub struct ArrayScratch {
    /// Panels of exact FP32 values, the ordinary case.
    single: block::Panels<f32>,
    /// Panels of FP64 values, for MX scales too large for FP32.
    double: block::Panels<f64>,
    staging: layout::Staging,
    stationary_scales: Vec<u8>,
    moving_scales: Vec<u8>,
    columns: Vec<isize>,
}

impl ArrayScratch {
    /// Empty buffers.
    pub fn new() -> ArrayScratch {
        ArrayScratch::default()
    }
}

/// `nc_matmul`: `psum (+)= stationary^T moving`, one product a PE row.
///
/// # Panics
///
/// If the shapes disagree, are empty or exceed the array, if a dtype is not a float that the array takes, or if a tile
/// leaves its memory; the instruction's rules come first.
pub fn multiply(scratch: &mut ArrayScratch, stationary: &Operand, moving: &Operand, psum: &mut Psum) {
    multiply_on(Variant::best(), scratch, stationary, moving, 1, psum);
}

/// `nc_matmul` in double row mode: the outermost free dimension of both operands counts 2, the row pair, and is not
/// part of M or N.
///
/// # Panics
///
/// As [`multiply`], or if either operand lacks the dimension of 2.
pub fn multiply_double_row(scratch: &mut ArrayScratch, stationary: &Operand, moving: &Operand, psum: &mut Psum) {
    multiply_on(Variant::best(), scratch, stationary, moving, 2, psum);
}

/// `nc_matmul_mx`: `psum (+)= stationary^T moving` over packed words of four codes and their scales.
///
/// # Panics
///
/// As [`multiply`]; also if a dtype is not packed, or if the rows are not a multiple of 8.
pub fn multiply_mx(
    scratch: &mut ArrayScratch,
    stationary: &Operand,
    stationary_scale: &ScaleOperand,
    moving: &Operand,
    moving_scale: &ScaleOperand,
    psum: &mut Psum,
) {
    multiply_mx_on(
        Variant::best(),
        |scales, dtype| scales.are_exact_in_f32(dtype),
        scratch,
        (stationary, stationary_scale),
        (moving, moving_scale),
        psum,
    );
}

fn multiply_on(
    variant: Variant,
    scratch: &mut ArrayScratch,
    stationary: &Operand,
    moving: &Operand,
    row_parts: usize,
    psum: &mut Psum,
) {
    let product = Product::of(stationary.dtype, moving.dtype);
    let stationary = Source { dtype: stationary.dtype, rows: Rows::of(stationary, row_parts), scales: None };
    let moving = Source { dtype: moving.dtype, rows: Rows::of(moving, row_parts), scales: None };
    assert_shapes(&stationary.rows, &moving.rows, psum);
    let job = Job {
        stationary,
        moving,
        panels: &mut scratch.single,
        staging: &mut scratch.staging,
        columns: &mut scratch.columns,
        psum,
    };
    fast::run(variant, product, job);
}

fn multiply_mx_on(
    variant: Variant,
    exact_in_f32: fn(&Scales, Dtype) -> bool,
    scratch: &mut ArrayScratch,
    (stationary, stationary_scale): (&Operand, &ScaleOperand),
    (moving, moving_scale): (&Operand, &ScaleOperand),
    psum: &mut Psum,
) {
    assert!(stationary.dtype.is_packed() && moving.dtype.is_packed(), "nc_matmul_mx takes packed words");
    assert!(stationary.rows.is_multiple_of(GROUP_ROWS), "a scale covers {GROUP_ROWS} partitions");
    let stationary_rows = Rows::of(stationary, 1);
    let moving_rows = Rows::of(moving, 1);
    assert_shapes(&stationary_rows, &moving_rows, psum);
    let stationary_scales =
        Scales::gather(stationary_scale, &stationary_rows, &mut scratch.staging, &mut scratch.stationary_scales);
    let moving_scales = Scales::gather(moving_scale, &moving_rows, &mut scratch.staging, &mut scratch.moving_scales);
    let exact = exact_in_f32(&stationary_scales, stationary.dtype) && exact_in_f32(&moving_scales, moving.dtype);
    let stationary = Source { dtype: stationary.dtype, rows: stationary_rows, scales: Some(stationary_scales) };
    let moving = Source { dtype: moving.dtype, rows: moving_rows, scales: Some(moving_scales) };
    let (staging, columns) = (&mut scratch.staging, &mut scratch.columns);
    if exact {
        let panels = &mut scratch.single;
        fast::run(variant, Product::Fused, Job { stationary, moving, panels, staging, columns, psum });
    } else {
        let panels = &mut scratch.double;
        block::run_exact(Job { stationary, moving, panels, staging, columns, psum });
    }
}

fn assert_shapes(stationary: &Rows, moving: &Rows, psum: &Psum) {
    assert_eq!(stationary.rows, moving.rows, "both operands contract over the same rows");
    assert!((1..=ROWS_MAX).contains(&stationary.rows), "rows {} outside 1..={ROWS_MAX}", stationary.rows);
    let (m, n) = (stationary.free.count(), moving.free.count());
    assert!((1..=COLUMNS_MAX).contains(&m), "stationary free size {m} outside 1..={COLUMNS_MAX}");
    assert!((1..=MOVING_FREE_MAX).contains(&n), "moving free size {n} outside 1..={MOVING_FREE_MAX}");
    assert_eq!(Free::of(psum.free).count(), n, "PSUM takes as many columns as moving has");
    assert!(matches!(psum.dtype, Dtype::Float32 | Dtype::Bfloat16), "PSUM holds FP32 or BF16");
}
