//! Tenants take turns, so that one tenant's flood delays no other, and a deferred task can be made due earlier.

use super::{case::Outcome, fixture::*};
use crate::{Commit, Lease, Record, Timestamp, Write};
use std::collections::BTreeMap;

pub(super) const CASES: &[Named] = &[
    ("one task of a tenant is leased next, whatever a flood of another has waiting", |on| boxed(flood(on))),
    ("of k tenants with something due, each has one of any k leases in a row", |on| boxed(bounded(on))),
    ("the same over random histories", |on| boxed(random_histories(on))),
    ("a task in memory is leased in its turn, once, like any other", |on| boxed(at_hand(on))),
    ("a tenant's own tasks are leased by due, first attempts and retries", |on| boxed(within(on))),
    ("a tenant that had nothing due does not save its turns up", |on| boxed(no_saving(on))),
    ("a task is its execution's tenant's, however it was scheduled", |on| boxed(whose(on))),
    ("an unleased task can be made due earlier, and not later", |on| boxed(hastened(on))),
];

/// Execution `n`, of tenant `tenant`, with `tasks` tasks due at `due`.
fn execution_with_tasks(n: u64, tenant: &str, tasks: u32, due: u64) -> Commit {
    let record = Record { tenant: tenant.into(), ..record(n) };
    Commit {
        record: Some(Write { record, expected: None }),
        schedule: (0..tasks).map(|slot| task(n, slot, due)).collect(),
        ..Commit::default()
    }
}

async fn lease_next(on: &On, now: u64) -> Result<Option<Lease>, String> {
    Ok(expect_ok(on.lease("worker", Timestamp(now), TTL, 1).await)?.pop())
}

/// S57.
async fn flood(on: On) -> Outcome {
    commit(&on, execution_with_tasks(1, "a", 1_000, 1)).await?;
    for _ in 0..10 {
        lease_next(&on, 5).await?;
    }
    commit(&on, execution_with_tasks(2, "b", 1, 5)).await?;
    let next = lease_next(&on, 5).await?;
    same("next", next.map(|lease| lease.task.id.execution), Some(id(2)))
}

async fn bounded(on: On) -> Outcome {
    for (n, tenant, tasks) in [(1, "a", 40), (2, "b", 12), (3, "c", 12), (4, "", 12)] {
        commit(&on, execution_with_tasks(n, tenant, tasks, n)).await?;
    }
    let mut order = Vec::new();
    for batch in [1, 3, 8, 2, 4, 5, 9, 16] {
        let leases = expect_ok(on.lease("worker", Timestamp(50), TTL, batch).await)?;
        order.extend(leases.into_iter().map(|lease| lease.task.id.execution));
    }
    for four in order.windows(4) {
        let mut four = four.to_vec();
        four.sort_unstable();
        same("four in a row", four, vec![id(1), id(2), id(3), id(4)])?;
    }
    Ok(())
}

/// A store without a task in memory is leased from as usual.
async fn at_hand(on: On) -> Outcome {
    for (n, tenant) in [(1, "a"), (2, "b"), (3, "c")] {
        commit(&on, execution_with_tasks(n, tenant, 12, n)).await?;
    }
    same(
        "before it is due",
        on.lease_from_memory("worker", Timestamp(0), TTL).map(|lease| lease.task.id),
        None,
    )?;
    let (mut order, mut seen) = (Vec::new(), BTreeMap::new());
    for n in 0..36 {
        let at_once = if n % 3 > 0 { on.lease_from_memory("worker", Timestamp(50), TTL) } else { None };
        let lease = match at_once {
            Some(lease) => lease,
            None => lease_next(&on, 50).await?.ok_or("no more tasks are leased")?,
        };
        same("deliveries and end", (lease.deliveries, lease.until), (1, Timestamp(50).after(TTL)))?;
        expect_ok(on.renew(lease.task.id, lease.epoch, Timestamp(60).after(TTL)).await)?;
        let n = (1..=3).find(|n| id(*n) == lease.task.id.execution).unwrap_or_default();
        same("its work", &lease.task.body, &task(n, lease.task.id.slot, 1).body)?;
        order.push(lease.task.id.execution);
        same("handed out before", seen.insert(lease.task.id, lease.epoch), None)?;
    }
    for three in order.windows(3) {
        let mut three = three.to_vec();
        three.sort_unstable();
        same("three in a row", three, vec![id(1), id(2), id(3)])?;
    }
    same("more", on.lease_from_memory("worker", Timestamp(50), TTL).map(|lease| lease.task.id), None)
}

/// A small generator, so that the cases need no other crate.
struct Dice(u64);

impl Dice {
    fn below(&mut self, end: u64) -> u64 {
        self.0 = self.0.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        (self.0 >> 33) % end.max(1)
    }
}

/// For each tenant, how many leases it has waited with a due task.
async fn random_histories(on: On) -> Outcome {
    const TENANTS: [&str; 5] = ["", "a", "b", "c", "d"];
    let (mut dice, mut now, mut next) = (Dice(7), 1_u64, 1_u64);
    let mut owner: BTreeMap<crate::ExecutionId, &str> = BTreeMap::new();
    // By tenant: the number of leases of others while it had a due task.
    let mut passed: BTreeMap<&str, usize> = BTreeMap::new();
    let mut held: Vec<Lease> = Vec::new();
    for _ in 0..600 {
        match dice.below(6) {
            0 => {
                // The first tenant floods.
                let which = if dice.below(2) == 0 { 1 } else { dice.below(5) as usize };
                let tenant = TENANTS.get(which).copied().unwrap_or_default();
                commit(
                    &on,
                    execution_with_tasks(next, tenant, 1 + dice.below(3) as u32, now + dice.below(20)),
                )
                .await?;
                owner.insert(id(next), tenant);
                next += 1;
            }
            1 => now += dice.below(6),
            2 if !held.is_empty() => {
                let lease = held.swap_remove(dice.below(held.len() as u64) as usize);
                // Refused if the lease has expired and another worker has the task.
                let _ = on.commit(settle(&lease)).await;
            }
            3 if !held.is_empty() => {
                let lease = held.swap_remove(dice.below(held.len() as u64) as usize);
                let due = Timestamp(now + dice.below(9));
                expect_ok(on.release(lease.task.id, lease.epoch, due, lease.deliveries).await)?;
            }
            _ => {
                let due = due_tenants(&on, &owner, &held, now).await?;
                let Some(lease) = lease_next(&on, now).await? else {
                    same("nothing was due", due, Vec::new())?;
                    continue;
                };
                let served = owner.get(&lease.task.id.execution).copied().unwrap_or_default();
                expect_true("what is leased was due", due.contains(&served))?;
                passed.retain(|tenant, _| due.contains(tenant));
                for tenant in due.iter().filter(|tenant| **tenant != served) {
                    let times = passed.entry(tenant).or_default();
                    *times += 1;
                    expect_true("a tenant waits for one turn of each other", *times < TENANTS.len())?;
                }
                passed.remove(served);
                held.retain(|other| other.task.id != lease.task.id);
                held.push(lease);
            }
        }
    }
    Ok(())
}

async fn due_tenants<'a>(
    on: &On,
    owner: &BTreeMap<crate::ExecutionId, &'a str>,
    held: &[Lease],
    now: u64,
) -> Result<Vec<&'a str>, String> {
    let mut due = std::collections::BTreeSet::new();
    for (execution, tenant) in owner {
        for task in expect_ok(on.tasks(*execution).await)? {
            let until = held.iter().find(|lease| lease.task.id == task.id).map(|lease| lease.until);
            if task.due <= Timestamp(now) && until.is_none_or(|until| until <= Timestamp(now)) {
                due.insert(*tenant);
            }
        }
    }
    Ok(due.into_iter().collect())
}

async fn within(on: On) -> Outcome {
    commit(&on, execution_with_tasks(1, "a", 1, 5)).await?;
    commit(&on, execution_with_tasks(2, "a", 1, 7)).await?;
    for now in 10..60 {
        let lease = lease_next(&on, now).await?.ok_or("nothing was due")?;
        if lease.task.id == task_id(2, 0) {
            return expect_true("the first attempt had its turn at once", now == 11);
        }
        expect_ok(on.release(lease.task.id, lease.epoch, Timestamp(now), lease.deliveries).await)?;
    }
    Err("a task that is retried without end keeps another of its tenant from its first attempt".into())
}

async fn no_saving(on: On) -> Outcome {
    commit(&on, execution_with_tasks(1, "a", 20, 1)).await?;
    for _ in 0..10 {
        lease_next(&on, 2).await?;
    }
    commit(&on, execution_with_tasks(2, "b", 10, 3)).await?;
    let mut order = Vec::new();
    for _ in 0..4 {
        order.extend(lease_next(&on, 3).await?.map(|lease| lease.task.id.execution));
    }
    same("order", order, vec![id(2), id(1), id(2), id(1)])
}

async fn whose(on: On) -> Outcome {
    commit(&on, execution_with_tasks(1, "a", 50, 1)).await?;
    commit(&on, execution_with_tasks(2, "b", 0, 1)).await?;
    // Of the platform itself: tasks of tenants must not be counted as these.
    commit(&on, execution_with_tasks(4, "", 1, 2)).await?;
    lease_next(&on, 1).await?;
    // By a commit of another execution, and before there is a record.
    commit(&on, schedule(vec![task(2, 0, 2), task(3, 0, 2)])).await?;
    commit(&on, execution_with_tasks(3, "c", 0, 2)).await?;
    let mut first = Vec::new();
    for _ in 0..4 {
        first.extend(lease_next(&on, 2).await?.map(|lease| lease.task.id.execution));
    }
    same("turns", first, vec![id(4), id(2), id(3), id(1)])?;
    let moved = Record { tenant: "a".into(), ..record(2) };
    commit(&on, Commit { schedule: vec![task(2, 1, 2)], ..Commit::default() }).await?;
    commit(&on, update(moved, 1)).await?;
    let next = lease_next(&on, 2).await?.map(|lease| lease.task.id.execution);
    same("of a by now, which has older ones", next, Some(id(1)))
}

async fn hastened(on: On) -> Outcome {
    commit(&on, schedule(vec![task(1, 0, 1)])).await?;
    let held = lease_one(&on, 1).await?;
    same("a held one", expect_ok(on.hasten(held.task.id, Timestamp(1)).await)?, false)?;
    expect_ok(on.release(held.task.id, held.epoch, Timestamp(90), 0).await)?;
    same("put back", expect_ok(on.hasten(held.task.id, Timestamp(95)).await)?, true)?;
    same("next", expect_ok(on.next_due().await)?, Some(Timestamp(90)))?;
    same("brought forward", expect_ok(on.hasten(held.task.id, Timestamp(20)).await)?, true)?;
    same("next", expect_ok(on.next_due().await)?, Some(Timestamp(20)))?;
    same("deliveries", lease_one(&on, 20).await?.deliveries, 1)?;
    same("none", expect_ok(on.hasten(task_id(9, 9), Timestamp(1)).await)?, false)
}
