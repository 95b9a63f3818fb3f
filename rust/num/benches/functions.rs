//! Elements a second through the activation functions, one thread, 16 Ki binary32 numbers.

#![allow(missing_docs)]

use std::hint::black_box;

use criterion::{BatchSize, Criterion, Throughput, criterion_group, criterion_main};
use trn3_num::functions::{self, Function};

const ELEMENTS: usize = 1 << 14;

/// Numbers spread evenly over -6 to 6, in an order that no predictor learns.
fn inputs() -> Vec<f32> {
    let spread = (0..ELEMENTS as u32).map(|i| i.wrapping_mul(2_654_435_769) >> 8);
    spread.map(|code| (code as f32 / 16_777_216.0 - 0.5) * 12.0).collect()
}

fn slices(c: &mut Criterion) {
    let inputs = inputs();
    let mut group = c.benchmark_group("functions");
    group.throughput(Throughput::Elements(ELEMENTS as u64));
    let mut measure = |name: &str, function: &dyn Fn(&mut [f32])| {
        group.bench_function(name, |b| {
            b.iter_batched_ref(|| inputs.clone(), |data| function(black_box(data)), BatchSize::SmallInput);
        });
    };
    for &function in Function::ALL {
        let mut data = inputs.clone();
        functions::evaluate_slice(function, &mut data);
        let scalar = inputs.iter().map(|&x| functions::evaluate(function, x).to_bits());
        assert!(data.iter().map(|y| y.to_bits()).eq(scalar), "{}", function.name());
        measure(function.name(), &|data| functions::evaluate_slice(function, data));
    }
    measure("power", &|data| functions::power_slice(data, 1.7));
    measure("sin_reduced", &functions::sin_reduced_slice);
    measure("cos", &functions::cos_slice);
    measure("tan", &functions::tan_slice);
    group.finish();
}

criterion_group!(benches, slices);
criterion_main!(benches);
