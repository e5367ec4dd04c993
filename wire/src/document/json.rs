//! JSON into the neutral tree and out of it, its digest, and the lines of its entries.
//!
//! Separate because JSON is what is stored, sent and compared. The digest must never depend on
//! the order of keys.

use std::fmt::Write;

use compartment::policy::{Path, Step, Value};
use sha2::{Digest, Sha256};

use super::LoadError;
use super::lines::Lines;

/// Reads a document. The parser refuses more than 128 levels.
pub(super) fn read(text: &str) -> Result<Value, LoadError> {
    serde_json::from_str(text).map_err(|error| {
        let number = |number: usize| u32::try_from(number).ok().filter(|number| *number > 0);
        let full = error.to_string();
        let place = format!(" at line {} column {}", error.line(), error.column());
        LoadError::Syntax {
            line: number(error.line()),
            column: number(error.column()),
            message: full.strip_suffix(&place).unwrap_or(&full).to_owned(),
        }
    })
}

/// The document as compact JSON, its keys in the given order. A number that JSON cannot say, which
/// no checked policy has, becomes `null`.
pub fn to_json(value: &Value) -> String {
    serde_json::to_string(value).unwrap_or_default()
}

/// The SHA-256 digest, in hexadecimal, of the document as JSON with its keys sorted.
pub fn digest(value: &Value) -> String {
    // By way of a buffer of text: a document of 32 MiB is neither copied nor written out whole.
    let mut hashed = std::io::BufWriter::with_capacity(HASHED_BYTES, Hashed(Sha256::new()));
    // What takes bytes never fails, and every value can be written.
    let written = serde_json::to_writer(&mut hashed, &Sorted(value)).is_ok();
    let hasher = hashed.into_inner().map(|hashed| hashed.0);
    let Ok(hasher) = hasher else {
        return String::new();
    };
    let mut text = String::with_capacity(64);
    if written {
        for byte in hasher.finalize() {
            // Writing to a String cannot fail.
            let _ = write!(text, "{byte:02x}");
        }
    }
    text
}

/// As much of a document as is hashed at once.
const HASHED_BYTES: usize = 16 << 10;

struct Hashed(Sha256);

impl std::io::Write for Hashed {
    fn write(&mut self, bytes: &[u8]) -> std::io::Result<usize> {
        self.0.update(bytes);
        Ok(bytes.len())
    }

    fn flush(&mut self) -> std::io::Result<()> {
        Ok(())
    }
}

/// A value whose tables are written in the order of their keys.
struct Sorted<'a>(&'a Value);

impl serde::Serialize for Sorted<'_> {
    fn serialize<S: serde::Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        match self.0 {
            Value::Table(entries) => {
                let mut sorted: Vec<&(String, Value)> = entries.iter().collect();
                sorted.sort_by(|(a, _), (b, _)| a.cmp(b));
                let pairs = sorted.into_iter().map(|(key, value)| (key, Sorted(value)));
                serializer.collect_map(pairs)
            }
            Value::Array(items) => serializer.collect_seq(items.iter().map(Sorted)),
            plain @ (Value::Null
            | Value::Bool(_)
            | Value::Integer(_)
            | Value::Float(_)
            | Value::String(_)) => plain.serialize(serializer),
        }
    }
}

/// The most bytes that are walked to find lines: 100 errors at the end of the largest text would
/// walk 100 times that.
const LINES_BYTES_MAX: usize = 256 << 20;

/// The line of each path in a text that was read before.
pub(super) fn lines_of(text: &str, paths: &[&Path]) -> Vec<Option<u32>> {
    let lines = Lines::new(text);
    let mut walked = 0_usize;
    let line_of = |path: &&Path| {
        if walked > LINES_BYTES_MAX {
            return None;
        }
        let mut scan = Scan {
            bytes: text.as_bytes(),
            at: 0,
        };
        let offset = scan.follow(path.steps());
        walked = walked.saturating_add(scan.at);
        offset.map(|offset| lines.line(offset))
    };
    paths.iter().map(line_of).collect()
}

/// A walk over JSON that is known to be well formed.
struct Scan<'a> {
    bytes: &'a [u8],
    at: usize,
}

impl Scan<'_> {
    /// Where the entry at `steps` begins, or the last one on the way to it.
    fn follow(&mut self, steps: &[Step]) -> Option<usize> {
        let mut found = None;
        for step in steps {
            let entered = match step {
                Step::Key(key) => self.enter_key(key),
                Step::Index(index) => self.enter_index(*index),
            };
            match entered {
                Some(offset) => found = Some(offset),
                None => break,
            }
        }
        found
    }

    /// Stands on the value of `key`; tells where the key begins.
    fn enter_key(&mut self, key: &str) -> Option<usize> {
        self.take(b'{')?;
        loop {
            self.skip_blank();
            let start = self.at;
            self.skip_string()?;
            let name = self.bytes.get(start..self.at)?;
            self.take(b':')?;
            if serde_json::from_slice::<String>(name).is_ok_and(|name| name == key) {
                return Some(start);
            }
            self.skip_value()?;
            self.take(b',')?;
        }
    }

    /// Stands on the element `index`; tells where it begins.
    fn enter_index(&mut self, index: usize) -> Option<usize> {
        self.take(b'[')?;
        for _ in 0..index {
            self.skip_value()?;
            self.take(b',')?;
        }
        self.skip_blank();
        Some(self.at)
    }

    fn peek(&self) -> Option<u8> {
        self.bytes.get(self.at).copied()
    }

    fn skip_blank(&mut self) {
        while matches!(self.peek(), Some(b' ' | b'\t' | b'\r' | b'\n')) {
            self.at = self.at.saturating_add(1);
        }
    }

    fn take(&mut self, byte: u8) -> Option<()> {
        self.skip_blank();
        (self.peek()? == byte).then(|| self.at = self.at.saturating_add(1))
    }

    fn skip_string(&mut self) -> Option<()> {
        self.take(b'"')?;
        loop {
            let byte = self.peek()?;
            self.at = self.at.saturating_add(if byte == b'\\' { 2 } else { 1 });
            if byte == b'"' {
                return Some(());
            }
        }
    }

    /// Over one value: without recursion, since only the brackets outside strings count.
    fn skip_value(&mut self) -> Option<()> {
        let mut open = 0_usize;
        loop {
            self.skip_blank();
            match self.peek()? {
                b'"' => self.skip_string()?,
                b'{' | b'[' => {
                    open = open.saturating_add(1);
                    self.at = self.at.saturating_add(1);
                    continue;
                }
                b'}' | b']' => {
                    open = open.checked_sub(1)?;
                    self.at = self.at.saturating_add(1);
                }
                b',' | b':' => {
                    self.at = self.at.saturating_add(1);
                    continue;
                }
                _ => {
                    while self
                        .peek()
                        .is_some_and(|b| !b"{}[],: \t\r\n\"".contains(&b))
                    {
                        self.at = self.at.saturating_add(1);
                    }
                }
            }
            if open == 0 {
                return Some(());
            }
        }
    }
}
