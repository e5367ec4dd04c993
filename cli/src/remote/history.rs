//! `bulkhead history` and `rollback`: the numbered generations of the policy.
//!
//! Separate because both are about what was. They must never delete a generation: going back makes
//! a new one.

use http::Method;
use serde_json::Value;

use super::apply::finding_line;
use super::changes::{opened, waits};
use super::client::{Client, refusal};
use crate::args::Format;
use crate::args_tools::{ClientArgs, RollbackArgs};
use crate::error::Failure;
use crate::output::{self, Side, Table};

pub(crate) fn list(args: &ClientArgs) -> Result<(), Failure> {
    let said = Client::new(args)?.json(Method::GET, "/generations")?;
    if args.output == Format::Json {
        return output::print_json(&said);
    }
    let mut table = Table::new(&[
        ("generation", Side::Right),
        ("when", Side::Left),
        ("who", Side::Left),
        ("comment", Side::Left),
        ("halted", Side::Left),
        ("document", Side::Left),
    ]);
    for generation in said.as_array().into_iter().flatten() {
        table.row(vec![
            cell(generation, "number"),
            cell(generation, "created_at"),
            cell(generation, "author"),
            cell(generation, "comment"),
            halted(generation),
            document(generation),
        ]);
    }
    output::print(&table.text())
}

/// `by gw-1`, for one that is sent to nobody.
fn halted(generation: &Value) -> String {
    let halt = generation.get("halted").filter(|halt| halt.is_object());
    halt.map_or_else(String::new, |halt| format!("by {}", cell(halt, "gateway")))
}

/// For one that can be neither shown nor restored.
fn document(generation: &Value) -> String {
    let kept = generation.get("kept").and_then(Value::as_bool);
    match kept {
        Some(false) => "no longer kept".to_owned(),
        Some(true) | None => String::new(),
    }
}

/// A field as text; nothing when it is not there.
pub(super) fn cell(row: &Value, name: &str) -> String {
    match row.get(name) {
        Some(Value::String(text)) => text.clone(),
        Some(Value::Null) | None => String::new(),
        Some(other) => other.to_string(),
    }
}

pub(crate) fn rollback(args: &RollbackArgs) -> Result<(), Failure> {
    let client = Client::new(&args.client)?;
    let path = format!("/generations/{}/restore", args.generation);
    let answer = client.call(Method::POST, &path, Vec::new(), None)?;
    if !answer.status.is_success() {
        return Err(refusal(&answer));
    }
    let said = client.parsed(&answer)?;
    if let Some(change) = opened(&said) {
        return Err(waits(args.client.output, &said, Some(change))?);
    }
    if args.client.output == Format::Json {
        return output::print_json(&said);
    }
    let generation = said
        .get("generation")
        .map_or_else(String::new, ToString::to_string);
    let mut text = format!("generation {generation}, the same as {}\n", args.generation);
    for finding in said
        .get("findings")
        .and_then(Value::as_array)
        .into_iter()
        .flatten()
    {
        text.push_str(&finding_line(finding));
    }
    output::print(&text)
}
