//! Streams of server-sent events: `GET /v1/watch`, `/v1/approvals/events` and `/v1/executions/{id}/events`.
//!
//! All streams share one reader of changes ([`change_feed`](crate::state::change_feed)). The rules of the lists decide which changes a caller may see
//! ([`subject`]). Every event has its position in the global order, so a disconnected client continues after it ([`watcher`]). Described in `docs/http-api.md`.

mod replay;
mod subject;
mod watcher;

use crate::{
    auth::{Caller, Verb},
    http::{
        credentials::bearer,
        extract::{QueryParams, page::ListPage},
        problem::{Problem, code::ProblemCode},
        resources::{approvals, executions::resolve, search},
        route::{Access, Route},
        route_doc::{NAMED, doc},
    },
    state::{
        SharedState,
        change_feed::{position::Position, quota::WatcherIdentity},
    },
    types::{
        self,
        streams::{Case, Changed, Forgotten, Reset},
    },
};
use axum::{
    Extension,
    extract::{Path, State},
    http::{HeaderMap, HeaderName, HeaderValue, StatusCode, header},
    response::{IntoResponse as _, Response, Sse},
};
use std::sync::atomic::Ordering;
use subject::Subject;
use watcher::Watcher;

pub(in crate::http) fn routes() -> Vec<Route> {
    let (read, approvals) = (Access::Tenant(Verb::ReadExecutions), Access::Tenant(Verb::ReadApprovals));
    vec![
        Route::get(
            "/v1/watch",
            read,
            all,
            doc("watchExecutions", "Streams changes of the executions that match a search.")
                .streams()
                .tells::<search::FoundPage<types::executions::Row>>("present")
                .tells::<Changed>("changed")
                .tells::<Changed>("left")
                .tells::<Forgotten>("forgotten")
                .tells::<Reset>("reset")
                .may(&[ProblemCode::FilterMisread, ProblemCode::NotFound]),
        ),
        Route::get(
            "/v1/executions/{id}/events",
            read,
            one,
            doc("watchExecution", "Streams changes of an execution; 204 after the last one.")
                .streams()
                .tells::<Changed>("changed")
                .tells::<Forgotten>("forgotten")
                .tells::<Reset>("reset")
                .tells::<()>("present")
                .nothing()
                .may(NAMED),
        ),
        Route::get(
            "/v1/approvals/events",
            approvals,
            asked,
            doc("watchApprovals", "Streams approvals that concern the caller, or all.")
                .streams()
                .tells::<ListPage<types::approvals::Approval>>("present")
                .tells::<Case>("opened")
                .tells::<Case>("changed")
                .tells::<Case>("decided")
                .tells::<Case>("closed")
                .tells::<Reset>("reset"),
        ),
    ]
}

async fn one(
    State(app): State<SharedState>,
    Extension(caller): Extension<Caller>,
    Path(id): Path<String>,
    headers: HeaderMap,
) -> Result<Response, Problem> {
    let record = resolve(&app, &caller, &id).await?;
    let after = last(&headers)?;
    if let Some(after) = after.filter(|_| !record.open) {
        let rest = app.engine.store().journal(record.id, Some(after.after()), 1).await?;
        if rest.items.is_empty() {
            // The execution has ended and all was sent: after 204, a browser does not reconnect.
            return Ok(StatusCode::NO_CONTENT.into_response());
        }
    }
    open(app, caller, &headers, Subject::one(&record), after).await
}

async fn all(
    State(app): State<SharedState>,
    Extension(caller): Extension<Caller>,
    QueryParams(wanted): QueryParams<search::SearchParams>,
    headers: HeaderMap,
) -> Result<Response, Problem> {
    let after = last(&headers)?;
    let subject = Subject::found(&app, &caller, wanted)?;
    open(app, caller, &headers, subject, after).await
}

async fn asked(
    State(app): State<SharedState>,
    Extension(caller): Extension<Caller>,
    QueryParams(wanted): QueryParams<approvals::WatchParams>,
    headers: HeaderMap,
) -> Result<Response, Problem> {
    let after = last(&headers)?;
    wanted.begins()?;
    open(app, caller, &headers, Subject::Approvals(wanted), after).await
}

/// Parses the event after which the caller continues.
fn last(headers: &HeaderMap) -> Result<Option<Position>, Problem> {
    let Some(said) = headers.get("last-event-id") else { return Ok(None) };
    let text = said.to_str().unwrap_or_default().trim();
    if text.is_empty() {
        return Ok(None);
    }
    let wrong = |_| {
        let detail = "Last-Event-ID: use the unchanged `id` of an event, or omit the header to start from the beginning";
        Problem::new(ProblemCode::QueryInvalid, detail)
    };
    text.parse().map(Some).map_err(wrong)
}

async fn open(
    app: SharedState,
    caller: Caller,
    headers: &HeaderMap,
    subject: Subject,
    after: Option<Position>,
) -> Result<Response, Problem> {
    let stopping = || Problem::new(ProblemCode::Stopping, "the server is stopping, or cannot read changes");
    if app.stopping.load(Ordering::Acquire) {
        return Err(stopping());
    }
    let header = headers.get(header::AUTHORIZATION).and_then(|value| value.to_str().ok());
    let token = header.and_then(bearer).ok_or_else(|| {
        Problem::new(
            ProblemCode::NoToken,
            "a stream lasts as long as its token, and the request has no token",
        )
    })?;
    let standing = WatcherIdentity::of(&**app.engine.store(), caller).await?;
    let taken = app.feed.places.take(&token.id, standing.clone());
    let place = taken.map_err(|why| Problem::new(ProblemCode::TooManyStreams, why))?;
    let listener = app.feed.listen(subject.topic()).await.ok_or_else(stopping)?;
    let watcher = Watcher::new(app, (standing, place), listener, subject, after);
    let events = Sse::new(watcher.events());
    // Disables buffering in proxies, which would delay events.
    let unbuffered = (HeaderName::from_static("x-accel-buffering"), HeaderValue::from_static("no"));
    Ok(([unbuffered], events).into_response())
}
