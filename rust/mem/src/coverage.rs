//! Which elements of a tensor have been written.

/// The set of written bytes of one tensor, exact at byte granularity.
///
/// Whole-tensor writes, by far the most frequent, keep no bitmap.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Coverage {
    /// Nothing is written.
    Empty,
    /// Everything is written.
    Full,
    /// One bit a byte of the tensor, and how many bits are set.
    Partial {
        /// The bitmap.
        bits: Vec<u64>,
        /// Bits set.
        set: u64,
        /// Bytes of the tensor.
        bytes: u64,
    },
}

impl Coverage {
    /// Marks the byte runs as written; `bytes` is the tensor's size.
    pub fn mark(&mut self, bytes: u64, runs: impl Iterator<Item = (u64, u64)>) {
        if *self == Coverage::Full {
            return;
        }
        for (start, length) in runs {
            if start == 0 && length == bytes {
                *self = Coverage::Full;
                return;
            }
            if *self == Coverage::Empty {
                *self = Coverage::Partial { bits: vec![0; bytes.div_ceil(64) as usize], set: 0, bytes };
            }
            let Coverage::Partial { bits, set, .. } = self else { return };
            *set += set_run(bits, start, length);
            if *set == bytes {
                *self = Coverage::Full;
                return;
            }
        }
    }

    /// Whether every byte of the runs is written.
    pub fn covers(&self, mut runs: impl Iterator<Item = (u64, u64)>) -> bool {
        match self {
            Coverage::Full => true,
            Coverage::Empty => runs.all(|(_, length)| length == 0),
            Coverage::Partial { bits, .. } => {
                runs.all(|(start, length)| count_run(bits, start, length) == length)
            }
        }
    }

    /// Whether any byte of the runs is written.
    pub fn touches(&self, mut runs: impl Iterator<Item = (u64, u64)>) -> bool {
        match self {
            Coverage::Full => runs.any(|(_, length)| length > 0),
            Coverage::Empty => false,
            Coverage::Partial { bits, .. } => runs.any(|(start, length)| count_run(bits, start, length) > 0),
        }
    }

    /// Whether the byte is written.
    pub fn contains(&self, byte: u64) -> bool {
        match self {
            Coverage::Full => true,
            Coverage::Empty => false,
            Coverage::Partial { bits, .. } => bits[(byte / 64) as usize] >> (byte % 64) & 1 == 1,
        }
    }

    /// Bytes written, of a tensor of `bytes`.
    pub fn count(&self, bytes: u64) -> u64 {
        match self {
            Coverage::Full => bytes,
            Coverage::Empty => 0,
            Coverage::Partial { set, .. } => *set,
        }
    }
}

/// The words of a bitmap that a run of bits touches, each with its mask.
fn words(start: u64, length: u64) -> impl Iterator<Item = (usize, u64)> {
    let end = start + length;
    let last = if length == 0 { start / 64 } else { (end - 1) / 64 + 1 };
    (start / 64..last).map(move |word| {
        let low = start.max(word * 64) - word * 64;
        let high = end.min(word * 64 + 64) - word * 64;
        let below_high = if high == 64 { u64::MAX } else { (1 << high) - 1 };
        (word as usize, below_high & !((1u64 << low) - 1))
    })
}

fn set_run(bits: &mut [u64], start: u64, length: u64) -> u64 {
    let mut added = 0;
    for (word, mask) in words(start, length) {
        added += u64::from((mask & !bits[word]).count_ones());
        bits[word] |= mask;
    }
    added
}

fn count_run(bits: &[u64], start: u64, length: u64) -> u64 {
    words(start, length).map(|(word, mask)| u64::from((bits[word] & mask).count_ones())).sum()
}

#[cfg(test)]
mod tests {
    use super::Coverage;

    #[test]
    fn two_halves_make_a_whole() {
        let mut written = Coverage::Empty;
        written.mark(200, [(0, 100)].into_iter());
        assert!(written.covers([(10, 90)].into_iter()));
        assert!(!written.covers([(10, 91)].into_iter()));
        assert!(!written.touches([(100, 100)].into_iter()));
        assert!(written.contains(99) && !written.contains(100));
        written.mark(200, [(64, 136)].into_iter());
        assert_eq!(written, Coverage::Full);
    }

    #[test]
    fn every_run_of_a_small_map_is_counted() {
        for start in 0..130 {
            for length in 0..(130 - start) {
                let mut written = Coverage::Empty;
                written.mark(130, [(start, length)].into_iter());
                assert_eq!(written.count(130), length);
                for byte in 0..130 {
                    assert_eq!(written.contains(byte), (start..start + length).contains(&byte));
                }
            }
        }
    }
}
