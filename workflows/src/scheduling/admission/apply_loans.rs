//! Applies the loan settlement: opens, shrinks and returns loans, and writes each loan once.

use crate::{
    scheduling::{
        admission::{
            gpu_allocation::on_loan,
            unit_of_work::{AdmissionTx, corrupt},
        },
        loans::{
            arithmetic::spare,
            match_loans::{LoanChange, Settlement, settle},
        },
    },
    tenancy::{
        Allowance, Balance, Loan, LoanState, OpenLoan, OpenLoans, Resource, RunningList, Workload,
        WorkspaceName,
    },
};
use engine::{Undecided, View};
use std::collections::BTreeMap;

/// The change of one loan.
#[derive(Clone, Debug, Default)]
pub(super) struct LoanEdit {
    /// The new loan, if it is opened here.
    pub(super) opened: Option<Loan>,
    /// The remaining amount, if it changed and is not zero.
    pub(super) amount: Option<u64>,
    /// The new state, if it changed.
    pub(super) state: Option<LoanState>,
}

/// The cause of a settlement.
#[derive(Clone, Copy, Debug)]
pub(super) enum SettlementCause<'a> {
    /// This workload was admitted.
    Admitted(&'a Workload),
    /// This workload ended.
    Ended(&'a str),
    /// This workload was lost with its node, and its loans are written off.
    Lost(&'a str),
    /// An allowance changed.
    Allowance,
}

/// A borrower's workloads that can carry more of a loan: name, workspace and amount, newest first.
type LoanBearers = Vec<(String, String, u64)>;

impl AdmissionTx {
    /// Returns a predicate that is true if policy forbids a lender to lend to a borrower.
    fn forbids(&self) -> impl Fn(&WorkspaceName, &WorkspaceName) -> bool + use<> {
        let region = self.occupancy.as_ref().map(|occupancy| occupancy.region.clone());
        let class = |name: &WorkspaceName| self.cohort.accounts.get(name).map(|account| account.class);
        let classes: BTreeMap<_, _> =
            self.cohort.accounts.keys().filter_map(|name| Some((name.clone(), class(name)?))).collect();
        let rules = (!self.rules.apart.is_empty()).then(|| self.rules.clone());
        move |lender, borrower| {
            let (Some(rules), Some(a), Some(b)) = (&rules, classes.get(lender), classes.get(borrower)) else {
                return false;
            };
            rules.keeps_apart(region.as_ref(), *a, *b)
        }
    }

    /// Returns the amount that the pool and other lenders of `workspace` leave idle, and true if policy separates it from every possible lender.
    pub(super) fn lendable(&self, workspace: &WorkspaceName, resource: &Resource) -> (u64, bool) {
        let forbid = self.forbids();
        let others = || self.cohort.balances(resource).filter(|(name, _)| *name != workspace);
        let may = |(name, _): &(&WorkspaceName, Balance)| !forbid(name, workspace);
        let idle = others().filter(may).map(|(_, balance)| spare(&balance).saturating_sub(balance.lent));
        let mut lenders = others()
            .filter(|(_, balance)| crate::scheduling::loans::arithmetic::lends(&balance.allowance) > 0)
            .peekable();
        let pool = self.cohort.pool(resource);
        let kept_apart = pool == 0 && lenders.peek().is_some() && !lenders.any(|lender| may(&lender));
        let pool = pool.saturating_sub(self.cohort.pool_lent(resource));
        (idle.fold(pool, u64::saturating_add), kept_apart)
    }

    /// Returns the most that `workspace` could use with this allowance if no other workspace used anything. Can be less than by Kueue's arithmetic if policy
    /// separates classes.
    pub(super) fn potential(
        &self,
        workspace: &WorkspaceName,
        allowance: &Allowance,
        resource: &Resource,
    ) -> u64 {
        let potential = self.cohort.potential(allowance, resource);
        if self.rules.apart.is_empty() {
            return potential;
        }
        let forbid = self.forbids();
        let lenders = self.cohort.balances(resource);
        let lenders = lenders.filter(|(name, _)| *name != workspace && !forbid(name, workspace));
        let lent =
            lenders.map(|(_, balance)| crate::scheduling::loans::arithmetic::lends(&balance.allowance));
        let own = allowance.nominal.saturating_add(self.cohort.pool(resource));
        potential.min(lent.fold(own, u64::saturating_add))
    }

    /// Returns true if `resource` is lent or should be lent.
    fn lends(&self, resource: &Resource) -> bool {
        let involved =
            |balance: &Balance| balance.borrowed > 0 || balance.over_nominal() > 0 || balance.lent > 0;
        self.cohort.balances(resource).any(|(_, balance)| involved(&balance))
    }

    /// Returns how much more of the tenant's loans would have no lender if `workspace` used `more`. Can differ from Kueue's arithmetic if policy separates
    /// classes.
    pub(super) fn uncovered_with(
        &mut self,
        view: &mut View,
        workspace: &WorkspaceName,
        resource: &Resource,
        more: u64,
    ) -> Result<u64, Undecided> {
        if self.rules.apart.is_empty() {
            return Ok(0);
        }
        let forbid = self.forbids();
        let open = self.loans(view, resource)?.open.clone();
        let over =
            |settlement: &Settlement| settlement.uncovered.values().copied().fold(0, u64::saturating_add);
        let before = over(&settle(&self.cohort, resource, &open, None, &forbid));
        self.use_more(workspace, resource, more)?;
        let after = over(&settle(&self.cohort, resource, &open, None, &forbid));
        self.use_less(workspace, resource, more)?;
        Ok(after.saturating_sub(before))
    }

    /// Increases the usage of a workspace.
    pub(super) fn use_more(
        &mut self,
        workspace: &WorkspaceName,
        resource: &Resource,
        more: u64,
    ) -> Result<(), Undecided> {
        let account = self.account_mut(workspace)?;
        let mut balance = account.balance(resource);
        balance.used = balance.used.saturating_add(more);
        account.balances.insert(resource.clone(), balance);
        Ok(())
    }

    /// Decreases the usage of a workspace.
    pub(super) fn use_less(
        &mut self,
        workspace: &WorkspaceName,
        resource: &Resource,
        less: u64,
    ) -> Result<(), Undecided> {
        let account = self.account_mut(workspace)?;
        let mut balance = account.balance(resource);
        let problem = || corrupt(format!("{workspace} uses less than {less} of {resource}"));
        balance.used = balance.used.checked_sub(less).ok_or_else(problem)?;
        account.balances.insert(resource.clone(), balance);
        Ok(())
    }

    /// Settles the loans of a kind to match the usage.
    pub(super) fn settle_loans(
        &mut self,
        view: &mut View,
        resource: &Resource,
        cause: SettlementCause<'_>,
    ) -> Result<(), Undecided> {
        if resource.gpu().is_none() || !self.lends(resource) {
            return Ok(());
        }
        let forbid = self.forbids();
        let mut loans = self.loans(view, resource)?.clone();
        let ended = match cause {
            SettlementCause::Ended(workload) | SettlementCause::Lost(workload) => Some(workload),
            SettlementCause::Admitted(_) | SettlementCause::Allowance => None,
        };
        let settlement = settle(&self.cohort, resource, &loans.open, ended, &forbid);
        if settlement.shrunk.is_empty() && settlement.opened.is_empty() {
            self.repeat(&loans);
            return Ok(());
        }
        for loan in &mut loans.open {
            if let Some(left) = settlement.shrunk.get(&loan.number) {
                let edit = self.edits.entry(loan.number).or_default();
                let lost = matches!(cause, SettlementCause::Lost(workload) if workload == loan.workload);
                let end = if lost { LoanState::WrittenOff } else { LoanState::Returned };
                let state = (*left == 0).then_some(end);
                edit.amount = Some(*left).filter(|left| *left > 0).or(edit.amount);
                edit.state = state.or(edit.state);
                loan.amount = *left;
            }
        }
        loans.open.retain(|loan| loan.amount > 0);
        for opening in &settlement.opened {
            self.open_loans(view, &mut loans, opening, cause)?;
        }
        self.repeat(&loans);
        self.keep_loans(loans);
        Ok(())
    }

    /// Copies the sums of the open loans into the balances.
    fn repeat(&mut self, loans: &OpenLoans) {
        for (name, account) in &mut self.cohort.accounts {
            let Some(balance) = account.balances.get_mut(&loans.resource) else { continue };
            let sum = |of: &dyn Fn(&OpenLoan) -> bool| {
                loans.open.iter().filter(|loan| of(loan)).map(|loan| loan.amount).sum()
            };
            balance.borrowed = sum(&|loan| loan.borrower == *name);
            balance.lent = sum(&|loan| loan.lender == *name);
        }
    }

    /// Opens the loans of one lender to one borrower.
    fn open_loans(
        &mut self,
        view: &mut View,
        loans: &mut OpenLoans,
        opening: &LoanChange,
        cause: SettlementCause<'_>,
    ) -> Result<(), Undecided> {
        if let Some(before) = &opening.instead_of {
            let decision = self.need_workload(view, &before.workload)?.decision;
            let terms = (before.protected_until, before.due);
            self.open_loan(loans, opening, (&before.workload, &decision), opening.amount, terms);
            return Ok(());
        }
        let terms = (self.now.after(self.rules.min_runtime), self.now.after(self.rules.max_duration));
        let mut rest = opening.amount;
        for (workload, decision, most) in self.bearers(view, loans, opening, cause)? {
            let part = rest.min(most);
            if part > 0 {
                self.open_loan(loans, opening, (&workload, &decision), part, terms);
            }
            rest -= part;
        }
        if rest > 0 {
            return Err(corrupt(format!("{} borrows {rest} without a workload", opening.borrower)));
        }
        Ok(())
    }

    fn open_loan(
        &mut self,
        loans: &mut OpenLoans,
        opening: &LoanChange,
        (workload, decision): (&str, &str),
        amount: u64,
        (protected_until, due): (store::Timestamp, store::Timestamp),
    ) {
        self.cohort.loans = self.cohort.loans.saturating_add(1);
        let (number, now) = (self.cohort.loans, self.now);
        let (lender, borrower) = (opening.lender.clone(), opening.borrower.clone());
        let loan = Loan {
            number,
            tenant: self.tenant.id.clone(),
            lender: lender.clone(),
            borrower: borrower.clone(),
            resource: loans.resource.clone(),
            amount,
            workload: workload.to_owned(),
            decision: decision.to_owned(),
            granted_at: now,
            protected_until,
            due,
            state: LoanState::Active,
            ended_at: None,
        };
        self.edits.insert(number, LoanEdit { opened: Some(loan), ..LoanEdit::default() });
        let workload = workload.to_owned();
        loans.open.push(OpenLoan { number, lender, borrower, workload, amount, protected_until, due });
    }

    /// Returns the workloads that can carry a borrower's loan: the workload just admitted, else all running ones, newest first.
    fn bearers(
        &mut self,
        view: &mut View,
        loans: &OpenLoans,
        opening: &LoanChange,
        cause: SettlementCause<'_>,
    ) -> Result<LoanBearers, Undecided> {
        let borrower = &opening.borrower;
        let on_loan = on_loan(&loans.open, borrower);
        let could = |name: &str, uses: Option<&u64>| {
            uses.copied().unwrap_or(0).saturating_sub(on_loan.get(name).copied().unwrap_or(0))
        };
        let account = self.account(borrower)?.clone();
        if let SettlementCause::Admitted(workload) = cause
            && workload.workspace == *borrower
            && self.borrows(&account, workload.preemptible, workload.class)
        {
            let could = could(&workload.name, workload.requests.get(&loans.resource));
            if could >= opening.amount {
                return Ok(vec![(workload.name.clone(), workload.decision.clone(), could)]);
            }
        }
        view.prefetch::<RunningList>(RunningList::keys(&self.tenant.id, borrower))?;
        let mut newest = Vec::new();
        for part in 0..RunningList::PARTS {
            for (name, running) in self.running_list(view, borrower, part)?.running.clone() {
                let could = could(&name, running.requests.get(&loans.resource));
                // A workload that may not borrow carries a loan only if no other workload can (I-11, S-59).
                let last = !self.borrows(&account, running.preemptible, running.class);
                newest.push(((last, std::cmp::Reverse(running.admitted_at)), name, could));
            }
        }
        newest.retain(|(_, _, could)| *could > 0);
        newest.sort();
        let mut bearers = LoanBearers::new();
        for (_, name, could) in newest {
            let decision = self.need_workload(view, &name)?.decision;
            bearers.push((name, decision, could));
        }
        Ok(bearers)
    }

    /// Records on a workload how much of it is on loan.
    pub(super) fn mark_loans(
        &mut self,
        view: &mut View,
        resource: &Resource,
        workload: &str,
        state: LoanState,
    ) -> Result<(), Undecided> {
        let open = &self.loans(view, resource)?.open;
        let numbers: Vec<u64> =
            open.iter().filter(|loan| loan.workload == workload).map(|loan| loan.number).collect();
        for number in numbers {
            self.edits.entry(number).or_default().state = Some(state);
        }
        Ok(())
    }
}
