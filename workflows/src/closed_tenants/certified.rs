//! The entries about each resource in the certificates of a closed tenant.

use crate::{
    destruction::{
        ClosedTenantLook, DataClass, RemainsStanding, SanitisationOutcome, SanitisationRecord,
        certificate::{CertificateEntry, ListPart},
        holds_of,
    },
    platform::{LUKS_KEY, ObservedResource, SYSTEMS, TenantResource},
    signing::Moment,
    tenancy::{NodeAllocation, Tenant, TenantId, TenantState},
};
use engine::{Undecided, View};
use std::collections::{BTreeMap, BTreeSet, VecDeque};

/// The entry of a resource in the latest certificate that lists it.
#[derive(Clone, Debug, PartialEq, Eq)]
struct CertifiedThing {
    serial: Option<String>,
    class: Option<DataClass>,
    /// The certificate lists it as an exception, because it still existed.
    is_exception: bool,
    /// It is retained for now. The inner value is the date of its destruction, if there is one.
    kept: Option<Option<Moment>>,
}

impl From<CertificateEntry> for CertifiedThing {
    fn from(entry: CertificateEntry) -> Self {
        let kept = entry.record.as_ref().and_then(|record| match &record.result {
            SanitisationOutcome::NotApplicable { destroy_by, .. } => Some(*destroy_by),
            SanitisationOutcome::SanitisedVerified
            | SanitisationOutcome::SanitisedUnverified
            | SanitisationOutcome::Failed { .. }
            | SanitisationOutcome::Skipped { .. }
            | SanitisationOutcome::PhysicallyDestroyed { .. }
            | SanitisationOutcome::Unknown => None,
        });
        Self {
            serial: entry.asset.serial,
            class: entry.asset.data_class,
            is_exception: entry.exception.is_some() && !entry.record.as_ref().is_some_and(says_gone),
            kept,
        }
    }
}

/// Returns true if a record claims that the resource was gone, even if the record does not count: a recoverable key, or a statement. If the resource
/// exists, it came back.
fn says_gone(record: &SanitisationRecord) -> bool {
    match record.result {
        SanitisationOutcome::SanitisedVerified
        | SanitisationOutcome::SanitisedUnverified
        | SanitisationOutcome::PhysicallyDestroyed { .. } => true,
        SanitisationOutcome::Failed { .. }
        | SanitisationOutcome::Skipped { .. }
        | SanitisationOutcome::NotApplicable { .. }
        | SanitisationOutcome::Unknown => record.key.as_ref().is_some_and(|key| key.observed_absent),
    }
}

/// The records of a closed tenant.
#[derive(Clone, Debug)]
pub(super) struct ClosedTenant {
    pub(super) tenant: TenantId,
    pub(super) before: Option<ClosedTenantLook>,
    things: BTreeMap<TenantResource, CertifiedThing>,
    quarantined: BTreeSet<String>,
    /// The parts of its certificates that are not read yet, the earliest certificate first.
    unread: VecDeque<ListPart>,
}

impl ClosedTenant {
    /// Reads the records, apart from the lists of its certificates. Returns `None` if the tenant is not closed.
    pub(super) fn read(view: &mut View, id: &TenantId) -> Result<Option<Self>, Undecided> {
        let tenant = view.get::<Tenant>(id.as_str())?;
        if tenant.is_none_or(|tenant| tenant.state != TenantState::Closed) {
            return Ok(None);
        }
        let mut unread = VecDeque::new();
        for pivot in holds_of(view, id)?.pivots {
            unread.extend(ListPart::all(view, pivot.run)?);
        }
        let holding = view.get::<NodeAllocation>(id.as_str())?;
        let quarantined = holding.map(|holding| holding.quarantined).unwrap_or_default();
        let quarantined = quarantined.iter().map(ToString::to_string).collect();
        let before = view.get::<ClosedTenantLook>(id.as_str())?;
        Ok(Some(Self { tenant: id.clone(), before, things: BTreeMap::new(), quarantined, unread }))
    }

    /// Takes the next part of its certificates, for [`Self::add`].
    pub(super) fn next_part(&mut self) -> Option<ListPart> {
        self.unread.pop_front()
    }

    /// Adds the entries of a part. Later certificates replace the entries of earlier ones.
    pub(super) fn add(&mut self, entries: Vec<CertificateEntry>) {
        let named = entries.into_iter().filter_map(|entry| {
            let thing: TenantResource = entry.asset.locator.parse().ok()?;
            SYSTEMS.contains(&thing.system.as_str()).then(|| (thing, CertifiedThing::from(entry)))
        });
        self.things.extend(named);
    }

    /// Returns up to `most` resources on certificates from number `from` on, each once, and the number to start with next time.
    pub(super) fn names(&self, from: usize, most: usize) -> (Vec<TenantResource>, usize) {
        let count = self.things.len();
        let from = if from < count { from } else { 0 };
        let named: Vec<_> = self.things.keys().cycle().skip(from).take(most.min(count)).cloned().collect();
        let next = from.saturating_add(named.len());
        (named, next.checked_rem(count).unwrap_or(0))
    }

    /// Compares an observed resource with the certificates.
    pub(super) fn standing(&self, seen: &ObservedResource, now: Moment) -> RemainsStanding {
        if seen.thing.kind == "Node" && self.quarantined.contains(&seen.thing.name) {
            return RemainsStanding::Quarantined;
        }
        let Some(certified) = self.things.get(&seen.thing) else { return RemainsStanding::Returned };
        let is_same = certified.serial.as_ref().is_none_or(|serial| serial.is_empty() || *serial == seen.uid);
        match (&certified.kept, certified.is_exception) {
            (_, _) if !is_same => RemainsStanding::Returned,
            (Some(Some(day)), _) if *day <= now => RemainsStanding::RetentionOver,
            (_, true) => RemainsStanding::Excepted,
            (Some(_), false) => RemainsStanding::Retained,
            (None, false) => RemainsStanding::Returned,
        }
    }

    /// Returns the class of its data, from a certificate or from the resource itself.
    pub(super) fn class(&self, seen: &ObservedResource) -> Option<DataClass> {
        let certified = self.things.get(&seen.thing).and_then(|thing| thing.class);
        certified.or_else(|| seen.text("class").and_then(|class| class.parse().ok()))
    }

    /// Returns true if a certificate lists a resource of this name.
    pub(super) fn is_certified(&self, thing: &TenantResource) -> bool {
        self.things.contains_key(thing)
    }

    /// Returns true if a resource that was read by name belongs to the tenant. Names such as addresses are reused.
    pub(super) fn owns(&self, seen: &ObservedResource) -> bool {
        let serial = self.things.get(&seen.thing).and_then(|thing| thing.serial.as_ref());
        let is_same = serial.is_some_and(|serial| !serial.is_empty() && *serial == seen.uid);
        // Addresses, DNS names and partition keys are given to others, and many have no mark.
        let is_reused = seen.thing.kind == LUKS_KEY || seen.thing.system == "network";
        let of_nobody = seen.tenant.is_empty() && !is_reused;
        seen.tenant == self.tenant.as_str() || is_same || of_nobody
    }
}
