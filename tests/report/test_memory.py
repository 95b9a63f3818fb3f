"""Occupancy of SBUF and PSUM, against lifetimes worked out here from instructions and times."""

import pathlib

import numpy as np
import pytest

import reported
import trn3
from trn3.nki import isa as nisa
from trn3.nki import language as nl

RUNS = reported.runs()


@pytest.mark.parametrize("name", RUNS)
@pytest.mark.parametrize("space, capacity", [("sbuf", 256 * 1024), ("psum", 16 * 1024)])
def test_the_curve_is_what_its_tensors_cover(name, space, capacity):
    found = RUNS[name].report.timeline.occupancy(space, 10_000)
    tensors = found["tensors"]
    spans = list(zip(*(tensors[key] for key in ("address", "bytes", "start_ps", "end_ps")), strict=True))
    assert found["capacity"] == capacity
    assert found["tensor_count"] == len(spans)
    for at, said in found["time"]:
        covered = set()
        for address, size, start, end in spans:
            if start <= at < end:
                covered |= set(range(address, address + size, 4))
        assert said == 4 * len(covered)
    assert found["peak_bytes"] == max(said for _, said in found["time"]) <= capacity
    assert found["peak_ps"] == min(at for at, said in found["time"] if said == found["peak_bytes"])
    assert sum(owner[4] for owner in found["owners"]) == found["peak_bytes"]


def test_owners_name_tensor_bytes_and_line():
    memory = RUNS["product"].report.memory("psum")
    (owner,) = memory.owners
    assert (owner.name, owner.shape, owner.dtype, owner.bytes) == ("acc", [128, 512], "float32", 2048)
    lines = pathlib.Path(reported.__file__).read_text().splitlines()
    assert "acc = nl.ndarray" in lines[owner.line - 1]
    assert owner.file == reported.__file__


def test_a_tensor_lives_from_its_first_issue_to_its_last_result():
    run = RUNS["chain"]
    found = run.report.timeline.occupancy("sbuf", 100)["tensors"]
    opcodes, times = run.program.opcodes(), run.report.timeline.instruction
    copies = [at for at, name in enumerate(opcodes) if name == "tensor_copy"]
    for number, (writer, reader) in enumerate(zip(copies, copies[1:], strict=False), start=1):
        assert (found["start_ps"][number], found["end_ps"][number]) == (times(writer)[0], times(reader)[1])


def test_more_overlap_needs_more_memory_than_the_order_says():
    """Loads run ahead: more tiles are there at a time than any instruction in program order sees."""
    memory = RUNS["pipelined"].report.memory("sbuf")
    assert memory.peak_in_order_bytes == 2 * 2048
    assert memory.peak_bytes > memory.peak_in_order_bytes


def test_a_partition_is_counted_whole_whatever_the_partitions():
    def kernel(x):
        out = nl.ndarray((4, 1024), nl.float32, buffer=nl.shared_hbm)
        tile = nl.ndarray((4, 1024), nl.float32)
        nisa.dma_copy(tile, x)
        nisa.dma_copy(out, tile)
        return out

    report = trn3.run(kernel, np.ones((4, 1024), np.float32)).report
    assert report.memory("sbuf").peak_bytes == 4096
    assert report.memory("psum").owners == []


def test_few_points_keep_the_peak():
    whole = RUNS["pipelined"].report.timeline.occupancy("sbuf", 10_000)
    few = RUNS["pipelined"].report.timeline.occupancy("sbuf", 5)
    assert len(few["time"]) <= 6 < len(whole["time"])
    assert max(few["time"], key=lambda p: p[1])[1] == whole["peak_bytes"]
    assert len(few["tensors"]["name"]) == 5
    assert set(few["tensors"]["name"]) <= set(whole["tensors"]["name"])


def test_another_space_is_refused():
    with pytest.raises(ValueError, match="sbuf or psum"):
        RUNS["chain"].report.timeline.occupancy("hbm", 10)
