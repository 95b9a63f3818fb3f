"""Kernels: recording them, running what was recorded, and keeping it.

``nki.jit`` and ``nki.simulate`` share one path: the user's function runs once in Python with tensor handles in place
of its arrays and leaves a Program; the Program computes the values.
"""

from __future__ import annotations

import contextlib
import functools
import inspect
import os
import time
import traceback
import types
from collections.abc import Callable, Hashable, Iterator
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from trn3 import _native, dtypes
from trn3.errors import RuleError, Trn3Error

from . import _session
from ._inputs import Inputs
from ._options import RunOptions, overrides_key
from ._outputs import check_outputs, check_views, filled, structure_of
from ._purity import NotEstablished, environment_key

__all__ = ["Kernel", "RunOptions", "jit", "record", "simulate"]

_CACHE_MAX = 256


@dataclass
class _Recorded:
    """A Program and the shape of what its kernel returned."""

    program: _native.Program
    returned: Any
    table: _native.Table
    notices: tuple[tuple[str, str], ...] = ()


@dataclass(frozen=True)
class Call:
    """A finished call of a kernel: its result, what was recorded, and host seconds."""

    result: Any
    program: _native.Program
    findings: list[dict[str, Any]]
    table: _native.Table
    record_s: float
    run_s: float
    turns: list[list[int]]


_observers: list[Callable[[Call], None]] = []


@contextlib.contextmanager
def observed(observer: Callable[[Call], None]) -> Iterator[None]:
    """Tell ``observer`` of every call of a kernel meanwhile."""
    _observers.append(observer)
    try:
        yield
    finally:
        _observers.remove(observer)


class Kernel:
    """A kernel: a Python function whose instructions run on an emulated NeuronCore.

    Call it with NumPy arrays to run it, or index it first with the number of cores (``kernel[2](...)``).

    Parameters
    ----------
    func : callable
        The kernel's function.
    options : RunOptions, optional
        How it is recorded and run.
    grid : tuple of int
        Launch grid.
    notices : tuple of (str, str)
        Rule and message of what each call is to report.
    """

    def __init__(
        self,
        func: Callable[..., Any],
        options: RunOptions | None = None,
        grid: tuple[int, ...] = (),
        notices: tuple[tuple[str, str], ...] = (),
    ) -> None:
        self.func = func
        self.options = options or RunOptions()
        self.grid = grid
        self.notices = notices
        self.cache: dict[Hashable, _Recorded] = {}
        self.last: _Recorded | None = None
        functools.update_wrapper(self, func)

    def __getitem__(self, grid: int | tuple[int, ...]) -> Kernel:
        sizes = grid if isinstance(grid, tuple) else (grid,)
        if not sizes or sizes[0] not in (1, 2) or any(size != 1 for size in sizes[1:]):
            raise RuleError(
                instruction="kernel",
                operand="grid",
                value=f"is {grid}",
                limit="a kernel is launched on 1 core, or on the 2 of a logical core",
                fix="launch kernel[1], kernel[2] or kernel",
                rule="kernel.grid",
            )
        kernel = Kernel(self.func, self.options, sizes, self.notices)
        kernel.cache = self.cache
        return kernel

    def with_options(self, **changes: Any) -> Kernel:
        """Return the same kernel with other `RunOptions`."""
        notices = () if "target" in changes else self.notices
        return Kernel(self.func, replace(self.options, **changes), self.grid, notices)

    def __get__(self, instance: Any, owner: type | None = None) -> Any:
        return self if instance is None else types.MethodType(self, instance)

    def __call__(self, *args: Any, **kwargs: Any) -> Any:
        if _session.active() is not None:
            return self.func(*args, **kwargs)
        return self.call(*args, **kwargs).result

    def record(self, *args: Any, **kwargs: Any) -> _native.Program:
        """Record the kernel for these arguments and return the Program, without running it."""
        recorded, _ = self._recorded(Inputs(inspect.signature(self.func), args, kwargs))
        return recorded.program

    def call(self, *args: Any, **kwargs: Any) -> Call:
        """Run the kernel and return everything about the call."""
        start = time.perf_counter()
        inputs = Inputs(inspect.signature(self.func), args, kwargs)
        recorded, arrays = self._recorded(inputs)
        middle = time.perf_counter()
        result, findings, turns = _run(recorded, inputs, self.options, arrays)
        end = time.perf_counter()
        call = Call(result, recorded.program, findings, recorded.table, middle - start, end - middle, turns)
        for observer in _observers:
            observer(call)
        return call

    def _recorded(self, inputs: Inputs) -> tuple[_Recorded, list[np.ndarray[Any, Any]] | None]:
        """Return what the kernel records for these inputs, and the arrays of a recording that was made just now."""
        target, notice = (
            _session.resolve_target(self.options.target) if self.options.target else _session.default_target()
        )
        overrides = self.options.settled_overrides
        table = _session.load_table(target, overrides)
        notices = (*self.notices, *((("target.spelling", notice),) if notice else ()), *_session.range_notices(table))
        key: Hashable = None
        try:
            if isinstance(self.func, types.FunctionType):
                options = (
                    target,
                    _session.table_version(target),
                    overrides_key(overrides),
                    self.options.checks,
                    self.options.nki_version,
                    self.options.uninitialized,
                    self.options.spill,
                    self.grid,
                )
                key = (options, environment_key(self.func), inputs.key())
                hash(key)
        except (NotEstablished, TypeError):
            key = None
        if key is not None and not self.options.eager and key in self.cache:
            return _with_notices(self.cache[key], notices), None
        recorded, arrays = _record(self.func, self.options, table, self.grid, inputs)
        if key is not None and not recorded.program.specialised and not self.options.eager:
            while len(self.cache) >= _CACHE_MAX:
                self.cache.pop(next(iter(self.cache)))
            self.cache[key] = recorded
        self.last = recorded
        return _with_notices(recorded, notices), arrays


def _with_notices(recorded: _Recorded, notices: tuple[tuple[str, str], ...]) -> _Recorded:
    """Add what is to be reported of one call, which may differ from the one that was recorded."""
    return replace(recorded, notices=(*notices, *recorded.notices))


def _check_cores(grid: tuple[int, ...], options: RunOptions, table: _native.Table) -> None:
    """Refuse a launch on cores that the target does not join, or that the environment contradicts."""
    cores = grid[0] if grid else 1
    sizes = table.entry("chip.logical_core_sizes")["value"]
    configured = os.environ.get("NEURON_LOGICAL_NC_CONFIG")
    if cores not in sizes:
        value, limit = f"is {cores}", f"{table.name} has logical cores of {' or '.join(map(str, sizes))}"
    elif configured is not None and configured != str(cores):
        value, limit = f"is {cores}", f"NEURON_LOGICAL_NC_CONFIG is {configured}, and must be the same"
    elif cores > 1 and options.eager:
        value, limit = f"is {cores}", "eager runs are those of one core"
    else:
        return
    raise RuleError(
        instruction="kernel",
        operand="grid",
        value=value,
        limit=limit,
        fix="launch the kernel on another number of cores",
        rule="kernel.cores",
    )


@dataclass
class _Traced:
    """What one core's run of the kernel's function left."""

    recorder: _native.Recorder
    outputs: list[Any]
    returned: Any
    notices: tuple[tuple[str, str], ...]


def _trace(
    func: Callable[..., Any], session: _session.Session, inputs: Inputs, arrays: list[np.ndarray[Any, Any]]
) -> _Traced:
    """Run a kernel's function on one core's recorder."""
    recorder = session.recorder
    with _session.recording(session):
        handles = []
        for argument, array in zip(inputs.names, arrays, strict=True):
            handles.append(recorder.input(argument, dtypes.dtype(array.dtype), array))
        args, kwargs = inputs.handles(handles)
        outputs: list[Any] = []
        try:
            returned = structure_of(func(*args, **kwargs), outputs)
        except Trn3Error as error:
            _locate(error)
            raise
    return _Traced(recorder, outputs, returned, check_outputs(outputs))


def _locate(error: Trn3Error) -> None:
    """Add the user's line to an error that was made in Python."""
    package = os.path.dirname(os.path.dirname(__file__)) + os.sep
    frames = [(frame.f_code.co_filename, line) for frame, line in traceback.walk_tb(error.__traceback__)]
    own = [place for place in frames if not place[0].startswith(package)]
    if error.where is None and own:
        file, line = own[-1]
        error.locate(f"{file}:{line}")


def _record(
    func: Callable[..., Any], options: RunOptions, table: _native.Table, grid: tuple[int, ...], inputs: Inputs
) -> tuple[_Recorded, list[np.ndarray[Any, Any]]]:
    """Record a kernel; also return the arrays that it wrote to if it ran meanwhile."""
    name = getattr(func, "__name__", type(func).__name__)
    _check_cores(grid, options, table)
    arrays = _lent(inputs.arrays)
    recorders: list[_native.Recorder] = []
    try:
        traced = []
        for position in range(grid[0] if grid else 1):
            recorder = _native.Recorder(
                name,
                table,
                options.checks,
                options.nki_minor,
                options.eager,
                options.seed,
                options.stochastic_rounding,
                options.uninitialized,
                options.spill,
                grid[0] if grid else 1,
            )
            recorders.append(recorder)
            session = _session.Session(recorder, table, grid, (position,) * len(grid))
            traced.append(_trace(func, session, inputs, arrays))
        first = traced[0]
        if len(traced) == 1:
            program = first.recorder.finish(first.outputs)
        else:
            second = traced[1]
            program = _native.Recorder.finish_pair(first.recorder, second.recorder, (first.outputs, second.outputs))
        check_views(first.returned, first.outputs, program)
    except BaseException:
        for recorder in recorders:
            recorder.abandon()
        raise
    return _Recorded(program, first.returned, table, first.notices), arrays


def _contiguous(array: np.ndarray[Any, Any]) -> np.ndarray[Any, Any]:
    return np.require(array, requirements=["C", "A"])


def _lent(arrays: list[np.ndarray[Any, Any]]) -> list[np.ndarray[Any, Any]]:
    """Return arrays that a run can use in place.

    Arrays that share memory are two tensors on the device, so each but the first becomes a copy: one must not see what
    is written to the other.
    """
    lent: list[np.ndarray[Any, Any]] = []
    for array in arrays:
        ready = _contiguous(array)
        shared = any(np.may_share_memory(ready, other) for other in lent)
        lent.append(ready.copy() if shared else ready)
    return lent


def execute(
    program: _native.Program,
    given: list[np.ndarray[Any, Any]],
    names: list[str],
    options: RunOptions,
    ran: list[np.ndarray[Any, Any]] | None = None,
) -> tuple[list[np.ndarray[Any, Any]], list[dict[str, Any]], list[list[int]]]:
    """Compute a Program's values.

    Parameters
    ----------
    program : Program
        What was recorded.
    given : list of ndarray
        The caller's arrays, one an input; those that the kernel writes are written in place.
    names : list of str
        Their names, for messages.
    options : RunOptions
        How it runs.
    ran : list of ndarray, optional
        The arrays of a recording that was made just now and may have run meanwhile.

    Returns
    -------
    results : list of ndarray
        The outputs; one that is an input is the caller's own array.
    findings : list of dict
        What the run found.
    turns : list of list of int
        For each core, how often each dynamic loop went round, in the order in which they began.
    """
    lent = _lent(given) if ran is None else ran
    written = program.written_inputs
    for number in written:
        if not given[number].flags.writeable:
            raise RuleError(
                instruction="kernel",
                operand=names[number],
                value="is a read-only array",
                limit="the kernel writes this argument",
                fix="pass a writable copy",
                rule="kernel.input_writable",
            )
    outputs: list[np.ndarray[Any, Any]] = []
    for (_, shape, dtype), source in zip(program.outputs, program.output_inputs, strict=True):
        outputs.append(lent[source] if source is not None else np.empty(shape, dtype))
    outcome = program.take_recorded_run(outputs) if ran is not None else None
    if outcome is None:
        outcome = program.run(lent, outputs, options.seed, options.stochastic_rounding, options.checks)
    for number in written:
        if lent[number] is not given[number]:
            np.copyto(given[number], lent[number])
    sources = zip(outputs, program.output_inputs, strict=True)
    findings, turns = outcome
    return [array if source is None else given[source] for array, source in sources], findings, turns


def notice(rule: str, text: str) -> dict[str, Any]:
    """Return the finding about a call as a whole, which has no line of the user's."""
    return {"rule": rule, "message": text, "file": "", "line": 0, "instruction": "kernel"}


def _run(
    recorded: _Recorded, inputs: Inputs, options: RunOptions, ran: list[np.ndarray[Any, Any]] | None
) -> tuple[Any, list[dict[str, Any]], list[list[int]]]:
    results, findings, turns = execute(recorded.program, inputs.arrays, inputs.names, options, ran)
    notices = [notice(*each) for each in recorded.notices]
    result = filled(recorded.returned, results, inputs.give)
    return result, [*notices, *recorded.program.findings, *findings], turns


def jit(func: Callable[..., Any] | None = None, **options: Any) -> Any:
    """Make a function a kernel (decorator).

    Parameters
    ----------
    func : callable, optional
        The function. Without it, a decorator is returned.
    **options
        ``mode`` is accepted and has no effect; ``platform_target`` chooses the target, with a finding, since NKI has
        removed it; the fields of `RunOptions`.

    Returns
    -------
    Kernel
        Callable with NumPy arrays; inside another kernel it is a plain function.
    """
    if func is None:
        return functools.partial(jit, **options)
    options.pop("mode", None)
    platform = options.pop("platform_target", None)
    notices: tuple[tuple[str, str], ...] = ()
    if platform is not None:
        options["target"] = platform
        text = f"jit: platform_target: is {platform!r}, NKI has removed it; set NEURON_PLATFORM_TARGET_OVERRIDE"
        notices = (("jit.platform_target", f"{text} [jit.platform_target]"),)
    inner = func.func if isinstance(func, Kernel) else func
    return Kernel(inner, RunOptions(**options), notices=notices)


class Simulation:
    """A kernel that is run on the emulator when called; made by `simulate`.

    Attributes
    ----------
    program : Program or None
        What the last call recorded.
    findings : list of dict
        Deviations that the last call found.
    """

    def __init__(self, kernel: Kernel) -> None:
        self.kernel = kernel
        self.program: _native.Program | None = None
        self.findings: list[dict[str, Any]] = []
        functools.update_wrapper(self, kernel.func)

    def __getitem__(self, grid: int | tuple[int, ...]) -> Simulation:
        return Simulation(self.kernel[grid])

    def __call__(self, *args: Any, **kwargs: Any) -> Any:
        if _session.active() is not None:
            return self.kernel.func(*args, **kwargs)
        call = self.kernel.call(*args, **kwargs)
        self.program, self.findings = call.program, call.findings
        return call.result


def simulate(kernel: Callable[..., Any], **options: Any) -> Simulation:
    """Run a kernel on the emulator.

    Parameters
    ----------
    kernel : Kernel or callable
        A kernel; a plain function is taken as one.
    **options
        Fields of `RunOptions`.

    Returns
    -------
    Simulation
        Call it with the kernel's arguments.

    Examples
    --------
    >>> import numpy as np
    >>> from trn3 import nki
    >>> from trn3.nki import language as nl
    >>> def double(x):
    ...     tile = nl.load(x)
    ...     out = nl.ndarray(x.shape, dtype=x.dtype, buffer=nl.shared_hbm)
    ...     nl.store(out, nl.multiply(tile, 2.0))
    ...     return out
    >>> nki.simulate(double)(np.ones((2, 3), np.float32))
    array([[2., 2., 2.],
           [2., 2., 2.]], dtype=float32)
    """
    made = kernel if isinstance(kernel, Kernel) else Kernel(kernel)
    return Simulation(made.with_options(**options) if options else made)


def record(kernel: Callable[..., Any], *args: Any, **kwargs: Any) -> _native.Program:
    """Record a kernel for these arguments and return the Program, without running it."""
    made = kernel if isinstance(kernel, Kernel) else Kernel(kernel)
    return made.record(*args, **kwargs)
