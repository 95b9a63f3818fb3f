//! `dma_copy`: a transfer between HBM and SBUF, with a cast or a gather of rows.

use crate::arguments::{Arguments, Parameter, Use};
use crate::context::{Context, broken};
use crate::cost::{Cost, Transfer};
use crate::dma::issue;
use crate::instruction::{Engine, Instruction};
use crate::machine::{Machine, Tables};
use crate::rules::{self, Rule};
use crate::table::{Definition, Exactness, Kind, Opcode, every_row, keeps_nan, no_work};
use trn3_mem::{Dim, Geometry, Space, View, Violation};
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
        issue::HWDGE,
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
const INDEX: Rule = Rule {
    id: "dma_copy.index",
    text: "vector_offset is a (P, 1) tile of int32 or uint32 in SBUF, one index a row, and the other side is in SBUF or HBM",
    source: "nki/deep-dives/nki-aps.rst",
    fix: "give one index for each row of the pattern",
};
const INDEX_BOUNDS: Rule = Rule {
    id: "dma_copy.index_bounds",
    text: "a row index lies inside the tensor, unless oob_mode.skip",
    source: "nki/api/nki/isa/__init__.py, dma_copy",
    fix: "check the indices, or use oob_mode.skip",
};

const GATHER: u16 = 1 << 3;
const SCATTER: u16 = 1 << 4;

const MEMORIES: &[Space] = &[Space::Sbuf, Space::PrivateHbm, Space::SharedHbm];

fn check_side(context: &mut Context<'_>, view: &View, name: &'static str) -> Result<(), Violation> {
    if view.space.is_on_chip() {
        return context.check_tile(view, name, MEMORIES);
    }
    if !MEMORIES.contains(&view.space) {
        return Err(broken(
            &rules::OPERAND_SPACE,
            name,
            format!("is in {}", view.space.name()),
            "must be in sbuf or hbm",
        ));
    }
    if let Some(index) = &view.index {
        let words = matches!(index.dtype, trn3_num::Dtype::Int32 | trn3_num::Dtype::Uint32);
        if !words || index.space != Space::Sbuf || index.elements() != u64::from(view.dims[0].count) {
            let value =
                format!("has indices {} {:?} in {}", index.dtype.name(), index.shape().as_slice(), index.space.name());
            return Err(broken(
                &INDEX,
                name,
                value,
                format!("must be int32 or uint32 ({}, 1) in sbuf", view.dims[0].count),
            ));
        }
    }
    Ok(())
}

fn build(arguments: &Arguments<'_>, context: &mut Context<'_>) -> Result<Instruction, Violation> {
    let (dst, src) = (arguments.view("dst")?, arguments.view("src")?);
    check_side(context, dst, "dst")?;
    check_side(context, src, "src")?;
    if dst.elements() != src.elements() {
        let value = format!("has {} elements, {:?}", src.elements(), src.shape().as_slice());
        return Err(broken(&SIZE, "src", value, format!("dst has {}, {:?}", dst.elements(), dst.shape().as_slice())));
    }
    if dst.dtype != src.dtype && (dst.dtype.is_packed() || src.dtype.is_packed()) {
        let value = format!("is {}", src.dtype.name());
        return Err(broken(&CAST, "src", value, format!("dst is {}", dst.dtype.name())));
    }
    let mut instruction = Instruction::new(Opcode::DmaCopy, Engine::Sync);
    let indirect = dst.index.is_some() || src.index.is_some();
    issue::issue(&mut instruction, arguments, context, dst.dtype != src.dtype, indirect)?;
    context.writes(&mut instruction, 0, dst);
    context.reads(&mut instruction, 1, src);
    match (&dst.index, &src.index) {
        (Some(_), Some(_)) => return Err(broken(&INDEX, "src", "has indices", "only one side has them")),
        (Some(index), None) => {
            instruction.flags |= SCATTER;
            context.reads(&mut instruction, 2, index);
            // Rows that are not named keep their bytes: what a scatter writes is not known while recording.
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
    Ok(instruction)
}

fn execute(instruction: &Instruction, machine: &mut Machine<'_>) -> Result<(), Violation> {
    let [dst, src, index, ..] = instruction.operands;
    if instruction.flags & (GATHER | SCATTER) == 0 {
        return machine.copy(&dst, &src);
    }
    let gathers = instruction.flags & GATHER != 0;
    let indirect = if gathers { src } else { dst };
    let tile = machine.tile(&index);
    let mut rows = vec![0; tile.geometry.elements()];
    tile.read_words(0, &mut rows);
    let tensor = machine.tables.tensor(&indirect);
    let limit = tensor.shape[0];
    let scale = tensor.dtype.size_bytes() as i64;
    let geometry = machine.tables.geometry(&indirect);
    let stride = (tensor.size() / u64::from(limit)) as i64 * scale / geometry.dtype.size_bytes() as i64;
    let other = machine.tables.geometry(if gathers { &dst } else { &src });
    let row = geometry.row_elements();
    let mut bytes = vec![0u8; row * geometry.dtype.size_bytes()];
    let mut values = vec![0f32; row];
    let cast = machine.options.cast;
    let (from, to) = (machine.tables.pattern(&src).dtype, machine.tables.pattern(&dst).dtype);
    let elements = (tensor.bytes() / geometry.dtype.size_bytes() as u64) as i64;
    // Lowest and highest element of a row of the pattern, from its start.
    let ends = geometry.dims[1..].iter().map(|dim| dim.stride * (i64::from(dim.count) - 1));
    let (low, high) = ends.fold((0, 0), |(low, high), end| (low + end.min(0), high + end.max(0)));
    for (position, &at) in rows.iter().enumerate() {
        let start = geometry.offset + stride * i64::from(at);
        if at >= limit || start + low < 0 || start + high >= elements {
            if issue::skips(instruction) {
                continue;
            }
            let operand = if gathers { "src" } else { "dst" };
            let value = format!("index {} is {}", position, at as i32);
            let reach = format!("the tensor has {limit} rows, {elements} elements; the row starts at element {start}");
            return Err(broken(&INDEX_BOUNDS, operand, value, reach));
        }
        let mut one = Geometry { dims: geometry.dims[1..].into(), ..geometry.clone() };
        one.dims.insert(0, Dim { stride, count: 1 });
        one.offset = start;
        let (read, write) = if gathers { (&one, &other) } else { (&other, &one) };
        let (read_first, write_first) = if gathers { (0, position * row) } else { (position * row, 0) };
        let source = trn3_mem::Tile { bytes: machine.memory.bytes(src.tensor), geometry: read.clone() };
        if from == to {
            source.read_bytes(read_first, &mut bytes);
        } else {
            source.read_f32(read_first, &mut values);
        }
        let mut target = trn3_mem::TileMut { bytes: machine.memory.bytes_mut(dst.tensor), geometry: write.clone() };
        if from == to {
            target.write_bytes(write_first, &bytes);
        } else {
            target.write_f32(write_first, &values, cast);
        }
    }
    Ok(())
}

fn cost(instruction: &Instruction, tables: &Tables<'_>, _: &Target) -> Cost {
    let [dst, src, ..] = instruction.operands;
    let (to, from) = (tables.tensor(&dst), tables.tensor(&src));
    let bytes = tables.geometry(&dst).elements() as u64 * tables.pattern(&dst).dtype.size_bytes() as u64;
    let (mut piece, other) = (issue::run_bytes(&dst, tables), issue::run_bytes(&src, tables));
    // Elements of unequal size are counted in bytes of dst.
    let other = other * tables.pattern(&dst).dtype.size_bytes() as u64 / tables.pattern(&src).dtype.size_bytes() as u64;
    piece = greatest_common_divisor(piece, other.max(1));
    if instruction.flags & GATHER != 0 {
        piece = piece.min(tables.geometry(&src).row_elements() as u64 * tables.pattern(&dst).dtype.size_bytes() as u64);
    }
    let chip_side = [&dst, &src].into_iter().find(|operand| tables.tensor(operand).space.is_on_chip());
    let (partitions, partition_start) = chip_side.map_or((0, 0), |operand| {
        let row = tables.tensor(operand).partition_bytes() / tables.pattern(operand).dtype.size_bytes() as u64;
        (tables.pattern(operand).dims[0].count, (operand.offset as u64 / row.max(1)) as u32)
    });
    Cost::Transfer(Transfer {
        from: from.space,
        to: to.space,
        partitions,
        partition_start,
        bytes,
        piece_bytes: piece,
        generation: issue::generation_of(instruction),
        priority: issue::priority_of(instruction),
    })
}

fn greatest_common_divisor(a: u64, b: u64) -> u64 {
    if b == 0 { a } else { greatest_common_divisor(b, a % b) }
}
