//! Transfers of a launch in time: what the ISA asks for, as the DMA engines of the cores take it.

use std::sync::Arc;
use trn3_dma::{Completion, DmaCounters, DmaEngines, DmaSpec, HbmTraffic, Mode, Operation, Route, Shape, Side};
use trn3_isa::{Engine, Generation, Movement, Transfer};
use trn3_neuroncore::{Mover, Ticket};
use trn3_sim::Picos;

/// The DMA engines of every core of a launch; neighbours share a stack of HBM.
pub(crate) struct LaunchDma {
    engines: DmaEngines,
    /// Whose each transfer is, by its number.
    tickets: Vec<Ticket>,
    /// By core.
    completions: Vec<Vec<(u32, Completion)>>,
}

impl LaunchDma {
    /// Idle engines.
    pub(crate) fn new(spec: DmaSpec, cores: usize) -> LaunchDma {
        let count = u8::try_from(cores).expect("a launch has one or two cores");
        LaunchDma {
            engines: DmaEngines::for_cores(Arc::new(spec), count),
            tickets: Vec::new(),
            completions: vec![Vec::new(); cores],
        }
    }

    /// What a core's engines have done.
    pub(crate) fn counters(&self, core: usize) -> &DmaCounters {
        self.engines.counters(core as u8)
    }

    /// The transfers of a core with their instances, in order of completion.
    pub(crate) fn take_completions(&mut self, core: usize) -> Vec<(u32, Completion)> {
        std::mem::take(&mut self.completions[core])
    }
}

impl Mover for LaunchDma {
    fn submit(&mut self, core: u8, trigger: Picos, ticket: Ticket, transfer: &Transfer, issuer: Engine) -> Picos {
        let submitted = as_submitted(transfer, issuer, self.engines.spec());
        self.engines.submit(core, trigger, &submitted).expect("the core's partitions and queues were checked");
        self.tickets.push(ticket);
        self.engines.spec().issue_interval(submitted.mode, &submitted.shape)
    }

    fn next_done(&mut self, limit: Picos) -> Option<(Ticket, Picos)> {
        let completion = self.engines.next_completion(limit)?;
        let ticket = self.tickets[completion.id.0 as usize];
        let consumer = completion.done + self.engines.spec().semaphore_to_consumer();
        self.completions[usize::from(completion.core)].push((ticket.instance, completion));
        Some((ticket, consumer))
    }
}

/// What `dma` calls a transfer of the ISA.
fn as_submitted(transfer: &Transfer, issuer: Engine, spec: &DmaSpec) -> trn3_dma::Transfer {
    let on_chip = |side: &trn3_isa::Side| side.space.is_on_chip();
    let route = match (on_chip(&transfer.from), on_chip(&transfer.to)) {
        (false, true) => Route::HbmToSbuf,
        (true, false) => Route::SbufToHbm,
        (true, true) => Route::SbufToSbuf,
        (false, false) => Route::HbmToHbm,
    };
    let rows = u64::from(transfer.partitions.max(1));
    let side =
        |side: &trn3_isa::Side| Side { piece_bytes: side.piece_bytes, pieces: side.bytes / rows / side.piece_bytes };
    let (from, to) = (side(&transfer.from), side(&transfer.to));
    let casts = from.bytes() != to.bytes();
    let shape = Shape::new(route, transfer.partition_start, transfer.partitions, from, to, casts)
        .expect("the recorder checked the transfer's operands");
    let mode = match transfer.generation {
        Generation::Hardware => Mode::Hardware,
        Generation::Software => Mode::Software,
        Generation::Static => Mode::Static,
    };
    let operation = match transfer.movement {
        Movement::Copy => Operation::Copy,
        Movement::Transpose => Operation::Transpose,
        Movement::TransposeUnaligned => Operation::TransposeUnaligned,
        Movement::Sum => Operation::Compute,
        Movement::PartialSum => Operation::PartialSum,
        Movement::Accumulate => Operation::Accumulate,
    };
    let writes_hbm = route.writes_hbm() && operation != Operation::PartialSum;
    let piece_bytes = from.piece_bytes.min(to.piece_bytes).max(1);
    trn3_dma::Transfer {
        operation,
        hbm: HbmTraffic {
            read_bytes: transfer.hbm_read_bytes,
            written_bytes: if writes_hbm { transfer.to.bytes } else { 0 },
            piece_bytes: transfer.hbm_piece_bytes,
        },
        class: transfer.priority,
        // A DGE hands over descriptor by descriptor; stored ones are read in packets (timing.md section 8.2).
        packet_descriptors: match mode {
            Mode::Static => (spec.table.packet.compute_bytes / piece_bytes).max(1) as u32,
            Mode::Hardware | Mode::Software => 1,
        },
        ..trn3_dma::Transfer::new(shape, mode, queue_of(issuer, transfer.priority, spec))
    }
}

/// Each issuer has a ring for each class: what waits in a ring waits for what was put there before, whatever its class.
fn queue_of(issuer: Engine, class: u8, spec: &DmaSpec) -> u8 {
    let issuers = [Engine::Sync, Engine::Scalar, Engine::Gpsimd];
    let number = issuers.iter().position(|&engine| engine == issuer).expect("only these trigger transfers") as u8;
    let classes = spec.table.priority_classes.unwrap_or(1).max(1) as u8;
    (number * classes + class % classes) % spec.queues()
}
