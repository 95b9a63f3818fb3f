"""What a kernel returns: tensors in any structure of lists, tuples and dicts."""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np

from trn3 import _native
from trn3.errors import RuleError

__all__ = ["Slot", "check_outputs", "check_views", "filled", "like", "structure_of"]


@dataclass(frozen=True)
class Slot:
    """Place of an output in a kernel's result, and how the kernel's view of it looks."""

    number: int
    shape: tuple[int, ...]
    dtype: Any


def like(value: Any, items: list[Any]) -> Any:
    """Return the items as a sequence of the class of ``value``."""
    return type(value)(*items) if hasattr(value, "_fields") else type(value)(items)


def _is_whole(tensor: Any) -> bool:
    """Whether a view is dense; on chip the partitions count as well."""
    stride = 1
    for step, count in reversed(tensor.get_pattern()):
        if count != 1 and step != stride:
            return False
        stride *= count
    return True


def _partial_output(tensor: Any) -> RuleError:
    return RuleError(
        instruction="return",
        operand=tensor.name,
        value=f"is a view of shape {tensor.shape}",
        limit="a kernel returns whole tensors, reshaped or viewed as another data type at most",
        fix="return the tensor, and slice the array",
        rule="kernel.output_view",
    )


def check_views(structure: Any, outputs: list[Any], program: _native.Program) -> None:
    """Refuse results that are views of a part of a tensor."""
    if isinstance(structure, Slot):
        _, shape, dtype = program.outputs[structure.number]
        if math.prod(shape) * dtype.itemsize != math.prod(structure.shape) * structure.dtype.itemsize:
            raise _partial_output(outputs[structure.number])
    elif isinstance(structure, (list, tuple)):
        for item in structure:
            check_views(item, outputs, program)
    elif isinstance(structure, dict):
        for item in structure.values():
            check_views(item, outputs, program)


def structure_of(value: Any, outputs: list[Any]) -> Any:
    """Replace the tensors of a kernel's result by slots, and collect them."""
    if isinstance(value, _native.NkiTensor):
        if value.is_indirect() or value.offset != 0 or not _is_whole(value):
            raise _partial_output(value)
        for number, known in enumerate(outputs):
            if known._id == value._id and known._recorder is value._recorder:
                return Slot(number, value.shape, value.dtype)
        outputs.append(value)
        return Slot(len(outputs) - 1, value.shape, value.dtype)
    if isinstance(value, (list, tuple)):
        return like(value, [structure_of(item, outputs) for item in value])
    if isinstance(value, dict):
        return {key: structure_of(item, outputs) for key, item in value.items()}
    return value


def filled(structure: Any, arrays: list[np.ndarray[Any, Any]], give: Callable[[Any], Any]) -> Any:
    """Return a kernel's result with what ``give`` makes of an array in the place of each slot."""
    if isinstance(structure, Slot):
        array = arrays[structure.number]
        if (array.shape, array.dtype) != (structure.shape, structure.dtype):
            array = array.reshape(-1).view(structure.dtype).reshape(structure.shape)
        return give(array)
    if isinstance(structure, (list, tuple)):
        return like(structure, [filled(item, arrays, give) for item in structure])
    if isinstance(structure, dict):
        return {key: filled(item, arrays, give) for key, item in structure.items()}
    return structure


def check_outputs(outputs: list[Any]) -> tuple[tuple[str, str], ...]:
    """Refuse tensors that a kernel cannot return, and give a notice for those that hardware would not."""
    notices = []
    for output in outputs:
        if output.buffer.value == "private_hbm":
            text = f"return: {output.name}: is in private_hbm, a kernel returns tensors in shared_hbm"
            notices.append(("kernel.output_space", f"{text}; it was returned all the same"))
        if output.buffer.value in ("sbuf", "psum"):
            raise RuleError(
                instruction="return",
                operand=output.name,
                value=f"is in {output.buffer.value}",
                limit="a kernel returns tensors in shared_hbm",
                fix="copy it to a tensor made with buffer=nl.shared_hbm, and return that one",
                rule="kernel.output_space",
            )
    return tuple(notices)
