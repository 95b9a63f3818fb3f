//! What is said to a user whose program breaks a rule.

use std::borrow::Cow;
use std::fmt;
use std::ops::{Deref, DerefMut};

/// Whose fault a violation is; Python has one exception class for each.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Fault {
    /// The program breaks a documented rule.
    Rule,
    /// The program needs more memory than there is.
    Capacity,
    /// The hardware has it; trn3 chose not to.
    Unsupported,
    /// The hardware has it; trn3 does not have it yet.
    Unimplemented,
    /// The public documents do not say what happens.
    Unspecified,
    /// Bytes that nothing wrote reached an output.
    Uninitialized,
    /// Nothing can go on.
    Deadlock,
    /// Nothing orders two accesses.
    Race,
}

/// A broken rule: instruction, operand, value, limit and fix, in that order.
///
/// Boxed, so that a result that carries one is small; the parts are fields of what it dereferences to.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Violation(Box<Parts>);

/// The parts of a violation.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Parts {
    /// Which kind of exception this becomes.
    pub fault: Fault,
    /// Id of the rule, such as `matmul.moving.free_max`.
    pub rule: &'static str,
    /// The instruction or the method of a tensor.
    pub instruction: &'static str,
    /// The operand or argument.
    pub operand: Cow<'static, str>,
    /// What the operand is.
    pub value: String,
    /// What the rule allows.
    pub limit: String,
    /// What to do about it.
    pub fix: Cow<'static, str>,
}

impl Deref for Violation {
    type Target = Parts;

    fn deref(&self) -> &Parts {
        &self.0
    }
}

impl DerefMut for Violation {
    fn deref_mut(&mut self) -> &mut Parts {
        &mut self.0
    }
}

impl Violation {
    /// A broken rule of the documents.
    pub fn new(
        rule: &'static str,
        operand: impl Into<Cow<'static, str>>,
        value: impl Into<String>,
        limit: impl Into<String>,
        fix: impl Into<Cow<'static, str>>,
    ) -> Self {
        Violation(Box::new(Parts {
            fault: Fault::Rule,
            rule,
            instruction: "",
            operand: operand.into(),
            value: value.into(),
            limit: limit.into(),
            fix: fix.into(),
        }))
    }

    /// The same, of another kind.
    pub fn of(mut self, fault: Fault) -> Self {
        self.fault = fault;
        self
    }

    /// The same, said of `instruction` unless an inner call has named one.
    pub fn in_instruction(mut self, instruction: &'static str) -> Self {
        if self.instruction.is_empty() {
            self.instruction = instruction;
        }
        self
    }
}

impl fmt::Display for Violation {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let parts = [self.instruction, &self.operand, &self.value];
        let mut first = true;
        for part in parts.into_iter().filter(|part| !part.is_empty()) {
            if !first {
                f.write_str(": ")?;
            }
            first = false;
            f.write_str(part)?;
        }
        if !self.limit.is_empty() {
            write!(f, ", {}", self.limit)?;
        }
        if !self.fix.is_empty() {
            write!(f, "; {}", self.fix)?;
        }
        write!(f, " [{}]", self.rule)
    }
}

impl std::error::Error for Violation {}

#[cfg(test)]
mod tests {
    use super::Violation;

    #[test]
    fn the_message_keeps_the_order_of_its_parts() {
        let broken = Violation::new(
            "matmul.moving.free_max",
            "moving",
            "free size is 768",
            "limit 512 on trn2",
            "split the tile along its free dimension",
        )
        .in_instruction("nc_matmul");
        assert_eq!(
            broken.to_string(),
            "nc_matmul: moving: free size is 768, limit 512 on trn2; split the tile along its free dimension \
             [matmul.moving.free_max]"
        );
    }
}
