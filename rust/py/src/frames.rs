//! The user's line: the innermost Python frame that is not one of trn3's own.
#![allow(unsafe_code)]

use pyo3::ffi;
use pyo3::prelude::*;
use std::collections::HashMap;

/// What is known of a code object.
struct Code {
    /// Keeps the address from being used again.
    _object: Py<PyAny>,
    /// The file's number for the recorder, or none for trn3's own code.
    file: Option<u32>,
}

/// Files by code object.
#[derive(Default)]
pub(crate) struct Frames {
    codes: HashMap<usize, Code>,
    files: HashMap<String, u32>,
}

impl Frames {
    /// File number and line of the user's innermost frame; `add_file` gives a new file its number.
    pub(crate) fn user_line(
        &mut self,
        py: Python<'_>,
        mut add_file: impl FnMut(&str) -> u32,
    ) -> PyResult<Option<(u32, u32)>> {
        // SAFETY: the interpreter is attached; the call gives a borrowed reference or null.
        let frame = unsafe { Bound::from_borrowed_ptr_or_opt(py, ffi::PyEval_GetFrame().cast()) };
        let mut next = frame;
        while let Some(frame) = next {
            let pointer = frame.as_ptr().cast::<ffi::PyFrameObject>();
            // SAFETY: `frame` is a frame object that we hold a reference to; the call gives a new reference.
            let code = unsafe { Bound::from_owned_ptr(py, ffi::PyFrame_GetCode(pointer).cast()) };
            let key = code.as_ptr() as usize;
            let file = match self.codes.get(&key) {
                Some(known) => known.file,
                None => {
                    let name: String = code.getattr("co_filename")?.extract()?;
                    let file = (!is_internal(py, &name)?)
                        .then(|| *self.files.entry(name).or_insert_with_key(|name| add_file(name)));
                    self.codes.insert(key, Code { _object: code.unbind(), file });
                    file
                }
            };
            if let Some(file) = file {
                // SAFETY: as above; the call reads the frame only.
                let line = unsafe { ffi::PyFrame_GetLineNumber(pointer) };
                return Ok(Some((file, u32::try_from(line).unwrap_or(0))));
            }
            let back = frame.getattr("f_back")?;
            next = (!back.is_none()).then_some(back);
        }
        Ok(None)
    }
}

/// Whether a file belongs to the package itself; its kernels and its demo count as users.
fn is_internal(py: Python<'_>, name: &str) -> PyResult<bool> {
    static PREFIX: pyo3::sync::PyOnceLock<String> = pyo3::sync::PyOnceLock::new();
    let prefix = PREFIX.get_or_try_init(py, || -> PyResult<String> {
        let file: String = py.import("trn3.nki")?.getattr("__file__")?.extract()?;
        Ok(file.trim_end_matches("__init__.py").to_string())
    })?;
    Ok(name.starts_with(prefix.as_str()))
}
