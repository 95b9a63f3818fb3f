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
]
