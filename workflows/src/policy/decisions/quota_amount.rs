//! How much a workspace may have.

use super::{ReasonCollector, Ruling};
use crate::{
    policy::{PlatformPolicy, RuleName},
    tenancy::Gpus,
};
use serde::{Deserialize, Serialize};

/// A quota that is asked for, and what it is weighed against. All of one model.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct QuotaAmountFacts {
    /// The nominal quota that is asked for.
    pub wanted: Gpus,
    /// Nominal quotas of the tenant's other workspaces, together.
    #[serde(default)]
    pub others: Gpus,
    /// What the tenant bought.
    pub entitled: Gpus,
    /// Beyond what it bought, by an exception that was approved and has not ended.
    #[serde(default)]
    pub exception: Gpus,
    /// What it owns.
    pub owned: Gpus,
    /// What is kept back of that.
    #[serde(default)]
    pub kept_back: Gpus,
    /// What the workspace uses.
    #[serde(default)]
    pub used: Gpus,
}

/// How much is granted.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum GrantedAmount {
    /// What was asked for.
    All {
        /// Whether more is in use: then nothing more is let in until it has drained.
        over_limit: bool,
    },
    /// Nothing: it could not be kept.
    Nothing {
        /// What could be.
        most: Gpus,
    },
}

/// Decides how much a workspace may have: never more than was bought, nor than there is (I-5).
#[must_use]
pub fn decide_quota_amount(facts: &QuotaAmountFacts, policy: &PlatformPolicy) -> Ruling<GrantedAmount> {
    let mut scales = ReasonCollector::new(policy);
    let (sum, bought) =
        (facts.wanted.saturating_add(facts.others), facts.entitled.saturating_add(facts.exception));
    let there = facts.owned.saturating_sub(facts.kept_back);
    let detail = format!("{} and {} of others, of {bought} bought", facts.wanted, facts.others);
    scales.check(
        const { RuleName::known("quota.within_entitlement") },
        "approvals.quota_increase",
        sum <= bought,
        detail,
    );
    let fits = policy.overcommit || sum <= there;
    let detail = format!("{sum} of {there} owned and not kept back; overcommit is {}", policy.overcommit);
    scales.check(const { RuleName::known("quota.within_owned") }, "capacity.overcommit", fits, detail);
    let answer = if scales.failed() {
        let most = if policy.overcommit { bought } else { bought.min(there) };
        GrantedAmount::Nothing { most: most.saturating_sub(facts.others) }
    } else {
        GrantedAmount::All { over_limit: facts.used > facts.wanted }
    };
    scales.finish(answer)
}
