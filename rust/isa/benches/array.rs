//! Speed of the TensorE array's arithmetic, packing and PSUM included. Elements a second are multiply-accumulates, so
//! GFLOP/s is twice the number of Gelem/s.

use criterion::{BenchmarkId, Criterion, Throughput, criterion_group, criterion_main};
use std::hint::black_box;
use trn3_isa::array::{ArrayScratch, Operand, Psum, ScaleOperand, multiply, multiply_double_row, multiply_mx};
use trn3_num::Dtype;

/// Bytes from one SBUF partition to the next, as far apart as the hardware's are.
const ROW_STRIDE_BYTES: usize = 256 * 1024;

/// Rows of finite codes, spread over the format's range, from a fixed sequence.
fn memory(rows: usize, dtype: Dtype) -> Vec<u8> {
    let mut state = 0x9E37_79B9_7F4A_7C15_u64;
    let mut next = move || {
        state = state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        (state >> 40) as u32
    };
    let mut bytes = vec![0; rows * ROW_STRIDE_BYTES];
    for row in bytes.chunks_exact_mut(ROW_STRIDE_BYTES) {
        for element in row[..8192 * 4].chunks_exact_mut(4) {
            let random = next();
            let word = match dtype {
                // Between 0.5 and 2, of either sign.
                Dtype::Float32 | Dtype::Tfloat32 => 0x3F00_0000 | (random & 0x80FF_FFFF) | (random & 1) << 31,
                Dtype::Bfloat16 => 0x3F00_3F00 | (random & 0x80FF_80FF) | (random & 0x100) << 7,
                // All codes whose exponent is not the largest.
                _ => random.wrapping_mul(0x0101_0421) & 0xBBBB_BBBB,
            };
            element.copy_from_slice(&word.to_le_bytes());
        }
    }
    bytes
}

/// One shape of `multiply`.
fn bench_multiply(criterion: &mut Criterion, name: &str, dtype: Dtype, k: usize, m: usize, n: usize, stride: isize) {
    let memory = memory(k, dtype);
    let (stationary_free, moving_free, psum_free) = ([(1, m)], [(stride, n)], [(1, n)]);
    let stationary = Operand {
        bytes: &memory,
        dtype,
        offset_bytes: 0,
        row_stride_bytes: ROW_STRIDE_BYTES,
        rows: k,
        free: &stationary_free,
    };
    let moving = Operand { offset_bytes: 4096, free: &moving_free, ..stationary };
    let mut bytes = vec![0; m * 16 * 1024];
    let mut scratch = ArrayScratch::new();
    let mut group = criterion.benchmark_group("nc_matmul");
    group.throughput(Throughput::Elements((k * m * n) as u64));
    group.bench_function(BenchmarkId::new(name, format!("{k}x{m}x{n}")), |bencher| {
        bencher.iter(|| {
            let mut psum = Psum {
                bytes: &mut bytes,
                offset_bytes: 0,
                row_stride_bytes: 16 * 1024,
                free: &psum_free,
                dtype: Dtype::Float32,
                accumulate: true,
            };
            multiply(&mut scratch, black_box(&stationary), black_box(&moving), &mut psum);
        });
    });
    group.finish();
}

/// FP8 double row, 128 x 2 x 128 x 512.
fn bench_double_row(criterion: &mut Criterion) {
    let (k, m, n) = (128, 128, 512);
    let memory = memory(k, Dtype::Float8E4m3);
    let stationary = Operand {
        bytes: &memory,
        dtype: Dtype::Float8E4m3,
        offset_bytes: 0,
        row_stride_bytes: ROW_STRIDE_BYTES,
        rows: k,
        free: &[(128, 2), (1, 128)],
    };
    let moving = Operand { offset_bytes: 4096, free: &[(512, 2), (1, 512)], ..stationary };
    let mut bytes = vec![0; m * 16 * 1024];
    let mut scratch = ArrayScratch::new();
    let mut group = criterion.benchmark_group("nc_matmul");
    group.throughput(Throughput::Elements((2 * k * m * n) as u64));
    group.bench_function("fp8 double row/256x128x512", |bencher| {
        bencher.iter(|| {
            let mut psum = Psum {
                bytes: &mut bytes,
                offset_bytes: 0,
                row_stride_bytes: 16 * 1024,
                free: &[(1, 512)],
                dtype: Dtype::Float32,
                accumulate: true,
            };
            multiply_double_row(&mut scratch, black_box(&stationary), black_box(&moving), &mut psum);
        });
    });
    group.finish();
}

/// MX over K4 = 128, M = 128, N = 512; a scale code past the FP32 limit takes the exact path.
fn bench_mx(criterion: &mut Criterion, name: &str, dtype: Dtype, scale: u8) {
    let (k4, m, n) = (128, 128, 512);
    let memory = memory(k4, dtype);
    let scale_memory = vec![scale; 128 * n];
    let stationary = Operand {
        bytes: &memory,
        dtype,
        offset_bytes: 0,
        row_stride_bytes: ROW_STRIDE_BYTES,
        rows: k4,
        free: &[(1, 128)],
    };
    let moving = Operand { offset_bytes: 4096, free: &[(1, 512)], ..stationary };
    let stationary_scale =
        ScaleOperand { bytes: &scale_memory, offset_bytes: 0, row_stride_bytes: n, first_row: 0, free: &[(1, 128)] };
    let moving_scale = ScaleOperand { first_row: 4, free: &[(1, 512)], ..stationary_scale };
    let mut bytes = vec![0; m * 16 * 1024];
    let mut scratch = ArrayScratch::new();
    let mut group = criterion.benchmark_group("nc_matmul_mx");
    group.throughput(Throughput::Elements((4 * k4 * m * n) as u64));
    group.bench_function(BenchmarkId::new(name, "128x128x512"), |bencher| {
        bencher.iter(|| {
            let mut psum = Psum {
                bytes: &mut bytes,
                offset_bytes: 0,
                row_stride_bytes: 16 * 1024,
                free: &[(1, 512)],
                dtype: Dtype::Float32,
                accumulate: true,
            };
            multiply_mx(
                &mut scratch,
                black_box(&stationary),
                &stationary_scale,
                black_box(&moving),
                &moving_scale,
                &mut psum,
            );
        });
    });
    group.finish();
}

fn benches(criterion: &mut Criterion) {
    bench_multiply(criterion, "bf16", Dtype::Bfloat16, 128, 128, 512, 1);
    bench_multiply(criterion, "bf16 stride 2", Dtype::Bfloat16, 128, 128, 512, 2);
    bench_multiply(criterion, "bf16 short", Dtype::Bfloat16, 128, 128, 64, 1);
    bench_multiply(criterion, "fp16", Dtype::Float16, 128, 128, 512, 1);
    bench_multiply(criterion, "fp8 e4m3", Dtype::Float8E4m3, 128, 128, 512, 1);
    bench_multiply(criterion, "fp32", Dtype::Float32, 128, 128, 512, 1);
    bench_multiply(criterion, "tf32", Dtype::Tfloat32, 128, 128, 512, 1);
    bench_double_row(criterion);
    bench_mx(criterion, "e4m3fn", Dtype::Float8E4m3fnX4, 120);
    bench_mx(criterion, "e5m2", Dtype::Float8E5m2X4, 120);
    bench_mx(criterion, "e2m1", Dtype::Float4E2m1fnX4, 120);
    bench_mx(criterion, "e4m3fn exact path", Dtype::Float8E4m3fnX4, 250);
}

criterion_group!(array, benches);
criterion_main!(array);
