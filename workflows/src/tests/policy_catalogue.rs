//! The catalogue of GPU models: what each key of it decides. And keys whose value has no effect.

use crate::policy::{OnboardingFacts, OnboardingRequest, PlatformPolicy, evaluate};

/// What `policy` decides on requests for each model and slice of the built-in catalogue.
pub(super) fn decided_on_models(policy: &PlatformPolicy, usual: &OnboardingFacts) -> String {
    let built_in = PlatformPolicy::built_in().unwrap().gpu_models.models;
    let decide = |model: &str, (isolation, profile, customers): (&str, &str, &str)| {
        let sharing = isolation == "shared_slices";
        let text = format!(
            "name: lab\ntenant: {{tier: enterprise, isolation: {isolation}, data_residency: any, allow_preemption: true, \
             allow_gpu_sharing: {sharing}}}\nentitlement: {{gpu_model: {model}, gpus: 8{profile}}}\n{customers}\n"
        );
        let request = OnboardingRequest::from_yaml(&text).unwrap();
        let evaluation = evaluate(&OnboardingFacts { request, ..usual.clone() }, policy);
        let terms = evaluation.terms.map(|terms| (terms.slicing, terms.gpu_piece, terms.layout));
        format!("{model} {:?} {terms:?}", evaluation.verdict)
    };
    let mut told = Vec::new();
    for (model, facts) in built_in {
        let model = model.as_str();
        told.push(decide(model, ("dedicated", "", "")));
        told.push(decide(model, ("dedicated", "", "multitenancy: customer")));
        told.push(decide(model, ("shared_slices", "", "")));
        for slice in facts.mig {
            let profile = format!(", slice_profile: {}", slice.name);
            told.push(decide(model, ("shared_slices", &profile, "")));
        }
    }
    told.join("\n")
}

/// What has no effect is said by the check of a policy, and a version in force that says it still loads.
#[test]
fn a_key_whose_value_has_no_effect_is_warned_about() {
    let built_in = PlatformPolicy::built_in().unwrap();
    assert_eq!(built_in.warnings(), Vec::<String>::new());
    for (from, to, key) in [
        (", memory: clear", ", memory: purge", "sanitisation.minimum.memory"),
        ("firmware: clear}", "firmware: destroy}", "sanitisation.minimum.firmware"),
        ("by_tier: {}", "by_tier: {enterprise: {memory: purge}}", "sanitisation.by_tier.enterprise.memory"),
    ] {
        let text = PlatformPolicy::amended(&[(from, to)]).unwrap();
        let said = crate::policy::warnings(&text);
        assert!(said.len() == 1 && said[0].starts_with(key) && said[0].contains("no effect"), "{said:?}");
        assert_eq!(crate::policy::check(&text), [], "it is valid");
    }
}
