//! Decodes the body of a stored record, and upgrades older schemas.
//!
//! Invariant: a body that cannot be decoded affects only its own execution.

use crate::{
    Error, Execution, ExecutionView, Plan, PlanDigest, Workflow,
    model::{execution::state::state_named, input::VersionedInput},
};
use serde_json::Value;
use store::{ExecutionId, Record, Timestamp, encrypted::Undecryptable};

impl ExecutionView {
    /// Returns the stored data of an execution whose workflow this engine does not have.
    pub(crate) fn as_stored(record: &Record, plan: Plan, digest: PlanDigest) -> Result<Self, Error> {
        check_readable(record)?;
        let unreadable = |e: serde_json::Error| Error::Unreadable { id: record.id, why: e.to_string() };
        let body = serde_json::from_slice(&record.body).map_err(unreadable)?;
        Ok(Self { body, plan, digest, children: Vec::new() })
    }
}

pub(super) fn decode<W: Workflow>(record: &Record) -> Result<Execution<W>, Error> {
    let unreadable = |why: String| Error::Unreadable { id: record.id, why };
    check_readable(record)?;
    if record.schema == W::SCHEMA {
        return serde_json::from_slice(&record.body).map_err(|e| unreadable(e.to_string()));
    }
    if record.schema > W::SCHEMA {
        return Err(Error::NoWorker { workflow: record.workflow.clone(), schema: record.schema });
    }
    let mut body: Value = serde_json::from_slice(&record.body).map_err(|e| unreadable(e.to_string()))?;
    let data = body.get_mut("data").map(Value::take).unwrap_or_default();
    let data = W::upgrade(record.schema, data).map_err(|e| unreadable(e.to_string()))?;
    if let Some(fields) = body.as_object_mut() {
        fields.insert("data".into(), data);
        fields.entry("plan_schema").or_insert(record.schema.into());
    }
    serde_json::from_value(body).map_err(|e| unreadable(e.to_string()))
}

/// Returns an error if the body is encrypted and its key is gone.
fn check_readable(record: &Record) -> Result<(), Error> {
    let id = record.id;
    match Undecryptable::from_body(&record.body) {
        None => Ok(()),
        Some(said) if said.destroyed_at.is_some() => Err(Error::Destroyed { id, what: said.to_string() }),
        Some(said) => Err(Error::Unreadable { id, why: said.to_string() }),
    }
}

/// Upgrades a record to the current schema. Only its form changes.
pub(super) fn upgraded<W: Workflow>(record: &Record, at: Timestamp) -> Result<Record, Error> {
    let unreadable = |why: String| Error::Unreadable { id: record.id, why };
    check_readable(record)?;
    // Checked before the whole body is decoded, so that the error names the obstacle.
    let body: Value = serde_json::from_slice(&record.body).map_err(|e| unreadable(e.to_string()))?;
    let has = |name: &str| state_named::<W::State>(name).is_some();
    let lacks = |name: &str| format!("{name}, which schema {} does not have", W::SCHEMA);
    let state = body.get("state").and_then(Value::as_str).unwrap_or_default();
    if record.schema < W::SCHEMA && !has(state) {
        let why = lacks(state);
        return Err(unreadable(format!("it is in {why}: let it leave that state on a version that has it")));
    }
    let execution = decode::<W>(record)?;
    if let Some(mark) = execution.trail.iter().find(|mark| mark.needs_undo() && !has(&mark.state)) {
        let why = lacks(&mark.state);
        return Err(unreadable(format!("its compensation needs {why}: let it end on a version that has it")));
    }
    let subject = execution.data.subject();
    Ok(Record {
        schema: W::SCHEMA,
        tenant: subject.tenant,
        subject: subject.name,
        guard: subject.guard,
        updated_at: at,
        body: serde_json::to_vec(&execution).map_err(|e| unreadable(e.to_string()))?,
        ..record.clone()
    })
}

impl VersionedInput {
    /// Returns the data as `W`, for the execution `id`.
    pub(crate) fn read<W: Workflow>(self, id: ExecutionId) -> Result<W, Error> {
        let unreadable = |why: String| Error::Unreadable { id, why };
        if self.schema > W::SCHEMA {
            return Err(Error::NoWorker { workflow: W::NAME.into(), schema: self.schema });
        }
        let data = if self.schema < W::SCHEMA {
            W::upgrade(self.schema, self.data).map_err(|e| unreadable(e.to_string()))?
        } else {
            self.data
        };
        serde_json::from_value(data).map_err(|e| unreadable(e.to_string()))
    }
}
