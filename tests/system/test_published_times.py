"""The model against published figures: timing.md sections 5 (TensorE), 6.6 (VectorE, ScalarE) and 10 (semaphores).

Rows of kind "fit" were used to choose the constants, rows of kind "check" were not; both must come out.
"""

import numpy as np
import pytest

import trn3
from timed import FULL_RATE, Timed
from trn3.nki import isa as nisa
from trn3.nki import language as nl

BF16 = trn3.dtypes.bfloat16
X = np.ones((128, 512), np.float32)


def products(count, columns, dtype=np.float32, stationary_columns=128, **how):
    """A chain of products of (128, stationary_columns) and (128, columns)."""

    def kernel(x, y):
        out = nl.ndarray((stationary_columns, columns), nl.float32, buffer=nl.shared_hbm)
        stationary, moving = nl.load(x), nl.load(y)
        acc = nl.ndarray((stationary_columns, columns), nl.float32, buffer=nl.psum)
        for _ in range(count):
            nisa.nc_matmul(acc, stationary, moving)
        nl.store(out, acc)
        return out

    return Timed(kernel, np.ones((128, stationary_columns), dtype), np.ones((128, columns), dtype), **how)


def transposes(count, dtype, **how):
    def kernel(x):
        out = nl.ndarray((128, 128), dtype, buffer=nl.shared_hbm)
        tile = nl.load(x)
        moved = nl.ndarray((128, 128), dtype, buffer=nl.psum)
        for _ in range(count):
            nisa.nc_transpose(moved, tile, engine=nisa.engine.tensor)
        nl.store(out, moved)
        return out

    return Timed(kernel, np.ones((128, 128), dtype), **how)


def ns(ps):
    return ps / 1000


class TestTensor:
    def test_bf16_products(self):
        timed = products(40, 512, BF16, target="trn2", overrides=FULL_RATE)
        assert ns(timed.interval_ps("nc_matmul")) == pytest.approx(215.4, abs=0.1)
        assert ns(timed.duration_ps("nc_matmul")) == pytest.approx(377.9, abs=0.1)
        # Published: 215 ns, and 376 ns without throttle.
        assert ns(timed.interval_ps("nc_matmul")) == pytest.approx(215, rel=0.003)
        assert ns(timed.duration_ps("nc_matmul")) == pytest.approx(376, rel=0.006)

    @pytest.mark.parametrize("columns, model, published", [(512, 428.8, 428), (128, 108.8, 109)])
    def test_halves_of_fp32_products(self, columns, model, published):
        timed = products(40, columns, target="trn2", overrides=FULL_RATE)
        half = ns(timed.interval_ps("nc_matmul")) / 2
        assert half == pytest.approx(model, abs=0.1)
        assert half == pytest.approx(published, rel=0.003)

    @pytest.mark.parametrize("dtype, model, published", [(BF16, 55.4, 55), (np.float32, 108.8, 108)])
    def test_transposes(self, dtype, model, published):
        interval = ns(transposes(40, dtype, target="trn2", overrides=FULL_RATE).interval_ps("nc_transpose"))
        assert interval == pytest.approx(model, abs=0.1)
        assert interval == pytest.approx(published, rel=0.01)

    def test_the_array_of_v2(self):
        timed = products(40, 128, BF16, target="trn1")
        assert ns(timed.duration_ps("nc_matmul")) == pytest.approx(188.6, abs=0.1)
        assert ns(timed.duration_ps("nc_matmul")) == pytest.approx(188, rel=0.004)
        # Documented in cycles: one moving column costs the shortest interval, one stationary column saves nothing.
        short_moving = products(40, 1, BF16, target="trn1").interval_ps("nc_matmul")
        short_stationary = products(40, 128, BF16, 1, target="trn1").interval_ps("nc_matmul")
        assert short_moving * 2.8e-3 == pytest.approx(64, abs=0.1)
        assert short_stationary * 2.8e-3 == pytest.approx(128, abs=0.1)

    def test_mx_products_sustain_the_published_peak_but_for_the_overhead(self):
        def kernel(s, m, ss, ms):
            out = nl.ndarray((128, 512), nl.float32, buffer=nl.shared_hbm)
            tiles = [nl.load(t) for t in (s, m, ss, ms)]
            acc = nl.ndarray((128, 512), nl.float32, buffer=nl.psum)
            for _ in range(40):
                nisa.nc_matmul_mx(acc, tiles[0], tiles[1], tiles[2], tiles[3])
            nl.store(out, acc)
            return out

        word = trn3.dtypes.float8_e4m3fn_x4
        arrays = [np.zeros((128, n), np.uint32).view(word) for n in (128, 512)]
        scales = [np.full((128, n), 127, np.uint8) for n in (128, 512)]
        interval = Timed(kernel, *arrays, *scales, overrides=FULL_RATE).interval_ps("nc_matmul_mx")
        assert interval * 2.4e-3 == pytest.approx(517, abs=0.1)
        rate = 2 * 512 * 128 * 512 / (interval * 1e-12)
        assert rate == pytest.approx(311.5e12, rel=1e-3)
        assert rate == pytest.approx(315e12, rel=0.012)

    def test_a_limited_array_issues_at_exactly_half_rate(self):
        timed = products(30, 512, BF16, target="trn2", overrides={"tensor.throttle.phase_random": False})
        starts = [issue for issue, _, _ in timed.of("nc_matmul")]
        full = ns(products(30, 512, BF16, target="trn2", overrides=FULL_RATE).interval_ps("nc_matmul"))
        intervals = [ns(b - a) for a, b in zip(starts, starts[1:], strict=False)]
        assert intervals[0] == pytest.approx(2 * full, abs=0.01)
        assert intervals[-1] == pytest.approx(full, abs=0.01)


def on_tiles(body, *shape, dtype=np.float32, out_dtype=None, psum=False, count=20, **how):
    """A chain of ``body(dst, src)``, independent of each other, on tiles of ``shape``."""

    def kernel(x):
        result = nl.ndarray(shape, out_dtype or dtype, buffer=nl.shared_hbm)
        src = nl.load(x)
        if psum:
            bank = nl.ndarray(shape, dtype, buffer=nl.psum)
            nisa.tensor_copy(bank, src, engine=nisa.engine.vector)
            src = bank
        for _ in range(count):
            dst = nl.ndarray(shape, out_dtype or dtype)
            body(dst, src)
        nl.store(result, dst)
        return result

    return Timed(kernel, np.ones(shape, dtype), target="trn2", **how)


def check(timed, name, duration=None, interval=None):
    """Model and published value in nanoseconds of the repeat interval and the duration."""
    for found, pair in ((timed.duration_ps(name), duration), (timed.interval_ps(name), interval)):
        if pair is not None:
            model, published = pair
            assert ns(found) == pytest.approx(model, abs=1)
            assert ns(found) == pytest.approx(published, rel=0.03)


class TestVector:
    def test_reduce(self):
        def kernel(x):
            out = nl.ndarray((128, 1), nl.float32, buffer=nl.shared_hbm)
            src = nl.load(x)
            for _ in range(20):
                dst = nl.ndarray((128, 1), nl.float32)
                nisa.tensor_reduce(dst, nl.add, src, axis=1)
            nl.store(out, dst)
            return out

        check(Timed(kernel, X, target="trn2"), "tensor_reduce", (684, 685), (603, 603))

    def test_tensor_scalar_with_a_vector_operand(self):
        def body(dst, src):
            nisa.tensor_scalar(dst, src, nl.multiply, src[:, 0:1])

        check(on_tiles(body, 128, 512), "tensor_scalar", (481, 481), (396, 396))

    def test_tensor_scalar_out_of_psum(self):
        def body(dst, src):
            nisa.tensor_scalar(dst, src, nl.multiply, src[:, 0:1])

        check(on_tiles(body, 128, 128, psum=True), "tensor_scalar", (348, 349), (262, 268))

    @pytest.mark.parametrize("columns, model, published", [(4, 171, 173), (8, 204, 202)])
    def test_reciprocals(self, columns, model, published):
        check(on_tiles(nisa.reciprocal, 128, columns), "reciprocal", (model, published))

    @pytest.mark.parametrize("columns, model, published", [(512, 690, 690), (128, 290, 291)])
    def test_copies_out_of_psum(self, columns, model, published):
        def body(dst, src):
            nisa.tensor_copy(dst, src, engine=nisa.engine.vector)

        check(on_tiles(body, 128, columns, psum=True), "tensor_copy", (model, published))


class TestScalar:
    @pytest.mark.parametrize("columns, model", [(512, 585), (128, 265)])
    def test_copies(self, columns, model):
        def body(dst, src):
            nisa.tensor_copy(dst, src, engine=nisa.engine.scalar)

        check(on_tiles(body, 128, columns), "tensor_copy", (model, model))

    @pytest.mark.parametrize("psum, duration, interval", [(False, 707, 612), (True, 685, 570)])
    def test_exponentials(self, psum, duration, interval):
        def body(dst, src):
            nisa.activation(dst, nl.exp, src)

        check(on_tiles(body, 128, 512, psum=psum), "activation", (duration, duration), (interval, interval))

    @pytest.mark.parametrize("name", ["activation", "tensor_copy"])
    def test_casts(self, name):
        def body(dst, src):
            if name == "activation":
                nisa.activation(dst, nl.copy, src)
            else:
                nisa.tensor_copy(dst, src, engine=nisa.engine.scalar)

        check(on_tiles(body, 128, 128, out_dtype=BF16), name, (265, 265))
        # From BF16 the result comes later.
        check(on_tiles(body, 128, 128, dtype=BF16, out_dtype=np.float32), name, (297, 297), (157, 157))


class TestIntervals:
    """Cycles between independent instructions on v4: the table of timing.md section 3.2."""

    @staticmethod
    def cycles(body, columns, dtype=np.float32, result=None):
        def kernel(x):
            out = nl.ndarray((128, result or columns), dtype, buffer=nl.shared_hbm)
            src = nl.load(x)
            for _ in range(10):
                dst = nl.ndarray(out.shape, dtype)
                body(dst, src)
            nl.store(out, dst)
            return out

        timed = Timed(kernel, np.ones((128, columns), dtype))
        return timed.interval_ps(timed.program.opcodes()[-2]) * 1.2e-3

    @pytest.mark.parametrize("columns, expected", [(1, 68), (128, 195), (512, 579), (4096, 4163)])
    def test_vector_reduce(self, columns, expected):
        found = self.cycles(lambda dst, src: nisa.tensor_reduce(dst, nl.add, src, axis=1), columns, result=1)
        assert found == pytest.approx(expected, abs=0.01)

    @pytest.mark.parametrize("columns, expected", [(1, 71), (128, 102), (512, 198), (4096, 1094)])
    def test_vector_copy_of_bf16(self, columns, expected):
        copy = self.cycles(lambda dst, src: nisa.tensor_copy(dst, src, engine=nisa.engine.vector), columns, BF16)
        assert copy == pytest.approx(expected, abs=0.01)

    @pytest.mark.parametrize("columns, expected", [(1, 223), (128, 350), (512, 734), (4096, 4318)])
    def test_scalar_activation(self, columns, expected):
        found = self.cycles(lambda dst, src: nisa.activation(dst, nl.exp, src), columns)
        assert found == pytest.approx(expected, abs=0.01)

    @pytest.mark.parametrize("columns, expected", [(1, 64), (128, 190), (512, 574), (4096, 4158)])
    def test_scalar_copy(self, columns, expected):
        copy = self.cycles(lambda dst, src: nisa.tensor_copy(dst, src, engine=nisa.engine.scalar), columns)
        assert copy == pytest.approx(expected, abs=0.01)


class TestTrn1:
    """What figures of the public performance guide show of NeuronCore-v2 (timing.md section 15)."""

    def test_a_chain_of_one_element_activations(self):
        def kernel(x):
            out = nl.ndarray((128, 1), nl.float32, buffer=nl.shared_hbm)
            tile = nl.load(x)
            for _ in range(10):
                nisa.activation(tile, nl.exp, tile)
            nl.store(out, tile)
            return out

        timed = Timed(kernel, X[:, 0:1], target="trn1")
        assert ns(timed.duration_ps("activation")) == pytest.approx(159, abs=1)
        assert ns(timed.interval_ps("activation")) == pytest.approx(189, abs=1)

    def test_a_long_sum_of_tiles(self):
        def kernel(x):
            out = nl.ndarray((128, 8192), nl.float32, buffer=nl.shared_hbm)
            tile, total = nl.load(x), nl.ndarray((128, 8192), nl.float32)
            nisa.tensor_tensor(total, tile, tile, nl.add)
            nl.store(out, total)
            return out

        timed = Timed(kernel, np.ones((128, 8192), np.float32), target="trn1")
        assert ns(timed.duration_ps("tensor_tensor")) == pytest.approx(14_987, rel=0.001)


#: Producer, consumer, the table's entry, and its value in nanoseconds (timing.md section 10).
SEMAPHORES = [
    ("tensor", "vector", "semaphore.tensor_to_elementwise_ns", 38),
    ("tensor", "scalar", "semaphore.tensor_to_elementwise_ns", 38),
    ("vector", "scalar", "semaphore.elementwise_to_elementwise_ns", 34),
    ("scalar", "vector", "semaphore.elementwise_to_elementwise_ns", 34),
    ("vector", "tensor", "semaphore.elementwise_to_tensor_ns", 52),
    ("scalar", "tensor", "semaphore.elementwise_to_tensor_ns", 52),
    ("vector", "trigger", "semaphore.elementwise_to_trigger_ns", 32),
    ("vector", "vector", "semaphore.self_ns", 35),
    ("scalar", "scalar", "semaphore.self_ns", 35),
    ("vector", "gpsimd", "semaphore.other_ns", 38),
    ("gpsimd", "vector", "semaphore.other_ns", 38),
    ("vector", "software", "dma.swdge.wake_ns", 1200),
]


def hand_over(producer, consumer):
    """A kernel in which the consumer waits for nothing but the producer, and the numbers of both."""

    def make(engine, source):
        if engine == "tensor":
            made = nl.ndarray((128, 128), nl.float32, buffer=nl.psum)
            nisa.nc_matmul(made, source, source)
            return made
        made = nl.ndarray((128, 128), nl.float32)
        nisa.tensor_copy(made, source, engine=getattr(nisa.engine, engine))
        return made

    def kernel(x):
        out = nl.ndarray((128, 128), nl.float32, buffer=nl.shared_hbm)
        loaded = nl.load(x)
        made = make(producer, loaded)
        if consumer in ("trigger", "software"):
            engine = nisa.engine.scalar if consumer == "trigger" else nisa.engine.gpsimd
            nisa.dma_copy(out, made, engine=engine)
        else:
            made = make(consumer, made)
            nl.store(out, made)
        return out

    return kernel


@pytest.mark.parametrize("producer, consumer, key, value_ns", SEMAPHORES)
@pytest.mark.parametrize("target", ["trn2", "trn3"])
def test_a_consumer_is_blocked_until_its_semaphore_and_not_longer(producer, consumer, key, value_ns, target):
    def issued(later_ps):
        overrides = {**FULL_RATE, key: value_ns + later_ps / 1000}
        timed = Timed(
            hand_over(producer, consumer), np.ones((128, 128), np.float32), target=target, overrides=overrides
        )
        _, end, _ = timed.line.instruction(1)
        issue, _, _ = timed.line.instruction(2)
        if consumer == "tensor":
            # The first product after idling pays for its LoadStationary, which is what waits for the semaphore.
            (waits,) = timed.waits("nc_matmul")
            issue -= waits["stationary"]
        return issue - end

    assert trn3.Chip(target).table.entry(key)["value"] == value_ns
    assert issued(0) == value_ns * 1000
    assert issued(1) == value_ns * 1000 + 1
