//! Microscaling (MX): groups of 32 elements that share one E8M0 scale (OCP Microscaling Formats MX v1.0; `isa.md` 5).
//!
//! A group's scale comes from its largest magnitude alone ([`scale_byte`]); each element is the value divided by the
//! scale, rounded to nearest even ([`encode_element`]). Under [`ScaleRule::Hardware`] nothing saturates; under
//! [`ScaleRule::Ocp`] what exceeds the element's range becomes its largest number.
//!
//! * A group with a NaN or an infinity: scale byte 0xFF, every element the canonical positive NaN. E2M1 has no NaN:
//!   its codes are 0, the scale says it all.
//! * A group of zeros: scale byte 0. The elements keep their sign.
//! * ⌊log2⌋ of the largest magnitude is its float32 exponent field, so a float32 (or bfloat16) subnormal counts as
//!   2^-127. Every rule then asks for a scale below 2^-127, which is clamped to byte 0 whatever the subnormal is.
//! * A scale byte 0xFF decodes to a group of positive quiet NaNs. Products beyond float32 decode to infinity; nothing
//!   else is rounded on decoding.
//!
//! `reference` has the definition group by group; the functions here equal it and work at the speed of memory, for
//! groups along any axis and without a transposed copy. The layout of packed tiles in SBUF is the caller's.

mod fast;
mod pack;
mod reference;

pub use fast::{dequantize, encode_scaled_slice, largest_magnitude, quantize};
pub use pack::{pack_x4, unpack_x4};
pub use reference::{decode_element, dequantize_reference, encode_element, quantize_reference, scale_byte};

use crate::Dtype;

/// Elements that share a scale.
pub const GROUP: usize = 32;

/// The scale byte of a group that is not a number.
pub const SCALE_NAN: u8 = 0xff;

/// The format of a group's elements.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Element {
    /// MXFP8 E4M3: FP8 without infinities.
    E4m3fn,
    /// MXFP8 E5M2.
    E5m2,
    /// MXFP4.
    E2m1,
}

impl Element {
    /// The element's data type, one code a byte.
    pub const fn dtype(self) -> Dtype {
        match self {
            Element::E4m3fn => Dtype::Float8E4m3fn,
            Element::E5m2 => Dtype::Float8E5m2,
            Element::E2m1 => Dtype::Float4E2m1fn,
        }
    }

    /// The word of four elements.
    pub const fn packed(self) -> Dtype {
        match self {
            Element::E4m3fn => Dtype::Float8E4m3fnX4,
            Element::E5m2 => Dtype::Float8E5m2X4,
            Element::E2m1 => Dtype::Float4E2m1fnX4,
        }
    }

    /// The element of an unpacked or packed data type.
    pub const fn from_dtype(dtype: Dtype) -> Option<Element> {
        match dtype {
            Dtype::Float8E4m3fn | Dtype::Float8E4m3fnX4 => Some(Element::E4m3fn),
            Dtype::Float8E5m2 | Dtype::Float8E5m2X4 => Some(Element::E5m2),
            Dtype::Float4E2m1fn | Dtype::Float4E2m1fnX4 => Some(Element::E2m1),
            _ => None,
        }
    }

    /// Exponent of the largest number: ⌊log2⌋ of 448, 57344 and 6.
    pub const fn exponent_max(self) -> u32 {
        match self {
            Element::E4m3fn => 8,
            Element::E5m2 => 15,
            Element::E2m1 => 2,
        }
    }

    /// The code that stands for NaN: canonical, or 0 for E2M1, which has none.
    pub const fn nan_code(self) -> u8 {
        match self {
            Element::E4m3fn => 0x7f,
            Element::E5m2 => 0x7e,
            Element::E2m1 => 0,
        }
    }
}

/// How a group's scale follows from its largest magnitude.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Default)]
pub enum ScaleRule {
    /// 2^(⌊log2 amax⌋ − (Emax − 1)): `quantize_mx` from NKI 0.5 on. Half the range stays free and nothing saturates.
    #[default]
    Hardware,
    /// 2^(⌊log2 amax⌋ − Emax): the sample conversion of OCP MX v1.0 section 6.3, and `quantize_mx` up to NKI 0.4
    /// (decisions.md D18). The largest elements may saturate.
    Ocp,
}

/// Where the groups of an array lie: an array in row-major order, seen as (outer, length, inner), with the groups
/// along the middle.
///
/// The codes have the array's shape; the scales have shape (outer, length / 32, inner).
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Extent {
    /// Product of the dimensions before the grouped axis.
    pub outer: usize,
    /// Size of the grouped axis, a multiple of [`GROUP`].
    pub length: usize,
    /// Product of the dimensions after the grouped axis.
    pub inner: usize,
}

impl Extent {
    /// Groups along the last axis of an array of `count` elements.
    pub const fn last_axis(count: usize) -> Extent {
        Extent { outer: 1, length: count, inner: 1 }
    }

    /// Number of elements.
    pub const fn count(self) -> usize {
        self.outer * self.length * self.inner
    }

    /// Number of groups, and of scales.
    pub const fn groups(self) -> usize {
        self.count() / GROUP
    }

    fn check(self, values: usize, codes: usize, scales: usize) {
        assert_eq!(self.length % GROUP, 0, "the grouped axis is a multiple of {GROUP}");
        assert_eq!(values, self.count(), "values");
        assert_eq!(codes, self.count(), "codes");
        assert_eq!(scales, self.groups(), "scales");
    }
}

/// Values to quantise.
#[derive(Debug, Clone, Copy)]
pub enum Values<'a> {
    /// float32.
    F32(&'a [f32]),
    /// Little-endian codes of float32, bfloat16 or float16.
    Bytes(Dtype, &'a [u8]),
}

impl Values<'_> {
    /// Number of values.
    pub fn count(&self) -> usize {
        match self {
            Values::F32(values) => values.len(),
            Values::Bytes(dtype, bytes) => bytes.len() / dtype.size_bytes(),
        }
    }
}
