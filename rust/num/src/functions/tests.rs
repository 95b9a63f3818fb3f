//! Golden, exhaustive and property tests of the functions.
//!
//! The golden file comes from mpmath; its header names the command.

use super::trigonometric::{Angular, Cos, SinReduced, Tan};
use super::*;

const VECTORS: &str = include_str!("../../../../tests/vectors/functions.toml");

/// The rows of one table of the golden file: codes, then the exact value in double precision.
fn rows(table: &str) -> Vec<(Vec<u32>, f64)> {
    let header = format!("[{table}]");
    let rows: Vec<_> = VECTORS
        .lines()
        .skip_while(|line| *line != header)
        .skip(2)
        .take_while(|line| *line != "]")
        .map(|line| {
            let line = line.trim().trim_start_matches('[').trim_end_matches("],");
            let (codes, exact): (Vec<_>, Vec<_>) = line.split(", ").partition(|field| field.starts_with("0x"));
            let code = |field: &str| u32::from_str_radix(&field[2..], 16).expect("a code is hexadecimal");
            (
                codes.into_iter().map(code).collect(),
                exact[0].parse().expect("the last field is a TOML float, which Rust reads"),
            )
        })
        .collect();
    assert!(rows.len() > 200, "{table}: {} vectors", rows.len());
    rows
}

/// One unit in the last place of binary32 at `exact`.
fn ulp(exact: f64) -> f64 {
    let exponent = (exact.to_bits() >> 52 & 0x7FF).max(1023 - 126);
    f64::from_bits((exponent - 23) << 52)
}

/// Asserts that `result` has the expected bits and lies within the bound.
fn check(what: &str, result: f32, expected: u32, exact: f64, bound_ulp: f64, absolute: f64) {
    let distance = |x: f32| (f64::from(x) - exact).abs();
    let same = result.to_bits() == expected;
    // mpmath knows on which side of a tie the value lies even where no double does: gelu(2^-149) is above 2^-150.
    let tie = distance(result) == distance(f32::from_bits(expected));
    // Close to the zero crossing of a derivative only the bound below holds.
    let cancels = absolute > 0.0 && exact.abs() < 1e-6;
    assert!(same || tie || cancels, "{what} = {result:e}, not {:e}; exact {exact:e}", f32::from_bits(expected));
    if exact.is_nan() || result.is_infinite() {
        return;
    }
    // The exact value in the file is itself rounded to 53 bits.
    let slack = exact.abs() * f64::EPSILON;
    let error = distance(result);
    assert!(error <= bound_ulp * ulp(exact) + absolute + slack, "{what}: error {:e}", error / ulp(exact));
}

#[test]
fn functions_match_mpmath() {
    for &function in Function::ALL {
        if function == Function::Prelu {
            continue; // a formula of two comparisons, tested below
        }
        for (codes, exact) in rows(function.name()) {
            let x = f32::from_bits(codes[0]);
            let what = format!("{}({x:e})", function.name());
            let bound = function.error_bound_ulp();
            check(&what, evaluate(function, x), codes[1], exact, bound, function.error_bound_absolute());
        }
    }
}

#[test]
fn angular_functions_match_mpmath() {
    for name in ["sin_reduced", "cos", "tan"] {
        let function = match name {
            "sin_reduced" => sin_reduced,
            "cos" => cos,
            _ => tan,
        };
        for (codes, exact) in rows(name) {
            let x = f32::from_bits(codes[0]);
            check(&format!("{name}({x:e})"), function(x), codes[1], exact, 0.501, 0.0);
        }
    }
}

#[test]
fn power_matches_mpmath_and_ieee_754() {
    for (codes, exact) in rows("power") {
        let (x, y) = (f32::from_bits(codes[0]), f32::from_bits(codes[1]));
        check(&format!("power({x:e}, {y:e})"), power(x, y), codes[2], exact, 0.501, 0.0);
    }
}

/// Every bf16 value, then as many binary32 codes spread by a multiplicative generator.
fn inputs() -> Vec<f32> {
    let bf16 = (0..=u16::MAX).map(|code| u32::from(code) << 16);
    let spread = (0..=u32::from(u16::MAX)).map(|i| i.wrapping_mul(2_654_435_769).rotate_left(7));
    bf16.chain(spread).map(f32::from_bits).collect()
}

/// Asserts that the slice form equals the scalar form on every input.
fn assert_same(what: &str, scalar: impl Fn(f32) -> f32, slice: impl Fn(&mut [f32])) {
    let inputs = inputs();
    let mut outputs = inputs.clone();
    slice(&mut outputs);
    for (x, y) in inputs.into_iter().zip(outputs) {
        assert_eq!(y.to_bits(), scalar(x).to_bits(), "{what}({x:e})");
    }
}

#[test]
fn slices_equal_scalars() {
    for &function in Function::ALL {
        assert_same(function.name(), |x| evaluate(function, x), |data| evaluate_slice(function, data));
    }
    assert_same("sin_reduced", sin_reduced, sin_reduced_slice);
    assert_same("cos", cos, cos_slice);
    assert_same("tan", tan, tan_slice);
    for y in [-1.5, 0.0, 0.3, 2.0, 3.0, f32::INFINITY, f32::NAN] {
        assert_same("power", |x| power(x, y), |data| power_slice(data, y));
    }
    assert_same("prelu", |x| prelu(x, 0.25), |data| prelu_slice(data, 0.25));
}

#[test]
fn every_length_is_covered() {
    for length in 0..70 {
        let inputs: Vec<f32> = (0..length).map(|i| i as f32 * 0.37 - 5.0).collect();
        let mut outputs = inputs.clone();
        evaluate_slice(Function::Gelu, &mut outputs);
        let expected: Vec<f32> = inputs.iter().map(|&x| evaluate(Function::Gelu, x)).collect();
        assert_eq!(outputs, expected);
    }
}

#[test]
fn monotone_functions_are_monotone() {
    // Ordered bf16 values, and runs of consecutive binary32 numbers around the seams of the evaluation.
    let mut ordered: Vec<f32> = inputs().into_iter().filter(|x| x.is_finite()).collect();
    for seam in [0.35f32, 0.414, 0.5, 0.693, 0.707, 1.0, 1.414, 2.414, 9.01, 88.0] {
        for step in 0..20_000 {
            let x = f32::from_bits(seam.to_bits() - 4000 + step);
            ordered.extend([x, -x]);
        }
    }
    ordered.sort_by(f32::total_cmp);
    let rising = [
        Function::Sigmoid,
        Function::Tanh,
        Function::Exp,
        Function::Log,
        Function::Sqrt,
        Function::Arctan,
        Function::Erf,
        Function::Softplus,
        Function::Relu,
    ];
    for function in rising {
        let mut last = f32::NEG_INFINITY;
        for &x in &ordered {
            let y = evaluate(function, x);
            if y.is_nan() {
                continue; // log and sqrt of negative numbers
            }
            assert!(y >= last, "{}({x:e}) = {y:e} after {last:e}", function.name());
            last = y;
        }
    }
}

#[test]
fn odd_functions_are_odd() {
    for function in [Function::Tanh, Function::Sin, Function::Arctan, Function::Erf] {
        for x in inputs().into_iter().filter(|x| x.is_finite()) {
            assert_eq!(evaluate(function, -x).to_bits(), (-evaluate(function, x)).to_bits());
        }
    }
}

#[test]
fn nan_results_are_canonical() {
    for &function in Function::ALL {
        for code in [0x7F80_0001, 0x7FC1_2345, 0xFFC0_0000, 0xFFFF_FFFF] {
            let x = f32::from_bits(code);
            assert_eq!(evaluate(function, x).to_bits(), 0x7FC0_0000, "{}", function.name());
        }
    }
    assert_eq!(evaluate(Function::Sqrt, -1.0).to_bits(), 0x7FC0_0000);
    assert_eq!(evaluate(Function::Log, -1.0).to_bits(), 0x7FC0_0000);
    assert_eq!(power(-8.0, 1.0 / 3.0).to_bits(), 0x7FC0_0000);
}

#[test]
fn the_documented_sine_beyond_pi() {
    let y = evaluate(Function::Sin, 9.0);
    assert!((y - 27.65).abs() < 0.005, "{y}");
}

#[test]
fn powers_equal_the_operators_of_their_own() {
    for x in inputs() {
        assert_eq!(power(x, 2.0).to_bits(), evaluate(Function::Square, x).to_bits(), "{x:e}");
        if x > 0.0 && x.is_finite() {
            let pairs = [(1.0, Function::Copy), (0.5, Function::Sqrt), (-0.5, Function::Rsqrt)];
            for (y, function) in pairs.into_iter().chain([(-1.0, Function::Reciprocal)]) {
                assert_eq!(power(x, y).to_bits(), evaluate(function, x).to_bits(), "{x:e}^{y}");
            }
        }
    }
}

#[test]
fn exact_powers_and_ties_are_exact() {
    // Integer powers below 2^26, ties included: integer to binary32 conversion rounds as IEEE 754 says.
    for base in 2..8192u32 {
        for exponent in 2..26u32 {
            match base.checked_pow(exponent) {
                Some(exact) if exact < 1 << 26 => {
                    assert_eq!(power(base as f32, exponent as f32), exact as f32, "{base}^{exponent}");
                    assert_eq!(power(exact as f32, -1.0), 1.0 / exact as f32, "{exact}^-1");
                }
                _ => break,
            }
        }
    }
}

#[test]
fn prelu_follows_its_formula() {
    assert_eq!(prelu(3.0, 0.25), 3.0);
    assert_eq!(prelu(-3.0, 0.25), -0.75);
    assert_eq!(prelu(f32::INFINITY, 0.0), f32::INFINITY);
    assert_eq!(prelu(-0.0, 0.25).to_bits(), (-0.0f32).to_bits());
    assert!(prelu(f32::NAN, 0.25).is_nan());
}

#[test]
fn the_two_reductions_agree_where_both_hold() {
    // Up to 2^26 the products of the Cody-Waite reduction are still exact.
    for i in 0..100_000u32 {
        let x = f32::from_bits(33_554_432f32.to_bits() + 83 * i);
        for x in [x, -x] {
            assert_eq!(narrow(SinReduced::moderate(f64::from(x))), narrow(SinReduced::large(x)), "{x:e}");
            assert_eq!(narrow(Cos::moderate(f64::from(x))), narrow(Cos::large(x)), "{x:e}");
            assert_eq!(narrow(Tan::moderate(f64::from(x))), narrow(Tan::large(x)), "{x:e}");
        }
    }
}

#[test]
fn names_and_codes_round_trip() {
    for (place, &function) in Function::ALL.iter().enumerate() {
        assert_eq!(usize::from(function.code()), place);
        assert_eq!(Function::from_code(function.code()), Some(function));
        assert_eq!(Function::from_name(function.name()), Some(function));
    }
    assert_eq!(Function::from_code(26), None);
    assert_eq!(Function::from_name("gelu_tanh"), None);
}
