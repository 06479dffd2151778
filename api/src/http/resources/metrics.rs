//! `/metrics` in the Prometheus format. No label names a tenant or a person, but labels name clusters and their free GPUs. So remote callers need a role
//! ([`loopback`](crate::http::middleware::loopback)).

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
        doc("metrics", "Returns all metrics in the Prometheus format.")
            .file(200, "application/openmetrics-text"),
    )]
}

async fn show(State(app): State<SharedState>) -> Result<Response, Problem> {
    app.requests.observe(app.engine.store().health().await);
    // Read here and not when entries are sealed, so that the lag grows while nothing is sealed.
    match app.auditor.lag().await {
        Ok(lag) => app.audited.observe(lag),
        Err(error) => tracing::warn!(%error, "cannot read the lag of the audit"),
    }
    if let Some(tls) = &app.tls {
        tls.observe(app.engine.clock().now());
    }
    let standing = app.standing.text(&app).await;
    let mut text = String::new();
    let unwritten = |_| Problem::new(ProblemCode::Internal, "cannot write the metrics");
    encode_registry(&mut text, &app.registry).map_err(unwritten)?;
    text.push_str(&standing);
    text.push_str(&process::text());
    encode_eof(&mut text).map_err(unwritten)?;
    let media = "application/openmetrics-text; version=1.0.0; charset=utf-8";
    Ok(([(header::CONTENT_TYPE, media)], text).into_response())
}
