//! The author of document changes outside of executions, as an entry of the journal.
//!
//! Set once when a request is accepted, around all its work; [`Engine::transact`](crate::Engine::transact) reads it,
//! so no caller in between can forget it. Invariant: the entry is part of the commit that changes the documents.

use serde_json::json;
use std::future::Future;
use store::{Entry, ExecutionId, Put, Sequence, Timestamp};

/// The most documents that an entry names. The entry always has their number.
const MAX_NAMED_DOCUMENTS: usize = 32;

/// The author of a change, and the operation.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct AuditContext {
    /// The name of a person or a key.
    pub by: String,
    /// The operation as the list of operations has it, such as `POST /v1/holds`.
    pub operation: String,
    /// The path with its names filled in, such as `/v1/holds/acme/3:release`. At most the first 1,024 bytes are
    /// stored.
    pub path: String,
}

tokio::task_local! {
    static BEHALF: AuditContext;
    static REASON: String;
}

/// The longest stored reason, in characters.
const MAX_REASON_LENGTH: usize = 2_000;

/// Runs `work` on behalf of `of`: its commits by [`Engine::transact`](crate::Engine::transact) get a journal entry
/// outside of any execution. Spawned work is not covered.
pub async fn with_actor<F: Future>(of: AuditContext, work: F) -> F::Output {
    BEHALF.scope(of, work).await
}

/// Runs `work` with a reason, which the journal entries of its commits contain.
pub async fn with_reason<F: Future>(reason: &str, work: F) -> F::Output {
    if reason.is_empty() {
        return work.await;
    }
    REASON.scope(reason.chars().take(MAX_REASON_LENGTH).collect(), work).await
}

impl AuditContext {
    /// The event of these entries.
    pub const EVENT: &'static str = "asked";

    /// The event of an entry that names an erased execution.
    pub const ERASED: &'static str = "erased";

    /// The execution id of entries that belong to no execution.
    #[must_use]
    pub fn no_execution() -> ExecutionId {
        ExecutionId::from_bytes([0; 16])
    }
}

/// Returns the current author, if there is one.
pub(crate) fn actor() -> Option<String> {
    BEHALF.try_with(|of| of.by.clone()).ok()
}

/// Returns the entry for a commit that writes `documents` and sends `asks` messages, or `None` without an author.
pub(crate) fn entry(documents: &[Put], asks: usize, now: Timestamp) -> Option<Entry> {
    let AuditContext { by, operation: asked, path: at } = BEHALF.try_with(Clone::clone).ok()?;
    let named = |kept: bool| -> Vec<String> {
        let of = documents.iter().filter(|put| put.body.is_some() == kept);
        of.take(MAX_NAMED_DOCUMENTS).map(|put| put.key.to_string()).collect()
    };
    let at: String = at.chars().take(1_024).collect();
    let mut detail = json!({
        "asked": asked, "at": at, "documents": documents.len(), "wrote": named(true), "removed": named(false), "asks": asks,
    });
    if let (Ok(reason), Some(fields)) = (REASON.try_with(Clone::clone), detail.as_object_mut()) {
        fields.insert("reason".into(), reason.into());
    }
    Some(Entry {
        sequence: Sequence(0),
        execution: AuditContext::no_execution(),
        at: now,
        actor: by,
        event: AuditContext::EVENT.into(),
        from: String::new(),
        to: String::new(),
        detail: serde_json::to_vec(&detail).unwrap_or_default(),
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{Engine, Entity, ManualClock, View};
    use serde::{Deserialize, Serialize};
    use std::sync::Arc;
    use store::{Memory, Store as _};

    #[derive(Clone, Serialize, Deserialize)]
    struct Note(String);

    impl Entity for Note {
        const COLLECTION: &'static str = "notes";
        const RETENTION: crate::Retention<Self> = crate::Retention::WithSubject;

        fn id(&self) -> String {
            self.0.clone()
        }
    }

    fn write(view: &mut View) -> Result<(), crate::Undecided> {
        view.get::<Note>("n")?;
        view.put(&Note("n".into()))
    }

    async fn history(store: &Memory) -> Vec<Entry> {
        store.history(None, 10).await.unwrap().items.into_iter().map(|(_, entry)| entry).collect()
    }

    #[tokio::test]
    async fn a_change_of_documents_records_its_author() {
        let store = Arc::new(Memory::new());
        let engine = Engine::new(store.clone(), Arc::new(ManualClock::starting_at(Timestamp(7))), ());
        let of =
            AuditContext { by: "ada".into(), operation: "POST /v1/notes".into(), path: "/v1/notes".into() };

        with_actor(of.clone(), with_reason("her manager asked", engine.transact(true, write))).await.unwrap();
        with_actor(of, engine.transact(false, write)).await.unwrap();
        with_reason("outside of any request", engine.transact(true, write)).await.unwrap();

        let entries = history(&store).await;
        assert_eq!(entries.len(), 1, "dry runs and changes by the engine itself have no author");
        assert_eq!((entries[0].actor.as_str(), entries[0].execution), ("ada", AuditContext::no_execution()));
        let detail: serde_json::Value = serde_json::from_slice(&entries[0].detail).unwrap();
        assert_eq!((&detail["wrote"], &detail["reason"]), (&json!(["notes/n"]), &json!("her manager asked")));
        let version = store.document(&store::Key::new("notes", "n")).await.unwrap().unwrap().version;
        assert!(entries[0].sequence < version, "the second write came later");
    }
}
