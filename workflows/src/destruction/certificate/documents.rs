//! Certificates as documents: one with the cover and its signature, and one for each page.

use super::{
    CertificateEntry, CertificateKind, CertificateRef, RecordedApproval, RecordedVote, WithdrawnBy,
    checked_json, envelope,
};
use crate::{
    destruction::codes,
    signing::{Digest, Moment, PublicKey, dsse::Signature},
    tenancy::TenantId,
};
use engine::{
    ActionError, ApprovalRecord, Call, Entity, LedgerAction, Notification, RemovedUser, Undecided, View,
};
use serde::{Deserialize, Serialize};
use std::ops::Range;
use store::{CompositeKey, ExecutionId, Timestamp};

/// A stored certificate.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct StoredCertificate {
    /// Its number: the id of the execution that destroyed the data.
    pub id: ExecutionId,
    /// The tenant's id.
    pub tenant: TenantId,
    /// The kind: complete or with exceptions.
    pub kind: CertificateKind,
    /// The title.
    pub title: String,
    /// The number of assets without a valid record.
    pub exceptions: usize,
    /// The time of issue.
    pub issued_at: Moment,
    /// The minimum retention by policy (`offboarding.certificate_kept`). `None` has no end.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub kept_until: Option<Moment>,
    /// The cover, in its signed form.
    pub cover: String,
    /// The number of pages.
    pub pages: usize,
    /// The signature, after signing.
    pub signature: Option<Signature>,
    /// The first certificate of the tenant, for a supplementary certificate.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub supplements: Option<CertificateRef>,
    /// The withdrawal, if there is one. The signed statement is a separate document.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub withdrawn: Option<WithdrawnBy>,
}

impl StoredCertificate {
    /// Returns the reference to this certificate, with the digest of its content.
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

/// One page of a stored certificate.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct CertificatePage {
    /// The certificate's number.
    pub certificate: ExecutionId,
    /// The page number, from 0.
    pub page: usize,
    /// The page, as named by the cover.
    pub text: String,
}

impl CertificatePage {
    pub(super) fn key(certificate: ExecutionId, page: usize) -> String {
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

/// The pages in one part of a certificate's file.
const PAGES_IN_PART: usize = 16;

impl StoredCertificate {
    /// Returns the number of parts of its file. A part has at most 16 pages, so that a long file need not be held in memory.
    #[must_use]
    pub fn file_parts(&self) -> usize {
        self.pages.div_ceil(PAGES_IN_PART).max(1)
    }

    /// Returns part `part` of its file, from 0. `None` if it is not signed.
    ///
    /// # Errors
    /// As [`View::get`]; a permanent `ledger.missing` for a missing page.
    pub fn file_part(&self, view: &mut View, part: usize) -> Result<Option<String>, Undecided> {
        let Some(signature) = &self.signature else { return Ok(None) };
        let first = part.saturating_mul(PAGES_IN_PART);
        let pages = first..self.pages.min(first.saturating_add(PAGES_IN_PART));
        view.prefetch::<CertificatePage>(pages.clone().map(|page| CertificatePage::key(self.id, page)))?;
        let mut text = match part {
            0 => envelope::beginning(&self.cover, vec![signature.clone()]),
            _ => String::new(),
        };
        for page in pages {
            let stored = view.require::<CertificatePage>(&CertificatePage::key(self.id, page))?;
            text.push_str(&envelope::page(page, &stored.text));
        }
        if part.saturating_add(1) == self.file_parts() {
            text.push_str(envelope::END);
        }
        Ok(Some(text))
    }
}

/// Returns the certificate `id` as a file. `None` if it does not exist or is not signed.
///
/// # Errors
/// As [`View::get`].
pub fn certificate_file(view: &mut View, id: ExecutionId) -> Result<Option<String>, Undecided> {
    let Some(kept) = view.get::<StoredCertificate>(&id.to_string())? else { return Ok(None) };
    (0..kept.file_parts()).map(|part| kept.file_part(view, part)).collect()
}

/// A part of the list of a certificate, short enough to be read at once.
#[derive(Clone, Debug)]
pub(crate) struct ListPart {
    certificate: ExecutionId,
    pages: Range<usize>,
}

impl ListPart {
    /// Returns the parts of certificate `id`. Empty if it does not exist or is not signed.
    ///
    /// # Errors
    /// As [`View::get`].
    pub(crate) fn all(view: &mut View, id: ExecutionId) -> Result<Vec<Self>, Undecided> {
        let kept = view.get::<StoredCertificate>(&id.to_string())?;
        let pages = kept.filter(|kept| kept.signature.is_some()).map_or(0, |kept| kept.pages);
        let part = |first: usize| Self {
            certificate: id,
            pages: first..pages.min(first.saturating_add(PAGES_IN_PART)),
        };
        Ok((0..pages).step_by(PAGES_IN_PART).map(part).collect())
    }

    /// Returns the assets of this part with their records.
    ///
    /// # Errors
    /// As [`View::get`]; a permanent error for a page that cannot be read.
    pub(crate) fn entries(&self, view: &mut View) -> Result<Vec<CertificateEntry>, Undecided> {
        let (id, pages) = (self.certificate, self.pages.clone());
        view.prefetch::<CertificatePage>(pages.clone().map(|page| CertificatePage::key(id, page)))?;
        let mut entries = Vec::new();
        for page in pages {
            let text = view.require::<CertificatePage>(&CertificatePage::key(id, page))?.text;
            let content = checked_json::read("assets", text.as_bytes()).content.unwrap_or_default();
            let read: Result<Vec<CertificateEntry>, _> = serde_json::from_value(content);
            let unreadable =
                |error| ActionError::permanent(codes::NOT_ISSUED, format!("page {page} of {id}: {error}"));
            entries.extend(read.map_err(unreadable)?);
        }
        Ok(entries)
    }
}

/// A closed approval, as the engine stores it.
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

/// Returns the approvals granted to this execution, in the order of their requests.
pub(super) fn approvals(
    view: &mut View,
    call: &Call,
    schema: u32,
) -> Result<Vec<RecordedApproval>, Undecided> {
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

/// Marks the votes of users who were removed after their vote.
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
    /// Converts a closed approval of a workflow with this data schema.
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

/// Stores the signature of the certificate of this execution. Safe to decide again. Fails if the signature does not match.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct KeepCertificate {
    /// The signature, with the id of its key.
    pub signature: Signature,
    /// The public key.
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
            let why =
                format!("the signature of key {} does not belong to this certificate", self.signature.keyid);
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

/// Returns the notification of a new certificate, for the data owners.
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
