//! Options of a run.

use trn3_isa::{Strictness, Uninitialized};
use trn3_num::random::Draws;
use trn3_num::{Cast, Rounding};

/// How a run goes; the same options give the same bits.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct RunOptions {
    /// Seed of everything random.
    pub seed: u64,
    /// Whether conversions to narrower floats round stochastically.
    pub stochastic_rounding: bool,
    /// What stops the run.
    pub checks: Strictness,
    /// What unwritten memory reads as.
    pub uninitialized: Uninitialized,
}

impl Default for RunOptions {
    fn default() -> Self {
        RunOptions {
            seed: 0,
            stochastic_rounding: false,
            checks: Strictness::Lenient,
            uninitialized: Uninitialized::Poison,
        }
    }
}

impl RunOptions {
    /// The conversion of instruction number `at`.
    pub(crate) fn cast(&self, at: usize) -> Cast {
        if !self.stochastic_rounding {
            return Cast::NEAREST;
        }
        Cast { rounding: Rounding::Stochastic(Draws::new(self.seed, at as u64)), ..Cast::NEAREST }
    }
}
