"""Every name of nki.language."""

import inspect
import types

import ml_dtypes
import numpy as np
import pytest

from emulated import cast, fp32, random_array, same
from trn3 import errors, nki
from trn3.nki import isa as nisa
from trn3.nki import language as nl

X = np.random.default_rng(0).standard_normal((8, 12)).astype(np.float32)
Y = np.random.default_rng(1).standard_normal((8, 12)).astype(np.float32)

DTYPES = [
    "bool_",
    "uint8",
    "uint16",
    "uint32",
    "int8",
    "int16",
    "int32",
    "float32",
    "tfloat32",
    "bfloat16",
    "float16",
    "float8_e5m2",
    "float8_e4m3",
    "float8_e4m3fn",
    "float8_e8m0fnu",
    "float8_e5m2_x4",
    "float8_e4m3fn_x4",
    "float4_e2m1fn_x4",
]
BINARY = {
    "add": np.add,
    "subtract": np.subtract,
    "multiply": np.multiply,
    "maximum": np.maximum,
    "minimum": np.minimum,
    "equal": np.equal,
    "not_equal": np.not_equal,
    "less": np.less,
    "less_equal": np.less_equal,
    "greater": np.greater,
    "greater_equal": np.greater_equal,
    "logical_and": np.logical_and,
    "logical_or": np.logical_or,
    "logical_xor": np.logical_xor,
    "abs_max": lambda x, y: np.where((np.abs(x) > np.abs(y)) | np.isnan(x), x, y),
    "abs_min": lambda x, y: np.where((np.abs(x) < np.abs(y)) | np.isnan(x), x, y),
    "divide": np.divide,
    "fmod": np.fmod,
    "mod": np.mod,
}
BITS = {
    "bitwise_and": np.bitwise_and,
    "bitwise_or": np.bitwise_or,
    "bitwise_xor": np.bitwise_xor,
    "left_shift": np.left_shift,
    "right_shift": np.right_shift,
}
ACTIVATIONS = [
    "exp",
    "log",
    "sqrt",
    "square",
    "abs",
    "sign",
    "relu",
    "sigmoid",
    "tanh",
    "arctan",
    "erf",
    "erf_dx",
    "gelu",
    "gelu_dx",
    "gelu_apprx_tanh",
    "gelu_apprx_sigmoid",
    "gelu_apprx_sigmoid_dx",
    "silu",
    "silu_dx",
    "softplus",
    "mish",
]
REDUCTIONS = {"sum": np.add, "max": np.maximum, "min": np.minimum, "prod": np.multiply}
OTHERS = {
    "all",
    "average",
    "broadcast_to",
    "bypass",
    "ceil",
    "cos",
    "device_print",
    "expand_dims",
    "floor",
    "logical_not",
    "mean",
    "no_reorder",
    "prelu",
    "reciprocal",
    "rms_norm",
    "rsqrt",
    "sin",
    "softmax",
    "tan",
    "trunc",
    "var",
    "where",
    "dynamic_range",
    "fori_loop",
    "while_loop",
    "NkiTensor",
    "MemoryRegion",
    "sbuf",
    "psum",
    "private_hbm",
    "hbm",
    "shared_hbm",
    "is_sbuf",
    "is_psum",
    "is_on_chip",
    "is_hbm",
    "tile_size",
    "ndarray",
    "full",
    "zeros",
    "ones",
    "zeros_like",
    "empty_like",
    "shared_constant",
    "shared_identity_matrix",
    "ds",
    "static_range",
    "affine_range",
    "sequential_range",
    "program_id",
    "num_programs",
    "program_ndim",
    "load",
    "store",
    "copy",
    "transpose",
    "matmul",
    "power",
    "invert",
    "negative",
}


def result(function, *arrays, **options):
    def kernel(*tensors):
        made = function(*[nl.load(t) for t in tensors])
        out = nl.ndarray(made.shape, made.dtype, buffer=nl.shared_hbm)
        nl.store(out, made)
        return out

    return nki.simulate(kernel, **options)(*arrays)


def test_every_name_is_tested_here():
    public = {
        name for name in dir(nl) if not name.startswith("_") and not isinstance(getattr(nl, name), types.ModuleType)
    }
    imported = {"Iterator", "RuleError", "Tensor", "annotations", "contextlib"}
    assert (
        public - imported - set(DTYPES) - set(BINARY) - set(BITS) - set(ACTIVATIONS) - set(REDUCTIONS) - OTHERS == set()
    )


@pytest.mark.parametrize("name", [*BINARY, *BITS, *ACTIVATIONS, *REDUCTIONS, *sorted(OTHERS), *DTYPES])
def test_every_name_is_there_and_documented(name):
    value = getattr(nl, name)
    if inspect.isfunction(value):
        assert value.__doc__
        assert value.__name__ == name or name in ("affine_range", "sequential_range")


@pytest.mark.parametrize("name", DTYPES)
def test_data_types_are_numpys(name):
    assert np.dtype(getattr(nl, name)) is np.dtype(getattr(nl, name))
    assert np.zeros(3, getattr(nl, name)).dtype == getattr(nl, name)


@pytest.mark.parametrize("name", BINARY)
def test_binary_functions(name):
    function, reference = getattr(nl, name), BINARY[name]
    constant = np.float32(0.3)
    cases = [
        (lambda a, b: function(a, b), reference(X, Y)),
        (lambda a, b: function(a, 0.3), reference(X, constant)),
        (lambda a, b: function(0.3, a), reference(constant, X)),
        (lambda a, b: function(a, b[:, 3]), reference(X, Y[:, 3:4])),
        (lambda a, b: function(a, b, nl.bfloat16), reference(X, Y)),
        (lambda a, b: function(a[:, ::2], b[:, 1::2], dtype=nl.float16), reference(X[:, ::2], Y[:, 1::2])),
    ]
    for call, want in cases:
        got = result(call, X, Y)
        same(got, cast(fp32(want), str(got.dtype)))


@pytest.mark.parametrize("name", BITS)
def test_bit_functions(name):
    x, y = (
        random_array(np.random.default_rng(2), (4, 9), "uint16"),
        np.random.default_rng(3).integers(0, 12, (4, 9)).astype(np.uint16),
    )
    np.testing.assert_array_equal(result(getattr(nl, name), x, y), BITS[name](x, y))
    np.testing.assert_array_equal(result(lambda a: getattr(nl, name)(a, 3), x), BITS[name](x, np.uint16(3)))
    np.testing.assert_array_equal(result(nl.invert, x), ~x)


@pytest.mark.parametrize("name", ACTIVATIONS)
def test_activations_are_the_instruction(name):
    x = np.abs(X) + np.float32(0.1)
    function = getattr(nl, name)

    def by_instruction(a):
        tile = nl.ndarray(a.shape, nl.bfloat16)
        nisa.activation(tile, function, a)
        return tile

    same(result(lambda a: function(a, nl.bfloat16), x), result(by_instruction, x))
    assert result(function, x).dtype == np.float32


@pytest.mark.parametrize("name", REDUCTIONS)
@pytest.mark.parametrize("axis", [1, 2, -1, (1, 2), [2]])
@pytest.mark.parametrize("keepdims", [False, True])
def test_reductions(name, axis, keepdims):
    x = np.random.default_rng(4).standard_normal((5, 4, 6)).astype(np.float32)
    axes = tuple(a % 3 for a in ([axis] if isinstance(axis, int) else axis))
    if axes == (1,):
        with pytest.raises(errors.RuleError, match=r"tensor_reduce\.axis"):
            result(lambda a: getattr(nl, name)(a, axis, keepdims=keepdims), x)
        return
    got = result(lambda a: getattr(nl, name)(a, axis, keepdims=keepdims), x)
    values, total = x.reshape(5, -1, 24 if len(axes) == 2 else 6), None
    for column in np.moveaxis(values, -1, 0):
        total = column if total is None else REDUCTIONS[name](total, column)
    shape = tuple(1 if a in axes else n for a, n in enumerate(x.shape) if keepdims or a not in axes)
    np.testing.assert_array_equal(got, total.reshape(shape if len(shape) > 1 else (*shape, 1)))


def test_power_and_negative():
    np.testing.assert_allclose(
        result(lambda a: nl.power(nl.abs(a), 2.5), X), np.abs(X).astype(np.float64) ** 2.5, rtol=1e-6
    )
    np.testing.assert_array_equal(result(nl.negative, X), -X)


@pytest.mark.parametrize("buffer", ["sbuf", "psum", "hbm", "shared_hbm"])
@pytest.mark.parametrize("dtype", ["float32", "bfloat16", "float8_e5m2", "int8", "uint32", "bool_"])
def test_creation(buffer, dtype):
    where = getattr(nl, buffer)

    def kernel(x):
        made = [
            nl.zeros((4, 70), dtype, where),
            nl.ones((4, 70), dtype, where, name="named"),
            nl.full((4, 70), 1, getattr(nl, dtype), where),
        ]
        made.append(nl.zeros_like(made[1]))
        assert made[1].name == "named"
        assert made[3].buffer is where
        outs = []
        for tensor in made:
            if nl.is_psum(where):
                tensor = nl.copy(tensor)
            outs.append(nl.ndarray(tensor.shape, tensor.dtype, buffer=nl.shared_hbm))
            nisa.dma_copy(outs[-1], tensor)
        return outs

    for got, want in zip(nki.simulate(kernel)(X), (0, 1, 1, 0), strict=True):
        np.testing.assert_array_equal(got, np.full((4, 70), want, got.dtype))
        assert got.dtype == getattr(nl, dtype)


def test_large_hbm_fills_and_empty_like():
    def kernel(x):
        out = nl.full((3, 5000), 2.5, nl.float32, nl.shared_hbm)
        assert nl.empty_like(out, dtype=nl.int8, buffer=nl.sbuf).dtype == nl.int8
        return out

    np.testing.assert_array_equal(nki.simulate(kernel)(X), np.full((3, 5000), 2.5))


def test_one_dimensional_hbm():
    x = np.arange(7, dtype=np.float32)
    np.testing.assert_array_equal(result(lambda a: nl.multiply(a, 2.0), x), [x * 2])


@pytest.mark.parametrize(
    "dtype", [np.float32, np.float16, ml_dtypes.bfloat16, np.int8, np.uint32, np.bool_, ml_dtypes.float8_e4m3fn]
)
def test_constants(dtype):
    values = np.arange(24).reshape(4, 6).astype(dtype)

    def kernel(x):
        return [
            nl.shared_constant(values[:, ::2]),
            nl.shared_constant(values.tolist(), dtype),
            nl.shared_constant(values.T),
        ]

    first, second, third = nki.simulate(kernel)(X)
    np.testing.assert_array_equal(first, values[:, ::2])
    np.testing.assert_array_equal(second, values)
    np.testing.assert_array_equal(third, values.T)


def test_identity():
    for dtype in (nl.uint8, nl.bfloat16, nl.float32):
        np.testing.assert_array_equal(result(lambda a: nl.shared_identity_matrix(16, dtype), X), np.eye(16))


def test_predicates_and_sizes():
    assert [nl.is_sbuf(b) for b in (nl.sbuf, nl.psum, nl.hbm, nl.shared_hbm)] == [True, False, False, False]
    assert [nl.is_psum(b) for b in (nl.sbuf, nl.psum, nl.hbm, nl.shared_hbm)] == [False, True, False, False]
    assert [nl.is_on_chip(b) for b in (nl.sbuf, nl.psum, nl.hbm, nl.shared_hbm)] == [True, True, False, False]
    assert [nl.is_hbm(b) for b in (nl.sbuf, nl.psum, nl.hbm, nl.shared_hbm)] == [False, False, True, True]
    assert nl.hbm is nl.private_hbm
    assert [b.value for b in (nl.sbuf, nl.psum, nl.hbm, nl.shared_hbm)] == ["sbuf", "psum", "private_hbm", "shared_hbm"]
    assert nl.tile_size.pmax == 128
    assert nl.tile_size.gemm_stationary_fmax == 128
    assert nl.tile_size.psum_num_banks == 8
    with pytest.raises(AttributeError, match="pmax"):
        nl.tile_size.nonsense  # noqa: B018


def test_sizes_follow_the_target():
    seen = {}

    def kernel(x, target):
        seen[target] = nl.tile_size.gemm_moving_fmax
        return x

    nki.simulate(kernel, target="trn3")(X, "trn3")
    nki.simulate(kernel, target="trn2")(X, "trn2")
    assert seen["trn2"] == 512
    assert seen["trn3"] >= 512


def test_loops_and_grid():
    for loop in (nl.static_range, nl.affine_range, nl.sequential_range):
        assert list(loop(4)) == [0, 1, 2, 3]
        assert list(loop(2, 7, 2)) == [2, 4, 6]
        assert list(loop(3, 5)) == [3, 4]
        assert list(loop(0)) == []

    def kernel(x):
        assert (nl.program_id(0), nl.num_programs(), nl.program_ndim()) == (0, 1, 0)
        return x

    nki.simulate(kernel)(X)

    def launched(x):
        assert (nl.program_id(0), nl.num_programs(0), nl.program_ndim()) == (0, 1, 1)
        return x

    nki.jit(launched)[1](X)
    assert nl.ds(3, 4) == slice(3, 7)


def test_movement():
    np.testing.assert_array_equal(result(lambda a: nl.copy(a, nl.int8), X), cast(X, "int8"))
    for shape in ((8, 12), (40, 20), (128, 128), (20, 128)):
        x = np.random.default_rng(5).standard_normal(shape).astype(np.float32)
        np.testing.assert_array_equal(result(nl.transpose, x), x.T)
        same(result(lambda a: nl.transpose(a, nl.bfloat16), x), cast(x.T, "bfloat16"))

    def cast_on_the_way(x):
        tile = nl.load(x, dtype=nl.float16)
        assert tile.dtype == nl.float16
        nl.store(x, tile)
        return x

    np.testing.assert_array_equal(nki.simulate(cast_on_the_way)(X.copy()), X.astype(np.float16))


def test_matmul():
    rng = np.random.default_rng(6)
    a, b = (rng.integers(-4, 5, shape).astype(np.float32) for shape in ((96, 64), (96, 200)))
    np.testing.assert_array_equal(result(lambda x, y: nl.matmul(x, y, transpose_x=True), a, b), a.T @ b)
    np.testing.assert_array_equal(result(nl.matmul, a.T.copy(), b), a.T @ b)


def test_functions_refuse_two_constants():
    with pytest.raises(errors.RuleError, match=r"argument\.type"):
        nki.simulate(lambda x: (nl.add(1.0, 2.0), x)[1])(X)


def test_isa_names_follow_the_public_reference():
    from trn3 import _native

    for entry in _native.instruction_table():
        function = getattr(nisa, entry["name"])
        parameters = list(inspect.signature(function).parameters)
        assert parameters == [p["name"] for p in entry["parameters"]] + ["name"]
        assert entry["doc"].split("\n")[0].split("``")[0].split(".")[0][:20] in function.__doc__
    assert {m.name: m.value for m in nisa.engine} == {
        "unknown": 0,
        "tensor": 1,
        "scalar": 2,
        "gpsimd": 3,
        "dma": 4,
        "vector": 5,
        "sync": 6,
    }
    assert {m.name: m.value for m in nisa.reduce_cmd} == {
        "idle": 0,
        "reset": 1,
        "reduce": 2,
        "reset_reduce": 3,
        "load_reduce": 4,
    }
    assert {m.name: m.value for m in nisa.dge_mode} == {"unknown": 0, "swdge": 1, "hwdge": 2, "none": 3}
    assert {m.name: m.value for m in nisa.oob_mode} == {"error": 0, "skip": 1}


@pytest.mark.parametrize(
    "engine", ["tensor_engine", "vector_engine", "scalar_engine", "gpsimd_engine", "unknown_engine"]
)
def test_deprecated_engine_names(engine):
    assert getattr(nisa, engine) is nisa.engine[engine.removesuffix("_engine")]


def test_instructions_return_a_handle_with_their_label():
    def kernel(x):
        made = nisa.memset(nl.ndarray((4, 4), nl.float32), 0.0, name="label")
        assert type(made).__name__ == "NkiInstruction"
        return x

    nki.simulate(kernel)(X)


def test_generation():
    seen = []

    def kernel(x):
        seen.append(nisa.get_nc_version())
        return x

    nki.simulate(kernel)(X)
    nki.simulate(kernel, target="trn2")(X)
    assert seen == [nisa.nc_version.gen4, nisa.nc_version.gen3]
    assert seen[0] > seen[1] and seen[0] >= 4
