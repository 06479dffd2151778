//! A finished execution is erased with its history, in as many commits as necessary.

use super::{case::Outcome, fixture::*};
use crate::{Commit, Erase, Filter, Revision, Sequence};

pub(super) const CASES: &[Named] = &[
    ("an erased execution is gone with its history, and nothing else is", |on| boxed(gone(on))),
    ("a long history is erased in parts, the oldest first, and the record with the last", |on| {
        boxed(parts(on))
    }),
    ("what was journalled later than it may be erased stays, and the record with it", |on| boxed(later(on))),
    ("an open execution is not erased", |on| boxed(open(on))),
    ("an execution that has moved on is not erased", |on| boxed(moved(on))),
    ("an execution is not erased and written by one commit", |on| boxed(both(on))),
    ("an erasure whose commit is refused erases nothing", |on| boxed(refusal(on))),
];

fn finished(n: u64) -> crate::Record {
    crate::Record { open: false, phase: "finished".into(), guard: None, ..record(n) }
}

fn erase(n: u64, expected: u64, entries: usize) -> Commit {
    let erase = Erase { execution: id(n), expected: Revision(expected), upto: Sequence(u64::MAX), entries };
    Commit { erase: Some(erase), ..Commit::default() }
}

async fn events(on: &On) -> Result<Vec<String>, String> {
    Ok(expect_ok(on.history(None, 100).await)?.items.into_iter().map(|(_, entry)| entry.event).collect())
}

async fn gone(on: On) -> Outcome {
    for n in [1, 2] {
        let journal = vec![entry(n, &format!("{n}a")), entry(n, &format!("{n}b"))];
        commit(&on, Commit { journal, ..create(finished(n)) }).await?;
    }
    commit(&on, put("a", "1")).await?;
    let receipt = commit(&on, erase(1, 1, 10)).await?;
    expect_true("the record went", receipt.erased)?;
    same("record", expect_ok(on.load(id(1)).await)?, None)?;
    same("its history", expect_ok(on.journal(id(1), None, 10).await)?.items.len(), 0)?;
    same("all history", events(&on).await?, vec!["2a".to_owned(), "2b".to_owned()])?;
    let tenant = Filter { tenant: Some("acme".into()), ..Filter::default() };
    for filter in [Filter::default(), tenant] {
        let left: Vec<_> =
            expect_ok(on.list(&filter, None, 10).await)?.items.into_iter().map(|r| r.id).collect();
        same("listed", left, vec![id(2)])?;
    }
    same("document", body_of(&on, "a").await?, Some("1".into()))?;
    refused(on.commit(erase(1, 1, 10)).await, conflict)
}

async fn parts(on: On) -> Outcome {
    commit(&on, create(finished(1))).await?;
    for part in 0..5 {
        commit(&on, entries(vec![entry(1, &part.to_string())])).await?;
    }
    for left in [3, 1] {
        expect_true("the record stays", !commit(&on, erase(1, 1, 2)).await?.erased)?;
        let wanted: Vec<String> = (5 - left..5).map(|part: u64| part.to_string()).collect();
        same("history", events(&on).await?, wanted)?;
        expect_true("it is there", expect_ok(on.load(id(1)).await)?.is_some())?;
    }
    expect_true("the record goes with the last", commit(&on, erase(1, 1, 2)).await?.erased)?;
    same("history", events(&on).await?.len(), 0)
}

async fn later(on: On) -> Outcome {
    let upto = commit(&on, Commit { journal: vec![entry(1, "a")], ..create(finished(1)) }).await?.sequence;
    commit(&on, entries(vec![entry(1, "b")])).await?;
    let bounded = Erase { execution: id(1), expected: Revision(1), upto, entries: 10 };
    let bounded = Commit { erase: Some(bounded), ..Commit::default() };
    expect_true("the record stays", !commit(&on, bounded.clone()).await?.erased)?;
    same("history", events(&on).await?, vec!["b".to_owned()])?;
    expect_true("it stays", !commit(&on, bounded).await?.erased)?;
    expect_true("it is there", expect_ok(on.load(id(1)).await)?.is_some())
}

async fn open(on: On) -> Outcome {
    commit(&on, Commit { journal: vec![entry(1, "a")], ..create(record(1)) }).await?;
    refused(on.commit(erase(1, 1, 10)).await, invalid)?;
    same("history", events(&on).await?.len(), 1)
}

async fn moved(on: On) -> Outcome {
    commit(&on, create(record(1))).await?;
    commit(&on, update(finished(1), 1)).await?;
    refused(on.commit(erase(1, 1, 10)).await, conflict)?;
    refused(on.commit(erase(2, 1, 10)).await, conflict)?;
    commit(&on, erase(1, 2, 10)).await.map(|_| ())
}

async fn both(on: On) -> Outcome {
    commit(&on, create(finished(1))).await?;
    refused(on.commit(Commit { journal: vec![entry(1, "a")], ..erase(1, 1, 10) }).await, invalid)?;
    refused(on.commit(Commit { record: update(finished(1), 1).record, ..erase(1, 1, 10) }).await, invalid)?;
    refused(on.commit(erase(1, 1, 0)).await, invalid)?;
    refused(on.commit(erase(1, 1, crate::ERASE_LIMIT + 1)).await, too_large)
}

async fn refusal(on: On) -> Outcome {
    commit(&on, Commit { journal: vec![entry(1, "a")], ..create(finished(1)) }).await?;
    commit(&on, put("a", "1")).await?;
    refused(on.commit(having_read("a", None, erase(1, 1, 10))).await, conflict)?;
    expect_true("it is there", expect_ok(on.load(id(1)).await)?.is_some())?;
    same("history", events(&on).await?.len(), 1)
}
