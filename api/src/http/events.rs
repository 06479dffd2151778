//! `POST /v1/events`: CloudEvents 1.0 over HTTP, structured or binary. `source` and `id` are the key: an event that
//! comes again is answered with the execution that it started.

use super::{
    code::Code,
    idempotency::fingerprint,
    problem::{Fault, Problem},
    read::{Text, is_yaml, json, media},
    route::{Access, Route},
    tenants::{read_request, read_value, start},
};
use crate::{
    app::Shared,
    auth::{Caller, Verb},
};
use axum::{
    Extension,
    extract::State,
    http::{HeaderMap, StatusCode},
    response::Response,
};
use serde_json::{Map, Value};
use workflows::policy::Request;

pub(super) fn routes() -> Vec<Route> {
    vec![Route::post("/v1/events", Access::Tenant(Verb::Onboard), take)]
}

/// The type of events that ask for a tenant.
const TENANT_CREATE: &str = "tenant.create.requested";

/// An event's attributes and its data.
struct Happened {
    id: String,
    source: String,
    kind: String,
    data: Data,
}

enum Data {
    /// Inside the envelope.
    Value(Value),
    /// A document of its own.
    Document { text: String, is_json: bool },
}

async fn take(
    State(app): State<Shared>,
    Extension(caller): Extension<Caller>,
    headers: HeaderMap,
    body: Text,
) -> Result<Response, Problem> {
    let event = match media(&headers).as_str() {
        "application/cloudevents+json" => structured(&body.text)?,
        "application/cloudevents-batch+json" => {
            return Err(Problem::new(Code::MediaType, "batches are not taken; send one event at a time"));
        }
        // Some senders forget to name the media type of an envelope.
        "application/json" if !headers.contains_key("ce-id") => structured(&body.text)?,
        _ => binary(&headers, body)?,
    };
    if event.kind != TENANT_CREATE {
        let detail = format!("events of type {:?} start nothing; {TENANT_CREATE} does", event.kind);
        return Err(Problem::new(Code::EventUnknown, detail));
    }
    let request = match &event.data {
        Data::Value(value) => read_value(value, "/data")?,
        Data::Document { text, is_json } => read_request(text, *is_json)?,
    };
    // Kept apart by tenant, so that no tenant can use up the key of another.
    let bound = caller.tenant.as_deref().unwrap_or_default();
    let key = format!("event/{bound}/{}/{}", event.source, event.id);
    let print = fingerprint(&[&event.kind, &canonical(&request)], &[]);
    let mut answer = start(&app, &caller, request, Some((key, print))).await?;
    if answer.headers().contains_key("idempotency-replayed") {
        // Nothing was begun: the execution is as it stands.
        *answer.status_mut() = StatusCode::OK;
    }
    Ok(answer)
}

/// What is asked for, whatever the form in which it was written.
fn canonical(request: &Request) -> String {
    let plain = Request { lines: std::collections::BTreeMap::new(), ..request.clone() };
    serde_json::to_string(&plain).unwrap_or_default()
}

fn structured(text: &str) -> Result<Happened, Problem> {
    let mut fields: Map<String, Value> = json(text)?;
    let data = fields.remove("data").unwrap_or(Value::Null);
    let content = fields.get("datacontenttype").and_then(Value::as_str).unwrap_or("application/json");
    let content = content.split(';').next().unwrap_or_default().trim().to_ascii_lowercase();
    let data = match data {
        Value::String(text) if is_yaml(&content) => Data::Document { text, is_json: false },
        other => Data::Value(other),
    };
    let attribute = |name: &str| fields.get(name).and_then(Value::as_str).map(ToOwned::to_owned);
    happened(attribute, data, "/")
}

fn binary(headers: &HeaderMap, body: Text) -> Result<Happened, Problem> {
    if !body.is_json() && !body.is_yaml() {
        let detail = format!("{:?} is not taken; send the data as JSON or YAML", body.media);
        return Err(Problem::new(Code::MediaType, detail));
    }
    let attribute = |name: &str| {
        let value = headers.get(format!("ce-{name}"))?;
        Some(value.to_str().ok()?.trim().to_owned())
    };
    let is_json = body.is_json();
    happened(attribute, Data::Document { text: body.text, is_json }, "ce-")
}

fn happened(
    attribute: impl Fn(&str) -> Option<String>,
    data: Data,
    prefix: &str,
) -> Result<Happened, Problem> {
    let mut faults = Vec::new();
    let mut must = |name: &str| {
        let text = attribute(name).unwrap_or_default();
        if text.is_empty() || text.len() > 256 {
            let message = format!("a CloudEvent needs `{name}`: 1 to 256 characters of text");
            faults.push(Fault { pointer: format!("{prefix}{name}"), message, line: None, column: None });
        }
        text
    };
    let (id, source, kind, version) = (must("id"), must("source"), must("type"), must("specversion"));
    if faults.is_empty() && version != "1.0" {
        let message = format!("specversion {version:?} is not taken; 1.0 is");
        faults.push(Fault { pointer: format!("{prefix}specversion"), message, line: None, column: None });
    }
    if let Some(first) = faults.first() {
        let detail = format!("the event is not a CloudEvent 1.0: {}", first.message);
        return Err(Problem::new(Code::Malformed, detail).at(faults));
    }
    Ok(Happened { id, source, kind, data })
}
