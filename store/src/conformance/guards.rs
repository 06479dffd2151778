//! At most one open record holds a guard.

use super::{case::Outcome, fixture::*};
use crate::{Error, Record};

pub(super) const CASES: &[Named] = &[
    ("a guard is held by the open record that named it", |on| boxed(holder_of_open_record(on))),
    ("a guard held by another open record is refused with its holder", |on| boxed(busy_guard(on))),
    ("a record keeps its guard over its updates", |on| boxed(kept_over_updates(on))),
    ("a guard is free once its record has finished", |on| boxed(freed(on))),
    ("a record that changes its guard frees the former one", |on| boxed(changed(on))),
    ("a finished record takes no guard", |on| boxed(finished_takes_none(on))),
    ("a record that reopens needs its guard free", |on| boxed(reopened(on))),
    ("of many who want one guard exactly one gets it", |on| boxed(one_winner(on))),
];

fn guarded(n: u64, guard: &str) -> Record {
    Record { guard: Some(guard.into()), ..record(n) }
}

fn finished(n: u64, guard: &str) -> Record {
    Record { open: false, ..guarded(n, guard) }
}

async fn holder_of_open_record(on: On) -> Outcome {
    same("before", expect_ok(on.guard_holder("tenant/acme").await)?, None)?;
    commit(&on, create(guarded(1, "tenant/acme"))).await?;
    same("holder", expect_ok(on.guard_holder("tenant/acme").await)?, Some(id(1)))?;
    same("another guard", expect_ok(on.guard_holder("tenant/acm").await)?, None)
}

async fn busy_guard(on: On) -> Outcome {
    commit(&on, create(guarded(1, "g"))).await?;
    same(
        "refusal",
        on.commit(create(guarded(2, "g"))).await,
        Err(Error::Busy { guard: "g".into(), holder: id(1) }),
    )?;
    same("the other record", expect_ok(on.load(id(2)).await)?, None)?;
    commit(&on, create(guarded(3, "another"))).await.map(|_| ())
}

async fn kept_over_updates(on: On) -> Outcome {
    commit(&on, create(guarded(1, "g"))).await?;
    commit(&on, update(guarded(1, "g"), 1)).await?;
    same("holder", expect_ok(on.guard_holder("g").await)?, Some(id(1)))?;
    refused(on.commit(create(guarded(2, "g"))).await, busy)
}

async fn freed(on: On) -> Outcome {
    commit(&on, create(guarded(1, "g"))).await?;
    commit(&on, update(finished(1, "g"), 1)).await?;
    same("holder", expect_ok(on.guard_holder("g").await)?, None)?;
    commit(&on, create(guarded(2, "g"))).await?;
    commit(&on, update(finished(1, "g"), 2)).await?;
    same("holder after a write of the finished one", expect_ok(on.guard_holder("g").await)?, Some(id(2)))
}

async fn changed(on: On) -> Outcome {
    commit(&on, create(guarded(1, "old"))).await?;
    commit(&on, update(guarded(1, "new"), 1)).await?;
    same("former", expect_ok(on.guard_holder("old").await)?, None)?;
    same("present", expect_ok(on.guard_holder("new").await)?, Some(id(1)))?;
    commit(&on, update(record(1), 2)).await?;
    same("given up", expect_ok(on.guard_holder("new").await)?, None)
}

async fn finished_takes_none(on: On) -> Outcome {
    commit(&on, create(guarded(1, "g"))).await?;
    commit(&on, create(finished(2, "g"))).await?;
    same("holder", expect_ok(on.guard_holder("g").await)?, Some(id(1)))
}

async fn reopened(on: On) -> Outcome {
    commit(&on, create(finished(1, "g"))).await?;
    commit(&on, create(guarded(2, "g"))).await?;
    refused(on.commit(update(guarded(1, "g"), 1)).await, busy)?;
    commit(&on, update(finished(2, "g"), 1)).await?;
    commit(&on, update(guarded(1, "g"), 1)).await?;
    same("holder", expect_ok(on.guard_holder("g").await)?, Some(id(1)))
}

async fn one_winner(on: On) -> Outcome {
    let racers: Vec<_> = (1..=16)
        .map(|n| {
            let on = on.clone();
            tokio::spawn(async move { on.commit(create(guarded(n, "g"))).await.map(|_| n) })
        })
        .collect();
    let mut winners = Vec::new();
    for racer in racers {
        match racer.await.map_err(|error| error.to_string())? {
            Ok(n) => winners.push(id(n)),
            Err(error) => refused::<()>(Err(error), busy)?,
        }
    }
    same("winners", winners.len(), 1)?;
    same("holder", expect_ok(on.guard_holder("g").await)?, winners.first().copied())
}
