//! Units. A key's name ends with its unit, so a unit that does not fit the name is a mistake in the table.

/// What belongs to keys of one ending.
pub(crate) struct Unit {
    /// The ending of the key's last part, without `_max` or `_min`.
    ending: &'static str,
    /// The unit's name in the table.
    pub(crate) name: &'static str,
    /// The smallest value that can exist.
    pub(crate) min: f64,
    /// The largest.
    pub(crate) max: f64,
}

/// Longer endings stand before the endings they contain.
const UNITS: [Unit; 13] = [
    unit("bytes_per_s", "B/s", 1.0, 1e18),
    unit("flops_per_s", "FLOP/s", 1.0, 1e21),
    unit("ops_per_s", "OP/s", 1.0, 1e21),
    unit("macs_per_cycle", "MAC/cycle", 1.0, 1024.0),
    unit("columns_per_cycle", "columns/cycle", 1.0, 1024.0),
    unit("bytes_per_cycle", "B/cycle", 1.0, 65_536.0),
    unit("cycles_per_element", "cycles/element", 0.0, 1e6),
    unit("cycles", "cycles", 0.0, 1e9),
    unit("hz", "Hz", 1e6, 1e11),
    unit("ns", "ns", 0.0, 1e12),
    unit("bytes", "B", 0.0, 1e18),
    unit("bits", "bit", 1.0, 65_536.0),
    unit("ratio", "1", 0.0, 1e6),
];

/// The unit of whole numbers without another.
pub(crate) const COUNT: Unit = unit("", "count", 0.0, 4_294_967_295.0);

const fn unit(ending: &'static str, name: &'static str, min: f64, max: f64) -> Unit {
    Unit { ending, name, min, max }
}

/// The unit that the last part of a key ends with, if it ends with one.
pub(crate) fn of_key(key: &str) -> Option<&'static Unit> {
    let last = key.rsplit('.').next().unwrap_or(key);
    let last = last.strip_suffix("_max").or_else(|| last.strip_suffix("_min")).unwrap_or(last);
    UNITS.iter().find(|unit| last.strip_suffix(unit.ending).is_some_and(|rest| rest.is_empty() || rest.ends_with('_')))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_ending_of_the_key_is_the_unit() {
        let name = |key| of_key(key).map(|unit| unit.name);
        assert_eq!(name("tensor.clock_hz"), Some("Hz"));
        assert_eq!(name("dma.descriptor.bytes_max"), Some("B"));
        assert_eq!(name("hbm.bandwidth_bytes_per_s"), Some("B/s"));
        assert_eq!(name("vector.stream.bn_aggr_cycles_per_element"), Some("cycles/element"));
        assert_eq!(name("published.chip.int8_ops_per_s"), Some("OP/s"));
        assert_eq!(name("published.chip.fp8_flops_per_s"), Some("FLOP/s"));
        assert_eq!(name("psum.banks"), None);
        assert_eq!(name("x.columns"), None);
    }
}
