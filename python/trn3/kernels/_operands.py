"""Operands of matrix products in SBUF, their contraction on partitions: plain, or microscaled with four rows a word.

A contraction of K rows is cut into *pieces* of 512 (the last one may be 128, 256 or 384), and a piece into *chunks*
that lie on the same partitions: in a plain operand 128 rows each, row ``c * 128 + p`` of chunk c on partition p; in a
microscaled one a quarter of the piece each, since the word of partition p holds rows ``p``, ``p + K/4``, ``p + K/2``
and ``p + 3K/4``. Results of TensorE that have their features on partitions go to their places chunk by chunk; results
that have their tokens there are transposed first.
"""

from __future__ import annotations

from typing import Any

from trn3 import dtypes, mx
from trn3.nki import isa as nisa
from trn3.nki import language as nl

from ._tiles import check_multiple, check_shape, pieces

PIECE = 512
"""Contraction rows that are in SBUF side by side: one product of microscaled words, four of plain rows."""
WORD = 4
"""Rows of the contraction in a packed word."""
QUADRANT = 32
"""Partitions that a group of scale rows belongs to."""
QUADRANT_SCALES = 4
"""Scale rows of an operand in a quadrant: one for 8 partitions."""
SCALE_SHARERS = 4
"""Operands whose scale rows fit into one tile."""
MULTIPLE = WORD * QUADRANT
"""What a contraction is a multiple of."""

Weight = Any
"""A weight in HBM: a tensor (K, F), or the two tensors of `pack_weight`."""


class Operand:
    """A matrix (K, F) in SBUF.

    Parameters
    ----------
    size : int
        K.
    """

    def __init__(self, size: int) -> None:
        self.pieces = list(pieces(size, PIECE))

    def chunks(self, piece: int) -> list[tuple[int, int]]:
        """Return (first row, rows) of the chunks of a piece."""
        first, rows = self.pieces[piece]
        height = self.height(rows)
        return [(first + start, height) for start in range(0, rows, height)]

    def height(self, rows: int) -> int:
        """Return the partitions that a piece of so many rows takes."""
        raise NotImplementedError

    def window(self, piece: int, columns: slice) -> nl.Tensor:
        """Return the places of some columns of a piece: (P, chunks, F)."""
        raise NotImplementedError

    def seal(self, piece: int, columns: slice) -> None:
        """Finish columns whose places have been written."""

    def span(self, first: int, count: int) -> slice:
        """Return the columns to multiply with for `count` of them."""
        return slice(first, first + count)

    def multiply(self, dst: nl.Tensor, columns: slice, moving: Operand, moving_columns: slice) -> None:
        """Write the product of some columns, transposed, and some columns of `moving` to a tile in PSUM."""
        raise NotImplementedError


class Plain(Operand):
    """An operand of float32 or bfloat16: tiles (128, chunks, F)."""

    def __init__(self, size: int, free: int, dtype: Any) -> None:
        super().__init__(size)
        partitions = nl.tile_size.pmax
        self.tiles = [nl.ndarray((partitions, rows // partitions, free), dtype) for _, rows in self.pieces]

    def height(self, rows: int) -> int:
        return nl.tile_size.pmax

    def window(self, piece: int, columns: slice) -> nl.Tensor:
        return self.tiles[piece][:, :, columns]

    def multiply(self, dst: nl.Tensor, columns: slice, moving: Operand, moving_columns: slice) -> None:
        assert isinstance(moving, Plain), "both operands of a product are of one kind"
        for tile, other in zip(self.tiles, moving.tiles, strict=True):
            for chunk in range(tile.shape[1]):
                nisa.nc_matmul(dst, tile[:, chunk, columns], other[:, chunk, moving_columns])


class Microscaled(Operand):
    """An operand of packed FP8 words (P, F) and their scales (P, F); both have one tile a piece."""

    def __init__(self, size: int, words: list[nl.Tensor], scales: list[nl.Tensor]) -> None:
        super().__init__(size)
        self.words, self.scales = words, scales

    def height(self, rows: int) -> int:
        return rows // WORD

    def multiply(self, dst: nl.Tensor, columns: slice, moving: Operand, moving_columns: slice) -> None:
        assert isinstance(moving, Microscaled), "both operands of a product are of one kind"
        for words, scales, other, other_scales in zip(
            self.words, self.scales, moving.words, moving.scales, strict=True
        ):
            nisa.nc_matmul_mx(
                dst,
                words[:, columns],
                other[:, moving_columns],
                scales[:, columns],
                other_scales[:, moving_columns],
            )


class Quantized(Microscaled):
    """A microscaled operand that is quantised on the device.

    Its values come interleaved, the four rows of a word next to each other, which is what `quantize_mx` reads. An odd
    last column gets a neighbour of zeros, since the stationary free size must be even.
    """

    def __init__(self, size: int, free: int, dtype: Any, element: str) -> None:
        super().__init__(size, [], [])
        free += free % 2
        word = dtypes.dtype(f"{element}_x4")
        heights = [self.height(rows) for _, rows in self.pieces]
        self.values = [nl.ndarray((height, free, WORD), dtype) for height in heights]
        self.words = [nl.ndarray((height, free), word) for height in heights]
        self.scales = [nl.ndarray((height, free), nl.uint8) for height in heights]

    def window(self, piece: int, columns: slice) -> nl.Tensor:
        return self.values[piece][:, columns, :].permute((0, 2, 1))

    def span(self, first: int, count: int) -> slice:
        return slice(first, first + count + count % 2)

    def seal(self, piece: int, columns: slice) -> None:
        if (columns.stop - columns.start) % 2:
            nisa.memset(self.values[piece][:, columns.stop : columns.stop + 1, :], 0.0)
            columns = slice(columns.start, columns.stop + 1)
        values = self.values[piece][:, columns, :]
        height, free, _ = values.shape
        source = values.reshape((height, free * WORD))
        nisa.quantize_mx(self.words[piece][:, columns], source, self.scales[piece][:, columns])


def activations(like: Operand, size: int, free: int, dtype: Any, element: str) -> Operand:
    """Return a new operand (K, F) for activations, of the kind that multiplies with `like`."""
    return Quantized(size, free, dtype, element) if isinstance(like, Microscaled) else Plain(size, free, dtype)


def turn(operand: Operand, first: int, rows: nl.Tensor, engine: Any = nisa.vector_engine) -> None:
    """Put tokens (P, K), whose features are the contraction, into columns from `first` on; TensorE transposes them.

    `engine` takes them out of PSUM. `seal` them before they are multiplied with.
    """
    count = rows.shape[0]
    columns = slice(first, first + count)
    # NeuronCore-v2 transposes by multiplication, whose results are always FP32.
    moved = nl.float32 if nisa.get_nc_version() == nisa.nc_version.gen2 else rows.dtype
    for piece in range(len(operand.pieces)):
        chunks = operand.chunks(piece)
        block = nl.ndarray((chunks[0][1], len(chunks), count), moved, nl.psum)
        for at, (start, height) in enumerate(chunks):
            nisa.nc_transpose(block[:, at, :], rows[:, start : start + height])
        nisa.tensor_copy(operand.window(piece, columns), block, engine=engine)


def seal(operand: Operand, first: int, count: int) -> None:
    """Finish columns that `turn` has filled."""
    for piece in range(len(operand.pieces)):
        operand.seal(piece, slice(first, first + count))


def product(stationary: Operand, columns: slice, moving: Operand, moving_columns: slice) -> nl.Tensor:
    """Return the product of some columns, transposed, and some columns of `moving` as a new tile in PSUM, float32."""
    shape = (columns.stop - columns.start, moving_columns.stop - moving_columns.start)
    dst = nl.ndarray(shape, nl.float32, nl.psum)
    stationary.multiply(dst, columns, moving, moving_columns)
    return dst


def check_weight(kernel: str, operand: str, weight: Weight, size: int, features: int) -> None:
    """Check the shape of a weight (`size`, `features`), plain or packed.

    Raises
    ------
    RuleError
        kernel.features, kernel.shape.
    """
    check_multiple(kernel, operand, size, MULTIPLE)
    if isinstance(weight, tuple):
        words, scales = weight
        check_shape(kernel, operand, words, (size // WORD, features))
        check_shape(kernel, operand, scales, _scales_shape(size, features))
    else:
        check_shape(kernel, operand, weight, (size, features))


def features_of(weight: Weight) -> int:
    """Return F of a weight."""
    features: int = (weight[0] if isinstance(weight, tuple) else weight).shape[1]
    return features


def load_weight(weight: Weight) -> Operand:
    """Return a weight as an operand in SBUF."""
    if isinstance(weight, tuple):
        return _load_packed(*weight)
    size, features = weight.shape
    operand = Plain(size, features, weight.dtype)
    for (start, rows), tile in zip(operand.pieces, operand.tiles, strict=True):
        partitions, chunks, _ = tile.shape
        source = weight[start : start + rows, :].reshape((chunks, partitions, features))
        nisa.dma_copy(tile, source.permute((1, 0, 2)))
    return operand


def _scales_shape(size: int, features: int) -> tuple[int, int]:
    return size // mx.GROUP, features


def scale_runs(size: int) -> list[tuple[int, int, list[int]]]:
    """Return how the scale rows of a packed contraction lie in HBM: (group, quadrant, pieces), in their order.

    The scales of four pieces, a group, share the rows of one tile: those of its piece i stand at row 4 i of each
    quadrant. So the rows of a quadrant are one run.
    """
    quadrants = [rows // MULTIPLE for _, rows in pieces(size, PIECE)]
    runs = []
    for group in range(0, len(quadrants), SCALE_SHARERS):
        members = range(group, min(group + SCALE_SHARERS, len(quadrants)))
        for quadrant in range(quadrants[group]):
            runs.append((group // SCALE_SHARERS, quadrant, [i for i in members if quadrant < quadrants[i]]))
    return runs


def _load_packed(words: nl.Tensor, scales: nl.Tensor) -> Microscaled:
    """Return packed words and scales as an operand."""
    features = words.shape[1]
    size = words.shape[0] * WORD
    heights = [rows // WORD for _, rows in pieces(size, PIECE)]
    shared = [nl.ndarray((height, features), scales.dtype) for height in heights[::SCALE_SHARERS]]
    row = 0
    for group, quadrant, members in scale_runs(size):
        place, count = quadrant * QUADRANT, len(members) * QUADRANT_SCALES
        nisa.dma_copy(shared[group][place : place + count, :], scales[row : row + count, :])
        row += count
    tiles = [nl.load(words[start // WORD : (start + rows) // WORD, :]) for start, rows in pieces(size, PIECE)]
    own = [
        shared[piece // SCALE_SHARERS][piece % SCALE_SHARERS * QUADRANT_SCALES :, :] for piece in range(len(heights))
    ]
    return Microscaled(size, tiles, own)
