//! Where a run stands under the roofline: arithmetic intensity against attained rate.
//!
//! The roof is the array's own peak for the mix of formats that the run used (published chip peaks are labels, not what
//! cycles follow) and the peak bandwidth of the stack of HBM that the core shares with its neighbour.

use crate::timeline::Timeline;
use std::collections::BTreeMap;
use trn3_isa::Weight;
use trn3_mem::Space;
use trn3_num::Dtype;
use trn3_program::Program;
use trn3_spec::Target;

/// Work of the array in one format.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct FormatWork {
    /// Element type of the operands; of a mixed product, of the first of them.
    pub dtype: Dtype,
    /// Floating-point operations, two a product.
    pub flops: u64,
    /// What the array does of them in a second at its peak.
    pub peak_flops_per_s: f64,
}

/// A point under the roofline.
#[derive(Debug, Clone, PartialEq)]
pub struct Roofline {
    /// Operations a byte of HBM traffic; none if no byte moved.
    pub flops_per_byte: Option<f64>,
    /// Operations a second over the whole run.
    pub attained_flops_per_s: f64,
    /// The array's peak for this mix of formats; in BF16 if it did nothing.
    pub peak_flops_per_s: f64,
    /// The slope of the roof: the peak bandwidth of the core's stack of HBM.
    pub hbm_bytes_per_s: f64,
    /// Work by format, the most first.
    pub formats: Vec<FormatWork>,
}

impl Roofline {
    /// The intensity at which the two parts of the roof meet, in operations a byte.
    pub fn ridge_flops_per_byte(&self) -> f64 {
        self.peak_flops_per_s / self.hbm_bytes_per_s
    }

    /// What the roof allows at this intensity.
    pub fn roof_flops_per_s(&self) -> f64 {
        let slope = self.flops_per_byte.map_or(f64::INFINITY, |intensity| intensity * self.hbm_bytes_per_s);
        slope.min(self.peak_flops_per_s)
    }

    /// Which part of the roof lies above the point: `memory` or `compute`; `none` if nothing moved and nothing was
    /// multiplied.
    pub fn bound(&self) -> &'static str {
        match self.flops_per_byte {
            None if self.attained_flops_per_s == 0.0 => "none",
            Some(intensity) if intensity < self.ridge_flops_per_byte() => "memory",
            _ => "compute",
        }
    }
}

impl Timeline {
    /// The run's point under the roofline.
    pub fn roofline(&self, program: &Program, target: &Target) -> Roofline {
        let tables = program.tables();
        // Operations and BF16 equivalents by format.
        let mut sums: BTreeMap<(&'static str, Weight), (Dtype, u64, f64)> = BTreeMap::new();
        for at in 0..self.schedule.instances.len() {
            let instruction = &program.instructions[self.schedule.instances.instruction(at)];
            let work = (instruction.opcode.definition().work)(instruction, &tables);
            let mut operands = instruction.read_operands();
            let operand = operands.find(|operand| tables.tensor(operand).space == Space::Sbuf);
            let Some(operand) = operand.filter(|_| work.flops > 0) else { continue };
            let dtype = tables.pattern(operand).dtype;
            let sum = sums.entry((dtype.name(), work.weight)).or_insert((dtype, 0, 0.0));
            sum.1 += work.flops;
            sum.2 += work.flops_bf16(&target.published.weight);
        }
        let peak = |flops: u64, flops_bf16: f64| self.array_flops_per_s * flops as f64 / flops_bf16;
        let mut formats: Vec<FormatWork> = sums
            .into_values()
            .map(|(dtype, flops, flops_bf16)| FormatWork { dtype, flops, peak_flops_per_s: peak(flops, flops_bf16) })
            .collect();
        formats.sort_by_key(|format| std::cmp::Reverse(format.flops));
        let bytes = self.hbm_bytes();
        let seconds = self.total.as_s_f64();
        Roofline {
            flops_per_byte: (bytes > 0).then(|| self.flops as f64 / bytes as f64),
            attained_flops_per_s: if seconds > 0.0 { self.flops as f64 / seconds } else { 0.0 },
            peak_flops_per_s: if self.flops == 0 { self.array_flops_per_s } else { peak(self.flops, self.flops_bf16) },
            hbm_bytes_per_s: self.hbm_bytes_per_s,
            formats,
        }
    }
}
