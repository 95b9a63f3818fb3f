//! Python objects as arguments of an instruction.

use crate::constants;
use crate::register::VirtualRegister;
use crate::tensor::Tensor;
use pyo3::prelude::*;
use pyo3::types::{PyBool, PyFloat, PyInt, PyList, PyString, PyTuple};
use trn3_isa::Argument;

/// Lists within lists that any instruction takes; a list may also hold itself.
const DEPTH_MAX: u32 = 3;

/// The argument that an object stands for.
pub(crate) fn argument(object: &Bound<'_, PyAny>) -> PyResult<Argument> {
    nested(object, 0)
}

fn nested(object: &Bound<'_, PyAny>, depth: u32) -> PyResult<Argument> {
    if let Ok(tensor) = object.cast::<Tensor>() {
        return Ok(Argument::View(Box::new(tensor.get().view.clone())));
    }
    if object.is_none() {
        return Ok(Argument::None);
    }
    if let Ok(register) = object.cast::<VirtualRegister>() {
        return Ok(Argument::Register(register.get().register));
    }
    if let Ok(value) = object.cast_exact::<PyBool>() {
        return Ok(Argument::Bool(value.is_true()));
    }
    if object.is_exact_instance_of::<PyInt>() {
        return Ok(object.extract().map_or_else(|_| Argument::Other("int beyond 64 bits".into()), Argument::Int));
    }
    if object.is_exact_instance_of::<PyFloat>() {
        return Ok(Argument::Float(object.extract()?));
    }
    if let Ok(text) = object.cast::<PyString>() {
        return Ok(Argument::Text(text.to_string()));
    }
    let is_list = object.is_instance_of::<PyTuple>() || object.is_instance_of::<PyList>();
    if is_list && depth < DEPTH_MAX {
        let items = object.try_iter()?.map(|item| nested(&item?, depth + 1));
        return Ok(Argument::List(items.collect::<PyResult<_>>()?));
    }
    if let Some(dtype) = constants::known_dtype(object) {
        return Ok(Argument::Dtype(dtype));
    }
    other(object)
}

/// Members of enumerations, functions, and what converts to a number.
fn other(object: &Bound<'_, PyAny>) -> PyResult<Argument> {
    let kind = object.get_type();
    if object.hasattr("_value_")? && object.hasattr("name")? {
        let name: String = object.getattr("name")?.extract()?;
        return Ok(Argument::Member(kind.name()?.to_string(), name.trim_end_matches('_').to_string()));
    }
    if object.is_callable()
        && let Ok(name) = object.getattr("__name__")
    {
        return Ok(Argument::Operator(name.extract()?));
    }
    // Arrays have these methods too, and refuse to convert unless they hold one value.
    if object.hasattr("__index__")?
        && let Ok(value) = object.extract()
    {
        return Ok(Argument::Int(value));
    }
    let is_array = object.hasattr("shape")?;
    let is_scalar =
        object.hasattr("dtype")? && object.getattr("ndim").and_then(|rank| rank.extract::<usize>()).ok() == Some(0);
    if object.hasattr("__float__")?
        && (!is_array || is_scalar)
        && let Ok(value) = object.extract()
    {
        return Ok(Argument::Float(value));
    }
    Ok(Argument::Other(kind.name()?.to_string()))
}
