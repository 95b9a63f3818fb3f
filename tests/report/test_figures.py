"""Lines, transfers, roofline and sensitivity, against figures worked by hand."""

import dataclasses
import pathlib

import numpy as np
import pytest

import reported
import trn3
from trn3.nki import isa as nisa
from trn3.nki import language as nl

RUNS = reported.runs()
SOURCE = pathlib.Path(reported.__file__).read_text().splitlines()


def line_of(report, mark):
    number = next(at for at, text in enumerate(SOURCE, 1) if mark in text)
    return next(line for line in report.lines if line.line == number)


def test_a_line_has_its_instructions_time_and_bytes():
    report = RUNS["product"].report
    loads, products, store = (line_of(report, f"# {mark}") for mark in ("LOADS", "MATMUL", "STORE"))
    assert loads.file == reported.__file__
    assert (loads.instructions, loads.transfers, loads.dma_bytes) == (2, 2, 128 * 128 * 2 + 128 * 512 * 2)
    assert (store.transfers, store.dma_bytes) == (1, 128 * 512 * 4)
    assert products.instructions == 4
    assert products.engines == {"tensor": pytest.approx(4 * 512 / 2.4e9, abs=4e-12)}
    assert set(loads.engines) == {"dma"}
    times = [
        report.timeline.instruction(at)
        for at, name in enumerate(RUNS["product"].program.opcodes())
        if name == "nc_matmul"
    ]
    assert products.busy_s == pytest.approx(sum(end - issue for issue, end, _ in times) * 1e-12)
    assert {"dma", "stationary"} <= products.stalls.keys()


def test_every_turn_of_a_loop_counts():
    report = RUNS["looped"].report
    assert (
        sum(line.instructions for line in report.lines) == report.figures.executed > RUNS["looped"].program.instructions
    )


def test_bytes_of_lines_and_routes_agree():
    for run in RUNS.values():
        moved = sum(route.written_bytes for route in run.report.routes)
        assert sum(line.dma_bytes for line in run.report.lines) == moved == run.report.transfers.bytes


def test_sizes_of_transfers_and_descriptors():
    found = RUNS["product"].report.transfers
    assert [(each.size_bytes, each.count, each.bytes) for each in found.sizes] == [
        (32768, 1, 32768),
        (131072, 1, 131072),
        (262144, 1, 262144),
    ]
    assert [(each.size_bytes, each.count) for each in found.descriptor_sizes] == [(256, 128), (1024, 128), (2048, 128)]
    assert (found.count, found.descriptors, found.advised_bytes) == (3, 384, 32768)
    assert found.mean_bytes == pytest.approx((32768 + 131072 + 262144) / 3)
    assert len(found.engines_busy_s) == 16
    assert max(found.engines_busy_s) == pytest.approx(min(found.engines_busy_s))


def test_traffic_adds_up_and_lies_where_the_data_moved():
    for name, run in RUNS.items():
        timeline = run.report.timeline
        for bins in (1, 7, 1000):
            traffic = timeline.hbm_traffic(bins)
            assert len(traffic) == bins
            assert sum(read + written for read, written in traffic) == timeline.hbm_bytes, name
    traffic = RUNS["chain"].report.timeline.hbm_traffic(1000)
    assert traffic[0] == (0, 0)
    assert traffic[999] == (0, 0)


def test_the_roofline_of_a_product():
    report = RUNS["product"].report
    point = report.roofline
    flops, moved = 4 * 2 * 128 * 128 * 512, 128 * 128 * 2 + 128 * 512 * 2 + 128 * 512 * 4
    assert report.flops == flops
    assert point.flops_per_byte == pytest.approx(flops / moved)
    assert point.attained_flops_per_s == pytest.approx(flops / report.total_s)
    assert point.peak_flops_per_s == pytest.approx(2 * 128 * 128 * 2.4e9)
    assert point.hbm_bytes_per_s == pytest.approx(4.9e12 / 4)
    assert point.ridge_flops_per_byte == pytest.approx(point.peak_flops_per_s / point.hbm_bytes_per_s)
    assert point.roof_flops_per_s == pytest.approx(min(point.peak_flops_per_s, point.flops_per_byte * 4.9e12 / 8))
    assert [(work.dtype, work.flops) for work in point.formats] == [("bfloat16", flops)]


@pytest.mark.parametrize("columns, bound", [(32, "memory"), (512, "compute")])
def test_the_bound_changes_at_the_ridge(columns, bound):
    def kernel(x, y):
        out = nl.ndarray((128, columns), nl.float32, buffer=nl.shared_hbm)
        acc = nl.ndarray((128, columns), nl.float32, buffer=nl.psum)
        nisa.nc_matmul(acc, nl.load(x), nl.load(y))
        nl.store(out, nl.copy(acc))
        return out

    ones = np.ones((128, columns), np.float32)
    point = trn3.run(kernel, np.ones((128, 128), np.float32), ones).report.roofline
    assert point.bound == bound
    assert point.peak_flops_per_s == pytest.approx(2 * 128 * 128 * 2.4e9 / 4)
    assert (point.flops_per_byte < point.ridge_flops_per_byte) == (bound == "memory")


def test_without_products_there_is_no_point():
    point = RUNS["chain"].report.roofline
    assert (point.flops_per_byte, point.attained_flops_per_s, point.formats) == (0.0, 0.0, [])


@pytest.mark.parametrize("name", RUNS)
def test_every_picosecond_of_an_engine_is_said_of_some_line(name):
    for report in filter(None, (RUNS[name].report, RUNS[name].report.peer)):
        timeline, by_line = report.timeline, {}
        for (engine, _, _, stalls), (active, idle) in zip(timeline.engines[:5], timeline.engine_times[:5], strict=True):
            assert active + sum(stalls.values()) + idle == timeline.total_ps, engine
            for cause, spent in stalls.items():
                by_line[cause] = by_line.get(cause, 0) + spent
        for _, _, found in timeline.lines():
            for cause, spent in found["stalls_ps"].items():
                by_line[cause] -= spent
        assert not any(by_line.values())


def test_sensitivity_is_what_another_table_gives():
    run = RUNS["product"]
    found = {each.key: each for each in run.report.sensitivity()}
    for key in ("dma.to_first_ns", "tensor.latency_cycles"):
        each = found[key]
        low, high = run.table.entry(key)["range"]
        for end, said in ((low, each.total_low_s), (high, each.total_high_s)):
            whole = round(end) if isinstance(run.table.entry(key)["value"], int) else end
            other = run.table.with_overrides({key: whole})
            assert said == trn3.Report(run.program, other).total_s != run.report.total_s
    changes = [
        max(abs(e.total_low_s - run.report.total_s), abs(e.total_high_s - run.report.total_s)) for e in found.values()
    ]
    assert changes == sorted(changes, reverse=True)
    assert all(change > 0 for change in changes)
    assert "vector.reduce.latency_cycles" not in found


def test_findings_are_in_the_report():
    report = RUNS["deviating"].report
    assert report.findings
    assert [dataclasses.asdict(finding) for finding in report.findings] == RUNS["deviating"].findings


def test_the_second_core_has_a_report_of_its_own():
    report = RUNS["uneven"].report
    assert report.peer.peer is None
    assert report.peer.figures == report.figures.peer
    assert report.peer.figures.executed == report.figures.executed + 3
    assert RUNS["chain"].report.peer is None
