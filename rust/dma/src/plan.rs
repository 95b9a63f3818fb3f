//! How an engine's part of a transfer is cut into descriptors, and how long they take.
//!
//! A descriptor is contiguous at the source and at the destination and at most 4096 B long, so cuts lie where a piece
//! ends on either side and every 4096 B within a piece. Positions are counted in units (see `Shape::unit_bytes`), so
//! that a cast, whose sides differ in bytes, is cut like a copy.
//!
//! A plan is run-length coded and never as long as its list of descriptors. Time and number of descriptors are
//! functions of each other, both answered in the length of the code; an engine keeps only the number. What a plan asks
//! of HBM is its average: a stack does not see single descriptors.

use trn3_sim::Picos;

use crate::spec::DmaSpec;
use crate::transfer::{Transfer, greatest_common_divisor};

/// Equal descriptors in a row.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Run {
    units: u64,
    count: u64,
    each: Picos,
    /// How long one takes a stack of HBM, in 2⁻³² ps.
    occupancy: u128,
}

/// Runs that repeat.
#[derive(Clone, Debug, PartialEq, Eq)]
struct Segment {
    runs: Vec<Run>,
    repeats: u64,
    /// Descriptors, time and occupancy of one repeat.
    descriptors: u64,
    time: Picos,
    occupancy: u128,
}

/// The descriptors of one part: of one partition, or of one engine's share of a transfer within HBM.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Plan {
    segments: Vec<Segment>,
    descriptors: u64,
    time: Picos,
    units: u64,
    /// The share of a stack of HBM that an engine asks for while it carries the plan out, in 2⁻³².
    demand: u64,
}

/// What the cutting depends on besides the range.
struct Cutter<'a> {
    spec: &'a DmaSpec,
    transfer: &'a Transfer,
    source_piece: u64,
    destination_piece: u64,
    /// Bytes of a unit at the source and at the destination.
    unit_bytes: (u64, u64),
    /// Units of the whole transfer.
    units: u64,
    units_max: u64,
}

impl Plan {
    /// The plan for units `start..end` of one side of a transfer.
    #[must_use]
    pub fn new(spec: &DmaSpec, transfer: &Transfer, start: u64, end: u64) -> Plan {
        let shape = &transfer.shape;
        let unit_bytes = shape.unit_bytes();
        let cutter = Cutter {
            spec,
            transfer,
            source_piece: shape.source().piece_bytes / unit_bytes.0,
            destination_piece: shape.destination().piece_bytes / unit_bytes.1,
            unit_bytes,
            units: shape.read_bytes() / unit_bytes.0,
            units_max: (spec.table.descriptor.bytes_max / unit_bytes.0.max(unit_bytes.1)).max(1),
        };
        let period = cutter.period();
        let body_start = start.next_multiple_of(period).min(end);
        let body_end = (end - end % period).max(body_start);
        let parts = [
            (start, body_start, 1),
            (body_start, body_start + period.min(body_end - body_start), (body_end - body_start) / period),
            (body_end, end, 1),
        ];
        let segments: Vec<Segment> = parts
            .into_iter()
            .filter(|(from, to, _)| from < to)
            .map(|(from, to, n)| cutter.segment(from, to, n))
            .collect();
        let time: Picos = segments.iter().map(|s| s.time * s.repeats).sum();
        let occupancy: u128 = segments.iter().map(|s| s.occupancy * u128::from(s.repeats)).sum();
        let demand = occupancy.div_ceil(u128::from(time.0.max(1)));
        Plan {
            descriptors: segments.iter().map(|s| s.descriptors * s.repeats).sum(),
            time,
            units: end - start,
            demand: u64::try_from(demand).expect("an engine asks for less than 2^32 stacks"),
            segments,
        }
    }

    /// The share of a stack of HBM that an engine asks for while it carries the plan out, in 2⁻³².
    #[must_use]
    pub fn demand(&self) -> u64 {
        self.demand
    }

    /// Number of descriptors.
    #[must_use]
    pub fn descriptors(&self) -> u64 {
        self.descriptors
    }

    /// Time of all descriptors.
    #[must_use]
    pub fn time(&self) -> Picos {
        self.time
    }

    /// Units moved.
    #[must_use]
    pub fn units(&self) -> u64 {
        self.units
    }

    /// Time of the first `count` descriptors of this plan carried out again and again.
    #[must_use]
    pub fn time_of(&self, count: u64) -> Picos {
        if count == 0 {
            return Picos::ZERO;
        }
        let mut time = self.time * (count / self.descriptors);
        let mut left = count % self.descriptors;
        for segment in &self.segments {
            let whole = (left / segment.descriptors).min(segment.repeats);
            time += segment.time * whole;
            left -= whole * segment.descriptors;
            if whole == segment.repeats {
                continue;
            }
            for run in &segment.runs {
                let of_run = left.min(run.count);
                time += run.each * of_run;
                left -= of_run;
            }
            break;
        }
        time
    }

    /// The least number of descriptors that take at least `time`.
    #[must_use]
    pub fn count_by(&self, time: Picos) -> u64 {
        if self.descriptors == 0 {
            return 0;
        }
        let mut count = time.0 / self.time.0 * self.descriptors;
        let mut left = time.0 % self.time.0;
        for segment in &self.segments {
            let whole = (left / segment.time.0).min(segment.repeats);
            count += whole * segment.descriptors;
            left -= whole * segment.time.0;
            if whole == segment.repeats {
                continue;
            }
            for run in &segment.runs {
                let of_run = left.div_ceil(run.each.0).min(run.count);
                count += of_run;
                left = left.saturating_sub(of_run * run.each.0);
            }
            break;
        }
        count
    }
}

impl Cutter<'_> {
    /// After how many units the pattern of cuts repeats.
    fn period(&self) -> u64 {
        let (a, b) = (self.source_piece, self.destination_piece);
        if a % b == 0 || b % a == 0 { a.min(b) } else { a / greatest_common_divisor(a, b) * b }
    }

    fn segment(&self, start: u64, end: u64, repeats: u64) -> Segment {
        let mut runs: Vec<Run> = Vec::new();
        let mut at = start;
        while at < end {
            let next = |piece: u64| (at / piece + 1) * piece;
            let length = next(self.source_piece).min(next(self.destination_piece)).min(end) - at;
            self.push(&mut runs, self.units_max, length / self.units_max);
            self.push(&mut runs, length % self.units_max, 1);
            at += length;
        }
        Segment {
            descriptors: runs.iter().map(|run| run.count).sum(),
            time: runs.iter().map(|run| run.each * run.count).sum(),
            occupancy: runs.iter().map(|run| run.occupancy * u128::from(run.count)).sum(),
            runs,
            repeats,
        }
    }

    fn push(&self, runs: &mut Vec<Run>, units: u64, count: u64) {
        if units == 0 || count == 0 {
            return;
        }
        match runs.last_mut() {
            Some(run) if run.units == units => run.count += count,
            _ => {
                let (read, written) = (units * self.unit_bytes.0, units * self.unit_bytes.1);
                let (route, operation) = (self.transfer.shape.route(), self.transfer.operation);
                let each = self.spec.descriptor_time(read, written, route, operation);
                let occupancy = self.transfer.hbm.occupancy(self.spec, units, self.units);
                runs.push(Run { units, count, each, occupancy });
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::spec::tests::v3;
    use crate::transfer::{Mode, Operation, Route, Shape, Side};
    use proptest::prelude::*;

    fn side(piece_bytes: u64, pieces: u64) -> Side {
        Side { piece_bytes, pieces }
    }

    /// The descriptors in bytes of the larger side, one by one.
    fn listed(source: Side, destination: Side, start: u64, end: u64) -> (Plan, Vec<u64>) {
        let shape = Shape::new(Route::SbufToHbm, 0, 1, source, destination, true).expect("a shape");
        let (a, b) = shape.unit_bytes();
        let plan = Plan::new(&v3(), &Transfer::new(shape, Mode::Static, 0), start, end);
        let mut list = Vec::new();
        for segment in &plan.segments {
            for _ in 0..segment.repeats {
                for run in &segment.runs {
                    list.extend(std::iter::repeat_n(run.units * a.max(b), run.count as usize));
                }
            }
        }
        (plan, list)
    }

    #[test]
    fn a_descriptor_is_contiguous_on_both_sides() {
        let cut = |source, destination, units| listed(source, destination, 0, units).1;
        assert_eq!(cut(side(100, 1), side(100, 1), 100), [100]);
        assert_eq!(cut(side(100, 1), side(25, 4), 100), [25; 4]);
        assert_eq!(cut(side(8, 3), side(12, 2), 24), [8, 4, 4, 8]);
        assert_eq!(cut(side(4096, 2), side(8192, 1), 8192), [4096; 2]);
        assert_eq!(cut(side(5000, 2), side(10_000, 1), 10_000), [4096, 904, 4096, 904]);
        // From 32 to 16 bits: a unit is 2 B against 1 B, and the larger side fills a descriptor.
        assert_eq!(cut(side(16_384, 1), side(8_192, 1), 8_192), [4096; 4]);
        assert_eq!(cut(side(64, 1), side(16, 2), 32), [32; 2]);
    }

    #[test]
    fn a_part_may_begin_inside_a_piece() {
        let (plan, list) = listed(side(10, 10), side(100, 1), 25, 62);
        assert_eq!(list, [5, 10, 10, 10, 2]);
        assert_eq!((plan.descriptors(), plan.units()), (5, 37));
    }

    #[test]
    fn long_transfers_have_short_plans() {
        let (plan, _) = listed(side(4, 1 << 14), side(1 << 16, 1), 0, 1 << 16);
        assert_eq!((plan.segments.len(), plan.segments[0].runs.len(), plan.descriptors()), (1, 1, 1 << 14));
        let shape = Shape::within_hbm(Side::contiguous(1 << 40), Side::contiguous(1 << 40), false).expect("a shape");
        let plan = Plan::new(&v3(), &Transfer::new(shape, Mode::Static, 0), 7, (1 << 36) + 7);
        assert_eq!(plan.descriptors(), 1 << 24);
    }

    #[test]
    fn a_plan_asks_for_the_share_that_its_bytes_take() {
        let spec = v3();
        let share = |transfer: &Transfer, units| {
            let plan = Plan::new(&spec, transfer, 0, units);
            plan.demand() as f64 / (1u64 << 32) as f64
        };
        let near = |model: f64, expected: f64| assert!((model / expected - 1.0).abs() < 1e-6, "{model} {expected}");
        let load = |bytes| Transfer::new(Shape::rows(Route::HbmToSbuf, 128, bytes).expect("a shape"), Mode::Static, 0);
        // 4096 B in 177.827 ns, of a stack that moves 680.2 B/ns; 256 B in 15.801 ns of 501.2 B/ns.
        near(share(&load(4096), 4096), 4096.0 / 177.827 / 680.2);
        near(share(&load(256), 256), 256.0 / 15.801 / 501.2);
        let within = Shape::within_hbm(Side::contiguous(1 << 20), Side::contiguous(1 << 20), false).expect("a shape");
        let within = Transfer::new(within, Mode::Static, 0);
        near(share(&within, 1 << 16), 2.0 * 4096.0 / 177.827 / 680.2);
        // Rows of 64 B under a descriptor of 4096 B: 64 small pieces.
        let mut rows = load(4096);
        rows.hbm.piece_bytes = 64;
        near(share(&rows, 4096), 4096.0 / 177.827 / 501.2);
        let inside = Transfer::new(Shape::rows(Route::SbufToSbuf, 128, 64).expect("a shape"), Mode::Static, 0);
        assert_eq!(share(&inside, 64), 0.0);
    }

    proptest! {
        #[test]
        fn plans_conserve_units_and_tell_time_by_number(
            a in 1u64..40, b in 1u64..40, factor in 1u64..300, cast in 1u64..4, range in (0.0f64..1.0, 0.0f64..1.0),
        ) {
            let total = a * b * factor;
            let (source, destination) = (side(a * factor * cast, b), side(b, a * factor));
            let (start, end) = ((range.0 * total as f64) as u64, (range.1 * total as f64) as u64);
            let (start, end) = (start.min(end), start.max(end).max(start.min(end) + 1));
            let (plan, list) = listed(source, destination, start, end);
            prop_assert_eq!(list.iter().sum::<u64>(), (end - start) * cast);
            prop_assert_eq!(list.len() as u64, plan.descriptors());
            prop_assert!(list.iter().all(|&bytes| bytes <= 4096));
            let (spec, mut time) = (v3(), Picos::ZERO);
            for n in 0..=2 * list.len() as u64 {
                prop_assert_eq!(plan.time_of(n), time);
                prop_assert_eq!(plan.count_by(time), n);
                prop_assert_eq!(plan.count_by(time + Picos(1)), n + 1);
                let bytes = list[(n % list.len() as u64) as usize];
                time += spec.descriptor_time(bytes, bytes / cast, Route::SbufToHbm, Operation::Copy);
            }
        }
    }
}
