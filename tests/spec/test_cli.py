"""`trn3 spec` as a user runs it."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

from trn3 import spec

RUN = "from trn3.cli import main; main()"


def run(*arguments: str, code: int = 0, before: str = "", **variables: str) -> subprocess.CompletedProcess[str]:
    done = subprocess.run(
        [sys.executable, "-c", before + RUN, *arguments],
        capture_output=True,
        text=True,
        env={**os.environ, "COLUMNS": "40", **variables},
        check=False,
    )
    assert done.returncode == code, done.stderr
    assert "Traceback" not in done.stderr
    return done


def test_a_table_is_printed_whole_into_a_pipe() -> None:
    lines = run("spec", "trn3").stdout.splitlines()
    assert lines[0].split() == ["key", "value", "unit", "status", "source"]
    table = spec.load("trn3")
    assert [line.split()[0] for line in lines[1:]] == list(table)
    for line, entry in zip(lines[1:], table.values(), strict=True):
        assert entry.source in line
        assert entry.note is None or entry.note in line
        assert "\x1b" not in line


def test_grep_filters_lines() -> None:
    lines = run("spec", "trn3", "--grep", r"^dma\.HWDGE").stdout.splitlines()
    assert [line.split()[0] for line in lines[1:]] == [key for key in spec.load("trn3") if key.startswith("dma.hwdge")]
    assert run("spec", "trn3", "--grep", "no such text").stdout.splitlines()[1:] == []


def test_json_holds_everything() -> None:
    content = json.loads(run("spec", "trn3", "--json").stdout)
    table = spec.load("trn3")
    assert content["name"] == "trn3"
    assert [entry["key"] for entry in content["entries"]] == list(table)
    rates = {entry["key"]: entry["value"] for entry in content["entries"]}
    assert rates["vector.stream.bn_aggr_cycles_per_element"] == "13/3"
    assert rates["tensor.clock_hz"] == 2_400_000_000


def test_differences_show_both_values() -> None:
    lines = run("spec", "--diff", "trn2", "trn3").stdout.splitlines()
    assert lines[0].split() == ["key", "trn2", "trn3", "unit"]
    cells = {line.split()[0]: line.split()[1:] for line in lines[1:]}
    assert set(cells) == {pair.key for pair in spec.compare("trn2", "trn3")}
    assert cells["vector.clock_hz"] == ["9.6e8", "1.2e9", "Hz"]
    assert cells["tensor.mx_macs_per_cycle"] == ["-", "4", "MAC/cycle"]
    assert len(json.loads(run("spec", "--diff", "trn2", "trn3", "--json").stdout)) == len(cells)


def test_set_replaces_a_value() -> None:
    lines = run(
        "spec", "trn3", "--set", "dma.gap_ns=5", "--set", "hbm.stacks=2", "--grep", r"dma\.gap|hbm\.stack"
    ).stdout
    cells = {line.split()[0]: line for line in lines.splitlines()[1:]}
    assert cells["dma.gap_ns"].split()[1:4] == ["5", "ns", "override"]
    assert "in place of 40 ns (derived); outside the plausible range 20 to 100" in cells["dma.gap_ns"]
    assert cells["hbm.stack_bandwidth_peak_bytes_per_s"].split()[1] == "2.45e12"
    content = json.loads(run("spec", "trn3", "--set", "dma.gap_ns=25 ns", "--json").stdout)
    assert next(entry["value"] for entry in content["entries"] if entry["key"] == "dma.gap_ns") == 25


@pytest.mark.parametrize(
    ("setting", "key", "value"),
    [
        ("dma.gap_ns=20.5", "dma.gap_ns", 20.5),
        ("tensor.clock_hz=2e9", "tensor.clock_hz", 2_000_000_000),
        ("tensor.throttle.enabled=false", "tensor.throttle.enabled", False),
        ("vector.stream.reciprocal_cycles_per_element=15/2", "vector.stream.reciprocal_cycles_per_element", "15/2"),
        ("matmul.row_tiles=[128, 64]", "matmul.row_tiles", [128, 64]),
        ("core.generation=NeuronCore-v5", "core.generation", "NeuronCore-v5"),
        (" dma.gap_ns = 30", "dma.gap_ns", 30),
    ],
)
def test_values_of_every_kind_can_be_set(setting: str, key: str, value: object) -> None:
    content = json.loads(run("spec", "trn3", "--set", setting, "--json").stdout)
    found = next(entry for entry in content["entries"] if entry["key"] == key)
    assert (found["value"], found["status"]) == (value, "override")


def test_tables_are_set_side_by_side() -> None:
    lines = run("spec", "compare", "trn1", "trn2", "trn3").stdout.splitlines()
    assert lines[0].split() == ["key", "trn1", "trn2", "trn3", "unit"]
    cells = {line.split()[0]: line.split()[1:] for line in lines[1:]}
    assert cells["vector.clock_hz"] == ["1.12e9", "9.6e8", "1.2e9", "Hz"]
    assert cells["dma.hwdge.blocks"] == ["-", "2", "2", "count"]
    assert "tensor.rows" not in cells
    rows = spec.side_by_side("trn1", "trn2", "trn3")
    assert list(cells) == [row.key for row in rows if row.differs]
    everything = run("spec", "compare", "trn1", "trn2", "trn3", "--all").stdout.splitlines()
    assert [line.split()[0] for line in everything[1:]] == [row.key for row in rows]
    assert run("spec", "compare").stdout.splitlines()[0].split() == ["key", *spec.names(), "unit"]


def test_tables_side_by_side_as_json() -> None:
    content = json.loads(run("spec", "compare", "trn2", "trn3", "--json", "--grep", "^hbm").stdout)
    (row,) = [row for row in content if row["key"] == "hbm.bandwidth_peak_bytes_per_s"]
    assert row["unit"] == "B/s"
    assert [(one["table"], one["entry"]["value"]) for one in row["entries"]] == [("trn2", 2.9e12), ("trn3", 4.9e12)]
    assert row["entries"][0]["entry"]["source"].startswith("trainium2.rst")
    changed = json.loads(run("spec", "compare", "trn2", "--set", "hbm.stacks=2", "--all", "--json").stdout)
    (row,) = [row for row in changed if row["key"] == "hbm.stacks"]
    assert row["entries"][0]["entry"]["status"] == "override"


def test_conflicts_show_both_sides() -> None:
    lines = run("spec", "--conflicts", "trn3").stdout.splitlines()
    memory = next(line for line in lines if line.startswith("C2 "))
    for part in ("4.9e12 B/s", "4.7e12", "trainium3_arch.rst"):
        assert part in memory
    assert len(lines) == 1 + len(spec.conflicts("trn3"))
    assert len(run("spec", "--conflicts").stdout.splitlines()) == 1 + len(spec.conflicts())


def test_without_a_name_the_tables_are_listed() -> None:
    lines = run("spec").stdout.splitlines()
    assert [line.split()[0] for line in lines[1:]] == spec.names()


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        (["spec", "trn9"], "known: trn1, inf2, trn2, trn3"),
        (["spec", "--conflicts", "trn9"], "known: trn1, inf2, trn2, trn3"),
        (["spec", "--diff", "trn2", "trn9"], "known: trn1, inf2, trn2, trn3"),
        (["spec", "--diff", "trn2"], "known: trn1, inf2, trn2, trn3"),
        (["spec", "--diff", "--conflicts"], "exclude each other"),
        (["spec", "trn3", "--grep", "["], "is no regular expression"),
        (["spec", "trn3", "--set", "dma.gapp_ns=1"], "did you mean dma.gap_ns"),
        (["spec", "trn3", "--set", "dma.gap_ns"], "is not of the form key=value"),
        (["spec", "trn3", "--set", "dma.gap_ns=null"], "'null' is no number"),
        (["spec", "trn3", "--set", "dma.gap_ns=1 us"], 'unit is "us", must be "ns"'),
        (["spec", "--set", "dma.gap_ns=1"], "needs the name of a table"),
        (["spec", "--conflicts", "trn3", "--set", "dma.gap_ns=1"], "needs the name of a table"),
        (["spec", "trn3", "--all"], "belongs to compare"),
        (["spec", "compare", "trn2", "--diff"], "goes without --diff"),
        (["spec", "compare", "trn2", "trn9"], "known: trn1, inf2, trn2, trn3"),
    ],
)
def test_mistakes_are_one_line_and_code_2(arguments: list[str], said: str) -> None:
    done = run(*arguments, code=2)
    assert done.stdout == ""
    assert len(done.stderr.splitlines()) == 1
    assert done.stderr.startswith("trn3: ")
    assert said in done.stderr


def test_a_broken_file_is_one_line(tmp_path: Path) -> None:
    path = tmp_path / "mine.toml"
    path.write_text("[", encoding="utf-8")
    done = run("spec", str(path), code=2)
    assert len(done.stderr.splitlines()) == 1
    assert "mine.toml: line 1" in done.stderr


@pytest.mark.parametrize("missing", ["typer", "rich"])
def test_without_its_extra_the_command_says_what_to_install(missing: str) -> None:
    done = run("spec", code=1, before=f"import sys; sys.modules[{missing!r}] = None\n")
    assert len(done.stderr.splitlines()) == 1
    assert f"needs {missing}, which is not installed; pip install 'trn3[cli]'" in done.stderr


def test_colour_is_used_only_where_asked() -> None:
    asked = run("spec", "trn3", "--grep", "dma.gap", FORCE_COLOR="1", NO_COLOR="").stdout
    assert "\x1b[" in asked
    plain = run("spec", "trn3", "--grep", "dma.gap", NO_COLOR="1").stdout
    assert "\x1b[" not in plain


def test_a_narrow_terminal_folds_and_does_not_cut() -> None:
    shown = run("spec", "trn3", "--grep", r"dma\.gap", FORCE_COLOR="1", NO_COLOR="1", COLUMNS="50").stdout
    assert "…" not in shown
    assert "dma.gap_ns" in shown
