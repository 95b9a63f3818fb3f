"""range_select, select_reduce, exponential and tensor_scalar_cumulative against plain NumPy: FP32 in the order that isa.md
gives, one cast at the end, and the accumulators that they share."""

import operator

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from test_elementwise import ARITHMETIC, compute
from test_vector_pairs import BINARY, DTYPES, REDUCE, START
from views import KEYS, bases, rows, views

import trn3
from emulated import FLOATS, cast, execute, fp32, random_array, same
from trn3.nki import isa as nisa
from trn3.nki import language as nl

LOWEST = np.finfo(np.float32).min
COMPARISONS = {
    "equal": operator.eq,
    "less": operator.lt,
    "less_equal": operator.le,
    "greater": operator.gt,
    "greater_equal": operator.ge,
}
SHAPES = [1, 17, 32, 128]


def commands(data, *names):
    """A few reduce commands, of which the first says where the accumulators start."""
    drawn = data.draw(st.lists(st.sampled_from(names), min_size=1, max_size=3))
    return [data.draw(st.sampled_from([name for name in names if "_" in name])), *drawn]


def accumulated(name, total, values):
    for column in values.T:
        total = compute(REDUCE[name], total, column)
    return total


@given(st.data())
def test_range_select_keeps_what_lies_between_the_bounds(data):
    ops = [data.draw(st.sampled_from(sorted(COMPARISONS))) for _ in range(2)]
    types = [data.draw(st.sampled_from(DTYPES)), data.draw(st.sampled_from(FLOATS))]
    key, view = data.draw(st.sampled_from(KEYS)), data.draw(views())
    start = data.draw(st.sampled_from([0, 3, -20, 2**24 - 15, -(2**24)]))
    partitions = data.draw(st.sampled_from(SHAPES))
    chain = commands(data, "reset_reduce", "reduce", "idle", "reset")
    d, x = bases(data, partitions, types)
    rng = np.random.default_rng(data.draw(st.integers(0, 99)))
    bounds = (start + rng.integers(-2, 18, (partitions, 2))).astype(np.float32)
    bounds[rng.random(bounds.shape) < 0.1] = np.nan
    largest = np.zeros((partitions, len(chain)), np.float32)

    def body(dst, tile, bounds, largest):
        for at, command in enumerate(chain):
            nisa.range_select(
                dst[key],
                view(tile),
                getattr(nl, ops[0]),
                getattr(nl, ops[1]),
                bounds[:, 0:1],
                bounds[:, 1:2],
                getattr(nisa.reduce_cmd, command),
                largest[:, at : at + 1],
                range_start=start,
            )

    got = execute(body, d, x, bounds, largest, spaces=data.draw(st.sampled_from(["ssss", "psss", "spss", "ppsp"])))
    position = np.arange(start, start + 15).astype(np.float32)
    holds = COMPARISONS[ops[0]](position, bounds[:, :1]) & COMPARISONS[ops[1]](position, bounds[:, 1:])
    selected = np.where(holds, rows(view(x)), LOWEST)
    total = np.zeros(partitions, np.float32)
    for at, command in enumerate(chain):
        total = np.full(partitions, -np.inf, np.float32) if command.startswith("reset") else total
        total = accumulated("maximum", total, selected) if command.endswith("reduce") else total
        largest[:, at] = total
    want = d.copy()
    want[key] = cast(selected.reshape(want[key].shape), types[0])
    same(got[0], want)
    same(got[3], largest)


def test_what_is_not_selected_is_minus_infinity_in_a_narrow_type_and_finite_in_the_maximum():
    x, bounds = np.ones((4, 8), np.float32), np.full((4, 1), 100, np.float32)

    def body(dst, tile, bound, largest, narrow):
        nisa.range_select(dst, tile, nl.greater, nl.greater, bound, bound, reduce_res=largest)
        nisa.tensor_copy(narrow, largest)

    narrow = cast(x, "bfloat16")
    got = execute(body, narrow, x, bounds, bounds, narrow[:, :1])
    assert (fp32(got[0]) == -np.inf).all()
    assert (got[3] == LOWEST).all()
    assert (fp32(got[4]) == -np.inf).all()


@given(st.data())
def test_select_reduce_takes_one_of_two(data):
    dtype = data.draw(st.sampled_from([name for name in DTYPES if name not in ("int32", "uint32")]))
    types = [data.draw(st.sampled_from(DTYPES)), dtype]
    kind = data.draw(st.sampled_from(["int8", "uint8", "int16", "uint16"]))
    key, view1, view2 = data.draw(st.sampled_from(KEYS)), data.draw(views()), data.draw(views())
    reverse, column = data.draw(st.booleans()), data.draw(st.booleans())
    chain = commands(data, "reset_reduce", "reduce", "idle")
    partitions = data.draw(st.sampled_from(SHAPES))
    d, x = bases(data, partitions, types)
    rng = np.random.default_rng(data.draw(st.integers(0, 99)))
    predicate = (rng.integers(0, 3, d.shape) * 77).astype(kind)
    other = random_array(rng, (partitions, 1), "float32")
    largest = np.zeros((partitions, len(chain)), np.float32)

    def body(dst, predicate, tile, other, largest):
        for at, command in enumerate(chain):
            nisa.select_reduce(
                dst[key],
                view1(predicate),
                view2(tile),
                other if column else -1.5,
                largest[:, at : at + 1],
                getattr(nisa.reduce_cmd, command),
                nl.maximum,
                reverse,
            )

    spaces = data.draw(st.sampled_from(["sssss", "psssp", "spsss", "sspss"]))
    got = execute(body, d, predicate, x, other, largest, spaces=spaces)
    holds = (view1(predicate).reshape(partitions, -1) != 0) != reverse
    selected = np.where(holds, rows(view2(x)), other if column else np.float32(-1.5))
    total = np.zeros(partitions, np.float32)
    for at, command in enumerate(chain):
        total = np.full(partitions, -np.inf, np.float32) if command == "reset_reduce" else total
        total = accumulated("maximum", total, selected) if command != "idle" else total
        largest[:, at] = total
    want = d.copy()
    want[key] = cast(selected.reshape(want[key].shape), types[0])
    same(got[0], want)
    same(got[4], largest)


@given(st.data())
def test_exponential_is_close_to_the_true_one_and_sums_in_order(data):
    types = ["float32", data.draw(st.sampled_from(["float32", "bfloat16", "float16", "int16", "uint8", "int32"]))]
    key, view = data.draw(st.sampled_from(KEYS)), data.draw(views())
    column = data.draw(st.booleans())
    partitions = data.draw(st.sampled_from(SHAPES))
    chain = commands(data, "reset_reduce", "reduce", "load_reduce", "idle")
    rng = np.random.default_rng(data.draw(st.integers(0, 99)))
    d = np.zeros((partitions, 6, 10), np.float32)
    x = cast(rng.uniform(-20, 20, d.shape), types[1])
    top, begin = (rng.standard_normal((partitions, 1)).astype(np.float32) for _ in range(2))
    sums = np.zeros((partitions, len(chain)), np.float32)

    def body(dst, tile, top, begin, sums):
        for at, command in enumerate(chain):
            init = {"reduce_init": begin if column else 2.5} if command == "load_reduce" else {}
            nisa.exponential(
                dst[key],
                view(tile),
                top if column else 0.75,
                sums[:, at : at + 1],
                getattr(nisa.reduce_cmd, command),
                **init,
            )

    got = execute(body, d, x, top, begin, sums, spaces=data.draw(st.sampled_from(["sssss", "pssss", "spssp"])))
    shifted = rows(view(x)) - (top if column else np.float32(0.75))
    values = got[0][key].reshape(partitions, -1)
    exact = np.exp(shifted.astype(np.float64))
    assert (np.abs(values - exact) <= 2 * np.spacing(exact.astype(np.float32))).all()
    total = np.zeros(partitions, np.float32)
    for at, command in enumerate(chain):
        total = {
            "reset_reduce": np.zeros(partitions, np.float32),
            "load_reduce": begin[:, 0] if column else np.full(partitions, 2.5, np.float32),
        }.get(command, total)
        total = accumulated("add", total, values) if command != "idle" else total
        sums[:, at] = total
    same(got[4], sums)


@pytest.mark.parametrize(
    "dst", ["bfloat16", "float16", "float8_e4m3", "float8_e5m2", "int8", "uint8", "int16", "uint16"]
)
def test_exponential_is_converted_once_and_summed_before(dst):
    x = np.random.default_rng(5).uniform(-3, 6, (32, 200)).astype(np.float32)
    sums = np.zeros((32, 2), np.float32)

    def body(narrow, wide, tile, sums):
        nisa.exponential(wide, tile, 0.5, sums[:, 0:1], nisa.reduce_cmd.reset_reduce)
        nisa.exponential(narrow, tile, 0.5, sums[:, 1:2], nisa.reduce_cmd.reset_reduce)

    narrow, wide, _, sums = execute(body, cast(x, dst), x, x, sums)
    same(narrow, cast(wide, dst))
    same(sums[:, 0], sums[:, 1])


def test_exponential_and_activation_agree():
    x = np.random.default_rng(6).uniform(-30, 30, (128, 512)).astype(np.float32)

    def body(fast, slow, tile):
        nisa.exponential(fast, tile, 0.25)
        nisa.activation(slow, nl.exp, tile, -0.25)

    fast, slow, _ = execute(body, x, x, x)
    same(fast, slow)


@given(st.data())
def test_tensor_scalar_cumulative_is_a_running_reduction(data):
    op0 = data.draw(st.sampled_from(BINARY))
    op1 = data.draw(st.sampled_from([*sorted(REDUCE), "subtract"]))
    names = [name for name in DTYPES if name not in ("int32", "uint32")]
    types = [data.draw(st.sampled_from(names)) for _ in range(2)]
    key, view, column = data.draw(st.sampled_from(KEYS)), data.draw(views()), data.draw(st.booleans())
    chain = commands(data, "reset_reduce", "reduce", "load_reduce")
    partitions = data.draw(st.sampled_from(SHAPES))
    d, x = bases(data, partitions, types)
    begin = random_array(np.random.default_rng(4), (partitions, 1), "float32", special=False)

    def body(dst, tile, begin):
        for command in chain:
            nisa.tensor_scalar_cumulative(
                dst[key],
                view(tile),
                getattr(nl, op0),
                getattr(nl, op1),
                begin if column else 1.25,
                (begin if column else 0.5) if command == "load_reduce" else None,
                getattr(nisa.reduce_cmd, command),
            )

    got = execute(body, d, x, begin, spaces=data.draw(st.sampled_from(["sss", "pss", "sps", "pps"])))
    scalar = np.broadcast_to(begin if column else np.float32(1.25), (partitions, 15))
    values = compute(ARITHMETIC[op0], rows(view(x)), scalar)
    state, result = np.zeros(partitions, np.float32), np.empty((partitions, 15), np.float32)
    for command in chain:
        if command == "reset_reduce":
            state = np.full(partitions, START.get(op1, 0.0), np.float32)
        if command == "load_reduce":
            state = begin[:, 0] if column else np.full(partitions, 0.5, np.float32)
        for at in range(15):
            state = compute(ARITHMETIC[op1], values[:, at], state)
            result[:, at] = state
    want = d.copy()
    want[key] = cast(result.reshape(want[key].shape), types[0])
    same(got[0], want)


def test_the_instructions_share_vector_engines_accumulators():
    x = np.random.default_rng(7).standard_normal((32, 64)).astype(np.float32)
    p, sums = np.ones((32, 64), np.uint8), np.zeros((32, 3), np.float32)

    def body(dst, tile, predicate, sums):
        nisa.tensor_scalar_reduce(dst, tile, nl.multiply, 1.0, nl.maximum, sums[:, 0:1])
        nisa.select_reduce(dst, predicate, tile, 0.0, sums[:, 1:2], nisa.reduce_cmd.reduce)
        nisa.tensor_scalar_cumulative(dst, tile, nl.multiply, nl.add, 1.0, 0.0, nisa.reduce_cmd.load_reduce)
        nisa.select_reduce(dst, predicate, tile, 0.0, sums[:, 2:3], nisa.reduce_cmd.idle)

    got = execute(body, x, x, p, sums)[3]
    same(got[:, 0], x.max(axis=1))
    same(got[:, 1], x.max(axis=1))
    same(got[:, 2], accumulated("add", np.zeros(32, np.float32), x))


@pytest.mark.parametrize(
    ("body", "cycles"),
    [
        (lambda d, x, p, b: nisa.range_select(d, x, nl.less, nl.less, b, b), 512),
        (lambda d, x, p, b: nisa.select_reduce(d, p, x, 0.0), 1024),
        (lambda d, x, p, b: nisa.tensor_scalar_cumulative(d, x, nl.add, nl.add, 1.0), 512),
        (lambda d, x, p, b: nisa.exponential(d, x), 256),
    ],
    ids=["range_select", "select_reduce", "tensor_scalar_cumulative", "exponential"],
)
def test_costs_follow_timing_md(body, cycles):
    """Cycles an element of timing.md section 6.1, and the latency of the class."""

    def kernel(x, p, b):
        tile, predicate, bound = nl.load(x), nl.load(p), nl.load(b)
        d = nl.zeros((128, 512), nl.float32)
        body(d, tile, predicate, bound)
        out = nl.ndarray(x.shape, x.dtype, buffer=nl.shared_hbm)
        nl.store(out, d)
        return out

    x = np.ones((128, 512), np.float32)
    run = trn3.run(kernel, x, x.astype(np.uint8), x[:, :1].copy())
    at = len(run.program.opcodes()) - 2
    issue, end, _ = run.report.timeline.instruction(at)
    timing = "tensor_tensor" if run.program.opcodes()[at] == "select_reduce" else "other"
    latency = run.table.entry(f"vector.{timing}.latency_cycles")["value"]
    assert end - issue == int((cycles + latency) * 10**12 / 1.2e9)
