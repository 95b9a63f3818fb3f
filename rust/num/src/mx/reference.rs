//! Microscaling group by group and element by element, as it is defined.

use super::{Element, Extent, GROUP, SCALE_NAN, ScaleRule};
use crate::{Cast, Dtype, decode, encode};

const INFINITY: u32 = 0x7f80_0000;

/// The scale byte of a group whose largest magnitude has these float32 bits (sign 0; a NaN or an infinity counts as
/// larger than every number, as its bits do).
#[inline(always)]
pub fn scale_byte(amax_bits: u32, element: Element, rule: ScaleRule) -> u8 {
    let target = match rule {
        ScaleRule::Hardware => element.exponent_max() - 1,
        ScaleRule::Ocp => element.exponent_max(),
    };
    // A finite exponent field is at most 254, so the upper clamp of the rule (254) never acts.
    let byte = (amax_bits >> 23).saturating_sub(target) as u8;
    if amax_bits >= INFINITY { SCALE_NAN } else { byte }
}

/// The code of one value under a scale: divided by the scale, rounded to nearest even, saturating.
pub fn encode_element(value: f32, scale: u8, element: Element) -> u8 {
    if scale == SCALE_NAN || (value.is_nan() && element == Element::E2m1) {
        return element.nan_code();
    }
    let scaled = value * inverse_power(scale);
    // A NaN passes the product unchanged but for its payload, which the code does not show.
    let scaled = if value.is_nan() { value } else { scaled };
    encode(element.dtype(), scaled, Cast::SATURATE) as u8
}

/// The value of one code under a scale.
pub fn decode_element(code: u8, scale: u8, element: Element) -> f32 {
    if scale == SCALE_NAN {
        return f32::from_bits(0x7fc0_0000);
    }
    let value = decode(element.dtype(), code.into());
    if value.is_nan() { value } else { value * decode(Dtype::Float8E8m0fnu, scale.into()) }
}

/// 2^(127 - byte); the byte 254 gives the subnormal 2^-127.
#[inline(always)]
pub(super) fn inverse_power(scale: u8) -> f32 {
    let field = (254 - u32::from(scale.min(254))) << 23;
    f32::from_bits(if field == 0 { 0x40_0000 } else { field })
}

/// Quantises group by group; see [`super::quantize`].
///
/// # Panics
///
/// If a slice does not have the extent's size, or the grouped axis is not a multiple of 32.
pub fn quantize_reference(
    values: &[f32],
    extent: Extent,
    element: Element,
    rule: ScaleRule,
    codes: &mut [u8],
    scales: &mut [u8],
) {
    extent.check(values.len(), codes.len(), scales.len());
    for (group, scale) in scales.iter_mut().enumerate() {
        let amax = members(extent, group).map(|at| values[at].to_bits() & 0x7fff_ffff).max().unwrap_or(0);
        *scale = scale_byte(amax, element, rule);
        for at in members(extent, group) {
            codes[at] = encode_element(values[at], *scale, element);
        }
    }
}

/// Dequantises group by group; see [`super::dequantize`].
///
/// # Panics
///
/// As [`quantize_reference`].
pub fn dequantize_reference(codes: &[u8], scales: &[u8], extent: Extent, element: Element, values: &mut [f32]) {
    extent.check(values.len(), codes.len(), scales.len());
    for (group, &scale) in scales.iter().enumerate() {
        for at in members(extent, group) {
            values[at] = decode_element(codes[at], scale, element);
        }
    }
}

/// Positions of the elements of a group; groups are counted in the order of the scales.
fn members(extent: Extent, group: usize) -> impl Iterator<Item = usize> {
    let Extent { inner, .. } = extent;
    // (outer, length, inner) = (outer, groups, 32, inner), of which the outer two run together.
    let (before, column) = (group / inner, group % inner);
    (0..GROUP).map(move |i| (before * GROUP + i) * inner + column)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn scale_byte_follows_the_rules() {
        let byte = |amax: f32, element, rule| scale_byte(amax.to_bits(), element, rule);
        // The maximum lands in [128, 256) and [2^14, 2^15), or twice that (isa.md 5.4).
        assert_eq!(byte(1.0, Element::E4m3fn, ScaleRule::Hardware), 127 - 7);
        assert_eq!(byte(1.99, Element::E4m3fn, ScaleRule::Ocp), 127 - 8);
        assert_eq!(byte(1.0, Element::E5m2, ScaleRule::Hardware), 127 - 14);
        assert_eq!(byte(448.0, Element::E4m3fn, ScaleRule::Ocp), 127);
        assert_eq!(byte(6.0, Element::E2m1, ScaleRule::Ocp), 127);
        assert_eq!(byte(0.0, Element::E4m3fn, ScaleRule::Hardware), 0);
        assert_eq!(byte(f32::MAX, Element::E2m1, ScaleRule::Hardware), 253);
        assert_eq!(byte(f32::INFINITY, Element::E4m3fn, ScaleRule::Hardware), 0xff);
        assert_eq!(byte(f32::NAN, Element::E5m2, ScaleRule::Ocp), 0xff);
    }

    /// The exponent field and ⌊log2⌋ of a subnormal lead to the same byte: both are clamped.
    #[test]
    fn subnormal_groups_have_byte_zero() {
        for bits in [1, 2, 0x1234, 0x40_0000, 0x7f_ffff] {
            for element in [Element::E4m3fn, Element::E5m2, Element::E2m1] {
                for rule in [ScaleRule::Hardware, ScaleRule::Ocp] {
                    assert_eq!(scale_byte(bits, element, rule), 0);
                }
            }
        }
    }

    #[test]
    fn elements_saturate_keep_their_sign_and_show_nan() {
        assert_eq!(encode_element(511.0, 127, Element::E4m3fn), 0x7e);
        assert_eq!(encode_element(-7.0, 127, Element::E2m1), 0xf);
        assert_eq!(encode_element(-0.0, 0, Element::E4m3fn), 0x80);
        assert_eq!(encode_element(-f32::NAN, 127, Element::E5m2), 0xfe);
        assert_eq!(encode_element(-f32::NAN, 127, Element::E2m1), 0);
        assert_eq!(encode_element(1.0, 0xff, Element::E4m3fn), 0x7f);
        assert_eq!(encode_element(f32::MAX, 254, Element::E2m1), 4); // 2 - 2^-23 rounds to 2.
        assert_eq!(decode_element(0x7e, 0, Element::E4m3fn), 448.0 * 2f32.powi(-127));
        assert_eq!(decode_element(0x7e, 254, Element::E4m3fn), f32::INFINITY);
        assert!(decode_element(0, 0xff, Element::E2m1).is_nan());
    }
}
