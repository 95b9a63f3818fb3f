//! The queues of the cores and the order in which their instructions issue.

mod issue;

use crate::array::Array;
use crate::demand::{Demand, Demands};
use crate::ledger::{Cause, EngineTime, Ledger};
use crate::ports::Streams;
use crate::stream::{CoreProgram, Instances, Stream as CoreStream};
use crate::throttle::ThrottleTime;
use std::collections::HashMap;
use thiserror::Error;
use trn3_isa::{Control, Cost, Engine, FunctionSet, Generation, Meeting, Transfer, sequencers_of};
use trn3_program::ExpandError;
use trn3_sim::{Clock, Picos, Seed};
use trn3_spec::{PerEngine, SemaphoreSpec, SequencerSpec, Target};

/// Carries transfers.
pub trait Mover {
    /// Starts a transfer on the DMA engines of `core`, triggered at `trigger`, for the instance that `ticket` names;
    /// gives how long the issuer is busy with it.
    fn submit(&mut self, core: u8, trigger: Picos, ticket: Ticket, transfer: &Transfer, issuer: Engine) -> Picos;
    /// The next transfer that is done until `limit`, and when a consumer may go on.
    fn next_done(&mut self, limit: Picos) -> Option<(Ticket, Picos)>;
}

/// Which instance of which core a transfer belongs to.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Ticket {
    /// Number of the core.
    pub core: u8,
    /// Number of the instance.
    pub instance: u32,
}

/// When an instance ran.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct InstructionTime {
    /// When it issued.
    pub issue: Picos,
    /// When its result was there (for a transfer: when its data were).
    pub end: Picos,
    /// How long the data path of its engine stood still before that; see [`EngineTime`] for all causes.
    pub stall: Picos,
    /// What most of that time went to.
    pub cause: Cause,
    /// What decided when it issued.
    pub after: After,
}

/// The constraint that decided when an instance issued, apart from what [`EngineTime`] has after it (a table of functions,
/// weights, the throttle, a port, the other core).
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum After {
    /// None: it came first.
    Nothing,
    /// The instance before it on its engine, which kept the engine until then.
    Engine(u32),
    /// The result of an instance.
    Result(u32),
}

/// A control instruction on one of the sequencers that carry it out.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct ControlTime {
    /// The instance.
    pub instance: u32,
    /// Whose sequencer.
    pub engine: Engine,
    /// When, and what it waited for.
    pub time: InstructionTime,
}

/// The times of what a core ran, in program order.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Schedule {
    /// Which instruction each entry is.
    pub instances: Instances,
    /// One entry an instance; of a control instruction, from its first sequencer to its last.
    pub times: Vec<InstructionTime>,
    /// Control instructions by sequencer.
    pub control: Vec<ControlTime>,
    /// Where the time of each engine went, in the order of [`Engine::ALL`].
    pub engines: Vec<EngineTime>,
    /// How long the array was limited.
    pub throttle: ThrottleTime,
}

impl Schedule {
    /// When the last instruction was done.
    pub fn end(&self) -> Picos {
        end_of(&self.times)
    }
}

fn end_of(times: &[InstructionTime]) -> Picos {
    times.iter().map(|time| time.end).max().unwrap_or(Picos::ZERO)
}

/// Why there is no schedule.
#[derive(Debug, Error)]
pub enum ScheduleError {
    /// No queue can go on.
    #[error("deadlock: {waiting}")]
    Deadlock {
        /// Each engine that waits, its instruction, and what for.
        waiting: String,
    },
    /// The turns of a loop are not known.
    #[error(transparent)]
    Expand(#[from] ExpandError),
}

const UNKNOWN: Picos = Picos(u64::MAX);

/// Schedules what the cores of a pair run, or one core alone. The seed draws what the table calls random.
///
/// # Errors
/// [`ScheduleError::Deadlock`] if instructions wait for each other, [`ScheduleError::Expand`] if a loop's turns are not
/// known.
pub fn schedule(
    programs: &[CoreProgram<'_>],
    target: &Target,
    seed: Seed,
    mover: &mut dyn Mover,
) -> Result<Vec<Schedule>, ScheduleError> {
    let streams = programs.iter().map(CoreStream::new).collect::<Result<Vec<_>, _>>()?;
    let cores = streams.iter().enumerate().map(|(number, stream)| Core::new(number as u8, stream, target, seed));
    let mut scheduler =
        Scheduler { target, cores: cores.collect(), flying: 0, arrivals: HashMap::new(), exchanges: Vec::new() };
    scheduler.run(mover)?;
    let total = scheduler.cores.iter().map(|core| end_of(&core.times)).max().unwrap_or(Picos::ZERO);
    let schedules: Vec<Schedule> = scheduler.cores.into_iter().map(|core| core.finish(total)).collect();
    let streams = streams.into_iter().zip(schedules);
    Ok(streams.map(|(stream, schedule)| Schedule { instances: stream.instances, ..schedule }).collect())
}

/// One engine's queue.
struct Queue {
    engine: Engine,
    clock: Clock,
    instances: Vec<u32>,
    head: usize,
    /// When it lets go of what it issued last, and what keeps it until then.
    free: Picos,
    held_by: Cause,
    /// Times of its stream in flight, if no other engine disturbs it.
    undisturbed: Undisturbed,
    /// When the array could take the next product, if its operands were there and nothing limited it.
    array_free: Picos,
    /// What the head asks for, once that was worked out.
    demand: Option<Demand>,
    /// When the head could issue, once all its producers are known to be done.
    candidate: Option<Candidate>,
    stale: bool,
}

#[derive(Clone, Copy, Default)]
struct Undisturbed {
    /// When the result is there.
    end: Picos,
    /// When the next instruction could issue, after the stream and its overhead.
    free: Picos,
    /// The same after the shortest interval, which a slower stream does not make longer.
    free_min: Picos,
}

#[derive(Clone, Copy)]
struct Candidate {
    /// When its producers are done, and the last of them.
    ready: Picos,
    cause: Cause,
    producer: Option<u32>,
    /// When its functions are loaded.
    loaded: Picos,
    /// When it could issue if its ports were free.
    wanted: Picos,
    /// When it can issue, and the port that holds it up.
    issue: Picos,
    port: Cause,
}

/// One core's queues and what has become of its instances.
struct Core<'a> {
    number: u8,
    stream: &'a CoreStream<'a>,
    waits: Waits<'a>,
    sequencer: &'a SequencerSpec,
    demands: Demands<'a>,
    queues: Vec<Queue>,
    /// In the order of the queues.
    ledgers: Vec<Ledger>,
    array: Array,
    streams: Streams,
    /// The functions that ScalarE has loaded; none at first.
    functions: Option<FunctionSet>,
    function_load: Picos,
    times: Vec<InstructionTime>,
    control: Vec<ControlTime>,
    /// What a consumer waits for: the end, or for a transfer the end plus its semaphore's way.
    done: Vec<Picos>,
    /// Sequencers that have yet to carry out an instance; 0 for all but control instructions.
    copies: HashMap<u32, u32>,
    /// The number of each meeting, in program order: the cores meet at equal numbers.
    meetings: HashMap<u32, u32>,
    left: usize,
}

impl<'a> Core<'a> {
    fn new(number: u8, stream: &'a CoreStream<'a>, target: &'a Target, seed: Seed) -> Core<'a> {
        let core = &target.core;
        let clocks = [
            core.tensor.clock_hz,
            core.vector.clock_hz,
            core.scalar.clock_hz,
            core.gpsimd.clock_hz,
            core.sync.clock_hz,
        ];
        let queues = clocks.into_iter().zip(Engine::ALL).map(|(hz, engine)| Queue {
            engine,
            clock: Clock::new(hz),
            instances: Vec::new(),
            head: 0,
            free: Picos::ZERO,
            held_by: Cause::None,
            undisturbed: Undisturbed::default(),
            array_free: Picos::ZERO,
            demand: None,
            candidate: None,
            stale: true,
        });
        let (stall, cause, after) = (Picos::ZERO, Cause::None, After::Nothing);
        let unknown = InstructionTime { issue: UNKNOWN, end: UNKNOWN, stall, cause, after };
        let mut made = Core {
            number,
            stream,
            waits: Waits { semaphore: &core.semaphore, software_wake: Picos(target.chip.dma.swdge.wake_ps) },
            sequencer: &core.sequencer,
            demands: Demands::new(stream.program, target),
            queues: queues.collect(),
            ledgers: vec![Ledger::default(); Engine::ALL.len()],
            array: Array::new(target, seed, &format!("chip0.core{number}.tensor.throttle")),
            streams: Streams::new(target),
            functions: None,
            function_load: Picos(core.scalar.table.load_ps),
            times: vec![unknown; stream.len()],
            control: Vec::new(),
            done: vec![UNKNOWN; stream.len()],
            copies: HashMap::new(),
            meetings: HashMap::new(),
            left: 0,
        };
        for at in 0..stream.len() {
            made.enqueue(at as u32);
        }
        made
    }

    /// Puts an instance into its queue; a control instruction goes to every sequencer that carries it out.
    fn enqueue(&mut self, at: u32) {
        let instruction = self.stream.instruction(at as usize);
        if instruction.opcode.is_meeting() {
            self.meetings.insert(at, self.meetings.len() as u32);
        }
        if !instruction.opcode.is_control() {
            self.queues[instruction.engine as usize].instances.push(at);
            self.left += 1;
            return;
        }
        for engine in sequencers_of(instruction) {
            self.queues[engine as usize].instances.push(at);
            self.left += 1;
            *self.copies.entry(at).or_insert(0) += 1;
        }
    }

    /// When each queue's head could issue: the earliest, and its queue. At one moment the one that has waited longest.
    fn next(&mut self) -> Option<(Picos, usize)> {
        let mut next: Option<(Picos, Picos, usize)> = None;
        for number in 0..self.queues.len() {
            let queue = &mut self.queues[number];
            if queue.stale {
                queue.stale = false;
                if let (None, Some(&at)) = (&queue.demand, queue.instances.get(queue.head)) {
                    let instruction = self.stream.instruction(at as usize);
                    queue.demand = Some(self.demands.of(instruction, self.stream.program));
                }
                self.queues[number].candidate = self.candidate(&self.queues[number]);
            }
            if let Some(candidate) = &self.queues[number].candidate
                && next.is_none_or(|(issue, wanted, _)| (candidate.issue, candidate.wanted) < (issue, wanted))
            {
                next = Some((candidate.issue, candidate.wanted, number));
            }
        }
        next.map(|(issue, _, number)| (issue, number))
    }

    /// When the head of a queue could issue, if all its producers are done.
    fn candidate(&self, queue: &Queue) -> Option<Candidate> {
        let at = *queue.instances.get(queue.head)? as usize;
        let demand = queue.demand.as_ref()?;
        if queue.free == UNKNOWN {
            return None;
        }
        let instruction = self.stream.instruction(at);
        let triggers = instruction.opcode.is_transfer().then(|| trn3_isa::generation_of(instruction));
        let (mut ready, mut cause, mut last) = (Picos::ZERO, Cause::None, None);
        for &producer in self.stream.producers(at) {
            let end = self.done[producer as usize];
            if end == UNKNOWN {
                return None;
            }
            let source = self.stream.instruction(producer as usize);
            let engine = (!source.opcode.is_transfer()).then_some(source.engine);
            let at = end + self.waits.latency(engine, queue.engine, triggers);
            if at > ready {
                ready = at;
                cause = engine.map_or(Cause::Dma, Cause::Engine);
                last = Some(producer);
            }
        }
        // Loading a table is an instruction of its own in front of the one that needs it, and waits for no semaphore.
        let switches = demand.functions.is_some_and(|functions| self.functions != Some(functions));
        let loaded = if switches { queue.free + self.function_load } else { Picos::ZERO };
        let wanted = ready.max(queue.free).max(loaded);
        let (issue, port) = match demand.cost {
            Cost::Stream(_) | Cost::Activation(..) => self.streams.admits(wanted, queue.engine, &demand.ports),
            _ => (wanted, Cause::None),
        };
        Some(Candidate { ready, cause, producer: last, loaded, wanted, issue, port })
    }

    /// An instance is done: queues that waited for it look again.
    fn complete(&mut self, at: usize, end: Picos) {
        self.times[at].end = end;
        self.done[at] = end;
        self.wake();
    }

    fn wake(&mut self) {
        self.queues.iter_mut().for_each(|queue| queue.stale |= queue.candidate.is_none());
    }

    /// Carries out a control instruction on one sequencer.
    fn control(&mut self, at: u32, engine: Engine, begun: InstructionTime, what: Control) {
        let sequencer = self.sequencer;
        let each = match what {
            Control::Move => &sequencer.semaphore_wait,
            Control::Branch => &sequencer.branch,
            Control::LoopBack => &sequencer.loop_back,
            Control::AccessSbuf | Control::AccessHbm => &sequencer.semaphore_wait,
        };
        let span = Picos(match what {
            Control::AccessSbuf => sequencer.register_load_sbuf_ps,
            Control::AccessHbm => sequencer.register_load_hbm_ps,
            _ => of_engine(each, engine),
        });
        let end = begun.issue + span;
        let queue = &mut self.queues[engine as usize];
        (queue.free, queue.held_by) = (end, Cause::Control);
        self.control.push(ControlTime { instance: at, engine, time: InstructionTime { end, ..begun } });
        let time = &mut self.times[at as usize];
        if time.issue == UNKNOWN || begun.issue < time.issue {
            *time = InstructionTime { end: time.end, ..begun };
        }
        time.end = if time.end == UNKNOWN { end } else { time.end.max(end) };
        let left = self.copies.get_mut(&at).expect("a control instruction has sequencers");
        *left -= 1;
        if *left == 0 {
            self.copies.remove(&at);
            let end = self.times[at as usize].end;
            self.complete(at as usize, end);
        }
    }
}

/// A constant of an engine's sequencer.
fn of_engine(spans: &PerEngine, engine: Engine) -> u64 {
    match engine {
        Engine::Tensor => spans.tensor_ps,
        Engine::Vector => spans.vector_ps,
        Engine::Scalar => spans.scalar_ps,
        Engine::Gpsimd => spans.gpsimd_ps,
        Engine::Sync => spans.sync_ps,
    }
}

/// An instance that waits for the other core.
#[derive(Clone, Copy)]
struct Arrival {
    core: u8,
    instance: u32,
    queue: usize,
    meeting: Meeting,
}

/// Two transfers that are done together.
struct Exchange {
    tickets: [Ticket; 2],
    landed: usize,
}

/// The event loop over all cores.
struct Scheduler<'a> {
    target: &'a Target,
    cores: Vec<Core<'a>>,
    flying: usize,
    /// Who has come to a meeting and waits for the other core, by the meeting's number.
    arrivals: HashMap<u32, Arrival>,
    exchanges: Vec<Exchange>,
}

impl Scheduler<'_> {
    fn run(&mut self, mover: &mut dyn Mover) -> Result<(), ScheduleError> {
        while self.flying > 0 || self.cores.iter().any(|core| core.left > 0) {
            let mut next: Option<(Picos, usize, usize)> = None;
            for (number, core) in self.cores.iter_mut().enumerate() {
                if let Some((issue, queue)) = core.next()
                    && next.is_none_or(|(earliest, ..)| issue < earliest)
                {
                    next = Some((issue, number, queue));
                }
            }
            let limit = next.map_or(UNKNOWN, |(issue, ..)| issue);
            if self.flying > 0
                && let Some((ticket, consumer)) = mover.next_done(limit)
            {
                self.flying -= 1;
                self.landed(ticket, consumer);
                continue;
            }
            let Some((_, core, queue)) = next else {
                let waiting = self.cores.iter().flat_map(describe).collect::<Vec<_>>().join("; ");
                return Err(ScheduleError::Deadlock { waiting });
            };
            self.issue(core, queue, mover);
        }
        Ok(())
    }

    /// A transfer is done; of an exchange, both are waited for.
    fn landed(&mut self, ticket: Ticket, consumer: Picos) {
        let Some(exchange) = self.exchanges.iter().position(|exchange| exchange.tickets.contains(&ticket)) else {
            self.cores[usize::from(ticket.core)].complete(ticket.instance as usize, consumer);
            return;
        };
        let Exchange { tickets, landed } = &mut self.exchanges[exchange];
        *landed += 1;
        if *landed == tickets.len() {
            for ticket in *tickets {
                self.cores[usize::from(ticket.core)].complete(ticket.instance as usize, consumer);
            }
            self.exchanges.swap_remove(exchange);
        }
    }

    /// Both cores have come to a meeting.
    fn meet(&mut self, arrivals: [Arrival; 2], mover: &mut dyn Mover) {
        let came = arrivals.map(|arrival| self.times(&arrival).issue);
        let remote_ps = self.target.core.semaphore.remote_ps.expect("a chip that joins cores has a way between them");
        let start = came[0].max(came[1]) + Picos(remote_ps);
        for arrival in &arrivals {
            self.cores[usize::from(arrival.core)].wait_for_peer(arrival.queue, arrival.instance, start);
        }
        let tickets = arrivals.map(|Arrival { core, instance, .. }| Ticket { core, instance });
        match arrivals[0].meeting {
            Meeting::Barrier => arrivals.iter().for_each(|arrival| self.leave(arrival, start, start)),
            Meeting::Direct { bytes } => {
                let dma = self.target.core.gpsimd.dma.as_ref().expect("sendrecv was refused on a core without");
                let end = start + Picos(dma.start_ps) + Picos::to_move(bytes, dma.bandwidth_bytes_per_s);
                arrivals.iter().for_each(|arrival| self.leave(arrival, end, end));
            }
            Meeting::Exchange(_) => {
                self.exchanges.push(Exchange { tickets, landed: 0 });
                for (arrival, ticket) in arrivals.iter().zip(tickets) {
                    let Meeting::Exchange(transfer) = arrival.meeting else { continue };
                    let engine = self.cores[usize::from(arrival.core)].queues[arrival.queue].engine;
                    let busy = mover.submit(arrival.core, start, ticket, &transfer, engine);
                    self.flying += 1;
                    let queue = &mut self.cores[usize::from(arrival.core)].queues[arrival.queue];
                    (queue.free, queue.held_by) = (start + busy, Cause::Descriptors);
                }
            }
        }
        self.cores.iter_mut().for_each(Core::wake);
    }

    fn times(&mut self, arrival: &Arrival) -> &mut InstructionTime {
        &mut self.cores[usize::from(arrival.core)].times[arrival.instance as usize]
    }

    /// Lets a core go on from a meeting.
    fn leave(&mut self, arrival: &Arrival, free: Picos, end: Picos) {
        let core = &mut self.cores[usize::from(arrival.core)];
        let queue = &mut core.queues[arrival.queue];
        (queue.free, queue.held_by) = (free, Cause::Core);
        core.complete(arrival.instance as usize, end);
    }

    /// Issues the head of a queue.
    fn issue(&mut self, core: usize, number: usize, mover: &mut dyn Mover) {
        let core = &mut self.cores[core];
        let queue = &mut core.queues[number];
        let instance = queue.instances[queue.head];
        let candidate = queue.candidate.take().expect("the queue was chosen for its candidate");
        let demand = queue.demand.take().expect("a candidate has a demand");
        queue.head += 1;
        queue.stale = true;
        core.left -= 1;
        match demand.cost {
            Cost::Stream(cost) | Cost::Activation(cost, _) => core.stream(number, instance, &candidate, &demand, cost),
            Cost::Multiply(cost) => core.multiply(number, instance, &candidate, &demand, &cost),
            Cost::Transfer(transfer) => {
                core.times[instance as usize] = core.begin(number, instance, &candidate);
                let ticket = Ticket { core: core.number, instance };
                let queue = &mut core.queues[number];
                let busy = mover.submit(core.number, candidate.issue, ticket, &transfer, queue.engine);
                (queue.free, queue.held_by) = (candidate.issue + busy, Cause::Descriptors);
                self.flying += 1;
            }
            Cost::Control(what) => {
                let begun = core.begin(number, instance, &candidate);
                core.control(instance, Engine::ALL[number], begun, what);
            }
            Cost::Meeting(meeting) => {
                // The engine waits until both cores have come.
                core.times[instance as usize] = core.begin(number, instance, &candidate);
                core.queues[number].free = UNKNOWN;
                let arrival = Arrival { core: core.number, instance, queue: number, meeting };
                let index = core.meetings[&instance];
                if let Some(other) = self.arrivals.insert(index, arrival) {
                    self.arrivals.remove(&index);
                    self.meet([other, arrival], mover);
                }
            }
        }
    }
}

/// Latencies from a producer's end to a consumer's issue.
struct Waits<'a> {
    semaphore: &'a SemaphoreSpec,
    software_wake: Picos,
}

impl Waits<'_> {
    fn latency(&self, producer: Option<Engine>, consumer: Engine, triggers: Option<Generation>) -> Picos {
        let semaphore = self.semaphore;
        let Some(producer) = producer else {
            // The way of a transfer's semaphore is inside its completion.
            return if triggers == Some(Generation::Software) { self.software_wake } else { Picos::ZERO };
        };
        let elementwise = |engine| matches!(engine, Engine::Vector | Engine::Scalar);
        Picos(match (producer, consumer) {
            (_, _) if triggers == Some(Generation::Software) => return self.software_wake,
            (_, _) if triggers.is_some() => semaphore.elementwise_to_trigger_ps,
            (a, b) if a == b => semaphore.self_ps,
            (Engine::Tensor, b) if elementwise(b) => semaphore.tensor_to_elementwise_ps,
            (a, Engine::Tensor) if elementwise(a) => semaphore.elementwise_to_tensor_ps,
            (a, b) if elementwise(a) && elementwise(b) => semaphore.elementwise_to_elementwise_ps,
            _ => semaphore.other_ps,
        })
    }
}

/// Each queue of a core that waits: its instruction, and what for.
fn describe(core: &Core<'_>) -> Vec<String> {
    let mut waiting = Vec::new();
    for queue in &core.queues {
        let Some(&at) = queue.instances.get(queue.head) else { continue };
        let instruction = core.stream.instruction(at as usize);
        let producers = core.stream.producers(at as usize).iter().filter(|p| core.done[**p as usize] == UNKNOWN);
        waiting.push(format!(
            "{} of core {} waits at instruction {at} ({}) for instructions {:?}",
            queue.engine.name(),
            core.number,
            instruction.opcode.definition().name,
            producers.collect::<Vec<_>>()
        ));
    }
    waiting
}
