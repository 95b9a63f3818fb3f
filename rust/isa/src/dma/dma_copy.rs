//! `dma_copy`: a transfer between HBM and SBUF, with a cast or a gather of rows.

use crate::arguments::{Arguments, Parameter, Use};
use crate::context::{Context, broken};
use crate::cost::{Cost, Movement};
use crate::dma::indirect::{self, INDEX, INDEX_BOUNDS, RowsByIndex};
use crate::dma::issue::{self, GATHER, Makers, SCATTER};
use crate::dma::traffic;
use crate::instruction::{Engine, Instruction};
use crate::machine::{Machine, Tables};
use crate::rules::{self, Rule};
use crate::table::{Definition, Exactness, Kind, Opcode, every_row, keeps_nan, no_work};
use trn3_mem::{Space, View, Violation};
use trn3_spec::Target;

/// The table's entry.
pub const DEFINITION: Definition = Definition {
    name: "dma_copy",
    doc: "Copies element i of ``src`` to element i of ``dst``, in the flattened order of both views.\n\n\
        Different data types are cast through FP32 (packed types are not cast). With ``src.ap(..., vector_offset=v)`` \
        row p comes from row ``v[p]`` of an HBM tensor (gather); with ``dst.ap(..., vector_offset=v)`` it goes there \
        (scatter; among equal rows the last one stays).",
    source: "nki/api/nki/isa/__init__.py, dma_copy; nki/get-started/about/nki-dma-overview.rst",
    kind: Kind::Transfer,
    engines: &[Engine::Sync, Engine::Scalar, Engine::Gpsimd],
    parameters: &[
        Parameter {
            name: "dst",
            default: None,
            usage: Use::Write,
            doc: "SBUF or HBM, any shape of as many elements as src.",
        },
        Parameter { name: "src", default: None, usage: Use::Read, doc: "SBUF or HBM." },
        Parameter {
            name: "priority",
            default: Some("None"),
            usage: Use::Constant,
            doc: "Service class 0 (most urgent) to 3, from v4.",
        },
        Parameter {
            name: "oob_mode",
            default: Some("oob_mode.error"),
            usage: Use::Constant,
            doc: "What a row index outside the tensor does: oob_mode.error or oob_mode.skip (the row keeps its old bytes).",
        },
        Parameter {
            name: "dge_mode",
            default: Some("dge_mode.unknown"),
            usage: Use::Constant,
            doc: "Who makes the descriptors: dge_mode.hwdge (from v3), swdge, none or unknown (hwdge where it is possible).",
        },
        Parameter {
            name: "engine",
            default: Some("engine.unknown"),
            usage: Use::Constant,
            doc: "engine.sync or engine.scalar with hwdge; engine.unknown is sync.",
        },
    ],
    rules: &[
        SIZE,
        CAST,
        issue::PRIORITY,
        issue::PRIORITY_GENERATION,
        issue::DGE_MODE,
        issue::HWDGE_GENERATION,
        issue::INDIRECT_GENERATION,
        INDEX,
        INDEX_BOUNDS,
    ],
    exactness: Exactness::BitExact,
    build,
    execute,
    hides_nan: keeps_nan,
    rows: every_row,
    cost,
    work: no_work,
};

const SIZE: Rule = Rule {
    id: "dma_copy.size",
    text: "dst and src have the same number of elements",
    source: "nki/api/nki/isa/__init__.py, dma_copy",
    fix: "slice both sides to the same number of elements",
};
const CAST: Rule = Rule {
    id: "dma_copy.cast",
    text: "packed types are moved, not cast",
    source: "nki/get-started/about/nki-dma-overview.rst",
    fix: "use .view() so that both sides have the same packed type, or uint8, uint16 or uint32",
};
/// Memories that the DMA engines reach.
const MEMORIES: &[Space] = &[Space::Sbuf, Space::PrivateHbm, Space::SharedHbm];

/// Checks one side of a transfer: its memory, and on chip what holds of every tile.
pub(super) fn check_side(context: &mut Context<'_>, view: &View, name: &'static str) -> Result<(), Violation> {
    if view.space.is_on_chip() {
        return context.check_tile(view, name, MEMORIES);
    }
    if MEMORIES.contains(&view.space) {
        return Ok(());
    }
    let value = format!("is in {}", view.space.name());
    Err(broken(&rules::OPERAND_SPACE, name, value, "must be in sbuf or hbm"))
}

fn build(arguments: &Arguments<'_>, context: &mut Context<'_>) -> Result<Instruction, Violation> {
    let (dst, src) = (arguments.view("dst")?, arguments.view("src")?);
    check_side(context, dst, "dst")?;
    check_side(context, src, "src")?;
    indirect::check_index(dst, "dst")?;
    indirect::check_index(src, "src")?;
    if dst.elements() != src.elements() {
        let value = format!("has {} elements, {:?}", src.elements(), src.shape().as_slice());
        return Err(broken(&SIZE, "src", value, format!("dst has {}, {:?}", dst.elements(), dst.shape().as_slice())));
    }
    if dst.dtype != src.dtype && (dst.dtype.is_packed() || src.dtype.is_packed()) {
        let value = format!("is {}", src.dtype.name());
        return Err(broken(&CAST, "src", value, format!("dst is {}", dst.dtype.name())));
    }
    let mut instruction = Instruction::new(Opcode::DmaCopy, Engine::Sync);
    let by_index = dst.index.is_some() || src.index.is_some();
    let makers = Makers { hardware: dst.dtype == src.dtype && !by_index, software: true, fixed: !by_index };
    issue::issue(&mut instruction, arguments, context, makers)?;
    context.writes(&mut instruction, 0, dst);
    context.reads(&mut instruction, 1, src);
    match (&dst.index, &src.index) {
        (Some(_), Some(_)) => return Err(broken(&INDEX, "src", "has indices", "only one side has them")),
        (Some(index), None) => {
            instruction.flags |= SCATTER;
            context.reads(&mut instruction, 2, index);
            // RowsByIndex that are not named keep their bytes: what a scatter writes is not known while recording.
            instruction.reads |= 1;
            instruction.dynamic |= 1;
        }
        (None, Some(index)) => {
            instruction.flags |= GATHER;
            context.reads(&mut instruction, 2, index);
            instruction.dynamic |= 1 << 1;
        }
        (None, None) => {}
    }
    if issue::skips(&instruction) {
        // What is skipped keeps its bytes.
        instruction.reads |= 1;
    }
    Ok(instruction)
}

fn execute(instruction: &Instruction, machine: &mut Machine<'_>) -> Result<(), Violation> {
    let [dst, src, index, ..] = instruction.operands;
    if instruction.flags & (GATHER | SCATTER) == 0 {
        return machine.copy(&dst, &src);
    }
    let gathers = instruction.flags & GATHER != 0;
    let rows = RowsByIndex::new(instruction, machine, if gathers { &src } else { &dst }, &index);
    let other = machine.tables.geometry(if gathers { &dst } else { &src });
    let row = rows.row_elements();
    let cast = machine.options.cast;
    let (from, to) = (machine.tables.pattern(&src).dtype, machine.tables.pattern(&dst).dtype);
    let count = rows.numbers.len();
    // Where both sides are one tensor, everything is read before anything is written.
    let at_once = if machine.same_slab(&src, &dst) { count } else { 1 };
    let size = row * from.size_bytes();
    let mut bytes = vec![0u8; if from == to { at_once * size } else { 0 }];
    let mut values = vec![0f32; if from == to { 0 } else { at_once * row }];
    for first in (0..count).step_by(at_once) {
        for (at, position) in (first..count).take(at_once).enumerate() {
            let Some(one) = rows.row(position)? else { continue };
            let (geometry, element) = if gathers { (one, 0) } else { (other.clone(), position * row) };
            let source = trn3_mem::Tile { bytes: machine.memory.bytes(src.tensor), geometry };
            if from == to {
                source.read_bytes(element, &mut bytes[at * size..][..size]);
            } else {
                source.read_f32(element, &mut values[at * row..][..row]);
            }
        }
        for (at, position) in (first..count).take(at_once).enumerate() {
            let Some(one) = rows.row(position)? else { continue };
            let (geometry, element) = if gathers { (other.clone(), position * row) } else { (one, 0) };
            let mut target = trn3_mem::TileMut { bytes: machine.memory.bytes_mut(dst.tensor), geometry };
            if from == to {
                target.write_bytes(element, &bytes[at * size..][..size]);
            } else {
                target.write_f32(element, &values[at * row..][..row], cast);
            }
        }
    }
    Ok(())
}

fn cost(instruction: &Instruction, tables: &Tables<'_>, _: &Target) -> Cost {
    let [dst, src, ..] = instruction.operands;
    Cost::Transfer(traffic::transfer(instruction, tables, Movement::Copy, &dst, &[&src]))
}
