//! A moment as people write it, and the one moment that it means.
//!
//! Separate because local time is where mistakes are made: an hour that is left out, or comes
//! twice. It must never guess a zone.

use jiff::civil::DateTime;
use jiff::tz::AmbiguousOffset;
use jiff::{Timestamp, ZonedDateTime};
use serde::{Deserialize, Serialize};

/// How a moment is to be written.
pub(crate) const RULE: &str = "must be a moment with its zone, such as 2026-12-04T18:00:00+01:00, \
                               2026-12-04T17:00:00Z or 2026-12-04T18:00[Europe/Berlin]";
/// Longest text of one.
const TEXT_BYTES_MAX: usize = 80;

/// When, as it was written and as it is.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct When {
    /// As it was written.
    pub text: String,
    /// In milliseconds of Unix time. Fixed when it was written.
    pub unix_ms: i64,
    /// What the zone's clock does at that moment, where it is told twice or not at all.
    #[serde(skip_serializing_if = "Option::is_none", default)]
    pub note: Option<String>,
}

impl When {
    /// This very moment.
    pub(crate) fn at(unix_ms: i64) -> Self {
        Self {
            text: utc(unix_ms),
            unix_ms,
            note: None,
        }
    }

    /// In UTC.
    pub fn utc(&self) -> String {
        utc(self.unix_ms)
    }

    /// Reads RFC 3339 with an offset, or local time with the name of its zone.
    pub(crate) fn parse(text: &str) -> Result<Self, String> {
        let text = text.trim();
        if text.len() > TEXT_BYTES_MAX {
            return Err(RULE.to_owned());
        }
        if !text.contains('[') {
            let moment: Timestamp = text.parse().map_err(|_| RULE.to_owned())?;
            return Ok(Self {
                text: text.to_owned(),
                unix_ms: moment.as_millisecond(),
                note: None,
            });
        }
        let zoned: ZonedDateTime = text.parse().map_err(|error| format!("{RULE}: {error}"))?;
        Ok(Self {
            text: text.to_owned(),
            unix_ms: zoned.timestamp().as_millisecond(),
            note: note(text, &zoned),
        })
    }
}

/// Local times that do not exist are moved on by what is left out; of two the first is meant.
fn note(text: &str, zoned: &ZonedDateTime) -> Option<String> {
    let local = text.split('[').next().unwrap_or(text);
    let time = local.split_once('T').map_or("", |(_, time)| time);
    // With an offset nothing is doubtful.
    if time.contains(['+', '-', 'Z', 'z']) {
        return None;
    }
    let written: DateTime = local.parse().ok()?;
    let told = zoned.strftime("%Y-%m-%dT%H:%M%:z");
    match zoned.time_zone().to_ambiguous_timestamp(written).offset() {
        AmbiguousOffset::Unambiguous { .. } => None,
        AmbiguousOffset::Gap { .. } => {
            Some(format!("the clock leaves this hour out; {told} is meant"))
        }
        AmbiguousOffset::Fold { .. } => Some(format!(
            "the clock shows this hour twice; the first, {told}, is meant"
        )),
    }
}

fn utc(unix_ms: i64) -> String {
    Timestamp::from_millisecond(unix_ms)
        .map_or_else(|_| String::new(), |moment| format!("{moment:.3}"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_moment_is_one_whatever_the_clock_does() {
        for (text, utc) in [
            ("2026-12-04T18:00:00+01:00", "2026-12-04T17:00:00.000Z"),
            ("2026-12-04T17:00Z", "2026-12-04T17:00:00.000Z"),
            (
                "2026-12-04T18:00[Europe/Berlin]",
                "2026-12-04T17:00:00.000Z",
            ),
            (
                "2026-07-04T18:00[Europe/Berlin]",
                "2026-07-04T16:00:00.000Z",
            ),
            (
                " 2026-12-04T18:00[America/New_York] ",
                "2026-12-04T23:00:00.000Z",
            ),
            ("2026-12-04T18:00[UTC]", "2026-12-04T18:00:00.000Z"),
        ] {
            let when = When::parse(text).unwrap();
            assert_eq!((when.utc().as_str(), when.note), (utc, None), "{text}");
        }
        // Spring: 02:00 to 03:00 is left out. Autumn: it comes twice.
        for (text, utc, says) in [
            (
                "2026-03-29T02:30[Europe/Berlin]",
                "2026-03-29T01:30:00.000Z",
                "leaves this hour out",
            ),
            (
                "2026-10-25T02:30[Europe/Berlin]",
                "2026-10-25T00:30:00.000Z",
                "twice; the first",
            ),
        ] {
            let when = When::parse(text).unwrap();
            assert_eq!(when.utc(), utc, "{text}");
            assert!(when.note.unwrap().contains(says), "{text}");
        }
        // The second of the two, said with its offset.
        let second = When::parse("2026-10-25T02:30+01:00[Europe/Berlin]").unwrap();
        assert_eq!(
            (second.utc().as_str(), second.note),
            ("2026-10-25T01:30:00.000Z", None)
        );
    }

    #[test]
    fn what_names_no_moment_is_refused() {
        for text in [
            "",
            "tomorrow",
            "2026-12-04",
            "2026-12-04T18:00",
            "2026-12-04T18:00[Europe/Nowhere]",
            "2026-12-04T18:00+05:00[Europe/Berlin]",
            "2026-02-30T18:00Z",
        ] {
            assert!(When::parse(text).is_err(), "{text}");
        }
    }
}
