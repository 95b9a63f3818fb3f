//! `iota`: a tile of affine indices.

use crate::arguments::{Arguments, Parameter, Use};
use crate::context::{Context, SBUF, broken};
use crate::cost::{Cost, Stream};
use crate::instruction::{Engine, Instruction, Operand};
use crate::machine::{Machine, Tables};
use crate::rules::Rule;
use crate::table::{Definition, Exactness, Kind, Opcode, keeps_nan, no_work};
use trn3_mem::{Dim, Dims, TensorId, View, Violation};
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
    let pairs = arguments.pairs("pattern")?;
    let product = pairs.iter().try_fold(1i64, |product, &(_, count)| product.checked_mul(count.max(0)));
    if pairs.is_empty() || pairs.len() > 4 || product != Some(dst.free_size() as i64) {
        let limit = format!("counts must multiply to {}", dst.free_size());
        return Err(broken(&PATTERN, "pattern", format!("is {:?}", pairs.as_slice()), limit));
    }
    let word = i64::from(i32::MIN)..=i64::from(i32::MAX);
    let (offset, multiplier) = (arguments.int("offset")?, arguments.int("channel_multiplier")?);
    let steps = pairs.iter().map(|&(step, _)| ("pattern", step));
    for (name, value) in steps.chain([("offset", offset), ("channel_multiplier", multiplier)]) {
        if !word.contains(&value) {
            return Err(broken(&PATTERN, name, format!("is {value}"), "steps and offsets are int32"));
        }
    }
    let mut instruction = Instruction::new(Opcode::Iota, Engine::Gpsimd);
    context.writes(&mut instruction, 0, dst);
    let dims: Dims = pairs.iter().map(|&(stride, count)| Dim { stride, count: count as u32 }).collect();
    let steps = View { dims, index: None, scalar: None, ..dst.clone() };
    instruction.operands[1] = Operand { tensor: TensorId::NONE, pattern: context.patterns.intern(&steps), offset: 0 };
    instruction.constants[0] = offset as u32;
    instruction.constants[1] = multiplier as u32;
    Ok(instruction)
}

fn execute(instruction: &Instruction, machine: &mut Machine<'_>) -> Result<(), Violation> {
    let [dst, steps, ..] = instruction.operands;
    let (rows, row) = {
        let geometry = machine.tables.geometry(&dst);
        (geometry.rows(), geometry.row_elements())
    };
    let dims = machine.tables.pattern(&steps).dims.clone();
    let mut first_row = Vec::with_capacity(row);
    for at in 0..row {
        let mut rest = at;
        let mut value = instruction.constants[0] as i32;
        for dim in dims.iter().rev() {
            let index = rest % dim.count as usize;
            rest /= dim.count as usize;
            value = value.wrapping_add((dim.stride as i32).wrapping_mul(index as i32));
        }
        first_row.push(value);
    }
    let multiplier = instruction.constants[1] as i32;
    let cast = machine.options.cast;
    machine.with_written(&dst, |_, tile| {
        let dtype = tile.geometry.dtype;
        for partition in 0..rows {
            let base = multiplier.wrapping_mul(partition as i32);
            let values: Vec<i32> = first_row.iter().map(|value| value.wrapping_add(base)).collect();
            if matches!(dtype, Dtype::Int32 | Dtype::Uint32) {
                let words: Vec<u32> = values.iter().map(|&value| value as u32).collect();
                tile.write_words(partition * row, &words);
            } else {
                let values: Vec<f32> = values.iter().map(|&value| value as f32).collect();
                let mut bytes = vec![0; row * dtype.size_bytes()];
                encode_slice(dtype, &values, &mut bytes, cast);
                tile.write_bytes(partition * row, &bytes);
            }
        }
    });
    Ok(())
}

fn cost(instruction: &Instruction, tables: &Tables<'_>, target: &Target) -> Cost {
    let gpsimd = &target.core.gpsimd;
    let n = tables.geometry(&instruction.operands[0]).row_elements() as u64;
    Cost::Stream(Stream {
        stream: u64::from(gpsimd.start_cycles) + gpsimd.stream.iota_cycles_per_element.times_ceil(n),
        latency: u64::from(gpsimd.latency_cycles),
        overhead: u64::from(gpsimd.overhead_cycles),
    })
}
