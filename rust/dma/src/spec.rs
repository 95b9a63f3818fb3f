//! The constants of a core's DMA engines.
//!
//! The numbers are those of the hardware table; the names in capitals are those of timing.md section 8.2.

use trn3_sim::Picos;
use trn3_spec::Target;

use crate::stack::StackSpec;
use crate::transfer::{Mode, Operation, Route, Shape};

/// Which ready queue an engine serves next. A packet that was started completes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Arbitration {
    /// Every queue in turn, a packet each.
    RoundRobin,
    /// The lowest class first; within a class every queue in turn.
    StrictPriority,
}

/// The DMA engines of a core.
#[derive(Clone, Debug, PartialEq)]
pub struct DmaSpec {
    /// What the hardware table says of DMA.
    pub table: trn3_spec::DmaSpec,
    /// Neighbouring partitions that one engine serves.
    pub partitions_per_engine: u32,
    /// How ready queues share an engine.
    pub arbitration: Arbitration,
    /// `BW_EFF`: what an engine moves a second while a descriptor streams; the loaded bandwidth of the table. Its peak
    /// bandwidth instead gives the option `bw_seq`: sequential transfers on an idle memory.
    pub bandwidth_bytes_per_s: u64,
    /// The HBM that the engines reach.
    pub stack: StackSpec,
}

impl DmaSpec {
    /// The engines of a core of `target`.
    #[must_use]
    pub fn new(target: &Target) -> DmaSpec {
        let table = target.chip.dma.clone();
        DmaSpec {
            partitions_per_engine: table.engine_partitions(target.core.sbuf.partitions),
            arbitration: if target.core.capability.dma_priority {
                Arbitration::StrictPriority
            } else {
                Arbitration::RoundRobin
            },
            bandwidth_bytes_per_s: table.engine.bandwidth_loaded_bytes_per_s,
            stack: StackSpec::new(target),
            table,
        }
    }

    /// Engines of a core.
    ///
    /// # Panics
    ///
    /// If there are more than 128.
    #[must_use]
    pub fn engines(&self) -> u8 {
        let engines = u8::try_from(self.table.engines_per_core).ok().filter(|&engines| engines <= 128);
        engines.expect("a core has at most 128 DMA engines")
    }

    /// Queues of an engine.
    ///
    /// # Panics
    ///
    /// If there are more than 64.
    #[must_use]
    pub fn queues(&self) -> u8 {
        let queues = u8::try_from(self.table.queues_per_engine).ok().filter(|&queues| queues <= 64);
        queues.expect("a DMA engine has at most 64 queues")
    }

    /// `SEM_WRITE`: the semaphore write that ends an engine's part of a transfer.
    #[must_use]
    pub fn semaphore_write(&self) -> Picos {
        Picos(self.table.semaphore_write_ps)
    }

    /// `SEM_DMA_DONE`: from the last semaphore write to the consumer's issue. The caller adds it.
    #[must_use]
    pub fn semaphore_to_consumer(&self) -> Picos {
        Picos(self.table.done_ps)
    }

    /// `DMA_GAP`: from the last data of a transfer on a queue of an engine to the first data of the next one there.
    /// The semaphore write happens meanwhile; another queue may use the engine for the rest (assumed).
    #[must_use]
    pub fn gap(&self) -> Picos {
        Picos(self.table.gap_ps)
    }

    /// Partitions that the engines serve together.
    #[must_use]
    pub fn partitions(&self) -> u32 {
        self.table.engines_per_core * self.partitions_per_engine
    }

    /// How long the issuer is busy with a transfer before it can issue the next: `T_DGE(P)` keeps a sequencer and its
    /// DGE, `SWDGE_GEN(P)` keeps GpSimd, static descriptors keep nobody.
    ///
    /// # Panics
    ///
    /// If the core has no hardware DGE and the mode asks for it.
    #[must_use]
    pub fn issue_interval(&self, mode: Mode, shape: &Shape) -> Picos {
        match mode {
            Mode::Hardware => {
                let hwdge = self.table.hwdge.as_ref().expect("a core without hardware DGE refuses the instruction");
                Picos(hwdge.duration_ps(self.generation_partitions(shape)))
            }
            Mode::Software => Picos(self.table.swdge.duration_ps(self.generation_partitions(shape))),
            Mode::Static => Picos::ZERO,
        }
    }

    /// From the trigger's start to the first packet on the first engine.
    #[must_use]
    pub fn trigger_to_first(&self, mode: Mode, shape: &Shape) -> Picos {
        match mode {
            Mode::Hardware => self.issue_interval(mode, shape) + Picos(self.table.to_first_ps),
            // The trigger of a software DGE starts when its descriptors are made.
            Mode::Software => Picos(self.table.to_first_ps),
            Mode::Static => Picos(self.table.static_to_first_ps),
        }
    }

    /// The start of engine `engine` after the first one.
    #[must_use]
    pub fn skew(&self, mode: Mode, engine: u8) -> Picos {
        let step = if mode == Mode::Software {
            Picos(self.table.swdge.engine_skew_ps)
        } else {
            Picos(self.table.engine_skew_ps)
        };
        step * u64::from(engine)
    }

    /// P in `T_DGE(P)`. A transfer within HBM has one part an engine, and is counted like as many partitions (assumed).
    fn generation_partitions(&self, shape: &Shape) -> u32 {
        if shape.route() == Route::HbmToHbm { self.table.engines_per_core } else { shape.partitions() }
    }

    /// How long an engine takes over one descriptor that reads and writes so many bytes.
    ///
    /// A copy takes `max(DESC_MIN, bytes/BW_EFF + DESC_OVH [+ ST_SMALL])`, the larger side's bytes; `XPOSE_EFF`,
    /// `XPOSE_EFF_SB`, `CCE_EFF` and `RAW_EFF` are shares of the copy's rate.
    ///
    /// # Panics
    ///
    /// If the operation is one that the core does not have, or that moves at no speed.
    #[must_use]
    pub fn descriptor_time(&self, read_bytes: u64, written_bytes: u64, route: Route, operation: Operation) -> Picos {
        let stores = route.writes_hbm() && operation != Operation::PartialSum;
        let small = stores && written_bytes <= self.table.small_store_bytes_max;
        let extra = if small { self.table.small_store_ps } else { 0 };
        let streaming = Picos::to_move(read_bytes.max(written_bytes), self.bandwidth_bytes_per_s);
        let whole = streaming + Picos(self.table.descriptor.overhead_ps) + Picos(extra);
        // At least a picosecond, so that a table of zeros still makes progress.
        let copy = whole.max(Picos(self.table.descriptor.duration_min_ps)).max(Picos(1));
        match self.copy_ratio(route, operation) {
            None => copy,
            // One correctly rounded quotient: the same on every machine.
            Some(ratio) => Picos((copy.0 as f64 / ratio).round() as u64).max(Picos(1)),
        }
    }

    /// The operation's share of the copy's rate; none for a copy.
    fn copy_ratio(&self, route: Route, operation: Operation) -> Option<f64> {
        let transpose = &self.table.transpose;
        let aligned = if route.reads_hbm() { transpose.hbm_ratio } else { transpose.sbuf_ratio };
        let ratio = match operation {
            Operation::Copy => return None,
            Operation::Transpose => aligned,
            Operation::TransposeUnaligned => aligned * transpose.misaligned_ratio,
            Operation::Compute | Operation::PartialSum => self.table.compute_ratio,
            Operation::Accumulate => {
                self.table.read_add_write_ratio.expect("a core that cannot add into SBUF refuses the instruction")
            }
        };
        assert!(ratio > 0.0, "a transfer that moves at no speed never ends");
        Some(ratio)
    }
}

#[cfg(test)]
pub(crate) mod tests {
    use std::sync::LazyLock;

    use super::*;

    fn built_in(name: &str) -> DmaSpec {
        DmaSpec::new(&Target::load(name).expect("a built-in table"))
    }

    /// Trn2.
    pub(crate) fn v3() -> DmaSpec {
        static V3: LazyLock<DmaSpec> = LazyLock::new(|| built_in("trn2"));
        V3.clone()
    }

    /// Trn3.
    pub(crate) fn v4() -> DmaSpec {
        static V4: LazyLock<DmaSpec> = LazyLock::new(|| built_in("trn3"));
        V4.clone()
    }

    /// Trn1.
    pub(crate) fn v2() -> DmaSpec {
        static V2: LazyLock<DmaSpec> = LazyLock::new(|| built_in("trn1"));
        V2.clone()
    }

    /// `bw_seq`.
    pub(crate) fn v3_sequential() -> DmaSpec {
        DmaSpec { bandwidth_bytes_per_s: v3().table.engine.bandwidth_peak_bytes_per_s, ..v3() }
    }

    #[test]
    fn issue_and_start_follow_the_mode() {
        let shape = Shape::rows(Route::HbmToSbuf, 128, 4).expect("a shape");
        // timing.md section 8.2: T_DGE = 170 + 3.06 P on Trn2 and 170 + 3.36 P on Trn3; SWDGE_GEN = 480 + 0.8 P.
        assert_eq!(v3().issue_interval(Mode::Hardware, &shape), Picos(561_680));
        assert_eq!(v4().issue_interval(Mode::Hardware, &shape), Picos(600_080));
        assert_eq!(v4().issue_interval(Mode::Software, &shape), Picos(582_400));
        assert_eq!(v4().issue_interval(Mode::Static, &shape), Picos::ZERO);
        assert_eq!(v3().trigger_to_first(Mode::Hardware, &shape), Picos(1_261_680));
        assert_eq!(v3().trigger_to_first(Mode::Software, &shape), Picos(700_000));
        assert_eq!((v3().partitions_per_engine, v3().partitions()), (8, 128));
    }

    #[test]
    fn descriptors_take_what_the_table_says() {
        // timing.md section 8.2, DESC_OVH: 156, 83, 27 and 17 ns were measured on Trn2 at the peak of 27.2 B/ns.
        for (bytes, measured_ns) in [(4096, 156.0), (2048, 83.0), (512, 27.0), (256, 17.0)] {
            let spec = v3_sequential();
            let model = spec.descriptor_time(bytes, bytes, Route::HbmToSbuf, Operation::Copy).as_ns_f64();
            assert!((model - measured_ns).abs() < 4.0, "{bytes} B: {model} ns, measured {measured_ns}");
        }
        let time = |bytes, route| v3().descriptor_time(bytes, bytes, route, Operation::Copy).0;
        assert_eq!(time(4, Route::HbmToSbuf), 8_000);
        assert_eq!(time(256, Route::SbufToHbm) - time(256, Route::HbmToSbuf), 24_000);
        assert_eq!(time(257, Route::SbufToHbm), time(257, Route::HbmToSbuf));
        // A cast that stores 256 B out of 512 stores a small piece; a partial sum stores nothing.
        let cast = |written, operation| v3().descriptor_time(512, written, Route::SbufToHbm, operation).0;
        assert_eq!(cast(256, Operation::Copy) - cast(257, Operation::Copy), 24_000);
        assert_eq!(cast(256, Operation::PartialSum), cast(257, Operation::Compute));
    }

    #[test]
    fn operations_are_shares_of_the_rate_of_a_copy() {
        let spec = v4();
        let time = |route, operation| spec.descriptor_time(4096, 4096, route, operation).0;
        assert_eq!(time(Route::HbmToSbuf, Operation::Copy), 124_069);
        assert_eq!(time(Route::HbmToSbuf, Operation::Transpose), 137_854); // ÷ 0.9
        assert_eq!(time(Route::SbufToSbuf, Operation::Transpose), 248_138); // ÷ 0.5
        assert_eq!(time(Route::HbmToSbuf, Operation::TransposeUnaligned), 275_709); // ÷ 0.45
        assert_eq!(time(Route::HbmToSbuf, Operation::Compute), 248_138);
        assert_eq!(time(Route::HbmToSbuf, Operation::PartialSum), 248_138);
        assert_eq!(time(Route::HbmToSbuf, Operation::Accumulate), 124_069);
    }
}
