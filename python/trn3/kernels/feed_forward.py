"""The feed-forward block of a transformer layer: dense, GELU, dense."""

from __future__ import annotations

from trn3.nki import isa as nisa
from trn3.nki import jit
from trn3.nki import language as nl

from ._tiles import check_multiple, check_shape, load_columns, load_rows, pieces, store


@jit
def feed_forward(x: nl.Tensor, w1: nl.Tensor, b1: nl.Tensor, w2: nl.Tensor, b2: nl.Tensor) -> nl.Tensor:
    """Apply ``gelu(x @ w1 + b1) @ w2 + b2`` to each token.

    Parameters
    ----------
    x : tensor
        (T, D) in HBM, float32 or bfloat16.
    w1 : tensor
        (D, H) in HBM, of the data type of `x`; D and H are multiples of 128.
    b1 : tensor
        (H,) in HBM.
    w2 : tensor
        (H, E) in HBM, of the data type of `x`.
    b2 : tensor
        (E,) in HBM.

    Returns
    -------
    tensor
        (T, E) in HBM, of the data type of `x`.

    Raises
    ------
    RuleError
        kernel.shape, kernel.features.

    Notes
    -----
    Both weights stay in SBUF. The first product has the hidden features on partitions, so that its bias and GELU are
    one `activation` that reads PSUM, and its result is the stationary operand of the second one as it stands. The
    second product has the tokens on partitions. Products accumulate over the contraction in PSUM in float32; the
    hidden activations are rounded to the data type of `x`.
    """
    (tokens, size), (_, hidden), (_, out_size) = x.shape, w1.shape, w2.shape
    partitions, columns = nl.tile_size.pmax, nl.tile_size.gemm_moving_fmax
    check_multiple("feed_forward", "w1", size, partitions)
    check_multiple("feed_forward", "w2", hidden, partitions)
    check_shape("feed_forward", "w1", w1, (size, hidden))
    check_shape("feed_forward", "b1", b1, (hidden,))
    check_shape("feed_forward", "w2", w2, (hidden, out_size))
    check_shape("feed_forward", "b2", b2, (out_size,))

    out = nl.ndarray((tokens, out_size), x.dtype, nl.shared_hbm)
    w1_tiles, w2_tiles = _load_weight(w1), _load_weight(w2)
    b1_columns, b2_rows = load_columns(b1, partitions), load_rows(b2)
    for start, count in pieces(tokens, columns):
        turned = _load_transposed(x[start : start + count, :])

        active = nl.ndarray((partitions, hidden // partitions, count), x.dtype)
        for h in range(hidden // partitions):
            product = nl.ndarray((partitions, count), nl.float32, nl.psum)
            for k in range(size // partitions):
                stationary = w1_tiles[:, k, h * partitions : (h + 1) * partitions]
                nisa.nc_matmul(product, stationary, turned[:, k, :])
            nisa.activation(active[:, h, :], nl.gelu, product, bias=b1_columns[:, h : h + 1])

        for first, rows in pieces(count, partitions):
            result = nl.ndarray((rows, out_size), x.dtype)
            for column, width in pieces(out_size, columns):
                product = nl.ndarray((rows, width), nl.float32, nl.psum)
                for h in range(hidden // partitions):
                    moving = w2_tiles[:, h, column : column + width]
                    nisa.nc_matmul(product, active[:, h, first : first + rows], moving)
                bias = b2_rows[0:rows, column : column + width]
                nisa.tensor_tensor(result[:, column : column + width], product, bias, nl.add)
            store(out[start + first : start + first + rows, :], result)
    return out


def _load_weight(weight: nl.Tensor) -> nl.Tensor:
    """Return a weight (K, F) as a tile (128, K / 128, F): contraction row ``k * 128 + p`` at (p, k)."""
    partitions, (size, features) = nl.tile_size.pmax, weight.shape
    tile = nl.ndarray((partitions, size // partitions, features), weight.dtype)
    for k in range(size // partitions):
        nisa.dma_copy(tile[:, k, :], weight[k * partitions : (k + 1) * partitions, :])
    return tile


def _load_transposed(x: nl.Tensor) -> nl.Tensor:
    """Return activations (T, D) as a tile (128, D / 128, T), transposed by TensorE block by block."""
    partitions, (tokens, size) = nl.tile_size.pmax, x.shape
    turned = nl.ndarray((partitions, size // partitions, tokens), x.dtype)
    # NeuronCore-v2 transposes by multiplication, whose results are always FP32.
    moved = nl.float32 if nisa.get_nc_version() == nisa.nc_version.gen2 else x.dtype
    for start, count in pieces(tokens, partitions):
        rows = nl.load(x[start : start + count, :])
        for k in range(size // partitions):
            block = nl.ndarray((partitions, count), moved, nl.psum)
            nisa.nc_transpose(block, rows[:, k * partitions : (k + 1) * partitions])
            nisa.tensor_copy(turned[:, k, start : start + count], block)
    return turned
