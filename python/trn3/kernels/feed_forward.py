"""The feed-forward block of a transformer layer: dense, GELU, dense."""

from __future__ import annotations

from typing import Any

from trn3.nki import isa as nisa
from trn3.nki import jit
from trn3.nki import language as nl

from ._operands import Operand, Weight, activations, check_weight, features_of, load_weight, product, seal, turn
from ._tiles import check_shape, load_columns, load_rows, pieces, store


@jit
def feed_forward(
    x: nl.Tensor, w1: Weight, b1: nl.Tensor, w2: Weight, b2: nl.Tensor, element: str = "float8_e4m3fn"
) -> nl.Tensor:
    """Apply ``gelu(x @ w1 + b1) @ w2 + b2`` to each token.

    Parameters
    ----------
    x : tensor
        (T, D) in HBM, float32 or bfloat16 (bfloat16 with packed weights).
    w1, w2 : tensor or tuple of tensor
        (D, H) and (H, E) in HBM, of the data type of `x`; or for both the words and scales of `pack_weight`. D and H
        are multiples of 128.
    b1, b2 : tensor
        (H,) and (E,) in HBM.
    element : str
        What activations are quantised to beside packed weights: ``"float8_e4m3fn"`` or ``"float8_e5m2"``.

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
    one `activation` that reads PSUM, and its result is the stationary operand of the second one as it stands
    (microscaled: interleaved, so that quantising needs no further copy). The second product has the tokens on
    partitions. Products accumulate over the contraction in PSUM in float32; the hidden activations are rounded to the
    data type of `x`.
    """
    (tokens, size), hidden, out_size = x.shape, features_of(w1), features_of(w2)
    check_weight("feed_forward", "w1", w1, size, hidden)
    check_weight("feed_forward", "w2", w2, hidden, out_size)
    check_shape("feed_forward", "b1", b1, (hidden,))
    check_shape("feed_forward", "b2", b2, (out_size,))

    out = nl.ndarray((tokens, out_size), x.dtype, nl.shared_hbm)
    first, second = load_weight(w1), load_weight(w2)
    b1_columns, b2_rows = load_hidden_bias(b1, second), load_rows(b2)
    for start, count in pieces(tokens, nl.tile_size.gemm_moving_fmax):
        operand = activations(first, size, count, x.dtype, element)
        for at, rows in pieces(count, nl.tile_size.pmax):
            turn(operand, at, nl.load(x[start + at : start + at + rows, :]))
        seal(operand, 0, count)
        active = hidden_activations(operand, count, first, b1_columns, second, x.dtype, element)
        for at, rows in pieces(count, nl.tile_size.pmax):
            result = nl.ndarray((rows, out_size), x.dtype)
            for column, width in pieces(out_size, nl.tile_size.gemm_moving_fmax):
                of = slice(column, column + width)
                total = product(active, active.span(at, rows), second, of)
                nisa.tensor_tensor(result[:, of], total[0:rows, :], b2_rows[0:rows, of], nl.add)
            store(out[start + at : start + at + rows, :], result)
    return out


def load_hidden_bias(bias: nl.Tensor, second: Operand) -> list[nl.Tensor]:
    """Return the bias before GELU, one tile (P, chunks) for each piece of the second weight's contraction."""
    return [load_columns(bias[start : start + rows], second.height(rows)) for start, rows in second.pieces]


def hidden_activations(
    operand: Operand,
    count: int,
    first: Operand,
    bias: list[nl.Tensor],
    second: Operand,
    dtype: Any,
    element: str,
) -> Operand:
    """Return ``gelu(x @ w1 + b1)`` of `count` tokens, at most 512, as an operand that `second` multiplies with.

    Parameters
    ----------
    operand : Operand
        (D, T): the tokens.
    count : int
        T.
    first, second : Operand
        (D, H) and (H, E): the weights.
    bias : list of tensor
        What `load_hidden_bias` gave.
    dtype : dtype
        Data type of the result, or of what it is quantised from.
    element : str
        What a microscaled result is quantised to.
    """
    hidden = sum(rows for _, rows in second.pieces)
    columns = operand.span(0, count)
    active = activations(second, hidden, count, dtype, element)
    for piece, bias_columns in enumerate(bias):
        places = active.window(piece, columns)
        for chunk, (start, height) in enumerate(active.chunks(piece)):
            total = product(first, slice(start, start + height), operand, columns)
            nisa.activation(places[:, chunk, :], nl.gelu, total, bias=bias_columns[:, chunk : chunk + 1])
        active.seal(piece, columns)
    return active
