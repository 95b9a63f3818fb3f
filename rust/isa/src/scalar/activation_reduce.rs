//! `activation_reduce`: an activation and the sum of its results.

use crate::accumulator::ReduceCommand;
use crate::arguments::{Arguments, Parameter, Use};
use crate::context::Context;
use crate::instruction::{Engine, Instruction};
use crate::scalar::activation;
use crate::table::{Definition, Exactness, Kind, Opcode, every_row, keeps_nan, no_work};
use trn3_mem::Violation;

/// The table's entry.
pub const DEFINITION: Definition = Definition {
    name: "activation_reduce",
    doc: "``y = op(data * scale + bias)``; ``dst = y``; ``reduce_res`` = the sum of y along the free dimensions.\n\n\
        The same as activation with reduce_cmd.reset_reduce, and with the same accumulators; without ``reduce_res`` the \
        sum stays in them.",
    source: "nki/api/nki/isa/__init__.py, activation_reduce",
    kind: Kind::Compute,
    engines: &[Engine::Scalar],
    parameters: &[
        Parameter { name: "dst", default: None, usage: Use::Write, doc: "SBUF or PSUM, (P, F), any type." },
        Parameter { name: "op", default: None, usage: Use::Constant, doc: "An activation function of nki.language." },
        Parameter { name: "data", default: None, usage: Use::Read, doc: "SBUF or PSUM, (P, F)." },
        Parameter { name: "reduce_op", default: None, usage: Use::Constant, doc: "nl.add." },
        Parameter { name: "reduce_res", default: None, usage: Use::Write, doc: "(P, 1) tile for the sum, or None." },
        Parameter {
            name: "bias",
            default: Some("None"),
            usage: Use::VectorOperand,
            doc: "(P, 1) tile or (from v3) constant.",
        },
        Parameter {
            name: "scale",
            default: Some("1.0"),
            usage: Use::VectorOperand,
            doc: "float32 (P, 1) tile or constant.",
        },
    ],
    rules: &[activation::FUNCTION, activation::REDUCE, activation::BIAS],
    exactness: Exactness::Modelled,
    build,
    execute: activation::execute,
    hides_nan: keeps_nan,
    rows: every_row,
    cost: activation::cost,
    work: no_work,
};

fn build(arguments: &Arguments<'_>, context: &mut Context<'_>) -> Result<Instruction, Violation> {
    activation::build_as(Opcode::ActivationReduce, ReduceCommand::ResetReduce, arguments, context)
}
