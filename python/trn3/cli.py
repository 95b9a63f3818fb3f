"""The `trn3` command.

Each command is a function below, listed in `COMMANDS`; its signature and docstring are its options and its help.
Commands print through `_show` or `_show_json` and raise `Trn3Error` for what the user can mend: `main` turns that into
one line and exit code 2.
"""

from __future__ import annotations

import json
import re
import sys
from collections.abc import Callable, Iterable, Sequence
from fractions import Fraction
from typing import Annotated, Any

from trn3 import spec as tables
from trn3.errors import Trn3Error

_missing: str | None = None
try:
    import typer
    from rich.console import Console
    from rich.table import Table as Grid
    from rich.text import Text
except ModuleNotFoundError as error:
    _missing = (error.name or "an extra").partition(".")[0]

__all__ = ["COMMANDS", "main"]


_SET_HELP = "Replace a value of the hardware table, such as dma.to_first_ns=800; may be repeated."


def spec(
    names: Annotated[
        list[str] | None, typer.Argument(metavar="[TABLE]...", help="Names of tables, or paths of TOML files.")
    ] = None,
    grep: Annotated[
        str | None, typer.Option("--grep", metavar="PATTERN", help="Only lines that match this regular expression.")
    ] = None,
    as_json: Annotated[bool, typer.Option("--json", help="Print JSON.")] = False,
    diff: Annotated[bool, typer.Option("--diff", help="Compare two tables.")] = False,
    conflicts: Annotated[bool, typer.Option("--conflicts", help="Show where public sources disagree.")] = False,
    settings: Annotated[list[str] | None, typer.Option("--set", metavar="KEY=VALUE", help=_SET_HELP)] = None,
    everything: Annotated[bool, typer.Option("--all", help="compare: also the values that are equal.")] = False,
) -> None:
    """Print hardware tables: every number with its unit, status and source.

    `trn3 spec compare [TABLE]...` sets tables side by side; without a name, all of them.
    """
    names = names or []
    match = _matcher(grep)
    overrides = _overrides(settings)
    if diff and conflicts:
        raise UsageError("--diff and --conflicts exclude each other")
    compares = bool(names) and names[0] == "compare"
    if compares and (diff or conflicts):
        raise UsageError("compare goes without --diff and --conflicts")
    if everything and not compares:
        raise UsageError("--all belongs to compare: trn3 spec compare --all")
    if overrides and (conflicts or not names):
        raise UsageError("--set needs the name of a table")
    if compares:
        _print_side_by_side(names[1:], overrides, match, everything, as_json)
    elif diff:
        if len(names) != 2:
            raise UsageError(
                f"--diff compares two tables, {len(names)} given; known: {', '.join(tables.names())};"
                " trn3 spec compare takes any number"
            )
        left, right = (tables.load(name, overrides) for name in names)
        _print_differences(left, right, match, as_json)
    elif conflicts:
        _print_conflicts(names, match, as_json)
    elif not names:
        _print_names(match, as_json)
    else:
        for name in names:
            _print_table(tables.load(name, overrides), match, as_json)


def demo(
    sentences: Annotated[
        list[str] | None, typer.Argument(metavar="[SENTENCE]...", help="What to embed; by default a list of 32.")
    ] = None,
    file: Annotated[
        str | None, typer.Option("--sentences", metavar="FILE", help="A text file with one sentence a line.")
    ] = None,
    formats: Annotated[
        list[str] | None, typer.Option("--format", metavar="NAME", help="fp32, bf16 or mxfp8; may be repeated.")
    ] = None,
    out: Annotated[str, typer.Option("--out", metavar="DIR", help="Where the traces go.")] = "out",
    weights: Annotated[
        str | None, typer.Option("--weights", metavar="PATH", help="Weights file or its directory.")
    ] = None,
    json_file: Annotated[
        str | None, typer.Option("--json", metavar="FILE", help="Also write the figures here.")
    ] = None,
    layers: Annotated[
        int | None, typer.Option("--layers", metavar="N", help="Only the first layers of the encoder.")
    ] = None,
    settings: Annotated[list[str] | None, typer.Option("--set", metavar="KEY=VALUE", help=_SET_HELP)] = None,
) -> None:
    """Embed sentences with all-MiniLM-L6-v2 on the emulated core in three formats, against NumPy."""
    # Only this command needs the packages of the extra `models`.
    from trn3 import demo as job

    if file is not None and sentences:
        raise UsageError("--sentences and sentences on the command line exclude each other")
    given = sentences or None if file is None else job.read_sentences(file)
    chosen = tuple(formats or job.FORMATS)
    job.demo(given, chosen, out, weights, json_file, layers, overrides=_overrides(settings))


def run(
    script: Annotated[str, typer.Argument(metavar="SCRIPT", help="A Python script that imports nki.")],
    arguments: Annotated[
        list[str] | None, typer.Argument(metavar="[ARGUMENT]...", help="What the script finds in sys.argv.")
    ] = None,
    report: Annotated[bool, typer.Option("--report", help="Print the report of each kernel's last call.")] = False,
    out: Annotated[
        str | None,
        typer.Option(
            "--out", metavar="DIR", help="Write each report there: page (HTML), figures (JSON), Perfetto trace."
        ),
    ] = None,
) -> None:
    """Run a script with ``nki`` on the emulator; options of the script go after ``--``."""
    from trn3 import launch

    if out is not None:
        # Better now than after an hour of emulation.
        launch.make_folder(out)
    try:
        runs = launch.run_script(script, arguments or [])
    except Trn3Error:
        raise
    except Exception as error:
        launch.print_error(error, script)
        raise SystemExit(1) from None
    last = {run.program.kernel: run for run in runs}
    if report:
        for each in last.values():
            each.report.print()
    elif runs:
        print(launch.summary(runs), file=sys.stderr)
    if out is not None:
        for path in launch.write_reports(last, out):
            print(path, file=sys.stderr)


COMMANDS: list[Callable[..., None]] = [spec, demo, run]


class UsageError(Trn3Error, ValueError):
    """The command line asks for something that does not exist."""


def main() -> None:
    """Run the command line."""
    if _missing is not None:
        needs = f"trn3: the command line needs {_missing}, which is not installed; pip install 'trn3[cli]'"
        print(needs, file=sys.stderr)
        raise SystemExit(1)
    app = typer.Typer(
        name="trn3", no_args_is_help=True, add_completion=False, pretty_exceptions_enable=False, rich_markup_mode=None
    )
    app.callback()(_about)
    for command in COMMANDS:
        app.command()(command)
    try:
        app()
    except Trn3Error as error:
        print(f"trn3: {error}", file=sys.stderr)
        raise SystemExit(2) from None
    except OSError as error:
        # What is printed cannot be written; what files say is an error of trn3's by now.
        print(f"trn3: the output cannot be written ({error.strerror or error})", file=sys.stderr)
        raise SystemExit(1) from None


def _about() -> None:
    """Emulate AWS Trainium3: values bit by bit and time."""


def _print_names(match: Callable[[Sequence[str]], bool], as_json: bool) -> None:
    known = [tables.load(name) for name in tables.names()]
    rows = [(table.name, table.title, str(len(table))) for table in known]
    rows = [row for row in rows if match(row)]
    if as_json:
        _show_json([{"name": name, "title": title, "entries": int(count)} for name, title, count in rows])
    else:
        _show(("table", "title", "entries"), rows)


def _print_table(table: tables.Table, match: Callable[[Sequence[str]], bool], as_json: bool) -> None:
    rows = [(entry, _row(entry)) for entry in table.values()]
    rows = [(entry, row) for entry, row in rows if match(row)]
    if as_json:
        _show_json({"name": table.name, "title": table.title, "entries": [_plain(entry) for entry, _ in rows]})
    else:
        _show(("key", "value", "unit", "status", "source"), (row for _, row in rows))


def _print_differences(
    one: tables.Table, two: tables.Table, match: Callable[[Sequence[str]], bool], as_json: bool
) -> None:
    rows = []
    for difference in tables.compare(one, two):
        sides = (difference.left, difference.right)
        unit = next(entry.unit for entry in sides if entry is not None)
        values = ["-" if entry is None else _number(entry.value) for entry in sides]
        rows.append((difference, (difference.key, *values, unit)))
    rows = [(difference, row) for difference, row in rows if match(row)]
    if as_json:
        _show_json([_plain(difference) for difference, _ in rows])
    else:
        _show(("key", one.name, two.name, "unit"), (row for _, row in rows))


def _print_side_by_side(
    names: Sequence[str],
    overrides: dict[str, Any],
    match: Callable[[Sequence[str]], bool],
    everything: bool,
    as_json: bool,
) -> None:
    chosen = [tables.load(name, overrides) for name in names or tables.names()]
    titles = [table.name for table in chosen]
    rows = []
    for row in tables.side_by_side(*chosen):
        values = ["-" if entry is None else _number(entry.value) for entry in row.entries]
        cells = (row.key, *values, row.unit)
        if (everything or row.differs) and match(cells):
            rows.append((row, cells))
    if as_json:
        _show_json([{"key": row.key, "unit": row.unit, "entries": _with_titles(row, titles)} for row, _ in rows])
    else:
        _show(("key", *titles, "unit"), (cells for _, cells in rows))


def _with_titles(row: tables.Row, titles: Sequence[str]) -> list[dict[str, Any]]:
    return [{"table": title, "entry": _plain(entry)} for title, entry in zip(titles, row.entries, strict=True)]


def _overrides(settings: Sequence[str] | None) -> dict[str, Any]:
    """Return values by key from texts such as dma.gap_ns=20; what is no number, truth value or list stays a text."""
    values: dict[str, Any] = {}
    for setting in settings or ():
        key, equals, text = setting.partition("=")
        if not equals or not key.strip():
            raise UsageError(f"--set: {setting!r} is not of the form key=value")
        try:
            value = json.loads(text)
        except ValueError:
            value = text.strip()
        if value is None or isinstance(value, dict):
            raise UsageError(f"--set: {key.strip()}: {text!r} is no number, fraction, truth value, text or list")
        values[key.strip()] = value
    return values


def _print_conflicts(names: Sequence[str], match: Callable[[Sequence[str]], bool], as_json: bool) -> None:
    rows = []
    for name in names or tables.names():
        table = tables.load(name)
        for other in tables.conflicts(table):
            entry = table[other.key]
            kept = f"{_number(entry.value)} {entry.unit}"
            said = f"{_number(other.value)} ({other.source})"
            rows.append((other, (other.id or "-", other.table, other.key, kept, said, other.why)))
    rows = [(other, row) for other, row in rows if match(row)]
    if as_json:
        _show_json([_plain(other) for other, _ in rows])
    else:
        _show(("id", "table", "key", "value", "elsewhere", "why not"), (row for _, row in rows))


def _row(entry: tables.Entry) -> tuple[str, ...]:
    about = [entry.source]
    if entry.range is not None:
        low, high = (_number(bound) for bound in entry.range)
        about.append(f"{'outside the plausible range' if entry.is_outside_range else 'plausible'} {low} to {high}")
    if entry.note is not None:
        about.append(entry.note)
    return entry.key, _number(entry.value), entry.unit, entry.status, "; ".join(about)


def _number(value: object) -> str:
    """Write a value so that its size is seen: 4.9e12 rather than 4900000000000."""
    if isinstance(value, bool):
        return "true" if value else "false"
    if isinstance(value, tuple):
        return "[" + ", ".join(map(_number, value)) + "]"
    if isinstance(value, int | float) and abs(value) >= 1_000_000 and float(f"{value:.6g}") == value:
        mantissa, exponent = f"{value:.5e}".split("e")
        return f"{mantissa.rstrip('0').rstrip('.')}e{int(exponent)}"
    if isinstance(value, float) and value.is_integer():
        return str(int(value))
    return str(value)


def _matcher(pattern: str | None) -> Callable[[Sequence[str]], bool]:
    if pattern is None:
        return lambda row: True
    try:
        compiled = re.compile(pattern, re.IGNORECASE)
    except re.error as error:
        raise UsageError(f"--grep: {pattern!r} is no regular expression: {error}") from None
    return lambda row: any(compiled.search(cell) for cell in row)


def _plain(record: Any) -> Any:
    """Turn records into what JSON holds; fractions become text such as "1/4"."""
    if isinstance(record, Fraction):
        return str(record)
    if isinstance(record, list | tuple):
        return [_plain(item) for item in record]
    if hasattr(record, "__dataclass_fields__"):
        return {name: _plain(getattr(record, name)) for name in record.__dataclass_fields__}
    return record


def _show_json(content: object) -> None:
    print(json.dumps(content, indent=2))


def _show(columns: Sequence[str], rows: Iterable[Sequence[str]]) -> None:
    """Print a table: fitted to a terminal, or one line a row to anything else."""
    console = Console(highlight=False, emoji=False, markup=False)
    lines = list(rows)
    if console.is_terminal:
        grid = Grid()
        for at, column in enumerate(columns):
            widest = max((len(row[at]) for row in lines), default=0)
            # Names keep their width while half the terminal is left for the rest; cells may fold, nothing is cut.
            grid.add_column(column, overflow="fold", min_width=min(widest, console.width // 2) if at == 0 else None)
        for row in lines:
            grid.add_row(*map(Text, row))
        console.print(grid)
        return
    widths = [max(len(row[at]) for row in [columns, *lines]) for at in range(len(columns))]
    for row in [columns, *lines]:
        print("  ".join(cell.ljust(width) for cell, width in zip(row, widths, strict=True)).rstrip())


if __name__ == "__main__":
    main()
