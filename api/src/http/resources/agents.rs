//! `/v1/agents`: the protocol of node agents, under the key of their cluster.

use crate::{
    auth::Verb,
    http::{
        address::AGENT_PULL,
        credentials::bearer,
        extract::{
            QueryParams, RawJsonBody,
            page::{ListPage, Paging, scope::unscoped},
        },
        middleware::agent_key::authorize_agent,
        problem::Problem,
        route::{Access, Route},
        route_doc::doc,
    },
    state::SharedState,
    types,
};
use axum::{
    Json,
    extract::{Path, State},
    http::{HeaderMap, header},
};
use backends::agents::{Answer, NodeReport, PullRequest, PullResponse};
use serde_json::{Value, json};
use std::{sync::atomic::Ordering, time::Duration};
use tokio::time::Instant;
use workflows::tenancy::Node;

/// The interval at which a long poll checks if the server stops.
const SLICE: Duration = Duration::from_millis(500);
/// How long the authentication of a long poll is valid before the key is checked again.
const ADMITTED: Duration = Duration::from_secs(5);
/// The maximum duration of a long poll.
const LONGEST: Duration = Duration::from_secs(30);

pub(in crate::http) fn routes() -> Vec<Route> {
    vec![
        Route::get(
            "/v1/agents",
            Access::Staff(Verb::ReadFleet),
            list,
            doc("listAgents", "Lists node agents.").lists::<types::fleet::Agent>(),
        ),
        Route::post(
            AGENT_PULL,
            Access::Agent,
            pull,
            doc("pullOrders", "Returns the orders of an agent (long poll).")
                .takes_json::<types::fleet::AgentPull>()
                .says::<types::fleet::AgentOrders>(200),
        ),
        Route::post(
            "/v1/agents/{cluster}/{node}:answer",
            Access::Agent,
            answer,
            doc("answerOrder", "Reports the result of an order.")
                .takes_json::<types::fleet::AgentAnswer>()
                .says::<types::fleet::Awaited>(200),
        ),
        Route::post(
            "/v1/agents/{cluster}/{node}:see",
            Access::Agent,
            see,
            doc("reportNode", "Reports the state of a node.")
                .takes_json::<types::fleet::AgentSeen>()
                .says::<types::fleet::Empty>(200),
        ),
        Route::post(
            "/v1/agents/{cluster}/{node}:leave",
            Access::Agent,
            leave,
            doc("leaveNode", "Reports that an agent stops.")
                .takes_json::<types::fleet::AgentPull>()
                .says::<types::fleet::Empty>(200),
        ),
    ]
}

async fn list(
    State(app): State<SharedState>,
    QueryParams(paging): QueryParams<Paging>,
) -> Result<Json<ListPage<Value>>, Problem> {
    let page = paging.page()?;
    let agents = app.agents.list();
    let item = |agent| {
        let mut item = json!(agent);
        let (cluster, node) = (text(&item, "/cluster"), text(&item, "/node"));
        if let Some(fields) = item.as_object_mut() {
            fields.insert("id".into(), format!("{cluster}/{node}").into());
        }
        item
    };
    let agents = agents.into_iter().map(item).collect();
    Ok(Json(ListPage::part(agents, &page, |agent| text(agent, "/id"))))
}

fn text(item: &Value, pointer: &str) -> String {
    item.pointer(pointer).and_then(Value::as_str).unwrap_or_default().to_owned()
}

/// Rejects a node that is not in the fleet.
async fn known(app: &SharedState, cluster: &str, node: &str) -> Result<(), Problem> {
    let found = unscoped::<Node>(app, node).await?;
    match found.filter(|found| found.cluster.as_str() == cluster) {
        Some(_) => Ok(()),
        None => Err(Problem::not_found("node", &format!("{node} in cluster {cluster}"))),
    }
}

async fn pull(
    State(app): State<SharedState>,
    Path((cluster, node)): Path<(String, String)>,
    headers: HeaderMap,
    RawJsonBody(mut pull): RawJsonBody<PullRequest>,
) -> Result<Json<PullResponse>, Problem> {
    known(&app, &cluster, &node).await?;
    let header = headers.get(header::AUTHORIZATION).and_then(|value| value.to_str().ok());
    let (token, mut admitted) = (header.and_then(bearer), Instant::now());
    let until = Instant::now() + Duration::from_millis(pull.wait_ms).min(LONGEST);
    loop {
        let left = until.saturating_duration_since(Instant::now());
        if admitted.elapsed() >= ADMITTED {
            // A key that was revoked during the long poll gets no orders.
            authorize_agent(&app, &format!("/v1/agents/{cluster}/{node}"), token.as_ref())?;
            admitted = Instant::now();
        }
        pull.wait_ms = u64::try_from(left.min(SLICE).as_millis()).unwrap_or_default();
        let pulled = app.agents.pull(&cluster, &node, &pull).await;
        let over = left <= SLICE || app.stopping.load(Ordering::Acquire);
        if over || pulled != PullResponse::default() {
            return Ok(Json(pulled));
        }
    }
}

async fn answer(
    State(app): State<SharedState>,
    Path((cluster, node)): Path<(String, String)>,
    RawJsonBody(answer): RawJsonBody<Answer>,
) -> Json<Value> {
    let awaited = app.agents.answer(&cluster, &node, answer);
    Json(json!({ "awaited": awaited }))
}

async fn see(
    State(app): State<SharedState>,
    Path((cluster, node)): Path<(String, String)>,
    RawJsonBody(seen): RawJsonBody<NodeReport>,
) -> Result<Json<Value>, Problem> {
    known(&app, &cluster, &node).await?;
    app.agents.see(&cluster, &node, seen);
    Ok(Json(json!({})))
}

async fn leave(
    State(app): State<SharedState>,
    Path((cluster, node)): Path<(String, String)>,
    RawJsonBody(leaving): RawJsonBody<PullRequest>,
) -> Result<Json<Value>, Problem> {
    known(&app, &cluster, &node).await?;
    app.agents.leave(&cluster, &node, &leaving);
    Ok(Json(json!({})))
}
