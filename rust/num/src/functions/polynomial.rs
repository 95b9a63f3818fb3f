//! Polynomial evaluation, the one loop that every function here shares.

/// The polynomial with `coefficients[i]` before `x^i`; `N` is at least 2.
///
/// Horner's rule on the even and the odd powers apart: two chains of half the length keep a wide core busier than one.
/// Each step is a rounded product and a rounded sum, never a fused one, so the bits do not depend on the machine.
#[inline(always)]
pub(super) fn horner<const N: usize>(x: f64, coefficients: &[f64; N]) -> f64 {
    let square = x * x;
    let (last, previous) = (coefficients[N - 1], coefficients[N - 2]);
    let (mut even, mut odd) = if N.is_multiple_of(2) { (previous, last) } else { (last, previous) };
    for i in (0..N - 2).rev() {
        if i % 2 == 0 {
            even = even * square + coefficients[i];
        } else {
            odd = odd * square + coefficients[i];
        }
    }
    even + x * odd
}

/// `x` held within `[low, high]`; NaN passes through.
///
/// The comparisons are written so that each is one `maxpd` or `minpd`, which return their second operand when one of
/// the two is NaN.
#[inline(always)]
pub(super) fn clamp(x: f64, low: f64, high: f64) -> f64 {
    let x = if low > x { low } else { x };
    if high < x { high } else { x }
}

/// `1.5 * 2^52`: adding it to a number below `2^51` in magnitude leaves the nearest integer in the low mantissa bits.
///
/// The detour replaces a conversion to `i64`, which vectorises on few machines.
pub(super) const ROUNDER: f64 = 6_755_399_441_055_744.0;
