//! A control plane that does what a test says: it pushes what it is told, and shows what it was
//! sent.
//!
//! Separate from the tests so that they read as a conversation. It must never answer by itself.

use std::net::{SocketAddr, TcpListener};
use std::pin::Pin;
use std::sync::mpsc::{Receiver, SyncSender, sync_channel};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use tokio::runtime::Runtime;
use tokio::sync::mpsc;
use tokio_stream::wrappers::{ReceiverStream, TcpListenerStream};
use tonic::transport::Server;
use tonic::{Request, Response, Status, Streaming};
use wire::Secret;
use wire::stream::proto::control_server::{Control, ControlServer};
use wire::stream::proto::from_gateway::Message;
use wire::stream::proto::{Answer, FromGateway, Hello, PolicyPush, Report, ToGateway, to_gateway};

/// A step that takes longer has failed.
pub(crate) const LONGEST: Duration = Duration::from_secs(20);
const HEARD_MAX: usize = 1_000;

type Outbound = mpsc::Sender<Result<ToGateway, Status>>;

pub(crate) struct Fake {
    address: SocketAddr,
    runtime: Option<Runtime>,
    heard: Receiver<Message>,
    outbound: Arc<Mutex<Option<Outbound>>>,
}

struct Service {
    token: Secret,
    heard: SyncSender<Message>,
    outbound: Arc<Mutex<Option<Outbound>>>,
}

#[tonic::async_trait]
impl Control for Service {
    type ConnectStream =
        Pin<Box<dyn tokio_stream::Stream<Item = Result<ToGateway, Status>> + Send>>;

    async fn connect(
        &self,
        request: Request<Streaming<FromGateway>>,
    ) -> Result<Response<Self::ConnectStream>, Status> {
        if !wire::stream::authorized(request.metadata(), &self.token) {
            return Err(Status::unauthenticated("no"));
        }
        let (outbound, stream) = mpsc::channel(16);
        *self.outbound.lock().unwrap() = Some(outbound);
        let heard = self.heard.clone();
        let mut inbound = request.into_inner();
        // Owned by the runtime: it ends when the control plane dies.
        tokio::runtime::Handle::current().spawn(async move {
            while let Ok(Some(FromGateway {
                message: Some(message),
            })) = inbound.message().await
            {
                if heard.try_send(message).is_err() {
                    return;
                }
            }
        });
        Ok(Response::new(Box::pin(ReceiverStream::new(stream))))
    }
}

/// The port of a control plane that has just died may take a moment to be free.
fn bound(address: SocketAddr) -> TcpListener {
    for _ in 0..LONGEST.as_millis() {
        match TcpListener::bind(address) {
            Err(error) if error.kind() == std::io::ErrorKind::AddrInUse => {
                std::thread::sleep(Duration::from_millis(1));
            }
            bound => return bound.unwrap(),
        }
    }
    unreachable!("{address} stays in use");
}

impl Fake {
    pub(crate) fn start(token: &Secret) -> Self {
        Self::at("127.0.0.1:0".parse().unwrap(), token)
    }

    /// Listens at `address`, where another one may have listened before.
    pub(crate) fn at(address: SocketAddr, token: &Secret) -> Self {
        let runtime = tokio::runtime::Builder::new_multi_thread()
            .worker_threads(1)
            .enable_all()
            .build()
            .unwrap();
        let listener = bound(address);
        listener.set_nonblocking(true).unwrap();
        let address = listener.local_addr().unwrap();
        let (sender, heard) = sync_channel(HEARD_MAX);
        let outbound = Arc::new(Mutex::new(None));
        let service = Service {
            token: token.clone(),
            heard: sender,
            outbound: Arc::clone(&outbound),
        };
        runtime.spawn(async move {
            let listener = tokio::net::TcpListener::from_std(listener).unwrap();
            Server::builder()
                .add_service(ControlServer::new(service))
                .serve_with_incoming(TcpListenerStream::new(listener))
                .await
        });
        Self {
            address,
            runtime: Some(runtime),
            heard,
            outbound,
        }
    }

    pub(crate) fn url(&self) -> String {
        format!("http://{}", self.address)
    }

    pub(crate) fn address(&self) -> SocketAddr {
        self.address
    }

    /// Dies: every connection is cut, nothing listens any more.
    pub(crate) fn die(mut self) {
        self.runtime.take().unwrap().shutdown_timeout(LONGEST);
    }

    /// Ends the open stream and keeps listening.
    pub(crate) fn hang_up(&self) {
        self.outbound.lock().unwrap().take();
    }

    pub(crate) fn push(&self, push: PolicyPush) {
        self.say(to_gateway::Message::Policy(push));
    }

    pub(crate) fn say(&self, message: to_gateway::Message) {
        let message = ToGateway {
            message: Some(message),
        };
        let outbound = self
            .outbound
            .lock()
            .unwrap()
            .clone()
            .expect("no gateway is connected");
        outbound.blocking_send(Ok(message)).unwrap();
    }

    /// The next greeting.
    pub(crate) fn hello(&self) -> Hello {
        loop {
            if let Message::Hello(hello) = self.next() {
                return hello;
            }
        }
    }

    /// The next answer to a policy.
    pub(crate) fn answer(&self) -> Answer {
        loop {
            if let Message::Answer(answer) = self.next() {
                return answer;
            }
        }
    }

    /// The next report.
    pub(crate) fn report(&self) -> Report {
        loop {
            if let Message::Report(report) = self.next() {
                return report;
            }
        }
    }

    fn next(&self) -> Message {
        self.heard
            .recv_timeout(LONGEST)
            .expect("the gateway says nothing")
    }
}
