"""Add two vectors: the shortest whole kernel. Run it with ``python examples/vector_add.py``."""

import numpy as np

import trn3
from trn3.nki import isa as nisa
from trn3.nki import jit
from trn3.nki import language as nl


@jit
def vector_add(a, b):
    """Add two arrays (P, F) in HBM, P at most 128."""
    out = nl.ndarray(a.shape, dtype=a.dtype, buffer=nl.shared_hbm)
    a_tile = nl.ndarray(a.shape, dtype=a.dtype)
    b_tile = nl.ndarray(b.shape, dtype=b.dtype)
    nisa.dma_copy(dst=a_tile, src=a)
    nisa.dma_copy(dst=b_tile, src=b)
    nisa.tensor_tensor(dst=a_tile, data1=a_tile, data2=b_tile, op=nl.add)
    nisa.dma_copy(dst=out, src=a_tile)
    return out


def main():
    rng = np.random.default_rng(0)
    a, b = (rng.standard_normal((128, 1024), np.float32) for _ in range(2))
    run = trn3.run(vector_add, a, b)
    assert np.array_equal(run.result, a + b)
    print(run.report)


if __name__ == "__main__":
    main()
