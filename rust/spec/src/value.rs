//! The values an entry can hold, and exact fractions.

use std::fmt;

use serde::{Deserialize, Serialize};

/// An exact positive fraction, such as the 13/3 cycles an element of `bn_aggr`.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub struct Ratio {
    /// Above the line.
    pub numerator: u32,
    /// Below the line; not zero.
    pub denominator: u32,
}

impl Ratio {
    /// `numerator / denominator` in lowest terms, or `None` if the denominator is zero.
    #[must_use]
    pub fn new(numerator: u32, denominator: u32) -> Option<Ratio> {
        if denominator == 0 {
            return None;
        }
        let divisor = greatest_common_divisor(numerator, denominator);
        Some(Ratio { numerator: numerator / divisor, denominator: denominator / divisor })
    }

    /// `count` times the fraction, rounded up: the cycles that `count` elements take.
    ///
    /// # Panics
    ///
    /// If the product needs more than 64 bits.
    #[must_use]
    pub fn times_ceil(self, count: u64) -> u64 {
        let product = u128::from(count) * u128::from(self.numerator);
        u64::try_from(product.div_ceil(u128::from(self.denominator)))
            .expect("a stream of elements takes fewer than 2^64 cycles")
    }

    /// The nearest float, for reports.
    #[must_use]
    pub fn as_f64(self) -> f64 {
        f64::from(self.numerator) / f64::from(self.denominator)
    }

    /// Reads `"13/3"` or `"2"`.
    pub(crate) fn parse(text: &str) -> Option<Ratio> {
        match text.split_once('/') {
            Some((above, below)) => Ratio::new(above.trim().parse().ok()?, below.trim().parse().ok()?),
            None => Ratio::new(text.trim().parse().ok()?, 1),
        }
    }

    /// The fraction that a float is exactly, if its denominator is at most 1024.
    pub(crate) fn from_f64(value: f64) -> Option<Ratio> {
        let scaled = value * 1024.0;
        let whole = scaled >= 0.0 && scaled <= f64::from(u32::MAX) && scaled.fract() == 0.0;
        // The cast is exact: the value was just found whole and in range.
        whole.then(|| Ratio::new(scaled as u32, 1024)).flatten()
    }
}

impl fmt::Display for Ratio {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if self.denominator == 1 {
            write!(f, "{}", self.numerator)
        } else {
            write!(f, "{}/{}", self.numerator, self.denominator)
        }
    }
}

fn greatest_common_divisor(a: u32, b: u32) -> u32 {
    if b == 0 { a } else { greatest_common_divisor(b, a % b) }
}

/// The value of an entry.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub enum Value {
    /// A whole number.
    Integer(i64),
    /// Any other number; finite.
    Float(f64),
    /// A capability that is there or not.
    Bool(bool),
    /// A name, or a fraction written as text in an override.
    Text(String),
    /// An exact fraction.
    Ratio(Ratio),
    /// Whole numbers.
    Integers(Vec<i64>),
    /// Names.
    Texts(Vec<String>),
}

impl Value {
    /// What the value is, for messages.
    #[must_use]
    pub fn kind(&self) -> &'static str {
        match self {
            Value::Integer(_) => "a whole number",
            Value::Float(_) => "a number",
            Value::Bool(_) => "true or false",
            Value::Text(_) => "a name",
            Value::Ratio(_) => "a fraction",
            Value::Integers(_) => "a list of whole numbers",
            Value::Texts(_) => "a list of names",
        }
    }

    /// The value as a float, if it is a number.
    #[must_use]
    pub fn as_f64(&self) -> Option<f64> {
        match self {
            // Exact up to 2^53; used for ranges and reports only.
            Value::Integer(value) => Some(*value as f64),
            Value::Float(value) => Some(*value),
            Value::Ratio(value) => Some(value.as_f64()),
            _ => None,
        }
    }

    /// The value from a parsed file, or what a file cannot hold.
    pub(crate) fn from_toml(value: &toml::Value) -> Result<Value, String> {
        match value {
            toml::Value::Integer(value) => Ok(Value::Integer(*value)),
            toml::Value::Float(value) if value.is_finite() => Ok(Value::Float(*value)),
            toml::Value::Float(value) => Err(format!("value is {value}, must be finite")),
            toml::Value::Boolean(value) => Ok(Value::Bool(*value)),
            toml::Value::String(value) => Ok(Value::Text(value.clone())),
            toml::Value::Array(items) => {
                let integers = items.iter().map(toml::Value::as_integer);
                let texts = items.iter().map(|item| item.as_str().map(str::to_owned));
                if let Some(integers) = integers.collect::<Option<Vec<_>>>() {
                    Ok(Value::Integers(integers))
                } else if let Some(texts) = texts.collect::<Option<Vec<_>>>() {
                    Ok(Value::Texts(texts))
                } else {
                    Err("value is a mixed list, must hold whole numbers only or names only".to_owned())
                }
            }
            toml::Value::Datetime(value) => Err(format!("value is the date {value}, must be a number, name or list")),
            toml::Value::Table(_) => Err("value is a table, must be a number, name or list".to_owned()),
        }
    }

    /// A number and the unit that are written together, such as `800 ns`.
    pub(crate) fn with_unit(text: &str) -> Option<(Value, &str)> {
        let (number, unit) = text.trim().split_once(char::is_whitespace)?;
        let whole = number.parse().map(Value::Integer).ok();
        let value = whole
            .or_else(|| number.parse::<f64>().ok().filter(|value| value.is_finite()).map(Value::Float))
            .or_else(|| Ratio::parse(number).map(Value::Ratio))?;
        Some((value, unit.trim()))
    }

    /// The value in the form the table keeps for its unit: a whole float becomes an integer where the old value was
    /// one, and text a fraction where the unit asks for one.
    pub(crate) fn settled(self, unit: &str) -> Value {
        match self {
            Value::Text(text) if unit == "cycles/element" => {
                Ratio::parse(&text).map_or(Value::Text(text), Value::Ratio)
            }
            Value::Integer(value) if unit == "cycles/element" => u32::try_from(value)
                .ok()
                .and_then(|value| Ratio::new(value, 1))
                .map_or(Value::Integer(value), Value::Ratio),
            Value::Float(value) if unit == "cycles/element" => {
                Ratio::from_f64(value).map_or(Value::Float(value), Value::Ratio)
            }
            // 2^53: below it a whole float is exactly one integer.
            Value::Float(value) if value.fract() == 0.0 && value.abs() < 9_007_199_254_740_992.0 => {
                Value::Integer(value as i64)
            }
            other => other,
        }
    }
}

impl fmt::Display for Value {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Value::Integer(value) => write!(f, "{value}"),
            Value::Float(value) => write!(f, "{value}"),
            Value::Bool(value) => write!(f, "{value}"),
            Value::Text(value) => write!(f, "{value}"),
            Value::Ratio(value) => write!(f, "{value}"),
            Value::Integers(values) => {
                let values = values.iter().map(i64::to_string).collect::<Vec<_>>();
                write!(f, "[{}]", values.join(", "))
            }
            Value::Texts(values) => write!(f, "[{}]", values.join(", ")),
        }
    }
}

impl From<i64> for Value {
    fn from(value: i64) -> Value {
        Value::Integer(value)
    }
}

impl From<f64> for Value {
    fn from(value: f64) -> Value {
        Value::Float(value)
    }
}

impl From<bool> for Value {
    fn from(value: bool) -> Value {
        Value::Bool(value)
    }
}

impl From<&str> for Value {
    fn from(value: &str) -> Value {
        Value::Text(value.to_owned())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn fractions_are_exact() {
        assert_eq!(Ratio::parse("13/3"), Ratio::new(13, 3));
        assert_eq!(Ratio::parse("2/8"), Ratio::new(1, 4));
        assert_eq!(Ratio::parse("1/0"), None);
        assert_eq!(Ratio::from_f64(0.25), Ratio::new(1, 4));
        assert_eq!(Ratio::from_f64(0.3), None);
        assert_eq!(Ratio::new(13, 3).map(|c| c.times_ceil(1)), Some(5));
        assert_eq!(Ratio::new(1, 4).map(|c| c.times_ceil(513)), Some(129));
    }

    #[test]
    fn a_number_may_name_its_unit() {
        assert_eq!(Value::with_unit("800 ns"), Some((Value::Integer(800), "ns")));
        assert_eq!(Value::with_unit(" 2.4e9  Hz "), Some((Value::Float(2.4e9), "Hz")));
        assert_eq!(
            Value::with_unit("1/4 cycles/element"),
            Ratio::new(1, 4).map(|c| (Value::Ratio(c), "cycles/element"))
        );
        assert_eq!(Value::with_unit("fast ns"), None);
        assert_eq!(Value::with_unit("800"), None);
    }

    #[test]
    fn whole_floats_become_integers() {
        assert_eq!(Value::Float(2.4e9).settled("Hz"), Value::Integer(2_400_000_000));
        assert_eq!(Value::Float(3.36).settled("ns"), Value::Float(3.36));
        assert_eq!(Value::from("1/4").settled("name"), Value::from("1/4"));
    }
}
