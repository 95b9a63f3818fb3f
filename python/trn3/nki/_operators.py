"""Operators and functions of the kernel language, as calls on tiles and as values for the ``op`` of an instruction."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from trn3 import dtypes
from trn3.dtypes import float32, uint8
from trn3.errors import RuleError

from . import _session, isa
from ._tensors import NkiTensor, Tensor, broadcast_to, copy, ndarray


def _same_shape(name: str, x: Tensor, y: Tensor) -> tuple[Tensor, Tensor]:
    """Return two tiles of one rank as NumPy would broadcast them; the device has no such rule."""
    if x.ndim != y.ndim or any(a != b and 1 not in (a, b) for a, b in zip(x.shape, y.shape, strict=True)):
        return x, y
    shape = tuple(b if a == 1 else a for a, b in zip(x.shape, y.shape, strict=True))
    _session.current(f"nl.{name}").recorder.deviation(
        f"nl.{name}",
        "language.broadcast",
        "y",
        f"has shape {y.shape}, and x {x.shape}",
        "operands of the device have one shape",
        "use nl.broadcast_to, or slice to one shape",
    )
    return broadcast_to(x, shape), broadcast_to(y, shape)


def _binary(name: str, doc: str) -> Callable[..., Any]:
    def operator(x: Tensor, y: Any, dtype: Any = None) -> Tensor:
        if not isinstance(x, NkiTensor):
            if not isinstance(y, NkiTensor):
                raise RuleError(
                    instruction=f"nl.{name}",
                    operand="x",
                    value="is no tensor, and neither is y",
                    limit="one operand is a tile",
                    fix="compute constants in Python",
                    rule="argument.type",
                )
            tile = ndarray(y.shape, dtype or y.dtype)
            isa.tensor_scalar(tile, y, operator, x, reverse0=True)
            return tile
        if not isinstance(y, NkiTensor):
            tile = ndarray(x.shape, dtype or x.dtype)
            isa.tensor_scalar(tile, x, operator, y)
            return tile
        for scalar, other, swap in ((y, x, False), (x, y, True)):
            a_column = scalar.size == scalar.shape[0] == other.shape[0] and scalar.shape != other.shape
            if a_column and scalar.dtype == float32 and other.dtype.kind not in "iub":
                tile = ndarray(other.shape, dtype or x.dtype)
                isa.tensor_scalar(tile, other, operator, scalar.reshape((scalar.shape[0], 1)), reverse0=swap)
                return tile
        if x.shape != y.shape:
            x, y = _same_shape(name, x, y)
        tile = ndarray(x.shape, dtype or x.dtype)
        isa.tensor_tensor(tile, x, y, operator)
        return tile

    operator.__name__ = operator.__qualname__ = name
    operator.__doc__ = f"Return a new tile: {doc}; also an ``op`` of instructions. ``y`` may be a constant or (P, 1)."
    return operator


add = _binary("add", "x + y")
subtract = _binary("subtract", "x - y")
multiply = _binary("multiply", "x * y")
maximum = _binary("maximum", "the larger of x and y")
minimum = _binary("minimum", "the smaller of x and y")
power = _binary("power", "x ** y, on GpSimdE")
equal = _binary("equal", "1 where x == y, else 0")
not_equal = _binary("not_equal", "1 where x != y, else 0")
less = _binary("less", "1 where x < y, else 0")
less_equal = _binary("less_equal", "1 where x <= y, else 0")
greater = _binary("greater", "1 where x > y, else 0")
greater_equal = _binary("greater_equal", "1 where x >= y, else 0")
logical_and = _binary("logical_and", "1 where both are not 0, else 0")
logical_or = _binary("logical_or", "1 where one is not 0, else 0")
logical_xor = _binary("logical_xor", "1 where one but not both is not 0, else 0")
bitwise_and = _binary("bitwise_and", "x & y of integers")
bitwise_or = _binary("bitwise_or", "x | y of integers")
bitwise_xor = _binary("bitwise_xor", "x ^ y of integers")
left_shift = _binary("left_shift", "x << y of integers")
right_shift = _binary("right_shift", "x >> y of integers, without the sign")
abs_max = _binary("abs_max", "the operand of larger magnitude")
abs_min = _binary("abs_min", "the operand of smaller magnitude")
divide = _binary("divide", "x / y; AWS's simulator only")
fmod = _binary("fmod", "the remainder with the sign of x; AWS's simulator only")
mod = _binary("mod", "the remainder with the sign of y; AWS's simulator only")


def _applied(name: str) -> Callable[..., Any]:
    """Return what names a function to ``nki.isa.activation``."""

    def function() -> None:
        """Nothing to call: a name for an instruction."""

    function.__name__ = name
    return function


def _function(name: str, doc: str, applied: str | None = None) -> Callable[..., Any]:
    op = None if applied is None else _applied(applied)

    def function(x: Tensor, dtype: Any = None) -> Tensor:
        tile = ndarray(x.shape, dtype or x.dtype)
        isa.activation(tile, op or function, x)
        return tile

    function.__name__ = function.__qualname__ = name
    function.__doc__ = f"Return a new tile: {doc} on ScalarE; also an ``op`` of ``nki.isa.activation``."
    return function


exp = _function("exp", "e ** x")
log = _function("log", "the natural logarithm")
sqrt = _function("sqrt", "the square root")
square = _function("square", "x ** 2")
abs = _function("abs", "the magnitude")
sign = _function("sign", "-1, 0 or 1")
relu = _function("relu", "max(x, 0)")
sigmoid = _function("sigmoid", "1 / (1 + exp(-x))")
tanh = _function("tanh", "the hyperbolic tangent")
sin = _function("sin", "the sine of any number (as an ``op``: within [-pi, pi])", "sin_of_any")
cos = _function("cos", "the cosine")
tan = _function("tan", "the tangent")
floor = _function("floor", "the largest integer that is not above x")
ceil = _function("ceil", "the smallest integer that is not below x")
trunc = _function("trunc", "x without its fraction")
arctan = _function("arctan", "the arc tangent")
erf = _function("erf", "the error function")
erf_dx = _function("erf_dx", "the derivative of erf")
gelu = _function("gelu", "x times the normal distribution at x")
gelu_dx = _function("gelu_dx", "the derivative of gelu")
gelu_apprx_tanh = _function("gelu_apprx_tanh", "gelu by its tanh approximation")
gelu_apprx_sigmoid = _function("gelu_apprx_sigmoid", "gelu by its sigmoid approximation")
gelu_apprx_sigmoid_dx = _function("gelu_apprx_sigmoid_dx", "the derivative of gelu_apprx_sigmoid")
silu = _function("silu", "x * sigmoid(x)")
silu_dx = _function("silu_dx", "the derivative of silu")
softplus = _function("softplus", "log(1 + exp(x))")
mish = _function("mish", "x * tanh(softplus(x))")


def rsqrt(x: Tensor, dtype: Any = None) -> Tensor:
    """Return a new tile: 1 / sqrt(x) on GpSimdE, from SBUF; also an ``op`` of instructions."""
    tile = ndarray(x.shape, dtype or x.dtype)
    isa.tensor_scalar(tile, x, rsqrt, None, engine=isa.engine.gpsimd)
    return tile


def reciprocal(x: Tensor, dtype: Any = None) -> Tensor:
    """Return a new tile: 1 / x on VectorE; also an ``op`` of instructions."""
    tile = ndarray(x.shape, dtype or x.dtype)
    isa.reciprocal(tile, x)
    return tile


def prelu(*_: Any) -> None:
    """Name max(x, 0) + slope * min(x, 0) to an instruction; not a call."""
    raise _no_call("prelu")


def bypass(*_: Any) -> None:
    """Name the operator that leaves its operand alone to an instruction; not a call."""
    raise _no_call("bypass")


def average(*_: Any) -> None:
    """Name the mean to ``nki.isa.tensor_partition_reduce``; not a call."""
    raise _no_call("average")


def _no_call(name: str) -> RuleError:
    return RuleError(
        instruction=f"nl.{name}",
        operand="x",
        value="is given",
        limit=f"nl.{name} is an operator of instructions and no function",
        fix=f"pass nl.{name} as op",
        rule="language.operator",
    )


def logical_not(x: Tensor, dtype: Any = None) -> Tensor:
    """Return a new tile: 1 where x is 0, and 0 where it is 1: an exclusive or with 1 (else: ``equal(x, 0)``)."""
    return logical_xor(x, 1, dtype)


def invert(x: Tensor, dtype: Any = None) -> Tensor:
    """Return a new tile: every bit of integers inverted; also an ``op`` of instructions."""
    tile = ndarray(x.shape, dtype or x.dtype)
    isa.tensor_scalar(tile, x, invert, None)
    return tile


def negative(x: Tensor, dtype: Any = None) -> Tensor:
    """Return a new tile: -x."""
    return multiply(x, -1.0, dtype)


# Reductions ----------------------------------------------------------------------------------------------------------


def _reduced(x: Tensor, axis: int | Sequence[int], keepdims: bool) -> tuple[int, ...]:
    named = list(axis) if isinstance(axis, list | tuple) else [axis]
    if any(not isinstance(a, int) or not 1 <= a % x.ndim <= a + x.ndim < 2 * x.ndim for a in named):
        raise RuleError(
            instruction="nl.reduction",
            operand="axis",
            value=f"is {axis} of {x.ndim} dimensions",
            limit="the last free dimensions, as an int or a tuple; dimension 0 is the partitions",
            fix="use nl.transpose, nki.isa.tensor_partition_reduce or nki.isa.nc_matmul across partitions",
            rule="tensor_reduce.axis",
        )
    axes = {a % x.ndim for a in named}
    shape = tuple(1 if a in axes else n for a, n in enumerate(x.shape) if keepdims or a not in axes)
    return shape if len(shape) > 1 else (*shape, 1)


def _reduction(name: str, operator: Callable[..., Any], doc: str) -> Callable[..., Any]:
    def reduction(x: Tensor, axis: int | Sequence[int], dtype: Any = None, keepdims: bool = False) -> Tensor:
        tile = ndarray(_reduced(x, axis, keepdims), dtype or x.dtype)
        isa.tensor_reduce(tile, operator, x, axis)
        return tile

    reduction.__name__ = reduction.__qualname__ = name
    reduction.__doc__ = f"Return a new tile: {doc} along trailing free dimensions."
    return reduction


sum = _reduction("sum", add, "the sum")
max = _reduction("max", maximum, "the largest value")
min = _reduction("min", minimum, "the smallest value")
prod = _reduction("prod", multiply, "the product")


def mean(x: Tensor, axis: int | Sequence[int], dtype: Any = None, keepdims: bool = False) -> Tensor:
    """Return a new tile: the mean along trailing free dimensions, FP32 inside."""
    total = sum(x, axis, float32, keepdims)
    return multiply(total, total.size / x.size, dtype or x.dtype)


def var(x: Tensor, axis: int | Sequence[int], dtype: Any = None, keepdims: bool = False) -> Tensor:
    """Return a new tile: the mean square distance from the mean along trailing free dimensions.

    FP32 inside; the shape keeps the reduced dimensions whatever ``keepdims`` says.
    """
    del keepdims
    middle = mean(x, axis, float32, keepdims=True)
    distance = subtract(x, broadcast_to(middle, x.shape), float32)
    return mean(square(distance), axis, dtype or x.dtype, keepdims=True)


def all(x: Tensor, axis: int | Sequence[int], dtype: Any = None) -> Tensor:
    """Return a new tile: 1 where every element along trailing free dimensions is not 0, else 0."""
    tile = ndarray(_reduced(x, axis, keepdims=False), dtype or x.dtype)
    isa.tensor_reduce(tile, logical_and, x, axis)
    return tile


def where(condition: Tensor, x: Any, y: Any, dtype: Any = None) -> Tensor:
    """Return a new tile: ``x`` where ``condition`` is not 0, else ``y``; x and y are tiles or numbers."""
    predicate = not_equal(condition, 0, uint8)
    tiles = [value for value in (x, y) if isinstance(value, NkiTensor)]
    kept = dtypes.dtype(dtype or (tiles[0].dtype if tiles else float32))
    tile = ndarray(condition.shape, kept)
    if isinstance(y, NkiTensor):
        isa.tensor_copy(tile, y)
    else:
        isa.memset(tile, int(y) if kept.kind in "iub" else float(y))
    if isinstance(x, NkiTensor) and x.dtype != kept:
        x = copy(x, kept)
    isa.tensor_copy_predicated(tile, x, predicate)
    return tile


def softmax(x: Tensor, axis: int | Sequence[int] = -1, dtype: Any = None) -> Tensor:
    """Return a new tile: exp(x - max) over its sum, along trailing free dimensions; FP32 inside."""
    whole = _reduced(x, axis, keepdims=True)
    if whole[1:] == (1,) * (len(whole) - 1):
        return _softmax_of_rows(x, axis, dtype)
    largest = max(x, axis, float32, keepdims=True)
    powers = exp(subtract(x, broadcast_to(largest, x.shape), float32))
    total = sum(powers, axis, float32, keepdims=True)
    return multiply(powers, broadcast_to(reciprocal(total), x.shape), dtype or x.dtype)


def _softmax_of_rows(x: Tensor, axis: int | Sequence[int], dtype: Any) -> Tensor:
    """Return the softmax of whole partitions: the sum comes with the exponential."""
    partitions = x.shape[0]
    lowest, total = ndarray((partitions, 1), float32), ndarray((partitions, 1), float32)
    isa.tensor_reduce(lowest, maximum, x, axis, negate=True)
    powers = ndarray(x.shape, float32)
    isa.activation_reduce(powers, exp, x, add, total, bias=lowest)
    tile = ndarray(x.shape, dtype or x.dtype)
    isa.tensor_scalar(tile, powers, multiply, reciprocal(total))
    return tile


def rms_norm(
    x: Tensor,
    w: Tensor,
    axis: int | Sequence[int],
    n: int,
    epsilon: float = 1e-06,
    dtype: Any = None,
    compute_dtype: Any = None,
) -> Tensor:
    """Return a new tile: ``x * w / sqrt(sum(x ** 2) / n + epsilon)``, the sum along trailing free dimensions.

    ``compute_dtype`` is the type of what lies between (float32 by default). That epsilon is added to the mean of the
    squares is assumed: the reference does not say.
    """
    between = compute_dtype or float32
    squares = sum(square(x, between), axis, between, keepdims=True)
    scaled = ndarray(squares.shape, between)
    isa.tensor_scalar(scaled, squares, multiply, 1.0 / n, op1=add, operand1=float(epsilon))
    factor = reciprocal(sqrt(scaled), between)
    return multiply(multiply(x, broadcast_to(factor, x.shape), between), w, dtype or x.dtype)
