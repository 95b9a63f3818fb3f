//! What a trace shows beside the engines: bytes in SBUF and PSUM, HBM bandwidth, and the critical path.

use crate::critical::CriticalPath;
use crate::occupancy::Occupancy;
use crate::timeline::{Timeline, location};
use trn3_mem::Space;
use trn3_program::Program;
use trn3_sim::Picos;
use trn3_sim::trace::{Arg, Sample, Slice, Trace, TrackId, Unit, Value};
use trn3_spec::Target;

/// Spans that the bandwidth is shown in.
const BINS: usize = 1000;
/// Arrows between slices that a trace holds: a viewer draws no more with profit.
pub(crate) const FLOWS_MAX: usize = 20_000;

impl Timeline {
    pub(crate) fn trace_memory(&self, trace: &mut Trace, core: TrackId, program: &Program, target: &Target) {
        for space in [Space::Sbuf, Space::Psum] {
            let Occupancy { time, .. } = self.occupancy(program, target, space);
            let counter = trace.counter(core, &format!("{} bytes a partition", space.name()), Unit::Bytes);
            for (at, bytes) in time.points {
                trace.sample(counter, Picos(at), Sample::Int(bytes as i64));
            }
        }
        let unit = Unit::Named(trace.intern("GB/s"));
        let [read, written] = ["HBM read", "HBM written"].map(|name| trace.counter(core, name, unit));
        let traffic = self.hbm_traffic(BINS);
        let span = self.total.as_s_f64() / BINS as f64;
        for (bin, bytes) in traffic.iter().enumerate() {
            let at = Picos((u128::from(self.total.0) * bin as u128 / BINS as u128) as u64);
            trace.sample(read, at, Sample::Float(bytes.read as f64 / span / 1e9));
            trace.sample(written, at, Sample::Float(bytes.written as f64 / span / 1e9));
        }
        for counter in [read, written] {
            trace.sample(counter, self.total, Sample::Float(0.0));
        }
    }

    pub(crate) fn trace_critical(&self, trace: &mut Trace, track: TrackId, program: &Program, path: &CriticalPath) {
        let category = trace.intern("critical_path");
        let [step_key, resource_key, number_key] = ["step", "resource", "instruction"].map(|key| trace.intern(key));
        for segment in &path.segments {
            let number = segment.instance.map(|at| self.schedule.instances.instruction(at as usize));
            let instruction = number.map(|number| &program.instructions[number]);
            let source = instruction.and_then(|instruction| location(trace, program, instruction.line));
            let name = instruction.map_or(segment.step.name(), |instruction| instruction.opcode.definition().name);
            let name = trace.intern(name);
            let mut args = vec![
                Arg { key: step_key, value: Value::Str(trace.intern(segment.step.name())) },
                Arg { key: resource_key, value: Value::Str(trace.intern(segment.resource())) },
            ];
            if let Some(number) = number {
                args.push(Arg { key: number_key, value: Value::Uint(number as u64) });
            }
            trace.slice(Slice { track, start: segment.start, duration: segment.span(), name, category, source }, &args);
        }
    }
}
