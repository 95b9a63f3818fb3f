//! What the two cores of a logical core do together: each waits for the other to come to the same point.

pub mod core_barrier;
pub mod sendrecv;

pub use sendrecv::exchange_of;

use crate::context::{Context, broken};
use crate::rules::Rule;
use trn3_mem::Violation;

const LOGICAL: Rule = Rule {
    id: "cores.logical",
    text: "the instruction needs a logical core of two: a launch with kernel[2]",
    source: "nki/get-started/about/lnc.rst",
    fix: "launch the kernel as kernel[2](...), or leave the instruction out when nl.num_programs() is 1",
};

const GENERATION: Rule = Rule {
    id: "cores.generation",
    text: "two cores act as one from NeuronCore-v3 (trn2) on",
    source: "about-neuron/arch/neuron-features/logical-neuroncore-config.rst",
    fix: "leave the instruction out when nl.num_programs() is 1, or target trn2 or trn3",
};

/// Checks that the chip joins cores, and that the kernel was launched on two of them.
fn check_logical(context: &Context<'_>, name: &'static str) -> Result<(), Violation> {
    if !context.target.chip.logical_core_sizes.contains(&2) {
        return Err(context.lacking(&GENERATION, "", None));
    }
    if context.options.cores == 2 {
        return Ok(());
    }
    let value = format!("is used on {} core", context.options.cores);
    Err(broken(&LOGICAL, name, value, LOGICAL.text))
}
