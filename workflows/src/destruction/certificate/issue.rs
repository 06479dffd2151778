//! Issues a certificate: creates cover and pages from an inventory, records and approvals, or reports everything that is missing.

use crate::{
    destruction::{
        asset::{Asset, AssetId},
        certificate::{
            AuditHead, Certificate, CertificateEntry, CertificateKind, CertificateRef, FORMAT, FormerTenant,
            InventoryRef, LegalBasis, NotChecked, PageRef, Problem, RecordedApproval, RecordedRequest,
            Retained, Software, checked_json,
            contents::{self, caveats, judge, names, results, supplement_caveat, title},
            rules,
            sentences::source_counts::SourceCounts,
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

/// The longest cover, in bytes. It is an argument of the signing action. It contains the approved plans, with about 400 bytes for each node.
pub(crate) const COVER_BYTES: usize = 4 << 20;
/// The longest list on one page, in bytes, before it is written with one leaf on each line.
const LIST_BYTES: usize = 96 << 10;

/// Permits or forbids a certificate for assets without a valid record.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Exceptions {
    /// Exceptions are rejected.
    Refuse,
    /// Exceptions are permitted, and the title mentions them.
    Allow,
}

/// The content of a certificate, apart from inventory and records.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct CertificateDraft {
    /// The former tenant.
    pub tombstone: FormerTenant,
    /// The scope of the destruction.
    pub scope: HoldScope,
    /// The legal basis.
    pub legal_basis: LegalBasis,
    /// The request.
    pub request: RecordedRequest,
    /// The approvals. If empty, [`AssembleCertificate`](super::AssembleCertificate) adds the stored approvals of the execution.
    pub approvals: Vec<RecordedApproval>,
    /// Retained data that are not in the inventory.
    pub retained: Vec<Retained>,
    /// Places that were not searched.
    pub not_checked: Vec<NotChecked>,
    /// The policies in force.
    pub policies: Vec<PolicyRef>,
    /// The program that issues the certificate.
    pub software: Software,
    /// The state of the tenant's audit log.
    pub audit_head: Option<AuditHead>,
    /// The issuer.
    pub issuer: String,
    /// The repairs made by operators.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub repairs: Vec<RecordedRepair>,
    /// The first certificate of a closed tenant, for a supplementary certificate.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub supplements: Option<CertificateRef>,
}

/// An unsigned certificate.
#[derive(Clone, Debug, PartialEq)]
pub struct IssuedCertificate {
    /// The cover.
    pub certificate: Certificate,
    /// The cover in the form to sign.
    pub cover: String,
    /// The pages, as named by the cover.
    pub pages: Vec<String>,
}

/// The reason why no certificate was issued.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum NotIssued {
    /// Some assets have no valid record.
    #[error("{} of the assets have no record that counts: {}", .0.len(), reasons(.0))]
    NotPassed(BTreeMap<AssetId, NotClean>),
    /// Steps were skipped by a repair and accepted as exceptions.
    #[error("people left out {0} of the steps that verify, and accepted that as an exception")]
    StepsLeftOut(usize),
    /// Some records are of assets that are not in the inventory.
    #[error("there are records of assets that are not in the inventory: {}", .0.iter().map(AssetId::as_str).collect::<Vec<_>>().join(", "))]
    NotInInventory(BTreeSet<AssetId>),
    /// The destroyed inventory is not the approved one.
    #[error("no approval that was granted names inventory {0}")]
    NotApproved(Digest),
    /// The destroyed inventory is not the one of the pivot.
    #[error("destruction began for inventory {pivot}, and the inventory is {inventory}")]
    OtherPivot {
        /// The inventory of the pivot.
        pivot: Digest,
        /// The stored inventory.
        inventory: Digest,
    },
    /// The input is inconsistent, so verification would reject the certificate.
    #[error("it would not hold: {}", .0.iter().map(|problem| format!("{}: {}", problem.field, problem.problem)).collect::<Vec<_>>().join("; "))]
    Unsound(Vec<Problem>),
    /// The cover is too long to be signed.
    #[error("the cover is {bytes} bytes long, and {COVER_BYTES} is the most")]
    TooLong {
        /// The length of the cover in bytes.
        bytes: usize,
    },
}

fn reasons(assets: &BTreeMap<AssetId, NotClean>) -> String {
    let named = assets.iter().take(20).map(|(asset, why)| format!("{asset}: {why}"));
    let more = assets.len().saturating_sub(20);
    let more = (more > 0).then(|| format!("and {more} more"));
    named.chain(more).collect::<Vec<_>>().join("; ")
}

/// Issues the certificate for the destruction by `run`.
///
/// # Errors
/// Returns [`NotIssued`], with every asset without a valid record, unless exceptions are permitted.
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

/// Returns the assets without a valid record of this destruction.
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
        sources: SourceCounts::of(entries).for_cover(),
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
