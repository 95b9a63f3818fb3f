"""One self-contained HTML page: its template, style and scripts lie in `assets`, the data go in as JSON."""

from __future__ import annotations

import json
import linecache
import os
from importlib import resources
from typing import TYPE_CHECKING, Any

from . import sources
from .plain import place

if TYPE_CHECKING:
    from .report import Report

__all__ = ["write", "write_whole"]

#: Blocks, tensors, points of a curve and segments that the page holds of one core; more would draw no better.
BLOCKS_MAX, TENSORS_MAX, BINS, SEGMENTS_MAX = 16_000, 2_000, 800, 4_000
#: Instructions up to which the Program is timed again for each assumed constant, unless the caller decides.
SENSITIVITY_MAX = 20_000

_SCRIPTS = ("format.js", "rows.js", "timeline.js", "memory.js", "charts.js", "tables.js", "main.js")


def write(report: Report, path: str | os.PathLike[str], sensitivity: bool | None) -> None:
    """Write the page; a file of that name is replaced in one step."""
    write_whole(page(report, sensitivity), path)


def write_whole(text: str, path: str | os.PathLike[str]) -> None:
    """Write a text file; a file of that name is replaced in one step, and nothing is left of a failure."""
    name = os.fspath(path)
    temporary = f"{name}.part"
    try:
        with open(temporary, "w", encoding="utf-8", newline="\n") as out:
            out.write(text)
        os.replace(temporary, name)
    except BaseException:
        if os.path.exists(temporary):
            os.unlink(temporary)
        raise


def page(report: Report, sensitivity: bool | None = None) -> str:
    """Return the page."""
    folder = resources.files(__package__) / "assets"
    # Text from the program must not end the element that holds the data, nor begin another.
    data = json.dumps(content(report, sensitivity), separators=(",", ":"), allow_nan=False).replace("<", "\\u003c")
    parts = {
        "TITLE": _escaped(f"{report.program.kernel} on {report.program.target}"),
        "STYLE": (folder / "page.css").read_text("utf-8"),
        "SCRIPT": "\n".join((folder / script).read_text("utf-8") for script in _SCRIPTS),
        "DATA": data,
    }
    text = (folder / "page.html").read_text("utf-8")
    for name, part in parts.items():
        before, after = text.split(f"@{name}@")
        text = before + part + after
    return text


def content(report: Report, sensitivity: bool | None) -> dict[str, Any]:
    """Return what the page shows: the figures, and what they are drawn from."""
    figures = report.to_dict()
    if sensitivity is None:
        sensitivity = figures["executed"] <= SENSITIVITY_MAX
    places = _Places()
    cores = [_core(each, places) for each in (report, report.peer) if each is not None]
    for figure in (figures, figures["peer"]):
        _number_places(figure, places)
    return {
        "figures": figures,
        "cores": cores,
        "sensitivity": [vars(each) for each in report.sensitivity()] if sensitivity else None,
        "places": [[file, line, place(file, line)] for file, line in places.known],
        "sources": sources.excerpts(places.known, linecache.getlines),
    }


class _Places:
    """Numbers for source places, so that each is written once."""

    def __init__(self) -> None:
        self.known: dict[tuple[str, int], int] = {}

    def number(self, file: str, line: int) -> int:
        return self.known.setdefault((file, line), len(self.known))


def _number_places(figures: dict[str, Any] | None, places: _Places) -> None:
    if figures is None:
        return
    owners = [owner for memory in figures["memories"] for owner in memory["owners"]]
    groups = figures["critical_path"]["groups"]
    for record in [*figures["lines"], *figures["findings"], *owners, *groups, *figures["spills"]]:
        record["place"] = places.number(record["file"], record["line"])
    for spill in figures["spills"]:
        spill["needed_place"] = places.number(spill["needed_file"], spill["needed_line"])


def _named(columns: dict[str, list[Any]], places: _Places, words: tuple[str, ...]) -> dict[str, Any]:
    """Replace files and lines by numbers of places, and repeated words by numbers into lists of their own."""
    files, lines = columns.pop("file"), columns.pop("line")
    named: dict[str, Any] = {**columns, "place": [places.number(*each) for each in zip(files, lines, strict=True)]}
    for word in words:
        known = {text: number for number, text in enumerate(dict.fromkeys(columns[word]))}
        named[word] = {"words": list(known), "of": [known[text] for text in columns[word]]}
    return named


def _differences(columns: dict[str, Any]) -> dict[str, Any]:
    """Write starts as distances from the start before, and ends as lengths: fewer digits."""
    starts, ends = columns.pop("start_ps"), columns.pop("end_ps")
    columns["step_ps"] = [here - before for here, before in zip(starts, [0, *starts], strict=False)]
    columns["length_ps"] = [end - start for start, end in zip(starts, ends, strict=True)]
    return columns


def _core(report: Report, places: _Places) -> dict[str, Any]:
    timeline = report.timeline
    rows = []
    for name, blocks in timeline.blocks(BLOCKS_MAX):
        blocks["tail_ps"] = [
            max(result - end, 0) for result, end in zip(blocks.pop("result_ps"), blocks["end_ps"], strict=True)
        ]
        rows.append({"name": name, **_differences(_named(blocks, places, ("instruction", "label", "cause")))})
    path = timeline.critical_segments(timeline.total_ps // SEGMENTS_MAX)
    path["instance"] = [-1 if instance is None else instance for instance in path["instance"]]
    memories = {}
    for space in ("sbuf", "psum"):
        found = timeline.occupancy(space, TENSORS_MAX)
        found["tensors"] = _differences(_named(found["tensors"], places, ()))
        memories[space] = {
            key: found[key] for key in ("capacity", "peak_bytes", "peak_ps", "time", "tensors", "tensor_count")
        }
    return {
        "total_ps": timeline.total_ps,
        "rows": rows,
        "critical": _differences(_named(path, places, ("resource", "step", "instruction"))),
        "memories": memories,
        "traffic": timeline.hbm_traffic(BINS),
    }


def _escaped(text: str) -> str:
    return text.replace("&", "&amp;").replace("<", "&lt;").replace(">", "&gt;")
