//! SLA change: a different service level for a tenant in service.

use crate::quota::stage::{Stage, gpu};
use engine::{DAY, HOUR, MINUTE, check};
use serde_json::json;
use store::ExecutionId;
use workflows::{
    policy::PlatformPolicy,
    sla_change::{CONFORMS, SlaChange, SlaDecision, SlaRequest, evaluate, preview},
    tenancy::*,
};

#[test]
fn the_check_finds_no_error_in_sla_change() {
    assert_eq!(check::<SlaChange>(), []);
}

#[tokio::test]
async fn sla_change_survives_every_fault_crash_and_interruption() {
    let report = simulator::verification::sla_change().await.unwrap();

    println!("{report}");
    assert!(report.passed(), "{report}");
}

fn asked(changes: &str) -> SlaRequest {
    let text = format!("tenant: acme\nreason: a new contract\n{changes}\n");
    SlaRequest::from_yaml(&text).unwrap_or_else(|e| panic!("{e}"))
}

async fn begin(stage: &Stage, changes: &str) -> ExecutionId {
    stage.begin(SlaChange::new(asked(changes))).await.unwrap()
}

async fn tenant(stage: &Stage) -> Tenant {
    stage.find("acme").await.unwrap()
}

/// S-93.
#[tokio::test]
async fn an_upgrade_reaches_the_ledger_and_the_platform() {
    let stage = Stage::with_tenant("H100").await;
    let policy = PlatformPolicy::built_in().unwrap();
    let wanted = asked("tier: enterprise\nallow_preemption: false");
    let shown = stage.engine.transact(false, |view| preview(view, &wanted, &policy)).await.unwrap();
    let id = begin(&stage, "tier: enterprise\nallow_preemption: false").await;
    assert_eq!(stage.state(id).await, "AwaitingApproval");
    let case = stage.engine.approval(id).await.unwrap().unwrap();
    assert_eq!((case.digest, case.plan), (shown.digest, shown.plan), "the dry run returns the same");

    stage.approve(id).await;

    assert_eq!(stage.state(id).await, "Effective");
    let tenant = tenant(&stage).await;
    assert_eq!(
        (tenant.tier, tenant.allow_preemption, tenant.policy),
        (Tier::Enterprise, false, policy.reference)
    );
    for workspace in ["research", "production"] {
        let line = stage.quota(workspace).await.allowances[&gpu("H100")];
        assert_eq!(
            line.borrowing_limit,
            Some(0),
            "I-11: a workload that may not be preempted does not borrow"
        );
        let queue = stage.spec(&format!("kubernetes/west-1/ClusterQueue/t-acme--{workspace}"));
        assert_eq!(queue["resourceGroups"][0]["borrowingLimit"], json!(0));
        let hard = stage.spec(&format!("kubernetes/west-1/ResourceQuota/t-acme--{workspace}/tenure"));
        assert_eq!(hard["hard"]["requests.nvidia.com/gpu"], json!(2));
        let labels = &stage.spec(&format!("kubernetes/west-1/Namespace/t-acme--{workspace}"))["labels"];
        assert_eq!((&labels["preemption"], &labels["priority"]), (&json!("never"), &json!("300")));
    }
    let classes: Vec<_> = stage.world().shared().into_keys().collect();
    let class = |name: &str| format!("kubernetes/west-1/PriorityClass/tenure-{name}");
    assert_eq!(classes, [class("enterprise-300"), class("research-100")], "and none is removed");
    let cohort: Cohort = stage.find("acme").await.unwrap();
    assert!(cohort.accounts.values().all(|account| account.admitting == AccountState::Open));
    assert_eq!(stage.world().violations(), Vec::<String>::new());
}

/// Guard of 3.7: refused until the tenant's workloads run only on its own GPUs.
#[tokio::test]
async fn no_preemption_is_promised_only_once_no_workload_runs_on_borrowed_gpus() {
    let stage = Stage::with_tenant("H100").await;
    stage.runs("research", "train-1", 2).await;
    stage.runs("research", "train-2", 1).await;
    assert_eq!(stage.balance().await.borrowed, 1);
    let id = begin(&stage, "allow_preemption: false").await;
    stage.approve(id).await;
    stage.pass(HOUR).await;

    assert_eq!(stage.state(id).await, "AwaitingConformance");
    assert!(tenant(&stage).await.allow_preemption);
    assert_eq!(stage.quota("research").await.allowances[&gpu("H100")].borrowing_limit, Some(1));
    let why =
        stage.engine.journal(id).await.unwrap().into_iter().map(|entry| entry.detail).collect::<Vec<_>>();
    let why = String::from_utf8(why.concat()).unwrap();
    assert!(why.contains("workspace research runs on 1 borrowed GPUs"), "{why}");

    stage.ends("train-2").await;
    stage.engine.signal(id, CONFORMS).await.unwrap();
    stage.engine.run_until_idle().await.unwrap();
    assert_eq!(stage.state(id).await, "Effective");
    assert!(!tenant(&stage).await.allow_preemption);
}

#[tokio::test]
async fn a_change_waits_for_the_maintenance_window_of_the_tenant() {
    let stage = Stage::with_tenant("H100").await;
    let id = begin(&stage, "tier: standard\nnot_before: 2026-01-11T00:00:00Z").await;
    stage.approve(id).await;

    stage.pass(9 * DAY).await;
    assert_eq!(stage.state(id).await, "AwaitingWindow");
    assert_eq!(tenant(&stage).await.tier, Tier::Research);

    stage.pass(2 * DAY).await;
    assert_eq!((stage.state(id).await.as_str(), tenant(&stage).await.tier), ("Effective", Tier::Standard));
}

/// S-22: never a mere edit of a field.
#[tokio::test]
async fn a_lower_level_needs_approval_and_nodes_are_partitioned_while_they_are_idle() {
    let stage = Stage::with_tenant("H100").await;
    stage.runs("research", "train-1", 1).await;
    let id = begin(&stage, "isolation: shared_slices\nallow_gpu_sharing: true").await;
    stage.approve(id).await;
    assert_eq!(stage.state(id).await, "AwaitingConformance", "a GPU is in use");

    stage.ends("train-1").await;
    stage.engine.signal(id, CONFORMS).await.unwrap();
    for _ in 0..10 {
        stage.pass(MINUTE).await;
    }

    assert_eq!(stage.state(id).await, "Effective");
    assert_eq!(tenant(&stage).await.isolation, Isolation::SharedSlices);
    let layouts: Vec<_> =
        stage.world().snapshot().into_iter().filter(|(at, _)| at.contains("/Layout/")).collect();
    assert_eq!(layouts.len(), 1, "{layouts:?}");
    assert_eq!(layouts[0].1["hardware"], json!("all-1g.10gb"));
}

#[tokio::test]
async fn an_impossible_service_level_is_rejected_by_the_rule_that_forbids_it() {
    let stage = Stage::with_tenant("H100").await;
    for (changes, rule) in [
        ("tier: research", "sla.changes"),
        ("isolation: dedicated_cluster", "sla.same_cluster"),
        ("isolation: shared_slices", "isolation.sharing_allowed"),
    ] {
        let id = begin(&stage, changes).await;

        assert_eq!(stage.state(id).await, "Rejected", "{changes}");
        let body = stage.engine.execution(id).await.unwrap().1.body;
        let reasons = body["data"]["reasons"].as_array().unwrap();
        assert!(
            reasons.iter().any(|r| r["rule"] == rule && r["verdict"] == "failed"),
            "{changes}: {reasons:?}"
        );
    }
    let policy = PlatformPolicy::built_in().unwrap();
    for decision in stage.all::<SlaDecision>().await {
        let again = evaluate(&decision.facts, &policy);
        assert_eq!((again.verdict, again.reasons), (decision.verdict, decision.reasons), "I-20");
        assert_eq!(decision.facts.digest(), decision.facts_digest);
    }
}

#[test]
fn a_request_with_errors_reports_each_at_its_place() {
    let invalid = SlaRequest::from_yaml("tenant: acme\ntier: gold\nallow_preemption: maybe\n").unwrap_err();

    let said = invalid.to_string();
    for wanted in [
        "line 2, column 7: `tier`",
        "line 3, column 19: `allow_preemption`",
        "`reason`: the field is missing",
    ] {
        assert!(said.contains(wanted), "{wanted} is not in {said}");
    }
}

/// I-15.
#[tokio::test]
async fn a_tenant_has_one_open_change_of_its_service_level() {
    let stage = Stage::with_tenant("H100").await;
    let first = begin(&stage, "tier: standard").await;

    let second = stage.begin(SlaChange::new(asked("tier: enterprise"))).await;

    match second {
        Err(engine::Error::Store(store::Error::Busy { holder, .. })) => assert_eq!(holder, first),
        other => panic!("{other:?}"),
    }
}
