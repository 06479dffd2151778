//! Sends the commands of batches at their rate.

use super::{
    record::{BATCHES, RUNNING, end, item_key, load},
    request::batch_query,
};
use crate::{
    Attribution, Batch, BatchItem, BatchResult, Engine, Error, model::documents::parse::parse,
    runtime::commit::ExtraWrites,
};
use std::{collections::BTreeMap, time::Duration};
use store::{Commit, ExecutionId, Key, Put, Query, Read, Record, Sequence, Timestamp};

/// The most batches read at once.
const PAGE: usize = 100;

/// The position of a batch when this process started to work on it, and the time.
#[derive(Clone, Copy)]
struct Pace {
    from: Timestamp,
    first: u32,
}

/// Sends the commands of running batches. It stores only their rates in memory; another process continues where it
/// stopped.
#[derive(Default)]
pub struct Batches {
    paces: BTreeMap<String, Pace>,
}

/// The result of one item.
struct ItemOutcome {
    result: BatchResult,
    why: Option<String>,
}

impl Batches {
    /// Sends every due command. Returns when the next one is due, or `None` if no batch is running.
    ///
    /// # Errors
    /// Returns the store's error. Progress is stored, and the next call continues.
    pub async fn work<P: Send + Sync + 'static>(
        &mut self,
        engine: &Engine<P>,
    ) -> Result<Option<Timestamp>, Error> {
        let (mut after, mut soonest, mut running) = (None::<String>, None, Vec::new());
        loop {
            let page = engine.inner.store.documents(RUNNING, "", after.as_deref(), PAGE).await?;
            running.extend(page.items.iter().map(|mark| String::from_utf8_lossy(&mark.body).into_owned()));
            after = page.next;
            if after.is_none() {
                break;
            }
        }
        self.paces.retain(|id, _| running.contains(id));
        for id in running {
            let due = self.work_on(engine, &id).await?;
            soonest = [soonest, due].into_iter().flatten().min();
        }
        Ok(soonest)
    }

    async fn work_on<P: Send + Sync + 'static>(
        &mut self,
        engine: &Engine<P>,
        id: &str,
    ) -> Result<Option<Timestamp>, Error> {
        loop {
            let Some((batch, version)) =
                load(engine, id).await?.filter(|(batch, _)| batch.ended_at.is_none())
            else {
                return Ok(None);
            };
            let now = engine.inner.clock.now();
            let due = self.due(&batch, now);
            if due > now {
                return Ok(Some(due));
            }
            match run_next(engine, batch, version, now).await {
                // The execution or the batch has changed: read both again.
                Ok(()) | Err(Error::Store(store::Error::Conflict { .. })) => {}
                Err(error) => return Err(error),
            }
        }
    }

    /// Returns when the next item is due. A delayed batch does not catch up in a burst.
    fn due(&mut self, batch: &Batch, now: Timestamp) -> Timestamp {
        let pace = self.paces.entry(batch.id.clone()).or_insert(Pace { from: now, first: batch.next });
        let gone = u64::from(batch.next.saturating_sub(pace.first));
        let rate = u64::from(batch.rate.max(1));
        let due =
            pace.from.after(Duration::from_millis(gone.saturating_mul(1_000).checked_div(rate).unwrap_or(0)));
        if now.since(due) > Duration::from_secs(1) {
            *pace = Pace { from: now, first: batch.next };
            return now;
        }
        due
    }
}

/// Sends the command to the next execution and counts it, in one commit. Ends the batch after the last one.
async fn run_next<P: Send + Sync + 'static>(
    engine: &Engine<P>,
    mut batch: Batch,
    version: Sequence,
    now: Timestamp,
) -> Result<(), Error> {
    let n = batch.next;
    let store = &engine.inner.store;
    let key = item_key(&batch.id, n);
    let item: Option<BatchItem> = store.document(&key).await?.as_ref().map(parse).transpose()?;
    let reads = vec![Read { key: Key::new(BATCHES, &batch.id), version: Some(version) }];
    let Some(item) = item.filter(|_| n < batch.total) else {
        let documents = end(&mut batch, now);
        store.commit(Commit { reads, documents, ..Commit::default() }).await?;
        return Ok(());
    };
    batch.next = n.saturating_add(1);
    let record = match batch_query(&batch.filter, batch.tenant.as_deref(), (batch.created_at, Vec::new())) {
        Ok(query) => load_if_matching(engine, item.execution, &query).await?,
        Err(misread) => Err(misread.to_string()),
    };
    let turned = match record {
        Err(why) => ItemOutcome { result: BatchResult::Skipped, why: Some(why) },
        Ok(record) => {
            let mut counted = batch.clone();
            let took = ItemOutcome { result: BatchResult::Done, why: None };
            let documents = record_item(&mut counted, &item, key.clone(), took, now);
            match command(engine, &batch, &record, reads.clone(), documents).await {
                Err(
                    error @ (Error::Refused(_)
                    | Error::NoWorker { .. }
                    | Error::Unreadable { .. }
                    | Error::Destroyed { .. }),
                ) => ItemOutcome { result: BatchResult::Refused, why: Some(error.to_string()) },
                other => {
                    other?;
                    engine.inner.metrics.batched(BatchResult::Done.into());
                    return Ok(());
                }
            }
        }
    };
    let result = turned.result;
    let documents = record_item(&mut batch, &item, key, turned, now);
    store.commit(Commit { reads, documents, ..Commit::default() }).await?;
    engine.inner.metrics.batched(result.into());
    Ok(())
}

/// Returns the record if it still matches, or else the reason.
async fn load_if_matching<P: Send + Sync + 'static>(
    engine: &Engine<P>,
    id: ExecutionId,
    query: &Query,
) -> Result<Result<Record, String>, Error> {
    let Some(record) = engine.inner.store.load(id).await? else {
        return Ok(Err("it no longer exists".into()));
    };
    if query.accepts(&record) { Ok(Ok(record)) } else { Ok(Err("it no longer matches the filter".into())) }
}

async fn command<P: Send + Sync + 'static>(
    engine: &Engine<P>,
    batch: &Batch,
    record: &Record,
    reads: Vec<Read>,
    documents: Vec<Put>,
) -> Result<(), Error> {
    let reason = format!("batch {}: {}", batch.id, batch.reason);
    let event = batch.verb.event(Attribution { by: batch.by.clone(), reason });
    let machine = engine.machine(&record.workflow, record.schema)?;
    let next = machine.advance(record, event, engine.inner.clock.now())?;
    let also = ExtraWrites { reads, documents, ..ExtraWrites::default() };
    engine.commit(Some(record.revision), next, None, also).await.map(|_| ())
}

/// Counts an item. Ends the batch after the last one.
fn record_item(
    batch: &mut Batch,
    item: &BatchItem,
    key: Key,
    turned: ItemOutcome,
    now: Timestamp,
) -> Vec<Put> {
    let counter = match turned.result {
        BatchResult::Done => &mut batch.done,
        BatchResult::Refused => &mut batch.refused,
        BatchResult::Skipped => &mut batch.skipped,
    };
    *counter = counter.saturating_add(1);
    let item =
        BatchItem { result: Some(turned.result), why: turned.why, at: Some(now), execution: item.execution };
    let mut documents = vec![Put { key, body: serde_json::to_vec(&item).ok() }];
    if batch.next == batch.total {
        documents.extend(end(batch, now));
    } else {
        documents.push(batch.to_put());
    }
    documents
}
