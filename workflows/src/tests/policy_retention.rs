//! Destruction and the policy's own examples agree on how long data is kept.

use crate::{
    destruction::{DataClass, resolve},
    offboarding::OffboardingTerms,
    policy::{
        PlatformPolicy,
        decisions::{RetentionFacts, RetentionRuling, decide_retention},
    },
    signing::Moment,
    tenancy::{Compliance, Tier},
};
use std::{collections::BTreeSet, time::Duration};
use store::Timestamp;

/// What destruction resolves, and what examples and explanations of the policy say, is the same at every moment.
#[test]
fn destruction_keeps_data_for_as_long_as_the_policy_says() {
    let policy = PlatformPolicy::built_in().unwrap();
    let end = Moment::from(Timestamp(0));
    for tags in
        [vec![], vec![Compliance::Hipaa], vec![Compliance::Pci], vec![Compliance::Hipaa, Compliance::Gdpr]]
    {
        let tags: BTreeSet<Compliance> = tags.into_iter().collect();
        let rules = OffboardingTerms::from_policy(&policy, Tier::Standard).retention;
        let resolved = resolve(&rules, &tags, end);
        for class in ["audit", "accounting", "telemetry", "backup"] {
            let Ok(data) = class.parse::<DataClass>() else { continue };
            for days in [0, 29, 30, 364, 365, 2_189, 2_190, 3_650] {
                let facts = RetentionFacts {
                    class: class.into(),
                    compliance: tags.clone(),
                    since: Duration::from_secs(86_400 * u64::from(days)),
                    holds: Vec::new(),
                };
                let said =
                    matches!(decide_retention(&facts, &policy).answer, RetentionRuling::MustKeep { .. });
                let kept = resolved[&data].retain_until.is_some_and(|until| until > end.after_days(days));
                assert_eq!(kept, said, "{class} after {days} days");
            }
        }
    }
}
