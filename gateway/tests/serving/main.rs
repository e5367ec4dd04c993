//! A whole gateway in this process: real sockets before it and behind it.
//!
//! Separate from the unit tests so that only public doors are used. It must never look inside.
#![expect(
    clippy::unwrap_used,
    clippy::indexing_slicing,
    clippy::panic,
    reason = "a failed step fails the test"
)]

mod bounds;
mod client;
mod drain;
mod leaving;
mod proxying;
mod stub;

use std::time::{Duration, Instant};

use gateway::document::{Syntax, load};
use gateway::{Config, Running, Source};

use crate::client::Client;
use crate::stub::Stub;

/// Longest wait for anything.
const PATIENCE: Duration = Duration::from_secs(10);

/// A gateway of two threads before `stub`. `/one` has a single slot, `/many` has 100, `/brief`
/// one that is held for a second at most.
struct Gateway {
    running: Option<Running>,
    at: std::net::SocketAddr,
}

fn policy(stub: &Stub, http: &str) -> String {
    format!(
        "schema = 1\n[gateway.http]\n{http}\n\
         [upstreams.stub]\nendpoints = [\"http://{}\"]\n\
         [[routes]]\nid = \"one\"\npath = \"/one\"\nupstream = \"stub\"\n\
         compartment = {{ limit = 1 }}\n\
         [[routes]]\nid = \"many\"\npath = \"/many\"\nupstream = \"stub\"\n\
         compartment = {{ limit = 100 }}\n\
         [[routes]]\nid = \"brief\"\npath = \"/brief\"\nupstream = \"stub\"\n\
         compartment = {{ limit = 1 }}\ntimeout = {{ attempt = \"500ms\", total = \"1s\" }}\n",
        stub.at
    )
}

fn gateway(stub: &Stub, http: &str) -> Gateway {
    let loaded = load(&policy(stub, http), Syntax::Toml).unwrap_or_else(|error| panic!("{error}"));
    let running = gateway::start(Config {
        listen: vec!["127.0.0.1:0".parse().unwrap()],
        admin: "127.0.0.1:0".parse().unwrap(),
        workers: Some(2),
        source: Source::Document(loaded),
        drain_timeout: Duration::from_secs(5),
        id: "test".to_owned(),
        forbidden: Vec::new(),
        least_rate: gateway::LeastRate::default(),
        telling: gateway::Telling::default(),
    })
    .unwrap();
    assert!(running.wait_live(PATIENCE));
    Gateway {
        at: running.listen()[0],
        running: Some(running),
    }
}

impl Gateway {
    fn running(&self) -> &Running {
        self.running.as_ref().unwrap()
    }

    fn client(&self) -> Client {
        Client::connect(self.at)
    }

    fn with(&self, bytes: impl AsRef<[u8]>) -> Client {
        let mut client = self.client();
        client.send(bytes);
        client
    }

    fn admin(&self, path: &str) -> client::Answer {
        let mut client = Client::connect(self.running().admin());
        client.send(get(path));
        client.answer()
    }
}

fn get(path: &str) -> String {
    format!("GET {path} HTTP/1.1\r\nhost: gateway.test\r\n\r\n")
}

fn post(path: &str, length: usize) -> String {
    format!("POST {path} HTTP/1.1\r\nhost: gateway.test\r\ncontent-length: {length}\r\n\r\n")
}

#[track_caller]
#[expect(clippy::disallowed_methods, reason = "a test waits for real things")]
fn eventually(what: &str, mut holds: impl FnMut() -> bool) {
    let start = Instant::now();
    while !holds() {
        assert!(start.elapsed() < PATIENCE, "{what} never came true");
        std::thread::sleep(Duration::from_millis(2));
    }
}
