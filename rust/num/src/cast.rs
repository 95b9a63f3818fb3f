//! How a value becomes a narrower one: rounding and overflow.

use crate::random::Draws;

/// How a value between two neighbours of the target format is rounded.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum Rounding {
    /// To the nearest, ties to the even code.
    #[default]
    NearestEven,
    /// Up or down by chance, with the probability of the distance.
    ///
    /// A uniform integer below 2^k is added to the magnitude, of which the low k bits are then dropped (`isa.md` 4.2).
    /// Element i of a slice takes the i-th draw from the stream's position. A draw resolves 31 bits, so where more are
    /// dropped (values below 2^-8 of the smallest subnormal) the lower ones do not count. Targets that are integers,
    /// bool or E8M0 round to nearest all the same.
    Stochastic(Draws),
}

/// What a finite value or an infinity beyond the target's largest number becomes.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum Overflow {
    /// Infinity; NaN where there is no infinity (E4M3FN, E8M0); the largest number where there is neither (FP6, FP4).
    #[default]
    Ieee,
    /// The largest finite number of that sign, also from infinity (the saturating mode of OCP OFP8). Integers
    /// saturate under either rule. For E8M0 a zero becomes the smallest power.
    Saturate,
}

/// How a conversion rounds and what it does with too large values. The default is the plain cast of `ml_dtypes`.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Cast {
    /// Rounding.
    pub rounding: Rounding,
    /// Overflow.
    pub overflow: Overflow,
}

impl Cast {
    /// Round to nearest even; overflow to infinity or NaN: the plain cast of `ml_dtypes`.
    pub const NEAREST: Cast = Cast { rounding: Rounding::NearestEven, overflow: Overflow::Ieee };

    /// Round to nearest even; overflow to the largest finite number.
    pub const SATURATE: Cast = Cast { rounding: Rounding::NearestEven, overflow: Overflow::Saturate };

    /// Stochastic rounding from a stream; overflow to infinity or NaN.
    pub const fn stochastic(draws: Draws) -> Cast {
        Cast { rounding: Rounding::Stochastic(draws), overflow: Overflow::Ieee }
    }

    /// The cast for what follows after `elements` elements: a slice may be converted in pieces of any size.
    #[must_use]
    pub const fn skip(self, elements: u64) -> Cast {
        let rounding = match self.rounding {
            Rounding::NearestEven => Rounding::NearestEven,
            Rounding::Stochastic(draws) => Rounding::Stochastic(draws.skip(elements)),
        };
        Cast { rounding, overflow: self.overflow }
    }
}
