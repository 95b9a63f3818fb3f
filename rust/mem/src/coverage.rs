//! Which elements of a tensor have been written.

/// Bytes that one chunk of the map stands for.
const CHUNK_BYTES: u64 = 1 << 16;
const CHUNK_WORDS: usize = (CHUNK_BYTES / 64) as usize;

/// The written bytes of one chunk: how many, and which, unless none or all are.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
struct Chunk {
    set: u32,
    bits: Option<Box<[u64; CHUNK_WORDS]>>,
}

impl Chunk {
    /// Marks `length` bytes from `start` on, of the `size` bytes that the chunk has; gives how many are new.
    fn mark(&mut self, start: u64, length: u64, size: u64) -> u64 {
        if u64::from(self.set) == size {
            return 0;
        }
        if length == size {
            let added = size - u64::from(self.set);
            *self = Chunk { set: size as u32, bits: None };
            return added;
        }
        let bits = self.bits.get_or_insert_with(|| Box::new([0; CHUNK_WORDS]));
        let mut added = 0;
        for (word, mask) in words(start, length) {
            added += u64::from((mask & !bits[word]).count_ones());
            bits[word] |= mask;
        }
        self.set += added as u32;
        if u64::from(self.set) == size {
            self.bits = None;
        }
        added
    }

    /// The written bytes as runs, of the `size` bytes that the chunk has.
    fn runs(&self, size: u64) -> Vec<(u64, u64)> {
        let Some(bits) = &self.bits else {
            return if self.set > 0 { vec![(0, size)] } else { Vec::new() };
        };
        let written = |at: u64| bits[(at / 64) as usize] >> (at % 64) & 1 == 1;
        let mut runs: Vec<(u64, u64)> = Vec::new();
        for at in (0..size).filter(|&at| written(at)) {
            match runs.last_mut() {
                Some((start, length)) if *start + *length == at => *length += 1,
                _ => runs.push((at, 1)),
            }
        }
        runs
    }

    fn count(&self, start: u64, length: u64) -> u64 {
        match &self.bits {
            None if self.set > 0 => length,
            None => 0,
            Some(bits) => words(start, length).map(|(word, mask)| u64::from((bits[word] & mask).count_ones())).sum(),
        }
    }
}

/// The written bytes of a tensor of which some are written and some are not.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Map {
    chunks: Vec<Chunk>,
    set: u64,
    bytes: u64,
}

impl Map {
    fn new(bytes: u64) -> Map {
        Map { chunks: vec![Chunk::default(); bytes.div_ceil(CHUNK_BYTES) as usize], set: 0, bytes }
    }

    fn mark(&mut self, start: u64, length: u64) {
        for (chunk, first, count) in pieces(start, length) {
            let size = CHUNK_BYTES.min(self.bytes - chunk as u64 * CHUNK_BYTES);
            self.set += self.chunks[chunk].mark(first, count, size);
        }
    }

    fn count(&self, start: u64, length: u64) -> u64 {
        pieces(start, length).map(|(chunk, first, count)| self.chunks[chunk].count(first, count)).sum()
    }
}

/// A run cut at chunk boundaries: chunk, first byte in it, length.
fn pieces(start: u64, length: u64) -> impl Iterator<Item = (usize, u64, u64)> {
    let end = start + length;
    let chunks = if length == 0 { 0..0 } else { start / CHUNK_BYTES..(end - 1) / CHUNK_BYTES + 1 };
    chunks.map(move |chunk| {
        let base = chunk * CHUNK_BYTES;
        let first = start.max(base) - base;
        (chunk as usize, first, end.min(base + CHUNK_BYTES) - base - first)
    })
}

/// The set of written bytes of one tensor, exact at byte granularity.
///
/// Whole-tensor writes, by far the most frequent, keep no map, and a map keeps bits only where it must: a tensor of
/// 100 GiB of which one tile is written costs a few megabytes.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Coverage {
    /// Nothing is written.
    Empty,
    /// Everything is written.
    Full,
    /// Some bytes are.
    Partial(Map),
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
                *self = Coverage::Partial(Map::new(bytes));
            }
            let Coverage::Partial(map) = self else { return };
            map.mark(start, length);
            if map.set == bytes {
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
            Coverage::Partial(map) => runs.all(|(start, length)| map.count(start, length) == length),
        }
    }

    /// Whether any byte of the runs is written.
    pub fn touches(&self, mut runs: impl Iterator<Item = (u64, u64)>) -> bool {
        match self {
            Coverage::Full => runs.any(|(_, length)| length > 0),
            Coverage::Empty => false,
            Coverage::Partial(map) => runs.any(|(start, length)| map.count(start, length) > 0),
        }
    }

    /// Whether the byte is written.
    pub fn contains(&self, byte: u64) -> bool {
        self.covers(std::iter::once((byte, 1)))
    }

    /// Adds what another set of the same tensor holds.
    pub fn join(&mut self, bytes: u64, other: &Coverage) {
        match other {
            Coverage::Empty => {}
            Coverage::Full => *self = Coverage::Full,
            Coverage::Partial(map) => {
                let runs = map.chunks.iter().enumerate().flat_map(|(number, chunk)| {
                    let base = number as u64 * CHUNK_BYTES;
                    let size = CHUNK_BYTES.min(map.bytes - base);
                    chunk.runs(size).into_iter().map(move |(start, length)| (base + start, length))
                });
                self.mark(bytes, runs);
            }
        }
    }

    /// Bytes written, of a tensor of `bytes`.
    pub fn count(&self, bytes: u64) -> u64 {
        match self {
            Coverage::Full => bytes,
            Coverage::Empty => 0,
            Coverage::Partial(map) => map.set,
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
    fn runs_across_chunks_are_counted_once() {
        let (bytes, chunk) = (200_000, 65_536);
        let mut written = Coverage::Empty;
        written.mark(bytes, [(10, 70_000), (chunk, 2 * chunk)].into_iter());
        assert_eq!(written.count(bytes), 3 * chunk - 10);
        assert!(written.covers([(10, 3 * chunk - 10)].into_iter()));
        assert!(!written.contains(3 * chunk) && !written.contains(9));
        written.mark(bytes, [(0, 10), (3 * chunk, bytes - 3 * chunk)].into_iter());
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
