//! Exactly the due executions are erased, also after an interruption between any two commits.

use super::*;
use crate::{
    ManualClock,
    testing::{CrashPoint, CrashStore},
};
use serde_json::Value;
use std::{collections::BTreeSet, sync::Arc};
use store::{Document, Memory, Revision, Store, Task, TaskId, Write};

const DAY: u64 = 86_400_000;
const NOW: u64 = 1_000 * DAY;

fn id(n: u64) -> ExecutionId {
    ExecutionId::new(Timestamp(n), [9; 10])
}

struct Made {
    n: u64,
    ended: u64,
    open: bool,
    workflow: &'static str,
    entries: u64,
    body: Value,
}

fn finished_at(n: u64, ended: u64) -> Made {
    Made { n, ended, open: false, workflow: "onboarding", entries: 3, body: json!({}) }
}

async fn write(store: &dyn Store, made: Made) {
    let record = Record {
        id: id(made.n),
        revision: Revision(0),
        workflow: made.workflow.into(),
        schema: 1,
        tenant: "acme".into(),
        subject: "tenant/acme".into(),
        guard: None,
        state: "Active".into(),
        phase: if made.open { "forward".into() } else { "finished".into() },
        reason: Some("completed".into()),
        open: made.open,
        requested_by: "ada".into(),
        created_at: Timestamp(made.n),
        updated_at: Timestamp(made.ended),
        body: serde_json::to_vec(&made.body).unwrap(),
        attributes: Default::default(),
    };
    let entry = |_| Entry {
        sequence: Sequence(0),
        execution: id(made.n),
        at: Timestamp(made.ended),
        actor: "ada".into(),
        event: "settled".into(),
        from: "A".into(),
        to: "B".into(),
        detail: b"{}".to_vec(),
    };
    let evidence =
        Put { key: Key::new(collection::CLOSED, format!("{}.1", id(made.n))), body: Some(b"{}".to_vec()) };
    let link = Put {
        key: Key::new(collection::CHILDREN, format!("{}/A/0", id(made.n))),
        body: Some(b"{}".to_vec()),
    };
    let head = Put { key: Parent::head(id(made.n)), body: Some(b"{}".to_vec()) };
    let commit = Commit {
        record: Some(Write { record, expected: None }),
        journal: (0..made.entries).map(entry).collect(),
        documents: vec![evidence, link, head],
        ..Commit::default()
    };
    store.commit(commit).await.unwrap();
}

/// Stores due executions, one of them with a long history, and for each reason one execution that is not due.
async fn stage(store: &dyn Store) -> BTreeSet<ExecutionId> {
    let parent = |of: u64| json!({ "parent": { "execution": id(of), "state": "A", "entered": 1, "slot": 0, "attempt": 0 } });
    let old = NOW - 401 * DAY;
    write(store, finished_at(1, old)).await;
    write(store, Made { entries: 2_500, ..finished_at(2, old) }).await;
    write(store, Made { open: true, ..finished_at(3, old) }).await;
    write(store, Made { body: parent(3), ..finished_at(4, old) }).await;
    write(store, Made { body: parent(1), ..finished_at(5, old) }).await;
    write(store, finished_at(6, NOW - 399 * DAY)).await;
    write(store, Made { workflow: "offboarding", ..finished_at(7, old) }).await;
    write(store, Made { entries: 0, ..finished_at(8, old) }).await;
    write(store, finished_at(9, old)).await;
    let task = TaskId { execution: id(9), visit: 1, slot: 0 };
    let work = Task { id: task, due: Timestamp(NOW), body: vec![] };
    store.commit(Commit { schedule: vec![work], ..Commit::default() }).await.unwrap();
    write(store, finished_at(NOW - 2 * DAY, NOW - DAY)).await;
    [1, 2, 5, 8].map(id).into()
}

fn policy() -> RetentionPolicy {
    RetentionPolicy {
        default: Some(Duration::from_millis(400 * DAY)),
        by_workflow: [("offboarding".to_owned(), None)].into(),
        ..RetentionPolicy::default()
    }
}

fn engine(store: Arc<dyn Store>) -> Engine<()> {
    Engine::new(store, Arc::new(ManualClock::starting_at(Timestamp(NOW))), ())
}

/// Runs until nothing more is found, in batches of two.
async fn run(engine: &Engine<()>, erase: bool) -> Result<Vec<ExpiredExecution>, Error> {
    let (mut all, mut after) = (Vec::new(), None);
    loop {
        let found = engine.expire(&policy(), |_, _| true, after, 2, erase).await?;
        all.extend(found.examined);
        after = found.next;
        if after.is_none() {
            return Ok(all);
        }
    }
}

async fn remaining(store: &dyn Store) -> BTreeSet<ExecutionId> {
    let all = store.list(&Filter::default(), None, usize::MAX).await.unwrap();
    all.items.into_iter().map(|record| record.id).collect()
}

/// Returns the number of documents about the children of an execution.
async fn links(store: &dyn Store, of: ExecutionId) -> usize {
    store.documents(collection::CHILDREN, &of.to_string(), None, 10).await.unwrap().items.len()
}

async fn evidence(store: &dyn Store) -> Vec<Document> {
    store.documents(collection::CLOSED, "", None, usize::MAX).await.unwrap().items
}

/// S59.
#[tokio::test]
async fn due_executions_are_erased_with_history_and_links_and_nothing_else() {
    let store = Arc::new(Memory::new());
    let due = stage(&*store).await;
    let (before, proofs) = (remaining(&*store).await, evidence(&*store).await);
    let engine = engine(store.clone());

    let told = run(&engine, true).await.unwrap();

    let went: BTreeSet<_> =
        told.iter().filter(|one| one.kept_reason.is_none()).map(|one| one.record.id).collect();
    assert_eq!(went, due);
    assert_eq!(remaining(&*store).await, before.difference(&due).copied().collect());
    assert_eq!(evidence(&*store).await, proofs, "votes and closed approvals outlive executions");
    for gone in &due {
        assert_eq!(store.journal(*gone, None, 10).await.unwrap().items, []);
        assert_eq!(links(&*store, *gone).await, 0);
    }
    for stays in remaining(&*store).await {
        assert_eq!(links(&*store, stays).await, 2, "{stays}");
    }
    let stays: Vec<_> =
        told.iter().filter_map(|one| one.kept_reason.map(|why| (one.record.id, why))).collect();
    assert_eq!(stays, [(id(4), why::PARENT), (id(9), why::WORK)]);
    let noted = store.journal(crate::AuditContext::no_execution(), None, 10).await.unwrap().items;
    assert_eq!(noted.len(), due.len(), "the global history records the erased executions");
    assert!(
        store.journal(id(3), None, 10).await.unwrap().items.len() == 3,
        "an open execution keeps its history"
    );
}

/// S59.
#[tokio::test]
async fn the_next_run_completes_an_erasure_that_was_interrupted_after_any_commit() {
    let mut nth = 1;
    loop {
        let inner = Arc::new(Memory::new());
        let due = stage(&*inner).await;
        let before = remaining(&*inner).await;
        let mut cut_once = false;
        for cut in [CrashPoint::Before(nth), CrashPoint::After(nth)] {
            let store = Arc::new(CrashStore::new(inner.clone(), Some(cut)));
            assert_eq!(run(&engine(store.clone()), true).await.is_err(), store.is_dead());
            cut_once |= store.is_dead();
            let half = remaining(&*inner).await;
            assert!(
                before.difference(&half).all(|gone| due.contains(gone)),
                "only due executions are erased"
            );
        }
        run(&engine(inner.clone()), true).await.unwrap();
        assert_eq!(remaining(&*inner).await, before.difference(&due).copied().collect());
        if !cut_once {
            break;
        }
        nth += 1;
    }
    assert!(nth > 6, "only {nth} commits were cut");
}

#[tokio::test]
async fn a_dry_run_lists_due_executions_and_changes_nothing() {
    let store = Arc::new(Memory::new());
    stage(&*store).await;
    let (before, sequence) = (remaining(&*store).await, store.health().await.sequence);
    let engine = engine(store.clone());

    let would = run(&engine, false).await.unwrap();

    assert_eq!((remaining(&*store).await, store.health().await.sequence), (before, sequence));
    assert_eq!(run(&engine, true).await.unwrap(), would);
}

/// S59, S60.
#[tokio::test]
async fn an_execution_with_unsealed_history_is_never_erased() {
    let store = Arc::new(Memory::new());
    let due = stage(&*store).await;
    let engine = engine(store.clone());
    let before = remaining(&*store).await;
    let none = engine.expire(&policy(), |_, _| false, None, 100, true).await.unwrap();
    let empty = id(8);
    assert!(none.examined.iter().all(|one| one.kept_reason.is_some() || one.record.id == empty));
    assert_eq!(remaining(&*store).await, before.into_iter().filter(|id| *id != empty).collect());

    let last = store.journal(id(1), None, 10).await.unwrap().items.last().unwrap().sequence;
    engine.expire(&policy(), |_, upto| upto <= last, None, 100, true).await.unwrap();
    let gone: BTreeSet<_> = due.difference(&remaining(&*store).await).copied().collect();
    assert_eq!(gone, [id(1), empty].into());

    // Sealed from its first entry, but not to its last.
    let late = store.journal(id(2), None, 1).await.unwrap().items.remove(0);
    let unsealed = store.commit(Commit { journal: vec![late], ..Commit::default() }).await.unwrap().sequence;
    engine.expire(&policy(), |_, upto| upto < unsealed, None, 100, true).await.unwrap();
    let gone: BTreeSet<_> = due.difference(&remaining(&*store).await).copied().collect();
    assert_eq!(gone, [id(1), id(5), empty].into());
}

#[tokio::test]
async fn nothing_is_erased_if_everything_is_retained() {
    let store = Arc::new(Memory::new());
    stage(&*store).await;
    let found =
        engine(store).expire(&RetentionPolicy::default(), |_, _| true, None, 100, true).await.unwrap();
    assert_eq!(found, ExpiryBatch::default());
}
