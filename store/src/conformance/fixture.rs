//! Helpers to build commits and check results.

use super::case::{CaseFn, Outcome, Running};
use crate::{
    Commit, Entry, Error, ExecutionId, Key, Lease, Put, Read, Receipt, Record, Revision, Sequence, Settle,
    Store, Task, TaskId, Timestamp, Write,
};
use std::{fmt::Debug, sync::Arc, time::Duration};

pub(super) type On = Arc<dyn Store>;

/// How long the leases of the cases last.
pub(super) const TTL: Duration = Duration::from_millis(100);

/// Turns an error of a step that must succeed into the case's outcome.
pub(super) fn expect_ok<T>(result: Result<T, Error>) -> Result<T, String> {
    result.map_err(|error| format!("a step that must succeed failed: {error}"))
}

/// Holds when both sides are equal.
pub(super) fn same<T: PartialEq + Debug>(what: &str, seen: T, wanted: T) -> Outcome {
    if seen == wanted { Ok(()) } else { Err(format!("{what}: saw {seen:?} instead of {wanted:?}")) }
}

pub(super) fn expect_true(what: &str, is: bool) -> Outcome {
    if is { Ok(()) } else { Err(format!("{what}: it is not so")) }
}

/// Holds when `result` was refused in the way that `is` accepts.
pub(super) fn refused<T: Debug>(result: Result<T, Error>, is: fn(&Error) -> bool) -> Outcome {
    match result {
        Err(error) if is(&error) => Ok(()),
        Err(error) => Err(format!("refused for another reason: {error}")),
        Ok(value) => Err(format!("accepted: {value:?}")),
    }
}

pub(super) fn conflict(error: &Error) -> bool {
    matches!(error, Error::Conflict { .. })
}

pub(super) fn busy(error: &Error) -> bool {
    matches!(error, Error::Busy { .. })
}

pub(super) fn fenced(error: &Error) -> bool {
    matches!(error, Error::Fenced { .. })
}

pub(super) fn too_large(error: &Error) -> bool {
    matches!(error, Error::TooLarge { .. })
}

pub(super) fn invalid(error: &Error) -> bool {
    matches!(error, Error::Invalid { .. })
}

/// The `n`th execution's id; ids sort by `n`.
pub(super) fn id(n: u64) -> ExecutionId {
    ExecutionId::new(Timestamp(n), [7; 10])
}

pub(super) fn record(n: u64) -> Record {
    Record {
        id: id(n),
        revision: Revision(0),
        workflow: "onboarding".into(),
        schema: 1,
        tenant: "acme".into(),
        subject: format!("tenant/t-{n}"),
        guard: None,
        state: "Reviewing".into(),
        phase: "forward".into(),
        reason: None,
        open: true,
        requested_by: "ada".into(),
        created_at: Timestamp(n),
        updated_at: Timestamp(n),
        attributes: crate::Attributes::new(),
        body: format!("{{\"n\":{n}}}").into_bytes(),
    }
}

pub(super) fn create(record: Record) -> Commit {
    Commit { record: Some(Write { record, expected: None }), ..Commit::default() }
}

pub(super) fn update(record: Record, expected: u64) -> Commit {
    Commit { record: Some(Write { record, expected: Some(Revision(expected)) }), ..Commit::default() }
}

pub(super) fn key(id: &str) -> Key {
    Key::new("nodes", id)
}

pub(super) fn put(id: &str, body: &str) -> Commit {
    puts(&[(id, Some(body))])
}

pub(super) fn delete(id: &str) -> Commit {
    puts(&[(id, None)])
}

pub(super) fn puts(puts: &[(&str, Option<&str>)]) -> Commit {
    let put = |(id, body): &(&str, Option<&str>)| Put {
        key: key(id),
        body: body.map(|body| body.as_bytes().to_vec()),
    };
    Commit { documents: puts.iter().map(put).collect(), ..Commit::default() }
}

/// `commit`, on the condition that document `id` is still at `version`.
pub(super) fn having_read(id: &str, version: Option<Sequence>, commit: Commit) -> Commit {
    Commit { reads: vec![Read { key: key(id), version }], ..commit }
}

pub(super) fn entry(n: u64, event: &str) -> Entry {
    Entry {
        sequence: Sequence(0),
        execution: id(n),
        at: Timestamp(5),
        actor: "engine".into(),
        event: event.into(),
        from: "Reviewing".into(),
        to: "Carving".into(),
        detail: b"{}".to_vec(),
    }
}

pub(super) fn entries(entries: Vec<Entry>) -> Commit {
    Commit { journal: entries, ..Commit::default() }
}

pub(super) fn task_id(n: u64, slot: u32) -> TaskId {
    TaskId { execution: id(n), visit: 1, slot }
}

pub(super) fn task(n: u64, slot: u32, due: u64) -> Task {
    Task { id: task_id(n, slot), due: Timestamp(due), body: format!("do {n}/{slot}").into_bytes() }
}

pub(super) fn schedule(schedule: Vec<Task>) -> Commit {
    Commit { schedule, ..Commit::default() }
}

pub(super) fn settle(lease: &Lease) -> Commit {
    Commit { settle: Some(Settle { task: lease.task.id, epoch: lease.epoch }), ..Commit::default() }
}

pub(super) async fn commit(on: &On, commit: Commit) -> Result<Receipt, String> {
    expect_ok(on.commit(commit).await)
}

/// Leases all tasks at `now`.
pub(super) async fn lease(on: &On, now: u64) -> Result<Vec<Lease>, String> {
    expect_ok(on.lease("worker", Timestamp(now), TTL, 100).await)
}

/// Leases at `now` exactly one task.
pub(super) async fn lease_one(on: &On, now: u64) -> Result<Lease, String> {
    let mut leases = lease(on, now).await?;
    match (leases.pop(), leases.len()) {
        (Some(lease), 0) => Ok(lease),
        (Some(_), more) => Err(format!("leased {} tasks instead of one", more + 1)),
        (None, _) => Err("leased no task instead of one".into()),
    }
}

pub(super) async fn body_of(on: &On, id: &str) -> Result<Option<String>, String> {
    let document = expect_ok(on.document(&key(id)).await)?;
    Ok(document.map(|document| String::from_utf8_lossy(&document.body).into_owned()))
}

/// Makes a [`CaseFn`] of an async function; a function pointer per case keeps the list free of macros.
pub(super) fn boxed(case: impl Future<Output = Outcome> + Send + 'static) -> Running {
    Box::pin(case)
}

pub(super) type Named = (&'static str, CaseFn);
