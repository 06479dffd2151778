//! Converts the retention rules of policy to those of destruction.

use crate::{
    destruction::{AfterRetention, DataClass, RetentionRule},
    policy::{self, decisions::retention_covers},
};
use std::time::Duration;
use strum::VariantArray as _;

/// Returns one rule for each class that a policy rule names.
pub(super) fn rules(policy: &[policy::Retention]) -> Vec<RetentionRule> {
    let of = |(number, rule): (usize, &policy::Retention)| {
        let classes = DataClass::VARIANTS
            .iter()
            .copied()
            .filter(|class| retention_covers(&rule.class, (*class).into()));
        let made = |data_class: DataClass| RetentionRule {
            id: format!("retention.{number}.{data_class}"),
            data_class,
            tag: rule.tag,
            min_days: days(rule.min),
            max_days: rule.max.map(days),
            then: match rule.then {
                policy::Then::Destroy => AfterRetention::Destroy,
                policy::Then::Archive => AfterRetention::Archive,
            },
        };
        classes.map(made).collect::<Vec<_>>()
    };
    policy.iter().enumerate().flat_map(of).collect()
}

fn days(span: Duration) -> u32 {
    u32::try_from(span.as_secs() / 86_400).unwrap_or(u32::MAX)
}
