//! `/v1/engines`: the processes that share the store.

use crate::{
    auth::Verb,
    http::{
        extract::{
            QueryParams,
            page::{ListPage, Paging},
        },
        problem::Problem,
        route::{Access, Route},
        route_doc::doc,
    },
    state::SharedState,
};
use axum::{Json, extract::State};
use serde_json::Value;

pub(in crate::http) fn routes() -> Vec<Route> {
    vec![Route::get(
        "/v1/engines",
        Access::Staff(Verb::ReadFleet),
        list,
        doc("listEngines", "Lists the processes that share the store.")
            .lists::<crate::types::operations::Engine>(),
    )]
}

async fn list(
    State(app): State<SharedState>,
    QueryParams(paging): QueryParams<Paging>,
) -> Result<Json<ListPage<Value>>, Problem> {
    let page = paging.page()?;
    // Sorted by name, then by start id.
    let text =
        |engine: &Value, field| engine.get(field).and_then(Value::as_str).unwrap_or_default().to_owned();
    let place = |engine: &Value| format!("{} {}", text(engine, "name"), text(engine, "id"));
    Ok(Json(ListPage::part(app.storage.engines().await?, &page, place)))
}
