//! Clients of every manner, over HTTP/1 and HTTP/2.

use std::net::SocketAddr;
use std::rc::Rc;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::time::Duration;

use bytes::Bytes;
use h2::client::SendRequest;
use http::Request;
use socket2::SockRef;
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpStream;
use tokio::task::{JoinSet, LocalSet};
use tokio::time::{sleep, timeout};

use crate::ledger::{ROUTES, TENANTS};
use crate::random::Random;

/// Clients at one time.
const CLIENTS: usize = 64;
/// Longest time that a client waits for anything.
const PATIENCE: Duration = Duration::from_secs(8);

/// How the requests ended, from the clients' side.
#[derive(Default)]
pub(crate) struct Ends {
    pub(crate) stop: AtomicBool,
    pub(crate) whole: AtomicU64,
    pub(crate) refused: AtomicU64,
    pub(crate) cut: AtomicU64,
    pub(crate) left: AtomicU64,
    /// An answer that belongs to another request, or looked whole and was not.
    pub(crate) wrong: AtomicU64,
}

/// Drives the gateway until it is told to stop, on a thread of its own.
pub(crate) fn start(
    at: SocketAddr,
    mut random: Random,
    ends: Arc<Ends>,
) -> std::thread::JoinHandle<()> {
    std::thread::spawn(move || {
        let runtime = tokio::runtime::Builder::new_current_thread()
            .enable_all()
            .build()
            .unwrap();
        LocalSet::new().block_on(&runtime, async move {
            let mut clients = JoinSet::new();
            for number in 0..CLIENTS {
                let client = Client {
                    at,
                    random: random.fork(),
                    ends: Arc::clone(&ends),
                    asked: 0,
                    number,
                };
                clients.spawn_local(client.run());
            }
            while let Some(ended) = clients.join_next().await {
                ended.unwrap();
            }
        });
    })
}

struct Client {
    at: SocketAddr,
    random: Random,
    ends: Arc<Ends>,
    asked: u64,
    number: usize,
}

/// One request as it goes out.
struct Asked {
    id: String,
    path: String,
    tenant: &'static str,
    script: String,
    body: Option<usize>,
}

impl Client {
    async fn run(mut self) {
        while !self.ends.stop.load(Ordering::Relaxed) {
            // No action takes longer than its own bounds; none may hang.
            match self.random.between(0, 9) {
                0..=5 => self.over_http1().await,
                6 => self.switch().await,
                _ => self.over_http2().await,
            }
            sleep(Duration::from_millis(self.random.between(0, 20))).await;
        }
    }

    fn ask(&mut self) -> Asked {
        self.asked += 1;
        let random = &mut self.random;
        let script = match random.between(0, 19) {
            0..=6 => "ok".to_owned(),
            7 | 8 => format!("slow {}", random.between(1, 300)),
            9 | 10 => format!("big {}", random.between(1, 2_000_000)),
            11 => format!("trickle {}", random.between(1, 60)),
            12 => "hang".to_owned(),
            13 => "reset".to_owned(),
            14 => "mid".to_owned(),
            15 => "early".to_owned(),
            16 => "503".to_owned(),
            17 => "garbage".to_owned(),
            _ => format!("events {}", random.between(1, 30)),
        };
        let tenant = if random.one_in(8) {
            "nobody"
        } else {
            random.pick(TENANTS)
        };
        Asked {
            id: format!("c{}-{}", self.number, self.asked),
            path: format!("/{}", random.pick(ROUTES)),
            tenant,
            body: random
                .one_in(3)
                .then(|| usize::try_from(random.between(0, 200_000)).unwrap()),
            script,
        }
    }

    /// Several requests over one connection, unless something ends it before.
    async fn over_http1(&mut self) {
        let Ok(mut stream) = TcpStream::connect(self.at).await else {
            return;
        };
        for _ in 0..self.random.between(1, 8) {
            let asked = self.ask();
            let bytes = asked.http1();
            // Where the client leaves: in the request, right after it, or not.
            let leaves = self.random.one_in(5);
            let sent = match leaves {
                true => self.random.between(0, u64::try_from(bytes.len()).unwrap()),
                false => u64::try_from(bytes.len()).unwrap(),
            };
            let sent = usize::try_from(sent).unwrap();
            let written = timeout(PATIENCE, stream.write_all(&bytes[..sent])).await;
            if leaves || !matches!(written, Ok(Ok(()))) {
                self.pause(500).await;
                return self.leave(stream);
            }
            if self.random.one_in(10) {
                // Does not read for a while, or at all.
                self.pause(1_000).await;
                if self.random.one_in(2) {
                    return self.leave(stream);
                }
            }
            if !self.read_http1(&mut stream, &asked).await {
                return;
            }
        }
    }

    fn leave(&mut self, stream: TcpStream) {
        self.ends.left.fetch_add(1, Ordering::Relaxed);
        if self.random.one_in(2) {
            drop(SockRef::from(&stream).set_linger(Some(Duration::ZERO)));
        }
    }

    async fn pause(&mut self, most_ms: u64) {
        sleep(Duration::from_millis(self.random.between(0, most_ms))).await;
    }

    /// True when the connection can be used again.
    async fn read_http1(&mut self, stream: &mut TcpStream, asked: &Asked) -> bool {
        let stops_at = self
            .random
            .one_in(10)
            .then(|| self.random.between(0, 100_000));
        let reading = read_answer(stream, stops_at);
        let Ok(answer) = timeout(PATIENCE, reading).await else {
            self.ends.wrong.fetch_add(1, Ordering::Relaxed);
            return false;
        };
        let ends = &self.ends;
        let count = match &answer {
            Some(answer) if answer.is_refused() => &ends.refused,
            Some(answer) if answer.whole && answer.echo() == asked.id => &ends.whole,
            Some(answer) if answer.whole && answer.status != 503 => &ends.wrong,
            Some(answer) if answer.whole => &ends.whole,
            Some(_) | None => &ends.cut,
        };
        count.fetch_add(1, Ordering::Relaxed);
        answer.is_some_and(|answer| answer.whole && !answer.head.contains("connection: close"))
    }

    /// Asks for another protocol, says something, waits, leaves.
    async fn switch(&mut self) {
        let Ok(mut stream) = TcpStream::connect(self.at).await else {
            return;
        };
        let asked = Asked {
            script: "switch".to_owned(),
            body: None,
            ..self.ask()
        };
        let head = asked.http1_with(
            "GET",
            "connection: upgrade\r\nupgrade: websocket\r\nsec-websocket-version: 13\r\n\
             sec-websocket-key: dGhlIHNhbXBsZSBub25jZQ==\r\n",
        );
        if stream.write_all(head.as_bytes()).await.is_err() || self.random.one_in(4) {
            return self.leave(stream);
        }
        let mut bytes = [0; 4096];
        for _ in 0..self.random.between(1, 5) {
            let read = timeout(PATIENCE, stream.read(&mut bytes)).await;
            if !matches!(read, Ok(Ok(1..))) || stream.write_all(b"ping").await.is_err() {
                return;
            }
        }
        self.pause(800).await;
        self.leave(stream);
    }

    /// Many requests side by side; some are taken back, some are not read.
    async fn over_http2(&mut self) {
        let Ok(stream) = TcpStream::connect(self.at).await else {
            return;
        };
        let window = *self.random.pick(&[0, 1_000, 65_535, 1 << 20]);
        let handshake = h2::client::Builder::new()
            .initial_window_size(window)
            .handshake(stream)
            .await;
        let Ok((sender, connection)) = handshake else {
            return;
        };
        let mut driver = JoinSet::new();
        driver.spawn_local(async move { drop(connection.await) });
        let mut streams = JoinSet::new();
        for _ in 0..self.random.between(1, 12) {
            let asked = self.ask();
            let one = Stream {
                random: self.random.fork(),
                ends: Arc::clone(&self.ends),
                asked: Rc::new(asked),
            };
            streams.spawn_local(one.run(sender.clone()));
        }
        // Leaves with everything, in the middle of it.
        if self.random.one_in(4) {
            self.pause(300).await;
            return;
        }
        let all = async { while streams.join_next().await.is_some() {} };
        if timeout(PATIENCE, all).await.is_err() {
            self.ends.wrong.fetch_add(1, Ordering::Relaxed);
        }
    }
}

impl Asked {
    fn http1(&self) -> Vec<u8> {
        let Some(length) = self.body else {
            return self.http1_with("GET", "").into_bytes();
        };
        let more = format!("content-length: {length}\r\n");
        let mut bytes = self.http1_with("POST", &more).into_bytes();
        bytes.resize(bytes.len() + length, b'z');
        bytes
    }

    fn http1_with(&self, method: &str, more: &str) -> String {
        let Self {
            id,
            path,
            tenant,
            script,
            ..
        } = self;
        let accept = if script.starts_with("events") {
            "accept: text/event-stream\r\n"
        } else {
            ""
        };
        format!(
            "{method} {path} HTTP/1.1\r\nhost: soak\r\nx-id: {id}\r\nx-tenant-id: {tenant}\r\n\
             x-do: {script}\r\n{accept}{more}\r\n"
        )
    }
}

/// An answer over HTTP/1, its head in lower case.
struct Answer {
    status: u16,
    head: String,
    whole: bool,
}

impl Answer {
    fn field(&self, name: &str) -> &str {
        let mut lines = self.head.lines();
        let value = lines.find_map(|line| line.strip_prefix(name)?.strip_prefix(": "));
        value.unwrap_or_default()
    }

    fn echo(&self) -> &str {
        self.field("x-echo")
    }

    fn is_refused(&self) -> bool {
        !self.field("x-bulkhead-reason").is_empty()
    }
}

/// `None` when no head came. Reads no more than `stops_at` bytes of a body.
async fn read_answer(stream: &mut TcpStream, stops_at: Option<u64>) -> Option<Answer> {
    let mut bytes = Vec::new();
    let end = loop {
        if let Some(at) = bytes.windows(4).position(|window| window == b"\r\n\r\n") {
            break at + 4;
        }
        if stream.read_buf(&mut bytes).await.ok()? == 0 {
            return None;
        }
    };
    let head = String::from_utf8_lossy(&bytes[..end]).to_lowercase();
    let status = head.split(' ').nth(1)?.parse().ok()?;
    let mut answer = Answer {
        status,
        head,
        whole: false,
    };
    let mut body = bytes.split_off(end);
    let length: Option<usize> = answer.field("content-length").parse().ok();
    loop {
        answer.whole = match length {
            Some(length) => body.len() >= length,
            None => body.ends_with(b"0\r\n\r\n"),
        };
        let enough = stops_at.is_some_and(|most| body.len() >= usize::try_from(most).unwrap());
        if answer.whole || enough || stream.read_buf(&mut body).await.unwrap_or(0) == 0 {
            return Some(answer);
        }
    }
}

/// One request over HTTP/2.
struct Stream {
    random: Random,
    ends: Arc<Ends>,
    asked: Rc<Asked>,
}

impl Stream {
    async fn run(mut self, sender: SendRequest<Bytes>) {
        let leaves_ms = self.random.one_in(4).then(|| self.random.between(0, 600));
        let ends = Arc::clone(&self.ends);
        let exchange = self.exchange(sender);
        // Dropping it takes the stream back.
        let ended = match leaves_ms {
            Some(ms) => timeout(Duration::from_millis(ms), exchange).await.ok(),
            None => Some(exchange.await),
        };
        let count = match ended {
            None => &ends.left,
            Some(None) => &ends.cut,
            Some(Some(End::Whole)) => &ends.whole,
            Some(Some(End::Refused)) => &ends.refused,
            Some(Some(End::Wrong)) => &ends.wrong,
        };
        count.fetch_add(1, Ordering::Relaxed);
    }

    /// `None`: it was cut.
    async fn exchange(&mut self, sender: SendRequest<Bytes>) -> Option<End> {
        let asked = Rc::clone(&self.asked);
        let mut request = Request::builder()
            .method(if asked.body.is_some() { "POST" } else { "GET" })
            .uri(format!("http://soak{}", asked.path))
            .header("x-id", &asked.id)
            .header("x-tenant-id", asked.tenant)
            .header("x-do", &asked.script);
        if asked.script.starts_with("events") {
            request = request.header("accept", "text/event-stream");
        }
        let mut sender = sender.ready().await.ok()?;
        let request = request.body(()).unwrap();
        let (answer, mut upload) = sender.send_request(request, asked.body.is_none()).ok()?;
        if let Some(length) = asked.body {
            // Some stop in the middle.
            let stops = self.random.one_in(6);
            upload.send_data(vec![b'z'; length].into(), !stops).ok()?;
        }
        let (head, mut body) = answer.await.ok()?.into_parts();
        let is_refused = head.headers.contains_key("x-bulkhead-reason");
        let reads = !self.random.one_in(8);
        let mut read = 0;
        while let Some(data) = body.data().await {
            let data = data.ok()?;
            read += data.len();
            if reads {
                body.flow_control().release_capacity(data.len()).ok()?;
            }
        }
        let length = head.headers.get("content-length");
        let length = length.and_then(|length| length.to_str().ok()?.parse::<usize>().ok());
        let echo = head.headers.get("x-echo").map(|echo| echo.as_bytes());
        let is_own = head.status == 503 || echo == Some(asked.id.as_bytes());
        Some(if is_refused {
            End::Refused
        } else if is_own && length.is_none_or(|length| length == read) {
            End::Whole
        } else {
            End::Wrong
        })
    }
}

enum End {
    Whole,
    Refused,
    Wrong,
}
