//! The queues of a core and the order in which their instructions issue.

use crate::array::Array;
use thiserror::Error;
use trn3_isa::{Cost, Engine, Generation, Stream, Transfer};
use trn3_program::Program;
use trn3_sim::{Clock, Picos};
use trn3_spec::{SemaphoreSpec, Target};

/// Carries transfers.
pub trait Mover {
    /// Starts the transfer of `instruction`, triggered at `trigger`; gives how long the issuer is busy with it.
    fn submit(&mut self, trigger: Picos, instruction: u32, transfer: &Transfer, issuer: Engine) -> Picos;
    /// The next transfer that is done until `limit`: its instruction and when a consumer may go on.
    fn next_done(&mut self, limit: Picos) -> Option<(u32, Picos)>;
}

/// What an instruction waited for.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Cause {
    /// Nothing: its engine was the last to be free.
    None,
    /// An instruction of that engine.
    Engine(Engine),
    /// A transfer.
    Dma,
}

/// When an instruction ran.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct InstructionTime {
    /// When it issued.
    pub issue: Picos,
    /// When its result was there (for a transfer: when its data were).
    pub end: Picos,
    /// How long its engine, free already, waited for a producer.
    pub stall: Picos,
    /// Which producer.
    pub cause: Cause,
}

/// The times of a Program's instructions, in program order.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Schedule {
    /// One entry an instruction.
    pub times: Vec<InstructionTime>,
}

impl Schedule {
    /// When the last instruction was done.
    pub fn end(&self) -> Picos {
        self.times.iter().map(|time| time.end).max().unwrap_or(Picos::ZERO)
    }
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
}

/// One engine's queue.
struct Queue {
    clock: Clock,
    instructions: Vec<u32>,
    head: usize,
    free: Picos,
    interval_min: u64,
    /// When the head could issue, once all its producers are known to be done.
    candidate: Option<Candidate>,
    stale: bool,
}

#[derive(Clone, Copy)]
struct Candidate {
    ready: Picos,
    issue: Picos,
    cause: Cause,
}

const UNKNOWN: Picos = Picos(u64::MAX);

/// Schedules a Program on one core.
///
/// # Errors
/// [`ScheduleError::Deadlock`] if instructions wait for each other.
pub fn schedule(program: &Program, target: &Target, mover: &mut dyn Mover) -> Result<Schedule, ScheduleError> {
    let tables = program.tables();
    let core = &target.core;
    let clocks = [
        (core.tensor.clock_hz, core.tensor.interval_min_cycles),
        (core.vector.clock_hz, core.vector.interval_min_cycles),
        (core.scalar.clock_hz, core.scalar.interval_min_cycles),
        (core.gpsimd.clock_hz, core.gpsimd.interval_min_cycles),
        (core.sync.clock_hz, 0),
    ];
    let mut queues: Vec<Queue> = clocks
        .into_iter()
        .map(|(hz, interval_min)| Queue {
            clock: Clock::new(hz),
            instructions: Vec::new(),
            head: 0,
            free: Picos::ZERO,
            interval_min: u64::from(interval_min),
            candidate: None,
            stale: true,
        })
        .collect();
    for (at, instruction) in program.instructions.iter().enumerate() {
        queues[instruction.engine as usize].instructions.push(at as u32);
    }
    let mut array = Array::new(&core.tensor);
    let waits = Waits { semaphore: &core.semaphore, software_wake: Picos(target.chip.dma.swdge.wake_ps) };
    let unknown = InstructionTime { issue: UNKNOWN, end: UNKNOWN, stall: Picos::ZERO, cause: Cause::None };
    let mut times = vec![unknown; program.instructions.len()];
    // What a consumer waits for: the end, or for a transfer the end plus its semaphore's way.
    let mut done = vec![UNKNOWN; program.instructions.len()];
    let mut left = program.instructions.len();
    let mut flying = 0usize;
    while left > 0 || flying > 0 {
        let mut next: Option<(Picos, usize)> = None;
        for (number, queue) in queues.iter_mut().enumerate() {
            if queue.stale {
                queue.stale = false;
                queue.candidate = candidate(program, queue, &done, &waits);
            }
            if let Some(candidate) = &queue.candidate
                && next.is_none_or(|(issue, _)| candidate.issue < issue)
            {
                next = Some((candidate.issue, number));
            }
        }
        let limit = next.map_or(Picos(u64::MAX), |(issue, _)| issue);
        if flying > 0
            && let Some((instruction, consumer)) = mover.next_done(limit)
        {
            flying -= 1;
            let at = instruction as usize;
            times[at].end = consumer;
            done[at] = consumer;
            queues.iter_mut().for_each(|queue| queue.stale |= queue.candidate.is_none());
            continue;
        }
        let Some((_, number)) = next else {
            return Err(ScheduleError::Deadlock { waiting: describe(program, &queues, &done) });
        };
        let queue = &mut queues[number];
        let at = queue.instructions[queue.head] as usize;
        let Candidate { ready, issue, cause } = queue.candidate.take().expect("the queue was chosen for its candidate");
        queue.head += 1;
        queue.stale = true;
        left -= 1;
        let instruction = &program.instructions[at];
        let definition = instruction.opcode.definition();
        let time = &mut times[at];
        time.issue = issue;
        time.stall = if ready > queue.free { ready - queue.free } else { Picos::ZERO };
        time.cause = if ready > queue.free { cause } else { Cause::None };
        match (definition.cost)(instruction, &tables, target) {
            Cost::Stream(Stream { stream, latency, overhead }) => {
                time.end = issue + queue.clock.span(latency + stream);
                done[at] = time.end;
                queue.free = issue + queue.clock.span(queue.interval_min.max(stream + overhead));
            }
            Cost::Multiply(multiply) => {
                // Its LoadStationary may run in the shadow of the product before it: only its operands hold it back.
                let product = array.take(ready, &multiply);
                time.issue = product.start;
                time.end = product.end;
                done[at] = time.end;
                queue.free = product.last_start;
            }
            Cost::Transfer(transfer) => {
                let busy = mover.submit(issue, at as u32, &transfer, instruction.engine);
                flying += 1;
                queue.free = issue + busy;
            }
        }
        if done[at] != UNKNOWN {
            queues.iter_mut().for_each(|queue| queue.stale |= queue.candidate.is_none());
        }
    }
    Ok(Schedule { times })
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

/// When the head of a queue could issue, if all its producers are done.
fn candidate(program: &Program, queue: &Queue, done: &[Picos], waits: &Waits<'_>) -> Option<Candidate> {
    let at = *queue.instructions.get(queue.head)? as usize;
    let instruction = &program.instructions[at];
    let triggers = instruction.opcode.is_transfer().then(|| trn3_isa::generation_of(instruction));
    let (mut ready, mut cause) = (Picos::ZERO, Cause::None);
    for &producer in program.edges.producers(at) {
        let end = done[producer as usize];
        if end == UNKNOWN {
            return None;
        }
        let source = &program.instructions[producer as usize];
        let engine = (!source.opcode.is_transfer()).then_some(source.engine);
        let at = end + waits.latency(engine, instruction.engine, triggers);
        if at > ready {
            ready = at;
            cause = engine.map_or(Cause::Dma, Cause::Engine);
        }
    }
    Some(Candidate { ready, issue: ready.max(queue.free), cause })
}

fn describe(program: &Program, queues: &[Queue], done: &[Picos]) -> String {
    let mut waiting = Vec::new();
    for queue in queues {
        let Some(&at) = queue.instructions.get(queue.head) else { continue };
        let instruction = &program.instructions[at as usize];
        let producers = program.edges.producers(at as usize).iter().filter(|p| done[**p as usize] == UNKNOWN);
        waiting.push(format!(
            "{} waits at instruction {at} ({}) for instructions {:?}",
            instruction.engine.name(),
            instruction.opcode.definition().name,
            producers.collect::<Vec<_>>()
        ));
    }
    waiting.join("; ")
}
