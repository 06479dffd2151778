//! A demand in the snapshot's terms, and who may be preempted for it.

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

/// What one plan is about.
pub(in crate::scheduling::planner) struct Preemptor<'a> {
    pub(in crate::scheduling::planner) snapshot: &'a Snapshot,
    pub(in crate::scheduling::planner) demand: &'a Demand,
    pub(in crate::scheduling::planner) settings: &'a Settings,
    pub(in crate::scheduling::planner) node: NodeIx,
    pub(in crate::scheduling::planner) requests: Vec<(KindIx, i128)>,
    pub(in crate::scheduling::planner) contested: Vec<KindIx>,
    /// The cohorts above the workspace, the root last.
    pub(in crate::scheduling::planner) above: Vec<NodeIx>,
    /// What is being freed for this demand already, and will end.
    pub(in crate::scheduling::planner) freed: BTreeSet<LoadIx>,
}

impl<'a> Preemptor<'a> {
    /// The demand in the snapshot's terms, with nothing contested that was not said to be.
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
        // In the order of the demand, so that what the snapshot once held does not show in the answer.
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

    /// The tree without what is being freed for this demand.
    pub(in crate::scheduling::planner) fn sim(&self) -> TreeOverlay<'a> {
        let mut sim = TreeOverlay::new(&self.snapshot.tree);
        for load in self.freed.iter().filter_map(|load| self.snapshot.load(*load)) {
            for (kind, amount) in &load.usage {
                sim.charge(load.node, *kind, -*amount);
            }
        }
        sim
    }

    /// Whether the demand fits as things are in `sim`.
    pub(in crate::scheduling::planner) fn fits(&self, sim: &TreeOverlay<'_>, borrowing: bool) -> bool {
        self.requests.iter().all(|(kind, amount)| {
            (borrowing || !sim.borrows_with(self.node, *kind, *amount))
                && *amount <= sim.available(self.node, *kind)
        })
    }

    /// Whether the load is in the demand's own workspace.
    pub(in crate::scheduling::planner) fn is_own(&self, load: &RunningLoad) -> bool {
        load.node == self.node
    }

    fn policy(&self, own: bool) -> PreemptPolicy {
        let preemption = self.snapshot.preemption(self.node);
        if own { preemption.within_workspace } else { preemption.reclaim_within_cohort }
    }

    /// Whether the workspace may preempt this load.
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

    /// Whether nothing from this key on can be allowed, the keys being in order.
    pub(in crate::scheduling::planner) fn exhausted(&self, own: bool, key: &Key) -> bool {
        match self.policy(own) {
            PreemptPolicy::Never => true,
            PreemptPolicy::LowerPriority => key.settled && key.priority >= self.demand.priority,
            PreemptPolicy::LowerOrNewerEqualPriority => key.settled && key.priority > self.demand.priority,
            PreemptPolicy::Any => false,
        }
    }

    /// Whether the demand may preempt nobody of this place.
    pub(in crate::scheduling::planner) fn never(&self, own: bool) -> bool {
        self.policy(own) == PreemptPolicy::Never
    }

    /// Whether a load may go although the demand borrows, where the workspace has no precedence over it.
    pub(in crate::scheduling::planner) fn while_borrowing(&self, load: &RunningLoad) -> bool {
        match self.snapshot.preemption(self.node).borrow_within_cohort {
            BorrowWithinCohort::Never => false,
            BorrowWithinCohort::LowerPriority { max_priority_threshold } => {
                let priority = load.workload.priority;
                priority < self.demand.priority && max_priority_threshold.is_none_or(|most| priority <= most)
            }
        }
    }

    /// Whether the workspace may never preempt others and still borrow.
    pub(in crate::scheduling::planner) fn borrowing_forbidden(&self) -> bool {
        self.snapshot.preemption(self.node).borrow_within_cohort == BorrowWithinCohort::Never
    }

    /// Why a load is left alone although quota and policy would let it go.
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

    /// Until when the load is left alone for having run too short.
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

    /// Whether shares decide.
    pub(in crate::scheduling::planner) fn fair(&self) -> bool {
        matches!(self.settings.algorithm, Algorithm::Fair { .. })
    }

    /// Workspaces of the cohort other than the demand's that use more than their own of something contested.
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

    /// Children of a cohort, but for the demand's workspace, that use more than their own of something contested.
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

    /// Loads on these machines that quota and policy would let go, in the order of their keys.
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
