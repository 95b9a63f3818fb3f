"""Kernels in time: their timelines, and sums of what the timing document says."""

from __future__ import annotations

import numpy as np

import trn3
from trn3 import nki
from trn3.nki import isa as nisa
from trn3.nki import language as nl

TARGETS = ["trn2", "trn3"]
#: timing.md section 8.2, nanoseconds and bytes a nanosecond.
BANDWIDTH = {"trn2": 23.7, "trn3": 34.4}
DGE_PARTITION = {"trn2": 3.06, "trn3": 3.36}
DESCRIPTOR, TO_FIRST, SKEW, SEMAPHORE, DONE, GAP = 5.0, 700.0, 10.0, 9.0, 350.0, 40.0


def timeline(kernel, *arrays, target="trn3"):
    """Record a kernel and return its Program and its timeline."""
    program = nki.record(nki.jit(target=target)(kernel), *arrays)
    return program, trn3._native.Timeline(program, trn3.Chip(target).table)


def total_ns(kernel, *arrays, target="trn3"):
    """From the first issue to the last result, nanoseconds."""
    return timeline(kernel, *arrays, target=target)[1].total_ps / 1000


def times(program, line, name):
    """Issue, end and stall of every instruction of that name, nanoseconds."""
    numbers = [at for at, opcode in enumerate(program.opcodes()) if opcode == name]
    return [tuple(value / 1000 for value in line.instruction(at)) for at in numbers]


def descriptor_ns(target, size):
    """How long an engine takes over one descriptor of a copy."""
    return max(8.0, size / BANDWIDTH[target] + DESCRIPTOR)


def generation_ns(target, partitions=128):
    """T_DGE."""
    return 170 + DGE_PARTITION[target] * partitions


def stored(*tiles):
    """Outputs that hold tiles, so that a kernel has something to return."""
    outputs = []
    for tile in tiles:
        output = nl.ndarray(tile.shape, tile.dtype, buffer=nl.shared_hbm)
        nisa.dma_copy(output, tile, engine=nisa.engine.scalar)
        outputs.append(output)
    return tuple(outputs)


def zeros(*shape, dtype=np.float32):
    """An array whose values do not matter."""
    return np.zeros(shape, dtype)
