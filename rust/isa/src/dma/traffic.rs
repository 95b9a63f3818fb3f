//! What a transfer asks of the DMA engines and of HBM: bytes, and the pieces in which they lie.
//!
//! A descriptor is contiguous on both sides and inside one partition; with rows by index it is inside one row. The
//! engines' work is told apart by partitions of the on-chip side, so pieces are counted within the share of one.

use crate::cost::{Movement, Side, Transfer};
use crate::dma::issue;
use crate::instruction::{Instruction, Operand};
use crate::machine::Tables;

/// The cost of moving `sources` to `dst`, element by element; of several of them the sum goes there.
pub(crate) fn transfer(
    instruction: &Instruction,
    tables: &Tables<'_>,
    movement: Movement,
    dst: &Operand,
    sources: &[&Operand],
) -> Transfer {
    let elements = tables.geometry(dst).elements() as u64;
    let is_hbm = |operand: &Operand| !tables.tensor(operand).space.is_on_chip();
    // Several sources take the way of those in HBM, if there are any.
    let farthest = *sources.iter().find(|source| is_hbm(source)).unwrap_or(&sources[0]);
    let chip_side = [dst, farthest].into_iter().find(|operand| !is_hbm(operand));
    let (partitions, partition_start) = chip_side
        .map_or((0, 0), |operand| (tables.pattern(operand).dims[0].count, tables.partition_start(operand) as u32));
    let row = elements / u64::from(partitions.max(1));
    let size = |operand: &Operand| tables.pattern(operand).dtype.size_bytes() as u64;
    let piece = |operand: &Operand| greatest_common_divisor(run_elements(instruction, operand, tables), row);
    let source_piece = sources.iter().map(|source| piece(source)).fold(0, greatest_common_divisor);
    let source_size: u64 = sources.iter().map(|source| size(source)).sum();
    let mut from = Side {
        space: tables.tensor(farthest).space,
        bytes: elements * source_size,
        piece_bytes: source_piece * source_size,
    };
    let to = Side { space: tables.tensor(dst).space, bytes: elements * size(dst), piece_bytes: piece(dst) * size(dst) };
    let of_transpose = matches!(movement, Movement::Transpose | Movement::TransposeUnaligned);
    let hbm_piece = |operand: &&Operand| {
        let elements = if of_transpose { run_elements(instruction, operand, tables) } else { piece(operand).max(1) };
        elements * size(operand)
    };
    if of_transpose {
        // The engines turn tiles around together: what they write is cut as in a copy.
        from.piece_bytes = to.piece_bytes;
    }
    Transfer {
        movement,
        from,
        to,
        partitions,
        partition_start,
        hbm_read_bytes: sources.iter().filter(|source| is_hbm(source)).map(|source| elements * size(source)).sum(),
        hbm_piece_bytes: sources
            .iter()
            .copied()
            .chain([dst])
            .filter(|operand| is_hbm(operand))
            .map(|operand| hbm_piece(&operand))
            .min()
            .unwrap_or(u64::MAX),
        generation: issue::generation_of(instruction),
        priority: issue::priority_of(instruction),
    }
}

/// Elements of the innermost run of a side: contiguous, inside one partition on chip, inside one row by index.
fn run_elements(instruction: &Instruction, operand: &Operand, tables: &Tables<'_>) -> u64 {
    let pattern = tables.pattern(operand);
    let run = run_bytes(operand, tables) / pattern.dtype.size_bytes() as u64;
    if issue::is_by_index(instruction, operand) {
        return greatest_common_divisor(run, tables.geometry(operand).row_elements() as u64);
    }
    run
}

/// Bytes of the innermost run of a side: contiguous, and inside one partition on chip.
fn run_bytes(operand: &Operand, tables: &Tables<'_>) -> u64 {
    let space = tables.tensor(operand).space;
    let pattern = tables.pattern(operand);
    let first = usize::from(space.is_on_chip()).min(pattern.dims.len());
    let mut run = 1u64;
    for dim in pattern.dims[first..].iter().rev() {
        if dim.count != 1 && dim.stride != run as i64 {
            break;
        }
        run *= u64::from(dim.count);
    }
    run * pattern.dtype.size_bytes() as u64
}

fn greatest_common_divisor(a: u64, b: u64) -> u64 {
    if b == 0 { a } else { greatest_common_divisor(b, a % b) }
}
