//! The timeline as blocks to draw: each instruction by itself, or so many in one block that the picture stays small.
//!
//! A block of an engine lasts from the issue to the result, or to the next issue on that engine if that comes first; a
//! block of a transfer from its first byte to its last. Joined blocks keep the sum of what they stand for.

use crate::timeline::Timeline;
use std::collections::BTreeMap;
use trn3_isa::Engine;
use trn3_neuroncore::InstructionTime;
use trn3_program::Program;
use trn3_sim::Picos;

/// A row of the picture.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum Row {
    /// An engine of the core.
    Engine(Engine),
    /// Transfers that an engine asked for; those that overlap lie in lanes 0, 1, ….
    Dma(Engine, u8),
}

impl Row {
    /// The name in reports.
    pub fn name(self) -> String {
        match self {
            Row::Engine(engine) => engine.name().into(),
            Row::Dma(engine, 0) => format!("dma.{}", engine.name()),
            Row::Dma(engine, lane) => format!("dma.{}.{lane}", engine.name()),
        }
    }
}

/// Something to draw.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Block {
    /// From.
    pub start: Picos,
    /// To.
    pub end: Picos,
    /// Time within it in which something ran.
    pub busy: Picos,
    /// How many instructions it stands for.
    pub count: u32,
    /// The longest of them.
    pub instance: u32,
    /// When that one's result was there.
    pub result: Picos,
    /// How long the engine had waited for it, and for what.
    pub stall: Picos,
    /// The cause of that.
    pub cause: &'static str,
    /// Bytes that transfers wrote.
    pub bytes: u64,
    longest: Picos,
}

impl Block {
    fn of(instance: u32, time: &InstructionTime, end: Picos) -> Block {
        let busy = end.saturating_sub(time.issue);
        Block {
            start: time.issue,
            end,
            busy,
            count: 1,
            instance,
            result: time.end,
            stall: time.stall,
            cause: time.cause.name(),
            bytes: 0,
            longest: busy,
        }
    }

    fn join(&mut self, other: &Block) {
        if other.longest > self.longest {
            let (instance, result, longest) = (other.instance, other.result, other.longest);
            (self.instance, self.result, self.longest) = (instance, result, longest);
            (self.stall, self.cause) = (other.stall, other.cause);
        }
        self.end = self.end.max(other.end);
        self.busy += other.busy;
        self.count += other.count;
        self.bytes += other.bytes;
    }
}

/// Lanes of one queue's transfers; what does not fit into them is drawn over the last.
const LANES_MAX: usize = 4;

impl Timeline {
    /// All rows with their blocks; about `limit` blocks at most, shorter ones joined with their neighbours.
    pub fn blocks(&self, program: &Program, limit: usize) -> Vec<(Row, Vec<Block>)> {
        let mut rows: BTreeMap<Row, Vec<Block>> = BTreeMap::new();
        for engine in Engine::ALL {
            let blocks = self.engine_blocks(program, engine);
            if !blocks.is_empty() {
                rows.insert(Row::Engine(engine), blocks);
            }
        }
        self.transfer_blocks(program, &mut rows);
        let count: usize = rows.values().map(Vec::len).sum();
        let shortest = if count > limit { self.total.0 * 2 * rows.len() as u64 / (limit as u64).max(1) } else { 0 };
        rows.into_iter().map(|(row, blocks)| (row, join_short(blocks, Picos(shortest)))).collect()
    }

    fn engine_blocks(&self, program: &Program, engine: Engine) -> Vec<Block> {
        let own = self.schedule.times.iter().enumerate().filter_map(|(at, time)| {
            let instruction = &program.instructions[self.schedule.instances.instruction(at)];
            let runs = instruction.engine == engine && !instruction.opcode.is_control();
            runs.then_some((at as u32, time, instruction.opcode.is_transfer()))
        });
        let control = self.schedule.control.iter().filter(|control| control.engine == engine);
        let mut times: Vec<_> = own.chain(control.map(|control| (control.instance, &control.time, false))).collect();
        times.sort_by_key(|(instance, time, _)| (time.issue, *instance));
        let next_issue = times.iter().skip(1).map(|(_, time, _)| time.issue).chain([Picos::MAX]);
        let blocks = times.iter().zip(next_issue).filter(|((_, _, is_transfer), _)| !is_transfer);
        blocks.map(|((instance, time, _), next)| Block::of(*instance, time, time.end.min(next))).collect()
    }

    fn transfer_blocks(&self, program: &Program, rows: &mut BTreeMap<Row, Vec<Block>>) {
        let mut order: Vec<&(u32, trn3_dma::Completion)> = self.completions.iter().collect();
        order.sort_by_key(|(instance, completion)| (completion.first_byte, *instance));
        let mut lanes: BTreeMap<Engine, Vec<Picos>> = BTreeMap::new();
        for (instance, completion) in order {
            let time = &self.schedule.times[*instance as usize];
            let issuer = program.instructions[self.schedule.instances.instruction(*instance as usize)].engine;
            let ends = lanes.entry(issuer).or_default();
            let free = ends.iter().position(|&end| end <= completion.first_byte);
            let lane = free.unwrap_or_else(|| ends.len().min(LANES_MAX - 1));
            if lane == ends.len() {
                ends.push(Picos::ZERO);
            }
            ends[lane] = ends[lane].max(completion.done);
            let moved = InstructionTime { issue: completion.first_byte, ..*time };
            let mut block = Block::of(*instance, &moved, completion.done);
            block.bytes = completion.transfer.shape.written_bytes();
            rows.entry(Row::Dma(issuer, lane as u8)).or_default().push(block);
        }
    }
}

/// Joins neighbours that are together shorter than `shortest`.
fn join_short(blocks: Vec<Block>, shortest: Picos) -> Vec<Block> {
    if shortest == Picos::ZERO {
        return blocks;
    }
    let mut joined: Vec<Block> = Vec::new();
    for block in blocks {
        match joined.last_mut() {
            Some(last) if block.end.saturating_sub(last.start) < shortest => last.join(&block),
            _ => joined.push(block),
        }
    }
    joined
}

#[cfg(test)]
mod tests {
    use super::*;
    use trn3_neuroncore::{After, Cause};

    fn block(instance: u32, start: u64, end: u64) -> Block {
        let time = InstructionTime {
            issue: Picos(start),
            end: Picos(end),
            stall: Picos::ZERO,
            cause: Cause::None,
            after: After::Nothing,
        };
        Block::of(instance, &time, Picos(end))
    }

    #[test]
    fn short_blocks_are_joined_and_their_sums_kept() {
        let blocks = vec![block(0, 0, 2), block(1, 3, 6), block(2, 7, 10), block(3, 12, 60), block(4, 60, 61)];
        let joined = join_short(blocks, Picos(10));
        let found: Vec<_> = joined.iter().map(|b| (b.start.0, b.end.0, b.busy.0, b.count, b.instance)).collect();
        assert_eq!(found, [(0, 6, 5, 2, 1), (7, 10, 3, 1, 2), (12, 60, 48, 1, 3), (60, 61, 1, 1, 4)]);
    }
}
