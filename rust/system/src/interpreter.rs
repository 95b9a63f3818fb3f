//! Values: instructions executed in program order.

use crate::options::RunOptions;
use thiserror::Error;
use trn3_isa::{Finding, Instruction, Kind, Machine, Opcode, Registers, Scratch, Tables, ValueOptions, registers_of};
use trn3_mem::{Bytes, Fault, Memory, Role, TensorId, Violation};
use trn3_num::{Dtype, decode_slice};
use trn3_program::{Fill, FillValue, INSTANCES_MAX, Loop, LoopKind, Path, Program, turns};

/// Asked between batches of instructions whether to stop.
pub type Interrupt<'a> = &'a mut dyn FnMut() -> bool;

/// Why a run stopped.
#[derive(Debug, Error)]
pub enum RunError {
    /// An instruction met data that it cannot process.
    #[error("{violation}")]
    Instruction {
        /// What was broken.
        violation: Box<Violation>,
        /// Line number of the instruction, in its Program's table.
        line: u32,
        /// The core that it is of.
        core: usize,
    },
    /// The caller asked for it.
    #[error("the run was interrupted after {executed} instructions")]
    Interrupted {
        /// Instructions that had run.
        executed: usize,
    },
}

impl RunError {
    /// The same error, of that core.
    pub(crate) fn of_core(self, core: usize) -> RunError {
        match self {
            RunError::Instruction { violation, line, .. } => RunError::Instruction { violation, line, core },
            interrupted => interrupted,
        }
    }
}

/// How far an interpreter has come.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Progress {
    /// To the end.
    Finished,
    /// To an instruction for which the other core has to come, too; it counts as executed.
    Met(usize),
}

/// Elements of work between two looks at the interrupt.
const WORK_BETWEEN_LOOKS: u64 = 1 << 22;
/// Work of an instruction besides its elements.
const WORK_PER_INSTRUCTION: u64 = 1 << 10;

/// The state of a run: memory, registers, how far it has come.
#[derive(Debug, Default)]
pub struct Interpreter {
    /// The tensors' bytes.
    pub memory: Memory,
    pub(crate) registers: Registers,
    scratch: Scratch,
    /// Instructions that have run.
    executed: usize,
    /// The next one.
    position: usize,
    path: Path,
    turning: Vec<Turning>,
    fills_done: usize,
    findings: Vec<Finding>,
    options: RunOptions,
}

/// A loop that has begun and not ended.
#[derive(Debug)]
struct Turning {
    /// Its entry in the path.
    entry: usize,
    /// Turns that a counted loop has left.
    left: u64,
}

/// What an interpreter executes.
#[derive(Debug, Clone, Copy)]
pub struct Code<'a> {
    /// Patterns and tensors.
    pub tables: Tables<'a>,
    /// The instructions, in program order.
    pub instructions: &'a [Instruction],
    /// Dynamic loops, by number.
    pub loops: &'a [Loop],
    /// What is written between instructions, in their order.
    pub fills: &'a [Fill],
}

impl<'a> Code<'a> {
    /// That of a finished Program.
    pub fn of(program: &'a Program) -> Code<'a> {
        Code {
            tables: program.tables(),
            instructions: &program.instructions,
            loops: &program.loops,
            fills: &program.fills,
        }
    }
}

impl Interpreter {
    /// Nothing placed, nothing run.
    pub fn new(options: RunOptions) -> Interpreter {
        Interpreter { options, ..Interpreter::default() }
    }

    /// Memory for a finished Program: slabs of its own for all but inputs, which the caller lends.
    pub fn for_program(program: &Program, options: RunOptions) -> Interpreter {
        let mut interpreter = Interpreter::new(options);
        for &bytes in &program.slabs {
            interpreter.memory.add_bytes(Bytes::Absent);
            debug_assert!(bytes > 0, "a tensor has bytes");
        }
        for place in &program.places {
            interpreter.memory.place(place.slab);
        }
        interpreter.reset(program, options);
        interpreter
    }

    /// Makes the interpreter ready for another run of the same Program.
    pub fn reset(&mut self, program: &Program, options: RunOptions) {
        self.registers = Registers::default();
        self.executed = 0;
        self.position = 0;
        self.path = Path::default();
        self.turning.clear();
        self.fills_done = 0;
        self.findings.clear();
        self.options = options;
        for (id, info) in program.tensors.iter().enumerate() {
            let slab = program.places[id].slab;
            match info.role {
                Role::Constant(number) => {
                    self.memory.ensure(slab, program.slabs[slab as usize]);
                    self.memory.bytes_mut(TensorId(id as u32)).copy_from_slice(&program.constants[number as usize]);
                }
                Role::Internal if !program.outputs.contains(&TensorId(id as u32)) => {
                    self.memory.ensure(slab, program.slabs[slab as usize]);
                }
                // The caller lends inputs and outputs.
                Role::Internal | Role::Input(_) => {}
            }
        }
    }

    /// Instructions executed so far.
    pub fn executed(&self) -> usize {
        self.executed
    }

    /// Deviations that the data showed, each once a line.
    pub fn findings(&self) -> &[Finding] {
        &self.findings
    }

    /// How often each loop went round so far.
    pub fn path(&self) -> &Path {
        &self.path
    }

    /// Executes the instructions that have not been yet; none of the loops may be open.
    ///
    /// # Errors
    /// An instruction meets data it cannot process, or the interrupt says stop.
    pub fn advance(&mut self, code: Code<'_>, interrupt: Interrupt<'_>) -> Result<Progress, RunError> {
        let mut work = 0u64;
        while self.position < code.instructions.len() {
            if code.instructions[self.position].opcode.is_meeting() {
                self.fill(&code, self.position);
                self.position += 1;
                self.executed += 1;
                return Ok(Progress::Met(self.position - 1));
            }
            work += self.step(&code)?;
            if work > WORK_BETWEEN_LOOKS {
                work = 0;
                if interrupt() {
                    return Err(RunError::Interrupted { executed: self.executed });
                }
            }
        }
        self.fill(&code, self.position);
        Ok(Progress::Finished)
    }

    /// Executes one instruction and says how much work it was.
    fn step(&mut self, code: &Code<'_>) -> Result<u64, RunError> {
        let at = self.position;
        self.fill(code, at);
        let instruction = &code.instructions[at];
        self.position += 1;
        let definition = instruction.opcode.definition();
        if definition.kind == Kind::Loop {
            self.go_round(code, instruction)?;
            return Ok(WORK_PER_INSTRUCTION);
        }
        let refused = |violation: Violation| RunError::Instruction {
            violation: Box::new(violation.in_instruction(definition.name)),
            line: instruction.line,
            core: 0,
        };
        let resolved;
        let instruction = if instruction.dynamic == 0 {
            instruction
        } else {
            match trn3_isa::resolve(instruction, &code.tables, &self.registers) {
                Ok(instruction) => resolved = instruction,
                Err(_) if instruction.opcode.is_transfer() && trn3_isa::skips(instruction) => {
                    return Ok(WORK_PER_INSTRUCTION);
                }
                Err(violation) => return Err(refused(violation)),
            }
            &resolved
        };
        let mut found = Vec::new();
        let mut machine = Machine {
            memory: &mut self.memory,
            tables: code.tables,
            registers: &mut self.registers,
            scratch: &mut self.scratch,
            options: ValueOptions { cast: self.options.cast(self.executed), checks: self.options.checks },
            findings: &mut found,
        };
        (definition.execute)(instruction, &mut machine).map_err(refused)?;
        self.executed += 1;
        for violation in found {
            self.note(violation.in_instruction(definition.name), instruction.line);
        }
        let operand = instruction.operands.iter().find(|operand| operand.is_some());
        Ok(WORK_PER_INSTRUCTION + operand.map_or(0, |operand| code.tables.geometry(operand).elements() as u64))
    }

    fn note(&mut self, violation: Violation, line: u32) {
        let known = self.findings.iter().any(|known| known.line == line && known.violation.rule == violation.rule);
        if !known {
            self.findings.push(Finding { violation, line });
        }
    }

    /// Goes to the body of a loop, back to its beginning, or on.
    fn go_round(&mut self, code: &Code<'_>, mark: &Instruction) -> Result<(), RunError> {
        let each = &code.loops[mark.constants[0] as usize];
        if mark.opcode == Opcode::LoopBegin {
            let left = match each.kind {
                LoopKind::Count { start, stop, step, induction } => {
                    let (start, stop) = (start.value(&self.registers), stop.value(&self.registers));
                    self.registers.set_scalar_value(induction, start as u32);
                    turns(start, stop, step)
                }
                LoopKind::While { .. } => 0,
            };
            self.turning.push(Turning { entry: self.path.turns.len(), left });
            self.path.turns.push(0);
        } else if let LoopKind::Count { induction, step, .. } = each.kind {
            let next = self.registers.scalar_value(induction).wrapping_add(step);
            self.registers.set_scalar_value(induction, next);
        }
        let turning = self.turning.last_mut().expect("a loop that ends has begun");
        let again = match each.kind {
            LoopKind::Count { .. } => turning.left > 0,
            LoopKind::While { condition } => self.registers.scalar_value(condition) != 0,
        };
        if again {
            turning.left = turning.left.saturating_sub(1);
            let gone = &mut self.path.turns[turning.entry];
            if let LoopKind::While { condition } = each.kind
                && (u64::from(*gone) >= INSTANCES_MAX || *gone == 1 && !writes(code, each, condition))
            {
                let violation = endless(*gone, condition);
                return Err(RunError::Instruction { violation: Box::new(violation), line: mark.line, core: 0 });
            }
            *gone += 1;
            self.position = each.begin as usize + 1;
        } else {
            self.turning.pop();
            self.position = each.end as usize + 1;
        }
        Ok(())
    }

    /// Writes what is written before instruction `at`: poison once, the rest every time.
    fn fill(&mut self, code: &Code<'_>, at: usize) {
        let mut next = self.fills_done;
        if next > 0 && code.fills[next - 1].before as usize >= at && !code.loops.is_empty() {
            next = code.fills.partition_point(|fill| (fill.before as usize) < at);
        }
        while let Some(fill) = code.fills.get(next).filter(|fill| fill.before as usize <= at) {
            let due = match fill.value {
                FillValue::Poison => next >= self.fills_done,
                // Those of a loop that was skipped are past, and not due.
                FillValue::Held(_) | FillValue::NegativeZero => fill.before as usize == at,
            };
            if due {
                apply(fill, &code.tables, &mut self.memory, self.options.uninitialized.integer());
            }
            next += 1;
        }
        self.fills_done = self.fills_done.max(next);
    }

    /// Whether a tensor of floats holds a NaN.
    pub fn holds_nan(&self, tensor: TensorId, dtype: Dtype) -> bool {
        if !dtype.is_float() {
            return false;
        }
        let mut values = [0f32; 1024];
        self.memory.bytes(tensor).chunks(1024 * dtype.size_bytes()).any(|bytes| {
            let values = &mut values[..bytes.len() / dtype.size_bytes()];
            decode_slice(dtype, bytes, values);
            values.iter().any(|value| value.is_nan())
        })
    }
}

/// Whether an instruction of the loop writes the register.
fn writes(code: &Code<'_>, each: &Loop, register: u32) -> bool {
    let body = &code.instructions[each.begin as usize..=each.end as usize];
    body.iter().any(|instruction| registers_of(instruction).written == Some(register))
}

/// A loop whose condition never becomes 0.
fn endless(turns: u32, condition: u32) -> Violation {
    let value = format!("is register {condition}, not 0 after {turns} turns");
    let limit = "a loop ends when its register is 0, and this one is not written in the body or never becomes 0";
    Violation::new("loop.endless", "condition", value, limit, "load the next condition at the end of the body")
        .of(Fault::Deadlock)
        .in_instruction("while")
}

/// Writes a fill; `integer` is what unwritten integers read as.
fn apply(fill: &Fill, tables: &Tables<'_>, memory: &mut Memory, integer: u32) {
    if let FillValue::Held(from) = fill.value {
        let (to, source) = (&tables.tensors[fill.tensor.index()], &tables.tensors[from.index()]);
        let mut target = memory.take(fill.tensor);
        for &(start, length) in &fill.runs {
            let held = fill.held_start(to, source, start) as usize;
            let bytes = &memory.bytes(from)[held..held + length as usize];
            target.as_mut_slice()[start as usize..(start + length) as usize].copy_from_slice(bytes);
        }
        memory.restore(fill.tensor, target);
        return;
    }
    let size = fill.dtype.size_bytes();
    let element = fill.value.element(fill.dtype, integer);
    let bytes = memory.bytes_mut(fill.tensor);
    let mut write = |start: usize, length: usize| {
        bytes[start..start + length].chunks_exact_mut(size).for_each(|chunk| chunk.copy_from_slice(&element[..size]));
    };
    if fill.runs.is_empty() {
        let length = tables.tensors[fill.tensor.index()].bytes() as usize;
        write(0, length);
    }
    for &(start, length) in &fill.runs {
        write(start as usize, length as usize);
    }
}
