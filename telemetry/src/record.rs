//! One span or log record on its way out.
//!
//! Separate because records are made where a request ends and encoded somewhere else. Text in it
//! is bounded where it is made; it must never hold a header, a body or a token.

use std::sync::Arc;

use crate::context::Context;

/// The id of a trace.
pub type TraceId = [u8; 16];
/// The id of a span.
pub type SpanId = [u8; 8];

/// Length of a trace id in hexadecimal digits.
pub const TRACE_HEX: usize = 32;

/// Longest text of a caller's in telemetry, in bytes.
const CALLER_TEXT_BYTES_MAX: usize = 256;

/// Text that is fixed, shared or owned.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Text {
    /// Known when this was built.
    Fixed(&'static str),
    /// Made once, used often.
    Shared(Arc<str>),
}

impl Text {
    /// As text.
    pub fn as_str(&self) -> &str {
        match self {
            Self::Fixed(text) => text,
            Self::Shared(text) => text,
        }
    }
}

impl From<&'static str> for Text {
    fn from(text: &'static str) -> Self {
        Self::Fixed(text)
    }
}

impl From<String> for Text {
    fn from(text: String) -> Self {
        Self::Shared(text.into())
    }
}

impl From<Arc<str>> for Text {
    fn from(text: Arc<str>) -> Self {
        Self::Shared(text)
    }
}

/// Text of a caller's: without control characters, and not longer than the bound.
pub fn bounded(text: &str) -> Text {
    let mut kept = String::with_capacity(text.len().min(CALLER_TEXT_BYTES_MAX));
    for char in text.chars() {
        let char = if char.is_control() {
            char::REPLACEMENT_CHARACTER
        } else {
            char
        };
        if kept.len() + char.len_utf8() > CALLER_TEXT_BYTES_MAX {
            break;
        }
        kept.push(char);
    }
    Text::from(kept)
}

/// The value of an attribute.
#[derive(Clone, Debug, PartialEq)]
pub enum Value {
    /// Text.
    Text(Text),
    /// A whole number.
    Whole(i64),
    /// Any number.
    Number(f64),
    /// Yes or no.
    Switch(bool),
}

impl<T: Into<Text>> From<T> for Value {
    fn from(text: T) -> Self {
        Self::Text(text.into())
    }
}

/// What a record is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Kind {
    /// A span: a request that came.
    Server,
    /// A span: a request that was sent.
    Client,
    /// A span: what was done by itself on the way.
    Internal,
    /// A log record, by its severity as OTLP numbers it.
    Log(i32),
}

/// How a span ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Default)]
pub enum Status {
    /// As it should, or it is not for us to say.
    #[default]
    Unset,
    /// It failed.
    Error,
}

/// A span or a log record.
#[derive(Clone, Debug)]
pub struct Record {
    /// Which of them.
    pub kind: Kind,
    /// The span's name, or the log line.
    pub name: Text,
    /// The log event, where it has a name of the contract.
    pub event: Option<Text>,
    /// Of a log record: what it belongs to, if that is known.
    pub context: Option<Context>,
    /// As the caller sent it.
    pub trace_state: Option<Text>,
    /// Nanoseconds since 1970.
    pub began_unix_ns: u64,
    /// The same, of the end.
    pub ended_unix_ns: u64,
    /// How it ended.
    pub status: Status,
    /// What is known of it.
    pub attributes: Vec<(Text, Value)>,
}

/// A trace id in hexadecimal.
pub fn trace_hex(id: TraceId) -> String {
    hex(&id)
}

/// A span id in hexadecimal.
pub fn span_hex(id: SpanId) -> String {
    hex(&id)
}

fn hex(bytes: &[u8]) -> String {
    use std::fmt::Write as _;
    bytes
        .iter()
        .fold(String::with_capacity(bytes.len() * 2), |mut text, byte| {
            // Writing to a string cannot fail.
            let _ = write!(text, "{byte:02x}");
            text
        })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn callers_text_is_bounded_and_says_nothing_to_a_terminal() {
        let hostile = format!("a\x1b[31m\n{}", "é".repeat(400));
        let text = bounded(&hostile);
        assert!(text.as_str().len() <= CALLER_TEXT_BYTES_MAX);
        assert!(text.as_str().starts_with("a\u{fffd}[31m\u{fffd}é"));
        assert!(!text.as_str().chars().any(char::is_control));
    }

    #[test]
    fn ids_are_lower_hex() {
        assert_eq!(span_hex([0, 1, 0xab, 0xff, 0, 0, 0, 9]), "0001abff00000009");
        assert_eq!(trace_hex([7; 16]).len(), TRACE_HEX);
    }
}
