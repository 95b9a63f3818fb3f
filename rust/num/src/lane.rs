//! One value, without branches: the bodies of the fast loops.
//!
//! Each function equals its counterpart in `reference` bit for bit. All are `#[inline(always)]` so that the compiler
//! turns a loop over them into vector code, and generic over a [`Layout`], so that the fields are constants.
//!
//! The subnormal results are rounded by one float32 addition of a constant whose unit in the last place is the
//! format's smallest subnormal; this relies on the IEEE default environment, which Rust assumes everywhere.

use crate::Dtype;
use crate::format::{Format, Special};
use crate::simd::truncate_i32;

const INFINITY: u32 = 0x7f80_0000;
const QUIET_NAN: u32 = 0x7fc0_0000;
const MAGNITUDE: u32 = 0x7fff_ffff;

/// The storage word of an element, as little-endian bytes.
pub(crate) trait Word: Copy {
    /// `[u8; size]`.
    type Bytes: Copy;

    fn split(bytes: &[u8]) -> &[Self::Bytes];
    fn split_mut(bytes: &mut [u8]) -> &mut [Self::Bytes];
    fn load(bytes: Self::Bytes) -> u32;
    fn store(code: u32) -> Self::Bytes;
}

macro_rules! word {
    ($($type:ty, $size:literal;)*) => {$(
        impl Word for $type {
            type Bytes = [u8; $size];

            #[inline(always)]
            fn split(bytes: &[u8]) -> &[Self::Bytes] {
                bytes.as_chunks().0
            }

            #[inline(always)]
            fn split_mut(bytes: &mut [u8]) -> &mut [Self::Bytes] {
                bytes.as_chunks_mut().0
            }

            #[inline(always)]
            fn load(bytes: Self::Bytes) -> u32 {
                u32::from(<$type>::from_le_bytes(bytes))
            }

            #[inline(always)]
            fn store(code: u32) -> Self::Bytes {
                (code as $type).to_le_bytes()
            }
        }
    )*};
}

word! {
    u8, 1;
    u16, 2;
    u32, 4;
}

/// A data type known at compile time.
pub(crate) trait Layout: Copy {
    const DTYPE: Dtype;
    type Word: Word;

    const FORMAT: Format = match Self::DTYPE.format() {
        Some(format) => format,
        None => panic!("only floats have a layout"),
    };
}

/// Runs the body with `$layout` standing for the layout of a floating-point data type.
macro_rules! with_layout {
    ($dtype:expr, $layout:ident => $body:expr) => {
        with_layout!(@ $dtype, $layout, $body,
            Float32 Tfloat32 Bfloat16 Float16 Float8E5m2 Float8E4m3 Float8E4m3fn Float8E3m4 Float8E8m0fnu
            Float6E2m3fn Float6E3m2fn Float4E2m1fn)
    };
    (@ $dtype:expr, $layout:ident, $body:expr, $($name:ident)*) => {
        match $dtype {
            $(Dtype::$name => {
                type $layout = crate::lane::$name;
                $body
            })*
            other => unreachable!("{} has no single value", other.name()),
        }
    };
}
pub(crate) use with_layout;

macro_rules! layouts {
    ($($name:ident: $word:ty;)*) => {$(
        #[derive(Clone, Copy)]
        pub(crate) struct $name;

        impl Layout for $name {
            const DTYPE: Dtype = Dtype::$name;
            type Word = $word;
        }
    )*};
}

layouts! {
    Float32: u32;
    Tfloat32: u32;
    Bfloat16: u16;
    Float16: u16;
    Float8E5m2: u8;
    Float8E4m3: u8;
    Float8E4m3fn: u8;
    Float8E3m4: u8;
    Float8E8m0fnu: u8;
    Float6E2m3fn: u8;
    Float6E3m2fn: u8;
    Float4E2m1fn: u8;
}

/// Bits of 2^exponent as float32; the exponent is that of a normal number.
const fn power_of_two(exponent: i32) -> u32 {
    ((exponent + 127) as u32) << 23
}

/// Float32 bits of a code's value.
#[inline(always)]
pub(crate) fn decode<L: Layout>(code: u32) -> u32 {
    let format = L::FORMAT;
    let code = code >> format.padding_bits;
    let magnitude = code & format.magnitude_mask();
    let grow = 23 - format.mantissa_bits;
    if matches!(format.special, Special::Scale) {
        let normal = magnitude << grow;
        let value = if magnitude == 0 { 0x40_0000 } else { normal };
        return if magnitude == 0xff { QUIET_NAN } else { value };
    }
    let sign = ((code >> format.sign_shift()) & 1) << 31;
    let rebias = ((127 - format.bias) as u32) << 23;
    let normal = (magnitude << grow) + rebias;
    let mut value = normal;
    if format.bias != 127 {
        let unit = f32::from_bits(power_of_two(format.exponent_min() - format.mantissa_bits as i32));
        let subnormal = (magnitude as i32 as f32 * unit).to_bits();
        value = if magnitude < 1 << format.mantissa_bits { subnormal } else { normal };
        if magnitude > format.largest_finite() {
            // A 16-bit format keeps its payload; a narrower one has a single NaN.
            value = match format.infinity() {
                Some(_) if format.sign_shift() >= 15 => normal | INFINITY,
                Some(infinity) if magnitude == infinity => INFINITY,
                _ => QUIET_NAN,
            };
        }
    }
    sign | value
}

/// Code of the nearest value.
#[inline(always)]
pub(crate) fn encode_nearest<L: Layout, const SATURATE: bool>(value: u32) -> u32 {
    if matches!(L::FORMAT.special, Special::Scale) {
        return encode_scale::<SATURATE>(value);
    }
    finish::<L, SATURATE>(value, round_nearest::<L>(value))
}

/// Code of the nearest value, saturating, of what is not NaN.
#[inline(always)]
pub(crate) fn encode_number<L: Layout>(value: u32) -> u32 {
    let format = L::FORMAT;
    let code = round_nearest::<L>(value).min(format.largest_finite());
    (((value >> 31) << format.sign_shift()) | code) << format.padding_bits
}

/// Magnitude code of the nearest value; too large for what overflows.
#[inline(always)]
fn round_nearest<L: Layout>(value: u32) -> u32 {
    let format = L::FORMAT;
    let magnitude = value & MAGNITUDE;
    let dropped = 23 - format.mantissa_bits;
    let rebias = ((127 - format.bias) as u32) << format.mantissa_bits;
    let rounded = if dropped == 0 {
        magnitude
    } else {
        (magnitude + ((1 << (dropped - 1)) - 1) + ((magnitude >> dropped) & 1)) >> dropped
    };
    let mut code = rounded.wrapping_sub(rebias);
    if format.bias != 127 {
        let aligner = power_of_two(format.exponent_min() - format.mantissa_bits as i32 + 23);
        let subnormal = (f32::from_bits(magnitude) + f32::from_bits(aligner)).to_bits().wrapping_sub(aligner);
        code = if magnitude < power_of_two(format.exponent_min()) { subnormal } else { code };
    }
    code
}

/// Code of the value below or above, as the draw decides.
#[inline(always)]
pub(crate) fn encode_stochastic<L: Layout, const SATURATE: bool>(value: u32, draw: u32) -> u32 {
    let format = L::FORMAT;
    if matches!(format.special, Special::Scale) {
        return encode_scale::<SATURATE>(value);
    }
    let magnitude = value & MAGNITUDE;
    let field = magnitude >> 23;
    let significand = (magnitude & 0x7f_ffff) | if field == 0 { 0 } else { 1 << 23 };
    let exponent = field.max(1);
    let field_min = (format.exponent_min() + 127) as u32;
    let base = exponent.max(field_min);
    let dropped = base - exponent + 23 - format.mantissa_bits;
    let unresolved = dropped.saturating_sub(31).min(31);
    let dropped = dropped.min(31);
    let noise = draw & ((1 << dropped) - 1);
    let units = ((significand >> unresolved) + noise) >> dropped;
    finish::<L, SATURATE>(value, ((base - field_min) << format.mantissa_bits) + units)
}

/// Overflow, NaN, sign and padding.
#[inline(always)]
fn finish<L: Layout, const SATURATE: bool>(value: u32, code: u32) -> u32 {
    let format = L::FORMAT;
    let magnitude = value & MAGNITUDE;
    let negative = value >> 31;
    let largest = if SATURATE { format.largest_finite() } else { format.overflow() };
    let code = ((negative << format.sign_shift()) | code.min(largest)) << format.padding_bits;
    let nan = match format.nan() {
        Some(_) if format.mantissa_bits == 23 => value,
        Some(nan) => ((negative << format.sign_shift()) | nan) << format.padding_bits,
        None => (negative ^ 1) << format.sign_shift(),
    };
    if magnitude > INFINITY { nan } else { code }
}

#[inline(always)]
fn encode_scale<const SATURATE: bool>(value: u32) -> u32 {
    let (zero, largest) = if SATURATE { (0, 0xfe) } else { (0xff, 0xff) };
    let magnitude = value & MAGNITUDE;
    let code = (magnitude + 0x40_0000 - u32::from(magnitude == 0x40_0000)) >> 23;
    let code = if value > INFINITY { 0xff } else { code.min(largest) };
    if magnitude == 0 { zero } else { code }
}

/// Nearest integer, ties to even, clamped to a range within 2^22 of zero. NaN becomes 0.
#[inline(always)]
pub(crate) fn encode_integer(value: f32, low: f32, high: f32) -> u32 {
    // Its unit in the last place is 1, so the sum is rounded to an integer, which stands in its low bits.
    const ALIGNER: f32 = 12_582_912.0;
    let number = if value.is_nan() { 0.0 } else { value };
    let above = if number < low { low } else { number };
    let clamped = if above > high { high } else { above };
    (clamped + ALIGNER).to_bits().wrapping_sub(ALIGNER.to_bits())
}

/// Nearest integer, ties to even, clamped to the range of int32. NaN becomes 0.
#[inline(always)]
pub(crate) fn encode_int32(value: f32) -> u32 {
    const LIMIT: f32 = 2_147_483_648.0;
    let whole = round_whole(value);
    let code = truncate_i32(whole) as u32;
    let code = if whole <= -LIMIT { 0x8000_0000 } else { code };
    if whole >= LIMIT { 0x7fff_ffff } else { code }
}

/// Nearest integer, ties to even, clamped to the range of uint32. NaN becomes 0.
#[inline(always)]
pub(crate) fn encode_uint32(value: f32) -> u32 {
    const HALF: f32 = 2_147_483_648.0;
    let whole = round_whole(value);
    let upper = (truncate_i32(whole - HALF) as u32).wrapping_add(0x8000_0000);
    let code = if whole >= HALF { upper } else { truncate_i32(whole) as u32 };
    let code = if whole >= 2.0 * HALF { u32::MAX } else { code };
    if whole > 0.0 { code } else { 0 }
}

/// Nearest whole number, ties to even; NaN and infinities pass.
#[inline(always)]
fn round_whole(value: f32) -> f32 {
    const ALIGNER: f32 = 8_388_608.0;
    let magnitude = f32::from_bits(value.to_bits() & MAGNITUDE);
    let rounded = (magnitude + ALIGNER) - ALIGNER;
    let whole = if magnitude < ALIGNER { rounded } else { magnitude };
    f32::from_bits(whole.to_bits() | (value.to_bits() & !MAGNITUDE))
}
