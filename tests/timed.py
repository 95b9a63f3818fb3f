"""Kernels in time, for tests that hold the timeline against formulas worked by hand."""

from __future__ import annotations

import trn3
from trn3 import nki

#: The array without its dI/dt limit, for tests of the rates that it otherwise halves.
FULL_RATE = {"tensor.throttle.enabled": False}


class Timed:
    """A kernel recorded for a table and timed on it, with some entries of the table replaced."""

    def __init__(self, kernel, *arrays, target="trn3", overrides=None, seed=0):
        self.program = nki.record(nki.jit(target=target)(kernel), *arrays)
        self.table = trn3.Chip(target).table.with_overrides(overrides or {})
        self.line = trn3._native.Timeline(self.program, self.table, None, seed)
        self.total_ps = self.line.total_ps

    def numbers(self, name):
        """Numbers of the instructions of that name."""
        return [at for at, opcode in enumerate(self.program.opcodes()) if opcode == name]

    def of(self, name):
        """Issue, end and stall of the instructions of that name, in picoseconds."""
        return [self.line.instruction(at) for at in self.numbers(name)]

    def waits(self, name):
        """What each instruction of that name waited for: a dict of picoseconds by cause."""
        return [dict(self.line.waits(at)) for at in self.numbers(name)]

    def interval_ps(self, name):
        """Mean distance of the starts in the second half of a chain of equal instructions, in picoseconds."""
        starts = [issue for issue, _, _ in self.of(name)]
        half = len(starts) // 2
        return (starts[-1] - starts[half]) / (len(starts) - 1 - half)

    def work_ps(self):
        """From the first issue to the last end of what is not a transfer, in picoseconds."""
        opcodes = self.program.opcodes()
        times = [self.line.instruction(at) for at, opcode in enumerate(opcodes) if not opcode.startswith("dma")]
        return max(end for _, end, _ in times) - min(issue for issue, _, _ in times)

    def duration_ps(self, name):
        """From issue to end of the last instruction of that name, in picoseconds."""
        issue, end, _ = self.of(name)[-1]
        return end - issue

    def engine(self, name):
        """Active time, waits by cause, and idle time of an engine, in picoseconds."""
        rows = zip(self.line.engines, self.line.engine_times, strict=True)
        ((_, _, _, stalls), (active, idle)) = next(row for row in rows if row[0][0] == name)
        return active, stalls, idle


def span_ps(cycles, hz):
    """Picoseconds of some cycles of a clock."""
    return cycles * 10**12 / hz
