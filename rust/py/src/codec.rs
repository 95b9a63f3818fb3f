//! Formats and microscaling codecs for `trn3.dtypes` and `trn3.mx`.

use pyo3::prelude::*;

/// Adds this module's functions to `_native`.
pub(crate) fn register(_m: &Bound<'_, PyModule>) -> PyResult<()> {
    Ok(())
}
