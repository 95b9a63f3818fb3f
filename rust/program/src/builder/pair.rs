//! Two recordings of one kernel, for the two cores of a logical core, made into one Program.

use super::races::races;
use super::{Builder, FillValue};
use crate::program::{Peer, Program};
use trn3_isa::{Finding, Strictness};
use trn3_mem::{Coverage, Role, Space, TensorId, TensorInfo, Violation};

/// A finding that stopped a recording, with its file and line.
pub type PairError = Box<(Finding, String, u32)>;

impl Builder {
    /// Ends the recordings of both cores; `outputs` are what each of them returned.
    ///
    /// # Errors
    /// As [`Builder::finish`]; also `cores.control_flow` if the cores do not declare and return the same shared tensors, and
    /// `cores.race` when the checks are strict.
    pub fn finish_pair(cores: [Builder; 2], outputs: [&[TensorId]; 2]) -> Result<Program, PairError> {
        let [mut first, mut second] = cores;
        let shared = shared_tensors(&first, &second, outputs).map_err(|violation| {
            let finding = Finding { violation, line: 0 };
            Box::new((finding, String::from("<unknown>"), 0))
        })?;
        for &(a, b) in &shared {
            let bytes = first.tensors[a.index()].bytes();
            let written = second.bytes[b.index()].written.clone();
            first.bytes[a.index()].written.join(bytes, &written);
            second.bytes[b.index()].written = first.bytes[a.index()].written.clone();
            if first.bytes[a.index()].written != Coverage::Full {
                // After a meeting either may read what neither has written.
                first.poison(a);
            }
        }
        for finding in races(&first, &second, &shared) {
            if second.options.checks >= Strictness::Documented {
                let line = second.lines[finding.line as usize];
                return Err(Box::new((finding, second.files[line.file as usize].clone(), line.line)));
            }
            second.findings.push(finding);
        }
        let mut program = first.finish(outputs[0], false)?;
        let mut other = second.finish(outputs[1], false)?;
        share_poison(&mut program, &mut other, &shared);
        program.peer = Some(Box::new(Peer { program: other, shared }));
        Ok(program)
    }
}

/// Pairs of tensors that both cores see: inputs by number, tensors in shared HBM by the order of their declaration.
fn shared_tensors(
    first: &Builder,
    second: &Builder,
    outputs: [&[TensorId]; 2],
) -> Result<Vec<(TensorId, TensorId)>, Violation> {
    let declared = |builder: &Builder| -> Vec<TensorId> {
        let is_shared = |info: &TensorInfo| info.space == Space::SharedHbm && !matches!(info.role, Role::Constant(_));
        let ids = (0..builder.tensors.len() as u32).map(TensorId);
        ids.filter(|id| is_shared(&builder.tensors[id.index()])).collect()
    };
    let (ours, theirs) = (declared(first), declared(second));
    let differ = |value: String, limit: String| {
        Violation::new(
            "cores.control_flow",
            "kernel",
            value,
            limit,
            "declare and return the same shared_hbm tensors whatever nl.program_id is",
        )
        .in_instruction("kernel")
    };
    if ours.len() != theirs.len() {
        let value = format!("core 0 has {} tensors in shared HBM", ours.len());
        return Err(differ(value, format!("core 1 has {}", theirs.len())));
    }
    for (a, b) in ours.iter().zip(&theirs) {
        let (a, b) = (&first.tensors[a.index()], &second.tensors[b.index()]);
        if a.shape != b.shape || a.dtype != b.dtype {
            let text = |info: &TensorInfo| format!("{} {} {:?}", info.name, info.dtype.name(), info.shape.as_slice());
            return Err(differ(format!("core 0 has {}", text(a)), format!("core 1 has {} in its place", text(b))));
        }
    }
    let pairs: Vec<(TensorId, TensorId)> = ours.into_iter().zip(theirs).collect();
    let same = outputs[0].len() == outputs[1].len()
        && outputs[0].iter().zip(outputs[1]).all(|(&a, &b)| pairs.contains(&(a, b)));
    if !same {
        let names = |builder: &Builder, ids: &[TensorId]| {
            if ids.is_empty() {
                return String::from("nothing");
            }
            ids.iter().map(|id| builder.tensors[id.index()].name.as_str()).collect::<Vec<_>>().join(", ")
        };
        let value = format!("core 0 returns {}", names(first, outputs[0]));
        return Err(differ(value, format!("core 1 returns {}", names(second, outputs[1]))));
    }
    Ok(pairs)
}

/// Shared tensors are poisoned once, before either core begins: not over what the other has written.
fn share_poison(first: &mut Program, second: &mut Program, shared: &[(TensorId, TensorId)]) {
    let mut poisoned = Vec::new();
    for &(a, b) in shared {
        for (program, id) in [(&mut *first, a), (&mut *second, b)] {
            let own = |fill: &crate::Fill| fill.tensor == id && fill.value == FillValue::Poison;
            if let Some(fill) = program.fills.iter().find(|fill| own(fill)) {
                let fill = crate::Fill { before: 0, tensor: a, ..fill.clone() };
                if !poisoned.contains(&fill) {
                    poisoned.push(fill);
                }
            }
            program.fills.retain(|fill| !own(fill));
        }
    }
    first.fills.splice(0..0, poisoned);
}
