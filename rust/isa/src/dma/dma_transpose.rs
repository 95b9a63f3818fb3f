//! `dma_transpose`: a transfer that turns a tile around.

use crate::arguments::{Arguments, Parameter, Use};
use crate::context::{Context, Strictness, broken};
use crate::cost::{Cost, Movement};
use crate::dma::dma_copy::check_side;
use crate::dma::indirect::{INDEX_BOUNDS, RowsByIndex};
use crate::dma::issue::{self, GATHER, Makers};
use crate::dma::traffic;
use crate::instruction::{Engine, Instruction};
use crate::machine::{Machine, Tables};
use crate::rules::{self, Rule};
use crate::table::{Definition, Exactness, Kind, Opcode, every_row, keeps_nan, no_work};
use smallvec::SmallVec;
use trn3_mem::{Dim, Dims, Geometry, Shape, Space, Tile, TileMut, View, Violation};
use trn3_num::Dtype;
use trn3_spec::Target;

/// The table's entry.
pub const DEFINITION: Definition = Definition {
    name: "dma_transpose",
    doc: "Transposes on the way: axis k of ``dst`` is axis ``axes[k]`` of ``src``, bit by bit.\n\n\
        Two dimensions are swapped (axes (1, 0)), three are reversed (2, 1, 0), of four the outermost and the innermost \
        are swapped (3, 1, 2, 0). With ``src.ap(..., vector_offset=v)`` the rows of an HBM tensor are gathered first: \
        row r is row ``v.T.flatten()[r]``. HBM to SBUF runs at up to 0.9 of the rate of a copy, SBUF to SBUF at 0.5; \
        half as fast unless dst has a multiple of 128 partitions and of 16 elements in its last dimension.",
    source: "nki/api/nki/isa/__init__.py, dma_transpose; nki/deep-dives/nki-dge.rst",
    kind: Kind::Transfer,
    engines: &[Engine::Sync, Engine::Gpsimd],
    parameters: &[
        Parameter {
            name: "dst",
            default: None,
            usage: Use::Write,
            doc: "SBUF, exactly the transposed shape of src, its data type. HBM is accepted with a finding.",
        },
        Parameter { name: "src", default: None, usage: Use::Read, doc: "SBUF or HBM, two to four dimensions." },
        Parameter {
            name: "axes",
            default: Some("None"),
            usage: Use::Constant,
            doc: "(1, 0), (2, 1, 0) or (3, 1, 2, 0), the one that suits the rank of src; None is that one.",
        },
        Parameter {
            name: "priority",
            default: Some("None"),
            usage: Use::Constant,
            doc: "Service class 0 (most urgent) to 3, from v4.",
        },
        Parameter {
            name: "dge_mode",
            default: Some("dge_mode.unknown"),
            usage: Use::Constant,
            doc: "dge_mode.hwdge, none or unknown (hwdge where the shape suits it); by index swdge or unknown.",
        },
        Parameter {
            name: "oob_mode",
            default: Some("oob_mode.error"),
            usage: Use::Constant,
            doc: "By index or with scalar_offset: oob_mode.skip leaves what is outside the tensor as it was.",
        },
    ],
    rules: &[
        AXES,
        SHAPE,
        DTYPE,
        DST_SPACE,
        HWDGE,
        INDEX,
        SKIP,
        issue::PRIORITY,
        issue::PRIORITY_GENERATION,
        issue::DGE_MODE,
        issue::HWDGE_GENERATION,
        issue::INDIRECT_GENERATION,
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

const AXES: Rule = Rule {
    id: "dma_transpose.axes",
    text: "axes are (1, 0) of two dimensions, (2, 1, 0) of three, (3, 1, 2, 0) of four",
    source: "nki/api/nki/isa/__init__.py, dma_transpose",
    fix: "leave axes out, or reshape src to two, three or four dimensions",
};
const SHAPE: Rule = Rule {
    id: "dma_transpose.shape",
    text: "dst has exactly the transposed shape of src, with as many dimensions",
    source: "nki/migration/index.rst",
    fix: "allocate dst with the transposed shape",
};
const DTYPE: Rule = Rule {
    id: "dma_transpose.dtype",
    text: "dst and src have the same data type; with hwdge and by index it has two bytes",
    source: "nki/api/nki/isa/__init__.py, dma_transpose",
    fix: "use .view() to move other types as bits, or leave dge_mode out",
};
const DST_SPACE: Rule = Rule {
    id: "dma_transpose.dst_space",
    text: "dst is in SBUF",
    source: "nki/api/nki/isa/__init__.py, dma_transpose",
    fix: "transpose into SBUF and copy from there",
};
const HWDGE: Rule = Rule {
    id: "dma_transpose.hwdge",
    text: "with hwdge shape[0] is 16 of two dimensions, else 1, 2, 4, 8 or 16 with shape[0] * shape[-2] a multiple of 16; \
        shape[-1] is at most 128",
    source: "nki/api/nki/isa/__init__.py, dma_transpose",
    fix: "leave dge_mode out, or split src",
};
const INDEX: Rule = Rule {
    id: "dma_transpose.index",
    text: "by index src is in HBM with shape[0] a multiple of 16, shape[-1] at most 128, and of four dimensions one of the \
        middle ones 1; indices are uint32 in SBUF, 2-D, 16 to 128 rows in steps of 16 (128 if there are more columns \
        than one), as many as shape[0] or more",
    source: "nki/api/nki/isa/__init__.py, dma_transpose",
    fix: "pad the indices and src's rows to a multiple of 16",
};
const SKIP: Rule = Rule {
    id: "dma_transpose.oob_mode",
    text: "oob_mode.skip is for src by index or with scalar_offset",
    source: "nki/api/nki/isa/__init__.py, dma_transpose",
    fix: "leave oob_mode out",
};

/// Axes by rank.
const PERMUTATIONS: [&[usize]; 3] = [&[1, 0], &[2, 1, 0], &[3, 1, 2, 0]];

/// The axes for a source, checked against those that are given.
fn axes_of(arguments: &Arguments<'_>, src: &View) -> Result<&'static [usize], Violation> {
    let rank = src.dims.len();
    let Some(&axes) = rank.checked_sub(2).and_then(|at| PERMUTATIONS.get(at)) else {
        return Err(broken(&AXES, "src", format!("has {rank} dimensions"), "must have 2, 3 or 4"));
    };
    let given = arguments.ints("axes")?;
    if given.is_empty() || given.iter().copied().eq(axes.iter().map(|&axis| axis as i64)) {
        return Ok(axes);
    }
    let limit = format!("must be {axes:?} for {rank} dimensions");
    Err(broken(&AXES, "axes", format!("is {:?}", given.as_slice()), limit))
}

/// Why the hardware DGE, where there is one, cannot transpose a source, if it cannot.
fn hardware_refuses(src: &View, target: &Target) -> Option<Violation> {
    let (dge, tile) = (target.chip.dma.hwdge.as_ref()?, target.chip.dma.transpose.element_multiple);
    let shape = src.shape();
    let (first, last) = (shape[0], shape[shape.len() - 1]);
    let suits = match shape.len() {
        2 => first == tile,
        rank => {
            let product = u64::from(first) * u64::from(shape[rank - 2]);
            dge.transpose_sizes.contains(&first) && product.is_multiple_of(u64::from(tile))
        }
    };
    if !suits || last > dge.transpose_free_max {
        return Some(broken(&HWDGE, "src", format!("has shape {:?}", shape.as_slice()), HWDGE.text));
    }
    let two_bytes = src.dtype.size_bytes() == 2;
    (!two_bytes).then(|| broken(&DTYPE, "src", format!("is {}", src.dtype.name()), "two bytes with hwdge"))
}

/// Checks a source by index.
fn check_index(src: &View, index: &View, target: &Target) -> Result<(), Violation> {
    let refused = |value: String, limit: String| Err(broken(&INDEX, "src", value, limit));
    let tile = target.chip.dma.transpose.element_multiple;
    let partitions = target.core.sbuf.partitions;
    let last_max = target.chip.dma.hwdge.as_ref().map_or(partitions, |dge| dge.transpose_free_max);
    let shape = src.shape();
    let (first, last) = (shape[0], shape[shape.len() - 1]);
    if src.dtype.size_bytes() != 2 {
        return Err(broken(&DTYPE, "src", format!("is {}", src.dtype.name()), "two bytes by index"));
    }
    let indices = index.shape();
    if index.dtype != Dtype::Uint32 || index.space != Space::Sbuf || indices.len() != 2 {
        let value = format!("has indices {} {:?} in {}", index.dtype.name(), indices.as_slice(), index.space.name());
        return refused(value, "must be uint32 in sbuf, 2-D".into());
    }
    if !(tile..=partitions).contains(&indices[0])
        || !indices[0].is_multiple_of(tile)
        || (indices[1] > 1 && indices[0] != partitions)
    {
        let limit = format!("{tile} to {partitions} rows in steps of {tile}, {partitions} with more than one column");
        return refused(format!("has indices of shape {:?}", indices.as_slice()), limit);
    }
    if index.elements() < u64::from(first) || !first.is_multiple_of(tile) {
        let value = format!("has {first} rows and {} indices", index.elements());
        return refused(value, format!("a multiple of {tile} rows, and an index for each"));
    }
    if last > last_max || (shape.len() == 4 && shape[1] != 1 && shape[2] != 1) {
        let limit = format!("last dimension at most {last_max}; of four dimensions one of the middle ones is 1");
        return refused(format!("has shape {:?}", shape.as_slice()), limit);
    }
    Ok(())
}

fn build(arguments: &Arguments<'_>, context: &mut Context<'_>) -> Result<Instruction, Violation> {
    let (dst, src) = (arguments.view("dst")?, arguments.view("src")?);
    check_side(context, dst, "dst")?;
    check_side(context, src, "src")?;
    if dst.index.is_some() {
        return Err(broken(&rules::INDIRECT, "dst", "is indirect", "must be static"));
    }
    let axes = axes_of(arguments, src)?;
    let wanted: Shape = axes.iter().map(|&axis| src.dims[axis].count).collect();
    if dst.shape() != wanted {
        let value = format!("has shape {:?}", dst.shape().as_slice());
        return Err(broken(&SHAPE, "dst", value, format!("must be {:?}", wanted.as_slice())));
    }
    if dst.dtype != src.dtype {
        let value = format!("is {}", dst.dtype.name());
        return Err(broken(&DTYPE, "dst", value, format!("src is {}", src.dtype.name())));
    }
    let refused = hardware_refuses(src, context.target);
    let asked = arguments.member("dge_mode", "dge_mode")?;
    if let Some(violation) = refused.clone().filter(|_| asked == Some("hwdge") && src.index.is_none()) {
        return Err(violation);
    }
    let by_index = src.index.is_some();
    let makers = Makers { hardware: !by_index && refused.is_none(), software: by_index, fixed: !by_index };
    let mut instruction = Instruction::new(Opcode::DmaTranspose, Engine::Sync);
    issue::issue(&mut instruction, arguments, context, makers)?;
    let moves = by_index || src.scalar.is_some() || dst.scalar.is_some();
    if issue::skips(&instruction) && !moves {
        return Err(broken(&SKIP, "oob_mode", "is skip", SKIP.text));
    }
    context.writes(&mut instruction, 0, dst);
    context.reads(&mut instruction, 1, src);
    if let Some(index) = &src.index {
        check_index(src, index, context.target)?;
        instruction.flags |= GATHER;
        instruction.dynamic |= 1 << 1;
        context.reads(&mut instruction, 2, index);
    }
    if !dst.space.is_on_chip() {
        let violation = broken(&DST_SPACE, "dst", format!("is in {}", dst.space.name()), "must be in sbuf");
        context.deviation(Strictness::Documented, violation)?;
    }
    if issue::skips(&instruction) {
        // What is skipped keeps its bytes.
        instruction.reads |= 1;
    }
    Ok(instruction)
}

fn execute(instruction: &Instruction, machine: &mut Machine<'_>) -> Result<(), Violation> {
    let [dst, src, index, ..] = instruction.operands;
    if instruction.flags & GATHER == 0 && !machine.same_slab(&src, &dst) {
        machine.with_written(&dst, |machine, tile| turn(&machine.tile(&src), tile));
        return Ok(());
    }
    // Read in full first: the rows lie anywhere, or where dst is.
    let from = machine.tables.geometry(&src);
    let size = from.dtype.size_bytes();
    let row_bytes = from.row_elements() * size;
    let mut bytes = std::mem::take(&mut machine.scratch.bytes);
    bytes.resize(from.rows() * row_bytes, 0);
    let mut runs: Vec<(usize, usize)> = vec![(0, from.rows())];
    if instruction.flags & GATHER == 0 {
        machine.tile(&src).read_bytes(0, &mut bytes);
    } else {
        let rows =
            RowsByIndex::new(instruction, machine, &src, &index).by_columns(machine.tables.geometry(&index).rows());
        runs.clear();
        for (position, out) in bytes.chunks_exact_mut(row_bytes).enumerate() {
            let Some(geometry) = rows.row(position)? else { continue };
            Tile { bytes: machine.memory.bytes(src.tensor), geometry }.read_bytes(0, out);
            match runs.last_mut() {
                Some((first, count)) if *first + *count == position => *count += 1,
                _ => runs.push((position, 1)),
            }
        }
    }
    let to = machine.tables.geometry(&dst);
    for (first, count) in runs {
        let source =
            Geometry { offset: (first * from.row_elements()) as i64, dims: packed(&from, count), ..from.clone() };
        let mut target = to.clone();
        let last = target.dims.last_mut().expect("a transposed tile has dimensions");
        last.count = count as u32;
        target.offset += last.stride * first as i64;
        let target = &mut TileMut { bytes: machine.memory.bytes_mut(dst.tensor), geometry: target };
        turn(&Tile { bytes: &bytes, geometry: source }, target);
    }
    machine.scratch.bytes = bytes;
    Ok(())
}

/// The dimensions of `rows` rows as a dense copy has them.
fn packed(geometry: &Geometry, rows: usize) -> Dims {
    let mut dims = geometry.dims.clone();
    dims[0].count = rows as u32;
    let mut stride = 1;
    for dim in dims.iter_mut().rev() {
        dim.stride = stride;
        stride *= i64::from(dim.count);
    }
    dims
}

/// Writes a tile with its outermost and innermost dimensions swapped; the ones between stay.
fn turn(src: &Tile<'_>, dst: &mut TileMut<'_>) {
    match src.geometry.dtype.size_bytes() {
        1 => turn_elements::<1>(src, dst),
        2 => turn_elements::<2>(src, dst),
        _ => turn_elements::<4>(src, dst),
    }
}

/// RowsByIndex and columns that are turned around while they are in the host's nearest cache.
const BLOCK: usize = 32;

fn turn_elements<const SIZE: usize>(src: &Tile<'_>, dst: &mut TileMut<'_>) {
    let (from, to) = (&src.geometry.dims, &dst.geometry.dims);
    let last = from.len() - 1;
    let (rows, columns) = (from[0].count as usize, from[last].count as usize);
    let middle = from[1..last].iter().zip(&to[1..last]).collect::<SmallVec<[(&Dim, &Dim); 2]>>();
    let planes: usize = middle.iter().map(|(dim, _)| dim.count as usize).product();
    for plane in 0..planes {
        let (mut read, mut write) = (src.geometry.offset, dst.geometry.offset);
        let mut rest = plane as i64;
        for (a, b) in middle.iter().rev() {
            let position = rest % i64::from(a.count);
            rest /= i64::from(a.count);
            read += a.stride * position;
            write += b.stride * position;
        }
        for row in (0..rows).step_by(BLOCK) {
            for column in (0..columns).step_by(BLOCK) {
                for j in column..(column + BLOCK).min(columns) {
                    for i in row..(row + BLOCK).min(rows) {
                        let at = (read + from[0].stride * i as i64 + from[last].stride * j as i64) as usize * SIZE;
                        let to = (write + to[0].stride * j as i64 + to[last].stride * i as i64) as usize * SIZE;
                        dst.bytes[to..to + SIZE].copy_from_slice(&src.bytes[at..at + SIZE]);
                    }
                }
            }
        }
    }
}

fn cost(instruction: &Instruction, tables: &Tables<'_>, target: &Target) -> Cost {
    let [dst, src, ..] = instruction.operands;
    let limits = &target.chip.dma.transpose;
    let dims = &tables.pattern(&dst).dims;
    let suits = dims[0].count.is_multiple_of(limits.partition_multiple)
        && dims[dims.len() - 1].count.is_multiple_of(limits.element_multiple)
        && dims[dims.len() - 1].stride == 1;
    let movement = if suits { Movement::Transpose } else { Movement::TransposeUnaligned };
    Cost::Transfer(traffic::transfer(instruction, tables, movement, &dst, &[&src]))
}
