//! `trn3._native.VirtualRegister`: a register of the sequencers, as kernels handle it.

use crate::recorder::Recorder;
use pyo3::exceptions::PyTypeError;
use pyo3::prelude::*;
use pyo3::pyclass::CompareOp;
use trn3_isa::Register;

/// A scalar that the device holds while the kernel runs; made by ``nisa.register_alloc``, or by a dynamic loop.
#[pyclass(frozen, module = "trn3.nki", name = "VirtualRegister")]
pub(crate) struct VirtualRegister {
    pub(crate) register: Register,
    pub(crate) recorder: Py<Recorder>,
}

fn unknown(what: &str) -> PyErr {
    PyTypeError::new_err(format!(
        "{what}: the value of a register is not known while the kernel is recorded; use nl.dynamic_range, nl.fori_loop, \
         nl.while_loop or `while register:`, and .ap(scalar_offset=register) [register.value_unknown]"
    ))
}

fn arithmetic() -> PyErr {
    PyTypeError::new_err(
        "arithmetic: registers of the sequencers do not compute; nisa.register_store it to a (1, 1) tile, compute there, \
         and nisa.register_load the result; in an index, .ap(offset=constant, scalar_offset=register) adds the two \
         [register.arithmetic]",
    )
}

#[pymethods]
impl VirtualRegister {
    /// Number of the register within its kernel.
    #[getter]
    fn _number(&self) -> u32 {
        self.register.number
    }

    /// The recorder of the kernel that the register belongs to.
    #[getter]
    fn _recorder(&self, py: Python<'_>) -> Py<Recorder> {
        self.recorder.clone_ref(py)
    }

    /// Opens or closes a dynamic loop, if this is the test of a ``while``.
    fn __bool__(slf: &Bound<'_, Self>) -> PyResult<bool> {
        slf.py().import("trn3.nki._loops")?.call_method1("test", (slf,))?.extract()
    }

    fn __int__(&self) -> PyResult<i64> {
        Err(unknown("int"))
    }

    fn __index__(&self) -> PyResult<i64> {
        Err(unknown("index"))
    }

    fn __float__(&self) -> PyResult<f64> {
        Err(unknown("float"))
    }

    fn __richcmp__(&self, _other: &Bound<'_, PyAny>, _operator: CompareOp) -> PyResult<bool> {
        Err(unknown("comparison"))
    }

    fn __hash__(&self) -> u64 {
        u64::from(self.register.number)
    }

    fn __add__(&self, _other: &Bound<'_, PyAny>) -> PyResult<i64> {
        Err(arithmetic())
    }

    fn __radd__(&self, _other: &Bound<'_, PyAny>) -> PyResult<i64> {
        Err(arithmetic())
    }

    fn __sub__(&self, _other: &Bound<'_, PyAny>) -> PyResult<i64> {
        Err(arithmetic())
    }

    fn __rsub__(&self, _other: &Bound<'_, PyAny>) -> PyResult<i64> {
        Err(arithmetic())
    }

    fn __mul__(&self, _other: &Bound<'_, PyAny>) -> PyResult<i64> {
        Err(arithmetic())
    }

    fn __rmul__(&self, _other: &Bound<'_, PyAny>) -> PyResult<i64> {
        Err(arithmetic())
    }

    fn __floordiv__(&self, _other: &Bound<'_, PyAny>) -> PyResult<i64> {
        Err(arithmetic())
    }

    fn __mod__(&self, _other: &Bound<'_, PyAny>) -> PyResult<i64> {
        Err(arithmetic())
    }

    fn __neg__(&self) -> PyResult<i64> {
        Err(arithmetic())
    }

    fn __repr__(&self) -> String {
        format!("<register {}>", self.register.number)
    }
}
