//! Documents in the account of a tenant.
#![expect(dead_code, reason = "these describe documents of the ledger")]

use super::{Object, Span, Time};
use schemars::JsonSchema;
use std::collections::BTreeMap;

/// A version of a policy.
#[derive(JsonSchema)]
pub(crate) struct PolicyRef {
    name: String,
    version: u32,
    digest: String,
}

/// A part of a tenant with its own quotas.
#[derive(JsonSchema)]
pub(crate) struct Workspace {
    /// `TENANT/NAME`.
    id: String,
    tenant: String,
    name: String,
    /// `production`, `research`, `batch` or `dev`.
    class: String,
    /// The usage of each resource.
    #[schemars(rename = "use", skip_serializing_if = "Option::is_none")]
    used: Option<BTreeMap<String, Used>>,
    /// `open` for new work, or the reason why it is frozen.
    #[schemars(skip_serializing_if = "Option::is_none")]
    admitting: Option<serde_json::Value>,
    /// The number of queued workloads.
    #[schemars(skip_serializing_if = "Option::is_none")]
    waiting: Option<u32>,
    #[schemars(skip_serializing_if = "Option::is_none")]
    waiting_since: Option<Time>,
    #[schemars(skip_serializing_if = "Option::is_none")]
    slowed_until: Option<Time>,
}

/// The usage of a resource, in its unit.
#[derive(JsonSchema)]
pub(crate) struct Used {
    /// `null` without a limit.
    nominal: Option<u64>,
    used: u64,
    in_transit: u64,
    borrowed: u64,
    lent: u64,
    over: u64,
}

/// The allowance of a workspace for a resource.
#[derive(JsonSchema)]
pub(crate) struct Allowance {
    nominal: u64,
    borrowing_limit: Option<u64>,
    lending_limit: Option<u64>,
}

/// The quota of a workspace.
#[derive(JsonSchema)]
pub(crate) struct Quota {
    /// `TENANT/WORKSPACE`.
    id: String,
    tenant: String,
    workspace: String,
    /// By resource, such as `gpu/H100`.
    allowances: BTreeMap<String, Allowance>,
    version: u32,
    /// The execution that set it.
    set_by: String,
    ends: Option<QuotaEnd>,
    #[schemars(rename = "use")]
    used: Option<BTreeMap<String, Used>>,
}

/// The end of a quota, and its successor.
#[derive(JsonSchema)]
pub(crate) struct QuotaEnd {
    at: Time,
    then: BTreeMap<String, Allowance>,
}

/// GPUs that one workspace has borrowed from another.
#[derive(JsonSchema)]
pub(crate) struct Loan {
    /// `TENANT/NUMBER`.
    id: String,
    number: u64,
    tenant: String,
    /// A workspace, or `@pool`: GPUs that the tenant bought but promised to no workspace.
    lender: String,
    borrower: String,
    resource: String,
    amount: u64,
    workload: String,
    /// The admission decision that made the loan.
    decision: String,
    granted_at: Time,
    protected_until: Time,
    due: Time,
    /// `active`, `recall_notified`, `draining`, `returned`, `overdue` or `written_off`.
    state: String,
    ended_at: Option<Time>,
}

/// GPUs that are promised to a workspace.
#[derive(JsonSchema)]
pub(crate) struct Reservation {
    /// `TENANT/WORKSPACE/NAME`.
    id: String,
    name: String,
    tenant: String,
    workspace: String,
    /// A GPU model, or a slice as `MODEL/PROFILE`.
    kind: String,
    count: u64,
    from: Time,
    to: Option<Time>,
    reclaim_deadline: Span,
    grace: Span,
}

/// The GPUs of a workload on a node.
#[derive(JsonSchema)]
pub(crate) struct Placed {
    node: String,
    /// The number of units on each GPU, by its index.
    gpus: BTreeMap<String, u16>,
}

/// The observed location of a workload.
#[derive(JsonSchema)]
pub(crate) struct ObservedPlacement {
    /// The uid of the workload in the cluster.
    #[schemars(skip_serializing_if = "Option::is_none")]
    uid: Option<String>,
    /// The GPUs by node.
    nodes: BTreeMap<String, BoundGpus>,
}

/// The GPUs of a workload on one node.
#[derive(JsonSchema)]
pub(crate) struct BoundGpus {
    count: u64,
    /// The known GPUs.
    #[schemars(skip_serializing_if = "Option::is_none")]
    gpus: Option<Vec<ObservedGpu>>,
    #[schemars(skip_serializing_if = "Option::is_none")]
    node_uid: Option<String>,
    #[schemars(skip_serializing_if = "Option::is_none")]
    since: Option<Time>,
}

/// A GPU with a workload.
#[derive(JsonSchema)]
pub(crate) struct ObservedGpu {
    uuid: String,
    #[schemars(skip_serializing_if = "Option::is_none")]
    index: Option<u16>,
}

/// A workload.
#[derive(JsonSchema)]
pub(crate) struct Workload {
    /// `TENANT/NAME`.
    id: String,
    name: String,
    tenant: String,
    workspace: String,
    /// `service`, `batch` or `interactive`.
    class: String,
    priority: i32,
    preemptible: bool,
    /// `none`, `signal` or `api`.
    checkpoint: String,
    requests: BTreeMap<String, u64>,
    together: u64,
    labels: Vec<String>,
    /// `waiting`, `admitted`, `reclaimed`, `finished` or `rejected`.
    state: String,
    /// The booked location: as planned, until its cluster reports the real one.
    placed: Vec<Placed>,
    /// The location that its cluster reports.
    #[schemars(skip_serializing_if = "Option::is_none")]
    observed: Option<ObservedPlacement>,
    /// For an admitted workload, the known part of its location: `expected` (none), `bound` (the nodes) or `observed` (the GPUs).
    placement: Option<String>,
    submitted_at: Time,
    admitted_at: Option<Time>,
    #[schemars(skip_serializing_if = "Option::is_none")]
    ended_at: Option<Time>,
    evictions: u32,
    /// The last admission decision.
    decision: String,
    /// The execution that reclaimed its GPUs.
    reclaimed_by: Option<String>,
}

/// A finished workload.
#[derive(JsonSchema)]
pub(crate) struct Finished {
    #[serde(flatten)]
    workload: Workload,
    /// The names of workloads that were admitted as a result.
    admitted_by_that: Vec<String>,
}

/// One check of an admission decision.
#[derive(JsonSchema)]
pub(crate) struct Weighed {
    /// `quota`, `reservation`, `borrowable`, `ownership`, `availability` or `policy`.
    dimension: String,
    resource: Option<String>,
    answer: Verdict,
    value: Option<u64>,
    limit: Option<u64>,
    code: String,
    why: String,
}

/// The answer to a workload.
#[derive(JsonSchema)]
#[serde(rename_all = "snake_case")]
#[schemars(rename = "AdmissionAnswer")]
pub(crate) enum Verdict {
    Admit,
    Queue,
    Reject,
}

/// An admission decision.
#[derive(JsonSchema)]
#[schemars(rename = "AdmissionDecision")]
pub(crate) struct Decision {
    /// `TENANT/NUMBER`.
    id: String,
    number: u64,
    tenant: String,
    workspace: String,
    workload: String,
    requests: BTreeMap<String, u64>,
    answer: Verdict,
    weighed: Vec<Weighed>,
    policy: PolicyRef,
    /// The facts of the decision.
    grounds: Object,
    facts_digest: String,
    at: Time,
}

/// The result of a submission.
#[derive(JsonSchema)]
#[schemars(rename = "SubmittedWorkload")]
pub(crate) struct Submitted {
    answer: Verdict,
    decision: Decision,
    placed: Vec<Placed>,
    reclaims_for: Vec<Demand>,
}

/// The reclaim for a queued workload.
#[derive(JsonSchema)]
pub(crate) struct Demand {
    tenant: String,
    workspace: String,
    workload: String,
    resource: String,
    wanted: u64,
    since: Time,
    deadline: Time,
}

/// A month of usage, in milliseconds of each unit of a resource.
#[derive(JsonSchema)]
pub(crate) struct Usage {
    tenant: String,
    workspace: String,
    month: String,
    from: Time,
    to: Time,
    spent: BTreeMap<String, Spent>,
}

/// The usage of a resource.
#[derive(JsonSchema)]
pub(crate) struct Spent {
    own: u64,
    borrowed: u64,
    over: u64,
    in_transit: u64,
    lent: u64,
}

/// A broken promise.
#[derive(JsonSchema)]
#[schemars(rename = "MissedReclaim")]
pub(crate) struct Missed {
    tenant: String,
    workspace: String,
    resource: String,
    workload: String,
    deadline: Time,
    reclaim: Option<String>,
    held_by: Vec<String>,
    noticed_at: Time,
}

/// The result of a report of cluster facts.
#[derive(JsonSchema)]
pub(crate) struct FactsTaken {
    tenants: u64,
    nodes: u64,
    /// The number of workloads that were admitted as a result.
    admitted: u64,
    /// Workloads whose booking moved to their real location.
    moved: Vec<MovedWorkload>,
    drift: Vec<TenantDrift>,
}

/// A workload whose booking moved to its real location.
#[derive(JsonSchema)]
pub(crate) struct MovedWorkload {
    tenant: String,
    workload: String,
}

/// GPUs in use that the ledger does not know.
#[derive(JsonSchema)]
pub(crate) struct TenantDrift {
    tenant: String,
    drift: Drift,
}

/// GPUs in use on a node that the ledger does not know.
#[derive(JsonSchema)]
pub(crate) struct Drift {
    node: String,
    kind: String,
    astray: u64,
}
