//! The table of instructions. One line registers an instruction; everything else about it is in its own file.

use crate::arguments::{Arguments, Parameter};
use crate::context::Context;
use crate::cost::{Cost, Work};
use crate::instruction::{Engine, Instruction};
use crate::machine::{Machine, Tables};
use crate::rules::Rule;
use serde::{Deserialize, Serialize};
use trn3_mem::Violation;
use trn3_spec::Target;

/// How exact an instruction's values are.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Exactness {
    /// A public rule defines every bit.
    BitExact,
    /// The public documents leave something open; the definition says what we chose.
    Modelled,
}

/// What carries an instruction out.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Kind {
    /// The data path of the engine in whose queue it is.
    Compute,
    /// The DMA engines; the queue's sequencer only triggers it.
    Transfer,
    /// The sequencers, each with its own copy of a register.
    Register,
    /// The sequencers, which go round a loop.
    Loop,
    /// Both cores of a logical core, which wait for each other.
    Barrier,
    /// Both cores of a logical core, which exchange data.
    Exchange,
}

/// Rows of an operand that an instruction touches.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Rows {
    /// Every one.
    All,
    /// The first `count` of each `of`.
    First {
        /// How many.
        count: u32,
        /// Of how many.
        of: u32,
    },
}

impl Rows {
    /// Whether row `row` is touched.
    pub fn contains(self, row: u32) -> bool {
        match self {
            Rows::All => true,
            Rows::First { count, of } => row % of < count,
        }
    }

    /// The rows of a scale tile that belong to `partitions` partitions of data: one for each group of eight, in the
    /// first rows of the data's quadrants.
    pub(crate) fn of_scales(partitions: u32) -> Rows {
        if partitions <= 32 {
            Rows::First { count: partitions.div_ceil(8), of: u32::MAX }
        } else {
            Rows::First { count: 4, of: 32 }
        }
    }
}

/// An instruction: what it takes, what it checks, what it does and what it costs.
pub struct Definition {
    /// Name in `nki.isa`.
    pub name: &'static str,
    /// Summary, formula and timing, for documentation.
    pub doc: &'static str,
    /// Public document that describes it.
    pub source: &'static str,
    /// What carries it out.
    pub kind: Kind,
    /// Engines that can run it; the first is the default.
    pub engines: &'static [Engine],
    /// Parameters in their documented order.
    pub parameters: &'static [Parameter],
    /// Rules of its own.
    pub rules: &'static [Rule],
    /// How exact its values are.
    pub exactness: Exactness,
    /// Checks the arguments and makes the instruction.
    pub build: fn(&Arguments<'_>, &mut Context<'_>) -> Result<Instruction, Violation>,
    /// Computes the values.
    pub execute: fn(&Instruction, &mut Machine<'_>) -> Result<(), Violation>,
    /// Whether a NaN that it reads may leave no NaN in what it writes (a comparison, a selection).
    pub hides_nan: fn(&Instruction) -> bool,
    /// Says which rows (partitions) of a slot's operand it touches.
    pub rows: fn(&Instruction, &Tables<'_>, usize) -> Rows,
    /// Says what it costs.
    pub cost: fn(&Instruction, &Tables<'_>, &Target) -> Cost,
    /// Says how much useful work it does.
    pub work: fn(&Instruction, &Tables<'_>) -> Work,
}

macro_rules! instructions {
    ($($variant:ident = $($path:ident)::+,)*) => {
        /// Every instruction.
        #[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord, Serialize, Deserialize)]
        #[repr(u8)]
        #[allow(missing_docs)]
        pub enum Opcode { $($variant,)* }

        impl Opcode {
            /// Every instruction, in the order of its discriminant.
            pub const ALL: &'static [Opcode] = &[$(Opcode::$variant,)*];

            /// The table's line.
            pub fn definition(self) -> &'static Definition {
                const DEFINITIONS: &[&Definition] = &[$(&$($path)::+::DEFINITION,)*];
                DEFINITIONS[self as usize]
            }
        }
    };
}

instructions! {
    NcMatmul = crate::tensor::nc_matmul,
    NcMatmulMx = crate::tensor::nc_matmul_mx,
    NcTranspose = crate::tensor::nc_transpose,
    Activation = crate::scalar::activation,
    ActivationReduce = crate::scalar::activation_reduce,
    TensorTensor = crate::vector::tensor_tensor,
    TensorScalar = crate::vector::tensor_scalar,
    TensorCopy = crate::vector::tensor_copy,
    TensorReduce = crate::vector::tensor_reduce,
    Reciprocal = crate::vector::reciprocal,
    ScalarTensorTensor = crate::vector::scalar_tensor_tensor,
    TensorCopyPredicated = crate::vector::tensor_copy_predicated,
    TensorTensorScan = crate::vector::tensor_tensor_scan,
    TensorScalarReduce = crate::vector::tensor_scalar_reduce,
    TensorScalarCumulative = crate::vector::tensor_scalar_cumulative,
    RangeSelect = crate::vector::range_select,
    SelectReduce = crate::vector::select_reduce,
    Exponential = crate::vector::exponential,
    BnStats = crate::vector::bn_stats,
    BnAggr = crate::vector::bn_aggr,
    Max8 = crate::vector::max8,
    NcFindIndex8 = crate::vector::nc_find_index8,
    NcMatchReplace8 = crate::vector::nc_match_replace8,
    NcStreamShuffle = crate::vector::nc_stream_shuffle,
    Memset = crate::vector::memset,
    QuantizeMx = crate::vector::quantize_mx,
    Iota = crate::gpsimd::iota,
    AffineSelect = crate::gpsimd::affine_select,
    NcNGather = crate::gpsimd::nc_n_gather,
    LocalGather = crate::gpsimd::local_gather,
    TensorPartitionReduce = crate::gpsimd::tensor_partition_reduce,
    NonzeroWithCount = crate::gpsimd::nonzero_with_count,
    SequenceBounds = crate::gpsimd::sequence_bounds,
    DmaCopy = crate::dma::dma_copy,
    DmaTranspose = crate::dma::dma_transpose,
    DmaCompute = crate::dma::dma_compute,
    CoreBarrier = crate::cores::core_barrier,
    Sendrecv = crate::cores::sendrecv,
    RegisterMove = crate::control::register_move,
    RegisterLoad = crate::control::register_load,
    RegisterStore = crate::control::register_store,
    LoopBegin = crate::control::loops::begin,
    LoopEnd = crate::control::loops::end,
}

impl Opcode {
    /// Whether the DMA engines carry it out.
    pub fn is_transfer(self) -> bool {
        self.definition().kind == Kind::Transfer
    }

    /// Whether both cores of a logical core come together for it.
    pub fn is_meeting(self) -> bool {
        matches!(self.definition().kind, Kind::Barrier | Kind::Exchange)
    }

    /// Whether the sequencers carry it out by themselves.
    pub fn is_control(self) -> bool {
        matches!(self.definition().kind, Kind::Register | Kind::Loop)
    }

    /// The instruction of that name.
    pub fn from_name(name: &str) -> Option<Opcode> {
        Opcode::ALL.iter().copied().find(|opcode| opcode.definition().name == name)
    }

    /// The instruction with that discriminant.
    pub fn from_code(code: u8) -> Option<Opcode> {
        Opcode::ALL.get(usize::from(code)).copied()
    }
}

/// Every row of every operand.
pub fn every_row(_: &Instruction, _: &Tables<'_>, _: usize) -> Rows {
    Rows::All
}

/// Every NaN that it reads is a NaN in what it writes.
pub fn keeps_nan(_: &Instruction) -> bool {
    false
}

/// No useful work for the array.
pub fn no_work(_: &Instruction, _: &Tables<'_>) -> Work {
    Work::default()
}
