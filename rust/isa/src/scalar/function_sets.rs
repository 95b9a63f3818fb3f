//! Which activation functions share a table, so that ScalarE evaluates them without loading another.

use trn3_num::functions::Function;
use trn3_spec::TableLoadSpec;

/// A set of functions whose tables are loaded together.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct FunctionSet(u8);

/// The set of each function.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct FunctionSets {
    /// By code; no set means that every set has the function.
    sets: Vec<Option<FunctionSet>>,
}

impl FunctionSets {
    /// The sets of a hardware table. A function that it names nowhere is in the last set, with the rest.
    pub fn new(table: &TableLoadSpec) -> FunctionSets {
        let sets = table.sets();
        let set_of = |function: &Function| {
            let listed = |names: &[String]| names.iter().any(|name| name == function.name());
            if listed(&table.every_set) {
                return None;
            }
            let at = sets.iter().position(|names| listed(names)).unwrap_or(sets.len() - 1);
            Some(FunctionSet(at as u8))
        };
        let size = Function::ALL.iter().map(|function| usize::from(function.code()) + 1).max().unwrap_or(0);
        let mut made = FunctionSets { sets: vec![None; size] };
        for function in Function::ALL {
            made.sets[usize::from(function.code())] = set_of(function);
        }
        made
    }

    /// The set that must be loaded for a function; none if every set has it.
    pub fn of(&self, function: Function) -> Option<FunctionSet> {
        self.sets[usize::from(function.code())]
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use trn3_spec::{Table, Target};

    #[test]
    fn every_table_names_every_function_once() {
        for name in Table::builtin_names() {
            let table = Target::load(name).expect("a table of ours").core.scalar.table;
            let lists: Vec<&[String]> = table.sets().into_iter().chain([table.every_set.as_slice()]).collect();
            for function in Function::ALL {
                let count = lists.iter().flat_map(|names| names.iter()).filter(|name| *name == function.name()).count();
                assert_eq!(count, 1, "{name}: {}", function.name());
            }
            for listed in lists.iter().flat_map(|names| names.iter()) {
                assert!(Function::from_name(listed).is_some(), "{name}: {listed} is no function");
            }
        }
    }

    #[test]
    fn exp_and_tanh_share_a_set_that_gelu_is_not_in() {
        let sets = FunctionSets::new(&Target::load("trn3").expect("a table of ours").core.scalar.table);
        assert_eq!(sets.of(Function::Exp), sets.of(Function::Tanh));
        assert_ne!(sets.of(Function::Exp), sets.of(Function::Gelu));
        assert_eq!(sets.of(Function::Square), None);
    }
}
