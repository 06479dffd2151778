//! Whether policy stops a plan that is wider than its guard, whoever would agree to it.

use crate::{
    policy::{
        GuardMode, PlatformPolicy,
        decisions::{Blocked, GuardedAction, ReclaimBreadth, blocked},
    },
    scheduling::planner::Breach,
    tenancy::Gpus,
};
use std::time::Duration;

/// The guard that stops a plan with these breaches; `None` when people may let it through.
pub(super) fn stopped(breaches: &[Breach], policy: &PlatformPolicy) -> Option<Blocked> {
    let mut stops =
        breaches.iter().filter_map(|breach| blocked(&GuardedAction::Reclaim(breadth(breach)), policy));
    stops.find(|stop| stop.mode == GuardMode::Block)
}

/// Why there is no plan, for people.
pub(super) fn describe(stop: &Blocked) -> String {
    let by = stop.reason.by.as_ref().map(|by| format!(" ({by})")).unwrap_or_default();
    format!("policy blocks it ({}): {}{by}", stop.reason.rule, stop.reason.detail)
}

/// How wide a plan is in the one respect that it breaks.
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
