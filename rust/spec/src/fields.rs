//! Typed fields read from entries.
//!
//! The structs of this crate *are* the schema of a table: `spec_structs!` gives each field the key made of its path,
//! checks kind and unit, and notes that the key was asked for. A key nobody asked for is unknown and refused, and the
//! order in which keys are asked for is the order in which a table lists them.
//!
//! Invariant: a field whose name ends in `_ps` is read from the key ending in `_ns`, because tables hold the unit the
//! documents print; every other field is read from the key of its own name.

use std::collections::BTreeMap;

use crate::error::SpecError;
use crate::table::Entry;
use crate::unit::{self, Unit};
use crate::value::{Ratio, Value};

/// Reads entries by key and remembers which keys exist.
pub(crate) struct Reader<'t> {
    file: &'t str,
    entries: &'t BTreeMap<String, Entry>,
    /// Every key asked for, in order, whether the table has it or not.
    pub(crate) asked: Vec<String>,
}

impl<'t> Reader<'t> {
    pub(crate) fn new(file: &'t str, entries: &'t BTreeMap<String, Entry>) -> Reader<'t> {
        Reader { file, entries, asked: Vec::new() }
    }

    /// Whether the table has any entry below a key.
    pub(crate) fn has_below(&self, key: &str) -> bool {
        let start = format!("{key}.");
        self.entries.range(start.clone()..).next().is_some_and(|(found, _)| found.starts_with(&start))
    }

    /// The value at a key, for messages.
    pub(crate) fn value(&self, key: &str) -> Option<&'t Value> {
        self.entries.get(key).map(|entry| &entry.value)
    }

    fn entry(&mut self, key: &str, unit: &str) -> Result<Option<&'t Entry>, SpecError> {
        self.asked.push(key.to_owned());
        let Some(entry) = self.entries.get(key) else {
            return Ok(None);
        };
        if entry.unit != unit {
            return Err(SpecError::Unit {
                file: self.file.to_owned(),
                key: key.to_owned(),
                found: entry.unit.clone(),
                expected: unit.to_owned(),
            });
        }
        Ok(Some(entry))
    }

    fn kind(&self, entry: &Entry, expected: &str) -> SpecError {
        SpecError::Kind {
            file: self.file.to_owned(),
            key: entry.key.clone(),
            found: format!("{} ({})", entry.value, entry.value.kind()),
            expected: expected.to_owned(),
        }
    }

    fn limit(&self, entry: &Entry, limit: String) -> SpecError {
        SpecError::Limit { file: self.file.to_owned(), key: entry.key.clone(), value: entry.value.to_string(), limit }
    }

    fn within(&self, entry: &Entry, value: f64, unit: &Unit) -> Result<(), SpecError> {
        if (unit.min..=unit.max).contains(&value) {
            Ok(())
        } else {
            Err(self.limit(entry, format!("from {} to {} {}", unit.min, unit.max, unit.name)))
        }
    }
}

/// What a key can be read as.
pub(crate) trait Field: Sized {
    /// The field of that key, or `None` where the table has no such key.
    ///
    /// # Errors
    ///
    /// If the entry has another kind or unit, or a value that cannot exist.
    fn find(reader: &mut Reader<'_>, key: &str) -> Result<Option<Self>, SpecError>;

    /// The field of that key.
    ///
    /// # Errors
    ///
    /// As `find`, and if the table has no such key.
    fn read(reader: &mut Reader<'_>, key: &str) -> Result<Self, SpecError> {
        let file = reader.file;
        Self::find(reader, key)?.ok_or_else(|| SpecError::MissingKey { file: file.to_owned(), key: key.to_owned() })
    }
}

impl Field for u64 {
    fn find(reader: &mut Reader<'_>, key: &str) -> Result<Option<u64>, SpecError> {
        let unit = unit::of_key(key).unwrap_or(&unit::COUNT);
        let Some(entry) = reader.entry(key, unit.name)? else {
            return Ok(None);
        };
        if unit.name == "ns" {
            let ns = entry.value.as_f64().ok_or_else(|| reader.kind(entry, "a number"))?;
            reader.within(entry, ns, unit)?;
            let ps = (ns * 1e3).round();
            if (ns * 1e3 - ps).abs() > 1e-3 {
                return Err(reader.limit(entry, "a whole number of picoseconds".to_owned()));
            }
            // The cast is exact: the value is whole and was found within 0 ..= 10^15.
            return Ok(Some(ps as u64));
        }
        let Value::Integer(value) = entry.value else {
            return Err(reader.kind(entry, "a whole number"));
        };
        reader.within(entry, value as f64, unit)?;
        u64::try_from(value).map(Some).map_err(|_| reader.limit(entry, "not negative".to_owned()))
    }
}

impl Field for u32 {
    fn find(reader: &mut Reader<'_>, key: &str) -> Result<Option<u32>, SpecError> {
        let Some(value) = u64::find(reader, key)? else {
            return Ok(None);
        };
        u32::try_from(value).map(Some).map_err(|_| SpecError::Limit {
            file: reader.file.to_owned(),
            key: key.to_owned(),
            value: value.to_string(),
            limit: format!("at most {}", u32::MAX),
        })
    }
}

impl Field for f64 {
    fn find(reader: &mut Reader<'_>, key: &str) -> Result<Option<f64>, SpecError> {
        let unit = unit::of_key(key).unwrap_or(&unit::COUNT);
        let Some(entry) = reader.entry(key, unit.name)? else {
            return Ok(None);
        };
        let value = match entry.value {
            Value::Integer(_) | Value::Float(_) => entry.value.as_f64(),
            _ => None,
        };
        let value = value.ok_or_else(|| reader.kind(entry, "a number"))?;
        reader.within(entry, value, unit)?;
        Ok(Some(value))
    }
}

impl Field for Ratio {
    fn find(reader: &mut Reader<'_>, key: &str) -> Result<Option<Ratio>, SpecError> {
        let unit = unit::of_key(key).unwrap_or(&unit::COUNT);
        let Some(entry) = reader.entry(key, unit.name)? else {
            return Ok(None);
        };
        let Value::Ratio(value) = entry.value else {
            return Err(reader.kind(entry, "a fraction such as \"1/4\""));
        };
        Ok(Some(value))
    }
}

impl Field for bool {
    fn find(reader: &mut Reader<'_>, key: &str) -> Result<Option<bool>, SpecError> {
        let Some(entry) = reader.entry(key, "bool")? else {
            return Ok(None);
        };
        match entry.value {
            Value::Bool(value) => Ok(Some(value)),
            _ => Err(reader.kind(entry, "true or false")),
        }
    }
}

impl Field for String {
    fn find(reader: &mut Reader<'_>, key: &str) -> Result<Option<String>, SpecError> {
        let Some(entry) = reader.entry(key, "name")? else {
            return Ok(None);
        };
        match &entry.value {
            Value::Text(value) => Ok(Some(value.clone())),
            _ => Err(reader.kind(entry, "a name")),
        }
    }
}

impl Field for Vec<u32> {
    fn find(reader: &mut Reader<'_>, key: &str) -> Result<Option<Vec<u32>>, SpecError> {
        let unit = unit::of_key(key).unwrap_or(&unit::COUNT);
        let Some(entry) = reader.entry(key, unit.name)? else {
            return Ok(None);
        };
        let values = match &entry.value {
            Value::Integers(values) => values.iter().map(|value| u32::try_from(*value).ok()).collect(),
            _ => None,
        };
        values.map(Some).ok_or_else(|| reader.kind(entry, "a list of whole numbers, none negative"))
    }
}

impl Field for Vec<String> {
    fn find(reader: &mut Reader<'_>, key: &str) -> Result<Option<Vec<String>>, SpecError> {
        let Some(entry) = reader.entry(key, "name")? else {
            return Ok(None);
        };
        match &entry.value {
            Value::Texts(values) => Ok(Some(values.clone())),
            // An empty list has no kind of its own.
            Value::Integers(values) if values.is_empty() => Ok(Some(Vec::new())),
            _ => Err(reader.kind(entry, "a list of names")),
        }
    }
}

impl<T: Field> Field for Option<T> {
    fn find(reader: &mut Reader<'_>, key: &str) -> Result<Option<Option<T>>, SpecError> {
        T::find(reader, key).map(Some)
    }
}

/// The key of a field: its own, or one below `parent`, in the unit that tables hold.
pub(crate) fn key_of(parent: &str, field: &str, own: &[&str]) -> String {
    if let [key] = own {
        return (*key).to_owned();
    }
    let field = match field.strip_suffix("_ps") {
        Some(stem) => format!("{stem}_ns"),
        None => field.to_owned(),
    };
    if parent.is_empty() { field } else { format!("{parent}.{field}") }
}

/// Defines structs of plain public fields that are read from the entries of the same names.
///
/// `field: Type = "key"` reads from that key instead of one below the struct's own. A struct that is optional in
/// another is absent when the table has no entry below its key, and complete otherwise.
macro_rules! spec_structs {
    ($(
        $(#[$meta:meta])*
        struct $name:ident {
            $( $(#[$field_meta:meta])* $field:ident : $type:ty $(= $key:literal)?, )*
        }
    )*) => {$(
        $(#[$meta])*
        #[derive(Debug, Clone, PartialEq)]
        pub struct $name {
            $( $(#[$field_meta])* pub $field: $type, )*
        }

        impl $crate::fields::Field for $name {
            fn find(
                reader: &mut $crate::fields::Reader<'_>,
                key: &str,
            ) -> Result<Option<Self>, $crate::error::SpecError> {
                if reader.has_below(key) { Self::read(reader, key).map(Some) } else { Ok(None) }
            }

            fn read(
                reader: &mut $crate::fields::Reader<'_>,
                key: &str,
            ) -> Result<Self, $crate::error::SpecError> {
                Ok($name {
                    $( $field: $crate::fields::Field::read(
                        reader,
                        &$crate::fields::key_of(key, stringify!($field), &[$($key)?]),
                    )?, )*
                })
            }
        }
    )*};
}

pub(crate) use spec_structs;
