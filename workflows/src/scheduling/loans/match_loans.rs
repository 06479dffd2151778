//! Who lends to whom: the loans that follow from what is used, for one kind in one tenant.
//!
//! Pure and deterministic. After it, what each workspace borrows is what it takes beyond its nominal, and none lends more
//! than it leaves idle within its limit (I-8), as far as lenders go.

use super::arithmetic::spare;
use crate::tenancy::{Cohort, Lender, OpenLoan, Resource, WorkspaceName};
use std::collections::{BTreeMap, BTreeSet};

/// A loan to be opened, or what an open one was before.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct LoanChange {
    pub(crate) lender: Lender,
    pub(crate) borrower: WorkspaceName,
    pub(crate) amount: u64,
    /// The loan that it takes the place of, whose workload and terms it keeps; `None` for one that begins.
    pub(crate) instead_of: Option<OpenLoan>,
}

/// What is to be changed.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct Settlement {
    /// Open loans by number, with what is left of each; those with none left are returned.
    pub(crate) shrunk: BTreeMap<u64, u64>,
    /// Loans to be opened.
    pub(crate) opened: Vec<LoanChange>,
    /// What nobody lends, by borrower.
    pub(crate) uncovered: BTreeMap<WorkspaceName, u64>,
}

/// Settles the loans of `resource` with what the account says is used. Of what is given back, `ended`'s loans go first, then
/// the newest; of lenders, the pool first, then the workspace with the most idle, then by name. Lenders that `forbid` keeps from a
/// borrower never lend to it.
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
    /// By borrower: what it takes beyond its nominal.
    wants: BTreeMap<&'a WorkspaceName, u64>,
    /// By lender: what it can lend in all.
    spares: BTreeMap<Lender, u64>,
    open: &'a [OpenLoan],
    /// What is left of each open loan, in their order.
    left: Vec<u64>,
    /// What of each went back to its lender though its borrower needs it still.
    moved: Vec<u64>,
    /// What is lent anew, by lender and borrower.
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

    /// Takes up to `amount` off the open loans that `of` names, the newest first. With `moves`, their borrowers need it still.
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

    /// Borrowers give back what they no longer need. What has ended bears no loan, even where its borrower lacks a lender
    /// for something else that runs: that is lent anew, to what runs.
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

    /// Lenders take back what they need themselves or may no longer lend.
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

    /// Borrowers get what they lack, from who has the most idle; what is lent to others is moved where that helps.
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

    /// The shortest chain of lenders, each but the last lending to somebody to whom the next could lend instead; the last
    /// has something idle. Found breadth first; the pool comes first, then the most idle.
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

    /// Lends up to `amount` to `borrower` along the chain; says how much it came to.
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

    /// What changed, loans that moved keeping their workload and terms.
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
