//! The settings of the planner, read from policy.

use crate::{
    policy::{self, PlatformPolicy, ReclaimWithin, WithinQueue},
    scheduling::planner::{self, BorrowWithinCohort, Guard, PreemptPolicy, Preemption, Settings},
    tenancy::{Cohort, NodeAllocation},
};
use engine::{Undecided, View};
use std::{collections::BTreeSet, time::Duration};

/// Returns the settings that policy requires.
pub(super) fn settings(
    view: &mut View,
    cohort: &Cohort,
    policy: &PlatformPolicy,
    hard: bool,
) -> Result<Settings, Undecided> {
    let region = view.get::<NodeAllocation>(cohort.tenant.as_str())?.map(|held| held.region);
    let mut forbidden = BTreeSet::new();
    for (one, account) in &cohort.accounts {
        for (other, theirs) in &cohort.accounts {
            let apart = |region| {
                policy
                    .lending
                    .anti_colocate
                    .iter()
                    .any(|rule| rule.forbids(region, account.class, theirs.class))
            };
            if region.as_ref().is_some_and(apart) {
                forbidden.insert((one.to_string(), other.to_string()));
            }
        }
    }
    Ok(Settings { forbidden, ..of_policy(policy, hard) })
}

/// Returns the settings that depend only on policy.
pub(crate) fn of_policy(policy: &PlatformPolicy, hard: bool) -> Settings {
    let guard = &policy.reclaim.guard;
    let percent = |ratio: policy::Ratio| u64::from(ratio.thousandths / 10);
    Settings {
        algorithm: match policy.reclaim.algorithm {
            policy::Algorithm::Classical => planner::Algorithm::Classical,
            policy::Algorithm::Fair => planner::Algorithm::fair(),
        },
        guard: Some(Guard {
            ratio_percent: percent(guard.ratio),
            share_percent: percent(guard.share),
            max_victim_gpus: u64::from(guard.victim_gpus.0),
            max_run_without_checkpoint: millis(guard.victim_age),
            hard,
        }),
        fill_back: policy.reclaim.fill_back,
        ..Settings::default()
    }
}

pub(crate) fn preemption(policy: &PlatformPolicy) -> Preemption {
    let rules = &policy.scheduling;
    Preemption {
        within_workspace: match rules.within_cluster_queue {
            WithinQueue::Never => PreemptPolicy::Never,
            WithinQueue::LowerPriority => PreemptPolicy::LowerPriority,
            WithinQueue::LowerOrNewerEqualPriority => PreemptPolicy::LowerOrNewerEqualPriority,
        },
        reclaim_within_cohort: match rules.reclaim_within_cohort {
            ReclaimWithin::Never => PreemptPolicy::Never,
            ReclaimWithin::LowerPriority => PreemptPolicy::LowerPriority,
            ReclaimWithin::Any => PreemptPolicy::Any,
        },
        borrow_within_cohort: match rules.borrow_within_cohort.policy {
            ReclaimWithin::LowerPriority => BorrowWithinCohort::LowerPriority {
                max_priority_threshold: rules.borrow_within_cohort.max_priority.map(i64::from),
            },
            ReclaimWithin::Never | ReclaimWithin::Any => BorrowWithinCohort::Never,
        },
    }
}

/// Returns a duration in milliseconds, the planner's unit.
pub(super) fn millis(span: Duration) -> i64 {
    i64::try_from(span.as_millis()).unwrap_or(i64::MAX)
}
