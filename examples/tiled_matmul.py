"""Multiply matrices larger than the array, and look at where the time goes.

``python examples/tiled_matmul.py [DIRECTORY]`` writes the report there (default: out) as a page for a browser, and the
timeline, which https://ui.perfetto.dev opens.
"""

import pathlib
import sys

import numpy as np

import trn3
from trn3.nki import isa as nisa
from trn3.nki import jit
from trn3.nki import language as nl


@jit
def tiled_matmul(a_t, b):
    """Return ``a_t.T @ b`` for (K, M) and (K, N) in HBM; K and M in multiples of 128, N of 512."""
    (k_size, m_size), (_, n_size) = a_t.shape, b.shape
    k_tile, m_tile, n_tile = nl.tile_size.pmax, nl.tile_size.gemm_stationary_fmax, nl.tile_size.gemm_moving_fmax
    out = nl.ndarray((m_size, n_size), a_t.dtype, buffer=nl.shared_hbm)

    # Each element comes from HBM once: both matrices stay in SBUF, contraction on partitions.
    a_tiles = [nl.load(a_t[k : k + k_tile, :]) for k in range(0, k_size, k_tile)]
    b_tiles = [nl.load(b[k : k + k_tile, :]) for k in range(0, k_size, k_tile)]
    for m in range(0, m_size, m_tile):
        for n in range(0, n_size, n_tile):
            product = nl.ndarray((m_tile, n_tile), nl.float32, buffer=nl.psum)
            for a_tile, b_tile in zip(a_tiles, b_tiles, strict=True):
                nisa.nc_matmul(product, a_tile[:, m : m + m_tile], b_tile[:, n : n + n_tile])
            result = nl.copy(product, dtype=out.dtype)
            # ScalarE's queue: a store waits for its product, and would hold up the loads behind it in SyncE's.
            nisa.dma_copy(out[m : m + m_tile, n : n + n_tile], result, engine=nisa.scalar_engine)
    return out


def main():
    directory = pathlib.Path(sys.argv[1] if len(sys.argv) > 1 else "out")
    rng = np.random.default_rng(0)
    a_t, b = (rng.standard_normal((1024, size), np.float32).astype(nl.bfloat16) for size in (512, 2048))
    run = trn3.run(tiled_matmul, a_t, b)

    expected = a_t.astype(np.float64).T @ b.astype(np.float64)
    error = np.linalg.norm(run.result.astype(np.float64) - expected) / np.linalg.norm(expected)
    assert error < 3e-3, error
    print(f"relative error against float64: {error:.1e}\n")
    print(run.report)

    directory.mkdir(parents=True, exist_ok=True)
    trace = directory / "tiled_matmul.perfetto-trace"
    run.report.write_perfetto(trace)
    page = directory / "tiled_matmul.html"
    run.report.write_html(page)
    print(f"\nreport: {page}\ntimeline: {trace}")


if __name__ == "__main__":
    main()
