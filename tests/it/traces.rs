//! Traces: the spans that a collector gets of an execution whose server is killed.

use crate::served::{TENURE, shared};
use axum::{Router, body::Bytes, extract::State, routing::post};
use opentelemetry_proto::tonic::{
    collector::trace::v1::ExportTraceServiceRequest,
    common::v1::{KeyValue, any_value::Value as Any},
    trace::v1::Span,
};
use prost::Message as _;
use reqwest::Client;
use serde_json::Value;
use std::{
    collections::{BTreeMap, BTreeSet},
    sync::{Arc, Mutex},
    time::{Duration, Instant},
};
use tests::processes::Server;

/// The maximum duration of an onboarding, on a busy machine.
const PATIENCE: Duration = Duration::from_secs(60);

/// The caller's trace.
const ASKED_WITHIN: &str = "00-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-01";

/// Every received span, with the server that sent it.
#[derive(Clone, Default)]
struct Heard(Arc<Mutex<Vec<(String, Span)>>>);

impl Heard {
    fn all(&self) -> Vec<(String, Span)> {
        self.0.lock().unwrap().clone()
    }
}

fn said(attributes: &[KeyValue], name: &str) -> Option<String> {
    let found = attributes.iter().find(|of| of.key == name)?;
    match found.value.as_ref()?.value.as_ref()? {
        Any::StringValue(text) => Some(text.clone()),
        other => Some(format!("{other:?}")),
    }
}

/// A collector of OTLP over HTTP.
async fn collector(heard: &Heard) -> String {
    async fn hear(State(heard): State<Heard>, body: Bytes) {
        let told = ExportTraceServiceRequest::decode(body).unwrap();
        for of in told.resource_spans {
            let resource = of.resource.unwrap().attributes;
            assert_eq!(said(&resource, "service.name").as_deref(), Some("tenure"));
            let server = said(&resource, "service.instance.id").unwrap();
            let spans = of.scope_spans.into_iter().flat_map(|scope| scope.spans);
            heard.0.lock().unwrap().extend(spans.map(|span| (server.clone(), span)));
        }
    }
    let listener = tokio::net::TcpListener::bind("127.0.0.1:0").await.unwrap();
    let url = format!("http://{}/v1/traces", listener.local_addr().unwrap());
    let router = Router::new().route("/v1/traces", post(hear)).with_state(heard.clone());
    tokio::spawn(async move { axum::serve(listener, router).await.unwrap() });
    url
}

async fn posted(server: &Server, path: &str, media: &str, body: String) -> Value {
    let request = Client::new().post(format!("{}{path}", server.url())).bearer_auth(server.admin());
    let request = request.header("content-type", media).header("traceparent", ASKED_WITHIN);
    let answer = request.body(body).send().await.unwrap();
    let text = answer.error_for_status().unwrap().text().await.unwrap();
    serde_json::from_str(&text).unwrap()
}

#[tokio::test]
async fn an_execution_is_one_trace_although_its_server_was_killed() {
    let heard = Heard::default();
    let url = collector(&heard).await;
    let dir = tempfile::tempdir().unwrap();
    let settings = [
        ("TENURE_TRACES_URL", url.as_str()),
        ("TENURE_SIMULATED_DELAY_MS", "150"),
        ("TENURE_ENGINE_LEASE", "1s"),
    ];
    let settings = settings.map(|(name, value)| (name.to_owned(), value.to_owned())).into();
    let mut server = Server::start_with(TENURE.as_ref(), &dir.path().join("data"), None, settings);
    let rows: String = (1..=8).map(|node| format!("n-{node},96000,786432,8,H100\n")).collect();
    let fleet = format!("sn,cpu_milli,memory_mib,gpu,model\n{rows}");
    posted(&server, "/v1/fleet:import?cluster=eu-1&region=eu", "text/csv", fleet).await;
    let id = posted(&server, "/v1/tenants", "application/yaml", shared("acme")).await["id"].clone();
    let id = id.as_str().unwrap().to_owned();
    let trace = id.replace('-', "");
    let of =
        |span: &Span| span.trace_id.iter().map(|byte| format!("{byte:02x}")).collect::<String>() == trace;

    let deadline = Instant::now() + PATIENCE;
    while heard.all().iter().filter(|(_, span)| of(span)).count() < 3 {
        assert!(Instant::now() < deadline, "no span is exported during the run");
        tokio::time::sleep(Duration::from_millis(20)).await;
    }
    server.kill();
    server.restart();
    let root = loop {
        let root = heard.all().into_iter().find(|(_, span)| of(span) && span.parent_span_id.is_empty());
        if let Some((_, root)) = root {
            break root;
        }
        assert!(Instant::now() < deadline, "it does not end: {:#?}", heard.all());
        tokio::time::sleep(Duration::from_millis(50)).await;
    };

    let spans: Vec<(String, Span)> = heard.all().into_iter().filter(|(_, span)| of(span)).collect();
    let servers: BTreeSet<&String> = spans.iter().map(|(server, _)| server).collect();
    assert_eq!(servers.len(), 2, "both servers exported spans");
    // A span that was sent and not yet marked as sent is sent again with the same id.
    let once: BTreeMap<&[u8], &Span> =
        spans.iter().map(|(_, span)| (span.span_id.as_slice(), span)).collect();
    assert!(once.len() + 32 > spans.len(), "{} of {}", once.len(), spans.len());
    assert_eq!(root.name, "onboarding");
    assert_eq!(said(&root.attributes, "tenure.outcome").as_deref(), Some("completed"));
    assert_eq!(said(&root.attributes, "tenure.tenant").as_deref(), Some("acme"));
    let [link] = root.links.as_slice() else { panic!("{:?}", root.links) };
    assert_eq!(said(&link.attributes, "tenure.link").as_deref(), Some("request"));
    let hex = |bytes: &[u8]| bytes.iter().map(|byte| format!("{byte:02x}")).collect::<String>();
    assert_eq!(format!("00-{}-{}-01", hex(&link.trace_id), hex(&link.span_id)), ASKED_WITHIN);
    for span in once.values().filter(|span| !span.parent_span_id.is_empty()) {
        assert!(once.contains_key(span.parent_span_id.as_slice()), "{} has no parent span", span.name);
        let within = root.start_time_unix_nano..=root.end_time_unix_nano;
        assert!(within.contains(&span.start_time_unix_nano) && within.contains(&span.end_time_unix_nano));
    }

    // The states follow each other without a gap.
    let mut states: Vec<&&Span> = once.values().filter(|span| span.parent_span_id == root.span_id).collect();
    states.sort_by_key(|span| (span.start_time_unix_nano, span.end_time_unix_nano));
    assert!(states.len() > 5, "{states:#?}");
    for pair in states.windows(2) {
        assert_eq!(
            pair[0].end_time_unix_nano, pair[1].start_time_unix_nano,
            "{} {}",
            pair[0].name, pair[1].name
        );
    }
    let attempts: Vec<&&Span> =
        once.values().filter(|span| said(&span.attributes, "tenure.action").is_some()).collect();
    assert!(attempts.iter().any(|span| span.end_time_unix_nano - span.start_time_unix_nano > 100_000_000));

    let metrics = reqwest::get(format!("{}/metrics", server.url())).await.unwrap().text().await.unwrap();
    let example = metrics
        .lines()
        .find(|line| line.starts_with("tenure_attempt_seconds_bucket") && line.contains(&trace));
    assert!(example.is_some_and(|line| line.contains("# {trace_id=")), "an example leads to its trace");
    assert!(metrics.contains("tenure_trace_spans_sent_total"), "{metrics}");
}
