//! The microkernel: one tile of sums over the whole contraction, in vector registers where the machine has them.
//!
//! All variants do the same operations on each sum in the same order, so they give the same bits; the plain form beside
//! them is [`super::reference`]. `unsafe` serves two ends only: entering code compiled for an instruction set that was
//! detected at run time, and vector loads from slices whose length was checked.
#![allow(unsafe_code)]
// Counted loops over arrays of sums are what compilers unroll into registers at any setting.
#![allow(clippy::needless_range_loop)]

use super::Product;
use super::block::{self, Job, TILE_M, TILE_N, Tile};

/// The instruction sets that the microkernel is written for.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Variant {
    /// 512-bit vectors of x86-64.
    Avx512,
    /// 256-bit vectors of x86-64, with fused multiply-add.
    Avx2,
    /// Whatever the compiler makes of plain loops.
    Portable,
}

impl Variant {
    /// Every variant, the fastest first.
    pub(super) const ALL: [Variant; 3] = [Variant::Avx512, Variant::Avx2, Variant::Portable];

    /// The fastest that this machine runs.
    pub(super) fn best() -> Variant {
        Variant::ALL.into_iter().find(|variant| variant.is_available()).expect("portable code always runs")
    }

    /// Whether this machine runs it.
    pub(super) fn is_available(self) -> bool {
        match self {
            #[cfg(target_arch = "x86_64")]
            Variant::Avx512 => {
                is_x86_feature_detected!("avx512f")
                    && is_x86_feature_detected!("avx512bw")
                    && is_x86_feature_detected!("avx512vl")
                    && Variant::Avx2.is_available()
            }
            #[cfg(target_arch = "x86_64")]
            Variant::Avx2 => is_x86_feature_detected!("avx2") && is_x86_feature_detected!("fma"),
            #[cfg(not(target_arch = "x86_64"))]
            Variant::Avx512 | Variant::Avx2 => false,
            Variant::Portable => true,
        }
    }
}

/// Runs `job` with that variant of the microkernel.
///
/// # Panics
///
/// If this machine lacks the variant.
pub(super) fn run(variant: Variant, product: Product, job: Job<'_, '_, f32>) {
    assert!(variant.is_available(), "{variant:?} does not run on this machine");
    match (variant, product) {
        // SAFETY: the assertion above has detected every feature that the function is compiled for.
        #[cfg(target_arch = "x86_64")]
        (Variant::Avx512, Product::Fused) => unsafe { avx512::run_fused(job) },
        // SAFETY: as above.
        #[cfg(target_arch = "x86_64")]
        (Variant::Avx512, Product::Rounded) => unsafe { avx512::run_rounded(job) },
        // SAFETY: as above.
        #[cfg(target_arch = "x86_64")]
        (Variant::Avx2, Product::Fused) => unsafe { avx2::run::<true>(job) },
        // SAFETY: as above.
        #[cfg(target_arch = "x86_64")]
        (Variant::Avx2, Product::Rounded) => unsafe { avx2::run::<false>(job) },
        (_, Product::Fused) => block::run(job, portable::multiply::<true>),
        (_, Product::Rounded) => block::run(job, portable::multiply::<false>),
    }
}

#[cfg(target_arch = "x86_64")]
mod avx512 {
    use super::{Job, TILE_M, TILE_N, Tile, avx2, block};
    use std::arch::x86_64::{
        __m512, _mm512_fmadd_ps, _mm512_loadu_ps, _mm512_set1_ps, _mm512_setzero_ps, _mm512_storeu_ps,
    };

    const VECTOR: usize = 16;

    #[target_feature(enable = "avx512f,avx512bw,avx512vl,avx2,fma")]
    pub(super) fn run_fused(job: Job<'_, '_, f32>) {
        block::run(job, |stationary, moving, tile, columns| {
            if columns <= VECTOR {
                multiply_fused::<1>(stationary, moving, tile);
            } else {
                multiply_fused::<{ TILE_N / VECTOR }>(stationary, moving, tile);
            }
        });
    }

    /// Zen 4 overlaps separate products and sums better at 256 bits: 86 against 71 GFLOP/s.
    #[target_feature(enable = "avx512f,avx512bw,avx512vl,avx2,fma")]
    pub(super) fn run_rounded(job: Job<'_, '_, f32>) {
        block::run(job, |stationary, moving, tile, _| avx2::multiply::<false>(stationary, moving, tile));
    }

    /// The first `VECTORS` vectors of each row of the tile.
    #[target_feature(enable = "avx512f")]
    fn multiply_fused<const VECTORS: usize>(stationary: &[f32], moving: &[f32], tile: &mut Tile) {
        let stationary = stationary.as_chunks::<TILE_M>().0;
        let moving = moving.as_chunks::<TILE_N>().0;
        let mut sums = [[_mm512_setzero_ps(); VECTORS]; TILE_M];
        for (s, t) in stationary.iter().zip(moving) {
            let t_values = t.as_chunks::<VECTOR>().0;
            let mut t = [_mm512_setzero_ps(); VECTORS];
            for n in 0..VECTORS {
                t[n] = load(&t_values[n]);
            }
            for m in 0..TILE_M {
                let s = _mm512_set1_ps(s[m]);
                for n in 0..VECTORS {
                    sums[m][n] = _mm512_fmadd_ps(s, t[n], sums[m][n]);
                }
            }
        }
        for m in 0..TILE_M {
            let values = tile[m].as_chunks_mut::<VECTOR>().0;
            for n in 0..VECTORS {
                // SAFETY: the array has the vector's 16 values; the store needs no alignment.
                unsafe { _mm512_storeu_ps(values[n].as_mut_ptr(), sums[m][n]) };
            }
        }
    }

    #[inline]
    #[target_feature(enable = "avx512f")]
    fn load(values: &[f32; VECTOR]) -> __m512 {
        // SAFETY: the array has the vector's 16 values; the load needs no alignment.
        unsafe { _mm512_loadu_ps(values.as_ptr()) }
    }
}

#[cfg(target_arch = "x86_64")]
mod avx2 {
    use super::{Job, TILE_M, TILE_N, Tile, block};
    use std::arch::x86_64::{
        __m256, _mm256_add_ps, _mm256_fmadd_ps, _mm256_loadu_ps, _mm256_mul_ps, _mm256_set1_ps, _mm256_setzero_ps,
        _mm256_storeu_ps,
    };

    const VECTOR: usize = 8;
    /// A quarter of the tile's sums fill half the 16 registers.
    const PART_M: usize = TILE_M / 2;
    const PART_N: usize = TILE_N / 2;

    #[target_feature(enable = "avx2,fma")]
    pub(super) fn run<const FUSED: bool>(job: Job<'_, '_, f32>) {
        block::run(job, |stationary, moving, tile, _| multiply::<FUSED>(stationary, moving, tile));
    }

    #[target_feature(enable = "avx2,fma")]
    pub(super) fn multiply<const FUSED: bool>(stationary: &[f32], moving: &[f32], tile: &mut Tile) {
        for n in (0..TILE_N).step_by(PART_N) {
            for m in (0..TILE_M).step_by(PART_M) {
                multiply_part::<FUSED>(stationary, moving, tile, m, n);
            }
        }
    }

    /// The sums of `PART_M` rows from `m` on and `PART_N` columns from `n` on.
    #[inline]
    #[target_feature(enable = "avx2,fma")]
    fn multiply_part<const FUSED: bool>(stationary: &[f32], moving: &[f32], tile: &mut Tile, m: usize, n: usize) {
        let stationary = stationary.as_chunks::<TILE_M>().0;
        let moving = moving.as_chunks::<TILE_N>().0;
        let mut sums = [[_mm256_setzero_ps(); PART_N / VECTOR]; PART_M];
        for (s, t) in stationary.iter().zip(moving) {
            let s = &s.as_chunks::<PART_M>().0[m / PART_M];
            let t = t[n..].as_chunks::<VECTOR>().0;
            let t = [load(&t[0]), load(&t[1])];
            for i in 0..PART_M {
                let s = _mm256_set1_ps(s[i]);
                for j in 0..PART_N / VECTOR {
                    sums[i][j] = if FUSED {
                        _mm256_fmadd_ps(s, t[j], sums[i][j])
                    } else {
                        _mm256_add_ps(sums[i][j], _mm256_mul_ps(s, t[j]))
                    };
                }
            }
        }
        for i in 0..PART_M {
            let values = tile[m + i][n..].as_chunks_mut::<VECTOR>().0;
            for j in 0..PART_N / VECTOR {
                // SAFETY: the array has the vector's 8 values; the store needs no alignment.
                unsafe { _mm256_storeu_ps(values[j].as_mut_ptr(), sums[i][j]) };
            }
        }
    }

    #[inline]
    #[target_feature(enable = "avx")]
    fn load(values: &[f32; VECTOR]) -> __m256 {
        // SAFETY: the array has the vector's 8 values; the load needs no alignment.
        unsafe { _mm256_loadu_ps(values.as_ptr()) }
    }
}

mod portable {
    use super::{TILE_M, TILE_N, Tile, block};

    /// Columns whose sums the compiler can keep in registers.
    const PART_N: usize = 8;

    pub(super) fn multiply<const FUSED: bool>(stationary: &[f32], moving: &[f32], tile: &mut Tile, _columns: usize) {
        for n in (0..TILE_N).step_by(PART_N) {
            let mut sums = [[0.0; PART_N]; TILE_M];
            let rows = stationary.as_chunks::<TILE_M>().0.iter();
            for (s, t) in rows.zip(moving.as_chunks::<TILE_N>().0) {
                let t = &t.as_chunks::<PART_N>().0[n / PART_N];
                for i in 0..TILE_M {
                    for j in 0..PART_N {
                        sums[i][j] = if FUSED { add_product(sums[i][j], s[i], t[j]) } else { sums[i][j] + s[i] * t[j] };
                    }
                }
            }
            for (row, sums) in tile.iter_mut().zip(sums) {
                row[n..n + PART_N].copy_from_slice(&sums);
            }
        }
    }

    /// `fl32(sum + s * t)`: by instruction where the target always has one; the C library's function is not trusted.
    #[inline(always)]
    fn add_product(sum: f32, s: f32, t: f32) -> f32 {
        if cfg!(any(target_arch = "aarch64", target_feature = "fma")) {
            s.mul_add(t, sum)
        } else {
            block::add_exact(sum, f64::from(s) * f64::from(t))
        }
    }
}
