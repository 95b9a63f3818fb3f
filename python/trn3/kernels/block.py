"""Embedding and feed-forward block of a BERT encoder in one kernel, without attention.

Attention comes in a later version: the block takes the embedding's output where the layer's attention would feed it.
"""

from __future__ import annotations

from trn3.nki import jit
from trn3.nki import language as nl

from .embedding import embedding
from .feed_forward import feed_forward
from .feed_forward_mx import feed_forward_mx
from .norm import add_norm

Tensors = tuple[nl.Tensor, ...]


@jit
def embedded_feed_forward(tokens: Tensors, tables: Tensors, dense: Tensors, norm: Tensors, eps: float) -> Tensors:
    """Embed tokens and pass them through the feed-forward block.

    Parameters
    ----------
    tokens : tuple of tensor
        ids, positions, types: the first arguments of `embedding`.
    tables : tuple of tensor
        word_table, position_table, type_table, gamma, beta: the next ones.
    dense : tuple of tensor
        w1, b1, w2, b2 of `feed_forward`.
    norm : tuple of tensor
        gamma, beta of `add_norm`.
    eps : float
        Added to variances.

    Returns
    -------
    embedded, dense, output : tensor
        (T, D) in HBM: the embedding, the feed-forward block alone, and the block with residual and layer norm.
    """
    embedded = embedding(*tokens, *tables, eps)
    change = feed_forward(embedded, *dense)
    return embedded, change, add_norm(change, embedded, *norm, eps)


@jit
def embedded_feed_forward_mx(tokens: Tensors, tables: Tensors, dense: Tensors, norm: Tensors, eps: float) -> Tensors:
    """Do as `embedded_feed_forward`, with `feed_forward_mx` in the middle.

    Parameters
    ----------
    tokens, tables, norm : tuple of tensor
        As there; the tables are bfloat16.
    dense : tuple of tensor
        w1, w1_scale, b1, w2, w2_scale, b2 of `feed_forward_mx`.
    eps : float
        Added to variances.

    Returns
    -------
    embedded, dense, output : tensor
        As there.
    """
    embedded = embedding(*tokens, *tables, eps)
    change = feed_forward_mx(embedded, *dense)
    return embedded, change, add_norm(change, embedded, *norm, eps)
