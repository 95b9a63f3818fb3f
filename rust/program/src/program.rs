//! The finished Program.

use crate::builder::Fill;
use crate::dependencies::Edges;
use crate::liveness::{Lifetime, lifetimes};
use crate::loops::Loop;
use crate::spill::Spill;
use serde::{Deserialize, Serialize};
use trn3_isa::{Finding, Instruction, RecordOptions, Tables};
use trn3_mem::{Pattern, TensorId, TensorInfo};
use trn3_spec::{SpecError, Table, Target, Value};

/// A place in the user's sources.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub struct Line {
    /// Index into the Program's files.
    pub file: u32,
    /// Line number, from 1; 0 is unknown.
    pub line: u32,
}

/// Where a tensor was placed.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub struct Place {
    /// Byte within each partition (on chip) or in HBM.
    pub address: u64,
    /// Host slab that holds it; tensors whose lives do not meet may share one.
    pub slab: u32,
}

/// A deviation from the documents that did not stop the recording.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct StoredFinding {
    /// Id of the rule.
    pub rule: String,
    /// Instruction or method.
    pub instruction: String,
    /// Operand or argument.
    pub operand: String,
    /// What the operand is.
    pub value: String,
    /// What the rule allows.
    pub limit: String,
    /// What to do about it.
    pub fix: String,
    /// The whole message.
    pub message: String,
    /// Index into the Program's lines.
    pub line: u32,
}

impl From<&Finding> for StoredFinding {
    fn from(finding: &Finding) -> Self {
        let violation = &finding.violation;
        StoredFinding {
            rule: violation.rule.into(),
            instruction: violation.instruction.into(),
            operand: violation.operand.to_string(),
            value: violation.value.clone(),
            limit: violation.limit.clone(),
            fix: violation.fix.to_string(),
            message: violation.to_string(),
            line: finding.line,
        }
    }
}

/// Where bytes that nothing wrote may have come into an output.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub struct Taint {
    /// The tensor that was read before it was written.
    pub tensor: TensorId,
    /// The line that read it.
    pub line: u32,
    /// Whether what was read is still NaN in the output, if it came there: not after a comparison, or through integers.
    pub shows_as_nan: bool,
}

impl Taint {
    /// Both of two ways in which unwritten bytes may have come: the first is named, neither is forgotten.
    pub(crate) fn joined(one: Option<Taint>, other: Option<Taint>) -> Option<Taint> {
        match (one, other) {
            (Some(one), Some(other)) => Some(Taint { shows_as_nan: one.shows_as_nan && other.shows_as_nan, ..one }),
            (one, other) => one.or(other),
        }
    }
}

/// A recorded kernel: what runs, where its tensors are, what waits for what. Immutable.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Program {
    /// The kernel's name.
    pub kernel: String,
    /// The hardware table it was recorded for.
    pub target: String,
    /// Values that the user set in place of the table's, by key.
    pub overrides: Vec<(String, Value)>,
    /// Strictness and NKI version.
    pub options: RecordOptions,
    /// Whether Python read a device value while recording; such a Program holds for its inputs only.
    pub specialised: bool,
    /// All tensors, by id.
    pub tensors: Vec<TensorInfo>,
    /// Access patterns, by number.
    pub patterns: Vec<Pattern>,
    /// Instruction labels; number 0 is none.
    pub names: Vec<String>,
    /// Source files.
    pub files: Vec<String>,
    /// Source lines, by number.
    pub lines: Vec<Line>,
    /// The instructions, in program order.
    pub instructions: Vec<Instruction>,
    /// Tensors that the caller fills, in order.
    pub inputs: Vec<TensorId>,
    /// Tensors that the caller gets, in order.
    pub outputs: Vec<TensorId>,
    /// Bytes of constant tensors.
    pub constants: Vec<Vec<u8>>,
    /// What is written before an instruction runs: poison, and what an accumulation starts from.
    pub fills: Vec<Fill>,
    /// For each output: where unwritten bytes may have come in.
    pub taints: Vec<Option<Taint>>,
    /// Deviations.
    pub findings: Vec<StoredFinding>,
    /// Place of each tensor.
    pub places: Vec<Place>,
    /// Bytes of each host slab; slabs of inputs and outputs are the caller's.
    pub slabs: Vec<u64>,
    /// Producers of each instruction.
    pub edges: Edges,
    /// Dynamic loops, by number.
    pub loops: Vec<Loop>,
    /// Tensors that had no room in SBUF all the time.
    pub spills: Vec<Spill>,
    /// What the second core of a logical core runs.
    pub peer: Option<Box<Peer>>,
}

/// The second core of a logical core: its Program, and which tensors of the first core it shares.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Peer {
    /// What it runs.
    pub program: Program,
    /// Tensors in shared HBM: of the first core, of this one.
    pub shared: Vec<(TensorId, TensorId)>,
}

impl Program {
    /// The Programs of both cores, or the one.
    pub fn cores(&self) -> impl Iterator<Item = &Program> {
        std::iter::once(self).chain(self.peer.as_ref().map(|peer| &peer.program))
    }

    /// The hardware it was recorded for: a table of that name, with the Program's own values in place of the table's.
    ///
    /// # Errors
    /// The table has no such entry (any more), or the values contradict what else was set in it.
    pub fn hardware(&self, table: &Table) -> Result<Target, SpecError> {
        let overrides = self.overrides.iter().map(|(key, value)| (key.as_str(), value.clone()));
        Ok(Target::from_table(&table.with_overrides(overrides)?))
    }

    /// What instructions refer to by number.
    pub fn tables(&self) -> Tables<'_> {
        Tables { patterns: &self.patterns, tensors: &self.tensors }
    }

    /// Lifetimes of all tensors in program order; `None` for those that no instruction touches.
    pub fn lifetimes(&self) -> Vec<Option<Lifetime>> {
        lifetimes(self.tensors.len(), &self.instructions, &self.loops, &self.fills)
    }

    /// `file:line` of a line number.
    pub fn location(&self, line: u32) -> Option<(&str, u32)> {
        let line = self.lines.get(line as usize)?;
        let file = self.files.get(line.file as usize)?;
        Some((file, line.line))
    }

    /// Bytes of the arena and its tables for each instruction, on the average.
    pub fn bytes_per_instruction(&self) -> f64 {
        let edges = self.edges.bytes();
        let patterns = self.patterns.len() * size_of::<Pattern>();
        let instructions = self.instructions.len() * size_of::<Instruction>();
        (instructions + edges + patterns) as f64 / self.instructions.len().max(1) as f64
    }
}
