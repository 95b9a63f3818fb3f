import doctest
import math
import sys

import numpy as np
import pytest
from float64 import BFLOAT16, microscaled, relative_error

import trn3
from trn3 import kernels
from trn3.errors import RuleError

#: tokens, features, features of the result; one tile, partial tiles, several pieces of each axis.
SHAPES = [(1, 128, 66), (128, 384, 384), (129, 256, 513), (300, 640, 96), (31, 2176, 1026)]


def layer(tokens, size, features, seed=0):
    rng = np.random.default_rng(seed)
    draw = lambda *shape: rng.standard_normal(shape, np.float32)  # noqa: E731
    return draw(tokens, size), draw(size, features) / np.float32(math.sqrt(size)), draw(features)


def exact(x, w, b):
    return x.astype(np.float64) @ w.astype(np.float64) + b


@pytest.mark.parametrize("shape", SHAPES)
def test_float32_agrees_with_float64(shape):
    x, w, b = layer(*shape)
    found = trn3.run(kernels.dense, x, w, b)
    assert not found.findings
    assert relative_error(found.result, exact(x, w, b)) < 1e-6


@pytest.mark.parametrize("shape", SHAPES)
def test_bfloat16_rounds_the_result_only(shape):
    x, w, b = layer(*shape)
    x, w = x.astype(BFLOAT16), w.astype(BFLOAT16)
    found = trn3.run(kernels.dense, x, w, b)
    assert not found.findings
    want = exact(x, w, b)
    assert np.all(np.abs(found.result.astype(np.float64) - want) <= 2.0**-8 * np.abs(want) + 1e-5)


@pytest.mark.parametrize("shape", SHAPES)
def test_mxfp8_agrees_with_exact_sums_of_rounded_operands(shape):
    x, w, b = layer(*shape)
    x = x.astype(BFLOAT16)
    found = trn3.run(kernels.dense, x, kernels.pack_weight(w), b)
    assert not found.findings
    # Scales at another place than the operand's, or of another piece, would cost far more than the result's rounding.
    want = microscaled(x.astype(np.float64).T).T @ microscaled(w) + b
    assert relative_error(found.result, want) < 3e-3
    assert relative_error(found.result, exact(x, w, b)) < 6e-2


def test_activations_may_be_e5m2():
    x, w, b = layer(5, 256, 128)
    packed = kernels.pack_weight(w, "float4_e2m1fn")
    found = trn3.run(kernels.dense, x.astype(BFLOAT16), packed, b, element="float8_e5m2").result
    assert 1e-2 < relative_error(found, exact(x, w, b)) < 0.2


def test_arguments_of_different_models_are_refused():
    x, w, b = layer(5, 256, 128)
    words, scales = kernels.pack_weight(w)
    for operand, arguments in (
        ("w", (x[:, :128], w, b)),
        ("b", (x, w, b[:64])),
        ("w", (x.astype(BFLOAT16), (words, scales[:4]), b)),
    ):
        with pytest.raises(RuleError) as raised:
            trn3.run(kernels.dense, *arguments)
        assert (raised.value.rule, raised.value.operand) == ("kernel.shape", operand)


def test_the_example_of_pack_weight_holds():
    # The package has the kernel of that name.
    module = sys.modules["trn3.kernels.dense"]
    assert doctest.testmod(module, optionflags=doctest.NORMALIZE_WHITESPACE).failed == 0
