//! The nearest known word to one that was misspelt.
//!
//! Separate because policy keys, references and settings are all helped in the same way. It must
//! never take longer for a longer word: what is compared is bounded.

/// The longest word that is compared, in bytes.
const WORD_BYTES_MAX: usize = 64;

/// The word of `known` that `word` most likely stood for, if any is near enough.
pub fn nearest<'a>(word: &str, known: &[&'a str]) -> Option<&'a str> {
    if word.len() > WORD_BYTES_MAX {
        return None;
    }
    let folded = |text: &str| text.to_ascii_lowercase().replace('-', "_").into_bytes();
    let own = folded(word);
    let distances = known
        .iter()
        .filter(|near| near.len() <= WORD_BYTES_MAX)
        .map(|near| {
            let theirs = folded(near);
            (distance(&own, &theirs), own.len().max(theirs.len()), *near)
        });
    let (edits, longer, near) = distances.min_by_key(|(edits, ..)| *edits)?;
    // A third of the letters may differ: beyond that a suggestion misleads.
    (edits.saturating_mul(3) <= longer).then_some(near)
}

/// Insertions, deletions, replacements and swaps of neighbours that turn `a` into `b`.
fn distance(a: &[u8], b: &[u8]) -> usize {
    let mut before_last: Vec<usize> = Vec::new();
    let mut last: Vec<usize> = (0..=b.len()).collect();
    for (row, from) in a.iter().enumerate() {
        let mut current = vec![row.saturating_add(1)];
        for (column, to) in b.iter().enumerate() {
            let at = |line: &[usize], index: usize| line.get(index).copied().unwrap_or(usize::MAX);
            let replaced = at(&last, column).saturating_add(usize::from(from != to));
            let removed = at(&last, column.saturating_add(1)).saturating_add(1);
            let added = at(&current, column).saturating_add(1);
            let mut best = replaced.min(removed).min(added);
            let swapped = row > 0
                && column > 0
                && a.get(row.saturating_sub(1)) == Some(to)
                && b.get(column.saturating_sub(1)) == Some(from);
            if swapped {
                best = best.min(at(&before_last, column.saturating_sub(1)).saturating_add(1));
            }
            current.push(best);
        }
        before_last = std::mem::replace(&mut last, current);
    }
    last.last().copied().unwrap_or(usize::MAX)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn misspelt_words_find_their_like() {
        let known = ["limit", "reserved", "queue", "queue_wait", "drain_timeout"];
        for (word, want) in [
            ("limitt", Some("limit")),
            ("limti", Some("limit")),
            ("Limit", Some("limit")),
            ("queue-wait", Some("queue_wait")),
            ("drain_timeoutt", Some("drain_timeout")),
            ("colour", None),
            ("", None),
            (&"limit".repeat(1000), None),
        ] {
            assert_eq!(nearest(word, &known), want, "{word}");
        }
        assert_eq!(nearest("x", &[]), None);
    }
}
