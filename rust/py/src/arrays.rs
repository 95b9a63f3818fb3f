//! NumPy arrays as the memory of a run.
#![allow(unsafe_code)]

use numpy::{PyArrayDescrMethods, PyUntypedArray, PyUntypedArrayMethods};
use pyo3::exceptions::PyValueError;
use pyo3::prelude::*;
use trn3_mem::HostBytes;

/// The bytes of a C-contiguous array, kept alive for as long as this is.
pub(crate) struct HostArray {
    _array: Py<PyUntypedArray>,
    data: *mut u8,
    bytes: usize,
    writable: bool,
}

// SAFETY: the array object is only released, which `Py` does from any thread; the memory is plain bytes, and a run
// has exclusive use of it by contract: Python code that writes to an input while a kernel runs is a race of its own.
unsafe impl Send for HostArray {}

impl HostArray {
    /// Lends an array's memory.
    ///
    /// # Errors
    /// The array is not C-contiguous or not aligned.
    pub(crate) fn new(array: &Bound<'_, PyAny>) -> PyResult<HostArray> {
        let array = array.cast::<PyUntypedArray>()?;
        let item = array.dtype().itemsize();
        // SAFETY: the object is an array, whose head has the data pointer and the flags.
        let (data, flags) = unsafe {
            let head = array.as_array_ptr();
            ((*head).fields.data.cast::<u8>(), (*head).fields.flags)
        };
        if !array.is_c_contiguous() || !(data as usize).is_multiple_of(item.clamp(1, 4)) {
            return Err(PyValueError::new_err("the array's memory is not C-contiguous and aligned"));
        }
        let writable = flags & numpy::npyffi::NPY_ARRAY_WRITEABLE != 0;
        Ok(HostArray { _array: array.clone().unbind(), data, bytes: array.len() * item, writable })
    }
}

impl HostBytes for HostArray {
    fn bytes(&self) -> &[u8] {
        if self.bytes == 0 {
            return &[];
        }
        // SAFETY: the array owns `bytes` bytes at `data` for as long as `_array` lives, which is as long as `self`.
        unsafe { std::slice::from_raw_parts(self.data, self.bytes) }
    }

    fn bytes_mut(&mut self) -> Option<&mut [u8]> {
        if !self.writable || self.bytes == 0 {
            return None;
        }
        // SAFETY: as above, and NumPy says that the memory may be written.
        Some(unsafe { std::slice::from_raw_parts_mut(self.data, self.bytes) })
    }
}
