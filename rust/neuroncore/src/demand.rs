//! What an instruction asks of its core's time, worked out once when it comes to the head of its queue.
//!
//! Its own cost is the instruction's affair. What all share is here: the longer interval of an address from a register,
//! the time to read an index, and which ports a stream goes through.

use crate::ports::Ports;
use trn3_isa::{Cost, Engine, FunctionSet, FunctionSets, Instruction, Operand, Stream};
use trn3_mem::Space;
use trn3_program::Program;
use trn3_spec::Target;

/// What an instruction asks for.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Demand {
    pub cost: Cost,
    /// Shortest interval to the next instruction of its engine, in cycles.
    pub interval_min: u64,
    /// Ports of a stream on VectorE, ScalarE or GpSimdE.
    pub ports: Ports,
    /// Functions that ScalarE must have loaded.
    pub functions: Option<FunctionSet>,
}

/// What demands are made of.
#[derive(Debug, Clone)]
pub(crate) struct Demands<'a> {
    target: &'a Target,
    functions: FunctionSets,
    /// Whether a stream of the Program may meet another on a port.
    meets: Meets,
}

/// Which ports more than one engine of a Program uses. Most Programs need not look.
#[derive(Debug, Clone, Copy, Default)]
struct Meets {
    bus: bool,
    banks: bool,
}

impl Meets {
    fn of(program: &Program) -> Meets {
        let mut gpsimd = false;
        let mut psum = [false; Engine::ALL.len()];
        for instruction in &program.instructions {
            let engine = instruction.engine;
            if !matches!(engine, Engine::Vector | Engine::Scalar | Engine::Gpsimd) || instruction.opcode.is_transfer() {
                continue;
            }
            gpsimd |= engine == Engine::Gpsimd;
            let tensors = &program.tensors;
            psum[engine as usize] |=
                operands(instruction).any(|(_, at)| tensors[at.tensor.index()].space == Space::Psum);
        }
        Meets { bus: gpsimd, banks: psum.iter().filter(|uses| **uses).count() > 1 }
    }
}

impl<'a> Demands<'a> {
    pub(crate) fn new(program: &Program, target: &'a Target) -> Demands<'a> {
        Demands { target, functions: FunctionSets::new(&target.core.scalar.table), meets: Meets::of(program) }
    }

    /// What `instruction` asks for.
    pub(crate) fn of(&self, instruction: &Instruction, program: &Program) -> Demand {
        let tables = program.tables();
        let mut cost = (instruction.opcode.definition().cost)(instruction, &tables, self.target);
        let core = &self.target.core;
        let mut interval_min = match instruction.engine {
            Engine::Tensor => core.tensor.interval_min_cycles,
            Engine::Vector => core.vector.interval_min_cycles,
            Engine::Scalar => core.scalar.interval_min_cycles,
            Engine::Gpsimd => core.gpsimd.interval_min_cycles,
            Engine::Sync => 0,
        };
        let (mut ports, mut functions) = (Ports::default(), None);
        if let Cost::Activation(_, function) = cost {
            functions = self.functions.of(function);
        }
        if let Cost::Stream(stream) | Cost::Activation(stream, _) = &mut cost {
            if instruction.dynamic != 0 && self.is_indirect(instruction, program) {
                stream.stream += u64::from(core.vector.indirect_cycles.unwrap_or(0));
            }
            ports = self.ports(instruction, program, stream);
        }
        if instruction.dynamic != 0 && !self.is_indirect(instruction, program) {
            interval_min = interval_min.max(core.sequencer.register_address_interval_min_cycles);
        }
        Demand { cost, interval_min: u64::from(interval_min), ports, functions }
    }

    /// Whether an operand's place comes from an index in memory, not from a register.
    fn is_indirect(&self, instruction: &Instruction, program: &Program) -> bool {
        let pattern = |operand: &Operand| &program.patterns[operand.pattern.0 as usize];
        operands(instruction).any(|(slot, operand)| instruction.is_dynamic(slot) && pattern(operand).scalar.is_none())
    }

    fn ports(&self, instruction: &Instruction, program: &Program, stream: &Stream) -> Ports {
        let mut ports = Ports::default();
        let mut elements = 0;
        for (slot, operand) in operands(instruction) {
            match program.tensors[operand.tensor.index()].space {
                Space::Sbuf if self.meets.bus => {
                    let dims = &program.patterns[operand.pattern.0 as usize].dims;
                    elements = elements.max(dims[1..].iter().map(|dim| u64::from(dim.count)).product());
                    ports.sbuf = true;
                }
                Space::Psum if self.meets.banks => ports.banks |= self.banks(slot, operand, instruction, program),
                _ => {}
            }
        }
        if ports.sbuf && instruction.engine == Engine::Vector {
            let shared = self.target.core.vector.shared_bus_cycles_per_element;
            ports.shared = Ports::slowdown(stream.stream, shared.map_or(0, |rate| rate.times_ceil(elements)));
        }
        ports
    }

    /// PSUM banks from the first to the last byte of an operand. A PSUM of more than 64 banks has some in common here.
    fn banks(&self, slot: usize, operand: &Operand, instruction: &Instruction, program: &Program) -> u64 {
        let tensor = &program.tensors[operand.tensor.index()];
        let pattern = &program.patterns[operand.pattern.0 as usize];
        let size = pattern.dtype.size_bytes() as i64;
        let row = tensor.partition_bytes().max(1) as i64;
        let (mut low, mut high) = (0, row);
        if !instruction.is_dynamic(slot) {
            low = (operand.offset * size).rem_euclid(row);
            high = low + size;
            for dim in &pattern.dims[1..] {
                let reach = dim.stride * (i64::from(dim.count) - 1) * size;
                (low, high) = (low + reach.min(0), high + reach.max(0));
            }
        }
        let address = program.places[operand.tensor.index()].address;
        let bank = |byte: i64| address.saturating_add_signed(byte) / self.target.core.psum.bank_bytes;
        (bank(low)..=bank(high - 1)).fold(0, |mask, bank| mask | 1 << (bank % 64))
    }
}

/// Operands that an instruction reads or writes, with their slots.
fn operands(instruction: &Instruction) -> impl Iterator<Item = (usize, &Operand)> {
    let used = |slot: &usize| instruction.is_read(*slot) || instruction.is_written(*slot);
    instruction.operands.iter().enumerate().filter(move |(slot, operand)| used(slot) && operand.is_some())
}
