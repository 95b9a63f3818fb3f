"""Costs of exponential, range_select, select_reduce and tensor_scalar_cumulative against the table's entries."""

from fractions import Fraction

import numpy as np
import pytest

import trn3
from trn3 import nki
from trn3.nki import isa as nisa
from trn3.nki import language as nl

BF16, FP32 = "bfloat16", "float32"


def exp_of(to, of, vector=False):
    return lambda t: nisa.exponential(t(to), t(of), t.column if vector else 0.0)


def ranged(t):
    nisa.range_select(t(BF16), t(FP32), nl.less, nl.less, t.column, t.column)


def cumulated(dtype, vector=False):
    return lambda t: nisa.tensor_scalar_cumulative(t(dtype), t(dtype), nl.add, nl.add, t.column if vector else 1.0)


def selected(predicate="sbuf", on_true="sbuf"):
    return lambda t: nisa.select_reduce(t(FP32), t("uint8", predicate), t(FP32, on_true), 0.0)


V4, V3, V2 = ["trn3"], ["trn2", "trn3"], ["trn1", "trn2", "trn3"]
CYCLES = [
    # Targets, name, statement, cycles an element, latency class.
    (V4, "exponential", exp_of(BF16, BF16), "exponential", "other"),
    (V4, "exponential", exp_of("uint8", "float16"), "exponential", "other"),
    (V4, "exponential", exp_of(FP32, BF16, True), "exponential_bits32", "other"),
    (V4, "exponential", exp_of(BF16, "int32"), "exponential_bits32", "other"),
    (V3, "range_select", ranged, "range_select", "tensor_tensor"),
    (V3, "select_reduce", selected(), "select", "tensor_tensor"),
    (V3, "select_reduce", selected("psum"), "select_split", "tensor_tensor"),
    (V3, "select_reduce", selected(on_true="psum"), "select_split", "tensor_tensor"),
    (V2, "tensor_scalar_cumulative", cumulated(FP32), "tensor_scalar_cumulative", "other"),
    (
        V2,
        "tensor_scalar_cumulative",
        cumulated(BF16, vector=True),
        "tensor_scalar_cumulative",
        "tensor_scalar_vector_operand",
    ),
]


class Tiles:
    """Tiles of (128, 256 * step) elements, seen with a step."""

    def __init__(self, step):
        self.step = step
        self.column = nl.zeros((128, 1), nl.float32)

    def __call__(self, dtype, space="sbuf"):
        return nl.zeros((128, 256 * self.step), getattr(nl, dtype), buffer=getattr(nl, space))[:, :: self.step]


@pytest.mark.parametrize("step", [1, 16])
@pytest.mark.parametrize(
    ("target", "name", "statement", "rate", "timing"),
    [
        pytest.param(target, *case, id=f"{case[0]}-{case[2]}-{target}")
        for targets, *case in CYCLES
        for target in targets
    ],
)
def test_costs_are_the_tables(target, name, statement, rate, timing, step):
    table = trn3.Chip(target).table

    def kernel(x):
        statement(Tiles(step))
        return x

    program = nki.record(nki.jit(target=target)(kernel), np.ones((4, 4), np.float32))
    line = trn3._native.Timeline(program, table)
    issue, end, _ = line.instruction(program.opcodes().index(name))
    entry = lambda key: table.entry(f"vector.{key}")["value"]  # noqa: E731
    cycles = 256 * Fraction(str(entry(f"stream.{rate}_cycles_per_element")))
    # An innermost stride above 16 bytes doubles the stream.
    cycles = cycles * (2 if step == 16 else 1) + entry(f"{timing}.latency_cycles")
    assert end - issue == pytest.approx(float(cycles * 10**12 / entry("clock_hz")), abs=1)


def test_the_fast_exponential_pays_off():
    """Advice 18 of timing.md: 3.7 times activation's rate at 512 elements of BF16, towards 4 for more."""

    def kernel(x, n):
        tiles = [nl.ndarray((128, n), nl.bfloat16) for _ in range(5)]
        nisa.memset(tiles[0], 0.0)
        for tile in tiles[1:3]:
            nisa.activation(tile, nl.exp, tiles[0])
        for tile in tiles[3:]:
            nisa.exponential(tile, tiles[0])
        return x

    for n, least in ((512, 3.6), (16384, 3.9)):
        program = nki.record(kernel, np.ones((4, 4), np.float32), n)
        line = trn3._native.Timeline(program, trn3.Chip("trn3").table)
        issues = [line.instruction(at)[0] for at in range(1, 5)]
        assert (issues[1] - issues[0]) / (issues[3] - issues[2]) > least
