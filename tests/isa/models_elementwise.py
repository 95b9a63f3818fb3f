"""Models of the instructions that work element by element or row by row on VectorE, ScalarE and GpSimdE."""

from __future__ import annotations

import math
from typing import Any

import numpy as np
from test_activation import FORMULAS
from test_elementwise import ARITHMETIC, BITS, UNARY
from trial import FLOATS, INTEGERS, PACKED, PLAIN, Trial, any_values, bits, encode, model, small_values

from trn3.nki import isa as nisa
from trn3.nki import language as nl

EXTENDED = ["abs_max", "abs_min", "square", "relu"]
WORDS = ["int32", "uint32"]
# Data types in which a larger number is never stored as a smaller one.
ORDERED = [name for name in PLAIN if name not in ("bool_", "float8_e8m0fnu")]
REDUCE = {"add": np.add, "multiply": np.multiply, "maximum": ARITHMETIC["maximum"], "minimum": ARITHMETIC["minimum"]}
IDENTITY = {"add": 0.0, "multiply": 1.0, "maximum": -np.inf, "minimum": np.inf}
ULP = 2.0**-23


def op(name: str | None) -> Any:
    return None if name is None else getattr(nl, name)


def compute(function: Any, *values: Any) -> Any:
    """A function in FP32."""
    with np.errstate(all="ignore"):
        return np.asarray(function(*values), np.float32)


def size(trial: Trial, *, long: bool = True) -> tuple[int, int]:
    """Partitions, and elements in each."""
    partitions = trial.pick(1, 2, 3, 16, 31, 32, 33, 64, 65, 128)
    if long and partitions <= 16 and trial.chance(0.15):
        return partitions, int(trial.rng.choice([1000, 2048, 2049, 3001]))
    return partitions, trial.pick(1, 2, 3, 7, 8, 12, 15, 24, 30, 60)


def places(trial: Trial, options: list[str], long: bool) -> str:
    """Memories of the operands; rows that are too long for PSUM's 2 KiB banks stay in SBUF."""
    return "s" * len(options[0]) if long else trial.pick(*options)


def binary(trial: Trial) -> str:
    names = [name for name in ARITHMETIC if trial.generation == 4 or name not in EXTENDED]
    return str(trial.pick(*sorted(names)))


def any_operator(trial: Trial) -> str:
    unary = [name for name in UNARY if trial.generation == 4 or name not in EXTENDED]
    return str(trial.pick(*unary)) if trial.chance(0.2) else binary(trial)


class Operand:
    """A constant or a (P, 1) tile, and the FP32 value of each row."""

    def __init__(
        self, trial: Trial, partitions: int, constants: list[Any], dtypes: list[str], values: Any = any_values
    ) -> None:
        self.window = None
        if trial.chance(0.5):
            space = trial.pick("s", "p")
            self.window = trial.window(trial.pick(*dtypes), partitions, 1, space, values=values)
            self.value = trial.values(self.window)
        else:
            self.constant = trial.pick(*constants)
            self.value = np.full((partitions, 1), self.constant, np.float32)

    def on(self, at: Any) -> Any:
        return self.constant if self.window is None else at(self.window)


NUMBERS = [0.0, 1.0, -0.5, 0.1, 3, -7, float("inf")]


def step(name: str, x: Any, y: Any, reverse: bool = False) -> Any:
    """An operator on FP32 values; ``reverse`` swaps its operands."""
    if name in UNARY:
        return compute(UNARY[name], x)
    x, y = np.broadcast_arrays(*((y, x) if reverse else (x, y)))
    return compute(ARITHMETIC[name], x, y)


@model()
def tensor_tensor(trial: Trial) -> None:
    kind = trial.pick("arithmetic", "arithmetic", "bits", "words", "power")
    partitions, n = size(trial)
    spaces = places(trial, ["sss", "pss", "ssp", "sps", "psp", "pps"], n > 60)
    engine = nisa.engine.unknown
    if kind in ("words", "power"):
        spaces = "sss"
    if kind == "bits":
        width = trial.pick(1, 2, 4)
        types = [trial.pick(*[name for name in INTEGERS if np.dtype(name).itemsize == width]) for _ in "dxy"]
    elif kind == "words":
        types = [trial.pick(*WORDS) for _ in "dxy"]
    elif trial.chance(0.2):
        types = ["bfloat16"] * 3
    else:
        types = [trial.pick(*PLAIN) for _ in "dxy"]
    types[0] = trial.pick(*ORDERED) if kind == "power" else types[0]
    values = {"values": small_values} if kind == "power" else {}
    x, y = (trial.window(types[at], partitions, n, spaces[at], **values) for at in (1, 2))
    dst = trial.window(types[0], partitions, n, spaces[0], written=True)
    if kind == "bits":
        name = trial.pick(*BITS)
        width = 8 * np.dtype(types[0]).itemsize
        a, b = (bits(trial.codes(window)).astype(np.uint64) for window in (x, y))
        result = BITS[name](a, b, width) & np.uint64(2**width - 1)
        trial.gives_bits(dst, result.astype(f"u{width // 8}").view(types[0]))
    elif kind == "words":
        name = trial.pick("add", "subtract", "multiply")
        with np.errstate(over="ignore"):
            result = ARITHMETIC[name](bits(trial.codes(x)), bits(trial.codes(y)))
        trial.gives_bits(dst, result.view(types[0]))
    elif kind == "power":
        name = "power"
        with np.errstate(all="ignore"):
            result = np.power(trial.values(x).astype(np.float64), trial.values(y).astype(np.float64))
            trial.gives_about(dst, result, 4 * ULP * np.abs(result))
    else:
        name = binary(trial)
        only_words = all(each in WORDS for each in types)
        engine = nisa.engine.vector if only_words or "p" in spaces else trial.pick(*nisa_engines("vector", "gpsimd"))
        trial.gives(dst, step(name, trial.values(x), trial.values(y)))
    trial.call = lambda at: nisa.tensor_tensor(at(dst), at(x), at(y), op(name), engine=engine)


def nisa_engines(*names: str) -> list[Any]:
    return [getattr(nisa.engine, name) for name in names]


@model()
def tensor_scalar(trial: Trial) -> None:
    kind = trial.pick("vector", "vector", "scalar", "bits", "rsqrt")
    if kind == "scalar" and trial.generation == 2:
        kind = "vector"
    partitions, n = size(trial)
    spaces = "ss" if kind == "rsqrt" else places(trial, ["ss", "ps", "sp", "pp"], n > 60)
    if kind == "bits":
        bit_scalar(trial, partitions, n, spaces)
        return
    values = {"values": small_values} if kind == "rsqrt" else {}
    x = trial.window(trial.pick(*PLAIN), partitions, n, spaces[1], **values)
    op0, op1 = any_operator(trial), any_operator(trial) if trial.chance(0.6) else None
    if kind == "scalar" and trial.generation == 3:
        op0, op1 = trial.pick(("multiply", "add"), ("multiply", None), ("add", None))
    if kind == "rsqrt":
        op0, op1 = "rsqrt", None
    operands = [Operand(trial, partitions, NUMBERS, FLOATS + INTEGERS) for _ in range(2)]
    reverse = [trial.chance(0.3), trial.chance(0.3)]
    dst = trial.window(trial.pick(*(ORDERED if kind == "rsqrt" else PLAIN)), partitions, n, spaces[0], written=True)
    if kind == "rsqrt":
        with np.errstate(all="ignore"):
            result = 1 / np.sqrt(trial.values(x).astype(np.float64))
        trial.gives_about(dst, result, 4 * ULP * np.abs(result))
    else:
        result = step(op0, trial.values(x), operands[0].value, reverse[0])
        trial.gives(dst, result if op1 is None else step(op1, result, operands[1].value, reverse[1]))
    engine = {"scalar": nisa.engine.scalar, "vector": nisa.engine.vector}.get(kind, nisa.engine.unknown)
    unary = [*UNARY, "rsqrt"]

    def call(at: Any) -> None:
        given = [
            None if name is None or name in unary else operand.on(at)
            for name, operand in zip((op0, op1), operands, strict=True)
        ]
        nisa.tensor_scalar(at(dst), at(x), op(op0), given[0], reverse[0], op(op1), given[1], reverse[1], engine=engine)

    trial.call = call


def bit_scalar(trial: Trial, partitions: int, n: int, spaces: str) -> None:
    width = trial.pick(8, 16, 32)
    types = [trial.pick(*[name for name in INTEGERS if np.dtype(name).itemsize * 8 == width]) for _ in "dxv"]
    x = trial.window(types[1], partitions, n, spaces[1])
    names = [trial.pick(*BITS, "invert"), trial.pick(*BITS, "invert", None)]
    constants = [trial.pick(0, 1, 3, 7, width - 1, 31, 0x55), trial.pick(0, 2, 5, 100, -1)]
    vector = trial.window(types[2], partitions, 1) if trial.chance(0.4) else None
    reverse = [trial.chance(0.3), trial.chance(0.3)]
    dst = trial.window(types[0], partitions, n, spaces[0], written=True)
    mask = np.uint64(2**width - 1)
    value = bits(trial.codes(x)).astype(np.uint64)
    for at, name in enumerate(names):
        other = np.full((partitions, 1), constants[at] & int(mask), np.uint64)
        if at == 0 and vector is not None:
            other = bits(trial.codes(vector)).astype(np.uint64)
        a, b = (other, value) if reverse[at] else (value, other)
        a, b = np.broadcast_arrays(a, b)
        if name == "invert":
            value = ~value & mask
        elif name is not None:
            value = np.asarray(BITS[name](a, b, np.uint64(width)), np.uint64) & mask
    trial.gives_bits(dst, value.astype(f"u{width // 8}").view(types[0]))

    def call(at: Any) -> None:
        first = None if names[0] == "invert" else constants[0] if vector is None else at(vector)
        second = None if names[1] in ("invert", None) else constants[1]
        nisa.tensor_scalar(at(dst), at(x), op(names[0]), first, reverse[0], op(names[1]), second, reverse[1])

    trial.call = call


@model()
def scalar_tensor_tensor(trial: Trial) -> None:
    partitions, n = size(trial)
    spaces = places(trial, ["sss", "pss", "ssp", "sps", "psp", "pps"], n > 60)
    x, y = (trial.window(trial.pick(*PLAIN), partitions, n, space) for space in spaces[1:])
    operand = Operand(trial, partitions, NUMBERS, FLOATS + INTEGERS)
    op0, op1 = any_operator(trial), binary(trial)
    reverse = [trial.chance(0.3), trial.chance(0.3)]
    dst = trial.window(trial.pick(*PLAIN), partitions, n, spaces[0], written=True)
    result = step(op0, trial.values(x), operand.value, reverse[0])
    trial.gives(dst, step(op1, result, trial.values(y), reverse[1]))

    def call(at: Any) -> None:
        given = None if op0 in UNARY else operand.on(at)
        nisa.scalar_tensor_tensor(at(dst), at(x), op(op0), given, op(op1), at(y), *reverse)

    trial.call = call


@model()
def tensor_tensor_scan(trial: Trial) -> None:
    partitions, n = size(trial)
    spaces = places(trial, ["sss", "pss", "ssp", "sps", "psp", "pps"], n > 60)
    x, y = (trial.window(trial.pick(*PLAIN), partitions, n, space) for space in spaces[1:])
    initial = Operand(trial, partitions, NUMBERS, FLOATS + INTEGERS)
    op0, op1 = binary(trial), binary(trial)
    reverse = [trial.chance(0.3), trial.chance(0.3)]
    dst = trial.window(trial.pick(*PLAIN), partitions, n, spaces[0], written=True)
    state, result = initial.value, []
    for a, b in zip(trial.values(x).T[..., None], trial.values(y).T[..., None], strict=True):
        state = step(op1, step(op0, a, state, reverse[0]), b, reverse[1])
        result.append(state)
    trial.gives(dst, np.concatenate(result, axis=1))
    trial.call = lambda at: nisa.tensor_tensor_scan(at(dst), at(x), at(y), initial.on(at), op(op0), op(op1), *reverse)


@model()
def reciprocal(trial: Trial) -> None:
    partitions, n = size(trial)
    spaces = places(trial, ["ss", "ps", "sp", "pp"], n > 60)
    x = trial.window(trial.pick(*PLAIN), partitions, n, spaces[1])
    dst = trial.window(trial.pick(*PLAIN), partitions, n, spaces[0], written=True)
    trial.gives(dst, compute(UNARY["reciprocal"], trial.values(x)))
    trial.call = lambda at: nisa.reciprocal(at(dst), at(x))


@model()
def tensor_copy(trial: Trial) -> None:
    partitions, n = size(trial)
    engine = trial.pick(*["vector", "gpsimd", "unknown"], *["scalar"] * (trial.generation > 2))
    spaces = "ss" if engine == "gpsimd" else places(trial, ["ss", "ps", "sp", "pp"], n > 60)
    source = trial.pick(*PLAIN, *PACKED)
    to = source if source in PACKED or trial.chance(0.4) else trial.pick(*PLAIN)
    x = trial.window(source, partitions, n, spaces[1])
    dst = trial.window(to, partitions, n, spaces[0], written=True)
    if to == source:
        trial.gives_bits(dst, trial.codes(x))
    else:
        trial.gives_codes(dst, encode(trial.values(x), to))
    trial.call = lambda at: nisa.tensor_copy(at(dst), at(x), engine=getattr(nisa.engine, engine))


@model()
def tensor_copy_predicated(trial: Trial) -> None:
    partitions, n = size(trial)
    spaces = places(trial, ["sss", "pss", "ssp", "sps", "psp", "pps"], n > 60)
    dtype = trial.pick(*PLAIN)
    which = trial.pick("uint8", "uint16", "uint32")

    def few(rng: np.random.Generator, shape: tuple[int, ...], name: str) -> Any:
        return (rng.integers(0, 3, shape) * rng.integers(1, np.iinfo(name).max // 3)).astype(name)

    predicate = trial.window(which, partitions, n, spaces[2], values=few)
    number = trial.chance(0.3)
    x = None if number else trial.window(dtype, partitions, n, spaces[1])
    dst = trial.window(dtype, partitions, n, spaces[0], written=True)
    reverse = trial.chance(0.5)
    source = encode(np.full((partitions, n), 2.5, np.float32), dtype) if x is None else trial.codes(x)
    holds = (trial.codes(predicate) != 0) != reverse
    want = bits(trial.codes(dst)).copy()
    want[holds] = bits(source)[holds]
    trial.gives_bits(dst, want.view(source.dtype))
    trial.keeps = True
    trial.call = lambda at: nisa.tensor_copy_predicated(
        at(dst), 2.5 if x is None else at(x), at(predicate), reverse_pred=reverse
    )


@model()
def tensor_reduce(trial: Trial) -> None:
    is_bits = trial.chance(0.2)
    partitions, n = size(trial)
    spaces = places(trial, ["ss", "ps", "sp", "pp"], n > 60)
    dims = int(trial.rng.choice([1, 2, 3, 4]))
    counts = trial.factors(n, dims)
    kept = int(trial.rng.integers(dims))
    outer, inner = int(np.prod(counts[:kept])), int(np.prod(counts[kept:]))
    axes = list(range(kept + 1, dims + 1))
    if trial.chance(0.5):
        axes = [axis - dims - 1 for axis in axes]
    if is_bits:
        width = trial.pick(1, 2, 4)
        same = [name for name in INTEGERS if np.dtype(name).itemsize == width]
        types = [trial.pick(*same), trial.pick(*same)]
        name, negate = trial.pick("bitwise_and", "bitwise_or", "bitwise_xor"), False
    else:
        types = [trial.pick(*PLAIN), trial.pick(*PLAIN)]
        name = trial.pick(*REDUCE, "subtract", "logical_and", "logical_or", "logical_xor")
        negate = trial.chance(0.3)
    x = trial.window(types[1], partitions, n, spaces[1], counts=counts)
    dst = trial.window(types[0], partitions, outer, spaces[0], written=True)
    if is_bits:
        rows = bits(trial.codes(x)).reshape(partitions, outer, inner)
        trial.gives_bits(dst, getattr(np, name).reduce(rows, axis=2).view(types[0]))
    else:
        rows = trial.values(x).reshape(partitions, outer, inner)
        result = rows[..., 0]
        if "logical" in name and inner == 1:
            result = (result != 0).astype(np.float32)
        for at in range(1, inner):
            result = step(name, result, rows[..., at])
        trial.gives(dst, compute(np.multiply, result, np.float32(-1)) if negate else result)
    trial.call = lambda at: nisa.tensor_reduce(
        at(dst), op(name), at(x), tuple(axes) if len(axes) > 1 else axes[0], negate=negate, keepdims=trial.chance(0.5)
    )


def folded(name: str, start: Any, values: Any) -> Any:
    """A reduction of each row, one element after the other."""
    total = np.asarray(np.broadcast_to(np.float32(start), (len(values), 1)))
    for column in values.T[..., None]:
        total = compute(REDUCE[name], total, column)
    return total


@model()
def tensor_scalar_reduce(trial: Trial) -> None:
    partitions, n = size(trial)
    spaces = places(trial, ["ss", "ps", "sp", "pp"], n > 60)
    start = trial.start(partitions)
    x = trial.window(trial.pick(*PLAIN), partitions, n, spaces[1], start=start)
    operand = Operand(trial, partitions, NUMBERS, FLOATS + INTEGERS)
    initial = Operand(trial, partitions, [0.0, 2.5], ["float32"])
    op0, reduce_op = any_operator(trial), trial.pick(*REDUCE)
    command, negate = trial.pick("reset_reduce", "load_reduce"), trial.chance(0.3)
    dst = trial.window(trial.pick(*PLAIN), partitions, n, spaces[0], written=True)
    result = step(op0, trial.values(x), operand.value)
    trial.gives(dst, result)
    total = folded(reduce_op, initial.value if command == "load_reduce" else IDENTITY[reduce_op], result)
    res = trial.window(trial.pick(*PLAIN), partitions, 1, trial.pick("s", "p"), written=True)
    trial.gives(res, compute(np.multiply, total, np.float32(-1)) if negate else total)

    def call(at: Any) -> None:
        nisa.tensor_scalar_reduce(
            at(dst),
            at(x),
            op(op0),
            None if op0 in UNARY else operand.on(at),
            op(reduce_op),
            at(res),
            reduce_cmd=getattr(nisa.reduce_cmd, command),
            reduce_init=initial.on(at) if command == "load_reduce" else None,
            reduce_res_negate=negate,
        )

    trial.call = call


EXACT = {
    "copy": lambda x: x,
    "square": lambda x: x * x,
    "abs": np.abs,
    "relu": UNARY["relu"],
    "sign": np.sign,
}


def applied(trial: Trial, reduces: bool) -> None:
    """activation, or the one that always reduces."""
    name = trial.pick(*sorted(FORMULAS))
    partitions, n = size(trial, long=name in EXACT)
    spaces = places(trial, ["ss", "ps", "sp", "pp"], n > 60)
    values, numbers = (any_values, NUMBERS) if name in EXACT else (small_values, [0.0, 1.0, -0.5, 2])
    x = trial.window(trial.pick(*FLOATS, *INTEGERS, "tfloat32"), partitions, n, spaces[1], values=values)
    no_bias = trial.chance(0.4) or (name == "reciprocal" and trial.generation == 2)
    bias = Operand(trial, partitions, numbers, FLOATS + INTEGERS, values)
    scale = Operand(trial, partitions, [1.0, -0.5, 2], ["float32"], values)
    if trial.generation == 2 and bias.window is None:
        no_bias = True
    dst = trial.window(trial.pick(*(PLAIN if name in EXACT else ORDERED)), partitions, n, spaces[0], written=True)
    argument = compute(np.multiply, trial.values(x), scale.value)
    if not no_bias:
        argument = compute(np.add, argument, bias.value)
    command = "reset_reduce" if reduces else trial.pick("idle", "reset_reduce")
    res = trial.window("float32", partitions, 1, trial.pick("s", "p"), written=True) if command != "idle" else None
    if name in EXACT:
        result = compute(EXACT[name], argument)
        trial.gives(dst, result)
        if res is not None:
            trial.gives(res, folded("add", 0.0, result))
    else:
        wide = argument.astype(np.float64)
        with np.errstate(all="ignore"):
            result = (CAREFUL.get(name) or FORMULAS[name])(wide)
        slack = 8 * ULP * (np.abs(result) + np.minimum(1, np.abs(wide)))
        trial.gives_about(dst, result, slack)
        if res is not None:
            total = result.sum(axis=1, keepdims=True)
            trial.gives_about(res, total, slack.sum(1, keepdims=True) + n * ULP * np.abs(result).sum(1, keepdims=True))

    def call(at: Any) -> None:
        given = None if no_bias else bias.on(at)
        if reduces:
            nisa.activation_reduce(at(dst), op(name), at(x), nl.add, at(res), given, scale.on(at))
            return
        reduction = (None, None) if res is None else (nl.add, at(res))
        nisa.activation(at(dst), op(name), at(x), given, scale.on(at), *reduction, getattr(nisa.reduce_cmd, command))

    trial.call = call


def sine(x: Any) -> Any:
    """The sine, continued beyond pi by the documented cubic."""
    u = np.abs(x) - np.pi
    return np.where(np.abs(x) <= np.pi, np.sin(x), np.sign(x) * (-u + u**3 / 6))


erfc = np.vectorize(math.erfc, otypes=[float])
# Formulas of test_activation, without the loss of digits that float64 has where they are small.
CAREFUL = {
    "sin": sine,
    "gelu": lambda x: x * 0.5 * erfc(-x / math.sqrt(2)),
    "gelu_apprx_tanh": lambda x: x / (1 + np.exp(-2 * math.sqrt(2 / math.pi) * (x + 0.044715 * x**3))),
}


@model()
def activation(trial: Trial) -> None:
    applied(trial, reduces=False)


@model()
def activation_reduce(trial: Trial) -> None:
    applied(trial, reduces=True)


@model()
def memset(trial: Trial) -> None:
    partitions, n = size(trial)
    engine = trial.pick("unknown", "vector", "gpsimd")
    dtype = trial.pick(*PLAIN, *PACKED)
    space = "s" if engine == "gpsimd" or n > 60 else trial.pick("s", "p")
    dst = trial.window(dtype, partitions, n, space, written=True)
    if dtype in PACKED:
        value: Any = 0
        trial.gives_bits(dst, np.zeros((partitions, n), dst_dtype(trial, dst)))
    elif dtype in INTEGERS:
        info = np.iinfo(dtype)
        value = trial.pick(0, 1, info.min, info.max, 17)
        trial.gives_bits(dst, np.full((partitions, n), value, dtype))
    elif dtype == "bool_":
        value = trial.pick(0, 1, True, False)
        trial.gives_bits(dst, np.full((partitions, n), value, bool))
    else:
        value = trial.pick(0, 1, -1.5, 0.1, 3e38, 1e-45, -0.0, float("nan"), float("-inf"))
        trial.gives(dst, np.full((partitions, n), value, np.float32))
    trial.call = lambda at: nisa.memset(at(dst), value, engine=getattr(nisa.engine, engine))


def dst_dtype(trial: Trial, window: Any) -> Any:
    return trial.arrays[window.tile].dtype


@model()
def bn_stats(trial: Trial) -> None:
    partitions, n = size(trial, long=False)
    n = 512 if partitions <= 3 and trial.chance(0.3) else n
    spaces = places(trial, ["ss", "ps", "sp", "pp"], n > 60)
    x = trial.window(trial.pick(*PLAIN), partitions, n, spaces[1])
    dst = trial.window(trial.pick(*PLAIN), partitions, 6, spaces[0], written=True)
    columns = []
    for group in (trial.values(x)[:, ::2], trial.values(x)[:, 1::2]):
        count = group.shape[1]
        if count == 0:
            columns.append(np.zeros((partitions, 3), np.float32))
            continue
        mean = compute(np.divide, folded("add", 0.0, group), np.float32(count))
        away = compute(np.subtract, group, mean)
        distance = folded("add", 0.0, compute(np.multiply, away, away))
        columns.append(np.concatenate([np.full((partitions, 1), count, np.float32), mean, distance], axis=1))
    trial.gives(dst, np.concatenate(columns, axis=1))
    trial.call = lambda at: nisa.bn_stats(at(dst), at(x))


@model()
def bn_aggr(trial: Trial) -> None:
    partitions, _ = size(trial, long=False)
    pieces = trial.pick(1, 2, 4, 20)
    spaces = trial.pick("ss", "ps", "sp", "pp")
    x = trial.window(trial.pick(*PLAIN), partitions, 3 * pieces, spaces[1])
    dst = trial.window(trial.pick(*PLAIN), partitions, 2, spaces[0], written=True)
    count, mean, distance = (trial.values(x)[:, at::3] for at in range(3))
    total = folded("add", 0.0, count)
    middle = compute(np.divide, folded("add", 0.0, compute(np.multiply, count, mean)), total)
    away = compute(np.subtract, mean, middle)
    spread = compute(lambda a, b, c: a + b * (c * c), distance, count, away)
    variance = compute(np.divide, folded("add", 0.0, spread), total)
    trial.gives(dst, np.concatenate([middle, variance], axis=1))
    trial.call = lambda at: nisa.bn_aggr(at(dst), at(x))


def searched(trial: Trial) -> tuple[int, int, str]:
    partitions, n = size(trial)
    n = max(n, 8)
    if partitions == 1 and trial.chance(0.1):
        n = 16384
    return partitions, n, "s" if n > 60 else trial.pick("s", "p")


@model()
def max8(trial: Trial) -> None:
    partitions, n, space = searched(trial)
    x = trial.window(trial.pick(*PLAIN), partitions, n, space, dims=trial.pick(1, 2))
    dst = trial.window(trial.pick(*PLAIN), partitions, 8, trial.pick("s", "p"), written=True)
    rows = trial.values(x)
    # Stable, NaN first, then descending.
    with np.errstate(invalid="ignore"):
        keys = np.where(np.isnan(rows), -np.inf, np.where(rows == np.inf, -3.5e38, -rows.astype(np.float64)))
    order = np.argsort(keys, axis=1, kind="stable")[:, :8]
    trial.gives(dst, np.take_along_axis(rows, order, axis=1))
    trial.call = lambda at: nisa.max8(at(dst), at(x))


def repeated(rng: np.random.Generator, shape: tuple[int, ...], name: str) -> Any:
    """Few different values, so that there are equal ones."""
    values = rng.choice(np.array([0, 1, 2, 3, 5, 7, -0.0, np.inf, np.nan], np.float32), shape)
    return encode(values, name)


def found(rows: Any, wanted: Any, slots: range) -> Any:
    """Where each of eight values is, every place once; slots are served in their order."""
    result = np.full(wanted.shape, -1)
    for row, values, at in zip(rows, wanted, result, strict=True):
        left = set(range(8))
        for place, value in enumerate(row):
            for slot in slots:
                if slot in left and values[slot] == value:
                    at[slot] = place
                    left.remove(slot)
                    break
    return result


@model()
def nc_find_index8(trial: Trial) -> None:
    partitions, n, space = searched(trial)
    types = [trial.pick(*PLAIN) for _ in "xv"]
    x = trial.window(types[0], partitions, n, space, dims=trial.pick(1, 2), values=repeated)
    wanted = trial.window(types[1], partitions, 8, trial.pick("s", "p"), values=repeated)
    dst = trial.window(trial.pick("uint32", "uint16"), partitions, 8, trial.pick("s", "p"), written=True)
    trial.gives_bits(dst, found(trial.values(x), trial.values(wanted), range(8)).astype(dst.dtype))
    trial.call = lambda at: nisa.nc_find_index8(at(dst), at(x), at(wanted))


@model()
def nc_match_replace8(trial: Trial) -> None:
    partitions, n, space = searched(trial)
    types = [trial.pick(*PLAIN) for _ in "dxv"]
    x = trial.window(types[1], partitions, n, space, dims=trial.pick(1, 2), values=repeated)
    wanted = trial.window(types[2], partitions, 8, trial.pick("s", "p"), values=repeated)
    number = trial.pick(0.0, -5.0, 1.0, float("-inf"))
    dst = trial.window(types[0], partitions, n, "s" if n > 60 else trial.pick("s", "p"), written=True)
    places_ = found(trial.values(x), trial.values(wanted), range(7, -1, -1))
    result = trial.values(x).copy()
    for row, at in zip(result, places_, strict=True):
        row[at[at >= 0]] = number
    trial.gives_codes(dst, encode(result, dst.dtype))
    index = None
    if trial.chance(0.6):
        index = trial.window(trial.pick("uint32", "uint16"), partitions, 8, trial.pick("s", "p"), written=True)
        trial.gives_bits(index, places_.astype(index.dtype))
    trial.call = lambda at: nisa.nc_match_replace8(
        at(dst), at(x), at(wanted), number, None if index is None else at(index)
    )


@model()
def nc_stream_shuffle(trial: Trial) -> None:
    broadcast = trial.chance(0.2)
    partitions = 32 if broadcast else trial.pick(32, 64, 96, 128)
    n = trial.pick(1, 3, 8, 24, 60)
    spaces = trial.pick("ss", "ps", "sp", "pp")
    dtype = trial.pick(*PLAIN, *PACKED)
    x = trial.window(dtype, 1 if broadcast else partitions, n, spaces[1])
    mask = [0] * 32 if broadcast else [int(i) for i in trial.rng.choice([*range(32), 255], 32)]
    dst = trial.window(dtype, partitions, n, spaces[0], written=True)
    want, source = trial.codes(dst), trial.codes(x)
    for partition in range(partitions):
        if mask[partition % 32] != 255:
            want[partition] = source[partition // 32 * 32 + mask[partition % 32]]
    trial.gives_bits(dst, want)
    trial.keeps = True
    trial.rows[x.tile] = sorted({p // 32 * 32 + mask[p % 32] for p in range(partitions) if mask[p % 32] != 255})
    trial.call = lambda at: nisa.nc_stream_shuffle(at(dst), at(x), mask)
