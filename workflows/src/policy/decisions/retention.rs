//! How long data are kept, and what becomes of them then.

use super::{ReasonCollector, Ruling};
use crate::{
    policy::{PlatformPolicy, Retention, Then, duration},
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

/// Decides what holds for data. A hold goes before every rule, and a longest time never before a shortest one.
#[must_use]
pub fn decide_retention(facts: &RetentionFacts, policy: &PlatformPolicy) -> Ruling<RetentionRuling> {
    let mut scales = ReasonCollector::new(policy);
    let matches = |rule: &Retention| {
        rule.class == facts.class && rule.tag.is_none_or(|tag| facts.compliance.contains(&tag))
    };
    let rules: Vec<_> = policy.retention.iter().enumerate().filter(|(_, rule)| matches(rule)).collect();
    for (n, rule) in &rules {
        let tag = rule.tag.map_or("every tenant", Into::into);
        let most = rule.max.map_or("for ever".into(), |max| format!("at most {}", duration::show(max)));
        let detail = format!("{} of {tag}: at least {}, {most}", rule.class, duration::show(rule.min));
        scales.check("retention.class", &format!("retention[{n}]"), true, detail);
    }
    if !facts.holds.is_empty() {
        let detail = format!("held by {}", facts.holds.join(", "));
        scales.check("retention.hold", "guards.destroy_under_hold", false, detail);
        return scales.finish(RetentionRuling::MustKeep { left: None });
    }
    let Some(min) = rules.iter().map(|(_, rule)| rule.min).max() else {
        let detail = format!("no rule of retention knows the class {}", facts.class);
        scales.check("retention.class", "retention", false, detail);
        return scales.finish(RetentionRuling::Unclassified);
    };
    let due = rules.iter().filter_map(|(_, rule)| rule.max).min().is_some_and(|max| facts.since >= max);
    let archived = rules.iter().any(|(_, rule)| rule.then == Then::Archive);
    let then = if archived { Then::Archive } else { Then::Destroy };
    let answer = match min.checked_sub(facts.since).filter(|left| !left.is_zero()) {
        Some(left) => RetentionRuling::MustKeep { left: Some(left) },
        None if due => RetentionRuling::Due(then),
        None => RetentionRuling::May(then),
    };
    scales.finish(answer)
}
