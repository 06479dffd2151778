//! Schemas of documents that have their own parsers. The fields are those that the parsers accept.
#![expect(dead_code, reason = "these describe the input of separate parsers")]

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

/// The requested service.
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

/// The permitted locations of work and data.
#[derive(JsonSchema)]
#[serde(untagged)]
pub(crate) enum Residency {
    Word(ResidencyWord),
    Jurisdictions(Vec<String>),
}

/// The permitted locations, as one word.
#[derive(JsonSchema)]
#[serde(rename_all = "kebab-case")]
pub(crate) enum ResidencyWord {
    Any,
    EuOnly,
}

/// The purchased service level.
#[derive(JsonSchema)]
#[serde(rename_all = "snake_case")]
pub(crate) enum Tier {
    Enterprise,
    Standard,
    Research,
}

/// The isolation of a tenant.
#[derive(JsonSchema)]
#[serde(rename_all = "snake_case")]
pub(crate) enum Isolation {
    Dedicated,
    DedicatedCluster,
    DedicatedNodes,
    SharedSlices,
}

/// Legal or contractual rules.
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

/// Sharing of a tenant's resources.
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

/// The purpose of a workspace.
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
    /// Instead of `gpus`, with isolation `shared_slices`; both limits then count slices too.
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

/// The purchased resources.
#[derive(JsonSchema)]
#[serde(deny_unknown_fields)]
#[schemars(rename = "EntitlementRequest")]
pub(crate) struct Asked {
    gpu_model: String,
    #[schemars(range(min = 1, max = 100_000))]
    gpus: u32,
    /// With isolation `shared_slices`: the slice profiles of each GPU, such as `1g.10gb`; the smallest if absent.
    #[serde(default)]
    slice_profile: Option<String>,
    #[serde(default)]
    region: Option<String>,
    /// The first day, such as `2026-11-01`.
    #[serde(default)]
    from: Option<String>,
    /// The last day.
    #[serde(default)]
    to: Option<String>,
}

/// A quota request for one resource: a change `by` an amount, or `to` an amount.
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
    /// The end of the change; the old quota returns then.
    #[serde(default)]
    until: Option<Time>,
    /// True to request more than was bought.
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

/// A structured CloudEvent 1.0. Its data is the body of the route for its type.
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
    /// Instead of `data`: the base64 bytes of a document of `datacontenttype`.
    #[serde(default)]
    data_base64: Option<String>,
}

/// The supported version of CloudEvents.
#[derive(JsonSchema)]
#[schemars(rename = "CloudEventVersion")]
pub(crate) enum EventVersion {
    #[serde(rename = "1.0")]
    One,
}

/// The effect of an event, by its type.
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

/// A repair: its `kind`, the arguments of the kind, and the reason.
#[derive(JsonSchema)]
#[serde(tag = "kind", rename_all = "snake_case")]
pub(crate) enum Repair {
    /// A merge patch (RFC 7396) of the data.
    Edit { patch: Value, reason: String },
    /// The action has completed.
    MarkDone {
        slot: u32,
        #[serde(default)]
        output: Value,
        evidence: String,
        reason: String,
    },
    /// The action has done nothing.
    MarkNotDone { slot: u32, evidence: String, reason: String },
    /// Skips the step, or with `slot` the undo of that slot.
    Skip {
        #[serde(default)]
        slot: Option<u32>,
        reason: String,
    },
    /// Undoes the slot with another action.
    UndoWith { slot: u32, undo: String, arguments: Value, reason: String },
}

/// The plan.
#[derive(JsonSchema)]
pub(crate) struct PlanOnly {
    plan: Plan,
    digest: String,
    /// `not_enforced` in a trial, where votes of persons who are not separate count.
    #[schemars(skip_serializing_if = "Option::is_none")]
    separation: Option<String>,
}

/// The decision on a tenant and its plan.
#[derive(JsonSchema)]
pub(crate) struct OnboardingPlan {
    /// The verdict, the result of every rule, and the terms.
    decision: Object,
    #[serde(flatten)]
    planned: PlanOnly,
}

/// The decision on a change and its plan.
#[derive(JsonSchema)]
pub(crate) struct ChangePlan {
    /// The result of every rule.
    reasons: Vec<Object>,
    /// For a decrease: the usage above the new quota.
    #[schemars(skip_serializing_if = "Option::is_none")]
    excess: Option<u64>,
    #[serde(flatten)]
    planned: PlanOnly,
}

/// The assets to destroy, and the obstacles.
#[derive(JsonSchema)]
pub(crate) struct OffboardingPlan {
    #[serde(flatten)]
    planned: PlanOnly,
    holds: Vec<Object>,
    /// Open executions that must end first.
    others: Vec<String>,
    /// The assets that hold data, each as `TYPE/LOCATOR`.
    things: Vec<String>,
    nodes: Vec<String>,
    /// Retained data, by data class, with the retention period.
    kept: Object,
    /// The timeline: the export window, and the second approval.
    steps: Vec<String>,
}

/// The plan of a reclaim.
#[derive(JsonSchema)]
pub(crate) struct ReclaimPlan {
    #[serde(flatten)]
    planned: PlanOnly,
    #[schemars(skip_serializing_if = "Option::is_none")]
    verdict: Option<Value>,
    /// Why each candidate is a victim or not.
    #[schemars(skip_serializing_if = "Option::is_none")]
    why: Option<Value>,
}

/// The plan of an incident response.
#[derive(JsonSchema)]
pub(crate) struct IncidentPlan {
    #[serde(flatten)]
    planned: PlanOnly,
    /// For `gpu_fault`: the workloads on the node.
    running_there: Option<Vec<String>>,
}

/// A published policy, or the preview of a publication.
#[derive(JsonSchema)]
pub(crate) struct PolicyPublished {
    reference: PolicyRef,
    before: PolicyRef,
    /// The differences, by key.
    changes: Vec<Object>,
    /// The number of its examples that were run.
    examples: u64,
    published: bool,
    /// Open executions, which keep their terms.
    untouched: Vec<Untouched>,
    untouched_complete: bool,
}

/// An open execution that keeps its terms.
#[derive(JsonSchema)]
pub(crate) struct Untouched {
    id: String,
    workflow: String,
    tenant: String,
    state: String,
}

/// Every rule for a tenant.
#[derive(JsonSchema)]
pub(crate) struct TenantRules {
    tenant: String,
    policy: PolicyRef,
    decided_under: PolicyRef,
    /// Each with `topic`, `rule`, `says`, and its source.
    rules: Vec<Object>,
}
