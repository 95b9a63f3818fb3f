//! The five engines of a NeuronCore: clocks, latencies, intervals and stream rates.
//!
//! Latency is from issue to completion apart from streaming; overhead is what an instruction adds to its stream before
//! the next independent one may issue. Both in cycles of the engine's own clock.

use crate::fields::spec_structs;
use crate::value::Ratio;

spec_structs! {
    /// Latency and issue overhead of one class of instructions.
    struct ClassTiming {
        /// Cycles from issue to completion, beside the stream.
        latency_cycles: u32,
        /// Cycles added to the stream before the next independent instruction may issue.
        overhead_cycles: u32,
    }

    /// TensorE, the systolic array.
    struct TensorSpec {
        /// Clock of the array.
        clock_hz: u64,
        /// Rows of processing elements: the contraction dimension.
        rows: u32,
        /// Columns of processing elements: the stationary free dimension.
        columns: u32,
        /// Products a processing element adds in a cycle, 16-bit operands.
        dense_macs_per_cycle: u32,
        /// The same for FP8 with two rows in each element.
        double_row_macs_per_cycle: Option<u32>,
        /// The same for microscaling operands, four values in each element.
        mx_macs_per_cycle: Option<u32>,
        /// The same for structured sparsity, counting the zeros that are skipped.
        sparse_macs_per_cycle: Option<u32>,
        /// Latency of MultiplyMoving.
        latency_cycles: u32,
        /// Overhead of MultiplyMoving.
        overhead_cycles: u32,
        /// Shortest interval between two MultiplyMoving on the same tile.
        interval_min_cycles: u32,
        /// LoadStationary.
        load_stationary: LoadStationarySpec,
        /// Passes of the moving data by operand type.
        passes: PassesSpec,
        /// Where the latency goes.
        fill: FillSpec,
        /// Matmuls side by side on parts of the array.
        tile: TileIssueSpec,
        /// Share of its stream that a transpose occupies when chained with others in the background.
        background_transpose_chain_ratio: Option<f64>,
        /// The dI/dt throttle.
        throttle: Option<ThrottleSpec>,
    }

    /// LoadStationary: stationary data moves into the array.
    struct LoadStationarySpec {
        /// Stationary columns loaded in a cycle.
        columns_per_cycle: u32,
        /// Duration apart from the stream for 16-bit and narrower operands.
        latency_cycles: u32,
        /// The same for FP32, which loads two halves.
        fp32_latency_cycles: u32,
        /// Passes of one LoadStationary instruction.
        passes: u32,
        /// Sets of stationary data that wait behind the active one.
        shadow_sets: u32,
    }

    /// How often the moving data passes through the array.
    struct PassesSpec {
        /// Any FP8.
        fp8: u32,
        /// FP16, BF16.
        bits16: u32,
        /// TF32.
        tf32: u32,
        /// FP32.
        fp32: u32,
        /// Half products an FP32 matmul is issued as, each with its own LoadStationary.
        fp32_halves: u32,
        /// FP32 when an operand is known to hold only 0 and 1.
        fp32_onezero: u32,
        /// FP32 in transpose mode.
        fp32_transpose: Option<u32>,
        /// FP8 with two rows in each element.
        double_row: Option<u32>,
        /// Microscaling operands.
        mx: Option<u32>,
    }

    /// The stages of a MultiplyMoving; only their sum is observed.
    struct FillSpec {
        /// Reading SBUF.
        sbuf_read_cycles: u32,
        /// Skew from the first row to the last.
        row_skew_cycles: u32,
        /// Skew from the first column to the last.
        column_skew_cycles: u32,
        /// Writing PSUM.
        psum_write_cycles: u32,
    }

    /// Matmuls on disjoint tiles of the array.
    struct TileIssueSpec {
        /// Cycles between the issue of two instructions on different tiles.
        issue_cycles: u32,
    }

    /// The throttle that limits the array after idling.
    struct ThrottleSpec {
        /// Whether it is modelled at all.
        enabled: bool,
        /// Share of full rate while limited.
        limited_ratio: f64,
        /// Length of a window in ticks of the chip's base clock, on a free-running grid.
        window_cycles: u64,
        /// Whether a run starts limited.
        initially_limited: bool,
        /// Utilisation of a limited window at or above which the limit is lifted.
        release_utilization_ratio: f64,
        /// Utilisation of an unlimited window below which the limit returns.
        rearm_utilization_ratio: f64,
        /// Whether the grid starts at a phase drawn from the seed instead of at time 0.
        phase_random: bool,
    }

    /// VectorE.
    struct VectorSpec {
        /// Clock.
        clock_hz: u64,
        /// Lanes.
        lanes: u32,
        /// Shortest interval between two instructions.
        interval_min_cycles: u32,
        /// Copy and cast.
        copy: ClassTiming,
        /// tensor_tensor, scalar_tensor_tensor, select.
        tensor_tensor: ClassTiming,
        /// tensor_reduce.
        reduce: ClassTiming,
        /// tensor_scalar with a vector operand.
        tensor_scalar_vector_operand: ClassTiming,
        /// reciprocal.
        reciprocal: ClassTiming,
        /// Everything else.
        other: ClassTiming,
        /// Cycles an element.
        stream: VectorStream,
        /// Cycles to read the accumulators out after tensor_scalar_reduce.
        reduce_readout_cycles: u32,
        /// set_rng_seed, rand_set_state and rand_get_state, whatever their size.
        rng_state_cycles: u32,
        /// Cycles an instruction adds for an indirect operand.
        indirect_cycles: Option<u32>,
        /// Fewest elements that max8, nc_find_index8 and nc_match_replace8 search.
        search_free_min: u32,
        /// The most.
        search_free_max: u32,
        /// Lowest cycles an element while GpSimdE streams SBUF over the shared bus.
        shared_bus_cycles_per_element: Option<Ratio>,
    }

    /// Cycles an element for copies and tensor_scalar of one width on VectorE.
    struct CopyStream {
        /// Both sides in SBUF, innermost contiguous.
        sbuf_contiguous_cycles_per_element: Ratio,
        /// Both sides in SBUF, innermost strided.
        sbuf_strided_cycles_per_element: Ratio,
        /// Contiguous, one side in PSUM.
        psum_contiguous_cycles_per_element: Ratio,
        /// Otherwise.
        other_cycles_per_element: Ratio,
    }

    /// Cycles an element for instructions with two streamed inputs on VectorE.
    struct PairStream {
        /// 32-bit or mixed operands, all in SBUF.
        sbuf_bits32_cycles_per_element: Ratio,
        /// All operands 16-bit, all in SBUF.
        sbuf_bits16_cycles_per_element: Ratio,
        /// All operands BF16, all in SBUF, and the operators that are fast on each generation: add, subtract or multiply
        /// of tensor_tensor, subtract then multiply of scalar_tensor_tensor.
        sbuf_bf16_fast_cycles_per_element: Ratio,
        /// One input in PSUM.
        psum_cycles_per_element: Ratio,
    }

    /// Cycles an element on VectorE.
    struct VectorStream {
        /// tensor_copy, tensor_scalar with 8-bit data on both sides.
        copy_bits8: CopyStream,
        /// The same with 16-bit data.
        copy_bits16: CopyStream,
        /// The same with 32-bit data.
        copy_bits32: CopyStream,
        /// tensor_tensor.
        tensor_tensor: PairStream,
        /// scalar_tensor_tensor.
        scalar_tensor_tensor: PairStream,
        /// tensor_reduce.
        reduce_cycles_per_element: Ratio,
        /// tensor_reduce of BF16 into BF16 with add or max.
        reduce_bf16_add_max_cycles_per_element: Ratio,
        /// tensor_scalar_reduce.
        tensor_scalar_reduce_cycles_per_element: Ratio,
        /// tensor_scalar_cumulative.
        tensor_scalar_cumulative_cycles_per_element: Ratio,
        /// tensor_tensor_scan.
        tensor_tensor_scan_cycles_per_element: Ratio,
        /// bn_stats.
        bn_stats_cycles_per_element: Ratio,
        /// bn_aggr.
        bn_aggr_cycles_per_element: Ratio,
        /// max8, nc_find_index8, nc_match_replace8.
        search_cycles_per_element: Ratio,
        /// tensor_copy_predicated, select_reduce.
        select_cycles_per_element: Ratio,
        /// The same with one input in SBUF and one in PSUM.
        select_split_cycles_per_element: Ratio,
        /// range_select.
        range_select_cycles_per_element: Option<Ratio>,
        /// dropout.
        dropout_cycles_per_element: Ratio,
        /// nc_stream_shuffle.
        stream_shuffle_cycles_per_element: Ratio,
        /// nc_transpose on VectorE.
        transpose_cycles_per_element: Ratio,
        /// memset of 32-bit data.
        memset_bits32_cycles_per_element: Ratio,
        /// memset of narrower data.
        memset_bits16_cycles_per_element: Ratio,
        /// memset of 16-bit floats with 0.
        memset_zero_bits16_cycles_per_element: Ratio,
        /// reciprocal.
        reciprocal_cycles_per_element: Ratio,
        /// rng.
        rng_cycles_per_element: Ratio,
        /// quantize_mx, of the input.
        quantize_mx_cycles_per_element: Option<Ratio>,
        /// exponential.
        exponential_cycles_per_element: Option<Ratio>,
        /// exponential when source or destination is 32-bit.
        exponential_bits32_cycles_per_element: Option<Ratio>,
        /// rand2.
        rand2_cycles_per_element: Option<Ratio>,
        /// Largest innermost stride at full speed.
        stride_bytes_max: u32,
        /// Factor on the stream beyond that stride.
        large_stride_ratio: f64,
    }

    /// ScalarE.
    struct ScalarSpec {
        /// Clock.
        clock_hz: u64,
        /// Lanes.
        lanes: u32,
        /// Shortest interval between two instructions.
        interval_min_cycles: u32,
        /// Copy, cast, tensor_scalar.
        copy: ClassTiming,
        /// Cast from BF16.
        cast_from_bf16: ClassTiming,
        /// activation from PSUM.
        activation_psum: ClassTiming,
        /// activation from SBUF.
        activation_sbuf: ClassTiming,
        /// Reading the accumulators out.
        accumulator_read: ClassTiming,
        /// Cycles an element.
        stream: ScalarStream,
        /// Tables of the activation functions.
        table: TableLoadSpec,
    }

    /// Cycles an element on ScalarE.
    struct ScalarStream {
        /// Any activation function, with or without scale and bias.
        activation_cycles_per_element: Ratio,
        /// Copy, tensor_scalar of 32-bit data.
        copy_bits32_cycles_per_element: Ratio,
        /// The same of 16-bit data on both sides.
        copy_bits16_cycles_per_element: Ratio,
        /// The same of 8-bit data on both sides.
        copy_bits8_cycles_per_element: Ratio,
    }

    /// Loading function tables into ScalarE, and which functions share a set.
    struct TableLoadSpec {
        /// Time to load a set.
        load_ps: u64,
        /// Functions that are in every set.
        every_set: Vec<String>,
        /// The set with exponentials and logarithms.
        natural_log_exp_and_others: Vec<String>,
        /// The set with the gelu family.
        gelu_and_others: Vec<String>,
        /// The set with square roots.
        reciprocal_sqrt_and_small: Vec<String>,
        /// The set with the reciprocal.
        reciprocal_and_small: Vec<String>,
        /// The set with sine and arctangent.
        trigonometric: Vec<String>,
        /// The set with the rest.
        rest: Vec<String>,
    }

    /// GpSimdE.
    struct GpsimdSpec {
        /// Clock.
        clock_hz: u64,
        /// Processors.
        processors: u32,
        /// Partitions that one processor reaches.
        processor_partitions: u32,
        /// Width of a processor's vectors.
        simd_bits: u32,
        /// Local memory of a processor.
        tcm_bytes: u64,
        /// Latency of that memory.
        tcm_latency_cycles: u32,
        /// Bytes a partition and port move in a cycle.
        port_bytes_per_cycle: u32,
        /// Latency apart from start and stream.
        latency_cycles: u32,
        /// Overhead.
        overhead_cycles: u32,
        /// Shortest interval between two instructions.
        interval_min_cycles: u32,
        /// Cycles before the first element of every instruction.
        start_cycles: u32,
        /// Cycles an element.
        stream: GpsimdStream,
        /// Elements a partition that one group of nc_n_gather handles; each group starts anew.
        gather_group: u32,
        /// The integrated DMA.
        dma: Option<GpsimdDmaSpec>,
    }

    /// Cycles an element on GpSimdE.
    struct GpsimdStream {
        /// iota.
        iota_cycles_per_element: Ratio,
        /// affine_select.
        affine_select_cycles_per_element: Ratio,
        /// tensor_copy, memset.
        copy_cycles_per_element: Ratio,
        /// tensor_tensor.
        tensor_tensor_cycles_per_element: Ratio,
        /// rsqrt through tensor_scalar.
        rsqrt_cycles_per_element: Ratio,
        /// power.
        power_cycles_per_element: Ratio,
        /// topk, of the searched elements; one cycle more for each result.
        topk_cycles_per_element: Option<Ratio>,
        /// nc_n_gather.
        gather_cycles_per_element: Ratio,
        /// tensor_partition_reduce.
        partition_reduce_cycles_per_element: Ratio,
        /// sequence_bounds.
        sequence_bounds_cycles_per_element: Ratio,
        /// nonzero_with_count.
        nonzero_cycles_per_element: Option<Ratio>,
        /// rng and access to its state.
        rng_cycles_per_element: Option<Ratio>,
        /// local_gather: cycles to start one round of a processor.
        local_gather_base_cycles: u32,
        /// local_gather: cycles for each of a round's elements; also the divisor's factor.
        local_gather_element_cycles: u32,
        /// local_gather: bytes a partition moves at once.
        local_gather_bytes: u32,
    }

    /// The DMA engines inside GpSimdE.
    struct GpsimdDmaSpec {
        /// Bandwidth in each direction.
        bandwidth_bytes_per_s: u64,
        /// Elements a partition of a sendrecv through them, at most.
        elements_max: u64,
        /// Time before the first byte of a sendrecv through them.
        start_ps: u64,
    }

    /// SyncE, a sequencer without data path.
    struct SyncSpec {
        /// Clock.
        clock_hz: u64,
    }

    /// A span for each engine.
    struct PerEngine {
        /// TensorE.
        tensor_ps: u64,
        /// VectorE.
        vector_ps: u64,
        /// ScalarE.
        scalar_ps: u64,
        /// GpSimdE.
        gpsimd_ps: u64,
        /// SyncE.
        sync_ps: u64,
    }

    /// What the five sequencers do by themselves.
    struct SequencerSpec {
        /// Clock of the sequencers.
        clock_hz: u64,
        /// Scalar registers of a sequencer.
        registers: u32,
        /// Width of a register.
        register_bits: u32,
        /// A control instruction that waits on or sets a semaphore.
        semaphore_wait: PerEngine,
        /// Gap between that instruction and the next one.
        semaphore_wait_gap_ps: u64,
        /// Compare and branch.
        branch: PerEngine,
        /// One turn of a hardware loop.
        loop_back: PerEngine,
        /// Loading a register from HBM.
        register_load_hbm_ps: u64,
        /// Loading a register from SBUF.
        register_load_sbuf_ps: u64,
        /// Shortest interval of an instruction with an address from a register.
        register_address_interval_min_cycles: u32,
        /// Cycles to start a tensor access; already inside the latencies.
        access_setup_cycles: u32,
        /// Rule of thumb for short or dependent instructions; superseded by the latencies.
        static_overhead_cycles: u32,
        /// Instruction fetch.
        fetch: FetchSpec,
    }

    /// Instruction fetch.
    struct FetchSpec {
        /// Bytes of one fetch.
        chunk_bytes: u64,
        /// Bytes of one instruction.
        instruction_bytes: u64,
        /// Chunks fetched ahead.
        prefetch_chunks: u32,
        /// Chunks a loop may span and stay resident.
        resident_chunks: u32,
        /// Stall of a branch to a chunk that is not there.
        miss_ps: u64,
    }

    /// Device time of a kernel outside its first DMA trigger and last semaphore.
    struct KernelSpec {
        /// All of it.
        fixed_ps: u64,
        /// The part after the last DMA.
        tail_ps: u64,
        /// What a profile's total adds.
        profile_extra_ps: u64,
    }
}

impl TableLoadSpec {
    /// The sets of functions that are loaded together, the rest last; `every_set` is in each of them.
    #[must_use]
    pub fn sets(&self) -> [&[String]; 6] {
        [
            &self.natural_log_exp_and_others,
            &self.gelu_and_others,
            &self.reciprocal_sqrt_and_small,
            &self.reciprocal_and_small,
            &self.trigonometric,
            &self.rest,
        ]
    }
}
