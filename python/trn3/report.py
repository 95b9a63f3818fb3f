"""What a run took: time, engines, bytes, utilisation, and the trace.

Every figure comes from the timeline of the core; this module only names and prints it.
"""

from __future__ import annotations

import json
import os
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, field
from fractions import Fraction
from typing import Any

from trn3 import _native

__all__ = ["EngineUse", "LabelUse", "LineUse", "Report", "RouteUse"]

_PS = 1e-12


@dataclass(frozen=True)
class EngineUse:
    """What one engine did.

    Attributes
    ----------
    name : str
        ``tensor``, ``vector``, ``scalar``, ``gpsimd``, ``sync``, or ``dma`` for the DMA engines together.
    instructions : int
        Instructions that it ran; transfers for ``dma``.
    busy_s : float
        Time in which at least one of them was in flight, seconds.
    stalls : mapping of str to float
        Seconds in which the engine was free and its next instruction waited, by what it waited for.
    """

    name: str
    instructions: int
    busy_s: float
    stalls: Mapping[str, float] = field(default_factory=dict)


@dataclass(frozen=True)
class RouteUse:
    """Bytes that moved one way between HBM and SBUF."""

    name: str
    read_bytes: int
    written_bytes: int
    transfers: int


@dataclass(frozen=True)
class LineUse:
    """What one source line asked for."""

    file: str
    line: int
    instructions: int
    busy_s: float


@dataclass(frozen=True)
class LabelUse:
    """When the instructions of one label (``name=`` of an instruction) ran, seconds from the first issue."""

    name: str
    instructions: int
    start_s: float
    end_s: float


class Report:
    """The time of a Program on one emulated core.

    Parameters
    ----------
    program : Program
        What was recorded.
    table : Table
        The hardware table to time it on.
    turns : sequence of sequence of int, optional
        How often the dynamic loops of each core went round in a run (`Run.turns`); without it, that must follow from
        constants.

    Notes
    -----
    Times have the status of the constants they are made of: ``trn3 spec`` lists value, status and source of each.
    Utilisation counts the array's operations in BF16 equivalents, as the public profiler does.
    """

    def __init__(
        self, program: _native.Program, table: _native.Table, turns: Sequence[Sequence[int]] | None = None
    ) -> None:
        self.program = program
        self.table = table
        self.timeline = _native.Timeline(program, table, turns)

    @property
    def total_s(self) -> float:
        """From the first issue to the last result, seconds."""
        return self.timeline.total_ps * _PS

    @property
    def fixed_s(self) -> float:
        """Device time of starting and draining a kernel, which comes on top, seconds."""
        return self.timeline.fixed_ps * _PS

    @property
    def engines(self) -> list[EngineUse]:
        """The five engines, then the DMA engines together."""
        return [
            EngineUse(name, count, busy * _PS, {cause: time * _PS for cause, time in stalls.items()})
            for name, count, busy, stalls in self.timeline.engines
        ]

    @property
    def routes(self) -> list[RouteUse]:
        """Bytes by route."""
        return [RouteUse(*route) for route in self.timeline.routes]

    @property
    def lines(self) -> list[LineUse]:
        """Source lines, the longest first."""
        return [LineUse(file, line, count, busy * _PS) for file, line, count, busy in self.timeline.lines()]

    @property
    def labels(self) -> list[LabelUse]:
        """Labels of instructions, in the order of their ends."""
        return [LabelUse(name, count, start * _PS, end * _PS) for name, count, start, end in self.timeline.labels()]

    @property
    def hbm_bytes(self) -> int:
        """Bytes read from and written to HBM."""
        return self.timeline.hbm_bytes

    @property
    def flops(self) -> int:
        """Floating-point operations of the array, two a product."""
        return self.timeline.flops

    def _utilisation(self, amount: float, peak_per_s: float) -> float:
        return amount / (peak_per_s * self.total_s) if self.total_s > 0 else 0.0

    @property
    def mfu(self) -> float:
        """BF16-equivalent operations over a core's share of the published chip peak."""
        return self._utilisation(self.timeline.flops_bf16, self.timeline.published_flops_per_s)

    @property
    def mfu_array(self) -> float:
        """The same over the peak of the array: rows x columns x 2 x clock."""
        return self._utilisation(self.timeline.flops_bf16, self.timeline.array_flops_per_s)

    @property
    def mbu(self) -> float:
        """HBM bytes over a core's share of the peak HBM bandwidth."""
        return self._utilisation(self.hbm_bytes, self.timeline.hbm_bytes_per_s)

    @property
    def overrides(self) -> dict[str, Any]:
        """Values that were set in place of the hardware table's, by key; fractions as text."""
        values = {**self.table.overrides(), **self.program.overrides}
        return {key: str(value) if isinstance(value, Fraction) else value for key, value in values.items()}

    @property
    def notes(self) -> list[str]:
        """What the figures leave out, where it shows."""
        if self.mbu <= 1:
            return []
        return ["MBU is above 100 %: the bandwidth of HBM is not modelled yet, only that of the DMA engines"]

    def to_dict(self) -> dict[str, Any]:
        """Return every figure as plain data."""
        return {
            "kernel": self.program.kernel,
            "target": self.program.target,
            "overrides": self.overrides,
            "instructions": self.program.instructions,
            "total_s": self.total_s,
            "fixed_s": self.fixed_s,
            "flops": self.flops,
            "mfu": self.mfu,
            "mfu_array": self.mfu_array,
            "mbu": self.mbu,
            "hbm_bytes": self.hbm_bytes,
            "notes": self.notes,
            "engines": [asdict(engine) for engine in self.engines],
            "routes": [asdict(route) for route in self.routes],
            "lines": [asdict(line) for line in self.lines],
            "labels": [asdict(label) for label in self.labels],
        }

    def to_json(self) -> str:
        """Return every figure as JSON."""
        return json.dumps(self.to_dict(), indent=1)

    def write_perfetto(self, path: str | os.PathLike[str]) -> None:
        """Write the timeline as a Perfetto trace (https://ui.perfetto.dev opens it).

        One thread an engine and one a DMA engine; each slice has its source file and line.
        """
        self.timeline.write_perfetto(os.fspath(path))

    def to_text(self) -> str:
        """Return a summary as plain text."""
        rows = [
            f"{self.program.kernel} on {self.program.target}: {_time(self.total_s)}"
            f" (+ {_time(self.fixed_s)} fixed), {self.program.instructions} instructions",
            f"MFU {self.mfu:.1%} of the published peak, {self.mfu_array:.1%} of the array's;"
            f" MBU {self.mbu:.1%}, {self.hbm_bytes:,} HBM bytes",
            f"{'engine':<8} {'instructions':>12} {'busy':>10} {'':>6}  waited for",
        ]
        for engine in self.engines:
            share = engine.busy_s / self.total_s if self.total_s else 0.0
            waits = ", ".join(f"{cause} {_time(time)}" for cause, time in engine.stalls.items())
            figures = f"{engine.instructions:>12,} {_time(engine.busy_s):>10} {share:>6.1%}"
            rows.append(f"{engine.name:<8} {figures}  {waits}")
        for route in self.routes:
            if route.transfers:
                rows.append(f"{route.name:<12} {route.written_bytes:>14,} bytes in {route.transfers:,} transfers")
        return "\n".join([*rows, *self.notes])

    def __str__(self) -> str:
        return self.to_text()


def _time(seconds: float) -> str:
    for unit, scale in (("s", 1.0), ("ms", 1e3), ("us", 1e6)):
        if seconds * scale >= 1.0:
            return f"{seconds * scale:.2f} {unit}"
    return f"{seconds * 1e9:.1f} ns"
