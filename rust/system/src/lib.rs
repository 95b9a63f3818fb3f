//! The chip: where cores, DMA and memory meet, and where a Program is run.
//!
//! Values and time are separate: [`Interpreter`] computes the bytes in program order, [`timelines`] says when each
//! instruction ran. Left out: more than the two cores of a logical core, collectives, servers.

mod blocks;
mod cores;
mod critical;
mod interpreter;
mod launch_dma;
mod lines;
mod occupancy;
mod options;
mod roofline;
mod spills;
mod timeline;
mod tracks;
mod transfers;

pub use blocks::{Block, Row};
pub use cores::Cores;
pub use critical::{CriticalPath, Segment, Step};
pub use interpreter::{Code, Interpreter, Interrupt, Progress, RunError};
pub use lines::{LineUse, engine_names};
pub use occupancy::{Curve, Occupancy, Resident};
pub use options::RunOptions;
pub use roofline::{FormatWork, Roofline};
pub use spills::SpillUse;
pub use timeline::{EngineUse, Route, Timeline, TimelineError, timelines};
pub use transfers::{HbmBytes, SizeClass, Sizes};
pub use trn3_sim::trace::perfetto;
