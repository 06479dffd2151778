//! The full content of a store, for comparisons.

use crate::{Document, Entry, ExecutionId, Filter, Query, Record, Store, Task};
use std::collections::BTreeMap;

#[derive(Debug, Default, PartialEq, Eq)]
pub(super) struct Dump {
    pub(super) records: Vec<Record>,
    pub(super) entries: Vec<Entry>,
    pub(super) history: Vec<(u32, Entry)>,
    pub(super) tasks: Vec<Task>,
    pub(super) documents: Vec<Document>,
    pub(super) holders: Vec<Option<ExecutionId>>,
    pub(super) open: Vec<ExecutionId>,
    pub(super) of_tenants: Vec<Vec<ExecutionId>>,
}

/// Reads all of `store`, with every kind of read. History and tasks are also read for `ids`.
pub(super) async fn dump(store: &dyn Store, ids: &[ExecutionId], tenants: &[&str]) -> Dump {
    let all = usize::MAX;
    let list = async |filter: Filter| store.list(&filter, None, all).await.unwrap().items;
    let names = |records: Vec<Record>| records.into_iter().map(|record| record.id).collect::<Vec<_>>();
    let mut dump = Dump { records: list(Filter::default()).await, ..Dump::default() };
    for id in ids {
        dump.entries.extend(store.journal(*id, None, all).await.unwrap().items);
        dump.tasks.extend(store.tasks(*id).await.unwrap());
    }
    dump.history = store.history(None, all).await.unwrap().items;
    dump.documents = store.documents("nodes", "", None, all).await.unwrap().items;
    for record in &dump.records {
        assert_eq!(store.load(record.id).await.unwrap().as_ref(), Some(record));
        let guard = record.guard.as_deref().unwrap_or("none");
        dump.holders.push(store.guard_holder(guard).await.unwrap());
    }
    for document in &dump.documents {
        assert_eq!(store.document(&document.key).await.unwrap().as_ref(), Some(document));
    }
    dump.open = names(list(Filter { open: Some(true), ..Filter::default() }).await);
    for tenant in tenants {
        let filter = Filter { tenant: Some((*tenant).to_owned()), ..Filter::default() };
        dump.of_tenants.push(names(list(filter).await));
    }
    assert_searches(store, &dump.records).await;
    dump
}

/// A search by any value of any record finds exactly the records that have it, after any split, rebuild or delay.
async fn assert_searches(store: &dyn Store, records: &[Record]) {
    let of_record = |record: &Record| {
        let attributes = record.attributes.iter();
        let attributes =
            attributes.flat_map(|(field, values)| values.iter().map(move |value| Query::is(field, value)));
        let columns = [
            Query::is("state", &record.state),
            Query::is("subject", &record.subject),
            Query::is("open", record.open.to_string()),
            Query::UpdatedBetween {
                from: record.updated_at,
                until: crate::Timestamp(record.updated_at.0 + 1),
            },
            Query::is("tenant", &record.tenant).and(Query::is("phase", &record.phase)),
        ];
        attributes.chain(columns).collect::<Vec<_>>()
    };
    let queries: BTreeMap<String, Query> =
        records.iter().flat_map(of_record).map(|query| (format!("{query:?}"), query)).collect();
    // A sample, spread over all of them.
    for query in queries.values().step_by(1 + queries.len() / 40) {
        let wanted: Vec<&Record> = records.iter().filter(|record| query.accepts(record)).collect();
        let found = store.search(query, None, usize::MAX).await.unwrap();
        assert_eq!(found.items.iter().collect::<Vec<_>>(), wanted, "{query:?}");
    }
}
