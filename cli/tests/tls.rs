//! TLS on the dashboard's port, end to end: pages, API, clients and a gateway, with certificates
//! that are replaced while all of it runs.

#![expect(clippy::unwrap_used, reason = "a failed step fails the test")]

mod support;

use std::io::{Read as _, Write as _};
use std::path::Path;

use rcgen::{BasicConstraints, CertificateParams, IsCa, Issuer, KeyPair};
use support::*;

const GATEWAY_TOKEN: &str = "a-gateway-token-of-the-tests-0123456789";
const ENV: [(&str, &str); 2] = [
    ("BULKHEAD_ADMIN_TOKEN", ADMIN_TOKEN),
    ("BULKHEAD_GATEWAY_TOKEN", GATEWAY_TOKEN),
];

/// Signs certificates and lies beside them as `NAME.pem`.
struct Authority(Issuer<'static, KeyPair>);

impl Authority {
    fn new(folder: &Path, name: &str) -> Self {
        let mut params = CertificateParams::new(Vec::new()).unwrap();
        params.is_ca = IsCa::Ca(BasicConstraints::Unconstrained);
        let key = KeyPair::generate().unwrap();
        let pem = params.self_signed(&key).unwrap().pem();
        std::fs::write(folder.join(format!("{name}.pem")), pem).unwrap();
        Self(Issuer::new(params, key))
    }

    /// Puts a certificate for this name into the files that the control plane reads.
    fn issue(&self, folder: &Path, host: &str) {
        let params = CertificateParams::new(vec![host.to_owned()]).unwrap();
        let key = KeyPair::generate().unwrap();
        let cert = params.signed_by(&key, &self.0).unwrap();
        std::fs::write(folder.join("key.pem"), key.serialize_pem()).unwrap();
        std::fs::write(folder.join("cert.pem"), cert.pem()).unwrap();
    }
}

const CONTROL_PLANE: &[&str] = &[
    "control-plane",
    "--dashboard",
    "127.0.0.1:0",
    "--data-dir",
    "data",
    "--policy",
    "p.toml",
    "--dashboard-tls-cert",
    "cert.pem",
    "--dashboard-tls-key",
    "key.pem",
];

fn gateway(folder: &Path, name: &str, url: &str, ca: &str) -> Process {
    let args = [
        "gateway",
        "--listen",
        "127.0.0.1:0",
        "--admin",
        "127.0.0.1:0",
        "--control-plane",
        url,
        "--control-plane-ca",
        ca,
        "--id",
        name,
    ];
    Process::launch(folder, name, &args, &ENV)
}

fn client(folder: &Path, server: &str, ca: &str, what: &[&str]) -> std::process::Output {
    let of = ["--server", server, "--ca", ca, "--token", ADMIN_TOKEN];
    run(folder, &[what, &of].concat())
}

#[test]
fn pages_api_clients_and_gateways_speak_tls_and_certificates_are_read_again() {
    let folder = tempfile::tempdir().unwrap();
    let folder = folder.path();
    std::fs::write(folder.join("p.toml"), policy("http://127.0.0.1:9", "2")).unwrap();
    let (own, other) = (
        Authority::new(folder, "ca"),
        Authority::new(folder, "other"),
    );
    own.issue(folder, "localhost");
    let mut plane = Process::start(folder, "plane", CONTROL_PLANE, &ENV);
    let port = plane.dashboard().port();
    let url = format!("https://localhost:{port}");
    let listed = client(folder, &url, "ca.pem", &["get", "gateways"]);
    assert!(listed.status.success(), "{}", stderr(&listed));
    // Nobody else's roots, no other name, and nothing in clear.
    let wrong = client(folder, &url, "other.pem", &["get", "gateways"]);
    assert!(!wrong.status.success());
    let named = format!("https://127.0.0.1:{port}");
    assert!(
        !client(folder, &named, "ca.pem", &["get", "gateways"])
            .status
            .success()
    );
    let mut plain = std::net::TcpStream::connect(plane.dashboard()).unwrap();
    plain.set_read_timeout(Some(DEADLINE)).unwrap();
    plain
        .write_all(b"GET /login HTTP/1.1\r\nhost: localhost\r\n\r\n")
        .unwrap();
    let mut bytes = Vec::new();
    let _reset = plain.read_to_end(&mut bytes);
    assert!(!String::from_utf8_lossy(&bytes).contains("HTTP/1.1"));
    // A gateway with the right roots runs the policy; one with others goes on dialling.
    let mut good = gateway(folder, "good", &url, "ca.pem");
    let _bad = gateway(folder, "bad", &url, "other.pem");
    good.ready = eventually("the gateway is ready", || good.ready_now());
    let gateways = || stdout(&client(folder, &url, "ca.pem", &["get", "gateways"]));
    let text = eventually("it is listed", || {
        let text = gateways();
        text.contains("good  true").then_some(text)
    });
    assert!(!text.contains("bad"), "{text}");
    // Another authority signs: what is read again counts for connections to come.
    other.issue(folder, "localhost");
    plane.signal("-HUP");
    eventually("the new certificate", || {
        let listed = client(folder, &url, "other.pem", &["get", "gateways"]);
        listed.status.success().then_some(())
    });
    assert!(
        !client(folder, &url, "ca.pem", &["get", "gateways"])
            .status
            .success()
    );
    // A file that breaks leaves what works.
    std::fs::write(folder.join("key.pem"), "no key").unwrap();
    plane.signal("-HUP");
    eventually("it is said", || {
        plane.text().contains("stays as it was").then_some(())
    });
    let listed = client(folder, &url, "other.pem", &["get", "gateways"]);
    assert!(listed.status.success(), "{}", stderr(&listed));
    plane.signal("-TERM");
    plane.wait();
}

#[test]
fn up_with_tls_runs_its_own_gateway() {
    let folder = tempfile::tempdir().unwrap();
    let folder = folder.path();
    std::fs::write(folder.join("p.toml"), policy("http://127.0.0.1:9", "2")).unwrap();
    Authority::new(folder, "ca").issue(folder, "dashboard.example");
    let tls = [
        "--policy",
        "p.toml",
        "--dashboard-tls-cert",
        "cert.pem",
        "--dashboard-tls-key",
        "key.pem",
    ];
    let up = Process::up(folder, "up", &tls);
    assert_eq!(get(up.admin(), "/readyz").status, 200);
}

#[test]
fn beyond_loopback_there_is_tls_or_a_start_error() {
    let folder = tempfile::tempdir().unwrap();
    let folder = folder.path();
    let fails = |more: &[&str]| {
        let begin = ["control-plane", "--data-dir", "data"];
        let ended = command(folder, &[&begin, more].concat())
            .envs(ENV)
            .stdout(std::process::Stdio::piped())
            .stderr(std::process::Stdio::piped())
            .spawn()
            .unwrap();
        one_line(&finish(ended))
    };
    let line = fails(&["--dashboard", "0.0.0.0:0"]);
    assert!(line.contains("--dashboard-tls-cert"), "{line}");
    assert!(line.contains("--behind-tls-proxy"), "{line}");
    let line = fails(&["--dashboard-tls-cert", "cert.pem"]);
    assert!(line.contains("both or none"), "{line}");
    let line = fails(&[
        "--dashboard-tls-cert",
        "none.pem",
        "--dashboard-tls-key",
        "k",
    ]);
    assert!(line.contains("none.pem"), "{line}");
    std::fs::write(folder.join("cert.pem"), "nothing").unwrap();
    let line = fails(&[
        "--dashboard-tls-cert",
        "cert.pem",
        "--dashboard-tls-key",
        "k",
    ]);
    assert!(line.contains("certificate in PEM"), "{line}");
}
