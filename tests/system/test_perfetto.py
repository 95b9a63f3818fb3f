"""The trace, read back with Perfetto's own protobuf classes."""

import pathlib

import numpy as np
from perfetto.protos.perfetto.trace.perfetto_trace_pb2 import Trace, TrackEvent

import trn3
from trn3.nki import isa as nisa
from trn3.nki import language as nl


def kernel(x, y):
    out = nl.ndarray((128, 512), nl.float32, buffer=nl.shared_hbm)
    acc = nl.ndarray((128, 512), nl.float32, buffer=nl.psum)
    s, m = nl.load(x), nl.load(y)
    nisa.nc_matmul(acc, s, m, name="the product")  # MATMUL
    nl.store(out, acc)
    return out


def read(path):
    """Events with names, categories and locations resolved, and tracks by uuid."""
    trace = Trace()
    trace.ParseFromString(path.read_bytes())
    tracks, names, sources, annotations, strings, open_slices, slices = {}, {}, {}, {}, {}, {}, []
    for packet in trace.packet:
        if packet.HasField("track_descriptor"):
            descriptor = packet.track_descriptor
            tracks[descriptor.uuid] = descriptor
        interned = packet.interned_data
        names.update({entry.iid: entry.name for entry in interned.event_names})
        sources.update({entry.iid: entry for entry in interned.source_locations})
        annotations.update({entry.iid: entry.name for entry in interned.debug_annotation_names})
        strings.update({entry.iid: entry.str.decode() for entry in interned.debug_annotation_string_values})
        if not packet.HasField("track_event"):
            continue
        event = packet.track_event
        if event.type == TrackEvent.TYPE_SLICE_BEGIN:
            values = {}
            for annotation in event.debug_annotations:
                key = annotation.name or annotations[annotation.name_iid]
                kind = annotation.WhichOneof("value")
                value = getattr(annotation, kind)
                values[key] = strings[value] if kind == "string_value_iid" else value
            record = {
                "name": event.name or names[event.name_iid],
                "track": event.track_uuid,
                "start": packet.timestamp,
                "source": sources.get(event.source_location_iid),
                "args": values,
            }
            open_slices.setdefault(event.track_uuid, []).append(record)
            slices.append(record)
        elif event.type == TrackEvent.TYPE_SLICE_END:
            open_slices[event.track_uuid].pop()["end"] = packet.timestamp
    assert not any(open_slices.values())
    return slices, tracks


def path_of(tracks, uuid):
    names = []
    while uuid in tracks:
        track = tracks[uuid]
        names.append(track.name or track.thread.thread_name or track.process.process_name)
        uuid = track.parent_uuid
    return names


def test_every_instruction_has_a_slice_with_its_line_and_time(tmp_path):
    run = trn3.run(kernel, np.ones((128, 128), np.float32), np.ones((128, 512), np.float32))
    path = tmp_path / "trace.perfetto-trace"
    run.report.write_perfetto(path)
    assert not list(tmp_path.glob("*.part"))
    slices, tracks = read(path)
    instructions = sorted(
        (s for s in slices if "instruction" in s["args"] and "stall_ps" in s["args"]),
        key=lambda s: s["args"]["instruction"],
    )
    assert [s["name"] for s in instructions] == run.program.opcodes()
    for number, s in enumerate(instructions):
        issue, end, stall = run.report.timeline.instruction(number)
        assert s["args"]["start_ps"] == issue
        assert s["args"]["duration_ps"] == end - issue
        assert s["args"]["stall_ps"] == stall
        assert s["start"] == issue // 1000
    product = next(s for s in instructions if s["name"] == "nc_matmul")
    lines = pathlib.Path(__file__).read_text().splitlines()
    expected = next(at for at, text in enumerate(lines, 1) if "# MATMUL" in text)
    assert product["source"].line_number == expected
    assert pathlib.Path(product["source"].file_name) == pathlib.Path(__file__)
    assert product["args"]["line"] == expected
    assert product["args"]["label"] == "the product"
    assert product["args"]["waited_for"] == "dma"
    assert any("tensor" in name for name in path_of(tracks, product["track"]))


def test_every_dma_engine_that_moved_data_has_a_row(tmp_path):
    run = trn3.run(kernel, np.ones((128, 128), np.float32), np.ones((128, 512), np.float32))
    path = tmp_path / "trace.perfetto-trace"
    run.report.write_perfetto(path)
    slices, tracks = read(path)
    transfers = [s for s in slices if "bytes" in s["args"]]
    assert len(transfers) == 3 * 16
    rows = {name for s in transfers for name in path_of(tracks, s["track"])}
    assert {f"engine{j:02}" for j in range(16)} <= rows


def test_a_folder_that_is_not_there_is_an_os_error(tmp_path):
    import pytest

    run = trn3.run(kernel, np.ones((128, 128), np.float32), np.ones((128, 512), np.float32))
    with pytest.raises(OSError, match=r"trace file .*absent"):
        run.report.write_perfetto(tmp_path / "absent" / "trace")
