"""The public Trn2 matmul tutorial (FP32, 4096 x 8192 x 8192, one core) against its published profile: timing.md 14.1.

The kernels are our own, with the loop structures of the four versions. Two of them do not fit into SBUF at the published
size (there the compiler spilled) and run on part of it; what is compared is proportional to the size that is cut.
"""

import numpy as np
import pytest

from timed import Timed
from trn3.nki import isa as nisa
from trn3.nki import language as nl

M, K, N = 4096, 8192, 8192
#: Time of the array for the whole product: 65 536 half products of 2 * 512 + 5 cycles of 2.4 GHz.
TENSOR_MS = 28.10


def cut(number, size):
    return slice(number * size, (number + 1) * size)


def load(src):
    """Loads by software descriptors, which is what the published run had."""
    tile = nl.ndarray(src.shape, nl.float32)
    nisa.dma_copy(tile, src, engine=nisa.engine.gpsimd)
    return tile


def store(dst, src):
    """Stores from another queue, so that no load waits behind them."""
    nisa.dma_copy(dst, src, engine=nisa.engine.sync)


def product(stationary, moving):
    acc = nl.ndarray((128, 512), nl.float32, buffer=nl.psum)
    for x, y in zip(stationary, moving, strict=True):
        nisa.nc_matmul(acc, x, y)
    return acc


def evict(dst, acc):
    result = nl.ndarray((128, 512), nl.float32)
    nisa.tensor_copy(result, acc, engine=nisa.engine.vector)
    store(dst, result)


def tiled(a, b):
    """Every product loads both its tiles."""
    (k, m), (_, n) = a.shape, b.shape
    out = nl.ndarray((m, n), nl.float32, buffer=nl.shared_hbm)
    for i in range(m // 128):
        for j in range(n // 512):
            acc = nl.ndarray((128, 512), nl.float32, buffer=nl.psum)
            for depth in range(k // 128):
                x, y = load(a[cut(depth, 128), cut(i, 128)]), load(b[cut(depth, 128), cut(j, 512)])
                nisa.nc_matmul(acc, x, y)
            evict(out[cut(i, 128), cut(j, 512)], acc)
    return out


def hoisted(a, b):
    """A row of stationary tiles is loaded once for all columns."""
    (k, m), (_, n) = a.shape, b.shape
    out = nl.ndarray((m, n), nl.float32, buffer=nl.shared_hbm)
    for i in range(m // 128):
        xs = [load(a[cut(depth, 128), cut(i, 128)]) for depth in range(k // 128)]
        for j in range(n // 512):
            ys = [load(b[cut(depth, 128), cut(j, 512)]) for depth in range(k // 128)]
            evict(out[cut(i, 128), cut(j, 512)], product(xs, ys))
    return out


def blocked(a, b):
    """Blocks of two by two output tiles share what they load."""
    (k, m), (_, n) = a.shape, b.shape
    out = nl.ndarray((m, n), nl.float32, buffer=nl.shared_hbm)
    for i in range(m // 256):
        xs = [load(a[cut(depth, 128), cut(i, 256)]) for depth in range(k // 128)]
        for j in range(n // 1024):
            ys = [load(b[cut(depth, 128), cut(j, 1024)]) for depth in range(k // 128)]
            for bi in range(2):
                for bj in range(2):
                    acc = product([x[:, cut(bi, 128)] for x in xs], [y[:, cut(bj, 512)] for y in ys])
                    evict(out[cut(2 * i + bi, 128), cut(2 * j + bj, 512)], acc)
    return out


def blocked_in_depth(a, b):
    """Blocks of 8 by 2 output tiles and 8 tiles of depth; VectorE adds the partial sums up in SBUF."""
    (k, m), (_, n) = a.shape, b.shape
    out = nl.ndarray((m, n), nl.float32, buffer=nl.shared_hbm)
    sums = [[nl.ndarray((128, 512), nl.float32) for _ in range(2)] for _ in range(m // 128)]
    for j in range(n // 1024):
        for tile in (tile for row in sums for tile in row):
            nisa.memset(tile, 0.0, engine=nisa.engine.vector)
        for depth in range(k // 1024):
            ys = [load(b[cut(8 * depth + at, 128), cut(j, 1024)]) for at in range(8)]
            for i in range(m // 1024):
                xs = [load(a[cut(8 * depth + at, 128), cut(i, 1024)]) for at in range(8)]
                for bi in range(8):
                    for bj in range(2):
                        acc = product([x[:, cut(bi, 128)] for x in xs], [y[:, cut(bj, 512)] for y in ys])
                        total = sums[8 * i + bi][bj]
                        nisa.tensor_tensor(total, total, acc, nl.add)
        for i, row in enumerate(sums):
            packed = nl.ndarray((128, 1024), nl.float32)
            for bj, tile in enumerate(row):
                nisa.tensor_copy(packed[:, cut(bj, 512)], tile, engine=nisa.engine.vector)
            store(out[cut(i, 128), cut(j, 1024)], packed)
    return out


def run(kernel, m=M, k=K, n=N, **how):
    return Timed(kernel, np.zeros((k, m), np.float32), np.zeros((k, n), np.float32), target="trn2", **how)


def ms(ps):
    return ps / 1e9


def tensor_ms(timed):
    active, waits, _ = timed.engine("tensor")
    return ms(active + waits["interval"])


def busy_ms(timed, name):
    return ms(next(busy for found, _, busy, *_ in timed.line.engines if found == name))


def test_loads_in_the_inner_loop_are_bound_by_their_issue():
    # 604 ns a transfer, as the published profile shows; the table's 480 + 0.8 * 128 ns come from other profiles.
    as_published = run(tiled, overrides={"dma.swdge.base_ns": 604 - 0.8 * 128})
    assert len(as_published.numbers("dma_copy")) == 66_048
    _, waits, _ = as_published.engine("gpsimd")
    loads = 66_048 - 512
    assert ms(waits["descriptors"]) / loads * 66_048 == pytest.approx(39.89, rel=0.001)
    assert ms(as_published.total_ps) == pytest.approx(39.89, rel=0.01)

    timed = run(tiled)
    _, waits, _ = timed.engine("gpsimd")
    assert ms(waits["descriptors"]) / loads * 66_048 == pytest.approx(38.4, rel=0.002)
    assert ms(timed.total_ps) == pytest.approx(39.89, rel=0.05)
    # Mean time of a DMA engine: 31.9 ms in the model, 32.5 published.
    active, _, _ = timed.engine("dma")
    assert ms(active) == pytest.approx(31.9, rel=0.002)
    assert ms(active) == pytest.approx(32.5, rel=0.02)
    assert tensor_ms(timed) == pytest.approx(TENSOR_MS, rel=0.001)
    # Active by the profiler's meaning: 87.3 % published.
    assert busy_ms(timed, "tensor") / ms(timed.total_ps) == pytest.approx(0.873, abs=0.05)


def test_hoisted_loads_are_bound_by_the_array():
    timed = run(hoisted)
    assert len(timed.numbers("dma_copy")) == 35_328
    _, waits, _ = timed.engine("gpsimd")
    # 21.3 ms at 604 ns a transfer.
    assert ms(waits["descriptors"]) / (35_328 - 512) * 35_328 * 604 / 582.4 == pytest.approx(21.3, rel=0.002)
    active, _, _ = timed.engine("dma")
    assert ms(active) == pytest.approx(25.1, rel=0.002)
    assert tensor_ms(timed) == pytest.approx(TENSOR_MS, rel=0.001)
    assert ms(timed.total_ps) == pytest.approx(28.20, rel=0.01)
    assert busy_ms(timed, "tensor") / ms(timed.total_ps) == pytest.approx(0.9985, abs=0.01)


def test_blocks_of_the_output_are_bound_by_the_array():
    """Half the depth: 32 MiB of moving tiles are more than SBUF has, and the published run spilled."""
    timed = run(blocked, k=K // 2)
    assert tensor_ms(timed) == pytest.approx(TENSOR_MS / 2, rel=0.001)
    assert 2 * ms(timed.total_ps) == pytest.approx(28.41, rel=0.015)
    assert busy_ms(timed, "tensor") / ms(timed.total_ps) == pytest.approx(0.995, abs=0.01)


def test_blocks_of_the_output_at_full_size_wait_in_hbm():
    """The published run moved 8.66 GB in 28.41 ms. Tiles are loaded in the kernel's order here, before their first use, and
    half of them have left again by then: 14.0 GB in 47.7 ms."""
    timed = run(blocked)
    assert tensor_ms(timed) == pytest.approx(TENSOR_MS, rel=0.001)
    assert timed.line.hbm_bytes == pytest.approx(14.04e9, rel=0.01)
    assert ms(timed.total_ps) == pytest.approx(47.7, rel=0.02)
    assert sum(stores for *_, stores, _ in timed.program.spills()) == 0


def test_blocks_in_depth_are_bound_by_the_array():
    """A quarter of the rows, in blocks of half as many: the partial sums of all rows do not fit beside the tiles."""
    timed = run(blocked_in_depth, m=M // 4)
    # At the full size 1792 transfers: 8 columns of blocks, each 8 * (8 + 2 * 8) loads and 32 stores.
    assert len(timed.numbers("dma_copy")) == 8 * (8 * (8 + 8) + 8)
    assert tensor_ms(timed) == pytest.approx(TENSOR_MS / 4, rel=0.001)
    assert 4 * ms(timed.total_ps) == pytest.approx(28.30, rel=0.015)
    # Rows of 4 KiB, eight on an engine, and a semaphore write.
    active, _, _ = timed.engine("dma")
    transfer = 8 * (4096 / 23.7 + 5) + 9
    assert ms(active) == pytest.approx(8 * (8 * (8 + 8) + 8) * transfer * 1e-6, rel=0.002)
    # VectorE: 4096 additions and 512 copies, 3.04 ms in the model and 3.08 ms of published instruction time.
    durations = [end - issue for name in ("tensor_tensor", "tensor_copy") for issue, end, _ in timed.of(name)]
    assert len(durations) == (4096 + 512) // 4
    assert 4 * ms(sum(durations)) == pytest.approx(3.04, rel=0.01)
    assert 4 * ms(sum(durations)) == pytest.approx(3.08, rel=0.02)
