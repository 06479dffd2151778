//! Decisions: each names its line of policy, and can be repeated under the policy version of its time.

use super::{REQUEST, built_in, candidate, facts, request};
use std::collections::{BTreeMap, BTreeSet};
use store::Timestamp;
use tests::books::Books;
use workflows::{
    placement::Constraints,
    platform::FlavorQuota,
    policy::{decisions::*, *},
    tenancy::*,
};

fn amended(changes: &[(&str, &str)]) -> PlatformPolicy {
    let text = PlatformPolicy::amended(changes).unwrap_or_else(|| panic!("{changes:?}"));
    PlatformPolicy::from_yaml(&text).unwrap_or_else(|invalid| panic!("{invalid}"))
}

/// A reason names the line of the deciding key, in any document.
#[test]
fn a_reason_names_document_version_and_line() {
    let policy = amended(&[("line_limit: 1000", "line_limit: 999")]);
    let text = PlatformPolicy::amended(&[("line_limit: 1000", "line_limit: 999")]).unwrap();
    let questions = [
        PolicyQuestion::Approval(ApprovalFor::QuotaIncrease { from: Gpus(8), to: Gpus(80), free: Gpus(64) }),
        PolicyQuestion::Approval(ApprovalFor::Destroy { assets: 3 }),
        PolicyQuestion::Failure(Failure::NodeUnfit { replaced: 3 }),
        PolicyQuestion::Failure(Failure::Exhausted { tier: Tier::Standard, tried: BTreeSet::new() }),
        PolicyQuestion::Guard(GuardedAction::Destroy { holds: vec!["court".into()] }),
        PolicyQuestion::Onboarding(facts(request(REQUEST))),
    ];
    let mut named = 0;
    for question in questions {
        for reason in rule(&question, &policy).reasons {
            let Some(by) = reason.by else {
                assert!(reason.line.is_some(), "{reason:?} names neither policy nor request");
                continue;
            };
            assert_eq!((by.document.as_str(), by.version), ("platform", policy.reference.version));
            let line = text.lines().nth(usize::try_from(by.line).unwrap() - 1).unwrap();
            let last = reason.rule.rsplit('.').next().unwrap();
            let known = [
                "auto",
                "above_share",
                "destroy",
                "max_replacements",
                "standard",
                "self_service",
                "finance",
                "above_cents",
                "security",
                "residency",
                "isolation",
                "buffer_gpus",
                last,
            ];
            assert!(known.iter().any(|key| line.contains(key)), "{}: {line}", reason.rule);
            named += 1;
        }
    }
    assert!(named >= 8, "{named}");
}

/// A key that the document omits is named at its place in the built-in version.
#[test]
fn a_missing_policy_key_is_named_with_its_place() {
    let small =
        PlatformPolicy::from_yaml("policy: platform\nversion: 7\nlimits: {max_replacements: 1}\n").unwrap();
    let own = on_failure(&Failure::NodeUnfit { replaced: 1 }, &small);
    let under = on_failure(&Failure::ReclaimStale { replans: 1 }, &small);

    assert_eq!(own.answer, Remedy::TakeBack);
    let by = own.reasons[0].by.clone().unwrap();
    assert_eq!((by.version, by.line), (7, 3));
    let by = under.reasons[0].by.clone().unwrap();
    assert_eq!(by.version, 2);
    let line = PlatformPolicy::BUILT_IN.lines().nth(usize::try_from(by.line).unwrap() - 1).unwrap();
    assert!(line.contains("replans: 3"), "{line}");
}

/// I-20, S-66: a recorded decision gets the same answer again, whatever the current policy.
#[test]
fn a_new_version_of_policy_never_changes_an_earlier_decision() {
    let mut books = Books::default();
    let first = PlatformPolicy::amended(&[]).unwrap();
    let second = first
        .replace("version: 3", "version: 4")
        .replace("max_replacements: 3", "max_replacements: 0")
        .replace("auto: {gpus: 2, share: 0.1}", "auto: {gpus: 0, share: 0}")
        .replace("tiers: [research]", "tiers: []")
        .replace(
            "node_release_unsanitised: block\n",
            "node_release_unsanitised: block\n  end_of_tenant_in_use: block\n",
        )
        .replacen("  end_of_tenant_in_use: approve\n", "", 1);
    let small = "{name: lab, tenant: {tier: research, isolation: dedicated, data_residency: any, \
                 allow_preemption: true, allow_gpu_sharing: false}, entitlement: {gpu_model: H100, gpus: 8}}";
    let questions = [
        PolicyQuestion::Onboarding(facts(request(small))),
        PolicyQuestion::Approval(ApprovalFor::QuotaIncrease { from: Gpus(8), to: Gpus(10), free: Gpus(64) }),
        PolicyQuestion::Failure(Failure::NodeUnfit { replaced: 1 }),
        PolicyQuestion::Guard(GuardedAction::EndTenant { running: 2 }),
    ];
    let old = books.decide(|view| publish(view, &first, "ada")).unwrap().reference;
    let policy = books.decide(in_force).unwrap();
    for (n, question) in questions.iter().enumerate() {
        let ruled = RecordedRuling::decide(format!("e-{n}"), question.clone(), &policy, Timestamp(5));
        books
            .decide(|view| {
                view.put(&ruled)?;
                Ok(())
            })
            .unwrap();
    }

    books.decide(|view| publish(view, &second, "bob")).unwrap();

    let (then, now) = (books.decide(|view| version(view, &old)).unwrap(), books.decide(in_force).unwrap());
    assert_eq!((then.reference.version, now.reference.version), (3, 4));
    for n in 0..questions.len() {
        let kept: RecordedRuling =
            books.decide(|view| Ok(view.get::<RecordedRuling>(&format!("e-{n}"))?.unwrap())).unwrap();
        assert_eq!(kept.policy, old);
        assert!(kept.holds_under(&then), "{kept:?}");
        assert!(!kept.holds_under(&now), "the second version decides otherwise: {kept:?}");
    }
    let change: PolicyChange =
        books.decide(|view| Ok(view.get::<PolicyChange>("000000000002")?.unwrap())).unwrap();
    assert_eq!((change.by.as_str(), change.from.version, change.to.version), ("bob", 3, 4));
}

#[test]
fn a_policy_that_fails_its_own_examples_is_not_published() {
    let mut books = Books::default();
    let text = PlatformPolicy::BUILT_IN
        .replace("version: 2", "version: 3")
        .replace("max_gpus: 8\n", "max_gpus: 9\n");

    let refused = books.decide(|view| publish(view, &text, "ada")).unwrap_err();

    assert_eq!(refused.code, "policy.examples_fail");
    assert!(refused.message.contains("one GPU more asks the platform"), "{}", refused.message);
    assert_eq!(books.decide(in_force).unwrap().reference, built_in().reference);
}

/// S-13, S-86, S-87: every excluded cluster is excluded by a constraint with a reason.
#[test]
fn a_pin_leaves_one_cluster_and_both_sets_are_recorded() {
    let policy = amended(&[("pins: []", "pins: [{label: hipaa, cluster: eu-2}]")]);
    let constraints = Constraints {
        tenant: "acme".parse().unwrap(),
        residency: Residency::Within(["eu".parse().unwrap()].into()),
        regions: None,
        cluster: None,
        isolation: Isolation::DedicatedNodes,
        kind: None,
        simulated: None,
        buffer: Gpus::ZERO,
        buffers: BTreeMap::new(),
        drivers: Vec::new(),
        pins: BTreeMap::new(),
        apart: Vec::new(),
    };
    let candidates = ["eu-1", "eu-2"].map(|name| candidate(name, "eu", Tenancy::Shared, 64));
    let us = candidate("us-1", "us", Tenancy::Shared, 64);
    let place = |label: &str| ClusterChoiceFacts {
        constraints: constraints.clone(),
        labels: [label.to_owned()].into(),
        class: Some(WorkspaceClass::Production),
        candidates: candidates.iter().cloned().chain([us.clone()]).collect(),
        classes: BTreeSet::new(),
        neighbours: BTreeMap::new(),
    };

    let pinned = eligible_clusters(&place("hipaa"), &policy);
    let free = eligible_clusters(&place("gdpr"), &policy);

    assert_eq!(pinned.answer.clusters, ["eu-2".parse().unwrap()]);
    assert_eq!(free.answer.clusters.len(), 2);
    let steps = &pinned.answer.considered;
    for pair in steps.windows(2) {
        assert_eq!(pair[0].remaining(), pair[1].before, "the rest of one step is the input of the next");
    }
    let law = steps.iter().find(|step| step.constraint == "data residency").unwrap();
    assert!(law.excluded[&"us-1".parse().unwrap()].contains("outside eu"));
    let pin = steps.iter().find(|step| step.constraint == "pins").unwrap();
    assert!(pin.excluded[&"eu-1".parse().unwrap()].contains("hipaa is pinned"));
    let by = pinned.reasons.iter().find(|r| r.rule == "placement.pins").unwrap().by.clone().unwrap();
    assert_eq!(by.version, policy.reference.version);
    let mut moved = place("hipaa");
    moved.candidates.retain(|candidate| candidate.cluster.as_str() != "eu-2");
    assert!(eligible_clusters(&moved, &policy).failed_rules().any(|reason| reason.rule == "placement.pins"));
}

/// S-13 for a whole tenant: the tag pins its nodes at onboarding.
#[test]
fn a_tenant_with_a_pinned_tag_is_placed_only_in_that_cluster() {
    let policy = amended(&[("pins: []", "pins: [{label: gdpr, cluster: eu-9}]")]);
    let rejected = evaluate(&facts(request(REQUEST)), &policy);
    assert_eq!(rejected.verdict, Verdict::Rejected);
    assert!(rejected.reasons.iter().any(|r| r.rule == "placement.pins" && r.verdict == Judgement::Failed));
    let policy = amended(&[("pins: []", "pins: [{label: gdpr, cluster: eu-1}]")]);
    let terms = evaluate(&facts(request(REQUEST)), &policy).terms.unwrap();
    assert_eq!(terms.constraints.pins["gdpr"].as_str(), "eu-1");
}

/// S-14: with scope `cluster`, two classes are not in the same cluster, whether the other one is another tenant's or the tenant's own.
#[test]
fn a_tenant_is_placed_in_no_cluster_with_a_class_that_is_kept_apart_from_its_own() {
    let apart = |a: &str, b: &str| {
        let pair = format!("[{{region: eu-west, class_a: {a}, class_b: {b}, scope: cluster}}]");
        amended(&[("anti_colocate: []", &format!("anti_colocate: {pair}"))])
    };
    let failed = |facts: &OnboardingFacts, policy: &PlatformPolicy| {
        let rejected = evaluate(facts, policy);
        let of_rule = rejected.reasons.into_iter().find(|r| r.rule == "placement.anti_colocate");
        of_rule.filter(|r| r.verdict == Judgement::Failed).map(|r| r.detail)
    };
    let mut asked = facts(request(REQUEST));
    assert_eq!(failed(&asked, &apart("production", "batch")), None, "no batch runs there");
    for candidate in &mut asked.candidates {
        candidate.classes = [WorkspaceClass::Batch].into();
    }
    let why = failed(&asked, &apart("production", "batch")).unwrap();
    assert!(why.contains("eu-1 runs batch, kept apart from production"), "{why}");
    let own = failed(&facts(request(REQUEST)), &apart("research", "production")).unwrap();
    assert!(own.contains("eu-1 would also run"), "{own}");
}

/// S-14: free capacity does not matter.
#[test]
fn separate_classes_do_not_lend_to_each_other() {
    let pair = "anti_colocate: [{region: eu-west, class_a: production, class_b: research, scope: node}]";
    let policy = amended(&[("anti_colocate: []", pair)]);
    let ask = |region: &str, class| PermissionFacts {
        isolation: Isolation::DedicatedNodes,
        allow_preemption: true,
        allow_gpu_sharing: false,
        multitenancy: None,
        class,
        workload: WorkloadClass::Batch,
        preemptible: true,
        model: "H100".parse().unwrap(),
        count: Ratio::ONE,
        sharing: Sharing::Full,
        already_cut: false,
        borrows: true,
        lender: Some(WorkspaceClass::Production),
        region: region.parse().unwrap(),
    };
    let refused = decide_permission(&ask("eu-west", WorkspaceClass::Research), &policy);
    let rules: Vec<_> = refused.failed_rules().map(|reason| reason.rule.as_str()).collect();
    assert_eq!(rules, ["lending.anti_colocate"]);
    for allowed in [ask("us-west", WorkspaceClass::Research), ask("eu-west", WorkspaceClass::Batch)] {
        assert_eq!(decide_permission(&allowed, &policy).answer, Permission::Allowed);
    }
}

/// S-49: the rejection names the alternative.
#[test]
fn a_fraction_of_a_gpu_is_refused_and_a_profile_is_suggested() {
    let text = REQUEST.replace("gpus: 17", "gpus: 0.5");
    let invalid = OnboardingRequest::from_yaml(&text).unwrap_err().to_string();
    assert!(invalid.contains("profile 4g.40gb"), "{invalid}");
}

/// S-88: correct settings need no change, and every other setting is named.
#[test]
fn every_differing_scheduler_setting_is_named() {
    let limits = QuotaLimits { nominal: Gpus(4), ..QuotaLimits::default() };
    let workspaces: BTreeMap<WorkspaceName, QuotaLimits> = [("a".parse().unwrap(), limits)].into();
    let mut facts = SchedulerFacts {
        tier: Tier::Standard,
        allow_preemption: true,
        multitenancy: None,
        model: "H100".parse().unwrap(),
        slicing: None,
        workspaces,
    };
    let wanted = schedulers(&facts, &built_in()).answer;
    let mut seen = Observed {
        queues: wanted.queues.clone(),
        priority_classes: wanted.priority_classes.clone(),
        slurm_gpus: Some(wanted.slurm_gpus),
    };
    assert_eq!(changes(&wanted, &seen), []);

    let queue = seen.queues.get_mut(&"a".parse().unwrap()).unwrap();
    queue.quota = FlavorQuota { nominal: 9, ..queue.quota.clone() };
    seen.priority_classes.remove(&Tier::Research);
    seen.queues.insert("stray".parse().unwrap(), wanted.queues[&"a".parse().unwrap()].clone());
    let said: Vec<_> = changes(&wanted, &seen).into_iter().map(|c| (c.object, c.field)).collect();
    let expected =
        [("ClusterQueue/a", "quota.nominal"), ("ClusterQueue/stray", ""), ("PriorityClass/research", "")];
    assert_eq!(said, expected.map(|(object, field)| (object.to_owned(), field.to_owned())));
    facts.allow_preemption = false;
    let fixed = schedulers(&facts, &built_in()).answer.queues[&"a".parse().unwrap()].clone();
    assert_eq!((fixed.quota.borrowing_limit, fixed.within_cluster_queue), (Some(0), WithinQueue::Never));
}

/// Policy cannot replace the checks that protect data by an approval.
#[test]
fn data_guards_cannot_be_delegated_to_approvers() {
    for guard in ["mig_change_on_busy_gpu", "node_release_unsanitised", "destroy_under_hold"] {
        let (from, to) = (format!("{guard}: block"), format!("{guard}: approve"));
        let text = PlatformPolicy::amended(&[(&from, &to)]).unwrap();
        let invalid = PlatformPolicy::from_yaml(&text).unwrap_err().to_string();
        assert!(invalid.contains("only `block` is allowed"), "{invalid}");
    }
    let deeds = [
        (GuardedAction::EndTenant { running: 1 }, "approve"),
        (GuardedAction::ChangeMig { busy: 1 }, "block"),
        (GuardedAction::ReleaseNode { assets: 2, passed: 1 }, "block"),
        (GuardedAction::Destroy { holds: vec!["court".into()] }, "block"),
        (
            GuardedAction::Reclaim(ReclaimBreadth {
                asked: Gpus(1),
                victims: Gpus(3),
                tenant: Gpus(64),
                largest: Gpus(1),
                oldest_unsaved: std::time::Duration::ZERO,
            }),
            "approve",
        ),
    ];
    for (deed, mode) in deeds {
        let stopped = blocked(&deed, &built_in()).unwrap_or_else(|| panic!("{deed:?}"));
        assert_eq!(stopped.mode == GuardMode::Block, mode == "block", "{deed:?}");
        assert!(stopped.reason.by.is_some() && !stopped.reason.detail.is_empty());
    }
}

#[test]
fn a_contradictory_policy_is_refused_with_the_place() {
    let cases = [
        ("deadline: 15m", "deadline: 5m", "`reclaim.deadline`: the deadline 5m is shorter than"),
        ("count: 2}", "count: 1}", "`approvals.destroy.seats`: one person can decide about a destruction"),
        (
            "recovered: 0.1",
            "recovered: 0.05",
            "`capacity.recovered`: capacity counts as exhausted below 0.05",
        ),
        ("min_runtime: 0s", "min_runtime: 2d", "`lending.min_runtime`: a loan is protected for 2d"),
        ("sensitive: gpu_reset", "sensitive: none", "`reclaim.scrub.sensitive`: sensitive memory"),
        (
            "pins: []",
            "pins: [{label: a, cluster: c}, {label: a, cluster: d}]",
            "`pins[1]`: a is pinned to both c and d",
        ),
        ("anti_colocate: []", "anti_colocate: [{class_a: dev, class_b: dev}]", "kept apart from itself"),
        ("rebalance, procure, degrade]", "rebalance, rebalance]", "rebalance is listed twice"),
        ("by_tier: {}", "by_tier: {research: {nvme: clear}}", "clear is weaker than the minimum, purge"),
        (
            "{class: backup, min: 0d",
            "{class: backup, min: 40d",
            "backup is kept for at least 40d and at most 35d",
        ),
        (
            "reads: 3, apart: 5s",
            "reads: 3, apart: 2m",
            "3 observations take 4m, but the limit of the step is 2m",
        ),
        ("{at: 0.8, clear: 0.7}", "{at: 0.8, clear: 0.8}", "would notify without end"),
        ("zone: UTC}\n", "zone: Mars/Base}\n", "is not a time zone"),
        ("\"* * * * *\"", "\"61 * * * *\"", "is not a cron expression"),
        ("threshold: 0.05", "threshold: 0.0505050", "up to three decimals"),
    ];
    for (good, bad, expected) in cases {
        let text = PlatformPolicy::amended(&[(good, bad)]).unwrap_or_else(|| panic!("{good}"));
        let said: Vec<_> = check(&text).iter().map(ToString::to_string).collect();
        assert!(
            said.iter().any(|said| said.starts_with("line ") && said.contains(expected)),
            "{bad}: {said:#?}"
        );
    }
}

/// S-69: every kind of rule, each with its line.
#[test]
fn an_explanation_covers_every_kind_of_rule_with_its_place() {
    let rules = explain(&Subject::from_request(request(REQUEST)), &built_in());

    let topics: BTreeSet<_> = rules.iter().map(|rule| rule.topic).collect();
    assert_eq!(topics.len(), 7, "{topics:?}");
    let missing: Vec<_> = rules.iter().filter(|rule| rule.by.is_none()).collect();
    assert!(missing.is_empty(), "{missing:#?}");
    let deadline = rules.iter().find(|rule| rule.rule == "reclaim.deadline").unwrap();
    let by = deadline.by.clone().unwrap();
    let line = PlatformPolicy::BUILT_IN.lines().nth(usize::try_from(by.line).unwrap() - 1).unwrap();
    assert!(line.contains("deadline: 15m"), "{line}");
    let tier = rules.iter().find(|rule| rule.rule == "tenant.tier").unwrap().by.clone().unwrap();
    assert_eq!((tier.document.as_str(), tier.line), ("request", 3));
}
