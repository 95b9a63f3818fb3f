"""Hardware tables as Python sees them."""

from __future__ import annotations

import copy
import pickle
from fractions import Fraction
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import tomllib

from trn3 import spec
from trn3.errors import SpecError, Trn3Error

VECTORS = tomllib.loads((Path(__file__).parents[1] / "vectors" / "hardware.toml").read_text(encoding="utf-8"))
STATUSES = {"doc", "derived", "measured", "assumed", "claim"}


def load_error(path: Path | str, **options: Any) -> SpecError:
    with pytest.raises(SpecError) as caught:
        spec.load(path, **options)
    assert isinstance(caught.value, ValueError)
    assert isinstance(caught.value, Trn3Error)
    assert "\n" not in str(caught.value)
    return caught.value


def write(folder: Path, text: str, name: str = "mine.toml") -> Path:
    path = folder / name
    path.write_text(text, encoding="utf-8")
    return path


def entry(key: str, value: str, unit: str = "ns", rest: str = 'status = "assumed"\nsource = "a guess"') -> str:
    return f'extends = "trn3"\n[{key}]\nvalue = {value}\nunit = "{unit}"\n{rest}\n'


@pytest.mark.parametrize("vector", VECTORS["figure"], ids=lambda vector: f"{vector['table']}:{vector['key']}")
def test_tables_say_what_the_documents_say(vector: dict[str, Any]) -> None:
    value = spec.load(vector["table"])[vector["key"]].value
    assert value == (Fraction(vector["value"]) if isinstance(vector["value"], str) else vector["value"])


@pytest.mark.parametrize("vector", VECTORS["peak"], ids=lambda vector: f"{vector['table']}:{vector['name']}")
def test_peaks_follow_from_size_and_clock(vector: dict[str, Any]) -> None:
    table = spec.load(vector["table"])
    peak = table.peaks()[vector["name"]]
    cores = table["chip.cores"].value
    assert peak is not None
    assert isinstance(cores, int)
    assert peak == pytest.approx(vector["value"], abs=0.05e12)
    assert peak * cores == pytest.approx(vector["per_chip"], abs=0.05e12)


@pytest.mark.parametrize("vector", VECTORS["constant"], ids=lambda vector: f"{vector['table']}:{vector['name']}")
def test_kernels_see_the_documented_constants(vector: dict[str, Any]) -> None:
    assert spec.load(vector["table"]).tile_sizes()[vector["name"]] == vector["value"]


@pytest.mark.parametrize("name", spec.names())
def test_every_entry_has_unit_status_and_source(name: str) -> None:
    table = spec.load(name)
    assert len(table) > 300
    for key, one in table.items():
        assert one.key == key
        assert one.unit, key
        assert one.source, key
        assert one.status in STATUSES, key
        assert one.range is None or one.range[0] <= one.range[1], key
        assert one.status != "assumed" or one.source.startswith("not published: "), key


def test_tables_differ_in_keys_only_by_capability() -> None:
    assert set(spec.load("trn1")) == set(spec.load("inf2"))
    gained = set(spec.load("trn2")) - set(spec.load("trn1"))
    assert {key for key in gained if not key.startswith(("published.", "tensor.throttle.", "dma.hwdge."))} == {
        "gpsimd.dma.bandwidth_bytes_per_s",
        "gpsimd.dma.elements_max",
        "gpsimd.dma.start_ns",
        "gpsimd.stream.nonzero_cycles_per_element",
        "gpsimd.stream.rng_cycles_per_element",
        "gpsimd.stream.topk_cycles_per_element",
        "psum.bank_conflict_ratio",
        "semaphore.remote_ns",
        "tensor.double_row_macs_per_cycle",
        "tensor.passes.double_row",
        "tensor.passes.fp32_transpose",
        "tensor.sparse_macs_per_cycle",
        "vector.shared_bus_cycles_per_element",
        "vector.stream.range_select_cycles_per_element",
    }
    assert set(spec.load("trn1")) - set(spec.load("trn2")) == {"published.chip.int8_ops_per_s"}
    lone = {pair.key for pair in spec.compare("trn2", "trn3") if pair.left is None or pair.right is None}
    assert lone == set(spec.load("trn2")) ^ set(spec.load("trn3"))
    assert {key for key in lone if not key.startswith("published.")} == {
        "dma.priority_classes",
        "dma.priority_default",
        "dma.priority_fetch",
        "dma.read_add_write_ratio",
        "matmul.mx_partition_multiple",
        "matmul.mx_scale_partitions",
        "tensor.background_transpose_chain_ratio",
        "tensor.mx_macs_per_cycle",
        "tensor.passes.mx",
        "vector.indirect_cycles",
        "vector.stream.exponential_bits32_cycles_per_element",
        "vector.stream.exponential_cycles_per_element",
        "vector.stream.quantize_mx_cycles_per_element",
        "vector.stream.rand2_cycles_per_element",
    }


def test_inferentia2_is_trainium1_but_for_the_chip() -> None:
    assert {pair.key for pair in spec.compare("trn1", "inf2")} == {"published.chip.neuronlink_bandwidth_bytes_per_s"}
    left, right = spec.load("trn1"), spec.load("inf2")
    said = {key for key in left if left[key].source != right[key].source}
    assert {key.partition(".")[0] for key in said} == {"chip", "hbm", "published"}
    assert right["hbm.capacity_bytes"].source.startswith("inferentia2.rst")


def test_tables_side_by_side() -> None:
    rows = {row.key: row for row in spec.side_by_side("trn1", "trn2", "trn3")}
    assert set(rows) == set(spec.load("trn1")) | set(spec.load("trn2")) | set(spec.load("trn3"))
    clock = rows["vector.clock_hz"]
    assert [entry.value for entry in clock.entries if entry] == [1_120_000_000, 960_000_000, 1_200_000_000]
    assert (clock.unit, clock.differs) == ("Hz", True)
    assert not rows["tensor.rows"].differs
    assert [entry is None for entry in rows["tensor.mx_macs_per_cycle"].entries] == [True, True, False]
    assert [entry is None for entry in rows["published.chip.int8_ops_per_s"].entries] == [False, True, True]
    for one in ("trn1", "trn2", "trn3"):
        table = spec.load(one)
        assert [key for key in rows if key in table] == list(table), "each table keeps its own order"
    assert len(spec.side_by_side()[0].entries) == len(spec.names())


def test_compare_a_table_with_itself_finds_nothing() -> None:
    assert spec.compare("trn3", spec.load("trn3")) == []


def test_conflicts_hold_both_sides() -> None:
    found = {(other.table, other.id, other.key): other for other in spec.conflicts()}
    memory = found["trn3", "C2", "hbm.bandwidth_peak_bytes_per_s"]
    assert memory.value == 4_700_000_000_000
    assert "trainium3_arch.rst" in memory.source
    assert found["trn3", "C3", "chip.cc_cores"].value == 20
    assert found["trn3", "C4", "published.chip.bf16_flops_per_s"].value == 629_145_600_000_000
    ids = {other.id for other in spec.conflicts() if other.id is not None}
    # C10 (network of a server) and C16 (a rule of an instruction) are not about a chip or core.
    assert ids == {f"C{number}" for number in range(1, 20)} - {"C10", "C16"}
    assert spec.conflicts("trn3") == [other for other in spec.conflicts() if other.table == "trn3"]


def test_fractions_are_exact() -> None:
    assert spec.load("trn3").value("vector.stream.bn_aggr_cycles_per_element") == Fraction(13, 3)


def test_a_table_is_a_mapping() -> None:
    table = spec.load("trn3")
    assert "tensor.clock_hz" in table
    assert "tensor.clock" not in table
    assert table.get("tensor.clock", 3) == 3
    assert table.get("tensor.clock") is None
    assert next(iter(table)) == "core.generation"
    with pytest.raises(SpecError, match=r"tensor\.clok_hz: no such key; did you mean tensor\.clock_hz"):
        table["tensor.clok_hz"]


def test_tables_are_values() -> None:
    table = spec.load("trn3", {"dma.gap_ns": 20})
    for other in (copy.deepcopy(table), pickle.loads(pickle.dumps(table))):
        assert other == table
        assert hash(other) == hash(table)
    assert table != spec.load("trn3")
    assert repr(table) == f"<Table 'trn3': {len(table)} entries, overridden: dma.gap_ns>"


def test_an_override_says_what_was_there() -> None:
    one = spec.load("trn3", overrides={"dma.gap_ns": 10})["dma.gap_ns"]
    assert (one.value, one.status, one.replaced) == (10, "override", (40, "derived"))
    assert one.source == "set by the user in place of 40 ns (derived)"
    assert one.range == (20, 100)
    assert one.is_outside_range


@pytest.mark.parametrize(
    ("key", "given", "kept"),
    [
        ("tensor.clock_hz", 2.8e9, 2_800_000_000),
        ("tensor.clock_hz", np.int64(1_200_000_000), 1_200_000_000),
        ("dma.hwdge.partition_ns", np.float32(3.5), 3.5),
        ("dma.gap_ns", 0, 0),
        ("hbm.efficiency_ratio", 1, 1),
        ("tensor.throttle.enabled", False, False),
        ("tensor.throttle.enabled", np.bool_(False), False),
        ("vector.stream.reciprocal_cycles_per_element", Fraction(15, 2), Fraction(15, 2)),
        ("vector.stream.reciprocal_cycles_per_element", "7", Fraction(7)),
        ("vector.stream.reciprocal_cycles_per_element", 0.25, Fraction(1, 4)),
        ("vector.stream.reciprocal_cycles_per_element", "15/2 cycles/element", Fraction(15, 2)),
        ("dma.gap_ns", "20 ns", 20),
        ("dma.hwdge.partition_ns", "3.5  ns", 3.5),
        ("tensor.clock_hz", "2.8e9 Hz", 2_800_000_000),
        ("matmul.row_tiles", [128], (128,)),
        ("matmul.row_tiles", (128, 64), (128, 64)),
        ("core.generation", "NeuronCore-x", "NeuronCore-x"),
        ("scalar.table.rest", [], ()),
    ],
)
def test_overrides_of_every_kind(key: str, given: object, kept: object) -> None:
    value = spec.load("trn3", {key: given})[key].value
    assert value == kept
    assert isinstance(value, bool) == isinstance(kept, bool)


@pytest.mark.parametrize(
    ("key", "value", "rule"),
    [
        ("tensor.clock_hz", 0, "spec.limit"),
        ("tensor.clock_hz", -1, "spec.limit"),
        ("tensor.clock_hz", 1e12, "spec.limit"),
        ("tensor.clock_hz", 10**30, "spec.kind"),
        ("tensor.clock_hz", "2.4 GHz", "spec.unit"),
        ("dma.gap_ns", "20 us", "spec.unit"),
        ("dma.gap_ns", "many ns", "spec.kind"),
        ("dma.gap_ns", "20", "spec.kind"),
        ("tensor.clock_hz", True, "spec.kind"),
        ("tensor.clock_hz", [1], "spec.kind"),
        ("tensor.clock_hz", float("nan"), "spec.kind"),
        ("dma.gap_ns", float("inf"), "spec.kind"),
        ("dma.gap_ns", 0.0001, "spec.limit"),
        ("dma.gap_ns", -1, "spec.limit"),
        ("psum.banks", 7.5, "spec.kind"),
        ("psum.banks", 4, "spec.consistent"),
        ("psum.banks", 0, "spec.consistent"),
        ("hbm.stacks", 0, "spec.consistent"),
        ("sbuf.partitions", 2**32, "spec.limit"),
        ("chip.cores", 2**31, "spec.consistent"),
        ("dma.descriptor.overhead_ns", 150, "spec.consistent"),
        ("dma.queues_per_engine", 65, "spec.consistent"),
        ("capability.matmul_mx", False, "spec.consistent"),
        ("capability.matmul_mx", 0, "spec.kind"),
        ("vector.stream.reciprocal_cycles_per_element", "1/0", "spec.kind"),
        ("vector.stream.reciprocal_cycles_per_element", -1, "spec.kind"),
        ("matmul.row_tiles", [100], "spec.consistent"),
        ("matmul.row_tiles", [], "spec.consistent"),
        ("hbm.efficiency_ratio", 0, "spec.consistent"),
        ("tensor", 1, "spec.unknown_key"),
        ("", 1, "spec.unknown_key"),
    ],
)
def test_impossible_overrides_are_refused(key: str, value: object, rule: str) -> None:
    error = load_error("trn3", overrides={key: value})
    assert error.rule == rule
    assert str(error).endswith(f"[{rule}]")


@pytest.mark.parametrize("value", [None, object(), {"a": 1}, b"x"])
def test_overrides_of_no_kind_are_type_errors(value: object) -> None:
    with pytest.raises(TypeError, match=r"overrides: dma\.gap_ns"):
        spec.load("trn3", {"dma.gap_ns": value})


def test_overrides_change_together() -> None:
    table = spec.load("trn3", {"psum.banks": 4, "psum.bank_bytes": 4096})
    assert table.tile_sizes()["psum_num_banks"] == 4


def test_a_users_file_extends_a_table(tmp_path: Path) -> None:
    path = write(tmp_path, 'title = "a faster chip"\n' + entry("tensor.clock_hz", "3_000_000_000", "Hz"), "fast.toml")
    table = spec.load(path)
    assert (table.name, table.title, table.file) == ("fast", "a faster chip", str(path))
    assert [pair.key for pair in spec.compare("trn3", table)] == ["tensor.clock_hz"]
    assert table.peaks()["bf16_flops_per_s"] == 128 * 128 * 2 * 3e9
    write(tmp_path, 'extends = "fast.toml"\n', "faster.toml")
    assert spec.load(tmp_path / "faster.toml").value("tensor.clock_hz") == 3_000_000_000


def test_a_complete_file_needs_no_base(tmp_path: Path) -> None:
    shipped = Path(__file__).parents[2] / "rust" / "spec" / "data" / "trn3.toml"
    path = write(tmp_path, shipped.read_text(encoding="utf-8"), "copy.toml")
    assert spec.load(path) == spec.load("trn3")


@pytest.mark.parametrize(
    ("text", "rule", "said"),
    [
        (entry("dma.gapp_ns", "1"), "spec.unknown_key", "did you mean dma.gap_ns"),
        (entry("dma.gap_ns", "1", rest='status = "doc"'), "spec.entry", "dma.gap_ns: missing field `source`"),
        (entry("dma.gap_ns", "1", rest='source = "x"'), "spec.entry", "dma.gap_ns: missing field `status`"),
        (entry("dma.gap_ns", "1", rest='status = "sure"\nsource = "x"'), "spec.entry", "unknown variant `sure`"),
        (entry("dma.gap_ns", "1", "cycles"), "spec.unit", 'unit is "cycles", must be "ns"'),
        (entry("dma.gap_ns", "true"), "spec.kind", "true (true or false)"),
        (entry("dma.gap_ns", "1") + entry("dma.gap_ns", "1").partition("\n")[2], "spec.toml", "duplicate key"),
        (entry("dma.gap_ns", "1")[:-12], "spec.toml", "line 6"),
        ('extends = "trn9"', "spec.name", "known: trn1, inf2, trn2, trn3"),
        ('extends = "mine.toml"', "spec.extends", "extends itself"),
        ("extends = 3", "spec.entry", "extends"),
        ("", "spec.missing_key", "core.generation: missing"),
        ('name = "x"', "spec.missing_key", "core.generation: missing"),
        ("\ufeff\x00", "spec.toml", "line 1"),
    ],
)
def test_wrong_files_are_refused(tmp_path: Path, text: str, rule: str, said: str) -> None:
    path = write(tmp_path, text)
    error = load_error(path)
    assert error.rule == rule
    assert said in str(error)
    assert rule == "spec.name" or "mine.toml" in str(error)


def test_what_is_no_text_file_is_refused(tmp_path: Path) -> None:
    binary = tmp_path / "binary.toml"
    binary.write_bytes(bytes(range(256)))
    assert "is not text in UTF-8" in str(load_error(binary))
    assert "is a directory" in str(load_error(tmp_path))
    assert "is not a regular file" in str(load_error("/dev/zero"))
    assert load_error(tmp_path / "none.toml").rule == "spec.file"
    huge = tmp_path / "huge.toml"
    with huge.open("wb") as file:
        file.truncate(5 << 20)
    assert "bytes long" in str(load_error(huge))


@pytest.mark.parametrize("name", ["trn9", "", "TRN3", "trn3 "])
def test_a_wrong_name_lists_the_known_ones(name: str) -> None:
    assert "known: trn1, inf2, trn2, trn3" in str(load_error(name))
