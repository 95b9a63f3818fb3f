import math

import numpy as np
import pytest
from float64 import BFLOAT16, attention, padding, relative_error

import trn3
from trn3 import kernels
from trn3.errors import RuleError

#: sentences, length, features, heads: heads of 32, 64 and 128, a last tile that is not full, several tiles of keys.
SHAPES = [
    (1, 32, 128, 4),
    (5, 32, 384, 12),
    (17, 32, 256, 4),
    (3, 64, 384, 12),
    (2, 128, 128, 1),
    (3, 128, 384, 12),
    (2, 256, 384, 12),
    (1, 384, 256, 4),
    (2, 512, 128, 2),
]


def layer(sentences, length, size, heads, seed=0):
    rng = np.random.default_rng(seed)
    draw = lambda *shape: rng.standard_normal(shape, np.float32)  # noqa: E731
    mask = padding(sentences, length, seed)
    w_qkv, w_out = draw(size, 3 * size) / np.float32(math.sqrt(size)), draw(size, size) / np.float32(math.sqrt(size))
    return draw(sentences * length, size), mask, w_qkv, draw(3 * size), w_out, draw(size), heads, length


def in_format(name, x, mask, w_qkv, b_qkv, w_out, b_out, *sizes):
    if name == "fp32":
        return x, mask, w_qkv, b_qkv, w_out, b_out, *sizes
    cast = kernels.pack_weight if name == "mxfp8" else lambda weight: weight.astype(BFLOAT16)
    return x.astype(BFLOAT16), mask, cast(w_qkv), b_qkv, cast(w_out), b_out, *sizes


def among_tokens(found, want, mask):
    return relative_error(found[mask > 0], want[mask > 0])


@pytest.mark.parametrize(("name", "limit"), [("fp32", 1e-6), ("bf16", 5e-3), ("mxfp8", 6e-2)])
@pytest.mark.parametrize("shape", SHAPES)
def test_each_format_agrees_with_float64(shape, name, limit):
    arguments = layer(*shape)
    found = trn3.run(kernels.attention, *in_format(name, *arguments))
    assert not found.findings
    assert np.isfinite(found.result.astype(np.float32)).all()
    assert among_tokens(found.result, attention(*arguments), arguments[1]) < limit


@pytest.mark.parametrize("name", ["fp32", "bf16", "mxfp8"])
@pytest.mark.parametrize("length", [32, 64, 256])
def test_what_padding_holds_does_not_matter(length, name):
    arguments = layer(3, length, 128, 4)
    mask = arguments[1]
    other = arguments[0].copy()
    other[mask == 0] = 30.0 * np.random.default_rng(9).standard_normal(other[mask == 0].shape)
    one, two = (trn3.run(kernels.attention, *in_format(name, x, *arguments[1:])).result for x in (arguments[0], other))
    if name == "fp32":
        # The maximum is over the tokens alone, so that every bit stays.
        assert one[mask > 0].tobytes() == two[mask > 0].tobytes()
    assert among_tokens(two, one.astype(np.float64), mask) < 1e-6


def test_large_scores_stay_finite():
    x, mask, w_qkv, *rest = layer(2, 32, 128, 4)
    # Scores of some hundred, whose exponentials no float32 holds; each has an error of their last place.
    arguments = 15 * x, mask, w_qkv, *rest
    found = trn3.run(kernels.attention, *arguments).result
    assert among_tokens(found, attention(*arguments), mask) < 1e-4


def test_a_sentence_of_padding_disturbs_nobody():
    arguments = layer(4, 32, 128, 4)
    want = attention(*arguments)
    arguments[1][32:64] = 0
    found = trn3.run(kernels.attention, *in_format("bf16", *arguments)).result.astype(np.float32)
    assert np.isfinite(found).all()
    assert among_tokens(found, want, arguments[1]) < 5e-3


def test_sentences_do_not_depend_on_their_neighbours():
    x, mask, *rest = layer(6, 32, 128, 4)
    together = trn3.run(kernels.attention, x, mask, *rest).result
    alone = trn3.run(kernels.attention, x[160:], mask[160:], *rest).result
    assert together[160:].tobytes() == alone.tobytes()


@pytest.mark.parametrize(
    ("heads", "length", "rule"),
    [(3, 32, "kernel.heads"), (8, 32, "kernel.heads"), (0, 32, "kernel.heads"), (4, 48, "kernel.length")],
)
def test_sizes_that_do_not_fit_the_array_are_refused(heads, length, rule):
    *arguments, _, _ = layer(6, 32, 128, 4)
    with pytest.raises(RuleError) as raised:
        trn3.run(kernels.attention, *arguments, heads, length)
    assert raised.value.rule == rule


def test_sentences_beyond_a_bank_of_scores_are_refused():
    with pytest.raises(RuleError) as raised:
        trn3.run(kernels.attention, *layer(1, 640, 128, 4))
    assert raised.value.rule == "kernel.length"
    assert "512" in str(raised.value)


@pytest.mark.parametrize(("at", "operand"), [(1, "mask"), (2, "w_qkv"), (3, "b_qkv"), (4, "w_out"), (5, "b_out")])
def test_arguments_of_different_models_are_refused(at, operand):
    arguments = list(layer(4, 32, 128, 4))
    arguments[at] = arguments[at][:64]
    with pytest.raises(RuleError) as raised:
        trn3.run(kernels.attention, *arguments)
    assert (raised.value.rule, raised.value.operand) == ("kernel.shape", operand)
