//! `tensor_scalar`: one or two operators between a tile and a constant or a `(P, 1)` tile.

use crate::arguments::{Argument, Arguments, Parameter, Use};
use crate::context::{Context, ON_CHIP, SBUF, broken};
use crate::cost::Cost;
use crate::instruction::{Engine, Instruction};
use crate::machine::{Machine, Tables, VectorOperand};
use crate::operator::{Class, Operator, bits_of, same_bits};
use crate::rules::{self, Rule};
use crate::simd;
use crate::table::{Definition, Exactness, Kind, Opcode, every_row, no_work};
use crate::vector::stream_cost;
use trn3_mem::Violation;
use trn3_spec::Target;

/// The table's entry.
pub const DEFINITION: Definition = Definition {
    name: "tensor_scalar",
    doc: "``t = op0(data, operand0)``, then ``dst = op1(t, operand1)``; ``reverse0``/``reverse1`` swap the operands.\n\n\
        Arithmetic is FP32 inside; bit operators work on integer bit patterns. Both operators are of one class.",
    source: "nki/api/nki/isa/__init__.py, tensor_scalar",
    kind: Kind::Compute,
    engines: &[Engine::Vector, Engine::Scalar, Engine::Gpsimd],
    parameters: &[
        Parameter { name: "dst", default: None, usage: Use::Write, doc: "SBUF or PSUM, (P, F)." },
        Parameter { name: "data", default: None, usage: Use::Read, doc: "SBUF or PSUM, (P, F)." },
        Parameter { name: "op0", default: None, usage: Use::Constant, doc: "First operator." },
        Parameter {
            name: "operand0",
            default: None,
            usage: Use::VectorOperand,
            doc: "Constant or (P, 1) tile; None or 0 for a unary op0.",
        },
        Parameter {
            name: "reverse0",
            default: Some("False"),
            usage: Use::Constant,
            doc: "op0(operand0, data) instead.",
        },
        Parameter { name: "op1", default: Some("None"), usage: Use::Constant, doc: "Second operator." },
        Parameter {
            name: "operand1",
            default: Some("None"),
            usage: Use::VectorOperand,
            doc: "Constant or (P, 1) tile.",
        },
        Parameter { name: "reverse1", default: Some("False"), usage: Use::Constant, doc: "op1(operand1, t) instead." },
        Parameter {
            name: "engine",
            default: Some("engine.unknown"),
            usage: Use::Constant,
            doc: "engine.vector, engine.scalar, engine.gpsimd (rsqrt only) or engine.unknown.",
        },
    ],
    rules: &[CLASS, BITVEC, SCALAR_ENGINE, SCALAR_ENGINE_GENERATION],
    exactness: Exactness::BitExact,
    build,
    execute,
    hides_nan,
    rows: every_row,
    cost,
    work: no_work,
};

const CLASS: Rule = Rule {
    id: "tensor_scalar.class",
    text: "op0 and op1 are both arithmetic or both bit operators",
    source: "nki/api/nki/isa/__init__.py, tensor_scalar",
    fix: "use two instructions",
};
const BITVEC: Rule = Rule {
    id: "tensor_scalar.bitvec",
    text: "bit operators take integer tiles of one width and integer operands",
    source: "nki/api/nki/isa/__init__.py, tensor_scalar",
    fix: "cast first, or use .view() for bit patterns",
};
const SCALAR_ENGINE: Rule = Rule {
    id: "tensor_scalar.scalar_engine",
    text: "before v4 ScalarE offers (multiply, add), multiply and add only",
    source: "nki/api/nki/isa/__init__.py, tensor_scalar",
    fix: "choose engine.vector",
};

const SCALAR_ENGINE_GENERATION: Rule = Rule {
    id: "tensor_scalar.scalar_engine_generation",
    text: "ScalarE runs it from NeuronCore-v3 (trn2) on",
    source: "nki/api/nki/isa/__init__.py, tensor_scalar",
    fix: "choose engine.vector",
};

const REVERSE0: u16 = 1;
const REVERSE1: u16 = 2;
/// No second operator.
const ABSENT: u32 = u32::MAX;

fn build(arguments: &Arguments<'_>, context: &mut Context<'_>) -> Result<Instruction, Violation> {
    let (dst, data) = (arguments.view("dst")?, arguments.view("data")?);
    let op0 = context.operator(arguments, "op0")?;
    let Some(op0) = op0 else {
        return Err(broken(&rules::OPERATOR, "op0", "is None", "must be an operator"));
    };
    let op1 = context.operator(arguments, "op1")?;
    if op1.is_some_and(|op1| op1.class() != op0.class()) {
        let value = format!("{} after {}", op1.map_or("", Operator::name), op0.name());
        return Err(broken(&CLASS, "op1", value, CLASS.text));
    }
    if let (None, given @ (Argument::View(_) | Argument::Int(_) | Argument::Float(_))) =
        (op1, arguments.get("operand1"))
    {
        return Err(broken(&rules::OPERATOR, "op1", "is None", format!("operand1 is {}", given.describe())));
    }
    for (view, name) in [(dst, "dst"), (data, "data")] {
        context.check_tile(view, name, ON_CHIP)?;
        context.check_unpacked(view, name)?;
        if op0.class() == Class::Bitvec && !same_bits(view.dtype, data.dtype) {
            let value = format!("is {}", view.dtype.name());
            return Err(broken(&BITVEC, name, value, format!("{} needs integers of one width", op0.name())));
        }
    }
    context.check_same_shape(data, "data", dst, "dst")?;
    let engine = engine_of(arguments, context, op0, op1)?;
    if engine == Engine::Gpsimd {
        context.check_tile(dst, "dst", SBUF)?;
        context.check_tile(data, "data", SBUF)?;
    }
    let mut instruction = Instruction::new(Opcode::TensorScalar, engine);
    context.writes(&mut instruction, 0, dst);
    context.reads(&mut instruction, 1, data);
    instruction.constants[0] = op0 as u32 | op1.map_or(ABSENT << 16, |op1| (op1 as u32) << 16);
    let partitions = data.partitions();
    operand(context, &mut instruction, arguments, op0, ("operand0", 2, 1), partitions)?;
    if let Some(op1) = op1 {
        operand(context, &mut instruction, arguments, op1, ("operand1", 3, 2), partitions)?;
    }
    // A unary operator has nothing to swap its operand with.
    let reverse0 = arguments.flag("reverse0")? && !op0.is_unary();
    let reverse1 = arguments.flag("reverse1")? && op1.is_some_and(|op1| !op1.is_unary());
    instruction.flags = if reverse0 { REVERSE0 } else { 0 } | if reverse1 { REVERSE1 } else { 0 };
    Ok(instruction)
}

fn engine_of(
    arguments: &Arguments<'_>,
    context: &Context<'_>,
    op0: Operator,
    op1: Option<Operator>,
) -> Result<Engine, Violation> {
    let given = context.engine(arguments, DEFINITION.engines)?;
    let rsqrt = op0 == Operator::Rsqrt || op1 == Some(Operator::Rsqrt);
    let engine = given.unwrap_or(if rsqrt { Engine::Gpsimd } else { Engine::Vector });
    let offered = match engine {
        Engine::Gpsimd => rsqrt,
        Engine::Scalar => {
            let can = &context.target.core.capability;
            if !can.scalar_multiply_add {
                return Err(context.lacking(&SCALAR_ENGINE_GENERATION, "engine", Some("is scalar".into())));
            }
            can.scalar_tensor_scalar
                || matches!((op0, op1), (Operator::Multiply, None | Some(Operator::Add)) | (Operator::Add, None))
        }
        _ => true,
    };
    if offered {
        return Ok(engine);
    }
    let value = format!("is {} with {}", engine.name(), op0.name());
    Err(broken(&SCALAR_ENGINE, "engine", value, "gpsimd runs rsqrt only; scalar see the rule"))
}

fn operand(
    context: &mut Context<'_>,
    instruction: &mut Instruction,
    arguments: &Arguments<'_>,
    operator: Operator,
    (name, slot, constant): (&'static str, usize, usize),
    partitions: u32,
) -> Result<(), Violation> {
    let given = arguments.get(name);
    if operator.is_unary() {
        let absent = matches!(given, Argument::None | Argument::Int(0)) || *given == Argument::Float(0.0);
        if !absent {
            return Err(broken(
                &rules::UNARY,
                name,
                format!("is {}", given.describe()),
                format!("{} is unary", operator.name()),
            ));
        }
        return Ok(());
    }
    if operator.class() == Class::Bitvec {
        match given {
            Argument::Int(value) if (i64::from(i32::MIN)..=i64::from(u32::MAX)).contains(value) => {
                instruction.constants[constant] = *value as u32;
                return Ok(());
            }
            Argument::View(view) if view.dtype.is_integer() => {}
            _ => {
                return Err(broken(&BITVEC, name, format!("is {}", given.describe()), "must be an integer of 32 bits"));
            }
        }
    }
    context.vector_operand(instruction, arguments, name, slot, constant, partitions)
}

fn execute(instruction: &Instruction, machine: &mut Machine<'_>) -> Result<(), Violation> {
    let [dst, data, ..] = instruction.operands;
    let [op0, op1] = operators(instruction);
    let op0 = op0.expect("the recorder stored an operator");
    let reverse = [instruction.flags & REVERSE0 != 0, instruction.flags & REVERSE1 != 0];
    if op0.class() == Class::Bitvec {
        return execute_bits(instruction, machine, op0, op1, reverse);
    }
    let operands = [machine.vector_operand(instruction, 2, 1), machine.vector_operand(instruction, 3, 2)];
    let row = machine.tables.geometry(&data).row_elements();
    if let (VectorOperand::Constant(value), None) = (&operands[0], op1) {
        let fast = |[x, _]: [&[u16]; 2], out: &mut [u16]| simd::constant_bf16(op0, x, *value, reverse[0], out);
        if machine.stream_bf16(&dst, &[&data], fast) {
            return Ok(());
        }
    }
    machine.stream(&dst, &[&data], |first, [x, _], out| {
        out.copy_from_slice(x);
        let apply = |out: &mut [f32], operator, operand: &VectorOperand, reverse| {
            operand.for_each(first, row, out, |piece, value| simd::constant(operator, piece, value, reverse));
        };
        apply(out, op0, &operands[0], reverse[0]);
        if let Some(op1) = op1 {
            apply(out, op1, &operands[1], reverse[1]);
        }
        Ok(())
    })
}

fn execute_bits(
    instruction: &Instruction,
    machine: &mut Machine<'_>,
    op0: Operator,
    op1: Option<Operator>,
    reverse: [bool; 2],
) -> Result<(), Violation> {
    let [dst, data, ..] = instruction.operands;
    let tile = machine.tile(&data);
    let bits = bits_of(tile.geometry.dtype);
    let row = tile.geometry.row_elements();
    let mut words = vec![0; tile.geometry.elements()];
    tile.read_words(0, &mut words);
    let steps = [(Some(op0), 2, 1, reverse[0]), (op1, 3, 2, reverse[1])];
    for (operator, slot, constant, reverse) in steps {
        let Some(operator) = operator else { continue };
        let operand = &instruction.operands[slot];
        let mut partitions = vec![instruction.constants[constant]];
        if operand.is_some() {
            let tile = machine.tile(operand);
            partitions.resize(tile.geometry.elements(), 0);
            tile.read_words(0, &mut partitions);
        }
        for (at, word) in words.iter_mut().enumerate() {
            let other = partitions[if partitions.len() == 1 { 0 } else { at / row }];
            let (x, y) = if reverse { (other, *word) } else { (*word, other) };
            *word = operator.evaluate_bits(x, y, bits);
        }
    }
    machine.with_written(&dst, |_, tile| tile.write_words(0, &words));
    Ok(())
}

fn hides_nan(instruction: &Instruction) -> bool {
    let [op0, op1] = operators(instruction).map(|operator| operator.is_some_and(Operator::hides_nan));
    op0 || op1
}

/// The recorded operators.
fn operators(instruction: &Instruction) -> [Option<Operator>; 2] {
    let [op0, op1] = [instruction.constants[0] & 0xFFFF, instruction.constants[0] >> 16];
    [op0, op1].map(|code| (code != ABSENT >> 16).then(|| Operator::from_code(code as u8)))
}

fn cost(instruction: &Instruction, tables: &Tables<'_>, target: &Target) -> Cost {
    stream_cost::tensor_scalar(instruction, tables, target)
}
