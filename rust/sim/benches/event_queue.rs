//! Events a second through the queue, with 1 Ki events pending.

#![allow(missing_docs)]

use std::hint::black_box;

use criterion::{Criterion, Throughput, criterion_group, criterion_main};
use trn3_sim::{EventQueue, Picos, Seed};

const PENDING: u64 = 1 << 10;
const BATCH: u64 = 1 << 16;

fn hold(c: &mut Criterion) {
    let mut group = c.benchmark_group("event_queue");
    group.throughput(Throughput::Elements(BATCH));
    group.bench_function("hold_1ki", |b| {
        let mut delays = Seed(1).stream("delays");
        let delays: Vec<Picos> = (0..BATCH).map(|_| Picos(delays.below(100_000))).collect();
        let mut queue = EventQueue::default();
        for i in 0..PENDING {
            queue.schedule(delays[i as usize], (i, i));
        }
        b.iter(|| {
            for &delay in &delays {
                let (_, event) = queue.pop().expect("no limit").expect("events are pending");
                queue.schedule_after(delay, black_box(event));
            }
        });
    });
    group.finish();
}

criterion_group!(benches, hold);
criterion_main!(benches);
