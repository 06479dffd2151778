//! Reads: each one statement, so that each sees one moment.

use super::{
    error::unavailable,
    maintenance,
    row::{self, and_one, page, to_execution_id, to_i64, to_u64, to_uuid},
    shared::Shared,
};
use crate::{
    Document, Entry, Error, ExecutionId, Health, History, Key, Page, Record, Sequence, Task, Timestamp,
};
use sqlx::Row as _;
use std::{collections::HashMap, sync::atomic::Ordering};

const LOAD: &str = "SELECT id, revision, workflow, schema, tenant, subject, guard, state, phase, reason, open, \
    requested_by, created_at, updated_at, attributes, body FROM executions WHERE id = $1";
const HOLDER: &str = "SELECT id FROM executions WHERE open AND guard = $1";
const JOURNAL: &str = "SELECT sequence, place, execution, at, actor, event, from_state, to_state, detail FROM journal \
    WHERE execution = $1 AND (sequence, place) > ($2, $3) ORDER BY sequence, place LIMIT $4";
const HISTORY: &str = "SELECT sequence, place, execution, at, actor, event, from_state, to_state, detail FROM journal \
    WHERE (sequence, place) > ($1, $2) ORDER BY sequence, place LIMIT $3";
const DOCUMENT: &str =
    "SELECT collection, id, version, body FROM documents WHERE collection = $1 AND id = $2";
const DOCUMENTS_OF: &str = "SELECT d.collection, d.id, d.version, d.body \
    FROM unnest($1::text[], $2::text[]) k(collection, id) JOIN documents d USING (collection, id)";
const DOCUMENTS: &str = "SELECT collection, id, version, body FROM documents WHERE collection = $1 AND id >= $2 \
    AND ($3::text IS NULL OR id > $3) AND starts_with(id, $2) ORDER BY id LIMIT $4";
/// With an end of the range, so that the index is not read past the prefix.
const DOCUMENTS_TO: &str = "SELECT collection, id, version, body FROM documents WHERE collection = $1 AND id >= $2 \
    AND ($3::text IS NULL OR id > $3) AND id < $5 AND starts_with(id, $2) ORDER BY id LIMIT $4";
const TASKS: &str =
    "SELECT execution, visit, slot, due, body FROM tasks WHERE execution = $1 ORDER BY visit, slot";
const NEXT_DUE: &str =
    "SELECT CASE WHEN NOT EXISTS (SELECT FROM hold) THEN (SELECT min(available) FROM tasks) END";
const HEALTH: &str = "SELECT h.sequence, pg_database_size(current_database()) AS bytes, \
    CASE WHEN c.reltuples > 100000 THEN c.reltuples::bigint ELSE (SELECT count(*) FROM tasks) END AS tasks, \
    hold.since, hold.why FROM pg_class c, head h LEFT JOIN hold ON true WHERE c.oid = 'tasks'::regclass";

impl Shared {
    pub(super) async fn load(&self, id: ExecutionId) -> Result<Option<Record>, Error> {
        self.with_retries(|| async move {
            let found = sqlx::query(LOAD).bind(to_uuid(id)).fetch_optional(&self.pool).await?;
            found.as_ref().map(row::record).transpose()
        })
        .await
    }

    pub(super) async fn holder(&self, guard: &str) -> Result<Option<ExecutionId>, Error> {
        self.with_retries(|| async move {
            let found = sqlx::query_scalar(HOLDER).bind(guard).fetch_optional(&self.pool).await?;
            Ok(found.map(to_execution_id))
        })
        .await
    }

    pub(super) async fn journal(
        &self,
        id: ExecutionId,
        after: Option<(Sequence, u32)>,
        limit: usize,
    ) -> Result<Page<Entry, (Sequence, u32)>, Error> {
        let (sequence, place) = from(after);
        let entries = self
            .with_retries(|| async move {
                let query = sqlx::query(JOURNAL).bind(to_uuid(id)).bind(sequence).bind(place);
                let rows = query.bind(and_one(limit)).fetch_all(&self.pool).await?;
                rows.iter().map(row::entry).collect::<Result<Vec<_>, _>>()
            })
            .await?;
        let Page { items, next } = page(entries, limit, |(place, entry)| (entry.sequence, *place));
        Ok(Page { items: items.into_iter().map(|(_, entry)| entry).collect(), next })
    }

    pub(super) async fn history(
        &self,
        after: Option<(Sequence, u32)>,
        limit: usize,
    ) -> Result<History, Error> {
        let (sequence, place) = from(after);
        let entries = self
            .with_retries(|| async move {
                let query = sqlx::query(HISTORY).bind(sequence).bind(place).bind(and_one(limit));
                let rows = query.fetch_all(&self.pool).await?;
                rows.iter().map(row::entry).collect::<Result<Vec<_>, _>>()
            })
            .await?;
        Ok(page(entries, limit, |(place, entry)| (entry.sequence, *place)))
    }

    pub(super) async fn document(&self, key: &Key) -> Result<Option<Document>, Error> {
        self.with_retries(|| async move {
            let query = sqlx::query(DOCUMENT).bind(&key.collection).bind(&key.id);
            query.fetch_optional(&self.pool).await?.as_ref().map(row::document).transpose()
        })
        .await
    }

    pub(super) async fn documents_of(&self, keys: &[Key]) -> Result<Vec<Option<Document>>, Error> {
        let collections: Vec<&str> = keys.iter().map(|key| key.collection.as_str()).collect();
        let ids: Vec<&str> = keys.iter().map(|key| key.id.as_str()).collect();
        let (collections, ids) = (&collections, &ids);
        let found = self
            .with_retries(|| async move {
                let rows =
                    sqlx::query(DOCUMENTS_OF).bind(collections).bind(ids).fetch_all(&self.pool).await?;
                rows.iter().map(row::document).collect::<Result<Vec<_>, _>>()
            })
            .await?;
        let found: HashMap<Key, Document> =
            found.into_iter().map(|document| (document.key.clone(), document)).collect();
        Ok(keys.iter().map(|key| found.get(key).cloned()).collect())
    }

    pub(super) async fn documents(
        &self,
        collection: &str,
        prefix: &str,
        after: Option<&str>,
        limit: usize,
    ) -> Result<Page<Document, String>, Error> {
        let end = end_of(prefix);
        let end = end.as_deref();
        let documents = self
            .with_retries(|| async move {
                let sql = if end.is_some() { DOCUMENTS_TO } else { DOCUMENTS };
                let query = sqlx::query(sql).bind(collection).bind(prefix).bind(after).bind(and_one(limit));
                let query = if let Some(end) = end { query.bind(end) } else { query };
                let rows = query.fetch_all(&self.pool).await?;
                rows.iter().map(row::document).collect::<Result<Vec<_>, _>>()
            })
            .await?;
        Ok(page(documents, limit, |document| document.key.id.clone()))
    }

    pub(super) async fn tasks(&self, id: ExecutionId) -> Result<Vec<Task>, Error> {
        self.with_retries(|| async move {
            let rows = sqlx::query(TASKS).bind(to_uuid(id)).fetch_all(&self.pool).await?;
            rows.iter().map(row::task).collect()
        })
        .await
    }

    pub(super) async fn next_due(&self) -> Result<Option<Timestamp>, Error> {
        self.with_retries(|| async move {
            let found: Option<i64> = sqlx::query_scalar(NEXT_DUE).fetch_one(&self.pool).await?;
            Ok(found.map(|at| Timestamp(to_u64(at))))
        })
        .await
    }

    pub(super) async fn health(&self) -> Health {
        let commits = self.counters.commits.load(Ordering::Relaxed);
        let counted = Health {
            commits,
            syncs: self.counters.batches.load(Ordering::Relaxed),
            retries: self.counters.retries.load(Ordering::Relaxed),
            ..Health::default()
        };
        match sqlx::query(HEALTH).fetch_one(&self.pool).await {
            Ok(found) => {
                let number = |name: &str| found.try_get::<i64, _>(name).map(to_u64).unwrap_or_default();
                Health {
                    writable: true,
                    sequence: Sequence(number("sequence")),
                    disk_bytes: number("bytes"),
                    tasks: number("tasks"),
                    hold: maintenance::hold_from_row(&found).ok(),
                    ..counted
                }
            }
            Err(error) => Health { problem: Some(unavailable(&error).to_string()), ..counted },
        }
    }
}

fn from(after: Option<(Sequence, u32)>) -> (i64, i64) {
    after.map_or((-1, -1), |(sequence, place)| (to_i64(sequence.0), i64::from(place)))
}

/// The first text behind all that begin with `prefix`, if it can be said.
fn end_of(prefix: &str) -> Option<String> {
    let mut letters: Vec<char> = prefix.chars().collect();
    while let Some(last) = letters.pop() {
        let next = (u32::from(last).saturating_add(1)..=u32::from(last).saturating_add(0x801))
            .find_map(char::from_u32);
        if let Some(next) = next {
            letters.push(next);
            return Some(letters.into_iter().collect());
        }
    }
    None
}
