"""exponential, range_select, select_reduce, tensor_scalar_cumulative, and the accumulators that they share with
tensor_scalar_reduce, against plain NumPy: FP32 in ascending order along the free dimensions, one cast at the end."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from test_elementwise import ARITHMETIC, UNARY, compute, maximum
from views import KEYS, bases, rows, views

from emulated import FLOATS, INTEGERS, cast, execute, fp32, numpy_dtype, random_array, same, simulation
from trn3 import nki
from trn3.nki import isa as nisa
from trn3.nki import language as nl

DTYPES = FLOATS + INTEGERS
LOWEST = np.finfo(np.float32).min
START = {"add": 0.0, "subtract": 0.0, "multiply": 1.0, "maximum": -np.inf, "minimum": np.inf}
COMPARISONS = ["equal", "less", "less_equal", "greater", "greater_equal"]
PARTITIONS = st.sampled_from([1, 17, 32, 128])


# What isa.md says of one instruction: each returns the FP32 results; `total` has the accumulators of the partitions and
# is replaced in place. ----------------------------------------------------------------------------------------------


def begin(total, command, start, load=None):
    if command in ("reset", "reset_reduce"):
        total[:] = start
    if command == "load_reduce":
        total[:] = load


def accumulated(function, total, values, command):
    if command in ("reduce", "reset_reduce", "load_reduce"):
        for column in values.T:
            total[:] = compute(function, total, column)
    return values


def exponential(total, x, largest, command, load):
    begin(total, command, 0.0, load)
    with np.errstate(all="ignore"):
        values = np.exp((x - fp32(largest)).astype(np.float64)).astype(np.float32)
    return accumulated(np.add, total, values, command)


def range_select(total, x, comparisons, bounds, start, command):
    begin(total, command, -np.inf)
    index = (start + np.arange(x.shape[1])).astype(np.float32)[None]
    holds = [ARITHMETIC[name](index, bound) != 0 for name, bound in zip(comparisons, bounds, strict=True)]
    return accumulated(maximum, total, np.where(holds[0] & holds[1], x, LOWEST), command)


def select_reduce(total, predicate, x, other, reverse, command):
    begin(total, command, -np.inf)
    return accumulated(maximum, total, np.where((predicate != 0) != reverse, x, fp32(other)), command)


def cumulative(total, x, op0, operand, op1, command, load):
    begin(total, command, START[op1], load)
    t = compute(UNARY[op0], x) if op0 in UNARY else compute(ARITHMETIC[op0], x, fp32(operand))
    out = np.empty_like(x)
    for at, column in enumerate(t.T):
        total[:] = out[:, at] = compute(ARITHMETIC[op1], column, total)
    return out


# One instruction -----------------------------------------------------------------------------------------------------


def column_of(data, partitions, scale=1.0):
    """A (P, 1) array, or a constant."""
    if data.draw(st.booleans()):
        return np.float32(data.draw(st.sampled_from([0.0, 1.5, -2.25]))) * np.float32(scale), False
    rng = np.random.default_rng(data.draw(st.integers(0, 99)))
    return (rng.standard_normal((partitions, 1)) * scale).astype(np.float32), True


def tile_of(value):
    """What stands for a constant among the tiles of a call."""
    return value if isinstance(value, np.ndarray) else np.zeros((1, 1), np.float32)


@given(st.data())
def test_exponential(data):
    types = [
        data.draw(st.sampled_from(sorted(set(DTYPES) - drop)))
        for drop in ({"float8_e4m3fn", "uint32"}, {"float8_e4m3fn"})
    ]
    result_type = data.draw(st.sampled_from(sorted(set(FLOATS) - {"float8_e4m3fn"})))
    key, view = data.draw(st.sampled_from(KEYS)), data.draw(views())
    partitions = data.draw(PARTITIONS)
    d, x = bases(data, partitions, types)
    largest, has_largest = column_of(data, partitions, 20.0)
    load, has_load = column_of(data, partitions)
    command = data.draw(st.sampled_from(["idle", "reset_reduce", "load_reduce"]))
    results = np.zeros((partitions, 1), numpy_dtype(result_type))

    def body(dst, src, largest_tile, load_tile, result):
        nisa.exponential(
            dst[key],
            view(src),
            largest_tile if has_largest else float(largest),
            None if command == "idle" else result,
            getattr(nisa.reduce_cmd, command),
            0.0 if command != "load_reduce" else load_tile if has_load else float(load),
        )

    spaces = data.draw(st.sampled_from(["ss", "ps", "sp", "pp"])) + "sss"
    got = execute(body, d, x, tile_of(largest), tile_of(load), results, spaces=spaces)
    total = np.zeros(partitions, np.float32)
    values = exponential(total, rows(view(x)), largest, command, np.ravel(load))
    want = d.copy()
    want[key] = cast(values.reshape(want[key].shape), types[0])
    same(got[0], want)
    if command != "idle":
        same(got[4], cast(total[:, None], result_type))


@given(st.data())
def test_range_select(data):
    types = [data.draw(st.sampled_from(DTYPES)), data.draw(st.sampled_from(FLOATS))]
    result_type = data.draw(st.sampled_from(DTYPES))
    key, view = data.draw(st.sampled_from(KEYS)), data.draw(views())
    partitions = data.draw(PARTITIONS)
    d, x = bases(data, partitions, types)
    comparisons = [data.draw(st.sampled_from(COMPARISONS)) for _ in range(2)]
    start = data.draw(st.sampled_from([0, 3, -7, 1000, 2**24 - 15]))
    rng = np.random.default_rng(data.draw(st.integers(0, 99)))
    bounds = [(start + rng.integers(-3, 19, (partitions, 1)) / 2).astype(np.float32) for _ in range(2)]
    bounds[0][rng.random((partitions, 1)) < 0.2] = data.draw(st.sampled_from([np.nan, np.inf, -np.inf]))
    results = np.zeros((partitions, 1), numpy_dtype(result_type))

    def body(dst, src, bound0, bound1, result):
        names = [getattr(nl, name) for name in comparisons]
        nisa.range_select(dst[key], view(src), *names, bound0, bound1, reduce_res=result, range_start=start)

    spaces = data.draw(st.sampled_from(["ss", "ps", "sp", "pp"])) + "sss"
    simulated, got = simulation(body, d, x, *bounds, results, spaces=spaces)
    assert [f for f in simulated.findings if f["rule"].startswith("range_select")] == []
    total = np.zeros(partitions, np.float32)
    values = range_select(total, rows(view(x)), comparisons, bounds, start, "reset_reduce")
    want = d.copy()
    want[key] = cast(values.reshape(want[key].shape), types[0])
    same(got[0], want)
    same(got[4], cast(total[:, None], result_type))


@given(st.data())
def test_select_reduce(data):
    types = [
        data.draw(st.sampled_from(DTYPES)),
        data.draw(st.sampled_from(["int8", "uint8", "int16", "uint16", "bool_"])),
        data.draw(st.sampled_from(sorted(set(DTYPES) - {"int32", "uint32"}))),
    ]
    result_type = data.draw(st.sampled_from(FLOATS))
    key, view1, view2 = data.draw(st.sampled_from(KEYS)), data.draw(views()), data.draw(views())
    partitions = data.draw(PARTITIONS)
    d, p, x = bases(data, partitions, types)
    p[np.random.default_rng(data.draw(st.integers(0, 99))).random(p.shape) < 0.5] = 0
    other, has_other = column_of(data, partitions)
    reverse, reduces = data.draw(st.booleans()), data.draw(st.booleans())
    command = "reset_reduce" if reduces else "idle"
    results = np.zeros((partitions, 1), numpy_dtype(result_type))

    def body(dst, predicate, on_true, on_false, result):
        nisa.select_reduce(
            dst[key],
            view1(predicate),
            view2(on_true),
            on_false if has_other else float(other),
            result if reduces else None,
            getattr(nisa.reduce_cmd, command),
            nl.maximum,
            reverse,
        )

    spaces = data.draw(st.sampled_from(["sss", "pss", "sps", "ssp", "psp"])) + "ss"
    got = execute(body, d, p, x, tile_of(other), results, spaces=spaces)
    total = np.zeros(partitions, np.float32)
    values = select_reduce(total, rows(view1(p)), rows(view2(x)), other, reverse, command)
    want = d.copy()
    want[key] = cast(values.reshape(want[key].shape), types[0])
    same(got[0], want)
    if reduces:
        same(got[4], cast(total[:, None], result_type))


@given(st.data())
def test_tensor_scalar_cumulative(data):
    names = sorted(set(DTYPES) - {"int32", "uint32"})
    types = [data.draw(st.sampled_from(names)) for _ in range(2)]
    key, view = data.draw(st.sampled_from(KEYS)), data.draw(views())
    partitions = data.draw(PARTITIONS)
    d, x = bases(data, partitions, types)
    op0 = data.draw(st.sampled_from([*(sorted(ARITHMETIC)), "abs", "square", "relu"]))
    op1 = data.draw(st.sampled_from(sorted(START)))
    operand, has_operand = column_of(data, partitions)
    load, has_load = column_of(data, partitions)
    command = data.draw(st.sampled_from(["reset_reduce", "load_reduce"]))

    def body(dst, src, imm0, imm1):
        nisa.tensor_scalar_cumulative(
            dst[key],
            view(src),
            getattr(nl, op0),
            getattr(nl, op1),
            None if op0 in UNARY else imm0 if has_operand else float(operand),
            None if command == "reset_reduce" else imm1 if has_load else float(load),
            getattr(nisa.reduce_cmd, command),
        )

    spaces = data.draw(st.sampled_from(["ss", "ps", "sp", "pp"])) + "ss"
    got = execute(body, d, x, tile_of(operand), tile_of(load), spaces=spaces)
    total = np.zeros(partitions, np.float32)
    values = cumulative(total, rows(view(x)), op0, operand, op1, command, np.ravel(load))
    want = d.copy()
    want[key] = cast(values.reshape(want[key].shape), types[0])
    same(got[0], want)


# Several instructions ------------------------------------------------------------------------------------------------

COMMANDS = {
    "exponential": ["idle", "reset_reduce", "reduce", "load_reduce"],
    "range_select": ["idle", "reset", "reduce", "reset_reduce"],
    "select_reduce": ["idle", "reduce", "reset_reduce"],
    "tensor_scalar_reduce": ["idle", "reset", "reduce", "reset_reduce", "load_reduce"],
    "tensor_scalar_cumulative": ["reduce", "reset_reduce", "load_reduce"],
}
WINDOWS = [(0, 32), (32, 64), (0, 64), (64, 128), (64, 90), (0, 128)]


@given(st.data())
def test_the_accumulators_are_shared_and_outlive_an_instruction(data):
    steps = [
        (name, data.draw(st.sampled_from(COMMANDS[name])), data.draw(st.sampled_from(WINDOWS)))
        for name in data.draw(st.lists(st.sampled_from(sorted(COMMANDS)), min_size=2, max_size=6))
    ]
    seed = data.draw(st.integers(0, 2**32 - 1))
    rng = np.random.default_rng(seed)
    x = (rng.standard_normal((128, 40)) * 2).astype(np.float32)
    p = rng.integers(0, 2, (128, 40)).astype(np.uint8)
    bound = rng.integers(0, 40, (128, 1)).astype(np.float32)
    results = np.full((128, len(steps)), 7.0, np.float32)

    def body(src, predicate, bound, dst, results):
        for at, (name, command, (first, end)) in enumerate(steps):
            d, s, result = dst[first:end], src[first:end], results[first:end, at : at + 1]
            cmd = getattr(nisa.reduce_cmd, command)
            if name == "exponential":
                nisa.exponential(d, s, 0.5, result, cmd, 1.25 if command == "load_reduce" else 0.0)
            elif name == "range_select":
                b = bound[first:end]
                nisa.range_select(d, s, nl.less, nl.greater_equal, b, b, reduce_cmd=cmd, reduce_res=result)
            elif name == "select_reduce":
                nisa.select_reduce(d, predicate[first:end], s, -0.25, result, cmd)
            elif name == "tensor_scalar_reduce":
                load = 0.75 if command == "load_reduce" else None
                nisa.tensor_scalar_reduce(d, s, nl.multiply, 1.5, nl.add, result, reduce_cmd=cmd, reduce_init=load)
            else:
                nisa.tensor_scalar_cumulative(d, s, nl.add, nl.subtract, 0.5, 2.5, cmd)

    got = execute(body, x, p, bound, x, results)
    totals, want = np.zeros(128, np.float32), x.copy()
    for at, (name, command, (first, end)) in enumerate(steps):
        part, total = x[first:end], totals[first:end]
        if name == "exponential":
            values = exponential(total, part, 0.5, command, 1.25)
        elif name == "range_select":
            values = range_select(total, part, ["less", "greater_equal"], [bound[first:end]] * 2, 0, command)
        elif name == "select_reduce":
            values = select_reduce(total, p[first:end], part, -0.25, False, command)
        elif name == "tensor_scalar_reduce":
            begin(total, command, 0.0, 0.75)
            values = accumulated(np.add, total, part * np.float32(1.5), command)
        else:
            values = cumulative(total, part, "add", 0.5, "subtract", command, 2.5)
        want[first:end] = values
        if name != "tensor_scalar_cumulative":
            results[first:end, at] = total
    same(got[3], want)
    same(got[4], results)


@pytest.mark.parametrize("free", [1, 15, 2048, 2049, 5000])
def test_rows_longer_than_a_piece(free):
    rng = np.random.default_rng(free)
    x = rng.standard_normal((37, free)).astype(np.float32)
    p = rng.integers(0, 2, x.shape).astype(np.uint8)
    bounds = [rng.integers(0, free + 1, (37, 1)).astype(np.float32) for _ in range(2)]
    results = np.zeros((37, 3), np.float32)

    def body(a, b, c, d, src, predicate, low, high, results):
        command = nisa.reduce_cmd.reset_reduce
        nisa.exponential(a, src, 1.0, results[:, 0:1], command)
        nisa.range_select(b, src, nl.greater_equal, nl.less, low, high, command, results[:, 1:2], range_start=1)
        nisa.select_reduce(c, predicate, src, low, results[:, 2:3], command)
        nisa.tensor_scalar_cumulative(d, src, nl.multiply, nl.add, high)

    got = execute(body, x, x, x, x, x, p, *bounds, results)
    total = np.zeros(37, np.float32)
    same(got[0], exponential(total, x, 1.0, "reset_reduce", None))
    np.testing.assert_array_equal(got[8][:, 0], total)
    same(got[1], range_select(total, x, ["greater_equal", "less"], bounds, 1, "reset_reduce"))
    np.testing.assert_array_equal(got[8][:, 1], total)
    same(got[2], select_reduce(total, p, x, bounds[0], False, "reset_reduce"))
    np.testing.assert_array_equal(got[8][:, 2], total)
    same(got[3], cumulative(total, x, "multiply", bounds[1], "add", "reset_reduce", None))


def test_what_is_read_may_be_overwritten():
    """In place, and shifted by some elements: inputs are read in full first."""
    rng = np.random.default_rng(5)
    x = rng.standard_normal((64, 100)).astype(np.float32)
    p = rng.integers(0, 2, (64, 90)).astype(np.int16)
    bound = np.full((64, 1), 50, np.float32)

    def body(a, b, c, d, predicate, bound):
        nisa.exponential(a[:, 10:], a[:, :90])
        nisa.range_select(b[:, :90], b[:, 10:], nl.less, nl.less, bound, bound, reduce_res=b[:, 99:100])
        nisa.select_reduce(c[:, 3:93], predicate, c[:, :90], c[:, 50:51])
        nisa.tensor_scalar_cumulative(d[:, 5:95], d[:, :90], nl.add, nl.add, d[:, 7:8])

    got = execute(body, x, x, x, x, p, bound)
    total = np.zeros(64, np.float32)
    want = [x.copy() for _ in range(4)]
    want[0][:, 10:] = exponential(total, x[:, :90], 0.0, "idle", None)
    want[1][:, :90] = range_select(total, x[:, 10:], ["less", "less"], [bound] * 2, 0, "reset_reduce")
    want[1][:, 99] = total
    want[2][:, 3:93] = select_reduce(total, p, x[:, :90], x[:, 50:51], False, "idle")
    want[3][:, 5:95] = cumulative(total, x[:, :90], "add", x[:, 7:8], "add", "reset_reduce", None)
    for found, expected in zip(got, want, strict=False):
        same(found, expected)


def test_patterns_that_go_backwards():
    rng = np.random.default_rng(6)
    x = rng.standard_normal((8, 20)).astype(np.float32)
    p, bound = rng.integers(0, 2, x.shape).astype(np.uint8), np.full((8, 1), 5, np.float32)
    back = [[20, 8], [-2, 10]]

    def body(a, b, c, d, src, predicate, bound):
        source = src.ap(back, offset=19)
        nisa.exponential(a.ap(back, offset=18), source)
        nisa.range_select(b.ap(back, offset=18), source, nl.less, nl.less, bound, bound)
        nisa.select_reduce(c.ap(back, offset=18), predicate.ap(back, offset=18), source, 0.5)
        nisa.tensor_scalar_cumulative(d.ap(back, offset=18), source, nl.add, nl.add, 0.5)

    got = execute(body, x, x, x, x, x, p, bound)
    total, source = np.zeros(8, np.float32), x[:, ::-2]
    results = [
        exponential(total, source, 0.0, "idle", None),
        range_select(total, source, ["less", "less"], [bound] * 2, 0, "reset_reduce"),
        select_reduce(total, p[:, -2::-2], source, 0.5, False, "idle"),
        cumulative(total, source, "add", 0.5, "add", "reset_reduce", None),
    ]
    for found, result in zip(got, results, strict=False):
        want = x.copy()
        want[:, -2::-2] = result
        same(found, want)


# What the documents say in words --------------------------------------------------------------------------------------


def test_a_row_without_a_selected_element():
    """The note on numerical stability: a narrow tile has minus infinity, its FP32 maximum the lowest number."""
    x = np.ones((4, 8), numpy_dtype("bfloat16"))
    bound = np.array([[0], [3], [0], [8]], np.float32)

    def body(src, bound, result):
        nisa.range_select(src, src, nl.less, nl.less, bound, bound, reduce_res=result)

    def negated(src, bound, result, weights):
        nisa.range_select(src, src, nl.less, nl.less, bound, bound, reduce_res=result)
        nisa.tensor_scalar(result, result, nl.multiply, -1.0)
        nisa.activation(weights, nl.exp, src, bias=result, scale=1.0)

    blank = np.zeros((4, 1), np.float32)
    got = execute(body, x, bound, blank)
    np.testing.assert_array_equal(fp32(got[0][0]), [-np.inf] * 8)
    np.testing.assert_array_equal(fp32(got[0][1]), [1] * 3 + [-np.inf] * 5)
    np.testing.assert_array_equal(got[2][:, 0], [LOWEST, 1, LOWEST, 1])
    weights = execute(negated, x, bound, blank, np.zeros((4, 8), np.float32))[3]
    np.testing.assert_array_equal(weights, [[0] * 8, [1] * 3 + [0] * 5, [0] * 8, [1] * 8])


def test_other_values_than_the_lowest_are_a_finding():
    bound = np.full((4, 1), 2, np.float32)

    def body(src, bound):
        nisa.range_select(src, src, nl.less, nl.less, bound, bound, on_false_value=-1.5)

    simulated, got = simulation(body, np.ones((4, 4), np.float32), bound)
    np.testing.assert_array_equal(got[0], [[1, 1, -1.5, -1.5]] * 4)
    assert [f["rule"] for f in simulated.findings] == ["range_select.on_false_value"]


def test_indices_that_fp32_cannot_tell_apart_are_a_finding():
    bound = np.full((1, 1), 2**24, np.float32)

    def body(src, bound):
        nisa.range_select(src, src, nl.equal, nl.equal, bound, bound, range_start=2**24 - 1)

    simulated, got = simulation(body, np.ones((1, 4), np.float32), bound)
    np.testing.assert_array_equal(got[0], [[LOWEST, 1, 1, LOWEST]])
    assert [f["rule"] for f in simulated.findings] == ["range_select.range_start"]


def test_a_load_that_is_not_asked_for_has_no_effect():
    """AWS's own example hands imm1 to a chained call."""
    ones, load = np.ones((8, 6), np.float32), np.full((8, 1), 3.0, np.float32)
    blank = np.zeros((8, 1), np.float32)

    def body(first, second, load, result):
        nisa.tensor_scalar_cumulative(first, first, nl.add, nl.add, 0.0, load, nisa.reduce_cmd.load_reduce)
        nisa.tensor_scalar_cumulative(second, second, nl.add, nl.add, 0.0, load, nisa.reduce_cmd.reduce)
        nisa.exponential(second, second, 0.0, result, nisa.reduce_cmd.reset_reduce, load)

    simulated, got = simulation(body, ones, ones, load, blank)
    np.testing.assert_array_equal(got[0], [np.arange(4, 10)] * 8)
    sums = exponential(np.zeros(8, np.float32), np.tile(np.arange(10, 16, dtype=np.float32), (8, 1)), 0, "idle", None)
    same(got[1], sums)
    assert [f["rule"] for f in simulated.findings] == ["exponential.reduce_init"]


def test_idle_leaves_the_accumulators_and_reading_them_is_a_finding():
    x, blank = np.full((8, 4), 2.0, np.float32), np.zeros((8, 1), np.float32)

    def body(src, dst, predicate, first, second):
        nisa.tensor_scalar_reduce(dst, src, nl.add, 0.0, nl.add)
        nisa.exponential(dst, src, 0.0, first)
        nisa.select_reduce(dst, predicate, src, 9.0, second)

    simulated, got = simulation(body, x, x, np.zeros((8, 4), np.uint8), blank, blank)
    np.testing.assert_array_equal(got[3], np.full((8, 1), 8.0))
    np.testing.assert_array_equal(got[4], np.full((8, 1), 8.0))
    assert [f["rule"] for f in simulated.findings] == ["operand.reduce_res_idle"] * 2


def test_a_nan_that_is_not_selected_is_gone():
    def kernel(x, p, bound):
        fresh = nl.ndarray((4, 8), nl.float32)
        nisa.memset(fresh[:, 0:4], 1.0)
        predicate, limits = nl.load(p), nl.load(bound)
        ranged, selected = nl.ndarray((4, 8), nl.float32), nl.ndarray((4, 8), nl.float32)
        nisa.range_select(ranged, fresh, nl.less, nl.less, limits, limits)
        nisa.select_reduce(selected, predicate, fresh, 0.0)
        outs = [nl.ndarray((4, 8), nl.float32, buffer=nl.shared_hbm) for _ in range(2)]
        nl.store(outs[0], ranged)
        nl.store(outs[1], selected)
        return tuple(outs)

    p = np.zeros((4, 8), np.uint8)
    p[:, :4] = 1
    simulated = nki.simulate(kernel)
    got = simulated(np.zeros((4, 8), np.float32), p, np.full((4, 1), 4, np.float32))
    np.testing.assert_array_equal(got[0], [[1] * 4 + [LOWEST] * 4] * 4)
    np.testing.assert_array_equal(got[1], [[1] * 4 + [0] * 4] * 4)
    # What was not written may have decided something all the same.
    assert {finding["rule"] for finding in simulated.findings} == {"uninitialized.output"}


def test_values_of_fp8_that_overflow_stay_in_the_sum():
    """The accumulators take results before the cast."""
    x = np.full((4, 3), 7.0, np.float32)

    def body(dst, src, result):
        nisa.exponential(dst, src, 0.0, result, nisa.reduce_cmd.reset_reduce)

    got = execute(body, np.zeros((4, 3), numpy_dtype("float8_e4m3")), x, np.zeros((4, 1), np.float32))
    assert np.isinf(fp32(got[0])).all()
    np.testing.assert_allclose(got[2], 3 * np.exp(7.0), rtol=1e-6)


def test_special_values_of_the_exponential():
    x = random_array(np.random.default_rng(1), (1, 200), "float32")
    got = execute(lambda dst, src: nisa.exponential(dst, src), x, x)[0]
    np.testing.assert_array_equal(np.isnan(got), np.isnan(x))
    np.testing.assert_array_equal(got[x == -np.inf], 0)
    np.testing.assert_array_equal(got[x == np.inf], np.inf)
    np.testing.assert_array_equal(got[x == 0], 1)
