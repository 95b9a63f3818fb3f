"""tensor_tensor, tensor_scalar, tensor_copy and tensor_reduce on strided, permuted, overlapping and broadcast views."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from views import KEYS, bases, rows, views

from emulated import FLOATS, INTEGERS, cast, execute, fp32, numpy_dtype, random_array, same
from trn3.nki import isa as nisa
from trn3.nki import language as nl

NAN = np.float32(np.nan)


def maximum(x, y):
    return np.where(np.isnan(x) | np.isnan(y), NAN, np.where(x > y, x, y))


def minimum(x, y):
    return np.where(np.isnan(x) | np.isnan(y), NAN, np.where(x < y, x, y))


ARITHMETIC = {
    "add": lambda x, y: x + y,
    "subtract": lambda x, y: x - y,
    "multiply": lambda x, y: x * y,
    "maximum": maximum,
    "minimum": minimum,
    "equal": lambda x, y: fp32(x == y),
    "not_equal": lambda x, y: fp32(x != y),
    "greater_equal": lambda x, y: fp32(x >= y),
    "greater": lambda x, y: fp32(x > y),
    "less_equal": lambda x, y: fp32(x <= y),
    "less": lambda x, y: fp32(x < y),
    "logical_and": lambda x, y: fp32((x != 0) & (y != 0)),
    "logical_or": lambda x, y: fp32((x != 0) | (y != 0)),
    "logical_xor": lambda x, y: fp32((x != 0) ^ (y != 0)),
    "abs_max": lambda x, y: np.where((np.abs(x) > np.abs(y)) | np.isnan(x), x, y),
    "abs_min": lambda x, y: np.where((np.abs(x) < np.abs(y)) | np.isnan(x), x, y),
}
UNARY = {
    "abs": np.abs,
    "square": lambda x: x * x,
    "relu": lambda x: np.where(np.isnan(x), NAN, np.where(x > 0, x, np.float32(0))),
    "reciprocal": lambda x: np.float32(1) / x,
}
BITS = {
    "bitwise_and": lambda x, y, n: x & y,
    "bitwise_or": lambda x, y, n: x | y,
    "bitwise_xor": lambda x, y, n: x ^ y,
    "left_shift": lambda x, y, n: np.where(y >= n, 0, x << np.minimum(y, n - 1)),
    "right_shift": lambda x, y, n: np.where(y >= n, 0, x >> np.minimum(y, n - 1)),
}
DTYPES = [*FLOATS, *INTEGERS, "bool_"]


# Slices of the free dimensions of a base of shape (P, 6, 10): the key of the view on it, of free shape (3, 5).
def compute(function, *values):
    with np.errstate(all="ignore"):
        return fp32(function(*values))


@given(st.data())
def test_tensor_tensor_arithmetic_is_fp32_and_one_cast(data):
    name = data.draw(st.sampled_from(sorted(ARITHMETIC)))
    types = [data.draw(st.sampled_from(DTYPES)) for _ in range(3)]
    spaces = data.draw(st.sampled_from(["sss", "pss", "ssp", "sps", "psp"]))
    dst_key = data.draw(st.sampled_from(KEYS))
    view1, view2 = data.draw(views()), data.draw(views())
    d, x, y = bases(data, data.draw(st.sampled_from([1, 3, 32, 128])), types)

    def body(dst, data1, data2):
        nisa.tensor_tensor(dst[dst_key], view1(data1), view2(data2), getattr(nl, name), engine=nisa.engine.vector)

    got = execute(body, d, x, y, spaces=spaces)
    want = d.copy()
    result = compute(ARITHMETIC[name], rows(view1(x)), rows(view2(y)))
    want[dst_key] = cast(result.reshape(want[dst_key].shape), types[0])
    same(got[0], want)
    same(got[1], x)
    same(got[2], y)


@given(st.data())
def test_operands_are_read_in_full_before_anything_is_written(data):
    """Destination and both sources are windows on one tile, overlapping at will."""
    name = data.draw(st.sampled_from(["add", "subtract", "maximum"]))
    dtype = data.draw(st.sampled_from(["float32", "bfloat16", "int16"]))
    free = data.draw(st.sampled_from([40, 5000]))
    count = data.draw(st.integers(1, free // 2))
    starts = [data.draw(st.integers(0, free - count)) for _ in range(3)]
    rng = np.random.default_rng(data.draw(st.integers(0, 2**32 - 1)))
    base = random_array(rng, (2, free), dtype, special=False)
    backwards = data.draw(st.booleans())

    def window(tile, at, reverse=False):
        if not reverse:
            return tile[:, at : at + count]
        if isinstance(tile, np.ndarray):
            return tile[:, at : at + count][:, ::-1]
        return tile.ap([[free, 2], [-1, count]], offset=at + count - 1)

    def body(tile):
        nisa.tensor_tensor(
            window(tile, starts[0]), window(tile, starts[1], backwards), window(tile, starts[2]), getattr(nl, name)
        )

    (got,) = execute(body, base)
    want = base.copy()
    result = compute(ARITHMETIC[name], fp32(window(base, starts[1], backwards)), fp32(window(base, starts[2])))
    want[:, starts[0] : starts[0] + count] = cast(result, dtype)
    same(got, want)


@pytest.mark.parametrize("name", sorted(BITS))
@pytest.mark.parametrize("dtype", INTEGERS)
def test_bit_operators_work_on_bit_patterns(name, dtype):
    rng = np.random.default_rng(7)
    n = 8 * numpy_dtype(dtype).itemsize
    unsigned = np.dtype(f"u{n // 8}")
    d, x = (random_array(rng, (5, 6, 10), dtype) for _ in range(2))
    y = random_array(rng, (5, 6, 10), dtype)
    if "shift" in name:
        y = rng.integers(0, n + 4, (5, 6, 10)).astype(dtype)

    def body(dst, data1, data2):
        nisa.tensor_tensor(
            dst[:, 1::2, ::2], data1[:, 0:3, 5:], data2[:, 3:, 1::2], getattr(nl, name), engine=nisa.engine.vector
        )
        nisa.tensor_tensor(data1[:, 0:3, 5:], data1[:, 0:3, 5:], data2[:, 3:, 1::2], getattr(nl, name))

    got = execute(body, d, x, y)
    bits = BITS[name](
        x[:, 0:3, 5:].view(unsigned).astype(np.uint64), y[:, 3:, 1::2].copy().view(unsigned).astype(np.uint64), n
    )
    result = (bits & (2**n - 1)).astype(unsigned).view(dtype)
    want = d.copy()
    want[:, 1::2, ::2] = result
    same(got[0], want)
    want = x.copy()
    want[:, 0:3, 5:] = result
    same(got[1], want)


@pytest.mark.parametrize("name", ["bitwise_and", "bitwise_or", "bitwise_xor", "left_shift", "invert"])
def test_bit_operators_on_truth_values_give_truth_values(name):
    x = np.array([[False, True, False, True]])
    y = np.array([[False, False, True, True]])

    def body(dst, data1, data2):
        if name == "invert":
            nisa.tensor_scalar(dst, data1, nl.invert, None)
        else:
            nisa.tensor_tensor(dst, data1, data2, getattr(nl, name))

    got = execute(body, np.zeros((1, 4), bool), x, y)[0]
    want = ~x if name == "invert" else BITS[name](x.astype(int), y.astype(int), 1) & 1
    np.testing.assert_array_equal(got.view(np.uint8), np.asarray(want, np.uint8))


@pytest.mark.parametrize(
    "types", [("int32",) * 3, ("uint32",) * 3, ("int32", "uint32", "int32"), ("uint32", "int32", "int32")]
)
@pytest.mark.parametrize("name", ["add", "subtract", "multiply"])
def test_gpsimd_integers_wrap(types, name):
    rng = np.random.default_rng(3)
    d, x, y = (random_array(rng, (128, 70), dtype) for dtype in types)
    x[0, :3], y[0, :3] = np.iinfo(x.dtype).max, 1

    def body(dst, data1, data2):
        nisa.tensor_tensor(dst, data1, data2, getattr(nl, name))
        nisa.tensor_tensor(data1, data1, data2, getattr(nl, name), engine=nisa.engine.gpsimd)

    got = execute(body, d, x, y)
    with np.errstate(over="ignore"):
        result = ARITHMETIC[name](x.view(np.uint32), y.view(np.uint32))
    same(got[0], result.view(types[0]))
    same(got[1], result.view(types[1]))


def test_gpsimd_compares_integers_through_fp32_and_vector_adds_them_so():
    x = np.array([[2**24 + 1, 2**31 - 1, -5]], np.int32)
    y = np.array([[2**24, 2**31 - 2, -5]], np.int32)

    def body(a, b, c):
        nisa.tensor_tensor(a, b, c, nl.equal)
        nisa.tensor_tensor(b, b, c, nl.add, engine=nisa.engine.vector)

    equal, total, _ = execute(body, np.zeros_like(x), x, y)
    np.testing.assert_array_equal(equal, [[1, 1, 1]])
    np.testing.assert_array_equal(total, [[2**25, 2**31 - 1, -10]])


@given(st.data())
def test_tensor_scalar_arithmetic(data):
    op0 = data.draw(st.sampled_from([*sorted(ARITHMETIC), *sorted(UNARY)]))
    op1 = data.draw(st.sampled_from([None, *sorted(ARITHMETIC), *sorted(UNARY)]))
    reverse = [data.draw(st.booleans()), data.draw(st.booleans())]
    types = [data.draw(st.sampled_from(DTYPES)) for _ in range(4)]
    partitions = data.draw(st.sampled_from([1, 20, 128]))
    spaces = data.draw(st.sampled_from(["ssss", "psps", "spsp"]))
    key, view = data.draw(st.sampled_from(KEYS)), data.draw(views())
    d, x, v0, v1 = bases(data, partitions, types)
    operands = [data.draw(st.sampled_from([None, 1.5, -3, 0.1, float("inf"), True])) for _ in range(2)]

    def step(t, op, operand, swap):
        if op in UNARY:
            return compute(UNARY[op], t)
        # Constants are float32 where the instruction keeps them.
        operand = np.float32(operand) if not isinstance(operand, np.ndarray) else operand
        return compute(ARITHMETIC[op], *((operand, t) if swap else (t, operand)))

    def body(dst, source, vector0, vector1):
        given0 = operands[0] if operands[0] is not None else vector0[:, 2:3, 7]
        given1 = operands[1] if operands[1] is not None else vector1[:, 5, 0:1]
        nisa.tensor_scalar(
            dst[key],
            view(source),
            getattr(nl, op0),
            None if op0 in UNARY else given0,
            reverse[0],
            op1 and getattr(nl, op1),
            None if op1 is None or op1 in UNARY else given1,
            reverse[1],
        )

    got = execute(body, d, x, v0, v1, spaces=spaces)
    values = [operands[0], operands[1]]
    values[0] = fp32(v0[:, 2, 7]).reshape(-1, 1) if values[0] is None else values[0]
    values[1] = fp32(v1[:, 5, 0]).reshape(-1, 1) if values[1] is None else values[1]
    result = step(rows(view(x)), op0, values[0], reverse[0])
    if op1 is not None:
        result = step(result, op1, values[1], reverse[1])
    want = d.copy()
    want[key] = cast(result.reshape(want[key].shape), types[0])
    same(got[0], want)


@pytest.mark.parametrize("dtype", INTEGERS)
def test_tensor_scalar_bits(dtype):
    rng = np.random.default_rng(11)
    n = 8 * numpy_dtype(dtype).itemsize
    unsigned = np.dtype(f"u{n // 8}")
    d, x, v = (random_array(rng, (9, 6, 10), dtype) for _ in range(3))

    def body(dst, data, vector):
        nisa.tensor_scalar(
            dst[:, ::2, 5:], data[:, 3:, ::2], nl.bitwise_xor, vector[:, 0, 0:1], False, nl.right_shift, 3
        )
        nisa.tensor_scalar(dst[:, 1::2, 5:], data[:, 3:, ::2], nl.left_shift, 1, True, nl.invert, None)
        nisa.tensor_scalar(dst[:, 1, 0:5], data[:, 0, 0:5], nl.bitwise_and, -2)

    got = execute(body, d, x, v)[0].view(unsigned).astype(np.uint64)
    want, mask = d.view(unsigned).astype(np.uint64), np.uint64(2**n - 1)
    xu, vu = x.view(unsigned).astype(np.uint64), v.view(unsigned).astype(np.uint64)
    want[:, ::2, 5:] = (xu[:, 3:, ::2] ^ vu[:, 0, 0].reshape(-1, 1, 1)) >> np.uint64(3)
    want[:, 1::2, 5:] = ~BITS["left_shift"](np.uint64(1), xu[:, 3:, ::2], np.uint64(n)).astype(np.uint64) & mask
    want[:, 1, 0:5] = xu[:, 0, 0:5] & (mask - np.uint64(1))
    np.testing.assert_array_equal(got, want)


def test_arithmetic_nan_is_canonical():
    payloads = np.array([[0x7FC12345, 0xFFC00000, 0x7F800001, 0xFFFFFFFF]], np.uint32).view(np.float32)

    def body(a, b):
        nisa.tensor_tensor(a, b, b, nl.add)
        nisa.tensor_scalar(b, b, nl.multiply, 1.0)

    for got in execute(body, np.zeros_like(payloads), payloads):
        np.testing.assert_array_equal(got.view(np.uint32), 0x7FC00000)


def test_power_and_rsqrt_run_on_gpsimd():
    rng = np.random.default_rng(5)
    x, y = np.exp(rng.standard_normal((4, 50))).astype(np.float32), rng.standard_normal((4, 50)).astype(np.float32)

    def body(a, b, c):
        nisa.tensor_tensor(a, b, c, nl.power)
        nisa.tensor_scalar(c, b, nl.rsqrt, None)

    power, _, rsqrt = execute(body, np.zeros_like(x), x, y)
    np.testing.assert_allclose(power, np.power(x.astype(np.float64), y), rtol=4 * 2.0**-23)
    np.testing.assert_allclose(rsqrt, x.astype(np.float64) ** -0.5, rtol=4 * 2.0**-23)


@given(st.data())
def test_tensor_copy(data):
    to, source = data.draw(st.sampled_from([*DTYPES, "tfloat32", "float8_e8m0fnu"])), data.draw(st.sampled_from(DTYPES))
    engine = data.draw(st.sampled_from(["vector", "scalar", "gpsimd", "unknown"]))
    spaces = "ss" if engine == "gpsimd" else data.draw(st.sampled_from(["ss", "ps", "sp", "pp"]))
    key, view = data.draw(st.sampled_from(KEYS)), data.draw(views())
    rng = np.random.default_rng(data.draw(st.integers(0, 2**32 - 1)))
    x = random_array(rng, (33, 6, 10), source)
    d = np.zeros((33, 6, 10), nl.tfloat32) if to == "tfloat32" else cast(np.ones((33, 6, 10)), to)

    def body(dst, tile):
        nisa.tensor_copy(dst[key], view(tile), engine=getattr(nisa.engine, engine))

    got = execute(body, d, x, spaces=spaces)[0]
    values = view(x).reshape(d[key].shape)
    if to == source:
        bits = f"u{d.itemsize}"
        want = d.copy()
        want[key] = values
        np.testing.assert_array_equal(got.view(bits), want.view(bits))
    elif to == "tfloat32":
        u = fp32(values).view(np.uint32).astype(np.uint64)
        rounded = ((u + 0xFFF + (u >> np.uint64(13) & np.uint64(1))) & np.uint64(0xFFFFE000)).astype(np.uint32)
        nan = np.isnan(fp32(values))
        np.testing.assert_array_equal(np.where(nan, 0, got.view(np.uint32)[key]), np.where(nan, 0, rounded))
        assert np.isnan(got.view(np.float32)[key][nan]).all()
    else:
        want = d.copy()
        want[key] = cast(fp32(values), to)
        same(got, want)


def test_tensor_copy_onto_itself_moves_like_a_copy_of_the_source():
    x = np.arange(4 * 6000, dtype=np.float32).reshape(4, 6000)
    for dtype in (np.float32, np.int16):
        base = x.astype(dtype)
        (got,) = execute(lambda t: nisa.tensor_copy(t[:, 1:6000], t[:, 0:5999]), base)
        want = base.copy()
        want[:, 1:] = base[:, :-1]
        np.testing.assert_array_equal(got, want)


def test_packed_words_and_nan_payloads_are_copied_bit_by_bit():
    words = np.random.default_rng(1).integers(0, 2**32, (8, 12), np.uint32)
    for dtype in (nl.float8_e4m3fn_x4, nl.float8_e5m2_x4, np.float32, nl.tfloat32):
        got = execute(lambda d, s: nisa.tensor_copy(d, s), np.zeros((8, 12), dtype), words.view(dtype), spaces="ps")[0]
        np.testing.assert_array_equal(got.view(np.uint32), words)


REDUCTIONS = ["add", "subtract", "multiply", "maximum", "minimum", "logical_and", "logical_or", "logical_xor"]


def sequential(function, values):
    out = fp32(values[..., 0])
    for at in range(1, values.shape[-1]):
        out = compute(function, out, fp32(values[..., at]))
    return out


@given(st.data())
def test_tensor_reduce_is_sequential_fp32(data):
    name = data.draw(st.sampled_from(REDUCTIONS))
    to, source = data.draw(st.sampled_from(DTYPES)), data.draw(st.sampled_from(DTYPES))
    partitions = data.draw(st.sampled_from([1, 16, 17, 128]))
    axes = data.draw(st.sampled_from([(2,), (1, 2), (-1,), (-2, -1), 2, -1, [2, 1]]))
    negate, keepdims = data.draw(st.booleans()), data.draw(st.booleans())
    rng = np.random.default_rng(data.draw(st.integers(0, 2**32 - 1)))
    x = random_array(rng, (partitions, 6, 10), source)
    key = data.draw(st.sampled_from(KEYS))
    view = lambda t: t[key]  # noqa: E731
    whole = {a % 3 for a in ([axes] if isinstance(axes, int) else axes)} == {1, 2}
    d = random_array(rng, (partitions, 1 if whole else 3), to)

    def body(dst, tile):
        nisa.tensor_reduce(dst, getattr(nl, name), view(tile), axes, negate=negate, keepdims=keepdims)

    got = execute(body, d, x, spaces=data.draw(st.sampled_from(["ss", "sp", "ps"])))[0]
    values = fp32(view(x))
    values = values.reshape(partitions, 1, 15) if whole else values
    result = sequential(ARITHMETIC[name], values)
    if negate:
        result = compute(lambda v: v * np.float32(-1), result)
    same(got, cast(result.reshape(d.shape), to))


@pytest.mark.parametrize("length", [1, 2, 15, 16, 17, 4096])
def test_sums_keep_the_order_of_long_rows(length):
    rng = np.random.default_rng(length)
    x = (rng.standard_normal((37, length)) * np.exp2(rng.integers(0, 20, (37, length)))).astype(np.float32)
    got = execute(lambda d, t: nisa.tensor_reduce(d, nl.add, t, 1), np.zeros((37, 1), np.float32), x)[0]
    same(got, sequential(lambda a, b: a + b, x).reshape(-1, 1))


@pytest.mark.parametrize("name", ["bitwise_and", "bitwise_or", "bitwise_xor"])
@pytest.mark.parametrize("dtype", INTEGERS)
def test_bit_reductions(name, dtype):
    x = random_array(np.random.default_rng(9), (4, 6, 10), dtype)
    got = execute(lambda d, t: nisa.tensor_reduce(d, getattr(nl, name), t, 2), np.zeros((4, 6), dtype), x)[0]
    np.testing.assert_array_equal(got, getattr(np, name).reduce(x, axis=2))


def test_reducing_onto_the_operand():
    x = np.arange(32, dtype=np.float32).reshape(4, 8)
    (got,) = execute(lambda t: nisa.tensor_reduce(t[:, 3:4], nl.add, t, 1), x)
    want = x.copy()
    want[:, 3] = x.sum(1)
    np.testing.assert_array_equal(got, want)
