//! `trn3._native.Program`: a finished Program, to be run and stored.

use crate::arrays::HostArray;
use crate::constants;
use crate::errors;
use crate::tables;
use pyo3::exceptions::{PyRuntimeError, PyValueError};
use pyo3::prelude::*;
use pyo3::types::{PyDict, PyList, PyTuple};
use std::path::PathBuf;
use std::sync::{Arc, Mutex, MutexGuard};
use trn3_isa::Strictness;
use trn3_mem::{Bytes, Role, TensorId};
use trn3_program::StoredFinding;
use trn3_system::{Cores, Interpreter, Interrupt, RunError, RunOptions};

/// What a run found, and how often the dynamic loops of each core went round.
type Outcome = (Vec<Py<PyAny>>, Vec<Vec<u32>>);

/// A recorded kernel.
#[pyclass(frozen, module = "trn3._native")]
pub(crate) struct Program {
    pub(crate) program: Arc<trn3_program::Program>,
    state: Mutex<State>,
}

#[derive(Default)]
struct State {
    /// Memory of the last run, used again.
    cores: Option<Cores>,
    /// What ran while the kernel was recorded, if anything did.
    ran: Option<Cores>,
}

/// Runs `work` without the interpreter lock; a signal that raises stops it, and its exception is the error.
pub(crate) fn interruptible<R: Send>(py: Python<'_>, work: impl FnOnce(Interrupt<'_>) -> R + Send) -> PyResult<R> {
    let mut raised: Option<PyErr> = None;
    let result = py.detach(|| {
        let mut interrupt = || {
            Python::attach(|py| match py.check_signals() {
                Ok(()) => false,
                Err(error) => {
                    raised = Some(error);
                    true
                }
            })
        };
        work(&mut interrupt)
    });
    match raised {
        Some(error) => Err(error),
        None => Ok(result),
    }
}

fn turns_of(cores: &Cores) -> Vec<Vec<u32>> {
    cores.paths().into_iter().map(|path| path.turns).collect()
}

impl Program {
    pub(crate) fn new(program: Arc<trn3_program::Program>, ran: Option<Interpreter>) -> Program {
        Program { program, state: Mutex::new(State { cores: None, ran: ran.map(Cores::of) }) }
    }

    /// A Program that depends on the values it was recorded with is not used again.
    fn refuse_specialised(&self, py: Python<'_>, call: &'static str) -> PyResult<()> {
        if !self.program.specialised {
            return Ok(());
        }
        let violation = trn3_mem::Violation::new(
            "program.specialised",
            self.program.kernel.clone(),
            "was recorded with values of the device that Python read",
            "it holds for those inputs only",
            "call the kernel again, or record it without reading device values",
        )
        .in_instruction(call);
        Err(errors::violation(py, &violation, None))
    }

    /// The Program of one of its cores.
    fn core(&self, number: usize) -> PyResult<&trn3_program::Program> {
        self.program.cores().nth(number).ok_or_else(|| PyValueError::new_err(format!("no core {number}")))
    }

    /// The state; never held while Python code may run.
    fn state(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(std::sync::PoisonError::into_inner)
    }

    fn describe<'py>(&self, py: Python<'py>, tensors: &[TensorId]) -> PyResult<Bound<'py, PyList>> {
        let list = PyList::empty(py);
        for tensor in tensors {
            let info = &self.program.tensors[tensor.index()];
            let shape = PyTuple::new(py, info.shape.iter().copied())?;
            list.append((info.name.as_str(), shape, constants::dtype_object(py, info.dtype)?))?;
        }
        Ok(list)
    }

    /// What a run found: deviations that the data showed, and what unwritten bytes reached an output, as findings or an
    /// error.
    fn check_outputs(&self, py: Python<'_>, cores: &Cores, checks: Strictness) -> PyResult<Vec<Py<PyAny>>> {
        let mut found: Vec<(StoredFinding, (&str, u32))> = Vec::new();
        for (number, program) in self.program.cores().enumerate() {
            let located = |finding: &trn3_isa::Finding| {
                (StoredFinding::from(finding), program.location(finding.line).unwrap_or(("<unknown>", 0)))
            };
            let of_taints = self.check_taints(py, cores.core(0), program, checks)?;
            for finding in cores.core(number).findings().iter().chain(&of_taints).map(located) {
                // Both cores run the same lines: what both find is said once.
                let is_known =
                    |known: &(StoredFinding, (&str, u32))| known.0.message == finding.0.message && known.1 == finding.1;
                if number == 0 || !found.iter().any(is_known) {
                    found.push(finding);
                }
            }
        }
        let dict = |(finding, location): &(StoredFinding, (&str, u32))| {
            errors::finding(py, finding, *location).map(|dict| dict.into_any().unbind())
        };
        found.iter().map(dict).collect()
    }

    /// The same for what one core knows of its outputs; their bytes are with the first core.
    fn check_taints(
        &self,
        py: Python<'_>,
        interpreter: &Interpreter,
        program: &trn3_program::Program,
        checks: Strictness,
    ) -> PyResult<Vec<trn3_isa::Finding>> {
        let mut found = Vec::new();
        let outputs = self.program.outputs.iter().zip(&program.taints);
        for (output, taint) in outputs {
            let Some(taint) = taint else { continue };
            let info = &self.program.tensors[output.index()];
            let shows = info.dtype.is_float() && taint.shows_as_nan;
            if shows && !interpreter.holds_nan(*output, info.dtype) {
                continue;
            }
            // Without a NaN to see, a float output may have got what was read, or only passed it by.
            let certain = shows || !info.dtype.is_float();
            let source = &program.tensors[taint.tensor.index()].name;
            let violation = trn3_mem::Violation::new(
                "uninitialized.output",
                source.clone(),
                "was read where nothing had written it",
                format!("and output {} {} what that read gave", info.name, if certain { "holds" } else { "may hold" }),
                "write the tile before it is read (memset, dma_copy)",
            )
            .of(trn3_mem::Fault::Uninitialized)
            .in_instruction("return");
            let location = program.location(taint.line);
            if certain && checks >= Strictness::Documented {
                return Err(errors::violation(py, &violation, location));
            }
            found.push(trn3_isa::Finding { violation, line: taint.line });
        }
        Ok(found)
    }
}

#[pymethods]
impl Program {
    /// Name of the kernel.
    #[getter]
    fn kernel(&self) -> &str {
        &self.program.kernel
    }

    /// Name of the hardware table it was recorded for.
    #[getter]
    fn target(&self) -> &str {
        &self.program.target
    }

    /// Values that were set in place of the table's, by key; running and timing the Program use them.
    #[getter]
    fn overrides<'py>(&self, py: Python<'py>) -> PyResult<Bound<'py, PyDict>> {
        tables::values_dict(py, self.program.overrides.iter().map(|(key, value)| (key.as_str(), value)))
    }

    /// Strictness it was recorded with.
    #[getter]
    fn checks(&self) -> &'static str {
        self.program.options.checks.name()
    }

    /// Whether Python read a device value while recording.
    #[getter]
    fn specialised(&self) -> bool {
        self.program.specialised
    }

    /// Number of cores that it runs on, 1 or 2.
    #[getter]
    fn cores(&self) -> usize {
        self.program.cores().count()
    }

    /// Number of instructions, of all cores.
    #[getter]
    fn instructions(&self) -> usize {
        self.program.cores().map(|core| core.instructions.len()).sum()
    }

    /// Number of dependencies.
    #[getter]
    fn dependencies(&self) -> usize {
        self.program.edges.count()
    }

    /// Bytes that the Program takes for each instruction.
    #[getter]
    fn bytes_per_instruction(&self) -> f64 {
        self.program.bytes_per_instruction()
    }

    /// ``(name, shape, dtype)`` of each input.
    #[getter]
    fn inputs<'py>(&self, py: Python<'py>) -> PyResult<Bound<'py, PyList>> {
        self.describe(py, &self.program.inputs)
    }

    /// ``(name, shape, dtype)`` of each output.
    #[getter]
    fn outputs<'py>(&self, py: Python<'py>) -> PyResult<Bound<'py, PyList>> {
        self.describe(py, &self.program.outputs)
    }

    /// For each output, the number of the input that it is, or None.
    #[getter]
    fn output_inputs(&self) -> Vec<Option<u32>> {
        let role = |output: &TensorId| match self.program.tensors[output.index()].role {
            Role::Input(number) => Some(number),
            _ => None,
        };
        self.program.outputs.iter().map(role).collect()
    }

    /// Numbers of the inputs that the kernel writes.
    #[getter]
    fn written_inputs(&self) -> Vec<u32> {
        let written = |program: &trn3_program::Program, number: usize| {
            let tensor = program.inputs[number];
            let writes = |instruction: &trn3_isa::Instruction| {
                instruction.written_operands().any(|operand| operand.tensor == tensor)
            };
            program.instructions.iter().any(writes)
        };
        let inputs = 0..self.program.inputs.len();
        inputs.filter(|&number| self.program.cores().any(|core| written(core, number))).map(|n| n as u32).collect()
    }

    /// Deviations from the documents, as dicts.
    #[getter]
    fn findings<'py>(&self, py: Python<'py>) -> PyResult<Bound<'py, PyList>> {
        let list = PyList::empty(py);
        // Both cores record the same lines: what both find is said once.
        let mut known: Vec<(&StoredFinding, (&str, u32))> = Vec::new();
        for program in self.program.cores() {
            for finding in &program.findings {
                let location = program.location(finding.line).unwrap_or(("<unknown>", 0));
                let same = |&(other, place): &(&StoredFinding, (&str, u32))| {
                    other.message == finding.message && place == location
                };
                if program.options.cores == 1 || !known.iter().any(same) {
                    known.push((finding, location));
                    list.append(errors::finding(py, finding, location)?)?;
                }
            }
        }
        Ok(list)
    }

    /// Instruction names of a core in program order.
    #[pyo3(signature = (core = 0))]
    fn opcodes(&self, core: usize) -> PyResult<Vec<&'static str>> {
        let instructions = &self.core(core)?.instructions;
        Ok(instructions.iter().map(|instruction| instruction.opcode.definition().name).collect())
    }

    /// Numbers of the instructions that an instruction of a core waits for.
    #[pyo3(signature = (instruction, core = 0))]
    fn producers(&self, instruction: usize, core: usize) -> PyResult<Vec<u32>> {
        let program = self.core(core)?;
        if instruction >= program.instructions.len() {
            return Err(PyValueError::new_err(format!("no instruction {instruction}")));
        }
        Ok(program.edges.producers(instruction).to_vec())
    }

    /// ``(name, buffer, address, shape, dtype, file, line)`` of each tensor of a core.
    #[pyo3(signature = (core = 0))]
    fn tensors<'py>(&self, py: Python<'py>, core: usize) -> PyResult<Bound<'py, PyList>> {
        let list = PyList::empty(py);
        let program = self.core(core)?;
        for (info, place) in program.tensors.iter().zip(&program.places) {
            let (file, line) = program.location(info.line).unwrap_or(("<unknown>", 0));
            let shape = PyTuple::new(py, info.shape.iter().copied())?;
            list.append((info.name.as_str(), info.space.name(), place.address, shape, info.dtype.name(), file, line))?;
        }
        Ok(list)
    }

    /// First and last instruction of each tensor of a core; None for those that no instruction touches.
    #[pyo3(signature = (core = 0))]
    fn lifetimes(&self, core: usize) -> PyResult<Vec<Option<(u32, u32)>>> {
        let lives = self.core(core)?.lifetimes();
        Ok(lives.into_iter().map(|life| life.map(|life| (life.first, life.last))).collect())
    }

    /// ``(tensor, bytes, file, line, file and line that needed the room, stores, reloads)`` of each tensor of a core that
    /// had no room in SBUF all the time.
    #[pyo3(signature = (core = 0))]
    fn spills<'py>(&self, py: Python<'py>, core: usize) -> PyResult<Bound<'py, PyList>> {
        let list = PyList::empty(py);
        let program = self.core(core)?;
        for spill in &program.spills {
            let info = &program.tensors[spill.tensor.index()];
            let place = |line| program.location(line).unwrap_or(("<unknown>", 0));
            let (stores, reloads) = (spill.stores.len(), spill.reloads.len());
            let (declared, needed) = (place(info.line), place(spill.needed_by));
            list.append((info.name.as_str(), info.bytes(), declared.0, declared.1, needed, stores, reloads))?;
        }
        Ok(list)
    }

    /// Computes the values: ``inputs`` are read (and written, where the kernel does), ``outputs`` are filled.
    ///
    /// Returns the findings of the run, and how often the dynamic loops of each core went round.
    #[pyo3(signature = (inputs, outputs, seed = 0, stochastic_rounding = false, checks = "lenient"))]
    fn run(
        &self,
        py: Python<'_>,
        inputs: Vec<Bound<'_, PyAny>>,
        outputs: Vec<Bound<'_, PyAny>>,
        seed: u64,
        stochastic_rounding: bool,
        checks: &str,
    ) -> PyResult<Outcome> {
        let program = &self.program;
        let checks = Strictness::from_name(checks).ok_or_else(|| {
            PyValueError::new_err(format!("checks: '{checks}' is none of lenient, documented, hardware"))
        })?;
        if inputs.len() != program.inputs.len() || outputs.len() != program.outputs.len() {
            return Err(PyValueError::new_err(format!(
                "run: {} inputs and {} outputs given, the program has {} and {}",
                inputs.len(),
                outputs.len(),
                program.inputs.len(),
                program.outputs.len()
            )));
        }
        self.refuse_specialised(py, "run")?;
        let options = RunOptions { seed, stochastic_rounding, checks, uninitialized: program.options.uninitialized };
        // Memory of an earlier run is taken out of the lock: a second thread that runs the same Program makes its own.
        let kept = self.state().cores.take();
        let mut cores = match kept {
            Some(mut cores) => {
                cores.reset(program, options);
                cores
            }
            None => Cores::for_program(program, options),
        };
        let mut lent: Vec<(u32, TensorId)> = Vec::new();
        let pairs = program.inputs.iter().zip(&inputs).chain(program.outputs.iter().zip(&outputs));
        for (tensor, array) in pairs {
            let info = &program.tensors[tensor.index()];
            let array = HostArray::new(array)?;
            let slab = program.places[tensor.index()].slab;
            if trn3_mem::HostBytes::bytes(&array).len() as u64 != info.bytes() {
                return Err(PyValueError::new_err(format!(
                    "run: {}: the array has {} bytes, the program was recorded for {} ({:?} {})",
                    info.name,
                    trn3_mem::HostBytes::bytes(&array).len(),
                    info.bytes(),
                    info.shape.as_slice(),
                    info.dtype.name()
                )));
            }
            if lent.iter().all(|&(known, _)| known != slab) {
                cores.lend(program, *tensor, Bytes::Host(Box::new(array)));
                lent.push((slab, *tensor));
            }
        }
        let outcome = interruptible(py, |interrupt| cores.run(program, interrupt));
        let findings = match outcome {
            Ok(Ok(())) => self.check_outputs(py, &cores, checks),
            Ok(Err(RunError::Instruction { violation, line, core })) => {
                Err(errors::violation(py, &violation, self.core(core)?.location(line)))
            }
            Ok(Err(error)) => Err(PyRuntimeError::new_err(error.to_string())),
            Err(error) => Err(error),
        };
        for (_, tensor) in lent {
            cores.lend(program, tensor, Bytes::Absent);
        }
        let turns = turns_of(&cores);
        self.state().cores = Some(cores);
        findings.map(|findings| (findings, turns))
    }

    /// Copies out what ran while the kernel was recorded; only once, and only if something did.
    fn take_recorded_run(&self, py: Python<'_>, outputs: Vec<Bound<'_, PyAny>>) -> PyResult<Option<Outcome>> {
        let ran = self.state().ran.take();
        let Some(ran) = ran else { return Ok(None) };
        for (tensor, array) in self.program.outputs.iter().zip(&outputs) {
            if matches!(self.program.tensors[tensor.index()].role, Role::Input(_)) {
                continue;
            }
            let mut array = HostArray::new(array)?;
            if let Some(bytes) = trn3_mem::HostBytes::bytes_mut(&mut array) {
                bytes.copy_from_slice(ran.core(0).memory.bytes(*tensor));
            }
        }
        let findings = self.check_outputs(py, &ran, self.program.options.checks)?;
        Ok(Some((findings, turns_of(&ran))))
    }

    /// Writes the Program to a file.
    fn save(&self, py: Python<'_>, path: PathBuf) -> PyResult<()> {
        self.refuse_specialised(py, "save")?;
        self.program.save(&path).map_err(|error| errors::file(py, &error))
    }

    /// Reads a Program from a file.
    #[staticmethod]
    fn load(py: Python<'_>, path: PathBuf) -> PyResult<Program> {
        match trn3_program::Program::load(&path) {
            Ok(program) => Ok(Program::new(Arc::new(program), None)),
            Err(error) => Err(errors::file(py, &error)),
        }
    }

    fn __repr__(&self) -> String {
        let overrides = self.program.overrides.iter().map(|(key, value)| format!("{key}={value}"));
        let overrides = overrides.collect::<Vec<_>>().join(", ");
        format!(
            "<Program {} for {}{}{overrides}: {} instructions>",
            self.program.kernel,
            self.program.target,
            if overrides.is_empty() { "" } else { " with " },
            self.program.instructions.len()
        )
    }
}
