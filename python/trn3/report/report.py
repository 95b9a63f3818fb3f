"""The report of a run: every figure, and the forms it can be printed and written in.

Every figure comes from the timeline of the core; this module only names it.
"""

from __future__ import annotations

import json
import os
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import asdict
from fractions import Fraction
from functools import cached_property
from typing import Any

from trn3 import _native

from . import page, plain, terminal
from .document import VERSION
from .figures import (
    CriticalGroup,
    CriticalPath,
    EngineUse,
    Figures,
    Finding,
    FormatWork,
    LabelUse,
    LineUse,
    Memory,
    Owner,
    Roofline,
    RouteUse,
    Sensitivity,
    SizeClass,
    Spill,
    Transfers,
)
from .sensitivity import sensitivities

__all__ = ["Report"]

_PS = 1e-12


def _seconds(times: Mapping[str, int] | Iterable[tuple[str, int]]) -> dict[str, float]:
    return {name: time * _PS for name, time in dict(times).items()}


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
    seed : int
        Draws what the table calls random, such as the phase of the throttle's windows.
    findings : sequence of dict, optional
        Deviations to report; by default those of the recording.

    Notes
    -----
    Times have the status of the constants they are made of: ``trn3 spec`` lists value, status and source of each, and
    `sensitivity` says which of them matter here. Utilisation counts the array's operations in BF16 equivalents, as the
    public profiler does.
    """

    def __init__(
        self,
        program: _native.Program,
        table: _native.Table,
        turns: Sequence[Sequence[int]] | None = None,
        seed: int = 0,
        *,
        findings: Sequence[Mapping[str, Any]] | None = None,
    ) -> None:
        self._begin(program, table, turns, seed, program.findings if findings is None else findings)
        self.timeline = _native.Timeline(program, table, turns, seed)

    def _begin(
        self,
        program: _native.Program,
        table: _native.Table,
        turns: Sequence[Sequence[int]] | None,
        seed: int,
        findings: Sequence[Mapping[str, Any]],
    ) -> None:
        self.program = program
        self.table = table
        self.turns = turns
        self.seed = seed
        self.findings = [Finding(**finding) for finding in findings]

    @cached_property
    def peer(self) -> Report | None:
        """The report of the second core of a logical core, or None."""
        if self.timeline.peer is None:
            return None
        other = object.__new__(Report)
        other._begin(self.program, self.table, self.turns, self.seed, [])
        other.timeline = self.timeline.peer
        return other

    @property
    def total_s(self) -> float:
        """From the first issue to the last result, seconds."""
        return self.timeline.total_ps * _PS

    @property
    def fixed_s(self) -> float:
        """Device time of starting and draining a kernel, which comes on top, seconds."""
        return self.timeline.fixed_ps * _PS

    @cached_property
    def engines(self) -> list[EngineUse]:
        """The five engines, then the DMA engines together."""
        return [
            EngineUse(name, count, busy * _PS, _seconds(stalls), active * _PS, idle * _PS)
            for (name, count, busy, stalls), (active, idle) in zip(
                self.timeline.engines, self.timeline.engine_times, strict=True
            )
        ]

    @property
    def throttle_s(self) -> tuple[float, float]:
        """Seconds in which the array was limited after idling: while it had work, and while it had none.

        At half rate the first costs half of itself.
        """
        active, unused = self.timeline.throttle
        return active * _PS, unused * _PS

    @property
    def routes(self) -> list[RouteUse]:
        """Bytes by route."""
        return [RouteUse(*route) for route in self.timeline.routes]

    @cached_property
    def lines(self) -> list[LineUse]:
        """Source lines, the longest in flight first."""
        return [
            LineUse(
                file,
                line,
                found["instructions"],
                found["in_flight_ps"] * _PS,
                _seconds(found["engines_ps"]),
                _seconds(found["stalls_ps"]),
                found["transfers"],
                found["dma_bytes"],
                found["critical_ps"] * _PS,
            )
            for file, line, found in self.timeline.lines()
        ]

    @property
    def labels(self) -> list[LabelUse]:
        """Labels of instructions, in the order of their ends."""
        return [LabelUse(name, count, start * _PS, end * _PS) for name, count, start, end in self.timeline.labels()]

    @cached_property
    def transfers(self) -> Transfers:
        """Sizes of transfers and descriptors."""
        found = self.timeline.transfers()
        sizes, descriptors = (
            [SizeClass(2**power, count, size) for power, (count, size) in found[name].items()]
            for name in ("transfers", "descriptors")
        )
        count, pieces = sum(each.count for each in sizes), sum(each.count for each in descriptors)
        total = sum(each.bytes for each in sizes)
        advised = self.table.entry("dma.transfer_advised_bytes")["value"]
        busy = [time * _PS for time in found["busy_ps"]]
        means = (total / max(count, 1), total / max(pieces, 1))
        return Transfers(count, total, pieces, means[0], advised, means[1], sizes, descriptors, busy)

    @cached_property
    def roofline(self) -> Roofline:
        """The point under the roofline."""
        found = self.timeline.roofline()
        return Roofline(**{**found, "formats": [FormatWork(*format) for format in found["formats"]]})

    def memory(self, space: str) -> Memory:
        """How full a memory was.

        Parameters
        ----------
        space : str
            ``sbuf`` or ``psum``.
        """
        found = self.timeline.occupancy(space, 0)
        return Memory(
            space,
            found["capacity"],
            found["peak_bytes"],
            found["peak_ps"] * _PS,
            [Owner(*owner) for owner in found["owners"]],
            found["order_peak_bytes"],
            found["order_peak_instruction"],
            found["tensor_count"],
        )

    @cached_property
    def spills(self) -> list[Spill]:
        """Tensors that waited in HBM for room in SBUF, those first that cost most."""
        return [
            Spill(
                found["name"],
                found["shape"],
                found["dtype"],
                found["file"],
                found["line"],
                found["needed_file"],
                found["needed_line"],
                found["stores"],
                found["reloads"],
                found["bytes"],
                found["in_flight_ps"] * _PS,
                found["critical_ps"] * _PS,
            )
            for found in self.timeline.spills()
        ]

    @cached_property
    def critical_path(self) -> CriticalPath:
        """What decided the total."""
        found = self.timeline.critical_sums()
        groups = [
            CriticalGroup(resource, step, instruction, file, line, count, spent * _PS)
            for resource, step, instruction, file, line, count, spent in found["groups"]
        ]
        return CriticalPath(found["segments"], _seconds(found["resources"]), _seconds(found["steps"]), groups)

    def sensitivity(self) -> list[Sensitivity]:
        """Time the Program again with each assumed constant at either end of its range.

        Returns
        -------
        list of Sensitivity
            The constants that change the total, those that change it the most first. What hangs on none of them is
            published or follows from what is.
        """
        return sensitivities(self.program, self.table, self.turns, self.seed)

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
        """HBM bytes over the peak bandwidth of the stack that the core shares with its neighbour."""
        return self._utilisation(self.hbm_bytes, self.timeline.hbm_bytes_per_s)

    @property
    def overrides(self) -> dict[str, Any]:
        """Values that were set in place of the hardware table's, by key; fractions as text."""
        values = {**self.table.overrides(), **self.program.overrides}
        return {key: str(value) if isinstance(value, Fraction) else value for key, value in values.items()}

    @cached_property
    def figures(self) -> Figures:
        """Every figure, as one record."""
        return Figures(
            schema=VERSION,
            kernel=self.program.kernel,
            target=self.program.target,
            overrides=self.overrides,
            instructions=self.program.instructions,
            executed=self.timeline.instructions[1],
            total_s=self.total_s,
            fixed_s=self.fixed_s,
            flops=self.flops,
            flops_bf16=self.timeline.flops_bf16,
            mfu=self.mfu,
            mfu_array=self.mfu_array,
            mbu=self.mbu,
            hbm_bytes=self.hbm_bytes,
            throttle_s=list(self.throttle_s),
            findings=self.findings,
            engines=self.engines,
            routes=self.routes,
            lines=self.lines,
            labels=self.labels,
            transfers=self.transfers,
            roofline=self.roofline,
            memories=[self.memory("sbuf"), self.memory("psum")],
            spills=self.spills,
            critical_path=self.critical_path,
            peer=None if self.peer is None else self.peer.figures,
        )

    def to_dict(self) -> dict[str, Any]:
        """Return every figure as plain data, as `trn3.report.schema` describes it."""
        return asdict(self.figures)

    def to_json(self) -> str:
        """Return every figure as JSON, as `trn3.report.schema` describes it."""
        return json.dumps(self.to_dict(), indent=1, allow_nan=False)

    def to_text(self) -> str:
        """Return a summary as plain text."""
        return plain.text(self.figures)

    def __str__(self) -> str:
        return self.to_text()

    def to_rich(self) -> Any:
        """Return the summary as something that ``rich`` prints; needs the extra ``cli``."""
        return terminal.renderable(self.figures)

    def print(self) -> None:
        """Print the summary: in colour and fitted to the terminal where ``rich`` is installed, else as plain text.

        Colour follows ``rich``: none with ``NO_COLOR`` set, or if the output is no terminal.
        """
        terminal.show(self.figures)

    def write_perfetto(self, path: str | os.PathLike[str]) -> None:
        """Write the timeline as a Perfetto trace (https://ui.perfetto.dev opens it).

        One thread an engine and one a DMA engine, each slice with its source file and line; the critical path; what is
        in SBUF and PSUM, and HBM's bandwidth.
        """
        self.timeline.write_perfetto(os.fspath(path))

    def write_html(self, path: str | os.PathLike[str], sensitivity: bool | None = None) -> None:
        """Write everything as one page that needs nothing else: no network, no server.

        Parameters
        ----------
        path : path
            The page; a file of that name is replaced in one step.
        sensitivity : bool, optional
            Whether to time the Program again for each assumed constant (`sensitivity`). By default if it is short.
        """
        page.write(self, path, sensitivity)
