//! The one place where operands are unpacked: stored codes to panels of values for the microkernel.
//!
//! A panel holds `W` columns of the whole contraction, `W` values a row; columns past the operand's last are zero.
//! Values are exact: FP32, or FP64 where an MX scale takes them out of FP32's range. The codes are widened with
//! branch-free integer work and one exact subtraction, which compilers turn into vector code; tests hold every code of
//! every format against `trn3_num`.

use super::layout::{Free, Reader, Rows, Staging};
use super::{GROUP_ROWS, ScaleOperand, WORD_CODES};
use std::ops::Range;
use trn3_num::Dtype;

/// Bytes of the widest element.
const ELEMENT_BYTES_MAX: usize = 4;
/// The widest panel.
const WIDTH_MAX: usize = 32;
/// The E8M0 code of NaN.
const SCALE_NAN: u8 = 0xFF;
/// The E8M0 code of 1.
const SCALE_ONE: u8 = 127;

/// A value that panels hold.
pub(super) trait Value: Copy + Default {
    /// That FP32 value.
    fn of(value: f32) -> Self;
    /// The value of an E8M0 code.
    fn scale(code: u8) -> Self;
    /// The product of a code's value and its scale, exact.
    fn scaled(value: f32, scale: Self) -> Self;
}

impl Value for f32 {
    #[inline(always)]
    fn of(value: f32) -> f32 {
        value
    }

    #[inline(always)]
    fn scale(code: u8) -> f32 {
        // 2^-127 is subnormal; the quiet NaN's exponent is 0xFF as well.
        let subnormal_or_quiet = if code == 0 || code == SCALE_NAN { 0x0040_0000 } else { 0 };
        f32::from_bits(u32::from(code) << 23 | subnormal_or_quiet)
    }

    #[inline(always)]
    fn scaled(value: f32, scale: f32) -> f32 {
        value * scale
    }
}

impl Value for f64 {
    #[inline(always)]
    fn of(value: f32) -> f64 {
        f64::from(value)
    }

    #[inline(always)]
    fn scale(code: u8) -> f64 {
        f64::from(f32::scale(code))
    }

    #[inline(always)]
    fn scaled(value: f32, scale: f64) -> f64 {
        f64::from(value) * scale
    }
}

/// What the codes with the largest exponent mean.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Top {
    /// Infinity and NaN, as in IEEE 754.
    Ieee,
    /// Numbers, but for NaN where all bits are ones.
    NanOnly,
    /// Numbers.
    Finite,
}

/// The value of a code of 1 sign, `exponent` and `mantissa` bits; higher bits of `code` are zero.
#[inline(always)]
fn widen(code: u32, exponent: u32, mantissa: u32, top: Top) -> f32 {
    let bias = (1 << (exponent - 1)) - 1;
    let magnitude_mask = (1 << (exponent + mantissa)) - 1;
    let magnitude = code & magnitude_mask;
    let sign = (code >> (exponent + mantissa)) << 31;
    let shifted = magnitude << (23 - mantissa);
    let normal = shifted + ((127 - bias) << 23);
    // A subnormal is (1.m - 1) times the smallest normal number.
    let smallest_normal = (128 - bias) << 23;
    let subnormal = (f32::from_bits(shifted + smallest_normal) - f32::from_bits(smallest_normal)).to_bits();
    let number = if magnitude >> mantissa == 0 { subnormal } else { normal };
    let special = match top {
        Top::Ieee => magnitude >> mantissa == (1 << exponent) - 1,
        Top::NanOnly => magnitude == magnitude_mask,
        Top::Finite => false,
    };
    f32::from_bits(sign | if special { shifted | 0x7F80_0000 } else { number })
}

/// A stored format: words of `CODES` codes.
trait Format {
    const BYTES: usize;
    const CODES: usize;
    /// The value of the word's code `q`.
    fn value(word: u32, q: usize) -> f32;
}

macro_rules! formats {
    ($($name:ident: $bytes:literal bytes, $codes:literal codes, |$word:ident, $q:ident| $value:expr;)*) => {$(
        struct $name;
        impl Format for $name {
            const BYTES: usize = $bytes;
            const CODES: usize = $codes;
            #[inline(always)]
            fn value($word: u32, $q: usize) -> f32 {
                $value
            }
        }
    )*};
}

formats! {
    Float32: 4 bytes, 1 codes, |word, _q| f32::from_bits(word);
    // The array ignores the low 13 bits.
    Tfloat32: 4 bytes, 1 codes, |word, _q| f32::from_bits(word & !0x1FFF);
    Bfloat16: 2 bytes, 1 codes, |word, _q| f32::from_bits(word << 16);
    Float16: 2 bytes, 1 codes, |word, _q| widen(word, 5, 10, Top::Ieee);
    Float8E5m2: 1 bytes, 1 codes, |word, _q| widen(word, 5, 2, Top::Ieee);
    Float8E4m3: 1 bytes, 1 codes, |word, _q| widen(word, 4, 3, Top::Ieee);
    Float8E4m3fn: 1 bytes, 1 codes, |word, _q| widen(word, 4, 3, Top::NanOnly);
    Float8E5m2X4: 4 bytes, 4 codes, |word, q| widen(word >> (8 * q) & 0xFF, 5, 2, Top::Ieee);
    Float8E4m3fnX4: 4 bytes, 4 codes, |word, q| widen(word >> (8 * q) & 0xFF, 4, 3, Top::NanOnly);
    Float4E2m1fnX4: 2 bytes, 4 codes, |word, q| widen(word >> (4 * q) & 0xF, 2, 1, Top::Finite);
}

/// The scales of an MX operand: one row of bytes a group of partitions, one byte a column.
#[derive(Debug, Clone, Copy)]
pub(super) struct Scales<'a> {
    codes: &'a [u8],
    columns: usize,
}

impl<'a> Scales<'a> {
    /// Reads the scales of the data in `rows` into `codes`.
    pub(super) fn gather(
        operand: &ScaleOperand,
        rows: &Rows,
        staging: &mut Staging,
        codes: &'a mut Vec<u8>,
    ) -> Scales<'a> {
        /// Groups whose scales share a quadrant of 32 partitions, in neighbouring rows.
        const QUADRANT_GROUPS: usize = 4;
        const QUADRANT_ROWS: usize = QUADRANT_GROUPS * GROUP_ROWS;
        let columns = rows.free.count();
        let free = Free::of(operand.free);
        assert_eq!(free.count(), columns, "one scale a column of the data");
        let tile = Rows::of_bytes(operand.bytes, operand.offset_bytes, operand.row_stride_bytes, rows.rows, free);
        let mut reader = tile.reader(0..columns, staging);
        codes.clear();
        for group in 0..rows.rows / GROUP_ROWS {
            let (quadrant, within) = (group / QUADRANT_GROUPS, group % QUADRANT_GROUPS);
            codes.extend_from_slice(reader.row(quadrant * QUADRANT_ROWS + operand.first_row + within, 0));
        }
        Scales { codes, columns }
    }

    /// Whether FP32 holds every code of `dtype` times each of these scales.
    pub(super) fn are_exact_in_f32(&self, dtype: Dtype) -> bool {
        let scale_max = Scales::max_exact_in_f32(dtype);
        self.codes.iter().all(|&code| code <= scale_max || code == SCALE_NAN)
    }

    /// The largest scale that keeps every code of `dtype` below FP32's overflow. (There is no smallest: an E5M2 subnormal
    /// times 2^-127 is a multiple of 2^-143, so an FP32 number.)
    pub(super) fn max_exact_in_f32(dtype: Dtype) -> u8 {
        // The largest value lies in [2^n, 2^(n + 1)); FP32 ends below 2^128.
        let exponent_max = match dtype {
            Dtype::Float8E5m2X4 => 15,
            Dtype::Float8E4m3fnX4 => 8,
            Dtype::Float4E2m1fnX4 => 2,
            other => unreachable!("{} is not packed", other.name()),
        };
        127 - exponent_max + SCALE_ONE
    }

    /// The codes that scale partition `row`.
    fn row(&self, row: usize) -> &[u8] {
        &self.codes[row / GROUP_ROWS * self.columns..][..self.columns]
    }
}

/// An operand as the packer takes it.
#[derive(Debug, Clone, Copy)]
pub(super) struct Source<'a> {
    pub(super) dtype: Dtype,
    pub(super) rows: Rows<'a>,
    pub(super) scales: Option<Scales<'a>>,
}

impl Source<'_> {
    /// Columns of the operand.
    pub(super) fn columns(&self) -> usize {
        self.rows.free.count()
    }

    /// Length of the contraction.
    pub(super) fn contraction(&self) -> usize {
        self.rows.rows * self.rows.parts * if self.scales.is_some() { WORD_CODES } else { 1 }
    }

    /// Packs `columns` into panels of `W` columns, one every `panel_stride` values of `out`.
    #[inline(always)]
    pub(super) fn pack<T: Value, const W: usize>(
        &self,
        columns: Range<usize>,
        staging: &mut Staging,
        panel_stride: usize,
        out: &mut [T],
    ) {
        macro_rules! plain {
            ($format:ident) => {
                pack_plain::<T, $format, W>(self.rows.reader(columns, staging), panel_stride, out)
            };
        }
        macro_rules! scaled {
            ($format:ident) => {{
                let scales = self.scales.expect("packed words come with scales");
                let first = columns.start;
                pack_scaled::<T, $format, W>(self.rows.reader(columns, staging), scales, first, panel_stride, out)
            }};
        }
        match self.dtype {
            Dtype::Float32 => plain!(Float32),
            Dtype::Tfloat32 => plain!(Tfloat32),
            Dtype::Bfloat16 => plain!(Bfloat16),
            Dtype::Float16 => plain!(Float16),
            Dtype::Float8E5m2 => plain!(Float8E5m2),
            Dtype::Float8E4m3 => plain!(Float8E4m3),
            Dtype::Float8E4m3fn => plain!(Float8E4m3fn),
            Dtype::Float8E5m2X4 => scaled!(Float8E5m2X4),
            Dtype::Float8E4m3fnX4 => scaled!(Float8E4m3fnX4),
            Dtype::Float4E2m1fnX4 => scaled!(Float4E2m1fnX4),
            other => panic!("the array does not take {}", other.name()),
        }
    }
}

/// The word in those bytes, little endian.
#[inline(always)]
fn word(bytes: &[u8]) -> u32 {
    match *bytes {
        [a] => u32::from(a),
        [a, b] => u32::from(u16::from_le_bytes([a, b])),
        [a, b, c, d] => u32::from_le_bytes([a, b, c, d]),
        _ => unreachable!("a word has 1, 2 or 4 bytes"),
    }
}

/// Calls `pack(panel, bytes)` with `width` bytes for each panel of a row, the last one padded with zeros.
#[inline(always)]
fn for_each_panel(row: &[u8], width: usize, mut pack: impl FnMut(usize, &[u8])) {
    let pieces = row.chunks_exact(width);
    let rest = pieces.remainder();
    let full = pieces.len();
    for (panel, piece) in pieces.enumerate() {
        pack(panel, piece);
    }
    if !rest.is_empty() {
        let mut padded = [0; WIDTH_MAX * ELEMENT_BYTES_MAX];
        padded[..rest.len()].copy_from_slice(rest);
        pack(full, &padded[..width]);
    }
}

#[inline(always)]
fn pack_plain<T: Value, F: Format, const W: usize>(mut reader: Reader, panel_stride: usize, out: &mut [T]) {
    let (rows, parts) = (reader.rows(), reader.parts());
    for row in 0..rows {
        for part in 0..parts {
            let k = row * parts + part;
            for_each_panel(reader.row(row, part), W * F::BYTES, |panel, piece| {
                let values = &mut out[panel * panel_stride + k * W..][..W];
                for (value, bytes) in values.iter_mut().zip(piece.chunks_exact(F::BYTES)) {
                    *value = T::of(F::value(word(bytes), 0));
                }
            });
        }
    }
}

#[inline(always)]
fn pack_scaled<T: Value, F: Format, const W: usize>(
    mut reader: Reader,
    scales: Scales,
    first_column: usize,
    panel_stride: usize,
    out: &mut [T],
) {
    for row in 0..reader.rows() {
        let codes = &scales.row(row)[first_column..];
        for_each_panel(reader.row(row, 0), W * F::BYTES, |panel, piece| {
            let mut scale = [T::scale(SCALE_ONE); W];
            for (scale, &code) in scale.iter_mut().zip(&codes[panel * W..]) {
                *scale = T::scale(code);
            }
            let values = &mut out[panel * panel_stride + row * F::CODES * W..][..F::CODES * W];
            for (q, values) in values.chunks_exact_mut(W).enumerate() {
                for ((value, bytes), &scale) in values.iter_mut().zip(piece.chunks_exact(F::BYTES)).zip(&scale) {
                    *value = T::scaled(F::value(word(bytes), q), scale);
                }
            }
        });
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use trn3_num::decode;

    fn assert_equal(value: f32, expected: f32, code: u32, dtype: Dtype) {
        let equal = value.to_bits() == expected.to_bits() || value.is_nan() && expected.is_nan();
        assert!(equal, "{} {code:#x}: {value:e}, not {expected:e}", dtype.name());
    }

    fn check<F: Format>(dtype: Dtype, codes: Range<u32>) {
        for code in codes {
            assert_equal(F::value(code, 0), decode(dtype, code), code, dtype);
        }
    }

    #[test]
    fn every_code_of_every_narrow_format_has_its_value() {
        check::<Bfloat16>(Dtype::Bfloat16, 0..1 << 16);
        check::<Float16>(Dtype::Float16, 0..1 << 16);
        check::<Float8E5m2>(Dtype::Float8E5m2, 0..1 << 8);
        check::<Float8E4m3>(Dtype::Float8E4m3, 0..1 << 8);
        check::<Float8E4m3fn>(Dtype::Float8E4m3fn, 0..1 << 8);
        check::<Tfloat32>(Dtype::Tfloat32, 0x7F7F_0000..0x7F81_0000);
        check::<Tfloat32>(Dtype::Tfloat32, 0..1 << 16);
    }

    #[test]
    fn every_code_of_a_packed_word_has_its_value() {
        for code in 0..1 << 8 {
            for q in 0..4 {
                let word = !(0xFF << (8 * q)) | code << (8 * q);
                assert_equal(Float8E5m2X4::value(word, q), decode(Dtype::Float8E5m2, code), code, Dtype::Float8E5m2);
                assert_equal(
                    Float8E4m3fnX4::value(word, q),
                    decode(Dtype::Float8E4m3fn, code),
                    code,
                    Dtype::Float8E4m3fn,
                );
                let (word, code) = (!(0xF << (4 * q)) | (code & 0xF) << (4 * q), code & 0xF);
                assert_equal(
                    Float4E2m1fnX4::value(word, q),
                    decode(Dtype::Float4E2m1fn, code),
                    code,
                    Dtype::Float4E2m1fn,
                );
            }
        }
    }

    #[test]
    fn every_scale_has_its_value() {
        for code in 0..=u8::MAX {
            let expected = decode(Dtype::Float8E8m0fnu, u32::from(code));
            assert_equal(f32::scale(code), expected, u32::from(code), Dtype::Float8E8m0fnu);
            assert_equal(f64::scale(code) as f32, expected, u32::from(code), Dtype::Float8E8m0fnu);
        }
    }
}
