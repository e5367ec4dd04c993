//! `[tenants.ID.keys.KID]`: what a policy says of an API key beside its digest.
//!
//! Separate because the digests alone let callers in: what stands here names a key for people and
//! ends it. It must never hold a part of a key by which the rest could be guessed.

use super::cursor::{Keys, Node, Table};
use super::fault::Faults;
use super::scalar::{line, text};

/// The longest label of an API key, in characters.
pub const KEY_LABEL_CHARS_MAX: usize = 64;
/// Hexadecimal digits of a digest that name its key.
pub const KEY_ID_DIGITS: usize = 16;
/// How many of a key's last characters are kept.
pub const KEY_ENDING_CHARS: usize = 4;

const NOTE_KEYS: Keys = Keys {
    known: &["label", "ending", "created", "expires"],
    unenforced: &[],
};
const MOMENT_RULE: &str = "must be a moment in UTC such as \"2026-07-01T12:00:00Z\"";

/// What names a key wherever it must not be shown: the first digits of its digest.
pub fn key_id(digest: &[u8; 32]) -> String {
    let digits = digest.iter().map(|byte| format!("{byte:02x}"));
    let mut id: String = digits.collect();
    id.truncate(KEY_ID_DIGITS);
    id
}

/// The keys of one tenant that end, and when, in seconds since 1970. `digests` are all of them.
pub(super) fn expiring(
    node: Node<'_>,
    digests: &[[u8; 32]],
    faults: &mut Faults,
) -> Option<Vec<([u8; 32], u64)>> {
    let entries = node.entries(super::tenant::KEYS_PER_TENANT_MAX, faults)?;
    let mut ends = Vec::new();
    let mut fine = Some(());
    for (id, value) in entries {
        let place = super::cursor::Place::Key(&node.place, id);
        let here = Node { value, place };
        let Some(digest) = digests.iter().find(|digest| key_id(digest) == *id) else {
            let rule = "names no key of api_keys: it is the first 16 digits of one's digest";
            fine = faults.broken(here, rule);
            continue;
        };
        match note(here, faults) {
            Some(expires) => ends.extend(expires.map(|unix_s| (*digest, unix_s))),
            None => fine = None,
        }
    }
    fine.map(|()| ends)
}

/// When the key ends, if it does.
fn note(node: Node<'_>, faults: &mut Faults) -> Option<Option<u64>> {
    let table = Table::open(node, NOTE_KEYS, faults)?;
    let label = table.optional("label", faults, |node, faults| {
        line(node, KEY_LABEL_CHARS_MAX, faults)
    });
    let ending = table.optional("ending", faults, ending);
    let created = table.optional("created", faults, moment);
    let expires = table.optional("expires", faults, moment);
    label?;
    ending?;
    created?;
    expires
}

fn ending(node: Node<'_>, faults: &mut Faults) -> Option<()> {
    let text = text(node, faults)?;
    let fits = text.len() == KEY_ENDING_CHARS && text.bytes().all(|b| b.is_ascii_graphic());
    if fits {
        Some(())
    } else {
        faults.broken(node, "must be the last 4 characters of the key")
    }
}

fn moment(node: Node<'_>, faults: &mut Faults) -> Option<u64> {
    match parse_moment(text(node, faults)?) {
        Some(unix_s) => Some(unix_s),
        None => faults.broken(node, MOMENT_RULE),
    }
}

/// Seconds since 1970 of `2026-07-01T12:00:00Z`; `None` for another form or no such moment.
pub fn parse_moment(text: &str) -> Option<u64> {
    let bytes: &[u8; 20] = text.as_bytes().try_into().ok()?;
    let form = b"dddd-dd-ddTdd:dd:ddZ";
    let fits = |(byte, form): (&u8, &u8)| match form {
        b'd' => byte.is_ascii_digit(),
        literal => byte == literal,
    };
    if !bytes.iter().zip(form).all(fits) {
        return None;
    }
    let number = |from: usize, to: usize| text.get(from..to)?.parse::<u64>().ok();
    let (year, month, day) = (number(0, 4)?, number(5, 7)?, number(8, 10)?);
    let (hour, minute, second) = (number(11, 13)?, number(14, 16)?, number(17, 19)?);
    let is_leap = |year: u64| {
        year.is_multiple_of(4) && (!year.is_multiple_of(100) || year.is_multiple_of(400))
    };
    let february = if is_leap(year) { 29 } else { 28 };
    let lengths = [31, february, 31, 30, 31, 30, 31, 31, 30, 31, 30, 31];
    let before = usize::try_from(month.checked_sub(1)?).ok()?;
    let length = *lengths.get(before)?;
    if year < 1970 || day == 0 || day > length || hour > 23 || minute > 59 || second > 59 {
        return None;
    }
    let years: u64 = (1970..year)
        .map(|y| if is_leap(y) { 366 } else { 365 })
        .sum();
    let days = years + lengths.iter().take(before).sum::<u64>() + day - 1;
    Some(((days * 24 + hour) * 60 + minute) * 60 + second)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn moments_have_one_form() {
        for (text, unix_s) in [
            ("1970-01-01T00:00:00Z", Some(0)),
            ("1970-03-01T00:00:01Z", Some(59 * 86_400 + 1)),
            ("2026-07-01T12:00:00Z", Some(1_782_907_200)),
            ("2024-02-29T23:59:59Z", Some(1_709_251_199)),
            ("2100-02-29T00:00:00Z", None),
            ("2026-02-30T00:00:00Z", None),
            ("2026-13-01T00:00:00Z", None),
            ("2026-00-01T00:00:00Z", None),
            ("2026-01-00T00:00:00Z", None),
            ("2026-01-01T24:00:00Z", None),
            ("1969-12-31T23:59:59Z", None),
            ("2026-07-01 12:00:00Z", None),
            ("2026-07-01T12:00:00+00", None),
            ("2026-07-01T12:00:00.5Z", None),
            ("+026-07-01T12:00:00Z", None),
            ("", None),
            ("２026-07-01T12:00:0Z", None),
        ] {
            assert_eq!(parse_moment(text), unix_s, "{text}");
        }
    }

    #[test]
    fn a_key_is_named_by_the_beginning_of_its_digest() {
        let mut digest = [0xab; 32];
        digest[0] = 1;
        assert_eq!(key_id(&digest), "01ababababababab");
    }
}
