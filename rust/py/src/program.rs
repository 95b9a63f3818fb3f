//! `trn3._native.Program`: a finished Program, to be run and stored.

use crate::arrays::HostArray;
use crate::constants;
use crate::errors;
use pyo3::exceptions::{PyRuntimeError, PyValueError};
use pyo3::prelude::*;
use pyo3::types::{PyList, PyTuple};
use std::path::PathBuf;
use std::sync::{Arc, Mutex, MutexGuard};
use trn3_isa::Strictness;
use trn3_mem::{Bytes, Role, TensorId};
use trn3_system::{Code, Interpreter, Interrupt, RunError, RunOptions};

/// What a run found, and how often each of its dynamic loops went round.
type Outcome = (Vec<Py<PyAny>>, Vec<u32>);

/// A recorded kernel.
#[pyclass(frozen, module = "trn3._native")]
pub(crate) struct Program {
    pub(crate) program: Arc<trn3_program::Program>,
    state: Mutex<State>,
}

#[derive(Default)]
struct State {
    /// Memory of the last run, used again.
    interpreter: Option<Interpreter>,
    /// What ran while the kernel was recorded, if anything did.
    ran: Option<Interpreter>,
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

impl Program {
    pub(crate) fn new(program: Arc<trn3_program::Program>, ran: Option<Interpreter>) -> Program {
        Program { program, state: Mutex::new(State { interpreter: None, ran }) }
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

    /// Reports what unwritten bytes reached an output, as findings or an error.
    fn check_outputs(&self, py: Python<'_>, interpreter: &Interpreter, checks: Strictness) -> PyResult<Vec<Py<PyAny>>> {
        let mut found = Vec::new();
        for (output, taint) in self.program.outputs.iter().zip(&self.program.taints) {
            let Some(taint) = taint else { continue };
            let info = &self.program.tensors[output.index()];
            let shows = info.dtype.is_float() && taint.shows_as_nan;
            if shows && !interpreter.holds_nan(*output, info.dtype) {
                continue;
            }
            // Without a NaN to see, a float output may have got what was read, or only passed it by.
            let certain = shows || !info.dtype.is_float();
            let source = &self.program.tensors[taint.tensor.index()].name;
            let violation = trn3_mem::Violation::new(
                "uninitialized.output",
                source.clone(),
                "was read where nothing had written it",
                format!("and output {} {} what that read gave", info.name, if certain { "holds" } else { "may hold" }),
                "write the tile before it is read (memset, dma_copy)",
            )
            .of(trn3_mem::Fault::Uninitialized)
            .in_instruction("return");
            let location = self.program.location(taint.line);
            if certain && checks >= Strictness::Documented {
                return Err(errors::violation(py, &violation, location));
            }
            let finding = trn3_isa::Finding { violation, line: taint.line };
            let stored = trn3_program::StoredFinding::from(&finding);
            found.push(errors::finding(py, &stored, location.unwrap_or(("<unknown>", 0)))?.into_any().unbind());
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

    /// Number of instructions.
    #[getter]
    fn instructions(&self) -> usize {
        self.program.instructions.len()
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
        let written = |tensor: &TensorId| {
            let writes = |instruction: &trn3_isa::Instruction| {
                instruction.written_operands().any(|operand| operand.tensor == *tensor)
            };
            self.program.instructions.iter().any(writes)
        };
        let inputs = self.program.inputs.iter().enumerate();
        inputs.filter(|(_, tensor)| written(tensor)).map(|(number, _)| number as u32).collect()
    }

    /// Deviations from the documents, as dicts.
    #[getter]
    fn findings<'py>(&self, py: Python<'py>) -> PyResult<Bound<'py, PyList>> {
        let list = PyList::empty(py);
        for finding in &self.program.findings {
            let location = self.program.location(finding.line).unwrap_or(("<unknown>", 0));
            list.append(errors::finding(py, finding, location)?)?;
        }
        Ok(list)
    }

    /// Instruction names in program order.
    fn opcodes(&self) -> Vec<&'static str> {
        self.program.instructions.iter().map(|instruction| instruction.opcode.definition().name).collect()
    }

    /// Numbers of the instructions that each one waits for.
    fn producers(&self, instruction: usize) -> PyResult<Vec<u32>> {
        if instruction >= self.program.instructions.len() {
            return Err(PyValueError::new_err(format!("no instruction {instruction}")));
        }
        Ok(self.program.edges.producers(instruction).to_vec())
    }

    /// ``(name, buffer, address, shape, dtype, file, line)`` of each tensor.
    fn tensors<'py>(&self, py: Python<'py>) -> PyResult<Bound<'py, PyList>> {
        let list = PyList::empty(py);
        for (info, place) in self.program.tensors.iter().zip(&self.program.places) {
            let (file, line) = self.program.location(info.line).unwrap_or(("<unknown>", 0));
            let shape = PyTuple::new(py, info.shape.iter().copied())?;
            list.append((info.name.as_str(), info.space.name(), place.address, shape, info.dtype.name(), file, line))?;
        }
        Ok(list)
    }

    /// Computes the values: ``inputs`` are read (and written, where the kernel does), ``outputs`` are filled.
    ///
    /// Returns the findings of the run, and how often each of its dynamic loops went round.
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
        let kept = self.state().interpreter.take();
        let mut interpreter = match kept {
            Some(mut interpreter) => {
                interpreter.reset(program, options);
                interpreter
            }
            None => Interpreter::for_program(program, options),
        };
        let mut lent: Vec<u32> = Vec::new();
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
            if !lent.contains(&slab) {
                interpreter.memory.replace(slab, Bytes::Host(Box::new(array)));
                lent.push(slab);
            }
        }
        let outcome = interruptible(py, |interrupt| interpreter.advance(Code::of(program), interrupt));
        let findings = match outcome {
            Ok(Ok(())) => self.check_outputs(py, &interpreter, checks),
            Ok(Err(RunError::Instruction { violation, line })) => {
                Err(errors::violation(py, &violation, program.location(line)))
            }
            Ok(Err(error)) => Err(PyRuntimeError::new_err(error.to_string())),
            Err(error) => Err(error),
        };
        for slab in lent {
            interpreter.memory.replace(slab, Bytes::Absent);
        }
        let turns = interpreter.path().turns.clone();
        self.state().interpreter = Some(interpreter);
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
                bytes.copy_from_slice(ran.memory.bytes(*tensor));
            }
        }
        let findings = self.check_outputs(py, &ran, self.program.options.checks)?;
        Ok(Some((findings, ran.path().turns.clone())))
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
        format!(
            "<Program {} for {}: {} instructions>",
            self.program.kernel,
            self.program.target,
            self.program.instructions.len()
        )
    }
}
