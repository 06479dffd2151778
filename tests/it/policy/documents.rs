//! How policy documents are read: each mistake is named with its place and remedy.

use super::{FIVE_FIELDS, REQUEST, request};
use serde_json::json;
use workflows::policy::*;

#[test]
fn a_request_in_json_equals_the_same_request_in_yaml() {
    let from_json = OnboardingRequest::from_json(&json!({
        "name": "acme",
        "tenant": {"tier": "enterprise", "isolation": "dedicated", "data_residency": "eu-only",
                   "allow_preemption": false, "allow_gpu_sharing": false},
        "workspaces": [
            {"name": "production", "class": "production",
             "quotas": {"gpus": 12, "cpu_milli": 64000, "memory_mib": 262144, "storage_gib": 1000, "pods": 200}},
            {"name": "research", "class": "research"},
            {"name": "dev", "class": "dev"}],
        "entitlement": {"gpu_model": "H100", "gpus": 17, "region": "eu-west", "from": "2026-01-01", "to": "2027-01-01"},
        "compliance": ["gdpr", "soc2"],
    }));

    let mut from_yaml = request(REQUEST);
    from_yaml.lines.clear();
    assert_eq!(from_json.unwrap(), from_yaml);
}

/// Each mistake with its line, column, field, and a part of the remedy.
#[test]
fn an_error_is_reported_with_line_column_field_and_remedy() {
    let cases: [(&str, &str, &str); 14] = [
        (
            "tier: enterprise",
            "tier: gold",
            "line 3, column 9: `tenant.tier`: the text \"gold\" is not a value of this field; use one of enterprise, standard, research",
        ),
        (
            "tier: enterprise",
            "teir: enterprise",
            "line 3, column 3: `tenant.teir`: there is no field `teir` here; the fields are tier, isolation, data_residency, allow_preemption, allow_gpu_sharing",
        ),
        (
            "isolation: dedicated",
            "isolation: shared",
            "line 4, column 14: `tenant.isolation`: the text \"shared\" is not a value of this field; use one of dedicated_cluster, dedicated_nodes, shared_slices",
        ),
        (
            "eu-only",
            "[eu, 7]",
            "line 5, column 24: `tenant.data_residency[1]`: the number 7 stands where text is expected; put it in quotes",
        ),
        (
            "eu-only",
            "europe",
            "line 5, column 19: `tenant.data_residency`: the text \"europe\" does not say where data may be; write `eu-only`, `any`, or a list",
        ),
        (
            "allow_preemption: false",
            "allow_preemption: maybe",
            "line 6, column 21: `tenant.allow_preemption`: the text \"maybe\" is neither true nor false; write `true` or `false`",
        ),
        (
            "gpus: 17",
            "gpus: 0.5",
            "line 14, column 38: `entitlement.gpus`: the number 0.5 is not a number that fits here; write a whole number from 1 to 100000",
        ),
        (
            "gpus: 17",
            "gpus: -1",
            "line 14, column 38: `entitlement.gpus`: the number -1 is not a number that fits here",
        ),
        (
            "2026-01-01",
            "2026-13-01",
            "line 14, column 65: `entitlement.from`: \"2026-13-01\" is no day; write it as `2026-01-31`",
        ),
        (
            "name: acme",
            "name: Acme Corp",
            "line 1, column 7: `name`: \"Acme Corp\" cannot name a tenant; use 1 to 32 lower-case letters, digits and '-'",
        ),
        (
            "name: dev",
            "name: research",
            "line 9, column 3: `workspaces`: workspace research is asked for twice; give each its own name",
        ),
        (
            "compliance: [gdpr",
            "compliance: [gpdr",
            "line 15, column 14: `compliance[0]`: the text \"gpdr\" is not a value of this field; use one of hipaa, gdpr, pci, soc2, 21cfr11",
        ),
        ("gpus: 17", "gpus: [17", "line "),
        ("  tier: enterprise\n", "", "line 3, column 3: `tenant.tier`: the field is missing; add `tier: …`"),
    ];
    for (good, bad, expected) in cases {
        let text = REQUEST.replacen(good, bad, 1);
        let invalid = OnboardingRequest::from_yaml(&text).unwrap_err().to_string();
        assert!(invalid.contains(expected), "{bad}:\n{invalid}\ninstead of\n{expected}");
    }
}

#[test]
fn every_error_of_a_document_is_reported_at_once() {
    let text = REQUEST.replacen("enterprise", "gold", 1).replacen("gpus: 17", "gpus: many", 1);

    let invalid = OnboardingRequest::from_yaml(&text).unwrap_err();

    let fields: Vec<_> = invalid.findings.iter().map(|finding| finding.field.as_str()).collect();
    assert_eq!(fields, ["tenant.tier", "entitlement.gpus"]);
}

#[test]
fn a_duplicate_field_is_refused() {
    let twice = FIVE_FIELDS.replace("tier: enterprise", "tier: enterprise\n  tier: research");

    let invalid = TenantPolicy::from_yaml(&twice).unwrap_err();

    assert_eq!(invalid.findings[0].at.map(|spot| spot.line), Some(3), "{invalid}");
}

#[test]
fn an_error_in_json_is_named_by_its_path() {
    let mut data = json!({"name": "acme", "entitlement": {"gpu_model": "H100", "gpus": "many"}});
    data["tenant"] = json!({"tier": "gold"});

    let invalid = OnboardingRequest::from_json(&data).unwrap_err().to_string();

    assert!(invalid.contains("`entitlement.gpus`: the text \"many\""), "{invalid}");
    assert!(invalid.contains("`tenant.tier`: the text \"gold\""), "{invalid}");
    assert!(invalid.contains("`tenant.isolation`: the field is missing"), "{invalid}");
}

#[test]
fn a_document_that_expands_without_end_is_refused() {
    let mut bomb = String::from("a0: &a0 [x, x, x, x, x, x, x, x, x, x]\n");
    for level in 1..12 {
        let before = vec![format!("*a{}", level - 1); 10].join(", ");
        bomb.push_str(&format!("a{level}: &a{level} [{before}]\n"));
    }

    assert!(!check(&bomb).is_empty());
}

#[test]
fn an_error_in_the_platform_policy_is_named_with_line_and_column() {
    let cases = [
        (
            "within: 5d",
            "within: five days",
            "line 10, column 13: `approvals.onboarding.within`: the text \"five days\" is not a span of time; write a number and a unit",
        ),
        (
            "any_of: [finance]",
            "any_of: [cfo]",
            "`approvals.onboarding.finance.seats[0].any_of`: not all of these are roles or groups; use platform_ops",
        ),
        (
            "max_replacements: 3",
            "max_replacement: 3",
            "there is no field `max_replacement` here; the fields are max_replacements",
        ),
        (
            "overcommit: false",
            "overcommit: 0",
            "`capacity.overcommit`: the number 0 is neither true nor false",
        ),
        ("gdpr:", "gpdr:", "\"gpdr\" is no compliance tag"),
    ];
    for (good, bad, expected) in cases {
        let text = PlatformPolicy::BUILT_IN.replacen(good, bad, 1);
        assert_ne!(text, PlatformPolicy::BUILT_IN, "{good}");
        let said: Vec<_> = check(&text).iter().map(ToString::to_string).collect();
        assert!(said.iter().any(|said| said.contains(expected)), "{bad}: {said:#?}");
    }
}

/// The examples in the docs are documents that load.
#[test]
fn every_example_in_the_docs_loads() {
    let page = include_str!("../../../docs/policy.md");
    let mut tried = 0;
    for block in page.split("```yaml\n").skip(1) {
        let text = block.split("```").next().unwrap();
        assert_eq!(check(text), [], "{text}");
        tried += 1;
    }
    assert!(tried >= 3, "{tried}");
}
