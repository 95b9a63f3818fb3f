//! Addresses in SBUF, PSUM and HBM, and the host slabs behind them.
//!
//! On chip, tensors are placed in the order of their first use. A cursor goes round the memory, so that an address is
//! used again as late as the capacity allows: reuse creates waits. Where that leaves gaps too small for a tensor, all are
//! placed again, each in the smallest gap that holds it. Host slabs are used again as early as possible
//! instead, to stay in the host's caches; that has no effect on anything a user sees. Addresses of the user's own are kept,
//! and the others go where no such tensor lives at the same time.

use crate::liveness::Lifetime;
use crate::program::Place;
use std::collections::BTreeMap;
use trn3_isa::Finding;
use trn3_mem::{Fault, Role, Space, TensorInfo, Violation};
use trn3_spec::Target;

/// One memory being filled.
#[derive(Debug)]
pub(crate) struct Region {
    capacity: u64,
    align: u64,
    fit: Fit,
    cursor: u64,
    /// Live pieces: start to (size, last use, tensor).
    live: BTreeMap<u64, (u64, u32, usize)>,
    ends: BTreeMap<(u32, u64), ()>,
    addressed: Vec<Addressed>,
}

/// Which of the gaps that hold a tensor it gets.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Fit {
    /// The first from where the last tensor ended: reuse is late.
    Next,
    /// The smallest: little is lost between tensors.
    Best,
}

/// A tensor at an address of the user's own.
#[derive(Debug)]
struct Addressed {
    bytes: (u64, u64),
    life: Lifetime,
}

impl Region {
    fn new(capacity: u64, align: u64, fit: Fit) -> Region {
        let (live, ends) = (BTreeMap::new(), BTreeMap::new());
        Region { capacity, align: align.max(1), fit, cursor: 0, live, ends, addressed: Vec::new() }
    }

    /// A memory of the core, empty but for the tensors at addresses of the user's own.
    pub(crate) fn of(
        target: &Target,
        space: Space,
        fit: Fit,
        tensors: &[TensorInfo],
        lives: &[Option<Lifetime>],
    ) -> Region {
        let psum = &target.core.psum;
        let mut region = match space {
            Space::Psum => Region::new(psum.partition_bytes(), psum.bank_bytes, fit),
            _ => Region::new(target.core.sbuf.usable_bytes(), SBUF_ALIGN_BYTES, fit),
        };
        for (info, life) in tensors.iter().zip(lives).filter(|(info, _)| info.space == space) {
            if let (Some((_, byte)), &Some(life)) = (info.address, life) {
                let start = u64::from(byte);
                region.addressed.push(Addressed { bytes: (start, start + info.partition_bytes()), life });
            }
        }
        region
    }

    fn release_before(&mut self, first: u32) {
        while let Some((&(last, start), ())) = self.ends.first_key_value() {
            if last >= first {
                break;
            }
            self.ends.pop_first();
            self.live.remove(&start);
        }
    }

    /// The first gap of `size` bytes from `from` on that the tensors at addresses of the user's own leave during `life`.
    fn gap(&self, from: u64, until: u64, size: u64, life: Lifetime) -> Option<u64> {
        let mut at = from;
        loop {
            at = self.free_from(at, size);
            let meets = |each: &&Addressed| each.bytes.0 < at + size && at < each.bytes.1 && each.life.meets(life);
            match self.addressed.iter().filter(meets).map(|each| each.bytes.1).max() {
                Some(end) => at = end.next_multiple_of(self.align),
                None => break,
            }
        }
        (at + size <= until).then_some(at)
    }

    /// Where `size` bytes are free among the pieces that are live, from `from` on.
    fn free_from(&self, from: u64, size: u64) -> u64 {
        let mut at = from;
        if let Some((&start, &(length, _, _))) = self.live.range(..from).next_back() {
            at = at.max(start + length);
        }
        for (&start, &(length, _, _)) in self.live.range(from..) {
            if start >= at + size {
                break;
            }
            at = start + length;
        }
        at
    }

    fn place(&mut self, bytes: u64, life: Lifetime, tensor: usize) -> Option<u64> {
        self.release_before(life.first);
        let at = self.find(bytes, life)?;
        self.occupy(at, bytes, life, tensor);
        self.ends.insert((life.last, at), ());
        Some(at)
    }

    /// Bytes that a tensor takes, with what its alignment wastes.
    pub(crate) fn rounded(&self, bytes: u64) -> u64 {
        bytes.div_ceil(self.align) * self.align
    }

    /// A gap that holds a tensor.
    pub(crate) fn find(&self, bytes: u64, life: Lifetime) -> Option<u64> {
        let size = self.rounded(bytes);
        let gap = |from| self.gap(from, self.capacity, size, life);
        match self.fit {
            Fit::Next => gap(self.cursor).or_else(|| gap(0)),
            Fit::Best => {
                let mut best: Option<(u64, u64)> = None;
                let mut from = 0;
                while let Some(at) = gap(from) {
                    let end = self.live.range(at..).next().map_or(self.capacity, |(&start, _)| start);
                    best = best.min(Some((end - at, at))).or(Some((end - at, at)));
                    from = end.max(at + size);
                }
                best.map(|(_, at)| at)
            }
        }
    }

    /// Puts a tensor at an address, until it is freed.
    pub(crate) fn occupy(&mut self, at: u64, bytes: u64, life: Lifetime, tensor: usize) {
        let size = self.rounded(bytes);
        self.cursor = (at + size) % self.capacity;
        self.live.insert(at, (size, life.last, tensor));
    }

    /// Frees what starts at an address.
    pub(crate) fn free(&mut self, at: u64) {
        self.live.remove(&at);
    }

    /// Addresses of the tensors that lie in `start..end` in whole or in part.
    pub(crate) fn within(&self, start: u64, end: u64) -> impl Iterator<Item = u64> {
        let before = self.live.range(..start).next_back().filter(|(at, (size, _, _))| *at + size > start);
        before.into_iter().chain(self.live.range(start..end)).map(|(&at, _)| at)
    }

    /// Places for `size` bytes besides which no other need be tried: those next to a tensor, free of the addresses of
    /// the user's own.
    pub(crate) fn starts(&self, size: u64, life: Lifetime) -> Vec<u64> {
        let fixed: Vec<&Addressed> = self.addressed.iter().filter(|each| each.life.meets(life)).collect();
        let after = |end: u64| end.next_multiple_of(self.align);
        let mut starts: Vec<u64> = std::iter::once(0)
            .chain(self.live.iter().flat_map(|(&at, &(length, _, _))| [at, at + length]))
            .chain(fixed.iter().map(|each| after(each.bytes.1)))
            .filter(|&start| start + size <= self.capacity)
            .filter(|&start| !fixed.iter().any(|each| each.bytes.0 < start + size && start < each.bytes.1))
            .collect();
        starts.sort_unstable();
        starts.dedup();
        starts
    }
}

/// Free host slabs by size.
#[derive(Default)]
struct Slabs {
    sizes: Vec<u64>,
    free: BTreeMap<u64, Vec<u32>>,
    ends: BTreeMap<(u32, u32), u64>,
}

impl Slabs {
    fn take(&mut self, bytes: u64, life: Lifetime) -> u32 {
        while let Some((&(last, slab), &size)) = self.ends.first_key_value() {
            if last >= life.first {
                break;
            }
            self.ends.pop_first();
            self.free.entry(size).or_default().push(slab);
        }
        let slab = self.free.get_mut(&bytes).and_then(Vec::pop).unwrap_or_else(|| self.own(bytes));
        self.ends.insert((life.last, slab), bytes);
        slab
    }

    fn own(&mut self, bytes: u64) -> u32 {
        self.sizes.push(bytes);
        (self.sizes.len() - 1) as u32
    }
}

/// Places every tensor: places by tensor, and the sizes of the host slabs. `planned` are addresses in SBUF that a plan
/// has found already, by tensor.
///
/// # Errors
/// `capacity.psum` or `capacity.sbuf`, at the line that declared the tensor that does not fit.
pub(crate) fn place(
    target: &Target,
    tensors: &[TensorInfo],
    lives: &[Option<Lifetime>],
    is_output: &[bool],
    planned: &[Option<u64>],
    cores: u8,
) -> Result<(Vec<Place>, Vec<u64>), Box<Finding>> {
    let placed = |fit| place_by(target, fit, tensors, lives, is_output, planned, cores);
    placed(Fit::Next).or_else(|_| placed(Fit::Best))
}

fn place_by(
    target: &Target,
    fit: Fit,
    tensors: &[TensorInfo],
    lives: &[Option<Lifetime>],
    is_output: &[bool],
    planned: &[Option<u64>],
    cores: u8,
) -> Result<(Vec<Place>, Vec<u64>), Box<Finding>> {
    let mut order: Vec<usize> = (0..tensors.len()).collect();
    order.sort_by_key(|&id| (lives[id].map_or(u32::MAX, |life| life.first), id));
    let mut sbuf_region = Region::of(target, Space::Sbuf, fit, tensors, lives);
    let mut psum_region = Region::of(target, Space::Psum, fit, tensors, lives);
    let mut slabs = Slabs::default();
    let mut places = vec![Place { address: 0, slab: 0 }; tensors.len()];
    let mut hbm_address = 0u64;
    for id in order {
        let info = &tensors[id];
        // What both cores use is handed from one to the other as a whole.
        let shared = cores > 1 && info.space == Space::SharedHbm;
        let owned = info.role == Role::Internal && !is_output[id] && !shared;
        let Some(life) = lives[id] else {
            places[id].slab = slabs.own(info.bytes());
            continue;
        };
        places[id].slab = if owned { slabs.take(info.bytes(), life) } else { slabs.own(info.bytes()) };
        places[id].address = match info.space {
            Space::Sbuf if planned.get(id).is_some_and(Option::is_some) => planned[id].expect("just found"),
            Space::Sbuf | Space::Psum if info.address.is_some() => u64::from(info.origin().1),
            Space::Sbuf => sbuf_region
                .place(info.partition_bytes(), life, id)
                .ok_or_else(|| over_capacity(info, &sbuf_region, tensors, "capacity.sbuf", "sbuf"))?,
            Space::Psum => psum_region
                .place(info.partition_bytes(), life, id)
                .ok_or_else(|| over_capacity(info, &psum_region, tensors, "capacity.psum", "psum"))?,
            Space::PrivateHbm | Space::SharedHbm => {
                let address = hbm_address;
                hbm_address += info.bytes().div_ceil(HBM_ALIGN_BYTES) * HBM_ALIGN_BYTES;
                address
            }
        };
    }
    Ok((places, slabs.sizes))
}

/// Alignment that the recorder gives SBUF tensors (its own choice; the hardware's is finer).
const SBUF_ALIGN_BYTES: u64 = 32;
/// Alignment that the recorder gives HBM tensors (its own choice).
const HBM_ALIGN_BYTES: u64 = 64;

fn over_capacity(
    info: &TensorInfo,
    region: &Region,
    tensors: &[TensorInfo],
    rule: &'static str,
    memory: &'static str,
) -> Box<Finding> {
    let used: u64 = region.live.values().map(|&(size, _, _)| size).sum();
    let mut owners: Vec<(u64, &str)> =
        region.live.values().map(|&(size, _, tensor)| (size, tensors[tensor].name.as_str())).collect();
    owners.sort_by(|a, b| b.cmp(a));
    owners.truncate(4);
    let owners = owners.iter().map(|(size, name)| format!("{name} {size}")).collect::<Vec<_>>().join(", ");
    let value = format!(
        "{} {:?} needs {} bytes a partition, {used} of {} are in use by {} tensors (largest: {owners})",
        info.name,
        info.shape.as_slice(),
        info.partition_bytes(),
        region.capacity,
        region.live.len(),
    );
    let fix = "use smaller or fewer tiles at a time, or stop using older tiles earlier";
    let violation = Violation::new(rule, memory, value, format!("limit {} bytes a partition", region.capacity), fix)
        .of(Fault::Capacity)
        .in_instruction("ndarray");
    Box::new(Finding { violation, line: info.line })
}

#[cfg(test)]
mod tests {
    use super::{Fit, Lifetime, Region};

    fn life(first: u32, last: u32) -> Lifetime {
        Lifetime { first, last }
    }

    #[test]
    fn addresses_are_reused_as_late_as_possible() {
        let mut region = Region::new(400, 100, Fit::Next);
        assert_eq!(region.place(100, life(0, 1), 0), Some(0));
        assert_eq!(region.place(100, life(2, 3), 1), Some(100));
        assert_eq!(region.place(100, life(4, 5), 2), Some(200));
        assert_eq!(region.place(100, life(6, 7), 3), Some(300));
        assert_eq!(region.place(100, life(8, 9), 4), Some(0));
    }

    #[test]
    fn a_full_region_refuses_and_a_gap_is_found() {
        let mut region = Region::new(300, 100, Fit::Next);
        assert_eq!(region.place(100, life(0, 9), 0), Some(0));
        assert_eq!(region.place(100, life(0, 2), 1), Some(100));
        assert_eq!(region.place(100, life(0, 9), 2), Some(200));
        assert_eq!(region.place(1, life(1, 1), 3), None);
        assert_eq!(region.place(100, life(3, 3), 4), Some(100));
    }

    #[test]
    fn the_best_gap_is_the_smallest_that_holds_the_tensor() {
        let mut region = Region::new(1000, 100, Fit::Best);
        for (tensor, (size, last)) in [(300, 1), (100, 9), (200, 1), (100, 9)].into_iter().enumerate() {
            assert!(region.place(size, life(0, last), tensor).is_some());
        }
        // Gaps of 300 at 0, of 200 at 400, and of 300 at 700.
        assert_eq!(region.place(200, life(2, 9), 4), Some(400));
        assert_eq!(region.place(200, life(2, 9), 5), Some(0));
        assert_eq!(region.place(100, life(2, 9), 6), Some(200));
        assert_eq!(region.place(300, life(2, 9), 7), Some(700));
        assert_eq!(region.place(100, life(2, 9), 8), None);
    }
}
