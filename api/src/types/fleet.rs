//! Tenants and their hardware.
#![expect(dead_code, reason = "these describe documents of the ledger")]

use crate::types::{Object, Time, executions::Row, workspaces::PolicyRef};
use schemars::JsonSchema;
use serde_json::Value;
use std::collections::BTreeMap;

/// The state of a tenant.
#[derive(JsonSchema)]
#[serde(rename_all = "snake_case")]
pub(crate) enum TenantState {
    Onboarding,
    Active,
    Leaving,
    Destroying,
    Closed,
}

/// A tenant.
#[derive(JsonSchema)]
pub(crate) struct Tenant {
    id: String,
    /// `enterprise`, `standard` or `research`.
    tier: String,
    /// `dedicated_cluster`, `dedicated_nodes` or `shared_slices`.
    isolation: String,
    /// `any`, or jurisdictions as `within`.
    data_residency: Value,
    allow_preemption: bool,
    allow_gpu_sharing: bool,
    compliance: Vec<String>,
    /// The policy under which it was admitted.
    policy: PolicyRef,
    state: TenantState,
    workspaces: Vec<String>,
    cluster: Option<String>,
    onboarded_by: String,
    created_at: Time,
    activated_at: Option<Time>,
    /// The time of its closure; the name is never reused.
    #[schemars(skip_serializing_if = "Option::is_none")]
    closed_at: Option<Time>,
    /// The users that share the tenant's hardware, if the request names them: `team`, `workload` or `customer`.
    #[schemars(skip_serializing_if = "Option::is_none")]
    multitenancy: Option<String>,
}

/// A tenant in full.
#[derive(JsonSchema)]
pub(crate) struct TenantInFull {
    #[serde(flatten)]
    tenant: Tenant,
    entitlement: Option<Entitlement>,
    holding: Option<Holding>,
    open_executions: Vec<Row>,
}

/// The purchased resources of a tenant.
#[derive(JsonSchema)]
pub(crate) struct Entitlement {
    tenant: String,
    gpu_model: String,
    gpus: u32,
    /// The slices of each GPU: `profile` and `per_gpu`. Absent for whole GPUs.
    #[serde(default)]
    #[schemars(skip_serializing_if = "Option::is_none")]
    slicing: Option<Object>,
    region: Option<String>,
    from: Option<String>,
    to: Option<String>,
}

/// The nodes of a tenant.
#[derive(JsonSchema)]
pub(crate) struct Holding {
    tenant: String,
    claimed_by: String,
    cluster: String,
    region: String,
    model: String,
    /// GPUs and ownership epoch, by node.
    nodes: BTreeMap<String, Object>,
    quarantined: Vec<String>,
}

/// A cluster.
#[derive(JsonSchema)]
pub(crate) struct Cluster {
    id: String,
    region: String,
    provider: String,
    /// `kubernetes`, `slurm` or `bare_metal`.
    kind: String,
    /// `shared`, or its only tenant.
    tenancy: Value,
    backend: String,
    models: Vec<String>,
    /// Missing prerequisites for onboarding a tenant; absent if there are none.
    #[schemars(skip_serializing_if = "Option::is_none")]
    unready: Option<Vec<String>>,
    /// By model.
    gpus: BTreeMap<String, Capacity>,
    /// True if the cluster is simulated.
    simulated: bool,
}

/// The GPUs of a model in a cluster.
#[derive(JsonSchema)]
pub(crate) struct Capacity {
    nodes: u64,
    gpus: u64,
    free: u64,
}

/// A region.
#[derive(JsonSchema)]
pub(crate) struct Region {
    id: String,
    jurisdiction: String,
    /// GPUs that are kept free.
    buffer: Object,
    clusters: Vec<String>,
}

/// A node.
#[derive(JsonSchema)]
pub(crate) struct Node {
    id: String,
    cluster: String,
    region: String,
    gpu: Gpu,
    cpu_milli: u64,
    memory_mib: u64,
    chunk: u32,
    owner: Option<String>,
    owner_epoch: u64,
    claimed_by: Option<String>,
    /// Such as `free`, `in_service`, `quarantined`.
    state: String,
    driver_version: Option<String>,
}

/// The GPUs of a node.
#[derive(JsonSchema)]
pub(crate) struct Gpu {
    model: String,
    count: u32,
}

/// The result of an import: `report` has the numbers of nodes, or the names of regions and clusters.
#[derive(JsonSchema)]
pub(crate) struct Imported {
    /// `nodes` or `sites`.
    kind: String,
    report: Object,
}

/// The agent of a node.
#[derive(JsonSchema)]
pub(crate) struct Agent {
    /// `CLUSTER/NODE`.
    id: String,
    cluster: String,
    node: String,
    version: String,
    present: bool,
    silent_ms: u64,
    waiting: u64,
    handed_over: u64,
    seen: Option<Object>,
    seen_ms: Option<u64>,
}

/// An agent that asks for orders.
#[derive(JsonSchema)]
pub(crate) struct AgentPull {
    /// Random id of this start of the agent.
    instance: String,
    #[serde(default)]
    version: String,
    /// The ids of orders in progress.
    #[serde(default)]
    holding: Vec<String>,
    /// The maximum wait in milliseconds, at most 30,000.
    #[serde(default)]
    wait_ms: u64,
}

/// Orders of an agent.
#[derive(JsonSchema)]
pub(crate) struct AgentOrders {
    orders: Vec<Object>,
    /// The ids of withdrawn orders.
    withdrawn: Vec<String>,
}

/// The result of an order.
#[derive(JsonSchema)]
pub(crate) struct AgentAnswer {
    /// The id of the order.
    id: String,
    /// `Ok` with the answer of the call, or `Err` with its error.
    outcome: Object,
}

/// True if the result was still awaited.
#[derive(JsonSchema)]
pub(crate) struct Awaited {
    awaited: bool,
}

/// The state of a node, observed by its agent.
#[derive(JsonSchema)]
pub(crate) struct AgentSeen {
    #[serde(default)]
    gpus: Option<Object>,
    #[serde(default)]
    health: Option<Object>,
    #[serde(default)]
    clients: Option<Vec<String>>,
    #[serde(default)]
    unknown: Vec<String>,
}

/// An empty answer.
#[derive(JsonSchema)]
pub(crate) struct Empty {}
