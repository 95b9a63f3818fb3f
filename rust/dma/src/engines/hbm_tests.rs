//! Engines that share HBM: closed forms of timing.md section 9, a fluid reference, and properties.

use super::*;
use crate::spec::tests::{v3, v4};
use crate::stack::HbmTraffic;
use crate::transfer::{Mode, Operation, Shape, Side};
use proptest::prelude::*;

fn side(bytes: u64) -> Side {
    Side::contiguous(bytes)
}

/// A transfer of 128 partitions, or of as many bytes within HBM.
fn transfer(route: Route, row_bytes: u64, operation: Operation) -> Transfer {
    let shape = match route {
        Route::HbmToHbm => Shape::within_hbm(side(128 * row_bytes), side(128 * row_bytes), false),
        _ => Shape::rows(route, 128, row_bytes),
    };
    Transfer { operation, ..Transfer::new(shape.expect("a shape"), Mode::Static, 0) }
}

/// Bytes that `cores` cores move a second, each with a stream of the same transfer; GB/s of all of them.
fn stream_gb_per_s(spec: DmaSpec, cores: u8, transfer: &Transfer) -> f64 {
    let mut dma = DmaEngines::for_cores(Arc::new(spec), cores);
    for _ in 0..8 {
        (0..cores).for_each(|core| {
            dma.submit(core, Picos::ZERO, transfer).expect("possible");
        });
    }
    let done: Vec<Picos> = std::iter::from_fn(|| dma.next_completion(Picos::MAX)).map(|c| c.done).collect();
    let (first, last) = (done[usize::from(cores) - 1], done[done.len() - 1]);
    let bytes = transfer.written_bytes().max(transfer.shape.read_bytes()) * 7 * u64::from(cores);
    bytes as f64 / (last - first).as_ns_f64()
}

#[track_caller]
fn assert_within(model: f64, expected: f64, ratio: f64) {
    assert!((model / expected - 1.0).abs() <= ratio, "model {model}, expected {expected} within {ratio}");
}

/// timing.md section 8.2 and hardware.md section 8.2: each shape reaches its share of the documented sustained rate, 368
/// GB/s a core on Trn2 and 528 on Trn3, within 2 %.
#[test]
fn every_shape_reaches_its_documented_rate() {
    for (spec, copy) in [(v3(), 16.0 * 23.0), (v4(), 16.0 * 33.0)] {
        for (route, operation, ratio) in [
            (Route::HbmToSbuf, Operation::Copy, 1.0),
            (Route::SbufToHbm, Operation::Copy, 1.0),
            (Route::SbufToSbuf, Operation::Copy, 1.0),
            (Route::HbmToSbuf, Operation::Transpose, 0.9),
            (Route::SbufToSbuf, Operation::Transpose, 0.5),
            (Route::HbmToSbuf, Operation::TransposeUnaligned, 0.45),
            (Route::SbufToSbuf, Operation::TransposeUnaligned, 0.25),
            (Route::HbmToSbuf, Operation::Compute, 0.5),
            (Route::SbufToHbm, Operation::Compute, 0.5),
            (Route::HbmToSbuf, Operation::PartialSum, 0.5),
        ] {
            let model = stream_gb_per_s(spec.clone(), 1, &transfer(route, 1 << 16, operation));
            assert_within(model, copy * ratio, 0.02);
        }
    }
    let add = transfer(Route::HbmToSbuf, 1 << 16, Operation::Accumulate);
    assert_within(stream_gb_per_s(v4(), 1, &add), 16.0 * 33.0, 0.02);
}

/// timing.md section 9: one core asks for less than its stack has; a pair asks for 736 of 680 GB/s on Trn2, and for 1056
/// of 1164 on Trn3.
#[test]
fn a_pair_saturates_the_stack_of_trn2_and_not_that_of_trn3() {
    let load = transfer(Route::HbmToSbuf, 1 << 16, Operation::Copy);
    assert_within(stream_gb_per_s(v3(), 1, &load), 368.0, 0.005);
    assert_within(stream_gb_per_s(v3(), 2, &load), 680.2, 0.005);
    assert_within(stream_gb_per_s(v4(), 1, &load), 528.0, 0.005);
    assert_within(stream_gb_per_s(v4(), 2, &load), 1056.0, 0.005);
    // Cores beyond the pair have stacks of their own.
    assert_within(stream_gb_per_s(v3(), 4, &load), 2.0 * 680.2, 0.005);
}

/// timing.md section 9: reads and writes both count, and a copy within HBM counts twice.
#[test]
fn copies_within_hbm_count_twice() {
    let within = transfer(Route::HbmToHbm, 1 << 16, Operation::Copy);
    assert_within(stream_gb_per_s(v3(), 1, &within), 340.1, 0.005);
    assert_within(stream_gb_per_s(v3(), 2, &within), 340.1, 0.005);
    assert_within(stream_gb_per_s(v4(), 1, &within), 528.0, 0.005);
    assert_within(stream_gb_per_s(v4(), 2, &within), 1163.75 / 2.0, 0.005);
}

#[test]
fn small_pieces_leave_less_of_the_stack() {
    // 1024 B descriptors out of rows of 256 B: each row is a small piece, and a pair asks Trn3 for 2 · 464 of 857 GB/s.
    let load = transfer(Route::HbmToSbuf, 1 << 14, Operation::Copy);
    let narrow = Shape::new(Route::HbmToSbuf, 0, 128, Side { piece_bytes: 1024, pieces: 16 }, side(1 << 14), false);
    let load = Transfer { shape: narrow.expect("a shape"), ..load };
    let rows = Transfer { hbm: HbmTraffic { piece_bytes: 256, ..load.hbm }, ..load };
    assert_within(stream_gb_per_s(v4(), 1, &rows), stream_gb_per_s(v4(), 1, &load), 1e-9);
    assert_within(stream_gb_per_s(v4(), 2, &load), 2.0 * stream_gb_per_s(v4(), 1, &load), 0.001);
    assert_within(stream_gb_per_s(v4(), 2, &rows), 857.5, 0.02);
}

#[test]
fn what_touches_no_hbm_is_not_held_back() {
    let (load, inside) = (
        transfer(Route::HbmToHbm, 1 << 16, Operation::Copy),
        Transfer { queue: 1, ..transfer(Route::SbufToSbuf, 1 << 16, Operation::Copy) },
    );
    let alone = stream_gb_per_s(v3(), 1, &inside);
    let mut dma = DmaEngines::for_cores(Arc::new(v3()), 2);
    for _ in 0..8 {
        dma.submit(0, Picos::ZERO, &load).expect("possible");
        dma.submit(1, Picos::ZERO, &inside).expect("possible");
    }
    let done: Vec<_> = std::iter::from_fn(|| dma.next_completion(Picos::MAX)).filter(|c| c.core == 1).collect();
    let span = done[7].done - done[0].done;
    assert_within(7.0 * 128.0 * 65_536.0 / span.as_ns_f64(), alone, 1e-9);
    assert_eq!(dma.counters(1).hbm_read_bytes, 0);
    assert_eq!(dma.counters(0).hbm_read_bytes, 8 * 128 * 65_536);
    assert_eq!(dma.counters(0).hbm_written_bytes, 8 * 128 * 65_536);
}

/// A spec whose stack has so many bytes a second.
fn with_stack(mut spec: DmaSpec, bytes_per_s: u64) -> DmaSpec {
    spec.stack.bandwidth_bytes_per_s = bytes_per_s;
    spec.stack.small_bandwidth_bytes_per_s = bytes_per_s;
    spec
}

#[test]
fn a_service_that_is_held_back_ends_at_its_moment_and_not_before() {
    // One engine, one descriptor of 4096 B: by itself 124.069 ns, of a stack of 8 B/ns 512 ns.
    let row = Transfer::new(Shape::rows(Route::HbmToSbuf, 1, 4096).expect("a shape"), Mode::Static, 0);
    let mut dma = DmaEngines::new(Arc::new(with_stack(v4(), 8_000_000_000)));
    dma.submit(0, Picos::ZERO, &row).expect("possible");
    let done = dma.clone().next_completion(Picos::MAX).expect("a transfer completes");
    let work = done.engines[0];
    let data = work.end - work.start - Picos::from_ns(9);
    assert!((512_000..=512_001).contains(&data.0), "{data}");
    assert_eq!(work.busy, work.end - work.start);
    dma.advance(Picos(done.done.0 - 1));
    assert_eq!(dma.take_completion(), None);
    dma.advance(done.done);
    assert_eq!(dma.take_completion(), Some(done));
}

#[test]
fn who_leaves_makes_room() {
    // Two engines share a stack that suffices for one: the longer job runs alone once the shorter is through.
    let mut spec = with_stack(v4(), 4_096_000_000_000_000 / 124_069);
    spec.table.engine_skew_ps = 0;
    // Every engine also sends the semaphore write of the other's transfer.
    spec.table.semaphore_write_ps = 0;
    let row = |first, bytes| {
        let shape = Shape::new(Route::HbmToSbuf, first, 1, side(bytes), side(bytes), false).expect("a shape");
        Transfer::new(shape, Mode::Static, 0)
    };
    let mut dma = DmaEngines::new(Arc::new(spec));
    dma.submit(0, Picos::ZERO, &row(0, 8 * 4096)).expect("possible");
    let later = Transfer { queue: 1, ..row(8, 4 * 4096) };
    dma.submit(0, Picos::ZERO, &later).expect("possible");
    let done: Vec<_> = std::iter::from_fn(|| dma.next_completion(Picos::MAX)).collect();
    let length = |work: EngineWork| (work.end - work.start).as_ns_f64();
    // 4 descriptors at half speed, then 4 more at full speed.
    assert_within(length(done[0].engines[1]), 8.0 * 124.069, 1e-5);
    assert_within(length(done[1].engines[0]), 12.0 * 124.069, 1e-5);
}

/// The plainest form of sharing: from event to event, in floating point. `jobs` are start, undisturbed time and demand of
/// engines that each have one; gives their ends, nanoseconds.
fn fluid(jobs: &[(f64, f64, f64)]) -> Vec<f64> {
    let mut left: Vec<f64> = jobs.iter().map(|job| job.1).collect();
    let mut ends = vec![f64::INFINITY; jobs.len()];
    let mut now = 0.0;
    while ends.contains(&f64::INFINITY) {
        let active: Vec<usize> = (0..jobs.len()).filter(|&j| jobs[j].0 <= now && ends[j].is_infinite()).collect();
        // Filled progressively: everybody gets more until he has enough or nothing is left.
        let mut rates = vec![0.0; jobs.len()];
        let (mut open, mut rest) = (active.clone(), 1.0);
        while !open.is_empty() && rest > 1e-15 {
            let step = open.iter().map(|&j| jobs[j].2 - rates[j]).fold(rest / open.len() as f64, f64::min);
            open.iter().for_each(|&j| rates[j] += step);
            rest -= step * open.len() as f64;
            open.retain(|&j| jobs[j].2 - rates[j] > 1e-15);
        }
        let ending = active.iter().map(|&j| now + left[j] * jobs[j].2 / rates[j]);
        let starting = jobs.iter().map(|job| job.0).filter(|&start| start > now);
        let next = ending.chain(starting).fold(f64::INFINITY, f64::min);
        for &j in &active {
            left[j] -= (next - now) * rates[j] / jobs[j].2;
            if left[j] < 1e-9 {
                ends[j] = next;
            }
        }
        now = next;
    }
    ends
}

/// Many small jobs, some of them within HBM, on two cores.
fn some_transfers() -> impl Strategy<Value = Vec<(u64, u8, Transfer)>> {
    let shape = (0u32..120, 1u32..9, 1u64..5, 1u64..5, 1u64..2000, 0usize..4);
    let rest = (0u64..1_000_000, 0u8..2, 0u8..3, 0u8..3, 1u32..4, 0usize..3, 1u64..5000);
    let one = (shape, rest).prop_map(|((first, count, a, b, factor, route), rest)| {
        let (delay, core, queue, class, packet, operation, piece) = rest;
        let route = Route::ALL[route];
        let source = Side { piece_bytes: a * factor, pieces: b };
        let destination = Side { piece_bytes: b * factor, pieces: a };
        let (first, count) = if route == Route::HbmToHbm { (0, 0) } else { (first, count) };
        let shape = Shape::new(route, first, count, source, destination, false).expect("a shape");
        let operation = [Operation::Copy, Operation::Transpose, Operation::Compute][operation];
        let mut made =
            Transfer { class, packet_descriptors: packet, operation, ..Transfer::new(shape, Mode::Static, queue) };
        made.hbm.piece_bytes = piece;
        (delay, core, made)
    });
    prop::collection::vec(one, 1..25)
}

fn run(spec: &DmaSpec, batching: Batching, transfers: &[(u64, u8, Transfer)]) -> (Vec<Completion>, [DmaCounters; 2]) {
    let mut dma = DmaEngines::with_batching(Arc::new(spec.clone()), 2, batching);
    let (mut trigger, mut completions) = (Picos::ZERO, Vec::new());
    for (delay, core, transfer) in transfers {
        trigger += Picos(*delay);
        completions.extend(std::iter::from_fn(|| dma.next_completion(trigger)));
        dma.submit(*core, trigger, transfer).expect("possible");
    }
    completions.extend(std::iter::from_fn(|| dma.next_completion(Picos::MAX)));
    (completions, [dma.counters(0).clone(), dma.counters(1).clone()])
}

proptest! {
    #[test]
    fn sharing_is_the_same_descriptor_by_descriptor(transfers in some_transfers(), stack in 1u64..200) {
        for spec in [v3(), v4()] {
            let spec = with_stack(spec, stack * 1_000_000_000);
            let fast = run(&spec, Batching::Undisturbed, &transfers);
            let reference = run(&spec, Batching::Never, &transfers);
            prop_assert_eq!(fast, reference);
        }
    }

    #[test]
    fn the_cores_of_a_pair_are_equal(transfers in some_transfers(), stack in 1u64..200) {
        let spec = with_stack(v4(), stack * 1_000_000_000);
        let swapped: Vec<_> = transfers.iter().map(|&(delay, core, transfer)| (delay, 1 - core, transfer)).collect();
        let (completions, [a, b]) = run(&spec, Batching::Undisturbed, &transfers);
        let (others, [c, d]) = run(&spec, Batching::Undisturbed, &swapped);
        prop_assert_eq!((a, b), (d, c));
        let mirrored: Vec<_> = others.into_iter().map(|done| Completion { core: 1 - done.core, ..done }).collect();
        prop_assert_eq!(completions, mirrored);
    }

    #[test]
    fn nobody_gets_more_than_the_stack_has(transfers in some_transfers(), stack in 1u64..200) {
        let spec = with_stack(v3(), stack * 1_000_000_000);
        let (completions, counters) = run(&spec, Batching::Undisturbed, &transfers);
        let bytes: u64 = counters.iter().map(|c| c.hbm_read_bytes + c.hbm_written_bytes).sum();
        let first = completions.iter().map(|done| done.first_byte).min().expect("there is a transfer");
        let last = completions.iter().map(|done| done.done).max().expect("there is a transfer");
        prop_assert!(bytes as f64 <= stack as f64 * (last - first).as_ns_f64() * 1.000_001 + 1.0);
    }

    #[test]
    fn engines_share_as_fluids_do(
        rows in prop::collection::vec((0u32..16, 1u64..60, 1u64..4097, 0u64..2_000), 1..12), stack in 5u64..400,
    ) {
        let mut spec = with_stack(v4(), stack * 1_000_000_000);
        spec.table.engine_skew_ps = 0;
        // Every engine also sends the semaphore writes of the others' transfers.
        spec.table.semaphore_write_ps = 0;
        let mut used = [false; 16];
        let mut dma = DmaEngines::new(Arc::new(spec.clone()));
        let (mut jobs, mut engines, mut trigger) = (Vec::new(), Vec::new(), 0);
        for (engine, pieces, piece_bytes, delay) in rows {
            if std::mem::replace(&mut used[engine as usize], true) {
                continue;
            }
            trigger += delay * 1000;
            let side = Side { piece_bytes, pieces };
            let shape = Shape::new(Route::HbmToSbuf, 8 * engine, 1, side, side, false).expect("a shape");
            let transfer = Transfer::new(shape, Mode::Static, engine as u8);
            dma.submit(0, Picos(trigger), &transfer).expect("possible");
            let time = spec.descriptor_time(piece_bytes, piece_bytes, Route::HbmToSbuf, Operation::Copy).as_ns_f64();
            let grains = piece_bytes.next_multiple_of(64) as f64;
            jobs.push((trigger as f64 / 1000.0 + 700.0, time * pieces as f64, grains / stack as f64 / time));
            engines.push(engine as usize);
        }
        let ends = fluid(&jobs);
        let mut done: Vec<_> = std::iter::from_fn(|| dma.next_completion(Picos::MAX)).collect();
        done.sort_by_key(|completion| completion.id);
        for ((completion, engine), end) in done.iter().zip(engines).zip(ends) {
            // Picoseconds at which an end is rounded up make others wait a little.
            let model = completion.engines[engine].end.as_ns_f64();
            prop_assert!((model - end).abs() < 0.05, "model {}, fluid {}", model, end);
        }
    }
}
