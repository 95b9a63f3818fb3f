"""Parts that several kernels share: pieces of an axis, vectors as tiles, activations transposed.

These functions run inside a kernel and record instructions of it.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from typing import Any

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


def check_length(kernel: str, tokens: int, length: int) -> None:
    """Check that sentences of `length` tokens fill tiles of 128 tokens in whole quadrants.

    Raises
    ------
    RuleError
        kernel.length.
    """
    partitions = nl.tile_size.pmax
    fits = length in (partitions // 4, partitions // 2) or (length > 0 and length % partitions == 0)
    if not fits or tokens % length:
        raise RuleError(
            instruction=kernel,
            operand="length",
            value=f"is {length} for {tokens} tokens",
            limit=f"{partitions // 4}, {partitions // 2} or a multiple of {partitions}, in which the tokens come",
            fix="pad each sentence, and mask the padding",
            rule="kernel.length",
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
    """Return a vector in HBM as columns of a tile: element ``j * P + p`` at (p, j); the last column may be shorter.

    The DMA brings one element at a time, 8 ns each on 16 engines: less than a transpose costs after a long transfer.

    Parameters
    ----------
    vector : tensor
        (D,) in HBM.
    partitions : int
        P, at most 128.

    Returns
    -------
    tensor
        SBUF, (P, D / P rounded up).
    """
    size = vector.shape[0]
    whole, rest = divmod(size, partitions)
    columns = nl.ndarray((partitions, whole + (rest > 0)), vector.dtype)
    if whole:
        nisa.dma_copy(columns[:, 0:whole], vector.ap([[1, partitions], [partitions, whole]]))
    if rest:
        nisa.memset(columns[:, whole : whole + 1], 0)
        nisa.dma_copy(columns[0:rest, whole : whole + 1], vector[size - rest :].reshape((rest, 1)))
    return columns


def pipelined(items: Iterable[Any], *stages: Callable[[Any], Any]) -> list[Any]:
    """Pass items through stages, each stage one item behind the stage before it, and return what the last one gave.

    An engine takes its instructions in the order of recording. Skewed like this, it finds work of other items between
    two stages of an item, in place of the wait for what another engine does in between.
    """
    values = list(items)
    for step in range(len(values) + len(stages) - 1):
        for behind, stage in enumerate(stages):
            if 0 <= step - behind < len(values):
                values[step - behind] = stage(values[step - behind])
    return values


def held(value: Any) -> Any:
    """Give what it gets: a stage that leaves another step between its neighbours."""
    return value
