//! I-13: a hold and a destruction compete for one row, and exactly one of them wins.

use super::{
    keys::just_before,
    stage::{Stage, requester},
};
use engine::Request as Asked;
use simulator::verification::{left_behind, ready};
use workflows::{
    destruction::{HoldError, Inventory, SanitisationRecord},
    incident::{IncidentCause, IncidentResponse},
};

/// The acceptance test places a hold after every commit of an undisturbed run. If the hold is accepted, nothing is
/// destroyed. If it is refused, the refusal lists the destroyed and the remaining assets, and the run ends with a
/// certificate.
#[tokio::test]
async fn a_hold_at_any_moment_keeps_everything_or_is_refused_with_the_remaining_assets() {
    let ready = ready("A100", 1).await.unwrap();
    left_behind(&ready.world, "acme");
    let (mut kept, mut refused) = (0, 0);
    for moves in 0.. {
        let stage = Stage::from(&ready).await;
        let mut ended = false;
        for _ in 0..moves {
            stage.step().await;
            ended = stage.state().await.1 == "finished";
        }
        if ended {
            break;
        }
        let untouched = stage.world().snapshot();

        match stage.place_hold().await {
            Ok(_) => {
                kept += 1;
                for _ in 0..60 {
                    stage.step().await;
                }
                let state = stage.state().await.0;
                assert!(
                    ["Held", "HeldAtPivot", "RecheckingHolds", "Checking"].contains(&state.as_str()),
                    "{state}"
                );
                for data in [
                    "keys//Key/t-acme",
                    "storage/eu-west/Volume/pv-1",
                    "objects/eu-west/Bucket/t-acme--eu-west",
                ] {
                    let now = stage.world().snapshot();
                    let spec = |all: &std::collections::BTreeMap<String, serde_json::Value>| {
                        all[data]["spec"]["versions"].clone()
                    };
                    assert!(
                        now.contains_key(data),
                        "{data} is gone although a hold was placed after {moves} moves"
                    );
                    assert_eq!(spec(&now), spec(&untouched));
                }
                assert!(stage.records().await.is_empty(), "nothing is recorded as destroyed");
            }
            Err(late) => {
                refused += 1;
                assert!(matches!(late.error, HoldError::PastPivot { .. }), "{late}");
                let standing = late.standing.unwrap();
                let inventory = inventory(&stage).await;
                assert_eq!(standing.destroyed.len() + standing.still_there.len(), inventory.len());
                assert_eq!(
                    stage.to_rest().await,
                    ("Closed".into(), "finished".into()),
                    "after {moves} moves"
                );
                whole(&stage, &inventory).await;
            }
        }
    }
    assert!(kept > 10 && refused > 20, "{kept} kept, {refused} refused");
}

async fn inventory(stage: &Stage) -> Inventory {
    let (tenant, run) = (stage.tenant.clone(), stage.id);
    stage.engine.transact(false, |view| Inventory::read(view, &tenant, run)).await.unwrap().unwrap()
}

/// I-18: the records, and so the certificate, name every asset once, and each one passes.
async fn whole(stage: &Stage, inventory: &Inventory) {
    let records = stage.records().await;
    assert_eq!(records.len(), inventory.len());
    for asset in inventory.assets() {
        let record = records.iter().find(|record| record.asset == asset.id).expect("a record");
        assert_eq!(SanitisationRecord::passes(record), Ok(()), "{}", asset.id);
    }
    assert!(stage.certificate().await.signature.is_some());
}

#[tokio::test]
async fn an_offboarding_waits_for_a_hold_before_the_pivot_and_asks_for_a_new_approval() {
    let stage = Stage::slurm(|_| {}).await;
    assert_eq!(stage.until("AwaitingDestruction").await.0, "AwaitingDestruction");
    let first = stage.engine.approval(stage.id).await.unwrap().unwrap();
    stage.place_hold().await.unwrap();

    assert_eq!(stage.until("HeldAtPivot").await.0, "HeldAtPivot");
    stage.release_hold().await;
    assert_eq!(stage.until("AwaitingDestruction").await.0, "AwaitingDestruction");

    let second = stage.engine.approval(stage.id).await.unwrap().unwrap();
    assert_ne!(first.id, second.id, "the approval before the hold is void");
    assert_eq!(stage.to_rest().await, ("Closed".into(), "finished".into()));
}

#[tokio::test]
async fn a_tenant_under_hold_is_not_frozen() {
    let stage = Stage::slurm(|_| {}).await;
    stage.place_hold().await.unwrap();
    let before = stage.world().snapshot();

    assert_eq!(stage.until("Held").await.0, "Held");

    assert_eq!(stage.world().snapshot(), before);
}

/// No hold covers data whose destruction has begun: the incident reports this and can end.
#[tokio::test]
async fn an_incident_during_the_destruction_of_its_tenant_continues_and_reports_it() {
    let stage = Stage::slurm(|_| {}).await;
    just_before(&stage, "Rewrapping").await;
    let engine = stage.engine.clone().with_workflow::<IncidentResponse>().unwrap();
    let happening = IncidentCause::IsolationBreach { tenants: vec![stage.tenant.clone()] };
    let begun = IncidentResponse::new(happening, "dcgm".into(), "a packet".into()).reported_by("rita");
    let id = engine.start(begun, Asked::by(&requester())).await.unwrap().id;

    for _ in 0..200 {
        if engine.record(id).await.unwrap().state == "AwaitingClearance" {
            break;
        }
        engine.work_next().await.unwrap();
    }

    let body = engine.execution(id).await.unwrap().1.body;
    assert_eq!(engine.record(id).await.unwrap().state, "AwaitingClearance", "{body}");
    let incident: IncidentResponse = serde_json::from_value(body["data"].clone()).unwrap();
    let contains = engine::Workflow::plan(&incident).decides["contains"].to_string();
    assert!(contains.contains("none can keep it"), "{contains}");
}
