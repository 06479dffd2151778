//! The account of a leaving tenant: frozen, ended, and closed.

use super::stage::Stage;
use engine::{Attribution, Error, Event};
use std::collections::BTreeSet;
use store::ExecutionId;
use workflows::{
    offboarding::preview,
    scheduling::admission::{self, MAX_ENDED_PER_COMMIT, SubmitOutcome, WorkloadRequest},
    tenancy::{
        AccountState, AdmissionVerdict, Checkpoint, Cohort, GpuKind, Loan, LoanState, MonthlyUsage, NodeUse,
        Occupancy, OpenLoans, Resource, RunningList, Tenant, TenantState, Workload, WorkloadClass,
        WorkloadState, WorkspaceQueue,
    },
};

async fn ask(stage: &Stage, name: &str) -> Result<SubmitOutcome, Error> {
    let kind = GpuKind { model: "H100".parse().unwrap(), profile: None };
    let request = WorkloadRequest {
        tenant: stage.tenant.clone(),
        workspace: "prod".parse().unwrap(),
        name: name.into(),
        class: WorkloadClass::Batch,
        priority: 0,
        preemptible: true,
        checkpoint: Checkpoint::None,
        requests: [(Resource::Gpu(kind), 1)].into(),
        together: 0,
        labels: BTreeSet::new(),
    };
    stage.engine.transact(true, |view| admission::submit(view, &request)).await
}

async fn states(stage: &Stage) -> Vec<WorkloadState> {
    stage.all::<Workload>().await.into_iter().map(|workload| workload.state).collect()
}

#[tokio::test]
async fn a_closed_tenant_has_no_workloads_and_nodes_and_keeps_its_history() {
    let stage = Stage::kubernetes(|_| {}).await;
    for number in 0..2 * MAX_ENDED_PER_COMMIT {
        ask(&stage, &format!("more-{number:02}")).await.unwrap();
    }
    let waiting = states(&stage).await.into_iter().filter(|state| *state == WorkloadState::Waiting).count();
    assert!(waiting > MAX_ENDED_PER_COMMIT, "{waiting} wait");

    assert_eq!(stage.until("AwaitingDestruction").await.0, "AwaitingDestruction");
    assert!(states(&stage).await.iter().all(|state| *state == WorkloadState::Finished));
    assert!(stage.all::<Loan>().await.iter().all(|loan| loan.state == LoanState::Returned));
    assert_eq!(stage.to_rest().await, ("Closed".into(), "finished".into()), "{}", stage.trouble().await);

    assert_eq!(stage.all::<Cohort>().await, []);
    assert_eq!(stage.all::<Occupancy>().await, []);
    assert_eq!(stage.all::<NodeUse>().await, [], "the next owner of the nodes finds no workload on them");
    assert_eq!(stage.all::<OpenLoans>().await, []);
    assert_eq!(stage.all::<WorkspaceQueue>().await, []);
    assert_eq!(stage.all::<RunningList>().await, []);
    assert_eq!(
        stage.all::<Workload>().await.len(),
        3 * MAX_ENDED_PER_COMMIT + 1,
        "ended workloads stay in the record"
    );
    let usages: Vec<MonthlyUsage> = stage.all().await;
    assert!(
        usages.iter().any(|usage| usage.spent.values().any(|spent| spent.consumed() > 0)),
        "and its usage"
    );
}

#[tokio::test]
async fn a_tenant_in_offboarding_admits_no_work_until_a_cancel() {
    let stage = Stage::kubernetes(|_| {}).await;
    stage.until("ExportWindow").await;
    let frozen =
        |cohort: &Cohort| cohort.accounts.values().all(|account| account.admitting != AccountState::Open);
    assert!(stage.all::<Cohort>().await.iter().all(frozen));
    let refused = ask(&stage, "late").await.unwrap_err().to_string();
    assert!(refused.contains("tenant acme is leaving and takes no new work"), "{refused}");
    assert!(states(&stage).await.contains(&WorkloadState::Admitted), "running workloads continue");

    let order = Attribution { by: "rita".into(), reason: "they stay".into() };
    stage.engine.deliver(stage.id, Event::CancelRequested(order)).await.unwrap();
    stage.to_rest().await;

    let open =
        |cohort: &Cohort| cohort.accounts.values().all(|account| account.admitting == AccountState::Open);
    assert!(stage.all::<Cohort>().await.iter().all(open));
    assert_eq!(ask(&stage, "late").await.unwrap().admission.answer, AdmissionVerdict::Queue);
}

#[tokio::test]
async fn a_tenant_that_another_workflow_changes_does_not_begin_to_offboard() {
    let stage = Stage::kubernetes(|_| {}).await;
    let other = ExecutionId::from_bytes([9; 16]);
    let workspaces = ["prod".parse().unwrap()];
    let tenant = stage.tenant.clone();
    stage.engine.transact(true, |view| admission::freeze(view, &tenant, &workspaces, other)).await.unwrap();
    let basis = stage.engine.transact(false, |view| {
        let basis = workflows::destruction::certificate::ErasureBasis::ContractEnd;
        let legal = workflows::destruction::certificate::LegalBasis { basis, reference: "contract 7".into() };
        preview(view, &tenant, legal, "")
    });
    assert_eq!(basis.await.unwrap().others, [format!("workspace prod is frozen by execution {other}")]);

    assert_eq!(stage.to_rest().await, ("Rejected".into(), "finished".into()));

    assert!(stage.all::<Tenant>().await.iter().all(|tenant| tenant.state == TenantState::Active));
}

/// After a terminated offboarding the tenant is still leaving; the next offboarding adopts its freeze.
#[tokio::test]
async fn an_offboarding_succeeds_after_an_earlier_one_was_terminated() {
    let stage = Stage::kubernetes(|_| {}).await;
    stage.until("ExportWindow").await;
    let order = Attribution { by: "rita".into(), reason: "stuck".into() };
    stage.engine.deliver(stage.id, Event::TerminateRequested(order)).await.unwrap();
    let stage = stage.again().await;

    assert_eq!(stage.to_rest().await, ("Closed".into(), "finished".into()), "{}", stage.trouble().await);
    assert_eq!(stage.all::<NodeUse>().await, []);
}
