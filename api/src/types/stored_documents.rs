//! Documents that are read place by place, and not by a type: their fields are those that their readers know.
#![expect(dead_code, reason = "these describe what readers of their own read")]

use crate::types::{Object, Time, executions::Plan, workspaces::PolicyRef};
use schemars::JsonSchema;
use serde_json::Value;
use std::collections::BTreeMap;

/// A request for a tenant. docs/policy.md explains every field.
#[derive(JsonSchema)]
#[serde(deny_unknown_fields)]
pub(crate) struct TenantRequest {
    /// Lower-case letters, digits and `-`.
    name: String,
    tenant: Terms,
    #[serde(default)]
    workspaces: Option<Vec<WorkspaceAsked>>,
    entitlement: Asked,
    #[serde(default)]
    compliance: Option<Vec<Compliance>>,
    #[serde(default)]
    multitenancy: Option<Multitenancy>,
}

/// What service is asked for.
#[derive(JsonSchema)]
#[serde(deny_unknown_fields)]
#[schemars(rename = "TenantTerms")]
pub(crate) struct Terms {
    tier: Tier,
    isolation: Isolation,
    /// `any`, `eu-only`, or a list of jurisdictions.
    data_residency: Residency,
    allow_preemption: bool,
    allow_gpu_sharing: bool,
}

/// Where work and data may be.
#[derive(JsonSchema)]
#[serde(untagged)]
pub(crate) enum Residency {
    Word(ResidencyWord),
    Jurisdictions(Vec<String>),
}

/// Where work and data may be, in a word.
#[derive(JsonSchema)]
#[serde(rename_all = "kebab-case")]
pub(crate) enum ResidencyWord {
    Any,
    EuOnly,
}

/// What service was sold.
#[derive(JsonSchema)]
#[serde(rename_all = "snake_case")]
pub(crate) enum Tier {
    Enterprise,
    Standard,
    Research,
}

/// How far a tenant is kept apart.
#[derive(JsonSchema)]
#[serde(rename_all = "snake_case")]
pub(crate) enum Isolation {
    Dedicated,
    DedicatedCluster,
    DedicatedNodes,
    SharedSlices,
}

/// Rules of law or contract.
#[derive(JsonSchema)]
#[serde(rename_all = "snake_case")]
pub(crate) enum Compliance {
    Hipaa,
    Gdpr,
    Pci,
    Soc2,
    #[serde(rename = "21cfr11")]
    Cfr11,
}

/// Who shares what a tenant has.
#[derive(JsonSchema)]
#[serde(rename_all = "snake_case")]
pub(crate) enum Multitenancy {
    Team,
    Workload,
    Customer,
}

/// A workspace of a tenant.
#[derive(JsonSchema)]
#[serde(deny_unknown_fields)]
#[schemars(rename = "WorkspaceRequest")]
pub(crate) struct WorkspaceAsked {
    name: String,
    class: WorkspaceClass,
    #[serde(default)]
    quotas: Option<Quotas>,
}

/// What a workspace is for.
#[derive(JsonSchema)]
#[serde(rename_all = "snake_case")]
pub(crate) enum WorkspaceClass {
    Production,
    Research,
    Batch,
    Dev,
}

/// Quotas of a workspace.
#[derive(JsonSchema)]
#[serde(deny_unknown_fields)]
#[schemars(rename = "WorkspaceQuotas")]
pub(crate) struct Quotas {
    #[serde(default)]
    gpus: Option<u32>,
    /// In place of `gpus`, with isolation `shared_slices`; both limits then count slices too.
    #[serde(default)]
    slices: Option<u32>,
    #[serde(default)]
    borrowing_limit: Option<u32>,
    #[serde(default)]
    lending_limit: Option<u32>,
    #[serde(default)]
    cpu_milli: Option<u64>,
    #[serde(default)]
    memory_mib: Option<u64>,
    #[serde(default)]
    storage_gib: Option<u64>,
    #[serde(default)]
    pods: Option<u64>,
}

/// What is bought.
#[derive(JsonSchema)]
#[serde(deny_unknown_fields)]
#[schemars(rename = "EntitlementRequest")]
pub(crate) struct Asked {
    gpu_model: String,
    #[schemars(range(min = 1, max = 100_000))]
    gpus: u32,
    /// With isolation `shared_slices`: the slices that each GPU is cut into, such as `1g.10gb`; the smallest if absent.
    #[serde(default)]
    slice_profile: Option<String>,
    #[serde(default)]
    region: Option<String>,
    /// The first day, such as `2026-11-01`.
    #[serde(default)]
    from: Option<String>,
    /// The day on which it ends.
    #[serde(default)]
    to: Option<String>,
}

/// A request for another quota of one resource: `by` so much, or `to` so much.
#[derive(JsonSchema)]
#[serde(deny_unknown_fields)]
pub(crate) struct QuotaRequest {
    tenant: String,
    workspace: String,
    /// Such as `gpu/H100`.
    resource: String,
    #[serde(default)]
    by: Option<u64>,
    #[serde(default)]
    to: Option<u64>,
    #[serde(default)]
    borrowing_limit: Option<u64>,
    #[serde(default)]
    lending_limit: Option<u64>,
    /// When it ends by itself.
    #[serde(default)]
    until: Option<Time>,
    /// Whether more than was bought is asked for on purpose.
    #[serde(default)]
    exception: Option<bool>,
    reason: String,
}

/// A request for other terms of a tenant.
#[derive(JsonSchema)]
#[serde(deny_unknown_fields)]
pub(crate) struct SlaRequest {
    tenant: String,
    #[serde(default)]
    tier: Option<Tier>,
    #[serde(default)]
    isolation: Option<Isolation>,
    #[serde(default)]
    allow_preemption: Option<bool>,
    #[serde(default)]
    allow_gpu_sharing: Option<bool>,
    #[serde(default)]
    not_before: Option<Time>,
    reason: String,
}

/// A policy of the platform. docs/policy.md explains every field.
#[derive(JsonSchema)]
pub(crate) struct PolicyDocument {
    #[serde(flatten)]
    rules: BTreeMap<String, Value>,
}

/// A CloudEvent 1.0, structured; its data is what would be sent to the address that its type stands for.
#[derive(JsonSchema)]
pub(crate) struct CloudEvent {
    #[schemars(length(min = 1, max = 256))]
    id: String,
    #[schemars(length(min = 1, max = 256))]
    source: String,
    #[schemars(rename = "type", length(min = 1, max = 256))]
    kind: EventType,
    specversion: EventVersion,
    #[serde(default)]
    datacontenttype: Option<String>,
    #[serde(default)]
    data: Value,
    /// In place of `data`: the bytes of a document of `datacontenttype`.
    #[serde(default)]
    data_base64: Option<String>,
}

/// The version of CloudEvents that is taken.
#[derive(JsonSchema)]
#[schemars(rename = "CloudEventVersion")]
pub(crate) enum EventVersion {
    #[serde(rename = "1.0")]
    One,
}

/// What is done on an event.
#[derive(JsonSchema)]
#[schemars(rename = "CloudEventType")]
pub(crate) enum EventType {
    #[serde(rename = "tenant.create.requested")]
    TenantCreate,
    #[serde(rename = "tenant.offboard.requested")]
    TenantOffboard,
    #[serde(rename = "quota.change.requested")]
    QuotaChange,
    #[serde(rename = "workload.requested")]
    WorkloadRequested,
    #[serde(rename = "workload.finished")]
    WorkloadFinished,
    #[serde(rename = "incident.reported")]
    Incident,
}

/// A repair: its `kind`, what belongs to it, and why.
#[derive(JsonSchema)]
#[serde(tag = "kind", rename_all = "snake_case")]
pub(crate) enum Repair {
    /// A merge patch (RFC 7396) of the data.
    Edit { patch: Value, reason: String },
    /// The action has done its work.
    MarkDone {
        slot: u32,
        #[serde(default)]
        output: Value,
        evidence: String,
        reason: String,
    },
    /// The action has done nothing.
    MarkNotDone { slot: u32, evidence: String, reason: String },
    /// The step, or with `slot` the undo of that slot, is left out.
    Skip {
        #[serde(default)]
        slot: Option<u32>,
        reason: String,
    },
    /// The slot is undone by another action.
    UndoWith { slot: u32, undo: String, arguments: Value, reason: String },
}

/// What would be decided on a tenant, and done.
#[derive(JsonSchema)]
pub(crate) struct OnboardingPlan {
    /// The verdict, every rule's part in it, and the terms.
    decision: Object,
    plan: Plan,
    digest: String,
    /// `not_enforced` in a trial, where people count who are not separate from each other.
    #[schemars(skip_serializing_if = "Option::is_none")]
    separation: Option<String>,
}

/// What would be decided on a change, and done.
#[derive(JsonSchema)]
pub(crate) struct ChangePlan {
    /// Every rule's part in the decision.
    reasons: Vec<Object>,
    /// How much more is used than there would be; of a decrease.
    #[schemars(skip_serializing_if = "Option::is_none")]
    excess: Option<u64>,
    plan: Plan,
    digest: String,
    /// `not_enforced` in a trial, where people count who are not separate from each other.
    #[schemars(skip_serializing_if = "Option::is_none")]
    separation: Option<String>,
}

/// What would be destroyed, and what stands against it.
#[derive(JsonSchema)]
pub(crate) struct OffboardingPlan {
    plan: Plan,
    digest: String,
    /// `not_enforced` in a trial, where people count who are not separate from each other.
    #[schemars(skip_serializing_if = "Option::is_none")]
    separation: Option<String>,
    holds: Vec<Object>,
    /// Open executions that have to end first.
    others: Vec<String>,
    /// What holds data, each as `TYPE/LOCATOR`.
    things: Vec<String>,
    nodes: Vec<String>,
    /// By class of data, what is kept and for how long.
    kept: Object,
    /// What happens when: the export window, and the second approval.
    steps: Vec<String>,
}

/// What would be done.
#[derive(JsonSchema)]
pub(crate) struct PlanOnly {
    plan: Plan,
    digest: String,
    /// `not_enforced` in a trial, where people count who are not separate from each other.
    #[schemars(skip_serializing_if = "Option::is_none")]
    separation: Option<String>,
}

/// What would be called back.
#[derive(JsonSchema)]
pub(crate) struct ReclaimPlan {
    plan: Plan,
    digest: String,
    /// `not_enforced` in a trial, where people count who are not separate from each other.
    #[schemars(skip_serializing_if = "Option::is_none")]
    separation: Option<String>,
    #[schemars(skip_serializing_if = "Option::is_none")]
    verdict: Option<Value>,
    /// Why these, and why not others.
    #[schemars(skip_serializing_if = "Option::is_none")]
    why: Option<Value>,
}

/// What would be done about an incident.
#[derive(JsonSchema)]
pub(crate) struct IncidentPlan {
    plan: Plan,
    digest: String,
    /// `not_enforced` in a trial, where people count who are not separate from each other.
    #[schemars(skip_serializing_if = "Option::is_none")]
    separation: Option<String>,
    /// Workloads on the node, of a `gpu_fault`.
    running_there: Option<Vec<String>>,
}

/// A policy that came into force, or would.
#[derive(JsonSchema)]
pub(crate) struct PolicyPublished {
    reference: PolicyRef,
    before: PolicyRef,
    /// What differs, by key.
    changes: Vec<Object>,
    /// How many of its examples were tried.
    examples: u64,
    published: bool,
    /// Open executions, which go on under what they were begun under.
    untouched: Vec<Untouched>,
    untouched_complete: bool,
}

/// An open execution that a policy leaves alone.
#[derive(JsonSchema)]
pub(crate) struct Untouched {
    id: String,
    workflow: String,
    tenant: String,
    state: String,
}

/// Every rule that holds for a tenant.
#[derive(JsonSchema)]
pub(crate) struct TenantRules {
    tenant: String,
    policy: PolicyRef,
    decided_under: PolicyRef,
    /// Each with `topic`, `rule`, `says`, and the place that says so.
    rules: Vec<Object>,
}
