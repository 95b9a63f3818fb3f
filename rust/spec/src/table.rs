//! Tables: every number of one hardware generation with its unit, status and source.
//!
//! Invariants: a `Table` that exists is complete and consistent, since making one builds its [`Target`]; its entries
//! stand in the order of the typed fields; a changed value says so in its status.

use std::collections::BTreeMap;
use std::fmt;
use std::path::Path;

use serde::Deserialize;

use crate::error::SpecError;
use crate::fields::Reader;
use crate::target::Target;
use crate::value::Value;

/// The tables that come with the crate: name and text.
const BUILTIN: [(&str, &str); 2] = [
    ("trn2", include_str!("../data/trn2.toml")),
    ("trn3", include_str!("../data/trn3.toml")),
];

/// A file larger than this is no hardware table.
const FILE_BYTES_MAX: u64 = 4 << 20;

/// More tables than this do not extend one another.
const CHAIN_MAX: usize = 8;

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
    /// The value and status that an override took the place of.
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
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct RawEntry {
    value: toml::Value,
    unit: String,
    status: Status,
    source: String,
    range: Option<[f64; 2]>,
    note: Option<String>,
    #[serde(default)]
    conflicts: Vec<RawConflict>,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct RawConflict {
    id: Option<String>,
    value: toml::Value,
    source: String,
    why: String,
}

/// A file's content before it is completed by the table it extends.
#[derive(Default)]
struct Draft {
    name: Option<String>,
    title: Option<String>,
    documents: BTreeMap<String, String>,
    entries: BTreeMap<String, Entry>,
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
        let draft = open(name_or_path, None, &mut Vec::new())?;
        finish(draft, name_or_path)
    }

    /// A table from the text of a file; `file` names it in messages.
    ///
    /// # Errors
    ///
    /// If the text is not a complete and consistent table.
    pub fn parse(file: &str, text: &str) -> Result<Table, SpecError> {
        let draft = parse(file, text, None, &mut vec![file.to_owned()])?;
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
    ///
    /// # Errors
    ///
    /// As [`Table::with_override`].
    pub fn with_overrides<'k, V: Into<Value>>(
        &self,
        overrides: impl IntoIterator<Item = (&'k str, V)>,
    ) -> Result<Table, SpecError> {
        let mut table = self.clone();
        for (key, value) in overrides {
            let old = table.entry(key)?;
            let first = old.replaced.clone().unwrap_or_else(|| (old.value.clone(), old.status));
            let new = Entry {
                value: value.into().settled(&old.unit),
                status: Status::Override,
                source: format!("set by the user in place of {} {} ({})", first.0, old.unit, first.1),
                replaced: Some(first),
                ..old.clone()
            };
            if new.unit != "bool" && matches!(new.value, Value::Bool(_)) || matches!(new.value, Value::Float(v) if !v.is_finite()) {
                return Err(SpecError::Kind {
                    file: table.file.clone(),
                    key: key.to_owned(),
                    found: format!("{} ({})", new.value, new.value.kind()),
                    expected: format!("{}, in {}", old.value.kind(), old.unit),
                });
            }
            let at = table.entries.iter().position(|entry| entry.key == key);
            table.entries[at.expect("the entry was just found")] = new;
        }
        table.target()?;
        Ok(table)
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
        self.entries
            .iter()
            .flat_map(|entry| entry.conflicts.iter().map(move |conflict| (entry, conflict)))
    }
}

/// Opens a table by name or path. `from` is the file that extends it, relative to which a path is looked up.
fn open(name_or_path: &str, from: Option<&Path>, chain: &mut Vec<String>) -> Result<Draft, SpecError> {
    if let Some((name, text)) = BUILTIN.iter().find(|(name, _)| *name == name_or_path) {
        let file = format!("{name}.toml");
        chain.push(file.clone());
        return parse(&file, text, None, chain);
    }
    let looks_like_path = name_or_path.ends_with(".toml") || name_or_path.contains(['/', '\\']);
    let path = match from.and_then(Path::parent) {
        Some(folder) => folder.join(name_or_path),
        None => Path::new(name_or_path).to_owned(),
    };
    if !looks_like_path && !path.exists() {
        return Err(SpecError::UnknownTable {
            name: name_or_path.to_owned(),
            known: Table::builtin_names().into_iter().map(str::to_owned).collect(),
        });
    }
    let file = path.display().to_string();
    chain.push(file.clone());
    if chain.len() > CHAIN_MAX || chain[..chain.len() - 1].contains(&file) {
        return Err(SpecError::Circular { file, chain: chain.clone() });
    }
    let text = read_text(&path, &file)?;
    parse(&file, &text, Some(&path), chain)
}

fn read_text(path: &Path, file: &str) -> Result<String, SpecError> {
    let unreadable = |reason: String| SpecError::Unreadable { file: file.to_owned(), reason };
    let about = std::fs::metadata(path).map_err(|error| unreadable(error.to_string()))?;
    if about.is_dir() {
        return Err(unreadable("is a directory, not a hardware table".to_owned()));
    }
    if !about.is_file() {
        return Err(unreadable("is not a regular file".to_owned()));
    }
    if about.len() > FILE_BYTES_MAX {
        let reason = format!("is {} bytes long, a hardware table has at most {FILE_BYTES_MAX}", about.len());
        return Err(unreadable(reason));
    }
    let bytes = std::fs::read(path).map_err(|error| unreadable(error.to_string()))?;
    String::from_utf8(bytes).map_err(|_| unreadable("is not text in UTF-8".to_owned()))
}

fn parse(file: &str, text: &str, path: Option<&Path>, chain: &mut Vec<String>) -> Result<Draft, SpecError> {
    let mut top: toml::Table = toml::from_str(text).map_err(|error| SpecError::Syntax {
        file: file.to_owned(),
        line: error.span().map_or(1, |span| line_of(text, span.start)),
        message: error.message().replace('\n', ", "),
    })?;
    let name = take_text(file, &mut top, "name")?;
    let title = take_text(file, &mut top, "title")?;
    let extends = take_text(file, &mut top, "extends")?;
    let documents = take_documents(file, &mut top)?;
    let mut draft = match extends {
        Some(base) => open(&base, path, chain)?,
        None => Draft::default(),
    };
    draft.name = name.or_else(|| path.map(stem)).or(draft.name);
    draft.title = title.or(draft.title);
    draft.documents.extend(documents);
    flatten(file, "", top, &mut draft.entries)?;
    Ok(draft)
}

fn line_of(text: &str, byte: usize) -> usize {
    1 + text.bytes().take(byte).filter(|byte| *byte == b'\n').count()
}

fn stem(path: &Path) -> String {
    path.file_stem().map_or_else(String::new, |stem| stem.to_string_lossy().into_owned())
}

fn malformed(file: &str, key: &str, message: impl Into<String>) -> SpecError {
    SpecError::Malformed { file: file.to_owned(), key: key.to_owned(), message: message.into() }
}

fn take_text(file: &str, top: &mut toml::Table, key: &str) -> Result<Option<String>, SpecError> {
    match top.remove(key) {
        None => Ok(None),
        Some(toml::Value::String(text)) if !text.is_empty() => Ok(Some(text)),
        Some(_) => Err(malformed(file, key, "must be a text that is not empty")),
    }
}

fn take_documents(file: &str, top: &mut toml::Table) -> Result<BTreeMap<String, String>, SpecError> {
    match top.remove("documents") {
        None => Ok(BTreeMap::new()),
        Some(value) => BTreeMap::deserialize(value)
            .map_err(|_| malformed(file, "documents", "must give each document's name a text: where it is")),
    }
}

/// Turns nested tables into entries by dotted key. A table is an entry as soon as it holds one of the words that only
/// entries hold, so that an entry without value is reported as such.
fn flatten(
    file: &str,
    parent: &str,
    group: toml::Table,
    entries: &mut BTreeMap<String, Entry>,
) -> Result<(), SpecError> {
    for (name, value) in group {
        let key = if parent.is_empty() { name } else { format!("{parent}.{name}") };
        let toml::Value::Table(table) = value else {
            return Err(malformed(file, &key, "stands alone; an entry is { value, unit, status, source }"));
        };
        let is_entry = ["value", "unit", "status", "source"]
            .iter()
            .any(|word| table.get(*word).is_some_and(|inner| !inner.is_table()));
        if is_entry {
            let entry = entry_of(file, &key, table)?;
            entries.insert(key, entry);
        } else if table.is_empty() {
            return Err(malformed(file, &key, "is empty; an entry is { value, unit, status, source }"));
        } else {
            flatten(file, &key, table, entries)?;
        }
    }
    Ok(())
}

fn entry_of(file: &str, key: &str, table: toml::Table) -> Result<Entry, SpecError> {
    let raw = RawEntry::deserialize(toml::Value::Table(table))
        .map_err(|error| malformed(file, key, error.message().replace('\n', ", ")))?;
    if raw.source.trim().is_empty() || raw.unit.trim().is_empty() {
        return Err(malformed(file, key, "source and unit must not be empty"));
    }
    if let Some([low, high]) = raw.range
        && !(low <= high && low.is_finite() && high.is_finite())
    {
        return Err(malformed(file, key, format!("range [{low}, {high}] must ascend and be finite")));
    }
    let value_of = |value: &toml::Value| {
        Value::from_toml(value)
            .map(|value| value.settled(&raw.unit))
            .map_err(|message| malformed(file, key, message))
    };
    let conflicts = raw.conflicts.iter().map(|conflict| {
        Ok(Conflict {
            id: conflict.id.clone(),
            value: value_of(&conflict.value)?,
            source: conflict.source.clone(),
            why: conflict.why.clone(),
        })
    });
    Ok(Entry {
        key: key.to_owned(),
        value: value_of(&raw.value)?,
        conflicts: conflicts.collect::<Result<_, SpecError>>()?,
        unit: raw.unit,
        status: raw.status,
        source: raw.source,
        range: raw.range,
        note: raw.note,
        replaced: None,
    })
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

/// The three keys that are spelt most like `key`, if they are alike at all.
fn near<'k>(key: &str, known: impl Iterator<Item = &'k str>) -> Vec<String> {
    let last = key.rsplit('.').next().unwrap_or(key);
    let mut ranked = known
        .filter_map(|other| {
            let same_last = other.rsplit('.').next() == Some(last);
            let distance = edit_distance(key, other);
            let alike = distance * 3 <= key.len().max(3);
            (alike || same_last || (key.len() > 3 && other.contains(key))).then_some((distance, other))
        })
        .collect::<Vec<_>>();
    ranked.sort_unstable();
    ranked.into_iter().take(3).map(|(_, other)| other.to_owned()).collect()
}

/// Levenshtein distance in bytes; keys are short and ASCII.
fn edit_distance(a: &str, b: &str) -> usize {
    let mut row = (0..=b.len()).collect::<Vec<_>>();
    for (i, from) in a.bytes().enumerate() {
        let mut diagonal = row[0];
        row[0] = i + 1;
        for (j, to) in b.bytes().enumerate() {
            let replaced = diagonal + usize::from(from != to);
            diagonal = row[j + 1];
            row[j + 1] = replaced.min(diagonal + 1).min(row[j] + 1);
        }
    }
    row[b.len()]
}
