//! Sends spans to a collector, as OTLP over HTTP.

use async_trait::async_trait;
use backends::outbound;
use opentelemetry::KeyValue;
use opentelemetry_http::{Bytes, HttpClient, HttpError, Request, Response};
use opentelemetry_otlp::{Protocol, SpanExporter, WithExportConfig as _, WithHttpConfig as _};
use opentelemetry_sdk::{
    Resource,
    trace::{SpanData, SpanExporter as _},
};
use reqwest::Client;
use std::{
    sync::{
        Arc,
        atomic::{AtomicU16, Ordering},
    },
    time::Duration,
};

/// The timeout of a request.
const PATIENCE: Duration = Duration::from_secs(10);

/// A collector.
#[derive(Debug)]
pub(super) struct Collector {
    exporter: SpanExporter,
    answered: Arc<AtomicU16>,
}

/// The result of an export.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Sent {
    /// The collector accepted the spans.
    Taken,
    /// The collector refused the spans for good.
    Refused(String),
    /// The collector may accept the spans later.
    Later(String),
}

impl Collector {
    /// Creates the client for the collector at `url`; `instance` names the server.
    ///
    /// # Errors
    /// The invalid setting.
    pub(super) fn at(url: &str, instance: &str) -> Result<Self, String> {
        let wrong = |error: &dyn std::fmt::Display| format!("traces.url: {error}");
        let http = outbound::client().timeout(PATIENCE).build().map_err(|e| wrong(&e))?;
        let answered = Arc::new(AtomicU16::new(0));
        let mut exporter = SpanExporter::builder()
            .with_http()
            .with_http_client(HttpTransport { http, answered: answered.clone() })
            .with_endpoint(url)
            .with_protocol(Protocol::HttpBinary)
            .with_timeout(PATIENCE)
            .build()
            .map_err(|e| wrong(&e))?;
        let about = [
            KeyValue::new("service.version", env!("CARGO_PKG_VERSION")),
            KeyValue::new("service.instance.id", instance.to_owned()),
        ];
        exporter
            .set_resource(&Resource::builder().with_service_name("tenure").with_attributes(about).build());
        Ok(Self { exporter, answered })
    }

    /// Sends spans, and waits for the answer.
    pub(super) async fn send(&self, spans: Vec<SpanData>) -> Sent {
        self.answered.store(0, Ordering::Relaxed);
        let Err(error) = self.exporter.export(spans).await else { return Sent::Taken };
        match self.answered.load(Ordering::Relaxed) {
            // These codes concern the content, so a retry has the same result. Others concern the client or the URL, which an operator can fix.
            status @ (400 | 413 | 415 | 422) => {
                Sent::Refused(format!("the collector answered with {status}"))
            }
            _ => Sent::Later(error.to_string()),
        }
    }
}

/// The HTTP client of the exporter.
#[derive(Debug)]
struct HttpTransport {
    http: Client,
    answered: Arc<AtomicU16>,
}

#[async_trait]
impl HttpClient for HttpTransport {
    async fn send_bytes(&self, request: Request<Bytes>) -> Result<Response<Bytes>, HttpError> {
        let (parts, body) = request.into_parts();
        let asked = self.http.request(parts.method, parts.uri.to_string()).headers(parts.headers).body(body);
        let answer = asked.send().await?;
        self.answered.store(answer.status().as_u16(), Ordering::Relaxed);
        let mut told = Response::builder().status(answer.status());
        if let Some(headers) = told.headers_mut() {
            headers.clone_from(answer.headers());
        }
        Ok(told.body(outbound::body(answer, outbound::MESSAGE).await?.into())?)
    }
}
