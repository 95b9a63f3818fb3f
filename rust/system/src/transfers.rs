//! Sizes of transfers and of their descriptors, and the bytes that moved at each time.

use crate::timeline::Timeline;
use std::collections::BTreeMap;
use trn3_sim::Picos;

/// Transfers, or descriptors, of about one size.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct SizeClass {
    /// How many.
    pub count: u64,
    /// Bytes that they wrote in all.
    pub bytes: u64,
}

/// Sizes by power of two: class n holds sizes from 2^n to below 2^(n+1).
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Sizes {
    /// Whole transfers.
    pub transfers: BTreeMap<u32, SizeClass>,
    /// Descriptors, each taken as the mean descriptor of its transfer.
    pub descriptors: BTreeMap<u32, SizeClass>,
}

fn class_of(bytes: u64) -> u32 {
    bytes.max(1).ilog2()
}

/// HBM bytes of a span of time.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct HbmBytes {
    /// Read.
    pub read: u64,
    /// Written.
    pub written: u64,
}

impl Timeline {
    /// The sizes of all transfers.
    pub fn transfer_sizes(&self) -> Sizes {
        let mut sizes = Sizes::default();
        for (_, completion) in &self.completions {
            let bytes = completion.transfer.written_bytes();
            let count = completion.engines.iter().map(|work| work.descriptors).sum::<u64>();
            let whole = sizes.transfers.entry(class_of(bytes)).or_default();
            whole.count += 1;
            whole.bytes += bytes;
            let each = sizes.descriptors.entry(class_of(bytes / count.max(1))).or_default();
            each.count += count;
            each.bytes += bytes;
        }
        sizes
    }

    /// Busy time of each DMA engine.
    pub fn dma_busy(&self) -> Vec<Picos> {
        let engines = self.completions.iter().map(|(_, completion)| completion.engines.len()).max().unwrap_or(0);
        let mut busy = vec![Picos::ZERO; engines];
        for (_, completion) in &self.completions {
            for (sum, work) in busy.iter_mut().zip(&completion.engines) {
                *sum += work.busy;
            }
        }
        busy
    }

    /// HBM bytes in `bins` equal spans of the run. A transfer's bytes are spread evenly from its first to its last; their
    /// sum over all bins is exact.
    pub fn hbm_traffic(&self, bins: usize) -> Vec<HbmBytes> {
        let mut traffic = vec![HbmBytes::default(); bins];
        let total = self.total.0;
        if total == 0 || bins == 0 {
            return traffic;
        }
        let edge = |bin: usize| (u128::from(total) * bin as u128 / bins as u128) as u64;
        let bin_of = |at: u64| ((u128::from(at) * bins as u128 / u128::from(total)) as usize).min(bins - 1);
        for (_, completion) in &self.completions {
            let hbm = &completion.transfer.hbm;
            let (read, written) = (hbm.read_bytes, hbm.written_bytes);
            let (start, end) = (completion.first_byte.0, completion.done.0.max(completion.first_byte.0 + 1));
            let by = |bytes: u64, at: u64| {
                let passed = u128::from(at.clamp(start, end) - start);
                (u128::from(bytes) * passed / u128::from(end - start)) as u64
            };
            let (first, last) = (bin_of(start), bin_of(end - 1));
            for (bin, sum) in traffic.iter_mut().enumerate().take(last + 1).skip(first) {
                let from = if bin == first { start } else { edge(bin) };
                let to = if bin == last { end } else { edge(bin + 1) };
                sum.read += by(read, to) - by(read, from);
                sum.written += by(written, to) - by(written, from);
            }
        }
        traffic
    }
}
