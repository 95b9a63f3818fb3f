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
