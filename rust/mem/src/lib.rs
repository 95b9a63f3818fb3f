//! SBUF, PSUM and HBM as bytes: tensors, the views that address them, and the host memory behind them.
//!
//! A [`View`] is plain data: which tensor, where it starts, and up to five strides and counts. Nothing here knows
//! time or engines. What is left out: indirection through registers, which the instruction that offers it will add.
//!
//! Invariants: a view never leaves its tensor; on chip, dimension 0 of every view is the partition dimension.

mod coverage;
mod error;
mod memory;
mod runs;
mod tensor;
mod tile;
mod view;

pub use coverage::Coverage;
pub use error::{Fault, Parts, Violation};
pub use memory::{Bytes, HostBytes, Memory, Slab};
pub use tensor::{Role, Space, TensorId, TensorInfo};
pub use tile::{Geometry, Tile, TileMut};
pub use view::{Dim, Dims, Index, Pattern, RANK_MAX, ScalarOffset, Shape, View};
