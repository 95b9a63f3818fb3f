//! `affine_select`: a tile where an affine value of the place passes a comparison with 0, a number elsewhere.

use super::affine::{self, Affine};
use crate::arguments::{Arguments, Parameter, Use};
use crate::context::{Context, SBUF, broken};
use crate::cost::Cost;
use crate::instruction::{Engine, Instruction};
use crate::machine::{Machine, Tables};
use crate::operator::Operator;
use crate::rules::Rule;
use crate::table::{Definition, Exactness, Kind, Opcode, every_row, no_work};
use crate::vector::stream_cost;
use trn3_mem::Violation;
use trn3_num::encode_slice;
use trn3_spec::Target;

/// The table's entry.
pub const DEFINITION: Definition = Definition {
    name: "affine_select",
    doc: "``dst = on_true_tile`` where ``cmp_op(v, 0)``, else ``on_false_value``; v is ``offset + p * channel_multiplier + \
        sum of step * i``.\n\nv is an int32. Equal data types are copied bit by bit, others cast through FP32.",
    source: "nki/api/nki/isa/__init__.py, affine_select",
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
        Parameter { name: "channel_multiplier", default: None, usage: Use::Constant, doc: "Added for each partition." },
        Parameter { name: "on_true_tile", default: None, usage: Use::Read, doc: "SBUF, (P, F), any type." },
        Parameter { name: "on_false_value", default: None, usage: Use::Constant, doc: "A number, float32." },
        Parameter {
            name: "cmp_op",
            default: Some("_equal"),
            usage: Use::Constant,
            doc: "A comparison: nl.equal, nl.not_equal, nl.less, nl.less_equal, nl.greater or nl.greater_equal.",
        },
        Parameter { name: "offset", default: Some("0"), usage: Use::Constant, doc: "v at the first element." },
    ],
    rules: &[PATTERN, COMPARISON],
    exactness: Exactness::BitExact,
    build,
    execute,
    hides_nan,
    rows: every_row,
    cost,
    work: no_work,
};

const PATTERN: Rule = Rule {
    id: "affine_select.pattern",
    text: "pattern has 1 to 4 [step, count] pairs whose counts multiply to dst's free size; steps and offsets are int32",
    source: "nki/api/nki/isa/__init__.py, affine_select",
    fix: "write the counts of dst's free dimensions",
};
const COMPARISON: Rule = Rule {
    id: "affine_select.cmp_op",
    text: "cmp_op compares two numbers",
    source: "nki/api/nki/isa/__init__.py, affine_select",
    fix: "use nl.equal, nl.not_equal, nl.less, nl.less_equal, nl.greater or nl.greater_equal",
};

fn build(arguments: &Arguments<'_>, context: &mut Context<'_>) -> Result<Instruction, Violation> {
    let (dst, on_true) = (arguments.view("dst")?, arguments.view("on_true_tile")?);
    for (view, name) in [(dst, "dst"), (on_true, "on_true_tile")] {
        context.check_tile(view, name, SBUF)?;
        context.check_unpacked(view, name)?;
    }
    context.check_same_shape(on_true, "on_true_tile", dst, "dst")?;
    let comparison = context.arithmetic(arguments, "cmp_op", &COMPARISON)?;
    if !is_comparison(comparison) {
        return Err(broken(&COMPARISON, "cmp_op", format!("is {}", comparison.name()), COMPARISON.text));
    }
    let mut instruction = Instruction::new(Opcode::AffineSelect, Engine::Gpsimd);
    context.writes(&mut instruction, 0, dst);
    context.reads(&mut instruction, 1, on_true);
    affine::record(&mut instruction, 2, arguments, context, dst, &PATTERN)?;
    instruction.constants[2] = (arguments.number("on_false_value")? as f32).to_bits();
    instruction.flags = comparison as u16;
    Ok(instruction)
}

fn is_comparison(operator: Operator) -> bool {
    matches!(
        operator,
        Operator::Equal
            | Operator::NotEqual
            | Operator::Less
            | Operator::LessEqual
            | Operator::Greater
            | Operator::GreaterEqual
    )
}

/// Whether an affine value passes.
fn passes(comparison: Operator, value: i32) -> bool {
    match comparison {
        Operator::Equal => value == 0,
        Operator::NotEqual => value != 0,
        Operator::Less => value < 0,
        Operator::LessEqual => value <= 0,
        Operator::Greater => value > 0,
        _ => value >= 0,
    }
}

fn hides_nan(_: &Instruction) -> bool {
    true
}

fn execute(instruction: &Instruction, machine: &mut Machine<'_>) -> Result<(), Violation> {
    let [dst, on_true, ..] = instruction.operands;
    let geometry = machine.tables.geometry(&dst);
    let (rows, row, size) = (geometry.rows(), geometry.row_elements(), geometry.dtype.size_bytes());
    let affine = Affine::of(instruction, 2, &machine.tables, row);
    let comparison = Operator::from_code(instruction.flags as u8);
    let cast = machine.options.cast;
    let tile = machine.tile(&on_true);
    let mut bytes = vec![0u8; rows * row * size];
    if tile.geometry.dtype == geometry.dtype {
        tile.read_bytes(0, &mut bytes);
    } else {
        let mut values = vec![0.0; rows * row];
        tile.read_f32(0, &mut values);
        encode_slice(geometry.dtype, &values, &mut bytes, cast);
    }
    let mut other = [0u8; 4];
    encode_slice(geometry.dtype, &[f32::from_bits(instruction.constants[2])], &mut other[..size], cast);
    for (partition, row_bytes) in bytes.chunks_exact_mut(row * size).enumerate() {
        for (element, value) in row_bytes.chunks_exact_mut(size).zip(affine.row(partition)) {
            if !passes(comparison, value) {
                element.copy_from_slice(&other[..size]);
            }
        }
    }
    machine.with_written(&dst, |_, tile| tile.write_bytes(0, &bytes));
    Ok(())
}

fn cost(instruction: &Instruction, tables: &Tables<'_>, target: &Target) -> Cost {
    let n = tables.geometry(&instruction.operands[0]).row_elements() as u64;
    stream_cost::on_gpsimd(target.core.gpsimd.stream.affine_select_cycles_per_element.times_ceil(n), target)
}
