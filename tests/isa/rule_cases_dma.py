"""The cases of `test_rules` for transfers that compute."""

import math

from rule_cases import case
from rule_tiles import E5, filled, psum, sbuf

from trn3.nki import isa as nisa
from trn3.nki import language as nl

B16 = nl.bfloat16
HWDGE = nisa.dge_mode.hwdge


def turn(*shape, dst=None, dtype=B16, **more):
    """Transpose a tile of `shape`."""
    out = dst or (shape[-1], *shape[1:-1], shape[0])
    nisa.dma_transpose(sbuf(*out, dtype=dtype), sbuf(*shape, dtype=dtype), **more)


def rows(count=16, width=8, index=(16, 1), dtype=B16, words=nl.uint32, middle=()):
    """Rows by index of a tensor in HBM that nothing has named yet."""
    row = width * math.prod(middle)
    table = nl.ndarray((32, row), dtype, buffer=nl.private_hbm)
    nisa.dma_copy(table, sbuf(32, row, dtype=dtype))
    pattern = [[row, count], *[[width, size] for size in middle], [1, width]]
    return table.ap(pattern, vector_offset=sbuf(*index, dtype=words))


def gather(count=16, width=8, middle=(), dtype=B16, **more):
    nisa.dma_transpose(sbuf(width, *middle, count, dtype=dtype), rows(count, width, dtype=dtype, middle=middle, **more))


def added(count=2, **more):
    nisa.dma_compute(sbuf(4, 4), [sbuf(4, 4)] * count, **({"reduce_op": nl.add} | more))


def indexed(indices=4):
    return filled(8, 6).ap([[6, 4], [1, 6]], vector_offset=sbuf(indices, 1, dtype=nl.int32))


def scatter(data=None, **more):
    index = sbuf(4, 1, dtype=nl.int32)
    nisa.iota(index, [[1, 1]], channel_multiplier=1)
    view = filled(8, 6).ap([[6, 4], [1, 6]], vector_offset=index)
    nisa.dma_compute(view, [view, sbuf(4, 6) if data is None else data], nl.add, **more)


def moved():
    register = nisa.register_alloc(0)
    nisa.dma_compute(sbuf(4, 4), [filled(8, 4).ap([[4, 4], [1, 4]], scalar_offset=register)], nl.add)


def in_place():
    tile = sbuf(4, 6)
    nisa.dma_compute(tile, [indexed(), tile], nl.add)


def from_hbm():
    data = filled(4, 6)
    scatter(data)


DMA_CASES = [
    case("dma_transpose.axes", lambda: turn(4, 6, axes=(1, 0)), lambda: turn(4, 6, axes=(0, 1)), "axes"),
    case("dma_transpose.axes", lambda: turn(4, 2, 6, axes=[2, 1, 0]), lambda: turn(4, 2, 6, axes=(1, 0)), "axes"),
    case("dma_transpose.axes", lambda: turn(4, 2, 3, 6), lambda: turn(4, 1, 2, 3, 6), "src"),
    case("dma_transpose.shape", lambda: turn(4, 6), lambda: turn(4, 6, dst=(6, 5)), "dst"),
    case("dma_transpose.shape", lambda: turn(4, 2, 6), lambda: turn(4, 2, 6, dst=(6, 8)), "dst"),
    case(
        "dma_transpose.dtype",
        lambda: turn(4, 6, dtype=nl.float8_e5m2_x4),
        lambda: nisa.dma_transpose(sbuf(6, 4, dtype=nl.uint16), sbuf(4, 6, dtype=B16)),
        "dst",
    ),
    case(
        "dma_transpose.dtype",
        lambda: turn(16, 6, dge_mode=HWDGE),
        lambda: turn(16, 6, dge_mode=HWDGE, dtype=nl.float32),
        "src",
    ),
    case("dma_transpose.dtype", lambda: gather(), lambda: gather(dtype=nl.float32), "src"),
    case(
        "dma_transpose.dst_space",
        lambda: turn(4, 6),
        lambda: nisa.dma_transpose(nl.ndarray((6, 4), B16, buffer=nl.hbm), sbuf(4, 6, dtype=B16)),
        "dst",
        level="documented",
    ),
    case(
        "dma_transpose.hwdge",
        lambda: turn(16, 128, dge_mode=HWDGE),
        lambda: turn(32, 128, dge_mode=HWDGE),
        "src",
    ),
    case(
        "dma_transpose.hwdge",
        lambda: turn(8, 2, 8, dge_mode=HWDGE),
        lambda: turn(8, 3, 8, dge_mode=HWDGE),
        "src",
    ),
    case(
        "dma_transpose.hwdge",
        lambda: turn(2, 3, 8, 8, dge_mode=HWDGE),
        lambda: turn(32, 3, 8, 8, dge_mode=HWDGE),
        "src",
    ),
    case(
        "dma_transpose.hwdge",
        lambda: turn(16, 128, dge_mode=HWDGE),
        lambda: nisa.dma_transpose(nl.ndarray((129, 16), B16, buffer=nl.hbm), sbuf(16, 129, dtype=B16), dge_mode=HWDGE),
        "src",
    ),
    case("dma_transpose.index", lambda: gather(words=nl.uint32), lambda: gather(words=nl.int32), "src"),
    case(
        "dma_transpose.index", lambda: gather(count=32, index=(32, 1)), lambda: gather(count=16, index=(24, 1)), "src"
    ),
    case("dma_transpose.index", lambda: gather(count=144, index=(128, 2)), lambda: gather(index=(64, 2)), "src"),
    case("dma_transpose.index", lambda: gather(count=16), lambda: gather(count=32), "src"),
    case("dma_transpose.index", lambda: gather(count=16), lambda: gather(count=8), "src"),
    case("dma_transpose.index", lambda: gather(middle=(1, 2)), lambda: gather(middle=(2, 2), width=4), "src"),
    case(
        "dma_transpose.index",
        lambda: gather(width=128),
        lambda: nisa.dma_transpose(nl.ndarray((129, 16), B16, buffer=nl.hbm), rows(width=129)),
        "src",
    ),
    case(
        "dma_transpose.oob_mode",
        lambda: nisa.dma_transpose(sbuf(8, 16, dtype=B16), rows(), oob_mode=nisa.oob_mode.skip),
        lambda: turn(4, 6, oob_mode=nisa.oob_mode.skip),
        "oob_mode",
    ),
    case("dma.priority", lambda: turn(4, 6, priority=3), lambda: turn(4, 6, priority=4), "priority"),
    case(
        "dma.dge_mode",
        lambda: turn(4, 6, dge_mode=nisa.dge_mode.none),
        lambda: turn(4, 6, dge_mode=nisa.dge_mode.swdge),
        "dge_mode",
    ),
    case(
        "dma.dge_mode",
        lambda: nisa.dma_transpose(sbuf(8, 16, dtype=B16), rows(), dge_mode=nisa.dge_mode.swdge),
        lambda: nisa.dma_transpose(sbuf(8, 16, dtype=B16), rows(), dge_mode=HWDGE),
        "dge_mode",
    ),
    case(
        "operand.indirect",
        lambda: turn(16, 8),
        lambda: nisa.dma_transpose(rows(), sbuf(8, 16, dtype=B16)),
        "dst",
    ),
    case("operand.space", lambda: turn(4, 6), lambda: nisa.dma_transpose(psum(6, 4), sbuf(4, 6)), "dst"),
    case("dma_compute.sources_max", lambda: added(16), lambda: added(17), "srcs"),
    case("dma_compute.sources_max", lambda: added(1), lambda: added(0), "srcs"),
    case(
        "dma_compute.sources_max",
        lambda: None,
        lambda: nisa.dma_compute(sbuf(4, 4), sbuf(4, 4), nl.add),
        "srcs",
    ),
    case("dma_compute.sources_max", lambda: None, lambda: nisa.dma_compute(sbuf(4, 4), [1.0], nl.add), "srcs"),
    case(
        "dma_compute.size",
        lambda: nisa.dma_compute(sbuf(4, 6), [sbuf(6, 4), sbuf(2, 12)], nl.add),
        lambda: nisa.dma_compute(sbuf(4, 6), [sbuf(6, 4), sbuf(2, 13)], nl.add),
        "srcs",
    ),
    case("dma_compute.operator", lambda: added(), lambda: added(reduce_op=nl.multiply), "reduce_op"),
    case("dma_compute.operator", lambda: None, lambda: added(reduce_op=None), "reduce_op"),
    case("dma_compute.scales", lambda: added(scales=[1.0, 1.0]), lambda: added(scales=[1.0, 0.5]), "scales"),
    case("dma_compute.scales", lambda: added(scales=None), lambda: added(scales=[1.0]), "scales"),
    case("dma_compute.scales", lambda: None, lambda: added(scales=1.0), "scales"),
    case(
        "dma_compute.dtype",
        lambda: nisa.dma_compute(sbuf(4, 4, dtype=E5), [sbuf(4, 4)], nl.add),
        lambda: nisa.dma_compute(*[sbuf(4, 4, dtype=nl.float8_e5m2_x4)], [sbuf(4, 4)], nl.add),
        "dst",
    ),
    case("dma_compute.static", lambda: added(), moved, "srcs"),
    case(
        "dma_compute.by_index",
        in_place,
        lambda: nisa.dma_compute(sbuf(4, 6), [indexed(), sbuf(4, 6), sbuf(4, 6)], nl.add),
        "srcs",
    ),
    case(
        "dma_compute.by_index",
        scatter,
        lambda: nisa.dma_compute(indexed(), [sbuf(4, 6), sbuf(4, 6)], nl.add),
        "srcs",
    ),
    case(
        "dma_compute.by_index",
        lambda: None,
        lambda: nisa.dma_compute(sbuf(4, 6), [indexed(), indexed()], nl.add),
        "srcs",
    ),
    case(
        "dma_compute.in_place",
        in_place,
        lambda: nisa.dma_compute(sbuf(4, 6), [indexed(), sbuf(4, 6)], nl.add),
        "dst",
        level="documented",
    ),
    case("dma_compute.in_place", scatter, from_hbm, "srcs", level="documented"),
    case(
        "dma_compute.unique_indices",
        lambda: scatter(unique_indices=True),
        lambda: scatter(unique_indices=False),
        "unique_indices",
        level="documented",
    ),
    case(
        "dma.index",
        lambda: None,
        lambda: nisa.dma_compute(sbuf(4, 6), [indexed(5), sbuf(4, 6)], nl.add),
        "srcs",
    ),
]
