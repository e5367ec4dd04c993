//! `bulkhead drill --fallback ROUTE`: rehearses a fallback on every gateway.
//!
//! Separate because it is the one client that makes gateways act. It must never say that a
//! fallback works where a gateway did not answer.

use http::Method;
use serde_json::{Value, json};

use super::client::{Client, refusal};
use super::history::cell;
use crate::args::Format;
use crate::args_tools::DrillArgs;
use crate::error::{Failure, exit};
use crate::output::{self, Side, Table};

/// Fails when a gateway has no step that would answer.
pub(crate) fn run(args: &DrillArgs) -> Result<(), Failure> {
    let client = Client::new(&args.client)?;
    let mut asked = json!({ "kind": "fallback", "route": args.fallback });
    if let (Some(path), Some(asked)) = (&args.path, asked.as_object_mut()) {
        asked.insert("path".to_owned(), json!(path));
    }
    let answer = client.call(Method::POST, "/drills", Vec::new(), Some(asked.to_string()))?;
    if !answer.status.is_success() {
        return Err(refusal(&answer));
    }
    let drill = client.parsed(&answer)?;
    let passed = drill.get("passed") == Some(&Value::Bool(true));
    match args.client.output {
        Format::Json => output::print_json(&drill)?,
        Format::Table => output::print(&text(&drill, passed))?,
    }
    if passed {
        Ok(())
    } else {
        Err(Failure::Said(exit::TROUBLE))
    }
}

fn text(drill: &Value, passed: bool) -> String {
    let mut table = Table::new(&[
        ("gateway", Side::Left),
        ("step", Side::Left),
        ("answers", Side::Left),
        ("took", Side::Right),
        ("because", Side::Left),
    ]);
    let gateways = drill.get("gateways").and_then(Value::as_object);
    for (gateway, told) in gateways.into_iter().flatten() {
        let steps = told.get("steps").and_then(Value::as_array);
        let Some(steps) = steps.filter(|steps| !steps.is_empty()) else {
            let why = told.get("refused").and_then(Value::as_str);
            let why = why.unwrap_or("it did not answer").to_owned();
            table.row(vec![
                gateway.clone(),
                String::new(),
                "no".to_owned(),
                String::new(),
                why,
            ]);
            continue;
        };
        for step in steps {
            let answers = step.get("answers") == Some(&Value::Bool(true));
            let took_us = step.get("took_us").and_then(Value::as_u64).unwrap_or(0);
            table.row(vec![
                gateway.clone(),
                cell(step, "kind"),
                if answers { "yes" } else { "no" }.to_owned(),
                format!("{}.{} ms", took_us / 1_000, took_us % 1_000 / 100),
                because(step),
            ]);
        }
    }
    let verdict = match passed {
        true => "the fallback answers on every gateway",
        false => "the fallback does not answer on every gateway",
    };
    let (id, route) = (cell(drill, "id"), cell(drill, "route"));
    format!("{}drill {id} of {route}: {verdict}\n", table.text())
}

fn because(step: &Value) -> String {
    let number = |name: &str| step.get(name).and_then(Value::as_u64);
    if let Some(stored) = number("stored").filter(|stored| *stored > 0) {
        let age_ms = number("age_ms").unwrap_or(0);
        return format!("{stored} stored, the youngest {age_ms} ms old");
    }
    match (number("status"), step.get("why").and_then(Value::as_str)) {
        (_, Some(why)) => why.to_owned(),
        (Some(status), None) => format!("status {status}"),
        (None, None) => String::new(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_gateway_that_did_not_answer_is_said() {
        let drill = json!({
            "id": "1-1", "kind": "fallback", "route": "search", "passed": false,
            "gateways": {
                "g1": { "steps": [
                    { "kind": "stale", "answers": true, "took_us": 0, "stored": 3, "age_ms": 40 },
                    { "kind": "upstream", "answers": false, "took_us": 2500, "why": "full" },
                    { "kind": "static", "answers": true, "took_us": 0, "status": 203 }] },
                "g2": null,
            },
        });
        let text = text(&drill, false);
        for words in [
            "3 stored, the youngest 40 ms old",
            "2.5 ms",
            "full",
            "status 203",
            "it did not answer",
            "drill 1-1 of search: the fallback does not answer",
        ] {
            assert!(text.contains(words), "{words} in\n{text}");
        }
    }
}
