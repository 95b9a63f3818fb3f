"""Times against formulas worked by hand from the published constants (timing.md names are in capitals)."""

import json

import numpy as np
import pytest

import trn3
from timed import FULL_RATE, Timed, span_ps
from trn3.nki import isa as nisa
from trn3.nki import language as nl

X = np.ones((128, 512), np.float32)


@pytest.mark.parametrize("target, hz", [("trn3", 1.2e9), ("trn2", 0.96e9)])
def test_independent_copies_repeat_at_the_interval(target, hz):
    def kernel(x):
        out = nl.ndarray((128, 512), nl.float32, buffer=nl.shared_hbm)
        a = nl.load(x)
        for _ in range(4):
            b = nl.ndarray((128, 512), nl.float32)
            nisa.tensor_copy(b, a)
        nl.store(out, b)
        return out

    timed = Timed(kernel, X, target=target)
    copies = timed.of("tensor_copy")
    stream, latency, overhead = 512 / 2, 150, 70
    for (issue, end, _), (following, _, _) in zip(copies, copies[1:], strict=False):
        assert end - issue == pytest.approx(span_ps(latency + stream, hz), abs=1)
        assert following - issue == pytest.approx(span_ps(stream + overhead, hz), abs=1)


def test_a_dependent_copy_waits_for_the_result_and_its_semaphore():
    def kernel(x):
        out = nl.ndarray((128, 512), nl.float32, buffer=nl.shared_hbm)
        a = nl.load(x)
        for _ in range(3):
            b = nl.ndarray((128, 512), nl.float32)
            nisa.tensor_copy(b, a)
            a = b
        nl.store(out, a)
        return out

    timed = Timed(kernel, X)
    copies = timed.of("tensor_copy")
    sem_self_ps = 35_000
    for (_, end, _), (following, _, stall) in zip(copies, copies[1:], strict=False):
        assert following == end + sem_self_ps
        assert stall > 0


def test_engines_hand_over_through_semaphores():
    def kernel(x):
        out = nl.ndarray((128, 512), nl.float32, buffer=nl.shared_hbm)
        a = nl.load(x)
        b = nl.ndarray((128, 512), nl.float32)
        c = nl.ndarray((128, 512), nl.float32)
        nisa.tensor_copy(b, a)
        nisa.activation(c, nl.exp, b)
        nl.store(out, c)
        return out

    timed = Timed(kernel, X)
    (_, copied, _), (issued, _, _) = timed.of("tensor_copy") + timed.of("activation")
    sem_local_ps = 34_000
    assert issued == copied + sem_local_ps


@pytest.mark.parametrize("columns", [128, 512, 2048])
def test_matrix_products_stream_at_the_array_rate(columns):
    def kernel(x, y):
        out = nl.ndarray((128, columns), nl.float32, buffer=nl.shared_hbm)
        s, m = nl.load(x), nl.load(y)
        acc = nl.ndarray((128, columns), nl.float32, buffer=nl.psum)
        for _ in range(8):
            nisa.nc_matmul(acc, s, m)
        nl.store(out, acc)
        return out

    x, y = np.ones((128, 128)), np.ones((128, columns))
    x, y = x.astype(trn3.dtypes.bfloat16), y.astype(trn3.dtypes.bfloat16)
    timed = Timed(kernel, x, y, overrides=FULL_RATE)
    products = timed.of("nc_matmul")
    intervals = {b[0] - a[0] for a, b in zip(products, products[1:], strict=False)}
    assert all(interval == pytest.approx(span_ps(columns + 5, 2.4e9), abs=2) for interval in intervals)
    end = products[0][1] - products[0][0]
    assert end == pytest.approx(span_ps(395 + columns, 2.4e9), abs=2)


def test_a_long_product_reaches_the_published_rate():
    """A chain of MX products of 512 columns sustains 512/517 of 314.6 TFLOPS (timing.md section 5)."""

    def kernel(s, m, ss, ms):
        out = nl.ndarray((128, 512), nl.float32, buffer=nl.shared_hbm)
        tiles = [nl.load(t) for t in (s, m, ss, ms)]
        acc = nl.ndarray((128, 512), nl.float32, buffer=nl.psum)
        for _ in range(400):
            nisa.nc_matmul_mx(acc, tiles[0], tiles[1], tiles[2], tiles[3])
        nl.store(out, acc)
        return out

    word = trn3.dtypes.float8_e4m3fn_x4
    arrays = [np.zeros((128, n), np.uint32).view(word) for n in (128, 512)]
    scales = [np.full((128, n), 127, np.uint8) for n in (128, 512)]
    timed = Timed(kernel, *arrays, *scales, overrides=FULL_RATE)
    products = timed.of("nc_matmul_mx")
    flops = 2 * 512 * 128 * 512 * 399
    rate = flops / ((products[-1][0] - products[0][0]) * 1e-12)
    assert rate == pytest.approx(311.5e12, rel=1e-3)


@pytest.mark.parametrize("row_bytes", [64, 512, 2048, 4096, 16384])
def test_one_load_takes_what_the_dma_model_says(row_bytes):
    """T_DGE + DGE_TO_FIRST + 15 ENGINE_SKEW + 8 partitions of descriptors + SEM_WRITE + SEM_DMA_DONE."""

    def kernel(x):
        out = nl.ndarray((128, row_bytes), nl.uint8, buffer=nl.shared_hbm)
        a = nl.load(x)
        b = nl.ndarray((128, row_bytes), nl.uint8)
        nisa.tensor_copy(b, a)
        nl.store(out, b)
        return out

    timed = Timed(kernel, np.ones((128, row_bytes), np.uint8))
    issue, end, _ = timed.line.instruction(0)
    descriptors, last = divmod(row_bytes, 4096)
    pieces = [4096] * descriptors + ([last] if last else [])
    data = 8 * sum(max(8.0, piece / 34.4 + 5.0) for piece in pieces)
    expected = (170 + 3.36 * 128) + 700 + 15 * 10 + data + 9 + 350
    assert (end - issue) / 1000 == pytest.approx(expected, abs=0.5)


def test_more_bytes_never_take_less_time():
    def kernel(x):
        out = nl.ndarray(x.shape, x.dtype, buffer=nl.shared_hbm)
        nl.store(out, nl.load(x))
        return out

    totals = [Timed(kernel, np.ones((128, n), np.float32)).total_ps for n in (1, 64, 512, 4096, 16384)]
    assert totals == sorted(totals)
    assert len(set(totals)) == len(totals)


def test_loads_overlap_with_work():
    def kernel(x, double_buffered):
        out = nl.ndarray((8, 128, 512), nl.float32, buffer=nl.shared_hbm)
        one = nl.ndarray((128, 512), nl.float32)
        for at in range(8):
            tile = nl.ndarray((128, 512), nl.float32) if double_buffered else one
            nisa.dma_copy(tile, x[at])
            result = nl.ndarray((128, 512), nl.float32)
            nisa.activation(result, nl.exp, tile)
            nisa.dma_copy(out[at], result, engine=nisa.engine.scalar)
        return out

    x = np.zeros((8, 128, 512), np.float32)
    single = Timed(lambda a: kernel(a, False), x).total_ps
    double = Timed(lambda a: kernel(a, True), x).total_ps
    assert double < 0.7 * single


def test_the_report_adds_up():
    def kernel(x, y):
        out = nl.ndarray((128, 512), nl.float32, buffer=nl.shared_hbm)
        acc = nl.ndarray((128, 512), nl.float32, buffer=nl.psum)
        nisa.nc_matmul(acc, nl.load(x), nl.load(y))
        nl.store(out, acc)
        return out

    bfloat16 = trn3.dtypes.bfloat16
    run = trn3.run(kernel, np.ones((128, 128)).astype(bfloat16), np.ones((128, 512)).astype(bfloat16))
    report = run.report
    assert report.flops == 2 * 128 * 128 * 512
    loaded, stored = 128 * 128 * 2 + 128 * 512 * 2, 128 * 512 * 4
    routes = {route.name: route for route in report.routes}
    assert routes["hbm_to_sbuf"].read_bytes == loaded
    assert routes["sbuf_to_hbm"].written_bytes == stored
    assert report.hbm_bytes == loaded + stored
    assert report.mfu_array == pytest.approx(report.flops / (2 * 128 * 128 * 2.4e9) / report.total_s)
    assert report.mfu == pytest.approx(report.flops / (671e12 / 8) / report.total_s)
    engines = {engine.name: engine for engine in report.engines}
    assert engines["tensor"].instructions == 1
    assert engines["tensor"].stalls.keys() == {"dma", "stationary"}
    assert engines["vector"].stalls.keys() == {"tensor"}
    assert all(0 <= engine.busy_s <= report.total_s for engine in report.engines)
    assert json.loads(report.to_json())["total_s"] == report.total_s
    assert "MFU" in str(report)


def test_time_does_not_depend_on_data():
    def kernel(x):
        out = nl.ndarray((128, 512), nl.float32, buffer=nl.shared_hbm)
        nl.store(out, nl.exp(nl.load(x)))
        return out

    runs = [trn3.run(kernel, value * X) for value in (0.0, 1.0, np.nan)]
    assert len({run.report.timeline.total_ps for run in runs}) == 1


def test_a_table_of_ones_own_changes_time_only(tmp_path):
    own = tmp_path / "slow.toml"
    own.write_text(
        'name = "slow"\nextends = "trn3"\n[tensor]\n'
        'clock_hz = { value = 1.2e9, unit = "Hz", status = "assumed", source = "what if" }\n'
    )

    def kernel(x, y):
        out = nl.ndarray((128, 512), nl.float32, buffer=nl.shared_hbm)
        acc = nl.ndarray((128, 512), nl.float32, buffer=nl.psum)
        s, m = nl.load(x), nl.load(y)
        for _ in range(50):
            nisa.nc_matmul(acc, s, m)
        nl.store(out, acc)
        return out

    x = np.ones((128, 128), np.float32)
    fast = trn3.run(kernel, x, X)
    slow = trn3.run(kernel, x, X, options=trn3.RunOptions(target=str(own)))
    assert np.array_equal(fast.result, slow.result)
    assert slow.report.total_s > 1.5 * fast.report.total_s


def test_labels_span_their_instructions():
    def kernel(x):
        out = nl.ndarray((128, 1024), nl.float32, buffer=nl.shared_hbm)
        a = nl.load(x)
        for half, name in enumerate(("first", "second")):
            b = nl.ndarray((128, 512), nl.float32)
            nisa.tensor_copy(b, a, name=name)
            nisa.dma_copy(out[:, 512 * half : 512 * half + 512], b, name=name)
        return out

    timed = Timed(kernel, X)
    line = timed.line
    assert timed.program.opcodes() == ["dma_copy", *("tensor_copy", "dma_copy") * 2]
    times = [line.instruction(at) for at in range(5)]
    assert line.labels() == [
        ("first", 2, times[1][0], times[2][1]),
        ("second", 2, times[3][0], times[4][1]),
    ]
    labels = trn3.run(kernel, X).report.labels
    assert [(label.name, label.instructions) for label in labels] == [("first", 2), ("second", 2)]
    assert labels[-1].end_s == pytest.approx(line.total_ps * 1e-12)
