"""The feed-forward block in MXFP8: weights quantised offline, activations on the device.

A contraction is cut into pieces of 512 rows (the last one may be 128, 256 or 384). A piece of K rows lies on K / 4
partitions: the word of partition p holds rows ``p``, ``p + K/4``, ``p + K/2`` and ``p + 3K/4``.
"""

from __future__ import annotations

from typing import Any

import numpy as np
import numpy.typing as npt

from trn3 import dtypes, mx
from trn3.nki import isa as nisa
from trn3.nki import jit
from trn3.nki import language as nl

from ._tiles import check_multiple, check_shape, load_columns, load_rows, pieces, store

_WORD = 4  # values of the contraction in a packed word
_QUADRANT = 32  # partitions of a quadrant
_QUADRANT_SCALES = 4  # scale rows in a quadrant: one for 8 partitions
_PIECE = 512  # contraction rows of one product
_MULTIPLE = _WORD * _QUADRANT


def pack_weight(weight: npt.NDArray[Any], element: str = "float8_e4m3fn") -> tuple[npt.NDArray[Any], npt.NDArray[Any]]:
    """Quantise a weight on the host for `feed_forward_mx`.

    Parameters
    ----------
    weight : numpy.ndarray
        (K, F), K a multiple of 128.
    element : str
        ``"float8_e4m3fn"``, ``"float8_e5m2"`` or ``"float4_e2m1fn"``.

    Returns
    -------
    words : numpy.ndarray
        (K / 4, F) packed words, piece after piece.
    scales : numpy.ndarray
        (K / 32, F), uint8: the scale rows in use, without the gaps that they have in SBUF.

    Raises
    ------
    RuleError
        kernel.features.
    """
    size, features = weight.shape
    check_multiple("pack_weight", "weight", size, _MULTIPLE)
    words, scales = [], []
    for start, count in pieces(size, _PIECE):
        packed, spread = mx.pack_operand(weight[start : start + count], element)
        words.append(packed)
        quadrants = spread.view(np.uint8).reshape(-1, _QUADRANT, features)
        scales.append(quadrants[:, :_QUADRANT_SCALES].reshape(-1, features))
    return np.concatenate(words), np.concatenate(scales)


@jit
def feed_forward_mx(
    x: nl.Tensor,
    w1: nl.Tensor,
    w1_scale: nl.Tensor,
    b1: nl.Tensor,
    w2: nl.Tensor,
    w2_scale: nl.Tensor,
    b2: nl.Tensor,
    element: str = "float8_e4m3fn",
) -> nl.Tensor:
    """Apply ``gelu(x @ w1 + b1) @ w2 + b2`` to each token with microscaled products.

    Parameters
    ----------
    x : tensor
        (T, D) in HBM, bfloat16.
    w1, w2 : tensor
        (D / 4, H) and (H / 4, E) packed words in HBM; D and H are multiples of 128. See `pack_weight`.
    w1_scale, w2_scale : tensor
        (D / 32, H) and (H / 32, E) in HBM, uint8.
    b1, b2 : tensor
        (H,) and (E,) in HBM.
    element : str
        What activations are quantised to: ``"float8_e4m3fn"`` or ``"float8_e5m2"``.

    Returns
    -------
    tensor
        (T, E) in HBM, bfloat16.

    Raises
    ------
    RuleError
        kernel.shape, kernel.features.

    Notes
    -----
    As `feed_forward`, with `quantize_mx` before each product. Transposes write the four rows of a word next to each
    other, and so does the GELU of the first product: quantising needs no further copy. An odd last token gets a
    neighbour of zeros, since the stationary free size must be even.
    """
    (tokens, size), (_, hidden), (_, out_size) = x.shape, w1.shape, w2.shape
    partitions, columns = nl.tile_size.pmax, nl.tile_size.gemm_moving_fmax
    check_multiple("feed_forward_mx", "w1", size, _MULTIPLE)
    check_multiple("feed_forward_mx", "w2", hidden, _MULTIPLE)
    check_shape("feed_forward_mx", "w1", w1, (size // _WORD, hidden))
    check_shape("feed_forward_mx", "w1_scale", w1_scale, (size // mx.GROUP, hidden))
    check_shape("feed_forward_mx", "b1", b1, (hidden,))
    check_shape("feed_forward_mx", "w2", w2, (hidden // _WORD, out_size))
    check_shape("feed_forward_mx", "w2_scale", w2_scale, (hidden // mx.GROUP, out_size))
    check_shape("feed_forward_mx", "b2", b2, (out_size,))

    word = dtypes.dtype(f"{element}_x4")
    out = nl.ndarray((tokens, out_size), x.dtype, nl.shared_hbm)
    w1_tiles, w2_tiles = _load_weight(w1, w1_scale), _load_weight(w2, w2_scale)
    b2_rows = load_rows(b2)
    b1_columns = [load_columns(b1[start : start + count], count // _WORD) for start, count in pieces(hidden, _PIECE)]
    for start, count in pieces(tokens, columns):
        even = count + count % 2
        turned = [_quantized(tile, word) for tile in _load_interleaved(x[start : start + count, :], even)]

        active = []
        for (first, rows), bias in zip(pieces(hidden, _PIECE), b1_columns, strict=True):
            height = rows // _WORD
            tile = nl.ndarray((height, even, _WORD), x.dtype)
            for q in range(_WORD):
                features = slice(first + q * height, first + (q + 1) * height)
                product = nl.ndarray((height, even), nl.float32, nl.psum)
                for (data, scale), (moving, moving_scale) in zip(w1_tiles, turned, strict=True):
                    nisa.nc_matmul_mx(product, data[:, features], moving, scale[:, features], moving_scale)
                nisa.activation(tile[:, :, q], nl.gelu, product, bias=bias[:, q : q + 1])
            active.append(_quantized(tile, word))

        for first, rows in pieces(even, partitions):
            result = nl.ndarray((rows, out_size), x.dtype)
            for column, width in pieces(out_size, columns):
                product = nl.ndarray((rows, width), nl.float32, nl.psum)
                at, of = slice(first, first + rows), slice(column, column + width)
                for (data, scale), (moving, moving_scale) in zip(active, w2_tiles, strict=True):
                    nisa.nc_matmul_mx(product, data[:, at], moving[:, of], scale[:, at], moving_scale[:, of])
                nisa.tensor_tensor(result[:, of], product, b2_rows[0:rows, of], nl.add)
            kept = min(rows, count - first)
            store(out[start + first : start + first + kept, :], result[0:kept, :])
    return out


def _load_weight(words: nl.Tensor, scales: nl.Tensor) -> list[tuple[nl.Tensor, nl.Tensor]]:
    """Return a packed weight as tiles (K/4, F) of words and of scales, one pair a piece of the contraction."""
    features = words.shape[1]
    tiles = []
    for start, count in pieces(words.shape[0], _PIECE // _WORD):
        data = nl.load(words[start : start + count, :])
        scale = nl.ndarray((count, features), scales.dtype)
        for quadrant in range(count // _QUADRANT):
            row = start * _QUADRANT_SCALES // _QUADRANT + quadrant * _QUADRANT_SCALES
            place = quadrant * _QUADRANT
            nisa.dma_copy(scale[place : place + _QUADRANT_SCALES, :], scales[row : row + _QUADRANT_SCALES, :])
        tiles.append((data, scale))
    return tiles


def _load_interleaved(x: nl.Tensor, even: int) -> list[nl.Tensor]:
    """Return activations (T, D) as tiles (K/4, `even`, 4), one a piece of the contraction; what has no token is 0."""
    tokens, size = x.shape
    tiles = [nl.ndarray((count // _WORD, even, _WORD), x.dtype) for _, count in pieces(size, _PIECE)]
    for tile in tiles:
        if even > tokens:
            nisa.memset(tile[:, tokens:even, :], 0.0)
    for start, count in pieces(tokens, nl.tile_size.pmax):
        rows = nl.load(x[start : start + count, :])
        for tile, (first, width) in zip(tiles, pieces(size, _PIECE), strict=True):
            height = width // _WORD
            block = nl.ndarray((height, _WORD, count), x.dtype, nl.psum)
            for q in range(_WORD):
                nisa.nc_transpose(block[:, q, :], rows[:, first + q * height : first + (q + 1) * height])
            nisa.tensor_copy(tile[:, start : start + count, :], block.permute((0, 2, 1)))
    return tiles


def _quantized(tile: nl.Tensor, word: Any) -> tuple[nl.Tensor, nl.Tensor]:
    """Return an interleaved tile (P, F, 4) as packed words (P, F) and their scales."""
    partitions, free, _ = tile.shape
    data = nl.ndarray((partitions, free), word)
    scale = nl.ndarray((partitions, free), nl.uint8)
    nisa.quantize_mx(data, tile.reshape((partitions, free * _WORD)), scale)
    return data, scale
