"""Every constant can be replaced by name: in options, on a chip, on the command line, in a stored Program."""

from __future__ import annotations

import json
from fractions import Fraction
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import trn3
from trn3 import _native, errors, nki, spec
from trn3.nki import isa as nisa
from trn3.nki import language as nl
from trn3.report import Report

X = np.arange(128 * 64, dtype=np.float32).reshape(128, 64)


def double(x: Any) -> Any:
    tile = nl.load(x)
    out = nl.ndarray(x.shape, x.dtype, buffer=nl.shared_hbm)
    nl.store(out, nl.multiply(tile, 2.0))
    return out


def run(overrides: Any = (), target: str | None = None) -> trn3.system.Run:
    return trn3.run(double, X, options=trn3.RunOptions(target=target, overrides=overrides))


def total_ps(program: _native.Program, table: _native.Table) -> int:
    return _native.Timeline(program, table).total_ps


# What a run does with them --------------------------------------------------------------------------------------------


def test_a_run_is_timed_with_them_and_says_so() -> None:
    plain, slow = run(), run({"dma.to_first_ns": 800})
    # A load and a store, each 100 ns later.
    assert slow.report.total_s == pytest.approx(plain.report.total_s + 200e-9, abs=1e-12)
    np.testing.assert_array_equal(slow.result, plain.result)
    assert plain.report.to_dict()["overrides"] == plain.program.overrides == {}
    assert slow.report.to_dict()["overrides"] == slow.program.overrides == {"dma.to_first_ns": 800}
    assert json.loads(slow.report.to_json())["overrides"] == {"dma.to_first_ns": 800}
    assert "dma.to_first_ns=800" in repr(slow.program)
    assert slow.findings == []


def test_several_change_together_and_no_order_counts() -> None:
    one = {"dma.to_first_ns": 900, "tensor.throttle.enabled": False, "dma.gap_ns": "25 ns"}
    other = dict(reversed(one.items()))
    first, second = run(one), run(other)
    assert first.program.overrides == second.program.overrides
    assert first.program.overrides == {"tensor.throttle.enabled": False, "dma.to_first_ns": 900, "dma.gap_ns": 25}
    assert trn3.RunOptions(overrides=one) == trn3.RunOptions(overrides=other)
    assert hash(trn3.RunOptions(overrides=one)) == hash(trn3.RunOptions(overrides=other))


def test_fractions_lists_and_numpy_numbers_are_kept() -> None:
    given = {
        "vector.stream.reciprocal_cycles_per_element": Fraction(15, 2),
        "matmul.row_tiles": [128, 64],
        "dma.hwdge.partition_ns": np.float32(3.5),
        "dma.to_first_ns": np.int64(750),
        "tensor.throttle.enabled": np.bool_(False),
    }
    finished = run(given)
    assert finished.program.overrides == {
        "vector.stream.reciprocal_cycles_per_element": Fraction(15, 2),
        "matmul.row_tiles": [128, 64],
        "dma.hwdge.partition_ns": 3.5,
        "dma.to_first_ns": 750,
        "tensor.throttle.enabled": False,
    }
    echoed = json.loads(finished.report.to_json())["overrides"]
    assert echoed["vector.stream.reciprocal_cycles_per_element"] == "15/2"
    assert echoed["matmul.row_tiles"] == [128, 64]


def test_what_a_kernel_may_do_follows() -> None:
    def kernel(x: Any) -> Any:
        seen.append(nl.tile_size.psum_num_banks)
        nisa.nc_matmul(
            nl.ndarray((8, 8), nl.float32, buffer=nl.psum),
            nl.zeros((32, 8), nl.bfloat16),
            nl.zeros((32, 8), nl.bfloat16),
            tile_size=(32, 128),
            tile_position=(0, 0),
        )
        return x

    seen: list[int] = []
    nki.simulate(kernel)(X)
    with pytest.raises(errors.RuleError, match=r"rows of \[128, 64\]"):
        nki.simulate(kernel, overrides={"matmul.row_tiles": [128, 64]})(X)
    halved = {"psum.banks": 4, "psum.bank_bytes": 4096}
    nki.simulate(kernel, overrides=halved)(X)
    assert seen == [8, 8, 4]


def test_they_are_part_of_the_cache_key() -> None:
    kernel = nki.jit(double)
    kernel(X)
    made = kernel.with_options(overrides={"dma.gap_ns": 20})
    made.cache = kernel.cache
    made(X)
    again = kernel.with_options(overrides={"dma.gap_ns": 20})
    again.cache = kernel.cache
    again(X)
    assert len(kernel.cache) == 2
    assert made.last is not None
    assert made.last.program.overrides == {"dma.gap_ns": 20}
    # 1 and True are equal in Python, and are not the same value of a table.
    switch = kernel.with_options(overrides={"tensor.throttle.enabled": True})
    switch.cache = kernel.cache
    switch(X)
    wrong = kernel.with_options(overrides={"tensor.throttle.enabled": 1})
    wrong.cache = kernel.cache
    with pytest.raises(errors.SpecError, match=r"tensor\.throttle\.enabled"):
        wrong(X)


def test_a_value_outside_its_range_is_a_finding_of_each_call() -> None:
    simulated = nki.simulate(double, overrides={"dma.gap_ns": 5, "dma.to_first_ns": 700})
    for _ in range(2):
        simulated(X)
        (finding,) = simulated.findings
        assert finding["rule"] == "override.range"
        assert "dma.gap_ns: is 5 ns, plausible are 20 to 100" in finding["message"]
    (finding,) = trn3.Chip(overrides={"dma.gap_ns": 5}).run(nki.record(double, X), [X]).findings
    assert finding["rule"] == "override.range"


@pytest.mark.parametrize(
    ("overrides", "rule", "said"),
    [
        ({"dma.to_frist_ns": 800}, "spec.unknown_key", "did you mean dma.to_first_ns"),
        ({"dma.to_first_ns": "800 us"}, "spec.unit", 'unit is "us", must be "ns"'),
        ({"dma.to_first_ns": "late"}, "spec.kind", "late (a name)"),
        ({"dma.to_first_ns": True}, "spec.kind", "true (true or false)"),
        ({"dma.to_first_ns": -1}, "spec.limit", "must be from 0"),
        ({"tensor.rows": 64}, "spec.consistent", "matmul.contraction_max"),
        ({"capability.matmul_mx": False}, "spec.consistent", "capability.matmul_mx"),
        ({"dma.descriptor.overhead_ns": 200}, "spec.consistent", "dma.engine.bandwidth_loaded_bytes_per_s: cannot be"),
    ],
)
def test_what_cannot_be_is_refused(overrides: dict[str, Any], rule: str, said: str) -> None:
    for call in (
        lambda: nki.simulate(double, overrides=overrides)(X),
        lambda: trn3.Chip("trn3", overrides=overrides),
        lambda: spec.load("trn3", overrides=overrides),
    ):
        with pytest.raises(errors.SpecError) as caught:
            call()
        assert caught.value.rule == rule
        assert said in str(caught.value)


@pytest.mark.parametrize(
    "overrides", [5, "dma.gap_ns=3", {3: 4}, {"dma.gap_ns": {}}, {"dma.gap_ns": None}, {"x": b"1"}]
)
def test_what_is_no_override_is_a_wrong_option(overrides: Any) -> None:
    with pytest.raises(errors.RuleError, match=r"options\.overrides"):
        trn3.RunOptions(overrides=overrides)


# What follows from them -----------------------------------------------------------------------------------------------


def test_derived_values_follow() -> None:
    table = spec.load("trn3", {"hbm.bandwidth_peak_bytes_per_s": 9.8e12, "tensor.clock_hz": 1.2e9})
    stack = table["hbm.stack_bandwidth_peak_bytes_per_s"]
    assert (stack.value, stack.status) == (2_450_000_000_000, "derived")
    assert stack.source.startswith("recomputed from hbm.bandwidth_peak_bytes_per_s, which the user set")
    assert stack.replaced == (1_225_000_000_000, "derived")
    assert table.peaks()["bf16_flops_per_s"] == 128 * 128 * 2 * 1.2e9
    assert repr(table).endswith("overridden: tensor.clock_hz, hbm.bandwidth_peak_bytes_per_s>")
    own = spec.load(
        "trn3", {"hbm.bandwidth_peak_bytes_per_s": 9.8e12, "hbm.stack_bandwidth_peak_bytes_per_s": 1_000_000_000_000}
    )
    assert own.value("hbm.stack_bandwidth_peak_bytes_per_s") == 1_000_000_000_000


def test_utilisation_follows_the_clock() -> None:
    def kernel(x: Any) -> Any:
        nisa.nc_matmul(nl.ndarray((64, 64), nl.float32, buffer=nl.psum), nl.load(x), nl.load(x))
        return x

    plain = trn3.run(kernel, X).report
    half = trn3.run(kernel, X, options=trn3.RunOptions(overrides={"tensor.clock_hz": 1.2e9})).report
    assert half.timeline.array_flops_per_s == plain.timeline.array_flops_per_s / 2
    assert half.timeline.published_flops_per_s == plain.timeline.published_flops_per_s


# Programs and chips ---------------------------------------------------------------------------------------------------


def test_a_stored_program_keeps_them(tmp_path: Path) -> None:
    overrides = {"dma.to_first_ns": 800, "vector.stream.reciprocal_cycles_per_element": "15/2", "hbm.stacks": 2}
    program = nki.record(nki.jit(overrides=overrides)(double), X)
    path = tmp_path / "double.trn3"
    program.save(path)
    loaded = trn3.load_program(path)
    assert loaded.overrides == program.overrides
    assert loaded.overrides["vector.stream.reciprocal_cycles_per_element"] == Fraction(15, 2)
    plain = trn3.Chip("trn3").table
    assert total_ps(loaded, plain) == total_ps(program, plain)
    assert total_ps(loaded, plain) != total_ps(nki.record(double, X), plain)
    finished = trn3.Chip("trn3").run(loaded, [X])
    np.testing.assert_array_equal(finished.result[0], X * 2)
    assert finished.report.overrides == {**overrides, "hbm.stacks": 2}
    assert finished.report.total_s == Report(loaded, plain).total_s


def test_a_chip_has_overrides_of_its_own() -> None:
    program = nki.record(double, X)
    base = trn3.Chip("trn3").run(program, [X]).report
    chip = trn3.Chip("trn3", overrides={"dma.to_first_ns": 800})
    slow = chip.run(program, [X]).report
    assert slow.total_s == pytest.approx(base.total_s + 200e-9, abs=1e-12)
    assert slow.to_dict()["overrides"] == {"dma.to_first_ns": 800}
    # Those of the Program, of the chip and of the call add up.
    own = nki.record(nki.jit(overrides={"dma.done_ns": 400})(double), X)
    both = chip.run(own, [X], trn3.RunOptions(overrides={"dma.semaphore_write_ns": 9.5})).report
    assert both.overrides == {"dma.to_first_ns": 800, "dma.done_ns": 400, "dma.semaphore_write_ns": 9.5}
    assert both.total_s > slow.total_s


def test_two_values_of_one_key_are_refused() -> None:
    program = nki.record(nki.jit(overrides={"dma.to_first_ns": 800})(double), X)
    trn3.Chip(overrides={"dma.to_first_ns": 800}).run(program, [X])
    with pytest.raises(errors.RuleError) as caught:
        trn3.Chip(overrides={"dma.to_first_ns": 900}).run(program, [X])
    assert caught.value.rule == "program.overrides"
    assert "was 800" in str(caught.value)
    with pytest.raises(errors.RuleError, match=r"program\.overrides"):
        trn3.Chip().run(program, [X], trn3.RunOptions(overrides={"dma.to_first_ns": 900}))


def test_a_program_is_timed_on_its_own_table_only() -> None:
    program = nki.record(nki.jit(target="trn2")(double), X)
    with pytest.raises(errors.RuleError, match=r"recorded for trn2.*the table is trn3.*program\.target"):
        Report(program, trn3.Chip("trn3").table)


@pytest.mark.parametrize("target", ["trn1", "inf2", "trn2", "trn3"])
def test_every_number_can_be_replaced_by_itself(target: str) -> None:
    plain = run(target=target)
    table = spec.load(target)
    overrides = {key: entry.value for key, entry in table.items()}
    assert spec.load(target, overrides).peaks() == table.peaks()
    finished = run(overrides, target)
    assert set(finished.program.overrides) == set(table)
    assert finished.report.total_s == plain.report.total_s
    np.testing.assert_array_equal(finished.result, plain.result)


def test_chips_take_public_spellings() -> None:
    assert trn3.Chip("gen2").table.name == "trn1"
    assert trn3.Chip(" TRN2 ").table.name == "trn2"
    with pytest.raises(errors.SpecError, match=r"target\.name"):
        trn3.Chip("trn9")
