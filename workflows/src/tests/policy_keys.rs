//! Every key of the platform policy affects a decision. The test visits every key of its schema.
//!
//! The decisions come from the functions that workflows call: the stored terms, the rules of admission, the settings of the planner. The test fails
//! for a key that changes no decision when it gets another valid value, so a new key needs a reader.

use crate::{
    capacity::ledger as capacity,
    offboarding::{OffboardingTerms, ledger as offboarding},
    placement::Candidate,
    policy::{
        OnboardingFacts, OnboardingRequest, PlatformPolicy, PolicyRef, Sweep,
        decisions::{
            ApprovalFor, CapacityFacts, GuardedAction, ReclaimBreadth, approval, blocked, has_recovered,
            is_exhausted,
        },
        evaluate, from_yaml,
    },
    reclaim::{planner_settings, planning},
    scheduling::admission::Rules,
    tenancy::{ClusterKind, Compliance, Gpus, Tenancy, Tier},
    tests::policy_catalogue::decided_on_models,
};
use serde_json::{Value, json};
use std::{collections::BTreeSet, time::Duration};
use store::Timestamp;
use strum::VariantArray as _;

/// Adds the keys that the built-in policy omits, so that the test visits them.
fn fuller() -> Value {
    let mut document = from_yaml(PlatformPolicy::BUILT_IN).unwrap().to_json();
    let fields = document.as_object_mut().unwrap();
    fields.remove("examples");
    fields.insert("version".into(), json!(9));
    let set = |document: &mut Value, at: &str, value: Value| {
        let (parent, name) = at.rsplit_once('/').unwrap();
        document.pointer_mut(parent).unwrap()[name] = value;
    };
    set(&mut document, "/pins", json!([{ "label": "hipaa", "cluster": "eu-2" }]));
    set(&mut document, "/sanitisation/by_tier", json!({ "enterprise": { "nvme": "destroy" } }));
    set(&mut document, "/capacity/buffer_gpus/by_region", json!({ "eu-west": 1 }));
    set(
        &mut document,
        "/lending/anti_colocate",
        json!([{ "region": "eu-west", "class_a": "dev", "class_b": "batch", "scope": "cluster" }]),
    );
    set(
        &mut document,
        "/scheduling/borrow_within_cohort",
        json!({ "policy": "LowerPriority", "max_priority": 7 }),
    );
    set(
        &mut document,
        "/capacity/ladder/standard",
        json!([
            "recall_overdue",
            "sleep_idle",
            "consolidate",
            "rebalance",
            "return_buffer",
            "burst",
            "degrade"
        ]),
    );
    set(&mut document, "/aliases", json!({ "NVIDIA-H100-NVL": "H100" }));
    let glass = json!({ "any_of": ["breakglass"], "reason_at_least": 30 });
    for gate in ["quota_decrease", "offboard", "sla_change", "incident"] {
        let at = format!("/approvals/{gate}");
        let within = if gate == "incident" { ("20m", "10m", "5m") } else { ("2d", "12h", "6h") };
        let escalate = json!([{ "after": within.0, "seats": [{ "any_of": ["admin"], "count": 1 }] }]);
        set(&mut document, &format!("{at}/escalate"), escalate);
        set(&mut document, &format!("{at}/extend"), json!(within.1));
        set(&mut document, &format!("{at}/remind"), json!({ "before": [within.2], "every": within.1 }));
        set(&mut document, &format!("{at}/break_glass"), glass.clone());
    }
    document
}

/// Keys with only one valid value, or with a reader outside of a workflow's decision, each with the reason.
const WITHOUT_A_CASE: [(&str, &str); 9] = [
    ("/policy", "the only name"),
    ("/version", "left out: no decision depends on it"),
    ("/guards/mig_change_on_busy_gpu", "`block` is the only value: nobody may approve it"),
    ("/guards/node_release_unsanitised", "`block` is the only value: nobody may approve it"),
    ("/guards/destroy_under_hold", "`block` is the only value: nobody may approve it"),
    ("/sanitisation/minimum/ssd", "no backend erases a drive that is not NVMe: its node ends in quarantine"),
    ("/sanitisation/minimum/hdd", "no backend erases a drive that is not NVMe: its node ends in quarantine"),
    (
        "/sanitisation/minimum/memory",
        "the reset of a node clears memory in one way: the check of the policy warns",
    ),
    (
        "/sanitisation/minimum/firmware",
        "the reset of a node restores firmware in one way: the check of the policy warns",
    ),
];

fn leaves(value: &Value, at: &str, into: &mut Vec<(String, Value)>) {
    match value {
        Value::Object(fields) => {
            fields.iter().for_each(|(name, inner)| leaves(inner, &format!("{at}/{name}"), into))
        }
        Value::Array(items) => {
            items.iter().enumerate().for_each(|(n, inner)| leaves(inner, &format!("{at}/{n}"), into))
        }
        Value::Null => {}
        leaf @ (Value::Bool(_) | Value::Number(_) | Value::String(_)) => into.push((at.into(), leaf.clone())),
    }
}

/// Returns other possible values of a key with this value.
#[expect(clippy::too_many_lines, reason = "a table")]
fn others(value: &Value) -> Vec<Value> {
    let words = [
        "1h",
        "2h",
        "14m",
        "16m",
        "1m",
        "7m",
        "3s",
        "6d",
        "2d",
        "45d",
        "500d",
        "2200d",
        "0s",
        "0d",
        "admin",
        "finance",
        "security",
        "platform_ops",
        "breakglass",
        "group:night-watch",
        "research",
        "standard",
        "enterprise",
        "production",
        "batch",
        "dev",
        "service",
        "interactive",
        "block",
        "approve",
        "archive",
        "destroy",
        "purge",
        "clear",
        "fair",
        "none",
        "driver_scrub",
        "fill_verify",
        "gpu_reset",
        "Never",
        "LowerPriority",
        "LowerOrNewerEqualPriority",
        "Any",
        "hipaa",
        "pci",
        "gdpr",
        "any",
        "dedicated_cluster",
        "dedicated_nodes",
        "shared_slices",
        "node",
        "cluster",
        "Europe/Berlin",
        "7 7 * * *",
        "return_buffer",
        "degrade",
        "burst",
        "sleep_idle",
        "procure",
        "recall_overdue",
        "rebalance",
        "eu-3",
        "us-west",
        "600",
        "registry.example.org",
        "telemetry",
        "backup",
        "A100",
    ];
    match value {
        Value::Bool(value) => vec![json!(!value)],
        Value::Number(number) => {
            let number = number.as_f64().unwrap();
            let near =
                [number + 1.0, number - 1.0, number * 2.0, number / 2.0, number * 100.0, 0.0, 0.07, 0.9];
            // Written as in a policy: an integer without a decimal point.
            near.into_iter().filter_map(|value| serde_json::from_str(&value.to_string()).ok()).collect()
        }
        Value::String(text) => words.iter().filter(|word| *word != text).map(|word| json!(word)).collect(),
        Value::Null | Value::Array(_) | Value::Object(_) => Vec::new(),
    }
}

fn read(document: &Value) -> Option<PlatformPolicy> {
    let policy = PlatformPolicy::from_yaml(&document.to_string()).ok()?;
    // Version and digest are not part of a decision.
    let reference = PolicyRef { name: "platform".into(), version: 0, digest: String::new() };
    Some(PlatformPolicy { reference, provenance: crate::policy::Provenance::default(), ..policy })
}

fn requests() -> Vec<OnboardingFacts> {
    let asked = [
        ("research", "dedicated", "any", 8, "", ""),
        ("research", "dedicated", "any", 9, "", ""),
        ("research", "dedicated", "eu-only", 8, "compliance: [gdpr]", ""),
        ("standard", "dedicated", "any", 16, "compliance: [gdpr]", ""),
        ("standard", "shared_slices", "any", 8, "compliance: [hipaa]", ""),
        ("standard", "dedicated", "any", 8, "compliance: [hipaa]", ""),
        ("standard", "dedicated_cluster", "any", 8, "compliance: [pci]", ""),
        ("enterprise", "shared_slices", "any", 8, "compliance: [pci]", ""),
        ("enterprise", "dedicated", "any", 30, "", ""),
        ("standard", "shared_slices", "any", 8, "", "multitenancy: customer"),
        ("standard", "dedicated", "any", 64, "", ""),
    ];
    let tenancies = [("eu-1", "eu-west", "eu", Tenancy::Shared), ("us-1", "us-west", "us", Tenancy::Shared)];
    let own = ("eu-own", "eu-west", "eu", Tenancy::Dedicated { tenant: None });
    let candidates: Vec<Candidate> = tenancies
        .into_iter()
        .chain([own])
        .map(|(cluster, region, jurisdiction, tenancy)| Candidate {
            cluster: cluster.parse().unwrap(),
            region: region.parse().unwrap(),
            jurisdiction: jurisdiction.parse().unwrap(),
            kind: ClusterKind::Kubernetes,
            simulated: true,
            tenancy,
            total: Gpus(64),
            free: Gpus(64),
            buffer: Gpus::ZERO,
            unready: Vec::new(),
        })
        .collect();
    let facts = |(tier, isolation, residency, gpus, tags, customers): (&str, &str, &str, u32, &str, &str)| {
        let sharing = isolation == "shared_slices";
        let text = format!(
            "name: lab\ntenant: {{tier: {tier}, isolation: {isolation}, data_residency: {residency}, allow_preemption: true, \
             allow_gpu_sharing: {sharing}}}\nentitlement: {{gpu_model: H100, gpus: {gpus}}}\nworkspaces: [{{name: lab, class: research}}]\n{tags}\n{customers}\n"
        );
        let request = OnboardingRequest::from_yaml(&text).unwrap();
        OnboardingFacts { request, name_in_use: false, candidates: candidates.clone(), preflight: None }
    };
    asked.into_iter().map(facts).collect()
}

/// Returns all decisions of `policy` as one text, from the functions that workflows, sweeps and admission call.
fn decided(policy: &PlatformPolicy, requests: &[OnboardingFacts]) -> String {
    let mut told = Vec::new();
    for facts in requests {
        let evaluation = evaluate(facts, policy);
        let rules: Vec<_> = evaluation.reasons.iter().map(|reason| (&reason.rule, reason.verdict)).collect();
        told.push(format!("{:?} {rules:?} {:?}", evaluation.verdict, evaluation.terms));
    }
    told.push(format!("{:?}", Rules::from(policy)));
    for tier in Tier::VARIANTS {
        told.push(format!("{:?}", OffboardingTerms::from_policy(policy, *tier)));
        let monthly = policy.monthly(&"H100".parse().unwrap(), Gpus(12));
        told.push(format!("{:?}", capacity::terms(policy, &BTreeSet::from([*tier]), monthly)));
    }
    let held = crate::destruction::HoldScope::Workspace("research".parse().unwrap());
    told.push(format!("{:?}", offboarding::delays(&held, policy)));
    told.push(format!("{:?}", planning::terms(policy, Timestamp(0))));
    told.push(format!(
        "{:?} {:?}",
        planner_settings::of_policy(policy, false),
        planner_settings::preemption(policy)
    ));
    for tags in [vec![], vec![Compliance::Hipaa], vec![Compliance::Pci], vec![Compliance::Gdpr]] {
        for same in [true, false] {
            let tags = tags.iter().copied().collect();
            told.push(format!(
                "{:?}",
                planning::terms_of_eviction(policy, policy.reclaim.grace, &tags, same)
            ));
        }
    }
    told.push(policy.gpu_models.named(&"nvidia-h100-nvl".parse().unwrap()).to_string());
    told.extend(guarded(policy));
    told.extend(asked(policy));
    told.extend(exhausted(policy));
    told.push(format!(
        "{:?}",
        Sweep::VARIANTS.iter().map(|sweep| policy.sweeps.get(*sweep)).collect::<Vec<_>>()
    ));
    for (model, region) in [
        ("T4", "eu-west"),
        ("A100", "us-west"),
        ("P100", "eu-west"),
        ("H200", "eu-west"),
        ("V100", "eu-west"),
    ] {
        told.push(format!("{:?}", policy.monthly(&model.parse().unwrap(), Gpus(3))));
        told.push(format!("{:?}", policy.buffer_in(&region.parse().unwrap())));
    }
    told.join("\n")
}

fn guarded(policy: &PlatformPolicy) -> Vec<String> {
    let deeds = [
        GuardedAction::EndTenant { running: 1 },
        GuardedAction::Reclaim(ReclaimBreadth::WIDEST),
        GuardedAction::ReleaseNode { assets: 2, passed: 1 },
    ];
    deeds.iter().map(|deed| format!("{:?}", blocked(deed, policy).map(|stop| stop.mode))).collect()
}

fn asked(policy: &PlatformPolicy) -> Vec<String> {
    let mut asks = vec![
        ApprovalFor::SlaChange { lower: true },
        ApprovalFor::Incident { disturbs: true },
        ApprovalFor::QuotaDecrease { to: Gpus(1), used: Gpus(2) },
    ];
    for (from, to, free) in
        [(0, 2, 64), (0, 3, 64), (10, 11, 64), (100, 110, 640), (100, 120, 64), (8, 25, 64)]
    {
        let (from, to, free) = (Gpus(from), Gpus(to), Gpus(free));
        asks.push(ApprovalFor::QuotaIncrease { from, to, free });
    }
    asks.iter().map(|ask| format!("{:?}", approval(ask, policy).answer)).collect()
}

fn exhausted(policy: &PlatformPolicy) -> Vec<String> {
    let mut told = Vec::new();
    for free in 0..=32 {
        told.push(format!("{}", has_recovered(Gpus(32), Gpus(free), policy)));
        for minutes in [0, 1, 8, 15, 90, 600] {
            let span = Duration::from_secs(60 * minutes);
            let scarce =
                CapacityFacts { total: Gpus(32), free: Gpus(free), scarce_for: span, ..Default::default() };
            let waiting =
                CapacityFacts { total: Gpus(32), free: Gpus(32), oldest_waits: span, ..Default::default() };
            told.push(format!(
                "{} {}",
                is_exhausted(&scarce, policy).answer,
                is_exhausted(&waiting, policy).answer
            ));
        }
    }
    told
}

/// S-69, S-90, S-140.
#[test]
fn every_policy_key_changes_a_decision_when_its_value_changes() {
    let document = fuller();
    let requests = requests();
    let policy = read(&document).expect("the fuller policy is valid");
    let before = [decided(&policy, &requests), decided_on_models(&policy, &requests[0])];
    let mut all = Vec::new();
    leaves(&document, "", &mut all);
    assert!(all.len() > 250, "{}", all.len());

    let mut dead = Vec::new();
    for (key, value) in &all {
        if WITHOUT_A_CASE.iter().any(|(without, _)| key.starts_with(without)) {
            continue;
        }
        let mut changed = document.clone();
        let changes = others(value).into_iter().any(|other| {
            *changed.pointer_mut(key).unwrap() = other;
            read(&changed).is_some_and(|policy| match key.starts_with("/gpu_models/") {
                true => decided_on_models(&policy, &requests[0]) != before[1],
                false => decided(&policy, &requests) != before[0],
            })
        });
        if !changes {
            dead.push(key.as_str());
        }
    }

    assert_eq!(dead, Vec::<&str>::new(), "keys that decide nothing");
}

/// S-107.
#[test]
fn ecc_memory_is_checked_for_tenants_with_customers() {
    let text = "name: host\ntenant: {tier: standard, isolation: dedicated, data_residency: any, allow_preemption: true, \
                allow_gpu_sharing: false}\nentitlement: {gpu_model: H100, gpus: 8}\nmultitenancy: customer\n";
    let request = OnboardingRequest::from_yaml(text).unwrap();
    let facts = OnboardingFacts { request, ..requests().remove(0) };
    let without = "policy: platform\nversion: 9\ngpu_models: {H100: {memory_mib: 81920, ecc: false}}\n";
    let (built_in, without) =
        (PlatformPolicy::built_in().unwrap(), PlatformPolicy::from_yaml(without).unwrap());
    assert_ne!(evaluate(&facts, &built_in).verdict, evaluate(&facts, &without).verdict);
}
