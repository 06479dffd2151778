//! What is in a tenant's account.
#![expect(dead_code, reason = "these describe what is kept in the books")]

use super::{Object, Span, Time};
use schemars::JsonSchema;
use std::collections::BTreeMap;

/// Which version of a policy.
#[derive(JsonSchema)]
pub(crate) struct PolicyRef {
    name: String,
    version: u32,
    digest: String,
}

/// A part of a tenant that has quotas of its own.
#[derive(JsonSchema)]
pub(crate) struct Workspace {
    /// `TENANT/NAME`.
    id: String,
    tenant: String,
    name: String,
    /// `production`, `research`, `batch` or `dev`.
    class: String,
    /// What is used of each resource.
    #[schemars(rename = "use", skip_serializing_if = "Option::is_none")]
    used: Option<BTreeMap<String, Used>>,
    /// Whether new work is let in: `open`, or who froze it.
    #[schemars(skip_serializing_if = "Option::is_none")]
    admitting: Option<serde_json::Value>,
    /// How many workloads wait.
    #[schemars(skip_serializing_if = "Option::is_none")]
    waiting: Option<u32>,
    #[schemars(skip_serializing_if = "Option::is_none")]
    waiting_since: Option<Time>,
    #[schemars(skip_serializing_if = "Option::is_none")]
    slowed_until: Option<Time>,
}

/// What is used of a resource, in its unit.
#[derive(JsonSchema)]
pub(crate) struct Used {
    /// `null` where there is no limit.
    nominal: Option<u64>,
    used: u64,
    in_transit: u64,
    borrowed: u64,
    lent: u64,
    over: u64,
}

/// How much of a resource a workspace may have.
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

/// When a quota ends, and what holds then.
#[derive(JsonSchema)]
pub(crate) struct QuotaEnd {
    at: Time,
    then: BTreeMap<String, Allowance>,
}

/// GPUs that one workspace has from another.
#[derive(JsonSchema)]
pub(crate) struct Loan {
    /// `TENANT/NUMBER`.
    id: String,
    number: u64,
    tenant: String,
    /// A workspace, or `@pool`: what the tenant bought and promised to no workspace.
    lender: String,
    borrower: String,
    resource: String,
    amount: u64,
    workload: String,
    /// The decision on admission that made it.
    decision: String,
    granted_at: Time,
    protected_until: Time,
    due: Time,
    /// `active`, `recall_notified`, `draining`, `returned`, `overdue` or `written_off`.
    state: String,
    ended_at: Option<Time>,
}

/// GPUs that a workspace is promised.
#[derive(JsonSchema)]
pub(crate) struct Reservation {
    /// `TENANT/WORKSPACE/NAME`.
    id: String,
    name: String,
    tenant: String,
    workspace: String,
    /// A model, or a slice as `MODEL/PROFILE`.
    kind: String,
    count: u64,
    from: Time,
    to: Option<Time>,
    reclaim_deadline: Span,
    grace: Span,
}

/// Where a workload's GPUs lie.
#[derive(JsonSchema)]
pub(crate) struct Placed {
    node: String,
    /// How many pieces, by the number of the GPU.
    gpus: BTreeMap<String, u16>,
}

/// Where a workload was seen to run.
#[derive(JsonSchema)]
pub(crate) struct ObservedPlacement {
    /// Its uid in the cluster.
    #[schemars(skip_serializing_if = "Option::is_none")]
    uid: Option<String>,
    /// By node.
    nodes: BTreeMap<String, BoundGpus>,
}

/// What a workload has on a node.
#[derive(JsonSchema)]
pub(crate) struct BoundGpus {
    count: u64,
    /// The GPUs that are known.
    #[schemars(skip_serializing_if = "Option::is_none")]
    gpus: Option<Vec<ObservedGpu>>,
    #[schemars(skip_serializing_if = "Option::is_none")]
    node_uid: Option<String>,
    #[schemars(skip_serializing_if = "Option::is_none")]
    since: Option<Time>,
}

/// A GPU on which a workload was seen.
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
    /// Where the books have it: as planned, until its cluster says where it runs.
    placed: Vec<Placed>,
    /// Where its cluster says that it runs.
    #[schemars(skip_serializing_if = "Option::is_none")]
    observed: Option<ObservedPlacement>,
    /// While admitted, what is known of where it runs: `expected` (nothing), `bound` (on which nodes) or `observed` (on which GPUs).
    placement: Option<String>,
    submitted_at: Time,
    admitted_at: Option<Time>,
    #[schemars(skip_serializing_if = "Option::is_none")]
    ended_at: Option<Time>,
    evictions: u32,
    /// The last decision on it.
    decision: String,
    /// The execution that took its GPUs.
    reclaimed_by: Option<String>,
}

/// A workload that has ended.
#[derive(JsonSchema)]
pub(crate) struct Finished {
    #[serde(flatten)]
    workload: Workload,
    /// Names of those that were admitted by that.
    admitted_by_that: Vec<String>,
}

/// One thing that was weighed.
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

/// What a workload was told.
#[derive(JsonSchema)]
#[serde(rename_all = "snake_case")]
#[schemars(rename = "AdmissionAnswer")]
pub(crate) enum Verdict {
    Admit,
    Queue,
    Reject,
}

/// A decision on admission.
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
    /// The facts that it was decided on.
    grounds: Object,
    facts_digest: String,
    at: Time,
}

/// What came of asking for a workload.
#[derive(JsonSchema)]
#[schemars(rename = "SubmittedWorkload")]
pub(crate) struct Submitted {
    answer: Verdict,
    decision: Decision,
    placed: Vec<Placed>,
    reclaims_for: Vec<Demand>,
}

/// What is called back for a workload that waits.
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

/// What was used of a resource.
#[derive(JsonSchema)]
pub(crate) struct Spent {
    own: u64,
    borrowed: u64,
    over: u64,
    in_transit: u64,
    lent: u64,
}

/// A promise that was broken.
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

/// What was taken in of a cluster.
#[derive(JsonSchema)]
pub(crate) struct FactsTaken {
    tenants: u64,
    nodes: u64,
    /// How many workloads were admitted by it.
    admitted: u64,
    /// Workloads whose booking moved to where they run.
    moved: Vec<MovedWorkload>,
    drift: Vec<TenantDrift>,
}

/// A workload whose booking moved to where it runs.
#[derive(JsonSchema)]
pub(crate) struct MovedWorkload {
    tenant: String,
    workload: String,
}

/// GPUs in use that the books do not know of.
#[derive(JsonSchema)]
pub(crate) struct TenantDrift {
    tenant: String,
    drift: Drift,
}

/// GPUs of a node in use that the books do not know of.
#[derive(JsonSchema)]
pub(crate) struct Drift {
    node: String,
    kind: String,
    astray: u64,
}
