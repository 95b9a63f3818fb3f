"""Tensors of PyTorch and JAX as NumPy arrays, and back; neither is imported unless a caller has it already."""

from __future__ import annotations

import sys
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import ml_dtypes
import numpy as np

from trn3.errors import RuleError

__all__ = ["NUMPY", "Framework", "of"]

Array = Any


@dataclass(frozen=True)
class Framework:
    """How a framework's tensors become arrays and arrays its tensors."""

    name: str
    to_numpy: Callable[[Any], Array]
    from_numpy: Callable[[Array], Any]


#: Data types that PyTorch has and NumPy lacks: how ml_dtypes calls them, and the integers that carry their bits.
_TORCH_TYPES = {
    "bfloat16": (ml_dtypes.bfloat16, "uint16"),
    "float8_e5m2": (ml_dtypes.float8_e5m2, "uint8"),
    "float8_e4m3fn": (ml_dtypes.float8_e4m3fn, "uint8"),
    "float8_e8m0fnu": (ml_dtypes.float8_e8m0fnu, "uint8"),
}


def _torch_to_numpy(tensor: Any) -> Array:
    """Return an array on the memory of a CPU tensor."""
    import torch

    if tensor.device.type != "cpu":
        raise RuleError(
            instruction="kernel",
            operand="tensor",
            value=f"is on {tensor.device}",
            limit="kernels take tensors of the CPU",
            fix="pass tensor.cpu()",
            rule="kernel.argument",
        )
    tensor = tensor.detach()
    name = str(tensor.dtype).removeprefix("torch.")
    if name in _TORCH_TYPES:
        dtype, bits = _TORCH_TYPES[name]
        return tensor.view(getattr(torch, bits)).numpy().view(dtype)
    return tensor.numpy()


def _torch_from_numpy(array: Array) -> Any:
    """Return a CPU tensor on the memory of an array; packed types come as the integers of their size."""
    import torch

    name = str(array.dtype)
    if name in _TORCH_TYPES:
        bits = array.view(_TORCH_TYPES[name][1])
        return torch.from_numpy(bits).view(getattr(torch, name))
    if array.dtype.kind not in "biuf" or array.dtype.isbuiltin != 1:
        array = array.view(f"uint{8 * array.dtype.itemsize}")
    return torch.from_numpy(array)


def _jax_from_numpy(array: Array) -> Any:
    import jax.numpy

    return jax.numpy.asarray(array)


NUMPY = Framework("numpy", lambda array: array, lambda array: array)
_TORCH = Framework("torch", _torch_to_numpy, _torch_from_numpy)
_JAX = Framework("jax", np.asarray, _jax_from_numpy)


def of(value: Any) -> Framework | None:
    """Return the framework that an argument is a tensor of; None for arrays of NumPy and everything else."""
    for name, kind, framework in (("torch", "Tensor", _TORCH), ("jax", "Array", _JAX)):
        # A module without that class is somebody's folder of the same name.
        tensor = getattr(sys.modules.get(name), kind, None)
        if tensor is not None and isinstance(value, tensor):
            return framework
    return None
