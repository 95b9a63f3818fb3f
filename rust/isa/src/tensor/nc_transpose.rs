//! `nc_transpose`: a tile with its partitions and free elements swapped.

use crate::arguments::{Arguments, Parameter, Use};
use crate::array;
use crate::context::{Context, ON_CHIP, PSUM, SBUF, broken};
use crate::cost::{Cost, Stream};
use crate::instruction::{Engine, Instruction, Operand};
use crate::machine::{Machine, Tables};
use crate::rules::Rule;
use crate::table::{Definition, Exactness, Kind, Opcode, every_row, keeps_nan, no_work};
use crate::tensor::nc_matmul::{IDENTITY, TRANSPOSE, multiplies, multiply_cost, transpose_flag};
use trn3_mem::{Space, View, Violation};
use trn3_num::{Cast, Dtype, encode_slice};
use trn3_spec::Target;

/// The table's entry.
pub const DEFINITION: Definition = Definition {
    name: "nc_transpose",
    doc: "2-D transpose: ``dst[f, p] = data[p, f]``, bit exact.\n\n\
        On TensorE up to 128x128 from SBUF to PSUM, on VectorE up to 32x32 between SBUF and PSUM. With engine.unknown \
        TensorE is chosen when dst is in PSUM or the tile is larger than 32x32. On v2 TensorE multiplies by the identity: \
        dst is float32, -0 becomes 0, and NaN or infinity spreads over its row of dst.",
    source: "nki/api/nki/isa/__init__.py, nc_transpose",
    kind: Kind::Compute,
    engines: &[Engine::Tensor, Engine::Vector],
    parameters: &[
        Parameter {
            name: "dst",
            default: None,
            usage: Use::Write,
            doc: "(F, P): PSUM on TensorE, SBUF or PSUM on VectorE.",
        },
        Parameter {
            name: "data",
            default: None,
            usage: Use::Read,
            doc: "(P, F): SBUF on TensorE, SBUF or PSUM on VectorE; the dtype of dst (TensorE of v2: a matmul dtype).",
        },
        Parameter {
            name: "engine",
            default: Some("engine.unknown"),
            usage: Use::Constant,
            doc: "engine.tensor, engine.vector or engine.unknown.",
        },
    ],
    rules: &[SHAPE, SIZE, DTYPE],
    exactness: Exactness::BitExact,
    build,
    execute,
    hides_nan: keeps_nan,
    rows: every_row,
    cost,
    work: no_work,
};

const SHAPE: Rule = Rule {
    id: "transpose.shape",
    text: "dst has the shape of data with partitions and free size swapped",
    source: "nki/api/nki/isa/__init__.py, nc_transpose",
    fix: "allocate dst as (free size, partitions)",
};
const SIZE: Rule = Rule {
    id: "transpose.size_max",
    text: "at most 128x128 on TensorE, 32x32 on VectorE",
    source: "nki/api/nki/isa/__init__.py, nc_transpose",
    fix: "split the tile, or choose engine.tensor",
};
const DTYPE: Rule = Rule {
    id: "transpose.dtype",
    text: "dst and data have the same data type; without a transpose mode (v2) TensorE takes matmul types and dst is float32",
    source: "nki/api/nki/isa/__init__.py, nc_transpose; nki/guides/architecture/trainium_inferentia2_arch.rst",
    fix: "allocate dst with the data type that the engine gives",
};

fn build(arguments: &Arguments<'_>, context: &mut Context<'_>) -> Result<Instruction, Violation> {
    let (dst, data) = (arguments.view("dst")?, arguments.view("data")?);
    let (rows, columns) = (u64::from(data.partitions()), data.free_size());
    let small = rows <= 32 && columns <= 32;
    let engine = context.engine(arguments, DEFINITION.engines)?.unwrap_or(if dst.space == Space::Psum || !small {
        Engine::Tensor
    } else {
        Engine::Vector
    });
    let (sources, targets, limit) = match engine {
        Engine::Tensor => (SBUF, PSUM, 128),
        _ => (ON_CHIP, ON_CHIP, 32),
    };
    context.check_tile(dst, "dst", targets)?;
    context.check_tile(data, "data", sources)?;
    if rows > limit || columns > limit {
        let value = format!("has shape ({rows}, {columns})");
        return Err(broken(&SIZE, "data", value, format!("limit {limit}x{limit} on {}", engine.name())));
    }
    if u64::from(dst.partitions()) != columns || dst.free_size() != rows {
        let value = format!("has shape {:?}", dst.shape().as_slice());
        return Err(broken(&SHAPE, "dst", value, format!("must be ({columns}, {rows})")));
    }
    check_dtypes(context.target, engine, dst, data)?;
    let mut instruction = Instruction::new(Opcode::NcTranspose, engine);
    context.writes(&mut instruction, 0, dst);
    context.reads(&mut instruction, 1, data);
    instruction.constants[0] = 128 << 16;
    instruction.constants[1] = 128 << 16;
    instruction.flags = if engine == Engine::Tensor { transpose_flag(context.target, true) } else { TRANSPOSE };
    Ok(instruction)
}

fn check_dtypes(target: &Target, engine: Engine, dst: &View, data: &View) -> Result<(), Violation> {
    let moves_bits = engine != Engine::Tensor || target.core.capability.transpose_mode;
    if !moves_bits && !multiplies(target, data.dtype) {
        let limit = format!("TensorE of {} transposes by multiplication", target.name);
        return Err(broken(&DTYPE, "data", format!("is {}", data.dtype.name()), limit));
    }
    let given = if moves_bits { data.dtype } else { Dtype::Float32 };
    if dst.dtype == given {
        return Ok(());
    }
    let limit = format!("{} of {} gives {} from {}", engine.name(), target.name, given.name(), data.dtype.name());
    Err(broken(&DTYPE, "dst", format!("is {}", dst.dtype.name()), limit))
}

fn execute(instruction: &Instruction, machine: &mut Machine<'_>) -> Result<(), Violation> {
    let [dst, data, ..] = instruction.operands;
    if instruction.flags & IDENTITY != 0 {
        multiply_by_identity(&dst, &data, machine);
        return Ok(());
    }
    let tile = machine.tile(&data);
    let size = tile.geometry.dtype.size_bytes();
    let (rows, columns) = (tile.geometry.rows(), tile.geometry.row_elements());
    let mut source = vec![0u8; rows * columns * size];
    tile.read_bytes(0, &mut source);
    let mut out = vec![0u8; rows * columns * size];
    for column in 0..columns {
        for row in 0..rows {
            let (to, from) = ((column * rows + row) * size, (row * columns + column) * size);
            out[to..to + size].copy_from_slice(&source[from..from + size]);
        }
    }
    machine.with_written(&dst, |_, tile| tile.write_bytes(0, &out));
    Ok(())
}

/// The product of the tile with the identity, in the arithmetic of the array.
fn multiply_by_identity(dst: &Operand, data: &Operand, machine: &mut Machine<'_>) {
    let geometry = machine.tables.geometry(data);
    let rows = geometry.rows();
    let dtype =
        if matches!(geometry.dtype, Dtype::Float32 | Dtype::Tfloat32) { geometry.dtype } else { Dtype::Bfloat16 };
    let size = dtype.size_bytes();
    let mut one = [0u8; 4];
    encode_slice(dtype, &[1.0], &mut one[..size], Cast::NEAREST);
    let mut identity = vec![0u8; rows * rows * size];
    identity.chunks_exact_mut(size).step_by(rows + 1).for_each(|element| element.copy_from_slice(&one[..size]));
    let columns = [(1, rows)];
    let moving = array::Operand {
        bytes: &identity,
        dtype,
        offset_bytes: 0,
        row_stride_bytes: rows * size,
        rows,
        free: &columns,
    };
    machine.multiply(dst, data, &moving);
}

fn cost(instruction: &Instruction, tables: &Tables<'_>, target: &Target) -> Cost {
    let data = tables.geometry(&instruction.operands[1]);
    if instruction.engine == Engine::Tensor {
        let passes = &target.core.tensor.passes;
        // Without a transpose mode the moving operand is the identity, which holds only 0 and 1.
        let fp32 = passes.fp32_transpose.unwrap_or(passes.fp32_onezero);
        let passes = u64::from(if data.dtype == Dtype::Float32 { fp32 } else { passes.bits16 });
        return multiply_cost(instruction, target, data.row_elements() as u64, data.rows() as u64, passes);
    }
    let timing = &target.core.vector.other;
    Cost::Stream(Stream {
        stream: target.core.vector.stream.transpose_cycles_per_element.times_ceil(data.row_elements() as u64),
        latency: u64::from(timing.latency_cycles),
        overhead: u64::from(timing.overhead_cycles),
    })
}
