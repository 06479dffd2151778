//! Loans past their longest duration: reclaimed when another workload waits for the kind (S-35).

use crate::{
    scheduling::admission::unit_of_work::AdmissionTx,
    tenancy::{Loan, LoanState, OpenLoan, Resource, TenantId, WorkspaceName, WorkspaceQueue, workspace_key},
};
use engine::{Undecided, View};
use serde::{Deserialize, Serialize};

/// A loan to reclaim.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct OverdueLoan {
    /// The resource.
    pub resource: Resource,
    /// The loan.
    pub loan: OpenLoan,
}

/// Marks loans past their longest duration while another workspace waits for the kind. Returns them, oldest first; the caller reclaims each loan's workload for
/// its lender.
///
/// # Errors
/// Undecided until the view has loaded every needed document.
pub fn expire_loans(view: &mut View, tenant: &TenantId) -> Result<Vec<OverdueLoan>, Undecided> {
    let mut desk = AdmissionTx::open(view, tenant, [])?;
    let lent = |(resource, _): &(&Resource, _)| desk.cohort.balances(resource).any(|(_, b)| b.borrowed > 0);
    let kinds: Vec<_> = desk.cohort.stock.iter().filter(lent).map(|(resource, _)| resource.clone()).collect();
    let mut overdue = Vec::new();
    for resource in kinds {
        let now = desk.now;
        let waits = desk.lacking_workspaces(view, &resource)?;
        let loans = desk.loans(view, &resource)?;
        let due = loans
            .open
            .iter()
            .filter(|loan| loan.due <= now && waits.iter().any(|workspace| *workspace != loan.borrower));
        overdue.extend(due.map(|loan| OverdueLoan { resource: resource.clone(), loan: loan.clone() }));
    }
    for OverdueLoan { loan, .. } in &overdue {
        desk.mark_overdue(view, loan.number)?;
    }
    if !overdue.is_empty() {
        desk.save(view)?;
    }
    Ok(overdue)
}

impl AdmissionTx {
    /// Returns the workspaces with a queued workload that lacks `resource`. Excludes workloads that fit on free GPUs.
    fn lacking_workspaces(
        &mut self,
        view: &mut View,
        resource: &Resource,
    ) -> Result<Vec<WorkspaceName>, Undecided> {
        let waits = self.cohort.accounts.iter();
        let waits = waits.filter(|(_, account)| account.waiting > 0 && account.least.contains_key(resource));
        let waits: Vec<_> = waits.map(|(name, _)| name.clone()).collect();
        view.prefetch::<WorkspaceQueue>(waits.iter().map(|name| workspace_key(&self.tenant.id, name)))?;
        let mut lacking = Vec::new();
        for workspace in waits {
            let line = self.queue_of(view, &workspace)?.waiting.clone();
            for waits in line.iter().filter(|waits| waits.requests.contains_key(resource)) {
                if self.lacking(view, &workspace, &waits.requests, waits.together)?.contains(resource) {
                    lacking.push(workspace);
                    break;
                }
            }
        }
        Ok(lacking)
    }

    /// Marks a loan as overdue unless its reclaim has begun.
    fn mark_overdue(&mut self, view: &mut View, number: u64) -> Result<(), Undecided> {
        let key = Loan::key(&self.tenant.id, number);
        let row = view.get::<Loan>(&key)?;
        if row.is_some_and(|row| row.state == LoanState::Active) {
            self.edits.entry(number).or_default().state = Some(LoanState::Overdue);
        }
        Ok(())
    }
}
