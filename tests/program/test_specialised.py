"""Device values that Python asks for while recording, and eager runs: the same bits as the plain form."""

import numpy as np
import pytest

import trn3
from trn3 import errors, nki
from trn3.nki import isa as nisa
from trn3.nki import language as nl

rng = np.random.default_rng(0)
X = rng.standard_normal((32, 48)).astype(np.float32)


def work(x, look=lambda tile: None):
    """A bit of everything that carries state: PSUM, the accumulator, windows, unwritten data."""
    tile = nl.load(x)
    half = nl.copy(tile, dtype=nl.bfloat16)
    look(tile)
    product = nl.ndarray((48, 60), nl.float32, buffer=nl.psum)
    nisa.nc_matmul(product[:, 0:48], half, half)
    look(half[0, 0])
    nisa.nc_matmul(product[:, 12:60], half, half)
    sums = nl.ndarray((48, 1), nl.float32)
    soft = nl.ndarray((48, 60), nl.float16)
    nisa.activation(
        soft, nl.exp, product, scale=0.01, reduce_op=nl.add, reduce_cmd=nisa.reduce_cmd.reset_reduce, reduce_res=sums
    )
    look(sums)
    nisa.tensor_scalar(soft, soft, nl.multiply, sums)
    partial = nl.ndarray((48, 60), nl.float16)
    nisa.tensor_copy(partial[:, 0:40], soft[:, 0:40])
    out = nl.ndarray((48, 60), nl.float16, buffer=nl.shared_hbm)
    nl.store(out, partial)
    look(out)
    return out


def bits(array):
    return array.view(f"u{array.itemsize}")


@pytest.mark.parametrize(
    "ask",
    [
        repr,
        str,
        bool,
        np.asarray,
        lambda t: float(t[0, 0] if t.size > 1 else t),
        lambda t: int(t[0, 0]),
        lambda t: np.asarray(t, np.float64),
    ],
)
def test_looking_changes_nothing(ask):
    plain = nki.simulate(lambda x: work(x))
    want = plain(X)
    assert not plain.program.specialised

    def look(tile):
        if ask is bool:
            assert bool(tile[0, 0] if tile.ndim > 1 else tile) in (True, False)
        elif ask is np.asarray:
            assert ask(tile).shape == tile.shape
        else:
            ask(tile)

    looking = nki.simulate(lambda x: work(x, look))
    got = looking(X)
    np.testing.assert_array_equal(bits(got), bits(want))
    assert looking.program.specialised
    assert [f["rule"] for f in looking.findings] == [f["rule"] for f in plain.findings]
    assert [f["line"] for f in looking.findings] == [f["line"] for f in plain.findings]


def test_eager_is_the_same():
    want = nki.simulate(lambda x: work(x))(X)
    eager = nki.simulate(lambda x: work(x), eager=True)
    for _ in range(2):
        np.testing.assert_array_equal(bits(eager(X)), bits(want))


@pytest.mark.parametrize("seed", [0, 1, 2**64 - 1])
def test_stochastic_rounding_is_the_same_in_every_form(seed):
    options = {"stochastic_rounding": True, "seed": seed}
    plain, eager = nki.simulate(lambda x: work(x), **options), nki.simulate(lambda x: work(x), eager=True, **options)
    looking = nki.simulate(lambda x: work(x, repr), **options)
    want = plain(X)
    for form in (plain, eager, looking):
        np.testing.assert_array_equal(bits(form(X)), bits(want))
    assert not np.array_equal(bits(want), bits(nki.simulate(lambda x: work(x))(X)))


def test_values_decide_python_branches_each_time():
    calls = []

    @nki.jit
    def kernel(x):
        tile = nl.load(x)
        total = nl.sum(tile, axis=1)
        calls.append(float(total[0, 0]))
        if float(total[0, 0]) > 0:
            tile = nl.multiply(tile, 2.0)
        nl.store(x, tile)
        return x

    np.testing.assert_array_equal(kernel(np.ones((1, 4), np.float32)), 2 * np.ones((1, 4)))
    np.testing.assert_array_equal(kernel(-np.ones((1, 4), np.float32)), -np.ones((1, 4)))
    assert calls == [4.0, -4.0]


def test_numpy_sees_every_dtype():
    seen = []

    def kernel(x):
        tile = nl.load(x)
        for dtype in (nl.float32, nl.bfloat16, nl.float8_e4m3fn, nl.int8, nl.uint32, nl.bool_):
            seen.append(np.asarray(nl.copy(tile, dtype=dtype)))
            assert seen[-1].dtype == dtype
        return x

    nki.simulate(kernel)(np.ones((2, 3), np.float32))
    for array in seen:
        np.testing.assert_array_equal(array.astype(np.float32), np.ones((2, 3)))


def test_what_numpy_was_given_is_a_copy():
    def kernel(x):
        tile = nl.load(x)
        before = np.asarray(tile)
        nisa.memset(tile, 7.0)
        before[...] = 3
        assert (np.asarray(tile) == 7).all()
        assert (before == 3).all()
        nl.store(x, tile)
        return x

    np.testing.assert_array_equal(nki.simulate(kernel)(np.ones((2, 3), np.float32)), np.full((2, 3), 7))


@pytest.mark.parametrize("eager", [False, True])
@pytest.mark.parametrize("look", [lambda t: None, repr])
def test_inputs_are_written_in_every_form_and_layout(eager, look):
    def kernel(x):
        tile = nl.load(x)
        look(tile)
        nl.store(x, nl.add(tile, 1.0))
        look(x)
        return x

    for array in (
        np.zeros((4, 6), np.float32),
        np.zeros((4, 12), np.float32)[:, ::2],
        np.zeros((6, 4), np.float32).T,
        np.zeros((8, 6), np.float32)[::-2],
    ):
        result = nki.simulate(kernel, eager=eager)(array)
        assert result is array
        np.testing.assert_array_equal(array, np.ones((4, 6)))


def test_a_specialised_program_is_not_used_again(tmp_path):
    def kernel(x):
        tile = nl.load(x)
        out = nl.ndarray(x.shape, x.dtype, buffer=nl.shared_hbm)
        nl.store(out, nl.multiply(tile, float(tile[0:1, 0:1])))
        return out

    x = np.full((4, 8), 3.0, np.float32)
    run = trn3.run(kernel, x)
    assert run.program.specialised
    assert (run.result == 9).all()
    for again in (lambda: trn3.Chip("trn3").run(run.program, [5 * x]), lambda: run.program.save(tmp_path / "p")):
        with pytest.raises(errors.RuleError) as caught:
            again()
        assert caught.value.rule == "program.specialised"
