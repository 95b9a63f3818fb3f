//! The extension module `trn3._native`: conversion between Python and the core, nothing else.
//!
//! `unsafe` stands in four places: `frames`, which asks the interpreter for the caller's line, `arrays`, which lends
//! NumPy's memory to a run, `codec::user_dtype`, which registers data types with NumPy, and one call in `tensor` that
//! unpacks a slice object.

use pyo3::prelude::*;

mod analysis;
mod arguments;
mod arrays;
mod codec;
mod constants;
mod errors;
mod frames;
mod program;
mod recorder;
mod register;
mod table;
mod tables;
mod tensor;
mod timeline;

/// The native core of trn3.
#[pymodule]
fn _native(m: &Bound<'_, PyModule>) -> PyResult<()> {
    codec::register(m)?;
    tables::register(m)?;
    constants::register(m)?;
    table::register(m)?;
    m.add_function(wrap_pyfunction!(recorder::emit, m)?)?;
    m.add_class::<tensor::Tensor>()?;
    m.add_class::<recorder::Recorder>()?;
    m.add_class::<register::VirtualRegister>()?;
    m.add_class::<program::Program>()?;
    m.add_class::<timeline::Timeline>()?;
    Ok(())
}
