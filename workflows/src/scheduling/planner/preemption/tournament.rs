//! The order of fair sharing: from the root down to the workspace with the highest share.

use crate::scheduling::planner::{
    model::{
        cohort_tree::{NodeIx, TreeOverlay},
        snapshot::{Key, RunningLoad},
    },
    preemption::{
        candidates::{Merge, Queue, Source},
        dominant_share::{Share, Shares},
        preemptor::Preemptor,
    },
};
use std::{
    cmp::Reverse,
    collections::{BTreeMap, BTreeSet, HashMap, HashSet, VecDeque},
};

/// The remaining candidates of one workspace, in order.
enum Lane<'a, 'b> {
    /// Read on demand.
    Running(Box<Queue<'a, 'b>>),
    /// Kept from the first rule.
    Kept(VecDeque<&'a RunningLoad>),
}

impl<'a> Lane<'a, '_> {
    fn head(&mut self) -> Option<&'a RunningLoad> {
        match self {
            Self::Running(queue) => queue.peek().map(|(load, _)| *load),
            Self::Kept(loads) => loads.front().copied(),
        }
    }

    fn pop(&mut self) -> Option<&'a RunningLoad> {
        match self {
            Self::Running(queue) => queue.next().map(|(load, _)| load),
            Self::Kept(loads) => loads.pop_front(),
        }
    }
}

/// The order of workspaces: highest share first, then by the key of the first candidate; the demand's own workspace last.
type Rank = (Reverse<Share>, bool, bool, Key, NodeIx);
/// The order of cohorts: highest share first, then by name.
type CohortRank = (Reverse<Share>, String, NodeIx);

#[derive(Default)]
struct Children {
    workspaces: BTreeSet<Rank>,
    cohorts: BTreeSet<CohortRank>,
}

/// The workspaces with candidates, ranked within each cohort. A change costs only the path to the root.
pub(in crate::scheduling::planner) struct Tournament<'a, 'b> {
    ask: &'b Preemptor<'a>,
    lanes: BTreeMap<NodeIx, Lane<'a, 'b>>,
    children: HashMap<NodeIx, Children>,
    workspaces: HashMap<NodeIx, Rank>,
    cohorts: HashMap<NodeIx, CohortRank>,
    above: HashSet<NodeIx>,
    shares: Shares<'a>,
}

impl<'a, 'b> Tournament<'a, 'b> {
    /// Creates a tournament of all running workloads of these workspaces.
    pub(in crate::scheduling::planner) fn of_running(
        ask: &'b Preemptor<'a>,
        sim: &TreeOverlay<'_>,
        sources: &[Source],
    ) -> Self {
        let lane = |source: &Source| {
            let queue = Merge::free_to_go(ask, std::slice::from_ref(source)).peekable();
            (source.node, Lane::Running(Box::new(queue)))
        };
        Self::new(ask, sim, sources.iter().map(lane).collect())
    }

    /// Creates a tournament of workloads that are already sorted.
    pub(in crate::scheduling::planner) fn from_sorted(
        ask: &'b Preemptor<'a>,
        sim: &TreeOverlay<'_>,
        kept: Vec<&'a RunningLoad>,
    ) -> Self {
        let mut lanes: BTreeMap<NodeIx, VecDeque<&RunningLoad>> = BTreeMap::new();
        for load in kept {
            lanes.entry(load.node).or_default().push_back(load);
        }
        Self::new(ask, sim, lanes.into_iter().map(|(node, loads)| (node, Lane::Kept(loads))).collect())
    }

    fn new(ask: &'b Preemptor<'a>, sim: &TreeOverlay<'_>, lanes: BTreeMap<NodeIx, Lane<'a, 'b>>) -> Self {
        let mut all = Self {
            ask,
            lanes,
            children: HashMap::new(),
            workspaces: HashMap::new(),
            cohorts: HashMap::new(),
            above: ask.above.iter().copied().collect(),
            shares: Shares::new(&ask.snapshot.resources),
        };
        let nodes: Vec<NodeIx> = all.lanes.keys().copied().collect();
        for node in nodes {
            all.rank(sim, node);
        }
        // Bottom up, because the rank of a cohort depends on the nodes below it. A child has a higher index than its parent.
        let mut cohorts: BTreeSet<NodeIx> = all.children.keys().copied().collect();
        while let Some(cohort) = cohorts.pop_last() {
            all.rank_cohort(sim, cohort);
            cohorts.extend(ask.snapshot.tree.parent(cohort));
        }
        all
    }

    /// Returns the share of a node in this state.
    pub(in crate::scheduling::planner) fn share(&mut self, sim: &TreeOverlay<'_>, node: NodeIx) -> Share {
        let weight = self.ask.snapshot.entry(node).map(|entry| entry.sharing.weight).unwrap_or_default();
        self.shares.share_of(sim, node, weight)
    }

    /// Returns the next workspace to preempt from.
    pub(in crate::scheduling::planner) fn next(&self) -> Option<NodeIx> {
        let Some(mut cohort) = self.ask.above.last().copied() else {
            // A workspace without a cohort has no other candidates.
            return self.lanes.contains_key(&self.ask.node).then_some(self.ask.node);
        };
        loop {
            let children = self.children.get(&cohort)?;
            match (children.workspaces.first(), children.cohorts.first()) {
                (None, None) => return None,
                (Some(workspace), None) => return Some(workspace.4),
                (Some(workspace), Some(below)) if workspace.0.0 > below.0.0 => return Some(workspace.4),
                (Some(_) | None, Some(below)) => cohort = below.2,
            }
        }
    }

    /// Removes and returns the first candidate of a workspace.
    pub(in crate::scheduling::planner) fn pop(&mut self, node: NodeIx) -> Option<&'a RunningLoad> {
        let load = self.lanes.get_mut(&node).and_then(Lane::pop);
        if self.lanes.get_mut(&node).and_then(Lane::head).is_none() {
            self.lanes.remove(&node);
        }
        load
    }

    /// Excludes a workspace from now on.
    pub(in crate::scheduling::planner) fn drop(&mut self, node: NodeIx) {
        self.lanes.remove(&node);
    }

    /// Updates the rank of a workspace and its cohorts after a change.
    pub(in crate::scheduling::planner) fn refresh(&mut self, sim: &TreeOverlay<'_>, node: NodeIx) {
        self.rank(sim, node);
        let above: Vec<NodeIx> = self.ask.snapshot.tree.path(node).skip(1).collect();
        for cohort in above {
            self.rank_cohort(sim, cohort);
        }
    }

    fn rank(&mut self, sim: &TreeOverlay<'_>, node: NodeIx) {
        let Some(parent) = self.ask.snapshot.tree.parent(node) else { return };
        if let Some(old) = self.workspaces.remove(&node)
            && let Some(children) = self.children.get_mut(&parent)
        {
            children.workspaces.remove(&old);
        }
        let Some(head) = self.lanes.get_mut(&node).and_then(Lane::head) else { return };
        let share = self.share(sim, node);
        let own = node == self.ask.node;
        if share.borrowing || own {
            let rank = (Reverse(share), head.key.settled, own, head.key.clone(), node);
            self.children.entry(parent).or_default().workspaces.insert(rank.clone());
            self.workspaces.insert(node, rank);
        }
    }

    fn rank_cohort(&mut self, sim: &TreeOverlay<'_>, cohort: NodeIx) {
        let Some(parent) = self.ask.snapshot.tree.parent(cohort) else { return };
        if let Some(old) = self.cohorts.remove(&cohort)
            && let Some(children) = self.children.get_mut(&parent)
        {
            children.cohorts.remove(&old);
        }
        let live = self
            .children
            .get(&cohort)
            .is_some_and(|children| !children.workspaces.is_empty() || !children.cohorts.is_empty());
        let share = self.share(sim, cohort);
        if live && (share.borrowing || self.above.contains(&cohort)) {
            let name = self.ask.snapshot.entry(cohort).map(|entry| entry.name.clone()).unwrap_or_default();
            let rank = (Reverse(share), name, cohort);
            self.children.entry(parent).or_default().cohorts.insert(rank.clone());
            self.cohorts.insert(cohort, rank);
        }
    }
}
