"""Advice that must pay off (timing.md section 13): a kernel that follows a rule beats one that ignores it.

Each test names its rule and asserts the gain that is stated for it. Rules of DMA, collectives and memory are elsewhere.
"""

import numpy as np
import pytest

import trn3
from timed import FULL_RATE, Timed
from trn3.nki import isa as nisa
from trn3.nki import language as nl

BF16 = trn3.dtypes.bfloat16
VECTOR, SCALAR = nisa.engine.vector, nisa.engine.scalar


def tile(*shape, dtype=nl.float32, buffer=nl.sbuf):
    return nl.ndarray(shape, dtype, buffer=buffer)


def work(body, *arrays, **how):
    """Time of ``body(*tiles)`` without the transfers around it, in picoseconds; the body returns what is stored."""

    def kernel(arrays):
        result = body(*[nl.load(array) for array in arrays])
        out = nl.ndarray(result.shape, result.dtype, buffer=nl.shared_hbm)
        nl.store(out, result)
        return out

    return Timed(kernel, arrays, **how).work_ps()


def ones(*shape, dtype=np.float32):
    return np.ones(shape, dtype)


@pytest.mark.parametrize("target", ["trn2", "trn3"])
def test_3_pipeline_engines(target):
    """ScalarE then VectorE on one big tile, against eight tiles: 1.6 to 1.9 times."""

    columns = 32_768

    def body(pieces):
        def exponentials(x):
            a, b = tile(128, columns, dtype=BF16), tile(128, columns, dtype=BF16)
            for at in range(pieces):
                piece = slice(at * columns // pieces, (at + 1) * columns // pieces)
                # One cycle an element on both engines.
                nisa.activation(a[:, piece], nl.exp, x[:, piece])
                nisa.tensor_tensor(b[:, piece], a[:, piece], x[:, piece], nl.multiply)
            return b

        return work(exponentials, ones(128, columns, dtype=BF16), target=target)

    assert 1.6 <= body(1) / body(8) <= 1.9


def test_5_long_free_dimension():
    """A chain of one-element instructions, against one scan: 50 times an element."""

    def chain(x):
        out = tile(128, 512)
        nisa.tensor_copy(out[:, 0:1], x[:, 0:1], engine=VECTOR)
        for at in range(1, 64):
            nisa.tensor_tensor(out[:, at : at + 1], out[:, at - 1 : at], x[:, at : at + 1], nl.add)
        return out

    def scan(x):
        out = tile(128, 512)
        nisa.tensor_tensor_scan(out, x, x, 0.0, nl.multiply, nl.add)
        return out

    x = ones(128, 512)
    assert (work(chain, x) / 64) / (work(scan, x) / 512) >= 50


def test_6_all_partitions():
    """Two tiles of 64 partitions, against one of 128: twice."""

    def body(count):
        def copies(x):
            out = tile(128, 2048)
            for _ in range(8):
                for at in range(count):
                    part = slice(at * 128 // count, (at + 1) * 128 // count)
                    nisa.tensor_copy(out[part], x[part], engine=VECTOR)
            return out

        return copies

    x = ones(128, 2048)
    assert work(body(2), x) / work(body(1), x) == pytest.approx(2, rel=0.05)


@pytest.mark.parametrize("columns", [512, 2048])
def test_7_combine_instructions(columns):
    """Multiply, add and exp, against one activation with scale and bias: two to three times."""

    def apart(x, scale, bias):
        for _ in range(8):
            a, b, c = tile(128, columns), tile(128, columns), tile(128, columns)
            nisa.tensor_scalar(a, x, nl.multiply, scale, engine=SCALAR)
            nisa.tensor_scalar(b, a, nl.add, bias, engine=SCALAR)
            nisa.activation(c, nl.exp, b)
        return c

    def together(x, scale, bias):
        for _ in range(8):
            c = tile(128, columns)
            nisa.activation(c, nl.exp, x, bias=bias, scale=scale)
        return c

    arrays = ones(128, columns), ones(128, 1), ones(128, 1)
    assert 2 <= work(apart, *arrays) / work(together, *arrays) <= 4


def test_8_the_short_operand_moves():
    """One stationary column and 128 moving ones, against the reverse: twice."""

    def body(rows, columns):
        def products(x, y):
            acc = tile(rows, columns, buffer=nl.psum)
            for _ in range(100):
                nisa.nc_matmul(acc, x, y)
            return acc

        return work(products, ones(128, rows, dtype=BF16), ones(128, columns, dtype=BF16), overrides=FULL_RATE)

    assert body(1, 128) / body(128, 1) == pytest.approx(2, rel=0.1)


def test_9_fewer_transposes():
    """Each transpose of TensorE costs its time: without them, products of transposed tiles take that much less."""

    def body(transposed):
        def products(x, y):
            acc = tile(128, 512, buffer=nl.psum)
            moved, stationary = tile(128, 128, dtype=BF16, buffer=nl.psum), tile(128, 128, dtype=BF16)
            for _ in range(32):
                operand = x
                if transposed:
                    nisa.nc_transpose(moved, x, engine=nisa.engine.tensor)
                    nisa.tensor_copy(stationary, moved, engine=VECTOR)
                    operand = stationary
                nisa.nc_matmul(acc, operand, y)
            return acc

        arrays = ones(128, 128, dtype=BF16), ones(128, 512, dtype=BF16)
        # Without the second server of v4, which would hide them.
        return work(products, *arrays, target="trn2", overrides=FULL_RATE)

    saved = body(True) - body(False)
    assert saved >= 32 * 133 / 2.4e-3


def mx_products(columns):
    def kernel(s, m, ss, ms):
        out = nl.ndarray((128, columns), nl.float32, buffer=nl.shared_hbm)
        tiles = [nl.load(t) for t in (s, m, ss, ms)]
        acc = tile(128, columns, buffer=nl.psum)
        for _ in range(40):
            nisa.nc_matmul_mx(acc, tiles[0], tiles[1], tiles[2], tiles[3])
        nl.store(out, acc)
        return out

    word = trn3.dtypes.float8_e4m3fn_x4
    arrays = [np.zeros((128, n), np.uint32).view(word) for n in (128, columns)]
    scales = [np.full((128, n), 127, np.uint8) for n in (128, columns)]
    return Timed(kernel, *arrays, *scales, overrides=FULL_RATE).interval_ps("nc_matmul_mx")


def test_14_low_precision_products():
    """FP32 to BF16, to FP8 with two rows, to MX: four, two and two times a multiplication."""
    columns = 512

    def interval(dtype, mode="none", parts=1):
        def kernel(x, y):
            out = nl.ndarray((128, columns), nl.float32, buffer=nl.shared_hbm)
            stationary, moving = nl.load(x), nl.load(y)
            acc = tile(128, columns, buffer=nl.psum)
            for _ in range(40):
                nisa.nc_matmul(acc, stationary, moving, perf_mode=getattr(nisa.matmul_perf_mode, mode))
            nl.store(out, acc)
            return out

        shape = (128,) if parts == 1 else (128, parts)
        arrays = ones(*shape, 128, dtype=dtype), ones(*shape, columns, dtype=dtype)
        return Timed(kernel, *arrays, overrides=FULL_RATE).interval_ps("nc_matmul")

    fp32, bf16 = interval(np.float32), interval(BF16)
    fp8 = interval(trn3.dtypes.float8_e4m3, "double_row", 2)
    assert fp32 / bf16 == pytest.approx(4, rel=0.02)
    assert 2 * bf16 / fp8 == pytest.approx(2, rel=0.02)
    assert 2 * fp8 / mx_products(columns) == pytest.approx(2, rel=0.02)


def scaled(dtype, src=lambda x: x, columns=4096, **how):
    """Interval of tensor_scalar on VectorE from SBUF to SBUF."""

    def body(x):
        for _ in range(8):
            out = tile(128, columns, dtype=dtype)
            nisa.tensor_scalar(out, src(x), nl.multiply, 2.0, engine=VECTOR)
        return out

    def kernel(x):
        out = nl.ndarray((128, columns), dtype, buffer=nl.shared_hbm)
        nl.store(out, body(nl.load(x)))
        return out

    width = columns * (2 if how.pop("wide", False) else 1)
    return Timed(kernel, ones(128, width, dtype=dtype), **how).interval_ps("tensor_scalar")


@pytest.mark.parametrize("target", ["trn2", "trn3"])
def test_15_sixteen_bit_vector_modes(target):
    """FP32 to BF16: twice, or four times if 32-bit data had no fast mode."""
    assert scaled(np.float32, target=target) / scaled(BF16, target=target) == pytest.approx(2, rel=0.05)
    narrow = {"vector.stream.copy_bits32.sbuf_contiguous_cycles_per_element": 1}
    slow = scaled(np.float32, target=target, overrides=narrow)
    assert slow / scaled(BF16, target=target) == pytest.approx(4, rel=0.07)


@pytest.mark.parametrize("target", ["trn2", "trn3"])
def test_16_contiguous_innermost_dimension(target):
    """Every second element, against neighbours: twice."""
    strided = scaled(BF16, lambda x: x[:, ::2], wide=True, target=target)
    assert strided / scaled(BF16, target=target) == pytest.approx(2, rel=0.05)


def test_17_different_banks():
    """VectorE and ScalarE evict one bank, against two: up to twice."""

    def interval(banks):
        def kernel(x):
            out = nl.ndarray((2, 128, 512), nl.float32, buffer=nl.shared_hbm)
            source = nl.load(x)
            sources = [tile(128, 512, buffer=nl.psum) for _ in range(2)]
            for bank in sources:
                nisa.nc_matmul(bank, source[:, 0:128], source)
            for _ in range(20):
                results = [tile(128, 512), tile(128, 512)]
                nisa.tensor_copy(results[0], sources[banks[0]], engine=VECTOR)
                nisa.tensor_copy(results[1], sources[banks[1]], engine=SCALAR)
            for at, result in enumerate(results):
                nl.store(out[at], result)
            return out

        starts = [issue for issue, _, _ in Timed(kernel, ones(128, 512)).of("tensor_copy")[::2]]
        return (starts[-1] - starts[5]) / (len(starts) - 6)

    # While one of them does not stream, the other goes at full rate.
    assert 1.7 <= interval([1, 1]) / interval([0, 1]) <= 2


@pytest.mark.skipif(not hasattr(nisa, "exponential"), reason="exponential is not among the instructions yet")
@pytest.mark.parametrize("columns, gain", [(512, 3.7), (8192, 4)])
def test_18_fast_exponential(columns, gain):
    """Activation with exp, against exponential on VectorE, BF16: 3.7 times at 512 elements, up to four."""

    def interval(name, body):
        def kernel(x):
            out = nl.ndarray((128, columns), BF16, buffer=nl.shared_hbm)
            source = nl.load(x)
            for _ in range(10):
                result = tile(128, columns, dtype=BF16)
                body(result, source)
            nl.store(out, result)
            return out

        return Timed(kernel, ones(128, columns, dtype=BF16)).interval_ps(name)

    slow = interval("activation", lambda dst, src: nisa.activation(dst, nl.exp, src))
    fast = interval("exponential", lambda dst, src: nisa.exponential(dst, src))
    assert slow / fast == pytest.approx(gain, rel=0.02)


def test_19_offload_vector_to_scalar():
    """Copies on VectorE alone, against VectorE and ScalarE: up to 1.5 times."""

    def body(share):
        def copies(x):
            for at in range(30):
                out = tile(128, 512)
                nisa.tensor_copy(out, x, engine=SCALAR if share and at % 3 == 2 else VECTOR)
            return out

        return work(copies, ones(128, 512))

    assert 1.3 <= body(False) / body(True) <= 1.55


def test_22_keep_the_array_busy():
    """Bursts of 3 us (1.5 us of work) with idle gaps, against steady work: half the rate in limited windows."""

    def body(gap):
        def products(x, y):
            acc = tile(128, 512, buffer=nl.psum)
            spin = tile(128, 4096)
            for _ in range(16):
                for _ in range(7):
                    nisa.nc_matmul(acc, x, y)
                if gap:
                    # ScalarE works on the result for two windows, and the array waits for it.
                    nisa.activation(spin[:, 0:512], nl.exp, acc)
                    for _ in range(2):
                        nisa.activation(spin, nl.exp, spin)
                    nisa.tensor_copy(x, spin[:, 0:128], engine=SCALAR)
            return acc

        def kernel(x, y):
            out = nl.ndarray((128, 512), nl.float32, buffer=nl.shared_hbm)
            nl.store(out, products(nl.load(x), nl.load(y)))
            return out

        return Timed(kernel, ones(128, 128, dtype=BF16), ones(128, 512, dtype=BF16))

    bursts, steady = body(True), body(False)
    active, waits, _ = bursts.engine("tensor")
    _, few, _ = steady.engine("tensor")
    # Every burst is limited: its products take twice their time. Steady work is limited for a window or two.
    assert (active + waits["throttle"]) / active >= 1.8
    assert (active + few["throttle"]) / active <= 1.3


def test_24_one_function_set():
    """Exp and gelu in turns, against one after the other: 1.28 us for each switch saved."""

    def body(names):
        def activations(x):
            for name in names:
                out = tile(128, 512)
                nisa.activation(out, getattr(nl, name), x)
            return out

        return work(activations, ones(128, 512))

    saved = body(["exp", "gelu"] * 8) - body(["exp"] * 8 + ["gelu"] * 8)
    assert saved == pytest.approx(14 * 1_283_000, rel=0.001)


@pytest.mark.parametrize("engine, gain", [("vector", 5.8), ("scalar", 4)])
def test_25_static_addresses(engine, gain):
    """Addresses from a register, against static ones, 64 elements: four to nine times an instruction."""

    def interval(dynamic):
        def kernel(x, y):
            out = nl.ndarray((128, 64), nl.float32, buffer=nl.shared_hbm)
            source, index = nl.load(x), nl.load(y)
            register = nisa.register_alloc(0)
            nisa.register_load(register, index)
            for _ in range(10):
                copy = tile(128, 64)
                moved = source.ap([[512, 128], [1, 64]], scalar_offset=register, indirect_dim=1)
                nisa.tensor_copy(copy, moved if dynamic else source[:, 0:64], engine=getattr(nisa.engine, engine))
            nl.store(out, copy)
            return out

        return Timed(kernel, ones(128, 512), np.zeros((1, 1), np.int32)).interval_ps("tensor_copy")

    assert gain <= interval(True) / interval(False) <= 9


def test_26_longer_instructions():
    """Activations of 128 elements, against 2048: 2.5 times an element."""

    def interval(columns):
        def kernel(x):
            out = nl.ndarray((128, columns), nl.float32, buffer=nl.shared_hbm)
            source = nl.load(x)
            for _ in range(10):
                result = tile(128, columns)
                nisa.activation(result, nl.exp, source)
            nl.store(out, result)
            return out

        return Timed(kernel, ones(128, columns)).interval_ps("activation") / columns

    assert interval(128) / interval(2048) == pytest.approx(2.5, rel=0.02)


def test_27_background_transposes():
    """A chain of transposes on v4, against v3: about twice a cycle."""

    def interval(target):
        def kernel(x):
            out = nl.ndarray((128, 128), BF16, buffer=nl.shared_hbm)
            source = nl.load(x)
            moved = tile(128, 128, dtype=BF16, buffer=nl.psum)
            for _ in range(40):
                nisa.nc_transpose(moved, source, engine=nisa.engine.tensor)
            nl.store(out, moved)
            return out

        return Timed(kernel, ones(128, 128, dtype=BF16), target=target, overrides=FULL_RATE).interval_ps("nc_transpose")

    assert interval("trn2") / interval("trn3") == pytest.approx(2, rel=0.02)
