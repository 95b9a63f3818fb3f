import numpy as np
import pytest
from float64 import BFLOAT16, mean_pool, padding, relative_error

import trn3
from trn3 import kernels
from trn3.errors import RuleError

SHAPES = [(1, 32, 128), (5, 32, 384), (129, 32, 96), (3, 64, 513), (2, 128, 384), (3, 384, 100), (1, 640, 64)]


@pytest.mark.parametrize("normalize", [False, True])
@pytest.mark.parametrize("shape", SHAPES)
def test_means_agree_with_float64(shape, normalize):
    sentences, length, size = shape
    x = np.random.default_rng(0).standard_normal((sentences * length, size), np.float32)
    mask = padding(sentences, length)
    found = trn3.run(kernels.mean_pool, x, mask, length, normalize)
    assert not found.findings
    assert found.result.shape == (sentences, size)
    assert relative_error(found.result, mean_pool(x, mask, length, normalize)) < 1e-6


def test_bfloat16_is_summed_in_float32():
    x = np.random.default_rng(0).standard_normal((96, 128), np.float32).astype(BFLOAT16)
    mask = padding(3, 32)
    found = trn3.run(kernels.mean_pool, x, mask, 32).result
    assert found.dtype == np.float32
    assert relative_error(found, mean_pool(x, mask, 32)) < 1e-6


def test_padding_does_not_count_and_nothing_is_divided_by_zero():
    x, mask = np.ones((64, 128), np.float32), np.zeros(64, np.float32)
    mask[:3] = 1
    x[3:] = 1e30
    found = trn3.run(kernels.mean_pool, x, mask, 32, False).result
    assert np.array_equal(found, np.stack([np.ones(128), np.zeros(128)]))
    assert np.array_equal(trn3.run(kernels.mean_pool, x, mask, 32).result[1], np.zeros(128))


@pytest.mark.parametrize(("tokens", "length"), [(96, 48), (100, 32), (64, 0), (16, 16)])
def test_lengths_that_do_not_fill_quadrants_are_refused(tokens, length):
    with pytest.raises(RuleError) as raised:
        trn3.run(kernels.mean_pool, np.ones((tokens, 128), np.float32), np.ones(tokens, np.float32), length)
    assert raised.value.rule == "kernel.length"
