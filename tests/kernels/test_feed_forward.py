import numpy as np
import pytest
from float64 import BFLOAT16, block, feed_forward, feed_forward_mx, relative_error

import trn3
from trn3 import kernels
from trn3.errors import RuleError, UnsupportedError

#: tokens, features, hidden features, features of the result; one tile, partial tiles, several pieces of each axis.
SHAPES = [(1, 128, 128, 128), (5, 256, 128, 384), (129, 128, 384, 128), (515, 384, 640, 130)]
MX_SHAPES = [*SHAPES, (7, 640, 512, 128), (64, 512, 1152, 514)]


def in_bfloat16(x, w1, b1, w2, b2):
    return x.astype(BFLOAT16), w1.astype(BFLOAT16), b1, w2.astype(BFLOAT16), b2


def packed(x, w1, b1, w2, b2):
    return x.astype(BFLOAT16), kernels.pack_weight(w1), b1, kernels.pack_weight(w2), b2


@pytest.mark.parametrize("shape", SHAPES)
def test_float32_agrees_with_float64(shape):
    arguments = block(*shape)
    found = trn3.run(kernels.feed_forward, *arguments)
    assert found.result.dtype == np.float32
    assert not found.findings
    assert relative_error(found.result, feed_forward(*arguments)) < 1e-6


@pytest.mark.parametrize("target", ["trn1", "inf2", "trn2"])
def test_earlier_generations_agree_too(target):
    arguments = block(129, 128, 384, 128)
    options = trn3.RunOptions(target=target)
    assert (
        relative_error(trn3.run(kernels.feed_forward, *arguments, options=options).result, feed_forward(*arguments))
        < 1e-6
    )
    arguments = in_bfloat16(*arguments)
    found = trn3.run(kernels.feed_forward, *arguments, options=options)
    assert not found.findings
    assert found.report.to_dict()["target"] == target
    np.testing.assert_array_equal(found.result, trn3.run(kernels.feed_forward, *arguments).result)


def test_microscaling_needs_trainium3():
    with pytest.raises(UnsupportedError, match=r"from NeuronCore-v4 \(trn3\) on"):
        trn3.run(kernels.feed_forward, *packed(*block(5, 256, 128, 384)), options=trn3.RunOptions(target="trn2"))


@pytest.mark.parametrize("shape", SHAPES)
def test_bfloat16_agrees_with_float64(shape):
    arguments = in_bfloat16(*block(*shape))
    found = trn3.run(kernels.feed_forward, *arguments)
    assert found.result.dtype == BFLOAT16
    assert not found.findings
    # Two roundings to 8 bits (hidden activations, result); weights and x are what the reference gets too.
    assert relative_error(found.result, feed_forward(*arguments)) < 4e-3


@pytest.mark.parametrize("shape", MX_SHAPES)
def test_mxfp8_agrees_with_exact_sums_of_rounded_operands(shape):
    arguments = block(*shape)
    found = trn3.run(kernels.feed_forward, *packed(*arguments))
    assert found.result.dtype == BFLOAT16
    assert not found.findings
    rounded = (arguments[0].astype(BFLOAT16), *arguments[1:])
    # A wrong place of a scale or a word would cost far more than these few roundings of the result to 8 bits.
    assert relative_error(found.result, feed_forward_mx(*rounded)) < 5e-3
    assert relative_error(found.result, feed_forward(*arguments)) < 6e-2


def test_a_token_does_not_depend_on_its_neighbours():
    x, *dense = packed(*block(131, 384, 512, 128))
    together = trn3.run(kernels.feed_forward, x, *dense).result
    alone = trn3.run(kernels.feed_forward, x[130:], *dense).result
    assert together[130:].tobytes() == alone.tobytes()


def test_weights_are_read_once():
    tokens, size, hidden = 600, 256, 384
    x, w1, b1, w2, b2 = block(tokens, size, hidden, size)
    report = trn3.run(kernels.feed_forward, x, w1, b1, w2, b2).report
    rows_of_b2 = 128 * b2.nbytes
    assert report.hbm_bytes == 2 * x.nbytes + w1.nbytes + w2.nbytes + b1.nbytes + rows_of_b2
    assert report.flops == 2 * tokens * size * hidden * 2


def test_packed_weights_take_33_bits_for_4_values():
    words, scales = kernels.pack_weight(np.ones((640, 96), np.float32))
    assert (words.shape, words.dtype.itemsize) == ((160, 96), 4)
    assert (scales.shape, scales.dtype) == ((20, 96), np.uint8)
    assert np.all(scales == 127 - 7)


@pytest.mark.parametrize("convert", [lambda *a: a, packed])
@pytest.mark.parametrize(("at", "operand"), [(1, "w1"), (2, "b1"), (3, "w2"), (4, "b2")])
def test_arguments_of_different_models_are_refused(convert, at, operand):
    arguments = list(block(4, 128, 256, 128))
    arguments[at] = np.concatenate([arguments[at]] * 2)
    with pytest.raises(RuleError) as raised:
        trn3.run(kernels.feed_forward, *convert(*arguments))
    assert raised.value.rule == "kernel.shape"
    assert raised.value.operand == operand


@pytest.mark.parametrize("features", [64, 129])
def test_features_that_do_not_fill_tiles_are_refused(features):
    arguments = block(4, features, 128, 128)
    with pytest.raises(RuleError) as raised:
        trn3.run(kernels.feed_forward, *arguments)
    assert raised.value.rule == "kernel.features"
    with pytest.raises(RuleError) as raised:
        kernels.pack_weight(arguments[1])
    assert raised.value.rule == "kernel.features"
