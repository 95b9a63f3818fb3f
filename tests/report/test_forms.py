"""The report as text, on a terminal, as JSON and as a trace."""

import doctest
import importlib
import json
import sys

import pytest
from perfetto.protos.perfetto.trace.perfetto_trace_pb2 import Trace, TrackEvent

import reported
import trn3
from trn3.report import plain

RUNS = reported.runs()


def broken(value, schema, root, at="report"):
    """What in a value does not follow a JSON schema; only what `trn3.report.schema` uses."""
    if "$ref" in schema:
        schema = {
            **root["$defs"][schema["$ref"].rpartition("/")[2]],
            **{k: v for k, v in schema.items() if k != "$ref"},
        }
    if "anyOf" in schema:
        options = [broken(value, option, root, at) for option in schema["anyOf"]]
        return [] if [] in options else options[0]
    kinds = {"string": str, "integer": int, "number": (int, float), "array": list, "object": dict, "null": type(None)}
    kind = schema.get("type")
    if kind and (not isinstance(value, kinds[kind]) or isinstance(value, bool)):
        return [f"{at} is {value!r}, not {kind}"]
    found = [] if value == schema.get("const", value) else [f"{at} is {value!r}"]
    if kind == "array":
        found += [b for n, each in enumerate(value) for b in broken(each, schema["items"], root, f"{at}[{n}]")]
    if kind == "object" and "properties" in schema:
        found += [f"{at} lacks {name}" for name in schema["required"] if name not in value]
        for name, each in value.items():
            if name not in schema["properties"]:
                found.append(f"{at} has {name}")
            else:
                found += broken(each, schema["properties"][name], root, f"{at}.{name}")
    elif kind == "object":
        found += [
            b
            for name, each in value.items()
            for b in broken(each, schema["additionalProperties"], root, f"{at}.{name}")
        ]
    return found


@pytest.mark.parametrize("name", RUNS)
def test_json_follows_its_schema(name):
    schema = trn3.report.schema()
    value = json.loads(RUNS[name].report.to_json())
    assert value["schema"] == trn3.report.VERSION
    assert broken(value, schema, schema) == []


def test_the_examples_run():
    assert doctest.testmod(importlib.import_module("trn3.report.document")).failed == 0


def test_the_schema_notices():
    schema = trn3.report.schema()
    value = json.loads(RUNS["chain"].report.to_json())
    for spoil in (
        lambda v: v.pop("mfu"),
        lambda v: v.update(extra=1),
        lambda v: v["engines"][0].update(busy_s="long"),
        lambda v: v["engines"][0]["stalls"].update(dma=None),
        lambda v: v.update(schema="trn3.report/0"),
    ):
        other = json.loads(json.dumps(value))
        spoil(other)
        assert broken(other, schema, schema)


def test_every_field_of_the_schema_is_described():
    for name, record in trn3.report.schema()["$defs"].items():
        assert record["description"], name
        for key, field in record["properties"].items():
            assert len(field["description"]) > 8, (name, key)


def test_the_text_says_what_a_kernel_author_asks():
    text = str(RUNS["product"].report)
    total = plain.time(RUNS["product"].report.total_s)
    assert f"product on trn3: {total} (+ 8.50 us fixed), 8 instructions" in text
    assert "bound;" in text
    assert "critical path: " in text
    assert "acc (128 x 512 float32)" in text
    assert "reported.py:" in text
    assert text.isascii()


def test_findings_are_printed_with_line_and_fix():
    report = RUNS["deviating"].report
    for finding in report.findings:
        line = next(row for row in str(report).splitlines() if finding.rule in row)
        assert f"reported.py:{finding.line}: " in line
        assert finding.fix in line


def rendered(report, monkeypatch, width, **variables):
    from rich.console import Console

    for name in ("NO_COLOR", "FORCE_COLOR", "COLUMNS", "TERM"):
        monkeypatch.delenv(name, raising=False)
    for name, value in variables.items():
        monkeypatch.setenv(name, value)
    console = Console(width=width, force_terminal=True, color_system=None if "NO_COLOR" in variables else "truecolor")
    with console.capture() as capture:
        console.print(report.to_rich())
    return capture.get()


@pytest.mark.parametrize("width", [40, 60, 80, 200])
def test_a_terminal_of_any_width_gets_all_of_it(monkeypatch, width):
    text = rendered(RUNS["product"].report, monkeypatch, width, NO_COLOR="1", TERM="xterm")
    assert all(len(row.rstrip()) <= width for row in text.splitlines())
    if width >= 60:  # Below, words are folded between columns.
        assert all(said in text for said in ("product", "8.50 us", "tensor", "nc_matmul", "FLOP/byte"))


def test_colour_is_left_out_when_asked(monkeypatch):
    assert "\x1b[3" not in rendered(RUNS["product"].report, monkeypatch, 100, NO_COLOR="1", TERM="xterm")
    assert "\x1b[3" in rendered(RUNS["product"].report, monkeypatch, 100, TERM="xterm-256color")


def test_print_works_without_rich(monkeypatch, capsys):
    monkeypatch.setitem(sys.modules, "rich", None)
    monkeypatch.setitem(sys.modules, "rich.console", None)
    RUNS["uneven"].report.print()
    assert capsys.readouterr().out == RUNS["uneven"].report.to_text() + "\n"


def test_print_to_a_pipe_has_no_colour(capsys):
    RUNS["uneven"].report.print()
    out = capsys.readouterr().out
    assert "second core" in out
    assert "\x1b" not in out


@pytest.mark.parametrize(
    "seconds, said", [(0, "0.0 ns"), (9.999e-7, "999.9 ns"), (1e-6, "1.00 us"), (0.0015, "1.50 ms"), (2.0, "2.00 s")]
)
def test_times_have_the_unit_that_suits_them(seconds, said):
    assert plain.time(seconds) == said


@pytest.mark.parametrize("count, said", [(0, "0 B"), (1023, "1023 B"), (1024, "1 KiB"), (3 << 29, "1.5 GiB")])
def test_sizes_have_the_unit_that_suits_them(count, said):
    assert plain.size(count) == said


def trace_of(report, path):
    report.write_perfetto(path)
    trace = Trace()
    trace.ParseFromString(path.read_bytes())
    tracks = {p.track_descriptor.uuid: p.track_descriptor for p in trace.packet if p.HasField("track_descriptor")}
    events = [(p.timestamp, p.track_event) for p in trace.packet if p.HasField("track_event")]
    return tracks, events


def test_the_trace_counts_bytes_and_bandwidth(tmp_path):
    report = RUNS["pipelined"].report
    tracks, events = trace_of(report, tmp_path / "trace")
    counters = {track.name or track.static_name: uuid for uuid, track in tracks.items() if track.HasField("counter")}
    assert {"sbuf bytes a partition", "psum bytes a partition", "HBM read", "HBM written"} <= counters.keys()
    sbuf = [event.counter_value for _, event in events if event.track_uuid == counters["sbuf bytes a partition"]]
    assert max(sbuf) == report.memory("sbuf").peak_bytes
    assert sbuf[-1] == 0
    read = [(at, event.double_counter_value) for at, event in events if event.track_uuid == counters["HBM read"]]
    moved = sum(value * (after - at) for (at, value), (after, _) in zip(read, read[1:], strict=False))
    assert moved == pytest.approx(next(r.read_bytes for r in report.routes if r.name == "hbm_to_sbuf"), rel=0.05)


def test_the_trace_has_the_critical_path(tmp_path):
    report = RUNS["chain"].report
    tracks, events = trace_of(report, tmp_path / "trace")
    uuid = next(uuid for uuid, track in tracks.items() if "critical path" in (track.name, track.thread.thread_name))
    begun = [event for _, event in events if event.track_uuid == uuid and event.type == TrackEvent.TYPE_SLICE_BEGIN]
    assert len(begun) == report.critical_path.segments
