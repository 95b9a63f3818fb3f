//! `sendrecv`: the two cores exchange tiles.

use super::{GENERATION, LOGICAL, check_logical};
use crate::arguments::{Arguments, Parameter, Use};
use crate::context::{Context, SBUF, broken};
use crate::cost::{Cost, Generation, Meeting, Movement, Transfer};
use crate::dma::traffic;
use crate::instruction::{Engine, Instruction};
use crate::machine::{Machine, Tables};
use crate::rules::Rule;
use crate::table::{Definition, Exactness, Kind, Opcode, every_row, keeps_nan, no_work};
use trn3_mem::Violation;
use trn3_spec::Target;

/// The table's entry.
pub const DEFINITION: Definition = Definition {
    name: "sendrecv",
    doc: "Sends ``src`` to the ``dst`` of core ``send_to_rank`` while ``dst`` gets what core ``recv_from_rank`` sends.\n\n\
        Both cores come to it before data moves; the exchange is done for both at once. ``dma_engine.dma`` moves the \
        tile through the DMA engines, ``dma_engine.gpsimd_dma`` through those inside GpSimdE, which start sooner.",
    source: "nki/api/nki/isa/__init__.py, sendrecv",
    kind: Kind::Exchange,
    engines: &[Engine::Sync, Engine::Gpsimd],
    parameters: &[
        Parameter {
            name: "src",
            default: None,
            usage: Use::Read,
            doc: "SBUF, (P, F), any type: what this core sends.",
        },
        Parameter { name: "dst", default: None, usage: Use::Write, doc: "SBUF, of src's shape and type." },
        Parameter { name: "send_to_rank", default: None, usage: Use::Constant, doc: "0 or 1: the core that gets src." },
        Parameter {
            name: "recv_from_rank",
            default: None,
            usage: Use::Constant,
            doc: "0 or 1: the core whose src comes to dst.",
        },
        Parameter {
            name: "pipe_id",
            default: None,
            usage: Use::Constant,
            doc: "Names the group; both cores give the same one.",
        },
        Parameter {
            name: "dma_engine",
            default: Some("dma_engine.dma"),
            usage: Use::Constant,
            doc: "dma_engine.dma or dma_engine.gpsimd_dma.",
        },
    ],
    rules: &[GENERATION, LOGICAL, TILES, RANK, SIZE, DIRECT_GENERATION],
    exactness: Exactness::BitExact,
    build,
    execute,
    hides_nan: keeps_nan,
    rows: every_row,
    cost,
    work: no_work,
};

const TILES: Rule = Rule {
    id: "sendrecv.tiles",
    text: "src and dst have the same data type and the same shape",
    source: "nki/api/nki/isa/__init__.py, sendrecv",
    fix: "declare dst like src",
};
const RANK: Rule = Rule {
    id: "sendrecv.rank",
    text: "ranks are 0 or 1, and pipe_id is an integer that is not negative",
    source: "nki/api/nki/isa/__init__.py, sendrecv",
    fix: "name the other core: 1 - nl.program_id(0)",
};
const SIZE: Rule = Rule {
    id: "sendrecv.size",
    text: "the DMA engines inside GpSimdE move at most 256 elements a partition",
    source: "nki/api/nki/isa/__init__.py, sendrecv (1024, 512 and 256 bytes of 32, 16 and 8 bits)",
    fix: "use dma_engine.dma, or split the tile",
};

const DIRECT_GENERATION: Rule = Rule {
    id: "sendrecv.direct_generation",
    text: "GpSimdE has DMA engines of its own from NeuronCore-v3 (trn2) on",
    source: "nki/guides/architecture/trainium2_arch.rst",
    fix: "use dma_engine.dma",
};

const DIRECT: u16 = 1 << 4;

/// Where an exchange sends and from where it gets, and its group.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Exchange {
    /// The core that gets `src`.
    pub to: u32,
    /// The core whose tile comes.
    pub from: u32,
    /// The group.
    pub pipe: u32,
}

/// What a recorded exchange says.
pub fn exchange_of(instruction: &Instruction) -> Exchange {
    let [to, from, pipe, _] = instruction.constants;
    Exchange { to, from, pipe }
}

fn build(arguments: &Arguments<'_>, context: &mut Context<'_>) -> Result<Instruction, Violation> {
    check_logical(context, "send_to_rank")?;
    let (src, dst) = (arguments.view("src")?, arguments.view("dst")?);
    context.check_tile(src, "src", SBUF)?;
    context.check_tile(dst, "dst", SBUF)?;
    if src.dtype != dst.dtype || src.shape() != dst.shape() {
        let value = format!("is {} {:?}", dst.dtype.name(), dst.shape().as_slice());
        return Err(broken(&TILES, "dst", value, format!("src is {} {:?}", src.dtype.name(), src.shape().as_slice())));
    }
    let direct = arguments.member("dma_engine", "dma_engine")? == Some("gpsimd_dma");
    if direct && !context.target.core.capability.gpsimd_dma {
        return Err(context.lacking(&DIRECT_GENERATION, "dma_engine", Some("is gpsimd_dma".into())));
    }
    let limit = context.target.core.gpsimd.dma.as_ref().map_or(u64::MAX, |dma| dma.elements_max);
    if direct && src.free_size() > limit {
        let value = format!("has {} elements a partition", src.free_size());
        return Err(broken(&SIZE, "src", value, format!("limit {limit}")));
    }
    let mut instruction = Instruction::new(Opcode::Sendrecv, if direct { Engine::Gpsimd } else { Engine::Sync });
    if direct {
        instruction.flags |= DIRECT;
    }
    for (at, (name, limit)) in
        [("send_to_rank", 2), ("recv_from_rank", 2), ("pipe_id", 1 << 31)].into_iter().enumerate()
    {
        let value = arguments.int(name)?;
        if !(0..limit).contains(&value) {
            return Err(broken(&RANK, name, format!("is {value}"), RANK.text));
        }
        instruction.constants[at] = value as u32;
    }
    context.reads(&mut instruction, 0, src);
    context.writes(&mut instruction, 1, dst);
    Ok(instruction)
}

/// The interpreter of the pair moves the bytes.
fn execute(_: &Instruction, _: &mut Machine<'_>) -> Result<(), Violation> {
    Ok(())
}

fn cost(instruction: &Instruction, tables: &Tables<'_>, target: &Target) -> Cost {
    let [src, dst, ..] = instruction.operands;
    let geometry = tables.geometry(&src);
    let bytes = (geometry.elements() * geometry.dtype.size_bytes()) as u64;
    if instruction.flags & DIRECT != 0 {
        return Cost::Meeting(Meeting::Direct { bytes });
    }
    let hardware = target.core.capability.hardware_dge;
    Cost::Meeting(Meeting::Exchange(Transfer {
        generation: if hardware { Generation::Hardware } else { Generation::Static },
        priority: target.chip.dma.priority_default.unwrap_or(0) as u8,
        ..traffic::transfer(instruction, tables, Movement::Copy, &dst, &[&src])
    }))
}
