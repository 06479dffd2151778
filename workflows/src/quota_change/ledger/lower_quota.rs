//! What a decrease of a quota takes, puts back, and gives up; and what is used beyond it.

use crate::{
    ledger::codes,
    quota_change::ledger::evaluate_change::{active, alone, keep, marks, standing, write_line},
    tenancy::{
        Allowance, Balance, Cohort, Earmark, Quota, QuotaEnd, Resource, TenantId, WorkspaceName,
        workspace_key,
    },
};
use engine::{ActionError, Call, LedgerAction, Undecided, View};
use serde::{Deserialize, Serialize};
use std::{collections::BTreeMap, time::Duration};
use store::Timestamp;

/// Takes the part of a quota away that a decrease is about; the difference stays set aside until the platform says so
/// too, so that nobody else is given it meanwhile.
///
/// What is used beyond it goes on, and until it ends the workspace is over its limit and is admitted nothing (I-7). Safe to
/// decide again. Its undo, [`RestoreQuota`], tolerates that it never did.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct LowerQuota {
    /// Whose.
    pub tenant: TenantId,
    /// Of which workspace.
    pub workspace: WorkspaceName,
    /// Of what.
    pub resource: Resource,
    /// What was in force when it was decided.
    pub before: Allowance,
    /// What is in force from here.
    pub after: Allowance,
    /// Whether this is the end of a temporary increase.
    pub ended: bool,
}

impl LedgerAction for LowerQuota {
    const NAME: &'static str = "LowerQuota";
    type Output = ();

    fn decide(&self, view: &mut View, call: &Call) -> Result<(), Undecided> {
        active(view, &self.tenant)?;
        let mut marks = marks(view, &self.tenant)?;
        if marks.open.contains_key(&call.execution) {
            return Ok(());
        }
        let mut quota = standing(view, &self.tenant, &self.workspace, &self.resource, &self.before)?;
        alone(&marks, &self.workspace, &self.resource, call)?;
        let replaced = Some((self.before, quota.ends.clone()));
        let amount = self.before.nominal.saturating_sub(self.after.nominal);
        let (workspace, resource) = (self.workspace.clone(), self.resource.clone());
        marks.open.insert(
            call.execution,
            Earmark { workspace, resource, amount, nodes: BTreeMap::new(), per_gpu: 1, replaced },
        );
        quota.ends = self.end(quota.ends.take());
        write_line(view, quota, &self.resource, self.after, call)?;
        view.put(&marks)
    }
}

impl LowerQuota {
    /// What an earlier temporary increase goes back to is never more than what is left.
    fn end(&self, ends: Option<QuotaEnd>) -> Option<QuotaEnd> {
        let mut ends = ends?;
        if self.ended {
            ends.then.remove(&self.resource);
        } else if let Some(then) = ends.then.get_mut(&self.resource) {
            then.nominal = then.nominal.min(self.after.nominal);
            if self.before.borrowing_limit != self.after.borrowing_limit {
                then.borrowing_limit = self.after.borrowing_limit;
            }
            if self.before.lending_limit != self.after.lending_limit {
                then.lending_limit = self.after.lending_limit;
            }
            then.lending_limit = then.lending_limit.map(|limit| limit.min(then.nominal));
        }
        (!ends.then.is_empty()).then_some(ends)
    }
}

/// Puts back what a decrease took away. Safe to run twice, and tolerates that nothing was taken.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct RestoreQuota {
    /// Whose.
    pub tenant: TenantId,
}

impl LedgerAction for RestoreQuota {
    const NAME: &'static str = "RestoreQuota";
    type Output = ();

    fn decide(&self, view: &mut View, call: &Call) -> Result<(), Undecided> {
        let mut marks = marks(view, &self.tenant)?;
        let Some(mark) = marks.open.remove(&call.execution) else { return Ok(()) };
        if let Some((before, ends)) = mark.replaced {
            let mut quota = view.require::<Quota>(&workspace_key(&self.tenant, &mark.workspace))?;
            quota.ends = ends;
            write_line(view, quota, &mark.resource, before, call)?;
        }
        keep(view, &marks)
    }
}

/// Ends a decrease: what was set aside may be given to others. Past the point of no return, so it is not undone. Safe to
/// decide again.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct SettleDecrease {
    /// Whose.
    pub tenant: TenantId,
}

impl LedgerAction for SettleDecrease {
    const NAME: &'static str = "SettleDecrease";
    type Output = ();

    fn decide(&self, view: &mut View, call: &Call) -> Result<(), Undecided> {
        let mut marks = marks(view, &self.tenant)?;
        match marks.open.remove(&call.execution) {
            Some(_) => keep(view, &marks),
            None => Ok(()),
        }
    }
}

/// Whether nothing is used beyond what is left; fails with `quota.in_use` while something is. It changes nothing.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct CheckUse {
    /// Whose.
    pub tenant: TenantId,
    /// Of which workspace.
    pub workspace: WorkspaceName,
    /// Of what.
    pub resource: Resource,
}

impl LedgerAction for CheckUse {
    const NAME: &'static str = "CheckUse";
    type Output = ();

    fn decide(&self, view: &mut View, _: &Call) -> Result<(), Undecided> {
        let excess = excess(view, &self.tenant, &self.workspace, &self.resource)?;
        if excess == 0 {
            return Ok(());
        }
        let problem =
            format!("workspace {} uses {excess} of {} beyond what it may", self.workspace, self.resource);
        Err(ActionError::permanent(codes::QUOTA_IN_USE, problem).into())
    }
}

/// Looks how much is used beyond what is left. It changes nothing.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct MeasureExcess {
    /// Whose.
    pub tenant: TenantId,
    /// Of which workspace.
    pub workspace: WorkspaceName,
    /// Of what.
    pub resource: Resource,
    /// Since when the end of the excess is waited for; from now on when absent.
    pub since: Option<Timestamp>,
    /// How long that may take before people are asked.
    pub limit: Duration,
}

/// How much more is used than is left.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct ExcessMeasured {
    /// So much.
    pub excess: u64,
    /// Since when its end is waited for.
    pub since: Timestamp,
    /// Whether that has taken longer than its limit.
    pub overdue: bool,
}

impl LedgerAction for MeasureExcess {
    const NAME: &'static str = "MeasureExcess";
    type Output = ExcessMeasured;

    fn decide(&self, view: &mut View, _: &Call) -> Result<ExcessMeasured, Undecided> {
        let excess = excess(view, &self.tenant, &self.workspace, &self.resource)?;
        let since = self.since.unwrap_or(view.now());
        Ok(ExcessMeasured { excess, since, overdue: since.after(self.limit) <= view.now() })
    }
}

/// What is used beyond what may be (I-7): beyond nominal and borrowing limit, or beyond nominal while nobody lends it.
fn beyond(balance: &Balance) -> u64 {
    let allowance = &balance.allowance;
    let most = allowance.borrowing_limit.map_or(u64::MAX, |more| allowance.nominal.saturating_add(more));
    balance.over_quota().max(balance.in_use().saturating_sub(most))
}

fn excess(
    view: &mut View,
    tenant: &TenantId,
    workspace: &WorkspaceName,
    resource: &Resource,
) -> Result<u64, Undecided> {
    let cohort = view.get::<Cohort>(tenant.as_str())?;
    let account = cohort.as_ref().and_then(|cohort| cohort.accounts.get(workspace));
    Ok(account.and_then(|account| account.balances.get(resource)).map_or(0, beyond))
}
