"""The cases of `test_rules` for VectorE's instructions on pairs of tiles, and their reductions."""

from rule_cases import case
from rule_tiles import psum, sbuf

from trn3.nki import isa as nisa
from trn3.nki import language as nl

command = nisa.reduce_cmd


def scan(**more):
    given = {"op0": nl.multiply, "op1": nl.add, "data1": sbuf(4, 4)} | more
    nisa.tensor_tensor_scan(sbuf(4, 4), sbuf(4, 4), initial=0.0, **given)


def reduce(**more):
    given = {"op0": nl.add, "operand0": 1.0, "reduce_op": nl.add} | more
    nisa.tensor_scalar_reduce(sbuf(4, 4), sbuf(4, 4), **given)


def copied(src=None, predicate=None, dtype=nl.float32):
    nisa.tensor_copy_predicated(
        sbuf(4, 4, dtype=dtype), sbuf(4, 4) if src is None else src, sbuf(4, 4, dtype=predicate or nl.uint8)
    )


def ranged(data=nl.float32, bound=nl.float32, **more):
    given = {"comp_op0": nl.less, "comp_op1": nl.greater_equal} | more
    bounds = {"bound0": sbuf(4, 1), "bound1": sbuf(4, 1, dtype=bound)}
    nisa.range_select(sbuf(4, 4), sbuf(4, 4, dtype=data), **bounds, **given)


def selected(predicate=nl.uint8, data=nl.float32, result=nl.float32, **more):
    nisa.select_reduce(
        sbuf(4, 4), sbuf(4, 4, dtype=predicate), sbuf(4, 4, dtype=data), 0.0, sbuf(4, 1, dtype=result), **more
    )


def exponential(dst=nl.float32, src=nl.float32, **more):
    nisa.exponential(sbuf(4, 4, dtype=dst), sbuf(4, 4, dtype=src), **more)


def cumulative(dst=nl.float32, src=nl.float32, **more):
    given = {"op0": nl.add, "op1": nl.add, "imm0": 1.0} | more
    nisa.tensor_scalar_cumulative(sbuf(4, 4, dtype=dst), sbuf(4, 4, dtype=src), **given)


def both_in_psum(first, second):
    x, y = psum(4, 4), psum(4, 4)
    nisa.tensor_copy(x, sbuf(4, 4))
    nisa.tensor_copy(y, sbuf(4, 4))
    return first(x), second(y)


VECTOR_CASES = [
    case(
        "scalar_tensor_tensor.operators",
        lambda: nisa.scalar_tensor_tensor(sbuf(4, 4), sbuf(4, 4), nl.abs, None, nl.add, sbuf(4, 4)),
        lambda: nisa.scalar_tensor_tensor(sbuf(4, 4), sbuf(4, 4), nl.add, 1.0, nl.abs, sbuf(4, 4)),
        "op1",
    ),
    case(
        "scalar_tensor_tensor.operators",
        lambda: nisa.scalar_tensor_tensor(sbuf(4, 4), sbuf(4, 4), nl.add, 1.0, nl.add, sbuf(4, 4)),
        lambda: nisa.scalar_tensor_tensor(sbuf(4, 4), sbuf(4, 4), nl.bitwise_and, 1.0, nl.add, sbuf(4, 4)),
        "op0",
    ),
    case(
        "tensor_copy_predicated.predicate",
        lambda: copied(predicate=nl.uint32),
        lambda: copied(predicate=nl.int8),
        "predicate",
    ),
    case(
        "tensor_copy_predicated.src",
        lambda: copied(src=1.0, dtype=nl.bfloat16),
        lambda: copied(dtype=nl.bfloat16),
        "src",
    ),
    case("tensor_tensor_scan.operators", lambda: scan(), lambda: scan(op0=nl.abs), "op0"),
    case("tensor_tensor_scan.operators", lambda: scan(op1=nl.less), lambda: scan(op1=nl.bitwise_or), "op1"),
    case(
        "tensor_scalar_reduce.operators",
        lambda: reduce(reduce_op=nl.minimum),
        lambda: reduce(reduce_op=nl.subtract),
        "reduce_op",
    ),
    case(
        "tensor_scalar_reduce.reduce_init",
        lambda: reduce(reduce_cmd=command.load_reduce, reduce_init=1.0),
        lambda: reduce(reduce_cmd=command.load_reduce),
        "reduce_init",
    ),
    case("tensor_scalar_reduce.reduce_init", lambda: reduce(), lambda: reduce(reduce_init=1.0), "reduce_init"),
    case("tensor_scalar_reduce.reverse0", lambda: reduce(reverse0=False), lambda: reduce(reverse0=True), "reverse0"),
    case(
        "activation.reduce",
        lambda: nisa.activation_reduce(sbuf(4, 4), nl.exp, sbuf(4, 4), nl.add, sbuf(4, 1)),
        lambda: nisa.activation_reduce(sbuf(4, 4), nl.exp, sbuf(4, 4), nl.maximum, sbuf(4, 1)),
        "reduce_op",
    ),
    case("range_select.operators", lambda: ranged(), lambda: ranged(comp_op0=nl.not_equal), "comp_op0"),
    case("range_select.operators", lambda: ranged(comp_op1=nl.equal), lambda: ranged(comp_op1=nl.add), "comp_op1"),
    case("range_select.operators", lambda: ranged(reduce_op=nl.maximum), lambda: ranged(reduce_op=nl.add), "reduce_op"),
    case(
        "range_select.operators",
        lambda: ranged(reduce_cmd=command.reduce),
        lambda: ranged(reduce_cmd=command.load_reduce),
        "reduce_cmd",
    ),
    case("range_select.tiles", lambda: ranged(nl.bfloat16), lambda: ranged(nl.int16), "on_true_tile"),
    case("range_select.tiles", lambda: ranged(), lambda: ranged(bound=nl.bfloat16), "bound1"),
    case(
        "range_select.on_false_value",
        lambda: ranged(on_false_value=-3.4028235e38),
        lambda: ranged(on_false_value=-3.4e38),
        "on_false_value",
    ),
    case(
        "range_select.positions",
        lambda: ranged(range_start=2**24 - 4),
        lambda: ranged(range_start=2**24 - 3),
        "range_start",
    ),
    case(
        "range_select.positions",
        lambda: ranged(range_start=-(2**24)),
        lambda: ranged(range_start=-(2**24) - 1),
        "range_start",
    ),
    case("select_reduce.tiles", lambda: selected(nl.int16), lambda: selected(nl.uint32), "predicate"),
    case("select_reduce.tiles", lambda: selected(data=nl.int16), lambda: selected(data=nl.int32), "on_true"),
    case("select_reduce.tiles", lambda: selected(result=nl.bfloat16), lambda: selected(result=nl.int16), "reduce_res"),
    case(
        "select_reduce.reduce",
        lambda: selected(reduce_cmd=command.reduce),
        lambda: selected(reduce_cmd=command.reset),
        "reduce_cmd",
    ),
    case(
        "select_reduce.reduce",
        lambda: selected(reduce_op=nl.maximum),
        lambda: selected(reduce_op=nl.minimum),
        "reduce_op",
    ),
    case("exponential.dtype", lambda: exponential(nl.int32), lambda: exponential(nl.uint32), "dst"),
    case("exponential.dtype", lambda: exponential(src=nl.uint32), lambda: exponential(src=nl.tfloat32), "src"),
    case(
        "exponential.dtype",
        lambda: exponential(max_value=sbuf(4, 1)),
        lambda: exponential(max_value=sbuf(4, 1, dtype=nl.bfloat16)),
        "max_value",
    ),
    case(
        "exponential.dtype",
        lambda: exponential(reduce_res=sbuf(4, 1, dtype=nl.bfloat16)),
        lambda: exponential(reduce_res=sbuf(4, 1, dtype=nl.int32)),
        "reduce_res",
    ),
    case(
        "exponential.reduce_init",
        lambda: exponential(reduce_cmd=command.load_reduce, reduce_init=1.0),
        lambda: exponential(reduce_cmd=command.reset_reduce, reduce_init=1.0),
        "reduce_init",
    ),
    case(
        "exponential.reduce_cmd",
        lambda: exponential(reduce_cmd=command.reduce),
        lambda: exponential(reduce_cmd=command.reset),
        "reduce_cmd",
    ),
    case("tensor_scalar_cumulative.operators", lambda: cumulative(), lambda: cumulative(op0=nl.bitwise_or), "op0"),
    case(
        "tensor_scalar_cumulative.operators",
        lambda: cumulative(op1=nl.subtract),
        lambda: cumulative(op1=nl.power),
        "op1",
    ),
    case(
        "tensor_scalar_cumulative.operators",
        lambda: cumulative(reduce_cmd=command.reduce),
        lambda: cumulative(reduce_cmd=command.idle),
        "reduce_cmd",
    ),
    case("tensor_scalar_cumulative.dtype", lambda: cumulative(nl.int16), lambda: cumulative(nl.int32), "dst"),
    case("tensor_scalar_cumulative.dtype", lambda: cumulative(), lambda: cumulative(src=nl.uint32), "src"),
    case(
        "tensor_scalar_cumulative.dtype",
        lambda: cumulative(imm0=sbuf(4, 1)),
        lambda: cumulative(imm0=sbuf(4, 1, dtype=nl.bfloat16)),
        "imm0",
    ),
    case(
        "tensor_scalar_cumulative.imm1",
        lambda: cumulative(reduce_cmd=command.load_reduce, imm1=1.0),
        lambda: cumulative(imm1=1.0),
        "imm1",
    ),
]
