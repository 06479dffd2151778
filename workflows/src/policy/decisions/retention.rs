//! How long data are kept, and what becomes of them then.

use super::{ReasonCollector, Ruling};
use crate::{
    policy::{PlatformPolicy, Retention, RuleName, Then, duration},
    tenancy::Compliance,
};
use serde::{Deserialize, Serialize};
use std::{collections::BTreeSet, time::Duration};

/// Data whose tenant has ended.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct RetentionFacts {
    /// The class of data.
    pub class: String,
    /// The tenant's tags.
    #[serde(default)]
    pub compliance: BTreeSet<Compliance>,
    /// How long ago the tenant ended.
    #[serde(default, with = "duration::text")]
    pub since: Duration,
    /// Holds that stand on the data.
    #[serde(default)]
    pub holds: Vec<String>,
}

/// What holds for data.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum RetentionRuling {
    /// They must be kept.
    MustKeep {
        /// For how long still; `None` until the holds are released.
        #[serde(with = "duration::maybe")]
        left: Option<Duration>,
    },
    /// They may go, and need not yet.
    May(Then),
    /// They are due.
    Due(Then),
    /// No rule knows this class, so a person must say.
    Unclassified,
}

/// What all rules that hold for a class of data come to: the longest `min`, the shortest `max`, and the archive before destruction.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct RetentionPeriod {
    /// Kept at least so long after the tenant's end.
    pub min: Duration,
    /// Kept at most so long; `None` without limit.
    pub max: Option<Duration>,
    /// What becomes of it then.
    pub then: Then,
}

impl RetentionPeriod {
    /// Returns true if one rule wants the data gone before another lets it go: keeping wins.
    #[must_use]
    pub fn is_contradictory(&self) -> bool {
        self.max.is_some_and(|max| max < self.min)
    }

    /// Returns what holds so long after the tenant's end.
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
    /// Returns true if the data outlive their tenant: they must be kept, or go to the archive.
    #[must_use]
    pub fn keeps(&self) -> bool {
        match self {
            Self::MustKeep { .. } | Self::May(Then::Archive) | Self::Due(Then::Archive) => true,
            Self::May(Then::Destroy) | Self::Due(Then::Destroy) | Self::Unclassified => false,
        }
    }
}

/// Combines the rules that hold for a class of data, each as `min`, `max` and `then`; `None` without a rule.
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

/// What policy calls the tenant's own data: whatever its work read and wrote, and its models.
const TENANT_DATA: (&str, [&str; 2]) = ("tenant_data", ["workload", "model"]);

/// Returns true if a rule about `of` holds for data of `class`.
#[must_use]
pub fn retention_covers(of: &str, class: &str) -> bool {
    of == class || (of == TENANT_DATA.0 && TENANT_DATA.1.contains(&class))
}

/// Decides what holds for data. A hold goes before every rule, and a longest time never before a shortest one.
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
        let most = rule.max.map_or("for ever".into(), |max| format!("at most {}", duration::show(max)));
        let detail = format!("{} of {tag}: at least {}, {most}", rule.class, duration::show(rule.min));
        scales.check(const { RuleName::known("retention.class") }, &format!("retention[{n}]"), true, detail);
    }
    if !facts.holds.is_empty() {
        let detail = format!("held by {}", facts.holds.join(", "));
        scales.check(const { RuleName::known("retention.hold") }, "guards.destroy_under_hold", false, detail);
        return scales.finish(RetentionRuling::MustKeep { left: None });
    }
    let Some(period) = retention_period(rules.iter().map(|(_, rule)| (rule.min, rule.max, rule.then))) else {
        let detail = format!("no rule of retention knows the class {}", facts.class);
        scales.check(const { RuleName::known("retention.class") }, "retention", false, detail);
        return scales.finish(RetentionRuling::Unclassified);
    };
    scales.finish(period.after(facts.since))
}
