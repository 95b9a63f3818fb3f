"""quantize_mx and nc_matmul_mx against a plain model of isa.md section 5."""

import ml_dtypes
import numpy as np
import pytest
from array_model import multiply_mx, put, quantize, scale_of, unpack

from emulated import execute, numpy_dtype, same
from trn3.nki import isa as nisa
from trn3.nki import language as nl

PACKED = ["float8_e4m3fn_x4", "float8_e5m2_x4", "float4_e2m1fn_x4"]


def packed(rng, shape, name, nan=False):
    bits = 16 if name.startswith("float4") else 32
    words = rng.integers(0, 2**bits, shape, np.uint32)
    if not nan and bits == 32:
        # Clear the top exponent bit of each code: neither NaN nor infinity.
        words &= np.uint32(0xBFBFBFBF)
    return words.astype(f"u{bits // 8}")


@pytest.mark.parametrize("partitions", [32, 64, 96, 128])
@pytest.mark.parametrize("first", [0, 4, 8, 12])
@pytest.mark.parametrize(("s_name", "m_name"), [(a, b) for a in PACKED for b in PACKED])
def test_products_of_all_types_and_scale_places(partitions, first, s_name, m_name):
    rng = np.random.default_rng(partitions + first)
    s, t = packed(rng, (partitions, 6), s_name), packed(rng, (partitions, 9), m_name)
    ss, ms = (rng.integers(110, 140, (partitions, n), np.uint8) for n in (6, 9))
    rows = partitions // 8 if partitions == 32 else partitions - first

    def body(psum, stationary, moving, s_scale, m_scale):
        nisa.nc_matmul_mx(
            psum,
            stationary,
            moving,
            s_scale[first : first + rows],
            m_scale[first : first + rows].view(nl.float8_e8m0fnu),
        )

    arrays = np.zeros((6, 9), np.float32), s.view(numpy_dtype(s_name)), t.view(numpy_dtype(m_name)), ss, ms
    got = execute(body, *arrays, spaces="pssss")[0]
    want = multiply_mx(
        unpack(s, s_name), scale_of(ss, partitions, first), unpack(t, m_name), scale_of(ms, partitions, first)
    )
    same(got, want)


def test_unusual_codes_and_scales():
    rng = np.random.default_rng(2)
    s, t = packed(rng, (32, 8), PACKED[0], True), packed(rng, (32, 10), PACKED[1], True)
    ss, ms = rng.integers(0, 256, (4, 8), np.uint8), rng.integers(0, 256, (4, 10), np.uint8)
    ss[0, 0], ms[1, 3] = 255, 255

    def body(psum, stationary, moving, s_scale, m_scale):
        nisa.nc_matmul_mx(psum, stationary, moving, s_scale, m_scale)

    arrays = np.zeros((8, 10), np.float32), s.view(numpy_dtype(PACKED[0])), t.view(numpy_dtype(PACKED[1])), ss, ms
    got = execute(body, *arrays, spaces="pssss")[0]
    same(got, multiply_mx(unpack(s, PACKED[0]), scale_of(ss, 32, 0), unpack(t, PACKED[1]), scale_of(ms, 32, 0)))


@pytest.mark.parametrize("dst", ["float32", "bfloat16"])
def test_accumulation_strides_and_row_tiles(dst):
    rng = np.random.default_rng(3)
    s, t = packed(rng, (128, 8), PACKED[0]), packed(rng, (128, 20), PACKED[1])
    ss, ms = (rng.integers(120, 130, (128, n), np.uint8) for n in (8, 20))
    d = np.full((4, 21), 9, numpy_dtype(dst))

    def body(psum, stationary, moving, s_scale, m_scale):
        for row in (0, 64):
            k = slice(row, row + 64)
            nisa.nc_matmul_mx(
                psum[:, 1::2],
                stationary[k, ::2],
                moving[k, 1::2],
                s_scale[k, ::2],
                m_scale[k, 1::2],
                tile_position=(row, 0),
                tile_size=(64, 128),
            )

    got = execute(body, d, s.view(numpy_dtype(PACKED[0])), t.view(numpy_dtype(PACKED[1])), ss, ms, spaces="pssss")[0]
    want = d.copy()
    for row, add in ((0, False), (64, True)):
        k = slice(row, row + 64)
        product = multiply_mx(
            unpack(s[k, ::2], PACKED[0]),
            scale_of(ss[k, ::2], 64, 0),
            unpack(t[k, 1::2], PACKED[1]),
            scale_of(ms[k, 1::2], 64, 0),
        )
        want[:, 1::2] = put(want[:, 1::2], product, add)
    same(got, want)


def values(rng, shape, dtype):
    data = (rng.standard_normal(shape) * np.exp2(rng.integers(-40, 40, shape))).astype(np.float32)
    data[0:8, 0:4] = 0
    data[8:16, 0:4] = -0.0
    data[0:8, 4:8] *= 1e-38
    with np.errstate(over="ignore"):
        out = data.astype(dtype)
    out[~np.isfinite(out.astype(np.float32))] = 1
    out[3, 8], out[9, 9], out[20, 10] = np.nan, np.inf, -np.inf
    out[16:24, 0:4] = np.array([448, 449, 464, 465, -480, 511, 512, 255], dtype).reshape(8, 1)
    return out


@pytest.mark.parametrize("partitions", [32, 64, 96, 128])
@pytest.mark.parametrize("element", PACKED[:2])
@pytest.mark.parametrize("dtype", [ml_dtypes.bfloat16, np.float16], ids=["bfloat16", "float16"])
@pytest.mark.parametrize("version", ["0.6", "0.5", "0.4", "0.3"])
def test_quantize(partitions, element, dtype, version):
    first = {"0.6": 0, "0.5": 4, "0.4": 8, "0.3": 12}[version]
    x = values(np.random.default_rng(partitions), (partitions, 24), dtype)
    before = np.full((128, 6), 77, np.uint8)

    def body(words, scales, source):
        rows = slice(first, first + partitions // 8) if partitions == 32 else slice(first, partitions)
        nisa.quantize_mx(words, source, scales[rows])

    arrays = np.zeros((partitions, 6), numpy_dtype(element)), before, x
    got_words, got_scales, _ = execute(body, *arrays, nki_version=version)
    codes, scales = quantize(x, element, version in ("0.4", "0.3"))
    got_codes = got_words.view(np.uint8).reshape(partitions, 24)
    fp8 = ml_dtypes.float8_e4m3fn if element == PACKED[0] else ml_dtypes.float8_e5m2
    same(got_codes.view(fp8), codes.view(fp8))
    want = before.copy()
    for group, row in enumerate(scales):
        want[first + (group if partitions == 32 else 32 * (group // 4) + group % 4)] = row
    np.testing.assert_array_equal(got_scales, want)


def test_quantize_strided_views_and_e8m0():
    x = np.stack([values(np.random.default_rng(seed), (32, 24), ml_dtypes.bfloat16) for seed in (1, 2)], 1)

    def body(words, scales, source):
        nisa.quantize_mx(words[:, 1::2], source[:, 1], scales[:, ::2].view(nl.float8_e8m0fnu))

    arrays = np.zeros((32, 12), numpy_dtype(PACKED[0])), np.zeros((4, 12), np.uint8), x
    words, scales, _ = execute(body, *arrays)
    codes, want = quantize(x[:, 1], PACKED[0], False)
    same(
        words[:, 1::2].copy().view(np.uint8).reshape(32, 24).view(ml_dtypes.float8_e4m3fn),
        codes.view(ml_dtypes.float8_e4m3fn),
    )
    np.testing.assert_array_equal(scales[:, ::2], want)
    np.testing.assert_array_equal(scales[:, 1::2], 0)


def test_quantised_operands_multiply_back_to_about_the_product():
    rng = np.random.default_rng(5)
    a, b = (rng.standard_normal((128, 4 * n)).astype(ml_dtypes.bfloat16) for n in (16, 20))

    def body(psum, one, two):
        words, scales = [], []
        for tile, columns in ((one, 16), (two, 20)):
            words.append(nl.ndarray((128, columns), nl.float8_e4m3fn_x4))
            scales.append(nl.ndarray((128, columns), nl.uint8))
            nisa.quantize_mx(words[-1], tile, scales[-1])
        nisa.nc_matmul_mx(psum, *words, *scales)

    got = execute(body, np.zeros((16, 20), np.float32), a, b, spaces="pss")[0]
    exact = np.einsum("pmq,pnq->mn", a.astype(np.float64).reshape(128, 16, 4), b.astype(np.float64).reshape(128, 20, 4))
    assert np.abs(got - exact).max() < 0.15 * np.sqrt(512)
