//! `bulkhead diff` and `export`: a file beside what is stored, and what is stored as a file.
//!
//! Separate because both only read. They must never change anything.

use control_plane::document;
use control_plane::policy::Value as Document;
use http::Method;
use serde_json::{Value, json};

use super::client::Client;
use super::{read_policy, refused};
use crate::args::Format;
use crate::args_tools::{ClientArgs, DiffArgs};
use crate::error::{Failure, exit};
use crate::output::{self, printable};

/// Longest value on a line of a difference, in characters.
const VALUE_CHARS_MAX: usize = 200;

/// Exit 0 same, 1 different, 2 trouble of any kind.
pub(crate) fn run(args: &DiffArgs) -> Result<(), Failure> {
    match compare(args) {
        Ok(true) => Ok(()),
        Ok(false) => Err(Failure::Said(exit::TROUBLE)),
        Err(trouble) => {
            trouble.report();
            Err(Failure::Said(exit::USAGE))
        }
    }
}

/// True when both are the same.
fn compare(args: &DiffArgs) -> Result<bool, Failure> {
    // Only the form is checked: a policy that does not keep the rules can be compared all the same.
    let (text, syntax) = read_policy(&args.file)?;
    let ours = document::value_of(&text, syntax).map_err(|error| refused(&args.file, &error))?;
    let stored = Client::new(&args.client).policy()?;
    let theirs = stored.map_or(Document::Table(Vec::new()), |stored| stored.document);
    let differences = document::diff(&theirs, &ours);
    if args.client.output == Format::Json {
        let list: Vec<Value> = differences
            .iter()
            .map(|d| json!({"path": d.path.to_string(), "old": d.old, "new": d.new}))
            .collect();
        output::print_json(&json!({ "same": list.is_empty(), "differences": list }))?;
    } else {
        let mut text = String::new();
        for difference in &differences {
            let (old, new) = (
                shown(difference.old.as_ref()),
                shown(difference.new.as_ref()),
            );
            let path = printable(&difference.path.to_string());
            text.push_str(&match (old, new) {
                (Some(old), Some(new)) => format!("~ {path}: {old} -> {new}\n"),
                (None, Some(new)) => format!("+ {path}: {new}\n"),
                (Some(old), None) => format!("- {path}: {old}\n"),
                (None, None) => continue,
            });
        }
        output::print(&text)?;
    }
    Ok(differences.is_empty())
}

fn shown(value: Option<&Document>) -> Option<String> {
    let text = printable(&document::to_json(value?));
    if text.chars().count() <= VALUE_CHARS_MAX {
        return Some(text);
    }
    Some(
        text.chars()
            .take(VALUE_CHARS_MAX.saturating_sub(1))
            .chain(['…'])
            .collect(),
    )
}

/// Prints the stored policy: TOML, or with `-o json` the document as the API has it.
pub(crate) fn export(args: &ClientArgs) -> Result<(), Failure> {
    let client = Client::new(args);
    if args.output == Format::Json {
        return output::print_json(&client.json(Method::GET, "/policy")?);
    }
    match client.policy()? {
        Some(stored) => output::print(&document::to_toml(&stored.document)),
        None => Err(Failure::Answer(
            "there is no policy yet: nothing to export".to_owned(),
        )),
    }
}
