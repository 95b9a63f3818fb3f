//! Hardware as data.
//!
//! Every number of a hardware generation stands in one file, `data/<name>.toml`, with its unit, its status (`doc`,
//! `derived`, `measured`, `assumed`, `claim`), its source and what other sources say. [`Table`] is that file: look
//! entries up by dotted key, compare tables, replace values by name. [`Target`] is the same as typed plain fields,
//! built once, which the rest of the emulator reads.
//!
//! Left out: links, switches and servers (their tables belong to whole systems), number formats, and any behaviour.
//! The only arithmetic here is derivation, written beside the thing derived.
//!
//! Invariants: a table that exists is complete, its units fit its keys, and no two entries contradict each other;
//! nothing depends on a generation's name.
//!
//! ```
//! use trn3_spec::{Table, Target};
//!
//! let table = Table::load("trn3")?;
//! assert_eq!(table.entry("tensor.clock_hz")?.unit, "Hz");
//! let slower = table.with_override("tensor.clock_hz", 1.2e9)?;
//! let target = Target::from_table(&slower);
//! assert_eq!(target.core.tensor.clock_hz, 1_200_000_000);
//! # Ok::<(), trn3_spec::SpecError>(())
//! ```

mod checks;
mod chip;
mod derivations;
mod engines;
mod error;
mod fields;
mod file;
mod memories;
mod spelling;
mod table;
mod target;
mod time;
mod unit;
mod value;

pub use chip::{
    ChipSpec, DescriptorSpec, DmaEngineSpec, DmaSpec, FlopWeights, HbmDetailSpec, HbmSpec, HwdgeSpec, PacketSpec,
    PublishedChip, PublishedCore, PublishedSpec, SwdgeSpec, TransposeSpec,
};
pub use engines::{
    ClassTiming, CopyStream, FetchSpec, FillSpec, GpsimdDmaSpec, GpsimdSpec, GpsimdStream, KernelSpec,
    LoadStationarySpec, PairStream, PassesSpec, PerEngine, ScalarSpec, ScalarStream, SequencerSpec, SyncSpec,
    TableLoadSpec, TensorSpec, ThrottleSpec, TileIssueSpec, VectorSpec, VectorStream,
};
pub use error::SpecError;
pub use memories::{CapabilitySpec, MatmulLimits, PsumSpec, SbufSpec, SemaphoreSpec};
pub use table::{Conflict, Difference, Entry, Status, Table};
pub use target::{CoreSpec, Peaks, Target, TileSizes};
pub use time::{PICOSECONDS_PER_SECOND, edge_at_or_after, edge_ps};
pub use value::{Ratio, Value};
