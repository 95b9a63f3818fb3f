"""What plain Python code does with tiles and the device does not: assignment, and reshaping across partitions.

AWS's simulator takes these forms; each is done by an instruction that can do it, and is a finding.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from trn3 import _native

from . import isa


def assign(target: Any, value: Any) -> None:
    """Write ``value`` into a view: a constant, or a tile of the same shape."""
    target._recorder.deviation(
        "tensor",
        "tensor.assignment",
        target.name,
        "is assigned to with [...] = value",
        "the kernel language has instructions for that",
        "use nisa.tensor_copy, nisa.memset or nisa.dma_copy",
    )
    if not isinstance(value, _native.NkiTensor):
        isa.memset(target, value)
    elif target.buffer.value in ("sbuf", "psum") and value.buffer.value in ("sbuf", "psum"):
        isa.tensor_copy(target, value)
    else:
        isa.dma_copy(target, value)


def reshape(tile: Any, shape: Sequence[int]) -> Any:
    """Return a new SBUF tile of another number of partitions with the elements of ``tile`` in their order."""
    tile._recorder.deviation(
        "tensor",
        "tensor.reshape_partitions",
        tile.name,
        f"of shape {tile.shape} is reshaped to {tuple(shape)}",
        "partitions stay what they are; a copy was made by DMA",
        "move data across partitions with nisa.dma_copy or nisa.nc_transpose",
    )
    from . import language

    made = language.ndarray(shape, tile.dtype)
    isa.dma_copy(made, tile)
    return made
