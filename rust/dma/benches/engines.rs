//! Transfers a second, alone and with four queues competing.

#![allow(missing_docs)]

use std::hint::black_box;
use std::sync::Arc;

use criterion::{Criterion, Throughput, criterion_group, criterion_main};
use trn3_dma::{DmaEngines, DmaSpec, Mode, Route, Shape, Transfer};
use trn3_sim::Picos;
use trn3_spec::Target;

const TRANSFERS: u64 = 1000;

fn run(spec: &Arc<DmaSpec>, queues: u8, bytes: u64) -> DmaEngines {
    let shape = Shape::rows(Route::HbmToSbuf, 128, bytes).expect("a shape");
    let mut dma = DmaEngines::new(Arc::clone(spec));
    let mut trigger = Picos::ZERO;
    for i in 0..TRANSFERS {
        let transfer = Transfer::new(shape, Mode::Hardware, (i % u64::from(queues)) as u8);
        dma.submit(0, trigger, &transfer).expect("the transfer is possible");
        trigger += spec.issue_interval(transfer.mode, &shape);
        while dma.next_completion(trigger).is_some() {}
    }
    while dma.next_completion(Picos::MAX).is_some() {}
    dma
}

fn transfers(c: &mut Criterion) {
    let target = Target::load("trn3").expect("a built-in table");
    let spec = Arc::new(DmaSpec::new(&target));
    let mut group = c.benchmark_group("dma");
    group.throughput(Throughput::Elements(TRANSFERS));
    for (name, queues, bytes) in
        [("one_queue_2kib", 1, 2048), ("one_queue_32kib", 1, 32_768), ("four_queues_4kib", 4, 4096)]
    {
        group.bench_function(name, |b| b.iter(|| black_box(run(&spec, queues, bytes))));
    }
    group.finish();
}

criterion_group!(benches, transfers);
criterion_main!(benches);
