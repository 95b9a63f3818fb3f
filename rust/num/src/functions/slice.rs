//! Applying a function to a slice, compiled once for each vector width.
//!
//! The scalar form of a function is one `#[inline(always)]` expression without branches; the loops here contain that
//! same expression, so a wider vector changes the speed and no bit. Fused multiply-add is never emitted: Rust does not
//! contract floating-point expressions, whatever the target features.

#![allow(unsafe_code)]

/// A function of one number, with its parameters if it has any.
pub(super) trait Kernel: Copy {
    /// The value at `x`.
    fn apply(self, x: f32) -> f32;
}

/// Elements handled at a time: two vectors of eight doubles.
const BLOCK: usize = 16;

/// The loop itself.
///
/// A tail shorter than a block is padded, so that it costs one block and not many scalar evaluations.
#[inline(always)]
fn map_blocks<K: Kernel>(kernel: K, data: &mut [f32]) {
    let (blocks, tail) = data.as_chunks_mut::<BLOCK>();
    for block in blocks.as_flattened_mut() {
        *block = kernel.apply(*block);
    }
    if !tail.is_empty() {
        let mut block = [1.0; BLOCK];
        block[..tail.len()].copy_from_slice(tail);
        for x in &mut block {
            *x = kernel.apply(*x);
        }
        tail.copy_from_slice(&block[..tail.len()]);
    }
}

/// Says whether this machine has the features of [`map_avx512`].
#[cfg(target_arch = "x86_64")]
fn has_avx512() -> bool {
    is_x86_feature_detected!("avx512f")
        && is_x86_feature_detected!("avx512dq")
        && is_x86_feature_detected!("avx512bw")
        && is_x86_feature_detected!("avx512vl")
}

#[cfg(target_arch = "x86_64")]
#[target_feature(enable = "avx512f,avx512dq,avx512bw,avx512vl")]
fn map_avx512<K: Kernel>(kernel: K, data: &mut [f32]) {
    map_blocks(kernel, data);
}

#[cfg(target_arch = "x86_64")]
#[target_feature(enable = "avx2")]
fn map_avx2<K: Kernel>(kernel: K, data: &mut [f32]) {
    map_blocks(kernel, data);
}

/// Replaces every element by the kernel's value at it, with the widest vectors that this machine has.
pub(super) fn map<K: Kernel>(kernel: K, data: &mut [f32]) {
    #[cfg(target_arch = "x86_64")]
    {
        if has_avx512() {
            // SAFETY: the function is safe Rust; its only condition is the four features, tested just above.
            return unsafe { map_avx512(kernel, data) };
        }
        if is_x86_feature_detected!("avx2") {
            // SAFETY: as above, for the one feature tested.
            return unsafe { map_avx2(kernel, data) };
        }
    }
    map_blocks(kernel, data);
}

#[cfg(all(test, target_arch = "x86_64"))]
mod tests {
    use super::{Kernel, has_avx512, map_avx2, map_avx512, map_blocks};
    use crate::functions::kernels;

    fn widths_agree<K: Kernel>(kernel: K) {
        let inputs: Vec<f32> = (0..=u16::MAX)
            .map(|code| f32::from_bits(u32::from(code) << 16 | u32::from(code.wrapping_mul(40_503))))
            .collect();
        let mut plain = inputs.clone();
        map_blocks(kernel, &mut plain);
        let bits = |data: &[f32]| data.iter().map(|x| x.to_bits()).collect::<Vec<_>>();
        if is_x86_feature_detected!("avx2") {
            let mut wide = inputs.clone();
            // SAFETY: the feature was just tested.
            unsafe { map_avx2(kernel, &mut wide) };
            assert_eq!(bits(&plain), bits(&wide));
        }
        if has_avx512() {
            let mut wide = inputs;
            // SAFETY: the features were just tested.
            unsafe { map_avx512(kernel, &mut wide) };
            assert_eq!(bits(&plain), bits(&wide));
        }
    }

    #[test]
    fn every_vector_width_gives_the_same_bits() {
        widths_agree(kernels::Exp);
        widths_agree(kernels::Log);
        widths_agree(kernels::Tanh);
        widths_agree(kernels::Softplus);
        widths_agree(kernels::Gelu);
        widths_agree(kernels::GeluDx);
        widths_agree(kernels::Erf);
        widths_agree(kernels::Sin);
        widths_agree(kernels::Arctan);
        widths_agree(kernels::Rsqrt);
        widths_agree(kernels::Sign);
        widths_agree(kernels::Relu);
    }
}
