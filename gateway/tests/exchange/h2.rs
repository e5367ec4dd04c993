//! A client that speaks HTTP/2 and reads exactly as much as a test wants.

use std::net::SocketAddr;

use ::h2::client::{ResponseFuture, SendRequest};
use ::h2::{Reason, RecvStream, SendStream};
use bytes::Bytes;
use http::{HeaderMap, Request};
use tokio::runtime::Runtime;
use tokio::task::JoinSet;
use tokio::time::timeout;

use crate::PATIENCE;

/// One connection. It is driven all the while, whether a test waits or not.
pub(crate) struct H2 {
    runtime: Runtime,
    sender: SendRequest<Bytes>,
    _driver: JoinSet<()>,
}

/// One request. Dropping it takes the request back.
pub(crate) struct Asked {
    answer: Option<ResponseFuture>,
    /// The rest of the request's body.
    pub(crate) upload: SendStream<Bytes>,
    body: Option<RecvStream>,
}

impl H2 {
    /// Each stream may be sent `window_bytes` before it is read.
    pub(crate) fn connect(at: SocketAddr, window_bytes: u32) -> Self {
        let runtime = tokio::runtime::Builder::new_multi_thread()
            .worker_threads(1)
            .enable_all()
            .build()
            .unwrap();
        let mut driver = JoinSet::new();
        let sender = runtime.block_on(async {
            let stream = tokio::net::TcpStream::connect(at).await.unwrap();
            let (sender, connection) = ::h2::client::Builder::new()
                .initial_window_size(window_bytes)
                .initial_connection_window_size(1 << 24)
                .handshake(stream)
                .await
                .unwrap();
            driver.spawn(async move { drop(connection.await) });
            sender
        });
        Self {
            runtime,
            sender,
            _driver: driver,
        }
    }

    /// Begins a request; `whole` when it has no body.
    pub(crate) fn send(&mut self, method: &str, path: &str, script: &str, whole: bool) -> Asked {
        let request = Request::builder()
            .method(method)
            .uri(format!("http://gw.test{path}"))
            .header("x-do", script)
            .body(())
            .unwrap();
        let (answer, upload) = self.sender.send_request(request, whole).unwrap();
        Asked {
            answer: Some(answer),
            upload,
            body: None,
        }
    }

    pub(crate) fn get(&mut self, path: &str, script: &str) -> Asked {
        self.send("GET", path, script, true)
    }

    /// Status and fields of the answer.
    pub(crate) fn head(&self, asked: &mut Asked) -> (u16, HeaderMap) {
        let answer = asked.answer.take().unwrap();
        let answer = self
            .runtime
            .block_on(async { timeout(PATIENCE, answer).await });
        let (head, body) = answer.unwrap().unwrap().into_parts();
        asked.body = Some(body);
        (head.status.as_u16(), head.headers)
    }

    /// The body to its end, or why it was cut.
    pub(crate) fn body(&self, asked: &mut Asked) -> Result<Vec<u8>, Option<Reason>> {
        self.read(asked, true)
    }

    /// What came after the body.
    pub(crate) fn trailers(&self, asked: &mut Asked) -> Option<HeaderMap> {
        let body = asked.body.as_mut().unwrap();
        let reading = async { timeout(PATIENCE, body.trailers()).await };
        self.runtime.block_on(reading).unwrap().unwrap()
    }

    /// Gives no room for more: waits for the cut that has to come.
    pub(crate) fn cut(&self, asked: &mut Asked) -> Option<Reason> {
        self.read(asked, false).unwrap_err()
    }

    /// One piece of the body, for which there is room again after it.
    pub(crate) fn piece(&self, asked: &mut Asked) -> usize {
        let body = asked.body.as_mut().unwrap();
        let data = self.runtime.block_on(timeout_data(body)).unwrap();
        body.flow_control().release_capacity(data.len()).unwrap();
        data.len()
    }

    fn read(&self, asked: &mut Asked, room: bool) -> Result<Vec<u8>, Option<Reason>> {
        let body = asked.body.as_mut().unwrap();
        let reading = async {
            let mut bytes = Vec::new();
            while let Some(data) = body.data().await {
                let data = data.map_err(|error| error.reason())?;
                if room {
                    body.flow_control().release_capacity(data.len()).unwrap();
                }
                bytes.extend_from_slice(&data);
            }
            Ok(bytes)
        };
        self.runtime
            .block_on(async { timeout(PATIENCE, reading).await })
            .unwrap()
    }

    /// An answer of the upstream's, read to its end.
    pub(crate) fn is_served(&mut self, path: &str) -> bool {
        let mut asked = self.get(path, "ok");
        let (status, _) = self.head(&mut asked);
        status == 200 && self.body(&mut asked) == Ok(b"ok".to_vec())
    }
}

async fn timeout_data(body: &mut RecvStream) -> Option<Bytes> {
    let data = timeout(PATIENCE, body.data()).await.unwrap();
    data.transpose().unwrap()
}
