//! Writes the changes of a batch, with one statement for each table.

use crate::{
    Commit, Entry, Epoch, ExecutionId, Key, Record, Sequence, TaskId,
    memory::{State, TaskState},
    postgres::row::{to_i64, to_uuid},
};
use sqlx::{PgConnection, types::Json};
use std::collections::{BTreeMap, BTreeSet};
use uuid::Uuid;

const INSERT_RECORDS: &str = "\
WITH n AS (
    SELECT * FROM unnest($1::uuid[], $2::bigint[], $3::text[], $4::bigint[], $5::text[], $6::text[], $7::text[], $8::text[],
        $9::text[], $10::text[], $11::boolean[], $12::text[], $13::bigint[], $14::bigint[], $15::jsonb[], $16::bytea[])
    AS n (id, revision, workflow, schema, tenant, subject, guard, state, phase, reason, open, requested_by, created_at,
        updated_at, attributes, body)
), stands AS (
    INSERT INTO standing (id, state, updated_at) SELECT id, state, updated_at FROM n
)
INSERT INTO executions (id, revision, workflow, schema, tenant, subject, guard, state, phase, reason, open, requested_by,
    created_at, updated_at, attributes, body) SELECT * FROM n";
/// Existing rows are found by their key through the conflict: a plan made for a small table, with a full scan, would
/// be kept.
const UPDATE_RECORDS: &str = "\
WITH n AS (
    SELECT * FROM unnest($1::uuid[], $2::bigint[], $3::text[], $4::bigint[], $5::text[], $6::text[], $7::text[], $8::text[],
        $9::text[], $10::text[], $11::boolean[], $12::text[], $13::bigint[], $14::bigint[], $15::jsonb[], $16::bytea[])
    AS n (id, revision, workflow, schema, tenant, subject, guard, state, phase, reason, open, requested_by, created_at,
        updated_at, attributes, body)
), stands AS (
    INSERT INTO standing (id, state, updated_at) SELECT id, state, updated_at FROM n
    ON CONFLICT (id) DO UPDATE SET state = excluded.state, updated_at = excluded.updated_at
)
UPDATE executions e SET revision = n.revision, workflow = n.workflow, schema = n.schema, tenant = n.tenant,
    subject = n.subject, guard = n.guard, state = n.state, phase = n.phase, reason = n.reason, open = n.open,
    requested_by = n.requested_by, created_at = n.created_at, updated_at = n.updated_at, attributes = n.attributes,
    body = n.body
FROM n WHERE e.id = n.id";
const DELETE_RECORDS: &str =
    "WITH stands AS (DELETE FROM standing WHERE id = ANY($1)) DELETE FROM executions WHERE id = ANY($1)";
const UPSERT_DOCUMENTS: &str = "\
INSERT INTO documents (collection, id, version, body)
SELECT * FROM unnest($1::text[], $2::text[], $3::bigint[], $4::bytea[])
ON CONFLICT (collection, id) DO UPDATE SET version = excluded.version, body = excluded.body";
const DELETE_DOCUMENTS: &str = "DELETE FROM documents d USING unnest($1::text[], $2::text[]) k(collection, id) \
    WHERE d.collection = k.collection AND d.id = k.id";
const INSERT_JOURNAL: &str = "\
INSERT INTO journal (sequence, place, execution, at, actor, event, from_state, to_state, detail)
SELECT * FROM unnest($1::bigint[], $2::bigint[], $3::uuid[], $4::bigint[], $5::text[], $6::text[], $7::text[], $8::text[],
    $9::bytea[])";
const DELETE_JOURNAL: &str = "DELETE FROM journal j USING unnest($1::bigint[], $2::bigint[]) k(sequence, place) \
    WHERE j.sequence = k.sequence AND j.place = k.place";
const INSERT_TASKS: &str = "\
INSERT INTO tasks (execution, visit, slot, tenant, due, available, body, deliveries, holder, epoch, until)
SELECT * FROM unnest($1::uuid[], $2::bigint[], $3::bigint[], $4::text[], $5::bigint[], $6::bigint[], $7::bytea[],
    $8::bigint[], $9::text[], $10::bigint[], $11::bigint[])";
/// For tasks that are loaded under a lock, or imported.
const UPSERT_TASKS: &str = "\
INSERT INTO tasks (execution, visit, slot, tenant, due, available, body, deliveries, holder, epoch, until)
SELECT * FROM unnest($1::uuid[], $2::bigint[], $3::bigint[], $4::text[], $5::bigint[], $6::bigint[], $7::bytea[],
    $8::bigint[], $9::text[], $10::bigint[], $11::bigint[])
ON CONFLICT (execution, visit, slot) DO UPDATE SET tenant = excluded.tenant, due = excluded.due,
    available = excluded.available, body = excluded.body, deliveries = excluded.deliveries, holder = excluded.holder,
    epoch = excluded.epoch, until = excluded.until";
/// A lease may have changed since it was read; then fewer rows are deleted, and the batch is decided again. Rows are
/// found by their keys and locked there, so that exactly the read rows are deleted.
const DELETE_TASKS: &str = "\
DELETE FROM tasks WHERE ctid = ANY (ARRAY (
    SELECT t.ctid FROM unnest($1::uuid[], $2::bigint[], $3::bigint[], $4::bigint[]) k(execution, visit, slot, epoch)
    CROSS JOIN LATERAL (SELECT t.ctid FROM tasks t WHERE t.execution = k.execution AND t.visit = k.visit AND t.slot = k.slot
        AND (k.epoch IS NULL OR t.epoch = k.epoch) FOR UPDATE) t))";
/// Executions with tasks of another tenant: scheduled before the execution, or left behind by it.
const TASKS_OF_OTHER_TENANTS: &str = "SELECT k.execution, k.tenant FROM unnest($1::uuid[], $2::text[]) k(execution, tenant) \
    CROSS JOIN LATERAL (SELECT FROM tasks t WHERE t.execution = k.execution AND t.tenant <> k.tenant LIMIT 1) t";
const UPDATE_TENANTS: &str = "UPDATE tasks t SET tenant = k.tenant FROM unnest($1::uuid[], $2::text[]) k(execution, tenant) \
    WHERE t.execution = k.execution AND t.tenant <> k.tenant";
const UPDATE_HEAD: &str = "WITH batch AS (UPDATE engines SET batch = $2 WHERE id = $3) \
    UPDATE head SET sequence = $1 RETURNING CASE WHEN $5 THEN pg_notify($4, '') END";

/// The state before a batch.
#[derive(Debug, Default)]
pub(crate) struct Before {
    records: BTreeSet<ExecutionId>,
    /// With the epoch of the lease, if there is one.
    tasks: BTreeMap<TaskId, Option<Epoch>>,
    /// Entries that were loaded to be erased.
    entries: Vec<(Sequence, u32)>,
}

impl Before {
    pub(crate) fn from_state(state: &State) -> Self {
        let epoch = |held: &TaskState| held.lease.as_ref().map(|grip| grip.epoch);
        Self {
            records: state.records.keys().copied().collect(),
            tasks: state.tasks.iter().map(|(id, held)| (*id, epoch(held))).collect(),
            entries: state.order.keys().copied().collect(),
        }
    }
}

/// The rows that accepted commits have changed; their new content is in the state.
#[derive(Debug, Default)]
pub(crate) struct Touched {
    records: BTreeSet<ExecutionId>,
    documents: BTreeSet<Key>,
    tasks: BTreeSet<TaskId>,
    /// Settled leases, each with its epoch.
    settled: BTreeMap<TaskId, Epoch>,
    /// Executions whose tasks may have another tenant now.
    moved: BTreeSet<ExecutionId>,
    /// True if work was added or moved, so that other processes must look.
    pub(crate) scheduled: bool,
}

impl Touched {
    pub(crate) fn record(&mut self, id: ExecutionId) {
        self.records.insert(id);
    }

    pub(crate) fn document(&mut self, key: Key) {
        self.documents.insert(key);
    }

    pub(crate) fn task(&mut self, id: TaskId) {
        self.tasks.insert(id);
    }

    /// Records in `before` what `commit` is about to change.
    pub(crate) fn add_commit(&mut self, commit: &Commit, before: &State) {
        if let Some(write) = &commit.record {
            let id = write.record.id;
            if before.records.get(&id).is_none_or(|former| former.tenant != write.record.tenant) {
                self.moved.insert(id);
            }
            self.records.insert(id);
        }
        self.documents.extend(commit.documents.iter().map(|put| put.key.clone()));
        self.tasks.extend(commit.settle.iter().map(|settle| settle.task));
        self.settled.extend(commit.settle.iter().map(|settle| (settle.task, settle.epoch)));
        self.tasks.extend(commit.retire.iter().copied());
        self.tasks.extend(commit.schedule.iter().map(|task| task.id));
        self.scheduled |= !commit.schedule.is_empty();
        if let Some(erase) = &commit.erase {
            self.records.insert(erase.execution);
            self.moved.insert(erase.execution);
        }
    }
}

/// Writes all changed rows from `state`. `from` is the last commit before the batch. Returns false if a lease has
/// changed since it was read: the transaction must then be rolled back.
pub(crate) async fn save(
    on: &mut PgConnection,
    state: &State,
    touched: &Touched,
    from: Sequence,
    before: &Before,
) -> Result<bool, sqlx::Error> {
    if !delete_tasks(on, state, touched, before).await? {
        return Ok(false);
    }
    save_records(on, state, touched, before).await?;
    save_documents(on, state, touched).await?;
    let added: Vec<_> = state.entries.iter().filter(|((_, sequence, _), _)| *sequence > from).collect();
    save_journal(on, &added).await?;
    let gone: Vec<_> = before.entries.iter().filter(|place| !state.order.contains_key(place)).collect();
    if !gone.is_empty() {
        let sequences: Vec<i64> = gone.iter().map(|(sequence, _)| to_i64(sequence.0)).collect();
        let places: Vec<i64> = gone.iter().map(|(_, place)| i64::from(*place)).collect();
        sqlx::query(DELETE_JOURNAL).bind(sequences).bind(places).execute(&mut *on).await?;
    }
    save_tasks(on, state, touched, before).await?;
    save_tenants(on, state, touched).await?;
    Ok(true)
}

/// Writes the last sequence of the history, and the number of this batch and its process; notifies `channel` if there
/// is work.
pub(crate) async fn save_head(
    on: &mut PgConnection,
    sequence: Sequence,
    batch: (i64, Uuid),
    channel: &str,
    ring: bool,
) -> Result<(), sqlx::Error> {
    let query = sqlx::query(UPDATE_HEAD).bind(to_i64(sequence.0)).bind(batch.0).bind(batch.1);
    query.bind(channel).bind(ring).execute(on).await.map(drop)
}

async fn save_records(
    on: &mut PgConnection,
    state: &State,
    touched: &Touched,
    before: &Before,
) -> Result<(), sqlx::Error> {
    let gone = touched.records.iter().filter(|id| !state.records.contains_key(id));
    let gone: Vec<Uuid> = gone.map(|id| to_uuid(*id)).collect();
    if !gone.is_empty() {
        sqlx::query(DELETE_RECORDS).bind(gone).execute(&mut *on).await?;
    }
    // An erasure that left the record has not changed it, and loaded rows have no body.
    let written = touched.records.iter().filter_map(|id| state.records.get(id));
    let written = written.filter(|record| !record.workflow.is_empty());
    let (known, new): (Vec<&Record>, Vec<&Record>) =
        written.partition(|record| before.records.contains(&record.id));
    // A released guard must be written before the same guard is taken.
    let (open, closed): (Vec<&Record>, Vec<&Record>) = known.into_iter().partition(|record| record.open);
    for (sql, records) in [(UPDATE_RECORDS, closed), (UPDATE_RECORDS, open), (INSERT_RECORDS, new)] {
        if !records.is_empty() {
            write_records(on, sql, &records).await?;
        }
    }
    Ok(())
}

async fn write_records(
    on: &mut PgConnection,
    sql: &'static str,
    records: &[&Record],
) -> Result<(), sqlx::Error> {
    fn column<'a, T>(records: &[&'a Record], of: impl Fn(&'a Record) -> T) -> Vec<T> {
        records.iter().map(|record| of(record)).collect()
    }
    sqlx::query(sql)
        .bind(column(records, |record| to_uuid(record.id)))
        .bind(column(records, |record| to_i64(record.revision.0)))
        .bind(column(records, |record| record.workflow.as_str()))
        .bind(column(records, |record| i64::from(record.schema)))
        .bind(column(records, |record| record.tenant.as_str()))
        .bind(column(records, |record| record.subject.as_str()))
        .bind(column(records, |record| record.guard.as_deref()))
        .bind(column(records, |record| record.state.as_str()))
        .bind(column(records, |record| record.phase.as_str()))
        .bind(column(records, |record| record.reason.as_deref()))
        .bind(column(records, |record| record.open))
        .bind(column(records, |record| record.requested_by.as_str()))
        .bind(column(records, |record| to_i64(record.created_at.0)))
        .bind(column(records, |record| to_i64(record.updated_at.0)))
        .bind(column(records, |record| Json(&record.attributes)))
        .bind(column(records, |record| record.body.as_slice()))
        .execute(on)
        .await
        .map(drop)
}

async fn save_documents(on: &mut PgConnection, state: &State, touched: &Touched) -> Result<(), sqlx::Error> {
    let (kept, gone): (Vec<&Key>, Vec<&Key>) =
        touched.documents.iter().partition(|key| state.documents.contains_key(key));
    let names = |keys: &[&Key]| -> (Vec<String>, Vec<String>) {
        keys.iter().map(|key| (key.collection.clone(), key.id.clone())).unzip()
    };
    if !gone.is_empty() {
        let (collections, ids) = names(&gone);
        sqlx::query(DELETE_DOCUMENTS).bind(collections).bind(ids).execute(&mut *on).await?;
    }
    if !kept.is_empty() {
        let (collections, ids) = names(&kept);
        let documents = kept.iter().filter_map(|key| state.documents.get(key));
        let (versions, bodies): (Vec<i64>, Vec<&[u8]>) =
            documents.map(|document| (to_i64(document.version.0), document.body.as_slice())).unzip();
        let query = sqlx::query(UPSERT_DOCUMENTS).bind(collections).bind(ids).bind(versions).bind(bodies);
        query.execute(&mut *on).await?;
    }
    Ok(())
}

async fn save_journal(
    on: &mut PgConnection,
    added: &[(&(ExecutionId, Sequence, u32), &Entry)],
) -> Result<(), sqlx::Error> {
    if added.is_empty() {
        return Ok(());
    }
    fn column<'a, T>(
        added: &[(&'a (ExecutionId, Sequence, u32), &'a Entry)],
        of: impl Fn(&'a Entry) -> T,
    ) -> Vec<T> {
        added.iter().map(|(_, entry)| of(entry)).collect()
    }
    sqlx::query(INSERT_JOURNAL)
        .bind(column(added, |entry| to_i64(entry.sequence.0)))
        .bind(added.iter().map(|((_, _, place), _)| i64::from(*place)).collect::<Vec<_>>())
        .bind(column(added, |entry| to_uuid(entry.execution)))
        .bind(column(added, |entry| to_i64(entry.at.0)))
        .bind(column(added, |entry| entry.actor.as_str()))
        .bind(column(added, |entry| entry.event.as_str()))
        .bind(column(added, |entry| entry.from.as_str()))
        .bind(column(added, |entry| entry.to.as_str()))
        .bind(column(added, |entry| entry.detail.as_slice()))
        .execute(on)
        .await
        .map(drop)
}

type Names = (Vec<Uuid>, Vec<i64>, Vec<i64>);

fn names<'a>(ids: impl Iterator<Item = &'a TaskId> + Clone) -> Names {
    let executions = ids.clone().map(|id| to_uuid(id.execution)).collect();
    let visits = ids.clone().map(|id| i64::from(id.visit)).collect();
    (executions, visits, ids.map(|id| i64::from(id.slot)).collect())
}

/// Returns true if all rows were deleted.
async fn delete_tasks(
    on: &mut PgConnection,
    state: &State,
    touched: &Touched,
    before: &Before,
) -> Result<bool, sqlx::Error> {
    let gone =
        touched.tasks.iter().filter(|id| !state.tasks.contains_key(id) && before.tasks.contains_key(id));
    let wanted = gone.clone().count();
    if wanted == 0 {
        return Ok(true);
    }
    let epochs: Vec<Option<i64>> =
        gone.clone().map(|id| touched.settled.get(id).map(|epoch| to_i64(epoch.0))).collect();
    let (executions, visits, slots) = names(gone);
    let query = sqlx::query(DELETE_TASKS).bind(executions).bind(visits).bind(slots).bind(epochs);
    Ok(query.execute(on).await?.rows_affected() == wanted as u64)
}

async fn save_tasks(
    on: &mut PgConnection,
    state: &State,
    touched: &Touched,
    before: &Before,
) -> Result<(), sqlx::Error> {
    let kept = touched.tasks.iter().filter(|id| state.tasks.contains_key(id));
    let (known, new): (Vec<&TaskId>, Vec<&TaskId>) = kept.partition(|id| before.tasks.contains_key(id));
    for (sql, ids) in [(UPSERT_TASKS, known), (INSERT_TASKS, new)] {
        if !ids.is_empty() {
            write_tasks(on, sql, state, &ids).await?;
        }
    }
    Ok(())
}

async fn write_tasks(
    on: &mut PgConnection,
    sql: &'static str,
    state: &State,
    ids: &[&TaskId],
) -> Result<(), sqlx::Error> {
    let (executions, visits, slots) = names(ids.iter().copied());
    let held: Vec<&TaskState> = ids.iter().filter_map(|id| state.tasks.get(id)).collect();
    let tenant = |held: &&TaskState| {
        state.records.get(&held.task.id.execution).map_or("", |record| record.tenant.as_str())
    };
    let grip =
        |held: &&TaskState| held.lease.as_ref().map(|grip| (to_i64(grip.epoch.0), to_i64(grip.until.0)));
    sqlx::query(sql)
        .bind(executions)
        .bind(visits)
        .bind(slots)
        .bind(held.iter().map(tenant).collect::<Vec<_>>())
        .bind(held.iter().map(|held| to_i64(held.task.due.0)).collect::<Vec<_>>())
        .bind(held.iter().map(|held| to_i64(held.available().0)).collect::<Vec<_>>())
        .bind(held.iter().map(|held| held.task.body.as_slice()).collect::<Vec<_>>())
        .bind(held.iter().map(|held| i64::from(held.deliveries)).collect::<Vec<_>>())
        .bind(
            held.iter().map(|held| held.lease.as_ref().map(|grip| grip.holder.as_str())).collect::<Vec<_>>(),
        )
        .bind(held.iter().map(|held| grip(held).map(|(epoch, _)| epoch)).collect::<Vec<_>>())
        .bind(held.iter().map(|held| grip(held).map(|(_, until)| until)).collect::<Vec<_>>())
        .execute(on)
        .await
        .map(drop)
}

async fn save_tenants(on: &mut PgConnection, state: &State, touched: &Touched) -> Result<(), sqlx::Error> {
    if touched.moved.is_empty() {
        return Ok(());
    }
    let ids: Vec<Uuid> = touched.moved.iter().map(|id| to_uuid(*id)).collect();
    let tenant = |id: &ExecutionId| state.records.get(id).map_or("", |record| record.tenant.as_str());
    let tenants: Vec<&str> = touched.moved.iter().map(tenant).collect();
    let strays: Vec<(Uuid, String)> =
        sqlx::query_as(TASKS_OF_OTHER_TENANTS).bind(ids).bind(tenants).fetch_all(&mut *on).await?;
    if strays.is_empty() {
        return Ok(());
    }
    let (ids, tenants): (Vec<Uuid>, Vec<String>) = strays.into_iter().unzip();
    sqlx::query(UPDATE_TENANTS).bind(ids).bind(tenants).execute(on).await.map(drop)
}
