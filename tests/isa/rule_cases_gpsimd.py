"""The cases of `test_rules` for statistics, searches, shuffles and GpSimdE's instructions."""

from rule_cases import case
from rule_tiles import big, sbuf

from trn3.nki import isa as nisa
from trn3.nki import language as nl

KEEP = [255] * 32


def find(free=8, vals=8, dst=nl.uint32):
    nisa.nc_find_index8(sbuf(4, 8, dtype=dst), sbuf(4, free), sbuf(4, vals))


def shuffle(mask, src=32, dst=32):
    nisa.nc_stream_shuffle(sbuf(dst, 4), sbuf(src, 4), mask)


def select(pattern=((1, 4),), op=nl.less, offset=0):
    nisa.affine_select(sbuf(4, 4), [list(pair) for pair in pattern], 1, sbuf(4, 4), 0.0, cmp_op=op, offset=offset)


def local(partitions=16, elements=1, valid=None, dst=16, index=nl.uint16, columns=1):
    nisa.local_gather(
        sbuf(partitions, dst), sbuf(partitions, 8), sbuf(partitions, columns, dtype=index), elements, valid
    )


def nonzero(src=nl.float32, dst=nl.int32, free=9, **more):
    nisa.nonzero_with_count(sbuf(16, free, dtype=dst), sbuf(16, 8, dtype=src), **more)


GPSIMD_CASES = [
    case(
        "bn_stats.size",
        lambda: nisa.bn_stats(sbuf(4, 6), sbuf(4, 512)),
        lambda: nisa.bn_stats(sbuf(4, 6), sbuf(4, 513)),
        "data",
    ),
    case(
        "bn_stats.size",
        lambda: nisa.bn_stats(sbuf(4, 6), sbuf(4, 5)),
        lambda: nisa.bn_stats(sbuf(4, 7), sbuf(4, 5)),
        "dst",
    ),
    case(
        "bn_aggr.size",
        lambda: nisa.bn_aggr(sbuf(4, 2), sbuf(4, 9)),
        lambda: nisa.bn_aggr(sbuf(4, 2), sbuf(4, 8)),
        "data",
    ),
    case(
        "bn_aggr.size",
        lambda: nisa.bn_aggr(sbuf(4, 2), sbuf(4, 9)),
        lambda: nisa.bn_aggr(sbuf(4, 3), sbuf(4, 9)),
        "dst",
    ),
    case(
        "search8.elements",
        lambda: nisa.max8(sbuf(4, 8), sbuf(4, 8)),
        lambda: nisa.max8(sbuf(4, 8), sbuf(4, 7)),
        "src",
    ),
    case(
        "search8.elements",
        lambda: nisa.max8(sbuf(4, 8), sbuf(4, 16384)),
        lambda: nisa.max8(sbuf(4, 8), sbuf(4, 16385)),
        "src",
    ),
    case("search8.elements", lambda: find(), lambda: find(vals=9), "vals"),
    case("search8.index", lambda: find(dst=nl.uint16), lambda: find(dst=nl.int32), "dst"),
    case("nc_stream_shuffle.mask", lambda: shuffle(KEEP), lambda: shuffle(KEEP[1:]), "shuffle_mask"),
    case("nc_stream_shuffle.mask", lambda: shuffle([31, *KEEP[1:]]), lambda: shuffle([32, *KEEP[1:]]), "shuffle_mask"),
    case(
        "nc_stream_shuffle.mask",
        lambda: shuffle([0] * 32, src=1),
        lambda: shuffle([0] * 31 + [1], src=1),
        "shuffle_mask",
    ),
    case(
        "nc_stream_shuffle.tiles",
        lambda: nisa.nc_stream_shuffle(sbuf(32, 4, dtype=nl.int8), sbuf(32, 4, dtype=nl.int8), KEEP),
        lambda: nisa.nc_stream_shuffle(sbuf(32, 4, dtype=nl.int8), sbuf(32, 4), KEEP),
        "src",
    ),
    case(
        "partition.start",
        lambda: nisa.nc_stream_shuffle(sbuf(64, 4), big(key=slice(64, 128)), KEEP),
        lambda: nisa.nc_stream_shuffle(sbuf(64, 4), big(key=slice(32, 64)), KEEP),
        "src",
        level="documented",
    ),
    case("affine_select.pattern", lambda: select(), lambda: select(pattern=((1, 5),)), "pattern"),
    case("affine_select.pattern", lambda: select(offset=2**31 - 1), lambda: select(offset=2**31), "offset"),
    case("affine_select.cmp_op", lambda: select(), lambda: select(op=nl.add), "cmp_op"),
    case(
        "nc_n_gather.tiles",
        lambda: nisa.nc_n_gather(sbuf(4, 2), sbuf(4, 8), sbuf(4, 2, dtype=nl.uint32)),
        lambda: nisa.nc_n_gather(sbuf(4, 2), sbuf(4, 8), sbuf(4, 2, dtype=nl.int32)),
        "indices",
    ),
    case(
        "nc_n_gather.tiles",
        lambda: nisa.nc_n_gather(sbuf(4, 2), sbuf(4, 8), sbuf(4, 2, dtype=nl.uint32)),
        lambda: nisa.nc_n_gather(sbuf(4, 2, dtype=nl.bfloat16), sbuf(4, 8), sbuf(4, 2, dtype=nl.uint32)),
        "data",
    ),
    case("local_gather.tiles", lambda: local(), lambda: local(partitions=17), "src_buffer"),
    case("local_gather.tiles", lambda: local(), lambda: local(index=nl.uint32), "index"),
    case(
        "local_gather.counts", lambda: local(elements=2, dst=32), lambda: local(elements=3, dst=48), "num_elem_per_idx"
    ),
    case("local_gather.counts", lambda: local(valid=1, dst=1), lambda: local(valid=17, dst=17), "num_valid_indices"),
    case("local_gather.counts", lambda: local(), lambda: local(dst=15), "dst"),
    case(
        "local_gather.counts",
        lambda: local(valid=4096, dst=4096, columns=257),
        lambda: local(valid=4097, dst=4097, columns=257),
        "num_valid_indices",
    ),
    case(
        "tensor_partition_reduce.op",
        lambda: nisa.tensor_partition_reduce(sbuf(1, 4), nl.average, sbuf(4, 4)),
        lambda: nisa.tensor_partition_reduce(sbuf(1, 4), nl.minimum, sbuf(4, 4)),
        "op",
    ),
    case(
        "tensor_partition_reduce.op",
        lambda: nisa.tensor_partition_reduce(sbuf(1, 4, dtype=nl.int8), nl.bitwise_or, sbuf(4, 4, dtype=nl.uint8)),
        lambda: nisa.tensor_partition_reduce(sbuf(1, 4, dtype=nl.int16), nl.bitwise_or, sbuf(4, 4, dtype=nl.uint8)),
        "op",
    ),
    case(
        "tensor_partition_reduce.shape",
        lambda: nisa.tensor_partition_reduce(sbuf(1, 4), nl.add, sbuf(4, 4)),
        lambda: nisa.tensor_partition_reduce(sbuf(2, 4), nl.add, sbuf(4, 4)),
        "dst",
    ),
    case("nonzero_with_count.tiles", lambda: nonzero(src=nl.int32), lambda: nonzero(src=nl.int16), "src"),
    case("nonzero_with_count.tiles", lambda: nonzero(), lambda: nonzero(free=8), "dst"),
    case(
        "nonzero_with_count.numbers",
        lambda: nonzero(padding_val=-(2**31)),
        lambda: nonzero(padding_val=-(2**31) - 1),
        "padding_val",
    ),
    case(
        "sequence_bounds.tiles",
        lambda: nisa.sequence_bounds(sbuf(1, 2, 4), sbuf(1, 4)),
        lambda: nisa.sequence_bounds(sbuf(2, 2, 4), sbuf(2, 4)),
        "segment_ids",
    ),
    case(
        "sequence_bounds.tiles",
        lambda: nisa.sequence_bounds(sbuf(1, 2, 4), sbuf(1, 4)),
        lambda: nisa.sequence_bounds(sbuf(1, 4), sbuf(1, 4)),
        "dst",
    ),
]
