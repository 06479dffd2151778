//! Sealed records of a tenant are removed with it.

use super::stage::Stage;
use backends::record_keys::{PLATFORM_KEY_WORKFLOWS, RecordKeys};
use engine::Clock as _;
use simulator::verification::{left_behind, ready};
use std::{path::Path, sync::Arc};
use store::{
    Attributes, Commit, Entry, ExecutionId, Memory, Record, Revision, Sequence, Store, Timestamp, Write,
    encrypted::{Encrypted, KeyFolder, Secret, Undecryptable},
};
use workflows::audit::{self, Auditor, Pace};

/// A finished execution of the tenant, with one line of history.
fn earlier(id: ExecutionId) -> Commit {
    let words = br#"{"why":"nobody else may read this"}"#.to_vec();
    let record = Record {
        id,
        revision: Revision(0),
        workflow: "onboarding".into(),
        schema: 1,
        tenant: "acme".into(),
        subject: "tenant/acme".into(),
        guard: None,
        state: "Active".into(),
        phase: "finished".into(),
        reason: Some("completed".into()),
        open: false,
        requested_by: "rita".into(),
        created_at: Timestamp(1),
        updated_at: Timestamp(1),
        attributes: Attributes::default(),
        body: words.clone(),
    };
    let entry = Entry {
        sequence: Sequence(0),
        execution: id,
        at: Timestamp(1),
        actor: "rita".into(),
        event: "started".into(),
        from: String::new(),
        to: "Active".into(),
        detail: words,
    };
    Commit { record: Some(Write { record, expected: None }), journal: vec![entry], ..Commit::default() }
}

async fn stage(dir: &Path, earlier_one: ExecutionId) -> Stage {
    let ready = ready("H100", 1).await.unwrap();
    left_behind(&ready.world, "acme");
    let wrapping = Secret::from_hex(&"5a".repeat(32)).unwrap();
    let keys = Arc::new(KeyFolder::open(dir, wrapping, &[], false).unwrap());
    let store: Arc<dyn Store> =
        Arc::new(Encrypted::new(Arc::new(Memory::new()), keys.clone(), PLATFORM_KEY_WORKFLOWS));
    store.commit(earlier(earlier_one)).await.unwrap();
    Stage::on(&ready, store.clone(), |platform, clock| {
        platform.with_records(Arc::new(RecordKeys { store, keys, clock }))
    })
    .await
}

/// The last step: the certificate is filed, and the audit has everything that becomes unreadable.
#[tokio::test]
async fn the_records_of_a_tenant_are_destroyed_last_and_only_after_they_are_in_the_audit() {
    let dir = tempfile::tempdir().unwrap();
    let id = ExecutionId::new(Timestamp(1), [7; 10]);
    let stage = stage(dir.path(), id).await;
    let pace = Pace { entries: 1_000, every: engine::MINUTE };
    let auditor = Auditor::new(stage.engine.clone(), stage.engine.platform().signer.clone(), pace);
    let key = dir.path().join("acme.key");

    while stage.state().await.0 != "DestroyingRecords" {
        stage.step().await;
    }
    for _ in 0..20 {
        stage.step().await;
    }
    assert_eq!(stage.state().await.0, "DestroyingRecords", "the audit has stored nothing yet");
    assert!(stage.certificate().await.signature.is_some());
    assert!(key.exists());
    assert!(Undecryptable::from_body(&stage.store.load(id).await.unwrap().unwrap().body).is_none());

    while auditor.seal().await.unwrap() > 0 {}
    assert_eq!(stage.to_rest().await, ("Closed".into(), "finished".into()), "{}", stage.trouble().await);

    assert!(!key.exists());
    let gone = stage.store.load(id).await.unwrap().unwrap();
    assert_eq!((gone.tenant.as_str(), gone.workflow.as_str()), ("acme", "onboarding"), "it is still listed");
    let said = Undecryptable::from_body(&gone.body).unwrap();
    assert!(said.destroyed_at.is_some_and(|at| at <= stage.clock.now()), "{said}");
    let history = stage.store.journal(id, None, 1).await.unwrap().items.remove(0);
    assert!(Undecryptable::from_body(&history.detail).is_some());

    let shown = stage.engine.execution(stage.id).await.unwrap().1.body;
    assert_eq!(shown["data"]["record_keys"][0], said.key, "the record names the key");
    assert!(stage.certificate().await.signature.is_some());
    assert!(!stage.records().await.is_empty(), "the evidence stays");
    let told = audit::entries(&*stage.store, Some("acme"), None, 100).await.unwrap().items;
    assert!(told.iter().any(|entry| entry.execution == Some(id.to_string())), "the audit entries stay");
}
