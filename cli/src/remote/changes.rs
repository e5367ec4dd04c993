//! `bulkhead changes`: proposing a change of the policy, and every step of it.
//!
//! Separate because a change is no policy yet. It must never say that something is in force that
//! waits for a second person.

use std::time::Duration;

use control_plane::document;
use http::Method;
use serde_json::{Map, Value, json};

use super::changes_shown::{gateways, line, shown, terms, texts};
use super::client::{Client, refusal};
use super::history::cell;
use super::load_policy;
use crate::args::Format;
use crate::args_changes::{ChangesArgs, ChangesCommand, CreateArgs, Side as Prefer, StepArgs};
use crate::args_tools::ClientArgs;
use crate::error::{Failure, exit};
use crate::output::{self, Side, Table, printable};

/// How often a change is asked for while it is watched.
const ASK_PERIOD: Duration = Duration::from_millis(200);
const SET_RULE: &str = "must be KEY:FIELD=VALUE, such as route/checkout:limit=80";

pub(crate) fn run(args: &ChangesArgs) -> Result<(), Failure> {
    let client = Client::new(&args.client)?;
    let (step, mut body, name) = match &args.command {
        ChangesCommand::List { state } => return list(&client, &args.client, state.as_deref()),
        ChangesCommand::Show {
            number,
            watch: true,
        } => {
            return watch(&client, &args.client, *number);
        }
        ChangesCommand::Show { number, .. } => {
            let change = client.json(Method::GET, &format!("/changes/{number}"))?;
            return told(&args.client, &change, shown(&change));
        }
        ChangesCommand::Create(create) => return propose(&client, &args.client, create),
        ChangesCommand::Approve(step) => (step, Map::new(), "approve"),
        ChangesCommand::Stage { step, gateway } => (step, one("gateway", json!(gateway)), "stage"),
        ChangesCommand::Publish {
            step,
            confirm_within,
            guard,
            watch_for,
        } => {
            let mut body = Map::new();
            put(
                &mut body,
                "confirm_within",
                confirm_within.clone().map(Value::from),
            );
            put(&mut body, "guard_percent", guard.map(Value::from));
            put(&mut body, "watch_for", watch_for.clone().map(Value::from));
            (step, body, "publish")
        }
        ChangesCommand::Abandon(step) => (step, Map::new(), "abandon"),
        ChangesCommand::Keep(step) => (step, Map::new(), "keep"),
        ChangesCommand::Revert(step) => (step, Map::new(), "revert"),
        ChangesCommand::Rebase { step, prefer } => {
            let mut body = Map::new();
            let side = prefer.map(|side| match side {
                Prefer::Mine => json!("mine"),
                Prefer::Theirs => json!("theirs"),
            });
            put(&mut body, "prefer", side);
            (step, body, "rebase")
        }
    };
    let StepArgs { number, comment } = step;
    put(&mut body, "comment", comment.clone().map(Value::from));
    let path = format!("/changes/{number}/{name}");
    let body = Some(Value::Object(body).to_string());
    let answer = client.call(Method::POST, &path, Vec::new(), body)?;
    if !answer.status.is_success() {
        return Err(refusal(&answer));
    }
    let change = client.parsed(&answer)?;
    if answer.status == http::StatusCode::ACCEPTED {
        let opened = change.get("number").and_then(Value::as_u64);
        return Err(waits(args.client.output, &change, opened)?);
    }
    told(
        &args.client,
        &change,
        format!("{}\n{}", line(&change), terms(&change)),
    )
}

fn one(name: &str, value: Value) -> Map<String, Value> {
    let mut body = Map::new();
    body.insert(name.to_owned(), value);
    body
}

fn put(body: &mut Map<String, Value>, name: &str, value: Option<Value>) {
    if let Some(value) = value {
        body.insert(name.to_owned(), value);
    }
}

fn told(args: &ClientArgs, change: &Value, text: String) -> Result<(), Failure> {
    match args.output {
        Format::Json => output::print_json(change),
        Format::Table => output::print(&text),
    }
}

/// The change that was opened instead of storing anything; none when it is done.
pub(super) fn opened(said: &Value) -> Option<u64> {
    let is_stored = said.get("stored") != Some(&Value::Bool(false));
    let change = said.get("change").and_then(Value::as_u64);
    change.filter(|_| !is_stored)
}

/// Says that nothing is in force yet, and ends with the code for that.
pub(super) fn waits(format: Format, said: &Value, opened: Option<u64>) -> Result<Failure, Failure> {
    let number = opened.map_or_else(|| "?".to_owned(), |number| number.to_string());
    if format == Format::Json {
        output::print_json(said)?;
    }
    output::complain(&format!(
        "opened change {number}, needs approval by another person"
    ));
    Ok(Failure::Said(exit::WAITS))
}

fn list(client: &Client, args: &ClientArgs, state: Option<&str>) -> Result<(), Failure> {
    let path = match state {
        Some(state) => format!("/changes?state={}", super::apply::encoded(state)),
        None => "/changes".to_owned(),
    };
    let said = client.json(Method::GET, &path)?;
    let mut table = Table::new(&[
        ("change", Side::Right),
        ("state", Side::Left),
        ("who", Side::Left),
        ("when", Side::Left),
        ("touches", Side::Left),
        ("comment", Side::Left),
    ]);
    let holds = holds_back(client, &said)?;
    for change in said.as_array().into_iter().flatten() {
        let state = match holds && may_need_approval(change) {
            true => format!("{}, needs approval", cell(change, "state")),
            false => cell(change, "state"),
        };
        table.row(vec![
            cell(change, "number"),
            state,
            cell(change, "author"),
            cell(change, "created_at"),
            texts(change, "keys").join(", "),
            cell(change, "comment"),
        ]);
    }
    told(args, &said, table.text())
}

/// Whether approvals are asked for: what holds for one draft that nobody approved holds for all.
fn holds_back(client: &Client, said: &Value) -> Result<bool, Failure> {
    let mut drafts = said.as_array().into_iter().flatten();
    let Some(one) = drafts.find(|change| may_need_approval(change)) else {
        return Ok(false);
    };
    let path = format!("/changes/{}", cell(one, "number"));
    let one = client.json(Method::GET, &path)?;
    Ok(one.get("needs_approval") == Some(&json!(true)))
}

fn may_need_approval(change: &Value) -> bool {
    let approvals = change.get("approvals").and_then(Value::as_array);
    change.get("state") == Some(&json!("draft")) && approvals.is_none_or(Vec::is_empty)
}

fn propose(client: &Client, args: &ClientArgs, create: &CreateArgs) -> Result<(), Failure> {
    let mut body = Map::new();
    put(
        &mut body,
        "comment",
        create.comment.clone().map(Value::from),
    );
    let mut headers = Vec::new();
    let text = if let Some(file) = &create.file {
        // Checked here first: only here do faults have line numbers.
        let loaded = load_policy(file)?;
        headers.push((http::header::IF_MATCH, client.policy()?.etag));
        let rest = Value::Object(body).to_string();
        let rest = rest
            .trim_start_matches('{')
            .trim_end_matches('}')
            .to_owned();
        let more = if rest.is_empty() { "" } else { "," };
        // The document as it is written: numbers beyond a float stay what they are.
        format!(
            "{{\"document\":{}{more}{rest}}}",
            document::to_json(&loaded.document)
        )
    } else {
        body.insert("compartments".to_owned(), compartments(&create.set)?);
        Value::Object(body).to_string()
    };
    let answer = client.call(Method::POST, "/changes", headers, Some(text))?;
    if !answer.status.is_success() {
        return Err(refusal(&answer));
    }
    let change = client.parsed(&answer)?;
    told(args, &change, format!("{}\n", line(&change)))
}

/// `route/a:limit=80` as the API takes it.
fn compartments(set: &[String]) -> Result<Value, Failure> {
    let mut all = Map::new();
    for text in set {
        let bad = || Failure::Setting(format!("--set {}: {SET_RULE}", printable(text)));
        let (place, value) = text.split_once('=').ok_or_else(bad)?;
        let (key, field) = place.rsplit_once(':').ok_or_else(bad)?;
        if key.is_empty() || field.is_empty() {
            return Err(bad());
        }
        // What is no number, list or the like is text: unlimited, enforce, 20ms.
        let value = serde_json::from_str(value).unwrap_or_else(|_| json!(value));
        let fields = all.entry(key.to_owned()).or_insert_with(|| json!({}));
        if let Value::Object(fields) = fields {
            fields.insert(field.to_owned(), value);
        }
    }
    Ok(Value::Object(all))
}

/// Tells each answer as it comes, until nothing more is to come.
fn watch(client: &Client, args: &ClientArgs, number: u64) -> Result<(), Failure> {
    let mut before = String::new();
    loop {
        let change = client.json(Method::GET, &format!("/changes/{number}"))?;
        let said = format!("{}\n{}", line(&change), gateways(&change));
        if said != before && args.output == Format::Table {
            output::print(&said)?;
        }
        before = said;
        if is_settled(&change) {
            if args.output == Format::Json {
                output::print_json(&change)?;
            }
            let refused = |one: &Value| one.get("answer") == Some(&json!("refused"));
            let list = change.get("gateways").and_then(Value::as_array);
            return match list.is_some_and(|list| list.iter().any(refused)) {
                true => Err(Failure::Said(exit::TROUBLE)),
                false => Ok(()),
            };
        }
        std::thread::sleep(ASK_PERIOD);
    }
}

/// Nothing more comes by itself.
fn is_settled(change: &Value) -> bool {
    let state = change.get("state").and_then(Value::as_str).unwrap_or("");
    let is_set = |name: &str| change.get(name).is_some_and(|value| !value.is_null());
    let waits = |one: &Value| one.get("answer") == Some(&json!("waits"));
    let list = change.get("gateways").and_then(Value::as_array);
    let all_answered = !list.is_some_and(|list| list.iter().any(waits));
    match state {
        "published" => all_answered && !is_set("confirm_by_ms") && !is_set("guard"),
        "staged" | "kept" => all_answered,
        _ => true,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn fields_of_compartments_are_read() {
        let set = ["route/a:limit=80", "route/a:mode=shadow", "gateway:limit=9"];
        let set: Vec<String> = set.iter().map(|text| (*text).to_owned()).collect();
        assert_eq!(
            compartments(&set).unwrap(),
            json!({"route/a": {"limit": 80, "mode": "shadow"}, "gateway": {"limit": 9}})
        );
        for bad in ["route/a", "route/a=3", ":limit=3", "route/a:=3"] {
            assert!(compartments(&[bad.to_owned()]).is_err(), "{bad}");
        }
    }

    #[test]
    fn a_watch_ends_when_nothing_comes_by_itself() {
        let change = |state: &str, answer: &str, confirm: Value| {
            let gateways = json!([{ "answer": answer }]);
            json!({"state": state, "gateways": gateways, "confirm_by_ms": confirm})
        };
        assert!(is_settled(&change("kept", "runs", json!(5))));
        assert!(!is_settled(&change("published", "runs", json!(5))));
        assert!(is_settled(&change("published", "away", Value::Null)));
        assert!(!is_settled(&change("published", "waits", Value::Null)));
        assert!(!is_settled(&change("staged", "waits", Value::Null)));
        assert!(is_settled(&change("draft", "", Value::Null)));
    }
}
