//! The instructions of one core in the order in which they run, its loops written out, and what each waits for.

use trn3_isa::Instruction;
use trn3_program::{ExpandError, Path, Program, expand};

/// What one core runs.
#[derive(Debug, Clone, Copy)]
pub struct CoreProgram<'a> {
    /// The Program.
    pub program: &'a Program,
    /// How often its loops went round in a run; without it, the turns must follow from constants.
    pub path: Option<&'a Path>,
}

/// Numbers of instructions in the order of a run; for a Program without loops, the Program itself.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Instances {
    written_out: Option<Vec<u32>>,
    count: usize,
}

impl Instances {
    /// Those of one core.
    ///
    /// # Errors
    /// The turns of a loop are not known.
    pub fn of(core: &CoreProgram<'_>) -> Result<Instances, ExpandError> {
        let program = core.program;
        if program.loops.is_empty() {
            return Ok(Instances { written_out: None, count: program.instructions.len() });
        }
        let written_out = expand(&program.instructions, &program.loops, core.path)?;
        Ok(Instances { count: written_out.len(), written_out: Some(written_out) })
    }

    /// How many there are.
    pub fn len(&self) -> usize {
        self.count
    }

    /// Whether there are none.
    pub fn is_empty(&self) -> bool {
        self.count == 0
    }

    /// The instruction that instance `at` runs.
    pub fn instruction(&self, at: usize) -> usize {
        self.written_out.as_ref().map_or(at, |numbers| numbers[at] as usize)
    }
}

/// Instances with the earlier instances that each waits for.
pub(crate) struct Stream<'a> {
    pub(crate) program: &'a Program,
    pub(crate) instances: Instances,
    /// Producers of each instance, if they differ from those of its instruction.
    ends: Vec<u32>,
    producers: Vec<u32>,
}

impl<'a> Stream<'a> {
    pub(crate) fn new(core: &CoreProgram<'a>) -> Result<Stream<'a>, ExpandError> {
        let mut stream =
            Stream { program: core.program, instances: Instances::of(core)?, ends: Vec::new(), producers: Vec::new() };
        if stream.instances.written_out.is_some() {
            stream.find_producers();
        }
        Ok(stream)
    }

    /// An edge means: the last time that the producer ran before.
    fn find_producers(&mut self) {
        let mut last = vec![u32::MAX; self.program.instructions.len()];
        self.ends.reserve(self.instances.len());
        for at in 0..self.instances.len() {
            let instruction = self.instances.instruction(at);
            let producers = self.program.edges.producers(instruction).iter().map(|&producer| last[producer as usize]);
            self.producers.extend(producers.filter(|&instance| instance != u32::MAX));
            self.ends.push(self.producers.len() as u32);
            last[instruction] = at as u32;
        }
    }

    pub(crate) fn len(&self) -> usize {
        self.instances.len()
    }

    pub(crate) fn instruction(&self, at: usize) -> &'a Instruction {
        &self.program.instructions[self.instances.instruction(at)]
    }

    /// The instances that instance `at` waits for.
    pub(crate) fn producers(&self, at: usize) -> &[u32] {
        if self.instances.written_out.is_none() {
            return self.program.edges.producers(at);
        }
        let start = if at == 0 { 0 } else { self.ends[at - 1] as usize };
        &self.producers[start..self.ends[at] as usize]
    }
}
