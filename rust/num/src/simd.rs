//! One plain loop, compiled for the vector units at hand.
//!
//! [`dispatch`] runs a [`Kernel`] in a copy compiled for AVX-512, for AVX2, or for the target's baseline. All copies
//! come from the same source and give the same bits: the code uses integer work and single IEEE operations only, Rust
//! neither reorders them nor contracts a product and a sum, and no fused multiply-add feature is switched on.
//!
//! `run` (and everything it calls in its loop) must be `#[inline(always)]`, else it is compiled for the baseline once.
//! This is the only module of the crate with `unsafe`; `reference` is its plain counterpart.
#![allow(unsafe_code)]

/// A loop over data: the operands are its fields.
pub trait Kernel {
    /// What the loop returns.
    type Output;

    /// Runs the loop. Mark the implementation `#[inline(always)]`.
    fn run(self) -> Self::Output;
}

/// What a copy of a kernel is compiled for, narrowest first.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
enum Form {
    Baseline,
    #[cfg(target_arch = "x86_64")]
    Avx2,
    #[cfg(target_arch = "x86_64")]
    Avx512,
}

/// Runs a kernel in the widest form that this machine has.
#[inline]
pub fn dispatch<K: Kernel>(kernel: K) -> K::Output {
    match form() {
        Form::Baseline => kernel.run(),
        // Sound: `form` names only what it has detected on this machine.
        #[cfg(target_arch = "x86_64")]
        Form::Avx2 => unsafe { avx2(kernel) },
        // Sound: as above.
        #[cfg(target_arch = "x86_64")]
        Form::Avx512 => unsafe { avx512(kernel) },
    }
}

#[cfg(not(test))]
#[inline]
fn form() -> Form {
    widest()
}

#[inline]
fn widest() -> Form {
    #[cfg(target_arch = "x86_64")]
    {
        if is_x86_feature_detected!("avx512f")
            && is_x86_feature_detected!("avx512bw")
            && is_x86_feature_detected!("avx512vl")
            && is_x86_feature_detected!("avx512dq")
        {
            return Form::Avx512;
        }
        if is_x86_feature_detected!("avx2") {
            return Form::Avx2;
        }
    }
    Form::Baseline
}

#[cfg(target_arch = "x86_64")]
#[target_feature(enable = "avx512f,avx512bw,avx512vl,avx512dq")]
fn avx512<K: Kernel>(kernel: K) -> K::Output {
    kernel.run()
}

#[cfg(target_arch = "x86_64")]
#[target_feature(enable = "avx2")]
fn avx2<K: Kernel>(kernel: K) -> K::Output {
    kernel.run()
}

/// The integer part of a value; 0 for NaN and for what int32 does not hold.
///
/// The language's own cast saturates, which the compiler does not turn into vector code.
#[inline(always)]
pub(crate) fn truncate_i32(value: f32) -> i32 {
    const LIMIT: f32 = 2_147_483_648.0;
    let within = if (-LIMIT..LIMIT).contains(&value) { value } else { 0.0 };
    // Sound: the value is not NaN and its integer part is that of an int32.
    unsafe { within.to_int_unchecked() }
}

#[cfg(test)]
thread_local! {
    static LIMIT: std::cell::Cell<Option<Form>> = const { std::cell::Cell::new(None) };
}

#[cfg(test)]
fn form() -> Form {
    LIMIT.get().map_or(widest(), |limit| limit.min(widest()))
}

/// Runs a test once for each form that this machine has.
#[cfg(test)]
pub(crate) fn in_every_form(test: impl Fn()) {
    let mut forms = vec![Form::Baseline];
    #[cfg(target_arch = "x86_64")]
    forms.extend([Form::Avx2, Form::Avx512]);
    for form in forms.into_iter().filter(|form| *form <= widest()) {
        LIMIT.set(Some(form));
        test();
        LIMIT.set(None);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    struct Sum<'a>(&'a [f32]);

    impl Kernel for Sum<'_> {
        type Output = u32;

        #[inline(always)]
        fn run(self) -> u32 {
            self.0.iter().map(|x| x * 1.1 + 0.3).sum::<f32>().to_bits()
        }
    }

    #[test]
    fn every_form_gives_the_same_bits() {
        let values: Vec<f32> = (0..1000u16).map(|i| f32::from(i) * 0.37 - 111.0).collect();
        let want = Sum(&values).run();
        in_every_form(|| assert_eq!(dispatch(Sum(&values)), want));
    }
}
