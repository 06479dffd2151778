//! Random histories of a tenant's account, with crashes: every invariant holds after every event.

mod account_history;
mod events;

use super::promises;
use account_history::History;
use events::{Event, event};
use proptest::{collection::vec, prelude::*};
use tests::books::account::{World, h100};
use workflows::{scheduling::admission, tenancy::*};

pub const NAMES: [&str; 4] = ["a", "b", "c", "d"];

/// S-19: each GPU second is charged once to the user and credited once to the lender.
fn every_gpu_second_is_charged_once(history: &History) -> Result<(), TestCaseError> {
    let world = &history.world;
    let closed = world.books.all::<MonthlyUsage>();
    let running = admission::usage_so_far(&world.cohort(), world.books.now);
    let all = || closed.iter().chain(&running).filter_map(|usage| usage.spent.get(&history.kind));
    let sum = |of: &dyn Fn(&UsageCounters) -> u64| all().map(of).sum::<u64>();
    prop_assert_eq!(sum(&|spent| spent.consumed()), history.spent);
    let (borrowed, lent) = (sum(&|spent| spent.borrowed), sum(&|spent| spent.lent));
    prop_assert!(
        borrowed == lent || history.buys && borrowed > lent,
        "loans from the pool have no lender to credit"
    );
    // Usage is added up when the account changes; between changes it is constant.
    let stock = world.cohort().stock[&history.kind];
    let since = world.books.now.0 - world.cohort().counted.0;
    let spent = |before: u64, pieces: u64| before + pieces * since;
    let idle = spent(stock.free_spent, stock.free) + spent(stock.resting_spent, stock.resting);
    prop_assert_eq!(spent(stock.pieces_spent, stock.pieces), idle + history.spent);
    Ok(())
}

fn every_promise_holds(before: &World, history: &History) -> Result<(), TestCaseError> {
    let world = &history.world;
    prop_assert_eq!(world.violations(), Vec::<String>::new());
    promises::what_is_past_stays(before, world)?;
    promises::nobody_was_let_past_a_limit(before, world, &history.kind)?;
    // Free slices of a GPU that another workspace uses are not idle for others, unless the tenant allows GPU sharing.
    let tenant = world.books.find::<Tenant>("acme").unwrap();
    if history.kind == h100() || tenant.allow_gpu_sharing {
        promises::nobody_waits_for_what_is_idle(world, &history.kind)?;
    }
    promises::every_demand_is_raised(world, &history.kind)?;
    every_gpu_second_is_charged_once(history)?;
    prop_assert!(world.books.longest() < 200 << 10);
    Ok(())
}

fn nothing_breaks(mut history: History, events: &[(Event, bool)]) -> Result<(), TestCaseError> {
    for (event, crashes) in events {
        let before = history.world.clone();
        if let Err(error) = history.happen(event, *crashes) {
            let expected = ["node.busy", "ledger.books_differ"].contains(&error.code.as_str());
            prop_assert!(expected && error.code != "ledger.books_differ", "{event:?}: {error:?}");
        }
        every_promise_holds(&before, &history)?;
    }
    Ok(())
}

proptest! {
    #![proptest_config(ProptestConfig { max_shrink_iters: 4_000, ..tests::cases(300) })]

    /// I-3, I-4, I-7 to I-12, I-15, I-20, I-24, S-19, S-32, S-33, S-38, S-43.
    #[test]
    fn no_sequence_of_operations_breaks_an_invariant_of_the_account(
        events in vec((event(), prop::bool::weighted(0.2)), 1..30),
        (lent, bought) in (any::<bool>(), 0..=32_u32),
    ) {
        nothing_breaks(History::new(h100()).bought(bought).lent(lent), &events)?;
    }
}

proptest! {
    #![proptest_config(ProptestConfig { max_shrink_iters: 4_000, ..tests::cases(200) })]

    /// The same for slices, with S-44 and S-45: lent, reclaimed and granted like GPUs.
    #[test]
    fn no_sequence_of_slice_operations_breaks_an_invariant_of_the_account(
        events in vec((event(), prop::bool::weighted(0.2)), 1..30),
        (sharing, lent, bought) in (any::<bool>(), any::<bool>(), 0..=32_u32),
    ) {
        nothing_breaks(History::sliced(sharing).bought(bought).lent(lent), &events)?;
    }
}
