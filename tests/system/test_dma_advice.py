"""Advice that must pay off (timing.md section 13), as far as it is about DMA: a kernel that ignores it, one that follows it.

Sources: the performance guide (Opt 1 to 10), the DMA overview and bandwidth guide, the DGE page.
"""

import ml_dtypes
import numpy as np
import pytest

from dma_timed import GAP, TARGETS, descriptor_ns, stored, timeline, times, total_ns, zeros
from trn3.nki import isa as nisa
from trn3.nki import language as nl

B16 = np.dtype(ml_dtypes.bfloat16)
STATIC = nisa.dge_mode.none


@pytest.mark.parametrize("target", TARGETS)
def test_1_inputs_stay_in_sbuf(target):
    """Opt 1: one load instead of one a use moves a seventh of the bytes, and pays while DMA is what limits."""
    uses = 7

    def kernel(x, once):
        acc = nl.ndarray((128, 512), nl.float32)
        nisa.memset(acc, 0.0)
        for part in range(8):
            key = np.s_[:, part * 512 : (part + 1) * 512]
            kept = nl.load(x[key])
            for use in range(uses):
                tile = kept if once or use == 0 else nl.load(x[key])
                nisa.tensor_tensor(acc, acc, tile, nl.add, engine=nisa.engine.vector)
        return stored(acc)

    x = zeros(128, 4096)
    lines = [timeline(lambda a: kernel(a, once), x, target=target)[1] for once in (False, True)]
    loaded = [{name: read for name, read, *_ in line.routes}["hbm_to_sbuf"] for line in lines]
    assert loaded[0] == uses * loaded[1]


def test_1_inputs_stay_in_sbuf_where_dma_limits():
    def kernel(x, once):
        for use in range(7):
            if use == 0 or not once:
                tile = nl.load(x)
            nisa.activation(nl.ndarray((128, 64), nl.float32), nl.exp, tile[:, use * 64 : (use + 1) * 64])
        return stored(tile[:, 0:1])

    x = zeros(128, 4096)
    ignored, followed = (total_ns(lambda a: kernel(a, once), x) for once in (False, True))
    assert 3 <= ignored / followed <= 7


@pytest.mark.parametrize("target", TARGETS)
def test_4_loads_overlap_with_work(target):
    """Opt 4: with two buffers the time is the longer of load and work instead of their sum."""
    turns = 16

    def kernel(x, buffers):
        tiles = [nl.ndarray((128, 4096), nl.float32) for _ in range(buffers)]
        result = nl.ndarray((128, 4096), nl.float32)
        for turn in range(turns):
            tile = tiles[turn % buffers]
            nisa.dma_copy(tile, x)
            nisa.activation(result, nl.exp, tile)
        return stored(result)

    x = zeros(128, 4096)
    single, double = (total_ns(lambda a: kernel(a, buffers), x, target=target) for buffers in (1, 2))
    program, line = timeline(lambda a: kernel(a, 1), x, target=target)
    load, work = (
        (end - issue) for issue, end, _ in (times(program, line, name)[0] for name in ("dma_copy", "activation"))
    )
    tail = double - turns * max(load, work)
    assert single == pytest.approx(turns * (load + work), rel=0.1)
    assert tail < load + work
    assert double < 0.75 * single


def per_byte(size, target, engines=("sync",), count=24):
    """Nanoseconds a byte of loads of `size` bytes a partition, back to back, from several issuers in turn."""

    def kernel(x):
        for at in range(count):
            engine = getattr(nisa.engine, engines[at % len(engines)])
            nisa.dma_copy(nl.ndarray((128, size), nl.uint8), x, engine=engine)
        return x

    program, line = timeline(kernel, zeros(128, size, dtype=np.uint8), target=target)
    ends = sorted(end for _, end, _ in times(program, line, "dma_copy"))
    skipped = count // 3
    return (ends[-1] - ends[skipped]) / (count - 1 - skipped) / (128 * size)


@pytest.mark.parametrize("target", TARGETS)
def test_10_big_transfers(target):
    """Opt 9: 4 B a partition against 4 KiB, more than 400 times as much a byte (Trn2, whose DGE is faster: 390)."""
    assert per_byte(4, target) / per_byte(4096, target) > {"trn2": 390, "trn3": 400}[target]


def each_ns(kernel, x, name, per_tile, tiles=60):
    """Nanoseconds a tile, once the stream of tiles runs, by the ends of the instructions that end a tile."""
    program, line = timeline(kernel, x)
    ends = [end for _, end, _ in times(program, line, name)][per_tile - 1 :: per_tile]
    assert len(ends) == tiles
    return (ends[-1] - ends[tiles // 2]) / (tiles - 1 - tiles // 2)


def evicted(bank, turned, copies):
    """Copy what TensorE has transposed, 512 columns at a time: VectorE the first bank, ScalarE the second."""
    for at in range(copies):
        key = np.s_[:, at * 512 : (at + 1) * 512]
        nisa.tensor_copy(turned[key], bank[key], engine=nisa.engine.scalar if at >= 2 else nisa.engine.vector)


def test_11_the_array_transposes_faster_than_dma_out_of_hbm():
    """Opt 10: more than 1.1 times for a stream of tiles of 2048 rows of 128."""

    def by_dma(x):
        for _ in range(60):
            nisa.dma_transpose(nl.ndarray((128, 2048), B16), x, dge_mode=STATIC)
        return x

    def by_array(x):
        for _ in range(60):
            tile, turned = nl.ndarray((128, 2048), B16), nl.ndarray((128, 2048), B16)
            bank = nl.ndarray((128, 2048), B16, buffer=nl.psum)
            # 16 rows follow each other in a partition.
            nisa.dma_copy(tile, x.reshape((128, 2048)), dge_mode=STATIC)
            for group in range(16):
                key = np.s_[:, group * 128 : (group + 1) * 128]
                nisa.nc_transpose(bank[key], tile[key], engine=nisa.engine.tensor)
            evicted(bank, turned, 4)
        return x

    x = zeros(2048, 128, dtype=B16)
    assert each_ns(by_dma, x, "dma_transpose", 1) / each_ns(by_array, x, "tensor_copy", 4) > 1.1


def test_11_the_array_transposes_faster_than_dma_within_sbuf():
    """Opt 10: twice and more for a stream of four tiles of 128 x 128."""

    def kernel(by_dma):
        def run(x):
            tile = nl.ndarray((128, 512), B16)
            nisa.memset(tile, 0)
            for _ in range(60):
                turned = nl.ndarray((128, 512), B16)
                if by_dma:
                    nisa.dma_transpose(turned.reshape((128, 4, 128)), tile.reshape((128, 4, 128)), dge_mode=STATIC)
                    continue
                bank = nl.ndarray((128, 512), B16, buffer=nl.psum)
                for group in range(4):
                    key = np.s_[:, group * 128 : (group + 1) * 128]
                    nisa.nc_transpose(bank[key], tile[key], engine=nisa.engine.tensor)
                evicted(bank, turned, 1)
            return x

        return run

    x = zeros(1, 1)
    assert each_ns(kernel(True), x, "dma_transpose", 1) / each_ns(kernel(False), x, "tensor_copy", 1) > 2


@pytest.mark.parametrize(("target", "gain"), [("trn2", 3.1), ("trn3", 4.6)])
def test_12_two_kibibytes_a_partition(target, gain):
    """The bandwidth guide: 512 B a partition against 4 KiB."""
    assert per_byte(512, target) / per_byte(4096, target) == pytest.approx(gain, rel=0.03)


@pytest.mark.parametrize(("target", "few", "many"), [("trn2", 1423, 126), ("trn3", 993, 100)])
def test_13_all_sixteen_engines(target, few, many):
    """The DMA overview: [4, 4096] against [128, 128] in BF16, the same bytes."""

    def data_ns(*shape):
        def kernel(x):
            nisa.dma_copy(nl.ndarray(shape, B16), x)
            return x

        program, line = timeline(kernel, zeros(*shape, dtype=B16), target=target)
        ((issue, end, _),) = times(program, line, "dma_copy")
        return end - issue

    # What differs besides the data: T_DGE, and that only one engine moves data in the narrow one, which then ends last.
    def around(partitions, skew):
        return 170 + {"trn2": 3.06, "trn3": 3.36}[target] * partitions + 700 + skew + 9 + 350

    narrow, wide = data_ns(4, 4096) - around(4, 0), data_ns(128, 128) - around(128, 150)
    assert narrow == pytest.approx(few, abs=1)
    assert wide == pytest.approx(many, abs=1)


@pytest.mark.parametrize(("target", "gain"), [("trn2", 1.4), ("trn3", 2.0)])
def test_20_several_issuers(target, gain):
    """The DGE page: pieces of 1 KiB from SyncE alone, and from ScalarE, SyncE and GpSimdE in turn: twice on v4."""
    one, three = (per_byte(1024, target, engines) for engines in (("sync",), ("sync", "scalar", "gpsimd")))
    assert gain < one / three < 1.1 * gain
    # What limits then is the engines.
    assert 128 * 1024 * three == pytest.approx(8 * descriptor_ns(target, 1024), rel=0.1)
    assert 128 * 1024 * three < 8 * descriptor_ns(target, 1024) + GAP


@pytest.mark.parametrize("target", TARGETS)
def test_21_hardware_makes_descriptors_faster(target):
    """The DGE page: hwdge instead of swdge, 0.6 us less for each transfer that waits for another; GpSimd stays free."""

    def kernel(x, mode):
        a, b = nl.ndarray((128, 64), nl.float32), nl.ndarray((128, 64), nl.float32)
        nisa.memset(a, 0.0)
        for _ in range(4):
            nisa.dma_copy(b, a, dge_mode=mode)
            nisa.tensor_copy(a, b)
        return stored(a)

    x = zeros(1, 1)
    modes = (nisa.dge_mode.swdge, nisa.dge_mode.hwdge)
    software, hardware = (total_ns(lambda a: kernel(a, mode), x, target=target) for mode in modes)
    # The skew of swdge is 14 ns more an engine.
    assert (software - hardware) / 4 == pytest.approx(600, abs=300)
    program, line = timeline(lambda a: kernel(a, modes[1]), x, target=target)
    assert {name: count for name, count, *_ in line.engines}["gpsimd"] == 0


def test_23_urgent_classes_wait_for_one_packet():
    """From v4: what waits behind class 2 goes first as class 0, after the packet under way."""
    packet = descriptor_ns("trn3", 4096)

    def kernel(x, y, priority):
        bulk = nl.ndarray((128, 32768), nl.uint8)
        nisa.dma_copy(bulk, x, dge_mode=STATIC)
        tile = nl.ndarray((128, 256), nl.uint8)
        nisa.dma_copy(tile, y, dge_mode=STATIC, engine=nisa.engine.scalar, priority=priority)
        return x

    def waited(priority):
        x, y = zeros(128, 32768, dtype=np.uint8), zeros(128, 256, dtype=np.uint8)
        program, line = timeline(lambda a, b: kernel(a, b, priority), x, y)
        issue, end, _ = times(program, line, "dma_copy")[-1]
        undisturbed = 700 + 150 + 8 * descriptor_ns("trn3", 256) + 9 + 350
        return end - issue - undisturbed

    assert -1 <= waited(0) <= packet + 1
    # In the same class the bulk has its turn before the data, which are one packet, and before the semaphore write.
    assert waited(2) == pytest.approx(2 * packet, abs=1)
    assert waited(3) > 60 * packet
