"""Layer norm over the free dimension, and the residual addition before it."""

from __future__ import annotations

from trn3.nki import isa as nisa
from trn3.nki import jit
from trn3.nki import language as nl

from ._tiles import check_shape, load_rows, pieces, store


def normalized(x: nl.Tensor, gamma: nl.Tensor, beta: nl.Tensor, eps: float, dtype: nl.Tensor) -> nl.Tensor:
    """Return the layer norm of each partition of a tile; part of a kernel.

    Parameters
    ----------
    x : tensor
        SBUF, (P, D), float32.
    gamma, beta : tensor
        SBUF, (128, D), the same row in every partition (`load_rows`).
    eps : float
        Added to the variance.
    dtype : dtype
        Data type of the result.

    Returns
    -------
    tensor
        SBUF, (P, D), ``(x - mean) / sqrt(var + eps) * gamma + beta``.

    Notes
    -----
    All float32 until the last instruction; the variance is that of the centred values, not ``E[x^2] - E[x]^2``.
    """
    partitions, size = x.shape
    mean = nl.ndarray((partitions, 1), nl.float32)
    nisa.tensor_reduce(mean, nl.add, x, axis=1)
    nisa.tensor_scalar(mean, mean, nl.multiply, 1.0 / size)
    centred = nl.ndarray((partitions, size), nl.float32)
    nisa.tensor_scalar(centred, x, nl.subtract, mean)

    squares = nl.ndarray((partitions, size), nl.float32)
    deviation = nl.ndarray((partitions, 1), nl.float32)
    nisa.activation(
        squares,
        nl.square,
        centred,
        reduce_op=nl.add,
        reduce_res=deviation,
        reduce_cmd=nisa.reduce_cmd.reset_reduce,
    )
    nisa.activation(deviation, nl.rsqrt, deviation, bias=eps, scale=1.0 / size)

    nisa.tensor_scalar(centred, centred, nl.multiply, deviation)
    nisa.tensor_tensor(centred, centred, gamma[0:partitions, :], nl.multiply)
    out = nl.ndarray((partitions, size), dtype)
    nisa.tensor_tensor(out, centred, beta[0:partitions, :], nl.add)
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
    gamma_rows, beta_rows = load_rows(gamma), load_rows(beta)
    for start, count in pieces(tokens, nl.tile_size.pmax):
        rows = slice(start, start + count)
        total = nl.ndarray((count, size), nl.float32)
        nisa.tensor_tensor(total, nl.load(x[rows, :]), nl.load(residual[rows, :]), nl.add)
        store(out[rows, :], normalized(total, gamma_rows, beta_rows, eps, x.dtype))
    return out
