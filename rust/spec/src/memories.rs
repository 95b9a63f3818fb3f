//! SBUF, PSUM and the free-size limits of matmul, semaphores, and the capabilities of a core.

use crate::fields::spec_structs;

spec_structs! {
    /// SBUF of one NeuronCore.
    struct SbufSpec {
        /// Partitions.
        partitions: u32,
        /// Bytes of a partition.
        partition_bytes: u64,
        /// Bytes of a partition that kernels cannot use.
        reserved_bytes: u64,
        /// Partitions of a quadrant.
        quadrant_partitions: u32,
        /// Smallest alignment of an address within a partition.
        align_min_bytes: u64,
        /// Elements a partition that one instruction may access.
        free_max: u32,
        /// Dimensions of an access pattern, without the partitions.
        access_dims_max: u32,
        /// Width of a dimension's size in an access pattern, unsigned.
        access_size_bits: u32,
        /// Width of a stride in an access pattern, signed, in elements.
        access_stride_bits: u32,
    }

    /// PSUM of one NeuronCore.
    struct PsumSpec {
        /// Partitions.
        partitions: u32,
        /// Banks of a partition.
        banks: u32,
        /// Bytes of a bank in one partition.
        bank_bytes: u64,
        /// Bytes that the accumulator treats as one.
        word_bytes: u64,
        /// Smallest alignment of an address within a partition.
        align_min_bytes: u64,
        /// Elements a partition that one instruction of VectorE or ScalarE may access.
        free_max: u32,
        /// Accumulation groups that may be open.
        accumulation_groups: u32,
        /// Banks taken when DMA transposes are done by the tensor engine instead.
        transpose_reserved_banks: u32,
        /// Factor on both streams while two engines use one bank; where they may use PSUM at the same time at all.
        bank_conflict_ratio: Option<f64>,
    }

    /// Sizes that matmul and its neighbours accept.
    struct MatmulLimits {
        /// Contraction (partitions) of one matmul.
        contraction_max: u32,
        /// Free size of the stationary operand.
        stationary_free_max: u32,
        /// Free size of the moving operand with an FP32 result.
        moving_free_max_fp32: u32,
        /// Free size of the moving operand with a 16-bit result.
        moving_free_max_bf16: u32,
        /// The moving tile that `nl.tile_size` reports.
        moving_tile: u32,
        /// Rows a tile of the array may have.
        row_tiles: Vec<u32>,
        /// Columns a tile of the array may have.
        column_tiles: Vec<u32>,
        /// Partitions of a microscaling operand are a multiple of this.
        mx_partition_multiple: Option<u32>,
        /// Partition offsets, inside a quadrant, at which scales may start.
        mx_scale_partitions: Option<Vec<u32>>,
        /// Free size of bn_stats.
        bn_stats_free_max: u32,
        /// Partitions and free size of nc_transpose on VectorE.
        vector_transpose_max: u32,
    }

    /// Semaphores of one NeuronCore and how long they take.
    ///
    /// A span is from the producer's completion to the consumer's issue.
    struct SemaphoreSpec {
        /// Semaphores.
        count: u32,
        /// Width of one.
        counter_bits: u32,
        /// TensorE to VectorE or ScalarE.
        tensor_to_elementwise_ps: u64,
        /// VectorE to ScalarE and back.
        elementwise_to_elementwise_ps: u64,
        /// VectorE or ScalarE to TensorE.
        elementwise_to_tensor_ps: u64,
        /// VectorE to a hardware DGE trigger on ScalarE.
        elementwise_to_trigger_ps: u64,
        /// Any other pair.
        other_ps: u64,
        /// To the same engine.
        self_ps: u64,
        /// To the other NeuronCore of a logical one.
        remote_ps: Option<u64>,
    }

    /// What a NeuronCore can do. A generation differs here, never by its name.
    struct CapabilitySpec {
        /// Microscaling matmul.
        matmul_mx: bool,
        /// FP8 matmul with two rows in each processing element.
        double_row: bool,
        /// Structured sparsity in the array.
        structured_sparsity: bool,
        /// E4M3FN operands of matmul.
        matmul_e4m3fn: bool,
        /// Transpose mode that moves bits.
        transpose_mode: bool,
        /// Transposes in the background of other matmuls.
        background_transpose: bool,
        /// The hint that an FP32 operand holds only 0 and 1.
        onezero: bool,
        /// BF16 results in PSUM.
        psum_bf16: bool,
        /// The throttle that limits the array after idling.
        throttle: bool,
        /// Matmul results over more than one bank.
        psum_bank_spanning: bool,
        /// Accumulating onto PSUM that no matmul wrote.
        psum_accumulate_any: bool,
        /// VectorE and ScalarE at full rate on different banks.
        psum_parallel: bool,
        /// VectorE and GpSimdE on SBUF at once.
        sbuf_parallel: bool,
        /// Indirect operands in SBUF and PSUM.
        tensor_indirection: bool,
        /// activate2.
        activate2: bool,
        /// Constants as the bias of an activation.
        activation_bias_constant: bool,
        /// A bias with the activation function reciprocal.
        activation_bias_reciprocal: bool,
        /// tensor_copy on ScalarE.
        scalar_tensor_copy: bool,
        /// tensor_scalar on ScalarE with (multiply, add), multiply or add.
        scalar_multiply_add: bool,
        /// tensor_scalar on ScalarE in full.
        scalar_tensor_scalar: bool,
        /// quantize_mx.
        quantize_mx: bool,
        /// exponential on VectorE.
        fast_exponential: bool,
        /// rand2, and the state of VectorE's generator.
        vector_xorwow: bool,
        /// abs_max, abs_min, square and relu as operators of VectorE.
        vector_extended_operators: bool,
        /// range_select.
        range_select: bool,
        /// select_reduce.
        select_reduce: bool,
        /// rng on GpSimdE, and the state of its generator.
        gpsimd_rng: bool,
        /// nonzero_with_count.
        nonzero_with_count: bool,
        /// topk.
        topk: bool,
        /// DMA engines inside GpSimdE.
        gpsimd_dma: bool,
        /// Stochastic rounding.
        stochastic_rounding: bool,
        /// Descriptor generation in hardware.
        hardware_dge: bool,
        /// DMA of rows that an index names.
        dma_indirect: bool,
        /// DMA classes with strict priority.
        dma_priority: bool,
        /// DMA that adds to what SBUF holds.
        dma_read_add_write: bool,
    }
}

impl SbufSpec {
    /// Bytes of the whole memory.
    #[must_use]
    pub fn total_bytes(&self) -> u64 {
        u64::from(self.partitions) * self.partition_bytes
    }

    /// Bytes of a partition that kernels may use.
    #[must_use]
    pub fn usable_bytes(&self) -> u64 {
        self.partition_bytes - self.reserved_bytes
    }

    /// Quadrants of the memory.
    #[must_use]
    pub fn quadrants(&self) -> u32 {
        self.partitions / self.quadrant_partitions
    }
}

impl PsumSpec {
    /// Bytes of a partition.
    #[must_use]
    pub fn partition_bytes(&self) -> u64 {
        u64::from(self.banks) * self.bank_bytes
    }

    /// Bytes of the whole memory.
    #[must_use]
    pub fn total_bytes(&self) -> u64 {
        u64::from(self.partitions) * self.partition_bytes()
    }

    /// FP32 elements of a bank in one partition.
    #[must_use]
    pub fn bank_fp32(&self) -> u64 {
        self.bank_bytes / 4
    }
}
