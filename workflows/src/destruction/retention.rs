//! Retention rules: the minimum and maximum retention of each class of data, and their combined result.
//!
//! If rules conflict, retention wins: a legal obligation has priority over erasure (GDPR art. 17(3)(b)). The result marks the conflict.

use crate::{
    destruction::asset::DataClass,
    policy::{Then, decisions::retention_period},
    signing::Moment,
    tenancy::Compliance,
};
use engine::Entity;
use serde::{Deserialize, Serialize};
use std::{
    collections::{BTreeMap, BTreeSet},
    time::Duration,
};
use strum::VariantArray as _;

/// The treatment of data after their retention.
#[derive(
    Clone,
    Copy,
    Debug,
    PartialEq,
    Eq,
    PartialOrd,
    Ord,
    Serialize,
    Deserialize,
    strum::IntoStaticStr,
    strum::EnumString,
    strum::Display,
)]
#[serde(rename_all = "snake_case")]
#[strum(serialize_all = "snake_case")]
pub enum AfterRetention {
    /// They are destroyed.
    Destroy,
    /// They move to the provider's archive, encrypted with the provider's key.
    Archive,
}

/// The retention of one class of data after the end of a tenant's contract.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct RetentionRule {
    /// The rule's name, unique in the service.
    pub id: String,
    /// The class of data.
    pub data_class: DataClass,
    /// The tag of the tenants that the rule applies to. `None` means all tenants.
    pub tag: Option<Compliance>,
    /// The minimum retention, in days.
    pub min_days: u32,
    /// The maximum retention, in days. `None` means no maximum.
    pub max_days: Option<u32>,
    /// The treatment after the retention.
    pub then: AfterRetention,
}

impl Entity for RetentionRule {
    const COLLECTION: &'static str = "retention-rules";
    const RETENTION: engine::Retention<Self> = engine::Retention::WithSubject;

    fn id(&self) -> String {
        self.id.clone()
    }
}

/// The combined result of the rules for one class of data.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct ResolvedRetention {
    /// The end of the minimum retention. `None` if the data may be destroyed when the contract ends.
    pub retain_until: Option<Moment>,
    /// The time of destruction or archival: after the minimum retention, and never before the contract ends.
    pub destroy_at: Moment,
    /// The latest time, if a rule has a maximum that can be satisfied.
    pub destroy_by: Option<Moment>,
    /// The treatment then. If rules conflict, `Archive` wins, because it keeps the data.
    pub then: AfterRetention,
    /// True if the maximum of one rule is earlier than the minimum of another. The minimum wins.
    pub in_conflict: bool,
    /// The ids of the applied rules.
    pub rules: Vec<String>,
}

impl ResolvedRetention {
    /// Returns true if the data must be kept after `now`. They are then re-encrypted with a provider's key before the tenant's key is destroyed.
    #[must_use]
    pub fn keeps(&self, now: Moment) -> bool {
        self.retain_until.is_some_and(|until| until > now) || self.then == AfterRetention::Archive
    }
}

/// Combines the rules for each class of data of a tenant with these tags and contract end. A class without a rule is destroyed when the contract
/// ends.
#[must_use]
pub fn resolve(
    rules: &[RetentionRule],
    tags: &BTreeSet<Compliance>,
    contract_end: Moment,
) -> BTreeMap<DataClass, ResolvedRetention> {
    let of_class = |class: DataClass| {
        let holding = |rule: &&RetentionRule| {
            rule.data_class == class && rule.tag.is_none_or(|tag| tags.contains(&tag))
        };
        let mut followed: Vec<&RetentionRule> = rules.iter().filter(holding).collect();
        followed.sort_by(|a, b| a.id.cmp(&b.id));
        (class, of_rules(&followed, contract_end))
    };
    DataClass::VARIANTS.iter().copied().map(of_class).collect()
}

fn of_rules(rules: &[&RetentionRule], contract_end: Moment) -> ResolvedRetention {
    let then = |rule: &RetentionRule| match rule.then {
        AfterRetention::Destroy => Then::Destroy,
        AfterRetention::Archive => Then::Archive,
    };
    let period =
        retention_period(rules.iter().map(|rule| (days(rule.min_days), rule.max_days.map(days), then(rule))));
    let min = period.map_or(0, |period| whole_days(period.min));
    let in_conflict = period.is_some_and(|period| period.is_contradictory());
    let max = period.and_then(|period| period.max).filter(|_| !in_conflict).map(whole_days);
    let destroy_at = contract_end.after_days(min);
    ResolvedRetention {
        retain_until: (min > 0).then_some(destroy_at),
        destroy_at,
        destroy_by: max.map(|max| contract_end.after_days(max)),
        then: match period.map(|period| period.then) {
            Some(Then::Archive) => AfterRetention::Archive,
            Some(Then::Destroy) | None => AfterRetention::Destroy,
        },
        in_conflict,
        rules: rules.iter().map(|rule| rule.id.clone()).collect(),
    }
}

const SECONDS_OF_DAY: u64 = 86_400;

fn days(days: u32) -> Duration {
    Duration::from_secs(SECONDS_OF_DAY.saturating_mul(u64::from(days)))
}

fn whole_days(span: Duration) -> u32 {
    u32::try_from(span.as_secs() / SECONDS_OF_DAY).unwrap_or(u32::MAX)
}

#[cfg(test)]
mod tests {
    use super::*;
    use store::Timestamp;

    fn rule(id: &str, tag: Option<Compliance>, min_days: u32, max_days: Option<u32>) -> RetentionRule {
        let data_class = DataClass::Audit;
        RetentionRule { id: id.into(), data_class, tag, min_days, max_days, then: AfterRetention::Destroy }
    }

    fn audit(rules: &[RetentionRule], tags: &[Compliance]) -> ResolvedRetention {
        let end = Moment::from(Timestamp(0));
        resolve(rules, &tags.iter().copied().collect(), end).remove(&DataClass::Audit).unwrap()
    }

    #[test]
    fn a_class_without_a_rule_is_destroyed_when_the_contract_ends() {
        let end = Moment::from(Timestamp(5));
        for (_, retention) in resolve(&[], &BTreeSet::new(), end) {
            assert_eq!((retention.retain_until, retention.destroy_at), (None, end));
            assert!(!retention.keeps(end));
        }
    }

    #[test]
    fn of_several_rules_the_longest_retention_and_the_shortest_limit_apply() {
        let rules = [
            rule("all", None, 30, Some(400)),
            rule("hipaa", Some(Compliance::Hipaa), 2190, None),
            rule("gdpr", Some(Compliance::Gdpr), 0, Some(365)),
        ];
        let plain = audit(&rules, &[]);
        assert_eq!(plain.retain_until, Some(Moment::from(Timestamp(0)).after_days(30)));
        assert_eq!(plain.destroy_by, Some(Moment::from(Timestamp(0)).after_days(400)));
        assert_eq!(plain.rules, ["all"]);
        let european = audit(&rules, &[Compliance::Gdpr]);
        assert_eq!(european.destroy_by, Some(Moment::from(Timestamp(0)).after_days(365)));
    }

    #[test]
    fn if_rules_disagree_the_data_is_kept_and_the_conflict_is_reported() {
        let rules = [
            rule("gdpr", Some(Compliance::Gdpr), 0, Some(365)),
            rule("hipaa", Some(Compliance::Hipaa), 2190, None),
        ];
        let both = audit(&rules, &[Compliance::Gdpr, Compliance::Hipaa]);
        assert!(both.in_conflict);
        assert_eq!(both.destroy_at, Moment::from(Timestamp(0)).after_days(2190));
        assert_eq!(both.destroy_by, None);
    }
}
