//! Microscaling over whole arrays. One kernel for groups along the last axis, one for groups along another: there the
//! work goes across columns, 32 rows of a strip at a time.

use super::reference::inverse_power;
use super::{Element, Extent, GROUP, SCALE_NAN, ScaleRule, Values, scale_byte};
use crate::Dtype;
use crate::lane::{self, Layout, Word, with_layout};
use crate::simd::{Kernel, dispatch};
use std::marker::PhantomData;

/// Columns done together where the groups run across rows: 32 rows of them take half of a first-level cache.
const STRIP: usize = 128;

const MAGNITUDE: u32 = 0x7fff_ffff;
const INFINITY: u32 = 0x7f80_0000;
const QUIET_NAN: u32 = 0x7fc0_0000;

/// Runs the body with `$layout` standing for the element's layout.
macro_rules! with_element {
    ($element:expr, $layout:ident => $body:expr) => {
        match $element {
            Element::E4m3fn => {
                type $layout = lane::Float8E4m3fn;
                $body
            }
            Element::E5m2 => {
                type $layout = lane::Float8E5m2;
                $body
            }
            Element::E2m1 => {
                type $layout = lane::Float4E2m1fn;
                $body
            }
        }
    };
}

/// Quantises an array: `codes` gets one code a byte in the order of `values`, `scales` one byte a group.
///
/// # Panics
///
/// If a slice does not have the extent's size, if the grouped axis is not a multiple of 32, or if the values are
/// neither float32, bfloat16 nor float16.
pub fn quantize(
    values: Values<'_>,
    extent: Extent,
    element: Element,
    rule: ScaleRule,
    codes: &mut [u8],
    scales: &mut [u8],
) {
    extent.check(values.count(), codes.len(), scales.len());
    if extent.count() == 0 {
        return;
    }
    match values {
        Values::F32(values) => quantize_from(values, extent, element, rule, codes, scales),
        Values::Bytes(dtype, bytes) => {
            assert!(
                matches!(dtype, Dtype::Float32 | Dtype::Bfloat16 | Dtype::Float16),
                "{} is not quantised",
                dtype.name()
            );
            with_layout!(dtype, L => {
                let values = Codes::<L> { layout: PhantomData, words: <L as Layout>::Word::split(bytes) };
                quantize_from(values, extent, element, rule, codes, scales);
            });
        }
    }
}

fn quantize_from<S: Source>(
    values: S,
    extent: Extent,
    element: Element,
    rule: ScaleRule,
    codes: &mut [u8],
    scales: &mut [u8],
) {
    with_element!(element, L => {
        let layout = PhantomData::<L>;
        if extent.inner == 1 {
            dispatch(QuantizeRows { layout, values, element, rule, codes, scales });
        } else {
            dispatch(QuantizeColumns { layout, values, inner: extent.inner, element, rule, codes, scales });
        }
    });
}

/// Dequantises an array to float32.
///
/// # Panics
///
/// If a slice does not have the extent's size, or if the grouped axis is not a multiple of 32.
pub fn dequantize(codes: &[u8], scales: &[u8], extent: Extent, element: Element, values: &mut [f32]) {
    extent.check(values.len(), codes.len(), scales.len());
    if extent.count() == 0 {
        return;
    }
    with_element!(element, L => {
        let layout = PhantomData::<L>;
        if extent.inner == 1 {
            dispatch(DequantizeRows { layout, codes, scales, values });
        } else {
            dispatch(DequantizeColumns { layout, inner: extent.inner, codes, scales, values });
        }
    });
}

/// Encodes values that share a scale, as [`super::encode_element`] does one.
///
/// # Panics
///
/// If the slices differ in length.
pub fn encode_scaled_slice(values: &[f32], scale: u8, element: Element, codes: &mut [u8]) {
    assert_eq!(values.len(), codes.len(), "one code a value");
    with_element!(element, L => {
        dispatch(EncodeScaled { layout: PhantomData::<L>, values, scale, element, codes });
    });
}

/// Float32 bits of the largest magnitude, sign 0: a NaN counts as larger than infinity. An empty slice has 0.
pub fn largest_magnitude(values: &[f32]) -> u32 {
    dispatch(Largest { values })
}

/// Where a kernel reads float32 bits from.
trait Source: Copy {
    /// Loads the elements from `first` on.
    fn load(self, first: usize, bits: &mut [u32]);
}

impl Source for &[f32] {
    #[inline(always)]
    fn load(self, first: usize, bits: &mut [u32]) {
        let values = &self[first..][..bits.len()];
        for (bits, value) in bits.iter_mut().zip(values) {
            *bits = value.to_bits();
        }
    }
}

/// Stored words of a float format.
struct Codes<'a, L: Layout> {
    layout: PhantomData<L>,
    words: &'a [<L::Word as Word>::Bytes],
}

impl<L: Layout> Clone for Codes<'_, L> {
    fn clone(&self) -> Self {
        *self
    }
}

impl<L: Layout> Copy for Codes<'_, L> {}

impl<L: Layout> Source for Codes<'_, L> {
    #[inline(always)]
    fn load(self, first: usize, bits: &mut [u32]) {
        let words = &self.words[first..][..bits.len()];
        for (bits, &word) in bits.iter_mut().zip(words) {
            *bits = lane::decode::<L>(L::Word::load(word));
        }
    }
}

/// The code of a number times the inverse of its scale; of a NaN, any code.
#[inline(always)]
fn encode_scaled_number<L: Layout>(value: u32, inverse: f32) -> u8 {
    lane::encode_number::<L>((f32::from_bits(value) * inverse).to_bits()) as u8
}

/// The code of a value times the inverse of its scale. The product of a NaN need not keep its sign; the code does.
#[inline(always)]
fn encode_scaled<L: Layout>(value: u32, inverse: f32) -> u8 {
    let nan = match L::FORMAT.nan() {
        Some(nan) => (((value >> 31) << L::FORMAT.sign_shift()) | nan) as u8,
        None => 0,
    };
    let number = encode_scaled_number::<L>(value, inverse);
    if value & MAGNITUDE > INFINITY { nan } else { number }
}

/// The value of a code times its scale, as float32 bits. The scale is NaN for the byte 0xFF.
#[inline(always)]
fn decode_scaled<L: Layout>(code: u8, power: u32) -> u32 {
    let value = lane::decode::<L>(code.into());
    let product = (f32::from_bits(value) * f32::from_bits(power)).to_bits();
    let product = if value & MAGNITUDE > INFINITY { value } else { product };
    if power == QUIET_NAN { QUIET_NAN } else { product }
}

struct QuantizeRows<'a, L, S> {
    layout: PhantomData<L>,
    values: S,
    element: Element,
    rule: ScaleRule,
    codes: &'a mut [u8],
    scales: &'a mut [u8],
}

impl<L: Layout, S: Source> Kernel for QuantizeRows<'_, L, S> {
    type Output = ();

    #[inline(always)]
    fn run(self) {
        let QuantizeRows { layout: _, values, element, rule, codes, scales } = self;
        for (i, (codes, scale)) in codes.as_chunks_mut::<GROUP>().0.iter_mut().zip(scales).enumerate() {
            let mut bits = [0; GROUP];
            values.load(i * GROUP, &mut bits);
            let amax = bits.iter().fold(0, |amax, bits| amax.max(bits & MAGNITUDE));
            *scale = scale_byte(amax, element, rule);
            if *scale == SCALE_NAN {
                codes.fill(element.nan_code());
                continue;
            }
            let inverse = inverse_power(*scale);
            for (code, bits) in codes.iter_mut().zip(bits) {
                *code = encode_scaled_number::<L>(bits, inverse);
            }
        }
    }
}

struct QuantizeColumns<'a, L, S> {
    layout: PhantomData<L>,
    values: S,
    inner: usize,
    element: Element,
    rule: ScaleRule,
    codes: &'a mut [u8],
    scales: &'a mut [u8],
}

impl<L: Layout, S: Source> Kernel for QuantizeColumns<'_, L, S> {
    type Output = ();

    #[inline(always)]
    fn run(self) {
        let QuantizeColumns { layout: _, values, inner, element, rule, codes, scales } = self;
        // Rows a power of two apart evict each other from the cache, so a strip is copied once.
        let mut strip_bits = [[0; STRIP]; GROUP];
        let bands = codes.chunks_exact_mut(GROUP * inner).zip(scales.chunks_exact_mut(inner));
        for (band, (codes, scales)) in bands.enumerate() {
            for (strip, scales) in scales.chunks_mut(STRIP).enumerate() {
                let (first, width) = (strip * STRIP, scales.len());
                let mut amax = [0; STRIP];
                for (row, bits) in strip_bits.iter_mut().enumerate() {
                    let bits = &mut bits[..width];
                    values.load((band * GROUP + row) * inner + first, bits);
                    for (amax, bits) in amax[..width].iter_mut().zip(&*bits) {
                        *amax = (*amax).max(bits & MAGNITUDE);
                    }
                }
                let mut inverse = [0.0; STRIP];
                for ((scale, inverse), &amax) in scales.iter_mut().zip(&mut inverse).zip(&amax) {
                    *scale = scale_byte(amax, element, rule);
                    *inverse = inverse_power(*scale);
                }
                for (row, bits) in strip_bits.iter().enumerate() {
                    let codes = &mut codes[row * inner + first..][..width];
                    for ((code, &bits), &inverse) in codes.iter_mut().zip(&bits[..width]).zip(&inverse[..width]) {
                        *code = encode_scaled_number::<L>(bits, inverse);
                    }
                }
                for column in (0..width).filter(|&column| amax[column] >= INFINITY) {
                    for row in 0..GROUP {
                        codes[row * inner + first + column] = element.nan_code();
                    }
                }
            }
        }
    }
}

struct DequantizeRows<'a, L> {
    layout: PhantomData<L>,
    codes: &'a [u8],
    scales: &'a [u8],
    values: &'a mut [f32],
}

impl<L: Layout> Kernel for DequantizeRows<'_, L> {
    type Output = ();

    #[inline(always)]
    fn run(self) {
        let groups = self.values.as_chunks_mut::<GROUP>().0.iter_mut().zip(self.codes.as_chunks::<GROUP>().0);
        for ((values, codes), &scale) in groups.zip(self.scales) {
            let power = lane::decode::<lane::Float8E8m0fnu>(scale.into());
            for (value, &code) in values.iter_mut().zip(codes) {
                *value = f32::from_bits(decode_scaled::<L>(code, power));
            }
        }
    }
}

struct DequantizeColumns<'a, L> {
    layout: PhantomData<L>,
    inner: usize,
    codes: &'a [u8],
    scales: &'a [u8],
    values: &'a mut [f32],
}

impl<L: Layout> Kernel for DequantizeColumns<'_, L> {
    type Output = ();

    #[inline(always)]
    fn run(self) {
        let rows = self.values.chunks_exact_mut(self.inner).zip(self.codes.chunks_exact(self.inner));
        for (row, (values, codes)) in rows.enumerate() {
            let scales = &self.scales[row / GROUP * self.inner..][..self.inner];
            for ((value, &code), &scale) in values.iter_mut().zip(codes).zip(scales) {
                let power = lane::decode::<lane::Float8E8m0fnu>(scale.into());
                *value = f32::from_bits(decode_scaled::<L>(code, power));
            }
        }
    }
}

struct EncodeScaled<'a, L> {
    layout: PhantomData<L>,
    values: &'a [f32],
    scale: u8,
    element: Element,
    codes: &'a mut [u8],
}

impl<L: Layout> Kernel for EncodeScaled<'_, L> {
    type Output = ();

    #[inline(always)]
    fn run(self) {
        if self.scale == SCALE_NAN {
            self.codes.fill(self.element.nan_code());
            return;
        }
        let inverse = inverse_power(self.scale);
        for (code, value) in self.codes.iter_mut().zip(self.values) {
            *code = encode_scaled::<L>(value.to_bits(), inverse);
        }
    }
}

struct Largest<'a> {
    values: &'a [f32],
}

impl Kernel for Largest<'_> {
    type Output = u32;

    #[inline(always)]
    fn run(self) -> u32 {
        self.values.iter().fold(0, |amax, value| amax.max(value.to_bits() & MAGNITUDE))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::mx::{dequantize_reference, encode_element, quantize_reference};
    use crate::simd::in_every_form;
    use crate::{Cast, encode_slice};
    use proptest::prelude::*;

    const ELEMENTS: [Element; 3] = [Element::E4m3fn, Element::E5m2, Element::E2m1];
    const RULES: [ScaleRule; 2] = [ScaleRule::Hardware, ScaleRule::Ocp];

    fn check(values: &[f32], extent: Extent) {
        let (mut codes, mut scales) = (vec![0; values.len()], vec![0; values.len() / GROUP]);
        let (mut want_codes, mut want_scales) = (codes.clone(), scales.clone());
        let (mut back, mut want_back) = (vec![0.0; values.len()], vec![0.0; values.len()]);
        for (element, rule) in ELEMENTS.into_iter().flat_map(|element| RULES.map(|rule| (element, rule))) {
            quantize_reference(values, extent, element, rule, &mut want_codes, &mut want_scales);
            quantize(Values::F32(values), extent, element, rule, &mut codes, &mut scales);
            assert_eq!(scales, want_scales, "{element:?} {rule:?} {extent:?}");
            assert_eq!(codes, want_codes, "{element:?} {rule:?} {extent:?}");
            for dtype in [Dtype::Float32, Dtype::Bfloat16, Dtype::Float16] {
                let mut bytes = vec![0; values.len() * dtype.size_bytes()];
                encode_slice(dtype, values, &mut bytes, Cast::NEAREST);
                let mut narrow = vec![0.0; values.len()];
                crate::decode_slice(dtype, &bytes, &mut narrow);
                quantize_reference(&narrow, extent, element, rule, &mut want_codes, &mut want_scales);
                quantize(Values::Bytes(dtype, &bytes), extent, element, rule, &mut codes, &mut scales);
                assert_eq!((&codes, &scales), (&want_codes, &want_scales), "{dtype:?} {element:?} {rule:?}");
            }
            dequantize_reference(&codes, &scales, extent, element, &mut want_back);
            dequantize(&codes, &scales, extent, element, &mut back);
            let same = back.iter().zip(&want_back).all(|(a, b)| a.to_bits() == b.to_bits());
            assert!(same, "{element:?} {rule:?} {extent:?}");
        }
    }

    fn extents(count: usize) -> Vec<Extent> {
        [1, 2, 3, 4, 6, 12]
            .into_iter()
            .filter(|inner| count.is_multiple_of(GROUP * inner))
            .flat_map(|inner| {
                let rest = count / inner;
                [Extent { outer: 1, length: rest, inner }, Extent { outer: rest / GROUP, length: GROUP, inner }]
            })
            .collect()
    }

    /// Groups that are all zero, subnormal, huge, mixed, and with a NaN or an infinity at either end.
    fn hard_groups() -> Vec<f32> {
        let mut values = Vec::new();
        for exponent in [0u32, 1, 8, 15, 100, 127, 200, 253, 254] {
            for group in 0..4u32 {
                for i in 0..GROUP as u32 {
                    let bits = (exponent << 23) | ((i * 0x0004_2321 + group * 0x11_1111) & 0x7f_ffff) | (i % 2) << 31;
                    values.push(f32::from_bits(bits));
                }
            }
        }
        let zeros = [0.0, -0.0];
        values.extend((0..GROUP).map(|i| zeros[i % 2]));
        for special in [f32::INFINITY, f32::NEG_INFINITY, f32::NAN, f32::from_bits(0xff80_0001)] {
            for at in [0, GROUP - 1] {
                values.extend((0..GROUP).map(|i| if i == at { special } else { i as f32 }));
            }
        }
        values.resize(values.len().next_multiple_of(GROUP * 12), 1.5);
        values
    }

    #[test]
    fn hard_groups_equal_the_reference() {
        let values = hard_groups();
        for extent in extents(values.len()) {
            in_every_form(|| check(&values, extent));
        }
    }

    #[test]
    fn empty_arrays_are_left_alone() {
        for (outer, length, inner) in [(1, 0, 1), (0, 32, 1), (3, 32, 0), (3, 0, 4)] {
            check(&[], Extent { outer, length, inner });
        }
    }

    #[test]
    fn wide_rows_equal_the_reference() {
        let values: Vec<f32> = (0..GROUP * 2 * 200).map(|i| (i as f32 * 0.77).sqrt() - 30.0).collect();
        in_every_form(|| check(&values, Extent { outer: 2, length: GROUP, inner: 200 }));
    }

    #[test]
    fn a_slice_under_one_scale_equals_its_elements() {
        let values = hard_groups();
        let mut codes = vec![0; values.len()];
        for element in ELEMENTS {
            for scale in [0, 1, 100, 127, 200, 253, 254, 255] {
                encode_scaled_slice(&values, scale, element, &mut codes);
                for (&value, &code) in values.iter().zip(&codes) {
                    assert_eq!(code, encode_element(value, scale, element), "{element:?} {scale} {value}");
                }
            }
        }
        assert_eq!(largest_magnitude(&[1.0, -3.0, 2.0]), 3f32.to_bits());
        assert!(f32::from_bits(largest_magnitude(&values)).is_nan());
    }

    proptest! {
        #![proptest_config(ProptestConfig::with_cases(64))]
        #[test]
        fn any_bits_equal_the_reference(bits in proptest::collection::vec(any::<u32>(), 384..=384)) {
            let values: Vec<f32> = bits.into_iter().map(f32::from_bits).collect();
            for extent in extents(values.len()) {
                check(&values, extent);
            }
        }

        /// Hardware rule: the error of each element is at most half a unit of the group's largest.
        #[test]
        fn a_round_trip_is_close(values in proptest::collection::vec(-1e30f32..1e30, 32..=32)) {
            let extent = Extent::last_axis(GROUP);
            let (mut codes, mut scales, mut back) = ([0; GROUP], [0; 1], [0.0; GROUP]);
            quantize(Values::F32(&values), extent, Element::E4m3fn, ScaleRule::Hardware, &mut codes, &mut scales);
            dequantize(&codes, &scales, extent, Element::E4m3fn, &mut back);
            let amax = values.iter().fold(0f32, |amax, value| amax.max(value.abs()));
            for (value, back) in values.iter().zip(back) {
                prop_assert!((value - back).abs() <= amax / 16.0);
            }
        }
    }
}
