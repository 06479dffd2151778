//! The lines of an export.

use super::Counts;
use crate::{Document, Entry, ExecutionId, Key, Record, Revision, Sequence, Task, TaskId, Timestamp, hex};
use serde::{Deserialize, Serialize};
use serde_json::value::RawValue;

/// The name of the format in the header.
pub(crate) const FORMAT: &str = "tenure-store";
/// The written version; an import reads this and earlier ones.
pub(crate) const VERSION: u32 = 1;
/// The longest line of an import, in bytes: a body at its limit in hexadecimal, with texts at their limits.
pub(crate) const LINE_LIMIT: u64 = 2 << 20;

/// One line: an object with one field, named for its kind.
#[derive(Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub(crate) enum Line {
    /// The first.
    Header {
        format: String,
        version: u32,
        sequence: u64,
        /// The last epoch; an importer gives out greater ones.
        #[serde(default)]
        epoch: u64,
    },
    Record(Box<RecordLine>),
    Entry(EntryLine),
    Task(TaskLine),
    Document(DocumentLine),
    /// The last; the digest is that of all lines before it.
    Trailer {
        counts: Counts,
        sha256: String,
        /// True if the exported store is held since, so that only the importer continues with its work.
        #[serde(default, skip_serializing_if = "std::ops::Not::not")]
        moved: bool,
    },
}

/// A body: as JSON, as text, or in hexadecimal.
#[derive(Serialize, Deserialize)]
pub(crate) struct Body {
    #[serde(skip_serializing_if = "Option::is_none")]
    json: Option<Box<RawValue>>,
    #[serde(skip_serializing_if = "Option::is_none")]
    text: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    hex: Option<String>,
}

impl Body {
    /// Returns the form that preserves the bytes: JSON only if it is one line without surrounding space.
    pub(crate) fn from_bytes(bytes: &[u8]) -> Self {
        let none = Self { json: None, text: None, hex: None };
        let Ok(text) = std::str::from_utf8(bytes) else {
            return Self { hex: Some(hex::encode(bytes)), ..none };
        };
        let one_line = !text.contains(['\n', '\r']) && text.trim() == text;
        match RawValue::from_string(text.to_owned()) {
            Ok(json) if one_line && json.get() == text => Self { json: Some(json), ..none },
            Ok(_) | Err(_) => Self { text: Some(text.to_owned()), ..none },
        }
    }

    pub(crate) fn into_bytes(self) -> Result<Vec<u8>, String> {
        match (self.json, self.text, self.hex) {
            (Some(json), None, None) => Ok(String::from(Box::<str>::from(json)).into_bytes()),
            (None, Some(text), None) => Ok(text.into_bytes()),
            (None, None, Some(text)) => hex::decode(&text).ok_or_else(|| "a body is not hexadecimal".into()),
            _ => Err("a body must be one of json, text and hex".into()),
        }
    }
}

#[derive(Serialize, Deserialize)]
pub(crate) struct RecordLine {
    id: String,
    revision: u64,
    workflow: String,
    schema: u32,
    tenant: String,
    subject: String,
    guard: Option<String>,
    state: String,
    phase: String,
    reason: Option<String>,
    open: bool,
    requested_by: String,
    created_at: u64,
    updated_at: u64,
    #[serde(default, skip_serializing_if = "crate::Attributes::is_empty")]
    attributes: crate::Attributes,
    body: Body,
}

#[derive(Serialize, Deserialize)]
pub(crate) struct EntryLine {
    execution: String,
    sequence: u64,
    place: u32,
    at: u64,
    actor: String,
    event: String,
    from: String,
    to: String,
    detail: Body,
}

#[derive(Serialize, Deserialize)]
pub(crate) struct TaskLine {
    execution: String,
    visit: u32,
    slot: u32,
    due: u64,
    since: u64,
    deliveries: u32,
    body: Body,
}

#[derive(Serialize, Deserialize)]
pub(crate) struct DocumentLine {
    collection: String,
    id: String,
    version: u64,
    body: Body,
}

fn id(text: &str) -> Result<ExecutionId, String> {
    text.parse().map_err(|error: crate::ParseIdError| error.to_string())
}

impl RecordLine {
    pub(crate) fn new(record: Record) -> Self {
        Self {
            id: record.id.to_string(),
            revision: record.revision.0,
            workflow: record.workflow,
            schema: record.schema,
            tenant: record.tenant,
            subject: record.subject,
            guard: record.guard,
            state: record.state,
            phase: record.phase,
            reason: record.reason,
            open: record.open,
            requested_by: record.requested_by,
            created_at: record.created_at.0,
            updated_at: record.updated_at.0,
            attributes: record.attributes,
            body: Body::from_bytes(&record.body),
        }
    }

    pub(crate) fn record(self) -> Result<Record, String> {
        Ok(Record {
            id: id(&self.id)?,
            revision: Revision(self.revision),
            workflow: self.workflow,
            schema: self.schema,
            tenant: self.tenant,
            subject: self.subject,
            guard: self.guard,
            state: self.state,
            phase: self.phase,
            reason: self.reason,
            open: self.open,
            requested_by: self.requested_by,
            created_at: Timestamp(self.created_at),
            updated_at: Timestamp(self.updated_at),
            attributes: self.attributes,
            body: self.body.into_bytes()?,
        })
    }
}

impl EntryLine {
    pub(crate) fn new(entry: Entry, place: u32) -> Self {
        Self {
            execution: entry.execution.to_string(),
            sequence: entry.sequence.0,
            place,
            at: entry.at.0,
            actor: entry.actor,
            event: entry.event,
            from: entry.from,
            to: entry.to,
            detail: Body::from_bytes(&entry.detail),
        }
    }

    pub(crate) fn entry(self) -> Result<(Entry, u32), String> {
        let entry = Entry {
            sequence: Sequence(self.sequence),
            execution: id(&self.execution)?,
            at: Timestamp(self.at),
            actor: self.actor,
            event: self.event,
            from: self.from,
            to: self.to,
            detail: self.detail.into_bytes()?,
        };
        Ok((entry, self.place))
    }
}

impl TaskLine {
    pub(crate) fn new(task: &Task, since: Sequence, deliveries: u32) -> Self {
        Self {
            execution: task.id.execution.to_string(),
            visit: task.id.visit,
            slot: task.id.slot,
            due: task.due.0,
            since: since.0,
            deliveries,
            body: Body::from_bytes(&task.body),
        }
    }

    pub(crate) fn task(self) -> Result<(Task, Sequence, u32), String> {
        let id = TaskId { execution: id(&self.execution)?, visit: self.visit, slot: self.slot };
        let task = Task { id, due: Timestamp(self.due), body: self.body.into_bytes()? };
        Ok((task, Sequence(self.since), self.deliveries))
    }
}

impl DocumentLine {
    pub(crate) fn new(document: Document) -> Self {
        let Key { collection, id } = document.key;
        Self { collection, id, version: document.version.0, body: Body::from_bytes(&document.body) }
    }

    pub(crate) fn document(self) -> Result<Document, String> {
        let body = self.body.into_bytes()?;
        Ok(Document { key: Key::new(self.collection, self.id), version: Sequence(self.version), body })
    }
}
