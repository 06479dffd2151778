//! The limits of sizes and names in a commit. Every store checks them before any decision.

use super::encrypted_body;
use crate::{Attributes, COLUMNS, Commit, Erase, Error, Key};
use std::collections::BTreeSet;

/// The longest body of a record, task, document or history entry, in bytes.
pub const BODY_LIMIT: usize = 256 << 10;
/// The largest commit, in bytes, as [`Commit`] is measured here: its bodies, its texts and [`PART_BYTES`] per part.
pub const COMMIT_LIMIT: usize = 32 << 20;
/// The size of each part of a commit in addition to its bodies and texts, in bytes.
pub const PART_BYTES: usize = 64;
/// The longest name that becomes part of a key (a guard, tenant, collection, document id or attribute), in bytes.
pub const NAME_LIMIT: usize = 1024;
/// The longest other text (a state, a reason, an actor), in bytes.
pub const TEXT_LIMIT: usize = 4096;

/// The most history entries that one commit erases.
pub const ERASE_LIMIT: usize = 1_000;
/// The most values that the attributes of a record may have together.
pub const ATTRIBUTES_LIMIT: usize = 64;

/// Refuses a commit that breaks a limit or a rule for names. Returns the size of `commit`, in bytes.
pub(crate) fn check(commit: &Commit) -> Result<usize, Error> {
    let mut sum = Sum(PART_BYTES);
    if let Some(write) = &commit.record {
        let record = &write.record;
        sum.name("tenant", &record.tenant)?;
        sum.name("guard", record.guard.as_deref().unwrap_or_default())?;
        for (what, text) in [
            ("workflow", &record.workflow),
            ("subject", &record.subject),
            ("state", &record.state),
            ("phase", &record.phase),
            ("requested_by", &record.requested_by),
        ] {
            sum.text(what, text)?;
        }
        sum.text("reason", record.reason.as_deref().unwrap_or_default())?;
        sum.attributes(&record.attributes)?;
        sum.body(|| format!("the record of {}", record.id), &record.body)?;
    }
    for read in &commit.reads {
        sum.key(&read.key)?;
    }
    for put in &commit.documents {
        sum.key(&put.key)?;
        sum.body(|| format!("document {}", put.key), put.body.as_deref().unwrap_or_default())?;
    }
    for entry in &commit.journal {
        for (what, text) in
            [("actor", &entry.actor), ("event", &entry.event), ("from", &entry.from), ("to", &entry.to)]
        {
            sum.text(what, text)?;
        }
        sum.body(|| format!("a history entry of {}", entry.execution), &entry.detail)?;
    }
    for task in &commit.schedule {
        sum.body(|| format!("task {}", task.id), &task.body)?;
    }
    sum.add(commit.retire.len().saturating_mul(PART_BYTES));
    if let Some(erase) = &commit.erase {
        check_erase(commit, erase)?;
        sum.add(erase.entries.saturating_mul(PART_BYTES));
    }
    if sum.0 > COMMIT_LIMIT {
        return Err(Error::TooLarge { what: "the commit".into(), size: sum.0, limit: COMMIT_LIMIT });
    }
    Ok(sum.0)
}

/// Refuses bodies that are longer than `limit`, in bytes.
pub(crate) fn check_rows(commit: &Commit, limit: usize) -> Result<(), Error> {
    let record = commit.record.iter().map(|write| ("record", write.record.body.as_slice()));
    let documents =
        commit.documents.iter().filter_map(|put| Some((put.key.collection.as_str(), put.body.as_deref()?)));
    let entries = commit.journal.iter().map(|entry| ("history entry", entry.detail.as_slice()));
    let tasks = commit.schedule.iter().map(|task| ("task", task.body.as_slice()));
    let mut rows = record.chain(documents).chain(entries).chain(tasks);
    rows.try_for_each(|(what, body)| within(|| format!("a row of {what}"), body.len(), limit))
}

/// Refuses to erase and to write the same execution at once, and to erase nothing or too much.
fn check_erase(commit: &Commit, erase: &Erase) -> Result<(), Error> {
    let written = commit.record.iter().map(|write| write.record.id);
    if written.chain(commit.journal.iter().map(|entry| entry.execution)).any(|id| id == erase.execution) {
        return Err(Error::Invalid {
            what: format!("execution {} is erased and written by one commit", erase.execution),
        });
    }
    if erase.entries == 0 {
        return Err(Error::Invalid {
            what: "an erasure of 0 entries would never end; use at least 1".into(),
        });
    }
    within(|| "the history entries to erase at once".into(), erase.entries, ERASE_LIMIT)
}

/// Refuses a collection that is not lower-case letters, digits, `.`, `-` and `_`.
pub(crate) fn check_collection(collection: &str) -> Result<(), Error> {
    let allowed = |c: char| c.is_ascii_lowercase() || c.is_ascii_digit() || matches!(c, '.' | '-' | '_');
    if collection.is_empty() || !collection.chars().all(allowed) {
        return Err(Error::Invalid {
            what: format!(
                "{collection:?} is not a valid collection; use lower-case letters, digits, `.`, `-` and `_`"
            ),
        });
    }
    check_name("collection", collection)
}

/// Refuses a document key that breaks the rules of [`Key`].
pub(crate) fn check_key(key: &Key) -> Result<(), Error> {
    check_collection(&key.collection)?;
    check_name("document id", &key.id)
}

fn check_name(what: &str, name: &str) -> Result<(), Error> {
    if name.contains('\0') {
        return Err(Error::Invalid { what: format!("{what} {name:?} contains a NUL") });
    }
    within(|| format!("{what} {:?}…", name.chars().take(32).collect::<String>()), name.len(), NAME_LIMIT)
}

fn within(what: impl FnOnce() -> String, size: usize, limit: usize) -> Result<(), Error> {
    if size > limit { Err(Error::TooLarge { what: what(), size, limit }) } else { Ok(()) }
}

/// Returns the length of a body for limits, in bytes, without the overhead of encryption.
pub(crate) fn measured(body: &[u8]) -> usize {
    body.len().saturating_sub(encrypted_body::overhead(body))
}

struct Sum(usize);

impl Sum {
    fn add(&mut self, bytes: usize) {
        self.0 = self.0.saturating_add(bytes);
    }

    fn name(&mut self, what: &str, name: &str) -> Result<(), Error> {
        self.add(name.len());
        check_name(what, name)
    }

    fn key(&mut self, key: &Key) -> Result<(), Error> {
        self.add(PART_BYTES.saturating_add(key.collection.len()).saturating_add(key.id.len()));
        check_key(key)
    }

    fn text(&mut self, what: &str, text: &str) -> Result<(), Error> {
        self.add(text.len());
        if text.contains('\0') {
            return Err(Error::Invalid { what: format!("{what} {text:?} contains a NUL") });
        }
        within(|| format!("{what} {:?}…", text.chars().take(32).collect::<String>()), text.len(), TEXT_LIMIT)
    }

    fn attributes(&mut self, attributes: &Attributes) -> Result<(), Error> {
        for (name, values) in attributes {
            let plain = !name.is_empty() && name.chars().all(|c| c.is_ascii_lowercase() || c == '_');
            if !plain || COLUMNS.contains(&name.as_str()) {
                let what = format!(
                    "{name:?} is not a valid attribute; use lower-case letters and `_`, and not the name of a column"
                );
                return Err(Error::Invalid { what });
            }
            values.iter().try_for_each(|value| self.name(name, value))?;
        }
        let count: usize = attributes.values().map(BTreeSet::len).sum();
        if count > ATTRIBUTES_LIMIT {
            let what = format!(
                "a record has {count} values of attributes, more than the limit of {ATTRIBUTES_LIMIT}"
            );
            return Err(Error::Invalid { what });
        }
        Ok(())
    }

    fn body(&mut self, what: impl FnOnce() -> String, body: &[u8]) -> Result<(), Error> {
        let length = measured(body);
        self.add(length.saturating_add(PART_BYTES));
        within(what, length, BODY_LIMIT)
    }
}
