"""The chip, and running kernels and Programs on it."""

from __future__ import annotations

import os
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from trn3 import _native, nki
from trn3.errors import RuleError
from trn3.nki._kernel import execute, notice
from trn3.nki._options import settled_overrides
from trn3.nki._session import load_table, range_notices, resolve_target
from trn3.report import Report

__all__ = ["Chip", "Run", "load_program", "run"]


@dataclass
class Run:
    """A finished run.

    Attributes
    ----------
    result : object
        What the kernel returned, with NumPy arrays for its tensors.
    program : Program
        What was recorded.
    findings : list of dict
        Deviations from the documents that did not stop the run: rule, instruction, operand, value, limit, fix,
        message, file, line.
    table : Table
        The hardware table of its time.
    record_s, run_s : float
        Host seconds of recording and of computing the values.
    turns : list of list of int
        For each core, how often each dynamic loop went round, in the order in which they began.
    seed : int
        The seed of the run, which also draws what the table calls random in time.
    """

    result: Any
    program: _native.Program
    findings: list[dict[str, Any]]
    table: _native.Table
    record_s: float
    run_s: float
    turns: list[list[int]] = field(default_factory=list, repr=False)
    seed: int = 0
    _report: Report | None = field(default=None, repr=False)

    @property
    def report(self) -> Report:
        """Time, engines, bytes and utilisation; made when first asked for."""
        if self._report is None:
            self._report = Report(self.program, self.table, self.turns, self.seed, findings=self.findings)
        return self._report


def run(kernel: Callable[..., Any], *args: Any, options: nki.RunOptions | None = None, **kwargs: Any) -> Run:
    """Run a kernel on one core and keep everything about it.

    Parameters
    ----------
    kernel : Kernel or callable
        A kernel, or a plain function that is one.
    *args, **kwargs
        The kernel's arguments: NumPy arrays and constants.
    options : RunOptions, optional
        How it is recorded and run; by default the kernel's own.

    Returns
    -------
    Run
        Result, Program, findings, report and host seconds.

    Examples
    --------
    >>> import numpy as np
    >>> import trn3
    >>> from trn3.nki import language as nl
    >>> def double(x):
    ...     out = nl.ndarray(x.shape, dtype=x.dtype, buffer=nl.shared_hbm)
    ...     nl.store(out, nl.multiply(nl.load(x), 2.0))
    ...     return out
    >>> run = trn3.run(double, np.ones((128, 512), np.float32))
    >>> run.result[0, 0], run.program.instructions
    (np.float32(2.0), 3)
    >>> run.report.total_s > 0
    True
    """
    made = kernel if isinstance(kernel, nki.Kernel) else nki.Kernel(kernel)
    if options is not None:
        made = nki.Kernel(made.func, options, made.grid)
    call = made.call(*args, **kwargs)
    seed = made.options.seed
    return Run(call.result, call.program, call.findings, call.table, call.record_s, call.run_s, call.turns, seed)


class Chip:
    """One chip, of which one core is used so far.

    Parameters
    ----------
    target : str
        Hardware table: ``trn3``, ``trn2``, ``inf2``, ``trn1``, or the path of a table file.
    overrides : mapping of str to object, optional
        Values in place of the table's, by dotted key; see `trn3.spec.load`.

    Raises
    ------
    SpecError
        There is no such target, or a value cannot be.
    """

    def __init__(self, target: str = "trn3", overrides: Mapping[str, object] | None = None) -> None:
        self.table = load_table(resolve_target(target)[0], settled_overrides(overrides))

    def run(self, program: _native.Program, inputs: Sequence[Any], options: nki.RunOptions | None = None) -> Run:
        """Run a recorded Program; the Python source of its kernel is not needed.

        Parameters
        ----------
        program : Program
            What `nki.record` or `load_program` gave.
        inputs : sequence of array
            One array for each of ``program.inputs``, of its shape and dtype. Those that the kernel writes are written
            in place.
        options : RunOptions, optional
            ``seed``, ``stochastic_rounding`` and ``checks`` of the run, and ``overrides`` of its time; by default the
            checks that the Program was recorded with.

        Returns
        -------
        Run
            ``result`` is the tuple of outputs. Its time uses the overrides of the Program, the chip and the options
            together.

        Raises
        ------
        RuleError
            An input has another shape or dtype than the Program was recorded for [program.input], cannot be written
            where the kernel does [kernel.input_writable], the Program is for another chip [program.target], was
            recorded with another value of what the chip overrides [program.overrides], or is for the inputs of its
            recording only [program.specialised].
        """
        if program.target != self.table.name:
            raise RuleError(
                instruction="run",
                operand=program.kernel,
                value=f"was recorded for {program.target}",
                limit=f"this chip is {self.table.name}",
                fix=f"use Chip('{program.target}'), or record the kernel for this chip",
                rule="program.target",
            )
        options = options or nki.RunOptions(checks=program.checks)
        table = self.table.with_overrides(dict(options.settled_overrides)) if options.overrides else self.table
        _check_overrides(program, table)
        if len(inputs) != len(program.inputs):
            raise _wrong("inputs", f"{len(inputs)} given", f"the program has {len(program.inputs)}")
        given = [np.asarray(value) for value in inputs]
        for (name, shape, dtype), array in zip(program.inputs, given, strict=True):
            if array.shape != tuple(shape) or array.dtype != dtype:
                raise _wrong(name, f"is {array.dtype} {array.shape}", f"recorded for {dtype} {tuple(shape)}")
        start = time.perf_counter()
        names = [name for name, _, _ in program.inputs]
        results, findings, turns = execute(program, given, names, options)
        elapsed = time.perf_counter() - start
        notices = [notice(*each) for each in range_notices(table)]
        findings = [*notices, *program.findings, *findings]
        return Run(tuple(results), program, findings, table, 0.0, elapsed, turns, options.seed)


def _check_overrides(program: _native.Program, table: _native.Table) -> None:
    """Refuse values of the chip that contradict those that the Program was recorded with."""
    own = program.overrides
    for key, value in table.overrides().items():
        if key in own and own[key] != value:
            raise RuleError(
                instruction="run",
                operand=key,
                value=f"was {own[key]} when the program was recorded",
                limit=f"this chip has {value}",
                fix="leave the override out, or record the kernel again",
                rule="program.overrides",
            )


def _wrong(operand: str, value: str, limit: str) -> RuleError:
    return RuleError(
        instruction="run",
        operand=operand,
        value=value,
        limit=limit,
        fix="pass what the program was recorded for, or record the kernel again",
        rule="program.input",
    )


def load_program(path: str | os.PathLike[str]) -> _native.Program:
    """Read a Program that ``Program.save`` wrote.

    Raises
    ------
    FileFormatError
        The file is foreign, truncated, damaged or of another version.
    OSError
        The file cannot be read.
    """
    return _native.Program.load(os.fspath(path))
