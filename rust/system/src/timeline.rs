//! Time: a Program on one core of a chip, and what the engines did meanwhile.

use crate::launch_dma::LaunchDma;
use crate::tracks::FLOWS_MAX;
use thiserror::Error;
use trn3_dma::{Completion, DmaSpec, Route as DmaRoute};
use trn3_isa::{Cost, Engine};
use trn3_neuroncore::{Cause, CoreProgram, InstructionTime, Schedule, ScheduleError, schedule};
use trn3_program::{Path, Program};
use trn3_sim::trace::{Arg, Slice, SourceLocation, Trace, Value};
use trn3_sim::{Picos, Seed};
use trn3_spec::Target;

/// Why there is no timeline.
#[derive(Debug, Error)]
pub enum TimelineError {
    /// The queues wait for each other.
    #[error(transparent)]
    Schedule(#[from] ScheduleError),
}

/// What an engine did.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct EngineUse {
    /// Its name.
    pub name: String,
    /// Instructions that it ran, or transfers that it served.
    pub instructions: u64,
    /// Time in which at least one of them was in flight, what public profilers call active.
    pub busy: Picos,
    /// Time in which its data path streamed operands. With `stalls` and `idle` it adds up to the total, for an engine of
    /// the core; of the DMA engines it is the mean time in which one served descriptors, and there is no account.
    pub active: Picos,
    /// Time in which the data path stood still before and between streams, by what it waited for, largest first.
    pub stalls: Vec<(&'static str, Picos)>,
    /// Time after its last stream.
    pub idle: Picos,
}

/// Bytes that moved one way.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Route {
    /// Such as `hbm_to_sbuf`.
    pub name: &'static str,
    /// Bytes read at the source.
    pub read_bytes: u64,
    /// Bytes written at the destination.
    pub written_bytes: u64,
    /// Transfers.
    pub transfers: u64,
}

/// A Program in time.
#[derive(Debug, Clone)]
pub struct Timeline {
    /// From the first issue to the last result.
    pub total: Picos,
    /// Fixed time of a kernel on the device that comes on top (start, drain).
    pub fixed: Picos,
    /// Times by instruction.
    pub schedule: Schedule,
    /// The compute engines and queues, then the DMA engines together.
    pub engines: Vec<EngineUse>,
    /// Bytes by route.
    pub routes: Vec<Route>,
    /// Floating-point operations of the array.
    pub flops: u64,
    /// The same in BF16 equivalents.
    pub flops_bf16: f64,
    /// Peak of one core's array in BF16, FLOP/s.
    pub array_flops_per_s: f64,
    /// A core's share of the published chip peak in BF16, FLOP/s.
    pub published_flops_per_s: f64,
    /// Bytes read from HBM.
    pub hbm_read_bytes: u64,
    /// Bytes written to HBM.
    pub hbm_written_bytes: u64,
    /// Peak bandwidth of the stack of HBM that the core shares with its neighbour.
    pub hbm_bytes_per_s: f64,
    pub(crate) completions: Vec<(u32, Completion)>,
}

/// Runs a Program in time: one timeline for each of its cores. `paths` says how often the loops of a run went round, `seed`
/// draws what the table calls random.
///
/// # Errors
/// The queues wait for each other, or the turns of a loop are not known.
pub fn timelines(
    program: &Program,
    paths: Option<&[Path]>,
    target: &Target,
    seed: Seed,
) -> Result<Vec<Timeline>, TimelineError> {
    let mut dma = LaunchDma::new(DmaSpec::new(target), program.cores().count());
    let path = |core: usize| paths.and_then(|paths| paths.get(core));
    let programs: Vec<CoreProgram<'_>> =
        program.cores().enumerate().map(|(core, program)| CoreProgram { program, path: path(core) }).collect();
    let schedules = schedule(&programs, target, seed, &mut dma)?;
    let total = schedules.iter().map(Schedule::end).max().unwrap_or(Picos::ZERO);
    let cores = program.cores().zip(schedules).enumerate();
    Ok(cores
        .map(|(core, (program, schedule))| core_timeline(program, schedule, &mut dma, core, total, target))
        .collect())
}

fn core_timeline(
    program: &Program,
    schedule: Schedule,
    dma: &mut LaunchDma,
    core: usize,
    total: Picos,
    target: &Target,
) -> Timeline {
    let completions = dma.take_completions(core);
    let counters = dma.counters(core);
    let tables = program.tables();
    let mut engines: Vec<EngineUse> =
        Engine::ALL.iter().map(|&engine| engine_use(program, &schedule, engine)).collect();
    engines.push(dma_use(&completions));
    let mut routes: Vec<Route> = DmaRoute::ALL
        .iter()
        .enumerate()
        .map(|(at, route)| Route {
            name: route.name(),
            read_bytes: counters.read_bytes[at],
            written_bytes: counters.written_bytes[at],
            transfers: 0,
        })
        .collect();
    for (_, completion) in &completions {
        routes[completion.transfer.shape.route() as usize].transfers += 1;
    }
    let (mut flops, mut flops_bf16) = (0, 0.0);
    for at in 0..schedule.instances.len() {
        let instruction = &program.instructions[schedule.instances.instruction(at)];
        let work = (instruction.opcode.definition().work)(instruction, &tables);
        flops += work.flops;
        flops_bf16 += work.flops_bf16(&target.published.weight);
    }
    let cores = f64::from(target.chip.cores);
    Timeline {
        total,
        fixed: Picos(target.core.kernel.fixed_ps),
        engines,
        routes,
        flops,
        flops_bf16,
        array_flops_per_s: target.peaks().bf16_flops_per_s,
        published_flops_per_s: target.published.chip.bf16_flops_per_s as f64 / cores,
        hbm_read_bytes: counters.hbm_read_bytes,
        hbm_written_bytes: counters.hbm_written_bytes,
        hbm_bytes_per_s: target.chip.hbm.stack_bandwidth_peak_bytes_per_s as f64,
        completions,
        schedule,
    }
}

/// Length of the union of intervals that are sorted by their start.
fn covered(intervals: impl Iterator<Item = (Picos, Picos)>) -> Picos {
    let (mut total, mut until) = (Picos::ZERO, Picos::ZERO);
    for (start, end) in intervals {
        let from = start.max(until);
        if end > from {
            total += end - from;
            until = end;
        }
    }
    total
}

/// What ran on one engine: until when it kept the engine, and its times. Control instructions count on each of their
/// sequencers.
fn times_on<'a>(
    program: &'a Program,
    schedule: &'a Schedule,
    engine: Engine,
) -> impl Iterator<Item = (Picos, &'a InstructionTime)> {
    let instruction = move |at: usize| &program.instructions[schedule.instances.instruction(at)];
    let own = schedule.times.iter().enumerate().filter(move |(at, _)| {
        let instruction = instruction(*at);
        instruction.engine == engine && !instruction.opcode.is_control()
    });
    let control = schedule.control.iter().filter(move |control| control.engine == engine);
    own.map(move |(at, time)| (busy_until(instruction(at).opcode, time), time))
        .chain(control.map(|control| (control.time.end, &control.time)))
}

fn engine_use(program: &Program, schedule: &Schedule, engine: Engine) -> EngineUse {
    let mut intervals: Vec<(Picos, Picos)> =
        times_on(program, schedule, engine).map(|(until, time)| (time.issue, until)).collect();
    intervals.sort_unstable();
    let time = &schedule.engines[engine as usize];
    EngineUse {
        name: engine.name().into(),
        instructions: intervals.len() as u64,
        busy: covered(intervals.into_iter()),
        active: time.active,
        stalls: time.by_cause().into_iter().map(|(cause, span)| (cause.name(), span)).collect(),
        idle: time.idle,
    }
}

/// A transfer does not keep its issuer busy: the DMA engines' row has it.
fn busy_until(opcode: trn3_isa::Opcode, time: &InstructionTime) -> Picos {
    if opcode.is_transfer() { time.issue } else { time.end }
}

fn dma_use(completions: &[(u32, Completion)]) -> EngineUse {
    let mut intervals: Vec<(Picos, Picos)> =
        completions.iter().map(|(_, completion)| (completion.first_byte, completion.done)).collect();
    intervals.sort();
    let parts = completions.iter().flat_map(|(_, completion)| &completion.engines);
    let served: Picos = parts.map(|part| part.busy).sum();
    let engines = completions.first().map_or(1, |(_, completion)| completion.engines.len().max(1));
    EngineUse {
        name: "dma".into(),
        instructions: completions.len() as u64,
        busy: covered(intervals.into_iter()),
        active: Picos(served.0 / engines as u64),
        stalls: Vec::new(),
        idle: Picos::ZERO,
    }
}

impl Timeline {
    /// Bytes read from and written to HBM.
    pub fn hbm_bytes(&self) -> u64 {
        self.hbm_read_bytes + self.hbm_written_bytes
    }

    /// A trace: one thread an engine, one a DMA engine, a slice an instruction with its source line; the critical path;
    /// what is in SBUF and PSUM, and HBM's bandwidth. Arrows go from producers to consumers unless they are too many.
    pub fn trace(&self, program: &Program, target: &Target) -> Trace {
        let mut trace = Trace::new();
        let core = "chip0.core0";
        let category = trace.intern("instruction");
        let (stall_key, cause_key) = (trace.intern("stall_ps"), trace.intern("waited_for"));
        let (number_key, label_key) = (trace.intern("instruction"), trace.intern("label"));
        let tracks = Engine::ALL.map(|engine| trace.component(&format!("{core}.{}", engine.name())));
        let mut flows = Vec::new();
        let instances = &self.schedule.instances;
        // For each instruction, its last slice so far.
        let mut last = vec![None; program.instructions.len()];
        for (at, time) in self.schedule.times.iter().enumerate() {
            let number = instances.instruction(at);
            let instruction = &program.instructions[number];
            let name = trace.intern(instruction.opcode.definition().name);
            let source = location(&mut trace, program, instruction.line);
            let mut args = vec![
                Arg { key: number_key, value: Value::Uint(number as u64) },
                Arg { key: stall_key, value: Value::Uint(time.stall.0) },
            ];
            if time.cause != Cause::None {
                args.push(Arg { key: cause_key, value: Value::Str(trace.intern(time.cause.name())) });
            }
            if instruction.name != 0 {
                let label = trace.intern(&program.names[instruction.name as usize]);
                args.push(Arg { key: label_key, value: Value::Str(label) });
            }
            let slice = Slice {
                track: tracks[instruction.engine as usize],
                start: time.issue,
                duration: time.end - time.issue,
                name,
                category,
                source,
            };
            let slice = trace.slice(slice, &args);
            for &producer in program.edges.producers(number) {
                if let Some(producer) = last[producer as usize] {
                    flows.push((producer, slice));
                }
            }
            last[number] = Some(slice);
        }
        if flows.len() <= FLOWS_MAX {
            flows.into_iter().for_each(|(producer, consumer)| trace.flow(producer, consumer));
        }
        self.trace_dma(&mut trace, program, core);
        let process = trace.process(core);
        let critical = trace.thread(process, "critical path");
        self.trace_critical(&mut trace, critical, program, &self.critical_path(program, target));
        self.trace_memory(&mut trace, process, program, target);
        trace
    }

    fn trace_dma(&self, trace: &mut Trace, program: &Program, core: &str) {
        let category = trace.intern("transfer");
        let (bytes_key, number_key) = (trace.intern("bytes"), trace.intern("instruction"));
        for (at, completion) in &self.completions {
            let number = self.schedule.instances.instruction(*at as usize);
            let source = location(trace, program, program.instructions[number].line);
            let name = trace.intern(completion.transfer.shape.route().name());
            for (engine, work) in completion.engines.iter().enumerate() {
                if work.descriptors == 0 {
                    continue;
                }
                let track = trace.component(&format!("{core}.dma.engine{engine:02}"));
                let args = [
                    Arg { key: number_key, value: Value::Uint(number as u64) },
                    Arg { key: bytes_key, value: Value::Uint(completion.transfer.written_bytes()) },
                ];
                let slice = Slice { track, start: work.start, duration: work.end - work.start, name, category, source };
                trace.slice(slice, &args);
            }
        }
    }

    /// Costs that the schedule was made of, for tests.
    pub fn cost_of(program: &Program, target: &Target, instruction: usize) -> Cost {
        let instruction = &program.instructions[instruction];
        (instruction.opcode.definition().cost)(instruction, &program.tables(), target)
    }
}

pub(crate) fn location(trace: &mut Trace, program: &Program, line: u32) -> Option<trn3_sim::trace::SourceId> {
    let (file, line) = program.location(line).filter(|(_, line)| *line > 0)?;
    let file = trace.intern(file);
    Some(trace.source(SourceLocation { file, function: None, line }))
}
