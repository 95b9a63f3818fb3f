"""Whether a recorded kernel may be used again: what its Python code depends on.

A kernel is recorded once for each combination of kernel, target, argument shapes, data types and constants, and of
every global and closure value that its code reads, helpers included. Where that cannot be established (a mutable
global, an object of an unknown class, a module of the user's), the kernel is recorded on each call.
"""

from __future__ import annotations

import builtins
import dis
import enum
import types
from collections.abc import Hashable
from typing import Any

import numpy as np

__all__ = ["NotEstablished", "environment_key", "value_key"]

_PLAIN = (bool, int, complex, str, bytes, type(None), type(Ellipsis))
#: Packages whose functions and classes stay what they are, and do not read anything that changes.
_CONSTANT_ROOTS = {"trn3", "nki", "ml_dtypes", "neuronxcc", "math", "numpy", "functools", "itertools", "enum"}
#: Builtins through which code reads what no name in it shows.
_OPAQUE = {
    "__import__", "breakpoint", "compile", "delattr", "dir", "eval", "exec", "getattr", "globals", "hasattr", "id",
    "input", "locals", "object", "open", "setattr", "vars",
}  # fmt: skip
#: Attributes of NumPy that give something else each time.
_IMPURE_NUMPY = {"random", "load", "loadtxt", "genfromtxt", "fromfile", "memmap", "empty", "empty_like"}


class NotEstablished(Exception):
    """A value that code reads cannot be shown to stay the same."""


def value_key(value: Any) -> Hashable:
    """Return a key that is equal for equal constants.

    Raises
    ------
    NotEstablished
        The value is mutable or of an unknown class.
    """
    if type(value) is float:
        return ("float", value.hex())
    if isinstance(value, enum.Enum):
        kind = type(value)
        if kind.__module__.split(".")[0] in _CONSTANT_ROOTS:
            return ("enum", kind, value.name)
        # A member of the user's: its class is part of the key, and what it holds.
        held = {key: held for key, held in vars(value).items() if key not in ("_name_", "__objclass__", "_sort_order_")}
        return ("enum", kind, value.name, tuple((key, value_key(item)) for key, item in sorted(held.items())))
    if type(value) in _PLAIN:
        return (type(value).__name__, value)
    if isinstance(value, np.dtype):
        return ("dtype", str(value))
    if isinstance(value, np.generic):
        return ("scalar", str(value.dtype), value.tobytes())
    if isinstance(value, (tuple, frozenset)) and not vars_of(value):
        return (type(value).__name__, tuple(value_key(item) for item in value))
    if isinstance(value, slice):
        return ("slice", value_key(value.start), value_key(value.stop), value_key(value.step))
    raise NotEstablished(type(value).__qualname__)


def vars_of(value: Any) -> dict[str, Any]:
    """Return the attributes that an object of a subclass carries."""
    return getattr(value, "__dict__", {})


def _is_constant_module(name: str | None) -> bool:
    return name is not None and name.split(".")[0] in _CONSTANT_ROOTS


def _check_code(code: types.CodeType, names: dict[str, Any]) -> None:
    """Refuse code that reads something which its names do not show; ``names`` are the globals and closure values."""
    before: Any = None
    for instruction in dis.get_instructions(code):
        if instruction.opname in ("IMPORT_NAME", "IMPORT_FROM", "STORE_GLOBAL", "DELETE_GLOBAL"):
            raise NotEstablished(f"{instruction.opname} {instruction.argval}")
        if instruction.opname.startswith("LOAD_GLOBAL") and instruction.argval in _OPAQUE:
            raise NotEstablished(f"uses {instruction.argval}")
        if instruction.argval in _IMPURE_NUMPY and getattr(before, "__name__", "") == "numpy":
            raise NotEstablished(f"uses numpy.{instruction.argval}")
        before = names.get(instruction.argval) if isinstance(instruction.argval, str) else None


def _names_read(code: types.CodeType) -> set[str]:
    names = set(code.co_names)
    for constant in code.co_consts:
        if isinstance(constant, types.CodeType):
            names |= _names_read(constant)
    return names


def _codes(code: types.CodeType) -> list[types.CodeType]:
    """Return a function's code and that of the functions, lambdas and comprehensions inside of it."""
    inner = [each for constant in code.co_consts if isinstance(constant, types.CodeType) for each in _codes(constant)]
    return [code, *inner]


def environment_key(function: types.FunctionType) -> Hashable:
    """Return a key of a function's code and of everything outside of it that the code reads.

    Raises
    ------
    NotEstablished
        Something that the code reads cannot be shown to stay the same.
    """
    return _function_key(function, set())


def _contents(cell: types.CellType) -> Any:
    try:
        return cell.cell_contents
    except ValueError:
        raise NotEstablished("an empty cell") from None


def _function_key(function: types.FunctionType, seen: set[int]) -> Hashable:
    if id(function) in seen:
        return ("recursive", function.__qualname__)
    seen.add(id(function))
    code = function.__code__
    parts: list[Hashable] = [code]
    closed = {name: _contents(cell) for name, cell in zip(code.co_freevars, function.__closure__ or (), strict=True)}
    for inner in _codes(code):
        _check_code(inner, {**function.__globals__, **closed})
    names = _names_read(code)
    for name in sorted(names):
        if name in function.__globals__:
            value = function.__globals__[name]
            parts.append((name, _outer_key(value, seen)))
            if isinstance(value, types.ModuleType):
                # What the code may take from the module, as it is now: somebody may have replaced it.
                held = tuple((other, getattr(value, other)) for other in sorted(names) if other in vars(value))
                parts.append(tuple((other, _identity(item)) for other, item in held))
        elif not hasattr(builtins, name):
            # An attribute's name, or a global that is not there (yet).
            parts.append((name, None))
    for name, contents in closed.items():
        parts.append((name, _outer_key(contents, seen)))
    defaults = function.__defaults__ or ()
    parts.append(tuple(_outer_key(value, seen) for value in defaults))
    keyword_defaults = function.__kwdefaults__ or {}
    parts.append(tuple((name, _outer_key(value, seen)) for name, value in sorted(keyword_defaults.items())))
    parts.append(tuple((name, _outer_key(value, seen)) for name, value in sorted(function.__dict__.items())))
    return tuple(parts)


class _Same:
    """Equal to another of its kind only for the same object, which it keeps alive."""

    def __init__(self, value: Any) -> None:
        self.value = value

    def __eq__(self, other: object) -> bool:
        return isinstance(other, _Same) and other.value is self.value

    def __hash__(self) -> int:
        return id(self.value)


def _identity(value: Any) -> Hashable:
    try:
        return value_key(value)
    except NotEstablished:
        return _Same(value)


def _outer_key(value: Any, seen: set[int]) -> Hashable:
    inner = getattr(value, "func", None)
    if type(value).__name__ == "Kernel" and isinstance(inner, types.FunctionType):
        value = inner
    if isinstance(value, types.FunctionType):
        if _is_constant_module(value.__module__):
            return ("function", _Same(value))
        return _function_key(value, seen)
    if isinstance(value, types.ModuleType):
        if _is_constant_module(value.__name__):
            return ("module", value.__name__)
        raise NotEstablished(f"module {value.__name__}")
    if isinstance(value, (types.BuiltinFunctionType, type)) and (
        _is_constant_module(value.__module__) or getattr(builtins, value.__name__, None) is value
    ):
        return ("name", _Same(value))
    if isinstance(value, np.ufunc):
        return ("name", _Same(value))
    # `nl.tile_size`, dtypes' classes and the like: objects of this package's own that do not change.
    if type(value).__module__.split(".")[0] in ("trn3", "nki") and type(value).__name__ != "Kernel":
        return ("object", _Same(value))
    return value_key(value)
