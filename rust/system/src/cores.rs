//! Values of a whole Program: one core, or the two of a logical core.
//!
//! Each core's values follow its program order. The cores see what the other wrote to shared HBM once they have met at a
//! barrier or an exchange: core 0 runs up to the meeting, then core 1, and so on, whatever their times are. What both
//! may touch between two meetings is therefore handed over as a whole.

use crate::interpreter::{Code, Interpreter, Interrupt, Progress, RunError};
use crate::options::RunOptions;
use trn3_isa::{Instruction, Kind, exchange_of};
use trn3_mem::{Bytes, Fault, TensorId, Violation};
use trn3_program::{Path, Peer, Program};
use trn3_sim::Seed;

/// The interpreters of a Program's cores.
#[derive(Debug, Default)]
pub struct Cores {
    interpreters: Vec<Interpreter>,
    /// The core that has the shared tensors at the moment.
    holder: usize,
}

impl Cores {
    /// Memory for a finished Program: slabs of its own for all but inputs and outputs, which the caller lends.
    pub fn for_program(program: &Program, options: RunOptions) -> Cores {
        let interpreters = program.cores().map(|core| Interpreter::for_program(core, options)).collect();
        let mut cores = Cores { interpreters, holder: 0 };
        cores.reset(program, options);
        cores
    }

    /// What an interpreter of one core has computed already.
    pub fn of(interpreter: Interpreter) -> Cores {
        Cores { interpreters: vec![interpreter], holder: 0 }
    }

    /// Makes the cores ready for another run of the same Program.
    pub fn reset(&mut self, program: &Program, options: RunOptions) {
        self.holder = 0;
        for (number, (interpreter, core)) in self.interpreters.iter_mut().zip(program.cores()).enumerate() {
            // The first core's draws are those of a core alone.
            let seed = if number == 0 { options.seed } else { Seed(options.seed).stream("core1").next_u64() };
            interpreter.reset(core, RunOptions { seed, ..options });
        }
        if let Some(peer) = &program.peer {
            for &(_, theirs) in &peer.shared {
                self.interpreters[1].memory.take(theirs);
            }
        }
    }

    /// Lends bytes for a tensor of the first core, and gives back what was there.
    pub fn lend(&mut self, program: &Program, tensor: TensorId, bytes: Bytes) -> Bytes {
        let slab = program.places[tensor.index()].slab;
        self.interpreters[0].memory.replace(slab, bytes)
    }

    /// The interpreter of a core.
    pub fn core(&self, number: usize) -> &Interpreter {
        &self.interpreters[number]
    }

    /// How often the loops of each core went round.
    pub fn paths(&self) -> Vec<Path> {
        self.interpreters.iter().map(|interpreter| interpreter.path().clone()).collect()
    }

    /// Runs all cores to their end.
    ///
    /// # Errors
    /// An instruction meets data it cannot process, the cores do not come to the same meeting, or the interrupt says
    /// stop.
    pub fn run(&mut self, program: &Program, interrupt: Interrupt<'_>) -> Result<(), RunError> {
        let Some(peer) = &program.peer else {
            self.interpreters[0].advance(Code::of(program), interrupt)?;
            return Ok(());
        };
        loop {
            let first = self.advance(0, program, peer, interrupt)?;
            let second = self.advance(1, program, peer, interrupt)?;
            let meeting = match (first, second) {
                (Progress::Finished, Progress::Finished) => break,
                (Progress::Met(a), Progress::Met(b)) => self.meet([a, b], program, peer),
                (Progress::Met(at), Progress::Finished) => Err((0, alone(&program.instructions[at]))),
                (Progress::Finished, Progress::Met(at)) => Err((1, alone(&peer.program.instructions[at]))),
            };
            meeting.map_err(|(core, (violation, line))| RunError::Instruction {
                violation: Box::new(violation),
                line,
                core,
            })?;
        }
        self.hold(0, peer, program);
        Ok(())
    }

    fn advance(
        &mut self,
        number: usize,
        program: &Program,
        peer: &Peer,
        interrupt: Interrupt<'_>,
    ) -> Result<Progress, RunError> {
        self.hold(number, peer, program);
        let core = if number == 0 { program } else { &peer.program };
        self.interpreters[number].advance(Code::of(core), interrupt).map_err(|error| error.of_core(number))
    }

    /// Hands the shared tensors to a core.
    fn hold(&mut self, number: usize, peer: &Peer, program: &Program) {
        if self.holder == number {
            return;
        }
        for &(ours, theirs) in &peer.shared {
            let slabs = [program.places[ours.index()].slab, peer.program.places[theirs.index()].slab];
            let bytes = self.interpreters[self.holder].memory.replace(slabs[self.holder], Bytes::Absent);
            self.interpreters[number].memory.replace(slabs[number], bytes);
        }
        self.holder = number;
    }

    /// Both cores have come: checks that it is to the same meeting, and exchanges tiles.
    fn meet(&mut self, at: [usize; 2], program: &Program, peer: &Peer) -> Result<(), (usize, (Violation, u32))> {
        let codes = [program, &peer.program];
        let mut resolved = [0, 1].map(|core: usize| codes[core].instructions[at[core]]);
        for (core, instruction) in resolved.iter_mut().enumerate() {
            let registers = &self.interpreters[core].registers;
            *instruction = trn3_isa::resolve(instruction, &codes[core].tables(), registers).map_err(|violation| {
                let name = instruction.opcode.definition().name;
                (core, (violation.in_instruction(name), instruction.line))
            })?;
        }
        let instructions = resolved.each_ref();
        let [a, b] = instructions;
        if a.opcode != b.opcode {
            let violation = deadlock(a, format!("core 1 is at {}", b.opcode.definition().name));
            return Err((0, (violation, a.line)));
        }
        if a.opcode.definition().kind != Kind::Exchange {
            return Ok(());
        }
        let exchanges = instructions.map(exchange_of);
        let mut sent: [Vec<u8>; 2] = [Vec::new(), Vec::new()];
        for core in 0..2 {
            let (own, other) = (exchanges[core], exchanges[1 - core]);
            let from = own.from as usize;
            let sender = if from == core { own } else { other };
            let (size, theirs) =
                (tile_bytes(codes[core], instructions[core], 1), tile_bytes(codes[from], instructions[from], 0));
            if own.pipe != other.pipe || sender.to as usize != core || size != theirs {
                let value = format!(
                    "core {core} waits in pipe {} for {size} bytes from core {from}, which sends {theirs} bytes to core {} in pipe {}",
                    own.pipe, sender.to, other.pipe
                );
                return Err((core, (deadlock(instructions[core], value), instructions[core].line)));
            }
            let machine = &self.interpreters[from];
            let tile = machine.memory.tile_of(
                codes[from].tables().geometry(&instructions[from].operands[0]),
                instructions[from].operands[0].tensor,
            );
            sent[core].resize(size, 0);
            tile.read_bytes(0, &mut sent[core]);
        }
        for core in 0..2 {
            let dst = &instructions[core].operands[1];
            let geometry = codes[core].tables().geometry(dst);
            self.interpreters[core].memory.tile_mut_of(geometry, dst.tensor).write_bytes(0, &sent[core]);
        }
        Ok(())
    }
}

fn tile_bytes(program: &Program, instruction: &Instruction, slot: usize) -> usize {
    let geometry = program.tables().geometry(&instruction.operands[slot]);
    geometry.elements() * geometry.dtype.size_bytes()
}

fn deadlock(instruction: &Instruction, value: String) -> Violation {
    Violation::new(
        "cores.deadlock",
        "core 0",
        value,
        "both cores come to the same barriers and exchanges, in the same order",
        "write the kernel so that both cores run the same control flow",
    )
    .of(Fault::Deadlock)
    .in_instruction(instruction.opcode.definition().name)
}

/// A core waits for one that has ended.
fn alone(instruction: &Instruction) -> (Violation, u32) {
    (deadlock(instruction, "the other core has ended without coming to it".into()), instruction.line)
}
