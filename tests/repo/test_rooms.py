"""Checks on the code itself: which crate may use which, file length, stale files, words."""

import pathlib
import re
import subprocess
import sys

import pytest

ROOT = pathlib.Path(__file__).resolve().parents[2]
#: docs/architecture.md, "Rooms".
MAY_USE = {
    "num": set(),
    "spec": {"num"},
    "mem": {"num", "spec"},
    "isa": {"num", "spec", "mem"},
    "program": {"num", "spec", "mem", "isa"},
    "sim": set(),
    "neuroncore": {"spec", "mem", "isa", "program", "sim"},
    "dma": {"num", "spec", "mem", "sim"},
    "system": {"num", "spec", "mem", "isa", "program", "sim", "neuroncore", "dma"},
    "py": {"num", "spec", "mem", "isa", "program", "sim", "system"},
}
FORBIDDEN_MODULES = {"utils", "common", "helpers", "manager"}
LINES_MAX = 700


def sources(*suffixes):
    listed = subprocess.run(["git", "ls-files"], cwd=ROOT, capture_output=True, text=True, check=True).stdout
    return [ROOT / name for name in listed.splitlines() if name.endswith(suffixes) and (ROOT / name).exists()]


@pytest.mark.parametrize("crate", sorted(path.name for path in (ROOT / "rust").iterdir()))
def test_a_crate_uses_only_what_its_room_allows(crate):
    manifest = (ROOT / "rust" / crate / "Cargo.toml").read_text()
    used = set(re.findall(r"^trn3-(\w+)", manifest, re.MULTILINE))
    assert used <= MAY_USE[crate]


def test_only_py_names_python():
    for path in sources(".rs"):
        if path.parts[-3] != "py" and "rust/py/" not in str(path):
            assert "pyo3" not in path.read_text(), path


def test_no_file_has_grown_past_its_subject():
    long = {}
    for path in sources(".rs", ".py"):
        text = path.read_text()
        lines = len(text.splitlines())
        if lines > LINES_MAX and "Generated from" not in text[:400]:
            long[str(path.relative_to(ROOT))] = lines
    assert not long


def test_modules_have_names():
    bad = [path for path in sources(".rs", ".py") if path.stem in FORBIDDEN_MODULES]
    assert not bad


def test_generated_files_are_fresh():
    made = subprocess.run(
        [sys.executable, ROOT / "tools" / "generate_isa.py", "--check"], capture_output=True, text=True, check=False
    )
    assert made.returncode == 0, made.stdout


def test_unsafe_stands_only_where_it_is_allowed():
    allowed = {
        "rust/py/src/arrays.rs",
        "rust/py/src/frames.rs",
        "rust/py/src/tensor.rs",
        "rust/isa/src/simd.rs",
        "rust/isa/src/array/fast.rs",
        "rust/num/src/simd.rs",
    }
    found = set()
    for path in sources(".rs"):
        if re.search(r"^\s*(pub )?unsafe |unsafe \{", path.read_text(), re.MULTILINE):
            found.add(str(path.relative_to(ROOT)))
    extra = {name for name in found - allowed if not name.startswith(("rust/num/src/functions", "rust/py/src/codec"))}
    assert not extra


def test_nothing_asks_for_a_generation_by_name():
    for path in sources(".rs"):
        if "rust/spec/src" in str(path):
            continue
        code = path.read_text().split("#[cfg(test)]")[0]
        assert not re.search(r'==\s*"trn[123]"', code), path
