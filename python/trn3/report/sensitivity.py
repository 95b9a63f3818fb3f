"""Which assumed constants a run's total hangs on: the Program is timed again with each at the ends of its range."""

from __future__ import annotations

from collections.abc import Sequence
from fractions import Fraction
from typing import Any

from trn3 import _native
from trn3.errors import SpecError

from .figures import Sensitivity

__all__ = ["sensitivities"]

_PS = 1e-12


def sensitivities(
    program: _native.Program, table: _native.Table, turns: Sequence[Sequence[int]] | None, seed: int
) -> list[Sensitivity]:
    """Return the assumed constants that change the total, those that change it the most first."""

    def total_with(key: str, value: Any) -> int:
        try:
            other = table.with_overrides({key: value})
        except SpecError:
            # Constants that must agree with others cannot move alone.
            return total
        return _native.Timeline(program, other, turns, seed).total_ps

    total = _native.Timeline(program, table, turns, seed).total_ps
    found = []
    for entry in table.entries():
        if entry["status"] != "assumed" or entry["range"] is None or entry["key"] in program.overrides:
            continue
        ends = [_of_kind(entry["value"], end) for end in entry["range"]]
        totals = [total_with(entry["key"], end) for end in ends]
        if totals != [total, total]:
            found.append((entry, ends, totals))
    found.sort(key=lambda each: (-max(abs(other - total) for other in each[2]), each[0]["key"]))
    return [
        Sensitivity(
            key=entry["key"],
            value=_text(entry["value"]),
            unit=entry["unit"],
            status=entry["status"],
            source=entry["source"],
            low=_text(ends[0]),
            high=_text(ends[1]),
            total_low_s=totals[0] * _PS,
            total_high_s=totals[1] * _PS,
        )
        for entry, ends, totals in found
    ]


def _of_kind(value: Any, end: float) -> Any:
    """Return the end of a range as the kind of number that its constant is."""
    if isinstance(value, Fraction):
        return Fraction(end).limit_denominator(1 << 16)
    return round(end) if isinstance(value, int) else float(end)


def _text(value: Any) -> str:
    if isinstance(value, float) and value.is_integer():
        value = int(value)
    if isinstance(value, int) and abs(value) >= 1_000_000:
        return f"{value:.4g}"
    return str(value)
