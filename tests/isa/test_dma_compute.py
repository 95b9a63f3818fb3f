"""dma_compute: FP32 sums of up to 16 tiles, and rows by index that are added to."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from emulated import FLOATS, INTEGERS, cast, execute, fp32, random_array, same, simulation
from trn3 import errors, nki
from trn3.nki import isa as nisa
from trn3.nki import language as nl

DTYPES = [*FLOATS, *INTEGERS]
CANONICAL = np.uint32(0x7FC00000)


def total(arrays):
    """The FP32 sum from the first to the last, each step rounded."""
    with np.errstate(all="ignore"):
        result = fp32(arrays[0]).copy()
        for array in arrays[1:]:
            result = (result + fp32(array)).astype(np.float32)
    return result


@given(st.data())
def test_sums_are_fp32_in_order_and_rounded_once(data):
    count = data.draw(st.integers(1, 16))
    names = [data.draw(st.sampled_from(DTYPES)) for _ in range(count + 1)]
    rng = np.random.default_rng(data.draw(st.integers(0, 2**32 - 1)))
    key = data.draw(st.sampled_from([np.s_[0:6, 1:4, ::2], np.s_[6:12, ::2, 5:], np.s_[0:6, 0:3, 5:]]))
    arrays = [random_array(rng, (12, 6, 10), name) for name in names]
    spaces = "".join(data.draw(st.sampled_from("sh")) for _ in names)
    scales = data.draw(st.sampled_from([None, [1.0] * count, (1,) * count]))

    def body(dst, *srcs):
        sources = [src[key] for src in srcs]
        nisa.dma_compute(dst[key], data.draw(st.sampled_from([list, tuple]))(sources), nl.add, scales=scales)

    got = execute(body, *arrays, spaces=spaces)[0]
    want = arrays[0].copy()
    want[key] = cast(total([array[key] for array in arrays[1:]]), names[0])
    same(got, want)


def test_nan_is_canonical_and_signs_of_zero_stay():
    payloads = np.array([[0x7F800001, 0xFFFFFFFF, 0x7FC00123, 0x80000000]], np.uint32).view(np.float32)
    zeros = np.array([[0, 1, 0, -0.0]], np.float32)
    for srcs in ([payloads], [payloads, zeros], [zeros, payloads] * 3):
        arrays = [np.zeros((1, 4), np.float32), *srcs]
        (got, *_) = execute(lambda d, *s: nisa.dma_compute(d, list(s), nl.add), *arrays)
        np.testing.assert_array_equal(got.view(np.uint32)[0, :3], [CANONICAL] * 3)
        assert got.view(np.uint32)[0, 3] == 0x80000000


@given(st.data())
def test_sources_may_be_the_destination_or_lie_across_it(data):
    rng = np.random.default_rng(data.draw(st.integers(0, 2**32 - 1)))
    name = data.draw(st.sampled_from(["float32", "bfloat16"]))
    tile, other = random_array(rng, (4, 3000), name), random_array(rng, (4, 2990), name)
    keys = [data.draw(st.sampled_from([np.s_[:, 0:2990], np.s_[:, 5:2995], np.s_[:, 10:]])) for _ in range(3)]
    many = data.draw(st.integers(0, 5))

    def body(t, o):
        nisa.dma_compute(t[keys[0]], [t[keys[1]], *[o] * many, t[keys[2]]], nl.add)

    got = execute(body, tile, other)[0]
    want = tile.copy()
    want[keys[0]] = cast(total([tile[keys[1]], *[other] * many, tile[keys[2]]]), name)
    same(got, want)


def test_more_sources_than_an_instruction_holds_become_several():
    def kernel(*arrays):
        tiles = [nl.load(array) for array in arrays]
        first = nl.ndarray((4, 8), nl.float32)
        second = nl.ndarray((4, 8), nl.float32)
        nisa.dma_compute(first, tiles, nl.add, name="sum")
        nisa.dma_compute(second, tiles[:5], nl.add)
        outs = [nl.ndarray((4, 8), nl.float32, buffer=nl.shared_hbm) for _ in range(2)]
        nl.store(outs[0], first)
        nl.store(outs[1], second)
        return tuple(outs)

    rng = np.random.default_rng(0)
    arrays = [rng.standard_normal((4, 8)).astype(np.float32) for _ in range(16)]
    for eager in (False, True):
        got = nki.simulate(kernel, eager=eager)(*arrays)
        same(got[0], total(arrays))
        same(got[1], total(arrays[:5]))
    program = nki.record(nki.jit(kernel), *arrays)
    assert program.opcodes().count("dma_compute") == 4 + 2


def test_loops_and_single_sources():
    x = np.arange(32, dtype=np.float32).reshape(4, 8)

    def kernel(a):
        tile, acc = nl.load(a), nl.ndarray((4, 8), nl.float32)
        nisa.memset(acc, 0.0)
        for _ in nl.dynamic_range(3):
            nisa.dma_compute(acc, [acc, tile, tile, tile, tile, tile], nl.add)
        out = nl.ndarray((4, 8), nl.int8, buffer=nl.shared_hbm)
        nisa.dma_compute(out, [acc], nl.add)
        return out

    np.testing.assert_array_equal(nki.simulate(kernel)(x), np.minimum(15 * x, 127).astype(np.int8))


@given(st.data())
def test_scatter_adds_to_rows(data):
    rows, count = data.draw(st.integers(1, 40)), data.draw(st.integers(1, 40))
    to, source = data.draw(st.sampled_from(DTYPES)), data.draw(st.sampled_from(DTYPES))
    rng = np.random.default_rng(data.draw(st.integers(0, 2**32 - 1)))
    unique = data.draw(st.booleans())
    count = min(count, rows) if unique else count
    index = rng.permutation(rows)[:count] if unique else rng.integers(0, rows, count)
    index = index.astype(data.draw(st.sampled_from([np.int32, np.uint32])))[:, None]
    table, values = random_array(rng, (rows, 12), to), random_array(rng, (count, 5), source)
    swapped = data.draw(st.booleans())

    def body(dst, src, indices):
        view = dst.ap([[12, count], [2, 5]], offset=1, vector_offset=indices)
        nisa.dma_compute(view, [src, view] if swapped else [view, src], nl.add, unique_indices=unique)

    simulated, got = simulation(body, table, values, index, spaces="hss")
    want = table.copy()
    for row, at in enumerate(index[:, 0]):
        want[at, 1:11:2] = cast(total([want[at, 1:11:2], values[row]]), to)
    same(got[0], want)
    assert [f["rule"] for f in simulated.findings] == ([] if unique else ["dma_compute.unique_indices"])


@given(st.data())
def test_gather_adds_rows(data):
    rows, count = data.draw(st.integers(1, 20)), data.draw(st.integers(1, 40))
    to, source = data.draw(st.sampled_from(DTYPES)), data.draw(st.sampled_from(DTYPES))
    rng = np.random.default_rng(data.draw(st.integers(0, 2**32 - 1)))
    table, tile = random_array(rng, (rows, 12), source), random_array(rng, (count, 5), to)
    index = rng.integers(0, rows, (count, 1)).astype(np.int32)
    swapped = data.draw(st.booleans())

    def body(dst, src, indices):
        view = src.ap([[12, count], [2, 5]], vector_offset=indices)
        nisa.dma_compute(dst, [dst, view] if swapped else [view, dst], nl.add)

    simulated, got = simulation(body, tile, table, index, spaces="shs")
    same(got[0], cast(total([tile, table[index[:, 0], 0:10:2]]), to))
    assert simulated.findings == []


def test_rows_named_twice_are_a_finding_of_the_run():
    table, values = np.zeros((4, 2), np.float32), np.array([[1.0, 2.0], [10, 20], [100, 200]], np.float32)

    def kernel(x, v, ids):
        hbm = nl.ndarray((4, 2), nl.float32, buffer=nl.shared_hbm)
        nisa.dma_copy(hbm, x)
        rows = hbm.ap([[2, 3], [1, 2]], vector_offset=nl.load(ids))
        nisa.dma_compute(rows, [rows, nl.load(v)], nl.add)
        return hbm

    twice, once = np.array([[2], [0], [2]], np.int32), np.array([[2], [0], [3]], np.int32)
    for eager in (False, True):
        simulated = nki.simulate(kernel, eager=eager)
        # Each row adds to what was there before, and the last of equal rows stays.
        np.testing.assert_array_equal(simulated(table, values, twice), [[10, 20], [0, 0], [100, 200], [0, 0]])
        (finding,) = simulated.findings
        assert (finding["rule"], finding["instruction"]) == ("dma_compute.duplicates", "dma_compute")
        assert "0 and 2" in finding["value"]
        assert finding["file"] == __file__ and finding["fix"]
        np.testing.assert_array_equal(simulated(table, values, once), [[10, 20], [0, 0], [1, 2], [100, 200]])
        assert simulated.findings == []
    with pytest.raises(errors.RuleError) as caught:
        nki.simulate(kernel, checks="documented")(table, values, twice)
    assert caught.value.rule == "dma_compute.duplicates"
    assert caught.value.where.startswith(__file__)


@pytest.mark.parametrize("direction", ["gather", "scatter"])
@pytest.mark.parametrize("unique", [True, False])
def test_rows_out_of_bounds(direction, unique):
    table, tile = np.arange(12, dtype=np.float32).reshape(4, 3), -np.ones((3, 3), np.float32)
    index = np.array([[2], [4], [0]], np.int32)

    def body(mode):
        def run(hbm, sbuf, indices):
            rows = hbm.ap([[3, 3], [1, 3]], vector_offset=indices)
            dst = sbuf if direction == "gather" else rows
            nisa.dma_compute(dst, [rows, sbuf], nl.add, unique_indices=unique, oob_mode=mode)

        return run

    with pytest.raises(errors.RuleError, match=r"dma\.index_bounds"):
        execute(body(nisa.oob_mode.error), table, tile, index, spaces="hss")
    got = execute(body(nisa.oob_mode.skip), table, tile, index, spaces="hss")
    if direction == "gather":
        np.testing.assert_array_equal(got[1], [table[2] - 1, tile[1], table[0] - 1])
    else:
        np.testing.assert_array_equal(got[0], [table[0] - 1, table[1], table[2] - 1, table[3]])


def test_unwritten_sources_of_all_parts_are_found():
    def kernel(x, missing):
        tiles = [nl.load(x) for _ in range(9)]
        tiles[missing] = nl.ndarray((4, 8), nl.float32)
        tile = nl.ndarray((4, 8), nl.float32)
        nisa.dma_compute(tile, tiles, nl.add)
        out = nl.ndarray((4, 8), nl.float32, buffer=nl.shared_hbm)
        nl.store(out, tile)
        return out

    for missing in (0, 4, 8):
        simulated = nki.simulate(kernel)
        assert np.isnan(simulated(np.ones((4, 8), np.float32), missing)).all()
        assert [f["rule"] for f in simulated.findings] == ["uninitialized.output"]


def test_sources_of_another_kernel_are_refused():
    kept = []

    def first(x):
        kept.append(nl.load(x))
        return x

    def second(x):
        tile = nl.load(x)
        nisa.dma_compute(tile, [tile, kept[0]], nl.add)
        return x

    x = np.ones((4, 4), np.float32)
    nki.simulate(first)(x)
    with pytest.raises(errors.RuleError, match=r"kernel\.scope"):
        nki.simulate(second)(x)


def test_stochastic_rounding_depends_on_the_element_alone():
    x = np.full((4, 3000), 1 + 2.0**-10, np.float32)

    def kernel(a):
        out = nl.ndarray((4, 3000), nl.bfloat16, buffer=nl.shared_hbm)
        nisa.dma_compute(out, [a, a], nl.add)
        return out

    one, two = (nki.simulate(kernel, stochastic_rounding=True, seed=seed)(x) for seed in (1, 2))
    again = nki.simulate(kernel, stochastic_rounding=True, seed=1)(x)
    np.testing.assert_array_equal(one.view(np.uint16), again.view(np.uint16))
    assert (one.view(np.uint16) != two.view(np.uint16)).any()
    assert set(np.unique(fp32(one))) == {2.0, 2 + 2.0**-6}
