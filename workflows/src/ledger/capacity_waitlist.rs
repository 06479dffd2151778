//! The waitlist for capacity, oldest first.

use crate::{
    placement::{Constraints, NodeRequest},
    tenancy::{FreePool, GpuModel, Region, RegionId, TenantId, Waiter, Waitlist},
};
use engine::{Call, LedgerAction, Undecided, View};
use serde::{Deserialize, Serialize};
use std::time::Duration;
use store::ExecutionId;

/// Joins the waitlist of every region that fits. An execution that already waits keeps its place.
///
/// Safe to run twice. [`LeaveWaitlist`] is the undo.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct JoinWaitlist {
    /// The tenant's id.
    pub tenant: TenantId,
    /// The requested nodes.
    pub ask: NodeRequest,
    /// The approved constraints.
    pub constraints: Constraints,
    /// The wait after which an approval is requested.
    pub limit: Duration,
}

/// Result of joining.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct JoinedWaitlist {
    /// True if the wait has exceeded its limit.
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

/// Restarts the limit of a wait. Safe to run twice, and the place is kept. [`LeaveWaitlist`] is its undo.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct ExtendWait {
    /// The requested nodes.
    pub ask: NodeRequest,
    /// The approved constraints.
    pub constraints: Constraints,
    /// The additional time.
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

/// Leaves the waitlists. Safe to run twice. Tolerates that it never joined.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct LeaveWaitlist {
    /// The requested nodes.
    pub ask: NodeRequest,
    /// The approved constraints.
    pub constraints: Constraints,
}

impl LedgerAction for LeaveWaitlist {
    const NAME: &'static str = "LeaveWaitlist";
    type Output = ();

    fn decide(&self, view: &mut View, call: &Call) -> Result<(), Undecided> {
        leave(view, &self.constraints, &self.ask.model, call.execution)
    }
}

/// Removes `execution` from every waitlist that it can be on.
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

/// Returns the execution to wake with `capacity.freed`. It is the oldest one in `region` that waits for `model` and fits one of the region's
/// clusters.
///
/// # Errors
/// The read errors of the view.
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
