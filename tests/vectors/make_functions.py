"""Write functions.toml: reference values of the activation functions, from mpmath.

Run as ``python tests/vectors/make_functions.py > tests/vectors/functions.toml``. Nothing of trn3 is used: formulas are
those of the public NKI reference, evaluated by mpmath with 600 bits and rounded here with integer arithmetic.
"""

import ctypes
import math
import random
import struct
import sys
from fractions import Fraction

import mpmath
from mpmath import mp, mpf

mp.prec = 600
INF = math.inf
RANDOM = random.Random(20240601)
# glibc's pow, for the operands of `power` that no formula covers.
C_POW = ctypes.CDLL("libm.so.6").pow
C_POW.argtypes = [ctypes.c_double, ctypes.c_double]
C_POW.restype = ctypes.c_double


def bits(x):
    """Code of the binary32 number nearest to a float."""
    return 0x7FC00000 if math.isnan(x) else struct.unpack("<I", struct.pack("<f", x))[0]


def value(code):
    """Float of a binary32 code."""
    return struct.unpack("<f", struct.pack("<I", code))[0]


def narrow(x):
    """The binary32 number nearest to a float."""
    return value(bits(x))


def round_f32(v):
    """Binary32 number nearest to an mpf, ties to even, with subnormals, overflow and the sign of a zero."""
    if v == 0:
        return 0.0
    sign, mantissa, exponent, _ = v._mpf_
    top = exponent + mantissa.bit_length()
    if top > 140:
        return -INF if sign else INF
    if top < -200:
        return -0.0 if sign else 0.0
    exact = Fraction(mantissa) * Fraction(2) ** exponent
    unit = Fraction(2) ** (max(top, -125) - 24)
    count = round(exact / unit)
    magnitude = count * unit
    magnitude = INF if magnitude >= Fraction(2) ** 128 else float(magnitude)
    return -magnitude if sign else magnitude


def toml_float(v):
    """The mpf as a TOML float of double precision."""
    x = float(v)
    if x == 0 and v < 0:
        return "-0.0"
    return repr(x)


def sigmoid(x):
    return 1 / (1 + mpmath.exp(-x))


def normal_cdf(x):
    return mpmath.erfc(-x / mpmath.sqrt(2)) / 2


def normal_density(x):
    return mpmath.exp(-x * x / 2) / mpmath.sqrt(2 * mpmath.pi)


def silu_dx(z):
    return sigmoid(z) * (1 + z * sigmoid(-z))


def softplus(x):
    return max(x, mpf(0)) + mpmath.log1p(mpmath.exp(-abs(x)))


def sin_engine(x):
    if abs(x) <= mpmath.pi:
        return mpmath.sin(x)
    u = abs(x) - mpmath.pi
    return mpmath.sign(x) * (u**3 / 6 - u)


def gelu_apprx_tanh(x):
    u = mpmath.sqrt(2 / mpmath.pi) * (x + mpf("0.044715") * x**3)
    return x * sigmoid(2 * u)


SLOPE = mpf("1.702")
NAN = math.nan
ODD = "odd"  # f(-0) = -0
# name: (formula for finite x, value at 0 or ODD, value at -0, value at +inf, value at -inf, points of interest)
FUNCTIONS = {
    "copy": (lambda x: x, ODD, None, INF, -INF, []),
    "square": (lambda x: x * x, 0.0, 0.0, INF, INF, [1.8446743e19, 1e-22]),
    "abs": (abs, 0.0, 0.0, INF, INF, []),
    "sign": (mpmath.sign, 0.0, 0.0, 1.0, -1.0, []),
    "relu": (lambda x: max(x, mpf(0)), 0.0, 0.0, INF, 0.0, []),
    "sigmoid": (sigmoid, 0.5, 0.5, 1.0, 0.0, [16.7, -87.3, -103.9, -103.3]),
    "tanh": (mpmath.tanh, ODD, None, 1.0, -1.0, [9.01, 8.7, 0.1733]),
    "exp": (mpmath.exp, 1.0, 1.0, INF, 0.0, [88.72284, -87.33655, -103.97208, -103.27893]),
    "log": (lambda x: mpmath.log(x) if x > 0 else NAN, -INF, -INF, INF, NAN, [1.0, 0.70710677, 1.4142135, 2.0]),
    "sqrt": (lambda x: mpmath.sqrt(x) if x > 0 else NAN, ODD, None, INF, NAN, [1.0, 4.0]),
    "rsqrt": (lambda x: 1 / mpmath.sqrt(x) if x > 0 else NAN, INF, -INF, 0.0, NAN, [1.0, 4.0]),
    "reciprocal": (lambda x: 1 / x, INF, -INF, 0.0, -0.0, [2.938736e-39, 1.7e38]),
    "sin": (sin_engine, ODD, None, NAN, NAN, [3.1415927, -3.1415927, 1.5707964, 9.0, 5.5910824, 1.27e13]),
    "arctan": (mpmath.atan, ODD, None, value(0x3FC90FDB), value(0xBFC90FDB), [0.41421357, 2.4142135, 1.0]),
    "erf": (mpmath.erf, ODD, None, 1.0, -1.0, [0.5, 3.9, 3.92]),
    "erf_dx": (
        lambda x: 2 / mpmath.sqrt(mpmath.pi) * mpmath.exp(-x * x),
        round_f32(2 / mpmath.sqrt(mpmath.pi)),
        round_f32(2 / mpmath.sqrt(mpmath.pi)),
        0.0,
        0.0,
        [9.35, 10.2],
    ),
    "gelu": (lambda x: x * normal_cdf(x), ODD, None, INF, -0.0, [-5.0, -12.9, -14.0, -14.4, -0.7517916]),
    "gelu_dx": (
        lambda x: normal_cdf(x) + x * normal_density(x),
        0.5,
        0.5,
        1.0,
        -0.0,
        [-0.7517915, -0.75179154, -0.751791, -5.0, -14.5],
    ),
    "gelu_apprx_tanh": (gelu_apprx_tanh, ODD, None, INF, -0.0, [-5.0, -10.5, -9.9]),
    "gelu_apprx_sigmoid": (lambda x: x * sigmoid(SLOPE * x), ODD, None, INF, -0.0, [-5.0, -53.0, -63.5]),
    "gelu_apprx_sigmoid_dx": (lambda x: silu_dx(SLOPE * x), 0.5, 0.5, 1.0, -0.0, [-0.75115424, -0.751154, -60.0]),
    "silu": (lambda x: x * sigmoid(x), ODD, None, INF, -0.0, [-5.0, -91.5, -108.0, -109.0]),
    "silu_dx": (silu_dx, 0.5, 0.5, 1.0, -0.0, [-1.2784645, -1.278464, -100.0]),
    "softplus": (softplus, value(0x3F317218), value(0x3F317218), INF, 0.0, [-87.3, -103.9, 17.0, 88.0]),
    "mish": (lambda x: x * mpmath.tanh(softplus(x)), ODD, None, INF, -0.0, [-1.1924, -91.5, -108.0, 20.0]),
    "sin_reduced": (mpmath.sin, ODD, None, NAN, NAN, [3.1415927, 1e10, 33554432.0, 33554436.0, 16367173 * 2.0**72]),
    "cos": (mpmath.cos, 1.0, 1.0, NAN, NAN, [1.5707964, 1e10, 33554432.0, 33554436.0, 16367173 * 2.0**72]),
    "tan": (mpmath.tan, ODD, None, NAN, NAN, [1.5707964, 1e10, 33554432.0, 33554436.0, 16367173 * 2.0**72]),
}
SHARED = [
    1.0,
    0.5,
    2.0,
    3.0,
    10.0,
    100.0,
    1000.0,
    1e10,
    value(0x7F7FFFFF),
    value(1),
    value(2),
    value(0x007FFFFF),
    value(0x00800000),
    value(0x00800001),
    value(0x3F7FFFFF),
    value(0x3F800001),
    value(0x33800000),
    value(0x34000000),
]


def arguments(extra):
    """The arguments for one function: shared, its own with two neighbours on each side, and random ones."""
    codes = [bits(s * x) for x in SHARED for s in (1.0, -1.0)]
    codes += [bits(x) + d for x in extra for d in (-2, -1, 0, 1, 2)]
    codes += [RANDOM.getrandbits(32) for _ in range(40)]
    codes += [bits(RANDOM.uniform(-8, 8)) for _ in range(70)]
    codes += [bits(RANDOM.uniform(-110, 110)) for _ in range(40)]
    codes += [bits(RANDOM.choice((-1, 1)) * 2 ** RANDOM.uniform(-28, 8)) for _ in range(50)]
    return [c for c in dict.fromkeys(codes) if math.isfinite(value(c)) and c & 0x7FFFFFFF]


def special(x, result):
    return f"    [0x{bits(x):08x}, 0x{bits(result):08x}, {result!r}],"


def unary():
    for name, (formula, zero, minus_zero, plus_inf, minus_inf, extra) in FUNCTIONS.items():
        print(f"\n[{name}]\nvectors = [")
        print(special(0.0, 0.0 if zero is ODD else zero))
        print(special(-0.0, -0.0 if zero is ODD else minus_zero))
        print(special(INF, plus_inf))
        print(special(-INF, minus_inf))
        print(special(NAN, NAN))
        for code in arguments(extra):
            exact = formula(mpf(value(code)))
            if isinstance(exact, float) and math.isnan(exact):
                print(special(value(code), NAN))
            else:
                print(f"    [0x{code:08x}, 0x{bits(round_f32(exact)):08x}, {toml_float(exact)}],")
        print("]")


def power():
    print("\n# x, y, x^y rounded to binary32, x^y in double precision\n[power]\nvectors = [")
    values = [
        0.0,
        -0.0,
        INF,
        -INF,
        NAN,
        1.0,
        -1.0,
        2.0,
        -2.0,
        3.0,
        -3.0,
        0.5,
        -0.5,
        2.5,
        1e30,
        -1e30,
        16777217.0,
        16777215.0,
        -16777215.0,
        value(1),
        -value(1),
        value(0x3F7FFFFF),
        value(0x3F800001),
    ]
    pairs = [(narrow(x), narrow(y)) for x in values for y in values]
    # Exact results and exact ties between two binary32 numbers.
    pairs += [
        (4097.0, 2.0),
        (4099.0, 2.0),
        (257.0, 3.0),
        (33.0, 5.0),
        (4098.0 / 4096, 2.0),
        (16785409.0, 0.5),
        (2.0, -149.0),
        (2.0, -150.0),
        (2.0, 127.0),
        (2.0, 128.0),
        (1.5, -200.0),
        (9.0, 1.5),
        (27.0, -2.0),
        (2.0**-75, 2.0),
        (3.0 * 2**-50, 3.0),
        (5.0, 10.0),
        (-3.0, 15.0),
        (10.0, 10.0),
        (10.0, 38.0),
    ]
    for _ in range(200):
        pairs.append((narrow(2 ** RANDOM.uniform(-10, 10)), narrow(RANDOM.uniform(-14, 14))))
        pairs.append((narrow(1 + RANDOM.uniform(-1, 1) / 1024), narrow(RANDOM.uniform(-9e4, 9e4))))
    for x, y in pairs:
        codes = f"0x{bits(x):08x}, 0x{bits(y):08x}"
        if math.isfinite(x) and math.isfinite(y) and x != 0 and (x > 0 or y.is_integer()):
            exact = mpmath.power(mpf(abs(x)), mpf(y))
            exact = -exact if x < 0 and y % 2 == 1 else exact
            print(f"    [{codes}, 0x{bits(round_f32(exact)):08x}, {toml_float(exact)}],")
        else:
            # The special cases of C's pow, which are those of IEEE 754 (section 9.2.1).
            result = C_POW(x, y)
            assert math.isnan(result) or result in (0.0, 1.0, INF, -INF), (x, y, result)
            print(f"    [{codes}, 0x{bits(result):08x}, {result!r}],")
    print("]")


print("# Reference values of the activation functions.")
print("# source: mpmath", mpmath.__version__, "with", mp.prec, "bits; formulas of the public NKI reference")
print("# command: python tests/vectors/make_functions.py > tests/vectors/functions.toml")
print("# At ±0, ±inf and NaN: IEEE 754, a function of an infinity being its limit; special cases of power: glibc's pow")
print("# A row is: x, f(x) rounded to binary32 (both as codes), f(x) in double precision")
sys.set_int_max_str_digits(0)
unary()
power()
