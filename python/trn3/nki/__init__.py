"""The kernel language (``nki``) on an emulated NeuronCore.

Kernels written for the hardware import ``nki``; call `activate` first and they find this package under that name.
"""

from __future__ import annotations

import importlib.util
import sys

from trn3 import _native, dtypes
from trn3.errors import Trn3Error

from ._enums import ArgumentRegion as _ArgumentRegion
from ._enums import MemoryRegion as _MemoryRegion

_native.set_objects(
    [getattr(dtypes, "bool_" if name == "bool" else name) for name in _native.dtype_names()],
    [*(_MemoryRegion(name) for name in _native.buffer_names()), _ArgumentRegion()],
)

from . import isa, language, typing  # noqa: E402  (the objects above must be registered first)
from ._kernel import Kernel, RunOptions, Simulation, jit, record, simulate  # noqa: E402

__all__ = [
    "Kernel",
    "RunOptions",
    "Simulation",
    "activate",
    "isa",
    "jit",
    "language",
    "record",
    "simulate",
    "typing",
]

_NAMES = {"nki": "", "nki.isa": "isa", "nki.language": "language", "nki.typing": "typing"}


def activate(force: bool = False) -> None:
    """Make this package importable as ``nki``.

    Parameters
    ----------
    force : bool
        Also where a real ``nki`` is installed; by default that one is not shadowed.

    Raises
    ------
    Trn3Error
        A real ``nki`` is installed, or was imported already.
    """
    here = sys.modules[__name__]
    loaded = sys.modules.get("nki")
    if loaded is here:
        return
    # A folder without code that happens to be named nki is no package.
    found = importlib.util.find_spec("nki") if loaded is None else None
    if not force and (loaded is not None or (found is not None and found.origin is not None)):
        raise Trn3Error(
            "activate: a package named nki is installed and would be shadowed; call activate(force=True) to run "
            "kernels on the emulator all the same [nki.shadowed]"
        )
    for name, attribute in _NAMES.items():
        sys.modules[name] = getattr(here, attribute) if attribute else here
