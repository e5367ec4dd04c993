//! Starting and failing to start: ports, folders, stores, the ready file, the sign-in rule.

#![expect(clippy::unwrap_used, reason = "a failed step fails the test")]

mod support;

use std::net::TcpListener;

use support::*;

fn folder() -> tempfile::TempDir {
    tempfile::tempdir().unwrap()
}

/// `up` that must fail.
fn refused(folder: &std::path::Path) -> String {
    one_line(&run(folder, UP))
}

#[test]
fn the_ready_file_names_every_listener_once_a_policy_is_live() {
    let (folder, upstream) = (folder(), Upstream::start(true));
    std::fs::write(folder.path().join("p.toml"), policy(&upstream.url, "2")).unwrap();
    let more = ["--policy", "p.toml", "--listen", "127.0.0.1:0"];
    let mut up = Process::up(folder.path(), "up", &more);
    assert_eq!(up.ready["gateway"].as_array().unwrap().len(), 2);
    assert!(up.ready["pid"].as_u64().unwrap() > 0);
    for pointer in ["/gateway/0", "/gateway/1"] {
        let at = up
            .ready
            .pointer(pointer)
            .unwrap()
            .as_str()
            .unwrap()
            .parse()
            .unwrap();
        assert_eq!(get(at, "/a").status, 200, "{pointer}");
    }
    assert_eq!(get(up.admin(), "/readyz").status, 200);
    assert_eq!(get(up.dashboard(), "/api/v1/policy").status, 200);
    up.signal("-TERM");
    assert_eq!(up.wait().code(), Some(0), "{}", up.text());
}

#[test]
fn a_url_and_a_limit_are_a_policy() {
    let (folder, upstream) = (folder(), Upstream::start(true));
    let up = Process::up(
        folder.path(),
        "up",
        &["--upstream", &upstream.url, "--limit", "7"],
    );
    assert_eq!(get(up.gateway(), "/any/path").status, 200);
    assert_eq!(up.compartment("route/all")["limit"], 7);
}

#[test]
fn nothing_at_all_starts_and_says_what_to_do_next() {
    let folder = folder();
    let up = Process::up(folder.path(), "up", &[]);
    let answer = get(up.gateway(), "/any");
    assert_eq!(answer.status, 404, "{answer:?}");
    assert_eq!(
        answer.header("x-bulkhead-reason").as_deref(),
        Some("no_route")
    );
    eventually("the log says what to do", || {
        let text = up.text();
        (text.contains("bulkhead apply") && text.contains("--upstream")).then_some(())
    });
    assert!(folder.path().join("data/bulkhead.db").is_file());
}

/// The store stays as it is; the operator hears how to apply the file.
#[test]
fn a_store_that_differs_from_the_file_is_left_alone() {
    let (folder, upstream) = (folder(), Upstream::start(true));
    std::fs::write(folder.path().join("p.toml"), policy(&upstream.url, "2")).unwrap();
    drop(Process::up(folder.path(), "first", &["--policy", "p.toml"]));
    std::fs::write(folder.path().join("p.toml"), policy(&upstream.url, "9")).unwrap();
    let up = Process::up(folder.path(), "second", &["--policy", "p.toml"]);
    assert_eq!(up.compartment("route/a")["limit"], 2);
    assert!(up.text().contains("apply"), "{}", up.text());
}

/// Flags that would have no effect are no start: a `--shadow` that nobody obeys refuses people.
#[test]
fn flags_that_the_store_does_not_follow_are_one_clear_line() {
    let (folder, upstream) = (folder(), Upstream::start(true));
    let quick = |limit| ["--upstream", upstream.url.as_str(), "--limit", limit];
    let up = Process::up(folder.path(), "first", &quick("7"));
    let changed = r#"{"limit": 8}"#;
    let path = "/api/v1/compartments/route%2Fall";
    assert_eq!(ask(up.dashboard(), "PATCH", path, changed).status, 200);
    drop(up);
    // The same flags again: what they made was changed since, and goes on.
    let up = Process::up(folder.path(), "second", &quick("7"));
    assert_eq!(up.compartment("route/all")["limit"], 8);
    assert!(up.text().contains("changed since"), "{}", up.text());
    drop(up);
    for more in [&quick("9")[..], &[&quick("7")[..], &["--shadow"]].concat()] {
        let output = run(folder.path(), &[UP, more].concat());
        assert_eq!(output.status.code(), Some(1));
        let line = one_line(&output);
        for words in [
            "generation 2",
            "nothing was changed",
            "bulkhead apply",
            "--data-dir",
        ] {
            assert!(line.contains(words), "{words} in {line}");
        }
    }
}

/// Without a user and a token nobody gets in but by the link, and the operator hears of it at once.
#[test]
fn a_start_without_a_user_prints_the_link_that_makes_one() {
    let folder = folder();
    let open: Vec<&str> = UP
        .iter()
        .copied()
        .filter(|arg| *arg != "--no-login")
        .collect();
    let up = Process::start(folder.path(), "up", &open, &[]);
    let text = up.text();
    let (_, code) = text.split_once("/setup?code=").unwrap();
    let code: String = code.chars().take_while(char::is_ascii_hexdigit).collect();
    assert!(code.len() >= 32, "{text}");
    let page = get(up.dashboard(), "/login").body;
    assert!(page.contains("Nobody was set up yet"), "{page}");
    assert!(!page.contains("<form"), "{page}");
    let page = get(up.dashboard(), &format!("/setup?code={code}")).body;
    assert!(page.contains("Set up the first user"), "{page}");
}

#[test]
fn a_busy_port_is_one_clear_line() {
    let folder = folder();
    let taken = TcpListener::bind("127.0.0.1:0").unwrap();
    let at = taken.local_addr().unwrap().to_string();
    for busy in ["--dashboard", "--admin", "--listen"] {
        let mut args = vec!["up", "--no-login", "--data-dir", "data"];
        for flag in ["--dashboard", "--admin", "--listen"] {
            args.extend([flag, if flag == busy { &at } else { "127.0.0.1:0" }]);
        }
        let line = one_line(&run(folder.path(), &args));
        assert!(line.contains(&at), "{busy}: {line}");
    }
}

#[test]
fn a_folder_that_cannot_be_written_is_one_clear_line() {
    let folder = folder();
    std::fs::write(folder.path().join("file"), "x").unwrap();
    let args = [
        "up",
        "--dashboard",
        "127.0.0.1:0",
        "--data-dir",
        "file/data",
    ];
    let line = one_line(&run(folder.path(), &args));
    assert!(line.contains("file/data"), "{line}");
}

#[test]
fn a_corrupt_store_is_refused_and_not_touched() {
    let folder = folder();
    let data = folder.path().join("data");
    std::fs::create_dir(&data).unwrap();
    let garbage = "not a database at all ".repeat(500);
    std::fs::write(data.join("bulkhead.db"), &garbage).unwrap();
    let line = refused(folder.path());
    assert!(line.contains("bulkhead.db"), "{line}");
    assert_eq!(
        std::fs::read_to_string(data.join("bulkhead.db")).unwrap(),
        garbage
    );
}

#[test]
fn a_newer_store_is_refused_and_not_touched() {
    let folder = folder();
    drop(Process::up(folder.path(), "up", &[]));
    let path = folder.path().join("data/bulkhead.db");
    let runtime = tokio::runtime::Builder::new_current_thread()
        .enable_all()
        .build()
        .unwrap();
    runtime.block_on(async {
        use sqlx::{ConnectOptions as _, Connection as _};
        let options = sqlx::sqlite::SqliteConnectOptions::new().filename(&path);
        let mut connection = options.connect().await.unwrap();
        let newer = "INSERT INTO _sqlx_migrations \
                     (version, description, installed_on, success, checksum, execution_time) \
                     VALUES (9999, 'later', CURRENT_TIMESTAMP, 1, x'00', 0)";
        sqlx::query(newer).execute(&mut connection).await.unwrap();
        connection.close().await.unwrap();
    });
    let before = std::fs::read(&path).unwrap();
    let line = refused(folder.path());
    assert!(line.contains("9999") && line.contains("newer"), "{line}");
    assert_eq!(std::fs::read(&path).unwrap(), before);
}

#[test]
fn a_policy_that_breaks_rules_stops_the_start_with_its_lines() {
    let folder = folder();
    std::fs::write(
        folder.path().join("p.toml"),
        policy("http://127.0.0.1:9", "-1"),
    )
    .unwrap();
    let output = run(folder.path(), &[UP, &["--policy", "p.toml"]].concat());
    let text = stderr(&output);
    assert!(!output.status.success());
    assert!(
        text.contains("line 12: routes[0].compartment.limit = -1"),
        "{text}"
    );
    // The file put right is imported: the store was left empty.
    std::fs::write(
        folder.path().join("p.toml"),
        policy("http://127.0.0.1:9", "4"),
    )
    .unwrap();
    let up = Process::up(folder.path(), "up", &["--policy", "p.toml"]);
    assert_eq!(up.compartment("route/a")["limit"], 4);
}

#[test]
fn without_sign_in_only_on_loopback() {
    let folder = folder();
    let args = [
        "up",
        "--no-login",
        "--dashboard",
        "192.0.2.1:0",
        "--data-dir",
        "data",
    ];
    let line = one_line(&run(folder.path(), &args));
    assert!(line.contains("loopback"), "{line}");
    let args = ["up", "--dashboard", "0.0.0.0:0", "--data-dir", "data"];
    let line = one_line(&run(folder.path(), &args));
    assert!(line.contains("TLS"), "{line}");
}

#[test]
fn a_token_that_can_be_guessed_is_refused_without_being_printed() {
    let folder = folder();
    let mut command = command(folder.path(), UP);
    command.env("BULKHEAD_ADMIN_TOKEN", "hunter2");
    let piped = std::process::Stdio::piped;
    let output = finish(command.stdout(piped()).stderr(piped()).spawn().unwrap());
    let line = one_line(&output);
    assert!(
        line.contains("BULKHEAD_ADMIN_TOKEN") && line.contains("32"),
        "{line}"
    );
    assert!(!line.contains("hunter2"), "{line}");
}

/// Tokens in memory stay out of core dumps.
#[test]
fn memory_is_left_out_of_core_dumps() {
    let folder = folder();
    let up = Process::up(folder.path(), "up", &[]);
    let filter = format!("/proc/{}/coredump_filter", up.ready["pid"]);
    assert_eq!(std::fs::read_to_string(filter).unwrap().trim(), "00000000");
}

#[test]
fn a_gateway_names_the_sources_it_could_have() {
    let folder = folder();
    let line = one_line(&run(folder.path(), &["gateway"]));
    assert!(
        line.contains("--control-plane") && line.contains("--policy"),
        "{line}"
    );
    let line = one_line(&run(
        folder.path(),
        &["gateway", "--control-plane", "http://127.0.0.1:9"],
    ));
    assert!(line.contains("BULKHEAD_GATEWAY_TOKEN"), "{line}");
}
