import numpy as np
import pytest
from float64 import BFLOAT16, layer_norm, relative_error

import trn3
from trn3 import kernels
from trn3.errors import RuleError

EPS = 1e-12


def model(tokens, size, seed=0):
    rng = np.random.default_rng(seed)
    tables = [rng.standard_normal((rows, size), np.float32) for rows in (50, 20, 2)]
    ids = [rng.integers(0, len(table), (tokens, 1), dtype=np.int32) for table in tables]
    return ids, tables, rng.standard_normal(size, np.float32), rng.standard_normal(size, np.float32)


def expected(ids, tables, gamma, beta):
    total = sum(table[rows[:, 0]].astype(np.float64) for rows, table in zip(ids, tables, strict=True))
    return layer_norm(total, gamma, beta, EPS)


@pytest.mark.parametrize(("tokens", "size"), [(1, 128), (128, 96), (129, 384), (300, 128)])
def test_rows_are_gathered_added_and_normalised(tokens, size):
    ids, tables, gamma, beta = model(tokens, size)
    found = trn3.run(kernels.embedding, *ids, *tables, gamma, beta, EPS)
    assert found.result.dtype == np.float32
    assert not found.findings
    assert relative_error(found.result, expected(ids, tables, gamma, beta)) < 1e-6


def test_bfloat16_rounds_tables_and_result_only():
    ids, tables, gamma, beta = model(140, 256)
    narrow = [table.astype(BFLOAT16) for table in tables]
    found = trn3.run(kernels.embedding, *ids, *narrow, gamma, beta, EPS).result
    exact = expected(ids, narrow, gamma, beta)
    assert found.dtype == BFLOAT16
    assert np.all(np.abs(found.astype(np.float64) - exact) <= 2.0**-8 * np.abs(exact) + 1e-6)


def test_eps_keeps_a_constant_row_finite():
    zeros = np.zeros((2, 1), np.int32)
    tables = [np.full((1, 128), 3.0, np.float32)] * 3
    gamma, beta = np.ones(128, np.float32), np.arange(128, dtype=np.float32)
    found = trn3.run(kernels.embedding, zeros, zeros, zeros, *tables, gamma, beta, EPS).result
    assert np.array_equal(found, np.stack([beta, beta]))


def test_a_row_outside_of_its_table_is_refused():
    ids, tables, gamma, beta = model(3, 128)
    ids[0][1] = len(tables[0])
    with pytest.raises(RuleError) as raised:
        trn3.run(kernels.embedding, *ids, *tables, gamma, beta, EPS)
    assert raised.value.rule == "dma.index_bounds"


def test_tables_of_different_models_are_refused():
    ids, tables, gamma, beta = model(3, 128)
    with pytest.raises(RuleError) as raised:
        trn3.run(kernels.embedding, *ids, tables[0], tables[1][:, :64], tables[2], gamma, beta, EPS)
    assert raised.value.rule == "kernel.shape"
    assert raised.value.operand == "position_table"


def test_indices_that_are_not_one_a_token_are_refused():
    ids, tables, gamma, beta = model(3, 128)
    with pytest.raises(RuleError) as raised:
        trn3.run(kernels.embedding, ids[0], ids[1][:2], ids[2], *tables, gamma, beta, EPS)
    assert raised.value.rule == "kernel.shape"


@pytest.mark.parametrize("tokens", [1, 128, 200])
def test_add_norm_normalises_the_sum(tokens):
    rng = np.random.default_rng(1)
    x, residual = (rng.standard_normal((tokens, 384), np.float32) for _ in range(2))
    gamma, beta = (rng.standard_normal(384, np.float32) for _ in range(2))
    found = trn3.run(kernels.add_norm, x, residual, gamma, beta, 1e-5).result
    exact = layer_norm(x.astype(np.float64) + residual, gamma, beta, 1e-5)
    assert relative_error(found, exact) < 1e-6
