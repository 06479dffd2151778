//! A held store leases no tasks, and loses none.

use super::{case::Outcome, fixture::*};
use crate::{Hold, Timestamp};

pub(super) const CASES: &[Named] = &[
    ("a held store leases no tasks, and has none due", |on| boxed(nothing_out(on))),
    ("a held store takes commits and is read", |on| boxed(still_written(on))),
    ("tasks scheduled before a hold count as delivered, tasks scheduled during it do not", |on| {
        boxed(counted(on))
    }),
    ("a lease from before a hold can be renewed, returned and settled", |on| boxed(leases_stand(on))),
    ("a second hold does not replace the first", |on| boxed(first_stays(on))),
    ("a release must name the start of the hold", |on| boxed(ended(on))),
];

fn hold(since: u64, why: &str) -> Hold {
    Hold { since: Timestamp(since), why: why.into() }
}

async fn nothing_out(on: On) -> Outcome {
    commit(&on, schedule(vec![task(1, 0, 1)])).await?;
    same("free", expect_ok(on.current_hold().await)?, None)?;
    expect_ok(on.hold(hold(7, "a drill")).await)?;
    same("held", expect_ok(on.current_hold().await)?, Some(hold(7, "a drill")))?;
    same("health", on.health().await.hold, Some(hold(7, "a drill")))?;
    same("handed out", lease(&on, 50).await?, vec![])?;
    same("due", expect_ok(on.next_due().await)?, None)?;
    expect_ok(on.unhold(Timestamp(7)).await)?;
    same("free again", expect_ok(on.current_hold().await)?, None)?;
    same("due again", expect_ok(on.next_due().await)?, Some(Timestamp(1)))?;
    same("handed out again", lease_one(&on, 50).await?.task, task(1, 0, 1))
}

async fn still_written(on: On) -> Outcome {
    expect_ok(on.hold(hold(7, "a drill")).await)?;
    commit(&on, create(record(1))).await?;
    commit(&on, put("a", "1")).await?;
    expect_true("the record is there", expect_ok(on.load(id(1)).await)?.is_some())?;
    same("document", body_of(&on, "a").await?.as_deref(), Some("1"))
}

async fn counted(on: On) -> Outcome {
    commit(&on, schedule(vec![task(1, 0, 1)])).await?;
    let tried = lease_one(&on, 1).await?;
    expect_ok(on.release(tried.task.id, tried.epoch, Timestamp(1), 4).await)?;
    commit(&on, schedule(vec![task(2, 0, 1)])).await?;
    expect_ok(on.hold(hold(7, "a drill")).await)?;
    commit(&on, schedule(vec![task(3, 0, 1)])).await?;
    expect_ok(on.unhold(Timestamp(7)).await)?;
    let mut seen: Vec<_> =
        lease(&on, 50).await?.into_iter().map(|lease| (lease.task.id, lease.deliveries)).collect();
    seen.sort_unstable();
    same("deliveries", seen, vec![(task_id(1, 0), 5), (task_id(2, 0), 2), (task_id(3, 0), 1)])
}

async fn leases_stand(on: On) -> Outcome {
    commit(&on, schedule(vec![task(1, 0, 1), task(2, 0, 1)])).await?;
    let leases = lease(&on, 1).await?;
    expect_ok(on.hold(hold(7, "a drill")).await)?;
    let [one, two] = leases.as_slice() else { return Err(format!("{} leases", leases.len())) };
    expect_ok(on.renew(one.task.id, one.epoch, Timestamp(500)).await)?;
    commit(&on, settle(one)).await?;
    expect_ok(on.release(two.task.id, two.epoch, Timestamp(3), 1).await)?;
    expect_ok(on.unhold(Timestamp(7)).await)?;
    same("left", lease_one(&on, 50).await?.task.id, two.task.id)
}

async fn first_stays(on: On) -> Outcome {
    expect_ok(on.hold(hold(7, "restored")).await)?;
    commit(&on, schedule(vec![task(1, 0, 1)])).await?;
    expect_ok(on.hold(hold(9, "again")).await)?;
    same("held", expect_ok(on.current_hold().await)?, Some(hold(7, "restored")))?;
    expect_ok(on.unhold(Timestamp(7)).await)?;
    same("deliveries", lease_one(&on, 1).await?.deliveries, 1)
}

async fn ended(on: On) -> Outcome {
    same("none", expect_ok(on.unhold(Timestamp(7)).await)?, false)?;
    expect_ok(on.hold(hold(7, "restored")).await)?;
    same("another", expect_ok(on.unhold(Timestamp(8)).await)?, false)?;
    same("held", expect_ok(on.current_hold().await)?, Some(hold(7, "restored")))?;
    same("this", expect_ok(on.unhold(Timestamp(7)).await)?, true)?;
    same("twice", expect_ok(on.unhold(Timestamp(7)).await)?, false)
}
