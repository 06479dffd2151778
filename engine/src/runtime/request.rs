//! What is asked for when an execution is to start.

use crate::{Person, Provenance};
use store::{Attributes, ExecutionId, Put, Read};

/// Who asks for an execution, and what else its start commits.
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
    /// Asked for by `person`.
    #[must_use]
    pub fn by(person: &Person) -> Self {
        Self { provenance: person.provenance.clone(), ..Self::by_name(person.name.clone()) }
    }

    /// The same, by a credential that comes from there.
    #[must_use]
    pub fn with_provenance(self, provenance: Provenance) -> Self {
        Self { provenance: Some(Box::new(provenance)), ..self }
    }

    pub(crate) fn by_name(by: String) -> Self {
        Self { by, ..Self::default() }
    }

    /// What the execution is to be called, so that documents of the same commit can name it.
    pub(crate) fn with_id(mut self, id: ExecutionId) -> Self {
        self.id = Some(id);
        self
    }

    /// Asked for under a key: the same key starts nothing again. `fingerprint` tells whether it is the same request.
    #[must_use]
    pub fn with_idempotency_key(mut self, key: impl Into<String>, fingerprint: impl Into<String>) -> Self {
        self.once = Some((key.into(), fingerprint.into()));
        self
    }

    /// Also looks under the key that an earlier version stored for the same request. That key may belong to another request
    /// too, so it counts only if its fingerprint is the same.
    #[must_use]
    pub fn with_earlier_key(self, key: Option<String>) -> Self {
        Self { earlier_key: key, ..self }
    }

    /// With this written on it, such as `team=ml`; it is found by that. What is longer than 256 bytes, or more than 16, is not.
    #[must_use]
    pub fn with_label(mut self, label: impl Into<String>) -> Self {
        self.attributes.entry("label".into()).or_default().insert(label.into());
        self
    }

    /// Started by the schedule of this name; it is found by that.
    #[must_use]
    pub fn with_schedule(mut self, schedule: impl Into<String>) -> Self {
        self.attributes.entry("schedule".into()).or_default().insert(schedule.into());
        self
    }

    /// Asked for within somebody's own trace: the `traceparent` of W3C that came with it. The execution's trace links to that one.
    #[must_use]
    pub fn with_traceparent(mut self, traceparent: impl Into<String>) -> Self {
        self.attributes.entry("traceparent".into()).or_default().insert(traceparent.into());
        self
    }

    /// Also writes these, if `reads` still hold, in the very commit that starts the execution.
    #[must_use]
    pub fn with_documents(mut self, reads: Vec<Read>, documents: Vec<Put>) -> Self {
        self.reads.extend(reads);
        self.documents.extend(documents);
        self
    }
}
