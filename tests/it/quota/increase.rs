//! Quota increase, from request to a limit in force, and undone from every state.

use super::stage::{BEGIN, Stage, gpu, request};
use engine::{DAY, Error, check};
use serde_json::json;
use workflows::{
    onboarding::CAPACITY_FREED,
    policy::{Judgement, PlatformPolicy, Sweep, Verdict},
    quota_change::{
        QuotaDecision, QuotaRequest, evaluate,
        increase::{QuotaIncrease, preview},
    },
    tenancy::*,
};

#[test]
fn the_check_finds_no_error_in_quota_increase() {
    assert_eq!(check::<QuotaIncrease>(), []);
}

#[tokio::test]
async fn quota_increase_survives_every_fault_crash_and_interruption() {
    let report = simulator::verification::quota_increase().await.unwrap();

    println!("{report}");
    assert!(report.passed(), "{report}");
}

/// S-26, S-48: one source determines the value of every layer, and each value is read back.
#[tokio::test]
async fn a_small_increase_needs_no_approval_and_reaches_every_layer() {
    let stage = Stage::with_tenant("H100").await;

    let id = stage.increase("by: 2").await;

    assert_eq!(stage.state(id).await, "Effective");
    let quota = stage.quota("research").await;
    assert_eq!(quota.allowances[&gpu("H100")].nominal, 4);
    let cohort: Cohort = stage.find("acme").await.unwrap();
    let account = &cohort.accounts[&quota.workspace];
    assert_eq!(account.balances[&gpu("H100")].allowance, quota.allowances[&gpu("H100")]);
    let cohort = stage.spec("kubernetes/west-1/Cohort/t-acme");
    assert_eq!(cohort["quotas"], json!({ "research/gpu/H100": 4, "production/gpu/H100": 2 }));
    let queue = stage.spec("kubernetes/west-1/ClusterQueue/t-acme--research");
    assert_eq!(queue["resourceGroups"][0]["nominalQuota"], json!(4));
    assert_eq!(queue["stopPolicy"], json!("None"), "only the quota was changed");
    let hard = stage.spec("kubernetes/west-1/ResourceQuota/t-acme--research/tenure");
    assert_eq!(hard["hard"]["requests.nvidia.com/gpu"], json!(5), "with the borrowing limit added");
    assert_eq!(stage.all::<Earmarks>().await, [], "no earmark remains");
    assert_eq!(stage.world().violations(), Vec::<String>::new());
    let body = stage.engine.execution(id).await.unwrap().1.body;
    assert_eq!(
        body["authorisation"]["by"]["waiver"]["name"],
        json!("platform/approval.auto_limit"),
        "{body}"
    );
}

/// S-122: the container limit always equals the size of the workspace.
#[tokio::test]
async fn the_largest_container_grows_and_shrinks_with_the_workspace() {
    let stage = Stage::with_tenant("H100").await;
    let largest = || stage.spec("kubernetes/west-1/LimitRange/t-acme--research/tenure")["max"].clone();
    assert_eq!(largest(), json!({ "memory": 64u64 << 30 }));

    let id = stage.increase("resource: memory_mib\nby: 4096").await;
    assert_eq!(stage.state(id).await, "Effective");
    assert_eq!(largest(), json!({ "memory": 68u64 << 30 }));

    let id = stage.decrease("resource: memory_mib\nby: 36864").await;
    assert_eq!(stage.state(id).await, "Effective");
    assert_eq!(largest(), json!({ "memory": 32u64 << 30 }));
    assert_eq!(stage.world().violations(), Vec::<String>::new());
}

/// S-26: on Slurm the association has the limit.
#[tokio::test]
async fn an_increase_raises_the_slurm_association() {
    let stage = Stage::with_tenant("A100").await;

    let id = stage.increase("resource: gpu/A100\nby: 2").await;

    assert_eq!(stage.state(id).await, "Effective");
    let account = stage.spec("slurm/slurm-1/Account/t-acme");
    assert_eq!(account["associations"]["research"], json!({ "gres/gpu:a100": 5, "jobs": 100, "mem": 65536 }));
}

#[tokio::test]
async fn resources_other_than_gpus_are_raised_only_in_the_namespace() {
    let stage = Stage::with_tenant("H100").await;

    let id = stage.increase("resource: pods\nby: 10").await;

    assert_eq!(stage.state(id).await, "Effective", "a tenth more needs no approval");
    let hard = stage.spec("kubernetes/west-1/ResourceQuota/t-acme--research/tenure");
    assert_eq!((&hard["hard"]["pods"], &hard["hard"]["requests.nvidia.com/gpu"]), (&json!(110), &json!(3)));
}

#[tokio::test]
async fn an_increase_above_the_automatic_limit_is_approved_by_owner_and_operations() {
    let stage = Stage::with_tenant("H100").await;
    let asked = request("by: 3");
    let policy = PlatformPolicy::built_in().unwrap();
    let shown = stage.engine.transact(false, |view| preview(view, &asked, &policy)).await.unwrap();

    let id = stage.increase("by: 3").await;

    assert_eq!(stage.state(id).await, "AwaitingApproval");
    let case = stage.engine.approval(id).await.unwrap().unwrap();
    let seats: Vec<_> = case.seats.iter().map(|seat| seat.any_of[0].as_str()).collect();
    assert_eq!(seats, ["tenant_owner", "platform_ops"]);
    assert_eq!(case.plan.title, "raise gpu/H100 of acme/research from 2 to 5");
    assert_eq!((shown.digest, shown.plan), (case.digest.clone(), case.plan), "the dry run returns the same");
    stage.approve(id).await;
    assert_eq!(stage.state(id).await, "Effective");
    assert_eq!(
        stage.engine.execution(id).await.unwrap().1.digest,
        case.digest,
        "the approved plan was executed"
    );
}

/// S-61: more than the entitlement is an exception with an end, and needs finance's approval; nodes are claimed for the
/// rest.
#[tokio::test]
async fn an_increase_above_the_bought_amount_needs_an_exception_with_an_end() {
    let stage = Stage::with_tenant("H100").await;
    let plain = stage.increase("by: 12").await;
    assert_eq!(stage.state(plain).await, "Rejected");

    let id = stage.increase("by: 12\nexception: true\nuntil: 2026-02-01T00:00:00Z").await;

    let case = stage.engine.approval(id).await.unwrap().unwrap();
    let seats: Vec<_> = case.seats.iter().map(|seat| seat.any_of[0].as_str()).collect();
    assert_eq!(
        seats,
        ["tenant_owner", "platform_ops", "capacity_manager", "finance"],
        "a third of the free GPUs"
    );
    assert_eq!(case.plan.placement["lacking"], json!(8));
    stage.approve(id).await;
    assert_eq!(stage.state(id).await, "Effective");
    let holding: NodeAllocation = stage.find("acme").await.unwrap();
    assert_eq!((holding.nodes.len(), holding.owned()), (2, Gpus(16)));
    for node in holding.nodes.keys() {
        let node: Node = stage.find(node.as_str()).await.unwrap();
        assert_eq!(node.state, NodeState::InService);
        let outside = &stage.world().owners()[&format!("west-1/{}", node.id)];
        assert_eq!(outside.tenant.as_deref(), Some("acme"));
    }
    let hard = stage.spec("kubernetes/west-1/ResourceQuota/t-acme--research/tenure");
    assert_eq!(hard["hard"]["requests.nvidia.com/gpu"], json!(14), "no borrowing beyond the entitlement");
}

#[tokio::test]
async fn a_temporary_increase_ends_by_itself() {
    let stage = Stage::with_tenant("H100").await;
    let before = stage.quota("research").await;
    let id = stage.increase("by: 1\nuntil: 2026-02-01T00:00:00Z").await;
    assert_eq!(stage.state(id).await, "Effective", "no execution stays open for it");
    let raised = stage.quota("research").await;
    assert_eq!(QuotaRequest::due_decreases(&raised, BEGIN), [], "not yet");
    let other = stage.increase("resource: pods\nby: 1\nuntil: 2026-03-01T00:00:00Z").await;
    assert_eq!(stage.state(other).await, "Rejected", "a workspace has one end at a time");

    stage.pass(31 * DAY).await;
    let swept = workflows::sweeps::run(&stage.engine, Sweep::QuotaExpiry, None, "olga").await.unwrap();
    assert_eq!(swept.started, ["decrease of quota/acme/research/gpu/H100"]);
    stage.engine.run_until_idle().await.unwrap();
    let after = stage.quota("research").await;
    assert_eq!((after.allowances, after.ends), (before.allowances, None), "the approval included the end");
    let again = workflows::sweeps::run(&stage.engine, Sweep::QuotaExpiry, None, "olga").await.unwrap();
    assert_eq!(again.started, Vec::<String>::new());
    let queue = stage.spec("kubernetes/west-1/ClusterQueue/t-acme--research");
    assert_eq!(queue["resourceGroups"][0]["nominalQuota"], json!(2));
}

/// I-15, for quotas: a change locks its workspace and resource, and no other.
#[tokio::test]
async fn a_second_open_change_of_one_quota_is_refused_and_the_first_is_named() {
    let stage = Stage::with_tenant("H100").await;
    let first = stage.increase("by: 3").await;

    let second = stage.begin(workflows::quota_change::decrease::QuotaDecrease::new(request("to: 1"))).await;

    match second {
        Err(Error::Store(store::Error::Busy { guard, holder })) => {
            assert_eq!((guard.as_str(), holder), ("quota/acme/research/gpu/H100", first));
        }
        other => panic!("{other:?}"),
    }
    let other = stage.increase("workspace: production\nby: 3").await;
    assert_eq!(stage.state(other).await, "AwaitingApproval");
}

/// S-27, I-5: approved is not available. An approved change is checked again when its GPUs are earmarked.
#[tokio::test]
async fn of_two_increases_that_together_exceed_the_bought_amount_exactly_one_succeeds() {
    let stage = Stage::with_tenant("H100").await;
    let first = stage.increase("by: 3").await;
    let second = stage.increase("workspace: production\nby: 3").await;

    stage.approve(second).await;
    stage.approve(first).await;

    assert_eq!(stage.state(second).await, "Effective");
    let record = stage.engine.record(first).await.unwrap();
    assert_eq!((record.phase.as_str(), record.reason.as_deref()), ("finished", Some("rolled_back")));
    let journal = format!("{:?}", stage.engine.journal(first).await.unwrap());
    let sum: u64 =
        stage.all::<Quota>().await.iter().map(|quota| quota.allowances[&gpu("H100")].nominal).sum();
    assert_eq!(sum, 7, "of the 8 bought");
    assert!(!journal.is_empty());
    assert_eq!(stage.all::<Earmarks>().await, []);
}

#[tokio::test]
async fn an_increase_without_a_free_node_waits_and_continues() {
    let stage = Stage::with_tenant("H100").await;
    for name in ["beta", "gamma", "delta"] {
        let text = format!(
            "name: {name}\ntenant: {{tier: research, isolation: dedicated, data_residency: eu-only, \
             allow_preemption: true, allow_gpu_sharing: false}}\nentitlement: {{gpu_model: H100, gpus: 8}}\n"
        );
        let text = workflows::policy::OnboardingRequest::from_yaml(&text).unwrap();
        stage.begin(workflows::onboarding::Onboarding::new(text, None)).await.unwrap();
    }
    let id = stage.increase("by: 12\nexception: true\nuntil: 2026-02-01T00:00:00Z").await;
    stage.approve(id).await;
    assert_eq!(stage.state(id).await, "WaitingForCapacity");

    let rows = format!("sn,cpu_milli,memory_mib,gpu,model\n{}", tests::books::rows("x", 1, 8, "H100"));
    let rows = workflows::fleet::parse_nodes(&rows).unwrap();
    let (cluster, region) = ("west-1".parse().unwrap(), "eu-west".parse().unwrap());
    let import = |view: &mut engine::View| workflows::fleet::import_nodes(view, &rows, &cluster, &region);
    stage.engine.transact(true, import).await.unwrap();
    let model = "H100".parse().unwrap();
    let woken = stage.engine.transact(false, |view| workflows::ledger::waiting(view, &region, &model)).await;
    assert_eq!(woken.unwrap(), Some(id));
    stage.engine.signal(id, CAPACITY_FREED).await.unwrap();
    stage.engine.run_until_idle().await.unwrap();

    assert_eq!(stage.state(id).await, "Effective");
    assert!(stage.all::<Waitlist>().await.iter().all(|list| list.waiters.is_empty()));
}

/// Each rule can be the reason for the rejection.
#[tokio::test]
async fn an_impossible_request_is_rejected_by_the_rule_that_forbids_it() {
    let stage = Stage::with_tenant("H100").await;
    for (asks, rule, line) in [
        ("workspace: nowhere\nby: 1", "workspace.known", Some(4)),
        ("resource: cpu_milli\nby: 1", "quota.resource", Some(4)),
        ("resource: gpu/A100\nby: 1", "quota.resource", Some(4)),
        ("to: 2", "quota.raises", Some(5)),
        ("by: 1\nlending_limit: 4", "quota.lends_its_own", Some(6)),
        ("by: 1\nuntil: 2025-12-31T00:00:00Z", "quota.ends_later", Some(6)),
        ("by: 7", "quota.within_entitlement", None),
        ("by: 400\nexception: true\nuntil: 2026-02-01T00:00:00Z", "capacity.ever_fits", None),
    ] {
        let id = stage.increase(asks).await;

        assert_eq!(stage.state(id).await, "Rejected", "{asks}");
        let body = stage.engine.execution(id).await.unwrap().1.body;
        let reasons = body["data"]["reasons"].as_array().unwrap();
        let named = reasons.iter().find(|reason| reason["rule"] == rule && reason["verdict"] == "failed");
        let named = named.unwrap_or_else(|| panic!("{asks}: no {rule} in {reasons:?}"));
        assert_eq!(named["line"].as_u64(), line, "{asks}");
    }
    let nobody = QuotaRequest { tenant: "nobody".parse().unwrap(), ..request("by: 1") };
    let id = stage.begin(QuotaIncrease::new(nobody)).await.unwrap();
    assert_eq!(stage.state(id).await, "Rejected");
}

/// I-20.
#[tokio::test]
async fn a_quota_decision_can_be_repeated_from_its_record() {
    let stage = Stage::with_tenant("H100").await;
    for asks in ["by: 1", "by: 400", "by: 3"] {
        stage.increase(asks).await;
    }
    let policy = PlatformPolicy::built_in().unwrap();

    let decisions = stage.all::<QuotaDecision>().await;

    assert_eq!(decisions.len(), 3);
    let mut verdicts = Vec::new();
    for decision in decisions {
        let again = evaluate(&decision.facts, &policy);
        assert_eq!((again.verdict, &again.reasons), (decision.verdict, &decision.reasons));
        assert_eq!(decision.facts.digest(), decision.facts_digest);
        assert_eq!(decision.policy, policy.reference);
        assert!(again.reasons.iter().all(|r| r.verdict != Judgement::Failed) || again.terms.is_none());
        verdicts.push(again.verdict);
    }
    for verdict in [Verdict::Rejected, Verdict::SelfService, Verdict::NeedsApproval] {
        assert!(verdicts.contains(&verdict), "{verdict:?}");
    }
}
