"""The cases of `test_rules`: for every rule a call at its limit and one past it."""

from dataclasses import dataclass, field
from typing import Any

import numpy as np
from rule_tiles import E4, E4N, E5, big, double, filled, hbm, mm, mx, psum, quantize, sbuf

from trn3 import errors
from trn3.nki import isa as nisa
from trn3.nki import language as nl


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
    #: The rule that stops it earlier at ``hardware``, in a call that declares the tiles.
    sooner: str | None = None


def case(rule, at, past, operand, instruction=None, **more):
    return Case(rule, at, past, operand, instruction, **more)


CASES = [
    # nc_matmul
    case(
        "matmul.stationary.free_max",
        lambda: mm(m=128),
        lambda: nisa.nc_matmul(psum(128, 8), sbuf(8, 129), sbuf(8, 8)),
        "stationary",
    ),
    case(
        "matmul.moving.free_max",
        lambda: mm(n=4096),
        lambda: nisa.nc_matmul(psum(8, 4096), sbuf(8, 8), sbuf(8, 4097)),
        "moving",
    ),
    case(
        "matmul.moving.free_max",
        lambda: mm(n=8192, d=nl.bfloat16),
        lambda: nisa.nc_matmul(psum(8, 8192, dtype=nl.bfloat16), sbuf(8, 8), sbuf(8, 8193)),
        "moving",
    ),
    case("matmul.moving.free_max", lambda: mm(n=512), lambda: mm(n=513), "moving", options={"target": "trn2"}),
    case("matmul.contraction", lambda: mm(k=128), lambda: nisa.nc_matmul(psum(8, 8), sbuf(8, 8), sbuf(9, 8)), "moving"),
    case(
        "matmul.contraction",
        lambda: mm(k=32, tile_size=(32, 128), tile_position=(0, 0)),
        lambda: mm(k=33, tile_size=(32, 128), tile_position=(0, 0)),
        "moving",
    ),
    case("matmul.dst.shape", lambda: mm(), lambda: mm(shape=(8, 9)), "dst"),
    case("matmul.dst.shape", lambda: mm(), lambda: mm(shape=(9, 8)), "dst"),
    case("matmul.dtype_pair", lambda: mm(s=E4, t=E5), lambda: mm(s=E4, t=E4N), "moving"),
    case("matmul.dtype_pair", lambda: mm(s=E4N, t=E5), lambda: mm(s=E4N, t=E4), "moving"),
    case(
        "matmul.dtype_pair", lambda: mm(s=nl.float32, t=nl.tfloat32), lambda: mm(s=nl.float32, t=nl.bfloat16), "moving"
    ),
    case("matmul.dtype", lambda: mm(s=nl.float16), lambda: mm(s=nl.int8), "stationary"),
    case(
        "matmul.dtype",
        lambda: mm(t=E4N),
        lambda: mm(t=E4N),
        "moving",
        options={"target": "trn2"},
        at_options={},
        sooner="tensor.dtype_generation",
    ),
    case("matmul.dtype", lambda: mm(), lambda: mm(t=nl.float8_e8m0fnu), "moving"),
    case("matmul.dst.dtype", lambda: mm(d=nl.bfloat16), lambda: mm(d=nl.float16), "dst"),
    case(
        "matmul.dst.dtype",
        lambda: mm(d=nl.bfloat16),
        lambda: mm(d=nl.bfloat16),
        "dst",
        options={"target": "trn2"},
        at_options={},
    ),
    case(
        "matmul.double_row",
        lambda: nisa.nc_matmul(psum(8, 8), sbuf(8, 2, 8, dtype=E5), sbuf(8, 2, 8, dtype=E4N), perf_mode=double),
        lambda: nisa.nc_matmul(
            psum(8, 8), sbuf(8, 2, 8, dtype=nl.bfloat16), sbuf(8, 2, 8, dtype=E4N), perf_mode=double
        ),
        "perf_mode",
    ),
    case("matmul.double_row", lambda: mm(), lambda: mm(s=E5, t=E5, perf_mode=double), "perf_mode"),
    case(
        "matmul.double_row",
        lambda: mm(),
        lambda: nisa.nc_matmul(
            psum(8, 8),
            sbuf(8, 2, 8, dtype=E5),
            sbuf(8, 2, 8, dtype=E5),
            perf_mode=double,
            tile_size=(128, 64),
            tile_position=(0, 0),
        ),
        "tile_size",
    ),
    case(
        "matmul.tile", lambda: mm(tile_size=(64, 32), tile_position=(0, 0)), lambda: mm(tile_size=(64, 32)), "tile_size"
    ),
    case(
        "matmul.tile",
        lambda: mm(tile_size=(32, 32), tile_position=(0, 0)),
        lambda: mm(tile_size=(16, 128), tile_position=(0, 0)),
        "tile_size",
    ),
    case("matmul.tile", lambda: mm(), lambda: mm(tile_size=(64, 128), tile_position=(32, 0)), "tile_size"),
    case("matmul.tile", lambda: mm(), lambda: mm(tile_size=(64, 128), tile_position=(128, 0)), "tile_size"),
    case(
        "matmul.tile_operands",
        lambda: mm(k=32, tile_size=(32, 128), tile_position=(0, 0)),
        lambda: mm(k=32, tile_size=(32, 128), tile_position=(32, 0)),
        "stationary",
        level="documented",
    ),
    case(
        "matmul.dst.bank",
        lambda: nisa.nc_matmul(psum(8, 1024)[:, 512:1024], sbuf(8, 8), sbuf(8, 512)),
        lambda: nisa.nc_matmul(psum(8, 1024)[:, ::2], sbuf(8, 8), sbuf(8, 512)),
        "dst",
        options={"target": "trn2"},
    ),
    case(
        "matmul.accumulate_unwritten",
        lambda: mm(accumulate=False),
        lambda: mm(accumulate=True),
        "accumulate",
        level="documented",
    ),
    # nc_matmul_mx
    case(
        "matmul_mx.generation",
        lambda: mx(),
        lambda: mx(),
        "",
        error=errors.UnsupportedError,
        options={"target": "trn2"},
        at_options={},
        sooner="tensor.dtype_generation",
    ),
    case("matmul_mx.dtype", lambda: mx(s=nl.float4_e2m1fn_x4), lambda: mx(s=nl.uint32), "stationary"),
    case("matmul_mx.dtype", lambda: mx(scale=nl.float8_e8m0fnu), lambda: mx(scale=nl.int8), "stationary_scale"),
    case("matmul_mx.dtype", lambda: mx(d=nl.bfloat16), lambda: mx(d=nl.float16), "dst"),
    case("matmul_mx.partitions", lambda: mx(k=96), lambda: mx(k=40, rows=40), "moving"),
    case(
        "matmul_mx.partitions",
        lambda: mx(k=32),
        lambda: nisa.nc_matmul_mx(
            psum(4, 4),
            sbuf(32, 4, dtype=nl.float8_e5m2_x4),
            sbuf(64, 4, dtype=nl.float8_e5m2_x4),
            sbuf(4, 4, dtype=nl.uint8),
            sbuf(64, 4, dtype=nl.uint8),
        ),
        "moving",
    ),
    case("matmul_mx.free", lambda: mx(m=128), lambda: mx(m=3), "stationary"),
    case("matmul_mx.free", lambda: mx(n=4096), lambda: mx(n=4097, shape=(4, 4096)), "moving"),
    case("matmul_mx.dst.shape", lambda: mx(), lambda: mx(shape=(4, 5)), "dst"),
    case("matmul_mx.scale", lambda: mx(k=64, rows=36), lambda: mx(k=64, rows=35), "stationary_scale"),
    case("matmul_mx.scale", lambda: mx(rows=4), lambda: mx(rows=3), "stationary_scale"),
    case("matmul_mx.scale", lambda: mx(), lambda: mx(columns=5), "stationary_scale"),
    # nc_transpose
    case(
        "transpose.shape",
        lambda: nisa.nc_transpose(psum(8, 4), sbuf(4, 8)),
        lambda: nisa.nc_transpose(psum(8, 5), sbuf(4, 8)),
        "dst",
    ),
    case(
        "transpose.size_max",
        lambda: nisa.nc_transpose(psum(128, 128), sbuf(128, 128)),
        lambda: nisa.nc_transpose(psum(128, 128), sbuf(128, 129)),
        "data",
    ),
    case(
        "transpose.size_max",
        lambda: nisa.nc_transpose(sbuf(32, 32), sbuf(32, 32)),
        lambda: nisa.nc_transpose(sbuf(33, 32), sbuf(32, 33), engine=nisa.engine.vector),
        "data",
    ),
    case(
        "transpose.dtype",
        lambda: nisa.nc_transpose(psum(8, 4), sbuf(4, 8)),
        lambda: nisa.nc_transpose(psum(8, 4, dtype=nl.bfloat16), sbuf(4, 8)),
        "dst",
    ),
    # activation
    case(
        "activation.op",
        lambda: nisa.activation(sbuf(4, 4), nl.gelu, sbuf(4, 4)),
        lambda: nisa.activation(sbuf(4, 4), nl.add, sbuf(4, 4)),
        "op",
    ),
    case(
        "activation.op",
        lambda: nisa.activation(sbuf(4, 4), nl.copy, sbuf(4, 4)),
        lambda: nisa.activation(sbuf(4, 4), None, sbuf(4, 4)),
        "op",
    ),
    case(
        "activation.reduce",
        lambda: nisa.activation(
            sbuf(4, 4), nl.exp, sbuf(4, 4), reduce_op=nl.add, reduce_cmd=nisa.reduce_cmd.reset_reduce
        ),
        lambda: nisa.activation(
            sbuf(4, 4), nl.exp, sbuf(4, 4), reduce_op=nl.maximum, reduce_cmd=nisa.reduce_cmd.reset_reduce
        ),
        "reduce_op",
    ),
    case(
        "activation.reduce",
        lambda: nisa.activation(sbuf(4, 4), nl.exp, sbuf(4, 4), reduce_cmd=nisa.reduce_cmd.reset),
        lambda: nisa.activation(
            sbuf(4, 4), nl.exp, sbuf(4, 4), reduce_op=nl.add, reduce_cmd=nisa.reduce_cmd.load_reduce
        ),
        "reduce_cmd",
    ),
    case(
        "activation.reduce",
        lambda: nisa.activation(sbuf(4, 4), nl.exp, sbuf(4, 4)),
        lambda: nisa.activation(sbuf(4, 4), nl.exp, sbuf(4, 4), reduce_cmd=nisa.reduce_cmd.reduce),
        "reduce_op",
    ),
    # tensor_tensor, tensor_scalar, tensor_reduce
    case(
        "tensor_tensor.dtype",
        lambda: nisa.tensor_tensor(
            sbuf(4, 4, dtype=nl.int16), sbuf(4, 4, dtype=nl.uint16), sbuf(4, 4, dtype=nl.int16), nl.bitwise_or
        ),
        lambda: nisa.tensor_tensor(
            sbuf(4, 4, dtype=nl.int16), sbuf(4, 4, dtype=nl.uint16), sbuf(4, 4, dtype=nl.uint8), nl.bitwise_or
        ),
        "data2",
    ),
    case(
        "tensor_tensor.dtype",
        lambda: nisa.tensor_tensor(sbuf(4, 4), sbuf(4, 4), sbuf(4, 4), nl.add),
        lambda: nisa.tensor_tensor(sbuf(4, 4), sbuf(4, 4), sbuf(4, 4), nl.bitwise_or),
        "dst",
    ),
    case(
        "tensor_tensor.dtype",
        lambda: nisa.tensor_tensor(*[sbuf(4, 4, dtype=nl.bool_)] * 3, nl.bitwise_or),
        lambda: nisa.tensor_tensor(sbuf(4, 4, dtype=nl.bool_), *[sbuf(4, 4, dtype=nl.uint8)] * 2, nl.bitwise_or),
        "dst",
    ),
    case(
        "tensor_scalar.class",
        lambda: nisa.tensor_scalar(sbuf(4, 4), sbuf(4, 4), nl.add, 1, False, nl.multiply, 2),
        lambda: nisa.tensor_scalar(sbuf(4, 4), sbuf(4, 4), nl.add, 1, False, nl.bitwise_and, 2),
        "op1",
    ),
    case(
        "operand.unary",
        lambda: nisa.tensor_scalar(sbuf(4, 4), sbuf(4, 4), nl.abs, 0),
        lambda: nisa.tensor_scalar(sbuf(4, 4), sbuf(4, 4), nl.abs, 1),
        "operand0",
    ),
    case(
        "tensor_scalar.bitvec",
        lambda: nisa.tensor_scalar(sbuf(4, 4, dtype=nl.int8), sbuf(4, 4, dtype=nl.int8), nl.bitwise_and, -1),
        lambda: nisa.tensor_scalar(sbuf(4, 4, dtype=nl.int8), sbuf(4, 4, dtype=nl.int8), nl.bitwise_and, 1.0),
        "operand0",
    ),
    case(
        "tensor_scalar.bitvec",
        lambda: nisa.tensor_scalar(sbuf(4, 4, dtype=nl.uint32), sbuf(4, 4, dtype=nl.uint32), nl.bitwise_and, 2**32 - 1),
        lambda: nisa.tensor_scalar(sbuf(4, 4, dtype=nl.uint32), sbuf(4, 4, dtype=nl.uint32), nl.bitwise_and, 2**32),
        "operand0",
    ),
    case(
        "tensor_scalar.bitvec",
        lambda: nisa.tensor_scalar(sbuf(4, 4, dtype=nl.int8), sbuf(4, 4, dtype=nl.uint8), nl.bitwise_and, 1),
        lambda: nisa.tensor_scalar(sbuf(4, 4, dtype=nl.int8), sbuf(4, 4, dtype=nl.int16), nl.bitwise_and, 1),
        "dst",
    ),
    case(
        "tensor_scalar.scalar_engine",
        lambda: nisa.tensor_scalar(
            sbuf(4, 4), sbuf(4, 4), nl.multiply, 2.0, False, nl.add, 1.0, engine=nisa.engine.scalar
        ),
        lambda: nisa.tensor_scalar(sbuf(4, 4), sbuf(4, 4), nl.maximum, 2.0, engine=nisa.engine.scalar),
        "engine",
        options={"target": "trn2"},
    ),
    case(
        "tensor_scalar.scalar_engine",
        lambda: nisa.tensor_scalar(sbuf(4, 4), sbuf(4, 4), nl.rsqrt, None, engine=nisa.engine.gpsimd),
        lambda: nisa.tensor_scalar(sbuf(4, 4), sbuf(4, 4), nl.add, 1, engine=nisa.engine.gpsimd),
        "engine",
    ),
    case(
        "tensor_reduce.axis",
        lambda: nisa.tensor_reduce(sbuf(4, 2), nl.add, sbuf(4, 2, 3), 2),
        lambda: nisa.tensor_reduce(sbuf(4, 3), nl.add, sbuf(4, 2, 3), 1),
        "axis",
    ),
    case(
        "tensor_reduce.axis",
        lambda: nisa.tensor_reduce(sbuf(4, 1), nl.add, sbuf(4, 2, 3), (1, 2)),
        lambda: nisa.tensor_reduce(sbuf(4, 1), nl.add, sbuf(4, 2, 3), (0, 1, 2)),
        "axis",
    ),
    case(
        "tensor_reduce.dst.shape",
        lambda: nisa.tensor_reduce(sbuf(4, 2, 1), nl.add, sbuf(4, 2, 3), 2),
        lambda: nisa.tensor_reduce(sbuf(4, 3), nl.add, sbuf(4, 2, 3), 2),
        "dst",
    ),
    case(
        "tensor_reduce.bitvec",
        lambda: nisa.tensor_reduce(sbuf(4, 2, dtype=nl.uint8), nl.bitwise_or, sbuf(4, 2, 3, dtype=nl.uint8), 2),
        lambda: nisa.tensor_reduce(
            sbuf(4, 2, dtype=nl.uint8), nl.bitwise_or, sbuf(4, 2, 3, dtype=nl.uint8), 2, negate=True
        ),
        "data",
    ),
    # memset, iota
    case(
        "memset.value",
        lambda: nisa.memset(sbuf(4, 4, dtype=nl.int8), 127),
        lambda: nisa.memset(sbuf(4, 4, dtype=nl.int8), 128),
        "value",
    ),
    case(
        "memset.value",
        lambda: nisa.memset(sbuf(4, 4, dtype=nl.bool_), 1),
        lambda: nisa.memset(sbuf(4, 4, dtype=nl.bool_), 2),
        "value",
    ),
    case("iota.pattern", lambda: nisa.iota(sbuf(4, 8), [[1, 8]]), lambda: nisa.iota(sbuf(4, 8), [[1, 9]]), "pattern"),
    # quantize_mx
    case(
        "quantize_mx.generation",
        lambda: quantize(),
        lambda: quantize(),
        "",
        error=errors.UnsupportedError,
        options={"target": "trn2"},
        at_options={},
        sooner="tensor.dtype_generation",
    ),
    case(
        "quantize_mx.dst.dtype",
        lambda: quantize(dst=nl.float8_e4m3fn_x4),
        lambda: quantize(dst=nl.float4_e2m1fn_x4),
        "dst",
    ),
    case("quantize_mx.src", lambda: quantize(src=nl.float16), lambda: quantize(src=nl.float32), "src"),
    case("quantize_mx.src", lambda: quantize(p=128, scale=(128, 2)), lambda: quantize(p=33, scale=(33, 2)), "src"),
    case("quantize_mx.src", lambda: quantize(f=4, scale=(4, 1)), lambda: quantize(f=6, scale=(4, 1)), "src"),
    case("quantize_mx.dst.shape", lambda: quantize(), lambda: quantize(shape=(32, 3)), "dst"),
    case("quantize_mx.dst_scale", lambda: quantize(scale=(4, 2)), lambda: quantize(scale=(3, 2)), "dst_scale"),
    case(
        "quantize_mx.dst_scale",
        lambda: quantize(scale_dtype=nl.float8_e8m0fnu),
        lambda: quantize(scale_dtype=nl.int8),
        "dst_scale",
    ),
    # dma_copy
    case(
        "dma_copy.size",
        lambda: nisa.dma_copy(sbuf(4, 6), sbuf(6, 4)),
        lambda: nisa.dma_copy(sbuf(4, 6), sbuf(6, 5)),
        "src",
    ),
    case(
        "dma_copy.cast",
        lambda: nisa.dma_copy(sbuf(4, 6, dtype=E5), sbuf(4, 6)),
        lambda: nisa.dma_copy(sbuf(4, 6, dtype=nl.float8_e5m2_x4), sbuf(4, 6)),
        "src",
    ),
    case(
        "dma.priority",
        lambda: nisa.dma_copy(sbuf(4, 6), sbuf(4, 6), priority=3),
        lambda: nisa.dma_copy(sbuf(4, 6), sbuf(4, 6), priority=4),
        "priority",
    ),
    case(
        "dma.priority_generation",
        lambda: nisa.dma_copy(sbuf(4, 6), sbuf(4, 6)),
        lambda: nisa.dma_copy(sbuf(4, 6), sbuf(4, 6), priority=0),
        "priority",
        error=errors.UnsupportedError,
        options={"target": "trn2"},
    ),
    case(
        "dma.dge_mode",
        lambda: nisa.dma_copy(sbuf(4, 6), sbuf(4, 6), dge_mode=nisa.dge_mode.hwdge),
        lambda: nisa.dma_copy(sbuf(4, 6), sbuf(4, 6, dtype=E5), dge_mode=nisa.dge_mode.hwdge),
        "dge_mode",
    ),
    case(
        "dma.index",
        lambda: nisa.dma_copy(sbuf(4, 6), filled(8, 6).ap([[6, 4], [1, 6]], vector_offset=sbuf(4, 1, dtype=nl.int32))),
        lambda: nisa.dma_copy(sbuf(4, 6), filled(8, 6).ap([[6, 4], [1, 6]], vector_offset=sbuf(4, 1, dtype=nl.int16))),
        "src",
    ),
    case(
        "dma.index",
        lambda: None,
        lambda: nisa.dma_copy(sbuf(4, 6), filled(8, 6).ap([[6, 4], [1, 6]], vector_offset=sbuf(5, 1, dtype=nl.int32))),
        "src",
    ),
    # shared
    case(
        "argument.type",
        lambda: nisa.tensor_copy(sbuf(4, 4), sbuf(4, 4), engine=nisa.engine.vector),
        lambda: nisa.tensor_copy(sbuf(4, 4), sbuf(4, 4), engine=5),
        "engine",
    ),
    case("argument.type", lambda: nisa.memset(sbuf(4, 4), 0), lambda: nisa.memset(sbuf(4, 4), "0"), "value"),
    case("argument.type", lambda: None, lambda: nisa.dma_copy(sbuf(4, 4), sbuf(4, 4), oob_mode=1), "oob_mode"),
    case(
        "argument.type",
        lambda: None,
        lambda: nisa.dma_copy(sbuf(4, 4), sbuf(4, 4), dge_mode=nisa.oob_mode.error),
        "dge_mode",
    ),
    case(
        "argument.type",
        lambda: None,
        lambda: nisa.tensor_tensor(sbuf(4, 4), sbuf(4, 4), np.ones((4, 4)), nl.add),
        "data2",
    ),
    case("argument.type", lambda: None, lambda: nisa.tensor_tensor(sbuf(4, 4), sbuf(4, 4), sbuf(4, 4), "add"), "op"),
    case("argument.type", lambda: None, lambda: nisa.tensor_copy(None, None), "dst"),
    case("argument.type", lambda: None, lambda: mm(perf_mode=1), "perf_mode"),
    case("argument.type", lambda: None, lambda: mm(accumulate=2), "accumulate"),
    case("argument.type", lambda: None, lambda: mm(tile_size=(32.0, 32), tile_position=(0, 0)), "tile_size"),
    case(
        "operand.space",
        lambda: nisa.tensor_copy(psum(4, 4), sbuf(4, 4)),
        lambda: nisa.tensor_copy(hbm(4, 4), sbuf(4, 4)),
        "dst",
    ),
    case("operand.space", lambda: mm(), lambda: nisa.nc_matmul(sbuf(8, 8), sbuf(8, 8), sbuf(8, 8)), "dst"),
    case("operand.space", lambda: None, lambda: nisa.nc_matmul(psum(8, 8), psum(8, 8), sbuf(8, 8)), "stationary"),
    case(
        "operand.space",
        lambda: nisa.dma_copy(sbuf(4, 4), sbuf(4, 4)),
        lambda: nisa.dma_copy(psum(4, 4), sbuf(4, 4)),
        "dst",
    ),
    case(
        "operand.space",
        lambda: nisa.memset(psum(4, 4), 0),
        lambda: nisa.memset(psum(4, 4), 0, engine=nisa.engine.gpsimd),
        "dst",
    ),
    case(
        "operand.space",
        lambda: nisa.tensor_tensor(*[sbuf(4, 4)] * 3, nl.power),
        lambda: nisa.tensor_tensor(psum(4, 4), sbuf(4, 4), sbuf(4, 4), nl.power),
        "dst",
    ),
    case(
        "operand.dtype",
        lambda: nisa.tensor_copy(*[sbuf(4, 4, dtype=nl.float8_e5m2_x4)] * 2),
        lambda: nisa.tensor_copy(sbuf(4, 4), sbuf(4, 4, dtype=nl.float8_e5m2_x4)),
        "src",
    ),
    case(
        "operand.dtype",
        lambda: None,
        lambda: nisa.activation(sbuf(4, 4), nl.exp, sbuf(4, 4, dtype=nl.float8_e5m2_x4)),
        "data",
    ),
    case(
        "operand.free_size_max",
        lambda: nisa.memset(sbuf(1, 1, dtype=nl.uint8).ap([[1, 1], [0, 1 << 18]]), 0),
        lambda: nisa.memset(sbuf(1, 1, dtype=nl.uint8).ap([[1, 1], [0, 1 << 16], [0, 1 << 16]]), 0),
        "dst",
        "memset",
    ),
    case("partition.count_max", lambda: sbuf(128, 4), lambda: nl.ndarray((129, 4), nl.float32), "shape", "ndarray"),
    case(
        "partition.count_max",
        lambda: psum(128, 4),
        lambda: nl.ndarray((129, 4), nl.float32, buffer=nl.psum),
        "shape",
        "ndarray",
    ),
    case(
        "partition.start",
        lambda: nisa.memset(big(key=np.s_[32:64]), 1),
        lambda: nisa.memset(big(key=np.s_[31:33]), 1),
        "dst",
        level="documented",
    ),
    case(
        "partition.start",
        lambda: nisa.memset(big(key=np.s_[64:128]), 1),
        lambda: nisa.memset(big(key=np.s_[32:65]), 1),
        "dst",
        level="documented",
    ),
    case(
        "tensor.view",
        lambda: nisa.memset(sbuf(4, 2, 2, 2, 2), 1),
        lambda: sbuf(4, 2, 2, 2, 2).expand_dim(1),
        "view",
        "tensor",
    ),
    case(
        "operand.shape_match",
        lambda: nisa.tensor_copy(sbuf(4, 6), sbuf(4, 2, 3)),
        lambda: nisa.tensor_copy(sbuf(4, 6), sbuf(4, 2, 4)),
        "src",
    ),
    case(
        "operand.shape_match",
        lambda: None,
        lambda: nisa.tensor_tensor(sbuf(4, 6), sbuf(4, 6), sbuf(4, 1), nl.add),
        "data2",
    ),
    case(
        "operand.vector_shape",
        lambda: nisa.tensor_scalar(sbuf(4, 6), sbuf(4, 6), nl.add, sbuf(4, 1)),
        lambda: nisa.tensor_scalar(sbuf(4, 6), sbuf(4, 6), nl.add, sbuf(4, 2)),
        "operand0",
    ),
    case(
        "operand.vector_shape",
        lambda: None,
        lambda: nisa.activation(sbuf(4, 6), nl.exp, sbuf(4, 6), bias=sbuf(3, 1)),
        "bias",
    ),
    case(
        "operand.operator",
        lambda: nisa.tensor_tensor(*[sbuf(4, 4)] * 3, nl.add),
        lambda: nisa.tensor_tensor(*[sbuf(4, 4)] * 3, nl.exp),
        "op",
    ),
    case(
        "operand.operator",
        lambda: nisa.tensor_reduce(sbuf(4, 1), nl.add, sbuf(4, 4), 1),
        lambda: nisa.tensor_reduce(sbuf(4, 1), nl.less, sbuf(4, 4), 1),
        "op",
    ),
    case(
        "operand.operator",
        lambda: None,
        lambda: nisa.tensor_scalar(sbuf(4, 4), sbuf(4, 4), nl.add, 1.0, False, None, 2.0),
        "op1",
    ),
    case(
        "operand.psum_pair",
        lambda: nisa.tensor_tensor(psum(4, 4), sbuf(4, 4), psum(4, 4), nl.add),
        lambda: nisa.tensor_tensor(sbuf(4, 4), psum(4, 4), psum(4, 4), nl.add),
        "data2",
    ),
    case(
        "operand.engine",
        lambda: nisa.tensor_copy(sbuf(4, 4), sbuf(4, 4), engine=nisa.engine.scalar),
        lambda: nisa.tensor_copy(sbuf(4, 4), sbuf(4, 4), engine=nisa.engine.tensor),
        "engine",
    ),
    case(
        "operand.engine",
        lambda: None,
        lambda: nisa.tensor_tensor(*[sbuf(4, 4)] * 3, nl.power, engine=nisa.engine.vector),
        "engine",
    ),
    case(
        "operand.indirect",
        lambda: nisa.dma_copy(sbuf(4, 6), filled(8, 6)[0:4]),
        lambda: nisa.tensor_copy(
            sbuf(4, 6), filled(8, 6).ap([[6, 4], [1, 6]], vector_offset=sbuf(4, 1, dtype=nl.int32))
        ),
        "src",
    ),
    # tensors, capacity
    case("tensor.shape", lambda: sbuf(1, 1), lambda: nl.ndarray((1, 0), nl.float32), "shape", "ndarray"),
    case("tensor.shape", lambda: sbuf(1, 1, 1, 1, 1), lambda: nl.ndarray((4,), nl.float32), "shape", "ndarray"),
    case(
        "tensor.name_unique",
        lambda: nl.ndarray((4, 4), nl.float32, name="a"),
        lambda: [nl.ndarray((4, 4), nl.float32, name="b") for _ in range(2)],
        "name",
        "ndarray",
    ),
    case("tensor.view", lambda: sbuf(4, 4)[:, 0:4], lambda: sbuf(4, 4)[:, 0:5], "subscript", "tensor"),
    case("tensor.view", lambda: sbuf(4, 4)[:, -4], lambda: sbuf(4, 4)[:, -5], "subscript", "tensor"),
    case(
        "tensor.rearrange",
        lambda: sbuf(4, 4).rearrange(("p", "f"), ("p", "f")),
        lambda: sbuf(4, 4).rearrange(("p", "f"), ("p", "g")),
        "pattern",
        "rearrange",
        where=False,
    ),
    case(
        "tensor.ap.vector_offset",
        lambda: filled(8, 6).ap([[6, 4], [1, 6]], vector_offset=sbuf(4, 1, dtype=nl.int32)),
        lambda: filled(8, 6).ap([[6, 4], [1, 6]], vector_offset=sbuf(4, 1, dtype=nl.int32), indirect_dim=1),
        "vector_offset",
        "ap",
    ),
    case(
        "tensor.address",
        lambda: nl.ndarray((4, 4), nl.float32, address=(0, 0)),
        lambda: nl.ndarray((4, 4), nl.float32, address=(0,)),
        "address",
        "ndarray",
    ),
    case(
        "tensor.address_range",
        lambda: nl.ndarray((64, 4), nl.float32, address=(64, 0)),
        lambda: nl.ndarray((64, 4), nl.float32, address=(65, 0)),
        "address",
        "ndarray",
        error=errors.CapacityError,
    ),
    case(
        "tensor.address_bank",
        lambda: nl.ndarray((4, 4), nl.float32, buffer=nl.psum, address=(0, 2048)),
        lambda: nl.ndarray((4, 4), nl.float32, buffer=nl.psum, address=(0, 2052)),
        "address",
        "ndarray",
        level="documented",
    ),
    case(
        "capacity.sbuf",
        lambda: nl.ndarray((1, nl.tile_size.sbuf_fmax_bytes), nl.uint8),
        lambda: nl.ndarray((1, nl.tile_size.sbuf_fmax_bytes + 1), nl.uint8),
        "shape",
        "ndarray",
        error=errors.CapacityError,
    ),
    case(
        "capacity.psum",
        lambda: psum(128, 4096),
        lambda: psum(128, 4097),
        "shape",
        "ndarray",
        error=errors.CapacityError,
    ),
    case(
        "capacity.hbm",
        lambda: hbm(144, 2**30 - 64, dtype=nl.uint8),
        lambda: hbm(144, 2**30, dtype=nl.uint8),
        "shape",
        "ndarray",
        error=errors.CapacityError,
    ),
    case(
        "capacity.hbm",
        lambda: None,
        lambda: hbm(65536, 65536, 65536, 65536),
        "shape",
        "ndarray",
        error=errors.CapacityError,
    ),
]
#: Rules whose cases are tests of their own, below or in another file.
