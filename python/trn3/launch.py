"""Running other people's scripts: their ``import nki`` finds this package, and so do the packages around it.

``trn3 run script.py`` does what ``python script.py`` does on a machine with a Trainium. PyTorch's XLA device, which
such scripts name, is stood in for by the CPU: tensors stay where they are, kernels run on the emulator when they are
called.
"""

from __future__ import annotations

import contextlib
import importlib.util
import os
import re
import runpy
import sys
import traceback
import types
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from trn3 import nki
from trn3.errors import Trn3Error
from trn3.nki import _kernel
from trn3.report import Report
from trn3.report import page as page_module
from trn3.system import Run

__all__ = ["make_folder", "print_error", "run_script", "stand_ins", "summary", "write_reports"]


def _torch_xla() -> dict[str, types.ModuleType]:
    """Return modules that name the CPU as the XLA device."""

    def device(*_: Any, **__: Any) -> Any:
        import torch

        return torch.device("cpu")

    def nothing(*_: Any, **__: Any) -> None:
        """Nothing is deferred, so there is nothing to wait for."""

    whole = types.ModuleType("torch_xla")
    core = types.ModuleType("torch_xla.core")
    model = types.ModuleType("torch_xla.core.xla_model")
    whole.device, whole.sync, whole.core = device, nothing, core  # type: ignore[attr-defined]
    core.xla_model = model  # type: ignore[attr-defined]
    model.xla_device, model.mark_step, model.wait_device_ops = device, nothing, nothing  # type: ignore[attr-defined]
    return {module.__name__: module for module in (whole, core, model)}


def _torch_neuronx() -> dict[str, types.ModuleType]:
    module = types.ModuleType("torch_neuronx")
    module.nki_jit = nki.jit  # type: ignore[attr-defined]
    return {"torch_neuronx": module}


#: Packages that exist on a machine with a Trainium only, and what stands in for them where they are not installed.
_STAND_INS = {"torch_xla": _torch_xla, "torch_neuronx": _torch_neuronx}


@contextlib.contextmanager
def stand_ins() -> Iterator[None]:
    """Make ``nki`` and the packages around it importable meanwhile."""
    before = set(sys.modules)
    nki.activate()
    for name, make in _STAND_INS.items():
        if name not in sys.modules and importlib.util.find_spec(name) is None:
            sys.modules.update(make())
    try:
        yield
    finally:
        for name in ["nki", *_STAND_INS]:
            for loaded in [known for known in sys.modules if known == name or known.startswith(f"{name}.")]:
                if loaded not in before:
                    del sys.modules[loaded]


@contextlib.contextmanager
def _as_main(path: str, arguments: Sequence[str]) -> Iterator[None]:
    """Make the process look as Python makes it for a script; what it leaves in the process is forgotten again."""
    argv, search, before, environment = sys.argv, sys.path[:], set(sys.modules), dict(os.environ)
    folder = os.path.dirname(os.path.abspath(path))
    sys.argv = [path, *arguments]
    sys.path.insert(0, folder)
    try:
        yield
    finally:
        sys.argv, sys.path[:] = argv, search
        os.environ.clear()
        os.environ.update(environment)
        for name in set(sys.modules) - before:
            file = getattr(sys.modules[name], "__file__", None)
            if file is not None and os.path.dirname(os.path.abspath(file)) == folder:
                del sys.modules[name]


def run_script(path: str | os.PathLike[str], arguments: Sequence[str] = ()) -> list[Run]:
    """Run a Python script as its author would, with ``nki`` on the emulator.

    Parameters
    ----------
    path : path
        The script; it runs as ``__main__``, from its own folder's modules.
    arguments : sequence of str
        What it finds in ``sys.argv`` after its name.

    Returns
    -------
    list of Run
        Every kernel that it called, in order: Program, findings and, when asked for, the report. The results are the
        script's own and are not kept.

    Raises
    ------
    Trn3Error
        There is no such file. Whatever the script raises comes through.
    """
    name = os.fspath(path)
    if not os.path.isfile(name):
        raise Trn3Error(f"run: {name}: no such file [run.script]")
    runs: list[Run] = []

    def note(call: _kernel.Call) -> None:
        runs.append(Run(None, call.program, call.findings, call.table, call.record_s, call.run_s, call.turns))

    with stand_ins(), _as_main(name, arguments), _kernel.observed(note):
        try:
            runpy.run_path(name, run_name="__main__")
        except SystemExit as left:
            if left.code not in (None, 0):
                raise
    return runs


def print_error(error: Exception, script: str | os.PathLike[str]) -> None:
    """Print an error of a script's own, as Python prints it: from the script's first line on."""
    name = os.fspath(script)
    trace = error.__traceback__
    while trace is not None and trace.tb_frame.f_code.co_filename != name:
        trace = trace.tb_next
    traceback.print_exception(type(error), error, trace)


def write_reports(runs: Mapping[str, Run], folder: str | os.PathLike[str]) -> list[str]:
    """Write the report of each run as a page, as JSON and as a Perfetto trace.

    Parameters
    ----------
    runs : mapping of str to Run
        Runs by kernel; the files are called after it.
    folder : path
        Where the files go; made if it is not there.

    Returns
    -------
    list of str
        The files.

    Raises
    ------
    Trn3Error
        They cannot be written.
    """
    make_folder(folder)
    try:
        return _write_reports(runs, folder)
    except OSError as error:
        raise _unwritable(folder, error) from None


def make_folder(folder: str | os.PathLike[str]) -> None:
    """Make a folder for reports, unless it is there.

    Raises
    ------
    Trn3Error
        It cannot be made, or not be written to.
    """
    try:
        os.makedirs(folder, exist_ok=True)
    except OSError as error:
        raise _unwritable(folder, error) from None
    if not os.access(folder, os.W_OK):
        raise _unwritable(folder, PermissionError(13, "Permission denied"))


def _unwritable(folder: str | os.PathLike[str], error: OSError) -> Trn3Error:
    reason = error.strerror or error
    return Trn3Error(f"run: {os.fspath(folder)}: cannot be written ({reason}); name another place [run.out]")


def _write_reports(runs: Mapping[str, Run], folder: str | os.PathLike[str]) -> list[str]:
    written = []
    for kernel, run in runs.items():
        name = re.sub(r"[^\w.-]", "_", kernel)
        page, figures, trace = (
            os.path.join(folder, f"{name}.{ending}") for ending in ("html", "json", "perfetto-trace")
        )
        run.report.write_html(page)
        page_module.write_whole(run.report.to_json(), figures)
        run.report.write_perfetto(trace)
        written += [page, figures, trace]
    return written


def summary(runs: Sequence[Run]) -> str:
    """Return one line for each kernel of a script: calls, instructions, emulated time of the last call, findings."""
    lines = []
    for kernel in dict.fromkeys(run.program.kernel for run in runs):
        own = [run for run in runs if run.program.kernel == kernel]
        last = own[-1]
        report: Report = last.report
        findings = {(found["rule"], found["file"], found["line"]): found for run in own for found in run.findings}
        calls = f"{len(own)} calls" if len(own) > 1 else "1 call"
        lines.append(
            f"{kernel}: {calls}, {last.program.instructions:,} instructions, {report.total_s * 1e6:.1f} us on"
            f" {last.program.target}"
        )
        lines += [f"  {found['file']}:{found['line']}: {found['message']}" for found in findings.values()]
    return "\n".join(lines)
