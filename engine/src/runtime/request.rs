//! The request that starts an execution.

use crate::{Person, Provenance};
use store::{Attributes, ExecutionId, Put, Read};

/// The requester of an execution, and additional parts of its first commit.
#[derive(Clone, Debug, Default)]
pub struct Request {
    pub(crate) by: String,
    pub(crate) provenance: Option<Box<Provenance>>,
    pub(crate) id: Option<ExecutionId>,
    pub(crate) once: Option<(String, String)>,
    pub(crate) earlier_key: Option<String>,
    pub(crate) documents: Vec<Put>,
    pub(crate) reads: Vec<Read>,
    pub(crate) attributes: Attributes,
}

impl Request {
    /// Creates a request by `person`.
    #[must_use]
    pub fn by(person: &Person) -> Self {
        Self { provenance: person.provenance.clone(), ..Self::by_name(person.name.clone()) }
    }

    /// Sets the origin of the requester's credential.
    #[must_use]
    pub fn with_provenance(self, provenance: Provenance) -> Self {
        Self { provenance: Some(Box::new(provenance)), ..self }
    }

    pub(crate) fn by_name(by: String) -> Self {
        Self { by, ..Self::default() }
    }

    /// Sets the id of the execution, so that documents of the same commit can refer to it.
    pub(crate) fn with_id(mut self, id: ExecutionId) -> Self {
        self.id = Some(id);
        self
    }

    /// Sets an idempotency key: the same key starts nothing again. `fingerprint` identifies the content of the
    /// request.
    #[must_use]
    pub fn with_idempotency_key(mut self, key: impl Into<String>, fingerprint: impl Into<String>) -> Self {
        self.once = Some((key.into(), fingerprint.into()));
        self
    }

    /// Also checks the key that an earlier version stored for the same request. Another request may have used that
    /// key, so it counts only with the same fingerprint.
    #[must_use]
    pub fn with_earlier_key(self, key: Option<String>) -> Self {
        Self { earlier_key: key, ..self }
    }

    /// Adds a label such as `team=ml`, for searches. Labels over 256 bytes, and more than 16, are not stored.
    #[must_use]
    pub fn with_label(mut self, label: impl Into<String>) -> Self {
        self.attributes.entry("label".into()).or_default().insert(label.into());
        self
    }

    /// Names the schedule that starts it, for searches.
    #[must_use]
    pub fn with_schedule(mut self, schedule: impl Into<String>) -> Self {
        self.attributes.entry("schedule".into()).or_default().insert(schedule.into());
        self
    }

    /// Sets the W3C `traceparent` of the request. The execution's trace links to it.
    #[must_use]
    pub fn with_traceparent(mut self, traceparent: impl Into<String>) -> Self {
        self.attributes.entry("traceparent".into()).or_default().insert(traceparent.into());
        self
    }

    /// Adds writes to the commit that starts the execution, conditional on `reads`.
    #[must_use]
    pub fn with_documents(mut self, reads: Vec<Read>, documents: Vec<Put>) -> Self {
        self.reads.extend(reads);
        self.documents.extend(documents);
        self
    }
}
