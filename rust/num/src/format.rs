//! The fields of every floating-point format, as data.
//!
//! A [`Format`] says where sign, exponent and mantissa are, the exponent bias, and which codes are not numbers. The
//! codecs read nothing else, so a new format is a new row of [`Dtype::format`].
//!
//! Sources: `isa.md` section 3 for the formats with an `nki.language` name, OCP Microscaling Formats MX v1.0 for FP6
//! and FP4, `ml_dtypes` for FP8 E3M4 (AWS publishes 1/3/4 only; bias 3 and infinities are assumed IEEE-like).

use crate::Dtype;

/// Which codes of a format are not finite numbers.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Special {
    /// The largest exponent field holds infinity and NaNs, as in IEEE 754.
    Ieee,
    /// Only the code with every magnitude bit set is NaN; there is no infinity.
    NanOnly,
    /// Every code is a finite number. NaN becomes a zero with the opposite sign, as in `ml_dtypes`.
    Finite,
    /// An unsigned power of two, 2^(code - bias); the code 0xFF is NaN. There is no zero.
    Scale,
}

/// The fields of one floating-point format.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Format {
    /// Width of the exponent field.
    pub exponent_bits: u32,
    /// Width of the mantissa field, without the implicit bit.
    pub mantissa_bits: u32,
    /// Exponent bias.
    pub bias: i32,
    /// Which codes are not finite numbers.
    pub special: Special,
    /// Unused low bits of the stored word (13 for TF32, else 0).
    pub padding_bits: u32,
}

impl Format {
    const fn new(exponent_bits: u32, mantissa_bits: u32, bias: i32, special: Special) -> Format {
        Format { exponent_bits, mantissa_bits, bias, special, padding_bits: 0 }
    }

    /// Every bit of a code except sign and padding, at bit 0.
    pub const fn magnitude_mask(self) -> u32 {
        (1 << (self.exponent_bits + self.mantissa_bits)) - 1
    }

    /// Position of the sign bit, counted without padding. A [`Special::Scale`] format has none.
    pub const fn sign_shift(self) -> u32 {
        self.exponent_bits + self.mantissa_bits
    }

    /// Exponent of the smallest normal number: it is 2^this.
    pub const fn exponent_min(self) -> i32 {
        1 - self.bias
    }

    /// Magnitude code of the largest finite number.
    pub const fn largest_finite(self) -> u32 {
        match self.special {
            Special::Ieee => self.exponent_field_mask() - 1,
            Special::NanOnly | Special::Scale => self.magnitude_mask() - 1,
            Special::Finite => self.magnitude_mask(),
        }
    }

    /// Magnitude code of infinity.
    pub const fn infinity(self) -> Option<u32> {
        match self.special {
            Special::Ieee => Some(self.exponent_field_mask()),
            _ => None,
        }
    }

    /// Magnitude code of the canonical quiet NaN: the top mantissa bit alone in an IEEE-like format.
    pub const fn nan(self) -> Option<u32> {
        match self.special {
            Special::Ieee => Some(self.exponent_field_mask() | (1 << (self.mantissa_bits - 1))),
            Special::NanOnly | Special::Scale => Some(self.magnitude_mask()),
            Special::Finite => None,
        }
    }

    /// Magnitude code of what a too large value becomes under [`crate::Overflow::Ieee`].
    pub const fn overflow(self) -> u32 {
        match self.special {
            Special::Ieee => self.exponent_field_mask(),
            Special::NanOnly | Special::Scale | Special::Finite => self.magnitude_mask(),
        }
    }

    const fn exponent_field_mask(self) -> u32 {
        ((1 << self.exponent_bits) - 1) << self.mantissa_bits
    }
}

impl Dtype {
    /// The fields of a floating-point format; `None` for integers and packed words.
    pub const fn format(self) -> Option<Format> {
        use Special::{Finite, Ieee, NanOnly, Scale};
        Some(match self {
            Dtype::Float32 => Format::new(8, 23, 127, Ieee),
            Dtype::Tfloat32 => Format { padding_bits: 13, ..Format::new(8, 10, 127, Ieee) },
            Dtype::Bfloat16 => Format::new(8, 7, 127, Ieee),
            Dtype::Float16 => Format::new(5, 10, 15, Ieee),
            Dtype::Float8E5m2 => Format::new(5, 2, 15, Ieee),
            Dtype::Float8E4m3 => Format::new(4, 3, 7, Ieee),
            Dtype::Float8E4m3fn => Format::new(4, 3, 7, NanOnly),
            Dtype::Float8E3m4 => Format::new(3, 4, 3, Ieee),
            Dtype::Float8E8m0fnu => Format::new(8, 0, 127, Scale),
            Dtype::Float6E2m3fn => Format::new(2, 3, 1, Finite),
            Dtype::Float6E3m2fn => Format::new(3, 2, 3, Finite),
            Dtype::Float4E2m1fn => Format::new(2, 1, 1, Finite),
            _ => return None,
        })
    }
}

#[cfg(test)]
mod tests {
    use crate::{Dtype, decode};

    /// Largest finite, smallest normal and smallest subnormal number (`isa.md` section 3; OCP MX v1.0 section 5.3).
    #[test]
    fn ranges_are_the_published_ones() {
        let rows = [
            (Dtype::Tfloat32, 3.401_162_1e38, 2f32.powi(-126), 2f32.powi(-136)),
            (Dtype::Bfloat16, 3.389_531_4e38, 2f32.powi(-126), 2f32.powi(-133)),
            (Dtype::Float16, 65504.0, 2f32.powi(-14), 2f32.powi(-24)),
            (Dtype::Float8E5m2, 57344.0, 2f32.powi(-14), 2f32.powi(-16)),
            (Dtype::Float8E4m3, 240.0, 2f32.powi(-6), 2f32.powi(-9)),
            (Dtype::Float8E4m3fn, 448.0, 2f32.powi(-6), 2f32.powi(-9)),
            (Dtype::Float8E3m4, 15.5, 2f32.powi(-2), 2f32.powi(-6)),
            (Dtype::Float6E2m3fn, 7.5, 1.0, 0.125),
            (Dtype::Float6E3m2fn, 28.0, 0.25, 0.0625),
            (Dtype::Float4E2m1fn, 6.0, 1.0, 0.5),
        ];
        for (dtype, largest, normal, subnormal) in rows {
            let format = dtype.format().expect("a float has a format");
            let at = |magnitude: u32| decode(dtype, magnitude << format.padding_bits);
            assert_eq!(at(format.largest_finite()), largest, "{dtype:?}");
            assert_eq!(at(1 << format.mantissa_bits), normal, "{dtype:?}");
            assert_eq!(at(1), subnormal, "{dtype:?}");
        }
    }

    #[test]
    fn integers_and_packed_words_have_no_format() {
        for dtype in Dtype::ALL {
            assert_eq!(dtype.format().is_some(), dtype.is_float(), "{dtype:?}");
        }
    }
}
