"""Kernels on the two cores of a logical core: values, meetings, time, what is refused."""

import numpy as np
import pytest

import trn3
from trn3 import errors, nki
from trn3.nki import isa as nisa
from trn3.nki import language as nl


def halves(x):
    """Double the rows of ``x``, each core one half of them."""
    out = nl.ndarray(x.shape, x.dtype, buffer=nl.shared_hbm)
    programs = nl.num_programs()
    rows = x.shape[0] // programs
    first = nl.program_id(0) * rows
    tile = nl.ndarray((rows, x.shape[1]), x.dtype)
    nisa.dma_copy(tile, x[first : first + rows])
    nisa.tensor_scalar(tile, tile, nl.multiply, 2.0)
    nisa.dma_copy(out[first : first + rows], tile)
    return out


def swapped(x, y):
    """Each core writes one row of a shared tensor, and after a barrier reads the other's."""
    core = nl.program_id(0)
    shared = nl.ndarray(x.shape, x.dtype, buffer=nl.shared_hbm)
    out = nl.ndarray(x.shape, x.dtype, buffer=nl.shared_hbm)
    tile = nl.ndarray((1, x.shape[1]), x.dtype)
    nisa.dma_copy(tile, x[core : core + 1])
    nisa.tensor_scalar(tile, tile, nl.add, float(core))
    nisa.dma_copy(shared[core : core + 1], tile)
    nisa.core_barrier(shared, (0, 1))
    other = nl.ndarray((1, x.shape[1]), x.dtype)
    nisa.dma_copy(other, shared[1 - core : 2 - core])
    nisa.dma_copy(out[core : core + 1], other)
    return out


def exchanged(x, engine, pipes=(0, 0), turns=1):
    """Core 1's row comes to core 0 and the other way round."""
    core = nl.program_id(0)
    out = nl.ndarray(x.shape, x.dtype, buffer=nl.shared_hbm)
    mine = nl.ndarray((1, x.shape[1]), x.dtype)
    theirs = nl.ndarray((1, x.shape[1]), x.dtype)
    nisa.dma_copy(mine, x[core : core + 1])
    for _ in range(turns):
        nisa.sendrecv(mine, theirs, 1 - core, 1 - core, pipes[core], dma_engine=engine)
        mine, theirs = theirs, mine
    nisa.dma_copy(out[core : core + 1], mine)
    return out


X = np.arange(2 * 128, dtype=np.float32).reshape(2, 128)


def test_two_cores_give_what_one_gives():
    x = np.arange(64 * 256, dtype=np.float32).reshape(64, 256)
    for kernel in (nki.Kernel(halves), nki.Kernel(halves)[1], nki.Kernel(halves)[2]):
        np.testing.assert_array_equal(kernel(x), 2 * x)
    run = trn3.run(nki.Kernel(halves)[2], x)
    assert run.program.cores == 2
    assert run.findings == []


def test_two_cores_take_half_the_time_of_one():
    def kernel(x):
        cores = nl.num_programs()
        out = nl.ndarray(x.shape, x.dtype, buffer=nl.shared_hbm)
        for at in range(nl.program_id(0), x.shape[0] // 128, cores):
            rows = slice(128 * at, 128 * at + 128)
            nl.store(out[rows], nl.multiply(nl.load(x[rows]), 2.0))
        return out

    x = np.ones((16 * 128, 2048), np.float32)
    one, two = (trn3.run(nki.Kernel(kernel)[cores], x).report.total_s for cores in (1, 2))
    assert 0.5 <= two / one < 0.6


def test_a_barrier_makes_the_other_cores_writes_visible():
    run = trn3.run(nki.Kernel(swapped)[2], X, X)
    np.testing.assert_array_equal(run.result, (X + [[0.0], [1.0]])[::-1])
    assert run.findings == []


@pytest.mark.parametrize("engine", [nisa.dma_engine.dma, nisa.dma_engine.gpsimd_dma])
@pytest.mark.parametrize("turns", [1, 2, 3])
def test_an_exchange_swaps_tiles(engine, turns):
    run = trn3.run(nki.Kernel(lambda x: exchanged(x, engine, turns=turns))[2], X)
    np.testing.assert_array_equal(run.result, X[::-1] if turns % 2 else X)


@pytest.mark.parametrize("dtype", ["bfloat16", "uint8", "int32"])
def test_an_exchange_moves_bits(dtype):
    x = np.arange(2 * 64).reshape(2, 64).astype(getattr(nl, dtype))
    np.testing.assert_array_equal(nki.Kernel(lambda x: exchanged(x, nisa.dma_engine.dma))[2](x), x[::-1])


def test_meetings_are_done_for_both_cores_at_once():
    table = trn3.Chip("trn3").table
    remote = round(table.entry("semaphore.remote_ns")["value"] * 1000)
    report = trn3.run(nki.Kernel(swapped)[2], X, X).report
    times = [core.instruction(3) for core in (report.timeline, report.timeline.peer)]
    assert times[0] == times[1]
    issue, end, stall = times[0]
    assert issue == end
    assert stall >= remote


def test_inside_gpsimd_an_exchange_takes_its_published_time():
    table = trn3.Chip("trn3").table
    start = round(table.entry("gpsimd.dma.start_ns")["value"] * 1000)
    bandwidth = table.entry("gpsimd.dma.bandwidth_bytes_per_s")["value"]
    run = trn3.run(nki.Kernel(lambda x: exchanged(x, nisa.dma_engine.gpsimd_dma))[2], X)
    issue, end, _ = run.report.timeline.instruction(1)
    assert end - issue == start + 128 * 4 * 10**12 // bandwidth


def test_loops_go_round_on_each_core():
    def kernel(x):
        core = nl.program_id(0)
        out = nl.ndarray(x.shape, x.dtype, buffer=nl.shared_hbm)
        total = nl.zeros((1, x.shape[1]), x.dtype)
        row = nl.ndarray((1, x.shape[1]), x.dtype)
        for i in nl.dynamic_range(3):
            nisa.dma_copy(row, x.ap([[x.shape[1], 1], [1, x.shape[1]]], scalar_offset=i))
            nisa.tensor_tensor(total, total, row, nl.add)
            nisa.sendrecv(total, row, 1 - core, 1 - core, 0)
        for i in range(2):
            nisa.dma_copy(out[2 * core + i : 2 * core + i + 1], row)
        return out

    x = np.ones((4, 16), np.float32) * np.array([[1], [2], [4], [8]], np.float32)
    run = trn3.run(nki.Kernel(kernel)[2], x)
    np.testing.assert_array_equal(run.result, 7)
    assert run.turns == [[3], [3]]
    assert run.report.total_s > 0


def test_launches_are_recorded_once_for_each_size_and_saved(tmp_path):
    kernel = nki.Kernel(swapped)
    kernel[2].record(X, X).save(tmp_path / "pair.trn3")
    program = trn3.load_program(tmp_path / "pair.trn3")
    assert program.cores == 2
    run = trn3.Chip("trn3").run(program, [X])
    np.testing.assert_array_equal(run.result[0], (X + [[0.0], [1.0]])[::-1])
    again = trn3.Chip("trn3").run(program, [X])
    assert again.report.total_s == run.report.total_s


def test_stochastic_rounding_draws_differ_between_cores_and_repeat():
    def kernel(x):
        core = nl.program_id(0)
        out = nl.ndarray(x.shape, nl.bfloat16, buffer=nl.shared_hbm)
        tile = nl.ndarray((1, x.shape[1]), nl.bfloat16)
        row = nl.load(x[0:1])
        nisa.tensor_copy(tile, row)
        nisa.dma_copy(out[core : core + 1], tile)
        return out

    x = np.full((2, 512), 1.001, np.float32)
    options = trn3.RunOptions(stochastic_rounding=True, seed=3)
    first, second = (trn3.run(nki.Kernel(kernel)[2], x, options=options).result for _ in range(2))
    np.testing.assert_array_equal(first, second)
    assert (first[0] != first[1]).any()


def test_what_neither_core_writes_is_reported_and_what_both_write_in_parts_is_not():
    def kernel(x, rows):
        out = nl.ndarray((4, 8), x.dtype, buffer=nl.shared_hbm)
        tile = nl.load(x[0:1])
        for row in rows[nl.program_id(0)]:
            nisa.dma_copy(out[row : row + 1], tile)
        return out

    x = np.ones((1, 8), np.float32)
    whole = trn3.run(nki.Kernel(lambda x: kernel(x, ((0, 2), (1, 3))))[2], x)
    assert whole.findings == []
    np.testing.assert_array_equal(whole.result, 1)
    part = trn3.run(nki.Kernel(lambda x: kernel(x, ((0,), (1, 3))))[2], x)
    assert {finding["rule"] for finding in part.findings} == {"output.unwritten"}
    np.testing.assert_array_equal(np.isnan(part.result).all(axis=1), [False, False, True, False])


def test_arguments_are_written_in_parts_and_private_tensors_are_each_cores_own():
    def in_place(x):
        core = nl.program_id(0)
        tile = nl.load(x[core : core + 1])
        nisa.tensor_scalar(tile, tile, nl.add, 1.0 + core)
        nisa.dma_copy(x[core : core + 1], tile)
        return x

    def private(x):
        core = nl.program_id(0)
        out = nl.ndarray(x.shape, x.dtype, buffer=nl.shared_hbm)
        own = nl.ndarray(x.shape, x.dtype, buffer=nl.private_hbm)
        nisa.dma_copy(own, nl.add(nl.load(x), 1.0 + core))
        nisa.core_barrier(out, (0, 1))
        nisa.dma_copy(out[core : core + 1], own[core : core + 1])
        return out

    for kernel in (in_place, private):
        run = trn3.run(nki.Kernel(kernel)[2], X.copy())
        np.testing.assert_array_equal(run.result, X + [[1.0], [2.0]])
        assert run.findings == []


# Races and unwritten bytes --------------------------------------------------------------------------------------------


def both_write(x):
    out = nl.ndarray(x.shape, x.dtype, buffer=nl.shared_hbm)
    nisa.dma_copy(out, x)
    return out


def no_barrier(x):
    core = nl.program_id(0)
    shared = nl.ndarray(x.shape, x.dtype, buffer=nl.shared_hbm)
    out = nl.ndarray(x.shape, x.dtype, buffer=nl.shared_hbm)
    if core == 1:
        nisa.dma_copy(shared, x)
    nisa.core_barrier(out, (0, 1))
    if core == 0:
        nisa.dma_copy(shared[0:1], x[1:2])
    nisa.dma_copy(out[core : core + 1], shared[0:1])
    return out


def late(x, turns):
    """Core 1 writes what core 0 reads in the next turn of a loop."""
    core = nl.program_id(0)
    shared = (
        nl.zeros(x.shape, x.dtype, buffer=nl.shared_hbm)
        if core == 0
        else nl.ndarray(x.shape, x.dtype, buffer=nl.shared_hbm)
    )
    out = nl.ndarray(x.shape, x.dtype, buffer=nl.shared_hbm)
    for _ in nl.dynamic_range(turns):
        nisa.core_barrier(shared, (0, 1))
        if core == 0:
            nisa.dma_copy(out, shared)
    if core == 1:
        nisa.dma_copy(shared, x)
    return out


@pytest.mark.parametrize("kernel", [both_write, no_barrier, lambda x: late(x, 2)])
def test_what_nothing_orders_is_a_race(kernel):
    run = trn3.run(nki.Kernel(kernel)[2], X)
    assert {finding["rule"] for finding in run.findings} == {"cores.race"}
    assert "core 1" in run.findings[0]["message"]
    assert run.findings[0]["line"] > 0
    error = refused(kernel, X, checks="documented")
    assert isinstance(error, errors.RaceError)
    assert __file__ in error.where


@pytest.mark.parametrize("step", [1, 2])
def test_interleaved_parts_are_no_race(step):
    def kernel(x):
        core = nl.program_id(0)
        out = nl.ndarray(x.shape, x.dtype, buffer=nl.shared_hbm)
        columns = x.shape[1]
        for at in range(0, columns, 2):
            first = at + core if step == 2 else at // 2 + core * (columns // 2)
            nisa.dma_copy(out[:, first : first + 1], x[:, first : first + 1])
        return out

    run = trn3.run(nki.Kernel(kernel)[2], X)
    np.testing.assert_array_equal(run.result, X)
    assert run.findings == []


@pytest.mark.parametrize("uninitialized", ["poison", "stop"])
def test_what_the_other_core_wrote_before_a_barrier_is_written(uninitialized):
    def kernel(x):
        shared = nl.ndarray(x.shape, x.dtype, buffer=nl.shared_hbm)
        out = nl.ndarray(x.shape, x.dtype, buffer=nl.shared_hbm)
        if nl.program_id(0) == 1:
            nisa.dma_copy(shared, x)
        nisa.core_barrier(shared, (0, 1))
        if nl.program_id(0) == 0:
            nisa.dma_copy(out, shared)
        return out

    run = trn3.run(nki.Kernel(kernel)[2], X, options=trn3.RunOptions(uninitialized=uninitialized))
    np.testing.assert_array_equal(run.result, X)
    assert run.findings == []


def test_what_neither_core_wrote_is_nan_after_a_barrier():
    def kernel(x):
        core = nl.program_id(0)
        shared = nl.ndarray(x.shape, x.dtype, buffer=nl.shared_hbm)
        out = nl.ndarray(x.shape, x.dtype, buffer=nl.shared_hbm)
        if core == 0:
            nisa.dma_copy(shared[0:1], x[0:1])
        nisa.core_barrier(shared, (0, 1))
        nisa.dma_copy(out[core : core + 1], shared[core : core + 1])
        return out

    result = nki.Kernel(kernel)[2](X)
    np.testing.assert_array_equal(result[0], X[0])
    assert np.isnan(result[1]).all()


def test_unwritten_bytes_that_are_sent_are_a_finding():
    def kernel(x, written):
        core = nl.program_id(0)
        out = nl.ndarray((1, x.shape[1]), x.dtype, buffer=nl.shared_hbm)
        mine, theirs = (nl.ndarray((1, x.shape[1]), x.dtype) for _ in range(2))
        if core in written:
            nisa.dma_copy(mine, x[core : core + 1])
        nisa.sendrecv(mine, theirs, 1 - core, 1 - core, 0)
        if core == 0:
            nisa.dma_copy(out, theirs)
        return out

    assert trn3.run(nki.Kernel(lambda x: kernel(x, (0, 1)))[2], X).findings == []
    run = trn3.run(nki.Kernel(lambda x: kernel(x, (0,)))[2], X)
    assert [finding["rule"] for finding in run.findings] == ["uninitialized.sent"]
    assert np.isnan(run.result).all()
    assert refused(lambda x: kernel(x, (0,)), X, checks="documented").rule == "uninitialized.sent"


def test_what_both_cores_find_in_a_run_is_said_once():
    def kernel(x):
        core = nl.program_id(0)
        out = nl.ndarray(x.shape, x.dtype, buffer=nl.shared_hbm)
        nisa.dma_copy(out[core : core + 1], nl.ndarray((1, x.shape[1]), x.dtype))
        return out

    findings = trn3.run(nki.Kernel(kernel)[2], X).findings
    assert [finding["rule"] for finding in findings] == ["uninitialized.output"]


# What is refused ------------------------------------------------------------------------------------------------------


def refused(function, *arrays, grid=2, **options):
    with pytest.raises(errors.Trn3Error) as caught:
        nki.Kernel(function, trn3.RunOptions(**options))[grid](*arrays)
    return caught.value


@pytest.mark.parametrize("grid", [0, 3, 8, (1, 2), (2, 2), (), "2", -1])
def test_a_logical_core_has_one_or_two_cores(grid):
    error = refused(halves, X, grid=grid)
    assert error.rule == "kernel.grid"


def test_the_environment_agrees_with_the_launch(monkeypatch):
    monkeypatch.setenv("NEURON_LOGICAL_NC_CONFIG", "1")
    assert refused(halves, X).rule == "kernel.cores"
    monkeypatch.setenv("NEURON_LOGICAL_NC_CONFIG", "2")
    assert refused(halves, X, grid=1).rule == "kernel.cores"
    np.testing.assert_array_equal(nki.Kernel(halves)[2](X), 2 * X)


def test_eager_runs_and_values_are_those_of_one_core():
    assert refused(halves, X, eager=True).rule == "kernel.cores"

    def peeks(x):
        print(np.asarray(nl.load(x)))
        return x

    assert refused(peeks, X).rule == "cores.value"


def test_meetings_need_two_cores():
    for kernel in (lambda x: swapped(x, x), lambda x: exchanged(x, nisa.dma_engine.dma)):
        assert refused(kernel, X, grid=1).rule == "cores.logical"


def test_cores_that_do_not_meet_are_a_deadlock_on_its_line():
    def one_sided(x):
        out = nl.ndarray(x.shape, x.dtype, buffer=nl.shared_hbm)
        if nl.program_id(0) == 0:
            nisa.core_barrier(out, (0, 1))
        nisa.dma_copy(out, x)
        return out

    error = refused(one_sided, X)
    assert isinstance(error, errors.DeadlockError)
    assert error.rule == "cores.deadlock"
    assert "has ended" in str(error)
    assert __file__ in error.where

    def crossed(x):
        out = nl.ndarray(x.shape, x.dtype, buffer=nl.shared_hbm)
        tile, other = nl.load(x), nl.ndarray(x.shape, x.dtype)
        if nl.program_id(0) == 0:
            nisa.core_barrier(out, (0, 1))
        else:
            nisa.sendrecv(tile, other, 0, 0, 0)
        nisa.dma_copy(out, tile)
        return out

    assert isinstance(refused(crossed, X), errors.DeadlockError)
    assert isinstance(refused(lambda x: exchanged(x, nisa.dma_engine.dma, pipes=(0, 1)), X), errors.DeadlockError)


def test_cores_declare_the_same_shared_tensors():
    def differs(x):
        shape = (4, 8) if nl.program_id(0) == 0 else (8, 4)
        return nl.zeros(shape, x.dtype, buffer=nl.shared_hbm)

    error = refused(differs, X)
    assert error.rule == "cores.control_flow"

    def more(x):
        out = nl.zeros((4, 8), x.dtype, buffer=nl.shared_hbm)
        if nl.program_id(0) == 0:
            nl.zeros((4, 8), x.dtype, buffer=nl.shared_hbm)
        return out

    assert refused(more, X).rule == "cores.control_flow"


def test_operands_of_meetings_are_checked():
    def barrier(data=None, cores=(0, 1)):
        def kernel(x):
            out = nl.zeros(x.shape, x.dtype, buffer=nl.shared_hbm)
            nisa.core_barrier(out if data is None else data(x), cores)
            return out

        return kernel

    assert refused(barrier(cores=(0,)), X).rule == "core_barrier.cores"
    assert refused(barrier(cores=(1, 0)), X).rule == "core_barrier.cores"
    assert refused(barrier(data=lambda x: nl.load(x)), X).rule == "core_barrier.data"

    def exchange(rank=1, pipe=0, size=64, dtype=nl.float32, engine=nisa.dma_engine.dma):
        def kernel(x):
            src, dst = nl.zeros((2, size), nl.float32), nl.zeros((2, 64), dtype)
            nisa.sendrecv(src, dst, rank, 0, pipe, dma_engine=engine)
            return x

        return kernel

    assert refused(exchange(rank=2), X).rule == "sendrecv.rank"
    assert refused(exchange(rank=-1), X).rule == "sendrecv.rank"
    assert refused(exchange(pipe=-1), X).rule == "sendrecv.rank"
    assert refused(exchange(size=63), X).rule == "sendrecv.tiles"
    assert refused(exchange(dtype=nl.int32), X).rule == "sendrecv.tiles"

    def direct(size):
        def kernel(x):
            src, dst = nl.zeros((2, size), nl.float32), nl.zeros((2, size), nl.float32)
            core = nl.program_id(0)
            nisa.sendrecv(src, dst, 1 - core, 1 - core, 0, dma_engine=nisa.dma_engine.gpsimd_dma)
            return x

        return kernel

    nki.Kernel(direct(256))[2](X)
    assert refused(direct(257), X).rule == "sendrecv.size"
