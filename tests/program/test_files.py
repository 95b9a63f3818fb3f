"""Stored Programs: round trips, and files that are not."""

import os
import struct
import subprocess
import sys
import textwrap
import zlib

import numpy as np
import pytest

from trn3 import _native, errors, nki
from trn3.nki import isa as nisa
from trn3.nki import language as nl

X = np.arange(128 * 32, dtype=np.float32).reshape(128, 32)


def kernel(x):
    tile = nl.copy(nl.load(x), dtype=nl.bfloat16)
    product = nl.ndarray((32, 32), nl.float32, buffer=nl.psum)
    nisa.nc_matmul(product, tile, tile)
    sixteen = nl.shared_constant(np.full((32, 32), 16, np.float32))
    out = nl.ndarray((32, 32), nl.float32, buffer=nl.shared_hbm)
    nl.store(out, nl.add(nl.copy(product), nl.load(sixteen)))
    return out


@pytest.fixture
def saved(tmp_path):
    path = tmp_path / "kernel.trn3"
    simulated = nki.simulate(kernel)
    want = simulated(X)
    simulated.program.save(path)
    return path, want


def run(program):
    out = np.empty((32, 32), np.float32)
    findings = program.run([X], [out])
    return out, findings


def test_a_stored_program_gives_the_same_bits(saved):
    path, want = saved
    program = _native.Program.load(path)
    original = nki.record(kernel, X)
    np.testing.assert_array_equal(run(program)[0], want)
    for name in ("kernel", "target", "checks", "specialised", "instructions", "dependencies", "inputs", "outputs"):
        assert getattr(program, name) == getattr(original, name), name
    assert program.opcodes() == original.opcodes()
    assert program.tensors() == original.tensors()
    assert [program.producers(at) for at in range(program.instructions)] == [
        original.producers(at) for at in range(original.instructions)
    ]
    second = path.with_suffix(".2")
    program.save(second)
    assert second.read_bytes() == path.read_bytes()
    assert {p.name for p in path.parent.iterdir()} == {path.name, second.name}


def test_it_runs_without_its_source_in_another_process(saved, tmp_path):
    path, want = saved
    script = tmp_path / "run.py"
    script.write_text(
        textwrap.dedent(f"""
        import numpy as np
        from trn3 import _native, nki
        program = _native.Program.load({str(path)!r})
        out = np.empty((32, 32), np.float32)
        program.run([np.arange(128 * 32, dtype=np.float32).reshape(128, 32)], [out])
        np.save({str(tmp_path / "out.npy")!r}, out)
    """)
    )
    subprocess.run([sys.executable, "-W", "error", str(script)], check=True, cwd=tmp_path)
    np.testing.assert_array_equal(np.load(tmp_path / "out.npy"), want)


def test_truncated_files(saved, tmp_path):
    data = saved[0].read_bytes()
    path = tmp_path / "cut"
    for length in [*range(0, len(data), 97), *range(30), len(data) - 1]:
        path.write_bytes(data[:length])
        with pytest.raises(errors.FileFormatError) as caught:
            _native.Program.load(path)
        text = str(caught.value)
        assert str(path) in text
        assert "truncated" in text or length == 0
        assert ";" in text, "the message says what to do"


def test_flipped_bits(saved, tmp_path):
    data = saved[0].read_bytes()
    path = tmp_path / "flipped"
    for at in [*range(24), *range(24, len(data), 61)]:
        changed = bytearray(data)
        changed[at] ^= 1 << at % 8
        path.write_bytes(changed)
        with pytest.raises(errors.FileFormatError, match=r"not a trn3|version|truncated|damaged"):
            _native.Program.load(path)


def test_foreign_files(saved, tmp_path):
    path = tmp_path / "foreign"
    for data in (b"", b"\x7fELF", b"hello world" * 100, saved[0].read_bytes() + b"\0", np.lib.format.MAGIC_PREFIX * 9):
        path.write_bytes(data)
        with pytest.raises(errors.FileFormatError, match=str(path)):
            _native.Program.load(path)


def test_another_version_is_named(saved, tmp_path):
    data = bytearray(saved[0].read_bytes())
    data[8:12] = struct.pack("<I", 999)
    path = tmp_path / "version"
    path.write_bytes(data)
    with pytest.raises(errors.FileFormatError, match="version 999"):
        _native.Program.load(path)


def test_sound_checksums_over_nonsense_are_refused_too(saved, tmp_path):
    data = saved[0].read_bytes()
    path = tmp_path / "forged"
    rng = np.random.default_rng(0)
    for _ in range(60):
        body = bytearray(data[24:])
        for at in rng.integers(0, len(body), 3):
            body[at] ^= int(rng.integers(1, 256))
        path.write_bytes(data[:12] + struct.pack("<QI", len(body), zlib.crc32(body)) + body)
        try:
            _native.Program.load(path)
        except errors.FileFormatError:
            continue
        # Plain data that decodes is accepted: a checksum is no signature.


def test_the_systems_errors_keep_their_classes(tmp_path):
    with pytest.raises(FileNotFoundError):
        _native.Program.load(tmp_path / "absent")
    with pytest.raises(OSError, match=r"directory|Is a"):
        _native.Program.load(tmp_path)
    program = nki.record(kernel, X)
    with pytest.raises(FileNotFoundError):
        program.save(tmp_path / "no" / "such" / "directory")
    assert list(tmp_path.iterdir()) == []


def test_what_run_refuses(saved):
    program = _native.Program.load(saved[0])
    out = np.empty((32, 32), np.float32)
    for inputs, outputs in [
        ([], [out]),
        ([X], []),
        ([X, X], [out]),
        ([X[:64]], [out]),
        ([X], [out[:16]]),
        ([X.T], [out]),
        ([X.astype(np.float64)], [out]),
        ([X.tolist()], [out]),
        ([None], [out]),
    ]:
        with pytest.raises((ValueError, TypeError)):
            program.run(inputs, outputs)
    with pytest.raises((ValueError, errors.RuleError)):
        program.run([X], [out], checks="nonsense")
    with pytest.raises((ValueError, IndexError)):
        program.producers(10**6)
    np.testing.assert_array_equal(run(program)[0], saved[1])


@pytest.mark.parametrize("hash_seed", ["0", "1", "12345"])
def test_the_hash_seed_changes_nothing(saved, tmp_path, hash_seed):
    script = tmp_path / "record.py"
    script.write_text(
        textwrap.dedent(f"""
        import sys
        sys.path.insert(0, {os.path.dirname(__file__)!r})
        import numpy as np, test_files
        from trn3 import nki
        simulated = nki.simulate(test_files.kernel)
        np.save("out.npy", simulated(test_files.X))
        simulated.program.save("program")
    """)
    )
    subprocess.run(
        [sys.executable, str(script)], check=True, cwd=tmp_path, env={**os.environ, "PYTHONHASHSEED": hash_seed}
    )
    np.testing.assert_array_equal(np.load(tmp_path / "out.npy"), saved[1])
    assert (tmp_path / "program").read_bytes() == saved[0].read_bytes()
