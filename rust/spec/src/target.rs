//! The typed view of a table, built once, and what is derived from its parts.

use crate::chip::{ChipSpec, PublishedSpec};
use crate::engines::{GpsimdSpec, KernelSpec, ScalarSpec, SequencerSpec, SyncSpec, TensorSpec, VectorSpec};
use crate::error::SpecError;
use crate::fields::{Field, Reader, spec_structs};
use crate::memories::{CapabilitySpec, MatmulLimits, PsumSpec, SbufSpec, SemaphoreSpec};
use crate::table::Table;
use crate::time::edge_ps;
use crate::value::Value;

spec_structs! {
    /// One NeuronCore.
    struct CoreSpec {
        /// Name of the core's generation, a label only.
        generation: String = "core.generation",
        /// What the core can do.
        capability: CapabilitySpec,
        /// TensorE.
        tensor: TensorSpec,
        /// VectorE.
        vector: VectorSpec,
        /// ScalarE.
        scalar: ScalarSpec,
        /// GpSimdE.
        gpsimd: GpsimdSpec,
        /// SyncE.
        sync: SyncSpec,
        /// The sequencers of all five engines.
        sequencer: SequencerSpec,
        /// SBUF.
        sbuf: SbufSpec,
        /// PSUM.
        psum: PsumSpec,
        /// Sizes that matmul accepts.
        matmul: MatmulLimits,
        /// Semaphores.
        semaphore: SemaphoreSpec,
        /// Fixed device time of a kernel.
        kernel: KernelSpec,
    }
}

/// One hardware generation as typed fields. Plain data: clone it, compare it.
#[derive(Debug, Clone, PartialEq)]
pub struct Target {
    /// The table's name.
    pub name: String,
    /// One NeuronCore.
    pub core: CoreSpec,
    /// One chip.
    pub chip: ChipSpec,
    /// Published figures, for reports only.
    pub published: PublishedSpec,
    /// Values that the user set in place of the table's, by key, in the table's order.
    pub overrides: Vec<(String, Value)>,
}

/// The constants that `nki.language.tile_size` names.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct TileSizes {
    /// Partitions.
    pub pmax: u32,
    /// FP32 elements of a PSUM bank.
    pub psum_fmax: u64,
    /// The same, under its newer name.
    pub psum_bank_fmax: u64,
    /// Bytes of a PSUM bank in one partition.
    pub psum_bank_fmax_bytes: u64,
    /// PSUM banks.
    pub psum_num_banks: u32,
    /// PSUM banks while DMA transposes are done by the tensor engine.
    pub psum_num_banks_transpose: u32,
    /// Alignment of PSUM addresses.
    pub psum_min_align: u64,
    /// Free size of the stationary operand.
    pub gemm_stationary_fmax: u32,
    /// Free size of the moving operand's tile.
    pub gemm_moving_fmax: u32,
    /// Free size of bn_stats.
    pub bn_stats_fmax: u32,
    /// Bytes of SBUF.
    pub sbuf_size_bytes: u64,
    /// Bytes of a partition that kernels may use.
    pub sbuf_fmax_bytes: u64,
    /// The same in FP32 elements.
    pub sbuf_fmax: u64,
    /// The bytes again, under their older name.
    pub total_available_sbuf_size: u64,
    /// Alignment of SBUF addresses.
    pub sbuf_min_align: u64,
}

/// Peak rates of the array of one NeuronCore, from its size and clock.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Peaks {
    /// BF16, FP16 and TF32, FLOP/s.
    pub bf16_flops_per_s: f64,
    /// FP32, FLOP/s.
    pub fp32_flops_per_s: f64,
    /// FP8 with two rows, FLOP/s.
    pub fp8_flops_per_s: Option<f64>,
    /// Microscaling, FLOP/s.
    pub mx_flops_per_s: Option<f64>,
    /// Sparse, FLOP/s, counting the zeros that are skipped.
    pub sparse_flops_per_s: Option<f64>,
}

impl Target {
    /// The target of that name, or the one in the file of that path.
    ///
    /// # Errors
    ///
    /// If there is none, or the file is not a complete and consistent table.
    pub fn load(name_or_path: &str) -> Result<Target, SpecError> {
        Table::load(name_or_path)?.target()
    }

    /// The typed view of a table.
    ///
    /// # Panics
    ///
    /// Never for a table that was made by this crate: making one checks it.
    #[must_use]
    pub fn from_table(table: &Table) -> Target {
        table.target().expect("a table was checked when it was made")
    }

    pub(crate) fn read(reader: &mut Reader<'_>, table: &Table) -> Result<Target, SpecError> {
        let target = Target {
            name: table.name().to_owned(),
            core: CoreSpec::read(reader, "")?,
            chip: ChipSpec::read(reader, "chip")?,
            published: PublishedSpec::read(reader, "published")?,
            overrides: table.overrides().map(|(key, value)| (key.to_owned(), value.clone())).collect(),
        };
        match target.contradiction() {
            None => Ok(target),
            Some((key, rule)) => Err(SpecError::Inconsistent {
                file: table.file().to_owned(),
                key: key.to_owned(),
                message: match reader.value(key) {
                    Some(value) => format!("value is {value}, {rule}"),
                    None => format!("is absent, {rule}"),
                },
            }),
        }
    }

    /// Peak rates of one NeuronCore's array: rows x columns x 2 x products x clock.
    #[must_use]
    pub fn peaks(&self) -> Peaks {
        let tensor = &self.core.tensor;
        let peak = |macs: u32| {
            let elements = f64::from(tensor.rows) * f64::from(tensor.columns);
            // Exact for any clock below 2^53 / (2 x elements x macs).
            elements * 2.0 * f64::from(macs) * tensor.clock_hz as f64
        };
        let bf16 = peak(tensor.dense_macs_per_cycle);
        Peaks {
            bf16_flops_per_s: bf16,
            fp32_flops_per_s: bf16 / f64::from(tensor.passes.fp32),
            fp8_flops_per_s: tensor.double_row_macs_per_cycle.map(peak),
            mx_flops_per_s: tensor.mx_macs_per_cycle.map(peak),
            sparse_flops_per_s: tensor.sparse_macs_per_cycle.map(peak),
        }
    }

    /// The constants that the kernel language names.
    #[must_use]
    pub fn tile_sizes(&self) -> TileSizes {
        let (sbuf, psum, matmul) = (&self.core.sbuf, &self.core.psum, &self.core.matmul);
        TileSizes {
            pmax: sbuf.partitions,
            psum_fmax: psum.bank_fp32(),
            psum_bank_fmax: psum.bank_fp32(),
            psum_bank_fmax_bytes: psum.bank_bytes,
            psum_num_banks: psum.banks,
            psum_num_banks_transpose: psum.banks - psum.transpose_reserved_banks,
            psum_min_align: psum.align_min_bytes,
            gemm_stationary_fmax: matmul.stationary_free_max,
            gemm_moving_fmax: matmul.moving_tile,
            bn_stats_fmax: matmul.bn_stats_free_max,
            sbuf_size_bytes: sbuf.total_bytes(),
            sbuf_fmax_bytes: sbuf.usable_bytes(),
            sbuf_fmax: sbuf.usable_bytes() / 4,
            total_available_sbuf_size: sbuf.usable_bytes(),
            sbuf_min_align: sbuf.align_min_bytes,
        }
    }

    /// Length of a throttle window, where there is a throttle.
    #[must_use]
    pub fn throttle_window_ps(&self) -> Option<u64> {
        let throttle = self.core.tensor.throttle.as_ref()?;
        Some(edge_ps(self.chip.base_clock_hz, throttle.window_cycles))
    }

    /// NeuronCores that share one HBM stack.
    #[must_use]
    pub fn cores_per_stack(&self) -> u32 {
        self.chip.cores / self.chip.hbm.stacks
    }

    /// DMA engines of the chip.
    #[must_use]
    pub fn dma_engines(&self) -> u32 {
        self.chip.cores * self.chip.dma.engines_per_core
    }

    /// Peak bandwidth of all DMA engines of the chip.
    #[must_use]
    pub fn dma_bandwidth_peak_bytes_per_s(&self) -> u64 {
        u64::from(self.dma_engines()) * self.chip.dma.engine.bandwidth_peak_bytes_per_s
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn nanoseconds_become_picoseconds() {
        let trn3 = Target::load("trn3").expect("comes with the crate");
        let hwdge = trn3.chip.dma.hwdge.as_ref().expect("Trainium3 has it");
        assert_eq!(hwdge.partition_ps, 3_360);
        // 170 + 3.36 x 128 ns: the documented 600 ns of one hardware DGE instruction.
        assert_eq!(hwdge.duration_ps(128), 600_080);
        assert_eq!(trn3.chip.dma.swdge.duration_ps(1), 480_800);
        assert_eq!(trn3.core.semaphore.self_ps, 35_000);
        // 4096 ticks of 1.2 GHz, 3413 ns in the profiles.
        assert_eq!(trn3.throttle_window_ps(), Some(3_413_333));
    }

    #[test]
    fn parts_add_up() {
        // Stacks of trn2 are measured, and 32 x 27.2 GB/s are printed as 1 TB/s; the tables say so.
        for (name, stack_gap, engine_gap, engines, sharing) in [
            ("trn1", 1e-9, 0.13, 32, 1),
            ("inf2", 1e-9, 0.13, 32, 1),
            ("trn2", 0.0125, 0.01, 128, 2),
            ("trn3", 1e-9, 0.01, 128, 2),
        ] {
            let target = Target::load(name).expect("comes with the crate");
            let (core, chip) = (&target.core, &target.chip);
            assert_eq!(core.psum.total_bytes(), 2 << 20, "2 MiB of PSUM");
            assert_eq!(core.psum.bank_fp32(), 512);
            assert_eq!(core.sbuf.quadrants(), 4);
            assert_eq!(chip.dma.engine_partitions(core.sbuf.partitions), 8);
            assert_eq!(target.dma_engines(), engines);
            assert_eq!(target.cores_per_stack(), sharing);
            assert_eq!(chip.cc_cores, chip.cores * chip.cc_cores_per_core);
            assert_eq!(target.published.chip.sbuf_bytes, core.sbuf.total_bytes() * u64::from(chip.cores));
            // Stacks against the chip's rounded figure; the gap of trn2 is explained at the stack's entry.
            let stacks = chip.hbm.stack_bandwidth_peak_bytes_per_s as f64 * f64::from(chip.hbm.stacks);
            let whole = chip.hbm.bandwidth_peak_bytes_per_s as f64;
            assert!((stacks / whole - 1.0).abs() <= stack_gap, "{name}: {stacks} against {whole}");
            // DMA engines against the chip's figure, printed to two digits.
            let engines = target.dma_bandwidth_peak_bytes_per_s() as f64;
            let printed = target.published.chip.dma_bandwidth_bytes_per_s as f64;
            assert!((engines / printed - 1.0).abs() < engine_gap, "{name}: {engines} against {printed}");
            let fill = &core.tensor.fill;
            let stages =
                fill.sbuf_read_cycles + fill.row_skew_cycles + fill.column_skew_cycles + fill.psum_write_cycles;
            assert!(stages.abs_diff(core.tensor.latency_cycles) <= 1);
        }
    }

    #[test]
    fn loaded_bandwidth_gives_the_published_sustained_one() {
        for name in Table::builtin_names() {
            let dma = Target::load(name).expect("comes with the crate").chip.dma;
            let bytes = dma.descriptor.bytes_max as f64;
            let seconds =
                bytes / dma.engine.bandwidth_loaded_bytes_per_s as f64 + dma.descriptor.overhead_ps as f64 * 1e-12;
            let sustained = dma.engine.bandwidth_sustained_bytes_per_s as f64;
            assert!((bytes / seconds / sustained - 1.0).abs() < 0.003, "{name}");
        }
    }
}
