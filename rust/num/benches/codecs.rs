//! Speed of the codecs over 1 Mi elements, as bytes of float32 a second; `copy` is the machine's own limit.

#![allow(missing_docs)]

use criterion::{Criterion, Throughput, criterion_group, criterion_main};
use std::hint::black_box;
use trn3_num::mx::{self, Element, Extent, ScaleRule, Values};
use trn3_num::random::Draws;
use trn3_num::{Cast, Dtype, decode_slice, encode_slice};

const COUNT: usize = 1 << 20;

fn values() -> Vec<f32> {
    let mut draws = vec![0; COUNT];
    Draws::new(1, 0).fill(&mut draws);
    draws.into_iter().enumerate().map(|(i, draw)| (draw as i32 as f32) * 2f32.powi((i / 32 % 40) as i32 - 51)).collect()
}

fn casts(criterion: &mut Criterion) {
    let values = values();
    let mut group = criterion.benchmark_group("cast");
    group.throughput(Throughput::Bytes(4 * COUNT as u64));
    let mut copy = vec![0.0; COUNT];
    group.bench_function("copy", |b| b.iter(|| copy.copy_from_slice(black_box(&values))));
    for dtype in Dtype::ALL.into_iter().filter(|dtype| !dtype.is_packed()) {
        let mut codes = vec![0; COUNT * dtype.size_bytes()];
        let mut back = vec![0.0; COUNT];
        group.bench_function(format!("encode {}", dtype.name()), |b| {
            b.iter(|| encode_slice(dtype, black_box(&values), &mut codes, Cast::NEAREST));
        });
        group.bench_function(format!("decode {}", dtype.name()), |b| {
            b.iter(|| decode_slice(dtype, black_box(&codes), &mut back));
        });
    }
    let mut codes = vec![0; COUNT * 2];
    let cast = Cast::stochastic(Draws::new(1, 1));
    group.bench_function("encode bfloat16 stochastic", |b| {
        b.iter(|| encode_slice(Dtype::Bfloat16, black_box(&values), &mut codes, cast));
    });
    group.finish();
}

fn microscaling(criterion: &mut Criterion) {
    let values = values();
    let mut group = criterion.benchmark_group("mx");
    group.throughput(Throughput::Bytes(4 * COUNT as u64));
    let (mut codes, mut scales) = (vec![0; COUNT], vec![0; COUNT / mx::GROUP]);
    let mut back = vec![0.0; COUNT];
    let last = Extent::last_axis(COUNT);
    let first = Extent { outer: 1, length: 1024, inner: 1024 };
    for element in [Element::E4m3fn, Element::E5m2, Element::E2m1] {
        for (axis, extent) in [("last", last), ("first", first)] {
            group.bench_function(format!("quantize {element:?} {axis} axis"), |b| {
                b.iter(|| {
                    let values = Values::F32(black_box(&values));
                    mx::quantize(values, extent, element, ScaleRule::Ocp, &mut codes, &mut scales);
                });
            });
            group.bench_function(format!("dequantize {element:?} {axis} axis"), |b| {
                b.iter(|| mx::dequantize(black_box(&codes), &scales, extent, element, &mut back));
            });
        }
    }
    let mut words = vec![0; COUNT / 2];
    group.bench_function("pack E2m1", |b| b.iter(|| mx::pack_x4(Element::E2m1, black_box(&codes), &mut words)));
    group.finish();
}

criterion_group!(benches, casts, microscaling);
criterion_main!(benches);
