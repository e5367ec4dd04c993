//! `migrate`, `backup`, `restore`, `audit verify`: what they say and how they end.

#![expect(
    clippy::unwrap_used,
    clippy::indexing_slicing,
    reason = "a failed step fails the test"
)]

mod support;

use std::path::Path;

use support::{ADMIN_TOKEN, Process, Upstream, ask, eventually, get, policy, run, stderr, stdout};

const GATEWAY_TOKEN: &str = "gateway-token-of-the-copies-0123456789ab";

fn code(folder: &Path, args: &[&str], want: i32) -> String {
    let output = run(folder, args);
    let text = format!("{}{}", stdout(&output), stderr(&output));
    assert_eq!(output.status.code(), Some(want), "{args:?}: {text}");
    text
}

#[test]
fn a_store_is_copied_in_use_and_put_back_when_nobody_uses_it() {
    let folder = tempfile::tempdir().unwrap();
    let data = folder.path().join("data");
    let data = data.to_str().unwrap();
    let of = ["--data-dir", data];
    let with = |command: &'static [&'static str]| [command, &of[..]].concat();
    let said = code(folder.path(), &with(&["migrate", "--check"]), 1);
    assert!(said.contains("policy: at 0"), "{said}");
    let said = code(folder.path(), &with(&["migrate"]), 0);
    assert!(said.contains("policy: migrated from 0 to "), "{said}");
    assert!(said.contains("history: migrated from 0 to "), "{said}");
    let said = code(folder.path(), &with(&["migrate", "--check"]), 0);
    assert!(said.contains("policy: up to date at "), "{said}");

    let up = Process::up(folder.path(), "up", &[]);
    let said = code(folder.path(), &with(&["backup", "copy.db"]), 0);
    assert!(said.contains("1 generations, the newest is 1"), "{said}");
    let copy = std::fs::read(folder.path().join("copy.db")).unwrap();
    code(folder.path(), &with(&["backup", "copy.db"]), 1);
    assert_eq!(std::fs::read(folder.path().join("copy.db")).unwrap(), copy);
    code(folder.path(), &with(&["backup", "--force", "copy.db"]), 0);
    code(folder.path(), &with(&["restore", "copy.db"]), 1);
    drop(up);
    let said = code(folder.path(), &with(&["restore", "copy.db"]), 0);
    assert!(
        said.contains("generation 1 is the newest of store "),
        "{said}"
    );
    assert!(said.contains("what was there is in "), "{said}");
    code(folder.path(), &with(&["restore", "nothing.db"]), 1);
}

/// Read while it is in use, changed by somebody else, and cut off.
#[test]
fn an_audit_that_somebody_changed_is_named_by_its_row() {
    let folder = tempfile::tempdir().unwrap();
    let data = folder.path().join("data");
    let verify = ["audit", "verify", "--data-dir", data.to_str().unwrap()];
    code(folder.path(), &verify, 2);
    let up = Process::up(folder.path(), "up", &[]);
    let said = code(folder.path(), &verify, 0);
    assert!(
        said.starts_with("1 rows are as they were written, 1:"),
        "{said}"
    );
    assert!(said.contains("signed with this key"), "{said}");
    let known = said
        .split([' ', ';'])
        .find(|word| word.starts_with("1:"))
        .unwrap();
    let expected = [&verify[..], &["--expect", known, "-o", "json"]].concat();
    let said = code(folder.path(), &expected, 0);
    let json: serde_json::Value = serde_json::from_str(&said).unwrap();
    assert_eq!(
        (&json["rows"], &json["broken"]),
        (&1.into(), &serde_json::Value::Null)
    );
    code(
        folder.path(),
        &[&verify[..], &["--expect", "1:2"]].concat(),
        2,
    );
    drop(up);
    let key = folder.path().join("data/bulkhead.db-audit-key");
    let kept = std::fs::read(&key).unwrap();
    std::fs::write(&key, "o".repeat(40)).unwrap();
    let said = code(folder.path(), &verify, 1);
    assert!(said.contains("row 1: head: "), "{said}");
    std::fs::write(&key, kept).unwrap();
    let file = folder.path().join("data/bulkhead.db");
    let script = "import sqlite3,sys; c=sqlite3.connect(sys.argv[1]); \
                  c.execute('DROP TRIGGER audit_is_not_changed'); \
                  c.execute(\"UPDATE audit SET who='mallory'\"); c.commit()";
    let done = std::process::Command::new("python3")
        .args(["-c", script])
        .arg(&file)
        .status();
    assert!(done.unwrap().success());
    let said = code(folder.path(), &verify, 1);
    assert!(said.contains("row 1: edited: "), "{said}");
}

#[test]
fn a_wrong_url_is_said_without_its_password() {
    let folder = tempfile::tempdir().unwrap();
    for (url, status) in [
        ("postgres://me:hunter2hunter2@127.0.0.1:9/d", 1),
        (
            "postgres://me:hunter2hunter2@127.0.0.1/d?nonsense=hunter2hunter2",
            1,
        ),
        ("mysql://me:hunter2hunter2@127.0.0.1/d", 2),
    ] {
        let args = ["migrate", "--check", "--database-url", url];
        let text = code(folder.path(), &args, status);
        assert!(!text.contains("hunter2"), "{text}");
    }
}

fn limit(plane: &Process, limit: u64) -> u64 {
    let key = "/api/v1/compartments/route%2Fa";
    let answer = ask(
        plane.dashboard(),
        "PATCH",
        key,
        &format!("{{\"limit\":{limit}}}"),
    );
    answer.json()["generation"].as_u64().unwrap()
}

fn in_force(gateway: &Process) -> (u64, u64) {
    let generation = get(gateway.admin(), "/policy").json()["generation"].as_u64();
    let limit = gateway.compartment("route/a")["limit"].as_u64();
    (generation.unwrap(), limit.unwrap())
}

/// The gateway held 9, the copy was of 5: nothing from 6 to 12 moves it, also after its own start,
/// until somebody says so.
#[test]
fn after_a_restore_a_gateway_follows_no_number_without_a_word() {
    let (folder, upstream) = (tempfile::tempdir().unwrap(), Upstream::start(true));
    let folder = folder.path();
    std::fs::write(folder.join("p.toml"), policy(&upstream.url, "50")).unwrap();
    let url = "sqlite://store.db";
    let env = [
        ("BULKHEAD_ADMIN_TOKEN", ADMIN_TOKEN),
        ("BULKHEAD_GATEWAY_TOKEN", GATEWAY_TOKEN),
    ];
    let control_plane = |at: &str| {
        let args = [
            "control-plane",
            "--dashboard",
            at,
            "--database-url",
            url,
            "--policy",
            "p.toml",
        ];
        Process::start(folder, "plane", &args, &env)
    };
    let mut plane = control_plane("127.0.0.1:0");
    let server = plane.server();
    let gateway = || {
        let args = [
            "gateway",
            "--listen",
            "127.0.0.1:0",
            "--admin",
            "127.0.0.1:0",
            "--control-plane",
            &server,
            "--state-dir",
            "state",
            "--id",
            "one",
        ];
        Process::start(folder, "gateway", &args, &env[1..])
    };
    let mut one = gateway();
    for number in 2..=5 {
        assert_eq!(limit(&plane, 50 + number), number);
    }
    code(folder, &["backup", "copy.db", "--database-url", url], 0);
    for number in 6..=9 {
        assert_eq!(limit(&plane, number), number);
    }
    eventually("9 is in force", || (in_force(&one) == (9, 9)).then_some(()));

    let at = plane.dashboard().to_string();
    plane.signal("-TERM");
    plane.wait();
    code(folder, &["restore", "copy.db", "--database-url", url], 0);
    plane = control_plane(&at);
    for number in 6..=12 {
        assert_eq!(limit(&plane, 70 + number), number);
        eventually("it is asked about", || {
            let list = ask(plane.dashboard(), "GET", "/api/v1/gateways", "").json();
            let refused = list[0]["refused"]["generation"].as_u64();
            (refused == Some(number) && list[0]["ahead"] == true).then_some(())
        });
        assert_eq!(in_force(&one), (9, 9));
        let metrics = get(one.admin(), "/metrics").body;
        assert!(metrics.contains("bulkhead_policy_held_back 1"), "{metrics}");
        if number == 8 {
            one.signal("-KILL");
            one.wait();
            one = gateway();
        }
    }
    let said = [
        "fleet",
        "go-back",
        "one",
        "--server",
        &server,
        "--token",
        ADMIN_TOKEN,
    ];
    code(folder, &said, 0);
    eventually("it follows", || (in_force(&one) == (12, 82)).then_some(()));
    assert_eq!(limit(&plane, 83), 13);
    eventually("and goes on", || (in_force(&one) == (13, 83)).then_some(()));
}
