//! `bulkhead diff` and `export`: a file beside what is stored, and what is stored as a file.
//!
//! Separate because both only read. They must never change anything.

use control_plane::document;
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
    let stored = Client::new(&args.client)?.policy()?;
    let differences = document::diff(&stored.document, &ours);
    if args.client.output == Format::Json {
        let list: Vec<Value> = differences
            .iter()
            .map(|d| json!({"path": d.path.to_string(), "old": d.old, "new": d.new}))
            .collect();
        output::print_json(&json!({ "same": list.is_empty(), "differences": list }))?;
    } else {
        let mut text = String::new();
        for difference in &differences {
            let old = difference.old.as_ref().map(document::to_json);
            let new = difference.new.as_ref().map(document::to_json);
            let (old, new) = (old.as_deref().map(bounded), new.as_deref().map(bounded));
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

fn bounded(json: &str) -> String {
    let text = printable(json);
    if text.chars().count() <= VALUE_CHARS_MAX {
        return text;
    }
    let kept = VALUE_CHARS_MAX.saturating_sub(1);
    text.chars().take(kept).chain(['…']).collect()
}

/// Prints the stored policy: TOML, or with `-o json` the document as the API has it.
pub(crate) fn export(args: &ClientArgs) -> Result<(), Failure> {
    let client = Client::new(args)?;
    if args.output == Format::Json {
        return output::print_json(&client.json(Method::GET, "/policy")?);
    }
    output::print(&document::to_toml(&client.policy()?.document))
}
