//! What no entry can say alone: sizes that must fit one another, and values that a capability gives meaning to.

use crate::target::Target;

/// A key, what must hold, and whether it does.
type Check = (&'static str, &'static str, bool);

impl Target {
    /// The first pair of entries that cannot both be true, as key and reason.
    pub(crate) fn contradiction(&self) -> Option<(&'static str, &'static str)> {
        let checks = self.size_checks().into_iter().chain(self.capability_checks());
        let failed = checks.into_iter().find(|(_, _, holds)| !holds);
        failed.map(|(key, message, _)| (key, message))
    }

    fn size_checks(&self) -> Vec<Check> {
        let (core, chip) = (&self.core, &self.chip);
        let (sbuf, psum, tensor, matmul) = (&core.sbuf, &core.psum, &core.tensor, &core.matmul);
        let share = |ratio: f64| ratio > 0.0 && ratio <= 1.0;
        let divides = |whole: u32, part: u32| part > 0 && whole.is_multiple_of(part);
        let tiles = |sizes: &[u32], whole: u32| !sizes.is_empty() && sizes.iter().all(|size| divides(whole, *size));
        vec![
            ("tensor.rows", "must be 1 to 4096", (1..=4096).contains(&tensor.rows)),
            ("tensor.columns", "must be 1 to 4096", (1..=4096).contains(&tensor.columns)),
            ("tensor.passes.fp32", "must be at least 1", tensor.passes.fp32 > 0),
            (
                "tensor.throttle.window_cycles",
                "must be at least 1",
                tensor.throttle.as_ref().is_none_or(|throttle| throttle.window_cycles > 0),
            ),
            (
                "tensor.throttle.limited_ratio",
                "must be above 0 and at most 1",
                tensor.throttle.as_ref().is_none_or(|throttle| share(throttle.limited_ratio)),
            ),
            ("tensor.passes.fp32_halves", "must be at least 1", tensor.passes.fp32_halves > 0),
            (
                "tensor.load_stationary.columns_per_cycle",
                "must be at least 1",
                tensor.load_stationary.columns_per_cycle > 0,
            ),
            ("sbuf.partitions", "must be 1 to 4096", (1..=4096).contains(&sbuf.partitions)),
            ("sbuf.partition_bytes", "must be 1 to 2^40", (1..=1 << 40).contains(&sbuf.partition_bytes)),
            (
                "sbuf.quadrant_partitions",
                "must divide sbuf.partitions",
                divides(sbuf.partitions, sbuf.quadrant_partitions),
            ),
            ("sbuf.reserved_bytes", "must be below sbuf.partition_bytes", sbuf.reserved_bytes < sbuf.partition_bytes),
            ("sbuf.align_min_bytes", "must be at least 1", sbuf.align_min_bytes > 0),
            ("psum.partitions", "must be 1 to 4096", (1..=4096).contains(&psum.partitions)),
            ("psum.banks", "must be 1 to 4096", (1..=4096).contains(&psum.banks)),
            ("psum.bank_bytes", "must be 4 to 2^40", (4..=1 << 40).contains(&psum.bank_bytes)),
            ("psum.align_min_bytes", "must be at least 1", psum.align_min_bytes > 0),
            ("psum.transpose_reserved_banks", "must be below psum.banks", psum.transpose_reserved_banks < psum.banks),
            ("matmul.contraction_max", "must be at most tensor.rows", matmul.contraction_max <= tensor.rows),
            (
                "matmul.stationary_free_max",
                "must be at most tensor.columns",
                matmul.stationary_free_max <= tensor.columns,
            ),
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
            (
                "chip.logical_core_default",
                "must be one of chip.logical_core_sizes",
                chip.logical_core_sizes.contains(&chip.logical_core_default),
            ),
            ("chip.logical_core_sizes", "must divide chip.cores", tiles(&chip.logical_core_sizes, chip.cores)),
            ("hbm.stacks", "must divide chip.cores", divides(chip.cores, chip.hbm.stacks)),
            (
                "hbm.capacity_bytes",
                "must be at least 1 for each stack",
                chip.hbm.capacity_bytes >= u64::from(chip.hbm.stacks),
            ),
            ("hbm.efficiency_ratio", "must be above 0 and at most 1", share(chip.hbm.efficiency_ratio)),
            ("hbm.small_efficiency_ratio", "must be above 0 and at most 1", share(chip.hbm.small_efficiency_ratio)),
            ("hbm.model_efficiency_ratio", "must be above 0 and at most 1", share(chip.hbm.model_efficiency_ratio)),
            ("hbm.grain_bytes", "must be at least 1", chip.hbm.grain_bytes > 0),
            (
                "dma.engines_per_core",
                "must divide sbuf.partitions and be at most 128",
                divides(sbuf.partitions, chip.dma.engines_per_core) && chip.dma.engines_per_core <= 128,
            ),
            ("dma.queues_per_engine", "must be 1 to 64", (1..=64).contains(&chip.dma.queues_per_engine)),
            ("dma.descriptor.bytes_max", "must be at least 1", chip.dma.descriptor.bytes_max > 0),
            ("dma.packet.compute_bytes", "must be at least 1", chip.dma.packet.compute_bytes > 0),
            ("dma.packet.collective_bytes", "must be at least 1", chip.dma.packet.collective_bytes > 0),
            ("dma.transpose.hbm_ratio", "must be above 0 and at most 1", share(chip.dma.transpose.hbm_ratio)),
            ("dma.transpose.sbuf_ratio", "must be above 0 and at most 1", share(chip.dma.transpose.sbuf_ratio)),
            (
                "dma.transpose.misaligned_ratio",
                "must be above 0 and at most 1",
                share(chip.dma.transpose.misaligned_ratio),
            ),
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
    fn capability_checks(&self) -> Vec<Check> {
        let (core, chip, can) = (&self.core, &self.chip, &self.core.capability);
        let (tensor, stream, dma) = (&core.tensor, &core.vector.stream, &chip.dma);
        let gpsimd = &core.gpsimd;
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
                "tensor.passes.fp32_transpose",
                "must be given exactly when capability.transpose_mode is true",
                can.transpose_mode == tensor.passes.fp32_transpose.is_some(),
            ),
            (
                "tensor.throttle.enabled",
                "must be given exactly when capability.throttle is true",
                can.throttle == tensor.throttle.is_some(),
            ),
            (
                "vector.stream.range_select_cycles_per_element",
                "must be given exactly when capability.range_select is true",
                can.range_select == stream.range_select_cycles_per_element.is_some(),
            ),
            (
                "vector.shared_bus_cycles_per_element",
                "must be given exactly when capability.sbuf_parallel is true",
                can.sbuf_parallel == core.vector.shared_bus_cycles_per_element.is_some(),
            ),
            (
                "psum.bank_conflict_ratio",
                "must be given exactly when capability.psum_parallel is true",
                can.psum_parallel == core.psum.bank_conflict_ratio.is_some(),
            ),
            (
                "gpsimd.stream.topk_cycles_per_element",
                "must be given exactly when capability.topk is true",
                can.topk == gpsimd.stream.topk_cycles_per_element.is_some(),
            ),
            (
                "gpsimd.stream.nonzero_cycles_per_element",
                "must be given exactly when capability.nonzero_with_count is true",
                can.nonzero_with_count == gpsimd.stream.nonzero_cycles_per_element.is_some(),
            ),
            (
                "gpsimd.stream.rng_cycles_per_element",
                "must be given exactly when capability.gpsimd_rng is true",
                can.gpsimd_rng == gpsimd.stream.rng_cycles_per_element.is_some(),
            ),
            (
                "gpsimd.dma.bandwidth_bytes_per_s",
                "must be given exactly when capability.gpsimd_dma is true",
                can.gpsimd_dma == gpsimd.dma.is_some(),
            ),
            (
                "semaphore.remote_ns",
                "must be given exactly when chip.logical_core_sizes has more than 1",
                chip.logical_core_sizes.iter().any(|&size| size > 1) == core.semaphore.remote_ps.is_some(),
            ),
            (
                "dma.hwdge.blocks",
                "must be given exactly when capability.hardware_dge is true",
                can.hardware_dge == dma.hwdge.is_some(),
            ),
            (
                "capability.scalar_tensor_scalar",
                "must come with capability.scalar_multiply_add",
                can.scalar_multiply_add || !can.scalar_tensor_scalar,
            ),
            (
                "dma.read_add_write_ratio",
                "must be given exactly when capability.dma_read_add_write is true",
                can.dma_read_add_write == dma.read_add_write_ratio.is_some(),
            ),
        ]
    }
}
