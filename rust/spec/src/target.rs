//! The typed view of a table, built once, and what is derived from its parts.

use crate::chip::{ChipSpec, PublishedSpec};
use crate::engines::{
    GpsimdSpec, KernelSpec, ScalarSpec, SequencerSpec, SyncSpec, TensorSpec, VectorSpec,
};
use crate::error::SpecError;
use crate::fields::{Field, Reader, spec_structs};
use crate::memories::{CapabilitySpec, MatmulLimits, PsumSpec, SbufSpec, SemaphoreSpec};
use crate::table::Table;
use crate::time::edge_ps;

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

    /// Length of a throttle window.
    #[must_use]
    pub fn throttle_window_ps(&self) -> u64 {
        edge_ps(self.chip.base_clock_hz, self.core.tensor.throttle.window_cycles)
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

    /// The first pair of entries that cannot both be true, as key and reason.
    fn contradiction(&self) -> Option<(&'static str, &'static str)> {
        let checks = self.size_checks().into_iter().chain(self.capability_checks());
        let failed = checks.into_iter().find(|(_, _, holds)| !holds);
        failed.map(|(key, message, _)| (key, message))
    }

    fn size_checks(&self) -> Vec<(&'static str, &'static str, bool)> {
        let (core, chip) = (&self.core, &self.chip);
        let (sbuf, psum, tensor, matmul) = (&core.sbuf, &core.psum, &core.tensor, &core.matmul);
        let share = |ratio: f64| ratio > 0.0 && ratio <= 1.0;
        let divides = |whole: u32, part: u32| part > 0 && whole % part == 0;
        let tiles = |sizes: &[u32], whole: u32| !sizes.is_empty() && sizes.iter().all(|size| divides(whole, *size));
        vec![
            ("tensor.rows", "must be 1 to 4096", (1..=4096).contains(&tensor.rows)),
            ("tensor.columns", "must be 1 to 4096", (1..=4096).contains(&tensor.columns)),
            ("tensor.passes.fp32", "must be at least 1", tensor.passes.fp32 > 0),
            ("tensor.throttle.window_cycles", "must be at least 1", tensor.throttle.window_cycles > 0),
            ("tensor.throttle.limited_ratio", "must be above 0 and at most 1", share(tensor.throttle.limited_ratio)),
            ("sbuf.partitions", "must be 1 to 4096", (1..=4096).contains(&sbuf.partitions)),
            ("sbuf.partition_bytes", "must be 1 to 2^40", (1..=1 << 40).contains(&sbuf.partition_bytes)),
            ("sbuf.quadrant_partitions", "must divide sbuf.partitions", divides(sbuf.partitions, sbuf.quadrant_partitions)),
            ("sbuf.reserved_bytes", "must be below sbuf.partition_bytes", sbuf.reserved_bytes < sbuf.partition_bytes),
            ("sbuf.align_min_bytes", "must be at least 1", sbuf.align_min_bytes > 0),
            ("psum.partitions", "must be 1 to 4096", (1..=4096).contains(&psum.partitions)),
            ("psum.banks", "must be 1 to 4096", (1..=4096).contains(&psum.banks)),
            ("psum.bank_bytes", "must be 4 to 2^40", (4..=1 << 40).contains(&psum.bank_bytes)),
            ("psum.align_min_bytes", "must be at least 1", psum.align_min_bytes > 0),
            ("psum.transpose_reserved_banks", "must be below psum.banks", psum.transpose_reserved_banks < psum.banks),
            ("matmul.contraction_max", "must be at most tensor.rows", matmul.contraction_max <= tensor.rows),
            ("matmul.stationary_free_max", "must be at most tensor.columns", matmul.stationary_free_max <= tensor.columns),
            ("matmul.row_tiles", "must divide tensor.rows", tiles(&matmul.row_tiles, tensor.rows)),
            ("matmul.column_tiles", "must divide tensor.columns", tiles(&matmul.column_tiles, tensor.columns)),
            (
                "matmul.moving_free_max_fp32",
                "must fit psum.bank_bytes, or with capability.psum_bank_spanning all banks",
                self.moving_fits(matmul.moving_free_max_fp32, 4),
            ),
            (
                "matmul.moving_free_max_bf16",
                "must fit psum.bank_bytes, or with capability.psum_bank_spanning all banks",
                self.moving_fits(matmul.moving_free_max_bf16, 2),
            ),
            ("semaphore.count", "must be at least 1", core.semaphore.count > 0),
            ("sequencer.fetch.instruction_bytes", "must be at least 1", core.sequencer.fetch.instruction_bytes > 0),
            ("gpsimd.gather_group", "must be at least 1", core.gpsimd.gather_group > 0),
            ("chip.cores", "must be 1 to 4096", (1..=4096).contains(&chip.cores)),
            ("chip.logical_core_default", "must be one of chip.logical_core_sizes", chip.logical_core_sizes.contains(&chip.logical_core_default)),
            ("chip.logical_core_sizes", "must divide chip.cores", tiles(&chip.logical_core_sizes, chip.cores)),
            ("hbm.stacks", "must divide chip.cores", divides(chip.cores, chip.hbm.stacks)),
            ("hbm.capacity_bytes", "must be at least 1 for each stack", chip.hbm.capacity_bytes >= u64::from(chip.hbm.stacks)),
            ("hbm.efficiency_ratio", "must be above 0 and at most 1", share(chip.hbm.efficiency_ratio)),
            ("hbm.small_efficiency_ratio", "must be above 0 and at most 1", share(chip.hbm.small_efficiency_ratio)),
            ("hbm.model_efficiency_ratio", "must be above 0 and at most 1", share(chip.hbm.model_efficiency_ratio)),
            ("hbm.grain_bytes", "must be at least 1", chip.hbm.grain_bytes > 0),
            ("dma.engines_per_core", "must divide sbuf.partitions", divides(sbuf.partitions, chip.dma.engines_per_core)),
            ("dma.queues_per_engine", "must be at least 1", chip.dma.queues_per_engine > 0),
            ("dma.descriptor.bytes_max", "must be at least 1", chip.dma.descriptor.bytes_max > 0),
            ("dma.packet.compute_bytes", "must be at least 1", chip.dma.packet.compute_bytes > 0),
            ("dma.packet.collective_bytes", "must be at least 1", chip.dma.packet.collective_bytes > 0),
            ("dma.transpose.hbm_ratio", "must be above 0 and at most 1", share(chip.dma.transpose.hbm_ratio)),
            ("dma.transpose.sbuf_ratio", "must be above 0 and at most 1", share(chip.dma.transpose.sbuf_ratio)),
            ("dma.transpose.misaligned_ratio", "must be above 0 and at most 1", share(chip.dma.transpose.misaligned_ratio)),
            ("dma.compute_ratio", "must be above 0 and at most 1", share(chip.dma.compute_ratio)),
        ]
    }

    fn moving_fits(&self, free_max: u32, element_bytes: u64) -> bool {
        let psum = &self.core.psum;
        let room = if self.core.capability.psum_bank_spanning {
            u128::from(psum.banks) * u128::from(psum.bank_bytes)
        } else {
            u128::from(psum.bank_bytes)
        };
        free_max > 0 && u128::from(free_max) * u128::from(element_bytes) <= room
    }

    /// A value that only a capability gives meaning to is there exactly when the capability is.
    fn capability_checks(&self) -> Vec<(&'static str, &'static str, bool)> {
        let (core, chip, can) = (&self.core, &self.chip, &self.core.capability);
        let (tensor, stream, dma) = (&core.tensor, &core.vector.stream, &chip.dma);
        const MX: &str = "must be given exactly when capability.matmul_mx is true";
        const ROW: &str = "must be given exactly when capability.double_row is true";
        const EXP: &str = "must be given exactly when capability.fast_exponential is true";
        const CLASS: &str = "must be given exactly when capability.dma_priority is true";
        vec![
            ("tensor.mx_macs_per_cycle", MX, can.matmul_mx == tensor.mx_macs_per_cycle.is_some()),
            ("tensor.passes.mx", MX, can.matmul_mx == tensor.passes.mx.is_some()),
            ("matmul.mx_partition_multiple", MX, can.matmul_mx == core.matmul.mx_partition_multiple.is_some()),
            ("matmul.mx_scale_partitions", MX, can.matmul_mx == core.matmul.mx_scale_partitions.is_some()),
            ("published.weight.mx_ratio", MX, can.matmul_mx == self.published.weight.mx_ratio.is_some()),
            ("tensor.double_row_macs_per_cycle", ROW, can.double_row == tensor.double_row_macs_per_cycle.is_some()),
            ("tensor.passes.double_row", ROW, can.double_row == tensor.passes.double_row.is_some()),
            (
                "tensor.sparse_macs_per_cycle",
                "must be given exactly when capability.structured_sparsity is true",
                can.structured_sparsity == tensor.sparse_macs_per_cycle.is_some(),
            ),
            (
                "tensor.background_transpose_chain_ratio",
                "must be given exactly when capability.background_transpose is true",
                can.background_transpose == tensor.background_transpose_chain_ratio.is_some(),
            ),
            (
                "vector.stream.quantize_mx_cycles_per_element",
                "must be given exactly when capability.quantize_mx is true",
                can.quantize_mx == stream.quantize_mx_cycles_per_element.is_some(),
            ),
            (
                "vector.stream.exponential_cycles_per_element",
                EXP,
                can.fast_exponential == stream.exponential_cycles_per_element.is_some(),
            ),
            (
                "vector.stream.exponential_bits32_cycles_per_element",
                EXP,
                can.fast_exponential == stream.exponential_bits32_cycles_per_element.is_some(),
            ),
            (
                "vector.stream.rand2_cycles_per_element",
                "must be given exactly when capability.vector_xorwow is true",
                can.vector_xorwow == stream.rand2_cycles_per_element.is_some(),
            ),
            (
                "vector.indirect_cycles",
                "must be given exactly when capability.tensor_indirection is true",
                can.tensor_indirection == core.vector.indirect_cycles.is_some(),
            ),
            ("dma.priority_classes", CLASS, can.dma_priority == dma.priority_classes.is_some()),
            ("dma.priority_default", CLASS, can.dma_priority == dma.priority_default.is_some()),
            ("dma.priority_fetch", CLASS, can.dma_priority == dma.priority_fetch.is_some()),
            (
                "dma.read_add_write_ratio",
                "must be given exactly when capability.dma_read_add_write is true",
                can.dma_read_add_write == dma.read_add_write_ratio.is_some(),
            ),
        ]
    }
}
