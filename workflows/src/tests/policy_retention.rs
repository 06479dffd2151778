//! Destruction and the policy's own examples use the same retention.

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
use strum::VariantArray as _;

/// Destruction, policy examples and policy explanations give the same result at every time.
#[test]
fn data_is_retained_for_the_time_in_policy() {
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

/// The same for every class of data in an inventory, and for the treatment after the retention.
#[test]
fn every_class_of_an_inventory_is_retained_as_policy_decides() {
    let text = PlatformPolicy::amended(&[(
        "{class: tenant_data, min: 0d, max: 30d, then: destroy}",
        "{class: tenant_data, min: 3d, max: 30d, then: archive}\n  - {class: model, tag: pci, min: 9d, then: destroy}",
    )])
    .unwrap();
    let policy = PlatformPolicy::from_yaml(&text).unwrap();
    let end = Moment::from(Timestamp(0));
    let mut kept = 0;
    for compliance in [BTreeSet::new(), BTreeSet::from([Compliance::Pci])] {
        let rules = OffboardingTerms::from_policy(&policy, Tier::Standard).retention;
        let resolved = resolve(&rules, &compliance, end);
        for class in DataClass::VARIANTS {
            for days in [0, 2, 3, 8, 9, 30, 365, 3_650] {
                let facts = RetentionFacts {
                    class: <&str>::from(*class).into(),
                    compliance: compliance.clone(),
                    since: Duration::from_secs(86_400 * u64::from(days)),
                    holds: Vec::new(),
                };
                let says = decide_retention(&facts, &policy).answer.keeps();
                assert_eq!(resolved[class].keeps(end.after_days(days)), says, "{class} after {days} days");
                kept += usize::from(says);
            }
        }
    }
    assert!(kept > 16, "workloads and models are archived: {kept}");
}
