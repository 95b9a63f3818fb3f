//! The functions that ScalarE applies: those of the public list, and those that `nki.language` adds as calls.
//!
//! How the latter are carried out is not published; here they are exact functions of one number at the cost of an
//! activation.

use crate::operator::canonical;
use trn3_num::functions::{self, Function};

/// A function that ScalarE applies to a tile.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Applied {
    /// One of the public list of activation functions.
    Engine(Function),
    /// One that exists as a call of `nki.language` only.
    Language(Added),
}

/// What `nki.language` adds.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[repr(u8)]
pub enum Added {
    /// The sine of any number.
    Sin,
    /// The cosine.
    Cos,
    /// The tangent.
    Tan,
    /// Towards minus infinity.
    Floor,
    /// Towards infinity.
    Ceil,
    /// Towards zero.
    Trunc,
}

const ADDED: [(Added, &str); 6] = [
    (Added::Sin, "sin_of_any"),
    (Added::Cos, "cos"),
    (Added::Tan, "tan"),
    (Added::Floor, "floor"),
    (Added::Ceil, "ceil"),
    (Added::Trunc, "trunc"),
];

/// Codes from here on are those of added functions.
const ADDED_FIRST: u32 = 128;

impl Applied {
    /// The function of that name.
    pub fn from_name(name: &str) -> Option<Applied> {
        let added = || ADDED.iter().find(|(_, known)| *known == name).map(|&(added, _)| Applied::Language(added));
        Function::from_name(name).map(Applied::Engine).or_else(added)
    }

    /// Its name.
    pub fn name(self) -> &'static str {
        match self {
            Applied::Engine(function) => function.name(),
            Applied::Language(added) => ADDED[added as usize].1,
        }
    }

    /// The function whose table it needs; of those that the language adds, an assumption: angles go through the sine's
    /// table, rounding needs none.
    pub(crate) fn table_of(self) -> Option<Function> {
        match self {
            Applied::Engine(function) => Some(function),
            Applied::Language(Added::Sin | Added::Cos | Added::Tan) => Some(Function::Sin),
            Applied::Language(Added::Floor | Added::Ceil | Added::Trunc) => None,
        }
    }

    /// How an instruction keeps it.
    pub(crate) fn code(self) -> u32 {
        match self {
            Applied::Engine(function) => u32::from(function.code()),
            Applied::Language(added) => ADDED_FIRST + added as u32,
        }
    }

    /// The function of a recorded code.
    ///
    /// # Panics
    /// There is none: codes come from our own recorder.
    pub(crate) fn from_code(code: u32) -> Applied {
        match code.checked_sub(ADDED_FIRST) {
            Some(added) => Applied::Language(ADDED[added as usize].0),
            None => Applied::Engine(Function::from_code(code as u8).expect("the recorder stored a function's code")),
        }
    }

    /// Replaces every value by the function's.
    pub(crate) fn apply(self, values: &mut [f32]) {
        let each = |values: &mut [f32], f: fn(f32) -> f32| values.iter_mut().for_each(|x| *x = canonical(f(*x)));
        match self {
            Applied::Engine(function) => functions::evaluate_slice(function, values),
            Applied::Language(Added::Sin) => functions::sin_reduced_slice(values),
            Applied::Language(Added::Cos) => functions::cos_slice(values),
            Applied::Language(Added::Tan) => functions::tan_slice(values),
            Applied::Language(Added::Floor) => each(values, f32::floor),
            Applied::Language(Added::Ceil) => each(values, f32::ceil),
            Applied::Language(Added::Trunc) => each(values, f32::trunc),
        }
    }
}
