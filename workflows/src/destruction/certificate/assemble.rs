//! Assembles a certificate from the documents of its execution: the pages in any number of commits, and the cover in the last one.
//!
//! Called by the offboarding, again and again until the cover is stored. Invariant: each commit adds whole pages and moves the position in the
//! inventory past their assets, so that each asset is listed once, also after a crash between two commits.

use super::{
    AuditHead, CertificateDraft, CertificateEntry, CertificateKind, CertificatePage, Exceptions, NotIssued,
    Problem, StoredCertificate,
    documents::approvals,
    issue::{begin, cover, entry, finished},
    listing::{ListedPages, UnfinishedCertificate},
    rules,
};
use crate::{
    audit::ChainHead,
    destruction::{
        asset::Asset,
        codes,
        inventory::{Inventory, InventoryHead, InventoryPosition, next_assets},
        ledger::holds_of,
        legal_hold::Pivot,
        sanitisation::{attribution::RecordedRepair, record::SanitisationRecord},
    },
    signing::Moment,
};
use engine::{ActionError, Call, LedgerAction, Undecided, View};
use serde::{Deserialize, Serialize};
use std::{collections::BTreeSet, time::Duration};
use store::{ExecutionId, Timestamp};

/// The bytes of pages after which a commit adds no further page. With one page, a cover twice and the record of the execution, a commit stays
/// under the limit of the store.
const BYTES_AT_ONCE: u32 = 4 << 20;
/// The most assets that one commit lists.
const ASSETS_AT_ONCE: usize = 1_024;

/// Assembles the certificate of this execution from its inventory, records and approvals, and stores it unsigned. A long one is written in several
/// commits: each adds pages, and the last one stores the cover.
///
/// Safe to decide again: the same documents give the same certificate except for the time, and a signed certificate is kept. It has no undo, because
/// the data are already destroyed.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct AssembleCertificate {
    /// Additional content of the certificate.
    pub draft: CertificateDraft,
    /// Permits or forbids exceptions.
    pub exceptions: Exceptions,
    /// The workflow's `SCHEMA`, which is part of the digests of its plans.
    pub schema: u32,
    /// The retention by policy. `None` if the terms have none.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub kept_for: Option<Duration>,
    /// The bytes of pages that one commit writes, and the most on one page. `None` for 4 MiB and 96 KiB; tests set less.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub bytes_at_once: Option<u32>,
}

/// An unsigned certificate.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct AssembledCertificate {
    /// Its number.
    pub id: ExecutionId,
    /// The kind: complete or with exceptions.
    pub kind: CertificateKind,
    /// The number of exceptions.
    pub exceptions: usize,
    /// The cover to sign. At most 4 MiB. Empty while assets are missing on the pages.
    pub cover: String,
    /// The number of assets that are not on the pages yet.
    #[serde(default, skip_serializing_if = "is_zero")]
    pub missing: usize,
}

fn is_zero(count: &usize) -> bool {
    *count == 0
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
                missing: 0,
            });
        }
        let head = view.get::<InventoryHead>(&InventoryHead::key(tenant, run))?;
        let head = head.ok_or_else(|| not_issued("there is no inventory of this execution"))?;
        let pivot = holds_of(view, tenant)?.pivots.into_iter().find(|pivot| pivot.run == run);
        let pivot = pivot.ok_or_else(|| not_issued("destruction has not begun"))?;
        let mut unfinished = unfinished(view, &head)?;
        let missing = |of: &UnfinishedCertificate| head.assets.saturating_sub(of.listed.summary.assets);
        // Read before the pages are built, because a decision begins again after each fetch.
        let sources =
            if missing(&unfinished) <= ASSETS_AT_ONCE { Some(self.sources(view, call)?) } else { None };
        self.list_more(view, &head, &pivot, &mut unfinished)?;
        match (missing(&unfinished), sources) {
            (0, Some(sources)) => self.close(view, sources, &pivot, &unfinished),
            (missing, _) => {
                view.put(&unfinished)?;
                let exceptions = unfinished.listed.summary.excepted;
                let kind =
                    if exceptions == 0 { CertificateKind::Complete } else { CertificateKind::WithExceptions };
                Ok(AssembledCertificate { id: run, kind, exceptions, cover: String::new(), missing })
            }
        }
    }
}

impl AssembleCertificate {
    /// Writes the next pages.
    fn list_more(
        &self,
        view: &mut View,
        head: &InventoryHead,
        pivot: &Pivot,
        unfinished: &mut UnfinishedCertificate,
    ) -> Result<(), Undecided> {
        let next = next_assets(view, head, unfinished.position, ASSETS_AT_ONCE)?;
        let listed = &mut unfinished.listed;
        let (first, before) = (listed.summary.assets, listed.pages.len());
        if next.is_empty() && first < head.assets {
            let why = format!("the inventory has {first} assets, and its head says {}", head.assets);
            return Err(not_issued(&*why).into());
        }
        let is_end = first.saturating_add(next.len()) >= head.assets;
        let mut entries = entries(view, next.iter().map(|(_, asset)| asset), pivot)?;
        let limit = self.bytes_at_once.unwrap_or(BYTES_AT_ONCE);
        let texts = listed.add(&entries, is_end, usize::try_from(limit).unwrap_or(usize::MAX));
        let added = listed.summary.assets.saturating_sub(first);
        entries.truncate(added);
        in_order(&entries)?;
        let at = self.at(view, pivot, listed);
        let unsound = rules::of_entries(&self.draft_cover(pivot, listed, at), first, &entries);
        if !unsound.is_empty() {
            return Err(not_issued(NotIssued::Unsound(unsound)).into());
        }
        if let Some((position, _)) = added.checked_sub(1).and_then(|last| next.get(last)) {
            unfinished.position = *position;
        }
        let pages = before..unfinished.listed.pages.len();
        let id = unfinished.certificate;
        view.prefetch::<CertificatePage>(pages.clone().map(|page| CertificatePage::key(id, page)))?;
        for (page, text) in pages.zip(texts) {
            view.put(&CertificatePage { certificate: id, page, text })?;
        }
        unfinished.stored_pages = unfinished.stored_pages.max(unfinished.listed.pages.len());
        Ok(())
    }

    /// Reads the sources of the cover, apart from the pages.
    fn sources(&self, view: &mut View, call: &Call) -> Result<CoverSources, Undecided> {
        let tenant = &self.draft.tombstone.tenant;
        let inventory = Inventory::read(view, tenant, call.execution)?.unwrap_or_default();
        let mut draft = self.draft.clone();
        if draft.approvals.is_empty() {
            draft.approvals = approvals(view, call, self.schema)?;
        }
        if draft.audit_head.is_none() {
            // The audit chain continues after this point. The entries about the destruction are before it.
            let head = view.get::<ChainHead>(tenant.as_str())?;
            draft.audit_head =
                head.map(|head| AuditHead { chain: head.chain, entries: head.number, digest: head.digest });
        }
        Ok(CoverSources { inventory, draft })
    }

    /// Stores the cover of the written pages.
    fn close(
        &self,
        view: &mut View,
        CoverSources { inventory, mut draft }: CoverSources,
        pivot: &Pivot,
        unfinished: &UnfinishedCertificate,
    ) -> Result<AssembledCertificate, Undecided> {
        let listed = &unfinished.listed;
        draft.repairs = self.repairs(listed);
        begin(&draft.approvals, pivot, inventory.digest()).map_err(not_issued)?;
        let certificate = cover(draft, pivot, listed, self.at(view, pivot, listed));
        let mut unsound = rules::of_cover(&certificate, &listed.summary);
        if inventory.len() != listed.summary.assets {
            let count = format!("says {}, and {} were found", listed.summary.assets, inventory.len());
            unsound.push(Problem::new("inventory.assets", count));
        }
        let repaired = repaired(&certificate.repairs, &inventory);
        unsound.extend(rules::of_entries(&certificate, 0, &entries(view, repaired.into_iter(), pivot)?));
        let cover = finished(&certificate, listed, self.exceptions, unsound).map_err(not_issued)?;
        let (id, kind, exceptions) = (certificate.id, certificate.kind, certificate.exceptions);
        let stored = StoredCertificate {
            id,
            tenant: self.draft.tombstone.tenant.clone(),
            kind,
            title: certificate.title,
            exceptions,
            issued_at: certificate.issued_at,
            kept_until: self
                .kept_for
                .map(|span| Timestamp(certificate.issued_at.millis()).after(span).into()),
            cover: cover.clone(),
            pages: listed.pages.len(),
            signature: None,
            supplements: certificate.supplements,
            withdrawn: None,
        };
        keep(view, &stored, unfinished.stored_pages)?;
        Ok(AssembledCertificate { id, kind, exceptions, cover, missing: 0 })
    }

    /// Returns the time of issue, if the certificate were issued now: not before anything that it lists.
    fn at(&self, view: &View, pivot: &Pivot, listed: &ListedPages) -> Moment {
        let ended = listed.summary.last_moment.unwrap_or(pivot.at);
        let at = Moment::from(view.now()).max(pivot.at).max(ended);
        self.repairs(listed).iter().map(|repair| repair.at).fold(at, Moment::max)
    }

    /// Returns the repairs of this execution, and those of other executions that records depend on.
    fn repairs(&self, listed: &ListedPages) -> Vec<RecordedRepair> {
        let mut repairs = self.draft.repairs.clone();
        for repair in &listed.summary.statements {
            if !repairs.contains(repair) {
                repairs.push(repair.clone());
            }
        }
        repairs
    }

    /// Returns a cover without approvals, to check the entries of the pages so far.
    fn draft_cover(&self, pivot: &Pivot, listed: &ListedPages, at: Moment) -> super::Certificate {
        let draft =
            CertificateDraft { approvals: Vec::new(), repairs: self.repairs(listed), ..self.draft.clone() };
        cover(draft, pivot, &ListedPages { pages: Vec::new(), summary: listed.summary.clone() }, at)
    }
}

fn not_issued(why: impl Into<Refused>) -> ActionError {
    let Refused { code, why } = why.into();
    ActionError::permanent(code, why)
}

/// The code and the text of a refusal.
struct Refused {
    code: &'static str,
    why: String,
}

impl From<&str> for Refused {
    fn from(why: &str) -> Self {
        Self { code: codes::NOT_ISSUED, why: why.into() }
    }
}

impl From<NotIssued> for Refused {
    fn from(why: NotIssued) -> Self {
        let code = match &why {
            NotIssued::TooLong { .. } => codes::COVER_TOO_LONG,
            NotIssued::NotPassed(_)
            | NotIssued::Lacking { .. }
            | NotIssued::StepsLeftOut(_)
            | NotIssued::NotInInventory(_)
            | NotIssued::NotApproved(_)
            | NotIssued::OtherPivot { .. }
            | NotIssued::Unsound(_) => codes::NOT_ISSUED,
        };
        Self { code, why: why.to_string() }
    }
}

/// The sources of a cover, apart from its pages.
struct CoverSources {
    inventory: Inventory,
    /// With the approvals and the state of the audit log.
    draft: CertificateDraft,
}

/// Returns the certificate in progress, or an empty one.
fn unfinished(view: &mut View, head: &InventoryHead) -> Result<UnfinishedCertificate, Undecided> {
    let stored = view.get::<UnfinishedCertificate>(&head.run.to_string())?;
    let version = env!("CARGO_PKG_VERSION");
    let continues =
        |stored: &UnfinishedCertificate| stored.version == version && stored.inventory == head.digest;
    let stored_pages = stored.as_ref().map_or(0, |stored| stored.stored_pages);
    Ok(stored.filter(continues).unwrap_or_else(|| UnfinishedCertificate {
        certificate: head.run,
        inventory: head.digest.clone(),
        version: version.into(),
        position: InventoryPosition::default(),
        listed: ListedPages::default(),
        stored_pages,
    }))
}

/// Refuses assets that are not sorted, because one of them could be listed twice.
fn in_order(entries: &[CertificateEntry]) -> Result<(), ActionError> {
    let ids = entries.iter().map(|entry| &entry.asset.id);
    if ids.clone().zip(ids.skip(1)).all(|(one, next)| one < next) {
        return Ok(());
    }
    Err(not_issued("the assets of the inventory are not sorted"))
}

/// Returns the entries of these assets, with the records of the destruction that began with `pivot`.
fn entries<'a>(
    view: &mut View,
    assets: impl Iterator<Item = &'a Asset> + Clone,
    pivot: &Pivot,
) -> Result<Vec<CertificateEntry>, Undecided> {
    let key = |asset: &Asset| SanitisationRecord::key(pivot.run, &asset.id);
    view.prefetch::<SanitisationRecord>(assets.clone().map(key))?;
    let of = |asset| Ok(entry(asset, view.get_shared::<SanitisationRecord>(&key(asset))?.as_deref(), pivot));
    assets.map(of).collect()
}

/// Returns the assets that a repair claims to have removed. Their pages may have been written before the repair was known.
fn repaired<'a>(repairs: &[RecordedRepair], inventory: &'a Inventory) -> Vec<&'a Asset> {
    let claims = repairs.iter().filter(|repair| repair.claims_removal());
    let things: BTreeSet<&String> = claims.flat_map(|repair| &repair.things).collect();
    inventory.assets().filter(|asset| things.contains(&asset.locator)).collect()
}

/// Stores the cover, and removes the document of the work in progress and unused pages.
fn keep(view: &mut View, stored: &StoredCertificate, stored_pages: usize) -> Result<(), Undecided> {
    let id = stored.id;
    let before = view.get::<StoredCertificate>(&id.to_string())?.map_or(0, |before| before.pages);
    let unused = stored.pages..before.max(stored_pages);
    view.prefetch::<CertificatePage>(unused.clone().map(|page| CertificatePage::key(id, page)))?;
    for page in unused {
        view.delete::<CertificatePage>(&CertificatePage::key(id, page))?;
    }
    view.delete::<UnfinishedCertificate>(&id.to_string())?;
    view.put(stored)
}
