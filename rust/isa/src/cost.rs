//! What an instruction asks of the hardware's time. No data.

use trn3_mem::Space;
use trn3_num::functions::Function;
use trn3_spec::FlopWeights;

/// Cycles of the executing engine.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Stream {
    /// Cycles in which operands stream.
    pub stream: u64,
    /// From issue to completion, on top of `stream`.
    pub latency: u64,
    /// Before the next instruction may issue, on top of `stream`.
    pub overhead: u64,
}

/// A matrix product: LoadStationary and MultiplyMoving, `halves` times.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Multiply {
    /// Cycles of one LoadStationary.
    pub load: u64,
    /// From its issue to the stationary being in place.
    pub load_latency: u64,
    /// Cycles of one MultiplyMoving.
    pub stream: u64,
    /// From its issue to the result, on top of `stream`.
    pub latency: u64,
    /// Before the next MultiplyMoving, on top of `stream`.
    pub overhead: u64,
    /// Pairs of LoadStationary and MultiplyMoving (FP32 has two).
    pub halves: u32,
    /// First row and rows of the array tile, first column and columns.
    pub tile: [u16; 4],
    /// Whether the second server of the array may run it (a transpose on a full tile).
    pub transposes: bool,
}

/// One side of a transfer.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Side {
    /// The memory; of several sources HBM, if one of them is there.
    pub space: Space,
    /// Bytes in all; of several sources together.
    pub bytes: u64,
    /// Bytes of the largest piece that is contiguous within the share of a partition; of several sources together.
    pub piece_bytes: u64,
}

/// What happens to bytes on their way.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Movement {
    /// Nothing, or a cast.
    Copy,
    /// A transpose of a shape that suits the hardware.
    Transpose,
    /// A transpose of any other shape.
    TransposeUnaligned,
    /// Several sources are added.
    Sum,
    /// Several sources are added and kept for a later transfer; the destination is where the sum will go.
    PartialSum,
    /// The source is added to what SBUF holds.
    Accumulate,
}

/// A transfer.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Transfer {
    /// What happens on the way.
    pub movement: Movement,
    /// Where from.
    pub from: Side,
    /// Where to.
    pub to: Side,
    /// Partitions of the on-chip side; 0 when both sides are in HBM.
    pub partitions: u32,
    /// First of them.
    pub partition_start: u32,
    /// Bytes that come from HBM: all of the sources' bytes, or those of some of them.
    pub hbm_read_bytes: u64,
    /// Bytes of the largest piece that is contiguous in HBM.
    pub hbm_piece_bytes: u64,
    /// Who makes the descriptors.
    pub generation: Generation,
    /// Service class, 0 most urgent.
    pub priority: u8,
}

/// Who makes a transfer's descriptors.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Generation {
    /// The DGE block driven by ScalarE's or SyncE's sequencer.
    Hardware,
    /// GpSimdE.
    Software,
    /// The host, at load time.
    Static,
}

/// What a sequencer does by itself.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Control {
    /// Moves a register.
    Move,
    /// Reads or writes an element of SBUF.
    AccessSbuf,
    /// Reads or writes an element of HBM.
    AccessHbm,
    /// Compares and branches.
    Branch,
    /// Goes round a loop.
    LoopBack,
}

/// What the two cores of a logical core do together once both have come.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Meeting {
    /// Go on.
    Barrier,
    /// Send each other a tile through the DMA engines.
    Exchange(Transfer),
    /// Send each other a tile through the DMA engines inside GpSimdE.
    Direct {
        /// Bytes of the tile.
        bytes: u64,
    },
}

/// What an instruction costs.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Cost {
    /// Vector, Scalar and GpSimd engines.
    Stream(Stream),
    /// The same on ScalarE with a function, whose table must be loaded.
    Activation(Stream, Function),
    /// TensorE.
    Multiply(Multiply),
    /// DMA.
    Transfer(Transfer),
    /// A sequencer.
    Control(Control),
    /// Both cores of a logical core.
    Meeting(Meeting),
}

/// Useful work of an instruction, for utilisation figures.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Work {
    /// Floating-point operations of the array: two for each product.
    pub flops: u64,
    /// What they count for against BF16.
    pub weight: Weight,
}

/// Kind of operations, by what the public profiler counts them for.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Default)]
pub enum Weight {
    /// BF16, FP16, TF32.
    #[default]
    Bf16,
    /// FP32.
    Fp32,
    /// FP8.
    Fp8,
    /// Microscaled.
    Mx,
}

impl Work {
    /// The operations in BF16 equivalents.
    pub fn flops_bf16(&self, weights: &FlopWeights) -> f64 {
        let weight = match self.weight {
            Weight::Bf16 => weights.bf16_ratio,
            Weight::Fp32 => weights.fp32_ratio,
            Weight::Fp8 => weights.fp8_ratio,
            Weight::Mx => weights.mx_ratio.unwrap_or(weights.fp8_ratio),
        };
        self.flops as f64 * weight
    }
}
