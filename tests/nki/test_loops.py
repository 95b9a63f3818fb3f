"""Registers and dynamic loops: values, time, what is refused."""

from fractions import Fraction

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import trn3
from trn3 import errors, nki
from trn3.nki import isa as nisa
from trn3.nki import language as nl

PS = 1e-12


def rows_doubled(x, counted):
    """Double every row of ``x``, one a turn of ``counted(rows)``."""
    out = nl.ndarray(x.shape, x.dtype, buffer=nl.shared_hbm)
    rows, columns = x.shape

    def body(i):
        tile = nl.ndarray((1, columns), x.dtype)
        nisa.dma_copy(tile, x.ap([[columns, 1], [1, columns]], scalar_offset=i))
        nisa.tensor_scalar(tile, tile, nl.multiply, 2.0)
        nisa.dma_copy(out.ap([[columns, 1], [1, columns]], scalar_offset=i), tile)

    counted(rows, body)
    return out


def by_range(rows, body):
    for i in nl.dynamic_range(rows):
        body(i)


def by_register(rows, body):
    stop = nisa.register_alloc(rows)
    for i in nl.dynamic_range(nisa.register_alloc(0), stop, 1):
        body(i)


def by_fori(rows, body):
    nl.fori_loop(0, rows, body)


def by_while(rows, body):
    """Count down in SBUF; the register is the number of rows left."""
    left = nl.full((1, 1), rows, nl.int32)
    one = nl.full((1, 1), 1, nl.int32)
    register = nisa.register_alloc()
    at = nisa.register_alloc()
    nisa.register_load(register, left)
    while register:
        nisa.tensor_tensor(left, left, one, nl.subtract)
        nisa.register_load(at, left)
        body(at)
        nisa.register_load(register, left)


def by_while_loop(rows, body):
    left = nl.full((1, 1), rows, nl.int32)
    one = nl.full((1, 1), 1, nl.int32)
    register = nisa.register_alloc()
    nisa.register_load(register, left)

    def turn(condition):
        nisa.tensor_tensor(left, left, one, nl.subtract)
        nisa.register_load(condition, left)
        body(condition)
        return condition

    nl.while_loop(register, turn)


WAYS = [by_range, by_register, by_fori, by_while, by_while_loop]


@pytest.mark.parametrize("way", WAYS)
@pytest.mark.parametrize("eager", [False, True])
def test_every_kind_of_loop_runs_its_body_for_each_row(way, eager):
    x = np.arange(5 * 8, dtype=np.float32).reshape(5, 8)
    simulated = nki.simulate(lambda x: rows_doubled(x, way), eager=eager)
    np.testing.assert_array_equal(simulated(x), 2 * x)
    assert simulated.findings == []


def test_a_body_is_recorded_once_however_often_it_runs():
    x = np.ones((64, 8), np.float32)
    few, many = (nki.record(lambda x: rows_doubled(x, by_range), x[:n]).instructions for n in (2, 64))
    assert few == many == 5


@given(start=st.integers(-20, 20), stop=st.integers(-20, 20), step=st.integers(1, 7))
@settings(max_examples=30)
def test_a_counted_loop_counts_as_range_does(start, stop, step):
    def kernel(x):
        out = nl.ndarray((1, 64), nl.int32, buffer=nl.shared_hbm)
        seen = nl.zeros((1, 64), nl.int32)
        place = nl.full((1, 1), 0, nl.int32)
        one = nl.full((1, 1), 1, nl.int32)
        value = nl.ndarray((1, 1), nl.int32)
        for i in nl.dynamic_range(nisa.register_alloc(start), nisa.register_alloc(stop), step):
            nisa.register_store(value, i)
            nisa.tensor_copy(seen.ap([[64, 1], [1, 1]], scalar_offset=place, indirect_dim=1), value)
            nisa.tensor_tensor(place, place, one, nl.add)
        nisa.dma_copy(out, seen)
        return out

    wanted = list(range(start, stop, step))
    run = trn3.run(kernel, np.zeros((1, 1), np.float32))
    assert list(run.result[0, : len(wanted)]) == wanted
    assert not run.result[0, len(wanted) :].any()
    assert run.turns == [[len(wanted)]]


def nested(x):
    """Sum of all elements of x (R, C), element by element."""
    rows, columns = x.shape
    out = nl.ndarray((1, 1), nl.float32, buffer=nl.shared_hbm)
    total = nl.zeros((1, 1), nl.float32)
    for r in nl.dynamic_range(rows):
        row = nl.ndarray((1, columns), nl.float32)
        nisa.dma_copy(row, x.ap([[columns, 1], [1, columns]], scalar_offset=r))
        for c in nl.dynamic_range(columns):
            nisa.tensor_tensor(total, total, row.select(1, c), nl.add)
    nisa.dma_copy(out, total)
    return out


def test_loops_nest():
    x = np.arange(12, dtype=np.float32).reshape(3, 4)
    run = trn3.run(nested, x)
    assert run.result[0, 0] == x.sum()
    assert run.turns == [[3, 4, 4, 4]]
    assert run.findings == []


@pytest.mark.parametrize("uninitialized", ["poison", "stop"])
def test_turns_may_come_from_memory(uninitialized):
    def kernel(x, count):
        out = nl.ndarray(x.shape, x.dtype, buffer=nl.shared_hbm)
        acc = nl.zeros(x.shape, x.dtype)
        tile = nl.load(x)
        held = nl.load(count)
        stop = nisa.register_alloc()
        nisa.register_load(stop, held)
        for _ in nl.dynamic_range(stop):
            nisa.tensor_tensor(acc, acc, tile, nl.add)
        nisa.dma_copy(out, acc)
        return out

    x = np.ones((4, 8), np.float32)
    for turns in (0, 1, 7):
        run = trn3.run(kernel, x, np.array([[turns]], np.int32), options=trn3.RunOptions(uninitialized=uninitialized))
        np.testing.assert_array_equal(run.result, turns * x)
        assert run.turns == [[turns]]
        assert run.report.total_s > 0
    with pytest.raises(RuntimeError, match="known only from a run"):
        trn3.Report(run.program, run.table)


def test_what_a_loop_may_not_have_written_is_poison():
    def kernel(x, count):
        out = nl.ndarray(x.shape, x.dtype, buffer=nl.shared_hbm)
        tile = nl.load(x)
        stop = nisa.register_alloc()
        nisa.register_load(stop, nl.load(count))
        for _ in nl.dynamic_range(stop):
            nisa.dma_copy(out, tile)
        return out

    x = np.ones((4, 8), np.float32)
    ran = trn3.run(kernel, x, np.array([[1]], np.int32))
    np.testing.assert_array_equal(ran.result, x)
    assert ran.findings == []
    skipped = trn3.run(kernel, x, np.array([[0]], np.int32))
    assert np.isnan(skipped.result).all()
    assert [finding["rule"] for finding in skipped.findings] == ["uninitialized.output"]


def test_poison_is_written_once_and_not_in_every_turn():
    def kernel(x):
        out = nl.ndarray((1, 8), x.dtype, buffer=nl.shared_hbm)
        held = nl.ndarray((1, 8), x.dtype)
        for i in nl.dynamic_range(8):
            nisa.dma_copy(held.ap([[8, 1], [1, 1]], scalar_offset=i, indirect_dim=1), x.select(1, i))
        nisa.dma_copy(out, held)
        return out

    x = np.arange(8, dtype=np.float32).reshape(1, 8)
    run = trn3.run(kernel, x)
    np.testing.assert_array_equal(run.result, x)


def test_products_accumulate_over_turns():
    def kernel(a, b):
        out = nl.ndarray((16, 32), nl.float32, buffer=nl.shared_hbm)
        bank = nl.zeros((16, 32), nl.float32, buffer=nl.psum)
        for i in nl.dynamic_range(4):
            left = nl.ndarray((8, 16), nl.float32)
            right = nl.ndarray((8, 32), nl.float32)
            nisa.dma_copy(left, a.select(0, i))
            nisa.dma_copy(right, b.select(0, i))
            nisa.nc_matmul(bank, left, right, accumulate=True)
        nisa.dma_copy(out, nl.copy(bank))
        return out

    rng = np.random.default_rng(5)
    a = rng.integers(-3, 4, (4, 8, 16)).astype(np.float32)
    b = rng.integers(-3, 4, (4, 8, 32)).astype(np.float32)
    np.testing.assert_array_equal(nki.simulate(kernel)(a, b), np.einsum("ikm,ikn->mn", a, b))


@pytest.mark.parametrize("turns", [1, 2, 3, 10])
def test_time_is_that_of_the_loop_written_out_plus_its_branches(turns):
    """Memsets in a chain on VectorE: each turn adds its instructions and one branch back."""

    def kernel(x, n):
        tile = nl.ndarray((128, 512), nl.float32)
        out = nl.ndarray((128, 512), nl.float32, buffer=nl.shared_hbm)
        for _ in nl.dynamic_range(n):
            nisa.memset(tile, 1.0)
            nisa.memset(tile, 2.0)
        nisa.dma_copy(out, tile)
        return out

    table = trn3.Chip("trn3").table
    x = np.zeros((1, 1), np.float32)

    def total(n):
        return trn3.run(kernel, x, n).report.total_s

    back = table.entry("sequencer.loop_back.vector_ns")["value"] * 1e-9
    stream = table.entry("vector.stream.memset_bits32_cycles_per_element")["value"]
    overhead = table.entry("vector.other.overhead_cycles")["value"]
    clock = table.entry("vector.clock_hz")["value"]
    each = (512 * float(Fraction(str(stream))) + overhead) / clock
    assert total(turns + 1) - total(turns) == pytest.approx(2 * each + back, abs=3 * PS)


def test_a_turn_waits_for_the_turn_before():
    """The load of a turn must not overwrite the tile that the turn before still reads."""
    x = np.ones((4, 512), np.float32)
    run = trn3.run(lambda x: rows_doubled(x, by_range), x)
    load = run.program.opcodes().index("dma_copy")
    store = len(run.program.opcodes()) - 2
    assert store in run.program.producers(load)
    unrolled = trn3.run(lambda x: rows_doubled(x, lambda rows, body: [body(at) for at in fixed(rows)]), x)
    assert run.report.total_s >= 0.9 * unrolled.report.total_s


def fixed(rows):
    return [nisa.register_alloc(at) for at in range(rows)]


def test_programs_with_loops_are_saved_and_run_again(tmp_path):
    x = np.arange(40, dtype=np.float32).reshape(5, 8)
    nki.record(lambda x: rows_doubled(x, by_while), x).save(tmp_path / "loops.trn3")
    program = trn3.load_program(tmp_path / "loops.trn3")
    run = trn3.Chip("trn3").run(program, [x])
    np.testing.assert_array_equal(run.result[0], 2 * x)
    assert run.turns == [[5]]


# What is refused ------------------------------------------------------------------------------------------------------


def refused(body, *arrays, **options):
    arrays = arrays or (np.ones((4, 8), np.float32),)
    with pytest.raises(errors.Trn3Error) as caught:
        nki.simulate(body, **options)(*arrays)
    return caught.value


def test_a_register_past_the_tensor_is_refused_on_its_line():
    def kernel(x):
        out = nl.ndarray((1, 8), x.dtype, buffer=nl.shared_hbm)
        for i in nl.dynamic_range(5):
            nisa.dma_copy(out, x.ap([[8, 1], [1, 8]], scalar_offset=i))
        return out

    error = refused(kernel)
    assert error.rule == "tensor.scalar_offset_bounds"
    assert "the register is 4: elements 32 to 39" in str(error)
    assert "there are 32" in str(error)


def test_transfers_out_of_bounds_are_skipped_when_asked():
    def kernel(x):
        out = nl.zeros((1, 8), x.dtype, buffer=nl.shared_hbm)
        for i in nl.dynamic_range(5):
            nisa.dma_copy(out, x.ap([[8, 1], [1, 8]], scalar_offset=i), oob_mode=nisa.oob_mode.skip)
        return out

    x = np.arange(32, dtype=np.float32).reshape(4, 8)
    np.testing.assert_array_equal(nki.simulate(kernel)(x), x[3:])


def test_a_free_place_on_chip_stays_in_its_partition():
    def kernel(x):
        out = nl.ndarray((4, 1), x.dtype, buffer=nl.shared_hbm)
        tile = nl.load(x)
        nisa.dma_copy(out, nl.copy(tile.select(1, nisa.register_alloc(-1))))
        return out

    error = refused(kernel)
    assert error.rule == "tensor.scalar_offset_bounds"
    assert "in a partition" in str(error)


@pytest.mark.parametrize("use", [int, float, range, bool, lambda r: 1 if r else 0, lambda r: [0, 1][r]])
def test_python_cannot_see_a_register(use):
    def kernel(x):
        use(nisa.register_alloc(1))
        return x

    with pytest.raises(TypeError, match="register"):
        nki.simulate(kernel)(np.ones((4, 8), np.float32))


def test_a_loop_left_early_is_refused():
    def kernel(x):
        for _ in nl.dynamic_range(3):
            nisa.dma_copy(nl.ndarray((4, 8), x.dtype), x)
            break
        return x

    error = refused(kernel)
    assert (error.rule, error.instruction) == ("loop.unclosed", "loop")
    assert __file__ in error.where


def test_a_value_inside_a_loop_is_refused():
    def kernel(x):
        for _ in nl.dynamic_range(3):
            print(np.asarray(nl.load(x)))
        return x

    assert refused(kernel).rule == "loop.value"


def test_steps_bounds_and_conditions_are_checked():
    def loop(*bounds):
        def kernel(x):
            for _ in nl.dynamic_range(*bounds):
                pass
            return x

        return kernel

    assert refused(loop(0, 4, 0)).rule == "loop.step"
    assert refused(loop(0, 4, -1)).rule == "loop.step"
    assert refused(loop(0, 1.5)).rule == "loop.bound"
    assert refused(loop(2**31)).rule == "loop.bound"

    def condition(x):
        nl.while_loop(1, lambda register: register)
        return x

    assert refused(condition).rule == "loop.condition"


def test_the_register_that_counts_is_not_written():
    def kernel(x):
        for i in nl.dynamic_range(3):
            nisa.register_move(i, 0)
        return x

    assert refused(kernel).rule == "register.frozen"


def test_registers_hold_32_bits_and_one_element():
    assert refused(lambda x: nisa.register_alloc(2**32) and x).rule == "register.value"
    assert refused(lambda x: nisa.register_alloc(-(2**31) - 1) and x).rule == "register.value"

    def wide(x):
        nisa.register_load(nisa.register_alloc(), nl.load(x))
        return x

    assert refused(wide).rule == "register.element"

    def half(x):
        nisa.register_load(nisa.register_alloc(), nl.zeros((1, 1), nl.bfloat16))
        return x

    assert refused(half).rule == "register.element"


@pytest.mark.parametrize(
    ("dtype", "value", "wanted"),
    [("int8", -3, -3), ("uint8", 200, 200), ("int16", -300, -300), ("uint16", 60000, 60000), ("int32", -7, -7)],
)
def test_loads_extend_and_stores_cut(dtype, value, wanted):
    def kernel(x):
        out = nl.ndarray((1, 1), nl.int32, buffer=nl.shared_hbm)
        held = nl.ndarray((1, 1), nl.int32)
        register = nisa.register_alloc()
        nisa.register_load(register, nl.load(x))
        other = nisa.register_alloc()
        nisa.register_move(other, register)
        nisa.register_store(held, other)
        nisa.dma_copy(out, held)
        return out

    assert nki.simulate(kernel)(np.array([[value]], dtype))[0, 0] == wanted


def test_a_register_nobody_wrote_is_a_finding():
    def kernel(x):
        out = nl.ndarray((1, 1), nl.int32, buffer=nl.shared_hbm)
        held = nl.ndarray((1, 1), nl.int32)
        nisa.register_store(held, nisa.register_alloc())
        nisa.dma_copy(out, held)
        return out

    simulated = nki.simulate(kernel)
    assert simulated(np.ones((4, 8), np.float32))[0, 0] == 0
    assert [finding["rule"] for finding in simulated.findings] == ["register.unwritten"]
    assert refused(kernel, checks="documented").rule == "register.unwritten"


def test_tensors_of_a_body_are_not_used_outside():
    def kernel(x):
        out = nl.ndarray(x.shape, x.dtype, buffer=nl.shared_hbm)
        for _ in nl.dynamic_range(2):
            tile = nl.load(x)
        nisa.dma_copy(out, tile)
        return out

    x = np.ones((4, 8), np.float32)
    simulated = nki.simulate(kernel)
    np.testing.assert_array_equal(simulated(x), x)
    assert [finding["rule"] for finding in simulated.findings] == ["loop.tensor_scope"]
    assert refused(kernel, checks="documented").rule == "loop.tensor_scope"


def test_views_are_made_run_time_once_and_along_free_dimensions():
    def twice(x):
        register = nisa.register_alloc(0)
        x.select(0, register).select(0, register)
        return x

    def partitions(x):
        nl.load(x).ap([[8, 4], [1, 8]], scalar_offset=nisa.register_alloc(0))
        return x

    assert refused(twice).rule == "tensor.scalar_offset"
    assert refused(partitions).rule == "tensor.scalar_offset"


def test_offsets_are_integers_and_move_by_whole_elements():
    def floats(x):
        x.ap([[8, 1], [1, 8]], scalar_offset=nl.full((1, 1), 2.0, nl.float32))
        return x

    def parts(x, dtype):
        x.ap([[2, 1], [1, 2]], scalar_offset=nisa.register_alloc(1), indirect_dim=1, dtype=dtype)
        return x

    assert refused(floats).rule == "tensor.scalar_offset"
    refused_part = refused(lambda x: parts(x, nl.float32), np.ones((4, 8), np.int8))
    assert refused_part.rule == "tensor.scalar_offset"
    nki.record(lambda x: parts(x, nl.float32), np.ones((4, 8), np.int32))


# What Python may ask of a register -----------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("ask", "message"),
    [
        (lambda x, i: i == 2, "register.value_unknown"),
        (lambda x, i: i != 2, "register.value_unknown"),
        (lambda x, i: i < 2, "register.value_unknown"),
        (lambda x, i: i in (1, 2), "register.value_unknown"),
        (lambda x, i: range(i), "register.value_unknown"),
        (lambda x, i: i + 1, "register.arithmetic"),
        (lambda x, i: 4 - i, "register.arithmetic"),
        (lambda x, i: -i, "register.arithmetic"),
        (lambda x, i: i % 2, "register.arithmetic"),
        (lambda x, i: x[i], "tensor.index_register"),
        (lambda x, i: x[nl.ds(i, 1)], "register.arithmetic"),
    ],
)
def test_no_value_of_a_register_is_made_up_while_recording(ask, message):
    def kernel(x):
        for i in nl.dynamic_range(4):
            ask(x, i)
        return x

    with pytest.raises(TypeError, match=rf"\[{message}\]"):
        nki.simulate(kernel)(np.ones((4, 8), np.float32))


def test_registers_are_keys():
    def kernel(x):
        first, second = nisa.register_alloc(0), nisa.register_alloc(0)
        assert len({first: 1, second: 2}) == 2
        return x

    nki.record(kernel, np.ones((4, 8), np.float32))


def negated(x):
    register = nisa.register_alloc(1)
    while not register:
        nisa.register_move(register, 1)
    return x


def joined(x):
    register = nisa.register_alloc(1)
    while x is None or register:
        nisa.register_move(register, 0)
    return x


@pytest.mark.parametrize("kernel", [negated, joined])
def test_the_whole_test_of_a_while_is_a_register(kernel):
    with pytest.raises(TypeError, match="only `while register:` can test it"):
        nki.simulate(kernel)(np.ones((4, 8), np.float32))


def endless(x):
    tile = nl.load(x)
    register = nisa.register_alloc(1)
    while register:
        nisa.tensor_scalar(tile, tile, nl.add, 1.0)
    return x


@pytest.mark.parametrize("eager", [False, True])
def test_a_while_that_cannot_end_is_a_deadlock_on_its_line(eager):
    error = refused(endless, eager=eager)
    assert isinstance(error, errors.DeadlockError)
    assert error.rule == "loop.endless"
    assert __file__ in error.where


@pytest.mark.parametrize("start", [0, 1])
def test_a_while_that_writes_its_register_once_ends(start):
    def kernel(x):
        register = nisa.register_alloc(start)
        while register:
            nisa.register_move(register, 0)
        return x

    assert trn3.run(kernel, np.ones((4, 8), np.float32)).turns == [[start]]


@pytest.mark.parametrize("depth", [16, 17])
def test_loops_nest_to_a_depth(depth):
    def kernel(x):
        out = nl.ndarray(x.shape, x.dtype, buffer=nl.shared_hbm)
        tile = nl.load(x)

        def inside(loops):
            if loops == 0:
                nisa.tensor_scalar(tile, tile, nl.add, 1.0)
                return
            for _ in nl.dynamic_range(1):
                inside(loops - 1)

        inside(depth)
        nisa.dma_copy(out, tile)
        return out

    x = np.ones((4, 8), np.float32)
    if depth == 16:
        np.testing.assert_array_equal(nki.simulate(kernel)(x), 2)
    else:
        assert refused(kernel).rule == "loop.depth"


def test_steps_may_be_of_numpy():
    def kernel(x):
        for _ in nl.dynamic_range(np.int32(0), np.int64(5), np.int32(2)):
            pass
        return x

    assert trn3.run(kernel, np.ones((4, 8), np.float32)).turns == [[3]]


def test_a_register_from_unwritten_memory_is_a_finding():
    def kernel(x, written):
        held = nl.ndarray((1, 2), nl.int32)
        nisa.memset(held[:, :1], 2)
        total = nl.load(x)
        turns = nisa.register_alloc()
        nisa.register_load(turns, held[:, :1] if written else held[:, 1:])
        for _ in nl.dynamic_range(turns):
            nisa.tensor_scalar(total, total, nl.add, 1.0)
        out = nl.ndarray(x.shape, x.dtype, buffer=nl.shared_hbm)
        nisa.dma_copy(out, total)
        return out

    x = np.zeros((4, 4), np.float32)
    run = trn3.run(kernel, x, True)
    assert (run.result == 2).all() and run.findings == []
    (finding,) = trn3.run(kernel, x, False).findings
    assert finding["rule"] == "uninitialized.register"
    for checks in ("documented", "hardware"):
        with pytest.raises(errors.UninitializedReadError):
            trn3.run(kernel, x, False, options=trn3.RunOptions(checks=checks))
