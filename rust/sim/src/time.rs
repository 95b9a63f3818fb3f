//! Simulated time: integer picoseconds, and clocks.
//!
//! Invariants: time never wraps (every operation that would overflow panics or returns `None`, in release builds too),
//! and edge *n* of a clock of *f* Hz lies at ⌊n·10¹²/f⌋ exactly, whatever *n*. 64 bits of picoseconds last 213 days.

use std::fmt;
use std::iter::Sum;
use std::ops::{Add, AddAssign, Mul, Sub};

/// Picoseconds in a second.
pub const PICOS_PER_SECOND: u64 = 1_000_000_000_000;

/// A moment or a span of simulated time, in picoseconds.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
#[repr(transparent)]
pub struct Picos(pub u64);

impl Picos {
    /// The start of the simulation; an empty span.
    pub const ZERO: Picos = Picos(0);
    /// The last moment that can be named; stands for "no limit".
    pub const MAX: Picos = Picos(u64::MAX);

    /// A span of whole nanoseconds.
    ///
    /// # Panics
    ///
    /// If the span exceeds 2⁶⁴ − 1 ps.
    #[must_use]
    pub const fn from_ns(ns: u64) -> Picos {
        match ns.checked_mul(1_000) {
            Some(ps) => Picos(ps),
            None => panic!("nanoseconds exceed 64 bits of picoseconds"),
        }
    }

    /// A span given in (fractional) nanoseconds, rounded to the nearest picosecond, halves away from zero.
    ///
    /// # Panics
    ///
    /// If `ns` is negative, not finite, or at least 2⁶⁴ ps.
    #[must_use]
    pub fn from_ns_f64(ns: f64) -> Picos {
        let ps = (ns * 1e3).round();
        assert!((0.0..18_446_744_073_709_551_616.0).contains(&ps), "{ns} ns is not a span of picoseconds");
        Picos(ps as u64)
    }

    /// Whole nanoseconds, rounded down.
    #[must_use]
    pub const fn whole_ns(self) -> u64 {
        self.0 / 1_000
    }

    /// Nanoseconds as a float, for reports; the nearest double.
    #[must_use]
    pub fn as_ns_f64(self) -> f64 {
        self.0 as f64 / 1e3
    }

    /// Seconds as a float, for reports.
    #[must_use]
    pub fn as_s_f64(self) -> f64 {
        self.0 as f64 / 1e12
    }

    /// The sum, or `None` past the end of time.
    #[must_use]
    pub const fn checked_add(self, other: Picos) -> Option<Picos> {
        match self.0.checked_add(other.0) {
            Some(ps) => Some(Picos(ps)),
            None => None,
        }
    }

    /// The difference, or `None` if `other` is later.
    #[must_use]
    pub const fn checked_sub(self, other: Picos) -> Option<Picos> {
        match self.0.checked_sub(other.0) {
            Some(ps) => Some(Picos(ps)),
            None => None,
        }
    }

    /// The sum, or [`Picos::MAX`] past the end of time.
    #[must_use]
    pub const fn saturating_add(self, other: Picos) -> Picos {
        Picos(self.0.saturating_add(other.0))
    }

    /// The difference, or zero if `other` is later.
    #[must_use]
    pub const fn saturating_sub(self, other: Picos) -> Picos {
        Picos(self.0.saturating_sub(other.0))
    }

    /// How long it takes to move `bytes` at `bytes_per_s`, rounded down to a picosecond.
    ///
    /// # Panics
    ///
    /// If `bytes_per_s` is zero or the span exceeds 2⁶⁴ − 1 ps.
    #[must_use]
    pub fn to_move(bytes: u64, bytes_per_s: u64) -> Picos {
        Picos(scaled(bytes, PICOS_PER_SECOND, bytes_per_s))
    }
}

/// ⌊value·numerator/denominator⌋, without overflow in between.
fn scaled(value: u64, numerator: u64, denominator: u64) -> u64 {
    if let Some(product) = value.checked_mul(numerator) {
        return product / denominator;
    }
    let quotient = u128::from(value) * u128::from(numerator) / u128::from(denominator);
    u64::try_from(quotient).expect("simulated time exceeds 64 bits of picoseconds")
}

impl Add for Picos {
    type Output = Picos;
    fn add(self, other: Picos) -> Picos {
        self.checked_add(other).expect("simulated time exceeds 64 bits of picoseconds")
    }
}

impl AddAssign for Picos {
    fn add_assign(&mut self, other: Picos) {
        *self = *self + other;
    }
}

impl Sub for Picos {
    type Output = Picos;
    fn sub(self, other: Picos) -> Picos {
        self.checked_sub(other).expect("simulated time would be negative")
    }
}

impl Mul<u64> for Picos {
    type Output = Picos;
    fn mul(self, count: u64) -> Picos {
        Picos(self.0.checked_mul(count).expect("simulated time exceeds 64 bits of picoseconds"))
    }
}

impl Sum for Picos {
    fn sum<I: Iterator<Item = Picos>>(spans: I) -> Picos {
        spans.fold(Picos::ZERO, Add::add)
    }
}

impl fmt::Display for Picos {
    /// Exact: nanoseconds below one microsecond, microseconds from there on, without trailing zeros.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let (unit, per_unit, digits) = if self.0 < 1_000_000 { ("ns", 1_000, 3) } else { ("us", 1_000_000, 6) };
        let (whole, rest) = (self.0 / per_unit, self.0 % per_unit);
        if rest == 0 {
            return write!(f, "{whole} {unit}");
        }
        let fraction = format!("{rest:0digits$}");
        write!(f, "{whole}.{} {unit}", fraction.trim_end_matches('0'))
    }
}

/// A clock: edges counted from zero at the start of the simulation.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Clock {
    hz: u64,
    /// The period in picoseconds as a fraction in lowest terms: 10¹²/f = numerator/denominator.
    numerator: u64,
    denominator: u64,
}

impl Clock {
    /// A clock of `hz` hertz.
    ///
    /// # Panics
    ///
    /// If `hz` is zero or above 10¹² (two edges would share a picosecond). A table of hardware refuses such a number
    /// before it comes here.
    #[must_use]
    pub const fn new(hz: u64) -> Clock {
        assert!(hz > 0 && hz <= PICOS_PER_SECOND, "a clock runs at 1 Hz to 1 THz");
        let (mut a, mut b) = (PICOS_PER_SECOND, hz);
        while b != 0 {
            (a, b) = (b, a % b);
        }
        Clock { hz, numerator: PICOS_PER_SECOND / a, denominator: hz / a }
    }

    /// The frequency in hertz.
    #[must_use]
    pub const fn hz(self) -> u64 {
        self.hz
    }

    /// The moment of edge `n`: ⌊n·10¹²/f⌋.
    ///
    /// # Panics
    ///
    /// If the edge lies past the end of time.
    #[must_use]
    pub fn edge(self, n: u64) -> Picos {
        Picos(scaled(n, self.numerator, self.denominator))
    }

    /// The length of `cycles` cycles, rounded down to a picosecond: the distance from edge 0 to edge `cycles`.
    ///
    /// From another edge the same number of cycles may take one picosecond more. A component that counts cycles adds
    /// them to its edge number and asks for [`Clock::edge`]; `span` is for what does not start at an edge.
    ///
    /// # Panics
    ///
    /// If the span exceeds 2⁶⁴ − 1 ps.
    #[must_use]
    pub fn span(self, cycles: u64) -> Picos {
        self.edge(cycles)
    }

    /// The number of the first edge at or after `t`.
    #[must_use]
    pub fn edge_at_or_after(self, t: Picos) -> u64 {
        // edge(n) ≥ t  ⇔  n·num/den ≥ t, because t is whole.
        ceil_div(u128::from(t.0) * u128::from(self.denominator), self.numerator)
    }

    /// The number of the last edge at or before `t`, which is how many whole cycles have passed by then.
    #[must_use]
    pub fn cycles_at(self, t: Picos) -> u64 {
        // edge(n) ≤ t  ⇔  n·num/den < t + 1.
        ceil_div((u128::from(t.0) + 1) * u128::from(self.denominator), self.numerator) - 1
    }
}

/// ⌈value/divisor⌉ where the quotient is known to fit: a clock has at most one edge a picosecond.
fn ceil_div(value: u128, divisor: u64) -> u64 {
    if let Ok(value) = u64::try_from(value) {
        return value.div_ceil(divisor);
    }
    u64::try_from(value.div_ceil(u128::from(divisor))).expect("a clock has at most one edge a picosecond")
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    const TENSOR: Clock = Clock::new(2_400_000_000);

    #[test]
    fn edges_of_2_4_ghz_do_not_drift() {
        // 10¹²/2.4·10⁹ = 416 2/3 ps: the pattern 416, 417, 417 repeats every three edges.
        let edges: Vec<u64> = (0..=6).map(|n| TENSOR.edge(n).0).collect();
        assert_eq!(edges, [0, 416, 833, 1_250, 1_666, 2_083, 2_500]);
        assert_eq!(TENSOR.edge(2_400_000_000), Picos(PICOS_PER_SECOND));
        assert_eq!(TENSOR.edge(2_400_000_000 * 1_000_000), Picos(PICOS_PER_SECOND * 1_000_000));
        assert_eq!(TENSOR.hz(), 2_400_000_000);
    }

    #[test]
    fn published_durations_come_out_of_spans() {
        // Trn2, timing.md section 5: 517 cycles of 2.4 GHz are 215.4 ns, 907 are 377.9 ns.
        assert_eq!(TENSOR.span(517), Picos(215_416));
        assert_eq!(TENSOR.span(907), Picos(377_916));
        assert_eq!(Clock::new(960_000_000).span(662), Picos(689_583));
    }

    #[test]
    fn an_edge_is_found_at_its_moment_and_not_before() {
        assert_eq!(TENSOR.edge_at_or_after(Picos(1_249)), 3);
        assert_eq!(TENSOR.edge_at_or_after(Picos(1_250)), 3);
        assert_eq!(TENSOR.edge_at_or_after(Picos(1_251)), 4);
        assert_eq!(TENSOR.cycles_at(Picos(1_249)), 2);
        assert_eq!(TENSOR.cycles_at(Picos(1_250)), 3);
        // Edge 1 is floored to 416; it is there at 416, although 416.67 comes later.
        assert_eq!(TENSOR.cycles_at(Picos(415)), 0);
        assert_eq!(TENSOR.cycles_at(Picos(416)), 1);
        assert_eq!(TENSOR.edge_at_or_after(Picos(416)), 1);
        assert_eq!(TENSOR.edge_at_or_after(Picos(417)), 2);
    }

    #[test]
    fn display_is_exact() {
        let shown = |ps| Picos(ps).to_string();
        assert_eq!(shown(0), "0 ns");
        assert_eq!(shown(416), "0.416 ns");
        assert_eq!(shown(215_416), "215.416 ns");
        assert_eq!(shown(999_999), "999.999 ns");
        assert_eq!(shown(1_262_000), "1.262 us");
        assert_eq!(shown(39_890_000_000), "39890 us");
        assert_eq!(shown(1_000_001), "1.000001 us");
    }

    #[test]
    fn time_never_wraps() {
        assert_eq!(Picos::MAX.checked_add(Picos(1)), None);
        assert_eq!(Picos(1).checked_sub(Picos(2)), None);
        assert_eq!(Picos(1).saturating_sub(Picos(2)), Picos::ZERO);
        assert!(std::panic::catch_unwind(|| Picos::MAX + Picos(1)).is_err());
        assert!(std::panic::catch_unwind(|| Picos(1) - Picos(2)).is_err());
        assert!(std::panic::catch_unwind(|| Picos::from_ns_f64(f64::NAN)).is_err());
        assert!(std::panic::catch_unwind(|| TENSOR.edge(u64::MAX)).is_err());
        assert_eq!(Picos::from_ns_f64(3.06), Picos(3_060));
        assert_eq!(Picos::to_move(4_096, 34_400_000_000), Picos(119_069));
    }

    proptest! {
        #[test]
        fn edges_are_the_u128_formula(hz in 1u64..=PICOS_PER_SECOND, n in 0u64..1 << 40) {
            let exact = u128::from(n) * u128::from(PICOS_PER_SECOND) / u128::from(hz);
            prop_assume!(exact <= u128::from(u64::MAX));
            prop_assert_eq!(u128::from(Clock::new(hz).edge(n).0), exact);
        }

        #[test]
        fn edges_and_numbers_are_inverse(hz in 1u64..=10_000_000_000, t in 0u64..1 << 62) {
            let (clock, t) = (Clock::new(hz), Picos(t));
            let n = clock.edge_at_or_after(t);
            prop_assume!(u128::from(n) * u128::from(PICOS_PER_SECOND) / u128::from(hz) < u128::from(u64::MAX / 2));
            prop_assert!(clock.edge(n) >= t);
            prop_assert!(n == 0 || clock.edge(n - 1) < t);
            let whole = clock.cycles_at(t);
            prop_assert!(clock.edge(whole) <= t && clock.edge(whole + 1) > t);
        }
    }
}
