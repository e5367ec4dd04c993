//! OTLP over gRPC.
//!
//! Separate because the channel connects by itself and is kept between exports. It must never run
//! on another thread than the exporter's.

use std::pin::Pin;
use std::task::{Context, Poll};

use http::Uri;
use hyper_util::rt::TokioIo;
use opentelemetry_proto::tonic::collector::logs::v1::logs_service_client::LogsServiceClient;
use opentelemetry_proto::tonic::collector::metrics::v1::metrics_service_client as metrics;
use opentelemetry_proto::tonic::collector::trace::v1::trace_service_client::TraceServiceClient;
use tokio::net::TcpStream;
use tokio_rustls::client::TlsStream;
use tonic::codec::CompressionEncoding;
use tonic::metadata::MetadataMap;
use tonic::transport::{Channel, Endpoint};
use tonic::{Code, Request, Status};

use crate::export::{Failed, Message, Said};
use crate::output::Output;
use crate::plain_http::{AGENT, port_of};
use crate::tls::Tls;

/// Dials and speaks TLS, by the one code that knows whom to believe.
#[derive(Clone, Debug)]
struct Secured(Tls);

impl tower::Service<Uri> for Secured {
    type Response = TokioIo<TlsStream<TcpStream>>;
    type Error = std::io::Error;
    type Future = Pin<Box<dyn Future<Output = std::io::Result<Self::Response>> + Send>>;

    fn poll_ready(&mut self, _: &mut Context<'_>) -> Poll<std::io::Result<()>> {
        Poll::Ready(Ok(()))
    }

    fn call(&mut self, uri: Uri) -> Self::Future {
        let tls = self.0.clone();
        Box::pin(async move {
            let host = uri.host().unwrap_or("localhost");
            let host = host.trim_start_matches('[').trim_end_matches(']');
            let stream = TcpStream::connect((host, port_of(&uri))).await?;
            stream.set_nodelay(true)?;
            Ok(TokioIo::new(tls.connect(host, stream).await?))
        })
    }
}

/// One collector.
#[derive(Debug)]
pub(crate) struct Grpc {
    channel: Channel,
    metadata: MetadataMap,
    gzip: bool,
}

impl Grpc {
    /// Connects with the first message.
    pub(crate) fn new(output: &Output) -> Result<Self, tonic::transport::Error> {
        let endpoint = Endpoint::from(output.uri.clone())
            .connect_timeout(output.timeout)
            .tcp_nodelay(true)
            .user_agent(AGENT)?;
        let channel = match &output.tls {
            None => endpoint.connect_lazy(),
            Some(tls) => endpoint.connect_with_connector_lazy(Secured(tls.clone())),
        };
        let metadata = MetadataMap::from_headers(output.headers.iter().cloned().collect());
        Ok(Self {
            channel,
            metadata,
            gzip: output.gzip,
        })
    }

    fn request<T>(&self, message: T) -> Request<T> {
        let mut request = Request::new(message);
        *request.metadata_mut() = self.metadata.clone();
        request
    }

    pub(crate) async fn send(&self, message: &Message) -> Result<Said, Failed> {
        let channel = self.channel.clone();
        let gzip = CompressionEncoding::Gzip;
        match message {
            Message::Traces(message) => {
                let mut client = TraceServiceClient::new(channel);
                if self.gzip {
                    client = client.send_compressed(gzip);
                }
                let answer = client.export(self.request(message.clone())).await;
                let part = answer
                    .map_err(|status| failed(&status))?
                    .into_inner()
                    .partial_success;
                Ok(Said::of(
                    part.map(|part| (part.rejected_spans, part.error_message)),
                ))
            }
            Message::Metrics(message) => {
                let mut client = metrics::MetricsServiceClient::new(channel);
                if self.gzip {
                    client = client.send_compressed(gzip);
                }
                let answer = client.export(self.request(message.clone())).await;
                let part = answer
                    .map_err(|status| failed(&status))?
                    .into_inner()
                    .partial_success;
                Ok(Said::of(part.map(|part| {
                    (part.rejected_data_points, part.error_message)
                })))
            }
            Message::Logs(message) => {
                let mut client = LogsServiceClient::new(channel);
                if self.gzip {
                    client = client.send_compressed(gzip);
                }
                let answer = client.export(self.request(message.clone())).await;
                let part = answer
                    .map_err(|status| failed(&status))?
                    .into_inner()
                    .partial_success;
                Ok(Said::of(part.map(|part| {
                    (part.rejected_log_records, part.error_message)
                })))
            }
        }
    }
}

fn failed(status: &Status) -> Failed {
    let text = format!("the collector answers {:?}", status.code());
    match status.code() {
        Code::Cancelled
        | Code::DeadlineExceeded
        | Code::Aborted
        | Code::OutOfRange
        | Code::Unavailable
        | Code::DataLoss => Failed::again(text),
        Code::Ok
        | Code::Unknown
        | Code::InvalidArgument
        | Code::NotFound
        | Code::AlreadyExists
        | Code::PermissionDenied
        | Code::ResourceExhausted
        | Code::FailedPrecondition
        | Code::Unimplemented
        | Code::Internal
        | Code::Unauthenticated => Failed::never(text),
    }
}
