//! When the array takes a matrix product: LoadStationary in the shadow of earlier work, MultiplyMoving after it.
//!
//! A product occupies the tiles that it names; products on disjoint tiles run side by side, and transposes in the
//! background on a second server (where the table has one). Each MultiplyMoving waits until the product before it on its
//! tiles lets go, its weights are in place, the sequencer can issue again and the throttle allows.

use crate::ledger::{Cause, Ledger};
use crate::throttle::{Progress, Throttle, ThrottleTime};
use trn3_isa::Multiply;
use trn3_sim::{Clock, Picos, Seed};
use trn3_spec::Target;

/// The state of TensorE.
#[derive(Debug, Clone)]
pub(crate) struct Array {
    clock: Clock,
    issue_interval: Picos,
    transpose_ratio: f64,
    /// Rows or columns of the smallest tile, and how many of them the array has in each direction.
    cell: u16,
    rows: usize,
    columns: usize,
    /// Row by row.
    tiles: Vec<TileState>,
    transposes: Server,
    throttle: Throttle,
    last_issue: Option<Picos>,
    /// The tile of the last product, and the numbers of its smallest tiles: most products have the same.
    chosen: ([u16; 4], Vec<usize>),
}

/// What one product after the other uses.
#[derive(Debug, Clone, Copy, Default)]
struct Server {
    /// When it lets go of the last product, if nothing is limited.
    free: Picos,
    /// The same as progress.
    due: Progress,
}

#[derive(Debug, Clone)]
struct TileState {
    multiply: Server,
    /// When the last products started, the oldest first: as many as there are sets of weights in the shadow.
    starts: Vec<Picos>,
}

/// A product that an instance asks for.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Request {
    pub instance: u32,
    /// When its operands are there, and what made them.
    pub ready: Picos,
    pub cause: Cause,
    /// Shortest interval to the next product, in cycles.
    pub interval_min: u64,
}

/// Start and end of a product.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Product {
    /// When the first MultiplyMoving began.
    pub start: Picos,
    /// When the result is in PSUM.
    pub end: Picos,
    /// When the last MultiplyMoving began.
    pub last_start: Picos,
    /// How long the array stood still before the first, and the longest cause.
    pub waited: (Picos, Cause),
}

impl Array {
    /// The array of a core; `name` is that of its random streams.
    pub(crate) fn new(target: &Target, seed: Seed, name: &str) -> Array {
        let (tensor, matmul) = (&target.core.tensor, &target.core.matmul);
        let smallest = matmul.row_tiles.iter().chain(&matmul.column_tiles).copied().min();
        let cell = smallest.expect("a table has tile sizes");
        let (rows, columns) = (tensor.rows.div_ceil(cell) as usize, tensor.columns.div_ceil(cell) as usize);
        let shadow = tensor.load_stationary.shadow_sets.max(1) as usize;
        let tile = TileState { multiply: Server::default(), starts: vec![Picos::ZERO; shadow] };
        let clock = Clock::new(tensor.clock_hz);
        Array {
            issue_interval: clock.span(u64::from(tensor.tile.issue_cycles)),
            transpose_ratio: tensor.background_transpose_chain_ratio.unwrap_or(1.0),
            clock,
            cell: u16::try_from(cell).expect("an array has at most 4096 rows and columns"),
            rows,
            columns,
            tiles: vec![tile; rows * columns],
            transposes: Server::default(),
            throttle: Throttle::new(target, (rows * columns) as u64, seed, name),
            last_issue: None,
            chosen: ([0; 4], Vec::new()),
        }
    }

    /// Takes a product, and accounts for the time until it has streamed.
    pub(crate) fn take(&mut self, request: &Request, cost: &Multiply, ledger: &mut Ledger) -> Product {
        if self.chosen.0 != cost.tile {
            self.chosen = (cost.tile, self.tiles_of(cost.tile));
        }
        let tiles = std::mem::take(&mut self.chosen.1);
        let mut first = None;
        let mut end = request.ready;
        for _ in 0..cost.halves {
            let start = self.multiply(request, cost, &tiles, ledger);
            first = first.or_else(|| Some((start, ledger.waited(request.instance))));
            ledger.stream(start + self.clock.span(cost.stream));
            end = start + self.clock.span(cost.latency + cost.stream);
        }
        self.chosen.1 = tiles;
        let (start, waited) = first.expect("a product has at least one part");
        Product { start, end, last_start: self.last_issue.unwrap_or_default(), waited }
    }

    /// How long the array was limited in a run that ended at `total`.
    pub(crate) fn finish(self, total: Picos) -> ThrottleTime {
        self.throttle.finish(total)
    }

    /// One LoadStationary and one MultiplyMoving: when the latter starts.
    fn multiply(&mut self, request: &Request, cost: &Multiply, tiles: &[usize], ledger: &mut Ledger) -> Picos {
        let span = |cycles: u64| self.clock.span(cycles);
        let own = |tile: &usize| &self.tiles[*tile];
        let mut server = if cost.transposes { self.transposes } else { Server::default() };
        for tile in tiles.iter().map(own).filter(|_| !cost.transposes) {
            server.free = server.free.max(tile.multiply.free);
            server.due = server.due.max(tile.multiply.due);
        }
        let serial = self.last_issue.map_or(Picos::ZERO, |issue| issue + self.issue_interval);
        let free = serial.max(server.free);
        // The load reads SBUF early; its weights move into the shadow once the oldest there have left it.
        let shadow = tiles.iter().map(own).map(|tile| tile.starts[0]).max().unwrap_or_default();
        let loaded = (request.ready + span(cost.load_latency + cost.load)).max(shadow + span(cost.load));
        self.throttle.advance(serial.max(loaded));
        let start = self.throttle.reach(server.due);
        for (until, cause) in [
            (free.min(start), Cause::Interval),
            (request.ready, request.cause),
            (loaded, Cause::Stationary),
            (start, Cause::Throttle),
        ] {
            ledger.wait(request.instance, until, cause);
        }
        self.occupy(request, cost, tiles, start);
        start
    }

    /// A MultiplyMoving starts.
    fn occupy(&mut self, request: &Request, cost: &Multiply, tiles: &[usize], start: Picos) {
        let mut interval = request.interval_min.max(cost.stream + cost.overhead);
        if cost.transposes {
            interval = (interval as f64 * self.transpose_ratio).ceil() as u64;
        }
        let interval = self.clock.span(interval);
        let server = Server { free: start + interval, due: self.throttle.progress().after(interval) };
        // A background transpose uses the array for its share of the time only.
        self.throttle.stream(self.clock.span(cost.stream).min(interval), interval, tiles.len() as u64);
        for &tile in tiles {
            let tile = &mut self.tiles[tile];
            tile.starts.remove(0);
            tile.starts.push(start);
            if !cost.transposes {
                tile.multiply = server;
            }
        }
        if cost.transposes {
            self.transposes = server;
        }
        self.last_issue = Some(start);
    }

    /// Numbers of the smallest tiles that make up a tile.
    fn tiles_of(&self, tile: [u16; 4]) -> Vec<usize> {
        let cells = |from: u16, count: u16, whole: usize| {
            usize::from(from / self.cell)..usize::from((from + count).div_ceil(self.cell)).min(whole)
        };
        let [row, rows, column, columns] = tile;
        let columns = cells(column, columns, self.columns);
        cells(row, rows, self.rows)
            .flat_map(|row| columns.clone().map(move |column| row * self.columns + column))
            .collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn bf16(stream: u64) -> Multiply {
        Multiply {
            load: 32,
            load_latency: 200,
            stream,
            latency: 395,
            overhead: 5,
            halves: 1,
            tile: [0, 128, 0, 128],
            transposes: false,
        }
    }

    fn array(target: &str, throttled: bool) -> Array {
        let mut target = Target::load(target).expect("a table of ours");
        if let Some(throttle) = &mut target.core.tensor.throttle {
            throttle.enabled = throttled;
            throttle.phase_random = false;
        }
        Array::new(&target, Seed(0), "array")
    }

    fn asked(instance: u32, ready: u64) -> Request {
        Request { instance, ready: Picos(ready), cause: Cause::Dma, interval_min: 64 }
    }

    fn interval_ns(cost: &Multiply) -> f64 {
        let (mut array, mut ledger) = (array("trn2", false), Ledger::default());
        let ends: Vec<Picos> = (0..20).map(|at| array.take(&asked(at, 0), cost, &mut ledger).end).collect();
        (ends[19] - ends[9]).as_ns_f64() / 10.0
    }

    /// Intervals read off published Trn2 profiles, to their printed resolution.
    #[test]
    fn back_to_back_products_repeat_as_published() {
        assert!((interval_ns(&bf16(512)) - 215.0).abs() < 1.0);
        assert!((interval_ns(&bf16(128)) - 55.0).abs() < 1.0);
        assert!((interval_ns(&Multiply { load_latency: 390, ..bf16(1024) }) - 428.0).abs() < 1.0);
    }

    #[test]
    fn products_on_disjoint_tiles_run_side_by_side() {
        let (mut array, mut ledger) = (array("trn3", false), Ledger::default());
        let upper = Multiply { tile: [0, 64, 0, 128], ..bf16(512) };
        let lower = Multiply { tile: [64, 64, 0, 128], ..bf16(512) };
        let first = array.take(&asked(0, 0), &upper, &mut ledger).end;
        let second = array.take(&asked(1, 0), &lower, &mut ledger).end;
        assert_eq!(second - first, array.issue_interval);
        let third = array.take(&asked(2, 0), &upper, &mut ledger).end;
        assert_eq!(third - first, Clock::new(2_400_000_000).span(517));
    }

    #[test]
    fn the_first_product_after_idling_pays_for_its_weights() {
        let (mut array, mut ledger) = (array("trn3", false), Ledger::default());
        let clock = array.clock;
        let first = array.take(&asked(0, 0), &bf16(512), &mut ledger);
        assert_eq!(first.start, clock.span(232));
        assert_eq!(first.waited, (clock.span(232), Cause::Stationary));
        let later = array.take(&asked(1, 9_000_000), &bf16(512), &mut ledger);
        assert_eq!(later.start, Picos(9_000_000) + clock.span(232));
        let total = later.end;
        let time = ledger.finish(total);
        let causes: Vec<Cause> = time.of(1).iter().map(|wait| wait.cause).collect();
        assert_eq!(causes, [Cause::Interval, Cause::Dma, Cause::Stationary]);
        assert_eq!(time.active, clock.span(512) * 2);
    }

    #[test]
    fn more_sets_in_the_shadow_hide_more_of_a_load() {
        let period = |sets: usize| {
            let (mut array, mut ledger) = (array("trn3", false), Ledger::default());
            for tile in &mut array.tiles {
                tile.starts = vec![Picos::ZERO; sets];
            }
            // A load that takes longer than the product in whose shadow it is.
            let slow = Multiply { load: 200, ..bf16(64) };
            let starts: Vec<Picos> = (0..9).map(|at| array.take(&asked(at, 0), &slow, &mut ledger).start).collect();
            starts[8] - starts[6]
        };
        let clock = Clock::new(2_400_000_000);
        assert_eq!(period(1), clock.span(200) * 2);
        assert_eq!(period(2), clock.span(200));
    }

    #[test]
    fn a_limited_array_issues_at_half_rate_and_says_what_that_cost() {
        let (mut array, mut ledger) = (array("trn3", true), Ledger::default());
        let products: Vec<Product> = (0..20).map(|at| array.take(&asked(at, 0), &bf16(512), &mut ledger)).collect();
        let interval = Clock::new(2_400_000_000).span(517);
        assert_eq!(products[1].start - products[0].start, interval * 2);
        assert_eq!(products[19].start - products[18].start, interval);
        // One window of 3413 ns, 97 of which pass before the first product.
        let total = products[19].end;
        let limited = array.finish(total);
        assert_eq!(limited.unused, products[0].start);
        assert_eq!(limited.active + limited.unused, Picos(3_413_333));
        let throttle = ledger.finish(total).by_cause().into_iter().find(|(cause, _)| *cause == Cause::Throttle);
        let cost = throttle.map_or(0, |(_, span)| span.0);
        assert!(cost.abs_diff(limited.active.0 / 2) <= 1, "{cost} of {limited:?}");
    }

    #[test]
    fn background_transposes_do_not_wait_for_products() {
        let (mut array, mut ledger) = (array("trn3", false), Ledger::default());
        let transpose = Multiply { transposes: true, ..bf16(128) };
        array.take(&asked(0, 0), &bf16(512), &mut ledger);
        let first = array.take(&asked(1, 0), &transpose, &mut ledger).start;
        let second = array.take(&asked(2, 0), &transpose, &mut ledger).start;
        assert_eq!(second - first, array.clock.span(67), "133 cycles at twice the rate");
        let product = array.take(&asked(3, 0), &bf16(512), &mut ledger).start;
        assert_eq!(product, array.clock.span(232) + array.clock.span(517));
    }
}
