//! Violations and file errors as the exceptions of `trn3.errors`.

use pyo3::prelude::*;
use pyo3::types::{PyDict, PyType};
use trn3_mem::{Fault, Violation};
use trn3_program::{FileError, StoredFinding};

/// The exception class of that name.
pub(crate) fn class<'py>(py: Python<'py>, name: &str) -> PyResult<Bound<'py, PyType>> {
    Ok(py.import("trn3.errors")?.getattr(name)?.cast_into::<PyType>()?)
}

fn class_of(fault: Fault) -> &'static str {
    match fault {
        Fault::Rule => "RuleError",
        Fault::Capacity => "CapacityError",
        Fault::Unsupported => "UnsupportedError",
        Fault::Unimplemented => "UnimplementedError",
        Fault::Unspecified => "UnspecifiedError",
        Fault::Uninitialized => "UninitializedReadError",
        Fault::Deadlock => "DeadlockError",
        Fault::Race => "RaceError",
    }
}

/// The exception for a violation at `file:line`.
pub(crate) fn violation(py: Python<'_>, violation: &Violation, location: Option<(&str, u32)>) -> PyErr {
    let build = || -> PyResult<PyErr> {
        let keywords = PyDict::new(py);
        keywords.set_item("instruction", violation.instruction)?;
        keywords.set_item("operand", violation.operand.as_ref())?;
        keywords.set_item("value", &violation.value)?;
        keywords.set_item("limit", &violation.limit)?;
        keywords.set_item("rule", violation.rule)?;
        keywords.set_item("fix", violation.fix.as_ref())?;
        if let Some((file, line)) = location.filter(|(_, line)| *line > 0) {
            keywords.set_item("where", format!("{file}:{line}"))?;
        }
        let arguments = (violation.to_string(),);
        Ok(PyErr::from_value(class(py, class_of(violation.fault))?.call(arguments, Some(&keywords))?))
    };
    build().unwrap_or_else(|error| error)
}

/// The exception for a file that is no Program.
pub(crate) fn file(py: Python<'_>, error: &FileError) -> PyErr {
    if let FileError::Io { source, .. } = error
        && let Some(code) = source.raw_os_error()
    {
        return pyo3::exceptions::PyOSError::new_err((code, error.to_string()));
    }
    match class(py, "FileFormatError").and_then(|class| class.call1((error.to_string(),))) {
        Ok(value) => PyErr::from_value(value),
        Err(error) => error,
    }
}

/// A finding as a dict: rule, instruction, operand, value, limit, fix, message, file, line.
pub(crate) fn finding<'py>(
    py: Python<'py>,
    finding: &StoredFinding,
    location: (&str, u32),
) -> PyResult<Bound<'py, PyDict>> {
    let dict = PyDict::new(py);
    dict.set_item("rule", &finding.rule)?;
    dict.set_item("instruction", &finding.instruction)?;
    dict.set_item("operand", &finding.operand)?;
    dict.set_item("value", &finding.value)?;
    dict.set_item("limit", &finding.limit)?;
    dict.set_item("fix", &finding.fix)?;
    dict.set_item("message", &finding.message)?;
    dict.set_item("file", location.0)?;
    dict.set_item("line", location.1)?;
    Ok(dict)
}
