//! Formats and microscaling codecs for `trn3.dtypes` and `trn3.mx`, and the data types that NumPy lacks.
//!
//! Arrays come as one-dimensional contiguous views of bytes with our data type's name beside them; results are
//! written into arrays that Python made. Shapes and errors are Python's business: a size that does not fit is a bug.

mod user_dtype;

use numpy::{PyReadonlyArray1, PyReadwriteArray1};
use pyo3::exceptions::PyValueError;
use pyo3::prelude::*;
use trn3_num::mx::{self, Element, Extent, ScaleRule, Values};
use trn3_num::random::Draws;
use trn3_num::{Cast, Dtype, Overflow, Rounding, convert_slice};

/// Work on fewer bytes is over sooner than the interpreter could be let go and taken back.
const DETACH_MIN_BYTES: usize = 1 << 14;

/// Adds this module's functions and data types to `_native`.
pub(crate) fn register(m: &Bound<'_, PyModule>) -> PyResult<()> {
    m.add_function(wrap_pyfunction!(convert, m)?)?;
    m.add_function(wrap_pyfunction!(mx_quantize, m)?)?;
    m.add_function(wrap_pyfunction!(mx_dequantize, m)?)?;
    m.add_function(wrap_pyfunction!(pack_x4, m)?)?;
    m.add_function(wrap_pyfunction!(unpack_x4, m)?)?;
    user_dtype::register(m)
}

/// Converts codes of one data type into another; with a seed, by stochastic rounding.
#[pyfunction]
fn convert(
    py: Python<'_>,
    src: PyReadonlyArray1<'_, u8>,
    src_dtype: &str,
    mut out: PyReadwriteArray1<'_, u8>,
    out_dtype: &str,
    seed: Option<u64>,
    saturate: bool,
) -> PyResult<()> {
    let (from, to) = (dtype(src_dtype)?, dtype(out_dtype)?);
    let rounding = seed.map_or(Rounding::NearestEven, |seed| Rounding::Stochastic(Draws::new(seed, 0)));
    let overflow = if saturate { Overflow::Saturate } else { Overflow::Ieee };
    let (src, out) = (src.as_slice()?, out.as_slice_mut()?);
    run(py, src.len(), || convert_slice(from, src, to, out, Cast { rounding, overflow }));
    Ok(())
}

/// Quantises values, seen as (outer, length, inner) with groups along the middle, into codes and scale bytes.
#[pyfunction]
#[expect(clippy::too_many_arguments, reason = "three arrays and what they are")]
fn mx_quantize(
    py: Python<'_>,
    src: PyReadonlyArray1<'_, u8>,
    src_dtype: &str,
    extent: (usize, usize, usize),
    element_dtype: &str,
    scale_rule: &str,
    mut codes: PyReadwriteArray1<'_, u8>,
    mut scales: PyReadwriteArray1<'_, u8>,
) -> PyResult<()> {
    let (from, element) = (dtype(src_dtype)?, element(element_dtype)?);
    let rule = match scale_rule {
        "hardware" => ScaleRule::Hardware,
        "ocp" => ScaleRule::Ocp,
        other => return Err(PyValueError::new_err(format!("no scale rule is called {other:?}"))),
    };
    let (src, codes, scales) = (src.as_slice()?, codes.as_slice_mut()?, scales.as_slice_mut()?);
    run(py, src.len(), || mx::quantize(Values::Bytes(from, src), grouped(extent), element, rule, codes, scales));
    Ok(())
}

/// Dequantises codes and scale bytes into float32; see `mx_quantize`.
#[pyfunction]
fn mx_dequantize(
    py: Python<'_>,
    codes: PyReadonlyArray1<'_, u8>,
    scales: PyReadonlyArray1<'_, u8>,
    extent: (usize, usize, usize),
    element_dtype: &str,
    mut out: PyReadwriteArray1<'_, f32>,
) -> PyResult<()> {
    let element = element(element_dtype)?;
    let (codes, scales, out) = (codes.as_slice()?, scales.as_slice()?, out.as_slice_mut()?);
    run(py, codes.len() * 4, || mx::dequantize(codes, scales, grouped(extent), element, out));
    Ok(())
}

/// Packs codes, one a byte, into words of four.
#[pyfunction]
fn pack_x4(
    py: Python<'_>,
    codes: PyReadonlyArray1<'_, u8>,
    element_dtype: &str,
    mut words: PyReadwriteArray1<'_, u8>,
) -> PyResult<()> {
    let element = element(element_dtype)?;
    let (codes, words) = (codes.as_slice()?, words.as_slice_mut()?);
    run(py, codes.len(), || mx::pack_x4(element, codes, words));
    Ok(())
}

/// Unpacks words of four into codes, one a byte.
#[pyfunction]
fn unpack_x4(
    py: Python<'_>,
    words: PyReadonlyArray1<'_, u8>,
    element_dtype: &str,
    mut codes: PyReadwriteArray1<'_, u8>,
) -> PyResult<()> {
    let element = element(element_dtype)?;
    let (words, codes) = (words.as_slice()?, codes.as_slice_mut()?);
    run(py, codes.len(), || mx::unpack_x4(element, words, codes));
    Ok(())
}

/// Runs pure work, without the interpreter if there is enough of it.
fn run(py: Python<'_>, bytes: usize, work: impl FnOnce() + Send) {
    if bytes < DETACH_MIN_BYTES { work() } else { py.detach(work) }
}

fn grouped((outer, length, inner): (usize, usize, usize)) -> Extent {
    Extent { outer, length, inner }
}

fn dtype(name: &str) -> PyResult<Dtype> {
    Dtype::from_name(name).ok_or_else(|| PyValueError::new_err(format!("no data type is called {name:?}")))
}

fn element(name: &str) -> PyResult<Element> {
    Element::from_dtype(dtype(name)?)
        .ok_or_else(|| PyValueError::new_err(format!("{name:?} is no element of a microscaled format")))
}
