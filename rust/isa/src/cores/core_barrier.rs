//! `core_barrier`: both cores arrive before either goes on.

use super::{GENERATION, LOGICAL, check_logical};
use crate::arguments::{Arguments, Parameter, Use};
use crate::context::{Context, broken};
use crate::cost::{Cost, Meeting};
use crate::instruction::{Engine, Instruction};
use crate::machine::{Machine, Tables};
use crate::rules::Rule;
use crate::table::{Definition, Exactness, Kind, Opcode, every_row, keeps_nan, no_work};
use trn3_mem::{Space, Violation};
use trn3_spec::Target;

/// The table's entry.
pub const DEFINITION: Definition = Definition {
    name: "core_barrier",
    doc: "Both cores of a logical core arrive before either goes on; what they wrote to ``data`` before is then there.\n\n\
        One engine of each core waits; the others are not blocked, but what they do with ``data`` afterwards waits.",
    source: "nki/api/nki/isa/__init__.py, core_barrier; nki/get-started/about/lnc.rst",
    kind: Kind::Barrier,
    engines: &[Engine::Gpsimd, Engine::Tensor, Engine::Vector, Engine::Scalar, Engine::Sync],
    parameters: &[
        Parameter { name: "data", default: None, usage: Use::Read, doc: "The shared HBM tensor that both cores use." },
        Parameter { name: "cores", default: None, usage: Use::Constant, doc: "(0, 1)." },
        Parameter {
            name: "engine",
            default: Some("engine.gpsimd"),
            usage: Use::Constant,
            doc: "The engine that waits.",
        },
    ],
    rules: &[GENERATION, LOGICAL, CORES, DATA],
    exactness: Exactness::BitExact,
    build,
    execute,
    hides_nan: keeps_nan,
    rows: every_row,
    cost,
    work: no_work,
};

const CORES: Rule = Rule {
    id: "core_barrier.cores",
    text: "cores is (0, 1)",
    source: "nki/api/nki/isa/__init__.py, core_barrier",
    fix: "give cores=(0, 1)",
};
const DATA: Rule = Rule {
    id: "core_barrier.data",
    text: "data is in shared HBM",
    source: "nki/api/nki/isa/__init__.py, core_barrier",
    fix: "name the shared_hbm tensor that the cores exchange",
};

fn build(arguments: &Arguments<'_>, context: &mut Context<'_>) -> Result<Instruction, Violation> {
    check_logical(context, "cores")?;
    let data = arguments.view("data")?;
    if data.space != Space::SharedHbm {
        return Err(broken(&DATA, "data", format!("is in {}", data.space.name()), DATA.text));
    }
    let cores = arguments.ints("cores")?;
    if cores.as_slice() != [0, 1] {
        return Err(broken(&CORES, "cores", format!("is {:?}", cores.as_slice()), CORES.text));
    }
    let engine = context.engine(arguments, DEFINITION.engines)?.unwrap_or(Engine::Gpsimd);
    let mut instruction = Instruction::new(Opcode::CoreBarrier, engine);
    // It writes nothing; but whoever touches the data before and after is ordered by it.
    context.reads(&mut instruction, 0, data);
    context.writes(&mut instruction, 0, data);
    Ok(instruction)
}

fn execute(_: &Instruction, _: &mut Machine<'_>) -> Result<(), Violation> {
    Ok(())
}

fn cost(_: &Instruction, _: &Tables<'_>, _: &Target) -> Cost {
    Cost::Meeting(Meeting::Barrier)
}
