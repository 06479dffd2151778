//! Streams of events: `GET /v1/watch`, `/v1/approvals/events` and `/v1/executions/{id}/events`, as server-sent events.
//!
//! What is told is read once for all who watch ([`change_feed`](crate::state::change_feed)); what each may hear of it is decided where the lists decide
//! it ([`subject`]). Every event names its place in the history of all, so that whoever was cut off goes on behind it
//! ([`watcher`]). Described in `docs/http-api.md`.

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
            doc("watchExecutions", "A stream of what happens to the executions that are found.")
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
            doc("watchExecution", "A stream of what happens to an execution; 204 when there is no more.")
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
            doc("watchApprovals", "A stream of the approvals that concern the caller, or of all.")
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
            // All was told, and nothing will be: a browser that is answered so does not ask again.
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

/// The event after which the caller goes on.
fn last(headers: &HeaderMap) -> Result<Option<Position>, Problem> {
    let Some(said) = headers.get("last-event-id") else { return Ok(None) };
    let text = said.to_str().unwrap_or_default().trim();
    if text.is_empty() {
        return Ok(None);
    }
    let wrong = |_| {
        let detail = "Last-Event-ID: use the `id` of an event as it is, or leave it out to begin anew";
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
    let stopping =
        || Problem::new(ProblemCode::Stopping, "the server is stopping, or cannot read what happens");
    if app.stopping.load(Ordering::Acquire) {
        return Err(stopping());
    }
    let header = headers.get(header::AUTHORIZATION).and_then(|value| value.to_str().ok());
    let token = header.and_then(bearer).ok_or_else(|| {
        Problem::new(
            ProblemCode::NoToken,
            "a stream lasts as long as a token does, and the request carries none",
        )
    })?;
    let standing = WatcherIdentity::of(&**app.engine.store(), caller).await?;
    let taken = app.feed.places.take(&token.id, standing.clone());
    let place = taken.map_err(|why| Problem::new(ProblemCode::TooManyStreams, why))?;
    let listener = app.feed.listen(subject.topic()).await.ok_or_else(stopping)?;
    let watcher = Watcher::new(app, (standing, place), listener, subject, after);
    let events = Sse::new(watcher.events());
    // Proxies that gather answers would keep events back.
    let unbuffered = (HeaderName::from_static("x-accel-buffering"), HeaderValue::from_static("no"));
    Ok(([unbuffered], events).into_response())
}
