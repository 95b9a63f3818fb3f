//! A NeuronCore in time: engines with in-order queues, and the waits between them. It decides when, never what.
//!
//! Each engine issues its instructions in program order. An instruction issues when its engine is free and every
//! producer is done, plus the latency of the semaphore between the two engines. Transfers leave the core through
//! [`Mover`] and come back with the time they were done.
//!
//! Left out so far: the PE array's throttle, PSUM bank conflicts, the bus that VectorE and GpSimdE share, activation
//! table loads, instruction fetch.
//!
//! Invariants: the schedule depends on the Program and the hardware table alone; moments with several events are taken
//! in the order transfers first, then engines in the order of `trn3_isa::Engine::ALL`.

mod array;
mod core;
mod stream;

pub use crate::core::{Cause, ControlTime, InstructionTime, Mover, Schedule, ScheduleError, Ticket, schedule};
pub use stream::{CoreProgram, Instances};
