//! A decision in its turn: it sees the documents as the earlier decisions leave them, and is committed with them.

use super::{
    batch::{Batch, Member, Verdict, send_back},
    queues::Place,
    reads::{are_unchanged, fetch},
    turn::Turn,
};
use crate::{
    ActionError, Engine, Error, Stopwatch, Undecided, View, documents::audit_context,
    model::documents::view::Changes,
};
use std::time::Duration;
use store::{Commit, Entry, Fault, Key, Put};
use tokio::sync::oneshot;

/// The result of one try with the available documents.
enum Tried<T> {
    Needs(Vec<Key>),
    Decided(Box<(Result<T, ActionError>, Changes, Option<Entry>)>),
}

impl<P: Send + Sync + 'static> Engine<P> {
    /// Decides in the turn of `place` and waits for the commit. Returns `None` if the decision must be repeated.
    pub(crate) async fn decide_in_turn<T>(
        &self,
        place: &mut Place,
        left: Duration,
        attempt: &mut impl FnMut(&mut View) -> Result<T, Undecided>,
    ) -> Result<Option<Result<T, ActionError>>, Error> {
        let turn = self.turn(place, left).await?;
        turn.value().refresh();
        let (result, changes, entry) = loop {
            match self.try_in(&turn, attempt) {
                Tried::Needs(keys) => {
                    let found = fetch(&*self.inner.store, keys).await?;
                    turn.value().learn(found);
                }
                Tried::Decided(decided) => break *decided,
            }
        };
        let (verdict, outcome) = oneshot::channel();
        let member = Member { ticket: place.ticket, verdict };
        turn.value().join(member, changes, result.is_ok(), entry);
        self.end_turn(turn);
        match outcome.await {
            Ok(Verdict::Committed) => Ok(Some(result)),
            Ok(Verdict::Again(next)) => {
                place.next = Some(next);
                Ok(None)
            }
            Ok(Verdict::Failed(error)) => Err(error.into()),
            Err(_) => {
                let why = "the server stopped during the commit".into();
                Err(store::Error::Unavailable { why }.into())
            }
        }
    }

    /// Returns a turn of `place` before which all earlier decisions of the queue are committed.
    pub(crate) async fn turn_alone(&self, place: &mut Place, left: Duration) -> Option<Turn<Batch>> {
        let turn = self.turn(place, left).await.ok()?;
        if turn.value().is_empty() {
            return Some(turn);
        }
        // In its own task: other callers depend on it, even if this one goes away.
        let engine = self.clone();
        tokio::spawn(async move { engine.commit_batch(turn).await }).await.ok()
    }

    /// Waits for the turn of `place`, at most for `left`.
    async fn turn(&self, place: &mut Place, left: Duration) -> Result<Turn<Batch>, Error> {
        let promise = place.next.take().unwrap_or_else(|| place.line.wait(place.ticket));
        let turn = tokio::time::timeout(left, promise).await.ok().and_then(Result::ok);
        let turn = turn.ok_or_else(|| Error::Crowded { what: place.what.clone() })?;
        Self::repair(&turn);
        Ok(turn)
    }

    /// Repeats the decisions of a batch whose documents were lost in a panic.
    fn repair(turn: &Turn<Batch>) {
        if turn.value().is_broken() {
            let (_, members) = turn.value().close();
            send_back(turn, members);
        }
    }

    /// Decides on the available documents. Never waits, so the batch is complete at every point where the caller can
    /// be dropped.
    fn try_in<T>(
        &self,
        turn: &Turn<Batch>,
        attempt: &mut impl FnMut(&mut View) -> Result<T, Undecided>,
    ) -> Tried<T> {
        let now = self.inner.clock.now();
        let (known, earlier) = turn.value().lend();
        let mut view = View::with_cache(now, known, &self.inner.document_cache).after(earlier);
        let result = match attempt(&mut view) {
            Err(Undecided::Needs(keys)) => {
                turn.value().restore(view.into_parts());
                return Tried::Needs(keys);
            }
            Err(Undecided::Failed(error)) => Err(error),
            Ok(output) => Ok(output),
        };
        let changes = view.into_parts();
        let put = |(key, written): (&Key, &crate::model::documents::view::Written)| Put {
            key: key.clone(),
            // Only whether an entry exists matters here.
            body: written.body.as_ref().map(|_| Vec::new()),
        };
        let puts: Vec<Put> = changes.writes.iter().map(put).collect();
        let writes = result.is_ok() && !(puts.is_empty() && changes.tasks.is_empty());
        let entry = if writes { audit_context::entry(&puts, changes.tasks.len(), now) } else { None };
        Tried::Decided(Box::new((result, changes, entry)))
    }

    /// Passes the turn on. The first decision of a batch schedules the commit behind all waiting decisions; a full
    /// batch is committed at once.
    fn end_turn(&self, turn: Turn<Batch>) {
        let engine = self.clone();
        if turn.value().is_full() {
            tokio::spawn(async move { drop(engine.commit_batch(turn).await) });
            return;
        }
        if !turn.value().has_one() {
            return;
        }
        let number = turn.value().number();
        let last = turn.line().wait(turn.line().ticket());
        tokio::spawn(async move {
            let Ok(turn) = last.await else { return };
            Self::repair(&turn);
            let is_due = turn.value().number() == number;
            if is_due {
                drop(engine.commit_batch(turn).await);
            }
        });
    }

    async fn commit_batch(&self, turn: Turn<Batch>) -> Turn<Batch> {
        let (commit, members) = turn.value().close();
        match self.commit_decisions(commit).await {
            Ok(()) => {
                turn.value().succeeded();
                for member in members {
                    // The caller may have gone.
                    drop(member.verdict.send(Verdict::Committed));
                }
            }
            Err(store::Error::Conflict { .. }) => {
                self.inner.metrics.conflict();
                let longest = turn.value().conflicted(members.len());
                send_back(&turn, members);
                self.pause(longest).await;
            }
            // One of the decisions causes the error, and must not stop the others.
            Err(error) if members.len() > 1 && error.fault() == Fault::Caller => {
                turn.value().separate();
                send_back(&turn, members);
            }
            Err(error) => {
                for member in members {
                    drop(member.verdict.send(Verdict::Failed(error.clone())));
                }
            }
        }
        turn
    }

    /// Commits decisions. If they write nothing, checks that their reads are unchanged.
    async fn commit_decisions(&self, commit: Commit) -> Result<(), store::Error> {
        let store = &*self.inner.store;
        if commit.documents.is_empty() && commit.schedule.is_empty() {
            let stands = are_unchanged(store, &commit.reads).await?;
            return if stands { Ok(()) } else { Err(store::Error::Conflict { what: "a document".into() }) };
        }
        let watch = Stopwatch::start();
        store.commit(commit).await?;
        self.inner.metrics.committed(watch.elapsed());
        self.inner.wakeup.notify();
        Ok(())
    }

    /// Pauses for a random part of `longest`, so that conflicting servers do not collide again.
    async fn pause(&self, longest: Duration) {
        if longest.is_zero() {
            return;
        }
        let chance = self.inner.clock.entropy().last().copied().unwrap_or(u8::MAX);
        tokio::time::sleep(longest.mul_f64(f64::from(chance) / 255.0)).await;
    }
}
