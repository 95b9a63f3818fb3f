//! What can end a simulation from outside: its limits.

use crate::time::Picos;

/// A run reached a limit before its events ran out.
///
/// The queue is left as it was before the event that would have crossed the limit, so that the caller can still say
/// which component waits for what, or raise the limit and go on.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum LimitError {
    /// As many events have run as the limit allows.
    #[error(
        "simulation: events: {events_max} have run by {now}, limit {events_max}; raise the limit or look for a loop [sim.events_max]"
    )]
    Events {
        /// The limit, and the number of events that have run.
        events_max: u64,
        /// Time of the last event that ran.
        now: Picos,
    },
    /// The next event lies past the last allowed moment.
    #[error(
        "simulation: time: next event is at {next}, limit {time_max}; raise the limit or look for a loop [sim.time_max]"
    )]
    Time {
        /// The last moment at which an event may run.
        time_max: Picos,
        /// Time of the event that was not run.
        next: Picos,
    },
}
