//! The instruction table, for the generators of `nki/isa.py` and of the reference pages.

use pyo3::prelude::*;
use pyo3::types::{PyDict, PyList};
use trn3_isa::{Exactness, Opcode, Rule, SHARED_RULES, Use};

fn rules<'py>(py: Python<'py>, rules: &[Rule]) -> PyResult<Bound<'py, PyList>> {
    let list = PyList::empty(py);
    for rule in rules {
        let dict = PyDict::new(py);
        dict.set_item("id", rule.id)?;
        dict.set_item("text", rule.text)?;
        dict.set_item("source", rule.source)?;
        dict.set_item("fix", rule.fix)?;
        list.append(dict)?;
    }
    Ok(list)
}

/// Every instruction: name, code, doc, source, engines, parameters, rules, how exact its values are.
#[pyfunction]
fn instruction_table(py: Python<'_>) -> PyResult<Bound<'_, PyList>> {
    let table = PyList::empty(py);
    for &opcode in Opcode::ALL {
        let definition = opcode.definition();
        if definition.kind == trn3_isa::Kind::Loop {
            // Made by the recorder, not called.
            continue;
        }
        let entry = PyDict::new(py);
        entry.set_item("name", definition.name)?;
        entry.set_item("code", opcode as u8)?;
        entry.set_item("doc", definition.doc)?;
        entry.set_item("source", definition.source)?;
        entry.set_item("engines", definition.engines.iter().map(|engine| engine.name()).collect::<Vec<_>>())?;
        entry.set_item(
            "values",
            match definition.exactness {
                Exactness::BitExact => "bit-exact by a public rule",
                Exactness::Modelled => "modelled where the public documents leave something open",
            },
        )?;
        let parameters = PyList::empty(py);
        for parameter in definition.parameters {
            let item = PyDict::new(py);
            item.set_item("name", parameter.name)?;
            item.set_item("default", parameter.default)?;
            item.set_item("doc", parameter.doc)?;
            item.set_item(
                "usage",
                match parameter.usage {
                    Use::Read => "read",
                    Use::Write => "write",
                    Use::VectorOperand => "vector operand",
                    Use::Constant => "constant",
                },
            )?;
            parameters.append(item)?;
        }
        entry.set_item("parameters", parameters)?;
        entry.set_item("rules", rules(py, definition.rules)?)?;
        table.append(entry)?;
    }
    Ok(table)
}

/// The rules that several instructions share.
#[pyfunction]
fn shared_rules(py: Python<'_>) -> PyResult<Bound<'_, PyList>> {
    rules(py, SHARED_RULES)
}

/// Adds this module's functions to `_native`.
pub(crate) fn register(m: &Bound<'_, PyModule>) -> PyResult<()> {
    m.add_function(wrap_pyfunction!(instruction_table, m)?)?;
    m.add_function(wrap_pyfunction!(shared_rules, m)?)?;
    Ok(())
}
