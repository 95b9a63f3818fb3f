"""dma_transpose: bits turned around, from anywhere, in all ranks and by index."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from emulated import execute, random_array, same, simulation
from trn3 import errors, nki
from trn3.nki import isa as nisa
from trn3.nki import language as nl

DTYPES = ["float32", "bfloat16", "float16", "float8_e5m2", "uint8", "int16", "uint32", "float8_e8m0fnu"]
AXES = {2: (1, 0), 3: (2, 1, 0), 4: (3, 1, 2, 0)}


def words(rng, shape, name):
    """Random bit patterns, NaN of all payloads among them."""
    dtype = random_array(rng, (1,), "uint8" if name == "float8_e8m0fnu" else name).dtype
    codes = rng.integers(0, 256, (*shape, dtype.itemsize), np.uint8)
    array = codes.view(dtype).reshape(shape)
    return array.view(np.dtype(nl.float8_e8m0fnu)) if name == "float8_e8m0fnu" else array


def bits(array):
    return np.ascontiguousarray(array).view(f"u{array.dtype.itemsize}")


@given(st.data())
def test_axes_are_permuted_bit_by_bit(data):
    rank = data.draw(st.integers(2, 4))
    name = data.draw(st.sampled_from(DTYPES))
    spaces = data.draw(st.sampled_from(["ss", "sh", "hs", "hh"]))
    rng = np.random.default_rng(data.draw(st.integers(0, 2**32 - 1)))
    # A window of the source with steps, and a window of the destination of the transposed shape.
    counts = [data.draw(st.integers(1, 40 if axis in (0, rank - 1) else 3)) for axis in range(rank)]
    steps = [1 if axis == 0 and spaces[1] == "s" else data.draw(st.integers(1, 2)) for axis in range(rank)]
    key = tuple(slice(0, (count - 1) * step + 1, step) for count, step in zip(counts, steps, strict=True))
    src = words(rng, [count * step for count, step in zip(counts, steps, strict=True)], name)
    want = np.transpose(src[key], AXES[rank])
    pad = 0 if spaces[0] == "s" and want.shape[0] == 1 else data.draw(st.integers(0, 3))
    dst = words(rng, (*want.shape[:-1], want.shape[-1] + pad), name)
    inside = (..., slice(pad, None))
    axes = data.draw(st.sampled_from([None, AXES[rank], list(AXES[rank])]))

    def body(d, s):
        nisa.dma_transpose(d[tuple([slice(None)] * (rank - 1) + [slice(pad, None)])], s[key], axes=axes)

    got = execute(body, dst, src, spaces=spaces)[0]
    expected = dst.copy()
    expected[inside] = want
    np.testing.assert_array_equal(bits(got), bits(expected))


@pytest.mark.parametrize("target", ["trn2", "trn3"])
@pytest.mark.parametrize("shape", [(16, 128), (16, 5, 128), (2, 8, 33), (4, 2, 4, 100), (8, 3, 2, 128), (1, 3, 16, 7)])
def test_hardware_dge(shape, target):
    src = words(np.random.default_rng(0), shape, "bfloat16")
    want = np.transpose(src, AXES[len(shape)])

    def body(d, s):
        nisa.dma_transpose(d, s, dge_mode=nisa.dge_mode.hwdge)
        nisa.dma_transpose(d, s)

    for spaces in ("ss", "sh"):
        simulated, got = simulation(body, np.zeros_like(want), src, spaces=spaces, target=target)
        np.testing.assert_array_equal(bits(got[0]), bits(want))
        assert simulated.findings == []


def test_a_tile_may_be_turned_onto_itself():
    src = np.arange(32 * 40, dtype=np.int16).reshape(32, 40)
    got = execute(lambda t: nisa.dma_transpose(t[:, 8:40], t[:, 0:32]), src)[0]
    np.testing.assert_array_equal(got[:, 8:], src[:, :32].T)
    np.testing.assert_array_equal(got[:, :8], src[:, :8])


def test_a_destination_in_hbm_is_a_finding():
    src = np.arange(24, dtype=np.float32).reshape(4, 6)
    body = lambda d, s: nisa.dma_transpose(d, s)  # noqa: E731
    simulated, got = simulation(body, np.zeros((6, 4), np.float32), src, spaces="hs")
    np.testing.assert_array_equal(got[0], src.T)
    assert [finding["rule"] for finding in simulated.findings] == ["dma_transpose.dst_space"]
    with pytest.raises(errors.RuleError, match=r"dma_transpose\.dst_space"):
        simulation(body, np.zeros((6, 4), np.float32), src, spaces="hs", checks="documented")


@given(st.data())
def test_rows_by_index(data):
    rows, columns = data.draw(st.sampled_from([(16, 1), (48, 1), (128, 1), (128, 2), (128, 3)]))
    count = data.draw(st.integers(1, rows * columns // 16)) * 16
    table_rows, width = data.draw(st.integers(1, 60)), data.draw(st.integers(1, 128))
    middle = data.draw(st.sampled_from([(), (3,), (1, 2), (2, 1)]))
    rng = np.random.default_rng(data.draw(st.integers(0, 2**32 - 1)))
    table = words(rng, (table_rows, *middle, width), data.draw(st.sampled_from(["bfloat16", "uint16"])))
    index = rng.integers(0, table_rows, (rows, columns)).astype(np.uint32)
    gathered = table[index.T.flatten()[:count]]
    want = np.transpose(gathered, AXES[gathered.ndim])

    def body(dst, src, indices):
        strides = [int(np.prod(table.shape[axis + 1 :])) for axis in range(table.ndim)]
        pattern = [[stride, size] for stride, size in zip(strides, gathered.shape, strict=True)]
        mode = data.draw(st.sampled_from([nisa.dge_mode.unknown, nisa.dge_mode.swdge]))
        nisa.dma_transpose(dst, src.ap(pattern, vector_offset=indices), dge_mode=mode)

    got = execute(body, np.zeros_like(want), table, index, spaces="shs")[0]
    np.testing.assert_array_equal(bits(got), bits(want))


def test_rows_out_of_bounds_are_refused_or_left_alone():
    table = np.arange(20 * 8, dtype=np.uint16).reshape(20, 8)
    index = np.arange(16, dtype=np.uint32)[:, None]
    index[3], index[9] = 20, 2**31
    before = np.full((8, 16), 7, np.uint16)

    def body(mode):
        def run(dst, src, indices):
            nisa.dma_transpose(dst, src.ap([[8, 16], [1, 8]], vector_offset=indices), oob_mode=mode)

        return run

    with pytest.raises(errors.RuleError) as caught:
        execute(body(nisa.oob_mode.error), before, table, index, spaces="shs")
    assert (caught.value.rule, caught.value.instruction) == ("dma.index_bounds", "dma_transpose")
    assert "20" in caught.value.value
    got = execute(body(nisa.oob_mode.skip), before, table, index, spaces="shs")[0]
    want = table[:16].T.copy()
    want[:, [3, 9]] = 7
    np.testing.assert_array_equal(got, want)


@pytest.mark.parametrize("instruction", ["dma_transpose", "dma_copy"])
def test_what_a_skipped_row_leaves_unwritten_is_nan_and_a_finding(instruction):
    def kernel(table, ids):
        tiles = [nl.ndarray((16, 16), nl.float16) for _ in range(2)]
        nisa.memset(tiles[0], 3.0)
        rows = table.ap([[16, 16], [1, 16]], vector_offset=nl.load(ids))
        getattr(nisa, instruction)(tiles[1], rows, oob_mode=nisa.oob_mode.skip)
        out = nl.ndarray((16, 16), nl.float16, buffer=nl.shared_hbm)
        nl.store(out, tiles[1])
        return out

    table = np.ones((16, 16), np.float16)
    index = np.arange(16, dtype=np.uint32)[:, None]
    simulated = nki.simulate(kernel)
    np.testing.assert_array_equal(simulated(table, index), table)
    assert simulated.findings == []
    index[5] = 16
    got = simulated(table, index)
    assert np.isnan(got[:, 5] if instruction == "dma_transpose" else got[5]).all()
    assert [finding["rule"] for finding in simulated.findings] == ["uninitialized.output"]


def test_runtime_offsets_move_the_source():
    x = np.arange(64 * 8, dtype=np.float32).reshape(64, 8)

    def kernel(a, position):
        register = nisa.register_alloc()
        nisa.register_load(register, position)
        tile = nl.ndarray((8, 16), nl.float32)
        nisa.memset(tile, -1.0)
        view = a.ap([[8, 16], [1, 8]], scalar_offset=register, indirect_dim=0)
        nisa.dma_transpose(tile, view, oob_mode=nisa.oob_mode.skip)
        out = nl.ndarray((8, 16), nl.float32, buffer=nl.shared_hbm)
        nl.store(out, tile)
        return out

    simulated = nki.simulate(kernel)
    np.testing.assert_array_equal(simulated(x, np.array([48], np.int32)), x[48:].T)
    np.testing.assert_array_equal(simulated(x, np.array([49], np.int32)), np.full((8, 16), -1.0))


def test_priorities_and_the_eager_form():
    src = np.arange(16 * 20, dtype=np.float16).reshape(16, 20)

    def kernel(x):
        tile = nl.ndarray((20, 16), nl.float16)
        for priority in range(4):
            nisa.dma_transpose(tile, x, priority=priority, name=f"turn{priority}")
        out = nl.ndarray((20, 16), nl.float16, buffer=nl.shared_hbm)
        nl.store(out, tile)
        return out

    for eager in (False, True):
        same(nki.simulate(kernel, eager=eager)(src), src.T.copy())
