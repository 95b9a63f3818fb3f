//! The critical path: which constraint decided when each instruction on the way to the last result could issue.
//!
//! It is walked backwards. The last result came from an instance; that instance issued when the last of its producers
//! was done, or when the instance before it let go of the engine ([`After`]); and so on to the start.
//! The segments follow each other without a gap, so their times add up to the total to the picosecond.
//!
//! Where two constraints end at the same moment one of them is taken. Shortening what is on the path may bring another
//! path to light, so the time that an engine has on it is the most that faster work there can gain.

use crate::timeline::Timeline;
use std::collections::{BTreeMap, HashMap};
use trn3_dma::{Completion, DmaSpec};
use trn3_isa::Engine;
use trn3_neuroncore::{After, Cause, InstructionTime};
use trn3_program::Program;
use trn3_sim::Picos;
use trn3_spec::Target;

/// What the time of a segment went to.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Step {
    /// Before the first instruction of the path.
    Start,
    /// An instruction, from its issue to its result.
    Execute,
    /// An instruction kept its engine until the next one could issue.
    Occupy,
    /// From a producer's result to the issue: the semaphore, and what else the instruction needed then.
    Handover,
    /// A table of functions was loaded.
    TableLoad,
    /// The stationary operand moved into the array.
    Stationary,
    /// The array was limited after idling.
    Throttle,
    /// Descriptors were made, and their way to the DMA engines.
    DmaStart,
    /// The DMA engines were busy with other transfers.
    DmaQueue,
    /// Data moved.
    DmaData,
    /// From the last data to the consumer's being told.
    DmaDone,
    /// The other core had not come to a meeting yet, or had not ended when this one had.
    OtherCore,
}

impl Step {
    /// Every kind of step.
    pub const ALL: [Step; 12] = [
        Step::Start,
        Step::Execute,
        Step::Occupy,
        Step::Handover,
        Step::TableLoad,
        Step::Stationary,
        Step::Throttle,
        Step::DmaStart,
        Step::DmaQueue,
        Step::DmaData,
        Step::DmaDone,
        Step::OtherCore,
    ];

    /// The name in reports and traces.
    pub const fn name(self) -> &'static str {
        match self {
            Step::Start => "start",
            Step::Execute => "execute",
            Step::Occupy => "occupy",
            Step::Handover => "handover",
            Step::TableLoad => "table_load",
            Step::Stationary => "stationary",
            Step::Throttle => "throttle",
            Step::DmaStart => "dma_start",
            Step::DmaQueue => "dma_queue",
            Step::DmaData => "dma_data",
            Step::DmaDone => "dma_done",
            Step::OtherCore => "other_core",
        }
    }

    /// What an engine still waited for when its producers were done and it was free.
    const fn of(cause: Cause) -> Option<Step> {
        match cause {
            Cause::TableLoad => Some(Step::TableLoad),
            Cause::Stationary => Some(Step::Stationary),
            Cause::Throttle => Some(Step::Throttle),
            Cause::Core => Some(Step::OtherCore),
            _ => None,
        }
    }

    const fn is_dma(self) -> bool {
        matches!(self, Step::DmaStart | Step::DmaQueue | Step::DmaData | Step::DmaDone)
    }
}

/// A piece of the critical path.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Segment {
    /// From.
    pub start: Picos,
    /// To; the next segment starts here.
    pub end: Picos,
    /// What the time went to.
    pub step: Step,
    /// Whose queue the instance was in.
    pub engine: Engine,
    /// The instance that executed, kept its engine, waited or moved data; none before the first and after the last.
    pub instance: Option<u32>,
}

impl Segment {
    /// How long it is.
    pub fn span(&self) -> Picos {
        self.end - self.start
    }

    /// Whose work it is: an engine of the core, the DMA engines, or neither.
    pub fn resource(&self) -> &'static str {
        match self.step {
            Step::Start | Step::OtherCore => "none",
            step if step.is_dma() => "dma",
            _ => self.engine.name(),
        }
    }
}

/// The critical path of a timeline.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct CriticalPath {
    /// From the start to the end of the run, without a gap.
    pub segments: Vec<Segment>,
}

impl CriticalPath {
    /// Sums by a property of the segments, largest first.
    pub fn sums<K: Ord + Clone>(&self, of: impl Fn(&Segment) -> K) -> Vec<(K, Picos)> {
        let mut sums: BTreeMap<K, Picos> = BTreeMap::new();
        for segment in &self.segments {
            *sums.entry(of(segment)).or_default() += segment.span();
        }
        let mut sums: Vec<_> = sums.into_iter().collect();
        sums.sort_by_key(|&(_, time)| std::cmp::Reverse(time));
        sums
    }
}

/// Walks back from the end of the run.
struct Walk<'a> {
    timeline: &'a Timeline,
    program: &'a Program,
    /// Times of control instructions, by instance and sequencer.
    control: HashMap<(u32, Engine), &'a InstructionTime>,
    /// Completions of transfers, by instance.
    completions: HashMap<u32, &'a Completion>,
    dma: DmaSpec,
    /// How far back it has come; everything after that is in `backwards`.
    at: Picos,
    backwards: Vec<Segment>,
}

impl<'a> Walk<'a> {
    fn new(timeline: &'a Timeline, program: &'a Program, target: &Target) -> Walk<'a> {
        let control = timeline.schedule.control.iter();
        let completions = timeline.completions.iter();
        Walk {
            timeline,
            program,
            control: control.map(|control| ((control.instance, control.engine), &control.time)).collect(),
            completions: completions.map(|(instance, completion)| (*instance, completion)).collect(),
            dma: DmaSpec::new(target),
            at: timeline.total,
            backwards: Vec::new(),
        }
    }

    fn time(&self, instance: u32, engine: Engine) -> InstructionTime {
        let whole = &self.timeline.schedule.times[instance as usize];
        *self.control.get(&(instance, engine)).copied().unwrap_or(whole)
    }

    /// The queue in which an instance was last: of a control instruction, that of its last sequencer.
    fn engine_of(&self, instance: u32) -> Engine {
        let number = self.timeline.schedule.instances.instruction(instance as usize);
        let instruction = &self.program.instructions[number];
        if !instruction.opcode.is_control() {
            return instruction.engine;
        }
        let ends = Engine::ALL.into_iter().filter_map(|engine| {
            let time = self.control.get(&(instance, engine))?;
            Some((time.end, engine))
        });
        ends.max().map_or(instruction.engine, |(_, engine)| engine)
    }

    /// Goes back over what an instance waited for last before it issued, if neither a producer nor its engine was that.
    fn back_over_waits(&mut self, instance: u32, engine: Engine) {
        let stall = self.time(instance, engine).stall;
        let waits = self.timeline.schedule.engines[engine as usize].of(instance);
        // Later waits of the instance are those within its own stream.
        let mut waited = Picos::ZERO;
        let before = waits.iter().take_while(|wait| {
            let begins_before = waited < stall;
            waited += wait.span;
            begins_before
        });
        for wait in before.collect::<Vec<_>>().into_iter().rev() {
            let Some(step) = Step::of(wait.cause) else { return };
            self.back_to(self.at.saturating_sub(wait.span), step, engine, Some(instance));
        }
    }

    /// Goes back to `start`.
    fn back_to(&mut self, start: Picos, step: Step, engine: Engine, instance: Option<u32>) {
        if start < self.at {
            self.backwards.push(Segment { start, end: self.at, step, engine, instance });
            self.at = start;
        }
    }

    /// Goes back from the result of an instance to its issue.
    fn back_to_issue(&mut self, instance: u32, engine: Engine) {
        let issue = self.time(instance, engine).issue;
        let Some(&completion) = self.completions.get(&instance) else {
            self.back_to(issue, Step::Execute, engine, Some(instance));
            return;
        };
        let first_packet = completion.transfer.first_packet(&self.dma, completion.trigger).min(completion.first_byte);
        let edges = [
            (completion.done, Step::DmaDone),
            (completion.first_byte, Step::DmaData),
            (first_packet, Step::DmaQueue),
            (issue, Step::DmaStart),
        ];
        for (start, step) in edges {
            self.back_to(start.max(issue), step, engine, Some(instance));
        }
    }

    fn back_from(&mut self, last: u32) {
        let (mut instance, mut engine) = (last, self.engine_of(last));
        let end = self.time(instance, engine).end;
        self.back_to(end, Step::OtherCore, engine, None);
        self.back_to_issue(instance, engine);
        loop {
            self.back_over_waits(instance, engine);
            match self.time(instance, engine).after {
                After::Nothing => break,
                After::Engine(before) => {
                    let issue = self.time(before, engine).issue;
                    self.back_to(issue, Step::Occupy, engine, Some(before));
                    instance = before;
                }
                After::Result(producer) => {
                    let end = self.timeline.schedule.times[producer as usize].end;
                    self.back_to(end, Step::Handover, engine, Some(instance));
                    (instance, engine) = (producer, self.engine_of(producer));
                    self.back_to_issue(instance, engine);
                }
            }
        }
        self.back_to(Picos::ZERO, Step::Start, engine, None);
    }
}

impl Timeline {
    /// The critical path of this core; `program` and `target` are those that were timed.
    pub fn critical_path(&self, program: &Program, target: &Target) -> CriticalPath {
        let mut walk = Walk::new(self, program, target);
        let times = self.schedule.times.iter().enumerate();
        match times.max_by_key(|(at, time)| (time.end, std::cmp::Reverse(*at))) {
            Some((last, _)) => walk.back_from(last as u32),
            None => walk.back_to(Picos::ZERO, Step::OtherCore, Engine::Sync, None),
        }
        walk.backwards.reverse();
        CriticalPath { segments: walk.backwards }
    }
}
