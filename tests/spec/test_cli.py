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
