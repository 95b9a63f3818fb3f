//! One DMA engine: its queues, whose turn it is, and what it serves.
//!
//! The engine serves packets. A packet is one or more descriptors of a job, or the semaphore write that ends it; a
//! packet that was started completes. While only one queue has work that may go next, the engine takes all of the
//! job's data at once; if a rival becomes ready, that service is cut back to the packet under way. The result is the
//! same, to the picosecond, as serving packet by packet ([`Batching::Never`], the reference).
//!
//! A stack of HBM that is asked for more than it has slows an engine down while it moves data. A job's progress is kept
//! in 2⁻³² ps of the time that it would take undisturbed; a descriptor ends at the first picosecond at which the progress
//! covers it, and what is more than that counts for the next descriptor.
//!
//! Invariants: a queue is first in, first out; what becomes ready at a moment competes for the service that starts at
//! that moment; progress depends on the rates alone, not on how often it is looked at.

use std::collections::VecDeque;
use std::sync::Arc;

use trn3_sim::Picos;

use crate::plan::Plan;
use crate::spec::{Arbitration, DmaSpec};
use crate::stack::WHOLE;

/// Whether an engine may take more than one packet at a time where that changes nothing.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Batching {
    /// Yes: one event for each part of a job that nobody disturbs.
    #[default]
    Undisturbed,
    /// No: one event a packet; the plain reference.
    Never,
}

/// An engine's part of a transfer.
#[derive(Clone, Debug)]
pub(crate) struct Job {
    /// Which transfer in flight.
    pub slot: usize,
    /// The descriptors, carried out `repeats` times; `None` if this engine moves nothing.
    pub plan: Option<Arc<Plan>>,
    pub repeats: u64,
    pub class: u8,
    pub packet_descriptors: u32,
    /// Descriptors served. The semaphore write counts as one more, after the last.
    served: u64,
    /// Undisturbed time of the data moved so far, in 2⁻³² ps.
    progress: u128,
    start: Option<Picos>,
    busy: Picos,
}

impl Job {
    pub(crate) fn new(slot: usize, share: Option<(Arc<Plan>, u64)>, class: u8, packet_descriptors: u32) -> Job {
        let (plan, repeats) = share.map_or((None, 0), |(plan, repeats)| (Some(plan), repeats));
        Job { slot, plan, repeats, class, packet_descriptors, served: 0, progress: 0, start: None, busy: Picos::ZERO }
    }

    /// Number of data descriptors.
    pub(crate) fn descriptors(&self) -> u64 {
        self.plan.as_ref().map_or(0, |plan| plan.descriptors() * self.repeats)
    }

    /// Progress that covers the first `count` data descriptors.
    fn progress_of(&self, count: u64) -> u128 {
        let time = self.plan.as_ref().map_or(Picos::ZERO, |plan| plan.time_of(count));
        u128::from(time.0) * u128::from(WHOLE)
    }

    /// The least number of data descriptors that more progress than `progress` is needed for.
    fn count_past(&self, progress: u128) -> u64 {
        let time = Picos((progress / u128::from(WHOLE)) as u64 + 1);
        self.plan.as_ref().map_or(0, |plan| plan.count_by(time))
    }

    /// The first end of a packet at or after `count` descriptors.
    fn packet_end(&self, count: u64) -> u64 {
        let descriptors = self.descriptors();
        if count > descriptors {
            return descriptors + 1;
        }
        count.next_multiple_of(u64::from(self.packet_descriptors.max(1))).min(descriptors)
    }
}

/// A job that an engine has finished.
#[derive(Clone, Debug)]
pub(crate) struct Finished {
    pub job: Job,
    /// When its first packet started.
    pub start: Picos,
    /// When its first data moved; `None` if it had none.
    pub first_byte: Option<Picos>,
    /// When its semaphore write left.
    pub end: Picos,
    /// How long the engine was busy with it.
    pub busy: Picos,
}

#[derive(Clone, Debug, Default)]
struct Queue {
    jobs: VecDeque<Job>,
    /// From when on the head may start: the gap after the job before it.
    ready_at: Picos,
}

/// Packets `from..to` of a queue's head, being served: data descriptors, or the semaphore write alone.
#[derive(Clone, Copy, Debug)]
struct Service {
    queue: usize,
    from: u64,
    to: u64,
    start: Picos,
    /// Up to when the job's progress is known.
    since: Picos,
    is_data: bool,
}

/// When the service under way ends, unless something changes; the caller must come back then.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Serve {
    pub end: Picos,
    pub generation: u32,
}

#[derive(Clone, Debug)]
pub(crate) struct Engine {
    queues: Vec<Queue>,
    /// Bit *q* is set while queue *q* holds a job.
    waiting: u64,
    last_served: usize,
    service: Option<Service>,
    /// How fast data move, against [`WHOLE`].
    rate: u64,
    /// The rate before the last moment at which it changed.
    rate_before: u64,
    /// Number of services begun or changed; ends that were announced earlier are stale.
    generation: u32,
}

impl Engine {
    pub(crate) fn new(spec: &DmaSpec) -> Engine {
        Engine {
            queues: vec![Queue::default(); usize::from(spec.queues())],
            waiting: 0,
            last_served: usize::from(spec.queues()).saturating_sub(1),
            service: None,
            rate: WHOLE,
            rate_before: WHOLE,
            generation: 0,
        }
    }

    /// Puts a job into a queue. Returns when its head becomes ready, if that is later than now and not yet known.
    pub(crate) fn arrive(&mut self, now: Picos, queue: u8, job: Job) -> Option<Picos> {
        let index = usize::from(queue);
        let queue = &mut self.queues[index];
        queue.jobs.push_back(job);
        self.waiting |= 1 << index;
        (queue.jobs.len() == 1 && queue.ready_at > now).then_some(queue.ready_at)
    }

    /// Whether an announced end is that of the service under way.
    pub(crate) fn is_current(&self, generation: u32) -> bool {
        self.generation == generation
    }

    /// Ends the service under way. Returns the job if that was its last packet, and when the queue's next head becomes
    /// ready if it has one.
    pub(crate) fn finish(&mut self, spec: &DmaSpec, now: Picos) -> (Option<Finished>, Option<Picos>) {
        self.note_progress(now);
        let service = self.service.take().expect("a service that ends was under way");
        let queue = &mut self.queues[service.queue];
        let job = queue.jobs.front_mut().expect("a queue that is served has a head");
        job.served = service.to;
        job.busy += now - service.start;
        if service.is_data {
            return (None, None);
        }
        let job = queue.jobs.pop_front().expect("the head was just looked at");
        queue.ready_at = now.max(service.start + spec.gap());
        let wake = (!queue.jobs.is_empty()).then_some(queue.ready_at);
        if queue.jobs.is_empty() {
            self.waiting &= !(1 << service.queue);
        }
        let start = job.start.expect("a finished job was started");
        let first_byte = (job.descriptors() > 0).then_some(start);
        let busy = job.busy;
        (Some(Finished { job, start, first_byte, end: now, busy }), wake)
    }

    /// Decides what to serve, once everything that happens at `now` is known; whether an end must be announced.
    pub(crate) fn decide(&mut self, spec: &DmaSpec, batching: Batching, now: Picos) -> bool {
        match self.service {
            Some(service) => self.cut_back(spec, service, now),
            None => self.begin(spec, batching, now),
        }
    }

    /// The share of a stack of HBM that the service under way asks for, in 2⁻³².
    pub(crate) fn demand(&self) -> u64 {
        let Some(service) = self.service.filter(|service| service.is_data) else { return 0 };
        self.queues[service.queue].jobs[0].plan.as_ref().map_or(0, |plan| plan.demand())
    }

    /// From `now` on data move at that rate; whether an end must be announced anew.
    pub(crate) fn set_rate(&mut self, now: Picos, rate: u64) -> bool {
        if rate == self.rate {
            return false;
        }
        self.note_progress(now);
        self.rate = rate;
        self.service.is_some_and(|service| service.is_data)
    }

    fn note_progress(&mut self, now: Picos) {
        if let Some(service) = &mut self.service
            && service.is_data
            && now > service.since
        {
            let job = &mut self.queues[service.queue].jobs[0];
            job.progress += u128::from(self.rate) * u128::from((now - service.since).0);
            service.since = now;
            self.rate_before = self.rate;
        }
    }

    /// When the service under way ends if nothing changes.
    pub(crate) fn announce(&mut self, spec: &DmaSpec) -> Serve {
        let service = self.service.expect("what ends was begun");
        self.generation = self.generation.wrapping_add(1);
        let end = if service.is_data {
            let job = &self.queues[service.queue].jobs[0];
            let left = job.progress_of(service.to).saturating_sub(job.progress);
            service.since + time_at(left, self.rate)
        } else {
            service.start + spec.semaphore_write()
        };
        Serve { end, generation: self.generation }
    }

    /// The ready queues, as bits, and those among them that may go next.
    fn ready(&self, spec: &DmaSpec, now: Picos) -> u64 {
        let mut ready = 0;
        let mut best = u8::MAX;
        for index in bits(self.waiting) {
            let queue = &self.queues[index];
            if queue.ready_at > now {
                continue;
            }
            let class = match spec.arbitration {
                Arbitration::RoundRobin => 0,
                Arbitration::StrictPriority => queue.jobs[0].class,
            };
            if class < best {
                (best, ready) = (class, 0);
            }
            if class == best {
                ready |= 1 << index;
            }
        }
        ready
    }

    fn begin(&mut self, spec: &DmaSpec, batching: Batching, now: Picos) -> bool {
        let ready = self.ready(spec, now);
        if ready == 0 {
            return false;
        }
        // The next set bit after the queue served last, cyclically.
        let after = ready & !(u64::MAX >> (63 - self.last_served as u32));
        let queue = (if after != 0 { after } else { ready }).trailing_zeros() as usize;
        let job = &mut self.queues[queue].jobs[0];
        job.start.get_or_insert(now);
        let alone = ready.is_power_of_two() && batching == Batching::Undisturbed;
        let (from, data) = (job.served, job.descriptors());
        let is_data = from < data;
        let to = if is_data && alone { data } else { job.packet_end(from + 1) };
        self.last_served = queue;
        self.service = Some(Service { queue, from, to, start: now, since: now, is_data });
        true
    }

    /// A rival may have become ready: the service ends with the packet under way.
    fn cut_back(&mut self, spec: &DmaSpec, service: Service, now: Picos) -> bool {
        if !service.is_data || self.ready(spec, now) & !(1 << service.queue) == 0 {
            return false;
        }
        let served = self.count_before(service, now);
        let job = &self.queues[service.queue].jobs[0];
        let to = job.packet_end(served.max(service.from + 1));
        if to >= service.to {
            return false;
        }
        self.service = Some(Service { to, ..service });
        true
    }

    /// The descriptor under way just before `now`: what ends at `now` has not ended before it.
    fn count_before(&self, service: Service, now: Picos) -> u64 {
        let job = &self.queues[service.queue].jobs[0];
        if now == service.start {
            return service.from + 1;
        }
        let known = job.progress;
        let just_before = if now > service.since {
            known + u128::from(self.rate) * u128::from((now - service.since).0 - 1)
        } else {
            known.saturating_sub(u128::from(self.rate_before))
        };
        job.count_past(just_before)
    }
}

/// How long it takes to move on by `progress`, rounded up to a picosecond.
fn time_at(progress: u128, rate: u64) -> Picos {
    // Nearly always it fits, and 64 bits are divided much faster.
    if let Ok(progress) = u64::try_from(progress) {
        return Picos(progress.div_ceil(rate));
    }
    let time = progress.div_ceil(u128::from(rate));
    Picos(u64::try_from(time).expect("simulated time exceeds 64 bits of picoseconds"))
}

/// Positions of the set bits, lowest first.
fn bits(mut mask: u64) -> impl Iterator<Item = usize> {
    std::iter::from_fn(move || {
        let lowest = (mask != 0).then(|| mask.trailing_zeros() as usize)?;
        mask &= mask - 1;
        Some(lowest)
    })
}
