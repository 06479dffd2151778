//! Ledger actions of a quota decrease: lower, restore, settle, and measure excess usage.

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

/// Lowers a quota. The difference stays reserved until the platform also has the lower limit, so that no other workspace gets it.
///
/// Usage above it continues; until it ends the workspace admits nothing (I-7). Safe to repeat. Its undo, [`RestoreQuota`], tolerates that nothing was lowered.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct LowerQuota {
    /// The tenant.
    pub tenant: TenantId,
    /// The workspace.
    pub workspace: WorkspaceName,
    /// The resource.
    pub resource: Resource,
    /// The allowance at the decision.
    pub before: Allowance,
    /// The allowance after the change.
    pub after: Allowance,
    /// True if this is the end of a temporary increase.
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
    /// Returns the new end of the quota. An earlier temporary increase ends with at most the new allowance.
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

/// Restores the quota before a decrease. Safe to repeat, and tolerates that nothing was lowered.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct RestoreQuota {
    /// The tenant.
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

/// Ends a decrease: releases the reserved difference for others. Past the pivot, so it has no undo. Safe to repeat.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct SettleDecrease {
    /// The tenant.
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

/// Checks that usage is within the new quota; fails with `quota.in_use` otherwise. Changes nothing.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct CheckUse {
    /// The tenant.
    pub tenant: TenantId,
    /// The workspace.
    pub workspace: WorkspaceName,
    /// The resource.
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
            format!("workspace {} uses {excess} of {} more than allowed", self.workspace, self.resource);
        Err(ActionError::permanent(codes::QUOTA_IN_USE, problem).into())
    }
}

/// Measures the usage above the new quota. Changes nothing.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct MeasureExcess {
    /// The tenant.
    pub tenant: TenantId,
    /// The workspace.
    pub workspace: WorkspaceName,
    /// The resource.
    pub resource: Resource,
    /// The start of the wait; now if absent.
    pub since: Option<Timestamp>,
    /// The longest wait before an approval is requested.
    pub limit: Duration,
}

/// The usage above the new quota.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct ExcessMeasured {
    /// The amount.
    pub excess: u64,
    /// The start of the wait.
    pub since: Timestamp,
    /// True if the wait has exceeded its limit.
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

/// Returns the usage above the limit (I-7): above nominal quota and borrowing limit, or above the nominal quota without a lender.
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
