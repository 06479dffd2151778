//! Preconditions of document changes outside of executions, such as the version that the caller has read.
//!
//! Set around the work when a request is accepted; [`Engine::transact`](crate::Engine::transact) reads them, so no
//! caller in between can forget them. Invariant: every decision that is committed checks them on the same documents
//! that its commit depends on.

use crate::{Undecided, View};
use std::{fmt, future::Future, sync::Arc};

/// A condition on documents.
#[derive(Clone)]
pub struct Precondition(Arc<Check>);

/// Checks documents and returns an error if the condition is false.
type Check = dyn Fn(&mut View) -> Result<(), Undecided> + Send + Sync;

impl fmt::Debug for Precondition {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Condition")
    }
}

impl Precondition {
    /// Creates a condition: `holds` returns an error that says why it is false.
    pub fn new(holds: impl Fn(&mut View) -> Result<(), Undecided> + Send + Sync + 'static) -> Self {
        Self(Arc::new(holds))
    }

    pub(crate) fn check(&self, view: &mut View) -> Result<(), Undecided> {
        (self.0)(view)
    }
}

tokio::task_local! {
    static CONDITIONS: Vec<Precondition>;
}

/// Runs `work`. [`Engine::transact`](crate::Engine::transact) changes nothing in it unless `condition` and all outer
/// conditions hold. Spawned work is not bound.
pub async fn with_precondition<F: Future>(condition: Precondition, work: F) -> F::Output {
    let mut all = current();
    all.push(condition);
    CONDITIONS.scope(all, work).await
}

/// Returns the conditions in force here.
pub(crate) fn current() -> Vec<Precondition> {
    CONDITIONS.try_with(Clone::clone).unwrap_or_default()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{ActionError, Engine, Entity, Error, ManualClock};
    use serde::{Deserialize, Serialize};
    use std::sync::atomic::{AtomicBool, Ordering};
    use store::{Key, Memory, Put, Timestamp};

    #[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
    struct Note(String, u32);

    impl Entity for Note {
        const COLLECTION: &'static str = "notes";
        const RETENTION: crate::Retention<Self> = crate::Retention::WithSubject;

        fn id(&self) -> String {
            self.0.clone()
        }
    }

    fn document_equals(n: u32) -> Precondition {
        Precondition::new(move |view| match view.get::<Note>("n")? {
            Some(Note(_, stands)) if stands == n => Ok(()),
            _ => Err(ActionError::permanent("note.other", "its content is different").into()),
        })
    }

    fn engine() -> Engine<()> {
        Engine::new(Arc::new(Memory::new()), Arc::new(ManualClock::starting_at(Timestamp(7))), ())
    }

    async fn write(engine: &Engine<()>, n: u32) -> Result<(), Error> {
        engine.transact(true, |view| view.put(&Note("n".into(), n))).await
    }

    #[tokio::test]
    async fn nothing_is_changed_unless_every_condition_around_it_holds() {
        let engine = engine();
        write(&engine, 1).await.unwrap();

        with_precondition(document_equals(1), write(&engine, 2)).await.unwrap();
        let inner =
            with_precondition(document_equals(2), with_precondition(document_equals(7), write(&engine, 3)))
                .await;
        let outer =
            with_precondition(document_equals(7), with_precondition(document_equals(2), write(&engine, 3)))
                .await;
        let looked =
            with_precondition(document_equals(7), engine.transact(false, |view| view.get::<Note>("n"))).await;

        assert!(inner.is_err() && outer.is_err(), "one of two conditions is false");
        assert_eq!(looked.unwrap(), Some(Note("n".into(), 2)), "a dry run ignores conditions");
    }

    #[tokio::test]
    async fn a_condition_that_ceases_to_hold_before_the_commit_stops_it() {
        let engine = engine();
        write(&engine, 1).await.unwrap();
        let store = engine.store().clone();
        let meddled = AtomicBool::new(false);

        // Another writer commits after the condition was checked, and before the dependent commit.
        let done = with_precondition(document_equals(1), async {
            engine
                .transact(true, |view| {
                    if !meddled.swap(true, Ordering::Relaxed) {
                        let body = serde_json::to_vec(&Note("n".into(), 9)).unwrap();
                        let put = Put { key: Key::new("notes", "n"), body: Some(body) };
                        let commit = store::Commit { documents: vec![put], ..store::Commit::default() };
                        let store = store.clone();
                        std::thread::spawn(move || commit_now(store, commit)).join().unwrap();
                    }
                    view.put(&Note("other".into(), 1))
                })
                .await
        })
        .await;

        assert!(done.is_err());
        let other = engine.transact(false, |view| view.get::<Note>("other")).await.unwrap();
        assert_eq!(other, None);
    }

    fn commit_now(store: Arc<dyn store::Store>, commit: store::Commit) {
        let runtime = tokio::runtime::Builder::new_current_thread().build().unwrap();
        runtime.block_on(store.commit(commit)).unwrap();
    }
}
