//! A commit is applied only if the documents it was decided on are unchanged.

use super::{case::Outcome, fixture::*};
use crate::{Commit, Read, Sequence};

pub(super) const CASES: &[Named] = &[
    ("a document's version is the commit that wrote it", |on| boxed(version(on))),
    ("a commit on an unchanged read holds", |on| boxed(unchanged(on))),
    ("a commit on a changed read is a conflict", |on| boxed(changed(on))),
    ("a commit on an absence that has ended is a conflict", |on| boxed(absence(on))),
    ("a commit on a document that is gone is a conflict", |on| boxed(gone(on))),
    ("a document that was deleted and created again counts as changed", |on| boxed(made_again(on))),
    ("one changed read of many refuses the commit", |on| boxed(one_of_many(on))),
    ("of two writes of one document in a commit the last one counts", |on| boxed(last_counts(on))),
    ("deleting a document that does not exist changes nothing", |on| boxed(delete_nothing(on))),
    ("documents of another collection are other documents", |on| boxed(collections(on))),
    ("documents that are read together come in the order of their keys", |on| boxed(together(on))),
];

async fn version(on: On) -> Outcome {
    commit(&on, create(record(1))).await?;
    let first = commit(&on, put("a", "1")).await?.sequence;
    let second = commit(&on, put("b", "1")).await?.sequence;
    let a = expect_ok(on.document(&key("a")).await)?.ok_or("a is missing")?;
    let b = expect_ok(on.document(&key("b")).await)?.ok_or("b is missing")?;
    same("versions", (a.version, b.version), (first, second))?;
    let third = commit(&on, put("a", "2")).await?.sequence;
    let a = expect_ok(on.document(&key("a")).await)?.ok_or("a is missing")?;
    same("rewritten", (a.version, a.body), (third, b"2".to_vec()))
}

async fn unchanged(on: On) -> Outcome {
    let seen = commit(&on, put("a", "1")).await?.sequence;
    commit(&on, having_read("a", Some(seen), put("b", "1"))).await?;
    commit(&on, having_read("a", Some(seen), put("a", "2"))).await?;
    commit(&on, having_read("none", None, put("none", "1"))).await?;
    same("a", body_of(&on, "a").await?.as_deref(), Some("2"))
}

async fn changed(on: On) -> Outcome {
    let seen = commit(&on, put("a", "1")).await?.sequence;
    commit(&on, put("a", "2")).await?;
    refused(on.commit(having_read("a", Some(seen), put("b", "1"))).await, conflict)?;
    same("b", body_of(&on, "b").await?, None)
}

async fn absence(on: On) -> Outcome {
    commit(&on, put("a", "1")).await?;
    refused(on.commit(having_read("a", None, put("b", "1"))).await, conflict)
}

async fn gone(on: On) -> Outcome {
    let seen = commit(&on, put("a", "1")).await?.sequence;
    commit(&on, delete("a")).await?;
    refused(on.commit(having_read("a", Some(seen), put("b", "1"))).await, conflict)?;
    commit(&on, having_read("a", None, put("b", "1"))).await.map(|_| ())
}

async fn made_again(on: On) -> Outcome {
    let seen = commit(&on, put("a", "1")).await?.sequence;
    commit(&on, delete("a")).await?;
    let again = commit(&on, put("a", "1")).await?.sequence;
    expect_true("the version has grown", again > seen)?;
    refused(on.commit(having_read("a", Some(seen), put("b", "1"))).await, conflict)
}

async fn one_of_many(on: On) -> Outcome {
    let a = commit(&on, put("a", "1")).await?.sequence;
    let b = commit(&on, put("b", "1")).await?.sequence;
    commit(&on, put("b", "2")).await?;
    let reads = vec![Read { key: key("a"), version: Some(a) }, Read { key: key("b"), version: Some(b) }];
    refused(on.commit(Commit { reads, ..put("a", "2") }).await, conflict)?;
    same("a", body_of(&on, "a").await?.as_deref(), Some("1"))
}

async fn last_counts(on: On) -> Outcome {
    commit(&on, puts(&[("a", Some("1")), ("b", Some("1")), ("a", Some("2")), ("b", None)])).await?;
    same("a", body_of(&on, "a").await?.as_deref(), Some("2"))?;
    same("b", body_of(&on, "b").await?, None)?;
    commit(&on, puts(&[("b", None), ("b", Some("3"))])).await?;
    same("b again", body_of(&on, "b").await?.as_deref(), Some("3"))
}

async fn delete_nothing(on: On) -> Outcome {
    same("sequence", commit(&on, delete("a")).await?.sequence, Sequence(1))?;
    same("a", body_of(&on, "a").await?, None)
}

async fn collections(on: On) -> Outcome {
    commit(&on, put("a", "1")).await?;
    same("other", expect_ok(on.document(&crate::Key::new("quotas", "a")).await)?, None)?;
    same("listed", expect_ok(on.documents("node", "", None, 10).await)?.items, Vec::new())
}

async fn together(on: On) -> Outcome {
    commit(&on, puts(&[("a", Some("1")), ("b", Some("2"))])).await?;
    let keys = [key("b"), key("none"), key("a"), key("b")];
    let found = expect_ok(on.documents_of(&keys).await)?;
    let bodies: Vec<_> = found.into_iter().map(|found| found.map(|document| document.body)).collect();
    let wanted =
        [Some("2"), None, Some("1"), Some("2")].map(|body| body.map(|body| body.as_bytes().to_vec()));
    same("bodies", bodies, wanted.to_vec())?;
    same("none", expect_ok(on.documents_of(&[]).await)?.len(), 0)
}
