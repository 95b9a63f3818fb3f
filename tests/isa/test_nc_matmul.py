"""nc_matmul against an exact sequential model."""

import numpy as np
import pytest
from array_model import double_row, multiply, put
from hypothesis import given
from hypothesis import strategies as st

from emulated import execute, numpy_dtype, random_array, same, simulation
from trn3.nki import isa as nisa
from trn3.nki import language as nl

NARROW = ["bfloat16", "float16", "float8_e5m2", "float8_e4m3", "float8_e4m3fn"]
PAIRS = [(a, b) for a in NARROW for b in NARROW if {a, b} != {"float8_e4m3", "float8_e4m3fn"}] + [
    ("float32", "float32")
]
ROW = nisa.matmul_perf_mode.double_row


def operands(seed, k, m, n, pair, special=False):
    rng = np.random.default_rng(seed)
    return [random_array(rng, shape, name, special) for shape, name in zip([(k, m), (k, n)], pair, strict=True)]


def zero_free(array):
    """The sign of a zero sum is nobody's business."""
    return array + np.zeros((), array.dtype) if array.dtype == np.float32 else array


@pytest.mark.parametrize("pair", PAIRS, ids="-".join)
@pytest.mark.parametrize("dst", ["float32", "bfloat16"])
@pytest.mark.parametrize("special", [False, True], ids=["finite", "special"])
def test_every_pair_of_types(pair, dst, special):
    s, t = operands(1, 128, 24, 40, pair, special)
    d = np.zeros((24, 40), numpy_dtype(dst))
    got = execute(lambda a, b, c: nisa.nc_matmul(a, b, c), d, s, t, spaces="pss")[0]
    same(got, put(d, multiply(s, t), False))


@given(st.data())
def test_any_shape_and_stride(data):
    k, m = data.draw(st.sampled_from([1, 2, 31, 64, 128])), data.draw(st.integers(1, 64))
    n = data.draw(st.sampled_from([1, 7, 33, 250]))
    pair = data.draw(st.sampled_from([("bfloat16", "bfloat16"), ("float8_e4m3fn", "float16"), ("float32", "float32")]))
    s, t = operands(data.draw(st.integers(0, 2**32 - 1)), k, 2 * m, 3 * n, pair)
    d = np.full((m, 2 * n + 1), 7, numpy_dtype(data.draw(st.sampled_from(["float32", "bfloat16"]))))
    s_key, t_key, d_key = np.s_[:, 1::2], np.s_[:, 2::3], np.s_[:, 1::2]

    def body(dst, stationary, moving):
        nisa.nc_matmul(dst[d_key], stationary[s_key], moving[t_key])
        nisa.nc_matmul(dst[d_key], stationary[s_key], moving[t_key])

    want = d.copy()
    result = multiply(s[s_key], t[t_key])
    want[d_key] = put(put(want[d_key], result, False), result, True)
    same(execute(body, d, s, t, spaces="pss")[0], want)


def test_permuted_and_broadcast_operands():
    rng = np.random.default_rng(3)
    s, t = random_array(rng, (16, 3, 5), "bfloat16"), random_array(rng, (16, 4, 6), "bfloat16")
    d = np.zeros((15, 24), np.float32)

    def body(dst, column, stationary, moving):
        nisa.nc_matmul(dst, stationary.permute((0, 2, 1)), moving.permute((0, 2, 1)))
        nisa.nc_matmul(column, stationary.permute((0, 2, 1)), moving[:, 0:1, 2:3].broadcast(1, 6))

    got = execute(body, d, np.zeros((15, 6), np.float32), s, t, spaces="ppss")
    turned = s.transpose(0, 2, 1).reshape(16, 15)
    same(got[0], multiply(turned, t.transpose(0, 2, 1).reshape(16, 24)))
    same(got[1], multiply(turned, np.repeat(t[:, 0, 2:3], 6, 1)))


def test_backwards_operands():
    s, t = operands(5, 8, 6, 10, ("bfloat16", "bfloat16"))
    backwards = lambda tile, n: tile.ap([[n, 8], [-1, n]], offset=n - 1)  # noqa: E731

    def body(dst, stationary, moving):
        nisa.nc_matmul(dst, backwards(stationary, 6), backwards(moving, 10))

    got = execute(body, np.zeros((6, 10), np.float32), s, t, spaces="pss")[0]
    same(got, multiply(s[:, ::-1], t[:, ::-1]))


@pytest.mark.parametrize("pair", [(a, b) for a, b in PAIRS if "float8" in a and "float8" in b], ids="-".join)
def test_double_row(pair):
    rng = np.random.default_rng(8)
    s, t = random_array(rng, (128, 2, 20), pair[0], False), random_array(rng, (128, 2, 30), pair[1], False)
    d = np.zeros((20, 30), np.float32)

    def body(dst, stationary, moving):
        nisa.nc_matmul(dst, stationary, moving, perf_mode=ROW)

    same(execute(body, d, s, t, spaces="pss")[0], double_row(s, t))


def test_double_row_on_slices():
    rng = np.random.default_rng(9)
    s, t = (random_array(rng, (64, 3, 40), "float8_e5m2", False) for _ in range(2))

    def body(dst, stationary, moving):
        nisa.nc_matmul(dst, stationary[:, ::2, 1::2], moving[:, 1:3, ::4], perf_mode=ROW)

    got = execute(body, np.zeros((20, 10), np.float32), s, t, spaces="pss")[0]
    same(got, double_row(s[:, ::2, 1::2], t[:, 1:3, ::4]))


@pytest.mark.parametrize("dst", ["float32", "bfloat16"])
def test_accumulate_none_overwrites_first_and_adds_later_window_by_window(dst):
    """The overlapping windows of a convolution: each element is added to where a product has been, else replaced."""
    s, t = operands(10, 32, 16, 12, ("bfloat16", "bfloat16"))
    d = np.full((16, 30), np.nan, numpy_dtype(dst))
    starts = [0, 9, 18, 3, 13]

    def body(psum, stationary, moving):
        for at in starts:
            nisa.nc_matmul(psum[:, at : at + 12], stationary, moving)

    want, seen, result = d.copy(), np.zeros(30, bool), multiply(s, t)
    for at in starts:
        window = np.s_[:, at : at + 12]
        # To what no product has written, the sum is added as if it were -0.
        before = np.where(seen[at : at + 12], want[window].astype(np.float32), np.float32(-0.0)).astype(d.dtype)
        want[window] = put(before, result, True)
        seen[at : at + 12] = True
    for options in ({}, {"eager": True}):
        same(execute(body, d, s, t, spaces="pss", **options)[0], want)


def test_accumulate_true_and_false():
    s, t = operands(11, 16, 8, 20, ("float16", "float16"))

    def body(psum, stationary, moving):
        nisa.nc_matmul(psum, stationary, moving, accumulate=False)
        nisa.nc_matmul(psum, stationary, moving, accumulate=True)
        nisa.nc_matmul(psum[:, 0:10], stationary, moving[:, 0:10], accumulate=False)

    result = multiply(s, t)
    want = put(result, result, True)
    want[:, :10] = result[:, :10]
    same(execute(body, np.zeros((8, 20), np.float32), s, t, spaces="pss")[0], want)


def test_psum_zeroed_by_memset_then_accumulated_is_zero_plus_product_and_a_finding():
    s, t = operands(12, 16, 8, 20, ("float16", "float16"))

    def body(psum, stationary, moving):
        nisa.memset(psum, 0.0)
        nisa.nc_matmul(psum, stationary, moving, accumulate=True)
        nisa.nc_matmul(psum, stationary, moving, accumulate=True)

    simulated, got = simulation(body, np.full((8, 20), 3, np.float32), s, t, spaces="pss")
    result = multiply(s, t)
    same(zero_free(got[0]), zero_free(put(result, result, True)))
    (finding,) = [f for f in simulated.findings if f["rule"] == "matmul.accumulate_unwritten"]
    assert finding["file"] == __file__
    assert finding["instruction"] == "nc_matmul"


def test_other_engines_writes_do_not_count_as_products():
    s, t = operands(13, 16, 8, 20, ("float16", "float16"))

    def body(psum, stationary, moving):
        nisa.memset(psum, 5.0)
        nisa.nc_matmul(psum, stationary, moving)
        nisa.tensor_scalar(psum, psum, nl.multiply, 2.0)
        nisa.nc_matmul(psum, stationary, moving)

    result = multiply(s, t)
    same(execute(body, np.zeros((8, 20), np.float32), s, t, spaces="pss")[0], put(2 * result, result, True))


@pytest.mark.parametrize("rows", [32, 64, 128])
@pytest.mark.parametrize("columns", [32, 64, 128])
def test_tiles_of_the_array(rows, columns):
    s, t = operands(14, 128, 128, 16, ("bfloat16", "bfloat16"))

    def body(psum, stationary, moving):
        for row in range(0, 128, rows):
            for column in range(0, 128, columns):
                k, m = slice(row, row + rows), slice(column, column + columns)
                nisa.nc_matmul(
                    psum[m, row // rows],
                    stationary[k, m],
                    moving[k],
                    tile_position=(row, column),
                    tile_size=(rows, columns),
                )

    simulated, got = simulation(body, np.zeros((128, 128 // rows, 16), np.float32), s, t, spaces="pss")
    for at, row in enumerate(range(0, 128, rows)):
        same(got[0][:, at].copy(), multiply(s[row : row + rows], t[row : row + rows]))
    assert simulated.findings == []


def test_one_zero_hints_change_no_value():
    s, t = operands(15, 64, 64, 30, ("float32", "float32"))
    s = (s > 0).astype(np.float32)

    def body(psum, stationary, moving):
        nisa.nc_matmul(psum, stationary, moving, is_stationary_onezero=True, is_moving_onezero=True)

    same(execute(body, np.zeros((64, 30), np.float32), s, t, spaces="pss")[0], multiply(s, t))


def test_a_full_array_of_4096_columns():
    s, t = operands(16, 128, 128, 4096, ("bfloat16", "bfloat16"))

    def body(psum, stationary, moving):
        nisa.nc_matmul(psum, stationary, moving)

    got = execute(body, np.zeros((128, 4096), np.float32), s, t, spaces="pss")[0]
    columns = [0, 1, 511, 512, 2049, 4095]
    same(got[:, columns].copy(), multiply(s, t[:, columns]))


def test_tfloat32_operands_use_their_upper_bits():
    s, t = operands(17, 32, 8, 8, ("float32", "float32"))

    def body(psum, stationary, moving):
        one, two = nl.copy(stationary, dtype=nl.tfloat32), nl.copy(moving, dtype=nl.tfloat32)
        nisa.nc_matmul(psum, one, two)

    def rounded(x):
        u = x.view(np.uint32).astype(np.uint64)
        return (
            ((u + 0xFFF + (u >> np.uint64(13) & np.uint64(1))) & np.uint64(0xFFFFE000))
            .astype(np.uint32)
            .view(np.float32)
        )

    got = execute(body, np.zeros((8, 8), np.float32), s, t, spaces="pss")[0]
    exact = rounded(s).astype(np.float64).T @ rounded(t).astype(np.float64)
    bound = 33 * 2.0**-24 * (np.abs(rounded(s)).astype(np.float64).T @ np.abs(rounded(t)))
    assert (np.abs(got - exact) <= bound).all()


def test_bfloat16_view_of_float32_psum_in_overlapping_windows():
    s, t = operands(18, 16, 8, 12, ("bfloat16", "bfloat16"))

    def body(psum, stationary, moving):
        half = psum.view(nl.bfloat16)
        nisa.nc_matmul(half[:, 0:12], stationary, moving)
        nisa.nc_matmul(half[:, 6:18], stationary, moving)

    got = execute(body, np.full((8, 16), np.nan, np.float32), s, t, spaces="pss")[0].view(numpy_dtype("bfloat16"))
    result = multiply(s, t)
    want = put(np.zeros((8, 12), numpy_dtype("bfloat16")), result, False)
    same(got[:, 12:18].copy(), want[:, 6:].copy())
