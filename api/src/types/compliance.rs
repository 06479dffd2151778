//! Holds, certificates, the audit, and the policies there were.
#![expect(dead_code, reason = "these describe what is kept in the books")]

use super::{Object, Time};
use schemars::JsonSchema;
use serde_json::Value;

/// What may not be destroyed, and who said so.
#[derive(JsonSchema)]
pub(crate) struct Hold {
    /// `TENANT/NAME`.
    id: String,
    tenant: String,
    /// `legal`, `incident` or `billing`.
    kind: String,
    /// `tenant`, or the workspace or asset that it is on.
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
    /// Of a released hold: which one of this name it was, from 1.
    #[schemars(skip_serializing_if = "Option::is_none")]
    number: Option<u32>,
    /// Of one hold: the released holds that had its name before, the first one first.
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
    /// Until when policy keeps it at least; null without an end.
    kept_until: Option<Time>,
    signed: bool,
    /// Whether it was withdrawn, and holds no more.
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
    /// What was found.
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
    /// What is there: `standing` is `returned`, `retention_over`, `excepted`, `retained` or `quarantined`.
    remains: Vec<Object>,
    /// How much more is there than is listed.
    more: u64,
    /// Sources that did not answer: what lies there is not known.
    unanswered: Vec<Object>,
    unanswered_since: Option<Time>,
    /// It in one sentence.
    says: String,
}

/// What people say that an asset's data is.
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
    /// Over the entry; the next one names it.
    digest: String,
    tenant: String,
    number: u64,
    previous: Option<String>,
    at: Time,
    actor: String,
    /// `person`, `service` or `engine`; `null` where nobody is known.
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
    /// The one cluster that it is about.
    #[schemars(skip_serializing_if = "Option::is_none")]
    cluster: Option<String>,
    /// The one workspace that it is about.
    #[schemars(skip_serializing_if = "Option::is_none")]
    workspace: Option<String>,
    #[schemars(skip_serializing_if = "Option::is_none")]
    from: Option<String>,
    #[schemars(skip_serializing_if = "Option::is_none")]
    to: Option<String>,
    #[schemars(skip_serializing_if = "Option::is_none")]
    outcome: Option<String>,
    /// When it took effect.
    #[schemars(skip_serializing_if = "Option::is_none")]
    actuated_at: Option<Time>,
    /// Of a vote: the approval.
    #[schemars(skip_serializing_if = "Option::is_none")]
    approval: Option<String>,
    /// Of the end of an execution: who approved it.
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
    /// Of `access.denied`: from where, what, and how often.
    #[schemars(skip_serializing_if = "Option::is_none")]
    denied: Option<Object>,
    journal: Object,
}

/// A public key with which this server signs certificates and the audit.
#[derive(JsonSchema)]
pub(crate) struct PublicKeyRow {
    /// What names the key in signatures: the SHA-256 of its SubjectPublicKeyInfo.
    id: String,
    /// `ed25519`.
    algorithm: String,
    /// The key.
    pem: String,
    /// What it signs.
    signs: Vec<String>,
}

/// The signed heads of the audit.
#[derive(JsonSchema)]
pub(crate) struct SignedCheckpoint {
    checkpoint: Object,
    /// The signature.
    by: Object,
    digest: String,
}

/// A time that a policy came into force.
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
    /// What a policy in force says that would be refused if it were published now.
    #[schemars(skip_serializing_if = "Option::is_none")]
    findings: Option<Vec<String>>,
    text: String,
}
