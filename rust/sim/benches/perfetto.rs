//! Slices a second into a Perfetto file.

#![allow(missing_docs)]

use std::hint::black_box;
use std::io;

use criterion::{Criterion, Throughput, criterion_group, criterion_main};
use trn3_sim::Picos;
use trn3_sim::trace::{Arg, Slice, SourceLocation, Trace, Value, perfetto};

const SLICES: u64 = 1_000_000;

fn record() -> Trace {
    let mut trace = Trace::new();
    let tracks: Vec<_> = (0..20).map(|i| trace.component(&format!("chip0.core{}.engine{}", i / 5, i % 5))).collect();
    let (name, category, key) = (trace.intern("nc_matmul"), trace.intern("compute"), trace.intern("columns"));
    let file = trace.intern("kernel.py");
    let sources: Vec<_> = (1..200).map(|line| trace.source(SourceLocation { file, function: None, line })).collect();
    for i in 0..SLICES {
        let slice = Slice {
            track: tracks[(i % 20) as usize],
            start: Picos(i * 10_000),
            duration: Picos(377_916),
            name,
            category,
            source: Some(sources[(i % 199) as usize]),
        };
        trace.slice(slice, &[Arg { key, value: Value::Uint(512) }]);
    }
    trace
}

fn perfetto_file(c: &mut Criterion) {
    let mut group = c.benchmark_group("perfetto");
    group.sample_size(10).throughput(Throughput::Elements(SLICES));
    group.bench_function("record", |b| b.iter(|| black_box(record())));
    let trace = record();
    group.bench_function("write", |b| b.iter(|| perfetto::write(&trace, &mut io::sink())));
    group.finish();
}

criterion_group!(benches, perfetto_file);
criterion_main!(benches);
