"""Sentence embeddings from token embeddings: the mean over a sentence's tokens, and its normalisation."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from trn3.nki import isa as nisa
from trn3.nki import jit
from trn3.nki import language as nl

from ._tiles import check_length, check_shape, load_columns, pieces

_NORM_SQUARE_MIN = 1e-24
"""Least square of a norm that is divided by, as PyTorch's ``normalize`` has it."""


@jit
def mean_pool(x: nl.Tensor, mask: nl.Tensor, length: int, normalize: bool = True) -> nl.Tensor:
    """Average the tokens of each sentence.

    Parameters
    ----------
    x : tensor
        (T, D) in HBM, float32 or bfloat16: T / `length` sentences, one after the other.
    mask : tensor
        (T,) in HBM, float32: 1 for a token, 0 for padding, which does not count.
    length : int
        Tokens of a sentence: 32, 64 or a multiple of 128.
    normalize : bool
        Divide each mean by its Euclidean norm.

    Returns
    -------
    tensor
        (T / `length`, D) in HBM, float32. A sentence of nothing but padding gives zeros.

    Raises
    ------
    RuleError
        kernel.shape, kernel.length.

    Notes
    -----
    TensorE adds the tokens up: their stationary operand says, with 1 and 0, which token belongs to which sentence. Sums
    are float32 in PSUM.
    """
    tokens, size = x.shape
    check_shape("mean_pool", "mask", mask, (tokens,))
    check_length("mean_pool", tokens, length)
    out = nl.ndarray((tokens // length, size), nl.float32, nl.shared_hbm)
    tiles = [nl.load(x[start : start + count, :]) for start, count in pieces(tokens, nl.tile_size.pmax)]
    Pool(mask, length, x.dtype).store(out, tiles, normalize)
    return out


class Pool:
    """Which token belongs to which sentence, and the mean by it.

    Parameters
    ----------
    mask : tensor
        (T,) in HBM, float32.
    length : int
        Tokens of a sentence.
    dtype : dtype
        Data type of the tokens' features.
    """

    def __init__(self, mask: nl.Tensor, length: int, dtype: Any) -> None:
        (tokens,) = mask.shape
        self.ones = nl.ndarray((nl.tile_size.pmax, 1), dtype)
        nisa.memset(self.ones, 1.0)
        self.groups = []
        columns = load_columns(mask, nl.tile_size.pmax)
        sentences_max = nl.tile_size.gemm_stationary_fmax
        for first, sentences in pieces(tokens // length, sentences_max):
            members = []
            for start, count in pieces(sentences * length, nl.tile_size.pmax):
                at = (first * length + start) // nl.tile_size.pmax
                column = columns[0:count, at : at + 1]
                member = nl.ndarray((count, sentences), dtype)
                nisa.memset(member, 0.0)
                for row in range(0, count, min(length, count)):
                    rows, sentence = slice(row, row + min(length, count)), (start + row) // length
                    nisa.tensor_copy(member[rows, sentence : sentence + 1], column[rows, :])
                members.append(member)
            self.groups.append((first, sentences, members))

    def store(self, out: nl.Tensor, tiles: Sequence[nl.Tensor], normalize: bool, name: str | None = None) -> None:
        """Write the means of all tokens, which are tiles (128, D) in SBUF, to (sentences, D) in HBM."""
        used = 0
        for first, sentences, members in self.groups:
            mean = self._mean(tiles[used : used + len(members)], sentences, members)
            used += len(members)
            if normalize:
                _normalize(mean)
            nisa.dma_copy(out[first : first + sentences, :], mean, name=name)

    def _mean(self, tiles: Sequence[nl.Tensor], sentences: int, members: Sequence[nl.Tensor]) -> nl.Tensor:
        size = tiles[0].shape[1]
        number = nl.ndarray((sentences, 1), nl.float32, nl.psum)
        for member in members:
            nisa.nc_matmul(number, member, self.ones[0 : member.shape[0], :])
        inverse = nl.ndarray((sentences, 1), nl.float32)
        nisa.tensor_scalar(inverse, number, nl.maximum, 1.0)
        nisa.reciprocal(inverse, inverse)
        mean = nl.ndarray((sentences, size), nl.float32)
        for column, width in pieces(size, nl.tile_size.gemm_moving_fmax):
            total = nl.ndarray((sentences, width), nl.float32, nl.psum)
            for tile, member in zip(tiles, members, strict=True):
                nisa.nc_matmul(total, member, tile[:, column : column + width])
            nisa.tensor_scalar(mean[:, column : column + width], total, nl.multiply, inverse)
        return mean


def _normalize(x: nl.Tensor) -> None:
    """Divide each partition of a tile by its Euclidean norm, in place."""
    squares = nl.ndarray(x.shape, nl.float32)
    total = nl.ndarray((x.shape[0], 1), nl.float32)
    reset = nisa.reduce_cmd.reset_reduce
    nisa.activation(squares, nl.square, x, reduce_op=nl.add, reduce_res=total, reduce_cmd=reset)
    nisa.tensor_scalar(total, total, nl.maximum, _NORM_SQUARE_MIN, op1=nl.rsqrt)
    nisa.tensor_scalar(x, x, nl.multiply, total)
