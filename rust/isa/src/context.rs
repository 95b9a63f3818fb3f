//! What an instruction asks while it is being recorded, and the checks that all of them share.

use crate::accumulator::ReduceCommand;
use crate::arguments::{Argument, Arguments};
use crate::instruction::{Engine, Instruction, Intern, Operand};
use crate::operator::{Class, Operator};
use crate::rules::{self, Rule};
use serde::{Deserialize, Serialize};
use trn3_mem::{Fault, Space, View, Violation};
use trn3_num::Dtype;
use trn3_spec::Target;

/// What stops a run.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
pub enum Strictness {
    /// Runs what the public simulator runs and reports the rest.
    #[default]
    Lenient,
    /// Every stated rule is an error.
    Documented,
    /// Also what only the device or its compiler would refuse.
    Hardware,
}

impl Strictness {
    /// The strictness of that name.
    pub fn from_name(name: &str) -> Option<Strictness> {
        match name {
            "lenient" => Some(Strictness::Lenient),
            "documented" => Some(Strictness::Documented),
            "hardware" => Some(Strictness::Hardware),
            _ => None,
        }
    }

    /// Its name.
    pub const fn name(self) -> &'static str {
        match self {
            Strictness::Lenient => "lenient",
            Strictness::Documented => "documented",
            Strictness::Hardware => "hardware",
        }
    }
}

/// What memory that nothing has written reads as.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub enum Uninitialized {
    /// NaN; 0 for integers.
    Poison,
    /// NaN; 4 for integers, as AWS's simulator has it.
    Simulator,
    /// Reading it is an error.
    Stop,
}

impl Uninitialized {
    /// The choice of that name.
    pub fn from_name(name: &str) -> Option<Uninitialized> {
        match name {
            "poison" => Some(Uninitialized::Poison),
            "simulator" => Some(Uninitialized::Simulator),
            "stop" => Some(Uninitialized::Stop),
            _ => None,
        }
    }

    /// What integers read as.
    pub const fn integer(self) -> u32 {
        match self {
            Uninitialized::Simulator => 4,
            Uninitialized::Poison | Uninitialized::Stop => 0,
        }
    }
}

/// Options that change what is recorded.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub struct RecordOptions {
    /// What stops the recording.
    pub checks: Strictness,
    /// NKI version, minor number: 6 is 0.6.
    pub nki_version: u8,
    /// What unwritten memory reads as.
    pub uninitialized: Uninitialized,
    /// Cores of the launch, 1 or 2.
    pub cores: u8,
    /// Whether what does not fit into SBUF waits in HBM; else it is an error.
    pub spills: bool,
}

impl Default for RecordOptions {
    fn default() -> Self {
        RecordOptions {
            checks: Strictness::Lenient,
            nki_version: 6,
            uninitialized: Uninitialized::Poison,
            cores: 1,
            spills: true,
        }
    }
}

/// A deviation from the documents that did not stop the run.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Finding {
    /// What was broken.
    pub violation: Violation,
    /// User's line, an index into the Program's line table.
    pub line: u32,
}

/// The recorder's side of an instruction's checks.
pub struct Context<'a> {
    /// The hardware.
    pub target: &'a Target,
    /// Strictness and version.
    pub options: RecordOptions,
    /// Where patterns go.
    pub patterns: &'a mut dyn Intern,
    /// Where deviations go.
    pub findings: &'a mut Vec<Finding>,
    /// Instructions to be recorded before the one that is made, if it needs several.
    pub before: &'a mut Vec<Instruction>,
    /// User's line.
    pub line: u32,
}

/// SBUF only.
pub const SBUF: &[Space] = &[Space::Sbuf];
/// PSUM only.
pub const PSUM: &[Space] = &[Space::Psum];
/// Both on-chip memories.
pub const ON_CHIP: &[Space] = &[Space::Sbuf, Space::Psum];

/// A broken rule of the table.
pub fn broken(rule: &Rule, operand: &'static str, value: impl Into<String>, limit: impl Into<String>) -> Violation {
    Violation::new(rule.id, operand, value, limit, rule.fix)
}

impl Context<'_> {
    /// Reports a deviation: a finding below `level`, an error from there on.
    ///
    /// # Errors
    /// The strictness is at least `level`.
    pub fn deviation(&mut self, level: Strictness, violation: Violation) -> Result<(), Violation> {
        if self.options.checks >= level {
            return Err(violation);
        }
        self.findings.push(Finding { violation, line: self.line });
        Ok(())
    }

    /// Puts a view into an operand slot.
    pub fn operand(&mut self, view: &View) -> Operand {
        Operand { tensor: view.tensor, pattern: self.patterns.intern(view), offset: view.offset }
    }

    /// Puts a view into a slot that is read.
    pub fn reads(&mut self, instruction: &mut Instruction, slot: usize, view: &View) {
        instruction.operands[slot] = self.operand(view);
        instruction.reads |= 1 << slot;
        self.note_dynamic(instruction, slot, view);
    }

    /// A place that a register moves is known only when the instruction runs.
    fn note_dynamic(&self, instruction: &mut Instruction, slot: usize, view: &View) {
        if view.scalar.is_some() {
            instruction.dynamic |= 1 << slot;
        }
    }

    /// Puts a view into a slot that is written.
    pub fn writes(&mut self, instruction: &mut Instruction, slot: usize, view: &View) {
        instruction.operands[slot] = self.operand(view);
        instruction.writes |= 1 << slot;
        self.note_dynamic(instruction, slot, view);
    }

    /// The refusal of what the core lacks: of an operand's value, or without one of the whole instruction. The rule says
    /// from which generation on it is there.
    pub fn lacking(&self, rule: &Rule, operand: &'static str, value: Option<String>) -> Violation {
        let lacks = format!("{} has none", self.target.name);
        let (value, limit) = match value {
            Some(value) => (value, format!("{lacks}: {}", rule.text)),
            None => (lacks, rule.text.into()),
        };
        broken(rule, operand, value, limit).of(Fault::Unsupported)
    }

    /// Checks an on-chip operand: memory, partitions, dimensions.
    ///
    /// # Errors
    /// A broken rule of `operand.*` or `partition.*`.
    pub fn check_tile(&mut self, view: &View, name: &'static str, spaces: &[Space]) -> Result<(), Violation> {
        if view.index.is_some() {
            return Err(broken(&rules::INDIRECT, name, "is indirect", "must be static"));
        }
        if !spaces.contains(&view.space) {
            let allowed = spaces.iter().map(|space| space.name()).collect::<Vec<_>>().join(" or ");
            let value = format!("is in {}", view.space.name());
            return Err(broken(&rules::OPERAND_SPACE, name, value, format!("must be in {allowed}")));
        }
        let partitions = view.partitions();
        let limit = self.target.core.sbuf.partitions;
        if partitions > limit {
            let value = format!("has {partitions} partitions");
            return Err(broken(&rules::PARTITIONS_MAX, name, value, format!("limit {limit}")));
        }
        let free_dims = view.merged().len();
        if view.dims.len() > 5 || free_dims > 5 {
            let value = format!("has {} free dimensions", view.dims.len() - 1);
            return Err(broken(&rules::FREE_DIMS_MAX, name, value, "limit 4"));
        }
        let core = &self.target.core;
        let limit = if view.space == Space::Psum { core.psum.partition_bytes() } else { core.sbuf.partition_bytes };
        if view.free_size() > limit {
            let value = format!("has {} elements a partition", view.free_size());
            return Err(broken(&rules::FREE_SIZE_MAX, name, value, format!("limit {limit} in {}", view.space.name())));
        }
        let start = view.partition_start();
        let quadrant = core.sbuf.quadrant_partitions;
        let allowed = if partitions <= quadrant {
            start.is_multiple_of(quadrant)
        } else if partitions <= 2 * quadrant {
            start.is_multiple_of(2 * quadrant)
        } else {
            start == 0
        };
        if !allowed {
            let value = format!("{partitions} partitions start at {start}");
            let violation = broken(&rules::PARTITION_START, name, value, rules::PARTITION_START.text);
            self.deviation(Strictness::Documented, violation)?;
        }
        Ok(())
    }

    /// Checks that two streamed operands have the same partitions and elements.
    ///
    /// # Errors
    /// `operand.shape_match`.
    pub fn check_same_shape(
        &self,
        view: &View,
        name: &'static str,
        other: &View,
        other_name: &str,
    ) -> Result<(), Violation> {
        if view.partitions() == other.partitions() && view.free_size() == other.free_size() {
            return Ok(());
        }
        Err(broken(
            &rules::SHAPE_MATCH,
            name,
            format!("has shape {:?}", view.shape().as_slice()),
            format!("{other_name} has {:?}", other.shape().as_slice()),
        ))
    }

    /// Checks that an operand's dtype is no packed type.
    ///
    /// # Errors
    /// `operand.dtype`.
    pub fn check_unpacked(&self, view: &View, name: &'static str) -> Result<(), Violation> {
        if view.dtype.is_packed() {
            let value = format!("is {}", view.dtype.name());
            return Err(broken(
                &rules::OPERAND_DTYPE,
                name,
                value,
                "packed types go to nc_matmul_mx and dma_copy only",
            ));
        }
        Ok(())
    }

    /// A constant or a `(P, 1)` tile: puts the tile into `slot`, or the constant's FP32 bits into `constants[at]`.
    ///
    /// # Errors
    /// Neither, or a tile of another shape.
    pub fn vector_operand(
        &mut self,
        instruction: &mut Instruction,
        arguments: &Arguments<'_>,
        name: &'static str,
        slot: usize,
        at: usize,
        partitions: u32,
    ) -> Result<(), Violation> {
        match arguments.get(name) {
            Argument::View(view) => {
                self.check_vector(view, name, partitions)?;
                self.reads(instruction, slot, view);
            }
            _ => instruction.constants[at] = (arguments.number(name)? as f32).to_bits(),
        }
        Ok(())
    }

    /// [`Context::vector_operand`] whose tile must be FP32.
    ///
    /// # Errors
    /// As [`Context::vector_operand`]; also `operand.dtype`.
    pub fn fp32_operand(
        &mut self,
        instruction: &mut Instruction,
        arguments: &Arguments<'_>,
        (name, slot, at): (&'static str, usize, usize),
        partitions: u32,
    ) -> Result<(), Violation> {
        if let Argument::View(view) = arguments.get(name) {
            self.check_dtype(view, name, &[Dtype::Float32])?;
        }
        self.vector_operand(instruction, arguments, name, slot, at, partitions)
    }

    /// Checks that an operand's dtype is one of `allowed`.
    ///
    /// # Errors
    /// `operand.dtype`.
    pub fn check_dtype(&self, view: &View, name: &'static str, allowed: &[Dtype]) -> Result<(), Violation> {
        if allowed.contains(&view.dtype) {
            return Ok(());
        }
        let names = allowed.iter().map(|dtype| dtype.name()).collect::<Vec<_>>().join(", ");
        let limit = if allowed.len() == 1 { format!("must be {names}") } else { format!("must be one of {names}") };
        Err(broken(&rules::OPERAND_DTYPE, name, format!("is {}", view.dtype.name()), limit))
    }

    /// Notes that an instruction reads out accumulators that it leaves alone, where that leaves them undefined.
    ///
    /// # Errors
    /// The strictness is at least `documented`.
    pub(crate) fn check_idle_result(
        &mut self,
        command: ReduceCommand,
        arguments: &Arguments<'_>,
    ) -> Result<(), Violation> {
        if command != ReduceCommand::Idle || *arguments.get("reduce_res") == Argument::None {
            return Ok(());
        }
        let rule = &rules::IDLE_RESULT;
        self.deviation(Strictness::Documented, broken(rule, "reduce_res", "is given", "reduce_cmd is idle"))
    }

    /// The ALU operator that an argument names.
    ///
    /// # Errors
    /// Not one of the operators, or one that the core does not have.
    pub fn operator(&mut self, arguments: &Arguments<'_>, name: &'static str) -> Result<Option<Operator>, Violation> {
        let Some(given) = arguments.operator_or_none(name)? else { return Ok(None) };
        let operator = Operator::from_name(given).ok_or_else(|| {
            let known = Operator::ALL.iter().filter(|op| op.is_on_hardware());
            let known = known.map(|op| op.name()).collect::<Vec<_>>().join(", ");
            broken(&rules::OPERATOR, name, format!("is {given}"), format!("must be one of {known}"))
        })?;
        if operator.is_extended() && !self.target.core.capability.vector_extended_operators {
            return Err(self.lacking(&rules::OPERATOR_GENERATION, name, Some(format!("is {given}"))));
        }
        if !operator.is_on_hardware() {
            let violation = broken(&rules::SIMULATOR_ONLY, name, format!("is {given}"), rules::SIMULATOR_ONLY.text);
            self.deviation(Strictness::Hardware, violation)?;
        }
        Ok(Some(operator))
    }

    /// The arithmetic operator that an argument names.
    ///
    /// # Errors
    /// `rule`, if there is none or it works on bits.
    pub fn arithmetic(
        &mut self,
        arguments: &Arguments<'_>,
        name: &'static str,
        rule: &Rule,
    ) -> Result<Operator, Violation> {
        let operator = self.operator(arguments, name)?.filter(|operator| operator.class() == Class::Arithmetic);
        operator.ok_or_else(|| broken(rule, name, format!("is {}", arguments.get(name).describe()), rule.text))
    }

    /// The second operand of `operator`, as [`Context::vector_operand`]; a unary operator has none.
    ///
    /// # Errors
    /// As [`Context::vector_operand`]; also `operand.unary` if a unary operator is given one.
    pub fn scalar_operand(
        &mut self,
        instruction: &mut Instruction,
        arguments: &Arguments<'_>,
        operator: Operator,
        (name, slot, at): (&'static str, usize, usize),
        partitions: u32,
    ) -> Result<(), Violation> {
        if !operator.is_unary() {
            return self.vector_operand(instruction, arguments, name, slot, at, partitions);
        }
        let given = arguments.get(name);
        if matches!(given, Argument::None | Argument::Int(0)) || *given == Argument::Float(0.0) {
            return Ok(());
        }
        let limit = format!("{} is unary", operator.name());
        Err(broken(&rules::UNARY, name, format!("is {}", given.describe()), limit))
    }

    /// Checks a `(P, 1)` tile.
    ///
    /// # Errors
    /// `operand.vector_shape`, or a rule of all tiles.
    pub fn check_vector(&mut self, view: &View, name: &'static str, partitions: u32) -> Result<(), Violation> {
        self.check_tile(view, name, ON_CHIP)?;
        self.check_unpacked(view, name)?;
        if view.partitions() == partitions && view.free_size() == 1 {
            return Ok(());
        }
        let value = format!("has shape {:?}", view.shape().as_slice());
        Err(broken(&rules::VECTOR_OPERAND, name, value, format!("must be ({partitions}, 1)")))
    }

    /// The engine that an argument names, if it names one.
    ///
    /// # Errors
    /// An engine that the instruction does not run on.
    pub fn engine(&self, arguments: &Arguments<'_>, allowed: &[Engine]) -> Result<Option<Engine>, Violation> {
        let member = arguments.member("engine", "engine")?.unwrap_or("unknown");
        if member == "unknown" {
            return Ok(None);
        }
        match Engine::from_name(member).filter(|engine| allowed.contains(engine)) {
            Some(engine) => Ok(Some(engine)),
            None => {
                let names = allowed.iter().map(|engine| engine.name()).collect::<Vec<_>>().join(", ");
                Err(broken(&rules::ENGINE, "engine", format!("is {member}"), format!("must be one of {names}")))
            }
        }
    }

    /// Refuses an argument that is documented and not offered yet.
    ///
    /// # Errors
    /// The argument was given.
    pub fn unimplemented(&self, arguments: &Arguments<'_>, name: &'static str) -> Result<(), Violation> {
        match arguments.get(name) {
            Argument::None => Ok(()),
            given => Err(broken(
                &rules::ARGUMENT_UNIMPLEMENTED,
                name,
                format!("is {}", given.describe()),
                "trn3 does not have it yet",
            )
            .of(Fault::Unimplemented)),
        }
    }
}
