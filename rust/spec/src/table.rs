//! Tables: every number of one hardware generation with its unit, status and source.
//!
//! Invariants: a `Table` that exists is complete and consistent, since making one builds its [`Target`]; its entries
//! stand in the order of the typed fields; a changed value says so in its status. Which values were set decides the
//! table, not the order in which they were.

use std::collections::BTreeMap;
use std::fmt;

use serde::Deserialize;

use crate::derivations::DERIVATIONS;
use crate::error::SpecError;
use crate::fields::Reader;
use crate::file::{self, BUILTIN, Draft};
use crate::spelling::near;
use crate::target::Target;
use crate::value::Value;

/// Where a value comes from.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Status {
    /// A public document states it.
    Doc,
    /// Computed from stated numbers, or read off published profiles; the source says how.
    Derived,
    /// Measured by a public source on the hardware.
    Measured,
    /// Not published; the note or source says why this value.
    Assumed,
    /// Stated by press or announcement only.
    Claim,
    /// Set by the user in place of the table's value; no file may say so.
    #[serde(skip)]
    Override,
}

impl Status {
    /// The word used in tables.
    #[must_use]
    pub const fn name(self) -> &'static str {
        match self {
            Status::Doc => "doc",
            Status::Derived => "derived",
            Status::Measured => "measured",
            Status::Assumed => "assumed",
            Status::Claim => "claim",
            Status::Override => "override",
        }
    }
}

impl fmt::Display for Status {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.name())
    }
}

/// What another public source says instead.
#[derive(Debug, Clone, PartialEq)]
pub struct Conflict {
    /// Name of the contradiction, such as `C2`, shared by all its mentions.
    pub id: Option<String>,
    /// The other value.
    pub value: Value,
    /// Who says so.
    pub source: String,
    /// Why the table does not follow it.
    pub why: String,
}

/// One value of a table and what is known about it.
#[derive(Debug, Clone, PartialEq)]
pub struct Entry {
    /// The dotted key, such as `tensor.clock_hz`.
    pub key: String,
    /// The value, in `unit`.
    pub value: Value,
    /// The unit.
    pub unit: String,
    /// Where the value comes from.
    pub status: Status,
    /// The document, and how the value follows from it.
    pub source: String,
    /// The range in which the value plausibly lies.
    pub range: Option<[f64; 2]>,
    /// What else a reader should know.
    pub note: Option<String>,
    /// What other sources say.
    pub conflicts: Vec<Conflict>,
    /// The value and status that an override took the place of, or that what follows from an override did.
    pub replaced: Option<(Value, Status)>,
}

impl Entry {
    /// Whether the value lies outside the range the table calls plausible. `false` without a range.
    #[must_use]
    pub fn is_outside_range(&self) -> bool {
        match (self.range, self.value.as_f64()) {
            (Some([low, high]), Some(value)) => !(low..=high).contains(&value),
            _ => false,
        }
    }
}

/// A key whose value differs between two tables.
#[derive(Debug, Clone, PartialEq)]
pub struct Difference<'a> {
    /// The entry of the first table, if it has the key.
    pub left: Option<&'a Entry>,
    /// The entry of the second table, if it has the key.
    pub right: Option<&'a Entry>,
}

/// All numbers of one hardware generation.
#[derive(Debug, Clone, PartialEq)]
pub struct Table {
    name: String,
    title: String,
    file: String,
    documents: BTreeMap<String, String>,
    entries: Vec<Entry>,
    /// The table's own entries where overrides changed them.
    own: BTreeMap<String, Entry>,
}

impl Table {
    /// The names of the tables that come with the crate.
    #[must_use]
    pub fn builtin_names() -> Vec<&'static str> {
        BUILTIN.iter().map(|(name, _)| *name).collect()
    }

    /// The table of that name, or the one in the file of that path.
    ///
    /// # Errors
    ///
    /// If there is none, or the file is not a complete and consistent table.
    pub fn load(name_or_path: &str) -> Result<Table, SpecError> {
        let draft = file::open(name_or_path, None, &mut Vec::new())?;
        finish(draft, name_or_path)
    }

    /// A table from the text of a file; `file` names it in messages.
    ///
    /// # Errors
    ///
    /// If the text is not a complete and consistent table.
    pub fn parse(file: &str, text: &str) -> Result<Table, SpecError> {
        let draft = file::parse(file, text, None, &mut vec![file.to_owned()])?;
        finish(draft, file)
    }

    /// The table's name.
    #[must_use]
    pub fn name(&self) -> &str {
        &self.name
    }

    /// What the table describes, in words.
    #[must_use]
    pub fn title(&self) -> &str {
        &self.title
    }

    /// The file it was read from.
    #[must_use]
    pub fn file(&self) -> &str {
        &self.file
    }

    /// The documents that sources name, and where they are.
    pub fn documents(&self) -> impl Iterator<Item = (&str, &str)> {
        self.documents.iter().map(|(name, place)| (name.as_str(), place.as_str()))
    }

    /// All entries, grouped by part of the hardware.
    #[must_use]
    pub fn entries(&self) -> &[Entry] {
        &self.entries
    }

    /// The entry of that key.
    #[must_use]
    pub fn get(&self, key: &str) -> Option<&Entry> {
        self.entries.iter().find(|entry| entry.key == key)
    }

    /// The entry of that key.
    ///
    /// # Errors
    ///
    /// If there is none; the error lists keys that are spelt alike.
    pub fn entry(&self, key: &str) -> Result<&Entry, SpecError> {
        self.get(key).ok_or_else(|| SpecError::UnknownKey {
            file: self.file.clone(),
            key: key.to_owned(),
            near: near(key, self.entries.iter().map(|entry| entry.key.as_str())),
        })
    }

    /// A table with one value replaced. The entry's status becomes [`Status::Override`] and its source names what
    /// was there before; the plausible range stays for comparison.
    ///
    /// # Errors
    ///
    /// If there is no such key, the value is of another kind, cannot exist, or contradicts other entries.
    pub fn with_override(&self, key: &str, value: impl Into<Value>) -> Result<Table, SpecError> {
        self.with_overrides([(key, value)])
    }

    /// A table with several values replaced at once, so that values which belong together can change together.
    /// Values that were replaced before stay so. What follows from a replaced value is recomputed, unless it was
    /// replaced as well. A number may be text with its unit, such as `"800 ns"`.
    ///
    /// # Errors
    ///
    /// As [`Table::with_override`].
    pub fn with_overrides<'k, V: Into<Value>>(
        &self,
        overrides: impl IntoIterator<Item = (&'k str, V)>,
    ) -> Result<Table, SpecError> {
        let mut table = self.clone();
        let mut changes = self.overrides().map(|(key, value)| (key.to_owned(), value.clone())).collect::<Vec<_>>();
        for entry in &mut table.entries {
            if let Some(own) = table.own.remove(&entry.key) {
                *entry = own;
            }
        }
        for (key, value) in overrides {
            let value = table.replacement(table.entry(key)?, value.into())?;
            changes.retain(|(changed, _)| changed != key);
            changes.push((key.to_owned(), value));
        }
        let before = table.target()?;
        for (key, value) in &changes {
            table.replace(key, value.clone(), Status::Override, |own| {
                format!("set by the user in place of {} {} ({})", own.value, own.unit, own.status)
            });
        }
        let after = table.target()?;
        for derivation in &DERIVATIONS {
            let is_set = |key: &str| changes.iter().any(|(changed, _)| changed == key);
            let (old, new) = ((derivation.formula)(&before), (derivation.formula)(&after));
            let causes = derivation.from.iter().copied().filter(|key| is_set(key)).collect::<Vec<_>>();
            let own = table.entry(derivation.key)?;
            if is_set(derivation.key) || old == new {
                continue;
            }
            if !(old > 0.0 && new > 0.0 && new.is_finite()) {
                return Err(SpecError::Inconsistent {
                    file: table.file.clone(),
                    key: derivation.key.to_owned(),
                    message: format!("cannot be recomputed from {} as set; set it as well", causes.join(" and ")),
                });
            }
            let scaled = own.value.as_f64().unwrap_or(old) * (new / old);
            let value = match own.value {
                // A whole number stays one; the cast is exact below 2^53, and limits are checked below.
                Value::Integer(_) => Value::Integer(scaled.round() as i64),
                _ => Value::Float(scaled),
            };
            table.replace(derivation.key, value, own.status, |own| {
                let causes = causes.join(" and ");
                format!("recomputed from {causes}, which the user set; {} {} before", own.value, own.unit)
            });
        }
        table.target()?;
        Ok(table)
    }

    /// The value that takes the place of an entry's.
    fn replacement(&self, own: &Entry, value: Value) -> Result<Value, SpecError> {
        let kind = |value: &Value| SpecError::Kind {
            file: self.file.clone(),
            key: own.key.clone(),
            found: format!("{value} ({})", value.kind()),
            expected: format!("{}, in {}", own.value.kind(), own.unit),
        };
        let measured = match &value {
            Value::Text(text) if own.unit != "name" => Value::with_unit(text),
            _ => None,
        };
        let value = match measured {
            Some((_, unit)) if unit != own.unit => {
                return Err(SpecError::Unit {
                    file: self.file.clone(),
                    key: own.key.clone(),
                    found: unit.to_owned(),
                    expected: own.unit.clone(),
                });
            }
            Some((number, _)) => number.settled(&own.unit),
            None => value.settled(&own.unit),
        };
        let misplaced = own.unit != "bool" && matches!(value, Value::Bool(_));
        let endless = matches!(value, Value::Float(number) if !number.is_finite());
        if misplaced || endless { Err(kind(&value)) } else { Ok(value) }
    }

    fn replace(&mut self, key: &str, value: Value, status: Status, source: impl FnOnce(&Entry) -> String) {
        let entry = self.entries.iter_mut().find(|entry| entry.key == key).expect("the entry was found before");
        let own = entry.clone();
        entry.source = source(&own);
        entry.replaced = Some((own.value.clone(), own.status));
        entry.value = value;
        entry.status = status;
        self.own.insert(key.to_owned(), own);
    }

    /// The values that were set in place of the table's, by key.
    pub fn overrides(&self) -> impl Iterator<Item = (&str, &Value)> {
        let set = self.entries.iter().filter(|entry| entry.status == Status::Override);
        set.map(|entry| (entry.key.as_str(), &entry.value))
    }

    /// The typed view of the table.
    ///
    /// # Errors
    ///
    /// None for a table that exists; the signature is shared with the construction of tables.
    pub(crate) fn target(&self) -> Result<Target, SpecError> {
        let entries = self.entries.iter().map(|entry| (entry.key.clone(), entry.clone())).collect();
        let mut reader = Reader::new(&self.file, &entries);
        Target::read(&mut reader, self)
    }

    /// The keys whose values differ, in the order of this table, then those that only `other` has.
    #[must_use]
    pub fn diff<'a>(&'a self, other: &'a Table) -> Vec<Difference<'a>> {
        let here = self.entries.iter().filter_map(|left| match other.get(&left.key) {
            Some(right) if right.value == left.value && right.unit == left.unit => None,
            right => Some(Difference { left: Some(left), right }),
        });
        let there = other.entries.iter().filter(|right| self.get(&right.key).is_none());
        here.chain(there.map(|right| Difference { left: None, right: Some(right) })).collect()
    }

    /// The entries about which sources disagree, with what the others say.
    pub fn conflicts(&self) -> impl Iterator<Item = (&Entry, &Conflict)> {
        self.entries.iter().flat_map(|entry| entry.conflicts.iter().map(move |conflict| (entry, conflict)))
    }
}

/// Checks a draft against the typed fields and orders it like them.
fn finish(draft: Draft, file: &str) -> Result<Table, SpecError> {
    let file = if BUILTIN.iter().any(|(name, _)| *name == file) { format!("{file}.toml") } else { file.to_owned() };
    let name = draft.name.ok_or_else(|| SpecError::MissingKey { file: file.clone(), key: "name".to_owned() })?;
    let mut table = Table {
        title: draft.title.unwrap_or_else(|| name.clone()),
        name,
        file,
        documents: draft.documents,
        entries: Vec::new(),
        own: BTreeMap::new(),
    };
    let mut entries = draft.entries;
    let mut reader = Reader::new(&table.file, &entries);
    let outcome = Target::read(&mut reader, &table);
    let asked = reader.asked;
    if outcome.is_ok()
        && let Some(key) = entries.keys().find(|key| !asked.contains(key))
    {
        return Err(SpecError::UnknownKey {
            near: near(key, asked.iter().map(String::as_str)),
            key: key.clone(),
            file: table.file,
        });
    }
    outcome?;
    table.entries = asked.iter().filter_map(|key| entries.remove(key)).collect();
    Ok(table)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn trn3() -> Table {
        Table::load("trn3").expect("comes with the crate")
    }

    #[test]
    fn tables_have_the_same_keys_but_for_capabilities() {
        let lone = |left: &str, right: &str| {
            let [left, right] = [left, right].map(|name| Table::load(name).expect("comes with the crate"));
            let pairs = left.diff(&right);
            let lone = pairs.iter().filter(|pair| pair.left.is_none() || pair.right.is_none());
            lone.filter_map(|pair| pair.left.or(pair.right)).map(|entry| entry.key.clone()).collect::<Vec<_>>()
        };
        assert_eq!(lone("trn1", "inf2"), [""; 0]);
        assert_eq!(
            lone("trn1", "trn2"),
            [
                "published.chip.int8_ops_per_s",
                "tensor.double_row_macs_per_cycle",
                "tensor.sparse_macs_per_cycle",
                "tensor.passes.fp32_transpose",
                "tensor.passes.double_row",
                "tensor.throttle.enabled",
                "tensor.throttle.limited_ratio",
                "tensor.throttle.window_cycles",
                "tensor.throttle.initially_limited",
                "tensor.throttle.release_utilization_ratio",
                "tensor.throttle.rearm_utilization_ratio",
                "tensor.throttle.phase_random",
                "vector.stream.range_select_cycles_per_element",
                "vector.shared_bus_cycles_per_element",
                "gpsimd.stream.topk_cycles_per_element",
                "gpsimd.stream.nonzero_cycles_per_element",
                "gpsimd.stream.rng_cycles_per_element",
                "gpsimd.dma.bandwidth_bytes_per_s",
                "gpsimd.dma.elements_max",
                "gpsimd.dma.start_ns",
                "psum.bank_conflict_ratio",
                "semaphore.remote_ns",
                "dma.hwdge.blocks",
                "dma.hwdge.base_ns",
                "dma.hwdge.partition_ns",
                "dma.hwdge.transpose_free_max",
                "dma.hwdge.transpose_sizes",
                "published.core.sparse_flops_per_s",
                "published.chip.sparse_flops_per_s",
            ]
        );
        assert_eq!(
            lone("trn2", "trn3"),
            [
                "published.core.fp8_flops_per_s",
                "tensor.mx_macs_per_cycle",
                "tensor.passes.mx",
                "tensor.background_transpose_chain_ratio",
                "vector.stream.quantize_mx_cycles_per_element",
                "vector.stream.exponential_cycles_per_element",
                "vector.stream.exponential_bits32_cycles_per_element",
                "vector.stream.rand2_cycles_per_element",
                "vector.indirect_cycles",
                "matmul.mx_partition_multiple",
                "matmul.mx_scale_partitions",
                "dma.priority_classes",
                "dma.priority_default",
                "dma.priority_fetch",
                "dma.read_add_write_ratio",
                "published.core.mx_flops_per_s",
                "published.chip.fp4_flops_per_s",
                "published.weight.mx_ratio",
            ]
        );
    }

    #[test]
    fn assumed_values_say_why_and_lie_in_their_range() {
        for name in Table::builtin_names() {
            let table = Table::load(name).expect("comes with the crate");
            for entry in table.entries() {
                assert!(!entry.is_outside_range(), "{name}: {} lies outside its range", entry.key);
                let open = entry.source.starts_with("not published: ");
                assert_eq!(entry.status == Status::Assumed, open, "{name}: {}", entry.key);
                let named = table.documents().any(|(document, _)| entry.source.contains(document));
                assert!(open || named, "{name}: {}: the source names no listed document", entry.key);
            }
        }
    }

    #[test]
    fn an_override_says_what_was_there() {
        let table = trn3().with_override("dma.gap_ns", 25).expect("a possible gap");
        let table = table.with_override("dma.gap_ns", 10.5).expect("a possible gap");
        let entry = table.entry("dma.gap_ns").expect("every table has it");
        assert_eq!(entry.status, Status::Override);
        assert_eq!(entry.source, "set by the user in place of 40 ns (derived)");
        assert_eq!(entry.replaced, Some((Value::Integer(40), Status::Derived)));
        assert!(entry.is_outside_range());
        assert_eq!(Target::from_table(&table).chip.dma.gap_ps, 10_500);
    }

    #[test]
    fn an_override_keeps_the_kind() {
        let table = trn3();
        let stream = "vector.stream.reciprocal_cycles_per_element";
        for value in [Value::from("15/2"), Value::from(7.5)] {
            let changed = table.with_override(stream, value).expect("a possible rate");
            assert_eq!(changed.get(stream).map(|entry| entry.value.to_string()), Some("15/2".to_owned()));
        }
        assert!(table.with_override("tensor.clock_hz", 2.8e9).is_ok());
        let rule = |key: &str, value: Value| table.with_override(key, value).map_err(|error| error.rule()).err();
        assert_eq!(rule("tensor.clock_hz", Value::from("fast")), Some("spec.kind"));
        assert_eq!(rule("tensor.clock_hz", Value::from(true)), Some("spec.kind"));
        assert_eq!(rule("tensor.clock_hz", Value::from(0)), Some("spec.limit"));
        assert_eq!(rule("tensor.clock_hz", Value::from(f64::NAN)), Some("spec.kind"));
        assert_eq!(rule("capability.matmul_mx", Value::from(1)), Some("spec.kind"));
        assert_eq!(rule("capability.matmul_mx", Value::from(false)), Some("spec.consistent"));
        assert_eq!(rule("hbm.stacks", Value::from(0)), Some("spec.consistent"));
        assert_eq!(rule("dma.gap", Value::from(1)), Some("spec.unknown_key"));
    }

    #[test]
    fn values_that_belong_together_change_together() {
        let half = [("psum.banks", 4), ("psum.bank_bytes", 4096)];
        assert!(trn3().with_overrides(half).is_ok());
        assert!(trn3().with_override("psum.banks", 4).is_err());
    }

    #[test]
    fn conflicts_name_the_contradictions_of_the_chip_and_core() {
        for (name, expected) in [
            ("trn1", "C5 C11 C15"),
            ("trn2", "C3 C5 C6 C7 C8 C11 C12 C15 C18"),
            ("trn3", "C1 C2 C3 C4 C5 C8 C9 C11 C12 C13 C14 C17 C18 C19"),
        ] {
            let table = Table::load(name).expect("comes with the crate");
            let ids = table.conflicts().filter_map(|(_, conflict)| conflict.id.clone()).collect::<Vec<_>>();
            for id in expected.split(' ') {
                assert!(ids.iter().any(|other| other == id), "{name} lacks {id}");
            }
        }
    }
}
