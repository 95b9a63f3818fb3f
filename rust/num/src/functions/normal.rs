//! The error function and what is made of it: gelu and the derivatives.
//!
//! Everything rests on `erfc(y) = e^(-y²) erfcx(y)` for `y >= 0`, where `erfcx` is smooth and slow. The tails of gelu
//! keep their relative accuracy down to where binary32 underflows, because no term there cancels.

use core::f64::consts::{FRAC_1_SQRT_2, FRAC_2_SQRT_PI};

use super::exponential::exp;
use super::polynomial::{clamp, horner};

/// `erf(y) / y` in `y²`, `y` up to 1/2; error 6.9e-16 before rounding.
///
/// `chebyfit(lambda z: erf(sqrt(z))/sqrt(z), [0, 1/4], 8)`, whose first coefficient is 2/√π but for its last bits.
const ERF: [f64; 8] = [
    FRAC_2_SQRT_PI,
    -0.376126389031482,
    0.11283791667965472,
    -0.026866169686584996,
    0.0052239625135716,
    -0.0008547030530247074,
    0.00011993461301850309,
    -1.3372691582222139e-05,
];

/// Beyond this argument `erfc` and gelu's tail are zero in binary32.
const Y_MAX: f64 = 10.75;
/// `t = T_SLOPE / (y + 3) + T_OFFSET` maps `y` in `[0, Y_MAX]` onto `[-1, 1]`, decreasing.
const T_SLOPE: f64 = 7.674418604651163;
/// See [`T_SLOPE`].
const T_OFFSET: f64 = -1.558139534883721;

/// `(y + 3) erfcx(y)` in `t`; error 4.3e-15 before rounding.
///
/// `chebyfit(lambda t: (y(t) + 3) * exp(y(t)**2) * erfc(y(t)), [-1, 1], 18)`. Of the poles 1.5, 2, 2.5, 3 and 3.75,
/// the last two give about the same, smallest, error at this degree.
const ERFCX: [f64; 18] = [
    1.2983528215672622,
    0.9307937773439482,
    0.5075092432529125,
    0.20407704487360204,
    0.05483068654787388,
    0.00641994544643403,
    -0.0014370932171451928,
    -0.0006090498129632758,
    2.2004886329363854e-05,
    4.384519130064092e-05,
    -1.35858709301867e-07,
    -3.4481789722992045e-06,
    1.161065932279212e-07,
    2.9109247622340476e-07,
    -3.093874195334181e-08,
    -2.3048774665274924e-08,
    3.4916872569169475e-09,
    1.2548913312224558e-09,
];

/// `1 / √(2π)`, the normal density at zero.
const DENSITY: f64 = 0.3989422804014327;

/// `e^(y²) erfc(y)` for `y` from 0 to [`Y_MAX`], held there beyond.
#[inline(always)]
fn erfcx(y: f64) -> f64 {
    let y = if Y_MAX < y { Y_MAX } else { y };
    let q = 1.0 / (y + 3.0);
    q * horner(T_SLOPE * q + T_OFFSET, &ERFCX)
}

/// `erf x`.
#[inline(always)]
pub(super) fn erf(x: f64) -> f64 {
    let y = x.abs();
    // The square of a binary32 number is exact.
    let square = x * x;
    let near = y * horner(square, &ERF);
    let far = 1.0 - exp(-square) * erfcx(y);
    (if y < 0.5 { near } else { far }).copysign(x)
}

/// `(2/√π) e^(-x²)`.
#[inline(always)]
pub(super) fn erf_dx(x: f64) -> f64 {
    FRAC_2_SQRT_PI * exp(-(x * x))
}

/// The pair `(e^(-x²/2), Φ(-|x|))`.
#[inline(always)]
fn tail(x: f64) -> (f64, f64) {
    let bell = exp(-0.5 * (x * x));
    (bell, 0.5 * (bell * erfcx(x.abs() * FRAC_1_SQRT_2)))
}

/// `x Φ(x)`.
#[inline(always)]
pub(super) fn gelu(x: f64) -> f64 {
    let (_, tail) = tail(x);
    let phi = if x < 0.0 { tail } else { 1.0 - tail };
    // Held where the result is zero in binary32, so that -inf gives the limit.
    (if -40.0 > x { -40.0 } else { x }) * phi
}

/// `d/dx x Φ(x) = Φ(x) + x φ(x)`.
#[inline(always)]
pub(super) fn gelu_dx(x: f64) -> f64 {
    let (bell, tail) = tail(x);
    let phi = if x < 0.0 { tail } else { 1.0 - tail };
    phi + clamp(x, -40.0, 40.0) * (DENSITY * bell)
}
