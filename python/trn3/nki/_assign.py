"""``view[...] = value`` inside a kernel."""

from __future__ import annotations

from typing import Any

from trn3 import _native

from . import isa


def assign(target: Any, value: Any) -> None:
    """Write ``value`` into a view: a constant, or a tile of the same shape."""
    if not isinstance(value, _native.NkiTensor):
        isa.memset(target, value)
    elif target.buffer.value in ("sbuf", "psum") and value.buffer.value in ("sbuf", "psum"):
        isa.tensor_copy(target, value)
    else:
        isa.dma_copy(target, value)
