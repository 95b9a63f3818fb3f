"""dma_copy: flattened order, casts, rows by index."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from emulated import FLOATS, INTEGERS, cast, execute, fp32, random_array, same, simulation
from trn3 import errors, nki
from trn3.nki import isa as nisa
from trn3.nki import language as nl

DTYPES = [*FLOATS, *INTEGERS, "bool_"]


@given(st.data())
def test_elements_go_in_flattened_order_and_are_cast_through_fp32(data):
    to, source = data.draw(st.sampled_from(DTYPES)), data.draw(st.sampled_from(DTYPES))
    rng = np.random.default_rng(data.draw(st.integers(0, 2**32 - 1)))
    d, s = random_array(rng, (12, 4, 10), to), random_array(rng, (16, 6, 10), source)
    d_key = data.draw(st.sampled_from([np.s_[0:6, 1:3, ::2], np.s_[6:12, ::2, 5:]]))
    s_key = data.draw(st.sampled_from([np.s_[1:16:3, 0:6:2, 2:6], np.s_[0:10, 1, 0:6], np.s_[3:13, 0:3, 4:6]]))
    spaces = data.draw(st.sampled_from(["ss", "hs", "sh", "hh"]))

    def body(dst, src):
        nisa.dma_copy(dst[d_key], src[s_key])

    got = execute(body, d, s, spaces=spaces)[0]
    want = d.copy()
    values = s[s_key].reshape(d[d_key].shape)
    want[d_key] = values if to == source else cast(fp32(values), to)
    same(got, want)


def test_equal_types_move_bits():
    words = np.random.default_rng(0).integers(0, 2**32, (6, 7), np.uint32)
    for dtype in (np.float32, nl.tfloat32, nl.float8_e5m2_x4):
        got = execute(lambda d, s: nisa.dma_copy(d, s), np.zeros((6, 7), dtype), words.view(dtype), spaces="sh")[0]
        np.testing.assert_array_equal(got.view(np.uint32), words)


def test_one_dimensional_hbm_tensors_and_views_of_other_ranks():
    x = np.arange(60, dtype=np.float32)

    def kernel(a):
        tile = nl.ndarray((5, 12), nl.float32)
        nisa.dma_copy(tile, a)
        out = nl.ndarray((60,), nl.float32, buffer=nl.shared_hbm)
        nisa.dma_copy(out.reshape((12, 5)).permute((1, 0)), tile)
        return out

    np.testing.assert_array_equal(nki.simulate(kernel)(x), x.reshape(5, 12).T.ravel())


def test_overlapping_source_and_destination():
    x = np.arange(40, dtype=np.int32).reshape(4, 10)
    (got,) = execute(lambda t: nisa.dma_copy(t[:, 1:10], t[:, 0:9]), x)
    np.testing.assert_array_equal(got[:, 1:], x[:, :-1])


@given(st.data())
def test_gather(data):
    to, source = data.draw(st.sampled_from(DTYPES)), data.draw(st.sampled_from(DTYPES))
    rows, count = data.draw(st.integers(1, 20)), data.draw(st.integers(1, 32))
    rng = np.random.default_rng(data.draw(st.integers(0, 2**32 - 1)))
    table, d = random_array(rng, (rows, 12), source), random_array(rng, (count, 9), to)
    index = rng.integers(0, rows, (count, 2)).astype(data.draw(st.sampled_from([np.int32, np.uint32])))
    spaces = data.draw(st.sampled_from(["shs", "hhs"]))

    def body(dst, src, indices):
        nisa.dma_copy(dst[:, ::2], src.ap([[12, count], [2, 5]], offset=1, vector_offset=indices[:, 1:2]))

    got = execute(body, d, table, index, spaces=spaces)[0]
    want = d.copy()
    values = table[index[:, 1]][:, 1:11:2]
    want[:, ::2] = values if to == source else cast(fp32(values), to)
    same(got, want)


@given(st.data())
def test_scatter_keeps_the_last_of_equal_rows(data):
    to, source = data.draw(st.sampled_from(DTYPES)), data.draw(st.sampled_from(DTYPES))
    rows, count = data.draw(st.integers(1, 20)), data.draw(st.integers(1, 32))
    rng = np.random.default_rng(data.draw(st.integers(0, 2**32 - 1)))
    d, s = random_array(rng, (rows, 12), to), random_array(rng, (count, 5), source)
    index = rng.integers(0, rows, (count, 1)).astype(np.int32)

    def body(dst, src, indices):
        nisa.dma_copy(dst.ap([[12, count], [2, 5]], vector_offset=indices), src)

    got = execute(body, d, s, index, spaces="hss")[0]
    want = d.copy()
    for row, at in enumerate(index[:, 0]):
        want[at, 0:10:2] = s[row] if to == source else cast(fp32(s[row]), to)
    same(got, want)


@pytest.mark.parametrize("bad", [4, -1, 2**31 - 1])
@pytest.mark.parametrize("direction", ["gather", "scatter"])
def test_an_index_out_of_bounds_is_an_error_or_a_row_left_alone(bad, direction):
    table, tile = np.arange(12, dtype=np.float32).reshape(4, 3), -np.ones((3, 3), np.float32)
    index = np.array([[2], [bad], [0]], np.int32)

    def body(mode):
        def run(hbm, sbuf, indices):
            rows = hbm.ap([[3, 3], [1, 3]], vector_offset=indices)
            pair = (sbuf, rows) if direction == "gather" else (rows, sbuf)
            nisa.dma_copy(*pair, oob_mode=mode)

        return run

    with pytest.raises(errors.RuleError) as caught:
        execute(body(nisa.oob_mode.error), table, tile, index, spaces="hss")
    error = caught.value
    assert (error.rule, error.instruction) == ("dma.index_bounds", "dma_copy")
    assert str(bad) in error.value and "4" in error.limit and error.where.startswith(__file__)
    got = execute(body(nisa.oob_mode.skip), table, tile, index, spaces="hss")
    if direction == "gather":
        np.testing.assert_array_equal(got[1], [table[2], tile[1], table[0]])
    else:
        np.testing.assert_array_equal(got[0], [tile[2], table[1], tile[0], table[3]])


def test_indices_are_taken_when_the_transfer_runs():
    table = np.arange(12, dtype=np.float32).reshape(4, 3)

    def body(hbm, sbuf, indices):
        nisa.memset(indices, 3)
        rows = hbm.ap([[3, 2], [1, 3]], vector_offset=indices)
        nisa.memset(indices, 1)
        nisa.dma_copy(sbuf, rows)

    got = execute(body, table, np.zeros((2, 3), np.float32), np.zeros((2, 1), np.int32), spaces="hss")[1]
    np.testing.assert_array_equal(got, table[[1, 1]])


def test_rows_that_nothing_wrote_are_nan_when_gathered_and_a_finding():
    index = np.array([[0], [3]], np.int32)

    def kernel(x, indices):
        table = nl.ndarray((4, 3), nl.float32, buffer=nl.private_hbm)
        nisa.dma_copy(table[0:2], x)
        rows, tile = nl.load(indices), nl.ndarray((2, 3), nl.float32)
        nisa.dma_copy(tile, table.ap([[3, 2], [1, 3]], vector_offset=rows))
        out = nl.ndarray((2, 3), nl.float32, buffer=nl.shared_hbm)
        nl.store(out, tile)
        return out

    x = np.ones((2, 3), np.float32)
    simulated = nki.simulate(kernel)
    got = simulated(x, index)
    np.testing.assert_array_equal(got, [[1] * 3, [np.nan] * 3])
    assert [f["rule"] for f in simulated.findings] == ["uninitialized.output"]
    index[1] = 1
    np.testing.assert_array_equal(simulated(x, index), np.ones((2, 3)))
    assert simulated.findings == []


def test_an_output_filled_by_scatter_alone():
    def kernel(x, indices):
        out = nl.ndarray((3, 2), nl.float32, buffer=nl.shared_hbm)
        nisa.dma_copy(out.ap([[2, 3], [1, 2]], vector_offset=nl.load(indices)), nl.load(x))
        return out

    x = np.arange(6, dtype=np.float32).reshape(3, 2)
    simulated = nki.simulate(kernel, checks="documented")
    np.testing.assert_array_equal(simulated(x, np.array([[2], [0], [1]], np.int32)), x[[1, 2, 0]])
    lenient = nki.simulate(kernel)
    got = lenient(x, np.array([[2], [2], [1]], np.int32))
    np.testing.assert_array_equal(got, [[np.nan] * 2, x[2], x[1]])
    assert [f["rule"] for f in lenient.findings] == ["uninitialized.output"]
    with pytest.raises(errors.UninitializedReadError):
        simulated(x, np.array([[2], [2], [1]], np.int32))


def test_queues_and_descriptors():
    def body(dst, src):
        nisa.dma_copy(dst, src, engine=nisa.engine.scalar)
        nisa.dma_copy(dst, src, engine=nisa.engine.sync, dge_mode=nisa.dge_mode.hwdge)
        nisa.dma_copy(dst, src, dge_mode=nisa.dge_mode.swdge)
        nisa.dma_copy(dst, src, dge_mode=nisa.dge_mode.none)
        for priority in range(4):
            nisa.dma_copy(dst, src, priority=priority)

    x = np.ones((2, 3), np.float32)
    simulated, got = simulation(body, np.zeros_like(x), x, spaces="sh")
    np.testing.assert_array_equal(got[0], x)
    assert simulated.findings == []


def gathered(rows, out_of_bounds=None):
    def kernel(x, ids):
        index = nl.load(ids)
        tile = nl.ndarray((8, 16), nl.float32)
        nisa.memset(tile, 0.0)
        view = x[4:20].ap([[16, 8], [1, 16]], vector_offset=index)
        nisa.dma_copy(tile, view, oob_mode=out_of_bounds or nisa.oob_mode.error)
        out = nl.ndarray((8, 16), nl.float32, buffer=nl.shared_hbm)
        nl.store(out, tile)
        return out

    x = np.arange(320, dtype=np.float32).reshape(20, 16)
    return nki.simulate(kernel)(x, np.asarray(rows, np.int32).reshape(8, 1)), x


def test_rows_by_index_count_from_the_start_of_the_view():
    got, x = gathered(range(8, 16))
    np.testing.assert_array_equal(got, x[12:20])


def test_a_row_past_the_tensor_is_refused_or_skipped_from_a_view_too():
    with pytest.raises(errors.RuleError) as caught:
        gathered([0, 1, 2, 3, 4, 5, 6, 16])
    assert caught.value.rule == "dma.index_bounds"
    got, x = gathered([0, 1, 2, 3, 4, 5, 6, 16], nisa.oob_mode.skip)
    np.testing.assert_array_equal(got[:7], x[4:11])
    np.testing.assert_array_equal(got[7], 0)
