//! `tensor_partition_reduce`: one partition from all.

use crate::arguments::{Arguments, Parameter, Use};
use crate::context::{Context, SBUF, broken};
use crate::cost::Cost;
use crate::instruction::{Engine, Instruction};
use crate::machine::{Machine, Tables};
use crate::operator::{Class, Operator, bits_of, same_bits};
use crate::rules::Rule;
use crate::simd;
use crate::table::{Definition, Exactness, Kind, Opcode, every_row, keeps_nan, no_work};
use crate::vector::stream_cost;
use trn3_mem::Violation;
use trn3_spec::Target;

/// The table's entry.
pub const DEFINITION: Definition = Definition {
    name: "tensor_partition_reduce",
    doc: "``dst[0, i]`` = ``op`` over all partitions of ``data[p, i]``, in ascending order.\n\n\
        FP32, one cast at the end; nl.average is the sum divided by the number of partitions. Bit operators work on \
        integers of one width.",
    source: "nki/api/nki/isa/__init__.py, tensor_partition_reduce",
    kind: Kind::Compute,
    engines: &[Engine::Gpsimd],
    parameters: &[
        Parameter { name: "dst", default: None, usage: Use::Write, doc: "SBUF, (1, F), any type." },
        Parameter {
            name: "op",
            default: None,
            usage: Use::Constant,
            doc: "nl.add, nl.average, nl.maximum, nl.bitwise_or or nl.bitwise_and.",
        },
        Parameter { name: "data", default: None, usage: Use::Read, doc: "SBUF, (P, F), any type." },
    ],
    rules: &[OPERATOR, SHAPE],
    exactness: Exactness::Modelled,
    build,
    execute,
    hides_nan: keeps_nan,
    rows: every_row,
    cost,
    work: no_work,
};

const OPERATOR: Rule = Rule {
    id: "tensor_partition_reduce.op",
    text: "op is add, average, maximum, or for integers of dst's width bitwise_or or bitwise_and",
    source: "nki/api/nki/isa/__init__.py, tensor_partition_reduce",
    fix: "use one of these operators",
};
const SHAPE: Rule = Rule {
    id: "tensor_partition_reduce.shape",
    text: "dst has one partition with as many elements as a partition of data",
    source: "nki/api/nki/isa/__init__.py, tensor_partition_reduce",
    fix: "declare dst as (1, F)",
};

/// Flag: the sum is divided by the number of partitions.
const AVERAGE: u16 = 1;

fn build(arguments: &Arguments<'_>, context: &mut Context<'_>) -> Result<Instruction, Violation> {
    let (dst, data) = (arguments.view("dst")?, arguments.view("data")?);
    for (view, name) in [(dst, "dst"), (data, "data")] {
        context.check_tile(view, name, SBUF)?;
        context.check_unpacked(view, name)?;
    }
    if dst.partitions() != 1 || dst.free_size() != data.free_size() {
        let value = format!("has shape {:?}", dst.shape().as_slice());
        return Err(broken(&SHAPE, "dst", value, format!("must be (1, {})", data.free_size())));
    }
    let mut instruction = Instruction::new(Opcode::TensorPartitionReduce, Engine::Gpsimd);
    let average = arguments.operator_or_none("op")? == Some("average");
    let operator = if average { Some(Operator::Add) } else { context.operator(arguments, "op")? };
    let bits = same_bits(dst.dtype, data.dtype);
    let operator = operator.filter(|operator| match operator {
        Operator::Add | Operator::Maximum => true,
        Operator::BitwiseOr | Operator::BitwiseAnd => bits,
        _ => false,
    });
    let Some(operator) = operator else {
        let value = format!("is {} on {}", arguments.get("op").describe(), data.dtype.name());
        return Err(broken(&OPERATOR, "op", value, OPERATOR.text));
    };
    context.writes(&mut instruction, 0, dst);
    context.reads(&mut instruction, 1, data);
    instruction.constants[0] = operator as u32;
    instruction.flags = if average { AVERAGE } else { 0 };
    Ok(instruction)
}

fn execute(instruction: &Instruction, machine: &mut Machine<'_>) -> Result<(), Violation> {
    let [dst, data, ..] = instruction.operands;
    let operator = Operator::from_code(instruction.constants[0] as u8);
    let geometry = machine.tables.geometry(&data);
    let (rows, row) = (geometry.rows(), geometry.row_elements());
    if operator.class() == Class::Bitvec {
        let mut words = vec![0u32; rows * row];
        machine.tile(&data).read_words(0, &mut words);
        let bits = bits_of(geometry.dtype);
        let (first, rest) = words.split_at_mut(row);
        for other in rest.chunks_exact(row) {
            for (x, &y) in first.iter_mut().zip(other) {
                *x = operator.evaluate_bits(*x, y, bits);
            }
        }
        machine.with_written(&dst, |_, tile| tile.write_words(0, first));
        return Ok(());
    }
    let mut values = std::mem::take(&mut machine.scratch.tile);
    machine.read_all(&data, &mut values);
    let mut result = values[..row].to_vec();
    let mut next = vec![0.0; row];
    for other in values[row..].chunks_exact(row) {
        simd::binary(operator, &result, other, &mut next);
        std::mem::swap(&mut result, &mut next);
    }
    if instruction.flags & AVERAGE != 0 {
        simd::constant(Operator::Divide, &mut result, rows as f32, false);
    }
    let cast = machine.options.cast;
    machine.with_written(&dst, |_, tile| tile.write_f32(0, &result, cast));
    machine.scratch.tile = values;
    Ok(())
}

fn cost(instruction: &Instruction, tables: &Tables<'_>, target: &Target) -> Cost {
    let n = tables.geometry(&instruction.operands[1]).row_elements() as u64;
    stream_cost::on_gpsimd(target.core.gpsimd.stream.partition_reduce_cycles_per_element.times_ceil(n), target)
}
