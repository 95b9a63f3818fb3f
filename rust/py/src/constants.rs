//! Python objects that stand for data types and buffers, registered once by `trn3.nki`.

use pyo3::exceptions::{PyRuntimeError, PyTypeError};
use pyo3::prelude::*;
use pyo3::sync::PyOnceLock;
use pyo3::types::{PyList, PyString};
use trn3_mem::Space;
use trn3_num::Dtype;

/// `numpy.dtype` objects, in the order of [`Dtype::ALL`].
static DTYPES: PyOnceLock<Vec<Py<PyAny>>> = PyOnceLock::new();
/// Members of `MemoryRegion`, in the order of [`SPACES`], then the region of a kernel's arguments.
static BUFFERS: PyOnceLock<Vec<Py<PyAny>>> = PyOnceLock::new();

const SPACES: [Space; 4] = [Space::Sbuf, Space::Psum, Space::PrivateHbm, Space::SharedHbm];

/// Registers the objects; later calls do nothing.
#[pyfunction]
fn set_objects(py: Python<'_>, dtypes: Vec<Py<PyAny>>, buffers: Vec<Py<PyAny>>) -> PyResult<()> {
    if dtypes.len() != Dtype::ALL.len() || buffers.len() != SPACES.len() + 1 {
        return Err(PyRuntimeError::new_err("trn3._native: wrong number of dtype or buffer objects"));
    }
    // A second import finds the first one's objects, which are the same.
    let _ = DTYPES.set(py, dtypes);
    let _ = BUFFERS.set(py, buffers);
    Ok(())
}

/// Names of all data types, in the order of their codes.
#[pyfunction]
fn dtype_names(py: Python<'_>) -> PyResult<Bound<'_, PyList>> {
    PyList::new(py, Dtype::ALL.map(Dtype::name))
}

/// Names of all buffers, in the order of their codes.
#[pyfunction]
fn buffer_names(py: Python<'_>) -> PyResult<Bound<'_, PyList>> {
    PyList::new(py, SPACES.map(Space::name))
}

/// The object of a data type.
pub(crate) fn dtype_object(py: Python<'_>, dtype: Dtype) -> PyResult<Py<PyAny>> {
    let objects = DTYPES.get(py).ok_or_else(|| PyRuntimeError::new_err("import trn3.nki first"))?;
    Ok(objects[dtype as usize].clone_ref(py))
}

/// The object of a buffer.
pub(crate) fn buffer_object(py: Python<'_>, space: Space) -> PyResult<Py<PyAny>> {
    let objects = BUFFERS.get(py).ok_or_else(|| PyRuntimeError::new_err("import trn3.nki first"))?;
    let at = SPACES.iter().position(|&known| known == space).unwrap_or(0);
    Ok(objects[at].clone_ref(py))
}

/// The object of the buffer that a kernel's arguments are in.
pub(crate) fn argument_buffer(py: Python<'_>) -> PyResult<Py<PyAny>> {
    let objects = BUFFERS.get(py).ok_or_else(|| PyRuntimeError::new_err("import trn3.nki first"))?;
    Ok(objects[SPACES.len()].clone_ref(py))
}

/// The data type that a registered object stands for.
pub(crate) fn known_dtype(object: &Bound<'_, PyAny>) -> Option<Dtype> {
    let objects = DTYPES.get(object.py())?;
    let at = objects.iter().position(|known| known.is(object))?;
    Dtype::from_code(at as u8)
}

/// The data type that an object names, by identity or through `trn3.dtypes`.
pub(crate) fn dtype(object: &Bound<'_, PyAny>) -> PyResult<Dtype> {
    if let Some(dtype) = known_dtype(object) {
        return Ok(dtype);
    }
    let name = object.py().import("trn3.dtypes")?.call_method1("name", (object,))?;
    let name = name.cast::<PyString>()?.to_string();
    Dtype::from_name(&name).ok_or_else(|| PyTypeError::new_err(format!("{name} is not a data type of the NeuronCore")))
}

/// The space that a buffer object or a name stands for.
pub(crate) fn space(object: &Bound<'_, PyAny>) -> PyResult<Space> {
    if let Some(objects) = BUFFERS.get(object.py())
        && let Some(at) = objects.iter().position(|known| known.is(object))
    {
        return Ok(SPACES.get(at).copied().unwrap_or(Space::SharedHbm));
    }
    let name = match object.cast::<PyString>() {
        Ok(name) => name.to_string(),
        Err(_) => object.getattr("value").and_then(|value| value.extract::<String>()).unwrap_or_default(),
    };
    Space::from_name(&name).ok_or_else(|| {
        PyTypeError::new_err(format!(
            "buffer: {object} is none of nl.sbuf, nl.psum, nl.private_hbm (nl.hbm), nl.shared_hbm"
        ))
    })
}

/// Adds this module's functions to `_native`.
pub(crate) fn register(m: &Bound<'_, PyModule>) -> PyResult<()> {
    m.add_function(wrap_pyfunction!(set_objects, m)?)?;
    m.add_function(wrap_pyfunction!(dtype_names, m)?)?;
    m.add_function(wrap_pyfunction!(buffer_names, m)?)?;
    Ok(())
}
