//! `tensor_reduce`: a reduction along trailing free dimensions.

use crate::arguments::{Arguments, Parameter, Use};
use crate::context::{Context, ON_CHIP, broken};
use crate::cost::Cost;
use crate::instruction::{Engine, Instruction};
use crate::machine::{Machine, Tables};
use crate::operator::{Class, Operator, bits_of, same_bits};
use crate::recurrence;
use crate::rules::{self, Rule};
use crate::simd;
use crate::table::{Definition, Exactness, Kind, Opcode, every_row, no_work};
use crate::vector::stream_cost;
use trn3_mem::Violation;
use trn3_num::Dtype;
use trn3_spec::Target;

/// The table's entry.
pub const DEFINITION: Definition = Definition {
    name: "tensor_reduce",
    doc: "Reduces the trailing free dimensions named by ``axis``.\n\n\
        FP32, strictly from the first element to the last, one rounding a step (a public Trn1 data set agrees bit for \
        bit for sums); bit operators work on integer bit patterns. ``negate`` multiplies the result by -1.",
    source: "nki/api/nki/isa/__init__.py, tensor_reduce",
    kind: Kind::Compute,
    engines: &[Engine::Vector],
    parameters: &[
        Parameter { name: "dst", default: None, usage: Use::Write, doc: "SBUF or PSUM, (P, kept elements)." },
        Parameter {
            name: "op",
            default: None,
            usage: Use::Constant,
            doc: "An operator that reduces, such as nl.add or nl.maximum.",
        },
        Parameter { name: "data", default: None, usage: Use::Read, doc: "SBUF or PSUM, (P, F...)." },
        Parameter {
            name: "axis",
            default: None,
            usage: Use::Constant,
            doc: "Trailing free dimensions: an int or a tuple, never 0.",
        },
        Parameter {
            name: "negate",
            default: Some("False"),
            usage: Use::Constant,
            doc: "Negate the result (arithmetic only).",
        },
        Parameter {
            name: "keepdims",
            default: Some("False"),
            usage: Use::Constant,
            doc: "Reduced dimensions stay with size 1; no effect on values.",
        },
    ],
    rules: &[AXIS, DST_SHAPE, BITVEC],
    exactness: Exactness::BitExact,
    build,
    execute,
    hides_nan,
    rows: every_row,
    cost,
    work: no_work,
};

const AXIS: Rule = Rule {
    id: "tensor_reduce.axis",
    text: "axis names trailing free dimensions without a gap, never dimension 0",
    source: "nki/api/nki/isa/__init__.py, tensor_reduce",
    fix: "permute the view so that the reduced dimensions are last",
};
const DST_SHAPE: Rule = Rule {
    id: "tensor_reduce.dst.shape",
    text: "dst has the partitions of data and one element for each kept position",
    source: "nki/api/nki/isa/__init__.py, tensor_reduce",
    fix: "allocate dst as (P, kept elements)",
};
const BITVEC: Rule = Rule {
    id: "tensor_reduce.bitvec",
    text: "bit operators take integer tiles of one width, without negate",
    source: "nki/api/nki/isa/__init__.py, tensor_reduce",
    fix: "cast first, or use .view() for bit patterns",
};

const NEGATE: u16 = 1;

fn build(arguments: &Arguments<'_>, context: &mut Context<'_>) -> Result<Instruction, Violation> {
    let (dst, data) = (arguments.view("dst")?, arguments.view("data")?);
    let operator = context.operator(arguments, "op")?.filter(|operator| operator.reduces());
    let Some(operator) = operator else {
        let value = format!("is {}", arguments.get("op").describe());
        return Err(broken(&rules::OPERATOR, "op", value, "must be an operator that reduces"));
    };
    for (view, name) in [(dst, "dst"), (data, "data")] {
        context.check_tile(view, name, ON_CHIP)?;
        context.check_unpacked(view, name)?;
    }
    let negate = arguments.flag("negate")?;
    arguments.flag("keepdims")?;
    let one_width = same_bits(dst.dtype, data.dtype);
    if operator.class() == Class::Bitvec && (!one_width || negate) {
        let value = format!("is {} to {}", data.dtype.name(), dst.dtype.name());
        return Err(broken(&BITVEC, "data", value, BITVEC.text));
    }
    let rank = data.dims.len();
    let mut axes = arguments.ints("axis")?;
    for axis in &mut axes {
        *axis += if *axis < 0 { rank as i64 } else { 0 };
    }
    axes.sort_unstable();
    let first = axes.first().copied().unwrap_or(0);
    let trailing = !axes.is_empty() && first >= 1 && axes.iter().copied().eq(first..rank as i64);
    if !trailing {
        let value = format!("{:?} of {rank} dimensions", arguments.ints("axis")?.as_slice());
        return Err(broken(&AXIS, "axis", value, AXIS.text));
    }
    let reduced: u64 = data.dims[first as usize..].iter().map(|dim| u64::from(dim.count)).product();
    let kept = data.free_size() / reduced;
    if dst.partitions() != data.partitions() || dst.free_size() != kept {
        let value = format!("has shape {:?}", dst.shape().as_slice());
        return Err(broken(
            &DST_SHAPE,
            "dst",
            value,
            format!("must have {} partitions of {kept} elements", data.partitions()),
        ));
    }
    let mut instruction = Instruction::new(Opcode::TensorReduce, Engine::Vector);
    context.writes(&mut instruction, 0, dst);
    context.reads(&mut instruction, 1, data);
    instruction.flags = if negate { NEGATE } else { 0 };
    instruction.constants[0] = operator as u32;
    instruction.constants[1] = reduced as u32;
    Ok(instruction)
}

/// Elements of a row that pay for starting the search of an extreme value.
const EXTREME_MIN: usize = 64;

fn reduce_rows(operator: Operator, values: &[f32], length: usize, out: &mut [f32]) {
    if length >= EXTREME_MIN && matches!(operator, Operator::Maximum | Operator::Minimum) {
        for (row, out) in values.chunks_exact(length).zip(out) {
            // Taking the first element twice changes nothing.
            *out = row[0];
            simd::extreme(operator == Operator::Maximum, row, out);
        }
        return;
    }
    for (row, out) in values.chunks_exact(length).zip(&mut *out) {
        *out = row[0];
    }
    macro_rules! run {
        ($op:expr) => {
            recurrence::fold(|x, y| $op.evaluate(x, y), length, 1, values, out)
        };
    }
    match operator {
        Operator::Add => run!(Operator::Add),
        Operator::Maximum => run!(Operator::Maximum),
        Operator::Minimum => run!(Operator::Minimum),
        other => run!(other),
    }
}

fn execute(instruction: &Instruction, machine: &mut Machine<'_>) -> Result<(), Violation> {
    let [dst, data, ..] = instruction.operands;
    let operator = Operator::from_code(instruction.constants[0] as u8);
    let length = instruction.constants[1] as usize;
    if operator.class() == Class::Bitvec {
        let tile = machine.tile(&data);
        let bits = bits_of(tile.geometry.dtype);
        let mut words = vec![0; tile.geometry.elements()];
        tile.read_words(0, &mut words);
        let out: Vec<u32> = words
            .chunks_exact(length)
            .map(|row| row[1..].iter().fold(row[0], |x, &y| operator.evaluate_bits(x, y, bits)))
            .collect();
        machine.with_written(&dst, |_, tile| tile.write_words(0, &out));
        return Ok(());
    }
    let mut values = std::mem::take(&mut machine.scratch.tile);
    machine.read_all(&data, &mut values);
    let mut out = vec![0.0; values.len() / length];
    reduce_rows(operator, &values, length, &mut out);
    if operator == Operator::LogicalAnd || operator == Operator::LogicalOr || operator == Operator::LogicalXor {
        // A row of one element was not evaluated yet: the result is a truth value all the same.
        out.iter_mut().for_each(|value| *value = f32::from(u8::from(*value != 0.0)));
    }
    if instruction.flags & NEGATE != 0 {
        out.iter_mut().for_each(|value| *value = Operator::Multiply.evaluate(*value, -1.0));
    }
    let cast = machine.options.cast;
    machine.with_written(&dst, |_, tile| tile.write_f32(0, &out, cast));
    machine.scratch.tile = values;
    Ok(())
}

fn hides_nan(instruction: &Instruction) -> bool {
    Operator::from_code(instruction.constants[0] as u8).hides_nan()
}

fn cost(instruction: &Instruction, tables: &Tables<'_>, target: &Target) -> Cost {
    let [dst, data, ..] = instruction.operands;
    let operator = Operator::from_code(instruction.constants[0] as u8);
    let bf16 = [dst, data].iter().all(|operand| tables.pattern(operand).dtype == Dtype::Bfloat16);
    let halves = bf16 && matches!(operator, Operator::Add | Operator::Maximum);
    let stream = &target.core.vector.stream;
    let rate = if halves { stream.reduce_bf16_add_max_cycles_per_element } else { stream.reduce_cycles_per_element };
    stream_cost::vector(&[&data], rate, &target.core.vector.reduce, tables, target)
}
