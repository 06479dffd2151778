//! Reads limiters, and updates them in one commit that is conditional on their versions.

use crate::{Engine, Entity as _, Error, Limiter, model::documents::parse::parse};
use store::{Commit, Document, Key, Put, Read};

/// A limiter as it was read, and its new state.
pub(crate) struct LimiterUpdate {
    key: Key,
    read: Read,
    pub(crate) before: Limiter,
    pub(crate) after: Limiter,
}

impl LimiterUpdate {
    /// Returns true if the state has not changed.
    pub(crate) fn stays(&self) -> bool {
        self.before == self.after || (self.read.version.is_none() && self.after.is_plain())
    }

    fn to_put(&self) -> Option<Put> {
        if self.stays() {
            return None;
        }
        let body = (!self.after.is_plain()).then(|| serde_json::to_vec(&self.after).unwrap_or_default());
        Some(Put { key: self.key.clone(), body })
    }
}

impl<P: Send + Sync + 'static> Engine<P> {
    /// Returns the limiters of `keys`.
    pub(crate) async fn gates<'a>(
        &self,
        keys: impl Iterator<Item = &'a str>,
    ) -> Result<Vec<LimiterUpdate>, Error> {
        let mut gates = Vec::new();
        for name in keys {
            let key = Key::new(Limiter::COLLECTION, name);
            let found = self.inner.store.document(&key).await?;
            let read = Read { key: key.clone(), version: found.as_ref().map(|document| document.version) };
            let before = found.as_ref().and_then(parse_limiter).unwrap_or_else(|| Limiter::for_key(name));
            gates.push(LimiterUpdate { key, read, after: before.clone(), before });
        }
        Ok(gates)
    }

    /// Commits the changed limiters. Returns false on a conflict.
    pub(crate) async fn change_gates(&self, gates: Vec<LimiterUpdate>) -> Result<bool, Error> {
        let documents: Vec<Put> = gates.iter().filter_map(LimiterUpdate::to_put).collect();
        if documents.is_empty() {
            return Ok(true);
        }
        let reads = gates.into_iter().map(|gate| gate.read).collect();
        match self.inner.store.commit(Commit { reads, documents, ..Commit::default() }).await {
            Ok(_) => Ok(true),
            Err(store::Error::Conflict { .. }) => {
                self.inner.metrics.conflict();
                Ok(false)
            }
            Err(error) => Err(error.into()),
        }
    }
}

/// Parses a limiter. An unreadable one is replaced, because it would block its key permanently.
fn parse_limiter(found: &Document) -> Option<Limiter> {
    let gate = parse::<Limiter>(found);
    gate.inspect_err(|error| tracing::error!(%error, "the limiter of a key is unreadable and is reset")).ok()
}
