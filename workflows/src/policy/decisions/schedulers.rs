//! What policy makes of the schedulers: the settings they should have, and how what they have differs (S-54, S-88).

use super::{ReasonCollector, Ruling};
use crate::{
    policy::{Multitenancy, PlatformPolicy, ReclaimWithin, RuleName, WithinQueue},
    tenancy::FlavorQuota,
    tenancy::{GpuModel, GpuOffer, GpuSlicing, Gpus, QuotaLimits, Tier, WorkspaceName},
};
use serde::{Deserialize, Serialize};
use serde_json::{Value, json};
use std::collections::BTreeMap;

/// A tenant, as far as schedulers need it.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct SchedulerFacts {
    /// What service was sold.
    pub tier: Tier,
    /// Whether its work may be preempted.
    pub allow_preemption: bool,
    /// Who shares what it has: customers of a tenant borrow nothing from each other, unless policy lets them.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub multitenancy: Option<Multitenancy>,
    /// The model of its GPUs.
    pub model: GpuModel,
    /// The slices that they are cut into, if any. Quotas count these.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub slicing: Option<GpuSlicing>,
    /// Its workspaces' quotas; a limit that is absent is what policy says of workspaces that name none.
    pub workspaces: BTreeMap<WorkspaceName, QuotaLimits>,
}

/// The settings that schedulers should have for one tenant.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct SchedulerSettings {
    /// Each workspace's queue.
    pub queues: BTreeMap<WorkspaceName, QueueSettings>,
    /// The value of each tier's PriorityClass (S-54); the same for all tenants.
    pub priority_classes: BTreeMap<Tier, u32>,
    /// GPUs of the tenant's Slurm account, as `GrpTRES=gres/gpu`: what all its workspaces have together.
    pub slurm_gpus: Gpus,
}

/// A queue's settings, in Kueue's words.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct QueueSettings {
    /// What it may use.
    pub quota: FlavorQuota,
    /// What it may preempt in its own line.
    pub within_cluster_queue: WithinQueue,
    /// What it may call back from borrowers.
    pub reclaim_within_cohort: ReclaimWithin,
    /// What it may preempt while it borrows.
    pub borrow_within_cohort: ReclaimWithin,
}

/// Returns the limits of a workspace with those that it leaves out filled in, in pieces of `offer`: `named` where it names them,
/// policy's otherwise. Work that may not be called back borrows nothing (I-11), and no workspace lends more than its own.
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

/// What policy makes of the schedulers for one tenant. Work that may not be preempted borrows nothing (I-11), and does not
/// preempt its own.
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

/// What schedulers were seen to have.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Observed {
    /// Each workspace's queue.
    pub queues: BTreeMap<WorkspaceName, QueueSettings>,
    /// PriorityClasses by tier.
    pub priority_classes: BTreeMap<Tier, u32>,
    /// GPUs of the Slurm account; `None` where there is none.
    pub slurm_gpus: Option<Gpus>,
}

/// One setting that differs.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Change {
    /// The object, as `ClusterQueue/research`.
    pub object: String,
    /// The setting; empty when the whole object is missing, or should not be.
    pub field: String,
    /// What it is; null for what is missing.
    pub is: Value,
    /// What it should be; null for what should not be.
    pub should_be: Value,
}

/// What must change for `observed` to be as policy wants it: by object and setting, in order; nothing when it is.
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

/// Notes the settings of one object that differ; an object that is there on one side only, as a whole.
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
    fn customers_of_a_tenant_borrow_nothing_unless_policy_lets_them() {
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
