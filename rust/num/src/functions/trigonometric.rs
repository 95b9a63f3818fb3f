//! The Scalar engine's sine and arctangent, and sine, cosine and tangent for every binary32 argument.

use core::f64::consts::{FRAC_2_PI, FRAC_PI_2, FRAC_PI_4, PI};

use super::polynomial::{ROUNDER, horner};

/// π minus its nearest double.
const PI_LOW: f64 = 1.2246467991473532e-16;

/// `sin(r) / r` in `r²`, `|r|` up to π/2; error 1.1e-16 before rounding.
///
/// `chebyfit(lambda z: sin(sqrt(z))/sqrt(z), [0, (pi/2)**2 * (1 + 2**-20)], 8)`.
const SIN_WIDE: [f64; 8] = [
    0.9999999999999999,
    -0.16666666666666072,
    0.008333333333282756,
    -0.00019841269824861818,
    2.7557316609063767e-06,
    -2.505188194607024e-08,
    1.6048168297657866e-10,
    -7.374387248160348e-13,
];

/// The same for `|r|` up to π/4, with 7 terms; error 3.2e-18 before rounding.
const SIN: [f64; 7] = [
    1.0,
    -0.16666666666666616,
    0.008333333333320363,
    -0.0001984126982865025,
    2.7557313376383437e-06,
    -2.5050716971457315e-08,
    1.5894736495907765e-10,
];

/// `cos(r)` in `r²`, `|r|` up to π/4; error 4.7e-17 before rounding.
///
/// `chebyfit(lambda z: cos(sqrt(z)), [0, (pi/4)**2 * (1 + 2**-20)], 7)`.
const COS: [f64; 7] = [
    1.0,
    -0.4999999999999925,
    0.041666666666472306,
    -0.0013888888869978586,
    2.4801578538537984e-05,
    -2.755523388088435e-07,
    2.0630454146051066e-09,
];

/// `arctan(t) / t` in `t²`, `|t|` up to √2 - 1; error 9.6e-16 before rounding.
///
/// `chebyfit(lambda z: atan(sqrt(z))/sqrt(z), [0, (sqrt(2)-1)**2 * (1 + 2**-20)], 10)`.
const ARCTAN: [f64; 10] = [
    0.999999999999999,
    -0.3333333333322143,
    0.1999999997839251,
    -0.14285712661675015,
    0.11111048853435064,
    -0.09089529950848801,
    0.07673535367825014,
    -0.0650598259705602,
    0.05024760899457127,
    -0.02531646288532378,
];

/// The Scalar engine's sine: `sin x` for `|x| <= π`, beyond it `u³/6 - u` with `u = |x| - π` and the sign of `x`.
///
/// An infinite argument gives NaN: both `sin x` and the difference `u³/6 - u` are invalid there.
#[inline(always)]
pub(super) fn sin(x: f64) -> f64 {
    let a = x.abs();
    // With π in two parts the difference is good to 2^-100, so sin keeps its relative accuracy at ±π.
    let u = (a - PI) - PI_LOW;
    // sin a = sin(π - a): above π/2 the polynomial is evaluated at π - a.
    let r = if a > FRAC_PI_2 { -u } else { a };
    let inside = r * horner(r * r, &SIN_WIDE);
    let outside = u * (u * u / 6.0) - u;
    (if a > PI { outside } else { inside }) * 1.0f64.copysign(x)
}

/// `arctan x`.
#[inline(always)]
pub(super) fn arctan(x: f64) -> f64 {
    const TAN_PI_8: f64 = 0.41421356237309503;
    const TAN_3PI_8: f64 = 2.414213562373095;
    let a = x.abs();
    let (middle, high) = (a > TAN_PI_8, a > TAN_3PI_8);
    // arctan a = base + arctan(numerator / denominator)
    let numerator = if middle { a - 1.0 } else { a };
    let denominator = if middle { a + 1.0 } else { 1.0 };
    let base = if middle { FRAC_PI_4 } else { 0.0 };
    let numerator = if high { -1.0 } else { numerator };
    let denominator = if high { a } else { denominator };
    let base = if high { FRAC_PI_2 } else { base };
    let t = numerator / denominator;
    (base + t * horner(t * t, &ARCTAN)).copysign(x)
}

/// Up to here [`reduce_fast`] is used.
const FAST_MAX: f32 = 33_554_432.0;

/// A reduced angle: `x = k π/2 + r`, with `k` modulo 4 and `|r|` at most π/4 (or a little above).
type Angle = (u64, f64);

/// The reduction for `|x|` up to [`FAST_MAX`], by Cody and Waite.
///
/// π/2 is split into 26 + 26 + 53 bits. `k` has at most 25 bits, so the first two products and differences are exact.
#[inline(always)]
fn reduce_fast(x: f64) -> Angle {
    const HIGH: f64 = 1.5707963109016418;
    const MIDDLE: f64 = 1.5893254712295857e-08;
    const LOW: f64 = 6.123233995736766e-17;
    let rounded = x * FRAC_2_PI + ROUNDER;
    let k = rounded - ROUNDER;
    let r = ((x - k * HIGH) - k * MIDDLE) - k * LOW;
    (rounded.to_bits() & 3, r)
}

/// The reduction for every finite `|x|` from 2^25 up, by Payne and Hanek: an integer product with those bits of 2/π
/// that matter.
fn reduce_large(x: f32) -> Angle {
    /// The first 256 bits of 2/π after the binary point, the most significant word first.
    const TWO_OVER_PI: [u64; 4] =
        [0xA2F9_836E_4E44_1529, 0xFC27_57D1_F534_DDC0, 0xDB62_9599_3C43_9041, 0xFE51_63AB_DEBB_C561];
    let bits = x.to_bits();
    let mantissa = u128::from(bits & 0x007F_FFFF | 0x0080_0000);
    // |x| = mantissa 2^exponent with an exponent of at least 2. The first exponent - 2 bits of 2/π contribute
    // multiples of 4 to x 2/π and drop out.
    let skipped = ((bits >> 23) & 0xFF) - 152;
    let (word, shift) = ((skipped / 64) as usize, skipped % 64);
    let pair = |i: usize| u128::from(TWO_OVER_PI[i]) << 64 | u128::from(TWO_OVER_PI[i + 1]);
    let window =
        if shift == 0 { pair(word) } else { pair(word) << shift | u128::from(TWO_OVER_PI[word + 2] >> (64 - shift)) };
    // |x| 2/π modulo 4 in units of 2^-126, short by less than 2^24 units.
    let product = mantissa.wrapping_mul(window);
    let k = product.wrapping_add(1 << 125) >> 126;
    let fraction = product.wrapping_sub(k << 126) as i128;
    // 2^-126 as a double; the conversion of the integer rounds to nearest.
    let r = fraction as f64 * f64::from_bits((1023 - 126) << 52) * FRAC_PI_2;
    let k = k as u64;
    if x < 0.0 { (k.wrapping_neg() & 3, -r) } else { (k, r) }
}

/// The two polynomials at `r`.
#[inline(always)]
fn sin_cos(r: f64) -> (f64, f64) {
    let z = r * r;
    (r * horner(z, &SIN), horner(z, &COS))
}

/// `value`, negated when `count` is odd.
#[inline(always)]
fn negate_if_odd(value: f64, count: u64) -> f64 {
    f64::from_bits(value.to_bits() ^ (count << 63))
}

/// The sine of a reduced angle.
#[inline(always)]
fn finish_sin((k, r): Angle) -> f64 {
    let (sin, cos) = sin_cos(r);
    negate_if_odd(if k & 1 == 0 { sin } else { cos }, k >> 1)
}

/// The cosine of a reduced angle.
#[inline(always)]
fn finish_cos((k, r): Angle) -> f64 {
    finish_sin((k.wrapping_add(1), r))
}

/// The tangent of a reduced angle.
#[inline(always)]
fn finish_tan((k, r): Angle) -> f64 {
    let (sin, cos) = sin_cos(r);
    let odd = k & 1 != 0;
    let numerator = if odd { -cos } else { sin };
    let denominator = if odd { sin } else { cos };
    numerator / denominator
}

/// A function of an angle, with a form for moderate arguments that vectorises and one for all.
pub(super) trait Angular {
    /// The value where `|x|` is at most 2^25; unspecified elsewhere.
    fn moderate(x: f64) -> f64;
    /// The value where `|x|` is above 2^25, infinite or NaN.
    fn large(x: f32) -> f64;
}

/// Says whether [`Angular::moderate`] does not serve `x`.
#[inline(always)]
pub(super) fn is_large(x: f32) -> bool {
    // Compared as bits, so that NaN counts as large.
    x.to_bits() & 0x7FFF_FFFF > FAST_MAX.to_bits()
}

/// Implements [`Angular`] for one function.
macro_rules! angular {
    ($name:ident, $finish:ident, $keeps_zero:expr) => {
        /// The function of this name in the parent module.
        pub(super) struct $name;

        impl Angular for $name {
            #[inline(always)]
            fn moderate(x: f64) -> f64 {
                let value = $finish(reduce_fast(x));
                // The reduction turns -0 into +0.
                if $keeps_zero && x == 0.0 { x } else { value }
            }

            fn large(x: f32) -> f64 {
                if x.is_finite() { $finish(reduce_large(x)) } else { f64::NAN }
            }
        }
    };
}

angular!(SinReduced, finish_sin, true);
angular!(Cos, finish_cos, false);
angular!(Tan, finish_tan, true);
