"""Annotations for the parameters of kernels (``nki.typing``)."""

from __future__ import annotations

from typing import Any

__all__ = ["mutable_tensor", "tensor"]


class _Annotation:
    """``tensor[shape]`` and the like; no effect at run time."""

    def __init__(self, name: str) -> None:
        self.__name__ = name

    def __getitem__(self, shape: Any) -> _Annotation:
        return self

    def __repr__(self) -> str:
        return f"nki.typing.{self.__name__}"


tensor = _Annotation("tensor")
mutable_tensor = _Annotation("mutable_tensor")
