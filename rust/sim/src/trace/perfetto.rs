//! Writes a trace in Perfetto's protobuf format.
//!
//! Field numbers are those of `perfetto_trace.proto` (perfetto.dev/docs/reference/trace-packet-proto). One packet
//! sequence holds everything; strings and source locations are interned and sent with the first packet that needs
//! them, so that the file can be written, and read, as a stream.
//!
//! Perfetto counts nanoseconds. A timestamp is the moment rounded down to a nanosecond, on the clock BOOTTIME, which is
//! the default trace clock; the exact times are the debug annotations `start_ps` and `duration_ps` of every slice. A
//! source line is given twice: as `source_location` and as the annotations `file` and `line`, which every viewer shows.
//!
//! Slices of one Perfetto track must nest. Slices that overlap otherwise (see [`Overlap`]) are spread over extra rows,
//! child tracks named `<track> +1`, `<track> +2` and so on; each slice takes the first row that is free.

mod field;

use std::cmp::Reverse;
use std::io::{self, Write};

use super::proto::Message;
use super::{Overlap, Sample, Slice, SliceId, SourceId, StrId, Trace, TrackId, TrackKind, Unit, Value};
use crate::time::Picos;

const SEQUENCE_ID: u64 = 1;
const INCREMENTAL_STATE_CLEARED: u64 = 1;
const NEEDS_INCREMENTAL_STATE: u64 = 2;
const CLOCK_BOOTTIME: u64 = 6;
const ORDERING_EXPLICIT: u64 = 3;
const THREAD_ORDERING_EXPLICIT: u64 = 1;
const UNIT_COUNT: u64 = 2;
const UNIT_SIZE_BYTES: u64 = 3;
const SLICE_BEGIN: u64 = 1;
const SLICE_END: u64 = 2;
const COUNTER: u64 = 4;

/// Bytes gathered before they are handed on.
const CHUNK_BYTES: usize = 1 << 16;

/// Writes `trace` to `out`. The bytes depend on the trace alone.
///
/// # Errors
///
/// Whatever `out` reports.
pub fn write(trace: &Trace, out: &mut dyn Write) -> io::Result<()> {
    let mut writer = Writer::new(trace, out);
    writer.head()?;
    writer.all_slices()?;
    writer.all_samples()?;
    writer.out.write_all(writer.pending.bytes())
}

/// Which interned entries of one kind the file holds so far.
struct Sent(Vec<bool>);

impl Sent {
    fn first_time(&mut self, index: usize) -> bool {
        !std::mem::replace(&mut self.0[index], true)
    }
}

/// The annotation names that every slice carries.
struct FixedKeys {
    start_ps: u64,
    duration_ps: u64,
    file: u64,
    line: u64,
}

struct Writer<'a> {
    trace: &'a Trace,
    out: &'a mut dyn Write,
    pending: Message,
    interned: Message,
    event: Message,
    categories: Sent,
    names: Sent,
    keys: Sent,
    texts: Sent,
    sources: Sent,
    fixed: FixedKeys,
    next_uuid: u64,
    /// (slice, flow) for each arrow, sorted by slice: where arrows leave and where they arrive.
    leaving: Vec<(SliceId, u64)>,
    arriving: Vec<(SliceId, u64)>,
}

/// Interning ids start at 1; 0 means "none".
fn iid(index: u32) -> u64 {
    u64::from(index) + 1
}

fn uuid(track: TrackId) -> u64 {
    u64::from(track.0) + 1
}

impl<'a> Writer<'a> {
    fn new(trace: &'a Trace, out: &'a mut dyn Write) -> Writer<'a> {
        let sent = || Sent(vec![false; trace.strings.len()]);
        let own = trace.strings.len() as u64;
        let sorted = |end: fn(&(SliceId, SliceId)) -> SliceId| {
            let mut ends: Vec<_> = trace.flows.iter().zip(1..).map(|(flow, id)| (end(flow), id)).collect();
            ends.sort_unstable();
            ends
        };
        Writer {
            trace,
            out,
            pending: Message::default(),
            interned: Message::default(),
            event: Message::default(),
            categories: sent(),
            names: sent(),
            keys: sent(),
            texts: sent(),
            sources: Sent(vec![false; trace.sources.len()]),
            fixed: FixedKeys { start_ps: own + 1, duration_ps: own + 2, file: own + 3, line: own + 4 },
            next_uuid: trace.tracks.len() as u64 + 1,
            leaving: sorted(|flow| flow.0),
            arriving: sorted(|flow| flow.1),
        }
    }

    fn packet(&mut self, flags: u64, write: impl FnOnce(&mut Message)) -> io::Result<()> {
        self.pending.message(field::TRACE_PACKET, |packet| {
            packet.uint(field::packet::SEQUENCE_ID, SEQUENCE_ID);
            packet.uint(field::packet::SEQUENCE_FLAGS, flags);
            write(packet);
        });
        if self.pending.len() >= CHUNK_BYTES {
            self.out.write_all(self.pending.bytes())?;
            self.pending.clear();
        }
        Ok(())
    }

    /// Clock, the annotation names that every slice carries, and the tree of tracks.
    fn head(&mut self) -> io::Result<()> {
        let fixed = [
            (self.fixed.start_ps, "start_ps"),
            (self.fixed.duration_ps, "duration_ps"),
            (self.fixed.file, "file"),
            (self.fixed.line, "line"),
        ];
        self.packet(INCREMENTAL_STATE_CLEARED, |packet| {
            packet.uint(field::packet::FIRST_ON_SEQUENCE, 1);
            packet.message(field::packet::DEFAULTS, |defaults| {
                defaults.uint(field::defaults::TIMESTAMP_CLOCK_ID, CLOCK_BOOTTIME);
            });
            packet.message(field::packet::CLOCK_SNAPSHOT, |snapshot| {
                snapshot.message(field::clock_snapshot::CLOCKS, |clock| {
                    clock.uint(field::clock_snapshot::CLOCK_ID, CLOCK_BOOTTIME);
                    clock.uint(field::clock_snapshot::CLOCK_TIMESTAMP, 0);
                });
                snapshot.uint(field::clock_snapshot::PRIMARY_TRACE_CLOCK, CLOCK_BOOTTIME);
            });
            packet.message(field::packet::INTERNED_DATA, |interned| {
                for (iid, text) in fixed {
                    entry(interned, field::interned::ANNOTATION_NAMES, iid, text);
                }
            });
        })?;
        (0..self.trace.tracks.len()).try_for_each(|index| self.track(TrackId::new(index)))
    }

    fn track(&mut self, id: TrackId) -> io::Result<()> {
        let trace = self.trace;
        let track = &trace.tracks[id.index()];
        let name = trace.text(track.name);
        // Ids are small, so they serve as process and thread numbers too; these are 32-bit signed.
        let number = uuid(id);
        self.packet(NEEDS_INCREMENTAL_STATE, |packet| {
            packet.message(field::packet::TRACK_DESCRIPTOR, |descriptor| {
                descriptor.uint(field::track::UUID, number);
                descriptor.text(field::track::NAME, name);
                if let Some(parent) = track.parent {
                    descriptor.uint(field::track::PARENT_UUID, uuid(parent));
                }
                descriptor.uint(field::track::CHILD_ORDERING, ORDERING_EXPLICIT);
                descriptor.uint(field::track::SIBLING_ORDER_RANK, number);
                match track.kind {
                    TrackKind::Process => {
                        descriptor.uint(field::track::THREAD_ORDERING, THREAD_ORDERING_EXPLICIT);
                        descriptor.message(field::track::PROCESS, |process| {
                            process.uint(field::process::PID, number);
                            process.uint(field::process::SORT_INDEX, number);
                            process.text(field::process::NAME, name);
                        });
                    }
                    TrackKind::Thread => descriptor.message(field::track::THREAD, |thread| {
                        let process = track.parent.expect("a thread belongs to a process");
                        thread.uint(field::thread::PID, uuid(process));
                        thread.uint(field::thread::TID, number);
                        thread.uint(field::thread::SORT_INDEX, number);
                        thread.text(field::thread::NAME, name);
                    }),
                    TrackKind::Nested => {}
                    TrackKind::Counter(unit) => descriptor.message(field::track::COUNTER, |counter| match unit {
                        Unit::Count => counter.uint(field::counter::UNIT, UNIT_COUNT),
                        Unit::Bytes => counter.uint(field::counter::UNIT, UNIT_SIZE_BYTES),
                        Unit::Named(unit) => counter.text(field::counter::UNIT_NAME, trace.text(unit)),
                    }),
                }
            });
        })
    }

    /// An extra row of a track whose slices overlap.
    fn lane(&mut self, track: TrackId, lane: usize) -> io::Result<u64> {
        let trace = self.trace;
        let lane_uuid = self.next_uuid;
        self.next_uuid += 1;
        self.packet(NEEDS_INCREMENTAL_STATE, |packet| {
            packet.message(field::packet::TRACK_DESCRIPTOR, |descriptor| {
                descriptor.uint(field::track::UUID, lane_uuid);
                descriptor
                    .text(field::track::NAME, &format!("{} +{lane}", trace.text(trace.tracks[track.index()].name)));
                descriptor.uint(field::track::PARENT_UUID, uuid(track));
                descriptor.uint(field::track::SIBLING_ORDER_RANK, lane as u64);
            });
        })?;
        Ok(lane_uuid)
    }

    fn all_slices(&mut self) -> io::Result<()> {
        let trace = self.trace;
        let mut order: Vec<SliceId> = trace.slices().map(|(id, _)| id).collect();
        order.sort_by_key(|id| {
            let slice = &trace.slices[id.index()];
            (slice.track, slice.start, Reverse(slice.duration))
        });
        for on_track in order.chunk_by(|a, b| trace.slices[a.index()].track == trace.slices[b.index()].track) {
            let track = trace.slices[on_track[0].index()].track;
            let rows = spread(trace, on_track, trace.tracks[track.index()].overlap);
            for (row, slices) in rows.iter().enumerate() {
                let row_uuid = if row == 0 { uuid(track) } else { self.lane(track, row)? };
                self.row(row_uuid, slices)?;
            }
        }
        Ok(())
    }

    /// The slices of one row, which nest, in order of their starts.
    fn row(&mut self, row_uuid: u64, slices: &[SliceId]) -> io::Result<()> {
        let trace = self.trace;
        let mut open: Vec<Picos> = Vec::new();
        for &id in slices {
            let slice = &trace.slices[id.index()];
            while let Some(end) = open.pop_if(|end| *end <= slice.start) {
                self.slice_end(row_uuid, end)?;
            }
            self.slice_begin(row_uuid, id, slice)?;
            open.push(slice.start + slice.duration);
        }
        while let Some(end) = open.pop() {
            self.slice_end(row_uuid, end)?;
        }
        Ok(())
    }

    fn slice_end(&mut self, row_uuid: u64, end: Picos) -> io::Result<()> {
        self.packet(NEEDS_INCREMENTAL_STATE, |packet| {
            packet.uint(field::packet::TIMESTAMP, end.whole_ns());
            packet.message(field::packet::TRACK_EVENT, |event| {
                event.uint(field::event::TYPE, SLICE_END);
                event.uint(field::event::TRACK_UUID, row_uuid);
            });
        })
    }

    fn slice_begin(&mut self, row_uuid: u64, id: SliceId, slice: &Slice) -> io::Result<()> {
        let mut interned = std::mem::take(&mut self.interned);
        let mut event = std::mem::take(&mut self.event);
        interned.clear();
        event.clear();
        event.uint(field::event::TYPE, SLICE_BEGIN);
        event.uint(field::event::TRACK_UUID, row_uuid);
        event.uint(field::event::CATEGORY_IIDS, iid(slice.category.0));
        event.uint(field::event::NAME_IID, iid(slice.name.0));
        let trace = self.trace;
        intern(trace, &mut self.categories, &mut interned, field::interned::CATEGORIES, slice.category);
        intern(trace, &mut self.names, &mut interned, field::interned::EVENT_NAMES, slice.name);
        self.annotations(&mut event, &mut interned, id, slice);
        for flow in flows_of(&self.leaving, id) {
            event.fixed64(field::event::FLOW_IDS, flow);
        }
        for flow in flows_of(&self.arriving, id) {
            event.fixed64(field::event::TERMINATING_FLOW_IDS, flow);
        }
        let written = self.packet(NEEDS_INCREMENTAL_STATE, |packet| {
            packet.uint(field::packet::TIMESTAMP, slice.start.whole_ns());
            if !interned.is_empty() {
                packet.length_delimited(field::packet::INTERNED_DATA, interned.bytes());
            }
            packet.length_delimited(field::packet::TRACK_EVENT, event.bytes());
        });
        (self.interned, self.event) = (interned, event);
        written
    }

    /// Exact times, the source line, and the arguments.
    fn annotations(&mut self, event: &mut Message, interned: &mut Message, id: SliceId, slice: &Slice) {
        let trace = self.trace;
        let fixed = &self.fixed;
        for (key, value) in [(fixed.start_ps, slice.start.0), (fixed.duration_ps, slice.duration.0)] {
            annotation(event, key, |a| a.uint(field::annotation::UINT_VALUE, value));
        }
        if let Some(source) = slice.source {
            let location = trace.source_location(source);
            event.uint(field::event::SOURCE_LOCATION_IID, iid(source.0));
            intern_source(trace, &mut self.sources, interned, source);
            intern(trace, &mut self.texts, interned, field::interned::ANNOTATION_STRINGS, location.file);
            annotation(event, fixed.file, |a| a.uint(field::annotation::STRING_VALUE_IID, iid(location.file.0)));
            annotation(event, fixed.line, |a| a.int(field::annotation::INT_VALUE, i64::from(location.line)));
        }
        for arg in trace.args(id) {
            intern(trace, &mut self.keys, interned, field::interned::ANNOTATION_NAMES, arg.key);
            if let Value::Str(text) = arg.value {
                intern(trace, &mut self.texts, interned, field::interned::ANNOTATION_STRINGS, text);
            }
            annotation(event, iid(arg.key.0), |a| match arg.value {
                Value::Str(text) => a.uint(field::annotation::STRING_VALUE_IID, iid(text.0)),
                Value::Int(value) => a.int(field::annotation::INT_VALUE, value),
                Value::Uint(value) => a.uint(field::annotation::UINT_VALUE, value),
                Value::Float(value) => a.double(field::annotation::DOUBLE_VALUE, value),
            });
        }
    }

    fn all_samples(&mut self) -> io::Result<()> {
        let mut samples = self.trace.samples.clone();
        samples.sort_by_key(|&(counter, at, _)| (counter, at));
        samples.iter().try_for_each(|&(counter, at, value)| {
            self.packet(NEEDS_INCREMENTAL_STATE, |packet| {
                packet.uint(field::packet::TIMESTAMP, at.whole_ns());
                packet.message(field::packet::TRACK_EVENT, |event| {
                    event.uint(field::event::TYPE, COUNTER);
                    event.uint(field::event::TRACK_UUID, uuid(counter));
                    match value {
                        Sample::Int(value) => event.int(field::event::COUNTER_VALUE, value),
                        Sample::Float(value) => event.double(field::event::DOUBLE_COUNTER_VALUE, value),
                    }
                });
            })
        })
    }
}

/// Deals the slices of one track, sorted by start, out to rows in which they do not overlap or properly nest.
fn spread(trace: &Trace, slices: &[SliceId], overlap: Overlap) -> Vec<Vec<SliceId>> {
    let mut rows: Vec<(Vec<SliceId>, Vec<Picos>)> = Vec::new();
    for &id in slices {
        let slice = &trace.slices[id.index()];
        let end = slice.start + slice.duration;
        let takes = |(_, open): &mut (Vec<SliceId>, Vec<Picos>)| {
            while open.pop_if(|open_end| *open_end <= slice.start).is_some() {}
            match open.last() {
                None => true,
                Some(&outer) => overlap == Overlap::Nest && end <= outer,
            }
        };
        let row = rows.iter_mut().position(takes).unwrap_or(rows.len());
        if row == rows.len() {
            rows.push((Vec::new(), Vec::new()));
        }
        rows[row].0.push(id);
        rows[row].1.push(end);
    }
    rows.into_iter().map(|(row, _)| row).collect()
}

fn flows_of(ends: &[(SliceId, u64)], slice: SliceId) -> impl Iterator<Item = u64> {
    let first = ends.partition_point(|&(other, _)| other < slice);
    ends[first..].iter().take_while(move |&&(other, _)| other == slice).map(|&(_, flow)| flow)
}

fn annotation(event: &mut Message, key: u64, value: impl FnOnce(&mut Message)) {
    event.message(field::event::DEBUG_ANNOTATIONS, |annotation| {
        annotation.uint(field::annotation::NAME_IID, key);
        value(annotation);
    });
}

fn entry(interned: &mut Message, kind: u32, iid: u64, text: &str) {
    interned.message(kind, |entry| {
        entry.uint(field::interned::IID, iid);
        entry.text(field::interned::TEXT, text);
    });
}

fn intern(trace: &Trace, sent: &mut Sent, interned: &mut Message, kind: u32, id: StrId) {
    if sent.first_time(id.index()) {
        entry(interned, kind, iid(id.0), trace.text(id));
    }
}

fn intern_source(trace: &Trace, sent: &mut Sent, interned: &mut Message, id: SourceId) {
    if !sent.first_time(id.index()) {
        return;
    }
    let location = trace.source_location(id);
    interned.message(field::interned::SOURCE_LOCATIONS, |source| {
        source.uint(field::interned::IID, iid(id.0));
        source.text(field::interned::TEXT, trace.text(location.file));
        if let Some(function) = location.function {
            source.text(field::interned::SOURCE_FUNCTION, trace.text(function));
        }
        source.uint(field::interned::SOURCE_LINE, u64::from(location.line));
    });
}

#[cfg(test)]
mod tests {
    use super::*;

    fn trace_of(overlap: Overlap, spans: &[(u64, u64)]) -> (Trace, Vec<Vec<u32>>) {
        let mut trace = Trace::new();
        let track = trace.component("bakery.oven");
        let name = trace.intern("bake");
        for &(start, end) in spans {
            let (start, duration) = (Picos(start), Picos(end - start));
            trace.slice(Slice { track, start, duration, name, category: name, source: None }, &[]);
        }
        let order: Vec<SliceId> = trace.slices().map(|(id, _)| id).collect();
        let rows = spread(&trace, &order, overlap);
        (trace, rows.iter().map(|row| row.iter().map(|id| id.0).collect()).collect())
    }

    #[test]
    fn overlapping_slices_take_the_first_free_row() {
        let spans = [(0, 10), (5, 15), (6, 9), (9, 12), (10, 20), (30, 40)];
        let (_, rows) = trace_of(Overlap::Lanes, &spans);
        assert_eq!(rows, [vec![0, 4, 5], vec![1], vec![2, 3]]);
    }

    #[test]
    fn scopes_nest_where_they_fit() {
        let spans = [(0, 10), (0, 4), (4, 10), (5, 12), (10, 11)];
        let (_, rows) = trace_of(Overlap::Nest, &spans);
        assert_eq!(rows, [vec![0, 1, 2, 4], vec![3]]);
    }

    #[test]
    fn the_same_trace_gives_the_same_bytes_in_any_portions() {
        let spans: Vec<(u64, u64)> = (0..5_000).map(|i| (i * 100, i * 100 + 150)).collect();
        let (trace, _) = trace_of(Overlap::Lanes, &spans);
        let (mut first, mut second) = (Vec::new(), Vec::new());
        write(&trace, &mut first).expect("memory takes every byte");
        write(&trace, &mut second).expect("memory takes every byte");
        assert!(first.len() > 2 * CHUNK_BYTES);
        assert_eq!(first, second);
    }
}
