//! `/metrics`: everything counted, as Prometheus reads it. No label names a tenant or a person, but clusters are named, and what
//! is free there: from elsewhere it takes a role ([`loopback`](crate::http::middleware::loopback)).

use crate::{
    auth::Verb,
    http::{
        problem::{Problem, code::ProblemCode},
        route::{Access, Route},
        route_doc::doc,
    },
    state::SharedState,
    telemetry::metrics::process,
};
use axum::{
    extract::State,
    http::header,
    response::{IntoResponse, Response},
};
use prometheus_client::encoding::text::{encode_eof, encode_registry};

pub(in crate::http) fn routes() -> Vec<Route> {
    vec![Route::get(
        "/metrics",
        Access::Near(Verb::ReadMetrics),
        show,
        doc("metrics", "Everything counted, as Prometheus reads it.")
            .file(200, "application/openmetrics-text"),
    )]
}

async fn show(State(app): State<SharedState>) -> Result<Response, Problem> {
    app.requests.observe(app.engine.store().health().await);
    // Asked here and not where it is sealed, so that it grows when nothing is.
    match app.auditor.lag().await {
        Ok(lag) => app.audited.observe(lag),
        Err(error) => tracing::warn!(%error, "how far the audit is behind cannot be told"),
    }
    if let Some(tls) = &app.tls {
        tls.observe(app.engine.clock().now());
    }
    let standing = app.standing.text(&app).await;
    let mut text = String::new();
    let unwritten = |_| Problem::new(ProblemCode::Internal, "the metrics could not be written");
    encode_registry(&mut text, &app.registry).map_err(unwritten)?;
    text.push_str(&standing);
    text.push_str(&process::text());
    encode_eof(&mut text).map_err(unwritten)?;
    let media = "application/openmetrics-text; version=1.0.0; charset=utf-8";
    Ok(([(header::CONTENT_TYPE, media)], text).into_response())
}
