"""Multiply in MXFP8: weights quantised on the host, activations on the device. ``python examples/mx_matmul.py``."""

import numpy as np

import trn3
from trn3.nki import isa as nisa
from trn3.nki import jit
from trn3.nki import language as nl


@jit
def mx_matmul(words, scales, x):
    """Return ``w.T @ x`` for a packed weight (128, M) with its scales and activations (512, N) in HBM, bfloat16."""
    free = x.shape[1]
    # A word holds contraction rows p, p + 128, p + 256 and p + 384. The DMA brings whole rows (element by element it
    # would take ten times as long), VectorE interleaves the four.
    loaded = nl.ndarray((128, 4, free), x.dtype)
    nisa.dma_copy(loaded, x.reshape((4, 128, free)).permute((1, 0, 2)))
    rows = nl.ndarray((128, free, 4), x.dtype)
    nisa.tensor_copy(rows, loaded.permute((0, 2, 1)))
    moving = nl.ndarray((128, free), nl.float8_e4m3fn_x4)
    moving_scale = nl.ndarray((128, free), nl.uint8)
    nisa.quantize_mx(moving, rows.reshape((128, 4 * free)), moving_scale)

    product = nl.ndarray((words.shape[1], free), nl.float32, buffer=nl.psum)
    nisa.nc_matmul_mx(product, nl.load(words), moving, nl.load(scales), moving_scale)
    out = nl.ndarray(product.shape, nl.float32, buffer=nl.shared_hbm)
    nl.store(out, product)
    return out


def main():
    rng = np.random.default_rng(0)
    weight = rng.standard_normal((512, 128), np.float32)
    x = rng.standard_normal((512, 256), np.float32).astype(nl.bfloat16)
    words, scales = trn3.mx.pack_operand(weight, "float8_e4m3fn")
    run = trn3.run(mx_matmul, words, scales, x)

    expected = weight.astype(np.float64).T @ x.astype(np.float64)
    error = np.linalg.norm(run.result - expected) / np.linalg.norm(expected)
    assert error < 6e-2, error
    print(f"relative error against float64: {error:.1e}\n")
    print(run.report)


if __name__ == "__main__":
    main()
