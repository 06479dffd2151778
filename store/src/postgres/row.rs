//! Numbers and rows between here and the database.

use crate::{
    Attributes, Document, Entry, ExecutionId, Key, Record, Revision, Sequence, Task, TaskId, Timestamp,
};
use sqlx::{Row as _, postgres::PgRow, types::Json};
use uuid::Uuid;

/// The database has signed 64-bit numbers. Larger ones mean never.
pub(super) fn to_i64(number: u64) -> i64 {
    i64::try_from(number).unwrap_or(i64::MAX)
}

pub(super) fn to_u64(number: i64) -> u64 {
    if number == i64::MAX { u64::MAX } else { u64::try_from(number).unwrap_or_default() }
}

pub(super) fn to_u32(number: i64) -> u32 {
    u32::try_from(number).unwrap_or(u32::MAX)
}

pub(super) fn to_uuid(id: ExecutionId) -> Uuid {
    Uuid::from_bytes(*id.as_bytes())
}

pub(super) fn to_execution_id(id: Uuid) -> ExecutionId {
    ExecutionId::from_bytes(*id.as_bytes())
}

pub(super) const RECORD: &str = "id, revision, workflow, schema, tenant, subject, guard, state, phase, reason, open, \
    requested_by, created_at, updated_at, attributes, body";

pub(super) fn record(row: &PgRow) -> Result<Record, sqlx::Error> {
    Ok(Record {
        id: to_execution_id(row.try_get("id")?),
        revision: Revision(to_u64(row.try_get("revision")?)),
        workflow: row.try_get("workflow")?,
        schema: to_u32(row.try_get("schema")?),
        tenant: row.try_get("tenant")?,
        subject: row.try_get("subject")?,
        guard: row.try_get("guard")?,
        state: row.try_get("state")?,
        phase: row.try_get("phase")?,
        reason: row.try_get("reason")?,
        open: row.try_get("open")?,
        requested_by: row.try_get("requested_by")?,
        created_at: Timestamp(to_u64(row.try_get("created_at")?)),
        updated_at: Timestamp(to_u64(row.try_get("updated_at")?)),
        attributes: row.try_get::<Json<Attributes>, _>("attributes")?.0,
        body: row.try_get("body")?,
    })
}

pub(super) fn entry(row: &PgRow) -> Result<(u32, Entry), sqlx::Error> {
    let entry = Entry {
        sequence: Sequence(to_u64(row.try_get("sequence")?)),
        execution: to_execution_id(row.try_get("execution")?),
        at: Timestamp(to_u64(row.try_get("at")?)),
        actor: row.try_get("actor")?,
        event: row.try_get("event")?,
        from: row.try_get("from_state")?,
        to: row.try_get("to_state")?,
        detail: row.try_get("detail")?,
    };
    Ok((to_u32(row.try_get("place")?), entry))
}

pub(super) fn document(row: &PgRow) -> Result<Document, sqlx::Error> {
    Ok(Document {
        key: Key { collection: row.try_get("collection")?, id: row.try_get("id")? },
        version: Sequence(to_u64(row.try_get("version")?)),
        body: row.try_get("body")?,
    })
}

pub(super) fn task_id(row: &PgRow) -> Result<TaskId, sqlx::Error> {
    Ok(TaskId {
        execution: to_execution_id(row.try_get("execution")?),
        visit: to_u32(row.try_get("visit")?),
        slot: to_u32(row.try_get("slot")?),
    })
}

pub(super) fn task(row: &PgRow) -> Result<Task, sqlx::Error> {
    Ok(Task { id: task_id(row)?, due: Timestamp(to_u64(row.try_get("due")?)), body: row.try_get("body")? })
}

/// The first `limit` items of one more, and the cursor of the last if there is more.
pub(super) fn page<T, C>(mut items: Vec<T>, limit: usize, cursor: impl Fn(&T) -> C) -> crate::Page<T, C> {
    let more = limit > 0 && items.len() > limit;
    items.truncate(limit);
    let next = if more { items.last().map(cursor) } else { None };
    crate::Page { items, next }
}

/// Returns one more than requested, for the database.
pub(super) fn and_one(limit: usize) -> i64 {
    i64::try_from(limit.saturating_add(1)).unwrap_or(i64::MAX)
}
