//! Starts the reclaim of loans that exceed the maximum duration of policy, while a workload waits for them.

use super::report::{SweepReport, all, holder};
use crate::{
    platform::Platform,
    reclaim::{Reclaim, ReclaimCause, ledger},
    tenancy::{Cohort, Loan, LoanState, OpenLoans},
};
use engine::{Engine, Error, Undecided, View, Workflow as _};
use store::{CompositeKey, Timestamp};

pub(super) async fn sweep(engine: &Engine<Platform>, swept: &mut SweepReport) -> Result<(), Error> {
    let now = engine.clock().now();
    for loans in all::<OpenLoans>(engine, swept).await? {
        let due: Vec<u64> =
            loans.open.iter().filter(|loan| loan.due <= now).map(|loan| loan.number).collect();
        if due.is_empty() {
            continue;
        }
        let called = call_back(engine, &loans, &due, swept.at).await;
        if swept.each(format!("{} of tenant {}", loans.resource, loans.tenant), called)? == Some(true) {
            let (resource, tenant) = (&loans.resource, &loans.tenant);
            swept.started.push(format!("reclaim of {} overdue loans of {resource} in {tenant}", due.len()));
        }
    }
    Ok(())
}

/// Starts the reclaim of the loans `due`, if a workload waits for them and no reclaim runs.
async fn call_back(
    engine: &Engine<Platform>,
    loans: &OpenLoans,
    due: &[u64],
    at: Timestamp,
) -> Result<bool, Error> {
    if !engine.transact(false, |view| awaited(view, loans)).await? {
        return Ok(false);
    }
    engine.transact(true, |view| mark(view, loans, due)).await?;
    let reclaim = Reclaim::new(loans.tenant.clone(), loans.resource.clone(), ReclaimCause::Overdue);
    let guard = reclaim.subject().guard.unwrap_or_default();
    if holder(engine, &guard).await?.is_some() {
        return Ok(false);
    }
    let key = CompositeKey::of(&[&"overdue", &loans.tenant, &loans.resource, &at.0]);
    engine.transact(true, |view| view.start(&reclaim, ledger::SYSTEM_ACTOR, &key)).await?;
    Ok(true)
}

/// Returns true if a workload waits for the lent resource.
fn awaited(view: &mut View, loans: &OpenLoans) -> Result<bool, Undecided> {
    let cohort = view.get::<Cohort>(loans.tenant.as_str())?;
    let mut accounts = cohort.iter().flat_map(|cohort| cohort.accounts.values());
    Ok(accounts.any(|account| account.waiting > 0 && account.least.contains_key(&loans.resource)))
}

/// Marks loans as overdue. A loan with a running reclaim is left unchanged.
fn mark(view: &mut View, loans: &OpenLoans, due: &[u64]) -> Result<(), Undecided> {
    let keys: Vec<_> = due.iter().map(|number| Loan::key(&loans.tenant, *number)).collect();
    view.prefetch::<Loan>(keys.iter().cloned())?;
    for key in keys {
        if let Some(loan) = view.get::<Loan>(&key)?.filter(|loan| loan.state == LoanState::Active) {
            view.put(&Loan { state: LoanState::Overdue, ..loan })?;
        }
    }
    Ok(())
}
