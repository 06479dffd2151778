//! Migration of executions of earlier versions: counts the open ones, and upgrades the readable ones.
//!
//! An execution is upgraded with its next event; until then it is stored as it was written, so a workflow may have
//! several schemas in the store. [`Engine::migrate`] upgrades all at once, so that the code for an old schema can be
//! removed. An execution that this version cannot read is never changed, and is reported.

use crate::{Engine, Error};
use serde::Serialize;
use serde_json::json;
use std::collections::BTreeMap;
use store::{Commit, Entry, ExecutionId, Filter, Record, Revision, Sequence, Write};

/// The page size of reads.
const PAGE: usize = 500;
/// How often a migration is retried after a conflict.
const MAX_TRIES: usize = 8;

/// The number of open executions of one workflow at one schema.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct SchemaUsage {
    /// The workflow.
    pub workflow: String,
    /// The schema of their last write.
    pub schema: u32,
    /// The number of open executions.
    pub open: u64,
    /// The schema that this engine writes; `None` if it does not have the workflow.
    pub here: Option<u32>,
}

impl SchemaUsage {
    /// Returns `current`, `older` (this engine can read them) or `no_worker` (it cannot).
    #[must_use]
    pub fn status(&self) -> &'static str {
        match self.here {
            Some(here) if here == self.schema => "current",
            Some(here) if here > self.schema => "older",
            Some(_) | None => "no_worker",
        }
    }
}

/// An open execution with another schema than this engine writes.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Migration {
    /// The execution as it is, or was, stored.
    pub record: Record,
    /// The result.
    pub answer: MigrationAnswer,
}

/// The result of a migration.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum MigrationAnswer {
    /// It would get this schema.
    Planned(u32),
    /// It now has this schema.
    Migrated(u32),
    /// It cannot be migrated, and nothing was changed; the reason.
    Refused(String),
}

impl<P: Send + Sync + 'static> Engine<P> {
    /// Returns the open executions by workflow and schema. Registered workflows without any are listed with zero.
    ///
    /// # Errors
    /// Returns the store's error.
    pub async fn schema_usage(&self) -> Result<Vec<SchemaUsage>, Error> {
        let here = |workflow: &str| self.inner.workflows.get(workflow).map(|machine| machine.schema());
        let own = self.inner.workflows.iter();
        let mut counts: BTreeMap<(String, u32), u64> =
            own.map(|(name, machine)| (((*name).to_owned(), machine.schema()), 0)).collect();
        let count = |record: Record| *counts.entry((record.workflow, record.schema)).or_default() += 1;
        self.each_open(None, count).await?;
        let row = |((workflow, schema), open): ((String, u32), u64)| SchemaUsage {
            here: here(&workflow),
            workflow,
            schema,
            open,
        };
        Ok(counts.into_iter().map(row).collect())
    }

    /// Returns the open executions, of `workflow` or all, whose schema is not current, oldest first, and whether each
    /// can be migrated. Changes nothing.
    ///
    /// # Errors
    /// Returns the store's error.
    pub async fn outdated(&self, workflow: Option<&str>) -> Result<Vec<Migration>, Error> {
        let mut found = Vec::new();
        let take = |record: Record| match self.upgrade_of(&record) {
            Ok(None) => {}
            Ok(Some(next)) => {
                found.push(Migration { answer: MigrationAnswer::Planned(next.schema), record });
            }
            Err(why) => found.push(Migration { answer: MigrationAnswer::Refused(why), record }),
        };
        self.each_open(workflow, take).await?;
        Ok(found)
    }

    /// Migrates them, each in its own commit with a journal entry. Neither their state nor their waits change.
    ///
    /// # Errors
    /// Returns the store's error. Executions that cannot be migrated are in the result, and the others are migrated.
    pub async fn migrate(&self, workflow: Option<&str>, by: &str) -> Result<Vec<Migration>, Error> {
        let mut all = self.outdated(workflow).await?;
        for migration in &mut all {
            if matches!(migration.answer, MigrationAnswer::Planned(_)) {
                migration.answer = self.migrate_one(migration.record.id, by).await?;
            }
        }
        Ok(all)
    }

    async fn migrate_one(&self, id: ExecutionId, by: &str) -> Result<MigrationAnswer, Error> {
        for _ in 0..MAX_TRIES {
            let record = self.record(id).await?;
            let next = match self.upgrade_of(&record) {
                // The execution's own next event was faster.
                Ok(None) => return Ok(MigrationAnswer::Migrated(record.schema)),
                Ok(Some(next)) => next,
                Err(why) => return Ok(MigrationAnswer::Refused(why)),
            };
            let schema = next.schema;
            match self.inner.store.commit(migration_commit(&record, next, by)).await {
                Ok(_) => {
                    tracing::info!(execution = %id, trace_id = %id.trace_id(), from = record.schema, to = schema, by, "migrated");
                    return Ok(MigrationAnswer::Migrated(schema));
                }
                Err(store::Error::Conflict { .. }) => self.inner.metrics.conflict(),
                Err(error @ store::Error::Busy { .. }) => {
                    return Ok(MigrationAnswer::Refused(error.to_string()));
                }
                Err(error) => return Err(error.into()),
            }
        }
        Ok(MigrationAnswer::Refused(Error::Contended(id).to_string()))
    }

    /// Returns the record as this engine writes it, or `None` if it is current. The error says why it cannot be
    /// migrated.
    fn upgrade_of(&self, record: &Record) -> Result<Option<Record>, String> {
        let machine = self.machine(&record.workflow, record.schema).map_err(|e| e.to_string())?;
        machine.upgrade(record, self.inner.clock.now()).map_err(|error| match error {
            Error::Unreadable { why, .. } => why,
            other => other.to_string(),
        })
    }

    async fn each_open(&self, workflow: Option<&str>, mut take: impl FnMut(Record)) -> Result<(), Error> {
        let filter =
            Filter { workflow: workflow.map(ToOwned::to_owned), open: Some(true), ..Filter::default() };
        let mut after = None;
        loop {
            let page = self.inner.store.list(&filter, after, PAGE).await?;
            page.items.into_iter().for_each(&mut take);
            after = page.next;
            if after.is_none() {
                return Ok(());
            }
        }
    }
}

/// Returns the commit of a migration.
fn migration_commit(before: &Record, next: Record, by: &str) -> Commit {
    let detail = json!({ "from_schema": before.schema, "to_schema": next.schema });
    let entry = Entry {
        sequence: Sequence(0),
        execution: before.id,
        at: next.updated_at,
        actor: by.to_owned(),
        event: "migrated".into(),
        from: before.state.clone(),
        to: next.state.clone(),
        detail: serde_json::to_vec(&detail).unwrap_or_default(),
    };
    let expected: Option<Revision> = Some(before.revision);
    Commit { record: Some(Write { record: next, expected }), journal: vec![entry], ..Commit::default() }
}

#[cfg(test)]
mod tests;
