"""What memory that nothing has written reads as (decisions.md D16, D17)."""

import numpy as np
import pytest

from trn3 import errors, nki
from trn3.nki import isa as nisa
from trn3.nki import language as nl

X = np.ones((4, 8), np.float32)


def kernel(dtype):
    def half_written(x):
        tile = nl.ndarray((4, 8), dtype)
        nisa.memset(tile[:, 0:4], 1)
        out = nl.ndarray((4, 8), dtype, buffer=nl.shared_hbm)
        nisa.dma_copy(out, tile)  # READ
        return out

    return half_written


@pytest.mark.parametrize("eager", [False, True])
@pytest.mark.parametrize("choice, integer", [("poison", 0), ("simulator", 4)])
def test_integers_read_as_the_option_says_and_floats_as_nan(choice, integer, eager):
    for dtype in (nl.uint8, nl.int16, nl.int32):
        got = nki.simulate(kernel(dtype), uninitialized=choice, eager=eager)(X)
        assert got.tolist() == [[1] * 4 + [integer] * 4] * 4
    got = nki.simulate(kernel(nl.bfloat16), uninitialized=choice, eager=eager)(X).astype(np.float32)
    assert (got[:, :4] == 1).all()
    assert np.isnan(got[:, 4:]).all()


def test_stop_refuses_the_read_on_its_line():
    with pytest.raises(errors.UninitializedReadError) as caught:
        nki.simulate(kernel(nl.int32), uninitialized="stop")(X)
    assert caught.value.rule == "uninitialized.read"
    assert caught.value.instruction == "dma_copy"
    with open(__file__) as source:
        line = next(at for at, text in enumerate(source, 1) if "# READ" in text and "text" not in text)
    assert caught.value.where == f"{__file__}:{line}"


def test_stop_lets_written_memory_pass():
    def written(x):
        tile = nl.load(x)
        out = nl.ndarray((4, 8), nl.float32, buffer=nl.shared_hbm)
        nisa.dma_copy(out, tile)
        return out

    assert np.array_equal(nki.simulate(written, uninitialized="stop")(X), X)


def test_another_choice_is_refused():
    with pytest.raises(ValueError, match="one of poison, simulator, stop"):
        nki.simulate(kernel(nl.int32), uninitialized="zero")(X)


def test_the_choice_is_part_of_what_a_recording_is_kept_for():
    made = nki.jit(kernel(nl.int32))
    first = made(X)
    second = made.with_options(uninitialized="simulator")(X)
    assert (first[0, 7], second[0, 7]) == (0, 4)


def rules_of(kernel, *arrays, **options):
    simulated = nki.simulate(kernel, **options)
    simulated(*arrays)
    return [finding["rule"] for finding in simulated.findings]


def to_float(dtype, step):
    def kernel(x):
        tile = nl.ndarray((4, 8), dtype)
        nisa.memset(tile[:, 0:4], 1)
        result = nl.ndarray((4, 8), nl.float32)
        step(result, tile)
        out = nl.ndarray((4, 8), nl.float32, buffer=nl.shared_hbm)
        nisa.dma_copy(out, result)
        return out

    return kernel


HIDDEN = {
    "integers": to_float(nl.int32, lambda result, tile: nisa.tensor_copy(result, tile)),
    "a comparison": to_float(nl.float32, lambda result, tile: nisa.tensor_scalar(result, tile, nl.less, 3.0)),
}


@pytest.mark.parametrize("checks", ["lenient", "documented"])
@pytest.mark.parametrize("what", sorted(HIDDEN))
def test_unwritten_data_that_leaves_no_nan_is_still_a_finding(what, checks):
    assert rules_of(HIDDEN[what], X, checks=checks) == ["uninitialized.output"]


@pytest.mark.parametrize("dtype", [nl.int32, nl.float32])
def test_what_is_overwritten_in_pieces_is_known_again(dtype):
    def kernel(x):
        unwritten = nl.ndarray((4, 8), dtype)
        nisa.memset(unwritten[0:1, 0:1], 1)
        tile = nl.ndarray((4, 8), dtype)
        nisa.tensor_copy(tile, unwritten)
        nisa.memset(tile[:, 0:4], 2)
        nisa.memset(tile[:, 4:8], 3)
        out = nl.ndarray((4, 8), dtype, buffer=nl.shared_hbm)
        nisa.dma_copy(out, tile)
        return out

    assert rules_of(kernel, X, checks="documented") == []
    assert rules_of(kernel, X) == []


@pytest.mark.parametrize("choice", ["poison", "stop"])
def test_scale_rows_that_no_group_uses_need_not_be_written(choice):
    def kernel(x):
        source = nl.load(x)
        words = nl.ndarray((64, 4), nl.float8_e4m3fn_x4)
        scale = nl.ndarray((64, 4), nl.uint8)
        nisa.quantize_mx(words, source, scale)
        acc = nl.ndarray((4, 4), nl.float32, buffer=nl.psum)
        nisa.nc_matmul_mx(acc, words, words, scale, scale)
        out = nl.ndarray((4, 4), nl.float32, buffer=nl.shared_hbm)
        nl.store(out, acc)
        return out

    x = np.ones((64, 16), np.float32).astype(nl.bfloat16)
    assert rules_of(kernel, x, checks="documented", uninitialized=choice) == []
