"""Microscaling codecs against the vectorised NumPy and ml_dtypes way, on one thread and in one run.

The answers are compared before the clock starts. Rates are of float32 bytes: read when quantising, written when
dequantising. ``ml_dtypes`` is timed in cache-sized pieces too, which is its faster form.
"""

import time

import ml_dtypes
import numpy as np
import pytest

from trn3 import dtypes, mx

COUNT = 1 << 20
ELEMENTS = {
    "float8_e4m3fn": (ml_dtypes.float8_e4m3fn, 8, 448.0),
    "float8_e5m2": (ml_dtypes.float8_e5m2, 15, 57344.0),
    "float4_e2m1fn": (ml_dtypes.float4_e2m1fn, 2, 6.0),
}


def values(count=COUNT):
    """Normal values in groups that span 2**-20 to 2**20."""
    rng = np.random.default_rng(1)
    groups = rng.standard_normal(count, dtype=np.float32).reshape(-1, 32)
    groups *= np.ldexp(np.float32(1), rng.integers(-20, 21, size=len(groups)))[:, None]
    return groups.reshape(-1)


def numpy_quantize(x, element):
    """OCP rule, whole-array NumPy operations."""
    dtype, emax, largest = ELEMENTS[element]
    groups = x.reshape(-1, 32)
    exponent = (np.abs(groups).max(axis=1).view(np.uint32) >> 23).astype(np.int32)
    scale = np.clip(exponent - emax, 0, 254)
    inverse = np.ldexp(np.float32(1), 127 - scale)
    codes = np.clip(groups * inverse[:, None], -largest, largest).astype(dtype)
    return codes.reshape(-1), scale.astype(np.uint8)


def numpy_quantize_in_pieces(x, element, piece=1 << 15):
    parts = [numpy_quantize(x[i : i + piece], element) for i in range(0, x.size, piece)]
    return tuple(np.concatenate(part) for part in zip(*parts, strict=True))


def numpy_dequantize(codes, scales):
    powers = np.ldexp(np.float32(1), scales.astype(np.int32) - 127)
    return (codes.astype(np.float32).reshape(-1, 32) * powers[:, None]).reshape(-1)


def best_of(work, runs=7):
    """Seconds of the fastest run: the least disturbed by others on the machine."""
    work()
    times = []
    for _ in range(runs):
        start = time.perf_counter()
        work()
        times.append(time.perf_counter() - start)
    return min(times)


def report(name, ours, theirs):
    gigabytes = 4 * COUNT / 1e9
    print(
        f"\n{name}: trn3 {gigabytes / ours:.2f} GB/s of float32, ml_dtypes {gigabytes / theirs:.2f} GB/s, "
        f"ratio {theirs / ours:.1f}"
    )


@pytest.mark.parametrize("element", ELEMENTS)
def test_quantize(benchmark, element):
    x = values()
    out = mx.quantize(x, element, scale_rule="ocp")
    for codes, scales in (numpy_quantize(x, element), numpy_quantize_in_pieces(x, element)):
        assert np.array_equal(out.codes.view(np.uint8), codes.view(np.uint8))
        assert np.array_equal(out.scales.view(np.uint8), scales)
    arrays = out.codes, out.scales
    benchmark(mx.quantize, x, element, scale_rule="ocp", out=arrays)
    if benchmark.enabled:
        ours = best_of(lambda: mx.quantize(x, element, scale_rule="ocp", out=arrays))
        report(f"quantize {element}, whole", ours, best_of(lambda: numpy_quantize(x, element)))
        report(f"quantize {element}, pieces", ours, best_of(lambda: numpy_quantize_in_pieces(x, element)))


@pytest.mark.parametrize("element", ELEMENTS)
def test_dequantize(benchmark, element):
    x = values()
    packed = mx.quantize(x, element, scale_rule="ocp")
    scales = packed.scales.view(np.uint8)
    assert np.array_equal(packed.dequantize(), numpy_dequantize(packed.codes, scales))
    benchmark(packed.dequantize)
    if benchmark.enabled:
        report(
            f"dequantize {element}",
            best_of(packed.dequantize),
            best_of(lambda: numpy_dequantize(packed.codes, scales)),
        )


@pytest.mark.parametrize("name", ["bfloat16", "float8_e4m3fn", "float8_e5m2"])
def test_cast(benchmark, name):
    x = values()
    dtype = dtypes.dtype(name)
    with np.errstate(over="ignore", invalid="ignore"):
        assert np.array_equal(dtypes.cast(x, dtype).view(np.uint8), x.astype(dtype).view(np.uint8))
        benchmark(dtypes.cast, x, dtype)
        if benchmark.enabled:
            report(f"cast to {name}", best_of(lambda: dtypes.cast(x, dtype)), best_of(lambda: x.astype(dtype)))
