//! An upstream that speaks HTTP/2, and does with streams and connections what such servers do.

use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex};

use ::h2::server::SendResponse;
use ::h2::{Reason, RecvStream};
use bytes::Bytes;
use http::{HeaderMap, Request, Response};
use tokio::net::{TcpListener, TcpStream};
use tokio::runtime::Runtime;
use tokio::task::JoinSet;
use tokio::time::timeout;

use super::h2::H2;
use super::*;

/// What the upstream saw.
#[derive(Default)]
pub(super) struct Log {
    pub(super) connections: AtomicUsize,
    pub(super) closed: AtomicUsize,
    pub(super) requests: AtomicUsize,
    pub(super) running: AtomicUsize,
    peak: AtomicUsize,
    /// Streams that were taken back.
    reset: AtomicUsize,
    fields: Mutex<Vec<HeaderMap>>,
    trailers: Mutex<Option<HeaderMap>>,
}

impl Log {
    pub(super) fn of(count: &AtomicUsize) -> usize {
        count.load(Ordering::SeqCst)
    }
}

pub(super) struct Upstream {
    pub(super) at: SocketAddr,
    pub(super) log: Arc<Log>,
    _runtime: Runtime,
}

impl Upstream {
    /// `streams_max` on one connection; the first `rude` connections are ended by `rudeness`.
    pub(super) fn start(streams_max: u32, rude: usize, rudeness: &'static str) -> Self {
        let runtime = tokio::runtime::Builder::new_multi_thread()
            .worker_threads(1)
            .enable_all()
            .build()
            .unwrap();
        let log = Arc::<Log>::default();
        let listener = runtime.block_on(TcpListener::bind("127.0.0.1:0")).unwrap();
        let at = listener.local_addr().unwrap();
        let shared = Arc::clone(&log);
        runtime.spawn(async move {
            let mut connections = JoinSet::new();
            while let Ok((stream, _)) = listener.accept().await {
                let number = shared.connections.fetch_add(1, Ordering::SeqCst);
                let rudeness = if number < rude { rudeness } else { "" };
                let log = Arc::clone(&shared);
                connections.spawn(async move {
                    serve(stream, streams_max, rudeness, Arc::clone(&log)).await;
                    log.closed.fetch_add(1, Ordering::SeqCst);
                });
            }
        });
        Self {
            at,
            log,
            _runtime: runtime,
        }
    }
}

async fn serve(stream: TcpStream, streams_max: u32, rudeness: &'static str, log: Arc<Log>) {
    if rudeness == "late" {
        tokio::time::sleep(Duration::from_millis(400)).await;
    }
    let mut builder = ::h2::server::Builder::new();
    builder.max_concurrent_streams(streams_max);
    let Ok(mut connection) = builder.handshake::<_, Bytes>(stream).await else {
        return;
    };
    let mut streams = JoinSet::new();
    loop {
        // Mute: once it has answered, it neither reads nor writes nor closes.
        let patience = match rudeness {
            "mute" => Duration::from_millis(400),
            _ => PATIENCE * 6,
        };
        let Ok(accepted) = timeout(patience, connection.accept()).await else {
            return std::future::pending().await;
        };
        let Some(Ok((request, mut respond))) = accepted else {
            return;
        };
        match rudeness {
            "refuse" => respond.send_reset(Reason::REFUSED_STREAM),
            "internal" => respond.send_reset(Reason::INTERNAL_ERROR),
            "close" => return,
            _ => {
                log.requests.fetch_add(1, Ordering::SeqCst);
                let log = Arc::clone(&log);
                streams.spawn(async move { answer(request, respond, &log).await });
            }
        }
        if rudeness == "goodbye" {
            connection.graceful_shutdown();
        }
    }
}

async fn answer(request: Request<RecvStream>, respond: SendResponse<Bytes>, log: &Log) {
    let (head, body) = request.into_parts();
    let script = head
        .headers
        .get("x-do")
        .map(|text| text.to_str().unwrap().to_owned());
    log.fields.lock().unwrap().push(head.headers);
    let running = log.running.fetch_add(1, Ordering::SeqCst) + 1;
    log.peak.fetch_max(running, Ordering::SeqCst);
    let done = run(script.as_deref().unwrap_or_default(), body, respond, log).await;
    if done.is_err() {
        log.reset.fetch_add(1, Ordering::SeqCst);
    }
    log.running.fetch_sub(1, Ordering::SeqCst);
}

async fn run(
    script: &str,
    mut body: RecvStream,
    mut respond: SendResponse<Bytes>,
    log: &Log,
) -> Result<(), ::h2::Error> {
    match script {
        "hold" => {
            let reset = std::future::poll_fn(|cx| respond.poll_reset(cx)).await?;
            return Err(reset.into());
        }
        "wait" => tokio::time::sleep(Duration::from_millis(150)).await,
        _ => {}
    }
    let response = Response::builder()
        .header("connection-of", "nobody")
        .body(())
        .unwrap();
    let mut send = respond.send_response(response, false)?;
    if script == "flood" {
        loop {
            send.reserve_capacity(16 * 1024);
            match std::future::poll_fn(|cx| send.poll_capacity(cx)).await {
                Some(Ok(room)) => send.send_data(Bytes::from(vec![b'x'; room]), false)?,
                Some(Err(error)) => return Err(error),
                None => return Err(Reason::CANCEL.into()),
            }
        }
    }
    while let Some(data) = body.data().await {
        let data = data?;
        body.flow_control().release_capacity(data.len())?;
        send.send_data(data, false)?;
    }
    *log.trailers.lock().unwrap() = body.trailers().await?;
    let mut trailers = HeaderMap::new();
    trailers.insert("x-end", "yes".parse().unwrap());
    trailers.insert("x-bulkhead-reason", "fake".parse().unwrap());
    send.send_trailers(trailers)
}

pub(super) fn before(upstream: &Upstream, more: &str) -> Bench {
    let h2 = format!("endpoints = [\"http://{}\"]\nhttp2 = true", upstream.at);
    bench_over(&h2, "body_idle_timeout = \"2s\"", &[("h2", more)])
}

pub(super) const WIDE: &str = "[routes.compartment]\nlimit = 60";

#[track_caller]
pub(super) fn at_rest(bench: &Bench) {
    for key in ["route/h2", "upstream/h2", "gateway"] {
        eventually(key, || bench.in_flight(key) == 0);
        let seen = bench.figures(key);
        assert_eq!(seen["admitted"], seen["completed"], "{key}");
    }
}

#[test]
fn it_is_asked_over_one_connection_and_answers_both_protocols() {
    let upstream = Upstream::start(100, 0, "");
    let bench = before(&upstream, WIDE);
    let mut client = Client::connect(bench.at);
    for body in ["", "some", "more of it"] {
        client.send(post("/h2", "", body));
        let answer = client.answer();
        assert_eq!(
            (answer.status, &*answer.body, answer.whole),
            (200, body, true)
        );
        assert_eq!(answer.reason(), None);
    }
    let mut http2 = H2::connect(bench.at, 1 << 16);
    for _ in 0..3 {
        let mut asked = http2.send("GET", "/h2", "", true);
        assert_eq!(http2.head(&mut asked).0, 200);
        assert_eq!(http2.body(&mut asked), Ok(Vec::new()));
        let trailers = http2.trailers(&mut asked).unwrap();
        assert_eq!(trailers.get("x-end").unwrap(), "yes");
        assert_eq!(trailers.len(), 1, "{trailers:?}");
    }
    at_rest(&bench);
    assert_eq!(Log::of(&upstream.log.connections), 1);
    let fields = upstream.log.fields.lock().unwrap();
    for gone in ["host", "connection", "transfer-encoding", "upgrade"] {
        assert!(
            fields.iter().all(|fields| !fields.contains_key(gone)),
            "{gone}"
        );
    }
    assert!(
        fields
            .iter()
            .all(|fields| fields.contains_key("x-request-id"))
    );
}

#[test]
fn more_connections_are_opened_as_it_allows_few_streams() {
    let upstream = Upstream::start(5, 0, "");
    let bench = before(&upstream, WIDE);
    let mut clients: Vec<Client> = (0..40).map(|_| bench.send(get("/h2", "wait"))).collect();
    for client in &mut clients {
        assert_eq!(client.answer().status, 200);
    }
    at_rest(&bench);
    assert_eq!(
        Log::of(&upstream.log.connections),
        8,
        "40 streams, 5 on each"
    );
    assert_eq!(Log::of(&upstream.log.requests), 40);
}

#[test]
fn what_it_has_not_looked_at_is_sent_once_more() {
    for rudeness in ["refuse", "goodbye"] {
        let upstream = Upstream::start(100, 1, rudeness);
        let bench = before(&upstream, WIDE);
        for _ in 0..3 {
            // Not a retry: a POST is sent anew too, for nobody has seen it.
            let answer = bench.ask(post("/h2", "", "body"));
            assert_eq!((answer.status, &*answer.body), (200, "body"), "{rudeness}");
        }
        assert_eq!(Log::of(&upstream.log.requests), 3, "{rudeness}");
        assert_eq!(Log::of(&upstream.log.connections), 2, "{rudeness}");
        at_rest(&bench);
    }
    let always = Upstream::start(100, usize::MAX, "refuse");
    let bench = before(&always, WIDE);
    let answer = bench.ask(get("/h2", ""));
    assert_eq!(
        (answer.status, answer.reason()),
        (502, Some("upstream_reset"))
    );
    assert_eq!(
        Log::of(&always.log.connections),
        2,
        "once more, and no oftener"
    );
    at_rest(&bench);
}

#[test]
fn what_it_may_have_looked_at_is_not() {
    for rudeness in ["internal", "close"] {
        let upstream = Upstream::start(100, usize::MAX, rudeness);
        let bench = before(&upstream, WIDE);
        let answer = bench.ask(post("/h2", "", "body"));
        assert_eq!(
            (answer.status, answer.reason()),
            (502, Some("upstream_reset")),
            "{rudeness}"
        );
        assert_eq!(Log::of(&upstream.log.connections), 1, "{rudeness}");
        at_rest(&bench);
    }
}

#[test]
fn a_client_that_leaves_takes_its_stream_back_and_no_other() {
    let upstream = Upstream::start(100, 0, "");
    let bench = before(&upstream, WIDE);
    for script in ["hold", "flood"] {
        let mut stays = bench.send(get("/h2", "wait"));
        let leaves = bench.send(get("/h2", script));
        eventually("both", || bench.in_flight("route/h2") == 2);
        std::thread::sleep(Duration::from_millis(50));
        let reset = Log::of(&upstream.log.reset);
        let left = Instant::now();
        leaves.reset();
        eventually("the stream to be taken back", || {
            Log::of(&upstream.log.reset) > reset
        });
        assert!(
            left.elapsed() < Duration::from_millis(400),
            "{script}: {:?}",
            left.elapsed()
        );
        assert_eq!(stays.answer().status, 200, "{script}");
    }
    at_rest(&bench);
    assert_eq!(Log::of(&upstream.log.connections), 1);
}

#[test]
fn bounds_hold_over_http2_too() {
    let upstream = Upstream::start(100, 0, "");
    let more = format!("{WIDE}\n[routes.timeout]\nattempt = \"300ms\"\ntotal = \"600ms\"");
    let bench = before(&upstream, &more);
    let answer = bench.ask(get("/h2", "hold"));
    assert_eq!(
        (answer.status, answer.reason()),
        (504, Some("attempt_timeout"))
    );
    let cut = bench.ask(get("/h2", "flood"));
    assert_eq!((cut.status, cut.whole), (200, false));
    eventually("both to be taken back", || {
        Log::of(&upstream.log.reset) == 2
    });
    at_rest(&bench);
}

#[test]
fn trailers_of_a_request_pass_and_are_cleaned() {
    let upstream = Upstream::start(100, 0, "");
    let bench = before(&upstream, WIDE);
    let mut client = H2::connect(bench.at, 1 << 16);
    let mut asked = client.send("POST", "/h2", "", false);
    let mut trailers = HeaderMap::new();
    trailers.insert("x-sum", "7".parse().unwrap());
    trailers.insert("x-bulkhead-tenant", "somebody".parse().unwrap());
    asked
        .upload
        .send_data(Bytes::from_static(b"text"), false)
        .unwrap();
    asked.upload.send_trailers(trailers).unwrap();
    assert_eq!(client.head(&mut asked).0, 200);
    assert_eq!(client.body(&mut asked), Ok(b"text".to_vec()));
    let seen = upstream.log.trailers.lock().unwrap().clone().unwrap();
    assert_eq!(seen.get("x-sum").unwrap(), "7");
    assert_eq!(seen.len(), 1, "{seen:?}");
    at_rest(&bench);
}

/// Idle connections die in silence: a firewall forgets them, a machine is gone.
#[test]
fn a_dead_connection_is_noticed_when_it_is_used_again() {
    let upstream = Upstream::start(100, 1, "mute");
    let more = format!("{WIDE}\n[routes.timeout]\nattempt = \"30s\"");
    let bench = before(&upstream, &more);
    assert_eq!(bench.ask(get("/h2", "")).status, 200);
    std::thread::sleep(Duration::from_millis(1_200));
    let asked = Instant::now();
    let answer = bench.ask(get("/h2", ""));
    assert_eq!(
        (answer.status, answer.reason()),
        (502, Some("upstream_reset"))
    );
    assert!(
        asked.elapsed() < Duration::from_secs(8),
        "{:?}",
        asked.elapsed()
    );
    assert_eq!(bench.ask(get("/h2", "")).status, 200, "over another one");
    assert_eq!(Log::of(&upstream.log.connections), 2);
    at_rest(&bench);
}

#[test]
fn a_server_of_another_protocol_is_no_connection() {
    let bench = {
        let plain = Stub::start();
        let h2 = format!("endpoints = [\"http://{}\"]\nhttp2 = true", plain.at);
        bench_over(&h2, "body_idle_timeout = \"2s\"", &[("h2", "")])
    };
    let answer = bench.ask(get("/h2", "ok"));
    assert_eq!(
        (answer.status, answer.reason()),
        (502, Some("upstream_connect"))
    );
    at_rest(&bench);
}

/// HTTP/2 alone can bring them, so it is told of each upstream apart.
#[test]
fn a_fallback_is_told_of_trailers_by_what_it_speaks_itself() {
    let upstream = Upstream::start(100, 0, "");
    let h2 = format!("endpoints = [\"http://{}\"]\nhttp2 = true", upstream.at);
    let to = |other: &str| {
        format!(
            "compartment = {{ limit = 1 }}\n[[routes.fallback]]\nkind = \"upstream\"\n\
             upstream = \"{other}\"\nlimit = 1\n"
        )
    };
    let bench = bench_over(&h2, "", &[("one", &to("h2")), ("h2", &to("other"))]);
    let reads = |path: &str| request("GET", path, "ok", "te: trailers\r\n");
    let told = || {
        let fields = upstream.log.fields.lock().unwrap();
        fields.last().unwrap().get("te").cloned()
    };
    let held = bench.send(get("/one", "hold"));
    eventually("held", || bench.in_flight("route/one") == 1);
    let answer = bench.ask(reads("/one"));
    assert_eq!(answer.field("x-bulkhead-fallback"), Some("upstream"));
    assert_eq!(told().unwrap(), "trailers");
    assert_eq!(bench.ask(get("/one", "ok")).status, 200);
    assert_eq!(told(), None);
    drop(held);
    assert_eq!(bench.ask(reads("/h2")).reason(), None);
    assert_eq!(told().unwrap(), "trailers");
    let held = bench.send(get("/h2", "hold"));
    eventually("held", || bench.in_flight("route/h2") == 1);
    let answer = bench.ask(reads("/h2"));
    assert_eq!(answer.field("x-bulkhead-fallback"), Some("upstream"));
    let head = bench.stub.seen().last().unwrap().head.clone();
    assert!(!head.contains("te: trailers"), "{head}");
    drop(held);
}
