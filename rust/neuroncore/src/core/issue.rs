//! What happens when an instruction issues: until when it keeps its engine and its consumers, and where the time went.

use super::{After, Candidate, Core, InstructionTime, Schedule, UNKNOWN, Undisturbed};
use crate::array::Request;
use crate::demand::Demand;
use crate::ledger::Cause;
use crate::stream::Instances;
use trn3_isa::{Multiply, Stream};
use trn3_sim::Picos;

impl Core<'_> {
    /// What decided when the head of a queue, which was just taken, could issue: its producers if they were there last.
    fn after(&self, number: usize, candidate: &Candidate, producers_last: bool) -> After {
        let queue = &self.queues[number];
        // The head has moved on: the instance before the one that issues lies two back.
        let before = queue.head.checked_sub(2).map_or(After::Nothing, |before| After::Engine(queue.instances[before]));
        candidate.producer.filter(|_| producers_last).map_or(before, After::Result)
    }

    /// Accounts for the time of a queue until its head issues.
    pub(super) fn begin(&mut self, number: usize, instance: u32, candidate: &Candidate) -> InstructionTime {
        self.settle(number);
        let after = self.after(number, candidate, candidate.ready > self.queues[number].free.max(candidate.loaded));
        let (queue, ledger) = (&self.queues[number], &mut self.ledgers[number]);
        ledger.wait(instance, queue.free, queue.held_by);
        ledger.wait(instance, candidate.ready, candidate.cause);
        ledger.wait(instance, candidate.loaded, Cause::TableLoad);
        ledger.wait(instance, candidate.issue, candidate.port);
        let (stall, cause) = ledger.waited(instance);
        InstructionTime { issue: candidate.issue, end: UNKNOWN, stall, cause, after }
    }

    /// An instance of a queue goes on at `start`, when the other core has come.
    pub(super) fn wait_for_peer(&mut self, number: usize, instance: u32, start: Picos) {
        let ledger = &mut self.ledgers[number];
        ledger.wait(instance, start, Cause::Core);
        let (stall, cause) = ledger.waited(instance);
        let time = &mut self.times[instance as usize];
        *time = InstructionTime { issue: start, stall, cause, ..*time };
    }

    /// Accounts for the stream that a queue has in flight: it is over.
    fn settle(&mut self, number: usize) {
        let engine = self.queues[number].engine;
        let Some(flight) = self.streams.take(engine) else { return };
        let ledger = &mut self.ledgers[number];
        let streamed = flight.start + flight.span;
        ledger.stream(streamed);
        ledger.wait(flight.instance, streamed + flight.lost.bus, Cause::Bus);
        ledger.wait(flight.instance, flight.end(), Cause::Bank);
    }

    /// Issues an instruction that streams operands through VectorE, ScalarE or GpSimdE.
    pub(super) fn stream(
        &mut self,
        number: usize,
        instance: u32,
        candidate: &Candidate,
        demand: &Demand,
        cost: Stream,
    ) {
        let begun = self.begin(number, instance, candidate);
        let issue = begun.issue;
        self.times[instance as usize] = begun;
        self.functions = demand.functions.or(self.functions);
        let queue = &mut self.queues[number];
        let span = |cycles: u64| queue.clock.span(cycles);
        queue.undisturbed = Undisturbed {
            end: issue + span(cost.latency + cost.stream),
            free: issue + span(cost.stream + cost.overhead),
            free_min: issue + span(demand.interval_min),
        };
        queue.held_by = Cause::Interval;
        if self.streams.start(issue, queue.engine, instance, span(cost.stream), demand.ports) {
            (0..self.queues.len()).for_each(|number| self.delay(number));
            self.queues.iter_mut().for_each(|queue| queue.stale = true);
        } else {
            self.delay(number);
            let exclusive = self.streams.are_exclusive();
            self.queues.iter_mut().for_each(|queue| queue.stale |= exclusive);
            self.wake();
        }
    }

    /// Notes until when the stream that a queue has in flight keeps it, and its consumers.
    fn delay(&mut self, number: usize) {
        let queue = &mut self.queues[number];
        let Some(flight) = self.streams.flight(queue.engine) else { return };
        let (lost, at) = (flight.lost.sum(), flight.instance as usize);
        queue.free = queue.undisturbed.free_min.max(queue.undisturbed.free + lost);
        self.times[at].end = queue.undisturbed.end + lost;
        self.done[at] = self.times[at].end;
    }

    /// Issues a matrix product. Its LoadStationary may run in the shadow of the product before it: only its operands,
    /// and what the sequencer did meanwhile, hold it back.
    pub(super) fn multiply(
        &mut self,
        number: usize,
        instance: u32,
        candidate: &Candidate,
        demand: &Demand,
        cost: &Multiply,
    ) {
        let queue = &self.queues[number];
        let placed = candidate.ready + queue.clock.span(cost.load_latency + cost.load);
        let kept = if queue.held_by == Cause::Interval { queue.array_free } else { queue.free.max(queue.array_free) };
        let after = self.after(number, candidate, placed > kept);
        let (queue, ledger) = (&mut self.queues[number], &mut self.ledgers[number]);
        let mut ready = candidate.ready;
        if queue.held_by != Cause::Interval {
            ledger.wait(instance, queue.free, queue.held_by);
            ready = ready.max(queue.free);
        }
        let request = Request { instance, ready, cause: candidate.cause, interval_min: demand.interval_min };
        let product = self.array.take(&request, cost, ledger);
        queue.free = product.last_start;
        queue.array_free = product.last_start + queue.clock.span(cost.stream + cost.overhead);
        queue.held_by = Cause::Interval;
        let (stall, cause) = product.waited;
        self.times[instance as usize] = InstructionTime { issue: product.start, end: product.end, stall, cause, after };
        self.complete(instance as usize, product.end);
    }

    /// What became of everything in a run of all cores that ended at `total`.
    pub(super) fn finish(mut self, total: Picos) -> Schedule {
        (0..self.queues.len()).for_each(|number| self.settle(number));
        Schedule {
            instances: Instances::default(),
            engines: self.ledgers.into_iter().map(|ledger| ledger.finish(total)).collect(),
            throttle: self.array.finish(total),
            times: self.times,
            control: self.control,
        }
    }
}
