//! Commits are conditional, atomic and counted.

use super::{case::Outcome, fixture::*};
use crate::{Commit, Revision, Sequence};

pub(super) const CASES: &[Named] = &[
    ("a record is created at revision 1 and read back as written", |on| boxed(created(on))),
    ("a record that exists is not created again", |on| boxed(created_once(on))),
    ("an update follows the revision it was decided on", |on| boxed(updated(on))),
    ("an update of an older revision is a conflict", |on| boxed(stale_update(on))),
    ("an update of a record that does not exist is a conflict", |on| boxed(update_of_nothing(on))),
    ("sequences count acknowledged commits without a gap", |on| boxed(sequences(on))),
    ("a commit writes its record, documents, history and tasks together", |on| boxed(together(on))),
    ("a refused commit changes nothing in any part", |on| boxed(all_or_nothing(on))),
    ("concurrent increments with retries lose nothing", |on| boxed(increments(on))),
    ("of many who create the same record exactly one succeeds", |on| boxed(one_creator(on))),
    ("an empty commit is counted and changes nothing", |on| boxed(empty(on))),
];

async fn created(on: On) -> Outcome {
    let receipt = commit(&on, create(record(1))).await?;
    same("revision", receipt.revision, Some(Revision(1)))?;
    let wanted = crate::Record { revision: Revision(1), ..record(1) };
    same("record", expect_ok(on.load(id(1)).await)?, Some(wanted))?;
    same("another record", expect_ok(on.load(id(2)).await)?, None)
}

async fn created_once(on: On) -> Outcome {
    commit(&on, create(record(1))).await?;
    refused(on.commit(create(record(1))).await, conflict)
}

async fn updated(on: On) -> Outcome {
    commit(&on, create(record(1))).await?;
    let mut changed = record(1);
    changed.state = "Carving".into();
    changed.revision = Revision(77);
    let receipt = commit(&on, update(changed, 1)).await?;
    same("revision", receipt.revision, Some(Revision(2)))?;
    let found = expect_ok(on.load(id(1)).await)?.ok_or("the record is gone")?;
    same("state", found.state.as_str(), "Carving")?;
    same("revision read", found.revision, Revision(2))
}

async fn stale_update(on: On) -> Outcome {
    commit(&on, create(record(1))).await?;
    commit(&on, update(record(1), 1)).await?;
    refused(on.commit(update(record(1), 1)).await, conflict)?;
    refused(on.commit(update(record(1), 3)).await, conflict)
}

async fn update_of_nothing(on: On) -> Outcome {
    refused(on.commit(update(record(1), 1)).await, conflict)?;
    same("record", expect_ok(on.load(id(1)).await)?, None)
}

async fn sequences(on: On) -> Outcome {
    for n in 1..=5 {
        same("sequence", commit(&on, create(record(n))).await?.sequence, Sequence(n))?;
        refused(on.commit(create(record(n))).await, conflict)?;
    }
    same("health", on.health().await.sequence, Sequence(5))
}

async fn together(on: On) -> Outcome {
    let parts = Commit {
        documents: put("n-1", "free").documents,
        journal: vec![entry(1, "started")],
        schedule: vec![task(1, 0, 10)],
        ..create(record(1))
    };
    let receipt = commit(&on, parts).await?;
    expect_true("the record is there", expect_ok(on.load(id(1)).await)?.is_some())?;
    let document = expect_ok(on.document(&key("n-1")).await)?.ok_or("the document is missing")?;
    same("version", document.version, receipt.sequence)?;
    let history = expect_ok(on.journal(id(1), None, 10).await)?;
    same(
        "history",
        history.items.into_iter().map(|e| e.sequence).collect::<Vec<_>>(),
        vec![receipt.sequence],
    )?;
    same("tasks", expect_ok(on.tasks(id(1)).await)?, vec![task(1, 0, 10)])
}

async fn all_or_nothing(on: On) -> Outcome {
    commit(&on, puts(&[("n-1", Some("free"))])).await?;
    commit(&on, schedule(vec![task(1, 0, 1)])).await?;
    let lease = lease_one(&on, 1).await?;
    let refused_commit = Commit {
        documents: puts(&[("n-1", Some("taken")), ("n-2", Some("taken"))]).documents,
        journal: vec![entry(1, "started")],
        schedule: vec![task(1, 1, 1)],
        retire: vec![task_id(1, 0)],
        settle: settle(&lease).settle,
        ..update(record(1), 9)
    };
    refused(on.commit(refused_commit).await, conflict)?;
    same("record", expect_ok(on.load(id(1)).await)?, None)?;
    same("changed document", body_of(&on, "n-1").await?.as_deref(), Some("free"))?;
    same("made document", body_of(&on, "n-2").await?, None)?;
    same("history", expect_ok(on.journal(id(1), None, 10).await)?.items, Vec::new())?;
    same("tasks", expect_ok(on.tasks(id(1)).await)?, vec![task(1, 0, 1)])?;
    commit(&on, settle(&lease)).await.map(|_| ()).map_err(|why| format!("the lease was lost: {why}"))
}

async fn increments(on: On) -> Outcome {
    const WORKERS: u64 = 8;
    const EACH: u64 = 12;
    commit(&on, put("count", "0")).await?;
    let workers: Vec<_> = (0..WORKERS)
        .map(|_| {
            let on = on.clone();
            tokio::spawn(async move {
                for _ in 0..EACH {
                    increment(&on).await?;
                }
                Ok::<(), String>(())
            })
        })
        .collect();
    for worker in workers {
        worker.await.map_err(|error| error.to_string())??;
    }
    same("count", body_of(&on, "count").await?, Some((WORKERS * EACH).to_string()))
}

async fn increment(on: &On) -> Outcome {
    loop {
        let seen = expect_ok(on.document(&key("count")).await)?.ok_or("the counter is gone")?;
        let count: u64 = String::from_utf8_lossy(&seen.body).parse().map_err(|_| "the counter is garbled")?;
        let next = having_read("count", Some(seen.version), put("count", &(count + 1).to_string()));
        match on.commit(next).await {
            Ok(_) => return Ok(()),
            Err(error) if conflict(&error) => {}
            Err(error) => return Err(error.to_string()),
        }
    }
}

async fn one_creator(on: On) -> Outcome {
    let racers: Vec<_> = (0..16)
        .map(|_| {
            let on = on.clone();
            tokio::spawn(async move { on.commit(create(record(1))).await })
        })
        .collect();
    let mut winners = 0;
    for racer in racers {
        match racer.await.map_err(|error| error.to_string())? {
            Ok(_) => winners += 1,
            Err(error) => refused::<()>(Err(error), conflict)?,
        }
    }
    same("winners", winners, 1)
}

async fn empty(on: On) -> Outcome {
    let receipt = commit(&on, Commit::default()).await?;
    same("sequence", receipt.sequence, Sequence(1))?;
    same("revision", receipt.revision, None)?;
    same("next", commit(&on, create(record(1))).await?.sequence, Sequence(2))
}
