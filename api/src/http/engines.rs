//! `/v1/engines`: the processes that share the store.

use super::{
    page::Listed,
    problem::Problem,
    route::{Access, Route},
    shown,
    told::told,
};
use crate::{app::Shared, auth::Verb};
use axum::{Json, extract::State};
use serde_json::Value;

pub(super) fn routes() -> Vec<Route> {
    vec![Route::get(
        "/v1/engines",
        Access::Staff(Verb::ReadFleet),
        list,
        told("listEngines", "Lists the processes that share the store.").lists::<shown::operating::Engine>(),
    )]
}

async fn list(State(app): State<Shared>) -> Result<Json<Listed<Value>>, Problem> {
    Ok(Json(Listed::new(app.storage.engines().await?, None)))
}
