//! `nc_transpose`: a tile with its partitions and free elements swapped.

use crate::arguments::{Arguments, Parameter, Use};
use crate::context::{Context, ON_CHIP, PSUM, SBUF, broken};
use crate::cost::{Cost, Stream};
use crate::instruction::{Engine, Instruction};
use crate::machine::{Machine, Tables};
use crate::rules::Rule;
use crate::table::{Definition, Exactness, Kind, Opcode, every_row, keeps_nan, no_work};
use crate::tensor::nc_matmul::{TRANSPOSE, multiply_cost};
use trn3_mem::{Space, Violation};
use trn3_num::Dtype;
use trn3_spec::Target;

/// The table's entry.
pub const DEFINITION: Definition = Definition {
    name: "nc_transpose",
    doc: "2-D transpose: ``dst[f, p] = data[p, f]``, bit exact.\n\n\
        On TensorE up to 128x128 from SBUF to PSUM, on VectorE up to 32x32 between SBUF and PSUM. With engine.unknown \
        TensorE is chosen when dst is in PSUM or the tile is larger than 32x32.",
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
            doc: "(P, F): SBUF on TensorE, SBUF or PSUM on VectorE; the dtype of dst.",
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
    text: "dst and data have the same data type",
    source: "nki/api/nki/isa/__init__.py, nc_transpose",
    fix: "allocate dst with the data type of data",
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
    if dst.dtype != data.dtype {
        return Err(broken(
            &DTYPE,
            "dst",
            format!("is {}", dst.dtype.name()),
            format!("data is {}", data.dtype.name()),
        ));
    }
    let mut instruction = Instruction::new(Opcode::NcTranspose, engine);
    context.writes(&mut instruction, 0, dst);
    context.reads(&mut instruction, 1, data);
    instruction.constants[0] = 128 << 16;
    instruction.constants[1] = 128 << 16;
    instruction.flags = TRANSPOSE;
    Ok(instruction)
}

fn execute(instruction: &Instruction, machine: &mut Machine<'_>) -> Result<(), Violation> {
    let [dst, data, ..] = instruction.operands;
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

fn cost(instruction: &Instruction, tables: &Tables<'_>, target: &Target) -> Cost {
    let data = tables.geometry(&instruction.operands[1]);
    if instruction.engine == Engine::Tensor {
        let passes = &target.core.tensor.passes;
        let passes = u64::from(if data.dtype == Dtype::Float32 { passes.fp32_transpose } else { passes.bits16 });
        return multiply_cost(instruction, target, data.row_elements() as u64, data.rows() as u64, passes);
    }
    let timing = &target.core.vector.other;
    Cost::Stream(Stream {
        stream: target.core.vector.stream.transpose_cycles_per_element.times_ceil(data.row_elements() as u64),
        latency: u64::from(timing.latency_cycles),
        overhead: u64::from(timing.overhead_cycles),
    })
}
