"""SBUF over capacity: what waits in HBM, with the right values, at its cost, and in the report."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

import trn3
from trn3 import errors, nki
from trn3.nki import isa as nisa
from trn3.nki import language as nl

#: A core whose SBUF holds 8 KiB a partition.
SMALL = {"sbuf.partition_bytes": 8192, "sbuf.reserved_bytes": 0}


def run(kernel, *arrays, **options):
    return trn3.run(kernel, *arrays, options=trn3.RunOptions(overrides=SMALL, **options))


def read_back(tile):
    out = nl.ndarray(tile.shape, tile.dtype, buffer=nl.shared_hbm)
    nisa.dma_copy(out, tile)
    return out


def sums(x, count, width=512):
    """Loads more tiles than there is room for, and adds them in the opposite order."""
    tiles = []
    for at in range(count):
        tile = nl.ndarray((128, width), nl.float32, name=f"tile{at}")
        nisa.dma_copy(tile, x[at])
        nisa.tensor_scalar(tile, tile, nl.add, float(at))
        tiles.append(tile)
    total = nl.ndarray((128, width), nl.float32, name="total")
    nisa.memset(total, 0.0)
    for tile in reversed(tiles):
        nisa.tensor_tensor(total, total, tile, nl.add)
    return read_back(total)


def test_values_do_not_depend_on_room():
    x = np.random.default_rng(0).standard_normal((12, 128, 512)).astype(np.float32)
    roomy = trn3.run(sums, x, 12)
    tight = run(sums, x, 12)
    assert roomy.program.spills() == []
    np.testing.assert_array_equal(tight.result, roomy.result)
    assert tight.findings == []


def test_the_report_says_what_was_spilled_from_which_line_and_what_it_cost():
    x = np.ones((12, 128, 512), np.float32)
    report = run(sums, x, 12).report
    # Four tiles fit; the last three stay until they are added, together with the total.
    names = {spill.name for spill in report.spills}
    assert names == {f"tile{at}" for at in range(9)}
    line = sums.__code__.co_firstlineno + 4
    for spill in report.spills:
        assert (spill.file, spill.line) == (__file__, line)
        assert spill.needed_line in (line + 1, line + 5, line + 7)
        assert (spill.stores, spill.reloads, spill.bytes) == (1, 1, 2 * 128 * 2048)
        assert spill.busy_s > 0
    assert sum(spill.critical_s for spill in report.spills) > 0
    loads, spilled = 12 * 128 * 2048, sum(spill.bytes for spill in report.spills)
    assert report.hbm_bytes == loads + 128 * 2048 + spilled
    text = report.to_text()
    assert "9 tensors waited in HBM: 9 stores, 9 reloads" in text
    assert f"test_spilling.py:{line}" in text
    labels = {label.name: label.instructions for label in report.labels}
    assert labels == {"spill": 9, "reload": 9}
    assert report.to_dict()["spills"][0]["name"] in names


def test_it_takes_longer_than_with_room():
    x = np.ones((12, 128, 512), np.float32)
    assert run(sums, x, 12).report.total_s > 1.2 * trn3.run(sums, x, 12).report.total_s


def test_spilling_can_be_an_error():
    x = np.ones((12, 128, 512), np.float32)
    with pytest.raises(errors.CapacityError) as raised:
        run(sums, x, 12, spill="error")
    assert raised.value.rule == "capacity.sbuf"
    assert run(sums, x[:3], 3, spill="error").program.spills() == []
    with pytest.raises(errors.RuleError) as wrong:
        trn3.RunOptions(spill="disk")
    assert wrong.value.rule == "options.spill"


def test_what_one_instruction_needs_must_fit():
    def kernel(x):
        tiles = [nl.zeros((128, 1024), nl.float32) for _ in range(3)]
        nisa.tensor_tensor(tiles[0], tiles[1], tiles[2], nl.add)
        return read_back(tiles[0])

    with pytest.raises(errors.CapacityError) as raised:
        run(kernel, np.zeros((1, 1), np.float32))
    assert raised.value.rule == "capacity.sbuf"


@pytest.mark.parametrize(("changed", "stored"), [(True, 1), (False, 0)])
def test_a_tile_is_stored_once_if_it_does_not_change_and_not_at_all_if_it_was_loaded(changed, stored):
    def kernel(x):
        kept = nl.ndarray((128, 1024), nl.float32, name="kept")
        nisa.dma_copy(kept, x)
        if changed:
            nisa.tensor_scalar(kept, kept, nl.multiply, 1.0)
        total = nl.zeros((128, 512), nl.float32)
        for at in range(4):
            others = [nl.ndarray((128, 512), nl.float32) for _ in range(2)]
            for other in others:
                nisa.dma_copy(other, x[:, :512])
            nisa.tensor_tensor(total, *others, nl.add)
            nisa.tensor_tensor(total, total, kept[:, :512], nl.add)
        return read_back(total)

    found = run(kernel, np.ones((128, 1024), np.float32))
    np.testing.assert_array_equal(found.result, np.full((128, 512), 3, np.float32))
    ((name, _, _, _, _, stores, reloads),) = found.program.spills()
    assert (name, stores, reloads) == ("kept", stored, 4)


def test_a_tile_is_not_loaded_again_from_what_was_written_since():
    def kernel(x):
        source = nl.ndarray((128, 1024), nl.float32, buffer=nl.private_hbm)
        nisa.dma_copy(source, x)
        kept = nl.ndarray((128, 1024), nl.float32, name="kept")
        nisa.dma_copy(kept, source)
        big = nl.ndarray((128, 1536), nl.float32)
        nisa.memset(big, 0.0)
        nisa.dma_copy(source, big[:, :1024])
        return read_back(kept)

    found = run(kernel, np.ones((128, 1024), np.float32))
    assert (found.result == 1).all()
    assert [row[5:] for row in found.program.spills()] == [(1, 1)]


def test_what_is_overwritten_next_is_neither_stored_nor_loaded():
    def kernel(x):
        first = nl.ndarray((128, 1), nl.float32)
        nisa.memset(first, 1.0)
        scratch = nl.ndarray((128, 1024), nl.float32, name="scratch")
        nisa.memset(scratch, 1.0)
        nisa.tensor_copy(first, scratch[:, :1])
        big = nl.ndarray((128, 1536), nl.float32)
        nisa.dma_copy(big, x)
        nisa.tensor_scalar(big, big, nl.add, first)
        out = read_back(big)
        nisa.memset(scratch, 2.0)
        return out, read_back(scratch)

    found = run(kernel, np.ones((128, 1536), np.float32))
    assert found.program.spills() == []
    assert (found.result[0] == 2).all() and (found.result[1] == 2).all()


def test_what_a_loop_uses_stays_while_it_runs():
    def kernel(x):
        before = nl.ndarray((128, 1024), nl.float32, name="before")
        nisa.dma_copy(before, x)
        nisa.tensor_scalar(before, before, nl.multiply, 1.0)
        total = nl.zeros((128, 512), nl.float32)
        for _ in nl.dynamic_range(3):
            a, b = nl.ndarray((128, 512), nl.float32), nl.ndarray((128, 256), nl.float32)
            nisa.dma_copy(a, x[:, :512])
            nisa.dma_copy(b, x[:, :256])
            nisa.tensor_tensor(total, total, a, nl.add)
            nisa.tensor_tensor(total[:, :256], total[:, :256], b, nl.add)
        nisa.tensor_tensor(total, total, before[:, :512], nl.add)
        return read_back(total)

    found = run(kernel, np.ones((128, 1024), np.float32))
    np.testing.assert_array_equal(found.result[0, [0, 511]], [7, 4])
    (spill,) = found.report.spills
    assert (spill.name, spill.stores, spill.reloads) == ("before", 1, 1)


def test_tiles_at_addresses_stay():
    def kernel(x):
        pinned = nl.ndarray((128, 1024), nl.float32, name="pinned", address=(0, 2048))
        nisa.dma_copy(pinned, x)
        tiles = []
        for at in range(4):
            tile = nl.ndarray((128, 512), nl.float32, name=f"tile{at}")
            nisa.dma_copy(tile, x[:, :512])
            tiles.append(tile)
        for tile in tiles:
            nisa.tensor_tensor(pinned[:, :512], pinned[:, :512], tile, nl.add)
        return read_back(pinned)

    found = run(kernel, np.ones((128, 1024), np.float32))
    assert (found.result[:, :512] == 5).all() and (found.result[:, 512:] == 1).all()
    assert {row[0] for row in found.program.spills()} == {"tile1", "tile2"}
    places = [(row[2], row[0]) for row in found.program.tensors() if row[1] == "sbuf" and row[0] != "pinned"]
    assert {address for address, _ in places} == {0, 6144}


@st.composite
def programs(draw):
    """Tiles of some widths, and steps: write one, or add one to another."""
    widths = draw(st.lists(st.sampled_from([128, 256, 512, 700]), min_size=3, max_size=10))
    tile = st.integers(0, len(widths) - 1)
    steps = draw(st.lists(st.tuples(tile, tile, st.integers(0, 3)), min_size=1, max_size=40))
    return widths, steps


@given(programs())
def test_any_program_has_the_same_values_with_and_without_room(program):
    widths, steps = program

    def kernel(x):
        tiles = [nl.ndarray((128, width), nl.float32) for width in widths]
        for number, tile in enumerate(tiles):
            nisa.memset(tile, float(number))
        for to, other, kind in steps:
            width = min(widths[to], widths[other])
            if kind == 0:
                nisa.memset(tiles[to], float(other))
            elif kind == 1:
                nisa.dma_copy(tiles[to][:, :128], x)
            else:
                nisa.tensor_tensor(tiles[to][:, :width], tiles[to][:, :width], tiles[other][:, :width], nl.add)
        return tuple(read_back(tile) for tile in tiles)

    x = np.arange(128 * 128, dtype=np.float32).reshape(128, 128)
    tight, roomy = run(kernel, x), trn3.run(kernel, x)
    for one, other in zip(tight.result, roomy.result, strict=True):
        np.testing.assert_array_equal(one, other)
    # No two tiles share bytes at any instruction.
    rows = zip(tight.program.tensors(), tight.program.lifetimes(), strict=True)
    tiles = [(life, row[2], row[2] + 4 * row[3][1]) for row, life in rows if row[1] == "sbuf" and life]
    for at, ((first, last), start, end) in enumerate(tiles):
        for (begin, until), other, other_end in tiles[at + 1 :]:
            assert until < first or last < begin or end <= other or other_end <= start


def test_eager_and_recorded_agree():
    x = np.random.default_rng(3).standard_normal((9, 128, 512)).astype(np.float32)
    eager = nki.simulate(sums, overrides=SMALL, eager=True)(x, 9)
    np.testing.assert_array_equal(eager, run(sums, x, 9).result)


def test_a_stored_program_keeps_its_spills(tmp_path):
    x = np.ones((12, 128, 512), np.float32)
    found = run(sums, x, 12)
    found.program.save(tmp_path / "p.trn3")
    loaded = trn3._native.Program.load(tmp_path / "p.trn3")
    assert loaded.spills() == found.program.spills()
