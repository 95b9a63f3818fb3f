//! The instructions, one file each, and the arithmetic of the systolic array.
//!
//! A file under `tensor/`, `vector/`, `scalar/`, `gpsimd/` or `dma/` holds one instruction: its documentation, its
//! parameters, its rules, its semantics and its cost. Semantics know no time; costs know no data. [`Opcode`] is the
//! table of all of them.

pub mod array;

mod accumulator;
mod arguments;
mod context;
mod control;
mod cores;
mod cost;
mod dma;
mod dynamic;
mod gpsimd;
mod instruction;
mod machine;
mod operator;
mod recurrence;
mod rules;
mod scalar;
mod simd;
mod table;
mod tensor;
mod vector;

pub use crate::dma::issue::{generation_of, skips};
pub use accumulator::Accumulators;
pub use arguments::{Argument, Arguments, Parameter, Register, Use};
pub use context::{Context, Finding, RecordOptions, Strictness, Uninitialized};
pub use control::loops::loop_mark;
pub use control::{RegisterUse, registers_of, sequencers_of, set_sequencers};
pub use cores::exchange_of;
pub use cost::{Control, Cost, Generation, Meeting, Movement, Multiply, Side, Stream, Transfer, Weight, Work};
pub use dynamic::resolve;
pub use instruction::{Engine, Instruction, Intern, OPERANDS_MAX, Operand, PatternId};
pub use machine::{Machine, Registers, Scratch, Tables, ValueOptions};
pub use operator::Operator;
pub use rules::{Rule, SHARED as SHARED_RULES};
pub use scalar::applied::{Added, Applied};
pub use scalar::function_sets::{FunctionSet, FunctionSets};
pub use table::{Definition, Exactness, Kind, Opcode, Rows};
pub use tensor::accumulation::{Accumulate, accumulate_of, set_accumulate};
