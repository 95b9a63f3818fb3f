"""Embedding of tokens: rows gathered from tables in HBM, added and normalised."""

from __future__ import annotations

from trn3.nki import isa as nisa
from trn3.nki import jit
from trn3.nki import language as nl

from ._tiles import check_shape, load_rows, pieces, store
from .norm import normalized


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
    gamma_rows, beta_rows = load_rows(gamma), load_rows(beta)
    for start, count in pieces(tokens, nl.tile_size.pmax):
        rows = slice(start, start + count)
        words = _gathered(word_table, ids[rows, :])
        places = _gathered(position_table, positions[rows, :])
        kinds = _gathered(type_table, types[rows, :])
        total = nl.ndarray((count, size), nl.float32)
        nisa.tensor_tensor(total, words, places, nl.add)
        nisa.tensor_tensor(total, total, kinds, nl.add)
        store(out[rows, :], normalized(total, gamma_rows, beta_rows, eps, word_table.dtype))
    return out


def _gathered(table: nl.Tensor, rows: nl.Tensor) -> nl.Tensor:
    """Return the rows of a table, (P, D), that a piece of an index vector (P, 1) in HBM names."""
    count, size = rows.shape[0], table.shape[1]
    tile = nl.ndarray((count, size), table.dtype)
    nisa.dma_copy(tile, table.ap([[size, count], [1, size]], vector_offset=nl.load(rows)))
    return tile
