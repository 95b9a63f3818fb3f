//! Registers and dynamic loops while recording.

use super::Builder;
use crate::loops::{Bound, Loop, LoopKind};
use crate::program::Line;
use trn3_isa::{Engine, Finding, Instruction, Opcode, Register, Strictness, loop_mark, registers_of, set_sequencers};
use trn3_mem::{Fault, TensorId, Violation};

/// The most loops inside one another: what waits for what is found by going twice round each of them.
const DEPTH_MAX: usize = 16;

/// What is known of the loops while recording.
#[derive(Debug, Default)]
pub(super) struct Loops {
    /// All of them, by number.
    pub(super) all: Vec<Loop>,
    /// Numbers of those that are open, outermost first.
    open: Vec<u32>,
    /// For each tensor, the loop in whose body it was declared.
    homes: Vec<Option<u32>>,
    /// For each register, whether something has written it.
    written: Vec<bool>,
    /// Instructions of the outermost loop that may not run at all: number of tensors that existed when it began.
    outside: Option<usize>,
}

impl Loops {
    /// A tensor has been declared.
    pub(super) fn declared(&mut self) {
        self.homes.push(self.open.last().copied());
    }

    /// Whether a loop is open.
    pub(super) fn inside(&self) -> bool {
        !self.open.is_empty()
    }

    /// Whether what is written to a tensor now may not be written at all, because the loop may not run.
    pub(super) fn may_skip(&self, tensor: TensorId) -> bool {
        self.outside.is_some_and(|tensors| tensor.index() < tensors)
    }
}

impl Builder {
    /// A new register.
    pub fn register(&mut self) -> Register {
        self.loops.written.push(false);
        Register { number: self.loops.written.len() as u32 - 1, frozen: false }
    }

    /// Dynamic loops recorded so far.
    pub fn loops(&self) -> &[Loop] {
        &self.loops.all
    }

    /// Whether a dynamic loop is being recorded.
    pub fn in_loop(&self) -> bool {
        self.loops.inside()
    }

    /// Opens a counted loop and gives the register that counts.
    ///
    /// # Errors
    /// A bound in a register that nothing has written, when the checks are strict.
    pub fn open_count(&mut self, start: Bound, stop: Bound, step: u32, line: u32) -> Result<Register, Violation> {
        let induction = Register { frozen: true, ..self.register() };
        self.loops.written[induction.number as usize] = true;
        let kind = LoopKind::Count { induction: induction.number, start, stop, step };
        self.open(kind, line).map(|()| induction)
    }

    /// Opens a loop that runs as long as a register is not 0.
    ///
    /// # Errors
    /// As [`Builder::open_count`].
    pub fn open_while(&mut self, condition: Register, line: u32) -> Result<(), Violation> {
        self.open(LoopKind::While { condition: condition.number }, line)
    }

    fn open(&mut self, kind: LoopKind, line: u32) -> Result<(), Violation> {
        if self.loops.open.len() == DEPTH_MAX {
            let value = format!("is the {}th inside one another", DEPTH_MAX + 1);
            let limit = format!("trn3 follows {DEPTH_MAX} dynamic loops inside one another");
            let fix = "use nl.static_range for the inner loops";
            return Err(Violation::new("loop.depth", "loop", value, limit, fix)
                .of(Fault::Unsupported)
                .in_instruction("loop"));
        }
        let number = self.loops.all.len() as u32;
        let begin = self.instructions.len() as u32;
        let outer = self.loops.open.last().copied();
        let opened = Loop { begin, end: begin, kind, outer };
        for register in opened.registers() {
            self.check_register(register, "loop", line)?;
        }
        if self.loops.outside.is_none() && opened.known_turns().unwrap_or(0) == 0 {
            self.loops.outside = Some(self.tensors.len());
        }
        self.loops.all.push(opened);
        self.loops.open.push(number);
        self.holdings.enter();
        self.instructions.push(Instruction { line, ..loop_mark(Opcode::LoopBegin, number) });
        Ok(())
    }

    /// Closes the innermost open loop.
    ///
    /// # Panics
    /// No loop is open.
    pub fn close_loop(&mut self, line: u32) {
        let number = self.loops.open.pop().expect("a loop is closed once");
        self.hand_back();
        self.loops.all[number as usize].end = self.instructions.len() as u32;
        self.instructions.push(Instruction { line, ..loop_mark(Opcode::LoopEnd, number) });
        let open = &self.loops.open;
        if open.iter().all(|&open| self.loops.all[open as usize].known_turns().is_some_and(|turns| turns > 0)) {
            self.loops.outside = None;
        }
    }

    /// File and line of the loop that is open innermost.
    pub fn open_loop_line(&self) -> Option<Line> {
        let number = *self.loops.open.last()?;
        let begin = self.loops.all[number as usize].begin;
        Some(self.lines[self.instructions[begin as usize].line as usize])
    }

    /// Checks what an instruction has to do with registers and loops.
    pub(super) fn check_control(&mut self, instruction: &Instruction) -> Result<(), Violation> {
        let name = instruction.opcode.definition().name;
        let line = instruction.line;
        for operand in instruction.operands.iter().filter(|operand| operand.is_some()) {
            if let Some(scalar) = self.patterns.table[operand.pattern.0 as usize].scalar {
                self.check_register(scalar.register, name, line)?;
            }
            let home = self.loops.homes[operand.tensor.index()];
            if home.is_some_and(|home| !self.loops.open.contains(&home)) {
                let violation = Violation::new(
                    "loop.tensor_scope",
                    self.tensors[operand.tensor.index()].name.clone(),
                    "was declared in the body of a dynamic loop that has ended",
                    "tensors of a loop's body are not visible outside of it",
                    "declare the tensor before the loop",
                )
                .in_instruction(name);
                self.report(Strictness::Documented, violation, line)?;
            }
        }
        let registers = registers_of(instruction);
        if let Some(read) = registers.read {
            self.check_register(read, name, line)?;
        }
        if let Some(written) = registers.written {
            self.loops.written[written as usize] = true;
        }
        Ok(())
    }

    fn check_register(&mut self, register: u32, name: &'static str, line: u32) -> Result<(), Violation> {
        if self.loops.written[register as usize] {
            return Ok(());
        }
        let violation = Violation::new(
            "register.unwritten",
            "register",
            format!("{register} is read before anything has written it"),
            "undefined on hardware; here it is 0",
            "give register_alloc a value, or use register_move or register_load first",
        )
        .in_instruction(name);
        self.report(Strictness::Documented, violation, line)
    }

    /// A finding below `level`, an error from there on.
    ///
    /// # Errors
    /// The strictness is at least `level`.
    pub fn report(&mut self, level: Strictness, violation: Violation, line: u32) -> Result<(), Violation> {
        if self.options.checks >= level {
            return Err(violation);
        }
        self.findings.push(Finding { violation, line });
        Ok(())
    }

    /// Finds the sequencers that carry out each control instruction: those that need the register, and for the marks of
    /// a loop those that have work in its body.
    pub(super) fn assign_sequencers(&mut self) {
        if self.loops.written.is_empty() && self.loops.all.is_empty() {
            return;
        }
        let mut needed = vec![0u8; self.loops.written.len()];
        let mut looping = vec![0u8; self.loops.all.len()];
        // Masks only grow: a register that decides a loop is needed where the loop runs, and so on.
        loop {
            let before = (needed.clone(), looping.clone());
            self.spread(&mut needed, &mut looping);
            if before == (needed.clone(), looping.clone()) {
                break;
            }
        }
        let sync = 1 << Engine::Sync as u8;
        for instruction in self.instructions.iter_mut().filter(|instruction| instruction.opcode.is_control()) {
            let mask = match instruction.opcode {
                Opcode::LoopBegin | Opcode::LoopEnd => looping[instruction.constants[0] as usize],
                Opcode::RegisterStore => sync,
                _ => registers_of(instruction).written.map_or(0, |written| needed[written as usize]),
            };
            set_sequencers(instruction, if mask == 0 { sync } else { mask });
        }
    }

    fn spread(&self, needed: &mut [u8], looping: &mut [u8]) {
        let mut open: Vec<u32> = Vec::new();
        for instruction in &self.instructions {
            let mut mask = 0;
            match instruction.opcode {
                Opcode::LoopBegin => open.push(instruction.constants[0]),
                Opcode::LoopEnd => {
                    let number = open.pop().expect("loops are nested");
                    mask = looping[number as usize];
                }
                opcode if !opcode.is_control() => mask = 1 << instruction.engine as u8,
                _ => {
                    let registers = registers_of(instruction);
                    let by = registers.written.map_or(1 << Engine::Sync as u8, |written| needed[written as usize]);
                    if let Some(read) = registers.read {
                        needed[read as usize] |= by;
                    }
                    mask = by;
                }
            }
            for &number in &open {
                looping[number as usize] |= mask;
            }
            for (slot, operand) in instruction.operands.iter().enumerate() {
                if instruction.is_dynamic(slot)
                    && let Some(scalar) = self.patterns.table[operand.pattern.0 as usize].scalar
                {
                    needed[scalar.register as usize] |= mask;
                }
            }
        }
        for (number, each) in self.loops.all.iter().enumerate() {
            for register in each.registers() {
                needed[register as usize] |= looping[number];
            }
        }
    }
}
