//! `trn3._native.Timeline`: a Program in time.

use crate::errors;
use crate::program::Program;
use crate::tables::{self, Table};
use pyo3::exceptions::{PyIndexError, PyOSError, PyRuntimeError};
use pyo3::prelude::*;
use pyo3::types::{PyDict, PyList};
use std::borrow::Cow;
use std::fs::File;
use std::io::{BufWriter, Write};
use std::path::PathBuf;
use std::sync::Arc;
use trn3_mem::Violation;
use trn3_sim::Picos;
use trn3_spec::Target;
use trn3_system::perfetto;

/// A Program in time on one core.
#[pyclass(frozen, module = "trn3._native")]
pub(crate) struct Timeline {
    whole: Arc<trn3_program::Program>,
    core: usize,
    timeline: trn3_system::Timeline,
    peer: Option<Py<Timeline>>,
}

impl Timeline {
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
    /// ``turns`` says how often the dynamic loops of each core went round in a run; without it, that must follow from constants.
    #[new]
    #[pyo3(signature = (program, table, turns = None))]
    fn new(
        py: Python<'_>,
        program: &Bound<'_, Program>,
        table: &Bound<'_, Table>,
        turns: Option<Vec<Vec<u32>>>,
    ) -> PyResult<Timeline> {
        let whole = Arc::clone(&program.get().program);
        let target = hardware(py, &whole, table.get())?;
        let timelines = py.detach(|| {
            let paths: Option<Vec<_>> =
                turns.map(|turns| turns.into_iter().map(|turns| trn3_program::Path { turns }).collect());
            trn3_system::timelines(&whole, paths.as_deref(), &target)
        });
        let mut timelines = timelines.map_err(|error| PyRuntimeError::new_err(error.to_string()))?;
        let peer = if timelines.len() > 1 { timelines.pop() } else { None };
        let timeline = timelines.pop().expect("a Program has a core");
        let peer = peer
            .map(|timeline| Py::new(py, Timeline { whole: Arc::clone(&whole), core: 1, timeline, peer: None }))
            .transpose()?;
        Ok(Timeline { whole, core: 0, timeline, peer })
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
            for (cause, time) in &engine.stalls {
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

    /// A core's share of the peak HBM bandwidth, bytes/s.
    #[getter]
    fn hbm_bytes_per_s(&self) -> f64 {
        self.timeline.hbm_bytes_per_s
    }

    /// Issue, end and stall of an instruction, in picoseconds.
    fn instruction(&self, number: usize) -> PyResult<(u64, u64, u64)> {
        let time = self.timeline.schedule.times.get(number);
        let time = time.ok_or_else(|| PyIndexError::new_err(format!("no instruction {number}")))?;
        Ok((time.issue.0, time.end.0, time.stall.0))
    }

    /// ``(file, line, instructions, busy picoseconds)`` of each source line, longest first.
    fn lines(&self) -> Vec<(String, u32, u64, u64)> {
        let mut lines: std::collections::BTreeMap<u32, (u64, Picos)> = std::collections::BTreeMap::new();
        let schedule = &self.timeline.schedule;
        for (at, time) in schedule.times.iter().enumerate() {
            let instruction = &self.program().instructions[schedule.instances.instruction(at)];
            let entry = lines.entry(instruction.line).or_insert((0, Picos::ZERO));
            entry.0 += 1;
            entry.1 += time.end - time.issue;
        }
        let mut rows: Vec<_> = lines
            .into_iter()
            .map(|(line, (count, busy))| {
                let (file, line) = self.program().location(line).unwrap_or(("<unknown>", 0));
                (file.to_string(), line, count, busy.0)
            })
            .collect();
        rows.sort_by(|a, b| b.3.cmp(&a.3).then_with(|| (&a.0, a.1).cmp(&(&b.0, b.1))));
        rows
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
            perfetto::write(&self.timeline.trace(self.program()), &mut out)?;
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
