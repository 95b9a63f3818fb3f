//! The codecs over slices: equal to `reference` element by element, at the speed of memory.

use crate::lane::{self, Layout, Word, encode_int32, encode_integer, encode_uint32, with_layout};
use crate::random::Draws;
use crate::simd::{Kernel, dispatch};
use crate::{Cast, Dtype, Overflow, Rounding, decode, encode};
use std::marker::PhantomData;

/// Below this many elements the choice of a vector form costs more than it gains.
const VECTOR_MIN: usize = 8;

/// Elements converted at a time where a buffer is needed: it stays in the first-level cache.
const PIECE: usize = 1024;

/// Decodes little-endian codes.
///
/// # Panics
///
/// If the data type is a packed word, or if `bytes` does not hold `out.len()` elements.
pub fn decode_slice(dtype: Dtype, bytes: &[u8], out: &mut [f32]) {
    check(dtype, bytes.len(), out.len());
    if out.len() < VECTOR_MIN {
        for (code, value) in bytes.chunks_exact(dtype.size_bytes()).zip(out) {
            *value = decode(dtype, load(code));
        }
    } else if dtype.is_integer() {
        dispatch(DecodeIntegers { dtype, bytes, out });
    } else {
        with_layout!(dtype, L => dispatch(Decode { layout: PhantomData::<L>, bytes, out }));
    }
}

/// Encodes to little-endian codes. Element i takes draw i of a stochastic cast's stream.
///
/// # Panics
///
/// If the data type is a packed word, or if `out` does not hold `src.len()` elements.
pub fn encode_slice(dtype: Dtype, src: &[f32], out: &mut [u8], cast: Cast) {
    check(dtype, out.len(), src.len());
    if src.len() < VECTOR_MIN {
        for (i, (&value, code)) in src.iter().zip(out.chunks_exact_mut(dtype.size_bytes())).enumerate() {
            store(code, encode(dtype, value, cast.skip(i as u64)));
        }
    } else if dtype.is_integer() {
        dispatch(EncodeIntegers { dtype, src, out });
    } else {
        with_layout!(dtype, L => match (cast.rounding, cast.overflow) {
            (Rounding::NearestEven, Overflow::Ieee) => {
                dispatch(EncodeNearest::<L, false> { layout: PhantomData, src, out });
            }
            (Rounding::NearestEven, Overflow::Saturate) => {
                dispatch(EncodeNearest::<L, true> { layout: PhantomData, src, out });
            }
            (Rounding::Stochastic(draws), Overflow::Ieee) => {
                dispatch(EncodeStochastic::<L, false> { layout: PhantomData, draws, src, out });
            }
            (Rounding::Stochastic(draws), Overflow::Saturate) => {
                dispatch(EncodeStochastic::<L, true> { layout: PhantomData, draws, src, out });
            }
        });
    }
}

/// Converts codes of one data type to another, through float32 unless they are equal, which copies the bytes.
///
/// # Panics
///
/// If the two slices do not hold the same number of elements, or if only one of the types is a packed word.
pub fn convert_slice(from: Dtype, src: &[u8], to: Dtype, out: &mut [u8], cast: Cast) {
    if from == to {
        out.copy_from_slice(src);
        return;
    }
    let count = src.len() / from.size_bytes();
    check(from, src.len(), count);
    check(to, out.len(), count);
    let mut values = [0.0; PIECE];
    let pieces = src.chunks(PIECE * from.size_bytes()).zip(out.chunks_mut(PIECE * to.size_bytes()));
    for (i, (src, out)) in pieces.enumerate() {
        let values = &mut values[..src.len() / from.size_bytes()];
        decode_slice(from, src, values);
        encode_slice(to, values, out, cast.skip((i * PIECE) as u64));
    }
}

/// Rounds values to a data type and back: what storing and loading them would give.
///
/// # Panics
///
/// If the data type is a packed word.
pub fn round_slice(dtype: Dtype, values: &mut [f32], cast: Cast) {
    let mut codes = [0; PIECE * 4];
    for (i, values) in values.chunks_mut(PIECE).enumerate() {
        let codes = &mut codes[..values.len() * dtype.size_bytes()];
        encode_slice(dtype, values, codes, cast.skip((i * PIECE) as u64));
        decode_slice(dtype, codes, values);
    }
}

fn check(dtype: Dtype, bytes: usize, count: usize) {
    assert!(!dtype.is_packed(), "{} is a word of four codes: unpack it first", dtype.name());
    assert_eq!(bytes, count * dtype.size_bytes(), "{count} elements of {}", dtype.name());
}

fn load(code: &[u8]) -> u32 {
    let mut word = [0; 4];
    word[..code.len()].copy_from_slice(code);
    u32::from_le_bytes(word)
}

fn store(code: &mut [u8], bits: u32) {
    code.copy_from_slice(&bits.to_le_bytes()[..code.len()]);
}

struct Decode<'a, L> {
    layout: PhantomData<L>,
    bytes: &'a [u8],
    out: &'a mut [f32],
}

impl<L: Layout> Kernel for Decode<'_, L> {
    type Output = ();

    #[inline(always)]
    fn run(self) {
        for (value, &code) in self.out.iter_mut().zip(L::Word::split(self.bytes)) {
            *value = f32::from_bits(lane::decode::<L>(L::Word::load(code)));
        }
    }
}

struct EncodeNearest<'a, L, const SATURATE: bool> {
    layout: PhantomData<L>,
    src: &'a [f32],
    out: &'a mut [u8],
}

impl<L: Layout, const SATURATE: bool> Kernel for EncodeNearest<'_, L, SATURATE> {
    type Output = ();

    #[inline(always)]
    fn run(self) {
        for (code, &value) in L::Word::split_mut(self.out).iter_mut().zip(self.src) {
            *code = L::Word::store(lane::encode_nearest::<L, SATURATE>(value.to_bits()));
        }
    }
}

struct EncodeStochastic<'a, L, const SATURATE: bool> {
    layout: PhantomData<L>,
    draws: Draws,
    src: &'a [f32],
    out: &'a mut [u8],
}

impl<L: Layout, const SATURATE: bool> Kernel for EncodeStochastic<'_, L, SATURATE> {
    type Output = ();

    #[inline(always)]
    fn run(self) {
        let mut draws = [0; PIECE];
        let pieces = L::Word::split_mut(self.out).chunks_mut(PIECE).zip(self.src.chunks(PIECE));
        for (i, (out, src)) in pieces.enumerate() {
            let draws = &mut draws[..src.len()];
            self.draws.skip((i * PIECE) as u64).fill_inline(draws);
            for ((code, &value), &draw) in out.iter_mut().zip(src).zip(draws.iter()) {
                *code = L::Word::store(lane::encode_stochastic::<L, SATURATE>(value.to_bits(), draw));
            }
        }
    }
}

struct DecodeIntegers<'a> {
    dtype: Dtype,
    bytes: &'a [u8],
    out: &'a mut [f32],
}

impl Kernel for DecodeIntegers<'_> {
    type Output = ();

    #[inline(always)]
    fn run(self) {
        let DecodeIntegers { dtype, bytes, out } = self;
        match dtype {
            Dtype::Bool => decode_each::<u8>(bytes, out, |code| f32::from(u8::from(code != 0))),
            Dtype::Uint8 => decode_each::<u8>(bytes, out, |code| code as i32 as f32),
            Dtype::Int8 => decode_each::<u8>(bytes, out, |code| i32::from(code as i8) as f32),
            Dtype::Uint16 => decode_each::<u16>(bytes, out, |code| code as i32 as f32),
            Dtype::Int16 => decode_each::<u16>(bytes, out, |code| i32::from(code as i16) as f32),
            Dtype::Uint32 => decode_each::<u32>(bytes, out, |code| code as f32),
            Dtype::Int32 => decode_each::<u32>(bytes, out, |code| code as i32 as f32),
            other => unreachable!("{} is no integer", other.name()),
        }
    }
}

#[inline(always)]
fn decode_each<W: Word>(bytes: &[u8], out: &mut [f32], value: impl Fn(u32) -> f32) {
    for (out, &code) in out.iter_mut().zip(W::split(bytes)) {
        *out = value(W::load(code));
    }
}

struct EncodeIntegers<'a> {
    dtype: Dtype,
    src: &'a [f32],
    out: &'a mut [u8],
}

impl Kernel for EncodeIntegers<'_> {
    type Output = ();

    #[inline(always)]
    fn run(self) {
        let EncodeIntegers { dtype, src, out } = self;
        match dtype {
            Dtype::Bool => encode_each::<u8>(src, out, |value| u32::from(value != 0.0)),
            Dtype::Uint8 => encode_each::<u8>(src, out, |value| encode_integer(value, 0.0, 255.0)),
            Dtype::Int8 => encode_each::<u8>(src, out, |value| encode_integer(value, -128.0, 127.0)),
            Dtype::Uint16 => encode_each::<u16>(src, out, |value| encode_integer(value, 0.0, 65_535.0)),
            Dtype::Int16 => encode_each::<u16>(src, out, |value| encode_integer(value, -32_768.0, 32_767.0)),
            Dtype::Uint32 => encode_each::<u32>(src, out, encode_uint32),
            Dtype::Int32 => encode_each::<u32>(src, out, encode_int32),
            other => unreachable!("{} is no integer", other.name()),
        }
    }
}

#[inline(always)]
fn encode_each<W: Word>(src: &[f32], out: &mut [u8], code: impl Fn(f32) -> u32) {
    for (out, &value) in W::split_mut(out).iter_mut().zip(src) {
        *out = W::store(code(value));
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::simd::in_every_form;
    use proptest::prelude::*;

    fn unpacked() -> impl Iterator<Item = Dtype> {
        Dtype::ALL.into_iter().filter(|dtype| !dtype.is_packed())
    }

    fn casts() -> [Cast; 4] {
        let draws = Draws::new(11, 2).skip(5);
        let drawn = Cast::stochastic(draws);
        [Cast::NEAREST, Cast::SATURATE, drawn, Cast { overflow: Overflow::Saturate, ..drawn }]
    }

    /// Every exponent and sign, with mantissas at, just below and just above the halves of every format.
    fn hard_values() -> Vec<f32> {
        let mut values = Vec::new();
        for head in 0..0x200u32 {
            for bit in 0..=23u32 {
                let mantissa = (1u32 << bit) & 0x7f_ffff;
                for near in [mantissa, mantissa.wrapping_sub(1), mantissa + 1, !mantissa, mantissa * 3] {
                    values.push(f32::from_bits((head << 23) | (near & 0x7f_ffff)));
                }
            }
        }
        values
    }

    fn check_encode(src: &[f32]) {
        for dtype in unpacked() {
            let size = dtype.size_bytes();
            for cast in casts() {
                let mut out = vec![0; src.len() * size];
                encode_slice(dtype, src, &mut out, cast);
                for (i, (&value, code)) in src.iter().zip(out.chunks(size)).enumerate() {
                    let want = encode(dtype, value, cast.skip(i as u64));
                    assert_eq!(load(code), want, "{dtype:?} {:#010x} {cast:?}", value.to_bits());
                }
            }
        }
    }

    #[test]
    fn encode_equals_the_reference_on_hard_values() {
        in_every_form(|| check_encode(&hard_values()));
    }

    #[test]
    fn decode_equals_the_reference_on_every_code() {
        for dtype in unpacked() {
            let size = dtype.size_bytes();
            let codes: Vec<u32> = match size {
                4 => hard_values().into_iter().map(f32::to_bits).collect(),
                _ => (0..1 << (8 * size)).collect(),
            };
            let bytes: Vec<u8> = codes.iter().flat_map(|code| code.to_le_bytes()[..size].to_vec()).collect();
            in_every_form(|| {
                let mut out = vec![0.0; codes.len()];
                decode_slice(dtype, &bytes, &mut out);
                for (&code, value) in codes.iter().zip(&out) {
                    assert_eq!(value.to_bits(), decode(dtype, code).to_bits(), "{dtype:?} {code:#x}");
                }
            });
        }
    }

    #[test]
    fn pieces_give_the_same_bits_as_the_whole() {
        let src: Vec<f32> = (0..5000u16).map(|i| f32::from(i) * 0.013 - 20.0).collect();
        let bytes: Vec<u8> = src.iter().flat_map(|value| value.to_le_bytes()).collect();
        for cast in casts() {
            let mut whole = vec![0; src.len()];
            encode_slice(Dtype::Float8E4m3fn, &src, &mut whole, cast);
            let mut cut = vec![0; src.len()];
            for (i, (src, out)) in src.chunks(7).zip(cut.chunks_mut(7)).enumerate() {
                encode_slice(Dtype::Float8E4m3fn, src, out, cast.skip(i as u64 * 7));
            }
            assert_eq!(cut, whole);
            convert_slice(Dtype::Float32, &bytes, Dtype::Float8E4m3fn, &mut cut, cast);
            assert_eq!(cut, whole);
            let mut rounded = src.clone();
            round_slice(Dtype::Float8E4m3fn, &mut rounded, cast);
            assert!(
                rounded.iter().zip(&whole).all(|(value, &code)| *value == decode(Dtype::Float8E4m3fn, code.into()))
            );
        }
    }

    #[test]
    #[should_panic(expected = "unpack it first")]
    fn packed_words_are_refused() {
        decode_slice(Dtype::Float4E2m1fnX4, &[0; 2], &mut [0.0]);
    }

    proptest! {
        #![proptest_config(ProptestConfig::with_cases(64))]
        #[test]
        fn encode_equals_the_reference(bits in proptest::collection::vec(any::<u32>(), 0..200)) {
            check_encode(&bits.into_iter().map(f32::from_bits).collect::<Vec<_>>());
        }
    }
}
