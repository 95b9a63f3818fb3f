"""activation against formulas in float64, and its accumulator."""

import math

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from emulated import FLOATS, INTEGERS, cast, execute, fp32, random_array, same
from trn3.nki import isa as nisa
from trn3.nki import language as nl

erf = np.vectorize(math.erf, otypes=[float])
SQRT2 = math.sqrt(2)


def sigma(x):
    return 1 / (1 + np.exp(-x))


def phi(x):
    return 0.5 * (1 + erf(x / SQRT2))


def softplus(x):
    return np.logaddexp(0, x)


FORMULAS = {
    "exp": np.exp,
    "log": np.log,
    "sqrt": np.sqrt,
    "rsqrt": lambda x: 1 / np.sqrt(x),
    "reciprocal": lambda x: 1 / x,
    "sigmoid": sigma,
    "tanh": np.tanh,
    "sin": np.sin,
    "arctan": np.arctan,
    "erf": erf,
    "erf_dx": lambda x: 2 / math.sqrt(math.pi) * np.exp(-x * x),
    "gelu": lambda x: x * phi(x),
    "gelu_dx": lambda x: phi(x) + x * np.exp(-x * x / 2) / math.sqrt(2 * math.pi),
    "gelu_apprx_tanh": lambda x: 0.5 * x * (1 + np.tanh(math.sqrt(2 / math.pi) * (x + 0.044715 * x**3))),
    "gelu_apprx_sigmoid": lambda x: x * sigma(1.702 * x),
    "gelu_apprx_sigmoid_dx": lambda x: sigma(1.702 * x) * (1 + 1.702 * x * (1 - sigma(1.702 * x))),
    "silu": lambda x: x * sigma(x),
    "silu_dx": lambda x: sigma(x) * (1 + x * (1 - sigma(x))),
    "softplus": softplus,
    "mish": lambda x: x * np.tanh(softplus(x)),
    "square": lambda x: x * x,
    "abs": np.abs,
    "relu": lambda x: np.maximum(x, 0),
    "sign": np.sign,
    "copy": lambda x: x,
}
RANGES = {"log": (1e-6, 1e6), "sqrt": (0, 1e6), "rsqrt": (1e-6, 1e6), "sin": (-math.pi, math.pi), "exp": (-80, 80)}


@pytest.mark.parametrize("name", sorted(FORMULAS))
def test_functions(name):
    low, high = RANGES.get(name, (-12, 12))
    x = np.random.default_rng(2).uniform(low, high, (64, 130)).astype(np.float32)
    got = execute(lambda d, t: nisa.activation(d, getattr(nl, name), t), np.zeros_like(x), x)[0]
    want = FORMULAS[name](x.astype(np.float64))
    # 4 ulp of FP32, and absolutely what cancellation near a zero of the function leaves of the inner terms.
    ulp = np.spacing(np.abs(want).astype(np.float32)).astype(np.float64)
    slack = 4 * ulp + 2.0**-23 * np.minimum(1, np.abs(x)) * (name.endswith("_dx") or "gelu" in name or name == "sin")
    assert (np.abs(got - want) <= slack).all(), np.abs((got - want) / ulp).max()


@pytest.mark.parametrize("name", sorted(FORMULAS))
def test_nan_goes_through_and_infinities_have_limits(name):
    x = np.array([[np.nan, np.inf, -np.inf, 0.0, 1e38, -1e38]], np.float32)
    got = execute(lambda d, t: nisa.activation(d, getattr(nl, name), t), np.zeros_like(x), x)[0][0]
    assert np.isnan(got[0]) and got[:1].view(np.uint32)[0] == 0x7FC00000
    with np.errstate(all="ignore"):
        limits = {
            "exp": (np.inf, 0),
            "log": (np.inf, np.nan),
            "sqrt": (np.inf, np.nan),
            "rsqrt": (0, np.nan),
            "reciprocal": (0, 0),
            "sigmoid": (1, 0),
            "tanh": (1, -1),
            "arctan": (np.float32(math.pi / 2), -np.float32(math.pi / 2)),
            "erf": (1, -1),
            "relu": (np.inf, 0),
            "square": (np.inf, np.inf),
            "softplus": (np.inf, 0),
            "erf_dx": (0, 0),
        }
    if name in limits:
        np.testing.assert_allclose(got[1:3], limits[name], rtol=1e-6)


def test_sin_beyond_its_range_continues_with_the_documented_cubic():
    x = np.array([[9.0, -9.0, 3.5]], np.float32)
    got = execute(lambda d, t: nisa.activation(d, nl.sin, t), np.zeros_like(x), x)[0][0]
    u = 9 - math.pi
    v = 3.5 - math.pi
    np.testing.assert_allclose(got, [-u + u**3 / 6, u - u**3 / 6, -v + v**3 / 6], rtol=1e-5)
    np.testing.assert_allclose(got[0], 27.65, atol=0.01)


@given(st.data())
def test_scale_then_bias_round_once_each(data):
    to, source = (data.draw(st.sampled_from([*FLOATS, *INTEGERS])) for _ in range(2))
    bias_type = data.draw(st.sampled_from(["none", "float", "float32", "bfloat16", "int32"]))
    scale = data.draw(st.sampled_from([1.0, 2, -0.3, 1e-3, "vector"]))
    partitions = data.draw(st.sampled_from([1, 31, 128]))
    rng = np.random.default_rng(data.draw(st.integers(0, 2**32 - 1)))
    x, d = random_array(rng, (partitions, 8, 9), source), random_array(rng, (partitions, 4, 3), to)
    b = random_array(
        rng, (partitions, 3), bias_type if bias_type in ("bfloat16", "int32") else "float32", special=False
    )
    s = random_array(rng, (partitions, 1), "float32", special=False)

    def body(dst, tile, bias, scales):
        given_bias = {"none": None, "float": -0.7}.get(bias_type, bias[:, 1:2])
        nisa.activation(dst, nl.copy, tile[:, ::2, 2::3], bias=given_bias, scale=scales if scale == "vector" else scale)

    got = execute(body, d, x, b, s, spaces=data.draw(st.sampled_from(["ssss", "spsp", "pssp"])))[0]
    with np.errstate(all="ignore"):
        value = fp32(x)[:, ::2, 2::3] * (s.reshape(-1, 1, 1) if scale == "vector" else np.float32(scale))
        if bias_type != "none":
            value = value + (np.float32(-0.7) if bias_type == "float" else fp32(b)[:, 1].reshape(-1, 1, 1))
    same(got, cast(value, to))


def test_the_accumulator_lives_across_instructions_and_sums_in_order():
    rng = np.random.default_rng(4)
    x = (rng.standard_normal((40, 300)) * np.exp2(rng.integers(0, 15, (40, 300)))).astype(np.float32)
    cmd = nisa.reduce_cmd

    def body(d, t, sums):
        nisa.activation(d, nl.copy, t, reduce_op=nl.add, reduce_cmd=cmd.reset_reduce, reduce_res=sums[:, 0:1])
        nisa.activation(d, nl.copy, t, reduce_op=nl.add, reduce_cmd=cmd.reduce)
        nisa.activation(d, nl.copy, t, reduce_cmd=cmd.idle, reduce_res=sums[:, 1:2])
        nisa.activation(d, nl.copy, t, reduce_cmd=cmd.reset, reduce_res=sums[:, 2:3])
        nisa.activation(d, nl.copy, t, scale=-1.0, reduce_op=nl.add, reduce_cmd=cmd.reduce, reduce_res=sums[:, 3:4])
        nisa.activation(d[0:32], nl.copy, t[0:32], reduce_op=nl.add, reduce_cmd=cmd.reset)
        nisa.activation(d, nl.copy, t, reduce_res=sums[:, 4:5])

    got = execute(body, np.zeros_like(x), x, np.zeros((40, 5), np.float32))[2]
    total = np.zeros(40, np.float32)
    for column in x.T:
        total = total + column
    want = [total]
    for column in x.T:
        total = total + column
    minus = np.zeros(40, np.float32)
    for column in x.T:
        minus = minus - column
    want += [total, np.zeros(40, np.float32), minus, np.where(np.arange(40) < 32, 0, minus)]
    np.testing.assert_array_equal(got, np.stack(want, 1).astype(np.float32))


def test_the_accumulator_starts_at_zero_on_each_run_and_may_land_in_dst():
    x = np.ones((4, 8), np.float32)

    def body(t):
        nisa.activation(t, nl.copy, t, reduce_op=nl.add, reduce_cmd=nisa.reduce_cmd.reduce, reduce_res=t[:, 0:1])

    for _ in range(2):
        (got,) = execute(body, x)
        np.testing.assert_array_equal(got, [[8.0] + [1.0] * 7] * 4)


def test_lanes_are_those_of_the_data():
    x = np.ones((64, 8), np.float32)

    def body(t, sums):
        nisa.activation(t[32:64], nl.copy, t[32:64], reduce_op=nl.add, reduce_cmd=nisa.reduce_cmd.reset_reduce)
        nisa.activation(t, nl.copy, t, reduce_res=sums)

    np.testing.assert_array_equal(execute(body, x, np.zeros((64, 1), np.float32))[1][:, 0], [0.0] * 32 + [8.0] * 32)


def test_sums_take_the_values_before_the_cast():
    x = np.full((2, 3), 1 / 3, np.float32)

    def body(d, t, sums):
        nisa.activation(d, nl.copy, t, reduce_op=nl.add, reduce_cmd=nisa.reduce_cmd.reset_reduce, reduce_res=sums)

    got = execute(body, np.zeros((2, 3), np.int8), x, np.zeros((2, 1), np.float32))
    np.testing.assert_array_equal(got[0], 0)
    np.testing.assert_array_equal(got[2], x[:, :1] + x[:, :1] + x[:, :1])
