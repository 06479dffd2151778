//! Issues a certificate: creates cover and pages from an inventory, records and approvals, or reports everything that is missing.

use crate::{
    destruction::{
        asset::{Asset, AssetId},
        certificate::{
            AuditHead, Certificate, CertificateEntry, CertificateKind, CertificateRef, FORMAT, FormerTenant,
            InventoryRef, LegalBasis, NotChecked, Problem, RecordedApproval, RecordedRequest, Retained,
            Software, checked_json,
            contents::{judge, names, supplement_caveat, title},
            listing::ListedPages,
            rules,
        },
        inventory::Inventory,
        legal_hold::{HoldScope, Pivot},
        sanitisation::{attribution::RecordedRepair, record::SanitisationRecord, rejection::NotClean},
    },
    policy::PolicyRef,
    signing::{Digest, Moment, canonical::value},
};
use serde::{Deserialize, Serialize};
use std::{
    collections::{BTreeMap, BTreeSet},
    fmt::Display,
};

/// The longest cover, in bytes. It is an argument of the signing action. It contains the approved plans, with about 400 bytes for each node.
pub(crate) const COVER_BYTES: usize = 4 << 20;

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
    #[error("{} assets have no valid record: {}", .0.len(), all_reasons(.0))]
    NotPassed(BTreeMap<AssetId, NotClean>),
    /// Some assets on pages that were written before have no valid record.
    #[error("{assets} assets have no valid record: {reasons}")]
    Lacking {
        /// The number of these assets.
        assets: usize,
        /// The first of them, with the reasons.
        reasons: String,
    },
    /// Steps were skipped by a repair and accepted as exceptions.
    #[error("operators skipped {0} verification steps and accepted this as an exception")]
    StepsLeftOut(usize),
    /// Some records are of assets that are not in the inventory.
    #[error("some records are of assets outside the inventory: {}", .0.iter().map(AssetId::as_str).collect::<Vec<_>>().join(", "))]
    NotInInventory(BTreeSet<AssetId>),
    /// The destroyed inventory is not the approved one.
    #[error("no granted approval names inventory {0}")]
    NotApproved(Digest),
    /// The destroyed inventory is not the one of the pivot.
    #[error("the destruction began for inventory {pivot}, but the inventory is {inventory}")]
    OtherPivot {
        /// The inventory of the pivot.
        pivot: Digest,
        /// The stored inventory.
        inventory: Digest,
    },
    /// The input is inconsistent, so verification would reject the certificate.
    #[error("the certificate would be invalid: {}", .0.iter().map(|problem| format!("{}: {}", problem.field, problem.problem)).collect::<Vec<_>>().join("; "))]
    Unsound(Vec<Problem>),
    /// The cover is too long to be signed.
    #[error("the cover has {bytes} bytes; the limit is {COVER_BYTES}")]
    TooLong {
        /// The length of the cover in bytes.
        bytes: usize,
    },
}

fn all_reasons(assets: &BTreeMap<AssetId, NotClean>) -> String {
    reasons(assets, assets.len())
}

fn reasons<T: Display>(assets: &BTreeMap<AssetId, T>, all: usize) -> String {
    let named: Vec<_> = assets.iter().take(20).map(|(asset, why)| format!("{asset}: {why}")).collect();
    let more = all.saturating_sub(named.len());
    let more = (more > 0).then(|| format!("and {more} more"));
    named.into_iter().chain(more).collect::<Vec<_>>().join("; ")
}

/// Issues the certificate for the destruction by `run`, all at once.
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
    begin(&draft.approvals, pivot, inventory.digest())?;
    let strangers: BTreeSet<_> = records.keys().filter(|id| inventory.get(id).is_none()).cloned().collect();
    if !strangers.is_empty() {
        return Err(NotIssued::NotInInventory(strangers));
    }
    let lacking = lacking(inventory, records, pivot);
    if exceptions == Exceptions::Refuse && !lacking.is_empty() {
        return Err(NotIssued::NotPassed(lacking));
    }
    let entries: Vec<CertificateEntry> =
        inventory.assets().map(|asset| entry(asset, records.get(&asset.id), pivot)).collect();
    let mut listed = ListedPages::default();
    let pages = listed.add(&entries, true, usize::MAX);
    let certificate = cover(draft, pivot, &listed, at);
    let unsound = rules::broken(&certificate, &entries);
    let cover = finished(&certificate, &listed, exceptions, unsound)?;
    Ok(IssuedCertificate { certificate, cover, pages })
}

/// Checks that a granted approval and the pivot name this inventory.
pub(super) fn begin(
    approvals: &[RecordedApproval],
    pivot: &Pivot,
    inventory: Digest,
) -> Result<(), NotIssued> {
    if pivot.inventory != inventory {
        return Err(NotIssued::OtherPivot { pivot: pivot.inventory.clone(), inventory });
    }
    if !approvals.iter().any(|approval| names(&approval.plan, &inventory)) {
        return Err(NotIssued::NotApproved(inventory));
    }
    Ok(())
}

/// Returns a cover in the form to sign.
///
/// # Errors
/// Returns [`NotIssued`] for a cover that does not hold or is too long, and for exceptions that are not permitted.
pub(super) fn finished(
    certificate: &Certificate,
    listed: &ListedPages,
    exceptions: Exceptions,
    unsound: Vec<Problem>,
) -> Result<String, NotIssued> {
    let summary = &listed.summary;
    if exceptions == Exceptions::Refuse && summary.excepted > 0 {
        let reasons = reasons(&summary.first_exceptions, summary.excepted);
        return Err(NotIssued::Lacking { assets: summary.excepted, reasons });
    }
    let left_out = certificate.repairs.iter().filter(|repair| repair.is_exception()).count();
    if exceptions == Exceptions::Refuse && left_out > 0 {
        return Err(NotIssued::StepsLeftOut(left_out));
    }
    if !unsound.is_empty() {
        return Err(NotIssued::Unsound(unsound));
    }
    let cover = checked_json::write("certificate", &value(certificate));
    if cover.len() > COVER_BYTES {
        return Err(NotIssued::TooLong { bytes: cover.len() });
    }
    Ok(cover)
}

/// Returns the assets without a valid record of this destruction.
fn lacking(
    inventory: &Inventory,
    records: &BTreeMap<AssetId, SanitisationRecord>,
    pivot: &Pivot,
) -> BTreeMap<AssetId, NotClean> {
    let why = |asset: &Asset| judge(asset, records.get(&asset.id), pivot.run, pivot.at).err();
    inventory.assets().filter_map(|asset| Some((asset.id.clone(), why(asset)?))).collect()
}

/// Returns the entry of an asset, with the reason why its record does not count, if it does not.
pub(super) fn entry(asset: &Asset, record: Option<&SanitisationRecord>, pivot: &Pivot) -> CertificateEntry {
    let why = judge(asset, record, pivot.run, pivot.at).err();
    CertificateEntry {
        asset: asset.clone(),
        record: record.cloned(),
        record_hash: record.map(SanitisationRecord::hash),
        exception: why.map(|why| why.to_string()),
    }
}

/// Returns the cover for these pages.
pub(super) fn cover(
    draft: CertificateDraft,
    pivot: &Pivot,
    listed: &ListedPages,
    issued_at: Moment,
) -> Certificate {
    let summary = &listed.summary;
    let exceptions = summary.exceptions(&draft.repairs);
    let kind = if exceptions == 0 { CertificateKind::Complete } else { CertificateKind::WithExceptions };
    let supplements = draft.supplements;
    let mut caveats = summary.caveats();
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
        inventory: InventoryRef {
            assets: summary.assets,
            digest: pivot.inventory.clone(),
            pages: listed.pages.clone(),
        },
        results: summary.results.clone(),
        exceptions,
        sources: summary.sources.for_cover(),
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
