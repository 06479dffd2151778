//! `/v1/nodes`: GPU nodes and their owners.

use crate::{
    auth::{Caller, Verb},
    http::{
        extract::{
            JsonBody, QueryParams,
            dry_run::DryRun,
            page::{
                ListPage, Page,
                scope::{get_visible, list_visible},
            },
        },
        problem::{Problem, code::ProblemCode},
        route::{Access, Route},
        route_doc::doc,
    },
    state::{ServerState, SharedState},
    types::{self, mapping},
};
use axum::{
    Extension, Json,
    extract::{Path, State},
};
use engine::{Undecided, View, with_reason};
use schemars::JsonSchema;
use serde::Deserialize;
use serde_json::Value;
use workflows::{
    fleet::{move_node, retire_node},
    tenancy::{ClusterId, Node, NodeId},
};

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
        Route::post(
            "/v1/nodes/{id}:retire",
            Access::Staff(Verb::ImportFleet),
            retire,
            doc("retireNode", "Retires a free node from the fleet.")
                .says::<types::fleet::Node>(200)
                .may(&[ProblemCode::NodeNotFree, ProblemCode::ReasonMissing]),
        ),
        Route::post(
            "/v1/nodes/{id}:move",
            Access::Staff(Verb::ImportFleet),
            move_to,
            doc("moveNode", "Moves a free node to another cluster.")
                .says::<types::fleet::Node>(200)
                .may(&[ProblemCode::NodeNotFree]),
        ),
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
            && wanted.model.as_deref().is_none_or(|model| node.gpu.model.is_called(model))
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

/// The reason for retiring a node.
#[derive(Debug, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
struct Retirement {
    /// The reason, for the audit.
    reason: String,
}

/// The destination of a node.
#[derive(Debug, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
#[schemars(rename = "NodeMove")]
struct Move {
    /// The new cluster of the node.
    #[schemars(with = "String")]
    cluster: ClusterId,
    /// The reason, for the audit.
    #[serde(default)]
    reason: String,
}

async fn retire(
    State(app): State<SharedState>,
    Path(id): Path<String>,
    how: DryRun,
    JsonBody(wanted): JsonBody<Retirement>,
) -> Result<Json<Value>, Problem> {
    if wanted.reason.trim().is_empty() {
        return Err(Problem::new(ProblemCode::ReasonMissing, "reason: say why the node is retired"));
    }
    change(&app, &id, &how, &wanted.reason, retire_node).await
}

async fn move_to(
    State(app): State<SharedState>,
    Path(id): Path<String>,
    how: DryRun,
    JsonBody(wanted): JsonBody<Move>,
) -> Result<Json<Value>, Problem> {
    let to = &wanted.cluster;
    let moved = change(&app, &id, &how, &wanted.reason, |view, node| move_node(view, node, to)).await?;
    app.freed.notify_one();
    Ok(moved)
}

/// Returns the node after the change, or after its dry run.
async fn change(
    app: &ServerState,
    id: &str,
    how: &DryRun,
    reason: &str,
    decide: impl Fn(&mut View, &NodeId) -> Result<Node, Undecided>,
) -> Result<Json<Value>, Problem> {
    let node = id.parse::<NodeId>().map_err(|_| Problem::not_found("node", id))?;
    let changed = app.engine.transact(!how.is_wanted(), |view| decide(view, &node));
    let changed = with_reason(reason, changed).await?;
    Ok(Json(mapping::thing(&changed, &[])))
}
