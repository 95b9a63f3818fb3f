//! Recorded Programs: built one instruction at a time, checked, placed in SBUF and PSUM, ordered, stored.
//!
//! A [`Builder`] takes instructions and knows, byte by byte, what has been written by whom. [`Builder::finish`] gives
//! an immutable [`Program`]: an arena of instructions with their producers, tensors with addresses, and the findings. What
//! does not fit into SBUF waits in HBM ([`Spill`]).
//!
//! Invariants: values follow program order; an instruction's producers are all earlier in it; an address is used again
//! only when the memory has none that was never used or was freed earlier.

mod area;
mod builder;
mod dependencies;
mod error;
mod file;
mod liveness;
mod loops;
mod placement;
mod program;
mod spill;

pub use builder::{Builder, Fill, FillValue, PairError, TensorRequest};
pub use dependencies::Edges;
pub use error::FileError;
pub use liveness::Lifetime;
pub use loops::{Bound, ExpandError, INSTANCES_MAX, Loop, LoopKind, Path, expand, turns};
pub use program::{Line, Peer, Place, Program, StoredFinding, Taint};
pub use spill::Spill;
