//! The codecs one value at a time, as the formats are defined: read these to know what the fast forms do.
//!
//! Conversions to a narrower format keep subnormals. A NaN becomes the format's canonical quiet NaN with the sign of
//! the operand, as in `ml_dtypes` (E8M0: the only NaN there is; FP6 and FP4: a zero of the opposite sign). Two
//! conversions copy a NaN's payload because they only shift: float32 to itself, and bfloat16, float16 or TF32 to float32.
//! NumPy also copies payloads into float16; there we give the canonical NaN.

use crate::format::{Format, Special};
use crate::{Cast, Dtype, Overflow, Rounding};

const INFINITY: u32 = 0x7f80_0000;
const QUIET: u32 = 0x7fc0_0000;
const MAGNITUDE: u32 = 0x7fff_ffff;

/// The value of a code. Bits of `bits` above the format's width do not count.
///
/// # Panics
///
/// If the data type is a packed word: it has four values.
pub fn decode(dtype: Dtype, bits: u32) -> f32 {
    match dtype {
        Dtype::Bool => f32::from(u8::from(bits as u8 != 0)),
        Dtype::Uint8 => f32::from(bits as u8),
        Dtype::Int8 => f32::from(bits as i8),
        Dtype::Uint16 => f32::from(bits as u16),
        Dtype::Int16 => f32::from(bits as i16),
        Dtype::Uint32 => bits as f32,
        Dtype::Int32 => bits as i32 as f32,
        _ => decode_float(dtype.format().expect("a packed word has no single value"), bits),
    }
}

fn decode_float(format: Format, bits: u32) -> f32 {
    let bits = bits >> format.padding_bits;
    let magnitude = bits & format.magnitude_mask();
    if format.special == Special::Scale {
        let power =
            if Some(magnitude) == format.nan() { f64::NAN } else { power_of_two(magnitude as i32 - format.bias) };
        return power as f32;
    }
    let sign = (bits >> format.sign_shift()) & 1;
    let exponent = (magnitude >> format.mantissa_bits) as i32;
    let mantissa = magnitude & ((1 << format.mantissa_bits) - 1);
    let value = if magnitude > format.largest_finite() {
        let payload = if format.exponent_bits + format.mantissa_bits >= 15 {
            mantissa << (23 - format.mantissa_bits)
        } else if Some(magnitude) == format.infinity() {
            0
        } else {
            QUIET ^ INFINITY
        };
        INFINITY | payload
    } else {
        let significand = if exponent == 0 { mantissa } else { mantissa | (1 << format.mantissa_bits) };
        let scale = exponent.max(1) - format.bias - format.mantissa_bits as i32;
        // Exact: at most 24 significant bits, and within the range of float32.
        ((f64::from(significand) * power_of_two(scale)) as f32).to_bits()
    };
    f32::from_bits((sign << 31) | value)
}

/// 2^exponent, for exponents of a normal binary64 number.
fn power_of_two(exponent: i32) -> f64 {
    f64::from_bits(((exponent + 1023) as u64) << 52)
}

/// The code of a value, in the low bits of the result.
///
/// Integers: rounded to nearest even, saturating, NaN becomes 0. Bool: 1 unless the value is zero. Under stochastic
/// rounding the draw is the stream's first.
///
/// # Panics
///
/// If the data type is a packed word: it takes four values and a scale.
pub fn encode(dtype: Dtype, value: f32, cast: Cast) -> u32 {
    match dtype {
        Dtype::Bool => u32::from(value != 0.0),
        Dtype::Uint8 => u32::from(value.round_ties_even() as u8),
        Dtype::Int8 => u32::from(value.round_ties_even() as i8 as u8),
        Dtype::Uint16 => u32::from(value.round_ties_even() as u16),
        Dtype::Int16 => u32::from(value.round_ties_even() as i16 as u16),
        Dtype::Uint32 => value.round_ties_even() as u32,
        Dtype::Int32 => value.round_ties_even() as i32 as u32,
        _ => encode_float(dtype.format().expect("a packed word has no single value"), value.to_bits(), cast),
    }
}

fn encode_float(format: Format, value: u32, cast: Cast) -> u32 {
    let magnitude = value & MAGNITUDE;
    let negative = value >> 31;
    if format.special == Special::Scale {
        return encode_scale(magnitude, negative, cast.overflow);
    }
    if magnitude > INFINITY {
        return match format.nan() {
            Some(_) if format.mantissa_bits == 23 => value,
            Some(nan) => ((negative << format.sign_shift()) | nan) << format.padding_bits,
            None => (negative ^ 1) << format.sign_shift(),
        };
    }
    let rounded = if magnitude == INFINITY { u32::MAX } else { round_magnitude(format, magnitude, cast.rounding) };
    let code = if rounded <= format.largest_finite() {
        rounded
    } else {
        match cast.overflow {
            Overflow::Ieee => format.overflow(),
            Overflow::Saturate => format.largest_finite(),
        }
    };
    ((negative << format.sign_shift()) | code) << format.padding_bits
}

/// The magnitude code nearest to (or drawn for) a finite magnitude, as if the format's exponent had no upper end.
fn round_magnitude(format: Format, magnitude: u32, rounding: Rounding) -> u32 {
    let field = magnitude >> 23;
    let significand = (magnitude & 0x7f_ffff) | if field == 0 { 0 } else { 1 << 23 };
    let exponent = field.max(1) as i32 - 127;
    // One unit of the result is 2^(base - mantissa_bits), one unit of the significand 2^(exponent - 23).
    let base = exponent.max(format.exponent_min());
    let dropped = (base - exponent) as u32 + 23 - format.mantissa_bits;
    let units = match rounding {
        Rounding::NearestEven => {
            let dropped = dropped.min(60);
            let (whole, rest) = (u64::from(significand) >> dropped, u64::from(significand) & ((1 << dropped) - 1));
            let twice = rest * 2;
            let up = twice > 1 << dropped || (twice == 1 << dropped && whole % 2 == 1);
            whole as u32 + u32::from(up)
        }
        Rounding::Stochastic(draws) => {
            let unresolved = dropped.saturating_sub(31).min(31);
            let dropped = dropped.min(31);
            let noise = draws.first() & ((1 << dropped) - 1);
            ((significand >> unresolved) + noise) >> dropped
        }
    };
    // A carry out of the mantissa raises the exponent field by itself; a subnormal has no implicit bit to take off.
    (((base - format.exponent_min()) as u32) << format.mantissa_bits) + units
}

/// Nearest power of two, halves up, as `ml_dtypes` does it: its one exception is that 2^-127 itself stays.
fn encode_scale(magnitude: u32, negative: u32, overflow: Overflow) -> u32 {
    let saturate = overflow == Overflow::Saturate;
    if magnitude == 0 {
        return if saturate { 0 } else { 0xff };
    }
    if magnitude > INFINITY || negative == 1 {
        return 0xff;
    }
    let half = if magnitude == 0x40_0000 { 0x3f_ffff } else { 0x40_0000 };
    let code = (magnitude + half) >> 23;
    code.min(if saturate { 0xfe } else { 0xff })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::random::Draws;
    use proptest::prelude::*;

    fn small_floats() -> impl Iterator<Item = Dtype> {
        Dtype::ALL.into_iter().filter(|dtype| dtype.is_float() && dtype.size_bytes() <= 2)
    }

    fn codes(dtype: Dtype) -> std::ops::Range<u32> {
        let format = dtype.format().expect("a float has a format");
        let signed = u32::from(format.special != Special::Scale);
        0..1 << (format.sign_shift() + signed)
    }

    #[test]
    fn every_number_survives_a_round_trip() {
        for dtype in small_floats() {
            for code in codes(dtype) {
                let value = decode(dtype, code);
                let back = encode(dtype, value, Cast::NEAREST);
                if value.is_nan() {
                    assert!(decode(dtype, back).is_nan());
                } else {
                    assert_eq!(back, code, "{dtype:?} {value}");
                    let drawn = encode(dtype, value, Cast::stochastic(Draws::new(1, u64::from(code))));
                    assert_eq!(drawn, code, "{dtype:?} {value}");
                }
            }
        }
    }

    #[test]
    fn halves_go_to_the_even_code() {
        for dtype in small_floats().filter(|dtype| dtype.format().is_some_and(|f| f.special != Special::Scale)) {
            let largest = dtype.format().expect("a float has a format").largest_finite();
            for code in 0..largest {
                let (low, high) = (decode(dtype, code), decode(dtype, code + 1));
                let half = low + (high - low) * 0.5;
                if half == low || half == high {
                    continue; // The half is below float32's own resolution.
                }
                assert_eq!(encode(dtype, half, Cast::NEAREST), code + code % 2, "{dtype:?} {half}");
                let below = f32::from_bits(half.to_bits() - 1);
                assert_eq!(encode(dtype, below, Cast::NEAREST), code, "{dtype:?} {below}");
                let above = f32::from_bits(half.to_bits() + 1);
                assert_eq!(encode(dtype, above, Cast::NEAREST), code + 1, "{dtype:?} {above}");
            }
        }
    }

    #[test]
    fn too_large_values_follow_the_rule() {
        let saturated = |dtype, value| decode(dtype, encode(dtype, value, Cast::SATURATE));
        let plain = |dtype, value| decode(dtype, encode(dtype, value, Cast::NEAREST));
        assert_eq!(plain(Dtype::Float8E4m3fn, 464.0), 448.0);
        assert!(plain(Dtype::Float8E4m3fn, 464.1).is_nan());
        assert!(plain(Dtype::Float8E4m3fn, f32::NEG_INFINITY).is_nan());
        assert_eq!(saturated(Dtype::Float8E4m3fn, f32::NEG_INFINITY), -448.0);
        assert_eq!(plain(Dtype::Float8E5m2, 61440.0), f32::INFINITY);
        assert_eq!(saturated(Dtype::Float8E5m2, 61440.0), 57344.0);
        assert_eq!(plain(Dtype::Float8E4m3, 250.0), f32::INFINITY);
        assert_eq!(plain(Dtype::Bfloat16, f32::MIN), f32::NEG_INFINITY);
        assert_eq!(plain(Dtype::Float16, 65520.0), f32::INFINITY);
        assert_eq!(plain(Dtype::Float4E2m1fn, 1e9), 6.0);
        assert_eq!(plain(Dtype::Float6E3m2fn, f32::INFINITY), 28.0);
        assert_eq!(saturated(Dtype::Float32, f32::INFINITY), f32::MAX);
    }

    #[test]
    fn nan_becomes_the_canonical_one() {
        let rows = [
            (Dtype::Tfloat32, 0x7fc0_0000, 0xffc0_0000),
            (Dtype::Bfloat16, 0x7fc0, 0xffc0),
            (Dtype::Float16, 0x7e00, 0xfe00),
            (Dtype::Float8E5m2, 0x7e, 0xfe),
            (Dtype::Float8E4m3, 0x7c, 0xfc),
            (Dtype::Float8E4m3fn, 0x7f, 0xff),
            (Dtype::Float8E3m4, 0x78, 0xf8),
            (Dtype::Float8E8m0fnu, 0xff, 0xff),
            (Dtype::Float6E2m3fn, 0x20, 0),
            (Dtype::Float4E2m1fn, 0x8, 0),
        ];
        for (dtype, positive, negative) in rows {
            assert_eq!(encode(dtype, f32::from_bits(0x7f80_0001), Cast::NEAREST), positive, "{dtype:?}");
            assert_eq!(encode(dtype, f32::from_bits(0xffff_ffff), Cast::NEAREST), negative, "{dtype:?}");
        }
    }

    #[test]
    fn integers_saturate_and_nan_is_zero() {
        assert_eq!(encode(Dtype::Int8, -128.5, Cast::NEAREST), 0x80);
        assert_eq!(encode(Dtype::Int8, 2.5, Cast::NEAREST), 2);
        assert_eq!(encode(Dtype::Uint8, -3.0, Cast::NEAREST), 0);
        assert_eq!(encode(Dtype::Uint32, 1e20, Cast::NEAREST), u32::MAX);
        assert_eq!(encode(Dtype::Int32, f32::NAN, Cast::NEAREST), 0);
        assert_eq!(encode(Dtype::Bool, f32::NAN, Cast::NEAREST), 1);
        assert_eq!(encode(Dtype::Bool, -0.0, Cast::NEAREST), 0);
        assert_eq!(decode(Dtype::Uint32, 0x0100_0001), 16_777_216.0);
        assert_eq!(decode(Dtype::Int8, 0x80), -128.0);
    }

    /// The mean of many draws is the value itself, within six standard deviations.
    #[test]
    fn stochastic_rounding_has_the_value_as_its_mean() {
        for (dtype, value) in [
            (Dtype::Float8E4m3fn, 1.03f32),
            (Dtype::Float8E5m2, 3.0e-5),
            (Dtype::Float8E4m3fn, 2e-4),
            (Dtype::Bfloat16, 1.001),
        ] {
            let count = 20_000u32;
            let codes: Vec<f32> = (0..count)
                .map(|i| decode(dtype, encode(dtype, value, Cast::stochastic(Draws::new(5, 0).skip(u64::from(i))))))
                .collect();
            let low = codes.iter().copied().fold(f32::MAX, f32::min);
            let high = codes.iter().copied().fold(f32::MIN, f32::max);
            let mean = codes.iter().map(|&x| f64::from(x)).sum::<f64>() / f64::from(count);
            let deviation = 0.5 * f64::from(high - low) / f64::from(count).sqrt();
            assert!(low < value && value < high, "{dtype:?}");
            assert!((mean - f64::from(value)).abs() < 6.0 * deviation, "{dtype:?}: {mean}");
        }
    }

    proptest! {
        #[test]
        fn rounding_is_monotone(a in any::<f32>(), b in any::<f32>()) {
            prop_assume!(!a.is_nan() && !b.is_nan());
            let (a, b) = if a <= b { (a, b) } else { (b, a) };
            for dtype in small_floats().filter(|dtype| dtype.format().is_some_and(|f| f.special != Special::Scale)) {
                let at = |value| decode(dtype, encode(dtype, value, Cast::SATURATE));
                prop_assert!(at(a) <= at(b), "{:?}", dtype);
            }
        }

        #[test]
        fn float16_rounds_as_the_half_crate(bits in any::<u32>()) {
            let value = f32::from_bits(bits);
            prop_assume!(!value.is_nan());
            let code = encode(Dtype::Float16, value, Cast::NEAREST);
            prop_assert_eq!(code, u32::from(half::f16::from_f32(value).to_bits()));
            let code = encode(Dtype::Bfloat16, value, Cast::NEAREST);
            prop_assert_eq!(code, u32::from(half::bf16::from_f32(value).to_bits()));
        }
    }
}
