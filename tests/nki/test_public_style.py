"""Whole kernels in the style in which NKI kernels are published, against NumPy in float64."""

import math

import numpy as np
import pytest

import trn3
from trn3 import nki
from trn3.nki import isa as nisa
from trn3.nki import language as nl

LOWEST = -3.0e38


def column(rows):
    return nl.ndarray((rows, 1), nl.float32)


def flash_attention(q, k, v):
    """Attention with the softmax kept online, q (D, Q), k (D, K), v (K, D); cores share the queries."""
    depth, queries = q.shape
    out = nl.ndarray((queries, depth), q.dtype, buffer=nl.shared_hbm)
    scale = 1 / math.sqrt(depth)
    for block in range(nl.program_id(0), queries // 128, nl.num_programs()):
        q_tile = nl.load(q[:, nl.ds(128 * block, 128)])
        highest, total = nl.full((128, 1), LOWEST, nl.float32), nl.zeros((128, 1), nl.float32)
        acc = nl.zeros((128, depth), nl.float32)
        for at in nl.sequential_range(k.shape[1] // 512):
            k_tile = nl.load(k[:, nl.ds(512 * at, 512)])
            scores = nl.ndarray((128, 512), nl.float32, buffer=nl.psum)
            nisa.nc_matmul(scores, q_tile, k_tile)
            new, minus, decay, row_sum = (column(128) for _ in range(4))
            nisa.tensor_reduce(new, nl.maximum, scores, axis=1)
            nisa.scalar_tensor_tensor(new, new, nl.multiply, scale, nl.maximum, highest)
            nisa.tensor_scalar(minus, new, nl.multiply, -1.0)
            nisa.activation(decay, nl.exp, highest, bias=minus)
            powers = nl.ndarray((128, 512), nl.bfloat16)
            nisa.activation_reduce(powers, nl.exp, scores, nl.add, row_sum, bias=minus, scale=scale)
            nisa.scalar_tensor_tensor(total, total, nl.multiply, decay, nl.add, row_sum)
            nisa.tensor_copy(highest, new)
            product = nl.ndarray((128, depth), nl.float32, buffer=nl.psum)
            for part in nl.affine_range(4):
                turned = nl.ndarray((128, 128), nl.bfloat16, buffer=nl.psum)
                nisa.nc_transpose(turned, powers[:, nl.ds(128 * part, 128)])
                v_tile = nl.load(v[nl.ds(512 * at + 128 * part, 128)])
                nisa.nc_matmul(product, nl.copy(turned), v_tile)
            nisa.scalar_tensor_tensor(acc, acc, nl.multiply, decay, nl.add, product)
        nisa.reciprocal(total, total)
        nl.store(out[nl.ds(128 * block, 128)], nl.multiply(acc, total, q.dtype))
    return out


@pytest.mark.parametrize("target", ["trn2", "trn3"])
@pytest.mark.parametrize("cores", [1, 2])
def test_flash_attention(cores, target):
    rng = np.random.default_rng(1)
    q, k, v = (rng.normal(size=shape).astype(nl.bfloat16) for shape in ((64, 256), (64, 1024), (1024, 64)))
    scores = q.astype(np.float64).T @ k.astype(np.float64) / 8
    powers = np.exp(scores - scores.max(axis=1, keepdims=True))
    wanted = powers / powers.sum(axis=1, keepdims=True) @ v.astype(np.float64)
    run = trn3.run(nki.Kernel(flash_attention)[cores], q, k, v, options=trn3.RunOptions(target=target))
    assert run.findings == []
    got = run.result.astype(np.float64)
    assert np.linalg.norm(got - wanted) <= 5e-3 * np.linalg.norm(wanted)


def softmax_of_long_rows(x, columns=512):
    """Two passes over rows that need not fit, in dynamic loops: statistics are carried from turn to turn."""
    rows, length = x.shape
    out = nl.ndarray(x.shape, x.dtype, buffer=nl.shared_hbm)
    highest, total = nl.full((rows, 1), LOWEST, nl.float32), nl.zeros((rows, 1), nl.float32)

    def part(tensor, at):
        return tensor.ap([[length, rows], [1, columns]], scalar_offset=at, indirect_dim=1)

    for at in nl.dynamic_range(0, length, columns):
        tile, powers = (nl.ndarray((rows, columns), nl.float32) for _ in range(2))
        nisa.dma_copy(tile, part(x, at))
        new, minus, decay, row_sum = (column(rows) for _ in range(4))
        nisa.tensor_reduce(new, nl.maximum, tile, axis=1)
        nisa.tensor_tensor(new, new, highest, nl.maximum)
        nisa.tensor_scalar(minus, new, nl.multiply, -1.0)
        nisa.activation(decay, nl.exp, highest, bias=minus)
        nisa.activation_reduce(powers, nl.exp, tile, nl.add, row_sum, bias=minus)
        nisa.scalar_tensor_tensor(total, total, nl.multiply, decay, nl.add, row_sum)
        nisa.tensor_copy(highest, new)
    nisa.tensor_scalar(highest, highest, nl.multiply, -1.0)
    nisa.reciprocal(total, total)
    for at in nl.dynamic_range(0, length, columns):
        tile = nl.ndarray((rows, columns), nl.float32)
        nisa.dma_copy(tile, part(x, at))
        nisa.activation(tile, nl.exp, tile, bias=highest)
        nisa.tensor_scalar(tile, tile, nl.multiply, total)
        nisa.dma_copy(part(out, at), tile)
    return out


@pytest.mark.parametrize("turns", [1, 2, 9])
@pytest.mark.parametrize("eager", [False, True])
def test_softmax_of_long_rows(turns, eager):
    x = 4 * np.random.default_rng(2).normal(size=(96, 512 * turns)).astype(np.float32)
    powers = np.exp(x - x.max(axis=1, keepdims=True).astype(np.float64))
    simulated = nki.simulate(softmax_of_long_rows, eager=eager)
    np.testing.assert_allclose(simulated(x), powers / powers.sum(axis=1, keepdims=True), rtol=1e-5, atol=1e-12)
    assert simulated.findings == []


def selective_scan(delta, u, a, b, c):
    """Mamba: h' = exp(delta a) h + delta u b, y = sum of c h over the states; channels are partitions."""
    channels, length = delta.shape
    out = nl.ndarray(delta.shape, nl.float32, buffer=nl.shared_hbm)
    delta_tile, rates, driven = nl.load(delta), nl.load(a), nl.multiply(nl.load(delta), nl.load(u))
    acc = nl.zeros((channels, length), nl.float32)
    for state in nl.affine_range(a.shape[1]):
        decay, b_tile, c_tile, h = (nl.ndarray((channels, length), nl.float32) for _ in range(4))
        nisa.activation(decay, nl.exp, delta_tile, scale=rates[:, state : state + 1])
        nisa.dma_copy(b_tile, b.ap([[0, channels], [1, length]], offset=state * length))
        nisa.dma_copy(c_tile, c.ap([[0, channels], [1, length]], offset=state * length))
        nisa.tensor_tensor(b_tile, b_tile, driven, nl.multiply)
        nisa.tensor_tensor_scan(h, decay, b_tile, initial=0.0, op0=nl.multiply, op1=nl.add)
        nisa.tensor_tensor(h, h, c_tile, nl.multiply)
        nisa.tensor_tensor(acc, acc, h, nl.add)
    nl.store(out, acc)
    return out


def test_selective_scan():
    rng = np.random.default_rng(3)
    channels, length, states = 128, 200, 5
    delta = rng.uniform(0.01, 0.2, (channels, length)).astype(np.float32)
    u = rng.normal(size=(channels, length)).astype(np.float32)
    a = -rng.uniform(0.5, 2, (channels, states)).astype(np.float32)
    b, c = (rng.normal(size=(states, length)).astype(np.float32) for _ in range(2))
    wanted, h = np.zeros((channels, length)), np.zeros((channels, states))
    for t in range(length):
        step = delta[:, t : t + 1].astype(np.float64)
        h = np.exp(step * a) * h + step * u[:, t : t + 1] * b[:, t]
        wanted[:, t] = h @ c[:, t].astype(np.float64)
    simulated = nki.simulate(selective_scan)
    np.testing.assert_allclose(simulated(delta, u, a, b, c), wanted, rtol=1e-5, atol=1e-5)
    assert simulated.findings == []


def prefix_sum(x):
    """Running sum over a whole tile, partition after partition: a scan each, and a triangle of ones across."""
    rows, columns = x.shape
    out = nl.ndarray(x.shape, nl.float32, buffer=nl.shared_hbm)
    within, above = nl.ndarray(x.shape, nl.float32), nl.ndarray((rows, rows), nl.float32)
    nisa.tensor_tensor_scan(within, nl.ones(x.shape, nl.float32), nl.load(x), 0.0, nl.multiply, nl.add)
    nisa.affine_select(above, [[1, rows]], -1, nl.ones((rows, rows), nl.float32), 0.0, cmp_op=nl.greater)
    before = nl.ndarray((rows, 1), nl.float32, buffer=nl.psum)
    nisa.nc_matmul(before, above, within[:, columns - 1 : columns])
    nl.store(out, nl.add(within, nl.copy(before)))
    return out


@pytest.mark.parametrize("shape", [(1, 7), (128, 300), (5, 1)])
def test_prefix_sum(shape):
    x = np.random.default_rng(4).integers(-9, 10, shape).astype(np.float32)
    simulated = nki.simulate(prefix_sum)
    np.testing.assert_array_equal(simulated(x), np.cumsum(x).reshape(shape))
    assert simulated.findings == []


def top_k(x, k):
    """The k largest of each row in order, eight at a time, and where they are."""
    rows = x.shape[0]
    values = nl.ndarray((rows, k), x.dtype, buffer=nl.shared_hbm)
    places = nl.ndarray((rows, k), nl.uint32, buffer=nl.shared_hbm)
    rest = nl.load(x)
    for first in nl.static_range(0, k, 8):
        eight, where = nl.ndarray((rows, 8), x.dtype), nl.ndarray((rows, 8), nl.uint32)
        nisa.max8(eight, rest)
        nisa.nc_find_index8(where, rest, eight)
        nisa.nc_match_replace8(rest, rest, eight, LOWEST)
        nl.store(values[:, first : first + 8], eight)
        nl.store(places[:, first : first + 8], where)
    return values, places


@pytest.mark.parametrize("k", [8, 24])
def test_top_k(k):
    rng = np.random.default_rng(5)
    x = rng.integers(0, 40, (64, 100)).astype(np.float32)
    values, places = nki.simulate(top_k)(x, k)
    order = np.argsort(-x, axis=1, kind="stable")[:, :k]
    np.testing.assert_array_equal(values, np.take_along_axis(x, order, axis=1))
    np.testing.assert_array_equal(places, order)
