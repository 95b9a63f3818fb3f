"""The demo: all-MiniLM-L6-v2, a sentence encoder of six layers, on one emulated core in three formats.

Similarities of real sentences stand beside those of NumPy on the host; errors are measured against float64.
"""

from __future__ import annotations

import contextlib
import os
import sys
import threading
from collections.abc import Callable, Iterator, Mapping, Sequence
from json import dumps
from math import isfinite
from pathlib import Path
from typing import Any

from trn3.errors import Trn3Error

from ._formats import FORMATS
from ._measure import run_demo, unwritable
from ._sentences import SENTENCES
from ._text import print_figures

__all__ = ["FORMATS", "SENTENCES", "demo", "read_sentences", "run_demo"]

_PATIENCE_S = 2.0
"""How long nothing is shown of what is being done."""


def demo(
    sentences: Sequence[str] | None = None,
    formats: Sequence[str] = tuple(FORMATS),
    out: str | os.PathLike[str] = "out",
    weights: str | os.PathLike[str] | None = None,
    json: str | os.PathLike[str] | None = None,
    layers: int | None = None,
    overrides: Mapping[str, Any] | None = None,
) -> None:
    """Run the demo and print its figures.

    Parameters
    ----------
    sentences : sequence of str, optional
        What to embed; by default `SENTENCES`.
    formats : sequence of str
        Names in `FORMATS`.
    out : path
        Directory for the Perfetto traces.
    weights : path, optional
        Weights file or its directory; by default the installed package's.
    json : path, optional
        File to write the figures to, as JSON.
    layers : int, optional
        Encoder layers to run, from the first on; by default all.
    overrides : mapping of str to object, optional
        Values in place of the hardware table's; see `trn3.RunOptions`.

    Raises
    ------
    SystemExit
        With code 1: a format is further from float64 than its limit.
    Trn3Error
        As `run_demo`.
    """
    with _progress() as progress:
        figures = run_demo(sentences, formats, out, weights, layers, progress, overrides)
    if json is not None:
        try:
            Path(json).write_text(dumps(_finite(figures), indent=1) + "\n", encoding="utf-8")
        except OSError as error:
            raise unwritable(Path(json), error) from None
    print_figures(figures)
    if not figures["passed"]:
        failed = ", ".join(result["format"] for result in figures["formats"] if not result["passed"])
        print(f"trn3: demo: {failed}: beyond the limit", file=sys.stderr)
        raise SystemExit(1)


def read_sentences(path: str | os.PathLike[str]) -> list[str]:
    """Read sentences from a text file in UTF-8, one a line; empty lines do not count.

    Raises
    ------
    Trn3Error
        The file cannot be read, is not UTF-8, or has no sentence.
    """
    place = Path(path)
    try:
        content = place.read_bytes()
    except OSError as error:
        raise Trn3Error(f"demo: {place}: cannot be read ({error.strerror or error}); name another file") from None
    try:
        text = content.decode("utf-8-sig")
    except UnicodeDecodeError as error:
        line = content[: error.start].count(b"\n") + 1
        fix = "save it as UTF-8"
        raise Trn3Error(f"demo: {place}: line {line} is not UTF-8 (byte {content[error.start]:#04x}); {fix}") from None
    sentences = [line.strip() for line in text.splitlines() if line.strip()]
    if not sentences:
        raise Trn3Error(f"demo: {place}: has no sentence; write one a line")
    return sentences


def _finite(value: Any) -> Any:
    """Replace what JSON has no number for by None."""
    if isinstance(value, dict):
        return {key: _finite(item) for key, item in value.items()}
    if isinstance(value, (list, tuple)):
        return [_finite(item) for item in value]
    return None if isinstance(value, float) and not isfinite(value) else value


@contextlib.contextmanager
def _progress() -> Iterator[Callable[[str], None]]:
    """Show on a terminal what is being done, once it takes some time; nowhere else."""
    if not sys.stderr.isatty():
        yield lambda step: None
        return
    from rich.console import Console

    status = Console(stderr=True).status("starting")
    timer = threading.Timer(_PATIENCE_S, status.start)
    timer.daemon = True
    timer.start()
    try:
        yield lambda step: status.update(step)
    finally:
        timer.cancel()
        timer.join()
        status.stop()
