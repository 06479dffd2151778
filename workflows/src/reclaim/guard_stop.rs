//! Decides if policy stops a plan beyond its guard even with an approval.

use crate::{
    policy::{
        GuardMode, PlatformPolicy,
        decisions::{Blocked, GuardedAction, ReclaimBreadth, blocked},
    },
    scheduling::planner::Breach,
    tenancy::Gpus,
};
use std::time::Duration;

/// Returns the guard that stops a plan with these breaches; `None` if an approval can allow it.
pub(super) fn stopped(breaches: &[Breach], policy: &PlatformPolicy) -> Option<Blocked> {
    let mut stops =
        breaches.iter().filter_map(|breach| blocked(&GuardedAction::Reclaim(breadth(breach)), policy));
    stops.find(|stop| stop.mode == GuardMode::Block)
}

/// Returns the reason why there is no plan.
pub(super) fn describe(stop: &Blocked) -> String {
    let by = stop.reason.by.as_ref().map(|by| format!(" ({by})")).unwrap_or_default();
    format!("policy blocks it ({}): {}{by}", stop.reason.rule, stop.reason.detail)
}

/// Returns the size of a plan in the dimension of the breach.
fn breadth(breach: &Breach) -> ReclaimBreadth {
    let gpus = |amount: u64| Gpus(u32::try_from(amount).unwrap_or(u32::MAX));
    let narrow = ReclaimBreadth::NARROW;
    match breach {
        Breach::Ratio { victims, requested, .. } => {
            ReclaimBreadth { victims: gpus(*victims), asked: gpus(*requested), ..narrow }
        }
        Breach::TenantShare { victims, capacity, .. } => {
            ReclaimBreadth { victims: gpus(*victims), tenant: gpus(*capacity), ..narrow }
        }
        Breach::LargeVictim { gpus: held, .. } => ReclaimBreadth { largest: gpus(*held), ..narrow },
        Breach::LongRunning { ran, .. } => {
            let ran = Duration::from_millis(u64::try_from(*ran).unwrap_or_default());
            ReclaimBreadth { oldest_unsaved: ran, ..narrow }
        }
    }
}
