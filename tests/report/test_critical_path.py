"""The critical path: no gap, no overlap, and each step is the constraint that decided."""

import pytest

import reported
import trn3
from trn3.nki import isa as nisa
from trn3.nki import language as nl

RUNS, F32 = reported.runs(), reported.F32
CORES = [(name, report) for name, run in RUNS.items() for report in (run.report, run.report.peer) if report is not None]
NAMED = pytest.mark.parametrize("report", [report for _, report in CORES], ids=[name for name, _ in CORES])


def segments(report):
    columns = report.timeline.critical_segments()
    return [dict(zip(columns, values, strict=True)) for values in zip(*columns.values(), strict=True)]


@NAMED
def test_segments_follow_each_other_from_the_start_to_the_end(report):
    found = segments(report)
    assert found[0]["start_ps"] == 0
    assert found[-1]["end_ps"] == report.timeline.total_ps
    assert all(one["end_ps"] == other["start_ps"] for one, other in zip(found, found[1:], strict=False))
    assert all(segment["start_ps"] < segment["end_ps"] for segment in found)


@NAMED
def test_sums_are_exact(report):
    sums = report.timeline.critical_sums()
    total = report.timeline.total_ps
    for name in ("resources", "steps"):
        assert sum(time for _, time in sums[name]) == total
    assert sum(group[-1] for group in sums["groups"]) == total
    assert sum(group[-2] for group in sums["groups"]) == sums["segments"] == len(segments(report))
    lines = sum(found["critical_ps"] for _, _, found in report.timeline.lines())
    unowned = sum(s["end_ps"] - s["start_ps"] for s in segments(report) if s["instance"] is None)
    assert lines + unowned == total


@NAMED
def test_joined_segments_keep_the_whole(report):
    whole = report.timeline.critical_segments()
    joined = report.timeline.critical_segments(report.timeline.total_ps // 5)
    assert len(joined["start_ps"]) < len(whole["start_ps"])
    assert sum(joined["count"]) == len(whole["start_ps"])
    assert joined["start_ps"][1:] == joined["end_ps"][:-1]


def test_a_chain_is_its_results_and_semaphores():
    """Each copy issues SEM_SELF after the copy before it: blocked one picosecond earlier, ready then."""
    run = RUNS["chain"]
    copies = [at for at, name in enumerate(run.program.opcodes()) if name == "tensor_copy"]
    found = segments(run.report)
    for before, copy in zip(copies, copies[1:], strict=False):
        issue = run.report.timeline.instruction(copy)[0]
        waited = next(s for s in found if s["instance"] == copy and s["step"] == "handover")
        assert (waited["start_ps"], waited["end_ps"]) == (run.report.timeline.instruction(before)[1], issue)
        assert waited["end_ps"] - waited["start_ps"] == 35_000
        done = next(s for s in found if s["instance"] == before and s["step"] == "execute")
        assert (done["start_ps"], done["end_ps"]) == run.report.timeline.instruction(before)[:2]


def test_products_on_the_path_keep_the_array_until_the_next():
    run = RUNS["product"]
    products = [at for at, name in enumerate(run.program.opcodes()) if name == "nc_matmul"]
    held = [s for s in segments(run.report) if s["step"] == "occupy" and s["instance"] in products]
    assert [s["instance"] for s in held] == products[:-1]
    interval_ps = (512 + 5) * 10**12 // 2_400_000_000
    assert all(s["end_ps"] - s["start_ps"] == pytest.approx(interval_ps, abs=1) for s in held)
    assert {s["resource"] for s in held} == {"tensor"}


def test_a_transfer_on_the_path_is_split_as_the_dma_model_says():
    run = RUNS["chain"]
    (start, moved, done) = [s for s in segments(run.report) if s["instance"] == 0]
    assert [s["step"] for s in (start, moved, done)] == ["dma_start", "dma_data", "dma_done"]
    spans = [(s["end_ps"] - s["start_ps"]) / 1000 for s in (start, moved, done)]
    data = 15 * 10 + 8 * (2048 / 34.4 + 5.0) + 9
    assert spans == pytest.approx([170 + 3.36 * 128 + 700, data, 350], abs=0.5)
    assert {s["resource"] for s in (start, moved, done)} == {"dma"}


def test_the_core_that_ends_first_waits_for_the_other():
    first, second = RUNS["uneven"].report, RUNS["uneven"].report.peer
    assert first.total_s == second.total_s
    assert segments(first)[-1]["step"] == "other_core"
    assert all(s["step"] != "other_core" for s in segments(second))
    assert "other_core" in RUNS["meeting"].report.critical_path.steps


def test_less_work_gains_at_most_what_is_on_the_path():
    """Two runs that differ in an engine's speed alone differ by no more than that engine's share of the slower path."""
    run = RUNS["chain"]
    faster = run.table.with_overrides({"vector.copy.latency_cycles": 0, "vector.copy.overhead_cycles": 0})
    gained = run.report.total_s - type(run.report)(run.program, faster).total_s
    assert 0 < gained <= run.report.critical_path.resources["vector"]


def test_weights_that_move_in_are_on_the_path():
    """The first product waits for its LoadStationary: load and latency after its operands are there."""
    found = segments(RUNS["product"].report)
    (loaded,) = [s for s in found if s["step"] == "stationary"]
    assert loaded["end_ps"] - loaded["start_ps"] == pytest.approx((32 + 200) * 1e12 / 2.4e9, abs=1)
    assert loaded["end_ps"] == RUNS["product"].report.timeline.instruction(loaded["instance"])[0]
    assert loaded["resource"] == "tensor"


def test_a_table_load_between_functions_is_on_the_path():
    def kernel(x, second):
        out = nl.ndarray((128, 512), nl.float32, buffer=nl.shared_hbm)
        tile = nl.load(x)
        for function in (nl.exp, second, nl.exp):
            nisa.activation(tile, function, tile)
        nl.store(out, tile)
        return out

    same, other = (trn3.run(kernel, reported.F32, second).report for second in (nl.tanh, nl.gelu))
    assert "table_load" not in same.critical_path.steps
    load_s = same.table.entry("scalar.table.load_ns")["value"] * 1e-9
    # The load starts when the engine lets go of the activation before, whose result comes a little later.
    assert 2 * load_s * 0.8 < other.critical_path.steps["table_load"] <= 2 * load_s


def test_a_burst_after_idling_is_throttled_on_the_path():
    def kernel(x, y):
        out = nl.ndarray((128, 512), nl.float32, buffer=nl.shared_hbm)
        acc = nl.ndarray((128, 512), nl.float32, buffer=nl.psum)
        s, m = nl.load(x), nl.load(y)
        for _ in range(60):
            nisa.nc_matmul(acc, s, m)
        nl.store(out, nl.copy(acc))
        return out

    report = trn3.run(kernel, F32[:, :128].astype(reported.BF16), F32.astype(reported.BF16)).report
    assert report.critical_path.steps["throttle"] == pytest.approx(report.engines[0].stalls["throttle"], rel=0.05)


def test_waiting_for_the_other_core_starts_when_this_one_came():
    first, second = RUNS["meeting"].report, RUNS["meeting"].report.peer
    (waited,) = [s for s in segments(first) if s["step"] == "other_core"]
    stood = sum(engine.stalls.get("core", 0.0) for engine in first.engines)
    assert stood == pytest.approx((waited["end_ps"] - waited["start_ps"]) * 1e-12)
    (short,) = [s for s in segments(second) if s["step"] == "other_core"]
    assert short["end_ps"] == waited["end_ps"]
    assert short["end_ps"] - short["start_ps"] == 500_000  # SEM_REMOTE_NC: the first one waits here already.
