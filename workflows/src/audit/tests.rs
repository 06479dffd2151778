//! Tests of the audit with journals created for them.

mod damage;
mod newest;
mod rendering;
mod sealing;
mod vector;

use super::*;
use crate::signing::{PublicKey, SigningKey};
use engine::{Engine, ManualClock};
use serde_json::{Value, json};
use std::sync::Arc;
use store::{Commit, ExecutionId, Memory, Record, Revision, Sequence, Store, Timestamp, Write};

/// 2026-11-21T13:08:11.000Z.
const NOON: u64 = 1_795_266_491_000;

fn key() -> SigningKey {
    SigningKey::from_seed([7; 32]).unwrap()
}

fn public() -> Vec<PublicKey> {
    vec![key().public_key()]
}

fn id(n: u64) -> ExecutionId {
    ExecutionId::new(Timestamp(NOON + n), [5; 10])
}

fn record(n: u64, tenant: &str) -> Record {
    Record {
        id: id(n),
        revision: Revision(0),
        workflow: "onboarding".into(),
        schema: 1,
        tenant: tenant.into(),
        subject: format!("tenant/{tenant}"),
        guard: None,
        state: "Registering".into(),
        phase: "forward".into(),
        reason: None,
        open: true,
        requested_by: "ada".into(),
        created_at: Timestamp(NOON),
        updated_at: Timestamp(NOON),
        attributes: Default::default(),
        body: b"{}".to_vec(),
    }
}

/// Sorts the keys of `detail`, so that builds with and without `preserve_order` write the same bytes.
fn entry(n: u64, actor: &str, event: &str, detail: &Value) -> store::Entry {
    let mut detail = detail.clone();
    detail.sort_all_objects();
    store::Entry {
        sequence: Sequence(0),
        execution: id(n),
        at: Timestamp(NOON + n * 1_000),
        actor: actor.into(),
        event: event.into(),
        from: "AwaitingApproval".into(),
        to: "Registering".into(),
        detail: serde_json::to_vec(&detail).unwrap(),
    }
}

async fn begin(store: &dyn Store, n: u64, tenant: &str) {
    let write = Write { record: record(n, tenant), expected: None };
    let started = entry(n, "ada", "started", &json!({ "event": "started" }));
    let commit = Commit { record: Some(write), journal: vec![started], ..Commit::default() };
    store.commit(commit).await.unwrap();
}

async fn note(store: &dyn Store, entries: Vec<store::Entry>) {
    store.commit(Commit { journal: entries, ..Commit::default() }).await.unwrap();
}

fn auditor_on(store: Arc<dyn Store>) -> Auditor<()> {
    let clock = Arc::new(ManualClock::starting_at(Timestamp(NOON + 3_600_000)));
    let engine = Engine::new(store, clock, ());
    Auditor::new(engine, Arc::new(key()), Pace::default())
}

/// Returns a store with two checkpoints over four entries of acme, with one entry of another tenant between them.
async fn stage() -> (Arc<Memory>, Auditor<()>) {
    let store = Arc::new(Memory::new());
    let auditor = auditor_on(store.clone());
    begin(&*store, 1, "acme").await;
    begin(&*store, 2, "zeta").await;
    let vote = json!({ "event": { "voted": {
        "vote": { "person": { "name": "bob", "roles": ["platform_ops"] }, "verdict": "approve", "reason": "order 4711", "at": NOON },
        "digest": "sha256:00" } } });
    note(&*store, vec![entry(1, "bob", "voted", &vote)]).await;
    auditor.catch_up().await.unwrap();
    assert!(!auditor.checkpoint().await.unwrap(), "the first checkpoint was due at once");
    note(
        &*store,
        vec![entry(1, "engine", "settled", &json!({ "event": { "settled": { "result": { "Ok": null } } } }))],
    )
    .await;
    let order = json!({ "event": { "cancel_requested": { "by": "ada", "reason": "not needed" } } });
    note(&*store, vec![entry(1, "ada", "cancel_requested", &order)]).await;
    (store, auditor)
}

async fn exported() -> String {
    let (_, auditor) = stage().await;
    export(&auditor, "acme", Period::default()).await.unwrap()
}
