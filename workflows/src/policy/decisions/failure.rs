//! Decides on the remedy of a failure.

use super::{ReasonCollector, Ruling};
use crate::{
    policy::{PlatformPolicy, RuleName, Rung, duration},
    tenancy::Tier,
};
use engine::Seat;
use serde::{Deserialize, Serialize};
use std::{collections::BTreeSet, time::Duration};

/// A failure, and the remedies tried before.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case", deny_unknown_fields)]
pub enum Failure {
    /// A node does not qualify.
    NodeUnfit {
        /// The number of nodes replaced so far.
        replaced: u32,
    },
    /// Too few GPUs are free.
    NoCapacity {
        /// The time waited so far.
        #[serde(with = "duration::text")]
        waited: Duration,
    },
    /// The plan of a reclaim became outdated before its execution.
    ReclaimStale {
        /// The number of new plans so far.
        replans: u32,
    },
    /// A lender waits past its deadline.
    DeadlineMissed {
        /// The time waited so far.
        #[serde(with = "duration::text")]
        waited: Duration,
    },
    /// A medium could not be sanitised.
    NotSanitised {
        /// The number of attempts so far.
        attempts: u32,
    },
    /// Capacity is exhausted.
    Exhausted {
        /// The tier of the waiting tenants.
        tier: Tier,
        /// The rungs tried so far.
        #[serde(default)]
        tried: BTreeSet<Rung>,
    },
}

/// The remedy.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Remedy {
    /// Retry.
    TryAgain,
    /// Replace the node.
    Replace,
    /// Wait at most this long.
    Wait {
        /// The rest of the time limit.
        #[serde(with = "duration::text")]
        left: Duration,
    },
    /// Request an approval.
    AskPeople {
        /// The seats.
        seats: Vec<Seat>,
        /// The time limit.
        #[serde(with = "duration::text")]
        within: Duration,
    },
    /// Compensate the execution.
    TakeBack,
    /// Keep the medium and its node out of use until an operator has checked them.
    Quarantine,
    /// Notify operators and continue.
    Escalate,
    /// Climb the next rung of the tier's ladder.
    Climb(Rung),
    /// No rung is left: requests keep waiting, and their owner is notified.
    Accept,
}

/// Decides on the remedy of a failure.
#[must_use]
pub fn on_failure(failure: &Failure, policy: &PlatformPolicy) -> Ruling<Remedy> {
    let mut scales = ReasonCollector::new(policy);
    let remedy = match failure {
        Failure::NodeUnfit { replaced } => {
            let most = policy.max_replacements;
            let detail = format!("{replaced} of {most} replacements used");
            scales.ask(
                const { RuleName::known("limits.max_replacements") },
                "limits.max_replacements",
                *replaced >= most,
                detail,
            );
            if *replaced < most { Remedy::Replace } else { Remedy::TakeBack }
        }
        Failure::NoCapacity { waited } => no_capacity(*waited, policy, &mut scales),
        Failure::ReclaimStale { replans } => {
            let most = policy.reclaim.replans;
            scales.ask(
                const { RuleName::known("reclaim.replans") },
                "reclaim.replans",
                *replans >= most,
                format!("{replans} of {most} used"),
            );
            if *replans < most { Remedy::TryAgain } else { Remedy::Escalate }
        }
        Failure::DeadlineMissed { waited } => {
            let deadline = policy.reclaim.deadline;
            let detail =
                format!("{} waited; the deadline is {}", duration::show(*waited), duration::show(deadline));
            scales.ask(
                const { RuleName::known("reclaim.deadline") },
                "reclaim.deadline",
                *waited > deadline,
                detail,
            );
            let left = deadline.checked_sub(*waited);
            left.map_or(Remedy::Escalate, |left| Remedy::Wait { left })
        }
        Failure::NotSanitised { attempts } => {
            let most = policy.sanitisation.attempts;
            let detail = format!("{attempts} of {most} attempts made");
            scales.ask(
                const { RuleName::known("sanitisation.attempts") },
                "sanitisation.attempts",
                *attempts >= most,
                detail,
            );
            if *attempts < most { Remedy::TryAgain } else { Remedy::Quarantine }
        }
        Failure::Exhausted { tier, tried } => exhausted(*tier, tried, policy, &mut scales),
    };
    scales.finish(remedy)
}

fn no_capacity(waited: Duration, policy: &PlatformPolicy, scales: &mut ReasonCollector<'_>) -> Remedy {
    let left = policy.waitlist.checked_sub(waited).filter(|left| !left.is_zero());
    let detail = format!("{} of {} waited", duration::show(waited), duration::show(policy.waitlist));
    scales.ask(const { RuleName::known("waits.waitlist") }, "waits.waitlist", left.is_none(), detail);
    let ask = || Remedy::AskPeople { seats: policy.onboarding.seats.clone(), within: policy.patience };
    left.map_or_else(ask, |left| Remedy::Wait { left })
}

/// S-140: uses only rungs that the tier allows, in its order.
fn exhausted(
    tier: Tier,
    tried: &BTreeSet<Rung>,
    policy: &PlatformPolicy,
    scales: &mut ReasonCollector<'_>,
) -> Remedy {
    let key = format!("capacity.ladder.{}", <&str>::from(tier));
    let rungs = policy.capacity.rungs(tier);
    let next = rungs.iter().copied().find(|rung| !tried.contains(rung));
    let names: Vec<&str> = rungs.iter().map(|rung| (*rung).into()).collect();
    let detail = format!("{} of {} tried: {}", tried.len(), rungs.len(), names.join(", "));
    scales.ask(const { RuleName::known("capacity.ladder") }, &key, next.is_none(), detail);
    next.map_or(Remedy::Accept, Remedy::Climb)
}
