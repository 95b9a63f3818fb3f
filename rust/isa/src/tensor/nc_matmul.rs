//! `nc_matmul`: a matrix product on the 128x128 array.

use crate::arguments::{Arguments, Parameter, Use};
use crate::array;
use crate::context::{Context, PSUM, SBUF, Strictness, broken};
use crate::cost::{Cost, Multiply, Weight, Work};
use crate::instruction::{Engine, Instruction, Operand};
use crate::machine::{Machine, Tables};
use crate::rules::Rule;
use crate::table::{Definition, Exactness, Kind, Opcode, every_row, keeps_nan};
use crate::tensor::accumulation::{Accumulate, accumulate_of, set_accumulate};
use trn3_mem::{Fault, Geometry, Memory, View, Violation};
use trn3_num::Dtype;
use trn3_spec::Target;

/// The table's entry.
pub const DEFINITION: Definition = Definition {
    name: "nc_matmul",
    doc: "Matrix product of a stationary and a moving tile into PSUM.\n\n\
        ``r[m, n] = sum over k of stationary[k, m] * moving[k, n]``; ``perf_mode=double_row`` contracts over (k, j) with \
        operands of shape (K, 2, M) and (K, 2, N). The partial sum takes PE row 0 first, one FP32 rounding a row (FP32 \
        operands: the product is rounded too). PSUM then takes ``r`` or ``dst + r``; a BF16 ``dst`` rounds once more. \
        ``is_transpose`` moves bits: ``dst[m, n] = stationary[k, m]`` where ``moving[k, n]`` is the single 1 of column n; \
        on v2 it only marks the product, which spreads NaN and infinity.",
    source: "nki/api/nki/isa/__init__.py, nc_matmul; nki/guides/architecture/trainium3_arch.rst",
    kind: Kind::Compute,
    engines: &[Engine::Tensor],
    parameters: &[
        Parameter {
            name: "dst",
            default: None,
            usage: Use::Write,
            doc: "PSUM, (M, N), float32 or (v4) bfloat16; with is_transpose the data dtype (v2: float32).",
        },
        Parameter {
            name: "stationary",
            default: None,
            usage: Use::Read,
            doc: "SBUF, (K, M), K and M at most 128; (K, 2, M) in double row mode.",
        },
        Parameter {
            name: "moving",
            default: None,
            usage: Use::Read,
            doc: "SBUF, (K, N), N at most 512 before v4, 4096 (float32 dst) or 8192 (bfloat16 dst) on v4; (K, 2, N) in double row mode.",
        },
        Parameter {
            name: "is_stationary_onezero",
            default: Some("False"),
            usage: Use::Constant,
            doc: "Hint that a float32 stationary holds only 0 and 1: half the passes.",
        },
        Parameter {
            name: "is_moving_onezero",
            default: Some("False"),
            usage: Use::Constant,
            doc: "The same for moving.",
        },
        Parameter {
            name: "is_transpose",
            default: Some("False"),
            usage: Use::Constant,
            doc: "Transpose mode, bit exact from v3; on v2 a mark for profiles.",
        },
        Parameter {
            name: "accumulate",
            default: Some("None"),
            usage: Use::Constant,
            doc: "False overwrites, True adds, None overwrites what no product has written yet and adds to the rest.",
        },
        Parameter {
            name: "tile_position",
            default: Some("()"),
            usage: Use::Constant,
            doc: "(row, column) where the array tile starts.",
        },
        Parameter {
            name: "tile_size",
            default: Some("()"),
            usage: Use::Constant,
            doc: "(rows, columns) of the array tile: 128, 64 or (from v3) 32 each.",
        },
        Parameter {
            name: "perf_mode",
            default: Some("matmul_perf_mode.none"),
            usage: Use::Constant,
            doc: "matmul_perf_mode.double_row doubles the FP8 rate, from v3.",
        },
    ],
    rules: RULES,
    exactness: Exactness::Modelled,
    build,
    execute,
    hides_nan: keeps_nan,
    rows: every_row,
    cost,
    work,
};

const STATIONARY_FREE_MAX: Rule = Rule {
    id: "matmul.stationary.free_max",
    text: "the stationary free size fits the array's columns",
    source: "nki/api/nki/isa/__init__.py, nc_matmul",
    fix: "split the tile along its free dimension",
};
const MOVING_FREE_MAX: Rule = Rule {
    id: "matmul.moving.free_max",
    text: "the moving free size is at most what PSUM takes in one instruction",
    source: "nki/api/nki/isa/__init__.py, nc_matmul",
    fix: "split the tile along its free dimension",
};
const CONTRACTION: Rule = Rule {
    id: "matmul.contraction",
    text: "stationary and moving have the same partitions, at most the array tile's rows",
    source: "nki/api/nki/isa/__init__.py, nc_matmul",
    fix: "slice both operands to the same partitions",
};
const DST_SHAPE: Rule = Rule {
    id: "matmul.dst.shape",
    text: "dst has one partition for each stationary column and one element for each moving column",
    source: "nki/api/nki/isa/__init__.py, nc_matmul",
    fix: "slice dst to (stationary free size, moving free size)",
};
const DTYPE_PAIR: Rule = Rule {
    id: "matmul.dtype_pair",
    text: "float32 and tfloat32 pair only with each other; float8_e4m3 never with float8_e4m3fn",
    source: "nki/api/nki/isa/__init__.py, nc_matmul",
    fix: "cast one operand first (tensor_copy)",
};
const DTYPE: Rule = Rule {
    id: "matmul.dtype",
    text: "operands are float8_e4m3, float8_e5m2, bfloat16, float16, tfloat32, float32 or (v4) float8_e4m3fn",
    source: "nki/api/nki/isa/__init__.py, nc_matmul",
    fix: "cast the operand first (tensor_copy)",
};
const DST_DTYPE: Rule = Rule {
    id: "matmul.dst.dtype",
    text: "dst is float32, on v4 also bfloat16, or from v3 the data dtype with is_transpose",
    source: "nki/api/nki/isa/__init__.py, nc_matmul",
    fix: "allocate dst in PSUM as float32",
};
const DOUBLE_ROW: Rule = Rule {
    id: "matmul.double_row",
    text: "double row mode takes FP8 operands of shape (K, 2, free), without column tiles and transpose mode",
    source: "nki/api/nki/isa/__init__.py, nc_matmul",
    fix: "drop the other mode, or perf_mode",
};
const DOUBLE_ROW_GENERATION: Rule = Rule {
    id: "matmul.double_row_generation",
    text: "double row mode exists from NeuronCore-v3 (trn2) on",
    source: "nki/api/nki/isa/__init__.py, nc_matmul",
    fix: "drop perf_mode, or target trn2 or trn3",
};
const TILE: Rule = Rule {
    id: "matmul.tile",
    text: "tile_size and tile_position are both given or both absent; sizes are 128, 64 or (from v3) 32, positions multiples of them inside the array",
    source: "nki/api/nki/isa/__init__.py, nc_matmul",
    fix: "give tile_size=(rows, columns) and tile_position=(row, column)",
};
const TILE_OPERANDS: Rule = Rule {
    id: "matmul.tile_operands",
    text: "operands lie on the partitions of their array tile: inputs from its first row, dst from its first column",
    source: "nki/guides/architecture/trainium2_arch.rst (follows from the array's wiring)",
    fix: "place the operands on the tile's partitions",
};
const BANK: Rule = Rule {
    id: "matmul.dst.bank",
    text: "before v4 the output of one product lies in one PSUM bank",
    source: "nki/guides/architecture/trainium_inferentia2_arch.rst",
    fix: "split the output at the bank boundary",
};
const TRANSPOSE_IDENTITY: Rule = Rule {
    id: "matmul.transpose_identity",
    text: "in transpose mode each column of moving holds a single 1",
    source: "nki/api/nki/isa/__init__.py, nc_matmul (the identity is required; other matrices are not described)",
    fix: "use the identity as moving, or drop is_transpose",
};

const RULES: &[Rule] = &[
    STATIONARY_FREE_MAX,
    MOVING_FREE_MAX,
    CONTRACTION,
    DST_SHAPE,
    DTYPE_PAIR,
    DTYPE,
    DST_DTYPE,
    DOUBLE_ROW,
    DOUBLE_ROW_GENERATION,
    TILE,
    TILE_OPERANDS,
    BANK,
    TRANSPOSE_IDENTITY,
];

pub(super) const TRANSPOSE: u16 = 1 << 2;
const ONE_ZERO: u16 = 1 << 3;
const DOUBLE: u16 = 1 << 4;
/// A transpose by multiplication, where the core has no mode that moves bits.
pub(super) const IDENTITY: u16 = 1 << 5;

fn is_fp32(dtype: Dtype) -> bool {
    matches!(dtype, Dtype::Float32 | Dtype::Tfloat32)
}

fn is_fp8(dtype: Dtype) -> bool {
    matches!(dtype, Dtype::Float8E4m3 | Dtype::Float8E5m2 | Dtype::Float8E4m3fn)
}

fn build(arguments: &Arguments<'_>, context: &mut Context<'_>) -> Result<Instruction, Violation> {
    let (dst, stationary, moving) = (arguments.view("dst")?, arguments.view("stationary")?, arguments.view("moving")?);
    context.check_tile(dst, "dst", PSUM)?;
    context.check_tile(stationary, "stationary", SBUF)?;
    context.check_tile(moving, "moving", SBUF)?;
    let transpose = arguments.flag("is_transpose")?;
    let double = arguments.member("perf_mode", "matmul_perf_mode")? == Some("double_row");
    check_dtypes(context.target, dst, stationary, moving, transpose)?;
    if double {
        if !context.target.core.capability.double_row {
            return Err(context.lacking(&DOUBLE_ROW_GENERATION, "perf_mode", Some("is double_row".into())));
        }
        let halved = |view: &View| view.dims.len() >= 3 && view.dims[1].count == 2;
        if transpose || !is_fp8(stationary.dtype) || !is_fp8(moving.dtype) || !halved(stationary) || !halved(moving) {
            let value = format!(
                "double_row with {} {:?} and {} {:?}",
                stationary.dtype.name(),
                stationary.shape().as_slice(),
                moving.dtype.name(),
                moving.shape().as_slice()
            );
            return Err(broken(&DOUBLE_ROW, "perf_mode", value, DOUBLE_ROW.text));
        }
    }
    let parts = if double { 2 } else { 1 };
    let tile = check_tile_geometry(arguments, context)?;
    if double && tile[3] != 128 {
        return Err(broken(&DOUBLE_ROW, "tile_size", format!("has {} columns", tile[3]), DOUBLE_ROW.text));
    }
    check_shapes(context.target, dst, stationary, moving, parts, tile)?;
    check_places(context, dst, stationary, moving, tile)?;

    let mut instruction = Instruction::new(Opcode::NcMatmul, Engine::Tensor);
    context.writes(&mut instruction, 0, dst);
    context.reads(&mut instruction, 1, stationary);
    context.reads(&mut instruction, 2, moving);
    let one_zero = arguments.flag("is_stationary_onezero")? || arguments.flag("is_moving_onezero")?;
    instruction.flags = transpose_flag(context.target, transpose)
        | if one_zero { ONE_ZERO } else { 0 }
        | if double { DOUBLE } else { 0 };
    instruction.constants[0] = u32::from(tile[0]) | u32::from(tile[1]) << 16;
    instruction.constants[1] = u32::from(tile[2]) | u32::from(tile[3]) << 16;
    set_accumulate(&mut instruction, accumulate_argument(arguments)?);
    Ok(instruction)
}

/// How the core transposes.
pub(super) fn transpose_flag(target: &Target, transposes: bool) -> u16 {
    match (transposes, target.core.capability.transpose_mode) {
        (false, _) => 0,
        (true, true) => TRANSPOSE,
        (true, false) => IDENTITY,
    }
}

pub(super) fn accumulate_argument(arguments: &Arguments<'_>) -> Result<Accumulate, Violation> {
    Ok(match arguments.flag_or_none("accumulate")? {
        None => Accumulate::Auto,
        Some(false) => Accumulate::Overwrite,
        Some(true) => Accumulate::Add,
    })
}

/// The largest moving free size: the table's, within what the emulated array takes.
pub(super) fn moving_free_max(target: &Target, dst: &View) -> u32 {
    let limits = &target.core.matmul;
    let limit = if dst.dtype.size_bytes() == 2 { limits.moving_free_max_bf16 } else { limits.moving_free_max_fp32 };
    limit.min(array::MOVING_FREE_MAX as u32)
}

/// Whether products take operands of that type.
pub(super) fn multiplies(target: &Target, dtype: Dtype) -> bool {
    is_fp32(dtype)
        || matches!(dtype, Dtype::Bfloat16 | Dtype::Float16)
        || (is_fp8(dtype) && (dtype != Dtype::Float8E4m3fn || target.core.capability.matmul_e4m3fn))
}

fn check_dtypes(
    target: &Target,
    dst: &View,
    stationary: &View,
    moving: &View,
    transpose: bool,
) -> Result<(), Violation> {
    for (view, name) in [(stationary, "stationary"), (moving, "moving")] {
        if !multiplies(target, view.dtype) {
            return Err(broken(
                &DTYPE,
                name,
                format!("is {}", view.dtype.name()),
                format!("not accepted on {}", target.name),
            ));
        }
    }
    let pair = (stationary.dtype, moving.dtype);
    let mixed_e4m3 =
        matches!(pair, (Dtype::Float8E4m3, Dtype::Float8E4m3fn) | (Dtype::Float8E4m3fn, Dtype::Float8E4m3));
    if is_fp32(pair.0) != is_fp32(pair.1) || mixed_e4m3 {
        let value = format!("is {} with stationary {}", pair.1.name(), pair.0.name());
        return Err(broken(&DTYPE_PAIR, "moving", value, DTYPE_PAIR.text));
    }
    let moves_bits = transpose && target.core.capability.transpose_mode;
    let allowed = dst.dtype == Dtype::Float32 || (dst.dtype == Dtype::Bfloat16 && target.core.capability.psum_bf16);
    if !(if moves_bits { dst.dtype == stationary.dtype } else { allowed }) {
        let limit = if moves_bits {
            format!("transpose mode of {} moves {} bits", target.name, stationary.dtype.name())
        } else {
            format!("not accepted on {}", target.name)
        };
        return Err(broken(&DST_DTYPE, "dst", format!("is {}", dst.dtype.name()), limit));
    }
    Ok(())
}

fn check_tile_geometry(arguments: &Arguments<'_>, context: &Context<'_>) -> Result<[u16; 4], Violation> {
    tile_geometry(arguments, context.target, &context.target.core.matmul.column_tiles)
}

/// The array tile: first row, rows, first column, columns.
pub(super) fn tile_geometry(
    arguments: &Arguments<'_>,
    target: &Target,
    columns: &[u32],
) -> Result<[u16; 4], Violation> {
    let rows = &target.core.matmul.row_tiles;
    let (size, position) = (arguments.ints("tile_size")?, arguments.ints("tile_position")?);
    if size.is_empty() && position.is_empty() {
        return Ok([0, 128, 0, 128]);
    }
    let fits = |size: i64, at: i64, allowed: &[u32]| {
        allowed.iter().any(|&tile| i64::from(tile) == size) && at >= 0 && at % size == 0 && at + size <= 128
    };
    if size.len() != 2
        || position.len() != 2
        || !fits(size[0], position[0], rows)
        || !fits(size[1], position[1], columns)
    {
        let value = format!("{:?} at {:?}", size.as_slice(), position.as_slice());
        return Err(broken(
            &TILE,
            "tile_size",
            value,
            format!("rows of {rows:?}, columns of {columns:?} on {}", target.name),
        ));
    }
    Ok([position[0] as u16, size[0] as u16, position[1] as u16, size[1] as u16])
}

fn check_shapes(
    target: &Target,
    dst: &View,
    stationary: &View,
    moving: &View,
    parts: u64,
    tile: [u16; 4],
) -> Result<(), Violation> {
    let limits = &target.core.matmul;
    let (k, m, n) = (stationary.partitions(), stationary.free_size() / parts, moving.free_size() / parts);
    if moving.partitions() != k || k > u32::from(tile[1]) {
        let value = format!("has {} partitions, stationary {k}", moving.partitions());
        return Err(broken(&CONTRACTION, "moving", value, format!("equal, at most {}", tile[1])));
    }
    let m_max = limits.stationary_free_max.min(u32::from(tile[3]));
    if m > u64::from(m_max) {
        return Err(broken(
            &STATIONARY_FREE_MAX,
            "stationary",
            format!("free size is {m}"),
            format!("limit {m_max} on {}", target.name),
        ));
    }
    let n_max = moving_free_max(target, dst);
    if n > u64::from(n_max) {
        return Err(broken(
            &MOVING_FREE_MAX,
            "moving",
            format!("free size is {n}"),
            format!("limit {n_max} on {}", target.name),
        ));
    }
    if u64::from(dst.partitions()) != m || dst.free_size() != n {
        return Err(broken(
            &DST_SHAPE,
            "dst",
            format!("has shape {:?}", dst.shape().as_slice()),
            format!("must be ({m}, {n})"),
        ));
    }
    let bank = target.core.psum.bank_bytes;
    let size = dst.dtype.size_bytes() as u64;
    let start = dst.free_start_bytes();
    let span: u64 =
        dst.dims[1..].iter().map(|dim| dim.stride as u64 * (u64::from(dim.count) - 1)).sum::<u64>() * size + size;
    if !target.core.capability.psum_bank_spanning && start / bank != (start + span - 1) / bank {
        return Err(broken(
            &BANK,
            "dst",
            format!("bytes {start} to {} of a partition", start + span),
            format!("banks of {bank} bytes on {}", target.name),
        ));
    }
    Ok(())
}

/// Operands on the partitions of their array tile; a finding below `documented`.
pub(super) fn check_places(
    context: &mut Context<'_>,
    dst: &View,
    stationary: &View,
    moving: &View,
    tile: [u16; 4],
) -> Result<(), Violation> {
    if tile == [0, 128, 0, 128] {
        return Ok(());
    }
    for (view, name, at) in [(stationary, "stationary", tile[0]), (moving, "moving", tile[0]), (dst, "dst", tile[2])] {
        if view.partition_start() != u32::from(at) {
            let value = format!("starts on partition {}", view.partition_start());
            let violation = broken(&TILE_OPERANDS, name, value, format!("the array tile starts at {at}"));
            context.deviation(Strictness::Documented, violation)?;
        }
    }
    Ok(())
}

/// The free dimensions of a tile as the array takes them.
pub(super) fn free_dims(geometry: &Geometry) -> ([(isize, usize); 4], usize) {
    let mut free = [(0, 1); 4];
    let dims = &geometry.dims[1..];
    for (slot, dim) in free.iter_mut().zip(dims) {
        *slot = (dim.stride as isize, dim.count as usize);
    }
    (free, dims.len().clamp(1, 4))
}

/// Byte offset and row stride of a tile.
pub(super) fn rows_of(geometry: &Geometry) -> (usize, usize) {
    let size = geometry.dtype.size_bytes();
    (geometry.offset as usize * size, geometry.dims[0].stride as usize * size)
}

fn execute(instruction: &Instruction, machine: &mut Machine<'_>) -> Result<(), Violation> {
    let [dst, stationary, moving, ..] = instruction.operands;
    if instruction.flags & TRANSPOSE != 0 {
        return transpose(&dst, &stationary, &moving, machine);
    }
    let double = instruction.flags & DOUBLE != 0;
    // In double row mode the dimension of 2 must stay apart; otherwise merging gives the array longer runs.
    let geometry = |operand: &Operand| {
        let geometry = machine.tables.geometry(operand);
        if double { geometry } else { geometry.with_merged_free() }
    };
    let (s, m) = (geometry(&stationary), geometry(&moving));
    let ((s_free, s_rank), (m_free, m_rank)) = (free_dims(&s), free_dims(&m));
    let accumulate = accumulate_of(instruction) == Accumulate::Add;
    machine.with_psum(&dst, accumulate, |memory, scratch, psum| {
        let stationary = operand_of(memory.bytes(stationary.tensor), &s, &s_free[..s_rank]);
        let moving = operand_of(memory.bytes(moving.tensor), &m, &m_free[..m_rank]);
        if double {
            array::multiply_double_row(scratch, &stationary, &moving, psum);
        } else {
            array::multiply(scratch, &stationary, &moving, psum);
        }
    });
    Ok(())
}

fn operand_of<'a>(bytes: &'a [u8], geometry: &Geometry, free: &'a [(isize, usize)]) -> array::Operand<'a> {
    let (offset_bytes, row_stride_bytes) = rows_of(geometry);
    array::Operand { bytes, dtype: geometry.dtype, offset_bytes, row_stride_bytes, rows: geometry.rows(), free }
}

impl Machine<'_> {
    /// Lends the array a PSUM tile to write, with its scratch space and the memory of its operands.
    fn with_psum(
        &mut self,
        dst: &Operand,
        accumulate: bool,
        product: impl FnOnce(&Memory, &mut array::ArrayScratch, &mut array::Psum<'_>),
    ) {
        let mut bytes = self.memory.take(dst.tensor);
        let geometry = self.tables.geometry(dst).with_merged_free();
        let (free, rank) = free_dims(&geometry);
        let (offset_bytes, row_stride_bytes) = rows_of(&geometry);
        let mut psum = array::Psum {
            bytes: bytes.as_mut_slice(),
            offset_bytes,
            row_stride_bytes,
            free: &free[..rank],
            dtype: geometry.dtype,
            accumulate,
        };
        product(self.memory, &mut self.scratch.array, &mut psum);
        self.memory.restore(dst.tensor, bytes);
    }

    /// Overwrites a PSUM tile with the product of a tile and an operand that is no tensor.
    pub(super) fn multiply(&mut self, dst: &Operand, stationary: &Operand, moving: &array::Operand<'_>) {
        let geometry = self.tables.geometry(stationary).with_merged_free();
        let (free, rank) = free_dims(&geometry);
        self.with_psum(dst, false, |memory, scratch, psum| {
            let stationary = operand_of(memory.bytes(stationary.tensor), &geometry, &free[..rank]);
            array::multiply(scratch, &stationary, moving, psum);
        });
    }
}

fn transpose(
    dst: &Operand,
    stationary: &Operand,
    moving: &Operand,
    machine: &mut Machine<'_>,
) -> Result<(), Violation> {
    let mut selector = Vec::new();
    machine.read_all(moving, &mut selector);
    let geometry = machine.tables.geometry(moving);
    let (k, n) = (geometry.rows(), geometry.row_elements());
    let mut rows = Vec::with_capacity(n);
    for column in 0..n {
        let mut ones = (0..k).filter(|row| selector[row * n + column] != 0.0);
        match (ones.next(), ones.next()) {
            (Some(row), None) if selector[row * n + column] == 1.0 => rows.push(row),
            _ => {
                let value = format!("column {column} is not all 0 but a single 1");
                return Err(
                    broken(&TRANSPOSE_IDENTITY, "moving", value, TRANSPOSE_IDENTITY.text).of(Fault::Unspecified)
                );
            }
        }
    }
    let tile = machine.tile(stationary);
    let size = tile.geometry.dtype.size_bytes();
    let m = tile.geometry.row_elements();
    let mut source = vec![0u8; tile.geometry.elements() * size];
    tile.read_bytes(0, &mut source);
    let mut out = vec![0u8; m * n * size];
    for column in 0..m {
        for (at, &row) in rows.iter().enumerate() {
            let (to, from) = ((column * n + at) * size, (row * m + column) * size);
            out[to..to + size].copy_from_slice(&source[from..from + size]);
        }
    }
    machine.with_written(dst, |_, tile| tile.write_bytes(0, &out));
    Ok(())
}

fn passes(instruction: &Instruction, stationary: Dtype, moving: Dtype, target: &Target) -> u64 {
    let passes = &target.core.tensor.passes;
    u64::from(if stationary == Dtype::Float32 || moving == Dtype::Float32 {
        if instruction.flags & TRANSPOSE != 0 {
            passes.fp32_transpose.unwrap_or(passes.fp32)
        } else if instruction.flags & ONE_ZERO != 0 {
            passes.fp32_onezero
        } else {
            passes.fp32
        }
    } else if instruction.flags & DOUBLE != 0 {
        passes.double_row.unwrap_or(passes.fp8)
    } else if is_fp8(stationary) && is_fp8(moving) {
        passes.fp8
    } else if is_fp32(stationary) {
        passes.tf32
    } else {
        passes.bits16
    })
}

fn cost(instruction: &Instruction, tables: &Tables<'_>, target: &Target) -> Cost {
    let [dst, stationary, moving, ..] = instruction.operands;
    let parts = if instruction.flags & DOUBLE != 0 { 2 } else { 1 };
    let m = tables.geometry(&stationary).row_elements() as u64 / parts;
    let n = tables.geometry(&dst).row_elements() as u64;
    let passes = passes(instruction, tables.pattern(&stationary).dtype, tables.pattern(&moving).dtype, target);
    multiply_cost(instruction, target, m, n, passes)
}

/// The cost of a product with `m` stationary and `n` moving columns in `passes` passes (more than one: two halves,
/// except of a transpose, which moves whole words).
pub(super) fn multiply_cost(instruction: &Instruction, target: &Target, m: u64, n: u64, passes: u64) -> Cost {
    let tensor = &target.core.tensor;
    let halves =
        if passes > 1 && instruction.flags & TRANSPOSE == 0 { u64::from(tensor.passes.fp32_halves) } else { 1 };
    let [rows, columns, ..] = instruction.constants;
    let tile = [rows as u16, (rows >> 16) as u16, columns as u16, (columns >> 16) as u16];
    let full = tile == [0, 128, 0, 128];
    Cost::Multiply(Multiply {
        load: m.div_ceil(u64::from(tensor.load_stationary.columns_per_cycle))
            * u64::from(tensor.load_stationary.passes),
        load_latency: u64::from(if passes > 1 {
            tensor.load_stationary.fp32_latency_cycles
        } else {
            tensor.load_stationary.latency_cycles
        }),
        stream: (n * passes).div_ceil(halves),
        latency: u64::from(tensor.latency_cycles),
        overhead: u64::from(tensor.overhead_cycles),
        halves: halves as u32,
        tile,
        transposes: full && instruction.flags & TRANSPOSE != 0 && target.core.capability.background_transpose,
    })
}

fn work(instruction: &Instruction, tables: &Tables<'_>) -> Work {
    if instruction.flags & (TRANSPOSE | IDENTITY) != 0 {
        return Work::default();
    }
    let [dst, stationary, moving, ..] = instruction.operands;
    let parts = if instruction.flags & DOUBLE != 0 { 2 } else { 1 };
    let k = tables.geometry(&stationary).rows() as u64 * parts;
    let flops = 2 * k * tables.geometry(&dst).elements() as u64;
    let (s, m) = (tables.pattern(&stationary).dtype, tables.pattern(&moving).dtype);
    let weight = if s == Dtype::Float32 || m == Dtype::Float32 {
        Weight::Fp32
    } else if is_fp8(s) && is_fp8(m) {
        Weight::Fp8
    } else {
        Weight::Bf16
    };
    Work { flops, weight }
}
