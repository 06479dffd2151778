//! `/v1/nodes`: the machines, and whose they are.

use crate::{
    auth::{Caller, Verb},
    http::{
        extract::{
            QueryParams,
            page::{
                ListPage, Page,
                scope::{get_visible, list_visible},
            },
        },
        problem::Problem,
        route::{Access, Route},
        route_doc::doc,
    },
    state::SharedState,
    types::{self, mapping},
};
use axum::{
    Extension, Json,
    extract::{Path, State},
};
use schemars::JsonSchema;
use serde::Deserialize;
use serde_json::Value;
use workflows::tenancy::Node;

pub(in crate::http) fn routes() -> Vec<Route> {
    let read = Access::Tenant(Verb::ReadNodes);
    vec![
        Route::get(
            "/v1/nodes",
            read,
            list,
            doc("listNodes", "Lists nodes, by cluster, region, model, owner and state.")
                .lists::<types::fleet::Node>(),
        ),
        Route::get("/v1/nodes/{id}", read, show, doc("showNode", "A node.").says::<types::fleet::Node>(200)),
    ]
}

#[derive(Debug, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
#[schemars(rename = "Wanted")]
struct ListParams {
    cluster: Option<String>,
    region: Option<String>,
    model: Option<String>,
    owner: Option<String>,
    state: Option<String>,
    limit: Option<usize>,
    cursor: Option<String>,
}

async fn list(
    State(app): State<SharedState>,
    Extension(caller): Extension<Caller>,
    QueryParams(wanted): QueryParams<ListParams>,
) -> Result<Json<ListPage<Value>>, Problem> {
    let page = Page::of(wanted.limit, wanted.cursor.as_deref())?;
    let is = |wanted: &Option<String>, has: &str| wanted.as_deref().is_none_or(|wanted| wanted == has);
    let meant = |node: &Node| {
        is(&wanted.cluster, node.cluster.as_str())
            && is(&wanted.region, node.region.as_str())
            && is(&wanted.model, node.gpu.model.as_str())
            && is(&wanted.owner, node.owner.as_ref().map(|owner| owner.as_str()).unwrap_or_default())
            && is(&wanted.state, node.state.into())
    };
    let (nodes, next) = list_visible::<Node>(&app, &caller, "", &page, meant).await?;
    Ok(Json(ListPage::new(nodes.iter().map(|node| mapping::thing(node, &[])).collect(), next)))
}

async fn show(
    State(app): State<SharedState>,
    Extension(caller): Extension<Caller>,
    Path(id): Path<String>,
) -> Result<Json<Value>, Problem> {
    let node = get_visible::<Node>(&app, &caller, &id).await?;
    node.map(|node| Json(mapping::thing(&node, &[]))).ok_or_else(|| Problem::not_found("node", &id))
}
