//! Policy as code: strictly parsed documents, and reproducible decisions.

mod decisions;
mod documents;
mod examples;
mod published;

use engine::Seat;
use proptest::prelude::*;
use std::time::Duration;
use tests::books::Books;
use workflows::{placement::Candidate, policy::*, tenancy::*};

/// The example document of the specification.
const FIVE_FIELDS: &str = "\
tenant:
  tier: enterprise
  isolation: dedicated
  data_residency: eu-only
  allow_preemption: false
  allow_gpu_sharing: false
";

const REQUEST: &str = "\
name: acme
tenant:
  tier: enterprise
  isolation: dedicated
  data_residency: eu-only
  allow_preemption: false
  allow_gpu_sharing: false
workspaces:
  - name: production
    class: production
    quotas: {gpus: 12, cpu_milli: 64000, memory_mib: 262144, storage_gib: 1000, pods: 200}
  - {name: research, class: research}
  - {name: dev, class: dev}
entitlement: {gpu_model: H100, gpus: 17, region: eu-west, from: 2026-01-01, to: 2027-01-01}
compliance: [gdpr, soc2]
";

fn request(text: &str) -> OnboardingRequest {
    OnboardingRequest::from_yaml(text).unwrap_or_else(|invalid| panic!("{invalid}"))
}

fn candidate(cluster: &str, law: &str, tenancy: Tenancy, gpus: u32) -> Candidate {
    Candidate {
        cluster: cluster.parse().unwrap(),
        region: format!("{law}-west").parse().unwrap(),
        jurisdiction: law.parse().unwrap(),
        kind: ClusterKind::Kubernetes,
        simulated: true,
        tenancy,
        total: Gpus(gpus),
        free: Gpus(gpus),
        buffer: Gpus::ZERO,
        unready: Vec::new(),
    }
}

fn facts(request: OnboardingRequest) -> OnboardingFacts {
    let candidates = vec![
        candidate("eu-1", "eu", Tenancy::Shared, 64),
        candidate("us-1", "us", Tenancy::Shared, 256),
        candidate("eu-own", "eu", Tenancy::Dedicated { tenant: None }, 64),
    ];
    OnboardingFacts { request, name_in_use: false, candidates, preflight: None }
}

fn built_in() -> PlatformPolicy {
    PlatformPolicy::built_in().unwrap_or_else(|invalid| panic!("{invalid}"))
}

fn decide(text: &str) -> OnboardingEvaluation {
    evaluate(&facts(request(text)), &built_in())
}

#[test]
fn the_five_fields_load_exactly_as_written() {
    let policy = TenantPolicy::from_yaml(FIVE_FIELDS).unwrap();

    assert_eq!(
        policy,
        TenantPolicy {
            tier: Tier::Enterprise,
            isolation: Isolation::DedicatedNodes,
            data_residency: Residency::Within(["eu".parse().unwrap()].into()),
            allow_preemption: false,
            allow_gpu_sharing: false,
        }
    );
    assert_eq!(check(FIVE_FIELDS), []);
}

/// A change of any of the five fields changes a decision.
#[test]
fn every_field_of_a_tenants_policy_changes_a_decision() {
    let base =
        REQUEST.replace("gdpr, soc2", "").replace("gpus: 17", "gpus: 6").replace("{gpus: 12, ", "{gpus: 2, ");
    let own = base
        .replace("isolation: dedicated", "isolation: shared_slices")
        .replace("sharing: false", "sharing: true");
    let changes = [
        (&base, "tier: enterprise", "tier: research"),
        (&base, "isolation: dedicated", "isolation: dedicated_cluster"),
        (&base, "isolation: dedicated", "isolation: shared_slices"),
        (&base, "data_residency: eu-only", "data_residency: [us]"),
        (&base, "allow_preemption: false", "allow_preemption: true"),
        (&own, "allow_gpu_sharing: true", "allow_gpu_sharing: false"),
    ];
    for (base, from, to) in changes {
        let (before, after) = (decide(base), decide(&base.replacen(from, to, 1)));
        let said = |decision: &OnboardingEvaluation| {
            let failed =
                decision.reasons.iter().filter(|r| r.verdict == Judgement::Failed).map(|r| r.rule.clone());
            (decision.verdict, decision.terms.clone(), failed.collect::<Vec<_>>())
        };
        assert_ne!(said(&before), said(&after), "{to} changes nothing");
    }
}

#[test]
fn a_small_research_tenant_needs_no_approval() {
    let small = REQUEST.replace("enterprise", "research").replace("gdpr, soc2", "");
    let small = small.replace("gpus: 17", "gpus: 8").replace("{gpus: 12, ", "{gpus: 2, ");

    let terms = decide(&small).terms.unwrap();
    assert!(terms.waived);
    assert!(!decide(&small.replace("gpus: 8", "gpus: 9")).terms.unwrap().waived, "one GPU more");
    assert!(!decide(&small.replace("[]", "[soc2]")).terms.unwrap().waived, "a compliance tag");
    assert_eq!(decide(&small).verdict, Verdict::SelfService);
}

#[test]
fn finance_and_security_approve_requests_that_concern_them() {
    let seats = |text: &str| decide(text).terms.unwrap().seats;
    let ops =
        Seat { any_of: vec!["platform_ops".into(), "capacity_manager".into(), "admin".into()], count: 1 };

    assert_eq!(seats(&REQUEST.replace("gdpr, soc2", "")), *std::slice::from_ref(&ops));
    assert_eq!(seats(REQUEST), [ops.clone(), Seat::new("security", 1)]);
    let dear = REQUEST.replace("gpus: 17", "gpus: 30").replace("gdpr, soc2", "");
    assert_eq!(seats(&dear), [ops, Seat::new("finance", 1)]);
}

#[test]
fn a_rejection_names_the_rule_and_the_line() {
    let cases = [
        ("gpus: 17", "gpus: 11", "quota.within_entitlement", 8),
        ("region: eu-west", "region: us-west", "placement.data_residency", 5),
        ("region: eu-west", "region: mars", "placement.region", 14),
        ("gpu_model: H100, gpus: 17", "gpu_model: H100, gpus: 65", "placement.ever_fits", 14),
        ("isolation: dedicated", "isolation: shared_slices", "isolation.sharing_allowed", 7),
        ("eu-only", "any", "compliance.residency", 5),
        (
            "{name: dev, class: dev}",
            "{name: dev, class: dev, quotas: {borrowing_limit: 1}}",
            "preemption.needed_to_borrow",
            6,
        ),
    ];
    for (good, bad, rule, line) in cases {
        let decision = decide(&REQUEST.replacen(good, bad, 1));
        assert_eq!(decision.verdict, Verdict::Rejected, "{bad}");
        let failed: Vec<_> = decision.reasons.iter().filter(|r| r.verdict == Judgement::Failed).collect();
        assert!(failed.iter().any(|r| r.rule == rule && r.line == Some(line)), "{bad}: {failed:#?}");
    }
    let mut taken = facts(request(REQUEST));
    taken.name_in_use = true;
    assert_eq!(evaluate(&taken, &built_in()).verdict, Verdict::Rejected);
}

#[test]
fn workspaces_without_a_quota_share_the_rest() {
    let terms = decide(REQUEST).terms.unwrap();

    let nominal: Vec<_> = terms.workspaces.iter().map(|w| (w.name.as_str(), w.limits.nominal.0)).collect();
    assert_eq!(nominal, [("production", 12), ("research", 3), ("dev", 2)]);
    assert!(
        terms.workspaces.iter().all(|w| w.limits.borrowing_limit == Some(Gpus::ZERO)),
        "nothing preemptible"
    );
    assert_eq!(terms.workspaces[0].limits.pods, Some(200));
}

proptest! {
    /// I-20.
    #[test]
    fn a_policy_decision_can_be_repeated_from_its_record(
        tier in 0..3_usize, isolation in 0..3_usize, law in 0..3_usize, preempt: bool, share: bool, gpus in 1..80_u32,
    ) {
        let text = format!(
            "{{name: acme, tenant: {{tier: {}, isolation: {}, data_residency: {}, allow_preemption: {preempt}, \
             allow_gpu_sharing: {share}}}, entitlement: {{gpu_model: H100, gpus: {gpus}}}}}",
            ["enterprise", "standard", "research"][tier],
            ["dedicated_cluster", "dedicated_nodes", "shared_slices"][isolation],
            ["any", "eu-only", "[us, de]"][law],
        );
        let facts = facts(request(&text));
        let first = evaluate(&facts, &built_in());
        let kept = serde_json::to_string(&facts).unwrap();
        let again: OnboardingFacts = serde_json::from_str(&kept).unwrap();
        prop_assert_eq!(&again.digest(), &facts.digest());
        prop_assert_eq!(&evaluate(&again, &built_in()), &first);
        let regions = first.terms.iter().flat_map(|terms| terms.constraints.regions.iter().flatten());
        for region in regions {
            // I-22.
            let inside = again.candidates.iter().any(|c| {
                c.region == *region && again.request.tenant.data_residency.allows(&c.jurisdiction)
            });
            prop_assert!(inside, "{region}");
        }
    }
}

#[test]
fn a_published_version_never_changes_and_the_latest_is_in_force() {
    let mut books = Books::default();
    let second = PlatformPolicy::amended(&[("within: 5d", "within: 36h")]).unwrap();
    assert_eq!(books.decide(in_force).unwrap().reference, built_in().reference);

    let published = books.decide(|view| publish(view, &second, "ada")).unwrap().reference;
    let again = books.decide(|view| publish(view, &second, "bob")).unwrap().reference;
    let other = second.replace("36h", "40h");
    let refused = books.decide(|view| publish(view, &other, "ada")).unwrap_err();
    let disguised = PlatformPolicy::BUILT_IN.replace("within: 5d", "within: 6d");
    let built_in_changed = books.decide(|view| publish(view, &disguised, "ada")).unwrap_err();

    assert_eq!((published.version, &again), (3, &published));
    assert_eq!(refused.code, "policy.version_exists");
    assert_eq!(built_in_changed.code, "policy.version_exists");
    let now = books.decide(in_force).unwrap();
    assert_eq!(now.onboarding.within, Duration::from_secs(36 * 3_600));
    let old = built_in().reference;
    assert_eq!(
        books.decide(|view| version(view, &old)).unwrap().reference,
        old,
        "old decisions can be replayed"
    );
}

#[test]
fn a_diff_lists_the_changed_keys() {
    let new = PlatformPolicy::BUILT_IN
        .replacen("within: 5d", "within: 3d", 1)
        .replace("max_gpus: 8\n", "max_gpus: 16\n");

    let changes = diff(PlatformPolicy::BUILT_IN, &new).unwrap();

    let said: Vec<_> = changes.iter().map(|c| (c.key.as_str(), c.old.as_deref(), c.new.as_deref())).collect();
    assert_eq!(
        said,
        [
            ("approvals.onboarding.within", Some("5d"), Some("3d")),
            ("self_service.max_gpus", Some("8"), Some("16")),
        ]
    );
}
