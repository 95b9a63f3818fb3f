//! What all transfers share: who triggers them, who makes their descriptors, their service class.

use crate::arguments::{Argument, Arguments};
use crate::context::{Context, broken};
use crate::cost::Generation;
use crate::instruction::{Engine, Instruction, Operand};
use crate::machine::Tables;
use crate::rules::Rule;
use trn3_mem::Violation;

pub(super) const PRIORITY: Rule = Rule {
    id: "dma_copy.priority",
    text: "priority is 0 to 3",
    source: "nki/api/nki/isa/__init__.py, dma_copy",
    fix: "leave priority out",
};
pub(super) const PRIORITY_GENERATION: Rule = Rule {
    id: "dma_copy.priority_generation",
    text: "transfers have a priority from NeuronCore-v4 (trn3) on",
    source: "nki/api/nki/isa/__init__.py, dma_copy",
    fix: "leave priority out",
};
pub(super) const HWDGE_GENERATION: Rule = Rule {
    id: "dma_copy.hwdge_generation",
    text: "hardware makes descriptors from NeuronCore-v3 (trn2) on",
    source: "nki/deep-dives/nki-dge.rst",
    fix: "leave dge_mode out",
};
pub(super) const INDIRECT_GENERATION: Rule = Rule {
    id: "dma_copy.indirect_generation",
    text: "transfers take rows by index from NeuronCore-v3 (trn2) on",
    source: "nki/deep-dives/nki-dge.rst",
    fix: "copy the rows one by one, or target trn2 or trn3",
};
pub(super) const HWDGE: Rule = Rule {
    id: "dma_copy.hwdge",
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

/// Decides engine, descriptor generation, out-of-bounds mode and service class of a transfer; the class is kept in
/// `constants[3]`. Parameters that the instruction does not have count as not given.
///
/// # Errors
/// `dma_copy.hwdge`, `dma_copy.priority`, `operand.engine`, and those of what the core lacks.
pub(super) fn issue(
    instruction: &mut Instruction,
    arguments: &Arguments<'_>,
    context: &Context<'_>,
    casts: bool,
    indirect: bool,
) -> Result<(), Violation> {
    let can = &context.target.core.capability;
    if indirect && !can.dma_indirect {
        return Err(context.lacking(&INDIRECT_GENERATION, "", None));
    }
    let (engine, generation) = issuer(arguments, context, casts, indirect)?;
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

/// Service class of a recorded transfer, 0 most urgent.
pub(super) fn priority_of(instruction: &Instruction) -> u8 {
    instruction.constants[3] as u8
}

/// The queue that triggers the transfer, and the flag of who makes its descriptors.
fn issuer(
    arguments: &Arguments<'_>,
    context: &Context<'_>,
    casts: bool,
    indirect: bool,
) -> Result<(Engine, u16), Violation> {
    let engine = if arguments.has("engine") { context.engine(arguments, ISSUERS)? } else { None };
    let hardware_exists = context.target.core.capability.hardware_dge;
    let mode = if arguments.has("dge_mode") { arguments.member("dge_mode", "dge_mode")? } else { None };
    let mode = mode.unwrap_or("unknown");
    if mode == "hwdge" && !hardware_exists {
        return Err(context.lacking(&HWDGE_GENERATION, "dge_mode", Some("is hwdge".into())));
    }
    let possible = hardware_exists && !casts && !indirect && engine != Some(Engine::Gpsimd);
    match mode {
        "hwdge" if possible => Ok((engine.unwrap_or(Engine::Sync), HARDWARE)),
        "swdge" if engine.is_none_or(|engine| engine == Engine::Gpsimd) => Ok((Engine::Gpsimd, SOFTWARE)),
        "none" if !indirect => Ok((engine.unwrap_or(Engine::Sync), 0)),
        "unknown" if possible => Ok((engine.unwrap_or(Engine::Sync), HARDWARE)),
        // Without the hardware, descriptors of static addresses are made when the kernel is loaded.
        "unknown" if !hardware_exists && !indirect && engine != Some(Engine::Gpsimd) => {
            Ok((engine.unwrap_or(Engine::Sync), 0))
        }
        "unknown" if engine.is_none_or(|engine| engine == Engine::Gpsimd) => Ok((Engine::Gpsimd, SOFTWARE)),
        _ => {
            let engine = engine.map_or("unknown", Engine::name);
            let value = format!("is {mode} with engine {engine}");
            let limit = format!(
                "{}{}not offered",
                if casts { "a cast is " } else { "" },
                if indirect { "rows by index are " } else { "" }
            );
            Err(broken(&HWDGE, "dge_mode", value, limit))
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

/// Bytes of the innermost run of a side: contiguous, and inside one partition on chip.
pub(crate) fn run_bytes(operand: &Operand, tables: &Tables<'_>) -> u64 {
    let space = tables.tensor(operand).space;
    let pattern = tables.pattern(operand);
    let first = usize::from(space.is_on_chip()).min(pattern.dims.len());
    let mut run = 1u64;
    for dim in pattern.dims[first..].iter().rev() {
        if dim.count != 1 && dim.stride != run as i64 {
            break;
        }
        run *= u64::from(dim.count);
    }
    run * pattern.dtype.size_bytes() as u64
}
