//! The rules: the candidates, their order, and the chosen victims.

use super::{
    Mistake, State, name,
    tree::{Tree, order, wide},
};
use workflows::scheduling::planner::{
    Algorithm, BorrowWithinCohort, PreemptPolicy, Preemption, Settings, Strategy,
};

struct Oracle<'a> {
    tree: Tree<'a>,
    contested: Vec<usize>,
    mistake: Mistake,
}

/// Returns the victims that the rules choose, with the reason for each, sorted.
#[must_use]
pub fn choose(state: &State, settings: &Settings, mistake: Mistake) -> Vec<(String, &'static str)> {
    let tree = Tree::new(state, mistake);
    let contested = state.contested();
    let potential = |kind: usize| wide(state.requests[kind]) <= tree.room(state.asks, kind, false);
    if !state.kinds().all(|kind| state.requests[kind] == 0 || potential(kind)) {
        return Vec::new();
    }
    let mut oracle = Oracle { tree, contested, mistake };
    let found = match &settings.algorithm {
        Algorithm::Classical => oracle.classical(),
        Algorithm::Fair { strategies } => oracle.fair(strategies),
    };
    let mut found: Vec<_> =
        found.into_iter().map(|(load, reason)| (state.running[load].id.clone(), reason)).collect();
    found.sort();
    found
}

impl Oracle<'_> {
    fn state(&self) -> &State {
        self.tree.state
    }

    fn policy(&self) -> Preemption {
        self.state().places[self.state().asks].preemption
    }

    fn candidate(&self, load: usize) -> bool {
        let (state, load) = (self.state(), &self.state().running[load]);
        let uses =
            self.mistake == Mistake::AnyKind || self.contested.iter().any(|kind| load.usage[*kind].is_some());
        let policy = if load.at == state.asks {
            self.policy().within_workspace
        } else {
            self.policy().reclaim_within_cohort
        };
        uses && match policy {
            PreemptPolicy::Never => false,
            PreemptPolicy::LowerPriority => load.priority < state.priority,
            PreemptPolicy::LowerOrNewerEqualPriority => {
                load.priority < state.priority
                    || (load.priority == state.priority && load.queued_at > state.queued_at)
            }
            PreemptPolicy::Any => true,
        }
    }

    fn key(&self, load: usize) -> (bool, bool, i64, i64, String) {
        let running = &self.state().running[load];
        let own = running.at == self.state().asks;
        (!running.evicted, own, running.priority, -running.reserved_at, running.id.clone())
    }

    fn classical(&mut self) -> Vec<(usize, &'static str)> {
        let state = self.tree.state;
        let path = self.tree.path(state.asks);
        let mut remaining: Vec<i128> = state.requests.iter().map(|amount| wide(*amount)).collect();
        let mut levels = Vec::new();
        let mut advantage = false;
        for (level, at) in path.iter().enumerate() {
            if level > 0 {
                levels.push((*at, path[level - 1], advantage));
            }
            let asked = |kind: &usize| state.requests[*kind] > 0;
            advantage |= state
                .kinds()
                .filter(asked)
                .all(|kind| self.tree.usage(*at, kind) + remaining[kind] <= self.tree.subtree(*at, kind));
            for kind in state.kinds() {
                let kept = (self.tree.local(*at, kind) - self.tree.usage(*at, kind)).max(0);
                remaining[kind] = (remaining[kind] - kept).max(0);
            }
        }
        let (mut higher, mut priority, mut own) = (Vec::new(), Vec::new(), Vec::new());
        for load in (0..state.running.len()).filter(|load| self.candidate(*load)) {
            let at = state.running[load].at;
            if at == state.asks {
                own.push((load, at, false));
                continue;
            }
            let chain = self.tree.path(at);
            let level = levels.iter().find(|(cohort, ..)| chain.contains(cohort));
            let Some((common, _, advantage)) = level else { continue };
            let below = chain.iter().take_while(|node| *node != common);
            if below.into_iter().any(|node| self.tree.within(*node, &self.contested)) {
                continue;
            }
            if *advantage { &mut higher } else { &mut priority }.push((load, *common, *advantage));
        }
        let forbidden = self.policy().borrow_within_cohort == BorrowWithinCohort::Never;
        let under = |kind: &usize| {
            self.tree.usage(state.asks, *kind) < wide(self.tree.quota(state.asks, *kind).nominal)
        };
        let modes = if (higher.is_empty() && priority.is_empty())
            || (forbidden && !self.contested.iter().all(under))
        {
            vec![true]
        } else if (forbidden && higher.is_empty()) != (self.mistake == Mistake::SwappedAttempts) {
            vec![false, true]
        } else {
            vec![true, false]
        };
        let mut all = Vec::new();
        for evicted in [true, false] {
            for list in [&mut higher, &mut priority, &mut own] {
                list.sort_by_key(|(load, ..)| self.key(*load));
                all.extend(list.iter().copied().filter(|(load, ..)| state.running[*load].evicted == evicted));
            }
        }
        modes.into_iter().find_map(|borrowing| self.attempt(&all, borrowing)).unwrap_or_default()
    }

    fn attempt(
        &mut self,
        all: &[(usize, usize, bool)],
        borrowing: bool,
    ) -> Option<Vec<(usize, &'static str)>> {
        let state = self.tree.state;
        let mut taken = Vec::new();
        self.tree.gone.clear();
        for (load, common, advantage) in all.iter().copied() {
            let running = &state.running[load];
            let own = running.at == state.asks;
            let while_borrowing = match self.policy().borrow_within_cohort {
                BorrowWithinCohort::Never => false,
                BorrowWithinCohort::LowerPriority { max_priority_threshold } => {
                    running.priority < state.priority
                        && max_priority_threshold.is_none_or(|most| running.priority <= most)
                }
            };
            if !own {
                if borrowing && !advantage && !while_borrowing {
                    continue;
                }
                let chain = self.tree.path(running.at);
                let mut below = chain.iter().take_while(|node| **node != common);
                if below.any(|node| self.tree.within(*node, &self.contested)) {
                    continue;
                }
            }
            let reason = match (own, advantage, while_borrowing) {
                (true, ..) => "InClusterQueue",
                (false, false, true) => "InCohortReclaimWhileBorrowing",
                (false, ..) => "InCohortReclamation",
            };
            self.tree.gone.push(load);
            taken.push((load, reason));
            if self.tree.fits(borrowing) {
                return Some(self.back(taken, borrowing));
            }
        }
        None
    }

    fn back(&mut self, mut taken: Vec<(usize, &'static str)>, borrowing: bool) -> Vec<(usize, &'static str)> {
        for at in (0..taken.len() - 1).rev() {
            let given = taken.remove(at);
            self.tree.gone = taken.iter().map(|(load, _)| *load).collect();
            if !self.tree.fits(borrowing) {
                taken.insert(at, given);
            }
        }
        taken
    }

    fn fair(&mut self, strategies: &[Strategy]) -> Vec<(usize, &'static str)> {
        let state = self.tree.state;
        let mut candidates: Vec<usize> = (0..state.running.len())
            .filter(|load| self.candidate(*load))
            .filter(|load| {
                let at = state.running[*load].at;
                at == state.asks || !self.tree.within(at, &self.contested)
            })
            .collect();
        candidates.sort_by_key(|load| self.key(*load));
        self.tree.extra = true;
        let within = self.tree.within(state.asks, &self.contested);
        let (mut taken, mut kept) = (Vec::new(), Vec::new());
        let mut found = self.first(&mut candidates, strategies[0], within, &mut taken, &mut kept);
        if !found && strategies.len() > 1 {
            found = self.second(kept, &mut taken);
        }
        self.tree.extra = false;
        if found { self.back(taken, true) } else { Vec::new() }
    }

    fn first(
        &mut self,
        left: &mut Vec<usize>,
        strategy: Strategy,
        within: bool,
        taken: &mut Vec<(usize, &'static str)>,
        kept: &mut Vec<usize>,
    ) -> bool {
        let state = self.tree.state;
        while let Some(at) = self.turn(left) {
            let (ours, theirs) = self.branches(at);
            let (our_share, before) = (self.tree.share(ours), self.tree.share(theirs));
            while let Some(place) = left.iter().position(|load| state.running[*load].at == at) {
                let load = left.remove(place);
                let mut after = self.tree.clone();
                after.gone.push(load);
                let passes = match strategy {
                    Strategy::LessThanOrEqualToFinalShare => order(our_share, after.share(theirs)).is_le(),
                    Strategy::LessThanInitialShare => order(our_share, before).is_lt(),
                };
                let reason = match (at == state.asks, within) {
                    (true, _) => "InClusterQueue",
                    (false, true) => "InCohortReclamation",
                    (false, false) if passes => "InCohortFairSharing",
                    (false, false) => {
                        kept.push(load);
                        continue;
                    }
                };
                self.tree.gone.push(load);
                taken.push((load, reason));
                if self.tree.fits(true) {
                    return true;
                }
                break;
            }
        }
        false
    }

    fn second(&mut self, mut left: Vec<usize>, taken: &mut Vec<(usize, &'static str)>) -> bool {
        let state = self.tree.state;
        while let Some(at) = self.turn(&left) {
            let (ours, theirs) = self.branches(at);
            let here = left.iter().copied().find(|load| state.running[*load].at == at).unwrap();
            left.retain(|load| state.running[*load].at != at);
            if self.tree.compare(ours, theirs).is_lt() {
                self.tree.gone.push(here);
                taken.push((here, "InCohortFairSharing"));
                if self.tree.fits(true) {
                    return true;
                }
            }
        }
        false
    }

    /// Returns the workspace to take the next victim from, searching from the root.
    fn turn(&self, left: &[usize]) -> Option<usize> {
        let path = self.tree.path(self.state().asks);
        if path.len() == 1 {
            return left.iter().any(|load| self.state().running[*load].at == path[0]).then_some(path[0]);
        }
        let mut at = *path.last()?;
        while self.state().places[at].cohort {
            let live = self.tree.children(at).into_iter().filter(|child| self.live(*child, left, &path));
            at = live.max_by(|a, b| {
                let share = self.tree.compare(*a, *b);
                let cohort = |at: usize| self.state().places[at].cohort;
                let first = |at: usize| {
                    let here = left.iter().filter(|load| self.state().running[**load].at == at);
                    here.map(|load| self.key(*load)).min()
                };
                share.then_with(|| cohort(*a).cmp(&cohort(*b))).then_with(|| {
                    if cohort(*a) { name(*b).cmp(&name(*a)) } else { first(*b).cmp(&first(*a)) }
                })
            })?;
        }
        Some(at)
    }

    fn live(&self, at: usize, left: &[usize], path: &[usize]) -> bool {
        let borrows = self.tree.share(at).0 || path.contains(&at);
        let below = if self.state().places[at].cohort {
            self.tree.children(at).into_iter().any(|child| self.live(child, left, path))
        } else {
            left.iter().any(|load| self.state().running[*load].at == at)
        };
        borrows && below
    }

    /// Returns the branches of the demand and of the other workspace just below their common cohort.
    fn branches(&self, at: usize) -> (usize, usize) {
        let (ours, theirs) = (self.tree.path(self.state().asks), self.tree.path(at));
        let Some(common) =
            theirs.iter().find(|node| self.state().places[**node].cohort && ours.contains(node))
        else {
            return (at, at);
        };
        let below = |path: &[usize]| path.iter().copied().take_while(|node| node != common).last().unwrap();
        (below(&ours), below(&theirs))
    }
}
