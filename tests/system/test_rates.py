"""In the steady state every engine reaches its documented rate within 2 %: timing.md sections 4.1 and 6.1 to 6.3."""

import numpy as np
import pytest

import trn3
from timed import FULL_RATE, Timed
from trn3.nki import isa as nisa
from trn3.nki import language as nl

BF16, FP8 = trn3.dtypes.bfloat16, trn3.dtypes.float8_e4m3
F32 = np.dtype(np.float32)
VECTOR, SCALAR, GPSIMD = nisa.engine.vector, nisa.engine.scalar, nisa.engine.gpsimd
CLOCKS = {"trn2": {"vector": 0.96e9, "scalar": 1.2e9, "gpsimd": 1.2e9}}
CLOCKS["trn3"] = {**CLOCKS["trn2"], "vector": 1.2e9}


def copy(engine):
    return lambda dst, src: nisa.tensor_copy(dst, src, engine=engine)


def pair(engine, dst, src):
    nisa.tensor_tensor(dst, src, src, nl.add, engine=engine)


def scale(engine):
    return lambda dst, src: nisa.tensor_scalar(dst, src, nl.multiply, 2.0, engine=engine)


def zero(engine):
    return lambda dst, src: nisa.memset(dst, 0.0, engine=engine)


def exponential(dst, src):
    nisa.activation(dst, nl.exp, src)


def total(dst, src):
    nisa.tensor_reduce(dst, nl.add, src, axis=1)


def scan(dst, src):
    nisa.tensor_tensor_scan(dst, src, src, 0.0, nl.multiply, nl.add)


def count(dst, src):
    nisa.iota(dst, [[1, dst.shape[1]]], 0, 0)


SBUF, PSUM, STRIDED = "sbuf", "psum", "strided"
#: Engine, instruction, data type, where the source is, cycles an element on Trn2 and on Trn3.
RATES = [
    ("vector", copy(VECTOR), BF16, SBUF, 0.25, 0.25),
    ("vector", copy(VECTOR), BF16, STRIDED, 0.5, 0.5),
    ("vector", copy(VECTOR), BF16, PSUM, 0.5, 0.5),
    ("vector", copy(VECTOR), F32, SBUF, 0.5, 0.5),
    ("vector", copy(VECTOR), F32, STRIDED, 1, 1),
    ("vector", copy(VECTOR), F32, PSUM, 1, 1),
    ("vector", copy(VECTOR), FP8, SBUF, 1, 0.25),
    ("vector", scale(VECTOR), BF16, SBUF, 0.25, 0.25),
    ("vector", scale(VECTOR), F32, SBUF, 0.5, 0.5),
    ("vector", lambda dst, src: pair(VECTOR, dst, src), F32, SBUF, 2, 2),
    ("vector", lambda dst, src: pair(VECTOR, dst, src), BF16, SBUF, 1, 1),
    ("vector", total, F32, SBUF, 1, 1),
    ("vector", total, BF16, SBUF, 0.5, 0.5),
    ("vector", scan, F32, SBUF, 2, 2),
    ("vector", nisa.reciprocal, F32, SBUF, 8, 8),
    ("vector", zero(VECTOR), F32, SBUF, 0.5, 0.5),
    ("vector", zero(VECTOR), BF16, SBUF, 0.25, 0.25),
    ("scalar", exponential, F32, SBUF, 1, 1),
    ("scalar", exponential, BF16, PSUM, 1, 1),
    ("scalar", copy(SCALAR), F32, SBUF, 1, 1),
    ("scalar", copy(SCALAR), BF16, SBUF, 1, 0.5),
    ("scalar", scale(SCALAR), BF16, SBUF, 1, 0.5),
    ("gpsimd", copy(GPSIMD), F32, SBUF, 1, 1),
    ("gpsimd", lambda dst, src: pair(GPSIMD, dst, src), nl.int32, SBUF, 2, 2),
    ("gpsimd", count, nl.int32, SBUF, 1, 1),
]


@pytest.mark.parametrize("target", ["trn2", "trn3"])
@pytest.mark.parametrize("engine, body, dtype, place, on_trn2, on_trn3", RATES)
def test_elementwise_engines(engine, body, dtype, place, on_trn2, on_trn3, target):
    cycles = on_trn2 if target == "trn2" else on_trn3
    # So many elements that the overhead of 62 to 222 cycles is about 2 % at most; PSUM has 16 KiB a partition.
    columns = {PSUM: 16_384 // np.dtype(dtype).itemsize, STRIDED: 8192}.get(place, 16_384)
    single = body is total

    def kernel(x):
        out = nl.ndarray((128, 1 if single else columns), dtype, buffer=nl.shared_hbm)
        src = nl.load(x)
        if place == PSUM:
            bank = nl.ndarray((128, columns), dtype, buffer=nl.psum)
            nisa.tensor_copy(bank, src, engine=VECTOR)
            src = bank
        dst = nl.ndarray(out.shape, dtype)
        for _ in range(12):
            body(dst, src[:, ::2] if place == STRIDED else src)
        nl.store(out, dst)
        return out

    width = 2 * columns if place == STRIDED else columns
    timed = Timed(kernel, np.ones((128, width), dtype), target=target)
    name = [name for name in timed.program.opcodes() if name != "dma_copy"][-1]
    interval = timed.interval_ps(name) * CLOCKS[target][engine] / 1e12
    assert interval / columns == pytest.approx(cycles, rel=0.022)


@pytest.mark.parametrize("target", ["trn2", "trn3"])
def test_the_array(target):
    def kernel(x, y):
        out = nl.ndarray((128, 512), nl.float32, buffer=nl.shared_hbm)
        stationary, moving = nl.load(x), nl.load(y)
        acc = nl.ndarray((128, 512), nl.float32, buffer=nl.psum)
        for _ in range(40):
            nisa.nc_matmul(acc, stationary, moving)
        nl.store(out, acc)
        return out

    arrays = np.ones((128, 128), BF16), np.ones((128, 512), BF16)
    interval = Timed(kernel, *arrays, target=target, overrides=FULL_RATE).interval_ps("nc_matmul")
    assert interval * 2.4e-3 / 512 == pytest.approx(1, rel=0.02)
