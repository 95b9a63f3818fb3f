//! Clock edges in integer picoseconds.
//!
//! Edge *n* of a clock of *f* Hz lies at ⌊n·10¹²/f⌋. It is computed from *n*, never by adding rounded periods, because
//! 2.4 GHz has no whole period. The simulator's own clock type follows the same rule; these functions serve whatever
//! derives a time from a table.

/// Picoseconds in a second.
pub const PICOSECONDS_PER_SECOND: u64 = 1_000_000_000_000;

/// The moment of edge `edge` of a clock of `clock_hz`, in picoseconds.
///
/// ```
/// // Three edges of 2.4 GHz are 1.25 ns; a rounded period of 416 ps would say 1.248 ns.
/// assert_eq!(trn3_spec::edge_ps(2_400_000_000, 3), 1_250);
/// ```
///
/// # Panics
///
/// If `clock_hz` is zero, or the moment lies beyond 2⁶⁴ − 1 ps (213 days).
#[must_use]
pub fn edge_ps(clock_hz: u64, edge: u64) -> u64 {
    let ps = u128::from(edge) * u128::from(PICOSECONDS_PER_SECOND) / u128::from(clock_hz);
    u64::try_from(ps).expect("simulated time ends after 2^64 picoseconds")
}

/// The first edge of a clock of `clock_hz` that does not lie before `time_ps`.
///
/// # Panics
///
/// If the clock is faster than 1 THz and the edge number needs more than 64 bits. Tables refuse such clocks.
#[must_use]
pub fn edge_at_or_after(clock_hz: u64, time_ps: u64) -> u64 {
    // ⌊n·10¹²/f⌋ ≥ t holds exactly when n·10¹²/f ≥ t, since t is whole.
    let edge = (u128::from(time_ps) * u128::from(clock_hz)).div_ceil(u128::from(PICOSECONDS_PER_SECOND));
    u64::try_from(edge).expect("an edge number fits in 64 bits for clocks up to 1 THz")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn edges_do_not_drift() {
        assert_eq!(edge_ps(2_400_000_000, 0), 0);
        assert_eq!(edge_ps(2_400_000_000, 1), 416);
        assert_eq!(edge_ps(2_400_000_000, 2), 833);
        assert_eq!(edge_ps(2_400_000_000, 3), 1_250);
        assert_eq!(edge_ps(960_000_000, 1), 1_041);
        // One hour, where adding 416 ps a period would be 5.76 s behind.
        assert_eq!(edge_ps(2_400_000_000, 2_400_000_000 * 3_600), 3_600 * PICOSECONDS_PER_SECOND);
    }

    #[test]
    fn an_edge_is_found_at_its_moment_and_not_after() {
        for clock_hz in [960_000_000, 1_120_000_000, 1_200_000_000, 2_400_000_000, 2_800_000_000] {
            for edge in [0, 1, 2, 3, 7, 1_000, 999_999_937] {
                let at = edge_ps(clock_hz, edge);
                assert_eq!(edge_at_or_after(clock_hz, at), edge, "{clock_hz} {edge}");
                assert_eq!(edge_at_or_after(clock_hz, at + 1), edge + 1, "{clock_hz} {edge}");
            }
        }
    }

    #[test]
    #[should_panic(expected = "2^64 picoseconds")]
    fn time_ends() {
        let _ = edge_ps(1, u64::MAX);
    }
}
