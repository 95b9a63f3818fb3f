//! The extension module `trn3._native`: conversion between Python and the core, nothing else.

use pyo3::prelude::*;

mod codec;

/// The native core of trn3.
#[pymodule]
fn _native(m: &Bound<'_, PyModule>) -> PyResult<()> {
    codec::register(m)?;
    Ok(())
}
