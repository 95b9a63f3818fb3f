//! When the array takes a matrix product: LoadStationary in the shadow of earlier work, MultiplyMoving after it.

use trn3_isa::Multiply;
use trn3_sim::{Clock, Picos};
use trn3_spec::TensorSpec;

/// Quadrant tiles in each direction: the finest tiling of the array.
const GRID: usize = 4;
/// Rows or columns of such a tile.
const CELL: u16 = 32;

/// The state of TensorE.
#[derive(Debug, Clone, PartialEq)]
pub(crate) struct Array {
    clock: Clock,
    issue_interval: Picos,
    transpose_ratio: f64,
    interval_min: u64,
    /// When each tile's shadow weights have moved in: the start of its last product.
    started: [[Picos; GRID]; GRID],
    /// When each tile can start its next product.
    free: [[Picos; GRID]; GRID],
    /// The same for the transposes that run beside products.
    transpose_free: Picos,
    last_issue: Picos,
    any: bool,
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
}

impl Array {
    pub(crate) fn new(spec: &TensorSpec) -> Array {
        let clock = Clock::new(spec.clock_hz);
        Array {
            issue_interval: clock.span(u64::from(spec.tile.issue_cycles)),
            transpose_ratio: spec.background_transpose_chain_ratio.unwrap_or(1.0),
            interval_min: u64::from(spec.interval_min_cycles),
            clock,
            started: [[Picos::ZERO; GRID]; GRID],
            free: [[Picos::ZERO; GRID]; GRID],
            transpose_free: Picos::ZERO,
            last_issue: Picos::ZERO,
            any: false,
        }
    }

    /// Takes a product whose operands are ready at `ready`.
    pub(crate) fn take(&mut self, ready: Picos, cost: &Multiply) -> Product {
        let span = |cycles: u64| self.clock.span(cycles);
        let cells =
            |from: u16, count: u16| usize::from(from / CELL)..usize::from((from + count).div_ceil(CELL)).min(GRID);
        let [row, rows, column, columns] = cost.tile;
        let mut interval = self.interval_min.max(cost.stream + cost.overhead);
        if cost.transposes {
            interval = (interval as f64 * self.transpose_ratio).ceil() as u64;
        }
        let mut first = None;
        let mut end = ready;
        for _ in 0..cost.halves {
            let serial = if self.any { self.last_issue + self.issue_interval } else { Picos::ZERO };
            let (mut free, mut started) = (serial, Picos::ZERO);
            for r in cells(row, rows) {
                for c in cells(column, columns) {
                    if !cost.transposes {
                        free = free.max(self.free[r][c]);
                    }
                    started = started.max(self.started[r][c]);
                }
            }
            if cost.transposes {
                free = free.max(self.transpose_free);
            }
            // The load reads SBUF early; its weights move into the shadow once the last ones have left it.
            let loaded = (ready + span(cost.load_latency + cost.load)).max(started + span(cost.load));
            let start = free.max(loaded);
            first = first.or(Some(start));
            end = start + span(cost.latency + cost.stream);
            for r in cells(row, rows) {
                for c in cells(column, columns) {
                    self.started[r][c] = start;
                    if !cost.transposes {
                        self.free[r][c] = start + span(interval);
                    }
                }
            }
            if cost.transposes {
                self.transpose_free = start + span(interval);
            }
            self.last_issue = start;
            self.any = true;
        }
        Product { start: first.unwrap_or(ready), end, last_start: self.last_issue }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use trn3_spec::Target;

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

    fn interval_ns(cost: &Multiply) -> f64 {
        let target = Target::load("trn2").expect("a table of ours");
        let mut array = Array::new(&target.core.tensor);
        let ends: Vec<Picos> = (0..20).map(|_| array.take(Picos::ZERO, cost).end).collect();
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
        let target = Target::load("trn3").expect("a table of ours");
        let mut array = Array::new(&target.core.tensor);
        let upper = Multiply { tile: [0, 64, 0, 128], ..bf16(512) };
        let lower = Multiply { tile: [64, 64, 0, 128], ..bf16(512) };
        let first = array.take(Picos::ZERO, &upper).end;
        let second = array.take(Picos::ZERO, &lower).end;
        assert_eq!(second - first, array.issue_interval);
    }
}
