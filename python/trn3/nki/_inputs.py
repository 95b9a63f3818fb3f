"""The arguments of a kernel's call: its arrays, and everything else that it is recorded for."""

from __future__ import annotations

import inspect
from collections.abc import Hashable
from typing import Any

import numpy as np

from trn3 import _native
from trn3.errors import RuleError

from . import _frameworks as frameworks
from ._outputs import like
from ._purity import value_key

__all__ = ["Inputs"]

_DTYPES = frozenset(_native.dtype_names())


def _is_array(value: Any) -> bool:
    return isinstance(value, np.ndarray)


class Inputs:
    """The arrays among a call's arguments, in order, and the arguments with handles in their place."""

    def __init__(self, signature: inspect.Signature, args: tuple[Any, ...], kwargs: dict[str, Any]) -> None:
        self.arrays: list[np.ndarray[Any, Any]] = []
        self.names: list[str] = []
        # Which array each array argument is: one that is given twice is one tensor.
        self.order: list[int] = []
        bound = signature.bind(*args, **kwargs)
        bound.apply_defaults()
        self.bound = bound
        #: What the arrays were given as; results come back as the same.
        self.framework = frameworks.NUMPY
        #: Arrays on the memory of other frameworks' tensors, and those tensors.
        self.given: list[tuple[np.ndarray[Any, Any], Any]] = []
        for name, value in bound.arguments.items():
            bound.arguments[name] = self._as_arrays(name, value)
        for name, value in bound.arguments.items():
            self._collect(name, value, name)

    def _as_arrays(self, name: str, value: Any) -> Any:
        """Replace the tensors of other frameworks by arrays on the same memory."""
        framework = frameworks.of(value)
        if framework is not None:
            if self.framework not in (frameworks.NUMPY, framework):
                raise RuleError(
                    instruction="kernel",
                    operand=name,
                    value=f"is a tensor of {framework.name}",
                    limit=f"other arguments are of {self.framework.name}",
                    fix="pass tensors of one framework",
                    rule="kernel.argument",
                )
            self.framework = framework
            for array, known in self.given:
                if known is value:
                    return array
            array = framework.to_numpy(value)
            self.given.append((array, value))
            return array
        if isinstance(value, list):
            return [self._as_arrays(f"{name}_{at}", item) for at, item in enumerate(value)]
        if isinstance(value, tuple):
            return like(value, [self._as_arrays(f"{name}_{at}", item) for at, item in enumerate(value)])
        if isinstance(value, dict):
            return {key: self._as_arrays(f"{name}_{key}", item) for key, item in value.items()}
        return value

    def _collect(self, name: str, value: Any, argument: str) -> None:
        if _is_array(value):
            if value.size == 0:
                raise RuleError(
                    instruction="kernel",
                    operand=name,
                    value=f"has shape {value.shape}",
                    limit="every dimension has at least one element",
                    fix="skip the call for empty arrays",
                    rule="tensor.shape",
                )
            if isinstance(value, np.ma.MaskedArray):
                raise RuleError(
                    instruction="kernel",
                    operand=name,
                    value="is a masked array",
                    limit="the device has no masks",
                    fix="pass array.filled(value), and the mask as an array of its own",
                    rule="kernel.argument",
                )
            if str(value.dtype) not in _DTYPES:
                raise RuleError(
                    instruction="kernel",
                    operand=name,
                    value=f"has data type {value.dtype}",
                    limit="a data type of the NeuronCore, in the byte order of the host",
                    fix="cast the array first, for instance with .astype(np.float32)",
                    rule="kernel.argument",
                )
            known = [at for at, array in enumerate(self.arrays) if array is value]
            self.order.append(known[0] if known else len(self.arrays))
            if not known:
                self.arrays.append(value)
                while name in self.names or (name != argument and name in self.bound.arguments):
                    name += "_"
                self.names.append(name)
        elif isinstance(value, (list, tuple)):
            for at, item in enumerate(value):
                self._collect(f"{name}_{at}", item, argument)
        elif isinstance(value, dict):
            for key, item in value.items():
                self._collect(f"{name}_{key}", item, argument)

    def key(self) -> Hashable:
        """Shapes, data types and constants of the arguments."""
        arguments = tuple((name, self._value_key(value)) for name, value in self.bound.arguments.items())
        return tuple(self.order), arguments

    def _value_key(self, value: Any) -> Hashable:
        if _is_array(value):
            return ("array", value.shape, str(value.dtype))
        if isinstance(value, (list, tuple)):
            return (type(value).__name__, tuple(self._value_key(item) for item in value))
        if isinstance(value, dict):
            return ("dict", tuple((key, self._value_key(item)) for key, item in value.items()))
        return value_key(value)

    def handles(self, handles: list[Any]) -> tuple[tuple[Any, ...], dict[str, Any]]:
        """Return the call's arguments with a handle for each array."""
        bound = inspect.BoundArguments(self.bound.signature, self.bound.arguments.copy())
        remaining = iter(handles[number] for number in self.order)

        def replaced(value: Any) -> Any:
            if _is_array(value):
                return next(remaining)
            if isinstance(value, list):
                return [replaced(item) for item in value]
            if isinstance(value, tuple):
                return like(value, [replaced(item) for item in value])
            if isinstance(value, dict):
                return {key: replaced(item) for key, item in value.items()}
            return value

        for name, value in self.bound.arguments.items():
            bound.arguments[name] = replaced(value)
        return bound.args, bound.kwargs

    def give(self, array: np.ndarray[Any, Any]) -> Any:
        """Return a result as the framework of the arguments has it; one that is an argument, as that argument."""
        for own, given in self.given:
            if own is array:
                return given
        return self.framework.from_numpy(array)
