//! OTLP over gRPC.
//!
//! Separate because the channel connects by itself and is kept between exports. It must never run
//! on another thread than the exporter's.

use opentelemetry_proto::tonic::collector::logs::v1::logs_service_client::LogsServiceClient;
use opentelemetry_proto::tonic::collector::metrics::v1::metrics_service_client as metrics;
use opentelemetry_proto::tonic::collector::trace::v1::trace_service_client::TraceServiceClient;
use tonic::codec::CompressionEncoding;
use tonic::metadata::MetadataMap;
use tonic::transport::{Channel, Endpoint};
use tonic::{Code, Request, Status};

use crate::export::{Failed, Message, Said};
use crate::output::Output;
use crate::plain_http::AGENT;

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
        let metadata = MetadataMap::from_headers(output.headers.iter().cloned().collect());
        Ok(Self {
            channel: endpoint.connect_lazy(),
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
