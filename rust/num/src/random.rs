//! The generators of stochastic rounding and of the random instructions.
//!
//! [`Draws`] is counter-based: draw *i* is a function of seed, stream and *i*, so the result of a conversion does not
//! depend on how it is cut into pieces or threads. [`Xorwow`] is the sequential generator of VectorE and GpSimd.

/// Blocks computed side by side, for the vector units.
const LANES: usize = 16;

/// Draws of as many blocks.
const RUN: usize = 4 * LANES;

/// A position in a stream of uniform 32-bit draws: Philox4x32-10 (Salmon, Moraes, Dror, Shaw: Parallel Random Numbers:
/// As Easy as 1, 2, 3; SC 2011).
///
/// Draws come in runs of 64, made of 16 blocks side by side: draw *i* is word (*i* div 16) mod 4 of the block with
/// key = seed and counter = (16 (*i* div 64) + *i* mod 16, stream), low words first.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Hash)]
pub struct Draws {
    seed: u64,
    stream: u64,
    position: u64,
}

impl Draws {
    /// The beginning of one of a seed's 2^64 streams.
    pub const fn new(seed: u64, stream: u64) -> Draws {
        Draws { seed, stream, position: 0 }
    }

    /// The same stream, `count` draws further.
    #[must_use]
    pub const fn skip(self, count: u64) -> Draws {
        Draws { position: self.position.wrapping_add(count), ..self }
    }

    /// The draw at this position.
    pub fn first(self) -> u32 {
        let (run, at) = (self.position / RUN as u64, (self.position % RUN as u64) as usize);
        self.block(run.wrapping_mul(LANES as u64).wrapping_add((at % LANES) as u64))[at / LANES]
    }

    /// The draws from this position on.
    pub fn fill(self, out: &mut [u32]) {
        crate::simd::dispatch(Fill { draws: self, out });
    }

    #[inline(always)]
    fn block(self, number: u64) -> [u32; 4] {
        let counter = [number as u32, (number >> 32) as u32, self.stream as u32, (self.stream >> 32) as u32];
        philox4x32_10(counter, [self.seed as u32, (self.seed >> 32) as u32])
    }

    /// The draws of one run of 64, which starts at a multiple of 64. A loop over blocks becomes vector code; arrays of
    /// blocks inside a loop over rounds do not.
    #[inline(always)]
    fn run(self, number: u64) -> [[u32; LANES]; 4] {
        let first = number.wrapping_mul(LANES as u64);
        let mut words = [[0; LANES]; 4];
        let [x, y, z, w] = &mut words;
        for (i, (((x, y), z), w)) in x.iter_mut().zip(y).zip(z).zip(w).enumerate() {
            [*x, *y, *z, *w] = self.block(first.wrapping_add(i as u64));
        }
        words
    }

    /// [`Draws::fill`] for use inside another kernel.
    #[inline(always)]
    pub(crate) fn fill_inline(self, out: &mut [u32]) {
        let mut position = self.position;
        let mut rest = out;
        while !rest.is_empty() {
            let run = self.run(position / RUN as u64);
            let run = run.as_flattened();
            let start = (position % RUN as u64) as usize;
            let count = rest.len().min(RUN - start);
            let (now, later) = rest.split_at_mut(count);
            now.copy_from_slice(&run[start..start + count]);
            position = position.wrapping_add(count as u64);
            rest = later;
        }
    }
}

struct Fill<'a> {
    draws: Draws,
    out: &'a mut [u32],
}

impl crate::simd::Kernel for Fill<'_> {
    type Output = ();

    #[inline(always)]
    fn run(self) {
        self.draws.fill_inline(self.out);
    }
}

/// The Philox4x32 bijection with ten rounds.
#[inline(always)]
fn philox4x32_10(mut counter: [u32; 4], mut key: [u32; 2]) -> [u32; 4] {
    for _ in 0..10 {
        let product0 = u64::from(counter[0]) * 0xd251_1f53;
        let product1 = u64::from(counter[2]) * 0xcd9e_8d57;
        counter = [
            (product1 >> 32) as u32 ^ counter[1] ^ key[0],
            product1 as u32,
            (product0 >> 32) as u32 ^ counter[3] ^ key[1],
            product0 as u32,
        ];
        key = [key[0].wrapping_add(0x9e37_79b9), key[1].wrapping_add(0xbb67_ae85)];
    }
    counter
}

/// XORWOW (Marsaglia: Xorshift RNGs; 2003), one state of six words in the order x, y, z, w, v, d (`isa.md` section 13).
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub struct Xorwow(pub [u32; 6]);

impl Xorwow {
    /// The state printed in Marsaglia's paper.
    pub const MARSAGLIA: Xorwow = Xorwow([123_456_789, 362_436_069, 521_288_629, 88_675_123, 5_783_321, 6_615_241]);

    /// One step; returns its output.
    #[inline(always)]
    pub fn step(&mut self) -> u32 {
        let [x, y, z, w, v, d] = self.0;
        let t = x ^ (x >> 2);
        let v_next = (v ^ (v << 4)) ^ (t ^ (t << 1));
        let d_next = d.wrapping_add(362_437);
        self.0 = [y, z, w, v, v_next, d_next];
        d_next.wrapping_add(v_next)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// `kat_vectors` of Random123 1.14, the authors' own library.
    #[test]
    fn philox_gives_the_published_vectors() {
        let ones = u32::MAX;
        let rows = [
            ([0; 4], [0; 2], [0x6627_e8d5, 0xe169_c58d, 0xbc57_ac4c, 0x9b00_dbd8]),
            ([ones; 4], [ones; 2], [0x408f_276d, 0x41c8_3b0e, 0xa20b_c7c6, 0x6d54_51fd]),
            (
                [0x243f_6a88, 0x85a3_08d3, 0x1319_8a2e, 0x0370_7344],
                [0xa409_3822, 0x299f_31d0],
                [0xd16c_fe09, 0x94fd_cceb, 0x5001_e420, 0x2412_6ea1],
            ),
        ];
        for (counter, key, want) in rows {
            assert_eq!(philox4x32_10(counter, key), want);
        }
    }

    #[test]
    fn draws_do_not_depend_on_the_cut() {
        let draws = Draws::new(7, 3).skip(1);
        let mut whole = [0; 101];
        draws.fill(&mut whole);
        for piece in [1, 2, 3, 4, 7, 64] {
            let mut cut = [0; 101];
            for (i, part) in cut.chunks_mut(piece).enumerate() {
                draws.skip((i * piece) as u64).fill(part);
            }
            assert_eq!(cut, whole, "pieces of {piece}");
        }
        for (i, &draw) in whole.iter().enumerate() {
            assert_eq!(draws.skip(i as u64).first(), draw);
        }
        let plain = |i: u64| {
            let counter = 16 * (i / 64) + i % 16;
            philox4x32_10([counter as u32, (counter >> 32) as u32, 3, 0], [7, 0])[(i / 16 % 4) as usize]
        };
        assert!((0..101).all(|i| whole[i as usize] == plain(i + 1)));
        let mut other = [0; 101];
        Draws::new(7, 4).skip(1).fill(&mut other);
        assert_ne!(whole, other);
    }

    /// The step worked by hand from the paper's seed: t = x ^ (x >> 2) and so on.
    #[test]
    fn xorwow_steps_as_in_the_paper() {
        let mut state = Xorwow::MARSAGLIA;
        let t: u32 = 123_456_789 ^ 30_864_197;
        let v = (5_783_321 ^ (5_783_321 << 4)) ^ (t ^ (t << 1));
        assert_eq!(state.step(), v.wrapping_add(6_615_241 + 362_437));
        assert_eq!(state.0, [362_436_069, 521_288_629, 88_675_123, 5_783_321, v, 6_977_678]);
    }
}
