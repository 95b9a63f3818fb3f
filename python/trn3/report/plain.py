"""The summary as plain text. What it says and in which order is decided here for the terminal as well."""

from __future__ import annotations

import os
from collections.abc import Iterable, Mapping

from .figures import Figures, Memory, Owner, Spill

__all__ = ["place", "size", "text", "time"]

#: Entries of a list that a summary shows.
SHOWN = 6


def time(seconds: float) -> str:
    """Write a time in the unit that suits it."""
    for unit, scale in (("s", 1.0), ("ms", 1e3), ("us", 1e6)):
        if seconds * scale >= 1.0:
            return f"{seconds * scale:.2f} {unit}"
    return f"{seconds * 1e9:.1f} ns"


def size(count: float) -> str:
    """Write a number of bytes in the binary unit that suits it."""
    for unit, scale in (("GiB", 2**30), ("MiB", 2**20), ("KiB", 2**10)):
        if count >= scale:
            return f"{count / scale:.4g} {unit}"
    return f"{count:.4g} B"


def place(file: str, line: int) -> str:
    """Write ``file:line``, the file relative to the current folder if it lies in it."""
    if not line:
        return file
    try:
        near = os.path.relpath(file)
    except ValueError:  # Another drive.
        near = file
    return f"{file if near.startswith('..') else near}:{line}"


def shares(times: Mapping[str, float], total_s: float) -> list[tuple[str, str, float]]:
    """Return name, time and share of each, the longest first."""
    ordered = sorted(times.items(), key=lambda item: -item[1])
    return [(name, time(spent), spent / total_s if total_s else 0.0) for name, spent in ordered]


def roofline(figures: Figures) -> str:
    """Return one line on the point under the roofline."""
    point = figures.roofline
    if point.flops_per_byte is None or not figures.flops:
        return f"{figures.flops:,} FLOP of the array, {figures.hbm_bytes:,} bytes of HBM"
    formats = ", ".join(work.dtype for work in point.formats)
    return (
        f"{point.flops_per_byte:.1f} FLOP/byte, ridge at {point.ridge_flops_per_byte:.1f}: {point.bound} bound;"
        f" {point.attained_flops_per_s / 1e12:.2f} of {point.roof_flops_per_s / 1e12:.2f} TFLOP/s"
        f" under the roof ({formats})"
    )


def transfers(figures: Figures) -> str:
    """Return one line on the sizes of transfers."""
    found = figures.transfers
    if not found.count:
        return "none"
    return (
        f"{found.count:,}, {size(found.mean_bytes)} on the average (advised: {size(found.advised_bytes)} or more),"
        f" descriptors {size(found.descriptor_mean_bytes)}"
    )


def memory(found: Memory) -> str:
    """Return one line on how full a memory was."""
    share = found.peak_bytes / found.capacity_bytes if found.capacity_bytes else 0.0
    used = f"{size(found.peak_bytes)} of {size(found.capacity_bytes)} a partition ({share:.1%})"
    return f"{used} at {time(found.peak_at_s)}, {len(found.owners)} tensors"


def owners(found: Memory) -> list[tuple[int, str, str, str]]:
    """Return bytes, names, shape with dtype, and source place of the owners of a peak, those of a line together."""
    groups: dict[tuple[str, int, str], list[Owner]] = {}
    for owner in found.owners:
        what = f"{' x '.join(map(str, owner.shape))} {owner.dtype}"
        groups.setdefault((owner.file, owner.line, what), []).append(owner)
    rows = []
    for (file, line, what), group in groups.items():
        names = group[0].name if len(group) == 1 else f"{group[0].name} and {len(group) - 1} more"
        rows.append((sum(owner.bytes for owner in group), names, what, place(file, line)))
    return sorted(rows, key=lambda row: -row[0])


def spills(figures: Figures) -> str:
    """Return one line on what waited in HBM for room in SBUF."""
    found = figures.spills
    stores, reloads = sum(each.stores for each in found), sum(each.reloads for each in found)
    critical = sum(spill.critical_s for spill in found) / figures.total_s if figures.total_s else 0.0
    return (
        f"{len(found)} tensor{'' if len(found) == 1 else 's'} waited in HBM: {stores:,} stores, {reloads:,} reloads,"
        f" {size(sum(each.bytes for each in found))}, {critical:.1%} of the critical path"
    )


def spilled(spill: Spill) -> tuple[str, str, str, str]:
    """Return bytes, name with shape and dtype, the line that declares it, and the line that needed the room."""
    what = f"{spill.name} ({' x '.join(map(str, spill.shape))} {spill.dtype})"
    return size(spill.bytes), what, place(spill.file, spill.line), place(spill.needed_file, spill.needed_line)


def text(figures: Figures) -> str:
    """Return the summary of a report."""
    rows = [
        f"{figures.kernel} on {figures.target}: {time(figures.total_s)} (+ {time(figures.fixed_s)} fixed),"
        f" {figures.instructions:,} instructions"
    ]
    rows += _core(figures)
    if figures.peer is not None:
        rows += ["", "second core", *_core(figures.peer)]
    for finding in figures.findings:
        rows.append(f"{place(finding.file, finding.line)}: {finding.message}")
    return "\n".join(rows)


def _core(figures: Figures) -> Iterable[str]:
    total = figures.total_s
    yield (
        f"MFU {figures.mfu:.1%} of the published peak, {figures.mfu_array:.1%} of the array's;"
        f" MBU {figures.mbu:.1%}, {figures.hbm_bytes:,} HBM bytes"
    )
    yield f"roofline: {roofline(figures)}"
    yield f"{'engine':<8} {'instructions':>12} {'active':>10} {'':>6}  waited for"
    for engine in figures.engines:
        active = engine.active_s
        share = active / total if total else 0.0
        waits = ", ".join(f"{cause} {spent}" for cause, spent, _ in shares(engine.stalls, total))
        yield f"{engine.name:<8} {engine.instructions:>12,} {time(active):>10} {share:>6.1%}  {waits}".rstrip()
    for route in figures.routes:
        if route.transfers:
            yield f"{route.name:<12} {route.written_bytes:>14,} bytes in {route.transfers:,} transfers"
    yield f"transfers: {transfers(figures)}"
    path = figures.critical_path
    whole = ", ".join(f"{name} {share:.1%}" for name, _, share in shares(path.resources, total))
    yield f"critical path: {whole or 'nothing ran'}"
    for group in path.groups[:SHOWN]:
        share = group.time_s / total if total else 0.0
        where = place(group.file, group.line) if group.instruction else ""
        what = f"{group.resource:<7} {group.step:<10} {group.instruction}"
        yield f"  {share:>6.1%} {time(group.time_s):>10}  {what}  {where}".rstrip()
    for found in figures.memories:
        if found.peak_bytes:
            yield f"{found.name}: {memory(found)}"
        for owned, names, what, where in owners(found)[:SHOWN]:
            yield f"  {size(owned):>10}  {names} ({what})  {where}"
    if figures.spills:
        yield f"spilled: {spills(figures)}"
        for moved, what, declared, needed in map(spilled, figures.spills[:SHOWN]):
            yield f"  {moved:>10}  {what}  {declared}, room needed by {needed}"
