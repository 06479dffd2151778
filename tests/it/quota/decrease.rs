//! Quota decrease, from request to a limit in force, and undone from every state.

use super::stage::{BEGIN, Stage, gpu, request};
use engine::{DAY, HOUR, MINUTE, check};
use serde_json::json;
use workflows::{
    quota_change::{
        QuotaRequest,
        decrease::{QuotaDecrease, USE_FELL, preview},
    },
    tenancy::*,
};

#[test]
fn the_check_finds_no_error_in_quota_decrease() {
    assert_eq!(check::<QuotaDecrease>(), []);
}

#[tokio::test]
async fn quota_decrease_survives_every_fault_crash_and_interruption() {
    let report = simulator::verification::quota_decrease().await.unwrap();

    println!("{report}");
    assert!(report.passed(), "{report}");
}

async fn nominal(stage: &Stage) -> u64 {
    stage.quota("research").await.allowances[&gpu("H100")].nominal
}

#[tokio::test]
async fn unused_quota_is_taken_without_approval() {
    let stage = Stage::with_tenant("H100").await;

    let id = stage.decrease("to: 1").await;

    assert_eq!(stage.state(id).await, "Effective");
    let line = stage.quota("research").await.allowances[&gpu("H100")];
    assert_eq!((line.nominal, line.lending_limit), (1, Some(1)));
    let cohort = stage.spec("kubernetes/west-1/Cohort/t-acme");
    assert_eq!(cohort["quotas"]["research/gpu/H100"], json!(1));
    let queue = stage.spec("kubernetes/west-1/ClusterQueue/t-acme--research");
    assert_eq!(queue["resourceGroups"][0]["nominalQuota"], json!(1));
    let hard = stage.spec("kubernetes/west-1/ResourceQuota/t-acme--research/tenure");
    assert_eq!(hard["hard"]["requests.nvidia.com/gpu"], json!(2));
    assert_eq!(stage.all::<Earmarks>().await, []);
}

/// I-7: while its use exceeds the new quota, the workspace is over its limit, and this is visible.
#[tokio::test]
async fn a_decrease_below_the_usage_waits_until_the_usage_has_fallen() {
    let stage = Stage::with_tenant("H100").await;
    stage.runs("research", "train-1", 1).await;
    stage.runs("research", "train-2", 1).await;
    let policy = workflows::policy::PlatformPolicy::built_in().unwrap();
    let asked = request("to: 1\nborrowing_limit: 0");
    let shown = stage.engine.transact(false, |view| preview(view, &asked, &policy)).await.unwrap();
    assert_eq!(shown.excess, 1);
    let id = stage.decrease("to: 1\nborrowing_limit: 0").await;
    assert_eq!(stage.state(id).await, "AwaitingApproval");
    assert_eq!(stage.engine.approval(id).await.unwrap().unwrap().digest, shown.digest);

    stage.approve(id).await;
    stage.pass(HOUR).await;

    assert_eq!(stage.state(id).await, "DrainingExcess");
    let balance = stage.balance().await;
    assert_eq!((nominal(&stage).await, balance.used, balance.allowance.borrowing_limit), (1, 2, Some(0)));
    let plan = stage.engine.execution(id).await.unwrap().1.plan;
    assert_eq!(plan.placement["excess"], json!(1), "the approvers see the excess");
    let queue = stage.spec("kubernetes/west-1/ClusterQueue/t-acme--research");
    assert_eq!(queue["resourceGroups"][0]["nominalQuota"], json!(2), "the platform follows at the end");
    let marks: Earmarks = stage.find("acme").await.unwrap();
    assert_eq!(marks.total(&gpu("H100")), 1, "I-5: no other workspace gets it");

    stage.ends("train-1").await;
    stage.engine.signal(id, USE_FELL).await.unwrap();
    stage.engine.run_until_idle().await.unwrap();

    assert_eq!(stage.state(id).await, "Effective");
    let queue = stage.spec("kubernetes/west-1/ClusterQueue/t-acme--research");
    assert_eq!(queue["resourceGroups"][0]["nominalQuota"], json!(1));
}

/// Once research has one less, the tenant's entitlement equals its quotas, so there is no pool to lend.
async fn all_promised() -> Stage {
    let stage = Stage::with_tenant("H100").await;
    let buy = |view: &mut engine::View| {
        let bought = view.require::<Entitlement>("acme")?;
        view.put(&Entitlement { gpus: Gpus(3), ..bought })
    };
    stage.engine.transact(true, buy).await.unwrap();
    stage
}

#[tokio::test]
async fn usage_covered_by_unassigned_quota_becomes_a_loan_and_not_an_excess() {
    let stage = Stage::with_tenant("H100").await;
    stage.runs("research", "train-1", 2).await;
    let id = stage.decrease("to: 1").await;

    stage.approve(id).await;

    assert_eq!((stage.state(id).await.as_str(), stage.balance().await.over_quota()), ("Effective", 0));
    let loans = stage.all::<Loan>().await;
    assert_eq!((loans.len(), loans[0].lender.as_str(), loans[0].amount), (1, Lender::POOL, 1));
}

/// A borrowing or lending limit can be raised or lowered separately, in either direction; approval is needed.
#[tokio::test]
async fn borrowing_and_lending_limits_can_be_changed_separately() {
    let stage = Stage::with_tenant("H100").await;
    for (asks, down, expected) in [
        ("to: 2\nborrowing_limit: 0", true, (Some(0), Some(1))),
        ("to: 2\nborrowing_limit: 4", true, (Some(4), Some(1))),
        ("to: 2\nborrowing_limit: 1\nlending_limit: 0", false, (Some(1), Some(0))),
        ("by: 0\nlending_limit: 2", false, (Some(1), Some(2))),
        ("by: 0\nlending_limit: 1", true, (Some(1), Some(1))),
    ] {
        let id = if down { stage.decrease(asks).await } else { stage.increase(asks).await };
        assert_eq!(stage.state(id).await, "AwaitingApproval", "{asks}");
        stage.approve(id).await;
        assert_eq!(stage.state(id).await, "Effective", "{asks}");
        let line = stage.quota("research").await.allowances[&gpu("H100")];
        assert_eq!(
            (line.nominal, line.borrowing_limit, line.lending_limit),
            (2, expected.0, expected.1),
            "{asks}"
        );
        assert_eq!(stage.balance().await.allowance, line, "the account has the same value");
        assert_eq!(stage.all::<Earmarks>().await, []);
    }
    for id in [stage.decrease("to: 2").await, stage.increase("to: 2\nborrowing_limit: 1").await] {
        assert_eq!(stage.state(id).await, "Rejected", "nothing would change");
    }
}

/// I-8: use beyond the quota becomes a loan if another workspace lends it.
#[tokio::test]
async fn quota_that_another_workspace_lends_becomes_a_loan_and_not_an_excess() {
    let stage = all_promised().await;
    stage.runs("research", "train-1", 2).await;
    let id = stage.decrease("to: 1").await;

    stage.approve(id).await;

    assert_eq!(stage.state(id).await, "Effective");
    let balance = stage.balance().await;
    assert_eq!((balance.used, balance.borrowed, balance.over_quota()), (2, 1, 0));
    let loans = stage.all::<Loan>().await;
    assert_eq!((loans.len(), loans[0].lender.as_str(), loans[0].amount), (1, "production", 1));
}

#[tokio::test]
async fn a_decrease_that_waits_too_long_needs_an_approval_and_is_undone_on_refusal() {
    let stage = all_promised().await;
    stage.runs("production", "serve-1", 2).await;
    stage.runs("research", "train-1", 2).await;
    let id = stage.decrease("to: 1").await;
    stage.approve(id).await;
    assert_eq!(
        stage.balance().await.over_quota(),
        1,
        "not lendable: the workspace exceeds its limit and admits no workload"
    );

    for _ in 0..31 * 24 {
        stage.pass(HOUR).await;
    }
    assert_eq!(stage.state(id).await, "AwaitingPatience");
    let digest = stage.engine.approval(id).await.unwrap().unwrap().digest;
    let owner = engine::Person::new("owner", ["tenant_owner"]);
    stage.engine.vote(id, &owner, engine::Verdict::Refuse, &digest, "we need it").await.unwrap();
    stage.engine.run_until_idle().await.unwrap();

    assert_eq!(stage.state(id).await, "Declined");
    assert_eq!((nominal(&stage).await, stage.balance().await.over_quota()), (2, 0));
    assert_eq!(stage.all::<Earmarks>().await, []);
}

#[tokio::test]
async fn reserved_quota_is_not_taken() {
    let stage = Stage::with_tenant("H100").await;
    let put = |view: &mut engine::View| {
        let mut cohort = view.require::<Cohort>("acme")?;
        let account = cohort.accounts.get_mut(&"research".parse().unwrap()).unwrap();
        let (reclaim_deadline, grace) = (15 * MINUTE, 2 * MINUTE);
        let resource = gpu("H100");
        let promise =
            AccountReservation { resource, count: 2, from: BEGIN, to: None, reclaim_deadline, grace };
        account.promises.insert("always".into(), promise);
        view.put(&cohort)
    };
    stage.engine.transact(true, put).await.unwrap();

    let id = stage.decrease("to: 1").await;

    assert_eq!(stage.state(id).await, "Rejected");
    let body = stage.engine.execution(id).await.unwrap().1.body;
    assert_eq!(body["data"]["reasons"][0]["rule"], json!("quota.covers_reservations"));
}

/// Only the sweep's own request is reverted without approval, and only to the agreed end value.
#[tokio::test]
async fn an_unapproved_end_is_rejected() {
    let stage = Stage::with_tenant("H100").await;
    let id = stage.increase("by: 2\nuntil: 2026-02-01T00:00:00Z").await;
    assert_eq!(stage.state(id).await, "Effective");
    let early = QuotaRequest { ended: true, ..request("to: 2") };
    let early = stage.begin(QuotaDecrease::new(early)).await.unwrap();
    assert_eq!(stage.state(early).await, "Rejected");
    stage.pass(31 * DAY).await;

    let lower = QuotaRequest { ended: true, ..request("to: 1") };
    let lower = stage.begin(QuotaDecrease::new(lower)).await.unwrap();

    assert_eq!(stage.state(lower).await, "Rejected");
}
