//! The fast form against the stepped array, bit for bit, and both against what is known of the arithmetic.

use super::fast::Variant;
use super::pack::Scales;
use super::*;
use proptest::prelude::*;
use trn3_num::{Cast, decode, encode};

const FUSED_TYPES: [Dtype; 7] = [
    Dtype::Tfloat32,
    Dtype::Bfloat16,
    Dtype::Float16,
    Dtype::Float8E5m2,
    Dtype::Float8E4m3,
    Dtype::Float8E4m3fn,
    Dtype::Bfloat16,
];
const FP8_TYPES: [Dtype; 3] = [Dtype::Float8E5m2, Dtype::Float8E4m3, Dtype::Float8E4m3fn];
const PACKED_TYPES: [Dtype; 3] = [Dtype::Float8E5m2X4, Dtype::Float8E4m3fnX4, Dtype::Float4E2m1fnX4];

/// SplitMix64.
struct Random(u64);

impl Random {
    fn next(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9E37_79B9_7F4A_7C15);
        let mut z = self.0;
        z = (z ^ z >> 30).wrapping_mul(0xBF58_476D_1CE4_E5B9);
        z = (z ^ z >> 27).wrapping_mul(0x94D0_49BB_1331_11EB);
        z ^ z >> 31
    }

    fn below(&mut self, limit: usize) -> usize {
        (self.next() % limit as u64) as usize
    }

    fn pick<T: Copy>(&mut self, values: &[T]) -> T {
        values[self.below(values.len())]
    }

    /// Uniform in [-1, 1).
    fn unit(&mut self) -> f32 {
        (self.next() >> 40) as f32 / (1 << 23) as f32 - 1.0
    }
}

/// Which values a test draws.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Values {
    /// Of magnitude 1 and below.
    Ordinary,
    /// Any finite code: huge, subnormal, zeros of either sign.
    Finite,
    /// Any finite code, and now and then an infinity or a NaN.
    Any,
}

/// A code of `dtype`, or a word of four.
fn draw(random: &mut Random, dtype: Dtype, values: Values) -> u32 {
    if let Some(code) = dtype.unpacked() {
        let bits = 8 * dtype.size_bytes() / 4;
        return (0..4).fold(0, |word, q| word | (draw(random, code, values) & ((1 << bits) - 1)) << (q * bits));
    }
    if values == Values::Ordinary {
        let value = random.unit();
        return encode(dtype, value, Cast::NEAREST);
    }
    loop {
        let code = (random.next() as u32) & (u32::MAX >> (32 - 8 * dtype.size_bytes()));
        if decode(dtype, code).is_finite() || values == Values::Any && random.below(50) == 0 {
            return code;
        }
    }
}

/// A strided tile in memory of its own.
struct Tile {
    bytes: Vec<u8>,
    dtype: Dtype,
    offset_bytes: usize,
    row_stride_bytes: usize,
    rows: usize,
    free: Vec<(isize, usize)>,
}

impl Tile {
    /// `rows` rows of `columns` in a random layout; `writable` elements do not overlap.
    fn new(
        random: &mut Random,
        dtype: Dtype,
        rows: usize,
        lead: Option<usize>,
        columns: usize,
        writable: bool,
    ) -> Tile {
        let mut counts = Vec::new();
        let mut rest = columns;
        for _ in 0..random.below(if lead.is_some() { 3 } else { 4 }) {
            let divisors: Vec<usize> = (1..=rest).filter(|d| rest.is_multiple_of(*d)).collect();
            let count = random.pick(&divisors);
            counts.push(count);
            rest /= count;
        }
        counts.push(rest);
        counts.reverse();
        counts.splice(0..0, lead);
        let dense = random.below(3) == 0;
        let mut free = Vec::new();
        let mut extent = 1_isize;
        for &count in counts.iter().rev() {
            let step = if dense { extent } else { extent * (1 + random.below(3) as isize) };
            let stride = match random.below(6) {
                0 if !dense => -step,
                1 if !dense && !writable => 0,
                _ => step,
            };
            free.push((stride, count));
            extent = step * count as isize;
        }
        free.reverse();
        let lowest: isize = free.iter().map(|&(stride, count)| stride.min(0) * (count as isize - 1)).sum();
        let highest: isize = free.iter().map(|&(stride, count)| stride.max(0) * (count as isize - 1)).sum();
        let size = dtype.size_bytes();
        let lead_bytes = random.below(9);
        let span = (highest - lowest) as usize * size + size;
        let row_stride_bytes = span + random.below(70);
        let offset_bytes = lead_bytes + lowest.unsigned_abs() * size;
        let bytes = vec![0; lead_bytes + (rows - 1) * row_stride_bytes + span];
        Tile { bytes, dtype, offset_bytes, row_stride_bytes, rows, free }
    }

    /// Draws a value for every element.
    fn fill(mut self, random: &mut Random, values: Values) -> Tile {
        let size = self.dtype.size_bytes();
        let mut offsets = Vec::new();
        Free::of(&self.free).offsets(&mut offsets);
        for row in 0..self.rows {
            for &offset in &offsets {
                let at = (self.offset_bytes + row * self.row_stride_bytes).wrapping_add_signed(offset * size as isize);
                let code = draw(random, self.dtype, values);
                self.bytes[at..at + size].copy_from_slice(&code.to_le_bytes()[..size]);
            }
        }
        self
    }

    fn operand(&self) -> Operand<'_> {
        Operand {
            bytes: &self.bytes,
            dtype: self.dtype,
            offset_bytes: self.offset_bytes,
            row_stride_bytes: self.row_stride_bytes,
            rows: self.rows,
            free: &self.free,
        }
    }

    fn scale(&self, first_row: usize) -> ScaleOperand<'_> {
        ScaleOperand {
            bytes: &self.bytes,
            offset_bytes: self.offset_bytes,
            row_stride_bytes: self.row_stride_bytes,
            first_row,
            free: &self.free,
        }
    }

    fn psum<'a>(&'a self, bytes: &'a mut [u8], accumulate: bool) -> Psum<'a> {
        Psum {
            bytes,
            offset_bytes: self.offset_bytes,
            row_stride_bytes: self.row_stride_bytes,
            free: &self.free,
            dtype: self.dtype,
            accumulate,
        }
    }
}

/// A PSUM tile with values, in a random layout or dense.
fn psum_tile(random: &mut Random, m: usize, n: usize, values: Values) -> Tile {
    let dtype = random.pick(&[Dtype::Float32, Dtype::Bfloat16]);
    Tile::new(random, dtype, m, None, n, true).fill(random, values)
}

/// Every variant that this machine runs.
fn variants() -> impl Iterator<Item = Variant> {
    Variant::ALL.into_iter().filter(|variant| variant.is_available())
}

fn sizes(random: &mut Random) -> (usize, usize, usize) {
    match random.below(8) {
        0 => (128, 1 + random.below(128), 1 + random.below(40)),
        1 => (1 + random.below(128), 1 + random.below(20), 1 + random.below(300)),
        _ => (1 + random.below(20), 1 + random.below(30), 1 + random.below(80)),
    }
}

/// One random `multiply` by every variant, held against the stepped array.
fn check_multiply(seed: u64, types: (Dtype, Dtype), values: Values, row_parts: usize) {
    let random = &mut Random(seed);
    let (k, m, n) = sizes(random);
    let lead = (row_parts > 1).then_some(row_parts);
    let stationary = Tile::new(random, types.0, k, lead, m, false).fill(random, values);
    let moving = Tile::new(random, types.1, k, lead, n, false).fill(random, values);
    let psum = psum_tile(random, m, n, values);
    let accumulate = random.below(2) == 0;
    let mut expected = psum.bytes.clone();
    let reference = if row_parts == 1 { reference::multiply } else { reference::multiply_double_row };
    reference(&stationary.operand(), &moving.operand(), &mut psum.psum(&mut expected, accumulate));
    let mut scratch = ArrayScratch::new();
    for variant in variants() {
        let mut bytes = psum.bytes.clone();
        let (stationary, moving) = (stationary.operand(), moving.operand());
        let target = &mut psum.psum(&mut bytes, accumulate);
        multiply_on(variant, &mut scratch, &stationary, &moving, row_parts, target);
        assert!(bytes == expected, "{variant:?}, seed {seed}, {types:?}, {values:?}, {k}x{m}x{n}");
    }
}

/// One random `multiply_mx` by every variant and by the exact path, held against the stepped array.
fn check_multiply_mx(seed: u64, types: (Dtype, Dtype), values: Values, scales: &[u8]) {
    let random = &mut Random(seed);
    let k4 = random.pick(&[32, 32, 32, 64, 96, 128]);
    let (m, n) = (1 + random.below(24), 1 + random.below(70));
    let first_row = random.pick(&[0, 4, 8, 12]);
    let stationary = Tile::new(random, types.0, k4, None, m, false).fill(random, values);
    let moving = Tile::new(random, types.1, k4, None, n, false).fill(random, values);
    let rows = if k4 == 32 { first_row + 4 } else { k4 };
    let mut scale = |columns| {
        let mut tile = Tile::new(random, Dtype::Uint8, rows, None, columns, false);
        tile.bytes.iter_mut().for_each(|code| *code = random.pick(scales));
        tile
    };
    let (stationary_scale, moving_scale) = (scale(m), scale(n));
    let psum = psum_tile(random, m, n, values);
    let accumulate = random.below(2) == 0;

    let stationary = (&stationary.operand(), &stationary_scale.scale(first_row));
    let moving = (&moving.operand(), &moving_scale.scale(first_row));
    let mut expected = psum.bytes.clone();
    let target = &mut psum.psum(&mut expected, accumulate);
    reference::multiply_mx(stationary.0, stationary.1, moving.0, moving.1, target);
    let mut scratch = ArrayScratch::new();
    for variant in variants() {
        let paths: [fn(&Scales, Dtype) -> bool; 2] = [|scales, dtype| scales.are_exact_in_f32(dtype), |_, _| false];
        for exact_in_f32 in paths {
            let mut bytes = psum.bytes.clone();
            let target = &mut psum.psum(&mut bytes, accumulate);
            multiply_mx_on(variant, exact_in_f32, &mut scratch, stationary, moving, target);
            assert!(bytes == expected, "{variant:?}, seed {seed}, {types:?}, {values:?}, {scales:?}, {k4}x{m}x{n}");
        }
    }
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(64))]

    #[test]
    fn any_pair_of_narrow_types_equals_the_stepped_array(seed: u64, s in 0..7_usize, t in 0..7_usize) {
        for values in [Values::Ordinary, Values::Finite, Values::Any] {
            check_multiply(seed, (FUSED_TYPES[s], FUSED_TYPES[t]), values, 1);
        }
    }

    #[test]
    fn fp32_equals_the_stepped_array(seed: u64, pair in 0..3_usize) {
        let (single, tensor) = (Dtype::Float32, Dtype::Tfloat32);
        let types = [(single, single), (single, tensor), (tensor, single)][pair];
        for values in [Values::Ordinary, Values::Finite, Values::Any] {
            check_multiply(seed, types, values, 1);
        }
    }

    #[test]
    fn double_row_equals_the_stepped_array(seed: u64, s in 0..3_usize, t in 0..3_usize) {
        for values in [Values::Ordinary, Values::Any] {
            check_multiply(seed, (FP8_TYPES[s], FP8_TYPES[t]), values, 2);
        }
    }

    #[test]
    fn mx_equals_the_stepped_array(seed: u64, s in 0..3_usize, t in 0..3_usize) {
        let types = (PACKED_TYPES[s], PACKED_TYPES[t]);
        check_multiply_mx(seed, types, Values::Ordinary, &[120, 125, 126, 127, 128, 130]);
        check_multiply_mx(seed, types, Values::Finite, &[0, 1, 100, 127, 180, 230, 239]);
        check_multiply_mx(seed, types, Values::Finite, &[0, 1, 5, 127, 240, 246, 252, 253, 254]);
        // The last scale that FP32 takes, and the first that it does not, with small ones.
        let scale_max = Scales::max_exact_in_f32(types.0);
        check_multiply_mx(seed, types, Values::Finite, &[5, 10, scale_max]);
        check_multiply_mx(seed, types, Values::Finite, &[5, 10, scale_max + 1]);
        let mut scales = [127; 200];
        (scales[0], scales[1], scales[2]) = (0, 254, 0xFF);
        check_multiply_mx(seed, types, Values::Any, &scales);
    }

    #[test]
    fn one_rounding_is_one_rounding(seed: u64) {
        let random = &mut Random(seed);
        // Exponents near each other, or anywhere; subnormal sums and products, and those that overflow.
        let mut number = |exponent: u32, range: usize, mask: u32| {
            let field = (exponent + random.below(range) as u32).min(254);
            f32::from_bits((random.next() as u32 & 0x807F_FFFF | field << 23) & mask)
        };
        for (exponent, range, scale) in [(100, 40, 0), (0, 255, 0), (0, 255, -254), (60, 30, 0), (0, 3, 126), (190, 65, 0)] {
            for _ in 0..100 {
                let (sum, s, t) = (number(exponent, range, !0), number(exponent, range, !0x1FFF), number(100, 60, !0x1FFF));
                let exact = reference::add_product(sum, s, t, scale);
                let product = f64::from(s) * f64::from(t) * 2_f64.powi(scale);
                prop_assert_eq!(block::add_exact(sum, product).to_bits(), exact.to_bits(), "{:e} {:e} {:e}", sum, s, t);
                if scale == 0 {
                    prop_assert_eq!(s.mul_add(t, sum).to_bits(), exact.to_bits(), "{:e} {:e} {:e}", sum, s, t);
                }
            }
        }
    }

    #[test]
    fn the_error_stays_within_the_bound(seed: u64) {
        let random = &mut Random(seed);
        let (k, m, n) = (1 + random.below(128), 9, 40);
        let draw = |random: &mut Random, columns| -> Vec<f32> {
            (0..k * columns).map(|_| decode(Dtype::Bfloat16, draw(random, Dtype::Bfloat16, Values::Ordinary))).collect()
        };
        let (stationary, moving) = (draw(random, m), draw(random, n));
        let sums = product_of(&stationary, &moving, Dtype::Bfloat16, k);
        for (index, &sum) in sums.iter().enumerate() {
            let (row, column) = (index / n, index % n);
            let products = (0..k).map(|k| f64::from(stationary[k * m + row]) * f64::from(moving[k * n + column]));
            let (exact, magnitude) = products.fold((0.0, 0.0), |(e, g), p| (e + p, g + p.abs()));
            prop_assert!((f64::from(sum) - exact).abs() <= k as f64 * 2_f64.powi(-24) * magnitude);
        }
    }
}

/// `multiply` over dense matrices, `[k][m]` and `[k][n]`, overwriting.
fn product_of(stationary: &[f32], moving: &[f32], dtype: Dtype, k: usize) -> Vec<f32> {
    let size = dtype.size_bytes();
    let code = |&value: &f32| encode(dtype, value, Cast::NEAREST).to_le_bytes()[..size].to_vec();
    let memory: [Vec<u8>; 2] = [stationary, moving].map(|values| values.iter().flat_map(code).collect());
    let (m, n) = (stationary.len() / k, moving.len() / k);
    let frees = [[(1, m)], [(1, n)]];
    let operand = |index: usize| Operand {
        bytes: &memory[index],
        dtype,
        offset_bytes: 0,
        row_stride_bytes: memory[index].len() / k,
        rows: k,
        free: &frees[index],
    };
    let mut bytes = vec![0xFF; m * n * 4];
    let mut psum = Psum {
        bytes: &mut bytes,
        offset_bytes: 0,
        row_stride_bytes: n * 4,
        free: &[(1, n)],
        dtype: Dtype::Float32,
        accumulate: false,
    };
    multiply(&mut ArrayScratch::new(), &operand(0), &operand(1), &mut psum);
    bytes.as_chunks().0.iter().map(|&value| f32::from_le_bytes(value)).collect()
}

#[test]
fn rows_are_added_from_row_0_on() {
    // 2^24 + 1 is a tie that goes back to 2^24, twice; from the other end 1 + 1 survives.
    let ones = [1.0; 3];
    assert_eq!(product_of(&[16_777_216.0, 1.0, 1.0], &ones, Dtype::Bfloat16, 3), [16_777_216.0]);
    assert_eq!(product_of(&[1.0, 1.0, 16_777_216.0], &ones, Dtype::Bfloat16, 3), [16_777_218.0]);
}

#[test]
fn fp32_products_are_rounded_and_narrow_ones_are_not() {
    // (1 + 2^-12)^2 = 1 + 2^-11 + 2^-24: FP32 drops the last term. TF32 holds (1 + 2^-10)^2 - 1 either way.
    let s = 1.0 + 2_f32.powi(-12);
    assert_eq!(product_of(&[s, -1.0], &[s, 1.0], Dtype::Float32, 2), [2_f32.powi(-11)]);
    let s = 1.0 + 2_f32.powi(-10);
    assert_eq!(product_of(&[s, -1.0], &[s, 1.0], Dtype::Tfloat32, 2), [2_f32.powi(-9) + 2_f32.powi(-20)]);
}

#[test]
fn a_nan_is_the_quiet_one() {
    let bits = |values: Vec<f32>| values.into_iter().map(f32::to_bits).collect::<Vec<_>>();
    let infinity = f32::INFINITY;
    assert_eq!(
        bits(product_of(&[infinity], &[0.0, -0.0, 1.0], Dtype::Bfloat16, 1)),
        [0x7FC0_0000, 0x7FC0_0000, 0x7F80_0000]
    );
    let payload = f32::from_bits(0xFFAB_CDEF);
    assert_eq!(bits(product_of(&[payload], &[1.0], Dtype::Float32, 1)), [0x7FC0_0000]);
}

#[test]
fn a_sum_starts_at_plus_zero_and_may_end_at_minus_zero() {
    assert_eq!(product_of(&[-0.0], &[1.0], Dtype::Bfloat16, 1)[0].to_bits(), 0);
    // A product below half the least subnormal rounds to a zero of its sign.
    assert_eq!(product_of(&[-1e-30], &[1e-30], Dtype::Bfloat16, 1)[0].to_bits(), 0x8000_0000);
}

#[test]
fn sums_leave_the_array_one_row_and_one_column_a_cycle() {
    let random = &mut Random(3);
    for (k, m, n) in [(128, 128, 7), (5, 3, 11), (1, 1, 1)] {
        let stationary = Tile::new(random, Dtype::Bfloat16, k, None, m, false).fill(random, Values::Ordinary);
        let moving = Tile::new(random, Dtype::Bfloat16, k, None, n, false).fill(random, Values::Ordinary);
        let psum = psum_tile(random, m, n, Values::Ordinary);
        let mut bytes = psum.bytes.clone();
        let outputs = reference::multiply(&stationary.operand(), &moving.operand(), &mut psum.psum(&mut bytes, false));
        assert_eq!(outputs.len(), m * n);
        assert!(outputs.iter().all(|output| output.cycle == (output.n + 127 + output.m) as u64));
        // The last one leaves at the end of cycle N + 127 + (M - 1), counted from 1.
        assert_eq!(outputs.last().map(|output| output.cycle + 1), Some((n + 127 + m - 1) as u64));
    }
}

#[test]
fn a_split_over_m_and_n_gives_the_same_bits() {
    let random = &mut Random(11);
    let (k, m, n) = (128, 100, 333);
    let values: [Vec<f32>; 2] = [m, n].map(|columns| (0..k * columns).map(|_| random.unit()).collect());
    let whole = product_of(&values[0], &values[1], Dtype::Bfloat16, k);
    let part = |values: &[f32], columns: usize, range: std::ops::Range<usize>| -> Vec<f32> {
        values.chunks_exact(columns).flat_map(|row| &row[range.clone()]).copied().collect()
    };
    for (rows, columns) in [(0..13, 0..333), (13..100, 5..69), (99..100, 332..333)] {
        let stationary = part(&values[0], m, rows.clone());
        let moving = part(&values[1], n, columns.clone());
        let piece = product_of(&stationary, &moving, Dtype::Bfloat16, k);
        let expected: Vec<f32> = rows.flat_map(|row| &whole[row * n..][columns.clone()]).copied().collect();
        assert_eq!(piece, expected);
    }
}

#[test]
#[should_panic(expected = "moving free size 0")]
fn an_empty_operand_is_refused() {
    let operand = Operand {
        bytes: &[0; 8],
        dtype: Dtype::Bfloat16,
        offset_bytes: 0,
        row_stride_bytes: 8,
        rows: 1,
        free: &[(1, 1)],
    };
    let moving = Operand { free: &[(1, 0)], ..operand };
    let mut psum = Psum {
        bytes: &mut [0; 8],
        offset_bytes: 0,
        row_stride_bytes: 8,
        free: &[(1, 1)],
        dtype: Dtype::Float32,
        accumulate: false,
    };
    multiply(&mut ArrayScratch::new(), &operand, &moving, &mut psum);
}
