//! The functions made of `e^x` and a quotient: sigmoid, tanh, silu and their relatives, mish.
//!
//! Where a factor `x` meets a vanishing one, `x` is first held above a bound beyond which the result is zero in
//! binary32 anyway; `-inf` then gives the limit, not the NaN of `inf * 0`.

use super::exponential::{exp, expm1};
use super::polynomial::clamp;

/// `1.702` in the sigmoid form of gelu.
const SIGMOID_SLOPE: f64 = 1.702;
/// √(2/π), in the tanh form of gelu.
const TANH_SLOPE: f64 = 0.7978845608028654;
/// The cubic's coefficient in the tanh form of gelu.
const TANH_CUBIC: f64 = 0.044715;

/// `1 / (1 + e^-x)`.
#[inline(always)]
pub(super) fn sigmoid(x: f64) -> f64 {
    1.0 / (1.0 + exp(-x))
}

/// `tanh x = t / (t + 2)` with `t = e^(2|x|) - 1`, so that small arguments keep their relative accuracy.
#[inline(always)]
pub(super) fn tanh(x: f64) -> f64 {
    let t = expm1(2.0 * x.abs());
    (t / (t + 2.0)).copysign(x)
}

/// `x / (1 + e^-z)`, for a `z` that grows with `x`.
#[inline(always)]
fn gated(x: f64, z: f64) -> f64 {
    let x = if -200.0 > x { -200.0 } else { x };
    x / (1.0 + exp(-z))
}

/// `x σ(x)`.
#[inline(always)]
pub(super) fn silu(x: f64) -> f64 {
    gated(x, x)
}

/// `d/dx x σ(x) = σ(x) (1 + x (1 - σ(x)))`.
#[inline(always)]
pub(super) fn silu_dx(x: f64) -> f64 {
    // Beyond ±200 the result is 0 or 1 in binary32, and nothing overflows inside.
    let x = clamp(x, -200.0, 200.0);
    let e = exp(-x);
    let sigma = 1.0 / (1.0 + e);
    sigma * (1.0 + x * (e * sigma))
}

/// `x σ(1.702 x)`.
#[inline(always)]
pub(super) fn gelu_apprx_sigmoid(x: f64) -> f64 {
    gated(x, SIGMOID_SLOPE * x)
}

/// `d/dx x σ(1.702 x)`, which is silu's derivative at `1.702 x`.
#[inline(always)]
pub(super) fn gelu_apprx_sigmoid_dx(x: f64) -> f64 {
    silu_dx(SIGMOID_SLOPE * x)
}

/// `½ x (1 + tanh u)` with `u = √(2/π) (x + 0.044715 x³)`, written as `x σ(2u)`.
#[inline(always)]
pub(super) fn gelu_apprx_tanh(x: f64) -> f64 {
    gated(x, 2.0 * TANH_SLOPE * (x + TANH_CUBIC * (x * x * x)))
}

/// `x tanh(ln(1 + e^x)) = x w / (w + 2)` with `w = e^x (e^x + 2)`.
#[inline(always)]
pub(super) fn mish(x: f64) -> f64 {
    let numerator = if -200.0 > x { -200.0 } else { x };
    let e = exp(if 200.0 < x { 200.0 } else { x });
    let w = e * (e + 2.0);
    numerator * (w / (w + 2.0))
}
