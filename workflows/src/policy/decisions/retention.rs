//! Decides how long data are kept, and what happens afterwards.

use super::{ReasonCollector, Ruling};
use crate::{
    policy::{PlatformPolicy, Retention, RuleName, Then, duration},
    tenancy::Compliance,
};
use serde::{Deserialize, Serialize};
use std::{collections::BTreeSet, time::Duration};

/// Data of a closed tenant.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct RetentionFacts {
    /// The class of data.
    pub class: String,
    /// The tenant's tags.
    #[serde(default)]
    pub compliance: BTreeSet<Compliance>,
    /// The time since the tenant was closed.
    #[serde(default, with = "duration::text")]
    pub since: Duration,
    /// The legal holds on the data.
    #[serde(default)]
    pub holds: Vec<String>,
}

/// The ruling on data.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum RetentionRuling {
    /// They must be kept.
    MustKeep {
        /// The remaining time; `None` until the holds are released.
        #[serde(with = "duration::maybe")]
        left: Option<Duration>,
    },
    /// They may be removed, but need not be yet.
    May(Then),
    /// They must be removed now.
    Due(Then),
    /// No rule covers this class, so an operator must decide.
    Unclassified,
}

/// The combination of all rules for a class of data: the longest `min`, the shortest `max`, and archiving before destruction.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct RetentionPeriod {
    /// The shortest time after the tenant's end.
    pub min: Duration,
    /// The longest time; `None` without limit.
    pub max: Option<Duration>,
    /// The action afterwards.
    pub then: Then,
}

impl RetentionPeriod {
    /// Returns true if one rule requires removal before another allows it. Keeping wins.
    #[must_use]
    pub fn is_contradictory(&self) -> bool {
        self.max.is_some_and(|max| max < self.min)
    }

    /// Returns the ruling at this time after the tenant's end.
    #[must_use]
    pub fn after(&self, since: Duration) -> RetentionRuling {
        match self.min.checked_sub(since).filter(|left| !left.is_zero()) {
            Some(left) => RetentionRuling::MustKeep { left: Some(left) },
            None if self.max.is_some_and(|max| since >= max) => RetentionRuling::Due(self.then),
            None => RetentionRuling::May(self.then),
        }
    }
}

impl RetentionRuling {
    /// Returns true if the data outlive their tenant: they must be kept or archived.
    #[must_use]
    pub fn keeps(&self) -> bool {
        match self {
            Self::MustKeep { .. } | Self::May(Then::Archive) | Self::Due(Then::Archive) => true,
            Self::May(Then::Destroy) | Self::Due(Then::Destroy) | Self::Unclassified => false,
        }
    }
}

/// Combines the rules for a class of data, each as `min`, `max` and `then`; `None` without a rule.
#[must_use]
pub fn retention_period(
    rules: impl IntoIterator<Item = (Duration, Option<Duration>, Then)>,
) -> Option<RetentionPeriod> {
    let combine = |one: RetentionPeriod, other: RetentionPeriod| RetentionPeriod {
        min: one.min.max(other.min),
        max: one.max.into_iter().chain(other.max).min(),
        then: if one.then == Then::Archive { one.then } else { other.then },
    };
    rules.into_iter().map(|(min, max, then)| RetentionPeriod { min, max, then }).reduce(combine)
}

/// The policy name of the tenant's own data, and its classes: data and models of its workloads.
const TENANT_DATA: (&str, [&str; 2]) = ("tenant_data", ["workload", "model"]);

/// Returns true if a rule for `of` covers data of `class`.
#[must_use]
pub fn retention_covers(of: &str, class: &str) -> bool {
    of == class || (of == TENANT_DATA.0 && TENANT_DATA.1.contains(&class))
}

/// Decides on data. A legal hold overrides every rule, and a shortest time overrides a longest one.
#[must_use]
pub fn decide_retention(facts: &RetentionFacts, policy: &PlatformPolicy) -> Ruling<RetentionRuling> {
    let mut scales = ReasonCollector::new(policy);
    let matches = |rule: &Retention| {
        retention_covers(&rule.class, &facts.class)
            && rule.tag.is_none_or(|tag| facts.compliance.contains(&tag))
    };
    let rules: Vec<_> = policy.retention.iter().enumerate().filter(|(_, rule)| matches(rule)).collect();
    for (n, rule) in &rules {
        let tag = rule.tag.map_or("every tenant", Into::into);
        let most = rule.max.map_or("no maximum".into(), |max| format!("at most {}", duration::show(max)));
        let detail = format!("{} of {tag}: at least {}, {most}", rule.class, duration::show(rule.min));
        scales.check(const { RuleName::known("retention.class") }, &format!("retention[{n}]"), true, detail);
    }
    if !facts.holds.is_empty() {
        let detail = format!("held by {}", facts.holds.join(", "));
        scales.check(const { RuleName::known("retention.hold") }, "guards.destroy_under_hold", false, detail);
        return scales.finish(RetentionRuling::MustKeep { left: None });
    }
    let Some(period) = retention_period(rules.iter().map(|(_, rule)| (rule.min, rule.max, rule.then))) else {
        let detail = format!("no retention rule covers the class {}", facts.class);
        scales.check(const { RuleName::known("retention.class") }, "retention", false, detail);
        return scales.finish(RetentionRuling::Unclassified);
    };
    scales.finish(period.after(facts.since))
}
