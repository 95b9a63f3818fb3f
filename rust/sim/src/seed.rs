//! Random numbers that mean the same for ever.
//!
//! One [`Seed`] a run, one [`Stream`] a component, split by the component's name: a component that draws more or less
//! than before does not disturb another, and the order of construction does not matter.
//!
//! Derivation, which is part of the contract: *h* is the 64-bit FNV-1a hash of the name's UTF-8 bytes; *m* is the first
//! output of SplitMix64 started at the seed; the four words of the stream's state are the first four outputs of
//! SplitMix64 started at *m* xor *h*. The stream is xoshiro256\*\* (Blackman and Vigna 2018), which its authors
//! recommend to seed by SplitMix64.
//!
//! Not for cryptography, and not the random instructions of any hardware: those are values, and live with their
//! instruction.

/// 64-bit FNV-1a hash (Fowler, Noll, Vo; IETF draft-eastlake-fnv): stable, byte by byte.
#[must_use]
pub const fn fnv1a_64(bytes: &[u8]) -> u64 {
    let mut hash = 0xcbf2_9ce4_8422_2325_u64;
    let mut i = 0;
    while i < bytes.len() {
        hash = (hash ^ bytes[i] as u64).wrapping_mul(0x0000_0100_0000_01b3);
        i += 1;
    }
    hash
}

/// SplitMix64 (Steele, Lea, Flood 2014, as published by Vigna): only to spread a seed over a state.
#[derive(Clone, Debug, PartialEq, Eq)]
struct SplitMix64(u64);

impl SplitMix64 {
    fn next(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let z = (self.0 ^ (self.0 >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        let z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        z ^ (z >> 31)
    }
}

/// The seed of a run.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub struct Seed(pub u64);

impl Seed {
    /// The stream of the component called `name`.
    #[must_use]
    pub fn stream(self, name: &str) -> Stream {
        let mixed = SplitMix64(self.0).next();
        let mut words = SplitMix64(mixed ^ fnv1a_64(name.as_bytes()));
        Stream([words.next(), words.next(), words.next(), words.next()])
    }
}

/// A stream of random numbers: xoshiro256\*\*. Its state is plain and can be stored.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Stream([u64; 4]);

impl Stream {
    /// The state, to store it.
    #[must_use]
    pub fn state(&self) -> [u64; 4] {
        self.0
    }

    /// A stream that goes on from a stored state.
    ///
    /// # Panics
    ///
    /// If the state is all zero, which no stream ever reaches.
    #[must_use]
    pub fn from_state(state: [u64; 4]) -> Stream {
        assert!(state != [0; 4], "an all-zero state never leaves zero");
        Stream(state)
    }

    /// 64 random bits.
    pub fn next_u64(&mut self) -> u64 {
        let s = &mut self.0;
        let drawn = s[1].wrapping_mul(5).rotate_left(7).wrapping_mul(9);
        let shifted = s[1] << 17;
        s[2] ^= s[0];
        s[3] ^= s[1];
        s[1] ^= s[2];
        s[0] ^= s[3];
        s[2] ^= shifted;
        s[3] = s[3].rotate_left(45);
        drawn
    }

    /// A number below `bound`, each equally likely (Lemire 2019: multiply, and redraw in the short remainder).
    ///
    /// # Panics
    ///
    /// If `bound` is zero.
    pub fn below(&mut self, bound: u64) -> u64 {
        assert!(bound > 0, "no number lies below zero");
        let redraw_below = bound.wrapping_neg() % bound;
        loop {
            let product = u128::from(self.next_u64()) * u128::from(bound);
            if product as u64 >= redraw_below {
                return (product >> 64) as u64;
            }
        }
    }

    /// A double in [0, 1): the upper 53 bits, divided by 2⁵³.
    pub fn unit_f64(&mut self) -> f64 {
        (self.next_u64() >> 11) as f64 * (1.0 / 9_007_199_254_740_992.0)
    }

    /// Puts `items` in random order, each order equally likely (Fisher and Yates, from the last place down).
    pub fn shuffle<T>(&mut self, items: &mut [T]) {
        for last in (1..items.len()).rev() {
            items.swap(last, self.below(last as u64 + 1) as usize);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn fnv_has_its_published_values() {
        // IETF draft-eastlake-fnv, appendix C, and test_fnv.c of its authors.
        assert_eq!(fnv1a_64(b""), 0xcbf2_9ce4_8422_2325);
        assert_eq!(fnv1a_64(b"a"), 0xaf63_dc4c_8601_ec8c);
        assert_eq!(fnv1a_64(b"b"), 0xaf63_df4c_8601_f1a5);
        assert_eq!(fnv1a_64(b"foobar"), 0x8594_4171_f739_67e8);
    }

    #[test]
    fn splitmix_has_its_published_values() {
        // Rosetta Code, "Pseudo-random numbers/Splitmix64", seed 1234567.
        let mut words = SplitMix64(1_234_567);
        let expected = [
            6_457_827_717_110_365_317,
            3_203_168_211_198_807_973,
            9_817_491_932_198_370_423,
            4_593_380_528_125_082_431,
            16_408_922_859_458_223_821,
        ];
        assert_eq!(expected, std::array::from_fn(|_| words.next()));
    }

    #[test]
    fn xoshiro_has_its_published_values() {
        // rand_xoshiro (rust-random) and morinim/xoshiro256ss, both from prng.di.unimi.it/xoshiro256starstar.c.
        let mut stream = Stream::from_state([1, 2, 3, 4]);
        let expected = [
            11_520,
            0,
            1_509_978_240,
            1_215_971_899_390_074_240,
            1_216_172_134_540_287_360,
            607_988_272_756_665_600,
            16_172_922_978_634_559_625,
            8_476_171_486_693_032_832,
            10_595_114_339_597_558_777,
            2_904_607_092_377_533_576,
        ];
        assert_eq!(expected, std::array::from_fn(|_| stream.next_u64()));
    }

    #[test]
    fn streams_are_split_by_name_and_by_seed() {
        let draw = |seed, name| Seed(seed).stream(name).next_u64();
        assert_eq!(draw(1, "chip0.core0.tensor"), draw(1, "chip0.core0.tensor"));
        assert_ne!(draw(1, "chip0.core0.tensor"), draw(1, "chip0.core1.tensor"));
        assert_ne!(draw(1, "chip0.core0.tensor"), draw(2, "chip0.core0.tensor"));
        // A swap of seed and name must not meet: xor alone would let it.
        assert_ne!(draw(fnv1a_64(b"a"), "b"), draw(fnv1a_64(b"b"), "a"));
    }

    #[test]
    fn a_stored_state_goes_on() {
        let mut stream = Seed(9).stream("x");
        stream.next_u64();
        let mut copy = Stream::from_state(stream.state());
        assert_eq!(stream.next_u64(), copy.next_u64());
    }

    #[test]
    fn bounded_draws_cover_their_range_evenly() {
        let mut stream = Seed(7).stream("below");
        let mut counts = [0u32; 7];
        for _ in 0..70_000 {
            counts[stream.below(7) as usize] += 1;
        }
        assert!(counts.iter().all(|&count| (9_500..10_500).contains(&count)), "{counts:?}");
        assert_eq!(stream.below(1), 0);
        assert!((0..1_000).all(|_| (0.0..1.0).contains(&stream.unit_f64())));
    }

    #[test]
    fn a_shuffle_keeps_every_item() {
        let mut items: Vec<u32> = (0..100).collect();
        Seed(3).stream("order").shuffle(&mut items);
        assert_ne!(items, (0..100).collect::<Vec<_>>());
        items.sort_unstable();
        assert_eq!(items, (0..100).collect::<Vec<_>>());
    }
}
