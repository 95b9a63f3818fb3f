"""``trn3 run``: other people's scripts on the emulator."""

import os
import subprocess
import sys

import pytest

from trn3 import errors, launch

SCRIPT = """
import os, sys
import numpy as np
import nki
import nki.isa as nisa
import nki.language as nl
from neighbour import FACTOR

@nki.jit
def kernel(x):
    out = nl.ndarray(x.shape, dtype=x.dtype, buffer=nl.shared_hbm)
    nl.store(out, nl.multiply(nl.load(x), FACTOR))
    return out

if __name__ == "__main__":
    os.environ["NEURON_PLATFORM_TARGET_OVERRIDE"] = "trn2"
    print(sys.argv[1:], kernel(np.ones((2, 2), np.float32)).sum())
    kernel(np.ones((4, 2), np.float32))
"""


@pytest.fixture
def script(tmp_path):
    (tmp_path / "neighbour.py").write_text("FACTOR = 3.0\n")
    path = tmp_path / "script.py"
    path.write_text(SCRIPT)
    return path


def test_a_script_runs_as_main_with_its_arguments_and_neighbours(script, capsys):
    argv, path, environment = sys.argv, sys.path[:], dict(os.environ)
    runs = launch.run_script(script, ["--one", "two"])
    assert capsys.readouterr().out == "['--one', 'two'] 12.0\n"
    assert [run.program.kernel for run in runs] == ["kernel", "kernel"]
    assert {run.program.target for run in runs} == {"trn2"}
    assert runs[0].report.total_s > 0
    assert (sys.argv, sys.path, dict(os.environ)) == (argv, path, environment)
    assert "neighbour" not in sys.modules


def test_the_summary_names_kernels_and_findings(script):
    script.write_text(SCRIPT.replace("nl.multiply(nl.load(x), FACTOR)", "nl.divide(nl.load(x), FACTOR)"))
    text = launch.summary(launch.run_script(script, []))
    assert text.startswith("kernel: 2 calls, ")
    assert "us on trn2" in text
    assert f"{script}:" in text
    assert "operand.simulator_only" in text


def test_errors_come_through(script):
    with pytest.raises(errors.Trn3Error, match="no such file"):
        launch.run_script(script.parent / "absent.py")
    script.write_text("import sys\nsys.exit(3)\n")
    with pytest.raises(SystemExit, match="3"):
        launch.run_script(script)
    script.write_text("import sys\nsys.exit(0)\n")
    assert launch.run_script(script) == []
    script.write_text("raise KeyError('x')\n")
    with pytest.raises(KeyError):
        launch.run_script(script)


def test_the_command(script):
    command = [sys.executable, "-m", "trn3.cli", "run", str(script), "--", "--flag"]
    done = subprocess.run(command, capture_output=True, text=True, check=True)
    assert done.stdout == "['--flag'] 12.0\n"
    assert "kernel: 2 calls" in done.stderr
    done = subprocess.run([*command[:4], "--report", str(script)], capture_output=True, text=True, check=True)
    assert "MFU" in done.stdout
    out = script.parent / "out"
    done = subprocess.run([*command[:4], "--out", str(out), str(script)], capture_output=True, text=True, check=True)
    assert sorted(path.name for path in out.iterdir()) == ["kernel.html", "kernel.json", "kernel.perfetto-trace"]
    assert str(out / "kernel.html") in done.stderr
    done = subprocess.run([*command[:4], "absent.py"], capture_output=True, text=True, check=False)
    assert (done.returncode, done.stderr) == (2, "trn3: run: absent.py: no such file [run.script]\n")


def _printed(folder, source, *options):
    script = folder / "broken.py"
    script.write_bytes(source)
    command = [sys.executable, "-m", "trn3.cli", "run", *options, str(script)]
    return script, subprocess.run(command, capture_output=True, text=True, timeout=60, check=False)


@pytest.mark.parametrize(
    ("source", "last"),
    [
        (b'raise ValueError("boom")', "ValueError: boom"),
        (b"import nowhere_at_all", "ModuleNotFoundError: No module named 'nowhere_at_all'"),
        (b"def (", "SyntaxError: invalid syntax"),
        (b"\x00", "SyntaxError: source code string cannot contain null bytes"),
    ],
)
def test_an_error_of_a_script_is_shown_as_python_shows_it(tmp_path, source, last):
    _, done = _printed(tmp_path, source)
    assert done.returncode == 1
    assert done.stderr.splitlines()[-1] == last
    for ours in ("typer", "runpy", "launch.py", "cli.py"):
        assert ours not in done.stderr


def test_an_error_made_in_python_names_the_line_of_the_script(tmp_path):
    broken = SCRIPT.replace("FACTOR)", "FACTOR).broken").replace("from neighbour import FACTOR", "FACTOR = 2.0")
    source = broken.replace("nl.multiply(nl.load(x), FACTOR).broken", "nl.sum(nl.load(x), 0)")
    script, done = _printed(tmp_path, source.encode())
    assert done.returncode == 2
    assert "[tensor_reduce.axis]" in done.stderr
    assert f"at {script}:12" in done.stderr


@pytest.mark.parametrize("name", ["file", "file/below", "/proc/trn3"])
def test_reports_that_cannot_be_written_are_one_line_before_the_script_runs(tmp_path, name):
    (tmp_path / "file").touch()
    _, done = _printed(tmp_path, b'print("ran")', "--out", str(tmp_path / name))
    assert done.returncode == 2
    assert done.stdout == ""
    assert done.stderr.count("\n") == 1
    assert "cannot be written" in done.stderr
    assert "[run.out]" in done.stderr


def test_reports_are_written_whole_or_not_at_all(tmp_path, monkeypatch):
    from trn3.report import page

    def interrupted(*_):
        raise KeyboardInterrupt

    monkeypatch.setattr(os, "replace", interrupted)
    with pytest.raises(KeyboardInterrupt):
        page.write_whole("text", tmp_path / "page.html")
    assert list(tmp_path.iterdir()) == []
