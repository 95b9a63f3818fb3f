//! The DMA engines of one core, or of several that share HBM, and their events.
//!
//! Events: a transfer reaches an engine, an engine's service ends, a queue's gap ends. All events of a moment are taken
//! in before any engine decides, and all decide before HBM is divided among them, so the outcome does not depend on the
//! order in which events were scheduled.
//!
//! The caller submits transfers at moments that do not lie behind the engines' own time, and asks for completions. A
//! completion is the last engine's semaphore write; the caller adds `semaphore_to_consumer` for whoever waits for it,
//! because what wakes is not the engines' business.

use std::collections::VecDeque;
use std::sync::Arc;

use trn3_sim::{Counters, EventQueue, Picos};

use crate::engine::{Batching, Engine, Finished, Job, Serve};
use crate::error::DmaError;
use crate::plan::Plan;
use crate::spec::DmaSpec;
use crate::stack::Stack;
use crate::transfer::{Operation, Route, Transfer};

/// A transfer, by order of submission.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct TransferId(pub u64);

/// One engine's part in a finished transfer.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct EngineWork {
    /// When its first packet started.
    pub start: Picos,
    /// When its semaphore write left.
    pub end: Picos,
    /// How long the engine was busy with it: `end − start` unless other queues had their turns.
    pub busy: Picos,
    /// Data descriptors served.
    pub descriptors: u64,
}

/// A finished transfer.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Completion {
    /// Which transfer.
    pub id: TransferId,
    /// The core whose engines carried it out.
    pub core: u8,
    /// What it was.
    pub transfer: Transfer,
    /// The start of the instruction that triggered it.
    pub trigger: Picos,
    /// When the first data moved.
    pub first_byte: Picos,
    /// When the last engine's semaphore write left.
    pub done: Picos,
    /// Each engine's part.
    pub engines: Vec<EngineWork>,
}

/// What the engines of a core have done; counted when an engine finishes its part of a transfer.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct DmaCounters {
    /// Bytes read, by route in the order of [`Route::ALL`].
    pub read_bytes: [u64; 4],
    /// Bytes written, likewise; differs from the bytes read where a transfer casts.
    pub written_bytes: [u64; 4],
    /// Bytes read from HBM by transfers completed.
    pub hbm_read_bytes: u64,
    /// Bytes written to HBM by transfers completed.
    pub hbm_written_bytes: u64,
    /// Transfers completed.
    pub transfers: u64,
    /// Data descriptors served.
    pub descriptors: u64,
    /// Semaphore writes sent.
    pub semaphore_writes: u64,
    /// Busy time of each engine.
    pub busy: Vec<Picos>,
}

impl DmaCounters {
    /// As named counters: `hbm_to_sbuf.read_bytes`, …, `descriptors`, …, `engine0.busy_ps`, ….
    #[must_use]
    pub fn named(&self) -> Counters {
        let mut counters = Counters::new();
        for (index, route) in Route::ALL.into_iter().enumerate() {
            counters.add_named(&format!("{}.read_bytes", route.name()), self.read_bytes[index]);
            counters.add_named(&format!("{}.written_bytes", route.name()), self.written_bytes[index]);
        }
        counters.add_named("hbm.read_bytes", self.hbm_read_bytes);
        counters.add_named("hbm.written_bytes", self.hbm_written_bytes);
        counters.add_named("transfers", self.transfers);
        counters.add_named("descriptors", self.descriptors);
        counters.add_named("semaphore_writes", self.semaphore_writes);
        for (engine, busy) in self.busy.iter().enumerate() {
            counters.add_named(&format!("engine{engine}.busy_ps"), busy.0);
        }
        counters
    }
}

/// An `engine` is its number among those of all cores.
#[derive(Clone, Copy, Debug)]
enum Event {
    Arrive { engine: u8, slot: usize },
    ServiceEnd { engine: u8, generation: u32 },
    GapEnd { engine: u8 },
}

#[derive(Clone, Debug)]
struct InFlight {
    id: TransferId,
    core: u8,
    transfer: Transfer,
    trigger: Picos,
    /// The descriptors of a partition, or of each engine's part of a transfer within HBM.
    plans: Vec<Arc<Plan>>,
    first_byte: Option<Picos>,
    engines: Vec<EngineWork>,
    remaining: u8,
}

/// The DMA engines of one core, or of several.
#[derive(Clone, Debug)]
pub struct DmaEngines {
    spec: Arc<DmaSpec>,
    batching: Batching,
    now: Picos,
    events: EventQueue<Event>,
    engines: Vec<Engine>,
    stacks: Vec<Stack>,
    /// When the last transfer submitted to a queue reaches an engine, by engine and queue: later ones follow it.
    reaches: Vec<Picos>,
    in_flight: Vec<Option<InFlight>>,
    free_slots: Vec<usize>,
    submitted: u64,
    completions: VecDeque<Completion>,
    /// By core.
    counters: Vec<DmaCounters>,
    /// Engines that an event of this moment concerns, as bits.
    touched: u128,
    /// Engines whose service ends at another time than announced, as bits.
    changed: u128,
}

impl DmaEngines {
    /// Idle engines of one core at time zero.
    #[must_use]
    pub fn new(spec: Arc<DmaSpec>) -> DmaEngines {
        DmaEngines::for_cores(spec, 1)
    }

    /// Idle engines of neighbouring cores, which share stacks of HBM as the spec says.
    ///
    /// # Panics
    ///
    /// If there are more than 128 engines in all, or more than 64 queues on each.
    #[must_use]
    pub fn for_cores(spec: Arc<DmaSpec>, cores: u8) -> DmaEngines {
        DmaEngines::with_batching(spec, cores, Batching::Undisturbed)
    }

    /// The same with a choice of form; both give the same picoseconds.
    ///
    /// # Panics
    ///
    /// As [`DmaEngines::for_cores`].
    #[must_use]
    pub fn with_batching(spec: Arc<DmaSpec>, cores: u8, batching: Batching) -> DmaEngines {
        let of_core = usize::from(spec.engines());
        let engines = of_core * usize::from(cores);
        assert!(engines <= 128, "the engines of all cores are at most 128");
        let stacks = usize::from(cores.div_ceil(spec.stack.cores));
        let counters = DmaCounters { busy: vec![Picos::ZERO; of_core], ..DmaCounters::default() };
        DmaEngines {
            batching,
            now: Picos::ZERO,
            events: EventQueue::default(),
            engines: vec![Engine::new(&spec); engines],
            stacks: vec![Stack::new(of_core * usize::from(spec.stack.cores)); stacks],
            reaches: vec![Picos::ZERO; engines * usize::from(spec.queues())],
            in_flight: Vec::new(),
            free_slots: Vec::new(),
            submitted: 0,
            completions: VecDeque::new(),
            counters: vec![counters; usize::from(cores)],
            touched: 0,
            changed: 0,
            spec,
        }
    }

    /// The constants in force.
    #[must_use]
    pub fn spec(&self) -> &DmaSpec {
        &self.spec
    }

    /// The moment up to which everything has happened.
    #[must_use]
    pub fn now(&self) -> Picos {
        self.now
    }

    /// What the engines of a core have done so far.
    ///
    /// # Panics
    ///
    /// If there is no such core.
    #[must_use]
    pub fn counters(&self, core: u8) -> &DmaCounters {
        &self.counters[usize::from(core)]
    }

    /// Number of transfers submitted and not completed.
    #[must_use]
    pub fn in_flight(&self) -> usize {
        self.in_flight.len() - self.free_slots.len()
    }

    /// Starts a transfer on the engines of `core`, whose triggering instruction starts at `trigger`.
    ///
    /// # Errors
    ///
    /// [`DmaError::Queue`] and [`DmaError::Partitions`] if these engines have no such queue or partitions.
    ///
    /// # Panics
    ///
    /// If `trigger` lies before [`DmaEngines::now`], or there is no such core.
    pub fn submit(&mut self, core: u8, trigger: Picos, transfer: &Transfer) -> Result<TransferId, DmaError> {
        let spec = Arc::clone(&self.spec);
        transfer.shape.check(&spec)?;
        if transfer.queue >= spec.queues() {
            return Err(DmaError::Queue { queue: transfer.queue, queues: spec.queues() });
        }
        assert!(usize::from(core) < self.counters.len(), "there is no core {core}");
        assert!(trigger >= self.now, "a transfer is triggered at {trigger}, but it is {}", self.now);
        let id = TransferId(self.submitted);
        self.submitted += 1;
        let slot = self.keep(InFlight {
            id,
            core,
            transfer: *transfer,
            trigger,
            plans: plans(&spec, transfer),
            first_byte: None,
            engines: vec![EngineWork::default(); usize::from(spec.engines())],
            remaining: spec.engines(),
        });
        let first = transfer.first_packet(&spec, trigger);
        for number in 0..spec.engines() {
            let engine = core * spec.engines() + number;
            let reaches =
                &mut self.reaches[usize::from(engine) * usize::from(spec.queues()) + usize::from(transfer.queue)];
            *reaches = (*reaches).max(first + spec.skew(transfer.mode, number));
            self.events.schedule(*reaches, Event::Arrive { engine, slot });
        }
        Ok(id)
    }

    fn keep(&mut self, transfer: InFlight) -> usize {
        if let Some(slot) = self.free_slots.pop() {
            self.in_flight[slot] = Some(transfer);
            return slot;
        }
        self.in_flight.push(Some(transfer));
        self.in_flight.len() - 1
    }

    /// When something happens next, if anything will; not later than the next completion.
    #[must_use]
    pub fn next_event_time(&self) -> Option<Picos> {
        if self.completions.is_empty() { self.events.next_time() } else { Some(self.now) }
    }

    /// Lets everything happen that happens by `to`.
    ///
    /// # Panics
    ///
    /// If `to` lies before [`DmaEngines::now`].
    pub fn advance(&mut self, to: Picos) {
        assert!(to >= self.now, "time goes forward: asked for {to}, but it is {}", self.now);
        while let Some(at) = self.events.next_time().filter(|&at| at <= to) {
            self.moment(at);
        }
        self.now = to;
    }

    /// Lets things happen until a transfer completes or `limit` is reached, whichever comes first. Then
    /// [`DmaEngines::now`] is the completion's time, or `limit`; a limit in the past hands out what has completed.
    pub fn next_completion(&mut self, limit: Picos) -> Option<Completion> {
        while self.completions.is_empty() {
            let Some(at) = self.events.next_time().filter(|&at| at <= limit) else {
                self.now = self.now.max(limit);
                return None;
            };
            self.moment(at);
        }
        self.completions.pop_front()
    }

    /// A transfer that has completed, in order of completion; at one moment, in order of submission.
    pub fn take_completion(&mut self) -> Option<Completion> {
        self.completions.pop_front()
    }

    /// Takes in every event of the moment `at`, then lets the engines concerned decide.
    fn moment(&mut self, at: Picos) {
        self.now = at;
        let spec = Arc::clone(&self.spec);
        let known = self.completions.len();
        while let Some((_, event)) = self.events.pop_until(at).expect("the engines' events are not limited") {
            self.take_in(&spec, event);
        }
        self.completions.make_contiguous()[known..].sort_by_key(|completion| completion.id);
        while self.touched != 0 {
            let index = self.touched.trailing_zeros() as usize;
            self.touched &= self.touched - 1;
            if self.engines[index].decide(&spec, self.batching, at) {
                self.changed |= 1 << index;
            }
            let sharers = usize::from(spec.engines()) * usize::from(spec.stack.cores);
            self.stacks[index / sharers].ask(index % sharers, self.engines[index].demand());
        }
        self.divide_stacks(&spec);
        while self.changed != 0 {
            let index = self.changed.trailing_zeros() as usize;
            self.changed &= self.changed - 1;
            let Serve { end, generation } = self.engines[index].announce(&spec);
            self.events.schedule(end, Event::ServiceEnd { engine: index as u8, generation });
        }
    }

    /// Gives every engine the rate that its stack has for it.
    fn divide_stacks(&mut self, spec: &DmaSpec) {
        let sharers = usize::from(spec.engines()) * usize::from(spec.stack.cores);
        for (number, stack) in self.stacks.iter_mut().enumerate() {
            if !stack.divide() {
                continue;
            }
            let first = number * sharers;
            for (at, engine) in self.engines[first..].iter_mut().take(sharers).enumerate() {
                if engine.set_rate(self.now, stack.rate(at)) {
                    self.changed |= 1 << (first + at);
                }
            }
        }
    }

    fn take_in(&mut self, spec: &DmaSpec, event: Event) {
        let now = self.now;
        let (engine, gap_end) = match event {
            Event::Arrive { engine, slot } => {
                let transfer = self.in_flight[slot].as_ref().expect("a transfer that arrives is in flight");
                let (queue, job) = (transfer.transfer.queue, transfer.job(spec, slot, engine % spec.engines()));
                (engine, self.engines[usize::from(engine)].arrive(now, queue, job))
            }
            Event::ServiceEnd { engine, generation } => {
                if !self.engines[usize::from(engine)].is_current(generation) {
                    return;
                }
                let (finished, gap_end) = self.engines[usize::from(engine)].finish(spec, now);
                if let Some(finished) = finished {
                    self.part_done(engine % spec.engines(), &finished);
                }
                (engine, gap_end)
            }
            Event::GapEnd { engine } => (engine, None),
        };
        self.touched |= 1 << engine;
        if let Some(gap_end) = gap_end.filter(|&gap_end| gap_end > now) {
            self.events.schedule(gap_end, Event::GapEnd { engine });
        }
    }

    fn part_done(&mut self, engine: u8, finished: &Finished) {
        let entry = &mut self.in_flight[finished.job.slot];
        let transfer = entry.as_mut().expect("a transfer with an unfinished part is in flight");
        let route = transfer.transfer.shape.route() as usize;
        let (read, written) = transfer.transfer.shape.unit_bytes();
        let writes = transfer.transfer.operation != Operation::PartialSum;
        let units = finished.job.plan.as_ref().map_or(0, |plan| plan.units() * finished.job.repeats);
        let descriptors = finished.job.descriptors();
        let counters = &mut self.counters[usize::from(transfer.core)];
        counters.read_bytes[route] += units * read;
        counters.written_bytes[route] += if writes { units * written } else { 0 };
        counters.descriptors += descriptors;
        counters.semaphore_writes += 1;
        counters.busy[usize::from(engine)] += finished.busy;
        transfer.engines[usize::from(engine)] =
            EngineWork { start: finished.start, end: finished.end, busy: finished.busy, descriptors };
        transfer.first_byte = match (transfer.first_byte, finished.first_byte) {
            (Some(a), Some(b)) => Some(a.min(b)),
            (a, b) => a.or(b),
        };
        transfer.remaining -= 1;
        if transfer.remaining > 0 {
            return;
        }
        let transfer = entry.take().expect("it was just looked at");
        self.free_slots.push(finished.job.slot);
        counters.transfers += 1;
        counters.hbm_read_bytes += transfer.transfer.hbm.read_bytes;
        counters.hbm_written_bytes += transfer.transfer.hbm.written_bytes;
        self.completions.push_back(Completion {
            id: transfer.id,
            core: transfer.core,
            transfer: transfer.transfer,
            trigger: transfer.trigger,
            first_byte: transfer.first_byte.expect("a transfer moves at least one byte"),
            done: finished.end,
            engines: transfer.engines,
        });
    }
}

impl InFlight {
    fn job(&self, spec: &DmaSpec, slot: usize, engine: u8) -> Job {
        let shape = &self.transfer.shape;
        let (plan, repeats) = match shape.route() {
            Route::HbmToHbm => (&self.plans[usize::from(engine)], 1),
            _ => (&self.plans[0], u64::from(shape.partitions_of_engine(spec, engine))),
        };
        let share = (repeats > 0 && plan.units() > 0).then(|| (Arc::clone(plan), repeats));
        Job::new(slot, share, self.transfer.class, self.transfer.packet_descriptors)
    }
}

/// One plan for every partition, or one an engine for equal parts of a transfer within HBM.
fn plans(spec: &DmaSpec, transfer: &Transfer) -> Vec<Arc<Plan>> {
    let shape = &transfer.shape;
    let units = shape.source().bytes() / shape.unit_bytes().0;
    let plan = |start, end| Arc::new(Plan::new(spec, transfer, start, end));
    if shape.route() != Route::HbmToHbm {
        return vec![plan(0, units)];
    }
    let engines = u128::from(spec.engines());
    let edge = |engine: u8| (u128::from(units) * u128::from(engine) / engines) as u64;
    (0..spec.engines()).map(|engine| plan(edge(engine), edge(engine + 1))).collect()
}

#[cfg(test)]
mod hbm_tests;
#[cfg(test)]
mod tests;
