//! `/v1/limits`: the limits of keys, their holders and waiters, and closed keys.

use crate::{
    auth::{Caller, Verb},
    http::{
        extract::{
            JsonBody, QueryParams,
            if_match::{IfMatch, tagged},
            page::{ListPage, Paging, document, scope::get_visible},
        },
        problem::{Problem, code::ProblemCode},
        route::{Access, Route},
        route_doc::doc,
    },
    state::{ServerState, SharedState},
    types::{
        operations::{self as shown, Key, Opened},
        problems::Fault,
    },
};
use axum::{
    Extension, Json,
    extract::{Path, State},
    http::StatusCode,
    response::Response,
};
use engine::{
    BreakerRule, BreakerState, KeyClosure, KeyStatus, Limit, LimitError, Limiter, Permit, Rate, View,
};
use program::encoding::{hex, rfc3339::format_time};
use schemars::JsonSchema;
use serde::Deserialize;
use serde_json::json;
use sha2::{Digest as _, Sha256};
use std::{future::Future, time::Duration};
use store::Timestamp;
use workflows::{
    policy::duration,
    tenancy::{Cluster, Tenant},
};

pub(in crate::http) fn routes() -> Vec<Route> {
    let (read, manage) = (Access::Staff(Verb::ReadLimits), Access::Staff(Verb::ManageLimits));
    vec![
        Route::get(
            "/v1/limits",
            read,
            list,
            doc("listLimits", "Lists all limits, and all keys with holders or waiters.").lists::<Key>(),
        ),
        Route::get(
            "/v1/limits/{key}",
            read,
            show,
            doc("showLimit", "Shows a key with its limit, holders and waiters.").says::<Key>(200).tagged(),
        ),
        Route::post(
            "/v1/limits",
            manage,
            set,
            doc("setLimit", "Sets the limit of a key.")
                .says::<Key>(200)
                .tagged()
                .bound(ProblemCode::StaleTag),
        ),
        Route::delete(
            "/v1/limits/{key}",
            manage,
            remove,
            doc("removeLimit", "Removes the limit of a key.").nothing().bound(ProblemCode::StaleTag),
        ),
        Route::post(
            "/v1/limits/{key}:close",
            manage,
            close,
            doc("closeKey", "Closes a key: new attempts wait.")
                .says::<Key>(200)
                .tagged()
                .bound(ProblemCode::StaleTag)
                .may(&[ProblemCode::ReasonMissing]),
        ),
        Route::post(
            "/v1/limits/{key}:open",
            manage,
            open,
            doc("openKey", "Opens a closed key, and resets its circuit breaker.")
                .says::<Opened>(200)
                .bound(ProblemCode::StaleTag)
                .may(&[ProblemCode::Already]),
        ),
    ]
}

fn place(place: &Permit) -> shown::Place {
    shown::Place {
        execution: place.task.execution.to_string(),
        slot: place.task.slot,
        since: format_time(place.since),
        until: format_time(place.until),
        pending: place.pending,
    }
}

/// Returns the state of a key in one word, and the end of that state.
fn state(row: &KeyStatus, now: Timestamp) -> (&'static str, Option<Timestamp>) {
    if let Some(closed) = &row.closed {
        return ("closed", closed.until);
    }
    let concurrency = row.limit.as_ref().and_then(|limit| limit.concurrency);
    match row.breaker.state {
        BreakerState::Tripped { until } if until > now => ("left alone", Some(until)),
        BreakerState::Tripped { .. } | BreakerState::Trying { .. } => ("tried once", None),
        BreakerState::Sound if concurrency.is_some_and(|of| row.permits.len() >= of as usize) => {
            ("full", None)
        }
        BreakerState::Sound => ("open", None),
    }
}

fn seen(row: &KeyStatus, now: Timestamp) -> Key {
    let (state, until) = state(row, now);
    let limit = row.limit.as_ref();
    let rate = limit.and_then(|limit| limit.rate);
    let rule = limit.and_then(|limit| limit.breaker);
    Key {
        key: row.key.clone(),
        limit: limit.map(|limit| limit.key.clone()),
        concurrency: limit.and_then(|limit| limit.concurrency),
        rate: rate.map(|rate| format!("{}/{}", rate.times, duration::show(rate.per))),
        burst: rate.map(|rate| rate.burst),
        breaker: rule.map(|rule| shown::Breaker {
            after: rule.after,
            span: duration::show(rule.span),
            cap: duration::show(rule.cap),
        }),
        set_by: limit.map(|limit| limit.set_by.clone()),
        set_at: limit.map(|limit| format_time(limit.set_at)),
        in_use: row.permits.len(),
        places: row.permits.iter().map(place).collect(),
        queued: row.queued,
        oldest: row.oldest.map(format_time),
        state,
        until: until.map(format_time),
        closed: row
            .closed
            .as_ref()
            .map(|closed| shown::Closed { by: closed.by.clone(), why: closed.why.clone() }),
        failures: row.breaker.failures,
        warning: None,
    }
}

async fn list(
    State(app): State<SharedState>,
    QueryParams(paging): QueryParams<Paging>,
) -> Result<Json<ListPage<Key>>, Problem> {
    let page = paging.page()?;
    let now = app.engine.clock().now();
    let rows = ListPage::part(app.engine.limit_statuses().await?, &page, |row| row.key.clone());
    Ok(Json(rows.each(|row| seen(&row, now))))
}

async fn show(State(app): State<SharedState>, Path(key): Path<String>) -> Result<Response, Problem> {
    let (tag, key) = stands(&app, &key).await?;
    Ok(tagged(tag, key))
}

/// Returns the state of a key and its tag.
async fn stands(app: &ServerState, key: &str) -> Result<(String, Key), Problem> {
    let now = app.engine.clock().now();
    let row = app.engine.limit_status(key).await?.ok_or_else(|| Problem::not_found("limit", key))?;
    let own = row.limit.as_ref().filter(|limit| limit.key == row.key);
    Ok((tag_of(own, row.closed.as_ref()), seen(&row, now)))
}

/// Returns the tag of an operator's settings for a key: its own limit and its closure. Holders do not change the tag.
fn tag_of(own: Option<&Limit>, closed: Option<&KeyClosure>) -> String {
    let digest = hex::encode(&Sha256::digest(json!([own, closed]).to_string()));
    format!("\"{}\"", digest.get(..32).unwrap_or(&digest))
}

/// Runs `work`, which changes an operator's settings for a key, if the tag matches.
async fn bind<F: Future>(bound: IfMatch, key: &str, work: F) -> F::Output {
    let name = key.to_owned();
    let stands = move |view: &mut View| {
        let own = view.get::<Limit>(&name)?;
        let now = view.now();
        let closed = view.get::<Limiter>(&name)?.and_then(|gate| gate.closed);
        let closed = closed.filter(|closed| closed.until.is_none_or(|until| until > now));
        Ok(Some(tag_of(own.as_ref(), closed.as_ref())))
    };
    bound.bind_to("request.stale_tag", "the key", stands, work).await
}

/// A new limit. Absent fields are not limited.
#[derive(Debug, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
struct NewLimit {
    key: String,
    concurrency: Option<u32>,
    rate: Option<String>,
    burst: Option<u32>,
    breaker: Option<NewBreaker>,
}

#[derive(Debug, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
struct NewBreaker {
    after: Option<u32>,
    span: Option<String>,
    cap: Option<String>,
}

fn wrong(field: &str, why: impl Into<String>) -> Problem {
    let why = why.into();
    let fault = Fault { pointer: format!("/{field}"), message: why.clone(), line: None, column: None };
    Problem::new(ProblemCode::DocumentInvalid, format!("{field}: {why}")).at(vec![fault])
}

fn refused(error: LimitError) -> Problem {
    wrong(error.field, error.why)
}

fn span(field: &str, text: &str) -> Result<Duration, Problem> {
    let why = || format!("{text:?} is not a duration: write it like `30s` or `1h30m`");
    duration::parse(text).ok_or_else(|| wrong(field, why()))
}

/// Parses `10/1m`: ten per minute.
fn rate(text: &str, burst: Option<u32>) -> Result<Rate, Problem> {
    let why = || wrong("rate", format!("{text:?} is not a rate: write it like `10/1m`, ten per minute"));
    let (times, per) = text.split_once('/').ok_or_else(why)?;
    let times = times.trim().parse().map_err(|_| why())?;
    let per = duration::parse(per.trim()).ok_or_else(why)?;
    Ok(Rate { times, per, burst: burst.unwrap_or(1) })
}

impl NewBreaker {
    fn rule(self) -> Result<BreakerRule, Problem> {
        let usual = BreakerRule::default();
        Ok(BreakerRule {
            after: self.after.unwrap_or(usual.after),
            span: self.span.map_or(Ok(usual.span), |text| span("breaker/span", &text))?,
            cap: self.cap.map_or(Ok(usual.cap), |text| span("breaker/cap", &text))?,
        })
    }
}

async fn set(
    State(app): State<SharedState>,
    Extension(caller): Extension<Caller>,
    bound: IfMatch,
    JsonBody(new): JsonBody<NewLimit>,
) -> Result<Response, Problem> {
    if new.burst.is_some() && new.rate.is_none() {
        return Err(wrong("burst", "requires a rate"));
    }
    let limit = Limit {
        concurrency: new.concurrency,
        rate: new.rate.map(|text| rate(&text, new.burst)).transpose()?,
        breaker: new.breaker.map(NewBreaker::rule).transpose()?,
        set_by: caller.name.clone(),
        ..Limit::for_key(new.key)
    };
    let key = limit.key.clone();
    let limit = bind(bound, &key, app.engine.set_limit(limit)).await?.map_err(refused)?;
    tracing::info!(key = limit.key, by = caller.name, "limit set");
    show(State(app), Path(limit.key)).await
}

async fn remove(
    State(app): State<SharedState>,
    Extension(caller): Extension<Caller>,
    Path(key): Path<String>,
    bound: IfMatch,
) -> Result<StatusCode, Problem> {
    if bind(bound, &key, app.engine.remove_limit(&key)).await? {
        tracing::info!(key, by = caller.name, "limit removed");
        return Ok(StatusCode::NO_CONTENT);
    }
    Err(Problem::not_found("limit", &key))
}

#[derive(Debug, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
#[schemars(rename = "Closing")]
struct CloseBody {
    #[serde(default)]
    reason: String,
    r#for: Option<String>,
}

async fn close(
    State(app): State<SharedState>,
    Extension(caller): Extension<Caller>,
    Path(key): Path<String>,
    bound: IfMatch,
    JsonBody(closing): JsonBody<CloseBody>,
) -> Result<Response, Problem> {
    if closing.reason.trim().is_empty() {
        return Err(Problem::new(
            ProblemCode::ReasonMissing,
            "give a reason: it is shown for waiting attempts",
        ));
    }
    let now = app.engine.clock().now();
    let until = closing.r#for.map(|text| span("for", &text)).transpose()?.map(|span| now.after(span));
    let closed = KeyClosure { until, why: closing.reason, by: caller.name.clone() };
    bind(bound, &key, app.engine.close_key(&key, closed)).await?.map_err(refused)?;
    tracing::warn!(key, by = caller.name, "key closed");
    let warning = unknown(&app, &caller, &key).await?;
    let (tag, closed) = stands(&app, &key).await?;
    Ok(tagged(tag, Key { warning, ..closed }))
}

/// Returns a warning if the key names an unknown object. The key is closed anyway, because the object may be created later.
async fn unknown(app: &ServerState, caller: &Caller, key: &str) -> Result<Option<String>, Problem> {
    let Some((kind, name)) = key.split_once('/') else { return Ok(None) };
    let known = match kind {
        "cluster" => document::<Cluster>(app, name).await?.is_some(),
        "tenant" => get_visible::<Tenant>(app, caller, name).await?.is_some(),
        "action" => {
            let drawn = app.engine.diagrams();
            let states = drawn.iter().flat_map(|drawn| &drawn.states);
            states.flat_map(|state| state.actions.iter().chain(&state.undos)).any(|known| known == name)
        }
        _ => true,
    };
    let list = if kind == "action" { "workflow diagram WORKFLOW".into() } else { format!("{kind}s list") };
    let warning = || format!("there is no {kind} {name}, so nothing is held back: see `tenure {list}`");
    Ok((!known).then(warning))
}

async fn open(
    State(app): State<SharedState>,
    Extension(caller): Extension<Caller>,
    Path(key): Path<String>,
    bound: IfMatch,
) -> Result<Json<Opened>, Problem> {
    if !bind(bound, &key, app.engine.open_key(&key)).await? {
        let detail = format!("{key} is not closed and has no failures to reset");
        return Err(Problem::new(ProblemCode::Already, detail));
    }
    tracing::info!(key, by = caller.name, "key opened");
    Ok(Json(Opened { key, state: "open" }))
}
