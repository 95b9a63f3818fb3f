//! A NeuronCore in time: engines with in-order queues, and the waits between them. It decides when, never what.
//!
//! Each engine issues its instructions in program order. An instruction issues when its engine is free, every producer
//! is done, plus the latency of the semaphore between the two engines, its function table is loaded and its ports admit
//! it. The array issues under the dI/dt throttle; streams that meet in PSUM or on a bus slow each other down. Transfers
//! leave the core through [`Mover`] and come back with the time they were done.
//!
//! Every picosecond of every engine is accounted for: streaming, waiting and for what, or idle at the end
//! ([`EngineTime`]).
//!
//! Left out so far: instruction fetch.
//!
//! Invariants: the schedule depends on the Program, the hardware table and the seed alone; moments with several events
//! are taken in the order transfers first, then the instruction that has waited longest, then engines in the order of
//! `trn3_isa::Engine::ALL`.

mod array;
mod core;
mod demand;
mod ledger;
mod ports;
mod stream;
mod throttle;

pub use crate::core::{After, ControlTime, InstructionTime, Mover, Schedule, ScheduleError, Ticket, schedule};
pub use ledger::{Cause, EngineTime, Wait};
pub use stream::{CoreProgram, Instances};
pub use throttle::ThrottleTime;
