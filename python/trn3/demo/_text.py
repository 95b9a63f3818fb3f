"""The figures of the demo as text: ruled tables on a terminal, aligned columns elsewhere."""

from __future__ import annotations

import sys
from collections.abc import Sequence
from typing import Any

__all__ = ["print_figures"]

_SENTENCE_MAX = 44
"""Characters of a sentence in a table."""


def print_figures(figures: dict[str, Any]) -> None:
    """Print the figures of `run_demo`."""
    tokens = f"{figures['tokens']} tokens in {len(figures['sentences'])} x {figures['length']} places"
    launches = f", {figures['launches']} launches" if figures["launches"] > 1 else ""
    print(
        f"{figures['model']}, {_count(figures['layers'], 'layer')}, on one core of {figures['target']}:"
        f" {_count(len(figures['sentences']), 'sentence')}, {tokens}{launches}"
    )
    for number, had in figures["cut"].items():
        print(f"notice: sentence {number} has {had} tokens and is cut to what the model takes")
    if figures["pairs"]:
        print("\nSimilarity of two sentences (cosine); host is NumPy in float32")
        _print_table(*_similarities(figures), text_columns=2)
    print("\nRelative error (L2) against float64, and emulated time (us)")
    _print_table(*_layers(figures))
    print()
    _print_table(*_totals(figures))
    for result in figures["formats"]:
        for finding in result["findings"]:
            print(f"{result['format']}: finding: {finding['message']}")
    print(
        f"\nHost time {figures['host_s']:.1f} s, {figures['host']['reference_s']:.1f} s of it NumPy in float32."
        " MFU counts BF16 equivalents: an FP32 product\nis 4, an MXFP8 product 1/4; the published peak is the core's"
        " share of the chip's. Scores and values of attention are\nBF16 beside MXFP8. Profiles:"
        f" {', '.join(result['page'] for result in figures['formats'])}; https://ui.perfetto.dev opens the"
        "\n.perfetto-trace files beside them."
    )


def _count(number: int, noun: str) -> str:
    return f"{number} {noun}{'s' * (number != 1)}"


Table = tuple[list[str], list[list[str]]]


def _similarities(figures: dict[str, Any]) -> Table:
    names = [result["format"] for result in figures["formats"]]
    pairs = figures["pairs"]
    published = any(pair["published"] is not None for pair in pairs)
    columns = ["one", "other", *(["published"] * published), "host", *(name.upper() for name in names)]
    rows = []
    for pair in pairs:
        row = [_short(figures["sentences"][pair[which] - 1]) for which in ("first", "second")]
        if published:
            row.append("" if pair["published"] is None else f"{pair['published']:.4f}")
        rows.append([*row, *(f"{pair[name]:.4f}" for name in ("host", *names))])
    return columns, rows


def _short(sentence: str) -> str:
    # Piped output is ASCII whatever the locale; a terminal shows what it can.
    shown = sentence if sys.stdout.isatty() else sentence.encode("ascii", "replace").decode()
    return shown if len(shown) <= _SENTENCE_MAX else shown[: _SENTENCE_MAX - 3].rstrip() + "..."


def _layers(figures: dict[str, Any]) -> Table:
    columns = ["", "host"]
    for result in figures["formats"]:
        columns += [result["format"].upper(), "us"]
    host = [*figures["host"]["layers"], figures["host"]["error"]]
    rows = []
    for at, layer in enumerate(figures["formats"][0]["layers"]):
        row = [layer["name"], f"{host[at]:.1e}"]
        for result in figures["formats"]:
            own = result["layers"][at]
            row += [f"{own['error']:.1e}", f"{own['time_s'] * 1e6:.1f}"]
        rows.append(row)
    return columns, rows


def _totals(figures: dict[str, Any]) -> Table:
    columns = ["", *(result["format"].upper() for result in figures["formats"])]
    cells = [_total(result) for result in figures["formats"]]
    return columns, [[label, *(cell[label] for cell in cells)] for label in cells[0]]


def _total(result: dict[str, Any]) -> dict[str, str]:
    return {
        "result": "PASS" if result["passed"] else "FAIL",
        "error of all embeddings": f"{result['error']:.2e}",
        "  at most": f"{result['error_max']:.0e}",
        "worst cosine with float64": f"{result['cosine']:.7f}",
        "  at least": f"{result['cosine_min']:g}",
        "emulated time": f"{result['total_s'] * 1e6:.1f} us",
        "  fixed overhead on top": f"{result['fixed_s'] * 1e6:.1f} us",
        "  TensorE busy": f"{result['busy_s']['tensor'] * 1e6:.1f} us",
        "  VectorE busy": f"{result['busy_s']['vector'] * 1e6:.1f} us",
        "  ScalarE busy": f"{result['busy_s']['scalar'] * 1e6:.1f} us",
        "  GpSimdE busy": f"{result['busy_s']['gpsimd'] * 1e6:.1f} us",
        "matrix products": f"{result['flops'] / result['total_s'] / 1e12:.1f} TFLOP/s",
        "MFU of the published peak": f"{result['mfu']:.1%}",
        "  of the array's peak": f"{result['mfu_array']:.1%}",
        "HBM bytes moved": f"{result['hbm_bytes']:,}",
        "instructions": f"{result['instructions']:,}",
        "findings": f"{len(result['findings'])}",
        "host: preparing weights": f"{result['prepare_s']:.2f} s",
        "  recording": f"{result['record_s']:.2f} s",
        "  running": f"{result['run_s']:.2f} s",
        "  timing and trace": f"{result['timing_s']:.2f} s",
    }


def _print_table(columns: Sequence[str], rows: Sequence[Sequence[str]], text_columns: int = 1) -> None:
    """Print a table whose first columns are text and whose other ones are numbers."""
    if sys.stdout.isatty():
        from rich.console import Console
        from rich.table import Table as Grid
        from rich.text import Text

        grid = Grid()
        for at, column in enumerate(columns):
            grid.add_column(column, justify="left" if at < text_columns else "right", overflow="fold")
        styles = {"FAIL": "bold red", "PASS": "green"}
        for row in rows:
            grid.add_row(*(Text(cell, style=styles.get(cell, "")) for cell in row))
        Console(highlight=False).print(grid)
        return
    widths = [max(len(row[at]) for row in [columns, *rows]) for at in range(len(columns))]
    for row in [columns, *rows]:
        cells = [
            cell.ljust(width) if at < text_columns else cell.rjust(width)
            for at, (cell, width) in enumerate(zip(row, widths, strict=True))
        ]
        print("  ".join(cells).rstrip())
