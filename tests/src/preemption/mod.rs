//! A second planner, slow and without indexes, as a reference for the real one.
//!
//! Implements only the rules: every quantity is counted again from the leaves, every list is built and sorted
//! completely. It supports one tree of cohorts and only Kueue's rules.

mod oracle;
mod tree;

pub use oracle::choose;

use tree::{Tree, wide};
use workflows::scheduling::planner::{
    Demand, Preemption, Quota, ResourceKind, Sharing, Snapshot, Weight, Workload,
};

/// A cohort or workspace.
#[derive(Clone, Debug)]
pub struct Place {
    /// The cohort above, as an index of the list; always smaller.
    pub parent: Option<usize>,
    /// True for a cohort.
    pub cohort: bool,
    /// The fair-sharing weight, in billionths.
    pub weight: u64,
    /// Its quota of each kind; `None` if never set.
    pub quotas: Vec<Option<Quota>>,
    /// Which workloads its demands may preempt.
    pub preemption: Preemption,
}

/// A running workload.
#[derive(Clone, Debug)]
pub struct Running {
    /// Its id.
    pub id: String,
    /// The workspace, as an index of the list.
    pub at: usize,
    /// Its use of each kind; `None` if not used.
    pub usage: Vec<Option<u64>>,
    /// Its priority.
    pub priority: i64,
    /// When it was queued.
    pub queued_at: i64,
    /// When it got its quota.
    pub reserved_at: i64,
    /// True if it is being evicted.
    pub evicted: bool,
}

/// A state and a demand in it.
#[derive(Clone, Debug)]
pub struct State {
    /// The tree; parents precede their children.
    pub places: Vec<Place>,
    /// The running workloads.
    pub running: Vec<Running>,
    /// The workspace of the demand.
    pub asks: usize,
    /// The request, of each kind.
    pub requests: Vec<u64>,
    /// Its priority.
    pub priority: i64,
    /// When it was queued.
    pub queued_at: i64,
}

/// A rule that can be left out, to check that the cases detect it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Mistake {
    /// None.
    None,
    /// Lending limits are ignored.
    NoLendingLimit,
    /// Borrowing limits are ignored.
    NoBorrowingLimit,
    /// Borrowing is tried first instead of last.
    SwappedAttempts,
    /// Every running workload is a candidate, whatever it uses.
    AnyKind,
}

/// The name of a place.
#[must_use]
pub fn name(at: usize) -> String {
    format!("p{at}")
}

/// Returns the resource kinds, by index.
#[must_use]
pub fn kinds(count: usize) -> Vec<ResourceKind> {
    [ResourceKind::gpu("m0"), ResourceKind::cpu(), ResourceKind::gpu("m1")].into_iter().take(count).collect()
}

/// Returns the resource of a kind: GPUs of two models are one.
fn resource(kind: usize) -> usize {
    kind % 2
}

impl State {
    fn kinds(&self) -> std::ops::Range<usize> {
        0..self.requests.len()
    }

    /// Returns the same state for the planner.
    #[must_use]
    pub fn snapshot(&self) -> Snapshot {
        let (mut snapshot, kinds) = (Snapshot::new(), kinds(self.requests.len()));
        for (at, place) in self.places.iter().enumerate() {
            let (own, above) = (name(at), place.parent.map(name));
            let sharing = Sharing { weight: Weight::billionths(place.weight), min_runtime: None };
            if place.cohort {
                snapshot.add_cohort(&own, above.as_deref(), sharing).unwrap();
            } else {
                snapshot.add_workspace(&own, above.as_deref(), place.preemption, sharing).unwrap();
            }
            for (kind, quota) in kinds.iter().zip(&place.quotas) {
                let Some(quota) = quota else { continue };
                if place.cohort {
                    snapshot.set_cohort_quota(&own, kind, *quota).unwrap();
                } else {
                    snapshot.set_quota(&own, kind, *quota).unwrap();
                }
            }
        }
        for running in &self.running {
            snapshot.admit(self.workload(running)).unwrap();
        }
        snapshot
    }

    /// A running workload, for the planner.
    #[must_use]
    pub fn workload(&self, running: &Running) -> Workload {
        let kinds = kinds(self.requests.len()).into_iter().zip(&running.usage);
        let usage = kinds.filter_map(|(kind, amount)| amount.map(|amount| (kind, amount))).collect();
        Workload {
            priority: running.priority,
            queued_at: running.queued_at,
            reserved_at: running.reserved_at,
            evicted: running.evicted,
            ..Workload::new(&running.id, &name(running.at), usage)
        }
    }

    /// The demand, for the planner.
    #[must_use]
    pub fn demand(&self) -> Demand {
        let kinds = kinds(self.requests.len()).into_iter();
        let requests =
            kinds.clone().zip(self.requests.iter().copied()).filter(|(_, amount)| *amount > 0).collect();
        let contested =
            kinds.enumerate().filter(|(at, _)| self.contested().contains(at)).map(|(_, kind)| kind);
        Demand {
            priority: self.priority,
            queued_at: self.queued_at,
            contested: Some(contested.collect()),
            ..Demand::new("d", &name(self.asks), requests)
        }
    }

    /// Returns the kinds that the demand cannot get from free capacity.
    #[must_use]
    pub fn contested(&self) -> Vec<usize> {
        let tree = Tree::new(self, Mistake::None);
        self.kinds()
            .filter(|kind| {
                self.requests[*kind] > 0 && wide(self.requests[*kind]) > tree.available(self.asks, *kind)
            })
            .collect()
    }
}
