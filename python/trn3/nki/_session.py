"""The kernel that is being recorded, and the hardware it is recorded for."""

from __future__ import annotations

import contextlib
import functools
import os
import re
from collections.abc import Iterator
from contextvars import ContextVar
from dataclasses import dataclass, field
from typing import Any

from trn3 import _native
from trn3.errors import RuleError, SpecError

from ._enums import nc_version
from ._options import Overrides, overrides_key

__all__ = ["Session", "current", "default_target", "load_table", "recording", "resolve_target"]

#: Public spellings of targets, and the tables they mean.
_TARGETS = {
    "trn1": "trn1",
    "gen2": "trn1",
    "inf2": "inf2",
    "trn2": "trn2",
    "gen3": "trn2",
    "trn3": "trn3",
    "gen4": "trn3",
}
#: A target with something behind it, as other harnesses spell revisions and instances: trn3pre, trn3_a0, trn2.48xlarge.
_VARIANT = re.compile(rf"({'|'.join(_TARGETS)})(?![0-9])[a-z0-9._-]*")
_VARIABLES = ("NEURON_PLATFORM_TARGET_OVERRIDE", "NKI_NC_VERSION")


@dataclass
class Session:
    """One recording: its recorder, its hardware, its place in the launch grid."""

    recorder: _native.Recorder
    table: _native.Table
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


def has_capability(name: str) -> bool:
    """Return whether the core that is recorded for has a capability of its table."""
    return bool(_table().entry(f"capability.{name}")["value"])


def _table() -> _native.Table:
    session = _session.get()
    return session.table if session else load_table(default_target()[0])


def load_table(target: str, overrides: Overrides = ()) -> _native.Table:
    """Return the hardware table of that name or path, with values in place of its own; a changed file is read again.

    Raises
    ------
    SpecError
        There is no such table, or a value cannot be.
    """
    return _loaded(target, table_version(target), overrides_key(overrides))


@functools.lru_cache(maxsize=16)
def _loaded(target: str, version: tuple[int, int], overrides: tuple[tuple[str, str, Any], ...]) -> _native.Table:
    table = _native.Table.load(target)
    return table.with_overrides({key: value for key, _, value in overrides}) if overrides else table


def range_notices(table: _native.Table) -> tuple[tuple[str, str], ...]:
    """Return a notice for each value that was set outside of what its table calls plausible."""
    notices = []
    for key in table.overrides():
        entry = table.entry(key)
        if entry["is_outside_range"]:
            low, high = (f"{bound:g}" for bound in entry["range"])
            text = f"overrides: {key}: is {entry['value']} {entry['unit']}, plausible are {low} to {high}"
            notices.append(("override.range", f"{text}; it was taken all the same [override.range]"))
    return tuple(notices)


def table_version(target: str) -> tuple[int, int]:
    """Return what changes when the file of a table does; zeros for tables of ours."""
    try:
        state = os.stat(target)
    except OSError:
        return (0, 0)
    return (state.st_mtime_ns, state.st_size)


def resolve_target(name: str) -> tuple[str, str | None]:
    """Return the hardware table that a spelling means, and a notice if the spelling is none of the public ones.

    Raises
    ------
    SpecError
        The name is no target.
    """
    key = name.strip().lower()
    if key in _TARGETS:
        return _TARGETS[key], None
    if os.path.exists(name):
        return name, None
    variant = _VARIANT.fullmatch(key)
    if variant is not None and not key.endswith(".toml"):
        table = _TARGETS[variant[1]]
        return table, f"target: {name} is taken as {table} [target.spelling]"
    known = ", ".join(_TARGETS)
    raise SpecError(f"target: '{name}' is none of {known}, nor a table file [target.name]")


def default_target() -> tuple[str, str | None]:
    """Return the table that the environment asks for, at this moment; ``trn3`` if it does not."""
    for variable in _VARIABLES:
        name = os.environ.get(variable)
        if name:
            return resolve_target(name)
    return "trn3", None
