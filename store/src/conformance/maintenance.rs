//! A store that is held hands out nothing, and forgets nothing.

use super::{case::Outcome, fixture::*};
use crate::{Hold, Timestamp};

pub(super) const CASES: &[Named] = &[
    ("a held store hands out no work, and has nothing due", |on| boxed(nothing_out(on))),
    ("a held store takes commits and is read", |on| boxed(still_written(on))),
    ("what was scheduled before a hold counts as handed out, what is scheduled in it does not", |on| {
        boxed(counted(on))
    }),
    ("a lease from before a hold is renewed, handed back and settled", |on| boxed(leases_stand(on))),
    ("a store that is held stays as it was held first", |on| boxed(first_stays(on))),
    ("a hold ends by the moment it began, and no other", |on| boxed(ended(on))),
];

fn hold(since: u64, why: &str) -> Hold {
    Hold { since: Timestamp(since), why: why.into() }
}

async fn nothing_out(on: On) -> Outcome {
    commit(&on, schedule(vec![task(1, 0, 1)])).await?;
    same("free", must(on.held().await)?, None)?;
    must(on.hold(hold(7, "a drill")).await)?;
    same("held", must(on.held().await)?, Some(hold(7, "a drill")))?;
    same("health", on.health().await.held, Some(hold(7, "a drill")))?;
    same("handed out", lease(&on, 50).await?, vec![])?;
    same("due", must(on.next_due().await)?, None)?;
    must(on.unhold(Timestamp(7)).await)?;
    same("free again", must(on.held().await)?, None)?;
    same("due again", must(on.next_due().await)?, Some(Timestamp(1)))?;
    same("handed out again", lease_one(&on, 50).await?.task, task(1, 0, 1))
}

async fn still_written(on: On) -> Outcome {
    must(on.hold(hold(7, "a drill")).await)?;
    commit(&on, create(record(1))).await?;
    commit(&on, put("a", "1")).await?;
    holds("the record is there", must(on.load(id(1)).await)?.is_some())?;
    same("document", body_of(&on, "a").await?.as_deref(), Some("1"))
}

async fn counted(on: On) -> Outcome {
    commit(&on, schedule(vec![task(1, 0, 1)])).await?;
    let tried = lease_one(&on, 1).await?;
    must(on.release(tried.task.id, tried.epoch, Timestamp(1), 4).await)?;
    commit(&on, schedule(vec![task(2, 0, 1)])).await?;
    must(on.hold(hold(7, "a drill")).await)?;
    commit(&on, schedule(vec![task(3, 0, 1)])).await?;
    must(on.unhold(Timestamp(7)).await)?;
    let mut seen: Vec<_> =
        lease(&on, 50).await?.into_iter().map(|lease| (lease.task.id, lease.deliveries)).collect();
    seen.sort_unstable();
    same("deliveries", seen, vec![(task_id(1, 0), 5), (task_id(2, 0), 2), (task_id(3, 0), 1)])
}

async fn leases_stand(on: On) -> Outcome {
    commit(&on, schedule(vec![task(1, 0, 1), task(2, 0, 1)])).await?;
    let leases = lease(&on, 1).await?;
    must(on.hold(hold(7, "a drill")).await)?;
    let [one, two] = leases.as_slice() else { return Err(format!("{} leases", leases.len())) };
    must(on.renew(one.task.id, one.epoch, Timestamp(500)).await)?;
    commit(&on, settle(one)).await?;
    must(on.release(two.task.id, two.epoch, Timestamp(3), 1).await)?;
    must(on.unhold(Timestamp(7)).await)?;
    same("left", lease_one(&on, 50).await?.task.id, two.task.id)
}

async fn first_stays(on: On) -> Outcome {
    must(on.hold(hold(7, "restored")).await)?;
    commit(&on, schedule(vec![task(1, 0, 1)])).await?;
    must(on.hold(hold(9, "again")).await)?;
    same("held", must(on.held().await)?, Some(hold(7, "restored")))?;
    must(on.unhold(Timestamp(7)).await)?;
    same("deliveries", lease_one(&on, 1).await?.deliveries, 1)
}

async fn ended(on: On) -> Outcome {
    same("none", must(on.unhold(Timestamp(7)).await)?, false)?;
    must(on.hold(hold(7, "restored")).await)?;
    same("another", must(on.unhold(Timestamp(8)).await)?, false)?;
    same("held", must(on.held().await)?, Some(hold(7, "restored")))?;
    same("this", must(on.unhold(Timestamp(7)).await)?, true)?;
    same("twice", must(on.unhold(Timestamp(7)).await)?, false)
}
