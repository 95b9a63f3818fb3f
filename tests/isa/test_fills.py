"""memset and iota: every kind of value, every data type, every layout."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from emulated import FLOATS, INTEGERS, cast, execute, numpy_dtype, same
from trn3 import errors
from trn3.nki import isa as nisa
from trn3.nki import language as nl


@pytest.mark.parametrize("engine", ["unknown", "vector", "gpsimd"])
@pytest.mark.parametrize("name", FLOATS)
def test_memset_floats(name, engine):
    values = [0, 1, -1, True, 1.5, -0.0, 0.1, 3e38, 1e-45, float("inf"), float("nan"), np.float32(2.5), np.int8(-3)]
    base = np.full((5, 4, len(values)), 7).astype(numpy_dtype(name))

    def body(tile):
        for at, value in enumerate(values):
            nisa.memset(tile[:, 1:3, at], value, engine=getattr(nisa.engine, engine))

    want = base.copy()
    want[:, 1:3] = cast(np.array(values, np.float64).astype(np.float32), name)
    same(execute(body, base)[0], want)


@pytest.mark.parametrize("name", INTEGERS)
def test_memset_integers(name):
    info = np.iinfo(numpy_dtype(name))
    values = [0, 1, True, int(info.min), int(info.max), np.int64(7)]
    base = np.full((3, len(values)), 5, name)

    def body(tile):
        for at, value in enumerate(values):
            nisa.memset(tile[:, at : at + 1], value)

    (got,) = execute(body, base, spaces="p")
    np.testing.assert_array_equal(got, np.array([values] * 3, dtype=object).astype(name))


@pytest.mark.parametrize("value", [-1, 256, 1.0, 0.5, "a", None, [1], 2**70, np.ones(2), float("nan"), 1 + 2j])
def test_memset_refuses_what_uint8_cannot_hold(value):
    with pytest.raises(errors.RuleError) as caught:
        execute(lambda tile: nisa.memset(tile, value), np.zeros((2, 2), np.uint8))
    assert caught.value.rule in ("memset.value", "argument.type")
    assert caught.value.operand == "value"


@pytest.mark.parametrize("dtype", [nl.float8_e5m2_x4, nl.float8_e4m3fn_x4, nl.float4_e2m1fn_x4])
def test_memset_packed_takes_zero_only(dtype):
    base = np.full((4, 3), 255, f"u{dtype.itemsize}").view(dtype)
    (got,) = execute(lambda tile: nisa.memset(tile, 0), base)
    np.testing.assert_array_equal(got.view(f"u{dtype.itemsize}"), 0)
    with pytest.raises(errors.RuleError, match=r"memset\.value"):
        execute(lambda tile: nisa.memset(tile, 1), base)


def test_memset_truth_values():
    (got,) = execute(lambda t: nisa.memset(t[:, 0:2], True), np.zeros((2, 4), bool))
    np.testing.assert_array_equal(got, [[True, True, False, False]] * 2)


@given(st.data())
def test_iota(data):
    name = data.draw(st.sampled_from([*FLOATS, *INTEGERS]))
    counts = data.draw(st.sampled_from([(24,), (4, 6), (2, 3, 4), (1, 24), (2, 2, 2, 3), (24, 1)]))
    steps = [data.draw(st.one_of(st.integers(-50, 50), st.sampled_from([2**31 - 1, -(2**31), 2**20]))) for _ in counts]
    offset = data.draw(st.one_of(st.integers(-300, 300), st.sampled_from([2**31 - 1, -(2**31), 2**24 + 1])))
    channel = data.draw(st.one_of(st.integers(-20, 20), st.sampled_from([2**31 - 1, -(2**31)])))
    partitions = data.draw(st.sampled_from([1, 3, 128]))
    base = np.zeros((partitions, 48), numpy_dtype(name))
    pattern = [[step, count] for step, count in zip(steps, counts, strict=True)]

    def body(tile):
        nisa.iota(tile[:, 1::2], pattern, offset, channel_multiplier=channel)

    index = np.indices((partitions, *counts)).astype(object)
    value = offset + channel * index[0] + sum(step * i for step, i in zip(steps, index[1:], strict=True))
    wrapped = ((value + 2**31) % 2**32 - 2**31).astype(np.int64).astype(np.int32).reshape(partitions, 24)
    want = base.copy()
    if name == "int32":
        want[:, 1::2] = wrapped
    elif name == "uint32":
        want[:, 1::2] = wrapped.view(np.uint32)
    else:
        want[:, 1::2] = cast(wrapped.astype(np.float32), name)
    same(execute(body, base)[0], want)


@pytest.mark.parametrize(
    ("pattern", "more"),
    [
        ([], {}),
        ([[1, 3]], {}),
        ([[1, 8], [1, 0]], {}),
        ([[1, -2], [1, -4]], {}),
        ([[1, 2], [1, 2], [1, 2], [1, 1], [1, 1]], {}),
        ([[1, 2**62], [1, 8]], {}),
        ([[2**31, 8]], {}),
        ([[1, 8]], {"offset": 2**31}),
        ([[1, 8]], {"channel_multiplier": -(2**31) - 1}),
    ],
)
def test_iota_refuses_other_patterns(pattern, more):
    with pytest.raises(errors.RuleError, match=r"iota\.pattern"):
        execute(lambda tile: nisa.iota(tile, pattern, **more), np.zeros((2, 8), np.int32))


@pytest.mark.parametrize("pattern", [None, 3, [3], [[1.0, 8]], [[1, 8, 1]], "ab", [["a", 8]]])
def test_iota_refuses_other_types(pattern):
    with pytest.raises(errors.RuleError, match=r"argument\.type"):
        execute(lambda tile: nisa.iota(tile, pattern), np.zeros((2, 8), np.int32))
