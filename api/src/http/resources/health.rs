//! `/livez`, `/readyz`, `/version`: health of the server.

use crate::{
    auth::{Verb, policy::RequestContext},
    http::{
        extract::QueryParams,
        middleware::loopback,
        problem::{Problem, code::ProblemCode},
        route::{Access, Route},
        route_doc::doc,
    },
    state::{ServerState, SharedState, connections::PeerAddress},
    types::operations::{Check, Readiness, Version},
};
use axum::{
    Json,
    extract::{ConnectInfo, State},
    http::{HeaderMap, StatusCode},
    response::{IntoResponse, Response},
};
use program::encoding::rfc3339::format_time;
use schemars::JsonSchema;
use serde::Deserialize;
use serde_json::{Value, json};
use std::{sync::atomic::Ordering, time::Duration};
use workflows::tenancy::Cluster;

pub(in crate::http) fn routes() -> Vec<Route> {
    vec![
        Route::get(
            "/livez",
            Access::Open,
            alive,
            doc("live", "Checks if the process answers.").file(200, "text/plain"),
        ),
        Route::get(
            "/readyz",
            Access::Open,
            ready,
            doc(
                "ready",
                "Checks if the server works. With `verbose`, lists all checks for callers who may read metrics.",
            )
                .file(200, "text/plain")
                .says::<Readiness>(200)
                .file(503, "text/plain")
                .says::<Readiness>(503)
                .may(&[ProblemCode::NoToken, ProblemCode::BadToken, ProblemCode::Forbidden, ProblemCode::ForeignTenant, ProblemCode::Unreadable])
                .may(&[ProblemCode::StoreUnavailable]),
        ),
        Route::get(
            "/version",
            Access::Open,
            version,
            doc("version", "Shows the version of the program.").says::<Version>(200),
        ),
    ]
}

async fn alive() -> &'static str {
    "ok\n"
}

async fn version() -> Json<Version> {
    Json(Version { name: "tenure", version: env!("CARGO_PKG_VERSION") })
}

#[derive(Debug, Deserialize, JsonSchema)]
#[schemars(rename = "Detail")]
struct ReadyParams {
    verbose: Option<String>,
}

/// The timeout of the store check.
const PATIENCE: Duration = Duration::from_secs(2);

/// Remote callers without permission see only the names of failed checks. The details contain names of clusters, folders and addresses.
async fn ready(
    State(app): State<SharedState>,
    ConnectInfo(PeerAddress(from)): ConnectInfo<PeerAddress>,
    headers: HeaderMap,
    QueryParams(detail): QueryParams<ReadyParams>,
) -> Result<Response, Problem> {
    let (from, at) = (Some(from.ip().to_canonical()), app.engine.clock().now());
    let told = loopback::require_detail_access(
        &app,
        Verb::ReadMetrics,
        &headers,
        RequestContext { from, at, plans: false },
    );
    let sees = if detail.verbose.is_some() {
        told.await.map(|()| true)?
    } else {
        loopback::is_loopback(from, &headers)
    };
    let store = tokio::time::timeout(PATIENCE, store_check(&app)).await.unwrap_or_else(|_| unheard());
    // The backends of clusters are listed in the store.
    let platform = if store.ok { Some(platform_check(&app).await?) } else { None };
    let checks: Vec<Check> = [engine_check(&app), store].into_iter().chain(platform).collect();
    let fine = checks.iter().all(|check| check.ok);
    let status = if fine { StatusCode::OK } else { StatusCode::SERVICE_UNAVAILABLE };
    if detail.verbose.is_none() {
        let failing: String = checks
            .iter()
            .filter(|check| !check.ok)
            .map(|check| format!("{}: {}\n", check.name, if sees { &check.says } else { FAILING }))
            .collect();
        return Ok((status, if fine { "ok\n".into() } else { failing }).into_response());
    }
    Ok((status, Json(Readiness { ready: fine, checks })).into_response())
}

/// The text of a failed check, for callers who may not see the details.
const FAILING: &str = "failing";

fn engine_check(app: &ServerState) -> Check {
    let workflows: Vec<_> = app.engine.diagrams().into_iter().map(|drawn| drawn.workflow).collect();
    let (working, stopping) = (app.working.load(Ordering::Acquire), app.stopping.load(Ordering::Acquire));
    let says = match (working, stopping) {
        (_, true) => "stopping",
        (true, false) => "working",
        (false, false) => "not working; see the log",
    };
    Check {
        name: "engine",
        ok: working && !stopping,
        says: says.into(),
        facts: json!({ "workflows": workflows }),
    }
}

async fn store_check(app: &ServerState) -> Check {
    let health = app.engine.store().health().await;
    // A held server still answers and accepts commands. Operators must act, but a load balancer must not remove it.
    let held = health
        .hold
        .as_ref()
        .map(|hold| format!("held since {}: {}; see `tenure store held`", format_time(hold.since), hold.why));
    Check {
        name: "store",
        ok: health.writable,
        says: health.problem.clone().or(held).unwrap_or_else(|| "writable".into()),
        facts: json!({
            "sequence": health.sequence.0,
            "live_bytes": health.live_bytes,
            "disk_bytes": health.disk_bytes,
            "index_lag": health.index_lag,
            "tasks": health.tasks,
        }),
    }
}

/// The check result after the store's timeout.
fn unheard() -> Check {
    let says = format!("no answer within {PATIENCE:?}");
    Check { name: "store", ok: false, says, facts: Value::Null }
}

/// Checks the backends of clusters. Simulated clusters are reported, but the server is ready.
async fn platform_check(app: &ServerState) -> Result<Check, Problem> {
    let page = crate::http::extract::page::Page { limit: 1_000, after: None };
    let (clusters, _) = crate::http::extract::page::documents::<Cluster>(app, "", &page, |_| true).await?;
    let named = |simulated: bool| -> Vec<String> {
        clusters.iter().filter(|c| c.is_simulated() == simulated).map(|c| c.id.to_string()).collect()
    };
    let (simulated, real) = (named(true), named(false));
    let says = match (simulated.is_empty(), real.is_empty()) {
        (true, true) => "no cluster yet".into(),
        (false, _) => format!("simulated clusters without hardware: {}", simulated.join(", ")),
        (true, false) => "every cluster has a backend".into(),
    };
    Ok(Check {
        name: "platform",
        ok: true,
        says,
        facts: json!({
            "backends": app.engine.platform().backends(),
            "simulated": simulated,
            "real": real,
            "world": app.config.platform,
        }),
    })
}
