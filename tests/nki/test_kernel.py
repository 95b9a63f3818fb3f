"""Kernels as Python sees them: arguments, results, options, targets, activate()."""

import doctest
import os
import subprocess
import sys
import textwrap
from collections import namedtuple
from pathlib import Path

import ml_dtypes
import numpy as np
import pytest

from trn3 import errors, nki
from trn3.nki import isa as nisa
from trn3.nki import language as nl

X = np.arange(32, dtype=np.float32).reshape(4, 8)


def double(x):
    tile = nl.load(x)
    out = nl.ndarray(x.shape, x.dtype, buffer=nl.shared_hbm)
    nl.store(out, nl.multiply(tile, 2.0))
    return out


def test_layouts_of_inputs():
    base = np.arange(128, dtype=np.float32).reshape(8, 16)
    read_only = base.copy()
    read_only.flags.writeable = False
    misaligned = np.frombuffer(b"\0" + base.tobytes(), np.uint8)[1:].view(np.float32).reshape(8, 16)
    for array in (
        base,
        base[::2, ::3],
        base.T,
        np.asfortranarray(base),
        base[::-1, ::-1],
        read_only,
        np.broadcast_to(base[0], (3, 16)),
        misaligned,
        base[:, 3:4],
        np.ndarray.view(base, np.matrix),
    ):
        for simulated in (nki.simulate(double), nki.simulate(double, eager=True)):
            before = np.array(array)
            np.testing.assert_array_equal(simulated(array), before * 2)
            np.testing.assert_array_equal(array, before)


@pytest.mark.parametrize(
    "array",
    [
        X.astype(">f4"),
        X.astype(np.float64),
        X.astype(np.int64),
        X.astype(object),
        X.astype("S3"),
        X.astype(np.complex64),
        np.array(["a"]),
        np.zeros(3, [("a", "f4")]),
        np.array(["2020"], "M8[D]"),
    ],
    ids=lambda a: str(a.dtype),
)
def test_data_types_that_the_device_does_not_have(array):
    with pytest.raises(errors.RuleError) as caught:
        nki.simulate(double)(array)
    assert caught.value.rule == "kernel.argument"
    assert caught.value.operand == "x"
    assert str(array.dtype) in str(caught.value)


@pytest.mark.parametrize("shape", [(0,), (3, 0), (0, 3)])
def test_empty_arrays(shape):
    with pytest.raises(errors.RuleError) as caught:
        nki.simulate(double)(np.zeros(shape, np.float32))
    assert caught.value.rule == "tensor.shape"


def test_too_many_or_no_dimensions():
    for shape in ((), (1,) * 6):
        with pytest.raises(errors.RuleError, match=r"tensor\.shape"):
            nki.simulate(double)(np.zeros(shape, np.float32))


def test_missing_and_extra_arguments():
    with pytest.raises(TypeError):
        nki.simulate(double)()
    with pytest.raises(TypeError):
        nki.simulate(double)(X, X)
    with pytest.raises(TypeError):
        nki.simulate(double)(X, nonsense=1)


def test_defaults_keywords_and_structures():
    @nki.jit
    def kernel(x, scale=2.0, *rest, shift=0.0, more=None, **named):
        tile = nl.load(x)
        nisa.tensor_scalar(tile, tile, nl.multiply, scale, False, nl.add, shift)
        for other in [*rest, *(more or ()), *named.values()]:
            tile = nl.add(tile, nl.load(other))
        out = nl.ndarray(x.shape, x.dtype, buffer=nl.shared_hbm)
        nl.store(out, tile)
        return out

    np.testing.assert_array_equal(kernel(X), X * 2)
    np.testing.assert_array_equal(kernel(X, 3), X * 3)
    np.testing.assert_array_equal(kernel(x=X, scale=1.0, shift=5), X + 5)
    np.testing.assert_array_equal(kernel(X, 1.0, X, X), X * 3)
    np.testing.assert_array_equal(kernel(X, 1.0, more=(X, X)), X * 3)
    np.testing.assert_array_equal(kernel(X, 1.0, more=[X]), X * 2)
    np.testing.assert_array_equal(kernel(X, 1.0, one=X, two=X + 1), X * 3 + 1)


Pair = namedtuple("Pair", "first second")


def test_structures_of_arguments_and_results():
    def kernel(pair, table):
        assert isinstance(pair, Pair)
        out = double(pair.first)
        return Pair(out, {"a": [out, pair.second], "b": (table["k"], None, 3, "text")})

    x, y, z = X.copy(), X + 1, X + 2
    got = nki.simulate(kernel)(Pair(x, y), {"k": z})
    assert isinstance(got, Pair)
    np.testing.assert_array_equal(got.first, X * 2)
    assert got.second["a"][0] is got.first
    assert got.second["a"][1] is y
    assert got.second["b"][0] is z
    assert got.second["b"][1:] == (None, 3, "text")


def test_no_result_one_result_many():
    assert nki.simulate(lambda x: None)(X) is None
    assert nki.simulate(lambda x: (1, "a"))(X) == (1, "a")
    assert nki.simulate(lambda x: [x])(X)[0] is X


def test_reshaped_and_reinterpreted_results():
    def kernel(x):
        out = double(x)
        return out.reshape((8, 4)), out.view(nl.uint32), out, x.reshape((32,))

    shaped, words, plain, flat = nki.simulate(kernel)(X)
    np.testing.assert_array_equal(shaped, (X * 2).reshape(8, 4))
    np.testing.assert_array_equal(words, (X * 2).view(np.uint32))
    np.testing.assert_array_equal(plain, X * 2)
    np.testing.assert_array_equal(flat, X.reshape(-1))


@pytest.mark.parametrize(
    "view",
    [
        lambda t: t[0:2],
        lambda t: t[:, 0:4],
        lambda t: t[2:4],
        lambda t: t.permute((1, 0)),
        lambda t: t[0:1].broadcast(0, 4),
        lambda t: t.ap([[8, 2], [1, 8]]),
    ],
)
def test_parts_of_tensors_are_no_results(view):
    with pytest.raises(errors.RuleError, match=r"kernel\.output_view"):
        nki.simulate(lambda x: view(double(x)))(X)


def test_kernels_call_kernels_and_methods_are_kernels():
    inner = nki.jit(double)

    class Model:
        factor = 3.0

        @nki.jit
        def run(self, x, y=None):
            tile = nl.load(inner(x))
            nisa.tensor_scalar(tile, tile, nl.multiply, self.factor)
            nl.store(x, tile)
            return x

    assert Model().run(X.copy()).tolist() == (X * 6).tolist()
    assert Model().run(x=X.copy()).tolist() == (X * 6).tolist()
    simulated = nki.simulate(lambda x: nki.simulate(double)(inner(x)))
    np.testing.assert_array_equal(simulated(X), X * 4)


def test_generators_async_and_other_callables():
    class Callable:
        def __call__(self, x):
            return double(x)

    np.testing.assert_array_equal(nki.simulate(Callable())(X), X * 2)
    import functools

    np.testing.assert_array_equal(nki.simulate(functools.partial(double))(X), X * 2)


def test_a_kernel_that_raises_keeps_its_own_error():
    def kernel(x):
        raise ZeroDivisionError("mine")

    with pytest.raises(ZeroDivisionError, match="mine"):
        nki.simulate(kernel)(X)
    np.testing.assert_array_equal(nki.simulate(double)(X), X * 2)


def test_errors_can_be_caught_inside_of_a_kernel():
    def kernel(x):
        tile = nl.load(x)
        with pytest.raises(errors.RuleError):
            nisa.memset(tile, "a")
        with pytest.raises(errors.RuleError):
            nisa.nc_matmul(tile, tile, tile)
        nl.store(x, tile)
        return x

    simulated = nki.simulate(kernel)
    np.testing.assert_array_equal(simulated(X.copy()), X)
    assert simulated.program.opcodes() == ["dma_copy", "dma_copy"]


@pytest.mark.parametrize("eager", [False, True])
def test_a_read_only_argument_that_the_kernel_writes(eager):
    def kernel(x):
        nl.store(x, nl.multiply(nl.load(x), 2.0))
        return x

    array = X.copy()
    array.flags.writeable = False
    with pytest.raises(errors.RuleError, match=r"kernel\.input_writable"):
        nki.simulate(kernel, eager=eager)(array)
    np.testing.assert_array_equal(array, X)


def test_results_do_not_share_memory_with_the_program():
    simulated = nki.simulate(double)
    first = simulated(X)
    kept = first.copy()
    simulated(X + 1)
    np.testing.assert_array_equal(first, kept)
    assert first.flags.owndata and first.flags.writeable


# Options and targets -------------------------------------------------------------------------------------------------


def test_jit_options():
    made = nki.jit(mode="simulation", platform_target="trn2", checks="documented")(double)
    assert made.options.target == "trn2"
    assert made.options.checks == "documented"
    np.testing.assert_array_equal(made(X), X * 2)
    assert made.last.table.name == "trn2"
    assert made.__name__ == "double"
    assert nki.jit(nki.jit(double)).func is double
    with pytest.raises(TypeError):
        nki.jit(double, nonsense=1)


@pytest.mark.parametrize("version", ["0.7", "1.0", "0.0", "0", "six", "", "0.-1", "0.3.1"])
def test_versions(version):
    with pytest.raises(errors.RuleError, match=r"options\.nki_version"):
        nki.simulate(double, nki_version=version)(X)


@pytest.mark.parametrize("options", [{"checks": "nonsense"}, {"seed": -1}, {"seed": 2**64}, {"seed": 1.5}])
def test_other_options_that_make_no_sense(options):
    with pytest.raises((ValueError, OverflowError, TypeError)):
        nki.simulate(double, **options)(X)


def test_grid():
    made = nki.jit(double)
    np.testing.assert_array_equal(made[1](X), X * 2)
    np.testing.assert_array_equal(made[(1, 1)](X), X * 2)
    np.testing.assert_array_equal(nki.simulate(made)[1](X), X * 2)
    for grid in (3, (1, 2), 0, -1):
        with pytest.raises(errors.RuleError, match=r"kernel\.grid"):
            made[grid]


@pytest.mark.parametrize(
    ("name", "target"),
    [
        ("trn1", "trn1"),
        ("gen2", "trn1"),
        ("inf2", "inf2"),
        ("trn2", "trn2"),
        ("gen3", "trn2"),
        ("trn3", "trn3"),
        ("gen4", "trn3"),
        ("TRN2", "trn2"),
        (" trn3 ", "trn3"),
    ],
)
@pytest.mark.parametrize("variable", ["NEURON_PLATFORM_TARGET_OVERRIDE", "NKI_NC_VERSION"])
def test_the_environment_chooses_the_target(monkeypatch, variable, name, target):
    monkeypatch.setenv(variable, name)
    simulated = nki.simulate(double)
    simulated(X)
    assert simulated.program.target == target
    assert simulated.findings == []
    simulated = nki.simulate(double, target="trn3")
    simulated(X)
    assert simulated.program.target == "trn3"


@pytest.mark.parametrize(
    ("name", "target"),
    [
        ("trn3pre", "trn3"),
        ("trn3_a0", "trn3"),
        ("TRN2u", "trn2"),
        ("trn2.48xlarge", "trn2"),
        ("inf2.xlarge", "inf2"),
        ("trn1n", "trn1"),
        ("gen4-pre", "trn3"),
    ],
)
def test_other_spellings_are_taken_and_said(monkeypatch, name, target):
    made = nki.simulate(double)
    made(X)
    assert made.findings == []
    monkeypatch.setenv("NKI_NC_VERSION", name)
    for _ in range(2):
        made(X)
        assert made.program.target == target
        assert [f["rule"] for f in made.findings] == ["target.spelling"]
        assert f"{name} is taken as {target}" in made.findings[0]["message"]
    # The Program is kept under its table; the finding belongs to the call.
    monkeypatch.setenv("NKI_NC_VERSION", target)
    made(X)
    assert made.findings == []


def test_the_first_variable_wins(monkeypatch):
    monkeypatch.setenv("NKI_NC_VERSION", "gen2")
    monkeypatch.setenv("NEURON_PLATFORM_TARGET_OVERRIDE", "trn2")
    simulated = nki.simulate(double)
    simulated(X)
    assert simulated.program.target == "trn2"


@pytest.mark.parametrize(("target", "generation"), [("trn1", 2), ("inf2", 2), ("trn2", 3), ("trn3", 4)])
def test_the_generation_follows_the_target(monkeypatch, target, generation):
    seen = []

    def kernel(x):
        seen.append((nisa.get_nc_version(), nl.tile_size.sbuf_size_bytes))
        return x

    sizes = {2: 24 << 20, 3: 28 << 20, 4: 32 << 20}
    nki.simulate(kernel, target=target)(X)
    assert seen == [(nisa.nc_version(generation), sizes[generation])]
    monkeypatch.setenv("NEURON_PLATFORM_TARGET_OVERRIDE", target)
    assert nisa.get_nc_version() == nisa.nc_version(generation)
    assert nl.tile_size.sbuf_size_bytes == sizes[generation]


def test_platform_target_is_said_to_be_removed():
    made = nki.simulate(nki.jit(platform_target="gen3")(double))
    for _ in range(2):
        made(X)
        assert made.program.target == "trn2"
        assert [f["rule"] for f in made.findings] == ["jit.platform_target"]
    made = nki.simulate(nki.jit(platform_target="gen3")(double)[1], checks="documented")
    made(X)
    assert [f["rule"] for f in made.findings] == ["jit.platform_target"]
    made = nki.simulate(nki.jit(platform_target="gen3")(double), target="trn3")
    made(X)
    assert (made.program.target, made.findings) == ("trn3", [])


@pytest.mark.parametrize("name", ["trn9", "trn30", "trn", "gen5", "trn3.toml", "no/trn3pre", "xtrn3"])
def test_names_that_are_no_target(name):
    with pytest.raises(errors.SpecError, match=r"target\.name"):
        nki.simulate(double, target=name)(X)


def test_targets_that_are_none(monkeypatch, tmp_path):
    with pytest.raises(errors.SpecError, match="trn9"):
        nki.simulate(double, target="trn9")(X)
    monkeypatch.setenv("NEURON_PLATFORM_TARGET_OVERRIDE", "trn9")
    with pytest.raises(errors.SpecError, match="trn9"):
        nki.simulate(double)(X)
    monkeypatch.delenv("NEURON_PLATFORM_TARGET_OVERRIDE")
    bad = tmp_path / "bad.toml"
    bad.write_text("nonsense = 1")
    with pytest.raises(errors.SpecError):
        nki.simulate(double, target=str(bad))(X)


def test_a_table_of_the_users(tmp_path):
    source = next(p for p in Path(__file__).parents[2].joinpath("rust/spec/data").glob("trn3.toml"))
    mine = tmp_path / "mine.toml"
    mine.write_text(source.read_text())
    simulated = nki.simulate(double, target=str(mine))
    np.testing.assert_array_equal(simulated(X), X * 2)


# activate() ----------------------------------------------------------------------------------------------------------


def python(code, tmp_path, *, path=()):
    environment = {**os.environ, "PYTHONPATH": os.pathsep.join(map(str, path))}
    return subprocess.run(
        [sys.executable, "-W", "error", "-c", textwrap.dedent(code)],
        capture_output=True,
        text=True,
        cwd=tmp_path,
        env=environment,
    )


def test_activate_makes_nki_importable(tmp_path):
    done = python(
        """
        import importlib.util
        assert importlib.util.find_spec("nki") is None
        from trn3.nki import activate
        activate()
        activate()
        import nki, nki.isa as nisa, nki.language as nl
        from nki.typing import tensor
        import nki.typing as nt
        from nki.language import float32
        import numpy as np, trn3.nki
        assert nki is trn3.nki and nl is trn3.nki.language and nisa is trn3.nki.isa
        @nki.jit
        def kernel(x: nt.tensor[4, 8]):
            tile = nl.load(x)
            nisa.tensor_scalar(tile, tile, nl.multiply, 2.0)
            nl.store(x, tile)
            return x
        assert (kernel(np.ones((4, 8), np.float32)) == 2).all()
        """,
        tmp_path,
    )
    assert done.returncode == 0, done.stderr


@pytest.fixture
def real_nki(tmp_path):
    package = tmp_path / "site" / "nki"
    package.mkdir(parents=True)
    (package / "__init__.py").write_text("real = True\n")
    (package / "language.py").write_text("real = True\n")
    return package.parent


def test_an_installed_nki_is_not_shadowed(tmp_path, real_nki):
    done = python(
        """
        import sys
        from trn3.nki import activate
        from trn3.errors import Trn3Error
        try:
            activate()
        except Trn3Error as error:
            assert "[nki.shadowed]" in str(error) and "force=True" in str(error)
        else:
            raise SystemExit("shadowed")
        assert "nki" not in sys.modules
        import nki
        assert nki.real
        """,
        tmp_path,
        path=[real_nki],
    )
    assert done.returncode == 0, done.stderr


def test_an_imported_nki_is_not_shadowed_and_force_shadows(tmp_path, real_nki):
    done = python(
        """
        import nki, nki.language
        from trn3.nki import activate
        from trn3.errors import Trn3Error
        try:
            activate()
        except Trn3Error:
            pass
        else:
            raise SystemExit("shadowed")
        assert nki.real and nki.language.real
        activate(force=True)
        import nki
        from nki import language as nl
        import nki.language as nl2
        import trn3.nki
        assert nki is trn3.nki and nl is trn3.nki.language and nl2 is nl
        """,
        tmp_path,
        path=[real_nki],
    )
    assert done.returncode == 0, done.stderr


def test_importing_takes_little(tmp_path):
    done = python(
        "import sys, trn3.nki; print(sorted(m for m in sys.modules if m.split('.')[0] in ('typer', 'rich', 'torch', 'jax', 'pytest')))",
        tmp_path,
    )
    assert done.stdout.strip() == "[]", done.stderr


# Documentation -------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "module", ["trn3.nki._kernel", "trn3.nki.language", "trn3.nki.isa", "trn3.nki", "trn3.dtypes", "trn3.errors"]
)
def test_examples_in_docstrings(module):
    import importlib

    failed, _ = doctest.testmod(importlib.import_module(module), optionflags=doctest.NORMALIZE_WHITESPACE)
    assert failed == 0


def test_generated_files_are_fresh(tmp_path):
    root = Path(__file__).parents[2]
    done = subprocess.run(
        [sys.executable, str(root / "tools/generate_isa.py"), "--check"], capture_output=True, text=True, cwd=tmp_path
    )
    assert done.returncode == 0, done.stdout + done.stderr


def test_bfloat16_of_ml_dtypes_is_ours():
    x = X.astype(ml_dtypes.bfloat16)
    got = nki.simulate(double)(x)
    assert got.dtype == ml_dtypes.bfloat16 == nl.bfloat16


def test_masked_arrays_are_refused():
    with pytest.raises(errors.RuleError, match="masked"):
        nki.simulate(double)(np.ma.masked_array(X, X > 3))


def test_names_made_up_by_us_never_meet_those_of_the_user():
    def kernel(pair, pair_0, **more):
        nl.ndarray((4, 4), nl.float32, name="tensor_5")
        for _ in range(6):
            nl.ndarray((4, 4), nl.float32)
        return [double(pair[0]), double(pair_0), double(more["tensor_3"])]

    got = nki.simulate(kernel)((X,), X + 1, tensor_3=X + 2)
    for at, array in enumerate(got):
        np.testing.assert_array_equal(array, (X + at) * 2)


def test_absurd_arguments_are_refused_without_harm():
    endless: list = []
    endless.append(endless)
    deep: list = []
    for _ in range(100_000):
        deep = [deep]
    for axis in (endless, deep, [[1]], {}, "1", 1.0, None, 2**70, object()):
        with pytest.raises(errors.RuleError):
            nki.simulate(lambda x: (nisa.tensor_reduce(nl.load(x), nl.add, nl.load(x), axis), x)[1])(X)  # noqa: B023
    for shape in ((4, 2**70), (-1, 4), (2**32, 1), (4, -(2**70))):
        with pytest.raises(errors.RuleError, match=r"tensor\.shape"):
            nki.simulate(lambda x: (nl.ndarray(shape, nl.float32), x)[1])(X)  # noqa: B023
    for shape in ((4.0, 4), "ab", None, 1.5):
        with pytest.raises(TypeError):
            nki.simulate(lambda x: (nl.ndarray(shape, nl.float32), x)[1])(X)  # noqa: B023


@pytest.mark.parametrize("option, value", [("seed", -1), ("seed", 1 << 70), ("checks", "foo"), ("nki_version", 0.4)])
def test_options_are_checked_when_they_are_given(option, value):
    with pytest.raises(errors.RuleError) as caught:
        nki.RunOptions(**{option: value})
    assert caught.value.rule == f"options.{option}"
