"""Multi-head self-attention with padding: projections, softmax and output projection."""

from __future__ import annotations

from typing import Any

from trn3.errors import RuleError
from trn3.nki import isa as nisa
from trn3.nki import jit
from trn3.nki import language as nl

from ._operands import Operand, Weight, activations, check_weight, load_weight, product, seal, turn
from ._softmax import Constants, Mask, Shape, Softmax, Tile
from ._tiles import check_length, check_shape, load_columns, load_rows, pieces, pipelined, store


class SelfAttention:
    """The projections of one layer, their weights in SBUF.

    Parameters
    ----------
    w : Weight
        (D, 3 D) in HBM: queries, keys, values; head after head within each.
    b : tensor
        (3 D,) in HBM.
    shape : Shape
        Sizes.
    dtype : dtype
        Data type of the activations.
    element : str
        What they are quantised to beside a packed weight.
    """

    def __init__(self, w: Weight, b: nl.Tensor, shape: Shape, dtype: Any, element: str) -> None:
        size = shape.size
        self.weight = load_weight(w)
        self.bias = load_columns(b[0 : 2 * size], nl.tile_size.pmax)
        self.value_bias = load_rows(b[2 * size : 3 * size])
        self.shape, self.dtype, self.element = shape, dtype, element

    def project(self, tiles: list[nl.Tensor], first: int, mask: Mask, constants: Constants) -> Softmax:
        """Return the softmax of some tokens, which are whole sentences.

        Parameters
        ----------
        tiles : list of tensor
            The tokens: SBUF, (128, D) each, the last one may have fewer.
        first : int
            Number of the first token among those of `mask`.
        mask : Mask
            Of all tokens.
        constants : Constants
            Of the data type of the activations.
        """
        partitions, shape = nl.tile_size.pmax, self.shape
        count = sum(tile.shape[0] for tile in tiles)
        operand = activations(self.weight, shape.size, count, self.dtype, self.element)
        queries, keys = (nl.ndarray((partitions, shape.size // partitions, count), self.dtype) for _ in range(2))
        for start, tokens in pieces(count, nl.tile_size.gemm_moving_fmax):
            for at, rows in pieces(tokens, partitions):
                turn(operand, start + at, tiles[(start + at) // partitions][0:rows, :], engine=nisa.scalar_engine)
            seal(operand, start, tokens)
            self._queries_and_keys(operand, slice(start, start + tokens), queries, keys)
        return Softmax(shape, queries, keys, lambda tile: self._values(operand, tile), first, mask, constants)

    def _queries_and_keys(self, operand: Operand, columns: slice, queries: nl.Tensor, keys: nl.Tensor) -> None:
        """Write scaled queries, and keys, of some tokens to their places, features on partitions."""
        chunks, scale = self.shape.size // nl.tile_size.pmax, self.shape.head**-0.5
        for chunk in range(chunks):
            # VectorE and ScalarE empty PSUM side by side.
            query, bias = self._projected(chunk, operand, columns)
            nisa.tensor_scalar(queries[:, chunk, columns], query, nl.add, bias, op1=nl.multiply, operand1=scale)
            key, bias = self._projected(chunks + chunk, operand, columns)
            nisa.activation(keys[:, chunk, columns], nl.copy, key, bias=bias)

    def _projected(self, chunk: int, operand: Operand, columns: slice) -> tuple[nl.Tensor, nl.Tensor]:
        """Return 128 features of queries or keys of some tokens without their bias, in PSUM, and the bias."""
        features = slice(chunk * nl.tile_size.pmax, (chunk + 1) * nl.tile_size.pmax)
        return product(self.weight, features, operand, columns), self.bias[:, chunk : chunk + 1]

    def _values(self, operand: Operand, tile: Tile) -> nl.Tensor:
        """Return the values of a tile of tokens, each head's with a 1 behind: (P, heads, head + 1)."""
        shape, (start, count) = self.shape, tile
        values = nl.ndarray((count, shape.heads, shape.head + 1), self.dtype)
        nisa.memset(values[:, :, shape.head : shape.head + 1], 1.0, engine=nisa.gpsimd_engine)
        for column, width in pieces(shape.size, nl.tile_size.gemm_moving_fmax):
            of = slice(2 * shape.size + column, 2 * shape.size + column + width)
            total = product(operand, slice(start, start + count), self.weight, of)
            head, heads = column // shape.head, width // shape.head
            nisa.tensor_tensor(
                values[:, head : head + heads, 0 : shape.head],
                total.reshape((count, heads, shape.head)),
                self.value_bias[0:count, column : column + width].reshape((count, heads, shape.head)),
                nl.add,
            )
        return values


@jit
def attention(
    x: nl.Tensor,
    mask: nl.Tensor,
    w_qkv: Weight,
    b_qkv: nl.Tensor,
    w_out: Weight,
    b_out: nl.Tensor,
    heads: int,
    length: int,
    element: str = "float8_e4m3fn",
) -> nl.Tensor:
    """Apply multi-head self-attention to sentences of one length.

    Parameters
    ----------
    x : tensor
        (T, D) in HBM, float32 or bfloat16 (bfloat16 with packed weights): T / `length` sentences, one after the other.
    mask : tensor
        (T,) in HBM, float32: 1 for a token, 0 for padding, which no token attends to.
    w_qkv : tensor or tuple of tensor
        (D, 3 D) in HBM, of the data type of `x`, or the words and scales of `pack_weight`: queries, keys, values, head
        after head within each. D is a multiple of 128.
    b_qkv : tensor
        (3 D,) in HBM, float32.
    w_out : tensor or tuple of tensor
        (D, D) in HBM, as `w_qkv`.
    b_out : tensor
        (D,) in HBM.
    heads : int
        Heads of D / `heads` features: 32, 64 or 128.
    length : int
        Tokens of a sentence: 32, 64, 128, 256, 384 or 512.
    element : str
        What activations are quantised to beside packed weights: ``"float8_e4m3fn"`` or ``"float8_e5m2"``.

    Returns
    -------
    tensor
        (T, D) in HBM, of the data type of `x`: ``concat(softmax(q @ k.T / sqrt(D / heads)) @ v) @ w_out + b_out``.

    Raises
    ------
    RuleError
        kernel.shape, kernel.features, kernel.heads, kernel.length.

    Notes
    -----
    Scores and probabilities have the data type of `x` also beside packed weights: a head's contraction of 32 fills only
    a quarter of the words of a microscaled product's smallest tile, so that quantising them would cost accuracy and
    VectorE's time, and gain none of TensorE's.
    """
    tokens, size = x.shape
    shape = check_attention("attention", tokens, size, mask, heads, length)
    check_weight("attention", "w_qkv", w_qkv, size, 3 * size)
    check_shape("attention", "b_qkv", b_qkv, (3 * size,))
    check_weight("attention", "w_out", w_out, size, size)
    check_shape("attention", "b_out", b_out, (size,))
    out = nl.ndarray((tokens, size), x.dtype, nl.shared_hbm)
    layer = SelfAttention(w_qkv, b_qkv, shape, x.dtype, element)
    weight, bias = load_weight(w_out), load_rows(b_out)
    known, constants = Mask(mask, x.dtype), Constants(x.dtype)
    for start, count in pieces(tokens, tokens_at_once(length)):
        tiles = [nl.load(x[start + at : start + at + rows, :]) for at, rows in pieces(count, nl.tile_size.pmax)]
        mixed = activations(weight, size, count, x.dtype, element)

        def turned(state: tuple[Tile, nl.Tensor | None], mixed: Operand = mixed) -> Tile | None:
            tile, given = state
            if given is None:
                return None
            turn(mixed, tile[0], given, engine=nisa.scalar_engine)
            seal(mixed, *tile)
            return tile

        def projected(tile: Tile | None, mixed: Operand = mixed, start: int = start) -> None:
            if tile is None:
                return
            at, rows = tile
            result = nl.ndarray((rows, size), x.dtype)
            for column, width in pieces(size, nl.tile_size.gemm_moving_fmax):
                of = slice(column, column + width)
                total = product(mixed, slice(at, at + rows), weight, of)
                nisa.tensor_tensor(result[:, of], total, bias[0:rows, of], nl.add)
            store(out[start + at : start + at + rows, :], result)

        softmax = layer.project(tiles, start, known, constants)
        pipelined(softmax.units(), softmax.maxima, softmax.probabilities, softmax.weighted, turned, projected)
    return out


def tokens_at_once(length: int) -> int:
    """Return the tokens of whole sentences that a moving operand takes at once."""
    return nl.tile_size.gemm_moving_fmax // length * length


def check_attention(kernel: str, tokens: int, size: int, mask: nl.Tensor, heads: int, length: int) -> Shape:
    """Check the sizes of an attention and return them.

    Raises
    ------
    RuleError
        kernel.shape, kernel.heads, kernel.length.
    """
    check_shape(kernel, "mask", mask, (tokens,))
    if heads < 1 or size % heads or size // heads not in (32, 64, 128):
        raise RuleError(
            instruction=kernel,
            operand="heads",
            value=f"is {heads} for {size} features",
            limit="heads of 32, 64 or 128 features, as the array's row tiles",
            fix="pad the heads with zeros",
            rule="kernel.heads",
        )
    check_length(kernel, tokens, length)
    if length > nl.tile_size.gemm_moving_fmax:
        raise RuleError(
            instruction=kernel,
            operand="length",
            value=f"is {length}",
            limit=f"{nl.tile_size.gemm_moving_fmax}: the scores of a token lie in one bank of PSUM",
            fix="split the sentences",
            rule="kernel.length",
        )
    return Shape(length, heads, size // heads)
