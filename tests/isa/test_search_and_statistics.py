"""bn_stats, bn_aggr, max8, nc_find_index8, nc_match_replace8, nc_stream_shuffle and GpSimdE's instructions against plain
NumPy."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from views import KEYS, bases, rows, views

from emulated import FLOATS, INTEGERS, cast, execute, fp32, numpy_dtype, random_array, same, simulation
from trn3 import errors, nki
from trn3.nki import isa as nisa
from trn3.nki import language as nl

DTYPES = FLOATS + INTEGERS
SPACES = ["ss", "ps", "sp", "pp"]


def quiet(function):
    with np.errstate(all="ignore"):
        return function()


def fold(values):
    """The sum of each row in order, FP32."""
    total = np.zeros(values.shape[0], np.float32)
    for column in values.T:
        total = quiet(lambda c=column, t=total: t + c)
    return total


def stats(values):
    """bn_stats as isa.md says it, FP32, elements in order."""
    out = []
    for group in (values[:, ::2], values[:, 1::2]):
        count = np.float32(group.shape[1])
        if group.shape[1] == 0:
            out += [np.zeros(len(values), np.float32)] * 3
            continue
        mean = quiet(lambda g=group, c=count: fold(g) / c)
        distance = quiet(lambda g=group, m=mean: fold((g - m[:, None]) * (g - m[:, None])))
        out += [np.full(len(values), count), mean, distance]
    return np.stack(out, axis=1).astype(np.float32)


@given(st.data())
def test_bn_stats(data):
    types = [data.draw(st.sampled_from(DTYPES)) for _ in range(2)]
    view = data.draw(views())
    partitions = data.draw(st.sampled_from([1, 3, 32, 128]))
    (x,) = bases(data, partitions, types[:1])
    d = np.zeros((partitions, 6), numpy_dtype(types[1]))
    got = execute(lambda dst, src: nisa.bn_stats(dst, view(src)), d, x, spaces=data.draw(st.sampled_from(SPACES)))
    same(got[0], cast(stats(rows(view(x))), types[1]))


@pytest.mark.parametrize("free", [1, 2, 511, 512])
def test_bn_aggr_brings_pieces_together(free):
    rng = np.random.default_rng(free)
    x = (rng.standard_normal((128, 3 * free)) * 3 + 1).astype(np.float32)
    pieces, both = np.zeros((128, 18), np.float32), np.zeros((128, 2), np.float32)

    def body(src, pieces, both):
        for at in range(3):
            nisa.bn_stats(pieces[:, 6 * at : 6 * at + 6], src[:, free * at : free * at + free])
        nisa.bn_aggr(both, pieces)

    got = execute(body, x, pieces, both)[2]
    x64 = x.astype(np.float64)
    np.testing.assert_allclose(got[:, 0], x64.mean(axis=1), rtol=2e-6, atol=2e-6)
    np.testing.assert_allclose(got[:, 1], x64.var(axis=1), rtol=1e-5, atol=1e-6)


@given(st.data())
def test_bn_aggr_is_its_formula(data):
    types = [data.draw(st.sampled_from(["float32", "bfloat16", "float16"])) for _ in range(2)]
    view = data.draw(views())
    (x,) = bases(data, 32, types[:1])
    d = np.zeros((32, 2), numpy_dtype(types[1]))
    got = execute(lambda dst, src: nisa.bn_aggr(dst, view(src)), d, x)[0]
    count, mean, m2 = (rows(view(x))[:, at::3] for at in range(3))
    total = fold(count)
    middle = quiet(lambda: fold(count * mean) / total)
    away = quiet(lambda: mean - middle[:, None])
    variance = quiet(lambda: fold(m2 + count * (away * away)) / total)
    same(got, cast(np.stack([middle, variance], axis=1), types[1]))


def descending(values):
    """The order of max8: NaN first, then by value, equal ones as they stand."""
    order = sorted(
        range(len(values)), key=lambda at: (not np.isnan(values[at]), 0 if np.isnan(values[at]) else -values[at])
    )
    return values[order]


@given(st.data())
def test_max8(data):
    types = [data.draw(st.sampled_from(DTYPES)) for _ in range(2)]
    view = data.draw(views())
    partitions = data.draw(st.sampled_from([1, 3, 128]))
    (x,) = bases(data, partitions, types[:1])
    d = np.zeros((partitions, 8), numpy_dtype(types[1]))
    got = execute(lambda dst, src: nisa.max8(dst, view(src)), d, x, spaces=data.draw(st.sampled_from(SPACES)))[0]
    same(got, cast(np.stack([descending(row)[:8] for row in rows(view(x))]), types[1]))


@pytest.mark.parametrize("free", [8, 9, 16384])
def test_max8_of_long_rows(free):
    x = np.random.default_rng(free).standard_normal((4, free)).astype(np.float32)
    got = execute(lambda dst, src: nisa.max8(dst, src), np.zeros((4, 8), np.float32), x)[0]
    np.testing.assert_array_equal(got, -np.sort(-x, axis=1)[:, :8])


def find(data, vals, order):
    """Positions of values, each occurrence once; slots are served in the order given."""
    found = np.full(8, -1)
    for at, value in enumerate(data):
        for slot in order:
            if found[slot] < 0 and vals[slot] == value:
                found[slot] = at
                break
    return found


@given(st.data())
def test_find_and_replace(data):
    dtype = data.draw(st.sampled_from(["float32", "bfloat16", "int16", "uint8"]))
    index = data.draw(st.sampled_from(["uint32", "uint16"]))
    partitions, free = data.draw(st.sampled_from([(1, 8), (3, 20), (128, 40)]))
    rng = np.random.default_rng(data.draw(st.integers(0, 2**32 - 1)))
    x = rng.integers(0, 12, (partitions, free)).astype(numpy_dtype(dtype))
    vals = rng.integers(0, 14, (partitions, 8)).astype(numpy_dtype(dtype))
    if dtype == "float32":
        x[0, 0], vals[0, 0] = np.nan, np.nan
    first = np.zeros((partitions, 8), index)
    replaced = np.zeros((partitions, free), np.float32)

    def body(first, second, replaced, src, vals):
        nisa.nc_find_index8(first, src, vals)
        nisa.nc_match_replace8(replaced, src, vals, -5.0, second)

    got = execute(body, first, first, replaced, x, vals)
    up = np.stack([find(a, b, range(8)) for a, b in zip(fp32(x), fp32(vals), strict=True)])
    down = np.stack([find(a, b, range(7, -1, -1)) for a, b in zip(fp32(x), fp32(vals), strict=True)])
    np.testing.assert_array_equal(got[0], up.astype(index))
    np.testing.assert_array_equal(got[1], down.astype(index))
    want = fp32(x).copy()
    for row, places in zip(want, down, strict=True):
        row[places[places >= 0]] = -5
    same(got[2], want)


def test_the_example_of_the_reference():
    """nki/api/nki/isa/__init__.py, nc_match_replace8: equal values take the last slots first."""
    x = np.array([[1, 2, 3, 4, 8, 8, 8, 8, 8, 8, 8]], np.float32)
    vals = np.array([[3, 8, 8, 8, 8, 8, 8, 8]], np.float32)
    got = execute(
        lambda d, i, src, v: nisa.nc_match_replace8(d, src, v, 0.0, i),
        np.zeros_like(x),
        np.zeros((1, 8), np.uint32),
        x,
        vals,
    )
    np.testing.assert_array_equal(got[1], [[2, 10, 9, 8, 7, 6, 5, 4]])
    np.testing.assert_array_equal(got[0], [[1, 2, 0, 4, 0, 0, 0, 0, 0, 0, 0]])


@given(st.data())
def test_a_shuffle_moves_partitions_within_quadrants(data):
    dtype = data.draw(st.sampled_from(DTYPES))
    partitions = data.draw(st.sampled_from([32, 64, 96, 128]))
    mask = data.draw(st.lists(st.sampled_from([*range(32), 255]), min_size=32, max_size=32))
    key, view = data.draw(st.sampled_from(KEYS)), data.draw(views())
    in_place = data.draw(st.booleans())
    d, x = bases(data, partitions, [dtype, dtype])

    def body(dst, src):
        nisa.nc_stream_shuffle(dst[key], dst[key] if in_place else view(src), mask)

    got = execute(body, d, x, spaces=data.draw(st.sampled_from(SPACES)))
    source = (d[key] if in_place else view(x)).reshape(partitions, -1)
    want = d.copy()
    for partition in range(partitions):
        entry = mask[partition % 32]
        if entry != 255:
            want[key][partition] = source[partition // 32 * 32 + entry].reshape(want[key][partition].shape)
    same(got[0], want)


def test_one_partition_is_repeated():
    x = random_array(np.random.default_rng(3), (1, 24), "bfloat16")
    got = execute(lambda d, s: nisa.nc_stream_shuffle(d, s, [0] * 32), np.zeros((32, 24), x.dtype), x)[0]
    same(got, np.repeat(x, 32, axis=0))


@given(st.data())
def test_affine_select(data):
    name = data.draw(st.sampled_from(["equal", "not_equal", "less", "less_equal", "greater", "greater_equal"]))
    types = [data.draw(st.sampled_from(DTYPES)) for _ in range(2)]
    key, view = data.draw(st.sampled_from(KEYS)), data.draw(views())
    partitions = data.draw(st.sampled_from([1, 5, 128]))
    offset, step, multiplier = (data.draw(st.integers(-9, 9)) for _ in range(3))
    d, x = bases(data, partitions, types)

    def body(dst, on_true):
        nisa.affine_select(
            dst[key], [[step, 3], [2, 5]], multiplier, view(on_true), -1.5, cmp_op=getattr(nl, name), offset=offset
        )

    got = execute(body, d, x)
    p, w, z = np.ogrid[:partitions, :3, :5]
    holds = getattr(np, name)(offset + multiplier * p + step * w + 2 * z, 0).reshape(partitions, 15)
    source = view(x).reshape(partitions, -1)
    chosen = source if types[0] == types[1] else cast(rows(view(x)), types[0])
    want = d.copy()
    want[key] = np.where(holds, chosen, cast(np.float32(-1.5), types[0])).reshape(want[key].shape)
    same(got[0], want)


def test_affine_select_compares_for_equality_by_default():
    got = execute(
        lambda d, x: nisa.affine_select(d, [[1, 6]], -1, x, 0.0),
        np.ones((6, 6), np.float32),
        np.ones((6, 6), np.float32),
    )
    np.testing.assert_array_equal(got[0], np.eye(6))


@given(st.data())
def test_gathers(data):
    dtype = data.draw(st.sampled_from(DTYPES))
    partitions = data.draw(st.sampled_from([16, 64, 128]))
    view = data.draw(views())
    (x,) = bases(data, partitions, [dtype])
    rng = np.random.default_rng(data.draw(st.integers(0, 99)))
    places = rng.integers(0, 15, (partitions, 7)).astype(np.uint32)
    elements = data.draw(st.sampled_from([1, 2, 4]))
    columns = data.draw(st.integers(1, 3))
    valid = data.draw(st.integers(1, 16 * columns))
    index = rng.integers(0, 16 - elements, (partitions, columns)).astype(np.uint16)

    def body(one, other, src, places, index):
        nisa.nc_n_gather(one, view(src), places)
        nisa.local_gather(other, view(src), index, elements, valid)

    one = np.zeros((partitions, 7), x.dtype)
    other = np.zeros((partitions, valid * elements), x.dtype)
    got = execute(body, one, other, x, places, index)
    source = view(x).reshape(partitions, -1)
    same(got[0], np.take_along_axis(source, places.astype(np.int64), axis=1))
    for partition in range(partitions):
        flat = index[partition // 16 * 16 : partition // 16 * 16 + 16].T.reshape(-1)[:valid].astype(int)
        other[partition] = np.concatenate([source[partition, at : at + elements] for at in flat])
    same(got[1], other)


@given(st.data())
def test_partition_reduce(data):
    name = data.draw(st.sampled_from(["add", "average", "maximum", "bitwise_or", "bitwise_and"]))
    dtype = data.draw(st.sampled_from(INTEGERS if "bitwise" in name else DTYPES))
    view = data.draw(views())
    partitions = data.draw(st.sampled_from([1, 5, 128]))
    (x,) = bases(data, partitions, [dtype])
    d = np.zeros((1, 15), numpy_dtype(dtype))
    got = execute(lambda dst, src: nisa.tensor_partition_reduce(dst, getattr(nl, name), view(src)), d, x)[0]
    if "bitwise" in name:
        values = view(x).reshape(partitions, -1)
        want = (np.bitwise_or if name == "bitwise_or" else np.bitwise_and).reduce(values, axis=0)[None]
        np.testing.assert_array_equal(got, want)
        return
    values = rows(view(x))
    total = values[0]
    for row in values[1:]:
        if name == "maximum":
            total = np.where(np.isnan(total) | np.isnan(row), np.float32(np.nan), np.where(total > row, total, row))
        else:
            total = quiet(lambda t=total, r=row: t + r)
    if name == "average":
        total = quiet(lambda: total / np.float32(partitions))
    same(got, cast(total[None], dtype))


@pytest.mark.parametrize("dtype", ["float32", "int32"])
def test_nonzero_with_count_touches_one_partition_in_sixteen(dtype):
    rng = np.random.default_rng(8)
    x = rng.integers(-1, 2, (128, 40)).astype(dtype)
    d = np.full((128, 41), 77, np.int32)
    if dtype == "float32":
        x[16, 0], x[16, 1] = np.nan, -0.0
    got = execute(lambda dst, src: nisa.nonzero_with_count(dst, src, 1000, -3), d, x)[0]
    for partition in range(0, 128, 16):
        places = np.flatnonzero(x[partition]) + 1000
        d[partition] = np.concatenate([places, np.full(40 - len(places), -3), [len(places)]])
    np.testing.assert_array_equal(got, d)


def test_what_nonzero_with_count_leaves_is_unwritten():
    def body(src):
        fresh = nl.ndarray((32, 9), nl.int32)
        nisa.nonzero_with_count(fresh, src)
        nisa.tensor_copy(src[:, 0:8], fresh[:, 0:8])

    x = np.ones((32, 8), np.int32)
    assert simulation(body, x)[0].findings != []

    def first_only(src):
        fresh = nl.ndarray((32, 9), nl.int32)
        nisa.nonzero_with_count(fresh, src)
        nisa.tensor_copy(src[0:1], fresh[0:1, 0:8])

    simulated, got = simulation(first_only, x)
    assert simulated.findings == []
    np.testing.assert_array_equal(got[0][0], np.arange(8))


@pytest.mark.parametrize("dtype", ["float32", "int32"])
def test_sequence_bounds(dtype):
    ids = np.array([[0, 1, 1, 1, 0, 0, 2, 3, 3, 2]], dtype)
    got = execute(lambda dst, src: nisa.sequence_bounds(dst, src), np.zeros((1, 2, 10), dtype), ids)[0]
    np.testing.assert_array_equal(got[0, 0], [10, 1, 1, 1, 10, 10, 6, 7, 7, 9])
    np.testing.assert_array_equal(got[0, 1], [-1, 4, 4, 4, -1, -1, 7, 9, 9, 10])


@pytest.mark.parametrize("which", ["nc_n_gather", "local_gather"])
def test_indices_out_of_bounds_are_refused_when_they_are_met(which):
    def kernel(x):
        data, out = nl.load(x), nl.ndarray((16, 1) if which == "nc_n_gather" else (16, 16), x.dtype)
        if which == "nc_n_gather":
            nisa.nc_n_gather(out, data, nl.full((16, 1), 8, nl.uint32))
        else:
            nisa.local_gather(out, data, nl.full((16, 1), 8, nl.uint16))
        return x

    with pytest.raises(errors.RuleError, match=rf"{which}\.bounds"):
        nki.simulate(kernel)(np.ones((16, 8), np.float32))
