//! `range_select`: a tile inside a range of positions, and its largest value.

use crate::accumulator::{ReduceCommand, accumulate};
use crate::arguments::{Arguments, Parameter, Use};
use crate::context::{Context, ON_CHIP, broken};
use crate::cost::Cost;
use crate::instruction::{Engine, Instruction};
use crate::machine::{Machine, Tables, VectorOperand};
use crate::operator::Operator;
use crate::rules::Rule;
use crate::table::{Definition, Exactness, Kind, Opcode, every_row, no_work};
use crate::vector::stream_cost;
use trn3_mem::{View, Violation};
use trn3_num::Dtype;
use trn3_spec::Target;

/// The table's entry.
pub const DEFINITION: Definition = Definition {
    name: "range_select",
    doc: "``dst = on_true_tile`` where ``comp_op0(i, bound0)`` and ``comp_op1(i, bound1)``, elsewhere the lowest FP32 \
        number; i is ``range_start`` plus the position in the flattened free dimensions.\n\n\
        Positions and bounds are compared in FP32. VectorE's accumulators take the maximum of what is selected before it \
        is converted to dst's data type, where the lowest FP32 number becomes -inf if the type is narrower; reduce_res \
        gets the accumulators.",
    source: "nki/api/nki/isa/__init__.py, range_select",
    kind: Kind::Compute,
    engines: &[Engine::Vector],
    parameters: &[
        Parameter { name: "dst", default: None, usage: Use::Write, doc: "SBUF or PSUM, (P, F), any type." },
        Parameter {
            name: "on_true_tile",
            default: None,
            usage: Use::Read,
            doc: "SBUF or PSUM, (P, F), a floating-point type.",
        },
        Parameter { name: "comp_op0", default: None, usage: Use::Constant, doc: "A comparison, such as nl.less." },
        Parameter { name: "comp_op1", default: None, usage: Use::Constant, doc: "A comparison." },
        Parameter { name: "bound0", default: None, usage: Use::Read, doc: "float32 (P, 1) tile." },
        Parameter { name: "bound1", default: None, usage: Use::Read, doc: "float32 (P, 1) tile." },
        Parameter {
            name: "reduce_cmd",
            default: Some("reduce_cmd.reset_reduce"),
            usage: Use::Constant,
            doc: "What happens to the accumulators.",
        },
        Parameter { name: "reduce_res", default: Some("None"), usage: Use::Write, doc: "(P, 1) tile for the maximum." },
        Parameter { name: "reduce_op", default: Some("_maximum"), usage: Use::Constant, doc: "nl.maximum." },
        Parameter { name: "range_start", default: Some("0"), usage: Use::Constant, doc: "Position of the first element." },
        Parameter {
            name: "on_false_value",
            default: Some("-3.4028235e38"),
            usage: Use::Constant,
            doc: "The lowest FP32 number.",
        },
    ],
    rules: &[GENERATION, OPERATORS, TILES, FALSE_VALUE, POSITIONS],
    exactness: Exactness::BitExact,
    build,
    execute,
    hides_nan,
    rows: every_row,
    cost,
    work: no_work,
};

const GENERATION: Rule = Rule {
    id: "range_select.generation",
    text: "VectorE has it from NeuronCore-v3 (trn2) on",
    source: "nki/api/nki/isa/__init__.py, range_select",
    fix: "target trn2 or trn3, or use affine_select",
};
const OPERATORS: Rule = Rule {
    id: "range_select.operators",
    text: "comp_op0 and comp_op1 are equal, less, less_equal, greater or greater_equal; reduce_op is maximum and \
        reduce_cmd any but load_reduce",
    source: "nki/api/nki/isa/__init__.py, range_select",
    fix: "use one of these comparisons, and nl.maximum",
};
const TILES: Rule = Rule {
    id: "range_select.tiles",
    text: "on_true_tile has a floating-point type, bound0 and bound1 are float32",
    source: "nki/api/nki/isa/__init__.py, range_select",
    fix: "cast first (tensor_copy)",
};
const FALSE_VALUE: Rule = Rule {
    id: "range_select.on_false_value",
    text: "on_false_value is the lowest FP32 number, -3.4028235e38",
    source: "nki/api/nki/isa/__init__.py, range_select",
    fix: "leave on_false_value out",
};
const POSITIONS: Rule = Rule {
    id: "range_select.positions",
    text: "range_start and range_start + F stay within 2^24, where FP32 still tells integers apart",
    source: "nki/api/nki/isa/__init__.py, range_select",
    fix: "shift the bounds instead of range_start",
};

/// Integers up to here are exact in FP32.
const POSITIONS_MAX: i64 = 1 << 24;

const COMMANDS: &[ReduceCommand] =
    &[ReduceCommand::Idle, ReduceCommand::Reset, ReduceCommand::Reduce, ReduceCommand::ResetReduce];

fn build(arguments: &Arguments<'_>, context: &mut Context<'_>) -> Result<Instruction, Violation> {
    let (dst, data) = (arguments.view("dst")?, arguments.view("on_true_tile")?);
    if !context.target.core.capability.range_select {
        return Err(context.lacking(&GENERATION, "", None));
    }
    for (view, name) in [(dst, "dst"), (data, "on_true_tile")] {
        context.check_tile(view, name, ON_CHIP)?;
        context.check_unpacked(view, name)?;
    }
    context.check_same_shape(data, "on_true_tile", dst, "dst")?;
    if !data.dtype.is_float() {
        return Err(broken(&TILES, "on_true_tile", format!("is {}", data.dtype.name()), TILES.text));
    }
    let mut instruction = Instruction::new(Opcode::RangeSelect, Engine::Vector);
    for (at, name) in ["comp_op0", "comp_op1"].into_iter().enumerate() {
        let operator = context.arithmetic(arguments, name, &OPERATORS)?;
        if !is_comparison(operator) {
            return Err(broken(&OPERATORS, name, format!("is {}", operator.name()), OPERATORS.text));
        }
        instruction.constants[0] |= (operator as u32) << (16 * at);
    }
    let reduce_op = context.arithmetic(arguments, "reduce_op", &OPERATORS)?;
    if reduce_op != Operator::Maximum {
        return Err(broken(&OPERATORS, "reduce_op", format!("is {}", reduce_op.name()), OPERATORS.text));
    }
    let fill = arguments.number("on_false_value")? as f32;
    if fill.to_bits() != f32::MIN.to_bits() {
        return Err(broken(&FALSE_VALUE, "on_false_value", format!("is {fill:e}"), FALSE_VALUE.text));
    }
    let start = arguments.int("range_start")?;
    let end = start.saturating_add(data.free_size() as i64);
    if start < -POSITIONS_MAX || end > POSITIONS_MAX {
        let value = format!("is {start} for {} elements", data.free_size());
        return Err(broken(&POSITIONS, "range_start", value, format!("limit {POSITIONS_MAX}")));
    }
    instruction.constants[1] = start as i32 as u32;
    context.writes(&mut instruction, 0, dst);
    context.reads(&mut instruction, 1, data);
    for (slot, name) in [(2, "bound0"), (3, "bound1")] {
        let bound: &View = arguments.view(name)?;
        context.check_vector(bound, name, data.partitions())?;
        if bound.dtype != Dtype::Float32 {
            return Err(broken(&TILES, name, format!("is {}", bound.dtype.name()), TILES.text));
        }
        context.reads(&mut instruction, slot, bound);
    }
    if let Some(result) = arguments.view_or_none("reduce_res")? {
        context.check_vector(result, "reduce_res", data.partitions())?;
        context.writes(&mut instruction, 4, result);
    }
    ReduceCommand::of(arguments, ReduceCommand::ResetReduce, COMMANDS, &OPERATORS)?.store(&mut instruction);
    Ok(instruction)
}

fn is_comparison(operator: Operator) -> bool {
    use Operator::{Equal, Greater, GreaterEqual, Less, LessEqual};
    matches!(operator, Equal | Less | LessEqual | Greater | GreaterEqual)
}

/// What is not selected is gone.
fn hides_nan(_: &Instruction) -> bool {
    true
}

fn execute(instruction: &Instruction, machine: &mut Machine<'_>) -> Result<(), Violation> {
    let [dst, data, _, _, result] = instruction.operands;
    let codes = instruction.constants[0];
    let (op0, op1) = (Operator::from_code(codes as u8), Operator::from_code((codes >> 16) as u8));
    let start = i64::from(instruction.constants[1] as i32);
    let bounds = [2, 3].map(|slot| match machine.vector_operand(instruction, slot, 0) {
        VectorOperand::Partitions(values) => values,
        VectorOperand::Constant(_) => unreachable!("bounds are tiles"),
    });
    let geometry = machine.tables.geometry(&data);
    let (row, rows, partition) = (geometry.row_elements(), geometry.rows(), machine.tables.partition_start(&data));
    let command = ReduceCommand::stored(instruction);
    let mut largest = machine.registers.vector.begin(partition, rows, command, f32::NEG_INFINITY);
    machine.stream(&dst, &[&data], |first, [x, _], out| {
        for (at, (out, &x)) in out.iter_mut().zip(x).enumerate() {
            let (row, position) = ((first + at) / row, (first + at) % row);
            let position = (start + position as i64) as f32;
            let within = op0.evaluate(position, bounds[0][row]) != 0.0 && op1.evaluate(position, bounds[1][row]) != 0.0;
            *out = if within { x } else { f32::MIN };
        }
        if command.accumulates() {
            accumulate(Operator::Maximum, first, row, out, &mut largest);
        }
        Ok(())
    })?;
    machine.registers.vector.of(partition, rows).copy_from_slice(&largest);
    if result.is_some() {
        let cast = machine.options.cast;
        machine.with_written(&result, |_, tile| tile.write_f32(0, &largest, cast));
    }
    Ok(())
}

fn cost(instruction: &Instruction, tables: &Tables<'_>, target: &Target) -> Cost {
    let vector = &target.core.vector;
    let [dst, data, ..] = &instruction.operands;
    let rate = vector.stream.range_select_cycles_per_element.expect("checked when it was recorded");
    stream_cost::vector(&[dst, data], rate, &vector.other, tables, target)
}
