//! Removes documents after their retention. Only this module removes documents by age.
//!
//! Called by the server's housekeeping. Invariant: a document is removed only if its kind's [`Retention`] permits it at the time of the commit. Its
//! tenant must have no legal hold, and no permanent document may refer to it. The commit is conditional on all three.

use super::report::SweepReport;
use crate::{
    destruction::Holds,
    platform::Platform,
    tenancy::{Admission, Loan, Workload},
};
use engine::{Engine, Entity, Error, Occurrence, Retention, Undecided, View};
use std::collections::BTreeSet;
use store::Document;

/// The number of documents in one read.
const PAGE: usize = 500;
/// The number of documents that one commit removes.
const AT_ONCE: usize = 50;

/// Returns true if another document still refers to an expired document.
pub type InUse<T> = fn(&mut View, &T) -> Result<bool, Undecided>;

/// An expired document, as it was read.
struct Candidate {
    id: String,
    /// The tenant, if a legal hold can apply.
    tenant: Option<String>,
    readable: bool,
}

/// Returns the tenants with a legal hold in force.
///
/// # Errors
/// The errors of the store.
pub async fn tenants_on_hold(engine: &Engine<Platform>) -> Result<BTreeSet<String>, Error> {
    let (mut held, mut after) = (BTreeSet::new(), None);
    loop {
        let page = engine.store().documents(Holds::COLLECTION, "", after.as_deref(), PAGE).await?;
        for found in &page.items {
            // An unreadable document may contain holds.
            let is_held = engine.parse_document::<Holds>(found).map_or(true, |holds| !holds.open.is_empty());
            if is_held {
                held.insert(found.key.id.clone());
            }
        }
        after = page.next;
        if after.is_none() {
            return Ok(held);
        }
    }
}

/// Removes expired documents of the kinds that belong to the platform, and returns their number.
///
/// # Errors
/// The errors of the store. Documents that were already removed stay removed, and the next call continues.
pub async fn expire_documents(engine: &Engine<Platform>) -> Result<u64, Error> {
    let mut gone = expire::<Occurrence>(engine, |_, _| Ok(false)).await?;
    gone += expire::<SweepReport>(engine, |_, _| Ok(false)).await?;
    gone += expire::<Workload>(engine, |_, _| Ok(false)).await?;
    gone += expire::<Loan>(engine, |_, _| Ok(false)).await?;
    // After the workloads, because a workload refers to its current decision.
    gone += expire::<Admission>(engine, stands).await?;
    Ok(gone)
}

/// Returns true if this is the current decision of its workload.
fn stands(view: &mut View, decided: &Admission) -> Result<bool, Undecided> {
    let workload = view.get::<Workload>(&Workload::key(&decided.tenant, &decided.workload))?;
    Ok(workload.is_some_and(|workload| workload.decision == decided.id()))
}

/// Removes the expired documents of a kind that are not `in_use`, and returns their number.
///
/// # Errors
/// The errors of the store.
pub async fn expire<T: Entity>(engine: &Engine<Platform>, in_use: InUse<T>) -> Result<u64, Error> {
    if !T::RETENTION.is_limited() {
        return Ok(0);
    }
    let (mut gone, mut after) = (0, None::<String>);
    loop {
        let page = engine.store().documents(T::COLLECTION, "", after.as_deref(), PAGE).await?;
        let now = engine.clock().now();
        let old: Vec<Candidate> = page.items.iter().filter_map(|found| candidate::<T>(found, now)).collect();
        for part in old.chunks(AT_ONCE) {
            gone += engine.transact(true, |view| remove::<T>(view, part, in_use)).await?;
        }
        after = page.next;
        if after.is_none() {
            return Ok(gone);
        }
    }
}

fn candidate<T: Entity>(found: &Document, now: store::Timestamp) -> Option<Candidate> {
    let is_scratch = match T::RETENTION {
        Retention::Scratch(_) => true,
        Retention::WithSubject | Retention::Forever | Retention::Until(_) => false,
    };
    let read = serde_json::from_slice::<T>(&found.body).ok();
    let is_old = read.as_ref().map_or(is_scratch, |read| T::RETENTION.is_over(read, now));
    let tenant = || {
        let body: serde_json::Value = serde_json::from_slice(&found.body).ok()?;
        // A delivery has the tenant in its notification.
        let of = body.get("tenant").or_else(|| body.get("told")?.get("tenant"))?.as_str()?;
        (!of.is_empty()).then(|| of.to_owned())
    };
    is_old.then(|| Candidate {
        id: found.key.id.clone(),
        tenant: if is_scratch { None } else { tenant() },
        readable: read.is_some(),
    })
}

/// Removes the candidates that are still expired, under no legal hold, and not in use.
fn remove<T: Entity>(view: &mut View, old: &[Candidate], in_use: InUse<T>) -> Result<u64, Undecided> {
    view.prefetch::<T>(old.iter().map(|one| one.id.clone()))?;
    view.prefetch::<Holds>(old.iter().filter_map(|one| one.tenant.clone()).collect::<BTreeSet<_>>())?;
    let mut gone = 0;
    for one in old {
        if let Some(tenant) = &one.tenant
            && view.get::<Holds>(tenant)?.is_some_and(|holds| !holds.open.is_empty())
        {
            continue;
        }
        if one.readable {
            let Some(document) = view.get::<T>(&one.id)? else { continue };
            if !T::RETENTION.is_over(&document, view.now()) || in_use(view, &document)? {
                continue;
            }
        }
        view.delete::<T>(&one.id)?;
        gone += 1;
    }
    Ok(gone)
}
