//! `iota`: a tile of affine indices.

use crate::arguments::{Arguments, Parameter, Use};
use crate::context::{Context, SBUF};
use crate::cost::Cost;
use crate::gpsimd::affine::{self, Affine};
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
    name: "iota",
    doc: "``dst[p, i...] = offset + p * channel_multiplier + sum of step * i``, in int32, then cast.",
    source: "nki/api/nki/isa/__init__.py, iota",
    kind: Kind::Compute,
    engines: &[Engine::Gpsimd],
    parameters: &[
        Parameter { name: "dst", default: None, usage: Use::Write, doc: "SBUF, (P, F), any type." },
        Parameter {
            name: "pattern",
            default: None,
            usage: Use::Constant,
            doc: "Up to four [step, count] pairs; the counts multiply to F.",
        },
        Parameter { name: "offset", default: Some("0"), usage: Use::Constant, doc: "Value at the first element." },
        Parameter {
            name: "channel_multiplier",
            default: Some("0"),
            usage: Use::Constant,
            doc: "Added for each partition.",
        },
    ],
    rules: &[PATTERN],
    exactness: Exactness::BitExact,
    build,
    execute,
    hides_nan: keeps_nan,
    rows: every_row,
    cost,
    work: no_work,
};

const PATTERN: Rule = Rule {
    id: "iota.pattern",
    text: "pattern has 1 to 4 [step, count] pairs whose counts multiply to dst's free size; steps and offsets are int32",
    source: "nki/api/nki/isa/__init__.py, iota",
    fix: "write the counts of dst's free dimensions",
};

fn build(arguments: &Arguments<'_>, context: &mut Context<'_>) -> Result<Instruction, Violation> {
    let dst = arguments.view("dst")?;
    context.check_tile(dst, "dst", SBUF)?;
    context.check_unpacked(dst, "dst")?;
    let mut instruction = Instruction::new(Opcode::Iota, Engine::Gpsimd);
    context.writes(&mut instruction, 0, dst);
    affine::record(&mut instruction, 1, arguments, context, dst, &PATTERN)?;
    Ok(instruction)
}

fn execute(instruction: &Instruction, machine: &mut Machine<'_>) -> Result<(), Violation> {
    let dst = instruction.operands[0];
    let geometry = machine.tables.geometry(&dst);
    let (rows, row) = (geometry.rows(), geometry.row_elements());
    let affine = Affine::of(instruction, 1, &machine.tables, row);
    let cast = machine.options.cast;
    machine.with_written(&dst, |_, tile| {
        let dtype = tile.geometry.dtype;
        for partition in 0..rows {
            if matches!(dtype, Dtype::Int32 | Dtype::Uint32) {
                let words: Vec<u32> = affine.row(partition).map(|value| value as u32).collect();
                tile.write_words(partition * row, &words);
            } else {
                let values: Vec<f32> = affine.row(partition).map(|value| value as f32).collect();
                let mut bytes = vec![0; row * dtype.size_bytes()];
                encode_slice(dtype, &values, &mut bytes, cast);
                tile.write_bytes(partition * row, &bytes);
            }
        }
    });
    Ok(())
}

fn cost(instruction: &Instruction, tables: &Tables<'_>, target: &Target) -> Cost {
    let n = tables.geometry(&instruction.operands[0]).row_elements() as u64;
    stream_cost::on_gpsimd(target.core.gpsimd.stream.iota_cycles_per_element.times_ceil(n), target)
}
