//! One change, as a terminal shows it.
//!
//! Separate from the calls for length. Every text of others is printed without its control bytes.

use control_plane::scheduled::When;
use serde_json::{Value, json};

use super::history::cell;
use crate::output::printable;

/// `change 7 is published as generation 12`.
pub(super) fn line(change: &Value) -> String {
    let (number, state) = (cell(change, "number"), cell(change, "state"));
    let state = printable(&state);
    let of = |name: &str| cell(change, name);
    match state.as_str() {
        "published" | "kept" => {
            format!(
                "change {number} is {state} as generation {}",
                of("published")
            )
        }
        "reverted" => format!(
            "change {number} is reverted by generation {}",
            of("reverted")
        ),
        "staged" => format!(
            "change {number} is staged on {} as generation {}",
            printable(&of("gateway")),
            of("staged")
        ),
        _ => format!("change {number} is {state}"),
    }
}

pub(super) fn texts(value: &Value, name: &str) -> Vec<String> {
    let list = value.get(name).and_then(Value::as_array);
    let texts = list.into_iter().flatten().filter_map(Value::as_str);
    texts.map(printable).collect()
}

/// Everything about one.
pub(super) fn shown(change: &Value) -> String {
    let of = field;
    let list = |name: &str| {
        change
            .get(name)
            .and_then(Value::as_array)
            .into_iter()
            .flatten()
    };
    let mut text = format!("{}, on generation {}\n", line(change), of(change, "base"));
    if !of(change, "comment").is_empty() {
        text.push_str(&format!("why: {}\n", of(change, "comment")));
    }
    if change.get("needs_approval") == Some(&json!(true)) {
        text.push_str("it needs approval by another person\n");
    }
    text.push_str(&terms(change));
    text.push_str(&differences(change));
    for name in ["dangers", "faults"] {
        for said in texts(change, name) {
            text.push_str(&format!("{}: {said}\n", name.trim_end_matches('s')));
        }
    }
    for finding in list("findings") {
        text.push_str(&super::apply::finding_line(finding));
    }
    text.push_str(&effects(change));
    for step in list("steps") {
        let comment = of(step, "comment");
        let why = if comment.is_empty() {
            comment
        } else {
            format!(": {comment}")
        };
        let part = |name: &str| of(step, name);
        text.push_str(&format!(
            "{} {} by {}{why}\n",
            part("at"),
            part("step"),
            part("by")
        ));
    }
    text.push_str(&gateways(change));
    text
}

/// What takes a published change back by itself.
pub(super) fn terms(change: &Value) -> String {
    if field(change, "state") != "published" {
        return String::new();
    }
    let moment = |of: &Value, name: &str| {
        let unix_ms = of.get(name).and_then(Value::as_i64)?;
        let when = When {
            unix_ms,
            ..When::default()
        };
        Some(when.utc())
    };
    let mut text = String::new();
    if let Some(at) = moment(change, "confirm_by_ms") {
        text.push_str(&format!("reverts at {at} unless kept\n"));
    }
    let guard = change.get("guard").unwrap_or(&Value::Null);
    let share = guard.get("refused_milli").and_then(Value::as_f64);
    if let (Some(milli), Some(until)) = (share, moment(guard, "until_ms")) {
        let percent = milli / 10.0;
        text.push_str(&format!(
            "guard {percent} %: reverts when more than that is refused before {until}\n"
        ));
    }
    text
}

/// What differs, and what somebody else changed, too.
fn differences(change: &Value) -> String {
    let list = |name: &str| {
        change
            .get(name)
            .and_then(Value::as_array)
            .into_iter()
            .flatten()
    };
    let mut text = String::new();
    for one in list("differences") {
        let side = |name: &str| match one.get(name) {
            Some(Value::String(text)) => printable(text),
            _ => "nothing".to_owned(),
        };
        let key = match field(one, "key") {
            key if key.is_empty() => key,
            key => format!("{key} "),
        };
        text.push_str(&format!(
            "  {key}{}: {} -> {}\n",
            field(one, "path"),
            side("old"),
            side("new")
        ));
    }
    for one in list("clashes") {
        let side = |name: &str| one.get(name).map_or_else(String::new, ToString::to_string);
        text.push_str(&format!(
            "conflict at {}: was {}, this change says {}, somebody else made it {}\n",
            field(one, "path"),
            printable(&side("base")),
            printable(&side("mine")),
            printable(&side("theirs"))
        ));
    }
    text
}

/// What its limits would do, and what happened.
fn effects(change: &Value) -> String {
    let list = |name: &str| {
        change
            .get(name)
            .and_then(Value::as_array)
            .into_iter()
            .flatten()
    };
    let mut text = String::new();
    for effect in list("effects") {
        for because in texts(effect, "because") {
            text.push_str(&format!("effect at {}: {because}\n", field(effect, "key")));
        }
    }
    for one in list("compared") {
        let side = |name: &str| {
            let sum = one.get(name).cloned().unwrap_or_default();
            let part = |name: &str| field(&sum, name);
            let (arrived, refused) = (part("arrived"), part("refused"));
            format!(
                "{arrived} arrived, {refused} refused, peak {}",
                part("peak")
            )
        };
        let key = field(one, "key");
        text.push_str(&format!("{key} before: {}\n", side("before")));
        text.push_str(&format!("{key} after:  {}\n", side("after")));
    }
    text
}

fn field(value: &Value, name: &str) -> String {
    printable(&cell(value, name))
}

/// What each gateway answered.
pub(super) fn gateways(change: &Value) -> String {
    let list = change.get("gateways").and_then(Value::as_array);
    let mut text = String::new();
    for one in list.into_iter().flatten() {
        let of = |name: &str| printable(&cell(one, name));
        let reason = of("reason");
        let why = if reason.is_empty() {
            reason
        } else {
            format!(": {reason}")
        };
        text.push_str(&format!(
            "gateway {} {} (generation {}){why}\n",
            of("gateway"),
            of("answer"),
            of("generation")
        ));
    }
    text
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_takes_a_change_back_is_said_while_it_may() {
        let mut change = json!({"number": 1, "state": "published", "confirm_by_ms": 1_000,
            "guard": {"refused_milli": 25, "until_ms": 61_000, "unhealthy": []}});
        assert_eq!(
            terms(&change),
            "reverts at 1970-01-01T00:00:01.000Z unless kept\n\
             guard 2.5 %: reverts when more than that is refused before 1970-01-01T00:01:01.000Z\n"
        );
        change["state"] = json!("kept");
        assert_eq!(terms(&change), "");
    }
}
