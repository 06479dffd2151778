//! Waiting lists on random histories.

use super::random::Random;
use crate::{
    Deferral, SECOND,
    limits::waiters::{WaitQueues, Waiter},
};
use std::collections::BTreeMap;
use store::{ExecutionId, TaskId, Timestamp};

const TENANTS: [&str; 4] = ["a", "b", "c", "d"];
const KEY: &str = "cluster/eu-1";

fn task(n: u64) -> TaskId {
    TaskId { execution: ExecutionId::new(Timestamp(n), [1; 10]), visit: 1, slot: 0 }
}

fn waiter(tenant: &str, since: Timestamp) -> Waiter {
    let why = Deferral::Full { in_use: 1, of: 1, before: 0 };
    Waiter { tenant: tenant.into(), since, due: since, why }
}

/// S57. A task starts after exactly the announced number of tasks, unless others arrive meanwhile; of any four in a
/// row each waiting tenant has one.
#[test]
fn the_announced_position_is_correct_and_tenants_take_turns() {
    for seed in 0..100 {
        let mut dice = Random::new(seed);
        let (mut lines, mut waiting) = (WaitQueues::default(), BTreeMap::new());
        let now = Timestamp(1_000);
        let mut passed: BTreeMap<&str, usize> = BTreeMap::new();
        for n in 1..150 {
            // The first tenant floods the list.
            let tenant = TENANTS[if dice.below(2) == 0 { 0 } else { dice.below(4) as usize }];
            let since = Timestamp(now.0 + dice.below(100));
            if dice.below(3) > 0 {
                let before = lines.count_ahead(KEY, tenant, task(n), since, now);
                lines.join(KEY, task(n), waiter(tenant, since));
                waiting.insert(task(n), (tenant, since));
                assert_eq!(
                    lines.count_ahead(KEY, tenant, task(n), since, now),
                    before,
                    "joining changes nothing"
                );
            }
            let order = lines.next(KEY, usize::MAX, now);
            assert_eq!(order.len(), waiting.len());
            for (place, task) in order.iter().enumerate() {
                let (tenant, since) = waiting[task];
                assert_eq!(lines.count_ahead(KEY, tenant, *task, since, now), place);
            }
            let Some(first) = order.first().filter(|_| dice.below(2) == 0) else { continue };
            let (served, since) = waiting.remove(first).unwrap();
            let own = waiting.values().filter(|(tenant, _)| *tenant == served);
            assert!(own.min_by_key(|(_, since)| since).is_none_or(|(_, other)| *other >= since));
            lines.remove(*first);
            lines.mark_served(KEY, served);
            passed.retain(|tenant, _| waiting.values().any(|(other, _)| other == tenant));
            for (tenant, _) in waiting.values() {
                passed.entry(tenant).or_default();
            }
            passed.remove(served);
            for (tenant, times) in &mut passed {
                *times += 1;
                assert!(*times < TENANTS.len(), "{tenant} was skipped {times} times");
            }
        }
    }
}

#[test]
fn a_missing_first_task_does_not_block_the_list() {
    let mut lines = WaitQueues::default();
    lines.join(KEY, task(1), waiter("a", Timestamp(0)));
    lines.join(KEY, task(2), Waiter { due: Timestamp(200_000), ..waiter("a", Timestamp(1)) });

    assert_eq!(lines.count_ahead(KEY, "a", task(2), Timestamp(1), Timestamp(0).after(120 * SECOND)), 1);
    assert_eq!(lines.count_ahead(KEY, "a", task(2), Timestamp(1), Timestamp(0).after(121 * SECOND)), 0);
    assert_eq!(lines.next(KEY, 9, Timestamp(121_000)), [task(2)]);
}
