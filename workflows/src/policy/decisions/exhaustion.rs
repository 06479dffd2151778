//! Decides if the capacity of a model in a region is exhausted.

use super::{ReasonCollector, Ruling};
use crate::{
    policy::{PlatformPolicy, RuleName, duration},
    tenancy::Gpus,
};
use serde::{Deserialize, Serialize};
use std::time::Duration;

/// The capacity of a model in a region, and the duration of its shortage.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct CapacityFacts {
    /// GPUs of the model in the region.
    pub total: Gpus,
    /// GPUs that are free above the reserve.
    pub free: Gpus,
    /// The time for which less than the threshold has been free; 0 if enough is free.
    #[serde(default, with = "duration::text")]
    pub scarce_for: Duration,
    /// The wait of the oldest request on the waitlist; 0 if it is empty.
    #[serde(default, with = "duration::text")]
    pub oldest_waits: Duration,
}

/// Returns true if less is free than the threshold. A region without GPUs of the model is not scarce.
#[must_use]
pub fn is_scarce(total: Gpus, free: Gpus, policy: &PlatformPolicy) -> bool {
    total > Gpus::ZERO && !at_least(free, policy.capacity.threshold, total)
}

/// Returns true if enough is free again.
#[must_use]
pub fn has_recovered(total: Gpus, free: Gpus, policy: &PlatformPolicy) -> bool {
    free >= policy.capacity.recovered.apply_to(total)
}

fn at_least(free: Gpus, share: crate::policy::Ratio, total: Gpus) -> bool {
    u64::from(free.0).saturating_mul(1_000) >= u64::from(total.0).saturating_mul(u64::from(share.thousandths))
}

/// Decides if the shortage needs a remedy: too little has been free for long enough, or a request has waited too long.
#[must_use]
pub fn is_exhausted(facts: &CapacityFacts, policy: &PlatformPolicy) -> Ruling<bool> {
    let mut scales = ReasonCollector::new(policy);
    let rules = &policy.capacity;
    let scarce = is_scarce(facts.total, facts.free, policy);
    let detail = format!("{} of {} are free; the threshold is {}", facts.free, facts.total, rules.threshold);
    scales.ask(const { RuleName::known("capacity.threshold") }, "capacity.threshold", scarce, detail);
    let lasts = scarce && facts.scarce_for >= rules.lasting;
    let (since, limit) = (duration::show(facts.scarce_for), duration::show(rules.lasting));
    scales.ask(
        const { RuleName::known("capacity.lasting") },
        "capacity.lasting",
        lasts,
        format!("too little was free for {since}; the limit is {limit}"),
    );
    let waits = !facts.oldest_waits.is_zero() && facts.oldest_waits >= rules.oldest_waiter;
    let (since, limit) = (duration::show(facts.oldest_waits), duration::show(rules.oldest_waiter));
    let detail = format!("the oldest request has waited for {since}; the limit is {limit}");
    scales.ask(const { RuleName::known("capacity.oldest_waiter") }, "capacity.oldest_waiter", waits, detail);
    scales.finish(lasts || waits)
}
