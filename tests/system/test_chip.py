"""Recorded Programs on a chip, without their kernel."""

import numpy as np
import pytest

import trn3
from trn3 import errors, nki
from trn3.nki import isa as nisa
from trn3.nki import language as nl

X = np.arange(32, dtype=np.float32).reshape(4, 8)


def writes_first(x, y):
    tile = nl.load(y)
    nl.store(x, nl.multiply(tile, 7.0))
    out = nl.ndarray(y.shape, y.dtype, buffer=nl.shared_hbm)
    nisa.dma_copy(out, y)
    return out


def half_written(x):
    tile = nl.ndarray((4, 8), nl.float32)
    nisa.memset(tile[:, 0:4], 1.0)
    out = nl.ndarray((4, 8), nl.float32, buffer=nl.shared_hbm)
    nl.store(out, tile)
    return out


def test_inputs_are_written_in_place_whatever_their_layout():
    program = nki.record(writes_first, X, X.copy())
    x = np.asfortranarray(np.zeros((4, 8), np.float32))
    run = trn3.Chip("trn3").run(program, [x, X])
    assert np.array_equal(x, 7 * X)
    assert np.array_equal(run.result[0], X)


def test_a_read_only_input_that_is_written_is_refused():
    program = nki.record(writes_first, X, X.copy())
    x = np.zeros((4, 8), np.float32)
    x.flags.writeable = False
    with pytest.raises(errors.RuleError) as caught:
        trn3.Chip("trn3").run(program, [x, X])
    assert caught.value.rule == "kernel.input_writable"


def test_the_checks_are_those_of_the_recording():
    strict = nki.record(nki.jit(half_written, checks="documented"), X)
    with pytest.raises(errors.UninitializedReadError):
        trn3.Chip("trn3").run(strict, [X])
    run = trn3.Chip("trn3").run(nki.record(half_written, X), [X])
    assert [finding["rule"] for finding in run.findings] == ["uninitialized.output"]


def test_a_program_of_another_chip_is_refused():
    program = nki.record(nki.jit(half_written, target="trn2"), X)
    with pytest.raises(errors.RuleError) as caught:
        trn3.Chip("trn3").run(program, [X])
    assert caught.value.rule == "program.target"
    assert trn3.Chip("trn2").run(program, [X]).program is program


@pytest.mark.parametrize("inputs", [[], [X, X], [X.astype(np.float16)], [X[:2]]])
def test_other_inputs_than_recorded_are_refused(inputs):
    program = nki.record(half_written, X)
    with pytest.raises(errors.RuleError) as caught:
        trn3.Chip("trn3").run(program, inputs)
    assert caught.value.rule == "program.input"


def test_arrays_that_overlap_are_two_tensors_on_every_call():
    kernel = nki.jit(writes_first)
    for _ in range(3):
        base = np.ones((12, 8), np.float32)
        assert np.array_equal(kernel(base[0:8], base[4:12]), np.ones((8, 8)))
        assert np.array_equal(base[0:8], np.full((8, 8), 7.0))


def test_an_edited_table_is_read_again(tmp_path):
    own = tmp_path / "own.toml"

    def write(load_ns):
        own.write_text(
            'name = "own"\nextends = "trn3"\n[dma.to_first_ns]\n'
            f'value = {load_ns}\nunit = "ns"\nstatus = "assumed"\nsource = "what if"\n'
        )

    times = []
    for load_ns in (700, 7000):
        write(load_ns)
        run = trn3.run(half_written, X, options=trn3.RunOptions(target=str(own)))
        times.append(run.report.total_s)
    assert times[1] > times[0] + 6e-6


def test_a_table_beyond_the_emulated_array_is_a_rule_not_a_panic(tmp_path):
    own = tmp_path / "large.toml"
    text = 'name = "large"\nextends = "trn3"\n'
    for key, value in (("matmul.moving_free_max_fp32", 16384), ("psum.bank_bytes", 8192)):
        unit = trn3.spec.load("trn3")[key].unit
        text += f'[{key}]\nvalue = {value}\nunit = "{unit}"\nstatus = "assumed"\nsource = "what if"\n'
    own.write_text(text)

    def kernel(x, y):
        acc = nl.ndarray((8, 8208), nl.float32, buffer=nl.psum)
        nisa.nc_matmul(acc, nl.load(x), nl.load(y))
        return x

    x, y = np.ones((8, 8), np.float32), np.ones((8, 8208), np.float32)
    with pytest.raises(errors.RuleError) as caught:
        nki.simulate(kernel, target=str(own))(x, y)
    assert caught.value.rule == "matmul.moving.free_max"
