"""Models of GpSimdE's instructions."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
from models_elementwise import compute, op, size
from test_elementwise import ARITHMETIC
from trial import INTEGERS, PACKED, PLAIN, Trial, bits, encode, model

from trn3.nki import isa as nisa


def below(limit: int) -> Callable[..., Any]:
    """Indices below a limit."""

    def values(rng: np.random.Generator, shape: tuple[int, ...], name: str) -> Any:
        return rng.integers(0, limit, shape).astype(name)

    return values


def affine(trial: Trial, n: int, partitions: int) -> tuple[list[list[int]], int, int, Any]:
    """A pattern, an offset, a multiplier, and the int32 of each element."""
    counts = trial.factors(n, int(trial.rng.integers(1, 5)))
    large = [2**31 - 1, -(2**31), 2**20 + 1]

    def number() -> int:
        return int(trial.rng.choice(large)) if trial.chance(0.1) else int(trial.rng.integers(-40, 40))

    steps = [number() for _ in counts]
    offset, multiplier = number(), number()
    place = np.indices((partitions, *counts)).astype(object)
    value = offset + multiplier * place[0] + sum(step * at for step, at in zip(steps, place[1:], strict=True))
    wrapped = ((value + 2**31) % 2**32 - 2**31).astype(np.int64).astype(np.int32).reshape(partitions, n)
    return [[step, count] for step, count in zip(steps, counts, strict=True)], offset, multiplier, wrapped


@model()
def iota(trial: Trial) -> None:
    partitions, n = size(trial)
    pattern, offset, multiplier, value = affine(trial, n, partitions)
    dst = trial.window(trial.pick(*PLAIN), partitions, n, written=True)
    if dst.dtype in ("int32", "uint32"):
        trial.gives_bits(dst, value.view(dst.dtype))
    else:
        trial.gives(dst, value.astype(np.float32))
    trial.call = lambda at: nisa.iota(at(dst), pattern, offset, multiplier)


@model()
def affine_select(trial: Trial) -> None:
    partitions, n = size(trial)
    pattern, offset, multiplier, value = affine(trial, n, partitions)
    name = trial.pick("equal", "not_equal", "less", "less_equal", "greater", "greater_equal")
    number = trial.pick(0.0, -1.5, 3e38, float("-inf"), 7)
    x = trial.window(trial.pick(*PLAIN), partitions, n)
    dst = trial.window(x.dtype if trial.chance(0.4) else trial.pick(*PLAIN), partitions, n, written=True)
    holds = getattr(np, name)(value, 0)
    if dst.dtype == x.dtype:
        other = encode(np.full(holds.shape, number, np.float32), dst.dtype)
        trial.gives_bits(dst, np.where(holds, bits(trial.codes(x)), bits(other)).view(other.dtype))
    else:
        trial.gives_codes(dst, encode(np.where(holds, trial.values(x), np.float32(number)), dst.dtype))
    trial.call = lambda at: nisa.affine_select(
        at(dst), pattern, multiplier, at(x), number, cmp_op=op(name), offset=offset
    )


@model()
def nc_n_gather(trial: Trial) -> None:
    partitions, n = size(trial)
    dtype = trial.pick(*PLAIN, *PACKED)
    x = trial.window(dtype, partitions, n)
    count = trial.pick(1, 3, 8, 30, 600) if partitions <= 16 else trial.pick(1, 3, 8, 30)
    index = trial.window("uint32", partitions, count, values=below(n), alone=True)
    dst = trial.window(dtype, partitions, count, written=True)
    places = trial.codes(index).astype(np.int64)
    trial.gives_bits(dst, np.take_along_axis(trial.codes(x), places, axis=1))
    trial.call = lambda at: nisa.nc_n_gather(at(dst), at(x), at(index))


@model()
def local_gather(trial: Trial) -> None:
    partitions = trial.pick(16, 32, 48, 64, 128)
    elements = trial.pick(1, 2, 4, 8, 16, 32)
    n = elements + trial.pick(0, 1, 7, 40)
    columns = trial.pick(1, 2, 5)
    dtype = trial.pick(*PLAIN, *PACKED)
    x = trial.window(dtype, partitions, n)
    index = trial.window("uint16", partitions, columns, values=below(n - elements + 1), alone=True)
    valid = trial.pick(None, 1, 7, 16 * columns)
    count = 16 * columns if valid is None else valid
    dst = trial.window(dtype, partitions, count * elements, written=True)
    source, places = trial.codes(x), trial.codes(index).astype(int)
    want = trial.codes(dst)
    for partition in range(partitions):
        group = places[partition // 16 * 16 : partition // 16 * 16 + 16]
        for k in range(count):
            at = group[k % 16, k // 16]
            want[partition, k * elements : (k + 1) * elements] = source[partition, at : at + elements]
    trial.gives_bits(dst, want)
    trial.call = lambda at: nisa.local_gather(at(dst), at(x), at(index), elements, valid)


@model()
def tensor_partition_reduce(trial: Trial) -> None:
    partitions, n = size(trial)
    name = trial.pick("add", "average", "maximum", "bitwise_or", "bitwise_and")
    if "bitwise" in name:
        width = trial.pick(1, 2, 4)
        types = [trial.pick(*[each for each in INTEGERS if np.dtype(each).itemsize == width]) for _ in "dx"]
    else:
        types = [trial.pick(*PLAIN) for _ in "dx"]
    x = trial.window(types[1], partitions, n)
    dst = trial.window(types[0], 1, n, written=True)
    if "bitwise" in name:
        trial.gives_bits(dst, getattr(np, name).reduce(bits(trial.codes(x)), axis=0)[None].view(types[0]))
    else:
        rows = trial.values(x)
        total = rows[:1]
        for row in rows[1:]:
            total = compute(ARITHMETIC["maximum" if name == "maximum" else "add"], total, row[None])
        trial.gives(dst, compute(np.divide, total, np.float32(partitions)) if name == "average" else total)
    trial.call = lambda at: nisa.tensor_partition_reduce(at(dst), op(name), at(x))


def mostly_zero(rng: np.random.Generator, shape: tuple[int, ...], name: str) -> Any:
    numbers = [0, 0, 0, 1, -5, 7] if name == "int32" else [0, 0, -0.0, 1, -5, np.nan, 1e-45]
    return rng.choice(np.array(numbers, name), shape)


@model(since=3)
def nonzero_with_count(trial: Trial) -> None:
    partitions, n = size(trial)
    x = trial.window(trial.pick("float32", "int32"), partitions, n, values=mostly_zero)
    dst = trial.window("int32", partitions, n + 1, written=True)
    offset, padding = trial.pick(0, 5, -3, 2**31 - 1), trial.pick(-1, 0, 77)
    want = trial.codes(dst)
    for partition in range(0, partitions, 16):
        places = np.flatnonzero(trial.values(x)[partition]).astype(np.int32)
        with np.errstate(over="ignore"):
            places += np.int32(offset)
        want[partition] = [*places, *[padding] * (n - len(places)), len(places)]
    trial.gives_bits(dst, want)
    trial.keeps = True
    trial.rows[x.tile] = [0]
    trial.call = lambda at: nisa.nonzero_with_count(at(dst), at(x), offset, padding)


def segments(rng: np.random.Generator, shape: tuple[int, ...], name: str) -> Any:
    return rng.choice(np.array([0, 0, 1, 1, 2, 9], name), shape)


@model()
def sequence_bounds(trial: Trial) -> None:
    n = trial.pick(1, 2, 8, 24, 60, 1000)
    dtype = trial.pick("float32", "int32")
    x = trial.window(dtype, 1, n, values=segments)
    dst = trial.window(dtype, 1, 2 * n, written=True)
    ids = trial.values(x)[0]
    starts, ends = np.full(n, n), np.full(n, -1)
    for at in np.flatnonzero(ids):
        first = last = at
        while first > 0 and ids[first - 1] == ids[at]:
            first -= 1
        while last + 1 < n and ids[last + 1] == ids[at]:
            last += 1
        starts[at], ends[at] = first, last + 1
    trial.gives_bits(dst, np.concatenate([starts, ends])[None].astype(dtype))
    trial.call = lambda at: nisa.sequence_bounds(at(dst), at(x))
