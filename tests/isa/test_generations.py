"""What the generations of the core differ in: each difference on each target.

Rows follow isa.md ("v2", "v3", "v4") and hardware.md section 3; v2 is trn1 and inf2, v3 trn2, v4 trn3.
"""

import re
from dataclasses import dataclass
from typing import Any

import ml_dtypes
import numpy as np
import pytest
from rule_tiles import E4, E4N, E5, double, filled, hbm, mm, mx, psum, quantize, sbuf

import trn3
from emulated import execute, same
from trn3 import errors, nki
from trn3.nki import isa as nisa
from trn3.nki import language as nl

V2, V3, V4 = ("trn1", "inf2"), ("trn2",), ("trn3",)
TARGETS = (*V2, *V3, *V4)
X = np.ones((128, 16), np.float32)


@dataclass
class Difference:
    """``call`` runs on the targets that have it, and breaks ``rule`` on the others."""

    name: str
    call: Any
    has: tuple[str, ...]
    rule: str
    error: type = errors.UnsupportedError


def refused(name, call, has, rule):
    return Difference(name, call, has, rule, errors.RuleError)


def transpose(data, dst, **more):
    nisa.nc_transpose(psum(8, 8, dtype=dst), sbuf(8, 8, dtype=data), engine=nisa.engine.tensor, **more)


def marked(data, dst):
    nisa.nc_matmul(psum(8, 8, dtype=dst), sbuf(8, 8, dtype=data), identity(8, data), is_transpose=True)


def identity(n, dtype):
    return nl.shared_identity_matrix(n, dtype)


def scalar(op0, operand0=None, **more):
    nisa.tensor_scalar(sbuf(8, 8), sbuf(8, 8), op0, operand0, engine=nisa.engine.scalar, **more)


def activate(op=nl.exp, bias=None):
    nisa.activation(sbuf(8, 8), op, sbuf(8, 8), bias=bias)


def gather():
    rows = sbuf(4, 1, dtype=nl.int32)
    nisa.dma_copy(sbuf(4, 8), filled(16, 8).ap([[8, 4], [1, 8]], vector_offset=rows, indirect_dim=0))


def scatter():
    rows = sbuf(4, 1, dtype=nl.int32)
    nisa.dma_copy(filled(16, 8).ap([[8, 4], [1, 8]], vector_offset=rows, indirect_dim=0), sbuf(4, 8))


DIFFERENCES = [
    # TensorE
    refused("row tiles of 32", lambda: mm(k=32, tile_size=(32, 128), tile_position=(0, 0)), V3 + V4, "matmul.tile"),
    refused("column tiles of 32", lambda: mm(m=32, tile_size=(128, 32), tile_position=(0, 0)), V3 + V4, "matmul.tile"),
    refused("row tiles of 64", lambda: mm(k=64, tile_size=(64, 128), tile_position=(0, 0)), TARGETS, "matmul.tile"),
    refused("moving of 513", lambda: mm(n=513), V4, "matmul.moving.free_max"),
    refused("moving of 512", lambda: mm(n=512), TARGETS, "matmul.moving.free_max"),
    refused(
        "results over two banks",
        lambda: nisa.nc_matmul(psum(8, 1024)[:, 400:600], sbuf(8, 8), sbuf(8, 200)),
        V4,
        "matmul.dst.bank",
    ),
    refused("BF16 results", lambda: mm(d=nl.bfloat16), V4, "matmul.dst.dtype"),
    refused("E4M3FN operands", lambda: mm(s=E4N), V4, "matmul.dtype"),
    refused("E4M3 operands", lambda: mm(s=E4, t=E5), TARGETS, "matmul.dtype"),
    Difference(
        "double row",
        lambda: nisa.nc_matmul(psum(8, 8), sbuf(8, 2, 8, dtype=E5), sbuf(8, 2, 8, dtype=E4), perf_mode=double),
        V3 + V4,
        "matmul.double_row_generation",
    ),
    Difference("microscaled products", lambda: mx(), V4, "matmul_mx.generation"),
    refused("BF16 transposes into BF16", lambda: transpose(nl.bfloat16, nl.bfloat16), V3 + V4, "transpose.dtype"),
    refused("BF16 transposes into FP32", lambda: transpose(nl.bfloat16, nl.float32), V2, "transpose.dtype"),
    refused("FP32 transposes", lambda: transpose(nl.float32, nl.float32), TARGETS, "transpose.dtype"),
    refused("integer transposes on TensorE", lambda: transpose(nl.int32, nl.int32), V3 + V4, "transpose.dtype"),
    refused("transpose mode into BF16", lambda: marked(nl.bfloat16, nl.bfloat16), V3 + V4, "matmul.dst.dtype"),
    refused("a marked product into FP32", lambda: marked(nl.bfloat16, nl.float32), V2, "matmul.dst.dtype"),
    # ScalarE
    refused("a constant bias", lambda: activate(bias=0.5), V3 + V4, "activation.bias"),
    refused("a bias tile", lambda: activate(bias=sbuf(8, 1)), TARGETS, "activation.bias"),
    refused("reciprocal with a bias tile", lambda: activate(nl.reciprocal, sbuf(8, 1)), V3 + V4, "activation.bias"),
    refused("reciprocal without a bias", lambda: activate(nl.reciprocal), TARGETS, "activation.bias"),
    refused(
        "a constant bias of activation_reduce",
        lambda: nisa.activation_reduce(sbuf(8, 8), nl.exp, sbuf(8, 8), nl.add, sbuf(8, 1), bias=0.5),
        V3 + V4,
        "activation.bias",
    ),
    Difference(
        "copies on ScalarE",
        lambda: nisa.tensor_copy(sbuf(8, 8), sbuf(8, 8), engine=nisa.engine.scalar),
        V3 + V4,
        "tensor_copy.scalar_engine",
    ),
    Difference(
        "multiply, add on ScalarE",
        lambda: scalar(nl.multiply, 2.0, op1=nl.add, operand1=1.0),
        V3 + V4,
        "tensor_scalar.scalar_engine_generation",
    ),
    # VectorE
    Difference(
        "abs_max of two tiles",
        lambda: nisa.tensor_tensor(sbuf(8, 8), sbuf(8, 8), sbuf(8, 8), nl.abs_max),
        V4,
        "operand.operator_generation",
    ),
    Difference(
        "abs_min with a constant",
        lambda: nisa.tensor_scalar(sbuf(8, 8), sbuf(8, 8), nl.abs_min, 1.0),
        V4,
        "operand.operator_generation",
    ),
    Difference(
        "square as op0",
        lambda: nisa.tensor_scalar(sbuf(8, 8), sbuf(8, 8), nl.square, None),
        V4,
        "operand.operator_generation",
    ),
    Difference(
        "relu as op0",
        lambda: nisa.tensor_scalar(sbuf(8, 8), sbuf(8, 8), nl.relu, None, op1=nl.add, operand1=1.0),
        V4,
        "operand.operator_generation",
    ),
    Difference(
        "square as op0 of a reduction",
        lambda: nisa.tensor_scalar_reduce(sbuf(8, 8), sbuf(8, 8), nl.square, None, nl.add, sbuf(8, 1)),
        V4,
        "operand.operator_generation",
    ),
    Difference("quantisation", lambda: quantize(), V4, "quantize_mx.generation"),
    Difference(
        "the exponential on VectorE", lambda: nisa.exponential(sbuf(8, 8), sbuf(8, 8)), V4, "exponential.generation"
    ),
    Difference(
        "ranges",
        lambda: nisa.range_select(sbuf(8, 8), sbuf(8, 8), nl.less, nl.less, sbuf(8, 1), sbuf(8, 1)),
        V3 + V4,
        "range_select.generation",
    ),
    Difference(
        "selections with a reduction",
        lambda: nisa.select_reduce(sbuf(8, 8), sbuf(8, 8, dtype=nl.uint8), sbuf(8, 8), 0.0),
        V3 + V4,
        "select_reduce.generation",
    ),
    Difference(
        "relu as op0 of a running reduction",
        lambda: nisa.tensor_scalar_cumulative(sbuf(8, 8), sbuf(8, 8), nl.relu, nl.add, None),
        V4,
        "operand.operator_generation",
    ),
    # GpSimdE
    Difference(
        "positions that are not zero",
        lambda: nisa.nonzero_with_count(sbuf(16, 9, dtype=nl.int32), sbuf(16, 8)),
        V3 + V4,
        "nonzero_with_count.generation",
    ),
    # DMA
    Difference(
        "descriptors by hardware",
        lambda: nisa.dma_copy(sbuf(4, 6), hbm(4, 6), dge_mode=nisa.dge_mode.hwdge),
        V3 + V4,
        "dma.hwdge_generation",
    ),
    Difference("gathers", gather, V3 + V4, "dma.indirect_generation"),
    Difference("scatters", scatter, V3 + V4, "dma.indirect_generation"),
    Difference(
        "priorities",
        lambda: nisa.dma_copy(sbuf(4, 6), sbuf(4, 6), priority=1),
        V4,
        "dma.priority_generation",
    ),
    # Memories
    Difference(
        "192 KiB a partition",
        lambda: nisa.memset(nl.ndarray((128, 48 * 1024), nl.float32), 0.0),
        TARGETS,
        "capacity.sbuf",
        errors.CapacityError,
    ),
    Difference(
        "224 KiB a partition",
        lambda: nisa.memset(nl.ndarray((128, 56 * 1024), nl.float32), 0.0),
        V3 + V4,
        "capacity.sbuf",
        errors.CapacityError,
    ),
    Difference(
        "256 KiB a partition",
        lambda: nisa.memset(nl.ndarray((128, 64 * 1024), nl.float32), 0.0),
        V4,
        "capacity.sbuf",
        errors.CapacityError,
    ),
]


def recorded(statement, **options):
    def kernel(x):
        statement()
        return x

    return nki.record(nki.jit(**options)(kernel), X)


@pytest.mark.parametrize("target", TARGETS)
@pytest.mark.parametrize("difference", DIFFERENCES, ids=lambda difference: difference.name)
def test_a_difference(difference, target):
    if target in difference.has:
        recorded(difference.call, target=target)
        return
    with pytest.raises(errors.Trn3Error) as caught:
        recorded(difference.call, target=target)
    error = caught.value
    assert (type(error), error.rule) == (difference.error, difference.rule)
    assert target in str(error)
    if difference.error is errors.UnsupportedError:
        # The message names the first generation that has it.
        first = next(name for name in TARGETS if name in difference.has)
        number = 2 + (first == "trn2") + 2 * (first == "trn3")
        assert re.search(rf"from NeuronCore-v{number} \({first}\) on", str(error))


def test_a_subset_of_tensor_scalar_on_scalar_e():
    recorded(lambda: scalar(nl.subtract, 2.0), target="trn3")
    with pytest.raises(errors.RuleError, match=r"tensor_scalar\.scalar_engine\]"):
        recorded(lambda: scalar(nl.subtract, 2.0), target="trn2")


def barrier():
    nisa.core_barrier(nl.ndarray((8, 8), nl.float32, buffer=nl.shared_hbm), (0, 1))


def exchange(transport=nisa.dma_engine.dma):
    other = 1 - nl.program_id(0)
    nisa.sendrecv(sbuf(8, 8), sbuf(8, 8), other, other, 0, dma_engine=transport)


@pytest.mark.parametrize("statement", [barrier, exchange])
@pytest.mark.parametrize("target", TARGETS)
def test_cores_that_act_as_one(statement, target):
    def kernel(x):
        statement()
        return x

    made = nki.jit(target=target)(kernel)
    if target not in V2:
        nki.record(made[2], X)
        return
    with pytest.raises(errors.UnsupportedError, match=r"from NeuronCore-v3 \(trn2\) on") as caught:
        nki.record(made, X)
    assert caught.value.rule == "cores.generation"
    with pytest.raises(errors.RuleError, match=r"kernel\.cores"):
        nki.record(made[2], X)


def test_a_table_that_joins_cores_without_dma_in_gpsimd(tmp_path):
    path = tmp_path / "joined.toml"
    entry = 'unit = "{}"\nstatus = "assumed"\nsource = "a guess"\n'
    path.write_text(
        'extends = "trn1"\n[chip.logical_core_sizes]\nvalue = [1, 2]\n'
        + entry.format("count")
        + "[semaphore.remote_ns]\nvalue = 500\n"
        + entry.format("ns")
    )

    def kernel(x, transport):
        exchange(transport)
        return x

    made = nki.jit(target=str(path))(kernel)[2]
    program = nki.record(made, X, nisa.dma_engine.dma)
    assert trn3._native.Timeline(program, trn3.Chip(str(path)).table).total_ps > 0
    with pytest.raises(errors.UnsupportedError, match=r"from NeuronCore-v3 \(trn2\) on") as caught:
        nki.record(made, X, nisa.dma_engine.gpsimd_dma)
    assert caught.value.rule == "sendrecv.direct_generation"


@pytest.mark.parametrize("name", ["float8_e4m3fn", "float8_e8m0fnu", "float8_e5m2_x4", "float4_e2m1fn_x4"])
@pytest.mark.parametrize("target", TARGETS)
def test_data_types_of_later_generations(name, target):
    dtype = getattr(nl, name)
    program = recorded(lambda: sbuf(8, 8, dtype=dtype), target=target)
    expected = [] if target in V4 else ["tensor.dtype_generation"]
    assert [finding["rule"] for finding in program.findings] == expected
    if target in V4:
        recorded(lambda: sbuf(8, 8, dtype=dtype), target=target, checks="hardware")
        return
    recorded(lambda: sbuf(8, 8, dtype=dtype), target=target, checks="documented")
    with pytest.raises(errors.UnsupportedError, match=r"from NeuronCore-v4 \(trn3\) on") as caught:
        recorded(lambda: sbuf(8, 8, dtype=dtype), target=target, checks="hardware")
    assert caught.value.rule == "tensor.dtype_generation"


# Transposes by multiplication (v2) ------------------------------------------------------------------------------------


def product_with_identity(data):
    """FP32 sums of products with the identity, PE row 0 first, from +0."""
    rows, columns = data.shape
    values, ones = data.astype(np.float32), np.eye(rows, dtype=np.float32)
    total = np.zeros((columns, rows), np.float32)
    with np.errstate(all="ignore"):
        for row in range(rows):
            total += values[row][:, None] * ones[row][None, :]
    return total


SPECIAL = [np.nan, np.inf, -np.inf, -0.0, 0.0, 1e-40, 3e38, -1.5]


def special(shape, dtype, seed=0):
    rng = np.random.default_rng(seed)
    values = rng.standard_normal(shape).astype(np.float32)
    flat = values.reshape(-1)
    at = rng.choice(flat.size, 2 * len(SPECIAL), replace=False)
    flat[at] = SPECIAL * 2
    with np.errstate(all="ignore"):
        return values.astype(dtype)


@pytest.mark.parametrize("dtype", [np.float32, ml_dtypes.bfloat16, np.float16, ml_dtypes.float8_e5m2])
@pytest.mark.parametrize("shape", [(128, 128), (32, 100), (5, 7)])
@pytest.mark.parametrize("target", V2)
def test_nan_and_infinity_spread_on_v2(dtype, shape, target):
    data = special(shape, dtype)
    blank = np.zeros(shape[::-1], np.float32)

    def body(dst, source):
        nisa.nc_transpose(dst, source, engine=nisa.engine.tensor)

    want = product_with_identity(data)
    assert np.isnan(want).any(axis=1).sum() > 1, "the case has rows that are lost"
    same(execute(body, blank, data, spaces="ps", target=target)[0], want)

    def marked_body(dst, source):
        nisa.nc_matmul(dst, source, identity(shape[0], operand), is_transpose=True, accumulate=False)

    operand = nl.float32 if dtype is np.float32 else nl.bfloat16
    same(execute(marked_body, blank, data, spaces="ps", target=target)[0], want)


@pytest.mark.parametrize("target", TARGETS)
def test_finite_values_transpose_alike_everywhere(target):
    data = np.random.default_rng(3).standard_normal((96, 40)).astype(ml_dtypes.bfloat16)

    def kernel(x):
        out = nl.ndarray((40, 96), x.dtype, buffer=nl.shared_hbm)
        nl.store(out, nl.transpose(nl.load(x)))
        return out

    np.testing.assert_array_equal(nki.simulate(kernel, target=target)(data), data.T)


@pytest.mark.parametrize("target", TARGETS)
def test_a_product_of_tiles_that_need_a_transpose(target):
    rng = np.random.default_rng(4)
    x, y = (rng.integers(-8, 8, shape).astype(ml_dtypes.bfloat16) for shape in ((64, 48), (48, 80)))

    def kernel(x, y):
        out = nl.ndarray((64, 80), nl.float32, buffer=nl.shared_hbm)
        nl.store(out, nl.matmul(nl.load(x), nl.load(y)))
        return out

    want = x.astype(np.float32) @ y.astype(np.float32)
    np.testing.assert_array_equal(nki.simulate(kernel, target=target)(x, y), want)


def test_a_marked_product_accumulates_on_v2():
    data = np.random.default_rng(5).standard_normal((16, 16)).astype(np.float32)
    blank = np.zeros((16, 16), np.float32)

    def body(dst, source):
        eye = identity(16, nl.float32)
        nisa.nc_matmul(dst, source, eye, is_transpose=True, accumulate=False)
        nisa.nc_matmul(dst, source, eye, is_transpose=True, accumulate=True)

    same(execute(body, blank, data, spaces="ps", target="trn1")[0], data.T + data.T)


# Costs ----------------------------------------------------------------------------------------------------------------


def span_cycles(call, target, name, clock):
    """Cycles from issue to end of the last instruction of that name."""
    program = recorded(call, target=target)
    table = trn3.Chip(target).table
    line = trn3._native.Timeline(program, table)
    issue, end, _ = line.instruction([at for at, opcode in enumerate(program.opcodes()) if opcode == name][-1])
    return (end - issue) * float(table.entry(clock)["value"]) / 1e12


def stream(call, target, name, latency):
    """Cycles of the stream alone, on VectorE."""
    table = trn3.Chip(target).table
    cycles = span_cycles(call, target, name, "vector.clock_hz")
    return round(cycles - int(table.entry(f"vector.{latency}.latency_cycles")["value"]))


N = 512
BF16, FP16, FP32, U8 = nl.bfloat16, nl.float16, nl.float32, nl.uint8


def copy_of(dtype, step=1, source=sbuf):
    wide = (128, N * step)
    nisa.tensor_copy(sbuf(*wide, dtype=dtype)[:, ::step], source(*wide, dtype=dtype)[:, ::step])


def pair(op, dtype, source=sbuf):
    nisa.tensor_tensor(sbuf(128, N, dtype=dtype), source(128, N, dtype=dtype), sbuf(128, N, dtype=dtype), op)


def triple(op0, op1, dtype, source=sbuf, n=N):
    tiles = sbuf(128, n, dtype=dtype), source(128, n, dtype=dtype), sbuf(128, n, dtype=dtype)
    nisa.scalar_tensor_tensor(tiles[0], tiles[1], op0, 2.0, op1, tiles[2])


def filled_with(value, dtype):
    nisa.memset(nl.ndarray((128, N), dtype), value)


@pytest.mark.parametrize(
    ("call", "name", "latency", "cycles"),
    [
        # Cycles on v2, v3 and v4 (timing.md section 6.1).
        (lambda: copy_of(FP32), "tensor_copy", "copy", (N, N / 2, N / 2)),
        (lambda: copy_of(BF16), "tensor_copy", "copy", (N, N / 4, N / 4)),
        (lambda: copy_of(FP16, 2), "tensor_copy", "copy", (N, N / 2, N / 2)),
        (lambda: copy_of(U8), "tensor_copy", "copy", (N, N, N / 4)),
        (lambda: copy_of(BF16, source=psum), "tensor_copy", "copy", (N, N / 2, N / 2)),
        (lambda: copy_of(FP32, 8), "tensor_copy", "copy", (2 * N, 2 * N, 2 * N)),
        (lambda: pair(nl.add, FP32), "tensor_tensor", "tensor_tensor", (2 * N, 2 * N, 2 * N)),
        (lambda: pair(nl.add, FP32, psum), "tensor_tensor", "tensor_tensor", (N, N, N)),
        (lambda: pair(nl.add, BF16), "tensor_tensor", "tensor_tensor", (N, N, N)),
        (lambda: pair(nl.multiply, BF16), "tensor_tensor", "tensor_tensor", (N, N, N)),
        (lambda: pair(nl.maximum, BF16), "tensor_tensor", "tensor_tensor", (2 * N, N, N)),
        (lambda: pair(nl.add, FP16), "tensor_tensor", "tensor_tensor", (2 * N, N, N)),
        (lambda: triple(nl.subtract, nl.multiply, BF16), "scalar_tensor_tensor", "tensor_tensor", (N, N, N)),
        (
            lambda: triple(nl.subtract, nl.multiply, BF16, n=255),
            "scalar_tensor_tensor",
            "tensor_tensor",
            (510, 255, 255),
        ),
        (lambda: triple(nl.add, nl.multiply, BF16), "scalar_tensor_tensor", "tensor_tensor", (2 * N, N, N)),
        (lambda: triple(nl.add, nl.multiply, FP32, psum), "scalar_tensor_tensor", "tensor_tensor", (2 * N, N, N)),
        (lambda: filled_with(1.0, FP32), "memset", "copy", (N, N / 2, N / 2)),
        (lambda: filled_with(0.0, FP32), "memset", "copy", (N, N / 2, N / 2)),
        (lambda: filled_with(1.0, BF16), "memset", "copy", (N, N / 4, N / 4)),
        (lambda: filled_with(0.0, BF16), "memset", "copy", (N / 2, N / 4, N / 4)),
        (lambda: filled_with(0, U8), "memset", "copy", (N, N / 4, N / 4)),
    ],
)
@pytest.mark.parametrize("target", TARGETS)
def test_streams_of_vector_e(call, name, latency, cycles, target):
    at = (V2, V3, V4).index(next(group for group in (V2, V3, V4) if target in group))
    assert stream(call, target, name, latency) == cycles[at]


@pytest.mark.parametrize(("dtype", "cycles"), [(nl.bfloat16, 408), (nl.float32, 408 + 64)])
def test_transposes_of_v2_cost_a_product(dtype, cycles):
    """8 columns after 400 cycles of latency; FP32 is two halves of one pass, the second 64 cycles later."""
    found = span_cycles(lambda: transpose(dtype, nl.float32), "trn1", "nc_transpose", "tensor.clock_hz")
    assert found == pytest.approx(cycles, abs=1)


def test_published_spans_of_trainium1():
    """Figures of nki_perf_guide.rst, in ns: they fix the constants of the table."""

    def product():
        nisa.nc_matmul(psum(128, 128), sbuf(128, 1, dtype=BF16).broadcast(1, 128), sbuf(128, 128, dtype=BF16))

    product_ns = span_cycles(product, "trn1", "nc_matmul", "tensor.clock_hz") / 2.8
    assert product_ns == pytest.approx(188, abs=1)
    one = span_cycles(
        lambda: nisa.activation(sbuf(128, 1), nl.exp, sbuf(128, 1)), "trn1", "activation", "scalar.clock_hz"
    )
    assert one / 1.4 == pytest.approx(159, abs=1)
    pair_ns = (
        span_cycles(
            lambda: nisa.tensor_tensor(sbuf(128, 8192), sbuf(128, 8192), sbuf(128, 8192), nl.add),
            "trn1",
            "tensor_tensor",
            "vector.clock_hz",
        )
        / 1.12
    )
    assert pair_ns == pytest.approx(14_987, abs=2)


def test_transfers_of_v2_have_static_descriptors():
    def kernel(x):
        tile = nl.load(x)
        cast = nl.ndarray(x.shape, nl.bfloat16)
        nisa.dma_copy(cast, x)
        nisa.dma_copy(tile, x, dge_mode=nisa.dge_mode.swdge)
        return x

    program = nki.record(nki.jit(target="trn1")(kernel), np.ones((128, 512), np.float32))
    line = trn3._native.Timeline(program, trn3.Chip("trn1").table)
    engines = {name: count for name, count, *_ in line.engines}
    assert (engines["sync"], engines["gpsimd"]) == (2, 1)
    # Static descriptors keep nobody: the second trigger follows at once.
    assert line.instruction(0)[0] == line.instruction(1)[0] == 0


@pytest.mark.parametrize(("target", "weight"), [("trn1", 1.0), ("inf2", 1.0), ("trn2", 0.5), ("trn3", 0.5)])
def test_fp8_counts_for_what_the_profiler_says(target, weight):
    program = recorded(lambda: mm(s=E5, t=E4), target=target)
    line = trn3._native.Timeline(program, trn3.Chip(target).table)
    assert line.flops == 2 * 8 * 8 * 8
    assert line.flops_bf16 == line.flops * weight
