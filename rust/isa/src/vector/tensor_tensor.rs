//! `tensor_tensor`: an operator on two tiles, element by element.

use crate::arguments::{Arguments, Parameter, Use};
use crate::context::{Context, ON_CHIP, SBUF, broken};
use crate::cost::Cost;
use crate::instruction::{Engine, Instruction};
use crate::machine::{Machine, Tables};
use crate::operator::{Class, Operator, bits_of, same_bits};
use crate::rules::{self, Rule};
use crate::simd;
use crate::table::{Definition, Exactness, Kind, Opcode, every_row, no_work};
use crate::vector::stream_cost;
use trn3_mem::{Space, View, Violation};
use trn3_num::Dtype;
use trn3_spec::Target;

/// The table's entry.
pub const DEFINITION: Definition = Definition {
    name: "tensor_tensor",
    doc: "Elementwise ``dst = op(data1, data2)``.\n\n\
        Arithmetic is FP32 inside, whatever the data types; bit operators work on integer bit patterns; on GpSimdE \
        int32 and uint32 add, subtract and multiply are exact 32-bit integers that wrap. With engine.unknown GpSimdE \
        runs nl.power, and everything whose operands are all int32 or uint32 in SBUF; VectorE runs the rest.",
    source: "nki/api/nki/isa/__init__.py, tensor_tensor",
    kind: Kind::Compute,
    engines: &[Engine::Vector, Engine::Gpsimd],
    parameters: &[
        Parameter {
            name: "dst",
            default: None,
            usage: Use::Write,
            doc: "SBUF or PSUM (GpSimdE: SBUF), (P, F), any type.",
        },
        Parameter {
            name: "data1",
            default: None,
            usage: Use::Read,
            doc: "SBUF or PSUM, (P, F); not both inputs in PSUM.",
        },
        Parameter { name: "data2", default: None, usage: Use::Read, doc: "SBUF or PSUM, (P, F)." },
        Parameter { name: "op", default: None, usage: Use::Constant, doc: "A binary operator of nki.language." },
        Parameter {
            name: "engine",
            default: Some("engine.unknown"),
            usage: Use::Constant,
            doc: "engine.vector, engine.gpsimd or engine.unknown.",
        },
    ],
    rules: &[DTYPE],
    exactness: Exactness::BitExact,
    build,
    execute,
    hides_nan,
    rows: every_row,
    cost,
    work: no_work,
};

const DTYPE: Rule = Rule {
    id: "tensor_tensor.dtype",
    text: "bit operators take integer types of one width; arithmetic takes any type but packed ones",
    source: "nki/api/nki/isa/__init__.py, tensor_tensor",
    fix: "cast first, or use .view() for bit patterns",
};

fn is_word(view: &View) -> bool {
    matches!(view.dtype, Dtype::Int32 | Dtype::Uint32)
}

fn build(arguments: &Arguments<'_>, context: &mut Context<'_>) -> Result<Instruction, Violation> {
    let (dst, data1, data2) = (arguments.view("dst")?, arguments.view("data1")?, arguments.view("data2")?);
    let operator = context.operator(arguments, "op")?.filter(|operator| !operator.is_unary());
    let Some(operator) = operator else {
        let value = format!("is {}", arguments.get("op").describe());
        return Err(broken(&rules::OPERATOR, "op", value, "must be a binary operator"));
    };
    for (view, name) in [(dst, "dst"), (data1, "data1"), (data2, "data2")] {
        context.check_tile(view, name, ON_CHIP)?;
        context.check_unpacked(view, name)?;
        if operator.class() == Class::Bitvec && !same_bits(view.dtype, data1.dtype) {
            return Err(broken(
                &DTYPE,
                name,
                format!("is {}", view.dtype.name()),
                format!("{} needs integers of one width", operator.name()),
            ));
        }
    }
    context.check_same_shape(data1, "data1", dst, "dst")?;
    context.check_same_shape(data2, "data2", data1, "data1")?;
    let all_sbuf = [dst, data1, data2].iter().all(|view| view.space == Space::Sbuf);
    let words = is_word(dst) && is_word(data1) && is_word(data2);
    let engine = context
        .engine(arguments, DEFINITION.engines)?
        .unwrap_or(if operator == Operator::Power || (words && all_sbuf) { Engine::Gpsimd } else { Engine::Vector });
    if engine == Engine::Gpsimd {
        for (view, name) in [(dst, "dst"), (data1, "data1"), (data2, "data2")] {
            context.check_tile(view, name, SBUF)?;
        }
    } else if operator == Operator::Power {
        return Err(broken(&rules::ENGINE, "engine", "is vector", "power runs on gpsimd"));
    } else if data1.space == Space::Psum && data2.space == Space::Psum {
        return Err(broken(&rules::PSUM_PAIR, "data2", "both inputs are in psum", rules::PSUM_PAIR.text));
    }
    let mut instruction = Instruction::new(Opcode::TensorTensor, engine);
    context.writes(&mut instruction, 0, dst);
    context.reads(&mut instruction, 1, data1);
    context.reads(&mut instruction, 2, data2);
    instruction.constants[0] = operator as u32;
    Ok(instruction)
}

fn execute(instruction: &Instruction, machine: &mut Machine<'_>) -> Result<(), Violation> {
    let [dst, data1, data2, ..] = instruction.operands;
    let operator = Operator::from_code(instruction.constants[0] as u8);
    let integers =
        [dst, data1, data2].iter().all(|o| matches!(machine.tables.pattern(o).dtype, Dtype::Int32 | Dtype::Uint32));
    let wraps = matches!(operator, Operator::Add | Operator::Subtract | Operator::Multiply);
    if operator.class() == Class::Bitvec || (instruction.engine == Engine::Gpsimd && integers && wraps) {
        let bits = bits_of(machine.tables.pattern(&data1).dtype);
        let mut x = std::mem::take(&mut machine.scratch.words[0]);
        let mut y = std::mem::take(&mut machine.scratch.words[1]);
        for (operand, words) in [(&data1, &mut x), (&data2, &mut y)] {
            let tile = machine.tile(operand);
            words.resize(tile.geometry.elements(), 0);
            tile.read_words(0, words);
        }
        for (x, y) in x.iter_mut().zip(&y) {
            *x = match operator {
                Operator::Add => x.wrapping_add(*y),
                Operator::Subtract => x.wrapping_sub(*y),
                Operator::Multiply => x.wrapping_mul(*y),
                bitvec => bitvec.evaluate_bits(*x, *y, bits),
            };
        }
        machine.with_written(&dst, |_, tile| tile.write_words(0, &x));
        machine.scratch.words[0] = x;
        machine.scratch.words[1] = y;
        return Ok(());
    }
    let fast = |[x, y]: [&[u16]; 2], out: &mut [u16]| simd::binary_bf16(operator, x, y, out);
    if machine.stream_bf16(&dst, &[&data1, &data2], fast) {
        return Ok(());
    }
    machine.stream(&dst, &[&data1, &data2], |_, [x, y], out| {
        simd::binary(operator, x, y, out);
        Ok(())
    })
}

fn hides_nan(instruction: &Instruction) -> bool {
    Operator::from_code(instruction.constants[0] as u8).hides_nan()
}

fn cost(instruction: &Instruction, tables: &Tables<'_>, target: &Target) -> Cost {
    stream_cost::tensor_tensor(instruction, tables, target)
}
