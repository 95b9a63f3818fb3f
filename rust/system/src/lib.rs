//! The chip: where cores, DMA and memory meet, and where a Program is run.
//!
//! Values and time are separate: [`Interpreter`] computes the bytes in program order, [`timelines`] says when each
//! instruction ran. Left out: more than the two cores of a logical core, collectives, servers.

mod cores;
mod interpreter;
mod launch_dma;
mod options;
mod timeline;

pub use cores::Cores;
pub use interpreter::{Code, Interpreter, Interrupt, Progress, RunError};
pub use options::RunOptions;
pub use timeline::{EngineUse, Route, Timeline, TimelineError, timelines};
pub use trn3_sim::trace::perfetto;
