//! The known word nearest to a misspelt one.
//!
//! Separate because flags' variables, the settings file and the API's lists all ask for it. It
//! must never be asked about caller-made text without a bound.

/// Longest word that is compared, in characters: the work grows with its square.
const WORD_CHARS_MAX: usize = 64;

/// The known word nearest to `word`, when one is near enough to have been meant.
pub(crate) fn nearest<'a>(word: &str, known: impl Iterator<Item = &'a str>) -> Option<&'a str> {
    let word: Vec<char> = word.chars().take(WORD_CHARS_MAX).collect();
    let allowed = (word.len() / 3).max(1);
    known
        .map(|candidate| (distance(&word, candidate), candidate))
        .filter(|(steps, _)| *steps <= allowed)
        .min_by_key(|(steps, _)| *steps)
        .map(|(_, candidate)| candidate)
}

/// How many letters must be put in, taken out or replaced.
fn distance(word: &[char], other: &str) -> usize {
    let other: Vec<char> = other.chars().take(WORD_CHARS_MAX).collect();
    let mut previous: Vec<usize> = (0..=other.len()).collect();
    for (row, letter) in word.iter().enumerate() {
        let mut diagonal = row;
        let mut left = row.saturating_add(1);
        let mut current = vec![left];
        for (above, theirs) in previous.iter().skip(1).zip(&other) {
            let replaced = diagonal.saturating_add(usize::from(letter != theirs));
            left = replaced
                .min(above.saturating_add(1))
                .min(left.saturating_add(1));
            current.push(left);
            diagonal = *above;
        }
        previous = current;
    }
    previous.last().copied().unwrap_or(0)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_slip_is_understood_and_a_stranger_is_not() {
        let known = ["drain_timeout", "data_dir", "dashboard", "limit"];
        for (word, want) in [
            ("drain_timeoutt", Some("drain_timeout")),
            ("drain-timeout", Some("drain_timeout")),
            ("datadir", Some("data_dir")),
            ("limt", Some("limit")),
            ("colour", None),
            ("", None),
        ] {
            assert_eq!(nearest(word, known.into_iter()), want, "{word}");
        }
    }
}
