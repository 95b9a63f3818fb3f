//! `tensor_copy`: a copy on chip, with a cast when the data types differ.

use crate::arguments::{Arguments, Parameter, Use};
use crate::context::{Context, ON_CHIP, SBUF};
use crate::cost::Cost;
use crate::instruction::{Engine, Instruction};
use crate::machine::{Machine, Tables};
use crate::rules::Rule;
use crate::table::{Definition, Exactness, Kind, Opcode, every_row, keeps_nan, no_work};
use crate::vector::stream_cost;
use trn3_mem::Violation;
use trn3_spec::Target;

/// The table's entry.
pub const DEFINITION: Definition = Definition {
    name: "tensor_copy",
    doc: "Copies a tile within or between SBUF and PSUM, element by element in order.\n\n\
        Bit exact when the data types are equal, else through FP32.",
    source: "nki/api/nki/isa/__init__.py, tensor_copy",
    kind: Kind::Compute,
    engines: &[Engine::Vector, Engine::Scalar, Engine::Gpsimd],
    parameters: &[
        Parameter {
            name: "dst",
            default: None,
            usage: Use::Write,
            doc: "SBUF or PSUM (GpSimdE: SBUF), (P, F), any type.",
        },
        Parameter {
            name: "src",
            default: None,
            usage: Use::Read,
            doc: "SBUF or PSUM (GpSimdE: SBUF), the same P and number of elements.",
        },
        Parameter {
            name: "engine",
            default: Some("engine.unknown"),
            usage: Use::Constant,
            doc: "engine.vector, engine.scalar (from v3), engine.gpsimd or engine.unknown (VectorE).",
        },
    ],
    rules: &[SCALAR_ENGINE],
    exactness: Exactness::BitExact,
    build,
    execute,
    hides_nan: keeps_nan,
    rows: every_row,
    cost,
    work: no_work,
};

const SCALAR_ENGINE: Rule = Rule {
    id: "tensor_copy.scalar_engine",
    text: "ScalarE copies tensors from NeuronCore-v3 (trn2) on",
    source: "nki/api/nki/isa/__init__.py, tensor_copy",
    fix: "choose engine.vector, or use activation with nl.copy",
};

fn build(arguments: &Arguments<'_>, context: &mut Context<'_>) -> Result<Instruction, Violation> {
    let (dst, src) = (arguments.view("dst")?, arguments.view("src")?);
    let engine = context.engine(arguments, DEFINITION.engines)?.unwrap_or(Engine::Vector);
    if engine == Engine::Scalar && !context.target.core.capability.scalar_tensor_copy {
        return Err(context.lacking(&SCALAR_ENGINE, "engine", Some("is scalar".into())));
    }
    let spaces = if engine == Engine::Gpsimd { SBUF } else { ON_CHIP };
    for (view, name) in [(dst, "dst"), (src, "src")] {
        context.check_tile(view, name, spaces)?;
        if dst.dtype != src.dtype {
            context.check_unpacked(view, name)?;
        }
    }
    context.check_same_shape(src, "src", dst, "dst")?;
    let mut instruction = Instruction::new(Opcode::TensorCopy, engine);
    context.writes(&mut instruction, 0, dst);
    context.reads(&mut instruction, 1, src);
    Ok(instruction)
}

fn execute(instruction: &Instruction, machine: &mut Machine<'_>) -> Result<(), Violation> {
    let [dst, src, ..] = instruction.operands;
    machine.copy(&dst, &src)
}

impl Machine<'_> {
    /// Copies elements in order: their bytes when the data types are equal, else through FP32.
    ///
    /// # Errors
    /// None today; the signature is that of every instruction.
    pub(crate) fn copy(
        &mut self,
        dst: &crate::instruction::Operand,
        src: &crate::instruction::Operand,
    ) -> Result<(), Violation> {
        if self.tables.pattern(dst).dtype != self.tables.pattern(src).dtype {
            return self.stream(dst, &[src], |_, [x, _], out| {
                out.copy_from_slice(x);
                Ok(())
            });
        }
        if !self.same_slab(dst, src) {
            self.with_written(dst, |machine, out| {
                let tile = machine.tile(src);
                let size = out.geometry.dtype.size_bytes();
                if let Some(bytes) = tile.dense(0, tile.geometry.elements()) {
                    out.write_bytes(0, bytes);
                } else if let Some(bytes) = out.dense(0, tile.geometry.elements()) {
                    tile.read_bytes(0, bytes);
                } else {
                    let mut bytes = vec![0; tile.geometry.elements() * size];
                    tile.read_bytes(0, &mut bytes);
                    out.write_bytes(0, &bytes);
                }
            });
            return Ok(());
        }
        let tile = self.tile(src);
        let mut bytes = vec![0; tile.geometry.elements() * tile.geometry.dtype.size_bytes()];
        tile.read_bytes(0, &mut bytes);
        self.with_written(dst, |_, out| out.write_bytes(0, &bytes));
        Ok(())
    }
}

fn cost(instruction: &Instruction, tables: &Tables<'_>, target: &Target) -> Cost {
    stream_cost::tensor_copy(instruction, tables, target)
}
