//! `dma_compute`: a sum of several tiles on their way, or rows by index that are added to.
//!
//! An instruction has room for four sources. A sum of more is recorded as several: all but the last keep their partial
//! sums in FP32 where no other instruction sees them, and the last one writes `dst`.

use crate::arguments::{Argument, Arguments, Parameter, Use};
use crate::context::{Context, Strictness, broken};
use crate::cost::{Cost, Movement};
use crate::dma::dma_copy::check_side;
use crate::dma::indirect::{self, INDEX, INDEX_BOUNDS, RowsByIndex};
use crate::dma::issue::{self, GATHER, Makers, OWN, SCATTER};
use crate::dma::traffic;
use crate::instruction::{Engine, Instruction, Operand};
use crate::machine::{CHUNK, Machine, Tables, spans_apart};
use crate::operator::{Operator, canonical};
use crate::rules::Rule;
use crate::table::{Definition, Exactness, Kind, Opcode, every_row, keeps_nan, no_work};
use smallvec::SmallVec;
use trn3_mem::{Tile, TileMut, View, Violation};
use trn3_num::Dtype;
use trn3_spec::Target;

/// The table's entry.
pub const DEFINITION: Definition = Definition {
    name: "dma_compute",
    doc: "Adds tiles on their way: ``dst = cast(srcs[0] + srcs[1] + ...)``, element by element in flattened order.\n\n\
        The sum is FP32, taken from the first source to the last, and converted once; with one source it is a cast. \
        With ``vector_offset`` it has two sources and adds rows in place: ``dst[v] = dst[v] + data`` for ``srcs`` of \
        the same view and the data (scatter), ``dst = dst + src[v]`` (gather). With unique_indices=False equal rows of \
        a scatter are added one after the other; with True each adds to what was there before, and the last one stays. \
        It moves at half the rate of a copy, every source counted; adding BF16 or FP32 to a tile in SBUF at the full \
        rate from v4.",
    source: "nki/api/nki/isa/__init__.py, dma_compute; nki/guides/architecture/trainium3_arch.rst",
    kind: Kind::Transfer,
    engines: &[Engine::Sync, Engine::Gpsimd],
    parameters: &[
        Parameter {
            name: "dst",
            default: None,
            usage: Use::Write,
            doc: "SBUF or HBM, any shape of as many elements as each source; no packed type.",
        },
        Parameter { name: "srcs", default: None, usage: Use::Read, doc: "A list of 1 to 16 tiles in SBUF or HBM." },
        Parameter { name: "reduce_op", default: None, usage: Use::Constant, doc: "nl.add." },
        Parameter { name: "scales", default: Some("None"), usage: Use::Constant, doc: "None, or 1.0 for each source." },
        Parameter {
            name: "unique_indices",
            default: Some("True"),
            usage: Use::Constant,
            doc: "Whether no row of a scatter is named twice. False is accepted with a finding.",
        },
        Parameter {
            name: "oob_mode",
            default: Some("oob_mode.error"),
            usage: Use::Constant,
            doc: "What a row index outside the tensor does: oob_mode.error or oob_mode.skip (the row keeps its old bytes).",
        },
    ],
    rules: &[
        SOURCES,
        SIZE,
        OPERATOR,
        SCALES,
        DTYPE,
        STATIC,
        BY_INDEX,
        IN_PLACE,
        UNIQUE,
        DUPLICATES,
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

const SOURCES: Rule = Rule {
    id: "dma_compute.sources_max",
    text: "srcs is a list of 1 to 16 tiles",
    source: "nki/api/nki/isa/__init__.py, dma_compute",
    fix: "add the tiles in several instructions",
};
const SIZE: Rule = Rule {
    id: "dma_compute.size",
    text: "dst and each source have the same number of elements",
    source: "nki/api/nki/isa/__init__.py, dma_compute",
    fix: "slice all of them to the same number of elements",
};
const OPERATOR: Rule = Rule {
    id: "dma_compute.operator",
    text: "reduce_op is nl.add",
    source: "nki/api/nki/isa/__init__.py, dma_compute",
    fix: "use nl.add, or combine the tiles with tensor_tensor",
};
const SCALES: Rule = Rule {
    id: "dma_compute.scales",
    text: "scales is None or 1.0 for each source",
    source: "nki/api/nki/isa/__init__.py, dma_compute",
    fix: "leave scales out, and scale with tensor_scalar or activation",
};
const DTYPE: Rule = Rule {
    id: "dma_compute.dtype",
    text: "packed types are moved, not added",
    source: "nki/get-started/about/nki-dma-overview.rst",
    fix: "use dma_copy",
};
const STATIC: Rule = Rule {
    id: "dma_compute.static",
    text: "addresses are known while recording, but for vector_offset",
    source: "nki/api/nki/isa/__init__.py, dma_compute",
    fix: "copy with dma_copy first, which takes scalar_offset",
};
const BY_INDEX: Rule = Rule {
    id: "dma_compute.by_index",
    text: "with vector_offset there are exactly two sources, and one of dst and the sources, in HBM, has indices; if dst has, \
        one source is the same view",
    source: "nki/api/nki/isa/__init__.py, dma_compute",
    fix: "write dma_compute(dst_rows, [dst_rows, data], nl.add) or dma_compute(tile, [tile, src_rows], nl.add)",
};
const IN_PLACE: Rule = Rule {
    id: "dma_compute.in_place",
    text: "a gather adds to dst, which is in SBUF: the source without indices is the same view; the data of a scatter is in SBUF",
    source: "nki/api/nki/isa/__init__.py, dma_compute",
    fix: "name dst among the sources",
};
const UNIQUE: Rule = Rule {
    id: "dma_compute.unique_indices",
    text: "unique_indices is True; False is not supported by the device yet",
    source: "nki/api/nki/isa/__init__.py, dma_compute",
    fix: "make the indices unique, for example by adding equal rows first",
};
const DUPLICATES: Rule = Rule {
    id: "dma_compute.duplicates",
    text: "with unique_indices=True no row is named twice",
    source: "nki/api/nki/isa/__init__.py, dma_compute",
    fix: "make the indices unique",
};

/// Slots of sources: from the second on.
const SOURCE_SLOTS: usize = 4;
/// Adds to the partial sums that the instruction before it kept.
const CONTINUES: u16 = OWN;
/// Keeps its partial sums for the next instruction.
const KEEPS: u16 = OWN << 1;
/// RowsByIndex may be named more than once.
const REPEATS: u16 = OWN << 2;

/// The sources, checked one by one.
fn sources_of<'a>(arguments: &Arguments<'a>, context: &mut Context<'_>) -> Result<SmallVec<[&'a View; 16]>, Violation> {
    let limit = context.target.chip.dma.compute_sources_max as usize;
    let Argument::List(items) = arguments.get("srcs") else {
        return Err(broken(&SOURCES, "srcs", format!("is {}", arguments.get("srcs").describe()), SOURCES.text));
    };
    if items.is_empty() || items.len() > limit {
        return Err(broken(&SOURCES, "srcs", format!("has {} tiles", items.len()), format!("1 to {limit}")));
    }
    let mut sources = SmallVec::new();
    for item in items {
        let Argument::View(view) = item else {
            return Err(broken(&SOURCES, "srcs", format!("holds {}", item.describe()), SOURCES.text));
        };
        sources.push(&**view);
    }
    Ok(sources)
}

fn check(arguments: &Arguments<'_>, context: &mut Context<'_>, dst: &View, sources: &[&View]) -> Result<(), Violation> {
    check_tile(context, dst, "dst", dst)?;
    for source in sources {
        check_tile(context, source, "srcs", dst)?;
    }
    if context.operator(arguments, "reduce_op")? != Some(Operator::Add) {
        let value = format!("is {}", arguments.get("reduce_op").describe());
        return Err(broken(&OPERATOR, "reduce_op", value, OPERATOR.text));
    }
    let ones = match arguments.get("scales") {
        Argument::None => true,
        Argument::List(scales) => {
            let is_one = |scale: &Argument| matches!(scale, Argument::Int(1)) || *scale == Argument::Float(1.0);
            scales.len() == sources.len() && scales.iter().all(is_one)
        }
        _ => false,
    };
    if !ones {
        let value = format!("is {}", arguments.get("scales").describe());
        return Err(broken(&SCALES, "scales", value, format!("None, or 1.0 for each of {} sources", sources.len())));
    }
    Ok(())
}

fn check_tile(context: &mut Context<'_>, view: &View, name: &'static str, dst: &View) -> Result<(), Violation> {
    check_side(context, view, name)?;
    indirect::check_index(view, name)?;
    if view.dtype.is_packed() {
        return Err(broken(&DTYPE, name, format!("is {}", view.dtype.name()), DTYPE.text));
    }
    if view.scalar.is_some() {
        return Err(broken(&STATIC, name, "has a scalar_offset", STATIC.text));
    }
    if view.elements() != dst.elements() {
        let value = format!("has {} elements, {:?}", view.elements(), view.shape().as_slice());
        let limit = format!("dst has {}, {:?}", dst.elements(), dst.shape().as_slice());
        return Err(broken(&SIZE, name, value, limit));
    }
    Ok(())
}

fn build(arguments: &Arguments<'_>, context: &mut Context<'_>) -> Result<Instruction, Violation> {
    let dst = arguments.view("dst")?;
    let sources = sources_of(arguments, context)?;
    check(arguments, context, dst, &sources)?;
    let by_index = dst.index.is_some() || sources.iter().any(|source| source.index.is_some());
    let makers = Makers { hardware: false, software: by_index, fixed: !by_index };
    let mut instruction = Instruction::new(Opcode::DmaCompute, Engine::Sync);
    issue::issue(&mut instruction, arguments, context, makers)?;
    if arguments.flag_or_none("unique_indices")? == Some(false) {
        instruction.flags |= REPEATS;
        context.deviation(Strictness::Documented, broken(&UNIQUE, "unique_indices", "is False", UNIQUE.text))?;
    }
    if by_index {
        return build_by_index(instruction, context, dst, &sources);
    }
    let mut groups = sources.chunks(SOURCE_SLOTS).peekable();
    let first = instruction;
    while let Some(group) = groups.next() {
        for (at, source) in group.iter().enumerate() {
            context.reads(&mut instruction, at + 1, source);
        }
        if groups.peek().is_none() {
            break;
        }
        instruction.operands[0] = context.operand(dst);
        instruction.flags |= KEEPS;
        context.before.push(instruction);
        instruction = Instruction { flags: first.flags | CONTINUES, ..first };
    }
    context.writes(&mut instruction, 0, dst);
    Ok(instruction)
}

/// RowsByIndex by index: two sources, of which one is what is added to.
fn build_by_index(
    mut instruction: Instruction,
    context: &mut Context<'_>,
    dst: &View,
    sources: &[&View],
) -> Result<Instruction, Violation> {
    let &[a, b] = sources else {
        return Err(broken(&BY_INDEX, "srcs", format!("has {} tiles", sources.len()), "exactly 2 with vector_offset"));
    };
    context.writes(&mut instruction, 0, dst);
    if let Some(index) = &dst.index {
        let data = if a == dst { b } else { a };
        if (a != dst && b != dst) || data.index.is_some() {
            return Err(broken(&BY_INDEX, "srcs", "does not name the view of dst once", BY_INDEX.text));
        }
        if !data.space.is_on_chip() {
            let violation = broken(&IN_PLACE, "srcs", format!("has data in {}", data.space.name()), IN_PLACE.text);
            context.deviation(Strictness::Documented, violation)?;
        }
        instruction.flags |= SCATTER;
        instruction.reads |= 1;
        instruction.dynamic |= 1;
        context.reads(&mut instruction, 1, data);
        context.reads(&mut instruction, 2, index);
        return Ok(instruction);
    }
    let (rows, other) = if a.index.is_some() { (a, b) } else { (b, a) };
    let Some(index) = rows.index.as_ref().filter(|_| other.index.is_none()) else {
        return Err(broken(&BY_INDEX, "srcs", "has indices twice", BY_INDEX.text));
    };
    if other != dst || !dst.space.is_on_chip() {
        let value =
            if other == dst { format!("is in {}", dst.space.name()) } else { "is not among the sources".into() };
        context.deviation(Strictness::Documented, broken(&IN_PLACE, "dst", value, IN_PLACE.text))?;
    }
    instruction.flags |= GATHER;
    instruction.dynamic |= 1 << 1;
    context.reads(&mut instruction, 1, rows);
    context.reads(&mut instruction, 2, index);
    context.reads(&mut instruction, 3, other);
    if issue::skips(&instruction) {
        // What is skipped keeps its bytes.
        instruction.reads |= 1;
    }
    Ok(instruction)
}

fn execute(instruction: &Instruction, machine: &mut Machine<'_>) -> Result<(), Violation> {
    if instruction.flags & (GATHER | SCATTER) != 0 {
        return add_rows(instruction, machine);
    }
    let sources: SmallVec<[Operand; SOURCE_SLOTS]> =
        instruction.operands[1..].iter().copied().filter(|o| o.is_some()).collect();
    let mut sums = std::mem::take(&mut machine.registers.sums);
    let dst = instruction.operands[0];
    let place = machine.tables.geometry(&dst);
    let elements = place.elements();
    let keeps = instruction.flags & KEEPS != 0;
    let continues = instruction.flags & CONTINUES != 0;
    let meets = |source: &Operand| {
        let geometry = machine.tables.geometry(source);
        machine.same_slab(source, &dst) && geometry != place && !spans_apart(&geometry, &place)
    };
    let mut buffer = [0f32; CHUNK];
    if keeps || sources.iter().any(meets) {
        sums.resize(elements, 0.0);
        for (at, out) in sums.chunks_mut(CHUNK).enumerate() {
            add(machine, &sources, continues, at * CHUNK, out, &mut buffer);
        }
        if !keeps {
            write(machine, &dst, 0, &mut sums);
        }
    } else {
        let mut out = [0f32; CHUNK];
        for first in (0..elements).step_by(CHUNK) {
            let out = &mut out[..CHUNK.min(elements - first)];
            if continues {
                out.copy_from_slice(&sums[first..first + out.len()]);
            }
            add(machine, &sources, continues, first, out, &mut buffer);
            write(machine, &dst, first, out);
        }
    }
    machine.registers.sums = sums;
    Ok(())
}

/// Adds elements `first..` of the sources to `sums` (`started`), or makes it their sum.
fn add(
    machine: &Machine<'_>,
    sources: &[Operand],
    started: bool,
    first: usize,
    sums: &mut [f32],
    buffer: &mut [f32; CHUNK],
) {
    for (at, source) in sources.iter().enumerate() {
        let tile = machine.tile(source);
        if at == 0 && !started {
            tile.read_f32(first, sums);
            continue;
        }
        let values = &mut buffer[..sums.len()];
        tile.read_f32(first, values);
        sums.iter_mut().zip(values).for_each(|(sum, value)| *sum += *value);
    }
}

/// Converts sums to elements `first..` of a tile.
fn write(machine: &mut Machine<'_>, dst: &Operand, first: usize, sums: &mut [f32]) {
    sums.iter_mut().for_each(|sum| *sum = canonical(*sum));
    let geometry = machine.tables.geometry(dst);
    TileMut { bytes: machine.memory.bytes_mut(dst.tensor), geometry }.write_f32(first, sums, machine.options.cast);
}

/// Adds the rows that an index names: to each the data, or each to the tile.
fn add_rows(instruction: &Instruction, machine: &mut Machine<'_>) -> Result<(), Violation> {
    let [dst, source, index, other, _] = instruction.operands;
    let scatters = instruction.flags & SCATTER != 0;
    let (indirect, dense) = if scatters { (dst, source) } else { (source, other) };
    let rows = RowsByIndex::new(instruction, machine, &indirect, &index);
    let count = rows.row_elements();
    if scatters && instruction.flags & REPEATS == 0 {
        check_unique(machine, &rows)?;
    }
    // The data are read before anything is written.
    let mut sums = vec![0f32; rows.numbers.len() * count];
    machine.tile(&dense).read_f32(0, &mut sums);
    let mut named = vec![0f32; count];
    let cast = machine.options.cast;
    // One after the other, or all of them before any is written.
    let at_once = instruction.flags & REPEATS == 0 || !scatters;
    for position in 0..rows.numbers.len() {
        let Some(row) = rows.row(position)? else { continue };
        let out = &mut sums[position * count..(position + 1) * count];
        Tile { bytes: machine.memory.bytes(indirect.tensor), geometry: row.clone() }.read_f32(0, &mut named);
        out.iter_mut().zip(&named).for_each(|(sum, value)| *sum = canonical(*value + *sum));
        if !at_once {
            TileMut { bytes: machine.memory.bytes_mut(dst.tensor), geometry: row }.write_f32(0, out, cast);
        }
    }
    if !at_once {
        return Ok(());
    }
    let whole = machine.tables.geometry(&dst);
    for (position, out) in sums.chunks_exact(count).enumerate() {
        let Some(row) = rows.row(position)? else { continue };
        let (geometry, first) = if scatters { (row, 0) } else { (whole.clone(), position * count) };
        TileMut { bytes: machine.memory.bytes_mut(dst.tensor), geometry }.write_f32(first, out, cast);
    }
    Ok(())
}

/// Reports rows that are named twice although the kernel says that none is.
fn check_unique(machine: &mut Machine<'_>, rows: &RowsByIndex) -> Result<(), Violation> {
    let moved = |&(_, position): &(u32, usize)| matches!(rows.row(position), Ok(Some(_)));
    let mut named: Vec<(u32, usize)> = rows.numbers.iter().copied().zip(0..).filter(moved).collect();
    named.sort_unstable();
    let Some(pair) = named.windows(2).find(|pair| pair[0].0 == pair[1].0) else { return Ok(()) };
    let value = format!("indices {} and {} are both {}", pair[0].1, pair[1].1, pair[0].0 as i32);
    machine.deviation(Strictness::Documented, broken(&DUPLICATES, "dst", value, DUPLICATES.text))
}

fn cost(instruction: &Instruction, tables: &Tables<'_>, target: &Target) -> Cost {
    let [dst, first, _, third, _] = &instruction.operands;
    let by_index = instruction.flags & (GATHER | SCATTER) != 0;
    let sources: SmallVec<[&Operand; SOURCE_SLOTS]> = if instruction.flags & SCATTER != 0 {
        SmallVec::from_slice(&[first, dst])
    } else if by_index {
        SmallVec::from_slice(&[first, third])
    } else {
        instruction.operands[1..].iter().filter(|operand| operand.is_some()).collect()
    };
    if let Some(added) = added_in_sbuf(instruction, tables, target, &sources) {
        return Cost::Transfer(traffic::transfer(instruction, tables, Movement::Accumulate, dst, &[added]));
    }
    let movement = if instruction.flags & KEEPS != 0 { Movement::PartialSum } else { Movement::Sum };
    Cost::Transfer(traffic::transfer(instruction, tables, movement, dst, &sources))
}

/// What is added to a tile in SBUF where SBUF itself adds: the one source that is not `dst`.
fn added_in_sbuf<'a>(
    instruction: &Instruction,
    tables: &Tables<'_>,
    target: &Target,
    sources: &[&'a Operand],
) -> Option<&'a Operand> {
    let dst = &instruction.operands[0];
    let dtype = tables.pattern(dst).dtype;
    let &[a, b] = sources else { return None };
    let added = if a == dst { b } else { a };
    let suits = target.core.capability.dma_read_add_write
        && instruction.flags & (CONTINUES | KEEPS) == 0
        && tables.tensor(dst).space.is_on_chip()
        && matches!(dtype, Dtype::Bfloat16 | Dtype::Float32)
        && tables.pattern(added).dtype == dtype
        && (a == dst || b == dst);
    suits.then_some(added)
}
