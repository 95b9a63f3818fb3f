//! NumPy data types for the packed words and TF32, which neither NumPy nor `ml_dtypes` has.
//!
//! Each is a legacy user dtype, registered as `ml_dtypes` registers its own: a scalar type derived from
//! `numpy.generic`, a `PyArray_DescrProto` and a table of functions on one element. NumPy keeps pointers to all three
//! for the life of the process, so they are never freed. A word converts to nothing (NumPy then raises `TypeError`);
//! TF32 converts to and from float32. `==` and `!=` compare words by their bits and TF32 by value.
//!
//! A scalar holds its word behind the object header. Only functions of the stable ABI are used.
#![allow(unsafe_code)]

use numpy::npyffi::{
    NPY_NEEDS_PYAPI, NPY_SCALARKIND, NPY_TYPES, NPY_USE_GETITEM, NPY_USE_SETITEM, NpyTypes, PY_ARRAY_API, PY_UFUNC_API,
    PyArray_ArrFuncs, PyArray_Descr, PyArray_DescrProto, get_type_object, npy_intp,
};
use pyo3::exceptions::{PyImportError, PyTypeError};
use pyo3::ffi;
use pyo3::prelude::*;
use pyo3::sync::PyOnceLock;
use pyo3::types::{PyFloat, PyInt, PyType};
use std::ffi::{CStr, c_char, c_int, c_uchar, c_ulong, c_void};
use trn3_num::{Cast, Dtype, decode, encode};

/// One of the data types; its functions are instances of the generic ones below.
trait User {
    const DTYPE: Dtype;
    /// The scalar's full name.
    const NAME: &'static CStr;
    const DOC: &'static CStr;
    /// NumPy's one-letter code: informative, need not be unique.
    const LETTER: u8;
    const SIZE: usize = Self::DTYPE.size_bytes();
    /// Whether a scalar is a number.
    const NUMBER: bool = matches!(Self::DTYPE, Dtype::Tfloat32);
}

macro_rules! users {
    ($($name:ident, $letter:literal, $full:literal, $doc:literal;)*) => {
        $(
            struct $name;

            impl User for $name {
                const DTYPE: Dtype = Dtype::$name;
                const NAME: &'static CStr = $full;
                const DOC: &'static CStr = $doc;
                const LETTER: u8 = $letter;
            }
        )*

        fn register_all(py: Python<'_>) -> PyResult<Registered> {
            Ok(Registered { types: vec![$((Dtype::$name.name(), register_user::<$name>(py)?)),*] })
        }
    };
}

users! {
    Float8E5m2X4, b'5', c"trn3._native.float8_e5m2_x4", c"Four float8_e5m2 codes in a 32-bit word, the first lowest.";
    Float8E4m3fnX4, b'4', c"trn3._native.float8_e4m3fn_x4", c"Four float8_e4m3fn codes in a 32-bit word, the first lowest.";
    Float4E2m1fnX4, b'2', c"trn3._native.float4_e2m1fn_x4", c"Four float4_e2m1fn codes in a 16-bit word, the first lowest.";
    Tfloat32, b'3', c"trn3._native.tfloat32", c"A number with 8 exponent and 10 mantissa bits, stored as float32.";
}

/// The scalar types, which know their dtypes; made once a process.
struct Registered {
    types: Vec<(&'static str, Py<PyType>)>,
}

static REGISTERED: PyOnceLock<Registered> = PyOnceLock::new();

/// Registers the data types with NumPy and adds their scalar types to the module.
pub(super) fn register(m: &Bound<'_, PyModule>) -> PyResult<()> {
    let py = m.py();
    for (name, scalar) in &REGISTERED.get_or_try_init(py, || register_all(py))?.types {
        m.add(*name, scalar)?;
    }
    Ok(())
}

fn register_user<U: User>(py: Python<'_>) -> PyResult<Py<PyType>> {
    let scalar = scalar_type::<U>(py)?;
    // Sound: zero is a valid value of both structures (null pointers, absent functions, the number 0).
    let functions: &'static mut PyArray_ArrFuncs = Box::leak(Box::new(unsafe { std::mem::zeroed() }));
    let proto: &'static mut PyArray_DescrProto = Box::leak(Box::new(unsafe { std::mem::zeroed() }));
    // Sound: the interpreter is held; the structures live for ever, as NumPy asks; the new references that NumPy
    // hands out are owned below.
    unsafe {
        PY_ARRAY_API.PyArray_InitArrFuncs(py, functions);
        functions.getitem = Some(getitem::<U>);
        functions.setitem = Some(setitem::<U>);
        functions.copyswap = Some(copyswap::<U>);
        functions.copyswapn = Some(copyswapn::<U>);
        functions.nonzero = Some(nonzero::<U>);
        functions.compare = Some(compare::<U>);

        proto.ob_base.ob_type = get_type_object(py, NpyTypes::PyArrayDescr_Type);
        ffi::Py_INCREF(&raw mut proto.ob_base);
        proto.typeobj = scalar.clone_ref(py).into_ptr().cast();
        proto.kind = b'V' as c_char;
        proto.type_ = U::LETTER as c_char;
        proto.byteorder = b'=' as c_char;
        proto.flags = (NPY_NEEDS_PYAPI | NPY_USE_GETITEM | NPY_USE_SETITEM) as c_char;
        proto.elsize = U::SIZE as c_int;
        proto.alignment = U::SIZE as c_int;
        proto.f = functions;
        proto.hash = -1;
        let number = PY_ARRAY_API.PyArray_RegisterDataType(py, proto);
        if number < 0 {
            return Err(PyErr::fetch(py));
        }
        let descr = PY_ARRAY_API.PyArray_DescrFromType(py, number);
        let dtype = Bound::from_owned_ptr_or_err(py, descr.cast())?;
        scalar.bind(py).setattr("dtype", &dtype)?;
        register_equality::<U>(py, number)?;
        if U::NUMBER {
            register_casts(py, number, descr)?;
        }
    }
    Ok(scalar)
}

/// # Safety
///
/// `number` is a registered data type and `descr` its descriptor.
unsafe fn register_casts(py: Python<'_>, number: c_int, descr: *mut PyArray_Descr) -> PyResult<()> {
    // Sound: NumPy takes its own references and keeps the function pointers; the reference to float32's is owned.
    let done = unsafe {
        let float32 = PY_ARRAY_API.PyArray_DescrFromType(py, NPY_TYPES::NPY_FLOAT as c_int);
        let float32_owned = Bound::from_owned_ptr_or_err(py, float32.cast())?;
        let float32_number = NPY_TYPES::NPY_FLOAT as c_int;
        let narrow = PY_ARRAY_API.PyArray_RegisterCastFunc(py, float32, number, Some(round_to_tfloat32));
        let widen = PY_ARRAY_API.PyArray_RegisterCastFunc(py, descr, float32_number, Some(round_to_tfloat32));
        let safe = PY_ARRAY_API.PyArray_RegisterCanCast(py, descr, float32_number, NPY_SCALARKIND::NPY_NOSCALAR);
        drop(float32_owned);
        narrow >= 0 && widen >= 0 && safe >= 0
    };
    if done { Ok(()) } else { Err(PyErr::fetch(py)) }
}

/// # Safety
///
/// `number` is the registered data type of `U`.
unsafe fn register_equality<U: User>(py: Python<'_>, number: c_int) -> PyResult<()> {
    let numpy = py.import("numpy")?;
    for (name, function) in [("equal", equal::<U, true> as _), ("not_equal", equal::<U, false> as _)] {
        let ufunc = numpy.getattr(name)?;
        let mut types = [number, number, NPY_TYPES::NPY_BOOL as c_int];
        // Sound: the ufunc is NumPy's own and lives as long as the process; NumPy copies the types.
        let status = unsafe {
            PY_UFUNC_API.PyUFunc_RegisterLoopForType(
                py,
                ufunc.as_ptr().cast(),
                number,
                Some(function),
                types.as_mut_ptr(),
                std::ptr::null_mut(),
            )
        };
        if status < 0 {
            return Err(PyErr::fetch(py));
        }
    }
    Ok(())
}

// The scalar type.

/// A scalar: its word stands behind the header that `numpy.generic` has.
#[repr(C)]
struct Scalar {
    header: ffi::PyObject,
    word: u32,
}

fn scalar_type<U: User>(py: Python<'_>) -> PyResult<Py<PyType>> {
    let generic = py.import("numpy")?.getattr("generic")?;
    if generic.getattr("__basicsize__")?.extract::<usize>()? != size_of::<ffi::PyObject>() {
        return Err(PyImportError::new_err("numpy.generic is not a bare object: this version of NumPy is not known"));
    }
    let methods: &'static mut [ffi::PyMethodDef] = Box::leak(Box::new([
        ffi::PyMethodDef {
            ml_name: c"__reduce__".as_ptr(),
            ml_meth: ffi::PyMethodDefPointer { PyCFunction: scalar_reduce },
            ml_flags: ffi::METH_NOARGS,
            ml_doc: c"The type and the stored word.".as_ptr(),
        },
        ffi::PyMethodDef::zeroed(),
    ]));
    let slot = |slot: c_int, pfunc: *mut c_void| ffi::PyType_Slot { slot, pfunc };
    let mut slots = vec![
        slot(ffi::Py_tp_doc, U::DOC.as_ptr().cast_mut().cast()),
        slot(ffi::Py_tp_new, scalar_new::<U> as ffi::newfunc as *mut c_void),
        slot(ffi::Py_tp_dealloc, scalar_dealloc as ffi::destructor as *mut c_void),
        slot(ffi::Py_tp_repr, scalar_repr::<U> as ffi::reprfunc as *mut c_void),
        slot(ffi::Py_tp_str, scalar_str::<U> as ffi::reprfunc as *mut c_void),
        slot(ffi::Py_tp_hash, scalar_hash::<U> as ffi::hashfunc as *mut c_void),
        slot(ffi::Py_tp_richcompare, scalar_compare::<U> as ffi::richcmpfunc as *mut c_void),
        slot(ffi::Py_tp_methods, methods.as_mut_ptr().cast()),
        slot(ffi::Py_nb_int, scalar_int::<U> as ffi::unaryfunc as *mut c_void),
        slot(ffi::Py_nb_float, scalar_float::<U> as ffi::unaryfunc as *mut c_void),
    ];
    if !U::NUMBER {
        slots.push(slot(ffi::Py_nb_index, scalar_int::<U> as ffi::unaryfunc as *mut c_void));
    }
    slots.push(slot(0, std::ptr::null_mut()));
    let mut spec = ffi::PyType_Spec {
        name: U::NAME.as_ptr(),
        basicsize: size_of::<Scalar>() as c_int,
        itemsize: 0,
        flags: ffi::Py_TPFLAGS_DEFAULT as _,
        slots: slots.as_mut_ptr(),
    };
    // Sound: the spec is complete and is copied; names and methods are static; the base is a type object.
    let made = unsafe {
        let made = ffi::PyType_FromSpecWithBases(&raw mut spec, generic.as_ptr());
        Bound::from_owned_ptr_or_err(py, made)?
    };
    Ok(made.cast_into::<PyType>()?.unbind())
}

/// The value as Python sees it: the word itself, or the number that it encodes.
fn value<U: User>(word: u32) -> f64 {
    if U::NUMBER { f64::from(decode(U::DTYPE, word)) } else { f64::from(word) }
}

/// # Safety
///
/// The interpreter is held and `cls` is the scalar type of `U`. Returns a new reference or null with an error set.
unsafe fn new_scalar(cls: *mut ffi::PyTypeObject, word: u32) -> *mut ffi::PyObject {
    // Sound: the type's instances are `Scalar`s.
    unsafe {
        let object = ffi::PyType_GenericAlloc(cls, 0);
        if !object.is_null() {
            (*object.cast::<Scalar>()).word = word;
        }
        object
    }
}

/// The word that a Python object stands for; `None` with an error set.
///
/// # Safety
///
/// The interpreter is held and `object` is a live object.
unsafe fn word_of<U: User>(py: Python<'_>, object: *mut ffi::PyObject) -> Option<u32> {
    let Some(registered) = REGISTERED.get(py) else {
        PyTypeError::new_err("the data types are not registered yet").restore(py);
        return None;
    };
    let own = registered.types.iter().find(|(name, _)| *name == U::DTYPE.name()).map(|(_, scalar)| scalar.as_ptr());
    // Sound: `object` is live; a scalar of our type is a `Scalar`.
    let result = unsafe {
        if ffi::Py_TYPE(object).cast() == own.unwrap_or_default() {
            return Some((*object.cast::<Scalar>()).word);
        }
        let object = Bound::from_borrowed_ptr(py, object);
        if U::NUMBER {
            object.extract::<f64>().map(|value| encode(U::DTYPE, value as f32, Cast::NEAREST))
        } else if U::SIZE == 2 {
            object.extract::<u16>().map(u32::from)
        } else {
            object.extract::<u32>()
        }
    };
    result.map_err(|error| error.restore(py)).ok()
}

unsafe extern "C" fn scalar_new<U: User>(
    cls: *mut ffi::PyTypeObject,
    args: *mut ffi::PyObject,
    kwargs: *mut ffi::PyObject,
) -> *mut ffi::PyObject {
    // Sound: called by the interpreter, which holds itself, with a tuple and a dict or null.
    unsafe {
        let py = Python::assume_attached();
        let named = !kwargs.is_null() && ffi::PyDict_Size(kwargs) > 0;
        let word = match ffi::PyTuple_Size(args) {
            0 if !named => Some(0),
            1 if !named => word_of::<U>(py, ffi::PyTuple_GetItem(args, 0)),
            _ => {
                let text = format!("{} takes one positional argument: its value", U::DTYPE.name());
                PyTypeError::new_err(text).restore(py);
                None
            }
        };
        word.map_or(std::ptr::null_mut(), |word| new_scalar(cls, word))
    }
}

unsafe extern "C" fn scalar_dealloc(object: *mut ffi::PyObject) {
    // Sound: the last reference is gone; an instance of a heap type owns a reference to the type.
    unsafe {
        let cls = ffi::Py_TYPE(object);
        let free: ffi::freefunc = std::mem::transmute(ffi::PyType_GetSlot(cls, ffi::Py_tp_free));
        free(object.cast());
        ffi::Py_DECREF(cls.cast());
    }
}

unsafe extern "C" fn scalar_repr<U: User>(object: *mut ffi::PyObject) -> *mut ffi::PyObject {
    // Sound: the interpreter calls this with an instance.
    unsafe { text(&format!("{}({})", U::DTYPE.name(), spelling::<U>((*object.cast::<Scalar>()).word))) }
}

unsafe extern "C" fn scalar_str<U: User>(object: *mut ffi::PyObject) -> *mut ffi::PyObject {
    // Sound: as above.
    unsafe { text(&spelling::<U>((*object.cast::<Scalar>()).word)) }
}

fn spelling<U: User>(word: u32) -> String {
    if U::NUMBER {
        format!("{:?}", decode(U::DTYPE, word)).to_lowercase()
    } else {
        format!("{word:#0width$x}", width = 2 + 2 * U::SIZE)
    }
}

/// # Safety
///
/// The interpreter is held.
unsafe fn text(text: &str) -> *mut ffi::PyObject {
    // Sound: pointer and length are those of valid UTF-8.
    unsafe { ffi::PyUnicode_FromStringAndSize(text.as_ptr().cast(), text.len() as ffi::Py_ssize_t) }
}

unsafe extern "C" fn scalar_hash<U: User>(object: *mut ffi::PyObject) -> ffi::Py_hash_t {
    // Sound: the interpreter calls this with an instance. Equal scalars have equal numbers, so equal hashes.
    unsafe {
        let number = scalar_number::<U>(object);
        if number.is_null() {
            return -1;
        }
        let hash = ffi::PyObject_Hash(number);
        ffi::Py_DECREF(number);
        hash
    }
}

unsafe extern "C" fn scalar_compare<U: User>(
    object: *mut ffi::PyObject,
    other: *mut ffi::PyObject,
    op: c_int,
) -> *mut ffi::PyObject {
    // Sound: the interpreter calls this with an instance and any object.
    unsafe {
        let other_is_ours = ffi::Py_TYPE(other) == ffi::Py_TYPE(object);
        let right = if other_is_ours { scalar_number::<U>(other) } else { ffi::Py_NewRef(other) };
        let left = scalar_number::<U>(object);
        let result = if left.is_null() || right.is_null() {
            std::ptr::null_mut()
        } else {
            ffi::PyObject_RichCompare(left, right, op)
        };
        ffi::Py_XDECREF(left);
        ffi::Py_XDECREF(right);
        result
    }
}

/// A Python number equal to the scalar: a new reference.
unsafe extern "C" fn scalar_number<U: User>(object: *mut ffi::PyObject) -> *mut ffi::PyObject {
    // Sound: the caller passes an instance.
    unsafe { if U::NUMBER { scalar_float::<U>(object) } else { scalar_int::<U>(object) } }
}

unsafe extern "C" fn scalar_int<U: User>(object: *mut ffi::PyObject) -> *mut ffi::PyObject {
    // Sound: the interpreter calls this with an instance.
    unsafe {
        let word = (*object.cast::<Scalar>()).word;
        if U::NUMBER {
            ffi::PyLong_FromDouble(value::<U>(word))
        } else {
            ffi::PyLong_FromUnsignedLong(c_ulong::from(word))
        }
    }
}

unsafe extern "C" fn scalar_float<U: User>(object: *mut ffi::PyObject) -> *mut ffi::PyObject {
    // Sound: the interpreter calls this with an instance.
    unsafe {
        let py = Python::assume_attached();
        if !U::NUMBER {
            PyTypeError::new_err(format!("{} is four numbers, not one", U::DTYPE.name())).restore(py);
            return std::ptr::null_mut();
        }
        ffi::PyFloat_FromDouble(value::<U>((*object.cast::<Scalar>()).word))
    }
}

unsafe extern "C" fn scalar_reduce(object: *mut ffi::PyObject, _: *mut ffi::PyObject) -> *mut ffi::PyObject {
    // Sound: the interpreter calls this with an instance, and is held.
    let result = unsafe {
        let py = Python::assume_attached();
        let object = Bound::from_borrowed_ptr(py, object);
        reduce(&object).map_err(|error| error.restore(py))
    };
    result.map_or(std::ptr::null_mut(), Py::into_ptr)
}

fn reduce(object: &Bound<'_, PyAny>) -> PyResult<Py<PyAny>> {
    let py = object.py();
    let scalar = object.get_type();
    let number = if scalar.name()? == "tfloat32" { py.get_type::<PyFloat>() } else { py.get_type::<PyInt>() };
    Ok((scalar, (number.call1((object,))?,)).into_pyobject(py)?.into_any().unbind())
}

// One element of an array. NumPy passes pointers into arrays, not necessarily aligned, and the array itself.

/// # Safety
///
/// `data` points at an element.
unsafe fn load<U: User>(data: *const c_void) -> u32 {
    let mut bytes = [0; 4];
    // Sound: an element has `SIZE` bytes, at most four; this is correct for little-endian machines only, as the rest.
    unsafe { std::ptr::copy_nonoverlapping(data.cast(), bytes.as_mut_ptr(), U::SIZE) };
    u32::from_le_bytes(bytes)
}

unsafe extern "C" fn getitem<U: User>(data: *mut c_void, _array: *mut c_void) -> *mut ffi::PyObject {
    // Sound: NumPy holds the interpreter (NPY_NEEDS_PYAPI) and passes an element.
    unsafe {
        let py = Python::assume_attached();
        let registered = REGISTERED.get(py).and_then(|r| r.types.iter().find(|(name, _)| *name == U::DTYPE.name()));
        match registered {
            Some((_, scalar)) => new_scalar(scalar.as_ptr().cast(), load::<U>(data)),
            None => {
                PyTypeError::new_err("the data types are not registered yet").restore(py);
                std::ptr::null_mut()
            }
        }
    }
}

unsafe extern "C" fn setitem<U: User>(object: *mut ffi::PyObject, data: *mut c_void, _array: *mut c_void) -> c_int {
    // Sound: as above; `data` is writable.
    unsafe {
        match word_of::<U>(Python::assume_attached(), object) {
            Some(word) => {
                std::ptr::copy_nonoverlapping(word.to_le_bytes().as_ptr(), data.cast(), U::SIZE);
                0
            }
            None => -1,
        }
    }
}

unsafe extern "C" fn copyswap<U: User>(out: *mut c_void, src: *mut c_void, swap: c_int, _array: *mut c_void) {
    // Sound: NumPy passes elements; a null source means to swap in place.
    unsafe {
        if !src.is_null() {
            std::ptr::copy(src.cast::<u8>(), out.cast(), U::SIZE);
        }
        if swap != 0 {
            std::slice::from_raw_parts_mut(out.cast::<u8>(), U::SIZE).reverse();
        }
    }
}

unsafe extern "C" fn copyswapn<U: User>(
    out: *mut c_void,
    out_stride: npy_intp,
    src: *mut c_void,
    src_stride: npy_intp,
    count: npy_intp,
    swap: c_int,
    array: *mut c_void,
) {
    for i in 0..count {
        // Sound: NumPy passes `count` elements that are so far apart.
        unsafe {
            let src = if src.is_null() { src } else { src.byte_offset(i * src_stride) };
            copyswap::<U>(out.byte_offset(i * out_stride), src, swap, array);
        }
    }
}

unsafe extern "C" fn nonzero<U: User>(data: *mut c_void, _array: *mut c_void) -> c_uchar {
    // Sound: NumPy passes an element.
    c_uchar::from(value::<U>(unsafe { load::<U>(data) }) != 0.0)
}

unsafe extern "C" fn compare<U: User>(a: *const c_void, b: *const c_void, _array: *mut c_void) -> c_int {
    // Sound: NumPy passes elements. NaN sorts last, as in NumPy.
    let (a, b) = unsafe { (value::<U>(load::<U>(a)), value::<U>(load::<U>(b))) };
    a.partial_cmp(&b).unwrap_or_else(|| a.is_nan().cmp(&b.is_nan())) as c_int
}

/// Loop of `equal` (or `not_equal`) over two arrays, into bools.
unsafe extern "C" fn equal<U: User, const EQUAL: bool>(
    args: *mut *mut c_char,
    dimensions: *mut npy_intp,
    steps: *mut npy_intp,
    _data: *mut c_void,
) {
    // Sound: NumPy passes three arrays of `dimensions[0]` elements, `steps` apart.
    unsafe {
        for i in 0..*dimensions {
            let at = |operand: usize| (*args.add(operand)).byte_offset(i * *steps.add(operand));
            let same = value::<U>(load::<U>(at(0).cast())) == value::<U>(load::<U>(at(1).cast()));
            *at(2).cast::<u8>() = u8::from(same == EQUAL);
        }
    }
}

/// Both casts between TF32 and float32: each keeps ten bits of the mantissa.
unsafe extern "C" fn round_to_tfloat32(
    src: *mut c_void,
    out: *mut c_void,
    count: npy_intp,
    _src_array: *mut c_void,
    _out_array: *mut c_void,
) {
    for i in 0..count as usize {
        // Sound: NumPy passes `count` contiguous elements on each side.
        unsafe {
            let value = f32::from_bits(load::<Tfloat32>(src.byte_add(4 * i)));
            let word = encode(Dtype::Tfloat32, value, Cast::NEAREST);
            std::ptr::copy_nonoverlapping(word.to_le_bytes().as_ptr(), out.byte_add(4 * i).cast(), 4);
        }
    }
}
