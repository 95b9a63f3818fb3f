"""What nothing wrote reads as NaN, wherever it travels, and is reported exactly when it reaches an output."""

import gc
import weakref

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from trn3 import nki
from trn3.nki import isa as nisa
from trn3.nki import language as nl

ROWS, COLUMNS = 4, 12


@st.composite
def steps(draw):
    window = st.tuples(st.integers(0, 5), st.integers(0, 4), st.integers(1, 2))
    kind = st.sampled_from(["memset", "memset", "copy", "copy", "add", "dma", "load", "new"])
    return draw(st.lists(st.tuples(kind, window, window), min_size=1, max_size=25))


def cut(tile, window):
    _, first, by = window
    return tile[:, first : first + 4 * by : by]


def shape_of(number):
    # Two sizes, in two memories, so that host memory is used again by tensors of the same size.
    return ROWS, COLUMNS + 4 * (number % 2)


@settings(max_examples=200)
@given(steps())
def test_values_and_findings_are_those_of_memory_full_of_nan(program):
    x = np.arange(ROWS * 4, dtype=np.float32).reshape(ROWS, 4)

    def kernel(a):
        tiles = {}

        def tile(number, fresh=False):
            if fresh or number not in tiles:
                tiles[number] = nl.ndarray(shape_of(number), nl.float32, buffer=nl.hbm if number >= 4 else nl.sbuf)
            return tiles[number]

        for kind, to, source in program:
            if kind == "new":
                tile(to[0], True)
                continue
            d, s = cut(tile(to[0]), to), cut(tile(source[0]), source)
            if kind == "load":
                nisa.dma_copy(d, a)
            elif kind == "dma" or to[0] >= 4 or source[0] >= 4:
                nisa.dma_copy(d, s)
            elif kind == "memset":
                nisa.memset(d, 1.0)
            elif kind == "copy":
                nisa.tensor_copy(d, s)
            else:
                nisa.tensor_tensor(d, d, s, nl.add)
        outs = []
        for number in sorted(tiles):
            out = nl.ndarray(shape_of(number), nl.float32, buffer=nl.shared_hbm)
            nisa.dma_copy(out, tiles[number])
            outs.append(out)
        return outs

    model = {}
    for kind, to, source in program:
        if kind == "new":
            model[to[0]] = np.full(shape_of(to[0]), np.nan, np.float32)
            continue
        d, s = (cut(model.setdefault(w[0], np.full(shape_of(w[0]), np.nan, np.float32)), w) for w in (to, source))
        if kind == "load":
            d[...] = x
        elif kind == "dma" or to[0] >= 4 or source[0] >= 4:
            d[...] = s.copy()
        elif kind == "memset":
            d[...] = 1
        elif kind == "copy":
            d[...] = s.copy()
        else:
            d[...] = d + s
    want = [model[number] for number in sorted(model)]
    for options in ({}, {"eager": True}):
        simulated = nki.simulate(kernel, **options)
        for _ in range(2):
            got = simulated(x)
            for g, w in zip(got, want, strict=True):
                np.testing.assert_array_equal(g, w)
            found = [f["rule"] for f in simulated.findings]
            assert found == ["uninitialized.output"] * sum(bool(np.isnan(w).any()) for w in want)


def double(x):
    tile = nl.load(x)
    out = nl.ndarray(x.shape, x.dtype, buffer=nl.shared_hbm)
    nl.store(out, nl.multiply(tile, 2.0))
    return out


@pytest.mark.parametrize("eager", [False, True])
def test_arrays_are_let_go_after_a_call(eager):
    kernel = nki.jit(double, eager=eager)
    for _ in range(2):
        array = np.ones((4, 8), np.float32)
        result = kernel(array)
        references = weakref.ref(array), weakref.ref(result)
        del array, result
        gc.collect()
        assert [reference() for reference in references] == [None, None]


def test_memory_does_not_grow_with_calls():
    def resident():
        with open("/proc/self/statm") as file:
            return int(file.read().split()[1]) * 4096

    kernel = nki.jit(double)
    array = np.ones((128, 8192), np.float32)
    for _ in range(5):
        kernel(array)
        nki.record(double, array)
    before = resident()
    for _ in range(60):
        kernel(array)
        nki.record(double, array)
    assert resident() - before < 40 * 2**20


def test_hbm_takes_host_memory_only_where_it_is_touched():
    def kernel(x):
        large = nl.ndarray((100, 2**28), nl.float32, buffer=nl.hbm)
        nisa.dma_copy(large[50:54, 1000:1008], x)
        out = nl.ndarray((4, 8), nl.float32, buffer=nl.shared_hbm)
        nisa.dma_copy(out, large[50:54, 1000:1008])
        return out

    x = np.arange(32, dtype=np.float32).reshape(4, 8)
    np.testing.assert_array_equal(nki.simulate(kernel)(x), x)
