//! The chip: cores, HBM, DMA engines, and the figures its maker publishes.

use crate::fields::spec_structs;

spec_structs! {
    /// One chip.
    struct ChipSpec {
        /// NeuronCores.
        cores: u32,
        /// Clock of the profiler's ticks.
        base_clock_hz: u64,
        /// Cores that drive collectives.
        cc_cores: u32,
        /// Those that belong to one NeuronCore.
        cc_cores_per_core: u32,
        /// NeuronCores that may act as one.
        logical_core_sizes: Vec<u32>,
        /// How many do unless asked otherwise.
        logical_core_default: u32,
        /// Bandwidth to the host for each NeuronCore.
        host_bandwidth_bytes_per_s: u64,
        /// Device memory.
        hbm: HbmSpec = "hbm",
        /// DMA engines.
        dma: DmaSpec = "dma",
    }

    /// HBM of one chip.
    struct HbmSpec {
        /// Stacks.
        stacks: u32,
        /// Bytes of all stacks.
        capacity_bytes: u64,
        /// Bytes that micro-code takes for each NeuronCore.
        microcode_bytes: u64,
        /// Published bandwidth of all stacks.
        bandwidth_peak_bytes_per_s: u64,
        /// Peak bandwidth of one stack, as the timing model uses it.
        stack_bandwidth_peak_bytes_per_s: u64,
        /// Share of the peak that streaming reaches.
        efficiency_ratio: f64,
        /// Share of the peak that small pieces reach.
        small_efficiency_ratio: f64,
        /// Pieces below this are small.
        small_bytes: u64,
        /// Share of the peak that estimates of whole models use.
        model_efficiency_ratio: f64,
        /// Bytes of one access; smaller writes also read.
        grain_bytes: u64,
        /// Latency of a loaded read; inside the DMA's start, not added to it.
        latency_ps: u64,
        /// The optional detailed model.
        detail: HbmDetailSpec,
    }

    /// Channels and banks, for the optional detailed model.
    struct HbmDetailSpec {
        /// Channels of a stack.
        channels: u32,
        /// Banks of a channel.
        banks: u32,
        /// Bytes that stay on one channel.
        interleave_bytes: u64,
        /// What a row miss adds.
        row_miss_ps: u64,
        /// Requests a channel may reorder.
        reorder_window: u32,
    }

    /// DMA engines and descriptor generation.
    struct DmaSpec {
        /// Engines of one NeuronCore.
        engines_per_core: u32,
        /// Queues of an engine.
        queues_per_engine: u32,
        /// Bytes that a transfer should have on the average.
        transfer_advised_bytes: u32,
        /// Classes of strict priority, where there are any.
        priority_classes: Option<u32>,
        /// Class of a transfer that asks for none.
        priority_default: Option<u32>,
        /// Class of instruction fetch.
        priority_fetch: Option<u32>,
        /// One engine.
        engine: DmaEngineSpec,
        /// Descriptors.
        descriptor: DescriptorSpec,
        /// What a store of small pieces to HBM adds for each piece.
        small_store_ps: u64,
        /// Pieces up to this are small.
        small_store_bytes_max: u64,
        /// An engine's final write to the semaphore.
        semaphore_write_ps: u64,
        /// Bytes of that write.
        semaphore_write_bytes: u64,
        /// From the last semaphore write to the consumer's issue.
        done_ps: u64,
        /// Between two transfers on one engine.
        gap_ps: u64,
        /// Delay of each engine after the one before, with descriptors made by hardware.
        engine_skew_ps: u64,
        /// From generated descriptors to the first packet.
        to_first_ps: u64,
        /// From trigger to the first packet with descriptors made by the host.
        static_to_first_ps: u64,
        /// Hardware descriptor generation.
        hwdge: Option<HwdgeSpec>,
        /// Descriptor generation by GpSimdE.
        swdge: SwdgeSpec,
        /// Bytes after which another queue may take over.
        packet: PacketSpec,
        /// Transposes.
        transpose: TransposeSpec,
        /// Share of copy rate of transfers that compute.
        compute_ratio: f64,
        /// Sources of one such transfer.
        compute_sources_max: u32,
        /// Share of copy rate of adding into SBUF.
        read_add_write_ratio: Option<f64>,
    }

    /// One DMA engine.
    struct DmaEngineSpec {
        /// Bandwidth of the data path.
        bandwidth_peak_bytes_per_s: u64,
        /// Bandwidth inside a descriptor under load; its overhead comes on top.
        bandwidth_loaded_bytes_per_s: u64,
        /// Bandwidth with overheads at full descriptors, as published.
        bandwidth_sustained_bytes_per_s: u64,
        /// Bandwidth of sequential transfers on an idle engine.
        bandwidth_sequential_bytes_per_s: u64,
    }

    /// DMA descriptors.
    struct DescriptorSpec {
        /// Longest piece.
        bytes_max: u64,
        /// Time each adds to its bytes.
        overhead_ps: u64,
        /// Shortest time of one.
        duration_min_ps: u64,
        /// Bytes one occupies in its ring.
        record_bytes: u64,
        /// Dimensions of its access patterns.
        dims_max: u32,
    }

    /// Hardware descriptor generation.
    struct HwdgeSpec {
        /// Generators of one NeuronCore.
        blocks: u32,
        /// Time of an instruction without its partitions.
        base_ps: u64,
        /// Time each partition adds.
        partition_ps: u64,
        /// Largest last dimension of a transpose.
        transpose_free_max: u32,
        /// First dimensions of a transpose of three or four dimensions.
        transpose_sizes: Vec<u32>,
    }

    /// Descriptor generation by GpSimdE.
    struct SwdgeSpec {
        /// Time of an instruction without its partitions.
        base_ps: u64,
        /// Time each partition adds.
        partition_ps: u64,
        /// From the producer to the trigger, generation included.
        wake_ps: u64,
        /// Delay of each engine after the one before.
        engine_skew_ps: u64,
    }

    /// Packets, between which queues are switched.
    struct PacketSpec {
        /// Of transfers that kernels ask for.
        compute_bytes: u64,
        /// Of collectives.
        collective_bytes: u64,
        /// Of instruction fetch.
        fetch_bytes: u64,
    }

    /// DMA transposes, as shares of copy rate.
    struct TransposeSpec {
        /// From HBM to SBUF.
        hbm_ratio: f64,
        /// From SBUF to SBUF.
        sbuf_ratio: f64,
        /// Factor when the shape does not suit all engines.
        misaligned_ratio: f64,
        /// Destination partitions that suit, as a multiple.
        partition_multiple: u32,
        /// Contiguous elements that suit, as a multiple.
        element_multiple: u32,
    }

    /// What the maker publishes for a whole core or chip. Reports print these as labels; no cost is made of them.
    struct PublishedSpec {
        /// One NeuronCore.
        core: PublishedCore,
        /// One chip.
        chip: PublishedChip,
        /// How the profiler weighs operations against BF16.
        weight: FlopWeights,
    }

    /// Published figures of one NeuronCore.
    struct PublishedCore {
        /// BF16, FP16 and TF32 matmul.
        bf16_flops_per_s: u64,
        /// FP32 matmul.
        fp32_flops_per_s: u64,
        /// FP8 matmul, with two rows where the core has that mode.
        fp8_flops_per_s: Option<u64>,
        /// Microscaling matmul.
        mx_flops_per_s: Option<u64>,
        /// Sparse 16-bit matmul.
        sparse_flops_per_s: Option<u64>,
        /// VectorE, FP32.
        vector_flops_per_s: u64,
        /// ScalarE, FP32.
        scalar_flops_per_s: u64,
    }

    /// Published figures of one chip.
    struct PublishedChip {
        /// BF16, FP16 and TF32.
        bf16_flops_per_s: u64,
        /// FP32.
        fp32_flops_per_s: u64,
        /// FP8, microscaling where the chip has it.
        fp8_flops_per_s: u64,
        /// Microscaling FP4.
        fp4_flops_per_s: Option<u64>,
        /// Sparse 16-bit.
        sparse_flops_per_s: Option<u64>,
        /// INT8, operations of any kind.
        int8_ops_per_s: Option<u64>,
        /// SBUF of all cores.
        sbuf_bytes: u64,
        /// All DMA engines.
        dma_bandwidth_bytes_per_s: u64,
        /// NeuronLink.
        neuronlink_bandwidth_bytes_per_s: u64,
    }

    /// What one operation of a type counts for in BF16 operations.
    struct FlopWeights {
        /// BF16, FP16, TF32.
        bf16_ratio: f64,
        /// FP32.
        fp32_ratio: f64,
        /// FP8.
        fp8_ratio: f64,
        /// Microscaling.
        mx_ratio: Option<f64>,
    }
}

impl DmaSpec {
    /// Partitions of SBUF that one engine serves.
    #[must_use]
    pub fn engine_partitions(&self, sbuf_partitions: u32) -> u32 {
        sbuf_partitions / self.engines_per_core
    }
}

impl HwdgeSpec {
    /// Time that one DMA instruction over `partitions` occupies its generator.
    #[must_use]
    pub fn duration_ps(&self, partitions: u32) -> u64 {
        self.base_ps + self.partition_ps * u64::from(partitions)
    }
}

impl SwdgeSpec {
    /// Time between two triggers over `partitions`.
    #[must_use]
    pub fn duration_ps(&self, partitions: u32) -> u64 {
        self.base_ps + self.partition_ps * u64::from(partitions)
    }
}

impl HbmSpec {
    /// Bytes of one stack.
    #[must_use]
    pub fn stack_bytes(&self) -> u64 {
        self.capacity_bytes / u64::from(self.stacks)
    }
}
