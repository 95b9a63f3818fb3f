"""The language of kernels (``nki.language``): tensors, loops, operators, and calls that make a tile of their own.

Operators such as ``nl.add`` are values for the ``op`` of an instruction and functions on tiles. Functions allocate and
return a new SBUF tile; ``dtype=None`` means the input's. Names and parameters follow the public reference.
"""

from __future__ import annotations

import builtins
from collections.abc import Callable, Iterator, Sequence
from typing import Any

import numpy as np

from trn3 import _native, dtypes
from trn3.dtypes import (
    bfloat16,
    bool_,
    float4_e2m1fn_x4,
    float8_e4m3,
    float8_e4m3fn,
    float8_e4m3fn_x4,
    float8_e5m2,
    float8_e5m2_x4,
    float8_e8m0fnu,
    float16,
    float32,
    int8,
    int16,
    int32,
    tfloat32,
    uint8,
    uint16,
    uint32,
)
from trn3.errors import RuleError

from . import _session, isa
from ._enums import MemoryRegion
from ._loops import dynamic_range, fori_loop, while_loop

NkiTensor = _native.NkiTensor

sbuf = MemoryRegion.sbuf
psum = MemoryRegion.psum
private_hbm = MemoryRegion.private_hbm
hbm = MemoryRegion.private_hbm
shared_hbm = MemoryRegion.shared_hbm

Tensor = Any
"""A tensor of the kernel."""


def is_sbuf(buffer: MemoryRegion) -> bool:
    """Return whether a buffer is SBUF."""
    return buffer is sbuf


def is_psum(buffer: MemoryRegion) -> bool:
    """Return whether a buffer is PSUM."""
    return buffer is psum


def is_on_chip(buffer: MemoryRegion) -> bool:
    """Return whether a buffer has partitions."""
    return buffer is sbuf or buffer is psum


def is_hbm(buffer: MemoryRegion) -> bool:
    """Return whether a buffer is device memory."""
    return not is_on_chip(buffer)


class _TileSize:
    """Sizes of the hardware that the kernel is recorded for, read from its table."""

    def __getattr__(self, name: str) -> int:
        sizes = _session.tile_sizes()
        if name in sizes:
            return sizes[name]
        raise AttributeError(f"nl.tile_size has no {name}; it has {', '.join(sorted(sizes))}")


tile_size = _TileSize()


# Tensors -------------------------------------------------------------------------------------------------------------


def ndarray(
    shape: Sequence[int],
    dtype: Any,
    buffer: MemoryRegion = sbuf,
    name: str = "",
    address: tuple[int, int] | None = None,
) -> Tensor:
    """Declare a tensor; its values are undefined until something writes them.

    Parameters
    ----------
    shape : sequence of int
        ``(P, F...)`` on chip, with at most 128 partitions; any shape in HBM.
    dtype : dtype
        A data type of ``nl``.
    buffer : MemoryRegion
        ``nl.sbuf``, ``nl.psum``, ``nl.private_hbm`` (``nl.hbm``) or ``nl.shared_hbm``.
    name : str
        Unique within the kernel; made up when empty.
    address : tuple of int, optional
        Not there yet.

    Raises
    ------
    RuleError
        tensor.shape, tensor.name_unique, partition.count_max.
    CapacityError
        capacity.sbuf, capacity.psum, capacity.hbm.
    """
    if address is not None:
        from trn3.errors import UnimplementedError

        raise UnimplementedError(
            instruction="ndarray",
            operand="address",
            value=f"is {address}",
            limit="trn3 places tensors itself so far",
            fix="leave it out",
            rule="tensor.address",
        )
    return _session.current("ndarray").recorder.tensor(shape, dtype, buffer, name)


def full(shape: Sequence[int], fill_value: Any, dtype: Any, buffer: MemoryRegion = sbuf, name: str = "") -> Tensor:
    """Return a new tensor filled with a constant."""
    tensor = ndarray(shape, dtype, buffer, name)
    if is_on_chip(buffer):
        isa.memset(tensor, _of_kind(fill_value, dtype))
        return tensor
    flat = tensor.reshape((tensor.size,))
    source = ndarray((1, builtins.min(tensor.size, 2048)), dtype)
    isa.memset(source, _of_kind(fill_value, dtype))
    for start in range(0, tensor.size, 2048):
        count = builtins.min(2048, tensor.size - start)
        isa.dma_copy(flat[start : start + count], source[:, 0:count])
    return tensor


def _of_kind(value: Any, dtype: Any) -> Any:
    return int(value) if dtypes.dtype(dtype).kind in "iub" else float(value)


def zeros(shape: Sequence[int], dtype: Any, buffer: MemoryRegion = sbuf, name: str = "") -> Tensor:
    """Return a new tensor of zeros."""
    return full(shape, 0, dtype, buffer, name)


def ones(shape: Sequence[int], dtype: Any, buffer: MemoryRegion = sbuf, name: str = "") -> Tensor:
    """Return a new tensor of ones."""
    return full(shape, 1, dtype, buffer, name)


def zeros_like(x: Tensor, dtype: Any = None, buffer: MemoryRegion | None = None, name: str = "") -> Tensor:
    """Return a new tensor of zeros of the shape of ``x``."""
    return zeros(x.shape, dtype or x.dtype, buffer or x.buffer, name)


def empty_like(x: Tensor, dtype: Any = None, buffer: MemoryRegion | None = None, name: str = "") -> Tensor:
    """Return a new tensor of the shape of ``x``."""
    return ndarray(x.shape, dtype or x.dtype, buffer or x.buffer, name)


def shared_constant(constant: Any, dtype: Any = None) -> Tensor:
    """Return an HBM tensor that holds a NumPy array; the Program carries its values."""
    array = np.ascontiguousarray(constant if dtype is None else np.asarray(constant).astype(dtypes.dtype(dtype)))
    return _session.current("shared_constant").recorder.constant("", dtypes.dtype(array.dtype), array)


def shared_identity_matrix(n: int, dtype: Any = uint8) -> Tensor:
    """Return an ``(n, n)`` identity matrix in SBUF."""
    source = shared_constant(np.eye(n, dtype=np.float32).astype(dtypes.dtype(dtype)))
    tile = ndarray((n, n), dtype)
    isa.dma_copy(tile, source)
    return tile


def ds(start: int, size: int) -> slice:
    """Return the index of ``size`` positions from ``start``."""
    return slice(start, start + size)


# Loops and grid ------------------------------------------------------------------------------------------------------


def static_range(start: int, stop: int | None = None, step: int = 1) -> Iterator[int]:
    """Iterate over integers; the loop is unrolled while recording."""
    return iter(range(start) if stop is None else range(start, stop, step))


affine_range = static_range
sequential_range = static_range


def program_id(axis: int = 0) -> int:
    """Return the kernel's position in the launch grid; 0 without one."""
    position = _session.current("program_id").position
    return position[axis] if axis < len(position) else 0


def num_programs(axes: int = 0) -> int:
    """Return the size of the launch grid; 1 without one."""
    grid = _session.current("num_programs").grid
    return grid[axes] if axes < len(grid) else 1


def program_ndim() -> int:
    """Return the rank of the launch grid; 0 without one."""
    return len(_session.current("program_ndim").grid)


# Movement ------------------------------------------------------------------------------------------------------------


def load(src: Tensor, dtype: Any = None) -> Tensor:
    """Return a new SBUF tile with the values of an HBM tensor, ``(P, F...)`` with P at most 128."""
    tile = ndarray(src.shape if src.ndim > 1 else (1, *src.shape), dtype or src.dtype)
    isa.dma_copy(tile, src)
    return tile


def store(dst: Tensor, value: Tensor) -> None:
    """Write a tile to an HBM tensor of as many elements."""
    if value.buffer is psum:
        value = copy(value)
    isa.dma_copy(dst, value)


def copy(x: Tensor, dtype: Any = None) -> Tensor:
    """Return a new SBUF tile with the values of ``x``, bit exact if the data type stays."""
    tile = ndarray(x.shape, dtype or x.dtype)
    isa.tensor_copy(tile, x)
    return tile


def transpose(x: Tensor, dtype: Any = None) -> Tensor:
    """Return a new tile ``(F, P)``: ``x`` with partitions and free elements swapped; in PSUM from TensorE."""
    rows, columns = x.shape[0], x.size // x.shape[0]
    small = rows <= 32 and columns <= 32
    tile = ndarray((columns, rows), x.dtype, sbuf if small else psum)
    isa.nc_transpose(tile, x)
    return tile if dtype is None or dtypes.dtype(dtype) == x.dtype else copy(tile, dtype)


def matmul(x: Tensor, y: Tensor, transpose_x: bool = False) -> Tensor:
    """Return ``x.T @ y`` (with ``transpose_x=True``) or ``x @ y`` as a new float32 tile in PSUM."""
    if not transpose_x:
        x = copy(transpose(x))
    tile = ndarray((x.size // x.shape[0], y.size // y.shape[0]), float32, psum)
    isa.nc_matmul(tile, x, y)
    return tile


# Operators -----------------------------------------------------------------------------------------------------------


def _binary(name: str, doc: str) -> Callable[..., Any]:
    def operator(x: Tensor, y: Any, dtype: Any = None) -> Tensor:
        if not isinstance(x, NkiTensor):
            if not isinstance(y, NkiTensor):
                raise RuleError(
                    instruction=f"nl.{name}",
                    operand="x",
                    value="is no tensor, and neither is y",
                    limit="one operand is a tile",
                    fix="compute constants in Python",
                    rule="argument.type",
                )
            tile = ndarray(y.shape, dtype or y.dtype)
            isa.tensor_scalar(tile, y, operator, x, reverse0=True)
            return tile
        tile = ndarray(x.shape, dtype or x.dtype)
        if isinstance(y, NkiTensor) and (y.shape == x.shape or y.size != y.shape[0]):
            isa.tensor_tensor(tile, x, y, operator)
        else:
            isa.tensor_scalar(tile, x, operator, y)
        return tile

    operator.__name__ = operator.__qualname__ = name
    operator.__doc__ = f"Return a new tile: {doc}; also an ``op`` of instructions. ``y`` may be a constant or (P, 1)."
    return operator


add = _binary("add", "x + y")
subtract = _binary("subtract", "x - y")
multiply = _binary("multiply", "x * y")
maximum = _binary("maximum", "the larger of x and y")
minimum = _binary("minimum", "the smaller of x and y")
power = _binary("power", "x ** y, on GpSimdE")
equal = _binary("equal", "1 where x == y, else 0")
not_equal = _binary("not_equal", "1 where x != y, else 0")
less = _binary("less", "1 where x < y, else 0")
less_equal = _binary("less_equal", "1 where x <= y, else 0")
greater = _binary("greater", "1 where x > y, else 0")
greater_equal = _binary("greater_equal", "1 where x >= y, else 0")
logical_and = _binary("logical_and", "1 where both are not 0, else 0")
logical_or = _binary("logical_or", "1 where one is not 0, else 0")
logical_xor = _binary("logical_xor", "1 where one but not both is not 0, else 0")
bitwise_and = _binary("bitwise_and", "x & y of integers")
bitwise_or = _binary("bitwise_or", "x | y of integers")
bitwise_xor = _binary("bitwise_xor", "x ^ y of integers")
left_shift = _binary("left_shift", "x << y of integers")
right_shift = _binary("right_shift", "x >> y of integers, without the sign")
abs_max = _binary("abs_max", "the operand of larger magnitude")
abs_min = _binary("abs_min", "the operand of smaller magnitude")


def _function(name: str, doc: str) -> Callable[..., Any]:
    def function(x: Tensor, dtype: Any = None) -> Tensor:
        tile = ndarray(x.shape, dtype or x.dtype)
        isa.activation(tile, function, x)
        return tile

    function.__name__ = function.__qualname__ = name
    function.__doc__ = f"Return a new tile: {doc} on ScalarE; also an ``op`` of ``nki.isa.activation``."
    return function


exp = _function("exp", "e ** x")
log = _function("log", "the natural logarithm")
sqrt = _function("sqrt", "the square root")
rsqrt = _function("rsqrt", "1 / sqrt(x)")
reciprocal = _function("reciprocal", "1 / x")
square = _function("square", "x ** 2")
abs = _function("abs", "the magnitude")
sign = _function("sign", "-1, 0 or 1")
relu = _function("relu", "max(x, 0)")
sigmoid = _function("sigmoid", "1 / (1 + exp(-x))")
tanh = _function("tanh", "the hyperbolic tangent")
sin = _function("sin", "the sine within [-pi, pi]")
arctan = _function("arctan", "the arc tangent")
erf = _function("erf", "the error function")
erf_dx = _function("erf_dx", "the derivative of erf")
gelu = _function("gelu", "x times the normal distribution at x")
gelu_dx = _function("gelu_dx", "the derivative of gelu")
gelu_apprx_tanh = _function("gelu_apprx_tanh", "gelu by its tanh approximation")
gelu_apprx_sigmoid = _function("gelu_apprx_sigmoid", "gelu by its sigmoid approximation")
gelu_apprx_sigmoid_dx = _function("gelu_apprx_sigmoid_dx", "the derivative of gelu_apprx_sigmoid")
silu = _function("silu", "x * sigmoid(x)")
silu_dx = _function("silu_dx", "the derivative of silu")
softplus = _function("softplus", "log(1 + exp(x))")
mish = _function("mish", "x * tanh(softplus(x))")


def invert(x: Tensor, dtype: Any = None) -> Tensor:
    """Return a new tile: every bit of integers inverted; also an ``op`` of instructions."""
    tile = ndarray(x.shape, dtype or x.dtype)
    isa.tensor_scalar(tile, x, invert, None)
    return tile


def negative(x: Tensor, dtype: Any = None) -> Tensor:
    """Return a new tile: -x."""
    return multiply(x, -1.0, dtype)


# Reductions ----------------------------------------------------------------------------------------------------------


def _reduced(x: Tensor, axis: int | Sequence[int], keepdims: bool) -> tuple[int, ...]:
    axes = {a % x.ndim for a in ([axis] if isinstance(axis, int) else axis)}
    shape = tuple(1 if a in axes else n for a, n in enumerate(x.shape) if keepdims or a not in axes)
    return shape if len(shape) > 1 else (*shape, 1)


def _reduction(name: str, operator: Callable[..., Any], doc: str) -> Callable[..., Any]:
    def reduction(x: Tensor, axis: int | Sequence[int], dtype: Any = None, keepdims: bool = False) -> Tensor:
        tile = ndarray(_reduced(x, axis, keepdims), dtype or x.dtype)
        isa.tensor_reduce(tile, operator, x, axis)
        return tile

    reduction.__name__ = reduction.__qualname__ = name
    reduction.__doc__ = f"Return a new tile: {doc} along trailing free dimensions."
    return reduction


sum = _reduction("sum", add, "the sum")
max = _reduction("max", maximum, "the largest value")
min = _reduction("min", minimum, "the smallest value")
prod = _reduction("prod", multiply, "the product")

__all__ = [
    "while_loop",
    "fori_loop",
    "dynamic_range",
    "MemoryRegion",
    "NkiTensor",
    "Tensor",
    "abs",
    "abs_max",
    "abs_min",
    "add",
    "affine_range",
    "arctan",
    "bfloat16",
    "bitwise_and",
    "bitwise_or",
    "bitwise_xor",
    "bool_",
    "copy",
    "ds",
    "empty_like",
    "equal",
    "erf",
    "erf_dx",
    "exp",
    "float16",
    "float32",
    "float4_e2m1fn_x4",
    "float8_e4m3",
    "float8_e4m3fn",
    "float8_e4m3fn_x4",
    "float8_e5m2",
    "float8_e5m2_x4",
    "float8_e8m0fnu",
    "full",
    "gelu",
    "gelu_apprx_sigmoid",
    "gelu_apprx_sigmoid_dx",
    "gelu_apprx_tanh",
    "gelu_dx",
    "greater",
    "greater_equal",
    "hbm",
    "int16",
    "int32",
    "int8",
    "invert",
    "is_hbm",
    "is_on_chip",
    "is_psum",
    "is_sbuf",
    "left_shift",
    "less",
    "less_equal",
    "load",
    "log",
    "logical_and",
    "logical_or",
    "logical_xor",
    "matmul",
    "max",
    "maximum",
    "min",
    "minimum",
    "mish",
    "multiply",
    "ndarray",
    "negative",
    "not_equal",
    "num_programs",
    "ones",
    "power",
    "private_hbm",
    "prod",
    "program_id",
    "program_ndim",
    "psum",
    "reciprocal",
    "relu",
    "right_shift",
    "rsqrt",
    "sbuf",
    "sequential_range",
    "shared_constant",
    "shared_hbm",
    "shared_identity_matrix",
    "sigmoid",
    "sign",
    "silu",
    "silu_dx",
    "sin",
    "softplus",
    "sqrt",
    "square",
    "static_range",
    "store",
    "subtract",
    "sum",
    "tanh",
    "tfloat32",
    "tile_size",
    "transpose",
    "uint16",
    "uint32",
    "uint8",
    "zeros",
    "zeros_like",
]
