"""Enumerations of the kernel language, by their names and values in the public reference."""

from __future__ import annotations

import enum

__all__ = [
    "MemoryRegion",
    "dge_mode",
    "dma_engine",
    "engine",
    "matmul_perf_mode",
    "nc_version",
    "oob_mode",
    "reduce_cmd",
]


class MemoryRegion(enum.Enum):
    """Address spaces of a kernel."""

    sbuf = "sbuf"
    psum = "psum"
    private_hbm = "private_hbm"
    shared_hbm = "shared_hbm"

    def __str__(self) -> str:
        return self.value


class ArgumentRegion:
    """Where a kernel's arguments are: shared HBM, but equal to ``nl.hbm`` too, since public kernels ask for either."""

    name = value = "shared_hbm"

    def __eq__(self, other: object) -> bool:
        return other is self or other in (MemoryRegion.shared_hbm, MemoryRegion.private_hbm)

    def __hash__(self) -> int:
        return hash(MemoryRegion.shared_hbm)

    def __str__(self) -> str:
        return self.value

    def __repr__(self) -> str:
        return "<MemoryRegion of arguments: shared_hbm>"


class engine(enum.Enum):
    """Engines that an instruction can be sent to."""

    unknown = 0
    tensor = 1
    scalar = 2
    gpsimd = 3
    dma = 4
    vector = 5
    sync = 6


class reduce_cmd(enum.Enum):
    """What happens to an accumulator register."""

    idle = 0
    reset = 1
    reduce = 2
    reset_reduce = 3
    load_reduce = 4


class dge_mode(enum.Enum):
    """Who makes the descriptors of a DMA."""

    unknown = 0
    swdge = 1
    hwdge = 2
    none = 3


class oob_mode(enum.Enum):
    """What a run-time index out of bounds does."""

    error = 0
    skip = 1


class matmul_perf_mode(enum.Enum):
    """Performance modes of ``nc_matmul``."""

    none = "none"
    double_row = "double_row"


class dma_engine(enum.Enum):
    """Transports of ``sendrecv``."""

    dma = 1
    gpsimd_dma = 2


class nc_version(enum.IntEnum):
    """Generations of the NeuronCore; ordered, and comparable with plain integers."""

    gen2 = 2
    gen3 = 3
    gen4 = 4
