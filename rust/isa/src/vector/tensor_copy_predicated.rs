//! `tensor_copy_predicated`: a copy where a predicate holds.

use crate::arguments::{Argument, Arguments, Parameter, Use};
use crate::context::{Context, ON_CHIP, broken};
use crate::cost::Cost;
use crate::instruction::{Engine, Instruction, Operand};
use crate::machine::{Machine, Tables};
use crate::rules::{self, Rule};
use crate::table::{Definition, Exactness, Kind, Opcode, every_row, no_work};
use crate::vector::stream_cost;
use trn3_mem::{Space, Violation};
use trn3_num::{Dtype, encode_slice};
use trn3_spec::Target;

/// The table's entry.
pub const DEFINITION: Definition = Definition {
    name: "tensor_copy_predicated",
    doc: "``dst = src`` where ``predicate`` is not 0 (with reverse_pred: where it is 0); elsewhere ``dst`` stays.\n\n\
        Bits are copied; a number as ``src`` is converted to dst's data type once.",
    source: "nki/api/nki/isa/__init__.py, tensor_copy_predicated",
    kind: Kind::Compute,
    engines: &[Engine::Vector],
    parameters: &[
        Parameter { name: "dst", default: None, usage: Use::Write, doc: "SBUF or PSUM, (P, F), any type." },
        Parameter {
            name: "src",
            default: None,
            usage: Use::VectorOperand,
            doc: "SBUF or PSUM, (P, F) of dst's type, or a number.",
        },
        Parameter {
            name: "predicate",
            default: None,
            usage: Use::Read,
            doc: "uint8, uint16 or uint32, (P, F) in SBUF or PSUM; not in PSUM together with src.",
        },
        Parameter { name: "reverse_pred", default: Some("False"), usage: Use::Constant, doc: "Copies where it is 0." },
    ],
    rules: &[PREDICATE, SOURCE],
    exactness: Exactness::BitExact,
    build,
    execute,
    hides_nan,
    rows: every_row,
    cost,
    work: no_work,
};

const PREDICATE: Rule = Rule {
    id: "tensor_copy_predicated.predicate",
    text: "predicate is uint8, uint16 or uint32",
    source: "nki/api/nki/isa/__init__.py, tensor_copy_predicated",
    fix: "compare into a uint8 tile first",
};
const SOURCE: Rule = Rule {
    id: "tensor_copy_predicated.src",
    text: "src has the data type of dst",
    source: "nki/api/nki/isa/__init__.py, tensor_copy_predicated",
    fix: "cast src first (tensor_copy)",
};

const REVERSE: u16 = 1;

fn build(arguments: &Arguments<'_>, context: &mut Context<'_>) -> Result<Instruction, Violation> {
    let (dst, predicate) = (arguments.view("dst")?, arguments.view("predicate")?);
    for (view, name) in [(dst, "dst"), (predicate, "predicate")] {
        context.check_tile(view, name, ON_CHIP)?;
        context.check_unpacked(view, name)?;
    }
    context.check_same_shape(predicate, "predicate", dst, "dst")?;
    if !matches!(predicate.dtype, Dtype::Uint8 | Dtype::Uint16 | Dtype::Uint32) {
        let value = format!("is {}", predicate.dtype.name());
        return Err(broken(&PREDICATE, "predicate", value, PREDICATE.text));
    }
    let mut instruction = Instruction::new(Opcode::TensorCopyPredicated, Engine::Vector);
    // What is not copied to stays: dst is read as well.
    context.reads(&mut instruction, 0, dst);
    context.writes(&mut instruction, 0, dst);
    context.reads(&mut instruction, 1, predicate);
    if let Argument::View(src) = arguments.get("src") {
        context.check_tile(src, "src", ON_CHIP)?;
        context.check_same_shape(src, "src", dst, "dst")?;
        if src.dtype != dst.dtype {
            let value = format!("is {}", src.dtype.name());
            return Err(broken(&SOURCE, "src", value, format!("dst is {}", dst.dtype.name())));
        }
        if src.space == Space::Psum && predicate.space == Space::Psum {
            return Err(broken(&rules::PSUM_PAIR, "predicate", "is in psum, as src is", rules::PSUM_PAIR.text));
        }
        context.reads(&mut instruction, 2, src);
    } else {
        instruction.constants[0] = (arguments.number("src")? as f32).to_bits();
    }
    if arguments.flag("reverse_pred")? {
        instruction.flags = REVERSE;
    }
    Ok(instruction)
}

/// A NaN that is overwritten, or not selected, is gone.
fn hides_nan(_: &Instruction) -> bool {
    true
}

fn execute(instruction: &Instruction, machine: &mut Machine<'_>) -> Result<(), Violation> {
    let [dst, predicate, src, ..] = instruction.operands;
    let copies_zero = instruction.flags & REVERSE != 0;
    let tile = machine.tile(&predicate);
    let mut words = vec![0u32; tile.geometry.elements()];
    tile.read_words(0, &mut words);
    let geometry = machine.tables.geometry(&dst);
    let size = geometry.dtype.size_bytes();
    let mut bytes = vec![0u8; words.len() * size];
    if src.is_some() {
        machine.tile(&src).read_bytes(0, &mut bytes);
    } else {
        let mut one = [0u8; 4];
        let value = f32::from_bits(instruction.constants[0]);
        encode_slice(geometry.dtype, &[value], &mut one[..size], machine.options.cast);
        bytes.chunks_exact_mut(size).for_each(|element| element.copy_from_slice(&one[..size]));
    }
    let mut kept = vec![0u8; bytes.len()];
    machine.tile(&dst).read_bytes(0, &mut kept);
    let elements = kept.chunks_exact_mut(size).zip(bytes.chunks_exact(size)).zip(&words);
    for ((kept, copied), &word) in elements {
        if (word != 0) != copies_zero {
            kept.copy_from_slice(copied);
        }
    }
    machine.with_written(&dst, |_, tile| tile.write_bytes(0, &kept));
    Ok(())
}

fn cost(instruction: &Instruction, tables: &Tables<'_>, target: &Target) -> Cost {
    let vector = &target.core.vector;
    let [dst, predicate, src, ..] = &instruction.operands;
    let mut streamed: Vec<&Operand> = vec![dst, predicate];
    streamed.extend(src.is_some().then_some(src));
    let split = src.is_some() && tables.tensor(src).space != tables.tensor(predicate).space;
    let rates = &vector.stream;
    let rate = if split { rates.select_split_cycles_per_element } else { rates.select_cycles_per_element };
    stream_cost::vector(&streamed, rate, &vector.tensor_tensor, tables, target)
}
