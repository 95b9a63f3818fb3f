//! Four codes in a word: FP8 in the bytes of 32 bits, FP4 in the nibbles of 16 bits, the first lowest (`isa.md` 5.1).

use super::Element;
use crate::simd::{Kernel, dispatch};

/// Packs codes, one a byte, into little-endian words. FP8 words are the codes' own bytes.
///
/// # Panics
///
/// If the number of codes is not a multiple of four, or `words` is not a word for each four.
pub fn pack_x4(element: Element, codes: &[u8], words: &mut [u8]) {
    check(element, codes.len(), words.len());
    match element {
        Element::E2m1 => dispatch(Pack { codes, words }),
        Element::E4m3fn | Element::E5m2 => words.copy_from_slice(codes),
    }
}

/// Unpacks little-endian words into codes, one a byte.
///
/// # Panics
///
/// As [`pack_x4`].
pub fn unpack_x4(element: Element, words: &[u8], codes: &mut [u8]) {
    check(element, codes.len(), words.len());
    match element {
        Element::E2m1 => dispatch(Unpack { words, codes }),
        Element::E4m3fn | Element::E5m2 => codes.copy_from_slice(words),
    }
}

fn check(element: Element, codes: usize, words: usize) {
    assert_eq!(codes % 4, 0, "a word holds four codes");
    assert_eq!(words, codes / 4 * element.packed().size_bytes(), "bytes of words for {codes} codes");
}

struct Pack<'a> {
    codes: &'a [u8],
    words: &'a mut [u8],
}

impl Kernel for Pack<'_> {
    type Output = ();

    #[inline(always)]
    fn run(self) {
        for (byte, &[low, high]) in self.words.iter_mut().zip(self.codes.as_chunks().0) {
            *byte = (low & 0xf) | (high << 4);
        }
    }
}

struct Unpack<'a> {
    words: &'a [u8],
    codes: &'a mut [u8],
}

impl Kernel for Unpack<'_> {
    type Output = ();

    #[inline(always)]
    fn run(self) {
        for (codes, &byte) in self.codes.as_chunks_mut().0.iter_mut().zip(self.words) {
            *codes = [byte & 0xf, byte >> 4];
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_first_code_is_lowest() {
        let mut word = [0; 2];
        pack_x4(Element::E2m1, &[1, 2, 3, 4], &mut word);
        assert_eq!(u16::from_le_bytes(word), 0x4321);
        let mut word = [0; 4];
        pack_x4(Element::E5m2, &[1, 2, 3, 4], &mut word);
        assert_eq!(u32::from_le_bytes(word), 0x0403_0201);
    }

    #[test]
    fn unpacking_undoes_packing() {
        for element in [Element::E2m1, Element::E4m3fn, Element::E5m2] {
            let codes: Vec<u8> = (0..1024u16).map(|i| (i * 7 % 16) as u8).collect();
            let mut words = vec![0; 256 * element.packed().size_bytes()];
            pack_x4(element, &codes, &mut words);
            let mut back = vec![0; 1024];
            unpack_x4(element, &words, &mut back);
            assert_eq!(back, codes);
        }
    }
}
