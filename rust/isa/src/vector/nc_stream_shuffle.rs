//! `nc_stream_shuffle`: partitions exchanged within their quadrants.

use crate::arguments::{Arguments, Parameter, Use};
use crate::context::{Context, ON_CHIP, broken};
use crate::cost::Cost;
use crate::instruction::{Engine, Instruction, Operand};
use crate::machine::{Machine, Tables};
use crate::rules::{self, Rule};
use crate::table::{Definition, Exactness, Kind, Opcode, every_row, keeps_nan, no_work};
use crate::vector::stream_cost;
use trn3_mem::{Dim, Dims, TensorId, View, Violation};
use trn3_spec::Target;

/// The table's entry.
pub const DEFINITION: Definition = Definition {
    name: "nc_stream_shuffle",
    doc: "In each quadrant of 32 partitions, partition i of ``dst`` gets partition ``shuffle_mask[i]`` of ``src``; 255 \
        leaves it.\n\nBits are moved; ``src`` and ``dst`` may be one tile. A source of one partition and a mask of zeros \
        repeats that partition.",
    source: "nki/api/nki/isa/__init__.py, nc_stream_shuffle",
    kind: Kind::Compute,
    engines: &[Engine::Vector],
    parameters: &[
        Parameter { name: "dst", default: None, usage: Use::Write, doc: "SBUF or PSUM, (P, F)." },
        Parameter { name: "src", default: None, usage: Use::Read, doc: "SBUF or PSUM, (P, F) of dst's type." },
        Parameter { name: "shuffle_mask", default: None, usage: Use::Constant, doc: "32 integers, 0 to 31 or 255." },
    ],
    rules: &[MASK, TILES],
    exactness: Exactness::BitExact,
    build,
    execute,
    hides_nan: keeps_nan,
    rows: every_row,
    cost,
    work: no_work,
};

const MASK: Rule = Rule {
    id: "nc_stream_shuffle.mask",
    text: "shuffle_mask has 32 integers from 0 to 31, or 255, and names partitions that src has",
    source: "nki/api/nki/isa/__init__.py, nc_stream_shuffle",
    fix: "give one entry for each partition of a quadrant; 255 leaves the partition",
};
const TILES: Rule = Rule {
    id: "nc_stream_shuffle.tiles",
    text: "src and dst have the same data type and the same number of elements a partition",
    source: "nki/api/nki/isa/__init__.py, nc_stream_shuffle",
    fix: "slice or cast one of them",
};

/// An entry that leaves its partition.
const KEEP: i64 = 255;

fn build(arguments: &Arguments<'_>, context: &mut Context<'_>) -> Result<Instruction, Violation> {
    let (dst, src) = (arguments.view("dst")?, arguments.view("src")?);
    context.check_tile(dst, "dst", ON_CHIP)?;
    context.check_tile(src, "src", ON_CHIP)?;
    if dst.dtype != src.dtype || dst.free_size() != src.free_size() {
        let value = format!("is {} {:?}", src.dtype.name(), src.shape().as_slice());
        let limit = format!("dst is {} {:?}", dst.dtype.name(), dst.shape().as_slice());
        return Err(broken(&TILES, "src", value, limit));
    }
    let quadrant = context.target.core.sbuf.quadrant_partitions;
    check_starts(context, dst, src, quadrant)?;
    let mask = arguments.ints("shuffle_mask")?;
    if mask.len() != quadrant as usize {
        let value = format!("has {} entries", mask.len());
        return Err(broken(&MASK, "shuffle_mask", value, format!("must have {quadrant}")));
    }
    for (at, &entry) in mask.iter().enumerate() {
        if entry != KEEP && !(0..i64::from(quadrant)).contains(&entry) {
            let value = format!("[{at}] is {entry}");
            return Err(broken(&MASK, "shuffle_mask", value, format!("must be 0 to {}, or {KEEP}", quadrant - 1)));
        }
    }
    let mut keeps = false;
    for partition in 0..dst.partitions() {
        let entry = mask[(partition % quadrant) as usize];
        let from = i64::from(partition / quadrant * quadrant) + entry;
        keeps |= entry == KEEP;
        if entry != KEEP && from >= i64::from(src.partitions()) {
            let value = format!("takes partition {from} for partition {partition}");
            return Err(broken(&MASK, "shuffle_mask", value, format!("src has {}", src.partitions())));
        }
    }
    let mut instruction = Instruction::new(Opcode::NcStreamShuffle, Engine::Vector);
    if keeps {
        context.reads(&mut instruction, 0, dst);
    }
    context.writes(&mut instruction, 0, dst);
    context.reads(&mut instruction, 1, src);
    // The mask is kept like an access pattern: 32 entries, the same for many instructions.
    let dims: Dims = mask.iter().map(|&stride| Dim { stride, count: 1 }).collect();
    let entries = View { dims, index: None, scalar: None, ..dst.clone() };
    instruction.operands[2] = Operand { tensor: TensorId::NONE, pattern: context.patterns.intern(&entries), offset: 0 };
    Ok(instruction)
}

/// Both tiles start where as many partitions as the larger one takes, in whole quadrants, may start.
fn check_starts(context: &mut Context<'_>, dst: &View, src: &View, quadrant: u32) -> Result<(), Violation> {
    let active = dst.partitions().max(src.partitions()).div_ceil(quadrant) * quadrant;
    for (view, name) in [(dst, "dst"), (src, "src")] {
        let start = view.partition_start();
        let allowed = match active / quadrant {
            1 => start.is_multiple_of(quadrant),
            2 => start.is_multiple_of(2 * quadrant),
            _ => start == 0,
        };
        if !allowed {
            let value = format!("starts at {start}, {active} partitions are active");
            let violation = broken(&rules::PARTITION_START, name, value, rules::PARTITION_START.text);
            context.deviation(crate::Strictness::Documented, violation)?;
        }
    }
    Ok(())
}

fn execute(instruction: &Instruction, machine: &mut Machine<'_>) -> Result<(), Violation> {
    let [dst, src, mask, ..] = instruction.operands;
    let entries = machine.tables.pattern(&mask).dims.clone();
    let geometry = machine.tables.geometry(&dst);
    let tile = machine.tile(&src);
    let mut bytes = vec![0u8; tile.geometry.elements() * tile.geometry.dtype.size_bytes()];
    tile.read_bytes(0, &mut bytes);
    let (rows, row) = (geometry.rows(), geometry.row_elements());
    let row_bytes = row * geometry.dtype.size_bytes();
    machine.with_written(&dst, |_, tile| {
        for partition in 0..rows {
            let entry = entries[partition % entries.len()].stride;
            if entry != KEEP {
                let from = partition / entries.len() * entries.len() + entry as usize;
                tile.write_bytes(partition * row, &bytes[from * row_bytes..(from + 1) * row_bytes]);
            }
        }
    });
    Ok(())
}

fn cost(instruction: &Instruction, tables: &Tables<'_>, target: &Target) -> Cost {
    let vector = &target.core.vector;
    let [dst, src, ..] = &instruction.operands;
    stream_cost::vector(&[dst, src], vector.stream.stream_shuffle_cycles_per_element, &vector.other, tables, target)
}
