"""Scalar formats against ml_dtypes and NumPy, bit for bit."""

import ml_dtypes
import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from trn3 import dtypes
from trn3.errors import RuleError

pytestmark = pytest.mark.filterwarnings("ignore:(overflow|invalid|underflow):RuntimeWarning")

SIGNED_BYTES = [
    dtypes.float8_e5m2,
    dtypes.float8_e4m3,
    dtypes.float8_e4m3fn,
    dtypes.float8_e3m4,
    dtypes.float6_e2m3fn,
    dtypes.float6_e3m2fn,
    dtypes.float4_e2m1fn,
]
BYTES = [*SIGNED_BYTES, dtypes.float8_e8m0fnu]
HALVES = [dtypes.bfloat16, dtypes.float16]
WIDTH = {dtypes.float6_e2m3fn: 6, dtypes.float6_e3m2fn: 6, dtypes.float4_e2m1fn: 4}


def bits(array):
    return array.view(f"u{array.dtype.itemsize}")


def every_code(dtype):
    width = WIDTH.get(dtype, 8 * dtype.itemsize)
    return np.arange(1 << width).astype(f"u{dtype.itemsize}").view(dtype)


def ours(array, dtype, **options):
    return bits(dtypes.cast(array, dtype, **options))


def theirs(array, dtype):
    return bits(array.astype(dtype))


def assert_same(got, want, source):
    wrong = np.flatnonzero(got != want)
    assert wrong.size == 0, (
        f"{wrong.size} differ, first {source[wrong[0]]!r}: {got[wrong[0]]:#x}, not {want[wrong[0]]:#x}"
    )


def hard_float32():
    """Every exponent and sign with mantissas around the halves of every format, and 2**20 random patterns."""
    heads = np.arange(512, dtype=np.uint32)[:, None] << np.uint32(23)
    bit = np.uint32(1) << np.arange(23, dtype=np.uint32)
    tails = np.unique(
        np.concatenate([bit, bit - 1, bit + 1, bit * 3, ~bit, [0]]).astype(np.uint32) & np.uint32(0x7FFFFF)
    )
    random = np.random.default_rng(0).integers(0, 1 << 32, 1 << 20, dtype=np.uint32)
    return np.concatenate([(heads | tails).reshape(-1), random]).view(np.float32)


@pytest.mark.parametrize("dtype", BYTES + HALVES, ids=str)
def test_every_code_decodes(dtype):
    codes = every_code(dtype)
    assert_same(ours(codes, np.float32), theirs(codes, np.float32), codes)


@pytest.mark.parametrize("dtype", BYTES + [dtypes.bfloat16], ids=str)
def test_float32_encodes(dtype):
    values = hard_float32()
    assert_same(ours(values, dtype), theirs(values, dtype), values)


def test_float32_encodes_to_float16():
    values = hard_float32()
    number = ~np.isnan(values)
    assert_same(ours(values[number], np.float16), theirs(values[number], np.float16), values[number])
    # NumPy copies the payload of a NaN; ours is the canonical one.
    assert set(ours(values[~number], np.float16)) == {0x7E00, 0xFE00}


@pytest.mark.parametrize("source", HALVES, ids=str)
@pytest.mark.parametrize("dtype", BYTES, ids=str)
def test_every_half_encodes_to_bytes(source, dtype):
    values = every_code(source)
    assert_same(ours(values, dtype), theirs(values, dtype), values)
    wide = values.astype(np.float32)
    assert_same(ours(wide, dtype), theirs(wide, dtype), wide)


def test_halves_convert_into_each_other():
    values = every_code(dtypes.float16)
    assert_same(ours(values, dtypes.bfloat16), theirs(values, dtypes.bfloat16), values)
    values = every_code(dtypes.bfloat16)
    assert_same(ours(values, np.float16), theirs(values, np.float16), values)


@pytest.mark.parametrize("dtype", SIGNED_BYTES, ids=str)
def test_neighbours_of_every_number_round_to_it(dtype):
    codes = every_code(dtype)
    values = codes.astype(np.float32)
    codes, values = codes[np.isfinite(values)], values[np.isfinite(values)]
    for near in (values, np.nextafter(values, np.float32(np.inf)), np.nextafter(values, np.float32(-np.inf))):
        rounded = dtypes.cast(near, dtype).astype(np.float32)
        assert (rounded == values).all()


@pytest.mark.parametrize("dtype", SIGNED_BYTES + HALVES, ids=str)
def test_saturating_cast_is_the_plain_cast_of_clipped_values(dtype):
    values = hard_float32()
    values = values[~np.isnan(values)]
    finite = every_code(dtype).astype(np.float32)
    largest = finite[np.isfinite(finite)].max()
    clipped = np.clip(values, -largest, largest)
    assert_same(ours(values, dtype, overflow="saturate"), theirs(clipped, dtype), values)


def test_saturating_cast_to_a_power_of_two():
    values = np.array([np.inf, 3e38, 0, -0.0, -1, np.nan, 1], np.float32)
    assert ours(values, "float8_e8m0fnu", overflow="saturate").tolist() == [254, 254, 0, 0, 255, 255, 127]


def test_tfloat32_rounds_at_bit_13():
    values = hard_float32()
    u = bits(values).astype(np.uint64)
    rounded = ((u + 0xFFF + ((u >> 13) & 1)) & 0xFFFFE000).astype(np.uint32)
    want = np.where(np.isnan(values), (bits(values) & 0x80000000) | 0x7FC00000, rounded)
    assert_same(ours(values, dtypes.tfloat32), want, values)
    assert_same(bits(values.astype(dtypes.tfloat32)), want, values)
    # TensorE ignores the low 13 bits of what was stored some other way.
    assert_same(ours(values.view(dtypes.tfloat32), np.float32) & 0xFF802000, bits(values) & 0xFF802000, values)


@pytest.mark.parametrize("name", ["uint8", "int8", "uint16", "int16", "uint32", "int32"])
def test_integers_round_to_even_and_saturate(name):
    values = hard_float32()
    info = np.iinfo(name)
    number = np.nan_to_num(np.rint(values.astype(np.float64)), nan=0.0)
    want = np.clip(number, info.min, info.max).astype(name)
    assert_same(dtypes.cast(values, name), want, values)
    codes = np.random.default_rng(1).integers(info.min, info.max, 1 << 16, dtype=name, endpoint=True)
    assert_same(ours(codes, np.float32), theirs(codes, np.float32), codes)


def test_bool_is_one_unless_zero():
    values = hard_float32()
    assert (dtypes.cast(values, bool) == (values != 0)).all()
    assert dtypes.cast(np.array([True, False]), np.float32).tolist() == [1, 0]


@pytest.mark.parametrize("dtype", [*SIGNED_BYTES, *HALVES, dtypes.tfloat32], ids=str)
def test_stochastic_rounding_takes_a_neighbour(dtype):
    values = hard_float32()[::37]
    drawn = ours(values, dtype, rounding="stochastic", seed=3)
    nearest = ours(values, dtype)
    pad = 13 if dtype == dtypes.tfloat32 else 0
    distance = np.abs((drawn >> pad).astype(np.int64) - (nearest >> pad).astype(np.int64))
    number = ~np.isnan(values)
    largest = every_code(dtype).astype(np.float32) if pad == 0 else np.array([3.4011621e38], np.float32)
    within = number & (np.abs(values) < largest[np.isfinite(largest)].max())
    assert distance[within].max() == 1
    assert_same(drawn[~number], nearest[~number], values[~number])


def test_stochastic_rounding_follows_the_seed_and_nothing_else():
    values = np.random.default_rng(2).standard_normal(100_003).astype(np.float32)
    first = ours(values, "bfloat16", rounding="stochastic", seed=1)
    assert (first == ours(values, "bfloat16", rounding="stochastic", seed=1)).all()
    assert (first[:777] == ours(values[:777], "bfloat16", rounding="stochastic", seed=1)).all()
    assert (first != ours(values, "bfloat16", rounding="stochastic", seed=2)).any()
    assert (ours(values, "bfloat16", seed=1) == theirs(values, dtypes.bfloat16)).all()


def test_stochastic_rounding_has_the_value_as_its_mean():
    values = np.full(1 << 20, 1 + 1 / 512, np.float32)  # A quarter of the way from 1 to the next bfloat16.
    drawn = dtypes.cast(values, "bfloat16", rounding="stochastic").astype(np.float64)
    up = (drawn > 1).mean()
    assert abs(up - 0.25) < 6 * (0.25 * 0.75 / len(values)) ** 0.5


@settings(max_examples=50, deadline=None)
@given(st.lists(st.integers(0, (1 << 32) - 1), max_size=70), st.sampled_from([*BYTES, dtypes.bfloat16]))
def test_any_patterns_of_any_length(patterns, dtype):
    values = np.array(patterns, np.uint32).view(np.float32)
    assert (ours(values, dtype) == theirs(values, dtype)).all()


@pytest.mark.parametrize("shape", [(), (0,), (3, 0), (2, 3, 5), (1,)])
def test_shapes_and_strides_are_kept(shape):
    values = np.zeros((2, *shape), np.float32)[1] + np.float32(1.5)
    out = dtypes.cast(values, "bfloat16")
    assert out.shape == shape
    assert (out.astype(np.float32) == 1.5).all()
    matrix = np.arange(12, dtype=np.float32).reshape(3, 4)
    assert (dtypes.cast(matrix.T[::-1], "float16") == matrix.T[::-1]).all()


def test_foreign_types_are_rounded_to_float32_first():
    assert dtypes.cast([0.1], "float32")[0] == np.float32(0.1)
    assert dtypes.cast(np.array([1 << 40]), "int32")[0] == np.iinfo(np.int32).max
    assert dtypes.cast(np.arange(4, dtype=">f4"), "uint8").tolist() == [0, 1, 2, 3]


@pytest.mark.parametrize(
    ("arguments", "rule"),
    [
        (([1.0], "float8_e4m3fn_x4"), "cast.packed"),
        ((np.zeros(1, dtypes.float4_e2m1fn_x4), "float32"), "cast.packed"),
        (([1.0], "float32", "up"), "cast.rounding"),
        (([1.0], "float65"), "dtype.known"),
    ],
)
def test_wrong_arguments_name_the_rule(arguments, rule):
    with pytest.raises(RuleError) as caught:
        dtypes.cast(*arguments)
    assert caught.value.rule == rule
    assert caught.value.fix


@pytest.mark.parametrize(("options", "rule"), [({"overflow": "wrap"}, "cast.overflow"), ({"seed": -1}, "cast.seed")])
def test_wrong_options_name_the_rule(options, rule):
    with pytest.raises(ValueError, match=rule):
        dtypes.cast([1.0], "bfloat16", **options)


def test_names_map_both_ways():
    for name in dtypes.__all__:
        each = getattr(dtypes, name)
        if isinstance(each, np.dtype):
            assert str(each) == name.removesuffix("_")
            assert dtypes.dtype(name) is each
            assert dtypes.dtype(each) is each
            assert dtypes.dtype(each.type) == each
            assert dtypes.dtype(np.zeros(1, each)) == each
            assert dtypes.name(each) == str(each)
    assert dtypes.dtype(">f4") == dtypes.float32
    assert dtypes.dtype(ml_dtypes.bfloat16) == dtypes.bfloat16
    assert dtypes.dtype(bool) == dtypes.bool_


@pytest.mark.parametrize("unknown", [np.float64, "int64", None, "nonsense", object(), np.dtype("V4"), 3])
def test_unknown_types_are_refused_with_a_fix(unknown):
    with pytest.raises(RuleError, match="is no data type of the NeuronCore") as caught:
        dtypes.dtype(unknown)
    assert caught.value.rule == "dtype.known"
