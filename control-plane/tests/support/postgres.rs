//! A real Postgres for tests, and a database of its own for each.
//!
//! Separate because unit tests and integration tests use it. It takes the server that
//! BULKHEAD_TEST_POSTGRES names, else it starts one with `.ci/postgres`, which ends with this
//! process however that ends. A test that finds neither says so, and fails where CI is set.

use std::io::{BufRead as _, BufReader, Write as _};
use std::path::Path;
use std::process::{Child, ChildStdin, ChildStdout, Command, Stdio};
use std::sync::OnceLock;

use sqlx::{Connection as _, Executor as _, PgConnection};

/// A server of one's own, which can be stopped and started again.
#[derive(Debug)]
pub(crate) struct Server {
    _process: Child,
    orders: ChildStdin,
    answers: BufReader<ChildStdout>,
    pub(crate) url: String,
}

impl Server {
    pub(crate) fn start() -> Result<Self, String> {
        Self::start_with(&[])
    }

    /// With variables that `.ci/postgres` tells of.
    pub(crate) fn start_with(variables: &[(&str, &str)]) -> Result<Self, String> {
        let script = Path::new(env!("CARGO_MANIFEST_DIR")).join("../.ci/postgres");
        let process = Command::new(&script)
            .arg("serve")
            .envs(variables.iter().copied())
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .spawn();
        let mut process = process.map_err(|error| format!("{}: {error}", script.display()))?;
        let orders = process.stdin.take().unwrap();
        let mut answers = BufReader::new(process.stdout.take().unwrap());
        let mut url = String::new();
        answers
            .read_line(&mut url)
            .map_err(|error| error.to_string())?;
        if !url.starts_with("postgres://") {
            return Err(format!("{} gave no URL", script.display()));
        }
        let url = url.trim().to_owned();
        Ok(Self {
            _process: process,
            orders,
            answers,
            url,
        })
    }

    /// `stop`, `crash` or `start`; the answer is that it is done.
    pub(crate) fn order(&mut self, order: &str, answer: &str) {
        writeln!(self.orders, "{order}").unwrap();
        let mut line = String::new();
        self.answers.read_line(&mut line).unwrap();
        assert_eq!(line.trim(), answer, "{order}");
    }
}

/// The URL of the server that all tests of this process share.
pub(crate) fn shared() -> Option<&'static str> {
    static SERVER: OnceLock<Result<String, String>> = OnceLock::new();
    let server = SERVER.get_or_init(|| {
        if let Ok(url) = std::env::var("BULKHEAD_TEST_POSTGRES") {
            return Ok(url);
        }
        let server = Server::start()?;
        let url = server.url.clone();
        // Its standard input stays open until this process ends, and the server with it.
        Box::leak(Box::new(server));
        Ok(url)
    });
    match server {
        Ok(url) => Some(url),
        Err(why) => {
            missing(why);
            None
        }
    }
}

/// Says loudly that a test does not run; fails where CI is set.
pub(crate) fn missing(why: &str) {
    assert!(
        std::env::var_os("CI").is_none(),
        "no Postgres for this test: {why}"
    );
    eprintln!("!! DID NOT RUN, no Postgres: {why}");
}

/// A database of its own, dropped with this.
#[derive(Debug)]
pub(crate) struct Database {
    name: String,
    server: String,
    pub(crate) url: String,
}

impl Database {
    /// On the server that all tests share.
    pub(crate) async fn new() -> Option<Self> {
        Some(Self::on(shared()?).await)
    }

    pub(crate) async fn on(server: &str) -> Self {
        let name = format!("test_{}", uuid::Uuid::now_v7().simple());
        run(server, &format!("CREATE DATABASE {name}")).await;
        let (front, query) = server.split_once('?').unwrap_or((server, ""));
        let (place, _) = front.rsplit_once('/').unwrap();
        let query = if query.is_empty() {
            String::new()
        } else {
            format!("?{query}")
        };
        Self {
            url: format!("{place}/{name}{query}"),
            server: server.to_owned(),
            name,
        }
    }

    pub(crate) async fn connect(&self) -> PgConnection {
        PgConnection::connect(&self.url).await.unwrap()
    }
}

impl Drop for Database {
    fn drop(&mut self) {
        let (server, name) = (self.server.clone(), self.name.clone());
        // In a thread: a runtime may be under way in this one.
        let dropping = std::thread::spawn(move || {
            let runtime = tokio::runtime::Builder::new_current_thread()
                .enable_all()
                .build();
            runtime.unwrap().block_on(async {
                // A server that a test stopped needs no cleaning.
                if let Ok(mut connection) = PgConnection::connect(&server).await {
                    let sql = format!("DROP DATABASE IF EXISTS {name} WITH (FORCE)");
                    let _gone = connection.execute(sqlx::AssertSqlSafe(sql)).await;
                }
            });
        });
        let _done = dropping.join();
    }
}

/// Runs a statement on a connection of its own.
pub(crate) async fn run(url: &str, sql: &str) {
    let mut connection = PgConnection::connect(url).await.unwrap();
    let outcome = connection
        .execute(sqlx::AssertSqlSafe(sql.to_owned()))
        .await;
    outcome.unwrap_or_else(|error| unreachable!("{sql}: {error}"));
    connection.close().await.unwrap();
}
