"""A dense layer, and weights packed for microscaled products."""

from __future__ import annotations

from typing import Any

import numpy as np
import numpy.typing as npt

from trn3 import mx
from trn3.nki import isa as nisa
from trn3.nki import jit
from trn3.nki import language as nl

from ._operands import (
    MULTIPLE,
    PIECE,
    QUADRANT,
    QUADRANT_SCALES,
    Weight,
    activations,
    check_weight,
    features_of,
    load_weight,
    product,
    scale_runs,
    seal,
    turn,
)
from ._tiles import check_multiple, check_shape, load_rows, pieces, store


def pack_weight(weight: npt.NDArray[Any], element: str = "float8_e4m3fn") -> tuple[npt.NDArray[Any], npt.NDArray[Any]]:
    """Quantise a weight on the host, for kernels that take one.

    Parameters
    ----------
    weight : numpy.ndarray
        (K, F), K a multiple of 128.
    element : str
        ``"float8_e4m3fn"``, ``"float8_e5m2"`` or ``"float4_e2m1fn"``.

    Returns
    -------
    words : numpy.ndarray
        (K / 4, F) packed words, piece of 512 rows after piece.
    scales : numpy.ndarray
        (K / 32, F), uint8: the scale rows in use, without the gaps that they have in SBUF, in the order in which they
        stand there.

    Raises
    ------
    RuleError
        kernel.features.

    Examples
    --------
    >>> words, scales = pack_weight(np.ones((640, 96), np.float32))
    >>> words.shape, scales.shape, int(scales[0, 0])
    ((160, 96), (20, 96), 120)
    """
    size, features = weight.shape
    check_multiple("pack_weight", "weight", size, MULTIPLE)
    packed = [mx.pack_operand(weight[start : start + rows], element) for start, rows in pieces(size, PIECE)]
    quadrants = [scales.view(np.uint8).reshape(-1, QUADRANT, features) for _, scales in packed]
    runs = [
        quadrants[piece][quadrant, :QUADRANT_SCALES] for _, quadrant, members in scale_runs(size) for piece in members
    ]
    return np.concatenate([words for words, _ in packed]), np.concatenate(runs)


@jit
def dense(x: nl.Tensor, w: Weight, b: nl.Tensor, element: str = "float8_e4m3fn") -> nl.Tensor:
    """Apply ``x @ w + b`` to each token.

    Parameters
    ----------
    x : tensor
        (T, D) in HBM, float32 or bfloat16 (bfloat16 with a packed weight).
    w : tensor or tuple of tensor
        (D, F) in HBM, of the data type of `x`; or the words and scales of `pack_weight`. D is a multiple of 128.
    b : tensor
        (F,) in HBM.
    element : str
        What activations are quantised to beside a packed weight: ``"float8_e4m3fn"`` or ``"float8_e5m2"``.

    Returns
    -------
    tensor
        (T, F) in HBM, of the data type of `x`.

    Raises
    ------
    RuleError
        kernel.shape, kernel.features.

    Notes
    -----
    The weight stays in SBUF. TensorE transposes each tile of 128 tokens, so that it is the stationary operand; the
    weight moves. Products accumulate over the contraction in PSUM in float32.
    """
    (tokens, size), features = x.shape, features_of(w)
    check_weight("dense", "w", w, size, features)
    check_shape("dense", "b", b, (features,))
    out = nl.ndarray((tokens, features), x.dtype, nl.shared_hbm)
    weight, bias = load_weight(w), load_rows(b)
    for start, count in pieces(tokens, nl.tile_size.pmax):
        operand = activations(weight, size, count, x.dtype, element)
        turn(operand, 0, nl.load(x[start : start + count, :]))
        seal(operand, 0, count)
        result = nl.ndarray((count, features), x.dtype)
        for column, width in pieces(features, nl.tile_size.gemm_moving_fmax):
            of = slice(column, column + width)
            total = product(operand, operand.span(0, count), weight, of)
            nisa.tensor_tensor(result[:, of], total[0:count, :], bias[0:count, of], nl.add)
        store(out[start : start + count, :], result)
    return out
