//! `bulkhead apply`: makes a file the newest generation, and waits until it runs.
//!
//! Separate because it is the one tool with two steps after the change: who runs it, who refused.
//! It must never overwrite a generation that it has not seen.

use std::time::Duration;

use control_plane::document;
use http::{Method, StatusCode, header};
use serde_json::{Value, json};

use super::changes::{opened, waits};
use super::client::{Client, path_of, refusal};
use super::load_policy;
use crate::args::Format;
use crate::args_tools::ApplyArgs;
use crate::error::{Failure, exit};
use crate::output::{self, printable};

/// How often the gateways are asked whether they run it.
const ASK_PERIOD: Duration = Duration::from_millis(50);

pub(crate) fn run(args: &ApplyArgs) -> Result<(), Failure> {
    // Checked here first: only here do faults have line numbers.
    let loaded = load_policy(&args.file)?;
    let client = Client::new(&args.client)?;
    let stored = client.policy()?;
    let body = document::to_json(&loaded.document);
    let answer = put(&client, args, &stored.etag, body)?;
    if answer.status == StatusCode::PRECONDITION_FAILED {
        return Err(moved_on(&client, &stored.generation));
    }
    if !answer.status.is_success() {
        return Err(refusal(&answer));
    }
    let said = client.parsed(&answer)?;
    if let Some(change) = opened(&said) {
        return Err(waits(args.client.output, &said, Some(change))?);
    }
    report(args, &said)?;
    let generation = said.get("generation").and_then(Value::as_u64);
    match (args.wait, generation) {
        (Some(longest), Some(generation)) if !args.dry_run => wait(&client, generation, longest),
        _ => Ok(()),
    }
}

fn put(
    client: &Client,
    args: &ApplyArgs,
    etag: &str,
    body: String,
) -> Result<super::http::Answer, Failure> {
    let mut query = Vec::new();
    if args.dry_run {
        query.push("dry_run=true".to_owned());
    }
    if let Some(comment) = &args.comment {
        query.push(format!("comment={}", encoded(comment)));
    }
    let query = if query.is_empty() {
        String::new()
    } else {
        format!("?{}", query.join("&"))
    };
    let headers = vec![(header::IF_MATCH, etag.to_owned())];
    client.call(Method::PUT, &format!("/policy{query}"), headers, Some(body))
}

/// Percent-encodes everything but the plain letters.
pub(super) fn encoded(text: &str) -> String {
    let mut out = String::new();
    for byte in text.bytes() {
        if byte.is_ascii_alphanumeric() || b"-._~".contains(&byte) {
            out.push(char::from(byte));
        } else {
            out.push_str(&format!("%{byte:02X}"));
        }
    }
    out
}

/// Somebody was quicker: both versions, and what to do.
fn moved_on(client: &Client, ours: &str) -> Failure {
    let theirs = client.policy().ok().map(|stored| stored.generation);
    let theirs = theirs.as_deref().unwrap_or("a newer one");
    Failure::Answer(format!(
        "nothing applied: generation {ours} was the newest when this began, now it is {theirs}; \
         look at `bulkhead diff` and apply again"
    ))
}

fn report(args: &ApplyArgs, said: &Value) -> Result<(), Failure> {
    if args.client.output == Format::Json {
        return output::print_json(said);
    }
    let generation = said
        .get("generation")
        .map_or_else(String::new, ToString::to_string);
    let mut text = if args.dry_run {
        "nothing stored (--dry-run): the policy would be accepted\n".to_owned()
    } else if said.get("stored") == Some(&json!(false)) {
        format!("generation {generation} has this policy already\n")
    } else {
        format!("generation {generation}\n")
    };
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

/// One finding of the API: `warning L5 routes[0].compartment.queue: …`.
pub(super) fn finding_line(finding: &Value) -> String {
    let part = |name: &str| printable(finding.get(name).and_then(Value::as_str).unwrap_or("-"));
    let (severity, rule) = (part("severity"), part("rule"));
    format!("{severity} {rule} {}: {}\n", part("path"), part("message"))
}

/// Asks until every connected gateway runs the generation, one refuses it, or time is up.
fn wait(client: &Client, generation: u64, longest: Duration) -> Result<(), Failure> {
    let end = crate::clock::now() + longest;
    loop {
        let gateways = client.json(Method::GET, "/gateways")?;
        let connected: Vec<&Value> = gateways
            .as_array()
            .into_iter()
            .flatten()
            .filter(|gateway| gateway.get("connected") == Some(&json!(true)))
            .collect();
        if connected.is_empty() {
            output::complain(
                "no gateway is connected: stored, and sent to the first that connects",
            );
            return Ok(());
        }
        let refusing: Vec<_> = connected
            .iter()
            .filter(|g| refused_it(g, generation))
            .collect();
        if !refusing.is_empty() {
            for gateway in refusing {
                output::complain(&refusal_of(gateway));
            }
            return Err(Failure::Said(exit::TROUBLE));
        }
        let behind = connected
            .iter()
            .filter(|gateway| !runs(gateway, generation))
            .count();
        if behind == 0 {
            return Ok(());
        }
        if crate::clock::now() >= end {
            return Err(Failure::Answer(format!(
                "generation {generation} is stored, but {behind} of {} gateways do not run it \
                 after {longest:?}",
                connected.len()
            )));
        }
        std::thread::sleep(ASK_PERIOD);
    }
}

fn number(gateway: &Value, name: &str) -> u64 {
    gateway.get(name).and_then(Value::as_u64).unwrap_or(0)
}

fn runs(gateway: &Value, generation: u64) -> bool {
    number(gateway, "generation") >= generation
}

/// A refusal of an older generation says nothing about this one.
fn refused_it(gateway: &Value, generation: u64) -> bool {
    let refused = gateway.get("refused").filter(|refused| !refused.is_null());
    let state = gateway.get("state").and_then(Value::as_str);
    let of = refused.map_or(0, |refused| number(refused, "generation"));
    state == Some("refused") && (of == generation || of == 0) && !runs(gateway, generation)
}

fn refusal_of(gateway: &Value) -> String {
    let id = gateway.get("id").and_then(Value::as_str).unwrap_or("?");
    let mut text = format!("gateway {} refused it", printable(id));
    let faults = gateway
        .get("refused")
        .and_then(|refused| refused.get("errors"));
    for fault in faults.and_then(Value::as_array).into_iter().flatten() {
        let part = |name: &str| fault.get(name).and_then(Value::as_str).unwrap_or_default();
        let (path, value, rule) = (path_of(part("pointer")), part("value"), part("detail"));
        text.push_str(&format!(
            "\n{}",
            printable(&format!("{path} = {value}: {rule}"))
        ));
    }
    text
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_a_refusal_of_this_generation_counts() {
        let gateway = |generation, of| {
            json!({"id": "g", "connected": true, "generation": generation, "state": "refused",
                   "refused": {"generation": of, "errors": [
                       {"pointer": "/routes/0/id", "value": "x", "detail": "must"}]}})
        };
        assert!(refused_it(&gateway(3, 4), 4));
        assert!(!refused_it(&gateway(3, 2), 4), "an older refusal");
        assert!(!refused_it(&gateway(4, 4), 4), "runs it");
        assert_eq!(
            refusal_of(&gateway(3, 4)),
            "gateway g refused it\nroutes[0].id = x: must"
        );
    }

    #[test]
    fn comments_survive_the_query() {
        assert_eq!(encoded("a b&c=ü"), "a%20b%26c%3D%C3%BC");
    }
}
