//! Tasks are leased when due, to one holder at a time, and fenced by growing epochs.

use super::{case::Outcome, fixture::*};
use crate::{Commit, Epoch, TaskId, Timestamp};

pub(super) const LEASING: &[Named] = &[
    ("a task is not leased before it is due", |on| boxed(not_before_due(on))),
    ("tasks are leased by due, then by id", |on| boxed(order(on))),
    ("no more tasks are leased than requested", |on| boxed(at_most(on))),
    ("a leased task is not leased again before its lease expires", |on| boxed(once(on))),
    ("a task with an expired lease is leased again, with a greater epoch and one more delivery", |on| {
        boxed(lapse(on))
    }),
    ("a renewed lease expires later", |on| boxed(renewed(on))),
    ("a released task is due when it says, and has been delivered as often as it says", |on| {
        boxed(released(on))
    }),
    ("a release under another epoch changes nothing", |on| boxed(late_release(on))),
    ("scheduling a leased task again moves it and keeps the lease", |on| boxed(moved(on))),
    ("the next due moment counts tasks and leases", |on| boxed(next_due(on))),
    ("the tasks of an execution are listed by id, leased or not", |on| boxed(listed(on))),
    ("many workers at once never hold one task twice", |on| boxed(many_workers(on))),
];

pub(super) const FENCING: &[Named] = &[
    ("settling removes the task", |on| boxed(settled(on))),
    ("a task that is settled and scheduled in one commit starts from zero", |on| boxed(begins_anew(on))),
    ("a task that is not leased cannot be settled", |on| boxed(not_leased(on))),
    ("an expired lease may be settled until another worker leases the task", |on| boxed(lapsed_settle(on))),
    ("a former holder can neither settle nor renew", |on| boxed(former_holder(on))),
    ("a task is settled once", |on| boxed(settled_once(on))),
    ("a late settle gets a lease error, not a conflict", |on| boxed(late_first(on))),
    ("retired tasks are removed, and their holder is fenced", |on| boxed(retired(on))),
    ("retiring a task that does not exist changes nothing", |on| boxed(retire_nothing(on))),
];

async fn not_before_due(on: On) -> Outcome {
    commit(&on, schedule(vec![task(1, 0, 10)])).await?;
    same("early", lease(&on, 9).await?, vec![])?;
    let lease = lease_one(&on, 10).await?;
    same("task", lease.task, task(1, 0, 10))?;
    same("holder", lease.holder.as_str(), "worker")?;
    same("until", lease.until, Timestamp(110))?;
    same("deliveries", lease.deliveries, 1)
}

async fn order(on: On) -> Outcome {
    let tasks =
        vec![task(3, 0, 5), task(1, 1, 7), task(2, 0, 5), task(1, 0, 7), task(4, 0, 1), task(5, 0, 99)];
    commit(&on, schedule(tasks)).await?;
    let leased: Vec<TaskId> = lease(&on, 50).await?.into_iter().map(|lease| lease.task.id).collect();
    let wanted = [task_id(4, 0), task_id(2, 0), task_id(3, 0), task_id(1, 0), task_id(1, 1)];
    same("order", leased, wanted.to_vec())
}

async fn at_most(on: On) -> Outcome {
    commit(&on, schedule((0..5).map(|slot| task(1, slot, 1)).collect())).await?;
    same("first", expect_ok(on.lease("a", Timestamp(1), TTL, 2).await)?.len(), 2)?;
    same("none", expect_ok(on.lease("a", Timestamp(1), TTL, 0).await)?.len(), 0)?;
    same("rest", expect_ok(on.lease("b", Timestamp(1), TTL, 9).await)?.len(), 3)
}

async fn once(on: On) -> Outcome {
    commit(&on, schedule(vec![task(1, 0, 1)])).await?;
    lease_one(&on, 1).await?;
    same("again", lease(&on, 100).await?, vec![])
}

async fn lapse(on: On) -> Outcome {
    commit(&on, schedule(vec![task(1, 0, 1)])).await?;
    let first = lease_one(&on, 1).await?;
    let second = lease_one(&on, 101).await?;
    expect_true("the epoch has grown", second.epoch > first.epoch)?;
    same("deliveries", (first.deliveries, second.deliveries), (1, 2))
}

async fn renewed(on: On) -> Outcome {
    commit(&on, schedule(vec![task(1, 0, 1)])).await?;
    let held = lease_one(&on, 1).await?;
    expect_ok(on.renew(held.task.id, held.epoch, Timestamp(500)).await)?;
    expect_ok(on.renew(held.task.id, held.epoch, Timestamp(300)).await)?;
    same("still held", lease(&on, 499).await?, vec![])?;
    same("lapsed", lease_one(&on, 500).await?.deliveries, 2)?;
    refused(on.renew(task_id(9, 9), held.epoch, Timestamp(900)).await, fenced)
}

async fn released(on: On) -> Outcome {
    commit(&on, schedule(vec![task(1, 0, 1)])).await?;
    let held = lease_one(&on, 1).await?;
    expect_ok(on.release(held.task.id, held.epoch, Timestamp(40), held.deliveries).await)?;
    same("early", lease(&on, 39).await?, vec![])?;
    refused(on.renew(held.task.id, held.epoch, Timestamp(900)).await, fenced)?;
    let again = lease_one(&on, 40).await?;
    same("deliveries", again.deliveries, 2)?;
    same("due", again.task.due, Timestamp(40))
}

async fn late_release(on: On) -> Outcome {
    commit(&on, schedule(vec![task(1, 0, 1)])).await?;
    let first = lease_one(&on, 1).await?;
    let second = lease_one(&on, 101).await?;
    expect_ok(on.release(first.task.id, first.epoch, Timestamp(1), 1).await)?;
    expect_ok(on.release(task_id(9, 9), first.epoch, Timestamp(1), 1).await)?;
    same("still held", lease(&on, 150).await?, vec![])?;
    commit(&on, settle(&second)).await.map(|_| ())
}

async fn moved(on: On) -> Outcome {
    commit(&on, schedule(vec![task(1, 0, 1)])).await?;
    let held = lease_one(&on, 1).await?;
    let later = crate::Task { body: b"another".to_vec(), ..task(1, 0, 200) };
    commit(&on, schedule(vec![later.clone()])).await?;
    same("task", expect_ok(on.tasks(id(1)).await)?, vec![later.clone()])?;
    same("still held", lease(&on, 100).await?, vec![])?;
    expect_ok(on.renew(held.task.id, held.epoch, Timestamp(150)).await)?;
    same("lapsed but not due", lease(&on, 199).await?, vec![])?;
    let again = lease_one(&on, 200).await?;
    same("deliveries", again.deliveries, 2)?;
    same("content", again.task, later)?;
    refused(on.commit(settle(&held)).await, fenced)
}

async fn next_due(on: On) -> Outcome {
    same("nothing", expect_ok(on.next_due().await)?, None)?;
    commit(&on, schedule(vec![task(1, 0, 10), task(2, 0, 60)])).await?;
    same("a task", expect_ok(on.next_due().await)?, Some(Timestamp(10)))?;
    let held = lease_one(&on, 10).await?;
    same("another task", expect_ok(on.next_due().await)?, Some(Timestamp(60)))?;
    let second = lease_one(&on, 60).await?;
    same("a lease", expect_ok(on.next_due().await)?, Some(Timestamp(110)))?;
    expect_ok(on.renew(held.task.id, held.epoch, Timestamp(400)).await)?;
    same("the other lease", expect_ok(on.next_due().await)?, Some(Timestamp(160)))?;
    commit(&on, settle(&held)).await?;
    commit(&on, settle(&second)).await?;
    same("nothing left", expect_ok(on.next_due().await)?, None)
}

async fn listed(on: On) -> Outcome {
    commit(&on, schedule(vec![task(1, 1, 1), task(1, 0, 99), task(2, 0, 99)])).await?;
    lease_one(&on, 1).await?;
    same("of 1", expect_ok(on.tasks(id(1)).await)?, vec![task(1, 0, 99), task(1, 1, 1)])?;
    same("of 3", expect_ok(on.tasks(id(3)).await)?, vec![])
}

async fn many_workers(on: On) -> Outcome {
    commit(&on, schedule((0..100).map(|slot| task(1, slot, 1)).collect())).await?;
    let workers: Vec<_> = (0..8)
        .map(|_| {
            let on = on.clone();
            tokio::spawn(async move {
                let mut mine = Vec::new();
                loop {
                    let leases = expect_ok(on.lease("w", Timestamp(1), TTL, 3).await)?;
                    if leases.is_empty() {
                        return Ok::<Vec<(TaskId, Epoch)>, String>(mine);
                    }
                    mine.extend(leases.into_iter().map(|lease| (lease.task.id, lease.epoch)));
                }
            })
        })
        .collect();
    let mut all = Vec::new();
    for worker in workers {
        all.extend(worker.await.map_err(|error| error.to_string())??);
    }
    all.sort_unstable();
    let mut epochs: Vec<Epoch> = all.iter().map(|(_, epoch)| *epoch).collect();
    all.dedup_by_key(|(task, _)| *task);
    epochs.sort_unstable();
    epochs.dedup();
    same("tasks and epochs, each once", (all.len(), epochs.len()), (100, 100))
}

async fn settled(on: On) -> Outcome {
    commit(&on, schedule(vec![task(1, 0, 1), task(1, 1, 50)])).await?;
    let held = lease_one(&on, 1).await?;
    commit(&on, settle(&held)).await?;
    same("tasks", expect_ok(on.tasks(id(1)).await)?, vec![task(1, 1, 50)])
}

async fn begins_anew(on: On) -> Outcome {
    commit(&on, schedule(vec![task(1, 0, 1)])).await?;
    lease_one(&on, 1).await?;
    let held = lease_one(&on, 101).await?;
    same("deliveries", held.deliveries, 2)?;
    commit(&on, Commit { schedule: vec![task(1, 0, 102)], ..settle(&held) }).await?;
    let again = lease_one(&on, 102).await?;
    same("deliveries", again.deliveries, 1)?;
    expect_true("the epoch has grown", again.epoch > held.epoch)
}

async fn not_leased(on: On) -> Outcome {
    commit(&on, schedule(vec![task(1, 0, 1), task(2, 0, 50)])).await?;
    let held = lease_one(&on, 1).await?;
    let other = Commit {
        settle: Some(crate::Settle { task: task_id(2, 0), epoch: held.epoch }),
        ..Commit::default()
    };
    refused(on.commit(other).await, fenced)?;
    expect_ok(on.release(held.task.id, held.epoch, Timestamp(1), held.deliveries).await)?;
    refused(on.commit(settle(&held)).await, fenced)
}

async fn lapsed_settle(on: On) -> Outcome {
    commit(&on, schedule(vec![task(1, 0, 1)])).await?;
    let held = lease_one(&on, 1).await?;
    same("a poll of another kind", expect_ok(on.lease("b", Timestamp(500), TTL, 0).await)?, vec![])?;
    commit(&on, settle(&held)).await.map(|_| ())
}

async fn former_holder(on: On) -> Outcome {
    commit(&on, schedule(vec![task(1, 0, 1)])).await?;
    let first = lease_one(&on, 1).await?;
    let second = lease_one(&on, 200).await?;
    refused(on.commit(settle(&first)).await, fenced)?;
    refused(on.renew(first.task.id, first.epoch, Timestamp(900)).await, fenced)?;
    commit(&on, settle(&second)).await.map(|_| ())
}

async fn settled_once(on: On) -> Outcome {
    commit(&on, schedule(vec![task(1, 0, 1)])).await?;
    let held = lease_one(&on, 1).await?;
    let racers: Vec<_> = (0..8)
        .map(|_| {
            let (on, commit) = (on.clone(), settle(&held));
            tokio::spawn(async move { on.commit(commit).await })
        })
        .collect();
    let mut winners = 0;
    for racer in racers {
        match racer.await.map_err(|error| error.to_string())? {
            Ok(_) => winners += 1,
            Err(error) => refused::<()>(Err(error), fenced)?,
        }
    }
    same("winners", winners, 1)?;
    refused(on.renew(held.task.id, held.epoch, Timestamp(900)).await, fenced)
}

async fn late_first(on: On) -> Outcome {
    commit(&on, Commit { schedule: vec![task(1, 0, 1)], ..create(record(1)) }).await?;
    let first = lease_one(&on, 1).await?;
    lease_one(&on, 200).await?;
    commit(&on, update(record(1), 1)).await?;
    refused(on.commit(Commit { settle: settle(&first).settle, ..update(record(1), 1) }).await, fenced)
}

async fn retired(on: On) -> Outcome {
    commit(&on, schedule(vec![task(1, 0, 1), task(1, 1, 90)])).await?;
    let held = lease_one(&on, 1).await?;
    commit(&on, Commit { retire: vec![task_id(1, 0), task_id(1, 1)], ..Commit::default() }).await?;
    same("tasks", expect_ok(on.tasks(id(1)).await)?, vec![])?;
    refused(on.commit(settle(&held)).await, fenced)?;
    same("next", expect_ok(on.next_due().await)?, None)
}

async fn retire_nothing(on: On) -> Outcome {
    commit(&on, schedule(vec![task(1, 0, 1)])).await?;
    commit(&on, Commit { retire: vec![task_id(1, 9), task_id(2, 0)], ..Commit::default() }).await?;
    same("tasks", expect_ok(on.tasks(id(1)).await)?, vec![task(1, 0, 1)])
}
