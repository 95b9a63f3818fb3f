"""``tensor.rearrange``: dimensions split, permuted and merged by name."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from trn3.errors import RuleError

Pattern = Sequence[Any]


def _fail(value: str, limit: str) -> RuleError:
    return RuleError(
        instruction="rearrange",
        operand="pattern",
        value=value,
        limit=limit,
        fix="use the same names on both sides, grouped in tuples where dimensions are split or merged",
        rule="tensor.rearrange",
    )


def _names(item: Any) -> tuple[str, ...]:
    return (item,) if isinstance(item, str) else tuple(item)


def rearrange(tensor: Any, source: Pattern, target: Pattern, fixed_sizes: dict[str, int] | None = None) -> Any:
    """Return ``tensor`` with the dimensions that ``source`` names in the order and grouping of ``target``."""
    sizes = dict(fixed_sizes or {})
    if len(source) != tensor.ndim:
        raise _fail(f"names {len(source)} dimensions", f"the tensor has {tensor.ndim}")
    flat: list[str] = []
    shape: list[int] = []
    for item, size in zip(source, tensor.shape, strict=True):
        group = _names(item)
        known = 1
        for name in group:
            known *= sizes.get(name, 1)
        unknown = [name for name in group if name not in sizes]
        if len(unknown) > 1 or size % known or (not unknown and known != size):
            raise _fail(f"{item} of size {size} with {sizes}", "at most one size of a group is left to be found")
        for name in unknown:
            sizes[name] = size // known
        flat += group
        shape += [sizes[name] for name in group]
    wanted = [name for item in target for name in _names(item)]
    if sorted(flat) != sorted(wanted) or len(set(flat)) != len(flat):
        raise _fail(f"{tuple(source)} to {tuple(target)}", "each name once on both sides")
    for axis in range(len(source) - 1, -1, -1):
        group = _names(source[axis])
        if len(group) > 1:
            tensor = tensor.reshape_dim(axis, [sizes[name] for name in group])
    tensor = tensor.permute([flat.index(name) for name in wanted])
    for axis, item in enumerate(target):
        count = len(_names(item))
        if count > 1:
            tensor = tensor.flatten_dims(axis, axis + count - 1)
    return tensor
