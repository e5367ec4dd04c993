//! Single values of a policy: numbers, limits, times, sizes, fractions, words.
//!
//! Separate so that every range is checked in one place and in whole numbers: a decimal is read
//! digit by digit and never rounded. It must never know which key a value belongs to.

use std::time::Duration;

use super::cursor::Node;
use super::fault::Faults;
use super::types::Millionths;
use super::value::Value;
use crate::{Class, LIMIT_MAX, Limit, LimitError, Name};

/// The longest time that a policy may state.
pub const DURATION_MAX: Duration = Duration::from_secs(24 * 60 * 60);

/// The most digits of a decimal: more than any range needs, few enough for exact products.
const DIGITS_MAX: usize = 24;

const MICROS_PER_SECOND: u128 = 1_000_000;

/// A whole number from `min` to `max`.
pub(super) fn whole(node: Node<'_>, min: u32, max: u32, faults: &mut Faults) -> Option<u32> {
    let number = match node.value {
        Value::Integer(number) => u32::try_from(*number).ok(),
        Value::Null
        | Value::Bool(_)
        | Value::Float(_)
        | Value::String(_)
        | Value::Array(_)
        | Value::Table(_) => None,
    };
    match number.filter(|number| (min..=max).contains(number)) {
        Some(number) => Some(number),
        None => faults.broken(node, format!("must be a whole number from {min} to {max}")),
    }
}

/// A number of slots: 0 to 1,000,000.
pub(super) fn slots(node: Node<'_>, faults: &mut Faults) -> Option<u32> {
    whole(node, 0, LIMIT_MAX, faults)
}

/// A limit.
pub(super) fn limit(node: Node<'_>, faults: &mut Faults) -> Option<Limit> {
    let limit = match node.value {
        Value::Integer(number) => u32::try_from(*number).ok().and_then(|n| Limit::new(n).ok()),
        Value::String(word) => (word == "unlimited").then_some(Limit::UNLIMITED),
        Value::Null | Value::Bool(_) | Value::Float(_) | Value::Array(_) | Value::Table(_) => None,
    };
    match limit {
        Some(limit) => Some(limit),
        None => faults.broken(node, LimitError.to_string()),
    }
}

/// True or false.
pub(super) fn flag(node: Node<'_>, faults: &mut Faults) -> Option<bool> {
    let Value::Bool(flag) = node.value else {
        return faults.broken(node, "must be true or false");
    };
    Some(*flag)
}

/// Text on one line of at most `chars_max` characters.
pub(super) fn line(node: Node<'_>, chars_max: usize, faults: &mut Faults) -> Option<String> {
    let text = text(node, faults)?;
    if text.is_empty() || text.chars().count() > chars_max || text.chars().any(char::is_control) {
        return faults.broken(
            node,
            format!("must be 1 to {chars_max} characters of text on one line"),
        );
    }
    Some(text.to_owned())
}

/// Any text.
pub(super) fn text<'a>(node: Node<'a>, faults: &mut Faults) -> Option<&'a str> {
    let Value::String(text) = node.value else {
        return faults.broken(node, "must be text");
    };
    Some(text)
}

/// A name.
pub(super) fn name(node: Node<'_>, faults: &mut Faults) -> Option<Name> {
    match Name::new(text(node, faults)?) {
        Ok(name) => Some(name),
        Err(error) => faults.broken(node, error.to_string()),
    }
}

/// One of `words`, with its meaning.
pub(super) fn word<T: Copy>(node: Node<'_>, words: &[(&str, T)], faults: &mut Faults) -> Option<T> {
    let found = match node.value {
        Value::String(text) => words.iter().find(|(word, _)| word == text),
        Value::Null
        | Value::Bool(_)
        | Value::Integer(_)
        | Value::Float(_)
        | Value::Array(_)
        | Value::Table(_) => None,
    };
    match found {
        Some((_, meaning)) => Some(*meaning),
        None => {
            let all: Vec<String> = words.iter().map(|(word, _)| format!("{word:?}")).collect();
            faults.broken(node, format!("must be {}", all.join(" or ")))
        }
    }
}

/// A class.
pub(super) fn class(node: Node<'_>, faults: &mut Faults) -> Option<Class> {
    let words = [Class::Critical, Class::Standard, Class::Sheddable].map(|c| (c.as_str(), c));
    word(node, &words, faults)
}

/// A time: above zero, at most a day, to the microsecond.
pub(super) fn duration(node: Node<'_>, faults: &mut Faults) -> Option<Duration> {
    let rule = "must be a time above 0 and at most 24h, such as \"250ms\", \"1.5s\" or \"1h\"";
    let found = match node.value {
        Value::String(text) => parse_duration(text),
        Value::Null
        | Value::Bool(_)
        | Value::Integer(_)
        | Value::Float(_)
        | Value::Array(_)
        | Value::Table(_) => None,
    };
    match found.filter(|time| !time.is_zero() && *time <= DURATION_MAX) {
        Some(time) => Some(time),
        None => faults.broken(node, rule),
    }
}

/// Reads `250ms`, `1.5s`, `20s`, `5m`, `1h`, `80us`: exact to the microsecond, any length.
pub fn parse_duration(text: &str) -> Option<Duration> {
    let (digits, unit) = split_unit(text);
    let micros = match unit {
        "us" => 1,
        "ms" => MICROS_PER_SECOND / 1000,
        "s" => MICROS_PER_SECOND,
        "m" => MICROS_PER_SECOND * 60,
        "h" => MICROS_PER_SECOND * 3600,
        _ => return None,
    };
    u64::try_from(decimal(digits, micros)?)
        .ok()
        .map(Duration::from_micros)
}

/// A size in bytes, `min` to `max`.
pub(super) fn bytes(node: Node<'_>, min: u64, max: u64, faults: &mut Faults) -> Option<u64> {
    let found = match node.value {
        Value::Integer(number) => u64::try_from(*number).ok(),
        Value::String(text) => parse_bytes(text),
        Value::Null | Value::Bool(_) | Value::Float(_) | Value::Array(_) | Value::Table(_) => None,
    };
    match found.filter(|bytes| (min..=max).contains(bytes)) {
        Some(bytes) => Some(bytes),
        None => {
            let rule = "must be a size such as \"64KiB\" or \"10MiB\", or a number of bytes,";
            faults.broken(node, format!("{rule} from {min} to {max} bytes"))
        }
    }
}

/// The same, for sizes below 4 GiB.
pub(super) fn bytes_u32(node: Node<'_>, min: u32, max: u32, faults: &mut Faults) -> Option<u32> {
    u32::try_from(bytes(node, min.into(), max.into(), faults)?).ok()
}

fn parse_bytes(text: &str) -> Option<u64> {
    let (digits, unit) = split_unit(text);
    let factor = match unit {
        "B" => 1,
        "KB" => 1000,
        "MB" => 1_000_000,
        "GB" => 1_000_000_000,
        "KiB" => 1 << 10,
        "MiB" => 1 << 20,
        "GiB" => 1 << 30,
        _ => return None,
    };
    u64::try_from(decimal(digits, factor)?).ok()
}

/// A fraction above zero (or from zero) and at most `max`, with at most 6 decimals.
pub(super) fn fraction(
    node: Node<'_>,
    zero: bool,
    max: u32,
    faults: &mut Faults,
) -> Option<Millionths> {
    let found = scaled(node.value, Millionths::ONE.0.into()).and_then(|n| u32::try_from(n).ok());
    let max_millionths = Millionths::ONE.0.saturating_mul(max);
    match found.filter(|n| (zero || *n > 0) && *n <= max_millionths) {
        Some(millionths) => Some(Millionths(millionths)),
        None => {
            let from = if zero { "from 0" } else { "above 0" };
            faults.broken(
                node,
                format!("must be a number {from} to {max} with at most 6 decimals"),
            )
        }
    }
}

/// A rate per second in thousandths, at most `max` per second.
pub(super) fn rate_milli(node: Node<'_>, max: u64, faults: &mut Faults) -> Option<u64> {
    let found = scaled(node.value, 1000).and_then(|n| u64::try_from(n).ok());
    match found.filter(|milli| *milli > 0 && *milli <= max.saturating_mul(1000)) {
        Some(milli) => Some(milli),
        None => {
            let rule = "must be a rate per second above 0 and at most";
            faults.broken(node, format!("{rule} {max} with at most 3 decimals"))
        }
    }
}

/// A number times `factor`, when that is whole and not negative.
fn scaled(value: &Value, factor: u128) -> Option<u128> {
    match value {
        Value::Integer(number) => u128::try_from(*number).ok()?.checked_mul(factor),
        // The shortest decimal that reads back as this float is what the author wrote: 0.1 is a
        // tenth here, not 0.1000000000000000055.
        Value::Float(number) => decimal(&number.to_string(), factor),
        Value::Null | Value::Bool(_) | Value::String(_) | Value::Array(_) | Value::Table(_) => None,
    }
}

fn split_unit(text: &str) -> (&str, &str) {
    let at = text
        .find(|c: char| !c.is_ascii_digit() && c != '.')
        .unwrap_or(text.len());
    text.split_at_checked(at).unwrap_or((text, ""))
}

/// The decimal `text` times `factor`, when that is a whole number.
pub fn decimal(text: &str, factor: u128) -> Option<u128> {
    let (whole, part) = match text.split_once('.') {
        Some((whole, part)) if !part.is_empty() => (whole, part),
        Some(_) => return None,
        None => (text, ""),
    };
    let digits = |text: &str| text.bytes().all(|byte| byte.is_ascii_digit());
    let length = whole.len().saturating_add(part.len());
    if whole.is_empty() || !digits(whole) || !digits(part) || length > DIGITS_MAX {
        return None;
    }
    let scale = 10_u128.checked_pow(u32::try_from(part.len()).ok()?)?;
    let part = if part.is_empty() {
        0
    } else {
        part.parse::<u128>().ok()?
    };
    let unscaled = whole
        .parse::<u128>()
        .ok()?
        .checked_mul(scale)?
        .checked_add(part)?;
    let product = unscaled.checked_mul(factor)?;
    product.is_multiple_of(scale).then(|| product / scale)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn durations_are_exact() {
        for (text, micros) in [
            ("250ms", Some(250_000)),
            ("1.5s", Some(1_500_000)),
            ("20s", Some(20_000_000)),
            ("1h", Some(3_600_000_000)),
            ("0.1ms", Some(100)),
            ("2m", Some(120_000_000)),
            ("80us", Some(80)),
            ("0.5us", None),
            ("1", None),
            ("", None),
            ("s", None),
            ("1.s", None),
            (".5s", None),
            ("-1s", None),
            ("1 s", None),
            ("1e3s", None),
            ("1s ", None),
            ("1d", None),
            ("99999999999999999999999999h", None),
        ] {
            assert_eq!(
                parse_duration(text),
                micros.map(Duration::from_micros),
                "{text}"
            );
        }
    }

    #[test]
    fn sizes_are_exact() {
        for (text, bytes) in [
            ("10MiB", Some(10_485_760)),
            ("1KiB", Some(1024)),
            ("64KB", Some(64_000)),
            ("1.5KiB", Some(1536)),
            ("7B", Some(7)),
            ("10", None),
            ("10mib", None),
            ("-1B", None),
            ("99999999999GiB", None),
        ] {
            assert_eq!(parse_bytes(text), bytes, "{text}");
        }
    }

    #[test]
    fn decimals_are_never_rounded() {
        for (value, factor, want) in [
            (Value::Float(0.1), 1_000_000, Some(100_000)),
            (Value::Float(0.25), 1_000_000, Some(250_000)),
            (Value::Float(1.0), 1_000_000, Some(1_000_000)),
            (Value::Integer(3), 1000, Some(3000)),
            (Value::Float(0.000_000_1), 1_000_000, None),
            (Value::Float(-0.5), 1000, None),
            (Value::Float(f64::NAN), 1000, None),
            (Value::Float(f64::INFINITY), 1000, None),
            (Value::Float(1e300), 1000, None),
            (Value::Integer(i128::MAX), 1000, None),
        ] {
            assert_eq!(scaled(&value, factor), want, "{value:?}");
        }
    }
}
