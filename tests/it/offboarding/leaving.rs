//! Which data is destroyed, which is kept, and when approvals are needed.

use super::{keys::just_before, stage::Stage};
use backends::simulated::{Fault, FaultKind};
use engine::{Attribution, Event};
use serde_json::json;
use workflows::{
    destruction::{AssetId, DataClass, SanitisationOutcome, Technique, VerificationMethod},
    offboarding::{ASSETS_CLASSIFIED, Classification, Offboarding, classify, preview},
    platform::TenantResource,
    policy::OnboardingRequest,
    signing::Moment,
    tenancy::{Node, NodeState, Tenant, TenantState},
};

#[tokio::test]
async fn after_the_certificate_only_the_stated_resources_of_the_tenant_remain() {
    let stage = Stage::kubernetes(|_| {}).await;

    assert_eq!(stage.to_rest().await, ("Closed".into(), "finished".into()), "{}", stage.trouble().await);

    assert_eq!(
        stage.left(),
        ["backups/eu-west/Backup/weekly", "logs/eu-west/Stream/audit"],
        "a backup kept by its store, and data kept by law, under another key"
    );
    assert_eq!(stage.world().snapshot()["logs/eu-west/Stream/audit"]["spec"]["key"], "provider-archive");
    assert_eq!(stage.world().violations(), Vec::<String>::new());
    let kept = |record: &workflows::destruction::SanitisationRecord| {
        matches!(record.result, SanitisationOutcome::NotApplicable { .. })
    };
    assert_eq!(stage.records().await.iter().filter(|record| kept(record)).count(), 2);
    let nodes: Vec<Node> = stage.all().await;
    assert!(nodes.iter().all(|node| node.state == NodeState::Free && node.owner.is_none()));
    let tenants: Vec<Tenant> = stage.all().await;
    assert_eq!(tenants[0].state, TenantState::Closed);
    let certificate = stage.certificate().await;
    assert_eq!((certificate.exceptions, certificate.signature.is_some()), (0, true));
}

/// I-14.
#[tokio::test]
async fn the_name_of_a_closed_tenant_is_never_used_again() {
    let stage = Stage::slurm(|_| {}).await;
    stage.to_rest().await;
    let request = OnboardingRequest::from_yaml(
        "name: acme\ntenant: {tier: research, isolation: dedicated, data_residency: any, allow_preemption: true, \
         allow_gpu_sharing: false}\nentitlement: {gpu_model: H100, gpus: 1}\n",
    )
    .unwrap();

    let facts =
        stage.engine.transact(false, |view| workflows::ledger::facts(view, &request, None)).await.unwrap();

    assert!(facts.name_in_use);
}

#[tokio::test]
async fn a_cancel_before_the_pivot_restores_the_tenant() {
    for state in ["ExportWindow", "AwaitingDestruction"] {
        let stage = Stage::kubernetes(|_| {}).await;
        let before = stage.world().snapshot();
        stage.until(state).await;
        assert_ne!(stage.world().snapshot(), before, "its queues are held");
        let order = Attribution { by: "rita".into(), reason: "they stay".into() };
        stage.engine.deliver(stage.id, Event::CancelRequested(order)).await.unwrap();

        assert_eq!(stage.to_rest().await.1, "finished");

        assert_eq!(stage.world().snapshot(), before);
        let tenants: Vec<Tenant> = stage.all().await;
        assert_eq!(tenants[0].state, TenantState::Active);
    }
}

#[tokio::test]
async fn an_orphan_waits_until_operators_identify_it() {
    let orphan = TenantResource::new("storage", "eu-west", "Volume", "forgotten");
    let stage = Stage::slurm(|world| world.furnish(&orphan, "acme", json!({}))).await;
    assert_eq!(stage.until("AwaitingClassification").await.0, "AwaitingClassification");
    let why = stage.engine.execution(stage.id).await.unwrap().1.body["last_failure"].to_string();
    assert!(why.contains(&format!("pv:{orphan}")), "the reason names the open asset: {why}");

    // A retry of a wait checks again now: the answer is the same, a moment later.
    let order = Attribution { by: "olga".into(), reason: "look again".into() };
    let entered = stage.engine.journal(stage.id).await.unwrap().len();
    stage.engine.deliver(stage.id, Event::RetryRequested(order)).await.unwrap();
    assert_eq!(stage.until("AwaitingClassification").await.0, "AwaitingClassification");
    assert!(stage.engine.journal(stage.id).await.unwrap().len() > entered + 3, "it has surveyed again");

    let said = Classification {
        tenant: stage.tenant.clone(),
        asset: AssetId(format!("pv:{orphan}")),
        class: DataClass::Workload,
        by: "olga".into(),
        reason: "an old experiment of theirs".into(),
        at: Moment::from(store::Timestamp(0)),
    };
    stage.engine.transact(true, |view| classify(view, said.clone())).await.unwrap();
    stage.engine.deliver(stage.id, Event::Signalled { name: ASSETS_CLASSIFIED.into() }).await.unwrap();

    assert_eq!(stage.to_rest().await, ("Closed".into(), "finished".into()), "{}", stage.trouble().await);
    assert!(stage.records().await.iter().any(|record| record.asset == said.asset && record.passes().is_ok()));
}

/// Its record claims only the erased volume, and not that no copy of its header exists.
#[tokio::test]
async fn a_volume_is_destroyed_and_recorded_with_its_key() {
    let volume = TenantResource::new("storage", "slurm-1", "LuksKey", "s-0000/0b1e");
    let stage = Stage::slurm(|world| world.furnish(&volume, "acme", json!({ "class": "workload" }))).await;

    assert_eq!(stage.to_rest().await, ("Closed".into(), "finished".into()), "{}", stage.trouble().await);

    let records = stage.records().await;
    let record = records.iter().find(|record| record.asset.as_str() == format!("pv:{volume}")).unwrap();
    assert_eq!((record.technique, record.passes()), (Technique::LuksErase, Ok(())));
    assert_eq!(record.verification.as_ref().unwrap().method, VerificationMethod::ObservedAbsent);
    assert_eq!(record.key, None);
}

#[tokio::test]
async fn a_retained_volume_is_not_destroyed_until_its_data_was_moved() {
    let volume = TenantResource::new("storage", "slurm-1", "LuksKey", "s-0000/0b1e");
    let stage = Stage::slurm(|world| world.furnish(&volume, "acme", json!({ "class": "audit" }))).await;

    assert_eq!(stage.until("AwaitingClassification").await.0, "AwaitingClassification");

    let why = stage.engine.execution(stage.id).await.unwrap().1.body["last_failure"].to_string();
    assert!(why.contains(&format!("{volume} holds data of class audit, which a rule keeps until")), "{why}");
    stage.world().furnish(&volume, "acme", json!({ "class": "workload" }));
    stage.engine.deliver(stage.id, Event::Signalled { name: ASSETS_CLASSIFIED.into() }).await.unwrap();
    assert_eq!(stage.to_rest().await, ("Closed".into(), "finished".into()), "{}", stage.trouble().await);
}

#[tokio::test]
async fn resources_that_appear_after_the_pivot_are_not_touched_and_are_found_before_the_end() {
    let stage = Stage::slurm(|_| {}).await;
    just_before(&stage, "Rewrapping").await;
    let volume = TenantResource::new("storage", "eu-west", "Volume", "late");
    stage.world().furnish(&volume, "acme", json!({ "class": "workload" }));

    assert_eq!(stage.to_rest().await, ("VerifyingDismantled".into(), "parked".into()));

    assert!(stage.left().contains(&volume.to_string()), "the destruction was not approved");
    assert!(stage.trouble().await.contains(&volume.to_string()), "the operators are notified");
}

#[tokio::test]
async fn a_resource_that_took_the_name_of_an_approved_one_is_not_touched() {
    let stage = Stage::slurm(|_| {}).await;
    just_before(&stage, "Rewrapping").await;
    let volume = TenantResource::new("storage", "eu-west", "Volume", "pv-1");
    stage.world().replace(&volume, "other");

    assert_eq!(stage.to_rest().await, ("DeletingData".into(), "parked".into()));

    assert!(stage.trouble().await.contains("asset.replaced"));
    assert!(stage.world().snapshot().contains_key(&volume.to_string()));
}

#[tokio::test]
async fn a_finalizer_that_stays_parks_the_offboarding_and_is_named() {
    let stage = Stage::kubernetes(|_| {}).await;
    let stays = Fault::on("RemoveThing", FaultKind::FinalizerStays).named("t-acme--prod");
    stage.script(stays);

    let rest = stage.to_rest().await;
    assert_eq!(rest, ("Diagnosing".into(), "parked".into()), "{}", stage.trouble().await);

    let why = stage.trouble().await;
    assert!(why.contains("asset.stuck") && why.contains("example.com/still-needed"), "{why}");
}

#[tokio::test]
async fn a_bucket_with_object_lock_is_a_named_exception_and_keeps_its_key() {
    let lock = json!({ "locked": 2, "legal_holds": 1, "locked_until": "2027-01-01T00:00:00.000Z" });
    let bucket = TenantResource::new("objects", "eu-west", "Bucket", "t-acme--eu-west");
    let stage = Stage::slurm(|world| world.furnish(&bucket, "acme", lock.clone())).await;

    stage.until("AwaitingDestruction").await;
    let (_, shown) = stage.engine.execution(stage.id).await.unwrap();
    let asked: Offboarding = serde_json::from_value(shown.body["data"].clone()).unwrap();
    let plan = engine::Workflow::plan(&asked).decides["locked"].to_string();
    assert!(
        plan.contains("1 of them under a legal hold") && plan.contains("the key is not destroyed"),
        "{plan}"
    );
    let rest = stage.to_rest().await;

    // The verifier finds it twice. Operators check, and can do nothing before the lock ends.
    assert_eq!(rest, ("ClosedWithExceptions".into(), "finished".into()), "{}", stage.trouble().await);
    let certificate = stage.certificate().await;
    // The bucket, the key that may encrypt it, and the backup, which stays usable while the key exists.
    assert_eq!(certificate.exceptions, 3);
    assert!(stage.left().contains(&bucket.to_string()));
    assert!(stage.left().contains(&"keys//Key/t-acme".to_owned()), "{:?}", stage.left());
}

#[tokio::test]
async fn a_key_that_can_still_decrypt_parks_before_anything_else_is_deleted() {
    let stage = Stage::slurm(|_| {}).await;
    stage.script(Fault {
        verb: Some(backends::simulated::Verb::Check),
        ..Fault::on("ShredKey", FaultKind::Flawed).times(0)
    });

    assert_eq!(stage.to_rest().await, ("Shredding".into(), "parked".into()));

    assert!(stage.trouble().await.contains("key.survives"));
    assert!(stage.left().contains(&"storage/eu-west/Volume/pv-1".to_owned()));
}

#[tokio::test]
async fn a_dry_run_lists_the_removals_and_changes_nothing() {
    let stage = Stage::kubernetes(|_| {}).await;
    let before = stage.world().snapshot();
    let body = stage.engine.execution(stage.id).await.unwrap().1.body;
    let basis: Offboarding = serde_json::from_value(body["data"].clone()).unwrap();

    let shown = stage
        .engine
        .transact(false, |view| preview(view, &stage.tenant, basis.basis.clone(), &basis.reason))
        .await
        .unwrap();

    assert_eq!(shown.nodes.len(), 2);
    assert!(shown.things.iter().any(|thing| thing.kind == "Bucket"));
    assert!(shown.kept.contains_key(&DataClass::Audit));
    assert_eq!(stage.world().snapshot(), before);
    stage.until("AwaitingApproval").await;
    assert_eq!(stage.engine.approval(stage.id).await.unwrap().unwrap().digest, shown.digest);
}

/// Approvers never approve an impossible plan, and the plan names data that a store keeps.
#[tokio::test]
async fn a_volume_that_keeps_its_data_is_named_before_the_approval() {
    let volume = TenantResource::new("storage", "eu-west", "Volume", "retained");
    let spec = json!({ "class": "workload", "reclaimPolicy": "Retain" });
    let stage = Stage::slurm(|world| world.furnish(&volume, "acme", spec.clone())).await;

    assert_eq!(stage.until("AwaitingClassification").await.0, "AwaitingClassification");

    let why = stage.engine.execution(stage.id).await.unwrap().1.body["last_failure"].to_string();
    assert!(why.contains(&format!("{volume} has the reclaim policy Retain")), "{why}");
    stage.world().furnish(&volume, "acme", json!({ "reclaimPolicy": "Delete" }));
    stage.engine.deliver(stage.id, Event::Signalled { name: ASSETS_CLASSIFIED.into() }).await.unwrap();
    stage.until("AwaitingDestruction").await;
    let (_, shown) = stage.engine.execution(stage.id).await.unwrap();
    let asked: Offboarding = serde_json::from_value(shown.body["data"].clone()).unwrap();
    let plan = engine::Workflow::plan(&asked).decides["destroys"].to_string();
    assert!(plan.contains(r#""its_store_keeps_it_until":"2026-03-01T00:00:00.000Z""#), "{plan}");
    assert_eq!(stage.to_rest().await, ("Closed".into(), "finished".into()), "{}", stage.trouble().await);
}
