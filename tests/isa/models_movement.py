"""Models of transfers, of what the cores of a logical core do together, and of registers."""

from __future__ import annotations

from typing import Any

import numpy as np
from models_elementwise import compute
from trial import INTEGERS, PACKED, PLAIN, Trial, Window, any_values, bits, encode, model

from emulated import numpy_dtype
from trn3.nki import isa as nisa
from trn3.nki import language as nl


def in_hbm(trial: Trial, dtype: str, counts: list[int], written: bool = False) -> Window:
    """An access pattern on a tensor in HBM, in one that is there if it is large enough."""
    dims, low, reach = trial.layout(counts, written)
    tile = trial.shared(dtype, "h", 1, reach)
    if tile is None:
        columns = reach + trial.pick(0, 1, 6)
        tile = trial.add(any_values(trial.rng, (1, columns), dtype), "h")
    room = trial.arrays[tile].size - reach
    place = int(trial.rng.integers(room + 1))
    shift = (
        int(trial.rng.integers(room + 1)) - place
        if trial.moves and trial.declared[tile] == trial.arrays[tile].dtype and trial.chance(0.1)
        else 0
    )
    found = Window(tile, dtype, place + low + shift, dims, shift)
    if not written:
        trial.reads.append(found)
    return found


@model()
def dma_copy(trial: Trial) -> None:
    kind = trial.pick("plain", "plain", "gather", "scatter")
    if kind != "plain" and trial.generation > 2:
        by_index(trial, kind == "gather")
        return
    partitions, n = trial.pick(1, 3, 16, 32, 100, 128), trial.pick(1, 2, 7, 12, 60)
    source = trial.pick(*PLAIN, *PACKED)
    to = source if source in PACKED or trial.chance(0.6) else trial.pick(*PLAIN)

    def side(dtype: str, space: str, written: bool) -> Window:
        if space == "h":
            return in_hbm(trial, dtype, trial.factors(partitions * n, trial.pick(1, 2, 3, 4)), written)
        return trial.window(dtype, partitions, n, written=written)

    spaces = trial.pick("ss", "sh", "hs", "hh")
    x = side(source, spaces[1], False)
    dst = side(to, spaces[0], True)
    flat = trial.codes(x).reshape(dst.shape[0], -1)
    if to == source:
        trial.gives_bits(dst, flat)
    else:
        trial.gives_codes(dst, encode(trial.values(x).reshape(flat.shape), to))
    more: dict[str, Any] = {}
    if trial.generation > 2 and to == source and not (x.shift or dst.shift) and trial.chance(0.3):
        more = {"dge_mode": nisa.dge_mode.hwdge, "engine": trial.pick(nisa.engine.sync, nisa.engine.scalar)}
    elif trial.chance(0.3):
        more = {"dge_mode": trial.pick(nisa.dge_mode.swdge, nisa.dge_mode.none)}
    if trial.generation == 4 and trial.chance(0.3):
        more["priority"] = trial.pick(0, 1, 2, 3)
    trial.call = lambda at: nisa.dma_copy(at(dst), at(x), **more)


@model()
def dma_transpose(trial: Trial) -> None:
    shape = [trial.pick(1, 2, 16, 31), *[trial.pick(1, 2, 3) for _ in range(trial.pick(0, 1, 2))], trial.pick(1, 8, 33)]
    axes = {2: (1, 0), 3: (2, 1, 0), 4: (3, 1, 2, 0)}[len(shape)]
    turned = [shape[axis] for axis in axes]
    dtype = trial.pick(*PLAIN, *PACKED)
    x = in_hbm(trial, dtype, shape) if trial.chance(0.6) else trial.window(dtype, shape[0], 0, counts=shape[1:])
    dst = trial.window(dtype, turned[0], 0, counts=turned[1:], written=True)
    source = x.of(trial.arrays[x.tile])
    trial.gives_bits(dst, np.transpose(source, axes).copy())
    more: dict[str, Any] = {"axes": axes} if trial.chance(0.5) else {}
    if trial.generation == 4 and trial.chance(0.3):
        more["priority"] = trial.pick(0, 3)
    trial.call = lambda at: nisa.dma_transpose(at(dst), at(x), **more)


@model()
def dma_compute(trial: Trial) -> None:
    trial.moves = False
    if trial.generation > 2 and trial.chance(0.3):
        rows_are_added(trial, trial.chance(0.5))
        return
    partitions, n = trial.pick(1, 3, 32, 128), trial.pick(1, 7, 12, 60)

    def side(written: bool) -> Window:
        if trial.chance(0.5):
            counts = trial.factors(partitions * n, trial.pick(1, 2, 3, 4))
            return in_hbm(trial, trial.pick(*PLAIN), counts, written)
        return trial.window(trial.pick(*PLAIN), partitions, n, written=written)

    sources = [side(False) for _ in range(trial.pick(1, 2, 3, 4, 5, 9, 16))]
    dst = side(True)
    total, *rest = [trial.values(each).reshape(dst.shape[0], -1) for each in sources]
    for value in rest:
        total = compute(np.add, total, value)
    trial.gives(dst, total)
    scales = [1.0] * len(sources) if trial.chance(0.3) else None
    trial.call = lambda at: nisa.dma_compute(at(dst), [at(each) for each in sources], nl.add, scales=scales)


def rows_are_added(trial: Trial, gathers: bool) -> None:
    """Rows by index: of a tensor in HBM to a tile, or the other way round."""
    partitions, n = trial.pick(1, 3, 32), trial.pick(1, 2, 6, 12)
    dtype, other = trial.pick(*PLAIN), trial.pick(*PLAIN)
    dims, low, reach = trial.layout(trial.factors(n, trial.pick(1, 2, 3)), not gathers)
    rows = partitions + trial.pick(0, 5)
    table = trial.add(any_values(trial.rng, (rows, reach), dtype), "h")
    index = trial.window("int32", partitions, 1, alone=True, written=True)
    numbers = trial.rng.permutation(rows)[:partitions]
    index.of(trial.arrays[index.tile])[...] = numbers.reshape(index.shape)
    tile = trial.window(other, partitions, n, written=gathers)
    row_of = [Window(table, dtype, low + reach * row, [(0, 1), *dims]) for row in range(rows)]
    named = np.concatenate([trial.values(row_of[row]) for row in numbers])
    total = compute(np.add, named, trial.values(tile))
    if gathers:
        trial.gives(tile, total)
    else:
        array = trial.arrays[table].copy()
        for row, value in zip(numbers, encode(total, dtype), strict=True):
            row_of[row].of(array)[...] = value.reshape(row_of[row].shape)
        trial.gives_codes(Window(table, dtype, 0, [(reach, rows), (1, reach)]), array)

    def call(at: Any) -> None:
        pattern = [[reach, partitions], *[list(dim) for dim in dims]]
        view = at[table].ap(pattern, offset=low, vector_offset=at(index), dtype=numpy_dtype(dtype))
        if gathers:
            nisa.dma_compute(at(tile), [at(tile), view], nl.add)
        else:
            nisa.dma_compute(view, [view, at(tile)], nl.add)

    trial.keeps = True
    trial.call = call


def by_index(trial: Trial, gathers: bool) -> None:
    """Rows that a tile of indices names."""
    partitions, n, rows = trial.pick(1, 3, 32, 128), trial.pick(1, 2, 6, 12), trial.pick(1, 2, 5, 40)
    dtype = trial.pick(*PLAIN, *PACKED)
    other = dtype if dtype in PACKED or trial.chance(0.6) else trial.pick(*PLAIN)
    dims, low, reach = trial.layout(trial.factors(n, trial.pick(1, 2, 3)), not gathers)
    columns = reach + trial.pick(0, 1, 6)
    place = int(trial.rng.integers(columns - reach + 1))
    table = trial.add(any_values(trial.rng, (rows, columns), dtype), "h")
    skips = trial.chance(0.3)

    def numbers(rng: np.random.Generator, shape: tuple[int, ...], name: str) -> Any:
        return rng.integers(-1 if skips and name == "int32" else 0, rows + skips, shape).astype(name)

    index = trial.window(trial.pick("int32", "uint32"), partitions, 1, values=numbers, alone=True)
    named = [int(row) for row in trial.codes(index)[:, 0]]
    window = Window(table, dtype, place + low, [(columns, partitions), *dims])
    far = trial.chance(0.3)
    tile = (
        in_hbm(trial, other, [partitions, n], gathers) if far else trial.window(other, partitions, n, written=gathers)
    )
    row_of = [Window(table, dtype, place + low + columns * row, [(0, 1), *dims]) for row in range(rows)]
    inside = [at for at, row in enumerate(named) if 0 <= row < rows]
    if gathers:
        want = trial.codes(tile)
        for at in inside:
            source = trial.codes(row_of[named[at]])
            want[at] = source if other == dtype else encode(trial.values(row_of[named[at]]), other)
        trial.gives_bits(tile, want) if other == dtype else trial.gives_codes(tile, want)
        trial.reads.append(Window(table, dtype, 0, [(columns, rows), (1, columns)]))
    else:
        array = trial.arrays[table].copy()
        source = trial.codes(tile) if other == dtype else encode(trial.values(tile), dtype)
        for at in inside:
            row_of[named[at]].of(array)[...] = source[at].reshape(row_of[0].shape)
        whole = Window(table, dtype, 0, [(columns, rows), (1, columns)])
        # Of rows with one number the last one stays.
        trial.rows[tile.tile] = [] if far else [at for at in inside if named[at] not in named[at + 1 :]]
        trial.gives_bits(whole, array) if other == dtype else trial.gives_codes(whole, array)

    def call(at: Any) -> None:
        pattern = [list(dim) for dim in window.dims]
        rows_ = at[table].ap(pattern, offset=window.offset, vector_offset=at(index), dtype=numpy_dtype(dtype))
        pair = (at(tile), rows_) if gathers else (rows_, at(tile))
        nisa.dma_copy(*pair, oob_mode=nisa.oob_mode.skip if skips else nisa.oob_mode.error)

    trial.keeps = True
    trial.call = call


def registers(trial: Trial) -> None:
    """A number goes through registers: from an element, with its sign, to the low bits of another one."""
    dtypes = [*INTEGERS, "float32"]
    spaces = trial.pick("ss", "sh", "hs", "hh")

    def element(space: str, written: bool) -> Window:
        dtype = trial.pick(*dtypes)
        return (
            in_hbm(trial, dtype, [1], written) if space == "h" else trial.window(dtype, 1, 1, dims=1, written=written)
        )

    x, dst = element(spaces[1], False), element(spaces[0], True)
    code = trial.codes(x)
    word = bits(code).astype(np.uint32) if x.dtype in ("float32", "uint32") else code.astype(np.int64).astype(np.uint32)
    number = trial.pick(None, 0, -1, 2**31 - 1, -(2**31), 2**32 - 1)
    if number is not None:
        word = np.array([[number % 2**32]], np.uint32)
    to = numpy_dtype(dst.dtype)
    trial.gives_bits(dst, word.astype(f"u{to.itemsize}").view(to))

    def call(at: Any) -> None:
        first, second = nisa.register_alloc(7), nisa.register_alloc(-7)
        nisa.register_load(first, at(x))
        if number is not None:
            nisa.register_move(first, number)
        nisa.register_move(second, first)
        nisa.register_move(first, 3)
        nisa.register_store(at(dst), second)

    trial.call = call


@model()
def register_move(trial: Trial) -> None:
    registers(trial)


@model()
def register_load(trial: Trial) -> None:
    registers(trial)


@model()
def register_store(trial: Trial) -> None:
    registers(trial)


def between_cores(trial: Trial, call: Any) -> None:
    """``call(dst, src, core)`` brings the other core's source to the destination."""
    partitions, n = trial.pick(1, 3, 32, 64, 128), trial.pick(1, 2, 12, 60)
    counts = trial.factors(n, trial.pick(1, 2, 3))
    dtype = trial.pick(*PLAIN, *PACKED)
    x = trial.window(dtype, partitions, n, counts=counts)
    dst = trial.window(dtype, partitions, n, counts=counts, written=True)
    trial.peer = [any_values(trial.rng, array.shape, dtype) for array in trial.arrays]
    trial.gives_bits(dst, x.of(trial.peer[x.tile]).copy())
    trial.peer_codes = trial.codes(x)
    trial.call = lambda at: call(at(dst), at(x), nl.program_id(0))


@model(since=3)
def sendrecv(trial: Trial) -> None:
    engine = trial.pick(nisa.dma_engine.dma, nisa.dma_engine.gpsimd_dma)
    between_cores(
        trial, lambda dst, src, core: nisa.sendrecv(src, dst, 1 - core, 1 - core, pipe_id=3, dma_engine=engine)
    )


@model(since=3)
def core_barrier(trial: Trial) -> None:
    engine = trial.pick(*[getattr(nisa.engine, name) for name in ("gpsimd", "tensor", "vector", "scalar", "sync")])

    def call(dst: Any, src: Any, core: int) -> None:
        shared = nl.ndarray((2, *src.shape), src.dtype, buffer=nl.shared_hbm)
        nisa.dma_copy(shared[core], src)
        nisa.core_barrier(shared, (0, 1), engine=engine)
        nisa.dma_copy(dst, shared[1 - core])

    between_cores(trial, call)
