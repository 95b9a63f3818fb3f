//! A stack of HBM as a server of bandwidth that DMA engines share.
//!
//! An engine that moves a job asks for a share of the stack: the time that the job's bytes take at the stack's sustained
//! rate, over the time that the engine takes by itself. While the shares sum to less than the stack, nobody notices;
//! otherwise the stack is divided max-min fairly: engines that ask for little get it, the rest get equal shares, and an
//! engine runs as much slower as its share is smaller than what it asked for. Reads and writes both count.
//!
//! Left out: channels, banks and rows (their loss is in the sustained rate), and latency, which is inside the DMA's
//! start.
//!
//! Invariants: all arithmetic is on integers; what is handed out never exceeds the stack.

use trn3_sim::time::PICOS_PER_SECOND;

use crate::spec::DmaSpec;

/// A whole stack, and the speed of an engine that nobody holds back: shares and rates are in units of 2⁻³².
pub(crate) const WHOLE: u64 = 1 << 32;

/// Bandwidth of a stack, and what small pieces do to it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct StackSpec {
    /// What streaming pieces reach a second: `HBM_BW · HBM_EFF`.
    pub bandwidth_bytes_per_s: u64,
    /// What small pieces reach: `HBM_BW · HBM_EFF_SMALL`.
    pub small_bandwidth_bytes_per_s: u64,
    /// Pieces below this are small.
    pub small_bytes: u64,
    /// `HBM_GRAIN`: accesses are whole grains.
    pub grain_bytes: u64,
    /// Neighbouring cores that share a stack.
    pub cores: u8,
}

impl StackSpec {
    /// The stacks of `target`.
    ///
    /// # Panics
    ///
    /// If a stack moves nothing, or more than 255 cores share it.
    #[must_use]
    pub fn new(target: &trn3_spec::Target) -> StackSpec {
        let hbm = &target.chip.hbm;
        // One correctly rounded product of two table values: the same on every machine.
        let sustained = |ratio: f64| (hbm.stack_bandwidth_peak_bytes_per_s as f64 * ratio).round() as u64;
        let spec = StackSpec {
            bandwidth_bytes_per_s: sustained(hbm.efficiency_ratio),
            small_bandwidth_bytes_per_s: sustained(hbm.small_efficiency_ratio),
            small_bytes: hbm.small_bytes,
            grain_bytes: hbm.grain_bytes.max(1),
            cores: u8::try_from(target.chip.cores.div_ceil(hbm.stacks)).expect("at most 255 cores share a stack"),
        };
        assert!(spec.bandwidth_bytes_per_s > 0 && spec.small_bandwidth_bytes_per_s > 0, "a stack moves bytes");
        spec
    }

    /// How long the stack is taken by one access to `bytes` in a row, in 2⁻³² ps. A write that is smaller than a grain
    /// also reads the grain.
    #[must_use]
    pub fn occupancy(&self, bytes: u64, writes: bool) -> u128 {
        if bytes == 0 {
            return 0;
        }
        let grains = bytes.next_multiple_of(self.grain_bytes);
        let moved = if writes && bytes < self.grain_bytes { 2 * grains } else { grains };
        let bandwidth =
            if bytes < self.small_bytes { self.small_bandwidth_bytes_per_s } else { self.bandwidth_bytes_per_s };
        u128::from(moved) * u128::from(PICOS_PER_SECOND) * u128::from(WHOLE) / u128::from(bandwidth)
    }
}

/// What a transfer has to do with HBM.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct HbmTraffic {
    /// Bytes read from it, over the whole transfer.
    pub read_bytes: u64,
    /// Bytes written to it.
    pub written_bytes: u64,
    /// The longest piece that lies contiguous there; a descriptor that moves more touches several.
    pub piece_bytes: u64,
}

impl HbmTraffic {
    /// How long a stack is taken by `part` of `whole` equal units of the transfer that one descriptor moves, in 2⁻³² ps.
    pub(crate) fn occupancy(&self, spec: &DmaSpec, part: u64, whole: u64) -> u128 {
        let stack = &spec.stack;
        let of = |total: u64, writes: bool| {
            let bytes = (u128::from(total) * u128::from(part) / u128::from(whole)) as u64;
            if bytes <= self.piece_bytes {
                return stack.occupancy(bytes, writes);
            }
            let (pieces, rest) = (bytes / self.piece_bytes.max(1), bytes % self.piece_bytes.max(1));
            u128::from(pieces) * stack.occupancy(self.piece_bytes, writes) + stack.occupancy(rest, writes)
        };
        of(self.read_bytes, false) + of(self.written_bytes, true)
    }
}

/// What the engines ask of a stack now, and what they get.
#[derive(Clone, Debug)]
pub(crate) struct Stack {
    /// The share that each engine asks for.
    demands: Vec<u64>,
    total: u64,
    /// The most that one engine gets.
    level: u64,
    changed: bool,
    sorted: Vec<u64>,
}

impl Stack {
    pub(crate) fn new(engines: usize) -> Stack {
        Stack { demands: vec![0; engines], total: 0, level: u64::MAX, changed: false, sorted: Vec::new() }
    }

    /// From now on `engine` asks for that share.
    pub(crate) fn ask(&mut self, engine: usize, demand: u64) {
        let before = std::mem::replace(&mut self.demands[engine], demand);
        self.total = self.total - before + demand;
        self.changed |= before != demand;
    }

    /// Divides the stack anew; whether that may have changed anybody's rate.
    pub(crate) fn divide(&mut self) -> bool {
        if !std::mem::take(&mut self.changed) {
            return false;
        }
        let before = self.level;
        self.level = if self.total <= WHOLE { u64::MAX } else { self.water_level() };
        // Where nobody is held back, whoever begins or ends does not matter to the others.
        self.level != u64::MAX || before != u64::MAX
    }

    /// The largest equal share: what is left to those who ask for more, when all who ask for less have got it.
    fn water_level(&mut self) -> u64 {
        self.sorted.clear();
        self.sorted.extend(self.demands.iter().copied().filter(|&demand| demand > 0));
        self.sorted.sort_unstable();
        let (mut left, mut sharers) = (WHOLE, self.sorted.len() as u64);
        for &demand in &self.sorted {
            let equal = left / sharers;
            if demand > equal {
                return equal;
            }
            left -= demand;
            sharers -= 1;
        }
        u64::MAX
    }

    /// How fast an engine may move, against [`WHOLE`].
    pub(crate) fn rate(&self, engine: usize) -> u64 {
        let demand = self.demands[engine];
        if demand <= self.level {
            return WHOLE;
        }
        // Unless one engine has the whole stack, the product fits; 64 bits are divided much faster.
        match self.level.checked_mul(WHOLE) {
            Some(product) => product / demand,
            None => (u128::from(self.level) * u128::from(WHOLE) / u128::from(demand)) as u64,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::spec::tests::{v3, v4};
    use proptest::prelude::*;

    #[test]
    fn a_stack_sustains_what_the_table_says() {
        // timing.md section 9: 0.95 of 716 and of 1225 GB/s, 0.7 for pieces below 512 B; two cores a stack.
        assert_eq!(v3().stack.bandwidth_bytes_per_s, 680_200_000_000);
        assert_eq!(v4().stack.bandwidth_bytes_per_s, 1_163_750_000_000);
        assert_eq!(v4().stack.small_bandwidth_bytes_per_s, 857_500_000_000);
        assert_eq!((v3().stack.cores, v4().stack.cores), (2, 2));
    }

    #[test]
    fn small_pieces_cost_more() {
        let stack = v4().stack;
        let ps = |bytes, writes| (stack.occupancy(bytes, writes) >> 32) as u64;
        assert_eq!(ps(512, false), 512_000 * 1000 / 1_163_750);
        assert_eq!(ps(511, false), 512_000 * 1000 / 857_500, "whole grains at the lower rate");
        assert_eq!(ps(64, true), ps(64, false));
        assert_eq!(stack.occupancy(63, true), 2 * stack.occupancy(64, false), "read, then written");
        assert_eq!(stack.occupancy(63, false), stack.occupancy(64, false));
        assert_eq!(stack.occupancy(0, true), 0);
    }

    fn divided(demands: &[u64]) -> Stack {
        let mut stack = Stack::new(demands.len());
        demands.iter().enumerate().for_each(|(engine, &demand)| stack.ask(engine, demand));
        stack.divide();
        stack
    }

    #[test]
    fn those_who_ask_for_little_get_it() {
        let stack = divided(&[WHOLE / 8, WHOLE, WHOLE / 2, 0]);
        assert_eq!(stack.level, WHOLE / 16 * 7);
        assert_eq!([0, 1, 2, 3].map(|engine| stack.rate(engine)), [WHOLE, WHOLE / 16 * 7, WHOLE / 8 * 7, WHOLE]);
        assert_eq!(divided(&[WHOLE / 2, WHOLE / 2]).rate(0), WHOLE, "a stack that is just full holds nobody back");
        assert!(divided(&[WHOLE / 2, WHOLE / 2 + 1]).rate(1) < WHOLE);
    }

    proptest! {
        #[test]
        fn shares_are_max_min_fair(demands in prop::collection::vec(0..WHOLE, 1..40)) {
            let stack = divided(&demands);
            let share = |engine: usize| u128::from(demands[engine]) * u128::from(stack.rate(engine)) / u128::from(WHOLE);
            let shares: Vec<u128> = (0..demands.len()).map(share).collect();
            let handed_out: u128 = shares.iter().sum();
            prop_assert!(handed_out <= u128::from(WHOLE));
            let wanted: u128 = demands.iter().map(|&demand| u128::from(demand)).sum();
            // Each sharer loses less than one unit to rounding of the level and one to that of the rate.
            prop_assert!(handed_out + 3 * demands.len() as u128 >= wanted.min(u128::from(WHOLE)));
            let largest = *shares.iter().max().expect("there is an engine");
            for (engine, share) in shares.iter().enumerate() {
                prop_assert!(stack.rate(engine) == WHOLE || share + 2 >= largest, "who is held back has the most");
            }
        }
    }
}
