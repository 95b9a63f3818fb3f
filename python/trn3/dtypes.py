"""The only map between NumPy and ``ml_dtypes`` data types and ours.

Every name below is a real ``numpy.dtype``: ``np.zeros(8, dtypes.bfloat16)`` works, ``str(dtypes.bfloat16)`` is
``"bfloat16"``. Integers, ``float32`` and ``float16`` are NumPy's, the narrow floats are those of ``ml_dtypes``.
``tfloat32`` and the packed words ``float8_e5m2_x4``, ``float8_e4m3fn_x4`` (four codes in 32 bits) and
``float4_e2m1fn_x4`` (four codes in 16 bits) are registered with NumPy by this package. A packed word converts to
nothing; `unpack_x4` gives its codes, `trn3.mx.dequantize` its values.

Conversions (`cast`) are bit-exact: round to nearest even, subnormals kept, as ``ml_dtypes`` does them.
"""

from __future__ import annotations

import contextlib
from typing import Any, Final, Literal

import ml_dtypes
import numpy as np
import numpy.typing as npt

from trn3 import _native
from trn3.errors import RuleError

__all__ = [
    "bfloat16",
    "bool_",
    "cast",
    "dtype",
    "float16",
    "float32",
    "float4_e2m1fn",
    "float4_e2m1fn_x4",
    "float6_e2m3fn",
    "float6_e3m2fn",
    "float8_e3m4",
    "float8_e4m3",
    "float8_e4m3fn",
    "float8_e4m3fn_x4",
    "float8_e5m2",
    "float8_e5m2_x4",
    "float8_e8m0fnu",
    "int16",
    "int32",
    "int8",
    "name",
    "pack_x4",
    "tfloat32",
    "uint16",
    "uint32",
    "uint8",
    "unpack_x4",
]

bool_: Final[np.dtype[Any]] = np.dtype(np.bool_)
uint8: Final[np.dtype[Any]] = np.dtype(np.uint8)
int8: Final[np.dtype[Any]] = np.dtype(np.int8)
uint16: Final[np.dtype[Any]] = np.dtype(np.uint16)
int16: Final[np.dtype[Any]] = np.dtype(np.int16)
uint32: Final[np.dtype[Any]] = np.dtype(np.uint32)
int32: Final[np.dtype[Any]] = np.dtype(np.int32)
float32: Final[np.dtype[Any]] = np.dtype(np.float32)
tfloat32: Final[np.dtype[Any]] = np.dtype(_native.tfloat32)
bfloat16: Final[np.dtype[Any]] = np.dtype(ml_dtypes.bfloat16)
float16: Final[np.dtype[Any]] = np.dtype(np.float16)
float8_e5m2: Final[np.dtype[Any]] = np.dtype(ml_dtypes.float8_e5m2)
float8_e4m3: Final[np.dtype[Any]] = np.dtype(ml_dtypes.float8_e4m3)
float8_e4m3fn: Final[np.dtype[Any]] = np.dtype(ml_dtypes.float8_e4m3fn)
float8_e3m4: Final[np.dtype[Any]] = np.dtype(ml_dtypes.float8_e3m4)
float8_e8m0fnu: Final[np.dtype[Any]] = np.dtype(ml_dtypes.float8_e8m0fnu)
float6_e2m3fn: Final[np.dtype[Any]] = np.dtype(ml_dtypes.float6_e2m3fn)
float6_e3m2fn: Final[np.dtype[Any]] = np.dtype(ml_dtypes.float6_e3m2fn)
float4_e2m1fn: Final[np.dtype[Any]] = np.dtype(ml_dtypes.float4_e2m1fn)
float8_e5m2_x4: Final[np.dtype[Any]] = np.dtype(_native.float8_e5m2_x4)
float8_e4m3fn_x4: Final[np.dtype[Any]] = np.dtype(_native.float8_e4m3fn_x4)
float4_e2m1fn_x4: Final[np.dtype[Any]] = np.dtype(_native.float4_e2m1fn_x4)

_PLAIN: Final = (
    bool_, uint8, int8, uint16, int16, uint32, int32, float32, tfloat32, bfloat16, float16, float8_e5m2, float8_e4m3,
    float8_e4m3fn, float8_e3m4, float8_e8m0fnu, float6_e2m3fn, float6_e3m2fn, float4_e2m1fn,
)  # fmt: skip
_WORD_OF: Final = {
    float8_e5m2: float8_e5m2_x4,
    float8_e4m3fn: float8_e4m3fn_x4,
    float4_e2m1fn: float4_e2m1fn_x4,
}
_CODE_OF: Final = {word: code for code, word in _WORD_OF.items()}
_KNOWN: Final = frozenset((*_PLAIN, *_CODE_OF))
_BY_NAME: Final = {str(each): each for each in (*_PLAIN, *_CODE_OF)} | {"bool_": bool_}


def dtype(x: Any) -> np.dtype[Any]:
    """Return the data type that a name or an object stands for.

    Parameters
    ----------
    x : str, numpy.dtype, type or anything with a ``dtype``
        One of our names (``"bfloat16"``), or what NumPy takes for a data type (``np.float32``,
        ``ml_dtypes.bfloat16``, ``"f4"``), or an array, a tensor or a PyTorch data type. A foreign byte order is
        dropped.

    Returns
    -------
    numpy.dtype
        One of the data types of this module.

    Raises
    ------
    trn3.errors.RuleError
        ``dtype.known``: the NeuronCore has no such data type.

    Examples
    --------
    >>> dtype("bfloat16") == bfloat16
    True
    >>> dtype(np.zeros(3, np.float16))
    dtype('float16')
    """
    asked = x if isinstance(x, (str, type)) else getattr(x, "dtype", x)
    known = (
        asked if isinstance(asked, np.dtype) and asked in _KNOWN else _BY_NAME.get(str(asked).removeprefix("torch."))
    )
    found = None
    if known is None and asked is not None:
        with contextlib.suppress(TypeError):
            found = np.dtype(asked)
            known = _BY_NAME.get(str(found.newbyteorder("=")))
    if known is None:
        raise RuleError(
            instruction="dtypes.dtype",
            operand="x",
            value=f"{str(found) if found is not None else repr(x)!s} is no data type of the NeuronCore",
            limit="one of " + ", ".join(_BY_NAME),
            rule="dtype.known",
            fix=_advice(found),
        )
    return known


def _advice(found: np.dtype[Any] | None) -> str:
    if found is not None and found.kind in "iu":
        return "convert it first, for example with .astype(np.int32)"
    if found is not None and found.kind in "fc":
        return "convert it first, for example with .astype(np.float32)"
    return "name one of them"


def name(x: Any) -> str:
    """Return the name of a data type; see `dtype` for what is understood.

    Examples
    --------
    >>> name(np.float32), name(ml_dtypes.bfloat16)
    ('float32', 'bfloat16')
    """
    return str(dtype(x))


def cast(
    array: npt.ArrayLike,
    dtype: Any,
    rounding: Literal["nearest", "stochastic"] = "nearest",
    *,
    seed: int = 0,
    overflow: Literal["ieee", "saturate"] = "ieee",
) -> npt.NDArray[Any]:
    """Convert an array's values to another data type, as the engines do: through float32.

    Parameters
    ----------
    array : array_like
        Any data type but a packed word. What the NeuronCore lacks (float64, int64) is rounded to float32 first.
    dtype : numpy.dtype or str
        The target; any data type but a packed word.
    rounding : {"nearest", "stochastic"}
        To nearest, ties to even; or up or down by chance, with the probability of the distance. Integers, bool and
        float8_e8m0fnu are rounded to nearest under both.
    seed : int
        Of the draws of stochastic rounding, below 2**64. Element i takes draw i: the result does not depend on
        threads.
    overflow : {"ieee", "saturate"}
        What a too large value becomes: infinity, or NaN where there is none (float8_e4m3fn, float8_e8m0fnu); or the
        largest number of its sign, infinities too. FP6, FP4 and integers saturate under both.

    Returns
    -------
    numpy.ndarray
        A new array of the same shape.

    Raises
    ------
    trn3.errors.RuleError
        ``cast.packed``, ``cast.rounding``, ``cast.overflow``, ``cast.seed``, ``dtype.known``.

    Notes
    -----
    Bit-exact against ``ml_dtypes`` (``isa.md`` 4.2), NaN included, except that a NaN becomes float16's canonical
    quiet NaN where NumPy copies the payload. NaN to integer is 0. Equal data types copy the bits. Between two
    integers, more than 24 bits are lost on the way through float32.

    Examples
    --------
    >>> cast([1.0, 448.0, 500.0], "float8_e4m3fn", overflow="saturate").astype(np.float32)
    array([  1., 448., 448.], dtype=float32)
    """
    target = _dtype(dtype)
    source = np.asarray(array)
    known = _BY_NAME.get(str(source.dtype))
    source = np.asarray(source, dtype=float32 if known is None else known, order="C")
    for operand, each in (("array", source.dtype), ("dtype", target)):
        if each in _CODE_OF:
            raise RuleError(
                instruction="dtypes.cast",
                operand=operand,
                value=f"{each} is a word of four codes with a scale elsewhere",
                limit="one value an element",
                rule="cast.packed",
                fix="use trn3.mx.quantize and trn3.mx.dequantize, or dtypes.unpack_x4 for bare codes",
            )
    _check_choice("rounding", rounding, ("nearest", "stochastic"))
    _check_choice("overflow", overflow, ("ieee", "saturate"))
    if not 0 <= seed < 1 << 64:
        raise RuleError(
            instruction="dtypes.cast",
            operand="seed",
            value=str(seed),
            limit="0 to 2**64 - 1",
            rule="cast.seed",
            fix="take the seed modulo 2**64",
        )
    out = np.empty(source.shape, target)
    _native.convert(
        as_bytes(source),
        str(source.dtype),
        as_bytes(out),
        str(target),
        seed if rounding == "stochastic" else None,
        overflow == "saturate",
    )
    return out


def pack_x4(codes: npt.NDArray[Any], dtype: Any = None) -> npt.NDArray[Any]:
    """Pack each four codes of the last dimension into a word, the first lowest.

    Parameters
    ----------
    codes : numpy.ndarray, shape (..., 4 n)
        float8_e4m3fn, float8_e5m2 or float4_e2m1fn; or uint8 with codes of the element that `dtype` names.
    dtype : numpy.dtype or str, optional
        The element or its packed word; by default the element is the array's data type.

    Returns
    -------
    numpy.ndarray, shape (..., n)
        float8_e4m3fn_x4, float8_e5m2_x4 or float4_e2m1fn_x4.

    Raises
    ------
    trn3.errors.RuleError
        ``pack.element``, ``pack.multiple``.

    Notes
    -----
    ``isa.md`` 5.1: byte (FP8) or nibble (FP4) q of the little-endian word holds code q.

    Examples
    --------
    >>> words = pack_x4(np.array([1, 2, 3, 4], np.uint8), float4_e2m1fn)
    >>> hex(words.view(np.uint16)[0])
    '0x4321'
    """
    codes = np.asarray(codes)
    element = _element("dtypes.pack_x4", codes.dtype, dtype, uint8, 1)
    if codes.ndim == 0 or codes.shape[-1] % 4:
        raise RuleError(
            instruction="dtypes.pack_x4",
            operand="codes",
            value=f"shape is {codes.shape}",
            limit="a last dimension that is a multiple of 4",
            rule="pack.multiple",
            fix="pad the last dimension with zeros",
        )
    words = np.empty((*codes.shape[:-1], codes.shape[-1] // 4), _WORD_OF[element])
    _native.pack_x4(as_bytes(np.asarray(codes, order="C")), str(element), as_bytes(words))
    return words


def unpack_x4(words: npt.NDArray[Any], dtype: Any = None) -> npt.NDArray[Any]:
    """Unpack each word into four codes along the last dimension; the inverse of `pack_x4`.

    Parameters
    ----------
    words : numpy.ndarray, shape (..., n)
        float8_e4m3fn_x4, float8_e5m2_x4 or float4_e2m1fn_x4; or an unsigned integer of a word's size with `dtype`.
    dtype : numpy.dtype or str, optional
        The element or its packed word; by default the array's data type.

    Returns
    -------
    numpy.ndarray, shape (..., 4 n)
        float8_e4m3fn, float8_e5m2 or float4_e2m1fn.

    Raises
    ------
    trn3.errors.RuleError
        ``pack.element``, ``pack.multiple``.
    """
    words = np.asarray(words)
    size = words.dtype.itemsize
    element = _element("dtypes.unpack_x4", words.dtype, dtype, uint16 if size == 2 else uint32, size)
    if words.ndim == 0:
        raise RuleError(
            instruction="dtypes.unpack_x4",
            operand="words",
            value="shape is ()",
            limit="at least one dimension",
            rule="pack.multiple",
            fix="reshape it to (1,)",
        )
    codes = np.empty((*words.shape[:-1], words.shape[-1] * 4), element)
    _native.unpack_x4(as_bytes(np.asarray(words, order="C")), str(element), as_bytes(codes))
    return codes


def as_bytes(array: npt.NDArray[Any]) -> npt.NDArray[np.uint8]:
    """Return a C-contiguous array's bytes as a flat view: how arrays cross into the extension."""
    flat: npt.NDArray[np.uint8] = array.reshape(-1).view(np.uint8)
    return flat


_dtype = dtype  # For functions with a parameter of that name.


def element_of(dtype: Any) -> np.dtype[Any] | None:
    """Return the microscaled element that a data type (packed or not) has, or None."""
    found = _dtype(dtype)
    return found if found in _WORD_OF else _CODE_OF.get(found)


def _element(function: str, own: np.dtype[Any], asked: Any, carrier: np.dtype[Any], size: int) -> np.dtype[Any]:
    """Return the element of codes (size 1) or words that come as themselves or in unsigned integers."""
    named = element_of(own if asked is None else asked) if asked is not None or str(own) in _BY_NAME else None
    form = None if named is None else named if function == "dtypes.pack_x4" else _WORD_OF[named]
    if named is None or form is None or form.itemsize != size or own not in (form, carrier):
        raise RuleError(
            instruction=function,
            operand="codes" if function == "dtypes.pack_x4" else "words",
            value=f"{own} as {asked if asked is None else str(_dtype(asked))}",
            limit="float8_e4m3fn, float8_e5m2 or float4_e2m1fn, packed or not",
            rule="pack.element",
            fix="pass an array of that data type, or unsigned integers and the element as dtype",
        )
    return named


def _check_choice(operand: str, value: str, choices: tuple[str, ...]) -> None:
    if value not in choices:
        raise RuleError(
            instruction="dtypes.cast",
            operand=operand,
            value=repr(value),
            limit="one of " + ", ".join(map(repr, choices)),
            rule=f"cast.{operand}",
            fix="name one of them",
        )
