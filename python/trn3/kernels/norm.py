"""Layer norm over the free dimension, and the residual addition before it."""

from __future__ import annotations

from typing import Any

from trn3.nki import isa as nisa
from trn3.nki import jit
from trn3.nki import language as nl

from ._tiles import check_shape, load_rows, pieces, pipelined, store


class LayerNorm:
    """A layer norm whose gamma and beta are in SBUF, in three stages for `pipelined`: `statistics`, `scale`, `apply`.

    Parameters
    ----------
    gamma, beta : tensor
        (D,) in HBM.
    eps : float
        Added to the variance.
    dtype : dtype
        Data type of the result.

    Notes
    -----
    ``(x - mean) / sqrt(var + eps) * gamma + beta``, all float32 until the last instruction. The work is spread: VectorE
    takes the statistics and normalises, GpSimdE applies gamma and beta. GpSimdE also has the square root, so that
    ScalarE keeps the function table that it is using.
    """

    def __init__(self, gamma: nl.Tensor, beta: nl.Tensor, eps: float, dtype: Any) -> None:
        self.gamma, self.beta = load_rows(gamma), load_rows(beta)
        self.eps, self.dtype = eps, dtype

    def statistics(self, x: nl.Tensor) -> tuple[nl.Tensor, nl.Tensor, nl.Tensor]:
        """Return x, (P, D) float32 in SBUF, with mean and variance of each partition, (P, 1)."""
        partitions, size = x.shape
        parts = list(pieces(size, nl.tile_size.bn_stats_fmax))
        statistics = nl.ndarray((partitions, len(parts), 6), nl.float32)
        for at, (start, count) in enumerate(parts):
            nisa.bn_stats(statistics[:, at, :], x[:, start : start + count])
        moments = nl.ndarray((partitions, 2), nl.float32)
        nisa.bn_aggr(moments, statistics.reshape((partitions, 6 * len(parts))))
        return x, moments[:, 0:1], moments[:, 1:2]

    def scale(self, state: tuple[nl.Tensor, nl.Tensor, nl.Tensor]) -> tuple[nl.Tensor, nl.Tensor, nl.Tensor]:
        """Return x and mean with 1 / sqrt(var + eps) of each partition, (P, 1)."""
        x, mean, variance = state
        scale = nl.ndarray(mean.shape, nl.float32)
        nisa.tensor_scalar(scale, variance, nl.add, self.eps, op1=nl.rsqrt)
        return x, mean, scale

    def apply(self, state: tuple[nl.Tensor, nl.Tensor, nl.Tensor]) -> nl.Tensor:
        """Return the norm of what `scale` gave: SBUF, (P, D), of the data type of the norm."""
        x, mean, scale = state
        partitions, size = x.shape
        normal = nl.ndarray((partitions, size), nl.float32)
        nisa.tensor_scalar(normal, x, nl.subtract, mean, op1=nl.multiply, operand1=scale)
        nisa.tensor_tensor(normal, normal, self.gamma[0:partitions, :], nl.multiply, engine=nisa.gpsimd_engine)
        out = nl.ndarray((partitions, size), self.dtype)
        nisa.tensor_tensor(out, normal, self.beta[0:partitions, :], nl.add, engine=nisa.gpsimd_engine)
        return out


@jit
def add_norm(x: nl.Tensor, residual: nl.Tensor, gamma: nl.Tensor, beta: nl.Tensor, eps: float) -> nl.Tensor:
    """Add a residual and normalise each token: what closes a BERT block.

    Parameters
    ----------
    x, residual : tensor
        (T, D) in HBM.
    gamma, beta : tensor
        (D,) in HBM.
    eps : float
        Added to the variance.

    Returns
    -------
    tensor
        (T, D) in HBM, of the data type of `x`.

    Raises
    ------
    RuleError
        kernel.shape.

    Notes
    -----
    ``layer_norm(x + residual) * gamma + beta``, float32 inside; tokens on partitions.
    """
    tokens, size = x.shape
    check_shape("add_norm", "residual", residual, (tokens, size))
    check_shape("add_norm", "gamma", gamma, (size,))
    check_shape("add_norm", "beta", beta, (size,))
    out = nl.ndarray((tokens, size), x.dtype, nl.shared_hbm)
    norm = LayerNorm(gamma, beta, eps, x.dtype)

    def added(tile: tuple[int, int]) -> Any:
        start, count = tile
        rows = slice(start, start + count)
        total = nl.ndarray((count, size), nl.float32)
        nisa.tensor_tensor(total, nl.load(x[rows, :]), nl.load(residual[rows, :]), nl.add)
        return rows, norm.statistics(total)

    def scaled(state: Any) -> Any:
        rows, statistics = state
        return rows, norm.scale(statistics)

    def stored(state: Any) -> None:
        rows, statistics = state
        store(out[rows, :], norm.apply(statistics))

    pipelined(pieces(tokens, nl.tile_size.pmax), added, scaled, stored)
    return out
