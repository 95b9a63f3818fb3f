"""The cases of `test_rules` for VectorE's instructions that accumulate along a row."""

from rule_cases import case
from rule_tiles import psum, sbuf

from trn3.nki import isa as nisa
from trn3.nki import language as nl

command = nisa.reduce_cmd
FP32, BF16 = nl.float32, nl.bfloat16


def exponential(dst=FP32, src=FP32, shape=(4, 4), **more):
    nisa.exponential(sbuf(*shape, dtype=dst), sbuf(*shape, dtype=src), **more)


def ranged(of=FP32, op0=nl.less, op1=nl.less, bound=FP32, columns=1, **more):
    bounds = sbuf(4, columns, dtype=bound), sbuf(4, 1)
    nisa.range_select(sbuf(4, 4), sbuf(4, 4, dtype=of), op0, op1, *bounds, **more)


def selected(predicate=nl.uint8, of=FP32, spaces=(sbuf, sbuf), **more):
    tiles = []
    for space, dtype in zip(spaces, (predicate, of), strict=True):
        tile = space(4, 4, dtype=dtype)
        nisa.memset(tile, 0)
        tiles.append(tile)
    nisa.select_reduce(sbuf(4, 4), *tiles, 0.0, **more)


def cumulated(dst=FP32, src=FP32, op0=nl.add, op1=nl.add, imm0=1.0, **more):
    nisa.tensor_scalar_cumulative(sbuf(4, 4, dtype=dst), sbuf(4, 4, dtype=src), op0, op1, imm0, **more)


ACCUMULATOR_CASES = [
    # exponential
    case(
        "exponential.rank_max",
        lambda: exponential(shape=(4, 2, 3, 2)),
        lambda: exponential(shape=(4, 2, 3, 2, 1)),
        "dst",
    ),
    case(
        "exponential.reduce_cmd",
        lambda: exponential(reduce_cmd=command.load_reduce),
        lambda: exponential(reduce_cmd=command.reset),
        "reduce_cmd",
    ),
    case(
        "exponential.reduce_init",
        lambda: exponential(reduce_cmd=command.load_reduce, reduce_init=1.0),
        lambda: exponential(reduce_cmd=command.reduce, reduce_init=1.0),
        "reduce_init",
        level="documented",
    ),
    case(
        "operand.reduce_res_idle",
        lambda: exponential(reduce_cmd=command.reset_reduce, reduce_res=sbuf(4, 1)),
        lambda: exponential(reduce_res=sbuf(4, 1)),
        "reduce_res",
        level="documented",
    ),
    case("operand.dtype", lambda: exponential(dst=nl.tfloat32), lambda: exponential(dst=nl.uint32), "dst"),
    case("operand.dtype", lambda: exponential(src=nl.uint32), lambda: exponential(src=nl.tfloat32), "src"),
    case("operand.dtype", lambda: exponential(src=nl.float8_e4m3), lambda: exponential(src=nl.float8_e4m3fn), "src"),
    case(
        "operand.dtype",
        lambda: exponential(max_value=sbuf(4, 1)),
        lambda: exponential(max_value=sbuf(4, 1, dtype=BF16)),
        "max_value",
    ),
    case(
        "operand.dtype",
        lambda: exponential(reduce_cmd=command.load_reduce, reduce_init=sbuf(4, 1)),
        lambda: exponential(reduce_cmd=command.load_reduce, reduce_init=sbuf(4, 1, dtype=BF16)),
        "reduce_init",
    ),
    case(
        "operand.dtype",
        lambda: exponential(reduce_cmd=command.reset_reduce, reduce_res=sbuf(4, 1, dtype=nl.tfloat32)),
        lambda: exponential(reduce_cmd=command.reset_reduce, reduce_res=sbuf(4, 1, dtype=nl.int16)),
        "reduce_res",
    ),
    case(
        "operand.vector_shape",
        lambda: exponential(max_value=sbuf(4, 1)),
        lambda: exponential(max_value=sbuf(3, 1)),
        "max_value",
    ),
    # range_select
    case("range_select.comparison", lambda: ranged(op0=nl.equal), lambda: ranged(op0=nl.not_equal), "comp_op0"),
    case("range_select.comparison", lambda: ranged(op1=nl.greater), lambda: ranged(op1=nl.add), "comp_op1"),
    case(
        "range_select.on_true_tile",
        lambda: ranged(of=nl.float8_e5m2),
        lambda: ranged(of=nl.uint8),
        "on_true_tile",
    ),
    case(
        "range_select.reduce",
        lambda: ranged(reduce_op=nl.maximum),
        lambda: ranged(reduce_op=nl.minimum),
        "reduce_op",
    ),
    case(
        "range_select.reduce",
        lambda: ranged(reduce_cmd=command.reset),
        lambda: ranged(reduce_cmd=command.load_reduce),
        "reduce_cmd",
    ),
    case(
        "range_select.range_start",
        lambda: ranged(range_start=2**24 - 4),
        lambda: ranged(range_start=2**24 - 3),
        "range_start",
        level="documented",
    ),
    case(
        "range_select.range_start",
        lambda: ranged(range_start=1 - 2**24),
        lambda: ranged(range_start=-(2**24)),
        "range_start",
        level="documented",
    ),
    case(
        "range_select.on_false_value",
        lambda: ranged(on_false_value=-3.4028234663852886e38),
        lambda: ranged(on_false_value=-3.4e38),
        "on_false_value",
        level="documented",
    ),
    case("operand.dtype", lambda: ranged(), lambda: ranged(bound=BF16), "bound0"),
    case("operand.vector_shape", lambda: ranged(), lambda: ranged(columns=2), "bound0"),
    # select_reduce
    case(
        "select_reduce.predicate",
        lambda: selected(predicate=nl.int16),
        lambda: selected(predicate=nl.int32),
        "predicate",
    ),
    case("select_reduce.predicate", lambda: selected(), lambda: selected(predicate=nl.float8_e5m2), "predicate"),
    case("select_reduce.on_true", lambda: selected(of=nl.uint16), lambda: selected(of=nl.uint32), "on_true"),
    case("select_reduce.on_true", lambda: selected(), lambda: selected(of=nl.tfloat32), "on_true"),
    case(
        "select_reduce.reduce",
        lambda: selected(reduce_op=nl.maximum),
        lambda: selected(reduce_op=nl.add),
        "reduce_op",
    ),
    case(
        "select_reduce.reduce",
        lambda: selected(reduce_cmd=command.reduce),
        lambda: selected(reduce_cmd=command.load_reduce),
        "reduce_cmd",
    ),
    case(
        "select_reduce.reduce",
        lambda: selected(reduce_cmd=command.reduce, reduce_res=sbuf(4, 1, dtype=nl.float8_e5m2)),
        lambda: selected(reduce_cmd=command.reduce, reduce_res=sbuf(4, 1, dtype=nl.int8)),
        "reduce_res",
    ),
    case(
        "operand.reduce_res_idle",
        lambda: selected(reduce_cmd=command.reduce, reduce_res=sbuf(4, 1)),
        lambda: selected(reduce_res=sbuf(4, 1)),
        "reduce_res",
        level="documented",
    ),
    case("operand.psum_pair", lambda: selected(spaces=(psum, sbuf)), lambda: selected(spaces=(psum, psum)), "on_true"),
    case(
        "operand.dtype",
        lambda: nisa.select_reduce(sbuf(4, 4), sbuf(4, 4, dtype=nl.uint8), sbuf(4, 4), sbuf(4, 1, dtype=BF16)),
        lambda: nisa.select_reduce(
            sbuf(4, 4), sbuf(4, 4, dtype=nl.uint8), sbuf(4, 4), sbuf(4, 1, dtype=nl.float8_e5m2_x4)
        ),
        "on_false",
    ),
    # tensor_scalar_cumulative
    case(
        "tensor_scalar_cumulative.operators",
        lambda: cumulated(op0=nl.abs, imm0=None),
        lambda: cumulated(op0=nl.bitwise_and),
        "op0",
    ),
    case(
        "tensor_scalar_cumulative.operators",
        lambda: cumulated(op1=nl.subtract),
        lambda: cumulated(op1=nl.logical_or),
        "op1",
    ),
    case(
        "tensor_scalar_cumulative.reduce_cmd",
        lambda: cumulated(reduce_cmd=command.reduce),
        lambda: cumulated(reduce_cmd=command.idle),
        "reduce_cmd",
    ),
    case(
        "argument.type",
        lambda: cumulated(reduce_cmd=command.load_reduce, imm1=1.0),
        lambda: cumulated(reduce_cmd=command.load_reduce),
        "imm1",
    ),
    case("operand.dtype", lambda: cumulated(dst=nl.uint16), lambda: cumulated(dst=nl.int32), "dst"),
    case("operand.dtype", lambda: cumulated(src=nl.float8_e4m3fn), lambda: cumulated(src=nl.uint32), "src"),
    case("operand.dtype", lambda: cumulated(imm0=sbuf(4, 1)), lambda: cumulated(imm0=sbuf(4, 1, dtype=BF16)), "imm0"),
    case("operand.unary", lambda: cumulated(op0=nl.abs, imm0=0.0), lambda: cumulated(op0=nl.abs), "imm0"),
]
