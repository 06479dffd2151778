//! Decides on the quota of a workspace.

use super::{ReasonCollector, Ruling};
use crate::{
    policy::{PlatformPolicy, RuleName},
    tenancy::Gpus,
};
use serde::{Deserialize, Serialize};

/// A requested quota and the amounts that limit it, all of one model.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct QuotaAmountFacts {
    /// The requested nominal quota.
    pub wanted: Gpus,
    /// The sum of the nominal quotas of the tenant's other workspaces.
    #[serde(default)]
    pub others: Gpus,
    /// The bought amount.
    pub entitled: Gpus,
    /// An approved temporary amount beyond the bought one.
    #[serde(default)]
    pub exception: Gpus,
    /// The amount on the tenant's nodes.
    pub owned: Gpus,
    /// The reserved part of that.
    #[serde(default)]
    pub kept_back: Gpus,
    /// The usage of the workspace.
    #[serde(default)]
    pub used: Gpus,
}

/// The granted amount.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum GrantedAmount {
    /// The requested amount.
    All {
        /// True if usage exceeds it. Then no workload is admitted until enough have ended.
        over_limit: bool,
    },
    /// Nothing, because the quota could not be met.
    Nothing {
        /// The most that could be granted.
        most: Gpus,
    },
}

/// Decides on the quota of a workspace: at most the bought amount and the available amount (I-5).
#[must_use]
pub fn decide_quota_amount(facts: &QuotaAmountFacts, policy: &PlatformPolicy) -> Ruling<GrantedAmount> {
    let mut scales = ReasonCollector::new(policy);
    let (sum, bought) =
        (facts.wanted.saturating_add(facts.others), facts.entitled.saturating_add(facts.exception));
    let there = facts.owned.saturating_sub(facts.kept_back);
    let detail = format!("{} and {} of other workspaces, of {bought} purchased", facts.wanted, facts.others);
    scales.check(
        const { RuleName::known("quota.within_entitlement") },
        "approvals.quota_increase",
        sum <= bought,
        detail,
    );
    let fits = policy.overcommit || sum <= there;
    let detail = format!("{sum} of {there} owned outside the buffer; overcommit is {}", policy.overcommit);
    scales.check(const { RuleName::known("quota.within_owned") }, "capacity.overcommit", fits, detail);
    let answer = if scales.failed() {
        let most = if policy.overcommit { bought } else { bought.min(there) };
        GrantedAmount::Nothing { most: most.saturating_sub(facts.others) }
    } else {
        GrantedAmount::All { over_limit: facts.used > facts.wanted }
    };
    scales.finish(answer)
}
