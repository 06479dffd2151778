//! `/livez`, `/readyz`, `/version`: whether the server works, by named checks.

use super::{
    problem::Problem,
    read::Asked,
    route::{Access, Route},
};
use crate::app::{App, Shared};
use axum::{
    Json,
    extract::State,
    http::StatusCode,
    response::{IntoResponse, Response},
};
use serde::Deserialize;
use serde_json::{Value, json};
use std::{sync::atomic::Ordering, time::Duration};
use workflows::tenancy::Cluster;

pub(super) fn routes() -> Vec<Route> {
    vec![
        Route::get("/livez", Access::Open, alive),
        Route::get("/readyz", Access::Open, ready),
        Route::get("/version", Access::Open, version),
    ]
}

async fn alive() -> &'static str {
    "ok\n"
}

async fn version() -> Json<Value> {
    Json(json!({ "name": "tenure", "version": env!("CARGO_PKG_VERSION") }))
}

#[derive(Debug, Deserialize)]
struct Detail {
    verbose: Option<String>,
}

/// Whoever asks does not wait for long: how long a store is given to answer.
const PATIENCE: Duration = Duration::from_secs(2);

/// One named check.
struct Check {
    name: &'static str,
    fine: bool,
    says: String,
    facts: Value,
}

async fn ready(State(app): State<Shared>, Asked(detail): Asked<Detail>) -> Result<Response, Problem> {
    let store = tokio::time::timeout(PATIENCE, store_check(&app)).await.unwrap_or_else(|_| unheard());
    // What is behind the clusters stands in the store.
    let platform = if store.fine { Some(platform_check(&app).await?) } else { None };
    let checks: Vec<Check> = [engine_check(&app), store].into_iter().chain(platform).collect();
    let fine = checks.iter().all(|check| check.fine);
    let status = if fine { StatusCode::OK } else { StatusCode::SERVICE_UNAVAILABLE };
    if detail.verbose.is_none() {
        let failing: String = checks
            .iter()
            .filter(|check| !check.fine)
            .map(|check| format!("{}: {}\n", check.name, check.says))
            .collect();
        return Ok((status, if fine { "ok\n".into() } else { failing }).into_response());
    }
    let check = |check: &Check| json!({ "name": check.name, "ok": check.fine, "says": check.says, "facts": check.facts });
    let body = json!({ "ready": fine, "checks": checks.iter().map(check).collect::<Vec<_>>() });
    Ok((status, Json(body)).into_response())
}

fn engine_check(app: &App) -> Check {
    let workflows: Vec<_> = app.engine.diagrams().into_iter().map(|drawn| drawn.workflow).collect();
    let (working, stopping) = (app.working.load(Ordering::Acquire), app.stopping.load(Ordering::Acquire));
    let says = match (working, stopping) {
        (_, true) => "stopping",
        (true, false) => "working",
        (false, false) => "not working; see the log",
    };
    Check {
        name: "engine",
        fine: working && !stopping,
        says: says.into(),
        facts: json!({ "workflows": workflows }),
    }
}

async fn store_check(app: &App) -> Check {
    let health = app.engine.store().health().await;
    // It answers and takes commands; that it performs nothing is for people, and no reason to send requests elsewhere.
    let held = health
        .held
        .as_ref()
        .map(|hold| format!("held since {}: {}; see `tenure store held`", super::time(hold.since), hold.why));
    Check {
        name: "store",
        fine: health.writable,
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

/// The store has not answered in time.
fn unheard() -> Check {
    let says = format!("it does not answer within {PATIENCE:?}");
    Check { name: "store", fine: false, says, facts: Value::Null }
}

/// What is behind the clusters. That one is simulated does not make the server less ready, but is said.
async fn platform_check(app: &App) -> Result<Check, Problem> {
    let page = super::page::Page { limit: 1_000, after: None };
    let (clusters, _) = super::page::documents::<Cluster>(app, "", &page, |_| true).await?;
    let named = |simulated: bool| -> Vec<String> {
        clusters.iter().filter(|c| c.simulated() == simulated).map(|c| c.id.to_string()).collect()
    };
    let (simulated, real) = (named(true), named(false));
    let says = match (simulated.is_empty(), real.is_empty()) {
        (true, true) => "no cluster yet".into(),
        (false, _) => format!("simulated, nothing real is behind: {}", simulated.join(", ")),
        (true, false) => "every cluster has a backend".into(),
    };
    Ok(Check {
        name: "platform",
        fine: true,
        says,
        facts: json!({
            "backends": app.engine.platform().backends(),
            "simulated": simulated,
            "real": real,
            "world": app.config.platform,
        }),
    })
}
