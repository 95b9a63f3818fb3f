//! `trn3._native.Tensor`: a tensor or a view of one, as kernels handle it.
//!
//! A view is made without a line of Python; the Python class in `trn3.nki` adds nothing to it.

use crate::constants;
use crate::errors;
use crate::recorder::{Recorder, foreign};
use crate::register::VirtualRegister;
use pyo3::exceptions::{PyTypeError, PyValueError};
use pyo3::ffi;
use pyo3::prelude::*;
use pyo3::types::{PyBool, PyDict, PyEllipsis, PyInt, PySlice, PyTuple};
use smallvec::SmallVec;
use trn3_mem::{Index, ScalarOffset, View, Violation};

/// A tensor in SBUF, PSUM or HBM, or a view of one.
///
/// Views share the tensor's storage and cost nothing on the device. Made by ``nl.ndarray``.
#[pyclass(frozen, module = "trn3.nki", name = "NkiTensor")]
pub(crate) struct Tensor {
    pub(crate) view: View,
    pub(crate) recorder: Py<Recorder>,
}

/// A position; one beyond 64 bits is outside of any tensor, and so is the largest of 64 bits.
fn position(item: &Bound<'_, PyAny>) -> PyResult<Index> {
    item.extract().or_else(|_| Ok(if item.lt(0)? { i64::MIN / 2 } else { i64::MAX })).map(Index::At)
}

fn index(item: &Bound<'_, PyAny>) -> PyResult<Index> {
    if item.is_exact_instance_of::<PyInt>() {
        return position(item);
    }
    if let Ok(slice) = item.cast::<PySlice>() {
        return range(slice);
    }
    if item.is_instance_of::<PyEllipsis>() {
        return Ok(Index::Ellipsis);
    }
    if item.is_instance_of::<VirtualRegister>() {
        return Err(PyTypeError::new_err(format!(
            "tensor: index {item:?}: a register is no index; use .ap(pattern, scalar_offset=register), or \
             .select(dimension, register) [tensor.index_register]"
        )));
    }
    if item.hasattr("__index__")?
        && !item.is_instance_of::<PyBool>()
        && let Ok(position) = item.extract()
    {
        return Ok(Index::At(position));
    }
    Err(PyTypeError::new_err(format!(
        "tensor: index {item:?}: must be an int, a slice, nl.ds(start, size) or ...; for run-time indices use .ap(vector_offset=...)"
    )))
}

#[allow(unsafe_code)]
fn range(slice: &Bound<'_, PySlice>) -> PyResult<Index> {
    let (mut start, mut stop, mut step) = (0, 0, 0);
    // SAFETY: `slice` is a slice object and the three places are ours.
    if unsafe { ffi::PySlice_Unpack(slice.as_ptr(), &mut start, &mut stop, &mut step) } < 0 {
        return Err(PyErr::fetch(slice.py()));
    }
    if step < 0 {
        // Python's own defaults for a reversed slice would only confuse the message.
        return Ok(Index::Range { start: None, stop: None, step: Some(step as i64) });
    }
    let stop = (stop != ffi::PY_SSIZE_T_MAX).then_some(stop as i64);
    Ok(Index::Range { start: Some(start as i64), stop, step: Some(step as i64) })
}

type Numbers = SmallVec<[i64; 6]>;

fn numbers(object: &Bound<'_, PyAny>) -> PyResult<Numbers> {
    if let Ok(one) = object.extract::<i64>() {
        return Ok(SmallVec::from_slice(&[one]));
    }
    object.try_iter()?.map(|item| item?.extract()).collect()
}

fn pairs(object: &Bound<'_, PyAny>) -> PyResult<Vec<(i64, i64)>> {
    object
        .try_iter()?
        .map(|item| {
            let pair = numbers(&item?)?;
            match pair.as_slice() {
                [stride, count] => Ok((*stride, *count)),
                _ => Err(PyValueError::new_err("ap: pattern: must be [stride, count] pairs")),
            }
        })
        .collect()
}

impl Tensor {
    fn derived(&self, py: Python<'_>, view: Result<View, Violation>) -> PyResult<Tensor> {
        match view {
            Ok(view) => Ok(Tensor { view, recorder: self.recorder.clone_ref(py) }),
            Err(violation) => Err(self.raise(py, &violation)),
        }
    }

    /// A view whose start a register moves along `axis` of this one.
    fn moved(&self, py: Python<'_>, mut view: View, axis: usize, by: &Bound<'_, PyAny>) -> PyResult<Tensor> {
        let on_partitions = self.view.space.is_on_chip() && axis == 0;
        let is_static = self.view.scalar.is_none() && self.view.index.is_none();
        if on_partitions || !is_static {
            let violation = Violation::new(
                "tensor.scalar_offset",
                "scalar_offset",
                if is_static { "moves the partitions" } else { "is given to a view that is found at run time already" },
                "a register moves a view once, and on chip along a free dimension",
                "give indirect_dim, and make the view run-time last",
            )
            .in_instruction("ap");
            return Err(self.raise(py, &violation));
        }
        let register = if let Ok(register) = by.cast::<VirtualRegister>() {
            if !register.get().recorder.is(&self.recorder) {
                return Err(foreign(py, "ap"));
            }
            register.get().register.number
        } else if let Ok(tile) = by.cast::<Tensor>() {
            if !tile.get().recorder.is(&self.recorder) {
                return Err(foreign(py, "ap"));
            }
            let dtype = tile.get().view.dtype;
            if dtype.is_float() {
                let violation = Violation::new(
                    "tensor.scalar_offset",
                    "scalar_offset",
                    format!("is a tile of {}", dtype.name()),
                    "a register holds the bits of its tile, and an offset is an integer",
                    "copy the offset to an int32 tile",
                )
                .in_instruction("ap");
                return Err(self.raise(py, &violation));
            }
            Recorder::loaded(&self.recorder, py, &tile.get().view)?
        } else {
            return Err(PyTypeError::new_err(format!(
                "ap: scalar_offset: must be a register or a tile of one element, not {by:?}"
            )));
        };
        let (old, new) = (self.view.dtype.size_bytes() as i64, view.dtype.size_bytes() as i64);
        let bytes = self.view.dims[axis].stride * old;
        if bytes % new != 0 {
            let violation = Violation::new(
                "tensor.scalar_offset",
                "scalar_offset",
                format!("moves by {bytes} bytes"),
                format!("a view moves by whole elements, of {new} bytes here"),
                "give an indirect_dim whose stride is a multiple of the element",
            )
            .in_instruction("ap");
            return Err(self.raise(py, &violation));
        }
        view.scalar = Some(ScalarOffset { register, stride: bytes / new });
        self.derived(py, Ok(view))
    }

    fn raise(&self, py: Python<'_>, violation: &Violation) -> PyErr {
        match self.recorder.get().here(py) {
            Ok((file, line)) => errors::violation(py, violation, Some((&file, line))),
            Err(error) => error,
        }
    }
}

#[pymethods]
impl Tensor {
    /// Counts of all dimensions.
    #[getter]
    fn shape<'py>(&self, py: Python<'py>) -> PyResult<Bound<'py, PyTuple>> {
        PyTuple::new(py, self.view.dims.iter().map(|dim| dim.count))
    }

    /// Elements of storage between neighbours, by dimension.
    #[getter]
    fn strides<'py>(&self, py: Python<'py>) -> PyResult<Bound<'py, PyTuple>> {
        PyTuple::new(py, self.view.dims.iter().map(|dim| dim.stride))
    }

    /// Number of the first element in the storage.
    #[getter]
    fn offset(&self) -> i64 {
        self.view.offset
    }

    /// Number of dimensions.
    #[getter]
    fn ndim(&self) -> usize {
        self.view.dims.len()
    }

    /// Number of elements.
    #[getter]
    fn size(&self) -> u64 {
        self.view.elements()
    }

    /// Data type, a NumPy dtype.
    #[getter]
    fn dtype(&self, py: Python<'_>) -> PyResult<Py<PyAny>> {
        constants::dtype_object(py, self.view.dtype)
    }

    /// Memory region.
    #[getter]
    fn buffer(&self, py: Python<'_>) -> PyResult<Py<PyAny>> {
        if self.view.space == trn3_mem::Space::SharedHbm && self.recorder.get().is_input(py, self.view.tensor) {
            return constants::argument_buffer(py);
        }
        constants::buffer_object(py, self.view.space)
    }

    /// Name of the tensor.
    #[getter]
    fn name(&self, py: Python<'_>) -> String {
        self.recorder.get().tensor_name(py, self.view.tensor)
    }

    /// Number of the tensor within its kernel; views of one tensor share it.
    #[getter]
    fn _id(&self) -> u32 {
        self.view.tensor.0
    }

    /// The recorder of the kernel that the tensor belongs to.
    #[getter]
    fn _recorder(&self, py: Python<'_>) -> Py<Recorder> {
        self.recorder.clone_ref(py)
    }

    /// Whether the elements lie one after the other (on chip: within each partition).
    fn is_contiguous(&self) -> bool {
        self.view.is_contiguous()
    }

    /// Whether its place is known only when the kernel runs.
    fn is_indirect(&self) -> bool {
        self.view.index.is_some() || self.view.scalar.is_some()
    }

    /// ``[[stride, count], ...]`` in the order of the shape.
    fn get_pattern(&self) -> Vec<[i64; 2]> {
        self.view.dims.iter().map(|dim| [dim.stride, i64::from(dim.count)]).collect()
    }

    fn __len__(&self) -> usize {
        self.view.dims[0].count as usize
    }

    fn __getitem__(&self, py: Python<'_>, key: &Bound<'_, PyAny>) -> PyResult<Tensor> {
        let mut items: SmallVec<[Index; 6]> = SmallVec::new();
        match key.cast::<PyTuple>() {
            Ok(tuple) => {
                for item in tuple.iter_borrowed() {
                    items.push(index(&item)?);
                }
            }
            Err(_) => items.push(index(key)?),
        }
        self.derived(py, self.view.subscript(&items))
    }

    fn __setitem__(slf: &Bound<'_, Self>, key: &Bound<'_, PyAny>, value: &Bound<'_, PyAny>) -> PyResult<()> {
        let target = slf.as_any().get_item(key)?;
        slf.py().import("trn3.nki._assign")?.call_method1("assign", (target, value))?;
        Ok(())
    }

    /// Positions start to end (exclusive) along one dimension.
    #[pyo3(signature = (dim, start, end, step = 1))]
    fn slice(&self, py: Python<'_>, dim: i64, start: i64, end: i64, step: i64) -> PyResult<Tensor> {
        let axis = self.view.axis(dim).map_err(|violation| self.raise(py, &violation))?;
        let whole = Index::Range { start: None, stop: None, step: None };
        let mut key: SmallVec<[Index; 6]> = SmallVec::from_elem(whole, axis);
        key.push(Index::Range { start: Some(start), stop: Some(end), step: Some(step) });
        self.derived(py, self.view.subscript(&key))
    }

    /// One position along a dimension, which is dropped; a register or a one-element tile is read at run time.
    fn select(&self, py: Python<'_>, dim: i64, index: &Bound<'_, PyAny>) -> PyResult<Tensor> {
        let axis = self.view.axis(dim).map_err(|violation| self.raise(py, &violation))?;
        let at_run_time = index.is_instance_of::<Tensor>() || index.is_instance_of::<VirtualRegister>();
        let position = if at_run_time { 0 } else { index.extract()? };
        let whole = Index::Range { start: None, stop: None, step: None };
        let mut key: SmallVec<[Index; 6]> = SmallVec::from_elem(whole, axis);
        key.push(Index::At(position));
        if at_run_time {
            let view = self.view.subscript(&key).map_err(|violation| self.raise(py, &violation))?;
            return self.moved(py, view, axis, index);
        }
        self.derived(py, self.view.subscript(&key))
    }

    /// Dimensions in another order.
    fn permute(&self, py: Python<'_>, dims: &Bound<'_, PyAny>) -> PyResult<Tensor> {
        self.derived(py, self.view.permute(&numbers(dims)?))
    }

    /// A dimension of size 1 repeated ``size`` times.
    fn broadcast(&self, py: Python<'_>, dim: i64, size: i64) -> PyResult<Tensor> {
        self.derived(py, self.view.broadcast(dim, u32::try_from(size).unwrap_or(0)))
    }

    /// Every dimension of size 1 repeated until the view has the shape.
    fn broadcast_to(&self, py: Python<'_>, shape: &Bound<'_, PyAny>) -> PyResult<Tensor> {
        let shape = numbers(shape)?;
        let mut view = self.view.clone();
        if shape.len() != view.dims.len() {
            return Err(PyValueError::new_err(format!(
                "broadcast_to: {:?} has another rank than {:?}",
                shape.as_slice(),
                view.shape().as_slice()
            )));
        }
        for (axis, &count) in shape.iter().enumerate() {
            if i64::from(view.dims[axis].count) != count {
                let count = u32::try_from(count).unwrap_or(0);
                view = view.broadcast(axis as i64, count).map_err(|violation| self.raise(py, &violation))?;
            }
        }
        self.derived(py, Ok(view))
    }

    /// A new dimension of size 1 before ``dim``.
    fn expand_dim(&self, py: Python<'_>, dim: i64) -> PyResult<Tensor> {
        self.derived(py, self.view.expand_dim(dim))
    }

    /// Without the dimension ``dim`` of size 1.
    fn squeeze_dim(&self, py: Python<'_>, dim: i64) -> PyResult<Tensor> {
        self.derived(py, self.view.squeeze_dim(dim))
    }

    /// One dimension split; one size may be -1.
    fn reshape_dim(&self, py: Python<'_>, dim: i64, shape: &Bound<'_, PyAny>) -> PyResult<Tensor> {
        self.derived(py, self.view.reshape_dim(dim, &numbers(shape)?))
    }

    /// Dimensions ``start_dim`` to ``end_dim`` (inclusive) as one.
    fn flatten_dims(&self, py: Python<'_>, start_dim: i64, end_dim: i64) -> PyResult<Tensor> {
        self.derived(py, self.view.flatten_dims(start_dim, end_dim))
    }

    /// Another shape of the same elements; on chip the partitions stay.
    #[pyo3(signature = (*shape))]
    fn reshape<'py>(slf: &Bound<'py, Self>, shape: &Bound<'py, PyTuple>) -> PyResult<Bound<'py, PyAny>> {
        let sizes = if shape.len() == 1 { numbers(&shape.get_item(0)?)? } else { numbers(shape.as_any())? };
        let tensor = slf.get();
        let moves = tensor.view.space == trn3_mem::Space::Sbuf
            && sizes.len() >= 2
            && sizes.first() != Some(&i64::from(tensor.view.dims[0].count))
            && sizes.iter().all(|&size| size > 0)
            && sizes.iter().try_fold(1i64, |product, &size| product.checked_mul(size))
                == i64::try_from(tensor.view.elements()).ok();
        if moves {
            let module = slf.py().import("trn3.nki._assign")?;
            return module.call_method1("reshape", (slf, PyTuple::new(slf.py(), sizes)?));
        }
        let made = tensor.derived(slf.py(), tensor.view.reshape(&sizes))?;
        Ok(Bound::new(slf.py(), made)?.into_any())
    }

    /// The same bytes read as another data type.
    fn view(&self, py: Python<'_>, dtype: &Bound<'_, PyAny>) -> PyResult<Tensor> {
        self.derived(py, self.view.reinterpret(constants::dtype(dtype)?))
    }

    /// The same as ``view``.
    fn reinterpret_cast(&self, py: Python<'_>, dtype: &Bound<'_, PyAny>) -> PyResult<Tensor> {
        self.view(py, dtype)
    }

    /// A raw access pattern over the storage: ``[[stride, count], ...]``, outermost first.
    ///
    /// ``offset`` is added to the view's own; ``vector_offset`` is a (P, 1) tile of row numbers for an HBM tensor.
    #[pyo3(signature = (pattern, offset = None, scalar_offset = None, vector_offset = None, indirect_dim = 0, dtype = None))]
    #[allow(clippy::too_many_arguments)]
    fn ap(
        &self,
        py: Python<'_>,
        pattern: &Bound<'_, PyAny>,
        offset: Option<i64>,
        scalar_offset: Option<Bound<'_, PyAny>>,
        vector_offset: Option<Bound<'_, Tensor>>,
        indirect_dim: i64,
        dtype: Option<Bound<'_, PyAny>>,
    ) -> PyResult<Tensor> {
        let dtype = dtype.map_or(Ok(self.view.dtype), |dtype| constants::dtype(&dtype))?;
        let mut pairs = pairs(pattern)?;
        let Some(rows) = vector_offset else {
            let view = self.view.access_pattern(&pairs, offset.unwrap_or(0), dtype);
            let Some(scalar) = scalar_offset else { return self.derived(py, view) };
            let axis = self.view.axis(indirect_dim).map_err(|violation| self.raise(py, &violation))?;
            let view = view.map_err(|violation| self.raise(py, &violation))?;
            return self.moved(py, view, axis, &scalar);
        };
        if scalar_offset.is_some() {
            let violation = Violation::new(
                "tensor.ap.vector_offset",
                "scalar_offset",
                "is given together with vector_offset",
                "one of them moves a view",
                "leave one out",
            )
            .in_instruction("ap");
            return Err(self.raise(py, &violation));
        }
        if !rows.get().recorder.is(&self.recorder) {
            return Err(foreign(py, "ap"));
        }
        if self.view.space.is_on_chip() || indirect_dim != 0 || pairs.is_empty() {
            let violation = Violation::new(
                "tensor.ap.vector_offset",
                "vector_offset",
                format!("on a tensor in {}, indirect_dim {indirect_dim}", self.view.space.name()),
                "rows by index are those of dimension 0 of an HBM tensor",
                "gather from HBM along dimension 0",
            )
            .in_instruction("ap");
            return Err(self.raise(py, &violation));
        }
        // The leading step is ignored: the rows come from the indices, one after the other for the bounds' sake.
        let count = pairs[0].1;
        pairs[0] = (0, count);
        let view = self.view.access_pattern(&pairs, offset.unwrap_or(0), dtype).map(|mut view| {
            view.index = Some(Box::new(rows.get().view.clone()));
            view
        });
        self.derived(py, view)
    }

    /// Dimensions renamed, split, permuted and merged by name.
    #[pyo3(signature = (src_pattern, dst_pattern, fixed_sizes = None))]
    fn rearrange<'py>(
        slf: &Bound<'py, Self>,
        src_pattern: &Bound<'py, PyAny>,
        dst_pattern: &Bound<'py, PyAny>,
        fixed_sizes: Option<&Bound<'py, PyDict>>,
    ) -> PyResult<Bound<'py, PyAny>> {
        let module = slf.py().import("trn3.nki._rearrange")?;
        module.call_method1("rearrange", (slf, src_pattern, dst_pattern, fixed_sizes))
    }

    /// The values, as a NumPy array; while recording this runs the kernel so far.
    #[pyo3(signature = (dtype = None, copy = None))]
    fn __array__<'py>(
        slf: &Bound<'py, Self>,
        dtype: Option<Bound<'py, PyAny>>,
        copy: Option<bool>,
    ) -> PyResult<Bound<'py, PyAny>> {
        let _ = copy;
        let values = slf.get().recorder.get().read(slf.py(), &slf.get().view)?;
        match dtype {
            Some(dtype) => values.call_method1("astype", (dtype,)),
            None => Ok(values),
        }
    }

    fn __repr__(slf: &Bound<'_, Self>) -> PyResult<String> {
        let tensor = slf.get();
        let head = format!(
            "{}: {} {:?} in {}",
            tensor.name(slf.py()),
            tensor.view.dtype.name(),
            tensor.view.shape().as_slice(),
            tensor.view.space.name()
        );
        if !tensor.recorder.get().can_read(slf.py()) {
            return Ok(format!("<{head}>"));
        }
        let values = Tensor::__array__(slf, None, None)?;
        Ok(format!("<{head}\n{}>", values.str()?))
    }

    /// Whether every element is not 0, as ``assert nl.equal(a, b)`` wants to know.
    fn __bool__(slf: &Bound<'_, Self>) -> PyResult<bool> {
        Tensor::__array__(slf, None, None)?.call_method0("all")?.is_truthy()
    }

    fn __float__(slf: &Bound<'_, Self>) -> PyResult<f64> {
        Tensor::__array__(slf, None, None)?.call_method0("item")?.extract()
    }

    fn __int__<'py>(slf: &Bound<'py, Self>) -> PyResult<Bound<'py, PyAny>> {
        let item = Tensor::__array__(slf, None, None)?.call_method0("item")?;
        slf.py().get_type::<PyInt>().call1((item,))
    }
}
