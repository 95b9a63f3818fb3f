"""Kernels whose reports the tests look at."""

import numpy as np

import trn3
from trn3 import nki
from trn3.nki import isa as nisa
from trn3.nki import language as nl

BF16 = trn3.dtypes.bfloat16
F32 = np.ones((128, 512), np.float32)


def product(x, y):
    out = nl.ndarray((128, 512), nl.float32, buffer=nl.shared_hbm)
    acc = nl.ndarray((128, 512), nl.float32, buffer=nl.psum, name="acc")
    s, m = nl.load(x), nl.load(y)  # LOADS
    for _ in range(4):
        nisa.nc_matmul(acc, s, m, name="the product")  # MATMUL
    result = nl.exp(acc)
    nl.store(out, result)  # STORE
    return out


def chain(x):
    out = nl.ndarray((128, 512), nl.float32, buffer=nl.shared_hbm)
    tile = nl.load(x)
    for _ in range(5):
        following = nl.ndarray((128, 512), nl.float32)
        nisa.tensor_copy(following, tile)
        tile = following
    nl.store(out, tile)
    return out


def pipelined(x):
    out = nl.ndarray((8, 128, 512), nl.float32, buffer=nl.shared_hbm)
    for at in range(8):
        tile = nl.load(x[at])
        other = nl.ndarray((128, 512), nl.float32)
        nisa.activation(tile, nl.exp, tile)
        nisa.tensor_copy(other, tile)
        nisa.dma_copy(out[at], other, engine=nisa.engine.scalar)
    return out


def looped(x):
    out = nl.ndarray((128, 512), nl.float32, buffer=nl.shared_hbm)
    tile = nl.load(x)
    for _ in nl.dynamic_range(6):
        nisa.activation(tile, nl.exp, tile)
        nisa.tensor_copy(tile, tile)
    nl.store(out, tile)
    return out


def uneven(x):
    out = nl.ndarray((2, 128, 512), nl.float32, buffer=nl.shared_hbm)
    tile = nl.load(x)
    for _ in range(2 + 3 * nl.program_id(0)):
        tile = nl.exp(tile)
    nl.store(out[nl.program_id(0)], tile)
    return out


def meeting(x):
    out = nl.ndarray((2, 128, 512), nl.float32, buffer=nl.shared_hbm)
    tile = nl.load(x)
    for _ in range(2 + 3 * nl.program_id(0)):
        tile = nl.exp(tile)
    nl.store(out[nl.program_id(0)], tile)
    nisa.core_barrier(out, (0, 1))
    again = nl.load(out[1 - nl.program_id(0)])
    nl.store(out[nl.program_id(0)], again)
    return out


def nothing(x):
    return x


def waiting(x):
    """Core 0 does next to nothing, core 1 decides how long it takes."""
    out = nl.ndarray((2, 128, 512), nl.float32, buffer=nl.shared_hbm)
    tile = nl.load(x)
    for _ in range(1 + 40 * nl.program_id(0)):
        nisa.activation(tile, nl.exp, tile)
    nl.store(out[nl.program_id(0)], tile)
    return out


def deviating(x):
    out = nl.ndarray((128, 512), nl.float32, buffer=nl.shared_hbm)
    tile = nl.ndarray((128, 512), nl.float32)
    nisa.tensor_copy(tile[:, 0:256], nl.load(x)[:, 0:256])
    nl.store(out, tile)  # UNWRITTEN
    return out


def runs():
    """One run of each kernel, by name."""
    bf16 = [np.ones((128, n), np.float32).astype(BF16) for n in (128, 512)]
    return {
        "product": trn3.run(product, *bf16),
        "chain": trn3.run(chain, F32),
        "pipelined": trn3.run(pipelined, np.zeros((8, 128, 512), np.float32)),
        "looped": trn3.run(looped, F32),
        "uneven": trn3.run(nki.Kernel(uneven)[2], F32),
        "meeting": trn3.run(nki.Kernel(meeting)[2], F32),
        "deviating": trn3.run(deviating, F32),
    }


def edges():
    """Runs of which less is true than of others."""
    return {"nothing": trn3.run(nothing, F32), "waiting": trn3.run(nki.Kernel(waiting)[2], F32)}
