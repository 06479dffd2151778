//! How certificates are kept: the cover with its signature in one document, and each page in one of its own.

use super::{
    AuditHead, CertificateDraft, CertificateEntry, CertificateKind, CertificateRef, Exceptions,
    IssuedCertificate, NotIssued, RecordedApproval, RecordedVote, WithdrawnBy, checked_json, envelope, issue,
};
use crate::{
    audit::ChainHead,
    destruction::{
        asset::AssetId,
        codes,
        inventory::Inventory,
        ledger::holds_of,
        sanitisation::{attribution::RecordedRepair, record::SanitisationRecord},
    },
    signing::{Digest, Moment, PublicKey, dsse::Signature},
    tenancy::TenantId,
};
use engine::{
    ActionError, ApprovalRecord, Call, Entity, LedgerAction, Notification, RemovedUser, Undecided, View,
};
use serde::{Deserialize, Serialize};
use std::{collections::BTreeMap, time::Duration};
use store::{CompositeKey, ExecutionId, Timestamp};

/// A certificate on file.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct StoredCertificate {
    /// Its number: that of the execution that destroyed.
    pub id: ExecutionId,
    /// Whose data it was.
    pub tenant: TenantId,
    /// Whether it has exceptions.
    pub kind: CertificateKind,
    /// What it is, in words.
    pub title: String,
    /// How many assets have no record that counts.
    pub exceptions: usize,
    /// When it was issued.
    pub issued_at: Moment,
    /// Until when policy keeps it at least (`offboarding.certificate_kept`); `None` without an end.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub kept_until: Option<Moment>,
    /// The cover, as it is signed.
    pub cover: String,
    /// How many pages it has.
    pub pages: usize,
    /// The signature, once it has one.
    pub signature: Option<Signature>,
    /// Of a supplementary certificate: the first certificate of the tenant.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub supplements: Option<CertificateRef>,
    /// Who withdrew it, if someone did; the signed statement is a document of its own.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub withdrawn: Option<WithdrawnBy>,
}

impl StoredCertificate {
    /// What names exactly this certificate.
    #[must_use]
    pub fn reference(&self) -> CertificateRef {
        CertificateRef { id: self.id, digest: Digest::from_bytes(self.cover.as_bytes()) }
    }
}

impl Entity for StoredCertificate {
    const COLLECTION: &'static str = "certificates";
    const RETENTION: engine::Retention<Self> = engine::Retention::Forever;

    fn id(&self) -> String {
        self.id.to_string()
    }
}

/// One page of a certificate on file.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct CertificatePage {
    /// Of which certificate.
    pub certificate: ExecutionId,
    /// Which one, from 0.
    pub page: usize,
    /// The page, as the cover names it.
    pub text: String,
}

impl CertificatePage {
    fn key(certificate: ExecutionId, page: usize) -> String {
        CompositeKey::of(&[&certificate, &page]).into()
    }
}

impl Entity for CertificatePage {
    const COLLECTION: &'static str = "certificate-pages";
    const RETENTION: engine::Retention<Self> = engine::Retention::Forever;

    fn id(&self) -> String {
        Self::key(self.certificate, self.page)
    }
}

/// The certificate `id` as a file; none while there is none, or it is not signed.
///
/// # Errors
/// As [`View::get`].
pub fn certificate_file(view: &mut View, id: ExecutionId) -> Result<Option<String>, Undecided> {
    let Some(kept) = view.get::<StoredCertificate>(&id.to_string())? else { return Ok(None) };
    let Some(signature) = kept.signature else { return Ok(None) };
    view.prefetch::<CertificatePage>((0..kept.pages).map(|page| CertificatePage::key(id, page)))?;
    let page = |page| Ok(view.require::<CertificatePage>(&CertificatePage::key(id, page))?.text);
    let pages = (0..kept.pages).map(page).collect::<Result<Vec<_>, Undecided>>()?;
    Ok(Some(envelope::file(&kept.cover, vec![signature], &pages)))
}

/// The assets that certificate `id` lists, with their records; none while there is none, or it is not signed.
///
/// # Errors
/// As [`View::get`]; a permanent error for a page that cannot be read.
pub fn certified_entries(
    view: &mut View,
    id: ExecutionId,
) -> Result<Option<Vec<CertificateEntry>>, Undecided> {
    let kept = view.get::<StoredCertificate>(&id.to_string())?;
    let Some(kept) = kept.filter(|kept| kept.signature.is_some()) else { return Ok(None) };
    view.prefetch::<CertificatePage>((0..kept.pages).map(|page| CertificatePage::key(id, page)))?;
    let mut entries = Vec::new();
    for page in 0..kept.pages {
        let text = view.require::<CertificatePage>(&CertificatePage::key(id, page))?.text;
        let content = checked_json::read("assets", text.as_bytes()).content.unwrap_or_default();
        let read: Result<Vec<CertificateEntry>, _> = serde_json::from_value(content);
        let unreadable =
            |error| ActionError::permanent(codes::NOT_ISSUED, format!("page {page} of {id}: {error}"));
        entries.extend(read.map_err(unreadable)?);
    }
    Ok(Some(entries))
}

/// Puts the certificate of this execution together, from its inventory, its records and the approvals on file, and keeps
/// it unsigned.
///
/// Safe to decide again: the same documents give the same certificate but for the time, and one that is signed stays.
/// Not undone: destruction has happened.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct AssembleCertificate {
    /// What it says beside inventory and records.
    pub draft: CertificateDraft,
    /// Whether it may have exceptions.
    pub exceptions: Exceptions,
    /// The workflow's `SCHEMA`: the digests of its plans cover it.
    pub schema: u32,
    /// How long policy keeps it; `None` where its terms do not say.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub kept_for: Option<Duration>,
}

/// A certificate that waits for its signature.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct AssembledCertificate {
    /// Its number.
    pub id: ExecutionId,
    /// Whether it has exceptions.
    pub kind: CertificateKind,
    /// How many.
    pub exceptions: usize,
    /// The cover, to be signed as it is. At most 4 MiB.
    pub cover: String,
}

impl LedgerAction for AssembleCertificate {
    const NAME: &'static str = "AssembleCertificate";
    type Output = AssembledCertificate;

    fn decide(&self, view: &mut View, call: &Call) -> Result<AssembledCertificate, Undecided> {
        let (run, tenant) = (call.execution, &self.draft.tombstone.tenant);
        if let Some(kept) =
            view.get::<StoredCertificate>(&run.to_string())?.filter(|kept| kept.signature.is_some())
        {
            return Ok(AssembledCertificate {
                id: run,
                kind: kept.kind,
                exceptions: kept.exceptions,
                cover: kept.cover,
            });
        }
        let not_issued = |why: &dyn std::fmt::Display| ActionError::permanent(codes::NOT_ISSUED, why);
        let inventory = Inventory::read(view, tenant, run)?;
        let inventory = inventory.ok_or_else(|| not_issued(&"there is no inventory of this execution"))?;
        let pivot = holds_of(view, tenant)?.pivots.into_iter().find(|pivot| pivot.run == run);
        let pivot = pivot.ok_or_else(|| not_issued(&"destruction has not begun"))?;
        let records = records(view, &inventory, run)?;
        let mut draft = self.draft.clone();
        if draft.approvals.is_empty() {
            draft.approvals = approvals(view, call, self.schema)?;
        }
        if draft.audit_head.is_none() {
            // The chain goes on after this; what it says of the destruction stands before.
            let head = view.get::<ChainHead>(tenant.as_str())?;
            draft.audit_head =
                head.map(|head| AuditHead { chain: head.chain, entries: head.number, digest: head.digest });
        }
        add_statements(&mut draft.repairs, &records);
        let ended = records.values().filter_map(SanitisationRecord::last_moment).max();
        let at = Moment::from(view.now()).max(pivot.at).max(ended.unwrap_or(pivot.at));
        let at = draft.repairs.iter().map(|repair| repair.at).fold(at, Moment::max);
        let issued = issue(draft, &pivot, &inventory, &records, self.exceptions, at);
        let issued = issued.map_err(|why| match why {
            NotIssued::TooLong { .. } => ActionError::permanent(codes::COVER_TOO_LONG, why),
            NotIssued::NotPassed(_)
            | NotIssued::StepsLeftOut(_)
            | NotIssued::NotInInventory(_)
            | NotIssued::NotApproved(_)
            | NotIssued::OtherPivot { .. }
            | NotIssued::Unsound(_) => not_issued(&why),
        })?;
        keep(view, tenant, &issued, self.kept_for)?;
        let IssuedCertificate { certificate, cover, .. } = issued;
        let (kind, exceptions) = (certificate.kind, certificate.exceptions);
        Ok(AssembledCertificate { id: run, kind, exceptions, cover })
    }
}

/// Adds the repairs of other executions on whose statements records rest.
fn add_statements(repairs: &mut Vec<RecordedRepair>, records: &BTreeMap<AssetId, SanitisationRecord>) {
    for repair in records.values().filter_map(|record| record.stated.as_ref()) {
        if !repairs.contains(repair) {
            repairs.push(repair.clone());
        }
    }
}

fn keep(
    view: &mut View,
    tenant: &TenantId,
    issued: &IssuedCertificate,
    kept_for: Option<Duration>,
) -> Result<(), Undecided> {
    let id = issued.certificate.id;
    let before = view.get::<StoredCertificate>(&id.to_string())?.map_or(0, |before| before.pages);
    for page in issued.pages.len()..before {
        view.delete::<CertificatePage>(&CertificatePage::key(id, page))?;
    }
    view.prefetch::<CertificatePage>((0..issued.pages.len()).map(|page| CertificatePage::key(id, page)))?;
    for (page, text) in issued.pages.iter().enumerate() {
        view.put(&CertificatePage { certificate: id, page, text: text.clone() })?;
    }
    view.put(&StoredCertificate {
        id,
        tenant: tenant.clone(),
        kind: issued.certificate.kind,
        title: issued.certificate.title.clone(),
        exceptions: issued.certificate.exceptions,
        issued_at: issued.certificate.issued_at,
        kept_until: kept_for.map(|span| Timestamp(issued.certificate.issued_at.millis()).after(span).into()),
        cover: issued.cover.clone(),
        pages: issued.pages.len(),
        signature: None,
        supplements: issued.certificate.supplements.clone(),
        withdrawn: None,
    })
}

fn records(
    view: &mut View,
    inventory: &Inventory,
    run: ExecutionId,
) -> Result<BTreeMap<AssetId, SanitisationRecord>, Undecided> {
    view.prefetch::<SanitisationRecord>(
        inventory.assets().map(|asset| SanitisationRecord::key(run, &asset.id)),
    )?;
    let mut records = BTreeMap::new();
    for asset in inventory.assets() {
        let found = view.get::<SanitisationRecord>(&SanitisationRecord::key(run, &asset.id))?;
        records.extend(found.map(|record| (asset.id.clone(), record)));
    }
    Ok(records)
}

/// An approval on file, as the engine keeps it once it is closed.
#[derive(Clone, Serialize, Deserialize)]
#[serde(transparent)]
struct ClosedApproval(ApprovalRecord);

impl Entity for ClosedApproval {
    const COLLECTION: &'static str = "approvals-closed";
    const RETENTION: engine::Retention<Self> = engine::Retention::Forever;

    fn id(&self) -> String {
        self.0.id.clone()
    }
}

/// The approvals that this execution was granted, in the order in which they were asked for.
fn approvals(view: &mut View, call: &Call, schema: u32) -> Result<Vec<RecordedApproval>, Undecided> {
    let ids = (0..=call.states_entered).map(|entered| format!("{}.{entered}", call.execution));
    view.prefetch::<ClosedApproval>(ids.clone())?;
    let mut granted = Vec::new();
    for id in ids {
        let Some(ClosedApproval(case)) = view.get::<ClosedApproval>(&id)? else { continue };
        if case.ruling.as_deref() == Some("granted") {
            granted.push(RecordedApproval::new(case, schema));
        }
    }
    mark_removed(view, &mut granted)?;
    Ok(granted)
}

/// Marks the votes of users who were removed since they voted.
fn mark_removed(view: &mut View, approvals: &mut [RecordedApproval]) -> Result<(), Undecided> {
    let voters = approvals.iter().flat_map(|approval| &approval.votes).map(|vote| vote.name.clone());
    view.prefetch::<RemovedUser>(voters.collect::<Vec<_>>())?;
    for vote in approvals.iter_mut().flat_map(|approval| &mut approval.votes) {
        let removed = view.get::<RemovedUser>(&vote.name)?;
        vote.removed_on = removed.and_then(|removed| removed.removed_since(vote.at.into())).map(Moment::from);
    }
    Ok(())
}

impl RecordedApproval {
    /// An approval on file, of a workflow whose data has this schema.
    #[must_use]
    pub fn new(case: ApprovalRecord, schema: u32) -> Self {
        let vote = |vote: engine::Vote| RecordedVote {
            roles: vote.principal().roles.clone(),
            created_by: vote.person.provenance.as_ref().and_then(|from| from.created_by.clone()),
            claim: vote.person.provenance.as_ref().map(|from| from.claim),
            issued_by: vote.person.provenance.as_ref().and_then(|from| from.issued_by.clone()),
            not_separate: vote.tie,
            on_behalf_of: vote.on_behalf_of.map(|person| person.name),
            break_glass: vote.break_glass,
            removed_on: None,
            name: vote.person.name,
            verdict: vote.verdict,
            reason: vote.reason,
            at: vote.at.into(),
        };
        Self {
            gate: case.state,
            workflow: case.workflow,
            schema,
            plan: case.plan.decides,
            plan_digest: case.digest.0,
            requested_by: case.requested_by,
            seats: case.seats,
            votes: case.votes.into_iter().map(vote).collect(),
            opened_at: case.opened_at.into(),
            granted_at: case.closed_at.unwrap_or(case.opened_at).into(),
        }
    }
}

/// Puts the signature on the certificate of this execution. Safe to decide again; refused when it does not fit.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct KeepCertificate {
    /// The signature, with the key that made it.
    pub signature: Signature,
    /// That key's public half.
    pub public_key: PublicKey,
}

impl LedgerAction for KeepCertificate {
    const NAME: &'static str = "KeepCertificate";
    type Output = StoredCertificate;

    fn decide(&self, view: &mut View, call: &Call) -> Result<StoredCertificate, Undecided> {
        let kept = view.require::<StoredCertificate>(&call.execution.to_string())?;
        if self.signature.keyid != self.public_key.id()
            || !envelope::fits(&kept.cover, &self.signature, &self.public_key)
        {
            let why = format!("the signature of key {} is not of this certificate", self.signature.keyid);
            return Err(ActionError::permanent(codes::SIGNATURE_WRONG, why).into());
        }
        if kept.signature.is_none() {
            view.put(&issued(&kept, view.now()))?;
        }
        let kept = StoredCertificate { signature: Some(self.signature.clone()), ..kept };
        view.put(&kept)?;
        Ok(kept)
    }
}

/// That there is a certificate, for those who answer for the data.
fn issued(kept: &StoredCertificate, at: Timestamp) -> Notification {
    let with = match kept.exceptions {
        0 => String::new(),
        some => format!(", with {some} exceptions"),
    };
    Notification {
        id: format!("{}.certificate", kept.id),
        kind: "certificate.issued".into(),
        reason: None,
        about: kept.id.to_string(),
        tenant: kept.tenant.to_string(),
        to: vec!["compliance".into(), "dpo".into()],
        text: format!("{}{with}; `tenure certificates show {}`", kept.title, kept.id),
        at,
    }
}
