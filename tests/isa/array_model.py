"""The systolic array in NumPy: sums in FP32, one rounding a step, worked out exactly."""

import ml_dtypes
import numpy as np


def fused_add(total, product):
    """fl32(total + product) with one rounding, for float64 products that are exact.

    The float64 sum is rounded to odd with the help of its exact error, so that the second rounding cannot go wrong.
    """
    a, b = np.asarray(total, np.float64), np.asarray(product, np.float64)
    with np.errstate(all="ignore"):
        s = a + b
        t = s - a
        error = (a - (s - t)) + (b - t)
        inexact = np.isfinite(s) & np.isfinite(error) & (error != 0)
        even = (s.view(np.int64) & 1) == 0 if s.ndim else (s.reshape(1).view(np.int64) & 1) == 0
        odd = np.where(inexact & even, np.nextafter(s, np.where(error > 0, np.inf, -np.inf)), s)
        return odd.astype(np.float32)


def wide(array):
    with np.errstate(all="ignore"):
        return array.astype(np.float32).astype(np.float64)


def multiply(stationary, moving, tf32=False):
    """Sum over rows of stationary (K, M) and moving (K, N), row 0 first; ``tf32`` says that both are TF32 numbers."""
    single = stationary.dtype.itemsize == 4 and not tf32
    total = np.float32(0)
    for s, t in zip(wide(stationary), wide(moving), strict=True):
        with np.errstate(all="ignore"):
            product = np.multiply.outer(s, t)
            total = total + product.astype(np.float32) if single else fused_add(total, product)
    return total


def double_row(stationary, moving):
    return multiply(stationary.reshape(-1, stationary.shape[2]), moving.reshape(-1, moving.shape[2]))


def put(psum, result, add):
    """PSUM after a product: replaced or added to, and rounded once more if it is bfloat16."""
    with np.errstate(all="ignore"):
        value = psum.astype(np.float32) + result if add else result
        return value.astype(psum.dtype)


CODES = {
    "float8_e4m3fn_x4": np.arange(256, dtype=np.uint8).view(ml_dtypes.float8_e4m3fn).astype(np.float64),
    "float8_e5m2_x4": np.arange(256, dtype=np.uint8).view(ml_dtypes.float8_e5m2).astype(np.float64),
    "float4_e2m1fn_x4": np.array([0, 0.5, 1, 1.5, 2, 3, 4, 6, -0.0, -0.5, -1, -1.5, -2, -3, -4, -6]),
}


def unpack(words, name):
    """Values of packed words (P, F) as (P, 4, F), the lowest code first."""
    width = 4 if name.startswith("float4") else 8
    words = words.astype(np.uint64)
    codes = [(words >> np.uint64(width * q)) & np.uint64(2**width - 1) for q in range(4)]
    return CODES[name][np.stack(codes, 1).astype(np.intp)]


def scale_of(scales, partitions, first):
    """Scale of each word, (P, F), from a scale tile whose row ``first`` is the first in use."""
    p = np.arange(partitions)
    row = p // 8 if partitions <= 32 else 32 * (p // 32) + p % 32 // 8
    bytes_ = scales[first + row].astype(np.float64)
    return np.where(bytes_ == 255, np.nan, np.exp2(bytes_ - 127))


def multiply_mx(stationary, s_scale, moving, m_scale):
    """Sum over words and codes of values (P, 4, M) and (P, 4, N) with scales (P, M) and (P, N)."""
    total = np.float32(0)
    with np.errstate(all="ignore"):
        for p in range(stationary.shape[0]):
            for q in range(4):
                s, t = stationary[p, q] * s_scale[p], moving[p, q] * m_scale[p]
                total = fused_add(total, np.multiply.outer(s, t))
    return total


def quantize(values, element, ocp):
    """Codes (P, F) and scale bytes (P/8, F/4) of values (P, F), group by group as isa.md 5.4 says."""
    dtype = {"float8_e4m3fn_x4": ml_dtypes.float8_e4m3fn, "float8_e5m2_x4": ml_dtypes.float8_e5m2}[element]
    emax, largest = (8, 448.0) if dtype is ml_dtypes.float8_e4m3fn else (15, 57344.0)
    rows, columns = values.shape[0] // 8, values.shape[1] // 4
    codes, scales = np.zeros(values.shape, np.uint8), np.zeros((rows, columns), np.uint8)
    single = values.astype(np.float32)
    for a in range(rows):
        for f in range(columns):
            at = np.s_[8 * a : 8 * a + 8, 4 * f : 4 * f + 4]
            group = single[at]
            if not np.isfinite(group).all():
                scales[a, f] = 255
                codes[at] = np.full((8, 4), np.nan).astype(dtype).view(np.uint8)
                continue
            exponent = int((group.view(np.uint32) >> 23 & 0xFF).max()) - 127
            scales[a, f] = byte = 0 if (group == 0).all() else min(max(exponent - emax + (not ocp) + 127, 0), 254)
            scaled = group.astype(np.float64) / 2.0 ** (byte - 127)
            codes[at] = np.clip(scaled, -largest, largest).astype(np.float32).astype(dtype).view(np.uint8)
    return codes, scales
