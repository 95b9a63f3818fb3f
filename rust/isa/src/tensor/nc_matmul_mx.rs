//! `nc_matmul_mx`: a matrix product of microscaled operands, four products a PE and cycle.

use crate::arguments::{Arguments, Parameter, Use};
use crate::array;
use crate::context::{Context, PSUM, SBUF, broken};
use crate::cost::{Cost, Weight, Work};
use crate::instruction::{Engine, Instruction, Operand};
use crate::machine::{Machine, Tables};
use crate::rules::Rule;
use crate::table::{Definition, Exactness, Kind, Opcode, Rows, keeps_nan};
use crate::tensor::accumulation::{Accumulate, accumulate_of, set_accumulate};
use crate::tensor::nc_matmul::{
    accumulate_argument, check_places, free_dims, moving_free_max, multiply_cost, rows_of, tile_geometry,
};
use trn3_mem::{Geometry, View, Violation};
use trn3_num::Dtype;
use trn3_spec::Target;

/// The table's entry.
pub const DEFINITION: Definition = Definition {
    name: "nc_matmul_mx",
    doc: "Matrix product of two microscaled tiles into PSUM.\n\n\
        ``r[m, n] = sum over p, q of s[p, m, q] * t[p, n, q] * 2**(ss - 127) * 2**(ms - 127)``: each packed word holds \
        four codes, each scale byte covers 8 partitions of one packed column. Products are taken with p outermost, one \
        FP32 rounding each. A scale of 0xFF makes its products NaN.",
    source: "nki/api/nki/isa/__init__.py, nc_matmul_mx; nki/deep-dives/mxfp-matmul.rst",
    kind: Kind::Compute,
    engines: &[Engine::Tensor],
    parameters: &[
        Parameter { name: "dst", default: None, usage: Use::Write, doc: "PSUM, (M, N), float32 or bfloat16." },
        Parameter {
            name: "stationary",
            default: None,
            usage: Use::Read,
            doc: "SBUF, (K/4, M) packed words, K/4 a multiple of 32 up to 128, M even and at most 128.",
        },
        Parameter {
            name: "moving",
            default: None,
            usage: Use::Read,
            doc: "SBUF, (K/4, N) packed words, N at most 4096 (float32 dst) or 8192 (bfloat16 dst).",
        },
        Parameter {
            name: "stationary_scale",
            default: None,
            usage: Use::Read,
            doc: "SBUF, float8_e8m0fnu or uint8; (K/32, M) up to 32 partitions of data, else (K/4, M) with 4 rows of each quadrant used.",
        },
        Parameter {
            name: "moving_scale",
            default: None,
            usage: Use::Read,
            doc: "The same for moving, with N columns.",
        },
        Parameter {
            name: "tile_position",
            default: Some("None"),
            usage: Use::Constant,
            doc: "(row, 0) where the array tile starts.",
        },
        Parameter {
            name: "tile_size",
            default: Some("None"),
            usage: Use::Constant,
            doc: "(rows, 128): 128, 64 or 32 rows.",
        },
        Parameter { name: "accumulate", default: Some("None"), usage: Use::Constant, doc: "As in nc_matmul." },
    ],
    rules: RULES,
    exactness: Exactness::Modelled,
    build,
    execute,
    hides_nan: keeps_nan,
    rows,
    cost,
    work,
};

const GENERATION: Rule = Rule {
    id: "matmul_mx.generation",
    text: "microscaled products exist from NeuronCore-v4 (trn3) on",
    source: "nki/guides/architecture/trainium3_arch.rst",
    fix: "target trn3, or dequantise and use nc_matmul",
};
const DTYPE: Rule = Rule {
    id: "matmul_mx.dtype",
    text: "operands are float8_e5m2_x4, float8_e4m3fn_x4 or float4_e2m1fn_x4; scales float8_e8m0fnu or uint8; dst float32 or bfloat16",
    source: "nki/api/nki/isa/__init__.py, nc_matmul_mx",
    fix: "view the buffer as a packed type (.view), or quantise first",
};
const PARTITIONS: Rule = Rule {
    id: "matmul_mx.partitions",
    text: "the partitions of both operands are equal and a multiple of 32, up to the array tile's rows",
    source: "nki/api/nki/isa/__init__.py, nc_matmul_mx",
    fix: "pad the contraction with zeros to a multiple of 128 values",
};
const FREE: Rule = Rule {
    id: "matmul_mx.free",
    text: "the stationary free size is even and at most 128; the moving free size at most 4096 (float32 dst) or 8192 (bfloat16 dst)",
    source: "nki/api/nki/isa/__init__.py, nc_matmul_mx",
    fix: "split the tile along its free dimension",
};
const DST_SHAPE: Rule = Rule {
    id: "matmul_mx.dst.shape",
    text: "dst has one partition for each stationary column and one element for each moving column",
    source: "nki/api/nki/isa/__init__.py, nc_matmul_mx",
    fix: "slice dst to (stationary free size, moving free size)",
};
const SCALE: Rule = Rule {
    id: "matmul_mx.scale",
    text: "a scale tile has its data's columns, its data's quadrants, 4 rows of each from row 0, 4, 8 or 12",
    source: "nki/deep-dives/mxfp-matmul.rst",
    fix: "allocate the scale tile as quantize_mx writes it, and slice it at partition 0, 4, 8 or 12",
};

const RULES: &[Rule] = &[GENERATION, DTYPE, PARTITIONS, FREE, DST_SHAPE, SCALE];

fn build(arguments: &Arguments<'_>, context: &mut Context<'_>) -> Result<Instruction, Violation> {
    let dst = arguments.view("dst")?;
    let (stationary, moving) = (arguments.view("stationary")?, arguments.view("moving")?);
    let (stationary_scale, moving_scale) = (arguments.view("stationary_scale")?, arguments.view("moving_scale")?);
    if !context.target.core.capability.matmul_mx {
        return Err(context.lacking(&GENERATION, "", None));
    }
    context.check_tile(dst, "dst", PSUM)?;
    context.check_tile(stationary, "stationary", SBUF)?;
    context.check_tile(moving, "moving", SBUF)?;
    let tile = tile_geometry(arguments, context.target, &[128])?;
    check_dtypes(dst, [stationary, moving], [stationary_scale, moving_scale])?;
    check_shapes(context.target, dst, stationary, moving, tile)?;
    check_scale(stationary_scale, "stationary_scale", stationary)?;
    check_scale(moving_scale, "moving_scale", moving)?;
    check_places(context, dst, stationary, moving, tile)?;

    let mut instruction = Instruction::new(Opcode::NcMatmulMx, Engine::Tensor);
    context.writes(&mut instruction, 0, dst);
    for (slot, view) in [(1, stationary), (2, moving), (3, stationary_scale), (4, moving_scale)] {
        context.reads(&mut instruction, slot, view);
    }
    instruction.constants[0] = u32::from(tile[0]) | u32::from(tile[1]) << 16;
    instruction.constants[1] = u32::from(tile[2]) | u32::from(tile[3]) << 16;
    set_accumulate(&mut instruction, accumulate_argument(arguments)?);
    Ok(instruction)
}

fn check_dtypes(dst: &View, data: [&View; 2], scales: [&View; 2]) -> Result<(), Violation> {
    for (view, name) in data.into_iter().zip(["stationary", "moving"]) {
        if !view.dtype.is_packed() {
            return Err(broken(&DTYPE, name, format!("is {}", view.dtype.name()), DTYPE.text));
        }
    }
    for (view, name) in scales.into_iter().zip(["stationary_scale", "moving_scale"]) {
        if !matches!(view.dtype, Dtype::Float8E8m0fnu | Dtype::Uint8) {
            return Err(broken(&DTYPE, name, format!("is {}", view.dtype.name()), DTYPE.text));
        }
    }
    if !matches!(dst.dtype, Dtype::Float32 | Dtype::Bfloat16) {
        return Err(broken(&DTYPE, "dst", format!("is {}", dst.dtype.name()), DTYPE.text));
    }
    Ok(())
}

fn check_shapes(
    target: &Target,
    dst: &View,
    stationary: &View,
    moving: &View,
    tile: [u16; 4],
) -> Result<(), Violation> {
    let rows = stationary.partitions();
    let multiple = target.core.matmul.mx_partition_multiple.unwrap_or(1);
    if rows != moving.partitions() || !rows.is_multiple_of(multiple) || rows > u32::from(tile[1]) {
        let value = format!("has {} partitions, stationary {rows}", moving.partitions());
        return Err(broken(
            &PARTITIONS,
            "moving",
            value,
            format!("equal, a multiple of {multiple}, at most {}", tile[1]),
        ));
    }
    let (m, n) = (stationary.free_size(), moving.free_size());
    let limits = &target.core.matmul;
    if m % 2 != 0 || m > u64::from(limits.stationary_free_max) {
        let limit = format!("even and at most {}", limits.stationary_free_max);
        return Err(broken(&FREE, "stationary", format!("free size is {m}"), limit));
    }
    let n_max = moving_free_max(target, dst);
    if n > u64::from(n_max) {
        return Err(broken(&FREE, "moving", format!("free size is {n}"), format!("limit {n_max} on {}", target.name)));
    }
    if u64::from(dst.partitions()) != m || dst.free_size() != n {
        let value = format!("has shape {:?}", dst.shape().as_slice());
        return Err(broken(&DST_SHAPE, "dst", value, format!("must be ({m}, {n})")));
    }
    Ok(())
}

/// Rows that a scale tile must have for data of `partitions` partitions.
pub(crate) fn scale_rows(partitions: u32) -> u32 {
    if partitions <= 32 { partitions.div_ceil(8) } else { (partitions / 32 - 1) * 32 + 4 }
}

fn check_scale(scale: &View, name: &'static str, data: &View) -> Result<(), Violation> {
    check_scale_place(&SCALE, scale, name, data.partitions(), data.partition_start(), data.free_size())
}

/// Checks a scale tile against its data: columns, rows and quadrant.
pub(crate) fn check_scale_place(
    rule: &Rule,
    scale: &View,
    name: &'static str,
    partitions: u32,
    partition_start: u32,
    columns: u64,
) -> Result<(), Violation> {
    let offset = i64::from(scale.partition_start()) - i64::from(partition_start);
    let placed = (0..=12).contains(&offset) && offset % 4 == 0;
    if scale.space != trn3_mem::Space::Sbuf
        || scale.free_size() != columns
        || scale.partitions() < scale_rows(partitions)
        || !placed
    {
        let value = format!(
            "has shape {:?} in {} from partition {}",
            scale.shape().as_slice(),
            scale.space.name(),
            scale.partition_start()
        );
        let limit = format!(
            "needs {columns} columns and at least {} rows in sbuf, {partition_start} + 0, 4, 8 or 12 first",
            scale_rows(partitions)
        );
        return Err(broken(rule, name, value, limit));
    }
    Ok(())
}

fn rows(instruction: &Instruction, tables: &Tables<'_>, slot: usize) -> Rows {
    if slot < 3 {
        return Rows::All;
    }
    Rows::of_scales(tables.pattern(&instruction.operands[slot - 2]).dims[0].count)
}

fn execute(instruction: &Instruction, machine: &mut Machine<'_>) -> Result<(), Violation> {
    let [dst, stationary, moving, stationary_scale, moving_scale] = instruction.operands;
    let mut psum_bytes = machine.memory.take(dst.tensor);
    let geometry = |operand: &Operand| machine.tables.geometry(operand).with_merged_free();
    let geometries = [&stationary, &moving, &stationary_scale, &moving_scale].map(geometry);
    let frees = geometries.each_ref().map(free_dims);
    let operand = |at: usize, tensor: &Operand| {
        let g: &Geometry = &geometries[at];
        let (offset_bytes, row_stride_bytes) = rows_of(g);
        let bytes = machine.memory.bytes(tensor.tensor);
        array::Operand {
            bytes,
            dtype: g.dtype,
            offset_bytes,
            row_stride_bytes,
            rows: g.rows(),
            free: &frees[at].0[..frees[at].1],
        }
    };
    let scale = |at: usize, tensor: &Operand| {
        let (offset_bytes, row_stride_bytes) = rows_of(&geometries[at]);
        let bytes = machine.memory.bytes(tensor.tensor);
        // The view starts at the first row that is used, so no row of the quadrant is skipped.
        array::ScaleOperand { bytes, offset_bytes, row_stride_bytes, first_row: 0, free: &frees[at].0[..frees[at].1] }
    };
    let p = geometry(&dst);
    let (p_free, p_rank) = free_dims(&p);
    let (offset_bytes, row_stride_bytes) = rows_of(&p);
    let mut psum = array::Psum {
        bytes: psum_bytes.as_mut_slice(),
        offset_bytes,
        row_stride_bytes,
        free: &p_free[..p_rank],
        dtype: p.dtype,
        accumulate: accumulate_of(instruction) == Accumulate::Add,
    };
    array::multiply_mx(
        &mut machine.scratch.array,
        &operand(0, &stationary),
        &scale(2, &stationary_scale),
        &operand(1, &moving),
        &scale(3, &moving_scale),
        &mut psum,
    );
    machine.memory.restore(dst.tensor, psum_bytes);
    Ok(())
}

fn cost(instruction: &Instruction, tables: &Tables<'_>, target: &Target) -> Cost {
    let m = tables.geometry(&instruction.operands[1]).row_elements() as u64;
    let n = tables.geometry(&instruction.operands[0]).row_elements() as u64;
    let passes = u64::from(target.core.tensor.passes.mx.unwrap_or(1));
    multiply_cost(instruction, target, m, n, passes)
}

fn work(instruction: &Instruction, tables: &Tables<'_>) -> Work {
    let k = 4 * tables.geometry(&instruction.operands[1]).rows() as u64;
    let flops = 2 * k * tables.geometry(&instruction.operands[0]).elements() as u64;
    Work { flops, weight: Weight::Mx }
}
