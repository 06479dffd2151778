//! Starts executions.
//!
//! Invariant: the same idempotency key starts one execution.

use super::commit::ExtraWrites;
use crate::{
    ActionError, Engine, Error, Person, Request, Workflow,
    model::{documents::collection, input::VersionedInput},
    search::attributes::bounded,
};
use serde::{Deserialize, Serialize};
use serde_json::Value;
use store::{ExecutionId, Key, Put, Read, Settle};

/// A stored idempotency key.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub(crate) struct StoredRequestKey {
    pub(crate) execution: ExecutionId,
    fingerprint: String,
}

/// The answer to a start.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Started {
    /// The execution.
    pub id: ExecutionId,
    /// True if an earlier request with the same key had started it.
    pub replayed: bool,
}

impl<P: Send + Sync + 'static> Engine<P> {
    /// Starts an execution of `data`.
    ///
    /// # Errors
    /// Returns [`store::Error::Busy`] if its guard is taken, [`store::Error::Conflict`] if a read of the request has
    /// changed, [`Error::KeyReused`] if its key was used for a different request.
    pub async fn start<W: Workflow<Platform = P>>(
        &self,
        data: W,
        request: Request,
    ) -> Result<Started, Error> {
        let data = serde_json::to_value(&data)
            .map_err(|e| Error::Undecided(ActionError::permanent("engine.encode", e)))?;
        self.begin(W::NAME, W::SCHEMA, data, request, None, ExtraWrites::default()).await
    }

    /// Starts an execution, and settles the requesting task in the same commit.
    pub(crate) async fn begin(
        &self,
        workflow: &str,
        schema: u32,
        data: Value,
        request: Request,
        settle: Option<Settle>,
        mut also: ExtraWrites,
    ) -> Result<Started, Error> {
        let now = self.inner.clock.now();
        let id = request.id.unwrap_or_else(|| ExecutionId::new(now, self.inner.clock.entropy()));
        let by = Person::new(&*request.by, [""; 0]).with_provenance(request.provenance.clone());
        let mut next =
            self.machine(workflow, schema)?.open(id, VersionedInput { schema, data }, &by, now, None)?;
        let written = request.attributes.into_iter();
        next.record.attributes.extend(
            written.filter_map(|(name, values)| Some((name, bounded(values.into_iter().collect())?))),
        );
        also.reads.extend(request.reads);
        also.documents.extend(request.documents);
        if let Some((key, fingerprint)) = &request.once {
            let key = Key::new(collection::REQUESTS, key);
            if let Some(started) = self.remembered(&key, fingerprint).await? {
                return Ok(started);
            }
            if let Some(started) =
                self.remembered_earlier(request.earlier_key.as_deref(), fingerprint).await?
            {
                return Ok(started);
            }
            let body =
                serde_json::to_vec(&StoredRequestKey { execution: id, fingerprint: fingerprint.clone() });
            also.reads.push(Read { key: key.clone(), version: None });
            also.documents.push(Put { key, body: Some(body.unwrap_or_default()) });
        }
        match self.commit(None, next, settle, also).await {
            Err(Error::Store(store::Error::Conflict { what })) => {
                // A concurrent duplicate of this request may have won.
                let Some((key, fingerprint)) = &request.once else {
                    return Err(store::Error::Conflict { what }.into());
                };
                let twin = self.remembered(&Key::new(collection::REQUESTS, key), fingerprint).await?;
                twin.ok_or_else(|| store::Error::Conflict { what }.into())
            }
            other => {
                other?;
                self.inner.metrics.started(workflow);
                tracing::info!(execution = %id, trace_id = %id.trace_id(), workflow, by = request.by, "started");
                Ok(Started { id, replayed: false })
            }
        }
    }

    /// Returns the execution that the same request started under the key of an earlier version. Other requests are
    /// ignored.
    async fn remembered_earlier(
        &self,
        key: Option<&str>,
        fingerprint: &str,
    ) -> Result<Option<Started>, Error> {
        let Some(key) = key else { return Ok(None) };
        match self.remembered(&Key::new(collection::REQUESTS, key), fingerprint).await {
            Err(Error::KeyReused { .. }) => Ok(None),
            other => other,
        }
    }

    async fn remembered(&self, key: &Key, fingerprint: &str) -> Result<Option<Started>, Error> {
        let Some(found) = self.inner.store.document(key).await? else { return Ok(None) };
        let corrupt =
            |e: serde_json::Error| store::Error::Corrupt { what: key.to_string(), why: e.to_string() };
        let found: StoredRequestKey = serde_json::from_slice(&found.body).map_err(corrupt)?;
        if found.fingerprint != fingerprint {
            return Err(Error::KeyReused { key: key.id.clone(), execution: found.execution });
        }
        Ok(Some(Started { id: found.execution, replayed: true }))
    }
}
