//! The tools: exit codes, words, and a full round through the API.

#![expect(clippy::unwrap_used, reason = "a failed step fails the test")]

mod support;

use std::path::Path;
use std::process::Stdio;

use support::*;

fn code(folder: &Path, args: &[&str], want: i32) -> String {
    let output = run(folder, args);
    let text = format!("{}{}", stdout(&output), stderr(&output));
    assert_eq!(output.status.code(), Some(want), "{args:?}: {text}");
    assert!(!text.contains("panicked"), "{text}");
    text
}

#[test]
fn check_tells_fine_from_wrong_from_unreadable() {
    let folder = tempfile::tempdir().unwrap();
    let write = |name: &str, text: &str| std::fs::write(folder.path().join(name), text).unwrap();
    write("good.toml", &policy("http://127.0.0.1:9", "5"));
    assert!(code(folder.path(), &["check", "good.toml"], 0).contains("is fine"));
    write(
        "bad.toml",
        &policy("http://127.0.0.1:9", "1.5").replace("\"main\"", "\"nobody\""),
    );
    let text = code(folder.path(), &["check", "bad.toml"], 1);
    assert!(
        text.contains("line 12: routes[0].compartment.limit = 1.5: must be"),
        "{text}"
    );
    assert!(
        text.contains("routes[0].upstream"),
        "every fault at once: {text}"
    );
    let json = code(folder.path(), &["check", "bad.toml", "-o", "json"], 1);
    let json: serde_json::Value = serde_json::from_str(&json).unwrap();
    assert_eq!(json["fine"], false);
    assert_eq!(json["errors"].as_array().unwrap().len(), 2, "{json}");
    write("empty.toml", "");
    code(folder.path(), &["check", "empty.toml"], 1);
    std::fs::write(folder.path().join("raw.toml"), b"schema = 1\n\xff\xfe").unwrap();
    assert!(code(folder.path(), &["check", "raw.toml"], 1).contains("line 2"));
    write("huge.toml", &"#".repeat(33 * 1024 * 1024));
    assert!(code(folder.path(), &["check", "huge.toml"], 1).contains("at most"));
    assert!(code(folder.path(), &["check", "none.toml"], 2).contains("none.toml"));
}

#[test]
fn a_reader_who_has_seen_enough_is_no_error() {
    let folder = tempfile::tempdir().unwrap();
    let mut command = command(folder.path(), &["completion", "bash"]);
    let mut child = command
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()
        .unwrap();
    drop(child.stdout.take());
    child.stdout = Some(empty_pipe());
    let output = finish(child);
    assert_eq!(output.status.code(), Some(0));
    assert_eq!(stderr(&output), "");
}

/// The reading end of a pipe that a finished process has closed.
fn empty_pipe() -> std::process::ChildStdout {
    let mut child = std::process::Command::new("true")
        .stdout(Stdio::piped())
        .spawn()
        .unwrap();
    child.wait().unwrap();
    child.stdout.take().unwrap()
}

#[test]
fn an_unknown_command_is_a_usage_error() {
    let folder = tempfile::tempdir().unwrap();
    for args in [
        &["drill"][..],
        &["up", "--listen-tls", "x"],
        &["get", "nothing"],
        &["size"],
    ] {
        code(folder.path(), args, 2);
    }
}

#[test]
fn health_is_the_status() {
    let folder = tempfile::tempdir().unwrap();
    let up = Process::up(folder.path(), "up", &[]);
    let url = format!("http://{}/readyz", up.admin());
    code(folder.path(), &["health", &url], 0);
    code(folder.path(), &["health", &format!("{url}/nothing")], 1);
    code(folder.path(), &["health", "http://127.0.0.1:9/readyz"], 1);
    code(folder.path(), &["health", "https://127.0.0.1:9/readyz"], 1);
    code(folder.path(), &["health", "ftp://127.0.0.1:9/readyz"], 2);
}

#[test]
fn a_key_is_hashed_from_standard_input_too() {
    use std::io::Write as _;

    let folder = tempfile::tempdir().unwrap();
    let want = "sha256:9f86d081884c7d659a2feaa0c55ad015a3bf4f1b2b0b822cd15d6c15b0f00a08\n";
    assert_eq!(code(folder.path(), &["token", "hash", "test"], 0), want);
    let mut command = command(folder.path(), &["token", "hash"]);
    let piped = command
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .stderr(Stdio::piped());
    let mut child = piped.spawn().unwrap();
    child.stdin.take().unwrap().write_all(b"test\n").unwrap();
    assert_eq!(stdout(&finish(child)), want);
}

fn lists_the_audit(tool: &dyn Fn(&[&str], i32) -> String) {
    let audit = tool(&["audit", "list", "--action", "put"], 0);
    assert!(audit.contains("policy") && audit.contains("first & über"));
    let audit = tool(&["audit", "list", "--count", "1", "-o", "json"], 0);
    assert!(
        audit.contains("\"digest\"") && audit.contains("\"differences\""),
        "{audit}"
    );
    let none = tool(
        &[
            "audit",
            "list",
            "--who",
            "nobody",
            "--from",
            "2026-01-01T00:00:00+02:00",
        ],
        0,
    );
    assert_eq!(none.lines().count(), 1, "{none}");
    assert!(tool(&["audit", "list", "--to", "yesterday"], 1).contains("RFC 3339"));
}

#[test]
fn a_policy_goes_in_comes_out_and_goes_back() {
    let (folder, upstream) = (tempfile::tempdir().unwrap(), Upstream::start(true));
    let at = folder.path();
    let write = |name: &str, text: &str| std::fs::write(at.join(name), text).unwrap();
    let up = Process::up(at, "up", &[]);
    let server = up.server();
    let tool = |args: &[&str], want: i32| {
        let client = ["--server", server.as_str(), "--token", ADMIN_TOKEN];
        code(at, &[args, &client[..]].concat(), want)
    };
    write("p.toml", &policy(&upstream.url, "3"));
    tool(
        &[
            "apply",
            "-f",
            "p.toml",
            "--wait",
            "--comment",
            "first & \u{fc}ber",
        ],
        0,
    );
    assert_eq!(
        up.compartment("route/a")["limit"],
        3,
        "it runs when apply --wait returns"
    );
    assert!(tool(&["history"], 0).contains("first & über"));
    lists_the_audit(&tool);
    assert!(tool(&["apply", "-f", "p.toml"], 0).contains("has this policy already"));

    write("out.toml", &tool(&["export"], 0));
    tool(&["diff", "-f", "out.toml"], 0);
    write("p.toml", &policy(&upstream.url, "17"));
    let text = tool(&["diff", "-f", "p.toml"], 1);
    assert!(
        text.contains("routes[0].compartment.limit: 3 -> 17"),
        "{text}"
    );
    tool(&["diff", "-f", "none.toml"], 2);
    tool(&["apply", "-f", "p.toml", "--dry-run"], 0);
    assert_eq!(up.compartment("route/a")["limit"], 3);

    write("bad.toml", &policy(&upstream.url, "-1"));
    let text = tool(&["apply", "-f", "bad.toml", "--wait"], 1);
    assert!(
        text.contains("line 12: routes[0].compartment.limit = -1"),
        "{text}"
    );

    tool(&["apply", "-f", "p.toml", "--wait"], 0);
    let first = get(up.admin(), "/policy").json()["generation"]
        .as_u64()
        .unwrap()
        - 1;
    tool(&["rollback", &first.to_string()], 0);
    eventually("the old limit", || {
        (up.compartment("route/a")["limit"] == 3).then_some(())
    });
    let listed = tool(&["get", "compartments"], 0);
    assert!(listed.contains("route/a"), "{listed}");
    let looks = tool(&["top", "--interval", "100ms", "--count", "3"], 0);
    assert_eq!(looks.matches("route/a").count(), 3, "{looks}");
    assert!(looks.contains("0.0/s"), "two looks are compared: {looks}");
    assert!(tool(&["get", "gateways"], 0).contains("running"));
    tool(&["get", "tenants"], 0);
}

#[test]
fn a_token_comes_from_a_file_and_a_policy_from_standard_input() {
    use std::io::Write as _;

    let folder = tempfile::tempdir().unwrap();
    let at = folder.path();
    let up = Process::up(at, "up", &[]);
    let server = up.server();
    std::fs::write(at.join("token"), format!("{ADMIN_TOKEN}\n")).unwrap();
    let client = ["--server", server.as_str(), "--token-file", "token"];
    let piped = |text: &str, args: &[&str]| {
        let mut child = command(at, &[args, &client[..]].concat())
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .stderr(Stdio::piped())
            .spawn()
            .unwrap();
        child
            .stdin
            .take()
            .unwrap()
            .write_all(text.as_bytes())
            .unwrap();
        let output = finish(child);
        assert_eq!(output.status.code(), Some(0), "{}", stderr(&output));
    };
    piped(&policy("http://127.0.0.1:9", "7"), &["apply", "-f", "-"]);
    let json = r#"{"schema": 1, "upstreams": {"main": {"endpoints": ["http://127.0.0.1:9"]}},
        "routes": [{"id": "a", "path": "/a", "upstream": "main", "compartment": {"limit": 8}}]}"#;
    piped(json, &["apply", "-f", "-", "--wait"]);
    assert_eq!(up.compartment("route/a")["limit"], 8);
    std::fs::write(at.join("token"), "two words").unwrap();
    let text = code(at, &[&["history"], &client[..]].concat(), 2);
    assert!(text.contains("--token-file token"), "{text}");
    std::fs::write(at.join("token"), "x".repeat(40)).unwrap();
    let text = code(at, &[&["history"], &client[..]].concat(), 1);
    assert!(text.contains("BULKHEAD_TOKEN"), "{text}");
    assert!(!text.contains(&"x".repeat(40)), "{text}");
}

#[test]
fn a_control_plane_that_is_not_there_is_one_clear_line() {
    let folder = tempfile::tempdir().unwrap();
    let args = ["history", "--server", "http://127.0.0.1:9"];
    let line = one_line(&run(folder.path(), &args));
    assert!(line.contains("http://127.0.0.1:9"), "{line}");
    assert!(line.contains("--server"), "what to do next: {line}");
    assert_eq!(
        run(folder.path(), &["diff", "-f", "x"]).status.code(),
        Some(2)
    );
}

/// Each contradiction through `check` and `apply`: the same verdict, with line, rule and sum.
#[test]
fn a_contradiction_has_its_line_and_its_sum_in_check_and_apply() {
    let folder = tempfile::tempdir().unwrap();
    let at = folder.path();
    let up = Process::up(at, "up", &[]);
    let server = up.server();
    let start = policy("http://127.0.0.1:9", "30");
    for (more, want, words) in [
        ("queue = 2", 1, &["queue_wait", "required"][..]),
        (
            "queue = 2\nqueue_wait = \"61s\"",
            1,
            &["line 14", "queue_wait", "61 s", "60 s"],
        ),
        (
            "queue = 10\nqueue_wait = \"20ms\"",
            0,
            &["warning P2", "line 13", "10 places"],
        ),
        ("class_reserve = 30", 1, &["line 13", "class_reserve = 30"]),
        (
            "reserved = 31",
            1,
            &["line 13", "reserved = 31", "limit 30"],
        ),
        ("max_hold = \"14s\"", 0, &["max_hold", "14 s", "15 s"]),
        (
            "assume = { rate = 1, p99 = \"1s\" }\n[gateway]\ncapacity = 29",
            1,
            &["line 15", "gateway.capacity = 29", "30 guaranteed"],
        ),
    ] {
        std::fs::write(at.join("p.toml"), format!("{start}{more}\n")).unwrap();
        let checked = code(at, &["check", "p.toml"], want);
        for word in words {
            assert!(checked.contains(word), "{word} in {checked}");
        }
        let client = ["--server", server.as_str(), "--token", ADMIN_TOKEN];
        let applied = code(
            at,
            &[&["apply", "-f", "p.toml"], &client[..]].concat(),
            want,
        );
        let last = words.last().unwrap();
        assert!(applied.contains(last), "{last} in {applied}");
    }
}
