//! The platform policy's rules of retention, as destruction resolves them.

use crate::{
    destruction::{AfterRetention, DataClass, RetentionRule},
    policy,
};
use std::time::Duration;

/// What policy calls the tenant's own data: whatever its work read and wrote.
const TENANT_DATA: &str = "tenant_data";

/// One rule for each class that a rule of policy speaks of.
pub(super) fn rules(policy: &[policy::Retention]) -> Vec<RetentionRule> {
    let of = |(number, rule): (usize, &policy::Retention)| {
        let classes = match rule.class.as_str() {
            TENANT_DATA => vec![DataClass::Workload, DataClass::Model],
            class => class.parse().into_iter().collect(),
        };
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
        classes.into_iter().map(made).collect::<Vec<_>>()
    };
    policy.iter().enumerate().flat_map(of).collect()
}

fn days(span: Duration) -> u32 {
    u32::try_from(span.as_secs() / 86_400).unwrap_or(u32::MAX)
}
