//! Named counts, in the order they were first named.
//!
//! A component names its counters once and then adds by id. Iteration order is the order of naming, so reports and
//! their diffs do not depend on a hash. Adding saturates: a counter that is full stays full.

use std::collections::BTreeMap;

/// One counter of a [`Counters`].
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct CounterId(u32);

/// Named 64-bit counts.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Counters {
    values: Vec<(String, u64)>,
    ids: BTreeMap<String, CounterId>,
}

impl Counters {
    /// No counters yet.
    #[must_use]
    pub fn new() -> Counters {
        Counters::default()
    }

    /// The counter called `name`; it is made, at zero, if there is none.
    ///
    /// # Panics
    ///
    /// If there are 2³² counters.
    pub fn id(&mut self, name: &str) -> CounterId {
        if let Some(&id) = self.ids.get(name) {
            return id;
        }
        let id = CounterId(u32::try_from(self.values.len()).expect("fewer than 2^32 counters"));
        self.values.push((name.to_owned(), 0));
        self.ids.insert(name.to_owned(), id);
        id
    }

    /// Adds to a counter.
    ///
    /// # Panics
    ///
    /// If `id` comes from another `Counters` that has more.
    pub fn add(&mut self, id: CounterId, count: u64) {
        let value = &mut self.values[id.0 as usize].1;
        *value = value.saturating_add(count);
    }

    /// Adds to the counter called `name`, which is made if there is none.
    pub fn add_named(&mut self, name: &str, count: u64) {
        let id = self.id(name);
        self.add(id, count);
    }

    /// The count under `name`; `None` if nobody named it.
    #[must_use]
    pub fn get(&self, name: &str) -> Option<u64> {
        self.ids.get(name).map(|id| self.values[id.0 as usize].1)
    }

    /// Name and count of each counter, in the order of naming.
    pub fn iter(&self) -> impl ExactSizeIterator<Item = (&str, u64)> {
        self.values.iter().map(|(name, value)| (name.as_str(), *value))
    }

    /// Number of counters.
    #[must_use]
    pub fn len(&self) -> usize {
        self.values.len()
    }

    /// Whether nothing is counted.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.values.is_empty()
    }

    /// Adds each counter of `other` to the one called `prefix` followed by its name.
    pub fn merge(&mut self, prefix: &str, other: &Counters) {
        for (name, value) in other.iter() {
            self.add_named(&format!("{prefix}{name}"), value);
        }
    }

    /// Sets every counter to zero; names and ids stay.
    pub fn reset(&mut self) {
        for (_, value) in &mut self.values {
            *value = 0;
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn counters_keep_the_order_of_naming() {
        let mut counters = Counters::new();
        let loaves = counters.id("oven.loaves");
        counters.add_named("counter.sold", 2);
        counters.add(loaves, 3);
        counters.add_named("oven.loaves", 4);
        assert_eq!(counters.iter().collect::<Vec<_>>(), [("oven.loaves", 7), ("counter.sold", 2)]);
        assert_eq!((counters.get("oven.loaves"), counters.get("oven.burnt")), (Some(7), None));
    }

    #[test]
    fn counters_merge_under_a_prefix_and_saturate() {
        let (mut shop, mut oven) = (Counters::new(), Counters::new());
        oven.add_named("loaves", u64::MAX - 1);
        shop.merge("oven.", &oven);
        shop.merge("oven.", &oven);
        assert_eq!(shop.iter().collect::<Vec<_>>(), [("oven.loaves", u64::MAX)]);
        shop.reset();
        assert_eq!((shop.get("oven.loaves"), shop.len()), (Some(0), 1));
    }
}
