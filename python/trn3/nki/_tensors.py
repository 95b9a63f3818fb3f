"""Tensors of the kernel language: their memories, making them, moving them, looking at them another way."""

from __future__ import annotations

import builtins
from collections.abc import Sequence
from typing import Any

import numpy as np

from trn3 import _native, dtypes
from trn3.dtypes import float32, uint8

from . import _session, isa
from ._enums import MemoryRegion

NkiTensor = _native.NkiTensor

sbuf = MemoryRegion.sbuf
psum = MemoryRegion.psum
private_hbm = MemoryRegion.private_hbm
hbm = MemoryRegion.private_hbm
shared_hbm = MemoryRegion.shared_hbm

Tensor = Any
"""A tensor of the kernel."""


def is_sbuf(buffer: MemoryRegion) -> bool:
    """Return whether a buffer is SBUF."""
    return buffer is sbuf


def is_psum(buffer: MemoryRegion) -> bool:
    """Return whether a buffer is PSUM."""
    return buffer is psum


def is_on_chip(buffer: MemoryRegion) -> bool:
    """Return whether a buffer has partitions."""
    return buffer is sbuf or buffer is psum


def is_hbm(buffer: MemoryRegion) -> bool:
    """Return whether a buffer is device memory."""
    return not is_on_chip(buffer)


class _TileSize:
    """Sizes of the hardware that the kernel is recorded for, read from its table."""

    def __getattr__(self, name: str) -> int:
        sizes = _session.tile_sizes()
        if name in sizes:
            return sizes[name]
        raise AttributeError(f"nl.tile_size has no {name}; it has {', '.join(sorted(sizes))}")


tile_size = _TileSize()


def ndarray(
    shape: Sequence[int],
    dtype: Any,
    buffer: MemoryRegion = sbuf,
    name: str = "",
    address: tuple[int, int] | None = None,
) -> Tensor:
    """Declare a tensor; its values are undefined until something writes them.

    Parameters
    ----------
    shape : sequence of int
        ``(P, F...)`` on chip, with at most 128 partitions; any shape in HBM.
    dtype : dtype
        A data type of ``nl``.
    buffer : MemoryRegion
        ``nl.sbuf``, ``nl.psum``, ``nl.private_hbm`` (``nl.hbm``) or ``nl.shared_hbm``.
    name : str
        Unique within the kernel; made up when empty.
    address : tuple of int, optional
        ``(partition, byte)`` at which the tensor starts, on chip. Tensors whose addresses overlap share their bytes:
        what one writes, the other reads. Without it the recorder finds a place.

    Raises
    ------
    RuleError
        tensor.shape, tensor.name_unique, tensor.address, tensor.address_bank, partition.count_max.
    CapacityError
        capacity.sbuf, capacity.psum, capacity.hbm, tensor.address_range.
    """
    return _session.current("ndarray").recorder.tensor(shape, dtype, buffer, name, address)


def full(shape: Sequence[int], fill_value: Any, dtype: Any, buffer: MemoryRegion = sbuf, name: str = "") -> Tensor:
    """Return a new tensor filled with a constant."""
    tensor = ndarray(shape, dtype, buffer, name)
    if is_on_chip(buffer):
        isa.memset(tensor, _of_kind(fill_value, dtype))
        return tensor
    flat = tensor.reshape((tensor.size,))
    source = ndarray((1, builtins.min(tensor.size, 2048)), dtype)
    isa.memset(source, _of_kind(fill_value, dtype))
    for start in range(0, tensor.size, 2048):
        count = builtins.min(2048, tensor.size - start)
        isa.dma_copy(flat[start : start + count], source[:, 0:count])
    return tensor


def _of_kind(value: Any, dtype: Any) -> Any:
    return int(value) if dtypes.dtype(dtype).kind in "iub" else float(value)


def zeros(shape: Sequence[int], dtype: Any, buffer: MemoryRegion = sbuf, name: str = "") -> Tensor:
    """Return a new tensor of zeros."""
    return full(shape, 0, dtype, buffer, name)


def ones(shape: Sequence[int], dtype: Any, buffer: MemoryRegion = sbuf, name: str = "") -> Tensor:
    """Return a new tensor of ones."""
    return full(shape, 1, dtype, buffer, name)


def zeros_like(x: Tensor, dtype: Any = None, buffer: MemoryRegion | None = None, name: str = "") -> Tensor:
    """Return a new tensor of zeros of the shape of ``x``."""
    return zeros(x.shape, dtype or x.dtype, buffer or x.buffer, name)


def empty_like(x: Tensor, dtype: Any = None, buffer: MemoryRegion | None = None, name: str = "") -> Tensor:
    """Return a new tensor of the shape of ``x``."""
    return ndarray(x.shape, dtype or x.dtype, buffer or x.buffer, name)


def shared_constant(constant: Any, dtype: Any = None) -> Tensor:
    """Return an HBM tensor that holds a NumPy array, or that of a .npy file; the Program carries its values."""
    if isinstance(constant, str):
        constant = np.load(constant, allow_pickle=False)
    array = np.ascontiguousarray(constant if dtype is None else np.asarray(constant).astype(dtypes.dtype(dtype)))
    return _session.current("shared_constant").recorder.constant("", dtypes.dtype(array.dtype), array)


def shared_identity_matrix(n: int, dtype: Any = uint8, dst: Tensor | None = None) -> Tensor:
    """Return an ``(n, n)`` identity matrix in SBUF: ``dst``, or a new tile."""
    source = shared_constant(np.eye(n, dtype=np.float32).astype(dtypes.dtype(dtype if dst is None else dst.dtype)))
    tile = ndarray((n, n), dtype) if dst is None else dst
    isa.dma_copy(tile, source)
    return tile


def ds(start: int, size: int) -> slice:
    """Return the index of ``size`` positions from ``start``."""
    return slice(start, start + size)


def load(src: Tensor, dtype: Any = None) -> Tensor:
    """Return a new SBUF tile with the values of an HBM tensor, ``(P, F...)`` with P at most 128."""
    tile = ndarray(src.shape if src.ndim > 1 else (1, *src.shape), dtype or src.dtype)
    isa.dma_copy(tile, src)
    return tile


def store(dst: Tensor, value: Tensor) -> None:
    """Write a tile to an HBM tensor of as many elements."""
    if value.buffer is psum:
        value = copy(value)
    isa.dma_copy(dst, value)


def copy(x: Tensor, dtype: Any = None) -> Tensor:
    """Return a new SBUF tile with the values of ``x``, bit exact if the data type stays."""
    tile = ndarray(x.shape, dtype or x.dtype)
    isa.tensor_copy(tile, x)
    return tile


def transpose(x: Tensor, dtype: Any = None) -> Tensor:
    """Return a new tile ``(F, P)``: ``x`` with partitions and free elements swapped; in PSUM from TensorE.

    Where TensorE transposes by multiplication (trn1, inf2), narrower types come back through a float32 tile in PSUM.
    """
    rows, columns = x.shape[0], x.size // x.shape[0]
    small = rows <= 32 and columns <= 32
    moves_bits = small or _session.has_capability("transpose_mode")
    tile = ndarray((columns, rows), x.dtype if moves_bits else float32, sbuf if small else psum)
    isa.nc_transpose(tile, x)
    wanted = x.dtype if dtype is None else dtypes.dtype(dtype)
    return tile if wanted == tile.dtype else copy(tile, wanted)


def matmul(x: Tensor, y: Tensor, transpose_x: bool = False) -> Tensor:
    """Return ``x.T @ y`` (with ``transpose_x=True``) or ``x @ y`` as a new float32 tile in PSUM."""
    if not transpose_x:
        x = copy(transpose(x))
    tile = ndarray((x.size // x.shape[0], y.size // y.shape[0]), float32, psum)
    isa.nc_matmul(tile, x, y)
    return tile


def expand_dims(x: Tensor, axis: int) -> Tensor:
    """Return a view of ``x`` with a new dimension of size 1 at ``axis``."""
    return x.expand_dim(axis)


def broadcast_to(x: Tensor, shape: Sequence[int], dtype: Any = None) -> Tensor:
    """Return ``x`` with its dimensions of size 1 repeated to ``shape``.

    Along free dimensions that is a view. Over partitions, values are copied: a product with ones on TensorE for floats
    (exact), transfers for integers.

    Raises
    ------
    RuleError
        tensor.view: another rank, or a dimension that is neither 1 nor that of ``shape``.
    """
    sizes = tuple(shape)
    if x.shape[0] == 1 and x.ndim == len(sizes) and sizes[0] > 1:
        x = _on_partitions(x, sizes[0])
    view = x if x.shape == sizes else x.broadcast_to(sizes)
    return view if dtype is None or dtypes.dtype(dtype) == x.dtype else copy(view, dtype)


def _on_partitions(x: Tensor, partitions: int) -> Tensor:
    """Return a new SBUF tile with the one row of ``x`` in every partition."""
    tile = ndarray((partitions, *x.shape[1:]), x.dtype)
    if x.buffer is psum:
        x = copy(x)
    if x.dtype.kind in "iub":
        for partition in range(partitions):
            isa.dma_copy(tile[partition : partition + 1], x)
        return tile
    narrow = x.dtype in (dtypes.bfloat16, dtypes.float16, dtypes.float32)
    row = (x if narrow else copy(x, float32)).reshape((1, x.size))
    ones_row = ones((1, partitions), row.dtype)
    flat = tile.reshape((partitions, x.size))
    for start in range(0, x.size, tile_size.psum_fmax):
        stop = builtins.min(start + tile_size.psum_fmax, x.size)
        bank = ndarray((partitions, stop - start), float32, psum)
        isa.nc_matmul(bank, ones_row, row[:, start:stop])
        isa.tensor_copy(flat[:, start:stop], bank)
    return tile


def device_print(print_prefix: str, tensor: Tensor) -> None:
    """Print a tensor's values; the kernel runs up to here, and its recording holds for its inputs only."""
    print(print_prefix, np.asarray(tensor))
