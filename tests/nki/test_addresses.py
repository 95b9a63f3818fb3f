"""Tensors at addresses of the kernel's own: one memory of bytes, whatever tensors name them."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

import trn3
from trn3 import errors, nki
from trn3.nki import isa as nisa
from trn3.nki import language as nl

TYPES = {"uint8": nl.uint8, "uint16": nl.uint16, "int32": nl.int32}
WINDOW = 96
ROWS = 8


def read_back(tensor):
    out = nl.ndarray(tensor.shape, tensor.dtype, buffer=nl.shared_hbm)
    nisa.dma_copy(out, tensor)
    return out


class Bytes:
    """The memory as it is: rows of bytes, through which tensors are views."""

    def __init__(self):
        self.rows = np.zeros((ROWS, WINDOW), np.uint8)

    def view(self, partition, byte, shape, dtype):
        item = np.dtype(dtype).itemsize
        return np.ndarray(shape, dtype, self.rows, partition * WINDOW + byte, (WINDOW, item))


@st.composite
def tiles(draw):
    """Partition, byte, shape and type of a tensor in the window."""
    dtype = draw(st.sampled_from(sorted(TYPES)))
    size = np.dtype(dtype).itemsize
    partition = draw(st.integers(0, ROWS - 1))
    byte = draw(st.integers(0, WINDOW // 4 - 1)) * 4
    shape = (draw(st.integers(1, ROWS - partition)), draw(st.integers(1, (WINDOW - byte) // size)))
    return partition, byte, shape, dtype


@st.composite
def slices(draw, shape):
    """A piece of a tensor: a range of partitions, and a range of elements with a step."""
    first = draw(st.integers(0, shape[0] - 1))
    last = draw(st.integers(first + 1, shape[0]))
    start = draw(st.integers(0, shape[1] - 1))
    stop = draw(st.integers(start + 1, shape[1]))
    return slice(first, last), slice(start, stop, draw(st.sampled_from([1, 1, 2, 3])))


@st.composite
def steps(draw, declared):
    """What a kernel does: write a piece of a tensor with a number, or copy one piece to another of the same shape."""
    found = []
    for number in range(draw(st.integers(2, 12))):
        at = draw(st.integers(0, len(declared) - 1))
        key = draw(slices(declared[at][2]))
        other = draw(st.integers(0, len(declared) - 1))
        found.append((at, key, number + 1, other))
    return found


def common(shape, key, other):
    """The key cut to what fits into another shape too."""
    rows = range(*key[0].indices(shape[0]))[: other[0]]
    columns = range(*key[1].indices(shape[1]))[: other[1]]
    return (
        (slice(rows[0], rows[-1] + 1), slice(columns[0], columns[-1] + 1, columns.step)),
        (slice(0, len(rows)), slice(0, len(columns))),
    )


def play(declared, program, views, copy, fill):
    for at, key, number, other in program:
        if number % 2:
            fill(views[at][key], number)
        else:
            to, source = common(declared[at][2], key, declared[other][2])
            copy(views[at][to], views[other][source])


@pytest.mark.parametrize("mode", ["recorded", "eager", "loop"])
@given(st.data())
def test_overlapping_tensors_are_views_of_one_memory(mode, data):
    declared = data.draw(st.lists(tiles(), min_size=2, max_size=5))
    before, body, after = (data.draw(steps(declared)) for _ in range(3))
    turns = data.draw(st.integers(0, 3)) if mode == "loop" else 1
    background = np.random.default_rng(0).integers(0, 255, (ROWS, WINDOW)).astype(np.uint8)

    def kernel(x):
        everything = nl.ndarray((ROWS, WINDOW), nl.uint8, address=(0, 0))
        nisa.dma_copy(everything, x)
        views = [
            nl.ndarray(shape, TYPES[dtype], address=(partition, byte)) for partition, byte, shape, dtype in declared
        ]

        def copy(dst, src):
            nisa.tensor_copy(dst, src)

        def fill(dst, number):
            nisa.memset(dst, number)

        play(declared, before, views, copy, fill)
        if mode == "loop":
            for _ in nl.dynamic_range(turns):
                play(declared, body, views, copy, fill)
        else:
            play(declared, body, views, copy, fill)
        play(declared, after, views, copy, fill)
        return (read_back(everything), *(read_back(view) for view in views))

    memory = Bytes()
    memory.rows[:] = background
    plain = [memory.view(*each) for each in declared]

    def copy(dst, src):
        dst[...] = cast(src.copy(), dst.dtype)

    def fill(dst, number):
        dst[...] = number

    for part, times in ((before, 1), (body, turns), (after, 1)):
        for _ in range(times):
            play(declared, part, plain, copy, fill)
    got = nki.simulate(kernel)(background) if mode == "eager" else trn3.run(kernel, background).result
    np.testing.assert_array_equal(got[0], memory.rows)
    for array, want in zip(got[1:], plain, strict=True):
        np.testing.assert_array_equal(array, want)


def cast(values, dtype):
    """Integers through FP32, saturating, as tensor_copy has it between different types."""
    if values.dtype == dtype:
        return values
    info = np.iinfo(dtype)
    return np.clip(values.astype(np.float32).astype(np.float64), info.min, info.max).astype(dtype)


def test_a_tile_is_read_as_another_type_through_another_tensor():
    x = np.random.default_rng(1).standard_normal((128, 64)).astype(np.float32)

    def kernel(x):
        floats = nl.ndarray((128, 64), nl.float32, address=(0, 4096))
        words = nl.ndarray((128, 64), nl.int32, address=(0, 4096))
        halves = nl.ndarray((32, 32), nl.bfloat16, address=(32, 4096 + 128))
        nisa.dma_copy(floats, x)
        return read_back(words), read_back(halves)

    run = trn3.run(kernel, x)
    words, halves = run.result
    np.testing.assert_array_equal(words, x.view(np.int32))
    np.testing.assert_array_equal(halves.view(np.uint16), x[32:64, 32:48].copy().view(np.uint16))
    assert run.findings == []


def test_products_start_anew_in_a_new_tensor_at_the_same_bank():
    a, b = np.eye(128, dtype=np.float32), np.arange(128 * 512, dtype=np.float32).reshape(128, 512)

    def kernel(a, b):
        s, m = nl.load(a), nl.load(b)
        results = []
        for _ in range(2):
            bank = nl.ndarray((128, 512), nl.float32, buffer=nl.psum, address=(0, 2048))
            nisa.nc_matmul(bank, s, m)
            nisa.nc_matmul(bank, s, m)
            sbuf = nl.ndarray((128, 512), nl.float32)
            nisa.tensor_copy(sbuf, bank)
            results.append(read_back(sbuf))
        return tuple(results)

    for result in trn3.run(kernel, a, b).result:
        np.testing.assert_array_equal(result, 2 * b)


def test_overwriting_what_is_read_later_is_a_finding():
    def kernel(x, late):
        first = nl.ndarray((128, 8), nl.float32, name="first", address=(0, 0))
        nisa.dma_copy(first, x)
        second = nl.ndarray((128, 8), nl.float32, name="second", address=(0, 16))
        if not late:
            early = read_back(first)
        nisa.memset(second, 1.0)
        return (read_back(first) if late else early), read_back(second)

    x = np.zeros((128, 8), np.float32)
    assert trn3.run(kernel, x, False).findings == []
    run = trn3.run(kernel, x, True)
    (finding,) = run.findings
    assert finding["rule"] == "tensor.address_overwrites"
    assert finding["operand"] == "second" and "'first'" in finding["value"]
    np.testing.assert_array_equal(run.result[0], [[0] * 4 + [1] * 4] * 128)


def test_unwritten_bytes_stay_unwritten_through_another_tensor():
    def kernel(x):
        half = nl.ndarray((4, 8), nl.float32, address=(0, 64))
        nisa.dma_copy(half[:, :4], x)
        whole = nl.ndarray((4, 16), nl.float32, address=(0, 64))
        return read_back(whole)

    run = trn3.run(kernel, np.ones((4, 4), np.float32))
    assert np.isnan(run.result).sum() == 4 * 12
    assert [finding["rule"] for finding in run.findings] == ["uninitialized.output"]
    with pytest.raises(errors.UninitializedReadError):
        trn3.run(kernel, np.ones((4, 4), np.float32), options=trn3.RunOptions(uninitialized="stop"))


def test_what_is_placed_for_the_kernel_keeps_off_its_addresses():
    def kernel(x):
        pinned = [nl.ndarray((128, 256), nl.float32, address=(0, 32 + 8192 * at)) for at in range(4)]
        for tile in pinned:
            nisa.dma_copy(tile, x)
        loaded = [nl.load(x) for _ in range(24)]
        total = nl.zeros((128, 256), nl.float32)
        for tile in pinned + loaded:
            nisa.tensor_tensor(total, total, tile, nl.add)
        return read_back(total)

    x = np.ones((128, 256), np.float32)
    run = trn3.run(kernel, x)
    np.testing.assert_array_equal(run.result, 28 * x)
    places = [(row[2], row[2] + 1024) for row in run.program.tensors() if row[1] == "sbuf"]
    for at, one in enumerate(places):
        assert all(one[1] <= other[0] or other[1] <= one[0] for other in places[at + 1 :])


@given(st.data())
def test_conflicting_accesses_wait_for_each_other(data):
    """Whoever touches bytes that another writes starts after that one's result, except on the engine's own queue."""
    declared = data.draw(st.lists(tiles(), min_size=2, max_size=4))
    program = data.draw(steps(declared))
    accesses = []

    def kernel(x):
        views = [
            nl.ndarray(shape, TYPES[dtype], address=(partition, byte)) for partition, byte, shape, dtype in declared
        ]

        def touched(at, key):
            partition, byte, shape, dtype = declared[at]
            size = np.dtype(dtype).itemsize
            bytes_of = set()
            for row in range(*key[0].indices(shape[0])):
                for column in range(*key[1].indices(shape[1])):
                    bytes_of |= {(partition + row, byte + column * size + b) for b in range(size)}
            return bytes_of

        for at, key, number, other in program:
            if number % 2:
                nisa.memset(views[at][key], number, engine=[nisa.engine.vector, nisa.engine.gpsimd][number % 4 // 2])
                accesses.append((set(), touched(at, key)))
            else:
                to, source = common(declared[at][2], key, declared[other][2])
                engine = [nisa.engine.vector, nisa.engine.scalar][number % 4 // 2]
                nisa.tensor_copy(views[at][to], views[other][source], engine=engine)
                accesses.append((touched(other, source), touched(at, to)))
        return read_back(views[0])

    program_of = nki.record(nki.jit(kernel), np.zeros((1, 1), np.uint8))
    line = trn3._native.Timeline(program_of, trn3.Chip("trn3").table, None, 0)
    times = [line.instruction(at) for at in range(len(accesses))]
    for late, (reads, writes) in enumerate(accesses):
        for early in range(late):
            conflict = accesses[early][1] & (reads | writes) or accesses[early][0] & writes
            if conflict:
                assert times[late][0] >= times[early][0]
                if accesses[early][1] & reads:
                    assert times[late][0] >= times[early][1]


REFUSED = [
    ({"address": 3}, errors.RuleError, "tensor.address"),
    ({"address": (0,)}, errors.RuleError, "tensor.address"),
    ({"address": (0, 1.5)}, errors.RuleError, "tensor.address"),
    ({"address": (True, 0)}, errors.RuleError, "tensor.address"),
    ({"address": (0, 0), "buffer": nl.shared_hbm}, errors.RuleError, "tensor.address"),
    ({"address": (-1, 0)}, errors.CapacityError, "tensor.address_range"),
    ({"address": (0, -4)}, errors.CapacityError, "tensor.address_range"),
    ({"address": (65, 0)}, errors.CapacityError, "tensor.address_range"),
    ({"address": (0, 10**30)}, errors.CapacityError, "tensor.address_range"),
    ({"address": (0, 2**14 - 252), "buffer": nl.psum}, errors.CapacityError, "tensor.address_range"),
]


@pytest.mark.parametrize(("given", "error", "rule"), REFUSED, ids=[str(case[0]["address"]) for case in REFUSED])
def test_addresses_that_there_are_not(given, error, rule):
    def kernel(x):
        nl.ndarray((64, 64), nl.float32, **given)

    with pytest.raises(error) as raised:
        trn3.run(kernel, np.zeros((1, 1), np.float32))
    assert raised.value.rule == rule
    assert raised.value.fix


def test_the_last_address_is_one():
    def kernel(x, byte):
        tile = nl.ndarray((64, 64), nl.float32, address=(64, byte))
        nisa.memset(tile, 3.0)
        return read_back(tile)

    x = np.zeros((1, 1), np.float32)
    last = trn3.Chip("trn3").table.entry("sbuf.partition_bytes")["value"]
    last -= trn3.Chip("trn3").table.entry("sbuf.reserved_bytes")["value"] + 256
    assert (trn3.run(kernel, x, last).result == 3).all()
    with pytest.raises(errors.CapacityError):
        trn3.run(kernel, x, last + 1)


def test_psum_tensors_start_at_a_bank():
    def kernel(x, byte):
        bank = nl.ndarray((64, 64), nl.float32, buffer=nl.psum, address=(0, byte))
        nisa.memset(bank, 3.0)
        sbuf = nl.copy(bank)
        return read_back(sbuf)

    x = np.zeros((1, 1), np.float32)
    assert trn3.run(kernel, x, 4096).findings == []
    assert {finding["rule"] for finding in trn3.run(kernel, x, 1024).findings} == {"tensor.address_bank"}
    with pytest.raises(errors.RuleError):
        trn3.run(kernel, x, 1024, options=trn3.RunOptions(checks="documented"))


def test_partitions_count_from_the_address():
    def kernel(x, partition):
        tile = nl.ndarray((32, 8), nl.float32, address=(partition, 0))
        nisa.memset(tile, 1.0)
        return read_back(tile)

    x = np.zeros((1, 1), np.float32)
    assert trn3.run(kernel, x, 96).findings == []
    assert {finding["rule"] for finding in trn3.run(kernel, x, 8).findings} == {"partition.start"}
