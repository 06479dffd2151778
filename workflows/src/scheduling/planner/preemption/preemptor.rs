//! A demand as indexes of the snapshot, and the workloads that it may preempt.

use crate::scheduling::planner::{
    Algorithm, BorrowWithinCohort, Demand, Filter, Infeasible, InfeasibleReason, MinRuntimeAt, PreemptPolicy,
    Settings, Snapshot,
    model::{
        cohort_tree::{KindIx, NodeIx, TreeOverlay},
        snapshot::{Key, LoadIx, RunningLoad},
    },
    preemption::guard,
};
use std::collections::{BTreeSet, HashSet};

/// The demand of one plan, with its snapshot and settings.
pub(in crate::scheduling::planner) struct Preemptor<'a> {
    pub(in crate::scheduling::planner) snapshot: &'a Snapshot,
    pub(in crate::scheduling::planner) demand: &'a Demand,
    pub(in crate::scheduling::planner) settings: &'a Settings,
    pub(in crate::scheduling::planner) node: NodeIx,
    pub(in crate::scheduling::planner) requests: Vec<(KindIx, i128)>,
    pub(in crate::scheduling::planner) contested: Vec<KindIx>,
    /// The cohorts above the workspace, the root last.
    pub(in crate::scheduling::planner) above: Vec<NodeIx>,
    /// The workloads that are being freed for this demand and will end.
    pub(in crate::scheduling::planner) freed: BTreeSet<LoadIx>,
}

impl<'a> Preemptor<'a> {
    /// Creates the preemptor. Only the kinds that the demand names count as contested.
    pub(in crate::scheduling::planner) fn new(
        snapshot: &'a Snapshot,
        demand: &'a Demand,
        settings: &'a Settings,
    ) -> Result<Self, Box<Infeasible>> {
        let none = |why| {
            Box::new(Infeasible { why, explanation: crate::scheduling::planner::Explanation::default() })
        };
        let node = snapshot
            .workspace(&demand.workspace)
            .map_err(|_| none(InfeasibleReason::NoWorkspace { workspace: demand.workspace.clone() }))?;
        let sim = TreeOverlay::new(&snapshot.tree);
        let mut requests = Vec::new();
        // In the order of the demand, so that earlier contents of the snapshot do not affect the result.
        for (kind, amount) in demand.requests.iter().filter(|(_, amount)| **amount > 0) {
            let known = snapshot.kinds.get(kind).copied();
            let most = known.map_or(0, |known| sim.potential(node, known));
            match known {
                Some(known) if i128::from(*amount) <= most => requests.push((known, i128::from(*amount))),
                Some(_) | None => {
                    let most = u64::try_from(most).unwrap_or_default();
                    return Err(none(InfeasibleReason::NeverFits { kind: kind.clone(), most }));
                }
            }
        }
        let freed = snapshot.freeing.get(&demand.id).into_iter().flatten().copied();
        let freed = freed.filter(|load| {
            snapshot.load(*load).is_some_and(|load| !demand.stuck.contains(&load.workload.id))
        });
        let said = demand.contested.iter().flatten();
        Ok(Self {
            node,
            requests,
            contested: said.filter_map(|kind| snapshot.kinds.get(kind).copied()).collect(),
            above: snapshot.tree.path(node).skip(1).collect(),
            freed: freed.collect(),
            snapshot,
            demand,
            settings,
        })
    }

    /// Returns the tree without the workloads that are being freed for this demand.
    pub(in crate::scheduling::planner) fn sim(&self) -> TreeOverlay<'a> {
        let mut sim = TreeOverlay::new(&self.snapshot.tree);
        for load in self.freed.iter().filter_map(|load| self.snapshot.load(*load)) {
            for (kind, amount) in &load.usage {
                sim.charge(load.node, *kind, -*amount);
            }
        }
        sim
    }

    /// Returns true if the demand fits in `sim`.
    pub(in crate::scheduling::planner) fn fits(&self, sim: &TreeOverlay<'_>, borrowing: bool) -> bool {
        self.requests.iter().all(|(kind, amount)| {
            (borrowing || !sim.borrows_with(self.node, *kind, *amount))
                && *amount <= sim.available(self.node, *kind)
        })
    }

    /// Returns true if the workload is in the demand's own workspace.
    pub(in crate::scheduling::planner) fn is_own(&self, load: &RunningLoad) -> bool {
        load.node == self.node
    }

    fn policy(&self, own: bool) -> PreemptPolicy {
        let preemption = self.snapshot.preemption(self.node);
        if own { preemption.within_workspace } else { preemption.reclaim_within_cohort }
    }

    /// Returns true if the workspace may preempt this workload.
    pub(in crate::scheduling::planner) fn allowed(&self, load: &RunningLoad) -> bool {
        let lower = load.workload.priority < self.demand.priority;
        match self.policy(self.is_own(load)) {
            PreemptPolicy::Never => false,
            PreemptPolicy::LowerPriority => lower,
            PreemptPolicy::LowerOrNewerEqualPriority => {
                let newer = load.workload.queued_at > self.demand.queued_at;
                lower || (load.workload.priority == self.demand.priority && newer)
            }
            PreemptPolicy::Any => true,
        }
    }

    /// Returns true if no workload from this key on can be preempted. Keys are in order.
    pub(in crate::scheduling::planner) fn exhausted(&self, own: bool, key: &Key) -> bool {
        match self.policy(own) {
            PreemptPolicy::Never => true,
            PreemptPolicy::LowerPriority => key.settled && key.priority >= self.demand.priority,
            PreemptPolicy::LowerOrNewerEqualPriority => key.settled && key.priority > self.demand.priority,
            PreemptPolicy::Any => false,
        }
    }

    /// Returns true if the demand may preempt no workload of its own workspace or, if not `own`, of others.
    pub(in crate::scheduling::planner) fn never(&self, own: bool) -> bool {
        self.policy(own) == PreemptPolicy::Never
    }

    /// Returns true if a workload may be preempted although the demand borrows and has no precedence over it.
    pub(in crate::scheduling::planner) fn while_borrowing(&self, load: &RunningLoad) -> bool {
        match self.snapshot.preemption(self.node).borrow_within_cohort {
            BorrowWithinCohort::Never => false,
            BorrowWithinCohort::LowerPriority { max_priority_threshold } => {
                let priority = load.workload.priority;
                priority < self.demand.priority && max_priority_threshold.is_none_or(|most| priority <= most)
            }
        }
    }

    /// Returns true if the workspace may never preempt others and still borrow.
    pub(in crate::scheduling::planner) fn borrowing_forbidden(&self) -> bool {
        self.snapshot.preemption(self.node).borrow_within_cohort == BorrowWithinCohort::Never
    }

    /// Returns the reason why a workload is protected although quota and policy would allow its preemption.
    pub(in crate::scheduling::planner) fn filter(&self, load: &RunningLoad) -> Option<Filter> {
        let workload = &load.workload;
        if !workload.preemptible {
            return Some(Filter::NeverPreempt);
        }
        if self.demand.stuck.contains(&workload.id) {
            return Some(Filter::Stuck);
        }
        if let Some(demand) = &workload.freeing_for {
            return Some(Filter::InTransit { demand: demand.clone() });
        }
        if workload.checkpointing {
            return Some(Filter::Checkpointing);
        }
        if let Some(until) = workload.protected_until.filter(|until| *until > self.demand.now) {
            return Some(Filter::ProtectedLoan { until });
        }
        if let Some(until) = self.min_runtime(load).filter(|until| *until > self.demand.now) {
            return Some(Filter::MinRuntime { until });
        }
        let pair = (self.demand.workspace.clone(), workload.workspace.clone());
        if self.settings.forbidden.contains(&pair) {
            return Some(Filter::ForbiddenPair);
        }
        for part in &workload.parts {
            let holder = self.snapshot.machines.get(&part.node).and_then(|node| node.held_by.as_ref());
            if let Some(by) = holder.filter(|by| **by != self.demand.id) {
                return Some(Filter::NodeHeld { node: part.node.clone(), by: by.clone() });
            }
        }
        let hard = self.settings.guard.as_ref().filter(|guard| guard.hard);
        hard.filter(|hard| guard::breaks_alone(self, hard, load)).map(|_| Filter::Guard)
    }

    /// Returns the end of the workload's minimum runtime, if it has not reached it.
    fn min_runtime(&self, load: &RunningLoad) -> Option<i64> {
        let path: Vec<NodeIx> = self.snapshot.tree.path(load.node).collect();
        let from = match self.settings.min_runtime_at {
            MinRuntimeAt::Workspace => 0,
            MinRuntimeAt::CommonCohort => {
                let shared = path.iter().position(|node| self.above.contains(node));
                shared.map_or(0, |shared| shared.saturating_sub(1))
            }
        };
        let own = path.iter().skip(from).find_map(|node| self.snapshot.entry(*node)?.sharing.min_runtime);
        own.map(|least| load.workload.reserved_at.saturating_add(least))
    }

    /// Returns true if fair sharing is used.
    pub(in crate::scheduling::planner) fn fair(&self) -> bool {
        matches!(self.settings.algorithm, Algorithm::Fair { .. })
    }

    /// Returns other workspaces of the cohort above their own quota of a contested kind.
    pub(in crate::scheduling::planner) fn borrowers(&self, sim: &TreeOverlay<'_>) -> Vec<NodeIx> {
        let Some(root) = self.above.last() else { return Vec::new() };
        let mut found = Vec::new();
        let mut open = vec![*root];
        while let Some(cohort) = open.pop() {
            if let Some(crate::scheduling::planner::model::snapshot::Role::Cohort { cohorts, .. }) =
                self.snapshot.entry(cohort).map(|entry| &entry.role)
            {
                open.extend(cohorts.values());
            }
            found.extend(
                self.over_quota_children(sim, cohort)
                    .into_iter()
                    .filter(|node| self.snapshot.is_workspace(*node)),
            );
        }
        found
    }

    /// Returns children of a cohort above their own quota of a contested kind, without the demand's workspace.
    pub(in crate::scheduling::planner) fn over_quota_children(
        &self,
        sim: &TreeOverlay<'_>,
        cohort: NodeIx,
    ) -> BTreeSet<NodeIx> {
        let over = &self.snapshot.tree.over;
        let noted = self.contested.iter().filter_map(|kind| over.get(&(cohort, *kind))).flatten();
        let other = noted.copied().filter(|node| *node != self.node);
        other.filter(|node| self.freed.is_empty() || !sim.within(*node, &self.contested)).collect()
    }

    /// Returns workloads on these nodes that quota and policy allow to preempt, in the order of their keys.
    pub(in crate::scheduling::planner) fn candidates_on_nodes(
        &self,
        machine: &str,
        borrowers: &HashSet<NodeIx>,
    ) -> Vec<&'a RunningLoad> {
        let on = self.snapshot.on_machine.get(machine).into_iter().flatten();
        let loads = on.filter_map(|load| self.snapshot.load(*load));
        let mut loads: Vec<&RunningLoad> = loads
            .filter(|load| self.is_own(load) || borrowers.contains(&load.node))
            .filter(|load| load.usage.iter().any(|(kind, _)| self.contested.contains(kind)))
            .filter(|load| self.allowed(load) && self.filter(load).is_none())
            .collect();
        loads.sort_by(|a, b| a.key.cmp(&b.key));
        loads
    }
}
