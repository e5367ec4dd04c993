//! `bulkhead override`: limits that hold from one moment to another.
//!
//! Separate because what it plans happens while nobody looks. It must never say that something is
//! set that only waits.

use http::Method;
use serde_json::{Map, Value, json};

use super::client::{Client, refusal};
use super::history::cell;
use crate::args::Format;
use crate::args_override::{OverrideArgs, OverrideCommand, PlanArgs};
use crate::args_tools::ClientArgs;
use crate::error::{Failure, exit};
use crate::output::{self, Side, Table, printable};

const SET_RULE: &str = "must be FIELD=VALUE, such as limit=80";

pub(crate) fn run(args: &OverrideArgs) -> Result<(), Failure> {
    let client = Client::new(&args.client)?;
    let path = |number: &u64| format!("/overrides/{number}");
    let (method, path, body) = match &args.command {
        OverrideCommand::List { open } => return list(&client, &args.client, *open),
        OverrideCommand::Show { number } => {
            let one = client.json(Method::GET, &path(number))?;
            return told(&args.client, &one, shown(&one));
        }
        OverrideCommand::Create(plan) => {
            (Method::POST, "/overrides".to_owned(), Some(planned(plan)?))
        }
        OverrideCommand::Cancel { number } => (Method::DELETE, path(number), None),
        OverrideCommand::Extend { number, until } => {
            (Method::PATCH, path(number), Some(json!({ "end": until })))
        }
        OverrideCommand::Approve { number } => {
            (Method::POST, format!("{}/approve", path(number)), None)
        }
    };
    let body = body.map(|body| body.to_string());
    let answer = client.call(method, &path, Vec::new(), body)?;
    if !answer.status.is_success() {
        return Err(refusal(&answer));
    }
    let one = client.parsed(&answer)?;
    told(&args.client, &one, line(&one))?;
    match matches!(state(&one).as_str(), "proposed" | "end proposed") {
        true => Err(Failure::Said(exit::WAITS)),
        false => Ok(()),
    }
}

fn told(args: &ClientArgs, said: &Value, text: String) -> Result<(), Failure> {
    match args.output {
        Format::Json => output::print_json(said),
        Format::Table => output::print(&text),
    }
}

/// As the API takes it.
fn planned(plan: &PlanArgs) -> Result<Value, Failure> {
    let bad = || Failure::Setting(format!("--set {}: {SET_RULE}", printable(&plan.set)));
    let (field, value) = plan.set.split_once('=').ok_or_else(bad)?;
    if field.is_empty() || value.is_empty() {
        return Err(bad());
    }
    // What is no number, list or the like is text: unlimited, enforce, 20ms.
    let value = serde_json::from_str(value).unwrap_or_else(|_| json!(value));
    let mut body = Map::new();
    for (name, value) in [
        ("key", Some(json!(plan.key))),
        ("field", Some(json!(field))),
        ("value", Some(value)),
        ("start", plan.from.as_ref().map(|from| json!(from))),
        ("end", Some(json!(plan.until))),
        ("comment", plan.comment.as_ref().map(|why| json!(why))),
    ] {
        if let Some(value) = value {
            body.insert(name.to_owned(), value);
        }
    }
    Ok(Value::Object(body))
}

fn list(client: &Client, args: &ClientArgs, open: bool) -> Result<(), Failure> {
    let path = if open {
        "/overrides?open=true"
    } else {
        "/overrides"
    };
    let said = client.json(Method::GET, path)?;
    let mut table = Table::new(&[
        ("override", Side::Right),
        ("state", Side::Left),
        ("compartment", Side::Left),
        ("sets", Side::Left),
        ("puts back", Side::Left),
        ("from", Side::Left),
        ("until", Side::Left),
        ("who", Side::Left),
        ("comment", Side::Left),
    ]);
    let rows = said.get("overrides").and_then(Value::as_array);
    for one in rows.into_iter().flatten() {
        table.row(vec![
            cell(one, "id"),
            state(one),
            cell(one, "key"),
            format!("{}={}", cell(one, "field"), cell(one, "value")),
            before(one),
            cell(one, "start"),
            cell(one, "end"),
            cell(one, "by"),
            cell(one, "comment"),
        ]);
    }
    told(args, &said, table.text())
}

/// One that was told to end and has not yet is not called running.
fn state(one: &Value) -> String {
    let state = cell(one, "state");
    let is_ending = one.get("cancelled_by").is_some_and(Value::is_string);
    let is_asked = one.get("end_asked_by").is_some_and(Value::is_string);
    if !matches!(state.as_str(), "proposed" | "waiting" | "running") {
        return state;
    }
    match (is_ending, is_asked) {
        (true, _) => "ending".to_owned(),
        (false, true) => "end proposed".to_owned(),
        (false, false) => state,
    }
}

/// What it puts back; nothing before it has looked.
fn before(one: &Value) -> String {
    let was_set = one.get("set_generation").is_some_and(Value::is_u64);
    match (one.get("before").is_some(), was_set) {
        (true, _) => cell(one, "before"),
        (false, true) => "the default".to_owned(),
        (false, false) => String::new(),
    }
}

/// `override 7 waits: tenant/acme limit 80 from … until …`.
fn line(one: &Value) -> String {
    let of = |name: &str| printable(&cell(one, name));
    let does = match state(one).as_str() {
        "proposed" => "needs approval by another person".to_owned(),
        "waiting" => "waits".to_owned(),
        "running" => "runs".to_owned(),
        "ending" => "is being lifted".to_owned(),
        "end proposed" => "runs; its end needs approval by another person".to_owned(),
        other => format!("is {}", printable(other)),
    };
    let (id, key, field, value) = (of("id"), of("key"), of("field"), of("value"));
    let (start, end) = (of("start"), of("end"));
    format!("override {id} {does}: {key} {field} {value} from {start} until {end}\n")
}

fn shown(one: &Value) -> String {
    let mut text = line(one);
    let of = |name: &str| printable(&cell(one, name));
    for (words, said) in [
        ("from, in UTC", of("start_utc")),
        ("until, in UTC", of("end_utc")),
        ("by", of("by")),
        ("why", of("comment")),
        ("approved by", of("approved_by")),
        ("cancelled by", of("cancelled_by")),
        (
            "its end waits for another person, asked for by",
            of("end_asked_by"),
        ),
        ("its end approved by", of("end_approved_by")),
        ("puts back", printable(&before(one))),
        ("set by generation", of("set_generation")),
        ("lifted by generation", of("lifted_generation")),
        ("note", of("note")),
    ] {
        if !said.is_empty() {
            text.push_str(&format!("{words}: {said}\n"));
        }
    }
    text
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_planned_is_one_field_of_one_compartment() {
        let plan = |set: &str| PlanArgs {
            key: "tenant/acme".to_owned(),
            set: set.to_owned(),
            from: None,
            until: "2026-12-04T18:00[Europe/Berlin]".to_owned(),
            comment: None,
        };
        let want = json!({"key": "tenant/acme", "field": "limit", "value": 80,
                          "end": "2026-12-04T18:00[Europe/Berlin]"});
        assert_eq!(planned(&plan("limit=80")).unwrap(), want);
        let text = planned(&plan("limit=unlimited")).unwrap();
        assert_eq!(text["value"], "unlimited");
        for bad in ["limit", "=80", "limit="] {
            assert!(planned(&plan(bad)).is_err(), "{bad}");
        }
    }

    #[test]
    fn one_that_is_being_lifted_does_not_run_and_names_are_harmless() {
        let mut one = json!({"id": 7, "state": "running", "key": "tenant/\u{1b}[31m",
            "field": "limit", "value": 80, "start": "a", "end": "b", "set_generation": 4});
        assert!(line(&one).starts_with("override 7 runs: tenant/\\u{1b}[31m limit 80"));
        assert!(shown(&one).contains("puts back: the default"));
        one["cancelled_by"] = json!("ann\u{202e}");
        assert!(line(&one).starts_with("override 7 is being lifted"));
        assert!(shown(&one).contains("cancelled by: ann\\u{202e}"));
        one["cancelled_by"] = json!(null);
        one["end_asked_by"] = json!("bob");
        assert!(line(&one).starts_with("override 7 runs; its end needs approval"));
        one["state"] = json!("left");
        assert!(line(&one).starts_with("override 7 is left"));
    }
}
