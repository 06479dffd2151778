//! Queued workloads that one pass over the queue can skip.

use crate::{
    scheduling::admission::{
        admit_waiting::borrows_of,
        decision::aging::{Blocker, QueuePosition},
    },
    tenancy::{
        Account, AdmissionVerdict, Amounts, DimensionFinding, QueuedWorkload, Resource, WorkspaceName,
    },
};
use std::collections::{BTreeMap, BTreeSet};

/// Requests of one workspace with equal amounts, which get the same refusals.
type RequestShape = (WorkspaceName, Amounts, u64, bool);

/// Refusals that hold for a whole [`RequestShape`]; other refusals depend on more of a workload.
const OF_A_SHAPE: [&str; 11] = [
    "quota.used_up",
    "quota.slowed",
    "reservation.lent",
    "borrow.too_many",
    "borrow.none_idle",
    "nodes.too_few",
    "nodes.too_small",
    "gpus.busy",
    "gpus.fragmented",
    "facts.stale",
    "workspace.frozen",
];

/// Queued workloads that this pass skips.
#[derive(Default)]
pub(super) struct Skipped {
    workloads: BTreeSet<String>,
    shapes: BTreeSet<RequestShape>,
    /// Younger workloads wait behind these, by resource: those of one workspace, or all borrowers.
    behind: BTreeMap<(Option<WorkspaceName>, Resource), QueuePosition>,
}

impl Skipped {
    pub(super) fn contains(
        &self,
        workspace: &WorkspaceName,
        waits: &QueuedWorkload,
        account: &Account,
    ) -> bool {
        let place = (waits.since, waits.workload.as_str());
        let behind = |resource: &Resource| {
            let after = |whose: Option<WorkspaceName>| {
                let first = self.behind.get(&(whose, resource.clone()));
                first.is_some_and(|(since, name)| (*since, name.as_str()) < place)
            };
            after(Some(workspace.clone())) || borrows_of(account, waits, resource) && after(None)
        };
        self.workloads.contains(&waits.workload)
            || !self.shapes.is_empty() && self.shapes.contains(&shape(workspace, waits))
            || !self.behind.is_empty() && asked(waits).any(behind)
    }

    pub(super) fn refused(
        &mut self,
        workspace: &WorkspaceName,
        waits: QueuedWorkload,
        weighed: &[DimensionFinding],
    ) {
        let mut against = weighed.iter().filter(|finding| finding.answer != AdmissionVerdict::Admit);
        if against.any(|finding| OF_A_SHAPE.contains(&finding.code.as_str())) {
            self.shapes.insert(shape(workspace, &waits));
        }
        self.workloads.insert(waits.workload);
    }

    /// Skips all workloads that wait behind `ahead`, until a workload is admitted.
    pub(super) fn behind(&mut self, workspace: &WorkspaceName, resource: &Resource, ahead: Blocker) {
        for (whose, place) in [(Some(workspace.clone()), ahead.of_line), (None, ahead.of_all)] {
            let Some(place) = place else { continue };
            let first = self.behind.entry((whose, resource.clone())).or_insert_with(|| place.clone());
            *first = place.min(first.clone());
        }
    }

    /// Clears refusals that may have depended on a workload admitted since.
    pub(super) fn admitted(&mut self) {
        self.shapes.clear();
        self.behind.clear();
    }
}

fn asked(waits: &QueuedWorkload) -> impl Iterator<Item = &Resource> {
    waits.requests.iter().filter(|(_, amount)| **amount > 0).map(|(resource, _)| resource)
}

fn shape(workspace: &WorkspaceName, waits: &QueuedWorkload) -> RequestShape {
    (workspace.clone(), waits.requests.clone(), waits.together, waits.preemptible)
}
