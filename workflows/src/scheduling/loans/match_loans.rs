//! Matches lenders and borrowers: computes the loans of one kind in one tenant from the usage.
//!
//! Pure and deterministic. Afterwards each workspace borrows exactly its usage above the nominal quota, and no lender lends more than its idle amount within
//! its limit (I-8), as far as lenders suffice.

use super::arithmetic::spare;
use crate::tenancy::{Cohort, Lender, OpenLoan, Resource, WorkspaceName};
use std::collections::{BTreeMap, BTreeSet};

/// A loan to open, or an open loan before its change.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct LoanChange {
    pub(crate) lender: Lender,
    pub(crate) borrower: WorkspaceName,
    pub(crate) amount: u64,
    /// The loan that it replaces; its workload and terms stay. `None` for a new loan.
    pub(crate) instead_of: Option<OpenLoan>,
}

/// The changes of a settlement.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct Settlement {
    /// The remaining amount of each open loan by number. A loan with 0 is returned.
    pub(crate) shrunk: BTreeMap<u64, u64>,
    /// The loans to open.
    pub(crate) opened: Vec<LoanChange>,
    /// The amount without a lender, by borrower.
    pub(crate) uncovered: BTreeMap<WorkspaceName, u64>,
}

/// Settles the loans of `resource` to match the usage in the account. Returns loans of `ended` first, then the newest. Lenders are tried in order: the pool,
/// then the workspace with the most idle quota, then by name. A lender never lends to a borrower that `forbid` excludes.
pub(crate) fn settle(
    cohort: &Cohort,
    resource: &Resource,
    open: &[OpenLoan],
    ended: Option<&str>,
    forbid: &dyn Fn(&WorkspaceName, &WorkspaceName) -> bool,
) -> Settlement {
    let mut table = LoanTable::new(cohort, resource, open, forbid);
    table.give_back(ended);
    table.take_back();
    table.lend();
    table.settlement()
}

type LenderAndBorrower = (Lender, WorkspaceName);

struct LoanTable<'a> {
    /// By borrower: its usage above the nominal quota.
    wants: BTreeMap<&'a WorkspaceName, u64>,
    /// By lender: the most that it can lend.
    spares: BTreeMap<Lender, u64>,
    open: &'a [OpenLoan],
    /// The remaining amount of each open loan, in order.
    left: Vec<u64>,
    /// The amount of each loan that returned to its lender although its borrower still needs it.
    moved: Vec<u64>,
    /// The new loans, by lender and borrower.
    fresh: BTreeMap<LenderAndBorrower, u64>,
    uncovered: BTreeMap<WorkspaceName, u64>,
    forbid: &'a dyn Fn(&WorkspaceName, &WorkspaceName) -> bool,
}

impl<'a> LoanTable<'a> {
    fn new(
        cohort: &'a Cohort,
        resource: &'a Resource,
        open: &'a [OpenLoan],
        forbid: &'a dyn Fn(&WorkspaceName, &WorkspaceName) -> bool,
    ) -> Self {
        Self {
            wants: cohort.balances(resource).map(|(name, balance)| (name, balance.over_nominal())).collect(),
            spares: cohort
                .balances(resource)
                .map(|(name, balance)| (Lender::Workspace(name.clone()), spare(&balance)))
                .chain(std::iter::once((Lender::Pool, cohort.pool(resource))))
                .collect(),
            open,
            left: open.iter().map(|loan| loan.amount).collect(),
            moved: vec![0; open.len()],
            fresh: BTreeMap::new(),
            uncovered: BTreeMap::new(),
            forbid,
        }
    }

    fn sum(&self, of: impl Fn(&Lender, &WorkspaceName) -> bool) -> u64 {
        let old = self.open.iter().zip(&self.left).filter(|(loan, _)| of(&loan.lender, &loan.borrower));
        let fresh = self.fresh.iter().filter(|((lender, borrower), _)| of(lender, borrower));
        old.map(|(_, left)| *left).sum::<u64>().saturating_add(fresh.map(|(_, amount)| *amount).sum())
    }

    fn borrowed(&self, who: &WorkspaceName) -> u64 {
        self.sum(|_, borrower| borrower == who)
    }

    fn lent(&self, who: &Lender) -> u64 {
        self.sum(|lender, _| lender == who)
    }

    fn idle(&self, lender: &Lender) -> u64 {
        self.spares.get(lender).copied().unwrap_or(0).saturating_sub(self.lent(lender))
    }

    /// Reduces the open loans that match `of` by up to `amount`, newest first. With `moves`, their borrowers still need the amount.
    fn shrink(&mut self, mut amount: u64, moves: bool, of: impl Fn(&OpenLoan) -> bool) {
        let mut order: Vec<usize> = (0..self.open.len()).collect();
        order.sort_by_key(|at| std::cmp::Reverse(self.open.get(*at).map(|loan| loan.number)));
        for at in order {
            let (Some(loan), Some(left), Some(moved)) =
                (self.open.get(at), self.left.get_mut(at), self.moved.get_mut(at))
            else {
                continue;
            };
            if amount > 0 && of(loan) {
                let off = amount.min(*left);
                *left -= off;
                amount -= off;
                *moved += if moves { off } else { 0 };
            }
        }
    }

    /// Returns loans that borrowers no longer need. An ended workload carries no loan. If its borrower still lacks a lender, that amount is lent to its running
    /// workloads.
    fn give_back(&mut self, ended: Option<&str>) {
        if let Some(ended) = ended {
            self.shrink(u64::MAX, false, |loan| loan.workload == ended);
        }
        let wants: Vec<_> = self.wants.iter().map(|(name, want)| (*name, *want)).collect();
        for (borrower, want) in wants {
            let excess = self.borrowed(borrower).saturating_sub(want);
            self.shrink(excess, false, |loan| loan.borrower == *borrower);
        }
    }

    /// Returns loans that lenders need themselves or may no longer lend.
    fn take_back(&mut self) {
        let forbid = self.forbid;
        let forbidden = |lender: &Lender, borrower: &WorkspaceName| {
            lender.workspace().is_some_and(|lender| forbid(lender, borrower))
        };
        self.shrink(u64::MAX, true, |loan| forbidden(&loan.lender, &loan.borrower));
        let spares: Vec<_> = self.spares.iter().map(|(name, spare)| (name.clone(), *spare)).collect();
        for (lender, spare) in spares {
            let excess = self.lent(&lender).saturating_sub(spare);
            self.shrink(excess, true, |loan| loan.lender == lender);
        }
    }

    /// Lends to borrowers from the lenders with the most idle quota. Moves existing loans to other lenders where that helps.
    fn lend(&mut self) {
        let wants: Vec<_> = self.wants.iter().map(|(name, want)| (*name, *want)).collect();
        for (borrower, want) in wants {
            let mut lacks = want.saturating_sub(self.borrowed(borrower));
            while lacks > 0 {
                let Some(path) = self.path(borrower) else { break };
                lacks -= self.shift(borrower, &path, lacks);
            }
            if lacks > 0 {
                self.uncovered.insert(borrower.clone(), lacks);
            }
        }
    }

    /// Returns the shortest chain of lenders. Each except the last lends to a borrower that the next could serve instead; the last has idle quota. Searches
    /// breadth first; tries the pool first, then the most idle.
    fn path(&self, borrower: &WorkspaceName) -> Option<Vec<(Lender, Option<WorkspaceName>)>> {
        let mut came: BTreeMap<Lender, Option<(Lender, WorkspaceName)>> = BTreeMap::new();
        let mut wave: Vec<Lender> = self.lenders_of(borrower);
        for lender in &wave {
            came.insert(lender.clone(), None);
        }
        while !wave.is_empty() {
            let best = wave.iter().filter(|lender| self.idle(lender) > 0);
            let best = best.max_by_key(|lender| {
                (**lender == Lender::Pool, self.idle(lender), std::cmp::Reverse((*lender).clone()))
            });
            if let Some(last) = best {
                let mut path = vec![(last.clone(), None)];
                let mut at = last;
                while let Some(Some((before, whose))) = came.get(at) {
                    path.push((before.clone(), Some(whose.clone())));
                    at = before;
                }
                path.reverse();
                return Some(path);
            }
            let mut next = Vec::new();
            for lender in &wave {
                for whose in self.borrowers_of(lender) {
                    for other in self.lenders_of(&whose) {
                        if !came.contains_key(&other) {
                            came.insert(other.clone(), Some((lender.clone(), whose.clone())));
                            next.push(other);
                        }
                    }
                }
            }
            wave = next;
        }
        None
    }

    fn lenders_of(&self, borrower: &WorkspaceName) -> Vec<Lender> {
        let may = |lender: &&Lender| {
            let workspace = lender.workspace();
            workspace.is_none_or(|lender| lender != borrower && !(self.forbid)(lender, borrower))
        };
        let some = self.spares.iter().filter(|(_, spare)| **spare > 0).map(|(lender, _)| lender);
        some.filter(may).cloned().collect()
    }

    fn borrowers_of(&self, lender: &Lender) -> BTreeSet<WorkspaceName> {
        let old =
            self.open.iter().zip(&self.left).filter(|(loan, left)| loan.lender == *lender && **left > 0);
        let fresh = self.fresh.iter().filter(|((from, _), amount)| from == lender && **amount > 0);
        old.map(|(loan, _)| loan.borrower.clone()).chain(fresh.map(|((_, to), _)| to.clone())).collect()
    }

    /// Lends up to `amount` to `borrower` along the chain, and returns the lent amount.
    fn shift(
        &mut self,
        borrower: &WorkspaceName,
        path: &[(Lender, Option<WorkspaceName>)],
        amount: u64,
    ) -> u64 {
        let mut amount = path.last().map_or(0, |(last, _)| amount.min(self.idle(last)));
        for (lender, whose) in path {
            if let Some(whose) = whose {
                amount = amount.min(self.sum(|from, to| from == lender && to == whose));
            }
        }
        let mut to = borrower.clone();
        for (lender, whose) in path {
            *self.fresh.entry((lender.clone(), to.clone())).or_default() += amount;
            let Some(whose) = whose else { break };
            let fresh = self.fresh.entry((lender.clone(), whose.clone())).or_default();
            let off = amount.min(*fresh);
            *fresh -= off;
            self.shrink(amount - off, true, |loan| loan.lender == *lender && loan.borrower == *whose);
            to = whose.clone();
        }
        amount
    }

    /// Returns the changes. Moved loans keep their workload and terms.
    fn settlement(self) -> Settlement {
        let mut shrunk = BTreeMap::new();
        let mut moved: BTreeMap<WorkspaceName, Vec<(&OpenLoan, u64)>> = BTreeMap::new();
        for ((loan, left), off) in self.open.iter().zip(&self.left).zip(&self.moved) {
            if *left < loan.amount {
                shrunk.insert(loan.number, *left);
            }
            if *off > 0 {
                moved.entry(loan.borrower.clone()).or_default().push((loan, *off));
            }
        }
        let mut opened = Vec::new();
        for ((lender, borrower), mut amount) in self.fresh {
            let moved = moved.entry(borrower.clone()).or_default();
            while amount > 0 {
                let (instead_of, part) = match moved.last_mut() {
                    Some((loan, rest)) => {
                        let part = amount.min(*rest);
                        *rest -= part;
                        (Some((*loan).clone()), part)
                    }
                    None => (None, amount),
                };
                moved.pop_if(|(_, rest)| *rest == 0);
                amount -= part;
                let (lender, borrower) = (lender.clone(), borrower.clone());
                opened.push(LoanChange { lender, borrower, amount: part, instead_of });
            }
        }
        Settlement { shrunk, opened, uncovered: self.uncovered }
    }
}

#[cfg(test)]
mod tests;
