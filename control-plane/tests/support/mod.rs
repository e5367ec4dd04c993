//! What the integration tests share: a control plane on a real store, an HTTP client over a plain
//! socket, a gateway that speaks the stream. Separate so that each test file is about one thing.

pub(crate) mod browser;
pub(crate) mod gateway;
pub(crate) mod postgres;
pub(crate) mod proxy;

use std::io::{Read as _, Write as _};
use std::net::{SocketAddr, TcpStream};
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

use control_plane::history::HistorySettings;
use control_plane::{Config, Running, Secret, StartError};
use serde_json::{Value, json};
use tempfile::TempDir;

pub(crate) const TOKEN: &str = "integration-admin-token-0123456789";

/// A control plane, its folder, and a client of its API.
pub(crate) struct Plane {
    pub(crate) running: Option<Running>,
    pub(crate) folder: TempDir,
    pub(crate) address: SocketAddr,
}

/// A policy of three routes over one upstream.
pub(crate) fn policy() -> Value {
    let route = |id: &str, limit: u32| {
        json!({"id": id, "path": format!("/{id}"), "upstream": "main",
               "compartment": {"limit": limit}})
    };
    json!({
        "schema": 1,
        "gateway": {"capacity": 500},
        "upstreams": {"main": {"endpoints": ["http://127.0.0.1:9"], "limit": 90}},
        "routes": [route("a", 2), route("b", 3), route("c", 4)],
    })
}

/// The settings of a control plane in this folder.
pub(crate) fn config(folder: &Path) -> Config {
    Config {
        database_url: format!("sqlite://{}/store.db", folder.display()).into(),
        dashboard: "127.0.0.1:0".parse().unwrap(),
        no_login: false,
        admin_token: Some(Secret::new(TOKEN).unwrap()),
        audit_key: None,
        gateway_token: None,
        import: None,
        import_document: None,
        behind_tls_proxy: false,
        tls: None,
        loopback_stream: false,
        alerts: control_plane::alerts::AlertConfig::default(),
        history: HistorySettings::default(),
        telemetry: Default::default(),
    }
}

/// Writes a policy where `import` finds it.
pub(crate) fn policy_file(folder: &Path, policy: &Value) -> PathBuf {
    let path = folder.join("policy.json");
    std::fs::write(&path, policy.to_string()).unwrap();
    path
}

impl Plane {
    /// Starts with [`policy`].
    pub(crate) fn start() -> Self {
        let folder = tempfile::tempdir().unwrap();
        let import = Some(policy_file(folder.path(), &policy()));
        let config = Config {
            import,
            ..config(folder.path())
        };
        Self::start_with(folder, config).unwrap()
    }

    pub(crate) fn start_with(folder: TempDir, config: Config) -> Result<Self, StartError> {
        let running = control_plane::start(config)?;
        let address = running.dashboard();
        Ok(Self {
            running: Some(running),
            folder,
            address,
        })
    }

    /// Stops and starts again on the same store.
    pub(crate) fn restart(self) -> Self {
        let config = config(self.folder.path());
        drop(self.running);
        Self::start_with(self.folder, config).unwrap()
    }

    pub(crate) fn store(&self) -> PathBuf {
        self.folder.path().join("store.db")
    }

    pub(crate) fn token(&self) -> Secret {
        self.running.as_ref().unwrap().gateway_token().clone()
    }

    /// A call with the admin token.
    pub(crate) fn api(&self, method: &str, path: &str, body: Option<&Value>) -> Answer {
        self.api_with(method, path, body, &[])
    }

    pub(crate) fn api_with(
        &self,
        method: &str,
        path: &str,
        body: Option<&Value>,
        headers: &[(&str, &str)],
    ) -> Answer {
        let bearer = format!("Bearer {TOKEN}");
        let mut all = vec![("authorization", bearer.as_str())];
        if body.is_some() {
            all.push(("content-type", "application/json"));
        }
        all.extend(headers);
        let body = body.map(Value::to_string).unwrap_or_default();
        call(
            self.address,
            method,
            &format!("/api/v1{path}"),
            &all,
            body.as_bytes(),
        )
    }

    pub(crate) fn patch(&self, key: &str, change: &Value) -> Answer {
        let key = key.replace('/', "%2F");
        self.api("PATCH", &format!("/compartments/{key}"), Some(change))
    }

    /// The newest policy and its version.
    pub(crate) fn policy(&self) -> (Value, String) {
        let answer = self.api("GET", "/policy", None);
        assert_eq!(answer.status, 200, "{}", answer.text());
        let etag = answer.header("etag").unwrap().to_owned();
        (answer.json(), etag)
    }

    pub(crate) fn generation(&self) -> u64 {
        self.policy().1.trim_matches('"').parse().unwrap()
    }
}

/// One answer.
#[derive(Debug)]
pub(crate) struct Answer {
    pub(crate) status: u16,
    pub(crate) headers: Vec<(String, String)>,
    pub(crate) body: Vec<u8>,
}

impl Answer {
    pub(crate) fn header(&self, name: &str) -> Option<&str> {
        self.headers
            .iter()
            .find(|(own, _)| own == name)
            .map(|(_, value)| value.as_str())
    }

    pub(crate) fn text(&self) -> String {
        String::from_utf8_lossy(&self.body).into_owned()
    }

    pub(crate) fn json(&self) -> Value {
        serde_json::from_slice(&self.body).unwrap_or_else(|_| unreachable!("{}", self.text()))
    }

    /// The pointers of a refusal.
    pub(crate) fn pointers(&self) -> Vec<String> {
        let errors = self.json()["errors"]
            .as_array()
            .cloned()
            .unwrap_or_default();
        errors
            .iter()
            .map(|error| error["pointer"].as_str().unwrap().to_owned())
            .collect()
    }
}

/// One request on a connection of its own.
pub(crate) fn call(
    address: SocketAddr,
    method: &str,
    path: &str,
    headers: &[(&str, &str)],
    body: &[u8],
) -> Answer {
    try_call(address, method, path, headers, body).unwrap()
}

/// The same to a server that may be gone; `None` without a whole answer.
pub(crate) fn try_call(
    address: SocketAddr,
    method: &str,
    path: &str,
    headers: &[(&str, &str)],
    body: &[u8],
) -> Option<Answer> {
    let mut head = format!("{method} {path} HTTP/1.1\r\nconnection: close\r\n");
    if !headers.iter().any(|(name, _)| *name == "host") {
        head.push_str(&format!("host: {address}\r\n"));
    }
    for (name, value) in headers {
        head.push_str(&format!("{name}: {value}\r\n"));
    }
    head.push_str(&format!("content-length: {}\r\n\r\n", body.len()));
    let mut stream = TcpStream::connect(address).ok()?;
    stream
        .set_read_timeout(Some(Duration::from_secs(30)))
        .unwrap();
    stream.write_all(head.as_bytes()).ok()?;
    // A server that refuses early may not read all of it; its answer is what counts.
    let _refused_early = stream.write_all(body);
    let mut bytes = Vec::new();
    let _reset = stream.read_to_end(&mut bytes);
    parse(&bytes)
}

fn parse(bytes: &[u8]) -> Option<Answer> {
    let end = bytes.windows(4).position(|four| four == b"\r\n\r\n")?;
    let head = String::from_utf8(bytes[..end].to_vec()).unwrap();
    let mut lines = head.split("\r\n");
    let status = lines
        .next()
        .unwrap()
        .split(' ')
        .nth(1)
        .unwrap()
        .parse()
        .unwrap();
    let field = |line: &str| {
        let (name, value) = line.split_once(':').unwrap();
        (name.to_lowercase(), value.trim().to_owned())
    };
    Some(Answer {
        status,
        headers: lines.map(field).collect(),
        body: bytes[end + 4..].to_vec(),
    })
}

/// Waits until `probe` is true.
#[expect(
    clippy::disallowed_methods,
    reason = "a test's deadline is of the real clock"
)]
pub(crate) fn eventually(what: &str, mut probe: impl FnMut() -> bool) {
    let end = Instant::now() + Duration::from_secs(30);
    while !probe() {
        assert!(Instant::now() < end, "not within 30 s: {what}");
        std::thread::park_timeout(Duration::from_millis(2));
    }
}
