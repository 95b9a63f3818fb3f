//! What can be wrong with a hardware table.

use thiserror::Error;

/// A hardware table is wrong, or does not have what was asked for.
///
/// Every message names the file, the key if there is one, and the rule in brackets.
#[derive(Debug, Clone, PartialEq, Error)]
#[non_exhaustive]
pub enum SpecError {
    /// There is no table of that name.
    #[error("no hardware table is named {name:?}; known: {}; or give the path of a .toml file [spec.name]", known.join(", "))]
    UnknownTable {
        /// The name that was asked for.
        name: String,
        /// The names of the tables that come with the package.
        known: Vec<String>,
    },
    /// The file cannot be read as text.
    #[error("{file}: {reason} [spec.file]")]
    Unreadable {
        /// The path that was given.
        file: String,
        /// Why not.
        reason: String,
    },
    /// The file is not TOML.
    #[error("{file}: line {line}: {message} [spec.toml]")]
    Syntax {
        /// The file's name.
        file: String,
        /// The line, from 1.
        line: usize,
        /// The parser's message.
        message: String,
    },
    /// An entry, or something where an entry is expected, has the wrong form.
    #[error("{file}: {key}: {message} [spec.entry]")]
    Malformed {
        /// The file's name.
        file: String,
        /// The dotted key.
        key: String,
        /// What is missing or not known.
        message: String,
    },
    /// The key is not one of the keys a table has.
    #[error("{file}: {key}: no such key{} [spec.unknown_key]", near_text(near))]
    UnknownKey {
        /// The file's name.
        file: String,
        /// The dotted key.
        key: String,
        /// Keys that are spelt alike.
        near: Vec<String>,
    },
    /// A key that every table has is missing.
    #[error(
        "{file}: {key}: missing; give it, or name a table to take it from with extends = \"...\" [spec.missing_key]"
    )]
    MissingKey {
        /// The file's name.
        file: String,
        /// The dotted key.
        key: String,
    },
    /// The unit is not the one the key's name ends with.
    #[error("{file}: {key}: unit is {found:?}, must be {expected:?} [spec.unit]")]
    Unit {
        /// The file's name.
        file: String,
        /// The dotted key.
        key: String,
        /// The unit in the file.
        found: String,
        /// The unit that belongs to the key.
        expected: String,
    },
    /// The value is of another kind than the key holds.
    #[error("{file}: {key}: value is {found}, must be {expected} [spec.kind]")]
    Kind {
        /// The file's name.
        file: String,
        /// The dotted key.
        key: String,
        /// The value as text.
        found: String,
        /// The kind that belongs to the key.
        expected: String,
    },
    /// The value cannot exist for a key of this unit.
    #[error("{file}: {key}: value is {value}, must be {limit} [spec.limit]")]
    Limit {
        /// The file's name.
        file: String,
        /// The dotted key.
        key: String,
        /// The value as text.
        value: String,
        /// What is allowed.
        limit: String,
    },
    /// Entries contradict each other.
    #[error("{file}: {key}: {message} [spec.consistent]")]
    Inconsistent {
        /// The file's name.
        file: String,
        /// The dotted key at which it was noticed.
        key: String,
        /// What does not fit.
        message: String,
    },
    /// Tables extend one another in a circle, or in too long a chain.
    #[error("{file}: extends itself through {} [spec.extends]", chain.join(" -> "))]
    Circular {
        /// The file's name.
        file: String,
        /// The files in the order they were opened.
        chain: Vec<String>,
    },
}

impl SpecError {
    /// The id of the rule that was broken.
    #[must_use]
    pub fn rule(&self) -> &'static str {
        match self {
            SpecError::UnknownTable { .. } => "spec.name",
            SpecError::Unreadable { .. } => "spec.file",
            SpecError::Syntax { .. } => "spec.toml",
            SpecError::Malformed { .. } => "spec.entry",
            SpecError::UnknownKey { .. } => "spec.unknown_key",
            SpecError::MissingKey { .. } => "spec.missing_key",
            SpecError::Unit { .. } => "spec.unit",
            SpecError::Kind { .. } => "spec.kind",
            SpecError::Limit { .. } => "spec.limit",
            SpecError::Inconsistent { .. } => "spec.consistent",
            SpecError::Circular { .. } => "spec.extends",
        }
    }
}

fn near_text(near: &[String]) -> String {
    if near.is_empty() { String::new() } else { format!("; did you mean {}?", near.join(" or ")) }
}
