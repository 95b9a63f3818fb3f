//! `trn3._native.Recorder`: one kernel being recorded.

use crate::arguments::argument;
use crate::arrays::HostArray;
use crate::constants;
use crate::errors;
use crate::frames::Frames;
use crate::program::{Program, interruptible};
use crate::register::VirtualRegister;
use crate::tables::Table;
use crate::tensor::Tensor;
use pyo3::exceptions::{PyRuntimeError, PyTypeError, PyValueError};
use pyo3::prelude::*;
use pyo3::sync::MutexExt;
use pyo3::types::{PyList, PyTuple};
use std::collections::BTreeSet;
use std::sync::{Arc, Mutex, MutexGuard};
use trn3_isa::{Argument, Opcode, RecordOptions, Strictness, Uninitialized};
use trn3_mem::{Bytes, HostBytes, Role, TensorId, View, Violation};
use trn3_program::{Bound as LoopBound, Builder, FillValue, Line, TensorRequest};
use trn3_spec::Target;
use trn3_system::{Code, Interpreter, RunError, RunOptions};

struct Inner {
    /// None once the recording has ended.
    builder: Option<Builder>,
    frames: Frames,
    /// Runs the kernel while it is recorded, from the first time that a value is asked for.
    interpreter: Option<Interpreter>,
    /// Arrays of the inputs, for such a run.
    arrays: Vec<(TensorId, Py<PyAny>)>,
    eager: bool,
    /// How such a run rounds.
    options: RunOptions,
}

/// Records one kernel; made by ``trn3.nki``.
#[pyclass(frozen, module = "trn3._native")]
pub(crate) struct Recorder {
    inner: Mutex<Inner>,
}

/// An error about a kernel rather than an instruction of it, at the user's line.
fn out_of_scope(py: Python<'_>, instruction: &'static str, value: &str, limit: &str) -> PyErr {
    let violation =
        Violation::new("kernel.scope", "tensor", value, limit, "pass arrays to a kernel, and return what it makes")
            .in_instruction(instruction);
    located(py, &violation)
}

/// An error at the user's line, where no recorder can be asked for it.
fn located(py: Python<'_>, violation: &Violation) -> PyErr {
    let mut file = String::new();
    let place = Frames::default().user_line(py, |name| {
        file = name.to_string();
        0
    });
    match place {
        Ok(place) => errors::violation(py, violation, place.map(|(_, line)| (file.as_str(), line))),
        Err(error) => error,
    }
}

fn ended(py: Python<'_>) -> PyErr {
    out_of_scope(
        py,
        "tensor",
        "belongs to a kernel that has ended",
        "the tensors of a kernel live while it is recorded",
    )
}

pub(crate) fn foreign(py: Python<'_>, instruction: &'static str) -> PyErr {
    out_of_scope(
        py,
        instruction,
        "belongs to another kernel",
        "the tensors of an instruction belong to the kernel being recorded",
    )
}

/// Whether every tensor of an argument belongs to the recorder.
fn belongs(object: &Bound<'_, PyAny>, recorder: &Py<Recorder>) -> bool {
    let is_own = |object: &Bound<'_, PyAny>| recorder_of(object).is_none_or(|own| own.is(recorder));
    if object.is_instance_of::<PyList>() || object.is_instance_of::<PyTuple>() {
        return object.try_iter().is_ok_and(|mut items| items.all(|item| item.is_ok_and(|item| is_own(&item))));
    }
    is_own(object)
}

/// The recorder that a tensor or a register belongs to.
fn recorder_of<'a>(object: &'a Bound<'_, PyAny>) -> Option<&'a Py<Recorder>> {
    if let Ok(tensor) = object.cast::<Tensor>() {
        return Some(&tensor.get().recorder);
    }
    object.cast::<VirtualRegister>().ok().map(|register| &register.get().recorder)
}

/// A bound of a counted loop.
fn bound(py: Python<'_>, object: &Bound<'_, PyAny>, recorder: &Bound<'_, Recorder>) -> PyResult<LoopBound> {
    if let Ok(register) = object.cast::<VirtualRegister>() {
        if !register.get().recorder.is(recorder) {
            return Err(foreign(py, "loop"));
        }
        return Ok(LoopBound::Register(register.get().register.number));
    }
    let value = object.extract::<i64>().ok().and_then(|value| i32::try_from(value).ok());
    value.map(LoopBound::Constant).ok_or_else(|| {
        let violation = Violation::new(
            "loop.bound",
            "bound",
            format!("is {}", object.repr().map_or_else(|_| "something else".into(), |text| text.to_string())),
            "an int of 32 bits with sign, or a register",
            "give an int or a register",
        )
        .in_instruction("loop");
        located(py, &violation)
    })
}

impl Recorder {
    /// A register that holds the one element of a tile, loaded here.
    pub(crate) fn loaded(slf: &Py<Recorder>, py: Python<'_>, view: &View) -> PyResult<u32> {
        let mut inner = slf.get().lock(py);
        let line = inner.line(py)?;
        let builder = inner.builder(py)?;
        let register = builder.register();
        let arguments = [Argument::Register(register), Argument::View(Box::new(view.clone()))];
        match builder.emit(Opcode::RegisterLoad, &arguments, "", line) {
            Ok(()) => Ok(register.number),
            Err(violation) => Err(inner.raise(py, &violation, line)),
        }
    }

    /// The state; other threads that wait for it let go of the interpreter meanwhile.
    fn lock(&self, py: Python<'_>) -> MutexGuard<'_, Inner> {
        // A panic while recording is our bug; what it left behind is no worse than before it.
        self.inner.lock_py_attached(py).unwrap_or_else(std::sync::PoisonError::into_inner)
    }

    /// The user's file and line.
    pub(crate) fn here(&self, py: Python<'_>) -> PyResult<(String, u32)> {
        let mut inner = self.lock(py);
        let line = inner.line(py)?;
        let builder = inner.builder.as_ref().ok_or_else(|| ended(py))?;
        let (file, line) = builder.location(line);
        Ok((file.to_string(), line))
    }

    /// The name of a tensor.
    pub(crate) fn tensor_name(&self, py: Python<'_>, tensor: TensorId) -> String {
        self.lock(py).builder.as_ref().map_or_else(String::new, |builder| builder.tensor_info(tensor).name.clone())
    }

    /// Whether a tensor is an argument of the kernel.
    pub(crate) fn is_input(&self, py: Python<'_>, tensor: TensorId) -> bool {
        let inner = self.lock(py);
        let info = inner.builder.as_ref().map(|builder| builder.tensor_info(tensor));
        info.is_some_and(|info| matches!(info.role, Role::Input(_)))
    }

    /// Whether values can still be read.
    pub(crate) fn can_read(&self, py: Python<'_>) -> bool {
        self.lock(py).builder.is_some()
    }

    /// The values of a view, after running the kernel so far.
    pub(crate) fn read<'py>(&self, py: Python<'py>, view: &View) -> PyResult<Bound<'py, PyAny>> {
        let mut inner = self.lock(py);
        inner.run(py)?;
        let interpreter = inner.interpreter.as_ref().expect("the run made it");
        let tile = interpreter.memory.tile(view);
        let mut bytes = vec![0u8; tile.geometry.elements() * view.dtype.size_bytes()];
        tile.read_bytes(0, &mut bytes);
        drop(inner);
        let numpy = py.import("numpy")?;
        let shape = PyTuple::new(py, view.dims.iter().map(|dim| dim.count))?;
        let flat = numpy.call_method1("frombuffer", (pyo3::types::PyByteArray::new(py, &bytes), "u1"))?;
        let typed = flat.call_method1("view", (constants::dtype_object(py, view.dtype)?,))?;
        typed.call_method1("reshape", (shape,))
    }
}

impl Inner {
    fn builder(&mut self, py: Python<'_>) -> PyResult<&mut Builder> {
        self.builder.as_mut().ok_or_else(|| ended(py))
    }

    /// The number of the user's line.
    fn line(&mut self, py: Python<'_>) -> PyResult<u32> {
        let builder = self.builder.as_mut().ok_or_else(|| ended(py))?;
        let place = self.frames.user_line(py, |name| builder.file(name))?;
        let (file, line) = place.unwrap_or((0, 0));
        Ok(builder.line(Line { file, line }))
    }

    fn raise(&self, py: Python<'_>, violation: &Violation, line: u32) -> PyErr {
        match &self.builder {
            Some(builder) => errors::violation(py, violation, Some(builder.location(line))),
            None => errors::violation(py, violation, None),
        }
    }

    /// Executes what was recorded and not executed yet.
    fn run(&mut self, py: Python<'_>) -> PyResult<()> {
        let builder = self.builder.as_ref().ok_or_else(|| ended(py))?;
        if builder.options().cores > 1 {
            let violation = Violation::new(
                "cores.value",
                "value",
                "of the device was asked for while a kernel of two cores is recorded",
                "the cores run once both are recorded",
                "launch on one core to look at values",
            )
            .in_instruction("tensor");
            return Err(located(py, &violation));
        }
        if let Some(begun) = builder.open_loop_line() {
            let violation = Violation::new(
                "loop.value",
                "value",
                format!("of the device was asked for inside the dynamic loop of line {}", begun.line),
                "the body is recorded once, before it runs",
                "ask for values outside of dynamic loops, or use a Python range",
            )
            .in_instruction("tensor");
            return Err(located(py, &violation));
        }
        let interpreter = self.interpreter.get_or_insert_with(|| Interpreter::new(self.options));
        let tables = builder.tables();
        for id in interpreter.memory.tensors()..tables.tensors.len() {
            let info = &tables.tensors[id];
            let id = TensorId(id as u32);
            let bytes = match info.role {
                Role::Input(_) => {
                    let array = self.arrays.iter().find(|(tensor, _)| *tensor == id).map(|(_, array)| array);
                    let array = array.ok_or_else(|| PyRuntimeError::new_err("an input has no array"))?;
                    Bytes::Host(Box::new(HostArray::new(array.bind(py))?))
                }
                _ => Bytes::Owned(trn3_mem::Slab::zeroed(info.bytes() as usize)),
            };
            let slab = interpreter.memory.add_bytes(bytes);
            interpreter.memory.place(slab);
            match info.role {
                Role::Constant(number) => {
                    interpreter.memory.bytes_mut(id).copy_from_slice(builder.constant(number));
                }
                Role::Internal => {
                    // Later instructions may read what none has written: every tensor starts as poison.
                    let size = info.dtype.size_bytes();
                    let element = FillValue::Poison.element(info.dtype, builder.options().uninitialized.integer());
                    let bytes = interpreter.memory.bytes_mut(id);
                    bytes.chunks_exact_mut(size).for_each(|chunk| chunk.copy_from_slice(&element[..size]));
                }
                Role::Input(_) => {}
            }
        }
        let fills: Vec<_> = builder.fills().iter().filter(|fill| fill.value != FillValue::Poison).cloned().collect();
        let code = Code { tables, instructions: builder.instructions(), loops: builder.loops(), fills: &fills };
        let outcome = interruptible(py, |interrupt| interpreter.advance(code, interrupt))?;
        match outcome {
            Ok(_) => Ok(()),
            Err(RunError::Instruction { violation, line, .. }) => Err(self.raise(py, &violation, line)),
            Err(error) => Err(PyRuntimeError::new_err(error.to_string())),
        }
    }

    fn tensor(&mut self, py: Python<'_>, slf: Py<Recorder>, request: &TensorRequest<'_>) -> PyResult<Tensor> {
        match self.builder(py)?.tensor(request) {
            Ok(view) => Ok(Tensor { view, recorder: slf }),
            Err(violation) => Err(self.raise(py, &violation, request.line)),
        }
    }
}

/// The tensors that a kernel returns, and a copy for each that the Program carries; no loop may be open.
fn returned(recorder: &Bound<'_, Recorder>, outputs: &[Bound<'_, Tensor>]) -> PyResult<Vec<TensorId>> {
    let py = recorder.py();
    if outputs.iter().any(|output| !output.get().recorder.is(recorder)) {
        return Err(foreign(py, "return"));
    }
    let mut inner = recorder.get().lock(py);
    if let Some(begun) = inner.builder(py)?.open_loop_line() {
        let violation = Violation::new(
            "loop.unclosed",
            "loop",
            format!("of line {} was left before its end", begun.line),
            "the device runs the whole body in every turn",
            "leave the loop at its end only, without break or return",
        )
        .in_instruction("loop");
        let line = inner.builder(py)?.line(begun);
        return Err(inner.raise(py, &violation, line));
    }
    let ids = outputs.iter().map(|output| output.get().view.tensor);
    ids.map(|id| inner.builder(py)?.output_of(id).map_err(|violation| errors::violation(py, &violation, None)))
        .collect()
}

/// The exception for a recording that cannot end.
fn refusal(py: Python<'_>, refused: &trn3_program::PairError) -> PyErr {
    let (finding, file, line) = &**refused;
    errors::violation(py, &finding.violation, Some((file, *line)))
}

/// A name for as long as the process lives; the same name is kept once.
fn interned(name: &str) -> &'static str {
    static NAMES: Mutex<BTreeSet<&'static str>> = Mutex::new(BTreeSet::new());
    let mut names = NAMES.lock().unwrap_or_else(std::sync::PoisonError::into_inner);
    if let Some(known) = names.get(name) {
        return known;
    }
    let kept: &'static str = name.to_string().leak();
    names.insert(kept);
    kept
}

/// A count of a shape; one beyond 64 bits is as impossible as the largest of 64 bits.
fn count(item: &Bound<'_, PyAny>) -> PyResult<i64> {
    item.extract().or_else(|error: PyErr| {
        let beyond = error.is_instance_of::<pyo3::exceptions::PyOverflowError>(item.py());
        if beyond { Ok(i64::MAX) } else { Err(error) }
    })
}

/// Partition and byte of an address; beyond 64 bits is as far beyond any memory as the most that 64 bits hold.
fn address_of(py: Python<'_>, given: &Bound<'_, PyAny>) -> PyResult<(i64, i64)> {
    let part = |item: PyResult<Bound<'_, PyAny>>| -> PyResult<i64> {
        let item = item?;
        if item.is_instance_of::<pyo3::types::PyBool>() { Err(PyTypeError::new_err("a bool")) } else { count(&item) }
    };
    let parts = given.try_iter().and_then(|items| items.map(part).collect::<PyResult<Vec<_>>>());
    match parts.as_deref() {
        Ok(&[partition, byte]) => Ok((partition, byte)),
        _ => {
            let value = format!("is {}", given.repr()?);
            let limit = "must be (partition, byte), two integers";
            let violation = Violation::new("tensor.address", "address", value, limit, "give both, or leave it out");
            Err(located(py, &violation.in_instruction("ndarray")))
        }
    }
}

#[pymethods]
impl Recorder {
    #[new]
    #[pyo3(signature = (kernel, table, checks = "lenient", nki_version = 6, eager = false, seed = 0, stochastic_rounding = false, uninitialized = "poison", spill = "hbm", cores = 1))]
    #[allow(clippy::too_many_arguments)]
    fn new(
        kernel: &str,
        table: &Bound<'_, Table>,
        checks: &str,
        nki_version: u8,
        eager: bool,
        seed: u64,
        stochastic_rounding: bool,
        uninitialized: &str,
        spill: &str,
        cores: u8,
    ) -> PyResult<Recorder> {
        let checks = Strictness::from_name(checks).ok_or_else(|| {
            PyValueError::new_err(format!("checks: '{checks}' is none of lenient, documented, hardware"))
        })?;
        let uninitialized = Uninitialized::from_name(uninitialized).ok_or_else(|| {
            PyValueError::new_err(format!("uninitialized: '{uninitialized}' is none of poison, simulator, stop"))
        })?;
        let spills = match spill {
            "hbm" => true,
            "error" => false,
            _ => return Err(PyValueError::new_err(format!("spill: '{spill}' is none of hbm, error"))),
        };
        let options = RecordOptions { checks, nki_version, uninitialized, cores, spills };
        let builder = Builder::new(kernel, Target::from_table(&table.get().table), options);
        let inner = Inner {
            builder: Some(builder),
            frames: Frames::default(),
            interpreter: None,
            arrays: Vec::new(),
            eager,
            options: RunOptions { seed, stochastic_rounding, checks, uninitialized },
        };
        Ok(Recorder { inner: Mutex::new(inner) })
    }

    /// Declares an argument of the kernel.
    fn input(
        slf: &Bound<'_, Self>,
        name: &str,
        dtype: &Bound<'_, PyAny>,
        array: &Bound<'_, PyAny>,
    ) -> PyResult<Tensor> {
        let dtype = constants::dtype(dtype)?;
        let shape: Vec<i64> = array.getattr("shape")?.extract()?;
        let mut inner = slf.get().lock(slf.py());
        let number = inner.arrays.len() as u32;
        let request = TensorRequest {
            name,
            shape: &shape,
            dtype,
            space: trn3_mem::Space::SharedHbm,
            role: Role::Input(number),
            ..TensorRequest::default()
        };
        let tensor = inner.tensor(slf.py(), slf.clone().unbind(), &request)?;
        inner.arrays.push((tensor.view.tensor, array.clone().unbind()));
        Ok(tensor)
    }

    /// Declares a tensor.
    #[pyo3(signature = (shape, dtype, buffer, name, address = None))]
    fn tensor(
        slf: &Bound<'_, Self>,
        shape: &Bound<'_, PyAny>,
        dtype: &Bound<'_, PyAny>,
        buffer: &Bound<'_, PyAny>,
        name: &str,
        address: Option<&Bound<'_, PyAny>>,
    ) -> PyResult<Tensor> {
        let shape: Vec<i64> = match shape.extract::<i64>() {
            Ok(one) => vec![one],
            Err(_) => shape.try_iter()?.map(|item| count(&item?)).collect::<PyResult<_>>()?,
        };
        let (dtype, space) = (constants::dtype(dtype)?, constants::space(buffer)?);
        let mut inner = slf.get().lock(slf.py());
        let line = inner.line(slf.py())?;
        let address = address.map(|given| address_of(slf.py(), given)).transpose()?;
        let request = TensorRequest { name, shape: &shape, dtype, space, address, line, ..TensorRequest::default() };
        inner.tensor(slf.py(), slf.clone().unbind(), &request)
    }

    /// Declares a tensor whose values the Program carries.
    fn constant(
        slf: &Bound<'_, Self>,
        name: &str,
        dtype: &Bound<'_, PyAny>,
        array: &Bound<'_, PyAny>,
    ) -> PyResult<Tensor> {
        let dtype = constants::dtype(dtype)?;
        let shape: Vec<i64> = array.getattr("shape")?.extract()?;
        let bytes = HostArray::new(array)?.bytes().to_vec();
        let mut inner = slf.get().lock(slf.py());
        let line = inner.line(slf.py())?;
        let made = inner.builder(slf.py())?.constant_tensor(name, &shape, dtype, bytes, line);
        match made {
            Ok(view) => Ok(Tensor { view, recorder: slf.clone().unbind() }),
            Err(violation) => Err(inner.raise(slf.py(), &violation, line)),
        }
    }

    /// Notes that Python code does what the device would not: a finding, and an error from ``hardware`` on.
    #[allow(clippy::too_many_arguments)]
    fn deviation(
        &self,
        py: Python<'_>,
        instruction: &str,
        rule: &str,
        operand: &str,
        value: &str,
        limit: &str,
        fix: &str,
    ) -> PyResult<()> {
        let mut inner = self.lock(py);
        let line = inner.line(py)?;
        let violation = Violation::new(interned(rule), operand.to_string(), value, limit, fix.to_string())
            .in_instruction(interned(instruction));
        match inner.builder(py)?.report(Strictness::Hardware, violation, line) {
            Ok(()) => Ok(()),
            Err(violation) => Err(inner.raise(py, &violation, line)),
        }
    }

    /// Number of dynamic loops so far.
    #[getter]
    fn loops(&self, py: Python<'_>) -> usize {
        self.lock(py).builder.as_ref().map_or(0, |builder| builder.loops().len())
    }

    /// A new register, with a first value if one is given.
    #[pyo3(signature = (value = None))]
    fn register(slf: &Bound<'_, Self>, value: Option<&Bound<'_, PyAny>>) -> PyResult<VirtualRegister> {
        let py = slf.py();
        let mut inner = slf.get().lock(py);
        let line = inner.line(py)?;
        let builder = inner.builder(py)?;
        let register = builder.register();
        if let Some(value) = value {
            let arguments = [Argument::Register(register), argument(value)?];
            if let Err(violation) = builder.emit(Opcode::RegisterMove, &arguments, "", line) {
                return Err(inner.raise(py, &violation.in_instruction("register_alloc"), line));
            }
        }
        Ok(VirtualRegister { register, recorder: slf.clone().unbind() })
    }

    /// Opens a counted loop and gives the register that counts.
    fn open_count(
        slf: &Bound<'_, Self>,
        start: &Bound<'_, PyAny>,
        stop: &Bound<'_, PyAny>,
        step: u32,
    ) -> PyResult<VirtualRegister> {
        let py = slf.py();
        let (start, stop) = (bound(py, start, slf)?, bound(py, stop, slf)?);
        let mut inner = slf.get().lock(py);
        let line = inner.line(py)?;
        match inner.builder(py)?.open_count(start, stop, step, line) {
            Ok(register) => Ok(VirtualRegister { register, recorder: slf.clone().unbind() }),
            Err(violation) => Err(inner.raise(py, &violation, line)),
        }
    }

    /// Opens a loop that runs as long as a register is not 0.
    fn open_while(&self, py: Python<'_>, condition: &Bound<'_, VirtualRegister>) -> PyResult<()> {
        let mut inner = self.lock(py);
        let line = inner.line(py)?;
        match inner.builder(py)?.open_while(condition.get().register, line) {
            Ok(()) => Ok(()),
            Err(violation) => Err(inner.raise(py, &violation, line)),
        }
    }

    /// Closes the innermost open loop.
    fn close_loop(&self, py: Python<'_>) -> PyResult<()> {
        let mut inner = self.lock(py);
        let line = inner.line(py)?;
        let builder = inner.builder(py)?;
        builder.close_loop(line);
        let outermost = !builder.in_loop();
        if inner.eager && outermost { inner.run(py) } else { Ok(()) }
    }

    /// Asks for the values so far: runs the kernel until here.
    fn run(&self, py: Python<'_>) -> PyResult<()> {
        self.lock(py).run(py)
    }

    /// Whether Python has asked for a value of the device.
    #[getter]
    fn specialised(&self, py: Python<'_>) -> bool {
        let inner = self.lock(py);
        inner.interpreter.is_some() && !inner.eager
    }

    /// Number of instructions so far.
    #[getter]
    fn instructions(&self, py: Python<'_>) -> usize {
        self.lock(py).builder.as_ref().map_or(0, |builder| builder.instructions().len())
    }

    /// Ends the recording and gives the Program.
    fn finish(slf: &Bound<'_, Self>, py: Python<'_>, outputs: Vec<Bound<'_, Tensor>>) -> PyResult<Program> {
        let ids = returned(slf, &outputs)?;
        let mut inner = slf.get().lock(py);
        if inner.interpreter.is_some() {
            inner.run(py)?;
        }
        let specialised = inner.interpreter.is_some() && !inner.eager;
        let builder = inner.builder.take().ok_or_else(|| ended(py))?;
        let program = builder.finish(&ids, specialised).map_err(|refused| refusal(py, &refused))?;
        let ran = inner.interpreter.take();
        Ok(Program::new(Arc::new(program), ran))
    }

    /// Ends the recordings of both cores of a logical core and gives their Program.
    #[staticmethod]
    fn finish_pair(
        py: Python<'_>,
        first: &Bound<'_, Self>,
        second: &Bound<'_, Self>,
        outputs: (Vec<Bound<'_, Tensor>>, Vec<Bound<'_, Tensor>>),
    ) -> PyResult<Program> {
        let (ours, theirs) = (returned(first, &outputs.0)?, returned(second, &outputs.1)?);
        let builder = |recorder: &Bound<'_, Self>| recorder.get().lock(py).builder.take().ok_or_else(|| ended(py));
        let builders = [builder(first)?, builder(second)?];
        let program = Builder::finish_pair(builders, [&ours, &theirs]).map_err(|refused| refusal(py, &refused))?;
        Ok(Program::new(Arc::new(program), None))
    }

    /// Stops the recording; its tensors can no longer be used.
    fn abandon(&self, py: Python<'_>) {
        let mut inner = self.lock(py);
        inner.builder = None;
        inner.interpreter = None;
        inner.arrays.clear();
    }
}

/// Records an instruction: its code, its label, its arguments in their documented order.
#[pyfunction]
#[pyo3(signature = (code, name, *arguments))]
pub(crate) fn emit(py: Python<'_>, code: u8, name: Option<&str>, arguments: &Bound<'_, PyTuple>) -> PyResult<()> {
    let opcode = Opcode::from_code(code).ok_or_else(|| PyValueError::new_err("no such instruction"))?;
    let mut recorder: Option<Py<Recorder>> = None;
    let mut converted = Vec::with_capacity(arguments.len());
    let mut foreign_operator = None;
    for item in arguments.iter_borrowed() {
        if recorder.is_none()
            && let Some(own) = recorder_of(&item)
        {
            recorder = Some(own.clone_ref(py));
        }
        let argument = argument(&item)?;
        if let Argument::Operator(operator) = &argument
            && item.get_type().name()? == "ufunc"
        {
            foreign_operator = Some(operator.clone());
        }
        converted.push(argument);
    }
    let Some(recorder) = recorder else {
        let definition = opcode.definition();
        let violation = Violation::new(
            "argument.type",
            "dst",
            "is no tensor",
            "must be a tensor of the kernel",
            "see the instruction's reference",
        )
        .in_instruction(definition.name);
        return Err(located(py, &violation));
    };
    if !arguments.iter_borrowed().all(|item| belongs(&item, &recorder)) {
        return Err(foreign(py, opcode.definition().name));
    }
    let mut inner = recorder.get().lock(py);
    let line = inner.line(py)?;
    let builder = inner.builder(py)?;
    let mut outcome = Ok(());
    if let Some(operator) = foreign_operator {
        let violation = Violation::new(
            "argument.ufunc",
            "op",
            format!("is numpy.{operator}"),
            "an operator of nki.language",
            "use the function of that name in nl",
        )
        .in_instruction(opcode.definition().name);
        outcome = builder.report(Strictness::Hardware, violation, line);
    }
    let outcome = outcome.and_then(|()| builder.emit(opcode, &converted, name.unwrap_or(""), line));
    if let Err(violation) = outcome {
        return Err(inner.raise(py, &violation, line));
    }
    let in_loop = inner.builder.as_ref().is_some_and(Builder::in_loop);
    if inner.eager && !in_loop { inner.run(py) } else { Ok(()) }
}
