//! Waiting for capacity, oldest first.

use crate::{
    placement::{Constraints, NodeRequest},
    tenancy::{FreePool, GpuModel, Region, RegionId, TenantId, Waiter, Waitlist},
};
use engine::{Call, LedgerAction, Undecided, View};
use serde::{Deserialize, Serialize};
use std::time::Duration;
use store::ExecutionId;

/// Joins the queues of every region that would do; who waits already keeps the place.
///
/// Safe to run twice. Its undo is [`LeaveWaitlist`].
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct JoinWaitlist {
    /// For whom.
    pub tenant: TenantId,
    /// How many of what.
    pub ask: NodeRequest,
    /// Within what was approved.
    pub constraints: Constraints,
    /// How long to wait before people are asked.
    pub limit: Duration,
}

/// What joining came to.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct JoinedWaitlist {
    /// Whether the wait has been longer than its limit.
    pub overdue: bool,
}

impl LedgerAction for JoinWaitlist {
    const NAME: &'static str = "JoinWaitlist";
    type Output = JoinedWaitlist;

    fn decide(&self, view: &mut View, call: &Call) -> Result<JoinedWaitlist, Undecided> {
        let (execution, since) = (call.execution, view.now());
        let (tenant, gpus, until) = (self.tenant.clone(), self.ask.gpus, since.after(self.limit));
        let waiter = Waiter { execution, tenant, gpus, since, until };
        let mut overdue = false;
        for region in self.constraints.regions.iter().flatten() {
            let (region, model) = (region.clone(), self.ask.model.clone());
            let found = view.get::<Waitlist>(&Waitlist::key(&region, &model))?;
            let list = found.unwrap_or(Waitlist { region, model, waiters: Vec::new() }).with(waiter.clone());
            overdue |= list.waiters.iter().any(|waits| waits.execution == execution && waits.until <= since);
            view.put(&list)?;
        }
        Ok(JoinedWaitlist { overdue })
    }
}

/// Lets a waiter wait on, from now. Safe to run twice; the place is kept. [`LeaveWaitlist`] covers it.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct ExtendWait {
    /// How many of what is waited for.
    pub ask: NodeRequest,
    /// Within what was approved.
    pub constraints: Constraints,
    /// For how long.
    pub by: Duration,
}

impl LedgerAction for ExtendWait {
    const NAME: &'static str = "ExtendWait";
    type Output = ();

    fn decide(&self, view: &mut View, call: &Call) -> Result<(), Undecided> {
        let until = view.now().after(self.by);
        for region in self.constraints.regions.iter().flatten() {
            let Some(mut list) = view.get::<Waitlist>(&Waitlist::key(region, &self.ask.model))? else {
                continue;
            };
            for waiter in list.waiters.iter_mut().filter(|waits| waits.execution == call.execution) {
                waiter.until = until;
            }
            view.put(&list)?;
        }
        Ok(())
    }
}

/// Leaves the queues. Safe to run twice, and tolerates that nobody joined.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct LeaveWaitlist {
    /// How many of what was waited for.
    pub ask: NodeRequest,
    /// Within what was approved.
    pub constraints: Constraints,
}

impl LedgerAction for LeaveWaitlist {
    const NAME: &'static str = "LeaveWaitlist";
    type Output = ();

    fn decide(&self, view: &mut View, call: &Call) -> Result<(), Undecided> {
        leave(view, &self.constraints, &self.ask.model, call.execution)
    }
}

/// Takes `execution` out of every queue that it can stand in.
pub(crate) fn leave(
    view: &mut View,
    constraints: &Constraints,
    model: &GpuModel,
    execution: ExecutionId,
) -> Result<(), Undecided> {
    for region in constraints.regions.iter().flatten() {
        let Some(list) = view.get::<Waitlist>(&Waitlist::key(region, model))? else { continue };
        if list.waiters.iter().any(|waits| waits.execution == execution) {
            view.put(&list.without(execution))?;
        }
    }
    Ok(())
}

/// Who is to be woken by `capacity.freed`: the oldest who waits for `model` in `region` and would find enough in one
/// of its clusters.
///
/// # Errors
/// What the view lacks.
pub fn waiting(
    view: &mut View,
    region: &RegionId,
    model: &GpuModel,
) -> Result<Option<ExecutionId>, Undecided> {
    let Some(list) = view.get::<Waitlist>(&Waitlist::key(region, model))? else { return Ok(None) };
    let Some(place) = view.get::<Region>(region.as_str())? else { return Ok(None) };
    view.prefetch::<FreePool>(place.clusters.iter().map(|cluster| FreePool::key(cluster, model)))?;
    let mut most = crate::tenancy::Gpus::ZERO;
    for cluster in &place.clusters {
        let pool = view.get::<FreePool>(&FreePool::key(cluster, model))?;
        most = most.max(pool.map(|pool| pool.free()).unwrap_or_default());
    }
    Ok(list.waiters.iter().find(|waits| waits.gpus <= most).map(|waits| waits.execution))
}
