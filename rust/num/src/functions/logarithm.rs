//! Logarithms, through `ln m = 2 artanh((m - 1) / (m + 1))`, and softplus.

use core::f64::consts::LN_2;

use super::exponential::exp;
use super::polynomial::horner;

/// `(2 artanh(s) / s - 2) / z` in `z = s²`, `z` up to `((√2 - 1) / (√2 + 1))²`; error 3.1e-16 before rounding.
///
/// `chebyfit(lambda z: (2*atanh(sqrt(z))/sqrt(z) - 2)/z, [0, Z * (1 + 2**-20)], 7)`.
const ARTANH_REST: [f64; 7] = [
    0.666666666666667,
    0.39999999999899505,
    0.2857142862597575,
    0.22222211134751835,
    0.18182889128412458,
    0.15331721495826012,
    0.1461645097955211,
];

/// `2 artanh(s) / s` for `z` up to 1/9; error 3.7e-15 before rounding.
///
/// `chebyfit(lambda z: 2*atanh(sqrt(z))/sqrt(z), [0, 1/9], 9)`.
const ARTANH_WIDE: [f64; 9] = [
    2.000000000000003,
    0.6666666666618257,
    0.4000000011581452,
    0.2857141793475505,
    0.22222709754719172,
    0.18169333991893807,
    0.1557070720148144,
    0.11744977819559474,
    0.18758019601047687,
];

/// The pair `(n, f)` with `x = 2^n (1 + f)` and `1 + f` between √½ and √2, for a positive normal `x`.
///
/// Both are exact; `f` has at most 24 bits if `x` is a binary32 number.
#[inline(always)]
fn reduce(x: f64) -> (f64, f64) {
    // The exponent field of x / √½, still biased by 1023; no signed shift, which AVX2 lacks.
    let bits = x.to_bits();
    let shifted = bits.wrapping_sub(core::f64::consts::FRAC_1_SQRT_2.to_bits()).wrapping_add(1023 << 52);
    let biased = shifted >> 52;
    // 2^52 + biased, read as a double, has `biased` in its low bits.
    let n = f64::from_bits(biased | 0x4330_0000_0000_0000) - (4_503_599_627_370_496.0 + 1023.0);
    let m = f64::from_bits(bits.wrapping_sub(biased.wrapping_sub(1023) << 52));
    (n, m - 1.0)
}

/// `ln x` with a small relative error, also near 1; NaN below zero.
#[inline(always)]
pub(super) fn log(x: f64) -> f64 {
    let (n, f) = reduce(x);
    let s = f / (2.0 + f);
    let z = s * s;
    let value = n * LN_2 + s * (2.0 + z * horner(z, &ARTANH_REST));
    let value = if x == f64::INFINITY { x } else { value };
    let value = if x == 0.0 { f64::NEG_INFINITY } else { value };
    if x >= 0.0 { value } else { f64::NAN }
}

/// `x` cut to the upper 21 bits of its significand.
#[inline(always)]
fn upper(x: f64) -> f64 {
    f64::from_bits(x.to_bits() & !0xFFFF_FFFF)
}

/// Three terms whose sum is `log2 x` for a positive binary32 `x`: the exponent, at most 21 bits, a remainder.
///
/// With `h = f²/2`, exact because `f` has 24 bits, `ln(1 + f) = f - h + s (h + R)`: the rounding of the last term,
/// the only one that is not exact, is about 2^-55 of the whole or less (the method of fdlibm's `e_log2.c`).
#[inline(always)]
pub(super) fn log2_in_parts(x: f64) -> (f64, f64, f64) {
    /// log2 e in 21 bits, and the rest.
    const LOG2_E_HIGH: f64 = 1.4426946640014648;
    const LOG2_E_LOW: f64 = 3.768874985636099e-07;
    let (n, f) = reduce(x);
    let s = f / (2.0 + f);
    let z = s * s;
    let h = 0.5 * f * f;
    let high = upper(f - h);
    let low = ((f - high) - h) + s * (h + z * horner(z, &ARTANH_REST));
    // The product of two numbers of 21 bits is exact, and so is its difference from its own upper part.
    let product = high * LOG2_E_HIGH;
    let rest = (low + high) * LOG2_E_LOW + low * LOG2_E_HIGH;
    let mantissa = upper(product + rest);
    (n, mantissa, (product - mantissa) + rest)
}

/// `ln(1 + e^x)`, as `max(x, 0) + ln(1 + e^-|x|)` so that nothing cancels.
#[inline(always)]
pub(super) fn softplus(x: f64) -> f64 {
    let u = exp(-x.abs());
    let s = u / (u + 2.0);
    let base = if 0.0 > x { 0.0 } else { x };
    base + s * horner(s * s, &ARTANH_WIDE)
}
