//! What all transfers share: who triggers them, who makes their descriptors, their service class, their flags.

use crate::arguments::{Argument, Arguments};
use crate::context::{Context, broken};
use crate::cost::Generation;
use crate::instruction::{Engine, Instruction, Operand};
use crate::rules::Rule;
use trn3_mem::Violation;

pub(super) const PRIORITY: Rule = Rule {
    id: "dma.priority",
    text: "priority is 0 to 3",
    source: "nki/api/nki/isa/__init__.py, dma_copy",
    fix: "leave priority out",
};
pub(super) const PRIORITY_GENERATION: Rule = Rule {
    id: "dma.priority_generation",
    text: "transfers have a priority from NeuronCore-v4 (trn3) on",
    source: "nki/api/nki/isa/__init__.py, dma_copy",
    fix: "leave priority out",
};
pub(super) const HWDGE_GENERATION: Rule = Rule {
    id: "dma.hwdge_generation",
    text: "hardware makes descriptors from NeuronCore-v3 (trn2) on",
    source: "nki/deep-dives/nki-dge.rst",
    fix: "leave dge_mode out",
};
pub(super) const INDIRECT_GENERATION: Rule = Rule {
    id: "dma.indirect_generation",
    text: "transfers take rows by index from NeuronCore-v3 (trn2) on",
    source: "nki/deep-dives/nki-dge.rst",
    fix: "copy the rows one by one, or target trn2 or trn3",
};
pub(super) const DGE_MODE: Rule = Rule {
    id: "dma.dge_mode",
    text: "the hardware DGE moves raw bytes of static addresses from v3, driven by sync or scalar; rows by index need swdge",
    source: "nki/migration/index.rst; nki/deep-dives/nki-dge.rst",
    fix: "leave dge_mode and engine out",
};

/// Engines that trigger transfers; the first is the default.
pub(super) const ISSUERS: &[Engine] = &[Engine::Sync, Engine::Scalar, Engine::Gpsimd];

// The low bits of a transfer's flags; the rest is the instruction's own.
const SKIP: u16 = 1;
const HARDWARE: u16 = 1 << 1;
const SOFTWARE: u16 = 1 << 2;
/// The rows of the first source (slot 1) are named by an index (slot 2).
pub(super) const GATHER: u16 = 1 << 3;
/// The rows of the destination (slot 0) are named by an index (slot 2).
pub(super) const SCATTER: u16 = 1 << 4;
/// The first bit that is the instruction's own.
pub(super) const OWN: u16 = 1 << 5;

/// Who may make a transfer's descriptors.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Makers {
    /// The hardware DGE, where there is one.
    pub hardware: bool,
    /// GpSimdE.
    pub software: bool,
    /// The host.
    pub fixed: bool,
}

impl Makers {
    /// Whether the rows are named by an index, which only GpSimdE can follow.
    fn follow_an_index(self) -> bool {
        self.software && !self.fixed
    }
}

/// Decides engine, descriptor generation, out-of-bounds mode and service class of a transfer; the class is kept in
/// `constants[3]`. Parameters that the instruction does not have count as not given.
///
/// # Errors
/// `dma.dge_mode`, `dma.priority`, `operand.engine`, and those of what the core lacks.
pub(super) fn issue(
    instruction: &mut Instruction,
    arguments: &Arguments<'_>,
    context: &Context<'_>,
    makers: Makers,
) -> Result<(), Violation> {
    let can = &context.target.core.capability;
    if makers.follow_an_index() && !can.dma_indirect {
        return Err(context.lacking(&INDIRECT_GENERATION, "", None));
    }
    let (engine, generation) = issuer(arguments, context, makers)?;
    instruction.engine = engine;
    instruction.flags |= generation;
    if arguments.has("oob_mode") && arguments.member("oob_mode", "oob_mode")? == Some("skip") {
        instruction.flags |= SKIP;
    }
    let priority = if arguments.has("priority") { arguments.get("priority") } else { &Argument::None };
    instruction.constants[3] = match priority {
        Argument::None => context.target.chip.dma.priority_default.unwrap_or(0),
        given => {
            if !can.dma_priority {
                let value = format!("is {}", given.describe());
                return Err(context.lacking(&PRIORITY_GENERATION, "priority", Some(value)));
            }
            let priority = arguments.int("priority")?;
            let classes = i64::from(context.target.chip.dma.priority_classes.unwrap_or(0));
            if !(0..classes).contains(&priority) {
                return Err(broken(&PRIORITY, "priority", format!("is {priority}"), PRIORITY.text));
            }
            priority as u32
        }
    };
    Ok(())
}

/// Whether rows out of bounds are skipped instead of being an error.
pub fn skips(instruction: &Instruction) -> bool {
    instruction.flags & SKIP != 0
}

/// Whether the rows of an operand of a recorded transfer are named by an index.
pub(super) fn is_by_index(instruction: &Instruction, operand: &Operand) -> bool {
    let [dst, source, ..] = &instruction.operands;
    (instruction.flags & SCATTER != 0 && operand == dst) || (instruction.flags & GATHER != 0 && operand == source)
}

/// Service class of a recorded transfer, 0 most urgent.
pub(super) fn priority_of(instruction: &Instruction) -> u8 {
    instruction.constants[3] as u8
}

/// The queue that triggers the transfer, and the flag of who makes its descriptors.
fn issuer(arguments: &Arguments<'_>, context: &Context<'_>, makers: Makers) -> Result<(Engine, u16), Violation> {
    let engine = if arguments.has("engine") { context.engine(arguments, ISSUERS)? } else { None };
    let mode = if arguments.has("dge_mode") { arguments.member("dge_mode", "dge_mode")? } else { None };
    let mode = mode.unwrap_or("unknown");
    let hardware_exists = context.target.core.capability.hardware_dge;
    if mode == "hwdge" && !hardware_exists {
        return Err(context.lacking(&HWDGE_GENERATION, "dge_mode", Some("is hwdge".into())));
    }
    let hardware = makers.hardware && hardware_exists && engine != Some(Engine::Gpsimd);
    let software = makers.software && engine.is_none_or(|engine| engine == Engine::Gpsimd);
    // Without the hardware, descriptors of static addresses are made when the kernel is loaded.
    let loaded = makers.fixed && (!makers.software || !hardware_exists) && engine != Some(Engine::Gpsimd);
    match mode {
        "hwdge" | "unknown" if hardware => Ok((engine.unwrap_or(Engine::Sync), HARDWARE)),
        "none" if makers.fixed => Ok((engine.unwrap_or(Engine::Sync), 0)),
        "unknown" if loaded => Ok((engine.unwrap_or(Engine::Sync), 0)),
        "swdge" | "unknown" if software => Ok((Engine::Gpsimd, SOFTWARE)),
        _ => {
            let value = format!("is {mode} with engine {}", engine.map_or("unknown", Engine::name));
            let offered = [
                (makers.hardware && hardware_exists, "hwdge with sync or scalar"),
                (makers.software, "swdge with gpsimd"),
                (makers.fixed, "none"),
            ];
            let offered: Vec<&str> =
                offered.into_iter().filter(|(offered, _)| *offered).map(|(_, name)| name).collect();
            Err(broken(&DGE_MODE, "dge_mode", value, format!("this transfer takes {}", offered.join(", "))))
        }
    }
}

/// Who makes the descriptors of a recorded transfer.
pub fn generation_of(instruction: &Instruction) -> Generation {
    if instruction.flags & HARDWARE != 0 {
        Generation::Hardware
    } else if instruction.flags & SOFTWARE != 0 {
        Generation::Software
    } else {
        Generation::Static
    }
}
