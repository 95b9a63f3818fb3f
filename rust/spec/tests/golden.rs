//! The tables against figures typed by hand from public documents (`tests/vectors/hardware.toml`, which the Python
//! tests read too).

use toml::Value as Toml;
use trn3_spec::{Peaks, Table, Target, TileSizes, Value};

const VECTORS: &str = include_str!("../../../tests/vectors/hardware.toml");

fn vectors(kind: &str) -> Vec<toml::Table> {
    let all: toml::Table = toml::from_str(VECTORS).expect("the vectors are TOML");
    let list = all[kind].as_array().expect("a list of tables");
    list.iter().map(|vector| vector.as_table().expect("a table").clone()).collect()
}

fn text<'v>(vector: &'v toml::Table, key: &str) -> &'v str {
    vector[key].as_str().expect("a text")
}

fn number(value: &Toml) -> f64 {
    value.as_float().or_else(|| value.as_integer().map(|whole| whole as f64)).expect("a number")
}

#[test]
fn tables_say_what_the_documents_say() {
    for vector in vectors("figure") {
        let table = Table::load(text(&vector, "table")).expect("comes with the crate");
        let entry = table.entry(text(&vector, "key")).expect("the key exists");
        match &entry.value {
            Value::Ratio(ratio) => {
                assert_eq!(ratio.to_string(), text(&vector, "value"), "{}", entry.key)
            }
            value => assert_eq!(value.as_f64(), Some(number(&vector["value"])), "{}", entry.key),
        }
    }
}

#[test]
fn peaks_follow_from_size_and_clock() {
    for vector in vectors("peak") {
        let target = Target::load(text(&vector, "table")).expect("comes with the crate");
        let name = text(&vector, "name");
        let peak = peak(&target.peaks(), name).expect("the target has this rate");
        let chip = peak * f64::from(target.chip.cores);
        // Half a unit of the last digit printed.
        assert!((peak - number(&vector["value"])).abs() <= 0.05e12, "{name}: {peak}");
        assert!((chip - number(&vector["per_chip"])).abs() <= 0.05e12, "{name}: {chip}");
    }
}

fn peak(peaks: &Peaks, name: &str) -> Option<f64> {
    match name {
        "bf16_flops_per_s" => Some(peaks.bf16_flops_per_s),
        "fp32_flops_per_s" => Some(peaks.fp32_flops_per_s),
        "fp8_flops_per_s" => peaks.fp8_flops_per_s,
        "mx_flops_per_s" => peaks.mx_flops_per_s,
        "sparse_flops_per_s" => peaks.sparse_flops_per_s,
        _ => None,
    }
}

#[test]
fn published_peaks_are_rounded_or_their_gap_is_noted() {
    for name in Table::builtin_names() {
        let table = Table::load(name).expect("comes with the crate");
        let target = Target::from_table(&table);
        let (peaks, cores) = (target.peaks(), f64::from(target.chip.cores));
        for (key, derived) in [
            ("published.core.bf16_flops_per_s", Some(peaks.bf16_flops_per_s)),
            ("published.core.fp32_flops_per_s", Some(peaks.fp32_flops_per_s)),
            ("published.core.fp8_flops_per_s", peaks.fp8_flops_per_s),
            ("published.core.mx_flops_per_s", peaks.mx_flops_per_s),
            ("published.core.sparse_flops_per_s", peaks.sparse_flops_per_s),
            ("published.chip.bf16_flops_per_s", Some(peaks.bf16_flops_per_s * cores)),
            ("published.chip.fp32_flops_per_s", Some(peaks.fp32_flops_per_s * cores)),
            ("published.chip.fp8_flops_per_s", peaks.mx_flops_per_s.or(peaks.fp8_flops_per_s).map(|peak| peak * cores)),
            ("published.chip.fp4_flops_per_s", peaks.mx_flops_per_s.map(|peak| peak * cores)),
            ("published.chip.sparse_flops_per_s", peaks.sparse_flops_per_s.map(|peak| peak * cores)),
        ] {
            let (Some(entry), Some(derived)) = (table.get(key), derived) else {
                continue;
            };
            let published = entry.value.as_f64().expect("a number");
            let gap = (published / derived - 1.0).abs();
            assert!(gap < 0.17, "{name}: {key}: {published} against {derived}");
            assert!(published.round() == derived || entry.note.is_some(), "{name}: {key}: no note on the gap");
        }
    }
}

#[test]
fn the_mx_peak_of_the_chip_is_the_published_one() {
    let target = Target::load("trn3").expect("comes with the crate");
    let derived = target.peaks().mx_flops_per_s.expect("Trainium3 has it") * f64::from(target.chip.cores);
    assert_eq!((derived / 1e12).round(), 2517.0);
}

#[test]
fn the_kernel_language_sees_the_documented_constants() {
    for vector in vectors("constant") {
        let target = Target::load(text(&vector, "table")).expect("comes with the crate");
        let name = text(&vector, "name");
        let value = constant(&target.tile_sizes(), name).expect("the constant exists");
        assert_eq!(value as f64, number(&vector["value"]), "{name}");
    }
}

fn constant(sizes: &TileSizes, name: &str) -> Option<u64> {
    match name {
        "pmax" => Some(sizes.pmax.into()),
        "psum_bank_fmax" => Some(sizes.psum_bank_fmax),
        "psum_num_banks" => Some(sizes.psum_num_banks.into()),
        "psum_num_banks_transpose" => Some(sizes.psum_num_banks_transpose.into()),
        "sbuf_size_bytes" => Some(sizes.sbuf_size_bytes),
        "gemm_stationary_fmax" => Some(sizes.gemm_stationary_fmax.into()),
        "bn_stats_fmax" => Some(sizes.bn_stats_fmax.into()),
        _ => None,
    }
}
