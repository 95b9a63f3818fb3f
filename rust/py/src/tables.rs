//! Hardware tables for `trn3.spec`.

use pyo3::exceptions::PyTypeError;
use pyo3::prelude::*;
use pyo3::types::{PyBool, PyDict, PyFloat, PyInt, PyList, PyString, PyTuple};
use trn3_spec::{Conflict, Entry, SpecError, Target, Value};

/// A hardware table and its typed view.
#[pyclass(frozen, module = "trn3._native", name = "Table")]
pub(crate) struct Table {
    /// The entries.
    pub(crate) table: trn3_spec::Table,
    /// The typed view, built once.
    pub(crate) target: Target,
}

/// Adds the class `Table` to `_native`.
pub(crate) fn register(m: &Bound<'_, PyModule>) -> PyResult<()> {
    m.add_class::<Table>()
}

#[pymethods]
impl Table {
    /// The table of that name, or the one in the file of that path.
    #[staticmethod]
    fn load(py: Python<'_>, name_or_path: &str) -> PyResult<Table> {
        finish(py, trn3_spec::Table::load(name_or_path))
    }

    /// The names of the tables that come with the package.
    #[staticmethod]
    fn builtin_names() -> Vec<&'static str> {
        trn3_spec::Table::builtin_names()
    }

    #[getter]
    fn name(&self) -> &str {
        self.table.name()
    }

    #[getter]
    fn title(&self) -> &str {
        self.table.title()
    }

    #[getter]
    fn file(&self) -> &str {
        self.table.file()
    }

    /// The documents that sources name, and where they are.
    fn documents<'py>(&self, py: Python<'py>) -> PyResult<Bound<'py, PyDict>> {
        let documents = PyDict::new(py);
        for (name, place) in self.table.documents() {
            documents.set_item(name, place)?;
        }
        Ok(documents)
    }

    /// All keys, grouped by part of the hardware.
    fn keys(&self) -> Vec<&str> {
        self.table.entries().iter().map(|entry| entry.key.as_str()).collect()
    }

    /// The entry of that key as a dict.
    fn entry<'py>(&self, py: Python<'py>, key: &str) -> PyResult<Bound<'py, PyDict>> {
        let entry = self.table.entry(key).map_err(|error| raised(py, &error))?;
        entry_dict(py, entry)
    }

    /// All entries as dicts.
    fn entries<'py>(&self, py: Python<'py>) -> PyResult<Bound<'py, PyList>> {
        let entries = PyList::empty(py);
        for entry in self.table.entries() {
            entries.append(entry_dict(py, entry)?)?;
        }
        Ok(entries)
    }

    /// The keys whose values differ: pairs of dicts, `None` where a table lacks the key.
    fn diff<'py>(&self, py: Python<'py>, other: &Table) -> PyResult<Bound<'py, PyList>> {
        let pairs = PyList::empty(py);
        for pair in self.table.diff(&other.table) {
            let left = pair.left.map(|entry| entry_dict(py, entry)).transpose()?;
            let right = pair.right.map(|entry| entry_dict(py, entry)).transpose()?;
            pairs.append((left, right))?;
        }
        Ok(pairs)
    }

    /// A table with the values of that dict in place of its own.
    fn with_overrides(&self, py: Python<'_>, overrides: &Bound<'_, PyDict>) -> PyResult<Table> {
        let mut values = Vec::with_capacity(overrides.len());
        for (key, value) in overrides {
            let key = key.extract::<String>().map_err(|_| PyTypeError::new_err("overrides: keys must be str"))?;
            let value = value_from(&key, &value)?;
            values.push((key, value));
        }
        let values = values.iter().map(|(key, value)| (key.as_str(), value.clone()));
        finish(py, self.table.with_overrides(values))
    }

    /// The values that were set in place of the table's, by key.
    fn overrides<'py>(&self, py: Python<'py>) -> PyResult<Bound<'py, PyDict>> {
        values_dict(py, self.table.overrides())
    }

    /// The constants of `nki.language.tile_size`.
    fn tile_sizes<'py>(&self, py: Python<'py>) -> PyResult<Bound<'py, PyDict>> {
        let sizes = self.target.tile_sizes();
        let constants = PyDict::new(py);
        constants.set_item("pmax", sizes.pmax)?;
        constants.set_item("psum_fmax", sizes.psum_fmax)?;
        constants.set_item("psum_bank_fmax", sizes.psum_bank_fmax)?;
        constants.set_item("psum_bank_fmax_bytes", sizes.psum_bank_fmax_bytes)?;
        constants.set_item("psum_num_banks", sizes.psum_num_banks)?;
        constants.set_item("psum_num_banks_transpose", sizes.psum_num_banks_transpose)?;
        constants.set_item("psum_min_align", sizes.psum_min_align)?;
        constants.set_item("gemm_stationary_fmax", sizes.gemm_stationary_fmax)?;
        constants.set_item("gemm_moving_fmax", sizes.gemm_moving_fmax)?;
        constants.set_item("bn_stats_fmax", sizes.bn_stats_fmax)?;
        constants.set_item("sbuf_size_bytes", sizes.sbuf_size_bytes)?;
        constants.set_item("sbuf_fmax", sizes.sbuf_fmax)?;
        constants.set_item("sbuf_fmax_bytes", sizes.sbuf_fmax_bytes)?;
        constants.set_item("sbuf_min_align", sizes.sbuf_min_align)?;
        constants.set_item("total_available_sbuf_size", sizes.total_available_sbuf_size)?;
        Ok(constants)
    }

    /// Peak rates of one NeuronCore's array in FLOP/s; `None` where the array has no such rate.
    fn peaks<'py>(&self, py: Python<'py>) -> PyResult<Bound<'py, PyDict>> {
        let rates = self.target.peaks();
        let peaks = PyDict::new(py);
        peaks.set_item("bf16_flops_per_s", rates.bf16_flops_per_s)?;
        peaks.set_item("fp32_flops_per_s", rates.fp32_flops_per_s)?;
        peaks.set_item("fp8_flops_per_s", rates.fp8_flops_per_s)?;
        peaks.set_item("mx_flops_per_s", rates.mx_flops_per_s)?;
        peaks.set_item("sparse_flops_per_s", rates.sparse_flops_per_s)?;
        Ok(peaks)
    }
}

fn finish(py: Python<'_>, table: Result<trn3_spec::Table, SpecError>) -> PyResult<Table> {
    let table = table.map_err(|error| raised(py, &error))?;
    let target = Target::from_table(&table);
    Ok(Table { table, target })
}

/// Values by key.
pub(crate) fn values_dict<'py, 'v>(
    py: Python<'py>,
    values: impl Iterator<Item = (&'v str, &'v Value)>,
) -> PyResult<Bound<'py, PyDict>> {
    let dict = PyDict::new(py);
    for (key, value) in values {
        dict.set_item(key, value_to(py, value)?)?;
    }
    Ok(dict)
}

/// The Python exception for an error; `trn3.errors` is imported here, when something is raised.
pub(crate) fn raised(py: Python<'_>, error: &SpecError) -> PyErr {
    let exception = || {
        let class = py.import("trn3.errors")?.getattr("SpecError")?;
        let parts = PyDict::new(py);
        parts.set_item("rule", error.rule())?;
        class.call((error.to_string(),), Some(&parts))
    };
    exception().map_or_else(|failure| failure, PyErr::from_value)
}

fn entry_dict<'py>(py: Python<'py>, entry: &Entry) -> PyResult<Bound<'py, PyDict>> {
    let conflicts = PyList::empty(py);
    for conflict in &entry.conflicts {
        conflicts.append(conflict_dict(py, conflict)?)?;
    }
    let replaced = match &entry.replaced {
        Some((value, status)) => Some((value_to(py, value)?, status.name())),
        None => None,
    };
    let dict = PyDict::new(py);
    dict.set_item("key", &entry.key)?;
    dict.set_item("value", value_to(py, &entry.value)?)?;
    dict.set_item("unit", &entry.unit)?;
    dict.set_item("status", entry.status.name())?;
    dict.set_item("source", &entry.source)?;
    dict.set_item("range", entry.range.map(|[low, high]| (low, high)))?;
    dict.set_item("is_outside_range", entry.is_outside_range())?;
    dict.set_item("note", entry.note.as_deref())?;
    dict.set_item("conflicts", conflicts)?;
    dict.set_item("replaced", replaced)?;
    Ok(dict)
}

fn conflict_dict<'py>(py: Python<'py>, conflict: &Conflict) -> PyResult<Bound<'py, PyDict>> {
    let dict = PyDict::new(py);
    dict.set_item("id", conflict.id.as_deref())?;
    dict.set_item("value", value_to(py, &conflict.value)?)?;
    dict.set_item("source", &conflict.source)?;
    dict.set_item("why", &conflict.why)?;
    Ok(dict)
}

/// int, float, bool, str, `fractions.Fraction`, or a list of int or str.
fn value_to<'py>(py: Python<'py>, value: &Value) -> PyResult<Bound<'py, PyAny>> {
    match value {
        Value::Integer(value) => Ok(value.into_pyobject(py)?.into_any()),
        Value::Float(value) => Ok(value.into_pyobject(py)?.into_any()),
        Value::Bool(value) => Ok(PyBool::new(py, *value).to_owned().into_any()),
        Value::Text(value) => Ok(PyString::new(py, value).into_any()),
        Value::Ratio(value) => py.import("fractions")?.getattr("Fraction")?.call1((value.numerator, value.denominator)),
        Value::Integers(values) => Ok(PyList::new(py, values)?.into_any()),
        Value::Texts(values) => Ok(PyList::new(py, values)?.into_any()),
    }
}

/// The reverse, for overrides. NumPy's numbers pass as the Python numbers they stand for.
fn value_from(key: &str, value: &Bound<'_, PyAny>) -> PyResult<Value> {
    if let Ok(value) = value.extract::<bool>() {
        return Ok(Value::Bool(value));
    }
    if !value.is_instance_of::<PyFloat>()
        && let Ok(value) = value.extract::<i64>()
    {
        return Ok(Value::Integer(value));
    }
    if let Ok(value) = value.extract::<String>() {
        return Ok(Value::Text(value));
    }
    let plain = value.is_instance_of::<PyInt>() || value.is_instance_of::<PyFloat>();
    if !plain && value.hasattr("numerator")? && value.hasattr("denominator")? {
        return Ok(Value::Text(value.str()?.to_string()));
    }
    if let Ok(value) = value.extract::<f64>() {
        return Ok(Value::Float(value));
    }
    if value.is_instance_of::<PyList>() || value.is_instance_of::<PyTuple>() {
        if let Ok(values) = value.extract::<Vec<i64>>() {
            return Ok(Value::Integers(values));
        }
        if let Ok(values) = value.extract::<Vec<String>>() {
            return Ok(Value::Texts(values));
        }
    }
    let kind = value.get_type().name()?;
    Err(PyTypeError::new_err(format!(
        "overrides: {key}: {kind} is no number, fraction, bool, str or list of int or str"
    )))
}
