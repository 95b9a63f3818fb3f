"""Every instruction on drawn tiles, on every target, against its model."""

import models_accumulators  # noqa: F401
import models_elementwise  # noqa: F401
import models_gpsimd  # noqa: F401
import models_movement  # noqa: F401
import models_tensor  # noqa: F401
import pytest
from hypothesis import given
from hypothesis import strategies as st
from trial import GENERATION, MODELS, Trial

from trn3 import errors
from trn3.nki import isa as nisa

NAMES = sorted(MODELS)


def drawn(name, data, **options):
    """A trial of an instruction on one of the targets."""
    target = data.draw(st.sampled_from(sorted(GENERATION)), label="target")
    trial = Trial(data, target, **options)
    MODELS[name][0](trial)
    return trial


def test_every_instruction_has_a_model():
    made = nisa.NkiInstruction.__name__
    public = {
        name for name in nisa.__all__ if getattr(getattr(nisa, name), "__annotations__", {}).get("return") == made
    }
    assert public == set(MODELS)


@pytest.mark.parametrize("name", NAMES)
@given(data=st.data())
def test_values(name, data):
    trial = drawn(name, data)
    if trial.generation >= MODELS[name][1]:
        trial.check()
        return
    with pytest.raises(errors.Trn3Error, match=r"\.generation\]|kernel\.cores\]"):
        trial.check()


@pytest.mark.parametrize("name", NAMES)
@given(data=st.data())
def test_what_it_reads_and_writes_is_known_while_recording(name, data):
    trial = drawn(name, data, shares=False, moves=False)
    if trial.generation < MODELS[name][1] or trial.peer:
        return
    trial.check_unwritten()
    if not trial.keeps:
        trial.check_alone()
