//! The neutral tree as TOML that people read: `[section]`, `[[routes]]`, `[routes.compartment]`.
//!
//! Separate because exported files are edited and applied again. What is written must read back as
//! the same tree, up to the order of keys; nothing must ever be written that TOML cannot say, so
//! an entry that is null is left out.

use std::fmt::Write;

use compartment::policy::Value;

/// The deepest table with a header of its own; below it tables are written in one line.
const HEADER_DEPTH_MAX: usize = 2;

/// Renders a document; anything but a table at its root renders as nothing.
pub fn to_toml(document: &Value) -> String {
    let mut out = String::new();
    if let Value::Table(entries) = document {
        table(&mut out, &mut Vec::new(), entries, false);
    }
    out
}

/// Writes the entries of a table: first what fits on lines, then what has headers.
///
/// `in_list` is true inside `[[…]]`, where lists of tables may have headers too.
fn table<'a>(
    out: &mut String,
    header: &mut Vec<&'a str>,
    entries: &'a [(String, Value)],
    in_list: bool,
) {
    let has_header = |value: &Value| match value {
        Value::Table(_) => header.len() < HEADER_DEPTH_MAX,
        Value::Array(items) => {
            let tables = !items.is_empty() && items.iter().all(|i| matches!(i, Value::Table(_)));
            tables && (header.is_empty() || (in_list && header.len() < HEADER_DEPTH_MAX))
        }
        Value::Null | Value::Bool(_) | Value::Integer(_) | Value::Float(_) | Value::String(_) => {
            false
        }
    };
    let (sections, lines): (Vec<_>, Vec<_>) =
        entries.iter().partition(|(_, value)| has_header(value));
    for (name, value) in lines {
        if *value != Value::Null {
            key(out, name);
            out.push_str(" = ");
            inline(out, value, header.len() <= 1);
            out.push('\n');
        }
    }
    for (name, value) in sections {
        header.push(name);
        match value {
            Value::Table(entries) => {
                let only_sections = !entries.is_empty()
                    && header.len() < HEADER_DEPTH_MAX
                    && entries
                        .iter()
                        .all(|(_, value)| matches!(value, Value::Table(_)));
                // `[tenants]` with nothing but tenants needs no header of its own.
                if !only_sections {
                    open(out, header, "[", "]");
                }
                table(out, header, entries, in_list);
            }
            Value::Array(items) => {
                for item in items {
                    open(out, header, "[[", "]]");
                    if let Value::Table(entries) = item {
                        table(out, header, entries, true);
                    }
                }
            }
            Value::Null
            | Value::Bool(_)
            | Value::Integer(_)
            | Value::Float(_)
            | Value::String(_) => {}
        }
        header.pop();
    }
}

fn open(out: &mut String, header: &[&str], before: &str, after: &str) {
    if !out.is_empty() {
        out.push('\n');
    }
    out.push_str(before);
    for (index, name) in header.iter().enumerate() {
        out.push_str(if index == 0 { "" } else { "." });
        key(out, name);
    }
    out.push_str(after);
    out.push('\n');
}

fn key(out: &mut String, name: &str) {
    let bare = |b: u8| b.is_ascii_alphanumeric() || b == b'_' || b == b'-';
    if !name.is_empty() && name.bytes().all(bare) {
        out.push_str(name);
    } else {
        text(out, name);
    }
}

/// A value on its line; a list of tables spreads over lines where `spread` allows it.
fn inline(out: &mut String, value: &Value, spread: bool) {
    match value {
        Value::Null => {}
        Value::Bool(flag) => out.push_str(if *flag { "true" } else { "false" }),
        Value::Integer(number) => drop(write!(out, "{number}")),
        Value::Float(number) if number.is_nan() => out.push_str("nan"),
        // The form of `Debug` keeps a float a float: 1.0, not 1.
        Value::Float(number) => drop(write!(out, "{number:?}")),
        Value::String(value) => text(out, value),
        Value::Array(items) => {
            let kept: Vec<&Value> = items.iter().filter(|item| **item != Value::Null).collect();
            let spread = spread && kept.iter().any(|item| matches!(item, Value::Table(_)));
            out.push_str(if spread { "[\n" } else { "[" });
            for (index, item) in kept.iter().enumerate() {
                out.push_str(match (spread, index) {
                    (true, _) => "  ",
                    (false, 0) => "",
                    (false, _) => ", ",
                });
                inline(out, item, false);
                out.push_str(if spread { ",\n" } else { "" });
            }
            out.push(']');
        }
        Value::Table(entries) => {
            let kept: Vec<&(String, Value)> = entries
                .iter()
                .filter(|(_, value)| *value != Value::Null)
                .collect();
            out.push_str(if kept.is_empty() { "{" } else { "{ " });
            for (index, (name, value)) in kept.iter().enumerate() {
                out.push_str(if index == 0 { "" } else { ", " });
                key(out, name);
                out.push_str(" = ");
                inline(out, value, false);
            }
            out.push_str(if kept.is_empty() { "}" } else { " }" });
        }
    }
}

/// A basic string, every control character escaped.
fn text(out: &mut String, value: &str) {
    out.push('"');
    for char in value.chars() {
        match char {
            '"' => out.push_str("\\\""),
            '\\' => out.push_str("\\\\"),
            '\n' => out.push_str("\\n"),
            '\t' => out.push_str("\\t"),
            '\r' => out.push_str("\\r"),
            char if char.is_control() => drop(write!(out, "\\u{:04X}", u32::from(char))),
            char => out.push(char),
        }
    }
    out.push('"');
}
