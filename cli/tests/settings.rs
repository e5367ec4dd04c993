//! Settings of the real binary: flag over environment over file over default.

#![expect(clippy::unwrap_used, reason = "a failed step fails the test")]

mod support;

use support::*;

/// Starts a gateway with its admin address from some of the sources, and tells where it listens.
fn admin_of(file: Option<&str>, variable: Option<&str>, flag: Option<&str>) -> String {
    let folder = tempfile::tempdir().unwrap();
    std::fs::write(
        folder.path().join("p.toml"),
        policy("http://127.0.0.1:9", "1"),
    )
    .unwrap();
    let mut args = vec!["gateway", "--policy", "p.toml", "--listen", "127.0.0.1:0"];
    if let Some(file) = file {
        let text = format!("# settings\nadmin = \"{file}\"\n");
        std::fs::write(folder.path().join("bulkhead.toml"), text).unwrap();
        args.extend(["--config", "bulkhead.toml"]);
    }
    if let Some(flag) = flag {
        args.extend(["--admin", flag]);
    }
    let env: Vec<(&str, &str)> = variable.iter().map(|at| ("BULKHEAD_ADMIN", *at)).collect();
    let gateway = Process::start(folder.path(), "gateway", &args, &env);
    gateway.admin().ip().to_string()
}

#[test]
fn stronger_sources_win() {
    let (file, variable, flag) = ("127.0.0.2:0", "127.0.0.3:0", "127.0.0.4:0");
    assert_eq!(admin_of(Some(file), None, None), "127.0.0.2");
    assert_eq!(admin_of(Some(file), Some(variable), None), "127.0.0.3");
    assert_eq!(
        admin_of(Some(file), Some(variable), Some(flag)),
        "127.0.0.4"
    );
}

#[test]
fn an_unknown_key_names_its_line_and_the_nearest() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("bulkhead.toml");
    std::fs::write(&path, "# settings\n\ndrain_timeoutt = \"5s\"\n").unwrap();
    for role in ["up", "gateway", "control-plane"] {
        let output = run(folder.path(), &[role, "--config", "bulkhead.toml"]);
        assert_eq!(
            one_line(&output),
            "bulkhead: bulkhead.toml line 3: unknown setting drain_timeoutt; did you mean \
             drain_timeout?"
        );
        assert_eq!(output.status.code(), Some(2));
    }
}

#[test]
fn an_unknown_variable_is_told_and_its_value_is_not() {
    let folder = tempfile::tempdir().unwrap();
    std::fs::write(
        folder.path().join("p.toml"),
        policy("http://127.0.0.1:9", "1"),
    )
    .unwrap();
    let args = [
        "gateway",
        "--policy",
        "p.toml",
        "--listen",
        "127.0.0.1:0",
        "--admin",
        "127.0.0.1:0",
    ];
    let env = [(
        "BULKHEAD_GATEWAY_TOKN",
        "canary-0123456789-canary-0123456789",
    )];
    let gateway = Process::start(folder.path(), "gateway", &args, &env);
    eventually("the warning", || {
        gateway
            .text()
            .contains("BULKHEAD_GATEWAY_TOKEN")
            .then_some(())
    });
    assert!(!gateway.text().contains("canary"), "{}", gateway.text());
}
