//! The plain reference: the array stepped cycle by cycle, in integer arithmetic.
//!
//! Models the flow of a systolic array: stationary values stay in the PEs; moving column n enters PE row k from the left
//! at cycle n + k and moves one PE to the right a cycle; partial sums move down one PE a cycle and leave below the last
//! row, so that out[m, n] emerges at cycle n + (rows - 1) + m. PE rows that the operand does not fill pass the sums on.
//!
//! Leaves out how stationary values get there, clock rates and throttling; `neuroncore` has the published timing.
//!
//! Shares no arithmetic with the fast form: codes are decoded by `trn3_num`'s reference, fused additions are exact
//! integer sums rounded once.

use super::{COLUMNS_MAX, GROUP_ROWS, Operand, Product, Psum, ROWS_MAX, ScaleOperand, WORD_CODES};
use trn3_num::{Cast, Dtype, decode, encode};

/// The quiet NaN that the array writes.
const NAN_BITS: u32 = 0x7FC0_0000;
/// The E8M0 codes of 1 and NaN.
const SCALE_ONE: u8 = 127;
const SCALE_NAN: u8 = 0xFF;

/// What a PE holds or receives for one row: up to four values that share a scale.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Word {
    /// FP32 bits of the values.
    values: [u32; WORD_CODES],
    /// How many there are.
    count: usize,
    /// The E8M0 scale of all of them.
    scale: u8,
}

/// A value on its way through the array, and the moving column it belongs to.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
struct Flow<T> {
    column: usize,
    value: T,
}

/// A sum that has left the array.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Output {
    /// Row of the output: the PE column that it left.
    pub m: usize,
    /// Column of the output.
    pub n: usize,
    /// FP32 bits of the sum.
    pub bits: u32,
    /// The cycle at whose end it emerged; the first moving value enters in cycle 0.
    pub cycle: u64,
}

/// The array and the operands of one instruction: spec, then state.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct SystolicArray {
    rows: usize,
    product: Product,
    /// Stationary words, `[k][m]`.
    stationary: Vec<Vec<Word>>,
    /// Moving words, `[k][n]`, as they wait on the left.
    feed: Vec<Vec<Word>>,

    cycle: u64,
    /// The moving word that each PE passes to the right, `[k][m]`.
    moving: Vec<Vec<Option<Flow<Word>>>>,
    /// The partial sum (FP32 bits) that each PE passes down, `[row][m]`.
    sums: Vec<Vec<Option<Flow<u32>>>>,
}

impl SystolicArray {
    /// An array of `rows` PE rows with its stationary words loaded and moving words waiting, both a row a partition.
    pub fn new(rows: usize, product: Product, stationary: Vec<Vec<Word>>, feed: Vec<Vec<Word>>) -> SystolicArray {
        assert!(stationary.len() <= rows && stationary.len() == feed.len());
        let columns = stationary[0].len();
        assert!(columns <= COLUMNS_MAX);
        let moving = vec![vec![None; columns]; stationary.len()];
        let sums = vec![vec![None; columns]; rows];
        SystolicArray { rows, product, stationary, feed, cycle: 0, moving, sums }
    }

    /// One cycle: every PE takes from its neighbours what they held at the end of the last one. Returns what emerged.
    pub fn step(&mut self) -> Vec<Output> {
        let columns = self.stationary[0].len();
        // From the far corner, so that neighbours above and to the left still hold the last cycle's values.
        for row in (0..self.rows).rev() {
            for m in (0..columns).rev() {
                let above = if row == 0 { None } else { self.sums[row - 1][m] };
                self.sums[row][m] = if row < self.feed.len() {
                    let word = if m == 0 { self.enter(row) } else { self.moving[row][m - 1] };
                    self.moving[row][m] = word;
                    word.map(|word| {
                        let sum =
                            if row == 0 { Flow { column: word.column, value: 0 } } else { above.expect("in step") };
                        assert_eq!(sum.column, word.column, "sums and moving values meet in step");
                        let value = process(self.product, sum.value, self.stationary[row][m], word.value);
                        Flow { column: word.column, value }
                    })
                } else {
                    above
                };
            }
        }
        let cycle = self.cycle;
        self.cycle += 1;
        let emerged = self.sums[self.rows - 1].iter().enumerate();
        emerged.filter_map(|(m, sum)| sum.map(|sum| Output { m, n: sum.column, bits: sum.value, cycle })).collect()
    }

    /// Whether sums are still on their way.
    pub fn is_busy(&self) -> bool {
        let columns = self.stationary[0].len();
        let cycles = self.feed[0].len() + (self.rows - 1) + (columns - 1);
        self.cycle < cycles as u64
    }

    /// The moving word that enters that PE row in this cycle.
    fn enter(&self, row: usize) -> Option<Flow<Word>> {
        let column = usize::try_from(self.cycle).expect("few cycles").checked_sub(row)?;
        self.feed[row].get(column).map(|&value| Flow { column, value })
    }
}

/// What one PE does: adds the products of its words to the sum, in order.
fn process(product: Product, sum: u32, stationary: Word, moving: Word) -> u32 {
    let mut sum = f32::from_bits(sum);
    for q in 0..stationary.count {
        let (s, t) = (f32::from_bits(stationary.values[q]), f32::from_bits(moving.values[q]));
        sum = match product {
            Product::Rounded => sum + s * t,
            Product::Fused if stationary.scale == SCALE_NAN || moving.scale == SCALE_NAN => f32::NAN,
            Product::Fused => {
                let exponent = i32::from(stationary.scale) + i32::from(moving.scale) - 2 * i32::from(SCALE_ONE);
                add_product(sum, s, t, exponent)
            }
        };
    }
    sum.to_bits()
}

/// `fl32(sum + s * t * 2^exponent)`, rounded once.
pub(super) fn add_product(sum: f32, s: f32, t: f32, exponent: i32) -> f32 {
    if !(s.is_finite() && t.is_finite() && sum.is_finite()) {
        // No rounding happens where infinities and NaN do; the sign of a finite product is all that matters.
        let product = if s.is_finite() && t.is_finite() { 0.0 } else { s * t };
        return sum + product;
    }
    let (a, b) = (Exact::of(sum), Exact::of(s).times(Exact::of(t), exponent));
    if a.significand == 0 && b.significand == 0 {
        return if a.negative && b.negative { -0.0 } else { 0.0 };
    }
    a.plus(b).round()
}

/// (-1)^negative * significand * 2^exponent.
#[derive(Debug, Clone, Copy)]
struct Exact {
    negative: bool,
    significand: u128,
    exponent: i32,
}

impl Exact {
    /// The finite `value`.
    fn of(value: f32) -> Exact {
        let bits = value.to_bits();
        let field = (bits >> 23 & 0xFF) as i32;
        let mantissa = bits & 0x7F_FFFF;
        let significand = u128::from(if field == 0 { mantissa } else { mantissa | 0x80_0000 });
        Exact { negative: bits >> 31 == 1, significand, exponent: field.max(1) - 150 }
    }

    fn times(self, other: Exact, exponent: i32) -> Exact {
        Exact {
            negative: self.negative != other.negative,
            significand: self.significand * other.significand,
            exponent: self.exponent + other.exponent + exponent,
        }
    }

    /// The sum of two values of at most 48 bits; far below its leading bits, one bit stands for all that are there.
    fn plus(self, other: Exact) -> Exact {
        /// 48 + 78 bits fit.
        const SHIFT_MAX: i32 = 78;
        if self.significand == 0 {
            return other;
        }
        if other.significand == 0 {
            return self;
        }
        let (high, low) = if self.exponent >= other.exponent { (self, other) } else { (other, self) };
        let gap = high.exponent - low.exponent;
        let shift = gap.min(SHIFT_MAX);
        let dropped = (gap - shift).min(127);
        let sticky = u128::from(low.significand & ((1 << dropped) - 1) != 0);
        let high_significand = (high.significand << shift).cast_signed();
        let low_significand = (low.significand >> dropped | sticky).cast_signed();
        let total = if high.negative { -high_significand } else { high_significand }
            + if low.negative { -low_significand } else { low_significand };
        Exact { negative: total < 0, significand: total.unsigned_abs(), exponent: high.exponent - shift }
    }

    /// The nearest FP32 number, ties to even.
    fn round(self) -> f32 {
        let sign = u32::from(self.negative) << 31;
        let bits = (128 - self.significand.leading_zeros()) as i32;
        // The last place of the result.
        let place = (bits + self.exponent - 24).max(-149);
        let dropped = place - self.exponent;
        let significand = if dropped <= 0 {
            self.significand << -dropped
        } else if dropped > bits {
            0
        } else {
            let kept = self.significand >> dropped;
            let rest = self.significand & ((1 << dropped) - 1);
            let half = 1 << (dropped - 1);
            kept + u128::from(rest > half || rest == half && kept & 1 == 1)
        };
        // A carry into the 25th bit raises the exponent by itself: fields are added, the leading bit counts once.
        let field = (place + 149) as u128;
        let code = if significand >> 23 == 0 { significand } else { (field << 23) + significand };
        f32::from_bits(sign | u32::try_from(code).unwrap_or(u32::MAX).min(0x7F80_0000))
    }
}

/// `nc_matmul` by the stepped array of 128 rows. Returns what left it, in that order.
///
/// # Panics
///
/// If shapes disagree or a tile leaves its memory.
pub fn multiply(stationary: &Operand, moving: &Operand, psum: &mut Psum) -> Vec<Output> {
    let words = |operand: &Operand| words(operand, columns(operand.free), |k, n| plain_word(operand, 1, k, n));
    run(Product::of(stationary.dtype, moving.dtype), words(stationary), words(moving), psum)
}

/// `nc_matmul` in double row mode by the stepped array.
///
/// # Panics
///
/// As [`multiply`].
pub fn multiply_double_row(stationary: &Operand, moving: &Operand, psum: &mut Psum) -> Vec<Output> {
    let words = |operand: &Operand| words(operand, columns(operand.free) / 2, |k, n| plain_word(operand, 2, k, n));
    run(Product::of(stationary.dtype, moving.dtype), words(stationary), words(moving), psum)
}

/// `nc_matmul_mx` by the stepped array.
///
/// # Panics
///
/// As [`multiply`].
pub fn multiply_mx(
    stationary: &Operand,
    stationary_scale: &ScaleOperand,
    moving: &Operand,
    moving_scale: &ScaleOperand,
    psum: &mut Psum,
) -> Vec<Output> {
    let words = |operand: &Operand, scale: &ScaleOperand| {
        words(operand, columns(operand.free), |p, f| packed_word(operand, scale, p, f))
    };
    run(Product::Fused, words(stationary, stationary_scale), words(moving, moving_scale), psum)
}

/// Steps the array until nothing moves, then carries out the PSUM step.
fn run(product: Product, stationary: Vec<Vec<Word>>, moving: Vec<Vec<Word>>, psum: &mut Psum) -> Vec<Output> {
    let mut array = SystolicArray::new(ROWS_MAX, product, stationary, moving);
    let mut outputs = Vec::new();
    while array.is_busy() {
        outputs.extend(array.step());
    }
    for output in &outputs {
        store(psum, output);
    }
    outputs
}

/// Overwrites or adds to one element of PSUM.
fn store(psum: &mut Psum, output: &Output) {
    let size = psum.dtype.size_bytes();
    let start = place(psum.offset_bytes, output.m * psum.row_stride_bytes, psum.free, size, output.n);
    let element = &mut psum.bytes[start..start + size];
    let sum = f32::from_bits(output.bits);
    let value = if psum.accumulate { decode(psum.dtype, code(element)) + sum } else { sum };
    let canonical = f32::from_bits(if value.is_nan() { NAN_BITS } else { value.to_bits() });
    let bits = match psum.dtype {
        Dtype::Float32 => canonical.to_bits(),
        _ => encode(Dtype::Bfloat16, canonical, Cast::NEAREST),
    };
    element.copy_from_slice(&bits.to_le_bytes()[..size]);
}

fn words(operand: &Operand, columns: usize, word: impl Fn(usize, usize) -> Word) -> Vec<Vec<Word>> {
    (0..operand.rows).map(|k| (0..columns).map(|n| word(k, n)).collect()).collect()
}

/// The `parts` values of (k, n): all free elements but for the outermost dimension, which tells the parts apart.
fn plain_word(operand: &Operand, parts: usize, k: usize, n: usize) -> Word {
    let columns = columns(operand.free) / parts;
    let mut values = [0; WORD_CODES];
    for (part, value) in values.iter_mut().take(parts).enumerate() {
        let code = read(operand, k, part * columns + n);
        *value = decode(operand.dtype, code).to_bits();
    }
    Word { values, count: parts, scale: SCALE_ONE }
}

/// The four values of the packed word (p, f) and their scale (isa.md 5.1, 5.3).
fn packed_word(operand: &Operand, scale: &ScaleOperand, p: usize, f: usize) -> Word {
    let word = read(operand, p, f);
    let dtype = operand.dtype.unpacked().expect("a packed data type");
    let code_bits = 8 * operand.dtype.size_bytes() / WORD_CODES;
    let values = std::array::from_fn(|q| decode(dtype, word >> (q * code_bits) & ((1 << code_bits) - 1)).to_bits());
    let row = if operand.rows <= 32 {
        scale.first_row + p / GROUP_ROWS
    } else {
        32 * (p / 32) + scale.first_row + (p % 32) / GROUP_ROWS
    };
    let start = place(scale.offset_bytes, row * scale.row_stride_bytes, scale.free, 1, f);
    Word { values, count: WORD_CODES, scale: scale.bytes[start] }
}

/// The code of element `index` of a row.
fn read(operand: &Operand, row: usize, index: usize) -> u32 {
    let size = operand.dtype.size_bytes();
    let start = place(operand.offset_bytes, row * operand.row_stride_bytes, operand.free, size, index);
    code(&operand.bytes[start..start + size])
}

/// The code in those bytes, little endian.
fn code(bytes: &[u8]) -> u32 {
    bytes.iter().rev().fold(0, |code, &byte| code << 8 | u32::from(byte))
}

/// Elements of a free axis.
fn columns(free: &[(isize, usize)]) -> usize {
    free.iter().map(|dim| dim.1).product()
}

/// The byte at which element `index` of a strided free axis starts.
fn place(offset_bytes: usize, row_bytes: usize, free: &[(isize, usize)], size: usize, index: usize) -> usize {
    let mut rest = index;
    let mut elements = 0;
    for &(stride, count) in free.iter().rev() {
        elements += (rest % count).cast_signed() * stride;
        rest /= count;
    }
    (offset_bytes + row_bytes).checked_add_signed(elements * size.cast_signed()).expect("inside the memory")
}
