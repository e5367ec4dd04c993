//! A change that was acknowledged: it is in force for the next request, and it is on disk.

#![expect(
    clippy::unwrap_used,
    clippy::indexing_slicing,
    reason = "a failed step fails the test"
)]

mod support;

use support::*;

const KEY: &str = "/api/v1/compartments/route%2Fa";

fn patch(up: &Process, limit: u32) -> u64 {
    let answer = ask(
        up.dashboard(),
        "PATCH",
        KEY,
        &format!("{{\"limit\":{limit}}}"),
    );
    assert_eq!(answer.status, 200, "{answer:?}");
    answer.json()["generation"].as_u64().unwrap()
}

fn in_force(up: &Process, generation: u64) {
    eventually("the generation in force", || {
        let running = get(up.admin(), "/policy").json()["generation"].as_u64();
        (running >= Some(generation)).then_some(())
    });
}

#[test]
fn a_limit_changed_through_the_api_changes_what_the_next_request_gets() {
    let (folder, upstream) = (tempfile::tempdir().unwrap(), Upstream::start(true));
    std::fs::write(folder.path().join("p.toml"), policy(&upstream.url, "2")).unwrap();
    let up = Process::up(folder.path(), "up", &["--policy", "p.toml"]);
    assert_eq!(get(up.gateway(), "/a").status, 200);
    in_force(&up, patch(&up, 0));
    let closed = get(up.gateway(), "/a");
    assert_eq!(closed.status, 503);
    assert_eq!(
        closed.header("x-bulkhead-reason").as_deref(),
        Some("closed")
    );
    in_force(&up, patch(&up, 1));
    assert_eq!(get(up.gateway(), "/a").status, 200);
}

#[test]
fn kill_right_after_the_acknowledgement_loses_nothing() {
    let (folder, upstream) = (tempfile::tempdir().unwrap(), Upstream::start(true));
    std::fs::write(folder.path().join("p.toml"), policy(&upstream.url, "2")).unwrap();
    let mut up = Process::up(folder.path(), "up", &["--policy", "p.toml"]);
    for limit in 7..12 {
        let generation = patch(&up, limit);
        up.signal("-KILL");
        up.wait();
        up = Process::up(folder.path(), "again", &[]);
        assert_eq!(get(up.admin(), "/policy").json()["generation"], generation);
        assert_eq!(up.compartment("route/a")["limit"], limit);
    }
}

#[test]
fn a_file_alone_is_read_again_on_sighup() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("p.toml");
    std::fs::write(&path, policy("http://127.0.0.1:9", "2")).unwrap();
    let args = [
        "gateway",
        "--policy",
        "p.toml",
        "--listen",
        "127.0.0.1:0",
        "--admin",
        "127.0.0.1:0",
    ];
    let gateway = Process::start(folder.path(), "gateway", &args, &[]);
    std::fs::write(&path, policy("http://127.0.0.1:9", "6")).unwrap();
    gateway.signal("-HUP");
    eventually("limit 6", || {
        (gateway.compartment("route/a")["limit"] == 6).then_some(())
    });
}
