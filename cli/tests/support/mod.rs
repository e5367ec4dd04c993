//! What the tests of the binary share: processes, a scripted upstream, plain HTTP.
//!
//! Separate because every test file starts the real binary. It must never leave a process behind:
//! each is ended by its own id when its handle drops.

#![expect(dead_code, reason = "each test file uses a part of this")]
#![expect(
    clippy::disallowed_methods,
    reason = "a test's deadline is on the real clock"
)]
#![expect(
    clippy::unwrap_used,
    clippy::indexing_slicing,
    clippy::panic,
    reason = "a failed step fails the test"
)]

use std::io::{BufRead, BufReader, Read, Write};
use std::net::{SocketAddr, TcpListener, TcpStream};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, ExitStatus, Output, Stdio};
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::sync::{Arc, Condvar, Mutex};
use std::time::{Duration, Instant};

use serde_json::Value;

/// Longest wait for anything.
pub(crate) const DEADLINE: Duration = Duration::from_secs(20);
pub(crate) const ADMIN_TOKEN: &str = "a-token-of-the-tests-0123456789abcdef";

/// Asks until the answer is there, or the deadline has passed.
pub(crate) fn eventually<T>(what: &str, mut probe: impl FnMut() -> Option<T>) -> T {
    let end = Instant::now() + DEADLINE;
    loop {
        if let Some(found) = probe() {
            return found;
        }
        assert!(Instant::now() < end, "not within {DEADLINE:?}: {what}");
        std::thread::sleep(Duration::from_millis(10));
    }
}

/// The binary with a clean environment, in this folder.
pub(crate) fn command(folder: &Path, args: &[&str]) -> Command {
    let mut command = Command::new(env!("CARGO_BIN_EXE_bulkhead"));
    command.args(args).current_dir(folder).stdin(Stdio::null());
    for (name, _) in std::env::vars_os() {
        if name.to_string_lossy().starts_with("BULKHEAD_") {
            command.env_remove(name);
        }
    }
    command
}

/// Runs a tool to its end.
pub(crate) fn run(folder: &Path, args: &[&str]) -> Output {
    let mut command = command(folder, args);
    let child = command
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()
        .unwrap();
    finish(child)
}

/// Waits for a process that has to end by itself.
pub(crate) fn finish(child: Child) -> Output {
    let mut running = Killed(child);
    let mut out = running.0.stdout.take().unwrap();
    let reader = std::thread::spawn(move || {
        let mut bytes = Vec::new();
        out.read_to_end(&mut bytes).unwrap();
        bytes
    });
    let mut err = running.0.stderr.take().unwrap();
    let errors = std::thread::spawn(move || {
        let mut bytes = Vec::new();
        err.read_to_end(&mut bytes).unwrap();
        bytes
    });
    let status = eventually("the process ends", || running.0.try_wait().unwrap());
    Output {
        status,
        stdout: reader.join().unwrap(),
        stderr: errors.join().unwrap(),
    }
}

pub(crate) fn stdout(output: &Output) -> String {
    String::from_utf8(output.stdout.clone()).unwrap()
}

pub(crate) fn stderr(output: &Output) -> String {
    String::from_utf8(output.stderr.clone()).unwrap()
}

/// One clear line, no backtrace, no panic.
pub(crate) fn one_line(output: &Output) -> String {
    let text = stderr(output);
    assert!(!output.status.success(), "{text}");
    let mine: Vec<&str> = text
        .lines()
        .filter(|line| line.starts_with("bulkhead: "))
        .collect();
    assert_eq!(mine.len(), 1, "{text}");
    assert!(
        !text.contains("panicked") && !text.contains("backtrace"),
        "{text}"
    );
    mine[0].to_owned()
}

struct Killed(Child);

impl Drop for Killed {
    fn drop(&mut self) {
        drop(self.0.kill());
        drop(self.0.wait());
    }
}

/// A long-running command with its ready file.
pub(crate) struct Process {
    child: Killed,
    pub(crate) log: PathBuf,
    ready_file: PathBuf,
    pub(crate) ready: Value,
}

impl Process {
    /// Starts it without waiting; `name` tells apart several in one folder.
    pub(crate) fn launch(folder: &Path, name: &str, args: &[&str], env: &[(&str, &str)]) -> Self {
        let ready_file = folder.join(format!("{name}.ready"));
        drop(std::fs::remove_file(&ready_file));
        let log = folder.join(format!("{name}.log"));
        let file = std::fs::File::create(&log).unwrap();
        let child = command(folder, args)
            .args(["--ready-file", ready_file.to_str().unwrap()])
            .envs(env.iter().copied())
            .stdout(Stdio::null())
            .stderr(file)
            .spawn()
            .unwrap();
        Self {
            child: Killed(child),
            log,
            ready_file,
            ready: Value::Null,
        }
    }

    /// Starts it and waits until it is ready.
    pub(crate) fn start(folder: &Path, name: &str, args: &[&str], env: &[(&str, &str)]) -> Self {
        let mut process = Self::launch(folder, name, args, env);
        process.ready = eventually("the ready file", || {
            if let Some(status) = process.child.0.try_wait().unwrap() {
                panic!("ended with {status}: {}", process.text());
            }
            process.ready_now()
        });
        process
    }

    /// `up` on free ports in `folder/data`.
    pub(crate) fn up(folder: &Path, name: &str, more: &[&str]) -> Self {
        Self::start(
            folder,
            name,
            &[UP, more].concat(),
            &[("BULKHEAD_ADMIN_TOKEN", ADMIN_TOKEN)],
        )
    }

    pub(crate) fn ready_now(&self) -> Option<Value> {
        let text = std::fs::read_to_string(&self.ready_file).ok()?;
        Some(serde_json::from_str(&text).unwrap())
    }

    pub(crate) fn text(&self) -> String {
        std::fs::read_to_string(&self.log).unwrap()
    }

    fn address(&self, pointer: &str) -> SocketAddr {
        self.ready
            .pointer(pointer)
            .unwrap()
            .as_str()
            .unwrap()
            .parse()
            .unwrap()
    }

    pub(crate) fn gateway(&self) -> SocketAddr {
        self.address("/gateway/0")
    }

    pub(crate) fn dashboard(&self) -> SocketAddr {
        self.address("/dashboard")
    }

    pub(crate) fn admin(&self) -> SocketAddr {
        self.address("/admin")
    }

    pub(crate) fn server(&self) -> String {
        format!("http://{}", self.dashboard())
    }

    /// Sends a signal by name.
    pub(crate) fn signal(&self, signal: &str) {
        let id = self.child.0.id().to_string();
        assert!(
            Command::new("kill")
                .args([signal, &id])
                .status()
                .unwrap()
                .success()
        );
    }

    pub(crate) fn id(&self) -> u32 {
        self.child.0.id()
    }

    pub(crate) fn ended(&mut self) -> Option<ExitStatus> {
        self.child.0.try_wait().unwrap()
    }

    pub(crate) fn wait(&mut self) -> ExitStatus {
        eventually("the process ends", || self.child.0.try_wait().unwrap())
    }

    /// A compartment's figures on the admin port.
    pub(crate) fn compartment(&self, key: &str) -> Value {
        let all = get(self.admin(), "/compartments").json();
        let list = all["compartments"].as_array().unwrap();
        let found = list.iter().find(|one| one["key"] == key);
        found.unwrap_or_else(|| panic!("no {key} in {all}")).clone()
    }
}

/// Free ports and a data folder.
pub(crate) const UP: &[&str] = &[
    "up",
    "--listen",
    "127.0.0.1:0",
    "--dashboard",
    "127.0.0.1:0",
    "--admin",
    "127.0.0.1:0",
    "--data-dir",
    "data",
    "--no-login",
];

/// One answer.
#[derive(Debug)]
pub(crate) struct Answer {
    pub(crate) status: u16,
    pub(crate) head: String,
    pub(crate) body: String,
}

impl Answer {
    pub(crate) fn json(&self) -> Value {
        serde_json::from_str(&self.body).unwrap()
    }

    pub(crate) fn header(&self, name: &str) -> Option<String> {
        let line = self.head.lines().find(|line| {
            line.split_once(':')
                .is_some_and(|(field, _)| field.eq_ignore_ascii_case(name))
        })?;
        Some(line.split_once(':')?.1.trim().to_owned())
    }
}

pub(crate) fn get(at: SocketAddr, path: &str) -> Answer {
    try_ask(at, "GET", path, &[], "").unwrap()
}

pub(crate) fn ask(at: SocketAddr, method: &str, path: &str, body: &str) -> Answer {
    let authorization = format!("Bearer {ADMIN_TOKEN}");
    let headers = [
        ("authorization", &*authorization),
        ("content-type", "application/json"),
    ];
    try_ask(at, method, path, &headers, body).unwrap()
}

/// One request on a connection of its own.
pub(crate) fn try_ask(
    at: SocketAddr,
    method: &str,
    path: &str,
    headers: &[(&str, &str)],
    body: &str,
) -> std::io::Result<Answer> {
    let mut stream = TcpStream::connect_timeout(&at, DEADLINE)?;
    stream.set_read_timeout(Some(DEADLINE))?;
    let mut head = format!("{method} {path} HTTP/1.1\r\nhost: {at}\r\nconnection: close\r\n");
    for (name, value) in headers {
        head.push_str(&format!("{name}: {value}\r\n"));
    }
    if !body.is_empty() || method != "GET" {
        head.push_str(&format!("content-length: {}\r\n", body.len()));
    }
    stream.write_all(format!("{head}\r\n{body}").as_bytes())?;
    let mut bytes = Vec::new();
    stream.read_to_end(&mut bytes)?;
    let text = String::from_utf8_lossy(&bytes);
    let (head, body) = text.split_once("\r\n\r\n").unwrap_or((&text, ""));
    let status = head.split(' ').nth(1).and_then(|code| code.parse().ok());
    let status = status.ok_or(std::io::ErrorKind::UnexpectedEof)?;
    let chunked = head
        .to_ascii_lowercase()
        .contains("transfer-encoding: chunked");
    let body = if chunked {
        dechunked(body)
    } else {
        body.to_owned()
    };
    Ok(Answer {
        status,
        head: head.to_owned(),
        body,
    })
}

fn dechunked(mut rest: &str) -> String {
    let mut out = String::new();
    while let Some((size, more)) = rest.split_once("\r\n") {
        let size = usize::from_str_radix(size, 16).unwrap();
        out.push_str(&more[..size]);
        rest = more[size..].trim_start_matches("\r\n");
        if size == 0 {
            break;
        }
    }
    out
}

/// An upstream that answers at once, or holds every request until its gate opens.
pub(crate) struct Upstream {
    pub(crate) url: String,
    gate: Arc<(Mutex<bool>, Condvar)>,
    inside: Arc<AtomicUsize>,
    stop: Arc<AtomicBool>,
    at: SocketAddr,
}

impl Upstream {
    pub(crate) fn start(open: bool) -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let at = listener.local_addr().unwrap();
        let gate = Arc::new((Mutex::new(open), Condvar::new()));
        let (inside, stop) = (
            Arc::new(AtomicUsize::new(0)),
            Arc::new(AtomicBool::new(false)),
        );
        let shared = (gate.clone(), inside.clone(), stop.clone());
        std::thread::spawn(move || {
            for stream in listener.incoming() {
                if shared.2.load(Ordering::SeqCst) {
                    return;
                }
                let (gate, inside) = (shared.0.clone(), shared.1.clone());
                std::thread::spawn(move || serve(stream.unwrap(), &gate, &inside));
            }
        });
        Self {
            url: format!("http://{at}"),
            gate,
            inside,
            stop,
            at,
        }
    }

    /// Requests that are held.
    pub(crate) fn inside(&self) -> usize {
        self.inside.load(Ordering::SeqCst)
    }

    pub(crate) fn open(&self) {
        *self.gate.0.lock().unwrap() = true;
        self.gate.1.notify_all();
    }
}

impl Drop for Upstream {
    fn drop(&mut self) {
        self.open();
        self.stop.store(true, Ordering::SeqCst);
        drop(TcpStream::connect(self.at));
    }
}

fn serve(stream: TcpStream, gate: &(Mutex<bool>, Condvar), inside: &AtomicUsize) {
    let mut reader = BufReader::new(stream.try_clone().unwrap());
    let mut writer = stream;
    loop {
        let mut line = String::new();
        while line != "\r\n" {
            line.clear();
            if reader.read_line(&mut line).unwrap_or(0) == 0 {
                return;
            }
        }
        inside.fetch_add(1, Ordering::SeqCst);
        let open = gate.0.lock().unwrap();
        drop(gate.1.wait_while(open, |open| !*open).unwrap());
        inside.fetch_sub(1, Ordering::SeqCst);
        let answer = b"HTTP/1.1 200 OK\r\ncontent-length: 2\r\n\r\nok";
        if writer.write_all(answer).is_err() {
            return;
        }
    }
}

/// A policy with one route `a` at `/a`.
pub(crate) fn policy(url: &str, limit: &str) -> String {
    format!(
        "schema = 1\n\n[upstreams.main]\nendpoints = [\"{url}\"]\n\n[[routes]]\nid = \"a\"\n\
         path = \"/a\"\nupstream = \"main\"\n\n[routes.compartment]\nlimit = {limit}\n"
    )
}
