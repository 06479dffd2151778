//! Loans are returned: from the demand to the end, on the whole engine and with an observable world.

use crate::quota::stage::{BEGIN, Stage};
use engine::{MINUTE, SECOND, View};
use serde_json::Value;
use std::{collections::BTreeSet, time::Duration};
use store::{Filter, Record};
use tests::books::account::job;
use workflows::{
    platform::{GpuSet, StartWorkload},
    reclaim::{
        eviction::Eviction,
        ledger::{start_command, start_reclaims},
    },
    scheduling::admission::{self, WorkloadRequest},
    tenancy::*,
};

/// The grace period of the default policy.
const GRACE: Duration = Duration::from_secs(120);
const INSTANT: Duration = Duration::from_millis(1);

/// Workspace research runs on its own two GPUs and on one of production's; then production requests both of its own.
async fn called_back() -> Stage {
    let stage = Stage::with_tenant("H100").await;
    rest_half(&stage).await;
    for (name, gpus) in [("own", 2), ("lent", 1)] {
        stage.runs("research", name, gpus).await;
        let tenant = "acme".parse().unwrap();
        let begun = stage.engine.transact(false, |view| start_command(view, &tenant, name)).await.unwrap();
        stage.world().run_workload(&begun.unwrap());
    }
    let serve = WorkloadRequest { preemptible: false, ..job("production", "serve", 2) };
    let asked = |view: &mut View| {
        let submitted = admission::submit(view, &serve)?;
        start_reclaims(view, &submitted.news)?;
        Ok(submitted.admission.answer)
    };
    assert_eq!(stage.engine.transact(true, asked).await.unwrap(), AdmissionVerdict::Queue);
    stage.engine.run_until_idle().await.unwrap();
    stage
}

/// Half of the node is out of service, so that nothing is free beyond the workspaces' quotas.
async fn rest_half(stage: &Stage) {
    stage.sees().await;
    let node = stage.find::<Occupancy>("acme").await.unwrap().nodes.into_keys().next().unwrap();
    for gpu in 4..8 {
        let bar = |view: &mut View| {
            admission::bar_gpu(view, &"acme".parse().unwrap(), &node, gpu, Some("it rests"))
        };
        stage.engine.transact(true, bar).await.unwrap();
    }
}

async fn only(stage: &Stage, workflow: &str) -> Record {
    let filter = Filter { workflow: Some(workflow.into()), ..Filter::default() };
    let mut found = stage.engine.list(&filter, None, 10).await.unwrap().items;
    assert_eq!(found.len(), 1, "{workflow}");
    found.remove(0)
}

async fn states(stage: &Stage) -> [String; 2] {
    [only(stage, "reclaim").await.state, only(stage, "eviction").await.state]
}

/// Returns the cluster's object of a workload, if it runs there.
fn seen(stage: &Stage, name: &str) -> Option<Value> {
    let all = stage.world().snapshot();
    let mut found = all.into_iter().filter(|(key, _)| key.contains("/Workload/") && key.ends_with(name));
    found.next().map(|(_, object)| object["spec"].clone()).filter(|spec| spec["active"] == true)
}

/// S-29: no sweep is needed.
#[tokio::test]
async fn a_demand_has_its_plan_and_its_victims_are_notified_at_once() {
    let stage = called_back().await;

    assert_eq!(states(&stage).await, ["EvictingVictims", "AwaitingExit"]);
    assert_eq!(stage.engine.clock().now(), BEGIN);
    let told = &seen(&stage, "lent").unwrap()["reclaim_at"];
    assert_eq!(told.as_u64(), Some(BEGIN.after(GRACE).0));
    assert_eq!(seen(&stage, "own").unwrap()["reclaim_at"], Value::Null, "no other workload is notified");
}

/// S-30: killed exactly at the end of its grace period.
#[tokio::test]
async fn a_victim_that_does_not_end_is_evicted_after_its_grace_period() {
    let stage = called_back().await;

    stage.pass(GRACE - INSTANT).await;
    assert!(seen(&stage, "lent").is_some());
    stage.pass(INSTANT).await;
    assert!(seen(&stage, "lent").is_none());

    for _ in 0..12 {
        stage.pass(5 * SECOND).await;
        stage.sees().await;
    }
    assert_eq!(states(&stage).await, ["Restored", "Cleared"]);
    assert!(seen(&stage, "serve").is_some());
}

/// Domain 3.5: a notified workload is notified again when it may continue.
#[tokio::test]
async fn a_victim_keeps_running_if_its_gpus_are_no_longer_needed() {
    let stage = called_back().await;

    stage.ends("serve").await;
    stage.pass(GRACE).await;

    assert_eq!(states(&stage).await, ["Withdrawn", "Spared"]);
    assert_eq!(seen(&stage, "lent").unwrap()["reclaim_at"], Value::Null);
    let loans: Vec<_> = stage.all::<Loan>().await.iter().map(|loan| (loan.amount, loan.state)).collect();
    assert_eq!(loans, [(1, LoanState::Active)]);
    let lent: Workload = stage.find("acme/lent").await.unwrap();
    assert_eq!((lent.state, lent.evictions), (WorkloadState::Admitted, 0));
    stage.pass(10 * MINUTE).await;
    assert_eq!(states(&stage).await, ["Withdrawn", "Spared"], "that was the end of the reclaim");
}

/// The cluster places the workloads of research itself: the victim's GPUs are not those of the account. Returns the plan.
async fn called_back_from(stage: &Stage, gpus: impl Fn(&String) -> (String, BTreeSet<u16>)) -> GpuSet {
    rest_half(stage).await;
    let tenant: TenantId = "acme".parse().unwrap();
    for (name, gpus) in [("own", 2), ("lent", 1)] {
        stage.runs("research", name, gpus).await;
        stage.engine.run_until_idle().await.unwrap();
    }
    let begun =
        stage.engine.transact(false, |view| start_command(view, &tenant, "lent")).await.unwrap().unwrap();
    let planned = begun.gpus.as_set().clone();
    stage.world().run_workload(&StartWorkload { gpus: planned.keys().map(gpus).collect(), ..begun });
    let serve = WorkloadRequest { preemptible: false, ..job("production", "serve", 2) };
    let asked = |view: &mut View| {
        let submitted = admission::submit(view, &serve)?;
        start_reclaims(view, &submitted.news)?;
        Ok(())
    };
    stage.engine.transact(true, asked).await.unwrap();
    stage.engine.run_until_idle().await.unwrap();
    planned
}

/// The cluster started the victim on other GPUs than planned: the GPUs on which it ran are cleaned, and not the planned ones.
#[tokio::test]
async fn the_gpus_on_which_a_victim_ran_are_cleaned_instead_of_its_planned_ones() {
    let stage = Stage::with_tenant("H100").await;
    // The last GPU in service is unallocated in the account.
    let planned = called_back_from(&stage, |node| (node.clone(), [3].into())).await;
    let elsewhere: GpuSet = planned.keys().map(|node| (node.clone(), [3].into())).collect();
    assert_ne!(planned, elsewhere);

    stage.pass(GRACE).await;
    for _ in 0..12 {
        stage.pass(5 * SECOND).await;
        stage.sees().await;
    }

    assert_eq!(states(&stage).await, ["Restored", "Cleared"]);
    let body: Value = serde_json::from_slice(&only(&stage, "eviction").await.body).unwrap();
    let evicted: Eviction = serde_json::from_value(body["data"].clone()).unwrap();
    assert_eq!(evicted.observed.unwrap(), elsewhere);
    assert_eq!(evicted.gpus.as_set(), &planned, "the planned GPUs are stored separately");
    let lent: Workload = stage.find("acme/lent").await.unwrap();
    assert_eq!(lent.state, WorkloadState::Waiting);
    assert!(seen(&stage, "lent").is_none(), "a requeued victim is held until it is admitted again");
}

/// The location of the victim is unknown, so it is not evicted, and the planned GPUs are not cleaned.
#[tokio::test]
async fn a_workload_with_unknown_gpus_is_not_evicted() {
    let stage = Stage::with_tenant("H100").await;
    called_back_from(&stage, |node| (node.clone(), BTreeSet::new())).await;

    stage.pass(GRACE).await;

    let filter = Filter { workflow: Some("eviction".into()), ..Filter::default() };
    let evictions = stage.engine.list(&filter, None, 10).await.unwrap().items;
    let of_lent = evictions.iter().find(|record| record.subject == "workload/acme/lent").unwrap();
    assert_eq!(of_lent.state, "Unobserved");
    let lent = seen(&stage, "lent").expect("it runs on");
    assert_eq!(lent["reclaim_at"], Value::Null, "and its owner is notified of it");
}

/// A queued workload is started by the commit that admits it, whatever ended before it.
#[tokio::test]
async fn a_workload_admitted_from_the_queue_runs_in_the_cluster() {
    let stage = Stage::with_tenant("H100").await;
    stage.runs("production", "first", 2).await;
    let next = job("production", "next", 2);
    let waits = stage.engine.transact(true, |view| admission::submit(view, &next)).await.unwrap();
    stage.engine.run_until_idle().await.unwrap();
    assert!(seen(&stage, "first").is_some());
    if waits.admission.answer == AdmissionVerdict::Queue {
        assert!(seen(&stage, "next").is_none(), "a queued workload is not started");
    }

    stage.ends("first").await;
    stage.engine.run_until_idle().await.unwrap();

    assert!(seen(&stage, "next").is_some());
}

#[tokio::test]
async fn a_victim_is_not_evicted_for_a_demand_that_got_its_gpus_elsewhere() {
    let stage = called_back().await;

    stage.ends("own").await;
    stage.pass(GRACE).await;

    assert_eq!(states(&stage).await, ["Restored", "Spared"]);
    assert!(seen(&stage, "lent").is_some());
    assert!(seen(&stage, "serve").is_some());
}
