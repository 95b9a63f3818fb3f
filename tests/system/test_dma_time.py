"""Transfers in time, from the kernel down: what timing.md sections 8 and 9 say of them."""

import ml_dtypes
import numpy as np
import pytest

import trn3
from dma_timed import (
    DESCRIPTOR,
    DONE,
    GAP,
    SEMAPHORE,
    SKEW,
    TARGETS,
    TO_FIRST,
    descriptor_ns,
    generation_ns,
    timeline,
    times,
    zeros,
)
from trn3 import nki
from trn3.nki import isa as nisa
from trn3.nki import language as nl

B16 = np.dtype(ml_dtypes.bfloat16)
STATIC = nisa.dge_mode.none

#: timing.md section 8.3: bytes a partition; GB/s on v4 and on v3.
LADDER = [
    (32, 6.8, 7.3),
    (64, 13.7, 14.6),
    (128, 27.3, 29.2),
    (256, 54.6, 58.3),
    (512, 109, 117),
    (1024, 218, 233),
    (2048, 437, 340),
    (4096, 508, 359),
    (8192, 518, 363),
    (16384, 523, 366),
    (32768, 526, 367),
]


def ends_of(program, line):
    names = ("dma_copy", "dma_transpose", "dma_compute")
    return sorted(end for name in names for _, end, _ in times(program, line, name))


def stream_gb_per_s(record, *arrays, target, written, count=24):
    """GB/s of the equal transfers, each `written` bytes, that ``record(count, *arrays)`` asks for."""
    program, line = timeline(lambda *given: record(count, *given) or given[0], *arrays, target=target)
    ends, skipped = ends_of(program, line), count // 3
    return written * (count - 1 - skipped) / (ends[count - 1] - ends[skipped])


@pytest.mark.parametrize(("size", "v4", "v3"), LADDER)
@pytest.mark.parametrize("target", TARGETS)
def test_the_ladder_of_sizes(target, size, v4, v3):
    def loads(count, x):
        # Tiles of their own, as far as SBUF has place: a load that overwrites another waits for it.
        for _ in range(count):
            nisa.dma_copy(nl.ndarray((128, size), nl.uint8), x)

    array = zeros(128, size, dtype=np.uint8)
    got = stream_gb_per_s(loads, array, target=target, written=128 * size, count=min(24, 163840 // size))
    assert got == pytest.approx({"trn3": v4, "trn2": v3}[target], rel=0.01)


SUSTAINED = {"trn2": 368.0, "trn3": 528.0}
BIG = 1 << 14


def copied(count, hbm, tile, target_space):
    for _ in range(count):
        if target_space == "hbm":
            nisa.dma_copy(nl.ndarray(hbm.shape, hbm.dtype, buffer=nl.private_hbm), tile, dge_mode=STATIC)
        else:
            nisa.dma_copy(nl.ndarray(tile.shape, tile.dtype), tile, dge_mode=STATIC)


@pytest.mark.parametrize("target", TARGETS)
@pytest.mark.parametrize(
    ("shape", "ratio"),
    [
        ("load", 1.0),
        ("store", 1.0),
        ("inside", 1.0),
        ("within_hbm", 1.0),
        ("transpose", 0.9),
        ("transpose_unaligned", 0.45),
        ("transpose_inside", 0.5),
        ("sum_of_one", 0.5),
        ("sum_of_two", 0.25),
        ("add_in_sbuf", None),
    ],
)
def test_every_shape_reaches_its_documented_rate(target, shape, ratio):
    """Within 2 % of the sustained rate times XPOSE_EFF, XPOSE_EFF_SB, CCE_EFF (every source counts) or RAW_EFF."""
    written, count = 128 * BIG, 8
    wide, tall = zeros(128, BIG // 2, dtype=B16), zeros(BIG // 2, 128, dtype=B16)
    if shape == "add_in_sbuf":
        # From v4 SBUF adds by itself; before, a sum of two sources.
        ratio = {"trn2": 0.25, "trn3": 1.0}[target]
    if shape == "within_hbm" and target == "trn2":
        # Reads and writes count: 680.2 GB/s of the stack make 340.1.
        ratio = 340.1 / 368

    def record(count, x, y):
        tile = nl.ndarray((128, BIG // 2), B16)
        if shape in ("store", "inside", "sum_of_two", "transpose_inside"):
            nisa.memset(tile, 0)

        def fresh(buffer=nl.sbuf, dims=(128, BIG // 2)):
            return nl.ndarray(dims, B16, buffer=buffer)

        for _ in range(count):
            match shape:
                case "load":
                    nisa.dma_copy(fresh(), x, dge_mode=STATIC)
                case "store":
                    nisa.dma_copy(fresh(nl.private_hbm), tile, dge_mode=STATIC)
                case "inside":
                    nisa.dma_copy(fresh(), tile, dge_mode=STATIC)
                case "within_hbm":
                    nisa.dma_copy(fresh(nl.private_hbm), x, dge_mode=STATIC)
                case "transpose":
                    nisa.dma_transpose(fresh(), y, dge_mode=STATIC)
                case "transpose_unaligned":
                    nisa.dma_transpose(fresh(dims=(120, BIG // 2)), y[:, 0:120], dge_mode=STATIC)
                case "transpose_inside":
                    nisa.dma_transpose(fresh(dims=(128, 128)), tile[:, 0:128], dge_mode=STATIC)
                case "sum_of_one":
                    nisa.dma_compute(fresh(), [x], nl.add)
                case "sum_of_two":
                    nisa.dma_compute(fresh(), [x, tile], nl.add)
                case "add_in_sbuf":
                    own = fresh()
                    nisa.memset(own, 0)
                    nisa.dma_compute(own, [own, x], nl.add)

    if shape == "transpose_unaligned":
        written = 120 * BIG
        ratio *= 15 / 16  # 120 partitions keep 15 of the 16 engines busy
    if shape == "transpose_inside":
        written, count = 128 * 256, 24
        # Short descriptors: 256 B, and the gap between transfers is 40 ns.
        data = 8 * descriptor_ns(target, 256)
        ratio *= written * (data / ratio) / (data / ratio + GAP) / data / SUSTAINED[target]
    got = stream_gb_per_s(record, wide, tall, target=target, written=written, count=count)
    assert got == pytest.approx(SUSTAINED[target] * ratio, rel=0.02)


def one_transfer(kernel, *arrays, target, name):
    program, line = timeline(kernel, *arrays, target=target)
    ((issue, end, _),) = times(program, line, name)
    return end - issue


def start_and_end(target, mode, partitions=128):
    """What a transfer takes but for its data."""
    generation = generation_ns(target, partitions) if mode == "hwdge" else 0.0
    skew = 24.0 if mode == "swdge" else SKEW
    return generation + TO_FIRST + 15 * skew + SEMAPHORE + DONE


@pytest.mark.parametrize("target", TARGETS)
def test_a_cast_moves_what_the_larger_side_has(target):
    def kernel(x):
        tile = nl.ndarray((128, 2048), B16)
        nisa.dma_copy(tile, x)
        return x

    # 8 KiB of FP32 a partition become 4 KiB: two descriptors; GpSimd makes them.
    got = one_transfer(kernel, zeros(128, 2048), target=target, name="dma_copy")
    assert got == pytest.approx(start_and_end(target, "swdge") + 16 * descriptor_ns(target, 4096), abs=0.5)
    run = trn3.run(kernel, zeros(128, 2048), options=trn3.RunOptions(target=target))
    (load,) = [route for route in run.report.routes if route.transfers]
    assert (load.read_bytes, load.written_bytes) == (128 * 8192, 128 * 4096)
    assert run.report.hbm_bytes == 128 * 8192


@pytest.mark.parametrize("target", TARGETS)
def test_gathers_and_scatters_have_a_descriptor_a_row(target):
    def gather(x, ids):
        index = nl.load(ids)
        tile = nl.ndarray((128, 16), nl.float32)
        nisa.dma_copy(tile, x.ap([[16, 128], [1, 16]], vector_offset=index))
        return x

    def scatter(x, ids):
        index = nl.load(ids)
        tile = nl.ndarray((128, 16), nl.float32)
        nisa.memset(tile, 0)
        nisa.dma_copy(x.ap([[16, 128], [1, 16]], vector_offset=index), tile)
        return x

    def plain(x, ids):
        nl.load(ids)
        nisa.dma_copy(nl.ndarray((16, 128), nl.float32), x, dge_mode=nisa.dge_mode.swdge)
        return x

    ids = np.arange(128, dtype=np.int32)[:, None]
    table = zeros(128, 16)
    base = start_and_end(target, "swdge")
    for kernel, extra in ((gather, 0.0), (scatter, 24.0)):
        program, line = timeline(kernel, table, ids, target=target)
        issue, end, _ = times(program, line, "dma_copy")[-1]
        each = max(8.0, 64 / {"trn2": 23.7, "trn3": 34.4}[target] + DESCRIPTOR + extra)
        assert end - issue == pytest.approx(base + 8 * each, abs=0.5)
    # The same bytes as rows of 512 B on 16 partitions: two engines, with fewer descriptors.
    program, line = timeline(plain, table, ids, target=target)
    issue, end, _ = times(program, line, "dma_copy")[-1]
    assert end - issue < base + 8 * descriptor_ns(target, 512)


@pytest.mark.parametrize("target", TARGETS)
def test_the_three_ways_of_making_descriptors(target):
    def kernel(mode, engine):
        def run(x):
            nisa.dma_copy(nl.ndarray((128, 256), nl.uint8), x, dge_mode=mode, engine=engine)
            return x

        return run

    x, data = zeros(128, 256, dtype=np.uint8), 8 * descriptor_ns(target, 256)
    for mode, engine, name in (
        (nisa.dge_mode.hwdge, nisa.engine.sync, "hwdge"),
        (nisa.dge_mode.hwdge, nisa.engine.scalar, "hwdge"),
        (nisa.dge_mode.swdge, nisa.engine.gpsimd, "swdge"),
        (STATIC, nisa.engine.sync, "none"),
    ):
        got = one_transfer(kernel(mode, engine), x, target=target, name="dma_copy")
        assert got == pytest.approx(start_and_end(target, name) + data, abs=0.5), name


@pytest.mark.parametrize("target", TARGETS)
@pytest.mark.parametrize("sources", [1, 2, 4, 5, 16])
def test_every_source_of_a_sum_counts_however_it_is_recorded(target, sources):
    def kernel(x):
        nisa.dma_compute(nl.ndarray((128, 1024), nl.float32), [x] * sources, nl.add)
        return x

    program, line = timeline(kernel, zeros(128, 1024), target=target)
    parts = times(program, line, "dma_compute")
    assert len(parts) == -(-sources // 4)
    data = sources * 8 * descriptor_ns(target, 4096) / 0.5
    # Each part is a transfer of its own, one after the other in one ring.
    expected = start_and_end(target, "none") + data + (len(parts) - 1) * GAP
    assert parts[-1][1] - parts[0][0] == pytest.approx(expected, abs=1)
    assert line.hbm_bytes == sources * 128 * 4096
    routes = {name: (read, written) for name, read, written, _ in line.routes}
    assert routes["hbm_to_sbuf"] == (sources * 128 * 4096, 128 * 4096)


def pair_of_loads(x):
    for _ in range(10):
        nisa.dma_copy(nl.ndarray((128, 16384), nl.uint8), x, dge_mode=STATIC)
    return x


@pytest.mark.parametrize(("target", "alone", "together"), [("trn2", 368.0, 680.2), ("trn3", 528.0, 1056.0)])
def test_the_cores_of_a_pair_share_their_stack(target, alone, together):
    """timing.md section 9: a pair asks for 736 of 680 GB/s on Trn2, and for 1056 of 1164 on Trn3."""
    x = zeros(128, 16384, dtype=np.uint8)
    table, kernel = trn3.Chip(target).table, nki.jit(target=target)(pair_of_loads)
    one = trn3._native.Timeline(nki.record(kernel, x), table)
    both = trn3._native.Timeline(nki.record(kernel[2], x), table)
    assert stream(both.peer) == pytest.approx(stream(both), rel=1e-3)
    assert stream(one) == pytest.approx(alone, rel=0.01)
    assert stream(both) + stream(both.peer) == pytest.approx(together, rel=0.01)


def stream(line):
    ends = sorted(line.instruction(at)[1] / 1000 for at in range(10))
    return 128 * 16384 * 8 / (ends[9] - ends[1])


@pytest.mark.parametrize("target", TARGETS)
def test_no_kernel_uses_more_of_hbm_than_there_is(target):
    def kernel(x):
        out = nl.ndarray(x.shape, x.dtype, buffer=nl.shared_hbm)
        for at in range(8):
            nisa.dma_copy(out[at], x[at], dge_mode=STATIC)
        return out

    run = trn3.run(kernel, zeros(8, 128, 16384, dtype=np.uint8), options=trn3.RunOptions(target=target))
    assert run.report.hbm_bytes == 2 * 8 * 128 * 16384
    assert 0.7 < run.report.mbu <= 0.95
    peak = {"trn2": 716e9, "trn3": 1225e9}[target]
    assert run.report.mbu == pytest.approx(run.report.hbm_bytes / run.report.total_s / peak)


def test_larger_classes_wait_behind_smaller_ones_from_v4():
    """timing.md section 8.4: on v4 the lowest class goes first, on v3 queues take turns."""

    def kernel(x, y, priority):
        bulk = nl.ndarray((128, 16384), nl.uint8)
        for at in range(4):
            nisa.dma_copy(bulk[:, at * 4096 : (at + 1) * 4096], x[:, at * 4096 : (at + 1) * 4096], dge_mode=STATIC)
        tile = nl.ndarray((128, 8192), nl.uint8)
        nisa.dma_copy(tile, y, dge_mode=STATIC, engine=nisa.engine.scalar, priority=priority)
        return x

    x, y = zeros(128, 16384, dtype=np.uint8), zeros(128, 8192, dtype=np.uint8)

    def waited(priority, target="trn3"):
        program, line = timeline(lambda a, b: kernel(a, b, priority), x, y, target=target)
        issue, end, _ = times(program, line, "dma_copy")[-1]
        return end - issue

    data = 16 * descriptor_ns("trn3", 4096)
    undisturbed = start_and_end("trn3", "none") + data
    assert waited(0) <= undisturbed + descriptor_ns("trn3", 4096) + 1
    assert waited(2) == pytest.approx(undisturbed + 16 * descriptor_ns("trn3", 4096), rel=0.02)
    assert waited(3) == pytest.approx(undisturbed + 32 * descriptor_ns("trn3", 4096), rel=0.02)
    two = start_and_end("trn2", "none") + 32 * descriptor_ns("trn2", 4096)
    assert waited(None, "trn2") == pytest.approx(two, rel=0.02)


def test_small_stores_take_longer_than_small_loads():
    def load(x):
        nisa.dma_copy(nl.ndarray((128, 64), nl.float32), x)
        return x

    def store(x):
        tile = nl.ndarray((128, 64), nl.float32)
        nisa.memset(tile, 0)
        nisa.dma_copy(x, tile)
        return x

    for target in TARGETS:
        loaded = one_transfer(load, zeros(128, 64), target=target, name="dma_copy")
        assert one_transfer(store, zeros(128, 64), target=target, name="dma_copy") == pytest.approx(
            loaded + 8 * 24, abs=1
        )
