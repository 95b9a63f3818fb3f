//! The activation functions of the Scalar engine, and the functions that `nki.language` adds to them.
//!
//! Formulas follow the public NKI reference. The hardware evaluates piecewise polynomials whose coefficients are not
//! public; here each function is the exact one, rounded to binary32 with an error of at most
//! [`Function::error_bound_ulp`]. What the hardware does outside a function's documented input range is not modelled
//! except for [`Function::Sin`], where the documents give a value.
//!
//! Invariants:
//!
//! - Only `+ - * /`, `sqrt` and integer work, in a fixed order, so every bit is the same on every machine. Evaluation
//!   is in binary64 with our own polynomials and one final rounding; subnormal results are kept.
//! - The slice form equals the scalar form bit for bit: it is the same expression, compiled for wider vectors.
//! - Special values follow IEEE 754. A function of an infinity is its limit (`silu(-inf)` is -0). Every NaN result is
//!   the quiet NaN `0x7FC0_0000`, also from [`Function::Copy`].
//!
//! Measured against x87 extended precision (glibc's `expl`, `erfcl`, `powl`, …, good to about 2^-63) at every bf16
//! value, at 20 million random binary32 arguments a function (uniform in code, in value and in exponent) and at 40,000
//! consecutive ones around each seam and zero crossing: the largest error is below 0.500001 ulp for every function,
//! `power` included, except where a derivative crosses zero: there 6e-17 comes on top (0.577 ulp once, in `gelu_dx`).
//! The golden file `tests/vectors/functions.toml`, from mpmath, is matched in every bit but there, and but for ties
//! between two results that no double tells from their neighbourhood (`gelu(2^-149)`).

mod exponential;
mod logarithm;
mod logistic;
mod normal;
mod polynomial;
mod power;
mod slice;
#[cfg(test)]
mod tests;
mod trigonometric;

use slice::Kernel;
use trigonometric::{Angular, Cos, SinReduced, Tan};

/// `x` rounded to binary32, to nearest with ties to even; overflow gives an infinity, NaN the canonical one.
#[inline(always)]
fn narrow(x: f64) -> f32 {
    canonical(x as f32)
}

/// `x`, with every NaN replaced by `0x7FC0_0000`.
///
/// In integers, because a compiler may keep any NaN where a floating-point expression gives one.
#[inline(always)]
fn canonical(x: f32) -> f32 {
    let bits = x.to_bits();
    let is_nan = bits & 0x7FFF_FFFF > 0x7F80_0000;
    f32::from_bits(if is_nan { 0x7FC0_0000 } else { bits })
}

/// -1, 0 or +1; 0 for both zeros.
#[inline(always)]
fn sign(x: f32) -> f32 {
    let value = if x > 0.0 { 1.0 } else { 0.0 };
    let value = if x < 0.0 { -1.0 } else { value };
    if x.is_nan() { x } else { value }
}

/// `x` where it is positive, +0 where it is not.
#[inline(always)]
fn relu(x: f32) -> f32 {
    let value = if x > 0.0 { x } else { 0.0 };
    if x.is_nan() { x } else { value }
}

/// Makes [`Function`] and everything that depends on the list of functions from one table.
///
/// A row: doc text, variant = code, public name, error bound in ulp, argument and value.
macro_rules! functions {
    ($($(#[$doc:meta])* $variant:ident = $code:literal, $name:literal, $bound:literal, $x:ident => $value:expr;)*) => {
        /// A function of one number, under its public `nki.language` name.
        #[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
        #[repr(u8)]
        pub enum Function {
            $($(#[$doc])* $variant = $code,)*
        }

        impl Function {
            /// Every function, in the order of its code.
            pub const ALL: &'static [Function] = &[$(Function::$variant),*];

            /// The public `nki.language` name.
            pub const fn name(self) -> &'static str {
                match self {
                    $(Function::$variant => $name,)*
                }
            }

            /// The function of a public name.
            pub fn from_name(name: &str) -> Option<Function> {
                match name {
                    $($name => Some(Function::$variant),)*
                    _ => None,
                }
            }

            /// The function of a code, as given by [`Function::code`].
            pub const fn from_code(code: u8) -> Option<Function> {
                match code {
                    $($code => Some(Function::$variant),)*
                    _ => None,
                }
            }

            /// The bound on the distance between result and exact value, in binary32 units in the last place at the
            /// exact value (2^-149 for subnormal ones); [`Function::error_bound_absolute`] comes on top.
            ///
            /// Half a unit is rounding; the rest covers the evaluation in binary64.
            pub const fn error_bound_ulp(self) -> f64 {
                match self {
                    $(Function::$variant => $bound,)*
                }
            }
        }

        /// The value of `function` at `x`.
        ///
        /// [`Function::Prelu`] is evaluated with slope 0, the default of `activate2`'s `relu_param`; [`prelu`] takes
        /// a slope.
        pub fn evaluate(function: Function, x: f32) -> f32 {
            match function {
                $(Function::$variant => kernels::$variant.apply(x),)*
            }
        }

        /// Replaces every element of `data` by the value of `function` at it; equal to [`evaluate`] bit for bit.
        pub fn evaluate_slice(function: Function, data: &mut [f32]) {
            match function {
                $(Function::$variant => slice::map(kernels::$variant, data),)*
            }
        }

        /// One type a function, so that each gets its own loop.
        mod kernels {
            use super::*;

            $(
                #[derive(Clone, Copy)]
                pub(super) struct $variant;

                impl Kernel for $variant {
                    #[inline(always)]
                    fn apply(self, $x: f32) -> f32 {
                        $value
                    }
                }
            )*
        }
    };
}

functions! {
    /// x.
    Copy = 0, "copy", 0.0, x => canonical(x);
    /// x², rounded once.
    Square = 1, "square", 0.5, x => canonical(x * x);
    /// |x|.
    Abs = 2, "abs", 0.0, x => canonical(x.abs());
    /// -1, 0 or +1; 0 for both zeros.
    Sign = 3, "sign", 0.0, x => canonical(sign(x));
    /// max(x, 0); +0 for -0.
    Relu = 4, "relu", 0.0, x => canonical(relu(x));
    /// x where x >= 0, a x elsewhere, with a = 0 in [`evaluate`]; see [`prelu`].
    Prelu = 5, "prelu", 0.5, x => Slope(0.0).apply(x);
    /// σ(x) = 1 / (1 + e^-x).
    Sigmoid = 6, "sigmoid", 0.501, x => narrow(logistic::sigmoid(f64::from(x)));
    /// tanh x.
    Tanh = 7, "tanh", 0.501, x => narrow(logistic::tanh(f64::from(x)));
    /// e^x.
    Exp = 8, "exp", 0.501, x => narrow(exponential::exp(f64::from(x)));
    /// ln x.
    Log = 9, "log", 0.501, x => narrow(logarithm::log(f64::from(x)));
    /// √x, rounded once.
    Sqrt = 10, "sqrt", 0.5, x => canonical(x.sqrt());
    /// 1 / √x; -inf for -0.
    Rsqrt = 11, "rsqrt", 0.501, x => narrow(1.0 / f64::from(x).sqrt());
    /// 1 / x, rounded once.
    Reciprocal = 12, "reciprocal", 0.5, x => canonical(1.0 / x);
    /// sin x for |x| <= π; beyond, the cubic Taylor polynomial about the nearer of ±π goes on: with u = |x| - π,
    /// u³/6 - u and the sign of x. It reproduces the documented sin(9.0) ≈ 27.65. [`sin_reduced`] is the true sine.
    Sin = 13, "sin", 0.501, x => narrow(trigonometric::sin(f64::from(x)));
    /// arctan x.
    Arctan = 14, "arctan", 0.501, x => narrow(trigonometric::arctan(f64::from(x)));
    /// erf x.
    Erf = 15, "erf", 0.501, x => narrow(normal::erf(f64::from(x)));
    /// (2/√π) e^(-x²).
    ErfDx = 16, "erf_dx", 0.501, x => narrow(normal::erf_dx(f64::from(x)));
    /// x Φ(x), Φ the normal distribution function.
    Gelu = 17, "gelu", 0.501, x => narrow(normal::gelu(f64::from(x)));
    /// Φ(x) + x φ(x), φ the normal density.
    GeluDx = 18, "gelu_dx", 0.501, x => narrow(normal::gelu_dx(f64::from(x)));
    /// ½ x (1 + tanh(√(2/π) (x + 0.044715 x³))).
    GeluApprxTanh = 19, "gelu_apprx_tanh", 0.501, x => narrow(logistic::gelu_apprx_tanh(f64::from(x)));
    /// x σ(1.702 x).
    GeluApprxSigmoid = 20, "gelu_apprx_sigmoid", 0.501,
        x => narrow(logistic::gelu_apprx_sigmoid(f64::from(x)));
    /// σ(z) (1 + z (1 - σ(z))) with z = 1.702 x.
    GeluApprxSigmoidDx = 21, "gelu_apprx_sigmoid_dx", 0.501,
        x => narrow(logistic::gelu_apprx_sigmoid_dx(f64::from(x)));
    /// x σ(x).
    Silu = 22, "silu", 0.501, x => narrow(logistic::silu(f64::from(x)));
    /// σ(x) (1 + x (1 - σ(x))).
    SiluDx = 23, "silu_dx", 0.501, x => narrow(logistic::silu_dx(f64::from(x)));
    /// ln(1 + e^x).
    Softplus = 24, "softplus", 0.501, x => narrow(logarithm::softplus(f64::from(x)));
    /// x tanh(ln(1 + e^x)).
    Mish = 25, "mish", 0.501, x => narrow(logistic::mish(f64::from(x)));
}

impl Function {
    /// What [`Function::error_bound_ulp`] leaves out: the rounding of binary64 terms that cancel near the zero crossing
    /// of a derivative. Zero for every other function.
    pub const fn error_bound_absolute(self) -> f64 {
        match self {
            Function::GeluDx | Function::GeluApprxSigmoidDx | Function::SiluDx => f64::EPSILON / 2.0,
            _ => 0.0,
        }
    }

    /// The code of this function, its place in [`Function::ALL`].
    pub const fn code(self) -> u8 {
        self as u8
    }
}

/// [`prelu`] with its slope.
#[derive(Clone, Copy)]
struct Slope(f32);

impl Kernel for Slope {
    #[inline(always)]
    fn apply(self, x: f32) -> f32 {
        let negative = self.0 * x;
        canonical(if x >= 0.0 { x } else { negative })
    }
}

/// `x` where `x >= 0`, `slope * x` elsewhere.
pub fn prelu(x: f32, slope: f32) -> f32 {
    Slope(slope).apply(x)
}

/// [`prelu`] of every element.
pub fn prelu_slice(data: &mut [f32], slope: f32) {
    slice::map(Slope(slope), data);
}

/// [`power`] with its exponent.
#[derive(Clone, Copy)]
struct Exponent(f32);

impl Kernel for Exponent {
    #[inline(always)]
    fn apply(self, x: f32) -> f32 {
        narrow(power::power(f64::from(x), f64::from(self.0)))
    }
}

/// `x^y`, within 0.501 ulp and correctly rounded where the exact value has at most 25 significant bits; exponents of
/// 2, 1, ½, -½ and -1 give the bits of the operators `square`, `copy`, `sqrt`, `rsqrt` and `reciprocal` for positive
/// `x`.
///
/// Special values are those of IEEE 754's `pow`: `pow(x, 0)` and `pow(1, y)` are 1 even for NaN, a negative `x` with
/// a `y` that is not an integer gives NaN.
pub fn power(x: f32, y: f32) -> f32 {
    Exponent(y).apply(x)
}

/// [`power`] of every element, with one exponent.
pub fn power_slice(data: &mut [f32], y: f32) {
    slice::map(Exponent(y), data);
}

/// The moderate form of an angular function as a kernel.
struct Moderate<A>(core::marker::PhantomData<A>);

impl<A> Clone for Moderate<A> {
    fn clone(&self) -> Self {
        *self
    }
}

impl<A> Copy for Moderate<A> {}

impl<A: Angular> Kernel for Moderate<A> {
    #[inline(always)]
    fn apply(self, x: f32) -> f32 {
        narrow(A::moderate(f64::from(x)))
    }
}

/// One angular function of one number.
fn angular<A: Angular>(x: f32) -> f32 {
    if trigonometric::is_large(x) { narrow(A::large(x)) } else { Moderate::<A>(core::marker::PhantomData).apply(x) }
}

/// One angular function of every element; a stretch without large arguments takes the vector form.
fn angular_slice<A: Angular>(data: &mut [f32]) {
    for stretch in data.chunks_mut(128) {
        let large = stretch.iter().fold(false, |any, &x| any | trigonometric::is_large(x));
        if large {
            stretch.iter_mut().for_each(|x| *x = angular::<A>(*x));
        } else {
            slice::map(Moderate::<A>(core::marker::PhantomData), stretch);
        }
    }
}

/// sin x for every `x`, within 0.501 ulp; NaN for infinities. For `nl.sin`; the engine's own is [`Function::Sin`].
pub fn sin_reduced(x: f32) -> f32 {
    angular::<SinReduced>(x)
}

/// cos x for every `x`, within 0.501 ulp; NaN for infinities.
pub fn cos(x: f32) -> f32 {
    angular::<Cos>(x)
}

/// tan x for every `x`, within 0.501 ulp; NaN for infinities.
pub fn tan(x: f32) -> f32 {
    angular::<Tan>(x)
}

/// [`sin_reduced`] of every element.
pub fn sin_reduced_slice(data: &mut [f32]) {
    angular_slice::<SinReduced>(data);
}

/// [`cos`] of every element.
pub fn cos_slice(data: &mut [f32]) {
    angular_slice::<Cos>(data);
}

/// [`tan`] of every element.
pub fn tan_slice(data: &mut [f32]) {
    angular_slice::<Tan>(data);
}
