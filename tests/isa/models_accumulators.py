"""Models of the instructions that share VectorE's accumulators with tensor_scalar_reduce."""

from __future__ import annotations

from typing import Any

import numpy as np
from models_elementwise import IDENTITY, NUMBERS, UNARY, Operand, any_operator, compute, folded, op, places, size, step
from trial import FLOATS, INTEGERS, PLAIN, Trial, encode, model

from trn3.nki import isa as nisa
from trn3.nki import language as nl

LOWEST = np.finfo(np.float32).min
COMPARISONS = {
    "equal": np.equal,
    "less": np.less,
    "less_equal": np.less_equal,
    "greater": np.greater,
    "greater_equal": np.greater_equal,
}


def result(trial: Trial, partitions: int, command: str, start: Any, name: str, values: Any) -> Any:
    """A tile for the accumulators, and what a command leaves in it."""
    total = np.zeros(partitions, np.float32) if command == "idle" else folded(name, start, values)
    window = trial.window(trial.pick(*FLOATS), partitions, 1, trial.pick("s", "p"), written=True)
    trial.gives(window, np.asarray(total, np.float32).reshape(partitions, 1))
    return window


@model(3)
def range_select(trial: Trial) -> None:
    partitions, n = size(trial)
    spaces = places(trial, ["ss", "ps", "sp", "pp"], n > 60)
    first = trial.pick(0, 3, -20, 2**24 - 3100, -(2**24))
    start = trial.start(partitions)

    def near(rng: np.random.Generator, shape: tuple[int, ...], name: str) -> Any:
        found = (first + rng.integers(-2, n + 2, shape)).astype(np.float32)
        odd = rng.choice([np.nan, np.inf, -np.inf, first + 0.5], shape)
        return np.where(rng.random(shape) < 0.1, odd, found).astype(name)

    x = trial.window(trial.pick(*FLOATS), partitions, n, spaces[1], start=start)
    bounds = [trial.window("float32", partitions, 1, trial.pick("s", "p"), values=near, alone=True) for _ in range(2)]
    ops = [trial.pick(*COMPARISONS) for _ in range(2)]
    command = trial.pick("reset_reduce", "idle")
    dst = trial.window(trial.pick(*PLAIN), partitions, n, spaces[0], written=True)
    position = np.arange(first, first + n).astype(np.float32)
    holds = np.ones((partitions, n), bool)
    for name, bound in zip(ops, bounds, strict=True):
        holds &= COMPARISONS[name](position, trial.values(bound))
    selected = np.where(holds, trial.values(x), LOWEST)
    trial.gives_codes(dst, encode(selected, dst.dtype))
    res = result(trial, partitions, command, IDENTITY["maximum"], "maximum", selected)
    trial.keeps = True
    trial.call = lambda at: nisa.range_select(
        at(dst), at(x), op(ops[0]), op(ops[1]), *map(at, bounds), getattr(nisa.reduce_cmd, command), at(res),
        range_start=first,
    )  # fmt: skip


@model(3)
def select_reduce(trial: Trial) -> None:
    partitions, n = size(trial)
    spaces = places(trial, ["sss", "pss", "ssp", "sps", "psp", "pps"], n > 60)
    start = trial.start(partitions)

    def few(rng: np.random.Generator, shape: tuple[int, ...], name: str) -> Any:
        return (rng.integers(0, 3, shape) * rng.integers(1, np.iinfo(name).max // 3)).astype(name)

    which = trial.pick("int8", "uint8", "int16", "uint16")
    predicate = trial.window(which, partitions, n, spaces[2], values=few)
    types = [name for name in PLAIN if name not in ("int32", "uint32", "tfloat32")]
    x = trial.window(trial.pick(*types), partitions, n, spaces[1], start=start)
    other = Operand(trial, partitions, NUMBERS, FLOATS + INTEGERS)
    command, reverse = trial.pick("reset_reduce", "idle"), trial.chance(0.5)
    dst = trial.window(trial.pick(*PLAIN), partitions, n, spaces[0], written=True)
    holds = (trial.codes(predicate) != 0) != reverse
    selected = np.where(holds, trial.values(x), other.value).astype(np.float32)
    trial.gives_codes(dst, encode(selected, dst.dtype))
    res = result(trial, partitions, command, IDENTITY["maximum"], "maximum", selected)
    trial.keeps = True
    trial.call = lambda at: nisa.select_reduce(
        at(dst), at(predicate), at(x), other.on(at), at(res), getattr(nisa.reduce_cmd, command), nl.maximum, reverse
    )


@model(4)
def exponential(trial: Trial) -> None:
    partitions, n = size(trial, long=False)
    spaces = places(trial, ["ss", "ps", "sp", "pp"], n > 60)
    start = trial.start(partitions)

    def moderate(rng: np.random.Generator, shape: tuple[int, ...], name: str) -> Any:
        return rng.uniform(-9, 9, shape).astype(np.float32).astype(name)

    dims = [int(trial.rng.choice([1, 2, 3])) for _ in range(2)]
    which = trial.pick("float32", "float16", "int8")
    x = trial.window(which, partitions, n, spaces[1], start=start, values=moderate, dims=dims[0])
    top = Operand(trial, partitions, [0.0, 2.5, -1.0], ["float32"])
    command = trial.pick("reset_reduce", "idle")
    which = trial.pick("float32", "bfloat16", "float16", "int16")
    dst = trial.window(which, partitions, n, spaces[0], written=True, dims=dims[1])
    shifted = compute(np.subtract, trial.values(x), top.value)
    with np.errstate(all="ignore"):
        exact = np.exp(shifted.astype(np.float64))
        slack = 2 * np.spacing(exact.astype(np.float32)).astype(np.float64)
    trial.gives_about(dst, exact, slack)
    trial.call = lambda at: nisa.exponential(at(dst), at(x), top.on(at), None, getattr(nisa.reduce_cmd, command))


@model()
def tensor_scalar_cumulative(trial: Trial) -> None:
    partitions, n = size(trial)
    spaces = places(trial, ["ss", "ps", "sp", "pp"], n > 60)
    types = ["float32", "bfloat16", "float16", "float8_e5m2", "float8_e4m3", "int8", "uint8", "int16", "uint16"]
    start = trial.start(partitions)
    x = trial.window(trial.pick(*types), partitions, n, spaces[1], start=start)
    operand = Operand(trial, partitions, NUMBERS, ["float32"])
    initial = Operand(trial, partitions, [0.0, 2.5], ["float32"])
    op0, op1 = any_operator(trial), trial.pick("add", "subtract", "multiply", "maximum", "minimum")
    command = trial.pick("reset_reduce", "load_reduce")
    dst = trial.window(trial.pick(*types), partitions, n, spaces[0], written=True)
    values = step(op0, trial.values(x), operand.value)
    begin = initial.value if command == "load_reduce" else IDENTITY.get(op1, np.float32(0))
    state = np.broadcast_to(np.asarray(begin, np.float32).reshape(-1, 1), (partitions, 1))[:, 0]
    columns = []
    for column in values.T:
        state = step(op1, column, state)
        columns.append(state)
    trial.gives(dst, np.stack(columns, axis=1))

    def call(at: Any) -> None:
        nisa.tensor_scalar_cumulative(
            at(dst),
            at(x),
            op(op0),
            op(op1),
            None if op0 in UNARY else operand.on(at),
            initial.on(at) if command == "load_reduce" else None,
            getattr(nisa.reduce_cmd, command),
        )

    trial.call = call
