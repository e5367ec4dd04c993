//! Requests that are served.

use bytes::Bytes;
use http_body_util::{BodyExt, Empty};
use hyper_util::rt::{TokioExecutor, TokioIo};

use super::*;

#[test]
fn a_kept_connection_serves_pipelined_requests_in_order() {
    let stub = Stub::start();
    let gateway = gateway(&stub, "");
    let mut client = gateway.with([get("/many/a"), get("/one/b"), get("/many/c")].concat());
    let bodies: Vec<_> = (0..3).map(|_| client.answer().body).collect();
    assert_eq!(bodies, ["/many/a", "/one/b", "/many/c"]);
    client.send(post("/many/d", 5) + "hello");
    assert_eq!(client.answer().body, "/many/d");
    client.send(get("/elsewhere"));
    client.answer().has("x-bulkhead-reason: no_route");
    assert_eq!(stub.arrived(), 4);
}

#[test]
fn many_clients_at_once_are_served_by_all_threads() {
    let stub = Stub::start();
    let gateway = gateway(&stub, "");
    let mut clients: Vec<_> = (0..80)
        .map(|n| gateway.with(get(&format!("/many/{n}"))))
        .collect();
    for (n, client) in clients.iter_mut().enumerate() {
        assert_eq!(client.answer().body, format!("/many/{n}"));
    }
}

#[test]
fn http2_by_prior_knowledge_shares_the_port() {
    let stub = Stub::start();
    let gateway = gateway(&stub, "");
    let runtime = tokio::runtime::Builder::new_current_thread()
        .enable_all()
        .build()
        .unwrap();
    runtime.block_on(async {
        let stream = tokio::net::TcpStream::connect(gateway.at).await.unwrap();
        let io = TokioIo::new(stream);
        let (sender, connection) = hyper::client::conn::http2::handshake(TokioExecutor::new(), io)
            .await
            .unwrap();
        let mut tasks = tokio::task::JoinSet::new();
        tasks.spawn(async move { drop(connection.await) });
        let mut asked = tokio::task::JoinSet::new();
        for n in 0..50 {
            let mut sender = sender.clone();
            asked.spawn(async move {
                let uri = format!("http://gateway.test/many/{n}");
                let request = http::Request::get(uri).body(Empty::<Bytes>::new()).unwrap();
                let answer = sender.send_request(request).await.unwrap();
                assert_eq!(answer.status(), 200);
                let body = answer.into_body().collect().await.unwrap().to_bytes();
                assert_eq!(body, format!("/many/{n}"));
            });
        }
        while let Some(done) = asked.join_next().await {
            done.unwrap();
        }
    });
    assert_eq!(stub.arrived(), 50);
}
