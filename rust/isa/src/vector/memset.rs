//! `memset`: a tile filled with a constant.

use crate::arguments::{Argument, Arguments, Parameter, Use};
use crate::context::{Context, ON_CHIP, SBUF, broken};
use crate::cost::Cost;
use crate::instruction::{Engine, Instruction};
use crate::machine::{Machine, Tables};
use crate::rules::Rule;
use crate::table::{Definition, Exactness, Kind, Opcode, every_row, keeps_nan, no_work};
use crate::vector::stream_cost;
use trn3_mem::Violation;
use trn3_num::{Dtype, encode_slice};
use trn3_spec::Target;

/// The table's entry.
pub const DEFINITION: Definition = Definition {
    name: "memset",
    doc: "Fills a tile with a compile-time constant; packed types take 0 only.",
    source: "nki/api/nki/isa/__init__.py, memset; nki/migration/index.rst",
    kind: Kind::Compute,
    engines: &[Engine::Vector, Engine::Gpsimd],
    parameters: &[
        Parameter {
            name: "dst",
            default: None,
            usage: Use::Write,
            doc: "SBUF or PSUM (GpSimdE: SBUF), (P, F), any type.",
        },
        Parameter { name: "value", default: None, usage: Use::Constant, doc: "A constant of dst's kind." },
        Parameter {
            name: "engine",
            default: Some("engine.unknown"),
            usage: Use::Constant,
            doc: "engine.vector, engine.gpsimd or engine.unknown (VectorE).",
        },
    ],
    rules: &[VALUE],
    exactness: Exactness::BitExact,
    build,
    execute,
    hides_nan: keeps_nan,
    rows: every_row,
    cost,
    work: no_work,
};

const VALUE: Rule = Rule {
    id: "memset.value",
    text: "value is a number of dst's kind: no fraction for integers, in range, and 0 for packed types",
    source: "nki/migration/index.rst",
    fix: "give a value that dst's data type holds",
};

/// The range of an integer type.
pub(crate) fn integer_range(dtype: Dtype) -> Option<(i64, i64)> {
    Some(match dtype {
        Dtype::Bool => (0, 1),
        Dtype::Uint8 => (0, u8::MAX.into()),
        Dtype::Int8 => (i8::MIN.into(), i8::MAX.into()),
        Dtype::Uint16 => (0, u16::MAX.into()),
        Dtype::Int16 => (i16::MIN.into(), i16::MAX.into()),
        Dtype::Uint32 => (0, u32::MAX.into()),
        Dtype::Int32 => (i32::MIN.into(), i32::MAX.into()),
        _ => return None,
    })
}

fn build(arguments: &Arguments<'_>, context: &mut Context<'_>) -> Result<Instruction, Violation> {
    let dst = arguments.view("dst")?;
    let engine = context.engine(arguments, DEFINITION.engines)?.unwrap_or(Engine::Vector);
    context.check_tile(dst, "dst", if engine == Engine::Gpsimd { SBUF } else { ON_CHIP })?;
    let value = arguments.number("value")?;
    let given = arguments.get("value");
    let fits = if let Some((low, high)) = integer_range(dst.dtype) {
        matches!(given, Argument::Int(value) if (low..=high).contains(value)) || matches!(given, Argument::Bool(_))
    } else {
        !dst.dtype.is_packed() || value == 0.0
    };
    if !fits {
        let what = format!("is {} for {}", given.describe(), dst.dtype.name());
        return Err(broken(&VALUE, "value", what, VALUE.text));
    }
    let mut instruction = Instruction::new(Opcode::Memset, engine);
    context.writes(&mut instruction, 0, dst);
    instruction.constants[0] = if dst.dtype.is_integer() { value as i64 as u32 } else { (value as f32).to_bits() };
    Ok(instruction)
}

fn execute(instruction: &Instruction, machine: &mut Machine<'_>) -> Result<(), Violation> {
    let dst = instruction.operands[0];
    let cast = machine.options.cast;
    let word = instruction.constants[0];
    machine.with_written(&dst, |_, tile| {
        let dtype = tile.geometry.dtype;
        let size = dtype.size_bytes();
        let mut element = [0u8; 4];
        if dtype.is_integer() {
            element = word.to_le_bytes();
        } else if !dtype.is_packed() {
            encode_slice(dtype, &[f32::from_bits(word)], &mut element[..size], cast);
        }
        let elements = tile.geometry.elements();
        if let Some(bytes) = tile.dense(0, elements) {
            if element[..size].iter().all(|&byte| byte == element[0]) {
                bytes.fill(element[0]);
            } else {
                bytes.chunks_exact_mut(size).for_each(|chunk| chunk.copy_from_slice(&element[..size]));
            }
        } else {
            tile.write_bytes(0, &element[..size].repeat(elements));
        }
    });
    Ok(())
}

fn cost(instruction: &Instruction, tables: &Tables<'_>, target: &Target) -> Cost {
    stream_cost::memset(instruction, tables, target)
}
