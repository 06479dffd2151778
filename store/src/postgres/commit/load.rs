//! Loads the rows that a batch touches, so that it can be decided by the rules of the reference store.

use crate::{
    Attributes, Commit, Document, Entry, Epoch, ExecutionId, Key, Record, Revision, Sequence, Task, TaskId,
    Timestamp,
    memory::{ActiveLease, State, TaskState},
    postgres::row::{self, to_execution_id, to_u32, to_u64, to_uuid},
};
use sqlx::{PgConnection, Row as _};
use std::collections::{BTreeMap, BTreeSet};
use uuid::Uuid;

const RECORDS: &str = "SELECT id, revision, tenant, guard, open FROM executions WHERE id = ANY($1)";
const GUARDS: &str = "SELECT guard, id FROM executions WHERE open AND guard = ANY($1)";
const DOCUMENTS: &str = "SELECT d.collection, d.id, d.version \
    FROM unnest($1::text[], $2::text[]) k(collection, id) JOIN documents d USING (collection, id)";
/// Each by its key, whatever the database estimates for the table's size: it has few rows and, between two vacuums,
/// thousands of pages of dead ones.
const TASKS: &str = "SELECT t.execution, t.visit, t.slot, t.due, t.deliveries, t.holder, t.epoch, t.until \
    FROM unnest($1::uuid[], $2::bigint[], $3::bigint[]) w(execution, visit, slot) CROSS JOIN LATERAL (SELECT * FROM tasks t \
    WHERE t.execution = w.execution AND t.visit = w.visit AND t.slot = w.slot OFFSET 0) t";
/// Tasks that are rescheduled and not removed: leases are taken without the lock of commits.
const LOCKED_TASKS: &str = "SELECT t.execution, t.visit, t.slot, t.due, t.deliveries, t.holder, t.epoch, t.until \
    FROM unnest($1::uuid[], $2::bigint[], $3::bigint[]) w(execution, visit, slot) \
    JOIN tasks t USING (execution, visit, slot) ORDER BY t.execution, t.visit, t.slot FOR UPDATE OF t";
const OLDEST: &str =
    "SELECT sequence, place FROM journal WHERE execution = $1 ORDER BY sequence, place LIMIT $2";

/// The keys that a batch names.
#[derive(Default)]
struct BatchKeys<'a> {
    executions: BTreeSet<ExecutionId>,
    guards: BTreeSet<(ExecutionId, &'a str)>,
    documents: BTreeSet<&'a Key>,
    tasks: BTreeSet<TaskId>,
    scheduled: BTreeSet<TaskId>,
    erased: BTreeMap<ExecutionId, usize>,
}

impl<'a> BatchKeys<'a> {
    fn from_commits(commits: impl Iterator<Item = &'a Commit>) -> Self {
        let mut named = Self::default();
        for commit in commits {
            if let Some(write) = &commit.record {
                named.executions.insert(write.record.id);
                named.guards.extend(write.record.guard.as_deref().map(|guard| (write.record.id, guard)));
            }
            named.documents.extend(commit.reads.iter().map(|read| &read.key));
            named.documents.extend(commit.documents.iter().map(|put| &put.key));
            named.tasks.extend(commit.settle.iter().map(|settle| settle.task));
            named.tasks.extend(commit.retire.iter().copied());
            named.tasks.extend(commit.schedule.iter().map(|task| task.id));
            named.scheduled.extend(commit.schedule.iter().map(|task| task.id));
            // The tenant of a task is that of its execution.
            named.executions.extend(commit.schedule.iter().map(|task| task.id.execution));
            if let Some(erase) = &commit.erase {
                named.executions.insert(erase.execution);
                let most = named.erased.entry(erase.execution).or_default();
                *most = most.saturating_add(erase.entries);
            }
        }
        named
    }
}

/// Returns the state for the decisions on `commits` at `sequence`: the rows they name, without bodies.
pub(crate) async fn load<'a>(
    on: &mut PgConnection,
    sequence: Sequence,
    commits: impl Iterator<Item = &'a Commit>,
) -> Result<State, sqlx::Error> {
    let named = BatchKeys::from_commits(commits);
    let mut state = State { sequence, ..State::default() };
    load_records(on, &named, &mut state).await?;
    load_documents(on, &named, &mut state).await?;
    load_tasks(on, TASKS, &named.tasks, &mut state).await?;
    let again = named.scheduled.iter().filter(|id| state.tasks.contains_key(id)).copied().collect();
    load_tasks(on, LOCKED_TASKS, &again, &mut state).await?;
    for (id, entries) in &named.erased {
        let most = i64::try_from(entries.saturating_add(1)).unwrap_or(i64::MAX);
        let rows = sqlx::query(OLDEST).bind(to_uuid(*id)).bind(most).fetch_all(&mut *on).await?;
        for found in rows {
            let at = (Sequence(to_u64(found.try_get("sequence")?)), to_u32(found.try_get("place")?));
            state.order.insert(at, *id);
            state.entries.insert((*id, at.0, at.1), placeholder_entry(*id, at.0));
        }
    }
    Ok(state)
}

async fn load_records(
    on: &mut PgConnection,
    named: &BatchKeys<'_>,
    state: &mut State,
) -> Result<(), sqlx::Error> {
    if named.executions.is_empty() {
        return Ok(());
    }
    let ids: Vec<Uuid> = named.executions.iter().map(|id| to_uuid(*id)).collect();
    for found in sqlx::query(RECORDS).bind(ids).fetch_all(&mut *on).await? {
        let record = Record {
            revision: Revision(to_u64(found.try_get("revision")?)),
            tenant: found.try_get("tenant")?,
            guard: found.try_get("guard")?,
            open: found.try_get("open")?,
            ..placeholder_record(to_execution_id(found.try_get("id")?))
        };
        if let Some(guard) = record.guard.clone().filter(|_| record.open) {
            state.guards.insert(guard, record.id);
        }
        state.records.insert(record.id, record);
    }
    // A row that is locked already has only one holder.
    let holds = |id: &ExecutionId, guard: &str| {
        state.records.get(id).is_some_and(|record| record.open && record.guard.as_deref() == Some(guard))
    };
    let guards: Vec<&str> =
        named.guards.iter().filter(|(id, guard)| !holds(id, guard)).map(|(_, guard)| *guard).collect();
    if guards.is_empty() {
        return Ok(());
    }
    for found in sqlx::query(GUARDS).bind(guards).fetch_all(&mut *on).await? {
        state.guards.insert(found.try_get("guard")?, to_execution_id(found.try_get("id")?));
    }
    Ok(())
}

async fn load_documents(
    on: &mut PgConnection,
    named: &BatchKeys<'_>,
    state: &mut State,
) -> Result<(), sqlx::Error> {
    if named.documents.is_empty() {
        return Ok(());
    }
    let collections: Vec<&str> = named.documents.iter().map(|key| key.collection.as_str()).collect();
    let ids: Vec<&str> = named.documents.iter().map(|key| key.id.as_str()).collect();
    for found in sqlx::query(DOCUMENTS).bind(collections).bind(ids).fetch_all(&mut *on).await? {
        let key = Key { collection: found.try_get("collection")?, id: found.try_get("id")? };
        let version = Sequence(to_u64(found.try_get("version")?));
        state.documents.insert(key.clone(), Document { key, version, body: Vec::new() });
    }
    Ok(())
}

async fn load_tasks(
    on: &mut PgConnection,
    sql: &'static str,
    ids: &BTreeSet<TaskId>,
    state: &mut State,
) -> Result<(), sqlx::Error> {
    if ids.is_empty() {
        return Ok(());
    }
    let executions: Vec<Uuid> = ids.iter().map(|id| to_uuid(id.execution)).collect();
    let visits: Vec<i64> = ids.iter().map(|id| i64::from(id.visit)).collect();
    let slots: Vec<i64> = ids.iter().map(|id| i64::from(id.slot)).collect();
    for found in sqlx::query(sql).bind(executions).bind(visits).bind(slots).fetch_all(&mut *on).await? {
        let epoch: Option<i64> = found.try_get("epoch")?;
        let grip = match epoch {
            Some(epoch) => Some(ActiveLease {
                holder: found.try_get::<Option<String>, _>("holder")?.unwrap_or_default(),
                epoch: Epoch(to_u64(epoch)),
                until: Timestamp(to_u64(found.try_get::<Option<i64>, _>("until")?.unwrap_or_default())),
            }),
            None => None,
        };
        let id = row::task_id(&found)?;
        let due = Timestamp(to_u64(found.try_get("due")?));
        let deliveries = to_u32(found.try_get("deliveries")?);
        state
            .tasks
            .insert(id, TaskState { task: Task { id, due, body: Vec::new() }, deliveries, lease: grip });
    }
    Ok(())
}

/// Returns a record of which only the id is known.
fn placeholder_record(id: ExecutionId) -> Record {
    Record {
        id,
        revision: Revision::default(),
        workflow: String::new(),
        schema: 0,
        tenant: String::new(),
        subject: String::new(),
        guard: None,
        state: String::new(),
        phase: String::new(),
        reason: None,
        open: false,
        requested_by: String::new(),
        created_at: Timestamp::default(),
        updated_at: Timestamp::default(),
        attributes: Attributes::new(),
        body: Vec::new(),
    }
}

/// Represents an entry of which only the place matters.
fn placeholder_entry(execution: ExecutionId, sequence: Sequence) -> Entry {
    let none = String::new;
    Entry {
        sequence,
        execution,
        at: Timestamp::default(),
        actor: none(),
        event: none(),
        from: none(),
        to: none(),
        detail: Vec::new(),
    }
}
