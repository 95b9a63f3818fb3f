//! Entries that follow from others, and what becomes of them when a user changes those others.
//!
//! A table keeps the figure that its source gives, rounded as it is there. When something it follows from is replaced,
//! the figure changes in the proportion in which the formula does, so that neither the rounding nor a measured gap is
//! lost. A figure that the user replaces too is the user's.

use crate::target::Target;

/// An entry, what it follows from, and how.
pub(crate) struct Derivation {
    /// The key of the entry.
    pub(crate) key: &'static str,
    /// The keys it follows from.
    pub(crate) from: &'static [&'static str],
    /// The formula, in the entry's unit.
    pub(crate) formula: fn(&Target) -> f64,
}

/// Every entry that follows from other entries of its table.
pub(crate) const DERIVATIONS: [Derivation; 5] = [
    Derivation {
        key: "hbm.stack_bandwidth_peak_bytes_per_s",
        from: &["hbm.bandwidth_peak_bytes_per_s", "hbm.stacks"],
        formula: |target| {
            let hbm = &target.chip.hbm;
            hbm.bandwidth_peak_bytes_per_s as f64 / f64::from(hbm.stacks)
        },
    },
    Derivation {
        key: "dma.engine.bandwidth_loaded_bytes_per_s",
        from: &["dma.engine.bandwidth_sustained_bytes_per_s", "dma.descriptor.bytes_max", "dma.descriptor.overhead_ns"],
        // The sustained rate counts the overhead of each full descriptor, the loaded one does not.
        formula: |target| {
            let dma = &target.chip.dma;
            let bytes = dma.descriptor.bytes_max as f64;
            let whole_s = bytes / dma.engine.bandwidth_sustained_bytes_per_s as f64;
            bytes / (whole_s - dma.descriptor.overhead_ps as f64 * 1e-12)
        },
    },
    Derivation {
        key: "dma.engine.bandwidth_sequential_bytes_per_s",
        from: &["dma.engine.bandwidth_peak_bytes_per_s"],
        // The share of the peak that is seen on Trainium2: 26.2 of 27.2 GB/s.
        formula: |target| target.chip.dma.engine.bandwidth_peak_bytes_per_s as f64 * 26.2 / 27.2,
    },
    Derivation {
        key: "tensor.latency_cycles",
        from: &[
            "tensor.fill.sbuf_read_cycles",
            "tensor.fill.row_skew_cycles",
            "tensor.fill.column_skew_cycles",
            "tensor.fill.psum_write_cycles",
        ],
        formula: |target| {
            let fill = &target.core.tensor.fill;
            let stages = [fill.sbuf_read_cycles, fill.row_skew_cycles, fill.column_skew_cycles, fill.psum_write_cycles];
            stages.into_iter().map(f64::from).sum()
        },
    },
    Derivation {
        key: "chip.cc_cores",
        from: &["chip.cores", "chip.cc_cores_per_core"],
        formula: |target| f64::from(target.chip.cores) * f64::from(target.chip.cc_cores_per_core),
    },
];

#[cfg(test)]
mod tests {
    use super::*;
    use crate::table::{Status, Table};
    use crate::value::Value;

    fn value(table: &Table, key: &str) -> f64 {
        table.entry(key).expect("the key exists").value.as_f64().expect("a number")
    }

    #[test]
    fn every_table_holds_what_its_formulas_give() {
        for name in Table::builtin_names() {
            let table = Table::load(name).expect("comes with the crate");
            let target = Target::from_table(&table);
            for derivation in &DERIVATIONS {
                let (found, expected) = (value(&table, derivation.key), (derivation.formula)(&target));
                // The stacks of Trainium2 are measured 1.2 % below the rounded figure of the chip.
                assert!((found / expected - 1.0).abs() < 0.013, "{name}: {}: {found}, {expected}", derivation.key);
                for key in derivation.from {
                    assert!(table.get(key).is_some(), "{name}: {key}");
                }
            }
        }
    }

    #[test]
    fn what_follows_from_a_replaced_value_follows_it() {
        let trn3 = Table::load("trn3").expect("comes with the crate");
        let changed = trn3.with_override("hbm.stacks", 2).expect("two stacks");
        let entry = changed.entry("hbm.stack_bandwidth_peak_bytes_per_s").expect("every table has it");
        assert_eq!(entry.value, Value::Integer(2_450_000_000_000));
        assert_eq!(entry.status, Status::Derived);
        assert_eq!(entry.source, "recomputed from hbm.stacks, which the user set; 1225000000000 B/s before");
        assert_eq!(entry.replaced, Some((Value::Integer(1_225_000_000_000), Status::Derived)));
        // The gap that was measured on Trainium2 stays.
        let trn2 = Table::load("trn2").expect("comes with the crate");
        let changed = trn2.with_override("hbm.bandwidth_peak_bytes_per_s", 5.8e12).expect("twice as fast");
        assert_eq!(value(&changed, "hbm.stack_bandwidth_peak_bytes_per_s"), 1.432e12);
        let changed = trn3.with_override("tensor.fill.psum_write_cycles", 180).expect("a slower write");
        assert_eq!(value(&changed, "tensor.latency_cycles"), 495.0);
        let changed = trn3.with_override("dma.descriptor.overhead_ns", 50).expect("dearer descriptors");
        let loaded = 34.4 * (4096.0 / 33.0 - 5.0) / (4096.0 / 33.0 - 50.0);
        assert!((value(&changed, "dma.engine.bandwidth_loaded_bytes_per_s") / 1e9 - loaded).abs() < 1e-6);
    }

    #[test]
    fn the_way_to_the_same_overrides_does_not_matter() {
        let trn3 = Table::load("trn3").expect("comes with the crate");
        let (stacks, peak) = (("hbm.stacks", Value::from(2)), ("hbm.bandwidth_peak_bytes_per_s", Value::from(7e12)));
        let once = trn3.with_overrides([stacks.clone(), peak.clone()]).expect("possible");
        let twice = trn3.with_overrides([peak.clone()]).and_then(|table| table.with_overrides([stacks.clone()]));
        assert_eq!(twice.expect("possible"), once);
        assert_eq!(once.with_overrides([stacks]).expect("possible"), once);
    }

    #[test]
    fn what_the_user_sets_is_the_users() {
        let trn3 = Table::load("trn3").expect("comes with the crate");
        let own = ("hbm.stack_bandwidth_peak_bytes_per_s", Value::from(1e12));
        let stacks = ("hbm.stacks", Value::from(2));
        let one = trn3.with_overrides([own.clone(), stacks.clone()]).expect("possible");
        let other = trn3.with_overrides([own]).and_then(|table| table.with_overrides([stacks])).expect("possible");
        for table in [one, other] {
            assert_eq!(value(&table, "hbm.stack_bandwidth_peak_bytes_per_s"), 1e12);
        }
    }
}
