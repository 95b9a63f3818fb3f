//! What the sequencers do by themselves: registers and loops.
//!
//! A register of a kernel is held by every sequencer that needs it. Each of them carries out the control instruction;
//! which ones do is known when the recording ends and is kept in `constants[3]`, one bit an engine.

pub mod loops;
pub mod register_load;
pub mod register_move;
pub mod register_store;

use crate::context::broken;
use crate::instruction::{Engine, Instruction};
use crate::rules::Rule;
use crate::{Arguments, Context};
use trn3_mem::{Space, View, Violation};
use trn3_num::Dtype;

/// Engines whose sequencers carry out a control instruction.
pub fn sequencers_of(instruction: &Instruction) -> impl Iterator<Item = Engine> {
    let mask = instruction.constants[3];
    Engine::ALL.into_iter().filter(move |engine| mask >> *engine as u32 & 1 == 1)
}

/// Names the engines whose sequencers carry out a control instruction, one bit each.
pub fn set_sequencers(instruction: &mut Instruction, mask: u8) {
    instruction.constants[3] = u32::from(mask);
}

/// The registers that an instruction reads and writes, besides those that move its operands.
pub fn registers_of(instruction: &Instruction) -> RegisterUse {
    match instruction.opcode {
        crate::Opcode::RegisterLoad => RegisterUse { written: Some(instruction.constants[0]), read: None },
        crate::Opcode::RegisterStore => RegisterUse { written: None, read: Some(instruction.constants[0]) },
        crate::Opcode::RegisterMove => RegisterUse {
            written: Some(instruction.constants[0]),
            read: (instruction.flags & register_move::FROM_REGISTER != 0).then_some(instruction.constants[1]),
        },
        _ => RegisterUse::default(),
    }
}

/// Registers of a control instruction.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct RegisterUse {
    /// The register that it writes.
    pub written: Option<u32>,
    /// The register that it reads.
    pub read: Option<u32>,
}

const ELEMENT: Rule = Rule {
    id: "register.element",
    text: "a register is loaded from and stored to one element of at most 32 bits in SBUF or HBM: an integer or float32",
    source: "nki/api/nki/isa/__init__.py, register_load, register_store",
    fix: "slice the tensor to one element",
};
const FROZEN: Rule = Rule {
    id: "register.frozen",
    text: "the induction register of a loop is not written",
    source: "nki/get-started/nki-language-guide.rst",
    fix: "copy it to a register of your own with register_move",
};

/// Checks the memory side of a load or store.
fn check_element(context: &mut Context<'_>, view: &View, name: &'static str) -> Result<(), Violation> {
    let integer = view.dtype.is_integer() && view.dtype != Dtype::Bool;
    if view.elements() != 1 || view.space == Space::Psum || !(integer || view.dtype == Dtype::Float32) {
        let value = format!("is {} {:?} in {}", view.dtype.name(), view.shape().as_slice(), view.space.name());
        return Err(broken(&ELEMENT, name, value, ELEMENT.text));
    }
    if view.space.is_on_chip() {
        context.check_tile(view, name, crate::context::SBUF)?;
    }
    Ok(())
}

/// The register that an argument names and the instruction writes.
fn written_register(arguments: &Arguments<'_>, name: &'static str) -> Result<u32, Violation> {
    let register = arguments.register(name)?;
    if register.frozen {
        return Err(broken(&FROZEN, name, "is the induction register of a loop", FROZEN.text));
    }
    Ok(register.number)
}
