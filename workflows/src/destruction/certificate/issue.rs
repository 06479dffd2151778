//! Issuing: from an inventory, the records and the approvals to a cover and its pages, or to all that is lacking.

use crate::{
    destruction::{
        asset::{Asset, AssetId},
        certificate::{
            AuditHead, Certificate, CertificateEntry, CertificateKind, CertificateRef, FORMAT, FormerTenant,
            InventoryRef, LegalBasis, NotChecked, PageRef, Problem, RecordedApproval, RecordedRequest,
            Retained, Software, checked_json,
            contents::{self, caveats, judge, names, results, supplement_caveat, title},
            rules,
        },
        inventory::{Inventory, paged},
        legal_hold::{HoldScope, Pivot},
        sanitisation::{attribution::RecordedRepair, record::SanitisationRecord, rejection::NotClean},
    },
    policy::PolicyRef,
    signing::{Digest, Moment, canonical::value},
};
use serde::{Deserialize, Serialize};
use std::collections::{BTreeMap, BTreeSet};

/// The longest cover, in bytes: it travels as the argument of the action that signs it. The plans that were approved are on it, with
/// about 400 bytes for each node.
pub(crate) const COVER_BYTES: usize = 4 << 20;
/// The longest list of one page, in bytes, before it is written one leaf a line.
const LIST_BYTES: usize = 96 << 10;

/// Whether a certificate may be issued although some assets have no record that counts.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Exceptions {
    /// It may not.
    Refuse,
    /// It may, and says so in its title.
    Allow,
}

/// What a certificate says beside what the inventory and the records say.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct CertificateDraft {
    /// Who the data was of.
    pub tombstone: FormerTenant,
    /// How much of it was to be destroyed.
    pub scope: HoldScope,
    /// The reason.
    pub legal_basis: LegalBasis,
    /// Who asked.
    pub request: RecordedRequest,
    /// Who agreed. Left empty, [`AssembleCertificate`](super::AssembleCertificate) fills in what the engine has on file.
    pub approvals: Vec<RecordedApproval>,
    /// What is kept that is not in the inventory.
    pub retained: Vec<Retained>,
    /// Where nobody looked.
    pub not_checked: Vec<NotChecked>,
    /// The policies in force.
    pub policies: Vec<PolicyRef>,
    /// The program that says so.
    pub software: Software,
    /// Where the tenant's audit log stood.
    pub audit_head: Option<AuditHead>,
    /// Who answers for it.
    pub issuer: String,
    /// The repairs that people made.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub repairs: Vec<RecordedRepair>,
    /// Of what is left of a closed tenant: its first certificate.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub supplements: Option<CertificateRef>,
}

/// A certificate that has not been signed yet.
#[derive(Clone, Debug, PartialEq)]
pub struct IssuedCertificate {
    /// The cover.
    pub certificate: Certificate,
    /// The cover as it is signed.
    pub cover: String,
    /// The pages as the cover names them.
    pub pages: Vec<String>,
}

/// Why no certificate was issued.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum NotIssued {
    /// Some assets have no record that counts.
    #[error("{} of the assets have no record that counts: {}", .0.len(), reasons(.0))]
    NotPassed(BTreeMap<AssetId, NotClean>),
    /// People left steps out, and accepted that as an exception.
    #[error("people left out {0} of the steps that verify, and accepted that as an exception")]
    StepsLeftOut(usize),
    /// There are records of assets that are not in the inventory.
    #[error("there are records of assets that are not in the inventory: {}", .0.iter().map(AssetId::as_str).collect::<Vec<_>>().join(", "))]
    NotInInventory(BTreeSet<AssetId>),
    /// What was destroyed is not what people approved.
    #[error("no approval that was granted names inventory {0}")]
    NotApproved(Digest),
    /// What was destroyed is not what the pivot was passed for.
    #[error("destruction began for inventory {pivot}, and the inventory is {inventory}")]
    OtherPivot {
        /// At the pivot.
        pivot: Digest,
        /// On file.
        inventory: Digest,
    },
    /// What was given does not fit together: verification would refuse the certificate.
    #[error("it would not hold: {}", .0.iter().map(|problem| format!("{}: {}", problem.field, problem.problem)).collect::<Vec<_>>().join("; "))]
    Unsound(Vec<Problem>),
    /// The cover is too long to be signed.
    #[error("the cover is {bytes} bytes long, and {COVER_BYTES} is the most")]
    TooLong {
        /// How long it is.
        bytes: usize,
    },
}

fn reasons(assets: &BTreeMap<AssetId, NotClean>) -> String {
    let named = assets.iter().take(20).map(|(asset, why)| format!("{asset}: {why}"));
    let more = assets.len().saturating_sub(20);
    let more = (more > 0).then(|| format!("and {more} more"));
    named.chain(more).collect::<Vec<_>>().join("; ")
}

/// Issues the certificate of what `run` destroyed.
///
/// # Errors
/// [`NotIssued`], with every asset that has no record that counts, unless exceptions are allowed.
pub fn issue(
    draft: CertificateDraft,
    pivot: &Pivot,
    inventory: &Inventory,
    records: &BTreeMap<AssetId, SanitisationRecord>,
    exceptions: Exceptions,
    at: Moment,
) -> Result<IssuedCertificate, NotIssued> {
    let digest = inventory.digest();
    if pivot.inventory != digest {
        return Err(NotIssued::OtherPivot { pivot: pivot.inventory.clone(), inventory: digest });
    }
    if !draft.approvals.iter().any(|approval| names(&approval.plan, &digest)) {
        return Err(NotIssued::NotApproved(digest));
    }
    let strangers: BTreeSet<_> = records.keys().filter(|id| inventory.get(id).is_none()).cloned().collect();
    if !strangers.is_empty() {
        return Err(NotIssued::NotInInventory(strangers));
    }
    let lacking = lacking(inventory, records, pivot);
    if exceptions == Exceptions::Refuse && !lacking.is_empty() {
        return Err(NotIssued::NotPassed(lacking));
    }
    let left_out = draft.repairs.iter().filter(|repair| repair.is_exception()).count();
    if exceptions == Exceptions::Refuse && left_out > 0 {
        return Err(NotIssued::StepsLeftOut(left_out));
    }
    let entry = |asset: &Asset| entry(asset, records.get(&asset.id), lacking.get(&asset.id));
    let entries: Vec<CertificateEntry> = inventory.assets().map(entry).collect();
    let (pages, listed) = write_pages(&entries, digest);
    let certificate = cover(draft, pivot, &entries, listed, at);
    let unsound = rules::broken(&certificate, &entries);
    if !unsound.is_empty() {
        return Err(NotIssued::Unsound(unsound));
    }
    let cover = checked_json::write("certificate", &value(&certificate));
    if cover.len() > COVER_BYTES {
        return Err(NotIssued::TooLong { bytes: cover.len() });
    }
    Ok(IssuedCertificate { certificate, cover, pages })
}

/// The assets without a record that counts and that is of this very destruction.
fn lacking(
    inventory: &Inventory,
    records: &BTreeMap<AssetId, SanitisationRecord>,
    pivot: &Pivot,
) -> BTreeMap<AssetId, NotClean> {
    let open = inventory.open_questions();
    let judged = |asset: &Asset| judge(asset, records.get(&asset.id), pivot.run, pivot.at);
    let why =
        |asset: &Asset| open.get(&asset.id).map(|open| NotClean::Open(*open)).or_else(|| judged(asset).err());
    inventory.assets().filter_map(|asset| Some((asset.id.clone(), why(asset)?))).collect()
}

fn entry(asset: &Asset, record: Option<&SanitisationRecord>, why: Option<&NotClean>) -> CertificateEntry {
    CertificateEntry {
        asset: asset.clone(),
        record: record.cloned(),
        record_hash: record.map(SanitisationRecord::hash),
        exception: why.map(ToString::to_string),
    }
}

fn write_pages(entries: &[CertificateEntry], digest: Digest) -> (Vec<String>, InventoryRef) {
    let lists = paged(entries.iter(), LIST_BYTES);
    let pages: Vec<String> = lists.iter().map(|list| checked_json::write("assets", &value(list))).collect();
    let page = |(text, list): (&String, &Vec<CertificateEntry>)| PageRef {
        assets: list.len(),
        digest: Digest::from_bytes(text.as_bytes()),
    };
    let named = pages.iter().zip(&lists).map(page).collect();
    (pages, InventoryRef { assets: entries.len(), digest, pages: named })
}

fn cover(
    draft: CertificateDraft,
    pivot: &Pivot,
    entries: &[CertificateEntry],
    inventory: InventoryRef,
    issued_at: Moment,
) -> Certificate {
    let exceptions = contents::exceptions(entries, &draft.repairs);
    let kind = if exceptions == 0 { CertificateKind::Complete } else { CertificateKind::WithExceptions };
    let supplements = draft.supplements;
    let mut caveats = caveats(entries);
    caveats.extend(supplements.as_ref().map(supplement_caveat));
    Certificate {
        format: FORMAT.into(),
        id: pivot.run,
        title: title(&draft.tombstone, &draft.scope, kind, exceptions, supplements.as_ref()),
        kind,
        issuer: draft.issuer,
        issued_at,
        tombstone: draft.tombstone,
        scope: draft.scope,
        legal_basis: draft.legal_basis,
        request: draft.request,
        approvals: draft.approvals,
        pivot_at: pivot.at,
        inventory,
        results: results(entries),
        exceptions,
        retained: draft.retained,
        not_checked: draft.not_checked,
        caveats,
        policies: draft.policies,
        software: draft.software,
        audit_head: draft.audit_head,
        repairs: draft.repairs,
        supplements,
    }
}
