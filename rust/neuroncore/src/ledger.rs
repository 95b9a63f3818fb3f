//! Where an engine's time goes: streaming, waiting by cause, idle at the end. Nothing is left over.

use trn3_isa::Engine;
use trn3_sim::Picos;

/// Why the data path of an engine stood still.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum Cause {
    /// Nothing: it did not.
    None,
    /// Issue overhead of what ran before (II_OVH, or the shortest interval between two instructions).
    Interval,
    /// Its sequencer made the descriptors of a transfer, or waited for its DGE.
    Descriptors,
    /// Its sequencer moved registers or went round a loop.
    Control,
    /// The semaphore of an instruction on that engine.
    Engine(Engine),
    /// The semaphore of a transfer.
    Dma,
    /// The other core of the pair.
    Core,
    /// The stationary operand moved into the array.
    Stationary,
    /// A table of functions was loaded.
    TableLoad,
    /// Another engine had the SBUF port that it shares.
    Bus,
    /// Another engine used the PSUM bank, or its port to PSUM.
    Bank,
    /// The limit on the array after idling.
    Throttle,
}

impl Cause {
    /// A short name, for reports and traces.
    pub const fn name(self) -> &'static str {
        match self {
            Cause::None => "nothing",
            Cause::Interval => "interval",
            Cause::Descriptors => "descriptors",
            Cause::Control => "control",
            Cause::Engine(engine) => engine.name(),
            Cause::Dma => "dma",
            Cause::Core => "core",
            Cause::Stationary => "stationary",
            Cause::TableLoad => "table_load",
            Cause::Bus => "bus",
            Cause::Bank => "bank",
            Cause::Throttle => "throttle",
        }
    }
}

/// Time in which an engine's data path stood still between the end of the stream before an instance and the end of the
/// instance's own.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Wait {
    /// The instance.
    pub instance: u32,
    /// Why.
    pub cause: Cause,
    /// How long.
    pub span: Picos,
}

/// Where the time of one engine went. `active`, all `waits` and `idle` add up to the total of the run.
///
/// An instance waits for several things at once: what ran before lets go of the sequencer, semaphores come, weights or
/// function tables are there, ports are free, the throttle allows. The time goes to the first of them in this order that
/// was not there yet, so each later one is charged only with what it adds. What slows a stream down (a bank or bus that
/// another engine uses) is charged with the difference to the full rate.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct EngineTime {
    /// Time in which the data path streamed operands: on TensorE MultiplyMoving on any tile, elsewhere the stream cycles
    /// of an instruction. Latency, issue overhead and LoadStationary are not in it.
    pub active: Picos,
    /// In the order of issue; an instance may have several.
    pub waits: Vec<Wait>,
    /// From the end of the last stream (or the last issue, of what does not stream) to the end of the run.
    pub idle: Picos,
}

impl EngineTime {
    /// The waits of an instance.
    pub fn of(&self, instance: u32) -> &[Wait] {
        let start = self.waits.partition_point(|wait| wait.instance < instance);
        let count = self.waits[start..].partition_point(|wait| wait.instance == instance);
        &self.waits[start..start + count]
    }

    /// The sum of the waits of each cause, largest first.
    pub fn by_cause(&self) -> Vec<(Cause, Picos)> {
        let mut sums: Vec<(Cause, Picos)> = Vec::new();
        for wait in &self.waits {
            match sums.iter_mut().find(|(cause, _)| *cause == wait.cause) {
                Some((_, sum)) => *sum += wait.span,
                None => sums.push((wait.cause, wait.span)),
            }
        }
        sums.sort_by(|a, b| b.1.cmp(&a.1).then(a.0.cmp(&b.0)));
        sums
    }
}

/// Writes an [`EngineTime`], in the order of time.
#[derive(Debug, Clone, Default)]
pub(crate) struct Ledger {
    until: Picos,
    time: EngineTime,
}

impl Ledger {
    /// Stood still until `until`; what was accounted for already stays.
    pub(crate) fn wait(&mut self, instance: u32, until: Picos, cause: Cause) {
        if until <= self.until {
            return;
        }
        let span = until - self.until;
        self.until = until;
        match self.time.waits.last_mut() {
            Some(last) if last.instance == instance && last.cause == cause => last.span += span,
            _ => self.time.waits.push(Wait { instance, cause, span }),
        }
    }

    /// Streamed until `until`; what was accounted for already (the stream of another tile) stays.
    pub(crate) fn stream(&mut self, until: Picos) {
        if until > self.until {
            self.time.active += until - self.until;
            self.until = until;
        }
    }

    /// How long the waits of an instance have been, and the cause of the longest.
    pub(crate) fn waited(&self, instance: u32) -> (Picos, Cause) {
        let own = self.time.waits.iter().rev().take_while(|wait| wait.instance == instance);
        let (mut sum, mut longest) = (Picos::ZERO, (Picos::ZERO, Cause::None));
        for wait in own {
            sum += wait.span;
            longest = longest.max((wait.span, wait.cause));
        }
        (sum, longest.1)
    }

    /// The account of a run that ended at `total`.
    pub(crate) fn finish(mut self, total: Picos) -> EngineTime {
        self.time.idle = total.saturating_sub(self.until);
        self.time
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_picosecond_is_accounted_for_once() {
        let mut ledger = Ledger::default();
        ledger.wait(3, Picos(10), Cause::Dma);
        ledger.wait(3, Picos(10), Cause::Stationary);
        ledger.wait(3, Picos(12), Cause::Throttle);
        assert_eq!(ledger.waited(3), (Picos(12), Cause::Dma));
        ledger.stream(Picos(20));
        ledger.stream(Picos(18));
        ledger.wait(7, Picos(25), Cause::Interval);
        ledger.wait(7, Picos(24), Cause::Dma);
        ledger.stream(Picos(30));
        assert_eq!(ledger.waited(8), (Picos::ZERO, Cause::None));
        let time = ledger.finish(Picos(50));
        assert_eq!((time.active, time.idle), (Picos(13), Picos(20)));
        let waits = [
            Wait { instance: 3, cause: Cause::Dma, span: Picos(10) },
            Wait { instance: 3, cause: Cause::Throttle, span: Picos(2) },
            Wait { instance: 7, cause: Cause::Interval, span: Picos(5) },
        ];
        assert_eq!(time.waits, waits);
        assert_eq!((time.of(3), time.of(5), time.of(7)), (&waits[..2], &waits[..0], &waits[2..]));
        assert_eq!(time.by_cause()[0], (Cause::Dma, Picos(10)));
        assert_eq!(time.active + time.idle + time.waits.iter().map(|wait| wait.span).sum(), Picos(50));
    }
}
