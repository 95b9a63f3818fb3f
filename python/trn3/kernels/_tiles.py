"""Parts that several kernels share: pieces of an axis, vectors as tiles, activations transposed.

These functions run inside a kernel and record instructions of it.
"""

from __future__ import annotations

from collections.abc import Iterator

from trn3.errors import RuleError
from trn3.nki import isa as nisa
from trn3.nki import language as nl


def pieces(size: int, piece: int) -> Iterator[tuple[int, int]]:
    """Yield (start, count) of the pieces of an axis; the last one may be smaller."""
    for start in range(0, size, piece):
        yield start, min(piece, size - start)


def check_multiple(kernel: str, operand: str, size: int, multiple: int) -> None:
    """Check that a number of features fills whole tiles.

    Raises
    ------
    RuleError
        kernel.features.
    """
    if size % multiple:
        raise RuleError(
            instruction=kernel,
            operand=operand,
            value=f"has {size} features",
            limit=f"a multiple of {multiple}",
            fix="pad the features with zeros",
            rule="kernel.features",
        )


def check_shape(kernel: str, operand: str, tensor: nl.Tensor, shape: tuple[int, ...]) -> None:
    """Check the shape of a kernel's argument.

    Raises
    ------
    RuleError
        kernel.shape.
    """
    if tuple(tensor.shape) != shape:
        raise RuleError(
            instruction=kernel,
            operand=operand,
            value=f"has shape {tuple(tensor.shape)}",
            limit=f"the other arguments ask for {shape}",
            fix="pass tensors of one model (weights as (in, out))",
            rule="kernel.shape",
        )


def store(dst: nl.Tensor, tile: nl.Tensor) -> None:
    """Write a tile to HBM from ScalarE's queue, so that the loads of the next tile in SyncE's do not wait for it."""
    nisa.dma_copy(dst, tile, engine=nisa.scalar_engine)


def load_rows(vector: nl.Tensor) -> nl.Tensor:
    """Return a vector in HBM as a tile with the whole vector in every partition.

    Parameters
    ----------
    vector : tensor
        (D,) in HBM.

    Returns
    -------
    tensor
        SBUF, (128, D).
    """
    partitions, (size,) = nl.tile_size.pmax, vector.shape
    tile = nl.ndarray((partitions, size), vector.dtype)
    nisa.dma_copy(tile, vector.ap([[0, partitions], [1, size]]))
    return tile


def load_columns(vector: nl.Tensor, partitions: int) -> nl.Tensor:
    """Return a vector in HBM as columns of a tile: element ``j * P + p`` at (p, j).

    The vector comes in rows, which is one long element a partition for the DMA, and TensorE transposes them.

    Parameters
    ----------
    vector : tensor
        (D,) in HBM; D is a multiple of `partitions`.
    partitions : int
        P, at most 128.

    Returns
    -------
    tensor
        SBUF, (P, D / P).
    """
    count = vector.shape[0] // partitions
    rows_of = vector.reshape((count, partitions))
    columns = nl.ndarray((partitions, count), vector.dtype)
    for start, rows in pieces(count, nl.tile_size.pmax):
        tile = nl.load(rows_of[start : start + rows, :])
        turned = nl.ndarray((partitions, rows), vector.dtype, nl.psum)
        nisa.nc_transpose(turned, tile)
        nisa.tensor_copy(columns[:, start : start + rows], turned)
    return columns
