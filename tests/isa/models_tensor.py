"""Models of TensorE's instructions, and of quantize_mx, which prepares its operands."""

from __future__ import annotations

from typing import Any

import numpy as np
from array_model import multiply, multiply_mx, put, quantize, scale_of, unpack
from trial import FLOATS, PACKED, PLAIN, Trial, Window, any_values, bits, encode, model

from trn3.nki import isa as nisa

SINGLE = ["float32", "tfloat32"]


def operand_types(trial: Trial) -> list[str]:
    """Two data types that the array multiplies."""
    if trial.chance(0.25):
        return [trial.pick(*SINGLE), trial.pick(*SINGLE)]
    narrow = [name for name in FLOATS if name != "float32" and (name != "float8_e4m3fn" or trial.generation == 4)]
    types = [trial.pick(*narrow), trial.pick(*narrow)]
    if set(types) == {"float8_e4m3", "float8_e4m3fn"}:
        types[1] = types[0]
    return types


def psum_dtype(trial: Trial) -> str:
    return str(trial.pick(*["float32", "float32", "bfloat16"][: 3 if trial.generation == 4 else 2]))


def factors(trial: Trial, window: Window) -> Any:
    """What the array reads: the codes, or all of a TF32 number that counts."""
    return trial.values(window) if window.dtype == "tfloat32" else trial.codes(window)


@model()
def nc_matmul(trial: Trial) -> None:
    kind = trial.pick("product", "product", "double", "transpose")
    if kind == "transpose":
        marked_transpose(trial)
        return
    k, m, n = trial.pick(1, 2, 31, 32, 64, 100, 128), trial.pick(1, 5, 32, 64), trial.pick(1, 8, 33, 100)
    double = kind == "double" and trial.generation > 2
    types = operand_types(trial)
    if double:
        types = [trial.pick("float8_e5m2", "float8_e4m3"), trial.pick("float8_e5m2", "float8_e4m3")]
    rows = trial.pick(*[r for r in (32, 64) if r >= k and (r == 64 or trial.generation > 2)], 128)
    first = 0 if rows == 128 else int(trial.rng.choice(range(0, 128, rows)))
    tiling = {} if rows == 128 else {"tile_size": (rows, 128), "tile_position": (first, 0)}

    def operand(dtype: str, free: int) -> Window:
        counts = [2, *trial.factors(free, int(trial.rng.integers(1, 4)))] if double else None
        return trial.window(dtype, k, free * (2 if double else 1), counts=counts, start=first)

    s, t = operand(types[0], m), operand(types[1], n)
    dst = trial.window(psum_dtype(trial), m, n, "p", written=True, start=0)
    accumulate = trial.pick(None, False, True)
    tiles = (factors(trial, each).reshape(k * (2 if double else 1), -1) for each in (s, t))
    result = multiply(*tiles, tf32=types == ["tfloat32", "tfloat32"])
    trial.gives(dst, put(trial.codes(dst), result, accumulate is True).astype(np.float32))
    mode = nisa.matmul_perf_mode.double_row if double else nisa.matmul_perf_mode.none
    trial.keeps = accumulate is True
    trial.call = lambda at: nisa.nc_matmul(at(dst), at(s), at(t), accumulate=accumulate, perf_mode=mode, **tiling)


def marked_transpose(trial: Trial) -> None:
    """is_transpose: bits move from v3 on; before it the mark changes nothing."""
    k, m = trial.pick(1, 8, 31, 64, 128), trial.pick(1, 7, 32, 128)
    dtype = operand_types(trial)[0]
    picks = np.zeros((k, k), np.float32)
    order = trial.rng.permutation(k)
    picks[order, np.arange(k)] = 1
    s = trial.window(dtype, k, m, start=0)
    # No two elements of the identity may share a place.
    t = trial.window(dtype, k, k, start=0, written=True, alone=True)
    t.of(trial.arrays[t.tile])[...] = encode(picks, dtype).reshape(t.shape)
    trial.reads.append(t)
    if trial.generation == 2:
        dst = trial.window("float32", m, k, "p", written=True, start=0)
        trial.gives(dst, multiply(factors(trial, s), encode(picks, dtype), dtype == "tfloat32"))
    else:
        dst = trial.window(dtype, m, k, "p", written=True, start=0)
        trial.gives_bits(dst, trial.codes(s).T[:, order])
    trial.call = lambda at: nisa.nc_matmul(at(dst), at(s), at(t), is_transpose=True, accumulate=False)


@model()
def nc_transpose(trial: Trial) -> None:
    on_tensor = trial.chance(0.5)
    limit = 128 if on_tensor else 32
    p, f = (min(limit, trial.pick(1, 2, 7, 31, 32, 33, 64, 128)) for _ in "pf")
    multiplied = on_tensor and trial.generation == 2
    dtype = operand_types(trial)[0] if multiplied else trial.pick(*PLAIN, *PACKED)
    spaces = "ps" if on_tensor else trial.pick("ss", "sp", "ps", "pp")
    x = trial.window(dtype, p, f, spaces[1])
    dst = trial.window("float32" if multiplied else dtype, f, p, spaces[0], written=True)
    if multiplied:
        trial.gives(dst, multiply(factors(trial, x), encode(np.eye(p, dtype=np.float32), dtype), dtype == "tfloat32"))
    else:
        trial.gives_bits(dst, trial.codes(x).T.copy())
    engine = nisa.engine.tensor if on_tensor else nisa.engine.vector
    trial.call = lambda at: nisa.nc_transpose(at(dst), at(x), engine=engine)


def scale_rows(partitions: int) -> int:
    return partitions // 8 if partitions <= 32 else partitions - 28


def near_one(rng: np.random.Generator, shape: tuple[int, ...], name: str) -> Any:
    """Scales whose products stay in range, now and then NaN."""
    codes = rng.integers(110, 145, shape).astype(np.uint8)
    codes[rng.random(shape) < 0.01] = 255
    return codes.view(any_values(rng, (1,), name).dtype)


def scale_window(trial: Trial, partitions: int, columns: int, first: int, written: bool = False) -> Window:
    off = trial.pick(0, 4, 8, 12)
    return trial.window(
        trial.pick("uint8", "float8_e8m0fnu"),
        scale_rows(partitions),
        columns,
        values=any_values if written else near_one,
        start=first + off,
        written=written,
        alone=True,
    )


@model(since=4)
def nc_matmul_mx(trial: Trial) -> None:
    k, m, n = trial.pick(32, 64, 96, 128), trial.pick(2, 6, 32), trial.pick(1, 9, 40)
    types = [trial.pick(*PACKED), trial.pick(*PACKED)]
    s, t = trial.window(types[0], k, m, start=0), trial.window(types[1], k, n, start=0)
    ss, ts = scale_window(trial, k, m, 0), scale_window(trial, k, n, 0)
    dst = trial.window(psum_dtype(trial), m, n, "p", written=True, start=0)
    accumulate = trial.pick(None, False, True)
    scales = [scale_of(bits(trial.codes(each)), k, 0) for each in (ss, ts)]
    parts = [unpack(bits(trial.codes(each)), name) for each, name in zip((s, t), types, strict=True)]
    result = multiply_mx(parts[0], scales[0], parts[1], scales[1])
    trial.gives(dst, put(trial.codes(dst), result, accumulate is True).astype(np.float32))
    trial.keeps = True
    trial.rows |= {ss.tile: [0], ts.tile: [0]}
    trial.call = lambda at: nisa.nc_matmul_mx(at(dst), at(s), at(t), at(ss), at(ts), accumulate=accumulate)


@model(since=4)
def quantize_mx(trial: Trial) -> None:
    partitions, words = trial.pick(32, 64, 96, 128), trial.pick(1, 3, 8)
    first = int(trial.rng.choice([0, 32, 64, 96])) if partitions == 32 else 0
    x = trial.window(trial.pick("bfloat16", "float16"), partitions, 4 * words, start=first)
    element = trial.pick(*PACKED[:2])
    dst = trial.window(element, partitions, words, written=True, start=first)
    codes, scales = quantize(trial.codes(x), element, ocp=False)
    trial.gives_bits(dst, np.ascontiguousarray(codes).view("u4").view(trial.codes(dst).dtype))
    scale = scale_window(trial, partitions, words, first, written=True)
    want = bits(trial.codes(scale)).copy()
    for group, row in enumerate(scales):
        want[group if partitions == 32 else 32 * (group // 4) + group % 4] = row
    trial.gives_bits(scale, want.view(trial.codes(scale).dtype))
    trial.keeps = True
    trial.call = lambda at: nisa.quantize_mx(at(dst), at(x), at(scale))
