//! Limits and names are checked before anything is changed.

use super::{case::Outcome, fixture::*};
use crate::{BODY_LIMIT, COMMIT_LIMIT, Commit, Key, NAME_LIMIT, Put, Record, TEXT_LIMIT};

pub(super) const CASES: &[Named] = &[
    ("a body past the limit is refused, whatever carries it", |on| boxed(bodies(on))),
    ("a commit past the limit is refused", |on| boxed(commits(on))),
    ("names past their limit are refused", |on| boxed(names(on))),
    ("a key that breaks the rules is refused", |on| boxed(keys(on))),
];

async fn bodies(on: On) -> Outcome {
    let big = vec![b'x'; BODY_LIMIT + 1];
    refused(on.commit(create(Record { body: big.clone(), ..record(1) })).await, too_large)?;
    let document = Put { key: key("a"), body: Some(big.clone()) };
    refused(on.commit(Commit { documents: vec![document], ..Commit::default() }).await, too_large)?;
    refused(on.commit(schedule(vec![crate::Task { body: big.clone(), ..task(1, 0, 1) }])).await, too_large)?;
    refused(on.commit(entries(vec![crate::Entry { detail: big, ..entry(1, "a") }])).await, too_large)?;
    same("sequence", on.health().await.sequence.0, 0)
}

async fn commits(on: On) -> Outcome {
    let put = |n: usize| Put { key: key(&n.to_string()), body: Some(vec![b'x'; BODY_LIMIT]) };
    let many = COMMIT_LIMIT / BODY_LIMIT;
    let over = Commit { documents: (0..=many).map(put).collect(), ..Commit::default() };
    refused(on.commit(over).await, too_large)?;
    same("documents", expect_ok(on.documents("nodes", "", None, 10).await)?.items.len(), 0)?;
    let within = Commit { documents: (1..many).map(put).collect(), ..Commit::default() };
    commit(&on, within).await?;
    same("documents", expect_ok(on.documents("nodes", "", None, 1_000).await)?.items.len(), many - 1)
}

async fn names(on: On) -> Outcome {
    let long = "x".repeat(NAME_LIMIT + 1);
    refused(on.commit(create(Record { guard: Some(long.clone()), ..record(1) })).await, too_large)?;
    refused(on.commit(create(Record { tenant: long.clone(), ..record(1) })).await, too_large)?;
    refused(on.commit(put(&long, "x")).await, too_large)?;
    refused(on.commit(create(Record { state: "x".repeat(TEXT_LIMIT + 1), ..record(1) })).await, too_large)?;
    commit(&on, create(Record { guard: Some("x".repeat(NAME_LIMIT)), ..record(1) })).await.map(|_| ())
}

async fn keys(on: On) -> Outcome {
    for collection in ["", "Nodes", "no des", "n\u{e9}uds", "a/b", "a\0"] {
        let document = Put { key: Key::new(collection, "a"), body: Some(Vec::new()) };
        refused(on.commit(Commit { documents: vec![document], ..Commit::default() }).await, invalid)?;
        refused(on.document(&Key::new(collection, "a")).await, invalid)?;
        refused(on.documents(collection, "", None, 1).await, invalid)?;
    }
    refused(on.commit(put("a\0b", "x")).await, invalid)?;
    refused(on.commit(having_read("a\0b", None, Commit::default())).await, invalid)?;
    refused(on.commit(create(Record { guard: Some("a\0b".into()), ..record(1) })).await, invalid)?;
    refused(on.commit(create(Record { tenant: "a\0b".into(), ..record(1) })).await, invalid)?;
    commit(&on, put("any text / with: ünïcode", "x")).await.map(|_| ())
}
