"""Softmax over the keys of padded sentences, and the values weighted by it; part of `attention`.

Both passes over the scores stay in PSUM:

1. ``scores[q, k]``, queries on partitions, only for their maximum, which VectorE takes;
2. ``scores[k, q] - max[q]``, keys on partitions: TensorE adds the negative maxima, repeated along the free dimension,
   by a product with the identity. ScalarE takes the exponential, with the mask as its bias.

So the probabilities are the stationary operand of the product with the values as they stand, and need no transpose. A
column of ones beside the values gives their sum; the result is divided by it.

A head of 32 features takes 32 rows of the array, a sentence of 32 tokens 32 columns: products of four heads and of four
sentences run side by side on tiles of the array.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Any

from trn3.nki import isa as nisa
from trn3.nki import language as nl

from ._tiles import load_columns, load_rows, pieces

_MASKED = -8192.0
"""What is added to the score of a key that is padding: its exponential is 0, and bfloat16 holds the number."""

Tile = tuple[int, int]
"""First token and number of tokens."""
Unit = tuple[Tile, int]
"""A tile of queries and the first of some heads."""


@dataclass(frozen=True)
class Shape:
    """Sizes of an attention: sentences of `length` tokens, `heads` heads of `head` features."""

    length: int
    heads: int
    head: int

    @property
    def size(self) -> int:
        """Features of a token."""
        return self.heads * self.head

    @property
    def block(self) -> int:
        """Tokens of a sentence that are in one tile of 128 tokens."""
        return min(self.length, nl.tile_size.pmax)

    @property
    def key_tiles(self) -> int:
        """Tiles of 128 keys that a query has."""
        return -(-self.length // nl.tile_size.pmax)

    @property
    def unit(self) -> int:
        """Heads whose scores fit into a bank of PSUM."""
        fit = max(1, nl.tile_size.psum_bank_fmax // self.length)
        return max(heads for heads in range(1, self.heads + 1) if self.heads % heads == 0 and heads <= fit)


class Mask:
    """Which tokens are there, in the forms that both passes need.

    Parameters
    ----------
    mask : tensor
        (T,) in HBM, float32: 1 for a token, 0 for padding.
    dtype : dtype
        Data type of the scores' operands.

    Attributes
    ----------
    rows : tensor
        SBUF, (128, T), the same in every partition: 0 for a token, a large negative number for padding.
    columns : tensor
        SBUF, (128, T / 128), float32: the same for token ``j * 128 + p`` at (p, j).
    """

    def __init__(self, mask: nl.Tensor, dtype: Any) -> None:
        rows = load_rows(mask)
        self.rows = nl.ndarray(rows.shape, dtype)
        self.columns = load_columns(mask, nl.tile_size.pmax)
        for dst, src in ((self.rows, rows), (self.columns, self.columns)):
            nisa.tensor_scalar(dst, src, nl.subtract, 1.0, op1=nl.multiply, operand1=-_MASKED)


class Constants:
    """Tiles of constants: the identity, and ones."""

    def __init__(self, dtype: Any) -> None:
        self.identity = nl.shared_identity_matrix(nl.tile_size.pmax, dtype)
        self.ones = nl.ndarray((nl.tile_size.pmax, nl.tile_size.pmax), dtype)
        nisa.memset(self.ones, 1.0)


@dataclass(frozen=True)
class _Place:
    """Where the features of a head are: a chunk of 128 of them, and rows of the array."""

    chunk: int
    row: int
    size: int

    @property
    def features(self) -> slice:
        """Partitions of the head's features."""
        return slice(self.row, self.row + self.size)

    def multiply(self, dst: nl.Tensor, stationary: nl.Tensor, moving: nl.Tensor, rows: slice) -> None:
        """Multiply on the head's rows of the array, with the results on partitions `rows`."""
        position, size = (self.row, rows.start), (self.size, rows.stop - rows.start)
        nisa.nc_matmul(dst, stationary, moving, tile_position=position, tile_size=size)


def _multiply_on(
    rows: slice, dst: nl.Tensor, stationary: nl.Tensor, moving: nl.Tensor, is_identity: bool = False
) -> None:
    """Multiply with operands and results on the same partitions; `moving` may be the identity."""
    position, size = (rows.start, rows.start), (rows.stop - rows.start,) * 2
    nisa.nc_matmul(dst, stationary, moving, is_moving_onezero=is_identity, tile_position=position, tile_size=size)


class Softmax:
    """The attention of some whole sentences, in stages for `pipelined`, a unit at a time.

    Parameters
    ----------
    shape : Shape
        Sizes.
    queries, keys : tensor
        SBUF, (128, D / 128, T): scaled queries, and keys, features on partitions.
    values : callable
        Gives the values of a tile of tokens, each head's with a 1 behind: SBUF, (P, heads, head + 1).
    first : int
        Number of the first token among those of `mask`.
    mask : Mask
        Of all tokens.
    constants : Constants
        Of the data type of the queries.
    """

    def __init__(
        self,
        shape: Shape,
        queries: nl.Tensor,
        keys: nl.Tensor,
        values: Callable[[Tile], nl.Tensor],
        first: int,
        mask: Mask,
        constants: Constants,
    ) -> None:
        self.shape, self.constants = shape, constants
        self.queries, self.keys = queries, keys
        self.first, self.mask = first, mask
        self.tiles = list(pieces(queries.shape[2], nl.tile_size.pmax))
        self._make_values = values
        self._values: dict[int, nl.Tensor] = {}
        self._total: nl.Tensor = None

    def units(self) -> list[Unit]:
        """Return the units, tile after tile."""
        return [(tile, head) for tile in self.tiles for head in range(0, self.shape.heads, self.shape.unit)]

    def maxima(self, unit: Unit) -> tuple[Unit, nl.Tensor]:
        """Return the unit and the negative maxima of the scores of its heads: (P, heads)."""
        shape, ((start, count), _) = self.shape, unit
        for key_tile in range(shape.key_tiles):
            self._prepare_values(self._key(start, key_tile))
        scores = nl.ndarray((count, shape.unit, shape.length), nl.float32, nl.psum)
        # Products of one kind follow each other, so that neighbours are on different tiles of the array.
        for at, place, rows in self._places(unit):
            one = slice(place.row, place.row + 1)
            sentence = self._sentence(start + rows.start)
            masked = self.mask.rows[one, self.first + sentence.start : self.first + sentence.stop]
            place.multiply(scores[rows, at, :], self.constants.ones[one, 0 : shape.block], masked, rows)
        for at, place, rows in self._places(unit):
            query = self.queries[place.features, place.chunk, start + rows.start : start + rows.stop]
            key = self.keys[place.features, place.chunk, self._sentence(start + rows.start)]
            place.multiply(scores[rows, at, :], query, key, rows)
        negative = nl.ndarray((count, shape.unit), self.queries.dtype)
        nisa.tensor_reduce(negative, nl.maximum, scores, axis=2, negate=True)
        return unit, negative

    def probabilities(self, state: tuple[Unit, nl.Tensor]) -> tuple[Unit, list[nl.Tensor]]:
        """Return the unit and ``exp(score - max)`` of its heads: (keys, heads, queries) for each tile of keys."""
        unit, negative = state
        (start, count), _ = unit
        weights = []
        for key_tile in range(self.shape.key_tiles):
            scores = self._shifted(unit, key_tile, negative)
            column = (self.first + self._key(start, key_tile)) // nl.tile_size.pmax
            result = nl.ndarray(scores.shape, self.queries.dtype)
            nisa.activation(result, nl.exp, scores, bias=self.mask.columns[0:count, column : column + 1])
            weights.append(result)
        return unit, weights

    def weighted(self, state: tuple[Unit, list[nl.Tensor]]) -> tuple[Tile, nl.Tensor | None]:
        """Return the tile and, when its last heads are done, the result of all: (P, D)."""
        unit, weights = state
        shape, (tile, head) = self.shape, unit
        start, count = tile
        if head == 0:
            self._total = nl.ndarray((count, shape.heads, shape.head + 1), nl.float32, nl.psum)
        for at, _, rows in self._places(unit):
            for key_tile, result in enumerate(weights):
                values = self._values[self._key(start, key_tile)]
                _multiply_on(rows, self._total[rows, head + at, :], result[rows, at, :], values[rows, head + at, :])
        return tile, self._normalized() if head + shape.unit == shape.heads else None

    def _prepare_values(self, start: int) -> None:
        if start not in self._values:
            self._values[start] = self._make_values(self.tiles[start // nl.tile_size.pmax])

    def _places(self, unit: Unit) -> Iterator[tuple[int, _Place, slice]]:
        """Yield, for each head of a unit and each sentence in its tile: number, place, rows of the tile."""
        (_, count), head = unit
        for at in range(self.shape.unit):
            chunk, row = divmod((head + at) * self.shape.head, nl.tile_size.pmax)
            place = _Place(chunk, row, self.shape.head)
            for start in range(0, count, self.shape.block):
                yield at, place, slice(start, start + self.shape.block)

    def _sentence(self, token: int) -> slice:
        """Return the tokens of the sentence that a token is in."""
        start = token // self.shape.length * self.shape.length
        return slice(start, start + self.shape.length)

    def _key(self, start: int, key_tile: int) -> int:
        """Return the first token of a tile of keys of the tile of queries that begins at `start`."""
        if self.shape.key_tiles == 1:
            return start
        return start // self.shape.length * self.shape.length + key_tile * nl.tile_size.pmax

    def _shifted(self, unit: Unit, key_tile: int, negative: nl.Tensor) -> nl.Tensor:
        """Return the scores less their maxima, keys on partitions: PSUM, (keys, heads, queries)."""
        shape, ((start, count), _) = self.shape, unit
        key = self._key(start, key_tile)
        scores = nl.ndarray((count, shape.unit, shape.block), nl.float32, nl.psum)
        for at, _, rows in self._places(unit):
            repeated = negative[rows, at : at + 1].broadcast(1, shape.block)
            identity = self.constants.identity[rows, rows]
            _multiply_on(rows, scores[rows, at, :], repeated, identity, is_identity=True)
        for at, place, rows in self._places(unit):
            keys = self.keys[place.features, place.chunk, key + rows.start : key + rows.stop]
            query = self.queries[place.features, place.chunk, start + rows.start : start + rows.stop]
            place.multiply(scores[rows, at, :], keys, query, rows)
        return scores

    def _normalized(self) -> nl.Tensor:
        """Return the weighted values over the sums behind them: (P, D)."""
        count, heads, width = self._total.shape
        inverse = nl.ndarray((count, heads, 1), nl.float32)
        nisa.reciprocal(inverse, self._total[:, :, width - 1 : width])
        out = nl.ndarray((count, heads, width - 1), self.queries.dtype)
        nisa.tensor_tensor(out, self._total[:, :, 0 : width - 1], inverse.broadcast(2, width - 1), nl.multiply)
        return out.reshape((count, heads * (width - 1)))
