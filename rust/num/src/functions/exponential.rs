//! The exponential: one reduction that gives both `e^x` and `e^x - 1`.

use core::f64::consts::{LN_2, LOG2_E};

use super::polynomial::{ROUNDER, clamp, horner};

/// The upper part of ln 2, with 32 bits, so that its product with a small integer is exact.
const LN2_HIGH: f64 = 0.6931471803691238;
/// ln 2 minus [`LN2_HIGH`].
const LN2_LOW: f64 = 1.9082149292705877e-10;

/// `(e^r - 1) / r` for `|r|` up to ln(2)/2; relative error 1.8e-17 before rounding.
///
/// `mpmath.chebyfit(lambda r: expm1(r)/r, [-L, L], 11)` with `L = log(2)/2 * (1 + 2**-20)` at 60 digits, lowest power
/// first, each rounded to the nearest double. The other tables of this directory are made in the same way.
const EXPM1: [f64; 11] = [
    1.0,
    0.5000000000000006,
    0.1666666666666667,
    0.04166666666657314,
    0.008333333333326141,
    0.0013888888932488848,
    0.00019841269874800683,
    2.4801504346680997e-05,
    2.75572554255029e-06,
    2.7626357373278975e-07,
    2.5105206475334834e-08,
];

/// `2^n` for the integer `n` that adding [`ROUNDER`] left in the low bits of `rounded`; `|n|` below 1023.
#[inline(always)]
fn power_of_two(rounded: f64) -> f64 {
    f64::from_bits(rounded.to_bits().wrapping_add(1023) << 52)
}

/// The pair `(2^n, e^r - 1)` with `x = n ln 2 + r` and `|r|` at most ln(2)/2; `|x|` below 700.
#[inline(always)]
fn reduce(x: f64) -> (f64, f64) {
    let rounded = x * LOG2_E + ROUNDER;
    let n = rounded - ROUNDER;
    let r = (x - n * LN2_HIGH) - n * LN2_LOW;
    (power_of_two(rounded), r * horner(r, &EXPM1))
}

/// `e^x`, with a relative error of about 1e-16; `x` is held within ±700.
///
/// The bounds are far outside what a binary32 result can hold, and `e^x` and its square root stay normal numbers.
#[inline(always)]
pub(super) fn exp(x: f64) -> f64 {
    let (scale, p) = reduce(clamp(x, -700.0, 700.0));
    scale * p + scale
}

/// `e^x - 1` with a small relative error on both sides of zero; `x` is held within ±700.
///
/// Near zero `n` is 0 and the polynomial alone is the result; elsewhere the subtraction loses at most two bits.
#[inline(always)]
pub(super) fn expm1(x: f64) -> f64 {
    let (scale, p) = reduce(clamp(x, -700.0, 700.0));
    scale * p + (scale - 1.0)
}

/// `2^(a + b + c)`, where `a` and `b` are exact and `c` is small; the sum is held within ±1000.
///
/// `a` is an integer times a binary32 number and `|b| <= |a|` unless `a` is zero, so that `a - k` is exact too.
#[inline(always)]
pub(super) fn exp2_of_sum(a: f64, b: f64, c: f64) -> f64 {
    let rounded = clamp(a + b, -1000.0, 1000.0) + ROUNDER;
    // Outside the bounds the remainder is meaningless, and held so that the result stays huge or tiny.
    let r = clamp(((a - (rounded - ROUNDER)) + b) + c, -1.0, 1.0) * LN_2;
    let scale = power_of_two(rounded);
    scale * (r * horner(r, &EXPM1)) + scale
}
