//! Dynamic loops: bodies that are recorded once and run as often as registers say.

use serde::{Deserialize, Serialize};
use std::collections::HashMap;
use std::ops::Range;
use trn3_isa::{Instruction, Opcode, Registers, registers_of};

/// A bound of a counted loop.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub enum Bound {
    /// Known while recording.
    Constant(i32),
    /// A register, read when the loop begins.
    Register(u32),
}

impl Bound {
    /// Its value.
    pub fn value(self, registers: &Registers) -> i32 {
        match self {
            Bound::Constant(value) => value,
            Bound::Register(number) => registers.scalar_value(number) as i32,
        }
    }
}

/// What a loop goes by.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub enum LoopKind {
    /// `start`, `start + step`, … below `stop`, in a register.
    Count {
        /// The register that counts.
        induction: u32,
        /// First value.
        start: Bound,
        /// First value beyond.
        stop: Bound,
        /// At least 1.
        step: u32,
    },
    /// As long as a register is not 0, tested before each turn.
    While {
        /// The register.
        condition: u32,
    },
}

/// A loop: instructions `begin..=end` of its Program, marks included.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub struct Loop {
    /// The mark at its beginning.
    pub begin: u32,
    /// The mark at its end.
    pub end: u32,
    /// What it goes by.
    pub kind: LoopKind,
    /// The loop around it.
    pub outer: Option<u32>,
}

impl Loop {
    /// Turns of a loop whose bounds are constants.
    pub fn known_turns(&self) -> Option<u64> {
        match self.kind {
            LoopKind::Count { start: Bound::Constant(start), stop: Bound::Constant(stop), step, .. } => {
                Some(turns(start, stop, step))
            }
            _ => None,
        }
    }

    /// The registers that the loop reads.
    pub fn registers(&self) -> impl Iterator<Item = u32> {
        let of = |bound| match bound {
            Bound::Register(number) => Some(number),
            Bound::Constant(_) => None,
        };
        let (first, second) = match self.kind {
            LoopKind::Count { start, stop, .. } => (of(start), of(stop)),
            LoopKind::While { condition } => (Some(condition), None),
        };
        first.into_iter().chain(second)
    }
}

/// Turns of a counted loop.
pub fn turns(start: i32, stop: i32, step: u32) -> u64 {
    let distance = i64::from(stop) - i64::from(start);
    if distance <= 0 { 0 } else { (distance as u64).div_ceil(u64::from(step)) }
}

/// How often each loop of a run went round, in the order in which the loops began.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Path {
    /// Turns, one entry each time that a loop begins.
    pub turns: Vec<u32>,
}

/// The most instructions that a run may have with its loops written out.
pub const INSTANCES_MAX: u64 = 1 << 28;

/// Why a Program cannot be written out.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum ExpandError {
    /// A loop's turns come from memory, and no run says how many they were.
    #[error("how often a dynamic loop goes round is known only from a run")]
    UnknownTurns {
        /// Number of the loop.
        number: u32,
    },
    /// The path is of another Program.
    #[error("the path has another number of loops than the program runs through")]
    ForeignPath,
    /// Too many instructions.
    #[error("with its loops written out the program has more than {INSTANCES_MAX} instructions")]
    TooLong,
}

/// The instructions of a Program in the order in which they run, its loops written out along a path. Without a path,
/// the turns must follow from constants.
///
/// # Errors
/// [`ExpandError`].
pub fn expand(instructions: &[Instruction], loops: &[Loop], path: Option<&Path>) -> Result<Vec<u32>, ExpandError> {
    let mut instances = Vec::with_capacity(instructions.len());
    let mut known = Known { path: path.map(|path| path.turns.iter()), registers: HashMap::new() };
    expand_range(0..instructions.len() as u32, instructions, loops, &mut known, &mut instances)?;
    if known.path.is_some_and(|mut rest| rest.next().is_some()) {
        return Err(ExpandError::ForeignPath);
    }
    Ok(instances)
}

/// What decides the turns of loops: a run's path, or registers that hold constants.
struct Known<'a> {
    path: Option<std::slice::Iter<'a, u32>>,
    registers: HashMap<u32, u32>,
}

impl Known<'_> {
    fn follow(&mut self, instruction: &Instruction) {
        let registers = registers_of(instruction);
        let Some(written) = registers.written else { return };
        let value = match (instruction.opcode, registers.read) {
            (Opcode::RegisterMove, None) => Some(instruction.constants[1]),
            (Opcode::RegisterMove, Some(read)) => self.registers.get(&read).copied(),
            _ => None,
        };
        match value {
            Some(value) => self.registers.insert(written, value),
            None => self.registers.remove(&written),
        };
    }

    fn bound(&self, bound: Bound) -> Option<i32> {
        match bound {
            Bound::Constant(value) => Some(value),
            Bound::Register(number) => self.registers.get(&number).map(|&value| value as i32),
        }
    }

    fn turns(&mut self, number: u32, each: &Loop) -> Result<u64, ExpandError> {
        if let Some(path) = &mut self.path {
            return path.next().map(|&turns| u64::from(turns)).ok_or(ExpandError::ForeignPath);
        }
        let unknown = ExpandError::UnknownTurns { number };
        match each.kind {
            LoopKind::Count { start, stop, step, .. } => {
                let bounds = self.bound(start).zip(self.bound(stop));
                bounds.map(|(start, stop)| turns(start, stop, step)).ok_or(unknown)
            }
            LoopKind::While { condition } if self.registers.get(&condition) == Some(&0) => Ok(0),
            LoopKind::While { .. } => Err(unknown),
        }
    }
}

fn expand_range(
    range: Range<u32>,
    instructions: &[Instruction],
    loops: &[Loop],
    known: &mut Known<'_>,
    instances: &mut Vec<u32>,
) -> Result<(), ExpandError> {
    let mut at = range.start;
    while at < range.end {
        let instruction = &instructions[at as usize];
        instances.push(at);
        if instruction.opcode != Opcode::LoopBegin {
            known.follow(instruction);
            at += 1;
            continue;
        }
        let number = instruction.constants[0];
        let each = loops[number as usize];
        let turns = known.turns(number, &each)?;
        for _ in 0..turns {
            if instances.len() as u64 > INSTANCES_MAX {
                return Err(ExpandError::TooLong);
            }
            expand_range(at + 1..each.end, instructions, loops, known, instances)?;
            instances.push(each.end);
        }
        at = each.end + 1;
    }
    Ok(())
}

/// The instructions of a Program with every loop walked twice: what a second turn meets is what every later one meets.
///
/// Without loops this is the range of all instructions, and nothing is allocated.
pub(crate) fn walk(instructions: &[Instruction], loops: &[Loop]) -> Vec<u32> {
    let mut visits = Vec::with_capacity(instructions.len());
    walk_range(0..instructions.len() as u32, instructions, loops, &mut visits);
    visits
}

fn walk_range(range: Range<u32>, instructions: &[Instruction], loops: &[Loop], visits: &mut Vec<u32>) {
    let mut at = range.start;
    while at < range.end {
        let instruction = &instructions[at as usize];
        visits.push(at);
        if instruction.opcode != Opcode::LoopBegin {
            at += 1;
            continue;
        }
        let inner = loops[instruction.constants[0] as usize];
        for _ in 0..2 {
            walk_range(at + 1..inner.end, instructions, loops, visits);
            visits.push(inner.end);
        }
        at = inner.end + 1;
    }
}

#[cfg(test)]
mod tests {
    use super::turns;

    #[test]
    fn turns_are_those_of_a_range() {
        assert_eq!(turns(0, 5, 2), 3);
        assert_eq!(turns(5, 5, 1), 0);
        assert_eq!(turns(7, -3, 1), 0);
        assert_eq!(turns(i32::MIN, i32::MAX, 1), u64::from(u32::MAX));
    }
}
