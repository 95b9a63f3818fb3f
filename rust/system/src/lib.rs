//! The chip: where cores, DMA and memory meet, and where a Program is run.
//!
//! Values and time are separate: [`Interpreter`] computes the bytes in program order, [`timeline`] says when each
//! instruction ran. Left out: more than one core, collectives, servers.

mod interpreter;
mod options;
mod timeline;

pub use interpreter::{Code, Interpreter, Interrupt, RunError};
pub use options::RunOptions;
pub use timeline::{EngineUse, Route, Timeline, TimelineError, timeline};
pub use trn3_sim::trace::perfetto;
