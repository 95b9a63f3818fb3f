//! Values: instructions executed in program order.

use crate::options::RunOptions;
use thiserror::Error;
use trn3_isa::{Instruction, Machine, Registers, Scratch, Tables, ValueOptions};
use trn3_mem::{Bytes, Memory, Role, TensorId, Violation};
use trn3_num::{Dtype, decode_slice};
use trn3_program::{Fill, Program};

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
    },
    /// The caller asked for it.
    #[error("the run was interrupted after {executed} instructions")]
    Interrupted {
        /// Instructions that had run.
        executed: usize,
    },
}

/// Elements of work between two looks at the interrupt.
const WORK_BETWEEN_LOOKS: u64 = 1 << 22;

/// The state of a run: memory, registers, how far it has come.
#[derive(Debug, Default)]
pub struct Interpreter {
    /// The tensors' bytes.
    pub memory: Memory,
    registers: Registers,
    scratch: Scratch,
    executed: usize,
    fills_done: usize,
    options: RunOptions,
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
        self.fills_done = 0;
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

    /// Executes the instructions that have not been yet.
    ///
    /// # Errors
    /// An instruction meets data it cannot process, or the interrupt says stop.
    pub fn advance(
        &mut self,
        tables: Tables<'_>,
        instructions: &[Instruction],
        fills: &[Fill],
        interrupt: Interrupt<'_>,
    ) -> Result<(), RunError> {
        let mut work = 0u64;
        let integer = self.options.uninitialized.integer();
        let mut machine = Machine {
            memory: &mut self.memory,
            tables,
            registers: &mut self.registers,
            scratch: &mut self.scratch,
            options: ValueOptions::default(),
        };
        for (at, instruction) in instructions.iter().enumerate().skip(self.executed) {
            while let Some(fill) = fills.get(self.fills_done).filter(|fill| fill.before as usize <= at) {
                apply(fill, &tables, machine.memory, integer);
                self.fills_done += 1;
            }
            machine.options = ValueOptions { cast: self.options.cast(at) };
            let definition = instruction.opcode.definition();
            (definition.execute)(instruction, &mut machine).map_err(|violation| RunError::Instruction {
                violation: Box::new(violation.in_instruction(definition.name)),
                line: instruction.line,
            })?;
            self.executed = at + 1;
            work += 1 << 10;
            if let Some(operand) = instruction.operands.iter().find(|operand| operand.is_some()) {
                work += tables.geometry(operand).elements() as u64;
            }
            if work > WORK_BETWEEN_LOOKS {
                work = 0;
                if interrupt() {
                    return Err(RunError::Interrupted { executed: self.executed });
                }
            }
        }
        for fill in &fills[self.fills_done..] {
            apply(fill, &tables, machine.memory, integer);
        }
        self.fills_done = fills.len();
        Ok(())
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

/// Writes a fill; `integer` is what unwritten integers read as.
fn apply(fill: &Fill, tables: &Tables<'_>, memory: &mut Memory, integer: u32) {
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
