//! Nominal quota, use and free capacity at each node of a state, counted again from the leaves each time.

use super::{Mistake, State, resource};
use std::cmp::Ordering;
use workflows::scheduling::planner::Quota;

pub(super) fn wide(amount: u64) -> i128 {
    i128::from(amount)
}

/// The state without some workloads, and optionally with the demand.
#[derive(Clone)]
pub(super) struct Tree<'a> {
    pub(super) state: &'a State,
    mistake: Mistake,
    pub(super) gone: Vec<usize>,
    pub(super) extra: bool,
    /// The quota of each subtree and kind, which is constant here.
    quotas: Vec<Vec<i128>>,
}

impl<'a> Tree<'a> {
    pub(super) fn new(state: &'a State, mistake: Mistake) -> Self {
        let mut tree = Self { state, mistake, gone: Vec::new(), extra: false, quotas: Vec::new() };
        let all = 0..state.places.len();
        tree.quotas = all.map(|at| state.kinds().map(|kind| tree.count(at, kind)).collect()).collect();
        tree
    }

    pub(super) fn quota(&self, at: usize, kind: usize) -> Quota {
        let mut quota = self.state.places[at].quotas[kind].unwrap_or_default();
        if self.mistake == Mistake::NoLendingLimit {
            quota.lending_limit = None;
        }
        if self.mistake == Mistake::NoBorrowingLimit {
            quota.borrowing_limit = None;
        }
        quota
    }

    pub(super) fn children(&self, at: usize) -> Vec<usize> {
        (0..self.state.places.len()).filter(|child| self.state.places[*child].parent == Some(at)).collect()
    }

    pub(super) fn count(&self, at: usize, kind: usize) -> i128 {
        let lent = |child: usize| {
            let quota = self.count(child, kind);
            self.quota(child, kind).lending_limit.map_or(quota, |limit| quota.min(wide(limit)))
        };
        wide(self.quota(at, kind).nominal) + self.children(at).into_iter().map(lent).sum::<i128>()
    }

    pub(super) fn subtree(&self, at: usize, kind: usize) -> i128 {
        self.quotas[at][kind]
    }

    pub(super) fn local(&self, at: usize, kind: usize) -> i128 {
        self.quota(at, kind).lending_limit.map_or(0, |limit| (self.subtree(at, kind) - wide(limit)).max(0))
    }

    pub(super) fn usage(&self, at: usize, kind: usize) -> i128 {
        let running = self.state.running.iter().enumerate();
        let here = running.filter(|(index, load)| load.at == at && !self.gone.contains(index));
        let own: i128 = here.map(|(_, load)| wide(load.usage[kind].unwrap_or(0))).sum();
        let demand = if self.extra && at == self.state.asks { wide(self.state.requests[kind]) } else { 0 };
        let above = |child: usize| (self.usage(child, kind) - self.local(child, kind)).max(0);
        own + demand + self.children(at).into_iter().map(above).sum::<i128>()
    }

    pub(super) fn room(&self, at: usize, kind: usize, used: bool) -> i128 {
        let (subtree, local) = (self.subtree(at, kind), self.local(at, kind));
        let usage = if used { self.usage(at, kind) } else { 0 };
        let Some(parent) = self.state.places[at].parent else { return subtree - usage };
        let mut above = self.room(parent, kind, used);
        if let Some(limit) = self.quota(at, kind).borrowing_limit {
            above = above.min(subtree - local - (usage - local).max(0) + wide(limit));
        }
        (local - usage).max(0) + above
    }

    pub(super) fn available(&self, at: usize, kind: usize) -> i128 {
        self.room(at, kind, true).max(0)
    }

    pub(super) fn within(&self, at: usize, kinds: &[usize]) -> bool {
        kinds.iter().all(|kind| self.usage(at, *kind) <= self.subtree(at, *kind))
    }

    pub(super) fn fits(&self, borrowing: bool) -> bool {
        let (asks, mut without) = (self.state.asks, self.clone());
        without.extra = false;
        self.state.kinds().filter(|kind| self.state.requests[*kind] > 0).all(|kind| {
            let asked = wide(self.state.requests[kind]);
            (borrowing || without.usage(asks, kind) + asked <= without.subtree(asks, kind))
                && asked <= without.available(asks, kind)
        })
    }

    pub(super) fn declared(&self, at: usize, kind: usize) -> bool {
        self.state.places[at].quotas[kind].is_some()
            || self.children(at).into_iter().any(|child| self.declared(child, kind))
    }

    /// Returns true for a borrower, true for an infinite share, and the share as a fraction.
    pub(super) fn share(&self, at: usize) -> (bool, bool, i128, i128) {
        let shares = (0..2).map(|of| self.share_of(at, of));
        let all: Vec<_> = shares.collect();
        let most = all.iter().copied().max_by(|a, b| order(*a, *b)).unwrap();
        (all.iter().any(|share| share.0), most.1, most.2, most.3)
    }

    pub(super) fn share_of(&self, at: usize, of: usize) -> (bool, bool, i128, i128) {
        let Some(parent) = self.state.places[at].parent else { return (false, false, 0, 1) };
        let kinds = || self.state.kinds().filter(move |kind| resource(*kind) == of);
        let above = |kind: usize| (self.usage(at, kind) - self.subtree(at, kind)).max(0);
        let borrowed: i128 = kinds().filter(|kind| self.declared(at, *kind)).map(above).sum();
        let root = self.path(at).last().copied().unwrap();
        let lendable: i128 = kinds()
            .filter(|kind| self.declared(root, *kind))
            .map(|kind| self.room(parent, kind, false))
            .sum();
        let weight = wide(self.state.places[at].weight);
        match (borrowed > 0, lendable > 0, weight > 0) {
            (false, ..) => (false, false, 0, 1),
            (true, false, _) => (true, false, 0, 1),
            (true, true, false) => (true, true, borrowed, lendable),
            (true, true, true) => (true, false, borrowed, lendable * weight),
        }
    }

    pub(super) fn compare(&self, a: usize, b: usize) -> Ordering {
        order(self.share(a), self.share(b))
    }

    pub(super) fn path(&self, at: usize) -> Vec<usize> {
        std::iter::successors(Some(at), |at| self.state.places[*at].parent).collect()
    }
}

pub(super) fn order(a: (bool, bool, i128, i128), b: (bool, bool, i128, i128)) -> Ordering {
    a.1.cmp(&b.1).then_with(|| (a.2 * b.3).cmp(&(b.2 * a.3)))
}
