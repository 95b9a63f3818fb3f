"""The JSON schema of a report, made from its records: one description for Python, JSON and readers."""

from __future__ import annotations

import inspect
import re
import types
import typing
from collections.abc import Mapping
from dataclasses import fields
from typing import Any

from .figures import Figures

__all__ = ["VERSION", "schema"]

#: Name and version. The number grows when a field goes or changes its meaning; new fields do not change it.
VERSION = "trn3.report/1"

_PLAIN = {str: "string", int: "integer", float: "number", bool: "boolean", type(None): "null"}


def schema() -> dict[str, Any]:
    """Return the JSON schema (draft 2020-12) of `Report.to_json`.

    Examples
    --------
    >>> schema()["$defs"]["RouteUse"]["properties"]["read_bytes"]["type"]
    'integer'
    """
    definitions: dict[str, Any] = {}
    _define(Figures, definitions)
    definitions["Figures"]["properties"]["schema"]["const"] = VERSION
    return {
        "$schema": "https://json-schema.org/draft/2020-12/schema",
        "$id": VERSION,
        "$ref": "#/$defs/Figures",
        "$defs": definitions,
    }


def _define(record: type, definitions: dict[str, Any]) -> None:
    if record.__name__ in definitions:
        return
    text = inspect.getdoc(record) or ""
    hints, said = typing.get_type_hints(record), _said(text)
    properties: dict[str, Any] = {}
    definitions[record.__name__] = {
        "type": "object",
        "description": text.split("\n\n")[0],
        "properties": properties,
        "required": [each.name for each in fields(record)],
        "additionalProperties": False,
    }
    for each in fields(record):
        properties[each.name] = {**_shape(hints[each.name], definitions), "description": said[each.name]}


def _shape(hint: Any, definitions: dict[str, Any]) -> dict[str, Any]:
    if hint is Any:
        return {}
    if hint in _PLAIN:
        return {"type": _PLAIN[hint]}
    origin, inner = typing.get_origin(hint), typing.get_args(hint)
    if origin is list:
        return {"type": "array", "items": _shape(inner[0], definitions)}
    if origin is Mapping:
        return {"type": "object", "additionalProperties": _shape(inner[1], definitions)}
    if origin in (types.UnionType, typing.Union):
        return {"anyOf": [_shape(option, definitions) for option in inner]}
    _define(hint, definitions)
    return {"$ref": f"#/$defs/{hint.__name__}"}


def _said(text: str) -> dict[str, str]:
    """Return what a docstring's section of attributes says of each."""
    section = text.partition("Attributes\n----------\n")[2]
    said = {}
    for names, about in re.findall(r"^(\S[^:\n]*) : [^\n]+\n((?:    [^\n]*\n?)+)", section, re.MULTILINE):
        for name in names.split(", "):
            said[name] = " ".join(about.split())
    return said
