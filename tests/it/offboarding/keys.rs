//! Recoverable keys, unencrypted data, and data under a retention rule: the plan names them before the approval, and they stay
//! exceptions.

use super::stage::Stage;
use backends::simulated::{Fault, FaultKind, LocalWorld, Verb};
use engine::Event;
use serde_json::{Value, json};
use workflows::{
    destruction::{SanitisationOutcome, certificate},
    offboarding::{ASSETS_CLASSIFIED, WRITES_STOPPED},
    platform::TenantResource,
};

fn key() -> TenantResource {
    TenantResource::new("keys", "", "Key", "t-acme")
}

fn bucket() -> TenantResource {
    TenantResource::new("objects", "eu-west", "Bucket", "t-acme--eu-west")
}

async fn leaving(more: impl Fn(&LocalWorld)) -> Stage {
    let stage = Stage::slurm(more).await;
    assert_eq!(
        stage.until("AwaitingDestruction").await.0,
        "AwaitingDestruction",
        "{}",
        stage.trouble().await
    );
    stage
}

/// Runs until the execution has just reached `state`, before any action of it.
pub(super) async fn just_before(stage: &Stage, state: &str) {
    for _ in 0..5_000 {
        if stage.state().await.0 == state {
            return;
        }
        stage.step().await;
    }
    panic!("it never comes to {state}: {:?}", stage.state().await);
}

/// Returns what approvers see before they approve the destruction.
async fn shown(stage: &Stage) -> Value {
    let body = stage.engine.execution(stage.id).await.unwrap().1.body;
    let me: workflows::offboarding::Offboarding = serde_json::from_value(body["data"].clone()).unwrap();
    engine::Workflow::plan(&me).decides["destroys"].clone()
}

async fn exception(stage: &Stage, thing: &TenantResource) -> Option<String> {
    let id = stage.id;
    let file = stage.engine.transact(false, |view| certificate::certificate_file(view, id)).await.unwrap();
    let found = certificate::verify(file.unwrap().as_bytes(), &[]);
    let entry = found.assets.iter().find(|entry| entry.asset.locator == thing.to_string()).unwrap();
    entry.exception.clone()
}

/// For every kind of recoverable key, the plan names it and the certificate has an exception.
#[tokio::test]
async fn a_restorable_key_is_shown_before_the_approval_and_becomes_an_exception() {
    let ways = [
        (json!({ "imported": true }), "it was imported"),
        (json!({ "restored": true }), "it was restored from a backup"),
        (json!({ "backed_up": true }), "a backup of it was taken"),
        (json!({ "allow_plaintext_backup": true }), "backups of it are allowed"),
        (json!({ "exportable": true }), "it is exportable"),
        (json!({ "imported": null }), "its store does not say whether a copy of it exists"),
    ];
    for (spec, said) in ways {
        let stage = leaving(|world| world.furnish(&key(), "acme", spec.clone())).await;
        let plan = shown(&stage).await;
        let exceptions = plan["exceptions"].to_string();
        assert!(exceptions.contains("keys//Key/t-acme") && exceptions.contains(said), "{plan}");

        assert_eq!(stage.to_rest().await, ("ClosedWithExceptions".into(), "finished".into()));

        let why = exception(&stage, &key()).await.unwrap();
        assert!(why.contains(said) && why.contains("proves nothing"), "{why}");
        // Existing data that the key encrypted is not destroyed with it.
        let backup = TenantResource::new("backups", "eu-west", "Backup", "weekly");
        let why = exception(&stage, &backup).await.unwrap();
        assert!(why.contains("it is under key t-acme") && why.contains(said), "{why}");
        assert_eq!(stage.certificate().await.exceptions, 2);
    }
}

#[tokio::test]
async fn a_safe_key_is_not_an_exception_in_the_plan() {
    let stage = leaving(|_| {}).await;
    let plan = shown(&stage).await;
    assert_eq!(plan.get("exceptions"), None);
    assert!(!plan.to_string().contains("can_come_back"), "{plan}");
}

#[tokio::test]
async fn a_backup_of_the_key_after_the_approval_is_still_an_exception() {
    let stage = leaving(|_| {}).await;
    stage.world().furnish(&key(), "acme", json!({ "backed_up": true }));

    assert_eq!(stage.to_rest().await, ("ClosedWithExceptions".into(), "finished".into()));

    let why = exception(&stage, &key()).await.unwrap();
    assert!(why.contains("a backup of it was taken"), "{why}");
}

/// The first attempt deletes the key and fails, and the next one finds no key any more.
#[tokio::test]
async fn observations_of_a_key_survive_a_failed_attempt_to_destroy_it() {
    let stage = leaving(|_| {}).await;
    stage.world().furnish(&key(), "acme", json!({ "backed_up": true }));
    just_before(&stage, "Shredding").await;
    let fails = Fault::on("ShredKey", FaultKind::FailAfter).named("t-acme");
    stage.script(Fault { verb: Some(Verb::Delete), ..fails });

    let rest = stage.to_rest().await;
    assert_eq!(rest, ("ClosedWithExceptions".into(), "finished".into()), "{}", stage.trouble().await);

    let why = exception(&stage, &key()).await.unwrap();
    assert!(why.contains("a backup of it was taken"), "{why}");
}

/// Whatever a store reports, or does not report, about the encryption of a locked object.
#[tokio::test]
async fn a_locked_object_never_counts_as_destroyed_by_a_key_that_does_not_encrypt_it() {
    let cases = [
        (json!({}), "it is under key t-acme, which was not destroyed, so it stays readable"),
        (
            json!({ "encrypted": false }),
            "it is not encrypted with a key that was destroyed, so it stays readable",
        ),
        (json!({ "key": "" }), "it is not encrypted with a key that was destroyed, so it stays readable"),
        (
            json!({ "key": "another" }),
            "it is under key another, which was not destroyed, so it stays readable",
        ),
        (json!({ "key": null }), "does not say with which key it is encrypted, so it may stay readable"),
    ];
    for (more, said) in cases {
        let mut spec = json!({ "locked": 1, "locked_until": "2027-01-01T00:00:00.000Z" });
        spec.as_object_mut().unwrap().extend(more.as_object().unwrap().clone());
        let stage = Stage::slurm(|world| world.furnish(&bucket(), "acme", spec.clone())).await;

        assert_eq!(stage.to_rest().await, ("ClosedWithExceptions".into(), "finished".into()));

        let why = exception(&stage, &bucket()).await.unwrap();
        assert!(why.contains(said), "{why}");
        // Any locked object keeps the key.
        assert!(!why.contains("which is destroyed"), "{why}");
    }
}

#[tokio::test]
async fn an_unencrypted_backup_does_not_become_unusable_with_the_key() {
    let backup = TenantResource::new("backups", "eu-west", "Backup", "weekly");
    let stage = Stage::slurm(|world| world.furnish(&backup, "acme", json!({ "encrypted": false }))).await;

    assert_eq!(stage.to_rest().await, ("ClosedWithExceptions".into(), "finished".into()));

    assert!(exception(&stage, &backup).await.unwrap().contains("stays readable"));
}

/// A dry run asks the store before the plan is shown: approvers never approve an impossible plan.
#[tokio::test]
async fn retained_data_that_cannot_move_to_another_key_is_reported_before_the_approval() {
    let stage = Stage::slurm(|_| {}).await;
    stage.script(Fault {
        verb: Some(Verb::Patch),
        ..Fault::on("CheckRewrap", FaultKind::RefuseBefore).times(0)
    });

    assert_eq!(stage.until("AwaitingClassification").await.0, "AwaitingClassification");

    let why = stage.engine.execution(stage.id).await.unwrap().1.body["last_failure"].to_string();
    assert!(why.contains("a rule retains logs/eu-west/Stream/audit until"), "{why}");
    stage.world().script(backends::simulated::Script::default());
    stage.engine.deliver(stage.id, Event::Signalled { name: ASSETS_CLASSIFIED.into() }).await.unwrap();
    assert_eq!(stage.to_rest().await, ("Closed".into(), "finished".into()), "{}", stage.trouble().await);
}

/// Whatever a statement says about the move: a key that still encrypts retained data is not destroyed.
#[tokio::test]
async fn a_key_is_not_destroyed_while_it_encrypts_retained_data() {
    let stream = TenantResource::new("logs", "eu-west", "Stream", "audit");
    let stage = leaving(|_| {}).await;
    just_before(&stage, "Shredding").await;
    stage.world().furnish(&stream, "acme", json!({ "key": "t-acme" }));

    assert_eq!(stage.to_rest().await, ("Shredding".into(), "parked".into()));

    assert!(stage.trouble().await.contains("key.in_use"), "{}", stage.trouble().await);
    assert!(stage.left().contains(&key().to_string()));
}

#[tokio::test]
async fn retained_data_is_recorded_under_its_observed_key() {
    let stream = TenantResource::new("logs", "eu-west", "Stream", "audit");
    for (seen, counts) in [(json!({ "key": "provider-archive" }), true), (json!({ "key": null }), false)] {
        let stage = leaving(|_| {}).await;
        just_before(&stage, "Shredding").await;
        stage.world().furnish(&stream, "acme", seen.clone());

        let end = if counts { "Closed" } else { "ClosedWithExceptions" };
        assert_eq!(stage.to_rest().await, (end.into(), "finished".into()), "{}", stage.trouble().await);

        let records = stage.records().await;
        let record = records.iter().find(|it| it.asset.as_str().ends_with(&stream.to_string())).unwrap();
        match &record.result {
            SanitisationOutcome::NotApplicable { reason, .. } => {
                assert!(counts && reason.contains("under key provider-archive"), "{reason}");
            }
            other => assert!(!counts, "{other:?}"),
        }
    }
}

#[tokio::test]
async fn a_key_that_its_store_keeps_recoverable_parks_at_once_and_is_named() {
    let stage = leaving(|_| {}).await;
    stage.script(Fault::on("ShredKey", FaultKind::FinalizerStays).named("t-acme").times(0));

    assert_eq!(stage.to_rest().await, ("Shredding".into(), "parked".into()));

    let why = stage.trouble().await;
    assert!(why.contains("key.soft_deleted") && why.contains("keys//Key/t-acme"), "{why}");
}

/// If an asset appears after the plan, a new plan lists it and the approvers vote again.
#[tokio::test]
async fn resources_that_appeared_since_the_approval_are_in_a_new_plan_before_the_destruction() {
    let late = TenantResource::new("storage", "eu-west", "Volume", "late");
    let held = |versions: u64| json!({ "class": "workload", "versions": versions, "bytes": versions * 10 });
    let cases = [
        (bucket(), held(2_000), "2002 objects, 20000 bytes"),
        (late, json!({ "class": "workload" }), "storage/eu-west/Volume/late"),
        (key(), json!({ "backed_up": true }), "backed_up"),
    ];
    for (thing, spec, says) in cases {
        let stage = leaving(|world| world.furnish(&bucket(), "acme", held(1_000))).await;
        let before = stage.engine.approval(stage.id).await.unwrap().unwrap();
        assert!(shown(&stage).await.to_string().contains("1002 objects, 10000 bytes"));
        stage.world().furnish(&thing, "acme", spec);
        just_before(&stage, "Surveying").await;

        assert_eq!(stage.until("AwaitingDestruction").await.0, "AwaitingDestruction");
        let after = stage.engine.approval(stage.id).await.unwrap().unwrap();
        assert_ne!(before.digest, after.digest);
        assert!(shown(&stage).await.to_string().contains(says), "{}", shown(&stage).await);
        assert!(stage.to_rest().await.0.starts_with("Closed"), "{}", stage.trouble().await);
    }
}

#[tokio::test]
async fn growth_within_the_tolerance_and_shrinkage_need_no_new_approval() {
    for versions in [1_010, 10] {
        let held = |versions: u64| json!({ "class": "workload", "versions": versions, "bytes": versions });
        let stage = leaving(|world| world.furnish(&bucket(), "acme", held(1_000))).await;
        stage.world().furnish(&bucket(), "acme", held(versions));
        just_before(&stage, "PassingPivot").await;
    }
}

/// Approvers see three plans of a tenant that keeps writing. Then the offboarding waits until an operator has stopped the writes.
#[tokio::test]
async fn a_tenant_that_keeps_writing_does_not_ask_the_approvers_without_end() {
    let held = |versions: u64| json!({ "class": "workload", "versions": versions, "bytes": versions * 10 });
    let stage = leaving(|world| world.furnish(&bucket(), "acme", held(1_000))).await;
    for round in 1..=3 {
        stage.world().furnish(&bucket(), "acme", held(1_000 << round));
        just_before(&stage, "Surveying").await;
        let next = if round < 3 { "AwaitingDestruction" } else { "AwaitingWriteStop" };
        assert_eq!(stage.until(next).await.0, next);
        let change = format!("has {} objects", (1_000 << round) + 2);
        let listed = changes(&stage).await.to_string();
        assert!(listed.contains(&change), "{change}: {listed}");
    }

    for _ in 0..50 {
        stage.step().await;
        assert_eq!(stage.state().await.0, "AwaitingWriteStop", "time alone asks nobody");
    }
    assert!(stage.engine.approval(stage.id).await.unwrap().is_none());

    stage.engine.deliver(stage.id, Event::Signalled { name: WRITES_STOPPED.into() }).await.unwrap();
    assert_eq!(stage.until("AwaitingDestruction").await.0, "AwaitingDestruction");
    assert_eq!(changes(&stage).await, Value::Null, "the inventory is the same as before");
    assert!(stage.to_rest().await.0.starts_with("Closed"), "{}", stage.trouble().await);
}

/// Returns the changes that the plan lists.
async fn changes(stage: &Stage) -> Value {
    let body = stage.engine.execution(stage.id).await.unwrap().1.body;
    let me: workflows::offboarding::Offboarding = serde_json::from_value(body["data"].clone()).unwrap();
    engine::Workflow::plan(&me).decides["changes_since_last_inventory"].clone()
}

/// A store that denies the platform the removal is found before the approval, when the policy can still be changed.
#[tokio::test]
async fn what_the_platform_may_not_remove_is_named_before_anyone_agrees_to_its_destruction() {
    let denied = json!({ "class": "workload", "versions": 2, "removal_denied": "its store says no" });
    let stage = Stage::slurm(|world| world.furnish(&bucket(), "acme", denied.clone())).await;

    assert_eq!(stage.until("AwaitingClassification").await.0, "AwaitingClassification");
    let record = serde_json::to_string(
        &stage
            .engine
            .journal(stage.id)
            .await
            .unwrap()
            .iter()
            .map(|entry| String::from_utf8_lossy(&entry.detail).into_owned())
            .collect::<Vec<_>>(),
    )
    .unwrap();
    assert!(record.contains("cannot be removed: its store says no"), "{record}");

    stage.world().furnish(
        &bucket(),
        "acme",
        json!({ "class": "workload", "versions": 2, "removal_denied": null }),
    );
    stage.engine.deliver(stage.id, Event::Signalled { name: ASSETS_CLASSIFIED.into() }).await.unwrap();
    assert_eq!(stage.until("AwaitingDestruction").await.0, "AwaitingDestruction");
}
