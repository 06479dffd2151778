//! Evictions in flight, and the time after them: victims that do not end, cooldown, and limits on borrowing.

use super::{HOUR, demand, free, lent, why};
use crate::planner::{reclaim, verdict, victims};
use workflows::scheduling::planner::*;

#[test]
fn a_demand_waits_while_gpus_are_being_freed_for_it() {
    let mut snapshot = lent();
    for victim in victims(&reclaim(&snapshot, &demand(4), &free())) {
        snapshot.mark_evicted(victim, "d-1").unwrap();
    }

    let again = plan(&snapshot, &demand(4), &free());

    assert_eq!(again, Ok(PlanAnswer::Wait { freeing: ["r-2".to_owned(), "r-3".to_owned()].into() }));
    let other = reclaim(&snapshot, &Demand { id: "d-2".to_owned(), ..demand(2) }, &free());
    assert_eq!(victims(&other), ["r-1"], "r-1 is in no other plan");
}

#[test]
fn a_victim_that_does_not_end_is_replaced_by_the_next_within_the_guard() {
    let mut snapshot = lent();
    snapshot.mark_evicted("r-3", "d-1").unwrap();
    snapshot.mark_evicted("r-2", "d-1").unwrap();
    let stuck = Demand { stuck: ["r-3".to_owned()].into(), ..demand(4) };
    let guard = |ratio_percent, hard| {
        let guard = Guard { ratio_percent, hard, share_percent: 100, ..Guard::default() };
        Settings { guard: Some(guard), ..Settings::default() }
    };

    let more = reclaim(&snapshot, &stuck, &guard(150, true));

    assert_eq!(victims(&more), ["r-1"], "r-2 is still ending, r-3 does not end");
    assert_eq!(*verdict(&more.explanation, "r-3"), Verdict::Filtered(Filter::Stuck));
    let breach =
        Breach::Ratio { resource: "nvidia.com/gpu".to_owned(), victims: 6, requested: 4, percent: 149 };
    assert_eq!(
        why(&snapshot, &stuck, &guard(149, true)),
        InfeasibleReason::Guard { breaches: vec![breach.clone()] }
    );
    assert_eq!(reclaim(&snapshot, &stuck, &guard(149, false)).breaches, [breach], "stuck victims count too");
}

#[test]
fn a_victim_is_not_admitted_as_a_borrower_during_its_cool_down() {
    let (mut reclaims, calm) =
        (RecentReclaims::default(), CoolDownRules { cooldown: 100, ..CoolDownRules::default() });

    reclaims.record_victim("r-0", 1000);

    assert_eq!(reclaims.cooling_until("r-0", 1099, &calm), Some(1100));
    assert_eq!(reclaims.cooling_until("r-0", 1100, &calm), None);
    assert_eq!(reclaims.cooling_until("r-1", 1000, &calm), None);
}

#[test]
fn three_reclaims_in_an_hour_between_a_pair_halve_its_borrowing_limit() {
    let (mut reclaims, calm) = (RecentReclaims::default(), CoolDownRules::default());

    for at in [0, HOUR, HOUR + 1, HOUR + 2] {
        assert_eq!(reclaims.borrowing_limit("research", 9, at), 9, "{at}");
        reclaims.record_pair("research", "production", at, &calm);
    }

    let last = HOUR + 2;
    assert_eq!(reclaims.borrowing_limit("research", 9, last), 4);
    assert_eq!(reclaims.borrowing_limit("research", 9, last + HOUR), 9);
    assert_eq!(reclaims.borrowing_limit("other", 9, last), 9);
    reclaims.prune(last + HOUR, &calm);
    assert_eq!(reclaims, RecentReclaims::default());
}
