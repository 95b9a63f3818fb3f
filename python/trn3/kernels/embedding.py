"""Embedding of tokens: rows gathered from tables in HBM, added and normalised."""

from __future__ import annotations

from typing import Any

from trn3.nki import isa as nisa
from trn3.nki import jit
from trn3.nki import language as nl

from ._tiles import check_shape, pieces, pipelined, store
from .norm import LayerNorm


@jit
def embedding(
    ids: nl.Tensor,
    positions: nl.Tensor,
    types: nl.Tensor,
    word_table: nl.Tensor,
    position_table: nl.Tensor,
    type_table: nl.Tensor,
    gamma: nl.Tensor,
    beta: nl.Tensor,
    eps: float,
) -> nl.Tensor:
    """Embed tokens as BERT does: word row + position row + type row, then layer norm.

    Parameters
    ----------
    ids, positions, types : tensor
        (T, 1) in HBM, int32: row of each token in the table of the same name.
    word_table, position_table, type_table : tensor
        (V, D) in HBM, of one data type.
    gamma, beta : tensor
        (D,) in HBM.
    eps : float
        Added to the variance.

    Returns
    -------
    tensor
        (T, D) in HBM, of the tables' data type.

    Raises
    ------
    RuleError
        kernel.shape; when run, dma.index_bounds for a row that a table does not have.

    Notes
    -----
    Tokens on partitions, 128 a tile; each tile gathers its rows with one indirect DMA a table. float32 inside.
    """
    (tokens, _), (_, size) = ids.shape, word_table.shape
    check_shape("embedding", "positions", positions, (tokens, 1))
    check_shape("embedding", "types", types, (tokens, 1))
    check_shape("embedding", "position_table", position_table, (position_table.shape[0], size))
    check_shape("embedding", "type_table", type_table, (type_table.shape[0], size))
    out = nl.ndarray((tokens, size), word_table.dtype, nl.shared_hbm)
    norm = LayerNorm(gamma, beta, eps, word_table.dtype)

    def summed(tile: tuple[int, int]) -> Any:
        start, count = tile
        rows = slice(start, start + count)
        words = gathered(word_table, nl.load(ids[rows, :]))
        places = gathered(position_table, nl.load(positions[rows, :]))
        kinds = gathered(type_table, nl.load(types[rows, :]))
        total = nl.ndarray((count, size), nl.float32)
        nisa.tensor_tensor(total, words, places, nl.add)
        nisa.tensor_tensor(total, total, kinds, nl.add)
        return rows, norm.statistics(total)

    def scaled(state: Any) -> Any:
        rows, statistics = state
        return rows, norm.scale(statistics)

    def stored(state: Any) -> None:
        rows, statistics = state
        store(out[rows, :], norm.apply(statistics))

    pipelined(pieces(tokens, nl.tile_size.pmax), summed, scaled, stored)
    return out


def gathered(table: nl.Tensor, rows: nl.Tensor) -> nl.Tensor:
    """Return the rows of a table, (P, D), that an index vector (P, 1) in SBUF names."""
    count, size = rows.shape[0], table.shape[1]
    tile = nl.ndarray((count, size), table.dtype)
    nisa.dma_copy(tile, table.ap([[size, count], [1, size]], vector_offset=rows))
    return tile
