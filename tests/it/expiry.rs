//! Documents of every kind expire, except those in use or under a legal hold.

use crate::quota::stage::Stage;
use engine::{DAY, Entity, Occurrence, OccurrenceFate as Fate, Origin};
use store::{ExecutionId, Timestamp};
use workflows::{
    destruction::{Hold, HoldKind, HoldScope, Holds},
    policy::Sweep,
    sweeps::{self, SweepReport},
    tenancy::{Admission, Node, NodeState, Workload},
};

async fn count<T: Entity>(stage: &Stage) -> usize {
    stage.engine.store().documents(T::COLLECTION, "", None, 1_000).await.unwrap().items.len()
}

fn occurrence(nominal: Timestamp, fate: Fate, outcome: Option<&str>) -> Occurrence {
    Occurrence {
        schedule: "nightly".into(),
        nominal,
        at: nominal,
        fate,
        due: None,
        origin: Origin::Clock,
        by: None,
        version: 1,
        reason: String::new(),
        execution: None,
        outcome: outcome.map(str::to_owned),
    }
}

#[tokio::test]
async fn expired_reports_and_occurrences_are_removed_and_open_ones_stay() {
    let stage = Stage::with_tenant("H100").await;
    let now = now(&stage);
    let at = |n: u64| Timestamp(now.0 + n);
    let rows = [
        occurrence(at(0), Fate::Fired, Some("completed")),
        occurrence(at(1), Fate::Skipped, None),
        occurrence(at(2), Fate::Fired, None),
        occurrence(at(3), Fate::Buffered, None),
    ];
    stage.engine.transact(true, |view| rows.iter().try_for_each(|row| view.put(row))).await.unwrap();
    sweeps::run(&stage.engine, Sweep::Drift, Some(now), "schedule").await.unwrap();
    stage.pass(DAY).await;
    sweeps::run(&stage.engine, Sweep::Drift, None, "olga").await.unwrap();
    let (reports, kept) = (count::<SweepReport>(&stage).await, count::<Occurrence>(&stage).await);

    stage.pass(DAY * 8).await;
    sweeps::expire_documents(&stage.engine).await.unwrap();
    assert_eq!(count::<SweepReport>(&stage).await, reports - 1, "a quiet report is kept for a week");
    assert_eq!(count::<Occurrence>(&stage).await, kept);

    stage.pass(DAY * 400).await;
    sweeps::expire_documents(&stage.engine).await.unwrap();
    assert_eq!(count::<SweepReport>(&stage).await, 0);
    assert_eq!(count::<Occurrence>(&stage).await, 2, "one runs, and one waits");
    assert_eq!(sweeps::expire_documents(&stage.engine).await.unwrap(), 0, "nothing is left to do");
}

#[tokio::test]
async fn a_decision_is_kept_as_long_as_its_workload_and_both_are_removed_after_its_end() {
    let stage = Stage::with_tenant("H100").await;
    let names = ["first", "second"];
    for name in names {
        stage.runs("research", name, 1).await;
    }
    assert_eq!(count::<Admission>(&stage).await, 2);

    stage.pass(DAY * 900).await;
    sweeps::expire_documents(&stage.engine).await.unwrap();
    assert_eq!(count::<Workload>(&stage).await, 2, "they run");
    assert_eq!(count::<Admission>(&stage).await, 2, "the decisions that they refer to");

    for name in names {
        stage.ends(name).await;
    }
    let held = Holds { tenant: "acme".parse().unwrap(), open: vec![hold()], pivots: Vec::new() };
    stage.engine.transact(true, |view| view.put(&held)).await.unwrap();
    assert_eq!(sweeps::expire_documents(&stage.engine).await.unwrap(), 0, "its tenant is under a hold");
    let free = Holds { open: Vec::new(), ..held };
    stage.engine.transact(true, |view| view.put(&free)).await.unwrap();
    sweeps::expire_documents(&stage.engine).await.unwrap();
    assert_eq!(count::<Workload>(&stage).await, 2, "they ended just now, however old they are");
    stage.pass(DAY * 400).await;
    sweeps::expire_documents(&stage.engine).await.unwrap();
    assert_eq!(count::<Workload>(&stage).await, 0);
    assert_eq!(
        stage.all::<Admission>().await.iter().filter(|said| said.at.after(DAY * 400) <= now(&stage)).count(),
        0
    );
}

fn now(stage: &Stage) -> Timestamp {
    stage.engine.clock().now()
}

fn hold() -> Hold {
    Hold {
        id: "case-7".into(),
        kind: HoldKind::Legal,
        scope: HoldScope::Tenant,
        reason: "a claim".into(),
        placed_by: "dora".into(),
        placed_at: Timestamp(1_000).into(),
        review_at: None,
        placed_from: None,
    }
}

/// An earlier version left claims of ended executions that are on no list.
#[tokio::test]
async fn the_drift_sweep_finds_claims_of_executions_that_have_ended() {
    let stage = Stage::with_tenant("H100").await;
    let gone = ExecutionId::new(Timestamp(1), [1; 10]);
    let node = stage.all::<Node>().await.remove(0);
    let claimed = Node { state: NodeState::Claimed, claimed_by: Some(gone), ..node };
    stage.engine.transact(true, |view| view.put(&claimed)).await.unwrap();

    let found = sweeps::run(&stage.engine, Sweep::Drift, None, "olga").await.unwrap().found;

    let wanted = format!("by execution {gone}, which has ended: see `tenure leftovers show {gone}`");
    assert!(
        found.iter().any(|found| found.contains(&claimed.id.to_string()) && found.ends_with(&wanted)),
        "{found:?}"
    );
}
