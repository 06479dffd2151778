//! `POST /v1/events`: CloudEvents 1.0 over HTTP, structured, binary or batched. `source` and `id` are the key: a repeated event returns the execution that the
//! first one started.

mod cloudevent;

use crate::{
    auth::{Caller, Verb},
    http::{
        extract::{TextBody, media, parse_json, understood},
        middleware::{
            guard::require,
            idempotency::{StartKey, fingerprint},
        },
        problem::{Problem, code::ProblemCode, denial::DenialReason},
        resources::{
            events::cloudevent::{EventData, IncomingEvent, binary, envelope, structured},
            incidents::IncidentReport,
            offboardings::OffboardingRequest,
            tenant_changes::QuotaChangeRequest,
            tenants::{read_request, read_value, start},
            workflow_start::{Parameters, StartRequest as _, begin, document, own},
            workloads::{NewWorkload, ask, end},
        },
        route::{Access, Route},
        route_doc::{BEGUN, DOCUMENT, doc, inline_schema},
    },
    state::{ServerState, SharedState},
    types,
};
use axum::{
    Extension, Json,
    extract::State,
    http::{HeaderMap, StatusCode},
    response::{IntoResponse as _, Response},
};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use serde_json::{Map, Value};
use store::CompositeKey;
use strum::VariantArray as _;
use workflows::{policy::OnboardingRequest, tenancy::TenantId};

pub(in crate::http) fn routes() -> Vec<Route> {
    vec![Route::post(
        "/v1/events",
        Access::Tenant(Verb::SendEvents),
        take,
        doc(
            "sendEvent",
            "Accepts one or several CloudEvents 1.0, structured or binary; 200 for a repeated event.",
        )
        .reads(
            &["application/cloudevents+json"],
            Some(inline_schema::<types::stored_documents::CloudEvent>()),
        )
        .reads(&[BATCH], Some(inline_schema::<Vec<types::stored_documents::CloudEvent>>()))
        .reads(DOCUMENT, None)
        .says::<EventTaken>(200)
        .says::<EventTaken>(202)
        .located()
        .tagged()
        .may(BEGUN)
        .may(&[
            ProblemCode::EventUnknown,
            ProblemCode::MediaType,
            ProblemCode::WorkloadRejected,
            ProblemCode::WorkloadDiffers,
            ProblemCode::LineFull,
        ]),
    )]
}

/// The answer to an event: the started execution, or the immediate result.
#[derive(JsonSchema)]
#[serde(untagged)]
#[expect(dead_code, reason = "describes the answers of other routes")]
enum EventTaken {
    Begun(Box<types::executions::Execution>),
    Asked(Box<types::workspaces::Submitted>),
    Ended(Box<types::workspaces::Finished>),
    Several(Several),
}

/// The results of several events, in their order.
#[derive(Debug, Serialize, JsonSchema)]
struct Several {
    items: Vec<Each>,
}

/// The result of one of several events.
#[derive(Debug, Serialize, JsonSchema)]
struct Each {
    /// The source of the event.
    source: String,
    /// The id of the event.
    id: String,
    /// The HTTP status of a single request with this event.
    status: u16,
    /// The body of the answer to that request.
    body: Value,
}

/// The media type of a batch of events.
const BATCH: &str = "application/cloudevents-batch+json";
/// The maximum number of events in a batch.
const MOST: usize = 100;
/// The maximum size of the answer to an event, in bytes.
const MOST_ANSWER: usize = 1 << 20;

/// The request that an event of each type makes.
#[derive(Clone, Copy, Debug, strum::EnumString, strum::IntoStaticStr, strum::VariantArray)]
enum EventKind {
    #[strum(serialize = "tenant.create.requested")]
    TenantCreate,
    #[strum(serialize = "tenant.offboard.requested")]
    TenantOffboard,
    #[strum(serialize = "quota.change.requested")]
    QuotaChange,
    #[strum(serialize = "workload.requested")]
    WorkloadRequested,
    #[strum(serialize = "workload.finished")]
    WorkloadFinished,
    #[strum(serialize = "incident.reported")]
    Incident,
}

async fn take(
    State(app): State<SharedState>,
    Extension(caller): Extension<Caller>,
    headers: HeaderMap,
    body: TextBody,
) -> Result<Response, Problem> {
    let event = match media(&headers).as_str() {
        "application/cloudevents+json" => {
            understood(&app, &caller, body, |body| structured(&body.text)).await?
        }
        BATCH => return several(&app, &caller, body).await,
        // Some senders omit the media type of the envelope.
        "application/json" if !headers.contains_key("ce-id") => {
            understood(&app, &caller, body, |body| structured(&body.text)).await?
        }
        _ => binary(&headers, body)?,
    };
    one(&app, &caller, event).await
}

/// Handles the events one after the other, as if each had come in its own request. A faulty event does not affect the others.
async fn several(app: &SharedState, caller: &Caller, body: TextBody) -> Result<Response, Problem> {
    let events: Vec<Map<String, Value>> =
        understood(app, caller, body, |body| parse_json(&body.text)).await?;
    if events.is_empty() || events.len() > MOST {
        let detail = format!("{} events: send 1 to {MOST} in one request", events.len());
        return Err(Problem::new(ProblemCode::Malformed, detail));
    }
    let read = (0..).zip(events).map(|(place, fields): (usize, _)| envelope(fields, &format!("/{place}/")));
    let events = read.collect::<Result<Vec<_>, _>>()?;
    let (mut items, mut refused, mut again) = (Vec::with_capacity(events.len()), None, None);
    for event in events {
        let (source, id) = (event.source.clone(), event.id.clone());
        let answer = one(app, caller, event).await.unwrap_or_else(|problem| problem.into_response());
        let status = answer.status().as_u16();
        refused = refused.or_else(|| answer.extensions().get::<DenialReason>().cloned());
        again = again
            .or_else(|| answer.extensions().get::<ProblemCode>().copied().filter(|code| !code.is_final()));
        let unread = |_| Problem::new(ProblemCode::Internal, "an answer could not be read");
        let body = axum::body::to_bytes(answer.into_body(), MOST_ANSWER).await.map_err(unread)?;
        items.push(Each { source, id, status, body: serde_json::from_slice(&body).unwrap_or_default() });
    }
    let mut answer = Json(Several { items }).into_response();
    // The status 200 of the batch hides the refusal from the audit layer, so it is recorded here.
    if let Some(refused) = refused {
        answer.extensions_mut().insert(refused);
    }
    // The batch also hides that an event must be retried. Accepted events are not repeated by a retry.
    if let Some(again) = again {
        answer.extensions_mut().insert(again);
    }
    Ok(answer)
}

async fn one(app: &SharedState, caller: &Caller, event: IncomingEvent) -> Result<Response, Problem> {
    let kind = event.kind.parse::<EventKind>().map_err(|_| {
        let known: Vec<&str> = EventKind::VARIANTS.iter().map(|kind| (*kind).into()).collect();
        let detail =
            format!("events of type {:?} start nothing; supported types: {}", event.kind, known.join(", "));
        Problem::new(ProblemCode::EventUnknown, detail)
    })?;
    kind.allowed(caller)?;
    let once = |asked: &str| {
        // Keys are separate per tenant, so a tenant cannot block keys of another.
        let bound = caller.tenant.as_deref().unwrap_or_default();
        let (key, earlier) = event_key(bound, &event.source, &event.id);
        Some(StartKey { key, fingerprint: fingerprint(&[&event.kind, asked], &[]), earlier })
    };
    let text = event.data.text();
    let none = Parameters::new();
    let mut answer = match kind {
        EventKind::TenantCreate => {
            let request = match &event.data {
                EventData::Value(value) => read_value(value, "/data")?,
                EventData::Document { text, is_json } => read_request(text, *is_json)?,
            };
            let once = once(&canonical(&request));
            start(app, caller, request, once, &[]).await?
        }
        EventKind::TenantOffboard => {
            begin(app, caller, OffboardingRequest::read(&text, &none)?, once(&event.data.plain()?), &[])
                .await?
        }
        EventKind::QuotaChange => {
            begin(app, caller, QuotaChangeRequest::read(&text, &none)?, once(&event.data.plain()?), &[])
                .await?
        }
        EventKind::Incident => {
            begin(app, caller, IncidentReport::read(&text, &none)?, once(&event.data.plain()?), &[]).await?
        }
        // Repeated events of this type always get the same answer.
        EventKind::WorkloadRequested => {
            return ask(app, caller, &document::<NewWorkload>(&text)?.checked()?).await;
        }
        EventKind::WorkloadFinished => return ended(app, caller, document(&text)?).await,
    };
    if answer.headers().contains_key("idempotency-replayed") {
        // The event started nothing new; the answer shows the existing execution.
        *answer.status_mut() = StatusCode::OK;
    }
    Ok(answer)
}

/// Returns the key of an event, which CloudEvents identify by source and id, and the key that earlier versions stored.
fn event_key(bound: &str, source: &str, id: &str) -> (String, Option<String>) {
    let parts: [&dyn std::fmt::Display; 4] = [&"event", &bound, &source, &id];
    (CompositeKey::of(&parts).into(), CompositeKey::unescaped(&parts))
}

/// An event about a finished workload.
#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
struct WorkloadEnded {
    tenant: TenantId,
    name: String,
}

async fn ended(app: &ServerState, caller: &Caller, ended: WorkloadEnded) -> Result<Response, Problem> {
    own(caller, ended.tenant.as_str())?;
    Ok(Json(end(app, caller, &ended.tenant, &ended.name).await?).into_response())
}

impl EventKind {
    /// Rejects an event if the caller may not use the route for the same request.
    fn allowed(self, caller: &Caller) -> Result<(), Problem> {
        let verb = match self {
            Self::TenantCreate => Verb::Onboard,
            Self::TenantOffboard => Verb::Offboard,
            Self::QuotaChange => Verb::ChangeQuota,
            Self::WorkloadRequested | Self::WorkloadFinished => Verb::Submit,
            Self::Incident => Verb::ReportIncident,
        };
        require(caller, verb, caller.place(), &format!("send events of type {}", <&str>::from(self)))
    }
}

/// Returns the request in a canonical form.
fn canonical(request: &OnboardingRequest) -> String {
    let plain = OnboardingRequest { lines: std::collections::BTreeMap::new(), ..request.clone() };
    serde_json::to_string(&plain).unwrap_or_default()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn two_events_of_different_sources_or_ids_never_share_a_key() {
        let (a, earlier_a) = event_key("", "/detectors/dc1/rack", "8");
        let (b, earlier_b) = event_key("", "/detectors/dc1", "rack/8");
        assert_ne!(a, b);
        // Earlier versions stored both under this key.
        assert_eq!(earlier_a.as_deref(), Some("event///detectors/dc1/rack/8"));
        assert_eq!(earlier_a, earlier_b);
        assert_eq!(event_key("acme", "ci", "1").1, None, "the stored key is unchanged");
    }

    #[test]
    fn every_event_type_is_documented() {
        let page = include_str!("../../../../docs/http-api.md");
        for kind in EventKind::VARIANTS {
            let name: &str = (*kind).into();
            assert!(page.contains(&format!("| `{name}` |")), "docs/http-api.md lacks the event type {name}");
        }
    }
}
