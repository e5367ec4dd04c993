//! The house rules that a machine can hold: sizes, headers, arrows, bans with reasons.
//!
//! An ordinary test, so that every invariant of the architecture document is something that
//! `cargo test` can fail on.

#![expect(
    clippy::unwrap_used,
    reason = "a file that cannot be read fails the test"
)]

use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::path::{Path, PathBuf};

/// Longest function, source file without its tests, and line.
const FUNCTION_LINES_MAX: usize = 70;
const FILE_LINES_MAX: usize = 400;
const LINE_COLUMNS_MAX: usize = 100;

/// Who may depend on whom. Nothing else, and never back.
const ARROWS: [(&str, &[&str]); 7] = [
    ("compartment", &[]),
    ("wire", &["compartment"]),
    ("telemetry", &[]),
    ("gateway", &["compartment", "telemetry", "wire"]),
    ("web", &["compartment"]),
    (
        "control-plane",
        &["compartment", "telemetry", "web", "wire"],
    ),
    ("cli", &["control-plane", "gateway", "telemetry"]),
];

fn root() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR"))
        .parent()
        .unwrap()
        .to_owned()
}

fn walk(folder: &Path, ending: &str, found: &mut Vec<PathBuf>) {
    let Ok(entries) = fs::read_dir(folder) else {
        return;
    };
    for entry in entries {
        let path = entry.unwrap().path();
        let name = path.file_name().unwrap().to_string_lossy().into_owned();
        if path.is_dir() && !["target", "node_modules", "generated"].contains(&name.as_str()) {
            walk(&path, ending, found);
        } else if name.ends_with(ending) {
            found.push(path);
        }
    }
}

/// Every Rust file of the workspace but generated code.
fn sources() -> Vec<(PathBuf, String)> {
    let mut found = Vec::new();
    for (krate, _) in ARROWS {
        walk(&root().join(krate), ".rs", &mut found);
    }
    assert!(
        found.len() > 30,
        "the walk found only {} files",
        found.len()
    );
    found.sort();
    found
        .into_iter()
        .map(|p| (p.clone(), fs::read_to_string(&p).unwrap()))
        .collect()
}

/// The part of a file before its unit tests.
fn without_tests(text: &str) -> &str {
    let cut = [
        "\n#[cfg(test)]\nmod tests {",
        "\n#[cfg(all(test, not(loom)))]\nmod tests {",
    ]
    .iter()
    .filter_map(|mark| text.find(mark))
    .min();
    &text[..cut.unwrap_or(text.len())]
}

fn is_test_file(path: &Path) -> bool {
    path.components()
        .any(|c| ["tests", "benches"].contains(&c.as_os_str().to_str().unwrap()))
}

fn none(broken: &[String]) {
    assert!(
        broken.is_empty(),
        "{} broken:\n{}",
        broken.len(),
        broken.join("\n")
    );
}

#[test]
fn files_open_with_what_they_own() {
    let mut broken = Vec::new();
    for (path, text) in sources() {
        if !text.starts_with("//!") {
            broken.push(format!("{}: opens without //!", path.display()));
        }
    }
    none(&broken);
}

#[test]
fn files_and_lines_are_short() {
    let mut broken = Vec::new();
    for (path, text) in sources() {
        let lines = without_tests(&text).lines().count();
        if lines > FILE_LINES_MAX && !is_test_file(&path) {
            broken.push(format!("{}: {lines} lines", path.display()));
        }
        for (n, line) in text.lines().enumerate() {
            if line.chars().count() > LINE_COLUMNS_MAX {
                broken.push(format!(
                    "{}:{}: over {LINE_COLUMNS_MAX} columns",
                    path.display(),
                    n + 1
                ));
            }
        }
    }
    none(&broken);
}

#[test]
fn functions_are_short() {
    let mut broken = Vec::new();
    for (path, text) in sources() {
        if is_test_file(&path) {
            continue;
        }
        // rustfmt puts a function's closing brace in the column of its first word, so a function
        // ends at the first line that is that indent and a brace.
        let mut open: Option<(usize, usize, String)> = None;
        for (n, line) in without_tests(&text).lines().enumerate() {
            let indent = line.len() - line.trim_start().len();
            let is_fn = line
                .trim_start()
                .split('(')
                .next()
                .unwrap()
                .split(' ')
                .any(|w| w == "fn");
            if open.is_none() && is_fn && !line.trim_start().starts_with("//") {
                open = Some((indent, n, line.trim().to_owned()));
            }
            if let Some((at, start, name)) = open.clone() {
                if indent == at && (line.trim() == "}" || line.ends_with(';')) {
                    let lines = n + 1 - start;
                    if lines > FUNCTION_LINES_MAX {
                        let place = format!("{}:{}", path.display(), start + 1);
                        broken.push(format!("{place}: {lines} lines in {name}"));
                    }
                    open = None;
                } else if n == start && line.trim_end().ends_with('}') {
                    open = None;
                }
            }
        }
    }
    none(&broken);
}

#[test]
fn arrows_point_one_way() {
    let mut broken = Vec::new();
    for (krate, allowed) in ARROWS {
        let text = fs::read_to_string(root().join(krate).join("Cargo.toml")).unwrap();
        let manifest: toml::Table = text.parse().unwrap();
        let own = manifest["dependencies"].as_table().unwrap();
        for name in own.keys().filter_map(|name| name.strip_prefix("bulkhead-")) {
            if !allowed.contains(&name) {
                broken.push(format!("{krate} must not know {name}"));
            }
        }
        let foreign: BTreeSet<_> = own.keys().map(String::as_str).collect();
        let banned: &[&str] = match krate {
            "compartment" => &["tokio", "http", "hyper", "sqlx", "axum", "tracing", "jiff"],
            "web" => &["tokio", "sqlx", "axum", "hyper"],
            _ => &[],
        };
        for name in banned.iter().filter(|name| foreign.contains(**name)) {
            broken.push(format!("{krate} must not depend on {name}"));
        }
    }
    none(&broken);
}

#[test]
fn every_ban_has_its_reason() {
    let text = fs::read_to_string(root().join("clippy.toml")).unwrap();
    let conf: toml::Table = text.parse().unwrap();
    let bans = conf["disallowed-methods"].as_array().unwrap();
    assert!(!bans.is_empty());
    for ban in bans {
        let reason = ban
            .get("reason")
            .and_then(|r| r.as_str())
            .unwrap_or_default();
        assert!(reason.len() > 20, "{ban} has no reason");
    }
}

#[test]
fn no_lint_is_silenced_without_a_word() {
    let mut broken = Vec::new();
    for (path, text) in sources() {
        let own = path.ends_with("tidy.rs");
        for (n, line) in text.lines().enumerate().filter(|_| !own) {
            if line.contains("#[allow") || line.contains("#![allow") || line.contains("#[ignore") {
                broken.push(format!("{}:{}: {}", path.display(), n + 1, line.trim()));
            }
        }
    }
    none(&broken);
}

/// Style 12: deciding takes no lock, awaits nothing and logs nothing.
#[test]
fn admission_neither_waits_nor_logs() {
    let words = [
        ".await",
        "tracing::",
        "info!",
        "warn!",
        "error!",
        "println!",
    ];
    let mut broken = Vec::new();
    let root = root();
    let mut decided = vec!["admission.rs", "route.rs", "tenant.rs"]
        .into_iter()
        .map(|f| root.join("gateway/src").join(f))
        .collect::<Vec<_>>();
    walk(&root.join("compartment/src"), ".rs", &mut decided);
    for path in decided {
        let text = fs::read_to_string(&path).unwrap();
        let code: Vec<_> = without_tests(&text).lines().collect();
        for (n, line) in code
            .iter()
            .enumerate()
            .filter(|(_, l)| !l.trim_start().starts_with("//"))
        {
            for word in words.iter().filter(|word| line.contains(**word)) {
                broken.push(format!("{}:{}: {word}", path.display(), n + 1));
            }
        }
    }
    none(&broken);
}

/// The two stated exceptions to "admission takes no lock" live in the queue and in the map of
/// tenants on a route; the hull's own lock belongs to those who apply a policy, a breaker's to
/// failures, probes and changes of state, before any level is asked.
#[test]
fn locks_stay_in_their_rooms() {
    let rooms = ["breaker", "queue", "cells", "hull", "seat", "stats", "sync"];
    let mut files = Vec::new();
    walk(&root().join("compartment/src"), ".rs", &mut files);
    let mut broken = Vec::new();
    for path in files {
        let name = path
            .strip_prefix(root())
            .unwrap()
            .to_string_lossy()
            .into_owned();
        let text = fs::read_to_string(&path).unwrap();
        if without_tests(&text).contains("Mutex") && !rooms.iter().any(|room| name.contains(room)) {
            broken.push(format!("{name}: a lock outside {rooms:?}"));
        }
    }
    none(&broken);
}

/// Every invariant of the architecture document names the test or lint that holds it, and each
/// name is really there.
#[test]
fn invariants_name_their_tests() {
    let text = fs::read_to_string(root().join("ARCHITECTURE.md")).unwrap();
    let everything: String = sources().into_iter().map(|(_, text)| text).collect();
    let config = ["Cargo.toml", "clippy.toml"].map(|f| fs::read_to_string(root().join(f)).unwrap());
    let config = config.concat();
    let mut seen = BTreeMap::new();
    for line in text.lines().filter(|line| line.starts_with("Invariant")) {
        let (_, held_by) = line.split_once("Held by ").unwrap_or_else(|| {
            unreachable!("no `Held by` in: {line}");
        });
        let names: Vec<_> = held_by.split('`').skip(1).step_by(2).collect();
        assert!(!names.is_empty(), "no name in: {line}");
        for name in names {
            let there = everything.contains(&format!("fn {name}(")) || config.contains(name);
            seen.insert(name.to_owned(), there);
        }
    }
    let missing: Vec<_> = seen
        .iter()
        .filter(|(_, there)| !**there)
        .map(|(n, _)| n.clone())
        .collect();
    assert!(
        seen.len() >= 10,
        "only {} invariants name a test",
        seen.len()
    );
    none(&missing);
}
