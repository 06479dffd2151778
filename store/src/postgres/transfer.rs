//! Exports a database, and imports an export into an empty database.

use super::{
    Postgres,
    commit::{
        partitions::create_partitions,
        save::{self, Before, Touched},
    },
    error::unavailable,
    maintenance,
    row::{self, to_i64, to_u32, to_u64},
    shared::Shared,
};
use crate::{
    Epoch, Error, Sequence, TaskId,
    memory::{State, TaskState},
    transfer::{
        Counts, Source,
        line::{DocumentLine, EntryLine, Line, RecordLine, TaskLine},
        reader::{Reader, fits, refused, restored},
        writer::{Lines, moved, not_free},
    },
};
use sqlx::{PgConnection, Row as _};
use std::io::{Read, Write};

/// The number of rows read or written at once.
const PAGE: i64 = 1_000;
const CHUNK: usize = 1_000;

/// A process without a heartbeat for this long is gone.
const SILENT_MS: u64 = 15_000;

const RECORDS: &str = "SELECT id, revision, workflow, schema, tenant, subject, guard, state, phase, reason, open, \
    requested_by, created_at, updated_at, attributes, body FROM executions WHERE $1::uuid IS NULL OR id > $1 ORDER BY id LIMIT $2";
const JOURNAL: &str = "SELECT sequence, place, execution, at, actor, event, from_state, to_state, detail FROM journal \
    WHERE $1::uuid IS NULL OR (execution, sequence, place) > ($1, $2, $3) ORDER BY execution, sequence, place LIMIT $4";
const TASKS: &str = "SELECT execution, visit, slot, due, body, deliveries FROM tasks \
    WHERE $1::uuid IS NULL OR (execution, visit, slot) > ($1, $2, $3) ORDER BY execution, visit, slot LIMIT $4";
const DOCUMENTS: &str = "SELECT collection, id, version, body FROM documents \
    WHERE $1::text IS NULL OR (collection, id) > ($1, $2) ORDER BY collection, id LIMIT $3";
const EMPTY: &str = "SELECT sequence = 0 AND NOT EXISTS (SELECT FROM executions) AND NOT EXISTS (SELECT FROM documents) \
    FROM head FOR UPDATE";
/// The reader or writer of the export may be slow.
const NO_TIMEOUT: &str = "SET LOCAL idle_in_transaction_session_timeout = 0";
const EPOCH: &str = "SELECT last_value FROM epochs";
const EPOCHS: &str = "SELECT setval('epochs', greatest(last_value, $1)) FROM epochs";
const UPDATE_TENANTS: &str = "UPDATE tasks t SET tenant = e.tenant FROM executions e WHERE e.id = t.execution AND t.tenant <> e.tenant";

impl Postgres {
    /// Writes everything to `out`, as of one commit; other processes continue meanwhile. Returns the counts.
    ///
    /// # Errors
    /// [`Error::Refused`] when the store is to move and is held, or other processes are at work;
    /// [`Error::Unavailable`] when the database is away or `out` cannot be written.
    pub async fn export(&self, out: impl Write + Send, source: Source) -> Result<Counts, Error> {
        if source == Source::Replaced {
            if let Some(hold) = self.shared.current_hold().await? {
                return Err(not_free(&hold));
            }
            self.check_alone().await?;
        }
        self.shared.export(out, &source).await
    }

    /// Checks that no other process is working.
    async fn check_alone(&self) -> Result<(), Error> {
        let engines = self.engine_processes().await?;
        let holder = self.lease_holder();
        let others = engines.iter().filter(|engine| !engine.ended && engine.silent_ms < SILENT_MS);
        let others: Vec<String> = others
            .filter(|engine| !holder.ends_with(&engine.id.to_string()))
            .map(|engine| format!("{}/{}", engine.name, engine.id))
            .collect();
        if others.is_empty() {
            return Ok(());
        }
        let why = format!(
            "to move a store, stop its servers first; still running, or ended a moment ago: {}",
            others.join(", ")
        );
        Err(Error::Refused { why })
    }

    /// Reads an export into this database, which must hold nothing: all of it, or nothing. It is held then, unless the store
    /// that was exported is.
    ///
    /// # Errors
    /// [`Error::Refused`] when the database holds something, or the export is cut off or changed, with the line.
    pub async fn import(&self, from: impl Read + Send) -> Result<Counts, Error> {
        self.shared.import(from).await
    }
}

fn failed(error: sqlx::Error) -> Error {
    unavailable(&error)
}

impl Shared {
    async fn export(&self, out: impl Write + Send, source: &Source) -> Result<Counts, Error> {
        let mut on = self.pool.begin().await.map_err(failed)?;
        let frozen = sqlx::query("SET TRANSACTION ISOLATION LEVEL REPEATABLE READ READ ONLY");
        frozen.execute(&mut *on).await.map_err(failed)?;
        sqlx::query(NO_TIMEOUT).execute(&mut *on).await.map_err(failed)?;
        let sequence: i64 =
            sqlx::query_scalar("SELECT sequence FROM head").fetch_one(&mut *on).await.map_err(failed)?;
        let epoch: i64 = sqlx::query_scalar(EPOCH).fetch_one(&mut *on).await.map_err(failed)?;
        let mut lines = Lines::begin(out, Sequence(to_u64(sequence)), Epoch(to_u64(epoch)))?;
        let mut counts = Counts::default();
        export_records(&mut on, &mut lines, &mut counts).await?;
        export_journal(&mut on, &mut lines, &mut counts).await?;
        export_tasks(&mut on, &mut lines, &mut counts).await?;
        export_documents(&mut on, &mut lines, &mut counts).await?;
        match source {
            Source::KeepsRunning => {}
            Source::Replaced => self.hold(&moved()).await?,
        }
        lines.end(counts, source)
    }

    async fn import(&self, from: impl Read + Send) -> Result<Counts, Error> {
        let mut on = self.pool.begin().await.map_err(failed)?;
        sqlx::query(NO_TIMEOUT).execute(&mut *on).await.map_err(failed)?;
        let empty: bool = sqlx::query_scalar(EMPTY).fetch_one(&mut *on).await.map_err(failed)?;
        if !empty {
            let why = format!("schema {} is not empty; an import needs an empty one", self.options.schema);
            return Err(Error::Refused { why });
        }
        let mut lines = Reader::new(from);
        let mut chunk = Chunk::default();
        let mut last = Sequence(0);
        while let Some((number, line)) = lines.next(&chunk.counts)? {
            match line {
                Line::Header { sequence, epoch, .. } => {
                    last = Sequence(sequence);
                    sqlx::query(EPOCHS).bind(to_i64(epoch).max(1)).execute(&mut *on).await.map_err(failed)?;
                    create_partitions(&mut on, Sequence(0), last).await.map_err(failed)?;
                }
                line => chunk.add_line(line).map_err(|why| refused(number, &why))?,
            }
            if chunk.rows >= CHUNK {
                chunk.save(&mut on).await?;
            }
        }
        chunk.save(&mut on).await?;
        sqlx::query(UPDATE_TENANTS).execute(&mut *on).await.map_err(failed)?;
        if !lines.is_source_held() {
            maintenance::insert_hold(&mut on, &restored(last)).await.map_err(failed)?;
        }
        let head = sqlx::query("UPDATE head SET sequence = $1").bind(to_i64(last.0));
        head.execute(&mut *on).await.map_err(failed)?;
        on.commit().await.map_err(failed)?;
        Ok(chunk.counts)
    }
}

/// Rows on their way in.
#[derive(Default)]
struct Chunk {
    state: State,
    touched: Touched,
    rows: usize,
    counts: Counts,
}

impl Chunk {
    fn add_line(&mut self, line: Line) -> Result<(), String> {
        self.rows += 1;
        match line {
            Line::Record(line) => {
                let record = line.record()?;
                fits(&record.body)?;
                self.touched.record(record.id);
                self.state.records.insert(record.id, record);
                self.counts.records += 1;
            }
            Line::Entry(line) => {
                let (entry, place) = line.entry()?;
                fits(&entry.detail)?;
                self.state.entries.insert((entry.execution, entry.sequence, place), entry);
                self.counts.entries += 1;
            }
            Line::Task(line) => {
                let (task, _, deliveries) = line.task()?;
                fits(&task.body)?;
                self.touched.task(task.id);
                self.state.tasks.insert(task.id, TaskState { task, deliveries, lease: None });
                self.counts.tasks += 1;
            }
            Line::Document(line) => {
                let document = line.document()?;
                fits(&document.body)?;
                self.touched.document(document.key.clone());
                self.state.documents.insert(document.key.clone(), document);
                self.counts.documents += 1;
            }
            Line::Header { .. } | Line::Trailer { .. } => {
                return Err("an export has only one of these".into());
            }
        }
        Ok(())
    }

    async fn save(&mut self, on: &mut PgConnection) -> Result<(), Error> {
        let saved = save::save(on, &self.state, &self.touched, Sequence(0), &Before::default()).await;
        saved.map_err(|error| Error::Refused { why: format!("the database refuses the export: {error}") })?;
        self.state = State::default();
        self.touched = Touched::default();
        self.rows = 0;
        Ok(())
    }
}

async fn export_records<W: Write>(
    on: &mut PgConnection,
    lines: &mut Lines<W>,
    counts: &mut Counts,
) -> Result<(), Error> {
    let mut after = None;
    loop {
        let rows = sqlx::query(RECORDS).bind(after).bind(PAGE).fetch_all(&mut *on).await.map_err(failed)?;
        for found in &rows {
            let record = row::record(found).map_err(failed)?;
            after = Some(row::to_uuid(record.id));
            lines.write(&Line::Record(Box::new(RecordLine::new(record))))?;
            counts.records += 1;
        }
        if rows.is_empty() {
            return Ok(());
        }
    }
}

async fn export_journal<W: Write>(
    on: &mut PgConnection,
    lines: &mut Lines<W>,
    counts: &mut Counts,
) -> Result<(), Error> {
    let (mut after, mut sequence, mut place) = (None, 0, 0);
    loop {
        let query = sqlx::query(JOURNAL).bind(after).bind(sequence).bind(place).bind(PAGE);
        let rows = query.fetch_all(&mut *on).await.map_err(failed)?;
        for found in &rows {
            let (at, entry) = row::entry(found).map_err(failed)?;
            (after, sequence, place) =
                (Some(row::to_uuid(entry.execution)), to_i64(entry.sequence.0), i64::from(at));
            lines.write(&Line::Entry(EntryLine::new(entry, at)))?;
            counts.entries += 1;
        }
        if rows.is_empty() {
            return Ok(());
        }
    }
}

async fn export_tasks<W: Write>(
    on: &mut PgConnection,
    lines: &mut Lines<W>,
    counts: &mut Counts,
) -> Result<(), Error> {
    let mut after: Option<TaskId> = None;
    loop {
        let query = sqlx::query(TASKS).bind(after.map(|id| row::to_uuid(id.execution)));
        let query = query.bind(after.map(|id| i64::from(id.visit))).bind(after.map(|id| i64::from(id.slot)));
        let rows = query.bind(PAGE).fetch_all(&mut *on).await.map_err(failed)?;
        for found in &rows {
            let task = row::task(found).map_err(failed)?;
            let deliveries = to_u32(found.try_get("deliveries").map_err(failed)?);
            after = Some(task.id);
            lines.write(&Line::Task(TaskLine::new(&task, Sequence(0), deliveries)))?;
            counts.tasks += 1;
        }
        if rows.is_empty() {
            return Ok(());
        }
    }
}

async fn export_documents<W: Write>(
    on: &mut PgConnection,
    lines: &mut Lines<W>,
    counts: &mut Counts,
) -> Result<(), Error> {
    let (mut collection, mut id): (Option<String>, Option<String>) = (None, None);
    loop {
        let query = sqlx::query(DOCUMENTS).bind(&collection).bind(&id).bind(PAGE);
        let rows = query.fetch_all(&mut *on).await.map_err(failed)?;
        for found in &rows {
            let document = row::document(found).map_err(failed)?;
            (collection, id) = (Some(document.key.collection.clone()), Some(document.key.id.clone()));
            lines.write(&Line::Document(DocumentLine::new(document)))?;
            counts.documents += 1;
        }
        if rows.is_empty() {
            return Ok(());
        }
    }
}
