//! The DMA engines of cores and the HBM that they share, in time.
//!
//! A DMA instruction becomes a [`Transfer`]: how many bytes, in what pieces, between which kinds of memory, on which
//! queue. [`DmaEngines`] says when each of a core's engines serves it and when its last semaphore write leaves. The
//! values are moved by whoever owns the memories; this crate does not know who asked.
//!
//! - [`spec`]: the constants, as plain data.
//! - [`transfer`]: what is to be moved.
//! - [`plan`]: how it is cut into descriptors, and how long each takes.
//! - [`engine`]: one engine: its queues, their arbitration, what it serves now.
//! - [`stack`]: a stack of HBM, which engines share.
//! - [`engines`]: the engines of one core or several, and their events.
//!
//! Model (timing.md section 8): a descriptor is one contiguous piece on both sides, at most 4096 B; engine *j* serves
//! partitions 8*j* to 8*j* + 7; every engine sends a semaphore write, also one that moved nothing; a queue of an engine
//! is first in, first out; ready queues take turns at packet boundaries, or go by class where the table says so; engines
//! that ask a stack of HBM for more than it has share it max-min fairly (section 9).
//!
//! Left out: channels and banks of HBM, descriptor rings in memory, and the sequencer that a hardware DGE keeps busy (see [`DmaSpec::issue_interval`]).
//!
//! [`Transfer`]: transfer::Transfer
//! [`DmaEngines`]: engines::DmaEngines
//! [`DmaSpec::issue_interval`]: spec::DmaSpec::issue_interval

pub mod engine;
pub mod engines;
pub mod error;
pub mod plan;
pub mod spec;
pub mod stack;
pub mod transfer;

pub use engines::{Completion, DmaCounters, DmaEngines, EngineWork, TransferId};
pub use error::DmaError;
pub use spec::{Arbitration, DmaSpec};
pub use stack::{HbmTraffic, StackSpec};
pub use transfer::{Mode, Operation, Route, Shape, Side, Transfer};
