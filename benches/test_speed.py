"""What a user waits for, against NumPy in the same run (one thread: OPENBLAS_NUM_THREADS=1).

    make bench

Each figure is a median of interleaved rounds and is printed beside its yardstick; nothing is asserted about time.
"""

import ml_dtypes
import numpy as np
import pytest

import trn3
from trn3 import nki
from trn3.nki import isa as nisa
from trn3.nki import language as nl

BF16 = ml_dtypes.bfloat16
SIDE = 2048


@pytest.fixture(scope="module")
def sgemm():
    """NumPy's SGEMM of 2048 cubed, and GFLOP of it."""
    rng = np.random.default_rng(0)
    a, b = (rng.standard_normal((SIDE, SIDE), dtype=np.float32) for _ in range(2))
    out = np.empty((SIDE, SIDE), np.float32)
    return lambda: np.matmul(a, b, out=out)


GFLOP = 2e-9 * SIDE**3


def repeated(count):
    def products(x, y):
        out = nl.ndarray((128, 512), nl.float32, buffer=nl.shared_hbm)
        s, m = nl.load(x), nl.load(y)
        acc = nl.ndarray((128, 512), nl.float32, buffer=nl.psum)
        for at in range(count):
            nisa.nc_matmul(acc, s, m, accumulate=at > 0)
        nl.store(out, acc)
        return out

    return products


@pytest.mark.parametrize("dtype", [BF16, np.float32], ids=["bf16", "fp32"])
def test_nc_matmul_against_sgemm(ratio, sgemm, dtype):
    """128x128x512 products; as many as make the work of the SGEMM."""
    count = SIDE**3 // (128 * 128 * 512)
    rng = np.random.default_rng(1)
    x, y = (rng.standard_normal((128, n)).astype(dtype) for n in (128, 512))
    kernel = nki.jit(repeated(count))
    want = count * (x.astype(np.float64).T @ y.astype(np.float64))
    got = kernel(x, y)
    assert np.linalg.norm(got - want) <= 1e-3 * np.linalg.norm(want)
    ratio(lambda: kernel(x, y), sgemm, GFLOP, "GFLOP/s")


def test_nc_matmul_mx_against_sgemm(ratio, sgemm):
    """MX products of 512x128x512: operands unpacked and scaled each time."""
    count = SIDE**3 // (512 * 128 * 512)

    def products(s, m, ss, ms):
        out = nl.ndarray((128, 512), nl.float32, buffer=nl.shared_hbm)
        tiles = [nl.load(t) for t in (s, m, ss, ms)]
        acc = nl.ndarray((128, 512), nl.float32, buffer=nl.psum)
        for at in range(count):
            nisa.nc_matmul_mx(acc, *tiles, accumulate=at > 0)
        nl.store(out, acc)
        return out

    rng = np.random.default_rng(2)
    operands = [trn3.mx.pack_operand(rng.standard_normal((512, n), dtype=np.float32)) for n in (128, 512)]
    words, scales = zip(*operands, strict=True)
    kernel = nki.jit(products)
    kernel(*words, *scales)
    ratio(lambda: kernel(*words, *scales), sgemm, GFLOP, "GFLOP/s")


def tiled_matmul(lhs_t, rhs):
    """out = lhs_t.T @ rhs, both tiles loaded for each product."""
    k_size, m_size = lhs_t.shape
    n_size = rhs.shape[1]
    out = nl.ndarray((m_size, n_size), lhs_t.dtype, buffer=nl.shared_hbm)
    for m in range(m_size // 128):
        for n in range(n_size // 512):
            acc = nl.ndarray((128, 512), nl.float32, buffer=nl.psum)
            for k in range(k_size // 128):
                stationary = nl.load(lhs_t[k * 128 : (k + 1) * 128, m * 128 : (m + 1) * 128])
                moving = nl.load(rhs[k * 128 : (k + 1) * 128, n * 512 : (n + 1) * 512])
                nisa.nc_matmul(acc, stationary, moving)
            tile = nl.ndarray((128, 512), lhs_t.dtype)
            nisa.tensor_copy(tile, acc)
            nisa.dma_copy(out[m * 128 : (m + 1) * 128, n * 512 : (n + 1) * 512], tile)
    return out


def test_tiled_matmul_recorded_and_run(ratio, sgemm):
    """BF16, 2048 cubed; recorded anew each time."""
    rng = np.random.default_rng(3)
    x, y = (rng.standard_normal((SIDE, SIDE)).astype(BF16) for _ in range(2))
    want = x.astype(np.float32).T @ y.astype(np.float32)
    got = nki.simulate(tiled_matmul)(x, y).astype(np.float32)
    assert np.linalg.norm(got - want) <= 5e-3 * np.linalg.norm(want)
    ratio(lambda: nki.Kernel(tiled_matmul)(x, y), sgemm, GFLOP, "GFLOP/s", rounds=5)


@pytest.mark.parametrize("dtype", [np.float32, BF16], ids=["fp32", "bf16"])
def test_small_instructions_replayed_with_values(ratio, dtype):
    """[128, 64] elementwise chains, against the same operations in NumPy."""
    count = 2500

    def chain(x):
        out = nl.ndarray((128, 64), x.dtype, buffer=nl.shared_hbm)
        t = nl.load(x)
        u, v = nl.copy(t), nl.copy(t)
        for _ in range(count):
            nisa.tensor_tensor(u, t, v, nl.add)
            nisa.tensor_scalar(v, u, nl.multiply, 0.5)
            nisa.tensor_tensor(t, u, v, nl.minimum)
            nisa.tensor_copy(v, t)
        nl.store(out, t)
        return out

    x = np.random.default_rng(4).random((128, 64)).astype(dtype) * np.asarray(1e-3, dtype)

    def numpy_chain():
        t, u, v = x.copy(), x.copy(), x.copy()
        half = np.asarray(0.5, dtype)
        for _ in range(count // 10):
            u = (t.astype(np.float32) + v.astype(np.float32)).astype(dtype)
            v = u * half
            t = np.minimum(u, v)
            v = t.copy()
        return t

    kernel = nki.jit(chain)
    kernel(x)
    result = ratio(lambda: kernel(x), numpy_chain, 4 * count, "instructions/s (yardstick: a tenth of the work)")
    if result:
        print(f"  per instruction {10 * result:.1f} times NumPy's speed")


def test_recording(ratio):
    """Instructions with three sliced views each, against plain NumPy slices."""
    count = 20_000

    def sliced(x):
        out = nl.ndarray((128, 512), x.dtype, buffer=nl.shared_hbm)
        t = nl.load(x)
        u = nl.copy(t)
        for at in range(count):
            j = at % 8 * 64
            nisa.tensor_tensor(u[0:128, j : j + 64], t[0:128, j : j + 64], u[0:128, j : j + 64], nl.add)
        nl.store(out, u)
        return out

    x = np.ones((128, 512), np.float32)

    def numpy_slices():
        for at in range(count):
            j = at % 8 * 64
            x[0:128, j : j + 64], x[0:128, j : j + 64], x[0:128, j : j + 64]

    ratio(lambda: nki.record(nki.Kernel(sliced), x), numpy_slices, count, "instructions/s")
