"""The kernel that is being recorded, and the hardware it is recorded for."""

from __future__ import annotations

import contextlib
import functools
import os
from collections.abc import Iterator
from contextvars import ContextVar
from dataclasses import dataclass, field
from typing import Any

from trn3 import _native
from trn3.errors import RuleError, SpecError

from ._enums import nc_version

__all__ = ["Session", "current", "default_target", "recording", "resolve_target"]

#: Spellings of the public environment variables, and the tables they mean.
_TARGETS = {"trn2": "trn2", "gen3": "trn2", "trn3": "trn3", "gen4": "trn3"}
#: Spellings of generations whose tables are not there yet.
_ABSENT = {"trn1", "inf2", "gen2"}
_VARIABLES = ("NEURON_PLATFORM_TARGET_OVERRIDE", "NKI_NC_VERSION")


@dataclass
class Session:
    """One recording: its recorder, its target, its place in the launch grid."""

    recorder: _native.Recorder
    target: str
    grid: tuple[int, ...] = ()
    position: tuple[int, ...] = ()
    notices: list[str] = field(default_factory=list)
    whiles: list[tuple[Any, Any]] = field(default_factory=list)
    """Dynamic ``while`` loops that are open: where, and their condition."""


_session: ContextVar[Session | None] = ContextVar("trn3.nki.session", default=None)


def current(what: str) -> Session:
    """Return the kernel being recorded.

    Parameters
    ----------
    what : str
        The call that needs it, for the message.

    Raises
    ------
    RuleError
        No kernel is being recorded [kernel.scope].
    """
    session = _session.get()
    if session is None:
        raise RuleError(
            instruction=what,
            value="called outside of a kernel",
            limit="it records an instruction or a tensor of a kernel",
            fix="call it from a function that nki.jit or nki.simulate runs",
            rule="kernel.scope",
        )
    return session


def active() -> Session | None:
    """Return the kernel being recorded, or None."""
    return _session.get()


@contextlib.contextmanager
def recording(session: Session) -> Iterator[Session]:
    """Make ``session`` the kernel being recorded; a kernel inside a kernel is refused by the caller."""
    token = _session.set(session)
    try:
        yield session
    finally:
        _session.reset(token)


def tile_sizes() -> dict[str, int]:
    """Return the constants of ``nl.tile_size`` for the kernel being recorded, or for the default target."""
    return _table().tile_sizes()


def generation() -> nc_version:
    """Return the NeuronCore generation of the kernel being recorded, or of the default target."""
    name = str(_table().entry("core.generation")["value"])
    return nc_version(int(name.removeprefix("NeuronCore-v")))


def _table() -> _native.Table:
    session = _session.get()
    return load_table(session.target if session else default_target()[0])


def load_table(target: str) -> _native.Table:
    """Return the hardware table of that name or path; a file that has changed is read again."""
    return _loaded(target, table_version(target))


@functools.lru_cache(maxsize=16)
def _loaded(target: str, version: tuple[int, int]) -> _native.Table:
    return _native.Table.load(target)


def table_version(target: str) -> tuple[int, int]:
    """Return what changes when the file of a table does; zeros for tables of ours."""
    try:
        state = os.stat(target)
    except OSError:
        return (0, 0)
    return (state.st_mtime_ns, state.st_size)


def resolve_target(name: str) -> tuple[str, str | None]:
    """Return the hardware table that a public spelling means, and a notice if another one stands in.

    Raises
    ------
    SpecError
        The name is no target.
    """
    key = name.strip().lower()
    if key in _TARGETS:
        return _TARGETS[key], None
    if key in _ABSENT:
        return "trn3", f"target {name} has no table yet; recorded for trn3 instead"
    if os.path.exists(name):
        return name, None
    known = ", ".join(sorted({*_TARGETS, *_ABSENT}))
    raise SpecError(f"target: '{name}' is none of {known}, nor a table file [target.name]")


def default_target() -> tuple[str, str | None]:
    """Return the table that the environment asks for, at this moment; ``trn3`` if it does not."""
    for variable in _VARIABLES:
        name = os.environ.get(variable)
        if name:
            return resolve_target(name)
    return "trn3", None
