//! Reading tables: from the crate or a file, completed by the table it extends, into entries by dotted key.

use std::collections::BTreeMap;
use std::path::Path;

use serde::Deserialize;

use crate::error::SpecError;
use crate::table::{Conflict, Entry, Status};
use crate::value::Value;

/// The tables that come with the crate: name and text.
pub(crate) const BUILTIN: [(&str, &str); 4] = [
    ("trn1", include_str!("../data/trn1.toml")),
    ("inf2", include_str!("../data/inf2.toml")),
    ("trn2", include_str!("../data/trn2.toml")),
    ("trn3", include_str!("../data/trn3.toml")),
];

/// A file larger than this is no hardware table.
const FILE_BYTES_MAX: u64 = 4 << 20;

/// More tables than this do not extend one another.
const CHAIN_MAX: usize = 8;

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
pub(crate) struct Draft {
    pub(crate) name: Option<String>,
    pub(crate) title: Option<String>,
    pub(crate) documents: BTreeMap<String, String>,
    pub(crate) entries: BTreeMap<String, Entry>,
}

/// Opens a table by name or path. `from` is the file that extends it, relative to which a path is looked up.
pub(crate) fn open(name_or_path: &str, from: Option<&Path>, chain: &mut Vec<String>) -> Result<Draft, SpecError> {
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
            known: BUILTIN.iter().map(|(name, _)| (*name).to_owned()).collect(),
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

/// Reads the text of a file. `path` is where it lies, `chain` the files opened so far, this one last.
pub(crate) fn parse(file: &str, text: &str, path: Option<&Path>, chain: &mut Vec<String>) -> Result<Draft, SpecError> {
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
        Value::from_toml(value).map(|value| value.settled(&raw.unit)).map_err(|message| malformed(file, key, message))
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

#[cfg(test)]
mod tests {
    use crate::error::SpecError;
    use crate::table::Table;

    /// A user's file on top of trn3, with one entry's text.
    fn extended(entry: &str) -> Result<Table, SpecError> {
        Table::parse("mine.toml", &format!("name = \"mine\"\nextends = \"trn3\"\n{entry}\n"))
    }

    /// The message with which a file is refused.
    fn refused(entry: &str) -> String {
        extended(entry).expect_err("the file must be refused").to_string()
    }

    #[test]
    fn a_user_file_changes_what_it_names() {
        let table = extended("[dma.gap_ns]\nvalue = 20\nunit = \"ns\"\nstatus = \"assumed\"\nsource = \"a guess\"\n")
            .expect("complete through trn3");
        let trn3 = Table::load("trn3").expect("comes with the crate");
        let changed = trn3.diff(&table);
        assert_eq!(changed.len(), 1);
        assert_eq!(changed[0].right.map(|entry| entry.source.as_str()), Some("a guess"));
        assert_eq!(table.name(), "mine");
    }

    #[test]
    fn what_an_entry_lacks_is_named() {
        let entry = |lines: &str| refused(&format!("[dma.gap_ns]\n{lines}"));
        assert_eq!(
            entry("value = 1\nunit = \"ns\"\nstatus = \"doc\""),
            "mine.toml: dma.gap_ns: missing field `source` [spec.entry]"
        );
        assert_eq!(
            entry("value = 1\nunit = \"ns\"\nsource = \"x\""),
            "mine.toml: dma.gap_ns: missing field `status` [spec.entry]"
        );
        assert_eq!(
            entry("value = 1\nstatus = \"doc\"\nsource = \"x\""),
            "mine.toml: dma.gap_ns: missing field `unit` [spec.entry]"
        );
        assert_eq!(
            entry("unit = \"ns\"\nstatus = \"doc\"\nsource = \"x\""),
            "mine.toml: dma.gap_ns: missing field `value` [spec.entry]"
        );
        assert_eq!(
            entry("value = 1\nunit = \"ns\"\nstatus = \"doc\"\nsource = \" \""),
            "mine.toml: dma.gap_ns: source and unit must not be empty [spec.entry]"
        );
        assert!(entry("value = 1\nunit = \"ns\"\nstatus = \"doc\"\nsource = \"x\"\nsauce = 1").contains("sauce"));
        assert!(entry("value = 1\nunit = \"ns\"\nstatus = \"override\"\nsource = \"x\"").contains("override"));
        assert!(entry("value = inf\nunit = \"ns\"\nstatus = \"doc\"\nsource = \"x\"").contains("must be finite"));
        assert!(entry("value = [1, \"a\"]\nunit = \"ns\"\nstatus = \"doc\"\nsource = \"x\"").contains("mixed list"));
        assert!(
            entry("value = 1\nunit = \"ns\"\nstatus = \"doc\"\nsource = \"x\"\nrange = [2, 1]").contains("must ascend")
        );
    }

    #[test]
    fn unit_and_kind_belong_to_the_key() {
        let entry = |key: &str, value: &str, unit: &str| {
            refused(&format!("[{key}]\nvalue = {value}\nunit = \"{unit}\"\nstatus = \"doc\"\nsource = \"x\""))
        };
        assert_eq!(
            entry("dma.gap_ns", "1", "cycles"),
            "mine.toml: dma.gap_ns: unit is \"cycles\", must be \"ns\" [spec.unit]"
        );
        assert_eq!(
            entry("psum.banks", "\"eight\"", "count"),
            "mine.toml: psum.banks: value is eight (a name), must be a whole number [spec.kind]"
        );
        assert_eq!(
            entry("psum.banks", "-8", "count"),
            "mine.toml: psum.banks: value is -8, must be from 0 to 4294967295 count [spec.limit]"
        );
        assert_eq!(
            entry("hbm.stacks", "3", "count"),
            "mine.toml: hbm.stacks: value is 3, must divide chip.cores [spec.consistent]"
        );
    }

    #[test]
    fn keys_are_known_or_refused() {
        let entry = "value = 1\nunit = \"ns\"\nstatus = \"doc\"\nsource = \"x\"";
        assert_eq!(
            refused(&format!("[dma.gapp_ns]\n{entry}")),
            "mine.toml: dma.gapp_ns: no such key; did you mean dma.gap_ns? [spec.unknown_key]"
        );
        let twice = refused(&format!("[dma.gap_ns]\n{entry}\n[dma.gap_ns]\n{entry}"));
        assert!(twice.starts_with("mine.toml: line 8: duplicate key"), "{twice}");
        assert!(refused("[dma]\ngap_ns = 5").contains("dma.gap_ns: stands alone"));
        assert!(refused("[dma.gap_ns]").contains("dma.gap_ns: is empty"));
        assert!(refused("documents = 3").starts_with("mine.toml: documents: "));
    }

    #[test]
    fn broken_text_names_its_line() {
        let cut = refused("[dma.gap_ns]\nvalue = ");
        assert!(cut.starts_with("mine.toml: line 4: "), "{cut}");
        let empty = Table::parse("empty.toml", "").expect_err("an empty table is not complete");
        assert_eq!(empty.rule(), "spec.missing_key");
    }

    #[test]
    fn every_shipped_file_cut_short_is_refused() {
        for (name, text) in super::BUILTIN {
            for at in (0..text.len() - 1).step_by(997) {
                let Some(part) = text.get(..at) else { continue };
                assert!(Table::parse(name, part).is_err(), "{name} cut at {at}");
            }
        }
    }

    #[test]
    fn names_and_paths_that_lead_nowhere() {
        let message = |name| Table::load(name).expect_err("must be refused").to_string();
        assert_eq!(
            message("trn9"),
            "no hardware table is named \"trn9\"; known: trn1, inf2, trn2, trn3; or give the path of a .toml file [spec.name]"
        );
        assert!(message("nowhere/mine.toml").contains("[spec.file]"));
        assert!(message("./src").contains("is a directory"));
    }
}
