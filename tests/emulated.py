"""Instructions on NumPy arrays, and plain models of what isa.md says of numbers.

The models use NumPy and ml_dtypes only; nothing of trn3 takes part in them.
"""

from __future__ import annotations

import ml_dtypes
import numpy as np

from trn3 import nki
from trn3.nki import isa as nisa
from trn3.nki import language as nl

FLOATS = ["float32", "bfloat16", "float16", "float8_e5m2", "float8_e4m3", "float8_e4m3fn"]
INTEGERS = ["uint8", "int8", "uint16", "int16", "uint32", "int32"]


def numpy_dtype(name):
    return np.dtype(getattr(ml_dtypes, name, None) or getattr(nl, name))


def simulation(body, *bases, spaces=None, **options):
    """Run ``body(*tiles)`` on tiles that hold the arrays, and return the simulation and what the tiles hold then."""
    spaces = spaces or "s" * len(bases)

    def kernel(arrays):
        tiles = []
        for array, space in zip(arrays, spaces, strict=True):
            if space == "h":
                tile = nl.ndarray(array.shape, array.dtype, buffer=nl.private_hbm)
                nisa.dma_copy(tile, array)
            else:
                tile = nl.ndarray(array.shape, array.dtype)
                nisa.dma_copy(tile, array)
            if space == "p":
                bank = nl.ndarray(array.shape, array.dtype, buffer=nl.psum)
                nisa.tensor_copy(bank, tile)
                tile = bank
            tiles.append(tile)
        body(*tiles)
        results = []
        for tile, space in zip(tiles, spaces, strict=True):
            if space == "p":
                copied = nl.ndarray(tile.shape, tile.dtype)
                nisa.tensor_copy(copied, tile)
                tile = copied
            result = nl.ndarray(tile.shape, tile.dtype, buffer=nl.shared_hbm)
            nisa.dma_copy(result, tile)
            results.append(result)
        return tuple(results)

    simulated = nki.simulate(kernel, **options)
    return simulated, simulated(tuple(bases))


def execute(body, *bases, spaces=None, **options):
    """Run ``body(*tiles)`` on tiles that hold the arrays, and return what the tiles hold then."""
    return simulation(body, *bases, spaces=spaces, **options)[1]


def fp32(array):
    """Values as float32, exactly (32-bit integers: to nearest)."""
    with np.errstate(all="ignore"):
        return np.asarray(array).astype(np.float32)


def cast(values, name):
    """FP32 to a dtype: to nearest, ties to even; integers saturate, NaN becomes 0."""
    dtype = numpy_dtype(name)
    values = np.asarray(values, np.float32)
    with np.errstate(all="ignore"):
        if name in ("bool", "bool_"):
            return values != 0
        if dtype.kind in "iu":
            info = np.iinfo(dtype)
            rounded = np.clip(np.rint(values.astype(np.float64)), info.min, info.max)
            return np.where(np.isnan(values), 0, rounded).astype(dtype)
        return values.astype(dtype)


def same(got, want):
    """Bits are equal, except that any NaN equals any NaN."""
    assert got.dtype == want.dtype, (got.dtype, want.dtype)
    assert got.shape == want.shape, (got.shape, want.shape)
    if want.dtype.kind in "iub":
        np.testing.assert_array_equal(got, want)
        return
    got_f, want_f = fp32(got), fp32(want)
    nan = np.isnan(want_f)
    np.testing.assert_array_equal(np.isnan(got_f), nan)
    bits = f"u{want.dtype.itemsize}"
    a, b = np.ascontiguousarray(got).view(bits), np.ascontiguousarray(want).view(bits)
    np.testing.assert_array_equal(np.where(nan, 0, a), np.where(nan, 0, b))


SPECIAL = np.array(
    [
        np.nan,
        np.inf,
        -np.inf,
        0.0,
        -0.0,
        1e-40,
        -1e-45,
        3e38,
        65504,
        65520,
        448,
        464,
        240,
        256,
        2.0**-9,
        127.5,
        2.5,
        -0.5,
        1e10,
        -1e10,
    ],
    np.float32,
)


def random_array(rng, shape, name, special=True):
    """Values of all magnitudes that a dtype has."""
    dtype = numpy_dtype(name)
    size = int(np.prod(shape))
    if name in ("bool", "bool_"):
        return rng.integers(0, 2, shape).astype(bool)
    if dtype.kind in "iu":
        info = np.iinfo(dtype)
        return rng.integers(info.min, info.max, shape, endpoint=True, dtype=np.int64).astype(dtype)
    values = (rng.standard_normal(size) * np.exp2(rng.integers(-8, 8, size))).astype(np.float32)
    if special and size >= 8:
        at = rng.choice(size, min(len(SPECIAL), size // 4), replace=False)
        values[at] = SPECIAL[: len(at)]
    with np.errstate(all="ignore"):
        return values.reshape(shape).astype(dtype)
