"""Tiles and calls that the cases of `rule_cases` are made of."""

import numpy as np

from trn3.nki import isa as nisa
from trn3.nki import language as nl

X = np.ones((128, 16), np.float32)


def sbuf(*shape, dtype=nl.float32):
    tile = nl.ndarray(shape, dtype)
    nisa.memset(tile, 0)
    return tile


def psum(*shape, dtype=nl.float32):
    return nl.ndarray(shape, dtype, buffer=nl.psum)


def hbm(*shape, dtype=nl.float32):
    return nl.ndarray(shape, dtype, buffer=nl.hbm)


def filled(*shape):
    tensor = hbm(*shape)
    nisa.dma_copy(tensor, sbuf(*shape))
    return tensor


def mm(m=8, n=8, k=8, s=nl.bfloat16, t=nl.bfloat16, d=nl.float32, shape=None, **more):
    nisa.nc_matmul(psum(*(shape or (m, n)), dtype=d), sbuf(k, m, dtype=s), sbuf(k, n, dtype=t), **more)


def mx(
    k=32,
    m=4,
    n=4,
    s=nl.float8_e5m2_x4,
    t=nl.float8_e5m2_x4,
    rows=None,
    d=nl.float32,
    shape=None,
    scale=nl.uint8,
    columns=None,
):
    rows = rows or (k // 8 if k <= 32 else k)
    nisa.nc_matmul_mx(
        psum(*(shape or (m, n)), dtype=d),
        sbuf(k, m, dtype=s),
        sbuf(k, n, dtype=t),
        sbuf(rows, columns or m, dtype=scale),
        sbuf(rows, n, dtype=nl.uint8),
    )


def quantize(p=32, f=8, src=nl.bfloat16, dst=nl.float8_e5m2_x4, shape=None, scale=(4, 2), scale_dtype=nl.uint8):
    nisa.quantize_mx(sbuf(*(shape or (p, f // 4)), dtype=dst), sbuf(p, f, dtype=src), sbuf(*scale, dtype=scale_dtype))


def big(rows=4, columns=4, key=np.s_[0:1]):
    """A window on a tile of 128 partitions."""
    return sbuf(128, columns)[key]


double = nisa.matmul_perf_mode.double_row
E4, E4N, E5 = nl.float8_e4m3, nl.float8_e4m3fn, nl.float8_e5m2
