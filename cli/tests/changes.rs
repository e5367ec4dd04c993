//! A change followed from draft to effect and back by the command line alone.

mod support;

use support::*;

/// No write of a tenant says that something is in force that only waits.
fn writes_of_tenants_wait(tool: &dyn Fn(&[&str], i32) -> String) {
    let said = tool(&["tenant", "create", "acme", "--limit", "3"], 3);
    assert_eq!(said, "opened change 4, needs approval by another person\n");
    tool(&["changes", "approve", "4"], 1);
    assert!(tool(&["changes", "list"], 0).contains("draft, needs approval"));
    let said = tool(&["tenant", "key", "create", "beta"], 3);
    let words = "opens nothing until change 5 is approved by another person and published";
    assert!(said.contains(words), "{said}");
    assert_eq!(said.lines().count(), 3, "the key, and what it is: {said}");
    let said = tool(&["tenant", "key", "create", "beta", "-o", "json"], 3);
    assert!(said.contains("\"change\": 6"), "{said}");
    let said = tool(&["tenant", "suspend", "beta"], 3);
    assert_eq!(said, "opened change 7, needs approval by another person\n");
    let said = tool(&["tenant", "delete", "beta"], 3);
    assert_eq!(said, "opened change 8, needs approval by another person\n");
}

#[test]
fn a_change_goes_from_a_draft_to_its_effect_and_back_by_command() {
    let (folder, upstream) = (tempfile::tempdir().unwrap(), Upstream::start(true));
    let at = folder.path();
    std::fs::write(at.join("p.toml"), policy(&upstream.url, "3")).unwrap();
    let up = Process::up(at, "up", &["--policy", "p.toml"]);
    let server = up.server();
    let tool_as = |args: &[&str], token: &[&str], want: i32| {
        let client = ["--server", server.as_str()];
        let output = run(at, &[args, &client[..], token].concat());
        let text = format!("{}{}", stdout(&output), stderr(&output));
        assert_eq!(output.status.code(), Some(want), "{args:?}: {text}");
        text
    };
    let tool = |args: &[&str], want: i32| tool_as(args, &["--token", ADMIN_TOKEN], want);
    let create = [
        "changes",
        "create",
        "--set",
        "route/a:limit=9",
        "--comment",
        "lunch",
    ];
    assert_eq!(tool(&create, 0), "change 1 is draft\n");
    let shown = tool(&["changes", "show", "1"], 0);
    assert!(
        shown.contains("routes[0].compartment.limit: 3 -> 9"),
        "{shown}"
    );
    assert!(tool(&["changes", "list", "--state", "draft"], 0).contains("lunch"));
    assert_eq!(up.compartment("route/a")["limit"], 3);
    // Whoever wrote it does not approve it; somebody else does, without a token on loopback.
    assert!(tool(&["changes", "approve", "1"], 1).contains("another person"));
    assert_eq!(
        tool_as(&["changes", "approve", "1"], &[], 0),
        "change 1 is approved\n"
    );
    let publish = [
        "changes",
        "publish",
        "1",
        "--confirm-within",
        "10m",
        "--guard",
        "5",
    ];
    let said = tool(&publish, 0);
    assert!(
        said.starts_with("change 1 is published as generation 2\nreverts at "),
        "{said}"
    );
    let shown = tool(&["changes", "show", "1"], 0);
    for words in [" unless kept\n", "guard 5 %: "] {
        assert!(said.contains(words) && shown.contains(words), "{shown}");
    }
    eventually("the new limit", || {
        (up.compartment("route/a")["limit"] == 9).then_some(())
    });
    assert_eq!(
        tool(&["changes", "keep", "1"], 0),
        "change 1 is kept as generation 2\n"
    );
    let watched = tool(&["changes", "show", "1", "--watch"], 0);
    assert!(watched.contains(" runs (generation 2)"), "{watched}");
    assert_eq!(
        tool(&["changes", "revert", "1"], 0),
        "change 1 is reverted by generation 3\n"
    );
    tool(&["changes", "publish", "1"], 1);
    tool(&["changes", "create", "--set", "route/a"], 2);

    // Who names neither a gateway nor a purpose hears of both.
    let said = tool(&["token", "create"], 2);
    assert!(
        said.contains("--gateway") && said.contains("--name"),
        "{said}"
    );
    tool(&["tenant", "create", "beta", "--limit", "3"], 0);

    // With a second person asked for, nothing is stored, and the exit code says so.
    let set = r#"{"approvals": "all"}"#;
    let answer = ask(up.dashboard(), "PATCH", "/api/v1/settings", set);
    assert_eq!(answer.status, 200);
    std::fs::write(at.join("p.toml"), policy(&upstream.url, "17")).unwrap();
    let said = tool(&["apply", "-f", "p.toml", "--wait"], 3);
    assert_eq!(said, "opened change 2, needs approval by another person\n");
    let said = tool(&["rollback", "2"], 3);
    assert_eq!(said, "opened change 3, needs approval by another person\n");
    writes_of_tenants_wait(&tool);
    tool(&["changes", "publish", "2"], 1);
    tool_as(&["changes", "approve", "2"], &[], 0);
    tool(&["changes", "publish", "2"], 0);
    eventually("the limit of the file", || {
        (up.compartment("route/a")["limit"] == 17).then_some(())
    });
}
