//! The recorded form of an instruction: plain data of fixed size, so that a Program is an arena of them.

use crate::table::Opcode;
use serde::{Deserialize, Serialize};
use trn3_mem::{TensorId, View};

/// An engine's queue.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord, Serialize, Deserialize)]
#[repr(u8)]
pub enum Engine {
    /// TensorE, the 128x128 array.
    Tensor,
    /// VectorE.
    Vector,
    /// ScalarE.
    Scalar,
    /// GpSimdE.
    Gpsimd,
    /// SyncE, a sequencer without a data path.
    Sync,
}

impl Engine {
    /// Every engine.
    pub const ALL: [Engine; 5] = [Engine::Tensor, Engine::Vector, Engine::Scalar, Engine::Gpsimd, Engine::Sync];

    /// The name in the public reference.
    pub const fn name(self) -> &'static str {
        match self {
            Engine::Tensor => "tensor",
            Engine::Vector => "vector",
            Engine::Scalar => "scalar",
            Engine::Gpsimd => "gpsimd",
            Engine::Sync => "sync",
        }
    }

    /// The engine of that name.
    pub fn from_name(name: &str) -> Option<Engine> {
        Engine::ALL.into_iter().find(|engine| engine.name() == name)
    }
}

/// Number of an access pattern in the Program's table.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub struct PatternId(pub u32);

/// A tile as an instruction keeps it.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub struct Operand {
    /// The tensor, or [`TensorId::NONE`].
    pub tensor: TensorId,
    /// Dtype, strides and counts.
    pub pattern: PatternId,
    /// Number of the first element.
    pub offset: i64,
}

impl Operand {
    /// No operand in this slot.
    pub const NONE: Operand = Operand { tensor: TensorId::NONE, pattern: PatternId(u32::MAX), offset: 0 };

    /// Whether a tile is there.
    pub fn is_some(self) -> bool {
        self.tensor != TensorId::NONE
    }
}

/// Operand slots of an instruction.
pub const OPERANDS_MAX: usize = 5;

/// One recorded instruction.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub struct Instruction {
    /// Which one.
    pub opcode: Opcode,
    /// Whose queue it is in.
    pub engine: Engine,
    /// Slots of `operands` that are read, one bit each.
    pub reads: u8,
    /// Slots of `operands` that are written, one bit each.
    pub writes: u8,
    /// Options that the opcode defines.
    pub flags: u16,
    /// Slots of `operands` whose place is known only when the instruction runs (rows named by an index), one bit each.
    pub dynamic: u8,
    /// User's line, an index into the Program's line table.
    pub line: u32,
    /// Label, an index into the Program's name table; 0 is none.
    pub name: u32,
    /// Tiles.
    pub operands: [Operand; OPERANDS_MAX],
    /// Constants that the opcode defines.
    pub constants: [u32; 4],
}

const _: () = assert!(size_of::<Instruction>() <= 128, "decisions.md D25: at most 128 bytes an instruction");

impl Instruction {
    /// An instruction without operands.
    pub fn new(opcode: Opcode, engine: Engine) -> Instruction {
        Instruction {
            opcode,
            engine,
            reads: 0,
            writes: 0,
            flags: 0,
            dynamic: 0,
            line: 0,
            name: 0,
            operands: [Operand::NONE; OPERANDS_MAX],
            constants: [0; 4],
        }
    }

    /// Whether a slot is read.
    pub fn is_read(&self, slot: usize) -> bool {
        self.reads >> slot & 1 == 1
    }

    /// Whether a slot is written.
    pub fn is_written(&self, slot: usize) -> bool {
        self.writes >> slot & 1 == 1
    }

    /// Whether the place of a slot's operand is known only when the instruction runs.
    pub fn is_dynamic(&self, slot: usize) -> bool {
        self.dynamic >> slot & 1 == 1
    }

    /// The operands that are read.
    pub fn read_operands(&self) -> impl Iterator<Item = &Operand> {
        self.operands.iter().enumerate().filter(|(slot, _)| self.reads >> slot & 1 == 1).map(|(_, operand)| operand)
    }

    /// The operands that are written.
    pub fn written_operands(&self) -> impl Iterator<Item = &Operand> {
        self.operands.iter().enumerate().filter(|(slot, _)| self.writes >> slot & 1 == 1).map(|(_, operand)| operand)
    }
}

/// Interns the patterns of views.
pub trait Intern {
    /// The number of a view's pattern.
    fn intern(&mut self, view: &View) -> PatternId;
}
