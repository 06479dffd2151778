//! Guards of policy for a leaving tenant, and holds on a part of it.

use super::stage::Stage;
use std::collections::BTreeMap;
use store::Timestamp;
use workflows::{
    destruction::{HoldKind, HoldScope, PlaceHold},
    policy::publish,
    tenancy::{Checkpoint, RunningEntry, RunningList, Tenant, TenantState, WorkloadClass, WorkspaceName},
};

/// A tenant whose first workspace runs a workload, under this policy.
async fn in_use(policy: &str) -> Stage {
    let stage = Stage::kubernetes(|_| {}).await;
    let workspace = workspace(&stage).await;
    let running = RunningEntry {
        class: WorkloadClass::Service,
        priority: 0,
        preemptible: false,
        checkpoint: Checkpoint::None,
        requests: BTreeMap::new(),
        submitted_at: Timestamp(0),
        admitted_at: Timestamp(0),
        reclaimed: false,
    };
    let list = RunningList {
        tenant: stage.tenant.clone(),
        workspace,
        part: 0,
        running: BTreeMap::from([("serving".to_owned(), running)]),
    };
    let put = |view: &mut engine::View| {
        publish(view, policy, "ada")?;
        view.put(&list)
    };
    stage.engine.transact(true, put).await.unwrap();
    stage
}

async fn workspace(stage: &Stage) -> WorkspaceName {
    let tenants: Vec<Tenant> = stage.all().await;
    tenants[0].workspaces[0].clone()
}

/// S-90.
#[tokio::test]
async fn a_tenant_with_running_workloads_is_not_offboarded_if_policy_blocks_it() {
    let policy =
        |mode: &str| format!("policy: platform\nversion: 3\nguards: {{end_of_tenant_in_use: {mode}}}\n");

    let blocked = in_use(&policy("block")).await;
    assert_eq!(blocked.to_rest().await, ("Rejected".into(), "finished".into()));
    let why = blocked.engine.execution(blocked.id).await.unwrap().1.body["last_failure"].to_string();
    assert!(why.contains("tenant.in_use") && why.contains("workloads still run"), "{why}");
    let tenants: Vec<Tenant> = blocked.all().await;
    assert_eq!(tenants[0].state, TenantState::Active);

    let asked = in_use(&policy("approve")).await;
    assert_eq!(asked.until("AwaitingApproval").await.0, "AwaitingApproval");
}

/// I-13: a hold on one workspace prevents the start of an offboarding, or only the destruction.
#[tokio::test]
async fn a_partial_hold_blocks_destruction_even_if_policy_lets_the_offboarding_begin() {
    for (partial_ok, waits_in) in [(false, "Held"), (true, "HeldAtPivot")] {
        let stage = Stage::kubernetes(|_| {}).await;
        let policy = format!("policy: platform\nversion: 3\noffboarding: {{partial_ok: {partial_ok}}}\n");
        let hold = PlaceHold {
            tenant: stage.tenant.clone(),
            id: "case-9".into(),
            kind: HoldKind::Legal,
            scope: HoldScope::Workspace(workspace(&stage).await),
            reason: "litigation".into(),
            placed_by: "lena".into(),
            review_at: None,
            placed_from: None,
        };
        stage.engine.transact(true, |view| publish(view, &policy, "ada")).await.unwrap();
        stage.engine.transact(true, |view| hold.place(view)).await.unwrap().unwrap();

        assert_eq!(stage.until(waits_in).await.0, waits_in, "partial_ok: {partial_ok}");
    }
}

/// The certificate names its retention date.
#[tokio::test]
async fn a_certificate_is_kept_for_the_time_in_policy() {
    let stage = Stage::slurm(|_| {}).await;
    let policy = "policy: platform\nversion: 3\noffboarding: {certificate_kept: 10d}\n";
    stage.engine.transact(true, |view| publish(view, policy, "ada")).await.unwrap();

    stage.to_rest().await;

    let certificate = stage.certificate().await;
    assert_eq!(certificate.kept_until.unwrap(), certificate.issued_at.after_days(10));
}
