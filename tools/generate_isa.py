"""Write python/trn3/nki/isa.py and docs/reference/isa.md from the instruction table of the extension.

python tools/generate_isa.py          # writes the files
python tools/generate_isa.py --check  # exits with 1 if they are stale
"""

from __future__ import annotations

import pathlib
import sys
import textwrap

from trn3 import _native

ROOT = pathlib.Path(__file__).resolve().parent.parent
HEAD = '''"""The instructions of the NeuronCore (``nki.isa``).

Generated from the instruction table by ``python tools/generate_isa.py``; do not edit. Each instruction records itself
in the kernel that its tensors belong to; operands may be given by position or by keyword.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from trn3._native import VirtualRegister
from trn3._native import emit as _emit

from . import _session
from ._enums import dge_mode, dma_engine, engine, matmul_perf_mode, nc_version, oob_mode, reduce_cmd

__all__ = [
{names}
]

tensor_engine = engine.tensor
vector_engine = engine.vector
scalar_engine = engine.scalar
gpsimd_engine = engine.gpsimd
unknown_engine = engine.unknown


def _operator(name: str) -> Callable[..., Any]:
    """Return what names an operator of ``nki.language``, which this module cannot import."""

    def operator() -> None:
        """Nothing to call: a name for an instruction."""

    operator.__name__ = name
    return operator


_equal = _operator("equal")
_maximum = _operator("maximum")


class NkiInstruction:
    """What an instruction returns: a handle that names it."""

    __slots__ = ("name",)

    def __init__(self, name: str | None) -> None:
        self.name = name


def register_alloc(x: int | None = None) -> VirtualRegister:
    """Return a new register of the sequencers.

    Parameters
    ----------
    x : int, optional
        Its first value, 32 bits; without one it is undefined until something writes it.

    Raises
    ------
    RuleError
        register.value.
    """
    return _session.current("register_alloc").recorder.register(x)


def get_nc_version() -> nc_version:
    """Return the generation of the NeuronCore that the kernel is recorded for (outside of one: the default target)."""
    return _session.generation()
'''
OTHERS = [
    "NkiInstruction",
    "VirtualRegister",
    "dge_mode",
    "dma_engine",
    "engine",
    "get_nc_version",
    "gpsimd_engine",
    "matmul_perf_mode",
    "nc_version",
    "oob_mode",
    "reduce_cmd",
    "register_alloc",
    "scalar_engine",
    "tensor_engine",
    "unknown_engine",
    "vector_engine",
]


def wrap(text: str, indent: str, width: int = 118) -> str:
    """Wrap paragraphs, keeping the blank lines between them."""
    paragraphs = (textwrap.fill(p, width, initial_indent=indent, subsequent_indent=indent) for p in text.split("\n\n"))
    return "\n\n".join(paragraphs)


def signature(entry: dict) -> str:
    """Write parameters as Python does."""
    parts = [p["name"] + (": Any" if p["default"] is None else f": Any = {p['default']}") for p in entry["parameters"]]
    return ", ".join([*parts, "name: str | None = None"])


def facts(entry: dict) -> str:
    """Say where an instruction runs, how exact it is, and which document describes it."""
    return f"Engines: {', '.join(entry['engines'])}. Values: {entry['values']}. Source: {entry['source']}."


def function(entry: dict) -> str:
    """Write one instruction as a Python function."""
    summary, _, rest = entry["doc"].partition("\n\n")
    first = summary if summary.endswith(".") else summary + "."
    lines = [f"def {entry['name']}("]
    for parameter in entry["parameters"]:
        default = "" if parameter["default"] is None else f" = {parameter['default']}"
        lines.append(f"    {parameter['name']}: Any{default},")
    lines += ["    name: str | None = None,", ") -> NkiInstruction:"]
    doc = wrap(first, "    ", 114).strip()
    head, _, tail = doc.partition("\n")
    lines.append(f'    """{head}')
    if tail:
        lines.append(tail)
    lines.append("")
    if rest:
        lines += [wrap(rest, "    "), ""]
    lines += ["    Parameters", "    ----------"]
    for parameter in entry["parameters"]:
        lines.append(f"    {parameter['name']}")
        lines.append(wrap(parameter["doc"], "        "))
    lines += ["    name : str, optional", "        Label for profiles.", ""]
    if entry["rules"]:
        lines += ["    Raises", "    ------", "    RuleError"]
        ids = ", ".join(rule["id"] for rule in entry["rules"])
        lines.append(wrap(f"{ids}, or a rule of all operands.", "        "))
        lines.append("")
    lines += ["    Notes", "    -----"]
    lines.append(wrap(facts(entry), "    "))
    lines.append('    """')
    arguments = ", ".join(parameter["name"] for parameter in entry["parameters"])
    lines.append(f"    _emit({entry['code']}, name, {arguments})")
    lines.append("    return NkiInstruction(name)")
    return "\n".join(lines)


def isa_module() -> str:
    """Return the text of isa.py."""
    table = _native.instruction_table()
    names = sorted([*OTHERS, *(entry["name"] for entry in table)])
    head = HEAD.replace("{names}", "\n".join(f'    "{name}",' for name in names))
    return head + "\n\n" + "\n\n\n".join(function(entry) for entry in table) + "\n"


def reference() -> str:
    """Return the text of the reference page."""
    lines = ["# Instructions", "", "Generated by `python tools/generate_isa.py`.", ""]
    for entry in _native.instruction_table():
        lines += [f"## {entry['name']}", "", f"`{entry['name']}({signature(entry).replace(': Any', '')})`", ""]
        lines += [entry["doc"].replace("``", "`"), ""]
        lines += [facts(entry), ""]
        lines += ["| parameter | use | meaning |", "|---|---|---|"]
        lines += [f"| `{p['name']}` | {p['usage']} | {p['doc']} |" for p in entry["parameters"]]
        if entry["rules"]:
            lines += ["", "| rule | what must hold | fix | source |", "|---|---|---|---|"]
            lines += [f"| `{r['id']}` | {r['text']} | {r['fix']} | {r['source']} |" for r in entry["rules"]]
        lines.append("")
    lines += ["## Rules that instructions share", "", "| rule | what must hold | fix | source |", "|---|---|---|---|"]
    lines += [f"| `{r['id']}` | {r['text']} | {r['fix']} | {r['source']} |" for r in _native.shared_rules()]
    return "\n".join(lines) + "\n"


def main() -> int:
    """Write the files, or say which are stale."""
    targets = {ROOT / "python/trn3/nki/isa.py": isa_module(), ROOT / "docs/reference/isa.md": reference()}
    stale = [path for path, text in targets.items() if not path.exists() or path.read_text() != text]
    if "--check" in sys.argv:
        for path in stale:
            print(f"{path.relative_to(ROOT)} is stale: run python tools/generate_isa.py")
        return 1 if stale else 0
    for path in stale:
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(targets[path])
        print(f"wrote {path.relative_to(ROOT)}")
    return 0


if __name__ == "__main__":
    sys.exit(main())
