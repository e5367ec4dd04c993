//! An override planned, set, given another end, and lifted by the command line alone.

mod support;

use support::*;

#[test]
fn an_override_is_planned_set_and_lifted_by_command() {
    let (folder, upstream) = (tempfile::tempdir().unwrap(), Upstream::start(true));
    let at = folder.path();
    std::fs::write(at.join("p.toml"), policy(&upstream.url, "3")).unwrap();
    let up = Process::up(at, "up", &["--policy", "p.toml"]);
    let server = up.server();
    let tool_as = |args: &[&str], token: &[&str], want: i32| {
        let client = ["--server", server.as_str()];
        let output = run(at, &[&["override"], args, &client[..], token].concat());
        let text = format!("{}{}", stdout(&output), stderr(&output));
        assert_eq!(output.status.code(), Some(want), "{args:?}: {text}");
        text
    };
    let tool = |args: &[&str], want: i32| tool_as(args, &["--token", ADMIN_TOKEN], want);
    let (from, until) = (
        "2027-07-01T08:00[Europe/Berlin]",
        "2027-07-01T18:00[Europe/Berlin]",
    );
    let plan = ["create", "route/a", "--set"];

    // One that is ahead: nothing is set.
    let ahead = [
        "limit=9",
        "--from",
        from,
        "--until",
        until,
        "--comment",
        "the fair",
    ];
    let said = tool(&[&plan[..], &ahead].concat(), 0);
    assert_eq!(
        said,
        format!("override 1 waits: route/a limit 9 from {from} until {until}\n")
    );
    assert_eq!(up.compartment("route/a")["limit"], 3);
    let shown = tool(&["show", "1"], 0);
    for words in ["until, in UTC: 2027-07-01T16:00:00.000Z", "why: the fair"] {
        assert!(shown.contains(words), "{shown}");
    }
    assert!(tool(&["cancel", "1"], 0).starts_with("override 1 is cancelled"));
    assert!(tool(&["cancel", "1"], 1).contains("is over"));

    // One that begins now, gets another end, and is lifted.
    let now = ["limit=7", "--until", until];
    tool(&[&plan[..], &now].concat(), 0);
    eventually("it is set", || {
        (up.compartment("route/a")["limit"] == 7).then_some(())
    });
    let later = "2027-07-02T18:00:00Z";
    assert!(tool(&["extend", "2", "--until", later], 0).contains(later));
    eventually("it runs and knows what it puts back", || {
        let list = tool(&["list", "--open"], 0);
        (list.contains("running") && list.contains("limit=7") && !list.contains("the fair"))
            .then_some(())
    });
    let one: serde_json::Value =
        serde_json::from_str(&tool(&["show", "2", "-o", "json"], 0)).unwrap();
    assert_eq!((&one["before"], &one["end"]), (&3.into(), &later.into()));
    tool(&["cancel", "2"], 0);
    eventually("it is lifted", || {
        (up.compartment("route/a")["limit"] == 3).then_some(())
    });

    // What is no plan, and what waits for a second person.
    tool(&["create", "route/a", "--set", "limit=9"], 2);
    tool(
        &["create", "route/a", "--set", "limit", "--until", until],
        2,
    );
    assert!(
        tool(
            &["create", "route/a", "--set", "limit=9", "--until", "Friday"],
            1
        )
        .contains("end")
    );
    let set = r#"{"approvals": "all"}"#;
    let answer = ask(up.dashboard(), "PATCH", "/api/v1/settings", set);
    assert_eq!(answer.status, 200);
    let said = tool(&[&plan[..], &ahead].concat(), 3);
    assert!(
        said.contains("override 3 needs approval by another person"),
        "{said}"
    );
    assert!(tool(&["approve", "3"], 1).contains("second person"));
    assert!(tool_as(&["approve", "3"], &[], 0).starts_with("override 3 waits"));
}
