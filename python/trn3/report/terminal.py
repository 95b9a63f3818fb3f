"""The summary on a terminal, by `rich`, which only these functions import."""

from __future__ import annotations

from typing import Any

from . import plain
from .figures import Figures

__all__ = ["renderable", "show"]

#: Colours of what works, waits and has nothing to do.
ACTIVE, WAITS, IDLE = "green", "yellow", "bright_black"
BAR = 24


def show(figures: Figures) -> None:
    """Print the summary, as plain text if ``rich`` is not installed."""
    try:
        from rich.console import Console
    except ModuleNotFoundError:
        print(plain.text(figures))
        return
    Console(highlight=False, emoji=False, markup=False).print(renderable(figures))


def renderable(figures: Figures) -> Any:
    """Return the summary as something that ``rich`` prints."""
    from rich.console import Group
    from rich.text import Text

    head = Text.assemble(
        (figures.kernel, "bold"),
        f" on {figures.target}  ",
        (plain.time(figures.total_s), "bold cyan"),
        (f" + {plain.time(figures.fixed_s)} fixed  {figures.instructions:,} instructions", "dim"),
    )
    parts: list[Any] = [head, *_core(figures)]
    if figures.peer is not None:
        parts += [Text("\nsecond core", style="bold"), *_core(figures.peer)]
    for finding in figures.findings:
        where = plain.place(finding.file, finding.line)
        parts.append(Text.assemble((f"{where}: ", "yellow"), finding.message))
    return Group(*parts)


def _core(figures: Figures) -> list[Any]:
    from rich.text import Text

    total = figures.total_s
    facts = [
        ("MFU", f"{figures.mfu:.1%} of the published peak, {figures.mfu_array:.1%} of the array's"),
        ("MBU", f"{figures.mbu:.1%}, {plain.size(figures.hbm_bytes)} of HBM"),
        ("roofline", plain.roofline(figures)),
        ("transfers", plain.transfers(figures)),
        *((found.name, plain.memory(found)) for found in figures.memories if found.peak_bytes),
    ]
    if figures.spills:
        facts.append(("spilled", plain.spills(figures)))
    parts: list[Any] = [_facts(facts), Text("")]
    parts += [_engines(figures), Text(""), _critical(figures)]
    lines = [line for line in figures.lines if line.critical_s > 0]
    if lines:
        parts += [Text(""), _lines(figures, sorted(lines, key=lambda line: -line.critical_s)[: plain.SHOWN], total)]
    if figures.spills:
        parts += [Text(""), _spills(figures)]
    return parts


def _grid(*columns: tuple[str, str]) -> Any:
    """Return a table without frame; columns are names and justifications."""
    from rich.table import Table

    grid = Table(box=None, pad_edge=False, header_style="dim", padding=(0, 2, 0, 0))
    for name, justify in columns:
        grid.add_column(name, justify=justify, overflow="fold", no_wrap=justify == "right")  # type: ignore[arg-type]
    return grid


def _facts(facts: list[tuple[str, str]]) -> Any:
    from rich.text import Text

    grid = _grid(("", "left"), ("", "left"))
    grid.show_header = False
    for name, said in facts:
        grid.add_row(Text(name, style="dim"), Text(said))
    return grid


def _bar(parts: list[tuple[float, str]]) -> Any:
    """Return a bar of `BAR` cells: shares with their colours, from the left."""
    from rich.text import Text

    bar, before = Text(no_wrap=True), 0.0
    for share, style in parts:
        cells = round((before + share) * BAR) - round(before * BAR)
        bar.append("━" * max(cells, 0), style=style)
        before += share
    return bar


def _engines(figures: Figures) -> Any:
    from rich.text import Text

    total = figures.total_s or 1.0
    grid = _grid(("engine", "left"), ("active", "right"), ("", "left"), ("waited for", "left"))
    for engine in figures.engines:
        active = engine.active_s
        waited = sum(engine.stalls.values())
        rest = max(total - active - waited, 0.0)
        bar = _bar([(active / total, ACTIVE), (waited / total, WAITS), (rest / total, IDLE)])
        waits = ", ".join(f"{cause} {share:.0%}" for cause, _, share in plain.shares(engine.stalls, total))
        grid.add_row(Text(engine.name), Text(f"{active / total:.1%}"), bar, Text(waits, style="dim"))
    return grid


def _critical(figures: Figures) -> Any:
    from rich.text import Text

    total = figures.total_s or 1.0
    grid = _grid(("critical path", "left"), ("share", "right"), ("time", "right"), ("", "left"), ("where", "left"))
    for group in figures.critical_path.groups[: plain.SHOWN]:
        what = f"{group.instruction} {group.step}".strip()
        where = plain.place(group.file, group.line) if group.instruction else ""
        share = f"{group.time_s / total:.1%}"
        grid.add_row(Text(group.resource), share, plain.time(group.time_s), Text(what), Text(where, style="dim"))
    return grid


def _lines(figures: Figures, lines: list[Any], total: float) -> Any:
    from rich.text import Text

    grid = _grid(("line", "left"), ("critical", "right"), ("in flight", "right"), ("bytes", "right"))
    for line in lines:
        moved = plain.size(line.dma_bytes) if line.dma_bytes else ""
        share = f"{line.critical_s / total:.1%}" if total else ""
        grid.add_row(Text(plain.place(line.file, line.line)), share, plain.time(line.busy_s), moved)
    return grid


def _spills(figures: Figures) -> Any:
    from rich.text import Text

    grid = _grid(("spilled", "left"), ("bytes", "right"), ("declared", "left"), ("room needed by", "left"))
    for moved, what, declared, needed in map(plain.spilled, figures.spills[: plain.SHOWN]):
        grid.add_row(Text(what), moved, Text(declared, style="dim"), Text(needed, style="dim"))
    return grid
