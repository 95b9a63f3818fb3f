//! `x^y` of the ALU operator `power`.

use super::exponential::exp2_of_sum;
use super::logarithm::log2_in_parts;
use super::polynomial::clamp;

/// Says whether `v` is an integer; infinities are.
#[inline(always)]
fn is_integer(v: f64) -> bool {
    const TWO_52: f64 = 4_503_599_627_370_496.0;
    let a = v.abs();
    (a >= TWO_52) | ((a + TWO_52) - TWO_52 == a)
}

/// `v`, or the number with 25 significant bits next to it if the two are within two units of the last place.
///
/// Binary32 results that are exact, and exact ties between two of them, have at most 25 bits. Without this step the
/// tie in 4097² would fall to whichever side the logarithm erred; with it exact cases round as IEEE 754 says. The
/// reach is short enough for square roots, which come within four units of a tie.
#[inline(always)]
fn snap(v: f64) -> f64 {
    const DROPPED: u32 = 53 - 25;
    let bits = v.to_bits();
    let near = bits.wrapping_add(1 << (DROPPED - 1)) & !((1 << DROPPED) - 1);
    let distance = bits.wrapping_sub(near).wrapping_add(2);
    if distance <= 4 { f64::from_bits(near) } else { v }
}

/// `x^y` in double precision, good for rounding to binary32.
///
/// The logarithm is taken in three parts, so that the exponent errs by about `|y|` 2^-55, whatever the size of `x`:
/// exact cases, which have `|y| <= 15` unless `x` is a power of two, come out within the reach of [`snap`].
#[inline(always)]
pub(super) fn power(x: f64, y: f64) -> f64 {
    let magnitude = x.abs();
    let (n, mantissa, rest) = log2_in_parts(magnitude);
    // A finite stand-in for infinity: 2^40 times the smallest logarithm is far beyond the range of binary32.
    let bounded = clamp(y, -1_099_511_627_776.0, 1_099_511_627_776.0);
    let value = snap(exp2_of_sum(bounded * n, bounded * mantissa, bounded * rest));
    let at_zero = if y < 0.0 { f64::INFINITY } else { 0.0 };
    let at_infinity = if y < 0.0 { 0.0 } else { f64::INFINITY };
    let value = if magnitude == 0.0 { at_zero } else { value };
    let value = if magnitude == f64::INFINITY { at_infinity } else { value };
    let y_is_integer = is_integer(y);
    let y_is_odd = y_is_integer & !is_integer(0.5 * y);
    let negative = x.is_sign_negative();
    let value = if negative & y_is_odd { -value } else { value };
    let invalid = (x < 0.0) & !y_is_integer & (x != f64::NEG_INFINITY);
    let value = if invalid | x.is_nan() | y.is_nan() { f64::NAN } else { value };
    if (x == 1.0) | (y == 0.0) { 1.0 } else { value }
}
