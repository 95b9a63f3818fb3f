"""nc_transpose moves bits, on both engines and for every data type."""

import numpy as np
import pytest

from emulated import execute, numpy_dtype, simulation
from trn3.nki import isa as nisa

DTYPES = [
    "float32",
    "tfloat32",
    "bfloat16",
    "float16",
    "float8_e5m2",
    "float8_e4m3",
    "float8_e4m3fn",
    "float8_e8m0fnu",
    "uint8",
    "int8",
    "uint16",
    "int16",
    "uint32",
    "int32",
    "float8_e5m2_x4",
    "float8_e4m3fn_x4",
    "float4_e2m1fn_x4",
]


def bits(shape, name, seed=0):
    dtype = numpy_dtype(name)
    return (
        np.random.default_rng(seed)
        .integers(0, 256, (*shape, dtype.itemsize), np.uint8)
        .view(f"u{dtype.itemsize}")
        .reshape(shape)
    )


@pytest.mark.parametrize("name", DTYPES)
@pytest.mark.parametrize(
    ("shape", "engine", "space"),
    [
        ((128, 128), "tensor", "p"),
        ((3, 100), "tensor", "p"),
        ((32, 32), "vector", "s"),
        ((7, 20), "vector", "p"),
        ((1, 1), "unknown", "s"),
    ],
)
def test_bits_move(name, shape, engine, space):
    source = bits(shape, name)
    target = bits(shape[::-1], name, 1)

    def body(dst, data):
        nisa.nc_transpose(dst, data, engine=getattr(nisa.engine, engine))

    dtype = numpy_dtype(name)
    got = execute(body, target.view(dtype), source.view(dtype), spaces=space + "s")[0]
    np.testing.assert_array_equal(got.view(source.dtype), source.T)


def test_free_dimensions_are_flattened_and_views_respected():
    source = bits((4, 6, 10), "bfloat16")

    def body(dst, data):
        nisa.nc_transpose(dst[:, ::2], data[:, ::2, 1::2])
        nisa.nc_transpose(dst[:, 1::2], data[:, 1::2, ::2].permute((0, 2, 1)))

    dtype = numpy_dtype("bfloat16")
    got = execute(body, np.zeros((15, 8), dtype), source.view(dtype))[0].view(np.uint16)
    np.testing.assert_array_equal(got[:, ::2], source[:, ::2, 1::2].reshape(4, 15).T)
    np.testing.assert_array_equal(got[:, 1::2], source[:, 1::2, ::2].transpose(0, 2, 1).reshape(4, 15).T)


def test_in_place_on_vector():
    source = bits((32, 32), "uint32")
    (got,) = execute(lambda t: nisa.nc_transpose(t, t), source)
    np.testing.assert_array_equal(got, source.T)


def test_the_default_engine_follows_place_and_size():
    def body(small, psum, large, other):
        nisa.nc_transpose(small, small)
        nisa.nc_transpose(psum, small)
        nisa.nc_transpose(other, large)

    zeros = lambda *shape: np.zeros(shape, np.float32)  # noqa: E731
    simulated, _ = simulation(body, zeros(32, 32), zeros(32, 32), zeros(33, 8), zeros(8, 33), spaces="spsp")
    assert simulated.program.opcodes().count("nc_transpose") == 3


@pytest.mark.parametrize("name", ["float32", "bfloat16", "float16", "float8_e4m3fn", "float8_e5m2"])
def test_nc_matmul_in_transpose_mode_moves_bits_too(name):
    dtype = numpy_dtype(name)
    source = bits((20, 30), name)
    identity = np.eye(20, dtype=np.float32)[:, ::-1].copy()

    def body(dst, data, moving):
        nisa.nc_matmul(dst, data, moving, is_transpose=True)

    got = execute(body, bits((30, 20), name).view(dtype), source.view(dtype), identity.astype(dtype), spaces="pss")[0]
    np.testing.assert_array_equal(got.view(source.dtype), source.T[:, ::-1])


def test_a_moving_matrix_that_selects_nothing_is_refused_when_it_runs():
    from trn3 import errors

    def body(dst, data, moving):
        nisa.nc_matmul(dst, data, moving, is_transpose=True)

    arrays = np.zeros((4, 4), np.float32), np.ones((4, 4), np.float32), np.ones((4, 4), np.float32)
    with pytest.raises(errors.UnspecifiedError) as caught:
        execute(body, *arrays, spaces="pss")
    assert caught.value.rule == "matmul.transpose_identity"
    assert caught.value.where.startswith(__file__)
