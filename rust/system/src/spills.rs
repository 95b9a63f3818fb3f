//! What it cost that tensors had no room in SBUF.

use crate::critical::CriticalPath;
use crate::timeline::Timeline;
use std::collections::BTreeMap;
use trn3_program::Program;
use trn3_sim::Picos;

/// The transfers of one spilled tensor.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct SpillUse {
    /// Transfers to HBM.
    pub stores: u64,
    /// Transfers from HBM.
    pub reloads: u64,
    /// Bytes moved by both.
    pub bytes: u64,
    /// Time from issue to end, summed over them.
    pub in_flight: Picos,
    /// Time that they have on the critical path.
    pub critical: Picos,
}

impl Timeline {
    /// What the transfers of each spilled tensor took, in the order of the Program's list.
    pub fn spills(&self, program: &Program, path: &CriticalPath) -> Vec<SpillUse> {
        let mut owners: BTreeMap<u32, (usize, bool)> = BTreeMap::new();
        for (number, spill) in program.spills.iter().enumerate() {
            owners.extend(spill.stores.iter().map(|&at| (at, (number, true))));
            owners.extend(spill.reloads.iter().map(|&at| (at, (number, false))));
        }
        let mut uses = vec![SpillUse::default(); program.spills.len()];
        if owners.is_empty() {
            return uses;
        }
        let instances = &self.schedule.instances;
        let owner = |instance: usize| owners.get(&(instances.instruction(instance) as u32)).copied();
        for (at, time) in self.schedule.times.iter().enumerate() {
            let Some((number, is_store)) = owner(at) else { continue };
            let found = &mut uses[number];
            *(if is_store { &mut found.stores } else { &mut found.reloads }) += 1;
            found.bytes += program.tensors[program.spills[number].tensor.index()].bytes();
            found.in_flight += time.end.saturating_sub(time.issue);
        }
        for segment in &path.segments {
            if let Some((number, _)) = segment.instance.and_then(|at| owner(at as usize)) {
                uses[number].critical += segment.span();
            }
        }
        uses
    }
}
