//! Relays events to an engine of another version, by way of the store.
//!
//! While servers are replaced one by one, a person may send a command to a server that cannot read the execution,
//! because a newer one has upgraded it. The event becomes a message, which an engine that can read the execution
//! delivers. The same commit contains the answer or the refusal. The sender waits for the answer and removes it. If
//! no engine delivers the message in time, a commit withdraws it, so it has taken effect or never will.

use super::commit::{ExtraWrites, MAX_TRIES};
use crate::{
    Engine, Error, Event, Refusal,
    model::{
        documents::parse::parse,
        execution::message::{Message, Relayed},
    },
};
use serde::{Deserialize, Serialize};
use std::time::Duration;
use store::{Commit, ExecutionId, Key, Put, Record, Revision, Settle};

/// The answers that are still stored.
const COLLECTION: &str = "relayed";
/// How often the sender checks for an answer.
const POLL_INTERVAL: Duration = Duration::from_millis(20);
/// The age at which an answer counts as abandoned and is removed by the next sender.
const ANSWER_LIFETIME: Duration = Duration::from_secs(3_600);
const MAX_CLEARED: usize = 16;

/// The answer to a relayed event.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
enum Answer {
    Taken(Revision),
    Refused {
        code: String,
        said: String,
    },
    /// The record was not at the requested revision.
    Moved(String),
}

impl Answer {
    fn to_put(&self, answer: ExecutionId) -> Put {
        Put { key: key(answer), body: Some(serde_json::to_vec(self).unwrap_or_default()) }
    }

    fn read(self) -> Result<Revision, Error> {
        match self {
            Self::Taken(revision) => Ok(revision),
            Self::Refused { code, said } => Err(Refusal::Elsewhere { code, said }.into()),
            Self::Moved(what) => Err(store::Error::Conflict { what }.into()),
        }
    }
}

fn key(answer: ExecutionId) -> Key {
    Key::new(COLLECTION, answer.to_string())
}

/// Returns the conflict of a command that is bound to an old revision.
pub(crate) fn moved_on(record: &Record, wanted: Revision) -> String {
    format!("execution {} is at revision {}, and revision {wanted} of it", record.id, record.revision)
}

impl<P: Send + Sync + 'static> Engine<P> {
    /// Returns the result of the call. Relays the event to another engine if this one cannot read the execution.
    pub(crate) async fn or_relayed(
        &self,
        id: ExecutionId,
        (event, revision): (Event, Option<Revision>),
        result: Result<Revision, Error>,
    ) -> Result<Revision, Error> {
        match (result, self.inner.options.relay) {
            (Err(error @ Error::NoWorker { .. }), Some(within)) => {
                match self.relay(id, event, revision, within).await? {
                    Some(answer) => answer.read(),
                    None => Err(error),
                }
            }
            (result, _) => result,
        }
    }

    async fn relay(
        &self,
        id: ExecutionId,
        event: Event,
        revision: Option<Revision>,
        within: Duration,
    ) -> Result<Option<Answer>, Error> {
        let (store, now) = (&self.inner.store, self.inner.clock.now());
        let answer = ExecutionId::new(now, self.inner.clock.entropy());
        let task = Message::Relayed(Box::new(Relayed { event, revision, answer })).task(id, now);
        let asked = task.id;
        self.clear_relayed().await?;
        store.commit(Commit { schedule: vec![task], ..Commit::default() }).await?;
        tracing::debug!(execution = %id, trace_id = %id.trace_id(), "relayed to an engine that can read the execution");
        let until = now.after(within);
        loop {
            self.inner.clock.sleep_until(self.inner.clock.now().after(POLL_INTERVAL)).await;
            if let Some(found) = self.take_answer(answer).await? {
                return Ok(Some(found));
            }
            if self.inner.clock.now() >= until {
                break;
            }
        }
        store.commit(Commit { retire: vec![asked], ..Commit::default() }).await?;
        // It may have been delivered just before.
        self.take_answer(answer).await
    }

    async fn take_answer(&self, answer: ExecutionId) -> Result<Option<Answer>, Error> {
        let Some(found) = self.inner.store.document(&key(answer)).await? else { return Ok(None) };
        let documents = vec![Put { key: key(answer), body: None }];
        self.inner.store.commit(Commit { documents, ..Commit::default() }).await?;
        parse(&found).map(Some)
    }

    /// Removes answers of senders that have gone.
    async fn clear_relayed(&self) -> Result<(), Error> {
        let now = self.inner.clock.now();
        let old = self.inner.store.documents(COLLECTION, "", None, MAX_CLEARED).await?.items;
        let is_old = |key: &Key| {
            key.id.parse::<ExecutionId>().is_ok_and(|id| now.since(id.created_at()) > ANSWER_LIFETIME)
        };
        let gone = old.into_iter().map(|document| document.key).filter(is_old);
        let documents: Vec<Put> = gone.map(|key| Put { key, body: None }).collect();
        if !documents.is_empty() {
            self.inner.store.commit(Commit { documents, ..Commit::default() }).await?;
        }
        Ok(())
    }

    /// Delivers an event of another engine, and answers in the same commit.
    pub(crate) async fn deliver_relayed(
        &self,
        id: ExecutionId,
        relayed: Relayed,
        settle: Settle,
    ) -> Result<(), Error> {
        let Relayed { event, revision, answer } = relayed;
        for _ in 0..MAX_TRIES {
            let record = self.record(id).await?;
            if let Some(wanted) = revision.filter(|wanted| *wanted != record.revision) {
                let said = Answer::Moved(moved_on(&record, wanted));
                return self.answered(said, answer, settle).await;
            }
            let machine = self.machine(&record.workflow, record.schema)?;
            let next = match machine.advance(&record, event.clone(), self.inner.clock.now()) {
                Ok(next) => next,
                Err(Error::Refused(refusal)) => {
                    let said = Answer::Refused { code: refusal.code().into(), said: refusal.to_string() };
                    return self.answered(said, answer, settle).await;
                }
                Err(error) => return Err(error),
            };
            let said = Answer::Taken(record.revision.next());
            let also = ExtraWrites { documents: vec![said.to_put(answer)], ..ExtraWrites::default() };
            match self.commit(Some(record.revision), next, Some(settle), also).await {
                Err(Error::Store(store::Error::Conflict { .. })) => self.inner.metrics.conflict(),
                // The sender gets the error, and nothing has changed.
                Err(Error::Store(error)) if !error.may_pass() => {
                    let too_large = matches!(error, store::Error::TooLarge { .. });
                    let code = if too_large { "request.too_large" } else { "request.malformed" };
                    let said = Answer::Refused { code: code.into(), said: error.to_string() };
                    return self.answered(said, answer, settle).await;
                }
                other => return other.map(drop),
            }
        }
        Err(Error::Contended(id))
    }

    async fn answered(&self, said: Answer, answer: ExecutionId, settle: Settle) -> Result<(), Error> {
        let documents = vec![said.to_put(answer)];
        self.inner.store.commit(Commit { documents, settle: Some(settle), ..Commit::default() }).await?;
        Ok(())
    }
}
