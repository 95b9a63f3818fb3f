"""The demo: a part of all-MiniLM-L6-v2 on the emulated core, in three formats, held against float64.

Sentences go through the embedding and the feed-forward block of the first encoder layer, with its residual and layer
norm. Attention comes in a later version; the embedding's output takes its place.
"""

from __future__ import annotations

import contextlib
import os
import sys
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from json import dumps
from math import erf, isfinite, sqrt
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt

from trn3 import dtypes, kernels
from trn3.errors import Trn3Error
from trn3.models import minilm
from trn3.nki import RunOptions
from trn3.system import run

__all__ = ["FORMATS", "SENTENCES", "demo", "reference", "run_demo"]

SENTENCES = (
    "The harbour was quiet when the first ferry left for the islands.",
    "A systolic array passes partial sums from one row to the next.",
    "She put the kettle on and read the letter a second time.",
    "Every floating-point format trades range against precision.",
    "The train to the coast leaves at twenty past seven from platform four.",
    "Our neighbours grow tomatoes, beans and far too many courgettes.",
    "When memory is slow, an accelerator waits with most of its units idle.",
    "He repaired the old clock with parts from two broken ones.",
    "Snow closed the pass for three days in the middle of April.",
    "A good test fails for exactly one reason.",
    "The museum keeps its maps in long flat drawers away from the light.",
    "Rounding to nearest, with ties to even, leaves no drift on average.",
    "They walked home along the canal because the last bus had gone.",
    "The library opens late on Thursdays, except in the holidays.",
    "Copper carries heat better than steel does.",
    "A group of thirty-two numbers can share one scale of a power of two.",
    "The bakery sells out of rye bread before nine o'clock.",
    "Please write down what you expected and what happened instead.",
    "Two rivers meet below the town and flood the meadows each spring.",
    "The orchestra tuned for a long time and then played very softly.",
    "A queue that is never empty tells you little about its speed.",
    "My grandmother kept bees and could tell their mood by the sound.",
    "Simulators are useful when they say what they do not know.",
    "Is there still a seat by the window?",
)
"""What the demo embeds."""

Doubles = npt.NDArray[np.float64]


@dataclass(frozen=True)
class _Format:
    """How a format computes, and how far from float64 it may be."""

    error_max: float
    kernel: Callable[..., Any]
    dtype: np.dtype[Any]
    is_microscaled: bool = False

    def arguments(self, weights: minilm.Weights, tokens: minilm.Tokens, eps: float) -> tuple[Any, ...]:
        """Return the kernel's arguments; norms and biases stay float32 in every format."""
        w = weights
        tables = tuple(table.astype(self.dtype) for table in (w.word_table, w.position_table, w.type_table))
        dense: tuple[npt.NDArray[Any], ...]
        if self.is_microscaled:
            dense = (*kernels.pack_weight(w.w1), w.b1, *kernels.pack_weight(w.w2), w.b2)
        else:
            dense = (w.w1.astype(self.dtype), w.b1, w.w2.astype(self.dtype), w.b2)
        return (
            (tokens.ids, tokens.positions, tokens.types),
            (*tables, w.embedding_gamma, w.embedding_beta),
            dense,
            (w.gamma, w.beta),
            eps,
        )


FORMATS = {
    "fp32": _Format(1e-5, kernels.embedded_feed_forward, dtypes.dtype("float32")),
    "bf16": _Format(1e-2, kernels.embedded_feed_forward, dtypes.dtype("bfloat16")),
    "mxfp8": _Format(6e-2, kernels.embedded_feed_forward_mx, dtypes.dtype("bfloat16"), is_microscaled=True),
}
"""The formats by name."""

_PARTS = ("embedding", "feed_forward", "block")
_LIMITED = ("feed_forward", "block")

Progress = Callable[[str], None]


def reference(weights: minilm.Weights, tokens: minilm.Tokens, eps: float) -> tuple[Doubles, Doubles, Doubles]:
    """Compute the same in float64 with NumPy.

    Parameters
    ----------
    weights : Weights
        The model's float32 weights.
    tokens : Tokens
        T tokens.
    eps : float
        Added to variances.

    Returns
    -------
    embedded, dense, output : numpy.ndarray
        (T, D): the embedding, the feed-forward block alone, and the block with residual and layer norm.
    """

    def normalized(x: Doubles, gamma: npt.NDArray[Any], beta: npt.NDArray[Any]) -> Doubles:
        centred = x - x.mean(axis=-1, keepdims=True)
        variance = np.square(centred).mean(axis=-1, keepdims=True)
        return np.asarray(centred / np.sqrt(variance + eps) * gamma + beta)

    w = weights
    total = w.word_table[tokens.ids[:, 0]].astype(np.float64)
    total += w.position_table[tokens.positions[:, 0]]
    total += w.type_table[tokens.types[:, 0]]
    embedded = normalized(total, w.embedding_gamma, w.embedding_beta)
    hidden = embedded @ w.w1.astype(np.float64) + w.b1
    active = hidden * 0.5 * (1.0 + np.vectorize(erf, otypes=[np.float64])(hidden / sqrt(2.0)))
    dense = active @ w.w2.astype(np.float64) + w.b2
    return embedded, dense, normalized(embedded + dense, w.gamma, w.beta)


def run_demo(
    sentences: Sequence[str] | None = None,
    formats: Sequence[str] = tuple(FORMATS),
    out: str | os.PathLike[str] = "out",
    weights: str | os.PathLike[str] | None = None,
    progress: Progress = lambda step: None,
    overrides: Mapping[str, Any] | None = None,
) -> dict[str, Any]:
    """Run the demo and return its figures.

    Parameters
    ----------
    sentences : sequence of str, optional
        What to embed; by default `SENTENCES`.
    formats : sequence of str
        Names in `FORMATS`.
    out : path
        Directory for the Perfetto traces; made if it is not there.
    weights : path, optional
        Weights file or its directory; by default the installed package's.
    progress : callable
        Told what is being done.
    overrides : mapping of str to object, optional
        Values in place of the hardware table's; see `trn3.RunOptions`.

    Returns
    -------
    dict
        Plain data: the workload, and under ``formats`` for each the errors (relative L2), times, utilisation, bytes.

    Raises
    ------
    FileFormatError
        The model's files are missing or damaged.
    SpecError
        A value cannot take the place of the hardware table's.
    Trn3Error
        A format has no such name; the directory cannot be written.
    """
    unknown = [name for name in formats if name not in FORMATS]
    if unknown or not formats:
        raise Trn3Error(f"demo: format {', '.join(unknown) or '(none)'}: not one of {', '.join(FORMATS)}; name some")
    options = RunOptions(overrides=overrides or {})
    progress("reading the model")
    directory = _made(Path(out))
    sentences = SENTENCES if sentences is None else sentences
    config = minilm.load_config(weights)
    model, tokens = minilm.load_weights(weights), minilm.tokenize(sentences, weights)
    progress("float64 reference")
    expected = reference(model, tokens, config.layer_norm_eps)
    results = [
        _run_format(name, model, tokens, config.layer_norm_eps, expected, directory, progress, options)
        for name in formats
    ]
    return {
        "model": "all-MiniLM-L6-v2",
        "part": "embedding, feed-forward block of layer 0, residual and layer norm; no attention",
        "target": results[0]["report"]["target"],
        "sentences": len(sentences),
        "tokens": len(tokens.ids),
        "hidden_size": config.hidden_size,
        "intermediate_size": config.intermediate_size,
        "formats": results,
        "passed": all(result["passed"] for result in results),
    }


def _made(directory: Path) -> Path:
    try:
        directory.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        raise _unwritable(directory, error) from None
    return directory


def _unwritable(path: Path, error: OSError) -> Trn3Error:
    return Trn3Error(f"demo: {path}: cannot be written ({error.strerror or error}); name another place")


def _run_format(
    name: str,
    weights: minilm.Weights,
    tokens: minilm.Tokens,
    eps: float,
    expected: tuple[Doubles, ...],
    directory: Path,
    progress: Progress,
    options: RunOptions,
) -> dict[str, Any]:
    made = FORMATS[name]
    progress(f"{name}: preparing weights")
    arguments = made.arguments(weights, tokens, eps)
    progress(f"{name}: recording and running")
    finished = run(made.kernel, *arguments, options=options)
    errors = {
        part: _relative_error(found, true) for part, found, true in zip(_PARTS, finished.result, expected, strict=True)
    }
    progress(f"{name}: timing")
    start = time.perf_counter()
    report = finished.report.to_dict()
    trace = directory / f"demo-{name}.perfetto-trace"
    try:
        finished.report.write_perfetto(trace)
    except OSError as error:
        raise _unwritable(trace, error) from None
    return {
        "format": name,
        "errors": errors,
        "error_max": made.error_max,
        "passed": all(errors[part] <= made.error_max for part in _LIMITED),
        "record_s": finished.record_s,
        "run_s": finished.run_s,
        "timing_s": time.perf_counter() - start,
        "findings": finished.findings,
        "trace": str(trace),
        "report": report,
    }


def _relative_error(found: npt.NDArray[Any], expected: Doubles) -> float:
    """Return the L2 norm of the difference over that of the expected values."""
    return float(np.linalg.norm(found.astype(np.float64) - expected) / np.linalg.norm(expected))


def demo(
    sentences: Sequence[str] | None = None,
    formats: Sequence[str] = tuple(FORMATS),
    out: str | os.PathLike[str] = "out",
    weights: str | os.PathLike[str] | None = None,
    json: str | os.PathLike[str] | None = None,
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
        figures = run_demo(sentences, formats, out, weights, progress, overrides)
    if json is not None:
        try:
            Path(json).write_text(dumps(_finite(figures), indent=1) + "\n")
        except OSError as error:
            raise _unwritable(Path(json), error) from None
    _print(figures)
    if not figures["passed"]:
        failed = ", ".join(result["format"] for result in figures["formats"] if not result["passed"])
        print(f"trn3: demo: {failed}: error above the limit", file=sys.stderr)
        raise SystemExit(1)


def _finite(value: Any) -> Any:
    """Replace what JSON has no number for by None."""
    if isinstance(value, dict):
        return {key: _finite(item) for key, item in value.items()}
    if isinstance(value, (list, tuple)):
        return [_finite(item) for item in value]
    return None if isinstance(value, float) and not isfinite(value) else value


@contextlib.contextmanager
def _progress() -> Iterator[Progress]:
    """Show what is being done on a terminal; nowhere else."""
    if not sys.stderr.isatty():
        yield lambda step: None
        return
    from rich.console import Console

    with Console(stderr=True).status("starting") as status:
        yield lambda step: status.update(step)


def _print(figures: dict[str, Any]) -> None:
    inside = f"{figures['hidden_size']} -> {figures['intermediate_size']} -> {figures['hidden_size']}"
    print(
        f"{figures['model']} on one core of {figures['target']}:"
        f" {figures['sentences']} sentence{'s' * (figures['sentences'] > 1)}, {figures['tokens']} tokens\n"
        f"Embedding, then the feed-forward block of the first layer ({inside}, GELU) with residual and layer norm.\n"
        "Attention comes in a later version: the block takes the embedding's output.\n"
    )
    names = [result["format"].upper() for result in figures["formats"]]
    columns = [_column(result) for result in figures["formats"]]
    rows = [(label, *(column[label] for column in columns)) for label in columns[0]]
    _print_table(("", *names), rows)
    for result in figures["formats"]:
        for finding in result["findings"]:
            print(f"{result['format']}: finding: {finding['message']}")
    print(
        "\nErrors are relative (L2) to NumPy in float64. MFU counts BF16 equivalents: an FP32 product is 4, an MXFP8\n"
        "product 1/4; the published peak is the core's share of the chip's. Open the traces at https://ui.perfetto.dev."
    )
    for result in figures["formats"]:
        print(f"{result['format']} trace: {result['trace']}")


def _column(result: dict[str, Any]) -> dict[str, str]:
    report, errors = result["report"], result["errors"]
    return {
        "error of the block": f"{errors['block']:.2e}",
        "  of the feed-forward alone": f"{errors['feed_forward']:.2e}",
        "  limit of both": f"{result['error_max']:.0e} {'ok' if result['passed'] else 'EXCEEDED'}",
        "emulated time": f"{report['total_s'] * 1e6:.2f} us",
        "  fixed overhead on top": f"{report['fixed_s'] * 1e6:.2f} us",
        "matrix products": f"{report['flops'] / report['total_s'] / 1e12:.2f} TFLOP/s",
        "MFU of the published peak": f"{report['mfu']:.2%}",
        "  of the array's peak": f"{report['mfu_array']:.2%}",
        "HBM bytes moved": f"{report['hbm_bytes']:,}",
        "instructions": f"{report['instructions']:,}",
        "findings": f"{len(result['findings'])}",
        "host time of recording": f"{result['record_s'] * 1e3:.1f} ms",
        "  of running": f"{result['run_s'] * 1e3:.1f} ms",
        "  of timing and trace": f"{result['timing_s'] * 1e3:.1f} ms",
    }


def _print_table(columns: Sequence[str], rows: Sequence[Sequence[str]]) -> None:
    """Print a table: ruled on a terminal, aligned text elsewhere."""
    if sys.stdout.isatty():
        from rich.console import Console
        from rich.table import Table
        from rich.text import Text

        grid = Table()
        for at, column in enumerate(columns):
            grid.add_column(column, justify="right" if at else "left")
        for row in rows:
            grid.add_row(*(Text(cell, style="bold red" if "EXCEEDED" in cell else "") for cell in row))
        Console(highlight=False).print(grid)
        return
    widths = [max(len(row[at]) for row in [columns, *rows]) for at in range(len(columns))]
    for row in [columns, *rows]:
        cells = [cell.rjust(width) for cell, width in zip(row[1:], widths[1:], strict=True)]
        print("  ".join([row[0].ljust(widths[0]), *cells]).rstrip())
