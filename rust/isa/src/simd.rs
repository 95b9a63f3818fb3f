//! Elementwise loops, compiled for the vector units that the host may have.
//!
//! The plain loops are `#[inline(always)]` and are instantiated once for the baseline and once for each wider unit;
//! Rust never contracts a multiplication and an addition, so all instances give the same bits.
#![allow(unsafe_code)]

use crate::operator::{Operator, canonical};

macro_rules! each_operator {
    ($operator:expr, $f:ident) => {
        match $operator {
            Operator::Add => $f!(Operator::Add),
            Operator::Subtract => $f!(Operator::Subtract),
            Operator::Multiply => $f!(Operator::Multiply),
            Operator::Maximum => $f!(Operator::Maximum),
            Operator::Minimum => $f!(Operator::Minimum),
            Operator::Abs => $f!(Operator::Abs),
            Operator::Square => $f!(Operator::Square),
            Operator::Relu => $f!(Operator::Relu),
            other => $f!(other),
        }
    };
}

#[inline(always)]
fn binary_plain(operator: Operator, x: &[f32], y: &[f32], out: &mut [f32]) {
    macro_rules! run {
        ($op:expr) => {
            for ((out, &x), &y) in out.iter_mut().zip(x).zip(y) {
                *out = $op.evaluate(x, y);
            }
        };
    }
    each_operator!(operator, run);
}

#[inline(always)]
fn constant_plain(operator: Operator, values: &mut [f32], constant: f32, reverse: bool) {
    macro_rules! run {
        ($op:expr) => {
            if reverse {
                for value in values.iter_mut() {
                    *value = $op.evaluate(constant, *value);
                }
            } else {
                for value in values.iter_mut() {
                    *value = $op.evaluate(*value, constant);
                }
            }
        };
    }
    each_operator!(operator, run);
}

#[inline(always)]
fn scale_plain(values: &mut [f32], scale: f32) {
    for value in values {
        *value = canonical(*value * scale);
    }
}

#[inline(always)]
fn add_plain(values: &mut [f32], bias: f32) {
    for value in values {
        *value = canonical(*value + bias);
    }
}

#[inline(always)]
fn select_plain(predicate: &[f32], on_true: &[f32], on_false: f32, reverse: bool, out: &mut [f32]) {
    for ((out, &predicate), &value) in out.iter_mut().zip(predicate).zip(on_true) {
        let holds = (predicate != 0.0) != reverse;
        // On the bits, so that a NaN stays as it is.
        *out = f32::from_bits(if holds { value.to_bits() } else { on_false.to_bits() });
    }
}

/// Values compared side by side in [`extreme`].
const LANES: usize = 32;

#[inline(always)]
fn extreme_plain(maximum: bool, values: &[f32], running: &mut f32) {
    if maximum {
        extreme_of(Operator::Maximum, |x, y| x > y, values, running);
    } else {
        extreme_of(Operator::Minimum, |x, y| x < y, values, running);
    }
}

#[inline(always)]
fn extreme_of(operator: Operator, beyond: impl Fn(f32, f32) -> bool, values: &[f32], running: &mut f32) {
    let Some(last) = values.last_chunk::<LANES>() else {
        *running = values.iter().fold(*running, |x, &y| operator.evaluate(x, y));
        return;
    };
    let further = |x: f32, y: f32| if beyond(x, y) { x } else { y };
    let mut lanes = [*running; LANES];
    let mut nan = [u32::from(running.is_nan()); LANES];
    let mut take = |chunk: &[f32; LANES]| {
        for at in 0..LANES {
            lanes[at] = further(lanes[at], chunk[at]);
            nan[at] |= u32::from(chunk[at].is_nan());
        }
    };
    values.as_chunks::<LANES>().0.iter().for_each(&mut take);
    // The last stretch overlaps the one before: a value that is taken twice changes nothing.
    take(last);
    let mut half = LANES / 2;
    while half > 0 {
        for at in 0..half {
            lanes[at] = further(lanes[at], lanes[at + half]);
            nan[at] |= nan[at + half];
        }
        half /= 2;
    }
    *running = if nan[0] != 0 {
        f32::from_bits(0x7FC0_0000)
    } else if lanes[0] == 0.0 {
        // Of equal values the last one stays, and zeros are equal.
        values.iter().rev().copied().find(|&value| value == 0.0).unwrap_or(*running)
    } else {
        lanes[0]
    };
}

/// A BF16 code as FP32.
#[inline(always)]
fn widen(code: u16) -> f32 {
    f32::from_bits(u32::from(code) << 16)
}

/// FP32 as a BF16 code, to nearest even; a NaN must be the canonical one, which [`Operator::evaluate`] gives.
#[inline(always)]
fn narrow(value: f32) -> u16 {
    let bits = value.to_bits();
    (bits.wrapping_add(0x7FFF + (bits >> 16 & 1)) >> 16) as u16
}

#[inline(always)]
fn binary_bf16_plain(operator: Operator, x: &[u16], y: &[u16], out: &mut [u16]) {
    macro_rules! run {
        ($op:expr) => {
            for ((out, &x), &y) in out.iter_mut().zip(x).zip(y) {
                *out = narrow($op.evaluate(widen(x), widen(y)));
            }
        };
    }
    each_operator!(operator, run);
}

#[inline(always)]
fn constant_bf16_plain(operator: Operator, x: &[u16], constant: f32, reverse: bool, out: &mut [u16]) {
    macro_rules! run {
        ($op:expr) => {
            if reverse {
                for (out, &x) in out.iter_mut().zip(x) {
                    *out = narrow($op.evaluate(constant, widen(x)));
                }
            } else {
                for (out, &x) in out.iter_mut().zip(x) {
                    *out = narrow($op.evaluate(widen(x), constant));
                }
            }
        };
    }
    each_operator!(operator, run);
}

macro_rules! dispatched {
    ($(#[$doc:meta])* $name:ident, $plain:ident, ($($arg:ident: $ty:ty),*)) => {
        $(#[$doc])*
        pub fn $name($($arg: $ty),*) {
            #[cfg(target_arch = "x86_64")]
            {
                #[target_feature(enable = "avx512f,avx512bw,avx512vl,avx512dq")]
                fn avx512($($arg: $ty),*) { $plain($($arg),*) }
                #[target_feature(enable = "avx2")]
                fn avx2($($arg: $ty),*) { $plain($($arg),*) }
                if is_x86_feature_detected!("avx512f") && is_x86_feature_detected!("avx512bw")
                    && is_x86_feature_detected!("avx512vl") && is_x86_feature_detected!("avx512dq")
                {
                    // SAFETY: the processor has the features that the function was compiled for.
                    return unsafe { avx512($($arg),*) };
                }
                if is_x86_feature_detected!("avx2") {
                    // SAFETY: as above.
                    return unsafe { avx2($($arg),*) };
                }
            }
            $plain($($arg),*)
        }
    };
}

dispatched! {
    /// `out = operator(x, y)`, element by element.
    binary, binary_plain, (operator: Operator, x: &[f32], y: &[f32], out: &mut [f32])
}
dispatched! {
    /// `values = operator(values, constant)`, or with the operands swapped.
    constant, constant_plain, (operator: Operator, values: &mut [f32], constant: f32, reverse: bool)
}
dispatched! {
    /// `out = bf16(operator(x, y))` on BF16 codes: [`binary`] with the conversions inside.
    binary_bf16, binary_bf16_plain, (operator: Operator, x: &[u16], y: &[u16], out: &mut [u16])
}
dispatched! {
    /// `out = bf16(operator(x, constant))` on BF16 codes, or with the operands swapped.
    constant_bf16, constant_bf16_plain,
    (operator: Operator, x: &[u16], constant: f32, reverse: bool, out: &mut [u16])
}
dispatched! {
    /// `out = on_true` where `predicate` is not 0 (with `reverse`: where it is 0), `on_false` elsewhere.
    select, select_plain, (predicate: &[f32], on_true: &[f32], on_false: f32, reverse: bool, out: &mut [f32])
}
dispatched! {
    /// `running = operator(running, value)` for one value after the other, where the operator is maximum or (without
    /// `maximum`) minimum: the order matters for the sign of zero alone.
    extreme, extreme_plain, (maximum: bool, values: &[f32], running: &mut f32)
}
dispatched! {
    /// `values = fl32(values * scale)`.
    scale, scale_plain, (values: &mut [f32], scale: f32)
}
dispatched! {
    /// `values = fl32(values + bias)`.
    add, add_plain, (values: &mut [f32], bias: f32)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn bf16_loops_equal_conversion_and_fp32() {
        let codes: Vec<u16> = (0..=u16::MAX).collect();
        let other: Vec<u16> = codes.iter().map(|code| code.rotate_left(5) ^ 0x2A31).collect();
        let wide = |codes: &[u16]| codes.iter().map(|&code| widen(code)).collect::<Vec<f32>>();
        let narrowed = |values: &[f32]| {
            let mut bytes = vec![0; 2 * values.len()];
            trn3_num::encode_slice(trn3_num::Dtype::Bfloat16, values, &mut bytes, trn3_num::Cast::NEAREST);
            bytes.chunks_exact(2).map(|pair| u16::from_le_bytes([pair[0], pair[1]])).collect::<Vec<u16>>()
        };
        for &operator in Operator::ALL.iter().filter(|op| op.class() == crate::operator::Class::Arithmetic) {
            let (x, y) = (wide(&codes), wide(&other));
            let (mut out, mut expected) = (vec![0; codes.len()], vec![0.0; codes.len()]);
            binary_bf16(operator, &codes, &other, &mut out);
            binary(operator, &x, &y, &mut expected);
            assert_eq!(out, narrowed(&expected), "{operator:?}");
            for reverse in [false, true] {
                let mut expected = x.clone();
                constant_bf16(operator, &codes, -1.7, reverse, &mut out);
                constant(operator, &mut expected, -1.7, reverse);
                assert_eq!(out, narrowed(&expected), "{operator:?} with a constant");
            }
        }
    }

    #[test]
    fn extremes_are_those_of_one_evaluation_after_the_other() {
        let mut numbers: Vec<f32> = (0..100).map(|i| ((i * 37 % 101) as f32 - 50.0) * 0.5).collect();
        let check = |numbers: &[f32]| {
            for (operator, maximum) in [(Operator::Maximum, true), (Operator::Minimum, false)] {
                for start in [operator.identity(), 0.0, -0.0, 1e30, -1e30, f32::NAN] {
                    for length in [0, 1, 31, 32, 33, 64, 100] {
                        let numbers = &numbers[..length];
                        let expected = numbers.iter().fold(start, |x, &y| operator.evaluate(x, y));
                        let mut found = start;
                        extreme(maximum, numbers, &mut found);
                        let same = found.to_bits() == expected.to_bits() || length == 0;
                        assert!(same, "{operator:?} of {numbers:?} from {start}: {found}, not {expected}");
                    }
                }
            }
        };
        check(&numbers);
        for sign in [1.0, -1.0] {
            let zeros: Vec<f32> = numbers.iter().map(|x| if *x * sign > 0.0 { 0.0 } else { *x }).collect();
            check(&zeros);
            let mixed = zeros.iter().enumerate().map(|(i, x)| if *x == 0.0 && i % 3 == 1 { -0.0 } else { *x });
            check(&mixed.collect::<Vec<f32>>());
        }
        for at in [3, 40, 97] {
            numbers[at] = f32::from_bits(0xFFC0_0001);
            check(&numbers);
            numbers[at] = f32::NEG_INFINITY;
        }
    }

    #[test]
    fn the_wide_loops_equal_one_evaluation_at_a_time() {
        let x: Vec<f32> = (0..203).map(|i| (i as f32 - 100.0) * 0.37).chain([f32::NAN, f32::INFINITY]).collect();
        let y: Vec<f32> = x.iter().rev().map(|v| v * 1.7 + 0.1).collect();
        for &operator in Operator::ALL.iter().filter(|op| op.class() == crate::operator::Class::Arithmetic) {
            let mut out = vec![0.0; x.len()];
            binary(operator, &x, &y, &mut out);
            for i in 0..x.len() {
                assert_eq!(out[i].to_bits(), operator.evaluate(x[i], y[i]).to_bits(), "{operator:?} at {i}");
            }
            for reverse in [false, true] {
                let mut values = x.clone();
                constant(operator, &mut values, 1.25, reverse);
                for i in 0..x.len() {
                    let (a, b) = if reverse { (1.25, x[i]) } else { (x[i], 1.25) };
                    assert_eq!(values[i].to_bits(), operator.evaluate(a, b).to_bits());
                }
            }
        }
    }
}
