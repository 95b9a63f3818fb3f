//! Which keys a wrong key may have meant.

/// The three keys that are spelt most like `key`, if they are alike at all.
pub(crate) fn near<'k>(key: &str, known: impl Iterator<Item = &'k str>) -> Vec<String> {
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

#[cfg(test)]
mod tests {
    use super::near;

    #[test]
    fn near_keys_come_first() {
        let keys = ["dma.gap_ns", "dma.done_ns", "tensor.clock_hz", "vector.clock_hz", "hbm.stacks"];
        assert_eq!(near("dma.gapp_ns", keys.into_iter())[0], "dma.gap_ns");
        assert_eq!(near("scaler.clock_hz", keys.into_iter()).len(), 2);
        assert!(near("nonsense", keys.into_iter()).is_empty());
    }
}
