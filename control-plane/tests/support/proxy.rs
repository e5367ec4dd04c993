//! A proxy before a Postgres that cuts a connection at a chosen message.
//!
//! Separate because it knows the frame of the protocol and nothing else: what a program sends is
//! followed message by message (one byte of kind, four of length; the first message of a
//! connection has no kind). It must never change a byte.

use std::io::{ErrorKind, Read, Write as _};
use std::net::{Shutdown, SocketAddr, TcpListener, TcpStream};
use std::sync::{Arc, Mutex, MutexGuard};
use std::thread;
use std::time::Duration;

/// How a connection ends at the message that was chosen.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Cut {
    /// The server never gets it.
    Before,
    /// The server gets half of it.
    Within,
    /// The server gets it, and its answer is lost.
    After,
    /// The first bytes of the answer arrive.
    InAnswer,
}

/// What happens next.
#[derive(Debug, Default)]
struct Plan {
    /// Cut here: how, and at which message of a change.
    armed: Option<(Cut, usize)>,
    /// The kind of the message that was cut.
    cut: Option<u8>,
    /// How many messages the last change took.
    length: usize,
    /// New connections are closed at once.
    closed: bool,
    /// Nothing passes any more, and nobody is told.
    silent: bool,
}

/// Listens on loopback until it is dropped.
#[derive(Debug)]
pub(crate) struct Proxy {
    address: SocketAddr,
    plan: Arc<Mutex<Plan>>,
}

impl Proxy {
    /// Before the server of this URL.
    pub(crate) fn before(url: &str) -> Self {
        let server = place(url).to_owned();
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let address = listener.local_addr().unwrap();
        let plan = Arc::new(Mutex::new(Plan::default()));
        let shared = Arc::downgrade(&plan);
        thread::spawn(move || {
            for client in listener.incoming() {
                let (Ok(client), Some(plan)) = (client, shared.upgrade()) else {
                    return;
                };
                if plan.lock().unwrap().closed {
                    continue;
                }
                if let Ok(server) = TcpStream::connect(&server) {
                    pass(client, server, plan);
                }
            }
        });
        Self { address, plan }
    }

    /// The same URL, by way of this.
    pub(crate) fn url(&self, url: &str) -> String {
        let way = self.address.to_string();
        format!("{}?sslmode=disable", url.replace(place(url), &way))
    }

    fn plan(&self) -> MutexGuard<'_, Plan> {
        self.plan.lock().unwrap()
    }

    /// Cuts the next change at the message with this number, counted from its first one.
    pub(crate) fn arm(&self, cut: Cut, message: usize) {
        let mut plan = self.plan();
        (plan.armed, plan.cut) = (Some((cut, message)), None);
    }

    /// The kind of the message that was cut, if it came so far.
    pub(crate) fn disarm(&self) -> Option<u8> {
        let mut plan = self.plan();
        plan.armed = None;
        plan.cut.take()
    }

    /// The number of a change's last message: its commit.
    pub(crate) fn commit(&self) -> usize {
        self.plan().length - 1
    }

    /// From now on nobody who connects gets through, or does again.
    pub(crate) fn close(&self, closed: bool) {
        self.plan().closed = closed;
    }

    /// Nothing passes, and no connection ends.
    pub(crate) fn silence(&self, silent: bool) {
        self.plan().silent = silent;
    }
}

impl Drop for Proxy {
    fn drop(&mut self) {
        self.close(true);
        // Wakes the accepting thread, which then finds nobody.
        let _woken = TcpStream::connect(self.address);
    }
}

/// Host and port in a URL.
fn place(url: &str) -> &str {
    let rest = url.split_once("://").unwrap().1;
    let rest = rest.split(['/', '?']).next().unwrap();
    rest.rsplit_once('@').map_or(rest, |(_, place)| place)
}

/// What both directions of one connection know.
#[derive(Debug, Default)]
struct Ending {
    /// The answer is not to arrive: this much of it may.
    answer: Option<usize>,
}

fn pass(client: TcpStream, server: TcpStream, plan: Arc<Mutex<Plan>>) {
    let ending = Arc::new(Mutex::new(Ending::default()));
    for side in [&client, &server] {
        // Messages are passed on one by one, and none waits for the word about the one before.
        side.set_nodelay(true).unwrap();
    }
    let (from_server, to_client) = (server.try_clone().unwrap(), client.try_clone().unwrap());
    let (own_plan, own_ending) = (Arc::clone(&plan), Arc::clone(&ending));
    thread::spawn(move || answers(from_server, to_client, &own_plan, &own_ending));
    thread::spawn(move || {
        let _ended = messages(&client, &server, &plan, &ending);
        for side in [&client, &server] {
            let _gone = side.shutdown(Shutdown::Both);
        }
    });
}

fn answers(
    mut server: TcpStream,
    mut client: TcpStream,
    plan: &Mutex<Plan>,
    ending: &Mutex<Ending>,
) {
    let mut bytes = [0; 16 << 10];
    while let Ok(count @ 1..) = server.read(&mut bytes) {
        while plan.lock().unwrap().silent {
            thread::park_timeout(Duration::from_millis(5));
        }
        let left = ending.lock().unwrap().answer;
        let passed = left.unwrap_or(count).min(count);
        if client.write_all(&bytes[..passed]).is_err() || left.is_some() {
            break;
        }
    }
    for side in [&client, &server] {
        let _gone = side.shutdown(Shutdown::Both);
    }
}

fn messages(
    mut client: &TcpStream,
    mut server: &TcpStream,
    plan: &Mutex<Plan>,
    ending: &Mutex<Ending>,
) -> std::io::Result<()> {
    let mut is_first = true;
    // The messages since a change began on this connection.
    let mut of_change: Option<usize> = None;
    loop {
        let mut message = vec![0; if is_first { 4 } else { 5 }];
        client.read_exact(&mut message)?;
        let length = u32::from_be_bytes(*message.last_chunk().unwrap());
        let body = message.len();
        message.resize(body + usize::try_from(length).unwrap() - 4, 0);
        client.read_exact(&mut message[body..])?;
        let kind = if is_first { 0 } else { message[0] };
        is_first = false;
        while plan.lock().unwrap().silent {
            thread::park_timeout(Duration::from_millis(5));
        }
        let says = |word: &[u8]| message.windows(word.len()).any(|part| part == word);
        if says(b"BEGIN ") {
            of_change = Some(0);
        }
        let cut = of_change.and_then(|number| due(&mut plan.lock().unwrap(), number, kind));
        of_change = of_change.map(|number| number + 1);
        if kind == b'Q' && (says(b"COMMIT\0") || says(b"ROLLBACK\0")) {
            plan.lock().unwrap().length = of_change.take().unwrap_or_default();
        }
        let Some(cut) = cut else {
            server.write_all(&message)?;
            continue;
        };
        match cut {
            Cut::Before => return Err(ErrorKind::ConnectionAborted.into()),
            Cut::Within => server.write_all(&message[..message.len() / 2])?,
            Cut::After | Cut::InAnswer => {
                let passed = if cut == Cut::After { 0 } else { 3 };
                ending.lock().unwrap().answer = Some(passed);
                server.write_all(&message)?;
                // What the server does with it is done once it answers; the other thread ends all
                // of it then. Some messages have no answer of their own.
                thread::park_timeout(Duration::from_millis(60));
            }
        }
        return Err(ErrorKind::ConnectionAborted.into());
    }
}

/// Whether this message of a change is the one.
fn due(plan: &mut Plan, number: usize, kind: u8) -> Option<Cut> {
    let (cut, _) = plan.armed.filter(|(_, chosen)| *chosen == number)?;
    plan.armed = None;
    plan.cut = Some(kind);
    Some(cut)
}
