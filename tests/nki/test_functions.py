"""Functions of nki.language that are made of several instructions, and Python forms that only simulators take."""

import ml_dtypes
import numpy as np
import pytest

from emulated import cast, fp32
from trn3 import errors, nki
from trn3.nki import isa as nisa
from trn3.nki import language as nl

RNG = np.random.default_rng(17)
X = RNG.standard_normal((8, 6, 10)).astype(np.float32)
Y = RNG.standard_normal((8, 6, 10)).astype(np.float32)


def simulation(function, *arrays, **options):
    def kernel(*tensors):
        made = function(*[nl.load(t) for t in tensors])
        out = nl.ndarray(made.shape, made.dtype, buffer=nl.shared_hbm)
        nl.store(out, made)
        return out

    simulated = nki.simulate(kernel, **options)
    return simulated, simulated(*arrays)


def result(function, *arrays, **options):
    return simulation(function, *arrays, **options)[1]


def findings(function, *arrays):
    return {finding["rule"] for finding in simulation(function, *arrays)[0].findings}


def refused(function, *arrays, **options):
    with pytest.raises(errors.Trn3Error) as caught:
        result(function, *arrays, **options)
    return caught.value.rule


@pytest.mark.parametrize(
    ("name", "reference"),
    [
        ("sin", np.sin),
        ("cos", np.cos),
        ("tan", np.tan),
        ("rsqrt", lambda x: 1 / np.sqrt(x)),
        ("reciprocal", np.reciprocal),
    ],
)
def test_functions_of_any_number(name, reference):
    x = np.abs(X.reshape(8, 60) * 50) + np.float32(0.01)
    want = reference(x.astype(np.float64))
    np.testing.assert_allclose(result(getattr(nl, name), x), want, rtol=1.2e-7, atol=1e-7)


@pytest.mark.parametrize("name", ["floor", "ceil", "trunc"])
def test_roundings_are_exact(name):
    x = np.array(
        [[-2.5, -2.0, -0.5, -0.0, 0.0, 0.5, 2.0, 2.5, 1e30, -1e30, 8388609.5, np.inf, -np.inf, np.nan]], np.float32
    )
    np.testing.assert_array_equal(result(getattr(nl, name), x), getattr(np, name)(x))


def test_remainders_have_the_sign_of_one_operand():
    x = np.array([[5.5, -5.5, 5.5, -5.5, 6.0, -6.0, 0.0, 1.0]], np.float32)
    y = np.array([[2.0, 2.0, -2.0, -2.0, 2.0, 2.0, -3.0, np.inf]], np.float32)
    for name in ("fmod", "mod", "divide"):
        got = result(getattr(nl, name), x, y)
        want = getattr(np, name)(x, y)
        np.testing.assert_array_equal(got, want)
        assert findings(getattr(nl, name), x, y) == {"operand.simulator_only"}
        assert refused(getattr(nl, name), x, y, checks="hardware") == "operand.simulator_only"


@pytest.mark.parametrize("axis", [-1, 2, (1, 2), [1, 2]])
@pytest.mark.parametrize("dtype", [None, "bfloat16"])
def test_norms_and_means(axis, dtype):
    axes = tuple(a % 3 for a in ([axis] if isinstance(axis, int) else axis))
    kind = getattr(nl, dtype) if dtype else None
    x64 = X.astype(np.float64)
    kept = X.mean(axis=axes, keepdims=True).shape
    rtol = 1e-2 if dtype else 2e-6
    atol = 1e-2 if dtype else 1e-6

    def close(got, want):
        assert got.dtype == (kind or np.float32)
        np.testing.assert_allclose(fp32(got).reshape(-1), np.asarray(want).reshape(-1), rtol=rtol, atol=atol)

    close(result(lambda a: nl.mean(a, axis, kind), X), x64.mean(axis=axes))
    assert result(lambda a: nl.mean(a, axis, kind, keepdims=True), X).shape == kept
    got = result(lambda a: nl.var(a, axis, kind), X)
    assert got.shape == kept
    close(got, x64.var(axis=axes))
    e = np.exp(x64 - x64.max(axis=axes, keepdims=True))
    close(result(lambda a: nl.softmax(a, axis, kind), X), e / e.sum(axis=axes, keepdims=True))
    n = int(np.prod([X.shape[a] for a in axes]))
    scale = np.sqrt((x64**2).sum(axis=axes, keepdims=True) / n + 1e-3)
    close(result(lambda a, w: nl.rms_norm(a, w, axis, n, 1e-3, kind), X, Y), x64 / scale * Y)


def test_softmax_of_whole_rows_sums_on_scalar_engine():
    simulated, got = simulation(lambda a: nl.softmax(a, 1), X.reshape(8, 60))
    np.testing.assert_allclose(got.sum(axis=1), 1, rtol=1e-6)
    assert "activation_reduce" in simulated.program.opcodes()


def test_all_is_a_truth_value():
    x = np.array([[1, 1, 2, 1], [1, 0, 1, 1]], np.float32)
    np.testing.assert_array_equal(result(lambda a: nl.all(a, 1), x), [[1.0], [0.0]])


def test_where_takes_tiles_and_numbers():
    condition = (X > 0).astype(np.float32)
    np.testing.assert_array_equal(result(nl.where, condition, X, Y), np.where(X > 0, X, Y))
    np.testing.assert_array_equal(result(lambda c, a: nl.where(c, a, -1.0), condition, X), np.where(X > 0, X, -1))
    np.testing.assert_array_equal(result(lambda c, a: nl.where(c, 2.0, a), condition, X), np.where(X > 0, 2, X))
    got = result(lambda c, a: nl.where(c, a, 0.0, nl.bfloat16), condition, X)
    np.testing.assert_array_equal(got, cast(np.where(X > 0, X, 0), "bfloat16"))


def test_logical_not():
    x = np.array([[0, 1, 1, 0]], np.float32)
    np.testing.assert_array_equal(result(nl.logical_not, x), 1 - x)


@pytest.mark.parametrize("dtype", ["float32", "bfloat16", "float8_e5m2", "int8", "uint32"])
@pytest.mark.parametrize(
    ("shape", "to"), [((1, 700), (128, 700)), ((1, 1), (5, 3)), ((8, 1), (8, 40)), ((8, 1, 5), (8, 3, 5))]
)
def test_broadcasts(dtype, shape, to):
    kind = np.dtype(getattr(ml_dtypes, dtype, None) or dtype)
    x = RNG.integers(0, 100, shape).astype(kind)
    np.testing.assert_array_equal(result(lambda a: nl.broadcast_to(a, to), x), np.broadcast_to(x, to))


def test_expand_dims_is_a_view():
    assert result(lambda a: nl.expand_dims(a, 1), X.reshape(8, 60)).shape == (8, 1, 60)


def test_device_print_runs_the_kernel(capsys):
    def kernel(x):
        nl.device_print("tile", nl.load(x))
        return x

    nki.simulate(kernel)(np.full((1, 2), 3, np.float32))
    assert capsys.readouterr().out == "tile [[3. 3.]]\n"


def test_constants_come_from_files(tmp_path):
    np.save(tmp_path / "c.npy", X.reshape(8, 60))

    def kernel(x):
        out = nl.ndarray((8, 60), nl.float32, buffer=nl.shared_hbm)
        nl.store(out, nl.load(nl.shared_constant(str(tmp_path / "c.npy"))))
        return out

    np.testing.assert_array_equal(nki.simulate(kernel)(X), X.reshape(8, 60))


def test_an_identity_may_have_a_place():
    def kernel(x):
        out = nl.ndarray((8, 8), nl.bfloat16, buffer=nl.shared_hbm)
        place = nl.ndarray((8, 8), nl.bfloat16)
        assert nl.shared_identity_matrix(8, dst=place) is place
        nl.store(out, place)
        return out

    np.testing.assert_array_equal(fp32(nki.simulate(kernel)(X)), np.eye(8))


def test_operators_that_are_no_functions_say_so():
    for name in ("prelu", "bypass", "average"):
        assert refused(lambda a, n=name: getattr(nl, n)(a), X) == "language.operator"


def test_no_reorder_holds_straight_code():
    def straight(a):
        with nl.no_reorder():
            return nl.add(a, 1.0)

    np.testing.assert_array_equal(result(straight, X), X + 1)

    def loop(a):
        with nl.no_reorder():
            for _ in nl.dynamic_range(2):
                nisa.memset(a, 0.0)
        return a

    assert refused(loop, X) == "loop.no_reorder"


# What simulators take and the device does not ------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("function", "arrays", "want", "rule"),
    [
        (nl.add, (X, Y[:, :1]), X + Y[:, :1], "language.broadcast"),
        (nl.multiply, (X[:1], Y), X[:1] * Y, "language.broadcast"),
        (lambda a: a.reshape((16, 30)), (X.reshape(8, 60),), X.reshape(16, 30), "tensor.reshape_partitions"),
    ],
)
def test_forms_of_numpy_are_findings(function, arrays, want, rule):
    np.testing.assert_array_equal(result(function, *arrays), want)
    assert findings(function, *arrays) == {rule}
    assert refused(function, *arrays, checks="hardware") == rule


def test_ufuncs_as_operators_are_findings():
    def call(a, b):
        tile = nl.ndarray(a.shape, a.dtype)
        nisa.tensor_tensor(tile, a, b, np.add)
        nisa.activation(tile, np.exp, tile)
        return tile

    np.testing.assert_allclose(result(call, X, Y), np.exp(X + Y), rtol=1e-6)
    assert findings(call, X, Y) == {"argument.ufunc"}
    assert refused(call, X, Y, checks="hardware") == "argument.ufunc"


def test_assignments_are_findings():
    def call(a, b):
        a[:, 0:3] = b[:, 0:3]
        a[:, 5:6] = 2.0
        return a

    want = X.copy()
    want[:, 0:3], want[:, 5] = Y[:, 0:3], 2
    np.testing.assert_array_equal(result(call, X, Y), want)
    assert findings(call, X, Y) == {"tensor.assignment"}
    assert refused(call, X, Y, checks="hardware") == "tensor.assignment"


def test_tiles_that_do_not_fit_are_refused():
    assert refused(nl.add, X, Y[:, :2]) == "operand.shape_match"


def test_a_tile_is_true_where_all_of_it_is():
    def kernel(x):
        tile = nl.load(x)
        assert nl.equal(tile, tile)
        assert not nl.equal(tile, 5.0)
        return x

    nki.simulate(kernel)(X.reshape(8, 60))


def test_an_argument_is_in_either_kind_of_hbm():
    def kernel(x):
        assert x.buffer == nl.hbm
        assert x.buffer == nl.shared_hbm
        assert x.buffer in (nl.hbm, nl.private_hbm)
        assert nl.is_hbm(x.buffer)
        assert x.buffer != nl.sbuf
        assert nl.ndarray((1, 4), nl.float32, buffer=nl.shared_hbm).buffer != nl.hbm
        assert nl.empty_like(x).buffer == nl.shared_hbm
        return x

    nki.simulate(kernel)(X)
