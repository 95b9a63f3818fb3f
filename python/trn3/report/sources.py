"""Which lines of the user's sources a page shows: the functions around the lines that have figures."""

from __future__ import annotations

import ast
import os
from collections.abc import Callable, Iterable, Sequence
from typing import Any

__all__ = ["excerpts"]

#: Lines shown around one that is in no function.
AROUND = 3
#: Lines of one file that a page holds at most.
LINES_MAX = 4_000


def excerpts(places: Iterable[tuple[str, int]], read: Callable[[str], Sequence[str]]) -> list[dict[str, Any]]:
    """Return for each file that can be read its name and the parts that matter.

    Parameters
    ----------
    places : iterable of (str, int)
        Files and lines that have figures.
    read : callable
        Gives the lines of a file, none if it cannot be read.

    Returns
    -------
    list of dict
        ``file``, ``name``, and ``parts``: lists of a first line number and lines.
    """
    wanted: dict[str, set[int]] = {}
    for file, line in places:
        if line > 0:
            wanted.setdefault(file, set()).add(line)
    found = []
    for file, lines in wanted.items():
        text = read(file)
        if not text:
            continue
        parts, left = [], LINES_MAX
        for first, last in _ranges(text, lines):
            last = min(last, first + left - 1)
            if last < first:
                break
            parts.append([first, [line.rstrip("\r\n") for line in text[first - 1 : last]]])
            left -= last - first + 1
        found.append({"file": file, "name": os.path.basename(file), "parts": parts})
    return found


def _ranges(text: Sequence[str], lines: set[int]) -> list[tuple[int, int]]:
    """Return first and last line of each part, ascending and apart from each other."""
    functions = _functions("".join(text))
    ranges = []
    for line in lines:
        around = [function for function in functions if function[0] <= line <= function[1]]
        ranges.append(min(around, default=(line - AROUND, line + AROUND), key=lambda span: span[1] - span[0]))
    merged: list[tuple[int, int]] = []
    for first, last in sorted((max(first, 1), min(last, len(text))) for first, last in ranges):
        if merged and first <= merged[-1][1] + 2:
            merged[-1] = (merged[-1][0], max(merged[-1][1], last))
        else:
            merged.append((first, last))
    return [span for span in merged if span[0] <= span[1]]


def _functions(text: str) -> list[tuple[int, int]]:
    try:
        tree = ast.parse(text)
    except (SyntaxError, ValueError):
        return []
    functions = (node for node in ast.walk(tree) if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef))
    return [
        (min([node.lineno, *(each.lineno for each in node.decorator_list)]), node.end_lineno or node.lineno)
        for node in functions
    ]
