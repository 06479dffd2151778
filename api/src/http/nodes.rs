//! `/v1/nodes`: the machines, and whose they are.

use super::{
    page::{Listed, Page, document, documents},
    problem::Problem,
    read::Asked,
    route::{Access, Route},
    shown,
    told::told,
    view,
};
use crate::{
    app::Shared,
    auth::{Caller, Verb},
};
use axum::{
    Extension, Json,
    extract::{Path, State},
};
use schemars::JsonSchema;
use serde::Deserialize;
use serde_json::Value;
use workflows::tenancy::Node;

pub(super) fn routes() -> Vec<Route> {
    let read = Access::Tenant(Verb::ReadNodes);
    vec![
        Route::get(
            "/v1/nodes",
            read,
            list,
            told("listNodes", "Lists nodes, by cluster, region, model, owner and state.")
                .lists::<shown::fleet::Node>(),
        ),
        Route::get("/v1/nodes/{id}", read, show, told("showNode", "A node.").says::<shown::fleet::Node>(200)),
    ]
}

#[derive(Debug, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
struct Wanted {
    cluster: Option<String>,
    region: Option<String>,
    model: Option<String>,
    owner: Option<String>,
    state: Option<String>,
    limit: Option<usize>,
    cursor: Option<String>,
}

/// A tenant sees the nodes that it owns; what nobody owns is the platform's.
fn visible(caller: &Caller, node: &Node) -> bool {
    caller.sees(node.owner.as_ref().map(|owner| owner.as_str()).unwrap_or_default())
}

async fn list(
    State(app): State<Shared>,
    Extension(caller): Extension<Caller>,
    Asked(wanted): Asked<Wanted>,
) -> Result<Json<Listed<Value>>, Problem> {
    let page = Page::of(wanted.limit, wanted.cursor.as_deref())?;
    let is = |wanted: &Option<String>, has: &str| wanted.as_deref().is_none_or(|wanted| wanted == has);
    let meant = |node: &Node| {
        visible(&caller, node)
            && is(&wanted.cluster, node.cluster.as_str())
            && is(&wanted.region, node.region.as_str())
            && is(&wanted.model, node.gpu.model.as_str())
            && is(&wanted.owner, node.owner.as_ref().map(|owner| owner.as_str()).unwrap_or_default())
            && is(&wanted.state, node.state.into())
    };
    let (nodes, next) = documents::<Node>(&app, "", &page, meant).await?;
    Ok(Json(Listed::new(nodes.iter().map(|node| view::thing(node, &[])).collect(), next)))
}

async fn show(
    State(app): State<Shared>,
    Extension(caller): Extension<Caller>,
    Path(id): Path<String>,
) -> Result<Json<Value>, Problem> {
    let node = document::<Node>(&app, &id).await?.filter(|node| visible(&caller, node));
    node.map(|node| Json(view::thing(&node, &[]))).ok_or_else(|| Problem::not_found("node", &id))
}
