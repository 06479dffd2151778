//! The certificate of destruction: what a person files, and anybody can verify with the public key alone.
//!
//! It has a cover, which is signed, and pages with the assets, which the cover names by their digests. Invariant (I-18):
//! every asset of the inventory stands on the pages exactly once, with its record or with why it has none.

mod checked_json;
mod contents;
mod documents;
pub mod envelope;
#[cfg(test)]
mod forgeries;
mod issue;
pub mod print;
mod problem;
mod rules;
mod sentences;
mod sign;
#[cfg(test)]
mod supplements;
mod verify;
mod withdrawal;

pub use checked_json::PAYLOAD_TYPE;
pub use documents::{
    AssembleCertificate, AssembledCertificate, CertificatePage, KeepCertificate, StoredCertificate,
    certificate_file, certified_entries,
};
pub use issue::{CertificateDraft, Exceptions, IssuedCertificate, NotIssued, issue};
pub use problem::Problem;
pub use sentences::{SentenceKind, Source, Statement, statements};
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

/// The form of a certificate. Another form gets another name, and an older verifier says so.
pub const FORMAT: &str = "tenure certificate of destruction 1";

/// What sort of certificate it is.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, strum::IntoStaticStr, strum::Display)]
#[serde(rename_all = "snake_case")]
#[strum(serialize_all = "snake_case")]
pub enum CertificateKind {
    /// Every asset has a record that counts.
    Complete,
    /// Some have none, and each says why.
    WithExceptions,
}

/// Why data was destroyed.
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
    /// The tenant asked for it.
    TenantRequest,
    /// A person asked for the erasure of their data (GDPR art. 17).
    ErasureRequest,
    /// A court or an authority ordered it.
    LegalOrder,
}

/// Why, and by which words.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct LegalBasis {
    /// The reason.
    pub basis: ErasureBasis,
    /// The contract line, the order's number.
    pub reference: String,
}

/// Who the data was of.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct FormerTenant {
    /// The tenant's name.
    pub tenant: TenantId,
    /// The execution that made the tenant: tells it from another of the same name.
    pub onboarded_by: Option<ExecutionId>,
    /// When it was made.
    pub onboarded_at: Option<Moment>,
}

/// Who asked, when and why.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct RecordedRequest {
    /// Who.
    pub by: String,
    /// When.
    pub at: Moment,
    /// The reason.
    pub reason: String,
}

/// One person's vote.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct RecordedVote {
    /// Who.
    pub name: String,
    /// The roles held at that moment, or those delegated by whom the vote was cast for.
    pub roles: Vec<String>,
    /// For whom, if not in their own right.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub on_behalf_of: Option<String>,
    /// It counted alone, in an emergency.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub break_glass: bool,
    /// Who created the voter's user, if somebody did and it was recorded.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub created_by: Option<String>,
    /// How the voter came to the credential, if that was recorded.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub claim: Option<engine::Claim>,
    /// Who issued the credential, or made the code by which it was claimed.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub issued_by: Option<String>,
    /// Why it is not the vote of another person, though it counted.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub not_separate: Option<engine::Tie>,
    /// When the voter's user was removed, if that was before the certificate was issued.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub removed_on: Option<Moment>,
    /// For the plan, or against it.
    pub verdict: engine::Verdict,
    /// The reason.
    pub reason: String,
    /// When.
    pub at: Moment,
}

/// An approval that was granted, with the plan that it was granted for.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct RecordedApproval {
    /// The state of the workflow that asked.
    pub gate: String,
    /// The workflow.
    pub workflow: String,
    /// The version of its data.
    pub schema: u32,
    /// What was decided on. Its digest is `plan_digest`.
    pub plan: Value,
    /// What the votes are bound to.
    pub plan_digest: String,
    /// Who asked, and so could not vote.
    pub requested_by: String,
    /// Who had to agree.
    pub seats: Vec<Seat>,
    /// Who did.
    pub votes: Vec<RecordedVote>,
    /// When it was opened.
    pub opened_at: Moment,
    /// When it was granted.
    pub granted_at: Moment,
}

/// Something kept that is not in the inventory, such as the audit log.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Retained {
    /// What.
    pub what: String,
    /// What the data is.
    pub data_class: DataClass,
    /// By which rule.
    pub rule: String,
    /// The reason.
    pub reason: String,
    /// When it will be destroyed.
    pub destroy_by: Option<Moment>,
}

/// A place where nobody looked.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct NotChecked {
    /// Where.
    pub location: String,
    /// Why not.
    pub why: String,
}

/// The program that says so.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Software {
    /// Its name.
    pub name: String,
    /// Its version.
    pub version: String,
}

/// Where the tenant's audit log stood.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct AuditHead {
    /// Which chain.
    pub chain: String,
    /// How many entries it had.
    pub entries: u64,
    /// The digest of the last of them.
    pub digest: Digest,
}

/// One certificate, by its number and by what was signed: a certificate of the same number with other content is another one.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct CertificateRef {
    /// Its number.
    pub id: ExecutionId,
    /// The SHA-256 of its cover. The cover names the digest of each page.
    pub digest: Digest,
}

/// One page of assets, as the cover names it.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct PageRef {
    /// How many assets stand on it.
    pub assets: usize,
    /// The SHA-256 of its bytes.
    pub digest: Digest,
}

/// The inventory that was destroyed.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct InventoryRef {
    /// How many assets there are.
    pub assets: usize,
    /// The digest of the exact list, which people approved.
    pub digest: Digest,
    /// The pages that list them.
    pub pages: Vec<PageRef>,
}

/// The cover of a certificate: what is signed.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Certificate {
    /// [`FORMAT`].
    pub format: String,
    /// Its number: that of the execution that destroyed.
    pub id: ExecutionId,
    /// What it is, in words; a certificate with exceptions says so.
    pub title: String,
    /// Whether it has exceptions.
    pub kind: CertificateKind,
    /// Who answers for it.
    pub issuer: String,
    /// When it was issued.
    pub issued_at: Moment,
    /// Who the data was of.
    pub tombstone: FormerTenant,
    /// How much of it was to be destroyed.
    pub scope: HoldScope,
    /// The reason.
    pub legal_basis: LegalBasis,
    /// Who asked.
    pub request: RecordedRequest,
    /// Who agreed, and to what.
    pub approvals: Vec<RecordedApproval>,
    /// When destruction began.
    pub pivot_at: Moment,
    /// What there was.
    pub inventory: InventoryRef,
    /// How many assets ended how.
    pub results: BTreeMap<String, usize>,
    /// How many assets have no record that counts, and how many steps people left out, together.
    pub exceptions: usize,
    /// What is kept.
    pub retained: Vec<Retained>,
    /// Where nobody looked.
    pub not_checked: Vec<NotChecked>,
    /// What a reader must know to not take it for more than it is.
    pub caveats: Vec<String>,
    /// The policies in force.
    pub policies: Vec<PolicyRef>,
    /// The program that says so.
    pub software: Software,
    /// Where the tenant's audit log stood.
    pub audit_head: Option<AuditHead>,
    /// The repairs that people made in the execution, and in those that it started as far as a record rests on them.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub repairs: Vec<RecordedRepair>,
    /// Of a supplementary certificate: the first certificate of the tenant, which lists all other assets.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub supplements: Option<CertificateRef>,
}

/// One asset on a page.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct CertificateEntry {
    /// The asset, as the inventory lists it.
    #[serde(flatten)]
    pub asset: Asset,
    /// What was done to it.
    pub record: Option<SanitisationRecord>,
    /// The digest of the record.
    pub record_hash: Option<Digest>,
    /// Why it has no record that counts; none when it has.
    pub exception: Option<String>,
}
