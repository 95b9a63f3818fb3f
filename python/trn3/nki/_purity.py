"""Whether a recorded kernel may be used again: what its Python code depends on.

A kernel is recorded once for each combination of kernel, target, argument shapes, data types and constants, and of
every global and closure value that its code reads, helpers included. Where that cannot be established (a mutable
global, an object of an unknown class, a module of the user's), the kernel is recorded on each call.
"""

from __future__ import annotations

import builtins
import enum
import sys
import types
from collections.abc import Hashable
from typing import Any

import numpy as np

__all__ = ["NotEstablished", "environment_key", "value_key"]

_PLAIN = (bool, int, float, complex, str, bytes, type(None), type(Ellipsis))
_MODULE_ROOTS = {"trn3", "nki", "numpy", "ml_dtypes", "neuronxcc", *sys.stdlib_module_names}


class NotEstablished(Exception):
    """A value that code reads cannot be shown to stay the same."""


def value_key(value: Any) -> Hashable:
    """Return a key that is equal for equal constants.

    Raises
    ------
    NotEstablished
        The value is mutable or of an unknown class.
    """
    if isinstance(value, float):
        return ("float", value.hex())
    if isinstance(value, enum.Enum):
        return ("enum", type(value).__module__, type(value).__qualname__, value.name)
    if isinstance(value, _PLAIN):
        return (type(value).__name__, value)
    if isinstance(value, np.dtype):
        return ("dtype", str(value))
    if isinstance(value, np.generic):
        return ("scalar", str(value.dtype), value.tobytes())
    if isinstance(value, (tuple, frozenset)):
        return (type(value).__name__, tuple(value_key(item) for item in value))
    if isinstance(value, slice):
        return ("slice", value_key(value.start), value_key(value.stop), value_key(value.step))
    raise NotEstablished(type(value).__qualname__)


def _is_known_module(name: str | None) -> bool:
    return name is not None and name.split(".")[0] in _MODULE_ROOTS


def _names_read(code: types.CodeType) -> set[str]:
    names = set(code.co_names)
    for constant in code.co_consts:
        if isinstance(constant, types.CodeType):
            names |= _names_read(constant)
    return names


def environment_key(function: types.FunctionType) -> Hashable:
    """Return a key of a function's code and of everything outside of it that the code reads.

    Raises
    ------
    NotEstablished
        Something that the code reads cannot be shown to stay the same.
    """
    return _function_key(function, set())


def _function_key(function: types.FunctionType, seen: set[int]) -> Hashable:
    if id(function) in seen:
        return ("recursive", function.__qualname__)
    seen.add(id(function))
    code = function.__code__
    parts: list[Hashable] = [code]
    names = _names_read(code)
    for name in sorted(names):
        if name in function.__globals__:
            parts.append((name, _outer_key(function.__globals__[name], seen)))
        elif not hasattr(builtins, name):
            # An attribute's name, or a global that is not there (yet).
            parts.append((name, None))
    for name, cell in zip(code.co_freevars, function.__closure__ or (), strict=True):
        try:
            contents = cell.cell_contents
        except ValueError:
            raise NotEstablished(f"empty cell {name}") from None
        parts.append((name, _outer_key(contents, seen)))
    defaults = function.__defaults__ or ()
    parts.append(tuple(_outer_key(value, seen) for value in defaults))
    keyword_defaults = function.__kwdefaults__ or {}
    parts.append(tuple((name, _outer_key(value, seen)) for name, value in sorted(keyword_defaults.items())))
    parts.append(tuple((name, _outer_key(value, seen)) for name, value in sorted(function.__dict__.items())))
    return tuple(parts)


def _outer_key(value: Any, seen: set[int]) -> Hashable:
    inner = getattr(value, "func", None)
    if type(value).__name__ == "Kernel" and isinstance(inner, types.FunctionType):
        value = inner
    if isinstance(value, types.FunctionType):
        if _is_known_module(value.__module__):
            return ("function", value.__module__, value.__qualname__)
        return _function_key(value, seen)
    if isinstance(value, types.ModuleType):
        if _is_known_module(value.__name__):
            return ("module", value.__name__)
        raise NotEstablished(f"module {value.__name__}")
    if isinstance(value, (types.BuiltinFunctionType, type)) and _is_known_module(value.__module__):
        return ("name", value.__module__, value.__qualname__)
    # Objects of this package's own classes, such as `nl.tile_size`, do not change. Those of the standard library may
    # hold anything: bound methods, partial functions, caches.
    if callable(value) and getattr(type(value), "__module__", "").split(".")[0] in ("trn3", "nki"):
        return ("object", type(value).__qualname__, getattr(value, "__name__", id(value)))
    return value_key(value)
