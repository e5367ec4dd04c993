//! HTTP/2 by prior knowledge, with hyper's client.

use hyper::client::conn::http2::{SendRequest, handshake};
use hyper_util::rt::{TokioExecutor, TokioIo};

use super::*;

type Sender = SendRequest<Empty<Bytes>>;

/// A client of its own runtime, and what its connection ended with.
fn with_client<T>(
    server: &Server,
    run: impl AsyncFnOnce(Sender, tokio::task::JoinHandle<hyper::Result<()>>, TcpStream) -> T,
) -> T {
    let runtime = tokio::runtime::Builder::new_current_thread()
        .enable_all()
        .build()
        .unwrap();
    let local = tokio::task::LocalSet::new();
    local.block_on(&runtime, async {
        let socket = TcpStream::connect(server.at).unwrap();
        socket.set_nonblocking(true).unwrap();
        let stream = tokio::net::TcpStream::from_std(socket.try_clone().unwrap()).unwrap();
        let (sender, connection) = handshake(TokioExecutor::new(), TokioIo::new(stream))
            .await
            .unwrap();
        let connection = tokio::task::spawn_local(connection);
        tokio::time::timeout(PATIENCE, run(sender, connection, socket))
            .await
            .unwrap()
    })
}

async fn ask(sender: &mut Sender, path: &str) -> hyper::Result<String> {
    let request = Request::get(format!("http://a{path}"))
        .body(Empty::new())
        .unwrap();
    let answer = sender.send_request(request).await?;
    let bytes = answer.into_body().collect().await?.to_bytes();
    Ok(String::from_utf8(bytes.to_vec()).unwrap())
}

#[test]
fn many_requests_share_a_connection_and_a_panic_costs_one_stream() {
    let server = server(|_| {});
    with_client(&server, async |mut sender, _connection, _socket| {
        assert_eq!(ask(&mut sender, "/a").await.unwrap(), "/a 0");
        let (mut one, mut two) = (sender.clone(), sender.clone());
        let (slow, panicked) = tokio::join!(ask(&mut one, "/slow"), ask(&mut two, "/panic"));
        assert_eq!(slow.unwrap(), "late");
        assert_eq!(panicked.unwrap(), "broken");
        assert_eq!(ask(&mut sender, "/b").await.unwrap(), "/b 0");
        assert_eq!(server.census.open(), 1);
    });
}

#[test]
fn a_cancelled_stream_ends_its_exchange() {
    let server = server(|_| {});
    with_client(&server, async |mut sender, _connection, _socket| {
        let request = Request::get("http://a/hang").body(Empty::new()).unwrap();
        let asked = sender.send_request(request);
        let cancelled = tokio::time::timeout(Duration::from_millis(100), asked).await;
        assert!(cancelled.is_err());
        while count(&server.seen.dropped) < 1 {
            tokio::time::sleep(Duration::from_millis(1)).await;
        }
    });
}

#[test]
fn a_lost_connection_ends_its_exchanges() {
    let server = server(|_| {});
    with_client(&server, async |mut sender, _connection, socket| {
        let hanging = async { ask(&mut sender, "/hang").await };
        let leaving = async {
            while count(&server.seen.started) < 1 {
                tokio::time::sleep(Duration::from_millis(1)).await;
            }
            socket.shutdown(Shutdown::Both).unwrap();
        };
        tokio::join!(hanging, leaving).0.unwrap_err();
    });
    eventually("its end", || count(&server.seen.dropped) == 1);
    eventually("no connection left", || server.census.open() == 0);
}

#[test]
fn an_idle_connection_is_told_to_go() {
    let server = server(|bounds| bounds.keepalive_idle_us = 100_000);
    with_client(&server, async |mut sender, connection, _socket| {
        ask(&mut sender, "/a").await.unwrap();
        connection.await.unwrap().unwrap();
    });
}

#[test]
fn leaving_finishes_what_runs_and_closes() {
    let server = server(|_| {});
    with_client(&server, async |mut sender, connection, _socket| {
        let mut other = sender.clone();
        let slow = async { ask(&mut other, "/slow").await.unwrap() };
        let leave = async {
            while count(&server.seen.started) < 1 {
                tokio::time::sleep(Duration::from_millis(1)).await;
            }
            server.stage.send_replace(Stage::Leaving);
        };
        assert_eq!(tokio::join!(slow, leave).0, "late");
        connection.await.unwrap().unwrap();
        assert!(ask(&mut sender, "/late").await.is_err());
    });
    assert!(server.census.wait_empty(PATIENCE));
}

#[test]
fn a_client_that_gives_no_room_loses_its_stream_and_nothing_else() {
    let server = server(|bounds| bounds.write_stall_us = 200_000);
    with_client(&server, async |mut sender, _connection, _socket| {
        let request = Request::get("http://a/endless").body(Empty::new()).unwrap();
        let mut deaf = sender.send_request(request).await.unwrap();
        while count(&server.seen.dropped) < 1 {
            tokio::time::sleep(Duration::from_millis(1)).await;
        }
        assert_eq!(ask(&mut sender, "/b").await.unwrap(), "/b 0");
        let ended = loop {
            match deaf.body_mut().frame().await {
                Some(Ok(_)) => {}
                other => break other,
            }
        };
        assert!(ended.unwrap().is_err(), "a cut answer looks whole");
    });
}
