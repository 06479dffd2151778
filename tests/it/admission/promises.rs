//! Invariants of a tenant's account after every event of a history, counted from its rows.

use super::histories::NAMES;
use proptest::prelude::*;
use std::collections::{BTreeMap, BTreeSet};
use store::Timestamp;
use tests::books::account::{World, tenant, workspace};
use workflows::{scheduling::admission, tenancy::*};

/// I-9: a loan that has ended never changes again. I-20: every decision follows again from its grounds.
pub fn what_is_past_stays(before: &World, after: &World) -> Result<(), TestCaseError> {
    let loans: BTreeMap<u64, Loan> =
        after.books.all::<Loan>().into_iter().map(|loan| (loan.number, loan)).collect();
    for loan in before.books.all::<Loan>().into_iter().filter(|loan| loan.state.is_ended()) {
        prop_assert_eq!(Some(&loan), loans.get(&loan.number), "a loan ended twice");
    }
    let known: BTreeSet<u64> =
        before.books.all::<Admission>().iter().map(|decision| decision.number).collect();
    for decision in
        after.books.all::<Admission>().into_iter().filter(|decision| !known.contains(&decision.number))
    {
        let rules = rules(after);
        let (answer, weighed) = admission::admit(&decision.grounds, &rules);
        prop_assert_eq!((answer, weighed), (decision.answer, decision.weighed));
    }
    Ok(())
}

fn rules(world: &World) -> admission::Rules {
    world.books.weigh(admission::Rules::in_force).unwrap().0
}

/// I-7: no workload was admitted beyond nominal quota and borrowing limit; only a quota change exceeds them.
pub fn nobody_was_let_past_a_limit(
    before: &World,
    after: &World,
    kind: &Resource,
) -> Result<(), TestCaseError> {
    for (name, account) in &after.cohort().accounts {
        let (was, is) = (before.cohort().accounts[name].balance(kind), account.balance(kind));
        if is.in_use() > was.in_use() && is.allowance == was.allowance {
            let limit = is.allowance.borrowing_limit.unwrap_or(u64::MAX);
            prop_assert!(is.over_nominal() <= limit, "{name} takes {} with {:?}", is.in_use(), is.allowance);
        }
    }
    Ok(())
}

/// Returns the place in the queue.
fn place(waits: &QueuedWorkload) -> (Timestamp, String) {
    (waits.since, waits.workload.clone())
}

/// Returns true if the queued workload may borrow now.
fn borrower(world: &World, waits: &QueuedWorkload) -> bool {
    let cooling = waits.cooling_until.is_some_and(|until| world.books.now < until);
    waits.preemptible && world.workload(&waits.workload).class == WorkloadClass::Batch && !cooling
}

/// S-32, S-33: no workload waits for GPUs that are idle and available, counted here only from the rows.
pub fn nobody_waits_for_what_is_idle(world: &World, kind: &Resource) -> Result<(), TestCaseError> {
    let cohort = world.cohort();
    let rooms = rooms(world, kind);
    // Kueue's root: the tenant's pool plus all idle lendable quota, minus the use of both.
    let root: i64 = cohort.pool(kind).cast_signed();
    let root: i64 = root
        + cohort
            .balances(kind)
            .map(|(_, b)| {
                let lends = b.allowance.lending_limit.unwrap_or(u64::MAX).min(b.allowance.nominal);
                let own = b.allowance.nominal - lends;
                lends.cast_signed() - b.in_use().saturating_sub(own).cast_signed()
            })
            .sum::<i64>();
    let rules = rules(world);
    let overdue = |waits: &QueuedWorkload| rules.aged_priority(world.books.now.since(waits.entered_at)).1;
    // No workload waits behind one that could never be admitted, even with everything free.
    let ever = |account: &Account, waits: &QueuedWorkload| {
        let allowance = account.balance(kind).allowance;
        let batch = world.workload(&waits.workload).class == WorkloadClass::Batch;
        let all = cohort.potential(&allowance, kind);
        let most = if waits.preemptible && batch { all } else { allowance.nominal };
        waits.requests[kind] <= most
    };
    let old = |name: &str, account: &Account| {
        let waiting = world.waiting(name).into_iter();
        waiting.filter(|waits| overdue(waits) && ever(account, waits)).collect::<Vec<_>>()
    };
    // An overdue workload at the head of its queue makes borrowers wait if their GPUs would help it.
    let helped = NAMES.iter().any(|name| {
        let account = &cohort.accounts[&workspace(name)];
        let balance = account.balance(kind);
        let first = old(name, account).into_iter().min_by_key(place);
        account.admitting == AccountState::Open
            && first.is_some_and(|waits| {
                let inside = balance.in_use() + waits.requests[kind] <= balance.allowance.nominal;
                inside || borrower(world, &waits)
            })
    });
    for name in NAMES {
        let account = &cohort.accounts[&workspace(name)];
        if account.admitting != AccountState::Open {
            continue;
        }
        let balance = account.balance(kind);
        let nominal = balance.allowance.nominal;
        let lends = balance.allowance.lending_limit.unwrap_or(u64::MAX).min(nominal);
        let kept = (nominal - lends).saturating_sub(balance.in_use());
        // A workload that a reclaim serves waits for its grant and for no idle GPU.
        let served = |workload: &str| {
            cohort.reclaims.values().any(|r| r.beneficiaries().any(|served| served.workload == workload))
        };
        for waits in world.waiting(name).into_iter().filter(|waits| !served(&waits.workload)) {
            let asks = waits.requests[kind];
            let then = balance.in_use() + asks;
            let slowed = account.slowed_until.is_some_and(|until| world.books.now < until);
            let own = then <= nominal;
            let limit = balance.allowance.borrowing_limit.unwrap_or(u64::MAX - nominal);
            let borrow = borrower(world, &waits) && !slowed && then <= nominal + limit;
            let behind = |other: QueuedWorkload| place(&other) < place(&waits);
            if (!own && helped) || old(name, account).into_iter().any(behind) {
                continue;
            }
            // Within its own quota a workload has all free GPUs; a borrower has what Kueue leaves it.
            let there = own || kept.cast_signed() + root >= asks.cast_signed();
            let fits = fits(&rooms, &waits, kind);
            prop_assert!(
                !((own || borrow) && there && fits),
                "{} waits in {name} for {asks} idle GPUs",
                waits.workload
            );
        }
    }
    // No reclaim starts for a workload that fits on the free GPUs.
    for demand in world.books.weigh(|view| admission::demands(view, &tenant())).unwrap().0 {
        let waiting = world.waiting(demand.workspace.as_str());
        let waits = waiting.iter().find(|waits| waits.workload == demand.workload).unwrap();
        prop_assert!(!fits(&rooms, waits, kind), "{} fits and is a demand", demand.workload);
        prop_assert!(fits_when_empty(world, waits, kind), "{} fits no node and is a demand", demand.workload);
    }
    Ok(())
}

/// Returns the free GPUs of each node.
fn rooms(world: &World, kind: &Resource) -> Vec<u64> {
    let nodes = world.occupancy().nodes;
    let kinds = nodes.values().filter_map(|kinds| kinds.get(kind.gpu().unwrap()));
    kinds.map(|room| room.assignable()).collect()
}

/// Returns true if the workload fits into these rooms, with each of its groups on one node.
fn fits(rooms: &[u64], waits: &QueuedWorkload, kind: &Resource) -> bool {
    let (asks, groups) = (waits.requests[kind], waits.together.max(1));
    rooms.iter().map(|room| room / groups).sum::<u64>() >= asks / groups && asks.is_multiple_of(groups)
}

/// Returns true if the workload would fit on the empty nodes in service.
fn fits_when_empty(world: &World, waits: &QueuedWorkload, kind: &Resource) -> bool {
    let nodes = world.occupancy().nodes;
    let kinds = nodes.values().filter_map(|kinds| kinds.get(kind.gpu().unwrap()));
    let rooms: Vec<u64> = kinds.map(|room| room.capacity).collect();
    let (asks, group) = (waits.requests[kind], waits.together.max(1));
    let (whole, rest) = (asks / group, asks % group);
    let groups: u64 = rooms.iter().map(|room| room / group).sum();
    let beside = groups > whole || rooms.iter().any(|room| room % group >= rest);
    groups >= whole && (rest == 0 || beside)
}

/// S-38: a workload that waits within its own quota while others borrow is a demand, or a reclaim is executing. A workload that fits
/// on no node in service, even an empty one, does not wait behind borrowers. A reclaim for it would evict for nothing (P-5, P-6: a
/// demand is placed whole or not at all), so it is no demand.
pub fn every_demand_is_raised(world: &World, kind: &Resource) -> Result<(), TestCaseError> {
    let cohort = world.cohort();
    if cohort.reclaims.contains_key(kind) {
        return Ok(());
    }
    let beyond = |except: &str| {
        cohort.balances(kind).any(|(name, balance)| name.as_str() != except && balance.over_nominal() > 0)
    };
    let demands = world.books.weigh(|view| admission::demands(view, &tenant())).unwrap().0;
    for name in NAMES {
        let account = &cohort.accounts[&workspace(name)];
        let balance = account.balance(kind);
        let rooms = rooms(world, kind);
        let inside = world.waiting(name).iter().any(|waits| {
            let own = balance.in_use() + waits.requests[kind] <= balance.allowance.nominal;
            own && !fits(&rooms, waits, kind) && fits_when_empty(world, waits, kind)
        });
        if inside && beyond(name) && account.admitting == AccountState::Open {
            prop_assert!(!demands.is_empty(), "a demand of {name} is not raised");
        }
    }
    Ok(())
}
