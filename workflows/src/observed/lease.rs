//! The observer of a cluster: one server at a time, by a lease in the store.
//!
//! Invariant: each holder has a higher term than all before it. A commit that checks its term with [`is_current`] fails once another server has taken over.

use super::{Freshness, Term};
use crate::tenancy::ClusterId;
use engine::{Entity, Undecided, View};
use serde::{Deserialize, Serialize};
use std::time::Duration;
use store::Timestamp;

/// How long one of several servers holds the lease without renewal.
pub const LEASE: Duration = Duration::from_secs(15);

/// The observer of a cluster. Its times are those of the store's clock.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Observer {
    /// The cluster.
    pub cluster: ClusterId,
    /// The term of the holder.
    pub term: Term,
    /// The server that observes.
    pub holder: String,
    /// The end of the lease.
    pub until: Timestamp,
    /// The time since which the cluster is observed; `None` while it has no nodes of a tenant.
    pub since: Option<Timestamp>,
    /// How long the last observation may be used; `None` before the first one.
    #[serde(default, flatten, skip_serializing_if = "Option::is_none")]
    pub freshness: Option<Freshness>,
}

impl Observer {
    /// Returns the time since which no observation may be used, although the cluster is to be observed. `life` is how long an observation may be used.
    #[must_use]
    pub fn silent_since(&self, now: Timestamp, life: Duration) -> Option<Timestamp> {
        let first = Freshness::new(self.since?, life);
        let freshness = self.freshness.unwrap_or(first);
        freshness.overdue(now).map(|_| freshness.fresh_until)
    }
}

impl Entity for Observer {
    const COLLECTION: &'static str = "observers";
    const RETENTION: engine::Retention<Self> = engine::Retention::WithSubject;

    fn id(&self) -> String {
        self.cluster.to_string()
    }
}

/// The result of a claim.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Claim {
    /// The caller observes, with this term.
    Observes(Term),
    /// Another server observes.
    Other {
        /// That server.
        holder: String,
        /// The end of its lease.
        until: Timestamp,
    },
}

/// The server that claims a lease.
#[derive(Clone, Copy, Debug)]
pub struct Claimant<'a> {
    /// Its name, unique among the servers of the store.
    pub holder: &'a str,
    /// The term that it has held since its start; `None` if it has none. A server that starts again with the same name gets a new term.
    pub term: Option<Term>,
    /// How long it holds the lease without renewal.
    pub lease: Duration,
    /// True if no other server can use the store, so that every other holder has ended.
    pub is_alone: bool,
}

/// Claims the lease of a cluster, or renews it when half of it is over.
///
/// # Errors
/// Undecided until the view has loaded the observer.
pub fn claim(view: &mut View, cluster: &ClusterId, claimant: Claimant<'_>) -> Result<Claim, Undecided> {
    let now = view.now();
    let current = view.get::<Observer>(cluster.as_str())?;
    let until = now.after(claimant.lease);
    let Some(current) = current else {
        let (cluster, term, holder) = (cluster.clone(), Term(1), claimant.holder.to_owned());
        view.put(&Observer { cluster, term, holder, until, since: Some(now), freshness: None })?;
        return Ok(Claim::Observes(term));
    };
    // A lease that is longer than a lease can be was written by a clock that was set back.
    let is_running = now < current.until && current.until.since(now) <= claimant.lease;
    let is_own = current.holder == claimant.holder && claimant.term == Some(current.term);
    if is_own && is_running {
        let term = current.term;
        if current.until.since(now) <= claimant.lease / 2 {
            view.put(&Observer { until, ..current })?;
        }
        return Ok(Claim::Observes(term));
    }
    let can_take = !is_running || claimant.is_alone || current.holder == claimant.holder;
    if !can_take {
        return Ok(Claim::Other { holder: current.holder, until: current.until });
    }
    let term = Term(current.term.0.saturating_add(1));
    let (holder, since) = (claimant.holder.to_owned(), current.since.or(Some(now)));
    view.put(&Observer { term, holder, until, since, ..current })?;
    Ok(Claim::Observes(term))
}

/// Returns true if `term` is the running term of a cluster. A commit that asked this fails if the term ends before it.
///
/// # Errors
/// Undecided until the view has loaded the observer.
pub fn is_current(view: &mut View, cluster: &ClusterId, term: Term) -> Result<bool, Undecided> {
    let now = view.now();
    let observer = view.get::<Observer>(cluster.as_str())?;
    Ok(observer.is_some_and(|observer| observer.term == term && now < observer.until))
}

/// Renews the freshness of a cluster after an observation of this term, when half of its life is over.
///
/// # Errors
/// Undecided until the view has loaded the observer.
pub fn renew(view: &mut View, cluster: &ClusterId, term: Term, life: Duration) -> Result<(), Undecided> {
    let now = view.now();
    let Some(observer) = view.get::<Observer>(cluster.as_str())?.filter(|it| it.term == term) else {
        return Ok(());
    };
    let renewed = match observer.freshness {
        Some(freshness) => freshness.renewed(now, life),
        None => Some(Freshness::new(now, life)),
    };
    match renewed {
        Some(freshness) => view.put(&Observer { freshness: Some(freshness), ..observer }),
        None => Ok(()),
    }
}

/// Ends the lease of a term, so that another server can take over at once.
///
/// # Errors
/// Undecided until the view has loaded the observer.
pub fn release(view: &mut View, cluster: &ClusterId, term: Term) -> Result<(), Undecided> {
    let now = view.now();
    match view.get::<Observer>(cluster.as_str())?.filter(|observer| observer.term == term) {
        Some(observer) => view.put(&Observer { until: now, ..observer }),
        None => Ok(()),
    }
}

/// Ends the observation of a cluster that has no nodes of a tenant, so that it does not count as silent. Its term is kept for the next holder.
///
/// # Errors
/// Undecided until the view has loaded the observer.
pub fn rest(view: &mut View, cluster: &ClusterId) -> Result<(), Undecided> {
    let now = view.now();
    match view.get::<Observer>(cluster.as_str())?.filter(|observer| observer.since.is_some()) {
        Some(observer) => view.put(&Observer { until: now, since: None, freshness: None, ..observer }),
        None => Ok(()),
    }
}
