//! What a caller hands to an instruction, and typed access to it.

use crate::rules;
use smallvec::SmallVec;
use trn3_mem::{View, Violation};
use trn3_num::Dtype;

/// One argument, as the caller's language has it.
#[derive(Debug, Clone, PartialEq)]
pub enum Argument {
    /// Not given, or `None`.
    None,
    /// A truth value.
    Bool(bool),
    /// An integer.
    Int(i64),
    /// A floating-point number.
    Float(f64),
    /// Text.
    Text(String),
    /// A function object used as an operator, by its name.
    Operator(String),
    /// A member of an enumeration: its type and name.
    Member(String, String),
    /// A data type.
    Dtype(Dtype),
    /// A tensor or view.
    View(Box<View>),
    /// A register of the sequencers.
    Register(Register),
    /// A list or tuple.
    List(Vec<Argument>),
    /// Something else; its type's name.
    Other(String),
}

impl Argument {
    /// How a message shows it.
    pub fn describe(&self) -> String {
        match self {
            Argument::None => "None".into(),
            Argument::Bool(value) => (if *value { "True" } else { "False" }).into(),
            Argument::Int(value) => value.to_string(),
            Argument::Float(value) => format!("{value:?}"),
            Argument::Text(text) => format!("'{text}'"),
            Argument::Operator(name) => format!("operator {name}"),
            Argument::Member(kind, name) => format!("{kind}.{name}"),
            Argument::Dtype(dtype) => dtype.name().into(),
            Argument::View(view) => {
                format!("{} tensor {:?} in {}", view.dtype.name(), view.shape().as_slice(), view.space.name())
            }
            Argument::List(items) => {
                format!("({})", items.iter().map(Argument::describe).collect::<Vec<_>>().join(", "))
            }
            Argument::Register(register) => format!("register {}", register.number),
            Argument::Other(kind) => format!("a {kind}"),
        }
    }
}

/// A register of the sequencers, as a kernel handles it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Register {
    /// Its number within the kernel.
    pub number: u32,
    /// Whether a loop counts in it.
    pub frozen: bool,
}

/// The arguments of one call, in the order of the instruction's parameters.
#[derive(Debug)]
pub struct Arguments<'a> {
    names: &'static [Parameter],
    values: &'a [Argument],
}

/// How an instruction uses a parameter.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Use {
    /// A tile that is read.
    Read,
    /// A tile that is written.
    Write,
    /// A constant or a `(P, 1)` tile.
    VectorOperand,
    /// A constant of the instruction.
    Constant,
}

/// A parameter of an instruction, from which Python's signature and the reference page are made.
#[derive(Debug, Clone, Copy)]
pub struct Parameter {
    /// Its name in the public reference.
    pub name: &'static str,
    /// Its default, as Python writes it.
    pub default: Option<&'static str>,
    /// How it is used.
    pub usage: Use,
    /// Dtype, space, shape and meaning, one paragraph.
    pub doc: &'static str,
}

impl<'a> Arguments<'a> {
    /// Pairs parameters with arguments; missing ones are `None`.
    pub fn new(names: &'static [Parameter], values: &'a [Argument]) -> Self {
        Arguments { names, values }
    }

    /// The argument of that name.
    pub fn get(&self, name: &'static str) -> &'a Argument {
        let at = self.names.iter().position(|parameter| parameter.name == name);
        let at = at.unwrap_or_else(|| panic!("no parameter {name} in the instruction's table"));
        self.values.get(at).unwrap_or(&Argument::None)
    }

    /// Whether the instruction has a parameter of that name.
    pub fn has(&self, name: &str) -> bool {
        self.names.iter().any(|parameter| parameter.name == name)
    }

    fn wrong(&self, name: &'static str, wanted: &str) -> Violation {
        Violation::new(
            rules::ARGUMENT_TYPE.id,
            name,
            format!("is {}", self.get(name).describe()),
            format!("must be {wanted}"),
            "see the instruction's reference",
        )
    }

    /// A tile.
    ///
    /// # Errors
    /// Something else was given.
    pub fn view(&self, name: &'static str) -> Result<&'a View, Violation> {
        match self.get(name) {
            Argument::View(view) => Ok(view),
            _ => Err(self.wrong(name, "a tensor")),
        }
    }

    /// A tile, or nothing.
    ///
    /// # Errors
    /// Something else was given.
    pub fn view_or_none(&self, name: &'static str) -> Result<Option<&'a View>, Violation> {
        match self.get(name) {
            Argument::None => Ok(None),
            _ => self.view(name).map(Some),
        }
    }

    /// A register.
    ///
    /// # Errors
    /// Something else was given.
    pub fn register(&self, name: &'static str) -> Result<Register, Violation> {
        match self.get(name) {
            Argument::Register(register) => Ok(*register),
            _ => Err(self.wrong(name, "a register")),
        }
    }

    /// A truth value; `None` counts as false.
    ///
    /// # Errors
    /// Something else was given.
    pub fn flag(&self, name: &'static str) -> Result<bool, Violation> {
        match self.get(name) {
            Argument::None => Ok(false),
            Argument::Bool(value) => Ok(*value),
            Argument::Int(value @ (0 | 1)) => Ok(*value == 1),
            _ => Err(self.wrong(name, "True or False")),
        }
    }

    /// True, False or `None`.
    ///
    /// # Errors
    /// Something else was given.
    pub fn flag_or_none(&self, name: &'static str) -> Result<Option<bool>, Violation> {
        match self.get(name) {
            Argument::None => Ok(None),
            _ => self.flag(name).map(Some),
        }
    }

    /// An integer.
    ///
    /// # Errors
    /// Something else was given.
    pub fn int(&self, name: &'static str) -> Result<i64, Violation> {
        match self.get(name) {
            Argument::Int(value) => Ok(*value),
            Argument::Bool(value) => Ok(i64::from(*value)),
            _ => Err(self.wrong(name, "an integer")),
        }
    }

    /// A number.
    ///
    /// # Errors
    /// Something else was given.
    pub fn number(&self, name: &'static str) -> Result<f64, Violation> {
        match self.get(name) {
            Argument::Float(value) => Ok(*value),
            _ => self.int(name).map(|value| value as f64).map_err(|_| self.wrong(name, "a number")),
        }
    }

    /// A list of integers; one integer counts as a list.
    ///
    /// # Errors
    /// Something else was given.
    pub fn ints(&self, name: &'static str) -> Result<SmallVec<[i64; 8]>, Violation> {
        match self.get(name) {
            Argument::None => Ok(SmallVec::new()),
            Argument::List(items) => items
                .iter()
                .map(|item| match item {
                    Argument::Int(value) => Ok(*value),
                    _ => Err(self.wrong(name, "integers")),
                })
                .collect(),
            _ => self.int(name).map(|value| SmallVec::from_slice(&[value])),
        }
    }

    /// `[step, count]` pairs.
    ///
    /// # Errors
    /// Something else was given.
    pub fn pairs(&self, name: &'static str) -> Result<SmallVec<[(i64, i64); 5]>, Violation> {
        let Argument::List(items) = self.get(name) else { return Err(self.wrong(name, "[step, count] pairs")) };
        items
            .iter()
            .map(|item| match item {
                Argument::List(pair) => match pair.as_slice() {
                    [Argument::Int(step), Argument::Int(count)] => Ok((*step, *count)),
                    _ => Err(self.wrong(name, "[step, count] pairs")),
                },
                _ => Err(self.wrong(name, "[step, count] pairs")),
            })
            .collect()
    }

    /// The name of an operator, or nothing.
    ///
    /// # Errors
    /// Something else was given.
    pub fn operator_or_none(&self, name: &'static str) -> Result<Option<&'a str>, Violation> {
        match self.get(name) {
            Argument::None => Ok(None),
            Argument::Operator(operator) => Ok(Some(operator)),
            _ => Err(self.wrong(name, "an operator such as nl.add")),
        }
    }

    /// The member of an enumeration, or nothing.
    ///
    /// # Errors
    /// A member of another enumeration, or something else (raw integers are not accepted).
    pub fn member(&self, name: &'static str, kind: &'static str) -> Result<Option<&'a str>, Violation> {
        match self.get(name) {
            Argument::None => Ok(None),
            Argument::Member(given, member) if given == kind => Ok(Some(member)),
            _ => Err(self.wrong(name, &format!("a member of nki.isa.{kind}"))),
        }
    }
}
