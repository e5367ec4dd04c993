//! The table of calls against the description that is checked in.
//!
//! Separate for length. It must never describe a call itself.

use std::collections::BTreeSet;

use serde_json::Value as Json;

use super::*;
use crate::access::Need;

const FILE: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/src/api/openapi.json");

/// The first lines that differ, with what stands around them.
fn difference(old: &str, new: &str) -> String {
    let (old, new): (Vec<_>, Vec<_>) = (old.lines().collect(), new.lines().collect());
    let same = old.iter().zip(&new).take_while(|(a, b)| a == b).count();
    let end = old[same..]
        .iter()
        .rev()
        .zip(new[same..].iter().rev())
        .take_while(|(a, b)| a == b)
        .count();
    let show = |sign: char, lines: &[&str]| {
        let shown = lines[same..lines.len() - end].iter().take(40);
        shown
            .map(|line| format!("{sign}{line}\n"))
            .collect::<String>()
    };
    let before: String = old[same.saturating_sub(8)..same]
        .iter()
        .map(|line| format!(" {line}\n"))
        .collect();
    format!(
        "from line {}:\n{before}{}{}",
        same + 1,
        show('-', &old),
        show('+', &new)
    )
}

#[test]
fn openapi_json_is_what_the_table_says() {
    let new = description();
    if std::env::var("BULKHEAD_OPENAPI").as_deref() == Ok("write") {
        std::fs::write(FILE, &new).unwrap();
        return;
    }
    let old = std::fs::read_to_string(FILE).unwrap();
    assert!(
        old == new,
        "openapi.json is not what the table of calls says. Read the difference; if it is meant, \
         run\n  BULKHEAD_OPENAPI=write cargo test -p bulkhead-control-plane openapi\n{}",
        difference(&old, &new)
    );
}

#[test]
fn every_call_has_a_name_of_its_own_and_every_type_too() {
    let calls = calls();
    let names: BTreeSet<_> = calls.iter().map(|call| call.about.id).collect();
    assert_eq!(names.len(), calls.len());
    for call in &calls {
        assert!(!call.about.summary.is_empty(), "{}", call.path);
        assert!(!call.about.answers.is_empty(), "{}", call.path);
        let mut answers = call.about.answers.iter();
        if answers.any(|answer| answer.about.contains("only time")) {
            assert!(call.once().is_some(), "{}: shows_once", call.path);
        }
        if let Some(example) = call.about.body.as_ref().and_then(|body| body.example) {
            serde_json::from_str::<Json>(example).unwrap();
        }
    }
    let document: Json = serde_json::from_str(&description()).unwrap();
    for route in table() {
        let (path, needs) = route.entry();
        for (method, need) in needs {
            let method = method.as_str().to_ascii_lowercase();
            let role = document["paths"][path][method]["x-role"].as_str();
            let needed = match need {
                Need::Public => None,
                Need::Role(role) => Some(role.word()),
            };
            assert_eq!(role, needed, "{path}");
        }
    }
    let schemas = document["components"]["schemas"].as_object().unwrap();
    let twice: Vec<_> = schemas.keys().filter(|name| name.contains(' ')).collect();
    assert!(twice.is_empty(), "{twice:?}");
    assert!(document["openapi"].as_str().unwrap().starts_with("3.1."));
}

#[test]
fn every_reference_in_the_description_leads_somewhere_and_every_part_is_referred_to() {
    fn walk<'a>(here: &'a Json, root: &Json, met: &mut BTreeSet<&'a str>) {
        if let Some(target) = here.get("$ref").and_then(Json::as_str) {
            let pointer = target.strip_prefix('#').unwrap();
            assert!(root.pointer(pointer).is_some(), "{target}");
            met.insert(target);
        }
        match here {
            Json::Array(items) => items.iter().for_each(|item| walk(item, root, met)),
            Json::Object(items) => items.values().for_each(|item| walk(item, root, met)),
            Json::Null | Json::Bool(_) | Json::Number(_) | Json::String(_) => {}
        }
    }
    let document: Json = serde_json::from_str(&description()).unwrap();
    let mut met = BTreeSet::new();
    walk(&document, &document, &mut met);
    for kind in ["parameters", "responses"] {
        for name in document["components"][kind].as_object().unwrap().keys() {
            let target = format!("#/components/{kind}/{name}");
            // Said in other words by the one call that has it.
            assert!(
                met.contains(target.as_str()) || name == "NoVersion",
                "{target}"
            );
        }
    }
}
