//! What lies in SBUF and PSUM, when, and who owns the bytes at the peak.
//!
//! A tensor lives from the issue of the first instruction that touches it to the result of the last. It takes its bytes
//! in every partition, also where it has fewer partitions: placement gives addresses, not rectangles. Tensors that lie on
//! the same addresses (the user's own choice) count once. Tensors that no instruction touches take nothing.

use crate::timeline::Timeline;
use trn3_mem::Space;
use trn3_program::Program;
use trn3_sim::Picos;
use trn3_spec::Target;

/// A tensor in one of the core's memories.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Resident {
    /// Its number in the Program.
    pub tensor: u32,
    /// First byte in each partition.
    pub address: u64,
    /// Bytes in each partition.
    pub bytes: u64,
    /// From the issue of its first instruction.
    pub start: Picos,
    /// To the result of its last.
    pub end: Picos,
    /// The first instruction of the Program that touches it, in program order.
    pub first: u32,
    /// The last.
    pub last: u32,
}

/// Bytes in use, and the most that there ever are.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Curve {
    /// Bytes a partition from a moment on, at each moment at which they change; the first is moment 0.
    pub points: Vec<(u64, u64)>,
    /// The first moment of the peak.
    pub peak_at: u64,
    /// Bytes a partition at the peak.
    pub peak_bytes: u64,
}

/// One memory of a core during a run.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Occupancy {
    /// SBUF or PSUM.
    pub space: Space,
    /// Bytes of a partition that programs may use.
    pub capacity: u64,
    /// Tensors in the order of their start.
    pub residents: Vec<Resident>,
    /// Over time, in picoseconds.
    pub time: Curve,
    /// Over the instructions in program order.
    pub order: Curve,
}

impl Occupancy {
    /// The tensors that are there at a moment of the run, largest first.
    pub fn owners(&self, at: Picos) -> Vec<Resident> {
        let there = |resident: &&Resident| resident.start <= at && at < resident.end;
        let mut owners: Vec<Resident> = self.residents.iter().filter(there).copied().collect();
        owners.sort_by(|a, b| b.bytes.cmp(&a.bytes).then(a.address.cmp(&b.address)).then(a.tensor.cmp(&b.tensor)));
        owners
    }
}

/// Bytes that intervals of addresses cover, as intervals come and go.
struct Covered {
    /// Edges of all intervals, ascending.
    edges: Vec<u64>,
    /// How many intervals lie between an edge and the next.
    counts: Vec<u32>,
    bytes: u64,
}

impl Covered {
    fn new(residents: &[Resident]) -> Covered {
        let mut edges: Vec<u64> =
            residents.iter().flat_map(|resident| [resident.address, resident.address + resident.bytes]).collect();
        edges.sort_unstable();
        edges.dedup();
        Covered { counts: vec![0; edges.len()], edges, bytes: 0 }
    }

    fn between(&self, resident: &Resident) -> std::ops::Range<usize> {
        let edge = |at: u64| self.edges.partition_point(|&edge| edge < at);
        edge(resident.address)..edge(resident.address + resident.bytes)
    }

    fn add(&mut self, resident: &Resident) {
        for at in self.between(resident) {
            self.counts[at] += 1;
            if self.counts[at] == 1 {
                self.bytes += self.edges[at + 1] - self.edges[at];
            }
        }
    }

    fn remove(&mut self, resident: &Resident) {
        for at in self.between(resident) {
            self.counts[at] -= 1;
            if self.counts[at] == 0 {
                self.bytes -= self.edges[at + 1] - self.edges[at];
            }
        }
    }
}

/// The curve over moments; a life reaches from its first moment to before its second.
fn curve(residents: &[Resident], life: impl Fn(&Resident) -> (u64, u64)) -> Curve {
    // At one moment, what ends goes before what starts.
    let mut events: Vec<(u64, bool, usize)> = Vec::with_capacity(2 * residents.len());
    for (number, resident) in residents.iter().enumerate() {
        let (start, end) = life(resident);
        if start < end {
            events.extend([(start, true, number), (end, false, number)]);
        }
    }
    events.sort_unstable();
    let mut covered = Covered::new(residents);
    let mut curve = Curve { points: vec![(0, 0)], peak_at: 0, peak_bytes: 0 };
    for moment in events.chunk_by(|a, b| a.0 == b.0) {
        for &(_, starts, number) in moment {
            if starts { covered.add(&residents[number]) } else { covered.remove(&residents[number]) }
        }
        let at = moment[0].0;
        let (last, known) = *curve.points.last().expect("it starts with moment 0");
        if last == at {
            curve.points.pop();
        }
        if last == at || known != covered.bytes {
            curve.points.push((at, covered.bytes));
        }
        if covered.bytes > curve.peak_bytes {
            (curve.peak_at, curve.peak_bytes) = (at, covered.bytes);
        }
    }
    curve
}

impl Timeline {
    /// What lies in one of the core's memories.
    ///
    /// # Panics
    /// If `space` is not on chip.
    pub fn occupancy(&self, program: &Program, target: &Target, space: Space) -> Occupancy {
        let capacity = match space {
            Space::Sbuf => target.core.sbuf.usable_bytes(),
            Space::Psum => target.core.psum.partition_bytes(),
            Space::PrivateHbm | Space::SharedHbm => panic!("HBM has no partitions"),
        };
        let residents = self.residents(program, space);
        let time = curve(&residents, |resident| (resident.start.0, resident.end.0));
        let order = curve(&residents, |resident| (u64::from(resident.first), u64::from(resident.last) + 1));
        Occupancy { space, capacity, residents, time, order }
    }

    fn residents(&self, program: &Program, space: Space) -> Vec<Resident> {
        let mut lives: Vec<Option<(Picos, Picos)>> = vec![None; program.tensors.len()];
        for (at, time) in self.schedule.times.iter().enumerate() {
            let instruction = &program.instructions[self.schedule.instances.instruction(at)];
            for operand in instruction.operands.iter().filter(|operand| operand.is_some()) {
                let life = lives[operand.tensor.index()].get_or_insert((time.issue, time.end));
                *life = (life.0.min(time.issue), life.1.max(time.end));
            }
        }
        let order = program.lifetimes();
        let mut residents = Vec::new();
        for (number, info) in program.tensors.iter().enumerate().filter(|(_, info)| info.space == space) {
            let (Some((start, end)), Some(order)) = (lives[number], order[number]) else { continue };
            let (address, bytes) = (program.places[number].address, info.partition_bytes());
            let (first, last) = (order.first, order.last);
            residents.push(Resident { tensor: number as u32, address, bytes, start, end, first, last });
        }
        residents.sort_by_key(|resident| (resident.start, resident.address, resident.tensor));
        residents
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn resident(tensor: u32, address: u64, bytes: u64, start: u64, end: u64) -> Resident {
        Resident { tensor, address, bytes, start: Picos(start), end: Picos(end), first: 0, last: 0 }
    }

    fn over_time(residents: &[Resident]) -> Curve {
        curve(residents, |resident| (resident.start.0, resident.end.0))
    }

    #[test]
    fn an_address_handed_over_at_one_moment_counts_once() {
        let found = over_time(&[resident(0, 0, 100, 5, 10), resident(1, 0, 100, 10, 20), resident(2, 100, 50, 10, 12)]);
        assert_eq!(found.points, [(0, 0), (5, 100), (10, 150), (12, 100), (20, 0)]);
        assert_eq!((found.peak_at, found.peak_bytes), (10, 150));
    }

    #[test]
    fn tensors_on_the_same_addresses_count_once() {
        let found = over_time(&[resident(0, 0, 100, 0, 10), resident(1, 50, 100, 2, 8)]);
        assert_eq!(found.points, [(0, 100), (2, 150), (8, 100), (10, 0)]);
        assert_eq!((found.peak_at, found.peak_bytes), (2, 150));
    }

    #[test]
    fn owners_are_those_of_the_moment_and_the_largest_first() {
        let residents = vec![resident(0, 0, 10, 0, 10), resident(1, 10, 30, 4, 9), resident(2, 40, 5, 9, 12)];
        let (time, order) = (over_time(&residents), over_time(&[]));
        let found = Occupancy { space: Space::Sbuf, capacity: 100, residents, time, order };
        let names = |at| found.owners(Picos(at)).iter().map(|owner| owner.tensor).collect::<Vec<_>>();
        assert_eq!((names(3), names(4), names(9), names(12)), (vec![0], vec![1, 0], vec![0, 2], vec![]));
    }

    #[test]
    fn nothing_takes_nothing() {
        assert_eq!(over_time(&[]), Curve { points: vec![(0, 0)], peak_at: 0, peak_bytes: 0 });
    }
}
