//! TOML into the neutral tree, and the lines of its entries.
//!
//! Separate because the parser's spans live only here. Dates are no values of a policy and must
//! never become text in silence.

use compartment::policy::{Path, Step, Value};
use toml::Spanned;
use toml::de::{DeTable, DeValue};

use super::lines::Lines;
use super::{DEPTH_MAX, LoadError};

/// Reads a document.
pub(super) fn read(text: &str) -> Result<Value, LoadError> {
    let table = DeTable::parse(text).map_err(|error| {
        let offset = error.span().map(|span| span.start);
        syntax(text, offset, error.message())
    })?;
    table_value(text, table.get_ref(), DEPTH_MAX)
}

fn syntax(text: &str, offset: Option<usize>, message: &str) -> LoadError {
    let lines = Lines::new(text);
    LoadError::Syntax {
        line: offset.map(|offset| lines.line(offset)),
        column: offset.map(|offset| lines.column(offset)),
        message: message.to_owned(),
    }
}

fn table_value(text: &str, table: &DeTable<'_>, depth: usize) -> Result<Value, LoadError> {
    let mut entries = Vec::with_capacity(table.len());
    for (key, value) in table {
        entries.push((
            key.get_ref().clone().into_owned(),
            value_value(text, value, depth)?,
        ));
    }
    Ok(Value::Table(entries))
}

fn value_value(text: &str, value: &Spanned<DeValue<'_>>, depth: usize) -> Result<Value, LoadError> {
    let offset = value.span().start;
    let Some(depth) = depth.checked_sub(1) else {
        return Err(syntax(text, Some(offset), "is nested too deeply"));
    };
    Ok(match value.get_ref() {
        DeValue::String(text) => Value::String(text.clone().into_owned()),
        DeValue::Integer(number) => {
            let digits = number.as_str();
            i128::from_str_radix(digits, number.radix()).map_or_else(
                // Beyond every range of a policy: refused there, by its path.
                |_| Value::Float(digits.parse().unwrap_or(f64::INFINITY)),
                Value::Integer,
            )
        }
        DeValue::Float(number) => match number.as_str().parse::<f64>() {
            Ok(number) => Value::Float(number),
            Err(_) => return Err(syntax(text, Some(offset), "is no number")),
        },
        DeValue::Boolean(flag) => Value::Bool(*flag),
        DeValue::Datetime(_) => {
            return Err(syntax(
                text,
                Some(offset),
                "a policy has no dates; write text in quotes",
            ));
        }
        DeValue::Array(items) => {
            let items = items.iter().map(|item| value_value(text, item, depth));
            Value::Array(items.collect::<Result<_, _>>()?)
        }
        DeValue::Table(table) => table_value(text, table, depth)?,
    })
}

/// The line of each path: of its entry, else of the last table or list on the way to it.
pub(super) fn lines_of(text: &str, paths: &[&Path]) -> Vec<Option<u32>> {
    let Ok(table) = DeTable::parse(text) else {
        return Vec::new();
    };
    let lines = Lines::new(text);
    paths
        .iter()
        .map(|path| line_of(table.get_ref(), path, &lines))
        .collect()
}

fn line_of(root: &DeTable<'_>, path: &Path, lines: &Lines<'_>) -> Option<u32> {
    enum Here<'a> {
        Table(&'a DeTable<'a>),
        Value(&'a DeValue<'a>),
    }
    let mut here = Here::Table(root);
    let mut line = None;
    for step in path.steps() {
        let (offset, value) = match (step, here) {
            (Step::Key(key), Here::Table(table) | Here::Value(DeValue::Table(table))) => {
                let Some((key, value)) = table.get_key_value(key.as_str()) else {
                    break;
                };
                (key.span().start, value)
            }
            (Step::Index(index), Here::Value(DeValue::Array(items))) => {
                let Some(value) = items.get(*index) else {
                    break;
                };
                (value.span().start, value)
            }
            _ => break,
        };
        line = Some(lines.line(offset));
        here = Here::Value(value.get_ref());
    }
    line
}
