"""reciprocal, scalar_tensor_tensor, tensor_copy_predicated, tensor_tensor_scan, tensor_scalar_reduce, activation_reduce
against plain NumPy: FP32 in the order that isa.md gives, one cast at the end."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from test_elementwise import ARITHMETIC, compute
from views import KEYS, bases, rows, views

import trn3
from emulated import FLOATS, INTEGERS, cast, execute, fp32, numpy_dtype, random_array, same, simulation
from trn3.nki import isa as nisa
from trn3.nki import language as nl

DTYPES = FLOATS + INTEGERS
BINARY = [name for name in sorted(ARITHMETIC) if name != "power"]
REDUCE = {"add": np.add, "multiply": np.multiply, "maximum": np.maximum, "minimum": np.minimum}
START = {"add": 0.0, "multiply": 1.0, "maximum": -np.inf, "minimum": np.inf}


def in_order(name, values, start):
    """A reduction of each row, one element after the other, in FP32."""
    total = np.broadcast_to(np.float32(start), values.shape[:1]).copy()
    for column in values.T:
        total = compute(REDUCE[name], total, column)
    return total


@given(st.data())
def test_reciprocal_is_one_division(data):
    types = [data.draw(st.sampled_from(DTYPES)) for _ in range(2)]
    spaces = data.draw(st.sampled_from(["ss", "ps", "sp", "pp"]))
    key, view = data.draw(st.sampled_from(KEYS)), data.draw(views())
    d, x = bases(data, data.draw(st.sampled_from([1, 3, 128])), types)

    def body(dst, data):
        nisa.reciprocal(dst[key], view(data))

    got = execute(body, d, x, spaces=spaces)
    want = d.copy()
    want[key] = cast(compute(lambda v: np.float32(1) / v, rows(view(x))).reshape(want[key].shape), types[0])
    same(got[0], want)


@given(st.data())
def test_scalar_tensor_tensor_rounds_after_each_operator(data):
    op0, op1 = (data.draw(st.sampled_from(BINARY)) for _ in range(2))
    types = [data.draw(st.sampled_from(DTYPES)) for _ in range(3)]
    spaces = data.draw(st.sampled_from(["sss", "pss", "ssp", "sps"]))
    key, view1, view2 = data.draw(st.sampled_from(KEYS)), data.draw(views()), data.draw(views())
    reverse = data.draw(st.booleans()), data.draw(st.booleans())
    partitions = data.draw(st.sampled_from([1, 3, 32, 128]))
    d, x, y = bases(data, partitions, types)
    column = data.draw(st.booleans())
    operand = random_array(np.random.default_rng(3), (partitions, 1), "float32", special=False)

    def body(dst, data, operand1, vector):
        nisa.scalar_tensor_tensor(
            dst[key],
            view1(data),
            getattr(nl, op0),
            vector if column else 1.25,
            getattr(nl, op1),
            view2(operand1),
            reverse0=reverse[0],
            reverse1=reverse[1],
        )

    got = execute(body, d, x, y, operand, spaces=spaces + "s")
    scalar = operand if column else np.float32(1.25)
    pair = (scalar, rows(view1(x))) if reverse[0] else (rows(view1(x)), scalar)
    t = compute(ARITHMETIC[op0], *np.broadcast_arrays(*pair))
    pair = (rows(view2(y)), t) if reverse[1] else (t, rows(view2(y)))
    want = d.copy()
    want[key] = cast(compute(ARITHMETIC[op1], *pair).reshape(want[key].shape), types[0])
    same(got[0], want)


@given(st.data())
def test_a_predicated_copy_moves_bits_where_the_predicate_holds(data):
    dtype = data.draw(st.sampled_from(DTYPES))
    predicate_dtype = data.draw(st.sampled_from(["uint8", "uint16", "uint32"]))
    key, view1, view2 = data.draw(st.sampled_from(KEYS)), data.draw(views()), data.draw(views())
    reverse, number = data.draw(st.booleans()), data.draw(st.booleans())
    spaces = data.draw(st.sampled_from(["sss", "pss", "ssp", "sps"]))
    partitions = data.draw(st.sampled_from([1, 32, 128]))
    d, x = bases(data, partitions, [dtype, dtype])
    p = (np.random.default_rng(data.draw(st.integers(0, 99))).integers(0, 3, d.shape) * 7).astype(predicate_dtype)

    def body(dst, src, predicate):
        nisa.tensor_copy_predicated(dst[key], 2.5 if number else view1(src), view2(predicate), reverse_pred=reverse)

    got = execute(body, d, x, p, spaces=spaces)
    source = (
        np.broadcast_to(cast(np.float32(2.5), dtype), (partitions, 15)) if number else view1(x).reshape(partitions, -1)
    )
    holds = (view2(p).reshape(partitions, -1) != 0) != reverse
    want = d.copy()
    want[key] = np.where(holds, source, d[key].reshape(partitions, -1)).reshape(want[key].shape)
    same(got[0], want)


@given(st.data())
def test_a_scan_is_a_recurrence_in_fp32(data):
    op0, op1 = (
        data.draw(st.sampled_from(["add", "subtract", "multiply", "maximum", "minimum", "less"])) for _ in range(2)
    )
    types = [data.draw(st.sampled_from(DTYPES)) for _ in range(3)]
    spaces = data.draw(st.sampled_from(["sss", "pss", "ssp", "sps"]))
    key, view1, view2 = data.draw(st.sampled_from(KEYS)), data.draw(views()), data.draw(views())
    reverse = data.draw(st.booleans()), data.draw(st.booleans())
    partitions = data.draw(st.sampled_from([1, 17, 32, 128]))
    d, x, y = bases(data, partitions, types)
    column = data.draw(st.booleans())
    start = random_array(np.random.default_rng(3), (partitions, 1), "bfloat16", special=False)

    def body(dst, data0, data1, initial):
        nisa.tensor_tensor_scan(
            dst[key],
            view1(data0),
            view2(data1),
            initial if column else -0.75,
            getattr(nl, op0),
            getattr(nl, op1),
            reverse0=reverse[0],
            reverse1=reverse[1],
        )

    got = execute(body, d, x, y, start, spaces=spaces + "s")
    state = fp32(start)[:, 0] if column else np.full(partitions, -0.75, np.float32)
    result = np.empty((partitions, 15), np.float32)
    a, b = rows(view1(x)), rows(view2(y))
    for i in range(15):
        pair = (state, a[:, i]) if reverse[0] else (a[:, i], state)
        t = compute(ARITHMETIC[op0], *pair)
        pair = (b[:, i], t) if reverse[1] else (t, b[:, i])
        state = compute(ARITHMETIC[op1], *pair)
        result[:, i] = state
    want = d.copy()
    want[key] = cast(result.reshape(want[key].shape), types[0])
    same(got[0], want)


def test_a_scan_goes_on_with_what_was_not_rounded_to_the_destination():
    ones = np.full((1, 300), 1.0, np.float32)
    got = execute(
        lambda dst, a, b: nisa.tensor_tensor_scan(dst, a, b, 0.0, nl.multiply, nl.add),
        ones.astype(numpy_dtype("bfloat16")),
        ones,
        ones,
    )[0]
    np.testing.assert_array_equal(got, np.arange(1, 301, dtype=np.float32).astype(numpy_dtype("bfloat16"))[None])


@given(st.data())
def test_tensor_scalar_reduce_takes_elements_in_order_over_several_instructions(data):
    op0 = data.draw(st.sampled_from(BINARY))
    reduce = data.draw(st.sampled_from(sorted(REDUCE)))
    commands = data.draw(
        st.lists(st.sampled_from(["reset_reduce", "reduce", "load_reduce", "idle", "reset"]), min_size=1, max_size=4)
    )
    commands[0] = data.draw(st.sampled_from(["reset_reduce", "load_reduce"]))
    types = [data.draw(st.sampled_from(DTYPES)) for _ in range(2)]
    key, view = data.draw(st.sampled_from(KEYS)), data.draw(views())
    negate = data.draw(st.booleans())
    partitions = data.draw(st.sampled_from([1, 17, 32, 128]))
    d, x = bases(data, partitions, types)
    results = np.zeros((partitions, len(commands)), np.float32)

    def body(dst, data, sums):
        for at, command in enumerate(commands):
            nisa.tensor_scalar_reduce(
                dst[key],
                view(data),
                getattr(nl, op0),
                1.25 + at,
                getattr(nl, reduce),
                sums[:, at : at + 1],
                reduce_cmd=getattr(nisa.reduce_cmd, command),
                reduce_init=0.5 if command == "load_reduce" else None,
                reduce_res_negate=negate,
            )

    got = execute(body, d, x, results, spaces=data.draw(st.sampled_from(["sss", "pss", "sps", "ssp"])))
    total = np.zeros(partitions, np.float32)
    for at, command in enumerate(commands):
        scalar = np.full((partitions, 15), 1.25 + at, np.float32)
        t = compute(ARITHMETIC[op0], rows(view(x)), scalar)
        if command in ("reset_reduce", "reset"):
            total = np.full(partitions, START[reduce], np.float32)
        if command == "load_reduce":
            total = np.full(partitions, 0.5, np.float32)
        if command in ("reset_reduce", "reduce", "load_reduce"):
            for column in t.T:
                total = compute(REDUCE[reduce], total, column)
        results[:, at] = compute(np.multiply, total, np.float32(-1)) if negate else total
    want = d.copy()
    want[key] = cast(t.reshape(want[key].shape), types[0])
    same(got[0], want)
    same(got[2], results)


@pytest.mark.parametrize("free", [1, 15, 2048, 5000])
def test_reductions_of_long_rows_are_in_order(free):
    rng = np.random.default_rng(free)
    x = rng.standard_normal((37, free)).astype(np.float32)
    sums = np.zeros((37, 2), np.float32)

    def body(dst, data, sums):
        nisa.tensor_scalar_reduce(dst, data, nl.multiply, 1.0, nl.add, sums[:, 0:1])
        nisa.activation_reduce(dst, nl.copy, data, nl.add, sums[:, 1:2])

    got = execute(body, x, x, sums)[2]
    want = in_order("add", x, 0.0)
    np.testing.assert_array_equal(got, np.stack([want, want], axis=1))


def test_activation_reduce_is_activation_with_reset_reduce():
    rng = np.random.default_rng(11)
    x = rng.standard_normal((128, 300)).astype(np.float32)
    sums = np.zeros((128, 3), np.float32)

    def body(dst, other, data, sums):
        nisa.activation_reduce(dst, nl.exp, data, nl.add, sums[:, 0:1], bias=0.5, scale=-1.0)
        nisa.activation(other, nl.exp, data, 0.5, -1.0, nl.add, sums[:, 1:2], nisa.reduce_cmd.reset_reduce)
        nisa.activation_reduce(dst, nl.exp, data, nl.add, None, bias=0.5, scale=-1.0)
        nisa.activation(other, nl.exp, data, 0.5, -1.0, nl.add, sums[:, 2:3], nisa.reduce_cmd.idle)

    got = execute(body, x, x, x, sums)
    same(got[0], got[1])
    np.testing.assert_array_equal(got[3][:, 0], got[3][:, 1])
    np.testing.assert_array_equal(got[3][:, 0], got[3][:, 2])


def test_what_a_predicate_leaves_out_stays_unwritten():
    x, p = np.ones((4, 8), np.float32), np.zeros((4, 8), np.uint8)
    p[:, ::2] = 1

    def body(src, predicate):
        fresh = nl.ndarray((4, 8), nl.float32)
        nisa.tensor_copy_predicated(fresh, src, predicate)
        nisa.tensor_copy(src, fresh)

    simulated, got = simulation(body, x, p)
    np.testing.assert_array_equal(np.isnan(got[0]), p == 0)
    assert {finding["rule"] for finding in simulated.findings} == {"uninitialized.output"}


CYCLES = [
    # Instruction, cycles an element by the table, latency class.
    (lambda d, x, y, p: nisa.reciprocal(d, x), "reciprocal_cycles_per_element", "reciprocal"),
    (
        lambda d, x, y, p: nisa.scalar_tensor_tensor(d, x, nl.add, 1.0, nl.multiply, y),
        "scalar_tensor_tensor.sbuf_bits32_cycles_per_element",
        "tensor_tensor",
    ),
    (lambda d, x, y, p: nisa.tensor_copy_predicated(d, x, p), "select_cycles_per_element", "tensor_tensor"),
    (
        lambda d, x, y, p: nisa.tensor_tensor_scan(d, x, y, 0.0, nl.multiply, nl.add),
        "tensor_tensor_scan_cycles_per_element",
        "other",
    ),
    (
        lambda d, x, y, p: nisa.tensor_scalar_reduce(d, x, nl.add, 1.0, nl.add),
        "tensor_scalar_reduce_cycles_per_element",
        "other",
    ),
]


@pytest.mark.parametrize("target", ["trn2", "trn3"])
@pytest.mark.parametrize(("body", "rate", "timing"), CYCLES, ids=[case[1].split("_cycles")[0] for case in CYCLES])
def test_costs_are_the_tables(body, rate, timing, target):
    from fractions import Fraction

    def kernel(x, p):
        d, y = nl.zeros((128, 512), nl.float32), nl.zeros((128, 512), nl.float32)
        tile, predicate = nl.load(x), nl.load(p)
        nisa.tensor_copy(y, tile)
        body(d, tile, y, predicate)
        out = nl.ndarray(x.shape, x.dtype, buffer=nl.shared_hbm)
        nl.store(out, d)
        return out

    x, p = np.ones((128, 512), np.float32), np.ones((128, 512), np.uint8)
    run = trn3.run(kernel, x, p, options=trn3.RunOptions(target=target))
    entry = lambda key: run.table.entry(f"vector.{key}")["value"]  # noqa: E731
    issue, end, _ = run.report.timeline.instruction(len(run.program.opcodes()) - 2)
    cycles = 512 * Fraction(str(entry(f"stream.{rate}"))) + entry(f"{timing}.latency_cycles")
    assert end - issue == int(cycles * 10**12 / entry("clock_hz"))
