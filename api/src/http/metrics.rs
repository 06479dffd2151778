//! `/metrics`: everything counted, as Prometheus reads it. Open, since no label names a tenant or a person.

use super::{
    code::Code,
    problem::Problem,
    route::{Access, Route},
    told::told,
};
use crate::app::Shared;
use axum::{
    extract::State,
    http::header,
    response::{IntoResponse, Response},
};
use prometheus_client::encoding::text::encode;

pub(super) fn routes() -> Vec<Route> {
    vec![Route::get(
        "/metrics",
        Access::Open,
        show,
        told("metrics", "Everything counted, as Prometheus reads it.")
            .file(200, "application/openmetrics-text"),
    )]
}

async fn show(State(app): State<Shared>) -> Result<Response, Problem> {
    app.requests.observe(&app.engine.store().health().await);
    // Asked here and not where it is sealed, so that it grows when nothing is.
    match app.auditor.lag().await {
        Ok(lag) => app.audited.observe(&lag),
        Err(error) => tracing::warn!(%error, "how far the audit is behind cannot be told"),
    }
    let mut text = String::new();
    encode(&mut text, &app.registry)
        .map_err(|_| Problem::new(Code::Internal, "the metrics could not be written"))?;
    let media = "application/openmetrics-text; version=1.0.0; charset=utf-8";
    Ok(([(header::CONTENT_TYPE, media)], text).into_response())
}
