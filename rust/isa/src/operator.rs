//! The ALU operators of the Vector, Scalar and GpSimd engines.
//!
//! Source: `nki/api/nki.api.shared.rst` for names and for which ones reduce; the formulas follow from the names. The
//! result of arithmetic that is NaN is the canonical quiet NaN, whatever the payloads of the operands, so that the
//! bits do not depend on the host's processor.

use trn3_num::{Dtype, functions};

/// What kind of values an operator works on.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Class {
    /// Bit patterns of integers.
    Bitvec,
    /// FP32 numbers.
    Arithmetic,
}

macro_rules! operators {
    ($($variant:ident $name:literal $class:ident $reduces:literal $unary:literal,)*) => {
        /// An ALU operator, by its name in `nki.language`.
        #[derive(Debug, Clone, Copy, PartialEq, Eq)]
        #[repr(u8)]
        #[allow(missing_docs)]
        pub enum Operator { $($variant,)* }

        impl Operator {
            /// Every operator.
            pub const ALL: &'static [Operator] = &[$(Operator::$variant,)*];

            /// The name in `nki.language`.
            pub const fn name(self) -> &'static str {
                match self { $(Operator::$variant => $name,)* }
            }

            /// Bit patterns or FP32.
            pub const fn class(self) -> Class {
                match self { $(Operator::$variant => Class::$class,)* }
            }

            /// Whether a reduction may use it.
            pub const fn reduces(self) -> bool {
                match self { $(Operator::$variant => $reduces,)* }
            }

            /// Whether it takes one value.
            pub const fn is_unary(self) -> bool {
                match self { $(Operator::$variant => $unary,)* }
            }
        }
    };
}

operators! {
    Add "add" Arithmetic true false,
    Subtract "subtract" Arithmetic true false,
    Multiply "multiply" Arithmetic true false,
    Maximum "maximum" Arithmetic true false,
    Minimum "minimum" Arithmetic true false,
    Equal "equal" Arithmetic false false,
    NotEqual "not_equal" Arithmetic false false,
    GreaterEqual "greater_equal" Arithmetic false false,
    Greater "greater" Arithmetic false false,
    LessEqual "less_equal" Arithmetic false false,
    Less "less" Arithmetic false false,
    LogicalAnd "logical_and" Arithmetic true false,
    LogicalOr "logical_or" Arithmetic true false,
    LogicalXor "logical_xor" Arithmetic true false,
    Power "power" Arithmetic false false,
    AbsMax "abs_max" Arithmetic false false,
    AbsMin "abs_min" Arithmetic false false,
    Divide "divide" Arithmetic false false,
    Fmod "fmod" Arithmetic false false,
    Mod "mod" Arithmetic false false,
    Abs "abs" Arithmetic false true,
    Square "square" Arithmetic false true,
    Relu "relu" Arithmetic false true,
    Rsqrt "rsqrt" Arithmetic false true,
    Reciprocal "reciprocal" Arithmetic false true,
    Invert "invert" Bitvec false true,
    BitwiseAnd "bitwise_and" Bitvec true false,
    BitwiseOr "bitwise_or" Bitvec true false,
    BitwiseXor "bitwise_xor" Bitvec true false,
    LeftShift "left_shift" Bitvec false false,
    RightShift "right_shift" Bitvec false false,
}

/// NaN of any payload becomes the canonical quiet one.
#[inline(always)]
pub fn canonical(x: f32) -> f32 {
    // Tested on the bits: a compiler may keep any payload where a float comparison selects a NaN.
    let bits = x.to_bits();
    f32::from_bits(if bits & 0x7FFF_FFFF > 0x7F80_0000 { 0x7FC0_0000 } else { bits })
}

#[inline(always)]
fn truth(x: bool) -> f32 {
    f32::from(u8::from(x))
}

/// The remainder with the sign of the divisor.
fn modulo(x: f32, y: f32) -> f32 {
    let remainder = x % y;
    let other_side = remainder != 0.0 && (remainder < 0.0) != (y < 0.0);
    let value = if other_side { remainder + y } else { remainder };
    // A remainder of zero has the divisor's sign as well.
    canonical(if value == 0.0 { 0.0f32.copysign(y) } else { value })
}

/// Bits of a value that bit operators see; a truth value has one, whatever it is stored in.
pub fn bits_of(dtype: Dtype) -> u32 {
    if dtype == Dtype::Bool { 1 } else { 8 * dtype.size_bytes() as u32 }
}

/// Whether bit operators may combine two types: integers of one width, or truth values.
pub fn same_bits(a: Dtype, b: Dtype) -> bool {
    a.is_integer() && b.is_integer() && bits_of(a) == bits_of(b)
}

impl Operator {
    /// Whether the result is 1 or 0, whatever the values.
    const fn gives_truth(self) -> bool {
        matches!(
            self,
            Operator::Equal
                | Operator::NotEqual
                | Operator::GreaterEqual
                | Operator::Greater
                | Operator::LessEqual
                | Operator::Less
                | Operator::LogicalAnd
                | Operator::LogicalOr
                | Operator::LogicalXor
        )
    }

    /// Whether the result of a NaN may be a number.
    pub const fn hides_nan(self) -> bool {
        // 1 to any power and anything to the power of 0 are 1.
        self.gives_truth() || matches!(self, Operator::Power)
    }

    /// Whether the hardware has it; others are those of AWS's simulator.
    pub const fn is_on_hardware(self) -> bool {
        !matches!(self, Operator::Divide | Operator::Fmod | Operator::Mod)
    }

    /// Whether only the later generations have it (`capability.vector_extended_operators`).
    pub const fn is_extended(self) -> bool {
        matches!(self, Operator::AbsMax | Operator::AbsMin | Operator::Square | Operator::Relu)
    }

    /// The operator of that name.
    pub fn from_name(name: &str) -> Option<Operator> {
        let name = match name {
            "max" => "maximum",
            "min" => "minimum",
            "absolute" => "abs",
            "bitwise_not" => "invert",
            other => other,
        };
        Operator::ALL.iter().copied().find(|operator| operator.name() == name)
    }

    /// The operator with that discriminant.
    ///
    /// # Panics
    /// There is none: codes come from our own recorder.
    pub fn from_code(code: u8) -> Operator {
        Operator::ALL[usize::from(code)]
    }

    /// The result on FP32; unary operators ignore `y`.
    #[inline(always)]
    pub fn evaluate(self, x: f32, y: f32) -> f32 {
        match self {
            Operator::Add => canonical(x + y),
            Operator::Subtract => canonical(x - y),
            Operator::Multiply => canonical(x * y),
            Operator::Maximum => {
                if x.is_nan() | y.is_nan() {
                    f32::from_bits(0x7FC0_0000)
                } else if x > y {
                    x
                } else {
                    y
                }
            }
            Operator::Minimum => {
                if x.is_nan() | y.is_nan() {
                    f32::from_bits(0x7FC0_0000)
                } else if x < y {
                    x
                } else {
                    y
                }
            }
            Operator::Equal => truth(x == y),
            Operator::NotEqual => truth(x != y),
            Operator::GreaterEqual => truth(x >= y),
            Operator::Greater => truth(x > y),
            Operator::LessEqual => truth(x <= y),
            Operator::Less => truth(x < y),
            Operator::LogicalAnd => truth((x != 0.0) & (y != 0.0)),
            Operator::LogicalOr => truth((x != 0.0) | (y != 0.0)),
            Operator::LogicalXor => truth((x != 0.0) ^ (y != 0.0)),
            Operator::Power => functions::power(x, y),
            // A NaN on the left fails every comparison, and must not be lost.
            Operator::AbsMax => canonical(if x.abs() > y.abs() || x.is_nan() { x } else { y }),
            Operator::AbsMin => canonical(if x.abs() < y.abs() || x.is_nan() { x } else { y }),
            Operator::Divide => canonical(x / y),
            Operator::Fmod => canonical(x % y),
            Operator::Mod => modulo(x, y),
            Operator::Abs => canonical(x.abs()),
            Operator::Square => canonical(x * x),
            Operator::Relu => canonical(if x > 0.0 || x.is_nan() { x } else { 0.0 }),
            Operator::Rsqrt => functions::evaluate(functions::Function::Rsqrt, x),
            Operator::Reciprocal => canonical(1.0 / x),
            _ => unreachable!("bit operators work on words"),
        }
    }

    /// The result on bit patterns of `bits` bits, zero-extended; unary operators ignore `y`.
    pub fn evaluate_bits(self, x: u32, y: u32, bits: u32) -> u32 {
        let mask = if bits == 32 { u32::MAX } else { (1 << bits) - 1 };
        let (x, y) = (x & mask, y & mask);
        mask & match self {
            Operator::Invert => !x,
            Operator::BitwiseAnd => x & y,
            Operator::BitwiseOr => x | y,
            Operator::BitwiseXor => x ^ y,
            Operator::LeftShift => {
                if y >= bits {
                    0
                } else {
                    x << y
                }
            }
            Operator::RightShift => {
                if y >= bits {
                    0
                } else {
                    x >> y
                }
            }
            _ => unreachable!("arithmetic operators work on FP32"),
        }
    }

    /// The value that a reduction starts from.
    pub fn identity(self) -> f32 {
        match self {
            Operator::Multiply | Operator::LogicalAnd => 1.0,
            Operator::Maximum => f32::NEG_INFINITY,
            Operator::Minimum => f32::INFINITY,
            _ => 0.0,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::Operator;

    #[test]
    fn names_and_codes_round_trip() {
        for (code, operator) in Operator::ALL.iter().enumerate() {
            assert_eq!(Operator::from_name(operator.name()), Some(*operator));
            assert_eq!(Operator::from_code(code as u8), *operator);
        }
    }

    #[test]
    fn nan_propagates_through_maximum_and_compares_false() {
        assert!(Operator::Maximum.evaluate(f32::NAN, 1.0).is_nan());
        assert!(Operator::Maximum.evaluate(1.0, f32::NAN).is_nan());
        assert!(Operator::AbsMax.evaluate(f32::NAN, 1.0).is_nan());
        assert!(Operator::AbsMin.evaluate(1.0, f32::NAN).is_nan());
        assert_eq!(Operator::Less.evaluate(f32::NAN, 1.0), 0.0);
        assert_eq!(Operator::NotEqual.evaluate(f32::NAN, 1.0), 1.0);
        let payload = f32::from_bits(0xFFC1_2345);
        assert_eq!(Operator::Add.evaluate(payload, 1.0).to_bits(), 0x7FC0_0000);
    }

    #[test]
    fn shifts_past_the_width_give_zero() {
        assert_eq!(Operator::LeftShift.evaluate_bits(1, 8, 8), 0);
        assert_eq!(Operator::RightShift.evaluate_bits(0x80, 7, 8), 1);
        assert_eq!(Operator::Invert.evaluate_bits(0, 0, 16), 0xFFFF);
    }
}
