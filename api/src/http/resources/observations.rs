//! `POST /v1/clusters/{id}/facts`: observed facts of a cluster, sent by the cluster with its own key.

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
    tenancy::{Cluster, GpuKind, KeyScope, Node, NodeId, SeenGpu, SeenWorkload, TenantId},
};

pub(in crate::http) fn routes() -> Vec<Route> {
    let push = Access::Cluster(Verb::PushFacts, KeyScope::PushFacts);
    vec![Route::post(
        "/v1/clusters/{id}/facts",
        push,
        take,
        doc("pushFacts", "Reports observed facts of a cluster, with the cluster's own key.")
            .says::<types::workspaces::FactsTaken>(200),
    )]
}

/// Observed facts: for each node and GPU model, how many GPUs are usable and how many are in use. A report has all nodes of a tenant or none; nothing is
/// admitted to a node that was not reported.
#[derive(Debug, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
struct Facts {
    /// The time of the observation; now if absent.
    #[schemars(with = "Option<types::Time>")]
    at: Option<String>,
    #[serde(default)]
    #[schemars(with = "BTreeMap<String, BTreeMap<String, SeenGpus>>")]
    nodes: BTreeMap<NodeId, BTreeMap<GpuKind, ObservedKind>>,
    /// The workloads that run on these nodes, one entry per workload and node. The booking of a workload moves to the nodes where it runs. Omit this if the
    /// sender does not know it.
    #[serde(default)]
    #[schemars(length(max = 10_000))]
    running: Vec<RunningFact>,
}

/// A workload that runs on a node.
#[derive(Debug, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
struct RunningFact {
    /// The name under which it was submitted; may be its scheduler's uid.
    #[schemars(length(min = 1, max = 64))]
    workload: String,
    /// The uid of the workload in the cluster.
    #[schemars(length(max = 64))]
    uid: Option<String>,
    /// The node; must be one of `nodes`.
    #[schemars(with = "String")]
    node: NodeId,
    /// The uid of the node in the cluster.
    #[schemars(length(max = 64))]
    node_uid: Option<String>,
    /// The GPU model, such as `H100`; the requested model if absent.
    #[schemars(with = "Option<String>")]
    kind: Option<GpuKind>,
    /// The number of GPUs or slices on this node; the length of `gpus` if absent.
    count: Option<u64>,
    /// The GPUs, if known.
    #[serde(default)]
    #[schemars(length(max = 128))]
    gpus: Vec<NamedGpu>,
    /// The start time on this node.
    #[schemars(with = "Option<types::Time>")]
    since: Option<String>,
}

/// A GPU that the workload uses.
#[derive(Debug, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
struct NamedGpu {
    /// The UUID of the GPU or MIG device, from the driver.
    uuid: String,
    /// The index on the node, from 0, if known.
    index: Option<u16>,
}

/// The GPUs of a model on a node.
#[derive(JsonSchema)]
#[expect(dead_code, reason = "describes the type that the core reads")]
struct SeenGpus {
    /// The number of usable GPUs.
    usable: u64,
    /// The number of GPUs in use.
    busy: u64,
}

/// The maximum number of `running` entries in a request.
const MOST_RUNNING: usize = 10_000;
/// The maximum number of GPUs and slices of a node.
const MOST_ON_NODE: u64 = 128;
/// The maximum length of a name or uid, in bytes.
const LONGEST: usize = 64;

/// The observed facts of one tenant.
#[derive(Debug, Default)]
struct SeenOfTenant {
    nodes: BTreeMap<NodeId, BTreeMap<GpuKind, ObservedKind>>,
    running: Vec<SeenWorkload>,
}

type ByTenant = BTreeMap<TenantId, SeenOfTenant>;

async fn take(
    State(app): State<SharedState>,
    Extension(caller): Extension<Caller>,
    Path(id): Path<String>,
    JsonBody(facts): JsonBody<Facts>,
) -> Result<Json<Value>, Problem> {
    let cluster = document::<Cluster>(&app, &id).await?.ok_or_else(|| Problem::not_found("cluster", &id))?;
    let at = time("at", facts.at.as_deref())?.unwrap_or_else(|| app.engine.clock().now());
    let running = checked(facts.running, &facts.nodes)?;
    let (mut drift, mut moved, mut admitted) = (Vec::new(), Vec::new(), 0);
    let by_tenant = sorted(&app, &caller, &cluster, (facts.nodes, running)).await?;
    for (tenant, of_tenant) in &by_tenant {
        let seen = Observation { at, nodes: of_tenant.nodes.clone() };
        let (found, went, more) = change(&app, tenant, |view| {
            let observed = admission::observe_running(view, tenant, &seen, &of_tenant.running)?;
            Ok(((observed.drift, observed.moved, observed.news.admitted.len()), observed.news))
        })
        .await?;
        admitted += more;
        moved.extend(went.into_iter().map(|workload| json!({ "tenant": tenant, "workload": workload })));
        drift.extend(found.into_iter().map(|drift| json!({ "tenant": tenant, "drift": drift })));
    }
    let nodes: usize = by_tenant.values().map(|seen| seen.nodes.len()).sum();
    Ok(Json(json!({
        "tenants": by_tenant.len(), "nodes": nodes, "admitted": admitted, "moved": moved, "drift": drift,
    })))
}

/// Checks the `running` entries.
fn checked(
    facts: Vec<RunningFact>,
    nodes: &BTreeMap<NodeId, BTreeMap<GpuKind, ObservedKind>>,
) -> Result<Vec<SeenWorkload>, Problem> {
    if facts.len() > MOST_RUNNING {
        let detail = format!("running: {} entries; send at most {MOST_RUNNING}", facts.len());
        return Err(Problem::new(ProblemCode::DocumentInvalid, detail));
    }
    let (mut running, mut faults) = (Vec::new(), Vec::new());
    for (number, fact) in facts.into_iter().enumerate() {
        let texts = [Some(&fact.workload), fact.uid.as_ref(), fact.node_uid.as_ref()];
        let uuids = fact.gpus.iter().map(|gpu| &gpu.uuid);
        let plain =
            |text: &String| (1..=LONGEST).contains(&text.len()) && text.bytes().all(|b| b.is_ascii_graphic());
        let garbled = !texts.into_iter().flatten().chain(uuids).all(plain);
        let since = time("since", fact.since.as_deref())?;
        let seen = SeenWorkload {
            workload: fact.workload,
            uid: fact.uid,
            node: fact.node,
            node_uid: fact.node_uid,
            kind: fact.kind,
            count: fact.count,
            gpus: fact.gpus.into_iter().map(|gpu| SeenGpu { uuid: gpu.uuid, index: gpu.index }).collect(),
            since,
        };
        let wrong = if garbled {
            Some(format!("a name, uid or uuid does not have 1 to {LONGEST} letters, digits and signs"))
        } else if !nodes.contains_key(&seen.node) {
            Some(format!("nodes has no {}; add it with its usable and busy GPUs", seen.node))
        } else if !(1..=MOST_ON_NODE).contains(&seen.amount()) || seen.gpus.len() as u64 > MOST_ON_NODE {
            Some(format!(
                "{} GPUs; list 1 to {MOST_ON_NODE} in gpus, or give their number in count",
                seen.amount()
            ))
        } else {
            None
        };
        match wrong {
            Some(message) => {
                faults.push(Fault {
                    pointer: format!("/running/{number}"),
                    message,
                    line: None,
                    column: None,
                });
            }
            None => running.push(seen),
        }
    }
    if faults.is_empty() {
        return Ok(running);
    }
    let detail = format!("{} entries of running are invalid; nothing was stored", faults.len());
    faults.truncate(100);
    Err(Problem::new(ProblemCode::DocumentInvalid, detail).at(faults))
}

/// Sorts the facts by the tenant that owns the nodes. Nodes without an owner have no tenant's workloads.
async fn sorted(
    app: &ServerState,
    caller: &Caller,
    cluster: &Cluster,
    (nodes, running): (BTreeMap<NodeId, BTreeMap<GpuKind, ObservedKind>>, Vec<SeenWorkload>),
) -> Result<ByTenant, Problem> {
    let (mut sorted, mut faults) = (ByTenant::new(), Vec::new());
    let mut owners = BTreeMap::new();
    for (id, kinds) in nodes {
        let node = unscoped::<Node>(app, id.as_str()).await?.filter(|node| node.cluster == cluster.id);
        let kinds = match &node {
            Some(node) => kinds.into_iter().map(|(kind, seen)| (kind.on(&node.gpu.model), seen)).collect(),
            None => kinds,
        };
        let model = node.as_ref().map(|node| node.gpu.model.clone());
        let owner = node.map(|node| node.owner);
        let foreign = |owner: &Option<TenantId>| owner.as_ref().is_some_and(|own| !caller.sees(own.as_str()));
        match owner.filter(|owner| !foreign(owner)) {
            Some(Some(owner)) => {
                owners.insert(id.clone(), (owner.clone(), model));
                sorted.entry(owner).or_default().nodes.insert(id, kinds);
            }
            Some(None) => {}
            None => faults.push(Fault {
                pointer: format!("/nodes/{id}"),
                message: format!("cluster {} has no such node; remove the entry", cluster.id),
                line: None,
                column: None,
            }),
        }
    }
    if !faults.is_empty() {
        let detail =
            format!("{} nodes do not belong to cluster {}; nothing was stored", faults.len(), cluster.id);
        return Err(Problem::new(ProblemCode::DocumentInvalid, detail).at(faults));
    }
    for mut seen in running {
        if let Some((owner, model)) = owners.get(&seen.node) {
            // Uses the name of the ledger, as the counts of nodes do.
            seen.kind = seen.kind.map(|kind| match model {
                Some(model) => kind.on(model),
                None => kind,
            });
            sorted.entry(owner.clone()).or_default().running.push(seen);
        }
    }
    Ok(sorted)
}
