"""One instruction on drawn tiles: where its operands lie, what they hold, and what they must hold afterwards.

A trial draws everything that all instructions share: data types, memories, partitions, access patterns (up to four free
dimensions, any order of strides, reversed, repeated and overlapping), operands that share a tile, and places that a
register moves. A model of an instruction adds its arguments and says, with NumPy and ml_dtypes alone, what comes out.
"""

from __future__ import annotations

import contextlib
import math
from collections.abc import Callable, Iterable
from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np
import pytest
from hypothesis import note
from hypothesis import strategies as st

import trn3
from emulated import FLOATS, INTEGERS, SPECIAL, numpy_dtype
from trn3 import errors, nki
from trn3.nki import isa as nisa
from trn3.nki import language as nl

GENERATION = {"trn1": 2, "inf2": 2, "trn2": 3, "trn3": 4}
PLAIN = [*FLOATS, *INTEGERS, "bool_", "tfloat32", "float8_e8m0fnu"]
PACKED = ["float8_e5m2_x4", "float8_e4m3fn_x4", "float4_e2m1fn_x4"]
BUFFERS = {"s": nl.sbuf, "p": nl.psum, "h": nl.private_hbm}
PSUM_BANK = 2048
SBUF_SHARE = 32768
QUIET_NAN = np.uint32(0x7FC00000)


def decode(array: Any, name: str) -> Any:
    """Values of an array as FP32."""
    with np.errstate(all="ignore"):
        if name == "tfloat32":
            return (array.view(np.uint32) & np.uint32(0xFFFFE000)).view(np.float32)
        return array.astype(np.float32)


def encode(values: Any, name: str) -> Any:
    """FP32 in a data type: to nearest, ties to even; integers saturate, and NaN becomes 0."""
    values = np.asarray(values, np.float32)
    dtype = numpy_dtype(name)
    with np.errstate(all="ignore"):
        if name == "bool_":
            return values != 0
        if dtype.kind in "iu":
            info = np.iinfo(dtype)
            rounded = np.clip(np.rint(values.astype(np.float64)), info.min, info.max)
            return np.where(np.isnan(values), 0, rounded).astype(dtype)
        if name == "tfloat32":
            u = values.view(np.uint32).astype(np.uint64)
            rounded = (u + 0xFFF + (u >> np.uint64(13) & np.uint64(1))) & np.uint64(0xFFFFE000)
            return np.where(np.isnan(values), QUIET_NAN, rounded.astype(np.uint32)).view(dtype)
        return values.astype(dtype)


def bits(array: Any) -> Any:
    """The bits of an array, as unsigned integers."""
    return np.ascontiguousarray(array).view(f"u{array.dtype.itemsize}")


def any_values(rng: np.random.Generator, shape: tuple[int, ...], name: str) -> Any:
    """Codes of a data type: numbers of all magnitudes, special ones, and now and then any bits at all."""
    dtype = numpy_dtype(name)
    if name == "bool_":
        return rng.integers(0, 2, shape).astype(bool)
    raw = rng.integers(0, 256, (*shape, dtype.itemsize), np.uint8).view(f"u{dtype.itemsize}").reshape(shape)
    if name in PACKED or dtype.kind in "iu" or rng.random() < 0.25:
        if name == "tfloat32":
            raw = encode(raw.view(np.float32), name)
        return raw.view(dtype)
    values = (rng.standard_normal(shape) * np.exp2(rng.integers(-8, 8, shape))).astype(np.float32)
    special = rng.random(shape) < (0.1 if rng.random() < 0.5 else 0)
    values[special] = rng.choice(SPECIAL, int(special.sum()))
    return encode(values, name)


def small_values(rng: np.random.Generator, shape: tuple[int, ...], name: str) -> Any:
    """Numbers of moderate size."""
    return encode(rng.uniform(-4, 4, shape).astype(np.float32), name)


@dataclass
class Window:
    """An access pattern on one of a trial's tiles."""

    tile: int
    dtype: str
    offset: int
    dims: list[tuple[int, int]]
    shift: int = 0
    """What a register adds to the place; ``offset`` includes it."""

    @property
    def shape(self) -> tuple[int, ...]:
        return tuple(count for _, count in self.dims)

    def of(self, array: Any) -> Any:
        """The window on the tile's array; writing to it writes to the array."""
        flat = array.reshape(-1).view(f"u{array.itemsize}")
        strides = [stride * array.itemsize for stride, _ in self.dims]
        return np.lib.stride_tricks.as_strided(flat[self.offset :], self.shape, strides).view(array.dtype)

    def on(self, tile: Any) -> Any:
        """The window on the tile itself."""
        pattern = [list(dim) for dim in self.dims]
        if not self.shift:
            return tile.ap(pattern, offset=self.offset, dtype=numpy_dtype(self.dtype))
        register = nisa.register_alloc(self.shift)
        axis = len(tile.shape) - 1
        return tile.ap(pattern, offset=self.offset - self.shift, scalar_offset=register, indirect_dim=axis)


@dataclass
class Outcome:
    """What a window must hold: these codes, or something between them and ``high``.

    A NaN stands for its own bits, for the NaN that arithmetic makes, or for any.
    """

    window: Window
    codes: Any
    has_payloads: bool = False
    is_arithmetic: bool = False
    high: Any = None


@dataclass
class Trial:
    """See the module."""

    data: Any
    target: str
    shares: bool = True
    """Whether operands may lie in one tile."""
    moves: bool = True
    """Whether registers may move operands."""
    arrays: list[Any] = field(default_factory=list)
    spaces: list[str] = field(default_factory=list)
    declared: list[Any] = field(default_factory=list)
    """Data types of the tiles; a window of another one takes their bits for its own."""
    outcomes: list[Outcome] = field(default_factory=list)
    reads: list[Window] = field(default_factory=list)
    call: Callable[[Tiles], Any] | None = None
    peer: list[Any] = field(default_factory=list)
    """What the tiles of the second core of a logical core hold at first, if there is one."""
    keeps: bool = False
    """Whether some of what is written may stay what it was."""
    rows: dict[int, list[int]] = field(default_factory=dict)
    """For a tile that is read, the rows of its window that have a say in the result, if not all have."""
    peer_codes: Any = None
    """What the second core's only destination must hold."""

    def __post_init__(self) -> None:
        self.rng = np.random.default_rng(self.data.draw(st.integers(0, 2**32 - 1), label="seed"))
        self.generation = GENERATION[self.target]

    def pick(self, *options: Any) -> Any:
        """One of the options."""
        return self.data.draw(st.sampled_from(options))

    def chance(self, probability: float) -> bool:
        """Whether something rare happens."""
        return bool(self.rng.random() < probability)

    # Where operands lie ----------------------------------------------------------------------------------------------

    def start(self, partitions: int, step: int = 0) -> int:
        """A first partition that is allowed for so many."""
        step = step or (32 if partitions <= 32 else 64 if partitions <= 64 else 128)
        return int(self.rng.choice(range(0, 128 - partitions + 1, step)))

    def factors(self, elements: int, dims: int) -> list[int]:
        """Counts of free dimensions that multiply to so many elements."""
        counts = [elements]
        while len(counts) < dims:
            at = int(self.rng.integers(len(counts)))
            divisors = [d for d in range(1, counts[at] + 1) if counts[at] % d == 0]
            one = int(self.rng.choice(divisors))
            counts[at : at + 1] = [one, counts[at] // one]
        return counts

    def layout(self, counts: list[int], written: bool) -> tuple[list[tuple[int, int]], int, int]:
        """Strides for counts: the dimensions, what lies below their first element, and how far they reach."""
        strides, reach = [0] * len(counts), 1
        for at in self.rng.permutation(len(counts)):
            if not written and self.chance(0.08):
                continue
            overlaps = not written and self.chance(0.05)
            strides[at] = int(self.rng.integers(1, 3)) if overlaps else reach * int(self.rng.choice([1, 1, 1, 2, 3]))
            reach += strides[at] * (counts[at] - 1)
        low = 0
        for at, stride in enumerate(strides):
            if self.chance(0.12):
                low += stride * (counts[at] - 1)
                strides[at] = -stride
        return list(zip(strides, counts, strict=True)), low, reach

    def window(
        self,
        dtype: str,
        partitions: int,
        elements: int,
        space: str = "s",
        *,
        written: bool = False,
        values: Callable[..., Any] = any_values,
        dims: int = 0,
        counts: list[int] | None = None,
        start: int | None = None,
        alone: bool = False,
    ) -> Window:
        """An operand of ``partitions`` rows of ``elements``, in a tile of its own or in one that is there."""
        counts = counts or self.factors(elements, dims or int(self.rng.choice([1, 1, 2, 3, 4])))
        free, low, reach = self.layout(counts, written)
        # One bank of PSUM is also all that a product may be written to before v4.
        size = numpy_dtype(dtype).itemsize
        limit = PSUM_BANK if space == "p" else max(SBUF_SHARE, math.prod(counts) * size)
        while reach * size > limit:
            free, low, reach = self.layout(counts, written)
        first = self.start(partitions) if start is None else start
        if start is None and self.shares and self.chance(0.05):
            # Lenient checks let a tile start anywhere.
            first = int(self.rng.integers(128 - partitions + 1))
        tile = self.shared(dtype, space, first + partitions, reach) if not alone else None
        if tile is None:
            columns = reach + int(self.rng.choice([0, 0, 1, 5, reach]))
            columns = min(columns, limit // size)
            rows = int(self.rng.choice([first + partitions, 128]))
            tile = self.add(values(self.rng, (rows, columns), dtype), space)
        columns = self.arrays[tile].shape[1]
        place = int(self.rng.integers(columns - reach + 1))
        shift = 0
        if self.moves and self.declared[tile] == self.arrays[tile].dtype and self.chance(0.08):
            shift = int(self.rng.integers(columns - reach + 1)) - place
        found = Window(tile, dtype, first * columns + place + low + shift, [(columns, partitions), *free], shift)
        if not written:
            self.reads.append(found)
        return found

    def shared(self, dtype: str, space: str, rows: int, columns: int) -> int | None:
        """A tile that is there and can hold an operand of that size."""
        if not self.shares or not self.chance(0.3):
            return None
        wanted = numpy_dtype(dtype)
        written = {outcome.window.tile for outcome in self.outcomes}
        fits = []
        for at, array in enumerate(self.arrays):
            if array.dtype != wanted or self.spaces[at] != space or at in written:
                continue
            if array.size >= columns if space == "h" else array.shape[0] >= rows and array.shape[1] >= columns:
                fits.append(at)
        return int(self.rng.choice(fits)) if fits else None

    def add(self, array: Any, space: str) -> int:
        """A tile that holds an array at first; its own data type may be another one, which has the same bits."""
        self.arrays.append(array)
        self.spaces.append(space)
        declared = array.dtype
        if self.chance(0.08):
            other = numpy_dtype(self.pick("uint8", "uint16", "bfloat16", "int32", "float32", "float8_e4m3fn_x4"))
            declared = other if array.shape[-1] * array.itemsize % other.itemsize == 0 else declared
        self.declared.append(declared)
        return len(self.arrays) - 1

    # What they hold --------------------------------------------------------------------------------------------------

    def codes(self, window: Window) -> Any:
        """What a window holds at first, one row a partition."""
        return window.of(self.arrays[window.tile]).copy().reshape(window.shape[0], -1)

    def values(self, window: Window) -> Any:
        """The same as FP32."""
        return decode(self.codes(window), window.dtype)

    def gives_bits(self, window: Window, codes: Any) -> None:
        """The window must hold these codes, bit by bit."""
        self.outcomes.append(Outcome(window, codes, has_payloads=True))

    def gives_codes(self, window: Window, codes: Any) -> None:
        """The window must hold these codes, or another NaN for a NaN."""
        self.outcomes.append(Outcome(window, codes))

    def gives(self, window: Window, values: Any) -> None:
        """The window must hold these FP32 values after one cast."""
        self.outcomes.append(Outcome(window, encode(values, window.dtype), is_arithmetic=True))

    def gives_about(self, window: Window, values: Any, slack: Any) -> None:
        """The window must hold these values, or ones at most ``slack`` away, after one cast."""
        with np.errstate(all="ignore"):
            slack = np.where(np.isfinite(values), slack, 0)
            low, high = (np.asarray(values + side * slack, np.float32) for side in (-1, 1))
        # What is not zero is not beyond zero.
        low, high = np.where(values >= 0, np.maximum(low, 0), low), np.where(values <= 0, np.minimum(high, 0), high)
        self.outcomes.append(Outcome(window, encode(low, window.dtype), False, True, encode(high, window.dtype)))

    # Running ---------------------------------------------------------------------------------------------------------

    def note(self) -> None:
        """Describe the trial where it fails."""
        for at, (array, space) in enumerate(zip(self.arrays, self.spaces, strict=True)):
            note(f"tile {at}: {array.dtype} {array.shape} in {space}, declared {self.declared[at]}")
        for window in [*self.reads, *(outcome.window for outcome in self.outcomes)]:
            note(str(window))

    def check(self) -> None:
        """Run the instruction, and compare every byte of every tile."""
        self.note()
        inputs = [self.arrays, self.peer] if self.peer else [self.arrays]
        loops = self.chance(0.1)

        def kernel(given: Any) -> Any:
            core = nl.program_id(0) if self.peer else 0
            tiles = Tiles(load(array[core], space) for array, space in zip(given, self.spaces, strict=True))
            assert self.call is not None
            if loops:
                nl.fori_loop(0, 1, lambda _: self.call(tiles))
            else:
                self.call(tiles)
            results = []
            for tile in tiles:
                result = nl.ndarray((len(inputs), *tile.shape), tile.dtype, buffer=nl.shared_hbm)
                store(result[core], tile)
                results.append(result)
            return tuple(results)

        simulated = nki.simulate(kernel, target=self.target, eager=not self.peer and not loops and self.chance(0.1))
        run = simulated[2] if self.peer else simulated
        stacks = [np.stack(arrays) for arrays in zip(*inputs, strict=True)]
        results = run(tuple(stack.view(dtype) for stack, dtype in zip(stacks, self.declared, strict=True)))
        line = trn3._native.Timeline(run.program, trn3.Chip(self.target).table)
        assert line.total_ps > 0
        for core, befores in enumerate(inputs):
            for number, (before, after) in enumerate(zip(befores, results, strict=True)):
                assert after.dtype == self.declared[number]
                outcomes = [outcome for outcome in self.outcomes if outcome.window.tile == number]
                if core:
                    outcomes = [replace(outcome, codes=self.peer_codes) for outcome in outcomes]
                compare(f"core {core}, tile {number}", before, after[core].view(before.dtype), outcomes)

    def simulate(self, missing: dict[int, range], windows: bool, **options: Any) -> tuple[set[str], Tiles]:
        """Run with these rows of tiles unwritten, and return the rules of what was found of that.

        What is looked at are the tiles that are written to, or with ``windows`` only the windows on them.
        """
        kept: list[Tiles] = []

        def kernel(given: Any) -> Any:
            pairs = enumerate(zip(given, self.spaces, strict=True))
            tiles = Tiles(load(array, space, missing.get(at, range(0))) for at, (array, space) in pairs)
            kept.append(tiles)
            assert self.call is not None
            self.call(tiles)
            results = []
            for outcome in self.outcomes:
                view = outcome.window.on(tiles[outcome.window.tile]) if windows else tiles[outcome.window.tile]
                result = nl.ndarray(view.shape, view.dtype, buffer=nl.shared_hbm)
                store(result, view)
                results.append(result)
            return tuple(results)

        simulated = nki.simulate(kernel, target=self.target, **options)
        simulated(tuple(array.view(dtype) for array, dtype in zip(self.arrays, self.declared, strict=True)))
        rules = {finding["rule"] for finding in simulated.findings}
        return {rule for rule in rules if rule.startswith("uninitialized")}, kept[0]

    def check_unwritten(self) -> None:
        """Leave a row unwritten that the instruction reads: there is a finding, or an error where that is asked for."""
        self.note()
        rules, tiles = self.simulate({}, windows=False)
        assert not rules
        reads = [window for window in tiles.used if window in self.reads and self.rows.get(window.tile) != []]
        if not reads:
            return
        window = reads[int(self.rng.integers(len(reads)))]
        row = window.offset // self.arrays[window.tile].shape[1]
        if self.spaces[window.tile] != "h":
            row += int(self.rng.choice(self.rows.get(window.tile, range(window.shape[0]))))
        missing = {window.tile: range(row, row + 1)}
        note(f"unwritten: {missing}")
        # NaN is no index, and no part of an identity.
        with contextlib.suppress(errors.RuleError, errors.UnspecifiedError):
            assert self.simulate(missing, windows=False)[0]
        with pytest.raises(errors.UninitializedReadError):
            self.simulate(missing, windows=False, uninitialized="stop")

    def check_alone(self) -> None:
        """Nothing but the instruction writes to its destinations: all of them is written, and there is no finding."""
        self.note()
        missing = {outcome.window.tile: range(self.arrays[outcome.window.tile].shape[0]) for outcome in self.outcomes}
        assert not self.simulate(missing, windows=True)[0]


class Tiles(list[Any]):
    """A kernel's tiles; called with a window, the view that it is."""

    def __init__(self, tiles: Iterable[Any]) -> None:
        super().__init__(tiles)
        self.used: list[Window] = []

    def __call__(self, window: Window) -> Any:
        self.used.append(window)
        return window.on(self[window.tile])


def load(array: Any, space: str, missing: range = range(0)) -> Any:
    """A tile of the kernel that holds an array in HBM, but for some of its rows."""
    tile = nl.ndarray(array.shape, array.dtype, buffer=BUFFERS[space])
    for part in (
        (slice(0, missing.start), slice(missing.stop, array.shape[0])) if missing else [slice(0, array.shape[0])]
    ):
        if part.start >= part.stop:
            continue
        if space != "p":
            nisa.dma_copy(tile[part], array[part])
            continue
        copied = nl.ndarray(array[part].shape, array.dtype)
        nisa.dma_copy(copied, array[part])
        nisa.tensor_copy(tile[part], copied)
    return tile


def store(result: Any, tile: Any) -> None:
    """Bring a tile to an output."""
    if tile.buffer == nl.psum:
        copied = nl.ndarray(tile.shape, tile.dtype)
        nisa.tensor_copy(copied, tile)
        tile = copied
    nisa.dma_copy(result, tile)


def compare(name: str, before: Any, after: Any, outcomes: list[Outcome]) -> None:
    """Check that windows hold what they must, and that nothing else of the tile has changed."""
    untouched = np.ones(before.shape, bool)
    for outcome in outcomes:
        outcome.window.of(untouched)[...] = False
    np.testing.assert_array_equal(bits(after)[untouched], bits(before)[untouched], err_msg=f"{name}, untouched")
    for outcome in outcomes:
        dtype = outcome.window.dtype
        got = outcome.window.of(after).copy().reshape(outcome.codes.shape)
        if outcome.has_payloads or dtype in INTEGERS and outcome.high is None:
            np.testing.assert_array_equal(bits(got), bits(outcome.codes), err_msg=name)
            continue
        found, wanted = decode(got, dtype), decode(outcome.codes, dtype)
        nan = np.isnan(wanted)
        np.testing.assert_array_equal(np.isnan(found), nan, err_msg=f"{name}, NaN")
        if dtype == "float32" and outcome.is_arithmetic:
            np.testing.assert_array_equal(bits(got)[nan], QUIET_NAN, err_msg=f"{name}, NaN of arithmetic")
        if outcome.high is None:
            np.testing.assert_array_equal(bits(got)[~nan], bits(outcome.codes)[~nan], err_msg=name)
            continue
        high = decode(outcome.high, dtype)
        outside = ~nan & ~((wanted <= found) & (found <= high))
        assert not outside.any(), f"{name}: {found[outside][:5]} not in {wanted[outside][:5]} to {high[outside][:5]}"


MODELS: dict[str, tuple[Callable[[Trial], None], int]] = {}


def model(since: int = 2) -> Callable[[Callable[[Trial], None]], Callable[[Trial], None]]:
    """Register the model of the instruction that has the function's name, and the first generation that has it."""

    def register(function: Callable[[Trial], None]) -> Callable[[Trial], None]:
        MODELS[function.__name__] = (function, since)
        return function

    return register
