//! Sweeps of contracts, and of platforms that differ from the account.

use crate::quota::stage::{BEGIN, Stage, gpu};
use engine::{Action as _, DAY, MINUTE, Person, Verdict};
use store::Filter;
use tests::actions::calls::Calls;
use workflows::{
    capacity::CapacityExhaustion,
    platform::ChangeResourceQuota,
    policy::{Sweep, publish},
    quota_change,
    scheduling::admission::{self, Observation, ObservedKind},
    sweeps::{self, SweepReport},
    tenancy::{Cluster, ClusterKind, Cohort, Entitlement, Occupancy, TenantId},
};

async fn swept(stage: &Stage, sweep: Sweep) -> SweepReport {
    let swept = sweeps::run(&stage.engine, sweep, None, "olga").await.unwrap();
    assert_eq!(swept.failed, None);
    stage.engine.run_until_idle().await.unwrap();
    swept
}

async fn offboarding(stage: &Stage) -> store::Record {
    let filter = Filter { workflow: Some("offboarding".into()), ..Filter::default() };
    stage.engine.list(&filter, None, 10).await.unwrap().items.remove(0)
}

#[tokio::test]
async fn an_ended_contract_starts_an_offboarding_that_needs_approval() {
    let stage = Stage::with_tenant("H100").await;
    let to = Some("2026-01-31".to_owned());
    let end = |view: &mut engine::View| {
        let bought = view.require::<Entitlement>("acme")?;
        view.put(&Entitlement { to: to.clone(), ..bought })
    };
    stage.engine.transact(true, end).await.unwrap();
    stage.pass(29 * DAY).await;
    assert_eq!(
        swept(&stage, Sweep::ContractEnd).await.started,
        Vec::<String>::new(),
        "its last day is in the future"
    );

    stage.pass(DAY).await;
    assert_eq!(swept(&stage, Sweep::ContractEnd).await.started, ["offboarding of acme"]);
    let leaving = offboarding(&stage).await;
    assert_eq!(leaving.state, "AwaitingApproval");
    let again = swept(&stage, Sweep::ContractEnd).await;
    assert_eq!(again.started, Vec::<String>::new());
    assert!(again.found[0].contains(&leaving.id.to_string()), "{:?}", again.found);

    let case = stage.engine.approval(leaving.id).await.unwrap().unwrap();
    let boss = Person::new("paula", case.seats[0].any_of.clone());
    stage.engine.vote(leaving.id, &boss, Verdict::Refuse, &case.digest, "it was renewed").await.unwrap();
    stage.engine.run_until_idle().await.unwrap();
    let later = swept(&stage, Sweep::ContractEnd).await;
    assert_eq!(later.started, Vec::<String>::new(), "a rejected request is not repeated every night");
    assert_eq!(later.found, ["the contract of acme has ended (2026-01-31), and it is still served"]);
}

#[tokio::test]
async fn a_difference_between_platform_and_ledger_is_reported_and_not_repaired() {
    for (model, kind) in [("H100", ClusterKind::Kubernetes), ("A100", ClusterKind::Slurm)] {
        let stage = Stage::with_tenant(model).await;
        assert_eq!(
            swept(&stage, Sweep::Drift).await.found,
            Vec::<String>::new(),
            "{kind:?}: all is as it was made"
        );
    }

    let stage = Stage::with_tenant("H100").await;
    let cluster: Cluster = stage.find("west-1").await.unwrap();
    let (tenant, research): (TenantId, _) = ("acme".parse().unwrap(), "research".parse().unwrap());
    let of = quota_change::layer_names(&cluster.id, cluster.kind, &tenant, &research, &gpu("H100"));
    let change = ChangeResourceQuota { of, from: Some(3), to: Some(7) };
    let call = Calls::new().await.at("Meddling", false, 1);
    change.run(stage.engine.platform(), &call).await.unwrap();

    let found = swept(&stage, Sweep::Drift).await.found;
    assert_eq!(found, ["quota/acme/research/gpu/H100 in west-1: the resource quota says 7, and the books 3"]);
    let hard = stage.spec("kubernetes/west-1/ResourceQuota/t-acme--research/tenure");
    assert_eq!(hard["hard"]["requests.nvidia.com/gpu"], 7, "the other writer's value is not overwritten");
}

#[tokio::test]
async fn gpus_that_are_in_use_but_free_in_the_ledger_are_found() {
    let stage = Stage::with_tenant("H100").await;
    let tenant: TenantId = "acme".parse().unwrap();
    let occupancy: Occupancy = stage.find("acme").await.unwrap();
    let seen = |busy: u64| {
        let nodes = occupancy.nodes.iter().map(|(node, kinds)| {
            let seen =
                kinds.iter().map(|(kind, room)| (kind.clone(), ObservedKind { usable: room.capacity, busy }));
            (node.clone(), seen.collect())
        });
        Observation { at: BEGIN.after(DAY), nodes: nodes.collect() }
    };
    stage.pass(2 * DAY).await;
    stage.engine.transact(true, |view| admission::observe(view, &tenant, &seen(3))).await.unwrap();

    let found = swept(&stage, Sweep::Drift).await.found;

    assert_eq!(found, ["3 of H100 on w-0000 are free in the books and in use, or gone"]);
}

/// A tenant's row is missing, as after a disaster: the others are swept, and the result names the skipped tenant.
#[tokio::test]
async fn a_tenant_without_its_own_row_is_skipped_and_the_others_are_swept() {
    let stage = Stage::with_tenant("H100").await;
    let acme: Cohort = stage.find("acme").await.unwrap();
    let lost = Cohort { tenant: "aaa".parse().unwrap(), ..acme };
    stage.engine.transact(true, |view| view.put(&lost)).await.unwrap();
    for sweep in [Sweep::Reclaim, Sweep::LineAgeing] {
        let found = swept(&stage, sweep).await;
        let wanted = "tenant aaa is left out: ledger.missing: there is no tenants/aaa";
        assert_eq!((found.found.as_slice(), found.seen), ([wanted.to_owned()].as_slice(), 2));
    }
}

/// S-139, S-140: too little has been free for long enough, so capacity exhaustion starts once.
#[tokio::test]
async fn a_long_shortage_of_a_model_starts_a_capacity_exhaustion() {
    let stage = Stage::with_tenant("H100").await;
    let engine = stage.engine.with_workflow::<CapacityExhaustion>().unwrap();
    let stage = Stage { engine, ..stage };
    let short = "policy: platform\nversion: 3\ncapacity: {threshold: 0.8, recovered: 0.9, lasting: 20m}\n";

    stage.pass(DAY).await;
    assert_eq!(swept(&stage, Sweep::Reclaim).await.started, Vec::<String>::new(), "enough is free");
    stage.engine.transact(true, |view| publish(view, short, "ada")).await.unwrap();
    assert_eq!(swept(&stage, Sweep::Reclaim).await.started, Vec::<String>::new(), "only since now");
    stage.pass(19 * MINUTE).await;
    assert_eq!(swept(&stage, Sweep::Reclaim).await.started, Vec::<String>::new(), "not for long enough");
    stage.pass(MINUTE).await;
    let begun = swept(&stage, Sweep::Reclaim).await.started;
    assert!(begun.len() == 1 && begun[0].starts_with("capacity of H100 in eu-west: "), "{begun:?}");
    stage.pass(MINUTE).await;
    assert_eq!(swept(&stage, Sweep::Reclaim).await.started, Vec::<String>::new(), "one is open");

    let filter = Filter { workflow: Some("capacity_exhaustion".into()), ..Filter::default() };
    let open = stage.engine.list(&filter, None, 10).await.unwrap().items;
    assert_eq!(open.len(), 1);
    let (_, shown) = stage.engine.execution(open[0].id).await.unwrap();
    let trigger = shown.body["data"]["trigger"].as_str().unwrap();
    assert!(trigger.contains("capacity.lasting"), "{trigger}");
    assert_eq!(shown.body["data"]["tenants"], serde_json::json!(["acme"]));
}
