"""When a recording is used again, and when Python must run again (decisions.md D24)."""

import functools
import types

import numpy as np
import pytest

from trn3 import nki
from trn3.nki import isa as nisa
from trn3.nki import language as nl

X = np.arange(12, dtype=np.float32).reshape(3, 4)


def module(source, **names):
    """A module of the user's with that source; its functions see its globals."""
    made = types.ModuleType("users_module")
    made.__dict__.update(nl=nl, nisa=nisa, nki=nki, np=np, functools=functools, CALLS=0, **names)
    exec(compile(source, "users_module.py", "exec"), made.__dict__)
    return made


KERNEL = """
def kernel(x, *args, **kwargs):
    count()
    tile = nl.load(x)
    nisa.tensor_scalar(tile, tile, nl.multiply, float(factor(*args, **kwargs)))
    out = nl.ndarray(x.shape, x.dtype, buffer=nl.shared_hbm)
    nl.store(out, tile)
    return out
"""


class Recordings:
    """How often a kernel's function has run; the counter itself is invisible to what the kernel depends on."""

    def __init__(self, source):
        self.module = module(source + KERNEL)
        self.count = 0
        self.kernel = None

    def make(self, **options):
        self.kernel = nki.jit(self.module.kernel, **options)
        return self.kernel


@pytest.fixture
def recorded(monkeypatch):
    """Counts recordings by counting recorders."""
    from trn3 import _native

    calls = []
    real = _native.Recorder

    class Counting:
        def __new__(cls, *args, **kwargs):
            calls.append(args[0])
            return real(*args, **kwargs)

    monkeypatch.setattr(_native, "Recorder", Counting)
    return calls


def kernel_of(source, **names):
    made = module("def count():\n    pass\n" + source + KERNEL, **names)
    return made, nki.jit(made.kernel)


def test_the_second_call_replays(recorded):
    _, kernel = kernel_of("def factor(): return 2.0\n")
    for scale in (1, 2, 3):
        np.testing.assert_array_equal(kernel(X * scale), X * scale * 2)
    assert len(recorded) == 1


def test_other_shapes_dtypes_and_constants_are_recorded(recorded):
    _, kernel = kernel_of("def factor(f=1.0): return f\n")
    calls = [(X,), (X[:2].copy(),), (X.astype(np.float16),), (X, 2.0), (X, 3), (X, -0.0), (X, 0.0), (X, True)]
    for arguments in calls * 2:
        want = arguments[0] * np.float32(float(arguments[1]) if len(arguments) > 1 else 1.0)
        got = kernel(*arguments)
        np.testing.assert_array_equal(got, want.astype(got.dtype))
        np.testing.assert_array_equal(np.signbit(got), np.signbit(want))
    assert len(recorded) == len(calls)


CHANGES = {
    "random number": (
        "state = [2.0]\nnp.random.rand2 = lambda: state[0]\ndef factor(): return np.random.rand2()\n",
        "state[0] = 5.0",
    ),
    "environment variable": (
        "import os\nos.environ['TRN3_TEST_FACTOR'] = '2'\ndef factor(): return float(os.environ['TRN3_TEST_FACTOR'])\n",
        "os.environ['TRN3_TEST_FACTOR'] = '5'",
    ),
    "import inside": (
        "import sys, types\nm = types.ModuleType('trn3_test_module')\nm.f = 2.0\nsys.modules['trn3_test_module'] = m\n"
        "def factor():\n    import trn3_test_module\n    return trn3_test_module.f\n",
        "m.f = 5.0",
    ),
    "globals()": ("G = 2.0\ndef factor(): return globals()['G']\n", "G = 5.0"),
    "eval": ("G = 2.0\ndef factor(): return eval('G')\n", "G = 5.0"),
    "int with an attribute": (
        "class I(int): pass\ni = I(1)\ni.f = 2.0\ndef factor(): return i.f\n",
        "i.f = 5.0",
    ),
    "enumeration with a value that changes": (
        "import enum\nclass E(enum.Enum):\n    a = 1\nE.a.f = 2.0\ndef factor(): return E.a.f\n",
        "E.a.f = 5.0",
    ),
    "module attribute replaced": (
        "import math\nold = math.sqrt\nmath.sqrt = lambda x: 2.0\ndef factor(): return math.sqrt(25.0)\n",
        "math.sqrt = old",
    ),
    "global": ("G = 2.0\ndef factor(): return G\n", "G = 5.0"),
    "global of a helper's helper": ("G = 2.0\ndef g(): return G\ndef factor(): return g()\n", "G = 5.0"),
    "helper's code": ("def g(): return 2.0\ndef factor(): return g()\n", "def g(): return 5.0"),
    "default": ("def factor(f=2.0): return f\n", "factor.__defaults__ = (5.0,)"),
    "keyword default": ("def factor(*, f=2.0): return f\n", "factor.__kwdefaults__ = {'f': 5.0}"),
    "closure": (
        "def make(v):\n    def inner(): return v\n    return inner\nfactor = make(2.0)\n",
        "factor = make(5.0)",
    ),
    "mutable closure": (
        "box = [2.0]\ndef make(b):\n    def inner(): return b[0]\n    return inner\nfactor = make(box)\n",
        "box[0] = 5.0",
    ),
    "list": ("G = [2.0]\ndef factor(): return G[0]\n", "G[0] = 5.0"),
    "dict": ("G = {'a': 2.0}\ndef factor(): return G['a']\n", "G['a'] = 5.0"),
    "array": ("G = np.array([2.0])\ndef factor(): return G[0]\n", "G[0] = 5.0"),
    "class attribute": ("class C:\n    f = 2.0\ndef factor(): return C.f\n", "C.f = 5.0"),
    "instance attribute": ("class C:\n    f = 2.0\nc = C()\ndef factor(): return c.f\n", "c.f = 5.0"),
    "bound method": (
        "class C:\n    f = 2.0\n    def get(self): return self.f\nc = C()\nget = c.get\ndef factor(): return get()\n",
        "c.f = 5.0",
    ),
    "static method of a class": (
        "F = 2.0\nclass C:\n    @staticmethod\n    def get(): return F\ndef factor(): return C.get()\n",
        "F = 5.0",
    ),
    "callable object": (
        "class C:\n    f = 2.0\n    def __call__(self): return self.f\nc = C()\ndef factor(): return c()\n",
        "c.f = 5.0",
    ),
    "partial function": (
        "F = 2.0\ndef g(k): return F * k\nh = functools.partial(g, 1.0)\ndef factor(): return h()\n",
        "F = 5.0",
    ),
    "cached function": (
        "F = 2.0\n@functools.lru_cache\ndef g(): return F\ndef factor(): return g()\n",
        "F = 5.0; g.cache_clear()",
    ),
    "wrapped function": (
        "F = 2.0\ndef d(f):\n    @functools.wraps(f)\n    def w(): return f()\n    return w\n@d\ndef factor(): return F\n",
        "F = 5.0",
    ),
    "lambda": ("F = 2.0\ng = lambda: F\ndef factor(): return g()\n", "F = 5.0"),
    "nested function": ("F = 2.0\ndef factor():\n    def inner(): return F\n    return inner()\n", "F = 5.0"),
    "comprehension": ("F = 2.0\ndef factor(): return [F for _ in range(1)][0]\n", "F = 5.0"),
    "builtin shadowed later": ("def factor(): return max(1.0, 2.0)\n", "max = lambda *a: 5.0"),
    "global that appears later": ("def factor():\n    try: return G\n    except NameError: return 2.0\n", "G = 5.0"),
    "tuple": ("G = (2.0, (1, 'a'))\ndef factor(): return G[0]\n", "G = (5.0, (1, 'a'))"),
    "function attribute": ("def g(): return 1.0\ng.f = 2.0\ndef factor(): return g.f\n", "g.f = 5.0"),
    "another kernel": ("F = 2.0\n@nki.jit\ndef g(): return F\ndef factor(): return g()\n", "F = 5.0"),
}


@pytest.mark.parametrize("what", sorted(CHANGES))
def test_a_change_of_what_the_code_reads_is_seen(what):
    source, change = CHANGES[what]
    made, kernel = kernel_of(source)
    np.testing.assert_array_equal(kernel(X), X * 2)
    np.testing.assert_array_equal(kernel(X), X * 2)
    exec(change, made.__dict__)
    np.testing.assert_array_equal(kernel(X), X * 5)


def test_recursion_and_modules_are_established(recorded):
    _, kernel = kernel_of(
        "import math\ndef g(n): return 1.0 if n == 0 else 2.0 * g(n - 1)\ndef factor(): return math.sqrt(g(2))\n"
    )
    for _ in range(2):
        np.testing.assert_array_equal(kernel(X), X * 2)
    assert len(recorded) == 1


def test_options_and_target_are_part_of_the_key(recorded, monkeypatch):
    _, kernel = kernel_of("def factor(): return 2.0\n")
    kernel(X)
    monkeypatch.setenv("NEURON_PLATFORM_TARGET_OVERRIDE", "trn2")
    kernel(X)
    assert kernel.last.table.name == "trn2"
    monkeypatch.delenv("NEURON_PLATFORM_TARGET_OVERRIDE")
    kernel(X)
    assert len(recorded) == 2


def test_methods_are_recorded_each_time_their_object_is_unknown(recorded):
    class Scale:
        def __init__(self, factor):
            self.factor = factor

        @nki.jit
        def run(self, x):
            tile = nl.load(x)
            nisa.tensor_scalar(tile, tile, nl.multiply, self.factor)
            nisa.dma_copy(x, tile)
            return x

    scale = Scale(2.0)
    np.testing.assert_array_equal(scale.run(X.copy()), X * 2)
    scale.factor = 5.0
    np.testing.assert_array_equal(scale.run(X.copy()), X * 5)


def test_the_same_array_given_twice_is_another_recording(recorded):
    @nki.jit
    def kernel(x, y):
        tile = nl.load(x)
        nisa.tensor_scalar(tile, tile, nl.add, 1.0)
        nl.store(x, tile)
        out = nl.ndarray(x.shape, x.dtype, buffer=nl.shared_hbm)
        nisa.dma_copy(out, y)
        return out

    a, b = X.copy(), X.copy()
    np.testing.assert_array_equal(kernel(a, b), X)
    np.testing.assert_array_equal(a, X + 1)
    a = X.copy()
    np.testing.assert_array_equal(kernel(a, a), X + 1)
    assert len(recorded) == 2


def test_the_cache_is_bounded():
    @nki.jit
    def kernel(x, number):
        return x

    for number in range(300):
        kernel(X, number)
    assert len(kernel.cache) <= 256


def test_an_error_while_recording_leaves_nothing_behind():
    made, kernel = kernel_of("G = None\ndef factor(): return G\n")
    with pytest.raises(TypeError):
        kernel(X)
    made.G = 2.0
    np.testing.assert_array_equal(kernel(X), X * 2)
