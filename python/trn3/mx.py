"""Microscaling (MX) codecs on arrays: groups of 32 elements that share a scale of a power of two.

`quantize` and `dequantize` work along any axis of an array. `pack_operand` and `unpack_operand` convert between a
matrix and the tiles that ``nc_matmul_mx`` reads: four contraction rows in a word, one scale byte for 8 partitions.

Two scale rules (``isa.md`` 5.4), with Emax = 8 for float8_e4m3fn, 15 for float8_e5m2 and 2 for float4_e2m1fn:

``"hardware"``
    2 ** (floor(log2(amax)) - (Emax - 1)): ``quantize_mx`` from NKI 0.5 on. Nothing saturates.
``"ocp"``
    2 ** (floor(log2(amax)) - Emax): the sample conversion of OCP MX v1.0, and ``quantize_mx`` up to NKI 0.4. The
    largest elements may saturate.

A group with a NaN or an infinity has scale byte 0xFF and elements NaN (float4_e2m1fn has none: its codes are 0); a
group of zeros has scale byte 0.
"""

from __future__ import annotations

from dataclasses import dataclass
from math import prod
from typing import Any, Final, Literal

import numpy as np
import numpy.typing as npt

from trn3 import _native, dtypes
from trn3.errors import RuleError

__all__ = ["GROUP", "MXArray", "dequantize", "pack_operand", "quantize", "unpack_operand"]

GROUP: Final = 32
"""Elements that share a scale."""

_SOURCES: Final = (dtypes.float32, dtypes.bfloat16, dtypes.float16)
_PARTITIONS: Final = 32
"""Partitions of a quadrant: a packed operand fills whole ones (``isa.md`` 5.2, 11.1)."""


@dataclass(frozen=True, eq=False)
class MXArray:
    """A microscaled array.

    Parameters
    ----------
    codes : numpy.ndarray
        float8_e4m3fn, float8_e5m2 or float4_e2m1fn, one code an element.
    scales : numpy.ndarray
        float8_e8m0fnu, of the shape of `codes` with the grouped axis divided by 32.
    axis : int
        The grouped axis, not negative.
    """

    codes: npt.NDArray[Any]
    scales: npt.NDArray[Any]
    axis: int

    @property
    def element(self) -> np.dtype[Any]:
        """Data type of the elements."""
        return self.codes.dtype

    @property
    def shape(self) -> tuple[int, ...]:
        """Shape of the array of values."""
        return self.codes.shape

    def dequantize(self) -> npt.NDArray[np.float32]:
        """Return the values; see `trn3.mx.dequantize`."""
        return dequantize(self.codes, self.scales, axis=self.axis)


def quantize(
    array: npt.ArrayLike,
    element: Any = "float8_e4m3fn",
    axis: int = -1,
    scale_rule: Literal["hardware", "ocp"] = "hardware",
    out: tuple[npt.NDArray[Any], npt.NDArray[Any]] | None = None,
) -> MXArray:
    """Quantise an array to a microscaled format.

    Parameters
    ----------
    array : array_like
        float32, bfloat16 or float16, of any shape; the size along `axis` is a multiple of 32.
    element : numpy.dtype or str
        float8_e4m3fn, float8_e5m2 or float4_e2m1fn.
    axis : int
        The axis along which 32 neighbours make a group.
    scale_rule : {"hardware", "ocp"}
        How a group's scale follows from its largest magnitude; see the module.
    out : tuple of two numpy.ndarray, optional
        C-contiguous arrays for codes (the element's data type) and scales (float8_e8m0fnu) to write into.

    Returns
    -------
    MXArray
        Codes, scales and axis.

    Raises
    ------
    trn3.errors.RuleError
        ``mx.element``, ``mx.source``, ``mx.axis``, ``mx.multiple``, ``mx.scale_rule``, ``mx.out``.

    Notes
    -----
    Bit-exact by the rule: the value over its scale is exact in float32 but for underflow, and is rounded to nearest
    even once. Source: ``isa.md`` 5.4; OCP Microscaling Formats MX v1.0 section 6.3.

    Examples
    --------
    >>> x = np.arange(32, dtype=np.float32)
    >>> mx = quantize(x, "float8_e4m3fn")
    >>> int(mx.scales.view(np.uint8)[0]), mx.codes[:4].astype(np.float32)
    (124, array([ 0.,  8., 16., 24.], dtype=float32))
    >>> bool((mx.dequantize()[:17] == x[:17]).all())
    True
    """
    function = "mx.quantize"
    source = np.asarray(array)
    code = _element(function, element)
    if source.dtype not in _SOURCES:
        raise RuleError(
            instruction=function,
            operand="array",
            value=f"data type is {source.dtype}",
            limit="float32, bfloat16 or float16",
            rule="mx.source",
            fix="convert it first, for example with .astype(np.float32)",
        )
    if scale_rule not in ("hardware", "ocp"):
        raise RuleError(
            instruction=function,
            operand="scale_rule",
            value=repr(scale_rule),
            limit="'hardware' or 'ocp'",
            rule="mx.scale_rule",
            fix="use 'hardware' for what quantize_mx does",
        )
    axis = _axis(function, "array", source.shape, axis)
    source = np.asarray(source, order="C")
    scale_shape = _scale_shape(source.shape, axis)
    if out is None:
        codes, scales = np.empty(source.shape, code), np.empty(scale_shape, dtypes.float8_e8m0fnu)
    else:
        codes, scales = out
        _check_out("codes", codes, source.shape, code)
        _check_out("scales", scales, scale_shape, dtypes.float8_e8m0fnu)
    _native.mx_quantize(
        dtypes.as_bytes(source),
        str(source.dtype),
        _extent(source.shape, axis),
        str(code),
        scale_rule,
        dtypes.as_bytes(codes),
        dtypes.as_bytes(scales),
    )
    return MXArray(codes, scales, axis)


def dequantize(
    codes: npt.NDArray[Any] | MXArray,
    scales: npt.NDArray[Any] | None = None,
    axis: int = -1,
    element: Any = None,
) -> npt.NDArray[np.float32]:
    """Return the values of a microscaled array.

    Parameters
    ----------
    codes : MXArray or numpy.ndarray
        A whole `MXArray`, or its codes: float8_e4m3fn, float8_e5m2 or float4_e2m1fn (or uint8 with `element`).
    scales : numpy.ndarray
        float8_e8m0fnu or uint8, of the shape of `codes` with the grouped axis divided by 32.
    axis : int
        The grouped axis.
    element : numpy.dtype or str, optional
        The element, where `codes` is uint8.

    Returns
    -------
    numpy.ndarray
        float32: the element times 2 ** (byte - 127). A scale byte 0xFF gives NaN; what exceeds float32 is infinite.

    Raises
    ------
    trn3.errors.RuleError
        ``mx.element``, ``mx.scales``, ``mx.axis``, ``mx.multiple``.
    """
    if isinstance(codes, MXArray):
        return codes.dequantize()
    function = "mx.dequantize"
    codes = np.asarray(codes, order="C")
    code = _element(function, codes.dtype if element is None else element)
    if codes.dtype not in (code, dtypes.uint8):
        raise RuleError(
            instruction=function,
            operand="codes",
            value=f"data type is {codes.dtype}",
            limit=f"{code} or uint8",
            rule="mx.element",
            fix="unpack words with dtypes.unpack_x4, or name the element that the codes have",
        )
    axis = _axis(function, "codes", codes.shape, axis)
    _check_scales(function, scales, _scale_shape(codes.shape, axis))
    out = np.empty(codes.shape, np.float32)
    _native.mx_dequantize(
        dtypes.as_bytes(codes),
        dtypes.as_bytes(np.asarray(scales, order="C")),
        _extent(codes.shape, axis),
        str(code),
        out.reshape(-1),
    )
    return out


def pack_operand(
    x: npt.ArrayLike,
    element: Any = "float8_e4m3fn",
    scale_rule: Literal["hardware", "ocp"] = "hardware",
    scale_offset: int = 0,
) -> tuple[npt.NDArray[Any], npt.NDArray[Any]]:
    """Quantise a matrix into the tiles that ``nc_matmul_mx`` reads.

    Parameters
    ----------
    x : array_like, shape (K, F)
        float32, bfloat16 or float16; K is the contraction: 128, 256, 384 or 512.
    element : numpy.dtype or str
        float8_e4m3fn, float8_e5m2 or float4_e2m1fn (packed or not).
    scale_rule : {"hardware", "ocp"}
        As in `quantize`.
    scale_offset : {0, 4, 8, 12}
        Partition of each quadrant at which the scales stand, so that four operands may share a scale tile.

    Returns
    -------
    words : numpy.ndarray, shape (K / 4, F)
        Packed words: element q of word (p, f) is ``x[p + q * K / 4, f]``.
    scales : numpy.ndarray, shape (K / 4, F)
        float8_e8m0fnu; the scale of word (p, f) is in row ``32 * (p // 32) + scale_offset + p % 32 // 8``. The other
        28 rows of 32 are byte 0 and are never read.

    Raises
    ------
    trn3.errors.RuleError
        ``mx.operand.shape``, ``mx.operand.scale_offset``, and those of `quantize`.

    Notes
    -----
    A group is 8 partitions by the four elements of a word (``isa.md`` 5.2, 5.3). With both operands packed alike,
    the result of the instruction is that of the plain matrix product.
    """
    function = "mx.pack_operand"
    source = np.asarray(x)
    if source.ndim != 2 or source.shape[0] not in (128, 256, 384, 512):
        raise RuleError(
            instruction=function,
            operand="x",
            value=f"shape is {source.shape}",
            limit="(K, F) with K = 128, 256, 384 or 512",
            rule="mx.operand.shape",
            fix="split K into pieces of at most 512 and pad the last one with zeros",
        )
    _check_offset(function, scale_offset)
    k, f = source.shape
    partitions = k // 4
    # K = (q, group, p % 8); a group's 32 values are brought together as (group, q, p % 8).
    grouped = source.reshape(4, partitions // 8, 8, f).swapaxes(0, 1).reshape(k, f)
    mx = quantize(grouped, element, axis=0, scale_rule=scale_rule)
    codes = mx.codes.reshape(partitions // 8, 4, 8, f).transpose(0, 2, 3, 1).reshape(partitions, 4 * f)
    scales = np.zeros((partitions, f), np.uint8)
    scales[_scale_rows(partitions, scale_offset)] = mx.scales.view(np.uint8)
    return dtypes.pack_x4(codes), scales.view(dtypes.float8_e8m0fnu)


def unpack_operand(
    words: npt.NDArray[Any], scales: npt.NDArray[Any], element: Any = None, scale_offset: int = 0
) -> npt.NDArray[np.float32]:
    """Return the matrix that a packed operand of ``nc_matmul_mx`` stands for; the inverse of `pack_operand`.

    Parameters
    ----------
    words : numpy.ndarray, shape (K / 4, F)
        Packed words (or unsigned integers of their size with `element`).
    scales : numpy.ndarray, shape (K / 4, F)
        float8_e8m0fnu or uint8. For K = 128 the rows up to the last one used are enough.
    element : numpy.dtype or str, optional
        The element, where `words` is of an integer type.
    scale_offset : {0, 4, 8, 12}
        Partition of each quadrant at which the scales stand.

    Returns
    -------
    numpy.ndarray, shape (K, F)
        float32.

    Raises
    ------
    trn3.errors.RuleError
        ``mx.operand.shape``, ``mx.operand.scale_offset``, ``mx.scales``, ``pack.element``.
    """
    function = "mx.unpack_operand"
    words = np.asarray(words)
    if words.ndim != 2 or words.shape[0] not in (32, 64, 96, 128):
        raise RuleError(
            instruction=function,
            operand="words",
            value=f"shape is {words.shape}",
            limit="(K / 4, F) with K / 4 = 32, 64, 96 or 128",
            rule="mx.operand.shape",
            fix="pass the whole packed tile",
        )
    _check_offset(function, scale_offset)
    partitions, f = words.shape
    rows = _scale_rows(partitions, scale_offset)
    short = partitions == _PARTITIONS and np.ndim(scales) == 2 and rows[-1] < len(scales) < partitions
    _check_scales(function, scales, (len(scales) if short else partitions, f))
    codes = dtypes.unpack_x4(words, element)
    grouped = codes.reshape(partitions // 8, 8, f, 4).transpose(0, 3, 1, 2).reshape(4 * partitions, f)
    values = dequantize(grouped, np.asarray(scales)[rows], axis=0)
    return values.reshape(partitions // 8, 4, 8, f).swapaxes(0, 1).reshape(4 * partitions, f)


def _scale_rows(partitions: int, offset: int) -> npt.NDArray[np.intp]:
    """Return the scale row of each group of 8 partitions (``isa.md`` 5.3)."""
    group = np.arange(partitions // 8)
    return _PARTITIONS * (group // 4) + offset + group % 4


def _element(function: str, element: Any) -> np.dtype[Any]:
    found = dtypes.element_of(element)
    if found is None:
        raise RuleError(
            instruction=function,
            operand="element",
            value=str(dtypes.dtype(element)),
            limit="float8_e4m3fn, float8_e5m2 or float4_e2m1fn",
            rule="mx.element",
            fix="name one of them",
        )
    return found


def _axis(function: str, operand: str, shape: tuple[int, ...], axis: int) -> int:
    """Return the axis counted from the front, after checking that groups fit along it."""
    if not -len(shape) <= axis < len(shape):
        raise RuleError(
            instruction=function,
            operand="axis",
            value=f"{axis} for shape {shape}",
            limit=f"{-len(shape)} to {len(shape) - 1}",
            rule="mx.axis",
            fix="name an axis that the array has",
        )
    if shape[axis] % GROUP:
        raise RuleError(
            instruction=function,
            operand=operand,
            value=f"size along axis {axis} is {shape[axis]}",
            limit=f"a multiple of {GROUP}",
            rule="mx.multiple",
            fix=f"pad that axis with zeros to {-(-shape[axis] // GROUP) * GROUP}, or group along another axis",
        )
    return axis % len(shape)


def _scale_shape(shape: tuple[int, ...], axis: int) -> tuple[int, ...]:
    return (*shape[:axis], shape[axis] // GROUP, *shape[axis + 1 :])


def _extent(shape: tuple[int, ...], axis: int) -> tuple[int, int, int]:
    return prod(shape[:axis]), shape[axis], prod(shape[axis + 1 :])


def _check_out(operand: str, array: npt.NDArray[Any], shape: tuple[int, ...], dtype: np.dtype[Any]) -> None:
    if array.shape != shape or array.dtype != dtype or not array.flags.c_contiguous or not array.flags.writeable:
        raise RuleError(
            instruction="mx.quantize",
            operand=f"out {operand}",
            value=f"{array.dtype} of shape {array.shape}",
            limit=f"{dtype} of shape {shape}, C-contiguous and writeable",
            rule="mx.out",
            fix="make it with np.empty of that shape and data type",
        )


def _check_scales(function: str, scales: npt.NDArray[Any] | None, shape: tuple[int, ...]) -> None:
    found = None if scales is None else np.asarray(scales)
    if found is None or found.shape != shape or found.dtype not in (dtypes.float8_e8m0fnu, dtypes.uint8):
        raise RuleError(
            instruction=function,
            operand="scales",
            value="missing" if found is None else f"{found.dtype} of shape {found.shape}",
            limit=f"float8_e8m0fnu or uint8 of shape {shape}",
            rule="mx.scales",
            fix=f"pass one scale for each {GROUP} elements",
        )


def _check_offset(function: str, offset: int) -> None:
    if offset not in (0, 4, 8, 12):
        raise RuleError(
            instruction=function,
            operand="scale_offset",
            value=str(offset),
            limit="0, 4, 8 or 12",
            rule="mx.operand.scale_offset",
            fix="place the scales at one of them",
        )
