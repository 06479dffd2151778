//! The scheduler settings that policy requires, and their differences from the observed settings (S-54, S-88).

use super::{ReasonCollector, Ruling};
use crate::{
    policy::{Multitenancy, PlatformPolicy, ReclaimWithin, RuleName, WithinQueue},
    tenancy::FlavorQuota,
    tenancy::{GpuModel, GpuOffer, GpuSlicing, Gpus, QuotaLimits, Tier, WorkspaceName},
};
use serde::{Deserialize, Serialize};
use serde_json::{Value, json};
use std::collections::BTreeMap;

/// The facts of a tenant for its schedulers.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct SchedulerFacts {
    /// The service tier.
    pub tier: Tier,
    /// True if its workloads may be preempted.
    pub allow_preemption: bool,
    /// The groups that share the tenant. Its customers may not borrow from each other, unless policy allows it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub multitenancy: Option<Multitenancy>,
    /// The model of its GPUs.
    pub model: GpuModel,
    /// The slices of its GPUs, if any. Quotas count these.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub slicing: Option<GpuSlicing>,
    /// The quotas of its workspaces. Policy fills in missing limits.
    pub workspaces: BTreeMap<WorkspaceName, QuotaLimits>,
}

/// The required settings for one tenant.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct SchedulerSettings {
    /// Each workspace's queue.
    pub queues: BTreeMap<WorkspaceName, QueueSettings>,
    /// The value of each tier's PriorityClass (S-54); the same for all tenants.
    pub priority_classes: BTreeMap<Tier, u32>,
    /// GPUs of the tenant's Slurm account, as `GrpTRES=gres/gpu`: the sum of all its workspaces.
    pub slurm_gpus: Gpus,
}

/// The settings of a queue, in Kueue's terms.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct QueueSettings {
    /// The quota.
    pub quota: FlavorQuota,
    /// The preemption within its own queue.
    pub within_cluster_queue: WithinQueue,
    /// The reclaim from borrowers.
    pub reclaim_within_cohort: ReclaimWithin,
    /// The preemption while it borrows.
    pub borrow_within_cohort: ReclaimWithin,
}

/// Returns the limits of a workspace in pieces of `offer`: those in `named`, else those of policy. Workloads that may not be preempted may not borrow (I-11),
/// and no workspace lends more than its own quota.
#[must_use]
pub(in crate::policy) fn sharing_limits(
    named: &QuotaLimits,
    offer: &GpuOffer,
    borrows: bool,
    policy: &PlatformPolicy,
) -> QuotaLimits {
    let pieces = |gpus: Gpus| Gpus(u32::try_from(offer.pieces(gpus)).unwrap_or(u32::MAX));
    QuotaLimits {
        borrowing_limit: if borrows {
            named.borrowing_limit.or_else(|| policy.borrowing_limit.map(pieces))
        } else {
            Some(Gpus::ZERO)
        },
        lending_limit: named
            .lending_limit
            .or_else(|| policy.lending_limit.map(pieces))
            .map(|limit| limit.min(named.nominal)),
        ..named.clone()
    }
}

/// Returns the scheduler settings for one tenant. If its workloads may not be preempted, they may not borrow (I-11) and do not preempt each other.
#[must_use]
pub fn schedulers(facts: &SchedulerFacts, policy: &PlatformPolicy) -> Ruling<SchedulerSettings> {
    let mut scales = ReasonCollector::new(policy);
    let rules = &policy.scheduling;
    let within = if facts.allow_preemption { rules.within_cluster_queue } else { WithinQueue::Never };
    let whole = |gpus: Gpus| u64::from(gpus.0);
    let offer = GpuOffer::of(&facts.model, facts.slicing.as_ref());
    let customers = facts.multitenancy == Some(Multitenancy::Customer) && !policy.lending.customer_sharing;
    let borrows = facts.allow_preemption && !customers;
    let queue = |named: &QuotaLimits| {
        let limits = sharing_limits(named, &offer, borrows, policy);
        QueueSettings {
            quota: FlavorQuota {
                model: facts.model.to_string(),
                profile: offer.kind.profile.clone().map(Into::into),
                nominal: whole(limits.nominal),
                borrowing_limit: limits.borrowing_limit.map(whole),
                lending_limit: limits.lending_limit.map(whole),
            },
            within_cluster_queue: within,
            reclaim_within_cohort: rules.reclaim_within_cohort,
            borrow_within_cohort: rules.borrow_within_cohort.policy,
        }
    };
    let queues = facts.workspaces.iter().map(|(name, limits)| (name.clone(), queue(limits))).collect();
    let preempts: &str = within.into();
    scales.check(
        const { RuleName::known("scheduling.within_cluster_queue") },
        "scheduling.within_cluster_queue",
        true,
        preempts,
    );
    let reclaims: &str = rules.reclaim_within_cohort.into();
    scales.check(
        const { RuleName::known("scheduling.reclaim_within_cohort") },
        "scheduling.reclaim_within_cohort",
        true,
        reclaims,
    );
    let detail = format!("tier {}", <&str>::from(facts.tier));
    scales.check(
        const { RuleName::known("priorities") },
        &format!("priorities.{}", <&str>::from(facts.tier)),
        true,
        detail,
    );
    let nominal: u64 = facts.workspaces.values().map(|limits| whole(limits.nominal)).sum();
    let slurm_gpus = offer.gpus_for(nominal);
    scales.finish(SchedulerSettings { queues, priority_classes: policy.priorities.clone(), slurm_gpus })
}

/// The observed settings of schedulers.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Observed {
    /// Each workspace's queue.
    pub queues: BTreeMap<WorkspaceName, QueueSettings>,
    /// PriorityClasses by tier.
    pub priority_classes: BTreeMap<Tier, u32>,
    /// GPUs of the Slurm account; `None` without an account.
    pub slurm_gpus: Option<Gpus>,
}

/// One differing setting.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Change {
    /// The object, such as `ClusterQueue/research`.
    pub object: String,
    /// The setting; empty if the whole object is missing or superfluous.
    pub field: String,
    /// The observed value; null if missing.
    pub is: Value,
    /// The required value; null if superfluous.
    pub should_be: Value,
}

/// Returns the changes from `observed` to the required settings, by object and setting, in order.
#[must_use]
pub fn changes(wanted: &SchedulerSettings, observed: &Observed) -> Vec<Change> {
    let mut all = Vec::new();
    let mut names: Vec<_> = wanted.queues.keys().chain(observed.queues.keys()).collect();
    names.sort();
    names.dedup();
    for name in names {
        let (is, should_be) = (observed.queues.get(name), wanted.queues.get(name));
        differ(&format!("ClusterQueue/{name}"), json!(is), json!(should_be), &mut all);
    }
    for (tier, value) in &wanted.priority_classes {
        let object = format!("PriorityClass/{}", <&str>::from(*tier));
        differ(&object, json!(observed.priority_classes.get(tier)), json!(value), &mut all);
    }
    if let Some(gpus) = observed.slurm_gpus {
        differ("account", json!({ "gres/gpu": gpus }), json!({ "gres/gpu": wanted.slurm_gpus }), &mut all);
    }
    all
}

/// Adds the differing settings of one object, or the whole object if only one side has it.
fn differ(object: &str, is: Value, mut should_be: Value, all: &mut Vec<Change>) {
    let mut note = |field: &str, is: Value, should_be: Value| {
        all.push(Change { object: object.into(), field: field.into(), is, should_be });
    };
    should_be.sort_all_objects();
    match (is, should_be) {
        (Value::Object(is), Value::Object(should_be)) => {
            for (field, wanted) in should_be {
                let seen = is.get(&field).cloned().unwrap_or_default();
                match (seen, wanted) {
                    (Value::Object(seen), Value::Object(wanted)) => {
                        for (inner, wanted) in wanted {
                            let seen = seen.get(&inner).cloned().unwrap_or_default();
                            if seen != wanted {
                                note(&format!("{field}.{inner}"), seen, wanted);
                            }
                        }
                    }
                    (seen, wanted) if seen != wanted => note(&field, seen, wanted),
                    _ => {}
                }
            }
        }
        (is, should_be) if is != should_be => note("", is, should_be),
        _ => {}
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn customers_of_a_tenant_borrow_only_if_policy_permits_it() {
        let mut policy = PlatformPolicy::built_in().unwrap();
        for (multitenancy, customer_sharing, borrows) in [
            (Some(Multitenancy::Customer), false, false),
            (Some(Multitenancy::Customer), true, true),
            (Some(Multitenancy::Team), false, true),
            (None, false, true),
        ] {
            policy.lending.customer_sharing = customer_sharing;
            let limits =
                QuotaLimits { nominal: Gpus(4), borrowing_limit: Some(Gpus(2)), ..QuotaLimits::default() };
            let facts = SchedulerFacts {
                tier: Tier::Standard,
                allow_preemption: true,
                multitenancy,
                model: "H100".parse().unwrap(),
                slicing: None,
                workspaces: [("a".parse().unwrap(), limits)].into(),
            };
            let settings = schedulers(&facts, &policy).answer;
            let limit = settings.queues.values().next().unwrap().quota.borrowing_limit;
            assert_eq!(limit, Some(if borrows { 2 } else { 0 }), "{multitenancy:?} {customer_sharing}");
        }
    }
}
