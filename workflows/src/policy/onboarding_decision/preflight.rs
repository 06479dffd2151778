//! The checks of an onboarding that need no fleet: one list for `policy check`, plan, dry run and request.
//!
//! Called by the [decision](crate::policy::evaluate) on a request, and by [`check_on`] for a document. Invariant: a document that is refused here is also
//! refused as a request, by the same rule.

use super::document_reasons;
use crate::policy::{
    Finding, Judgement, OnboardingFacts, OnboardingRequest, PlatformPolicy, Preflight, Reason, Spot,
    parsing::document::{self, Value},
    versions::check,
};

/// Returns the problems of a document on `today`: its form and, for a request, the rules that need no fleet.
#[must_use]
pub fn check_on(text: &str, today: &str) -> Vec<Finding> {
    let findings = check(text);
    let is_request = document::from_yaml(text).is_ok_and(|root| match root.value {
        Value::Map(fields) => {
            let has = |name: &str| fields.iter().any(|(field, _, _)| field == name);
            !has("policy") && has("entitlement")
        }
        _ => false,
    });
    if !findings.is_empty() || !is_request {
        return findings;
    }
    let (Ok(request), Ok(policy)) = (OnboardingRequest::from_yaml(text), PlatformPolicy::built_in()) else {
        return findings;
    };
    let preflight = Some(Preflight { today: today.to_owned(), closed: None });
    let facts = OnboardingFacts { request, name_in_use: false, candidates: Vec::new(), preflight };
    let failed = document_reasons(&facts, &policy)
        .into_iter()
        .filter(|(_, reason)| reason.verdict == Judgement::Failed);
    failed.map(|(field, reason)| finding(&field, reason)).collect()
}

fn finding(field: &str, reason: Reason) -> Finding {
    let at = reason.line.map(|line| Spot { line, column: 1 });
    let remedy = format!("change it: an onboarding is rejected by the rule {}", reason.rule);
    Finding::new(at, field, reason.detail, remedy)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::policy::ClosedName;
    use store::Timestamp;

    fn request(entitlement: &str, workspaces: &str) -> String {
        format!(
            "name: lab2\n\
             tenant: {{tier: research, isolation: dedicated, data_residency: any, allow_preemption: true, allow_gpu_sharing: false}}\n\
             workspaces: {workspaces}\n\
             entitlement: {{gpu_model: H100, gpus: 2{entitlement}}}\n"
        )
    }

    #[test]
    fn a_document_that_an_onboarding_would_reject_is_not_valid() {
        let one = "[{name: a, class: dev, quotas: {gpus: 2}}]";
        for (entitlement, workspaces, rule) in [
            (", to: 2020-01-01", one, "entitlement.not_ended"),
            (", to: 2026-11-27", one, "entitlement.not_ended"),
            ("", "[{name: a, class: dev, quotas: {gpus: 3}}]", "quota.within_entitlement"),
            ("", "[{name: a, class: dev, quotas: {gpus: 1, lending_limit: 5}}]", "quota.lends_its_own"),
        ] {
            let found = check_on(&request(entitlement, workspaces), "2026-11-27");
            let said: Vec<String> = found.iter().map(ToString::to_string).collect();
            assert!(said.len() == 1 && said[0].contains(rule) && said[0].starts_with("line "), "{said:?}");
        }
        for entitlement in ["", ", to: 2026-11-28", ", from: 2027-01-01, to: 2028-01-01"] {
            assert_eq!(check_on(&request(entitlement, one), "2026-11-27"), []);
        }
    }

    #[test]
    fn a_reserved_name_is_refused_in_a_new_request_and_stays_readable_in_the_store() {
        for name in ["kube-system", "default", "platform", "system", "unknown"] {
            let text = request("", "[{name: a, class: dev}]").replace("lab2", name);
            let found = check_on(&text, "2026-11-27");
            assert!(found.iter().any(|finding| finding.field == "name"), "{name}: {found:?}");
            let mut stored = OnboardingRequest::from_yaml(&request("", "[{name: a, class: dev}]")).unwrap();
            stored.name = name.parse().unwrap();
            let body = serde_json::to_value(&stored).unwrap();
            assert_eq!(serde_json::from_value::<OnboardingRequest>(body).unwrap(), stored);
        }
    }

    #[test]
    fn the_refusal_of_a_closed_tenants_name_shows_when_it_was_closed() {
        let closed = ClosedName { at: Some(Timestamp(1_768_435_200_000)) };
        assert_eq!(closed.describe(), "was used; closed on 2026-01-15; a name is not used again");
    }
}
