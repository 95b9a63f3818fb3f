"""The instructions of the NeuronCore (``nki.isa``).

Generated from the instruction table by ``python tools/generate_isa.py``; do not edit. Each instruction records itself
in the kernel that its tensors belong to; operands may be given by position or by keyword.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from trn3._native import VirtualRegister
from trn3._native import emit as _emit

from . import _session
from ._enums import dge_mode, dma_engine, engine, matmul_perf_mode, nc_version, oob_mode, reduce_cmd

__all__ = [
    "NkiInstruction",
    "VirtualRegister",
    "activation",
    "activation_reduce",
    "affine_select",
    "bn_aggr",
    "bn_stats",
    "core_barrier",
    "dge_mode",
    "dma_compute",
    "dma_copy",
    "dma_engine",
    "dma_transpose",
    "engine",
    "exponential",
    "get_nc_version",
    "gpsimd_engine",
    "iota",
    "local_gather",
    "matmul_perf_mode",
    "max8",
    "memset",
    "nc_find_index8",
    "nc_match_replace8",
    "nc_matmul",
    "nc_matmul_mx",
    "nc_n_gather",
    "nc_stream_shuffle",
    "nc_transpose",
    "nc_version",
    "nonzero_with_count",
    "oob_mode",
    "quantize_mx",
    "range_select",
    "reciprocal",
    "reduce_cmd",
    "register_alloc",
    "register_load",
    "register_move",
    "register_store",
    "scalar_engine",
    "scalar_tensor_tensor",
    "select_reduce",
    "sendrecv",
    "sequence_bounds",
    "tensor_copy",
    "tensor_copy_predicated",
    "tensor_engine",
    "tensor_partition_reduce",
    "tensor_reduce",
    "tensor_scalar",
    "tensor_scalar_cumulative",
    "tensor_scalar_reduce",
    "tensor_tensor",
    "tensor_tensor_scan",
    "unknown_engine",
    "vector_engine",
]

tensor_engine = engine.tensor
vector_engine = engine.vector
scalar_engine = engine.scalar
gpsimd_engine = engine.gpsimd
unknown_engine = engine.unknown


def _operator(name: str) -> Callable[..., Any]:
    """Return what names an operator of ``nki.language``, which this module cannot import."""

    def operator() -> None:
        """Nothing to call: a name for an instruction."""

    operator.__name__ = name
    return operator


_equal = _operator("equal")
_maximum = _operator("maximum")


class NkiInstruction:
    """What an instruction returns: a handle that names it."""

    __slots__ = ("name",)

    def __init__(self, name: str | None) -> None:
        self.name = name


def register_alloc(x: int | None = None) -> VirtualRegister:
    """Return a new register of the sequencers.

    Parameters
    ----------
    x : int, optional
        Its first value, 32 bits; without one it is undefined until something writes it.

    Raises
    ------
    RuleError
        register.value.
    """
    return _session.current("register_alloc").recorder.register(x)


def get_nc_version() -> nc_version:
    """Return the generation of the NeuronCore that the kernel is recorded for (outside of one: the default target)."""
    return _session.generation()


def nc_matmul(
    dst: Any,
    stationary: Any,
    moving: Any,
    is_stationary_onezero: Any = False,
    is_moving_onezero: Any = False,
    is_transpose: Any = False,
    accumulate: Any = None,
    tile_position: Any = (),
    tile_size: Any = (),
    perf_mode: Any = matmul_perf_mode.none,
    name: str | None = None,
) -> NkiInstruction:
    """Matrix product of a stationary and a moving tile into PSUM.

    ``r[m, n] = sum over k of stationary[k, m] * moving[k, n]``; ``perf_mode=double_row`` contracts over (k, j) with
    operands of shape (K, 2, M) and (K, 2, N). The partial sum takes PE row 0 first, one FP32 rounding a row (FP32
    operands: the product is rounded too). PSUM then takes ``r`` or ``dst + r``; a BF16 ``dst`` rounds once more.
    ``is_transpose`` moves bits: ``dst[m, n] = stationary[k, m]`` where ``moving[k, n]`` is the single 1 of column n;
    on v2 it only marks the product, which spreads NaN and infinity.

    Parameters
    ----------
    dst
        PSUM, (M, N), float32 or (v4) bfloat16; with is_transpose the data dtype (v2: float32).
    stationary
        SBUF, (K, M), K and M at most 128; (K, 2, M) in double row mode.
    moving
        SBUF, (K, N), N at most 512 before v4, 4096 (float32 dst) or 8192 (bfloat16 dst) on v4; (K, 2, N) in double
        row mode.
    is_stationary_onezero
        Hint that a float32 stationary holds only 0 and 1: half the passes.
    is_moving_onezero
        The same for moving.
    is_transpose
        Transpose mode, bit exact from v3; on v2 a mark for profiles.
    accumulate
        False overwrites, True adds, None overwrites what no product has written yet and adds to the rest.
    tile_position
        (row, column) where the array tile starts.
    tile_size
        (rows, columns) of the array tile: 128, 64 or (from v3) 32 each.
    perf_mode
        matmul_perf_mode.double_row doubles the FP8 rate, from v3.
    name : str, optional
        Label for profiles.

    Raises
    ------
    RuleError
        matmul.stationary.free_max, matmul.moving.free_max, matmul.contraction, matmul.dst.shape, matmul.dtype_pair,
        matmul.dtype, matmul.dst.dtype, matmul.double_row, matmul.double_row_generation, matmul.tile,
        matmul.tile_operands, matmul.dst.bank, matmul.transpose_identity, or a rule of all operands.

    Notes
    -----
    Engines: tensor. Values: modelled where the public documents leave something open. Source:
    nki/api/nki/isa/__init__.py, nc_matmul; nki/guides/architecture/trainium3_arch.rst.
    """
    _emit(0, name, dst, stationary, moving, is_stationary_onezero, is_moving_onezero, is_transpose, accumulate, tile_position, tile_size, perf_mode)
    return NkiInstruction(name)


def nc_matmul_mx(
    dst: Any,
    stationary: Any,
    moving: Any,
    stationary_scale: Any,
    moving_scale: Any,
    tile_position: Any = None,
    tile_size: Any = None,
    accumulate: Any = None,
    name: str | None = None,
) -> NkiInstruction:
    """Matrix product of two microscaled tiles into PSUM.

    ``r[m, n] = sum over p, q of s[p, m, q] * t[p, n, q] * 2**(ss - 127) * 2**(ms - 127)``: each packed word holds
    four codes, each scale byte covers 8 partitions of one packed column. Products are taken with p outermost, one
    FP32 rounding each. A scale of 0xFF makes its products NaN.

    Parameters
    ----------
    dst
        PSUM, (M, N), float32 or bfloat16.
    stationary
        SBUF, (K/4, M) packed words, K/4 a multiple of 32 up to 128, M even and at most 128.
    moving
        SBUF, (K/4, N) packed words, N at most 4096 (float32 dst) or 8192 (bfloat16 dst).
    stationary_scale
        SBUF, float8_e8m0fnu or uint8; (K/32, M) up to 32 partitions of data, else (K/4, M) with 4 rows of each
        quadrant used.
    moving_scale
        The same for moving, with N columns.
    tile_position
        (row, 0) where the array tile starts.
    tile_size
        (rows, 128): 128, 64 or 32 rows.
    accumulate
        As in nc_matmul.
    name : str, optional
        Label for profiles.

    Raises
    ------
    RuleError
        matmul_mx.generation, matmul_mx.dtype, matmul_mx.partitions, matmul_mx.free, matmul_mx.dst.shape,
        matmul_mx.scale, or a rule of all operands.

    Notes
    -----
    Engines: tensor. Values: modelled where the public documents leave something open. Source:
    nki/api/nki/isa/__init__.py, nc_matmul_mx; nki/deep-dives/mxfp-matmul.rst.
    """
    _emit(1, name, dst, stationary, moving, stationary_scale, moving_scale, tile_position, tile_size, accumulate)
    return NkiInstruction(name)


def nc_transpose(
    dst: Any,
    data: Any,
    engine: Any = engine.unknown,
    name: str | None = None,
) -> NkiInstruction:
    """2-D transpose: ``dst[f, p] = data[p, f]``, bit exact.

    On TensorE up to 128x128 from SBUF to PSUM, on VectorE up to 32x32 between SBUF and PSUM. With engine.unknown
    TensorE is chosen when dst is in PSUM or the tile is larger than 32x32. On v2 TensorE multiplies by the identity:
    dst is float32, -0 becomes 0, and NaN or infinity spreads over its row of dst.

    Parameters
    ----------
    dst
        (F, P): PSUM on TensorE, SBUF or PSUM on VectorE.
    data
        (P, F): SBUF on TensorE, SBUF or PSUM on VectorE; the dtype of dst (TensorE of v2: a matmul dtype).
    engine
        engine.tensor, engine.vector or engine.unknown.
    name : str, optional
        Label for profiles.

    Raises
    ------
    RuleError
        transpose.shape, transpose.size_max, transpose.dtype, or a rule of all operands.

    Notes
    -----
    Engines: tensor, vector. Values: bit-exact by a public rule. Source: nki/api/nki/isa/__init__.py, nc_transpose.
    """
    _emit(2, name, dst, data, engine)
    return NkiInstruction(name)


def activation(
    dst: Any,
    op: Any,
    data: Any,
    bias: Any = None,
    scale: Any = 1.0,
    reduce_op: Any = None,
    reduce_res: Any = None,
    reduce_cmd: Any = reduce_cmd.idle,
    name: str | None = None,
) -> NkiInstruction:
    """``y = op(data * scale + bias)``; ``dst = y``; optionally the sum of y along the free dimensions.

    FP32 inside; the product and the sum round once each (whether the hardware fuses them is not published). The
    function is exact to its stated bound, where the hardware's tables are approximate and unpublished. One FP32
    accumulator a partition persists across instructions: reduce_cmd reset sets it to 0, reduce adds the row's sum,
    reset_reduce does both, idle leaves it; reduce_res copies it out.

    Parameters
    ----------
    dst
        SBUF or PSUM, (P, F), any type.
    op
        An activation function of nki.language.
    data
        SBUF or PSUM, (P, F).
    bias
        (P, 1) tile or (from v3) constant.
    scale
        float32 (P, 1) tile or constant.
    reduce_op
        nl.add.
    reduce_res
        (P, 1) tile for the accumulator.
    reduce_cmd
        What happens to the accumulator.
    name : str, optional
        Label for profiles.

    Raises
    ------
    RuleError
        activation.op, activation.reduce, activation.bias, or a rule of all operands.

    Notes
    -----
    Engines: scalar. Values: modelled where the public documents leave something open. Source:
    nki/api/nki/isa/__init__.py, activation; nki/api/nki.api.shared.rst.
    """
    _emit(3, name, dst, op, data, bias, scale, reduce_op, reduce_res, reduce_cmd)
    return NkiInstruction(name)


def activation_reduce(
    dst: Any,
    op: Any,
    data: Any,
    reduce_op: Any,
    reduce_res: Any,
    bias: Any = None,
    scale: Any = 1.0,
    name: str | None = None,
) -> NkiInstruction:
    """``y = op(data * scale + bias)``; ``dst = y``; ``reduce_res`` = the sum of y along the free dimensions.

    The same as activation with reduce_cmd.reset_reduce, and with the same accumulators; without ``reduce_res`` the
    sum stays in them.

    Parameters
    ----------
    dst
        SBUF or PSUM, (P, F), any type.
    op
        An activation function of nki.language.
    data
        SBUF or PSUM, (P, F).
    reduce_op
        nl.add.
    reduce_res
        (P, 1) tile for the sum, or None.
    bias
        (P, 1) tile or (from v3) constant.
    scale
        float32 (P, 1) tile or constant.
    name : str, optional
        Label for profiles.

    Raises
    ------
    RuleError
        activation.op, activation.reduce, activation.bias, or a rule of all operands.

    Notes
    -----
    Engines: scalar. Values: modelled where the public documents leave something open. Source:
    nki/api/nki/isa/__init__.py, activation_reduce.
    """
    _emit(4, name, dst, op, data, reduce_op, reduce_res, bias, scale)
    return NkiInstruction(name)


def tensor_tensor(
    dst: Any,
    data1: Any,
    data2: Any,
    op: Any,
    engine: Any = engine.unknown,
    name: str | None = None,
) -> NkiInstruction:
    """Elementwise ``dst = op(data1, data2)``.

    Arithmetic is FP32 inside, whatever the data types; bit operators work on integer bit patterns; on GpSimdE int32
    and uint32 add, subtract and multiply are exact 32-bit integers that wrap. With engine.unknown GpSimdE runs
    nl.power, and everything whose operands are all int32 or uint32 in SBUF; VectorE runs the rest.

    Parameters
    ----------
    dst
        SBUF or PSUM (GpSimdE: SBUF), (P, F), any type.
    data1
        SBUF or PSUM, (P, F); not both inputs in PSUM.
    data2
        SBUF or PSUM, (P, F).
    op
        A binary operator of nki.language.
    engine
        engine.vector, engine.gpsimd or engine.unknown.
    name : str, optional
        Label for profiles.

    Raises
    ------
    RuleError
        tensor_tensor.dtype, or a rule of all operands.

    Notes
    -----
    Engines: vector, gpsimd. Values: bit-exact by a public rule. Source: nki/api/nki/isa/__init__.py, tensor_tensor.
    """
    _emit(5, name, dst, data1, data2, op, engine)
    return NkiInstruction(name)


def tensor_scalar(
    dst: Any,
    data: Any,
    op0: Any,
    operand0: Any,
    reverse0: Any = False,
    op1: Any = None,
    operand1: Any = None,
    reverse1: Any = False,
    engine: Any = engine.unknown,
    name: str | None = None,
) -> NkiInstruction:
    """``t = op0(data, operand0)``, then ``dst = op1(t, operand1)``; ``reverse0``/``reverse1`` swap the operands.

    Arithmetic is FP32 inside; bit operators work on integer bit patterns. Both operators are of one class.

    Parameters
    ----------
    dst
        SBUF or PSUM, (P, F).
    data
        SBUF or PSUM, (P, F).
    op0
        First operator.
    operand0
        Constant or (P, 1) tile; None or 0 for a unary op0.
    reverse0
        op0(operand0, data) instead.
    op1
        Second operator.
    operand1
        Constant or (P, 1) tile.
    reverse1
        op1(operand1, t) instead.
    engine
        engine.vector, engine.scalar, engine.gpsimd (rsqrt only) or engine.unknown.
    name : str, optional
        Label for profiles.

    Raises
    ------
    RuleError
        tensor_scalar.class, tensor_scalar.bitvec, tensor_scalar.scalar_engine,
        tensor_scalar.scalar_engine_generation, or a rule of all operands.

    Notes
    -----
    Engines: vector, scalar, gpsimd. Values: bit-exact by a public rule. Source: nki/api/nki/isa/__init__.py,
    tensor_scalar.
    """
    _emit(6, name, dst, data, op0, operand0, reverse0, op1, operand1, reverse1, engine)
    return NkiInstruction(name)


def tensor_copy(
    dst: Any,
    src: Any,
    engine: Any = engine.unknown,
    name: str | None = None,
) -> NkiInstruction:
    """Copies a tile within or between SBUF and PSUM, element by element in order.

    Bit exact when the data types are equal, else through FP32.

    Parameters
    ----------
    dst
        SBUF or PSUM (GpSimdE: SBUF), (P, F), any type.
    src
        SBUF or PSUM (GpSimdE: SBUF), the same P and number of elements.
    engine
        engine.vector, engine.scalar (from v3), engine.gpsimd or engine.unknown (VectorE).
    name : str, optional
        Label for profiles.

    Raises
    ------
    RuleError
        tensor_copy.scalar_engine, or a rule of all operands.

    Notes
    -----
    Engines: vector, scalar, gpsimd. Values: bit-exact by a public rule. Source: nki/api/nki/isa/__init__.py,
    tensor_copy.
    """
    _emit(7, name, dst, src, engine)
    return NkiInstruction(name)


def tensor_reduce(
    dst: Any,
    op: Any,
    data: Any,
    axis: Any,
    negate: Any = False,
    keepdims: Any = False,
    name: str | None = None,
) -> NkiInstruction:
    """Reduces the trailing free dimensions named by ``axis``.

    FP32, strictly from the first element to the last, one rounding a step (a public Trn1 data set agrees bit for bit
    for sums); bit operators work on integer bit patterns. ``negate`` multiplies the result by -1.

    Parameters
    ----------
    dst
        SBUF or PSUM, (P, kept elements).
    op
        An operator that reduces, such as nl.add or nl.maximum.
    data
        SBUF or PSUM, (P, F...).
    axis
        Trailing free dimensions: an int or a tuple, never 0.
    negate
        Negate the result (arithmetic only).
    keepdims
        Reduced dimensions stay with size 1; no effect on values.
    name : str, optional
        Label for profiles.

    Raises
    ------
    RuleError
        tensor_reduce.axis, tensor_reduce.dst.shape, tensor_reduce.bitvec, or a rule of all operands.

    Notes
    -----
    Engines: vector. Values: bit-exact by a public rule. Source: nki/api/nki/isa/__init__.py, tensor_reduce.
    """
    _emit(8, name, dst, op, data, axis, negate, keepdims)
    return NkiInstruction(name)


def reciprocal(
    dst: Any,
    data: Any,
    name: str | None = None,
) -> NkiInstruction:
    """``dst = 1 / data``, rounded once in FP32: more precise than ScalarE's function of that name.

    Parameters
    ----------
    dst
        SBUF or PSUM, (P, F), any type.
    data
        SBUF or PSUM, (P, F), any type.
    name : str, optional
        Label for profiles.

    Notes
    -----
    Engines: vector. Values: modelled where the public documents leave something open. Source:
    nki/api/nki/isa/__init__.py, reciprocal; nki/api/nki.api.shared.rst.
    """
    _emit(9, name, dst, data)
    return NkiInstruction(name)


def scalar_tensor_tensor(
    dst: Any,
    data: Any,
    op0: Any,
    operand0: Any,
    op1: Any,
    operand1: Any,
    reverse0: Any = False,
    reverse1: Any = False,
    name: str | None = None,
) -> NkiInstruction:
    """``dst = op1(op0(data, operand0), operand1)``; reverse0 and reverse1 swap an operator's operands.

    FP32 inside, rounded after each operator.

    Parameters
    ----------
    dst
        SBUF or PSUM, (P, F), any type.
    data
        SBUF or PSUM, (P, F), any type.
    op0
        An arithmetic operator.
    operand0
        (P, 1) tile or constant; None or 0 for a unary op0.
    op1
        An arithmetic operator of two operands.
    operand1
        SBUF or PSUM, (P, F); not in PSUM together with data.
    reverse0
        operand0 is op0's left.
    reverse1
        operand1 is op1's left.
    name : str, optional
        Label for profiles.

    Raises
    ------
    RuleError
        scalar_tensor_tensor.operators, or a rule of all operands.

    Notes
    -----
    Engines: vector. Values: bit-exact by a public rule. Source: nki/api/nki/isa/__init__.py, scalar_tensor_tensor.
    """
    _emit(10, name, dst, data, op0, operand0, op1, operand1, reverse0, reverse1)
    return NkiInstruction(name)


def tensor_copy_predicated(
    dst: Any,
    src: Any,
    predicate: Any,
    reverse_pred: Any = False,
    name: str | None = None,
) -> NkiInstruction:
    """``dst = src`` where ``predicate`` is not 0 (with reverse_pred: where it is 0); elsewhere ``dst`` stays.

    Bits are copied; a number as ``src`` is converted to dst's data type once.

    Parameters
    ----------
    dst
        SBUF or PSUM, (P, F), any type.
    src
        SBUF or PSUM, (P, F) of dst's type, or a number.
    predicate
        uint8, uint16 or uint32, (P, F) in SBUF or PSUM; not in PSUM together with src.
    reverse_pred
        Copies where it is 0.
    name : str, optional
        Label for profiles.

    Raises
    ------
    RuleError
        tensor_copy_predicated.predicate, tensor_copy_predicated.src, or a rule of all operands.

    Notes
    -----
    Engines: vector. Values: bit-exact by a public rule. Source: nki/api/nki/isa/__init__.py, tensor_copy_predicated.
    """
    _emit(11, name, dst, src, predicate, reverse_pred)
    return NkiInstruction(name)


def tensor_tensor_scan(
    dst: Any,
    data0: Any,
    data1: Any,
    initial: Any,
    op0: Any,
    op1: Any,
    reverse0: Any = False,
    reverse1: Any = False,
    name: str | None = None,
) -> NkiInstruction:
    """``r[i] = op1(op0(data0[i], r[i - 1]), data1[i])`` with ``r[-1] = initial``; ``dst = r``.

    Along the flattened free dimensions, one element after the other, FP32 rounded after each operator; reverse0 and
    reverse1 swap an operator's operands. What goes on is r before it is converted to dst's data type.

    Parameters
    ----------
    dst
        SBUF or PSUM, (P, F), any type.
    data0
        SBUF or PSUM, (P, F), any type.
    data1
        SBUF or PSUM, (P, F); not in PSUM together with data0.
    initial
        (P, 1) tile or constant.
    op0
        An arithmetic operator of two operands.
    op1
        An arithmetic operator of two operands.
    reverse0
        data0 is op0's right.
    reverse1
        data1 is op1's left.
    name : str, optional
        Label for profiles.

    Raises
    ------
    RuleError
        tensor_tensor_scan.operators, or a rule of all operands.

    Notes
    -----
    Engines: vector. Values: bit-exact by a public rule. Source: nki/api/nki/isa/__init__.py, tensor_tensor_scan.
    """
    _emit(12, name, dst, data0, data1, initial, op0, op1, reverse0, reverse1)
    return NkiInstruction(name)


def tensor_scalar_reduce(
    dst: Any,
    data: Any,
    op0: Any,
    operand0: Any,
    reduce_op: Any,
    reduce_res: Any = None,
    reverse0: Any = False,
    reduce_cmd: Any = reduce_cmd.reset_reduce,
    reduce_init: Any = None,
    reduce_res_negate: Any = False,
    name: str | None = None,
) -> NkiInstruction:
    """``t = op0(data, operand0)``; ``dst = t``; the accumulators take ``reduce_op`` over all elements of t.

    One FP32 accumulator a partition, VectorE's, persists across instructions: reset_reduce starts from the operator's
    identity, reduce goes on, load_reduce starts from reduce_init, reset only resets. ``reduce_res`` gets the
    accumulators, times -1 with reduce_res_negate. Elements are taken in ascending order, before they are converted to
    dst's data type.

    Parameters
    ----------
    dst
        SBUF or PSUM, (P, F), any type.
    data
        SBUF or PSUM, (P, F), any type.
    op0
        An arithmetic operator.
    operand0
        (P, 1) tile or constant; None or 0 for a unary op0.
    reduce_op
        nl.add, nl.multiply, nl.maximum or nl.minimum.
    reduce_res
        (P, 1) tile for the result.
    reverse0
        operand0 is op0's left; documented as not supported yet.
    reduce_cmd
        What happens to the accumulators.
    reduce_init
        float32 (P, 1) tile or constant, with load_reduce only.
    reduce_res_negate
        reduce_res gets the accumulators times -1.
    name : str, optional
        Label for profiles.

    Raises
    ------
    RuleError
        tensor_scalar_reduce.operators, tensor_scalar_reduce.reduce_init, tensor_scalar_reduce.reverse0, or a rule of
        all operands.

    Notes
    -----
    Engines: vector. Values: bit-exact by a public rule. Source: nki/api/nki/isa/__init__.py, tensor_scalar_reduce.
    """
    _emit(13, name, dst, data, op0, operand0, reduce_op, reduce_res, reverse0, reduce_cmd, reduce_init, reduce_res_negate)
    return NkiInstruction(name)


def tensor_scalar_cumulative(
    dst: Any,
    src: Any,
    op0: Any,
    op1: Any,
    imm0: Any,
    imm1: Any = None,
    reduce_cmd: Any = reduce_cmd.reset_reduce,
    name: str | None = None,
) -> NkiInstruction:
    """``r = op1(op0(src, imm0), r)``, ``dst = r``, from the first element to the last.

    r is one FP32 accumulator a partition, VectorE's, which persists across instructions: reset_reduce starts from
    op1's identity, reduce goes on, load_reduce starts from imm1. subtract takes r from the new value. r is not
    rounded to dst's data type. The public text mentions a flag reverse0 that the signature lacks.

    Parameters
    ----------
    dst
        SBUF or PSUM, (P, F); float32, bfloat16, float16, float8, or an 8- or 16-bit integer.
    src
        SBUF or PSUM, (P, F); the types of dst.
    op0
        An arithmetic operator.
    op1
        nl.add, nl.subtract, nl.multiply, nl.maximum or nl.minimum.
    imm0
        float32 (P, 1) tile or constant; None or 0 for a unary op0.
    imm1
        float32 (P, 1) tile or constant, for load_reduce.
    reduce_cmd
        reset_reduce, reduce or load_reduce.
    name : str, optional
        Label for profiles.

    Raises
    ------
    RuleError
        tensor_scalar_cumulative.operators, tensor_scalar_cumulative.reduce_cmd, or a rule of all operands.

    Notes
    -----
    Engines: vector. Values: bit-exact by a public rule. Source: nki/api/nki/isa/__init__.py,
    tensor_scalar_cumulative.
    """
    _emit(14, name, dst, src, op0, op1, imm0, imm1, reduce_cmd)
    return NkiInstruction(name)


def range_select(
    dst: Any,
    on_true_tile: Any,
    comp_op0: Any,
    comp_op1: Any,
    bound0: Any,
    bound1: Any,
    reduce_cmd: Any = reduce_cmd.reset_reduce,
    reduce_res: Any = None,
    reduce_op: Any = _maximum,
    range_start: Any = 0,
    on_false_value: Any = -3.4028235e38,
    name: str | None = None,
) -> NkiInstruction:
    """``dst = on_true_tile`` where ``comp_op0(i, bound0)`` and ``comp_op1(i, bound1)``, else ``on_false_value``; i
    is ``range_start`` plus the index along the free dimensions; the accumulators take the maximum.

    i is rounded to FP32 and compared as such. Values pass through FP32. One FP32 accumulator a partition, VectorE's,
    persists across instructions: reset_reduce starts from minus infinity, reduce goes on, reset only resets, idle
    leaves it. ``reduce_res`` gets the accumulators, which take values before they are converted to dst's data type: a
    row without a selected element has -3.4028235e38 there, while a narrower dst has minus infinity.

    Parameters
    ----------
    dst
        SBUF or PSUM, (P, F), any type.
    on_true_tile
        SBUF or PSUM, (P, F), of a float type.
    comp_op0
        nl.equal, nl.less, nl.less_equal, nl.greater or nl.greater_equal.
    comp_op1
        As comp_op0.
    bound0
        float32 (P, 1) tile.
    bound1
        float32 (P, 1) tile.
    reduce_cmd
        What happens to the accumulators: any command but load_reduce.
    reduce_res
        (P, 1) tile for the result.
    reduce_op
        nl.maximum.
    range_start
        i at the first element, an integer.
    on_false_value
        The lowest finite FP32 number; the hardware has no other.
    name : str, optional
        Label for profiles.

    Raises
    ------
    RuleError
        range_select.generation, range_select.comparison, range_select.on_true_tile, range_select.reduce,
        range_select.range_start, range_select.on_false_value, or a rule of all operands.

    Notes
    -----
    Engines: vector. Values: bit-exact by a public rule. Source: nki/api/nki/isa/__init__.py, range_select.
    """
    _emit(15, name, dst, on_true_tile, comp_op0, comp_op1, bound0, bound1, reduce_cmd, reduce_res, reduce_op, range_start, on_false_value)
    return NkiInstruction(name)


def select_reduce(
    dst: Any,
    predicate: Any,
    on_true: Any,
    on_false: Any,
    reduce_res: Any = None,
    reduce_cmd: Any = reduce_cmd.idle,
    reduce_op: Any = _maximum,
    reverse_pred: Any = False,
    name: str | None = None,
) -> NkiInstruction:
    """``dst = on_true`` where ``predicate`` is not 0 (with reverse_pred: where it is 0), else ``on_false``; the
    accumulators take the maximum.

    Values pass through FP32. One FP32 accumulator a partition, VectorE's, persists across instructions: reset_reduce
    starts from minus infinity, reduce goes on. ``reduce_res`` gets the accumulators, which take values before they
    are converted to dst's data type.

    Parameters
    ----------
    dst
        SBUF or PSUM, (P, F), any type.
    predicate
        int8, uint8, int16, uint16 or bool, (P, F) in SBUF or PSUM; not in PSUM together with on_true.
    on_true
        SBUF or PSUM, (P, F), any type but tfloat32, int32 and uint32.
    on_false
        (P, 1) tile or constant.
    reduce_res
        (P, 1) tile of a float type for the accumulators.
    reduce_cmd
        idle, reset_reduce or reduce.
    reduce_op
        nl.maximum.
    reverse_pred
        on_true is selected where the predicate is 0.
    name : str, optional
        Label for profiles.

    Raises
    ------
    RuleError
        select_reduce.generation, select_reduce.predicate, select_reduce.on_true, select_reduce.reduce, or a rule of
        all operands.

    Notes
    -----
    Engines: vector. Values: bit-exact by a public rule. Source: nki/api/nki/isa/__init__.py, select_reduce.
    """
    _emit(16, name, dst, predicate, on_true, on_false, reduce_res, reduce_cmd, reduce_op, reverse_pred)
    return NkiInstruction(name)


def exponential(
    dst: Any,
    src: Any,
    max_value: Any = 0.0,
    reduce_res: Any = None,
    reduce_cmd: Any = reduce_cmd.idle,
    reduce_init: Any = 0.0,
    name: str | None = None,
) -> NkiInstruction:
    """``dst = exp(src - max_value)``; the accumulators add up the results.

    The difference is rounded to FP32, its exponential is the exact one to half a unit in the last place; the
    hardware's is not published. One FP32 accumulator a partition, VectorE's, persists across instructions:
    reset_reduce starts from 0, reduce goes on, load_reduce starts from reduce_init. Elements are added in ascending
    order, before they are converted to dst's data type. ``reduce_res`` gets the accumulators.

    Parameters
    ----------
    dst
        SBUF or PSUM, (P, F), up to four dimensions; the types of src and tfloat32, without uint32.
    src
        SBUF or PSUM, (P, F), up to four dimensions; float32, bfloat16, float16, float8_e4m3, float8_e5m2, or an
        integer.
    max_value
        float32 (P, 1) tile or constant.
    reduce_res
        (P, 1) tile for the accumulators; the float types of dst.
    reduce_cmd
        idle, reset_reduce, reduce or load_reduce.
    reduce_init
        float32 (P, 1) tile or constant, with load_reduce only.
    name : str, optional
        Label for profiles.

    Raises
    ------
    RuleError
        exponential.generation, exponential.rank_max, exponential.reduce_cmd, exponential.reduce_init, or a rule of
        all operands.

    Notes
    -----
    Engines: vector. Values: modelled where the public documents leave something open. Source:
    nki/api/nki/isa/__init__.py, exponential; nki/guides/architecture/trainium3_arch.rst.
    """
    _emit(17, name, dst, src, max_value, reduce_res, reduce_cmd, reduce_init)
    return NkiInstruction(name)


def bn_stats(
    dst: Any,
    data: Any,
    name: str | None = None,
) -> NkiInstruction:
    """For the even and for the odd elements of each partition: count, mean, and the sum of squared distances from
    it.

    FP32, elements in ascending order: the sum first, divided once, then the squared distances. The order inside the
    hardware is not published. A group without elements has mean and distance 0.

    Parameters
    ----------
    dst
        SBUF or PSUM, (P, 6): count, mean, variance times count of the even elements, then of the odd ones.
    data
        SBUF or PSUM, (P, F), F at most 512.
    name : str, optional
        Label for profiles.

    Raises
    ------
    RuleError
        bn_stats.size, or a rule of all operands.

    Notes
    -----
    Engines: vector. Values: modelled where the public documents leave something open. Source:
    nki/api/nki/isa/__init__.py, bn_stats.
    """
    _emit(18, name, dst, data)
    return NkiInstruction(name)


def bn_aggr(
    dst: Any,
    data: Any,
    name: str | None = None,
) -> NkiInstruction:
    """Mean and variance of all elements from (count, mean, variance times count) of pieces, as bn_stats gives them.

    With C the sum of the counts: mean = sum of count * mean / C, variance = sum of (M2 + count * (mean - all's)^2) /
    C; FP32, pieces in ascending order. The order inside the hardware is not published.

    Parameters
    ----------
    dst
        SBUF or PSUM, (P, 2): mean, variance.
    data
        SBUF or PSUM, (P, F) with three elements for each piece.
    name : str, optional
        Label for profiles.

    Raises
    ------
    RuleError
        bn_aggr.size, or a rule of all operands.

    Notes
    -----
    Engines: vector. Values: modelled where the public documents leave something open. Source:
    nki/api/nki/isa/__init__.py, bn_aggr.
    """
    _emit(19, name, dst, data)
    return NkiInstruction(name)


def max8(
    dst: Any,
    src: Any,
    name: str | None = None,
) -> NkiInstruction:
    """The eight largest values of each partition, with multiplicity, in descending order.

    Compared as FP32. A NaN counts as larger than every number (not published); among equal values the earlier one
    comes first.

    Parameters
    ----------
    dst
        SBUF or PSUM, (P, 8), any type.
    src
        SBUF or PSUM, (P, F), F from 8 to 16384.
    name : str, optional
        Label for profiles.

    Raises
    ------
    RuleError
        search8.elements, or a rule of all operands.

    Notes
    -----
    Engines: vector. Values: modelled where the public documents leave something open. Source:
    nki/api/nki/isa/__init__.py, max8.
    """
    _emit(20, name, dst, src)
    return NkiInstruction(name)


def nc_find_index8(
    dst: Any,
    data: Any,
    vals: Any,
    name: str | None = None,
) -> NkiInstruction:
    """The index of the first occurrence of each of eight values in its partition.

    Equal values take successive occurrences, the first of them the first one; a value that is not there gives all
    ones. Compared as FP32: NaN is nowhere, and zeros of both signs are equal.

    Parameters
    ----------
    dst
        (P, 8), uint32 or uint16.
    data
        SBUF or PSUM, (P, F), F from 8 to 16384.
    vals
        SBUF or PSUM, (P, 8).
    name : str, optional
        Label for profiles.

    Raises
    ------
    RuleError
        search8.elements, search8.index, or a rule of all operands.

    Notes
    -----
    Engines: vector. Values: bit-exact by a public rule. Source: nki/api/nki/isa/__init__.py, nc_find_index8; release-
    notes/components/nki.rst (0.6.0).
    """
    _emit(21, name, dst, data, vals)
    return NkiInstruction(name)


def nc_match_replace8(
    dst: Any,
    data: Any,
    vals: Any,
    imm: Any,
    dst_idx: Any = None,
    name: str | None = None,
) -> NkiInstruction:
    """A copy of ``data`` in which the first occurrence of each of eight values is ``imm``; ``dst_idx`` gets where.

    The values are taken from the last to the first: among equal ones the first occurrence goes to the last slot. A
    value that is not there replaces nothing and gives all ones (not published).

    Parameters
    ----------
    dst
        SBUF or PSUM, (P, F), any type.
    data
        SBUF or PSUM, (P, F), F from 8 to 16384.
    vals
        SBUF or PSUM, (P, 8).
    imm
        What comes in their place.
    dst_idx
        (P, 8), uint32 or uint16.
    name : str, optional
        Label for profiles.

    Raises
    ------
    RuleError
        search8.elements, search8.index, or a rule of all operands.

    Notes
    -----
    Engines: vector. Values: modelled where the public documents leave something open. Source:
    nki/api/nki/isa/__init__.py, nc_match_replace8; release-notes/components/nki.rst (0.6.0).
    """
    _emit(22, name, dst, data, vals, imm, dst_idx)
    return NkiInstruction(name)


def nc_stream_shuffle(
    dst: Any,
    src: Any,
    shuffle_mask: Any,
    name: str | None = None,
) -> NkiInstruction:
    """In each quadrant of 32 partitions, partition i of ``dst`` gets partition ``shuffle_mask[i]`` of ``src``; 255
    leaves it.

    Bits are moved; ``src`` and ``dst`` may be one tile. A source of one partition and a mask of zeros repeats that
    partition.

    Parameters
    ----------
    dst
        SBUF or PSUM, (P, F).
    src
        SBUF or PSUM, (P, F) of dst's type.
    shuffle_mask
        32 integers, 0 to 31 or 255.
    name : str, optional
        Label for profiles.

    Raises
    ------
    RuleError
        nc_stream_shuffle.mask, nc_stream_shuffle.tiles, or a rule of all operands.

    Notes
    -----
    Engines: vector. Values: bit-exact by a public rule. Source: nki/api/nki/isa/__init__.py, nc_stream_shuffle.
    """
    _emit(23, name, dst, src, shuffle_mask)
    return NkiInstruction(name)


def memset(
    dst: Any,
    value: Any,
    engine: Any = engine.unknown,
    name: str | None = None,
) -> NkiInstruction:
    """Fills a tile with a compile-time constant; packed types take 0 only.

    Parameters
    ----------
    dst
        SBUF or PSUM (GpSimdE: SBUF), (P, F), any type.
    value
        A constant of dst's kind.
    engine
        engine.vector, engine.gpsimd or engine.unknown (VectorE).
    name : str, optional
        Label for profiles.

    Raises
    ------
    RuleError
        memset.value, or a rule of all operands.

    Notes
    -----
    Engines: vector, gpsimd. Values: bit-exact by a public rule. Source: nki/api/nki/isa/__init__.py, memset;
    nki/migration/index.rst.
    """
    _emit(24, name, dst, value, engine)
    return NkiInstruction(name)


def quantize_mx(
    dst: Any,
    src: Any,
    dst_scale: Any,
    name: str | None = None,
) -> NkiInstruction:
    """Quantises a tile to microscaled FP8: groups of 8 partitions by 4 neighbouring free elements share a scale.

    ``scale = 2**(floor(log2(amax)) - (Emax - 1))`` from NKI 0.5 on, ``- Emax`` (OCP's sample rule) before; elements
    are rounded to nearest, ties to even. Packed word (p, f) holds elements 4f to 4f+3 of partition p, the first in
    the lowest byte. Scale rows that no group uses are not written. A group with NaN or infinity gets scale 0xFF and
    NaN elements.

    Parameters
    ----------
    dst
        SBUF, (P, F/4), float8_e5m2_x4 or float8_e4m3fn_x4.
    src
        SBUF, (P, F), bfloat16 or float16; P a multiple of 32, F of 4.
    dst_scale
        SBUF, float8_e8m0fnu or uint8, (P/8, F/4) up to 32 partitions, else (P, F/4) with 4 rows of each quadrant
        written.
    name : str, optional
        Label for profiles.

    Raises
    ------
    RuleError
        quantize_mx.generation, quantize_mx.dst.dtype, quantize_mx.src, quantize_mx.dst.shape, quantize_mx.dst_scale,
        or a rule of all operands.

    Notes
    -----
    Engines: vector. Values: bit-exact by a public rule. Source: nki/api/nki/isa/__init__.py, quantize_mx; release-
    notes/components/nki.rst.
    """
    _emit(25, name, dst, src, dst_scale)
    return NkiInstruction(name)


def iota(
    dst: Any,
    pattern: Any,
    offset: Any = 0,
    channel_multiplier: Any = 0,
    name: str | None = None,
) -> NkiInstruction:
    """``dst[p, i...] = offset + p * channel_multiplier + sum of step * i``, in int32, then cast.

    Parameters
    ----------
    dst
        SBUF, (P, F), any type.
    pattern
        Up to four [step, count] pairs; the counts multiply to F.
    offset
        Value at the first element.
    channel_multiplier
        Added for each partition.
    name : str, optional
        Label for profiles.

    Raises
    ------
    RuleError
        iota.pattern, or a rule of all operands.

    Notes
    -----
    Engines: gpsimd. Values: bit-exact by a public rule. Source: nki/api/nki/isa/__init__.py, iota.
    """
    _emit(26, name, dst, pattern, offset, channel_multiplier)
    return NkiInstruction(name)


def affine_select(
    dst: Any,
    pattern: Any,
    channel_multiplier: Any,
    on_true_tile: Any,
    on_false_value: Any,
    cmp_op: Any = _equal,
    offset: Any = 0,
    name: str | None = None,
) -> NkiInstruction:
    """``dst = on_true_tile`` where ``cmp_op(v, 0)``, else ``on_false_value``; v is ``offset + p * channel_multiplier
    + sum of step * i``.

    v is an int32. Equal data types are copied bit by bit, others cast through FP32.

    Parameters
    ----------
    dst
        SBUF, (P, F), any type.
    pattern
        Up to four [step, count] pairs; the counts multiply to F.
    channel_multiplier
        Added for each partition.
    on_true_tile
        SBUF, (P, F), any type.
    on_false_value
        A number, float32.
    cmp_op
        A comparison: nl.equal, nl.not_equal, nl.less, nl.less_equal, nl.greater or nl.greater_equal.
    offset
        v at the first element.
    name : str, optional
        Label for profiles.

    Raises
    ------
    RuleError
        affine_select.pattern, affine_select.cmp_op, or a rule of all operands.

    Notes
    -----
    Engines: gpsimd. Values: bit-exact by a public rule. Source: nki/api/nki/isa/__init__.py, affine_select.
    """
    _emit(27, name, dst, pattern, channel_multiplier, on_true_tile, on_false_value, cmp_op, offset)
    return NkiInstruction(name)


def nc_n_gather(
    dst: Any,
    data: Any,
    indices: Any,
    name: str | None = None,
) -> NkiInstruction:
    """``dst[p, i] = data[p, indices[p, i]]`` on the flattened free dimensions; bits are moved.

    Parameters
    ----------
    dst
        SBUF, (P, N) of data's type.
    data
        SBUF, (P, F), any type.
    indices
        SBUF, (P, N), uint32, below F.
    name : str, optional
        Label for profiles.

    Raises
    ------
    RuleError
        nc_n_gather.tiles, nc_n_gather.bounds, or a rule of all operands.

    Notes
    -----
    Engines: gpsimd. Values: bit-exact by a public rule. Source: nki/api/nki/isa/__init__.py, nc_n_gather.
    """
    _emit(28, name, dst, data, indices)
    return NkiInstruction(name)


def local_gather(
    dst: Any,
    src_buffer: Any,
    index: Any,
    num_elem_per_idx: Any = 1,
    num_valid_indices: Any = None,
    name: str | None = None,
) -> NkiInstruction:
    """In each group of 16 partitions: ``dst[p, k * e + j] = src_buffer[p, idx[k] + j]`` with e elements an index.

    The group's indices are taken down its partitions first: ``idx[k] = index[k mod 16, k div 16]``, in elements. Bits
    are moved.

    Parameters
    ----------
    dst
        SBUF, (P, indices * elements) of src_buffer's type.
    src_buffer
        SBUF, (P, F), P a multiple of 16.
    index
        SBUF, (P, K), uint16.
    num_elem_per_idx
        Elements at each index: 1, 2, 4, 8, 16 or 32.
    num_valid_indices
        Indices of a group that count; by default all, 16 * K.
    name : str, optional
        Label for profiles.

    Raises
    ------
    RuleError
        local_gather.tiles, local_gather.counts, local_gather.bounds, or a rule of all operands.

    Notes
    -----
    Engines: gpsimd. Values: bit-exact by a public rule. Source: nki/api/nki/isa/__init__.py, local_gather;
    nki/test/test_nki_isa_local_gather.py.
    """
    _emit(29, name, dst, src_buffer, index, num_elem_per_idx, num_valid_indices)
    return NkiInstruction(name)


def tensor_partition_reduce(
    dst: Any,
    op: Any,
    data: Any,
    name: str | None = None,
) -> NkiInstruction:
    """``dst[0, i]`` = ``op`` over all partitions of ``data[p, i]``, in ascending order.

    FP32, one cast at the end; nl.average is the sum divided by the number of partitions. Bit operators work on
    integers of one width.

    Parameters
    ----------
    dst
        SBUF, (1, F), any type.
    op
        nl.add, nl.average, nl.maximum, nl.bitwise_or or nl.bitwise_and.
    data
        SBUF, (P, F), any type.
    name : str, optional
        Label for profiles.

    Raises
    ------
    RuleError
        tensor_partition_reduce.op, tensor_partition_reduce.shape, or a rule of all operands.

    Notes
    -----
    Engines: gpsimd. Values: modelled where the public documents leave something open. Source:
    nki/api/nki/isa/__init__.py, tensor_partition_reduce.
    """
    _emit(30, name, dst, op, data)
    return NkiInstruction(name)


def nonzero_with_count(
    dst: Any,
    src: Any,
    index_offset: Any = 0,
    padding_val: Any = -1,
    name: str | None = None,
) -> NkiInstruction:
    """In partitions 0, 16, 32 and so on: the positions of the elements that are not 0, ascending, then
    ``padding_val``, and in the last place their number.

    ``index_offset`` is added to the positions. Other partitions are neither read nor written. Zeros of both signs are
    zero; a NaN is not.

    Parameters
    ----------
    dst
        SBUF, (P, T + 1), int32.
    src
        SBUF, (P, T), float32 or int32.
    index_offset
        Added to the positions.
    padding_val
        Fills the places that are left.
    name : str, optional
        Label for profiles.

    Raises
    ------
    RuleError
        nonzero_with_count.generation, nonzero_with_count.tiles, nonzero_with_count.numbers, or a rule of all
        operands.

    Notes
    -----
    Engines: gpsimd. Values: bit-exact by a public rule. Source: nki/api/nki/isa/__init__.py, nonzero_with_count.
    """
    _emit(31, name, dst, src, index_offset, padding_val)
    return NkiInstruction(name)


def sequence_bounds(
    dst: Any,
    segment_ids: Any,
    name: str | None = None,
) -> NkiInstruction:
    """For each element the first index of the run of equal ids around it, and the index after its last.

    An id of 0 is padding: its bounds are n and -1.

    Parameters
    ----------
    dst
        SBUF, (1, 2, n) of segment_ids' type: starts, then ends.
    segment_ids
        SBUF, (1, n), float32 or int32.
    name : str, optional
        Label for profiles.

    Raises
    ------
    RuleError
        sequence_bounds.tiles, or a rule of all operands.

    Notes
    -----
    Engines: gpsimd. Values: bit-exact by a public rule. Source: nki/api/nki/isa/__init__.py, sequence_bounds;
    nki/test/test_nki_isa_sequence_bounds.py.
    """
    _emit(32, name, dst, segment_ids)
    return NkiInstruction(name)


def dma_copy(
    dst: Any,
    src: Any,
    priority: Any = None,
    oob_mode: Any = oob_mode.error,
    dge_mode: Any = dge_mode.unknown,
    engine: Any = engine.unknown,
    name: str | None = None,
) -> NkiInstruction:
    """Copies element i of ``src`` to element i of ``dst``, in the flattened order of both views.

    Different data types are cast through FP32 (packed types are not cast). With ``src.ap(..., vector_offset=v)`` row
    p comes from row ``v[p]`` of an HBM tensor (gather); with ``dst.ap(..., vector_offset=v)`` it goes there (scatter;
    among equal rows the last one stays).

    Parameters
    ----------
    dst
        SBUF or HBM, any shape of as many elements as src.
    src
        SBUF or HBM.
    priority
        Service class 0 (most urgent) to 3, from v4.
    oob_mode
        What a row index outside the tensor does: oob_mode.error or oob_mode.skip (the row keeps its old bytes).
    dge_mode
        Who makes the descriptors: dge_mode.hwdge (from v3), swdge, none or unknown (hwdge where it is possible).
    engine
        engine.sync or engine.scalar with hwdge; engine.unknown is sync.
    name : str, optional
        Label for profiles.

    Raises
    ------
    RuleError
        dma_copy.size, dma_copy.cast, dma.priority, dma.priority_generation, dma.dge_mode, dma.hwdge_generation,
        dma.indirect_generation, dma.index, dma.index_bounds, or a rule of all operands.

    Notes
    -----
    Engines: sync, scalar, gpsimd. Values: bit-exact by a public rule. Source: nki/api/nki/isa/__init__.py, dma_copy;
    nki/get-started/about/nki-dma-overview.rst.
    """
    _emit(33, name, dst, src, priority, oob_mode, dge_mode, engine)
    return NkiInstruction(name)


def dma_transpose(
    dst: Any,
    src: Any,
    axes: Any = None,
    priority: Any = None,
    dge_mode: Any = dge_mode.unknown,
    oob_mode: Any = oob_mode.error,
    name: str | None = None,
) -> NkiInstruction:
    """Transposes on the way: axis k of ``dst`` is axis ``axes[k]`` of ``src``, bit by bit.

    Two dimensions are swapped (axes (1, 0)), three are reversed (2, 1, 0), of four the outermost and the innermost
    are swapped (3, 1, 2, 0). With ``src.ap(..., vector_offset=v)`` the rows of an HBM tensor are gathered first: row
    r is row ``v.T.flatten()[r]``. HBM to SBUF runs at up to 0.9 of the rate of a copy, SBUF to SBUF at 0.5; half as
    fast unless dst has a multiple of 128 partitions and of 16 elements in its last dimension.

    Parameters
    ----------
    dst
        SBUF, exactly the transposed shape of src, its data type. HBM is accepted with a finding.
    src
        SBUF or HBM, two to four dimensions.
    axes
        (1, 0), (2, 1, 0) or (3, 1, 2, 0), the one that suits the rank of src; None is that one.
    priority
        Service class 0 (most urgent) to 3, from v4.
    dge_mode
        dge_mode.hwdge, none or unknown (hwdge where the shape suits it); by index swdge or unknown.
    oob_mode
        By index or with scalar_offset: oob_mode.skip leaves what is outside the tensor as it was.
    name : str, optional
        Label for profiles.

    Raises
    ------
    RuleError
        dma_transpose.axes, dma_transpose.shape, dma_transpose.dtype, dma_transpose.dst_space, dma_transpose.hwdge,
        dma_transpose.index, dma_transpose.oob_mode, dma.priority, dma.priority_generation, dma.dge_mode,
        dma.hwdge_generation, dma.indirect_generation, dma.index_bounds, or a rule of all operands.

    Notes
    -----
    Engines: sync, gpsimd. Values: bit-exact by a public rule. Source: nki/api/nki/isa/__init__.py, dma_transpose;
    nki/deep-dives/nki-dge.rst.
    """
    _emit(34, name, dst, src, axes, priority, dge_mode, oob_mode)
    return NkiInstruction(name)


def dma_compute(
    dst: Any,
    srcs: Any,
    reduce_op: Any,
    scales: Any = None,
    unique_indices: Any = True,
    oob_mode: Any = oob_mode.error,
    name: str | None = None,
) -> NkiInstruction:
    """Adds tiles on their way: ``dst = cast(srcs[0] + srcs[1] + ...)``, element by element in flattened order.

    The sum is FP32, taken from the first source to the last, and converted once; with one source it is a cast. With
    ``vector_offset`` it has two sources and adds rows in place: ``dst[v] = dst[v] + data`` for ``srcs`` of the same
    view and the data (scatter), ``dst = dst + src[v]`` (gather). With unique_indices=False equal rows of a scatter
    are added one after the other; with True each adds to what was there before, and the last one stays. It moves at
    half the rate of a copy, every source counted; adding BF16 or FP32 to a tile in SBUF at the full rate from v4.

    Parameters
    ----------
    dst
        SBUF or HBM, any shape of as many elements as each source; no packed type.
    srcs
        A list of 1 to 16 tiles in SBUF or HBM.
    reduce_op
        nl.add.
    scales
        None, or 1.0 for each source.
    unique_indices
        Whether no row of a scatter is named twice. False is accepted with a finding.
    oob_mode
        What a row index outside the tensor does: oob_mode.error or oob_mode.skip (the row keeps its old bytes).
    name : str, optional
        Label for profiles.

    Raises
    ------
    RuleError
        dma_compute.sources_max, dma_compute.size, dma_compute.operator, dma_compute.scales, dma_compute.dtype,
        dma_compute.static, dma_compute.by_index, dma_compute.in_place, dma_compute.unique_indices,
        dma_compute.duplicates, dma.indirect_generation, dma.index, dma.index_bounds, or a rule of all operands.

    Notes
    -----
    Engines: sync, gpsimd. Values: bit-exact by a public rule. Source: nki/api/nki/isa/__init__.py, dma_compute;
    nki/guides/architecture/trainium3_arch.rst.
    """
    _emit(35, name, dst, srcs, reduce_op, scales, unique_indices, oob_mode)
    return NkiInstruction(name)


def core_barrier(
    data: Any,
    cores: Any,
    engine: Any = engine.gpsimd,
    name: str | None = None,
) -> NkiInstruction:
    """Both cores of a logical core arrive before either goes on; what they wrote to ``data`` before is then there.

    One engine of each core waits; the others are not blocked, but what they do with ``data`` afterwards waits.

    Parameters
    ----------
    data
        The shared HBM tensor that both cores use.
    cores
        (0, 1).
    engine
        The engine that waits.
    name : str, optional
        Label for profiles.

    Raises
    ------
    RuleError
        cores.generation, cores.logical, core_barrier.cores, core_barrier.data, or a rule of all operands.

    Notes
    -----
    Engines: gpsimd, tensor, vector, scalar, sync. Values: bit-exact by a public rule. Source:
    nki/api/nki/isa/__init__.py, core_barrier; nki/get-started/about/lnc.rst.
    """
    _emit(36, name, data, cores, engine)
    return NkiInstruction(name)


def sendrecv(
    src: Any,
    dst: Any,
    send_to_rank: Any,
    recv_from_rank: Any,
    pipe_id: Any,
    dma_engine: Any = dma_engine.dma,
    name: str | None = None,
) -> NkiInstruction:
    """Sends ``src`` to the ``dst`` of core ``send_to_rank`` while ``dst`` gets what core ``recv_from_rank`` sends.

    Both cores come to it before data moves; the exchange is done for both at once. ``dma_engine.dma`` moves the tile
    through the DMA engines, ``dma_engine.gpsimd_dma`` through those inside GpSimdE, which start sooner.

    Parameters
    ----------
    src
        SBUF, (P, F), any type: what this core sends.
    dst
        SBUF, of src's shape and type.
    send_to_rank
        0 or 1: the core that gets src.
    recv_from_rank
        0 or 1: the core whose src comes to dst.
    pipe_id
        Names the group; both cores give the same one.
    dma_engine
        dma_engine.dma or dma_engine.gpsimd_dma.
    name : str, optional
        Label for profiles.

    Raises
    ------
    RuleError
        cores.generation, cores.logical, sendrecv.tiles, sendrecv.rank, sendrecv.size, sendrecv.direct_generation, or
        a rule of all operands.

    Notes
    -----
    Engines: sync, gpsimd. Values: bit-exact by a public rule. Source: nki/api/nki/isa/__init__.py, sendrecv.
    """
    _emit(37, name, src, dst, send_to_rank, recv_from_rank, pipe_id, dma_engine)
    return NkiInstruction(name)


def register_move(
    dst: Any,
    src: Any,
    name: str | None = None,
) -> NkiInstruction:
    """Moves a constant or the value of another register into a register.

    Registers are held by the sequencers of the engines that need them; each of those takes the time of its shortest
    control instruction, since no figure for a move is published.

    Parameters
    ----------
    dst
        The register.
    src
        A 32-bit integer, or a register.
    name : str, optional
        Label for profiles.

    Raises
    ------
    RuleError
        register.value, register.frozen, or a rule of all operands.

    Notes
    -----
    Engines: tensor, vector, scalar, gpsimd, sync. Values: bit-exact by a public rule. Source:
    nki/api/nki/isa/__init__.py, register_move.
    """
    _emit(38, name, dst, src)
    return NkiInstruction(name)


def register_load(
    dst: Any,
    src: Any,
    name: str | None = None,
) -> NkiInstruction:
    """Loads one element into a register, integers extended to 32 bits, float32 as its bits.

    The sequencers that need the register stall for the load.

    Parameters
    ----------
    dst
        The register.
    src
        SBUF or HBM, one element of an integer type or float32.
    name : str, optional
        Label for profiles.

    Raises
    ------
    RuleError
        register.element, register.frozen, or a rule of all operands.

    Notes
    -----
    Engines: tensor, vector, scalar, gpsimd, sync. Values: bit-exact by a public rule. Source:
    nki/api/nki/isa/__init__.py, register_load.
    """
    _emit(39, name, dst, src)
    return NkiInstruction(name)


def register_store(
    dst: Any,
    src: Any,
    name: str | None = None,
) -> NkiInstruction:
    """Stores the low bits of a register into one element.

    One sequencer does it, in the time of a load: no figure for a store is published.

    Parameters
    ----------
    dst
        SBUF or HBM, one element of an integer type or float32.
    src
        The register.
    name : str, optional
        Label for profiles.

    Raises
    ------
    RuleError
        register.element, or a rule of all operands.

    Notes
    -----
    Engines: tensor, vector, scalar, gpsimd, sync. Values: bit-exact by a public rule. Source:
    nki/api/nki/isa/__init__.py, register_store.
    """
    _emit(40, name, dst, src)
    return NkiInstruction(name)
