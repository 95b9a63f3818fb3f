"""The language of kernels (``nki.language``): tensors, loops, operators, and calls that make a tile of their own.

Operators such as ``nl.add`` are values for the ``op`` of an instruction and functions on tiles. Functions allocate and
return a new SBUF tile; ``dtype=None`` means the input's. Names and parameters follow the public reference.
"""

from __future__ import annotations

import contextlib
from collections.abc import Iterator

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

from . import _session
from ._enums import MemoryRegion
from ._loops import dynamic_range, fori_loop, while_loop
from ._operators import (
    abs,
    abs_max,
    abs_min,
    add,
    all,
    arctan,
    average,
    bitwise_and,
    bitwise_or,
    bitwise_xor,
    bypass,
    ceil,
    cos,
    divide,
    equal,
    erf,
    erf_dx,
    exp,
    floor,
    fmod,
    gelu,
    gelu_apprx_sigmoid,
    gelu_apprx_sigmoid_dx,
    gelu_apprx_tanh,
    gelu_dx,
    greater,
    greater_equal,
    invert,
    left_shift,
    less,
    less_equal,
    log,
    logical_and,
    logical_not,
    logical_or,
    logical_xor,
    max,
    maximum,
    mean,
    min,
    minimum,
    mish,
    mod,
    multiply,
    negative,
    not_equal,
    power,
    prelu,
    prod,
    reciprocal,
    relu,
    right_shift,
    rms_norm,
    rsqrt,
    sigmoid,
    sign,
    silu,
    silu_dx,
    sin,
    softmax,
    softplus,
    sqrt,
    square,
    subtract,
    sum,
    tan,
    tanh,
    trunc,
    var,
    where,
)
from ._tensors import (
    NkiTensor,
    Tensor,
    broadcast_to,
    copy,
    device_print,
    ds,
    empty_like,
    expand_dims,
    full,
    hbm,
    is_hbm,
    is_on_chip,
    is_psum,
    is_sbuf,
    load,
    matmul,
    ndarray,
    ones,
    private_hbm,
    psum,
    sbuf,
    shared_constant,
    shared_hbm,
    shared_identity_matrix,
    store,
    tile_size,
    transpose,
    zeros,
    zeros_like,
)


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


@contextlib.contextmanager
def no_reorder() -> Iterator[None]:
    """Keep the program order of the instructions inside; the emulator keeps it everywhere.

    Raises
    ------
    RuleError
        A dynamic loop begins inside [loop.no_reorder].
    """
    session = _session.current("no_reorder")
    before = session.recorder.loops
    yield
    if session.recorder.loops != before:
        raise RuleError(
            instruction="no_reorder",
            operand="body",
            value="has a dynamic loop",
            limit="no_reorder holds straight code",
            fix="put the no_reorder block into the body of the loop",
            rule="loop.no_reorder",
        )


__all__ = [
    "MemoryRegion",
    "NkiTensor",
    "Tensor",
    "abs",
    "abs_max",
    "abs_min",
    "add",
    "affine_range",
    "all",
    "arctan",
    "average",
    "bfloat16",
    "bitwise_and",
    "bitwise_or",
    "bitwise_xor",
    "bool_",
    "broadcast_to",
    "bypass",
    "ceil",
    "copy",
    "cos",
    "device_print",
    "divide",
    "ds",
    "dynamic_range",
    "empty_like",
    "equal",
    "erf",
    "erf_dx",
    "exp",
    "expand_dims",
    "float16",
    "float32",
    "float4_e2m1fn_x4",
    "float8_e4m3",
    "float8_e4m3fn",
    "float8_e4m3fn_x4",
    "float8_e5m2",
    "float8_e5m2_x4",
    "float8_e8m0fnu",
    "floor",
    "fmod",
    "fori_loop",
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
    "logical_not",
    "logical_or",
    "logical_xor",
    "matmul",
    "max",
    "maximum",
    "mean",
    "min",
    "minimum",
    "mish",
    "mod",
    "multiply",
    "ndarray",
    "negative",
    "no_reorder",
    "not_equal",
    "num_programs",
    "ones",
    "power",
    "prelu",
    "private_hbm",
    "prod",
    "program_id",
    "program_ndim",
    "psum",
    "reciprocal",
    "relu",
    "right_shift",
    "rms_norm",
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
    "softmax",
    "softplus",
    "sqrt",
    "square",
    "static_range",
    "store",
    "subtract",
    "sum",
    "tan",
    "tanh",
    "tfloat32",
    "tile_size",
    "transpose",
    "trunc",
    "uint16",
    "uint32",
    "uint8",
    "var",
    "where",
    "while_loop",
    "zeros",
    "zeros_like",
]
