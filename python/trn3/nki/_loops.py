"""Dynamic loops: bodies that are recorded once and that the device runs as often as its registers say."""

from __future__ import annotations

import ast
import functools
import linecache
import sys
from collections.abc import Callable, Iterator
from types import CodeType, FrameType
from typing import Any

import numpy as np

from trn3 import _native
from trn3.errors import RuleError

from . import _session, isa

__all__ = ["dynamic_range", "fori_loop", "test", "while_loop"]

VirtualRegister = _native.VirtualRegister


def _step(what: str, step: Any) -> int:
    if isinstance(step, int | np.integer) and not isinstance(step, bool) and 1 <= step < 2**31:
        return int(step)
    raise RuleError(
        instruction=what,
        operand="step",
        value=f"is {step!r}",
        limit="a positive int, known while recording",
        fix="the hardware loop holds its step as an immediate operand",
        rule="loop.step",
    )


def dynamic_range(start: Any, stop: Any = None, step: int = 1) -> Iterator[Any]:
    """Count on the device: the body is recorded once and runs for ``start``, ``start + step``, … below ``stop``.

    Parameters
    ----------
    start, stop : int or VirtualRegister
        As those of ``range``; a single one is ``stop``.
    step : int
        Positive, known while recording.

    Yields
    ------
    VirtualRegister
        The register that counts, once; it is not written by the body.

    Raises
    ------
    RuleError
        loop.step; loop.unclosed when the loop is left with ``break`` or ``return``.

    Notes
    -----
    Source: nki/deep-dives/nki-dynamic-loops.rst. Each sequencer with work in the loop takes a branch before it and one
    at the end of every turn.
    """
    first, beyond = (0, start) if stop is None else (start, stop)
    recorder = _session.current("dynamic_range").recorder
    induction = recorder.open_count(first, beyond, _step("dynamic_range", step))
    yield induction
    recorder.close_loop()


def fori_loop(lower: Any, upper: Any, body_fun: Callable[[Any], Any], step: int = 1) -> None:
    """Count on the device: ``body_fun(i)`` is recorded once and runs for each ``i`` from ``lower`` to below ``upper``.

    Parameters
    ----------
    lower, upper : int or VirtualRegister
        Bounds.
    body_fun : callable
        Gets the register that counts; other state goes through SBUF or HBM.
    step : int
        Positive, known while recording.
    """
    recorder = _session.current("fori_loop").recorder
    induction = recorder.open_count(lower, upper, _step("fori_loop", step))
    body_fun(induction)
    recorder.close_loop()


def while_loop(init: Any, body_fun: Callable[[Any], Any]) -> None:
    """Loop on the device as long as a register is not 0, tested before each turn.

    Parameters
    ----------
    init : VirtualRegister
        The first condition.
    body_fun : callable
        Gets the condition's register and returns the one that decides on the next turn.

    Raises
    ------
    RuleError
        loop.condition when one of them is no register.
    """
    recorder = _session.current("while_loop").recorder
    condition = recorder.register(None)
    isa.register_move(condition, _condition(init, "init"))
    recorder.open_while(condition)
    following = _condition(body_fun(condition), "body_fun")
    if following._number != condition._number:
        isa.register_move(condition, following)
    recorder.close_loop()


def _condition(register: Any, operand: str) -> Any:
    if isinstance(register, VirtualRegister):
        return register
    raise RuleError(
        instruction="while_loop",
        operand=operand,
        value=f"gave {register!r}",
        limit="a register decides whether the loop goes on",
        fix="use nisa.register_alloc, and return a register from the body",
        rule="loop.condition",
    )


def test(register: Any) -> bool:
    """Answer what Python asks of a register: in the test of a ``while``, whether to record the body (once)."""
    frame = sys._getframe(1)
    where = _while_test(frame)
    if where is None:
        raise TypeError(
            "register: its value is not known while the kernel is recorded, only `while register:` can test it; "
            "compute with tiles instead, or loop with nl.dynamic_range [register.value_unknown]"
        )
    session = _session.current("while")
    recorder = session.recorder
    key = (frame, where)
    if session.whiles and session.whiles[-1][0] == key:
        _, condition = session.whiles.pop()
        if register._number != condition._number:
            isa.register_move(condition, register)
        recorder.close_loop()
        return False
    recorder.open_while(register)
    session.whiles.append((key, register))
    return True


def _while_test(frame: FrameType) -> tuple[int, int] | None:
    """Return line and column of the ``while`` whose test the frame is at, or None."""
    tests = _while_tests(frame.f_code)
    if sys.version_info >= (3, 11):
        positions = list(frame.f_code.co_positions())
        line, _, column, _ = positions[frame.f_lasti // 2]
        return tests.get((line or 0, column or 0))
    found = {place for (line, _), place in tests.items() if line == frame.f_lineno}
    return found.pop() if len(found) == 1 else None


@functools.lru_cache(maxsize=256)
def _while_tests(code: CodeType) -> dict[tuple[int, int], tuple[int, int]]:
    """Return the places at which Python may say that it tests a ``while`` of a file, and where that ``while`` is.

    The jump that tests has the place of the statement or that of its test, depending on the version of Python. Columns
    are in bytes of UTF-8.
    """
    source = "".join(linecache.getlines(code.co_filename))
    try:
        tree = ast.parse(source)
    except SyntaxError:
        return {}
    places = {}
    for node in ast.walk(tree):
        # `while not register`, `while register and other`: Python asks the register for less than the whole test.
        if not isinstance(node, ast.While) or isinstance(node.test, ast.UnaryOp | ast.BoolOp | ast.IfExp):
            continue
        statement = (node.lineno, node.col_offset)
        places[statement] = places[(node.test.lineno, node.test.col_offset)] = statement
    return places
