//! The settings file, TOML, flat: one key a setting.
//!
//! Separate because it is the one source with lines, and every complaint about it names its line.
//! It must never ignore a key that it does not know.

use std::path::Path;

use toml::Spanned;
use toml::de::{DeTable, DeValue};

use super::table::{self, Setting};
use super::{Entry, Origin};
use crate::error::Failure;
use crate::nearest::nearest;
use crate::output::printable;

/// Largest settings file in bytes.
const FILE_BYTES_MAX: u64 = 1024 * 1024;

/// Reads and checks the names and the shapes of the file; values are checked by the caller.
pub(super) fn read(path: &Path) -> Result<Vec<(&'static str, Entry)>, Failure> {
    let unreadable = |source| Failure::unreadable(path, source);
    let length = std::fs::metadata(path).map_err(unreadable)?.len();
    if length > FILE_BYTES_MAX {
        let name = path.display();
        let text = format!("{name} has {length} bytes: must be at most {FILE_BYTES_MAX}");
        return Err(Failure::Setting(text));
    }
    let text = std::fs::read_to_string(path).map_err(unreadable)?;
    entries(&path.display().to_string(), &text)
}

fn entries(name: &str, text: &str) -> Result<Vec<(&'static str, Entry)>, Failure> {
    let table = DeTable::parse(text).map_err(|error| {
        let line = line_of(text, error.span().map_or(0, |span| span.start));
        Failure::Setting(format!(
            "{name} line {line}: {}",
            printable(error.message())
        ))
    })?;
    let mut found = Vec::new();
    for (key, value) in table.get_ref() {
        let line = line_of(text, key.span().start);
        let setting = table::SETTINGS
            .iter()
            .find(|setting| setting.key == key.get_ref().as_ref())
            .ok_or_else(|| unknown(name, line, key.get_ref()))?;
        let texts = texts(value, setting).map_err(|kind| {
            let (key, rule) = (setting.key, setting.kind.rule());
            Failure::Setting(format!(
                "{name} line {line}: {key}: must be {rule}, not {kind}"
            ))
        })?;
        let origin = Origin::File {
            name: name.to_owned(),
            line,
        };
        found.push((setting.key, Entry { texts, origin }));
    }
    Ok(found)
}

fn unknown(name: &str, line: usize, key: &str) -> Failure {
    let near = nearest(key, table::SETTINGS.iter().map(|setting| setting.key));
    let hint = near.map_or(String::new(), |near| format!("; did you mean {near}?"));
    let key = printable(&key.chars().take(80).collect::<String>());
    Failure::Setting(format!("{name} line {line}: unknown setting {key}{hint}"))
}

/// The texts of one value, or what it is instead of a value.
fn texts(value: &Spanned<DeValue<'_>>, setting: &Setting) -> Result<Vec<String>, &'static str> {
    if let (DeValue::Array(items), true) = (value.get_ref(), setting.kind.is_list()) {
        return items.iter().map(|item| text(item.get_ref())).collect();
    }
    Ok(vec![text(value.get_ref())?])
}

fn text(value: &DeValue<'_>) -> Result<String, &'static str> {
    match value {
        DeValue::String(text) => Ok(text.to_string()),
        DeValue::Integer(number) if number.radix() == 10 => Ok(number.as_str().replace('_', "")),
        DeValue::Integer(_) => Err("a number in another base than ten"),
        DeValue::Float(number) => Ok(number.as_str().to_owned()),
        DeValue::Boolean(switch) => Ok(switch.to_string()),
        DeValue::Datetime(_) => Err("a date"),
        DeValue::Array(_) => Err("a list"),
        DeValue::Table(_) => Err("a table"),
    }
}

fn line_of(text: &str, at: usize) -> usize {
    text.bytes()
        .take(at)
        .filter(|byte| *byte == b'\n')
        .count()
        .saturating_add(1)
}
