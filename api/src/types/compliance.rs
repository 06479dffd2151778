//! Holds, certificates, the audit, and versions of the policy.
#![expect(dead_code, reason = "these describe documents of the ledger")]

use super::{Object, Time};
use schemars::JsonSchema;
use serde_json::Value;

/// A hold, which prevents the destruction of data.
#[derive(JsonSchema)]
pub(crate) struct Hold {
    /// `TENANT/NAME`.
    id: String,
    tenant: String,
    /// `legal`, `incident` or `billing`.
    kind: String,
    /// `tenant`, or the workspace or asset that it covers.
    scope: Value,
    reason: String,
    placed_by: String,
    placed_at: Time,
    review_at: Option<Time>,
    /// `open` or `released`.
    state: String,
    #[schemars(skip_serializing_if = "Option::is_none")]
    released_by: Option<String>,
    #[schemars(skip_serializing_if = "Option::is_none")]
    released_at: Option<Time>,
    #[schemars(skip_serializing_if = "Option::is_none")]
    released_because: Option<String>,
    /// For a released hold: its number among the holds with this name, from 1.
    #[schemars(skip_serializing_if = "Option::is_none")]
    number: Option<u32>,
    /// For a single hold: the released holds with the same name, oldest first.
    #[schemars(skip_serializing_if = "Option::is_none")]
    earlier: Option<Vec<Value>>,
}

/// A certificate of destruction in lists.
#[derive(JsonSchema)]
pub(crate) struct CertificateRow {
    id: String,
    tenant: String,
    /// `complete` or `with_exceptions`.
    kind: String,
    title: String,
    exceptions: u64,
    issued_at: Time,
    /// The end of the minimum retention; null without an end.
    kept_until: Option<Time>,
    signed: bool,
    /// True if it was withdrawn and is not valid any more.
    withdrawn: bool,
    /// By whom, when and why; null while it holds.
    withdrawal: Option<Object>,
    /// Of a supplementary certificate: the first certificate of the tenant.
    supplements: Option<String>,
}

/// The withdrawal of a certificate.
#[derive(JsonSchema)]
pub(crate) struct Withdrawal {
    /// `TENANT/CERTIFICATE`.
    id: String,
    tenant: String,
    /// The certificate.
    certificate: String,
    /// The SHA-256 of the cover of that certificate.
    digest: String,
    withdrawn_by: String,
    /// The roles that person held.
    roles: Vec<String>,
    withdrawn_at: Time,
    reason: String,
    /// The findings.
    found: Vec<String>,
    /// The signed statement: one line of a file for `tenure certificate verify --withdrawals`.
    file: String,
}

/// The last look at a closed tenant.
#[derive(JsonSchema)]
pub(crate) struct ClosedTenantLook {
    id: String,
    tenant: String,
    at: Time,
    /// When the last look began in which every source answered.
    complete_at: Option<Time>,
    /// Since when looks have found something that no certificate accounts for.
    found_since: Option<Time>,
    /// How many such things the last look lists.
    findings: u64,
    /// The objects that exist: `standing` is `returned`, `retention_over`, `excepted`, `retained` or `quarantined`.
    remains: Vec<Object>,
    /// How much more is there than is listed.
    more: u64,
    /// Sources that did not answer. Their objects are unknown.
    unanswered: Vec<Object>,
    unanswered_since: Option<Time>,
    /// It in one sentence.
    says: String,
}

/// The classification of an asset.
#[derive(JsonSchema)]
pub(crate) struct Classification {
    tenant: String,
    asset: String,
    class: String,
    by: String,
    reason: String,
    at: Time,
}

/// A sealed entry of the audit.
#[derive(JsonSchema)]
pub(crate) struct AuditEntry {
    /// `TENANT/NUMBER`; `-/NUMBER` for the platform's own.
    id: String,
    /// The digest of the entry; the next entry contains it.
    digest: String,
    tenant: String,
    number: u64,
    previous: Option<String>,
    at: Time,
    actor: String,
    /// `person`, `service` or `engine`; `null` for an unknown caller.
    kind: Option<String>,
    #[schemars(skip_serializing_if = "Option::is_none")]
    roles: Option<Vec<String>>,
    event: String,
    says: String,
    #[schemars(skip_serializing_if = "Option::is_none")]
    execution: Option<String>,
    #[schemars(skip_serializing_if = "Option::is_none")]
    workflow: Option<String>,
    subject: String,
    /// The cluster, if the entry is about one.
    #[schemars(skip_serializing_if = "Option::is_none")]
    cluster: Option<String>,
    /// The workspace, if the entry is about one.
    #[schemars(skip_serializing_if = "Option::is_none")]
    workspace: Option<String>,
    #[schemars(skip_serializing_if = "Option::is_none")]
    from: Option<String>,
    #[schemars(skip_serializing_if = "Option::is_none")]
    to: Option<String>,
    #[schemars(skip_serializing_if = "Option::is_none")]
    outcome: Option<String>,
    /// The time at which it takes effect.
    #[schemars(skip_serializing_if = "Option::is_none")]
    actuated_at: Option<Time>,
    /// For a vote: the approval.
    #[schemars(skip_serializing_if = "Option::is_none")]
    approval: Option<String>,
    /// For the end of an execution: its approvers.
    #[schemars(skip_serializing_if = "Option::is_none")]
    approved: Option<Vec<Object>>,
    #[schemars(skip_serializing_if = "Option::is_none")]
    reason: Option<String>,
    #[schemars(skip_serializing_if = "Option::is_none")]
    plan: Option<Object>,
    #[schemars(skip_serializing_if = "Option::is_none")]
    policy: Option<Object>,
    #[schemars(skip_serializing_if = "Option::is_none")]
    wrote: Option<Vec<String>>,
    #[schemars(skip_serializing_if = "Option::is_none")]
    removed: Option<Vec<String>>,
    /// For `access.denied`: the source, the requests and their number.
    #[schemars(skip_serializing_if = "Option::is_none")]
    denied: Option<Object>,
    journal: Object,
}

/// A public key with which this server signs certificates and the audit.
#[derive(JsonSchema)]
pub(crate) struct PublicKeyRow {
    /// The key id in signatures: the SHA-256 of its SubjectPublicKeyInfo.
    id: String,
    /// `ed25519`.
    algorithm: String,
    /// The public key.
    pem: String,
    /// The signed documents.
    signs: Vec<String>,
}

/// A signed checkpoint of the audit.
#[derive(JsonSchema)]
pub(crate) struct SignedCheckpoint {
    checkpoint: Object,
    /// The signature.
    by: Object,
    digest: String,
}

/// A publication of the policy.
#[derive(JsonSchema)]
pub(crate) struct PolicyRow {
    id: u64,
    version: u32,
    digest: String,
    before: u32,
    author: String,
    effective_from: Time,
}

/// A version of the policy, with its text.
#[derive(JsonSchema)]
pub(crate) struct Policy {
    id: u32,
    #[schemars(skip_serializing_if = "Option::is_none")]
    digest: Option<String>,
    author: String,
    #[schemars(skip_serializing_if = "Option::is_none")]
    published_at: Option<Time>,
    in_force: bool,
    /// Errors that would reject the policy if it were published now.
    #[schemars(skip_serializing_if = "Option::is_none")]
    findings: Option<Vec<String>>,
    text: String,
}
