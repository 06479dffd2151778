//! Every key of the catalogue of GPU models affects a decision. Keys with an ineffective value cause a warning.

use crate::policy::{OnboardingFacts, OnboardingRequest, PlatformPolicy, evaluate};

/// Returns the decisions of `policy` on requests for each model and slice of the built-in catalogue.
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

/// The check of a policy warns about a key without effect. A version in force with such a key still loads.
#[test]
fn a_key_without_effect_causes_a_warning() {
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

/// Aliases are resolved wherever a model is named. An unknown name causes an error with the most similar name.
#[test]
fn an_alias_is_resolved_and_an_unknown_name_gets_the_nearest_one() {
    let text =
        PlatformPolicy::amended(&[("pins: []", "pins: []\naliases: {NVIDIA H100 NVL: H100, gpu-big: H200}")]);
    let policy = PlatformPolicy::from_yaml(&text.unwrap()).unwrap();
    let named = |name: &str| policy.gpu_models.named(&name.parse().unwrap()).to_string();
    assert_eq!(["nvidia-h100-nvl", "GPU-BIG", "T4", "h101"].map(named), ["H100", "H200", "T4", "h101"]);
    let none = |name: &str| policy.gpu_models.no_model(&name.parse().unwrap());
    let said = none("h101").unwrap();
    assert!(said.contains("did you mean H100?") && said.contains("known models: A100"), "{said}");
    assert_eq!(["H100", "L40"].map(none), [None, None], "a model that exists");
    assert!(PlatformPolicy::built_in().unwrap().gpu_models.aliases.is_empty());

    for alias in ["T4", "L40"] {
        let text = PlatformPolicy::amended(&[("pins: []", &format!("pins: []\naliases: {{{alias}: H100}}"))])
            .unwrap();
        let invalid = PlatformPolicy::from_yaml(&text).unwrap_err().to_string();
        assert!(invalid.contains(&format!("{alias} is the name of a model")), "{invalid}");
    }
}

/// An alias must name a model, not another alias.
#[test]
fn an_alias_of_an_unknown_model_is_refused_with_the_nearest_name() {
    let amended = |aliases: &str| {
        PlatformPolicy::amended(&[("pins: []", &format!("pins: []\naliases: {{{aliases}}}"))]).unwrap()
    };
    for (aliases, said) in
        [("big: h101", "h101; did you mean H100?"), ("big: bigger, bigger: H200", "bigger")]
    {
        let invalid = PlatformPolicy::from_yaml(&amended(aliases)).unwrap_err().to_string();
        assert!(invalid.contains("`aliases.big`: big stands for no model"), "{invalid}");
        assert!(invalid.contains(&format!("unknown model {said}")), "{invalid}");
    }
    PlatformPolicy::from_yaml(&amended("big: L40")).unwrap();
}
