//! What streams share: the SBUF port of VectorE and GpSimdE, and PSUM (timing.md sections 6.4 and 6.5).
//!
//! Where the table says that a memory serves one engine at a time, a stream starts when the other one has ended. Where
//! it serves both, they slow each other down while they overlap: on the same PSUM bank by one ratio, VectorE beside a
//! GpSimdE that streams SBUF to one rate an element. Under two slowdowns a stream goes at the slower rate, not at the
//! product of both.
//!
//! A stream that starts can only delay those in flight, never hasten them; what it delays is reported, and nothing that
//! was issued before changes. Left out: TensorE, whose writes to PSUM disturb nobody (assumed).
//!
//! Invariants: streams start in the order of time; an engine has one at a time; `end - start - span` is the sum of both
//! losses.

use crate::ledger::Cause;
use trn3_isa::Engine;
use trn3_sim::Picos;
use trn3_spec::Target;

/// A slowdown of 1.
const ONE: u64 = 1 << 16;

/// Which ports an instruction streams through.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub(crate) struct Ports {
    /// Whether it streams SBUF.
    pub sbuf: bool,
    /// PSUM banks, one bit each.
    pub banks: u64,
    /// By how much it is slower beside a GpSimdE that streams SBUF, in units of 2^-16.
    pub shared: u64,
}

impl Ports {
    /// The slowdown of a stream of `alone` cycles that takes `shared` cycles beside GpSimdE.
    pub(crate) fn slowdown(alone: u64, shared: u64) -> u64 {
        let ratio = (u128::from(shared) * u128::from(ONE)).div_ceil(u128::from(alone.max(1)));
        u64::try_from(ratio).unwrap_or(u64::MAX).max(ONE)
    }
}

/// A stream in flight, or one that has ended and was not taken yet.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Flight {
    pub instance: u32,
    pub start: Picos,
    /// How long it takes undisturbed.
    pub span: Picos,
    /// What sharing costs it in the end, as far as is known.
    pub lost: Lost,
    ports: Ports,
    /// What is left of `span`, and what sharing has cost until now.
    left: Picos,
    so_far: Lost,
}

/// Time that a stream loses to other engines.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub(crate) struct Lost {
    pub bus: Picos,
    pub bank: Picos,
}

impl Lost {
    pub(crate) fn sum(self) -> Picos {
        self.bus + self.bank
    }
}

impl Flight {
    /// When it has streamed.
    pub(crate) fn end(&self) -> Picos {
        self.start + self.span + self.lost.sum()
    }
}

/// Engines that stream: VectorE, ScalarE and GpSimdE.
const ENGINES: usize = 3;
const VECTOR: usize = 0;
const GPSIMD: usize = 2;

fn slot_of(engine: Engine) -> Option<usize> {
    match engine {
        Engine::Vector => Some(VECTOR),
        Engine::Scalar => Some(1),
        Engine::Gpsimd => Some(GPSIMD),
        Engine::Tensor | Engine::Sync => None,
    }
}

/// The streams of a core.
#[derive(Debug, Clone)]
pub(crate) struct Streams {
    /// Whether VectorE and GpSimdE reach SBUF at once.
    sbuf_parallel: bool,
    /// Whether two engines reach PSUM at once.
    psum_parallel: bool,
    /// The slowdown of both streams on one bank.
    conflict: u64,
    now: Picos,
    flights: [Option<Flight>; ENGINES],
}

impl Streams {
    pub(crate) fn new(target: &Target) -> Streams {
        let core = &target.core;
        Streams {
            sbuf_parallel: core.capability.sbuf_parallel,
            psum_parallel: core.capability.psum_parallel,
            conflict: ((core.psum.bank_conflict_ratio.unwrap_or(1.0) * ONE as f64).round() as u64).max(ONE),
            now: Picos::ZERO,
            flights: [None; ENGINES],
        }
    }

    /// Whether a stream may have to wait for another to end.
    pub(crate) fn are_exclusive(&self) -> bool {
        !self.sbuf_parallel || !self.psum_parallel
    }

    /// When a stream that is `wanted` from then on may start, and what holds it up.
    pub(crate) fn admits(&self, wanted: Picos, engine: Engine, ports: &Ports) -> (Picos, Cause) {
        let (mut at, mut cause) = (wanted, Cause::None);
        let Some(own) = slot_of(engine) else { return (at, cause) };
        for (slot, flight) in self.flights.iter().enumerate() {
            let Some(flight) = flight.filter(|flight| slot != own && flight.end() > at) else { continue };
            if !self.psum_parallel && ports.banks != 0 && flight.ports.banks != 0 {
                (at, cause) = (flight.end(), Cause::Bank);
            } else if !self.sbuf_parallel && share_bus(own, slot) && ports.sbuf && flight.ports.sbuf {
                (at, cause) = (flight.end(), Cause::Bus);
            }
        }
        (at, cause)
    }

    /// Starts a stream that takes `span` undisturbed; true if it delays another one, or is delayed.
    pub(crate) fn start(&mut self, at: Picos, engine: Engine, instance: u32, span: Picos, ports: Ports) -> bool {
        self.run(at);
        let none = Lost::default();
        let flight = Flight { instance, start: at, span, lost: none, ports, left: span, so_far: none };
        let slot = slot_of(engine).expect("TensorE and SyncE have no streams");
        self.flights[slot] = Some(flight);
        self.foresee()
    }

    /// The stream of an engine that was not taken yet.
    pub(crate) fn flight(&self, engine: Engine) -> Option<&Flight> {
        slot_of(engine).and_then(|slot| self.flights[slot].as_ref())
    }

    /// Takes the stream of an engine, when nothing can start any more before its end.
    pub(crate) fn take(&mut self, engine: Engine) -> Option<Flight> {
        let end = self.flight(engine)?.end();
        self.run(end);
        slot_of(engine).and_then(|slot| self.flights[slot].take())
    }

    /// Notes what each stream loses if nothing else starts; true if that is more than was known.
    fn foresee(&mut self) -> bool {
        let mut end = self.clone();
        end.run(Picos::MAX);
        let mut delayed = false;
        for (flight, end) in self.flights.iter_mut().zip(end.flights) {
            if let (Some(flight), Some(end)) = (flight, end) {
                delayed |= flight.lost != end.so_far;
                flight.lost = end.so_far;
            }
        }
        delayed
    }

    /// Streams until `to`, or until nothing is left.
    fn run(&mut self, to: Picos) {
        while self.now < to {
            let paces: [Option<Pace>; ENGINES] = std::array::from_fn(|slot| self.pace(slot));
            let ends = paces.iter().flatten().map(|pace| self.now.saturating_add(pace.ends_after));
            let Some(first) = ends.min() else { break };
            let next = first.min(to);
            for (flight, pace) in self.flights.iter_mut().zip(paces) {
                if let (Some(flight), Some(pace)) = (flight, pace) {
                    flight.stream(next - self.now, pace);
                }
            }
            self.now = next;
        }
        if to < Picos::MAX {
            self.now = self.now.max(to);
        }
    }

    /// How fast the stream of a slot goes beside the others.
    fn pace(&self, slot: usize) -> Option<Pace> {
        let flight = self.flights[slot].filter(|flight| flight.left > Picos::ZERO)?;
        let (mut slowdown, mut cause) = (ONE, Cause::None);
        for (other, beside) in self.flights.iter().enumerate() {
            let Some(beside) = beside.filter(|beside| other != slot && beside.left > Picos::ZERO) else { continue };
            if beside.ports.banks & flight.ports.banks != 0 && self.conflict > slowdown {
                (slowdown, cause) = (self.conflict, Cause::Bank);
            }
            let bus = slot == VECTOR && other == GPSIMD && flight.ports.sbuf && beside.ports.sbuf;
            if bus && flight.ports.shared > slowdown {
                (slowdown, cause) = (flight.ports.shared, Cause::Bus);
            }
        }
        let ends_after = u128::from(flight.left.0) * u128::from(slowdown);
        let ends_after = u64::try_from(ends_after.div_ceil(u128::from(ONE))).map_or(Picos::MAX, Picos);
        Some(Pace { slowdown, cause, ends_after })
    }
}

/// Whether two engines use one port to SBUF.
fn share_bus(one: usize, other: usize) -> bool {
    (one == VECTOR && other == GPSIMD) || (one == GPSIMD && other == VECTOR)
}

/// The speed of a stream while the others go on.
#[derive(Clone, Copy)]
struct Pace {
    slowdown: u64,
    cause: Cause,
    ends_after: Picos,
}

impl Flight {
    /// Streams for `span` at a pace.
    fn stream(&mut self, span: Picos, pace: Pace) {
        let streamed = if span >= pace.ends_after {
            self.left
        } else {
            // At most `span`, since the slowdown is at least 1.
            Picos((u128::from(span.0) * u128::from(ONE) / u128::from(pace.slowdown)) as u64)
        };
        self.left = self.left - streamed;
        let lost = span - streamed;
        match pace.cause {
            Cause::Bus => self.so_far.bus += lost,
            _ => self.so_far.bank += lost,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn streams(target: &str, change: impl Fn(&mut Target)) -> Streams {
        let mut target = Target::load(target).expect("a table of ours");
        change(&mut target);
        Streams::new(&target)
    }

    fn bank(number: u32) -> Ports {
        Ports { banks: 1 << number, ..Ports::default() }
    }

    fn sbuf(shared: u64) -> Ports {
        Ports { sbuf: true, banks: 0, shared: shared * ONE }
    }

    fn end(streams: &Streams, engine: Engine) -> u64 {
        streams.flight(engine).expect("a stream was started").end().0
    }

    #[test]
    fn different_banks_do_not_meet() {
        let mut streams = streams("trn3", |_| ());
        assert!(!streams.start(Picos(0), Engine::Vector, 0, Picos(100), bank(0)));
        assert!(!streams.start(Picos(10), Engine::Scalar, 1, Picos(100), bank(1)));
        assert_eq!((end(&streams, Engine::Vector), end(&streams, Engine::Scalar)), (100, 110));
    }

    #[test]
    fn one_bank_serves_both_at_half_rate_while_they_overlap() {
        let mut streams = streams("trn3", |_| ());
        streams.start(Picos(0), Engine::Vector, 0, Picos(100), bank(3));
        assert!(streams.start(Picos(60), Engine::Scalar, 1, Picos(100), bank(3)));
        // VectorE has 40 left, which take 80; ScalarE has streamed 40 by then and goes on alone.
        assert_eq!((end(&streams, Engine::Vector), end(&streams, Engine::Scalar)), (140, 200));
        let vector = streams.take(Engine::Vector).expect("it was started");
        assert_eq!(vector.lost, Lost { bus: Picos::ZERO, bank: Picos(40) });
        // A later stream meets ScalarE with 60 left.
        assert!(streams.start(Picos(140), Engine::Vector, 2, Picos(10), bank(3)));
        assert_eq!((end(&streams, Engine::Vector), end(&streams, Engine::Scalar)), (160, 210));
    }

    #[test]
    fn a_ratio_of_one_turns_bank_conflicts_off() {
        let mut streams = streams("trn3", |target| target.core.psum.bank_conflict_ratio = Some(1.0));
        streams.start(Picos(0), Engine::Vector, 0, Picos(100), bank(3));
        assert!(!streams.start(Picos(0), Engine::Scalar, 1, Picos(100), bank(3)));
        assert_eq!((end(&streams, Engine::Vector), end(&streams, Engine::Scalar)), (100, 100));
    }

    #[test]
    fn gpsimd_slows_the_fast_modes_of_vector() {
        let mut streams = streams("trn3", |_| ());
        streams.start(Picos(0), Engine::Vector, 0, Picos(100), sbuf(4));
        streams.start(Picos(20), Engine::Gpsimd, 1, Picos(40), sbuf(1));
        // 20 alone, 40 at a quarter of the rate, 70 alone.
        assert_eq!((end(&streams, Engine::Vector), end(&streams, Engine::Gpsimd)), (130, 60));
        streams.take(Engine::Gpsimd);
        assert!(!streams.start(Picos(60), Engine::Gpsimd, 2, Picos(40), bank(1)), "a stream that leaves SBUF alone");
    }

    #[test]
    fn of_two_slowdowns_the_larger_counts() {
        let mut streams = streams("trn3", |_| ());
        streams.start(Picos(0), Engine::Gpsimd, 0, Picos(1000), sbuf(1));
        streams.start(Picos(0), Engine::Scalar, 1, Picos(1000), bank(0));
        streams.start(Picos(0), Engine::Vector, 2, Picos(100), Ports { banks: 1, ..sbuf(3) });
        assert_eq!(streams.flight(Engine::Vector).map(|flight| flight.lost.bus), Some(Picos(200)));
        assert_eq!(streams.flight(Engine::Scalar).map(|flight| flight.lost.bank), Some(Picos(150)));
    }

    /// Trn1: the documents say that VectorE and GpSimdE never access SBUF together, nor VectorE and ScalarE PSUM.
    #[test]
    fn an_exclusive_memory_makes_streams_wait() {
        let mut streams = streams("trn1", |_| ());
        let both = Ports { banks: 1, ..sbuf(4) };
        assert!(!streams.start(Picos(0), Engine::Vector, 0, Picos(100), both));
        assert_eq!(streams.admits(Picos(99), Engine::Gpsimd, &sbuf(1)), (Picos(100), Cause::Bus));
        assert_eq!(streams.admits(Picos(100), Engine::Gpsimd, &sbuf(1)), (Picos(100), Cause::None));
        assert_eq!(streams.admits(Picos(50), Engine::Scalar, &bank(5)), (Picos(100), Cause::Bank));
        assert_eq!(streams.admits(Picos(50), Engine::Scalar, &sbuf(1)), (Picos(50), Cause::None));
    }

    /// Against a plain form that goes on by one picosecond.
    #[test]
    fn it_equals_the_rule_stepped_picosecond_by_picosecond() {
        let mut random = trn3_sim::Seed(5).stream("ports");
        for case in 0..200 {
            let mut streams = streams("trn3", |_| ());
            let engines = [Engine::Vector, Engine::Scalar, Engine::Gpsimd];
            let mut asked = Vec::new();
            let mut at = 0;
            for engine in engines {
                at += random.below(60);
                // Even spans at factors of two: no rounding in either form.
                let ports = Ports { sbuf: random.below(2) == 1, banks: 1 << random.below(2), shared: 4 * ONE };
                asked.push((at, engine, 4 * (1 + random.below(40)), ports));
            }
            for (number, &(at, engine, span, ports)) in asked.iter().enumerate() {
                streams.start(Picos(at), engine, number as u32, Picos(span), ports);
            }
            let mut left: Vec<u64> = asked.iter().map(|&(_, _, span, _)| span * 4).collect();
            let mut ends = vec![0; asked.len()];
            for now in 0..4000 {
                let streaming = |slot: usize, left: &[u64]| asked[slot].0 <= now && left[slot] > 0;
                let before = left.clone();
                for slot in 0..asked.len() {
                    if !streaming(slot, &before) {
                        continue;
                    }
                    let meets = |other: &usize| *other != slot && streaming(*other, &before);
                    let on_bank = |other: &usize| asked[*other].3.banks == asked[slot].3.banks;
                    let bank = (0..3).filter(meets).any(|other| on_bank(&other));
                    let bus = slot == 0 && meets(&2) && asked[0].3.sbuf && asked[2].3.sbuf;
                    left[slot] = left[slot].saturating_sub(if bus {
                        1
                    } else if bank {
                        2
                    } else {
                        4
                    });
                    ends[slot] = now + 1;
                }
            }
            let found: Vec<u64> = engines.iter().map(|&engine| end(&streams, engine)).collect();
            let close = found.iter().zip(&ends).all(|(found, end)| found.abs_diff(*end) <= 3);
            assert!(close, "case {case}: {found:?} {ends:?} {asked:?}");
        }
    }
}
