//! What happened when, kept in memory: tracks, slices, flows between slices, and counter samples.
//!
//! A track is a row of the timeline and belongs to a component: `chip0.core0.tensor` is the thread `tensor` of the
//! process `chip0.core0`. A slice is something that took time on a track, with a name, a category, arguments and the
//! user's source line. A flow is an arrow from one slice to another. Strings are interned once; a slice without
//! arguments takes 48 bytes.
//!
//! Left out: any opinion on what a slice means, filtering, and instants (a slice of no duration serves). Order is the
//! order of recording; the only maps are ordered ones or are never iterated.
//!
//! [`perfetto`] writes a trace as a file that ui.perfetto.dev opens.

pub mod perfetto;
mod proto;

use std::collections::{BTreeMap, HashMap};
use std::sync::Arc;

use crate::time::Picos;

macro_rules! ids {
    ($($(#[$doc:meta])* $name:ident;)*) => {$(
        $(#[$doc])*
        #[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
        pub struct $name(u32);

        impl $name {
            fn new(index: usize) -> $name {
                $name(u32::try_from(index).expect("a trace holds fewer than 2^32 things of a kind"))
            }

            fn index(self) -> usize {
                self.0 as usize
            }
        }
    )*};
}

ids! {
    /// An interned string of a trace.
    StrId;
    /// A track of a trace.
    TrackId;
    /// A slice of a trace.
    SliceId;
    /// An interned source location of a trace.
    SourceId;
}

/// What a track stands for.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum TrackKind {
    /// A component that holds others; the top of a tree.
    Process,
    /// A component that does one thing at a time, directly under a process.
    Thread,
    /// A row under any other track.
    Nested,
    /// A quantity over time.
    Counter(Unit),
}

/// Unit of a counter track.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Unit {
    /// A plain count.
    Count,
    /// Bytes.
    Bytes,
    /// A unit of its own, such as `GB/s`.
    Named(StrId),
}

/// How slices of one track that overlap in time are shown.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Overlap {
    /// Side by side, in as many rows as it takes: the instructions of a pipeline.
    #[default]
    Lanes,
    /// One inside the other where it fits, else side by side: scopes that call each other.
    Nest,
}

/// A row of the timeline.
#[derive(Clone, Debug, PartialEq, Eq)]
struct Track {
    parent: Option<TrackId>,
    name: StrId,
    kind: TrackKind,
    overlap: Overlap,
}

/// Value of a slice's argument.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Value {
    /// Text.
    Str(StrId),
    /// A signed integer.
    Int(i64),
    /// An unsigned integer.
    Uint(u64),
    /// A float.
    Float(f64),
}

/// A named argument of a slice.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Arg {
    /// Its name.
    pub key: StrId,
    /// Its value.
    pub value: Value,
}

/// A line of the user's source.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct SourceLocation {
    /// Path of the file.
    pub file: StrId,
    /// The function around the line, if known.
    pub function: Option<StrId>,
    /// Line, counted from 1.
    pub line: u32,
}

/// Something that took time.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Slice {
    /// Where it happened.
    pub track: TrackId,
    /// When it began.
    pub start: Picos,
    /// How long it took.
    pub duration: Picos,
    /// What it is called.
    pub name: StrId,
    /// The kind of thing it is; one can switch categories off in a viewer.
    pub category: StrId,
    /// The user's line that asked for it.
    pub source: Option<SourceId>,
}

/// A value of a counter track from some moment on.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Sample {
    /// A whole number.
    Int(i64),
    /// A float.
    Float(f64),
}

/// A timeline in memory.
#[derive(Clone, Debug, Default)]
pub struct Trace {
    strings: Vec<Arc<str>>,
    /// Looked up only, never iterated.
    string_ids: HashMap<Arc<str>, StrId>,
    tracks: Vec<Track>,
    track_ids: BTreeMap<(Option<TrackId>, StrId, TrackKind), TrackId>,
    sources: Vec<SourceLocation>,
    source_ids: BTreeMap<SourceLocation, SourceId>,
    slices: Vec<Slice>,
    /// Where the arguments of slice *i* end in `args`; they begin where those of slice *i* − 1 end.
    args_end: Vec<u32>,
    args: Vec<Arg>,
    flows: Vec<(SliceId, SliceId)>,
    samples: Vec<(TrackId, Picos, Sample)>,
}

impl Trace {
    /// An empty trace.
    #[must_use]
    pub fn new() -> Trace {
        Trace::default()
    }

    /// The id of `text`; equal texts have equal ids.
    pub fn intern(&mut self, text: &str) -> StrId {
        if let Some(&id) = self.string_ids.get(text) {
            return id;
        }
        let id = StrId::new(self.strings.len());
        let text: Arc<str> = text.into();
        self.strings.push(Arc::clone(&text));
        self.string_ids.insert(text, id);
        id
    }

    /// The text behind an id.
    ///
    /// # Panics
    ///
    /// If the id comes from another trace that has more strings.
    #[must_use]
    pub fn text(&self, id: StrId) -> &str {
        &self.strings[id.index()]
    }

    /// The process called `name`, made if there is none.
    pub fn process(&mut self, name: &str) -> TrackId {
        self.find_or_make(None, name, TrackKind::Process)
    }

    /// The thread `name` of `process`, made if there is none.
    pub fn thread(&mut self, process: TrackId, name: &str) -> TrackId {
        self.find_or_make(Some(process), name, TrackKind::Thread)
    }

    /// The track of a component: `a.b.c` is the thread `c` of the process `a.b`; a name without a dot is a process.
    pub fn component(&mut self, path: &str) -> TrackId {
        match path.rsplit_once('.') {
            Some((process, thread)) => {
                let process = self.process(process);
                self.thread(process, thread)
            }
            None => self.process(path),
        }
    }

    /// The row `name` under `parent`, made if there is none.
    pub fn nested(&mut self, parent: TrackId, name: &str) -> TrackId {
        self.find_or_make(Some(parent), name, TrackKind::Nested)
    }

    /// The counter track `name` under `parent`, made if there is none.
    pub fn counter(&mut self, parent: TrackId, name: &str, unit: Unit) -> TrackId {
        self.find_or_make(Some(parent), name, TrackKind::Counter(unit))
    }

    fn find_or_make(&mut self, parent: Option<TrackId>, name: &str, kind: TrackKind) -> TrackId {
        let name = self.intern(name);
        let next = TrackId::new(self.tracks.len());
        let id = *self.track_ids.entry((parent, name, kind)).or_insert(next);
        if id == next {
            self.tracks.push(Track { parent, name, kind, overlap: Overlap::default() });
        }
        id
    }

    /// Says how overlapping slices of `track` are shown.
    ///
    /// # Panics
    ///
    /// If the id comes from another trace that has more tracks.
    pub fn set_overlap(&mut self, track: TrackId, overlap: Overlap) {
        self.tracks[track.index()].overlap = overlap;
    }

    /// The full name of a track: those of its parents and its own, joined by dots.
    #[must_use]
    pub fn track_path(&self, track: TrackId) -> String {
        let track = &self.tracks[track.index()];
        let name = self.text(track.name);
        track.parent.map_or_else(|| name.to_owned(), |parent| format!("{}.{name}", self.track_path(parent)))
    }

    /// The id of a source location; equal locations have equal ids.
    pub fn source(&mut self, location: SourceLocation) -> SourceId {
        let next = SourceId::new(self.sources.len());
        let id = *self.source_ids.entry(location).or_insert(next);
        if id == next {
            self.sources.push(location);
        }
        id
    }

    /// Records a slice and its arguments.
    ///
    /// # Panics
    ///
    /// If the slice would end past the end of time.
    pub fn slice(&mut self, slice: Slice, args: &[Arg]) -> SliceId {
        assert!(slice.start.checked_add(slice.duration).is_some(), "a slice ends past the end of time");
        let id = SliceId::new(self.slices.len());
        self.slices.push(slice);
        self.args.extend_from_slice(args);
        self.args_end.push(u32::try_from(self.args.len()).expect("a trace holds fewer than 2^32 arguments"));
        id
    }

    /// Draws an arrow from one slice to another, which should not start earlier.
    pub fn flow(&mut self, from: SliceId, to: SliceId) {
        self.flows.push((from, to));
    }

    /// Records that a counter track has `value` from `at` on.
    pub fn sample(&mut self, counter: TrackId, at: Picos, value: Sample) {
        self.samples.push((counter, at, value));
    }

    /// The slices, in the order of recording.
    pub fn slices(&self) -> impl ExactSizeIterator<Item = (SliceId, &Slice)> {
        self.slices.iter().enumerate().map(|(index, slice)| (SliceId::new(index), slice))
    }

    /// The arguments of a slice.
    ///
    /// # Panics
    ///
    /// If the id comes from another trace that has more slices.
    #[must_use]
    pub fn args(&self, slice: SliceId) -> &[Arg] {
        let index = slice.index();
        let start = if index == 0 { 0 } else { self.args_end[index - 1] as usize };
        &self.args[start..self.args_end[index] as usize]
    }

    /// The arrows, in the order of recording.
    #[must_use]
    pub fn flows(&self) -> &[(SliceId, SliceId)] {
        &self.flows
    }

    /// The source location behind an id.
    ///
    /// # Panics
    ///
    /// If the id comes from another trace that has more locations.
    #[must_use]
    pub fn source_location(&self, id: SourceId) -> SourceLocation {
        self.sources[id.index()]
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn components_form_a_tree_and_are_found_again() {
        let mut trace = Trace::new();
        let tensor = trace.component("chip0.core0.tensor");
        assert_eq!(trace.component("chip0.core0.tensor"), tensor);
        let core = trace.process("chip0.core0");
        assert_eq!(trace.thread(core, "tensor"), tensor);
        let unit = Unit::Named(trace.intern("GB/s"));
        let rate = trace.counter(core, "tensor", unit);
        assert_ne!(rate, tensor);
        let weights = trace.nested(tensor, "load_stationary");
        assert_eq!(trace.track_path(weights), "chip0.core0.tensor.load_stationary");
        let oven = trace.component("oven");
        assert_eq!(trace.track_path(oven), "oven");
    }

    #[test]
    fn slices_keep_their_arguments_and_lines() {
        let mut trace = Trace::new();
        let track = trace.component("bakery.oven");
        let (name, category, key) = (trace.intern("bake"), trace.intern("compute"), trace.intern("loaves"));
        let location = SourceLocation { file: trace.intern("bread.py"), function: None, line: 3 };
        let source = Some(trace.source(location));
        assert_eq!(Some(trace.source(location)), source);
        let slice = Slice { track, start: Picos(1), duration: Picos(2), name, category, source };
        let args = [Arg { key, value: Value::Int(12) }, Arg { key: category, value: Value::Float(0.5) }];
        let first = trace.slice(slice, &args);
        let second = trace.slice(slice, &[]);
        let third = trace.slice(slice, &args[..1]);
        trace.flow(first, third);
        assert_eq!(trace.args(first), args);
        assert_eq!(trace.args(second), []);
        assert_eq!(trace.args(third), &args[..1]);
        assert_eq!(trace.source_location(slice.source.expect("set above")), location);
        assert_eq!(trace.flows(), [(first, third)]);
        assert_eq!((trace.slices().len(), trace.text(name)), (3, "bake"));
    }
}
