//! TLS on the dashboard's port: real handshakes, secure cookies, silent clients.

use std::io::{Read as _, Write as _};
use std::net::{SocketAddr, TcpStream};
use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

use control_plane::{Config, TlsFiles};
use rustls::pki_types::{CertificateDer, ServerName};
use rustls::{ClientConfig, ClientConnection, RootCertStore, StreamOwned};

use crate::support::browser::form_token;
use crate::support::{Plane, TOKEN, config, policy, policy_file};

type Secured = StreamOwned<ClientConnection, TcpStream>;

/// A control plane with a certificate for `localhost`, and the certificate.
fn start() -> (Plane, CertificateDer<'static>) {
    let folder = tempfile::tempdir().unwrap();
    let made = rcgen::generate_simple_self_signed(["localhost".to_owned()]).unwrap();
    let file = |name: &str, text: String| {
        let path = folder.path().join(name);
        std::fs::write(&path, text).unwrap();
        path
    };
    let tls = TlsFiles {
        cert: file("cert.pem", made.cert.pem()),
        key: file("key.pem", made.signing_key.serialize_pem()),
    };
    let config = Config {
        import: Some(policy_file(folder.path(), &policy())),
        tls: Some(tls),
        ..config(folder.path())
    };
    let der = made.cert.der().clone();
    (Plane::start_with(folder, config).unwrap(), der)
}

fn connect(address: SocketAddr, root: &CertificateDer<'static>, alpn: &[u8]) -> Secured {
    let mut roots = RootCertStore::empty();
    roots.add(root.clone()).unwrap();
    let provider = Arc::new(rustls::crypto::aws_lc_rs::default_provider());
    let mut config = ClientConfig::builder_with_provider(provider)
        .with_safe_default_protocol_versions()
        .unwrap()
        .with_root_certificates(roots)
        .with_no_client_auth();
    config.alpn_protocols = vec![alpn.to_vec()];
    let name = ServerName::try_from("localhost").unwrap();
    let connection = ClientConnection::new(Arc::new(config), name).unwrap();
    let stream = TcpStream::connect(address).unwrap();
    stream
        .set_read_timeout(Some(Duration::from_secs(20)))
        .unwrap();
    StreamOwned::new(connection, stream)
}

fn asked(mut stream: Secured, request: &str) -> String {
    stream.write_all(request.as_bytes()).unwrap();
    let mut answer = Vec::new();
    let _without_notice = stream.read_to_end(&mut answer);
    String::from_utf8_lossy(&answer).into_owned()
}

fn login(host: &str, page: &str) -> String {
    let form = page
        .lines()
        .find_map(|line| line.strip_prefix("set-cookie: "))
        .unwrap();
    assert!(form.starts_with("__Host-bulkhead-form="), "{form}");
    let cookie = form.split(';').next().unwrap();
    let body = format!("token={TOKEN}&form_token={}", form_token(page).unwrap());
    format!(
        "POST /login HTTP/1.1\r\nhost: {host}\r\nconnection: close\r\ncookie: {cookie}\r\n\
         content-type: application/x-www-form-urlencoded\r\ncontent-length: {}\r\n\r\n{body}",
        body.len()
    )
}

#[test]
fn cookies_are_secure_where_the_port_speaks_tls_also_on_loopback() {
    let (plane, root) = start();
    let ask = "GET /login HTTP/1.1\r\nhost: localhost\r\nconnection: close\r\n\r\n";
    let page = asked(connect(plane.address, &root, b"http/1.1"), ask);
    let stream = connect(plane.address, &root, b"http/1.1");
    let answer = asked(stream, &login("localhost", &page));
    assert!(answer.starts_with("HTTP/1.1 303"), "{answer}");
    let cookie = answer
        .lines()
        .find_map(|line| line.strip_prefix("set-cookie: "))
        .unwrap();
    assert!(cookie.starts_with("__Host-bulkhead="), "{cookie}");
    assert!(cookie.trim_end().ends_with("; Secure"), "{cookie}");
    let pair = cookie.split(';').next().unwrap();
    let request = format!(
        "GET /gateways HTTP/1.1\r\nhost: localhost\r\nconnection: close\r\ncookie: {pair}\r\n\r\n"
    );
    let page = asked(connect(plane.address, &root, b"http/1.1"), &request);
    assert!(page.starts_with("HTTP/1.1 200"), "{page}");
    assert!(
        page.contains("https://localhost"),
        "commands name the port's scheme"
    );
}

#[test]
fn browsers_and_gateways_may_choose_http2() {
    let (plane, root) = start();
    let mut stream = connect(plane.address, &root, b"h2");
    stream.flush().unwrap();
    while stream.conn.is_handshaking() {
        stream.conn.complete_io(&mut stream.sock).unwrap();
    }
    assert_eq!(stream.conn.alpn_protocol(), Some(&b"h2"[..]));
}

/// Whoever opens a connection and says nothing keeps nobody out, and is let go in time.
#[test]
fn silent_clients_keep_nobody_out_and_are_let_go() {
    let (plane, root) = start();
    let silent: Vec<TcpStream> = (0..100)
        .map(|_| TcpStream::connect(plane.address).unwrap())
        .collect();
    let request = "GET /login HTTP/1.1\r\nhost: localhost\r\nconnection: close\r\n\r\n";
    let page = asked(connect(plane.address, &root, b"http/1.1"), request);
    assert!(page.starts_with("HTTP/1.1 200"), "{page}");
    let mut first = silent.into_iter().next().unwrap();
    first
        .set_read_timeout(Some(Duration::from_secs(20)))
        .unwrap();
    let mut byte = [0];
    assert_eq!(first.read(&mut byte).unwrap_or(0), 0, "it is closed");
}

#[test]
fn a_key_of_another_certificate_is_one_clear_error() {
    let folder = tempfile::tempdir().unwrap();
    let made = |name: &str| {
        let made = rcgen::generate_simple_self_signed(["localhost".to_owned()]).unwrap();
        let at = |what: &str| folder.path().join(format!("{name}-{what}.pem"));
        std::fs::write(at("cert"), made.cert.pem()).unwrap();
        std::fs::write(at("key"), made.signing_key.serialize_pem()).unwrap();
    };
    made("a");
    made("b");
    let files = |cert: &Path, key: &Path| TlsFiles {
        cert: cert.to_owned(),
        key: key.to_owned(),
    };
    let at = |name: &str| folder.path().join(name);
    let tls = Some(files(&at("a-cert.pem"), &at("b-key.pem")));
    let config = Config {
        tls,
        ..config(folder.path())
    };
    let error = control_plane::start(config).unwrap_err().to_string();
    assert!(error.contains("dashboard_tls_key"), "{error}");
}
