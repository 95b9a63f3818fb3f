//! `quantize_mx`: a tile in microscaled form, four codes a word and one scale for 32 values.

use crate::arguments::{Arguments, Parameter, Use};
use crate::context::{Context, SBUF, broken};
use crate::cost::{Cost, Stream};
use crate::instruction::{Engine, Instruction};
use crate::machine::{Machine, Tables};
use crate::rules::Rule;
use crate::table::{Definition, Exactness, Kind, Opcode, Rows, keeps_nan, no_work};
use crate::tensor::nc_matmul_mx::check_scale_place;
use trn3_mem::Violation;
use trn3_num::{Dtype, mx};
use trn3_spec::Target;

/// The table's entry.
pub const DEFINITION: Definition = Definition {
    name: "quantize_mx",
    doc: "Quantises a tile to microscaled FP8: groups of 8 partitions by 4 neighbouring free elements share a scale.\n\n\
        ``scale = 2**(floor(log2(amax)) - (Emax - 1))`` from NKI 0.5 on, ``- Emax`` (OCP's sample rule) before; \
        elements are rounded to nearest, ties to even. Packed word (p, f) holds elements 4f to 4f+3 of partition p, the \
        first in the lowest byte. Scale rows that no group uses are not written. A group with NaN or infinity gets scale \
        0xFF and NaN elements.",
    source: "nki/api/nki/isa/__init__.py, quantize_mx; release-notes/components/nki.rst",
    kind: Kind::Compute,
    engines: &[Engine::Vector],
    parameters: &[
        Parameter {
            name: "dst",
            default: None,
            usage: Use::Write,
            doc: "SBUF, (P, F/4), float8_e5m2_x4 or float8_e4m3fn_x4.",
        },
        Parameter {
            name: "src",
            default: None,
            usage: Use::Read,
            doc: "SBUF, (P, F), bfloat16 or float16; P a multiple of 32, F of 4.",
        },
        Parameter {
            name: "dst_scale",
            default: None,
            usage: Use::Write,
            doc: "SBUF, float8_e8m0fnu or uint8, (P/8, F/4) up to 32 partitions, else (P, F/4) with 4 rows of each quadrant written.",
        },
    ],
    rules: &[GENERATION, DST_DTYPE, SRC, DST_SHAPE, SCALE],
    exactness: Exactness::BitExact,
    build,
    execute,
    hides_nan: keeps_nan,
    rows,
    cost,
    work: no_work,
};

const GENERATION: Rule = Rule {
    id: "quantize_mx.generation",
    text: "VectorE quantises from NeuronCore-v4 (trn3) on",
    source: "nki/guides/architecture/trainium3_arch.rst",
    fix: "target trn3, or quantise on the host (trn3.mx)",
};
const DST_DTYPE: Rule = Rule {
    id: "quantize_mx.dst.dtype",
    text: "dst is float8_e5m2_x4 or float8_e4m3fn_x4; FP4 cannot be produced on the device",
    source: "nki/deep-dives/mxfp-matmul.rst",
    fix: "quantise to FP8, or prepare FP4 on the host (trn3.mx)",
};
const SRC: Rule = Rule {
    id: "quantize_mx.src",
    text: "src is bfloat16 or float16, its partitions a multiple of 32 up to 128, its free size a multiple of 4",
    source: "nki/api/nki/isa/__init__.py, quantize_mx",
    fix: "cast to bfloat16 and pad to a multiple of 32 partitions and 4 elements",
};
const DST_SHAPE: Rule = Rule {
    id: "quantize_mx.dst.shape",
    text: "dst has the partitions of src and a quarter of its free size",
    source: "nki/api/nki/isa/__init__.py, quantize_mx",
    fix: "allocate dst as (P, F/4)",
};
const SCALE: Rule = Rule {
    id: "quantize_mx.dst_scale",
    text: "dst_scale is float8_e8m0fnu or uint8 with dst's columns, dst's quadrants, 4 rows of each from row 0, 4, 8 or 12",
    source: "nki/deep-dives/mxfp-matmul.rst",
    fix: "allocate the scale tile as (P/8, F/4) up to 32 partitions, else (P, F/4)",
};

/// The OCP sample rule instead of the hardware's.
const OCP: u16 = 1;
/// Partitions that share a scale.
const GROUP_PARTITIONS: usize = 8;
/// Codes of a word, free elements that share a scale.
const WORD_CODES: usize = 4;

fn build(arguments: &Arguments<'_>, context: &mut Context<'_>) -> Result<Instruction, Violation> {
    let (dst, src, scale) = (arguments.view("dst")?, arguments.view("src")?, arguments.view("dst_scale")?);
    if !context.target.core.capability.quantize_mx {
        return Err(context.lacking(&GENERATION, "", None));
    }
    context.check_tile(dst, "dst", SBUF)?;
    context.check_tile(src, "src", SBUF)?;
    if !matches!(dst.dtype, Dtype::Float8E5m2X4 | Dtype::Float8E4m3fnX4) {
        return Err(broken(&DST_DTYPE, "dst", format!("is {}", dst.dtype.name()), DST_DTYPE.text));
    }
    let (partitions, free) = (src.partitions(), src.free_size());
    let multiple = context.target.core.matmul.mx_partition_multiple.unwrap_or(1);
    if !matches!(src.dtype, Dtype::Bfloat16 | Dtype::Float16) || !partitions.is_multiple_of(multiple) || free % 4 != 0 {
        return Err(broken(&SRC, "src", format!("is {} ({partitions}, {free})", src.dtype.name()), SRC.text));
    }
    if dst.partitions() != partitions || dst.free_size() != free / 4 {
        let value = format!("has shape {:?}", dst.shape().as_slice());
        return Err(broken(&DST_SHAPE, "dst", value, format!("must be ({partitions}, {})", free / 4)));
    }
    if !matches!(scale.dtype, Dtype::Float8E8m0fnu | Dtype::Uint8) {
        return Err(broken(&SCALE, "dst_scale", format!("is {}", scale.dtype.name()), SCALE.text));
    }
    check_scale_place(&SCALE, scale, "dst_scale", partitions, dst.partition_start(), free / 4)?;
    let mut instruction = Instruction::new(Opcode::QuantizeMx, Engine::Vector);
    context.writes(&mut instruction, 0, dst);
    context.reads(&mut instruction, 1, src);
    context.writes(&mut instruction, 2, scale);
    // Only some rows of the scale tile are written; the rest keep what they hold.
    instruction.constants[0] = partitions;
    instruction.flags = if context.options.nki_version < 5 { OCP } else { 0 };
    Ok(instruction)
}

/// The row of the scale view that belongs to a group of partitions.
pub(crate) fn scale_row(partitions: usize, group: usize) -> usize {
    let p = group * GROUP_PARTITIONS;
    if partitions <= 32 { group } else { 32 * (p / 32) + (p % 32) / GROUP_PARTITIONS }
}

fn rows(instruction: &Instruction, _: &Tables<'_>, slot: usize) -> Rows {
    if slot == 2 { Rows::of_scales(instruction.constants[0]) } else { Rows::All }
}

fn execute(instruction: &Instruction, machine: &mut Machine<'_>) -> Result<(), Violation> {
    let [dst, src, scale, ..] = instruction.operands;
    let element = match machine.tables.pattern(&dst).dtype {
        Dtype::Float8E5m2X4 => mx::Element::E5m2,
        _ => mx::Element::E4m3fn,
    };
    let rule = if instruction.flags & OCP != 0 { mx::ScaleRule::Ocp } else { mx::ScaleRule::Hardware };
    let mut values = std::mem::take(&mut machine.scratch.tile);
    machine.read_all(&src, &mut values);
    let geometry = machine.tables.geometry(&src);
    let (partitions, free) = (geometry.rows(), geometry.row_elements());
    let columns = free / WORD_CODES;
    let mut grouped = vec![0f32; GROUP_PARTITIONS * free];
    let mut group_codes = vec![0u8; GROUP_PARTITIONS * free];
    let mut codes = vec![0u8; partitions * free];
    let mut scales = vec![0u8; partitions / GROUP_PARTITIONS * columns];
    for (group, rows) in values.chunks_exact(GROUP_PARTITIONS * free).enumerate() {
        // The 32 values of a group, which lie in 8 rows, one after the other.
        for column in 0..columns {
            for row in 0..GROUP_PARTITIONS {
                let (to, from) = ((column * GROUP_PARTITIONS + row) * WORD_CODES, row * free + column * WORD_CODES);
                grouped[to..to + WORD_CODES].copy_from_slice(&rows[from..from + WORD_CODES]);
            }
        }
        let extent = mx::Extent::last_axis(grouped.len());
        let scales = &mut scales[group * columns..(group + 1) * columns];
        mx::quantize(mx::Values::F32(&grouped), extent, element, rule, &mut group_codes, scales);
        let codes = &mut codes[group * GROUP_PARTITIONS * free..(group + 1) * GROUP_PARTITIONS * free];
        for column in 0..columns {
            for row in 0..GROUP_PARTITIONS {
                let (from, to) = ((column * GROUP_PARTITIONS + row) * WORD_CODES, row * free + column * WORD_CODES);
                codes[to..to + WORD_CODES].copy_from_slice(&group_codes[from..from + WORD_CODES]);
            }
        }
    }
    machine.scratch.tile = values;
    machine.with_written(&dst, |_, tile| tile.write_bytes(0, &codes));
    machine.with_written(&scale, |_, tile| {
        let row = tile.geometry.row_elements();
        for (group, scales) in scales.chunks_exact(columns).enumerate() {
            tile.write_bytes(scale_row(partitions, group) * row, scales);
        }
    });
    Ok(())
}

fn cost(instruction: &Instruction, tables: &Tables<'_>, target: &Target) -> Cost {
    let vector = &target.core.vector;
    let n = tables.geometry(&instruction.operands[1]).row_elements() as u64;
    let rate = vector.stream.quantize_mx_cycles_per_element;
    Cost::Stream(Stream {
        stream: rate.map_or(n, |rate| rate.times_ceil(n)),
        latency: u64::from(vector.other.latency_cycles),
        overhead: u64::from(vector.other.overhead_cycles),
    })
}
