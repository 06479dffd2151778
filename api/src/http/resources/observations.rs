//! `POST /v1/clusters/{id}/facts`: what was seen of a cluster, sent by the cluster itself under its own key.

use crate::{
    auth::{Caller, Verb},
    http::{
        extract::{
            JsonBody,
            page::{document, scope::unscoped},
        },
        problem::{Problem, code::ProblemCode},
        resources::{reservations::time, workloads::change},
        route::{Access, Route},
        route_doc::doc,
    },
    state::{ServerState, SharedState},
    types::{self, problems::Fault},
};
use axum::{
    Extension, Json,
    extract::{Path, State},
};
use schemars::JsonSchema;
use serde::Deserialize;
use serde_json::{Value, json};
use std::collections::BTreeMap;
use workflows::{
    scheduling::admission::{self, Observation, ObservedKind},
    tenancy::{Cluster, GpuKind, KeyScope, Node, NodeId, TenantId},
};

pub(in crate::http) fn routes() -> Vec<Route> {
    let push = Access::Cluster(Verb::PushFacts, KeyScope::PushFacts);
    vec![Route::post(
        "/v1/clusters/{id}/facts",
        push,
        take,
        doc("pushFacts", "What was seen of a cluster, sent by the cluster itself under its own key.")
            .says::<types::workspaces::FactsTaken>(200),
    )]
}

/// What was seen: of each node and kind of GPU, how many work can use, and how many of them are in use. Of a tenant's nodes
/// all are named or none: nobody is admitted to a node that was not seen.
#[derive(Debug, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
struct Facts {
    /// When it was so; now if absent.
    #[schemars(with = "Option<types::Time>")]
    at: Option<String>,
    #[serde(default)]
    #[schemars(with = "BTreeMap<String, BTreeMap<String, SeenGpus>>")]
    nodes: BTreeMap<NodeId, BTreeMap<GpuKind, ObservedKind>>,
}

/// How many GPUs of a kind were seen on a node.
#[derive(JsonSchema)]
#[expect(dead_code, reason = "describes what the core reads")]
struct SeenGpus {
    /// How many work can use.
    usable: u64,
    /// How many of them are in use.
    busy: u64,
}

type ByTenant = BTreeMap<TenantId, BTreeMap<NodeId, BTreeMap<GpuKind, ObservedKind>>>;

async fn take(
    State(app): State<SharedState>,
    Extension(caller): Extension<Caller>,
    Path(id): Path<String>,
    JsonBody(facts): JsonBody<Facts>,
) -> Result<Json<Value>, Problem> {
    let cluster = document::<Cluster>(&app, &id).await?.ok_or_else(|| Problem::not_found("cluster", &id))?;
    let at = time("at", facts.at.as_deref())?.unwrap_or_else(|| app.engine.clock().now());
    let (mut drift, mut admitted) = (Vec::new(), 0);
    let by_tenant = sorted(&app, &caller, &cluster, facts.nodes).await?;
    for (tenant, nodes) in &by_tenant {
        let seen = Observation { at, nodes: nodes.clone() };
        let (found, more) = change(&app, tenant, |view| {
            let observed = admission::observe(view, tenant, &seen)?;
            Ok(((observed.drift, observed.news.admitted.len()), observed.news))
        })
        .await?;
        admitted += more;
        drift.extend(found.into_iter().map(|drift| json!({ "tenant": tenant, "drift": drift })));
    }
    let nodes: usize = by_tenant.values().map(BTreeMap::len).sum();
    Ok(Json(json!({ "tenants": by_tenant.len(), "nodes": nodes, "admitted": admitted, "drift": drift })))
}

/// The nodes by the tenant whose they are. Nodes that nobody owns say nothing about anybody's work.
async fn sorted(
    app: &ServerState,
    caller: &Caller,
    cluster: &Cluster,
    nodes: BTreeMap<NodeId, BTreeMap<GpuKind, ObservedKind>>,
) -> Result<ByTenant, Problem> {
    let (mut sorted, mut faults) = (ByTenant::new(), Vec::new());
    for (id, kinds) in nodes {
        let node = unscoped::<Node>(app, id.as_str()).await?.filter(|node| node.cluster == cluster.id);
        let kinds = match &node {
            Some(node) => kinds.into_iter().map(|(kind, seen)| (kind.on(&node.gpu.model), seen)).collect(),
            None => kinds,
        };
        let owner = node.map(|node| node.owner);
        let foreign = |owner: &Option<TenantId>| owner.as_ref().is_some_and(|own| !caller.sees(own.as_str()));
        match owner.filter(|owner| !foreign(owner)) {
            Some(Some(owner)) => _ = sorted.entry(owner).or_default().insert(id, kinds),
            Some(None) => {}
            None => faults.push(Fault {
                pointer: format!("/nodes/{id}"),
                message: format!("cluster {} has no such node; leave it out", cluster.id),
                line: None,
                column: None,
            }),
        }
    }
    if faults.is_empty() {
        return Ok(sorted);
    }
    let detail = format!("{} nodes are not of cluster {}; nothing was taken in", faults.len(), cluster.id);
    Err(Problem::new(ProblemCode::DocumentInvalid, detail).at(faults))
}
