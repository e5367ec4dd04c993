//! A collector for tests: both protocols on one port, good or bad on purpose.

use std::collections::HashMap;
use std::convert::Infallible;
use std::io::Read as _;
use std::net::SocketAddr;
use std::sync::{Arc, Mutex};

use bytes::Bytes;
use http::{Request, Response};
use http_body_util::{BodyExt, Full, StreamBody, combinators::BoxBody};
use hyper::body::{Frame, Incoming};
use hyper_util::rt::{TokioExecutor, TokioIo};
use hyper_util::server::conn::auto;
use opentelemetry_proto::tonic::collector::logs::v1::ExportLogsServiceRequest;
use opentelemetry_proto::tonic::collector::metrics::v1::ExportMetricsServiceRequest;
use opentelemetry_proto::tonic::collector::trace::v1::ExportTraceServiceRequest;
use opentelemetry_proto::tonic::logs::v1::LogRecord;
use opentelemetry_proto::tonic::metrics::v1::ResourceMetrics;
use opentelemetry_proto::tonic::resource::v1::Resource;
use opentelemetry_proto::tonic::trace::v1::Span;
use prost::Message as _;
use tokio::task::JoinSet;

/// How it treats whoever sends.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Manner {
    Takes,
    /// Accepts, reads, and never answers.
    Silent,
    /// Nobody listens.
    Away,
    /// Answers with this status.
    Says(u16),
}

#[derive(Default)]
pub(crate) struct Got {
    pub(crate) spans: Vec<Span>,
    pub(crate) logs: Vec<LogRecord>,
    pub(crate) metrics: Vec<ResourceMetrics>,
    pub(crate) resources: Vec<Resource>,
    pub(crate) headers: Vec<HashMap<String, String>>,
    pub(crate) trace_posts: usize,
}

pub(crate) struct Collector {
    pub(crate) address: SocketAddr,
    pub(crate) got: Arc<Mutex<Got>>,
    _runtime: tokio::runtime::Runtime,
}

impl Collector {
    pub(crate) fn start(manner: Manner) -> Self {
        Self::start_with(manner, None)
    }

    /// With an acceptor it speaks TLS alone.
    pub(crate) fn start_with(manner: Manner, acceptor: Option<tokio_rustls::TlsAcceptor>) -> Self {
        let runtime = tokio::runtime::Builder::new_multi_thread()
            .worker_threads(1)
            .enable_all()
            .build();
        let runtime = runtime.unwrap();
        let listener = runtime
            .block_on(tokio::net::TcpListener::bind(("127.0.0.1", 0)))
            .unwrap();
        let address = listener.local_addr().unwrap();
        let got = Arc::<Mutex<Got>>::default();
        if manner != Manner::Away {
            let got = Arc::clone(&got);
            let serve = async move {
                let mut connections = JoinSet::new();
                while let Ok((stream, _)) = listener.accept().await {
                    let (got, acceptor) = (Arc::clone(&got), acceptor.clone());
                    connections.spawn(async move {
                        let service = hyper::service::service_fn(move |request| {
                            answer(request, Arc::clone(&got), manner)
                        });
                        let serving = auto::Builder::new(TokioExecutor::new());
                        match acceptor {
                            None => {
                                let io = TokioIo::new(stream);
                                let _ended = serving.serve_connection(io, service).await;
                            }
                            Some(acceptor) => {
                                let Ok(stream) = acceptor.accept(stream).await else {
                                    return;
                                };
                                let io = TokioIo::new(stream);
                                let _ended = serving.serve_connection(io, service).await;
                            }
                        }
                    });
                }
            };
            runtime.spawn(serve);
        }
        Self {
            address,
            got,
            _runtime: runtime,
        }
    }
}

type Answer = Response<BoxBody<Bytes, Infallible>>;

async fn answer(
    request: Request<Incoming>,
    got: Arc<Mutex<Got>>,
    manner: Manner,
) -> Result<Answer, Infallible> {
    let (parts, body) = request.into_parts();
    let body = body.collect().await.unwrap().to_bytes();
    let path = parts.uri.path().to_owned();
    if path.contains("trace") {
        got.lock().unwrap().trace_posts += 1;
    }
    match manner {
        Manner::Silent => std::future::pending().await,
        Manner::Says(status) => return Ok(plain(status)),
        Manner::Takes | Manner::Away => {}
    }
    let header = |name: &str| {
        parts
            .headers
            .get(name)
            .map(|v| v.to_str().unwrap().to_owned())
    };
    let is_grpc = header("content-type")
        .unwrap()
        .starts_with("application/grpc");
    let is_packed = match is_grpc {
        true => body[0] == 1,
        false => header("content-encoding").as_deref() == Some("gzip"),
    };
    let message = if is_grpc { &body[5..] } else { &body[..] };
    let mut unpacked = Vec::new();
    if is_packed {
        flate2::read::GzDecoder::new(message)
            .read_to_end(&mut unpacked)
            .unwrap();
    } else {
        unpacked.extend_from_slice(message);
    }
    let mut got = got.lock().unwrap();
    let headers = parts.headers.iter();
    let headers = headers.map(|(k, v)| (k.to_string(), v.to_str().unwrap().to_owned()));
    got.headers.push(headers.collect());
    keep(&mut got, &path, unpacked.as_slice());
    Ok(if is_grpc { grpc() } else { plain(200) })
}

fn keep(got: &mut Got, path: &str, message: &[u8]) {
    if path == "/v1/traces" || path.ends_with("TraceService/Export") {
        for of in ExportTraceServiceRequest::decode(message)
            .unwrap()
            .resource_spans
        {
            got.resources.extend(of.resource);
            got.spans
                .extend(of.scope_spans.into_iter().flat_map(|scope| scope.spans));
        }
    } else if path == "/v1/logs" || path.ends_with("LogsService/Export") {
        for of in ExportLogsServiceRequest::decode(message)
            .unwrap()
            .resource_logs
        {
            got.resources.extend(of.resource);
            got.logs.extend(
                of.scope_logs
                    .into_iter()
                    .flat_map(|scope| scope.log_records),
            );
        }
    } else if path == "/v1/metrics" || path.ends_with("MetricsService/Export") {
        let metrics = ExportMetricsServiceRequest::decode(message).unwrap();
        got.metrics.extend(metrics.resource_metrics);
    } else {
        panic!("{path}");
    }
}

fn plain(status: u16) -> Answer {
    let body = Full::new(Bytes::new()).boxed();
    Response::builder().status(status).body(body).unwrap()
}

/// An empty message and the trailers of success.
fn grpc() -> Answer {
    let mut trailers = http::HeaderMap::new();
    trailers.insert("grpc-status", "0".parse().unwrap());
    let frames = [
        Frame::data(Bytes::from_static(&[0; 5])),
        Frame::trailers(trailers),
    ];
    let body = StreamBody::new(tokio_stream::iter(frames.map(Ok::<_, Infallible>)));
    let answer = Response::builder().header("content-type", "application/grpc");
    answer.body(BodyExt::boxed(body)).unwrap()
}
