//! `trn3._native.Timeline`: a Program in time.

use crate::analysis;
use crate::errors;
use crate::program::Program;
use crate::tables::{self, Table};
use pyo3::exceptions::{PyIndexError, PyOSError, PyRuntimeError, PyValueError};
use pyo3::prelude::*;
use pyo3::types::{PyDict, PyList};
use std::borrow::Cow;
use std::fs::File;
use std::io::{BufWriter, Write};
use std::path::PathBuf;
use std::sync::{Arc, OnceLock};
use trn3_mem::{Space, Violation};
use trn3_sim::{Picos, Seed};
use trn3_spec::Target;
use trn3_system::{CriticalPath, perfetto};

/// A Program in time on one core.
#[pyclass(frozen, module = "trn3._native")]
pub(crate) struct Timeline {
    whole: Arc<trn3_program::Program>,
    core: usize,
    timeline: trn3_system::Timeline,
    target: Arc<Target>,
    path: OnceLock<CriticalPath>,
    peer: Option<Py<Timeline>>,
}

impl Timeline {
    /// The critical path, walked when first asked for.
    fn path(&self) -> &CriticalPath {
        self.path.get_or_init(|| self.timeline.critical_path(self.program(), &self.target))
    }

    /// What this core runs.
    fn program(&self) -> &trn3_program::Program {
        self.whole.cores().nth(self.core).expect("the timeline was made for a core of the Program")
    }
}

/// The hardware that a Program is timed on.
fn hardware<'t>(py: Python<'_>, program: &trn3_program::Program, table: &'t Table) -> PyResult<Cow<'t, Target>> {
    let Table { table, target } = table;
    if program.target != table.name() {
        let violation = Violation::new(
            "program.target",
            program.kernel.clone(),
            format!("was recorded for {}", program.target),
            format!("the table is {}", table.name()),
            "give the table it was recorded for, or record the kernel again",
        )
        .in_instruction("time");
        return Err(errors::violation(py, &violation, None));
    }
    if program.overrides.is_empty() {
        return Ok(Cow::Borrowed(target));
    }
    program.hardware(table).map(Cow::Owned).map_err(|error| tables::raised(py, &error))
}

#[pymethods]
impl Timeline {
    /// Schedules a Program on one core of the hardware table that it was recorded for, with the Program's own values
    /// in place of the table's.
    ///
    /// ``turns`` says how often the dynamic loops of each core went round in a run; without it, that must follow from
    /// constants. ``seed`` draws what the table calls random.
    #[new]
    #[pyo3(signature = (program, table, turns = None, seed = 0))]
    fn new(
        py: Python<'_>,
        program: &Bound<'_, Program>,
        table: &Bound<'_, Table>,
        turns: Option<Vec<Vec<u32>>>,
        seed: u64,
    ) -> PyResult<Timeline> {
        let whole = Arc::clone(&program.get().program);
        let target = Arc::new(hardware(py, &whole, table.get())?.into_owned());
        let timelines = py.detach(|| {
            let paths: Option<Vec<_>> =
                turns.map(|turns| turns.into_iter().map(|turns| trn3_program::Path { turns }).collect());
            trn3_system::timelines(&whole, paths.as_deref(), &target, Seed(seed))
        });
        let mut timelines = timelines.map_err(|error| PyRuntimeError::new_err(error.to_string()))?;
        let peer = if timelines.len() > 1 { timelines.pop() } else { None };
        let timeline = timelines.pop().expect("a Program has a core");
        let of_core = |core: usize, timeline, peer| Timeline {
            whole: Arc::clone(&whole),
            core,
            timeline,
            target: Arc::clone(&target),
            path: OnceLock::new(),
            peer,
        };
        let peer = peer.map(|timeline| Py::new(py, of_core(1, timeline, None))).transpose()?;
        Ok(of_core(0, timeline, peer))
    }

    /// The timeline of the second core of a logical core, or None.
    #[getter]
    fn peer(&self, py: Python<'_>) -> Option<Py<Timeline>> {
        self.peer.as_ref().map(|peer| peer.clone_ref(py))
    }

    /// From the first issue to the last result, in picoseconds.
    #[getter]
    fn total_ps(&self) -> u64 {
        self.timeline.total.0
    }

    /// Fixed device time of a kernel that comes on top, in picoseconds.
    #[getter]
    fn fixed_ps(&self) -> u64 {
        self.timeline.fixed.0
    }

    /// ``(name, instructions, busy_ps, {waited for: ps})`` of each engine, the DMA engines together last.
    #[getter]
    fn engines<'py>(&self, py: Python<'py>) -> PyResult<Bound<'py, PyList>> {
        let list = PyList::empty(py);
        for engine in &self.timeline.engines {
            let stalls = PyDict::new(py);
            for &(cause, time) in &engine.stalls {
                stalls.set_item(cause, time.0)?;
            }
            list.append((engine.name.as_str(), engine.instructions, engine.busy.0, stalls))?;
        }
        Ok(list)
    }

    /// ``(name, read bytes, written bytes, transfers)`` of each route.
    #[getter]
    fn routes(&self) -> Vec<(&'static str, u64, u64, u64)> {
        let route = |route: &trn3_system::Route| (route.name, route.read_bytes, route.written_bytes, route.transfers);
        self.timeline.routes.iter().map(route).collect()
    }

    /// Bytes read from and written to HBM.
    #[getter]
    fn hbm_bytes(&self) -> u64 {
        self.timeline.hbm_bytes()
    }

    /// Floating-point operations of the array.
    #[getter]
    fn flops(&self) -> u64 {
        self.timeline.flops
    }

    /// The same in BF16 equivalents.
    #[getter]
    fn flops_bf16(&self) -> f64 {
        self.timeline.flops_bf16
    }

    /// Peak of the array of a core in BF16, FLOP/s.
    #[getter]
    fn array_flops_per_s(&self) -> f64 {
        self.timeline.array_flops_per_s
    }

    /// A core's share of the published chip peak in BF16, FLOP/s.
    #[getter]
    fn published_flops_per_s(&self) -> f64 {
        self.timeline.published_flops_per_s
    }

    /// Peak bandwidth of the stack of HBM that the core shares with its neighbour, bytes/s.
    #[getter]
    fn hbm_bytes_per_s(&self) -> f64 {
        self.timeline.hbm_bytes_per_s
    }

    /// ``(active_ps, idle_ps)`` of each engine, in the order of `engines`. For all but DMA, active time, waits and idle
    /// time add up to the total; the DMA engines' is the mean time in which one served descriptors.
    #[getter]
    fn engine_times(&self) -> Vec<(u64, u64)> {
        self.timeline.engines.iter().map(|engine| (engine.active.0, engine.idle.0)).collect()
    }

    /// Picoseconds in which the array was limited after idling: while it had work, and while it had none.
    #[getter]
    fn throttle(&self) -> (u64, u64) {
        let throttle = self.timeline.schedule.throttle;
        (throttle.active.0, throttle.unused.0)
    }

    /// ``(waited for, ps)``: why the data path of an instruction's engine stood still from the end of the stream before
    /// to the end of the instruction's own.
    fn waits(&self, number: usize) -> PyResult<Vec<(&'static str, u64)>> {
        let schedule = &self.timeline.schedule;
        if number >= schedule.times.len() {
            return Err(PyIndexError::new_err(format!("no instruction {number}")));
        }
        let instruction = &self.program().instructions[schedule.instances.instruction(number)];
        let waits = schedule.engines[instruction.engine as usize].of(number as u32);
        Ok(waits.iter().map(|wait| (wait.cause.name(), wait.span.0)).collect())
    }

    /// Issue, end and stall of an instruction, in picoseconds.
    fn instruction(&self, number: usize) -> PyResult<(u64, u64, u64)> {
        let time = self.timeline.schedule.times.get(number);
        let time = time.ok_or_else(|| PyIndexError::new_err(format!("no instruction {number}")))?;
        Ok((time.issue.0, time.end.0, time.stall.0))
    }

    /// Instructions of this core's Program, and how many ran with every turn of a loop counted.
    #[getter]
    fn instructions(&self) -> (usize, usize) {
        (self.program().instructions.len(), self.timeline.schedule.instances.len())
    }

    /// ``(file, line, figures)`` of each source line, the longest in flight first.
    fn lines<'py>(&self, py: Python<'py>) -> PyResult<Bound<'py, PyList>> {
        let lines = py.detach(|| self.timeline.lines(self.program(), &self.target, self.path()));
        analysis::lines(py, self.program(), &lines)
    }

    /// Sums of the critical path by resource, by step, and by both with instruction and line.
    fn critical_sums<'py>(&self, py: Python<'py>) -> PyResult<Bound<'py, PyDict>> {
        let path = py.detach(|| self.path());
        analysis::critical_sums(py, self.program(), &self.timeline, path)
    }

    /// The segments of the critical path in columns; neighbours shorter than ``shortest_ps`` together are joined.
    #[pyo3(signature = (shortest_ps = 0))]
    fn critical_segments<'py>(&self, py: Python<'py>, shortest_ps: u64) -> PyResult<Bound<'py, PyDict>> {
        let path = py.detach(|| self.path());
        analysis::critical_segments(py, self.program(), &self.timeline, path, shortest_ps)
    }

    /// Sizes of transfers and descriptors by power of two, and the busy time of each DMA engine.
    fn transfers<'py>(&self, py: Python<'py>) -> PyResult<Bound<'py, PyDict>> {
        analysis::transfers(py, &self.timeline)
    }

    /// ``(read, written)`` HBM bytes in each of ``bins`` equal spans of the run.
    fn hbm_traffic(&self, bins: usize) -> Vec<(u64, u64)> {
        self.timeline.hbm_traffic(bins).into_iter().map(|bytes| (bytes.read, bytes.written)).collect()
    }

    /// The run's point under the roofline.
    fn roofline<'py>(&self, py: Python<'py>) -> PyResult<Bound<'py, PyDict>> {
        analysis::roofline(py, self.program(), &self.timeline, &self.target)
    }

    /// What lies in ``sbuf`` or ``psum``: capacity, peak and owners, curves of at most about ``limit`` points, and the
    /// ``limit`` largest tensors.
    fn occupancy<'py>(&self, py: Python<'py>, space: &str, limit: usize) -> PyResult<Bound<'py, PyDict>> {
        let space = Space::from_name(space).filter(|space| space.is_on_chip());
        let space = space.ok_or_else(|| PyValueError::new_err("occupancy: the space is sbuf or psum"))?;
        analysis::occupancy(py, self.program(), &self.timeline, &self.target, space, limit)
    }

    /// ``(row, blocks)`` of the timeline, the blocks in columns; about ``limit`` blocks at most, short ones joined.
    fn blocks<'py>(&self, py: Python<'py>, limit: usize) -> PyResult<Bound<'py, PyList>> {
        analysis::blocks(py, self.program(), &self.timeline, limit)
    }

    /// ``{figure: value}`` of each spilled tensor, the one with most time on the critical path first.
    fn spills<'py>(&self, py: Python<'py>) -> PyResult<Bound<'py, PyList>> {
        analysis::spills(py, self.program(), &self.timeline.spills(self.program(), self.path()))
    }

    /// ``(label, instructions, first issue, last end)`` of the instructions of each label, in picoseconds, in the order
    /// of their ends.
    fn labels(&self) -> Vec<(String, u64, u64, u64)> {
        let mut labels: std::collections::BTreeMap<u32, (u64, Picos, Picos)> = std::collections::BTreeMap::new();
        let schedule = &self.timeline.schedule;
        for (at, time) in schedule.times.iter().enumerate() {
            let label = self.program().instructions[schedule.instances.instruction(at)].name;
            if label != 0 {
                let entry = labels.entry(label).or_insert((0, time.issue, time.end));
                *entry = (entry.0 + 1, entry.1.min(time.issue), entry.2.max(time.end));
            }
        }
        let names = &self.program().names;
        let row = |(label, (count, start, end)): (u32, (u64, Picos, Picos))| {
            (names[label as usize].clone(), count, start.0, end.0)
        };
        let mut rows: Vec<_> = labels.into_iter().map(row).collect();
        rows.sort_by_key(|row| (row.3, row.2));
        rows
    }

    /// Writes the timeline as a Perfetto trace; a file of that name is replaced in one step.
    fn write_perfetto(&self, py: Python<'_>, path: PathBuf) -> PyResult<()> {
        let mut temporary = path.clone().into_os_string();
        temporary.push(".part");
        let temporary = PathBuf::from(temporary);
        let write = || -> std::io::Result<()> {
            let mut out = BufWriter::new(File::create(&temporary)?);
            perfetto::write(&self.timeline.trace(self.program(), &self.target), &mut out)?;
            out.flush()?;
            std::fs::rename(&temporary, &path)
        };
        py.detach(write).map_err(|error| {
            // The half-written file is of no use to anybody; that it may not exist is fine.
            let _ = std::fs::remove_file(&temporary);
            PyOSError::new_err((error.raw_os_error().unwrap_or(0), format!("trace file {}: {error}", path.display())))
        })
    }
}
