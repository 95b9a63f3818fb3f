"""Same bits and picoseconds, whatever number of threads and whatever hash seed."""

import hashlib
import os
import subprocess
import sys
from concurrent.futures import ThreadPoolExecutor

import numpy as np
import pytest

import trn3
from trn3.nki import isa as nisa
from trn3.nki import language as nl

ROUNDS = 3


def everything(x, index):
    """All engines, a loop, gathers, products, accumulators, tiles that share addresses and tiles without room."""
    rows, width = 128, 512
    out = nl.ndarray((rows, width), nl.float32, buffer=nl.shared_hbm)
    total = nl.zeros((rows, width), nl.float32)
    tiles = []
    for _ in range(12):
        tile = nl.ndarray((rows, width), nl.float32)
        nisa.dma_copy(tile, x[:rows])
        tiles.append(tile)
    picked = nl.ndarray((rows, width), nl.float32)
    numbers = nl.ndarray((rows, 1), nl.int32)
    nisa.dma_copy(numbers, index)
    nisa.dma_copy(picked, x.ap([[width, rows], [1, width]], vector_offset=numbers, indirect_dim=0))
    words = nl.ndarray((rows, width), nl.int32, address=(0, 0))
    floats = nl.ndarray((rows, width), nl.float32, address=(0, 0))
    for _ in nl.dynamic_range(ROUNDS):
        nisa.iota(words, [[1, width]], channel_multiplier=1)
        product = nl.ndarray((rows, width), nl.float32, buffer=nl.psum)
        nisa.nc_matmul(product, picked[:, :rows], picked)
        nisa.activation(floats, nl.gelu, product, scale=0.01)
        nisa.tensor_tensor(total, total, floats, nl.add)
    for tile in reversed(tiles):
        nisa.tensor_tensor(total, total, tile, nl.add, engine=nisa.engine.gpsimd)
    sums = nl.ndarray((rows, 1), nl.float32)
    nisa.tensor_scalar_reduce(total, total, nl.multiply, 0.5, nl.add, sums)
    nisa.tensor_scalar(total, total, nl.subtract, sums)
    nisa.dma_copy(out, total)
    return out


def arrays():
    rng = np.random.default_rng(4)
    return rng.standard_normal((300, 512)).astype(np.float32), rng.integers(0, 300, (128, 1)).astype(np.int32)


def digest():
    """Hash the bits, the Program, the time of each instruction, and the report."""
    # Room for eight tiles, so that some wait in HBM.
    options = trn3.RunOptions(seed=5, overrides={"sbuf.partition_bytes": 18432, "sbuf.reserved_bytes": 0})
    run = trn3.run(everything, *arrays(), options=options)
    assert run.program.spills()
    found = hashlib.sha256(run.result.tobytes())
    line = run.report.timeline
    times = [line.instruction(at) for at in range(line.instructions[1])]
    figures = run.report.to_json()
    for part in (run.program.opcodes(), run.program.tensors(), run.program.spills(), times, figures):
        found.update(repr(part).encode())
    return found.hexdigest()


@pytest.fixture(scope="module")
def alone():
    return digest()


@pytest.mark.parametrize("threads", [1, 2, 8])
def test_bits_and_times_are_the_same_in_any_number_of_threads(threads, alone):
    with ThreadPoolExecutor(threads) as pool:
        found = [future.result() for future in [pool.submit(digest) for _ in range(threads)]]
    assert set(found) == {alone}


@pytest.mark.parametrize("seed", ["0", "1", "4242"])
def test_bits_and_times_are_the_same_for_any_hash_seed(seed, alone):
    environment = {**os.environ, "PYTHONHASHSEED": seed, "PYTHONPATH": os.pathsep.join(filter(None, sys.path))}
    code = "import test_determinism; print(test_determinism.digest())"
    done = subprocess.run(
        [sys.executable, "-c", code], env=environment, cwd=os.path.dirname(__file__), capture_output=True, text=True
    )
    assert done.returncode == 0, done.stderr
    assert done.stdout.strip() == alone
