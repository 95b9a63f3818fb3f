//! The dI/dt throttle of the array (timing.md section 4.6): matrix products issue at a fraction of full rate after idling.
//!
//! Time is cut into windows on a grid that runs freely: its phase at the start of a run is drawn from the seed, or 0.
//! When a window ends, the share of it in which MultiplyMoving streamed decides whether the next one is limited: a limit
//! is lifted at or above one share and returns below another. A product on part of the array counts by its share of the
//! array's tiles, and all data types alike (both assumed).
//!
//! Products are taken in the order of their starts. What separates two of them is counted in *progress*, the time that
//! would have passed at full rate: a limited window makes less of it. So an interval that begins limited and ends after
//! the release is neither doubled nor cut.
//!
//! Invariants: time only goes forward; a window is closed when nothing can start in it any more; idle windows that
//! change nothing are passed over together.

use trn3_sim::{Clock, Picos, Seed};
use trn3_spec::{Target, ThrottleSpec};

/// Progress, in picoseconds at full rate times [`FULL`].
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Default)]
pub(crate) struct Progress(u128);

/// Progress of a picosecond at full rate.
const FULL: u64 = 1 << 20;

impl Progress {
    /// The progress that `span` at full rate makes from here on.
    pub(crate) fn after(self, span: Picos) -> Progress {
        Progress(self.0 + u128::from(span.0) * u128::from(FULL))
    }
}

/// How long the array was limited.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct ThrottleTime {
    /// While products followed each other: what the limit cost is this, times one less the limited rate.
    pub active: Picos,
    /// While the array had nothing to do.
    pub unused: Picos,
}

/// A product that still streams when its window ends.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
struct Tail {
    end: Picos,
    tiles: u64,
}

/// The state of the throttle.
#[derive(Debug, Clone, PartialEq)]
pub(crate) struct Throttle {
    /// Shares of a window at which a limit is lifted, and below which it returns.
    release: f64,
    rearm: f64,
    /// Length of a window in cycles of the clock; 0 without a throttle.
    window_cycles: u64,
    clock: Clock,
    phase: Picos,
    /// Tiles of the whole array.
    tiles: u64,
    /// Progress of a picosecond while limited.
    slow: u64,
    limited: bool,
    /// Number, begin and end of the current window; without a throttle it never ends.
    window: u64,
    begins: Picos,
    ends: Picos,
    /// Until when everything is known, and the progress there.
    at: Picos,
    progress: Progress,
    /// Picoseconds times tiles that streamed in the current window.
    used: u128,
    tails: Vec<Tail>,
    /// When products will have followed each other to the end.
    wanted: Progress,
    time: ThrottleTime,
}

impl Throttle {
    /// The throttle of an array of `tiles` tiles, called `name`.
    pub(crate) fn new(target: &Target, tiles: u64, seed: Seed, name: &str) -> Throttle {
        let clock = Clock::new(target.chip.base_clock_hz);
        let phase = match &target.core.tensor.throttle {
            Some(spec) if spec.enabled && spec.phase_random => {
                Picos(seed.stream(name).below(clock.span(spec.window_cycles).0.max(1)))
            }
            _ => Picos::ZERO,
        };
        Throttle::with_phase(target.core.tensor.throttle.as_ref(), clock, tiles, phase)
    }

    /// A throttle whose grid begins `phase` before the run; none if the array has none, or it is turned off.
    fn with_phase(spec: Option<&ThrottleSpec>, clock: Clock, tiles: u64, phase: Picos) -> Throttle {
        let spec = spec.filter(|spec| spec.enabled);
        let ratio = spec.map_or(1.0, |spec| spec.limited_ratio);
        let mut throttle = Throttle {
            release: spec.map_or(0.0, |spec| spec.release_utilization_ratio),
            rearm: spec.map_or(0.0, |spec| spec.rearm_utilization_ratio),
            window_cycles: spec.map_or(0, |spec| spec.window_cycles),
            // The ratio is above 0 and at most 1, so the product fits.
            slow: ((ratio * FULL as f64).round() as u64).clamp(1, FULL),
            limited: spec.is_some_and(|spec| spec.initially_limited),
            clock,
            phase,
            tiles,
            window: 0,
            begins: Picos::ZERO,
            ends: Picos::MAX,
            at: Picos::ZERO,
            progress: Progress::default(),
            used: 0,
            tails: Vec::new(),
            wanted: Progress::default(),
            time: ThrottleTime::default(),
        };
        if throttle.window_cycles > 0 {
            throttle.ends = throttle.boundary(1);
        }
        throttle
    }

    /// The begin of a window after the first.
    fn boundary(&self, window: u64) -> Picos {
        self.clock.edge(window * self.window_cycles) - self.phase
    }

    /// The progress up to now.
    pub(crate) fn progress(&self) -> Progress {
        self.progress
    }

    /// Goes on to `to`, or stays if that is past.
    pub(crate) fn advance(&mut self, to: Picos) {
        while self.at < to {
            self.step(to.min(self.ends));
            if self.at == self.ends {
                self.close();
                self.pass_idle_windows(to);
            }
        }
    }

    /// Goes on until `target` is made, and says when that is.
    pub(crate) fn reach(&mut self, target: Progress) -> Picos {
        while self.progress < target {
            let left = (target.0 - self.progress.0).div_ceil(u128::from(self.rate()));
            // What the sum cannot hold lies beyond every window.
            let until = u64::try_from(left).map_or(Picos::MAX, |left| self.at.saturating_add(Picos(left)));
            self.step(until.min(self.ends));
            if self.at == self.ends {
                self.close();
            }
        }
        self.at
    }

    /// A product streams for `span` from now on over `tiles` tiles; the next one on them is due after `interval`.
    pub(crate) fn stream(&mut self, span: Picos, interval: Picos, tiles: u64) {
        self.wanted = self.wanted.max(self.progress.after(interval));
        if self.ends == Picos::MAX {
            return;
        }
        let end = self.at + span;
        self.used += u128::from((end.min(self.ends) - self.at).0) * u128::from(tiles);
        if end > self.ends {
            self.tails.push(Tail { end, tiles });
        }
    }

    /// How long the array was limited until `total`.
    pub(crate) fn finish(mut self, total: Picos) -> ThrottleTime {
        self.advance(total);
        self.time
    }

    fn rate(&self) -> u64 {
        if self.limited { self.slow } else { FULL }
    }

    /// Goes on to `to`, which is in the current window.
    fn step(&mut self, to: Picos) {
        let (span, rate) = ((to - self.at).0, self.rate());
        if self.limited {
            let due = self.wanted.0.saturating_sub(self.progress.0).div_ceil(u128::from(rate));
            let active = u64::try_from(due).map_or(span, |due| due.min(span));
            self.time.active += Picos(active);
            self.time.unused += Picos(span - active);
        }
        self.progress.0 += u128::from(span) * u128::from(rate);
        self.at = to;
    }

    /// Ends the current window: what streamed in it decides about the next.
    fn close(&mut self) {
        // The window that was open when the run began counts in full: the array was idle in the rest of it.
        let whole = self.ends + self.phase - self.clock.edge(self.window * self.window_cycles);
        let share = self.used as f64 / (u128::from(whole.0) * u128::from(self.tiles)) as f64;
        self.limited = share < if self.limited { self.release } else { self.rearm };
        self.enter(self.window + 1);
        let (begins, ends) = (self.begins, self.ends);
        let inside = |tail: &Tail| u128::from((tail.end.min(ends) - begins).0) * u128::from(tail.tiles);
        self.used = self.tails.iter().map(inside).sum();
        self.tails.retain(|tail| tail.end > ends);
    }

    fn enter(&mut self, window: u64) {
        self.window = window;
        self.begins = self.boundary(window);
        self.ends = self.boundary(window + 1);
    }

    /// From the begin of a window in which nothing streams, if such windows change nothing: on to the one of `to`.
    fn pass_idle_windows(&mut self, to: Picos) {
        let stays = if self.limited { self.release > 0.0 } else { self.rearm <= 0.0 };
        if self.used > 0 || !self.tails.is_empty() || !stays || to <= self.ends {
            return;
        }
        let window = self.clock.cycles_at(to + self.phase) / self.window_cycles;
        let begins = self.boundary(window);
        self.step(begins);
        self.enter(window);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use trn3_sim::Stream;

    const GHZ: Clock = Clock::new(1_000_000_000);

    /// A grid of `ticks` nanoseconds.
    fn spec(ticks: u64) -> ThrottleSpec {
        ThrottleSpec {
            enabled: true,
            limited_ratio: 0.5,
            window_cycles: ticks,
            initially_limited: true,
            release_utilization_ratio: 0.39,
            rearm_utilization_ratio: 0.35,
            phase_random: false,
        }
    }

    /// A product as a test asks for it.
    #[derive(Clone, Copy, Debug)]
    struct Asked {
        ready: u64,
        stream: u64,
        interval: u64,
        tiles: u64,
    }

    /// Starts of products that follow each other on one place.
    fn starts(mut throttle: Throttle, asked: &[Asked], total: u64) -> (Vec<u64>, ThrottleTime) {
        let mut free = Progress::default();
        let starts = asked.iter().map(|product| {
            throttle.advance(Picos(product.ready));
            let start = throttle.reach(free);
            free = throttle.progress().after(Picos(product.interval));
            throttle.stream(Picos(product.stream), Picos(product.interval), product.tiles);
            start.0
        });
        let starts = starts.collect();
        (starts, throttle.finish(Picos(total)))
    }

    /// The rule, picosecond by picosecond.
    fn reference(spec: &ThrottleSpec, tiles: u64, phase: u64, asked: &[Asked], total: u64) -> (Vec<u64>, ThrottleTime) {
        let (mut starts, mut time) = (Vec::new(), ThrottleTime::default());
        let window = spec.window_cycles * 1000;
        let quarters = (spec.limited_ratio * 4.0) as u64;
        let (mut limited, mut used) = (spec.initially_limited, 0u64);
        let mut streams: Vec<(u64, u64, u64)> = Vec::new();
        // Quarters of a picosecond that the last product still needs.
        let mut owed = 0u64;
        let mut queue = asked.iter();
        let mut next = queue.next();
        for now in 0.. {
            if now > 0 && (now + phase).is_multiple_of(window) {
                let share = used as f64 / (window * tiles) as f64;
                let edge = if limited { spec.release_utilization_ratio } else { spec.rearm_utilization_ratio };
                limited = share < edge;
                used = 0;
            }
            while let Some(product) = next.filter(|product| owed == 0 && product.ready <= now) {
                starts.push(now);
                streams.push((now, now + product.stream, product.tiles));
                owed = product.interval * 4;
                next = queue.next();
            }
            if now == total {
                return (starts, time);
            }
            if limited {
                *(if owed > 0 { &mut time.active } else { &mut time.unused }) += Picos(1);
            }
            owed = owed.saturating_sub(if limited { quarters } else { 4 });
            used += streams
                .iter()
                .filter(|(from, to, _)| (*from..*to).contains(&now))
                .map(|(.., tiles)| tiles)
                .sum::<u64>();
            streams.retain(|(_, to, _)| *to > now);
        }
        unreachable!("the loop returns")
    }

    #[test]
    fn it_equals_the_rule_stepped_picosecond_by_picosecond() {
        let mut random = Seed(11).stream("throttle");
        let draw = |random: &mut Stream, from: u64, to: u64| from + random.below(to - from);
        for case in 0..120 {
            let mut spec = spec(draw(&mut random, 1, 4));
            spec.initially_limited = case % 3 != 0;
            spec.limited_ratio = [0.5, 0.25, 0.75][case % 3];
            let phase = draw(&mut random, 0, spec.window_cycles * 1000);
            let (mut ready, mut asked) = (0, Vec::new());
            for _ in 0..draw(&mut random, 1, 60) {
                let idle = if random.below(6) == 0 { 9000 } else { 250 };
                ready += draw(&mut random, 0, idle);
                let longest = if random.below(8) == 0 { 5000 } else { 300 };
                let stream = draw(&mut random, 1, longest);
                let interval = stream + random.below(30);
                asked.push(Asked { ready, stream, interval, tiles: draw(&mut random, 1, 5) });
            }
            let throttle = Throttle::with_phase(Some(&spec), GHZ, 4, Picos(phase));
            let last = starts(throttle.clone(), &asked, 0).0.last().copied().expect("a product was asked for");
            let total = last + 5000 * spec.window_cycles;
            let expected = reference(&spec, 4, phase, &asked, total);
            assert_eq!(starts(throttle, &asked, total), expected, "case {case}: {spec:?}, phase {phase}, {asked:?}");
        }
    }

    fn steady(count: usize) -> Vec<Asked> {
        vec![Asked { ready: 0, stream: 99, interval: 100, tiles: 1 }; count]
    }

    #[test]
    fn a_limited_window_issues_at_exactly_half_rate_and_full_work_releases_it() {
        let (starts, time) = starts(Throttle::with_phase(Some(&spec(1)), GHZ, 1, Picos::ZERO), &steady(40), 4000);
        let intervals: Vec<u64> = starts.windows(2).map(|pair| pair[1] - pair[0]).collect();
        assert_eq!(intervals[..5], [200; 5]);
        assert_eq!(intervals[5..], [100; 34]);
        assert_eq!(time, ThrottleTime { active: Picos(1000), unused: Picos::ZERO });
    }

    /// The thresholds, at the limit and just past it.
    #[test]
    fn release_and_rearm_at_their_thresholds() {
        let after = |stream: u64, limited: bool| {
            let mut spec = spec(1);
            spec.initially_limited = limited;
            let mut throttle = Throttle::with_phase(Some(&spec), GHZ, 1, Picos::ZERO);
            throttle.stream(Picos(stream), Picos(stream), 1);
            throttle.advance(Picos(1000));
            throttle.limited
        };
        assert!(!after(390, true) && after(389, true));
        assert!(!after(350, false) && after(349, false));
    }

    #[test]
    fn a_stream_counts_in_every_window_that_it_crosses() {
        let mut throttle = Throttle::with_phase(Some(&spec(1)), GHZ, 1, Picos::ZERO);
        throttle.advance(Picos(900));
        throttle.stream(Picos(1500), Picos(1500), 1);
        throttle.advance(Picos(1000));
        assert!(throttle.limited, "100 of 1000");
        throttle.advance(Picos(2000));
        assert!(!throttle.limited, "1000 of 1000");
        throttle.advance(Picos(3000));
        assert!(!throttle.limited, "400 of 1000 keep the release");
        throttle.advance(Picos(4000));
        assert!(throttle.limited, "nothing streamed");
    }

    #[test]
    fn long_idling_is_passed_over() {
        let mut throttle = Throttle::with_phase(Some(&spec(1)), GHZ, 1, Picos(123));
        let day = Picos(86_400_000_000_000_000);
        throttle.advance(day);
        assert_eq!(throttle.window, (day.0 + 123) / 1000);
        assert_eq!(throttle.time, ThrottleTime { active: Picos::ZERO, unused: day });
    }

    #[test]
    fn without_a_throttle_nothing_waits() {
        let off = ThrottleSpec { enabled: false, ..spec(1) };
        for spec in [Some(&off), None] {
            let (starts, time) = starts(Throttle::with_phase(spec, GHZ, 1, Picos::ZERO), &steady(30), 9000);
            assert_eq!(starts, (0..30).map(|at| at * 100).collect::<Vec<_>>());
            assert_eq!(time, ThrottleTime::default());
        }
    }

    #[test]
    fn the_phase_follows_the_seed_if_the_table_says_so() {
        let mut target = Target::load("trn3").expect("a table of ours");
        let phase = |target: &Target, seed| Throttle::new(target, 16, Seed(seed), "chip0.core0.tensor").phase;
        assert_ne!(phase(&target, 0), phase(&target, 1));
        assert_eq!(phase(&target, 7), phase(&target, 7));
        assert!(Some(phase(&target, 1).0) < target.throttle_window_ps());
        target.core.tensor.throttle.as_mut().expect("it has one").phase_random = false;
        assert_eq!((phase(&target, 0), phase(&target, 1)), (Picos::ZERO, Picos::ZERO));
    }
}
