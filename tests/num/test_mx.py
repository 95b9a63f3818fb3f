"""Microscaling against gfloat and a plain reference in Python."""

import gfloat
import gfloat.formats
import ml_dtypes
import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from trn3 import dtypes, mx
from trn3.errors import RuleError

ELEMENTS = ["float8_e4m3fn", "float8_e5m2", "float4_e2m1fn"]
EMAX = {"float8_e4m3fn": 8, "float8_e5m2": 15, "float4_e2m1fn": 2}
LARGEST = {"float8_e4m3fn": 448.0, "float8_e5m2": 57344.0, "float4_e2m1fn": 6.0}
NAN = {"float8_e4m3fn": 0x7F, "float8_e5m2": 0x7E, "float4_e2m1fn": 0}
GFLOAT = {
    "float8_e4m3fn": gfloat.formats.format_info_mxfp8_e4m3,
    "float8_e5m2": gfloat.formats.format_info_mxfp8_e5m2,
    "float4_e2m1fn": gfloat.formats.format_info_mxfp4_e2m1,
}
RULES = ["hardware", "ocp"]


def reference(group, element, rule):
    """One group of 32 in exact arithmetic: codes and the scale byte."""
    with np.errstate(invalid="ignore"):  # ml_dtypes reports a signalling NaN.
        group = group.astype(np.float64)
    amax = np.abs(group).max()
    if not np.isfinite(amax):
        return np.full(32, NAN[element]), 0xFF
    target = EMAX[element] - (rule == "hardware")
    byte = 0 if amax == 0 else int(np.clip(np.frexp(amax)[1] - 1 - target + 127, 0, 254))
    scaled = np.clip(group / 2.0 ** (byte - 127), -LARGEST[element], LARGEST[element])
    # Exact from float64: ml_dtypes rounds once.
    return scaled.astype(getattr(ml_dtypes, element)).view(np.uint8), byte


def check_last_axis(values, element, rule):
    result = mx.quantize(values, element, scale_rule=rule)
    for group, codes, scale in zip(
        values.reshape(-1, 32), result.codes.view(np.uint8).reshape(-1, 32), result.scales.view(np.uint8).reshape(-1)
    ):
        want_codes, want_scale = reference(group, element, rule)
        assert scale == want_scale
        assert codes.tolist() == want_codes.tolist()
    back = result.dequantize()
    scales = np.repeat(np.exp2(result.scales.view(np.uint8).astype(np.float64) - 127), 32, axis=-1)
    with np.errstate(over="ignore"):
        want = (result.codes.astype(np.float64) * scales.reshape(values.shape)).astype(np.float32)
    bad = np.repeat(result.scales.view(np.uint8) == 0xFF, 32, axis=-1).reshape(values.shape)
    assert np.array_equal(np.where(bad, np.float32(np.nan), want), back, equal_nan=True)
    assert np.array_equal(np.signbit(back[~bad]), np.signbit(want[~bad]))


def hard_values():
    """Groups of every magnitude, of subnormals, zeros, NaN and infinities; random patterns."""
    rng = np.random.default_rng(4)
    scales = np.exp2(np.arange(-149, 128, dtype=np.float64))
    spread = rng.standard_normal((len(scales), 32)) * scales[:, None]
    spread[:, 5] = 0.0
    spread[:, 6] = -0.0
    with np.errstate(over="ignore"):
        values = spread.astype(np.float32)
    special = np.tile(np.linspace(-3, 3, 32, dtype=np.float32), (6, 1))
    special[0, 0] = np.nan
    special[1, 31] = -np.inf
    special[2, 7] = -np.nan
    special[3] = 0.0
    special[4] = -0.0
    special[5] = np.finfo(np.float32).max
    random = rng.integers(0, 1 << 32, (64, 32), dtype=np.uint32)
    random &= ~np.uint32(1 << 30)  # No infinities or NaN: these groups are to have finite scales.
    return np.concatenate([values, special, random.view(np.float32)])


@pytest.mark.parametrize("rule", RULES)
@pytest.mark.parametrize("element", ELEMENTS)
def test_hard_groups_equal_the_reference(element, rule):
    check_last_axis(hard_values(), element, rule)


@pytest.mark.parametrize("rule", RULES)
@pytest.mark.parametrize("element", ELEMENTS)
@pytest.mark.parametrize("source", [dtypes.bfloat16, dtypes.float16], ids=str)
def test_every_half_in_some_group(source, element, rule):
    values = np.arange(1 << 16, dtype=np.uint16).view(source).reshape(-1, 32)
    check_last_axis(values, element, rule)
    with np.errstate(invalid="ignore"):
        finite = values[np.isfinite(values)]
    shuffled = np.random.default_rng(5).permutation(finite)
    check_last_axis(shuffled[: 32 * 1000].reshape(-1, 32), element, rule)


@pytest.mark.parametrize("element", ELEMENTS)
def test_ocp_rule_equals_gfloat(element):
    rng = np.random.default_rng(6)
    values = (rng.standard_normal((200, 32)) * np.exp2(rng.integers(-100, 100, (200, 1)))).astype(np.float32)
    got = mx.quantize(values, element, scale_rule="ocp")
    for i, group in enumerate(values):
        want = gfloat.quantize_block(GFLOAT[element], group.astype(np.float64), gfloat.compute_scale_amax)
        assert np.array_equal(got.dequantize()[i], want.astype(np.float32))


@pytest.mark.parametrize("rule", RULES)
@pytest.mark.parametrize("element", ELEMENTS)
@pytest.mark.parametrize("shape", [(2, 3, 64), (3, 32, 5), (64, 7), (96, 2, 130), (32, 300), (32,), (0, 32), (32, 0)])
def test_any_axis(shape, element, rule):
    rng = np.random.default_rng(7)
    values = rng.standard_normal(shape).astype(np.float32)
    if values.size:
        values.reshape(-1)[rng.integers(0, values.size, 3)] = [np.nan, np.inf, 1e38]
    for axis in range(-len(shape), len(shape)):
        if shape[axis] % 32:
            continue
        got = mx.quantize(values, element, axis, rule)
        want = mx.quantize(np.moveaxis(values, axis, -1), element, -1, rule)
        assert np.array_equal(got.codes.view(np.uint8), np.moveaxis(want.codes.view(np.uint8), -1, axis))
        assert np.array_equal(got.scales.view(np.uint8), np.moveaxis(want.scales.view(np.uint8), -1, axis))
        back = mx.dequantize(got.codes, got.scales, axis)
        assert np.array_equal(back, np.moveaxis(want.dequantize(), -1, axis), equal_nan=True)
        assert (got.axis, got.shape, got.element) == (axis % len(shape), shape, dtypes.dtype(element))


def test_hardware_rule_never_saturates():
    # The golden bound of isa.md 5.4: the largest element lands in [128, 256) and [2**14, 2**15).
    values = np.abs(hard_values())
    values = values[np.isfinite(values).all(axis=1) & (values.max(axis=1) > 2.0**-100)]
    for element, low in (("float8_e4m3fn", 128.0), ("float8_e5m2", 2.0**14), ("float4_e2m1fn", 2.0)):
        largest = mx.quantize(values, element).codes.astype(np.float32).max(axis=1)
        assert largest.min() >= low
        assert largest.max() <= 2 * low
    # The OCP rule does: 511 over 2**0 is beyond 448.
    group = np.full(32, 511.0, np.float32)
    assert mx.quantize(group, scale_rule="ocp").dequantize()[0] == 448.0
    assert mx.quantize(group).dequantize()[0] == 512.0


def test_a_group_that_is_no_number():
    for element in ELEMENTS:
        group = np.ones(64, np.float32)
        group[3] = np.nan
        result = mx.quantize(group, element)
        assert result.scales.view(np.uint8).tolist()[0] == 0xFF
        assert set(result.codes.view(np.uint8)[:32]) == {NAN[element]}
        assert np.isnan(result.dequantize()[:32]).all()
        assert (result.dequantize()[32:] == 1).all()


@pytest.mark.parametrize("element", ELEMENTS)
def test_dequantize_every_code_under_every_scale(element):
    width = 16 if element == "float4_e2m1fn" else 256
    codes = np.broadcast_to(np.arange(width, dtype=np.uint8)[:, None, None], (width, 32, 256))
    scales = np.broadcast_to(np.arange(256, dtype=np.uint8), (width, 1, 256))
    got = mx.dequantize(codes, scales, axis=1, element=element)
    wide = codes.astype(np.uint8).view(getattr(ml_dtypes, element)).astype(np.float64)
    powers = np.exp2(np.arange(256) - 127.0)
    powers[255] = np.nan
    with np.errstate(over="ignore"):
        want = (wide * powers).astype(np.float32)
    assert np.array_equal(got, want, equal_nan=True)


def test_out_arrays_are_written():
    values = np.random.default_rng(8).standard_normal((4, 64)).astype(np.float32)
    codes, scales = np.empty((4, 64), dtypes.float8_e4m3fn), np.empty((4, 2), dtypes.float8_e8m0fnu)
    result = mx.quantize(values, out=(codes, scales))
    assert result.codes is codes
    assert result.scales is scales
    assert np.array_equal(codes.view(np.uint8), mx.quantize(values).codes.view(np.uint8))
    with pytest.raises(RuleError, match=r"mx\.out"):
        mx.quantize(values, out=(codes[:, ::-1], scales))


@settings(max_examples=30, deadline=None)
@given(st.integers(0, 2**32 - 1), st.sampled_from(ELEMENTS), st.sampled_from(RULES))
def test_quantising_again_changes_nothing(seed, element, rule):
    rng = np.random.default_rng(seed)
    values = (rng.standard_normal((3, 32)) * np.exp2(rng.integers(-60, 60))).astype(np.float32)
    once = mx.quantize(values, element, scale_rule=rule).dequantize()
    # Rounding may lift the largest element to the next power of two under the hardware rule; then the scale doubles.
    twice = mx.quantize(once, element, scale_rule=rule).dequantize()
    unchanged = np.frexp(np.abs(values).max(axis=1))[1] == np.frexp(np.abs(once).max(axis=1))[1]
    assert np.array_equal(once[unchanged], twice[unchanged])


@pytest.mark.parametrize("element", ELEMENTS)
@pytest.mark.parametrize("shape", [(4,), (3, 8), (2, 3, 128), (0, 4), (5, 0)])
def test_packing_round_trip(element, shape):
    width = 16 if element == "float4_e2m1fn" else 256
    codes = np.random.default_rng(9).integers(0, width, shape).astype(np.uint8)
    words = dtypes.pack_x4(codes.view(element_type := getattr(ml_dtypes, element)))
    assert words.shape == (*shape[:-1], shape[-1] // 4)
    assert str(words.dtype) == f"{element}_x4"
    bits = codes.astype(np.uint32).reshape(*words.shape, 4)
    shift = 4 if width == 16 else 8
    want = sum(bits[..., q] << np.uint32(shift * q) for q in range(4))
    assert np.array_equal(words.view(f"u{words.dtype.itemsize}"), want)
    assert dtypes.unpack_x4(words).dtype == element_type
    assert np.array_equal(dtypes.unpack_x4(words).view(np.uint8), codes)
    assert np.array_equal(dtypes.unpack_x4(words.view(f"u{words.dtype.itemsize}"), element).view(np.uint8), codes)
    assert np.array_equal(dtypes.pack_x4(codes, words.dtype), words)


@pytest.mark.parametrize("offset", [0, 4, 8, 12])
@pytest.mark.parametrize("element", ELEMENTS)
@pytest.mark.parametrize("k", [128, 256, 384, 512])
def test_operand_layout(k, element, offset):
    """Element by element by the formulas of isa.md 5.2 and 5.3."""
    f, rows = 3, k // 4
    x = np.random.default_rng(10).standard_normal((k, f)).astype(np.float32)
    x *= np.exp2(np.arange(k) // 8 % 7)[:, None].astype(np.float32)
    words, scales = mx.pack_operand(x, element, scale_offset=offset)
    assert words.shape == scales.shape == (rows, f)
    codes, bytes_ = dtypes.unpack_x4(words).view(np.uint8), scales.view(np.uint8)
    used = set()
    for a in range(rows // 8):
        for column in range(f):
            places = [(p, q) for p in range(8 * a, 8 * a + 8) for q in range(4)]
            group = np.array([x[p + q * rows, column] for p, q in places])
            want_codes, want_scale = reference(group, element, "hardware")
            row = 32 * (8 * a // 32) + offset + (8 * a % 32) // 8
            used.add(row)
            assert bytes_[row, column] == want_scale
            assert [codes[p, 4 * column + q] for p, q in places] == want_codes.tolist()
    assert not np.delete(bytes_, sorted(used), axis=0).any()
    back = mx.unpack_operand(words, scales, scale_offset=offset)
    regrouped = x.reshape(4, rows // 8, 8, f).swapaxes(0, 1).reshape(k, f)
    want = mx.quantize(regrouped, element, axis=0).dequantize()
    assert np.array_equal(back, want.reshape(rows // 8, 4, 8, f).swapaxes(0, 1).reshape(k, f))


def test_the_published_example_of_a_group():
    # isa.md 5.2: for K = 512, word (5, f) holds rows 5, 133, 261 and 389 of column f.
    x = np.arange(512, dtype=np.float32)[:, None]
    words, scales = mx.pack_operand(x, "float8_e5m2")
    values = dtypes.unpack_x4(words).astype(np.float32) * np.exp2(float(scales.view(np.uint8)[0, 0]) - 127)
    assert values[5].tolist() == [5, 128, 256, 384]  # 133, 261 and 389 have more than three bits.


def test_short_scale_tiles_are_enough_for_one_quadrant():
    x = np.random.default_rng(11).standard_normal((128, 6)).astype(np.float32)
    words, scales = mx.pack_operand(x)
    assert np.array_equal(mx.unpack_operand(words, scales[:4]), mx.unpack_operand(words, scales))


X = np.zeros((64, 33), np.float32)


@pytest.mark.parametrize(
    ("call", "rule"),
    [
        (lambda: mx.quantize(X), "mx.multiple"),
        (lambda: mx.quantize(X, axis=2), "mx.axis"),
        (lambda: mx.quantize(np.float32(1)), "mx.axis"),
        (lambda: mx.quantize(X, "float8_e4m3", axis=0), "mx.element"),
        (lambda: mx.quantize(X.astype(np.float64), axis=0), "mx.source"),
        (lambda: mx.quantize(X, axis=0, scale_rule="nearest"), "mx.scale_rule"),
        (lambda: mx.dequantize(X.astype(np.uint8), np.zeros((2, 33), np.uint8), 0), "mx.element"),
        (lambda: mx.dequantize(X.astype(np.uint8), None, 0, "float8_e5m2"), "mx.scales"),
        (lambda: mx.dequantize(X.astype(np.uint8), np.zeros((2, 32), np.uint8), 0, "float8_e5m2"), "mx.scales"),
        (lambda: mx.dequantize(X, np.zeros((2, 33), np.uint8), 0, "float8_e5m2"), "mx.element"),
        (lambda: mx.pack_operand(X), "mx.operand.shape"),
        (lambda: mx.pack_operand(np.zeros((128, 2), np.float32), scale_offset=2), "mx.operand.scale_offset"),
        (lambda: mx.unpack_operand(X.astype(np.uint32), X[1:].astype(np.uint8), "float8_e5m2"), "mx.scales"),
        (lambda: mx.unpack_operand(X.astype(np.uint32)[:5], X.astype(np.uint8)), "mx.operand.shape"),
        (lambda: dtypes.pack_x4(X.astype(np.uint8), "float8_e5m2"), "pack.multiple"),
        (lambda: dtypes.pack_x4(X.astype(np.uint8)), "pack.element"),
        (lambda: dtypes.pack_x4(X, "float8_e5m2"), "pack.element"),
        (lambda: dtypes.unpack_x4(X.astype(np.uint16), "float8_e5m2"), "pack.element"),
        (lambda: dtypes.unpack_x4(X), "pack.element"),
    ],
)
def test_wrong_inputs_name_the_rule(call, rule):
    with pytest.raises(RuleError) as caught:
        call()
    error = caught.value
    assert error.rule == rule
    assert all((error.instruction, error.operand, error.value, error.limit, error.fix))
    assert f"[{rule}]" in str(error)


def test_a_big_array_equals_its_pieces():
    values = np.random.default_rng(12).standard_normal((256, 4096)).astype(np.float32)
    whole = mx.quantize(values, axis=0)
    parts = [mx.quantize(values[:, i : i + 512], axis=0) for i in range(0, 4096, 512)]
    assert np.array_equal(whole.codes.view(np.uint8), np.hstack([part.codes.view(np.uint8) for part in parts]))
    assert np.array_equal(whole.scales.view(np.uint8), np.hstack([part.scales.view(np.uint8) for part in parts]))
