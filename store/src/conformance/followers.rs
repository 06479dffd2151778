//! Reads of many rows during commits: each ends at one commit, so a reader that follows misses none.

use super::{case::Outcome, fixture::*};
use crate::{Commit, Document, Entry, Page, Put, Sequence};
use std::{
    collections::BTreeMap,
    sync::{
        Arc,
        atomic::{AtomicBool, Ordering},
    },
};

pub(super) const CASES: &[Named] = &[
    ("several followers of the history under load miss no commit and no part of one", |on| {
        boxed(history(on))
    }),
    ("a follower of numbered documents under load misses none", |on| boxed(numbered(on))),
    ("documents that are written together are listed as of one commit", |on| boxed(pairs(on))),
];

const WRITERS: u64 = 4;
const FOLLOWERS: usize = 3;
const EACH: u64 = 150;
/// Entries of a commit.
const PARTS: u64 = 3;

type Writers = Vec<tokio::task::JoinHandle<Outcome>>;

/// Starts writers that commit what `make` returns for the writer and the number, one commit after the other.
fn writers(on: &On, make: fn(u64, u64) -> Commit) -> Writers {
    let write = |writer| {
        let on = on.clone();
        tokio::spawn(async move {
            for n in 0..EACH {
                commit(&on, make(writer, n)).await?;
            }
            Ok(())
        })
    };
    (0..WRITERS).map(write).collect()
}

async fn joined(tasks: Writers) -> Outcome {
    for task in tasks {
        task.await.map_err(|error| error.to_string())??;
    }
    Ok(())
}

async fn history(on: On) -> Outcome {
    let make = |writer, n| entries((0..PARTS).map(|part| entry(writer, &format!("{n}.{part}"))).collect());
    let writing = writers(&on, make);
    let ended = Arc::new(AtomicBool::new(false));
    let follow = |_| tokio::spawn(follow_history(on.clone(), ended.clone()));
    let following = (0..FOLLOWERS).map(follow).collect();
    joined(writing).await?;
    ended.store(true, Ordering::Release);
    joined(following).await
}

/// Reads on until every writer's last entry is there, and expects each entry next to the one before it.
async fn follow_history(on: On, ended: Arc<AtomicBool>) -> Outcome {
    let mut next: BTreeMap<u64, u64> = (0..WRITERS).map(|writer| (writer, 0)).collect();
    let mut after: Option<(Sequence, u32)> = None;
    while next.values().any(|count| *count < EACH * PARTS) {
        let all_there = ended.load(Ordering::Acquire);
        let Page { items, .. } = expect_ok(on.history(after, 7).await)?;
        expect_true("the last entries are shown", !(all_there && items.is_empty()))?;
        for (place, seen) in items {
            let Entry { execution, event, sequence, .. } = seen;
            let writer = (0..WRITERS).find(|writer| id(*writer) == execution).unwrap_or_default();
            let count = next.entry(writer).or_default();
            let wanted = format!("{}.{}", *count / PARTS, *count % PARTS);
            same(&format!("writer {writer}, after {after:?}"), event, wanted)?;
            *count += 1;
            after = Some((sequence, place));
        }
        tokio::task::yield_now().await;
    }
    Ok(())
}

async fn numbered(on: On) -> Outcome {
    let writing = writers(&on, |writer, n| put(&format!("{writer}/{n:04}"), "there"));
    let ended = Arc::new(AtomicBool::new(false));
    let follow = |writer| tokio::spawn(follow_documents(on.clone(), writer, ended.clone()));
    let following = (0..WRITERS).map(follow).collect();
    joined(writing).await?;
    ended.store(true, Ordering::Release);
    joined(following).await
}

async fn follow_documents(on: On, writer: u64, ended: Arc<AtomicBool>) -> Outcome {
    let (mut next, mut after) = (0, None::<String>);
    while next < EACH {
        let prefix = format!("{writer}/");
        let all_there = ended.load(Ordering::Acquire);
        let Page { items, .. } = expect_ok(on.documents("nodes", &prefix, after.as_deref(), 5).await)?;
        expect_true("the last documents are shown", !(all_there && items.is_empty()))?;
        for document in items {
            same("the next document", document.key.id.clone(), format!("{prefix}{next:04}"))?;
            next += 1;
            after = Some(document.key.id);
        }
        tokio::task::yield_now().await;
    }
    Ok(())
}

/// Each commit writes every document of the list, so all documents on one page have one version.
async fn pairs(on: On) -> Outcome {
    const LISTED: u64 = 12;
    let all = |writer: u64, n: u64| {
        let body = Some(format!("{writer}.{n}").into_bytes());
        let documents = (0..LISTED).map(|of| Put { key: key(&format!("pair/{of:02}")), body: body.clone() });
        Commit { documents: documents.collect(), ..Commit::default() }
    };
    commit(&on, all(0, 0)).await?;
    let writing = writers(&on, all);
    while !writing.iter().all(tokio::task::JoinHandle::is_finished) {
        let Page { items, .. } = expect_ok(on.documents("nodes", "pair/", None, 100).await)?;
        same("documents", items.len() as u64, LISTED)?;
        let mut versions: Vec<Sequence> = items.iter().map(|Document { version, .. }| *version).collect();
        versions.dedup();
        same("versions on a page", versions.len(), 1)?;
        tokio::task::yield_now().await;
    }
    joined(writing).await
}
