//! Time, events, seeds, counters and traces: the parts every simulation needs.
//!
//! This crate knows no hardware; it would serve a model of a bakery as well. What it fixes is determinism:
//!
//! - [`time`]: integer picoseconds and clocks whose edges are computed from their number, never by adding rounded
//!   periods.
//! - [`queue`]: a queue of events; same-time events run in the order they were scheduled, and every run is limited.
//! - [`seed`]: one stream of random numbers a component, derived from the seed and the component's name.
//! - [`counters`]: named counts in the order they were first named.
//! - [`trace`]: tracks, slices, flows and counter samples in memory, and a writer for Perfetto's protobuf format.
//!
//! Deliberately absent: threads, wall clocks, environment variables, logging, and any iteration over a hash map.
//! Components (spec + state + step) are plain structures of the crates above; there is no component trait here,
//! because nothing would call it.

pub mod counters;
pub mod error;
pub mod queue;
pub mod seed;
pub mod time;
pub mod trace;

pub use counters::{CounterId, Counters};
pub use error::LimitError;
pub use queue::{EventQueue, Limits};
pub use seed::{Seed, Stream};
pub use time::{Clock, Picos};
pub use trace::Trace;
