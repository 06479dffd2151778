//! Requests documents early and many at once. A decision restarts each time a document is missing, so foreseeable documents are requested together. This module
//! never changes a result.

use crate::{
    placement::best_fit,
    scheduling::admission::{
        admit_waiting::MAX_ADMITTED_PER_COMMIT,
        gpu_allocation::kinds,
        unit_of_work::{AdmissionTx, together},
    },
    tenancy::{
        Admission, GpuKind, Loan, NodeId, NodeUse, OpenLoans, QueuedWorkload, Resource, RunningList,
        Workload, WorkspaceName, WorkspaceQueue, workspace_key,
    },
};
use engine::{Undecided, View};
use std::collections::BTreeSet;

impl AdmissionTx {
    /// Requests the documents for the decision on a new workload.
    pub(super) fn prefetch_request(&self, view: &View, workload: &Workload) -> Result<(), Undecided> {
        let mut nodes = BTreeSet::new();
        for (kind, amount) in kinds(workload) {
            let rooms = self.occupancy.iter().map(|occupancy| best_fit::rooms(occupancy, kind));
            let chosen =
                rooms.filter_map(|rooms| best_fit::choose(best_fit::each(&rooms), amount, workload.together));
            nodes.extend(chosen.flat_map(|chosen| chosen.into_keys().map(|node| node.to_string())));
        }
        together([
            view.prefetch::<NodeUse>(nodes),
            self.prefetch_numbers(view, 1),
            self.prefetch_loans(view, kinds(workload).map(|(kind, _)| kind)),
        ])
    }

    /// Requests the documents for the end of a workload.
    pub(super) fn prefetch_end(&self, view: &View, workload: &Workload) -> Result<(), Undecided> {
        let tenant = &self.tenant.id;
        let part = RunningList::key(tenant, &workload.workspace, RunningList::part_of(&workload.name));
        let waiting = self.cohort.accounts.iter().filter(|(_, account)| account.waiting > 0);
        together([
            view.prefetch::<NodeUse>(workload.placed.iter().map(|part| part.node.to_string())),
            view.prefetch::<RunningList>([part]),
            view.prefetch::<WorkspaceQueue>(waiting.map(|(name, _)| workspace_key(tenant, name))),
            self.prefetch_loans(view, kinds(workload).map(|(kind, _)| kind)),
        ])
    }

    /// Requests the documents for admitting these queued workloads.
    pub(super) fn prefetch_admissions(
        &self,
        view: &View,
        woken: &[(WorkspaceName, QueuedWorkload)],
    ) -> Result<(), Undecided> {
        let tenant = &self.tenant.id;
        let gpus = woken.iter().flat_map(|(_, waits)| waits.requests.keys().filter_map(Resource::gpu));
        let asked: BTreeSet<&GpuKind> = gpus.collect();
        let mut nodes: Vec<(u64, NodeId)> = Vec::new();
        for kind in &asked {
            let rooms = self.occupancy.iter().flat_map(|occupancy| best_fit::rooms(occupancy, kind));
            nodes.extend(rooms.map(|(node, room)| (room, node)));
        }
        nodes.sort();
        nodes.truncate(MAX_ADMITTED_PER_COMMIT);
        let part = |(workspace, waits): &(WorkspaceName, QueuedWorkload)| {
            RunningList::key(tenant, workspace, RunningList::part_of(&waits.workload))
        };
        together([
            view.prefetch::<Workload>(woken.iter().map(|(_, waits)| Workload::key(tenant, &waits.workload))),
            view.prefetch::<RunningList>(woken.iter().map(part)),
            view.prefetch::<NodeUse>(nodes.into_iter().map(|(_, node)| node.to_string())),
            self.prefetch_numbers(view, u64::try_from(woken.len()).unwrap_or(0)),
            self.prefetch_loans(view, asked.into_iter()),
        ])
    }

    /// Requests the next `count` decisions and loans.
    fn prefetch_numbers(&self, view: &View, count: u64) -> Result<(), Undecided> {
        let tenant = &self.tenant.id;
        let from = |last: u64| last.saturating_add(1)..=last.saturating_add(count);
        together([
            view.prefetch::<Admission>(
                from(self.cohort.decisions).map(|number| Admission::key(tenant, number)),
            ),
            view.prefetch::<Loan>(from(self.cohort.loans).map(|number| Loan::key(tenant, number))),
        ])
    }

    fn prefetch_loans<'a>(
        &self,
        view: &View,
        kinds: impl Iterator<Item = &'a GpuKind>,
    ) -> Result<(), Undecided> {
        let key = |kind: &GpuKind| OpenLoans::key(&self.tenant.id, &Resource::Gpu(kind.clone()));
        view.prefetch::<OpenLoans>(kinds.map(key))
    }
}
