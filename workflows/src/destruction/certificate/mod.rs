//! The certificate of destruction: a document that any reader can verify with the public key.
//!
//! It has a signed cover and pages with the assets; the cover has the digest of each page. Invariant (I-18): every asset of the inventory is on the
//! pages exactly once, with its record or with the reason for its exception.

mod assemble;
mod checked_json;
mod contents;
mod documents;
pub mod envelope;
#[cfg(test)]
mod forgeries;
mod issue;
mod listing;
pub mod print;
mod problem;
mod rules;
mod sentences;
mod sign;
#[cfg(test)]
mod supplements;
mod verify;
mod withdrawal;

pub use assemble::{AssembleCertificate, AssembledCertificate};
pub use checked_json::PAYLOAD_TYPE;
pub(crate) use documents::ListPart;
pub use documents::{CertificatePage, KeepCertificate, StoredCertificate, certificate_file};
pub use issue::{CertificateDraft, Exceptions, IssuedCertificate, NotIssued, issue};
pub use problem::Problem;
pub use sentences::{RecordSources, SentenceKind, Source, Statement, statements};
pub use sign::{CertificateSignature, SignCertificate};
pub use verify::{CLOCK_SKEW, Verification, verify, verify_at};
pub use withdrawal::{
    CertificateWithdrawal, NotWithdrawn, ReadWithdrawals, UnsignedWithdrawal, WITHDRAWAL_FORMAT,
    WithdrawalOrder, WithdrawalStatement, WithdrawnBy, apply_withdrawals, keep_withdrawal, sign_withdrawal,
    withdrawal_draft,
};

use crate::{
    destruction::{
        asset::{Asset, DataClass},
        legal_hold::HoldScope,
        sanitisation::{attribution::RecordedRepair, record::SanitisationRecord},
    },
    policy::PolicyRef,
    signing::{Digest, Moment},
    tenancy::TenantId,
};
use engine::Seat;
use serde::{Deserialize, Serialize};
use serde_json::Value;
use std::collections::BTreeMap;
use store::ExecutionId;

/// The format of a certificate. Another format has another name, so that an older verifier rejects it.
pub const FORMAT: &str = "tenure certificate of destruction 1";

/// The kind of a certificate.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, strum::IntoStaticStr, strum::Display)]
#[serde(rename_all = "snake_case")]
#[strum(serialize_all = "snake_case")]
pub enum CertificateKind {
    /// Every asset has a valid record.
    Complete,
    /// Some assets have no valid record. Each has a reason.
    WithExceptions,
}

/// The reason for a destruction.
#[derive(
    Clone,
    Copy,
    Debug,
    PartialEq,
    Eq,
    Serialize,
    Deserialize,
    strum::IntoStaticStr,
    strum::EnumString,
    strum::Display,
)]
#[serde(rename_all = "snake_case")]
#[strum(serialize_all = "snake_case")]
pub enum ErasureBasis {
    /// The contract has ended.
    ContractEnd,
    /// The tenant requested it.
    TenantRequest,
    /// A data subject requested erasure (GDPR art. 17).
    ErasureRequest,
    /// A court or an authority ordered it.
    LegalOrder,
}

/// The reason, with its reference.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct LegalBasis {
    /// The reason.
    pub basis: ErasureBasis,
    /// The contract clause, or the number of the order.
    pub reference: String,
}

/// The tenant whose data were destroyed.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct FormerTenant {
    /// The tenant's id.
    pub tenant: TenantId,
    /// The execution that onboarded the tenant. It distinguishes the tenant from another one of the same name.
    pub onboarded_by: Option<ExecutionId>,
    /// The time of the onboarding.
    pub onboarded_at: Option<Moment>,
}

/// The request for the destruction.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct RecordedRequest {
    /// The requester.
    pub by: String,
    /// The time of the request.
    pub at: Moment,
    /// The reason.
    pub reason: String,
}

/// One vote.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct RecordedVote {
    /// The voter.
    pub name: String,
    /// The roles of the voter at that time, or those of the delegator.
    pub roles: Vec<String>,
    /// The delegator, for a vote by delegation.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub on_behalf_of: Option<String>,
    /// True for a vote that was sufficient on its own, in an emergency.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub break_glass: bool,
    /// The creator of the voter's user, if it was recorded.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub created_by: Option<String>,
    /// The way in which the voter received the credential, if it was recorded.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub claim: Option<engine::Claim>,
    /// The issuer of the credential, or the creator of its enrolment code.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub issued_by: Option<String>,
    /// The reason why the vote is not independent, if it counted although it is not.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub not_separate: Option<engine::Tie>,
    /// The time when the voter's user was removed, if that was before the certificate was issued.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub removed_on: Option<Moment>,
    /// The verdict: for or against the plan.
    pub verdict: engine::Verdict,
    /// The reason.
    pub reason: String,
    /// The time of the vote.
    pub at: Moment,
}

/// A granted approval with its plan.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct RecordedApproval {
    /// The state of the workflow that requested the approval.
    pub gate: String,
    /// The name of the workflow.
    pub workflow: String,
    /// The schema version of its data.
    pub schema: u32,
    /// The approved plan. `plan_digest` is the digest of the plan.
    pub plan: Value,
    /// The digest that the votes are bound to.
    pub plan_digest: String,
    /// The requester, who could not vote.
    pub requested_by: String,
    /// The required seats.
    pub seats: Vec<Seat>,
    /// The votes.
    pub votes: Vec<RecordedVote>,
    /// The time of the request.
    pub opened_at: Moment,
    /// The time of the grant.
    pub granted_at: Moment,
}

/// Retained data that are not in the inventory, such as the audit log.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Retained {
    /// A description of the data.
    pub what: String,
    /// The class of the data.
    pub data_class: DataClass,
    /// The retention rule.
    pub rule: String,
    /// The reason.
    pub reason: String,
    /// The time by which they will be destroyed.
    pub destroy_by: Option<Moment>,
}

/// A place that was not searched.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct NotChecked {
    /// The place.
    pub location: String,
    /// The reason.
    pub why: String,
}

/// The program that issued the certificate.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Software {
    /// Its name.
    pub name: String,
    /// Its version.
    pub version: String,
}

/// The state of the tenant's audit log.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct AuditHead {
    /// The name of the chain.
    pub chain: String,
    /// The number of its entries.
    pub entries: u64,
    /// The digest of the last entry.
    pub digest: Digest,
}

/// A reference to one certificate, by number and digest. A certificate with the same number and other content is a different one.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct CertificateRef {
    /// Its number.
    pub id: ExecutionId,
    /// The SHA-256 of its cover, which has the digest of each page.
    pub digest: Digest,
}

/// A reference to one page of assets.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct PageRef {
    /// The number of assets on it.
    pub assets: usize,
    /// The SHA-256 of its bytes.
    pub digest: Digest,
}

/// The destroyed inventory.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct InventoryRef {
    /// The number of assets.
    pub assets: usize,
    /// The digest of the exact list that was approved.
    pub digest: Digest,
    /// The pages with the assets.
    pub pages: Vec<PageRef>,
}

/// The cover of a certificate: the signed part.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Certificate {
    /// [`FORMAT`].
    pub format: String,
    /// Its number: the id of the execution that destroyed the data.
    pub id: ExecutionId,
    /// The title. It mentions exceptions.
    pub title: String,
    /// The kind: complete or with exceptions.
    pub kind: CertificateKind,
    /// The issuer.
    pub issuer: String,
    /// The time of issue.
    pub issued_at: Moment,
    /// The former tenant.
    pub tombstone: FormerTenant,
    /// The scope of the destruction.
    pub scope: HoldScope,
    /// The legal basis.
    pub legal_basis: LegalBasis,
    /// The request.
    pub request: RecordedRequest,
    /// The approvals with their plans.
    pub approvals: Vec<RecordedApproval>,
    /// The time when destruction began.
    pub pivot_at: Moment,
    /// The destroyed inventory.
    pub inventory: InventoryRef,
    /// The number of assets by result.
    pub results: BTreeMap<String, usize>,
    /// The number of assets without a valid record plus the number of skipped steps.
    pub exceptions: usize,
    /// The number of records by their sources. `None` if a record is of an earlier version, which names no observations.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub sources: Option<RecordSources>,
    /// Retained data.
    pub retained: Vec<Retained>,
    /// Places that were not searched.
    pub not_checked: Vec<NotChecked>,
    /// The limits of the certificate's claims.
    pub caveats: Vec<String>,
    /// The policies in force.
    pub policies: Vec<PolicyRef>,
    /// The program that issued the certificate.
    pub software: Software,
    /// The state of the tenant's audit log.
    pub audit_head: Option<AuditHead>,
    /// The repairs in this execution, and those in its child executions that records depend on.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub repairs: Vec<RecordedRepair>,
    /// The first certificate of the tenant, for a supplementary certificate. It lists all other assets.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub supplements: Option<CertificateRef>,
}

/// One asset on a page.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct CertificateEntry {
    /// The asset, as the inventory lists it.
    #[serde(flatten)]
    pub asset: Asset,
    /// The sanitisation record.
    pub record: Option<SanitisationRecord>,
    /// The digest of the record.
    pub record_hash: Option<Digest>,
    /// The reason why it has no valid record. `None` if it has one.
    pub exception: Option<String>,
}
