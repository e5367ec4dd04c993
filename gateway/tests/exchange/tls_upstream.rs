//! Upstreams that are spoken to by TLS.

use std::io::Write;
use std::sync::{Arc, Mutex};

use ::h2::server::handshake;
use bytes::Bytes;
use rcgen::{BasicConstraints, CertificateParams, IsCa, Issuer, KeyPair, date_time_ymd};
use rustls::ServerConfig;
use rustls::crypto::aws_lc_rs::default_provider;
use rustls::pki_types::{PrivateKeyDer, PrivatePkcs8KeyDer};
use tempfile::NamedTempFile;
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::{TcpListener, TcpStream};
use tokio::runtime::Runtime;
use tokio::task::JoinSet;
use tokio_rustls::TlsAcceptor;
use tokio_rustls::server::TlsStream;

use super::*;

/// Signs certificates.
struct Authority {
    issuer: Issuer<'static, KeyPair>,
    pem: String,
}

impl Authority {
    fn new() -> Self {
        let mut params = CertificateParams::new(Vec::new()).unwrap();
        params.is_ca = IsCa::Ca(BasicConstraints::Unconstrained);
        let key = KeyPair::generate().unwrap();
        let pem = params.self_signed(&key).unwrap().pem();
        let issuer = Issuer::new(params, key);
        Self { issuer, pem }
    }

    fn file(&self) -> NamedTempFile {
        let mut file = NamedTempFile::new().unwrap();
        file.write_all(self.pem.as_bytes()).unwrap();
        file
    }

    fn server(&self, names: &[&str], expired: bool, alpn: &[&str]) -> ServerConfig {
        let names: Vec<String> = names.iter().map(|name| (*name).to_owned()).collect();
        let mut params = CertificateParams::new(names).unwrap();
        if expired {
            params.not_before = date_time_ymd(2019, 1, 1);
            params.not_after = date_time_ymd(2020, 1, 1);
        }
        let key = KeyPair::generate().unwrap();
        let cert = params.signed_by(&key, &self.issuer).unwrap();
        let key = PrivateKeyDer::Pkcs8(PrivatePkcs8KeyDer::from(key.serialize_der()));
        let builder = ServerConfig::builder_with_provider(Arc::new(default_provider()));
        let mut config = builder
            .with_safe_default_protocol_versions()
            .unwrap()
            .with_no_client_auth()
            .with_single_cert(vec![cert.der().clone()], key)
            .unwrap();
        config.alpn_protocols = alpn.iter().map(|alpn| alpn.as_bytes().to_vec()).collect();
        config
    }
}

/// What the server saw of one connection.
#[derive(Clone, Debug, PartialEq, Eq)]
struct Met {
    sni: Option<String>,
    alpn: Option<String>,
    resumed: bool,
}

struct Server {
    port: u16,
    met: Arc<Mutex<Vec<Met>>>,
    _runtime: Runtime,
}

impl Server {
    fn start(config: ServerConfig) -> Self {
        let runtime = tokio::runtime::Builder::new_multi_thread()
            .worker_threads(1)
            .enable_all()
            .build()
            .unwrap();
        let listener = runtime.block_on(TcpListener::bind("127.0.0.1:0")).unwrap();
        let port = listener.local_addr().unwrap().port();
        let met = Arc::<Mutex<Vec<Met>>>::default();
        let (shared, acceptor) = (Arc::clone(&met), TlsAcceptor::from(Arc::new(config)));
        runtime.spawn(async move {
            let mut connections = JoinSet::new();
            while let Ok((stream, _)) = listener.accept().await {
                let (acceptor, met) = (acceptor.clone(), Arc::clone(&shared));
                connections.spawn(async move {
                    let Ok(stream) = acceptor.accept(stream).await else {
                        return;
                    };
                    let about = stream.get_ref().1;
                    let resumed = about.handshake_kind() == Some(rustls::HandshakeKind::Resumed);
                    let alpn = about
                        .alpn_protocol()
                        .map(|alpn| String::from_utf8(alpn.to_vec()));
                    let alpn = alpn.map(Result::unwrap);
                    met.lock().unwrap().push(Met {
                        sni: about.server_name().map(str::to_owned),
                        alpn: alpn.clone(),
                        resumed,
                    });
                    match alpn.as_deref() {
                        Some("h2") => speak_http2(stream).await,
                        _ => speak_http1(stream).await,
                    }
                });
            }
        });
        Self {
            port,
            met,
            _runtime: runtime,
        }
    }

    fn met(&self) -> Vec<Met> {
        self.met.lock().unwrap().clone()
    }
}

async fn speak_http1(mut stream: TlsStream<TcpStream>) {
    let (mut unread, mut bytes) = (Vec::new(), [0; 4_096]);
    loop {
        while let Some(end) = unread.windows(4).position(|four| four == b"\r\n\r\n") {
            let head: Vec<u8> = unread.drain(..end + 4).collect();
            let head = String::from_utf8(head).unwrap().to_lowercase();
            if head.contains("upgrade: websocket") {
                let answer = "HTTP/1.1 101 Switching Protocols\r\nconnection: upgrade\r\n\
                    upgrade: websocket\r\n\r\n";
                stream.write_all(answer.as_bytes()).await.unwrap();
                return echo(stream).await;
            }
            let close = head.contains("x-do: close");
            let body = "s".repeat(if head.contains("x-do: big") {
                300_000
            } else {
                6
            });
            let fields = if close { "connection: close\r\n" } else { "" };
            let length = body.len();
            let answer =
                format!("HTTP/1.1 200 OK\r\ncontent-length: {length}\r\n{fields}\r\n{body}");
            if stream.write_all(answer.as_bytes()).await.is_err() || close {
                return drop(stream.shutdown().await);
            }
        }
        match stream.read(&mut bytes).await {
            Ok(count) if count > 0 => unread.extend_from_slice(&bytes[..count]),
            _ => return,
        }
    }
}

async fn echo(mut stream: TlsStream<TcpStream>) {
    let mut bytes = [0; 4_096];
    while let Ok(count) = stream.read(&mut bytes).await {
        if count == 0 || stream.write_all(&bytes[..count]).await.is_err() {
            return drop(stream.shutdown().await);
        }
    }
}

async fn speak_http2(stream: TlsStream<TcpStream>) {
    let Ok(mut connection) = handshake(stream).await else {
        return;
    };
    while let Some(Ok((request, mut respond))) = connection.accept().await {
        let scheme = request.uri().scheme_str().unwrap_or_default().to_owned();
        let mut send = respond
            .send_response(http::Response::new(()), false)
            .unwrap();
        send.send_data(Bytes::from(scheme), true).unwrap();
    }
}

/// The route `h2` leads to `host` on that port.
fn before(host: &str, port: u16, ca: &std::path::Path, more: &str) -> Bench {
    let upstream = format!(
        "endpoints = [\"https://{host}:{port}\"]\nconnect_timeout = \"700ms\"\n\
         tls = {{ ca_file = \"{}\" }}\n{more}",
        ca.display()
    );
    let route = "[routes.compartment]\nlimit = 9\nstream = { limit = 9 }";
    bench_over(&upstream, "", &[("h2", route)])
}

#[track_caller]
fn is_told(bench: &Bench, error: &str) {
    let answer = bench.ask(get("/h2", ""));
    let told = (answer.status, answer.reason());
    assert_eq!(told, (502, Some("upstream_connect")), "{error}");
    let status = answer.field("proxy-status").unwrap_or_default();
    assert!(
        status.contains(&format!("error={error};")),
        "{status}: {error}"
    );
    eventually("the slot", || bench.in_flight("route/h2") == 0);
}

#[test]
fn it_is_spoken_to_by_its_name_and_its_connections_are_used_again() {
    let authority = Authority::new();
    for (host, sni) in [("localhost", Some("localhost")), ("127.0.0.1", None)] {
        let names = ["localhost", "127.0.0.1"];
        let server = Server::start(authority.server(&names, false, &["http/1.1"]));
        let ca = authority.file();
        let bench = before(host, server.port, ca.path(), "");
        for script in ["", "big", ""] {
            let answer = bench.ask(get("/h2", script));
            let length = if script == "big" { 300_000 } else { 6 };
            assert_eq!((answer.status, answer.body.len()), (200, length), "{host}");
        }
        let once = Met {
            sni: sni.map(str::to_owned),
            alpn: Some("http/1.1".to_owned()),
            resumed: false,
        };
        assert_eq!(server.met(), [once], "{host}");
    }
}

#[test]
fn sessions_are_resumed() {
    let authority = Authority::new();
    let server = Server::start(authority.server(&["localhost"], false, &[]));
    let ca = authority.file();
    let bench = before("localhost", server.port, ca.path(), "");
    for _ in 0..3 {
        assert_eq!(bench.ask(get("/h2", "close")).status, 200);
    }
    let resumed: Vec<bool> = server.met().iter().map(|met| met.resumed).collect();
    assert_eq!(resumed, [false, true, true]);
}

#[test]
fn whom_it_cannot_believe_it_does_not_speak_to() {
    let (authority, other) = (Authority::new(), Authority::new());
    let ca = authority.file();
    for (what, config) in [
        (
            "another name",
            authority.server(&["elsewhere.test"], false, &[]),
        ),
        (
            "an expired one",
            authority.server(&["localhost"], true, &[]),
        ),
        (
            "an unknown authority",
            other.server(&["localhost"], false, &[]),
        ),
    ] {
        let server = Server::start(config);
        let bench = before("localhost", server.port, ca.path(), "");
        is_told(&bench, "tls_certificate_error");
        assert!(server.met().is_empty(), "{what}");
    }
    let server = Server::start(authority.server(&["localhost"], false, &[]));
    let bench = before("127.0.0.1", server.port, ca.path(), "");
    is_told(&bench, "tls_certificate_error");
}

#[test]
fn a_silent_peer_and_a_plain_one_are_told_apart() {
    let (authority, stub) = (Authority::new(), Stub::start());
    let ca = authority.file();
    let silent = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
    let port = silent.local_addr().unwrap().port();
    let bench = before("localhost", port, ca.path(), "");
    let asked = Instant::now();
    is_told(&bench, "connection_timeout");
    let after = asked.elapsed();
    assert!(after < Duration::from_millis(1_200), "{after:?}");
    let bench = before("127.0.0.1", stub.at.port(), ca.path(), "");
    is_told(&bench, "connection_terminated");
    assert_eq!(stub.arrived(), 0);
    let plain = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
    let bench = before(
        "127.0.0.1",
        plain.local_addr().unwrap().port(),
        ca.path(),
        "",
    );
    let answering = std::thread::spawn(move || {
        let (mut stream, _) = plain.accept().unwrap();
        stream
            .write_all(b"HTTP/1.1 400 Bad Request\r\n\r\n")
            .unwrap();
        std::io::Read::read_to_end(&mut stream, &mut Vec::new())
    });
    is_told(&bench, "tls_protocol_error");
    drop(answering.join().unwrap());
}

#[test]
fn http2_is_agreed_on_or_not_spoken() {
    let authority = Authority::new();
    let ca = authority.file();
    let server = Server::start(authority.server(&["localhost"], false, &["h2", "http/1.1"]));
    let bench = before("localhost", server.port, ca.path(), "http2 = true");
    for _ in 0..3 {
        let answer = bench.ask(get("/h2", ""));
        assert_eq!((answer.status, &*answer.body), (200, "https"));
    }
    assert_eq!(server.met().len(), 1);
    assert_eq!(server.met()[0].alpn.as_deref(), Some("h2"));
    // Without http2 the same server is asked for HTTP/1.
    let bench = before("localhost", server.port, ca.path(), "");
    assert_eq!(bench.ask(get("/h2", "")).body, "ssssss");
    for (alpn, error) in [
        (vec!["http/1.1"], "tls_alert_received"),
        (vec![], "tls_protocol_error"),
    ] {
        let server = Server::start(authority.server(&["localhost"], false, &alpn));
        let bench = before("localhost", server.port, ca.path(), "http2 = true");
        is_told(&bench, error);
    }
}

#[test]
fn a_tunnel_passes_through_tls() {
    let authority = Authority::new();
    let ca = authority.file();
    let server = Server::start(authority.server(&["localhost"], false, &[]));
    let bench = before("localhost", server.port, ca.path(), "");
    let fields = "connection: upgrade\r\nupgrade: websocket\r\nsec-websocket-version: 13\r\n\
        sec-websocket-key: dGhlIHNhbXBsZSBub25jZQ==\r\n";
    let mut client = bench.send(request("GET", "/h2", "", fields));
    assert_eq!(client.head().status, 101);
    let sent = vec![b'w'; 100_000];
    let mut writer = client.stream.try_clone().unwrap();
    let writing = std::thread::spawn({
        let sent = sent.clone();
        move || {
            writer.write_all(&sent).unwrap();
            writer.shutdown(std::net::Shutdown::Write).unwrap();
        }
    });
    assert_eq!(client.bytes(sent.len()), sent);
    writing.join().unwrap();
    assert!(client.is_closed());
    eventually("the slot", || bench.in_flight("route/h2/stream") == 0);
}

#[test]
fn a_new_file_of_roots_is_read_by_itself() {
    let (before_it, after_it) = (Authority::new(), Authority::new());
    let server = Server::start(after_it.server(&["localhost"], false, &[]));
    let ca = before_it.file();
    let bench = before("localhost", server.port, ca.path(), "");
    is_told(&bench, "tls_certificate_error");
    // What cannot be used changes nothing.
    std::fs::write(ca.path(), "no certificate").unwrap();
    is_told(&bench, "tls_certificate_error");
    std::fs::write(ca.path(), &after_it.pem).unwrap();
    eventually("the new roots", || bench.ask(get("/h2", "")).status == 200);
}
