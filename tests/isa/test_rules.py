"""Each rule: a case at its limit, which runs, and one past it, which is refused on the user's line."""

import inspect
import linecache
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import ml_dtypes
import numpy as np
import pytest

from trn3 import _native, errors, nki
from trn3.nki import isa as nisa
from trn3.nki import language as nl

X = np.ones((128, 16), np.float32)


def sbuf(*shape, dtype=nl.float32):
    tile = nl.ndarray(shape, dtype)
    nisa.memset(tile, 0)
    return tile


def psum(*shape, dtype=nl.float32):
    return nl.ndarray(shape, dtype, buffer=nl.psum)


def hbm(*shape, dtype=nl.float32):
    return nl.ndarray(shape, dtype, buffer=nl.hbm)


@dataclass
class Case:
    """``at`` runs; ``past`` breaks the rule in its last statement, at ``levels`` and above."""

    rule: str
    at: Any
    past: Any
    operand: str | None
    instruction: str | None
    error: type = errors.RuleError
    options: dict = field(default_factory=dict)
    at_options: dict | None = None
    level: str = "lenient"
    where: bool = True


def case(rule, at, past, operand, instruction=None, **more):
    return Case(rule, at, past, operand, instruction, **more)


def mm(m=8, n=8, k=8, s=nl.bfloat16, t=nl.bfloat16, d=nl.float32, shape=None, **more):
    nisa.nc_matmul(psum(*(shape or (m, n)), dtype=d), sbuf(k, m, dtype=s), sbuf(k, n, dtype=t), **more)


def mx(k=32, m=4, n=4, s=nl.float8_e5m2_x4, t=nl.float8_e5m2_x4, rows=None, d=nl.float32, shape=None, scale=nl.uint8, columns=None):
    rows = rows or (k // 8 if k <= 32 else k)
    nisa.nc_matmul_mx(
        psum(*(shape or (m, n)), dtype=d), sbuf(k, m, dtype=s), sbuf(k, n, dtype=t),
        sbuf(rows, columns or m, dtype=scale), sbuf(rows, n, dtype=nl.uint8),
    )


def quantize(p=32, f=8, src=nl.bfloat16, dst=nl.float8_e5m2_x4, shape=None, scale=(4, 2), scale_dtype=nl.uint8):
    nisa.quantize_mx(sbuf(*(shape or (p, f // 4)), dtype=dst), sbuf(p, f, dtype=src), sbuf(*scale, dtype=scale_dtype))


def big(rows=4, columns=4, key=np.s_[0:1]):
    """A window on a tile of 128 partitions."""
    return sbuf(128, columns)[key]


double = nisa.matmul_perf_mode.double_row
E4, E4N, E5 = nl.float8_e4m3, nl.float8_e4m3fn, nl.float8_e5m2

CASES = [
    # nc_matmul
    case("matmul.stationary.free_max", lambda: mm(m=128), lambda: nisa.nc_matmul(psum(128, 8), sbuf(8, 129), sbuf(8, 8)), "stationary"),
    case("matmul.moving.free_max", lambda: mm(n=4096), lambda: nisa.nc_matmul(psum(8, 4096), sbuf(8, 8), sbuf(8, 4097)), "moving"),
    case("matmul.moving.free_max", lambda: mm(n=8192, d=nl.bfloat16), lambda: nisa.nc_matmul(psum(8, 8192, dtype=nl.bfloat16), sbuf(8, 8), sbuf(8, 8193)), "moving"),
    case("matmul.moving.free_max", lambda: mm(n=512), lambda: mm(n=513), "moving", options={"target": "trn2"}),
    case("matmul.contraction", lambda: mm(k=128), lambda: nisa.nc_matmul(psum(8, 8), sbuf(8, 8), sbuf(9, 8)), "moving"),
    case("matmul.contraction", lambda: mm(k=32, tile_size=(32, 128), tile_position=(0, 0)), lambda: mm(k=33, tile_size=(32, 128), tile_position=(0, 0)), "moving"),
    case("matmul.dst.shape", lambda: mm(), lambda: mm(shape=(8, 9)), "dst"),
    case("matmul.dst.shape", lambda: mm(), lambda: mm(shape=(9, 8)), "dst"),
    case("matmul.dtype_pair", lambda: mm(s=E4, t=E5), lambda: mm(s=E4, t=E4N), "moving"),
    case("matmul.dtype_pair", lambda: mm(s=E4N, t=E5), lambda: mm(s=E4N, t=E4), "moving"),
    case("matmul.dtype_pair", lambda: mm(s=nl.float32, t=nl.tfloat32), lambda: mm(s=nl.float32, t=nl.bfloat16), "moving"),
    case("matmul.dtype", lambda: mm(s=nl.float16), lambda: mm(s=nl.int8), "stationary"),
    case("matmul.dtype", lambda: mm(t=E4N), lambda: mm(t=E4N), "moving", options={"target": "trn2"}, at_options={}),
    case("matmul.dtype", lambda: mm(), lambda: mm(t=nl.float8_e8m0fnu), "moving"),
    case("matmul.dst.dtype", lambda: mm(d=nl.bfloat16), lambda: mm(d=nl.float16), "dst"),
    case("matmul.dst.dtype", lambda: mm(d=nl.bfloat16), lambda: mm(d=nl.bfloat16), "dst", options={"target": "trn2"}, at_options={}),
    case("matmul.double_row", lambda: nisa.nc_matmul(psum(8, 8), sbuf(8, 2, 8, dtype=E5), sbuf(8, 2, 8, dtype=E4N), perf_mode=double), lambda: nisa.nc_matmul(psum(8, 8), sbuf(8, 2, 8, dtype=nl.bfloat16), sbuf(8, 2, 8, dtype=E4N), perf_mode=double), "perf_mode"),
    case("matmul.double_row", lambda: mm(), lambda: mm(s=E5, t=E5, perf_mode=double), "perf_mode"),
    case("matmul.double_row", lambda: mm(), lambda: nisa.nc_matmul(psum(8, 8), sbuf(8, 2, 8, dtype=E5), sbuf(8, 2, 8, dtype=E5), perf_mode=double, tile_size=(128, 64), tile_position=(0, 0)), "tile_size"),
    case("matmul.tile", lambda: mm(tile_size=(64, 32), tile_position=(0, 0)), lambda: mm(tile_size=(64, 32)), "tile_size"),
    case("matmul.tile", lambda: mm(tile_size=(32, 32), tile_position=(0, 0)), lambda: mm(tile_size=(16, 128), tile_position=(0, 0)), "tile_size"),
    case("matmul.tile", lambda: mm(), lambda: mm(tile_size=(64, 128), tile_position=(32, 0)), "tile_size"),
    case("matmul.tile", lambda: mm(), lambda: mm(tile_size=(64, 128), tile_position=(128, 0)), "tile_size"),
    case("matmul.tile_operands", lambda: mm(k=32, tile_size=(32, 128), tile_position=(0, 0)), lambda: mm(k=32, tile_size=(32, 128), tile_position=(32, 0)), "stationary", level="documented"),
    case("matmul.dst.bank", lambda: nisa.nc_matmul(psum(8, 1024)[:, 512:1024], sbuf(8, 8), sbuf(8, 512)), lambda: nisa.nc_matmul(psum(8, 1024)[:, ::2], sbuf(8, 8), sbuf(8, 512)), "dst", options={"target": "trn2"}),
    case("matmul.accumulate_unwritten", lambda: mm(accumulate=False), lambda: mm(accumulate=True), "accumulate", level="documented"),
    # nc_matmul_mx
    case("matmul_mx.generation", lambda: mx(), lambda: mx(), "", error=errors.UnsupportedError, options={"target": "trn2"}, at_options={}),
    case("matmul_mx.dtype", lambda: mx(s=nl.float4_e2m1fn_x4), lambda: mx(s=nl.uint32), "stationary"),
    case("matmul_mx.dtype", lambda: mx(scale=nl.float8_e8m0fnu), lambda: mx(scale=nl.int8), "stationary_scale"),
    case("matmul_mx.dtype", lambda: mx(d=nl.bfloat16), lambda: mx(d=nl.float16), "dst"),
    case("matmul_mx.partitions", lambda: mx(k=96), lambda: mx(k=40, rows=40), "moving"),
    case("matmul_mx.partitions", lambda: mx(k=32), lambda: nisa.nc_matmul_mx(psum(4, 4), sbuf(32, 4, dtype=nl.float8_e5m2_x4), sbuf(64, 4, dtype=nl.float8_e5m2_x4), sbuf(4, 4, dtype=nl.uint8), sbuf(64, 4, dtype=nl.uint8)), "moving"),
    case("matmul_mx.free", lambda: mx(m=128), lambda: mx(m=3), "stationary"),
    case("matmul_mx.free", lambda: mx(n=4096), lambda: mx(n=4097, shape=(4, 4096)), "moving"),
    case("matmul_mx.dst.shape", lambda: mx(), lambda: mx(shape=(4, 5)), "dst"),
    case("matmul_mx.scale", lambda: mx(k=64, rows=36), lambda: mx(k=64, rows=35), "stationary_scale"),
    case("matmul_mx.scale", lambda: mx(rows=4), lambda: mx(rows=3), "stationary_scale"),
    case("matmul_mx.scale", lambda: mx(), lambda: mx(columns=5), "stationary_scale"),
    # nc_transpose
    case("transpose.shape", lambda: nisa.nc_transpose(psum(8, 4), sbuf(4, 8)), lambda: nisa.nc_transpose(psum(8, 5), sbuf(4, 8)), "dst"),
    case("transpose.size_max", lambda: nisa.nc_transpose(psum(128, 128), sbuf(128, 128)), lambda: nisa.nc_transpose(psum(128, 128), sbuf(128, 129)), "data"),
    case("transpose.size_max", lambda: nisa.nc_transpose(sbuf(32, 32), sbuf(32, 32)), lambda: nisa.nc_transpose(sbuf(33, 32), sbuf(32, 33), engine=nisa.engine.vector), "data"),
    case("transpose.dtype", lambda: nisa.nc_transpose(psum(8, 4), sbuf(4, 8)), lambda: nisa.nc_transpose(psum(8, 4, dtype=nl.bfloat16), sbuf(4, 8)), "dst"),
    # activation
    case("activation.op", lambda: nisa.activation(sbuf(4, 4), nl.gelu, sbuf(4, 4)), lambda: nisa.activation(sbuf(4, 4), nl.add, sbuf(4, 4)), "op"),
    case("activation.op", lambda: nisa.activation(sbuf(4, 4), nl.copy, sbuf(4, 4)), lambda: nisa.activation(sbuf(4, 4), None, sbuf(4, 4)), "op"),
    case("activation.reduce", lambda: nisa.activation(sbuf(4, 4), nl.exp, sbuf(4, 4), reduce_op=nl.add, reduce_cmd=nisa.reduce_cmd.reset_reduce), lambda: nisa.activation(sbuf(4, 4), nl.exp, sbuf(4, 4), reduce_op=nl.maximum, reduce_cmd=nisa.reduce_cmd.reset_reduce), "reduce_op"),
    case("activation.reduce", lambda: nisa.activation(sbuf(4, 4), nl.exp, sbuf(4, 4), reduce_cmd=nisa.reduce_cmd.reset), lambda: nisa.activation(sbuf(4, 4), nl.exp, sbuf(4, 4), reduce_op=nl.add, reduce_cmd=nisa.reduce_cmd.load_reduce), "reduce_cmd"),
    case("activation.reduce", lambda: nisa.activation(sbuf(4, 4), nl.exp, sbuf(4, 4)), lambda: nisa.activation(sbuf(4, 4), nl.exp, sbuf(4, 4), reduce_cmd=nisa.reduce_cmd.reduce), "reduce_op"),
    # tensor_tensor, tensor_scalar, tensor_reduce
    case("tensor_tensor.dtype", lambda: nisa.tensor_tensor(sbuf(4, 4, dtype=nl.int16), sbuf(4, 4, dtype=nl.uint16), sbuf(4, 4, dtype=nl.int16), nl.bitwise_or), lambda: nisa.tensor_tensor(sbuf(4, 4, dtype=nl.int16), sbuf(4, 4, dtype=nl.uint16), sbuf(4, 4, dtype=nl.uint8), nl.bitwise_or), "data2"),
    case("tensor_tensor.dtype", lambda: nisa.tensor_tensor(sbuf(4, 4), sbuf(4, 4), sbuf(4, 4), nl.add), lambda: nisa.tensor_tensor(sbuf(4, 4), sbuf(4, 4), sbuf(4, 4), nl.bitwise_or), "dst"),
    case("tensor_tensor.dtype", lambda: nisa.tensor_tensor(*[sbuf(4, 4, dtype=nl.bool_)] * 3, nl.bitwise_or), lambda: nisa.tensor_tensor(sbuf(4, 4, dtype=nl.bool_), *[sbuf(4, 4, dtype=nl.uint8)] * 2, nl.bitwise_or), "dst"),
    case("tensor_scalar.class", lambda: nisa.tensor_scalar(sbuf(4, 4), sbuf(4, 4), nl.add, 1, False, nl.multiply, 2), lambda: nisa.tensor_scalar(sbuf(4, 4), sbuf(4, 4), nl.add, 1, False, nl.bitwise_and, 2), "op1"),
    case("tensor_scalar.unary_operand", lambda: nisa.tensor_scalar(sbuf(4, 4), sbuf(4, 4), nl.abs, 0), lambda: nisa.tensor_scalar(sbuf(4, 4), sbuf(4, 4), nl.abs, 1), "operand0"),
    case("tensor_scalar.bitvec", lambda: nisa.tensor_scalar(sbuf(4, 4, dtype=nl.int8), sbuf(4, 4, dtype=nl.int8), nl.bitwise_and, -1), lambda: nisa.tensor_scalar(sbuf(4, 4, dtype=nl.int8), sbuf(4, 4, dtype=nl.int8), nl.bitwise_and, 1.0), "operand0"),
    case("tensor_scalar.bitvec", lambda: nisa.tensor_scalar(sbuf(4, 4, dtype=nl.uint32), sbuf(4, 4, dtype=nl.uint32), nl.bitwise_and, 2**32 - 1), lambda: nisa.tensor_scalar(sbuf(4, 4, dtype=nl.uint32), sbuf(4, 4, dtype=nl.uint32), nl.bitwise_and, 2**32), "operand0"),
    case("tensor_scalar.bitvec", lambda: nisa.tensor_scalar(sbuf(4, 4, dtype=nl.int8), sbuf(4, 4, dtype=nl.uint8), nl.bitwise_and, 1), lambda: nisa.tensor_scalar(sbuf(4, 4, dtype=nl.int8), sbuf(4, 4, dtype=nl.int16), nl.bitwise_and, 1), "dst"),
    case("tensor_scalar.scalar_engine", lambda: nisa.tensor_scalar(sbuf(4, 4), sbuf(4, 4), nl.multiply, 2.0, False, nl.add, 1.0, engine=nisa.engine.scalar), lambda: nisa.tensor_scalar(sbuf(4, 4), sbuf(4, 4), nl.maximum, 2.0, engine=nisa.engine.scalar), "engine", options={"target": "trn2"}),
    case("tensor_scalar.scalar_engine", lambda: nisa.tensor_scalar(sbuf(4, 4), sbuf(4, 4), nl.rsqrt, None, engine=nisa.engine.gpsimd), lambda: nisa.tensor_scalar(sbuf(4, 4), sbuf(4, 4), nl.add, 1, engine=nisa.engine.gpsimd), "engine"),
    case("tensor_reduce.axis", lambda: nisa.tensor_reduce(sbuf(4, 2), nl.add, sbuf(4, 2, 3), 2), lambda: nisa.tensor_reduce(sbuf(4, 3), nl.add, sbuf(4, 2, 3), 1), "axis"),
    case("tensor_reduce.axis", lambda: nisa.tensor_reduce(sbuf(4, 1), nl.add, sbuf(4, 2, 3), (1, 2)), lambda: nisa.tensor_reduce(sbuf(4, 1), nl.add, sbuf(4, 2, 3), (0, 1, 2)), "axis"),
    case("tensor_reduce.dst.shape", lambda: nisa.tensor_reduce(sbuf(4, 2, 1), nl.add, sbuf(4, 2, 3), 2), lambda: nisa.tensor_reduce(sbuf(4, 3), nl.add, sbuf(4, 2, 3), 2), "dst"),
    case("tensor_reduce.bitvec", lambda: nisa.tensor_reduce(sbuf(4, 2, dtype=nl.uint8), nl.bitwise_or, sbuf(4, 2, 3, dtype=nl.uint8), 2), lambda: nisa.tensor_reduce(sbuf(4, 2, dtype=nl.uint8), nl.bitwise_or, sbuf(4, 2, 3, dtype=nl.uint8), 2, negate=True), "data"),
    # memset, iota
    case("memset.value", lambda: nisa.memset(sbuf(4, 4, dtype=nl.int8), 127), lambda: nisa.memset(sbuf(4, 4, dtype=nl.int8), 128), "value"),
    case("memset.value", lambda: nisa.memset(sbuf(4, 4, dtype=nl.bool_), 1), lambda: nisa.memset(sbuf(4, 4, dtype=nl.bool_), 2), "value"),
    case("iota.pattern", lambda: nisa.iota(sbuf(4, 8), [[1, 8]]), lambda: nisa.iota(sbuf(4, 8), [[1, 9]]), "pattern"),
    # quantize_mx
    case("quantize_mx.generation", lambda: quantize(), lambda: quantize(), "", error=errors.UnsupportedError, options={"target": "trn2"}, at_options={}),
    case("quantize_mx.dst.dtype", lambda: quantize(dst=nl.float8_e4m3fn_x4), lambda: quantize(dst=nl.float4_e2m1fn_x4), "dst"),
    case("quantize_mx.src", lambda: quantize(src=nl.float16), lambda: quantize(src=nl.float32), "src"),
    case("quantize_mx.src", lambda: quantize(p=128, scale=(128, 2)), lambda: quantize(p=33, scale=(33, 2)), "src"),
    case("quantize_mx.src", lambda: quantize(f=4, scale=(4, 1)), lambda: quantize(f=6, scale=(4, 1)), "src"),
    case("quantize_mx.dst.shape", lambda: quantize(), lambda: quantize(shape=(32, 3)), "dst"),
    case("quantize_mx.dst_scale", lambda: quantize(scale=(4, 2)), lambda: quantize(scale=(3, 2)), "dst_scale"),
    case("quantize_mx.dst_scale", lambda: quantize(scale_dtype=nl.float8_e8m0fnu), lambda: quantize(scale_dtype=nl.int8), "dst_scale"),
    # dma_copy
    case("dma_copy.size", lambda: nisa.dma_copy(sbuf(4, 6), sbuf(6, 4)), lambda: nisa.dma_copy(sbuf(4, 6), sbuf(6, 5)), "src"),
    case("dma_copy.cast", lambda: nisa.dma_copy(sbuf(4, 6, dtype=E5), sbuf(4, 6)), lambda: nisa.dma_copy(sbuf(4, 6, dtype=nl.float8_e5m2_x4), sbuf(4, 6)), "src"),
    case("dma_copy.priority", lambda: nisa.dma_copy(sbuf(4, 6), sbuf(4, 6), priority=3), lambda: nisa.dma_copy(sbuf(4, 6), sbuf(4, 6), priority=4), "priority"),
    case("dma_copy.priority", lambda: nisa.dma_copy(sbuf(4, 6), sbuf(4, 6)), lambda: nisa.dma_copy(sbuf(4, 6), sbuf(4, 6), priority=0), "priority", options={"target": "trn2"}),
    case("dma_copy.hwdge", lambda: nisa.dma_copy(sbuf(4, 6), sbuf(4, 6), dge_mode=nisa.dge_mode.hwdge), lambda: nisa.dma_copy(sbuf(4, 6), sbuf(4, 6, dtype=E5), dge_mode=nisa.dge_mode.hwdge), "dge_mode"),
    case("dma_copy.index", lambda: nisa.dma_copy(sbuf(4, 6), filled(8, 6).ap([[6, 4], [1, 6]], vector_offset=sbuf(4, 1, dtype=nl.int32))), lambda: nisa.dma_copy(sbuf(4, 6), filled(8, 6).ap([[6, 4], [1, 6]], vector_offset=sbuf(4, 1, dtype=nl.int16))), "src"),
    case("dma_copy.index", lambda: None, lambda: nisa.dma_copy(sbuf(4, 6), filled(8, 6).ap([[6, 4], [1, 6]], vector_offset=sbuf(5, 1, dtype=nl.int32))), "src"),
    # shared
    case("argument.type", lambda: nisa.tensor_copy(sbuf(4, 4), sbuf(4, 4), engine=nisa.engine.vector), lambda: nisa.tensor_copy(sbuf(4, 4), sbuf(4, 4), engine=5), "engine"),
    case("argument.type", lambda: nisa.memset(sbuf(4, 4), 0), lambda: nisa.memset(sbuf(4, 4), "0"), "value"),
    case("argument.type", lambda: None, lambda: nisa.dma_copy(sbuf(4, 4), sbuf(4, 4), oob_mode=1), "oob_mode"),
    case("argument.type", lambda: None, lambda: nisa.dma_copy(sbuf(4, 4), sbuf(4, 4), dge_mode=nisa.oob_mode.error), "dge_mode"),
    case("argument.type", lambda: None, lambda: nisa.tensor_tensor(sbuf(4, 4), sbuf(4, 4), np.ones((4, 4)), nl.add), "data2"),
    case("argument.type", lambda: None, lambda: nisa.tensor_tensor(sbuf(4, 4), sbuf(4, 4), sbuf(4, 4), "add"), "op"),
    case("argument.type", lambda: None, lambda: nisa.tensor_copy(None, None), "dst"),
    case("argument.type", lambda: None, lambda: mm(perf_mode=1), "perf_mode"),
    case("argument.type", lambda: None, lambda: mm(accumulate=2), "accumulate"),
    case("argument.type", lambda: None, lambda: mm(tile_size=(32.0, 32), tile_position=(0, 0)), "tile_size"),
    case("operand.space", lambda: nisa.tensor_copy(psum(4, 4), sbuf(4, 4)), lambda: nisa.tensor_copy(hbm(4, 4), sbuf(4, 4)), "dst"),
    case("operand.space", lambda: mm(), lambda: nisa.nc_matmul(sbuf(8, 8), sbuf(8, 8), sbuf(8, 8)), "dst"),
    case("operand.space", lambda: None, lambda: nisa.nc_matmul(psum(8, 8), psum(8, 8), sbuf(8, 8)), "stationary"),
    case("operand.space", lambda: nisa.dma_copy(sbuf(4, 4), sbuf(4, 4)), lambda: nisa.dma_copy(psum(4, 4), sbuf(4, 4)), "dst"),
    case("operand.space", lambda: nisa.memset(psum(4, 4), 0), lambda: nisa.memset(psum(4, 4), 0, engine=nisa.engine.gpsimd), "dst"),
    case("operand.space", lambda: nisa.tensor_tensor(*[sbuf(4, 4)] * 3, nl.power), lambda: nisa.tensor_tensor(psum(4, 4), sbuf(4, 4), sbuf(4, 4), nl.power), "dst"),
    case("operand.dtype", lambda: nisa.tensor_copy(*[sbuf(4, 4, dtype=nl.float8_e5m2_x4)] * 2), lambda: nisa.tensor_copy(sbuf(4, 4), sbuf(4, 4, dtype=nl.float8_e5m2_x4)), "src"),
    case("operand.dtype", lambda: None, lambda: nisa.activation(sbuf(4, 4), nl.exp, sbuf(4, 4, dtype=nl.float8_e5m2_x4)), "data"),
    case("partition.count_max", lambda: sbuf(128, 4), lambda: nl.ndarray((129, 4), nl.float32), "shape", "ndarray"),
    case("partition.count_max", lambda: psum(128, 4), lambda: nl.ndarray((129, 4), nl.float32, buffer=nl.psum), "shape", "ndarray"),
    case("partition.start", lambda: nisa.memset(big(key=np.s_[32:64]), 1), lambda: nisa.memset(big(key=np.s_[31:33]), 1), "dst", level="documented"),
    case("partition.start", lambda: nisa.memset(big(key=np.s_[64:128]), 1), lambda: nisa.memset(big(key=np.s_[32:65]), 1), "dst", level="documented"),
    case("tensor.view", lambda: nisa.memset(sbuf(4, 2, 2, 2, 2), 1), lambda: sbuf(4, 2, 2, 2, 2).expand_dim(1), "view", "tensor"),
    case("operand.shape_match", lambda: nisa.tensor_copy(sbuf(4, 6), sbuf(4, 2, 3)), lambda: nisa.tensor_copy(sbuf(4, 6), sbuf(4, 2, 4)), "src"),
    case("operand.shape_match", lambda: None, lambda: nisa.tensor_tensor(sbuf(4, 6), sbuf(4, 6), sbuf(4, 1), nl.add), "data2"),
    case("operand.vector_shape", lambda: nisa.tensor_scalar(sbuf(4, 6), sbuf(4, 6), nl.add, sbuf(4, 1)), lambda: nisa.tensor_scalar(sbuf(4, 6), sbuf(4, 6), nl.add, sbuf(4, 2)), "operand0"),
    case("operand.vector_shape", lambda: None, lambda: nisa.activation(sbuf(4, 6), nl.exp, sbuf(4, 6), bias=sbuf(3, 1)), "bias"),
    case("operand.operator", lambda: nisa.tensor_tensor(*[sbuf(4, 4)] * 3, nl.add), lambda: nisa.tensor_tensor(*[sbuf(4, 4)] * 3, nl.exp), "op"),
    case("operand.operator", lambda: nisa.tensor_reduce(sbuf(4, 1), nl.add, sbuf(4, 4), 1), lambda: nisa.tensor_reduce(sbuf(4, 1), nl.less, sbuf(4, 4), 1), "op"),
    case("operand.operator", lambda: None, lambda: nisa.tensor_scalar(sbuf(4, 4), sbuf(4, 4), nl.add, 1.0, False, None, 2.0), "op1"),
    case("operand.psum_pair", lambda: nisa.tensor_tensor(psum(4, 4), sbuf(4, 4), psum(4, 4), nl.add), lambda: nisa.tensor_tensor(sbuf(4, 4), psum(4, 4), psum(4, 4), nl.add), "data2"),
    case("operand.engine", lambda: nisa.tensor_copy(sbuf(4, 4), sbuf(4, 4), engine=nisa.engine.scalar), lambda: nisa.tensor_copy(sbuf(4, 4), sbuf(4, 4), engine=nisa.engine.tensor), "engine"),
    case("operand.engine", lambda: None, lambda: nisa.tensor_tensor(*[sbuf(4, 4)] * 3, nl.power, engine=nisa.engine.vector), "engine"),
    case("operand.indirect", lambda: nisa.dma_copy(sbuf(4, 6), filled(8, 6)[0:4]), lambda: nisa.tensor_copy(sbuf(4, 6), filled(8, 6).ap([[6, 4], [1, 6]], vector_offset=sbuf(4, 1, dtype=nl.int32))), "src"),
    # tensors, capacity
    case("tensor.shape", lambda: sbuf(1, 1), lambda: nl.ndarray((1, 0), nl.float32), "shape", "ndarray"),
    case("tensor.shape", lambda: sbuf(1, 1, 1, 1, 1), lambda: nl.ndarray((4,), nl.float32), "shape", "ndarray"),
    case("tensor.name_unique", lambda: nl.ndarray((4, 4), nl.float32, name="a"), lambda: [nl.ndarray((4, 4), nl.float32, name="b") for _ in range(2)], "name", "ndarray"),
    case("tensor.view", lambda: sbuf(4, 4)[:, 0:4], lambda: sbuf(4, 4)[:, 0:5], "subscript", "tensor"),
    case("tensor.view", lambda: sbuf(4, 4)[:, -4], lambda: sbuf(4, 4)[:, -5], "subscript", "tensor"),
    case("tensor.rearrange", lambda: sbuf(4, 4).rearrange(("p", "f"), ("p", "f")), lambda: sbuf(4, 4).rearrange(("p", "f"), ("p", "g")), "pattern", "rearrange", where=False),
    case("tensor.ap.vector_offset", lambda: filled(8, 6).ap([[6, 4], [1, 6]], vector_offset=sbuf(4, 1, dtype=nl.int32)), lambda: filled(8, 6).ap([[6, 4], [1, 6]], vector_offset=sbuf(4, 1, dtype=nl.int32), indirect_dim=1), "vector_offset", "ap"),
    case("tensor.address", lambda: sbuf(4, 4), lambda: nl.ndarray((4, 4), nl.float32, address=(0, 0)), "address", "ndarray", error=errors.UnimplementedError, where=False),
    case("capacity.sbuf", lambda: nl.ndarray((1, usable(nl.sbuf)), nl.uint8), lambda: nl.ndarray((1, usable(nl.sbuf) + 1), nl.uint8), "shape", "ndarray", error=errors.CapacityError),
    case("capacity.psum", lambda: psum(128, 4096), lambda: psum(128, 4097), "shape", "ndarray", error=errors.CapacityError),
    case("capacity.hbm", lambda: hbm(144, 2**30 - 64, dtype=nl.uint8), lambda: hbm(144, 2**30, dtype=nl.uint8), "shape", "ndarray", error=errors.CapacityError),
    case("capacity.hbm", lambda: None, lambda: hbm(65536, 65536, 65536, 65536), "shape", "ndarray", error=errors.CapacityError),
]
#: Rules whose cases are tests of their own, below or in another file.
ELSEWHERE = {
    "matmul.transpose_identity": "test_nc_transpose.py",
    "dma_copy.index_bounds": "test_dma_copy.py",
    "operand.free_dims_max": "a view has at most 5 dimensions: tensor.view",
    "argument.unimplemented": "no instruction has such an argument",
    "output.unwritten": "below",
    "uninitialized.output": "below",
    "kernel.scope": "below",
    "kernel.argument": "../nki/test_kernel.py",
    "kernel.grid": "../nki/test_kernel.py",
    "kernel.input_writable": "../nki/test_kernel.py",
    "kernel.output_space": "below",
    "kernel.output_view": "../nki/test_kernel.py",
    "options.nki_version": "../nki/test_kernel.py",
    "target.absent": "../nki/test_kernel.py",
}


def filled(*shape):
    tensor = hbm(*shape)
    nisa.dma_copy(tensor, sbuf(*shape))
    return tensor


def usable(buffer):
    return nl.tile_size.sbuf_fmax_bytes if hasattr(nl.tile_size, "sbuf_fmax_bytes") else 196608


def recorded(statement, **options):
    def kernel(x):
        statement()
        return x

    simulated = nki.simulate(kernel, **options)
    simulated(X)
    return simulated


def ids():
    return [f"{item.rule}-{number}" for number, item in enumerate(CASES)]


@pytest.mark.parametrize("item", CASES, ids=ids())
def test_at_the_limit(item):
    simulated = recorded(item.at, **(item.options if item.at_options is None else item.at_options))
    assert [f for f in simulated.findings if f["rule"] == item.rule] == []


@pytest.mark.parametrize("item", CASES, ids=ids())
def test_past_the_limit(item):
    if item.level == "documented":
        simulated = recorded(item.past, **item.options)
        finding = next(f for f in simulated.findings if f["rule"] == item.rule)
        assert finding["file"] == __file__
        assert finding["operand"] == item.operand
        assert "nisa." in linecache.getline(finding["file"], finding["line"])
        assert finding["message"] and finding["fix"] and finding["value"] and finding["limit"]
        levels = ["documented", "hardware"]
    else:
        levels = ["lenient", "documented", "hardware"]
    for level in levels:
        with pytest.raises(errors.Trn3Error) as caught:
            recorded(item.past, **item.options, checks=level)
        error = caught.value
        assert type(error) is item.error
        assert error.rule == item.rule
        assert error.operand == item.operand
        assert error.value
        assert error.limit
        assert error.fix
        assert f"[{item.rule}]" in str(error)
        assert error.instruction, "an instruction or a method is named"
        if item.instruction:
            assert error.instruction == item.instruction
        if item.where:
            file, _, line = error.where.rpartition(":")
            assert file == __file__
            assert linecache.getline(file, int(line)).strip()


def test_the_line_is_that_of_the_call():
    def kernel(x):
        tile = nl.load(x)
        nisa.memset(tile, 0.0)
        nisa.memset(tile, "a")
        return x

    line = inspect.getsourcelines(kernel)[1] + 3
    with pytest.raises(errors.RuleError) as caught:
        nki.simulate(kernel)(X)
    assert caught.value.where == f"{__file__}:{line}"


def test_every_rule_has_a_case():
    rules = {rule["id"] for rule in _native.shared_rules()}
    for instruction in _native.instruction_table():
        rules |= {rule["id"] for rule in instruction["rules"]}
    missing = rules - {item.rule for item in CASES} - set(ELSEWHERE)
    assert missing == set()


def test_every_rule_id_of_the_sources_has_a_case():
    """Ids that the recorder and the views use without a place in the table."""
    import re

    root = Path(__file__).parents[2]
    sources = [p for d in ("rust/mem/src", "rust/program/src", "rust/py/src", "python/trn3/nki") for p in (root / d).rglob("*") if p.suffix in (".rs", ".py")]
    found = set()
    for path in sources:
        text = path.read_text()
        found |= set(re.findall(r'Violation::new\(\s*"([a-z_.]+\.[a-z_.]+)"', text))
        found |= set(re.findall(r'\brule="([a-z_.]+\.[a-z_.]+)"', text))
        found |= set(re.findall(r'"(capacity\.[a-z]+)"', text))
    assert found
    assert found - {item.rule for item in CASES} - set(ELSEWHERE) == set()


# Unwritten data ------------------------------------------------------------------------------------------------------


def half_written(x):
    tile = nl.ndarray((4, 4), nl.float32)
    nisa.memset(tile[:, 0:2], 1.0)
    out = nl.ndarray((4, 4), nl.float32, buffer=nl.shared_hbm)
    nisa.dma_copy(out, tile)
    return out


def never_written(x):
    out = nl.ndarray((4, 4), nl.float32, buffer=nl.shared_hbm)
    nisa.dma_copy(out[0:2], x[0:2, 0:4])
    return out


@pytest.mark.parametrize("eager", [False, True])
def test_unwritten_data_that_reaches_an_output(eager):
    simulated = nki.simulate(half_written, eager=eager)
    for _ in range(2):
        np.testing.assert_array_equal(simulated(X), [[1, 1, np.nan, np.nan]] * 4)
        (finding,) = simulated.findings
        assert finding["rule"] == "uninitialized.output"
        assert "dma_copy(out, tile)" in linecache.getline(finding["file"], finding["line"])
    for checks in ("documented", "hardware"):
        with pytest.raises(errors.UninitializedReadError) as caught:
            nki.simulate(half_written, eager=eager, checks=checks)(X)
        assert caught.value.rule == "uninitialized.output"
        assert caught.value.where.startswith(__file__)


@pytest.mark.parametrize("eager", [False, True])
def test_an_output_that_is_never_written(eager):
    simulated = nki.simulate(never_written, eager=eager)
    for _ in range(2):
        np.testing.assert_array_equal(simulated(X), [[1] * 4] * 2 + [[np.nan] * 4] * 2)
        assert [f["rule"] for f in simulated.findings] == ["output.unwritten"]
    with pytest.raises(errors.UninitializedReadError) as caught:
        nki.simulate(never_written, eager=eager, checks="documented")(X)
    assert caught.value.rule == "output.unwritten"
    assert caught.value.where.startswith(__file__)


def test_unwritten_integers_are_zero_and_a_finding():
    def kernel(x):
        tile = nl.ndarray((4, 4), nl.int32)
        nisa.memset(tile[:, 0:2], 1)
        out = nl.ndarray((4, 4), nl.int32, buffer=nl.shared_hbm)
        nisa.dma_copy(out, tile)
        return out

    simulated = nki.simulate(kernel)
    np.testing.assert_array_equal(simulated(X), [[1, 1, 0, 0]] * 4)
    assert [f["rule"] for f in simulated.findings] == ["uninitialized.output"]


def test_unwritten_data_that_is_thrown_away_is_no_finding():
    def kernel(x):
        tile, other = nl.ndarray((4, 4), nl.float32), nl.ndarray((4, 4), nl.float32)
        nisa.tensor_copy(other, tile)
        nisa.memset(other, 1.0)
        out = nl.ndarray((4, 4), nl.float32, buffer=nl.shared_hbm)
        nisa.dma_copy(out, other)
        return out

    simulated = nki.simulate(kernel, checks="documented")
    np.testing.assert_array_equal(simulated(X), np.ones((4, 4)))
    assert simulated.findings == []


def test_a_tile_that_takes_over_an_address_is_as_unwritten_as_a_fresh_one():
    def kernel(x):
        for _ in range(64):
            tile = nl.ndarray((128, 16), nl.float32)
            nisa.dma_copy(tile, x)
        fresh = nl.ndarray((128, 16), nl.float32)
        out = nl.ndarray((128, 16), nl.float32, buffer=nl.shared_hbm)
        nisa.dma_copy(out, fresh)
        return out

    assert np.isnan(nki.simulate(kernel)(X)).all()


# Scope ---------------------------------------------------------------------------------------------------------------


def leaked():
    kept = []

    def kernel(x):
        kept.append(nl.load(x))
        return x

    nki.simulate(kernel)(X)
    return kept[0]


def test_calls_outside_of_a_kernel():
    for call in (lambda: nl.ndarray((4, 4), nl.float32), lambda: nl.program_id(), lambda: nl.shared_constant(X)):
        with pytest.raises(errors.RuleError, match=r"kernel\.scope"):
            call()
    with pytest.raises(errors.RuleError) as caught:
        nisa.memset(leaked(), 0.0)
    assert caught.value.rule == "kernel.scope"
    assert caught.value.where.startswith(__file__)


def test_tensors_of_another_kernel_are_refused():
    old = leaked()

    def kernels():
        def reads(x):
            nisa.tensor_copy(nl.load(x), old)
            return x

        def writes(x):
            nisa.tensor_copy(old, nl.load(x))
            return x

        def returns(x):
            return old.reshape((128, 16))

        def indexes(x):
            nisa.dma_copy(nl.load(x), x.ap([[16, 128], [1, 16]], vector_offset=old))
            return x

        def scales(x):
            nisa.tensor_scalar(nl.load(x), nl.load(x), nl.add, old[:, 0:1])
            return x

        return reads, writes, returns, indexes, scales

    for kernel in kernels():
        with pytest.raises(errors.RuleError) as caught:
            nki.simulate(kernel)(X)
        assert caught.value.rule in ("kernel.scope", "kernel.output_space"), kernel
    assert repr(old)


def test_on_chip_results_are_refused():
    for buffer in (nl.sbuf, nl.psum):
        def kernel(x):
            tile = nl.ndarray((4, 4), nl.float32, buffer=buffer)
            nisa.memset(tile, 0.0)
            return tile

        with pytest.raises(errors.RuleError, match=r"kernel\.output_space"):
            nki.simulate(kernel)(X)


def test_psum_over_capacity_with_live_tiles():
    def kernel(x, count):
        tiles = [nl.ndarray((128, 512), nl.float32, buffer=nl.psum) for _ in range(count)]
        for tile in tiles:
            nisa.memset(tile, 0.0)
        for tile in tiles:
            nisa.tensor_scalar(tile, tile, nl.add, 1.0)
        return x

    nki.simulate(kernel)(X, 8)
    with pytest.raises(errors.CapacityError) as caught:
        nki.simulate(kernel)(X, 9)
    assert caught.value.rule == "capacity.psum"
    assert "16384" in caught.value.limit
    file, _, line = caught.value.where.rpartition(":")
    assert file == __file__
    assert "psum" in linecache.getline(file, int(line))


def test_sbuf_over_capacity_with_live_tiles_spills_or_says_so():
    def kernel(x, count):
        tiles = [nl.ndarray((128, 16384), nl.float32) for _ in range(count)]
        for tile in tiles:
            nisa.memset(tile, 0.0)
        for tile in tiles:
            nisa.tensor_scalar(tile, tile, nl.add, 1.0)
        return x

    nki.simulate(kernel)(X, 2)
    with pytest.raises(errors.CapacityError, match=r"capacity\.sbuf"):
        nki.simulate(kernel)(X, 5)


def test_checks_must_be_a_level():
    with pytest.raises((ValueError, errors.RuleError)):
        nki.simulate(half_written, checks="strict")(X)


def test_ml_dtypes_and_names_are_data_types():
    def kernel(x):
        for dtype in ("bfloat16", ml_dtypes.bfloat16, np.float16, np.dtype("float32"), "int8"):
            nl.ndarray((4, 4), dtype)
        return x

    nki.simulate(kernel)(X)
    for bad in (np.float64, "float64", np.int64, object, "nonsense", None, 3):
        with pytest.raises((TypeError, ValueError, KeyError)):
            nki.simulate(lambda x: (nl.ndarray((4, 4), bad), x)[1])(X)
